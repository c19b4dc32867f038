//! A schema node as written.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer};

use crate::json::{List, RawJson, StringMap, lenient};

lenient! {
    /// A node of an OpenAPI v3 schema (F-SCHEMA); every nested node has the same shape.
    pub struct Definition {
        pub description: String,
        pub example: Option<RawJson>,
        pub r#type: String,
        pub properties: Option<BTreeMap<String, Definition>>,
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
        pub metadata: Metadata,
        #[serde(rename = "x-kubernetes-int-or-string")]
        pub int_or_string: bool,
        pub all_of: List<Definition>,
        pub one_of: List<Definition>,
        pub any_of: List<Definition>,
        pub not: Option<Box<Definition>>,
        pub nullable: Remark,
    }

    /// A CEL rule of a node.
    pub struct ValidationRule {
        pub rule: String,
        pub message: String,
        pub message_expression: String,
        pub reason: Option<String>,
        pub field_path: String,
    }

    /// Labels and annotations of a node; documentation only.
    pub struct Metadata {
        pub labels: StringMap,
        pub annotations: StringMap,
    }
}

/// A flag that means nothing, be it true or of another type: two nodes that differ in it alone are equal (DEC-23).
#[derive(Clone, Copy, Debug, Default)]
pub struct Remark(bool);

impl Remark {
    /// Whether somebody wrote `true`.
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
