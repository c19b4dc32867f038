//! Values with their Go types, and the heap for values that a rendering creates.
//!
//! Data stays borrowed JSON until a function changes it (`set`). Lists and maps that a rendering makes live in its
//! [`Heap`] and are passed as indices: maps are shared and mutable as in Go, values may contain themselves, and
//! dropping never recurses.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value as Json;

use super::dates::Time;
use crate::version::LooseVersion;

/// A Go value as templates handle it.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// No value at all: a missing key.
    Missing,
    /// A nil interface: JSON null.
    Nil,
    Bool(bool),
    Int(i64),
    Int64(i64),
    Uint64(u64),
    Byte(u8),
    Float(f64),
    Complex(f64, f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
    Version(Rc<LooseVersion>),
    Time(Time),
}

/// A string.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Made(text) => text,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum List<'a> {
    Json(&'a [Json]),
    Made(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Map<'a> {
    Json(&'a serde_json::Map<String, Json>),
    Made(usize),
}

/// The type of a list's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    Any,
    Text,
    Int,
    Lists,
}

/// A list that a function made.
#[derive(Clone, Debug)]
pub(super) struct MadeList<'a> {
    pub(super) elements: Elements,
    /// Go's nil slice: empty, and null in JSON.
    pub(super) is_nil: bool,
    pub(super) items: Rc<Vec<Value<'a>>>,
}

#[derive(Clone, Debug, Default)]
struct MadeMap<'a> {
    /// `map[string]string` instead of `map[string]interface {}`.
    of_text: bool,
    members: BTreeMap<Rc<str>, Value<'a>>,
}

/// What one rendering made.
#[derive(Debug, Default)]
pub(super) struct Heap<'a> {
    lists: Vec<MadeList<'a>>,
    maps: Vec<MadeMap<'a>>,
    /// Maps of the data that were changed, by their address.
    changed: HashMap<usize, usize>,
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => Value::Text(Text::Borrowed(text)),
            Json::Array(items) => Value::List(List::Json(items)),
            Json::Object(members) => Value::Map(Map::Json(members)),
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Text::Made(text.into()))
    }
}

impl From<&str> for Value<'_> {
    fn from(text: &str) -> Self {
        Value::Text(Text::Made(text.into()))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

/// An `int`, as lengths and positions are.
pub(super) fn int<'a>(value: usize) -> Value<'a> {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Value<'_> {
    pub(super) fn is_nil_interface(&self) -> bool {
        matches!(self, Value::Nil | Value::Missing)
    }

    /// What a pipeline makes of a value: a nil interface becomes no value.
    pub(super) fn out_of_interface(self) -> Self {
        if matches!(self, Value::Nil) { Value::Missing } else { self }
    }

    /// What a function parameter of type `interface{}` makes of a value.
    pub(super) fn into_interface(self) -> Self {
        if matches!(self, Value::Missing) { Value::Nil } else { self }
    }

    /// The kind as `reflect.Kind` names it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Missing | Value::Nil => "invalid",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Int64(_) => "int64",
            Value::Uint64(_) => "uint64",
            Value::Byte(_) => "uint8",
            Value::Float(_) => "float64",
            Value::Complex(..) => "complex128",
            Value::Text(_) => "string",
            Value::List(_) => "slice",
            Value::Map(_) => "map",
            Value::Version(_) => "ptr",
            Value::Time(_) => "struct",
        }
    }
}

impl<'a> Heap<'a> {
    pub(super) fn list(&mut self, elements: Elements, items: Vec<Value<'a>>) -> Value<'a> {
        self.lists.push(MadeList { elements, is_nil: false, items: Rc::new(items) });
        Value::List(List::Made(self.lists.len() - 1))
    }

    pub(super) fn nil_list(&mut self) -> Value<'a> {
        self.lists.push(MadeList { elements: Elements::Any, is_nil: true, items: Rc::default() });
        Value::List(List::Made(self.lists.len() - 1))
    }

    fn made(&self, list: usize) -> &MadeList<'a> {
        self.lists.get(list).expect("indices come from this heap")
    }

    pub(super) fn elements(&self, list: List<'a>) -> Elements {
        match list {
            List::Json(_) => Elements::Any,
            List::Made(index) => self.made(index).elements,
        }
    }

    pub(super) fn is_nil_list(&self, list: List<'a>) -> bool {
        matches!(list, List::Made(index) if self.made(index).is_nil)
    }

    pub(super) fn list_len(&self, list: List<'a>) -> usize {
        match list {
            List::Json(items) => items.len(),
            List::Made(index) => self.made(index).items.len(),
        }
    }

    pub(super) fn item(&self, list: List<'a>, index: usize) -> Option<Value<'a>> {
        match list {
            List::Json(items) => items.get(index).map(Value::from),
            List::Made(made) => self.made(made).items.get(index).cloned(),
        }
    }

    pub(super) fn items(&self, list: List<'a>) -> Vec<Value<'a>> {
        match list {
            List::Json(items) => items.iter().map(Value::from).collect(),
            List::Made(index) => self.made(index).items.to_vec(),
        }
    }

    pub(super) fn map(&mut self, members: impl IntoIterator<Item = (Rc<str>, Value<'a>)>) -> Map<'a> {
        self.maps.push(MadeMap { of_text: false, members: members.into_iter().collect() });
        Map::Made(self.maps.len() - 1)
    }

    pub(super) fn map_of_text(&mut self, members: impl IntoIterator<Item = (Rc<str>, Value<'a>)>) -> Map<'a> {
        self.maps.push(MadeMap { of_text: true, members: members.into_iter().collect() });
        Map::Made(self.maps.len() - 1)
    }

    /// The map that stands in for `map` since it was changed.
    fn current(&self, map: Map<'a>) -> Map<'a> {
        match map {
            Map::Json(members) if !self.changed.is_empty() => {
                self.changed.get(&std::ptr::from_ref(members).addr()).map_or(map, |&index| Map::Made(index))
            }
            _ => map,
        }
    }

    fn made_map(&self, index: usize) -> &MadeMap<'a> {
        self.maps.get(index).expect("indices come from this heap")
    }

    pub(super) fn holds_text(&self, map: Map<'a>) -> bool {
        matches!(map, Map::Made(index) if self.made_map(index).of_text)
    }

    pub(super) fn map_len(&self, map: Map<'a>) -> usize {
        match self.current(map) {
            Map::Json(members) => members.len(),
            Map::Made(index) => self.made_map(index).members.len(),
        }
    }

    pub(super) fn get(&self, map: Map<'a>, key: &str) -> Option<Value<'a>> {
        match self.current(map) {
            Map::Json(members) => members.get(key).map(Value::from),
            Map::Made(index) => self.made_map(index).members.get(key).cloned(),
        }
    }

    /// The keys in order.
    pub(super) fn keys(&self, map: Map<'a>) -> Vec<Text<'a>> {
        match self.current(map) {
            Map::Json(members) => {
                let mut keys: Vec<&'a String> = members.keys().collect();
                keys.sort_unstable();
                keys.into_iter().map(|key| Text::Borrowed(key)).collect()
            }
            Map::Made(index) => self.made_map(index).members.keys().cloned().map(Text::Made).collect(),
        }
    }

    /// The members in the order of their keys.
    pub(super) fn members(&self, map: Map<'a>) -> Vec<(Rc<str>, Value<'a>)> {
        match self.current(map) {
            Map::Json(members) => {
                members.iter().map(|(key, value)| (Rc::from(key.as_str()), Value::from(value))).collect()
            }
            Map::Made(index) => {
                self.made_map(index).members.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
            }
        }
    }

    fn changeable(&mut self, map: Map<'a>) -> &mut BTreeMap<Rc<str>, Value<'a>> {
        let index = match self.current(map) {
            Map::Made(index) => index,
            Map::Json(members) => {
                let copy = self.members(map);
                let index = self.maps.len();
                self.map(copy);
                self.changed.insert(std::ptr::from_ref(members).addr(), index);
                index
            }
        };
        &mut self.maps.get_mut(index).expect("indices come from this heap").members
    }

    pub(super) fn set(&mut self, map: Map<'a>, key: &str, value: Value<'a>) {
        self.changeable(map).insert(key.into(), value);
    }

    pub(super) fn remove(&mut self, map: Map<'a>, key: &str) {
        self.changeable(map).remove(key);
    }

    /// The type as Go's `%T` prints it.
    pub(super) fn type_name(&self, value: &Value<'a>) -> &'static str {
        match value {
            Value::Missing | Value::Nil => "<nil>",
            Value::List(list) => match self.elements(*list) {
                Elements::Any => "[]interface {}",
                Elements::Text => "[]string",
                Elements::Int => "[]int",
                Elements::Lists => "[][]interface {}",
            },
            Value::Map(map) if self.holds_text(*map) => "map[string]string",
            Value::Map(_) => "map[string]interface {}",
            Value::Version(_) => "*semver.Version",
            Value::Time(_) => "time.Time",
            other => other.kind(),
        }
    }

    /// Whether `if` takes the value for true (TV-03).
    pub(super) fn truth(&self, value: &Value<'a>) -> bool {
        match value {
            Value::Missing | Value::Nil => false,
            Value::Bool(value) => *value,
            Value::Int(value) | Value::Int64(value) => *value != 0,
            Value::Uint64(value) => *value != 0,
            Value::Byte(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Complex(real, imaginary) => (*real, *imaginary) != (0.0, 0.0),
            Value::Text(text) => !text.is_empty(),
            Value::List(list) => self.list_len(*list) > 0,
            Value::Map(map) => self.map_len(*map) > 0,
            Value::Version(_) | Value::Time(_) => true,
        }
    }
}
