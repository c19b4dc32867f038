//! Small mistakes that are made mechanically in bundles of three shapes, and the share of them that `validate` reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;
use topologist::yaml;

use crate::harness::programs;
use crate::offline::Folder;

/// The bundles; the definitions of the first one's provider are known to the tests.
const BUNDLES: [&str; 3] = ["docker", "aws", "vsphere"];

/// Maximum number of mistakes of a category in a bundle.
const EACH: usize = 7;

/// A mistake in one place of a bundle.
struct Mutant {
    category: &'static str,
    what: String,
    objects: Vec<Value>,
}

/// Steps of a pointer, unescaped.
fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// The pointers of all values in a value.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (step, child) in children {
        let below = format!("{pointer}/{step}");
        found.push(below.clone());
        pointers(child, &below, found);
    }
}

/// A path of a JSON patch with another name of its last named member.
fn other_path(path: &str) -> String {
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    let named = parts.iter().rposition(|part| part != "-" && part.parse::<usize>().is_err()).unwrap();
    parts[named].push('X');
    parts.join("/")
}

/// What becomes of a value of a class.
fn mistakes_of_class(steps: &[String], value: &Value) -> Vec<(&'static str, Value)> {
    let last = |count: usize| steps.len().checked_sub(count).map_or("", |at| &*steps[at]);
    let is_in = |name: &str| steps.iter().any(|step| step == name);
    let longer = |text: &str| Value::from(format!("{text}X"));
    match (last(1), value) {
        ("path", Value::String(path)) if is_in("jsonPatches") => vec![("path", other_path(path).into())],
        ("kind", Value::String(kind)) if is_in("templateRef") || is_in("selector") => vec![("kind", longer(kind))],
        ("name", Value::String(name)) if is_in("templateRef") || last(3) == "variables" => vec![("name", longer(name))],
        ("variable", Value::String(name)) if name.starts_with("builtin.") => vec![("builtin", longer(name))],
        ("variable", Value::String(name)) if last(2) == "valueFrom" => vec![("name", longer(name))],
        ("template" | "enabledIf", Value::String(text)) => {
            let builtin = text.find(".builtin.").map(|at| {
                let end = text[at + 1..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
                let end = end.map_or(text.len(), |end| at + 1 + end);
                ("builtin", format!("{}X{}", &text[..end], &text[end..]).into())
            });
            let closing = text.find("}}").map(|at| ("template", format!("{}{}", &text[..at], &text[at + 1..]).into()));
            builtin.into_iter().chain(closing).collect()
        }
        ("type", Value::String(_)) if is_in("openAPIV3Schema") => vec![("type", "text".into())],
        _ => Vec::new(),
    }
}

/// Whether the key of a class has to be there.
fn is_needed(steps: &[String]) -> bool {
    let above = steps.len().checked_sub(2).map_or("", |at| &*steps[at]);
    let last = steps.last().map_or("", |step| &**step);
    let is_in = |name: &str| steps.iter().any(|step| step == name);
    match last {
        "op" | "path" => is_in("jsonPatches"),
        "templateRef" | "jsonPatches" | "selector" | "matchResources" | "openAPIV3Schema" | "class" => true,
        "kind" | "name" | "apiVersion" => above == "templateRef" || above == "selector",
        _ => false,
    }
}

/// All mistakes of a bundle.
fn mutants(objects: &[Value]) -> Vec<Mutant> {
    let mut all = Vec::new();
    let mut add = |category, what: String, objects: Vec<Value>| all.push(Mutant { category, what, objects });
    for (index, object) in objects.iter().enumerate() {
        let kind = object["kind"].as_str().unwrap();
        let title = format!("{kind} {}", object["metadata"]["name"].as_str().unwrap());
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut objects = objects.to_vec();
            change(&mut objects[index]);
            objects
        };
        let removed = |pointer: &str, steps: &[String]| {
            changed(&|object| {
                let parent = pointer.rsplit_once('/').unwrap().0;
                match object.pointer_mut(parent).unwrap() {
                    Value::Array(items) => drop(items.remove(steps.last().unwrap().parse().unwrap())),
                    parent => drop(parent.as_object_mut().unwrap().remove(steps.last().unwrap())),
                }
            })
        };
        let mut found = Vec::new();
        pointers(&object["spec"], "/spec", &mut found);
        for pointer in found {
            let (steps, value) = (steps(&pointer), object.pointer(&pointer).unwrap());
            match kind {
                "ClusterClass" => {
                    for (category, other) in mistakes_of_class(&steps, value) {
                        let what = format!("{title}: {pointer}: {other}");
                        add(category, what, changed(&|object| *object.pointer_mut(&pointer).unwrap() = other.clone()));
                    }
                    if steps.len() == 3 && steps[1] == "variables" {
                        add("no variable", format!("{title}: without {pointer}"), removed(&pointer, &steps));
                    }
                    if is_needed(&steps) {
                        add("no key", format!("{title}: without {pointer}"), removed(&pointer, &steps));
                    }
                }
                "Cluster" if pointer.ends_with("/class") || pointer.ends_with("/name") => {
                    let other = Value::from(format!("{}X", value.as_str().unwrap()));
                    let what = format!("{title}: {pointer}: {other}");
                    add("name", what, changed(&|object| *object.pointer_mut(&pointer).unwrap() = other.clone()));
                }
                _ if pointer.starts_with("/spec/template/spec/") => {
                    let other = match value {
                        Value::String(_) => Some(Value::from(5)),
                        Value::Number(_) | Value::Bool(_) => Some("text".into()),
                        _ => None,
                    };
                    if let Some(other) = other {
                        let what = format!("{title}: {pointer}: {other}");
                        add("type", what, changed(&|object| *object.pointer_mut(&pointer).unwrap() = other.clone()));
                    }
                    if steps.last().unwrap().parse::<usize>().is_err() {
                        let rename = |object: &mut Value| {
                            let parent = object.pointer_mut(pointer.rsplit_once('/').unwrap().0).unwrap();
                            let value = parent.as_object_mut().unwrap().remove(steps.last().unwrap()).unwrap();
                            parent[format!("{}X", steps.last().unwrap())] = value;
                        };
                        add("key", format!("{title}: {pointer}X"), changed(&rename));
                    }
                }
                _ => {}
            }
        }
        if object["spec"].get("template").is_some() {
            let mut rest = objects.to_vec();
            rest.remove(index);
            add("no template", format!("without {title}"), rest);
        }
    }
    all
}

/// At most [`EACH`] mistakes of each category, from everywhere in the bundle.
fn chosen(all: Vec<Mutant>) -> Vec<Mutant> {
    let mut categories: BTreeMap<&str, Vec<Mutant>> = BTreeMap::new();
    for mutant in all {
        categories.entry(mutant.category).or_default().push(mutant);
    }
    let some = |of: Vec<Mutant>| {
        let (count, step) = (of.len(), of.len().div_ceil(EACH));
        of.into_iter().enumerate().filter(move |(at, _)| at % step == count % step).map(|(_, mutant)| mutant)
    };
    categories.into_values().flat_map(some).collect()
}

/// What `validate` says, without the places.
fn findings(folder: &Folder, crds: bool) -> Vec<String> {
    let flags = ["validate", "-o", "json", "all.yaml", "--crds", "definitions.yaml"];
    let (code, out, err) = folder.run(if crds { &flags } else { &flags[..4] }, &[]);
    assert!(code < 2, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| format!("{} {}", finding["id"], finding["message"])).collect()
}

/// Whether a mistake is reported with and without the definitions of its provider, and refused by `render`.
struct Outcome {
    bundle: &'static str,
    category: &'static str,
    what: String,
    with: bool,
    without: bool,
    is_refused: bool,
}

fn folder(objects: &[Value], definitions: &[String]) -> Folder {
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    Folder::new(&[("all.yaml", &documents.join("\n---\n")), ("definitions.yaml", &definitions.join("\n---\n"))])
}

fn outcomes(bundle: &'static str, definitions: &[String]) -> Vec<Outcome> {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/providers/{bundle}/bundle.yaml")),
    );
    let objects: Vec<Value> =
        yaml::documents(&text.unwrap()).into_iter().map(|document| document.unwrap().value).collect();
    let unbroken = folder(&objects, definitions);
    let expected = [true, false].map(|crds| findings(&unbroken, crds));
    assert_eq!(expected, [Vec::<String>::new(), Vec::new()], "{bundle}");
    let mutants = chosen(mutants(&objects));
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(Mutant { category, what, objects }) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let folder = folder(objects, definitions);
            let [with, without] = [true, false].map(|crds| !findings(&folder, crds).is_empty());
            let is_refused = folder.run(&["render", "all.yaml"], &[]).0 == 1;
            all.lock().unwrap().push(Outcome { bundle, category, what: what.clone(), with, without, is_refused });
        }
    };
    thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().unwrap()
}

#[test]
fn most_mistakes_are_reported() {
    // DEC-68
    let bases = programs::folder("reference").join("provider.config/crd/bases");
    let files = fs::read_dir(&bases).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let definitions: Vec<String> = files.collect();
    let all: Vec<Outcome> = BUNDLES.into_iter().flat_map(|bundle| outcomes(bundle, &definitions)).collect();
    let mut table = String::new();
    let mut categories: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    all.iter().for_each(|outcome| categories.entry(outcome.category).or_default().push(outcome));
    for (category, of) in &categories {
        let [with, without] = [|outcome: &&&Outcome| outcome.with, |outcome: &&&Outcome| outcome.without]
            .map(|reported| of.iter().filter(reported).count());
        let _ = writeln!(table, "{category}: {} mistakes, {with} reported, {without} without definitions", of.len());
    }
    let silent: Vec<&Outcome> = all.iter().filter(|outcome| !outcome.with || !outcome.without).collect();
    for Outcome { bundle, what, is_refused, with, .. } in &silent {
        let _ = writeln!(table, "{bundle} {what}: {}", if *with { "with definitions" } else { "never" });
        assert!(!is_refused, "render refuses it: {bundle} {what}");
    }
    println!("{table}");
    // The names of arguments are free.
    let is_free = |outcome: &Outcome| outcome.what.contains("Args/") && outcome.category == "key";
    let known: Vec<&Outcome> = all.iter().filter(|outcome| outcome.bundle == BUNDLES[0] && !is_free(outcome)).collect();
    assert!(known.len() >= 50 && known.iter().all(|outcome| outcome.with), "{table}");
    // Only fields of the provider need its definitions.
    let of_provider = |outcome: &Outcome| is_free(outcome) || ["key", "type", "path"].contains(&outcome.category);
    assert!(silent.iter().all(|outcome| of_provider(outcome)), "{table}");
    assert!(all.len() >= 120 && silent.len() * 5 <= all.len(), "{} of {}\n{table}", silent.len(), all.len());
}
