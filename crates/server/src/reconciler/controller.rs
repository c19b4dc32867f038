//! The ClusterClass controller: which events queue a class, and when it is retried.
//!
//! ```text
//! ClusterClasses ────────────► index of references ─┐
//!   events                                          │ which classes?
//! CustomResourceDefinitions ────────────────────────┤
//! templates (kinds that classes refer to) ──────────┴─► queue ─► class.rs ─► ok, or a retry
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, info_span};

use super::backoff::Backoff;
use super::class::{ClassReconciler, ReconcileError};
use super::postponed::Postponed;
use super::raw::RawClass;
use super::runs::{
    Conclusion, NextRun, RetryDecision, RunFailure, RunOutcome, SHORT_REQUEUE, conclude, count, resync, run_woken,
};
use super::setup::Setup;
use super::users::Users;
use crate::kubernetes::address;
use crate::kubernetes::contract::Definitions;
use crate::kubernetes::events::Recorder;
use crate::kubernetes::extensions::ExtensionCaller;
use crate::kubernetes::observations::{Mirror, Observation, StoreChange, WatchedKind};
use crate::kubernetes::overload::ApiOverload;
use crate::kubernetes::templates::{ObjectKind, Templates};
use crate::kubernetes::{WatchSelection, observations};
use crate::telemetry::metrics::Metrics;
use engine::extensions::registered_name;
use engine::topology::class_references::references;
use model::hub::{ObjectKey, TemplateRef};
use model::world::Scope;

/// The name of the controller in metrics.
const NAME: &str = "clusterclass";
/// The reporting controller of events.
const REPORTER: &str = "clusterclass-controller";
/// Number of concurrent runs.
const WORKERS: u16 = 10;
/// Timeout of a run (RS-10).
const RUN_LIMIT: Duration = Duration::from_mins(1);

/// The ClusterClass controller. It reconciles the classes in the scope of the cached facts.
#[derive(Debug)]
pub struct ClassController(pub Setup);

impl ClassController {
    /// Watches and reconciles until dropped (CCR-01).
    pub async fn run(self: Arc<Self>, definitions: Definitions) {
        let Setup { client, leadership, cache, metrics, extensions } = &self.0;
        let (wake, woken) = mpsc::unbounded();
        let index = Arc::new(Index { users: Mutex::default(), discovering: Mutex::default(), wake });
        let changes = definitions.changes();
        let templates =
            Arc::new(Templates::new(client.clone(), cache.facts().scope().only_namespace(), metrics.clone(), {
                let index = index.clone();
                move |kind, template| index.wake_users_of_template(kind, template.as_ref())
            }));
        let classes = Mirror::for_resource(());
        let reconciler = Arc::new(ClassReconciler {
            writer: self.0.writer(),
            leadership: leadership.clone(),
            definitions,
            templates: templates.clone(),
            backoff: Backoff::default(),
            postponed: Postponed::new(NAME),
            extensions: extensions.clone(),
            cache: cache.clone(),
            events: Recorder::new(self.0.writer(), REPORTER),
            metrics: metrics.clone(),
        });
        let follow_definitions = changes.for_each(async |name| {
            index.wake_users_of_definition(name.as_deref());
            resume(&reconciler, &index);
        });
        let runs = self.runs(&reconciler, &index, classes.store().clone(), woken);
        let follow_classes = self.follow_classes(classes, &index, &templates, &reconciler);
        tokio::select! {
            () = runs => {}
            () = follow_classes => {}
            () = follow_definitions => {}
            () = follow_extensions(extensions.as_deref(), &index, &reconciler) => {}
        }
    }

    /// Reconciles queued classes, one run at a time for each class.
    async fn runs(
        &self,
        reconciler: &Arc<ClassReconciler>,
        index: &Arc<Index>,
        classes: Store<RawClass>,
        woken: mpsc::UnboundedReceiver<ObjectRef<RawClass>>,
    ) {
        let run = |class: Arc<RawClass>| {
            let (reconciler, index, metrics) = (reconciler.clone(), index.clone(), self.0.metrics.clone());
            let span = info_span!("reconcile", class = %class.key());
            async move { run(&class, &reconciler, &index, &metrics).await }.instrument(span)
        };
        run_woken((NAME, &self.0.metrics), classes, woken, WORKERS, run).await;
    }

    /// Keeps the classes and the index of their references current.
    async fn follow_classes(
        &self,
        mut classes: Mirror<RawClass>,
        index: &Index,
        templates: &Templates,
        reconciler: &ClassReconciler,
    ) {
        let Setup { client, cache, metrics, .. } = &self.0;
        let scope = cache.facts().scope().clone();
        let api = address::in_scope::<RawClass>(client.clone(), &scope);
        let store = classes.store().clone();
        let watched = WatchedKind::own("ClusterClass", &<RawClass as kube::Resource>::api_version(&()));
        let mut seen = observations::follow(api, WatchSelection::default(), watched, metrics.clone());
        while let Some(seen) = seen.next().await {
            classes.take(in_scope(&scope, seen), |change| {
                match change {
                    StoreChange::All => {
                        index.replace(&store.state());
                        index.wake_all();
                    }
                    StoreChange::One(class) if store.get(&ObjectRef::from_obj(class)).is_some() => {
                        index.put(class);
                        index.wake(&class.key());
                    }
                    StoreChange::One(gone) => {
                        index.remove(&gone.key());
                        reconciler.backoff.forget(&gone.key());
                        reconciler.postponed.forget(&gone.key());
                    }
                }
                templates.keep_only(&index.kinds());
            });
        }
    }
}

/// Queues the classes that waited for caches which are listed by now.
fn resume(reconciler: &ClassReconciler, index: &Index) {
    reconciler.postponed.take(|unlisted| reconciler.has(unlisted)).iter().for_each(|class| index.wake(class));
}

/// Queues the classes whose variables an extension defines, each time its ExtensionConfig is registered or deleted
/// (RH-16.7), and those that waited for the list of extensions (DEC-100).
async fn follow_extensions(extensions: Option<&ExtensionCaller>, index: &Index, reconciler: &ClassReconciler) {
    let Some(extensions) = extensions else { return std::future::pending().await };
    let (mut changes, mut known) = (extensions.changes(), BTreeMap::new());
    loop {
        resume(reconciler, index);
        let now = extensions.versions();
        let names: BTreeSet<&String> = known.keys().chain(now.keys()).collect();
        names
            .into_iter()
            .filter(|name| known.get(*name) != now.get(*name))
            .for_each(|name| index.wake_discovering(name));
        known = now;
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// The observation restricted to classes in scope: a class that left the scope counts as deleted (DEC-37).
fn in_scope(scope: &Scope, seen: Observation<RawClass>) -> Observation<RawClass> {
    let is_ours = |class: &RawClass| *scope == Scope::default() || scope.has(&class.labels());
    match seen {
        // It may have been ours until now.
        Observation::There { object, .. } if !is_ours(&object) => Observation::Gone(object),
        seen => seen,
    }
}

/// Runs once; returns when the next run is due if nothing queues the class before.
async fn run(class: &RawClass, reconciler: &ClassReconciler, index: &Index, metrics: &Metrics) -> NextRun {
    let (key, started) = (class.key(), Instant::now());
    let outcome = timeout(RUN_LIMIT, reconciler.run(class)).await.unwrap_or(Err(ReconcileError::Late));
    if let Err(ReconcileError::Unlisted(unlisted)) = &outcome {
        reconciler.postponed.add(&key, &BTreeSet::from([unlisted.clone()]));
        // It may have become ready before the class was noted.
        resume(reconciler, index);
    }
    let done = outcome.map(|outcome| {
        if outcome != RunOutcome::Changed {
            reconciler.backoff.rested(&key);
        }
        // No event says that an extension defines other variables than before: the resync asks it (PERF-05).
        (NextRun::requeue(resync(&key)), outcome.name())
    });
    let Conclusion { action, outcome, report } =
        conclude(&key, done, &reconciler.backoff, "Failed to reconcile ClusterClass");
    count(metrics, NAME, outcome, started);
    reconciler.report(class, report).await;
    action
}

impl RunFailure for ReconcileError {
    fn verdict(&self) -> RetryDecision {
        match self {
            ReconcileError::NotLeading(_) => RetryDecision::NotLeading,
            // An event with the newer version is on its way.
            ReconcileError::Conflict => RetryDecision::Again(SHORT_REQUEUE, "conflict"),
            ReconcileError::Stale => RetryDecision::Again(SHORT_REQUEUE, "stale"),
            ReconcileError::Unlisted(_) => RetryDecision::Postponed,
            ReconcileError::Held(held) => RetryDecision::Held(held.wait),
            ReconcileError::Overloaded(overload) => RetryDecision::for_failure(Some(overload)),
            ReconcileError::Status(error) => RetryDecision::for_failure(ApiOverload::from_error(error).as_ref()),
            _ => RetryDecision::Failed,
        }
    }
}

/// The index of the templates of classes, and the queue of classes.
struct Index {
    users: Mutex<Users>,
    /// The ExtensionConfigs that define variables of classes.
    discovering: Mutex<BTreeMap<ObjectKey, BTreeSet<String>>>,
    wake: mpsc::UnboundedSender<ObjectRef<RawClass>>,
}

impl Index {
    fn put(&self, class: &RawClass) {
        self.users().put(class.key(), references_of(class));
        self.discovering().insert(class.key(), discovering(class));
    }

    fn remove(&self, class: &ObjectKey) {
        self.discovering().remove(class);
        self.users().remove(class);
    }

    fn replace(&self, classes: &[Arc<RawClass>]) {
        let mut users = self.users();
        *users = Users::default();
        classes.iter().for_each(|class| users.put(class.key(), references_of(class)));
        *self.discovering() = classes.iter().map(|class| (class.key(), discovering(class))).collect();
    }

    fn discovering(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeSet<String>>> {
        self.discovering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_discovering(&self, config: &str) {
        let discovering = self.discovering();
        let classes = discovering.iter().filter(|(_, configs)| configs.contains(config));
        classes.for_each(|(class, _)| self.wake(class));
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All kinds of templates of all classes.
    fn kinds(&self) -> BTreeSet<ObjectKind> {
        self.users().kinds()
    }

    fn wake(&self, class: &ObjectKey) {
        // The receiver is gone when this process no longer leads.
        let _ = self.wake.unbounded_send(ObjectRef::new(&class.name).within(&class.namespace));
    }

    fn wake_all(&self) {
        self.users().classes().for_each(|class| self.wake(class));
    }

    fn wake_users_of_definition(&self, name: Option<&str>) {
        self.users().of_definition(name).into_iter().for_each(|class| self.wake(class));
    }

    fn wake_users_of_template(&self, kind: &ObjectKind, template: Option<&ObjectKey>) {
        self.users().of_template(kind, template).into_iter().for_each(|class| self.wake(class));
    }
}

/// The ExtensionConfigs that define variables of a class.
fn discovering(class: &RawClass) -> BTreeSet<String> {
    let patches = class.hub.iter().flat_map(|hub| hub.spec.discovering_patches());
    let config = |name: &str| registered_name(name).map(|(_, config)| config.to_owned());
    patches.filter_map(|(_, external)| config(&external.discover_variables_extension)).collect()
}

fn references_of(class: &RawClass) -> Vec<TemplateRef> {
    let references = class.hub.iter().flat_map(|hub| references(&hub.spec));
    references.cloned().collect()
}

#[cfg(test)]
mod tests;
