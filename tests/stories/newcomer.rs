//! The rollout of docs/embedded.md: kubectl against `serve --embedded`, and nothing else.

use std::path::Path;

use crate::harness::kubectl::Kubectl;
use crate::harness::server::Topologist;

/// Everything that a topology of the bundle is made of, but for what its machines have too.
const MADE: &str = "embeddedclusters,embeddedcontrolplanes,machinedeployments,machinepools,machinehealthchecks,\
    embeddedmachinepools";

#[test]
fn a_newcomer_creates_a_cluster_rolls_a_change_out_and_deletes_it() {
    // DEL-01, DEL-02, DEL-06, DEL-12, DEL-13, MA-20.2, MA-27.3, MA-27.4
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let topologist = Topologist::serve(&["--embedded", "--state-dir", &state.display().to_string()]);
    topologist.wait_until_ready();
    let kubectl = Kubectl::new(state.join("kubeconfig"));
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").display().to_string();
    kubectl.out(&["apply", "-f", &bundle]);
    kubectl.out(&["wait", "--for=condition=TopologyReconciled", "cluster/demo", "--timeout=30s"]);
    let made = |kubectl: &Kubectl| kubectl.out(&["get", MADE, "-o", "name"]).lines().count();
    assert_eq!(made(&kubectl), 9, "{}", kubectl.out(&["get", MADE]));
    let bootstrap = "jsonpath={.items[*].spec.template.spec.bootstrap.configRef.name}";
    let before = kubectl.out(&["get", "machinedeployments", "-o", bootstrap]);
    let edit = r#"[{"op":"replace","path":"/spec/topology/variables/0/value","value":"be careful"}]"#;
    kubectl.out(&["patch", "cluster", "demo", "--type=json", "-p", edit]);
    kubectl.eventually(&[
        "wait",
        "--for=jsonpath={.spec.bootstrap.files[1].content}=be careful",
        "embeddedcontrolplane",
        "--all",
        "--timeout=20s",
    ]);
    kubectl.out(&["wait", "--for=condition=TopologyReconciled", "cluster/demo", "--timeout=30s"]);
    let events = kubectl.out(&["get", "events", "--field-selector", "reason=TopologyCreate"]);
    assert_eq!(events.matches("(template rotation)").count(), 2, "{events}");
    let after = kubectl.out(&["get", "machinedeployments", "-o", bootstrap]);
    let (before, after): (Vec<&str>, Vec<&str>) = (before.split(' ').collect(), after.split(' ').collect());
    assert!(before.len() == 2 && after.len() == 2 && before.iter().all(|name| !after.contains(name)), "{after:?}");
    kubectl.out(&["delete", "cluster", "demo", "--timeout=90s"]);
    for _ in 0..100 {
        if made(&kubectl) == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let left = format!(
        "{MADE},embeddedconfigs,machines,machinesets,embeddedmachines,embeddedmachinetemplates,embeddedconfigtemplates,\
         configmaps,secrets"
    );
    let left = kubectl.out(&["get", &left, "-o", "name"]);
    let of_the_class = |line: &&str| line.contains("/embedded-");
    assert!(left.lines().all(|line| of_the_class(&line)), "{left}");
    assert_eq!(left.lines().count(), 4, "the templates of the class stay: {left}");
}

#[test]
fn a_definition_without_contract_labels_gets_the_assumed_ones() {
    // DEC-17: definitions of a provider as they are in its `config/crd/bases`
    let folder = tempfile::tempdir().unwrap();
    let (state, crds) = (folder.path().join("state"), folder.path().join("crds.json"));
    let anything = serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"},
        "spec": {
            "group": "controlplane.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "KubeadmControlPlane", "plural": "kubeadmcontrolplanes"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything},
                "subresources": {"status": {}}}],
        },
    });
    std::fs::write(&crds, definition.to_string()).unwrap();
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers/in-memory").display().to_string();
    let paths = ["--load", &bundle, "--load", &crds.display().to_string()];
    let topologist =
        Topologist::serve(&[&["--embedded", "--state-dir", &state.display().to_string()], &paths[..]].concat());
    topologist.wait_until_ready();
    let log = topologist.log_text();
    assert!(log.contains("Assumed contracts of CustomResourceDefinition without contract labels"), "{log}");
    let kubectl = Kubectl::new(state.join("kubeconfig"));
    kubectl.out(&["wait", "--for=condition=TopologyReconciled", "cluster/memo", "--timeout=30s"]);
    assert_eq!(kubectl.out(&["get", "kubeadmcontrolplanes", "-o", "name"]).lines().count(), 1);
}
