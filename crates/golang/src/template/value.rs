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
pub(super) enum TemplateValue<'a> {
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
    Text(TextValue<'a>),
    List(ListRef<'a>),
    Map(MapRef<'a>),
    Version(Rc<LooseVersion>),
    Time(Time),
}

/// A string.
#[derive(Clone, Debug)]
pub(super) enum TextValue<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

impl Deref for TextValue<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            TextValue::Borrowed(text) => text,
            TextValue::Made(text) => text,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ListRef<'a> {
    Json(&'a [Json]),
    Made(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum MapRef<'a> {
    Json(&'a serde_json::Map<String, Json>),
    Made(usize),
}

/// The type of a list's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementType {
    Any,
    Text,
    Int,
    Lists,
}

/// A list that a function made.
#[derive(Clone, Debug)]
pub(super) struct MadeList<'a> {
    pub(super) elements: ElementType,
    /// Go's nil slice: empty, and null in JSON.
    pub(super) is_nil: bool,
    pub(super) items: Rc<Vec<TemplateValue<'a>>>,
}

#[derive(Clone, Debug, Default)]
struct MadeMap<'a> {
    /// `map[string]string` instead of `map[string]interface {}`.
    of_text: bool,
    members: BTreeMap<Rc<str>, TemplateValue<'a>>,
}

/// The values that one rendering creates.
#[derive(Debug, Default)]
pub(super) struct Heap<'a> {
    lists: Vec<MadeList<'a>>,
    maps: Vec<MadeMap<'a>>,
    /// Copies of maps of the data that were changed, by address.
    changed: HashMap<usize, usize>,
}

impl<'a> From<&'a Json> for TemplateValue<'a> {
    fn from(json: &'a Json) -> Self {
        match json {
            Json::Null => TemplateValue::Nil,
            Json::Bool(value) => TemplateValue::Bool(*value),
            Json::Number(number) => TemplateValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => TemplateValue::Text(TextValue::Borrowed(text)),
            Json::Array(items) => TemplateValue::List(ListRef::Json(items)),
            Json::Object(members) => TemplateValue::Map(MapRef::Json(members)),
        }
    }
}

impl From<String> for TemplateValue<'_> {
    fn from(text: String) -> Self {
        TemplateValue::Text(TextValue::Made(text.into()))
    }
}

impl From<&str> for TemplateValue<'_> {
    fn from(text: &str) -> Self {
        TemplateValue::Text(TextValue::Made(text.into()))
    }
}

impl From<bool> for TemplateValue<'_> {
    fn from(value: bool) -> Self {
        TemplateValue::Bool(value)
    }
}

/// An `int`, as lengths and positions are.
pub(super) fn int<'a>(value: usize) -> TemplateValue<'a> {
    TemplateValue::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

impl TemplateValue<'_> {
    pub(super) fn is_nil_interface(&self) -> bool {
        matches!(self, TemplateValue::Nil | TemplateValue::Missing)
    }

    /// The value as a pipeline passes it on: a nil interface becomes a missing value.
    pub(super) fn out_of_interface(self) -> Self {
        if matches!(self, TemplateValue::Nil) { TemplateValue::Missing } else { self }
    }

    /// The value as a parameter of type `interface{}`.
    pub(super) fn into_interface(self) -> Self {
        if matches!(self, TemplateValue::Missing) { TemplateValue::Nil } else { self }
    }

    /// The kind as `reflect.Kind` names it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            TemplateValue::Missing | TemplateValue::Nil => "invalid",
            TemplateValue::Bool(_) => "bool",
            TemplateValue::Int(_) => "int",
            TemplateValue::Int64(_) => "int64",
            TemplateValue::Uint64(_) => "uint64",
            TemplateValue::Byte(_) => "uint8",
            TemplateValue::Float(_) => "float64",
            TemplateValue::Complex(..) => "complex128",
            TemplateValue::Text(_) => "string",
            TemplateValue::List(_) => "slice",
            TemplateValue::Map(_) => "map",
            TemplateValue::Version(_) => "ptr",
            TemplateValue::Time(_) => "struct",
        }
    }
}

impl<'a> Heap<'a> {
    pub(super) fn list(&mut self, elements: ElementType, items: Vec<TemplateValue<'a>>) -> TemplateValue<'a> {
        self.lists.push(MadeList { elements, is_nil: false, items: Rc::new(items) });
        TemplateValue::List(ListRef::Made(self.lists.len() - 1))
    }

    pub(super) fn nil_list(&mut self) -> TemplateValue<'a> {
        self.lists.push(MadeList { elements: ElementType::Any, is_nil: true, items: Rc::default() });
        TemplateValue::List(ListRef::Made(self.lists.len() - 1))
    }

    fn made(&self, list: usize) -> &MadeList<'a> {
        self.lists.get(list).expect("indices come from this heap")
    }

    pub(super) fn elements(&self, list: ListRef<'a>) -> ElementType {
        match list {
            ListRef::Json(_) => ElementType::Any,
            ListRef::Made(index) => self.made(index).elements,
        }
    }

    pub(super) fn is_nil_list(&self, list: ListRef<'a>) -> bool {
        matches!(list, ListRef::Made(index) if self.made(index).is_nil)
    }

    pub(super) fn list_len(&self, list: ListRef<'a>) -> usize {
        match list {
            ListRef::Json(items) => items.len(),
            ListRef::Made(index) => self.made(index).items.len(),
        }
    }

    pub(super) fn item(&self, list: ListRef<'a>, index: usize) -> Option<TemplateValue<'a>> {
        match list {
            ListRef::Json(items) => items.get(index).map(TemplateValue::from),
            ListRef::Made(made) => self.made(made).items.get(index).cloned(),
        }
    }

    pub(super) fn items(&self, list: ListRef<'a>) -> Vec<TemplateValue<'a>> {
        match list {
            ListRef::Json(items) => items.iter().map(TemplateValue::from).collect(),
            ListRef::Made(index) => self.made(index).items.to_vec(),
        }
    }

    pub(super) fn map(&mut self, members: impl IntoIterator<Item = (Rc<str>, TemplateValue<'a>)>) -> MapRef<'a> {
        self.maps.push(MadeMap { of_text: false, members: members.into_iter().collect() });
        MapRef::Made(self.maps.len() - 1)
    }

    pub(super) fn map_of_text(
        &mut self,
        members: impl IntoIterator<Item = (Rc<str>, TemplateValue<'a>)>,
    ) -> MapRef<'a> {
        self.maps.push(MadeMap { of_text: true, members: members.into_iter().collect() });
        MapRef::Made(self.maps.len() - 1)
    }

    /// The changed copy of `map`, if there is one.
    fn current(&self, map: MapRef<'a>) -> MapRef<'a> {
        match map {
            MapRef::Json(members) if !self.changed.is_empty() => {
                self.changed.get(&std::ptr::from_ref(members).addr()).map_or(map, |&index| MapRef::Made(index))
            }
            _ => map,
        }
    }

    fn made_map(&self, index: usize) -> &MadeMap<'a> {
        self.maps.get(index).expect("indices come from this heap")
    }

    pub(super) fn holds_text(&self, map: MapRef<'a>) -> bool {
        matches!(map, MapRef::Made(index) if self.made_map(index).of_text)
    }

    pub(super) fn map_len(&self, map: MapRef<'a>) -> usize {
        match self.current(map) {
            MapRef::Json(members) => members.len(),
            MapRef::Made(index) => self.made_map(index).members.len(),
        }
    }

    pub(super) fn get(&self, map: MapRef<'a>, key: &str) -> Option<TemplateValue<'a>> {
        match self.current(map) {
            MapRef::Json(members) => members.get(key).map(TemplateValue::from),
            MapRef::Made(index) => self.made_map(index).members.get(key).cloned(),
        }
    }

    /// The keys, sorted.
    pub(super) fn keys(&self, map: MapRef<'a>) -> Vec<TextValue<'a>> {
        match self.current(map) {
            MapRef::Json(members) => {
                let mut keys: Vec<&'a String> = members.keys().collect();
                keys.sort_unstable();
                keys.into_iter().map(|key| TextValue::Borrowed(key)).collect()
            }
            MapRef::Made(index) => self.made_map(index).members.keys().cloned().map(TextValue::Made).collect(),
        }
    }

    /// The members, sorted by key.
    pub(super) fn members(&self, map: MapRef<'a>) -> Vec<(Rc<str>, TemplateValue<'a>)> {
        match self.current(map) {
            MapRef::Json(members) => {
                members.iter().map(|(key, value)| (Rc::from(key.as_str()), TemplateValue::from(value))).collect()
            }
            MapRef::Made(index) => {
                self.made_map(index).members.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
            }
        }
    }

    fn changeable(&mut self, map: MapRef<'a>) -> &mut BTreeMap<Rc<str>, TemplateValue<'a>> {
        let index = match self.current(map) {
            MapRef::Made(index) => index,
            MapRef::Json(members) => {
                let copy = self.members(map);
                let index = self.maps.len();
                self.map(copy);
                self.changed.insert(std::ptr::from_ref(members).addr(), index);
                index
            }
        };
        &mut self.maps.get_mut(index).expect("indices come from this heap").members
    }

    pub(super) fn set(&mut self, map: MapRef<'a>, key: &str, value: TemplateValue<'a>) {
        self.changeable(map).insert(key.into(), value);
    }

    pub(super) fn remove(&mut self, map: MapRef<'a>, key: &str) {
        self.changeable(map).remove(key);
    }

    /// The type as Go's `%T` prints it.
    pub(super) fn type_name(&self, value: &TemplateValue<'a>) -> &'static str {
        match value {
            TemplateValue::Missing | TemplateValue::Nil => "<nil>",
            TemplateValue::List(list) => match self.elements(*list) {
                ElementType::Any => "[]interface {}",
                ElementType::Text => "[]string",
                ElementType::Int => "[]int",
                ElementType::Lists => "[][]interface {}",
            },
            TemplateValue::Map(map) if self.holds_text(*map) => "map[string]string",
            TemplateValue::Map(_) => "map[string]interface {}",
            TemplateValue::Version(_) => "*semver.Version",
            TemplateValue::Time(_) => "time.Time",
            other => other.kind(),
        }
    }

    /// The truth value for `if` (TV-03).
    pub(super) fn truth(&self, value: &TemplateValue<'a>) -> bool {
        match value {
            TemplateValue::Missing | TemplateValue::Nil => false,
            TemplateValue::Bool(value) => *value,
            TemplateValue::Int(value) | TemplateValue::Int64(value) => *value != 0,
            TemplateValue::Uint64(value) => *value != 0,
            TemplateValue::Byte(value) => *value != 0,
            TemplateValue::Float(value) => *value != 0.0,
            TemplateValue::Complex(real, imaginary) => (*real, *imaginary) != (0.0, 0.0),
            TemplateValue::Text(text) => !text.is_empty(),
            TemplateValue::List(list) => self.list_len(*list) > 0,
            TemplateValue::Map(map) => self.map_len(*map) > 0,
            TemplateValue::Version(_) | TemplateValue::Time(_) => true,
        }
    }
}
