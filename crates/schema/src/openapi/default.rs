//! Defaults applied to values (VAR-D-006).

use serde_json::Value;

use super::{DefaultsBudget, Schema};
use crate::budget::Exceeded;

impl Schema {
    /// Fills in defaults; returns whether anything changed. For trusted values and schemas: nested defaults can exceed
    /// the memory.
    pub fn complete(&self, value: &mut Value) -> bool {
        self.complete_within(value, &mut DefaultsBudget::unlimited()).unwrap_or(true)
    }

    /// Fills in defaults within a budget, charged before they are copied; returns whether anything changed.
    ///
    /// # Errors
    /// When defaults exceed the budget; the value is then incomplete.
    pub fn complete_within(&self, value: &mut Value, growth: &mut DefaultsBudget) -> Result<bool, Exceeded> {
        let was_null = self.replace_null(value, growth)?;
        Ok(self.fill(value, growth)? || was_null)
    }

    /// Fills in defaults inside a `value` that is present; returns whether anything changed.
    ///
    /// Defaults inside a default are applied as well. Only `null` is overwritten. Keys that are kept by
    /// `x-kubernetes-preserve-unknown-fields` alone, and junctors such as `allOf`, are ignored.
    fn fill(&self, value: &mut Value, growth: &mut DefaultsBudget) -> Result<bool, Exceeded> {
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

    /// Replaces a `null` by the default of this node; returns whether it did.
    fn replace_null(&self, value: &mut Value, growth: &mut DefaultsBudget) -> Result<bool, Exceeded> {
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
