//! Unknown fields of values (VAR-V-030).

use std::sync::LazyLock;

use serde_json::Value;

use super::Schema;
use crate::field::{closest, lengthen, shortened};

/// Maximum number of reported unknown fields of one value.
const KEPT: usize = 100;

/// Maximum number of suggestions per value.
const HINTS: usize = 3;

impl Schema {
    /// Suggestions for the first unknown fields, by their paths.
    pub fn meant_by(&self, value: &Value, places: &[String]) -> Vec<String> {
        let mut meant = Vec::new();
        self.meant(value, &mut String::new(), places.get(..HINTS.min(places.len())).unwrap_or_default(), &mut meant);
        meant
    }

    fn meant(&self, value: &Value, place: &mut String, unknown: &[String], meant: &mut Vec<String>) {
        let length = place.len();
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    lengthen(place, &[if length > 0 { "." } else { "" }, &shortened(name)]);
                    match self.properties.get(name).or(self.additional_properties.as_deref()) {
                        Some(node) if unknown.iter().any(|unknown| unknown.starts_with(&**place)) => {
                            node.meant(member, place, unknown, meant);
                        }
                        None if unknown.contains(place) => {
                            // The intended property may have been filled in by a default.
                            let known = self.properties.iter().map(|(known, _)| known);
                            meant.extend(closest(name, known).map(str::to_owned));
                        }
                        _ => {}
                    }
                    place.truncate(length);
                }
            }
            Value::Array(elements) => {
                let Some(node) = &self.items else { return };
                for (i, element) in elements.iter().enumerate() {
                    lengthen(place, &["[", &i.to_string(), "]"]);
                    if unknown.iter().any(|unknown| unknown.starts_with(&**place)) {
                        node.meant(element, place, unknown, meant);
                    }
                    place.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Paths of unknown fields, as `a.b` and `a.list[0].c` relative to the value, sorted; about the first hundred.
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        // Building paths costs more than looking, and few values need them.
        if self.knows_all(value, self.preserve_unknown_fields) {
            return Vec::new();
        }
        let mut places = Vec::new();
        self.collect(value, self.preserve_unknown_fields, &mut String::new(), &mut places);
        places.sort();
        places
    }

    /// The node of elements. A value may be an array although no node is declared for its elements, which knows no
    /// fields then (VAR-V-024).
    fn element(&self) -> &Schema {
        self.items.as_deref().unwrap_or(Schema::undeclared())
    }

    /// A node that declares nothing.
    pub(super) fn undeclared() -> &'static Schema {
        static UNDECLARED: LazyLock<Schema> = LazyLock::new(Schema::default);
        &UNDECLARED
    }

    /// Whether there are no unknown fields.
    fn knows_all(&self, value: &Value, preserve: bool) -> bool {
        match value {
            Value::Object(members) => members.iter().enumerate().all(|(guess, (name, member))| {
                let known =
                    self.properties.position_near(guess, name).and_then(|position| self.properties.at(position));
                match known.or(self.additional_properties.as_deref()) {
                    Some(node) => node.knows_all(member, node.preserve_unknown_fields),
                    None => preserve,
                }
            }),
            Value::Array(elements) => {
                let node = self.element();
                elements.iter().all(|element| node.knows_all(element, preserve || node.preserve_unknown_fields))
            }
            _ => true,
        }
    }

    /// `preserve` tells whether this node preserves unknown fields: by itself, or as an element of an array that does.
    fn collect(&self, value: &Value, preserve: bool, place: &mut String, places: &mut Vec<String>) {
        let length = place.len();
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if places.len() >= KEPT {
                        return;
                    }
                    lengthen(place, &[if length > 0 { "." } else { "" }, &shortened(name)]);
                    match self.properties.get(name).or(self.additional_properties.as_deref()) {
                        Some(node) => node.collect(member, node.preserve_unknown_fields, place, places),
                        None if preserve => {}
                        None => places.push(place.clone()),
                    }
                    place.truncate(length);
                }
            }
            Value::Array(elements) => {
                let node = self.element();
                for (i, element) in elements.iter().enumerate() {
                    lengthen(place, &["[", &i.to_string(), "]"]);
                    node.collect(element, preserve || node.preserve_unknown_fields, place, places);
                    place.truncate(length);
                }
            }
            _ => {}
        }
    }
}
