//! Metrics in the OpenMetrics text format, all with the prefix `topologist_`.
//!
//! Labels come from fixed sets: kinds, operations, outcomes, rule ids. Names and messages never become labels.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Labels of an answered review.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Review {
    pub kind: &'static str,
    pub operation: &'static str,
    pub outcome: &'static str,
}

/// Labels of a converted object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Conversion {
    pub kind: &'static str,
    pub outcome: &'static str,
}

/// The rule that rejected something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Rule {
    pub rule: &'static str,
}

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    pub kind: &'static str,
}

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    pub outcome: &'static str,
}

/// A controller, and how a run of it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reconcile {
    pub controller: &'static str,
    pub outcome: &'static str,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Controller {
    pub controller: &'static str,
}

/// Why a request or a connection was turned away.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    pub reason: &'static str,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Action {
    pub action: &'static str,
}

/// What was asked of an API server, and how it answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Read {
    pub what: &'static str,
    pub outcome: &'static str,
}

/// Where a review waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Queue {
    pub queue: &'static str,
}

/// Every metric of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub admission_requests: Family<Review, Counter>,
    /// Denials that were only talked about, with the outcome that they would have had.
    pub would_be_denials: Family<Review, Counter>,
    pub admission_duration: Histogram,
    pub rule_rejections: Family<Rule, Counter>,
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
    pub reconciles: Family<Reconcile, Counter>,
    pub reconcile_duration: Family<Controller, Histogram>,
    pub waiting: Family<Queue, Gauge>,
    pub shed_requests: Family<Reason, Counter>,
    pub certificate_actions: Family<Action, Counter>,
    pub live_reads: Family<Read, Counter>,
    pub stale_cache_skips: Family<Kind, Counter>,
    pub ssa_cache_hits: Family<Controller, Counter>,
    pub ssa_cache_misses: Family<Controller, Counter>,
    pub rotations_held: Counter,
}

/// A gauge that is one higher for as long as this lives, however it ends.
#[derive(Debug)]
pub struct Raised(Gauge);

impl Raised {
    /// Raises the gauge.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Raised(gauge.clone())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Metrics {
            registry: Registry::default(),
            admission_requests: Family::default(),
            would_be_denials: Family::default(),
            // From 20 µs to 10 s.
            admission_duration: Histogram::new(exponential_buckets(0.000_02, 2.0, 20)),
            rule_rejections: Family::default(),
            conversions: Family::default(),
            conversion_duration: Histogram::new(exponential_buckets(0.000_02, 2.0, 20)),
            refused_requests: Family::default(),
            panics: Counter::default(),
            cache_objects: Family::default(),
            watched_kinds: Family::default(),
            cache_age: Family::default(),
            unreadable_objects: Family::default(),
            cache_unreadable_objects: Family::default(),
            watch_errors: Family::default(),
            handshake_failures: Family::default(),
            tls_reloads: Family::default(),
            tls_certificate_expiry: Gauge::default(),
            connections: Gauge::default(),
            closed_early: Family::default(),
            in_flight: Gauge::default(),
            leader: Gauge::default(),
            lease_transitions: Family::default(),
            lease_errors: Counter::default(),
            reconciles: Family::default(),
            // From 100 µs to 52 s.
            reconcile_duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 20))),
            waiting: Family::default(),
            shed_requests: Family::default(),
            certificate_actions: Family::default(),
            live_reads: Family::default(),
            stale_cache_skips: Family::default(),
            ssa_cache_hits: Family::default(),
            ssa_cache_misses: Family::default(),
            rotations_held: Counter::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("topologist");
        registry.register("admission_requests", "Reviews answered", self.admission_requests.clone());
        registry.register(
            "admission_would_be_denials",
            "Reviews that were allowed because denials are only warned about",
            self.would_be_denials.clone(),
        );
        registry.register_with_unit(
            "admission_duration",
            "Time from the last byte of a review to its answer",
            Unit::Seconds,
            self.admission_duration.clone(),
        );
        registry.register("rule_rejections", "Errors found, by rule", self.rule_rejections.clone());
        registry.register("conversions", "Objects converted to another version", self.conversions.clone());
        registry.register_with_unit(
            "conversion_duration",
            "Time from the last byte of a conversion review to its answer",
            Unit::Seconds,
            self.conversion_duration.clone(),
        );
        registry.register("refused_requests", "Requests turned away unread", self.refused_requests.clone());
        registry.register("panics", "Requests that ended in a panic", self.panics.clone());
        registry.register("cache_objects", "Objects in the caches", self.cache_objects.clone());
        registry.register("watched_kinds", "Versions of kinds that the leader watches", self.watched_kinds.clone());
        registry.register_with_unit(
            "cache_age",
            "Time since the API server was last heard of, be it that nothing has changed",
            Unit::Seconds,
            self.cache_age.clone(),
        );
        registry.register("unreadable_objects", "Watched objects that did not decode", self.unreadable_objects.clone());
        registry.register(
            "cache_unreadable_objects",
            "Stored objects that cannot be read now",
            self.cache_unreadable_objects.clone(),
        );
        registry.register("watch_errors", "Errors of watches, each followed by a retry", self.watch_errors.clone());
        registry.register("tls_handshake_failures", "TLS handshakes that failed", self.handshake_failures.clone());
        registry.register("tls_reloads", "Certificates found changed, and what came of it", self.tls_reloads.clone());
        registry.register_with_unit(
            "tls_certificate_expiry_timestamp",
            "When the serving certificate expires, in Unix time",
            Unit::Seconds,
            self.tls_certificate_expiry.clone(),
        );
        registry.register("connections", "Open connections, those of probes included", self.connections.clone());
        registry.register(
            "connections_closed_early",
            "Connections closed to make room for others",
            self.closed_early.clone(),
        );
        registry.register("admission_requests_in_flight", "Reviews that are being answered", self.in_flight.clone());
        registry.register("leader", "Whether this process holds the lease and reconciles: 0 or 1", self.leader.clone());
        registry.register(
            "lease_transitions",
            "Times that this process acquired, lost or released the lease",
            self.lease_transitions.clone(),
        );
        registry.register("reconciles", "Runs of controllers, and what came of them", self.reconciles.clone());
        registry.register_with_unit(
            "reconcile_duration",
            "Time that one run of a controller took",
            Unit::Seconds,
            self.reconcile_duration.clone(),
        );
        registry.register("lease_errors", "Failures to read or renew the lease", self.lease_errors.clone());
        registry.register("admission_requests_waiting", "Reviews that wait for their turn", self.waiting.clone());
        registry.register(
            "certificate_actions",
            "Writes of the leader that manages certificates",
            self.certificate_actions.clone(),
        );
        registry.register(
            "live_reads",
            "Facts that reviews asked for besides the caches: objects, lists, definitions, Nodes of workload clusters",
            self.live_reads.clone(),
        );
        registry.register(
            "stale_cache_skips",
            "Runs for a Cluster that were put off until a watch shows what was written, by the kind that it lags behind on",
            self.stale_cache_skips.clone(),
        );
        registry.register(
            "ssa_cache_hits",
            "Comparisons for which no dry run was needed, since the same one has shown no difference before",
            self.ssa_cache_hits.clone(),
        );
        registry.register(
            "ssa_cache_misses",
            "Comparisons for which the API server was asked for dry runs",
            self.ssa_cache_misses.clone(),
        );
        registry.register(
            "rotations_held",
            "Templates that were replaced again and again, and are no longer",
            self.rotations_held.clone(),
        );
        registry.register("shed_requests", "Reviews answered with an overload", self.shed_requests.clone());
    }

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
