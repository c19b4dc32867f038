//! Schema nodes as written.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer};

use super::format::StringFormat;
use crate::field::Path;
use golang::json::{List, Members, NullDefault, Rare, RawJson, StringMap, lenient};

lenient! {
    /// A node of an OpenAPI v3 schema (F-SCHEMA); nested nodes have the same type.
    pub struct SchemaDefinition {
        /// Documentation only (VAR-S-046).
        pub description: String,
        pub example: Option<RawJson>,
        pub r#type: String,
        pub properties: Option<Members<SchemaDefinition>>,
        pub additional_properties: Option<Box<SchemaDefinition>>,
        pub max_properties: Option<i64>,
        pub min_properties: Option<i64>,
        pub required: List<String>,
        pub items: Option<Box<SchemaDefinition>>,
        pub max_items: Option<i64>,
        pub min_items: Option<i64>,
        pub unique_items: bool,
        pub format: String,
        pub max_length: Option<i64>,
        pub min_length: Option<i64>,
        pub pattern: String,
        pub maximum: Option<i64>,
        pub exclusive_maximum: bool,
        pub minimum: Option<i64>,
        pub exclusive_minimum: bool,
        #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
        pub preserve_unknown_fields: bool,
        pub r#enum: List<RawJson>,
        pub default: Option<RawJson>,
        #[serde(rename = "x-kubernetes-validations")]
        pub validations: List<ValidationRule>,
        #[serde(rename = "x-metadata")]
        pub metadata: Rare<NodeMetadata>,
        #[serde(rename = "x-kubernetes-int-or-string")]
        pub int_or_string: bool,
        pub all_of: List<SchemaDefinition>,
        pub one_of: List<SchemaDefinition>,
        pub any_of: List<SchemaDefinition>,
        pub not: Option<Box<SchemaDefinition>>,
        pub nullable: IgnoredFlag,
        /// Whether it was `null`, which is not a schema (DEC-52).
        #[serde(skip)]
        pub is_null: bool,
    }

    /// A CEL rule of a node.
    pub struct ValidationRule {
        pub rule: String,
        pub message: String,
        pub message_expression: String,
        pub reason: Option<String>,
        pub field_path: String,
    }

    /// Labels and annotations of a node; documentation only, except for the annotation of deprecated nodes.
    pub struct NodeMetadata {
        pub labels: StringMap,
        pub annotations: StringMap,
    }
}

impl NullDefault for SchemaDefinition {
    fn null_value() -> Self {
        SchemaDefinition { is_null: true, ..SchemaDefinition::default() }
    }
}

/// The step from a node to a child node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStep<'a> {
    AdditionalProperties,
    Property(&'a str),
    Items,
    Not,
    AllOf(usize),
    OneOf(usize),
    AnyOf(usize),
}

impl ChildStep<'_> {
    /// Whether the child is below a junctor.
    pub(super) fn is_junctor(self) -> bool {
        matches!(self, ChildStep::Not | ChildStep::AllOf(_) | ChildStep::OneOf(_) | ChildStep::AnyOf(_))
    }

    /// The path of the child of the node at `path`. Built on demand: a node may have many children with long paths.
    pub fn below(self, path: &Path) -> Path {
        match self {
            ChildStep::AdditionalProperties => path.child("additionalProperties"),
            ChildStep::Property(name) => path.child("properties").key(name),
            ChildStep::Items => path.child("items"),
            ChildStep::Not => path.child("not"),
            ChildStep::AllOf(i) => path.child("allOf").index(i),
            ChildStep::OneOf(i) => path.child("oneOf").index(i),
            ChildStep::AnyOf(i) => path.child("anyOf").index(i),
        }
    }
}

impl SchemaDefinition {
    /// The properties by name.
    pub fn each_property(&self) -> impl Iterator<Item = (&str, &SchemaDefinition)> {
        self.properties.iter().flat_map(Members::iter)
    }

    /// Whether a value may hold a password, at any depth (DEC-34).
    pub fn has_secrets(&self) -> bool {
        StringFormat::from_name(&self.format) == Some(StringFormat::Password)
            || self.children().any(|(_, child)| child.has_secrets())
    }

    /// The child nodes: core nodes, then those of junctors.
    pub fn children(&self) -> impl Iterator<Item = (ChildStep<'_>, &SchemaDefinition)> {
        let core = one(ChildStep::AdditionalProperties, self.additional_properties.as_deref())
            .chain(self.each_property().map(|(name, child)| (ChildStep::Property(name), child)))
            .chain(one(ChildStep::Items, self.items.as_deref()));
        core.chain(one(ChildStep::Not, self.not.as_deref()))
            .chain(each(&self.all_of, ChildStep::AllOf))
            .chain(each(&self.one_of, ChildStep::OneOf))
            .chain(each(&self.any_of, ChildStep::AnyOf))
    }
}

/// The node of a keyword that holds at most one.
fn one<'a>(
    step: ChildStep<'a>,
    child: Option<&'a SchemaDefinition>,
) -> impl Iterator<Item = (ChildStep<'a>, &'a SchemaDefinition)> {
    child.into_iter().map(move |child| (step, child))
}

/// The nodes of a keyword that holds a list.
fn each(
    list: &[SchemaDefinition],
    step: fn(usize) -> ChildStep<'static>,
) -> impl Iterator<Item = (ChildStep<'_>, &SchemaDefinition)> {
    list.iter().enumerate().map(move |(i, child)| (step(i), child))
}

/// A boolean without effect, or a value of another type; nodes that differ only in it are equal (DEC-23).
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoredFlag(bool);

impl IgnoredFlag {
    /// Whether it is `true`.
    pub fn is_set(self) -> bool {
        self.0
    }
}

impl PartialEq for IgnoredFlag {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for IgnoredFlag {}

impl Hash for IgnoredFlag {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<'de> Deserialize<'de> for IgnoredFlag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(IgnoredFlag(RawJson::deserialize(deserializer)?.get() == "true"))
    }
}
