//! Values of expressions: JSON with the types of its schema, and computed values.
//!
//! JSON is borrowed. Computed values are shared, so that copies are cheap.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use serde_json::{Map as JsonMap, Value};

use super::extended::{CelUrl, Cidr, NamedFormat, Quantity};
use super::fault::EvalError;
use super::meter::Meter;
use super::types::{CelType, Decl, ObjectDecl, TextEncoding};
use golang::calendar::{self, DAY, Moment};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(CelText<'v>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Moment),
    List(CelList<'v>),
    Map(CelMap<'v>),
    Object(&'v JsonMap<String, Value>, &'v ObjectDecl),
    Optional(Option<Rc<Val<'v>>>),
    Type(&'static str),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Rc<CelUrl>),
    Quantity(Quantity),
    Semver(Rc<semver::Version>),
    Format(&'static NamedFormat),
}

#[derive(Debug, Clone)]
pub(super) enum CelText<'v> {
    Written(&'v str),
    Made(Rc<str>),
}

impl PartialEq for CelText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for CelText<'_> {}

impl Hash for CelText<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl CelText<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            CelText::Written(text) => text,
            CelText::Made(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum CelList<'v> {
    Written(&'v [Value], &'v Decl),
    Made(Rc<Vec<Val<'v>>>),
}

impl<'v> CelList<'v> {
    pub(super) fn len(&self) -> usize {
        match self {
            CelList::Written(elements, _) => elements.len(),
            CelList::Made(elements) => elements.len(),
        }
    }

    pub(super) fn get(&self, at: usize, meter: &mut Meter) -> Option<Result<Val<'v>, EvalError>> {
        match self {
            CelList::Written(elements, decl) => elements.get(at).map(|element| view(element, decl, meter)),
            CelList::Made(elements) => elements.get(at).cloned().map(Ok),
        }
    }

    /// The element at a position below the length.
    pub(super) fn at(&self, at: usize, meter: &mut Meter) -> Result<Val<'v>, EvalError> {
        self.get(at, meter).unwrap_or_else(|| Err(EvalError::failed("a list has fewer elements than it says")))
    }
}

#[derive(Debug, Clone)]
pub(super) enum CelMap<'v> {
    Written(&'v JsonMap<String, Value>, &'v Decl),
    Made(Rc<MapTable<'v>>),
}

/// A map created by an expression, in insertion order.
#[derive(Debug, Default)]
pub(super) struct MapTable<'v> {
    entries: Vec<(Val<'v>, Val<'v>)>,
    index: HashMap<MapKey<'v>, usize>,
}

/// The lookup key of a map entry; a string is shared with the key value.
#[derive(Debug, PartialEq, Eq, Hash)]
enum MapKey<'v> {
    Null,
    Bool(bool),
    Number(i128),
    /// The bits of a float with a fraction.
    Fraction(u64),
    Text(CelText<'v>),
}

/// The lookup key of a value; `None` for NaN, which equals no key. Hashing and comparing strings is work.
fn key_of<'v>(value: &Val<'v>, meter: &mut Meter) -> Result<Option<MapKey<'v>>, EvalError> {
    meter.work(value.text_bytes())?;
    Ok(match value {
        Val::Null => Some(MapKey::Null),
        Val::Bool(value) => Some(MapKey::Bool(*value)),
        Val::Int(value) => Some(MapKey::Number(i128::from(*value))),
        Val::Uint(value) => Some(MapKey::Number(i128::from(*value))),
        #[allow(clippy::cast_possible_truncation, reason = "within 2^63 a whole number is kept")]
        Val::Double(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => Some(MapKey::Number(*value as i128)),
        Val::Double(value) => Some(MapKey::Fraction(value.to_bits())),
        Val::Text(text) => Some(MapKey::Text(text.clone())),
        _ => None,
    })
}

fn place_of<'v>(key: &Val<'v>, meter: &mut Meter) -> Result<Option<MapKey<'v>>, EvalError> {
    match key {
        Val::Bytes(_) => Err(EvalError::failed("bytes cannot be a key")),
        key => key_of(key, meter),
    }
}

impl<'v> MapTable<'v> {
    pub(super) fn with_capacity(entries: usize) -> Self {
        MapTable { entries: Vec::with_capacity(entries), index: HashMap::with_capacity(entries) }
    }

    /// Sets an entry, replacing one with an equal key.
    pub(super) fn set(&mut self, key: Val<'v>, value: Val<'v>, meter: &mut Meter) -> Result<(), EvalError> {
        let place = place_of(&key, meter)?;
        if let Some(entry) = place.as_ref().and_then(|place| self.entries.get_mut(*self.index.get(place)?)) {
            entry.1 = value;
            return Ok(());
        }
        if let Some(place) = place {
            self.index.insert(place, self.entries.len());
        }
        self.entries.push((key, value));
        Ok(())
    }

    /// Adds an entry; fails if the key exists.
    pub(super) fn insert(&mut self, key: Val<'v>, value: Val<'v>, meter: &mut Meter) -> Result<(), EvalError> {
        if let Some(place) = place_of(&key, meter)?
            && self.index.insert(place, self.entries.len()).is_some()
        {
            return Err(EvalError::failed("a map has the same key twice"));
        }
        self.entries.push((key, value));
        Ok(())
    }
}

impl<'v> CelMap<'v> {
    pub(super) fn len(&self) -> usize {
        match self {
            CelMap::Written(members, _) => members.len(),
            CelMap::Made(table) => table.entries.len(),
        }
    }

    pub(super) fn get(&self, key: &Val<'v>, meter: &mut Meter) -> Result<Option<Val<'v>>, EvalError> {
        let Some(wanted) = key_of(key, meter)? else { return Ok(None) };
        match (self, wanted) {
            (CelMap::Written(members, decl), MapKey::Text(key)) => {
                members.get(key.as_str()).map(|member| view(member, decl, meter)).transpose()
            }
            (CelMap::Written(..), _) => Ok(None),
            (CelMap::Made(table), wanted) => {
                let entry = table.index.get(&wanted).and_then(|at| table.entries.get(*at));
                Ok(entry.map(|(_, value)| value.clone()))
            }
        }
    }

    /// Whether there is an entry for the key.
    pub(super) fn has(&self, key: &Val<'v>, meter: &mut Meter) -> Result<bool, EvalError> {
        let Some(wanted) = key_of(key, meter)? else { return Ok(false) };
        Ok(match (self, wanted) {
            (CelMap::Written(members, _), MapKey::Text(key)) => members.contains_key(key.as_str()),
            (CelMap::Written(..), _) => false,
            (CelMap::Made(table), wanted) => table.index.contains_key(&wanted),
        })
    }

    /// Keys and values.
    pub(super) fn entries(&self, meter: &mut Meter) -> Vec<(Val<'v>, Result<Val<'v>, EvalError>)> {
        match self {
            CelMap::Written(members, decl) => members
                .iter()
                .map(|(name, member)| (Val::Text(CelText::Written(name)), view(member, decl, meter)))
                .collect(),
            CelMap::Made(table) => table.entries.iter().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect(),
        }
    }
}

/// A JSON value with its declared type (CEL-007, CEL-027).
pub(super) fn view<'v>(value: &'v Value, decl: &'v Decl, meter: &mut Meter) -> Result<Val<'v>, EvalError> {
    match (value, &decl.ty, &decl.element) {
        (Value::Null, ..) => Ok(Val::Null),
        (Value::Bool(value), CelType::Bool, _) => Ok(Val::Bool(*value)),
        (Value::Number(number), CelType::Double, _) => Ok(Val::Double(number.as_f64().unwrap_or(f64::NAN))),
        (Value::Number(number), CelType::Int | CelType::Dyn, _) => {
            number.as_i64().map(Val::Int).ok_or_else(|| unexpected(value, decl))
        }
        (
            Value::String(text),
            CelType::Text | CelType::Bytes | CelType::Duration | CelType::Timestamp | CelType::Dyn,
            _,
        ) => view_text(text, decl.reading, meter),
        (Value::Array(elements), CelType::List(_), Some(element)) => Ok(Val::List(CelList::Written(elements, element))),
        (Value::Object(members), CelType::Object(structure), _) => Ok(Val::Object(members, structure)),
        (Value::Object(members), CelType::Map(..), Some(element)) => Ok(Val::Map(CelMap::Written(members, element))),
        _ => Err(unexpected(value, decl)),
    }
}

/// The error of a value whose type is not that of its schema: an old value, or a default (VAR-S-031).
fn unexpected(value: &Value, decl: &Decl) -> EvalError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let expected = match decl.ty {
        CelType::Dyn => "an integer or a string",
        CelType::Bool => "a boolean",
        CelType::Int => "an integer",
        CelType::Double => "a number",
        CelType::List(_) => "an array",
        CelType::Object(_) | CelType::Map(..) => "an object",
        _ => "a string",
    };
    EvalError::failed(format!("the schema has {expected}, and the value is {found}"))
}

fn view_text<'v>(text: &'v str, reading: TextEncoding, meter: &mut Meter) -> Result<Val<'v>, EvalError> {
    if reading != TextEncoding::Plain {
        // The string is read on each use, and bytes are copied.
        meter.work(text.len().saturating_mul(2))?;
    }
    let read = match reading {
        TextEncoding::Plain => Some(Val::Text(CelText::Written(text))),
        TextEncoding::Bytes => base64::engine::general_purpose::STANDARD
            .decode(text.replace(['\r', '\n'], ""))
            .ok()
            .map(|bytes| Val::Bytes(bytes.into())),
        TextEncoding::Duration => calendar::duration(text).map(Val::Duration),
        TextEncoding::Date => calendar::date(text).map(|days| Val::Timestamp(Moment { seconds: days * DAY, nanos: 0 })),
        TextEncoding::DateTime => Moment::parse(text).map(Val::Timestamp),
    };
    read.ok_or_else(|| EvalError::failed("a string does not have its format"))
}

impl<'v> Val<'v> {
    pub(super) fn made(text: impl Into<Rc<str>>) -> Val<'v> {
        Val::Text(CelText::Made(text.into()))
    }

    pub(super) fn list(elements: Vec<Val<'v>>) -> Val<'v> {
        Val::List(CelList::Made(Rc::new(elements)))
    }

    pub(super) fn some(value: Val<'v>) -> Val<'v> {
        Val::Optional(Some(Rc::new(value)))
    }

    pub(super) fn size(count: usize) -> Val<'v> {
        Val::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Name of the value's type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::List(_) => "list",
            Val::Map(_) | Val::Object(..) => "map",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Ip(_) => "net.IP",
            Val::Cidr(_) => "net.CIDR",
            Val::Url(_) => "kubernetes.URL",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Semver(_) => "kubernetes.Semver",
            Val::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Number of characters, bytes or elements; 1 for other values.
    pub(super) fn extent(&self) -> u64 {
        let count = match self {
            Val::Text(text) => text.as_str().chars().count(),
            Val::Bytes(bytes) => bytes.len(),
            Val::List(list) => list.len(),
            Val::Map(map) => map.len(),
            Val::Object(members, _) => members.len(),
            Val::Optional(Some(value)) => return value.extent(),
            _ => 1,
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Length of a string in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Val::Text(text) => text.as_str().len(),
            Val::Optional(Some(value)) => value.text_bytes(),
            _ => 0,
        }
    }

    /// Whether this is the zero value of its type.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Val::Null | Val::Optional(None) => true,
            Val::Bool(value) => !value,
            Val::Int(value) | Val::Duration(value) => *value == 0,
            Val::Uint(value) => *value == 0,
            Val::Double(value) => *value == 0.0,
            Val::Text(text) => text.as_str().is_empty(),
            Val::Bytes(_) | Val::List(_) | Val::Map(_) | Val::Object(..) => self.extent() == 0,
            _ => false,
        }
    }
}

/// The order of two numbers of any type; `None` for NaN.
pub(super) fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), b) => whole(b).and_then(|b| float_to_whole(*a, b)),
        (a, Val::Double(b)) => whole(a).and_then(|a| float_to_whole(*b, a)).map(Ordering::reverse),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn whole(value: &Val<'_>) -> Option<i128> {
    match value {
        Val::Int(value) => Some(i128::from(*value)),
        Val::Uint(value) => Some(i128::from(*value)),
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "large floats are distinguished before")]
fn float_to_whole(float: f64, whole: i128) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.abs() > 1e30 {
        return Some(if float > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let floor = float.floor();
    Some((floor as i128).cmp(&whole).then(if float > floor { Ordering::Greater } else { Ordering::Equal }))
}

/// The order of two values of one ordered type.
pub(super) fn order(a: &Val<'_>, b: &Val<'_>, meter: &mut Meter) -> Result<Ordering, EvalError> {
    let ordering = match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
        (Val::Text(a), Val::Text(b)) => {
            meter.work(a.as_str().len().min(b.as_str().len()) / 16)?;
            Some(a.as_str().cmp(b.as_str()))
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            meter.work(a.len().min(b.len()) / 16)?;
            Some(a.cmp(b))
        }
        (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
        _ => numbers(a, b),
    };
    ordering.ok_or_else(|| EvalError::failed(format!("cannot compare {} with {}", a.type_name(), b.type_name())))
}

/// Whether two values are equal; apart from numbers, values of different types are not.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>, meter: &mut Meter) -> Result<bool, EvalError> {
    meter.work(40)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) | (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => {
            let (a, b) = (a.as_str(), b.as_str());
            if a.len() == b.len() {
                meter.work(a.len() / 16)?;
            }
            a == b
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            meter.work(a.len().min(b.len()) / 16)?;
            a == b
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::List(a), Val::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for at in 0..a.len() {
                let (a, b) = (a.at(at, meter)?, b.at(at, meter)?);
                if !equal(&a, &b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Map(a), Val::Map(b)) => equal_maps(a, b, meter)?,
        (Val::Object(a, structure), Val::Object(b, _)) => equal_objects(a, b, structure, meter)?,
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b, meter)?,
            (a, b) => a.is_none() && b.is_none(),
        },
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a), Val::Cidr(b)) => a == b,
        (Val::Url(a), Val::Url(b)) => a == b,
        (Val::Quantity(a), Val::Quantity(b)) => a.cmp(b).is_eq(),
        (Val::Semver(a), Val::Semver(b)) => a.cmp_precedence(b).is_eq(),
        (Val::Format(a), Val::Format(b)) => a.name == b.name,
        (a, b) => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn equal_maps<'v>(a: &CelMap<'v>, b: &CelMap<'v>, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.work(a.len().saturating_mul(40))?;
    for (key, value) in a.entries(meter) {
        let Some(other) = b.get(&key, meter)? else { return Ok(false) };
        if !equal(&value?, &other, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Undeclared fields that the schema preserves are compared as JSON if both objects have them.
fn equal_objects(
    a: &JsonMap<String, Value>,
    b: &JsonMap<String, Value>,
    structure: &ObjectDecl,
    meter: &mut Meter,
) -> Result<bool, EvalError> {
    meter.work(structure.fields.len().saturating_mul(20))?;
    if a.len() != b.len() {
        return Ok(false);
    }
    let mut declared = HashSet::new();
    for field in structure.fields.values() {
        match (a.get(&field.name), b.get(&field.name)) {
            (None, None) => {}
            (Some(a), Some(b)) => {
                declared.insert(&*field.name);
                let (a, b) = (view(a, &field.decl, meter)?, view(b, &field.decl, meter)?);
                if !equal(&a, &b, meter)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    for (name, value) in a.iter().filter(|(name, _)| declared.len() < a.len() && !declared.contains(&***name)) {
        meter.work(size(value).saturating_mul(20))?;
        if b.get(name).is_some_and(|other| other != value) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Number of values in a value, including itself.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).fold(1, usize::saturating_add),
        Value::Object(members) => members.values().map(size).fold(1, usize::saturating_add),
        _ => 1,
    }
}
