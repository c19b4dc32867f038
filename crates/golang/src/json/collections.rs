//! Lists, maps and raw JSON that remember whether they were present.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A list that records whether its field was present: `[]` and an absent list have the same elements and are not equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List<T>(Option<Vec<T>>);

impl<T> List<T> {
    /// Whether the field was present, even if it was empty.
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

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().unwrap_or_default()
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
    /// A `null` element becomes an element with default content.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(List(Option::deserialize(deserializer)?.map(|Elements(items)| items)))
    }
}

/// The elements of a list that is present.
struct Elements<T>(Vec<T>);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Elements<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElementsVisitor<T>(PhantomData<T>);

        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for ElementsVisitor<T> {
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

        deserializer.deserialize_seq(ElementsVisitor(PhantomData))
    }
}

/// A map from string to string (labels, annotations, settings) that records whether its field was present; null values
/// are empty.
///
/// Stored as a sorted list: maps are read often, rarely have more than a dozen entries, and there are thousands of
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StringMap(Option<Members<Box<str>>>);

impl StringMap {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.as_ref()?.get(key).map(|value| &**value)
    }

    /// Whether `key` has a value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(Members::iter).map(|(key, value)| (key, &**value))
    }

    /// A map to be changed.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

impl From<BTreeMap<String, String>> for StringMap {
    fn from(entries: BTreeMap<String, String>) -> Self {
        let entry = |(key, value): (String, String)| (key.into_boxed_str(), value.into_boxed_str());
        StringMap(Some(entries.into_iter().map(entry).collect()))
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: Option<Entries<Option<Box<str>>>> = Option::deserialize(deserializer)?;
        let filled = |(key, value): (Box<str>, Option<Box<str>>)| (key, value.unwrap_or_default());
        Ok(StringMap(entries.map(|Entries(entries)| Members(entries.into_iter().map(filled).collect()))))
    }
}

/// The members of an object, sorted by name; of several members with one name, the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members<T>(Box<[(Box<str>, T)]>);

impl<T> Members<T> {
    /// The member `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        let at = self.position(name).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Whether there is a member `name`.
    pub fn contains_key(&self, name: &str) -> bool {
        self.position(name).is_ok()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl<T> IntoIterator for Members<T> {
    type Item = (Box<str>, T);
    type IntoIter = std::vec::IntoIter<(Box<str>, T)>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(self.0).into_iter()
    }
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Members(Box::default())
    }
}

impl<T> FromIterator<(Box<str>, T)> for Members<T> {
    fn from_iter<I: IntoIterator<Item = (Box<str>, T)>>(members: I) -> Self {
        Members(exact(by_name(members.into_iter().collect())))
    }
}

/// Types that have a value for `null` among the members of an object.
pub trait NullDefault {
    /// The value that `null` decodes to.
    fn null_value() -> Self;
}

impl<'de, T: NullDefault + Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Entries(entries) = Entries::<Option<T>>::deserialize(deserializer)?;
        let filled = |(name, value): (Box<str>, Option<T>)| (name, value.unwrap_or_else(T::null_value));
        Ok(Members(entries.into_iter().map(filled).collect()))
    }
}

/// The entries of a map that is present, sorted by key.
struct Entries<T>(Vec<(Box<str>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = members.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(by_name(entries)))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

/// Entries sorted by name, as API servers write them; of several entries with one name, the last.
fn by_name<T>(mut entries: Vec<(Box<str>, T)>) -> Vec<(Box<str>, T)> {
    if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
        entries.reverse();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.dedup_by(|(later, _), (kept, _)| later == kept);
    }
    entries
}

/// The items in an allocation of exactly their size; shrinking in place would keep the larger allocation.
pub fn exact<T>(mut items: Vec<T>) -> Box<[T]> {
    let mut exact = Vec::with_capacity(items.len());
    exact.append(&mut items);
    exact.into_boxed_slice()
}

/// A boxed value that is rarely present: an absent one takes a pointer, and equals one with default content.
#[derive(Clone)]
pub struct Rare<T>(Option<Box<T>>);

/// Types with a `'static` default value.
pub trait StaticDefault: Sized + Default + PartialEq + 'static {
    /// The default value.
    fn static_default() -> &'static Self;
}

impl<T: StaticDefault> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::static_default())
    }
}

impl<T: StaticDefault> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Rare((value != *T::static_default()).then(|| Box::new(value)))
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T: PartialEq> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: Eq> Eq for Rare<T> {}

impl<T: Hash> Hash for Rare<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T: StaticDefault + fmt::Debug> fmt::Debug for Rare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'de, T: StaticDefault + Deserialize<'de>> Deserialize<'de> for Rare<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Rare::from)
    }
}

/// A large value behind an `Arc`, compared by content.
#[derive(Clone, Default)]
pub struct SharedValue<T>(Arc<T>);

impl<T> SharedValue<T> {
    /// Whether both share one allocation, not only equal content.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Deref for SharedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for SharedValue<T> {
    fn from(value: T) -> Self {
        SharedValue(Arc::new(value))
    }
}

impl<T: PartialEq> PartialEq for SharedValue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl<T: Eq> Eq for SharedValue<T> {}

impl<T: Hash> Hash for SharedValue<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SharedValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(SharedValue::from)
    }
}

/// JSON text, kept as it was read.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The JSON text of a value.
    pub fn from_value(value: &serde_json::Value) -> Self {
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
