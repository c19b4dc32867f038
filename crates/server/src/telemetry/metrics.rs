//! Metrics in the [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/) text format, all with the
//! prefix `topologist_`. Names follow the [practices of Prometheus](https://prometheus.io/docs/practices/naming/).
//!
//! Labels come from fixed sets: kinds, operations, outcomes, rule ids. Names and messages never become labels.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

/// Makes types of labels, whose values come from fixed sets.
macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($label:ident),+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub struct $name {
            $(pub $label: &'static str,)+
        }
    )+};
}

labels! {
    /// Labels of an answered review.
    Review { kind, operation, outcome }
    /// Labels of a converted object.
    Conversion { kind, outcome }
    /// The rule that rejected something.
    Rule { rule }
    /// A kind of object.
    Kind { kind }
    /// How something ended.
    Outcome { outcome }
    /// A controller, and how a run of it ended.
    Reconcile { controller, outcome }
    /// A controller.
    Controller { controller }
    /// Why a request or a connection was turned away.
    Reason { reason }
    /// The action.
    Action { action }
    /// A request to an API server, and its outcome.
    Read { what, outcome }
    /// Where a review waits.
    Queue { queue }
    /// What state a Machine is in.
    Phase { phase }
    /// The hook of a Runtime Extension.
    Requested { hook }
    /// A request to a Runtime Extension, and its outcome.
    Requests { hook, outcome }
}

/// The phases of Machines, as labels.
pub const PHASES: [&str; 9] =
    ["Running", "Provisioned", "Provisioning", "Pending", "Updating", "Deleting", "Deleted", "Failed", "Unknown"];

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub admission_requests: Family<Review, Counter>,
    /// Denials that were only talked about, with the outcome that they would have had.
    pub would_be_denials: Family<Review, Counter>,
    pub admission_duration: Histogram,
    pub rule_rejections: Family<Rule, Counter>,
    /// Machines that stored edits replace or remove, as announced in their warnings.
    pub announced_machines: Family<Action, Counter>,
    /// How counting the machines of an edit ended.
    pub impacts: Family<Outcome, Counter>,
    /// Time to count the machines of an edit.
    pub impact_duration: Histogram,
    /// Edits that a ceiling on replaced machines denied.
    pub held_edits: Family<Kind, Counter>,
    pub conversions: Family<Conversion, Counter>,
    pub conversion_duration: Histogram,
    pub refused_requests: Family<Reason, Counter>,
    pub panics: Counter,
    pub cache_objects: Family<Kind, Gauge>,
    /// Versions of provider kinds that are watched, of templates and of managed objects.
    pub watched_kinds: Family<Kind, Gauge>,
    pub cache_age: Family<Kind, Gauge<f64, AtomicU64>>,
    pub unreadable_objects: Family<Kind, Counter>,
    pub cache_unreadable_objects: Family<Kind, Gauge>,
    pub watch_errors: Family<Kind, Counter>,
    /// The newest resourceVersion that watches have shown.
    pub watch_version: Family<Kind, Gauge>,
    pub handshake_failures: Family<Reason, Counter>,
    pub tls_reloads: Family<Outcome, Counter>,
    pub tls_certificate_expiry: Gauge<f64, AtomicU64>,
    pub connections: Gauge,
    /// Connections that were closed to make room for others.
    pub closed_early: Family<Reason, Counter>,
    pub in_flight: Gauge,
    pub leader: Gauge,
    pub lease_transitions: Family<Outcome, Counter>,
    pub lease_errors: Counter,
    /// How many writes of the leader are sent at a time.
    pub write_limit: Gauge,
    pub reconciles: Family<Reconcile, Counter>,
    pub reconcile_duration: Family<Controller, Histogram>,
    /// Objects whose run is due or in progress.
    pub reconciles_due: Family<Controller, Gauge>,
    pub waiting: Family<Queue, Gauge>,
    pub shed_requests: Family<Reason, Counter>,
    pub certificate_actions: Family<Action, Counter>,
    /// Objects because of which the API server does not call this installation.
    pub missing_registrations: Family<Kind, Gauge>,
    /// Writes that put the CA bundle back.
    pub bundle_disputes: Counter,
    pub live_reads: Family<Read, Counter>,
    pub stale_cache_skips: Family<Kind, Counter>,
    pub ssa_cache_hits: Family<Controller, Counter>,
    pub ssa_cache_misses: Family<Controller, Counter>,
    pub rotations_held: Counter,
    /// Clusters that do not fit variables which extensions define anew.
    pub broken_by_discovery: Counter,
    pub extension_requests: Family<Requests, Counter>,
    pub extension_duration: Family<Requested, Histogram>,
    pub computation_memory: ComputationMemory,
    /// Machines by their phase; only where this process drives them.
    pub machines: Family<Phase, Gauge>,
}

/// The memory of computations of topologies.
#[derive(Debug)]
pub struct ComputationMemory {
    /// Bytes that they have reserved.
    pub used: Gauge,
    /// Bytes that they may reserve together.
    pub limit: Gauge,
    /// Computations that did not get the memory that they asked for.
    pub refusals: Counter,
}

impl ComputationMemory {
    fn new(new: &mut MetricRegistrar<'_>) -> Self {
        ComputationMemory {
            used: new.sized("computation_memory", "Memory reserved by computations of topologies"),
            limit: new
                .sized("computation_memory_limit", "Memory that all computations of topologies together may reserve"),
            refusals: new.metric(
                "computation_memory_refusals",
                "Computations of topologies that did not get the memory that they asked for",
            ),
        }
    }
}

/// Guard of an incremented gauge; dropping it decrements the gauge.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    /// Raises the gauge.
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        GaugeGuard(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Registers metrics.
struct MetricRegistrar<'r>(&'r mut Registry);

impl MetricRegistrar<'_> {
    fn metric<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    /// A metric in bytes.
    fn sized<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register_with_unit(name, help, Unit::Bytes, metric.clone());
        metric
    }

    /// A metric in seconds.
    fn timed<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }
}

impl Default for Metrics {
    fn default() -> Self {
        registered_in(Registry::default())
    }
}

/// The buckets of the duration of a review, from 20 µs to 10 s.
fn review_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_02, 2.0, 20))
}

/// Registers all metrics; they are rendered in this order.
fn registered_in(mut registry: Registry) -> Metrics {
    let mut new = MetricRegistrar(registry.sub_registry_with_prefix("topologist"));
    Metrics {
        admission_requests: new.metric("admission_requests", "Reviews answered"),
        would_be_denials: new
            .metric("admission_would_be_denials", "Reviews that were allowed because denials are only warned about"),
        admission_duration: new.timed(
            "admission_duration",
            "Time from the last byte of a review to its answer",
            review_buckets(),
        ),
        rule_rejections: new.metric("rule_rejections", "Errors found, by rule"),
        announced_machines: new
            .metric("announced_machines", "Machines that allowed edits replace or remove, dry runs left out"),
        impacts: new.metric("impacts", "Edits whose effect on machines was counted, by how that ended"),
        // From 1 ms to 8 s.
        impact_duration: new.timed(
            "impact_duration",
            "Time to count the machines that an edit replaces",
            Histogram::new(exponential_buckets(0.001, 2.0, 14)),
        ),
        held_edits: new.metric("held_edits", "Edits denied by the ceiling on replaced machines"),
        conversions: new.metric("conversions", "Objects converted to another version"),
        conversion_duration: new.timed(
            "conversion_duration",
            "Time from the last byte of a conversion review to its answer",
            review_buckets(),
        ),
        refused_requests: new.metric("refused_requests", "Requests rejected before their body was read"),
        panics: new.metric("panics", "Requests that ended in a panic"),
        cache_objects: new.metric("cache_objects", "Objects in the caches"),
        watched_kinds: new.metric("watched_kinds", "Versions of kinds that the leader watches"),
        cache_age: new.timed(
            "cache_age",
            "Time since the last response of the API server, bookmarks included",
            Family::default(),
        ),
        unreadable_objects: new.metric("unreadable_objects", "Watched objects that could not be decoded"),
        cache_unreadable_objects: new.metric("cache_unreadable_objects", "Stored objects that cannot be read now"),
        watch_errors: new.metric("watch_errors", "Errors of watches, each followed by a retry"),
        watch_version: new
            .metric("watch_resource_version", "Newest resourceVersion that a watch of the kind has shown"),
        handshake_failures: new.metric("tls_handshake_failures", "TLS handshakes that failed"),
        tls_reloads: new.metric("tls_reloads", "Reloads of changed certificates, by result"),
        tls_certificate_expiry: new.timed(
            "tls_certificate_expiry_timestamp",
            "When the serving certificate expires, in Unix time",
            Gauge::default(),
        ),
        connections: new.metric("connections", "Open connections, those of probes included"),
        closed_early: new.metric("connections_closed_early", "Connections closed to make room for others"),
        in_flight: new.metric("admission_requests_in_flight", "Reviews that are being answered"),
        leader: new.metric("leader", "Whether this process holds the lease and reconciles: 0 or 1"),
        lease_transitions: new
            .metric("lease_transitions", "Times that this process acquired, lost or released the lease"),
        reconciles: new.metric("reconciles", "Controller runs, by result"),
        // From 100 µs to 52 s.
        reconcile_duration: new.timed(
            "reconcile_duration",
            "Duration of a controller run",
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 20))),
        ),
        reconciles_due: new.metric("reconciles_due", "Objects whose run is in progress or due within a second"),
        lease_errors: new.metric("lease_errors", "Failures to read or renew the lease"),
        write_limit: new.metric("write_limit", "Writes that the leader sends at a time"),
        waiting: new.metric("admission_requests_waiting", "Reviews in the queue"),
        certificate_actions: new.metric("certificate_actions", "Writes of the leader that manages certificates"),
        missing_registrations: new.metric("missing_registrations", "Objects that should call topologist and do not"),
        bundle_disputes: new
            .metric("bundle_disputes", "CA bundles that another writer replaced and that were written again"),
        live_reads: new.metric(
            "live_reads",
            "Requests of reviews that the caches could not answer: objects, lists, definitions, Nodes of workload \
             clusters",
        ),
        stale_cache_skips: new.metric(
            "stale_cache_skips",
            "Runs for a Cluster that were postponed until a watch shows the last writes, by the kind that it lags \
             behind on",
        ),
        ssa_cache_hits: new.metric(
            "ssa_cache_hits",
            "Comparisons for which no dry run was needed, since the same one has shown no difference before",
        ),
        ssa_cache_misses: new.metric("ssa_cache_misses", "Comparisons for which the API server was asked for dry runs"),
        rotations_held: new.metric("rotations_held", "Templates that were replaced again and again, and are no longer"),
        broken_by_discovery: new
            .metric("broken_by_discovery", "Clusters that do not fit variables which Runtime Extensions define anew"),
        extension_requests: new.metric("extension_requests", "Requests to Runtime Extensions, by hook"),
        // From 1 ms to 33 s: no call takes longer than 30 s.
        extension_duration: new.timed(
            "extension_request_duration",
            "Time from a request to a Runtime Extension to its answer",
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 16))),
        ),
        computation_memory: ComputationMemory::new(&mut new),
        machines: new.metric("machines", "Machines by phase, where this process creates and upgrades them"),
        shed_requests: new.metric("shed_requests", "Reviews rejected because of overload"),
        registry,
    }
}

impl tls::identity::Observer for Metrics {
    #[allow(clippy::cast_precision_loss, reason = "seconds of Unix time are far below 2^53")]
    fn presented(&self, expires: i64) {
        self.tls_certificate_expiry.set(expires as f64);
    }

    fn reloaded(&self, is_used: bool) {
        let outcome = if is_used { "success" } else { "failure" };
        self.tls_reloads.get_or_create(&Outcome { outcome }).inc();
    }
}

impl Metrics {
    /// All metrics as text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if text::encode(&mut text, &self.registry).is_err() {
            text.clear();
            let _ = writeln!(text, "# the metrics could not be rendered");
        }
        text
    }
}
