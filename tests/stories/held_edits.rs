//! Commands know the ceiling: edits that a server would hold have exit code 1, with the annotation to add.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::kubectl::Kubectl;
use crate::harness::server::{Topologist, command};

const CEILING: &str = "topologist.dev/max-replaced-machines";
const APPROVAL: &str = "topologist.dev/approved-impact";
const FILES: [&str; 3] = ["class.yaml", "cluster.yaml", "templates.yaml"];

fn quick_start() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start")
}

/// The objects of the quick start: a Cluster with 3 machines in the control plane, 2 workers and a pool of 1.
fn objects() -> Vec<Value> {
    let text = |name: &str| fs::read_to_string(quick_start().join(name)).unwrap();
    let of = |name: &&str| yaml::documents(&text(name)).into_iter().map(|document| document.unwrap().value).collect();
    FILES.iter().map(of).collect::<Vec<Vec<Value>>>().concat()
}

fn object<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> &'a mut Value {
    let is_it = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter_mut().find(is_it).unwrap()
}

/// A file for all machines of control planes: an edit of the template replaces three.
fn with_file(objects: &mut [Value], path: &str) {
    let template = object(objects, "KubeadmControlPlaneTemplate", "quick-start-control-plane");
    template["spec"]["template"]["spec"]["kubeadmConfigSpec"]["files"] = json!([{"path": path}]);
}

fn annotate(object: &mut Value, name: &str, value: &str) {
    object["metadata"]["annotations"][name] = json!(value);
}

/// Files before and after an edit.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(before: &[Value], after: &[Value]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, objects) in [("from.yaml", before), ("to.yaml", after)] {
            let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
            fs::write(folder.path().join(name), text).unwrap();
        }
        Files { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn plan(&self, flags: &[&str]) -> (i32, String) {
        run(&[&["plan", "--from", &self.path("from.yaml"), "--to", &self.path("to.yaml")], flags].concat())
    }

    fn validate(&self, flags: &[&str]) -> (i32, String) {
        run(&[&["validate", &self.path("to.yaml"), "--old", &self.path("from.yaml")], flags].concat())
    }

    /// The edits that a plan says are held.
    fn held(&self, flags: &[&str]) -> Value {
        let (_, text) = self.plan(&[flags, &["-o", "json"]].concat());
        serde_json::from_str::<Value>(&text).unwrap()["heldEdits"].clone()
    }
}

fn run(arguments: &[&str]) -> (i32, String) {
    let output = command(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

const TWO: &[&str] = &["--max-replaced-machines", "2"];
const HELD: &str = "will be held: 3 machines; add topologist.dev/approved-impact: \"3 <reason>\" to \
                    KubeadmControlPlaneTemplate default/quick-start-control-plane";
const DENIAL: &str =
    "this edit replaces or removes 3 machines in 1 of 1 Cluster, more than the 2 of --max-replaced-machines";

#[test]
fn a_plan_reports_which_edits_a_ceiling_holds_and_how_to_approve_them() {
    // DEC-53
    let (before, mut after) = (objects(), objects());
    with_file(&mut after, "/a");
    let files = Files::new(&before, &after);
    let (code, text) = files.plan(TWO);
    assert!(code == 1 && text.starts_with(&format!("{HELD}\n")), "{code} {text}");
    assert!(text.contains("3 machines replaced; 1 edit held by a ceiling\n"), "{text}");
    assert!(text.ends_with("exit code 1: a ceiling holds the change\n"), "{text}");
    let (code, comment) = files.plan(&[TWO, &["-o", "markdown"]].concat());
    assert!(code == 1 && comment.contains("> will be held: 3 machines; add "), "{comment}");
    assert!(!comment.contains("<reason>"), "HTML in a comment: {comment}");
    let held = files.held(TWO);
    assert_eq!(
        (&held[0]["kind"], &held[0]["machines"], &held[0]["annotation"]),
        (&json!("KubeadmControlPlaneTemplate"), &json!(3), &json!(APPROVAL))
    );
    assert!(held[0]["message"].as_str().unwrap().starts_with(DENIAL), "{held}");

    for (case, flags) in [("no ceiling", &[][..]), ("below the ceiling", &["--max-replaced-machines", "3"])] {
        let (code, text) = files.plan(flags);
        assert!(code == 4 && !text.contains("held"), "{case}: {code} {text}");
        assert_eq!(files.held(flags), Value::Null, "{case}");
    }
    for (approval, code) in [("2 CHG0001", 1), ("3 CHG0001", 4)] {
        let mut approved = after.clone();
        let template = object(&mut approved, "KubeadmControlPlaneTemplate", "quick-start-control-plane");
        annotate(template, APPROVAL, approval);
        assert_eq!(Files::new(&before, &approved).plan(TWO).0, code, "{approval}");
    }
    assert_eq!(Files::new(&before, &before).plan(&["--max-replaced-machines", "0"]).0, 0, "nothing changes");
}

#[test]
fn the_ceiling_of_a_class_holds_its_edits_those_of_its_clusters_and_those_of_its_templates() {
    // DEC-53
    let mut before = objects();
    annotate(object(&mut before, "ClusterClass", "quick-start"), CEILING, "0");
    let mut after = before.clone();
    with_file(&mut after, "/a");
    let mut larger = object(&mut after, "DevMachineTemplate", "quick-start-worker-machine").clone();
    larger["metadata"]["name"] = json!("larger");
    larger["spec"]["template"]["spec"]["backend"]["docker"]["preLoadImages"] = json!(["larger"]);
    after.push(larger);
    let class = object(&mut after, "ClusterClass", "quick-start");
    class["spec"]["workers"]["machineDeployments"][0]["infrastructure"]["templateRef"]["name"] = json!("larger");
    // An edit that takes the ceiling away is held to it.
    class["metadata"].as_object_mut().unwrap().remove("annotations");
    let files = Files::new(&before, &after);
    let held = files.held(&[]);
    let reported: Vec<_> = held
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["kind"].as_str().unwrap(), one["machines"].as_i64().unwrap()))
        .collect();
    assert_eq!(reported, [("KubeadmControlPlaneTemplate", 3), ("ClusterClass", 2)], "{held}");
    assert!(
        held[1]["message"].as_str().unwrap().contains(&format!("more than the 0 in annotation {CEILING}")),
        "{held}"
    );
    assert_eq!(files.plan(&[]).0, 1);

    let mut fewer = before.clone();
    object(&mut fewer, "Cluster", "demo")["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] =
        json!(1);
    let (code, text) = Files::new(&before, &fewer).plan(&[]);
    let want = "will be held: 1 machine; add topologist.dev/approved-impact: \"1 <reason>\" to Cluster default/demo\n";
    assert!(code == 1 && text.starts_with(want), "{code} {text}");
}

#[test]
fn validate_denies_edits_that_a_ceiling_holds() {
    // DEC-53
    let (before, mut after) = (objects(), objects());
    with_file(&mut after, "/a");
    object(&mut after, "Cluster", "demo")["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] =
        json!(1);
    let files = Files::new(&before, &after);
    let (code, text) = files.validate(&["--max-replaced-machines", "0"]);
    for part in [
        "denied: update of Cluster default/demo, update of KubeadmControlPlaneTemplate default/quick-start-control-plane",
        "error[DEC-59]: Required value: this edit replaces or removes 3 machines",
        "note: metadata.annotations[topologist.dev/approved-impact] of KubeadmControlPlaneTemplate default/",
        "this edit replaces or removes 1 machine ",
    ] {
        assert!(code == 1 && text.contains(part), "{part}: {code} {text}");
    }
    let (code, text) = files.validate(&["--max-replaced-machines", "1"]);
    assert!(
        code == 1
            && text.contains("allowed: update of ClusterClass default/quick-start, update of Cluster default/demo\n"),
        "{code} {text}"
    );
    assert_eq!(files.validate(&[]).0, 0);
    assert_eq!(files.validate(&["--max-replaced-machines", "3"]).0, 0);
}

#[test]
fn a_plan_against_a_server_reports_what_the_server_reports() {
    // DEC-53
    let state = tempfile::tempdir().unwrap();
    let (folder, load) = (state.path().display().to_string(), quick_start().display().to_string());
    let own = ["--embedded", "--controllers=none", "--load", &load, "--state-dir", &folder, "--impact-time=20s"];
    let topologist = Topologist::serve(&[&own[..], TWO].concat());
    topologist.wait_until_ready();
    let kubeconfig = state.path().join("kubeconfig");
    let (before, mut after) = (objects(), objects());
    with_file(&mut after, "/a");
    let files = Files::new(&before, &after);
    let (kubeconfig_text, to) = (kubeconfig.display().to_string(), files.path("to.yaml"));
    let live = ["plan", "--live", "--kubeconfig", &kubeconfig_text, "--to", &to];
    let (code, text) = run(&[&live[..], TWO].concat());
    assert!(code == 1 && text.contains(HELD), "{code} {text}");
    let (_, text) = run(&[&live[..], TWO, &["-o", "json"]].concat());
    let plan: Value = serde_json::from_str(&text).unwrap();
    let denied = Kubectl::new(kubeconfig).err(&["apply", "--dry-run=server", "-f", &to]);
    let message = plan["heldEdits"][0]["message"].as_str().unwrap();
    assert!(message.starts_with(DENIAL) && denied.contains(message), "{message}: {denied}");
}
