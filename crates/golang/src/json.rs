//! Reading JSON the way Kubernetes reads it into Go types.
//!
//! What lives here: the `lenient!` macro and the types it needs. Decoding forgives: unknown fields are ignored, keys
//! are case-sensitive, everything has a default, an explicit `null` is the same as an absent field; only a wrong JSON
//! type fails (ADM-003). Nothing here knows a kind.

mod collections;
mod plain;
mod size;

pub use collections::exact;
pub use collections::{List, Members, NullDefault, Rare, RawJson, SharedValue, StaticDefault, StringMap};
pub use plain::{END_OF_INTEGERS, PlainValue, value, value_and_repeats, with_go_numbers, with_integers};
pub use size::{ALLOCATION, JsonSize, Weight, in_memory};

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Declares structs that decode as the module header says.
#[macro_export]
macro_rules! lenient {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident : $type:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
            #[serde(rename_all = "camelCase", default, remote = "Self")]
            pub struct $name {
                $($(#[$field_meta])* #[serde(deserialize_with = "golang::json::null_as_default")] pub $field: $type,)*
            }

            // Derived deserializers also read structs from arrays; only objects are accepted here.
            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_map($crate::json::ObjectVisitor(std::marker::PhantomData))
                }
            }

            impl $crate::json::StaticDefault for $name {
                fn static_default() -> &'static Self {
                    static DEFAULT: std::sync::LazyLock<$name> = std::sync::LazyLock::new($name::default);
                    &DEFAULT
                }
            }

            impl $crate::json::FromMembers for $name {
                fn from_members<'de, A: serde::de::MapAccess<'de>>(members: A) -> Result<Self, A::Error> {
                    $name::deserialize(serde::de::value::MapAccessDeserializer::new(members))
                }
            }
        )*
    };
}
pub use crate::lenient;

/// Visitor that accepts JSON objects only.
#[derive(Debug)]
pub struct ObjectVisitor<T>(pub std::marker::PhantomData<T>);

/// Reads a `lenient!` struct from the members of a JSON object.
pub trait FromMembers: Sized {
    /// Reads the struct from the members of an object.
    fn from_members<'de, A: MapAccess<'de>>(members: A) -> Result<Self, A::Error>;
}

impl<'de, T: FromMembers> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::from_members(members)
    }
}

/// Deserializes a value for which an explicit `null` counts as absent.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Decodes `text`; the error names the path: `spec.topology.replicas: invalid type: …`.
///
/// Finding the path takes a second pass, only for invalid input.
pub fn decode<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        if !error.is_data() {
            return error.to_string();
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
            Err(located) if located.path().iter().next().is_some() => {
                format!("{}: {}", located.path(), without_position(located.inner()))
            }
            _ => without_position(&error),
        }
    })
}

/// The error without line and column, which mean nothing once a document has been embedded in another.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = match text.rfind(" at line ") {
        Some(end) if error.line() > 0 => &text[..end],
        _ => &text,
    };
    let is_plain =
        ["integer", "floating point", "boolean"].iter().any(|kind| text.starts_with(&format!("invalid type: {kind}")));
    match is_plain && text.ends_with("expected a string") {
        true => format!("{text}; write it in quotes"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macro declares public structs")]
mod tests {
    use super::*;

    lenient! {
        /// A struct as callers of `lenient!` declare it.
        pub struct LenientExample {
            pub name: String,
            pub sizes: List<i32>,
            pub labels: StringMap,
            pub raw: Option<RawJson>,
        }
    }

    #[test]
    fn null_is_absent_and_presence_is_remembered() {
        let absent: LenientExample =
            decode(r#"{"name":null,"sizes":null,"labels":null,"raw":null,"other":1}"#).unwrap();
        assert_eq!(absent, LenientExample::default());
        let empty: LenientExample = decode(r#"{"sizes":[],"labels":{}}"#).unwrap();
        assert!(empty != absent && empty.sizes.is_present() && empty.sizes.is_empty());
        let nulls: LenientExample = decode(r#"{"sizes":[null,2]}"#).unwrap();
        assert_eq!(nulls.sizes, vec![0, 2].into());
        let raw: LenientExample = decode(r#"{"raw": {"b":1, "a":2}}"#).unwrap();
        assert_eq!(raw.raw.as_ref().map(RawJson::get), Some(r#"{"b":1, "a":2}"#));
    }

    #[test]
    fn maps_are_read_in_any_order_and_the_last_of_several_counts() {
        let shape: LenientExample = decode(r#"{"labels":{"b":"1","a":null,"b":"2","c":"3","b":"4"}}"#).unwrap();
        assert_eq!(shape.labels.iter().collect::<Vec<_>>(), [("a", ""), ("b", "4"), ("c", "3")]);
        assert_eq!((shape.labels.get("b"), shape.labels.get("d")), (Some("4"), None));
        assert!(shape.labels.contains_key("a") && !StringMap::default().contains_key("a"));
        let members: Members<i32> = [("b".into(), 1), ("a".into(), 2), ("b".into(), 3)].into_iter().collect();
        assert_eq!(members.iter().collect::<Vec<_>>(), [("a", &2), ("b", &3)]);
        assert_eq!(members, members.clone().into_iter().collect());
        assert!(members.contains_key("a") && members.get("c").is_none() && Members::<i32>::default().is_empty());
    }

    #[test]
    fn a_rare_part_without_content_takes_no_room_and_is_the_same_as_none() {
        lenient! {
            /// A struct with optional parts.
            pub struct RareExample {
                pub part: Rare<LenientExample>,
                pub common: SharedValue<LenientExample>,
            }
        }
        for empty in ["{}", r#"{"part":null}"#, r#"{"part":{}}"#, r#"{"part":{"name":"","other":1}}"#] {
            assert_eq!(decode::<RareExample>(empty).unwrap(), RareExample::default(), "{empty}");
        }
        assert!(
            size_of::<Rare<LenientExample>>() == size_of::<usize>()
                && size_of::<SharedValue<LenientExample>>() == size_of::<usize>()
        );
        let whole: RareExample = decode(r#"{"part":{"sizes":[]},"common":{"name":"a"}}"#).unwrap();
        assert!(whole.part.sizes.is_present() && *whole.part != LenientExample::default());
        assert!(whole.common == LenientExample { name: "a".to_owned(), ..LenientExample::default() }.into());
        assert!(whole.common.is_same(&whole.clone().common));
        assert_eq!(
            decode::<RareExample>(r#"{"part":[]}"#).unwrap_err(),
            "part: invalid type: sequence, expected an object"
        );
    }

    #[test]
    fn a_wrong_type_is_reported_with_its_path() {
        for (text, want) in [
            (r#"{"sizes":[1,"2"]}"#, r#"sizes[1]: invalid type: string "2", expected i32"#),
            (r#"{"name":1.33}"#, "name: invalid type: floating point `1.33`, expected a string; write it in quotes"),
            (r#"{"labels":[]}"#, "labels: invalid type: sequence, expected a map"),
            (r#"{"name":{}}"#, "name: invalid type: map, expected a string"),
            (r"[]", "invalid type: sequence, expected an object"),
            (r#"{"name":"#, "EOF while parsing a value at line 1 column 8"),
        ] {
            assert_eq!(decode::<LenientExample>(text).unwrap_err(), want);
        }
    }
}
