//! Defaults applied to values (VAR-D-006).

use serde_json::Value;

use super::{Growth, Schema};
use crate::budget::Exceeded;

impl Schema {
    /// Gives a value its defaults; says whether anything changed. For values and schemas that are trusted: defaults below
    /// defaults can add more than there is memory for.
    pub fn complete(&self, value: &mut Value) -> bool {
        self.complete_within(value, &mut Growth::unlimited()).unwrap_or(true)
    }

    /// Gives a value its defaults; says whether anything changed. What they add is taken from `growth` before it is made.
    ///
    /// # Errors
    /// When defaults would add more than that; the value is then incomplete.
    pub fn complete_within(&self, value: &mut Value, growth: &mut Growth) -> Result<bool, Exceeded> {
        let was_null = self.replace_null(value, growth)?;
        Ok(self.fill(value, growth)? || was_null)
    }

    /// Fills holes inside `value`, which itself is there; says whether anything changed.
    ///
    /// Defaults inside a default are applied too. Nothing is removed or overwritten except `null`. Keys that only
    /// `x-kubernetes-preserve-unknown-fields` keeps, and `allOf` and its like, are not looked at.
    fn fill(&self, value: &mut Value, growth: &mut Growth) -> Result<bool, Exceeded> {
        match value {
            Value::Object(members) => {
                let mut changed = false;
                for (name, node) in self.properties.iter() {
                    if let Some(default) = &node.default
                        && members.get(name).is_none_or(Value::is_null)
                    {
                        growth.take(default)?;
                        members.insert(name.to_owned(), default.clone());
                        changed = true;
                    }
                }
                for (name, member) in members {
                    if let Some(node) = self.properties.get(name) {
                        changed |= node.fill(member, growth)?;
                    } else if let Some(node) = &self.additional_properties {
                        changed |= node.replace_null(member, growth)?;
                        changed |= node.fill(member, growth)?;
                    }
                }
                Ok(changed)
            }
            Value::Array(elements) => {
                let Some(node) = &self.items else { return Ok(false) };
                let mut changed = false;
                for element in elements {
                    changed |= node.replace_null(element, growth)?;
                    changed |= node.fill(element, growth)?;
                }
                Ok(changed)
            }
            _ => Ok(false),
        }
    }

    /// Puts the default of this node in the place of a `null`; says whether it did.
    fn replace_null(&self, value: &mut Value, growth: &mut Growth) -> Result<bool, Exceeded> {
        match &self.default {
            Some(default) if value.is_null() => {
                growth.take(default)?;
                value.clone_from(default);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
