//! What `plan` says of changes to bundles of each provider's shape.
//!
//! `fixtures/plan/<bundle>/<change>/edit.yaml` lists what is changed in `fixtures/providers/<bundle>`, and `want.txt`
//! is what `plan` then exits with and prints. `GOLDEN=write cargo test --test stories plans` writes the latter, to be
//! read before it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use topologist::yaml;

use crate::harness::server::{command, without_not_checked};

/// A change of a text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    from: String,
    to: String,
    /// How often `from` is there.
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

fn fixtures(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

pub fn bundle(name: &str) -> String {
    fs::read_to_string(fixtures("providers").join(name).join("bundle.yaml")).unwrap()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn edited(text: &str, folder: &Path) -> String {
    let edits = fs::read_to_string(folder.join("edit.yaml")).unwrap();
    let edits: Vec<Edit> = serde_json::from_value(yaml::value(&edits).unwrap()).unwrap();
    edits.iter().fold(text.to_owned(), |text, Edit { from, to, times }| {
        assert_eq!(text.matches(from).count(), *times, "{}: {from:?}", folder.display());
        text.replace(from, to)
    })
}

/// The exit code of `plan`, and what it prints apart from what it did not check.
pub fn plan(before: &str, after: &str, flags: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.yaml"), folder.path().join("to.yaml"));
    fs::write(&from, before).unwrap();
    fs::write(&to, after).unwrap();
    let output = command(&["plan", "--from"]).arg(from).arg("--to").arg(&to).args(flags).output().unwrap();
    if flags.contains(&"json") && output.status.code() != Some(2) {
        // DEC-63
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let schema: Value = serde_json::from_str(include_str!("../../src/cli/format_schemas/plan.json")).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> =
            schema.iter_errors(&report).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert_eq!(faults, Vec::<String>::new(), "{report:#}");
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&to.display().to_string(), "to.yaml");
    (output.status.code().unwrap(), text(output.stdout) + &without_not_checked(&text(output.stderr)))
}

#[test]
fn plans_of_every_provider_shape_equal_their_golden_files() {
    let mut wrong = String::new();
    let mut count = 0;
    for of_bundle in folders(&fixtures("plan")) {
        let before = bundle(of_bundle.file_name().unwrap().to_str().unwrap());
        for folder in folders(&of_bundle) {
            count += 1;
            let (code, message) = plan(&before, &edited(&before, &folder), &[]);
            let message = format!("exit {code}\n{message}");
            let path = folder.join("want.txt");
            if std::env::var("GOLDEN").is_ok_and(|value| value == "write") {
                fs::write(&path, &message).unwrap();
            } else if fs::read_to_string(&path).unwrap_or_default() != message {
                wrong.push_str(&format!("{}:\n{message}\n", folder.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 30, "{count} changes");
}

/// The documents in the reverse of their order, as JSON, with a comment.
fn rewritten(bundle: &str) -> String {
    let documents: Vec<Value> = yaml::documents(bundle).into_iter().map(|document| document.unwrap().value).collect();
    documents.iter().rev().map(|document| format!("# a comment\n---\n{document:#}\n")).collect()
}

#[test]
fn how_files_are_written_changes_nothing() {
    for provider in ["aws", "azure", "docker", "in-memory", "vsphere"] {
        let before = bundle(provider);
        assert_eq!(plan(&before, &before, &[]), (0, "1 Cluster, nothing changes\n".to_owned()), "{provider}");
        let rewritten = rewritten(&before);
        assert_eq!(plan(&before, &rewritten, &[]), (0, "1 Cluster, nothing changes\n".to_owned()), "{provider}");
    }
}

#[test]
fn a_default_that_is_spelled_out_changes_nothing() {
    let before = bundle("docker");
    let variables = "    variables:\n    - name: balancerImages";
    let after =
        before.replace(variables, &variables.replace("s:\n", "s:\n    - {name: keepWorkloadsOff, value: true}\n"));
    assert_ne!(before, after);
    assert_eq!(plan(&before, &after, &[]), (0, "1 Cluster, nothing changes\n".to_owned()));
}

#[test]
fn a_plan_is_data() {
    let before = bundle("in-memory");
    let after =
        before.replace("replicas: 5", "replicas: 3").replace("startupDuration: \"15s\"", "startupDuration: \"16s\"");
    let (code, message) = plan(&before, &after, &["-o", "json"]);
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(code, 4);
    let cluster = &message["clusters"][0];
    assert_eq!((&cluster["namespace"], &cluster["name"]), (&"default".into(), &"memo".into()));
    let steps: Vec<_> = cluster["steps"].as_array().unwrap().iter().map(|step| &step["action"]).collect();
    assert_eq!(steps, ["apply", "rotate", "apply"]);
    let change = &cluster["steps"][1]["changes"][0];
    assert_eq!(change["path"], "spec.template.spec.backend.inMemory.vm.provisioning.startupDuration");
    assert_eq!((&change["from"], &change["to"]), (&"15s".into(), &"16s".into()));
    assert_eq!(change["because"], "DevMachineTemplate paper-clerk-machine");
    let roll = &cluster["rolls"][0];
    let numbers = |removed: i64, replaced: i64| {
        serde_json::json!({"replaced": replaced, "removed": removed, "added": 0,
        "outdatedUntilDeleted": 0, "atLeast": replaced})
    };
    assert_eq!((&roll["kind"], &roll["machines"]), (&"KubeadmControlPlane".into(), &numbers(2, 0)));
    let roll = &cluster["rolls"][1];
    assert_eq!(
        (&roll["kind"], &roll["machines"], &roll["certainty"]),
        (&"MachineDeployment".into(), &numbers(0, 4), &"assumed".into())
    );
    let summary = serde_json::json!({"clusters": 1, "changed": 1, "machines": numbers(2, 4), "deletedObjects": 0});
    assert_eq!(message["summary"], summary);
    assert_eq!((&message["complete"], &message["errors"]), (&true.into(), &serde_json::json!([])));
    let (_, markdown) = plan(&before, &after, &["-o", "markdown"]);
    assert!(markdown.starts_with("**1 of 1 Cluster changed: 4 machines replaced, 2 removed**\n"), "{markdown}");
    assert!(markdown.contains("| apply | KubeadmControlPlane memo-"), "{markdown}");
}

#[test]
fn a_deleted_cluster_deletes_all_its_objects() {
    let before = bundle("in-memory");
    let at = before.find("---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n").unwrap();
    let (code, message) = plan(&before, &before[..at], &[]);
    assert_eq!(code, 5);
    assert!(message.contains("delete Cluster memo: it is not among the new files"), "{message}");
    assert!(message.contains("delete MachineDeployment memo-front-desk-"), "{message}");
    assert!(
        message.starts_with("1 Cluster deleted: 0 machines replaced, 9 removed; ")
            && message.contains(" objects deleted\n"),
        "{message}"
    );
}

#[test]
fn a_change_that_would_be_denied_is_reported_as_denied() {
    let before = bundle("in-memory");
    let (code, message) = plan(&before, &before.replace("version: v1.34.1", "version: v1.33.1"), &[]);
    assert_eq!(code, 1);
    assert!(message.starts_with("denied: to.yaml:"), "{message}");
    assert!(message.contains("UPG-005"), "{message}");
    // What follows from the denial is no reason.
    let quick_start = |version: &str| {
        let files = ["class", "templates", "cluster"];
        let read = |name: &str| {
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/quick-start/{name}.yaml")))
                .unwrap()
        };
        files.map(read).join("\n---\n").replace("version: v1.33.0\n", &format!("version: {version}\n"))
    };
    let (_, jump) = plan(&quick_start("v1.33.0"), &quick_start("v1.36.0"), &[]);
    assert!(jump.contains("CL-V-055") && jump.contains("  error: not planned, because its edit is denied\n"), "{jump}");
    assert!(message.contains("; the change is denied\n"), "{message}");
}

#[test]
fn a_cluster_that_is_larger_than_its_schema_allows_is_not_computed() {
    // DEC-44: the API schema allows 2,000 sets of workers.
    let (small, sets) = (
        embedded(),
        "      machineDeployments:
",
    );
    let more: String =
        (0..5000).map(|number| format!("      - {{class: default-worker, name: s{number}}}\n")).collect();
    let pools = "      machinePools:\n";
    let more_pools: String =
        (0..5000).map(|number| format!("      - {{class: default-pool, name: p{number}}}\n")).collect();
    let large = small.replace(sets, &format!("{sets}{more}")).replace(pools, &format!("{pools}{more_pools}"));
    assert_eq!((small.matches(sets).count(), small.matches(pools).count()), (1, 1));
    for (before, after, side) in [(&small, &large, ""), (&large, &small, ", before the change")] {
        let (code, message) = plan(before, after, &[]);
        assert_eq!(code, 1, "{side}");
        assert!(message.len() < 10_000, "{} bytes", message.len());
        // Every field, as `validate` says.
        for field in ["machineDeployments", "machinePools"] {
            let named = |line: &str| line.contains(side) && line.contains(&format!("spec.topology.workers.{field}: "));
            assert!(
                message.lines().any(|line| named(line) && line.contains("must have at most 2000 items")),
                "{field}: {message}"
            );
        }
        assert!(message.contains("; the change is denied\n"), "{message}");
    }
}

#[test]
fn a_cluster_that_cannot_be_planned_has_an_error() {
    let before = bundle("in-memory");
    let without = before.replace("name: paper-clerk-machine\nspec:", "name: paper-clerk-other\nspec:");
    assert_ne!(before, without);
    let (code, message) = plan(&before, &without, &[]);
    assert_eq!(code, 1);
    let want = "error: the template DevMachineTemplate default/paper-clerk-machine was not found";
    assert!(message.contains(want) && message.contains("; 1 cannot be planned\n"), "{message}");
    let output = command(&["plan", "--from", "nowhere.yaml", "--to", "nowhere.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = command(&["plan", "--to", "nowhere.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn one_cluster_can_be_planned_alone() {
    let before = bundle("in-memory");
    let other = before[before.find("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n").unwrap()..]
        .replace("\"memo\"", "\"other\"");
    let before = format!("{before}\n---\n{other}");
    let after = before.replace("startupDuration: \"15s\"", "startupDuration: \"16s\"");
    let (_, message) = plan(&before, &after, &[]);
    assert!(message.starts_with("2 of 2 Clusters changed: 8 machines replaced\n"), "{message}");
    let (_, message) = plan(&before, &after, &["--cluster", "other"]);
    assert!(message.starts_with("1 of 1 Cluster changed: 4 machines replaced\n"), "{message}");
    let (code, message) = plan(&before, &after, &["--cluster", "nobody"]);
    assert_eq!(code, 2);
    assert!(message.contains("there is no Cluster default/nobody; there is default/memo, default/other"), "{message}");
}

#[test]
fn definitions_say_which_contract_a_control_plane_follows() {
    // DEC-17
    let definition = |contract: &str| {
        serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
                "labels": {format!("cluster.x-k8s.io/{contract}"): "v1beta2"}},
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let crds = folder.path().join("crds.yaml");
    for (contract, path) in [
        ("v1beta1", "/spec/machineTemplate/infrastructureRef/apiVersion"),
        ("v1beta2", "/spec/machineTemplate/spec/infrastructureRef/apiGroup"),
    ] {
        fs::write(&crds, definition(contract).to_string()).unwrap();
        let mut render = command(&["render", "fixtures/providers/in-memory", "-o", "json", "--crds"]);
        let output = render.arg(&crds).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let objects: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let control_plane = objects.iter().find(|object| object["kind"] == "KubeadmControlPlane").unwrap();
        assert!(control_plane.pointer(path).is_some(), "{contract}: {control_plane:#}");
    }
}

/// The definition of a control plane as it is in `config/crd/bases`: without the label of a contract.
fn unlabelled(versions: &[&str]) -> Value {
    let version = |name: &&str| {
        serde_json::json!({"name": name, "served": true, "storage": *name == versions[0],
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "annotations": {"a": "b"}},
        "spec": {"group": "controlplane.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "KubeadmControlPlane", "plural": "kubeadmcontrolplanes"},
            "versions": versions.iter().map(version).collect::<Vec<_>>()},
    })
}

#[test]
fn the_contract_of_a_definition_without_a_label_is_assumed() {
    // DEC-17
    let folder = tempfile::tempdir().unwrap();
    let crds = folder.path().join("crds.yaml");
    fs::write(&crds, unlabelled(&["v1beta2"]).to_string()).unwrap();
    let message = "CustomResourceDefinition kubeadmcontrolplanes.controlplane.cluster.x-k8s.io has no label cluster.x-k8s.io/<contract>: contract v1beta2 is assumed for version v1beta2\n";
    let render = |flags: &[&str]| {
        let mut render = command(&["render", "fixtures/providers/in-memory"]);
        let output = render.args(flags).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), without_not_checked(&text(output.stderr)))
    };
    let crds = crds.display().to_string();
    let (code, out, err) = render(&["--crds", &crds]);
    assert!(code == 0 && err.starts_with(&format!("warning[DEC-68]: {message}")), "{err}");
    assert_eq!(out, render(&[]).1, "as without the definition");
    let before = bundle("in-memory");
    let after = before.replace("startupDuration: \"15s\"", "startupDuration: \"16s\"");
    let (code, out) = plan(&before, &after, &["--crds", &crds]);
    assert!(code == 4 && out.contains(message), "{out}");
    // CS-08: on the cluster that this one was read from, its controller stops as well.
    let mut stored = unlabelled(&["v1beta2"]);
    stored["metadata"]["uid"] = "5a2c".into();
    fs::write(&crds, stored.to_string()).unwrap();
    let (code, out) = plan(&before, &after, &["--crds", &crds]);
    assert!(code == 1 && out.contains("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"), "{out}");
}

#[test]
fn variables_of_an_extension_are_not_known_in_files() {
    let extensions = "{generatePatchesExtension: generate.remote, discoverVariablesExtension: discover.remote}";
    let patches = format!("  patches:\n  - name: remote\n    external: {extensions}\n");
    let before = bundle("docker").replacen("\n  patches:\n", &format!("\n{patches}"), 1);
    let set = |value: &str| {
        let values = ["remoteSize, value: large".to_owned(), format!("kubeletVerbosity, value: {value}")];
        let values = values.map(|value| format!("    - {{name: {value}}}\n")).concat();
        before.replacen("\n    variables:\n", &format!("\n    variables:\n{values}"), 1)
    };
    let after = set("\"4\"");
    let reason = "ClusterClass default/workshop, patch \"remote\": the variables of the extension \"discover.remote\" \
                  are not known offline";
    let (code, message) = plan(&before, &after, &["-o", "json"]);
    assert_eq!(code, 4, "{message}");
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!((&message["complete"], &message["clusters"][0]["errors"]), (&false.into(), &serde_json::json!([])));
    let incomplete = message["incomplete"].as_array().unwrap();
    assert_eq!(incomplete[0], format!("Cluster default/shed: {reason}"));
    assert_eq!(incomplete.len(), 2, "the patch itself is left out as well: {incomplete:?}");
    assert_eq!(message["summary"]["machines"]["replaced"], 4, "patches with known variables are applied");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, &after).unwrap();
    let run = |arguments: &[&str]| {
        let output = command(arguments).arg(&file).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run(&["render"]);
    assert!(code == 1 && out.contains("kind: MachineDeployment"), "{err}");
    assert!(err.contains(&format!("warning[DEC-5]: incomplete: {reason}\n")), "{err}");
    let unanswered =
        "[PE-23]: not complete: patch \"remote\": GeneratePatches of generate.remote could not be called\n";
    assert!(err.contains(&format!("error{unanswered}")), "{err}");
    let (code, incomplete, err) = run(&["render", "--incomplete"]);
    assert!(code == 0 && incomplete == out && err.contains(&format!("warning{unanswered}")), "{err}");
    let (code, out, _) = run(&["validate"]);
    assert!(code == 0 && out.contains(&format!("warning[DEC-5]: {reason}\n")), "{out}");
    assert!(!out.contains("not reconciled"), "{out}");
    let (code, message) = plan(&before, &set("[4]"), &[]);
    assert!(
        code == 1 && message.contains("spec.topology.variables[kubeletVerbosity]"),
        "what is known is judged: {message}"
    );
}

#[test]
fn rendering_is_for_files_that_can_be_used() {
    let render = |arguments: &[&str]| {
        let mut render = command(&["render"]);
        let output = render.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            without_not_checked(&String::from_utf8(output.stderr).unwrap()),
        )
    };
    let (code, out, err) = render(&["fixtures/quick-start"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out.matches("\n---\n").count() + 1, 11, "{out}");
    assert_eq!(render(&["fixtures/quick-start"]).1, out, "the same files give the same bytes");
    assert_eq!(render(&["fixtures/quick-start", "--cluster", "default/demo"]).1, out);
    for (arguments, code, words) in [
        (
            ["fixtures/quick-start", "--cluster", "nobody"],
            2,
            "there is no Cluster default/nobody; there is default/demo",
        ),
        (["nowhere", "--cluster", "demo"], 2, "cannot read nowhere"),
        (
            ["fixtures/quick-start/cluster.yaml", "--cluster", "demo"],
            1,
            "ClusterClass default/quick-start was not found",
        ),
    ] {
        let (exit, out, err) = render(&arguments);
        assert_eq!((exit, out.as_str()), (code, ""), "{arguments:?}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
}

/// The class of the embedded provider and its cluster: what a newcomer applies first.
fn embedded() -> String {
    let read = |name: &str| fs::read_to_string(fixtures("embedded").join(name)).unwrap();
    format!("{}---\n{}", read("class.yaml"), read("cluster.yaml"))
}

#[test]
fn the_embedded_class_is_valid_and_asks_for_every_kind_of_its_provider() {
    let folder = fixtures("embedded");
    let folder = folder.to_str().unwrap();
    let output = command(&["validate", folder, "--strict", "--fail-on-warnings"]).output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), message.lines().last()),
        (Some(0), Some("2 checked, 2 allowed, 0 denied")),
        "{message}"
    );
    let rendered = command(&["render", folder]).output().unwrap();
    let objects: Vec<Value> = yaml::documents(&String::from_utf8(rendered.stdout).unwrap())
        .into_iter()
        .map(|document| document.unwrap().value)
        .collect();
    let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
    for (kind, want) in [
        ("EmbeddedCluster", 1),
        ("EmbeddedControlPlane", 1),
        ("EmbeddedMachineTemplate", 3),
        ("EmbeddedConfigTemplate", 2),
        ("EmbeddedMachinePool", 1),
        ("EmbeddedConfig", 1),
        ("MachineDeployment", 2),
        ("MachinePool", 1),
        ("MachineHealthCheck", 3),
    ] {
        assert_eq!(count(kind), want, "{kind}");
    }
    let control_plane = objects.iter().find(|object| object["kind"] == "EmbeddedControlPlane").unwrap();
    let reference = &control_plane["spec"]["machineTemplate"]["spec"]["infrastructureRef"];
    assert_eq!(reference["kind"], "EmbeddedMachineTemplate", "DEC-17: the newer contract, known without a definition");
}

#[test]
fn changes_of_the_embedded_cluster_roll_what_its_class_refers_to() {
    let before = embedded();
    for (from, to, code, wanted) in [
        ("value: welcome to demo", "value: hello", 4, "1 of 1 Cluster changed: 8 machines replaced"),
        ("value: 5s", "value: 6s", 4, "rotate EmbeddedMachineTemplate demo-green-"),
        ("value: 5s", "value: 6s", 4, "1 of 1 Cluster changed: 1 machine replaced"),
        ("version: v1.33.0", "version: v1.34.2", 4, "since its version goes from v1.33.0 to v1.34.2"),
        ("name: blue\n        replicas: 2", "name: blue\n        replicas: 3", 3, "spec.replicas: 2 → 3"),
    ] {
        assert_eq!(before.matches(from).count(), 1, "{from}");
        let (was, message) = plan(&before, &before.replace(from, to), &[]);
        assert_eq!(was, code, "{from} to {to}: {message}");
        assert!(message.contains(wanted), "{from} to {to}: {message}");
    }
}
