//! `serve`: the webhook, its probes, and the watches that keep its facts current.

mod announcement;
mod endpoints;
mod identity;
mod listeners;
mod signals;
mod source;

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use futures::future::OptionFuture;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::announcement::{Announcement, greet};
use self::endpoints::EndPoints;
use self::identity::identity;
use self::listeners::{Listeners, Served};
use self::signals::Signals;
use self::source::FactSource;
use super::args::ServeArgs;
use super::certificates;
use super::in_process::InProcess;
use super::leading::{self, ControllerContext, Leading, MachineSetup};
use super::memory::{self, Connections, Shares};
use super::status_line::StatusLine;
use super::tasks::supervise;
use super::watches::ReplicaWatches;
use ::server::certificates::self_managed::SelfManaged;
use ::server::kubernetes::cache::Cache;
use ::server::kubernetes::impact_facts::ImpactWatches;
use ::server::kubernetes::{sizes, watch};
use ::server::telemetry::log::{self, Beside};
use ::server::telemetry::metrics::Metrics;
use ::server::webhook::probes::{self, Health};
use ::server::webhook::server::HttpServer;
use model::world::Facts;
use schema::budget::MemoryPool;
use tls::identity::ServerIdentity;

/// Interval in which a computation that waits for memory looks again.
const MEMORY_LOOK: Duration = Duration::from_millis(2);
/// Maximum time for which --embedded waits for its own objects before it serves.
const LISTING: Duration = Duration::from_secs(5);
/// Exit code of a process that a second signal ended.
const ABORTED: u8 = 130;

/// Serves until a signal.
pub(super) fn run(options: ServeArgs) -> Result<ExitCode> {
    let progress = StatusLine::new(options.embedded);
    let beside = if progress.is_shown() { Beside::Progress } else { Beside::Nothing };
    let _log = log::install(options.log_format, &log_filter(&options, &progress), beside)?;
    log::log_panics();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    // Probes and the renewal of the Lease have a separate runtime, which works even if all threads of the other are
    // blocked.
    let probes = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("probes")
        .enable_all()
        .build()
        .context("cannot start the runtime of the probes")?;
    let outcome = runtime.block_on(serve(options, progress, probes.handle().clone()));
    // A name that is still being resolved must not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    probes.shutdown_background();
    outcome
}

/// The filter of log lines: that of the flag, else warnings at a terminal, else the default.
fn log_filter(options: &ServeArgs, progress: &StatusLine) -> String {
    let of_terminal = || progress.is_shown().then(|| std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned()));
    options.log.clone().or_else(of_terminal).unwrap_or_else(|| "info".to_owned())
}

async fn serve(options: ServeArgs, progress: StatusLine, probes: Handle) -> Result<ExitCode> {
    let mut signals = Signals::install()?;
    let running = tokio::select! {
        running = RunningServer::start(&options, progress, &probes) => running?,
        () = signals.next() => return Ok(ExitCode::SUCCESS),
    };
    running.until_stopped(signals).await
}

/// A running server with all its parts.
struct RunningServer {
    /// Tasks that must not end before the process does.
    tasks: JoinSet<&'static str>,
    served: Served,
    /// Greets once everything is ready.
    greeting: JoinHandle<()>,
    health: Arc<Health>,
    leading: Option<Leading>,
    grace: Duration,
}

/// The division of the memory limit and of the file descriptors.
fn budgets(options: &ServeArgs) -> Result<(Shares, Connections)> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (memory, files) = (options.memory_limit.unwrap_or_else(memory::limit), memory::files());
    if files < memory::LEAST_FILES {
        bail!(
            "the process may open {files} files, and needs {} at least; raise the limit (ulimit -n)",
            memory::LEAST_FILES
        );
    }
    let (memory_shares, connections) =
        (Shares::within(memory, processors), Connections::within(options.connections as usize, memory, files));
    info!(
        bodies = memory_shares.bodies,
        conversions = memory_shares.conversions,
        classes = memory_shares.classes,
        schemas = memory_shares.schemas,
        templates = memory_shares.templates,
        computations = memory_shares.computations,
        threads = memory_shares.threads,
        connections = connections.reviews,
        files,
        "Computed memory budgets"
    );
    Ok((memory_shares, connections))
}

impl RunningServer {
    async fn start(options: &ServeArgs, progress: StatusLine, probe_runtime: &Handle) -> Result<RunningServer> {
        options.check()?;
        let (metrics, mut tasks) = (Arc::<Metrics>::default(), JoinSet::new());
        let FactSource { client, leases, server, api } =
            FactSource::from_options(options, &progress, probe_runtime).await?;
        let (memory_shares, connections) = budgets(options)?;
        let facts =
            Facts::not_listed(&watch::WATCHED).within(options.scope()?).with_cache_capacity(memory_shares.classes);
        let cache = Arc::new(Cache::new(facts));
        let memory =
            Arc::new(MemoryPool::new(memory_shares.computations).with_pause(|| std::thread::sleep(MEMORY_LOOK)));
        let shared =
            ControllerContext { client: &client, leases: &leases, cache: &cache, metrics: &metrics, memory: &memory };
        let watches = ReplicaWatches::start(options, memory_shares, &client, &cache, &metrics, &mut tasks);
        let end_points = EndPoints::new(options, memory_shares, &shared, &watches, &mut tasks);
        if let Some(api) = &api {
            let reviews = InProcess::new(end_points.all.clone(), options.drives_machines());
            api.embedded.set_admission(Arc::new(reviews));
        }
        let (identity, authority) = identity(options, &metrics, &mut tasks)?;
        progress.step("Starting controllers");
        let (listeners, probes) =
            Listeners::bind(options, api, &connections, &identity, &metrics, probe_runtime).await?;
        let machines = listeners.machines(options)?;
        let certificates = Arc::new(OnceLock::new());
        let health = Arc::new(health(&shared, &identity, &certificates));
        serve_probes(probes, &health, probe_runtime, &mut tasks);
        // May wait for the API server.
        let leading = lead(options, &shared, machines, (identity, &certificates), &mut tasks).await?;
        keep_current(options, &shared, &mut tasks);
        until_listed(options, &cache, watches.impacts.as_deref()).await;
        let announcement = Announcement::new(&server, &listeners, authority.as_deref()).text();
        let served = listeners.serve(end_points)?;
        health.set_serving(true);
        served.log();
        let metrics_of_machines = options.embedded.then_some(metrics);
        let greeting = tokio::spawn(greet(health.clone(), metrics_of_machines, progress, announcement));
        let grace = options.shutdown_grace.unwrap_or(Duration::from_secs(if options.embedded { 0 } else { 5 }));
        Ok(RunningServer { tasks, served, greeting, health, leading, grace })
    }

    async fn until_stopped(mut self, mut signals: Signals) -> Result<ExitCode> {
        tokio::select! {
            () = signals.next() => {}
            _ = &mut self.served.reviews => bail!("the webhook server ended unexpectedly"),
            _ = &mut self.served.conversions => bail!("the conversion server ended unexpectedly"),
            Some(_) = &mut self.served.apis => bail!("the API server ended unexpectedly"),
            Some(ended) = self.tasks.join_next() => {
                let name = ended.unwrap_or("a task that panicked");
                bail!("{name} ended unexpectedly");
            }
        }
        self.greeting.abort();
        info!(grace = ?self.grace, "Shutting down; a second signal aborts");
        self.health.set_serving(false);
        self.served.departure.cancel();
        let server_stopped = async {
            tokio::time::sleep(self.grace).await;
            self.served.stop.cancel();
            let (reviews, apis) = tokio::join!(self.served.reviews, self.served.apis);
            reviews.and(apis.unwrap_or(Ok(())))
        };
        let stopped = async {
            let leading = OptionFuture::from(self.leading.as_ref().map(Leading::stop));
            let (stopped, _) = tokio::join!(server_stopped, leading);
            // Last, since a Service that publishes addresses of pods that are not ready sends conversions here until
            // the process has ended.
            self.served.last_stop.cancel();
            stopped.and(self.served.conversions.await)
        };
        tokio::select! {
            ended = stopped => {
                ended.context("the server did not shut down cleanly")?;
                info!("Stopped");
                Ok(ExitCode::SUCCESS)
            }
            () = signals.next() => {
                warn!("Aborted");
                Ok(ExitCode::from(ABORTED))
            }
        }
    }
}

/// The state for the probes: the caches, the expiry of the serving certificate, and the certificates that this process
/// manages, once it does.
fn health(
    shared: &ControllerContext<'_>,
    identity: &Arc<ServerIdentity>,
    managed: &Arc<OnceLock<Arc<SelfManaged>>>,
) -> Health {
    let (shown, managed) = (identity.clone(), managed.clone());
    Health::new(shared.cache.clone(), shared.metrics.clone())
        .with_memory(shared.memory.clone())
        .requiring(Box::new(move || Ok(shown.is_valid_at(SystemTime::now())?)))
        .requiring(Box::new(move || Ok(managed.get().map_or(Ok(()), |managed| managed.ready())?)))
}

/// Starts to serve probes and metrics on their own runtime.
fn serve_probes(probes: HttpServer, health: &Arc<Health>, runtime: &Handle, tasks: &mut JoinSet<&'static str>) {
    let probes = runtime.spawn(probes.serve(probes::router(health.clone()), CancellationToken::new()));
    supervise(tasks, "probes", async { drop(probes.await) });
    supervise(tasks, "the heartbeat", health.clone().beat());
}

/// Takes part in the leader election, and manages certificates with --manage-certificates.
async fn lead(
    options: &ServeArgs,
    shared: &ControllerContext<'_>,
    machines: Option<MachineSetup>,
    (identity, managed): (Arc<ServerIdentity>, &OnceLock<Arc<SelfManaged>>),
    tasks: &mut JoinSet<&'static str>,
) -> Result<Option<Leading>> {
    let leading = leading::start(options, shared, machines, tasks).await?;
    if let Some(leading) = leading.as_ref().filter(|_| options.certificates.manage_certificates) {
        let flags = &options.certificates;
        let _ = managed.set(certificates::start(flags, shared.client, leading, identity, shared.metrics, tasks));
    }
    Ok(leading)
}

/// Starts to keep the facts of reviews current.
fn keep_current(options: &ServeArgs, shared: &ControllerContext<'_>, tasks: &mut JoinSet<&'static str>) {
    let ControllerContext { client, cache, metrics, .. } = *shared;
    if !options.impact_time.is_zero() {
        let sizes = sizes::keep_current(client.clone(), cache.clone(), metrics.clone());
        supervise(tasks, "the watch of MachineDeployments", sizes);
    }
    supervise(tasks, "watches", watch::keep_current(client.clone(), cache.clone(), metrics.clone()));
}

/// Waits until --embedded has listed its own objects, so that the first review is answered like any other.
async fn until_listed(options: &ServeArgs, cache: &Cache, impacts: Option<&ImpactWatches>) {
    if options.embedded {
        let listed = async {
            cache.listed().await;
            OptionFuture::from(impacts.map(ImpactWatches::settled)).await;
        };
        // Nothing is slow here; the log has what takes longer, and the probes say that the server is not ready.
        let _ = tokio::time::timeout(LISTING, listed).await;
    }
}
