//! Equality and order of JSON values in field ownership.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// Whether two values are equal; `1` and `1.0` are, and the order of keys is ignored.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_of_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}

/// Order: numbers, strings, booleans, lists, maps, null.
fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_of_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let differing = left.iter().zip(right).map(|(left, right)| order(left, right)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let (mut left, mut right): (Vec<_>, Vec<_>) = (left.iter().collect(), right.iter().collect());
            left.sort_by_key(|(key, _)| *key);
            right.sort_by_key(|(key, _)| *key);
            let pairs = left.iter().zip(&right);
            let differing = pairs.map(|(left, right)| left.0.cmp(right.0).then_with(|| order(left.1, right.1)));
            differing.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn order_of_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().unwrap_or(0.0).total_cmp(&right.as_f64().unwrap_or(0.0)),
    }
}

/// The number as an integer, including `1.0`; comparing all integers as such keeps the order consistent.
fn integer(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = number.as_u64() {
        return Some(integer.into());
    }
    let float = number.as_f64()?;
    #[allow(clippy::cast_possible_truncation, reason = "the float is an integer far below the limits of 128 bits")]
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

/// A value that identifies a list entry: one of its keys, or an entry of a set.
#[derive(Clone, Debug)]
pub struct ListKey(pub Value);

impl PartialEq for ListKey {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Eq for ListKey {}

impl PartialOrd for ListKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ListKey {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.0, &other.0)
    }
}

impl ListKey {
    /// The value as Go writes JSON: integral floats as integers, HTML characters escaped.
    pub(super) fn go_json(&self) -> String {
        let mut value = self.0.clone();
        golang::json::with_integers(&mut value);
        let mut text = String::new();
        for c in value.to_string().chars() {
            match c {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => text.push(c),
            }
        }
        text
    }
}

/// Strings are quoted, as in the messages of a server.
impl fmt::Display for ListKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => write!(f, "{text:?}"),
            other => write!(f, "{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_equal_however_they_are_written() {
        assert!(equal(&json!({"a": [1, 2.5]}), &json!({"a": [1.0, 2.5]})));
        assert!(equal(&json!(18_446_744_073_709_551_615_u64), &json!(18_446_744_073_709_551_615_u64)));
        for (left, right) in [
            (json!(1), json!("1")),
            (json!([1]), json!([1, 2])),
            (json!({"a": 1}), json!({"b": 1})),
            (json!({"a": 1}), json!({"a": 1, "b": 1})),
            (json!(null), json!({})),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)),
        ] {
            assert!(!equal(&left, &right), "{left} {right}");
        }
    }

    #[test]
    fn values_of_all_types_have_an_order() {
        let sorted = [
            json!(-1),
            json!(0.5),
            json!(2),
            json!("a"),
            json!("b"),
            json!(false),
            json!(true),
            json!([1]),
            json!([1, 0]),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"b": 1}),
            json!(null),
        ];
        let mut shuffled: Vec<ListKey> = sorted.iter().rev().cloned().map(ListKey).collect();
        shuffled.sort();
        assert_eq!(shuffled.into_iter().map(|literal| literal.0).collect::<Vec<_>>(), sorted);
    }

    #[test]
    fn literals_print_as_go_prints_them() {
        assert_eq!(ListKey(json!({"a<b": "&>"})).go_json(), r#"{"a\u003cb":"\u0026\u003e"}"#);
        assert_eq!(ListKey(json!(2.0)).go_json(), "2");
        assert_eq!(ListKey(json!("a\"b")).to_string(), r#""a\"b""#);
    }
}
