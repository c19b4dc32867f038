//! Fields that webhooks of providers are assumed to set.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What webhooks add to the objects of kinds: fields that an object has keep their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assumptions {
    /// By `apiVersion` and kind.
    fields: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Assumptions {
    /// Adds the fields of a partial object to what is assumed about its kind in its version; they win over earlier ones.
    pub fn add(&mut self, api_version: &str, kind: &str, partial: &Value) {
        let mut fields = partial.clone();
        if let Value::Object(fields) = &mut fields {
            for name in ["apiVersion", "kind", "metadata", "status"] {
                fields.remove(name);
            }
        }
        let kinds = self.fields.entry(api_version.to_owned()).or_default();
        let known = kinds.entry(kind.to_owned()).or_insert_with(|| Map::new().into());
        fill(&mut fields, known);
        *known = fields;
    }

    /// Whether nothing is assumed, as in most commands.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The kinds that something is assumed about, as `apiVersion` and kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().flat_map(|(version, kinds)| kinds.keys().map(move |kind| (&**version, &**kind)))
    }

    /// Adds the assumed fields to an object; returns whether it has changed.
    pub fn complete(&self, api_version: &str, kind: &str, object: &mut Value) -> bool {
        let assumed = self.fields.get(api_version).and_then(|kinds| kinds.get(kind));
        assumed.is_some_and(|assumed| fill(object, assumed))
    }
}

/// Adds the members that an object and the objects in it lack; returns whether there are some.
fn fill(object: &mut Value, assumed: &Value) -> bool {
    let (Value::Object(members), Value::Object(assumed)) = (object, assumed) else { return false };
    let mut has_changed = false;
    for (name, value) in assumed {
        if let Some(member) = members.get_mut(name) {
            has_changed |= fill(member, value);
        } else {
            members.insert(name.clone(), value.clone());
            has_changed = true;
        }
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_there_keep_their_values() {
        // DEC-68
        let mut assumptions = Assumptions::default();
        assumptions.add(
            "a/v1",
            "Kind",
            &json!({"apiVersion": "a/v1", "metadata": {"name": "x"}, "spec": {"m": {"n": 1}}}),
        );
        assumptions.add("a/v1", "Kind", &json!({"spec": {"m": {"n": 2}, "list": []}}));
        let mut object = json!({"spec": {"m": {"o": null}, "list": [1]}});
        assert!(assumptions.complete("a/v1", "Kind", &mut object));
        assert_eq!(object, json!({"spec": {"m": {"o": null, "n": 2}, "list": [1]}}));
        assert!(!assumptions.complete("a/v1", "Kind", &mut object), "nothing is left to add");
        assert!(!assumptions.complete("a/v2", "Kind", &mut json!({})));
    }
}
