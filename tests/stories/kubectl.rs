//! The embedded API as people use it: with kubectl, over HTTPS, from the binary.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::kubectl::{Kubectl, Outcome};
use crate::harness::kubectl_stories::{self, Watch, words};
use crate::harness::server::Topologist;
use crate::harness::wait;

/// A server with its kubectl.
struct Served {
    topologist: Topologist,
    kubectl: Kubectl,
    folder: tempfile::TempDir,
}

fn quick_start() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start")
}

/// A server on the objects of the quick start. Its controllers rest, so that nobody writes but the test.
fn serve() -> Served {
    serve_with(&[])
}

fn serve_with(more: &[&str]) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let (state, load) = (folder.path().join("state"), quick_start());
    let (state_text, load) = (state.display().to_string(), load.display().to_string());
    let arguments = ["--embedded", "--controllers=none", "--load", &load, "--state-dir", &state_text];
    let topologist = Topologist::serve(&[&arguments[..], more].concat());
    topologist.wait_until_ready();
    Served { topologist, kubectl: Kubectl::new(state.join("kubeconfig")), folder }
}

/// A server that also knows gadgets.
fn serve_gadgets() -> Served {
    let served = serve();
    served.give(&kubectl_stories::gadgets(), &["create"]);
    served.out(&["wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=20s"]);
    served
}

impl Deref for Served {
    type Target = Kubectl;

    fn deref(&self) -> &Kubectl {
        &self.kubectl
    }
}

kubectl_stories::stories!(serve_gadgets);

#[test]
fn own_kinds_can_be_listed_explained_and_described() {
    let kubectl = serve();
    let clusters = kubectl.out(&["get", "clusters", "-A"]);
    let header: Vec<&str> = words(&clusters)[0].clone();
    assert_eq!(header[..5], ["NAMESPACE", "NAME", "CLUSTERCLASS", "AVAILABLE", "CP"], "{clusters}");
    assert_eq!(words(&clusters)[1][..3], ["default", "demo", "quick-start"], "{clusters}");
    assert_eq!(words(&clusters)[1].last(), Some(&"v1.33.0"), "{clusters}");
    for (kind, columns) in [
        ("namespaces", "NAME STATUS AGE"),
        ("customresourcedefinitions", "NAME CREATED AT"),
        ("leases -A", "NAMESPACE NAME HOLDER AGE"),
    ] {
        let arguments: Vec<&str> = ["get"].into_iter().chain(kind.split(' ')).collect();
        let table = kubectl.out(&arguments);
        let header: Vec<&str> = columns.split(' ').collect();
        assert!(table.is_empty() || words(&table)[0] == header, "{table}");
    }
    let explained = kubectl.out(&["explain", "cluster.spec.topology"]);
    for part in ["VERSION:    v1beta2", "classRef\t<Object> -required-", "variables\t<[]Object>"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    for version in ["v1beta2", "v1beta1"] {
        let of = format!("--api-version=cluster.x-k8s.io/{version}");
        let explained = kubectl.out(&["explain", "cluster.spec.topology.version", &of]);
        assert!(explained.contains("The Kubernetes version of the cluster."), "{explained}");
    }
    let older =
        kubectl.out(&["explain", "cluster.spec.topology", "--api-version=cluster.x-k8s.io/v1beta1", "--recursive"]);
    assert!(older.contains("class\t<string> -required-") && older.contains("machineDeployments"), "{older}");
    for kind in
        ["namespace/default", "secret", "cluster/demo", "clusterclass/quick-start", "crd/clusters.cluster.x-k8s.io"]
    {
        kubectl.out(&["describe", kind]);
    }
    let resources = kubectl.out(&["api-resources", "--no-headers"]);
    let clusters = ["clusters", "cl", "cluster.x-k8s.io/v1beta2", "true", "Cluster"];
    assert!(words(&resources).iter().any(|row| *row == clusters), "{resources}");
    assert!(kubectl.out(&["api-versions"]).contains("cluster.x-k8s.io/v1beta1\n"));
}

#[test]
fn cluster_info_prints_where_the_control_plane_is() {
    let served = serve();
    let text = served.out(&["cluster-info"]);
    assert!(text.contains("Kubernetes control plane") && text.contains(&served.topologist.api), "{text}");
    assert_eq!(served.out(&["get", "services", "-A", "-o", "name"]), "");
}

#[test]
fn an_object_of_a_kind_that_is_not_served_gets_the_usual_error() {
    let served = serve();
    for (version, kind) in [("example.com/v1", "Toy"), ("cluster.x-k8s.io/v1beta2", "Toy"), ("v1", "Pod")] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        for command in ["create", "apply"] {
            let outcome = served.try_give(&object, &[command]);
            let want = format!("no matches for kind \"{kind}\" in version \"{version}\"");
            assert!(outcome.code != 0 && outcome.err.contains(&want), "{command}: {outcome:?}");
        }
    }
}

#[test]
fn the_kubeconfig_allows_everything() {
    let kubectl = serve();
    assert_eq!(kubectl.out(&["auth", "can-i", "delete", "clusters"]), "yes\n");
    assert_eq!(kubectl.out(&["auth", "can-i", "get", "/metrics"]), "yes\n");
    assert!(kubectl.out(&["auth", "can-i", "--list"]).contains("*.*"));
    assert!(kubectl.out(&["auth", "whoami"]).contains("topologist"));
}

#[test]
fn a_namespace_is_deleted_with_its_objects() {
    let kubectl = serve();
    kubectl.out(&["create", "namespace", "n"]);
    kubectl.out(&["create", "configmap", "m", "-n", "n", "--from-literal=a=1"]);
    kubectl.out(&["delete", "namespace", "n", "--timeout=20s"]);
    assert!(kubectl.err(&["get", "configmap", "m", "-n", "n"]).contains("not found"));
}

#[test]
fn a_cluster_that_breaks_a_rule_is_denied_with_the_words_of_the_rule() {
    let served = serve();
    let kubectl = &served.kubectl;
    let file = quick_start().join("cluster.yaml");
    let cluster: Value =
        serde_json::from_str(&kubectl.out(&["create", "--dry-run=client", "-o", "json", "-f", file.to_str().unwrap()]))
            .unwrap();
    let with = |name: &str, version: &str| {
        let mut cluster = cluster.clone();
        cluster["metadata"]["name"] = json!(name);
        cluster["spec"]["topology"]["version"] = json!(version);
        cluster
    };
    let denied = served.try_give(&with("other", "v1.35.0"), &["apply"]);
    for part in [
        "The Cluster \"other\" is invalid: spec.topology.version: Invalid value: \"v1.35.0\"",
        "ClusterClass default/quick-start offers v1.32.0, v1.32.9, v1.33.0, v1.33.5, v1.34.0, v1.34.2",
    ] {
        assert!(denied.err.contains(part), "{part}: {denied:?}");
    }
    let mut without_class = with("third", "v1.33.0");
    without_class["spec"]["topology"]["classRef"]["name"] = json!("absent");
    let warned = served.try_give(&without_class, &["apply", "--dry-run=server"]);
    assert!(warned.err.contains("Warning: ") && warned.err.contains("default/absent does not exist"), "{warned:?}");

    served.give(&with("other", "1.33.0"), &["apply"]);
    assert_eq!(served.field("cluster/other", ".spec.topology.version"), "v1.33.0", "defaults are filled in");
    assert_eq!(
        served.field("cluster/other", ".spec.topology.variables[?(@.name==\"imageRepository\")].value"),
        "docker.io/kindest"
    );

    // What was just created is known: the class is in use.
    kubectl.out(&["delete", "cluster", "demo"]);
    let denied = kubectl.err(&["delete", "clusterclass", "quick-start"]);
    let why = "admission webhook \"validation.clusterclass.topologist.dev\" denied the request: ClusterClass \
               default/quick-start cannot be deleted because it is used by default/other";
    assert!(denied.contains(why), "{denied}");
    kubectl.out(&["delete", "cluster", "other"]);
    let gone = kubectl.run(&["delete", "clusterclass", "quick-start"]);
    assert_eq!(gone.code, 0, "{gone:?}");
}

/// What a terminal shows in a document, from a command on: its lines, and what is warnings.
fn shown(document: &str, command: &str) -> (String, String) {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
    let (_, rest) = text.split_once(&format!("\n$ {command}")).unwrap_or_else(|| panic!("{command} is in {document}"));
    let (line, rest) = rest.split_once('\n').unwrap();
    let warnings = rest.split("```").next().unwrap().split("\n$ ").next().unwrap();
    (format!("{command}{line}"), warnings.to_owned())
}

#[test]
fn the_examples_for_newcomers_say_what_happens() {
    let served = serve();
    let sh = |line: &str| {
        let (program, arguments) = line.split_once(' ').unwrap();
        assert_eq!(program, "kubectl");
        // kubectl with its arguments, which a shell takes apart.
        let kubectl = served.kubectl.command(&[]);
        let start: Vec<String> = [kubectl.get_program()]
            .into_iter()
            .chain(kubectl.get_args())
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        let mut shell = std::process::Command::new("bash");
        shell.arg("-c").arg(format!("\"$0\" \"$@\" {arguments}")).args(start);
        shell
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .envs(kubectl.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Outcome::of(shell)
    };
    let (line, warnings) =
        shown("README.md", "kubectl patch cluster demo --type=merge -p '{\"spec\":{\"topology\":{\"workers\"");
    assert_eq!(sh(&line).err, warnings);
    let announced = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/embedded.md")).unwrap();
    let lines: Vec<&str> = announced.lines().filter_map(|line| line.strip_prefix("  kubectl ")).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        sh(&format!("kubectl {line}")).unwrap();
    }
}

#[test]
fn a_service_is_created_from_a_file_and_not_from_protobuf() {
    let served = serve();
    let create = ["create", "service", "clusterip", "web", "--tcp=80"];
    let refused = served.err(&create);
    assert!(refused.contains("the body of the request was in an unknown format"), "{refused}");
    let file = served.out(&[&create[..], &["--dry-run=client", "-o", "yaml"]].concat());
    assert_eq!(served.with_input(&file, &["create", "-f", "-"]).unwrap(), "service/web created\n");
}

#[test]
fn both_versions_of_a_cluster_are_served_and_kept_as_one() {
    let served = serve();
    let older = "clusters.v1beta1.cluster.x-k8s.io";
    let out = |path: &str| served.kubectl.out(&["get", older, "demo", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(out(".spec.topology.class"), "quick-start");
    assert_eq!(words(&served.kubectl.out(&["get", older]))[1][1], "quick-start");
    let written = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "older"},
        "spec": {"topology": {"class": "quick-start", "version": "v1.33.0",
            "controlPlane": {"replicas": 1, "nodeDrainTimeout": "5m0s"}}}});
    let applied = served.try_give(&written, &["apply", "--server-side"]);
    assert!(applied.err.contains("cluster.x-k8s.io/v1beta1 Cluster is deprecated"), "{applied:?}");
    applied.unwrap();
    assert_eq!(served.field("cluster/older", ".spec.topology.classRef.name"), "quick-start");
    assert_eq!(served.field("cluster/older", ".spec.topology.controlPlane.deletion.nodeDrainTimeoutSeconds"), "300");
    served.give(&written, &["apply", "--server-side"]);
    assert_eq!(served.field(&format!("{older}/older"), ".spec.topology.controlPlane.nodeDrainTimeout"), "5m0s");
    let mut odd = written;
    odd["spec"]["topology"]["controlPlane"]["nodeDrainTimeout"] = json!("soon");
    let refused = served.try_give(&odd, &["apply", "--server-side"]);
    assert!(refused.err.contains("nodeDrainTimeout") && refused.err.contains("soon"), "{refused:?}");
}

#[test]
fn requests_to_the_api_need_the_token_of_the_kubeconfig() {
    let served = serve();
    let path = served.folder.path().join("state/kubeconfig");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = served.kubectl.err(&["get", "namespaces", "--token=wrong"]);
    assert!(refused.contains("You must be logged in to the server"), "{refused}");
    let other = serve();
    let text = fs::read_to_string(&path).unwrap();
    let address = |served: &Served| format!("https://{}", served.topologist.api);
    assert!(text.contains(&address(&served)));
    fs::write(&path, text.replace(&address(&served), &address(&other))).unwrap();
    let refused = served.kubectl.err(&["get", "namespaces"]);
    assert!(refused.contains("certificate signed by unknown authority"), "{refused}");
}

#[test]
fn the_server_shuts_down_gracefully_with_open_watches() {
    let mut served = serve();
    let mut watch = Watch::start(&served.kubectl, &["get", "clusters", "-w", "--no-headers"]);
    assert!(watch.line().starts_with("demo"));
    served.topologist.signal("INT");
    assert_eq!(served.topologist.wait().code(), Some(0));
    let log = served.topologist.log_text();
    assert!(log.contains("Stopped") && !log.contains("Closing connections that did not drain in time"), "{log}");
}

#[test]
fn new_and_changed_clusters_print_which_fields_would_be_refused_and_by_which_patch() {
    // DEC-32
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/definitions/docker.yaml");
    let served = serve_with(&["--impact-time=20s", "--load", &definitions.display().to_string()]);
    let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
        "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["default-worker"]}}});
    let at = "/spec/template/spec/backend/docker/extraMounts";
    let operation = json!({"op": "add", "path": at, "value": [{"containerPath": "/x", "hostPath": 5}]});
    let patch = json!({"name": "mounts", "definitions": [{"selector": selector, "jsonPatches": [operation]}]});
    let patch = json!([{"op": "add", "path": "/spec/patches/-", "value": patch}]).to_string();
    let edit = served.run(&["patch", "clusterclass", "quick-start", "--type=json", "-p", &patch]);
    assert_eq!(edit.code, 0, "{edit:#?}");
    let warning = "Warning: DevMachineTemplate ...backend.docker.extraMounts[0].hostPath (patch \"mounts\"): must be \
                   of type string, and is integer";
    let cluster = fs::read_to_string(quick_start().join("cluster.yaml")).unwrap();
    let second = cluster.replace("name: demo", "name: second");
    let scaled = cluster.replace("replicas: 2", "replicas: 3");
    for (case, object) in [("new", &second), ("changed", &scaled)] {
        for flags in [&["apply", "--dry-run=server", "-f", "-"][..], &["apply", "-f", "-"]] {
            let outcome = served.with_input(object, flags);
            let warnings =
                outcome.err.lines().filter(|line| line.starts_with("Warning: DevMachineTemplate")).collect::<Vec<_>>();
            assert_eq!((outcome.code, warnings), (0, vec![warning]), "{case}: {outcome:#?}");
        }
    }
}

#[test]
fn edits_print_how_many_machines_they_replace_and_a_ceiling_holds_them() {
    // DEC-42, DEC-53
    let served = serve_with(&["--impact-time=20s", "--max-replaced-machines=2"]);
    let file = |path: &str, approval: &str| {
        let template = json!({"spec": {"kubeadmConfigSpec": {"files": [{"path": path}]}}});
        let annotations = json!({"topologist.dev/approved-impact": approval});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"template": template}}).to_string();
        let edit = ["patch", "kubeadmcontrolplanetemplate", "quick-start-control-plane", "--type=merge", "-p", &patch];
        [served.run(&[&edit[..], &["--dry-run=server"]].concat()), served.run(&edit)]
    };
    for outcome in file("/a", "2 CHG0001") {
        let message = "this edit replaces or removes 3 machines in 1 of 1 Cluster, more than the 2 of \
                       --max-replaced-machines, and its approval is for 2 only";
        assert!(outcome.code != 0 && outcome.err.contains(message), "{outcome:#?}");
    }
    let warning = "Warning: replaces 3 machines in 1 of 1 Cluster (KubeadmControlPlaneTemplate \
                   default/quick-start-control-plane)";
    for outcome in file("/a", "3 CHG0001") {
        assert!(outcome.code == 0 && outcome.err.lines().any(|line| line == warning), "{outcome:#?}");
    }
    for outcome in file("/b", "3 CHG0001") {
        assert!(outcome.code != 0 && outcome.err.contains("its approval is that of an earlier edit"), "{outcome:#?}");
    }
    let scaled = |replicas: usize| {
        let at = "/spec/topology/workers/machineDeployments/0/replicas";
        let patch = json!([{"op": "replace", "path": at, "value": replicas}]).to_string();
        served.run(&["patch", "cluster", "demo", "--type=json", "-p", &patch])
    };
    let fewer = scaled(1);
    assert!(fewer.code == 0 && fewer.err.contains("Warning: removes 1 machine in 1 of 1 Cluster"), "{fewer:#?}");
    let more = scaled(3);
    assert!(more.code == 0 && !more.err.contains("machine"), "{more:#?}");
}

#[test]
fn a_scale_that_the_topology_undoes_is_warned_of() {
    // DEC-113
    let served = serve();
    let at = |path: &str| served.field("cluster/demo", &format!(".spec.topology.workers.machineDeployments[0].{path}"));
    let (name, replicas) = (at("name"), at("replicas"));
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": "demo",
        "topology.cluster.x-k8s.io/deployment-name": name,
        "topology.cluster.x-k8s.io/owned": "",
    });
    let deployment = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "set", "namespace": "default", "labels": labels},
        "spec": {
            "clusterName": "demo", "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "clusterName": "demo", "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate", "name": "worker",
                },
            }},
        },
    });
    served.give(&deployment, &["create"]);
    let warning = format!(
        "Warning: the replicas of MachineDeployment default/set will be {replicas} again, as the topology of Cluster \
         default/demo sets them: change spec.topology.workers.machineDeployments[{name}].replicas of the Cluster instead"
    );
    let scale = |replicas: usize| served.run(&["scale", "machinedeployment/set", &format!("--replicas={replicas}")]);
    // The watch of MachineDeployments needs a moment.
    let is_warned = || [7, 0].map(&scale).iter().all(|outcome| outcome.code == 0 && outcome.err.trim() == warning);
    wait::until("a scale is warned of", wait::SOON, is_warned, || format!("{:#?}", scale(8)));
    let same = scale(replicas.parse().unwrap());
    assert_eq!((same.code, &*same.err), (0, ""), "{same:#?}");
}

#[test]
fn kubectl_delete_of_a_class_and_its_templates_waits_for_their_clusters() {
    // DEC-110
    let served = serve();
    let file = |name: &str| quick_start().join(name).display().to_string();
    let (class, cluster, templates) = (file("class.yaml"), file("cluster.yaml"), file("templates.yaml"));
    let left = || {
        let kinds = "kubeadmconfigtemplates,kubeadmcontrolplanetemplates,devclustertemplates,devmachinetemplates,devmachinepooltemplates";
        served.out(&["get", kinds, "-o", "name"]).lines().count()
    };
    let denied = served.err(&["delete", "-f", &templates, "-f", &class]);
    assert!(
        denied.contains(
            "quick-start-cluster cannot be deleted because it is used by ClusterClass default/quick-start (1 Cluster)"
        ),
        "{denied}"
    );
    assert_eq!((denied.matches("delete-template-in-use").count(), left()), (7, 7), "{denied}");

    served.out(&[
        "annotate",
        "kubeadmconfigtemplate",
        "quick-start-pool-bootstrap",
        "unsafe.topologist.dev/delete-template-in-use=",
    ]);
    served.out(&["delete", "kubeadmconfigtemplate", "quick-start-pool-bootstrap"]);
    assert_eq!(left(), 6);

    // A Cluster that is being deleted holds nothing but its class.
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}}).to_string();
    served.out(&["patch", "cluster", "demo", "--type=merge", "-p", &hold(json!(["example.com/hold"]))]);
    let denied =
        served.err(&["delete", "--wait=false", "-f", &cluster, "-f", &templates, "-f", &class, "--ignore-not-found"]);
    assert!(
        denied.contains("ClusterClass default/quick-start cannot be deleted") && !denied.contains("Template"),
        "{denied}"
    );
    assert_eq!(left(), 0);
    served.out(&["patch", "cluster", "demo", "--type=merge", "-p", &hold(Value::Null)]);
    served.eventually(&["delete", "clusterclass", "quick-start"]);
}

#[test]
fn a_command_that_fails_shows_the_warnings_of_its_server() {
    let server = |address: &str, warning: &str| {
        let serving = json!({"message": "Serving", "api": address});
        let warned = json!({"level": "WARN", "message": warning});
        let mut command = Command::new("bash");
        command.args(["-c", &format!("echo '{warned}' >&2; echo '{serving}' >&2; exec sleep 60")]);
        Topologist::launch(command)
    };
    // Nothing listens there.
    let _servers = [server("127.0.0.1:1", "this is why"), server("127.0.0.1:2", "this is of another test")];
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let clusters = json!([{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]);
    let contexts = json!([{"name": "c", "context": {"cluster": "c", "user": "u"}}]);
    let config = json!({"apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts,
        "users": [{"name": "u", "user": {}}], "current-context": "c"});
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let kubectl = Kubectl::new(kubeconfig);
    let failed = std::panic::catch_unwind(|| kubectl.out(&["get", "pods"])).unwrap_err();
    let message = failed.downcast_ref::<String>().unwrap();
    assert!(message.contains("this is why") && !message.contains("another test"), "{message}");
}
