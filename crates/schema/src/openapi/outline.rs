//! What the fast check needs of a node, computed once per schema.

use std::collections::HashSet;

use serde_json::Value;

use super::kind::Kind;
use super::{Allowance, Schema, Unusable};
use crate::budget::Exceeded;
use golang::json::in_memory;

/// What the fast check needs of a node, computed once per schema.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outline {
    /// Texts have a length, a pattern and a format at most.
    pub(super) texts: bool,
    /// Arrays are good when their number of elements and each element is.
    pub(super) arrays: bool,
    /// Objects are good when their number of members and each member is, and nothing is missing.
    pub(super) objects: bool,
    /// The properties that may not be missing, by position: required ones, and those with a default.
    pub(super) needed: u64,
    /// Those of them that may be missing, since their default is good.
    pub(super) filled: u64,
}

impl Outline {
    pub(super) fn of(node: &Schema, allowance: &mut Allowance) -> Result<Outline, Unusable> {
        // Every keyword is named: a new one has to be thought about here.
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
            // Members and elements are looked at by themselves, a null gets the full check.
            additional_properties: _,
            preserve_unknown_fields: _,
            items: _,
            default: _,
            // Counted by the fast check.
            min_properties: _,
            max_properties: _,
            min_items: _,
            max_items: _,
            // Judged by the functions that look closer.
            min_length: _,
            max_length: _,
            pattern: _,
            format: _,
            minimum: _,
            maximum: _,
            // Run on the value itself, even if it was accepted.
            rules: _,
            has_rules: _,
            // Says nothing about values.
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
        Ok(Outline {
            texts: may_be(Kind::String),
            arrays: may_be(Kind::Array) && !unique_items,
            objects: may_be(Kind::Object) && is_countable,
            needed: mask(properties.iter().map(is_needed)),
            filled,
        })
    }
}

/// A bit for each of the first properties of which something holds.
fn mask(holds: impl Iterator<Item = bool>) -> u64 {
    holds.take(64).enumerate().filter(|(_, holds)| *holds).map(|(i, _)| 1 << i).sum()
}

impl Schema {
    /// Whether the default of this node, as it is filled in, is a good value of it.
    fn has_good_default(&self, allowance: &mut Allowance) -> Result<bool, Unusable> {
        let Some(value) = self.expanded_default(allowance)? else { return Ok(false) };
        let violations = allowance.violations(self, &value);
        let violations = violations.map_err(|exceeded| Unusable::from(exceeded).below(|| ".default".to_owned()))?;
        Ok(violations.is_empty() && self.unknown_fields(&value).is_empty())
    }

    /// The default of this node with the defaults below it filled in.
    ///
    /// # Errors
    /// When it is larger than the allowance permits (DEC-44).
    pub fn expanded_default(&self, allowance: &mut Allowance) -> Result<Option<Value>, Unusable> {
        let Some(default) = &self.default else { return Ok(None) };
        let at_default = |exceeded: Exceeded| Unusable::from(exceeded).below(|| ".default".to_owned());
        allowance.growth().take(default).map_err(at_default)?;
        let mut value = default.clone();
        self.complete_within(&mut value, allowance.growth()).map_err(at_default)?;
        allowance.compile(in_memory(&value)).map_err(at_default)?;
        Ok(Some(value))
    }
}
