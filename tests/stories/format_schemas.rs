//! The JSON Schemas of the program's own formats, and input files that are checked by them.

use std::fs;

use serde_json::Value;
use topologist::yaml;

use crate::harness::server::command;

fn schema(name: &str) -> Value {
    let output = command(&["schema", name]).output().unwrap();
    assert!(output.status.success(), "{name}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The blocks of a document that are in a language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(document).unwrap();
    let open = format!("```{language}\n");
    text.split(&open).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn are_valid_and_have_a_title_and_an_identifier() {
    // DEC-63
    for name in ["findings", "plan", "timings", "recording"] {
        let schema = schema(name);
        jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        let id = schema["$id"].as_str().unwrap();
        assert!(id.contains(&format!("/{name}-")) && schema["title"].is_string(), "{id}");
    }
}

#[test]
fn accept_the_documented_files() {
    // DEC-63
    let timings = jsonschema::validator_for(&schema("timings")).unwrap();
    let documented: Vec<Value> = blocks("docs/machines.md", "yaml")
        .iter()
        .filter(|block| block.starts_with("# timings.yaml"))
        .map(|block| yaml::value(block).unwrap())
        .collect();
    assert_eq!(documented.len(), 1);
    assert!(timings.is_valid(&documented[0]));
    // It names every timing.
    let known = schema("timings")["properties"].as_object().unwrap().len();
    assert_eq!(documented[0].as_object().unwrap().len(), known);
}

#[test]
fn mistakes_in_input_files_have_a_place() {
    // DEC-63
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = command(arguments).current_dir(folder.path()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let quick_start = format!("{}/fixtures/quick-start", env!("CARGO_MANIFEST_DIR"));
    fs::write(folder.path().join("t.yaml"), "node: 1s\nfailures:\n- machin: 1\n  what: node\n").unwrap();
    let (code, err) = run(&["simulate", &quick_start, "--timings", "t.yaml"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("t.yaml:3:3: failures[0]: unknown key \"machin\"; did you mean machine?"), "{err}");
    fs::write(folder.path().join("t.yaml"), "node: 1s\n---\nnode: 2s\n").unwrap();
    let (code, err) = run(&["simulate", &quick_start, "--timings", "t.yaml"]);
    assert!(code == 2 && err.contains("t.yaml:3: there is a second document, but the format has one"), "{err}");
    let recording = r#"{"format": "topologist.dev/extension-recording/v1",
  "extensions": [{"name": "a", "discovery": {}, "call": []}]}"#;
    fs::write(folder.path().join("r.json"), recording).unwrap();
    let (code, err) = run(&["render", &quick_start, "--extension", "a=r.json"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("r.json:2:49: extensions[0]: unknown key \"call\"; did you mean calls?"), "{err}");
}

#[test]
fn failures_alone_leave_the_durations_as_they_are() {
    // DEC-63
    let folder = tempfile::tempdir().unwrap();
    let quick_start = format!("{}/fixtures/quick-start", env!("CARGO_MANIFEST_DIR"));
    let run = |text: &str| {
        fs::write(folder.path().join("t.yaml"), text).unwrap();
        let mut command = command(&["simulate", &quick_start, "--timings", "t.yaml"]);
        let output = command.current_dir(folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let defaults = "Durations are defaults; use --timings to set those of your environment.";
    assert!(run("failures: [{machine: 1, what: node}]\n").contains(defaults));
    assert!(!run("node: 9s\n").contains(defaults));
}
