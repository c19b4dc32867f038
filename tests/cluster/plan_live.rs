//! `plan --live` compares files with a running cluster, and writes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::stream;
use crate::harness::server::command;

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CORE: &str = "cluster.x-k8s.io";

/// Everything that the bundle and its topology are made of.
pub(super) const KINDS: [(&str, &str); 6] = [
    (INFRASTRUCTURE, "DevCluster"),
    (INFRASTRUCTURE, "DevClusterTemplate"),
    (INFRASTRUCTURE, "DevMachineTemplate"),
    (CONTROL_PLANE, "KubeadmControlPlane"),
    (CONTROL_PLANE, "KubeadmControlPlaneTemplate"),
    (BOOTSTRAP, "KubeadmConfigTemplate"),
];

pub(super) fn definition((group, kind): (&str, &str)) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"cluster.x-k8s.io/v1beta2": "v1beta2"}},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [
            {"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
        ]},
    })
}

fn api(kubernetes: &Kubernetes, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
    Api::namespaced_with(kubernetes.client(), "default", &resource)
}

/// Writes what the topology asks for, as its controller would.
async fn roll_out(kubernetes: &Kubernetes, bundle: &Path) {
    let clusters = api(kubernetes, CORE, "Cluster");
    let cluster = clusters.get("memo").await.unwrap();
    let rendered = command(&["render"]).arg(bundle).output().unwrap();
    let manager = PatchParams::apply("capi-topology").force();
    let mut references = json!({});
    for document in yaml::documents(&String::from_utf8(rendered.stdout).unwrap()) {
        let mut object = document.unwrap().value;
        if let Some(owner) = object.pointer_mut("/metadata/ownerReferences/0/uid") {
            *owner = json!(cluster.metadata.uid);
        }
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let group = object["apiVersion"].as_str().unwrap().split_once('/').unwrap().0;
        let reference = json!({"apiGroup": group, "kind": kind, "name": name});
        match kind {
            "DevCluster" => references["infrastructureRef"] = reference,
            "KubeadmControlPlane" => references["controlPlaneRef"] = reference,
            _ => {}
        }
        api(kubernetes, group, kind).patch(name, &manager, &Patch::Apply(&object)).await.unwrap();
    }
    let labels = json!({"cluster.x-k8s.io/cluster-name": "memo", "topology.cluster.x-k8s.io/owned": ""});
    let refers = json!({"metadata": {"labels": labels}, "spec": references});
    clusters.patch("memo", &PatchParams::default(), &Patch::Merge(refers)).await.unwrap();
    let control_planes = api(kubernetes, CONTROL_PLANE, "KubeadmControlPlane");
    let name = references["controlPlaneRef"]["name"].as_str().unwrap();
    let runs = json!({"status": {"version": "v1.34.1"}, "spec": {"setByItsController": true}});
    control_planes.patch(name, &PatchParams::default(), &Patch::Merge(runs)).await.unwrap();
}

/// The versions of all objects.
async fn versions(kubernetes: &Kubernetes) -> Vec<(String, Option<String>)> {
    let mut versions = Vec::new();
    for (group, kind) in KINDS.into_iter().chain([(CORE, "Cluster"), (CORE, "ClusterClass")]) {
        let kind_name = if kind == "ClusterClass" { "clusterclasses" } else { "" };
        let gvk = GroupVersionKind::gvk(group, "v1beta2", kind);
        let resource = match kind_name {
            "" => ApiResource::from_gvk(&gvk),
            plural => ApiResource::from_gvk_with_plural(&gvk, plural),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), "default", &resource);
        let list = api.list(&ListParams::default()).await.unwrap();
        versions.extend(
            list.items
                .into_iter()
                .map(|one| (format!("{kind} {:?}", one.metadata.name), one.metadata.resource_version)),
        );
    }
    versions
}

fn plan(kubernetes: &Kubernetes, to: &Path) -> (i32, String) {
    plan_as(kubernetes.kubeconfig(), &[], to)
}

pub(super) fn plan_as(kubeconfig: &Path, flags: &[&str], to: &Path) -> (i32, String) {
    let Output { status, stdout, stderr } =
        command(&["plan", "--live", "--kubeconfig"]).arg(kubeconfig).args(flags).arg("--to").arg(to).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout) + &text(stderr))
}

pub(super) fn bundle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers/in-memory/bundle.yaml")
}

/// An API server with these definitions, on which the Cluster of the bundle is rolled out.
pub(super) async fn rolled_out(definitions: &[Value]) -> (Kubernetes, String) {
    let kubernetes = Kubernetes::start();
    let crds = command(&["crds"]).output().unwrap();
    kubernetes.apply_yaml(&String::from_utf8(crds.stdout).unwrap()).await;
    kubernetes.apply_yaml(&stream(definitions)).await;
    let text = fs::read_to_string(bundle()).unwrap();
    let in_namespace = text.replace("\nmetadata:\n  name: paper", "\nmetadata:\n  namespace: default\n  name: paper");
    kubernetes.apply_yaml(&in_namespace).await;
    roll_out(&kubernetes, &bundle()).await;
    (kubernetes, in_namespace)
}

#[tokio::test]
async fn files_are_compared_with_the_running_cluster_and_nothing_is_written() {
    let (kubernetes, in_namespace) = rolled_out(&KINDS.map(definition)).await;
    let bundle = bundle();
    let text = fs::read_to_string(&bundle).unwrap();
    let before = versions(&kubernetes).await;

    let (code, message) = plan(&kubernetes, &bundle);
    assert_eq!(code, 0, "{message}");
    assert!(message.starts_with("1 Cluster, nothing changes\n"), "{message}");
    assert!(message.contains("topologist: reading https://"), "{message}");

    let folder = tempfile::tempdir().unwrap();
    let edited = folder.path().join("edited.yaml");
    let template = text.split("---").find(|document| document.contains("name: paper-clerk-machine\nspec")).unwrap();
    fs::write(&edited, template.replace("startupDuration: \"15s\"", "startupDuration: \"16s\"")).unwrap();
    let (code, message) = plan(&kubernetes, &edited);
    assert_eq!(code, 4, "{message}");
    for wanted in [
        "rotate DevMachineTemplate memo-front-desk-",
        "spec.template.spec.backend.inMemory.vm.provisioning.startupDuration: \"15s\" → \"16s\"   (DevMachineTemplate \
         paper-clerk-machine)",
        "1 of 1 Cluster changed: 4 machines replaced\n",
    ] {
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
    // DEC-43: the record of field owners says that the field was asked for, or, where it is lost, the template does.
    fs::write(
        &edited,
        template.lines().filter(|line| !line.contains("startupDuration")).collect::<Vec<_>>().join("\n"),
    )
    .unwrap();
    let removed =
        "spec.template.spec.backend.inMemory.vm.provisioning.startupDuration: \"15s\" → nothing   (no longer set)";
    let (code, message) = plan(&kubernetes, &edited);
    assert_eq!(code, 4, "{message}");
    assert!(message.contains(removed) && message.contains("4 machines replaced"), "{message}");
    let templates = api(&kubernetes, INFRASTRUCTURE, "DevMachineTemplate");
    assert_eq!(versions(&kubernetes).await, before, "something was written");
    for template in templates.list(&ListParams::default()).await.unwrap() {
        let lost = json!({"metadata": {"managedFields": [{}]}});
        templates.patch(&template.metadata.name.unwrap(), &PatchParams::default(), &Patch::Merge(lost)).await.unwrap();
    }
    let (code, message) = plan(&kubernetes, &edited);
    assert_eq!(code, 4, "{message}");
    assert!(message.contains(removed) && message.contains("4 machines replaced"), "{message}");
    assert_eq!(plan(&kubernetes, &bundle).0, 0, "the record alone is lost");
    let before = versions(&kubernetes).await;

    let upgraded = folder.path().join("upgraded.yaml");
    let cluster = text.split("---").find(|document| document.contains("kind: Cluster\n")).unwrap();
    fs::write(&upgraded, cluster.replace("version: v1.34.1", "version: v1.35.0")).unwrap();
    let (code, message) = plan(&kubernetes, &upgraded);
    assert_eq!(code, 4, "{message}");
    assert!(message.contains("1 of 1 Cluster changed: 9 machines replaced"), "{message}");
    // A class that no Cluster uses: its templates are read from the cluster, those of the old class as well.
    let class = in_namespace.split("---").find(|document| document.contains("kind: ClusterClass\n")).unwrap();
    let spare = class.replace("name: paper\nspec", "name: spare\nspec");
    assert_eq!(versions(&kubernetes).await, before, "something was written");
    kubernetes.apply_yaml(&spare).await;
    let before = versions(&kubernetes).await;
    fs::write(&edited, &spare).unwrap();
    let (code, message) = plan(&kubernetes, &edited);
    assert_eq!(code, 0, "{message}");
    assert!(message.starts_with("1 Cluster, nothing changes; 1 sample Cluster, nothing changes\n"), "{message}");
    let with_other_machines = spare.replacen("name: paper-brain\n", "name: paper-clerk-machine\n", 1);
    assert_ne!(spare, with_other_machines);
    fs::write(&edited, &with_other_machines).unwrap();
    let (code, message) = plan(&kubernetes, &edited);
    assert_eq!(code, 4, "{message}");
    let startup = "spec.template.spec.backend.inMemory.vm.provisioning.startupDuration: \"25s\" → \"15s\"";
    assert!(message.contains("rotate DevMachineTemplate sample-spare-") && message.contains(startup), "{message}");
    assert!(message.contains("1 Cluster, nothing changes; 1 of 1 sample Cluster changed\n"), "{message}");
    fs::write(&edited, template).unwrap();
    let (code, message) = plan(&kubernetes, &edited);
    assert!(code == 0 && !message.contains("sample"), "only classes of the files: {message}");
    assert_eq!(versions(&kubernetes).await, before, "something was written");

    let missing = command(&["plan", "--live", "--kubeconfig", "/nowhere", "--to"]).arg(&bundle).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read /nowhere"));
}

/// Definitions of which that of infrastructure clusters has a default and a limit.
fn definitions_with_defaults() -> Vec<Value> {
    let mut all = KINDS.map(definition);
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let level = json!({"type": "string", "default": "info", "maxLength": 5});
    all[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": {"type": "object",
        "properties": {
        "backend": anything, "controlPlaneEndpoint": anything,
        "logging": {"type": "object", "properties": {"level": level}},
    }}});
    all.to_vec()
}

#[tokio::test]
async fn changes_of_existing_objects_are_dry_run_and_nothing_is_stored() {
    // DEC-43
    let (kubernetes, text) = rolled_out(&definitions_with_defaults()).await;
    let before = versions(&kubernetes).await;
    let folder = tempfile::tempdir().unwrap();
    let edited = folder.path().join("edited.yaml");
    let edit = |document: &str, from: &str, to: &str| {
        let template = text.split("---").find(|one| one.contains(document)).unwrap();
        assert!(template.contains(from));
        fs::write(&edited, template.replace(from, to)).unwrap();
    };
    let tried = |flags: &[&str]| {
        let flags: Vec<&str> = ["--dry-run=server"].iter().chain(flags).copied().collect();
        plan_as(kubernetes.kubeconfig(), &flags, &edited)
    };
    let infrastructure = "name: paper-cluster\nspec";

    edit(infrastructure, "inMemory: {}", "inMemory: {}\n      logging: {}");
    let (code, message) = plan(&kubernetes, &edited);
    assert_eq!(code, 3, "{message}");
    assert!(!message.contains("info"), "the default is known to the server alone: {message}");
    let (code, message) = tried(&[]);
    assert_eq!(code, 3, "{message}");
    assert!(
        message.contains("spec.logging: nothing → {\"level\":\"info\"}   (DevClusterTemplate paper-cluster)"),
        "{message}"
    );

    edit(infrastructure, "inMemory: {}", "inMemory: {}\n      logging:\n        level: verbose");
    assert_eq!(plan(&kubernetes, &edited).0, 1, "the definition refuses it");
    let (code, message) = tried(&[]);
    assert_eq!(code, 1, "{message}");
    for words in ["error: DevCluster default/memo-", " failed to apply in a dry run: ", "Too long"] {
        assert!(message.contains(words), "{words}: {message}");
    }

    edit("name: paper-clerk-machine\nspec", "startupDuration: \"15s\"", "startupDuration: \"16s\"");
    let certainties = |message: &str| -> Vec<String> {
        let plan: Value = serde_json::Deserializer::from_str(message).into_iter().next().unwrap().unwrap();
        let steps = plan["clusters"][0]["steps"].as_array().unwrap();
        let rotations = steps.iter().filter(|step| step["action"] == "rotate");
        rotations.map(|step| step["certainty"].as_str().unwrap().to_owned()).collect()
    };
    let (code, message) = plan_as(kubernetes.kubeconfig(), &["-o", "json"], &edited);
    assert_eq!((code, certainties(&message)), (4, vec!["assumed".to_owned()]), "{message}");
    let (code, message) = tried(&["-o", "json"]);
    assert_eq!((code, certainties(&message)), (4, vec!["exact".to_owned()]), "{message}");

    let reader = kubernetes.service_account_kubeconfig("default", "reader").await;
    kubernetes.apply_yaml(READER).await;
    let (code, message) = plan_as(&reader, &["--dry-run=server"], &edited);
    assert_eq!(code, 4, "{message}");
    for words in [
        "4 machines replaced",
        "warning: no permission for a dry run of 1 DevMachineTemplate, so their changes are assumed: ",
        "cannot patch resource \"devmachinetemplates\"",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let (_, message) = plan_as(&reader, &["--dry-run=server", "-o", "json"], &edited);
    assert_eq!(certainties(&message), ["assumed"], "{message}");
    assert_eq!(versions(&kubernetes).await, before, "something was written");
}

/// Who may read everything, and change nothing.
const READER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-everything}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-everything}
subjects:
- {kind: ServiceAccount, name: reader, namespace: default}
"#;
