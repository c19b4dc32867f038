//! Warnings and denials of reviews, by what edits do to machines.

use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Event, Namespace};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;

use crate::kubernetes::cache::Cache;
use crate::telemetry::metrics::Metrics;
use crate::webhook::review::ReviewHandler;
use crate::webhook::routes::router;
use crate::webhook::templates;
use crate::webhook::testing::post_review;
use apiserver::{self, Embedded};
use engine::topology::testing::Scene;
use model::hub::{ClusterClass, ObjectKey};
use model::world::{Found, Record};

mod size;

const FIELD: &str = "metadata.annotations[topologist.dev/approved-impact]";
const CLASS: &str = "/validate-cluster-x-k8s-io-v1beta2-clusterclass";

/// The inputs of an edit of a class with 40 Clusters, none of which stands for others.
fn inputs_of_many_clusters() -> ImpactInputs {
    let mut cluster = scene().document("Cluster").clone();
    let all = (0..39).fold(scene(), |scene, i| {
        cluster["metadata"]["name"] = json!(format!("c{i}"));
        scene.with(cluster.clone())
    });
    let class = |scene: &Scene| {
        Arc::new(serde_json::from_value::<ClusterClass>(scene.document("ClusterClass").clone()).unwrap())
    };
    let edit = Edit::Class { old: class(&scene()), new: class(&with_other_workers(&scene())) };
    let facts = all.simulator().facts().clone();
    let inputs = ImpactInputs::for_edit(&edit, &facts).unwrap();
    let answers = inputs.needs().into_iter().map(|need| (need.clone(), facts.answer(&need))).collect();
    inputs.with(&edit, answers).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn helping_threads_compare_clusters_of_large_edits_at_the_same_time_and_give_way_to_others() {
    let priority = || rustix::process::getpriority_process(None).unwrap();
    let inputs = inputs_of_many_clusters();
    let groups = inputs.groups();
    let (all_are_there, priorities) = (std::sync::Barrier::new(3), Mutex::new(Vec::new()));
    with_helpers(2, &groups, |_| {
        all_are_there.wait();
        priorities.lock().unwrap().push(priority());
    });
    let (usual, mut priorities) = (priority(), priorities.into_inner().unwrap());
    priorities.sort_unstable();
    let lower = (usual + NICE).min(LOWEST);
    assert_eq!((groups.len(), priorities), (40, vec![usual, lower, lower]));
    // There are too few groups for a third helper.
    let threads = Mutex::new(0);
    with_helpers(9, &groups, |_| *threads.lock().unwrap() += 1);
    assert_eq!(threads.into_inner().unwrap(), 3);
}

#[test]
fn a_panic_of_a_helping_thread_ends_the_comparisons() {
    let inputs = inputs_of_many_clusters();
    let (groups, compared) = (inputs.groups(), Mutex::new(0));
    let panicked = std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let _ends_on_panic = EndsOnPanic(&groups);
            panic!("a test");
        });
        helper.join().is_err()
    });
    let options = Options::new(false);
    inputs.compare_groups(groups.all(), options, Timestamp::UNIX_EPOCH, &Stop::never(), |_, _| {
        *compared.lock().unwrap() += 1;
    });
    assert_eq!((panicked, compared.into_inner().unwrap()), (true, 0));
}

/// Cluster `blade` with 3 + 4 machines, in a class that reviews let through.
fn scene() -> Scene {
    let worker = "/spec/topology/workers/machineDeployments/0";
    Scene::new()
        .at("Cluster", "/spec/topology/controlPlane/replicas", json!(3))
        .at("Cluster", &format!("{worker}/replicas"), json!(4))
        .at("Cluster", "/spec/topology/workers/machinePools", Value::Null)
}

fn larger(scene: &Scene) -> Scene {
    scene.clone().at("ForgeMachineTemplate smith", "/spec/template/spec/size", json!("large"))
}

/// The class with other templates of its workers.
fn with_other_workers(scene: &Scene) -> Scene {
    let at = "/spec/workers/machineDeployments/0/infrastructure/templateRef/name";
    scene.clone().at("ClusterClass", at, json!("brain"))
}

fn handler(scene: &Scene, limits: ReviewLimits) -> Arc<ReviewHandler> {
    let cache = Arc::new(Cache::new(scene.simulator().facts().clone()));
    Arc::new(ReviewHandler::new(
        Gatherer::new(cache),
        AdmissionSettings::default(),
        limits,
        Arc::new(Metrics::default()),
    ))
}

async fn review(handler: &Arc<ReviewHandler>, path: &str, old: &Value, new: &Value) -> Value {
    let (group, version) = new["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let request = json!({
        "uid": "u", "kind": {"group": group, "version": version, "kind": new["kind"]},
        "namespace": "ns", "name": new["metadata"]["name"], "operation": operation, "object": new, "oldObject": old,
    });
    post_review(router(handler.clone()), path, &request).await
}

async fn of_class(handler: &Arc<ReviewHandler>, before: &Scene, after: &Scene) -> Value {
    review(handler, CLASS, before.document("ClusterClass"), after.document("ClusterClass")).await
}

/// Without optimization a computation takes many times as long.
fn patient() -> ReviewLimits {
    ReviewLimits { impact: Duration::from_secs(20), time: Duration::from_secs(30), ..ReviewLimits::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_edit_tells_how_many_machines_it_replaces() {
    // DEC-42
    let (before, after) = (scene(), with_other_workers(&scene()));
    let answer = of_class(&handler(&before, patient()), &before, &after).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    assert_eq!(answer["warnings"][0], "replaces 4 machines in 1 of 1 Cluster (class ns/forge)");
    let summary: Value = serde_json::from_str(answer["auditAnnotations"]["impact"].as_str().unwrap()).unwrap();
    assert_eq!(summary["machines"]["replaced"], 4);
    let answer = of_class(&handler(&before, patient()), &before, &before).await;
    assert_eq!((answer.get("warnings"), answer.get("auditAnnotations")), (None, None));
    // RH-1.2
    let handlers =
        json!([{"name": "one.lab", "requestHook": {"apiVersion": "v1alpha1", "hook": "CanUpdateMachineSet"}}]);
    let extension = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "lab"}, "status": {"handlers": handlers}});
    let answer = of_class(&handler(&before.clone().with(extension), patient()), &before, &after).await;
    let warnings = answer["warnings"].as_array().unwrap();
    let want = json!("or machines are updated in place, if the extension lab agrees");
    assert!(warnings.contains(&want), "{answer}");
}

#[tokio::test]
async fn a_new_cluster_is_reviewed_on_one_thread_while_its_templates_are_not_known() {
    // DEC-57: sizes are summed up and nothing is computed.
    let scene = scene();
    let class: ClusterClass = serde_json::from_value(scene.document("ClusterClass").clone()).unwrap();
    let cache = Arc::new(Cache::new(Facts::complete([], [class])));
    let handler = ReviewHandler::new(Gatherer::new(cache), AdmissionSettings::default(), patient(), Arc::default());
    let (handler, new) = (Arc::new(handler), scene.document("Cluster"));
    // The class is compiled on another thread.
    assert_eq!(review(&handler, CLUSTER, &Value::Null, new).await["allowed"], true);
    let answer = review(&handler, CLUSTER, &Value::Null, new).now_or_never();
    assert_eq!(answer.expect("it waits for another thread")["allowed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_of_a_class_with_the_label_of_copies_is_warned_of() {
    // DEC-57
    let owned = json!({"topology.cluster.x-k8s.io/owned": ""});
    let before = scene().at("ForgeMachineTemplate smith", "/metadata/labels", owned);
    let answer = of_class(&handler(&before, patient()), &before, &with_other_workers(&before)).await;
    let warnings = answer["warnings"].as_array().unwrap();
    let want = "ForgeMachineTemplate ns/smith has the label topology.cluster.x-k8s.io/owned, so its edits are not watched: remove it";
    assert_eq!(warnings[0], "replaces 4 machines in 1 of 1 Cluster (class ns/forge)");
    assert!(answer["allowed"] == true && warnings.iter().any(|warning| warning == want), "{answer}");
}

#[tokio::test]
async fn an_edit_that_is_stored_leaves_an_event_on_its_class() {
    // DEC-42
    let (before, after) = (scene(), with_other_workers(&scene()));
    let cache = Arc::new(Cache::new(before.simulator().facts().clone()));
    let client = Embedded::new(apiserver::ApiOptions::default()).client();
    let handler =
        ReviewHandler::new(Gatherer::new(cache.clone()), AdmissionSettings::default(), patient(), Arc::default());
    let handler = Arc::new(handler.with_events(client.clone()));
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("ns".to_owned());
    kube::Api::all(client.clone()).create(&kube::api::PostParams::default(), &namespace).await.unwrap();
    let events = kube::Api::<Event>::namespaced(client, "ns");
    let listed = async || events.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(of_class(&handler, &before, &after).await["allowed"], true);
    // The class of the cache changes in another way: another caller was faster.
    let class = |scene: &Scene| scene.simulator().facts().class(&ObjectKey::new("ns", "forge"));
    let put = |scene: &Scene| {
        let Found::Yes(class) = class(scene) else { panic!("there is no class") };
        cache.update(|facts| {
            facts.put_class(ObjectKey::new("ns", "forge"), Record::readable(ClusterClass::clone(&class)));
        });
    };
    put(&before.clone().at("ClusterClass", "/spec/controlPlane/deletion", json!({"nodeDrainTimeoutSeconds": 5})));
    tokio::task::yield_now().await;
    assert_eq!(listed().await.len(), 0, "the edit is not stored yet");
    put(&after);
    let event = timeout(Duration::from_secs(20), async {
        loop {
            if let Some(event) = listed().await.pop() {
                return event;
            }
            tokio::task::yield_now().await;
        }
    });
    let event = event.await.unwrap();
    let reported = (event.reason.as_deref(), event.type_.as_deref(), event.involved_object.name.as_deref());
    assert_eq!(reported, (Some("MachinesAffected"), Some("Normal"), Some("forge")));
    let message = event.message.unwrap();
    assert!(message.starts_with("replaces 4 machines in 1 of 1 Cluster (class ns/forge); "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_of_classes_are_reviewed_for_their_impact_alone() {
    // DEC-42, DEC-53
    let (before, after) = (scene(), larger(&scene()));
    let edit = async |handler: &Arc<ReviewHandler>, name: &str| {
        let document = |scene: &Scene| scene.document(&format!("ForgeMachineTemplate {name}")).clone();
        review(handler, templates::PATH, &document(&before), &document(&after)).await
    };
    let answer = edit(&handler(&before, patient()), "smith").await;
    assert_eq!(
        (&answer["allowed"], &answer["warnings"][0]),
        (&json!(true), &json!("replaces 4 machines in 1 of 1 Cluster (ForgeMachineTemplate ns/smith)"),)
    );
    assert_eq!(
        edit(&handler(&before, patient()), "brain").await,
        json!({"uid": "u", "allowed": true}),
        "nothing changes"
    );
    let limited = ReviewLimits { max_replaced_machines: Some(3), ..patient() };
    let answer = edit(&handler(&before, limited), "smith").await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
    assert_eq!(
        answer["status"]["details"]["causes"],
        json!([{"reason": "FieldValueRequired", "message": answer["status"]["details"]["causes"][0]["message"], "field": FIELD}])
    );
    assert_eq!(answer["status"]["details"]["kind"], "ForgeMachineTemplate");
    let unused = before.clone().without("ClusterClass");
    let answer = edit(&handler(&unused, patient()), "smith").await;
    assert_eq!(answer, json!({"uid": "u", "allowed": true}), "no class refers to it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_denies_an_allowed_edit() {
    // DEC-53
    let (before, after) = (scene(), with_other_workers(&scene()));
    let limited = ReviewLimits { max_replaced_machines: Some(3), ..patient() };
    let answer = of_class(&handler(&before, limited), &before, &after).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)));
    assert_eq!(answer["status"]["details"]["causes"][0]["field"], FIELD);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.contains("more than the 3 of --max-replaced-machines"), "{message}");
    let approval = json!({"topologist.dev/approved-impact": "4 CHG0007"});
    let approved = after.at("ClusterClass", "/metadata/annotations", approval);
    assert_eq!(of_class(&handler(&before, limited), &before, &approved).await["allowed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_time_there_is_no_number_and_no_failure() {
    let (before, after) = (scene(), with_other_workers(&scene()));
    let off = ReviewLimits { impact: Duration::ZERO, ..patient() };
    let answer = of_class(&handler(&before, off), &before, &after).await;
    assert_eq!((&answer["allowed"], answer.get("warnings")), (&json!(true), None));
    let hasty = handler(&before, ReviewLimits { impact: Duration::from_nanos(1), ..patient() });
    let answer = of_class(&hasty, &before, &after).await;
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(
        answer["allowed"] == true && warning.starts_with("the number of replaced machines is not known"),
        "{answer}"
    );
    // A review waits no longer than that for its turn.
    let busy = handler(&before, ReviewLimits { impact: Duration::from_millis(50), ..patient() });
    let turns = all_threads(&busy).await;
    let answer = of_class(&busy, &before, &after).await;
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(answer["allowed"] == true && warning.contains("other edits are being computed"), "{answer}");
    drop(turns);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_is_reviewed_again_counts_once() {
    // DEC-42: the API server repeats an edit after a conflict.
    let (before, after) = (scene(), with_other_workers(&scene()));
    let handler = handler(&before, patient());
    let replaced = || {
        let action = metrics::Action { action: "replaced" };
        handler.assessor.metrics.announced_machines.get_or_create(&action).get()
    };
    for _ in 0..3 {
        assert_eq!(of_class(&handler, &before, &after).await["allowed"], true);
    }
    assert_eq!(replaced(), 4);
    let [before, after] = [before, after].map(|scene| scene.at("ClusterClass", "/metadata/generation", json!(7)));
    assert_eq!(of_class(&handler, &before, &after).await["allowed"], true);
    assert_eq!(replaced(), 8, "the same edit later");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_days_that_no_certificate_reaches_is_denied() {
    // DEC-59, ROLL-6: the machines would be replaced for ever.
    let before = scene();
    let handler = handler(&before, patient());
    let rollout = |days: i64| json!({"before": {"certificatesExpiryDays": days}});
    let patched = |days: i64| {
        let selector = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
            "matchResources": {"controlPlane": true},
        });
        let operations = json!([{"op": "add", "path": "/spec/template/spec/rollout", "value": rollout(days)}]);
        let patches = json!([{"name": "renews", "definitions": [{"selector": selector, "jsonPatches": operations}]}]);
        before.clone().at("ClusterClass", "/spec/patches", patches)
    };
    let template = |days: i64| {
        let mut template = before.document("KubeadmControlPlaneTemplate brain").clone();
        template["spec"]["template"]["spec"]["rollout"] = rollout(days);
        template
    };
    let answer = async |days: i64| {
        let old = before.document("KubeadmControlPlaneTemplate brain");
        [
            review(&handler, templates::PATH, old, &template(days)).await,
            of_class(&handler, &before, &patched(days)).await,
        ]
    };
    let fields = ["spec.template.spec.rollout.before.certificatesExpiryDays", "spec.patches"];
    for (answer, field) in answer(9999).await.iter().zip(fields) {
        let cause = &answer["status"]["details"]["causes"][0];
        assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
        assert_eq!(cause["field"], field, "{answer}");
        let message = cause["message"].as_str().unwrap();
        assert!(
            message.starts_with("Invalid value: 9999: certificates of machines are valid for 365 days"),
            "{message}"
        );
    }
    for answer in answer(60).await {
        assert_eq!(answer["allowed"], true, "{answer}");
    }
    // A class may be stored before its first Cluster.
    let stored = patched(9999);
    let new = stored.document("Cluster");
    let created = review(&self::handler(&stored, patient()), CLUSTER, &Value::Null, new).await;
    let cause = &created["status"]["details"]["causes"][0];
    assert_eq!((&created["allowed"], &cause["field"]), (&json!(false), &json!("spec.topology")), "{created}");
    // One that is stored stays.
    let stored = template(9999);
    let mut noted = stored.clone();
    noted["spec"]["template"]["spec"]["rollout"]["after"] = json!("2020-01-01T00:00:00Z");
    assert_eq!(review(&handler, templates::PATH, &stored, &noted).await["allowed"], true);
}

/// Takes all threads for impacts.
async fn all_threads(handler: &Arc<ReviewHandler>) -> Vec<QueuePermit<String>> {
    let mut turns = Vec::new();
    let owner = || Requester { peer: "other".to_owned(), namespace: "other" };
    while let Ok(turn) = handler.assessor.threads.acquire(owner(), Instant::now()).await {
        turns.push(turn);
    }
    assert!(!turns.is_empty());
    turns
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_counts_all_machines_of_an_edit_that_finds_no_thread_in_time() {
    // DEC-59
    let rolled_out = |scene: Scene| {
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "blade-x"});
        scene.at("Cluster", "/spec/infrastructureRef", reference)
    };
    let (before, after) = (rolled_out(scene()), rolled_out(with_other_workers(&scene())));
    let short = Duration::from_millis(700);
    let limited = |machines, unknown_impact| ReviewLimits {
        max_replaced_machines: Some(machines),
        unknown_impact,
        time: short,
        ..patient()
    };
    for (machines, unknown, is_allowed) in
        [(6, UnknownImpact::Bound, false), (7, UnknownImpact::Bound, true), (6, UnknownImpact::Warn, true)]
    {
        let busy = handler(&before, limited(machines, unknown));
        let _turns = all_threads(&busy).await;
        let answer = of_class(&busy, &before, &after).await;
        assert_eq!(answer["allowed"], is_allowed, "{answer}");
        let warning = answer["warnings"][0].as_str().unwrap();
        assert!(warning.contains("other edits are being computed"), "{answer}");
        if !is_allowed {
            let message = answer["status"]["message"].as_str().unwrap();
            assert!(message.contains("may replace or remove up to 7 machines in 1 Cluster (other edits"), "{message}");
        }
        let [smith, larger] =
            [&before, &larger(&before)].map(|scene| scene.document("ForgeMachineTemplate smith").clone());
        let answer = review(&busy, templates::PATH, &smith, &larger).await;
        assert_eq!(answer["allowed"], is_allowed, "a template: {answer}");
        let mut noted = smith.clone();
        noted["metadata"]["annotations"] = json!({"a": "b"});
        let answer = review(&busy, templates::PATH, &smith, &noted).await;
        assert_eq!(answer["allowed"], true, "its spec does not change: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_holds_edits_that_take_longer_than_their_warnings_may() {
    // DEC-53
    let (before, after) = (scene(), with_other_workers(&scene()));
    let hasty = ReviewLimits { impact: Duration::from_nanos(1), ..patient() };
    let answer = of_class(&handler(&before, hasty), &before, &after).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    let limited = ReviewLimits { max_replaced_machines: Some(3), ..hasty };
    let answer = of_class(&handler(&before, limited), &before, &after).await;
    assert_eq!(answer["allowed"], false, "{answer}");
    let annotated = |scene: Scene| {
        scene.at("ClusterClass", "/metadata/annotations", json!({"topologist.dev/max-replaced-machines": "3"}))
    };
    let (before, after) = (annotated(before), annotated(after));
    let answer = of_class(&handler(&before, hasty), &before, &after).await;
    assert_eq!(answer["allowed"], false, "{answer}");
}

const CLUSTER: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster";

/// The class with a patch that writes a number, and the definition of the templates that it writes to.
fn mispatched() -> Scene {
    let patch = json!({"name": "sizes", "definitions": [{
        "selector": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "ForgeMachineTemplate",
            "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["smith"]}}},
        "jsonPatches": [{"op": "replace", "path": "/spec/template/spec/size", "value": 5}],
    }]});
    let size = json!({"type": "object", "properties": {"size": {"type": "string"}}});
    let template = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": size}});
    let spec = json!({"type": "object", "properties": {"template": template}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    scene().at("ClusterClass", "/spec/patches", json!([patch])).with_definition(
        "forgemachinetemplates.infrastructure.cluster.x-k8s.io",
        &[("v1beta2", "v1beta2")],
        json!([{"name": "v1beta2", "schema": schema}]),
    )
}

const REFUSED: &str =
    "ForgeMachineTemplate spec.template.spec.size (patch \"sizes\"): must be of type string, and is integer";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_objects_would_be_refused_is_allowed_with_a_warning() {
    // DEC-32
    let scene = mispatched();
    let cluster = scene.document("Cluster");
    let create = async |handler: &Arc<ReviewHandler>| {
        let answer = review(handler, CLUSTER, &Value::Null, cluster).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        answer["warnings"].as_array().cloned().unwrap_or_default()
    };
    let answer = create(&handler(&scene, patient())).await;
    assert_eq!(answer.iter().filter(|warning| **warning == REFUSED).count(), 1, "{answer:?}");
    let off = ReviewLimits { impact: Duration::ZERO, ..patient() };
    assert!(!create(&handler(&scene, off)).await.contains(&REFUSED.into()), "it is switched off");
    let unknown = scene.clone().without("CustomResourceDefinition");
    let answer = create(&handler(&unknown, patient())).await;
    assert!(!answer.iter().any(|warning| warning.as_str().unwrap().contains("size")), "{answer:?}");
    let right = scene.clone().at("ClusterClass", "/spec/patches/0/definitions/0/jsonPatches/0/value", json!("5"));
    assert!(!create(&handler(&right, patient())).await.contains(&REFUSED.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_warns_of_refused_fields_besides_its_impact() {
    // DEC-32, DEC-42
    let before = mispatched();
    let after = before.clone().at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(1));
    let [old, new] = [&before, &after].map(|scene| scene.document("Cluster").clone());
    let answer = review(&handler(&before, patient()), CLUSTER, &old, &new).await;
    let warnings: Vec<&str> =
        answer["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert!(warnings.contains(&"removes 3 machines in 1 of 1 Cluster (Cluster ns/blade)"), "{warnings:?}");
    assert!(answer["allowed"] == true && warnings.contains(&REFUSED), "{warnings:?}");
    let same = review(&handler(&before, patient()), CLUSTER, &old, &old).await;
    assert!(!same.to_string().contains("ForgeMachineTemplate"), "nothing is asked for: {same}");
}
