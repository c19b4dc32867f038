//! The command line as a person uses it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::server::{command, without_not_checked};

fn run(arguments: &[&str]) -> (i32, String, String) {
    finish(command(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap())
}

fn finish(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn run_with_input(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child =
        command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    finish(child.wait_with_output().unwrap())
}

#[test]
fn bundles_of_every_provider_shape_are_allowed() {
    for provider in ["aws", "azure", "docker", "in-memory", "vsphere"] {
        let (code, out, err) = run(&["validate", &format!("fixtures/providers/{provider}")]);
        assert_eq!((code, &*without_not_checked(&err)), (0, ""), "{provider}: {out}");
        assert!(out.ends_with("2 checked, 2 allowed, 0 denied\n"), "{provider}: {out}");
        assert!(!out.contains("warning"), "{provider}: {out}");
    }
    let (code, out, _) = run(&["validate", "fixtures/quick-start"]);
    assert_eq!(code, 0, "{out}");
}

const WRONG: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.0.0.0]}}
  topology: {classRef: {name: absent}, version: \"1.33\"}
";

#[test]
fn a_denied_object_is_shown_with_file_line_rule_and_path() {
    let (code, out, _) = run_with_input(&["validate", "-"], &format!("# a comment\n{WRONG}"));
    assert_eq!(code, 1);
    let want = r#"warning[CL-V-052]: ClusterClass default/absent does not exist: the topology could not be fully validated. Create it before this Cluster is used
 --> <stdin>:7:31
  |
7 |   topology: {classRef: {name: absent}, version: "1.33"}
  |                               ^^^^^^
  |
  = note: spec.topology.classRef.name of Cluster default/one

error[CL-V-005]: Invalid value: "10.0.0.0": must be an address range in CIDR notation, such as 192.168.0.0/16 or fd00::/48
 --> <stdin>:6:40
  |
6 |   clusterNetwork: {pods: {cidrBlocks: [10.0.0.0]}}
  |                                        ^^^^^^^^
  |
  = note: spec.clusterNetwork.pods.cidrBlocks[0] of Cluster default/one

error[CL-V-013]: Invalid value: "v1.33": must be a full semantic version such as v1.33.0: unexpected end of input while parsing minor version number
 --> <stdin>:7:49
  |
7 |   topology: {classRef: {name: absent}, version: "1.33"}
  |                                                 ^^^^^^
  |
  = note: spec.topology.version of Cluster default/one

denied: Cluster default/one
1 checked, 0 allowed, 1 denied
"#;
    assert_eq!(out, want);
}

#[test]
fn json_results_have_the_documented_shape() {
    let (code, out, _) = run_with_input(&["validate", "-o", "json", "--format-version", "1", "-"], WRONG);
    assert_eq!(code, 1);
    let rows: Value = serde_json::from_str(&out).unwrap();
    let row = &rows[0];
    let error = |rule: &str, field: &str| (json!(rule), json!("FieldValueInvalid"), json!(field));
    let got: Vec<_> = row["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["rule"].clone(), e["type"].clone(), e["field"].clone()))
        .collect();
    assert_eq!(
        got,
        [error("CL-V-005", "spec.clusterNetwork.pods.cidrBlocks[0]"), error("CL-V-013", "spec.topology.version")]
    );
    assert_eq!(row["patch"], json!([{"op": "add", "path": "/spec/topology/version", "value": "v1.33"}]));
    let mut keys: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let want = [
        "allowed",
        "apiVersion",
        "errors",
        "file",
        "kind",
        "name",
        "namespace",
        "notChecked",
        "operation",
        "patch",
        "warnings",
    ];
    assert_eq!(keys, want);
    assert_eq!(
        (&row["allowed"], &row["namespace"], &row["operation"]),
        (&json!(false), &json!("default"), &json!("CREATE"))
    );
}

#[test]
fn unreadable_input_exits_with_2_and_reports_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let broken = file("broken.yaml", b"a: 1\n---\nb:\n  - c\n d: 2\n");
    for (path, words) in [
        (broken.clone(), format!("{broken}:5:")),
        (file("binary.yaml", b"\xff\xfe"), "is not text in UTF-8".to_owned()),
        (file("empty.yaml", b""), "nothing was checked: no Cluster and no ClusterClass was found; the input holds no objects; use --allow-empty".to_owned()),
        (file("list.yaml", b"- 1\n"), "is not an object with apiVersion and kind".to_owned()),
        (file("kindless.yaml", b"a: 1\n"), "has no apiVersion or no kind".to_owned()),
        (folder.path().join("absent.yaml").display().to_string(), "No such file".to_owned()),
    ] {
        let (code, _, err) = run(&["validate", &path]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(&words), "{words:?} is missing in {err:?}");
    }
    // What can be read is judged all the same.
    let good = file("good.yaml", WRONG.as_bytes());
    let (code, out, _) = run(&["validate", &broken, &good]);
    assert_eq!(code, 2);
    assert!(out.contains("1 checked, 0 allowed, 1 denied"), "{out}");
}

#[test]
fn other_kinds_are_skipped_and_unknown_versions_are_errors() {
    let mixed = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n---\n{WRONG}");
    let (code, out, err) = run_with_input(&["validate", "-"], &mixed);
    assert_eq!((code, &*err), (1, ""));
    assert!(out.ends_with("1 checked, 0 allowed, 1 denied\n"), "{out}");
    let (code, out, _) = run_with_input(&["validate", "-"], &WRONG.replace("v1beta2", "v7"));
    assert_eq!(code, 1);
    assert!(out.contains("unknown version cluster.x-k8s.io/v7 of Cluster"), "{out}");
}

#[test]
fn wrong_usage_exits_with_2_and_reports_what_is_right() {
    for (arguments, words) in [
        (&["validate"][..], "<PATH>"),
        (&["valdiate"], "validate"),
        (&["validate", "--no-such-flag", "x"], "--no-such-flag"),
        (&["validate", "--feature-gates", "Nope=true", "x"], "unknown feature gate \"Nope\""),
        (&["validate", "--feature-gates", "InPlaceUpdates=true", "x"], "in-place updates are not supported"),
        (&["serve"], "--embedded (with --load PATH), or --kubeconfig FILE"),
        (&["serve", "--load", "x"], "--embedded"),
        (&["serve", "--embedded", "--kubeconfig", "x"], "cannot be used with"),
        (&["plan", "--from", "a", "--to", "b", "--kubeconfig", "x"], "cannot be used with"),
        (&["plan", "--from", "a", "--to", "b", "--dry-run=server"], "cannot be used with"),
        (&["serve", "--embedded", "--webhook-addr", "nowhere"], "--webhook-addr"),
        (&["serve", "--embedded", "--tls-cert", "x"], "--tls-key"),
        (&["serve", "--embedded", "--load", "/does/not/exist"], "cannot read /does/not/exist"),
        (&["serve", "--kubeconfig", "/does/not/exist"], "cannot read /does/not/exist"),
        (&["serve", "--embedded", "--namespace", "a,B"], "--namespace: \"B\" is neither a namespace"),
        (&["serve", "--embedded", "--api-addr", "nowhere"], "--api-addr"),
        (&["serve", "--embedded", "--controllers", "cluster"], "unknown controller \"cluster\""),
        (&["serve", "--embedded", "--lease-duration", "1s"], "must be at least 2s"),
        (&["serve", "--embedded", "--log", "topologist=loud"], "log filter"),
        (&["certs", "--days", "0"], "--days"),
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {words:?} is missing in {err}");
    }
}

#[test]
fn crds_are_printed_as_yaml() {
    let (code, out, err) = run(&["crds"]);
    assert_eq!((code, &*err), (0, ""));
    let all: Vec<Value> = yaml::documents(&out).into_iter().map(|document| document.unwrap().value).collect();
    assert_eq!(all, topologist::crd::definitions(), "what is printed reads back as what was meant");
}

#[test]
fn certs_writes_a_usable_pair_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("dev").display().to_string();
    let (code, text, _) = run(&["certs", "--out", &out, "--host", "example.test"]);
    assert_eq!((code, text.lines().count()), (0, 4), "{text}");
    for (name, mode) in [("ca.crt", 0o644), ("ca.key", 0o600), ("tls.crt", 0o644), ("tls.key", 0o600)] {
        use std::os::unix::fs::PermissionsExt;
        let permissions = fs::metadata(Path::new(&out).join(name)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{name}");
    }
    let before = fs::read(Path::new(&out).join("ca.crt")).unwrap();
    let (code, _, err) = run(&["certs", "--out", &out]);
    assert_eq!(code, 2);
    assert!(err.contains("use --force to replace it"), "{err}");
    assert_eq!(fs::read(Path::new(&out).join("ca.crt")).unwrap(), before);
    assert_eq!(run(&["certs", "--out", &out, "--force"]).0, 0);
}
