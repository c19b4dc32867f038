//! A schema node as written.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer};

use super::format::Format;
use crate::field::Path;
use crate::json::{List, Members, OfNull, Rare, RawJson, StringMap, lenient};

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

    /// Labels and annotations of a node; documentation only.
    pub struct Metadata {
        pub labels: StringMap,
        pub annotations: StringMap,
    }
}

impl OfNull for Definition {
    fn of_null() -> Self {
        Definition { is_null: true, ..Definition::default() }
    }
}

/// A node below another, with its path.
type Child<'a> = (Path, &'a Definition);

impl Definition {
    /// The properties by name.
    pub fn each_property(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.properties.iter().flat_map(Members::iter)
    }

    /// Whether a value may hold a password, at whatever depth (DEC-34).
    pub fn has_secrets(&self) -> bool {
        let (core, junctors) = self.children(&Path::ROOT);
        Format::from_name(&self.format) == Some(Format::Password)
            || core.into_iter().chain(junctors).any(|(_, child)| child.has_secrets())
    }

    /// How many nodes there are, this one and all below it.
    pub fn count(&self) -> usize {
        let single = [&self.additional_properties, &self.items, &self.not].into_iter().flatten().map(|node| &**node);
        let lists = [&self.all_of, &self.one_of, &self.any_of].into_iter().flat_map(|list| list.iter());
        1 + self.each_property().map(|(_, node)| node).chain(single).chain(lists).map(Definition::count).sum::<usize>()
    }

    /// The nodes right below this one, which stands at `path`, with their paths: core ones, then those of junctors.
    pub fn children(&self, path: &Path) -> (Vec<Child<'_>>, Vec<Child<'_>>) {
        let mut core = Vec::new();
        if let Some(child) = &self.additional_properties {
            core.push((path.child("additionalProperties"), &**child));
        }
        let properties = path.child("properties");
        core.extend(self.each_property().map(|(name, child)| (properties.key(name), child)));
        if let Some(child) = &self.items {
            core.push((path.child("items"), &**child));
        }
        let mut junctors: Vec<Child<'_>> = self.not.iter().map(|child| (path.child("not"), &**child)).collect();
        for (keyword, list) in [("allOf", &self.all_of), ("oneOf", &self.one_of), ("anyOf", &self.any_of)] {
            let path = path.child(keyword);
            junctors.extend(list.iter().enumerate().map(|(i, child)| (path.index(i), child)));
        }
        (core, junctors)
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
