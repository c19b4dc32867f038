//! Lists, maps and raw JSON that remember whether they were present.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A list that knows whether it was written: `[]` and an absent list read the same and are not equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List<T>(Option<Vec<T>>);

impl<T> List<T> {
    /// Whether the list was written, be it empty.
    pub fn is_present(&self) -> bool {
        self.0.is_some()
    }

    /// The elements.
    pub fn into_vec(self) -> Vec<T> {
        self.0.unwrap_or_default()
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List(None)
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        List(Some(items))
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for List<T> {
    /// A `null` among the elements is an element without content.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(List(Option::deserialize(deserializer)?.map(|Elements(items)| items)))
    }
}

/// The elements of a list that is there.
struct Elements<T>(Vec<T>);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Elements<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Elements<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Elements<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = elements.next_element::<Option<T>>()? {
                    items.push(item.unwrap_or_default());
                }
                Ok(Elements(items))
            }
        }

        deserializer.deserialize_seq(Reader(PhantomData))
    }
}

/// A map from string to string (labels, annotations, settings) that knows whether it was written; null values are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StringMap(Option<BTreeMap<String, String>>);

static NO_ENTRIES: BTreeMap<String, String> = BTreeMap::new();

impl Deref for StringMap {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().unwrap_or(&NO_ENTRIES)
    }
}

impl From<BTreeMap<String, String>> for StringMap {
    fn from(entries: BTreeMap<String, String>) -> Self {
        StringMap(Some(entries))
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(StringMap(Option::deserialize(deserializer)?.map(|Entries(entries)| entries)))
    }
}

/// The entries of a map that is there.
struct Entries(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Entries, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = members.next_entry::<String, Option<String>>()? {
                    entries.insert(key, value.unwrap_or_default());
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// A piece of JSON kept as it was written.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The text of a value.
    pub fn of(value: &serde_json::Value) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| RawJson::default(), RawJson)
    }
}

impl Default for RawJson {
    /// `null`
    fn default() -> Self {
        RawJson(RawValue::NULL.to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl Hash for RawJson {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.get().hash(state);
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(RawJson(Deserialize::deserialize(deserializer)?))
    }
}
