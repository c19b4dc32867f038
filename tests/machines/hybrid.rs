//! A Cluster with workers of two providers and one kind of bootstrap data. The second provider is a controller of the
//! story, with definitions of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{TestServer, cluster, condition, deployment, name};
use crate::harness::kubectl::Kubectl;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const EXTERNAL: &str = "RackCluster,RackMachine";
const FINALIZER: &str = "rack.example.com/mine";

/// The definition of a kind of racks.
fn definition(kind: &str, spec: &Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = if kind.ends_with("Template") {
        json!({"type": "object", "properties": {"template": {"type": "object",
            "properties": {"metadata": any, "spec": spec}}}})
    } else {
        spec.clone()
    };
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": any}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": {"status": {}}}]}})
}

/// Defines the kinds of the second provider: a region never changes, and a rack has at most 40 slots.
fn define(server: &TestServer) {
    let endpoint = json!({"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "integer"}}});
    let fixed = json!([{"rule": "self == oldSelf", "message": "the region cannot change"}]);
    let cluster = json!({"type": "object", "properties": {"controlPlaneEndpoint": endpoint,
        "region": {"type": "string", "x-kubernetes-validations": fixed}}});
    // Templates of a class may differ from the object that was made of an earlier one.
    let mut of_template = cluster.clone();
    of_template["properties"]["region"] = json!({"type": "string"});
    let machine = json!({"type": "object", "properties": {"providerID": {"type": "string"},
        "slot": {"type": "integer", "minimum": 1, "maximum": 40}}});
    for (kind, spec) in [
        ("RackCluster", &cluster),
        ("RackClusterTemplate", &of_template),
        ("RackMachine", &machine),
        ("RackMachineTemplate", &machine),
    ] {
        let definition = definition(kind, spec);
        server.kubectl.give(&definition, &["create"]);
        server.kubectl.out(&[
            "wait",
            "--for=condition=Established",
            &format!("crd/{}", name(&definition)),
            "--timeout=60s",
        ]);
        server.kubectl.eventually(&["get", &name(&definition)]);
    }
}

/// A template of the second provider.
fn template(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name},
        "spec": {"template": {"spec": spec}}})
}

/// The class "racked": "swift" on a RackCluster, with one more class of workers, which are RackMachines.
fn class(server: &TestServer) -> Value {
    let mut class: Value =
        serde_json::from_str(&server.kubectl.out(&["get", "clusterclass", "swift", "-o", "json"])).unwrap();
    class["metadata"] = json!({"name": "racked"});
    class.as_object_mut().unwrap().remove("status");
    let reference = |kind: &str| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "name": "rack"});
    class["spec"]["infrastructure"]["templateRef"] = reference("RackClusterTemplate");
    let all = class["spec"]["workers"]["machineDeployments"].as_array_mut().unwrap();
    let mut racked = all[0].clone();
    racked["class"] = json!("rack");
    racked["infrastructure"]["templateRef"] = reference("RackMachineTemplate");
    all.push(racked);
    class
}

/// A controller of the second provider, which knows no more than the contract.
struct Provider {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    fn start(server: &TestServer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Rounds {
            kubectl: Kubectl::within(server.kubeconfig.clone(), server.namespace.clone()),
            folder: tempfile::tempdir().unwrap(),
        };
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                rounds.clusters();
                rounds.machines();
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Provider { stop, thread: Some(thread) }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the provider panicked");
    }
}

/// What the controller does again and again. Objects may be gone when it writes.
struct Rounds {
    kubectl: Kubectl,
    folder: tempfile::TempDir,
}

impl Rounds {
    fn list(&self, kind: &str) -> Vec<Value> {
        let outcome = self.kubectl.run(&["get", kind, "-o", "json"]);
        let list: Value = serde_json::from_str(&outcome.out).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn merge(&self, object: &str, more: &[&str], patch: &Value) {
        let patch = patch.to_string();
        self.kubectl.run(&[&["patch", object, "--type=merge", "-p", &patch], more].concat());
    }

    fn clusters(&self) {
        for one in self.list("rackclusters") {
            if one["metadata"]["ownerReferences"].is_array() && one["status"]["initialization"].is_null() {
                let object = format!("rackcluster/{}", name(&one));
                let endpoint = json!({"host": "192.0.2.1", "port": 6443});
                self.merge(&object, &[], &json!({"spec": {"controlPlaneEndpoint": endpoint}}));
                let status = json!({"status": {"initialization": {"provisioned": true}}});
                self.merge(&object, &["--subresource=status"], &status);
            }
        }
    }

    fn machines(&self) {
        for one in self.list("rackmachines") {
            let object = format!("rackmachine/{}", name(&one));
            let is_mine = one["metadata"]["finalizers"].to_string().contains(FINALIZER);
            if !one["metadata"]["deletionTimestamp"].is_null() {
                self.merge(&object, &[], &json!({"metadata": {"finalizers": null}}));
            } else if !is_mine && one["metadata"]["ownerReferences"].is_array() {
                self.merge(&object, &[], &json!({"metadata": {"finalizers": [FINALIZER]}}));
            } else if is_mine && one["status"]["initialization"].is_null() && self.has_data(&one) {
                self.boot(&one, &object);
            }
        }
    }

    /// Whether there is bootstrap data for the Machine that owns a RackMachine.
    fn has_data(&self, one: &Value) -> bool {
        let owner = one["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
        let path = "jsonpath={.spec.bootstrap.dataSecretName}";
        let secret = self.kubectl.run(&["get", "machine", owner, "-o", path]).out;
        !secret.is_empty()
            && !self.kubectl.run(&["get", "secret", &secret, "-o", "jsonpath={.data.value}"]).out.is_empty()
    }

    fn boot(&self, one: &Value, object: &str) {
        let id = format!("rack://{}", name(one));
        let cluster = one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].as_str().unwrap();
        let secret = format!("{cluster}-kubeconfig");
        let text =
            self.kubectl.run(&["get", "secret", &secret, "-o", "go-template={{.data.value | base64decode}}"]).out;
        let path = self.folder.path().join(cluster);
        std::fs::write(&path, text).unwrap();
        let mut conditions = vec![json!({"type": "Ready", "status": "True"})];
        let pressures = ["MemoryPressure", "DiskPressure", "PIDPressure"];
        conditions.extend(pressures.map(|name| json!({"type": name, "status": "False"})));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(one)},
            "spec": {"providerID": id},
            "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.32.0"}}});
        let made = Kubectl::new(path).try_give(&node, &["create"]);
        if made.code == 0 || made.err.contains("AlreadyExists") {
            self.merge(object, &[], &json!({"spec": {"providerID": id}}));
            let status = json!({"status": {"initialization": {"provisioned": true}}});
            self.merge(object, &["--subresource=status"], &status);
        }
    }
}

#[test]
fn a_second_provider_with_its_own_controller_and_definitions_has_workers_in_the_same_cluster() {
    // the proposal of machine states: hybrid clusters, a controller and tools of the author's choice, validation by
    // definitions; note of story 4 of the proposal of managed topologies: errors of providers are visible; CT-3, CT-8,
    // MA-3
    let server = TestServer::start(&["--external-kinds", EXTERNAL]);
    define(&server);
    let provider = Provider::start(&server);

    // Data that the definition does not allow is refused with its path, in a template and in a machine.
    let wrong = template("RackMachineTemplate", "rack", json!({"slot": 41}));
    let refusal = server.kubectl.try_give(&wrong, &["create"]);
    assert!(refusal.code != 0 && refusal.err.contains("spec.template.spec.slot"), "{refusal:#?}");
    let mut wrong = template("RackMachine", "one", json!({}));
    wrong["spec"] = json!({"slot": 0});
    let refusal = server.kubectl.try_give(&wrong, &["create"]);
    assert!(refusal.code != 0 && refusal.err.contains("spec.slot"), "{refusal:#?}");

    server.kubectl.give(&template("RackMachineTemplate", "rack", json!({"slot": 7})), &["create"]);
    server.kubectl.give(&template("RackClusterTemplate", "rack", json!({"region": "north"})), &["create"]);
    server.kubectl.give(&class(&server), &["create"]);
    let workers = |class: &str, name: &str| json!({"class": class, "name": name, "replicas": 2});
    let mut demo = cluster(1, &json!([workers("worker", "e"), workers("rack", "r")]), &json!([]));
    demo["spec"]["topology"]["classRef"]["name"] = json!("racked");
    server.run_cluster(&demo);
    server.wait("machines --all", "jsonpath={.status.phase}=Running");
    let machines = server.list("machines");
    let count = |wanted: &str| machines.iter().filter(|one| deployment(one) == wanted).count();
    assert_eq!((machines.len(), count("e"), count("r")), (5, 2, 2));
    let racks = server.list("rackmachines");
    assert!(racks.len() == 2 && racks.iter().all(|one| one["spec"]["slot"] == 7), "{racks:#?}");
    assert_eq!((server.list("embeddedmachines").len(), server.list("embeddedconfigs").len()), (3, 5));
    let ids = server.kubectl.out(&["get", "machines", "-o", "jsonpath={.items[*].spec.providerID}"]);
    assert_eq!(ids.matches("rack://").count(), 2, "{ids}");

    // The API server refuses a change of the region, and the Cluster says why.
    server.kubectl.give(&template("RackClusterTemplate", "rack-2", json!({"region": "south"})), &["create"]);
    let refer = |name: &str| {
        let patch =
            json!([{"op": "replace", "path": "/spec/infrastructure/templateRef/name", "value": name}]).to_string();
        server.kubectl.out(&["patch", "clusterclass", "racked", "--type=json", "-p", &patch]);
    };
    refer("rack-2");
    server.until("the Cluster says that the region cannot change", || {
        let cluster = &server.list("clusters")[0];
        condition(cluster, "TopologyReconciled").0 == "False"
            && cluster.to_string().contains("the region cannot change")
    });
    refer("rack");
    server.wait("cluster/demo", "condition=TopologyReconciled");

    // A deleted worker of the second provider is replaced, and the Cluster goes with all of both.
    let rack = machines.iter().find(|one| deployment(one) == "r").map(name).unwrap();
    server.kubectl.out(&["delete", "machine", &rack, "--timeout=60s"]);
    server.until("another one runs", || {
        let all = server.list("machines");
        all.len() == 5 && all.iter().all(|one| one["status"]["phase"] == "Running" && name(one) != rack)
    });
    server.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    server.until("nothing is left of both", || {
        server.kubectl.out(&["get", "rackclusters,rackmachines,machines,embeddedmachines", "-o", "name"]).is_empty()
    });
    drop(provider);
}
