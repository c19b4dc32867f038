//! Fields of values that no schema node knows (VAR-V-030).

use serde_json::Value;

use super::Schema;
use crate::field::shortened;

/// How many unknown fields of one value are named; nobody reads more.
const KEPT: usize = 100;

impl Schema {
    /// The places of unknown fields, as `a.b` and `a.list[0].c` relative to the value, sorted; the first hundred or so.
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        let mut places = Vec::new();
        self.collect(value, self.preserve_unknown_fields, &mut String::new(), &mut places);
        places.sort();
        places
    }

    /// `preserve` says whether this node keeps unknown fields: by itself, or as an element of an array that does.
    fn collect(&self, value: &Value, preserve: bool, place: &mut String, places: &mut Vec<String>) {
        let length = place.len();
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if places.len() >= KEPT {
                        return;
                    }
                    if length > 0 {
                        place.push('.');
                    }
                    place.push_str(&shortened(name));
                    match self.properties.get(name).or(self.additional_properties.as_deref()) {
                        Some(node) => node.collect(member, node.preserve_unknown_fields, place, places),
                        None if preserve => {}
                        None => places.push(place.clone()),
                    }
                    place.truncate(length);
                }
            }
            Value::Array(elements) => {
                let Some(node) = &self.items else { return };
                for (i, element) in elements.iter().enumerate() {
                    place.push_str(&format!("[{i}]"));
                    node.collect(element, preserve || node.preserve_unknown_fields, place, places);
                    place.truncate(length);
                }
            }
            _ => {}
        }
    }
}
