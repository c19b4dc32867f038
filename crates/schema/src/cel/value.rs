//! Values of expressions: JSON with the types of its schema, and computed values.
//!
//! JSON is not copied. What is made is shared, so that a value can be passed on at no cost.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use serde_json::{Map as JsonMap, Value};

use super::extended::{Cidr, NamedFormat, Quantity, Url};
use super::fault::Fault;
use super::meter::Meter;
use super::types::{Decl, Reading, Structure, Type};
use golang::calendar::{self, DAY, Moment};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'v>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Moment),
    List(List<'v>),
    Map(Map<'v>),
    Object(&'v JsonMap<String, Value>, &'v Structure),
    Optional(Option<Rc<Val<'v>>>),
    Type(&'static str),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Rc<Url>),
    Quantity(Quantity),
    Semver(Rc<semver::Version>),
    Format(&'static NamedFormat),
}

#[derive(Debug, Clone)]
pub(super) enum Text<'v> {
    Written(&'v str),
    Made(Rc<str>),
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text<'_> {}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Written(text) => text,
            Text::Made(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum List<'v> {
    Written(&'v [Value], &'v Decl),
    Made(Rc<Vec<Val<'v>>>),
}

impl<'v> List<'v> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::Written(elements, _) => elements.len(),
            List::Made(elements) => elements.len(),
        }
    }

    pub(super) fn get(&self, at: usize, meter: &mut Meter) -> Option<Result<Val<'v>, Fault>> {
        match self {
            List::Written(elements, decl) => elements.get(at).map(|element| view(element, decl, meter)),
            List::Made(elements) => elements.get(at).cloned().map(Ok),
        }
    }

    /// An element at a position below the length.
    pub(super) fn at(&self, at: usize, meter: &mut Meter) -> Result<Val<'v>, Fault> {
        self.get(at, meter).unwrap_or_else(|| Err(Fault::of("a list has fewer elements than it says")))
    }
}

#[derive(Debug, Clone)]
pub(super) enum Map<'v> {
    Written(&'v JsonMap<String, Value>, &'v Decl),
    Made(Rc<Table<'v>>),
}

/// A map that an expression made, in the order in which it was made.
#[derive(Debug, Default)]
pub(super) struct Table<'v> {
    entries: Vec<(Val<'v>, Val<'v>)>,
    index: HashMap<Key<'v>, usize>,
}

/// What an entry of a table is found by; a text is shared with the key itself.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key<'v> {
    Null,
    Bool(bool),
    Number(i128),
    /// A fraction, by its bits.
    Fraction(u64),
    Text(Text<'v>),
}

/// What a key is found by; none of a key that is in no map but itself. To hash and compare a text takes time.
fn key_of<'v>(value: &Val<'v>, meter: &mut Meter) -> Result<Option<Key<'v>>, Fault> {
    meter.work(value.text_bytes())?;
    Ok(match value {
        Val::Null => Some(Key::Null),
        Val::Bool(value) => Some(Key::Bool(*value)),
        Val::Int(value) => Some(Key::Number(i128::from(*value))),
        Val::Uint(value) => Some(Key::Number(i128::from(*value))),
        #[allow(clippy::cast_possible_truncation, reason = "within 2^63 a whole number is kept")]
        Val::Double(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => Some(Key::Number(*value as i128)),
        Val::Double(value) => Some(Key::Fraction(value.to_bits())),
        Val::Text(text) => Some(Key::Text(text.clone())),
        _ => None,
    })
}

fn place_of<'v>(key: &Val<'v>, meter: &mut Meter) -> Result<Option<Key<'v>>, Fault> {
    match key {
        Val::Bytes(_) => Err(Fault::of("bytes cannot be a key")),
        key => key_of(key, meter),
    }
}

impl<'v> Table<'v> {
    pub(super) fn with_capacity(entries: usize) -> Self {
        Table { entries: Vec::with_capacity(entries), index: HashMap::with_capacity(entries) }
    }

    /// Sets an entry; of equal keys the last one counts.
    pub(super) fn set(&mut self, key: Val<'v>, value: Val<'v>, meter: &mut Meter) -> Result<(), Fault> {
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

    /// Adds an entry; a key can be there only once.
    pub(super) fn insert(&mut self, key: Val<'v>, value: Val<'v>, meter: &mut Meter) -> Result<(), Fault> {
        if let Some(place) = place_of(&key, meter)?
            && self.index.insert(place, self.entries.len()).is_some()
        {
            return Err(Fault::of("a map has the same key twice"));
        }
        self.entries.push((key, value));
        Ok(())
    }
}

impl<'v> Map<'v> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Written(members, _) => members.len(),
            Map::Made(table) => table.entries.len(),
        }
    }

    pub(super) fn get(&self, key: &Val<'v>, meter: &mut Meter) -> Result<Option<Val<'v>>, Fault> {
        let Some(wanted) = key_of(key, meter)? else { return Ok(None) };
        match (self, wanted) {
            (Map::Written(members, decl), Key::Text(key)) => {
                members.get(key.as_str()).map(|member| view(member, decl, meter)).transpose()
            }
            (Map::Written(..), _) => Ok(None),
            (Map::Made(table), wanted) => {
                let entry = table.index.get(&wanted).and_then(|at| table.entries.get(*at));
                Ok(entry.map(|(_, value)| value.clone()))
            }
        }
    }

    /// Whether there is an entry, with any value.
    pub(super) fn has(&self, key: &Val<'v>, meter: &mut Meter) -> Result<bool, Fault> {
        let Some(wanted) = key_of(key, meter)? else { return Ok(false) };
        Ok(match (self, wanted) {
            (Map::Written(members, _), Key::Text(key)) => members.contains_key(key.as_str()),
            (Map::Written(..), _) => false,
            (Map::Made(table), wanted) => table.index.contains_key(&wanted),
        })
    }

    /// Keys and values.
    pub(super) fn entries(&self, meter: &mut Meter) -> Vec<(Val<'v>, Result<Val<'v>, Fault>)> {
        match self {
            Map::Written(members, decl) => members
                .iter()
                .map(|(name, member)| (Val::Text(Text::Written(name)), view(member, decl, meter)))
                .collect(),
            Map::Made(table) => table.entries.iter().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect(),
        }
    }
}

/// JSON as its declaration says (CEL-007, CEL-027).
pub(super) fn view<'v>(value: &'v Value, decl: &'v Decl, meter: &mut Meter) -> Result<Val<'v>, Fault> {
    match (value, &decl.ty) {
        (Value::Null, _) => Ok(Val::Null),
        (Value::Bool(value), _) => Ok(Val::Bool(*value)),
        (Value::Number(number), Type::Double) => Ok(Val::Double(number.as_f64().unwrap_or(f64::NAN))),
        (Value::Number(number), _) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Ok(Val::Int(value)),
            #[allow(clippy::cast_possible_truncation, reason = "a whole number within 64 bits, as the schema demands")]
            (None, Some(value)) if value.abs() < 9.2e18 => Ok(Val::Int(value.round() as i64)),
            _ => Err(Fault::of("a number does not fit 64 bits")),
        },
        (Value::String(text), _) => view_text(text, decl.reading, meter),
        (Value::Array(elements), _) => match &decl.element {
            Some(element) => Ok(Val::List(List::Written(elements, element))),
            None => Err(Fault::of("unexpected list")),
        },
        (Value::Object(members), Type::Object(structure)) => Ok(Val::Object(members, structure)),
        (Value::Object(members), _) => match &decl.element {
            Some(element) => Ok(Val::Map(Map::Written(members, element))),
            None => Err(Fault::of("unexpected object")),
        },
    }
}

fn view_text<'v>(text: &'v str, reading: Reading, meter: &mut Meter) -> Result<Val<'v>, Fault> {
    if reading != Reading::Plain {
        // It is read each time, and bytes are a copy.
        meter.work(text.len().saturating_mul(2))?;
    }
    let read = match reading {
        Reading::Plain => Some(Val::Text(Text::Written(text))),
        Reading::Bytes => base64::engine::general_purpose::STANDARD
            .decode(text.replace(['\r', '\n'], ""))
            .ok()
            .map(|bytes| Val::Bytes(bytes.into())),
        Reading::Duration => calendar::duration(text).map(Val::Duration),
        Reading::Date => calendar::date(text).map(|days| Val::Timestamp(Moment { seconds: days * DAY, nanos: 0 })),
        Reading::DateTime => Moment::parse(text).map(Val::Timestamp),
    };
    read.ok_or_else(|| Fault::of("a string does not have its format"))
}

impl<'v> Val<'v> {
    pub(super) fn made(text: impl Into<Rc<str>>) -> Val<'v> {
        Val::Text(Text::Made(text.into()))
    }

    pub(super) fn list(elements: Vec<Val<'v>>) -> Val<'v> {
        Val::List(List::Made(Rc::new(elements)))
    }

    pub(super) fn some(value: Val<'v>) -> Val<'v> {
        Val::Optional(Some(Rc::new(value)))
    }

    pub(super) fn size(count: usize) -> Val<'v> {
        Val::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The name of the value's type.
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

    /// Characters, bytes or elements; 1 for anything without parts.
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

    /// The bytes of a text.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Val::Text(text) => text.as_str().len(),
            Val::Optional(Some(value)) => value.text_bytes(),
            _ => 0,
        }
    }

    /// Whether this is what an absent value of its type would be.
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

/// How two numbers of any kind compare; none when one is not a number.
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

#[allow(clippy::cast_possible_truncation, reason = "large floats are told apart before")]
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

/// How two values of one ordered type compare.
pub(super) fn order(a: &Val<'_>, b: &Val<'_>, meter: &mut Meter) -> Result<Ordering, Fault> {
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
    ordering.ok_or_else(|| Fault::of(format!("cannot compare {} with {}", a.type_name(), b.type_name())))
}

/// Whether two values are equal; values of different types are not, except numbers.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>, meter: &mut Meter) -> Result<bool, Fault> {
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

fn equal_maps<'v>(a: &Map<'v>, b: &Map<'v>, meter: &mut Meter) -> Result<bool, Fault> {
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

/// Fields that the schema does not declare, and keeps, are compared as they are if both objects have them.
fn equal_objects(
    a: &JsonMap<String, Value>,
    b: &JsonMap<String, Value>,
    structure: &Structure,
    meter: &mut Meter,
) -> Result<bool, Fault> {
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

/// The number of values in a value, itself included.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).fold(1, usize::saturating_add),
        Value::Object(members) => members.values().map(size).fold(1, usize::saturating_add),
        _ => 1,
    }
}
