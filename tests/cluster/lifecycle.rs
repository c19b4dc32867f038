//! Machines on a real kube-apiserver: the binary with the permissions of the component `lifecycle` and the embedded provider, and
//! kube-controller-manager, which collects garbage.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::pin::pin;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Config, ResourceExt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use topologist::yaml;

use crate::controller_manager::ControllerManager;
use crate::kubernetes::Kubernetes;
use crate::kustomize::{definitions_at, overlay_with, permissions, stream, webhooks_at};
use crate::process::{Topologist, command, make_certificates};
use crate::rollout::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, Site, bundle, text, without_conversion};

/// Everything is short, and the third machine of the Cluster `failing` fails.
const TIMINGS: &str = "cluster: 100ms\ninfrastructure: 100ms\nbootstrap: 100ms\nnode: 100ms\netcd: 0s\napiServer: 0s\n\
    controlPlane: 0s\ndrain: 0s\ndeletion: 100ms\nfailures:\n- {cluster: failing, machine: 3, what: infrastructure}\n";
/// The kinds of which nothing of a Cluster may be left, besides the objects of the class.
const LEFT: [(&str, &str); 14] = [
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
const MACHINES: usize = 6;
/// Those of the pool have Nodes as well.
const NODES: usize = MACHINES + 2;

/// A kube-apiserver with the definitions, the permissions of the component, and files for processes.
struct Ground {
    kubernetes: Kubernetes,
    kubeconfig: String,
    folder: TempDir,
    manifests: Vec<Value>,
}

impl Ground {
    async fn new() -> Self {
        let manifests = overlay_with("alone", &["lifecycle"], &[]);
        let kubernetes = Kubernetes::start();
        let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
        kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
        kubernetes.apply_yaml(&stream(&permissions(manifests.clone()))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        std::fs::write(folder.path().join("timings.yaml"), TIMINGS).unwrap();
        Ground { kubernetes, kubeconfig: kubeconfig.display().to_string(), folder, manifests }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn start(&self) -> Topologist {
        let (cert, key, timings) = (self.file("tls.crt"), self.file("tls.key"), self.file("timings.yaml"));
        let common =
            ["--kubeconfig", &self.kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        let own = ["--controllers", "all", "--lifecycle", "on", "--lease-duration", "3s", "--timings", &timings];
        Topologist::serve(&[&common[..], &own].concat())
    }
}

/// What the stories share.
struct Shared {
    topologist: Topologist,
    ground: Ground,
    controller_manager: ControllerManager,
}

impl Shared {
    async fn get() -> &'static Self {
        static SHARED: OnceCell<Shared> = OnceCell::const_new();
        SHARED.get_or_init(Shared::start).await
    }

    async fn start() -> Self {
        let ground = Ground::new().await;
        let topologist = ground.start();
        topologist.wait_until_ready();
        let authority = std::fs::read(ground.file("ca.crt")).unwrap();
        let webhooks = webhooks_at(ground.manifests.clone(), &topologist.webhook, &authority);
        ground.kubernetes.apply_yaml(&stream(&webhooks)).await;
        let embedded = definitions_at(topologist::crd::embedded_provider(), &topologist.conversions, &authority);
        ground.kubernetes.apply_yaml(&stream(&embedded)).await;
        let controller_manager = ControllerManager::start(&ground.kubernetes).await;
        Shared { topologist, ground, controller_manager }
    }
}

/// A namespace with the class and one Cluster, and what it took.
struct Story<'a> {
    site: Site,
    cluster: &'static str,
    /// What the processes have logged.
    log: Box<dyn Fn() -> String + 'a>,
    /// What was there before the Cluster.
    before: BTreeSet<String>,
}

impl<'a> Story<'a> {
    async fn begin(ground: &Ground, cluster: &'static str, log: impl Fn() -> String + 'a) -> Self {
        Story::begin_with(ground, cluster, log, |_| {}).await
    }

    /// The same with a change of the topology.
    async fn begin_with(
        ground: &Ground,
        cluster: &'static str,
        log: impl Fn() -> String + 'a,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let namespace = ground.kubernetes.namespace("lifecycle").await;
        let site = Site::on(ground.kubernetes.client(), namespace).await;
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
    async fn until_running(&self, what: &str, number: usize, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.until(what, || async {
            let machines = self.site.list(CORE, "Machine").await;
            let is_done = |machine: &Value| machine["status"]["phase"] == "Running" && is_so(machine);
            (machines.len() == number && machines.iter().all(is_done)).then_some(machines)
        })
        .await
    }

    /// The same as `Site::until`, and says what the Machines are like when it does not come true.
    async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, holds: impl Fn() -> F) -> T {
        let started = std::time::Instant::now();
        loop {
            if let Some(found) = holds().await {
                return found;
            }
            if started.elapsed() > 3 * crate::process::SOON {
                let machines = self.site.list(CORE, "Machine").await;
                let shown: Vec<String> =
                    machines.iter().map(|one| format!("{} {}\n", text(one, "/metadata/name"), one["status"])).collect();
                let log = (self.log)();
                let warnings: Vec<&str> = log.lines().filter(|line| line.contains("\"WARN\"")).collect();
                panic!(
                    "{what} did not come true\n{}\n{}\n{}",
                    shown.concat(),
                    warnings.join("\n"),
                    self.site.state().await
                );
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// The Nodes that a user of the Secret `<cluster>-kubeconfig` sees, each with its version.
    async fn nodes(&self) -> Vec<(String, String)> {
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
    async fn foreseen(&self, ground: &Ground, version: Option<&str>) -> Value {
        let kubeconfig = ground.kubernetes.kubeconfig();
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

    async fn until_nodes(&self, number: usize, version: &str) {
        self.until(&format!("{number} Nodes at {version}"), || async {
            let nodes = self.nodes().await;
            (nodes.len() == number && nodes.iter().all(|(_, at)| at == version)).then_some(())
        })
        .await;
    }
}

/// `check-provider --live` for a kind in the namespace of a story.
struct Following(Child);

impl Following {
    fn start(ground: &Ground, story: &Story<'_>, kind: &str) -> Self {
        let mut command =
            command(&["check-provider", "-o", "json", "--live", kind, "--namespace", &story.site.namespace]);
        command.arg("--kubeconfig").arg(ground.kubernetes.kubeconfig());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        while !said.next().expect("it ends before it follows").unwrap().contains("following") {}
        std::thread::spawn(move || said.for_each(drop));
        Following(child)
    }

    /// The totals.
    fn end(self) -> Value {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        let output = self.0.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }
}

/// Counts the Machines of a namespace by what they belong to, with a watch, so that no moment is missed.
struct Census {
    known: Arc<Mutex<Known>>,
    _watch: JoinSet<()>,
}

/// What the watch has shown.
#[derive(Default)]
struct Known {
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
    fn note(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Apply(machine) | Event::InitApply(machine) => self.here(&machine),
            Event::Delete(machine) => {
                self.there.remove(&machine.name_any());
                self.history.push(format!("-{}", machine.name_any()));
            }
            Event::Init | Event::InitDone => {}
        }
    }

    fn here(&mut self, machine: &DynamicObject) {
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
    fn begin(site: &Site) -> Self {
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
    fn names(&self) -> BTreeSet<String> {
        self.known.lock().unwrap().names.clone()
    }

    /// How many Machines a part has now.
    fn number_of(&self, part: &str) -> usize {
        self.known.lock().unwrap().there.values().filter(|one| *one == part).count()
    }

    /// Fails when other than so many Machines ever were there: none is made twice, and none is replaced without a reason.
    fn has_seen(&self, number: usize) {
        let known = self.known.lock().unwrap();
        assert_eq!(known.names.len(), number, "{:?}", known.history);
    }

    /// Fails when there were more Machines at a time than these.
    fn was_at_most(&self, control_plane: usize, blue: usize, green: usize) {
        let known = self.known.lock().unwrap();
        for (part, bound) in [("control plane", control_plane), ("blue", blue), ("green", green)] {
            let most = known.most.get(part).copied().unwrap_or_default();
            assert!(most <= bound, "{most} Machines of {part} instead of {bound}: {:?}", known.history);
        }
    }
}

/// Takes the delays out of what machines are made from; says whether there were any.
fn without_durations(value: &mut Value) -> bool {
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
async fn contents(site: &Site) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (api_version, kind) in LEFT {
        let names = site.list(api_version, kind).await.into_iter().map(|object| text(&object, "/metadata/name"));
        found.extend(names.map(|name| format!("{kind} {name}")));
    }
    found
}

/// Fails when the permissions did not suffice.
fn nothing_was_forbidden(topologist: &Topologist) {
    let log = topologist.log_text();
    let refused = |line: &&str| line.to_lowercase().contains("forbidden") || line.contains("Watch failed");
    let refused: Vec<&str> = log.lines().filter(refused).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

fn version(machine: &Value) -> &str {
    machine["spec"]["version"].as_str().unwrap()
}

/// The objects of `fixtures/machines/older.yaml`, whose class names v1alpha1 alone, and a Cluster of it.
fn of_the_older_contract() -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/machines/older.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Vec<Value> = yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect();
    for object in &mut all {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    let workers = json!({"machineDeployments": [{"class": "worker", "name": "a", "replicas": 1}]});
    all.push(json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "older"}, "spec": {"topology": {
        "classRef": {"name": "older"}, "version": "v1.33.0", "controlPlane": {"replicas": 1}, "workers": workers}}}));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_names_the_older_contract_rolls_out_and_upgrades() {
    // CONV-017, CT-3.2, CT-3.11, CT-5.4
    const OLDER: &str = "infrastructure.topologist.dev/v1alpha1";
    let shared = Shared::get().await;
    let site = Site::on(shared.ground.kubernetes.client(), shared.ground.kubernetes.namespace("older").await).await;
    let log = Box::new(|| shared.topologist.log_text());
    let story = Story { site, cluster: "older", log, before: BTreeSet::new() };
    for object in of_the_older_contract() {
        story.site.create(object).await;
    }
    story.until_running("all Machines run", 2, |_| true).await;
    let older = story.site.list(OLDER, "EmbeddedMachine").await;
    assert!(older.iter().all(|one| one["status"]["ready"] == true), "{older:#?}");
    let newer = story.site.list(INFRASTRUCTURE, "EmbeddedMachine").await;
    assert!(newer.iter().all(|one| one["status"]["initialization"]["provisioned"] == true), "{newer:#?}");
    story.site.change("older", |topology| topology["version"] = json!("v1.34.0")).await;
    story.until_running("all Machines have the new version", 2, |machine| version(machine) == "v1.34.0").await;
    let control_plane = story.site.list("controlplane.topologist.dev/v1alpha1", "EmbeddedControlPlane").await.remove(0);
    let template = &control_plane["spec"]["machineTemplate"];
    assert_eq!(
        (&template["nodeDrainTimeout"], &template["infrastructureRef"]["apiVersion"]),
        (&json!("90s"), &json!(OLDER))
    );
    let of_cluster = |one: &Value| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "older";
    let templates = story.site.list(OLDER, "EmbeddedMachineTemplate").await;
    assert_eq!(templates.iter().filter(|one| of_cluster(one)).count(), 2, "none was replaced");
    story.site.delete(CORE, "Cluster", "older").await;
    story.until("the Cluster is gone", || async { story.site.cluster("older").await.is_null().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_run_scale_upgrade_and_change_until_the_cluster_goes_and_nothing_is_left() {
    // CT-16.2, CT-16.5, MA-27.16, ROLL-1
    let shared = Shared::get().await;
    let story = Story::begin(&shared.ground, "demo", || shared.topologist.log_text()).await;
    let following = Following::start(&shared.ground, &story, "EmbeddedMachine");
    let first = story.until_running("all Machines run", MACHINES, |_| true).await;
    story.until_nodes(NODES, "v1.33.0").await;

    let blue = |replicas: usize| {
        move |topology: &mut Value| topology["workers"]["machineDeployments"][0]["replicas"] = json!(replicas)
    };
    story.site.change("demo", blue(4)).await;
    let more = story.until_running("the Machines are two more", MACHINES + 2, |_| true).await;
    let names = |machines: &[Value]| machines.iter().map(|one| text(one, "/metadata/name")).collect::<BTreeSet<_>>();
    assert!(names(&more).is_superset(&names(&first)), "a change of replicas replaces no Machine");
    story.site.change("demo", blue(1)).await;
    story.until_running("the Machines are fewer", MACHINES - 1, |_| true).await;

    let [still, foreseen] = [None, Some("v1.34.0")].map(|version| story.foreseen(&shared.ground, version));
    let (still, foreseen) = (still.await, foreseen.await);
    assert_eq!(still["events"], json!([]), "nothing is left to do");
    let count = |field: &str| {
        let machines = foreseen["machines"].as_array().unwrap().iter();
        machines.filter(|one| one[field].is_i64() && one["version"] == "v1.34.0").count()
    };
    assert_eq!((count("made"), foreseen["outcome"].as_str()), (MACHINES - 1, Some("converged")));

    story.site.change("demo", |topology| topology["version"] = json!("v1.34.0")).await;
    let at_it = |machine: &Value| version(machine) == "v1.34.0";
    let upgraded = story.until_running("all Machines are upgraded", MACHINES - 1, at_it).await;
    story.until_nodes(NODES - 1, "v1.34.0").await;

    let old = names(&upgraded);
    story.site.change("demo", |topology| topology["variables"][0]["value"] = json!("another greeting")).await;
    let is_new = |machine: &Value| !old.contains(&text(machine, "/metadata/name"));
    story.until_running("a new greeting replaces all Machines", MACHINES - 1, is_new).await;

    story.site.delete(CORE, "Cluster", "demo").await;
    story.until("nothing is left", || async { (contents(&story.site).await == story.before).then_some(()) }).await;
    let totals = following.end();
    assert_eq!((&totals["errors"], &totals["broken"]), (&json!(0), &json!([])), "{totals}");
    let kept: BTreeSet<&str> = totals["kept"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(["CT-8.2", "CT-8.6", "CT-15.6", "CT-18.3"].iter().all(|rule| kept.contains(rule)), "{totals}");
    shared.controller_manager.collects_garbage(story.site.client.clone(), &story.site.namespace).await;
    nothing_was_forbidden(&shared.topologist);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_third_machine_fails_says_so_and_is_replaced_when_its_health_check_is_asked() {
    // CT-19.8, MA-15.7, MA-19.8, MA-19.13
    let shared = Shared::get().await;
    // One of four workers may be unhealthy: the class allows 40%.
    let workers = json!({"machineDeployments": [{"class": "default-worker", "name": "blue", "replicas": 4}]});
    let change = |topology: &mut Value| topology["workers"] = workers;
    let story = Story::begin_with(&shared.ground, "failing", || shared.topologist.log_text(), change).await;
    let reason = |machine: &Value| {
        let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "InfrastructureReady").map(|one| text(&one, "/reason"))
    };
    let failing = || async {
        let machines = story.site.list(CORE, "Machine").await;
        let failed = machines.iter().find(|machine| reason(machine).as_deref() == Some("InjectedFailure"));
        failed.map(|machine| text(machine, "/metadata/name"))
    };
    let name = story.until("a Machine says that its provider fails", failing).await;
    let cluster = story.site.cluster("failing").await;
    let numbered = text(&cluster, "/metadata/annotations/lifecycle.topologist.dev~1numbered-machines");
    assert_eq!(numbered.split(',').nth(2), Some(&*name), "{numbered}");
    let asked = json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}});
    story.site.merge(CORE, "Machine", &name, asked).await;
    let is_another = |machine: &Value| text(machine, "/metadata/name") != name;
    story.until_running("another Machine runs in its place", 3 + 4, is_another).await;
    nothing_was_forbidden(&shared.topologist);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pre_drain_hook_holds_a_deleted_machine_until_it_is_gone() {
    // MA-9.5, MA-15.4: a Machine that is being deleted counts until it is gone.
    let shared = Shared::get().await;
    let story = Story::begin(&shared.ground, "hooked", || shared.topologist.log_text()).await;
    let machines = story.until_running("all Machines run", MACHINES, |_| true).await;
    let is_worker =
        |machine: &&Value| machine["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] == "blue";
    let name = text(machines.iter().find(is_worker).unwrap(), "/metadata/name");
    let hook = |value: Value| json!({"metadata": {"annotations": {"pre-drain.delete.hook.machine.cluster.x-k8s.io/test": value}}});
    story.site.merge(CORE, "Machine", &name, hook(json!("tester"))).await;
    story.site.delete(CORE, "Machine", &name).await;
    story
        .until("the Machine waits for the hook", || async {
            let machine = story.site.get(CORE, "Machine", &name).await?;
            machine["status"]["conditions"].to_string().contains("WaitingForPreDrainHook").then_some(())
        })
        .await;
    story.site.merge(CORE, "Machine", &name, hook(Value::Null)).await;
    story.until_running("the Machine is gone", MACHINES, |machine| text(machine, "/metadata/name") != name).await;
    story.until_nodes(NODES, "v1.33.0").await;
    nothing_was_forbidden(&shared.topologist);
}

/// Two processes, of which one leads.
struct Pair<'a> {
    ground: &'a Ground,
    leader: Topologist,
    next: Topologist,
}

impl<'a> Pair<'a> {
    fn start(ground: &'a Ground) -> Self {
        let mut leader = ground.start();
        leader.wait_for_log("Acquired the Lease");
        let next = ground.start();
        next.wait_until_ready();
        Pair { ground, leader, next }
    }

    /// Kills the process that leads. The other one leads then, and a third takes its place.
    fn kill_leader(&mut self) {
        self.leader.signal("KILL");
        self.leader.wait();
        self.next.wait_for_log("Acquired the Lease");
        let third = self.ground.start();
        third.wait_until_ready();
        self.leader = std::mem::replace(&mut self.next, third);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_killed_the_next_one_goes_on_and_makes_nothing_twice() {
    // DEC-54, CT-19.5, MA-22.4, ROLL-8
    let ground = Ground::new().await;
    let mut pair = Pair::start(&ground);
    let story = Story::begin(&ground, "demo", String::new).await;
    let census = Census::begin(&story.site);
    story.until("some Machines are there", || async { (census.names().len() >= 2).then_some(()) }).await;
    pair.kill_leader();
    story.until_running("all Machines run", MACHINES, |_| true).await;
    story.until_nodes(NODES, "v1.33.0").await;
    census.has_seen(MACHINES);
    census.was_at_most(3, 2, 1);

    // A rollout, with another machine for each set of machines.
    let old = census.names();
    story.site.change("demo", |topology| topology["variables"][0]["value"] = json!("another greeting")).await;
    let workers = || census.number_of("blue") + census.number_of("green") > 3;
    story.until("workers are replaced", || async { workers().then_some(()) }).await;
    pair.kill_leader();
    let is_new = |machine: &Value| !old.contains(&text(machine, "/metadata/name"));
    story.until_running("all Machines are replaced", MACHINES, is_new).await;
    story.until_nodes(NODES, "v1.33.0").await;
    census.has_seen(2 * MACHINES);
    census.was_at_most(4, 3, 2);

    // Nothing is going on: the Nodes come again, and that is all.
    pair.kill_leader();
    story.until_nodes(NODES, "v1.33.0").await;
    story.until_running("all Machines go on running", MACHINES, is_new).await;
    census.has_seen(2 * MACHINES);
    for (api_version, kind, number) in
        [(INFRASTRUCTURE, "EmbeddedMachine", MACHINES), (BOOTSTRAP, "EmbeddedConfig", MACHINES + 1)]
    {
        let names: Vec<String> =
            story.site.list(api_version, kind).await.iter().map(|one| text(one, "/metadata/name")).collect();
        assert_eq!(names.len(), number, "{names:?}");
    }
    nothing_was_forbidden(&pair.leader);
}
