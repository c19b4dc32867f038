//! One story for each part of the section.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use topologist::yaml;

use super::site::Site;
use crate::harness::server::make_certificates;

/// What the examples do to the Clusters.
fn is_scaled_repaired_and_deleted(site: &Site) {
    assert_eq!(site.kubectl.field("cluster/one", ".spec.topology.controlPlane.replicas"), "5");
    assert_eq!(site.workers("one"), "blue");
    assert!(site.is_deleted("two"));
}

/// What the controllers make of it.
fn is_carried_out(site: &Site) {
    site.until("the control plane is scaled", || site.control_plane("one") == "5");
    site.until("the worker set is gone", || !site.deployments("one").iter().any(|(name, _)| name == "green"));
    site.until("the Cluster is deleted", || site.is_gone("two"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_guard_is_down() {
    let site = Site::start().await;
    let mut guide = site.guide("The guard is down");
    // Somebody rolls out an image that no node can pull, and the nodes that run the last one lose power.
    site.kubectl.out(&[
        "set",
        "image",
        "-n",
        "topologist-system",
        "deployment/topologist",
        "topologist=topologist:lost",
    ]);
    site.nodes.lose_power();
    let refused = site.refusal().unwrap();
    assert!(refused.contains("failed calling webhook"), "{refused}");

    guide.next("delete mutatingwebhookconfiguration");
    site.until("Clusters can be written", || site.refusal().is_none());
    guide.next("delete cluster two");
    is_scaled_repaired_and_deleted(&site);
    guide.next("scale machinedeployment");
    assert_eq!(site.deployments("one")[0], ("blue".to_owned(), 4));

    guide.next("apply -k");
    assert!(site.is_guarded());
    guide.next("topologist validate");
    is_carried_out(&site);
    assert_eq!(site.deployments("one"), [("blue".to_owned(), 4)]);
    guide.next("TOPOLOGIST_ENFORCE=warn");
    site.until("denials are warnings", || site.refusal().is_none());
    guide.next("TOPOLOGIST_ENFORCE-");
    site.until("denials are denials", || site.is_guarded());
    guide.ends();
}

/// Puts another authority into every caBundle.
fn spoil_bundles(site: &Site) {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let another = STANDARD.encode(fs::read(folder.path().join("ca.crt")).unwrap());
    let patch =
        |webhook| json!({"op": "add", "path": format!("/webhooks/{webhook}/clientConfig/caBundle"), "value": another});
    let patch = json!([patch(0), patch(1)]).to_string();
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        site.kubectl.out(&["patch", kind, "topologist", "--type=json", "-p", &patch]);
    }
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": another}}}}}).to_string();
    for name in
        ["clusters.cluster.x-k8s.io", "clusterclasses.cluster.x-k8s.io", "extensionconfigs.runtime.cluster.x-k8s.io"]
    {
        site.kubectl.out(&["patch", "crd", name, "--type=merge", "-p", &patch]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_ca_bundle_is_wrong() {
    let site = Site::start().await;
    let mut guide = site.guide("The caBundle is wrong");
    site.lose_the_leader();
    spoil_bundles(&site);
    let is_unknown = |words: String| words.contains("x509: certificate signed by unknown authority");
    site.until("the certificate is of an unknown authority", || site.refusal().is_some_and(is_unknown));
    let old = ["get", "--raw", "/apis/cluster.x-k8s.io/v1beta1/namespaces/team-a/clusters/one"];
    site.until("nothing is converted", || site.kubectl.run(&old).code != 0);

    guide.next("delete cluster two");
    is_scaled_repaired_and_deleted(&site);
    guide.next("webhookconfiguration topologist --type json");
    assert!(site.is_guarded() && !site.nodes.any(|pod| pod.metric("topologist_leader") == Some(1.0)));
    guide.next("patch crd");
    guide.ends();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_ca_has_expired() {
    let lifetimes = ["TOPOLOGIST_CERTIFICATE_LIFETIME=20s", "TOPOLOGIST_CA_LIFETIME=40s"];
    let site = Site::with(&lifetimes).await;
    let mut guide = site.guide("The CA has expired");
    site.lose_the_leader();
    let has_expired = |words: String| words.contains("x509: certificate has expired or is not yet valid");
    site.until("the certificate has expired", || site.refusal().is_some_and(has_expired));
    site.until("the authority has expired", || site.authority_has_expired());
    // What is made from here on lasts.
    site.operator.out(&[
        "set",
        "env",
        "deployment/topologist",
        "TOPOLOGIST_CERTIFICATE_LIFETIME-",
        "TOPOLOGIST_CA_LIFETIME-",
    ]);

    guide.next("delete cluster two");
    is_scaled_repaired_and_deleted(&site);
    guide.next("delete secret");
    assert!(site.is_guarded() && !site.authority_has_expired());
    is_carried_out(&site);
    guide.ends();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_class_is_unreadable() {
    // DEC-44
    let site = Site::start().await;
    let mut guide = site.guide("A class is unreadable");
    let fixture = "fixtures/admission/cluster-class/rejects-defaults-that-expand-beyond-the-budget/new.v1beta2.yaml";
    let fixture = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
    let bomb: Value = yaml::value(&fixture).unwrap()["spec"]["variables"][0].take();
    let patch = json!([{"op": "add", "path": "/spec/variables/-", "value": bomb}]).to_string();
    let store = ["patch", "clusterclass", "base", "--type=json", "-p", &patch];
    assert!(site.kubectl.err(&store).contains("spec.variables[list]"));
    site.kubectl.out(&["delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "topologist"]);
    site.kubectl.eventually(&store);
    site.nodes.lose_power();
    site.apply();
    site.until("the guard is back", || site.is_guarded());
    let names_the_class = |log: &str| log.contains("Cannot read a stored object") && log.contains("team-a/base");
    site.until("each replica logs the class", || site.nodes.all(|pod| names_the_class(&pod.log_text())));
    assert!(site.nodes.all(|pod| {
        pod.metric("topologist_unreadable_objects_total{kind=\"ClusterClass\"}").is_some_and(|count| count >= 1.0)
    }));
    let ready = ".status.conditions[?(@.type==\"VariablesReady\")].status";
    site.until("the class says so", || site.kubectl.field("clusterclass/base", ready) == "False");

    guide.next("get clusterclass");
    guide.next("delete cluster two");
    is_scaled_repaired_and_deleted(&site);
    guide.next("scale machinedeployment");
    assert_eq!(site.deployments("one")[0], ("blue".to_owned(), 4));
    guide.next("/spec/topology/variables");
    guide.next("patch clusterclass");
    is_carried_out(&site);
    assert!(site.is_guarded());
    assert!(site.kubectl.err(&store).contains("spec.variables[list]"));
    guide.ends();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_controllers_run_wild() {
    let site = Site::start().await;
    let mut guide = site.guide("Wrong writes by the controllers");
    let scale = |cluster: &str, replicas: u64| {
        let set = format!("cluster.x-k8s.io/cluster-name={cluster},topology.cluster.x-k8s.io/deployment-name=blue");
        site.kubectl.out(&["scale", "machinedeployment", "-l", &set, &format!("--replicas={replicas}")]);
    };
    let blue = |cluster: &str| site.deployments(cluster)[0].1;
    // What is changed by hand is undone.
    scale("one", 7);
    site.until("the controllers undo it", || blue("one") == 2);

    guide.next("annotate cluster one");
    scale("one", 7);
    scale("two", 7);
    site.until("the controllers undo it in another Cluster", || blue("two") == 2);
    assert_eq!(blue("one"), 7);

    guide.next("delete clusterrolebinding");
    let account = "--as=system:serviceaccount:topologist-system:topologist";
    let may = ["auth", "can-i", "patch", "machinedeployments.cluster.x-k8s.io", account];
    site.until("the permission is gone", || site.kubectl.run(&may).code != 0);
    scale("two", 9);
    site.until("a write of the controllers fails", || site.nodes.logs().to_lowercase().contains("forbidden"));
    assert_eq!(blue("two"), 9);
    assert!(site.is_guarded());

    guide.next("TOPOLOGIST_CONTROLLERS=none");
    assert!(site.is_guarded());
    guide.next("delete cluster two");
    assert_eq!(blue("one"), 4);
    assert!(site.is_deleted("two"));
    assert!(site.kubectl.run(&["patch", "cluster", "one", "--type=merge", "-p", super::site::WRONG]).code != 0);

    guide.next("annotate clusters --all");
    site.until("a replica leads", || site.nodes.any(|pod| pod.metric("topologist_leader") == Some(1.0)));
    assert_eq!(blue("one"), 4);
    guide.next("cluster.x-k8s.io/paused-");
    let more = r#"{"spec":{"topology":{"controlPlane":{"replicas":5}}}}"#;
    site.kubectl.out(&["patch", "cluster", "one", "--type=merge", "-p", more]);
    site.until("the controllers carry it out", || site.control_plane("one") == "5");
    assert_eq!(blue("one"), 4);
    assert!(site.is_guarded());
    guide.ends();
}
