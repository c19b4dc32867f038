//! Sample values for the variables of a class, without a Cluster.

use serde_json::Value;

use super::CompiledVariables;
use crate::hub::StatusVariable;
use schema::openapi::{Breadth, NoSample, Schema};

/// The variables that get a sample value. Variables with a default get it from their class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleExtent {
    Required,
    All,
    /// All, with all properties of objects.
    Whole,
}

impl SampleExtent {
    /// All extents, smallest first.
    pub const EACH: [SampleExtent; 3] = [SampleExtent::Required, SampleExtent::All, SampleExtent::Whole];

    fn breadth(self) -> Breadth {
        if self == SampleExtent::Whole { Breadth::Whole } else { Breadth::Least }
    }
}

/// Small valid values, and the required variables for which none was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleValues {
    pub values: Vec<(String, Value)>,
    pub missing: Vec<(String, NoSample)>,
}

impl SampleValues {
    /// Generates values for variables, given their definitions.
    pub fn generate(definitions: &[StatusVariable], variables: &CompiledVariables, extent: SampleExtent) -> Self {
        let mut sample = SampleValues::default();
        for StatusVariable { name, definitions, .. } in definitions {
            let (Some(definition), Some(variable)) = (definitions.first(), variables.get(name)) else { continue };
            let Ok(schema) = &variable.schema else { continue };
            if variable.has_default || (extent == SampleExtent::Required && !variable.required) {
                continue;
            }
            match schema.sample(&definition.schema.open_api_v3_schema, extent.breadth()) {
                Ok(value) => sample.values.push((name.clone(), value)),
                Err(reason) if variable.required => sample.missing.push((name.clone(), reason)),
                Err(_) => {}
            }
        }
        sample
    }
}

/// Another value of a variable, or none: another entry of an `enum`, another boolean, something for what is empty, and set
/// instead of unset.
#[derive(Clone, Debug, PartialEq)]
pub struct AlternativeValue {
    pub variable: String,
    /// The value; `None` for a variable that is not set.
    pub value: Option<Value>,
    /// Whether nothing in the value is invented: the schema or the Cluster has it.
    pub is_listed: bool,
    /// What differs, such as `network.enabled: true`; the variable alone if its values may be secrets.
    pub difference: String,
}

impl AlternativeValue {
    /// The alternatives of each variable that has some, given the value that it has in a Cluster.
    pub fn generate(
        definitions: &[StatusVariable],
        variables: &CompiledVariables,
        current: impl Fn(&str) -> Option<Value>,
    ) -> Vec<Vec<AlternativeValue>> {
        let of_variable = |StatusVariable { name, definitions, .. }: &StatusVariable| {
            let (definition, variable) = (definitions.first()?, variables.get(name)?);
            let (source, schema) = (&definition.schema.open_api_v3_schema, variable.schema.as_ref().ok()?);
            let is_optional = !variable.required && !variable.has_default;
            let set = current(name);
            let is_invented = set.is_none() && !variable.has_default;
            let mut value = match &set {
                Some(value) => value.clone(),
                None => schema.sample(source, Breadth::Whole).ok()?,
            };
            let mut all = Vec::new();
            if is_optional {
                let (is_listed, difference) = match set {
                    Some(_) => (true, format!("no {name}")),
                    None => (false, difference(schema, name, "", &value)),
                };
                let value = if set.is_some() { None } else { Some(value.clone()) };
                all.push(AlternativeValue { variable: name.clone(), value, is_listed, difference });
            }
            schema.complete(&mut value);
            all.extend(schema.alternatives(source, &value).into_iter().map(|other| AlternativeValue {
                variable: name.clone(),
                is_listed: other.is_listed && (other.place.is_empty() || !is_invented),
                difference: difference(schema, name, &other.place, &other.part),
                value: Some(other.value),
            }));
            Some(all)
        };
        definitions.iter().filter_map(of_variable).filter(|all| !all.is_empty()).collect()
    }
}

/// Maximum number of characters of a value that is shown.
const SHOWN: usize = 40;

/// `network.enabled: true`, without a value that may be a secret or is long.
fn difference(schema: &Schema, name: &str, place: &str, value: &Value) -> String {
    let text = shown(value);
    match schema.has_secrets() || text.chars().count() > SHOWN {
        true => format!("another {name}{place}"),
        false => format!("{name}{place}: {text}"),
    }
}

/// A value as YAML shows it in one line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hub::ClusterClass;
    use schema::openapi::SchemaAllowance;

    #[test]
    fn variables_without_a_default_get_a_value() {
        let variable = |name: &str, required: bool, schema: Value| {
            json!({"name": name,
                "definitions": [{"from": "inline", "required": required, "schema": {"openAPIV3Schema": schema}}]})
        };
        let class: ClusterClass = serde_json::from_value(json!({"status": {"variables": [
            variable("a", true, json!({"type": "string", "minLength": 1})),
            variable("b", false, json!({"type": "integer", "minimum": 2})),
            variable("c", true, json!({"type": "string", "default": "x"})),
            variable("d", true, json!({"type": "string", "pattern": "^a{9}$", "maxLength": 3})),
            variable("e", false, json!({"type": "string", "pattern": "^a{9}$", "maxLength": 3})),
        ]}}))
        .unwrap();
        let definitions = &class.status.variables;
        let compiled = CompiledVariables::compile(definitions, &mut SchemaAllowance::unlimited()).unwrap();
        let names = |extent| {
            let SampleValues { values, missing } = SampleValues::generate(definitions, &compiled, extent);
            (values, missing.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let required = vec![("a".to_owned(), json!("a"))];
        assert_eq!(names(SampleExtent::Required), (required.clone(), vec!["d".to_owned()]));
        let all = [required, vec![("b".to_owned(), json!(2))]].concat();
        assert_eq!(names(SampleExtent::All), (all, vec!["d".to_owned()]));
    }

    #[test]
    fn alternatives_are_other_entries_and_booleans() {
        let variable = |name: &str, schema: Value| {
            json!({"name": name,
                "definitions": [{"from": "inline", "required": true, "schema": {"openAPIV3Schema": schema}}]})
        };
        let class: ClusterClass = serde_json::from_value(json!({"status": {"variables": [
            variable("os", json!({"type": "string", "enum": ["a", "b", "c"], "default": "b"})),
            variable("debug", json!({"type": "boolean"})),
            variable("network", json!({"type": "object", "required": ["on"], "properties": {
                "on": {"type": "boolean", "default": true}, "zones": {"type": "array", "items": {"type": "string",
                "enum": ["x", "y"]}, "minItems": 1}, "name": {"type": "string"}}})),
            variable("plain", json!({"type": "string"})),
            variable("key", json!({"type": "object", "properties": {
                "text": {"type": "string", "format": "password"}, "on": {"type": "boolean"}}})),
            variable("ruled", json!({"type": "string", "enum": ["m", "n"],
                "x-kubernetes-validations": [{"rule": "self != 'n'"}]})),
        ]}}))
        .unwrap();
        let definitions = &class.status.variables;
        let compiled = CompiledVariables::compile(definitions, &mut SchemaAllowance::unlimited()).unwrap();
        let all = AlternativeValue::generate(definitions, &compiled, |_| None);
        let shown: Vec<(&str, Value)> =
            all.iter().flatten().map(|other| (&*other.difference, other.value.clone().unwrap())).collect();
        let network = |on: bool, zone: &str, name: &str| json!({"on": on, "zones": [zone], "name": name});
        let want = [
            ("os: a", json!("a")),
            ("os: c", json!("c")),
            ("debug: true", json!(true)),
            ("network.name: b", network(true, "x", "b")),
            ("network.on: false", network(false, "x", "")),
            ("network.zones[0]: y", network(true, "y", "")),
            ("plain: b", json!("b")),
            ("another key.on", json!({"on": true, "text": ""})),
            ("another key.text", json!({"on": false, "text": "b"})),
        ];
        assert_eq!(shown, want);
        assert!(all.iter().flatten().all(|other| other.is_listed == ["os", "debug"].contains(&&*other.variable)));
        let set = |name: &str| (name == "extra").then(|| json!("x"));
        let extra: ClusterClass = serde_json::from_value(json!({"status": {"variables": [{"name": "extra",
            "definitions": [{"from": "inline", "schema": {"openAPIV3Schema": {"type": "string"}}}]}]}}))
        .unwrap();
        let compiled = CompiledVariables::compile(&extra.status.variables, &mut SchemaAllowance::unlimited()).unwrap();
        let others = |current: &dyn Fn(&str) -> Option<Value>| {
            let all = AlternativeValue::generate(&extra.status.variables, &compiled, current);
            all.into_iter().flatten().map(|other| other.difference).collect::<Vec<_>>()
        };
        assert_eq!(others(&set), ["no extra"]);
        assert_eq!(others(&|_| None), ["extra: \"\"", "extra: b"]);
    }
}
