//! JSON values without the special keys of `serde_json`.
//!
//! `serde_json` interprets objects with certain private keys, so the value that it reads may differ from the text. Code
//! that validates a value reads it with [`value`].

use std::cell::RefCell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a value.
///
/// # Errors
/// When the text is not JSON, or has a number beyond 64-bit floats.
pub fn value(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<PlainValue>(text).map(|PlainValue(value)| value)
}

/// Maximum number of repeated keys that are returned.
const KEPT: usize = 100;

/// Reads a value in which the last of equal keys counts; also returns the paths of the repeated keys, such as `b[0].c`,
/// at most a hundred.
///
/// # Errors
/// See [`value`].
pub fn value_and_repeats(text: &str) -> Result<(Value, Vec<String>), serde_json::Error> {
    let found = RefCell::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = ValueVisitor(RepeatedPlaces { place: String::new(), found: &found }).deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, found.into_inner()))
}

/// A value in which no key is special.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainValue(pub Value);

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueVisitor(()).deserialize(deserializer).map(PlainValue)
    }
}

/// Observes the paths of a value while it is read.
trait PlaceObserver: Sized {
    fn element(&self, index: usize) -> Self;
    fn member(&self, name: &str) -> Self;
    /// Called when the current path has been read before.
    fn read_again(&self);
}

impl PlaceObserver for () {
    fn element(&self, _: usize) -> Self {}
    fn member(&self, _: &str) -> Self {}
    fn read_again(&self) {}
}

/// Records the paths that are read more than once.
struct RepeatedPlaces<'r> {
    place: String,
    found: &'r RefCell<Vec<String>>,
}

impl PlaceObserver for RepeatedPlaces<'_> {
    fn element(&self, index: usize) -> Self {
        RepeatedPlaces { place: format!("{}[{index}]", self.place), found: self.found }
    }

    fn member(&self, name: &str) -> Self {
        let place = if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) };
        RepeatedPlaces { place, found: self.found }
    }

    fn read_again(&self) {
        let mut found = self.found.borrow_mut();
        if found.len() < KEPT {
            found.push(self.place.clone());
        }
    }
}

struct ValueVisitor<N>(N);

impl<'de, N: PlaceObserver> DeserializeSeed<'de> for ValueVisitor<N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: PlaceObserver> Visitor<'de> for ValueVisitor<N> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(ValueVisitor(self.0.element(list.len())))? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let notes = self.0.member(&name);
            if map.contains_key(&name) {
                notes.read_again();
            }
            let member = members.next_value_seed(ValueVisitor(notes))?;
            map.insert(name, member);
        }
        Ok(Value::Object(map))
    }
}

/// 2^63: the first float that is not an integer of 64 bits.
pub const END_OF_INTEGERS: f64 = 9_223_372_036_854_775_808.0;

/// The value in which every float without a fraction is an integer, if it is one of 64 bits, as Go writes it
/// (VAR-D-007).
pub fn with_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or(f64::NAN);
            if float.fract() == 0.0 && float.abs() <= END_OF_INTEGERS {
                // As Go does, Rust writes the fewest digits that mean this float, and zeros behind them.
                if let Ok(integer) = (float + 0.0).to_string().parse::<i64>() {
                    *number = integer.into();
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(with_integers),
        Value::Object(members) => members.values_mut().for_each(with_integers),
        _ => {}
    }
}

/// The value as Go leaves it that reads numbers as 64-bit floats and writes them again (VAR-D-007): as
/// [`with_integers`], and an integer that rounds to 2^63 is a float. Other integers beyond 2^53 stay exact.
pub fn with_go_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_f64() => {
            let float = number.as_f64().unwrap_or(f64::NAN);
            if float.abs() >= END_OF_INTEGERS
                && let Some(float) = Number::from_f64(float)
            {
                *number = float;
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(with_go_numbers),
        Value::Object(members) => members.values_mut().for_each(with_go_numbers),
        float => with_integers(float),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn private_keys_of_the_library_are_ordinary_keys() {
        for text in [
            r#"{"$serde_json::private::RawValue":"\"a\""}"#,
            r#"{"\u0024serde_json::private::RawValue":"{}"}"#,
            r#"[{"$serde_json::private::Number":"1"}]"#,
        ] {
            let read = value(text).unwrap();
            assert!(read.is_object() || read[0].is_object(), "{text}: {read}");
        }
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"x"],"b":{}}"#;
        assert_eq!(value(text).unwrap().to_string(), text);
        assert!(value("1e999").is_err() && value("{").is_err() && value("1 2").is_err());
    }

    #[test]
    fn floats_without_a_fraction_become_integers() {
        let mut read = json!({"a": [1.0, -0.0, 1.5, 1e300], "b": 3});
        with_integers(&mut read);
        assert_eq!(read, json!({"a": [1, 0, 1.5, 1e300], "b": 3}));
    }

    #[test]
    fn numbers_are_those_that_go_reads_and_writes() {
        // VAR-D-007
        let go = |text: &str| {
            let mut read = value(text).unwrap();
            with_go_numbers(&mut read);
            read
        };
        assert_eq!(go("[1.0, -0.0, 1.5, 1e300, 3]"), json!([1, 0, 1.5, 1e300, 3]));
        assert_eq!(go("9007199254740993"), json!(9_007_199_254_740_993_i64));
        assert_eq!(go("9007199254740994.0"), json!(9_007_199_254_740_994_i64));
        assert_eq!(go("9223372036854774784.0"), json!(9_223_372_036_854_775_000_i64));
        assert_eq!(go("9223372036854775295"), json!(9_223_372_036_854_775_295_i64));
        for beyond in ["9223372036854775296", "9223372036854775807", "18446744073709551615", "-9223372036854775808"] {
            assert!(go(beyond).is_f64(), "{beyond}");
        }
        assert!(go("9223372036854775808.0").is_f64() && go("-9223372036854775808.0").is_f64());
    }
}
