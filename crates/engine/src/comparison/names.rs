//! Names of a single Cluster, and their placeholders in the change of a group.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::changed_values::{ChangedValue, places};
use super::cluster_report::{ChangeReport, ClusterReport};

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
    /// Names with their placeholders.
    all: HashMap<String, &'static str>,
    /// Lengths of names in bytes, the longest first.
    lengths: BTreeSet<Reverse<usize>>,
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

    /// The first of equal names is used.
    fn from(names: impl IntoIterator<Item = (String, &'static str)>, rotated: BTreeSet<String>) -> Self {
        let (mut all, mut lengths) = (HashMap::new(), BTreeSet::new());
        for (name, with) in names {
            lengths.insert(Reverse(name.len()));
            all.entry(name).or_insert(with);
        }
        NamePlaceholders { all, lengths, rotated }
    }

    /// The length of the longest accepted name at the start of a text, and its placeholder.
    fn first(&self, text: &str, counts: impl Fn(&str, &str) -> bool) -> Option<(usize, &'static str)> {
        self.lengths.iter().find_map(|Reverse(length)| {
            let name = text.get(..*length).filter(|name| begins_with(text, name))?;
            let with = self.all.get(name).filter(|with| counts(name, with))?;
            Some((*length, *with))
        })
    }

    /// A sentence without names of the Cluster. A name of letters may be a word of the sentence: it stays, unless its
    /// namespace precedes it.
    pub(super) fn text(&self, text: &str) -> String {
        let is_word = |name: &str| name.chars().all(char::is_alphabetic);
        let counts = |name: &str, with: &str| with != CLUSTER || !is_word(name);
        without_sets(&replaced(text, |rest| self.first(rest, counts)))
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
            path: replaced(path, |rest| self.first(rest, |_, _| true)),
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
            let found = self.first(rest, |_, _| true);
            let found = found.map(|(length, with)| (length, if is_only_here(&rest[..length]) { only } else { with }));
            found.or_else(|| set.filter(|set| begins_with(rest, set)).map(|set| (set.len(), SET)))
        };
        map_texts(value, &|text| replaced(text, find))
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
        Value::String(text) => words(text).filter(|rest| begins_with(rest, word)).count(),
        Value::Array(elements) => elements.iter().map(|element| occurrences(element, word)).sum(),
        Value::Object(members) => {
            let of_name = |name: &str| words(name).filter(|rest| begins_with(rest, word)).count();
            members.iter().map(|(name, member)| of_name(name) + occurrences(member, word)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A text with replaced words; `find` returns the length of the word at the start of a text, and its replacement.
fn replaced(text: &str, find: impl Fn(&str) -> Option<(usize, &'static str)>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for rest in words(text) {
        let at = text.len() - rest.len();
        if at < done {
            continue;
        }
        if let Some((length, with)) = find(rest) {
            result.push_str(&text[done..at]);
            result.push_str(with);
            done = at + length;
        }
    }
    result.push_str(&text[done..]);
    result
}

/// The rest of the text at each start of a word: a letter or digit after another character.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut was_part = false;
    text.char_indices().filter_map(move |(at, c)| {
        let begins = c.is_alphanumeric() && !was_part;
        was_part = c.is_alphanumeric();
        begins.then(|| &text[at..])
    })
}

fn begins_with(rest: &str, word: &str) -> bool {
    rest.strip_prefix(word).is_some_and(|after| !after.starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of<const N: usize>(names: [(&str, &'static str); N]) -> NamePlaceholders {
        NamePlaceholders::from(names.map(|(name, with)| (name.to_owned(), with)), BTreeSet::new())
    }

    #[test]
    fn names_are_replaced_where_they_are_words() {
        let names = of([("prod/blue", CLUSTER), ("blue-md-x7k2p", OBJECT), ("blue", CLUSTER), ("old", OBJECT)]);
        for (text, want) in [
            ("blue", "<cluster>"),
            ("Cluster prod/blue: no", "Cluster <cluster>: no"),
            ("https://blue.example.test/blue-bastion", "https://<cluster>.example.test/<cluster>-bastion"),
            ("blueprint and deepblue, blue2", "blueprint and deepblue, blue2"),
            ("blue-md-x7k2p and blue-md-x7k2pq", "<name> and <cluster>-md-x7k2pq"),
            ("blue_blue", "<cluster>_<cluster>"),
            ("übblue blueé", "übblue blueé"),
            ("", ""),
        ] {
            assert_eq!(replaced(text, |rest| names.first(rest, |_, _| true)), want, "{text:?}");
        }
    }

    #[test]
    fn placeholders_are_not_replaced_again() {
        let names = of([("cluster", CLUSTER), ("name", OBJECT)]);
        let told = replaced("cluster of name", |rest| names.first(rest, |_, _| true));
        assert_eq!(told, "<cluster> of <name>");
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
        let told = first(&names(&[]), change, None);
        let want = ("spec.a[1].content", json!("<cluster>: 1"), json!("<cluster>: 2"));
        assert_eq!((&*told.path, told.from, told.to), want);
    }

    #[test]
    fn a_rotated_template_is_old_and_new_where_it_differs() {
        let names = names(&["blue-a", "blue-b"]);
        let told = first(&names, change(json!({"name": "blue-a"}), json!({"name": "blue-b"})), None);
        assert_eq!((told.from, told.to), (json!(OLD), json!(NEW)));
        let told = first(&names, change(json!("a: blue-a\n"), json!("a: blue-a\nb: blue\n")), None);
        assert_eq!((told.from, told.to), (json!("a: <name>\n"), json!("a: <name>\nb: <cluster>\n")));
    }

    #[test]
    fn the_name_of_a_set_is_left_out_only_where_it_is_no_part_of_the_difference() {
        let names = names(&[]);
        let told = first(&names, change(json!("m5.small"), json!("m5.large")), Some("large"));
        assert_eq!((told.from, told.to), (json!("m5.small"), json!("m5.large")));
        let told = first(&names, change(json!("large: 1"), json!("large: 2")), Some("large"));
        assert_eq!((told.from, told.to), (json!("<set>: 1"), json!("<set>: 2")));
    }
}
