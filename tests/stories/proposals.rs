//! Examples as they stand in proposals: refused, or spoken of, in words that help; and accepted once they are mended.
//!
//! A folder of `fixtures/proposals` holds `unmended.yaml`, what `validate` says of it (`said.txt`: standard output,
//! then standard error), and `mended.yaml`.

use std::fs;
use std::path::{Path, PathBuf};

use topologist::yaml;

use crate::harness::server::{command, without_not_checked};

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/proposals");
    let mut folders: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = command(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_incomplete_example_gets_helpful_errors() {
    for folder in folders() {
        let (code, out, err) = run(&folder, &["validate", "unmended.yaml"]);
        let want = fs::read_to_string(folder.join("said.txt")).unwrap();
        assert_eq!(out + &err, want, "{}", folder.display());
        assert_ne!(code, 0, "{}", folder.display());
    }
}

#[test]
fn a_corrected_example_is_accepted_and_gets_its_defaults() {
    for folder in folders() {
        let name = folder.display();
        let (code, out, err) = run(&folder, &["validate", "--strict", "--fail-on-warnings", "mended.yaml"]);
        assert_eq!((code, &*without_not_checked(&err)), (0, ""), "{name}: {out}");
        let (code, completed, err) = run(&folder, &["default", "mended.yaml"]);
        assert_eq!((code, &*err), (0, ""), "{name}");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("completed.yaml"), &completed).unwrap();
        assert_eq!(
            run(elsewhere.path(), &["default", "completed.yaml"]),
            (0, completed.clone(), String::new()),
            "{name}"
        );
        let (code, out, _) = run(elsewhere.path(), &["validate", "--strict", "--fail-on-warnings", "completed.yaml"]);
        assert_eq!(code, 0, "{name}: {out}");
    }
}

#[test]
fn corrected_examples_get_their_defaults() {
    for (folder, cluster, variables) in [
        ("curly-quotes", "orchids", vec![("climate", "tropical"), ("stoveSize", "two-logs")]),
        (
            "discovered-variables",
            "winter-guests",
            vec![("night-porter", "ring://porter.example:2200"), ("quiet-hours", "22-06")],
        ),
        ("gaps", "vintage", vec![("slope", "south")]),
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/proposals").join(folder);
        let (_, out, _) = run(&root, &["default", "mended.yaml"]);
        let mut objects = yaml::documents(&out).into_iter().map(|document| document.unwrap().value);
        let found =
            objects.find(|object| object["kind"] == "Cluster" && object["metadata"]["name"] == cluster).unwrap();
        let topology = &found["spec"]["topology"];
        let set = topology["variables"].as_array().unwrap().iter();
        let set: Vec<_> = set.map(|set| (set["name"].as_str().unwrap(), set["value"].as_str().unwrap())).collect();
        assert_eq!(set, variables, "{folder}");
        assert!(topology["version"].as_str().unwrap().starts_with("v1."), "{folder}");
    }
}
