//! Fast path of validation: whether the text of a value is valid as it is.
//!
//! Most values are valid. The fast check reads the text once along the schema and keeps nothing, at a fraction of the
//! cost of a tree. It can only accept: if it finds an error or is not sure, the full check decides, and all errors and
//! defaults come from there (`validate.rs`, `default.rs`, `unknown.rs`). It uses the reader of `json::value`, so a text
//! that cannot be read there is not accepted here.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::validate::STEPS_OF_NODE;
use super::{Schema, ValidationEffort};
use golang::json;

/// Result of the fast check. It does not evaluate CEL rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastVerdict {
    /// The value is valid, complete, and has no unknown field. Floats without a fraction count as integers (VAR-D-007).
    Whole,
    /// The value is valid once its defaults are filled in.
    LacksDefaults,
    /// The full check is needed.
    Unclear,
}

impl Schema {
    /// Checks the value in `text` without building a tree. A value that exceeds `effort` is unclear.
    pub fn fast_check(&self, text: &str, effort: &ValidationEffort) -> FastVerdict {
        let mut reader = serde_json::Deserializer::from_str(text);
        let lacks_defaults = Cell::new(false);
        let check = FastCheck {
            node: Some(self),
            keeps_unknown: self.preserve_unknown_fields,
            lacks_defaults: &lacks_defaults,
            effort,
        };
        match check.deserialize(&mut reader).is_ok() && reader.end().is_ok() {
            true if lacks_defaults.get() => FastVerdict::LacksDefaults,
            true => FastVerdict::Whole,
            false => FastVerdict::Unclear,
        }
    }
}

/// Position of the check: a value that a node describes, or one that is not checked.
#[derive(Clone, Copy)]
struct FastCheck<'s> {
    node: Option<&'s Schema>,
    /// Whether unknown members are preserved: by the node, or by an array around it.
    keeps_unknown: bool,
    /// Whether a default was missing so far.
    lacks_defaults: &'s Cell<bool>,
    effort: &'s ValidationEffort,
}

impl<'s> FastCheck<'s> {
    /// The position at a value that is not checked.
    fn unseen(self) -> Self {
        FastCheck { node: None, keeps_unknown: true, ..self }
    }

    /// The position at a member described by `node`.
    fn at(self, node: &'s Schema) -> Self {
        FastCheck { node: Some(node), keeps_unknown: node.preserve_unknown_fields, ..self }
    }

    /// The position at an array element.
    fn at_element(self) -> FastCheck<'s> {
        match self.node.and_then(|node| node.items.as_deref()) {
            Some(node) => {
                FastCheck { keeps_unknown: self.keeps_unknown || node.preserve_unknown_fields, ..self.at(node) }
            }
            None if self.keeps_unknown || self.node.is_none() => self.unseen(),
            None => self.at(Schema::undeclared()),
        }
    }

    /// Scalars are small, so the full check is applied.
    fn scalar<E: Error>(self, mut value: Value) -> Result<(), E> {
        json::with_go_numbers(&mut value);
        good(self.effort.take(0) && self.node.is_none_or(|node| node.violations_within(&value, self.effort).is_empty()))
    }
}

/// Continues if `is_good`, or ends the fast check.
fn good<E: Error>(is_good: bool) -> Result<(), E> {
    if is_good { Ok(()) } else { Err(E::custom("look closer")) }
}

impl<'de> DeserializeSeed<'de> for FastCheck<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FastCheck<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    /// A null may be filled by a default or be invalid.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        good(self.node.is_none())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.node {
            Some(node) if node.outline.texts => good(node.fits_text(text, self.effort)),
            Some(_) => self.scalar(text.into()),
            None => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        good(self.effort.take(STEPS_OF_NODE) && self.node.is_none_or(|node| node.outline.arrays))?;
        let mut count = 0;
        while elements.next_element_seed(self.at_element())?.is_some() {
            count += 1;
        }
        good(self.node.is_none_or(|node| within(node.min_items, count, count, node.max_items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Some(node) = self.node else {
            while members.next_key_seed(Name(|_: &str| ()))?.is_some() {
                members.next_value_seed(self.unseen())?;
            }
            return Ok(());
        };
        good(self.effort.take(STEPS_OF_NODE) && node.outline.objects)?;
        // A repeated name counts once.
        let (mut count, mut seen, mut next) = (0, 0_u64, 0);
        while let Some(position) =
            members.next_key_seed(Name(|name: &str| node.properties.position_near(next, name)))?
        {
            count += 1;
            if let Some(position) = position {
                seen |= 1 << position;
                next = position + 1;
            }
            let known = position.and_then(|position| node.properties.at(position));
            match known.or(node.additional_properties.as_deref()) {
                Some(node) => members.next_value_seed(self.at(node))?,
                None if self.keeps_unknown => members.next_value_seed(self.unseen())?,
                None => good(false)?,
            }
        }
        let missing = node.outline.needed & !seen;
        if missing != 0 {
            self.lacks_defaults.set(true);
        }
        let filled = i64::from(missing.count_ones());
        let at_least = i64::from(seen.count_ones()).max(count.min(1)) + filled;
        good(
            missing & !node.outline.filled == 0
                && within(node.min_properties, at_least, count + filled, node.max_properties),
        )
    }
}

/// Whether a number between `low` and `high` is within the bounds.
fn within(least: Option<i64>, low: i64, high: i64, most: Option<i64>) -> bool {
    least.is_none_or(|least| low >= least) && most.is_none_or(|most| high <= most)
}

/// Reads the name of a member and passes it to a function.
struct Name<F>(F);

impl<'de, R, F: FnOnce(&str) -> R> DeserializeSeed<'de> for Name<F> {
    type Value = R;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<R, F: FnOnce(&str) -> R> Visitor<'_> for Name<F> {
    type Value = R;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<R, E> {
        Ok((self.0)(name))
    }
}

#[cfg(test)]
mod tests;
