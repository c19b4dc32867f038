//! Lists, maps and raw JSON that remember whether they were present.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

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
        let items: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
        Ok(List(items.map(|items| items.into_iter().map(Option::unwrap_or_default).collect())))
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

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: Option<BTreeMap<String, Option<String>>> = Option::deserialize(deserializer)?;
        Ok(StringMap(entries.map(|map| map.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())))
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
