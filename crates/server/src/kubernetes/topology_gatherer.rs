//! Answers to the Needs of topologies, which only a leader has: from its watches if they are current.

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

/// What answers.
#[derive(Debug)]
pub(crate) struct TopologyGatherer {
    managed: Arc<ManagedObjects>,
    definitions: Definitions,
    dry_runs: DryRuns,
    /// `None` while the feature gate is off.
    extensions: Option<Arc<ExtensionCaller>>,
    live: LiveReader,
}

/// Why needs have no answers for now. Nothing is concluded from that.
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
    /// Both; caches that are not listed come first, since the end of that is known.
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
    /// Answers from these watches, and by asking the API server for what they do not show. Dry runs are requests like writes,
    /// and go through `writer`.
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

    /// The answers to needs, gathered side by side, at `deadline` at the latest.
    ///
    /// # Errors
    /// Names the caches that are not listed yet, or why the API server does not answer.
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

    /// Drops what is kept for a Cluster that is gone.
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.live.forget(cluster);
    }

    /// Whether questions do not wait for this any more.
    pub(crate) fn has(&self, unlisted: &Unlisted) -> bool {
        match unlisted {
            Unlisted::Kind(kind) => self.managed.has_listed(kind),
            Unlisted::Definitions => *self.definitions.listed().borrow(),
            Unlisted::ExtensionConfigs | Unlisted::Extension(_) => {
                self.extensions.as_ref().is_none_or(|extensions| extensions.has(unlisted))
            }
        }
    }

    /// Waits, again and again, until something becomes known that may have been missing; calls `told` each time.
    pub(crate) async fn follow_listings(&self, told: impl Fn()) {
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
            told();
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

    /// A reference leads to something until the API server says otherwise: a watch may lag, and of most kinds it shows only
    /// what belongs to topologies (CS-13). A health check is looked for by its name, and most often there is none.
    async fn object(&self, reference: &ObjectRef, deadline: Instant) -> Result<Found<Arc<Object>>, Unanswered> {
        Ok(match self.managed.object(reference, deadline).await? {
            Found::Absent if (reference.group(), &*reference.kind) != (GROUP, "MachineHealthCheck") => {
                self.live.managed_object(reference, deadline).await?
            }
            found => found,
        })
    }
}
