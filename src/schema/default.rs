//! Defaults applied to values (VAR-D-006).

use serde_json::Value;

use super::Schema;

impl Schema {
    /// Gives a value its defaults; says whether anything changed.
    pub fn complete(&self, value: &mut Value) -> bool {
        let was_null = self.replace_null(value);
        self.fill(value) || was_null
    }

    /// Fills holes inside `value`, which itself is there; says whether anything changed.
    ///
    /// Defaults inside a default are applied too. Nothing is removed or overwritten except `null`. Keys that only
    /// `x-kubernetes-preserve-unknown-fields` keeps, and `allOf` and its like, are not looked at.
    fn fill(&self, value: &mut Value) -> bool {
        match value {
            Value::Object(members) => {
                let mut changed = false;
                for (name, node) in self.properties.iter() {
                    if let Some(default) = &node.default
                        && members.get(name).is_none_or(Value::is_null)
                    {
                        members.insert(name.to_owned(), default.clone());
                        changed = true;
                    }
                }
                for (name, member) in members {
                    if let Some(node) = self.properties.get(name) {
                        changed |= node.fill(member);
                    } else if let Some(node) = &self.additional_properties {
                        changed |= node.replace_null(member);
                        changed |= node.fill(member);
                    }
                }
                changed
            }
            Value::Array(elements) => {
                let Some(node) = &self.items else { return false };
                let mut changed = false;
                for element in elements {
                    changed |= node.replace_null(element);
                    changed |= node.fill(element);
                }
                changed
            }
            _ => false,
        }
    }

    /// Puts the default of this node in the place of a `null`; says whether it did.
    fn replace_null(&self, value: &mut Value) -> bool {
        match &self.default {
            Some(default) if value.is_null() => {
                value.clone_from(default);
                true
            }
            _ => false,
        }
    }
}
