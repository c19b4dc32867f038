//! A server whose machines take some milliseconds, with kubectl, and with a history of everything that was written.
//!
//! `Backend` of the test binary says which API server it is.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::backend::Backend;
use crate::harness::kubectl::Kubectl;
use crate::harness::quiet::until_quiet;
use crate::harness::{objects, wait};

/// How long a whole story may take on a busy machine.
const LONG: Duration = Duration::from_mins(1);
const LONG_ARGUMENT: &str = "--timeout=60s";
/// What every simulated part takes unless a story says something else.
const TIMINGS: [(&str, &str); 9] = [
    ("cluster", "10ms"),
    ("infrastructure", "10ms"),
    ("bootstrap", "10ms"),
    ("node", "10ms"),
    ("etcd", "10ms"),
    ("apiServer", "10ms"),
    ("controlPlane", "10ms"),
    ("drain", "10ms"),
    ("deletion", "10ms"),
];

/// The kinds that a Cluster of the class "swift" is made of.
pub const PARTS: &str = "clusters,machinedeployments,machinesets,machines,machinepools,machinehealthchecks,\
    embeddedclusters,embeddedcontrolplanes,embeddedmachines,embeddedmachinepools,embeddedconfigs";

pub struct TestServer {
    pub kubectl: Kubectl,
    backend: Backend,
    folder: tempfile::TempDir,
}

impl std::ops::Deref for TestServer {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        &self.backend
    }
}

pub fn fixture(name: &str) -> PathBuf {
    objects::fixture("machines").join(name)
}

/// A Cluster of the class "swift" with a control plane of this size, and with these MachineDeployments and
/// MachinePools.
pub fn cluster(control_plane: usize, deployments: &Value, pools: &Value) -> Value {
    let mut topology =
        json!({"classRef": {"name": "swift"}, "version": "v1.32.0", "controlPlane": {"replicas": control_plane}});
    for (kind, entries) in [("machineDeployments", deployments), ("machinePools", pools)] {
        if entries.as_array().is_some_and(|entries| !entries.is_empty()) {
            topology["workers"][kind] = entries.clone();
        }
    }
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "demo"},
        "spec": {"topology": topology}})
}

/// A MachineDeployment of a topology.
pub fn workers(name: &str, replicas: usize) -> Value {
    json!({"class": "worker", "name": name, "replicas": replicas})
}

impl TestServer {
    /// A server on the classes of these stories.
    pub fn start(more: &[&str]) -> Self {
        Self::start_with(&json!({}), more)
    }

    /// A server of which some parts take longer or fail.
    pub fn start_with(timings: &Value, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut all: Value = TIMINGS.into_iter().map(|(name, time)| (name.to_owned(), json!(time))).collect();
        all.as_object_mut().unwrap().extend(timings.as_object().unwrap().clone());
        std::fs::write(path("timings.yaml"), all.to_string()).unwrap();
        let backend = Backend::start(folder.path(), more);
        let kubectl = Kubectl::within(backend.kubeconfig.clone(), backend.namespace.clone());
        TestServer { kubectl, backend, folder }
    }

    /// A file of the server.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The file of `--timings`.
    pub fn timings(&self) -> String {
        self.path("timings.yaml")
    }

    /// Creates a Cluster and waits until all its machines are ready.
    pub fn run_cluster(&self, cluster: &Value) {
        self.kubectl.give(cluster, &["create"]);
        let topology = &cluster["spec"]["topology"];
        let count = |entry: &Value| entry["replicas"].as_u64().unwrap();
        let workers: u64 = ["machineDeployments", "machinePools"]
            .into_iter()
            .flat_map(|kind| topology["workers"][kind].as_array().into_iter().flatten())
            .map(count)
            .sum();
        let object = format!("cluster/{}", name(cluster));
        self.wait(
            &object,
            &format!("jsonpath={{.status.controlPlane.readyReplicas}}={}", count(&topology["controlPlane"])),
        );
        if workers > 0 {
            self.wait(&object, &format!("jsonpath={{.status.workers.readyReplicas}}={workers}"));
        }
        self.wait(&object, "condition=Available");
    }

    /// `kubectl wait --for`.
    #[track_caller]
    pub fn wait(&self, object: &str, condition: &str) {
        let condition_argument = format!("--for={condition}");
        let objects: Vec<&str> = object.split(' ').collect();
        let outcome = self.kubectl.run(&[&["wait"], &objects[..], &[&condition_argument, LONG_ARGUMENT]].concat());
        assert!(outcome.code == 0, "{object} {condition}: {outcome:#?}\n{}", self.state());
    }

    /// Waits until something is true of what the server has.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        self.until_within(LONG, what, is_so);
    }

    /// The same, for stories that take longer.
    #[track_caller]
    pub fn until_within(&self, patience: Duration, what: &str, is_so: impl Fn() -> bool) {
        wait::until(what, patience, is_so, || self.state());
    }

    /// An object by kind and name, such as `cluster/demo`.
    #[track_caller]
    pub fn object(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl.out(&["get", name, "-o", "json"])).unwrap()
    }

    /// Waits until topologist has seen an object as it is now, and has nothing left to do.
    #[track_caller]
    pub fn until_quiet(&self, object: &str) {
        until_quiet(&self.topologist, &self.object(object));
    }

    /// What there is, for the message of a story that fails.
    fn state(&self) -> String {
        let objects = self.kubectl.run(&["get", PARTS, "-o", "wide", "--ignore-not-found"]).out;
        let conditions = self.kubectl.run(&["describe", "clusters,machinepools,machinehealthchecks"]).out;
        let events = self.kubectl.run(&["get", "events"]).out;
        let warnings = self.topologist.warnings();
        format!("{objects}\n{conditions}\n{events}\n{warnings}")
    }

    /// The objects of a kind.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let text = self.kubectl.out(&["get", kind, "-o", "json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The names of the objects of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.list(kind).iter().map(name).collect()
    }

    /// Changes the topology of the Cluster by a merge patch.
    pub fn edit_topology(&self, change: &Value) {
        self.merge("cluster/demo", &json!({"spec": {"topology": change}}));
    }

    /// `kubectl patch --type=merge`.
    pub fn merge(&self, object: &str, change: &Value) {
        self.kubectl.out(&["patch", object, "--type=merge", "-p", &change.to_string()]);
    }

    /// `kubectl patch --type=merge --subresource=status`.
    pub fn merge_status(&self, object: &str, status: &Value) {
        let patch = json!({"status": status}).to_string();
        self.kubectl.out(&["patch", object, "--subresource=status", "--type=merge", "-p", &patch]);
    }

    /// A client that is faster than kubectl.
    pub async fn client(&self) -> kube::Client {
        objects::client(&self.kubeconfig).await
    }

    /// kubectl for the API of a workload cluster, by its Secret.
    pub fn workload(&self, cluster: &str) -> Kubectl {
        let secret = format!("secret/{cluster}-kubeconfig");
        let encoded = self.kubectl.eventually(&["get", &secret, "-o", "jsonpath={.data.value}"]);
        let path = self.folder.path().join(format!("{cluster}.kubeconfig"));
        std::fs::File::create(&path).unwrap().write_all(&STANDARD.decode(encoded).unwrap()).unwrap();
        Kubectl::new(path)
    }

    /// The reasons of the events about objects of a kind.
    pub fn event_reasons(&self, kind: &str) -> Vec<String> {
        let events = self.list("events").into_iter();
        let of_kind = events.filter(|event| event["involvedObject"]["kind"] == kind);
        of_kind.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Everything that is written to objects of a kind from now on, of which there are some already.
    pub fn history(&self, kind: &str) -> History {
        History::start(&self.kubectl, kind)
    }

    /// Everything that is written from now on under a path of the API, such as `v1/namespaces/default/pods`, of which
    /// there may be none yet.
    pub fn history_from_now(&self, path: &str) -> History {
        let path = format!("/apis/{path}");
        let list: Value = serde_json::from_str(&self.kubectl.out(&["get", "--raw", &path])).unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        History::of(self.kubectl.command(&["get", "--raw", &format!("{path}?watch=true&resourceVersion={version}")]))
    }
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// The version of a Machine, or of the Machines of a MachineDeployment.
pub fn version(object: &Value) -> &str {
    let spec = &object["spec"];
    spec["version"].as_str().or_else(|| spec["template"]["spec"]["version"].as_str()).unwrap_or_default()
}

/// Whether an object belongs to a control plane.
pub fn is_control_plane(machine: &Value) -> bool {
    machine["metadata"]["labels"].get("cluster.x-k8s.io/control-plane").is_some()
}

/// The MachineDeployment of a topology that a Machine belongs to, or nothing.
pub fn deployment(object: &Value) -> &str {
    object["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"].as_str().unwrap_or_default()
}

/// A condition of an object: its status and reason.
pub fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// A watch of kubectl that keeps all its events.
pub struct History {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
}

impl History {
    fn start(kubectl: &Kubectl, kind: &str) -> Self {
        let history = Self::of(kubectl.command(&["get", kind, "--watch", "--output-watch-events", "-o", "json"]));
        let has_begun = || !history.events.lock().unwrap().is_empty();
        wait::until(&format!("the watch of {kind} shows objects"), LONG, has_begun, String::new);
        history
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (out, all) = (child.stdout.take().unwrap(), events.clone());
        std::thread::spawn(move || {
            let stream = serde_json::Deserializer::from_reader(out).into_iter::<Value>();
            stream.map_while(Result::ok).for_each(|event| all.lock().unwrap().push(event));
        });
        History { child, events }
    }

    /// Objects as they were written, in order; a deleted one comes last with its last content.
    pub fn objects(&self) -> Vec<Value> {
        self.events.lock().unwrap().iter().map(|event| event["object"].clone()).collect()
    }

    /// The events so far: type and object.
    pub fn events(&self) -> Vec<(String, Value)> {
        let events = self.events.lock().unwrap();
        events.iter().map(|event| (event["type"].as_str().unwrap().to_owned(), event["object"].clone())).collect()
    }

    /// The events since the last time.
    pub fn take(&self) -> Vec<(String, Value)> {
        let events = self.events();
        self.events.lock().unwrap().drain(..events.len());
        events
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
