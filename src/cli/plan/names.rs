//! Names that only one Cluster has, and the placeholders for them in the change of a group.

use serde_json::Value;

use super::report::{ChangeReport, ClusterReport};
use super::values::{ChangedValue, places};

const CLUSTER: &str = "<cluster>";
const OBJECT: &str = "<name>";
const OLD: &str = "<old name>";
const NEW: &str = "<new name>";
const SET: &str = "<set>";
/// The text before the name of a worker set in an origin.
const SETS: [&str; 2] = ["spec.topology.workers.machineDeployments[", "spec.topology.workers.machinePools["];

/// The names of a Cluster and of its objects.
#[derive(Debug)]
pub(super) struct Names {
    /// With what stands in their place, the longest first.
    all: Vec<(String, &'static str)>,
    /// Names of templates that are replaced, or that replace them.
    rotated: Vec<String>,
}

impl Names {
    pub(super) fn of(report: &ClusterReport) -> Self {
        let ClusterReport { namespace, name, steps, rolls, held, .. } = report;
        let mut objects: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
        objects.extend(rolls.iter().map(|roll| roll.name.clone()));
        objects.extend(held.iter().map(|held| held.name.clone()));
        let mut rotated = Vec::new();
        for step in steps {
            if let Some(old) = &step.replaces {
                rotated.extend([old.clone(), step.name.clone()]);
            }
        }
        rotated.sort_unstable();
        rotated.dedup();
        objects.extend(rotated.iter().cloned());
        objects.retain(|object| object != name && !object.is_empty());
        objects.sort_unstable();
        objects.dedup();
        let mut all: Vec<(String, &'static str)> = objects.into_iter().map(|object| (object, OBJECT)).collect();
        all.extend([(format!("{namespace}/{name}"), CLUSTER), (name.clone(), CLUSTER)]);
        all.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Names { all, rotated }
    }

    /// A sentence in which no name of the Cluster is left. A name of letters alone may be a word of the sentence: it stays, unless
    /// its namespace is before it.
    pub(super) fn text(&self, text: &str) -> String {
        let is_word = |name: &str| name.chars().all(char::is_alphabetic);
        let names = self.all.iter().map(|(name, with)| (&**name, *with));
        let names: Vec<(&str, &str)> = names.filter(|(name, with)| *with != CLUSTER || !is_word(name)).collect();
        without_sets(&replaced(text, &names))
    }

    /// Where a change is, of an object of a worker set if it is of one. What stays is left out: of a list of files the one that
    /// differs tells what the change is.
    pub(super) fn changes(&self, change: &ChangeReport, set: Option<&str>) -> Vec<ChangeReport> {
        places(change).iter().map(|place| self.change(change, place, set)).collect()
    }

    fn change(&self, change: &ChangeReport, place: &ChangedValue<'_>, set: Option<&str>) -> ChangeReport {
        let (ChangedValue { path, from, to }, ChangeReport { because, before, .. }) = (place, change);
        // The name of a set may be a word like any other: it counts as the name only where it is no part of the difference.
        let set = set.filter(|set| occurrences(from, set) == occurrences(to, set));
        let names: Vec<(&str, &str)> = self.all.iter().map(|(name, with)| (&**name, *with)).collect();
        ChangeReport {
            path: replaced(path, &names),
            from: self.value(from, to, OLD, set),
            to: self.value(to, from, NEW, set),
            because: self.text(because),
            before: before.as_ref().map(|before| self.text(before)),
        }
    }

    /// A value in which a template that `other` does not name is called `only`.
    fn value(&self, value: &Value, other: &Value, only: &'static str, set: Option<&str>) -> Value {
        let is_only_here = |name: &String| self.rotated.contains(name) && occurrences(other, name) == 0;
        let name = |(name, with): &(String, &'static str)| if is_only_here(name) { only } else { *with };
        let mut names: Vec<(&str, &str)> = self.all.iter().map(|one| (&*one.0, name(one))).collect();
        names.extend(set.map(|set| (set, SET)));
        map_texts(value, &|text| replaced(text, &names))
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

/// The same value with other texts, those of keys included.
fn map_texts(value: &Value, map: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(map(text)),
        Value::Array(elements) => elements.iter().map(|element| map_texts(element, map)).collect(),
        Value::Object(members) => members.iter().map(|(name, member)| (map(name), map_texts(member, map))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// How often a word is in the texts of a value.
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

/// A text with these words replaced; of several that begin at the same place the first counts.
fn replaced(text: &str, names: &[(&str, &str)]) -> String {
    if !names.iter().any(|(name, _)| text.contains(name)) {
        return text.to_owned();
    }
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for rest in words(text) {
        let at = text.len() - rest.len();
        if at < done {
            continue;
        }
        if let Some((name, with)) = names.iter().find(|(name, _)| begins_with(rest, name)) {
            result.push_str(&text[done..at]);
            result.push_str(with);
            done = at + name.len();
        }
    }
    result.push_str(&text[done..]);
    result
}

/// What follows each place at which a word begins: a letter or digit after something else.
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

    #[test]
    fn names_are_replaced_where_they_are_words() {
        let names = [("prod/blue", "<cluster>"), ("blue-md-x7k2p", "<name>"), ("blue", "<cluster>"), ("old", "<name>")];
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
            assert_eq!(replaced(text, &names), want, "{text:?}");
        }
    }

    #[test]
    fn placeholders_are_not_replaced_again() {
        assert_eq!(replaced("cluster of name", &[("cluster", CLUSTER), ("name", OBJECT)]), "<cluster> of <name>");
    }

    #[test]
    fn a_word_of_a_sentence_is_no_name() {
        let all = vec![("prod/a".to_owned(), CLUSTER), ("a-md-x7k2p".to_owned(), OBJECT), ("a".to_owned(), CLUSTER)];
        let names = Names { all, rotated: Vec::new() };
        assert_eq!(names.text("a field of a-md-x7k2p changes in prod/a"), "a field of <name> changes in <cluster>");
        let all = vec![("blue-1".to_owned(), CLUSTER)];
        assert_eq!(Names { all, rotated: Vec::new() }.text("no blue-1"), "no <cluster>");
    }

    #[test]
    fn the_worker_set_of_an_origin_is_left_out() {
        let origin = "Cluster spec.topology.workers.machineDeployments[large].replicas";
        assert_eq!(without_sets(origin), "Cluster spec.topology.workers.machineDeployments[<set>].replicas");
        let class = "ClusterClass spec.workers.machineDeployments[large].metadata";
        assert_eq!(without_sets(class), class, "classes are not names of a Cluster");
    }

    fn names(rotated: &[&str]) -> Names {
        let rotated: Vec<String> = rotated.iter().map(|name| (*name).to_owned()).collect();
        let mut all: Vec<(String, &'static str)> = rotated.iter().map(|name| (name.clone(), OBJECT)).collect();
        all.push(("blue".to_owned(), CLUSTER));
        Names { all, rotated }
    }

    fn change(from: Value, to: Value) -> ChangeReport {
        ChangeReport { path: "spec.a".to_owned(), from, to, because: String::new(), before: None }
    }

    fn first(names: &Names, change: ChangeReport, set: Option<&str>) -> ChangeReport {
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
