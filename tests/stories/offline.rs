//! Changes, worlds and templates of files, judged and completed on the command line.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::server::command;

/// A folder of files for one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| fs::write(folder.path(name), text).unwrap());
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program in the folder: exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        let mut command = command(arguments);
        command.current_dir(self.0.path()).envs(variables.iter().copied());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The rows of `validate -o json`: kind and name, operation, and rule and field of each error.
    fn rows(&self, arguments: &[&str]) -> Vec<(String, String, Vec<String>)> {
        let (_, out, err) = self.run(&[&["validate", "-o", "json", "--format-version", "1"], arguments].concat(), &[]);
        let rows: Vec<Value> = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let error =
            |error: &Value| format!("{} {} {}", text(&error["rule"]), text(&error["type"]), text(&error["field"]));
        let errors = |row: &Value| row["errors"].as_array().unwrap().iter().map(error).collect();
        rows.iter()
            .map(|row| (format!("{}/{}", text(&row["kind"]), text(&row["name"])), text(&row["operation"]), errors(row)))
            .collect()
    }
}

fn row(object: &str, operation: &str, errors: &[&str]) -> (String, String, Vec<String>) {
    (object.to_owned(), operation.to_owned(), errors.iter().map(|error| (*error).to_owned()).collect())
}

pub fn class(variables: &str) -> String {
    let template = |group: &str, kind: &str| {
        format!("{{templateRef: {{apiVersion: {group}.cluster.x-k8s.io/v1beta2, kind: {kind}, name: t}}}}")
    };
    format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {{name: base}}\n\
         spec:\n  infrastructure: {}\n  controlPlane: {}\n  variables: {variables}\n",
        template("infrastructure", "DevClusterTemplate"),
        template("controlplane", "KubeadmControlPlaneTemplate"),
    )
}

pub const SIZE: &str = "[{name: size, required: false, schema: {openAPIV3Schema: {type: string, default: s}}}]";
pub const CLUSTER: &str = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: one}\nspec:\n  topology:\n    classRef: {name: base}\n    version: 1.33.0\n";

#[test]
fn a_version_change_is_checked_against_the_objects_in_the_files() {
    // DEC-18
    let control_plane = |running: &str| {
        let labels = "{cluster.x-k8s.io/cluster-name: one, topology.cluster.x-k8s.io/owned: \"\"}";
        format!(
            "apiVersion: v1\nkind: List\nitems:\n\
             - apiVersion: controlplane.cluster.x-k8s.io/v1beta1\n  kind: KubeadmControlPlane\n  metadata: {{name: one-x, namespace: default, labels: {labels}}}\n  spec: {{version: v1.33.0}}\n  status: {{version: {running}}}\n"
        )
    };
    let (old, higher) = (CLUSTER.replace("1.33.0", "v1.33.0"), CLUSTER.replace("1.33.0", "v1.34.0"));
    let folder = Folder::new(&[
        ("class.yaml", &class(SIZE)),
        ("old.yaml", &old),
        ("new.yaml", &higher),
        ("upgrading.yaml", &control_plane("v1.32.0")),
        ("ready.yaml", &control_plane("v1.33.0")),
    ]);
    let arguments = ["validate", "new.yaml", "--old", "old.yaml", "--world", "class.yaml"];
    let (code, out, _) = folder.run(&arguments, &[]);
    let not_checked = "not checked, because the files do not hold the running cluster: UPG-008, UPG-009, UPG-010, UPG-011, UPG-012, UPG-013, UPG-014, UPG-015, UPG-016, UPG-017\n";
    assert!(code == 0 && out.contains(not_checked), "{out}");
    let (code, out, _) = folder.run(&[&arguments[..], &["--world", "ready.yaml"]].concat(), &[]);
    assert!(code == 0 && !out.contains("not checked"), "{out}");
    let (code, out, _) = folder.run(&[&arguments[..], &["--world", "upgrading.yaml"]].concat(), &[]);
    let error = "KubeadmControlPlane default/one-x is upgrading to v1.33.0: v1.32.0 runs in it";
    assert!(code == 1 && out.contains("error[UPG-011]: ") && out.contains(error), "{out}");
    assert!(out.contains("note: spec.topology.version of Cluster default/one\n"), "{out}");
}

#[test]
fn objects_in_both_sets_of_files_are_updates() {
    let lower = CLUSTER.replace("1.33.0", "v1.32.0");
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("old.yaml", CLUSTER), ("new.yaml", &lower)]);
    let rows = folder.rows(&["class.yaml", "new.yaml", "--old", "old.yaml", "--old", "class.yaml"]);
    let version = "UPG-005 FieldValueInvalid spec.topology.version";
    assert_eq!(rows, [row("ClusterClass/base", "UPDATE", &[]), row("Cluster/one", "UPDATE", &[version])]);
    let (code, out, _) = folder.run(&["validate", "new.yaml", "--world", "class.yaml", "--old", "old.yaml"], &[]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("\ndenied: update of Cluster default/one\n"), "{out}");
    let rows = folder.rows(&["new.yaml", "--world", "class.yaml"]);
    assert_eq!(rows, [row("Cluster/one", "CREATE", &[])], "without old files it is a create");
}

#[test]
fn repeated_keys_are_warned_about() {
    // DEC-32
    let twice = format!("# a comment\n{CLUSTER}    version: v1.34.0\n");
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("new.yaml", &twice)]);
    let message = "the key \"version\" is repeated on line 9; only the last value is used";
    let (code, out, _) = folder.run(&["validate", "new.yaml", "--world", "class.yaml"], &[]);
    assert!(code == 0 && out.contains(&format!("warning[DEC-32]: {message}\n --> new.yaml:9:5\n")), "{out}");
    let (code, out, _) = folder.run(&["validate", "--strict", "new.yaml", "--world", "class.yaml"], &[]);
    let error = format!("error[DEC-32]: Duplicate value: \"version\": {message}\n --> new.yaml:9:14\n");
    assert!(code == 1 && out.contains(&error), "{out}");
}

#[test]
fn a_kind_in_other_letter_case_is_warned_about() {
    let wrong = CLUSTER.replace("kind: Cluster", "kind: cluster");
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("new.yaml", &wrong)]);
    let (_, _, err) = folder.run(&["validate", "new.yaml", "class.yaml"], &[]);
    let message = "topologist: new.yaml:1: the kind cluster of cluster.x-k8s.io/v1beta2 is unknown, so the object was skipped; did you mean Cluster?\n";
    assert_eq!(err, message);
}

/// Objects of other kinds, one of them most likely a slip.
const OTHERS: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Clustre\nmetadata: {name: one}\n";

#[test]
fn input_with_nothing_to_work_on_is_an_error_unless_allow_empty_is_set() {
    let folder = Folder::new(&[("others.yaml", OTHERS), ("class.yaml", &class(SIZE)), ("cluster.yaml", CLUSTER)]);
    let slip = "topologist: others.yaml:5: the kind Clustre of cluster.x-k8s.io/v1beta2 is unknown, so the object was skipped; did you mean Cluster?\n";
    let held = "the input holds only Clustre of cluster.x-k8s.io/v1beta2, Deployment of apps/v1; use --allow-empty if this is intended\n";
    let subjects = "no Cluster and no ClusterClass was found";
    let topologies = "no Cluster with spec.topology was found";
    let sampled = "no Cluster with spec.topology and no ClusterClass was found";
    let plan = ["plan", "--from", "others.yaml", "--to", "others.yaml"];
    for (arguments, missing, expected) in [
        (&["validate", "others.yaml"][..], format!("checked: {subjects}"), ""),
        (&["validate", "others.yaml", "--world", "cluster.yaml"], format!("checked: {subjects}"), ""),
        (&["validate", "/dev/null", "--old", "others.yaml"], format!("checked: {subjects}"), ""),
        (&["default", "others.yaml", "-o", "json"], format!("defaulted: {subjects}"), "Deployment"),
        (&["render", "others.yaml", "-o", "json"], format!("rendered: {topologies}"), "[]\n"),
        (&plan, format!("planned: {sampled}"), "0 Clusters, nothing changes\n"),
    ] {
        let want = (2, String::new(), format!("{slip}topologist: nothing was {missing}; {held}"));
        assert_eq!(folder.run(arguments, &[]), want, "{arguments:?}");
        let (code, out, err) = folder.run(&[arguments, &["--allow-empty"]].concat(), &[]);
        assert_eq!((code, &*err), (0, slip), "{arguments:?}");
        assert!(out.contains(expected), "{arguments:?}: {out}");
    }
}

#[test]
fn a_class_alone_can_be_judged_and_planned_and_gives_nothing_to_render() {
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("cluster.yaml", CLUSTER), ("wrong.yaml", "kind: 5\n")]);
    for (arguments, want) in [
        (&["validate", "class.yaml"][..], 0),
        (&["default", "class.yaml"], 0),
        (&["render", "class.yaml"], 2),
        (&["render", "class.yaml", "--allow-empty"], 0),
        (&["plan", "--from", "class.yaml", "--to", "class.yaml"], 0),
        (&["plan", "--from", "/dev/null", "--to", "class.yaml"], 2),
        (&["validate", "wrong.yaml", "--allow-empty"], 2),
        (&["validate", "/dev/null", "--allow-empty"], 0),
    ] {
        let (code, out, err) = folder.run(arguments, &[]);
        assert_eq!(code, want, "{arguments:?}: {out}{err}");
    }
}

#[test]
fn a_misspelled_kind_in_one_of_several_documents_is_reported() {
    let slip = CLUSTER.replace("kind: Cluster\n", "kind: Clustre\n").replace("v1beta2", "v1beta1");
    let folder = Folder::new(&[("all.yaml", &format!("{}---\n{slip}", class(SIZE))), ("old.yaml", &class(SIZE))]);
    let message =
        "the kind Clustre of cluster.x-k8s.io/v1beta1 is unknown, so the object was skipped; did you mean Cluster?";
    for arguments in [
        &["validate", "all.yaml"][..],
        &["validate", "old.yaml", "--world", "all.yaml"],
        &["plan", "--from", "all.yaml", "--to", "old.yaml", "--allow-empty"],
    ] {
        let (code, _, err) = folder.run(arguments, &[]);
        assert_eq!((code, err.matches(message).count()), (0, 1), "{arguments:?}: {err}");
    }
}

#[test]
fn a_misspelled_class_name_gets_the_closest_one() {
    let wrong = CLUSTER.replace("name: base", "name: bsae");
    let elsewhere = class(SIZE).replace("{name: base}", "{name: base, namespace: other}");
    let all = |classes: &str| format!("{classes}---\n{wrong}");
    let folder =
        Folder::new(&[("near.yaml", &all(&class(SIZE))), ("elsewhere.yaml", &all(&elsewhere)), ("old.yaml", CLUSTER)]);
    let hint = "the closest ClusterClass in namespace default is \"base\"";
    let message = format!("ClusterClass default/bsae was not found; {hint}\n");
    for (arguments, code, words) in [
        (&["validate", "near.yaml"][..], 0, format!("Create it before this Cluster is used; {hint}\n")),
        (&["render", "near.yaml"], 1, format!("error[DEC-68]: the topology cannot be computed: {message}")),
        (
            &["plan", "--from", "near.yaml", "--to", "near.yaml"],
            1,
            format!("  error: before and after the change: {message}"),
        ),
    ] {
        let (exit, out, err) = folder.run(arguments, &[]);
        assert_eq!(exit, code, "{arguments:?}: {out}{err}");
        assert!((out.clone() + &err).contains(&words), "{arguments:?}: {out}{err}");
        let other: Vec<&str> = arguments
            .iter()
            .map(|argument| if *argument == "near.yaml" { "elsewhere.yaml" } else { argument })
            .collect();
        let (exit, out, err) = folder.run(&other, &[]);
        assert_eq!(exit, code, "{other:?}: {out}{err}");
        assert!(!(out + &err).contains("closest"), "a class of another namespace is not meant");
    }
}

#[test]
fn old_and_new_files_may_differ_in_version() {
    let old = CLUSTER.replace("v1beta2", "v1beta1").replace("classRef: {name: base}", "class: base");
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("old.yaml", &old), ("new.yaml", CLUSTER)]);
    let rows = folder.rows(&["new.yaml", "--world", "class.yaml", "--old", "old.yaml"]);
    assert_eq!(rows, [row("Cluster/one", "UPDATE", &[])]);
}

#[test]
fn objects_only_in_the_old_files_are_deletions() {
    // DEC-32
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("cluster.yaml", CLUSTER)]);
    let denied = row("ClusterClass/base", "DELETE", &["CC-V-140 Forbidden "]);
    let rows = folder.rows(&["cluster.yaml", "--old", "class.yaml", "--old", "cluster.yaml"]);
    assert_eq!(rows, [row("Cluster/one", "UPDATE", &[]), denied.clone()]);
    let rows = folder.rows(&["--world", "cluster.yaml", "--old", "class.yaml", "/dev/null"]);
    assert_eq!(rows, [denied], "a Cluster of the world uses it");
    let (code, out, _) = folder.run(&["validate", "/dev/null", "--old", "class.yaml", "--old", "cluster.yaml"], &[]);
    assert_eq!(code, 0, "both go: {out}");
    assert!(out.starts_with("allowed: deletion of ClusterClass default/base, deletion of Cluster"), "{out}");
}

#[test]
fn references_of_a_stored_cluster_stay_unless_a_file_had_them() {
    // CL-V-002, CL-V-004
    let stored = |annotations: &str| {
        let references = "  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: one}\n  \
             controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: one}\n";
        let named = CLUSTER.replace("name: one", &format!("name: one, uid: u{annotations}"));
        format!("{named}{references}")
    };
    let applied =
        r#", annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"infrastructureRef":{}}}'}"#;
    let by_file = ", managedFields: [{manager: flux, operation: Apply, fieldsV1: {f:spec: {f:controlPlaneRef: {}}}}]";
    let by_controller =
        ", managedFields: [{manager: manager, operation: Update, fieldsV1: {f:spec: {f:controlPlaneRef: {}}}}]";
    for (annotations, errors) in [
        ("", &[][..]),
        (by_controller, &[]),
        (applied, &["CL-V-002 FieldValueForbidden spec.infrastructureRef"]),
        (by_file, &["CL-V-004 FieldValueForbidden spec.controlPlaneRef"]),
    ] {
        let folder =
            Folder::new(&[("class.yaml", &class(SIZE)), ("old.yaml", &stored(annotations)), ("new.yaml", CLUSTER)]);
        let rows = folder.rows(&["new.yaml", "--world", "class.yaml", "--old", "old.yaml"]);
        assert_eq!(rows, [row("Cluster/one", "UPDATE", errors)], "{annotations}");
    }
}

#[test]
fn an_old_object_that_is_also_in_the_world_is_not_deleted() {
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("cluster.yaml", CLUSTER)]);
    let rows = folder.rows(&["--world", "class.yaml", "--old", "class.yaml", "--old", "cluster.yaml", "cluster.yaml"]);
    assert_eq!(rows, [row("Cluster/one", "UPDATE", &[])]);
}

#[test]
fn errors_have_the_line_and_column_of_their_field() {
    let text = "# Two documents\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: one}\nspec:\n  \
                clusterNetwork:\n    pods:\n      cidrBlocks:\n      - 10.0.0.0/16\n      - 10.0.0.0\n  topology:\n    \
                classRef: {name: base}\n    version: v1.33\n---\n";
    let json = "{\"apiVersion\": \"cluster.x-k8s.io/v1beta2\", \"kind\": \"Cluster\",\n \"metadata\": {\"name\": \"two\"}, \
                \"spec\": {\"topology\": {\"classRef\": {\"name\": \"base\"},\n  \"version\": \"v1\"}}}\n";
    let folder = Folder::new(&[("one.yaml", text), ("two.json", json)]);
    let (code, out, _) = folder.run(&["validate", "-o", "json", "--format-version", "1", "one.yaml", "two.json"], &[]);
    assert_eq!(code, 1, "{out}");
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    let places = |row: &Value| -> Vec<(String, u64, u64)> {
        let errors = row["errors"].as_array().unwrap().iter();
        let place = |error: &Value| {
            let number = |name: &str| error[name].as_u64().unwrap();
            (error["field"].as_str().unwrap().to_owned(), number("line"), number("column"))
        };
        errors.map(place).collect()
    };
    let block = "spec.clusterNetwork.pods.cidrBlocks[1]".to_owned();
    let version = || "spec.topology.version".to_owned();
    let one = places(&rows[0]);
    assert!(one.contains(&(block, 10, 9)) && one.contains(&(version(), 13, 5)), "{out}");
    assert!(places(&rows[1]).contains(&(version(), 3, 3)), "{out}");
}

#[test]
fn names_of_the_other_version_are_one_error() {
    // DEC-32
    let class = class(SIZE);
    let old_names = class.replace("templateRef:", "ref:");
    assert!(class.contains("v1beta2") && class != old_names, "{class}");
    let folder = Folder::new(&[("class.yaml", &old_names)]);
    let (code, out, _) = folder.run(&["validate", "-o", "short", "class.yaml"], &[]);
    assert_eq!(code, 1, "{out}");
    let errors: Vec<_> = out.lines().filter(|line| line.contains(": error[") || line.contains("warning")).collect();
    assert_eq!(errors.len(), 1, "{out}");
    let fields = "spec.controlPlane.ref, spec.infrastructure.ref";
    assert!(errors[0].contains("these fields belong to v1beta1, and the file says v1beta2"), "{out}");
    assert!(errors[0].ends_with(fields), "{out}");
}

#[test]
fn a_version_that_no_server_has_is_a_warning() {
    let cluster = CLUSTER
        .replace("cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1alpha4")
        .replace("classRef: {name: base}", "class: base");
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("cluster.yaml", &cluster)]);
    let (_, out, _) = folder.run(&["validate", "class.yaml", "cluster.yaml"], &[]);
    assert!(out.contains("warning[DEC-32]: no API server serves cluster.x-k8s.io/v1alpha4 any more"), "{out}");
}

#[test]
fn a_change_of_a_class_is_judged_with_the_clusters_of_the_world() {
    // DEC-1
    let cluster = format!("{CLUSTER}    variables: [{{name: size, value: l}}]\n");
    let folder = Folder::new(&[
        ("old.yaml", &class(SIZE)),
        ("new.yaml", &class(&SIZE.replace("size", "other"))),
        ("cluster.yaml", &cluster),
    ]);
    let arguments = ["new.yaml", "--old", "old.yaml", "--world", "cluster.yaml"];
    assert_eq!(folder.rows(&arguments)[0].2[0], "DEC-1 FieldValueForbidden spec.variables");
    let warned = [&["validate", "--dependents", "warn"], &arguments[..]].concat();
    let (code, out, _) = folder.run(&warned, &[]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains(
            "warning[DEC-1]: variable \"size\" cannot be removed because Clusters set it: default/one\n --> new.yaml:7:3\n"
        ),
        "{out}"
    );
}

#[test]
fn deprecated_values_are_warned_about_and_denied_where_they_are_new() {
    // VAR-V-040, DEC-34
    let variables = "[{name: image, required: false, schema: {openAPIV3Schema: {type: object, properties: {mirror: \
                     {type: string, format: password, x-metadata: {annotations: {topologist.dev/deprecated: use \
                     registries}}}, registries: {type: array, items: {type: string}}}}}}, {name: proxies, required: \
                     false, schema: {openAPIV3Schema: {type: object, default: {}, additionalProperties: {type: string, \
                     x-metadata: {annotations: {topologist.dev/deprecated: ''}}}}}}]";
    let (set, other) = (
        "    variables: [{name: image, value: {mirror: a77}}]\n",
        "    variables: [{name: image, value: {registries: [b]}}]\n",
    );
    let folder = Folder::new(&[
        ("class.yaml", &class(variables)),
        ("set.yaml", &format!("{CLUSTER}{set}")),
        ("other.yaml", &format!("{CLUSTER}{other}")),
    ]);
    let field = "Cluster default/one: spec.topology.variables[image].value.mirror";
    let warning = format!("set.yaml:8:47: warning[VAR-V-040]: {field}: deprecated: use registries\n");
    let error = format!("set.yaml:8:39: error[VAR-V-040]: {field}: Forbidden: deprecated: use registries\n");
    let (warning, error) = (&*warning, &*error);
    let deny = "--deprecated=deny";
    for (case, arguments, want, shown) in [
        ("a create", &["set.yaml"][..], 0, warning),
        ("no use", &["other.yaml", deny], 0, ""),
        ("a create that is denied", &["set.yaml", deny], 1, error),
        ("an update that adds it", &["set.yaml", "--old", "other.yaml", deny], 1, error),
        ("an update that keeps it", &["set.yaml", "--old", "set.yaml", deny], 0, warning),
        ("an update that removes it", &["other.yaml", "--old", "set.yaml", deny], 0, ""),
        ("warnings are not wanted", &["set.yaml", "--fail-on-warnings"], 1, warning),
    ] {
        let (code, out, _) =
            folder.run(&[&["validate", "-o", "short", "--world", "class.yaml"], arguments].concat(), &[]);
        assert_eq!(code, want, "{case}: {out}");
        assert_eq!(out.lines().count(), if shown.is_empty() { 2 } else { 3 }, "{case}: {out}");
        assert!(out.contains(shown) && !out.contains("a77"), "{case}: {out}");
    }
    // DEC-44: many are counted.
    let many: String = (0..30).map(|i| format!("p{i:02}: x, ")).collect();
    fs::write(folder.path("set.yaml"), format!("{CLUSTER}    variables: [{{name: proxies, value: {{{many}}}}}]\n"))
        .unwrap();
    let (_, out, _) = folder.run(&["validate", "-o", "short", "set.yaml", "--world", "class.yaml"], &[]);
    assert_eq!(out.matches("warning[VAR-V-040]: ").count(), 21, "{out}");
    assert!(out.contains("[proxies].value.p19: deprecated\n"), "{out}");
    assert!(out.contains("Cluster default/one: and 10 more deprecated values\n"), "{out}");
}

#[test]
fn an_edit_of_a_class_counts_although_its_status_is_from_before() {
    // DEC-2: whoever exports a class and edits it leaves generation and status as they were.
    let status = "status:\n  observedGeneration: 3\n  conditions: [{type: VariablesReady, status: 'True'}]\n  variables:\n  - name: size\n    definitions:\n    - {from: inline, required: false, schema: {openAPIV3Schema: {type: string}}}\n    - {from: finder, required: false, schema: {openAPIV3Schema: {type: string}}}\n  - name: found\n    definitions: [{from: finder, required: false, schema: {openAPIV3Schema: {type: integer}}}]\n";
    let edited = class(&SIZE.replace("type: string, default: s", "type: integer, default: 5"))
        .replace("{name: base}", "{name: base, generation: 3}");
    let cluster = format!("{CLUSTER}    variables: [{{name: size, value: l}}]\n");
    let folder = Folder::new(&[("class.yaml", &format!("{edited}{status}")), ("cluster.yaml", &cluster)]);
    let wrong = "VAR-V-020 FieldValueTypeInvalid spec.topology.variables[size].value";
    let rows = folder.rows(&["class.yaml", "cluster.yaml"]);
    assert_eq!(rows, [row("ClusterClass/base", "CREATE", &[]), row("Cluster/one", "CREATE", &[wrong])]);
    // What an extension has found stays, as long as it is asked, and beside another definition it conflicts.
    let patches = "  patches: [{name: finder, external: {discoverVariablesExtension: find.ext}}]\n";
    fs::write(folder.path("class.yaml"), format!("{edited}{patches}{status}")).unwrap();
    let settled = "VAR-V-002 FieldValueTypeInvalid spec.topology.variables";
    assert_eq!(folder.rows(&["class.yaml", "cluster.yaml"])[1], row("Cluster/one", "CREATE", &[settled]));
    let found = CLUSTER.to_owned() + "    variables: [{name: found, value: x}]\n";
    fs::write(folder.path("cluster.yaml"), found).unwrap();
    fs::write(folder.path("class.yaml"), format!("{}{patches}{status}", edited.replace("name: size", "name: other")))
        .unwrap();
    let wrong = "VAR-V-020 FieldValueTypeInvalid spec.topology.variables[found].value";
    assert_eq!(folder.rows(&["class.yaml", "cluster.yaml"])[1].2, [wrong]);
}

#[test]
fn passwords_are_not_shown() {
    // DEC-34
    let class = class(
        "[{name: key, required: false, schema: {openAPIV3Schema: {type: string, format: password, maxLength: 3}}}, \
         {name: login, required: false, schema: {openAPIV3Schema: {type: object, properties: {users: {type: array, \
         items: {type: object, properties: {key: {type: string, format: password}}}}}}}}]",
    );
    for value in [
        "[{name: key, value: hunter77}]",
        "[{name: key, value: 577}]",
        "[{name: key, value: a77}, {name: key, value: b77}]",
        "[{name: login, value: {users: [{key: a77, age: 5}]}}]",
        "[{name: login, value: {users: [{key: 377}]}}]",
    ] {
        let cluster = format!("{CLUSTER}    variables: {value}\n");
        let folder = Folder::new(&[("class.yaml", &class), ("cluster.yaml", &cluster)]);
        for output in ["text", "short", "json", "sarif", "junit", "github", "markdown", "default"] {
            let command = if output == "default" { vec!["default"] } else { vec!["validate", "-o", output] };
            let (code, out, err) = folder.run(&[&command[..], &["class.yaml", "cluster.yaml"]].concat(), &[]);
            assert_eq!(code, 1, "{value}");
            assert!(!out.contains("77") && !err.contains("77"), "{value}: {out}{err}");
        }
    }
}

#[test]
fn repeated_objects_are_warned_about() {
    let other = class(&SIZE.replace("string, default: s", "integer"));
    let folder = Folder::new(&[("a.yaml", &class(SIZE)), ("b.yaml", &other), ("cluster.yaml", CLUSTER)]);
    let (code, out, _) = folder.run(&["validate", "a.yaml", "b.yaml", "--old", "a.yaml"], &[]);
    assert_eq!(code, 0, "{out}");
    let want = "warning[DEC-32]: the same object is defined again at b.yaml:1; other objects are validated against that \
                one\n --> a.yaml:1:1\n";
    assert!(out.starts_with(want), "{out}");
    let (_, out, _) = folder.run(&["default", "a.yaml", "b.yaml", "cluster.yaml"], &[]);
    assert!(!out.contains("name: size\n      value"), "by the second one size has no default: {out}");
}

#[test]
fn the_api_schema_is_enforced_in_the_version_of_the_file() {
    // DEC-32
    let wrong = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: One}\n\
                 spec:\n  topology:\n    class: ''\n    version: v1.33.0\n    controlPlane: {replica: 3}\n";
    let folder = Folder::new(&[("cluster.yaml", wrong), ("fine.yaml", CLUSTER), ("class.yaml", &class(SIZE))]);
    let required = "CL-D-003 FieldValueRequired spec.topology.classRef.name";
    let schema = ["DEC-32 FieldValueInvalid metadata.name", "DEC-32 FieldValueInvalid spec.topology.class"];
    assert_eq!(folder.rows(&["cluster.yaml"])[0].2, [&[required], &schema[..]].concat());
    let (_, out, _) = folder.run(&["validate", "-o", "short", "cluster.yaml"], &[]);
    let unknown = "cluster.yaml:8:20: warning[DEC-32]: Cluster default/One: spec.topology.controlPlane.replica: unknown \
                   field, which the API server drops\n";
    assert!(out.contains(unknown), "{out}");
    let strict = "DEC-32 FieldValueForbidden spec.topology.controlPlane.replica";
    assert_eq!(folder.rows(&["cluster.yaml", "--strict"])[0].2, [&[required], &schema[..], &[strict]].concat());
    assert_eq!(folder.run(&["validate", "--strict", "fine.yaml", "class.yaml"], &[]).0, 0);
}

#[test]
fn warnings_fail_with_fail_on_warnings() {
    let folder = Folder::new(&[("cluster.yaml", CLUSTER)]);
    let (code, out, _) = folder.run(&["validate", "cluster.yaml"], &[]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("warning[CL-V-052]: ClusterClass default/base does not exist"), "{out}");
    for flags in [&["--fail-on-warnings"][..], &["--fail-on", "warning"]] {
        assert_eq!(folder.run(&[&["validate", "cluster.yaml"], flags].concat(), &[]).0, 1, "{flags:?}");
    }
    assert_eq!(folder.run(&["validate", "--fail-on", "error", "cluster.yaml"], &[]).0, 0);
    assert_eq!(folder.run(&["validate", "-q", "cluster.yaml"], &[]), (0, String::new(), String::new()));
    let (code, out, err) = folder.run(&["validate", "-q", "--fail-on", "warning", "cluster.yaml"], &[]);
    assert!(code == 1 && out.starts_with("warning[CL-V-052]: ") && !out.contains("checked"), "{out}{err}");
}

#[test]
fn variables_of_templates_are_named_or_resolved() {
    // DEC-33
    let template = CLUSTER.replace("one", "${NAME:=one}").replace("1.33.0", "${VERSION}");
    let template = template
        .replace("spec:\n", "  annotations: {script: '$${VERSION} ${#a}'}\nspec:\n")
        .replace("metadata: {name: ${NAME:=one}}\n", "metadata:\n  name: ${NAME:=one}\n");
    let folder = Folder::new(&[("cluster.yaml", &template), ("class.yaml", &class(SIZE))]);
    let (code, out, _) = folder.run(&["validate", "-o", "short", "cluster.yaml", "class.yaml"], &[]);
    assert_eq!(code, 1, "{out}");
    for line in [
        "metadata.name: the variable ${NAME} is not substituted: use --env NAME to take it from the environment",
        "spec.topology.version: the variable ${VERSION} is not substituted",
    ] {
        assert!(out.contains(line), "{line:?} is missing in {out}");
    }
    assert!(!out.contains("script: the variable"), "{out}");
    let named = ["validate", "--env", "VERSION", "cluster.yaml", "class.yaml"];
    let (code, out, _) = folder.run(&named, &[("VERSION", "v1.33.0")]);
    assert_eq!(code, 0, "{out}");
    for named in ["--env=VERSION,NAME", "--env-prefix=VER,NA", "--env-prefix=VER"] {
        let (_, out, err) = folder.run(&["default", named, "cluster.yaml"], &[("VERSION", "1.33.0"), ("NAME", "two")]);
        let object = yaml::documents(&out).pop().unwrap_or_else(|| panic!("{named}: {err}")).unwrap().value;
        let name = if named.ends_with("VER") { "one" } else { "two" };
        assert_eq!(object["metadata"], json!({"name": name, "annotations": {"script": "$${VERSION} ${#a}"}}));
        assert_eq!(object["spec"]["topology"]["version"], "v1.33.0");
    }
    let (code, _, err) = folder.run(&["validate", "--env", "VERSION", "cluster.yaml"], &[]);
    assert_eq!(code, 2);
    assert!(err.contains("cluster.yaml:9:1: the variable ${VERSION} is not set"), "{err}");
}

#[test]
fn defaults_are_written_as_the_webhook_would_store_them() {
    // CL-D-002, CL-D-006
    let other =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {a: 'yes', b: '012', c: \"x\\ny\\n\"}\n";
    let input = [CLUSTER, other, &class(SIZE)].join("---\n");
    let folder = Folder::new(&[("input.yaml", &input)]);
    let (code, out, err) = folder.run(&["default", "input.yaml"], &[]);
    assert_eq!((code, &*err), (0, ""));
    let read = |text: &str| -> Vec<Value> {
        yaml::documents(text).into_iter().map(|document| document.unwrap().value).collect()
    };
    let mut want = read(&input);
    want[0]["spec"]["topology"]["version"] = json!("v1.33.0");
    want[0]["spec"]["topology"]["variables"] = json!([{"name": "size", "value": "s"}]);
    assert_eq!(read(&out), want, "in their order, and nothing else is touched");
    let (_, json, _) = folder.run(&["default", "-o", "json", "input.yaml"], &[]);
    assert_eq!(serde_json::from_str::<Vec<Value>>(&json).unwrap(), want);
    fs::write(folder.path("output.yaml"), &out).unwrap();
    assert_eq!(folder.run(&["default", "output.yaml"], &[]).1, out, "twice is once");
}

#[test]
fn references_are_bound_to_a_namespace_that_the_file_names() {
    // DEC-3
    let class = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: ClusterClass\nmetadata: {name: base}\n\
                 spec:\n  infrastructure: {ref: {apiVersion: a.b/v1, kind: ATemplate, name: t}}\n  controlPlane: {ref: {apiVersion: a.b/v1, kind: ATemplate, name: t, namespace: here}}\n";
    let named = class.replace("{name: base}", "{name: base, namespace: here}");
    let folder = Folder::new(&[("class.yaml", class), ("named.yaml", &named)]);
    for (file, want) in [("class.yaml", json!(null)), ("named.yaml", json!("here"))] {
        let (code, out, err) = folder.run(&["default", file], &[]);
        assert_eq!((code, &*err), (0, ""), "{file}");
        let object = yaml::documents(&out).remove(0).unwrap().value;
        assert_eq!(object["spec"]["infrastructure"]["ref"]["namespace"], want, "{file}");
    }
}

#[test]
fn nothing_is_written_when_an_object_is_denied() {
    let wrong = format!("{CLUSTER}    variables: [{{name: size, value: 5}}]\n");
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("cluster.yaml", &wrong)]);
    let (code, out, err) = folder.run(&["default", "class.yaml", "cluster.yaml"], &[]);
    assert_eq!((code, &*out), (1, ""));
    assert!(
        err.starts_with("error[VAR-V-020]: Invalid value: \"5\": must be of type string")
            && err.contains(" --> cluster.yaml:8:37\n")
            && err.contains(" = note: spec.topology.variables[size].value of Cluster default/one\n"),
        "{err}"
    );
    let folder = Folder::new(&[("cluster.yaml", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nspec: 5\n")]);
    let (code, out, err) = folder.run(&["default", "cluster.yaml"], &[]);
    assert_eq!((code, &*out), (1, ""));
    assert!(err.contains("error[ADM-003]: the object does not decode: spec"), "{err}");
}

#[test]
fn written_manifests_read_back_unchanged() {
    let texts = [
        "y",
        "n",
        "on",
        "~",
        "null",
        "",
        "012",
        "0o7",
        "0x1f",
        "1_000",
        "1e3",
        ".5",
        "190:20:30",
        "2001-01-01",
        "<<",
        "=",
        "a: b",
        "- a",
        "# c",
        "a #b",
        "\n",
        "a\nb",
        "a\nb\n",
        "  lead",
        "trail ",
        "\t",
        "*a",
        "&a",
        "!t",
        "%x",
        "@x",
        "`x",
        "'q'",
        "\"q\"",
        "{",
        "[",
        ",a",
        "?",
        ": a",
        "|",
        ">",
        "é",
        "\u{1F600}",
        "\u{85}",
        "\u{2028}",
        ".inf",
        "+1",
        "-",
        "--",
        "---",
        "...",
        "a:",
        "0b11",
        "-0",
        "a\r\nb",
        "\u{0}",
        "x: {{ .a }}\n  y: 1\n\nz",
        "line\n\n\nline\n\n",
        " \n a",
    ];
    let data: serde_json::Map<String, Value> =
        texts.iter().map(|text| ((*text).to_owned(), json!([text, 1.5, 10]))).collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let folder = Folder::new(&[("input.json", &object.to_string())]);
    let (_, out, _) = folder.run(&["default", "input.json", "--allow-empty"], &[]);
    let read = yaml::documents(&out);
    assert_eq!(read.len(), 1, "{out}");
    assert_eq!(read[0].as_ref().unwrap().value.to_string(), object.to_string(), "{out}");
}

#[test]
fn every_shell_gets_its_completions() {
    let folder = Folder::new(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, err) = folder.run(&["completions", shell], &[]);
        assert_eq!((code, &*err), (0, ""), "{shell}");
        assert!(out.contains("fail-on-warnings") && out.contains("validate"), "{shell}: {out}");
    }
    assert_eq!(folder.run(&["completions", "cmd"], &[]).0, 2);
}
