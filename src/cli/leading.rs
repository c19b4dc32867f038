//! The work of the leader: leader election and the controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

use super::args::ServeArgs;
use super::args::leading::{ControllerFlags, Controllers};
use super::tasks::supervise;
use engine::topology::{Options, SizeLimit};
use machines::lifecycle::{GroupKind, MachineSettings};
use model::hub::Kind;
use schema::budget::MemoryPool;
use server::extension_client::Clients;
use server::kubernetes::cache::Cache;
use server::kubernetes::contract::Definitions;
use server::kubernetes::extensions::ExtensionCaller;
use server::kubernetes::history::ApiHistory;
use server::kubernetes::incumbent::{self, Incumbent};
use server::kubernetes::lease::{Candidacy, Election, Leadership};
use server::reconciler::controller::ClassController;
use server::reconciler::extensions::ExtensionController;
use server::reconciler::lifecycle::LifecycleController;
use server::reconciler::lifecycle::workloads::WorkloadClusters;
use server::reconciler::setup::Setup;
use server::reconciler::templates::TemplatesController;
use server::reconciler::topology::{Deletions, TopologyController};
use server::telemetry::metrics::Metrics;

/// The namespace of an installation.
pub(super) const NAMESPACE: &str = "topologist-system";
/// Usual maximum time to find out that Cluster API's controllers do not run.
const SETTLED: Duration = Duration::from_secs(2);
/// The time between two log lines while the API server does not answer.
const REPEATED: Duration = Duration::from_secs(5);
/// Time after its start in which an API server may forbid requests that it allows later.
const STARTING: Duration = Duration::from_secs(10);
/// The time between two log lines of controllers that wait.
const REMINDER: Duration = Duration::from_secs(30);
/// Timeout of giving the lease back at a clean stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

impl ControllerFlags {
    /// The namespace of the Lease and of the other objects of the installation.
    fn namespace(&self, client: &kube::Client, is_in_pod: bool) -> String {
        let own = || if is_in_pod { client.default_namespace() } else { NAMESPACE }.to_owned();
        self.lease_namespace.clone().unwrap_or_else(own)
    }
}

/// Dedicated resources of the leader election: neither many requests nor computations delay a renewal of the Lease
/// (DEC-101).
pub(super) struct ElectionSetup {
    /// A client with a separate connection.
    pub client: kube::Client,
    pub runtime: Handle,
    /// Learns of a Lease whose version goes back.
    pub history: Arc<ApiHistory>,
}

/// The participation in the leader election.
#[derive(Debug)]
pub(super) struct Leading {
    pub leadership: Leadership,
    /// The namespace of the Lease and of the other objects of the installation.
    pub namespace: String,
    stop: CancellationToken,
    stopped: CancellationToken,
}

impl Leading {
    /// Starts the election.
    fn start(
        options: &ServeArgs,
        leases: &ElectionSetup,
        metrics: &Arc<Metrics>,
        tasks: &mut JoinSet<&'static str>,
    ) -> Leading {
        let flags = &options.leading;
        let namespace = flags.namespace(&leases.client, options.is_in_pod());
        let candidacy = Candidacy::new(&*namespace, &*flags.lease_name, flags.lease_duration);
        let (election, leadership) = Election::new(leases.client.clone(), candidacy, metrics.clone());
        let election = election.watching(leases.history.clone());
        let (stop, stopped) = (CancellationToken::new(), CancellationToken::new());
        let leading = Leading { leadership, namespace, stop, stopped };
        let (stop, stopped) = (leading.stop.clone(), leading.stopped.clone());
        let election = AbortOnDropHandle::new(leases.runtime.spawn(async move {
            election.run(stop).await;
            stopped.cancel();
        }));
        supervise(tasks, "leader election", async move { drop(election.await) });
        leading
    }

    /// Ends the work of the leader, and gives the lease back.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        if timeout(STOP_LIMIT, self.stopped.cancelled()).await.is_err() {
            warn!("Leader election did not stop in time");
        }
    }
}

/// The resources that controllers share with the webhook.
#[derive(Clone, Copy)]
pub(super) struct ControllerContext<'a> {
    pub client: &'a kube::Client,
    pub leases: &'a ElectionSetup,
    pub cache: &'a Arc<Cache>,
    pub metrics: &'a Arc<Metrics>,
    /// The memory of computations.
    pub memory: &'a Arc<MemoryPool>,
}

/// The additional dependencies of the machine controllers.
#[derive(Clone, Debug)]
pub(super) struct MachineSetup {
    pub settings: MachineSettings,
    pub workloads: Arc<dyn WorkloadClusters>,
}

/// Starts the chosen controllers; `None` when there is nothing to lead.
///
/// # Errors
/// When Cluster API's own controllers run. In a pod that is no error: the webhook must keep serving while the
/// controllers wait until the others have stopped.
pub(super) async fn start(
    options: &ServeArgs,
    shared: &ControllerContext<'_>,
    machines: Option<MachineSetup>,
    tasks: &mut JoinSet<&'static str>,
) -> Result<Option<Leading>> {
    let ControllerContext { client, leases, cache, metrics, memory } = *shared;
    let gates = options.rules.feature_gates;
    let chosen = options.leading.chosen(options.is_in_pod() || options.embedded);
    if chosen == Controllers::NONE || !gates.cluster_topology {
        info!("Controllers are disabled");
        let manages = options.certificates.manage_certificates;
        return Ok(manages.then(|| Leading::start(options, leases, metrics, tasks)));
    }
    let mut incumbent = watch_incumbent(&options.leading, client, metrics, tasks);
    if !options.is_in_pod() {
        refuse_beside(&mut incumbent).await?;
    }
    let leading = Leading::start(options, leases, metrics, tasks);
    let (client, cache, metrics) = (client.clone(), cache.clone(), metrics.clone());
    let clients = Clients::new(options.leading.extension_identity());
    let extensions =
        gates.runtime_sdk.then(|| Arc::new(ExtensionCaller::new(client.clone(), clients, metrics.clone())));
    let setup = Setup { client, leadership: leading.leadership.clone(), cache, extensions, metrics };
    let together = ControllerGroup { controllers: controllers(options, chosen, (&setup, memory), machines), setup };
    let run = reconcile(leading.leadership.clone(), incumbent, async move || together.run().await);
    supervise(tasks, "the controllers", run);
    Ok(Some(leading))
}

/// Runs a controller until it is dropped.
type Controller = Box<dyn Fn(Definitions) -> BoxFuture<'static, ()> + Send + Sync>;

/// A controller that runs again each time this process leads.
fn controller<C, R>(one: C, run: impl Fn(Arc<C>, Definitions) -> R + Send + Sync + 'static) -> Controller
where
    C: Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let one = Arc::new(one);
    Box::new(move |definitions| run(one.clone(), definitions).boxed())
}

/// The chosen controllers with their names in logs.
fn controllers(
    options: &ServeArgs,
    chosen: Controllers,
    (setup, memory): (&Setup, &Arc<MemoryPool>),
    machines: Option<MachineSetup>,
) -> Vec<(&'static str, Controller)> {
    let (setup, runtime_sdk) = (|| setup.clone(), options.rules.feature_gates.runtime_sdk);
    let mut all = Vec::new();
    if let Some(extensions) = setup().extensions {
        let one = ExtensionController { setup: setup(), extensions };
        let run = |one: Arc<ExtensionController>, _| ExtensionController::run(one);
        all.push(("the ExtensionConfig controller", controller(one, run)));
    }
    if chosen.classes {
        all.push(("the ClusterClass controller", controller(ClassController(setup()), ClassController::run)));
    }
    if chosen.templates {
        all.push(("the controllers of templates", controller(TemplatesController(setup()), TemplatesController::run)));
    }
    let mut awaits_finalizer = false;
    if let Some(MachineSetup { settings, workloads }) = machines.filter(|_| chosen.topologies) {
        awaits_finalizer = !settings.is_external(&GroupKind::core(Kind::Cluster.name()));
        let one = LifecycleController { setup: setup(), settings, workloads };
        all.push(("the controllers of machines", controller(one, LifecycleController::run)));
    }
    if chosen.topologies {
        let workers = options.leading.topology_concurrency;
        let deletions =
            Deletions { guard: options.deletion_guard(), hold_lifetime: options.leading.deletion_hold_time };
        let limit = SizeLimit::for_text(options.rules.computation_limit).with_memory(memory.capacity());
        let options = Options::new(runtime_sdk).within(limit);
        let memory = memory.clone();
        let (setup, has_template_controllers) = (setup(), chosen.templates);
        let one = TopologyController {
            setup,
            options,
            workers,
            awaits_finalizer,
            has_template_controllers,
            deletions,
            memory,
        };
        all.push(("the topology controller", controller(one, TopologyController::run)));
    }
    all
}

/// Controllers that run concurrently and share one watch of CustomResourceDefinitions.
struct ControllerGroup {
    controllers: Vec<(&'static str, Controller)>,
    setup: Setup,
}

impl ControllerGroup {
    /// Runs them until one of them ends, which none should; the others end with it.
    async fn run(&self) {
        let Setup { client, metrics, .. } = self.setup.clone();
        Definitions::beside(client, metrics, |definitions| self.run_with(definitions)).await;
    }

    async fn run_with(&self, definitions: Definitions) {
        let mut running = JoinSet::new();
        for (name, start) in &self.controllers {
            supervise(&mut running, name, start(definitions.clone()));
        }
        match running.join_next().await {
            Some(Ok(name)) => error!(part = name, "A controller task ended unexpectedly"),
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Some(Err(_)) | None => {}
        }
    }
}

/// The state of Cluster API's own controllers; ignored with --take-over.
fn watch_incumbent(
    flags: &ControllerFlags,
    client: &kube::Client,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<&'static str>,
) -> watch::Receiver<Incumbent> {
    if flags.take_over {
        return watch::channel(Incumbent::Absent).1;
    }
    let (incumbent, follow) = incumbent::follow(client.clone(), metrics.clone());
    supervise(tasks, "the watch of Cluster API's lease", follow);
    incumbent
}

/// Returns once Cluster API's own controllers do not run. Waits for an API server that does not answer.
///
/// # Errors
/// When those controllers run, or when this client may not read their Leases.
async fn refuse_beside(incumbent: &mut watch::Receiver<Incumbent>) -> Result<()> {
    // Since when the API server forbids it. One that has just started forbids more than later on.
    let (mut forbidden, mut has_waited, mut logged) = (None, false, None::<Instant>);
    loop {
        let known = incumbent.borrow_and_update().clone();
        match known {
            Incumbent::Absent => return Ok(()),
            Incumbent::Present { lease, holder } => bail!(
                "Cluster API's own controllers are at work: {holder} holds the lease {lease}; run beside them with \
                 --controllers=none, or with --take-over once they run with the feature gate ClusterTopology=false"
            ),
            Incumbent::Untold { reason, is_forbidden: true } => {
                let since = *forbidden.get_or_insert_with(Instant::now);
                if !has_waited || since.elapsed() >= STARTING {
                    bail!(
                        "cannot tell whether Cluster API's own controllers are at work (--take-over does not ask): \
                         {reason}"
                    );
                }
            }
            Incumbent::Untold { reason, is_forbidden: false } => {
                (forbidden, has_waited) = (None, true);
                if logged.is_none_or(|logged| logged.elapsed() >= REPEATED) {
                    logged = Some(Instant::now());
                    warn!(reason, "Waiting for the API server");
                }
            }
            Incumbent::Unknown => forbidden = None,
        }
        if let Ok(changed) = timeout(REPEATED, incumbent.changed()).await {
            changed?;
        }
    }
}

/// Runs a controller while this process leads and Cluster API's controllers do not run.
async fn reconcile(leadership: Leadership, incumbent: watch::Receiver<Incumbent>, run: impl AsyncFn()) {
    leadership
        .while_leading(|| {
            let (incumbent, run) = (incumbent.clone(), &run);
            async move { run_alone(run, incumbent).await }
        })
        .await;
}

async fn run_alone(run: &impl AsyncFn(), mut incumbent: watch::Receiver<Incumbent>) {
    loop {
        wait_until_alone(&mut incumbent).await;
        info!("Starting controllers");
        tokio::select! {
            () = run() => return,
            () = until_present(&mut incumbent) => {}
        }
    }
}

/// Waits until Cluster API's controllers do not run. Logs the reason if it has to wait, and again every [`REMINDER`].
async fn wait_until_alone(incumbent: &mut watch::Receiver<Incumbent>) {
    let mut pause = SETTLED;
    loop {
        let known = incumbent.borrow_and_update().clone();
        if known == Incumbent::Absent {
            return;
        }
        pause = match timeout(pause, incumbent.changed()).await {
            Ok(Ok(())) => SETTLED,
            // With --take-over nothing changes any more.
            Ok(Err(_)) => return,
            Err(_) => {
                log_wait(&known);
                REMINDER
            }
        };
    }
}

fn log_wait(known: &Incumbent) {
    match known {
        Incumbent::Absent => {}
        Incumbent::Present { lease, holder } => {
            warn!(lease, holder, "Controllers are waiting: the Cluster API manager holds its Lease (see --take-over)");
        }
        Incumbent::Untold { reason, .. } => {
            warn!(
                reason,
                "Controllers are waiting: cannot watch the Lease of the Cluster API manager (see --take-over)"
            );
        }
        Incumbent::Unknown => {
            info!(
                "Controllers are waiting: the Lease of the Cluster API manager has not expired yet (see --take-over)"
            );
        }
    }
}

async fn until_present(incumbent: &mut watch::Receiver<Incumbent>) {
    if incumbent.wait_for(|incumbent| matches!(incumbent, Incumbent::Present { .. })).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use testing::Lines;

    #[tokio::test]
    async fn controllers_in_a_pod_wait_until_those_of_cluster_api_stop() {
        let present = Incumbent::Present { lease: "a/b".into(), holder: "pod".into() };
        let (sender, mut receiver) = watch::channel(present.clone());
        let mut waiting = std::pin::pin!(wait_until_alone(&mut receiver));
        for unclear in
            [present.clone(), Incumbent::Unknown, Incumbent::Untold { reason: "forbidden".into(), is_forbidden: true }]
        {
            sender.send_replace(unclear);
            let turn = std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context)));
            assert!(turn.await.is_pending());
        }
        sender.send_replace(Incumbent::Absent);
        waiting.await;
        // An unknown state does not stop running controllers; an incumbent does.
        sender.send_replace(Incumbent::Untold { reason: "no answer".into(), is_forbidden: false });
        let mut watched = sender.subscribe();
        let mut until = std::pin::pin!(until_present(&mut watched));
        let turn = std::future::poll_fn(|context| std::task::Poll::Ready(until.as_mut().poll(context)));
        assert!(turn.await.is_pending());
        sender.send_replace(present);
        until.await;
    }

    #[tokio::test]
    async fn controllers_start_only_without_another_holder_of_the_lease() {
        for (known, starts) in [
            (Incumbent::Absent, true),
            (Incumbent::Present { lease: "a/b".into(), holder: "pod".into() }, false),
            (Incumbent::Untold { reason: "forbidden".into(), is_forbidden: true }, false),
        ] {
            let (_sender, mut receiver) = watch::channel(known.clone());
            assert_eq!(refuse_beside(&mut receiver).await.is_ok(), starts, "{known:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_start_waits_for_an_api_server_that_does_not_answer() {
        let (lines, _logging) = Lines::collect();
        let untold = |reason: &str, is_forbidden| Incumbent::Untold { reason: reason.into(), is_forbidden };
        let (sender, mut receiver) = watch::channel(untold("connection refused", false));
        let start = tokio::spawn(async move { refuse_beside(&mut receiver).await.map_err(|error| error.to_string()) });
        for _ in 0..59 {
            sleep(Duration::from_secs(1)).await;
            sender.send_replace(untold("connection refused", false));
        }
        assert!(!start.is_finished());
        assert_eq!(lines.text().matches("Waiting for the API server").count(), 12, "{}", lines.text());
        // It has just started.
        sender.send_replace(untold("forbidden", true));
        sleep(Duration::from_secs(9)).await;
        assert!(!start.is_finished());
        sender.send_replace(Incumbent::Absent);
        assert_eq!(start.await.unwrap(), Ok(()));

        let (sender, mut receiver) = watch::channel(untold("connection refused", false));
        let start = tokio::spawn(async move { refuse_beside(&mut receiver).await.map_err(|error| error.to_string()) });
        sleep(Duration::from_secs(1)).await;
        sender.send_replace(untold("forbidden by a role", true));
        let error = start.await.unwrap().unwrap_err();
        assert!(error.ends_with("forbidden by a role"), "{error}");
    }
}
