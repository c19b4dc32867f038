//! `serve`: the webhook, its probes, and the watches that keep its facts current.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use axum::Router;
use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture, join_all};
use kube::config::KubeConfigOptions;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::args::Serve;
use super::embedded::{self, Api, Contents};
use super::in_process::InProcess;
use super::leading::{self, Leading, Leases};
use super::listen;
use super::live;
use super::machines;
use super::memory::{self, Connections, Shares};
use super::output::{self, Text};
use super::progress::Progress;
use super::tasks::supervise;
use super::watches::Watches;
use super::workloads::WorkloadServer;
use super::{atomic_file, certificates};
use ::server::certificates::self_managed::SelfManaged;
use ::server::kubernetes::cache::Cache;
use ::server::kubernetes::connection;
use ::server::kubernetes::gather::Gatherer;
use ::server::kubernetes::history::History;
use ::server::kubernetes::impact_facts::Watched;
use ::server::kubernetes::sizes;
use ::server::kubernetes::versions::ApiVersions;
use ::server::kubernetes::watch;
use ::server::telemetry::log::{self, Beside};
use ::server::telemetry::metrics::Metrics;
use ::server::webhook::conversion::{self, Converter};
use ::server::webhook::limits::Limits;
use ::server::webhook::probes::{self, Health};
use ::server::webhook::review::Handler;
use ::server::webhook::routes;
use ::server::webhook::server;
use model::world::Facts;
use schema::budget::MemoryPool;
use tls::authority::IssuedCertificate;
use tls::callers::CallerSource;
use tls::identity::ServerIdentity;
use tls::pair::{CertificateFiles, CertificatePair};

/// A dead connection to the API server is noticed while the Lease can still be renewed.
const LEASE_PINGS: connection::Pings =
    connection::Pings { interval: Duration::from_secs(4), timeout: Duration::from_secs(3) };
/// How long --embedded waits for its own objects before it serves.
const LISTING: Duration = Duration::from_secs(5);
/// Exit code of a process that a second signal ended.
const ABORTED: u8 = 130;

/// Serves until a signal.
pub(super) fn run(options: Serve) -> Result<ExitCode> {
    let progress = Progress::new(options.embedded);
    let beside = if progress.is_shown() { Beside::Progress } else { Beside::Nothing };
    let _log = log::install(options.log_format, &log_filter(&options, &progress), beside)?;
    log::log_panics();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    // Probes and the renewal of the Lease have a runtime of their own, which works even if all threads of the other are blocked.
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

/// Which log lines appear: those that were asked for, else warnings where a person watches the start, else the usual ones.
fn log_filter(options: &Serve, progress: &Progress) -> String {
    let of_terminal = || progress.is_shown().then(|| std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned()));
    options.log.clone().or_else(of_terminal).unwrap_or_else(|| "info".to_owned())
}

async fn serve(options: Serve, progress: Progress, probes: Handle) -> Result<ExitCode> {
    let mut signals = Signals::install()?;
    let running = tokio::select! {
        running = Running::start(&options, progress, &probes) => running?,
        () = signals.next() => return Ok(ExitCode::SUCCESS),
    };
    running.until_stopped(signals).await
}

/// A server with everything that it needs.
struct Running {
    /// Tasks that must not end before the process does.
    tasks: JoinSet<&'static str>,
    webhook: JoinHandle<()>,
    conversions: JoinHandle<()>,
    /// The API of --embedded, and those of workload clusters.
    api: OptionFuture<JoinHandle<()>>,
    /// Greets once everything is ready.
    greeting: JoinHandle<()>,
    health: Arc<Health>,
    leading: Option<Leading>,
    departure: CancellationToken,
    stop: CancellationToken,
    /// Stops conversions.
    last_stop: CancellationToken,
    grace: Duration,
}

/// How the memory limit and the file descriptors are divided.
fn budgets(options: &Serve) -> Result<(Shares, Connections)> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (memory, files) = (options.memory_limit.unwrap_or_else(memory::limit), memory::files());
    if files < memory::LEAST_FILES {
        bail!(
            "the process may open {files} files, and needs {} at least; raise the limit (ulimit -n)",
            memory::LEAST_FILES
        );
    }
    let (shares, connections) =
        (Shares::of(memory, processors), Connections::of(options.connections as usize, memory, files));
    info!(
        bodies = shares.bodies,
        conversions = shares.conversions,
        classes = shares.classes,
        schemas = shares.schemas,
        templates = shares.templates,
        computations = shares.computations,
        threads = shares.threads,
        connections = connections.reviews,
        files,
        "Computed memory budgets"
    );
    Ok((shares, connections))
}

impl Running {
    async fn start(options: &Serve, progress: Progress, probe_runtime: &Handle) -> Result<Running> {
        let metrics = Arc::new(Metrics::default());
        let mut tasks = JoinSet::new();
        options.certificates.check()?;
        options.check_ceiling()?;
        let scope = options.scope()?;
        let Source { client, leases, server, api } = Source::of(options, &progress, probe_runtime).await?;
        let (shares, connections) = budgets(options)?;
        let facts = Facts::not_listed(&watch::WATCHED).within(scope).with_cache_capacity(shares.classes);
        let cache = Arc::new(Cache::new(facts));
        let memory = Arc::new(MemoryPool::new(shares.computations).with_pause(|| std::thread::sleep(MEMORY_LOOK)));
        let watches = Watches::start(options, shares, &client, &cache, &metrics, &mut tasks);
        let EndPoints { all, reviews, conversions } =
            EndPoints::of(options, (shares, &memory), &client, &cache, &metrics, &watches, &mut tasks);
        if let Some(api) = &api {
            api.embedded.set_admission(Arc::new(InProcess::new(all, options.drives_machines())));
        }
        let (identity, authority) = identity(options, &metrics, &mut tasks)?;
        let local = if options.embedded { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let address = |given, flag, port| listen::Address::new(given, flag, (local.into(), port), options.embedded);
        progress.step("Starting controllers");
        let limits = server::Limits {
            patience: options.client_patience,
            idle: options.client_idle,
            age: options.connection_age,
            ..server::Limits::default().with_connections(connections.reviews)
        };
        let departure = CancellationToken::new();
        let shown = Some(identity.clone());
        let address_of_reviews = address(options.webhook_addr, "--webhook-addr", 9443);
        let webhook = address_of_reviews.bind(shown.clone(), limits, metrics.clone()).await?;
        let webhook = webhook.leaving_with(departure.clone()).reading_no_headers();
        let few = limits.with_connections(connections.conversions);
        let few = server::Limits { drain: CONVERSION_DRAIN, ..few };
        let address_of_conversions = address(options.conversion_addr, "--conversion-addr", 9444);
        let converter = address_of_conversions.bind(shown, few, metrics.clone()).await?;
        let converter = converter.leaving_with(departure.clone()).asking_no_caller().reading_no_headers();
        let few = limits.with_connections(connections.probes);
        let address_of_probes = address(options.admin_addr, "--admin-addr", 8081);
        let bound = address_of_probes.bind(None, few, metrics.clone());
        let probes = probe_runtime.spawn(bound).await.context("the probes ended early")??.reading_no_headers();
        let (webhook_address, admin) = (webhook.local_address()?, probes.local_address()?);
        let conversion_address = converter.local_address()?;
        let workloads = match options.drives_machines() {
            true => Some(WorkloadServer::bind(options).await?),
            false => None,
        };
        let moved = [
            api.as_ref().and_then(|api| api.moved.clone()),
            workloads.as_ref().and_then(|workloads| workloads.moved.clone()),
            address_of_reviews.moved(webhook_address),
            address_of_conversions.moved(conversion_address),
            address_of_probes.moved(admin),
        ];
        let moved: Vec<String> = moved.into_iter().flatten().collect();

        let machines = workloads.as_ref().map(|workloads| workloads.machines(options)).transpose()?;
        let certificates = Arc::new(OnceLock::new());
        let health = Arc::new(health(&cache, &metrics, &identity, &certificates));
        let probes = probe_runtime.spawn(probes.serve(probes::router(health.clone()), CancellationToken::new()));
        supervise(&mut tasks, "probes", async { drop(probes.await) });
        supervise(&mut tasks, "the heartbeat", health.clone().beat());
        let parts =
            leading::Shared { client: &client, leases: &leases, cache: &cache, metrics: &metrics, memory: &memory };
        // May wait for the API server.
        let leading = leading::start(options, &parts, machines, &mut tasks).await?;
        if let Some(leading) = leading.as_ref().filter(|_| options.certificates.manage_certificates) {
            let managed = certificates::start(&options.certificates, &client, leading, identity, &metrics, &mut tasks);
            let _ = certificates.set(managed);
        }
        let metrics_of_machines = options.embedded.then(|| metrics.clone());
        if !options.impact_time.is_zero() {
            let sizes = sizes::keep_current(client.clone(), cache.clone(), metrics.clone());
            supervise(&mut tasks, "the watch of MachineDeployments", sizes);
        }
        supervise(&mut tasks, "watches", watch::keep_current(client, cache.clone(), metrics));
        until_listed(options, &cache, watches.impacts.as_deref()).await;
        let (stop, last_stop) = (CancellationToken::new(), CancellationToken::new());
        let announcement = Announcement {
            server: &server,
            webhook: webhook_address,
            authority: authority.as_deref(),
            api: api.as_ref().map(|api| (api.address, api.kubeconfig.clone(), &api.loaded)),
            moved: &moved,
        }
        .text();
        api.as_ref().map_or(Ok(()), Api::invite)?;
        let api_address = api.as_ref().map(|api| api.address.to_string());
        let workload_address = workloads.as_ref().map(|workloads| workloads.address.to_string());
        let api = serve_apis(api, workloads, &stop);
        let webhook = tokio::spawn(webhook.serve(reviews, stop.clone()));
        let conversions = tokio::spawn(converter.serve(conversions, last_stop.clone()));
        health.set_serving(true);
        for note in &moved {
            info!("{note}");
        }
        info!(webhook = %webhook_address, conversions = %conversion_address, %admin, api = api_address, workloads = workload_address, "Serving");
        let greeting = tokio::spawn(greet(health.clone(), metrics_of_machines, progress, announcement));
        let grace = options.shutdown_grace.unwrap_or(Duration::from_secs(if options.embedded { 0 } else { 5 }));
        Ok(Running { tasks, webhook, conversions, api, greeting, health, leading, departure, stop, last_stop, grace })
    }

    async fn until_stopped(mut self, mut signals: Signals) -> Result<ExitCode> {
        tokio::select! {
            () = signals.next() => {}
            _ = &mut self.webhook => bail!("the webhook server ended unexpectedly"),
            _ = &mut self.conversions => bail!("the conversion server ended unexpectedly"),
            Some(_) = &mut self.api => bail!("the API server ended unexpectedly"),
            Some(ended) = self.tasks.join_next() => {
                let name = ended.unwrap_or("a task that panicked");
                bail!("{name} ended unexpectedly");
            }
        }
        self.greeting.abort();
        info!(grace = ?self.grace, "Shutting down; a second signal aborts");
        self.health.set_serving(false);
        self.departure.cancel();
        let server_stopped = async {
            tokio::time::sleep(self.grace).await;
            self.stop.cancel();
            let (webhook, api) = tokio::join!(self.webhook, self.api);
            webhook.and(api.unwrap_or(Ok(())))
        };
        let stopped = async {
            let leading = OptionFuture::from(self.leading.as_ref().map(Leading::stop));
            let (stopped, _) = tokio::join!(server_stopped, leading);
            // Last, since a Service that publishes addresses of pods that are not ready sends conversions here until the
            // process has ended.
            self.last_stop.cancel();
            stopped.and(self.conversions.await)
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

/// What the probes look at: the caches, whether the serving certificate has expired, and the certificates that this process manages once
/// it does.
fn health(
    cache: &Arc<Cache>,
    metrics: &Arc<Metrics>,
    identity: &Arc<ServerIdentity>,
    managed: &Arc<OnceLock<Arc<SelfManaged>>>,
) -> Health {
    let (shown, managed) = (identity.clone(), managed.clone());
    Health::new(cache.clone(), metrics.clone())
        .requiring(Box::new(move || shown.is_valid_at(SystemTime::now())))
        .requiring(Box::new(move || managed.get().map_or(Ok(()), |managed| managed.ready())))
}

/// Waits until --embedded has listed its own objects, so that the first review is answered like any other.
async fn until_listed(options: &Serve, cache: &Cache, impacts: Option<&Watched>) {
    if options.embedded {
        let listed = async {
            cache.listed().await;
            OptionFuture::from(impacts.map(Watched::settled)).await;
        };
        // Nothing is slow here; the log has what takes longer, and the probes say that the server is not ready.
        let _ = tokio::time::timeout(LISTING, listed).await;
    }
}

/// Serves the API of --embedded and those of workload clusters, where there are any.
fn serve_apis(
    api: Option<Api>,
    workloads: Option<WorkloadServer>,
    stop: &CancellationToken,
) -> OptionFuture<JoinHandle<()>> {
    let served = [
        api.map(|api| api.serve(stop.clone()).boxed()),
        workloads.map(|workloads| workloads.serve(stop.clone()).boxed()),
    ];
    let served: Vec<BoxFuture<'static, ()>> = served.into_iter().flatten().collect();
    let all = (!served.is_empty()).then(|| tokio::spawn(join_all(served).map(drop)));
    OptionFuture::from(all)
}

/// Prints the announcement; with --embedded once everything is ready.
/// On a terminal, the machines of the embedded API follow.
async fn greet(health: Arc<Health>, embedded: Option<Arc<Metrics>>, progress: Progress, announcement: Text) {
    if embedded.is_some() {
        until_ready(&health).await;
    }
    drop(progress);
    // Standard output may be closed.
    let _ = output::text(&announcement);
    if let Some(metrics) = embedded.filter(|_| output::is_terminal()) {
        machines::tell_progress(metrics).await;
    }
}

/// What is answered on each port.
struct EndPoints {
    /// Everything, for callers in this process.
    all: Router,
    reviews: Router,
    conversions: Router,
}

impl EndPoints {
    fn of(
        options: &Serve,
        (shares, memory): (Shares, &Arc<MemoryPool>),
        client: &kube::Client,
        cache: &Arc<Cache>,
        metrics: &Arc<Metrics>,
        watches: &Watches,
        tasks: &mut JoinSet<&'static str>,
    ) -> EndPoints {
        let versions = ApiVersions::of_cluster(client.clone());
        let conversion_limits = conversion::Limits {
            held: shares.conversions,
            blocking: shares.converting,
            ..conversion::Limits::default()
        };
        let converter = Arc::new(Converter::new(versions, conversion_limits, metrics.clone()));
        let gatherer = Gatherer::of_cluster(cache.clone(), client.clone(), metrics.clone());
        let gatherer = match &watches.impacts {
            Some(impacts) => gatherer.watching(impacts.clone()),
            None => gatherer,
        };
        supervise(tasks, "the connections to workload clusters", gatherer.follow_clusters());
        let limits = Limits {
            blocking: shares.threads,
            held: shares.bodies,
            impact: options.impact_time,
            max_replaced_machines: options.max_replaced_machines,
            unknown_impact: options.impact_unknown,
            ..Limits::default()
        };
        let handler = Handler::new(gatherer, options.settings(), limits, metrics.clone())
            .with_memory(memory.clone())
            .with_events(client.clone())
            .with_namespaces(client.clone());
        let handler = match watches.holds(options, client) {
            Some(holds) => handler.with_holds(holds),
            None => handler,
        };
        let reviews = routes::router(Arc::new(handler));
        let all = reviews.clone().merge(conversion::router(converter.clone()));
        // kube-apiserver shows no certificate when it asks for conversions.
        let reviews = if options.client_ca.is_some() { reviews.merge(conversion::elsewhere()) } else { all.clone() };
        EndPoints { all, reviews, conversions: conversion::router_alone(converter) }
    }
}

/// How often a computation that waits for memory looks again.
const MEMORY_LOOK: Duration = Duration::from_millis(2);

/// How long open conversions may go on after everything else has stopped.
const CONVERSION_DRAIN: Duration = Duration::from_secs(5);

/// The API server that is followed.
struct Source {
    client: kube::Client,
    leases: Leases,
    /// Its address, for people.
    server: String,
    /// The server itself, if it is in this process.
    api: Option<Api>,
}

impl Source {
    /// The Lease is renewed on the runtime of the probes.
    async fn of(options: &Serve, progress: &Progress, runtime: &Handle) -> Result<Source> {
        if options.embedded {
            let api = Api::bind(options, progress).await?;
            let (client, server) = (api.embedded.client(), format!("https://{}", api.address));
            let leases = Leases { client: client.clone(), runtime: runtime.clone(), history: Arc::default() };
            return Ok(Source { client, leases, server, api: Some(api) });
        }
        let mut config = match &options.kubeconfig {
            Some(path) => from_kubeconfig(path).await?,
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                kube::Config::incluster().context("cannot use the service account of this pod")?
            }
            None => bail!("no source of objects: use --embedded (with --load PATH), or --kubeconfig FILE"),
        };
        let server = config.cluster_url.to_string();
        // Longer than a watch lasts: a connection that has gone dead is noticed, and made anew.
        config.read_timeout = Some(Duration::from_secs(320));
        // Callers retry on their own; a write that the client repeats on its own could come too late to be ours.
        config.default_retry = false;
        let leases = {
            // What a client starts runs where it is made.
            let _runtime = runtime.enter();
            connection::client(config.clone(), LEASE_PINGS)
        };
        let client = connection::client(config, connection::Pings::default());
        let failed = "cannot create a client for the API server";
        let (client, leases) = (client.context(failed)?, leases.context(failed)?);
        let history = Arc::<History>::default();
        let client = history.client(client);
        Ok(Source { client, leases: Leases { client: leases, runtime: runtime.clone(), history }, server, api: None })
    }
}

async fn from_kubeconfig(path: &Path) -> Result<kube::Config> {
    let kubeconfig = live::read_kubeconfig(path)?;
    let context = kubeconfig.current_context.clone().unwrap_or_default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use {}", path.display()))?;
    info!(context, server = %config.cluster_url, "Using a kubeconfig");
    Ok(config)
}

/// The certificate to serve with, and where the CA certificate is if one was made for the occasion.
fn identity(
    options: &Serve,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<&'static str>,
) -> Result<(Arc<ServerIdentity>, Option<String>)> {
    let identity = asking(options, metrics, tasks)?;
    let Some((certificate, key)) = options.tls_cert.clone().zip(options.tls_key.clone()) else {
        if options.certificates.manage_certificates {
            return Ok((identity, None));
        }
        if !options.embedded {
            bail!(
                "no serving certificate: use --manage-certificates, or --tls-cert and --tls-key; `topologist certs` creates such a pair"
            );
        }
        let authority = make_certificate(&options.state_dir, &identity)?;
        return Ok((identity, Some(authority)));
    };
    let files = CertificateFiles { certificate, key };
    let pair: CertificatePair = files.read()?;
    identity.install(&pair, &files)?;
    supervise(tasks, "the certificate watch", identity.clone().watch_files(files, pair, options.tls_poll));
    Ok((identity, None))
}

/// A TLS identity without a certificate yet. With --client-ca it requires client certificates.
fn asking(options: &Serve, metrics: &Arc<Metrics>, tasks: &mut JoinSet<&'static str>) -> Result<Arc<ServerIdentity>> {
    let Some(file) = options.client_ca.clone() else { return Ok(Arc::new(ServerIdentity::new(None, metrics.clone()))) };
    let source = CallerSource { file, names: options.client_names.clone() };
    let bytes = source.read()?;
    let callers = Arc::new(source.callers(&bytes)?);
    let identity = Arc::new(ServerIdentity::new(Some(callers), metrics.clone()));
    let watch = identity.clone().watch_callers(source, bytes, options.tls_poll);
    supervise(tasks, "the watch of the client authority", watch);
    Ok(identity)
}

/// Shows a certificate for this host alone; returns where its CA certificate is.
fn make_certificate(folder: &Path, identity: &ServerIdentity) -> Result<String> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let issued = IssuedCertificate::generate(&names, 365)?;
    let path = folder.join("ca.crt");
    atomic_file::write(&path, &issued.authority, 0o644).with_context(|| format!("cannot write {}", path.display()))?;
    let files = CertificateFiles { certificate: "the generated certificate".into(), key: "the generated key".into() };
    identity.install(&issued.pair(), &files)?;
    Ok(path.display().to_string())
}

/// Waits until the embedded objects are listed, which takes a moment, so that the first review is answered like any other.
async fn until_ready(health: &Health) {
    let ready = async {
        while health.ready().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // What keeps it from being ready is in the log.
    let _ = tokio::time::timeout(Duration::from_secs(5), ready).await;
}

/// What a person at a terminal should know.
struct Announcement<'a> {
    server: &'a str,
    webhook: SocketAddr,
    /// Where the CA certificate is, if one was made.
    authority: Option<&'a str>,
    /// The API of --embedded: its address, its kubeconfig, and what it began with.
    api: Option<(SocketAddr, PathBuf, &'a Contents)>,
    /// Which default ports were in use.
    moved: &'a [String],
}

impl Announcement<'_> {
    fn text(&self) -> Text {
        let Announcement { server, webhook, authority, api, moved } = self;
        let mut text = Text::default();
        match api {
            None => text.line(format_args!("topologist answers reviews at https://{webhook} and follows {server}")),
            Some((address, kubeconfig, contents)) => {
                let Contents { classes, clusters, .. } = contents;
                let count = format_args!("(ClusterClasses: {classes}, Clusters: {clusters})");
                text.line(format_args!("topologist answers reviews at https://{webhook} {count}"));
                moved.iter().for_each(|note| text.line(format_args!("{note}.")));
                contents.files_line().into_iter().for_each(|line| text.line(line));
                embedded::add_invitation(&mut text, kubeconfig, *address);
            }
        }
        if let Some(authority) = authority {
            let port = webhook.port();
            text.line("Send it a review:");
            text.line("");
            text.line(format_args!("  curl --cacert {authority} --data-binary @fixtures/quick-start/review.json \\"));
            text.line(format_args!("    https://localhost:{port}/validate-cluster-x-k8s-io-v1beta2-cluster"));
            text.line("");
        }
        text
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
