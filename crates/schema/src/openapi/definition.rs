//! A schema node as written.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer};

use super::format::Format;
use crate::field::Path;
use golang::json::{List, Members, NullDefault, Rare, RawJson, StringMap, lenient};

lenient! {
    /// A node of an OpenAPI v3 schema (F-SCHEMA); every nested node has the same shape.
    pub struct Definition {
        /// Documentation only (VAR-S-046).
        pub description: String,
        pub example: Option<RawJson>,
        pub r#type: String,
        pub properties: Option<Members<Definition>>,
        pub additional_properties: Option<Box<Definition>>,
        pub max_properties: Option<i64>,
        pub min_properties: Option<i64>,
        pub required: List<String>,
        pub items: Option<Box<Definition>>,
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
        pub metadata: Rare<Metadata>,
        #[serde(rename = "x-kubernetes-int-or-string")]
        pub int_or_string: bool,
        pub all_of: List<Definition>,
        pub one_of: List<Definition>,
        pub any_of: List<Definition>,
        pub not: Option<Box<Definition>>,
        pub nullable: Remark,
        /// It was written as `null`, which is no schema (DEC-52).
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
    pub struct Metadata {
        pub labels: StringMap,
        pub annotations: StringMap,
    }
}

impl NullDefault for Definition {
    fn null_value() -> Self {
        Definition { is_null: true, ..Definition::default() }
    }
}

/// How a node is reached from the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    AdditionalProperties,
    Property(&'a str),
    Items,
    Not,
    AllOf(usize),
    OneOf(usize),
    AnyOf(usize),
}

impl Step<'_> {
    /// Whether it leads below a junctor.
    pub(super) fn is_junctor(self) -> bool {
        matches!(self, Step::Not | Step::AllOf(_) | Step::OneOf(_) | Step::AnyOf(_))
    }

    /// The path of the node, whose parent stands at `path`. It is made when it is needed: a node may have many children, and
    /// their paths may be long.
    pub fn below(self, path: &Path) -> Path {
        match self {
            Step::AdditionalProperties => path.child("additionalProperties"),
            Step::Property(name) => path.child("properties").key(name),
            Step::Items => path.child("items"),
            Step::Not => path.child("not"),
            Step::AllOf(i) => path.child("allOf").index(i),
            Step::OneOf(i) => path.child("oneOf").index(i),
            Step::AnyOf(i) => path.child("anyOf").index(i),
        }
    }
}

impl Definition {
    /// The properties by name.
    pub fn each_property(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.properties.iter().flat_map(Members::iter)
    }

    /// Whether a value may hold a password, at any depth (DEC-34).
    pub fn has_secrets(&self) -> bool {
        Format::from_name(&self.format) == Some(Format::Password)
            || self.children().any(|(_, child)| child.has_secrets())
    }

    /// The nodes right below this one: core ones, then those of junctors.
    pub fn children(&self) -> impl Iterator<Item = (Step<'_>, &Definition)> {
        let core = one(Step::AdditionalProperties, self.additional_properties.as_deref())
            .chain(self.each_property().map(|(name, child)| (Step::Property(name), child)))
            .chain(one(Step::Items, self.items.as_deref()));
        core.chain(one(Step::Not, self.not.as_deref()))
            .chain(each(&self.all_of, Step::AllOf))
            .chain(each(&self.one_of, Step::OneOf))
            .chain(each(&self.any_of, Step::AnyOf))
    }
}

/// A node below a keyword that has one at most.
fn one<'a>(step: Step<'a>, child: Option<&'a Definition>) -> impl Iterator<Item = (Step<'a>, &'a Definition)> {
    child.into_iter().map(move |child| (step, child))
}

/// The nodes below a keyword that has a list of them.
fn each(list: &[Definition], step: fn(usize) -> Step<'static>) -> impl Iterator<Item = (Step<'_>, &Definition)> {
    list.iter().enumerate().map(move |(i, child)| (step(i), child))
}

/// A flag that means nothing, be it true or of another type: two nodes that differ in it alone are equal (DEC-23).
#[derive(Clone, Copy, Debug, Default)]
pub struct Remark(bool);

impl Remark {
    /// Whether it is set to `true`.
    pub fn is_set(self) -> bool {
        self.0
    }
}

impl PartialEq for Remark {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Remark {}

impl Hash for Remark {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<'de> Deserialize<'de> for Remark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Remark(RawJson::deserialize(deserializer)?.get() == "true"))
    }
}
