use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::scripted::{Script, ScriptedAnswer};
use crate::webhook::routes::router;
use crate::webhook::testing::{self, post_review, review};
use model::hub::{ClusterClass, ObjectKey};
use model::world::{Facts, Found, Scope};

const PATH: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster?timeout=1s";

fn handler(limits: ReviewLimits) -> ReviewHandler {
    let cache = Arc::new(Cache::new(Facts::complete([], [])));
    ReviewHandler::new(Gatherer::new(cache), AdmissionSettings::default(), limits, Arc::new(Metrics::default()))
}

async fn post(handler: ReviewHandler, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    testing::post(router(Arc::new(handler)), path, body).await
}

fn create(object: Value) -> Value {
    json!({"uid": "u", "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Cluster"},
            "operation": "CREATE", "name": "c", "namespace": "ns", "object": object})
}

async fn status(request: Value) -> Value {
    let response = post_review(router(Arc::new(handler(ReviewLimits::default()))), PATH, &request).await;
    assert_eq!(response["uid"], "u");
    assert_eq!(response["allowed"], false);
    response["status"].clone()
}

#[tokio::test]
async fn what_is_no_review_gets_an_http_error() {
    for (body, code, words) in [
        (String::new(), 400, "EOF"),
        ("{\"apiVersion\":".into(), 400, "EOF"),
        ("[]".into(), 400, "not an AdmissionReview"),
        ("{}".into(), 400, "admission.k8s.io/v1 is understood"),
        (review(&create(json!({}))).replace("admission.k8s.io/v1\"", "admission.k8s.io/v1beta1\""), 400, "v1beta1"),
        (review(&Value::Null), 400, "it has no request"),
        (review(&json!({"uid": "u"})), 400, "missing field"),
        ("x".repeat(8 * 1024 * 1024), 413, "larger than 7340032 bytes"),
    ] {
        let (got, text) = post(handler(ReviewLimits::default()), PATH, body).await;
        assert_eq!(got.as_u16(), code, "{text}");
        assert!(text.contains(words), "{text}");
    }
    let (code, text) = post(handler(ReviewLimits::default()), "/validate", "").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    assert!(text.contains(PATH.split('?').next().unwrap()), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_version_change_is_answered_in_time_although_the_api_server_is_silent() {
    // UPG-008: what cannot be read is a reason.
    let class = json!({"metadata": {"namespace": "ns", "name": "base"}, "spec": {}});
    let facts = Facts::complete([], [serde_json::from_value::<ClusterClass>(class).unwrap()]);
    let object = |version: &str| {
        let reference = json!({"apiGroup": "g.io", "kind": "Control", "name": "cp"});
        let topology = json!({"classRef": {"name": "base"}, "version": version});
        let spec = json!({"controlPlaneRef": reference, "topology": topology});
        json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": spec})
    };
    let lists = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/";
    let script = Script::default();
    script.get(&format!("{lists}machinedeployments"), &[], ScriptedAnswer::Silence);
    script.get(&format!("{lists}machinepools"), &[], ScriptedAnswer::Silence);
    script.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/controls.g.io", &[], ScriptedAnswer::Silence);
    let metrics = Arc::new(Metrics::default());
    let gatherer = Gatherer::with_api_server(Arc::new(Cache::new(facts)), script.client(), metrics.clone());
    let handler = ReviewHandler::new(gatherer, AdmissionSettings::default(), ReviewLimits::default(), metrics);
    let mut update = create(object("v1.30.1"));
    update["operation"] = json!("UPDATE");
    update["oldObject"] = object("v1.30.0");
    let started = Instant::now();
    let (_, body) = post(handler, &PATH.replace("1s", "3s"), review(&update)).await;
    assert_eq!(started.elapsed(), Duration::from_millis(2_400), "one round, half a second before the caller gives up");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let cause = &answer["response"]["status"]["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.topology.version", "{answer}");
    for what in ["CustomResourceDefinition controls.g.io", "the MachineDeployments", "the MachinePools"] {
        assert!(cause["message"].as_str().unwrap().contains(what), "{cause}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_that_needs_more_facts_in_every_round_is_denied_with_the_missing_facts() {
    // ADM-009
    fn endless(question: &DecodedRequest, world: &World, settings: &AdmissionSettings) -> Verdict {
        let known = |number: &usize| world.class(&ObjectKey::new("ns", format!("c{number}"))) == Found::Absent;
        (0..100).find(|number| !known(number));
        allow(question, world, settings)
    }
    for (kind, last) in [("Cluster", 15), ("ClusterClass", 15)] {
        let (router, metrics) = evaluating(ReviewLimits::default(), endless);
        let (answer, _) = ask(router, kind).await;
        let words = format!("facts are still missing after 16 rounds: ClusterClass ns/c{last}");
        let status = &answer["status"];
        assert_eq!((&answer["allowed"], &status["code"]), (&json!(false), &json!(500)), "{answer}");
        assert!(status["message"].as_str().unwrap().ends_with(&words), "{answer}");
        assert_eq!(metrics.panics.get(), 0);
    }
}

#[tokio::test]
async fn with_enforce_warn_denials_are_allowed_and_counted() {
    // DEC-38
    let handler = ReviewHandler {
        settings: Arc::new(AdmissionSettings { enforce: Enforce::Warn, ..AdmissionSettings::default() }),
        ..handler(ReviewLimits::default())
    };
    let metrics = handler.metrics.clone();
    let router = router(Arc::new(handler));
    for object in [json!({"metadata": {"name": "c"}}), json!({"spec": {"paused": "no"}})] {
        let response = post_review(router.clone(), PATH, &create(object)).await;
        assert_eq!(response["allowed"], true, "{response}");
        assert!(response["warnings"][0].as_str().unwrap().starts_with("would be denied: "), "{response}");
    }
    let text = metrics.render();
    for line in [
        r#"topologist_admission_requests_total{kind="Cluster",operation="CREATE",outcome="allowed"} 2"#,
        r#"topologist_admission_would_be_denials_total{kind="Cluster",operation="CREATE",outcome="invalid"} 1"#,
        r#"topologist_admission_would_be_denials_total{kind="Cluster",operation="CREATE",outcome="undecodable"} 1"#,
        r#"topologist_rule_rejections_total{rule="CL-V-003"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn objects_out_of_scope_are_allowed_without_decoding() {
    // DEC-37
    let label = |value: &str| json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": value}}, "spec": {}});
    let mut update = create(label("theirs"));
    update["operation"] = json!("UPDATE");
    update["oldObject"] = label("ours");
    for (namespaces, filter, request, want) in [
        (vec!["ns"], None, create(json!({})), false),
        (vec!["other"], None, create(json!({})), true),
        (vec!["other"], None, create(json!([])), true),
        (vec![], Some("ours"), create(label("ours")), false),
        (vec![], Some("ours"), create(label("theirs")), true),
        (vec![], Some("ours"), update, false),
        (vec![], Some("ours"), create(json!({"metadata": 5})), false),
    ] {
        let namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
        let scope = Scope::new(&namespaces, filter.map(str::to_owned)).unwrap();
        let cache = Arc::new(Cache::new(Facts::complete([], []).within(scope)));
        let (settings, limits, metrics) =
            (AdmissionSettings::default(), ReviewLimits::default(), Arc::new(Metrics::default()));
        let handler = ReviewHandler::new(Gatherer::new(cache), settings, limits, metrics);
        let (_, body) = post(handler, PATH, review(&request)).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["response"]["allowed"], want, "{request}");
    }
}

const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

#[tokio::test]
async fn the_watch_filter_is_no_boundary_because_users_can_change_the_label() {
    // DEC-37
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}, "spec": {}});
    let (ours, theirs, none) = (json!({WATCH_FILTER: "ours"}), json!({WATCH_FILTER: "theirs"}), json!({}));
    let scope = Scope::new(&[], Some("ours".to_owned())).unwrap();
    let cache = Arc::new(Cache::new(Facts::complete([], []).within(scope)));
    let update = |old: &Value, new: &Value| {
        let mut request = create(labelled(new.clone()));
        request["operation"] = json!("UPDATE");
        request["oldObject"] = labelled(old.clone());
        request
    };
    for (what, request, is_judged) in [
        ("created with the label", create(labelled(ours.clone())), true),
        ("created without the label", create(labelled(none.clone())), false),
        ("gets the label", update(&none, &ours), true),
        ("loses the label, which is judged for the last time", update(&ours, &none), true),
        ("gets another value, which is judged for the last time", update(&ours, &theirs), true),
        ("changed after it lost the label", update(&none, &none), false),
        ("changed after it got another value", update(&theirs, &theirs), false),
    ] {
        let (settings, limits, metrics) =
            (AdmissionSettings::default(), ReviewLimits::default(), Arc::new(Metrics::default()));
        let handler = ReviewHandler::new(Gatherer::new(cache.clone()), settings, limits, metrics);
        let (_, body) = post(handler, PATH, review(&request)).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        // This Cluster is wrong, so what is judged is denied.
        assert_eq!(answer["response"]["allowed"], !is_judged, "{what}");
    }
}

#[tokio::test]
async fn errors_inside_a_review_are_answered_under_its_uid() {
    // ADM-001, ADM-003
    let change = |key: &str, value: Value| {
        let mut request = create(json!({}));
        request[key] = value;
        request
    };
    for (request, words) in [
        (create(json!({"spec": {"paused": "no"}})), "spec.paused: invalid type"),
        (create(json!([])), "expected an object"),
        (create(Value::Null), "the review has no object"),
        (
            change("kind", json!({"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "ClusterClass"})),
            "about ClusterClass",
        ),
        (
            change("kind", json!({"group": "cluster.x-k8s.io", "version": "v1", "kind": "Cluster"})),
            "cluster.x-k8s.io/v1",
        ),
        (
            change("kind", json!({"group": "example.com", "version": "v1beta2", "kind": "Cluster"})),
            "example.com/v1beta2",
        ),
        (change("operation", json!("CONNECT")), "operation CONNECT is not reviewed"),
        (change("operation", json!("UPDATE")), "the review has no oldObject"),
        (change("subResource", json!("status")), "subresources"),
    ] {
        let status = status(request.clone()).await;
        assert_eq!((&status["code"], &status["reason"]), (&json!(400), &json!("BadRequest")), "{request}");
        assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    }
}

#[tokio::test]
async fn a_panic_ends_one_request_with_code_500_and_is_counted() {
    // ADM-009
    let metrics = Arc::new(Metrics::default());
    let cache = Arc::new(Cache::new(Facts::complete([], [])));
    let mut broken = ReviewHandler::new(
        Gatherer::new(cache),
        AdmissionSettings::default(),
        ReviewLimits::default(),
        metrics.clone(),
    );
    broken.evaluate = |_, _, _| panic!("on purpose");
    let (code, body) = post(broken, PATH, review(&create(json!({"metadata": {"name": "c"}})))).await;
    assert_eq!(code, StatusCode::OK);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["response"]["status"]["code"], 500);
    assert_eq!(answer["response"]["uid"], "u");
    assert_eq!(metrics.panics.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let (_sender, receiver) = futures::channel::mpsc::unbounded::<Result<Bytes, std::io::Error>>();
    let (code, text) = post(handler(ReviewLimits::default()), PATH, Body::from_stream(receiver)).await;
    assert_eq!((code, &*text), (StatusCode::REQUEST_TIMEOUT, "topologist: the request body did not arrive in time\n"));
}

/// A router whose reviews are all answered by `evaluate`.
fn evaluating(limits: ReviewLimits, evaluate: Evaluate) -> (Router, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let cache = Arc::new(Cache::new(Facts::complete([], [])));
    let mut handler = ReviewHandler::new(Gatherer::new(cache), AdmissionSettings::default(), limits, metrics.clone());
    handler.evaluate = evaluate;
    (router(Arc::new(handler)), metrics)
}

/// Sends a review of that kind, and reads its answer and how long it took.
async fn ask(router: Router, kind: &str) -> (Value, Duration) {
    let mut request = create(json!({"metadata": {"name": "c", "namespace": "ns"}}));
    request["kind"]["kind"] = json!(kind);
    let path = format!("/validate-cluster-x-k8s-io-v1beta2-{}?timeout=2s", kind.to_lowercase());
    let started = Instant::now();
    (post_review(router, &path, &request).await, started.elapsed())
}

fn allow(question: &DecodedRequest, _: &World, _: &AdmissionSettings) -> Verdict {
    Verdict::plain(question.kind(), question.name(), AdmissionOutcome::Allowed)
}

fn allow_after<const MILLISECONDS: u64>(
    question: &DecodedRequest,
    world: &World,
    settings: &AdmissionSettings,
) -> Verdict {
    std::thread::sleep(Duration::from_millis(MILLISECONDS));
    allow(question, world, settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_more_reviews_than_places_waits_and_is_answered() {
    let limits = ReviewLimits { in_flight: 3, blocking: 2, ..ReviewLimits::default() };
    let (router, metrics) = evaluating(limits, allow_after::<100>);
    let burst = (0..12).map(|_| tokio::spawn(ask(router.clone(), "ClusterClass")));
    let mut longest = Duration::ZERO;
    for answer in burst.collect::<Vec<_>>() {
        let (answer, time) = answer.await.unwrap();
        assert_eq!(answer["allowed"], true, "{answer}");
        longest = longest.max(time);
    }
    assert!(longest >= Duration::from_millis(500), "two at a time, {longest:?}");
    assert!(metrics.render().contains("topologist_admission_requests_waiting{queue=\"reviews\"} 0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_beyond_the_queue_are_rejected_at_once_under_their_uid() {
    let limits = ReviewLimits { in_flight: 1, queue: 1, ..ReviewLimits::default() };
    let (router, metrics) = evaluating(limits, allow_after::<400>);
    let burst: Vec<_> = (0..5).map(|_| tokio::spawn(ask(router.clone(), "ClusterClass"))).collect();
    let (mut allowed, mut shed) = (0, 0);
    for answer in burst {
        let (answer, time) = answer.await.unwrap();
        assert_eq!(answer["uid"], "u");
        if answer["allowed"] == true {
            allowed += 1;
            continue;
        }
        shed += 1;
        assert!(time < Duration::from_millis(350), "{time:?}");
        let status = &answer["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(429), &json!("TooManyRequests")));
        assert_eq!(status["details"]["retryAfterSeconds"], 1, "so that clients try again by themselves");
        assert!(status["message"].as_str().unwrap().contains("too many reviews are waiting"), "{status}");
    }
    assert_eq!((allowed, shed), (2, 3));
    let text = metrics.render();
    for line in [
        "topologist_shed_requests_total{reason=\"queue_full\"} 3\n",
        "topologist_admission_requests_total{kind=\"ClusterClass\",operation=\"CREATE\",outcome=\"shed\"} 3\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn with_enforce_warn_an_overload_is_allowed_too() {
    // DEC-38
    let limits = ReviewLimits { in_flight: 0, queue: 0, ..ReviewLimits::default() };
    let settings = AdmissionSettings { enforce: Enforce::Warn, ..AdmissionSettings::default() };
    let handler = ReviewHandler { settings: Arc::new(settings), ..handler(limits) };
    let (answer, _) = ask(router(Arc::new(handler)), "Cluster").await;
    let warning = "would be denied: topologist is overloaded: too many reviews are waiting; try again";
    assert_eq!(answer, json!({"uid": "u", "allowed": true, "warnings": [warning]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_is_answered_before_its_caller_gives_up() {
    // One review takes the only thread for longer than the two seconds that callers wait, less the head start.
    let (router, metrics) = evaluating(ReviewLimits { blocking: 1, ..ReviewLimits::default() }, allow_after::<3000>);
    let both = [tokio::spawn(ask(router.clone(), "ClusterClass")), tokio::spawn(ask(router, "ClusterClass"))];
    let mut codes = Vec::new();
    for answer in both {
        let (answer, time) = answer.await.unwrap();
        assert!((1_500..1_950).contains(&time.as_millis()), "{time:?}");
        codes.push((answer["status"]["code"].clone(), answer["status"]["details"]["retryAfterSeconds"].clone()));
    }
    codes.sort_by_key(|(code, _)| code.as_u64());
    assert_eq!(codes, [(json!(429), json!(1)), (json!(500), Value::Null)]);
    for reason in ["no_turn", "unfinished"] {
        assert!(metrics.render().contains(&format!("topologist_shed_requests_total{{reason=\"{reason}\"}} 1\n")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn cluster_reviews_do_not_wait_for_class_reviews() {
    fn slow_for_classes(question: &DecodedRequest, world: &World, settings: &AdmissionSettings) -> Verdict {
        match question.kind() {
            Kind::ClusterClass => allow_after::<100>(question, world, settings),
            _ => allow(question, world, settings),
        }
    }
    let (router, _) = evaluating(ReviewLimits { blocking: 1, ..ReviewLimits::default() }, slow_for_classes);
    let classes: Vec<_> = (0..5).map(|_| tokio::spawn(ask(router.clone(), "ClusterClass"))).collect();
    let started = Instant::now();
    let mut reviews = 0;
    while !classes.iter().all(tokio::task::JoinHandle::is_finished) {
        let (answer, _) = tokio::spawn(ask(router.clone(), "Cluster")).await.unwrap();
        assert_eq!(answer["allowed"], true);
        reviews += 1;
    }
    assert!(started.elapsed() >= Duration::from_millis(450));
    assert!(reviews > 100, "only {reviews} Clusters were reviewed in {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_that_wait_for_their_turn_are_not_decoded_yet() {
    let (router, metrics) = evaluating(ReviewLimits { blocking: 1, ..ReviewLimits::default() }, allow_after::<400>);
    // This one does not decode, which is said in its only turn: after those that came before it.
    let mut request = create(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": 5}));
    request["kind"]["kind"] = json!("ClusterClass");
    let first = tokio::spawn(ask(router.clone(), "ClusterClass"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = tokio::spawn(ask(router.clone(), "ClusterClass"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let path = "/validate-cluster-x-k8s-io-v1beta2-clusterclass?timeout=9s";
    let (started, response) = (Instant::now(), post_review(router, path, &request).await);
    assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
    assert_eq!(response["status"]["code"], 400, "{response}");
    assert!(first.await.unwrap().0["allowed"] == true && second.await.unwrap().0["allowed"] == true);
    drop(metrics);
}

#[tokio::test]
async fn a_panic_on_a_blocking_thread_fails_only_its_request() {
    // ADM-009
    let (router, metrics) = evaluating(ReviewLimits::default(), |_, _, _| panic!("on purpose"));
    let (answer, _) = ask(router, "ClusterClass").await;
    assert_eq!(answer["status"]["code"], 500);
    assert_eq!(metrics.panics.get(), 1);
}
