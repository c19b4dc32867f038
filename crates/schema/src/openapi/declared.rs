//! Declarations of schema nodes for expressions.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::SchemaDefinition;
use crate::cel::{CelType, Decl, FieldDecl, MAX_REQUEST, ObjectDecl, TextEncoding, escaped};

impl Decl {
    /// The declaration of a node; `None` if it has no type (CEL-007).
    pub(crate) fn for_node(node: &SchemaDefinition) -> Option<Decl> {
        let limit = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or(0));
        let most_text = limit(node.max_length).map_or(MAX_REQUEST - 2, |most| most.saturating_mul(4));
        if node.int_or_string {
            return Some(Decl::scalar(CelType::Dyn, 1, most_text));
        }
        match &*node.r#type {
            "boolean" => Some(Decl::scalar(CelType::Bool, 4, 1)),
            "integer" => Some(Decl::scalar(CelType::Int, 1, 1)),
            "number" => Some(Decl::scalar(CelType::Double, 1, 1)),
            "string" => Some(Decl::for_text(node, most_text, limit(node.max_length))),
            "array" => {
                let element = Decl::for_node(node.items.as_deref()?)?;
                let most = limit(node.max_items).unwrap_or((MAX_REQUEST - 2) / (element.min_size + 1));
                let ty = CelType::list(element.ty.clone());
                Some(Decl { element: Some(Arc::new(element)), ..Decl::scalar(ty, 2, most) })
            }
            "object" => match &node.additional_properties {
                Some(value) => {
                    let element = Decl::for_node(value)?;
                    let most = limit(node.max_properties).unwrap_or((MAX_REQUEST - 2) / (element.min_size + 6));
                    let ty = CelType::map(CelType::Text, element.ty.clone());
                    Some(Decl { element: Some(Arc::new(element)), ..Decl::scalar(ty, 2, most) })
                }
                None => Some(Decl::for_object(node, &BTreeMap::new())),
            },
            _ => None,
        }
    }

    /// Whether a node has a declaration.
    pub(crate) fn has_declaration(node: &SchemaDefinition) -> bool {
        node.int_or_string
            || match &*node.r#type {
                "boolean" | "integer" | "number" | "string" => true,
                "array" => node.items.as_deref().is_some_and(Decl::has_declaration),
                "object" => node.additional_properties.as_deref().is_none_or(Decl::has_declaration),
                _ => false,
            }
    }

    fn for_text(node: &SchemaDefinition, most: u64, max_length: Option<u64>) -> Decl {
        let read = |ty, reading, min_size, most| Decl { reading, ..Decl::scalar(ty, min_size, most) };
        match &*node.format {
            "byte" => read(CelType::Bytes, TextEncoding::Bytes, 2, max_length.unwrap_or(MAX_REQUEST - 2)),
            "duration" => read(CelType::Duration, TextEncoding::Duration, 3, 32),
            "date" => read(CelType::Timestamp, TextEncoding::Date, 12, 12),
            "date-time" => read(CelType::Timestamp, TextEncoding::DateTime, 21, 32),
            _ => {
                let entries = node.r#enum.iter().filter_map(|entry| serde_json::from_str::<String>(entry.get()).ok());
                let longest = entries.map(|entry| u64::try_from(entry.len()).unwrap_or(u64::MAX)).max();
                let most = longest.filter(|_| max_length.is_none()).unwrap_or(most);
                Decl::scalar(CelType::Text, 2, most)
            }
        }
    }

    /// The declaration of an object with fields; `instead` overrides or adds declarations.
    fn for_object(node: &SchemaDefinition, instead: &BTreeMap<&str, SchemaDefinition>) -> Decl {
        let mut min_size = 2_u64;
        let required: HashSet<&str> = node.required.iter().map(String::as_str).collect();
        let own = node.each_property().filter(|(name, _)| !instead.contains_key(name));
        let all = own.chain(instead.iter().map(|(name, child)| (*name, child)));
        let fields = all.filter_map(|(name, child)| {
            let decl = Decl::for_node(child)?;
            let has_default = child.default.as_ref().is_some_and(|default| default.get() != "null");
            if required.contains(name) && !has_default {
                min_size = min_size.saturating_add(name.len() as u64 + decl.min_size + 4);
            }
            Some((escaped(name)?, FieldDecl { name: name.to_owned(), decl }))
        });
        let structure = ObjectDecl { fields: fields.collect() };
        Decl::scalar(CelType::Object(Arc::new(structure)), min_size, 1)
    }

    /// The declaration with the fields of every Kubernetes object, for a root of type object (CEL-008).
    pub(crate) fn with_pseudo_fields(node: &SchemaDefinition) -> Option<Decl> {
        let has_fields = node.r#type == "object" && !node.int_or_string && node.additional_properties.is_none();
        if has_fields { Some(Decl::for_object(node, &pseudo_fields(node))) } else { Decl::for_node(node) }
    }
}

/// The fields of every Kubernetes object that a node does not declare itself.
fn pseudo_fields(node: &SchemaDefinition) -> BTreeMap<&'static str, SchemaDefinition> {
    let text = || SchemaDefinition { r#type: "string".to_owned(), ..SchemaDefinition::default() };
    let own = |name: &str| node.each_property().filter(|(own, _)| *own == name).map(|(_, own)| own).last();
    let texts = ["apiVersion", "kind"].into_iter().filter(|name| own(name).is_none_or(|own| own.r#type != "string"));
    let mut fields: BTreeMap<_, _> = texts.map(|name| (name, text())).collect();
    let is_open = |own: &&SchemaDefinition| own.r#type == "object" && own.additional_properties.is_none();
    let object = || SchemaDefinition { r#type: "object".to_owned(), ..SchemaDefinition::default() };
    let mut metadata = own("metadata").filter(is_open).cloned().unwrap_or_else(object);
    let mut members: BTreeMap<Box<str>, SchemaDefinition> = metadata.properties.take().into_iter().flatten().collect();
    for name in ["name", "generateName"] {
        members.entry(name.into()).or_insert_with(text);
    }
    metadata.properties = Some(members.into_iter().collect());
    fields.insert("metadata", metadata);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_the_schema() {
        // CEL-014
        for (schema, min, most) in [
            (r#"{"x-kubernetes-int-or-string":true}"#, 1, 3_145_726),
            (r#"{"type":"string","maxLength":5}"#, 2, 20),
            (r#"{"type":"string","enum":["a","bcd"]}"#, 2, 3),
            (r#"{"type":"string"}"#, 2, 3_145_726),
            (r#"{"type":"string","format":"byte","maxLength":5}"#, 2, 5),
            (r#"{"type":"string","format":"duration"}"#, 3, 32),
            (r#"{"type":"string","format":"date"}"#, 12, 12),
            (r#"{"type":"string","format":"date-time"}"#, 21, 32),
            (r#"{"type":"array","items":{"type":"string"}}"#, 2, 1_048_575),
            (r#"{"type":"array","maxItems":7,"items":{"type":"string"}}"#, 2, 7),
            (r#"{"type":"object","additionalProperties":{"type":"boolean"}}"#, 2, 314_572),
            (
                r#"{"type":"object","required":["ab","c"],"properties":{"ab":{"type":"boolean"},
                "c":{"type":"string","default":"x"}}}"#,
                2 + 2 + 4 + 4,
                1,
            ),
        ] {
            let decl = Decl::for_node(&serde_json::from_str(schema).unwrap()).unwrap();
            assert_eq!((decl.min_size, decl.max_elements), (min, most), "{schema}");
        }
        for schema in ["{}", r#"{"type":"array","items":{}}"#, r#"{"type":"object","additionalProperties":{}}"#] {
            let node = serde_json::from_str(schema).unwrap();
            assert!(Decl::for_node(&node).is_none() && !Decl::has_declaration(&node), "CEL-007 {schema}");
        }
    }
}
