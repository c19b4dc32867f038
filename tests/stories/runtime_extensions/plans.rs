//! `plan --live` with the extensions of the cluster.

use std::path::Path;

use serde_json::{Value, json};

use super::Site;
use crate::harness::extension::{Reply, patched};
use crate::harness::server::command;
use crate::machines::server::{cluster, workers};

const CONFIG: &str = "spec.template.spec.bootstrap.configRef";

/// The plan of a file against the server: exit code, the plan, and standard error.
fn plan(site: &Site, file: &Path, more: &[&str]) -> (i32, Value, String) {
    let kubeconfig = site.server.kubeconfig.display().to_string();
    let to = file.display().to_string();
    let arguments = [&["plan", "--live", "--kubeconfig", &kubeconfig, "--to", &to, "-o", "json"], more].concat();
    let output = command(&arguments).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let plan = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
    (output.status.code().unwrap(), plan, err)
}

#[test]
fn a_live_plan_asks_the_extensions_of_the_cluster() {
    // RH-3.8
    let mut site = Site::start();
    site.lab.on("GeneratePatches", "generate", |request| {
        let place = request["settings"]["place"].clone();
        patched(request, CONFIG, "format", &if place == "cellar" { json!("cloud-config") } else { json!("ignition") })
    });
    site.lab.on("BeforeClusterUpgrade", "gate", |_| Reply::done());
    site.register(&json!({}));
    site.patch_class(&[(
        "remote",
        json!({"generatePatchesExtension": "generate.lab", "settings": {"place": "cellar"}}),
    )]);
    site.server.run_cluster(&cluster(1, &json!([workers("a", 2)]), &json!([])));
    // Requests hold the annotations of the Cluster, and those of a replay have to be the recorded ones.
    site.server.until("no hook is pending", || {
        site.cluster()["metadata"]["annotations"]["runtime.cluster.x-k8s.io/pending-hooks"].is_null()
    });
    let mut class = site.class();
    class["spec"]["patches"].as_array_mut().unwrap().last_mut().unwrap()["external"]["settings"]["place"] =
        json!("attic");
    class["metadata"] = json!({"name": "swift", "namespace": "default"});
    class.as_object_mut().unwrap().remove("status");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("class.json");
    std::fs::write(&file, class.to_string()).unwrap();
    let record = folder.path().join("lab.json").display().to_string();
    let (code, live, err) = plan(&site, &file, &["--record", &record]);
    assert_eq!((code, &live["complete"]), (4, &json!(true)), "{live:#}{err}");
    assert_eq!(live["summary"]["machines"]["replaced"], 2, "{live:#}");
    let hooks = "ExtensionConfig lab: lifecycle hooks are not called, and are assumed to pass";
    assert!(live["warnings"].to_string().contains(hooks), "{}", live["warnings"]);
    let kubeconfig = site.server.kubeconfig.display().to_string();
    let simulated = command(&["simulate", "--live", "--kubeconfig", &kubeconfig]).output().unwrap();
    let out = String::from_utf8(simulated.stdout).unwrap();
    assert!(
        simulated.status.success() && out.starts_with("1 Cluster: nothing is left to do"),
        "it is not among its own objects: {out}"
    );
    site.lab.stop();
    let (_, offline, _) = plan(&site, &file, &[]);
    assert_eq!(offline["complete"], false, "{offline:#}");
    let reason =
        "GeneratePatches of generate.lab for Cluster default/demo: no --extension lab=URL|FILE: ExtensionConfig lab: ";
    assert!(offline["warnings"].to_string().contains(reason), "{}", offline["warnings"]);
    let recorded = format!("lab={record}");
    let (code, replayed, _) = plan(&site, &file, &["--extension", &recorded]);
    assert_eq!((code, &replayed["summary"]), (4, &live["summary"]), "the flag takes precedence: {replayed:#}");
    let unregistered = json!({"status": {"conditions": [{"type": "Discovered", "status": "False",
        "reason": "NotDiscovered",
        "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}]}});
    site.server.merge_status("extensionconfig/lab", &unregistered["status"]);
    let (_, undiscovered, _) = plan(&site, &file, &[]);
    assert!(
        undiscovered["warnings"].to_string().contains("it has not been discovered"),
        "{}",
        undiscovered["warnings"]
    );
}

#[test]
fn a_live_plan_follows_namespace_selectors() {
    // RH-7.2, RH-8.1, HK-25
    let site = Site::start();
    site.lab.on("GeneratePatches", "generate", |request| patched(request, CONFIG, "format", &json!("ignition")));
    site.lab.on("BeforeClusterUpgrade", "gate", |_| Reply::wait(600, "the window is closed"));
    site.server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    site.register(&json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}));
    let mut class = site.class();
    class["metadata"] = json!({"name": "swift", "namespace": "default"});
    class.as_object_mut().unwrap().remove("status");
    let own = class["spec"]["patches"].clone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("to.json");
    class["spec"]["patches"].as_array_mut().unwrap().push(json!({"name": "remote",
        "external": {"generatePatchesExtension": "generate.lab"}}));
    std::fs::write(&file, class.to_string()).unwrap();
    let (code, refused, _) = plan(&site, &file, &[]);
    let words = "the namespaceSelector of its ExtensionConfig does not select the namespace";
    assert!(code == 1 && refused.to_string().contains(words), "{code} {refused:#}");
    class["spec"]["patches"] = own;
    let mut demo = site.cluster();
    demo["metadata"] = json!({"name": "demo", "namespace": "default"});
    demo["spec"]["topology"]["version"] = json!("v1.33.0");
    demo.as_object_mut().unwrap().remove("status");
    std::fs::write(&file, demo.to_string()).unwrap();
    let (code, unheld, err) = plan(&site, &file, &["--call-hooks"]);
    assert_eq!((code, site.lab.count("gate")), (4, 0), "the hook is not for this namespace: {unheld:#}{err}");
    site.server.kubectl.out(&["label", "namespace/default", "env=prod"]);
    let (_, held, err) = plan(&site, &file, &["--call-hooks"]);
    assert!(held.to_string().contains("BeforeClusterUpgrade: the window is closed"), "{held:#}{err}");
    // RH-3.8
    site.server.kubectl.out(&["annotate", "extensionconfig/lab", "cluster.x-k8s.io/paused="]);
    let (_, unheld, err) = plan(&site, &file, &["--call-hooks"]);
    assert!(!unheld.to_string().contains("the window is closed"), "{unheld:#}{err}");
}

#[test]
fn a_live_plan_compares_two_versions_of_an_extension() {
    // RH-3.8
    let site = Site::start();
    site.lab.on("GeneratePatches", "generate", |request| patched(request, CONFIG, "format", &json!("cloud-config")));
    site.register(&json!({}));
    site.patch_class(&[("remote", json!({"generatePatchesExtension": "generate.lab"}))]);
    site.server.run_cluster(&cluster(1, &json!([workers("a", 2)]), &json!([])));
    let next = crate::harness::extension::TestExtension::start();
    next.on("GeneratePatches", "generate", |request| patched(request, CONFIG, "format", &json!("ignition")));
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, [&*site.lab.ca, &*next.ca].concat()).unwrap();
    let file = folder.path().join("class.json");
    let mut class = site.class();
    class["metadata"] = json!({"name": "swift", "namespace": "default"});
    class.as_object_mut().unwrap().remove("status");
    std::fs::write(&file, class.to_string()).unwrap();
    let [old, new] = [&site.lab, &next].map(|lab| format!("lab={}", lab.url()));
    let ca = ca.display().to_string();
    let sides = |to: &str| plan(&site, &file, &["--extension-from", &old, "--extension-to", to, "--extension-ca", &ca]);
    assert_eq!(sides(&old).0, 0);
    let (code, changed, err) = sides(&new);
    assert_eq!((code, &changed["summary"]["machines"]["replaced"]), (4, &json!(2)), "{changed:#}{err}");
}
