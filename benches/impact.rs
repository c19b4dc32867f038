//! What counting the machines of an edit costs, and what it costs others: edits of a class with 1,000 Clusters, alone
//! and twenty at once, with reviews of Clusters beside them. Without TLS and sockets.
//!
//! Budgets are those of the design. `cargo bench --profile dist --bench impact`; exit code 1 when a budget is missed by
//! more than the tolerance.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts and times are small")]

mod support {
    pub mod budgets;
    pub mod topologies;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use futures::future::join_all;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use support::budgets::{Budget, Budgets, millis};
use support::topologies::{self, Size};
use topologist::admission::AdmissionSettings;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::gather::Gatherer;
use topologist::telemetry::metrics::Metrics;
use topologist::webhook::limits::ReviewLimits;
use topologist::webhook::review::ReviewHandler;
use topologist::webhook::routes::router;
use topologist::world::Facts;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLUSTERS: usize = 1_000;
const AT_ONCE: usize = 20;
const SIZE: Size = Size { deployments: 3, patches: 15 };
const CLASS: &str = "/validate-cluster-x-k8s-io-v1beta2-clusterclass";
const CLUSTER: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster";

fn main() {
    let mut budgets = Budgets::titled("The impact of edits of a class with 1,000 Clusters, each with 12 machines");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let limits = ReviewLimits::default();
    let budget = Budget::AtMost(millis(limits.impact) * 1.2);
    let router = server(topologies::facts(CLUSTERS, SIZE), limits);
    let (alone, warning) = runtime.block_on(edit(&router));
    println!("{warning}");
    budgets.note("one edit, answered after", "ms", budget, millis(alone));
    let reviews = |beside: bool| runtime.block_on(reviews_of_clusters(&router, beside));
    let _ = reviews(false);
    let quiet = reviews(false);
    let (together, busy) = (runtime.block_on(many(&router)), reviews(true));
    budgets.note(&format!("{AT_ONCE} edits at once, the last answered after"), "ms", budget, millis(together));
    budgets.note("reviews of Clusters in a second, nothing beside", "/s", Budget::None, quiet);
    budgets.note("reviews of Clusters in a second, beside edits", "/s", Budget::None, busy);
    budgets.note("the same as a ratio", "", Budget::None, busy / quiet);
    let off = server(topologies::facts(CLUSTERS, SIZE), ReviewLimits { impact: Duration::ZERO, ..limits });
    let (without, _) = runtime.block_on(edit(&off));
    let unlike = server(topologies::facts_that_differ(CLUSTERS, SIZE), limits);
    let (alone, warning) = runtime.block_on(edit(&unlike));
    println!("{warning}");
    budgets.note("one edit, no two Clusters are equal, answered after", "ms", budget, millis(alone));
    budgets.note("Clusters that are compared for it", "", Budget::None, compared(&warning));
    budgets.note("one edit without its impact", "ms", Budget::None, millis(without));
    budgets.finish();
}

/// The HTTP handler in a world of one class; of a server, only TLS and sockets are missing.
fn server(facts: Facts, limits: ReviewLimits) -> Router {
    let cache = Arc::new(Cache::new(facts));
    let handler =
        ReviewHandler::new(Gatherer::new(cache), AdmissionSettings::default(), limits, Arc::new(Metrics::default()));
    router(Arc::new(handler))
}

/// How many Clusters the number of a warning comes from: all of them, unless it is an estimate.
fn compared(warning: &str) -> f64 {
    let estimate = warning.split_once("estimated from ").map(|(_, rest)| rest.trim_end_matches(')').replace(',', ""));
    estimate.map_or(CLUSTERS as f64, |number| number.parse().unwrap())
}

/// How long the answer to an edit of the class takes, and its first warning.
async fn edit(router: &Router) -> (Duration, String) {
    let (old, _) = topologies::class_and_templates(SIZE);
    let mut new = old.clone();
    // A label of machines is in place; another strategy of bootstrapping is not.
    new["spec"]["workers"]["machineDeployments"][0]["failureDomain"] = json!("east");
    let started = Instant::now();
    let answer = post(router, CLASS, &old, &new).await;
    let time = started.elapsed();
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    (time, answer["response"]["warnings"][0].as_str().unwrap_or_default().to_owned())
}

/// How long the last of many edits takes.
async fn many(router: &Router) -> Duration {
    let times = join_all((0..AT_ONCE).map(|_| {
        let router = router.clone();
        tokio::spawn(async move { edit(&router).await.0 })
    }));
    times.await.into_iter().map(Result::unwrap).max().unwrap()
}

/// Reviews of a Cluster that are answered in a second, while edits of its class go on or not.
async fn reviews_of_clusters(router: &Router, beside_edits: bool) -> f64 {
    let stop = Arc::new(AtomicBool::new(!beside_edits));
    let editing = tokio::spawn({
        let (router, stop) = (router.clone(), stop.clone());
        async move {
            while !stop.load(Ordering::Relaxed) {
                edit(&router).await;
            }
        }
    });
    let cluster = topologies::cluster(7, SIZE);
    let (started, mut answered) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(2) {
        // An update that changes nothing: the review alone is measured.
        assert_eq!(post(router, CLUSTER, &cluster, &cluster).await["response"]["allowed"], true);
        answered += 1;
    }
    let rate = f64::from(answered) / started.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    editing.await.unwrap();
    rate
}

async fn post(router: &Router, path: &str, old: &Value, new: &Value) -> Value {
    let (group, version) = new["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": group, "version": version, "kind": new["kind"]},
        "namespace": new["metadata"]["namespace"], "name": new["metadata"]["name"],
        "operation": "UPDATE", "object": new, "oldObject": old,
    }});
    let request = Request::post(path).body(Body::from(review.to_string())).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}
