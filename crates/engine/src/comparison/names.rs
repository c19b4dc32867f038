//! Names of a single Cluster, and their placeholders in the change of a group.

use std::collections::BTreeSet;

use serde_json::Value;

use super::changed_values::{ChangedValue, places};
use super::cluster_report::{ChangeReport, ClusterReport};
use crate::object_names::{NameBoundary, ObjectNames};

const CLUSTER: &str = "<cluster>";
const OBJECT: &str = "<name>";
const OLD: &str = "<old name>";
const NEW: &str = "<new name>";
const SET: &str = "<set>";
/// The text before the name of a worker set in an origin.
const SETS: [&str; 2] = ["spec.topology.workers.machineDeployments[", "spec.topology.workers.machinePools["];

/// The names of a Cluster and of its objects.
#[derive(Debug)]
pub(super) struct NamePlaceholders {
    all: ObjectNames<&'static str>,
    /// Names of rotated templates, old and new.
    rotated: BTreeSet<String>,
}

impl NamePlaceholders {
    pub(super) fn from_report(report: &ClusterReport) -> Self {
        let ClusterReport { namespace, name, steps, rolls, held, .. } = report;
        let of_steps = steps.iter().map(|step| &step.name);
        let of_rolls = rolls.iter().map(|roll| &roll.name);
        let of_held = held.iter().map(|held| &held.name);
        let rotations = steps.iter().filter_map(|step| Some([step.replaces.clone()?, step.name.clone()]));
        let rotated: BTreeSet<String> = rotations.flatten().collect();
        let objects = of_steps.chain(of_rolls).chain(of_held).chain(&rotated);
        let objects = objects.filter(|object| *object != name && !object.is_empty());
        let all: Vec<_> = objects.map(|object| (object.clone(), OBJECT)).collect();
        let of_cluster = [(format!("{namespace}/{name}"), CLUSTER), (name.clone(), CLUSTER)];
        NamePlaceholders::from(all.into_iter().chain(of_cluster), rotated)
    }

    fn from(names: impl IntoIterator<Item = (String, &'static str)>, rotated: BTreeSet<String>) -> Self {
        NamePlaceholders { all: ObjectNames::new(NameBoundary::Word, names), rotated }
    }

    /// A sentence without names of the Cluster. A name of letters may be a word of the sentence: it stays, unless its
    /// namespace precedes it.
    pub(super) fn text(&self, text: &str) -> String {
        let is_word = |name: &str| name.chars().all(char::is_alphabetic);
        let accepts = |name: &str, placeholder: &str| placeholder != CLUSTER || !is_word(name);
        without_sets(&self.all.replace_with(text, |rest| self.all.first(rest, accepts)))
    }

    /// The differences of a change, without the names of the Cluster and of the object's worker set. Equal elements are
    /// omitted.
    pub(super) fn changes(&self, change: &ChangeReport, set: Option<&str>) -> Vec<ChangeReport> {
        places(change).iter().map(|place| self.change(change, place, set)).collect()
    }

    fn change(&self, change: &ChangeReport, place: &ChangedValue<'_>, set: Option<&str>) -> ChangeReport {
        let (ChangedValue { path, from, to }, ChangeReport { because, before, .. }) = (place, change);
        // The name of a set may also be an ordinary word: it is replaced only if it is not part of the difference.
        let set = set.filter(|set| occurrences(from, set) == occurrences(to, set));
        ChangeReport {
            path: self.all.replace(path),
            from: self.value(from, to, OLD, set),
            to: self.value(to, from, NEW, set),
            because: self.text(because),
            before: before.as_ref().map(|before| self.text(before)),
        }
    }

    /// A value in which templates that `other` does not name are replaced by `only`.
    fn value(&self, value: &Value, other: &Value, only: &'static str, set: Option<&str>) -> Value {
        let is_only_here = |name: &str| self.rotated.contains(name) && occurrences(other, name) == 0;
        let find = |rest: &str| {
            let found = self.all.first(rest, |_, _| true);
            let found = found.map(|(length, with)| (length, if is_only_here(&rest[..length]) { only } else { with }));
            let is_set = |set: &&str| NameBoundary::Word.begins_with(rest, set);
            found.or_else(|| set.filter(is_set).map(|set| (set.len(), SET)))
        };
        map_texts(value, &|text| self.all.replace_with(text, find))
    }
}

/// The origin of a field, regardless of its worker set.
fn without_sets(text: &str) -> String {
    SETS.iter().fold(text.to_owned(), |text, start| {
        let Some((before, rest)) = text.split_once(start) else { return text };
        let Some((_, after)) = rest.split_once(']') else { return text };
        format!("{before}{start}{SET}]{after}")
    })
}

/// The value with all texts mapped, including keys.
fn map_texts(value: &Value, map: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(map(text)),
        Value::Array(elements) => elements.iter().map(|element| map_texts(element, map)).collect(),
        Value::Object(members) => members.iter().map(|(name, member)| (map(name), map_texts(member, map))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The number of occurrences of a word in the texts of a value.
fn occurrences(value: &Value, word: &str) -> usize {
    match value {
        Value::String(text) => NameBoundary::Word.count(text, word),
        Value::Array(elements) => elements.iter().map(|element| occurrences(element, word)).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| NameBoundary::Word.count(name, word) + occurrences(member, word)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of<const N: usize>(names: [(&str, &'static str); N]) -> NamePlaceholders {
        NamePlaceholders::from(names.map(|(name, with)| (name.to_owned(), with)), BTreeSet::new())
    }

    #[test]
    fn a_word_of_a_sentence_is_no_name() {
        let names = of([("prod/a", CLUSTER), ("a-md-x7k2p", OBJECT), ("a", CLUSTER)]);
        assert_eq!(names.text("a field of a-md-x7k2p changes in prod/a"), "a field of <name> changes in <cluster>");
        assert_eq!(of([("blue-1", CLUSTER)]).text("no blue-1"), "no <cluster>");
    }

    #[test]
    fn the_worker_set_of_an_origin_is_left_out() {
        let origin = "Cluster spec.topology.workers.machineDeployments[large].replicas";
        assert_eq!(without_sets(origin), "Cluster spec.topology.workers.machineDeployments[<set>].replicas");
        let class = "ClusterClass spec.workers.machineDeployments[large].metadata";
        assert_eq!(without_sets(class), class, "classes are not names of a Cluster");
    }

    fn names(rotated: &[&str]) -> NamePlaceholders {
        let rotated: BTreeSet<String> = rotated.iter().map(|name| (*name).to_owned()).collect();
        let all: Vec<_> = rotated.iter().map(|name| (name.clone(), OBJECT)).collect();
        NamePlaceholders::from(all.into_iter().chain([("blue".to_owned(), CLUSTER)]), rotated)
    }

    fn change(from: Value, to: Value) -> ChangeReport {
        ChangeReport { path: "spec.a".to_owned(), from, to, because: String::new(), before: None }
    }

    fn first(names: &NamePlaceholders, change: ChangeReport, set: Option<&str>) -> ChangeReport {
        names.changes(&change, set).remove(0)
    }

    #[test]
    fn only_differences_are_listed() {
        let file = |path: &str, content: &str| json!({"path": path, "content": content});
        let change = change(
            json!([file("/a", "blue"), file("/b", "blue: 1")]),
            json!([file("/a", "blue"), file("/b", "blue: 2")]),
        );
        let replaced = first(&names(&[]), change, None);
        let want = ("spec.a[1].content", json!("<cluster>: 1"), json!("<cluster>: 2"));
        assert_eq!((&*replaced.path, replaced.from, replaced.to), want);
    }

    #[test]
    fn a_rotated_template_is_old_and_new_where_it_differs() {
        let names = names(&["blue-a", "blue-b"]);
        let replaced = first(&names, change(json!({"name": "blue-a"}), json!({"name": "blue-b"})), None);
        assert_eq!((replaced.from, replaced.to), (json!(OLD), json!(NEW)));
        let replaced = first(&names, change(json!("a: blue-a\n"), json!("a: blue-a\nb: blue\n")), None);
        assert_eq!((replaced.from, replaced.to), (json!("a: <name>\n"), json!("a: <name>\nb: <cluster>\n")));
    }

    #[test]
    fn the_name_of_a_set_is_left_out_only_where_it_is_no_part_of_the_difference() {
        let names = names(&[]);
        let replaced = first(&names, change(json!("m5.small"), json!("m5.large")), Some("large"));
        assert_eq!((replaced.from, replaced.to), (json!("m5.small"), json!("m5.large")));
        let replaced = first(&names, change(json!("large: 1"), json!("large: 2")), Some("large"));
        assert_eq!((replaced.from, replaced.to), (json!("<set>: 1"), json!("<set>: 2")));
    }
}
