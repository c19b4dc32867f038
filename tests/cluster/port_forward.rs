//! `plan --live` calls extensions inside of the cluster through a port that is forwarded.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use topologist::tls::authority::IssuedCertificate;

use crate::harness::extension::{TestExtension, patched};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::stream;
use crate::harness::programs;
use crate::plan_live::{KINDS, bundle, definition, plan_as, rolled_out};

/// A node whose Pods are processes of this machine.
struct Node {
    process: Child,
    port: u16,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Node {
    fn start(folder: &Path) -> Self {
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        let [certificate, key] = [("tls.crt", &issued.certificate), ("tls.key", &issued.key)].map(|(name, text)| {
            fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        });
        let mut program = Command::new(programs::folder("node").join("node"));
        program.arg("-cert").arg(certificate).arg("-key").arg(key).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = program.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Node { process, port: line.trim().parse().unwrap() }
    }
}

async fn apply(kubernetes: &Kubernetes, object: &Value) {
    kubernetes.apply_yaml(&stream(std::slice::from_ref(object))).await;
}

async fn set_status(kubernetes: &Kubernetes, (version, kind): (&str, &str), name: &str, status: Value) {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::all_with(kubernetes.client(), &resource);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The extension as a Pod of that node, and the Service in front of it.
fn inside(lab: &TestExtension, is_ready: bool) -> Vec<Value> {
    let metadata = json!({"name": "extension", "namespace": "lab"});
    let containers = json!([{"name": "extension", "image": "extension"}]);
    let target = json!({"kind": "Pod", "name": "extension", "namespace": "lab"});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": "here", "containers": containers}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "extension-1", "namespace": "lab",
                "labels": {"kubernetes.io/service-name": "extension"}},
            "ports": [{"name": "https", "port": lab.port}],
            "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": is_ready}, "targetRef": target}]}),
    ]
}

/// The class of the bundle with a patch of the extension.
fn with_patch(folder: &Path) -> PathBuf {
    let text = fs::read_to_string(bundle()).unwrap();
    let class = text.split("---").find(|document| document.contains("kind: ClusterClass\n")).unwrap();
    let patch =
        "spec:\n  patches:\n    - name: remote\n      external:\n        generatePatchesExtension: generate.lab\n";
    let file = folder.join("class.yaml");
    fs::write(&file, class.replacen("spec:\n", patch, 1)).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_plan_reaches_extensions_inside_of_the_cluster() {
    // RH-3.8, RH-4.2
    let folder = tempfile::tempdir().unwrap();
    let (kubernetes, _) = rolled_out(&KINDS.map(definition)).await;
    let node = Node::start(folder.path());
    let mut lab = TestExtension::start_as("extension.lab.svc");
    lab.on("GeneratePatches", "generate", |request| {
        patched(request, "spec.template.spec.bootstrap.configRef", "format", &json!("ignition"))
    });
    apply(&kubernetes, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}})).await;
    let address = json!({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": node.port}}});
    set_status(&kubernetes, ("v1", "Node"), "here", address).await;
    let service = json!({"namespace": "lab", "name": "extension", "port": 443});
    let ca = STANDARD.encode(&lab.ca);
    let config = |service: &Value| {
        json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "lab"},
            "spec": {"clientConfig": {"service": service, "caBundle": ca}}})
    };
    apply(&kubernetes, &config(&service)).await;
    let discovered = |generation: i64| {
        json!({"conditions": [{"type": "Discovered", "status": "True", "reason": "Discovered", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2030-01-01T00:00:00Z"}]})
    };
    let extensions = ("runtime.cluster.x-k8s.io/v1beta2", "ExtensionConfig");
    set_status(&kubernetes, extensions, "lab", discovered(1)).await;
    let file = with_patch(folder.path());
    let plan = || plan_as(kubernetes.kubeconfig(), &[], &file);
    let left_out = |message: (i32, String), reason: &str| {
        let expected = format!("no --extension lab=URL|FILE: ExtensionConfig lab: {reason}");
        assert!(message.1.contains(&expected), "{expected}: {}", message.1);
    };
    left_out(plan(), "there is no Service lab/extension");

    for object in inside(&lab, false) {
        apply(&kubernetes, &object).await;
    }
    left_out(plan(), "no Pod of Service lab/extension is ready");

    for object in inside(&lab, true) {
        apply(&kubernetes, &object).await;
    }
    let (code, message) = plan();
    assert!(
        code == 4 && message.contains("format: nothing → \"ignition\"") && !message.contains("incomplete"),
        "{message}"
    );
    assert!(message.contains("1 of 1 Cluster changed: 4 machines replaced"), "{message}");
    assert!(lab.count("generate") > 0);
    let kubeconfig = kubernetes.kubeconfig().display().to_string();
    let to = file.display().to_string();
    let simulate = ["simulate", "--live", "--kubeconfig", &kubeconfig, "--to", &to];
    let simulated = crate::harness::server::command(&simulate).output().unwrap();
    let message = String::from_utf8_lossy(&simulated.stderr);
    assert!(!message.contains("no --extension"), "{message}");

    let groups = ["cluster.x-k8s.io", "runtime.cluster.x-k8s.io", "apiextensions.k8s.io", "discovery.k8s.io"];
    let reader = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader"},
    "rules": [
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]},
        {"apiGroups": KINDS.map(|(group, _)| group).into_iter().chain(groups).collect::<Vec<_>>(), "resources": ["*"],
            "verbs": ["get", "list"]},
    ]});
    let account = json!([{"kind": "ServiceAccount", "name": "reader", "namespace": "lab"}]);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"}, "subjects": account,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}});
    let reading = kubernetes.service_account_kubeconfig("lab", "reader").await;
    apply(&kubernetes, &reader).await;
    apply(&kubernetes, &binding).await;
    left_out(
        plan_as(&reading, &[], &file),
        "cannot forward a port to Pod lab/extension (this needs permission for pods/portforward): ",
    );

    apply(&kubernetes, &config(&json!({"namespace": "lab", "name": "extension", "port": 444}))).await;
    set_status(&kubernetes, extensions, "lab", discovered(2)).await;
    left_out(plan(), "Service lab/extension has no port 444");

    apply(&kubernetes, &config(&service)).await;
    set_status(&kubernetes, extensions, "lab", discovered(3)).await;
    lab.stop();
    let (_, message) = plan();
    assert!(message.contains("connection refused"), "{message}");
}
