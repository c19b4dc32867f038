//! Objects of providers against the schemas of their CustomResourceDefinitions, in files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use topologist::yaml;

use crate::harness::server::{NOT_CHECKED, command};
use crate::plans::{bundle, plan};

/// Definitions in the shape of `config/crd/bases`.
fn definitions() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/definitions/docker.yaml").display().to_string()
}

/// The bundle with a patch of the machine templates of the control plane and of the workers.
fn patched(operations: &str) -> String {
    let operations: String = operations.lines().map(|line| format!("      {}\n", line.trim_start())).collect();
    let patch = format!(
        "  patches:
  - name: mounts
    definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: DevMachineTemplate
        matchResources:
          controlPlane: true
          machineDeploymentClass: {{names: [bench-hand]}}
      jsonPatches:
{operations}"
    );
    bundle("docker").replacen("  patches:\n", &patch, 1)
}

/// Something that is wrong in each of five ways, if the definition is known.
const WRONG: &str =
    "- {op: add, path: /spec/template/spec/backend/docker/extraMounts/-, value: {containerPath: /x, hostPath: 5}}
    - {op: add, path: /spec/template/spec/backend/docker/logLevl, value: 3}
    - {op: add, path: /spec/template/spec/backend/docker/network, value: host}
    - {op: add, path: /spec/template/spec/backend/docker/logLevel, value: 10}
    - {op: add, path: /spec/template/spec/backend/docker/extraMounts/-, value: {hostPath: /y}}";

const DOCKER: &str = "spec.template.spec.backend.docker";

/// What is wrong then, in the order of the fields: place, detail, and position of the operation.
const FOUND: [(&str, &str, usize); 4] = [
    ("extraMounts[1].hostPath", "must be of type string, and is integer; write it in quotes", 0),
    ("logLevel", "must be at most 9", 3),
    ("logLevl", "unknown field; did you mean logLevel?", 1),
    ("network", "supported values: \"bridge\", \"kind\"", 2),
];

const MISSING: (&str, &str, usize) =
    ("extraMounts[2].containerPath", "is required, unless a webhook of the provider sets it", 4);

fn message(start: &str, (field, detail, operation): (&str, &str, usize)) -> String {
    format!(
        "{start} and others: {DOCKER}.{field}: {detail} (written by patch \"mounts\" definitions[0].jsonPatches[{operation}] of ClusterClass default/workshop)\n"
    )
}

/// Runs a command on a file: exit code, standard output and standard error.
fn run(name: &str, bundle: &str, flags: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("bundle.yaml");
    fs::write(&path, bundle).unwrap();
    let output = command(&[name]).arg(path).args(flags).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_a_patch_writes_is_checked_and_the_patch_is_named() {
    // DEC-32
    let (crds, wrong) = (definitions(), patched(WRONG));
    let (code, text) = plan(&bundle("docker"), &wrong, &["--crds", &crds]);
    assert_eq!(code, 1, "{text}");
    let template = "DevMachineTemplate shed-8bfhk";
    for found in FOUND {
        assert!(text.contains(&message(&format!("  error: {template}"), found)), "{found:?}: {text}");
    }
    assert!(text.contains(&message(&format!("  warning: {template}"), MISSING)), "{text}");
    assert!(
        text.starts_with(
            "1 of 1 Cluster changed: 4 machines replaced; the API server would refuse objects of 1 Cluster\n"
        ),
        "{text}"
    );
    assert!(text.ends_with("exit code 1: the API server would refuse an object\n"), "{text}");

    let (code, text, err) = run("validate", &wrong, &["--crds", &crds]);
    // DEC-68: each at the operation of the patch that writes the field.
    assert_eq!(code, 1, "{text}{err}");
    for (severity, found) in FOUND.map(|found| ("error", found)).into_iter().chain([("warning", MISSING)]) {
        let (field, detail, operation) = found;
        let start = format!("{severity}[DEC-32]: DevMachineTemplate: {DOCKER}.{field}: {detail}\n");
        let at = text.find(&start).unwrap_or_else(|| panic!("{start}: {text}"));
        let note =
            format!("spec.patches[mounts].definitions[0].jsonPatches[{operation}] of ClusterClass default/workshop\n");
        assert!(text[at..].split_once("note: ").unwrap().1.starts_with(&note), "{note}: {text}");
    }
    assert!(text.contains("1 allowed, 1 that cannot be rolled out, 0 denied\n"), "{text}");

    let (code, _, err) = run("render", &wrong, &["--crds", &crds]);
    assert_eq!(code, 1, "{err}");
    for line in text.lines().filter(|line| line.contains("[DEC-32]: ")) {
        assert!(err.contains(line), "render says the same as validate: {line}: {err}");
    }
    let (code, text) = plan(&bundle("docker"), &wrong, &[]);
    assert!(code == 4 && !text.contains("error:"), "without the definition nothing is known: {text}");
}

#[test]
fn only_a_missing_field_is_no_reason_to_fail() {
    // DEC-32
    let missing = patched("- {op: add, path: /spec/template/spec/backend/docker/extraMounts/-, value: {hostPath: /y}}");
    let (code, text) = plan(&bundle("docker"), &missing, &["--crds", &definitions()]);
    assert!(code == 4 && text.contains("extraMounts[1].containerPath: is required, unless a webhook"), "{text}");
    let (code, _, err) = run("render", &missing, &["--crds", &definitions()]);
    assert!(code == 0 && err.contains("extraMounts[1].containerPath: is required, unless a webhook"), "{err}");
}

#[test]
fn rules_of_a_definition_run_when_nothing_else_is_wrong() {
    // DEC-32
    let relative = "- {op: add, path: /spec/template/spec/backend/docker/extraMounts/-, value: {containerPath: x}}";
    let (code, text) = plan(&bundle("docker"), &patched(relative), &["--crds", &definitions()]);
    assert!(
        code == 1 && text.contains(&format!("{DOCKER}: a mount needs an absolute path (written by patch")),
        "{text}"
    );
    let (code, text) =
        plan(&bundle("docker"), &patched(&relative.replace(": x}", ": /x}")), &["--crds", &definitions()]);
    assert!(code == 4 && !text.contains("error:"), "{text}");
}

#[test]
fn defaults_of_a_definition_are_no_change_and_patches_see_them() {
    // DEC-15: the API server completes what it stores
    let crds = definitions();
    let spelled_out = bundle("docker").replace(
        "        docker:\n          extraMounts:\n",
        "        docker:\n          network: kind\n          extraMounts:\n",
    );
    assert_ne!(spelled_out, bundle("docker"));
    let calm = (0, "1 Cluster, nothing changes\n".to_owned());
    assert_eq!(plan(&bundle("docker"), &spelled_out, &["--crds", &crds]), calm);
    assert_eq!(plan(&spelled_out, &bundle("docker"), &["--crds", &crds]), calm);
    assert_eq!(plan(&bundle("docker"), &spelled_out, &[]).0, 4, "without the definition it is a change");

    let replace = patched("- {op: replace, path: /spec/template/spec/backend/docker/network, value: bridge}");
    let (code, text) = plan(&bundle("docker"), &replace, &["--crds", &crds]);
    assert!(code == 4 && text.contains(&format!("{DOCKER}.network: \"kind\" → \"bridge\"")), "{text}");
    assert_eq!(plan(&bundle("docker"), &replace, &[]).0, 1, "without the definition there is nothing to replace");
}

#[test]
fn current_objects_with_and_without_defaults_are_the_same() {
    // DEC-15, DEC-43: objects as a server stores them, and as a file has them
    let crds = definitions();
    let bundle = bundle("docker");
    let (_, with, _) = run("render", &bundle, &["--crds", &crds]);
    let (_, without, _) = run("render", &bundle, &[]);
    assert!(with.contains("readOnly: false") && with.contains("network: kind"), "{with}");
    assert!(!without.contains("readOnly: false") && !without.contains("network: kind"), "{without}");
    let name = |kind: &str| {
        let documents = yaml::documents(&without).into_iter().map(|document| document.unwrap().value);
        let mut found = documents.filter(|object| object["kind"] == kind);
        found.next().unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
    };
    let references = format!(
        "spec:\n  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: {}}}\n  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: {}}}\n  clusterNetwork:\n    services:",
        name("DevCluster"),
        name("KubeadmControlPlane"),
    );
    let stored = bundle.replace("spec:\n  clusterNetwork:\n    services:", &references);
    assert_ne!(stored, bundle);
    for (case, objects) in [("as stored", &with), ("as applied", &without)] {
        let all = format!("{stored}\n---\n{objects}");
        let (code, text) = plan(&all, &stored, &["--crds", &crds]);
        assert_eq!((code, &*text), (0, "1 Cluster, nothing changes\n"), "{case}");
    }
}

#[test]
fn what_was_not_checked_is_reported_once() {
    // DEC-32
    let changed = bundle("docker").replace("certificatesExpiryDays: 30", "certificatesExpiryDays: 31");
    let twice = format!("{changed}\n---\n{}", cluster_named("barn"));
    let (_, _, err) = run("render", &twice, &[]);
    let names = "devclusters.infrastructure.cluster.x-k8s.io devmachinetemplates.infrastructure.cluster.x-k8s.io";
    let query = format!("kubectl get crds {names} -o yaml >FILE");
    let note = format!(
        "{NOT_CHECKED} (give them with --crds FILE): DevCluster, DevMachineTemplate; from a cluster: {query}\n"
    );
    assert_eq!(err, note);
    let (_, _, err) = run("render", &twice, &["--crds", &definitions()]);
    assert!(err.starts_with(NOT_CHECKED) && !err.contains("DevMachineTemplate"), "{err}");
    let (_, out, err) = run("validate", &twice, &["-o", "json"]);
    let rows: Value = serde_json::from_str(&out).unwrap();
    let row = rows["objects"].as_array().unwrap().iter().find(|row| row["name"] == "shed").unwrap();
    let kinds = serde_json::json!(["DevCluster", "DevMachinePool", "DevMachineTemplate"]);
    assert_eq!((&row["schemasNotChecked"], &*err), (&kinds, ""));

    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.yaml"), folder.path().join("to.yaml"));
    fs::write(&from, bundle("docker")).unwrap();
    let pulls = "- {op: add, path: /spec/template/spec/backend/docker/logLevel, value: 3}";
    fs::write(&to, patched(pulls)).unwrap();
    let planned = |flags: &[&str]| {
        let output = command(&["plan", "--from"]).arg(&from).arg("--to").arg(&to).args(flags).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let [_, err] = planned(&[]);
    assert!(err.starts_with(NOT_CHECKED) && err.contains("): DevMachineTemplate; from"), "{err}");
    let [out, err] = planned(&["-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["schemasNotChecked"], &*err), (&serde_json::json!(["DevMachineTemplate"]), ""));
}

/// Another Cluster of the same class.
fn cluster_named(name: &str) -> String {
    let bundle = bundle("docker");
    let at = bundle.rfind("---\n").unwrap();
    bundle[at + 4..].replace("name: \"shed\"", &format!("name: \"{name}\""))
}

#[test]
fn the_version_of_the_object_selects_the_schema() {
    // DEC-17: definitions without labels for contracts
    let crds = fs::read_to_string(definitions()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crds.yaml");
    let without_it = crds.replace("name: v1beta2", "name: v1beta3");
    assert_ne!(without_it, crds);
    fs::write(&path, without_it).unwrap();
    let flags = ["--crds", path.to_str().unwrap()];
    let (code, _, err) = run("render", &patched(WRONG), &flags);
    assert!(code == 0 && err.contains("DevMachineTemplate") && err.starts_with(NOT_CHECKED), "{err}");
    fs::write(&path, crds.replace("pattern: '^", "pattern: '(")).unwrap();
    let (code, _, err) = run("render", &patched(WRONG), &flags);
    let reason = "warning[DEC-68]: cannot use the schema of version v1beta2 of devmachinetemplates.infrastructure.cluster.x-k8s.io: ";
    assert!(code == 0 && err.contains(reason) && err.contains(NOT_CHECKED), "{err}");
}

#[test]
fn a_class_without_clusters_is_checked_by_a_sample() {
    // DEC-48
    let wrong = patched(WRONG);
    let class = &wrong[..wrong.rfind("---\n").unwrap()];
    let (code, text, _) = run("validate", class, &["--crds", &definitions()]);
    assert!(code == 1 && text.contains("1 checked, 0 allowed, 1 that cannot be rolled out"), "{text}");
    assert!(
        text.contains("extraMounts[1].hostPath: must be of type string") && text.contains("spec.patches[mounts]"),
        "{text}"
    );
}

#[test]
fn secrets_do_not_appear_in_what_is_refused() {
    // DEC-34
    let secret = "- {op: add, path: /spec/template/spec/backend/docker/network, valueFrom: {variable: token}}";
    let variable = "  variables:\n  - name: token\n    required: false\n    schema:\n      openAPIV3Schema: {type: string, format: password, default: Hunter2 is secret}\n";
    let wrong = patched(secret).replacen("  variables:\n", variable, 1);
    for command in ["validate", "render"] {
        let (_, out, err) = run(command, &wrong, &["--crds", &definitions()]);
        let message = if command == "validate" { out } else { err };
        assert!(message.contains(&format!("{DOCKER}.network: ")) && !message.contains("Hunter2"), "{message}");
    }
}

#[test]
fn kubeadm_kinds_are_checked_without_definitions() {
    // DEC-32
    let wrong =
        bundle("docker").replace("kubeadmConfigSpec:\n", "kubeadmConfigSpec:\n        formt: ignition\n").replace(
            "      machineTemplate:\n        metadata",
            "      replicas: 3\n      machineTemplate:\n        metadata",
        );
    let (code, text, _) = run("validate", &wrong, &[]);
    assert_eq!(code, 1, "{text}");
    let unknown = "error[DEC-32]: unknown field in Cluster API v1.14.2; did you mean format?";
    assert!(text.contains(unknown), "{text}");
    let dropped = "error[DEC-32]: unknown field in Cluster API v1.14.2\n";
    let place = "spec.template.spec.replicas of KubeadmControlPlaneTemplate default/";
    assert!(text.contains(dropped) && text.contains(place), "{text}");
    // Definitions of the files replace the included ones.
    let open = "type: object, x-kubernetes-preserve-unknown-fields: true";
    let version = format!("{{name: v1beta2, served: true, storage: true, schema: {{openAPIV3Schema: {{{open}}}}}}}");
    let definition = |plural: &str, kind: &str| {
        let group = "controlplane.cluster.x-k8s.io";
        format!(
            "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\n\
             spec: {{group: {group}, scope: Namespaced, names: {{kind: {kind}, plural: {plural}}}, versions: [{version}]}}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let crds = folder.path().join("crds.yaml");
    let definitions = [
        ("kubeadmcontrolplanes", "KubeadmControlPlane"),
        ("kubeadmcontrolplanetemplates", "KubeadmControlPlaneTemplate"),
    ];
    fs::write(&crds, definitions.map(|(plural, kind)| definition(plural, kind)).concat()).unwrap();
    let (code, text, _) = run("validate", &wrong, &["--crds", crds.to_str().unwrap()]);
    assert_eq!((code, text.contains("unknown field")), (0, false), "{text}");
}

#[test]
fn definitions_are_found_in_the_usual_directories() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("class.yaml"), patched(WRONG)).unwrap();
    let validate = |variable: Option<&str>| {
        let mut command = command(&["validate", "-o", "short", "class.yaml"]);
        command.current_dir(folder.path()).env_remove("TOPOLOGIST_CRDS");
        if let Some(paths) = variable {
            command.env("TOPOLOGIST_CRDS", paths);
        }
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(validate(None).0, 0);
    for directory in ["crds", "config/crd/bases"] {
        let directory = folder.path().join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::copy(definitions(), directory.join("docker.yaml")).unwrap();
        let (code, text) = validate(None);
        assert!(code == 1 && text.contains("did you mean logLevel?"), "{text}");
        // The variable takes the place of the directories.
        fs::create_dir_all(folder.path().join("none")).unwrap();
        assert_eq!(validate(Some("none")).0, 0);
        fs::remove_dir_all(&directory).unwrap();
    }
    assert_eq!(validate(Some(&format!("none:{}", definitions()))).0, 1);
}

#[test]
fn what_is_not_checked_fails_on_warnings_unless_it_is_allowed() {
    // DEC-42
    let good = bundle("docker");
    let strict = ["--fail-on", "warning"];
    let (code, text, err) = run("validate", &good, &strict);
    assert_eq!((code, &*err, text.matches("warning[DEC-32]").count()), (1, "", 3), "{text}");
    let (code, text, _) = run("validate", &good, &[&strict[..], &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&text).unwrap();
    let finding = &report["findings"][1];
    let message = "objects of kind DevMachinePool are not checked: no definition of it is known";
    assert_eq!((code, &finding["message"]), (1, &message.into()), "{text}");
    let line = good.lines().nth(usize::try_from(finding["line"].as_u64().unwrap()).unwrap() - 1).unwrap();
    assert_eq!(line.trim(), "kind: DevMachinePoolTemplate");
    let help =
        "kubectl get crds devmachinepools.infrastructure.cluster.x-k8s.io -o yaml >FILE, and give the file with --crds";
    assert!(finding["fix"].as_str().unwrap().starts_with(help), "{finding}");
    let most = ["--allow-unchecked", "DevCluster,DevMachinePool"];
    let (code, text, err) = run("validate", &good, &[&strict[..], &most].concat());
    assert!(
        code == 1 && text.matches("warning[DEC-32]").count() == 1 && text.contains("DevMachineTemplate"),
        "{text}{err}"
    );
    let all = [&strict[..], &most, &["--allow-unchecked", "DevMachineTemplate"]].concat();
    let (code, text, err) = run("validate", &good, &all);
    assert_eq!((code, &*err), (0, ""), "{text}");
}

#[test]
fn an_empty_value_of_the_older_version_is_a_warning() {
    // DEC-32: webhooks of older releases removed it before the bounds were checked.
    let empty = bundle("aws").replacen(
        "clusterConfiguration:\n",
        "clusterConfiguration:\n          dns: {imageTag: \"\"}\n",
        1,
    );
    assert_ne!(empty, bundle("aws"));
    let (code, text, _) = run("validate", &empty, &[]);
    let warning = "warning[DEC-32]: must have at least 1 characters, and has 0 (Cluster API v1.14.2)";
    assert!(code == 0 && text.contains(warning), "{text}");
}

#[test]
fn other_files_in_the_usual_directories_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("class.yaml"), bundle("docker")).unwrap();
    let validate = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join("crds")).unwrap();
        fs::write(folder.path().join("crds").join(name), text).unwrap();
        let output = command(&["validate", "-q", "class.yaml"]).current_dir(folder.path()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(validate("kustomization.yaml", "resources: [a.yaml]\n"), (0, String::new()));
    let (code, err) = validate("x.yaml", "foo: {{ .Values.x }}\n");
    assert!(code == 2 && err.contains("TOPOLOGIST_CRDS= switches this off"), "{err}");
}
