//! One mistake at a time in a bundle of each provider's shape, and everything that `validate` finds then.
//!
//! `fixtures/mistakes/<bundle>.yaml` lists the mistakes that are made in `fixtures/providers/<bundle>` ([`Mistake`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{fs, thread};

use serde::Deserialize;
use serde_json::Value;
use topologist::yaml;

use crate::harness::server::command;

pub const BUNDLES: [&str; 5] = ["aws", "azure", "docker", "in-memory", "vsphere"];

/// What each kind of the bundle becomes.
type Changes = BTreeMap<String, json_patch::Patch>;

/// Words by object, which is `<kind>/<name>`.
type Messages = BTreeMap<String, Vec<String>>;

/// A mistake, and what has to be said about it; nothing else may be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    mistake: String,
    /// What differs from the bundle in the files that are judged.
    #[serde(default)]
    new: Changes,
    /// The same as an edit of the text, for what is lost when it is parsed.
    text: Option<Edit>,
    /// Kinds that the files lack.
    #[serde(default)]
    deleted: Vec<String>,
    /// What differs from the bundle in the `--old` files; there are none without it.
    old: Option<Changes>,
    #[serde(default)]
    flags: Vec<String>,
    /// Every error of every object in order: rule, type and field.
    #[serde(default)]
    errors: Messages,
    /// What the messages of errors must contain.
    #[serde(default)]
    says: Vec<String>,
    /// A part of every warning in order.
    #[serde(default)]
    warnings: Messages,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    from: String,
    to: String,
}

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

fn bundle(name: &str) -> String {
    fs::read_to_string(root("providers").join(name).join("bundle.yaml")).unwrap()
}

fn mistakes(bundle: &str) -> Vec<Mistake> {
    let text = fs::read_to_string(root("mistakes").join(format!("{bundle}.yaml"))).unwrap();
    serde_json::from_value(yaml::value(&text).unwrap()).unwrap_or_else(|error| panic!("{bundle}: {error}"))
}

/// The bundle with these changes, without these kinds.
fn changed(bundle: &str, changes: &Changes, without: &[String]) -> String {
    let mut text = String::new();
    for document in yaml::documents(bundle) {
        let mut object = document.unwrap().value;
        let kind = object["kind"].as_str().unwrap().to_owned();
        if let Some(patch) = changes.get(&kind) {
            json_patch::patch(&mut object, patch).unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
        if !without.contains(&kind) {
            let _ = writeln!(text, "---\n{object}");
        }
    }
    text
}

impl Mistake {
    fn files(&self, bundle: &str) -> (String, Option<String>) {
        let mut text = bundle.to_owned();
        if let Some(Edit { from, to }) = &self.text {
            assert_eq!(text.matches(from).count(), 1, "{}: {from:?}", self.mistake);
            text = text.replace(from, to);
        }
        let new = changed(&text, &self.new, &self.deleted);
        // What is not parsed on the way stays as somebody would write it.
        let new = if self.new.is_empty() && self.deleted.is_empty() { text } else { new };
        (new, self.old.as_ref().map(|old| changed(bundle, old, &[])))
    }

    /// What differs from the expectation, in words; empty when nothing does.
    fn differences(&self, bundle: &str) -> String {
        let (new, old) = self.files(bundle);
        let (rows, complaints) = validate(&new, old.as_deref(), &self.flags);
        let mut text = String::new();
        let errors = messages(&rows, "errors", |error| {
            let part = |name: &str| error[name].as_str().unwrap();
            format!("{} {} {}", part("rule"), part("type"), part("field")).trim_end().to_owned()
        });
        if errors != self.errors {
            let _ = writeln!(text, "  errors: {errors:#?}\n    want: {:#?}", self.errors);
        }
        let details = messages(&rows, "errors", |error| error["detail"].as_str().unwrap().to_owned());
        let details: Vec<&String> = details.values().flatten().collect();
        for words in self.says.iter().filter(|words| !details.iter().any(|detail| detail.contains(&***words))) {
            let _ = writeln!(text, "  {words:?} is missing in {details:#?}");
        }
        let warnings = messages(&rows, "warnings", |warning| warning.as_str().unwrap().to_owned());
        let named = |object: &String, parts: &Vec<String>| {
            let messages = warnings.get(object).map_or(&[][..], Vec::as_slice);
            messages.len() == parts.len() && messages.iter().zip(parts).all(|(warning, part)| warning.contains(part))
        };
        let objects: BTreeSet<_> = warnings.keys().chain(self.warnings.keys()).collect();
        let none = Vec::new();
        if !objects.into_iter().all(|object| named(object, self.warnings.get(object).unwrap_or(&none))) {
            let _ = writeln!(text, "  warnings: {warnings:#?}\n    want: {:#?}", self.warnings);
        }
        if !complaints.is_empty() {
            let _ = writeln!(text, "  on standard error: {complaints}");
        }
        text
    }
}

/// The bundles of all providers with each mistake.
pub fn mistaken_bundles() -> Vec<String> {
    let of = |name: &&str| {
        let bundle = bundle(name);
        mistakes(name).iter().map(|mistake| mistake.files(&bundle).0).collect::<Vec<_>>()
    };
    BUNDLES.iter().flat_map(of).collect()
}

/// The rows of `validate -o json`, and what it writes to standard error.
fn validate(new: &str, old: Option<&str>, flags: &[String]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("new.yaml"), new).unwrap();
    let mut command = command(&["validate", "-o", "json", "--format-version", "1", "new.yaml"]);
    command.current_dir(folder.path()).args(flags);
    if let Some(old) = old {
        fs::write(folder.path().join("old.yaml"), old).unwrap();
        command.args(["--old", "old.yaml"]);
    }
    let output = command.output().unwrap();
    let complaints = String::from_utf8(output.stderr).unwrap();
    let rows: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaints}"));
    let denied = rows.iter().any(|row| row["allowed"] == false);
    assert_eq!(output.status.code(), Some(i32::from(denied)), "{complaints}");
    (rows, complaints)
}

/// What a list of each row says, without rows that say nothing.
fn messages(rows: &[Value], list: &str, say: impl Fn(&Value) -> String) -> Messages {
    let object = |row: &Value| format!("{}/{}", row["kind"].as_str().unwrap(), row["name"].as_str().unwrap());
    let words = |row: &Value| row[list].as_array().unwrap().iter().map(&say).collect::<Vec<_>>();
    rows.iter().map(|row| (object(row), words(row))).filter(|(_, words)| !words.is_empty()).collect()
}

#[test]
fn every_mistake_gives_the_errors_of_the_rule_book_and_no_others() {
    let failures: String = thread::scope(|scope| {
        let judge = |name: &'static str| {
            let judge = move || {
                let bundle = bundle(name);
                let mut failures = String::new();
                for mistake in mistakes(name) {
                    let differences = mistake.differences(&bundle);
                    if !differences.is_empty() {
                        let _ = writeln!(failures, "{name}: {}:\n{differences}", mistake.mistake);
                    }
                }
                failures
            };
            scope.spawn(judge)
        };
        BUNDLES.map(judge).into_iter().map(|bundle| bundle.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn a_bundle_that_stays_as_it_is_has_no_errors() {
    for name in BUNDLES {
        let bundle = bundle(name);
        let (rows, complaints) = validate(&bundle, Some(&bundle), &["--strict".to_owned()]);
        assert_eq!((rows.len(), &*complaints), (2, ""), "{name}");
        for row in rows {
            assert_eq!((&row["operation"], &row["allowed"]), (&Value::from("UPDATE"), &Value::from(true)), "{row}");
            assert_eq!(row["warnings"], Value::Array(Vec::new()), "{row}");
        }
    }
}

#[test]
fn every_mistake_differs_from_the_others_and_is_noticed() {
    for name in BUNDLES {
        let mut seen = BTreeSet::new();
        for mistake in mistakes(name) {
            assert!(!mistake.errors.is_empty() || !mistake.warnings.is_empty(), "{name}: {}", mistake.mistake);
            assert!(seen.insert(mistake.mistake.clone()), "{name}: {} comes twice", mistake.mistake);
        }
    }
}
