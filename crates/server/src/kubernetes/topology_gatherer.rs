//! Answers to the Needs of topologies, which only a leader gathers: from its watches if they are current.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::contract::{DefinitionError, Definitions};
use super::dry_run::DryRuns;
use super::extensions::ExtensionCaller;
use super::gather::side_by_side;
use super::live::LiveReader;
use super::managed::ManagedObjects;
use super::overload::ApiOverload;
use super::unlisted::Unlisted;
use crate::telemetry::metrics::Metrics;
use model::hub::{GROUP, Object, ObjectKey, ObjectRef, ResourceDefinition};
use model::world::{Answer, Ask, Found, Need};

/// Gathers the facts of topologies.
#[derive(Debug)]
pub(crate) struct TopologyGatherer {
    managed: Arc<ManagedObjects>,
    definitions: Definitions,
    dry_runs: DryRuns,
    /// `None` while the feature gate is off.
    extensions: Option<Arc<ExtensionCaller>>,
    live: LiveReader,
}

/// Why needs have no answers at the moment. The run draws no conclusions from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// These caches are not listed yet (DEC-100).
    Unlisted(BTreeSet<Unlisted>),
    /// The API server is busy (DEC-106).
    Overload(ApiOverload),
}

impl From<Unlisted> for Unanswered {
    fn from(unlisted: Unlisted) -> Self {
        Unanswered::Unlisted(BTreeSet::from([unlisted]))
    }
}

impl From<ApiOverload> for Unanswered {
    fn from(overload: ApiOverload) -> Self {
        Unanswered::Overload(overload)
    }
}

impl Unanswered {
    /// Combines both; unlisted caches take precedence, since they report when they are listed.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Unanswered::Unlisted(mut all), Unanswered::Unlisted(more)) => {
                all.extend(more);
                Unanswered::Unlisted(all)
            }
            (Unanswered::Overload(one), Unanswered::Overload(other)) => Unanswered::Overload(one.and(other)),
            (unlisted @ Unanswered::Unlisted(_), _) | (_, unlisted) => unlisted,
        }
    }
}

impl TopologyGatherer {
    /// A gatherer that uses these watches, and reads from the API server what they leave out. Dry runs are requests
    /// like writes, and go through `writer`.
    pub(crate) fn new(
        client: kube::Client,
        writer: kube::Client,
        managed: Arc<ManagedObjects>,
        definitions: Definitions,
        extensions: Option<Arc<ExtensionCaller>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let dry_runs = DryRuns::new(writer, metrics.clone());
        TopologyGatherer { managed, definitions, dry_runs, extensions, live: LiveReader::new(client, metrics) }
    }

    /// The answers to needs, gathered concurrently, at `deadline` at the latest.
    ///
    /// # Errors
    /// Names the caches that are not listed yet, or the reason why the API server does not answer.
    pub(crate) async fn gather_all(
        &self,
        needs: impl IntoIterator<Item = Need, IntoIter: Send>,
        deadline: Instant,
    ) -> Result<Vec<(Need, Answer)>, Unanswered> {
        let answers = side_by_side(needs, |need| async move { (self.answer(&need, deadline).await, need) }).await;
        let (mut answered, mut unanswered) = (Vec::new(), None);
        for (need, answer) in answers {
            match (answer, unanswered.take()) {
                (Ok(answer), before) => {
                    answered.push((need, answer));
                    unanswered = before;
                }
                (Err(one), None) => unanswered = Some(one),
                (Err(one), Some(before)) => unanswered = Some(Unanswered::and(before, one)),
            }
        }
        unanswered.map_or(Ok(answered), Err)
    }

    /// Drops the cached data of a deleted Cluster.
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.live.forget(cluster);
    }

    /// Whether needs no longer wait for this cache.
    pub(crate) fn has(&self, unlisted: &Unlisted) -> bool {
        match unlisted {
            Unlisted::Kind(kind) => self.managed.has_listed(kind),
            Unlisted::Definitions => *self.definitions.listed().borrow(),
            Unlisted::ExtensionConfigs | Unlisted::Extension(_) => {
                self.extensions.as_ref().is_none_or(|extensions| extensions.has(unlisted))
            }
        }
    }

    /// Calls `on_listing` each time a cache that may have been missing is listed; never ends.
    pub(crate) async fn follow_listings(&self, on_listing: impl Fn()) {
        let (mut kinds, mut definitions) = (self.managed.listings(), self.definitions.listed());
        let mut extensions = self.extensions.as_ref().map(|extensions| extensions.changes());
        let registered = async |changes: &mut Option<watch::Receiver<u64>>| match changes {
            Some(changes) => drop(changes.changed().await),
            None => std::future::pending().await,
        };
        let mut has_definitions = false;
        loop {
            tokio::select! {
                _ = kinds.changed() => {}
                _ = definitions.wait_for(|is_listed| *is_listed), if !has_definitions => has_definitions = true,
                () = registered(&mut extensions) => {}
            }
            on_listing();
        }
    }

    async fn answer(&self, need: &Need, deadline: Instant) -> Result<Answer, Unanswered> {
        Ok(match need {
            Need::Object(reference) => reference.answer(self.object(reference, deadline).await?),
            Need::List(selection) => selection.answer(self.managed.list(selection, deadline).await?),
            Need::Definition(name) => name.answer(match self.definitions.labels(&name.0, deadline).await {
                Ok(labels) => Found::Yes(Arc::new(ResourceDefinition { labels, ..ResourceDefinition::default() })),
                Err(DefinitionError::Missing(_)) => Found::Absent,
                Err(DefinitionError::NotListed) => return Err(Unlisted::Definitions.into()),
            }),
            Need::DryRun(call) => self.dry_runs.answer(call, deadline).await?,
            need => {
                if let Some(extensions) = &self.extensions
                    && let Some(answer) = extensions.answer(need, deadline).await?
                {
                    return Ok(answer);
                }
                self.live.answer(need, deadline).await
            }
        })
    }

    /// The object of a reference. It is absent only if the API server says so: a watch may lag, and of most kinds it
    /// shows only objects of topologies (CS-13). A health check is looked up by its name, and most often there is none.
    async fn object(&self, reference: &ObjectRef, deadline: Instant) -> Result<Found<Arc<Object>>, Unanswered> {
        Ok(match self.managed.object(reference, deadline).await? {
            Found::Absent if (reference.group(), &*reference.kind) != (GROUP, "MachineHealthCheck") => {
                self.live.managed_object(reference, deadline).await?
            }
            found => found,
        })
    }
}
