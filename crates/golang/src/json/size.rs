//! The number of objects and values in a JSON text, counted before decoding, and what a value takes in memory.

use serde_json::Value;

/// How many values a JSON text has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Objects, and nulls, which are read as objects without content where a list has them.
    pub objects: usize,
    /// Elements of lists and members of objects.
    pub values: usize,
}

impl Size {
    /// The size of a text; of one that is no JSON an estimate.
    pub fn of(text: &str) -> Self {
        let mut size = Size::default();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => {
                    // To the end of the string.
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

    /// How many bytes the text takes once it is decoded, at most: an object has room for eleven members.
    pub fn decoded(text: &str) -> usize {
        let size = Size::of(text);
        text.len() + size.objects.saturating_mul(640) + size.values.saturating_mul(32)
    }

    /// What is left without a part.
    #[must_use]
    pub fn without(self, part: Size) -> Size {
        Size { objects: self.objects.saturating_sub(part.objects), values: self.values.saturating_sub(part.values) }
    }

    /// Whether there is more than `most` of either.
    pub fn exceeds(self, most: Size) -> bool {
        self.objects > most.objects || self.values > most.values
    }
}

/// What an allocation takes besides what is asked for, and what a tree takes for the members of an object, of which a part holds
/// six at least.
pub const ALLOCATION: usize = 16;
const PART: usize = 640;
const MEMBERS_OF_PART: usize = 6;

/// About how many bytes a value takes in memory: a few bytes of text may be several hundred.
pub fn in_memory(value: &Value) -> usize {
    // A list may have room for more elements than it has.
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Size::of(text), Size { objects, values }, "{text}");
        }
        let most = Size { objects: 2, values: 9 };
        assert!(Size { objects: 3, values: 0 }.exceeds(most) && Size { objects: 0, values: 10 }.exceeds(most));
        assert!(!most.exceeds(most) && most.without(most) == Size::default());
    }
}
