//! Compares the schema of a template with that of its objects: objects must accept what the template accepts.

use std::cmp::Ordering;

use serde_json::Value;

use super::field_types::is_open;
use super::finding::ContractFinding;

/// Upper bounds, which are stricter when lower, and lower bounds, which are stricter when higher.
const UPPER: [&str; 4] = ["maxItems", "maxLength", "maxProperties", "maximum"];
const LOWER: [&str; 4] = ["minItems", "minLength", "minProperties", "minimum"];
/// Exclusive bounds, which are stricter when set.
const EXCLUSIVE: [(&str, &str); 2] = [("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")];
/// Keywords that are stricter when they differ.
const EQUAL: [&str; 2] = ["pattern", "multipleOf"];
/// List types without duplicates: by value, and by key.
const UNIQUE: [&str; 2] = ["set", "map"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
/// Keywords that are compared as a whole.
const WHOLE: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];

/// Comparison of the `spec` schema of a template with that of its objects.
pub(super) struct TemplateComparison<'a> {
    /// The rule about templates of the role.
    pub rule: &'static str,
    /// The kind of the objects.
    pub kind: &'a str,
    /// Fields that Cluster API sets in the objects, which the template may lack.
    pub supplied: &'a [&'a str],
    pub findings: Vec<ContractFinding>,
}

impl TemplateComparison<'_> {
    /// Compares a template node with the object node at the same path, such as `spec.size`.
    pub(super) fn compare(&mut self, template: &Value, object: &Value, path: &str) {
        if template.get("type") != object.get("type") && !(is_open(template) && is_open(object)) {
            self.differing_types(template, object, path);
            return;
        }
        self.bounds(template, object, path);
        self.values(template, object, path);
        self.rules(template, object, path);
        self.defaults(template, object, path);
        self.fields(template, object, path);
        for keyword in ["items", "additionalProperties"] {
            if let (Some(ours), Some(theirs)) = (schema(template, keyword), schema(object, keyword)) {
                let end = if keyword == "items" { "[]" } else { "[*]" };
                self.compare(ours, theirs, &format!("{path}{end}"));
            }
        }
    }

    fn error(&mut self, path: &str, message: String, remediation: impl Into<String>) {
        self.findings.push(
            ContractFinding::error(self.rule, format!("spec.template.{path}"), message).with_remediation(remediation),
        );
    }

    fn warn(&mut self, path: &str, message: String, remediation: impl Into<String>) {
        self.findings.push(
            ContractFinding::warning(self.rule, format!("spec.template.{path}"), message).with_remediation(remediation),
        );
    }

    fn differing_types(&mut self, template: &Value, object: &Value, path: &str) {
        let name = |node: &Value| node.get("type").and_then(Value::as_str).unwrap_or("any type").to_owned();
        let message = format!("the template has {}, but {} has {}", name(template), self.kind, name(object));
        self.error(path, message, "use the same type in both");
    }

    fn bounds(&mut self, template: &Value, object: &Value, path: &str) {
        let number = |node: &Value, keyword: &str| node.get(keyword).and_then(Value::as_f64);
        for (keywords, stricter) in [(UPPER, Ordering::Less), (LOWER, Ordering::Greater)] {
            for keyword in keywords {
                let Some(theirs) = number(object, keyword) else { continue };
                // Sizes are at least 0.
                let none = (keyword.starts_with("min") && keyword != "minimum").then_some(0.0);
                let ours = number(template, keyword).or(none);
                if ours.is_none_or(|ours| theirs.partial_cmp(&ours) == Some(stricter)) {
                    self.stricter(object, keyword, path);
                }
            }
        }
        let is_set = |node: &Value, keyword: &str| node.get(keyword) == Some(&Value::Bool(true));
        for (keyword, bound) in EXCLUSIVE {
            // A lower maximum of the template excludes the value anyway.
            let is_same = number(object, bound) == number(template, bound);
            if is_same && is_set(object, keyword) && !is_set(template, keyword) {
                self.stricter(object, keyword, path);
            }
        }
        for keyword in EQUAL {
            if object.get(keyword).is_some() && object.get(keyword) != template.get(keyword) {
                self.stricter(object, keyword, path);
            }
        }
        let text = |node: &'_ Value, keyword: &str| node.get(keyword).and_then(Value::as_str).map(str::to_owned);
        // 32-bit values fit 64 bits.
        let (ours, theirs) = (text(template, "format"), text(object, "format"));
        if theirs.is_some() && ours != theirs && (ours.as_deref(), theirs.as_deref()) != (Some("int32"), Some("int64"))
        {
            self.stricter(object, "format", path);
        }
        let (ours, theirs) = (text(template, LIST_TYPE), text(object, LIST_TYPE));
        if theirs.as_deref().is_some_and(|theirs| UNIQUE.contains(&theirs)) && ours != theirs {
            self.stricter(object, LIST_TYPE, path);
        }
    }

    fn stricter(&mut self, object: &Value, keyword: &str, path: &str) {
        let value = object.get(keyword).cloned().unwrap_or_default();
        let message = format!("{} has {keyword} {value}, and the template accepts more", self.kind);
        self.error(
            path,
            message,
            format!("give the template the same {keyword}, so that a bad value is refused there"),
        );
    }

    /// Values accepted by the template only.
    fn values(&mut self, template: &Value, object: &Value, path: &str) {
        let list = |node: &Value| node.get("enum").and_then(Value::as_array).cloned();
        if let Some(theirs) = list(object)
            && list(template).is_none_or(|ours| ours.iter().any(|value| !theirs.contains(value)))
        {
            self.stricter(object, "enum", path);
        }
        let may_be_null = |node: &Value| node.get("nullable") == Some(&Value::Bool(true));
        if may_be_null(template) && !may_be_null(object) {
            let message = format!("the template accepts null, but {} does not", self.kind);
            self.error(path, message, "set nullable in both or in neither");
        }
    }

    /// CEL rules, whose effect cannot be compared. Transition rules do not apply to new objects.
    fn rules(&mut self, template: &Value, object: &Value, path: &str) {
        let texts = |node: &Value| -> Vec<String> {
            let rules = node.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            let texts = rules.filter_map(|rule| rule.get("rule").and_then(Value::as_str));
            texts.filter(|rule| !rule.contains("oldSelf")).map(str::to_owned).collect()
        };
        let ours = texts(template);
        for rule in texts(object).into_iter().filter(|rule| !ours.contains(rule)) {
            let message = format!("{} has the rule {rule:?}, which the template does not have", self.kind);
            self.warn(
                path,
                message,
                "give the template the same rule, unless it is about fields that only the object has",
            );
        }
        for keyword in WHOLE {
            if object.get(keyword).is_some() && object.get(keyword) != template.get(keyword) {
                let message = format!("{keyword} of {} differs from that of the template", self.kind);
                self.warn(path, message, "use the same schema in both");
            }
        }
    }

    fn defaults(&mut self, template: &Value, object: &Value, path: &str) {
        let (ours, theirs) = (template.get("default"), object.get("default"));
        if ours != theirs {
            let words =
                |value: Option<&Value>| value.map_or("no default".to_owned(), |value| format!("default {value}"));
            let message = format!("the template has {}, but {} has {}", words(ours), self.kind, words(theirs));
            self.warn(path, message, "use the same default in both");
        }
    }

    /// Fields that objects drop, and required fields that they do not get.
    fn fields(&mut self, template: &Value, object: &Value, path: &str) {
        let fields = |node| -> Vec<(String, Value)> {
            let fields = Value::as_object(schema(node, "properties").unwrap_or(&Value::Null)).cloned();
            fields.into_iter().flatten().collect()
        };
        let (theirs, any) = (fields(object), schema(object, "additionalProperties"));
        for (name, ours) in fields(template) {
            let place = format!("{path}.{name}");
            let named = theirs.iter().find(|(their_name, _)| *their_name == name).map(|(_, theirs)| theirs);
            match named.or(any) {
                Some(theirs) => self.compare(&ours, theirs, &place),
                None if is_open(object) => {}
                None => {
                    let message = format!("{} does not have this field, so its value is lost", self.kind);
                    self.error(
                        &place,
                        message,
                        format!("add the field to {}, or remove it from the template", self.kind),
                    );
                }
            }
        }
        if is_open(template) && !is_open(object) {
            let message = format!("the template keeps unknown fields, but {} drops them", self.kind);
            self.error(path, message, "keep unknown fields in both or in neither");
        }
        self.required(template, object, path);
    }

    fn required(&mut self, template: &Value, object: &Value, path: &str) {
        let names = |node: &Value| -> Vec<String> {
            let names = node.get("required").and_then(Value::as_array).into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let ours = names(template);
        for name in names(object).into_iter().filter(|name| !ours.contains(name)) {
            let place = format!("{path}.{name}");
            let field = schema(object, "properties").and_then(|fields| fields.get(&name));
            let has_default = field.is_some_and(|field| field.get("default").is_some());
            if !has_default && !self.supplied.contains(&&*place) {
                let message = format!(
                    "{} requires this field, and the template does not, so a webhook of the provider has to set it",
                    self.kind
                );
                self.warn(&place, message, "make it optional, give it a default, or require it in the template too");
            }
        }
    }
}

/// A subschema, or the properties.
fn schema<'a>(node: &'a Value, keyword: &str) -> Option<&'a Value> {
    node.get(keyword).filter(|value| value.is_object())
}
