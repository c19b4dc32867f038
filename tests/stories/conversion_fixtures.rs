//! Fixtures of the conversion rules, found by walking `fixtures/conversion`.
//!
//! A fixture is a folder: `v1beta1.yaml` comes up as `v1beta2.yaml`, which comes down as `v1beta1-again.yaml`, or as
//! the first where there is none, and comes up again as itself. `about.yaml` names the rules, and the API versions that
//! kinds have (`Kind.group: version`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use topologist::hub::Kind;
use topologist::wire::WireVersion;
use topologist::wire::conversion::{UnknownKindVersion, convert, versions_needed};
use topologist::yaml;

const ANNOTATION: &str = "cluster.x-k8s.io/conversion-data";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    rules: Vec<String>,
    #[serde(default)]
    versions: BTreeMap<String, String>,
}

struct Fixture {
    name: String,
    about: About,
    old: Value,
    new: Value,
    again: Option<Value>,
}

fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/conversion");
    let mut folders: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.iter().map(|folder| Fixture::read(folder)).collect()
}

impl Fixture {
    fn read(folder: &Path) -> Self {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let mut files: BTreeMap<String, Value> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let value = yaml::documents(&fs::read_to_string(&path).unwrap()).remove(0).expect(&name).value;
                (path.file_name().unwrap().to_str().unwrap().to_owned(), value)
            })
            .collect();
        let mut file = |file: &str| files.remove(file);
        let about = serde_json::from_value(file("about.yaml").expect(&name)).expect(&name);
        let (old, new) = (file("v1beta1.yaml").expect(&name), file("v1beta2.yaml").expect(&name));
        let again = file("v1beta1-again.yaml");
        assert!(files.is_empty(), "{name} has files that nothing reads: {:?}", files.keys());
        Fixture { name, about, old, new, again }
    }

    fn convert(&self, object: &Value, to: WireVersion) -> Value {
        let kind = Kind::from_name(object["kind"].as_str().unwrap()).unwrap();
        let version = |group: &str, kind: &str| {
            self.about.versions.get(&format!("{kind}.{group}")).cloned().ok_or(UnknownKindVersion::NotLookedUp)
        };
        let needed = versions_needed(kind, object, to).into_iter();
        let versions = needed.map(|(group, kind)| ((group.clone(), kind.clone()), version(&group, &kind))).collect();
        let mut object = object.clone();
        convert(kind, &mut object, to, &versions).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        object
    }
}

/// The text of the annotation, taken out.
fn take_annotation(object: &mut Value) -> Option<Value> {
    let annotations = object["metadata"].get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(ANNOTATION)?;
    if annotations.is_empty() {
        object["metadata"].as_object_mut()?.remove("annotations");
    }
    Some(serde_json::from_str(text.as_str()?).unwrap())
}

#[test]
fn every_object_converts_to_its_fixture_and_back() {
    for fixture in fixtures() {
        let name = &fixture.name;
        let up = fixture.convert(&fixture.old, WireVersion::V1Beta2);
        assert_eq!(up, fixture.new, "{name}: up");
        let mut down = fixture.convert(&up, WireVersion::V1Beta1);
        assert_eq!(fixture.convert(&down, WireVersion::V1Beta2), fixture.new, "{name}: up again");
        // CONV-013
        let mut whole = fixture.new.clone();
        whole.as_object_mut().unwrap().remove("metadata");
        assert_eq!(take_annotation(&mut down), Some(whole), "{name}: annotation");
        let mut want = fixture.again.as_ref().unwrap_or(&fixture.old).clone();
        take_annotation(&mut want);
        assert_eq!(down, want, "{name}: down");
        // Without the annotation, as a client may send it that knows nothing of it.
        let mut bare = fixture.convert(&down, WireVersion::V1Beta2);
        if fixture.about.rules.iter().any(|rule| rule == "CONV-013") {
            bare["spec"]["paused"] = json!(false);
        }
        assert_eq!(bare, fixture.new, "{name}: up without the annotation");
    }
}

#[test]
fn every_rule_of_conversion_has_a_fixture() {
    let fixtures = fixtures();
    let named: BTreeSet<_> =
        fixtures.iter().flat_map(|fixture| fixture.about.rules.iter().map(String::as_str)).collect();
    let missing: Vec<_> = (1..=16).map(|n| format!("CONV-{n:03}")).filter(|rule| !named.contains(&**rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for fixture in &fixtures {
        let is_kebab = fixture.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(is_kebab, "{}", fixture.name);
    }
}
