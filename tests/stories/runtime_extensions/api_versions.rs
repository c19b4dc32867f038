//! A provider serves a new version of its kinds: both ways that the guide for authors describes, in which no step
//! replaces machines unless content changes.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Site;
use crate::harness::extension::{Reply, TestExtension};
use crate::harness::server::command;
use crate::machines::server::{cluster, condition, deployment, name, workers};

const OLD: &str = "v1alpha1";
const NEW: &str = "v1beta1";

/// An extension that sets how long volumes may take, which has another place in each version, and the format of
/// bootstrap data. It refuses kinds that it patches in a version that it does not know.
fn knowing(versions: &'static [&'static str], format: &'static str) -> impl Fn(&Value) -> Reply + Send + 'static {
    move |request| {
        let mut patches = Vec::new();
        for item in request["items"].as_array().unwrap() {
            let object = &item["object"];
            let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
            let spec = match object["kind"].as_str().unwrap() {
                "EmbeddedConfigTemplate" => json!({"format": format}),
                "EmbeddedControlPlaneTemplate" if version == OLD => {
                    json!({"machineTemplate": {"nodeVolumeDetachTimeout": "75s"}})
                }
                "EmbeddedControlPlaneTemplate" => {
                    json!({"machineTemplate": {"spec": {"deletion": {"nodeVolumeDetachTimeoutSeconds": 75}}}})
                }
                _ => continue,
            };
            if !versions.contains(&version) {
                return Reply::failure(&format!("{version} is not known"));
            }
            let patch = STANDARD.encode(json!({"spec": {"template": {"spec": spec}}}).to_string());
            patches.push(json!({"uid": item["uid"], "patchType": "JSONMergePatch", "patch": patch}));
        }
        Reply::success(json!({"items": patches}))
    }
}

/// The extension, registered by this name.
fn register(site: &Site, lab: &TestExtension, name: &str) {
    site.server.kubectl.give(&lab.config(name, &json!({})), &["create"]);
    site.server.wait(&format!("extensionconfig/{name}"), "condition=Discovered");
}

fn class(site: &Site) -> Value {
    serde_json::from_str(&site.server.kubectl.out(&["get", "clusterclass/older", "-o", "json"])).unwrap()
}

/// The class with its references in a version and the patch of an extension.
fn class_in(site: &Site, version: &str, extension: &str) -> Value {
    let text = class(site).to_string().replace(&format!("topologist.dev/{OLD}"), &format!("topologist.dev/{version}"));
    let mut class: Value = serde_json::from_str(&text).unwrap();
    let external = json!({"generatePatchesExtension": format!("generate.{extension}")});
    class["spec"]["patches"] = json!([{"name": "remote", "external": external}]);
    class["metadata"] = json!({"name": "older", "namespace": "default"});
    class.as_object_mut().unwrap().remove("status");
    class
}

/// What `plan --live` says about an edit of the class: the exit code and the plan.
fn planned(site: &Site, class: &Value) -> (i32, Value) {
    let (folder, kubeconfig) = (tempfile::tempdir().unwrap(), site.server.kubeconfig.display().to_string());
    let file = folder.path().join("class.json");
    std::fs::write(&file, class.to_string()).unwrap();
    let to = file.display().to_string();
    let output = command(&["plan", "--live", "--kubeconfig", &kubeconfig, "--to", &to, "-o", "json"]).output().unwrap();
    let plan: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), plan)
}

/// The plan of an edit of the class is complete, and has nothing to do.
#[track_caller]
fn replaces_nothing(site: &Site, class: &Value) {
    let (code, plan) = planned(site, class);
    let seen = (code, &plan["summary"]["machines"]["replaced"], &plan["complete"]);
    assert_eq!(seen, (0, &json!(0), &json!(true)), "{plan:#}");
}

/// Everything that a change of content would replace, rotate or edit.
const PARTS: &str = "machines,machinesets,machinedeployments,embeddedclusters,embeddedcontrolplanes,embeddedmachines,\
    embeddedmachinetemplates,embeddedconfigtemplates";

/// These objects by their uid, with how often their specs have been changed.
fn parts(site: &Site) -> BTreeSet<(String, String, u64)> {
    let metadata = site.server.list(PARTS).into_iter().map(|mut one| one["metadata"].take());
    let part = |one: Value| {
        let [name, uid] = ["name", "uid"].map(|field| one[field].as_str().unwrap().to_owned());
        (name, uid, one["generation"].as_u64().unwrap())
    };
    metadata.map(part).collect()
}

/// Waits until the topology has been computed from the class as it is now, with templates of this version.
fn settled(site: &Site, lab: &TestExtension, version: &str) {
    let is_settled = || {
        let last = lab.requests_of("generate").pop();
        let in_version = last.is_some_and(|request| request.to_string().contains(&format!("topologist.dev/{version}")));
        let (class, cluster) = (class(site), site.cluster());
        in_version
            && class["status"]["observedGeneration"] == class["metadata"]["generation"]
            && condition(&cluster, "TopologyReconciled").0 == "True"
    };
    site.server.until(&format!("the topology has templates in {version}"), is_settled);
}

/// A label of the Cluster is a variable of the request, and of no object.
fn ask_again(site: &Site, lab: &TestExtension, round: &str) {
    let before = lab.count("generate");
    site.server.merge("cluster/demo", &json!({"metadata": {"labels": {"round": round}}}));
    site.server.until("the extension is asked again", || lab.count("generate") > before);
    site.server.wait("cluster/demo", "condition=TopologyReconciled");
}

/// A Cluster whose class names the old version and an extension that knows it.
fn site(name: &str) -> Site {
    let site = Site::start();
    site.lab.on("GeneratePatches", "generate", knowing(&[OLD], "ignition"));
    register(&site, &site.lab, name);
    site.server.merge("clusterclass/older", &json!({"spec": class_in(&site, OLD, name)["spec"]}));
    site.server.until("the class is reconciled", || {
        let class = class(&site);
        class["status"]["observedGeneration"] == class["metadata"]["generation"]
    });
    let mut demo = cluster(1, &json!([workers("a", 2)]), &json!([]));
    demo["spec"]["topology"]["classRef"]["name"] = json!("older");
    site.server.run_cluster(&demo);
    settled(&site, &site.lab, OLD);
    assert_eq!(detach(&site), 75);
    site
}

/// How long volumes of the control plane may take.
fn detach(site: &Site) -> Value {
    site.server.list("embeddedcontrolplanes")[0]["spec"]["machineTemplate"]["spec"]["deletion"]["nodeVolumeDetachTimeoutSeconds"]
        .clone()
}

/// A change of content replaces the workers, as the plan says: what did not happen before could have happened.
fn content_replaces_workers(site: &Site, lab: &TestExtension) {
    let of_workers = || -> BTreeSet<String> {
        let machines = site.server.list("machines");
        machines.iter().filter(|one| deployment(one) == "a").map(name).collect()
    };
    let before = of_workers();
    lab.on("GeneratePatches", "generate", knowing(&[NEW], "cloud-config"));
    ask_again(site, lab, "2");
    site.server.until("the workers are replaced", || {
        let now = of_workers();
        now.len() == 2 && now.is_disjoint(&before)
    });
}

#[test]
fn one_extension_for_both_versions() {
    // RH-10.9, PE-23
    let site = site("lab");
    let before = parts(&site);
    let moved = class_in(&site, NEW, "lab");
    // Too early: the extension does not know the new version, and says so. The plan shows it, and nothing is replaced.
    let (code, early) = planned(&site, &moved);
    let is_reported =
        early["clusters"][0]["errors"][0].as_str().is_some_and(|error| error.ends_with("v1beta1 is not known"));
    assert!(code == 1 && is_reported, "{code} {early:#}");
    site.lab.on("GeneratePatches", "generate", knowing(&[OLD, NEW], "ignition"));
    replaces_nothing(&site, &moved);
    assert_eq!(parts(&site), before, "the extension alone changes nothing");
    site.server.merge("clusterclass/older", &json!({"spec": moved["spec"]}));
    settled(&site, &site.lab, NEW);
    site.lab.on("GeneratePatches", "generate", knowing(&[NEW], "ignition"));
    ask_again(&site, &site.lab, "1");
    assert_eq!((parts(&site), detach(&site)), (before, json!(75)));
    content_replaces_workers(&site, &site.lab);
}

#[test]
fn an_extension_for_each_version() {
    // RH-2.8, RH-3.3, RH-10.9, PE-23
    let mut site = site("old");
    let before = parts(&site);
    let new = TestExtension::start();
    new.on("GeneratePatches", "generate", knowing(&[NEW], "ignition"));
    register(&site, &new, "new");
    assert_eq!(parts(&site), before, "an extension that no class names changes nothing");
    let moved = class_in(&site, NEW, "new");
    replaces_nothing(&site, &moved);
    site.server.merge("clusterclass/older", &json!({"spec": moved["spec"]}));
    settled(&site, &new, NEW);
    site.server.kubectl.out(&["delete", "extensionconfig/old"]);
    site.lab.stop();
    ask_again(&site, &new, "1");
    assert_eq!((parts(&site), detach(&site)), (before, json!(75)));
    content_replaces_workers(&site, &new);
}
