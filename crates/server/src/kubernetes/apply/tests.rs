//! Plans that an API server refuses, step by step.

mod creation;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::scripted::{Script, ScriptedAnswer, status};
use engine::topology::plan::{Certainty, ChangedField};
use model::hub::ObjectKey;

const INFRASTRUCTURE: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/ns";
const CONTROL_PLANE: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/ns";
const BOOTSTRAP: &str = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns";
const CORE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns";
const EVENTS: &str = "/api/v1/namespaces/ns/events";
const MD: WorkerKind = WorkerKind::MachineDeployment;
const MP: WorkerKind = WorkerKind::MachinePool;

/// The step that does something to the object of a part, which is called `name`.
fn step(action: StepAction, part: TopologyPart, name: &str) -> PlanStep {
    let (group, kind) = match &part {
        TopologyPart::Infrastructure => ("infrastructure", "ForgeCluster"),
        TopologyPart::ControlPlane => ("controlplane", "KubeadmControlPlane"),
        TopologyPart::ControlPlaneMachines | TopologyPart::WorkerInfrastructure(WorkerKind::MachineDeployment, _) => {
            ("infrastructure", "ForgeMachineTemplate")
        }
        TopologyPart::WorkerInfrastructure(WorkerKind::MachinePool, _) => ("infrastructure", "ForgeMachinePool"),
        TopologyPart::Bootstrap(WorkerKind::MachineDeployment, _) => ("bootstrap", "KubeadmConfigTemplate"),
        TopologyPart::Bootstrap(WorkerKind::MachinePool, _) => ("bootstrap", "KubeadmConfig"),
        TopologyPart::Worker(kind, _) => ("", kind.name()),
        TopologyPart::ControlPlaneHealthCheck | TopologyPart::WorkerHealthCheck(_) => ("", "MachineHealthCheck"),
        TopologyPart::Cluster => ("", "Cluster"),
    };
    let dot = if group.is_empty() { "" } else { "." };
    let api_version = format!("{group}{dot}cluster.x-k8s.io/v1beta2");
    let object = ObjectRef::new(api_version.clone(), kind, ObjectKey::new("ns", name));
    let sent = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "ns", "name": name}});
    let is_there = matches!(action, StepAction::Apply | StepAction::Delete);
    PlanStep {
        action,
        part,
        object,
        uid: is_there.then(|| format!("uid-of-{name}")),
        current: None,
        replaces: (action == StepAction::Rotate).then(|| "old".to_owned()),
        applied: (action != StepAction::Delete).then(|| Arc::new(Object::try_from(sent).unwrap())),
        origins: Arc::default(),
        changes: Vec::new(),
        reason: "a test asks for it".to_owned(),
        certainty: Certainty::Exact,
    }
}

/// The step that notes both references in the Cluster.
fn references() -> PlanStep {
    let change = |field: &str| ChangedField {
        path: format!("spec.{field}"),
        from: None,
        to: Some(json!({"apiGroup": "g", "kind": "K", "name": field})),
        because: None,
        was: None,
        is_sensitive: false,
    };
    let changes = vec![change("infrastructureRef"), change("controlPlaneRef")];
    PlanStep { changes, ..step(StepAction::Apply, TopologyPart::Cluster, "blade") }
}

/// The Cluster that plans were made for.
fn base() -> Object {
    let base = json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"namespace": "ns", "name": "blade",
        "uid": "uid", "resourceVersion": "7",
        "generation": 1, "annotations": {"runtime.cluster.x-k8s.io/pending-hooks": "A"}}, "spec": {}});
    Object::try_from(base).unwrap()
}

/// The operation of a JSON patch that tests a value.
fn tests(path: &str, value: &str) -> String {
    format!("{{\"op\":\"test\",\"path\":\"{path}\",\"value\":{value}}}")
}

/// The operation of a JSON patch that adds a value.
fn adds(path: &str, value: &str) -> String {
    format!("{{\"op\":\"add\",\"path\":\"{path}\",\"value\":{value}}}")
}

fn create(part: TopologyPart, name: &str) -> PlanStep {
    step(StepAction::Create, part, name)
}

/// An answer with an object that was written.
fn written(name: &str) -> ScriptedAnswer {
    ScriptedAnswer::ok(
        json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "8"}}),
    )
}

/// Another answer than that.
fn refused(code: u16) -> ScriptedAnswer {
    let mut status = status(code, "Refused");
    status["details"] = json!({"causes": [{"reason": "FieldValueInvalid", "field": "spec.a", "message": "no"}]});
    ScriptedAnswer::Object(StatusCode::from_u16(code).unwrap(), status)
}

/// Carries steps out. Events are let in.
async fn carry_out(script: &Script, steps: Vec<PlanStep>) -> AppliedPlan {
    let plan = Plan { steps, ..Plan::default() };
    carry_out_plan(script, &plan).await
}

async fn carry_out_plan(script: &Script, plan: &Plan) -> AppliedPlan {
    carry_out_plan_of(script, plan, None).await
}

/// As a process that knows the uid of the shim, or does not.
async fn carry_out_plan_of(script: &Script, plan: &Plan, shim: Option<&str>) -> AppliedPlan {
    let applier = Applier::new(script.client());
    let cluster = ObjectKey::new("ns", "blade");
    let known_workers = &BTreeSet::new();
    let run = PlanRun { cluster: &cluster, base: &base(), plan, shim, known_workers };
    let outcome = applier.apply(run).await;
    assert_eq!(script.left(), 0, "{:?}", outcome.error);
    outcome
}

/// A script that applies, and that receives the result at the end.
trait Lines {
    fn applies(&self, path: &str, answer: ScriptedAnswer) -> &Self;
    fn deletes(&self, path: &str, uid: &str, answer: ScriptedAnswer) -> &Self;
    fn hears(&self, times: usize) -> &Self;
}

impl Lines for Script {
    fn applies(&self, path: &str, answer: ScriptedAnswer) -> &Self {
        self.expect(&Method::PATCH, path, &["fieldManager=capi-topology", "force=true"], answer)
    }

    fn deletes(&self, path: &str, uid: &str, answer: ScriptedAnswer) -> &Self {
        let precondition = format!("\"preconditions\":{{\"uid\":\"{uid}\"}}");
        self.expect(&Method::DELETE, path, &[&precondition], answer)
    }

    fn hears(&self, times: usize) -> &Self {
        (0..times).fold(self, |script, _| {
            script.expect(
                &Method::POST,
                EVENTS,
                &["topology/cluster-controller"],
                ScriptedAnswer::ok(json!({"metadata": {}})),
            )
        })
    }
}

#[tokio::test]
async fn a_new_infrastructure_cluster_is_noted_although_the_control_plane_fails() {
    // RS-18, RS-21
    let script = Script::default();
    script.applies(&format!("{INFRASTRUCTURE}/forgeclusters/ground"), written("ground"));
    script.applies(&format!("{INFRASTRUCTURE}/forgemachinetemplates/cells"), written("cells"));
    script.applies(&format!("{CONTROL_PLANE}/kubeadmcontrolplanes/brain"), refused(422));
    script.deletes(
        &format!("{INFRASTRUCTURE}/forgemachinetemplates/cells"),
        "uid-of-cells",
        ScriptedAnswer::ok(json!({})),
    );
    let words = [
        &*tests("/metadata/uid", "\"uid\""),
        &tests("/spec/infrastructureRef", "null"),
        "\"path\":\"/spec/infrastructureRef\",\"value\":{",
    ];
    script.expect(&Method::PATCH, &format!("{CORE}/clusters/blade"), &words, written("blade")).hears(1);
    let steps = vec![
        create(TopologyPart::Infrastructure, "ground"),
        create(TopologyPart::ControlPlaneMachines, "cells"),
        create(TopologyPart::ControlPlane, "brain"),
        references(),
        create(TopologyPart::WorkerInfrastructure(MD, "md".to_owned()), "smith"),
    ];
    let outcome = carry_out(&script, steps.clone()).await;
    let want = "failed to create KubeadmControlPlane.controlplane.cluster.x-k8s.io: FieldValueInvalid: spec.a: no";
    assert_eq!(outcome.error.unwrap().to_string(), want);
    assert!(outcome.cluster.is_some());
    let names: Vec<_> = outcome.written.iter().map(|one| &*one.object.key.name).collect();
    assert_eq!(names, ["ground", "cells", "blade"]);

    // Both errors are reported when the Cluster cannot be written either.
    let script = Script::default();
    script.applies(&format!("{INFRASTRUCTURE}/forgeclusters/ground"), written("ground"));
    script.applies(&format!("{INFRASTRUCTURE}/forgemachinetemplates/cells"), refused(422));
    script
        .expect(&Method::PATCH, &format!("{CORE}/clusters/blade"), &[], ScriptedAnswer::error(403, "Forbidden"))
        .hears(1);
    let error = carry_out(&script, steps.clone()).await.error.unwrap().to_string();
    let want = "failed to create ForgeMachineTemplate.infrastructure.cluster.x-k8s.io: FieldValueInvalid: spec.a: no; \
                failed to update Cluster ns/blade: scripted Forbidden";
    assert_eq!(error, want);

    // One that was there before has a reference already.
    let script = Script::default();
    script.applies(&format!("{INFRASTRUCTURE}/forgeclusters/ground"), written("ground"));
    script.applies(&format!("{CONTROL_PLANE}/kubeadmcontrolplanes/brain"), refused(422)).hears(1);
    let steps = vec![
        step(StepAction::Apply, TopologyPart::Infrastructure, "ground"),
        create(TopologyPart::ControlPlane, "brain"),
        references(),
    ];
    assert!(carry_out(&script, steps).await.cluster.is_none());
}

#[tokio::test]
async fn nothing_is_made_for_a_cluster_that_is_deleted_while_its_plan_is_executed() {
    // MA-27.15: what is made after its controller has deleted everything would stay.
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let goes_on = move |key: &ObjectKey, uid: &str| {
        assert_eq!((key.to_string(), uid), ("ns/blade".to_owned(), "uid"));
        calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 1
    };
    let script = Script::default();
    script.applies(&format!("{INFRASTRUCTURE}/forgeclusters/ground"), written("ground")).hears(1);
    let steps = vec![create(TopologyPart::Infrastructure, "ground"), create(TopologyPart::ControlPlane, "brain")];
    let (plan, cluster) = (Plan { steps, ..Plan::default() }, ObjectKey::new("ns", "blade"));
    let run = PlanRun { cluster: &cluster, base: &base(), plan: &plan, shim: None, known_workers: &BTreeSet::new() };
    let outcome = Applier::new(script.client()).only_while(goes_on).apply(run).await;
    assert_eq!(script.left(), 0);
    assert!(outcome.error.unwrap().is_conflict());
    assert_eq!(outcome.written.len(), 1);
}

#[tokio::test]
async fn the_reference_to_a_control_plane_that_is_not_there_is_left_out() {
    // RS-18
    let sent = Arc::new(std::sync::Mutex::new(Value::Null));
    let noted = sent.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let noted = noted.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let path = head.uri.path().to_owned();
            let mut answer = match path.rsplit('/').next().unwrap() {
                "brain" => (422, status(422, "Invalid")),
                "blade" => {
                    *noted.lock().unwrap() = serde_json::from_slice(&body).unwrap();
                    (200, json!({"metadata": {"resourceVersion": "8"}}))
                }
                _ => (200, json!({"metadata": {"uid": "u"}})),
            };
            if answer.0 == 200 {
                crate::kubernetes::scripted::identify(&path, &mut answer.1);
            }
            let body = axum::body::Body::from(answer.1.to_string());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(answer.0).body(body).unwrap())
        }
    });
    let applier = Applier::new(kube::Client::new(service, "default"));
    let steps =
        vec![create(TopologyPart::Infrastructure, "ground"), create(TopologyPart::ControlPlane, "brain"), references()];
    let (plan, cluster) = (Plan { steps, ..Plan::default() }, ObjectKey::new("ns", "blade"));
    let outcome = applier
        .apply(PlanRun { cluster: &cluster, base: &base(), plan: &plan, shim: None, known_workers: &BTreeSet::new() })
        .await;
    assert!(outcome.error.is_some());
    let reference = json!({"apiGroup": "g", "kind": "K", "name": "infrastructureRef"});
    let want = json!([
        {"op": "test", "path": "/metadata/uid", "value": "uid"},
        {"op": "test", "path": "/metadata/deletionTimestamp", "value": null},
        {"op": "test", "path": "/spec/infrastructureRef", "value": null},
        {"op": "add", "path": "/spec/infrastructureRef", "value": reference},
    ]);
    assert_eq!(*sent.lock().unwrap(), want);
}

#[tokio::test]
async fn the_old_template_of_a_control_plane_is_deleted_after_the_control_plane_was_updated() {
    // RS-21, ROT-06, EV-09: a rotated template is kept when only the end of the old one fails.
    let steps = vec![
        step(StepAction::Rotate, TopologyPart::ControlPlaneMachines, "new"),
        step(StepAction::Apply, TopologyPart::ControlPlane, "brain"),
        step(StepAction::Delete, TopologyPart::ControlPlaneMachines, "old"),
    ];
    let templates = format!("{INFRASTRUCTURE}/forgemachinetemplates");
    let brain = format!("{CONTROL_PLANE}/kubeadmcontrolplanes/brain");
    for (answer, is_fine) in [
        (ScriptedAnswer::ok(json!({})), true),
        (ScriptedAnswer::error(404, "NotFound"), true),
        (ScriptedAnswer::error(403, "Forbidden"), false),
    ] {
        let script = Script::default();
        script.applies(&format!("{templates}/new"), written("new")).applies(&brain, written("brain"));
        script.deletes(&format!("{templates}/old"), "uid-of-old", answer).hears(2);
        let outcome = carry_out(&script, steps.clone()).await;
        assert_eq!(outcome.error.is_none(), is_fine);
        assert_eq!(outcome.rotated, [TopologyPart::ControlPlaneMachines]);
    }
}

/// The templates of a machine deployment when it cannot be written.
fn deployment(action: StepAction) -> Vec<PlanStep> {
    let of = |part: fn(WorkerKind, String) -> TopologyPart| part(MD, "md".to_owned());
    let template = if action == StepAction::Create { StepAction::Create } else { StepAction::Rotate };
    vec![
        step(template, of(TopologyPart::WorkerInfrastructure), "metal"),
        step(template, of(TopologyPart::Bootstrap), "boot"),
        step(action, of(TopologyPart::Worker), "md-object"),
    ]
}

#[tokio::test(start_paused = true)]
async fn templates_of_a_rejected_machine_deployment_are_deleted_again() {
    // RS-29, RS-32
    let (metal, boot) =
        (format!("{INFRASTRUCTURE}/forgemachinetemplates/metal"), format!("{BOOTSTRAP}/kubeadmconfigtemplates/boot"));
    let md = format!("{CORE}/machinedeployments/md-object");
    for action in [StepAction::Create, StepAction::Apply] {
        let begun = || {
            let script = Script::default();
            if action == StepAction::Create {
                script.get(
                    &format!("{CORE}/machinedeployments"),
                    &["labelSelector"],
                    ScriptedAnswer::ok(json!({"items": null})),
                );
            }
            script.applies(&metal, written("metal"));
            script
        };
        let both_go = |script: &Script| {
            script.deletes(&metal, "uid-of-metal", ScriptedAnswer::ok(json!({})));
            script.deletes(&boot, "uid-of-boot", ScriptedAnswer::ok(json!({}))).hears(1);
        };
        // Nothing refers to the first when the second fails, whether or not the second was stored.
        let script = begun();
        script
            .applies(&boot, ScriptedAnswer::Silence)
            .deletes(&metal, "uid-of-metal", ScriptedAnswer::error(403, "Forbidden"))
            .hears(1);
        assert!(carry_out(&script, deployment(action)).await.error.is_some());

        let script = begun();
        script.applies(&boot, written("boot")).applies(&md, refused(422));
        both_go(&script);
        let error = carry_out(&script, deployment(action)).await.error.unwrap().to_string();
        let what = if action == StepAction::Create { "create MachineDeployment.cluster.x-k8s.io: " } else { "update " };
        assert!(error.starts_with(&format!("failed to {what}")), "{error}");

        // The API server does not know: it is looked at what there is.
        let refers = json!({"metadata": {"name": "md-object"}, "spec": {"infrastructureRef": {"name": "metal"}}});
        let script = begun();
        script.applies(&boot, written("boot")).applies(&md, ScriptedAnswer::error(500, "InternalError"));
        script.get(&md, &[], ScriptedAnswer::ok(refers.clone())).get(&md, &[], ScriptedAnswer::ok(refers));
        script.deletes(&boot, "uid-of-boot", ScriptedAnswer::ok(json!({}))).hears(1);
        carry_out(&script, deployment(action)).await.error.unwrap();
        let script = begun();
        script.applies(&boot, written("boot")).applies(&md, ScriptedAnswer::error(500, "InternalError"));
        script.get(&md, &[], ScriptedAnswer::error(404, "NotFound"));
        script.deletes(&metal, "uid-of-metal", ScriptedAnswer::ok(json!({})));
        script.get(&md, &[], ScriptedAnswer::error(403, "Forbidden")).hears(1);
        carry_out(&script, deployment(action)).await.error.unwrap();

        // It says nothing: what may be referred to stays.
        let script = begun();
        script.applies(&boot, written("boot")).applies(&md, ScriptedAnswer::Silence).hears(1);
        carry_out(&script, deployment(action)).await.error.unwrap();
    }
}

#[tokio::test]
async fn objects_of_a_new_machine_pool_that_is_rejected_are_deleted_again() {
    // RS-29, RS-34, RS-37
    let of = |part: fn(WorkerKind, String) -> TopologyPart| part(MP, "mp".to_owned());
    let pool = |action: StepAction| {
        vec![
            step(action, of(TopologyPart::WorkerInfrastructure), "metal"),
            step(action, of(TopologyPart::Bootstrap), "boot"),
            step(action, of(TopologyPart::Worker), "mp-object"),
        ]
    };
    let (metal, boot) =
        (format!("{INFRASTRUCTURE}/forgemachinepools/metal"), format!("{BOOTSTRAP}/kubeadmconfigs/boot"));
    let mp = format!("{CORE}/machinepools/mp-object");
    let script = Script::default();
    script.get(&format!("{CORE}/machinepools"), &[], ScriptedAnswer::ok(json!({"items": []})));
    script.applies(&metal, written("metal")).applies(&boot, written("boot")).applies(&mp, refused(422));
    script.deletes(&metal, "uid-of-metal", ScriptedAnswer::ok(json!({}))).deletes(
        &boot,
        "uid-of-boot",
        ScriptedAnswer::ok(json!({})),
    );
    script.hears(1);
    carry_out(&script, pool(StepAction::Create)).await.error.unwrap();
    let script = Script::default();
    script.applies(&metal, written("metal")).applies(&boot, written("boot")).applies(&mp, refused(422)).hears(1);
    carry_out(&script, pool(StepAction::Apply)).await.error.unwrap();

    let script = Script::default();
    script.get(&format!("{CORE}/machinedeployments"), &[], ScriptedAnswer::ok(json!({"items": []})));
    let steps =
        [deployment(StepAction::Create), vec![create(TopologyPart::WorkerHealthCheck("md".to_owned()), "check")]]
            .concat();
    for path in [
        format!("{INFRASTRUCTURE}/forgemachinetemplates/metal"),
        format!("{BOOTSTRAP}/kubeadmconfigtemplates/boot"),
        format!("{CORE}/machinedeployments/md-object"),
    ] {
        script.applies(&path, written(path.rsplit('/').next().unwrap()));
    }
    script.applies(&format!("{CORE}/machinehealthchecks/check"), refused(422)).hears(1);
    carry_out(&script, steps).await.error.unwrap();
}

#[tokio::test]
async fn without_the_live_list_no_worker_is_created() {
    // RS-27
    let script = Script::default();
    script.get(&format!("{CORE}/machinedeployments"), &[], ScriptedAnswer::error(403, "Forbidden"));
    let error = carry_out(&script, deployment(StepAction::Create)).await.error.unwrap().to_string();
    assert_eq!(error, "failed to list existing MachineDeployments: scripted Forbidden");
}

#[tokio::test]
async fn workers_are_listed_only_if_there_may_be_one_that_no_watch_has_shown() {
    // RS-27
    let list = |items: Value| ScriptedAnswer::ok(json!({"items": items}));
    let objects = |script: &Script| {
        script.applies(&format!("{INFRASTRUCTURE}/forgemachinetemplates/metal"), written("metal"));
        script.applies(&format!("{BOOTSTRAP}/kubeadmconfigtemplates/boot"), written("boot"));
        script.applies(&format!("{CORE}/machinedeployments/md-object"), written("md-object")).hears(1);
    };
    // The first run of a Cluster creates the shim.
    let script = Script::default();
    script.expect(&Method::POST, CONFIG_MAPS, &[], shim(json!({})));
    objects(&script);
    let created = carry_out_plan(&script, &with_shim(deployment(StepAction::Create), Shim::Create)).await;
    assert_eq!(created.known_workers, WorkerKind::ALL.into());

    let script = Script::default();
    script.get(&format!("{CORE}/machinedeployments"), &[], list(json!([])));
    objects(&script);
    assert_eq!(carry_out(&script, deployment(StepAction::Create)).await.known_workers, [MD].into());

    // What the plan does not know, the next plan may not know either.
    let script = Script::default();
    let labels = json!({"topology.cluster.x-k8s.io/deployment-name": "md"});
    let known = json!({"metadata": {"namespace": "ns", "name": "md-other", "labels": labels}});
    script.get(&format!("{CORE}/machinedeployments"), &[], list(json!([known])));
    let skipped = carry_out(&script, deployment(StepAction::Create)).await;
    assert!(skipped.known_workers.is_empty() && skipped.written.is_empty());

    let script = Script::default();
    objects(&script);
    let (plan, cluster) = (with_shim(deployment(StepAction::Create), Shim::Keep), ObjectKey::new("ns", "blade"));
    let run = PlanRun { cluster: &cluster, base: &base(), plan: &plan, shim: None, known_workers: &[MD].into() };
    let known = Applier::new(script.client()).apply(run).await;
    assert_eq!((known.known_workers, script.left()), ([MD].into(), 0));
}

#[tokio::test]
async fn a_machine_deployment_has_its_finalizer_only_if_a_controller_removes_it() {
    // DEC-119
    let labelled = |value: &str| json!({"cluster.x-k8s.io/watch-filter": value});
    let current = |finalizers: Value, deleted: Value| {
        let mut step = step(StepAction::Apply, TopologyPart::Worker(MD, "md".to_owned()), "md");
        let metadata = json!({"finalizers": finalizers, "deletionTimestamp": deleted});
        step.current = Some(Arc::new(Object::try_from(json!({"metadata": metadata})).unwrap()));
        step
    };
    let new = || create(TopologyPart::Worker(MD, "md".to_owned()), "md");
    let ours = json!([MachineOwner::Deployment.finalizer()]);
    let (everything, filtered) = (Scope::default(), Scope::new(&[], Some("team".to_owned())).unwrap());
    let (client, goes_on): (_, GoesOn) = (Script::default().client(), Box::new(|_, _| true));
    let (cluster, base, plan, known_workers) =
        (ObjectKey::new("ns", "blade"), base(), Plan::default(), BTreeSet::new());
    for (scope, labels, step, want) in [
        (None, json!({}), new(), false),
        (Some(&everything), json!({}), new(), true),
        (Some(&everything), json!({}), create(TopologyPart::Worker(MP, "mp".to_owned()), "mp"), false),
        (Some(&filtered), json!({}), new(), false),
        (Some(&filtered), labelled("another"), new(), false),
        (Some(&filtered), labelled("team"), new(), true),
        // What has it keeps it, also if the controller does not run any more.
        (None, json!({}), current(ours.clone(), Value::Null), true),
        (None, json!({}), current(ours, json!("2030-01-01T00:00:00Z")), false),
        (Some(&everything), json!({}), current(json!(["other"]), Value::Null), false),
    ] {
        let run = PlanRun { cluster: &cluster, base: &base, plan: &plan, shim: None, known_workers: &known_workers };
        let execution = PlanExecution {
            client: &client,
            goes_on: &goes_on,
            finalizes: scope,
            run,
            base: Cow::Borrowed(&base),
            current: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            made: Vec::new(),
            events: RunEvents::default(),
            outcome: AppliedPlan::default(),
        };
        let sent = Object::try_from(json!({"metadata": {"labels": labels}})).unwrap();
        assert_eq!(execution.has_finalizer(&step, &sent), want, "{scope:?} {sent:?} {:?}", step.current);
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/ns/configmaps";

/// The shim of `ns/blade` as the API server has it, with some of its metadata changed.
fn shim(changed: Value) -> ScriptedAnswer {
    let labels = json!({(label::CLUSTER_NAME): "blade", (label::OWNED): ""});
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blade", "uid": "uid"});
    let mut metadata = json!({"namespace": "ns", "name": "blade-shim", "uid": "uid-of-shim", "labels": labels,
        "ownerReferences": [owner]});
    for (name, value) in changed.as_object().unwrap() {
        metadata[name] = value.clone();
    }
    ScriptedAnswer::ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
}

/// What ConfigMaps of the name of the shim have that are none.
fn foreign() -> [Value; 5] {
    let owner = |kind: &str, uid: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "blade", "uid": uid}]);
    [
        json!({"ownerReferences": []}),
        json!({"ownerReferences": owner("Cluster", "another")}),
        json!({"ownerReferences": owner("Service", "uid")}),
        json!({"labels": {(label::CLUSTER_NAME): "blade"}}),
        json!({"labels": {(label::CLUSTER_NAME): "another", (label::OWNED): ""}}),
    ]
}

fn with_shim(steps: Vec<PlanStep>, shim: Shim) -> Plan {
    Plan { steps, shim, ..Plan::default() }
}

#[tokio::test]
async fn an_existing_shim_of_the_cluster_is_used_and_another_object_is_not() {
    // RS-14, DEC-47
    let ground = format!("{INFRASTRUCTURE}/forgeclusters/ground");
    let map = format!("{CONFIG_MAPS}/blade-shim");
    let made = with_shim(vec![create(TopologyPart::Infrastructure, "ground")], Shim::Create);
    let owner = "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"blade-shim\",\"uid\":\"uid-of-shim\"}]";
    let script = Script::default();
    let words = ["\"uid\":\"uid\"", "\"name\":\"blade-shim\"", label::OWNED];
    script.expect(&Method::POST, CONFIG_MAPS, &words, ScriptedAnswer::error(409, "AlreadyExists"));
    script.get(&map, &[], shim(json!({})));
    script.expect(&Method::PATCH, &ground, &[owner], written("ground")).hears(1);
    let outcome = carry_out_plan(&script, &made).await;
    assert_eq!((outcome.error.is_none(), outcome.shim.as_deref()), (true, Some("uid-of-shim")));

    for changed in foreign() {
        let script = Script::default();
        script.expect(&Method::POST, CONFIG_MAPS, &[], ScriptedAnswer::error(409, "AlreadyExists"));
        script.get(&map, &[], shim(changed.clone()));
        let outcome = carry_out_plan(&script, &made).await;
        let want = "ConfigMap ns/blade-shim exists and does not belong to this Cluster; delete or rename it";
        assert_eq!(outcome.error.unwrap().to_string(), want, "{changed}");
        assert!(outcome.written.is_empty() && outcome.shim.is_none(), "{changed}");
    }

    // With an owner that is being deleted, garbage collection would delete what it owns.
    let script = Script::default();
    script.expect(&Method::POST, CONFIG_MAPS, &[], ScriptedAnswer::error(409, "AlreadyExists"));
    script.get(&map, &[], shim(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
    assert!(carry_out_plan(&script, &made).await.error.unwrap().is_conflict());

    let script = Script::default();
    script.expect(&Method::POST, CONFIG_MAPS, &[], ScriptedAnswer::error(403, "Forbidden"));
    let error = carry_out_plan(&script, &made).await.error.unwrap();
    assert_eq!(error.to_string(), "failed to create ConfigMap: scripted Forbidden");
}

#[tokio::test]
async fn only_the_shim_of_the_cluster_is_deleted_and_by_its_uid() {
    // RS-14, DEC-47
    let map = format!("{CONFIG_MAPS}/blade-shim");
    let plan = with_shim(Vec::new(), Shim::Delete);
    let conflict = || ScriptedAnswer::error(409, "Conflict");
    let gone = || ScriptedAnswer::error(404, "NotFound");
    for answer in [ScriptedAnswer::ok(json!({})), gone(), conflict()] {
        let script = Script::default();
        script.deletes(&map, "uid-of-another-run", answer);
        let error = carry_out_plan_of(&script, &plan, Some("uid-of-another-run")).await.error;
        assert!(error.is_none(), "{error:?}");
    }
    for answer in [ScriptedAnswer::ok(json!({})), gone(), conflict()] {
        let script = Script::default();
        script.get(&map, &[], shim(json!({}))).deletes(&map, "uid-of-shim", answer);
        assert!(carry_out_plan(&script, &plan).await.error.is_none());
    }
    let script = Script::default();
    script.get(&map, &[], gone());
    assert!(carry_out_plan(&script, &plan).await.error.is_none(), "it is gone already");
    for changed in foreign() {
        let script = Script::default();
        script.get(&map, &[], shim(changed.clone()));
        assert!(carry_out_plan(&script, &plan).await.error.is_none(), "{changed}");
    }
}

#[tokio::test]
async fn hooks_are_marked_first_and_without_an_event() {
    // RS-23, EV-07, EV-09, HK-03
    let change = ChangedField {
        path: "metadata.annotations[runtime.cluster.x-k8s.io/pending-hooks]".to_owned(),
        from: Some(json!("A")),
        to: Some(json!("A,B")),
        because: None,
        was: None,
        is_sensitive: false,
    };
    let mark = PlanStep { changes: vec![change], ..step(StepAction::Apply, TopologyPart::Cluster, "blade") };
    let cluster = format!("{CORE}/clusters/blade");
    let script = Script::default();
    let hooks = "/metadata/annotations/runtime.cluster.x-k8s.io~1pending-hooks";
    let words = [&*tests(hooks, "\"A\""), &adds(hooks, "\"A,B\"")];
    script.expect(&Method::PATCH, &cluster, &words, written("blade"));
    // DEC-118: the next write is computed from the Cluster that this one has left.
    script.expect(&Method::PATCH, &cluster, &[&tests("/metadata/uid", "\"uid-of-blade\"")], written("blade")).hears(1);
    assert!(carry_out(&script, vec![mark.clone(), references()]).await.error.is_none());

    // What another client has marked since is not overwritten.
    let there = json!({"metadata": {"uid": "uid", "resourceVersion": "9", "annotations":
        {"runtime.cluster.x-k8s.io/pending-hooks": "C"}}});
    let script = Script::default();
    script.expect(&Method::PATCH, &cluster, &[], ScriptedAnswer::error(409, "Conflict"));
    script.get(&cluster, &[], ScriptedAnswer::ok(there));
    let error = carry_out(&script, vec![mark, references()]).await.error.unwrap();
    assert!(error.is_conflict(), "{error}");
}

#[tokio::test]
async fn hooks_of_a_step_that_the_control_plane_does_not_take_are_unmarked() {
    // HK-20: the next run would call AfterControlPlaneUpgrade before the control plane is upgraded.
    let change = |path: &str, from: &str, to: &str| ChangedField {
        path: path.to_owned(),
        from: Some(json!(from)),
        to: Some(json!(to)),
        because: None,
        was: None,
        is_sensitive: false,
    };
    let hooks = "metadata.annotations[runtime.cluster.x-k8s.io/pending-hooks]";
    let marked = "A,AfterClusterUpgrade,AfterControlPlaneUpgrade,BeforeWorkersUpgrade";
    let mark = PlanStep {
        changes: vec![change(hooks, "A", marked)],
        ..step(StepAction::Apply, TopologyPart::Cluster, "blade")
    };
    let at = |version: &str, spec: &str| {
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"namespace": "ns", "name": "brain",
            "uid": "uid-of-brain", "resourceVersion": version}, "spec": {"version": spec}})
    };
    let upgrade = PlanStep {
        current: Some(Object::try_from(at("3", "v1.32.0")).unwrap().into()),
        changes: vec![change("spec.version", "v1.32.0", "v1.33.0")],
        ..step(StepAction::Apply, TopologyPart::ControlPlane, "brain")
    };
    let cluster = format!("{CORE}/clusters/blade");
    let control_plane = format!("{CONTROL_PLANE}/kubeadmcontrolplanes/brain");
    let unmarked = adds("/metadata/annotations/runtime.cluster.x-k8s.io~1pending-hooks", "\"A,AfterClusterUpgrade\"");
    let unmarked = &*unmarked;
    let marks = || {
        ScriptedAnswer::ok(json!({"metadata": {"uid": "uid-of-blade", "resourceVersion": "8",
            "annotations": {"runtime.cluster.x-k8s.io/pending-hooks": marked}}}))
    };
    for (stored, is_unmarked) in [
        (ScriptedAnswer::ok(at("4", "v1.32.0")), true),
        (ScriptedAnswer::ok(at("4", "v1.33.0")), false),
        (ScriptedAnswer::error(503, "ServiceUnavailable"), false),
        (ScriptedAnswer::error(404, "NotFound"), false),
    ] {
        let script = Script::default();
        script.expect(&Method::PATCH, &cluster, &[marked], marks());
        script.expect(&Method::PATCH, &control_plane, &[], refused(422));
        script.get(&control_plane, &[], stored);
        if is_unmarked {
            script.expect(
                &Method::PATCH,
                &cluster,
                &[unmarked, &tests("/metadata/uid", "\"uid-of-blade\"")],
                written("blade"),
            );
        }
        assert!(carry_out(&script, vec![mark.clone(), upgrade.clone()]).await.error.is_some());
    }
    // A step before it fails.
    let ground = format!("{INFRASTRUCTURE}/forgeclusters/ground");
    let infrastructure = step(StepAction::Apply, TopologyPart::Infrastructure, "ground");
    let script = Script::default();
    script.expect(&Method::PATCH, &cluster, &[marked], marks());
    script.expect(&Method::PATCH, &ground, &[], refused(422));
    script.get(&control_plane, &[], ScriptedAnswer::ok(at("3", "v1.32.0")));
    script.expect(&Method::PATCH, &cluster, &[unmarked], written("blade"));
    assert!(carry_out(&script, vec![mark.clone(), infrastructure, upgrade.clone()]).await.error.is_some());
    // It is not known whether the marks are stored.
    let there = |hooks: &str| {
        ScriptedAnswer::ok(json!({"metadata": {"uid": "uid", "resourceVersion": "8",
            "annotations": {"runtime.cluster.x-k8s.io/pending-hooks": hooks}}}))
    };
    for (stored, is_unmarked) in [(marked, true), ("A", false)] {
        let script = Script::default();
        script.expect(&Method::PATCH, &cluster, &[marked], ScriptedAnswer::error(504, "Timeout"));
        script.get(&control_plane, &[], ScriptedAnswer::ok(at("3", "v1.32.0")));
        script.get(&cluster, &[], there(stored));
        if is_unmarked {
            let words = ["pending-hooks\":\"A,AfterClusterUpgrade\"", "\"resourceVersion\":\"8\""];
            script.expect(&Method::PATCH, &cluster, &words, written("blade"));
        }
        assert!(carry_out(&script, vec![mark.clone(), upgrade.clone()]).await.error.is_some());
    }
    let script = Script::default();
    script.expect(&Method::PATCH, &cluster, &[marked], written("blade"));
    script.expect(&Method::PATCH, &control_plane, &[], written("brain")).hears(1);
    assert!(carry_out(&script, vec![mark, upgrade]).await.error.is_none(), "a step that is taken");
}

#[tokio::test]
async fn a_cluster_that_was_created_again_is_not_the_planned_one() {
    // RS-22
    let cluster = format!("{CORE}/clusters/blade");
    for there in [
        json!({"metadata": {"uid": "another", "resourceVersion": "9"}}),
        json!({"metadata": {"uid": "uid", "resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        let script = Script::default();
        script.expect(&Method::PATCH, &cluster, &[], ScriptedAnswer::error(409, "Conflict"));
        script.get(&cluster, &[], ScriptedAnswer::ok(there));
        assert!(carry_out(&script, vec![references()]).await.error.unwrap().is_conflict());
    }
    let script = Script::default();
    // A test has failed because of another place than those of the plan.
    script.expect(&Method::PATCH, &cluster, &["\"op\":\"test\""], ScriptedAnswer::error(422, "Invalid"));
    for _ in 0..5 {
        script.get(&cluster, &[], ScriptedAnswer::ok(json!({"metadata": {"uid": "uid", "resourceVersion": "8"}})));
        let words = ["\"resourceVersion\":\"8\""];
        script.expect(&Method::PATCH, &cluster, &words, ScriptedAnswer::error(409, "Conflict"));
    }
    let error = carry_out(&script, vec![references()]).await.error.unwrap();
    assert_eq!(error.to_string(), "Cluster ns/blade has changed since it was read");
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_written_do_not_stop_a_run() {
    // EV-02
    let ground = format!("{INFRASTRUCTURE}/forgeclusters/ground");
    let script = Script::default();
    script.applies(&ground, written("ground"));
    script.expect(&Method::POST, EVENTS, &[], ScriptedAnswer::error(403, "Forbidden"));
    let update = || vec![step(StepAction::Apply, TopologyPart::Infrastructure, "ground")];
    assert!(carry_out(&script, update()).await.error.is_none());
    let script = Script::default();
    script.applies(&ground, written("ground")).expect(&Method::POST, EVENTS, &[], ScriptedAnswer::Silence);
    assert!(carry_out(&script, update()).await.error.is_none());
}

#[test]
fn messages_are_those_of_the_specification() {
    // EV-01 to EV-06, EV-09
    let versions = |path: &str| {
        let (from, to) = (Some(json!("v1.33.0")), Some(json!("v1.34.0")));
        vec![ChangedField { path: path.to_owned(), from, to, because: None, was: None, is_sensitive: false }]
    };
    let worker = |kind| TopologyPart::Worker(kind, "w".to_owned());
    let smith = || TopologyPart::WorkerInfrastructure(MD, "w".to_owned());
    let cases: BTreeMap<&str, (TopologyEvent, PlanStep)> = [
        ("Created ForgeCluster \"ns/n\"", (CREATED, create(TopologyPart::Infrastructure, "n"))),
        ("Updated ForgeCluster \"ns/n\"", (UPDATED, step(StepAction::Apply, TopologyPart::Infrastructure, "n"))),
        ("Updated ForgeMachineTemplate \"ns/n\" (metadata changes)", (UPDATED, step(StepAction::Apply, smith(), "n"))),
        (
            "Created ForgeMachineTemplate \"ns/n\" as a replacement for \"old\" (template rotation)",
            (CREATED, step(StepAction::Rotate, smith(), "n")),
        ),
        (
            "Updated KubeadmControlPlane \"ns/n\" with version change from v1.33.0 to v1.34.0",
            (
                UPDATED,
                PlanStep {
                    changes: versions("spec.version"),
                    ..step(StepAction::Apply, TopologyPart::ControlPlane, "n")
                },
            ),
        ),
        (
            "Updated MachinePool \"ns/n\" with version change from v1.33.0 to v1.34.0",
            (
                UPDATED,
                PlanStep {
                    changes: versions("spec.template.spec.version"),
                    ..step(StepAction::Apply, worker(MP), "n")
                },
            ),
        ),
        (
            "Updated MachineDeployment \"ns/n\"",
            (UPDATED, PlanStep { changes: versions("spec.version"), ..step(StepAction::Apply, worker(MD), "n") }),
        ),
        ("Deleted MachinePool \"ns/n\"", (DELETED, step(StepAction::Delete, worker(MP), "n"))),
        (
            "Deleted MachineHealthCheck \"ns/n\"",
            (DELETED, step(StepAction::Delete, TopologyPart::ControlPlaneHealthCheck, "n")),
        ),
        ("Updated KubeadmConfig \"ns/n\"", {
            (UPDATED, step(StepAction::Apply, TopologyPart::Bootstrap(MP, "w".to_owned()), "n"))
        }),
    ]
    .into();
    for (want, (event, step)) in cases {
        let (found, part) = event_part(&step).unwrap();
        assert_eq!((found, format!("{} {part}", event.verb)), (event, want.to_owned()));
    }
    assert_eq!(event_part(&step(StepAction::Delete, TopologyPart::ControlPlaneMachines, "n")), None);
}

#[test]
fn a_run_has_one_event_for_each_reason_and_more_only_if_its_message_is_full() {
    // DEC-117
    let mut events = RunEvents::default();
    let mut record = |event: TopologyEvent, part: String| {
        events.0.entry(event.verb).or_insert_with(|| (event, Vec::new())).1.push(part);
    };
    record(CREATED, "A \"ns/a\"".to_owned());
    record(UPDATED, "B \"ns/b\" (metadata changes)".to_owned());
    for number in 0..60 {
        record(CREATED, format!("ForgeMachineTemplate \"ns/{number}\""));
    }
    let cluster = ObjectRef::new(API_VERSION, "Cluster", ObjectKey::new("ns", "blade"));
    let texts: Vec<String> = events.about(&cluster, "uid").iter().map(|event| event.message().to_owned()).collect();
    assert!(texts[0].starts_with("Created A \"a\", ForgeMachineTemplate \"0\", Forge"), "{texts:?}");
    assert!(texts[1].starts_with("Created ForgeMachineTemplate \""), "{texts:?}");
    assert_eq!(texts[2..], ["Updated B \"ns/b\" (metadata changes)"]);
    let all = texts.concat();
    assert!((0..60).all(|number| all.matches(&format!("\"{number}\"")).count() == 1), "{texts:?}");
    assert!(texts.iter().all(|text| text.len() <= LONGEST_MESSAGE), "{texts:?}");
}
