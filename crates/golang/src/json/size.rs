//! Counts of objects and values in JSON text, taken before decoding, and estimates of the memory of a value.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde_json::Value;

/// Number of objects and values in a JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// Objects, and nulls, since a list may decode them as objects without content.
    pub objects: usize,
    /// Elements of lists and members of objects.
    pub values: usize,
}

impl JsonSize {
    /// Counts the objects and values of a text; an estimate if the text is not JSON.
    pub fn measure(text: &str) -> Self {
        let mut size = JsonSize::default();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => {
                    // Skips to the end of the string.
                    while let Some(byte) = bytes.next() {
                        match byte {
                            b'\\' => _ = bytes.next(),
                            b'"' => break,
                            _ => {}
                        }
                    }
                }
                b'{' => {
                    size.objects += 1;
                    size.values += 1;
                }
                b'[' | b',' => size.values += 1,
                b'n' => size.objects += 1,
                _ => {}
            }
        }
        size
    }

    /// Upper bound of the memory of the decoded text, in bytes: an object has room for eleven members.
    pub fn decoded_bytes(text: &str) -> usize {
        let size = JsonSize::measure(text);
        text.len() + size.objects.saturating_mul(640) + size.values.saturating_mul(32)
    }

    /// This size less the size of a part.
    #[must_use]
    pub fn without(self, part: JsonSize) -> JsonSize {
        JsonSize { objects: self.objects.saturating_sub(part.objects), values: self.values.saturating_sub(part.values) }
    }

    /// Whether either count exceeds that of `most`.
    pub fn exceeds(self, most: JsonSize) -> bool {
        self.objects > most.objects || self.values > most.values
    }
}

/// Overhead of an allocation, and of the B-tree node for the members of an object (each node holds at least six), in
/// bytes.
pub const ALLOCATION: usize = 16;
const PART: usize = 640;
const MEMBERS_OF_PART: usize = 6;

/// Approximate memory of a value, in bytes: a few bytes of text may take several hundred.
pub fn in_memory(value: &Value) -> usize {
    // A list may have a larger capacity than length.
    let node = size_of::<Value>() * 3 / 2;
    node + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => ALLOCATION + text.len(),
        Value::Array(elements) => ALLOCATION + elements.iter().map(in_memory).sum::<usize>(),
        Value::Object(members) => {
            let parts = members.len().div_ceil(MEMBERS_OF_PART) * PART;
            let below = members.iter().map(|(name, member)| ALLOCATION + name.len() + in_memory(member) - node);
            parts + below.sum::<usize>()
        }
    }
}

/// Approximate size of a value in bytes, as text and in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub text: usize,
    pub memory: usize,
}

impl Weight {
    /// The weight of a value.
    pub fn from_value(value: &Value) -> Self {
        Weight { text: text_length(value), memory: in_memory(value) }
    }

    /// The weight of the decoded value of a JSON text.
    pub fn from_text(text: &str) -> Self {
        Weight { text: text.len(), memory: JsonSize::decoded_bytes(text) }
    }

    /// The weight of an object whose members are strings.
    pub fn from_texts<'t>(members: impl Iterator<Item = (&'t str, &'t str)>) -> Self {
        let (count, bytes) = members.fold((0_usize, 0_usize), |(count, bytes), (name, text)| {
            (count + 1, bytes.saturating_add(name.len() + text.len()))
        });
        let memory = count.div_ceil(MEMBERS_OF_PART) * PART + count * 2 * ALLOCATION + bytes;
        Weight { text: bytes.saturating_add(count * MARKS_OF_MEMBER), memory }
    }

    /// The weight of `copies` copies.
    #[must_use]
    pub fn times(self, copies: usize) -> Self {
        Weight { text: self.text.saturating_mul(copies), memory: self.memory.saturating_mul(copies) }
    }

    /// The amount by which this exceeds `other`.
    #[must_use]
    pub fn beyond(self, other: Weight) -> Self {
        Weight { text: self.text.saturating_sub(other.text), memory: self.memory.saturating_sub(other.memory) }
    }
}

impl Add for Weight {
    type Output = Weight;

    fn add(self, other: Weight) -> Weight {
        Weight { text: self.text.saturating_add(other.text), memory: self.memory.saturating_add(other.memory) }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        *self = *self + other;
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Weight>>(weights: I) -> Weight {
        weights.fold(Weight::default(), Weight::add)
    }
}

/// Quotes, colon and comma of a string member.
const MARKS_OF_MEMBER: usize = 6;
/// Approximate length of a number as text.
const NUMBER: usize = 4;

/// Approximate length of a value as JSON without spaces and escapes.
fn text_length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(_) => NUMBER,
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => elements.iter().map(|element| text_length(element) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() + 4 + text_length(member)).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_weight_is_about_the_length_of_the_text_and_the_memory_of_the_value() {
        let labels = json!({"region": "north", "zone": "a", "team": "storage"});
        let file = json!({"path": "/etc/a", "size": 1000, "plain": true});
        let value = json!({"spec": {"files": vec![file; 100], "labels": labels}});
        let (weight, text) = (Weight::from_value(&value), value.to_string());
        assert!(weight.text.abs_diff(text.len()) * 20 < text.len(), "{weight:?}, and the text has {}", text.len());
        assert_eq!(weight.memory, in_memory(&value));
        assert!(Weight::from_text(&text).memory >= weight.memory / 2, "{weight:?}");
        let entries = labels.as_object().unwrap().iter().map(|(name, value)| (&**name, value.as_str().unwrap()));
        let (exact, guess) = (Weight::from_value(&labels), Weight::from_texts(entries));
        assert!(
            guess.text.abs_diff(exact.text) < 5 && guess.memory.abs_diff(exact.memory) < 200,
            "{exact:?} {guess:?}"
        );
        assert_eq!(weight.times(2), [weight, weight].into_iter().sum::<Weight>());
        assert_eq!(weight.beyond(weight.times(3)), Weight::default());
        assert_eq!(weight.times(3).beyond(weight), weight + weight);
    }

    #[test]
    fn text_inside_strings_is_not_counted() {
        for (text, objects, values) in [
            ("", 0, 0),
            ("1", 0, 0),
            ("{}", 1, 1),
            (r#"{"a":{"b":[1,2,null]},"c":"{[,null"}"#, 3, 6),
            (r#"["\"{", "\\", {}, "{{ . }}"]"#, 1, 5),
            ("[null,null]", 2, 2),
            (r#"["unended {"#, 0, 1),
            (r#"{"a\\\"{":{"b\\":{}}}"#, 3, 3),
            ("[true,1]", 0, 2),
        ] {
            assert_eq!(JsonSize::measure(text), JsonSize { objects, values }, "{text}");
        }
        let most = JsonSize { objects: 2, values: 9 };
        assert!(JsonSize { objects: 3, values: 0 }.exceeds(most) && JsonSize { objects: 0, values: 10 }.exceeds(most));
        assert!(!most.exceeds(most) && most.without(most) == JsonSize::default());
    }
}
