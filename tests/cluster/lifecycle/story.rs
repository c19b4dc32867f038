//! A Cluster of the bundle in a namespace of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Config, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::{Installation, SHARED};
use crate::harness::server::{Topologist, command};
use crate::harness::wait;
use crate::rollout::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, Site, bundle, text};

/// The kinds of which nothing of a Cluster may be left, besides the objects of the class.
pub(super) const LEFT: [(&str, &str); 14] = [
    (CORE, "Cluster"),
    (CORE, "MachineDeployment"),
    (CORE, "MachineSet"),
    (CORE, "Machine"),
    (CORE, "MachinePool"),
    (CORE, "MachineHealthCheck"),
    (INFRASTRUCTURE, "EmbeddedCluster"),
    (INFRASTRUCTURE, "EmbeddedMachine"),
    (INFRASTRUCTURE, "EmbeddedMachinePool"),
    (INFRASTRUCTURE, "EmbeddedMachineTemplate"),
    (CONTROL_PLANE, "EmbeddedControlPlane"),
    (BOOTSTRAP, "EmbeddedConfig"),
    (BOOTSTRAP, "EmbeddedConfigTemplate"),
    ("v1", "Secret"),
];
/// Of the Cluster of the bundle: three of the control plane, two blue ones and a green one.
pub(super) const MACHINES: usize = 6;
/// Those of the pool have Nodes as well.
pub(super) const NODES: usize = MACHINES + 2;

/// A namespace with the class and one Cluster, and what it took.
pub(super) struct Story<'a> {
    pub site: Site,
    pub cluster: &'static str,
    /// What the processes have logged.
    pub log: Box<dyn Fn() -> String + 'a>,
    /// What was there before the Cluster.
    pub before: BTreeSet<String>,
}

impl<'a> Story<'a> {
    pub(super) async fn begin(
        installation: &Installation,
        cluster: &'static str,
        log: impl Fn() -> String + 'a,
    ) -> Self {
        Story::begin_with(installation, cluster, log, |_| {}).await
    }

    /// The same with a change of the topology.
    pub(super) async fn begin_with(
        installation: &Installation,
        cluster: &'static str,
        log: impl Fn() -> String + 'a,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let namespace = installation.kubernetes.namespace(SHARED).await;
        let site = Site::on(installation.kubernetes.client(), namespace).await;
        for mut template in bundle("class.yaml") {
            if without_durations(&mut template["spec"]) {
                site.create(template).await;
            }
        }
        let before = contents(&site).await;
        let mut object = bundle("cluster.yaml").remove(0);
        object["metadata"]["name"] = json!(cluster);
        let topology = &mut object["spec"]["topology"];
        topology["variables"].as_array_mut().unwrap().push(json!({"name": "workerStartup", "value": "0s"}));
        for deployment in topology["workers"]["machineDeployments"].as_array_mut().unwrap() {
            deployment.as_object_mut().unwrap().remove("variables");
        }
        change(topology);
        site.create(object).await;
        Story { site, cluster, log: Box::new(log), before }
    }

    /// Waits until so many Machines are there, all of them run, and all of them satisfy a condition.
    pub(super) async fn until_running(&self, what: &str, number: usize, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.until(what, || async {
            let machines = self.site.list(CORE, "Machine").await;
            let is_done = |machine: &Value| machine["status"]["phase"] == "Running" && is_so(machine);
            (machines.len() == number && machines.iter().all(is_done)).then_some(machines)
        })
        .await
    }

    /// The same as `Site::until`, and says what the Machines are like when it does not come true.
    pub(super) async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, holds: impl Fn() -> F) -> T {
        let state = async || {
            let machines = self.site.list(CORE, "Machine").await;
            let shown: String =
                machines.iter().map(|one| format!("{} {}\n", text(one, "/metadata/name"), one["status"])).collect();
            let log = (self.log)();
            let warnings: Vec<&str> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
            format!("{shown}\n{}\n{}", warnings.join("\n"), self.site.state().await)
        };
        wait::until_some_async(what, wait::ROLLOUT, async || holds().await, state).await
    }

    /// The Nodes that a user of the Secret `<cluster>-kubeconfig` sees, each with its version.
    pub(super) async fn nodes(&self) -> Vec<(String, String)> {
        let Some(secret) = self.site.get("v1", "Secret", &format!("{}-kubeconfig", self.cluster)).await else {
            return Vec::new();
        };
        let text = STANDARD.decode(text(&secret, "/data/value")).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8(text).unwrap()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let nodes: Api<Node> = Api::all(kube::Client::try_from(config).unwrap());
        // The Secret of a process that has ended leads nowhere until the next one writes it.
        let Ok(nodes) = nodes.list(&ListParams::default()).await else { return Vec::new() };
        let described = |node: Node| {
            let version = node.status.and_then(|status| status.node_info).map(|info| info.kubelet_version);
            (node.metadata.name.unwrap(), version.unwrap_or_default())
        };
        nodes.items.into_iter().map(described).collect()
    }

    /// What `simulate --live` says of the Cluster: of what is left to do, or of an upgrade.
    pub(super) async fn foreseen(&self, installation: &Installation, version: Option<&str>) -> Value {
        let kubeconfig = installation.kubernetes.kubeconfig();
        let mut simulate = command(&["simulate", "--live", "--limit", "1h", "-o", "json", "--kubeconfig"]);
        simulate.arg(kubeconfig);
        let folder = tempfile::tempdir().unwrap();
        if let Some(version) = version {
            let mut cluster = self.site.get(CORE, "Cluster", self.cluster).await.unwrap();
            cluster["spec"]["topology"]["version"] = json!(version);
            let file = folder.path().join("to.json");
            std::fs::write(&file, cluster.to_string()).unwrap();
            simulate.arg("--to").arg(file);
        }
        // Clusters of other stories may be stuck.
        let output = tokio::task::spawn_blocking(move || simulate.output().unwrap()).await.unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let clusters = report["clusters"].as_array().unwrap().iter();
        let mut ours = clusters.filter(|one| one["namespace"] == *self.site.namespace && one["name"] == self.cluster);
        ours.next().unwrap().clone()
    }

    pub(super) async fn until_nodes(&self, number: usize, version: &str) {
        self.until(&format!("{number} Nodes at {version}"), || async {
            let nodes = self.nodes().await;
            (nodes.len() == number && nodes.iter().all(|(_, at)| at == version)).then_some(())
        })
        .await;
    }
}

/// Counts the Machines of a namespace by what they belong to, with a watch, so that no moment is missed.
pub(super) struct Census {
    known: Arc<Mutex<Known>>,
    _watch: JoinSet<()>,
}

/// What the watch has shown.
#[derive(Default)]
pub(super) struct Known {
    /// The Machines that are there, and what they belong to.
    there: BTreeMap<String, String>,
    /// All that ever were there.
    names: BTreeSet<String>,
    /// The most that were there at the same time, by what they belong to.
    most: BTreeMap<String, usize>,
    /// Names in the order in which they came and went.
    history: Vec<String>,
}

impl Known {
    pub(super) fn note(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Apply(machine) | Event::InitApply(machine) => self.here(&machine),
            Event::Delete(machine) => {
                self.there.remove(&machine.name_any());
                self.history.push(format!("-{}", machine.name_any()));
            }
            Event::Init | Event::InitDone => {}
        }
    }

    pub(super) fn here(&mut self, machine: &DynamicObject) {
        let part = machine.labels().get("topology.cluster.x-k8s.io/deployment-name");
        let part = part.map_or("control plane", String::as_str).to_owned();
        if self.there.insert(machine.name_any(), part.clone()).is_none() {
            self.history.push(format!("+{}", machine.name_any()));
            self.names.insert(machine.name_any());
        }
        let number = self.there.values().filter(|one| **one == part).count();
        let most = self.most.entry(part).or_default();
        *most = number.max(*most);
    }
}

impl Census {
    pub(super) fn begin(site: &Site) -> Self {
        let (known, machines) = (Arc::<Mutex<Known>>::default(), site.api(CORE, "Machine"));
        let mut watch = JoinSet::new();
        let noted = known.clone();
        watch.spawn(async move {
            let mut events = pin!(watcher(machines, watcher::Config::default()));
            // After a fault it goes on.
            while let Some(event) = events.next().await {
                event.into_iter().for_each(|event| noted.lock().unwrap().note(event));
            }
        });
        Census { known, _watch: watch }
    }

    /// The names of all Machines that ever were there.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.known.lock().unwrap().names.clone()
    }

    /// How many Machines a part has now.
    pub(super) fn number_of(&self, part: &str) -> usize {
        self.known.lock().unwrap().there.values().filter(|one| *one == part).count()
    }

    /// Fails when other than so many Machines ever were there: none is made twice, and none is replaced without a
    /// reason.
    pub(super) fn has_seen(&self, number: usize) {
        let known = self.known.lock().unwrap();
        assert_eq!(known.names.len(), number, "{:?}", known.history);
    }

    /// Fails when there were more Machines at a time than these.
    pub(super) fn was_at_most(&self, control_plane: usize, blue: usize, green: usize) {
        let known = self.known.lock().unwrap();
        for (part, bound) in [("control plane", control_plane), ("blue", blue), ("green", green)] {
            let most = known.most.get(part).copied().unwrap_or_default();
            assert!(most <= bound, "{most} Machines of {part} instead of {bound}: {:?}", known.history);
        }
    }
}

/// Takes the delays out of what machines are made from; says whether there were any.
pub(super) fn without_durations(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            let mut found = false;
            for (name, member) in members {
                found |= name == "startupDuration";
                match name.as_str() {
                    "startupDuration" => *member = json!("0s"),
                    "startupJitter" => *member = json!("0"),
                    // Patches have paths with the same words.
                    "patches" | "variables" => {}
                    _ => found |= without_durations(member),
                }
            }
            found
        }
        Value::Array(elements) => elements.iter_mut().fold(false, |found, one| without_durations(one) | found),
        _ => false,
    }
}

/// What is in a namespace, as kind and name.
pub(super) async fn contents(site: &Site) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (api_version, kind) in LEFT {
        let names = site.list(api_version, kind).await.into_iter().map(|object| text(&object, "/metadata/name"));
        found.extend(names.map(|name| format!("{kind} {name}")));
    }
    found
}

/// Fails when the permissions did not suffice.
pub(super) fn nothing_was_forbidden(topologist: &Topologist) {
    let log = topologist.log_text();
    let refused = |line: &&str| line.to_lowercase().contains("forbidden") || line.contains("Watch failed");
    let refused: Vec<&str> = log.lines().filter(refused).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

pub(super) fn version(machine: &Value) -> &str {
    machine["spec"]["version"].as_str().unwrap()
}
