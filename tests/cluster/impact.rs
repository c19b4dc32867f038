//! Edits of classes, templates and Clusters tell in kubectl how many machines they replace, and a ceiling holds those
//! that replace too many. Templates in use are not deleted (deletions.rs).
//!
//! One installation serves all tests of this file, with the component for templates. In one namespace a second process
//! is asked as well, which has a ceiling.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use topologist::crd;

use crate::harness::faulty_api::Faulty;
use crate::harness::kubectl::{Kubectl, Outcome};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay_with, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::tls_client::{Connection, Protocol};
use crate::harness::wait;
use crate::harness::wait::SOON;

mod deletions;

/// Where the process with the ceiling is asked as well.
const CAPPED: &str = "capped";
const APPROVAL: &str = "topologist.dev/approved-impact";
const CEILING: &str = "topologist.dev/max-replaced-machines";

struct Installation {
    /// The certificate of both processes, and its CA.
    certificates: PathBuf,
    /// Fields end in this order: processes do not outlive their API server.
    topologist: Topologist,
    capped: Topologist,
    kubernetes: Kubernetes,
}

fn installation() -> &'static Installation {
    static INSTALLATION: OnceLock<Installation> = OnceLock::new();
    INSTALLATION.get_or_init(|| runtime().block_on(install()))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

async fn install() -> Installation {
    let kubernetes = Kubernetes::start();
    kubernetes.apply_yaml(&stream(&crd::definitions())).await;
    kubernetes.apply_yaml(&stream(&definitions())).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CAPPED}});
    kubernetes.apply_yaml(&namespace.to_string()).await;
    let manifests = overlay_with("beside", &["templates"], &[]);
    kubernetes.apply_yaml(&stream(&permissions(manifests.clone()))).await;
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    let folder = kubernetes.kubeconfig().parent().unwrap().join("certificates");
    make_certificates(&folder);
    let [cert, key] = ["tls.crt", "tls.key"].map(|name| folder.join(name).display().to_string());
    let kubeconfig = kubeconfig.to_str().unwrap();
    // A debug build is slow.
    let own = ["--kubeconfig", kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--impact-time", "20s"];
    let own = [&own[..], &["--watch-templates"]].concat();
    let topologist = Topologist::serve(&own);
    let capped = Topologist::serve(&[&own[..], &["--max-replaced-machines", "4"]].concat());
    [&topologist, &capped].iter().for_each(|process| process.wait_until_ready());
    let authority = std::fs::read(folder.join("ca.crt")).unwrap();
    kubernetes.apply_yaml(&stream(&webhooks_at(manifests.clone(), &topologist.webhook, &authority))).await;
    let mut more = webhooks_at(manifests, &capped.webhook, &authority);
    more.retain(|configuration| configuration["kind"] == "ValidatingWebhookConfiguration");
    for configuration in &mut more {
        configuration["metadata"]["name"] = json!(CAPPED);
        for webhook in configuration["webhooks"].as_array_mut().unwrap() {
            webhook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": CAPPED}});
        }
    }
    kubernetes.apply_yaml(&stream(&more)).await;
    Installation { certificates: folder, topologist, capped, kubernetes }
}

/// The kinds of a provider, in two versions.
fn definitions() -> Vec<Value> {
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let definition = |(group, kind): (&str, &str)| {
        let (group, plural) = (format!("{group}.cluster.x-k8s.io"), format!("{}s", kind.to_lowercase()));
        let labels = json!({"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "labels": labels},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [version("v1beta1", false), version("v1beta2", true)]},
        })
    };
    let kinds = [
        ("infrastructure", "DevCluster"),
        ("infrastructure", "DevMachine"),
        ("controlplane", "KubeadmControlPlane"),
        ("bootstrap", "KubeadmConfig"),
    ];
    let with_template = |(group, kind)| [definition((group, kind)), definition((group, &format!("{kind}Template")))];
    kinds.into_iter().flat_map(with_template).collect()
}

/// A namespace with a class, its templates, and Clusters with 3 machines in the control plane and 2 workers each.
struct Fleet {
    kubectl: Kubectl,
    clusters: usize,
}

impl Fleet {
    /// In a namespace of its own.
    fn of(clusters: usize, class: &Value) -> Self {
        let namespace = runtime().block_on(installation().kubernetes.namespace("impact"));
        Self::within(namespace, clusters, class)
    }

    fn within(namespace: String, clusters: usize, class: &Value) -> Self {
        let kubectl = Kubectl::within(installation().kubernetes.kubeconfig().to_owned(), namespace);
        let fleet = Fleet { kubectl, clusters };
        let objects: Vec<Value> = templates().into_iter().chain([class.clone()]).collect();
        fleet.apply_all(&objects);
        fleet.apply_all(&(0..clusters).map(|i| cluster(&format!("blue-{i}"))).collect::<Vec<_>>());
        fleet.until_seen(class);
        fleet
    }

    fn apply_all(&self, objects: &[Value]) {
        self.kubectl.give(&json!({"apiVersion": "v1", "kind": "List", "items": objects}), &["apply"]);
    }

    fn apply(&self, object: &Value) -> Outcome {
        self.kubectl.try_give(object, &["apply"])
    }

    fn dry_run(&self, object: &Value) -> Outcome {
        self.kubectl.try_give(object, &["apply", "--dry-run=server"])
    }

    /// The watch of Clusters needs a moment, and so do webhook configurations.
    fn until_seen(&self, class: &Value) {
        let mut probe = class.clone();
        probe["spec"]["patches"] = json!([file("controlplane", "KubeadmControlPlane", "/probe")]);
        let all = format!("in {0} of {0} Cluster", self.clusters);
        let is_seen = || self.dry_run(&probe).err.contains(&all);
        wait::until("the Clusters are seen", SOON, is_seen, || format!("{:#?}", self.dry_run(&probe)));
    }

    /// What kubectl prints of an edit that is stored.
    #[track_caller]
    fn warnings(&self, object: &Value) -> Vec<String> {
        warnings(&self.apply(object))
    }

    /// What kubectl prints of an edit that is denied, dry run or not.
    #[track_caller]
    fn denial(&self, object: &Value) -> String {
        let [dry, denied] = [self.dry_run(object), self.apply(object)];
        assert!(dry.code != 0 && denied.code != 0, "{dry:#?} {denied:#?}");
        denied.err
    }

    /// The first event of an object: its reason, message and count.
    fn until_event(&self, kind: &str, name: &str) -> String {
        let fields = "jsonpath={range .items[*]}{.reason} {.message} {.count}{\"\\n\"}{end}";
        let arguments = ["events", "--for", &format!("{kind}/{name}"), "-o", fields];
        let first = || self.kubectl.out(&arguments).lines().next().map(str::to_owned);
        wait::until_some(&format!("there is an event on {kind} {name}"), SOON, first, String::new)
    }

    fn named(&self, text: &str) -> String {
        text.replace("NS", &self.kubectl.namespace)
    }
}

/// The permissions of the manifests were enough.
fn was_never_refused() {
    for process in [&installation().topologist, &installation().capped] {
        let log = process.log_text();
        assert!(!log.contains("cannot get") && !log.contains("cannot list") && !log.contains("Watch failed"), "{log}");
    }
}

#[track_caller]
fn warnings(outcome: &Outcome) -> Vec<String> {
    assert_eq!(outcome.code, 0, "{outcome:#?}");
    outcome.err.lines().filter_map(|line| line.strip_prefix("Warning: ")).map(str::to_owned).collect()
}

fn api_version(group: &str) -> String {
    format!("{group}.cluster.x-k8s.io/v1beta2")
}

fn template(group: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version(group), "kind": kind, "metadata": {"name": name},
        "spec": {"template": {"spec": {}}},
    })
}

fn machine_template(size: &str) -> Value {
    let mut template = template("infrastructure", "DevMachineTemplate", "worker");
    template["spec"]["template"]["spec"]["size"] = json!(size);
    template
}

fn templates() -> Vec<Value> {
    vec![
        template("infrastructure", "DevClusterTemplate", "base"),
        template("infrastructure", "DevMachineTemplate", "control-plane"),
        machine_template("small"),
        template("controlplane", "KubeadmControlPlaneTemplate", "base"),
        template("bootstrap", "KubeadmConfigTemplate", "worker"),
    ]
}

fn class() -> Value {
    let reference = |group: &str, kind: &str, name: &str| {
        json!({"templateRef": {"apiVersion": api_version(group),
            "kind": kind, "name": name}})
    };
    let mut control_plane = reference("controlplane", "KubeadmControlPlaneTemplate", "base");
    control_plane["machineInfrastructure"] = reference("infrastructure", "DevMachineTemplate", "control-plane");
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "base"},
        "spec": {
            "infrastructure": reference("infrastructure", "DevClusterTemplate", "base"),
            "controlPlane": control_plane,
            "workers": {"machineDeployments": [{
                "class": "small",
                "bootstrap": reference("bootstrap", "KubeadmConfigTemplate", "worker"),
                "infrastructure": reference("infrastructure", "DevMachineTemplate", "worker"),
            }]},
        },
    })
}

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"topology": {
            "classRef": {"name": "base"}, "version": "v1.33.0", "controlPlane": {"replicas": 3},
            "workers": {"machineDeployments": [{"class": "small", "name": "md-0", "replicas": 2}]},
        }},
    })
}

/// A patch that gives all machines of control planes or of workers a file.
fn file(group: &str, kind: &str, path: &str) -> Value {
    let (resources, at) = match group {
        "controlplane" => (json!({"controlPlane": true}), "/spec/template/spec/kubeadmConfigSpec"),
        _ => (json!({"machineDeploymentClass": {"names": ["small"]}}), "/spec/template/spec/files"),
    };
    let kind = format!("{kind}Template");
    let value = json!([{"path": path}]);
    let value = if group == "controlplane" { json!({ "files": value }) } else { value };
    json!({"name": format!("{group}-file"), "definitions": [{
        "selector": {"apiVersion": api_version(group), "kind": kind, "matchResources": resources},
        "jsonPatches": [{"op": "add", "path": at, "value": value}],
    }]})
}

/// The class with a file on control planes: an edit of it replaces 3 machines of a Cluster.
fn with_file(path: &str) -> Value {
    let mut class = class();
    class["spec"]["patches"] = json!([file("controlplane", "KubeadmControlPlane", path)]);
    class
}

/// The class with a file on all machines: an edit of it replaces 5 machines of a Cluster.
fn with_files(path: &str) -> Value {
    let mut class = class();
    class["spec"]["patches"] =
        json!([file("controlplane", "KubeadmControlPlane", path), file("bootstrap", "KubeadmConfig", path)]);
    class
}

fn annotated(mut object: Value, annotations: &[(&str, &str)]) -> Value {
    for (name, value) in annotations {
        object["metadata"]["annotations"][*name] = json!(value);
    }
    object
}

#[test]
fn an_edit_of_a_class_prints_how_many_machines_of_sixty_clusters_it_replaces() {
    // DEC-42
    let fleet = Fleet::of(60, &class());
    let want = fleet.named("replaces 180 machines in 60 of 60 Clusters (class NS/base)");
    let reason = "KubeadmControlPlane: spec.kubeadmConfigSpec.files";
    for outcome in [fleet.dry_run(&with_file("/a")), fleet.apply(&with_file("/a"))] {
        let printed = warnings(&outcome);
        assert_eq!(printed[0], want, "{printed:?}");
        assert!(printed[1].starts_with(reason) && printed[1].contains("patch \"controlplane-file\""), "{printed:?}");
    }
    let event = fleet.until_event("clusterclass", "base");
    assert!(event.starts_with(&format!("MachinesAffected {want}; {reason}")) && event.ends_with(" 1"), "{event}");
    let workers = fleet.named("replaces 300 machines in 60 of 60 Clusters (class NS/base)");
    assert_eq!(warnings(&fleet.dry_run(&with_files("/b")))[0], workers);
    // In place.
    let mut patient = with_file("/a");
    patient["spec"]["workers"]["machineDeployments"][0]["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
    assert_eq!([fleet.dry_run(&patient), fleet.apply(&patient)].map(|outcome| warnings(&outcome)), [[""; 0]; 2]);
    let stored = fleet.kubectl.field("clusterclass/base", ".spec.workers.machineDeployments[0].deletion");
    assert!(stored.contains("60"), "{stored}");
    was_never_refused();
}

#[test]
fn a_set_with_an_autoscaler_counts_with_the_replicas_that_it_has() {
    // DEC-53
    let fleet = Fleet::of(1, &class());
    let mut blue = cluster("blue-0");
    let set = &mut blue["spec"]["topology"]["workers"]["machineDeployments"][0];
    set.as_object_mut().unwrap().remove("replicas");
    set["metadata"] = json!({"annotations": {
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9",
    }});
    fleet.apply_all(&[blue]);
    let first = || warnings(&fleet.dry_run(&with_files("/a")))[0].clone();
    let until = |want: &str| {
        let want = fleet.named(want);
        wait::until(&format!("the first warning is {want:?}"), SOON, || first() == want, first);
    };
    until("replaces at least 5 machines in 1 of 1 Cluster (class NS/base)");
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": "blue-0",
        "topology.cluster.x-k8s.io/deployment-name": "md-0",
        "topology.cluster.x-k8s.io/owned": "",
    });
    let machines = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "clusterName": "blue-0", "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate",
            "name": "worker"},
    }});
    fleet.apply_all(&[json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "blue-0-md-0-x", "labels": labels},
        "spec": {"clusterName": "blue-0", "replicas": 7, "selector": {"matchLabels": {"a": "b"}}, "template": machines},
    })]);
    until("replaces 10 machines in 1 of 1 Cluster (class NS/base)");
    fleet.kubectl.out(&["scale", "machinedeployment/blue-0-md-0-x", "--replicas", "8"]);
    until("replaces 11 machines in 1 of 1 Cluster (class NS/base)");
    was_never_refused();
}

#[test]
fn a_scale_that_the_topology_undoes_is_warned_of() {
    // DEC-113
    const NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
    let mut with_pools = class();
    let workers = &mut with_pools["spec"]["workers"];
    workers["machinePools"] = workers["machineDeployments"].clone();
    let fleet = Fleet::of(1, &with_pools);
    let mut blue = cluster("blue-0");
    let workers = &mut blue["spec"]["topology"]["workers"];
    let mut free = workers["machineDeployments"][0].clone();
    (free["name"], free["replicas"]) = (json!("free"), Value::Null);
    workers["machinePools"] = workers["machineDeployments"].clone();
    workers["machineDeployments"].as_array_mut().unwrap().push(free);
    fleet.apply_all(&[blue]);
    let object = |kind: &str, label: &str, set: &str| {
        let labels = json!({
            "cluster.x-k8s.io/cluster-name": "blue-0",
            label: set,
            "topology.cluster.x-k8s.io/owned": "",
        });
        let machines = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
            "clusterName": "blue-0", "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "worker",
            },
        }});
        let mut object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": set, "labels": labels},
            "spec": {"clusterName": "blue-0", "replicas": 2, "template": machines},
        });
        if kind == "MachineDeployment" {
            object["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
        }
        object
    };
    let pool = object("MachinePool", "topology.cluster.x-k8s.io/pool-name", "md-0");
    fleet.apply_all(&[object("MachineDeployment", NAME, "md-0"), object("MachineDeployment", NAME, "free"), pool]);
    let scale =
        |what: &str, replicas: &str| warnings(&fleet.kubectl.run(&["scale", what, "--replicas", replicas])).join("\n");
    let warning = |what: &str, field: &str| {
        fleet.named(&format!(
            "the replicas of {what} NS/md-0 will be 2 again, as the topology of Cluster NS/blue-0 sets them: change \
             spec.topology.workers.{field}[md-0].replicas of the Cluster instead"
        ))
    };
    let of_set = warning("MachineDeployment", "machineDeployments");
    // The watch of MachineDeployments needs a moment.
    let is_reported =
        || scale("machinedeployment/md-0", "3") == of_set || scale("machinedeployment/md-0", "4") == of_set;
    wait::until("a scale of a set is warned of", SOON, is_reported, || scale("machinedeployment/md-0", "5"));
    assert_eq!(scale("machinedeployment/md-0", "0"), of_set);
    assert_eq!(scale("machinedeployment/md-0", "2"), "", "the topology sets the same");
    assert_eq!(scale("machinedeployment/free", "5"), "", "the topology sets none");
    assert_eq!(scale("machinepool/md-0", "5"), warning("MachinePool", "machinePools"));
    was_never_refused();
}

#[test]
fn an_edit_of_a_template_prints_it_in_any_version_and_only_for_templates_of_classes() {
    // DEC-42
    let fleet = Fleet::of(2, &class());
    let want = fleet.named("replaces 4 machines in 2 of 2 Clusters (DevMachineTemplate NS/worker)");
    assert_eq!(warnings(&fleet.dry_run(&machine_template("large")))[0], want);
    assert_eq!(fleet.warnings(&machine_template("large"))[0], want);
    // The class refers to v1beta2, and only the provider could convert.
    let mut older = machine_template("small");
    older["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1beta1");
    let printed = fleet.warnings(&older);
    assert_eq!(printed[0], want, "{printed:?}");
    assert!(
        printed.iter().any(|line| line.contains("edited as v1beta1, but its class refers to v1beta2")),
        "{printed:?}"
    );
    assert_eq!(fleet.warnings(&annotated(older.clone(), &[("note", "n")])), [""; 0], "nothing of the spec changes");
    older["metadata"]["name"] = json!("of-no-class");
    fleet.apply(&older).unwrap();
    older["spec"]["template"]["spec"]["size"] = json!("large");
    assert_eq!(fleet.warnings(&older), [""; 0]);
    was_never_refused();
}

#[test]
fn a_ceiling_of_a_class_holds_its_edits_until_they_are_approved() {
    // DEC-53
    let limited = |class: Value| annotated(class, &[(CEILING, "4")]);
    let approved = |path: &str, text: &str| annotated(limited(with_files(path)), &[(APPROVAL, text)]);
    let fleet = Fleet::of(1, &limited(class()));
    let below = fleet.warnings(&limited(with_file("/a")));
    assert!(below[0].starts_with("replaces 3 machines in 1 of 1 Cluster"), "{below:?}");

    let denied = fleet.denial(&limited(with_files("/b")));
    let want = fleet.named(
        "this edit replaces or removes 5 machines in 1 of 1 Cluster, more than the 4 in annotation \
         topologist.dev/max-replaced-machines of ClusterClass NS/base; to approve it, set this annotation on \
         ClusterClass NS/base in the same edit: topologist.dev/approved-impact: \"5 <reason>\"",
    );
    assert!(denied.contains(&want), "{denied}");
    assert!(fleet.denial(&with_files("/b")).contains("to approve it"), "the edit takes the ceiling away");
    let low = fleet.denial(&approved("/b", "4 CHG0001"));
    assert!(low.contains("its approval is for 4 only"), "{low}");
    assert!(!fleet.kubectl.field("clusterclass/base", ".spec.patches").contains("/b"), "denied edits are not stored");
    assert!(fleet.warnings(&approved("/b", "5 CHG0001"))[0].starts_with("replaces 5 machines"));

    // The approval is there from now on, and approves nothing more.
    let old = "its approval is that of an earlier edit";
    assert!(fleet.denial(&approved("/c", "5 CHG0001")).contains(old));
    assert!(fleet.denial(&limited(with_files("/c"))).contains("to approve it"), "removed in the same edit");
    assert!(fleet.warnings(&approved("/c", "5 CHG0002"))[0].starts_with("replaces 5 machines"));

    // Taking the edit back replaces the machines again.
    assert!(fleet.denial(&approved("/b", "5 CHG0002")).contains(old));
    assert!(fleet.denial(&limited(with_files("/b"))).contains("to approve it"));
    assert!(fleet.warnings(&approved("/b", "5 revert of CHG0002"))[0].starts_with("replaces 5 machines"));
    was_never_refused();
}

#[test]
fn clusters_and_templates_are_held_by_the_ceiling_of_their_class() {
    // DEC-53: one commit may edit the class as well, which its controller has not reconciled yet then.
    let fleet = Fleet::of(1, &annotated(class(), &[(CEILING, "0")]));
    let fewer = |text: &[(&str, &str)]| {
        let mut cluster = annotated(cluster("blue-0"), text);
        cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] = json!(1);
        cluster
    };
    let larger = |text: &[(&str, &str)]| annotated(machine_template("large"), text);
    let denied = fleet.denial(&larger(&[]));
    let want = fleet.named("set this annotation on DevMachineTemplate NS/worker in the same edit");
    assert!(denied.contains("replaces or removes 2 machines") && denied.contains(&want), "{denied}");
    assert!(fleet.warnings(&larger(&[(APPROVAL, "2")]))[0].starts_with("replaces 2 machines"));
    let denied = fleet.denial(&fewer(&[]));
    let want = fleet.named("set this annotation on Cluster NS/blue-0 in the same edit");
    assert!(denied.contains("replaces or removes 1 machine ") && denied.contains(&want), "{denied}");
    assert!(fleet.warnings(&fewer(&[(APPROVAL, "1")]))[0].starts_with("removes 1 machine"));
    was_never_refused();
}

#[test]
fn with_server_side_apply_an_approval_belongs_to_the_manager_that_gave_it() {
    // DEC-53, with --max-replaced-machines
    let fleet = Fleet::within(CAPPED.to_owned(), 1, &class());
    let apply = |manager: &str, object: &Value, more: &[&str]| {
        let manager = format!("--field-manager={manager}");
        fleet.kubectl.try_give(object, &[&["apply", "--server-side", &manager], more].concat())
    };
    let approved = |class: Value, text: &str| annotated(class, &[(APPROVAL, text)]);
    let approval =
        || fleet.kubectl.field("clusterclass/base", ".metadata.annotations.topologist\\.dev/approved-impact");
    // The second process is asked as well from some moment on.
    let dry_run = || apply("platform", &with_files("/a"), &["--force-conflicts", "--dry-run=server"]);
    let denial = || Some(dry_run()).filter(|output| output.code != 0);
    let fact = "the process with the ceiling is called";
    let denied = wait::until_some(fact, SOON, denial, || format!("{:#?}", dry_run()));
    assert!(denied.err.contains("more than the 4 of --max-replaced-machines"), "{denied:#?}");

    apply("platform", &approved(with_files("/a"), "5 CHG0001"), &["--force-conflicts"]).unwrap();
    // Another manager: without a change of machines, it does not take the approval away.
    let mut patient = with_files("/a");
    patient["spec"]["workers"]["machineDeployments"][0]["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
    apply("team", &patient, &["--force-conflicts"]).unwrap();
    assert_eq!(approval(), "5 CHG0001");
    // With one, the approval of the first does not count.
    let denied = apply("team", &with_files("/b"), &["--force-conflicts"]);
    assert!(denied.code != 0 && denied.err.contains("its approval is that of an earlier edit"), "{denied:#?}");
    // Its own is a conflict first.
    let conflict = apply("team", &approved(with_files("/b"), "5 CHG0002"), &[]);
    assert!(conflict.code != 0 && conflict.err.contains("conflicts with \"platform\""), "{conflict:#?}");
    let printed = warnings(&apply("team", &approved(with_files("/b"), "5 CHG0002"), &["--force-conflicts"]));
    assert_eq!(
        (printed[0].starts_with("replaces 5 machines"), approval()),
        (true, "5 CHG0002".to_owned()),
        "{printed:?}"
    );
    was_never_refused();
}

/// A review of an edit, as kube-apiserver sends it.
fn review(kubectl: &Kubectl, old: &Value, new: &Value) -> String {
    let within = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(kubectl.namespace);
        object
    };
    let (group, version) = new["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let old = if old.is_null() { Value::Null } else { within(old) };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": group, "version": version, "kind": new["kind"]}, "name": new["metadata"]["name"],
        "namespace": kubectl.namespace, "operation": if old.is_null() { "CREATE" } else { "UPDATE" }, "dryRun": true,
        "object": within(new), "oldObject": old,
    }})
    .to_string()
}

/// The first warning about an edit that is allowed.
async fn first_warning(connection: &mut Connection, path: &str, review: &str) -> String {
    let (code, body) = connection.post(&format!("{path}?timeout=30s"), review.to_owned()).await.unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code.as_u16(), &answer["response"]["allowed"]), (200, &json!(true)), "{answer}");
    answer["response"]["warnings"][0].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_hundred_reviews_of_edits_send_no_request() {
    // DEC-57: everything that the process sends passes a proxy, which counts.
    let fleet = Fleet::of(3, &class());
    let (installation, folder) = (installation(), tempfile::tempdir().unwrap());
    let mut fewer = cluster("blue-0");
    fewer["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] = json!(1);
    let class_path = "/validate-cluster-x-k8s-io-v1beta2-clusterclass";
    let cluster_path = "/validate-cluster-x-k8s-io-v1beta2-cluster";
    let edits = [
        (class_path, class(), with_file("/a"), "replaces 9 machines in 3 of 3 Clusters"),
        ("/validate-templates", machine_template("small"), machine_template("large"), "replaces 6 machines in 3 of 3"),
        (cluster_path, cluster("blue-0"), fewer, "removes 1 machine in 1 of 1 Cluster"),
        (cluster_path, Value::Null, cluster("green"), ""),
    ];
    runtime().block_on(async {
        let account = installation.kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let proxy = Faulty::start(&account, folder.path()).await;
        let kubeconfig = proxy.kubeconfig.display().to_string();
        let [cert, key] = ["tls.crt", "tls.key"].map(|name| installation.certificates.join(name).display().to_string());
        let topologist = Topologist::serve(&[
            "--kubeconfig",
            &kubeconfig,
            "--tls-cert",
            &cert,
            "--tls-key",
            &key,
            "--impact-time",
            "20s",
            "--watch-templates",
        ]);
        topologist.wait_until_ready();
        let authority = std::fs::read(installation.certificates.join("ca.crt")).unwrap();
        let mut connection = Connection::open(&topologist.webhook, &authority, Protocol::Http2).await.unwrap();
        // Watches begin, and schemas are read.
        let (deadline, mut quiet) = (Instant::now() + SOON, 0);
        while quiet < 20 {
            let before = proxy.requests();
            tokio::time::sleep(Duration::from_millis(50)).await;
            let warning =
                first_warning(&mut connection, class_path, &review(&fleet.kubectl, &edits[0].1, &edits[0].2)).await;
            quiet = if proxy.requests() == before && warning.starts_with(edits[0].3) { quiet + 1 } else { 0 };
            assert!(Instant::now() < deadline, "{warning}: {}", topologist.log_text());
        }
        let reads = || {
            let (_, metrics) = topologist.admin_get("/metrics");
            metrics.lines().filter(|line| line.starts_with("topologist_live_reads_total")).collect::<Vec<_>>().join(" ")
        };
        let before = (proxy.requests(), reads());
        for _ in 0..25 {
            for (path, old, new, want) in &edits {
                let warning = first_warning(&mut connection, path, &review(&fleet.kubectl, old, new)).await;
                assert!(warning.starts_with(want), "{warning}");
            }
        }
        assert_eq!((proxy.requests(), reads()), before);
    });
    was_never_refused();
}
