//! Sample values for the variables of a class, without a Cluster.

use serde_json::Value;

use super::CompiledVariables;
use crate::hub::StatusVariable;
use schema::openapi::{Breadth, NoSample};

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
}
