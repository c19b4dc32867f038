//! Machines are defaulted and judged on their way into a real API server, where topologist drives them (MA-28).

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topologist::crd;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay_with, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait::{self, SOON};

fn api(kubernetes: &Kubernetes, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
    Api::namespaced_with(kubernetes.client(), "default", &resource)
}

async fn create(kubernetes: &Kubernetes, kind: &str, name: &str, spec: &Value) -> kube::Result<Value> {
    let object =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let created = api(kubernetes, kind).create(&PostParams::default(), &object).await?;
    Ok(serde_json::to_value(created).unwrap())
}

/// The fields that an answer complains of.
fn fields(answer: kube::Result<Value>) -> Vec<String> {
    match answer {
        Err(kube::Error::Api(status)) => {
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            assert!(!causes.is_empty(), "{}", status.message);
            causes.into_iter().map(|cause| cause.field).collect()
        }
        other => panic!("it is not refused: {other:?}"),
    }
}

#[tokio::test]
async fn machines_get_their_defaults_and_those_that_cannot_work_are_refused() {
    let kubernetes = Kubernetes::start();
    let mut definitions = crd::definitions();
    definitions
        .iter_mut()
        .for_each(|definition| drop(definition["spec"].as_object_mut().unwrap().remove("conversion")));
    kubernetes.apply_yaml(&stream(&definitions)).await;
    let manifests = overlay_with("beside", &["lifecycle"], &[]);
    kubernetes.apply_yaml(&stream(&permissions(manifests.clone()))).await;
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), kubeconfig.display().to_string());
    let arguments = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--lifecycle", "on"];
    let topologist = Topologist::serve(&arguments);
    topologist.wait_until_ready();
    let authority = std::fs::read(file("ca.crt")).unwrap();
    kubernetes.apply_yaml(&stream(&webhooks_at(manifests, &topologist.webhook, &authority))).await;

    let reference =
        json!({"apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedMachineTemplate", "name": "a"});
    let machine = json!({"clusterName": "one", "version": "1.33.0", "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": reference});
    let group = json!({"clusterName": "one", "template": {"spec": machine}});
    // A selector is required, and there is none yet: a write that gets through was given one.
    let first = async || create(&kubernetes, "MachineDeployment", "workers", &group).await;
    let error = async || format!("{:?}", first().await);
    let made = wait::until_some_async("the webhook sets defaults", SOON, async || first().await.ok(), error).await;
    let selected = json!({"cluster.x-k8s.io/cluster-name": "one", "cluster.x-k8s.io/deployment-name": "workers"});
    let spec = &made["spec"];
    assert_eq!(made["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "one"}));
    assert_eq!((&spec["selector"]["matchLabels"], &spec["template"]["metadata"]["labels"]), (&selected, &selected));
    assert_eq!((&spec["replicas"], &spec["template"]["spec"]["version"]), (&json!(1), &json!("v1.33.0")));
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    assert_eq!(spec["rollout"]["strategy"], rolling);

    let made = create(&kubernetes, "MachineSet", "set", &group).await.unwrap();
    assert_eq!(made["spec"]["selector"]["matchLabels"], json!({"cluster.x-k8s.io/set-name": "set"}));
    let made = create(&kubernetes, "Machine", "machine", &machine).await.unwrap();
    assert_eq!(made["spec"]["deletion"], json!({"nodeDeletionTimeoutSeconds": 10}));
    let check = json!({"clusterName": "one", "selector": {"matchLabels": {"a": "b"}}});
    let made = create(&kubernetes, "MachineHealthCheck", "check", &check).await.unwrap();
    assert_eq!(made["spec"]["checks"], json!({"nodeStartupTimeoutSeconds": 600}));

    let mut wrong = machine.clone();
    (wrong["bootstrap"], wrong["version"]) = (json!({}), json!("v1.33"));
    // Either configuration takes effect at a time of its own.
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "wrong"},
        "spec": wrong});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let is_denied = async || api(&kubernetes, "Machine").create(&dry, &object).await.is_err();
    wait::until_async("the webhook validates Machines", SOON, is_denied, wait::nothing).await;
    assert_eq!(fields(create(&kubernetes, "Machine", "wrong", &wrong).await), ["spec.bootstrap", "spec.version"]);
    let mut wrong = group.clone();
    wrong["template"]["spec"]["clusterName"] = json!("two");
    for kind in ["MachineSet", "MachineDeployment"] {
        assert_eq!(
            fields(create(&kubernetes, kind, "wrong", &wrong).await),
            ["spec.template.spec.clusterName"],
            "{kind}"
        );
    }
    let mut wrong = check;
    wrong["checks"] = json!({"nodeStartupTimeoutSeconds": 5});
    let answer = create(&kubernetes, "MachineHealthCheck", "wrong", &wrong).await;
    assert_eq!(fields(answer), ["spec.checks.nodeStartupTimeoutSeconds"]);
    for (kind, name) in [("Machine", "machine"), ("MachineHealthCheck", "check")] {
        let moved = Patch::Merge(json!({"spec": {"clusterName": "two"}}));
        let answer = api(&kubernetes, kind).patch(name, &PatchParams::default(), &moved).await;
        let answer = answer.map(|object| serde_json::to_value(object).unwrap());
        assert_eq!(fields(answer), ["spec.clusterName"], "{kind}");
    }
}
