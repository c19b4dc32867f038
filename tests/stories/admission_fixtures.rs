//! Fixtures of the admission rules, found by walking `fixtures/admission`.
//!
//! A fixture is a folder: `new.<version>.yaml` (or `.json`) alone is a create, with `old.<version>.yaml` an update,
//! `old` alone a delete. `world.yaml` holds the other objects, of whatever kinds; a Cluster or ClusterClass that does
//! not decode is an unreadable object. `want.yaml` says what must come of it ([`Want`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use topologist::admission::{
    AdmissionOutcome, AdmissionSettings, DecodedRequest, Dependents, Deprecated, Operation, Phase, RawRequest, Verdict,
    catalogue,
};
use topologist::hub::{Cluster, ClusterClass, Kind, ResourceDefinition};
use topologist::wire::manifest::{self, Manifest};
use topologist::wire::{Decode, WireVersion};
use topologist::world::{Answer, Facts, Found, Need, NodesOf, ObjectSet, Record, World, settle_at_once};
use topologist::yaml;

/// What a fixture expects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Want {
    /// The ids that the fixture is about.
    rules: Vec<String>,
    /// `validate` (the default) or `default`.
    #[serde(default)]
    phase: String,
    #[serde(default)]
    feature_gates: String,
    /// `deny` (the default), `warn` or `off`: what becomes of changes of a class that break Clusters.
    #[serde(default)]
    dependents: String,
    #[serde(default)]
    refuse_refs_with_topology: bool,
    /// `warn` (the default) or `deny`: what becomes of a Cluster that sets what its class deprecates.
    #[serde(default)]
    deprecated: String,
    /// Kinds of which the world has no list yet.
    #[serde(default)]
    not_listed: Vec<String>,
    /// Whether the world is a running cluster, which is asked, and not files.
    #[serde(default)]
    live: bool,
    /// Kinds that cannot be read in a running cluster, each with the reason.
    #[serde(default)]
    unreadable: BTreeMap<String, String>,
    /// `allowed`, `invalid`, `forbidden`, `undecodable` or `unknown`.
    outcome: String,
    /// Every error in order, for `invalid`.
    #[serde(default)]
    errors: Vec<WantError>,
    /// Words that the message of a denial must contain.
    #[serde(default)]
    message: Vec<String>,
    /// Words of each warning in order.
    #[serde(default)]
    warnings: Vec<Vec<String>>,
    #[serde(default)]
    not_checked: Vec<String>,
    #[serde(default)]
    patch: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WantError {
    rule: String,
    r#type: String,
    field: String,
    /// Words that the detail must contain.
    #[serde(default)]
    names: Vec<String>,
}

struct Fixture {
    name: String,
    kind: Kind,
    new: Option<(WireVersion, String)>,
    old: Option<(WireVersion, String)>,
    world: Vec<Manifest>,
    want: Want,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/admission")
}

fn fixtures() -> Vec<Fixture> {
    let mut all = Vec::new();
    for (folder, kind) in [
        ("cluster", Kind::Cluster),
        ("cluster-class", Kind::ClusterClass),
        ("machine", Kind::Machine),
        ("machine-deployment", Kind::MachineDeployment),
        ("machine-health-check", Kind::MachineHealthCheck),
        ("machine-set", Kind::MachineSet),
    ] {
        let mut folders: Vec<_> =
            fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        all.extend(folders.iter().flat_map(|path| Fixture::read(path, kind)));
    }
    all
}

impl Fixture {
    /// The fixture of a folder; two when the same object is there in both versions, which get the same verdict.
    fn read(folder: &Path, kind: Kind) -> Vec<Self> {
        let name = folder.strip_prefix(root()).unwrap().display().to_string();
        let mut files: BTreeMap<String, String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
            .collect();
        let objects = |text: Option<String>| -> Vec<Manifest> {
            let documents = yaml::documents(&text.unwrap_or_default());
            documents.into_iter().flat_map(|document| manifest::objects(document.expect(&name)).expect(&name)).collect()
        };
        let mut objects_of = |role: &str| -> Vec<(WireVersion, String)> {
            let of = |version: WireVersion| {
                // JSON goes in as it is, for what no YAML reader would let through.
                if let Some(text) = files.remove(&format!("{role}.{version}.json")) {
                    return Some((version, text));
                }
                let text = files.remove(&format!("{role}.{version}.yaml"))?;
                let manifest = objects(Some(text)).remove(0);
                assert_eq!(manifest.version(), Some(version), "{name}: {role}");
                Some((version, manifest.text()))
            };
            WireVersion::ALL.into_iter().filter_map(of).collect()
        };
        let (new, mut old) = (objects_of("new"), objects_of("old"));
        assert!(old.len() < 2, "{name} has old objects in several versions");
        let old = old.pop();
        let world = objects(files.remove("world.yaml"));
        let want = files.remove("want.yaml").unwrap_or_else(|| panic!("{name} has no want.yaml"));
        let want = yaml::documents(&want).remove(0).unwrap().value;
        assert!(files.is_empty(), "{name} has files that nothing reads: {:?}", files.keys());
        assert!(!new.is_empty() || old.is_some(), "{name} has neither a new nor an old object");
        let fixture = |new: Option<(WireVersion, String)>| {
            let want = serde_json::from_value(want.clone()).unwrap_or_else(|error| panic!("{name}/want.yaml: {error}"));
            Fixture { name: name.clone(), kind, new, old: old.clone(), world: world.clone(), want }
        };
        match new.is_empty() {
            true => vec![fixture(None)],
            false => new.into_iter().map(|new| fixture(Some(new))).collect(),
        }
    }

    fn facts(&self) -> Facts {
        let gaps: Vec<&'static str> = self.want.not_listed.iter().map(|kind| &*kind.clone().leak()).collect();
        let mut facts = Facts::not_listed(&gaps);
        // The object as it is stored is part of the world.
        let stored = self.old.iter().map(|(version, text)| (self.kind, *version, text.clone()));
        let others = self
            .world
            .iter()
            .filter_map(|manifest| Some((manifest.admitted_kind()?, manifest.version()?, manifest.text())));
        for (kind, version, text) in stored.chain(others) {
            put(&mut facts, kind, version, &text);
        }
        facts
    }

    /// The objects of other kinds.
    fn objects(&self) -> ObjectSet {
        let mut objects = ObjectSet::default();
        for manifest in self.world.iter().filter(|manifest| manifest.admitted_kind().is_none()) {
            match ResourceDefinition::from_object(&manifest.value) {
                Some(definition) => objects.put_definition(manifest.key.name.clone(), Arc::new(definition)),
                None => objects.put(Arc::new(manifest.object().unwrap())),
            }
        }
        objects
    }

    /// The verdict where each object has to be asked for.
    fn ask(&self, question: &DecodedRequest, settings: &AdmissionSettings) -> Verdict {
        let (facts, objects) = (Arc::new(self.facts()), self.objects());
        let answer = |need: &Need| self.gather(need, &facts, &objects);
        settle_at_once(World::new(facts.clone()), |world| question.answer(world, settings), answer).unwrap()
    }

    fn gather(&self, need: &Need, facts: &Facts, objects: &ObjectSet) -> Answer {
        let kind = match need {
            Need::Class(_) => return facts.answer(need),
            Need::Object(reference) => &*reference.kind,
            Need::List(selection) => &*selection.kind,
            Need::Definition(_) => "CustomResourceDefinition",
            Need::Nodes(_) => "Node",
            other => panic!("{}: admission asks for {other:?}", self.name),
        };
        if let Some(reason) = self.want.unreadable.get(kind) {
            return need.unanswered(&**reason);
        }
        match need {
            Need::List(selection) if objects.iter().all(|object| object.kind() != kind) => {
                assert_eq!(selection.api_version, "cluster.x-k8s.io/v1beta2");
                Answer::List(Found::Absent)
            }
            Need::Nodes(NodesOf { cluster, names }) => {
                let nodes = objects.nodes(cluster).into_iter().filter(|(name, _)| names.contains(name));
                Answer::Nodes(Found::Yes(nodes.collect()))
            }
            _ => facts.clone().with_objects(objects.clone()).answer(need),
        }
    }

    fn answer(&self, settings: &AdmissionSettings) -> Verdict {
        let operation = match (&self.new, &self.old) {
            (Some(_), Some(_)) => Operation::Update,
            (Some(_), None) => Operation::Create,
            (None, _) => Operation::Delete,
        };
        let phase = if self.want.phase == "default" { Phase::Default } else { Phase::Validate };
        let (version, text) = self.new.as_ref().or(self.old.as_ref()).unwrap();
        let name = object_name(text);
        let request = RawRequest {
            phase,
            kind: self.kind,
            version: *version,
            operation,
            name: &name,
            object: self.new.as_ref().map(|(_, text)| &**text),
            old_object: self.old.as_ref().map(|(_, text)| &**text),
            old_version: self.old.as_ref().map_or(*version, |(version, _)| *version),
        };
        let question = match DecodedRequest::decode(&request) {
            Ok(question) => question,
            Err(verdict) => return *verdict,
        };
        match self.want.live {
            true => self.ask(&question, settings),
            false => question.settle(&Arc::new(self.facts().with_objects(self.objects())), settings),
        }
    }

    fn settings(&self, silenced: Option<&'static str>) -> AdmissionSettings {
        let dependents = match &*self.want.dependents {
            "" | "deny" => Dependents::Deny,
            "warn" => Dependents::Warn,
            "off" => Dependents::Off,
            other => panic!("{}: dependents: {other}", self.name),
        };
        let deprecated = match &*self.want.deprecated {
            "" | "warn" => Deprecated::Warn,
            "deny" => Deprecated::Deny,
            other => panic!("{}: deprecated: {other}", self.name),
        };
        let gates = self.want.feature_gates.parse().expect(&self.name);
        let refuse_refs_with_topology = self.want.refuse_refs_with_topology;
        AdmissionSettings {
            gates,
            dependents,
            refuse_refs_with_topology,
            deprecated,
            silenced,
            ..AdmissionSettings::default()
        }
    }

    /// What differs from the expectation, in words; empty when nothing does.
    fn differences(&self, verdict: &Verdict) -> String {
        let mut text = String::new();
        let outcome = outcome(verdict);
        if outcome != self.want.outcome {
            let _ = writeln!(text, "  outcome: {outcome}, want {}", self.want.outcome);
        }
        let got: Vec<_> =
            verdict.errors().iter().map(|error| (error.rule, error.kind.reason(), error.path.to_string())).collect();
        let want: Vec<_> =
            self.want.errors.iter().map(|error| (&*error.rule, &*error.r#type, error.field.clone())).collect();
        if got != want {
            let _ = writeln!(text, "  errors: {got:?}\n    want: {want:?}");
        }
        for (error, want) in verdict.errors().iter().zip(&self.want.errors) {
            missing(&error.detail, &want.names, &mut text);
        }
        missing(&verdict.message().unwrap_or_default(), &self.want.message, &mut text);
        if verdict.warnings.len() == self.want.warnings.len() {
            verdict
                .warnings
                .iter()
                .zip(&self.want.warnings)
                .for_each(|(warning, words)| missing(&warning.text, words, &mut text));
        } else {
            let _ = writeln!(text, "  warnings: {:?}, want {:?}", verdict.warnings, self.want.warnings);
        }
        if verdict.not_checked != self.want.not_checked {
            let _ = writeln!(text, "  notChecked: {:?}, want {:?}", verdict.not_checked, self.want.not_checked);
        }
        let patch = match verdict.patch.is_empty() {
            true => Value::Null,
            false => serde_json::to_value(&verdict.patch).unwrap(),
        };
        if patch != self.want.patch {
            let _ = writeln!(text, "  patch: {patch}, want {}", self.want.patch);
        }
        text
    }
}

/// The name of an object, read leniently: the rest of it may not be readable.
fn object_name(text: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        metadata: Value,
    }
    let named: Named = serde_json::from_str(text).unwrap_or_default();
    named.metadata["name"].as_str().unwrap_or_default().to_owned()
}

fn put(facts: &mut Facts, kind: Kind, version: WireVersion, text: &str) {
    let value: Value = serde_json::from_str(text).unwrap();
    let part = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let key = topologist::hub::ObjectKey::new(part("/metadata/namespace"), part("/metadata/name"));
    let class = topologist::hub::ObjectKey::new(part("/metadata/namespace"), part("/spec/topology/classRef/name"));
    let broken = |reason: String| (reason.into(), Some(class));
    match kind {
        Kind::Cluster => {
            let record = match Cluster::decode(version, text).map_err(broken) {
                Ok(cluster) => Record::Readable(Arc::new(cluster)),
                Err((reason, class)) => Record::Unreadable { reason, class },
            };
            facts.put_cluster(key, record);
        }
        // Admission of machines looks at nothing else.
        Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => {}
        Kind::ClusterClass => {
            let record = match ClusterClass::decode(version, text).map_err(broken) {
                Ok(class) => Record::Readable(Arc::new(class)),
                Err((reason, _)) => Record::Unreadable { reason, class: None },
            };
            facts.put_class(key, record);
        }
    }
}

fn outcome(verdict: &Verdict) -> &'static str {
    match verdict.outcome {
        AdmissionOutcome::Allowed => "allowed",
        AdmissionOutcome::Invalid(_) => "invalid",
        AdmissionOutcome::Forbidden { .. } => "forbidden",
        AdmissionOutcome::Undecodable(_) => "undecodable",
        AdmissionOutcome::Unknown { .. } => "unknown",
    }
}

fn missing(text: &str, words: &[String], differences: &mut String) {
    for words in words.iter().filter(|words| !text.contains(&***words)) {
        let _ = writeln!(differences, "  {words:?} is missing in {text:?}");
    }
}

#[test]
fn every_fixture_gets_the_verdict_that_it_wants() {
    let mut failures = String::new();
    let all = fixtures();
    for fixture in &all {
        let differences = fixture.differences(&fixture.answer(&fixture.settings(None)));
        if !differences.is_empty() {
            let _ = writeln!(failures, "{}:\n{differences}", fixture.name);
        }
    }
    assert!(failures.is_empty(), "{failures}");
    println!("{} fixtures", all.len());
}

/// Refuses schemas that cannot be compiled though nothing was found wrong with them: what rules that are switched off
/// let through.
const NET: &str = "VAR-S-047";

#[test]
fn a_schema_that_cannot_be_compiled_is_refused_whatever_was_overlooked() {
    // VAR-S-047
    for (overlooked, fixture) in [
        ("VAR-S-010", "cluster-class/rejects-default-beyond-all-numbers"),
        ("VAR-S-023", "cluster-class/rejects-pattern-that-does-not-compile"),
    ] {
        let all = fixtures();
        let fixture = all.iter().find(|known| known.name == fixture).unwrap_or_else(|| panic!("no {fixture}"));
        let verdict = fixture.answer(&fixture.settings(Some(overlooked)));
        let errors = verdict.errors().iter();
        let errors: Vec<_> = errors.map(|error| (error.rule, error.kind.reason(), error.path.to_string())).collect();
        let root = |error: &(_, _, String)| error.2.ends_with(".schema.openAPIV3Schema");
        assert!(!errors.is_empty() && errors.iter().all(root), "{overlooked}: {errors:?}");
        assert!(
            errors.iter().all(|error| (error.0, error.1) == (NET, "FieldValueInvalid")),
            "{overlooked}: {errors:?}"
        );
    }
}

/// Switches off one rule at a time: a fixture that names the rule must then be allowed, or lose its warning or its
/// change. The rules of patches are what PE-30 promises to the engine.
#[test]
fn every_rule_has_a_fixture_that_fails_without_it() {
    let all = fixtures();
    let mut survivors = Vec::new();
    let ids: BTreeSet<&'static str> = catalogue().iter().map(|rule| rule.id).collect();
    for id in &ids {
        let is_needed = |fixture: &&Fixture| {
            let verdict = fixture.answer(&fixture.settings(Some(id)));
            let denies = fixture.want.outcome != "allowed";
            let is_let_through = verdict.errors().iter().all(|error| error.rule == NET);
            match denies {
                true => is_let_through && !fixture.differences(&verdict).is_empty(),
                false => !fixture.differences(&verdict).is_empty(),
            }
        };
        let needed = all.iter().filter(|fixture| fixture.want.rules.iter().any(|rule| rule == id)).find(is_needed);
        match needed {
            Some(fixture) => println!("{id} is needed by {}", fixture.name),
            None => survivors.push(*id),
        }
    }
    assert!(survivors.is_empty(), "no fixture notices when these rules are switched off: {}", survivors.join(", "));
    println!("{} rules switched off one by one, all noticed", ids.len());
}

#[test]
fn fixtures_are_named_after_facts() {
    for fixture in fixtures() {
        let name = fixture.name.rsplit('/').next().unwrap();
        let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(kebab), "{} is not kebab case", fixture.name);
        assert!(!fixture.want.rules.is_empty(), "{} names no rule", fixture.name);
    }
}
