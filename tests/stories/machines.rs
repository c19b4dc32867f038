//! What docs/machines.md says of machines is so, and no controller decides by a phase; in the modules, machines from
//! apply to deletion, by kubectl.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};
use topologist::lifecycle::settings::{Timings, TimingsFile, read};
use topologist::yaml;

#[path = "../machines/mod.rs"]
mod both;
mod external_control_planes;
mod flags;
mod foreseen;
mod backend;
mod providers;

pub use both::server;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document() -> String {
    fs::read_to_string(root().join("docs/machines.md")).unwrap()
}

/// The names that a message offers, as in "expected one of `a`, `b`".
fn offered(message: &str) -> BTreeSet<String> {
    let (_, names) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
    let quoted = Regex::new("`([A-Za-z]+)`").unwrap();
    quoted.captures_iter(names).map(|found| found[1].to_owned()).collect()
}

#[test]
fn the_file_of_timings_in_the_document_has_all_names_and_their_defaults() {
    let text = document();
    let (_, rest) = text.split_once("```yaml\n# timings.yaml\n").unwrap();
    let file = rest.split("```").next().unwrap();
    let TimingsFile { timings, failures, .. } = read(file).unwrap();
    assert_eq!(timings, Timings::default());
    let shown: BTreeSet<String> =
        file.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect();
    let timed = offered(&read("nothing: 1s").unwrap_err().to_string());
    assert!(timed.len() >= 9 && timed.is_subset(&shown), "{timed:?} of {shown:?}");
    assert!(!failures.is_empty(), "there are examples of failures");
    for (member, value) in [("what", "nothing"), ("nothing", "1")] {
        let known = offered(&read(&format!("failures: [{{{member}: {value}}}]")).unwrap_err().to_string());
        let is_named = |name: &&String| !text.contains(&format!("`{name}`"));
        let missing: Vec<_> = known.iter().filter(is_named).collect();
        assert!(known.len() >= 3 && missing.is_empty(), "the document does not explain {missing:?}");
    }
}

/// The members of `failure` in the schema of an embedded kind.
fn members_of_failure(kind: &str) -> BTreeSet<String> {
    let wanted = json!(kind);
    let of_kind = |definition: &Value| definition["spec"]["names"]["kind"] == wanted;
    let definition = topologist::crd::definitions().into_iter().find(of_kind).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let path = "/properties/spec/properties/backend/properties/inMemory/properties/failure/properties";
    let members = schema.pointer(path).unwrap_or_else(|| panic!("{kind} cannot fail")).as_object().unwrap();
    members.keys().cloned().collect()
}

#[test]
fn failures_of_a_spec_are_explained_with_an_example() {
    let text = document();
    let (_, table) = text.split_once("| member of `failure` | says |\n").unwrap();
    let table = table.split("\n\n").next().unwrap();
    let explained: BTreeSet<String> =
        Regex::new("(?m)^[|] `([a-z]+)` [|]").unwrap().captures_iter(table).map(|found| found[1].to_owned()).collect();
    assert_eq!(explained, members_of_failure("EmbeddedMachine"));
    let with_part: BTreeSet<String> =
        members_of_failure("EmbeddedCluster").into_iter().chain(["part".into()]).collect();
    assert_eq!(explained, with_part, "an EmbeddedCluster has the same without a part");
    let (_, rest) = text.split_once("```yaml\n# failing.yaml\n").unwrap();
    let shown: Vec<Value> =
        rest.split("```").next().unwrap().split("---\n").map(|one| yaml::value(one).unwrap()).collect();
    let (machines, cluster) = ("/spec/template/spec/backend/inMemory/failure", "/spec/backend/inMemory/failure");
    let examples = [
        ("EmbeddedMachineTemplate", machines, explained),
        ("EmbeddedCluster", cluster, members_of_failure("EmbeddedCluster")),
    ];
    for (object, (kind, path, members)) in shown.iter().zip(examples) {
        assert_eq!(object["kind"], kind);
        let failure = object.pointer(path).unwrap().as_object().unwrap();
        assert_eq!(failure.keys().cloned().collect::<BTreeSet<_>>(), members, "the example of {kind} has all members");
    }
    let parts = offered(&read("failures: [{what: nothing}]").unwrap_err().to_string());
    let (_, row) = table.split_once("| `part` |").unwrap();
    let row = row.lines().next().unwrap();
    assert!(parts.len() >= 4 && parts.iter().all(|part| row.contains(&format!("`{part}`"))), "{parts:?}");
}

/// Code that reads the phase of an object: its path, its name where no value follows, or the function that returns it.
static READS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"status\.phase\b|status::PHASE\b|\.phase\(\)|"/?(?:status/)?phase"\s*[^\s:]|conditions::(?:phase\b|\{[^}]*\bphase\b)"#).unwrap()
});

/// Code that sets the phase, in one call.
static SETS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\bset\(\s*&?\s*(?:mut )?[a-z_.]+,\s*(?:"status\.phase"|(?:paths::)?status::PHASE)"#).unwrap()
});

/// Files that may read phases, each with the reason.
const MAY_READ: [(&str, &str); 9] = [
    ("crates/model/src/crd/", "columns, and schemas"),
    ("crates/model/src/hub/object/fields.rs", "the function for those who show it"),
    ("crates/model/src/hub/paths.rs", "the path"),
    ("crates/apiserver/src/", "the API server: columns and field selectors"),
    ("crates/machines/src/lifecycle/conditions.rs", "the function for those who show it"),
    ("crates/machines/src/lifecycle/machine/pods.rs", "the phase of a Pod"),
    ("crates/server/src/reconciler/lifecycle/store.rs", "the metric"),
    ("crates/simulation/src/", "what is printed"),
    ("src/cli/", "what is printed"),
];

/// Code of a file without comments and tests.
fn code(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The reads of phases in code, each with its line.
fn reads(source: &str) -> Vec<String> {
    let code = SETS.replace_all(&code(source), "set(").into_owned();
    code.lines().filter(|line| READS.is_match(line)).map(|line| line.trim().to_owned()).collect()
}

fn sources() -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root().join("src"), root().join("crates")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let place = path.strip_prefix(root()).unwrap().display().to_string();
                found.insert(place, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// A phase is computed from the one before, in a file of its own.
fn writes_phases(place: &str) -> bool {
    place.starts_with("crates/machines/src/lifecycle/") && place.ends_with("/phase.rs")
}

fn is_test(place: &str) -> bool {
    place.ends_with("/tests.rs") || place.ends_with("/testing.rs") || place.contains("/tests/")
}

#[test]
fn no_controller_reads_a_phase() {
    // MA-2.5
    let sources = sources();
    assert!(sources.len() > 300);
    let may_read = |place: &str| MAY_READ.iter().any(|(start, _)| place.starts_with(start)) || writes_phases(place);
    let others = sources.iter().filter(|(place, _)| !may_read(place) && !is_test(place));
    let found: Vec<String> = others
        .flat_map(|(place, source)| reads(source).into_iter().map(move |line| format!("{place}: {line}")))
        .collect();
    assert!(found.is_empty(), "the phase is for people; decide by other fields:\n{}", found.join("\n"));
    let metric = &sources["crates/server/src/reconciler/lifecycle/store.rs"];
    assert!(!reads(metric).is_empty(), "the reads that there are, are found");
}

#[test]
fn reads_of_phases_are_found() {
    for (code, is_read) in [
        ("if text(machine, \"status.phase\") == \"Running\" {}", true),
        ("cluster.status.phase.is_empty()", true),
        ("object[\"status\"][\"phase\"].as_str()", true),
        ("object.pointer(\"/status/phase\")", true),
        ("use super::conditions::{get, phase};", true),
        ("crate::lifecycle::conditions::phase(object)", true),
        ("set(after, \"status.phase\", json!(phase));", false),
        ("set(&mut work.machine, \"status.phase\", json!(phase.name()));", false),
        ("machine.text(paths::status::PHASE)", true),
        ("machine.phase() == \"Running\"", true),
        ("set(after, paths::status::PHASE, json!(phase));", false),
        ("json!({\"status\": {\"phase\": \"Running\"}})", false),
        ("/// `status.phase` of a Machine", false),
        ("hook.phase == Phase::Default", false),
    ] {
        assert_eq!(!reads(code).is_empty(), is_read, "{code}");
    }
}
