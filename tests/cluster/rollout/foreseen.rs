//! What `plan` says before a change is what is written after it, no more and no less.

use std::process::Output;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::crash::at_rest;
use super::layer::{Trouble, Wire, Written};
use super::site::{Manager, Site, bundle, kubernetes};
use crate::harness::server::command;

/// A cluster on a real API server, whose changes are planned before they are made.
struct Watched {
    site: Site,
    wire: std::sync::Arc<Wire>,
    manager: Manager,
    folder: tempfile::TempDir,
}

impl Watched {
    async fn new() -> Self {
        let site = Site::real().await;
        site.provide().await;
        let wire = Wire::new(Trouble::None);
        let manager = Manager::start(&site, &wire);
        Watched { site, wire, manager, folder: tempfile::tempdir().unwrap() }
    }

    /// Makes a change, and compares.
    async fn compare(&self, what: &str, cluster: &Value) {
        let foreseen = self.plan(cluster);
        let before = self.wire.writes().len();
        if self.site.cluster("demo").await.is_null() {
            self.site.create(cluster.clone()).await;
        } else {
            let topology = cluster["spec"]["topology"].clone();
            self.site.change("demo", |now| *now = topology).await;
        }
        at_rest(&self.site, &self.manager).await;
        let mut written: Vec<String> = self.wire.writes().iter().skip(before).filter_map(step).collect();
        written.sort();
        assert_eq!(written, foreseen, "{what}: written on the left, foreseen on the right");
    }

    /// The steps of a plan, sorted.
    fn plan(&self, cluster: &Value) -> Vec<String> {
        let mut cluster = cluster.clone();
        cluster["metadata"]["namespace"] = json!(self.site.namespace);
        let file = self.folder.path().join("to.json");
        std::fs::write(&file, cluster.to_string()).unwrap();
        let name = format!("{}/demo", self.site.namespace);
        let mut plan = command(&["plan", "--live", "-o", "json", "--cluster", &name, "--kubeconfig"]);
        let Output { stdout, stderr, status } =
            plan.arg(kubernetes().kubeconfig()).arg("--to").arg(&file).output().unwrap();
        let message = [&*stdout, &*stderr].map(String::from_utf8_lossy);
        assert!(matches!(status.code(), Some(0 | 3 | 4 | 5)), "{status} {message:?}");
        let plan: Value = serde_json::from_slice(&stdout).unwrap();
        let steps =
            plan["clusters"].as_array().unwrap().iter().flat_map(|one| one["steps"].as_array().unwrap().clone());
        let mut steps: Vec<String> = steps
            .filter(|step| step["kind"] != "Cluster")
            .map(|step| {
                let (kind, name) = (step["kind"].as_str().unwrap(), step["name"].as_str().unwrap());
                let method = if step["action"] == "delete" { "DELETE" } else { "PATCH" };
                format!("{method} {} {}", plural(kind), without_end(name))
            })
            .collect();
        steps.sort();
        steps
    }
}

/// A write as a step of a plan; `None` for what no plan lists: notes on the Cluster, status, the shim, and what
/// concerns the class.
fn step(write: &Written) -> Option<String> {
    let path: Vec<&str> = write.path.split('/').collect();
    let (kind, name) = match path.as_slice() {
        [.., "namespaces", _, kind, name] => (*kind, *name),
        _ => return None,
    };
    let is_of_class = kind == "clusterclasses" || name.starts_with("embedded-");
    (!matches!(kind, "configmaps" | "clusters") && !is_of_class)
        .then(|| format!("{} {kind} {}", write.method, without_end(name)))
}

fn plural(kind: &str) -> String {
    topologist::hub::contract::plural(kind)
}

/// A name without what differs each time.
fn without_end(name: &str) -> String {
    static END: LazyLock<Regex> = LazyLock::new(|| Regex::new("-[bcdfghjklmnpqrstvwxz2456789]{5}$").unwrap());
    END.replace(name, "-*").into_owned()
}

/// What a user changes of a topology.
type Edit = fn(&mut Value);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_are_those_of_the_plan() {
    // DEC-41, RS-39
    let watched = Watched::new().await;
    let mut cluster = bundle("cluster.yaml").remove(0);
    // The class has to be ready, which no plan makes it.
    watched
        .site
        .until("the class is ready", || async {
            let class = watched.site.get(super::site::CORE, "ClusterClass", "embedded").await?;
            class["status"]["observedGeneration"].is_i64().then_some(())
        })
        .await;
    watched.compare("creation", &cluster).await;
    watched.compare("nothing", &cluster).await;
    let edits: [(&str, Edit); 6] = [
        ("scaling", |topology| topology["workers"]["machineDeployments"][0]["replicas"] = json!(4)),
        ("a variable", |topology| topology["variables"][0]["value"] = json!("other")),
        ("a worker less", |topology| drop(topology["workers"]["machineDeployments"].as_array_mut().unwrap().remove(1))),
        ("a worker more", |topology| {
            let red = json!({"class": "default-worker", "name": "red", "replicas": 1});
            topology["workers"]["machineDeployments"].as_array_mut().unwrap().push(red);
        }),
        ("an upgrade", |topology| topology["version"] = json!("v1.34.0")),
        ("no pool", |topology| drop(topology["workers"].as_object_mut().unwrap().remove("machinePools"))),
    ];
    for (what, edit) in edits {
        edit(&mut cluster["spec"]["topology"]);
        watched.compare(what, &cluster).await;
    }
    watched.manager.stop().await;
}

/// Numbers that look like chance and are the same in every test.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn topology(&mut self, version: usize) -> Value {
        const VERSIONS: [&str; 4] = ["v1.33.0", "v1.33.5", "v1.34.0", "v1.34.2"];
        let mut workers = |kind: &str, names: &[&str]| -> Vec<Value> {
            let some: Vec<_> = names.iter().filter(|_| self.below(2) == 0).collect();
            some.into_iter()
                .map(|name| {
                    let mut worker = json!({"class": kind, "name": name, "replicas": self.below(4)});
                    if self.below(3) == 0 && kind == "default-worker" {
                        worker["healthCheck"] = json!({"enabled": false});
                    }
                    if self.below(3) == 0 {
                        worker["metadata"] = json!({"labels": {"tier": format!("t{}", self.below(3))}});
                    }
                    worker
                })
                .collect()
        };
        let deployments = workers("default-worker", &["blue", "green", "red"]);
        let pools = workers("default-pool", &["pool", "pond"]);
        let mut topology = json!({
            "classRef": {"name": "embedded"},
            "version": VERSIONS[version],
            "controlPlane": {"replicas": 1 + 2 * self.below(2)},
            "variables": [
                {"name": "motd", "value": format!("m{}", self.below(3))},
                {"name": "workerStartup", "value": format!("{}s", 1 + self.below(3))},
                {"name": "kubeletArgs", "value": []},
            ],
        });
        for (field, workers) in [("machineDeployments", deployments), ("machinePools", pools)] {
            if !workers.is_empty() {
                topology["workers"][field] = json!(workers);
            }
        }
        topology
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writes_of_generated_topologies_are_those_of_the_plan() {
    let watched = Watched::new().await;
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let mut cluster = bundle("cluster.yaml").remove(0);
    watched
        .site
        .until("the class is ready", || async {
            let class = watched.site.get(super::site::CORE, "ClusterClass", "embedded").await?;
            class["status"]["observedGeneration"].is_i64().then_some(())
        })
        .await;
    for (round, version) in [0, 0, 0, 1, 1, 2, 3, 3].into_iter().enumerate() {
        cluster["spec"]["topology"] = draw.topology(version);
        watched.compare(&format!("topology {round}: {}", cluster["spec"]["topology"]), &cluster).await;
    }
    watched.manager.stop().await;
}
