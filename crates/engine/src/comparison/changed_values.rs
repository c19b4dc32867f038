//! The differences within a changed value.

use serde_json::Value;

use super::cluster_report::ChangeReport;

/// A difference within a changed value.
#[derive(Debug)]
pub struct ChangedValue<'a> {
    pub path: String,
    pub from: &'a Value,
    pub to: &'a Value,
}

/// The differences within a changed value: of a list of twenty files, users want to see the changed one.
pub fn places(change: &ChangeReport) -> Vec<ChangedValue<'_>> {
    let mut places = Vec::new();
    add_places(&change.path, &change.from, &change.to, &mut places);
    places
}

fn add_places<'a>(path: &str, from: &'a Value, to: &'a Value, places: &mut Vec<ChangedValue<'a>>) {
    match (from, to) {
        (Value::Object(before), Value::Object(after)) => {
            let new = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(new) {
                let (from, to) = (before.get(name).unwrap_or(&Value::Null), after.get(name).unwrap_or(&Value::Null));
                if from != to {
                    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
                    let path = if is_plain { format!("{path}.{name}") } else { format!("{path}[{name}]") };
                    add_places(&path, from, to, places);
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => add_places_of_lists(path, before, after, places),
        _ => places.push(ChangedValue { path: path.to_owned(), from, to }),
    }
}

/// Adds the elements between the common start and the common end of both lists.
fn add_places_of_lists<'a>(path: &str, before: &'a [Value], after: &'a [Value], places: &mut Vec<ChangedValue<'a>>) {
    let start = before.iter().zip(after).take_while(|(from, to)| from == to).count();
    let (before, after) = (&before[start..], &after[start..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(from, to)| from == to).count();
    let (before, after) = (&before[..before.len() - end], &after[..after.len() - end]);
    let at = |i: usize| format!("{path}[{}]", start + i);
    if before.len() == after.len() {
        for (i, (from, to)) in before.iter().zip(after).enumerate().filter(|(_, (from, to))| from != to) {
            add_places(&at(i), from, to, places);
        }
        return;
    }
    let gone = before.iter().enumerate().map(|(i, from)| ChangedValue { path: at(i), from, to: &Value::Null });
    places.extend(gone);
    places.extend(after.iter().enumerate().map(|(i, to)| ChangedValue { path: at(i), from: &Value::Null, to }));
}
