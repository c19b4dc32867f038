//! Compiled schemas.

use std::sync::Arc;

use serde_json::Value;

use super::format::StringFormat;
use super::kind::ValueType;
use super::outline::FastCheckPlan;
use super::validations::CompiledRules;
use super::{SchemaAllowance, SchemaDefinition};
use crate::budget::Exceeded;
use crate::field::ErrorValue;
use golang::json::{ALLOCATION, in_memory};
use golang::regexp::{Regex, RegexError};

/// Replacement for a value that may hold a password (DEC-34).
pub const SENSITIVE: &str = "(sensitive)";

/// A compiled schema node.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(super) kind: Option<ValueType>,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown_fields: bool,
    pub(super) properties: Properties,
    pub(super) additional_properties: Option<Box<Schema>>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: Option<StringFormat>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) values: EnumValues,
    pub(super) default: Option<Value>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    /// Rules of this node.
    pub(super) rules: Option<Arc<CompiledRules>>,
    /// Whether this node or a core node below it has rules.
    pub(super) has_rules: bool,
    /// Whether a value may hold a password, at any depth.
    pub(super) has_secrets: bool,
    /// Text of the warning about values of this node, if it is deprecated.
    pub(super) deprecated: Option<Box<str>>,
    /// Whether this node or one below it is deprecated.
    pub(super) has_deprecated: bool,
    pub(super) outline: FastCheckPlan,
}

/// The properties of a node, sorted by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties(Box<[(Box<str>, Schema)]>);

impl Properties {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()
    }

    /// The position of a name, with a guess: API servers sort the members of objects.
    pub(super) fn position_near(&self, guess: usize, name: &str) -> Option<usize> {
        match self.0.get(guess) {
            Some((known, _)) if **known == *name => Some(guess),
            _ => self.position(name),
        }
    }

    pub(super) fn at(&self, position: usize) -> Option<&Schema> {
        self.0.get(position).map(|(_, node)| node)
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Schema> {
        self.at(self.position(name)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Schema)> {
        self.0.iter().map(|(name, node)| (&**name, node))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Schema> {
        self.0.iter().map(|(_, node)| node)
    }
}

impl FromIterator<(Box<str>, Schema)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Schema)>>(properties: I) -> Self {
        let mut properties: Vec<_> = properties.into_iter().collect();
        properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        Properties(golang::json::exact(properties))
    }
}

impl Schema {
    /// Whether a value may hold a password, at any depth (DEC-34).
    pub fn has_secrets(&self) -> bool {
        self.has_secrets
    }

    fn holds_secrets(&self) -> bool {
        self.format == Some(StringFormat::Password) || self.children().any(Schema::has_secrets)
    }

    /// The child nodes, in the order of [`SchemaDefinition::children`].
    pub(super) fn children(&self) -> impl Iterator<Item = &Schema> {
        let one = Option::<Box<Schema>>::as_deref;
        let core = one(&self.additional_properties).into_iter().chain(self.properties.values()).chain(one(&self.items));
        core.chain(one(&self.not)).chain(&self.all_of).chain(&self.one_of).chain(&self.any_of)
    }

    /// A value of this schema for display, without passwords (DEC-34).
    pub fn shown(&self, value: &Value) -> ErrorValue {
        if self.has_secrets { ErrorValue::from(SENSITIVE) } else { ErrorValue::bounded(value) }
    }
}

/// A bound of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub value: i64,
    pub exclusive: bool,
}

/// Reasons why a definition cannot be compiled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("{0} is not valid JSON")]
    Literal(&'static str),
    #[error("{0}")]
    Pattern(#[from] RegexError),
    /// It exceeds the budget of its set of schemas (DEC-44).
    #[error("{place}{}{exceeded}", if place.is_empty() { "" } else { " " })]
    Exceeded { place: String, exceeded: Exceeded },
    /// The deadline has passed, or the caller has disconnected.
    #[error("it took too long")]
    Stopped,
}

impl From<Exceeded> for SchemaError {
    fn from(exceeded: Exceeded) -> Self {
        SchemaError::Exceeded { place: String::new(), exceeded }
    }
}

impl SchemaError {
    /// The same error, relative to the parent node.
    #[must_use]
    pub fn below(self, step: impl FnOnce() -> String) -> Self {
        match self {
            SchemaError::Exceeded { place, exceeded } => SchemaError::Exceeded { place: step() + &place, exceeded },
            other => other,
        }
    }

    /// Whether the error is about the set and not about this schema alone.
    pub fn is_of_the_set(&self) -> bool {
        matches!(self, SchemaError::Exceeded { .. } | SchemaError::Stopped)
    }
}

impl Schema {
    /// Compiles a trusted definition, without limits.
    ///
    /// # Errors
    /// When a pattern does not compile or a literal cannot be read.
    pub fn compile(definition: &SchemaDefinition) -> Result<Schema, SchemaError> {
        Schema::compile_within(definition, &mut SchemaAllowance::unlimited())
    }

    /// Compiles a definition. Misplaced keywords are accepted here; `check` rejects them.
    ///
    /// # Errors
    /// When a pattern does not compile, a literal cannot be read, or the allowance does not suffice (DEC-44).
    pub fn compile_within(
        definition: &SchemaDefinition,
        allowance: &mut SchemaAllowance,
    ) -> Result<Schema, SchemaError> {
        if allowance.stop().is_due() {
            return Err(SchemaError::Stopped);
        }
        allowance.compile(size_of::<Schema>())?;
        let mut properties = Vec::new();
        for (name, node) in definition.each_property() {
            allowance.compile(name.len())?;
            let below = Schema::compile_within(node, allowance);
            properties.push((name.into(), below.map_err(|error| error.below(|| format!(".properties[{name}]")))?));
        }
        let properties: Properties = properties.into_iter().collect();
        let additional_properties =
            boxed(definition.additional_properties.as_deref(), "additionalProperties", allowance)?;
        let items = boxed(definition.items.as_deref(), "items", allowance)?;
        let rules = CompiledRules::compile(definition, false, allowance)?;
        let has_rules = rules.is_some()
            || properties
                .values()
                .chain(additional_properties.as_deref())
                .chain(items.as_deref())
                .any(Schema::has_rules);
        let bound = |value: Option<i64>, exclusive| value.map(|value| Bound { value, exclusive });
        let pattern = (!definition.pattern.is_empty()).then(|| allowance.pattern(&definition.pattern)).transpose();
        // It has no effect on values, but must be readable.
        literal(definition.example.as_ref(), "example")?;
        let mut schema = Schema {
            kind: ValueType::from_name(&definition.r#type),
            int_or_string: definition.int_or_string,
            preserve_unknown_fields: definition.preserve_unknown_fields,
            properties,
            additional_properties,
            items,
            required: required(definition, allowance)?,
            min_properties: definition.min_properties,
            max_properties: definition.max_properties,
            min_items: definition.min_items,
            max_items: definition.max_items,
            unique_items: definition.unique_items,
            min_length: definition.min_length,
            max_length: definition.max_length,
            pattern: pattern.map_err(|error| error.below(|| ".pattern".to_owned()))?,
            format: StringFormat::from_name(&definition.format),
            minimum: bound(definition.minimum, definition.exclusive_minimum),
            maximum: bound(definition.maximum, definition.exclusive_maximum),
            values: EnumValues::new(literals(definition, allowance)?),
            default: kept(literal(definition.default.as_ref(), "default")?, allowance)?,
            all_of: each(&definition.all_of, "allOf", allowance)?,
            any_of: each(&definition.any_of, "anyOf", allowance)?,
            one_of: each(&definition.one_of, "oneOf", allowance)?,
            not: boxed(definition.not.as_deref(), "not", allowance)?,
            rules,
            has_rules,
            has_secrets: false,
            deprecated: definition.deprecation(allowance)?,
            has_deprecated: false,
            outline: FastCheckPlan::default(),
        };
        schema.has_secrets = schema.holds_secrets();
        schema.has_deprecated = schema.holds_deprecated();
        schema.outline = FastCheckPlan::for_node(&schema, allowance)?;
        Ok(schema)
    }

    /// The default of the root.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }
}

/// The node of a keyword, if present.
fn boxed(
    definition: Option<&SchemaDefinition>,
    keyword: &str,
    allowance: &mut SchemaAllowance,
) -> Result<Option<Box<Schema>>, SchemaError> {
    let Some(definition) = definition else { return Ok(None) };
    let below = Schema::compile_within(definition, allowance);
    below.map(|schema| Some(Box::new(schema))).map_err(|error| error.below(|| format!(".{keyword}")))
}

/// The nodes of a keyword that holds a list.
fn each(
    definitions: &[SchemaDefinition],
    keyword: &str,
    allowance: &mut SchemaAllowance,
) -> Result<Vec<Schema>, SchemaError> {
    let compiled = definitions.iter().enumerate().map(|(i, definition)| {
        let below = Schema::compile_within(definition, allowance);
        below.map_err(|error| error.below(|| format!(".{keyword}[{i}]")))
    });
    compiled.collect()
}

/// A literal; an explicit `null` counts as absent (VAR-S-010).
fn literal(raw: Option<&golang::json::RawJson>, keyword: &'static str) -> Result<Option<Value>, SchemaError> {
    let Some(raw) = raw else { return Ok(None) };
    let value = golang::json::value(raw.get()).map_err(|_| SchemaError::Literal(keyword))?;
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// A literal that is kept in memory.
fn kept(literal: Option<Value>, allowance: &mut SchemaAllowance) -> Result<Option<Value>, SchemaError> {
    if let Some(value) = &literal {
        allowance.compile(in_memory(value))?;
    }
    Ok(literal)
}

/// The entries of `enum`, without `null` (VAR-S-010).
fn literals(definition: &SchemaDefinition, allowance: &mut SchemaAllowance) -> Result<Vec<Value>, SchemaError> {
    let mut values = Vec::new();
    for raw in &definition.r#enum {
        let entry = literal(Some(raw), "enum").and_then(|entry| kept(entry, allowance));
        values.extend(entry.map_err(|error| error.below(|| ".enum".to_owned()))?);
    }
    Ok(values)
}

fn required(definition: &SchemaDefinition, allowance: &mut SchemaAllowance) -> Result<Vec<String>, SchemaError> {
    for name in &definition.required {
        allowance.compile(size_of::<String>() + ALLOCATION + name.len())?;
    }
    Ok(definition.required.to_vec())
}

/// The entries of `enum`; strings are looked up, since there may be very many.
#[derive(Clone, Debug, Default)]
pub(super) struct EnumValues {
    values: Vec<Value>,
    /// Positions of strings, sorted by string.
    texts: Box<[u32]>,
}

impl EnumValues {
    fn new(values: Vec<Value>) -> Self {
        let text_at = |at: &u32| values.get(*at as usize).and_then(Value::as_str);
        let mut texts: Vec<u32> = (0..).zip(&values).filter(|(_, entry)| entry.is_string()).map(|(at, _)| at).collect();
        texts.sort_by(|a, b| text_at(a).cmp(&text_at(b)));
        EnumValues { texts: texts.into(), values }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    pub(super) fn has_text(&self, text: &str) -> bool {
        let text_at = |at: &u32| self.values.get(*at as usize).and_then(Value::as_str);
        self.texts.binary_search_by(|at| text_at(at).cmp(&Some(text))).is_ok()
    }
}
