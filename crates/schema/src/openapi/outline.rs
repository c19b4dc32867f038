//! The parts of a node that the fast check needs, computed once per schema.

use std::collections::HashSet;

use serde_json::Value;

use super::kind::ValueType;
use super::{Schema, SchemaAllowance, SchemaError};
use crate::budget::Exceeded;
use golang::json::in_memory;

/// The parts of a node that the fast check needs, computed once per schema.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FastCheckPlan {
    /// Whether strings have at most a length, a pattern and a format.
    pub(super) texts: bool,
    /// Whether arrays are valid if their length and each element is.
    pub(super) arrays: bool,
    /// Whether objects are valid if their size and each member is, and nothing is missing.
    pub(super) objects: bool,
    /// Bit mask, by position, of properties that may not be missing: required ones, and those with a default.
    pub(super) needed: u64,
    /// Bit mask of those that may be missing, since their default is valid.
    pub(super) filled: u64,
}

impl FastCheckPlan {
    pub(super) fn for_node(node: &Schema, allowance: &mut SchemaAllowance) -> Result<FastCheckPlan, SchemaError> {
        // Every keyword is named here, so that a new one must be considered.
        let Schema {
            kind,
            int_or_string,
            properties,
            required,
            unique_items,
            values,
            all_of,
            any_of,
            one_of,
            not,
            // Members and elements are checked by themselves; a null gets the full check.
            additional_properties: _,
            preserve_unknown_fields: _,
            items: _,
            default: _,
            // Checked by the fast check.
            min_properties: _,
            max_properties: _,
            min_items: _,
            max_items: _,
            // Checked by the functions of the full check.
            min_length: _,
            max_length: _,
            pattern: _,
            format: _,
            minimum: _,
            maximum: _,
            // Evaluated on the value itself, even if the fast check accepted it.
            rules: _,
            has_rules: _,
            // No effect on validity.
            has_secrets: _,
            deprecated: _,
            has_deprecated: _,
            outline: _,
        } = node;
        let has_junctors = !(all_of.is_empty() && any_of.is_empty() && one_of.is_empty() && not.is_none());
        let is_plain = !int_or_string && values.is_empty() && !has_junctors;
        let may_be = |wanted| is_plain && kind.is_none_or(|kind| kind == wanted);
        let is_countable = properties.len() <= 64 && required.iter().all(|name| properties.position(name).is_some());
        let wanted: HashSet<&str> = required.iter().map(String::as_str).collect();
        let is_needed = |(name, node): (&str, &Schema)| node.default.is_some() || wanted.contains(name);
        let mut filled = 0;
        for (i, (name, node)) in properties.iter().enumerate().take(64) {
            let is_good = node.has_good_default(allowance);
            filled |= u64::from(is_good.map_err(|error| error.below(|| format!(".properties[{name}]")))?) << i;
        }
        Ok(FastCheckPlan {
            texts: may_be(ValueType::String),
            arrays: may_be(ValueType::Array) && !unique_items,
            objects: may_be(ValueType::Object) && is_countable,
            needed: mask(properties.iter().map(is_needed)),
            filled,
        })
    }
}

/// A bit mask of the first properties that satisfy a condition.
fn mask(holds: impl Iterator<Item = bool>) -> u64 {
    holds.take(64).enumerate().filter(|(_, holds)| *holds).map(|(i, _)| 1 << i).sum()
}

impl Schema {
    /// Whether the expanded default of this node is valid.
    fn has_good_default(&self, allowance: &mut SchemaAllowance) -> Result<bool, SchemaError> {
        let Some(value) = self.expanded_default(allowance)? else { return Ok(false) };
        let violations = allowance.violations(self, &value);
        let violations = violations.map_err(|exceeded| SchemaError::from(exceeded).below(|| ".default".to_owned()))?;
        Ok(violations.is_empty() && self.unknown_fields(&value).is_empty())
    }

    /// The default of this node with nested defaults filled in.
    ///
    /// # Errors
    /// When it is larger than the allowance permits (DEC-44).
    pub fn expanded_default(&self, allowance: &mut SchemaAllowance) -> Result<Option<Value>, SchemaError> {
        let Some(default) = &self.default else { return Ok(None) };
        let at_default = |exceeded: Exceeded| SchemaError::from(exceeded).below(|| ".default".to_owned());
        allowance.growth().take(default).map_err(at_default)?;
        let mut value = default.clone();
        self.complete_within(&mut value, allowance.growth()).map_err(at_default)?;
        allowance.compile(in_memory(&value)).map_err(at_default)?;
        Ok(Some(value))
    }
}
