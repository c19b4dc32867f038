//! The variables that a class defines.

use crate::hub::ClusterClass;
use crate::schema::{Definition, Schema};

/// The variables of a class, compiled, by name, which is the order of its status.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    defined: Vec<Variable>,
    /// Variables without a definition, or with definitions that conflict (VAR-D-002).
    unsettled: Vec<String>,
}

/// A variable; only the first of its definitions counts (VAR-S-052).
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub required: bool,
    /// Whether the root of the schema has a default.
    pub has_default: bool,
    /// The schema, or why it cannot be used.
    pub schema: Result<Schema, String>,
}

impl Variables {
    /// The variables as the status has them (VAR-S-050); `None` until the class is reconciled (CL-D-005).
    pub fn of(class: &ClusterClass) -> Option<Variables> {
        class.is_reconciled().then(|| Variables::of_status(class))
    }

    fn of_status(class: &ClusterClass) -> Variables {
        let mut variables = Variables::default();
        for variable in &class.status.variables {
            match variable.definitions.first() {
                Some(first) if !variable.definitions_conflict => {
                    variables.define(&variable.name, first.required, &first.schema.open_api_v3_schema);
                }
                _ => variables.unsettled.push(variable.name.clone()),
            }
        }
        variables.defined.sort_by(|a, b| a.name.cmp(&b.name));
        variables
    }

    fn define(&mut self, name: &str, required: bool, definition: &Definition) {
        let schema = Schema::compile(definition).map_err(|error| error.to_string());
        let has_default = definition.default.as_ref().is_some_and(|default| default.get() != "null");
        self.defined.push(Variable { name: name.to_owned(), required, has_default, schema });
    }

    /// Every variable with a definition that counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Variable> {
        self.defined.iter()
    }

    /// The variable called `name`.
    pub fn get(&self, name: &str) -> Option<&Variable> {
        let at = self.defined.binary_search_by(|variable| variable.name.as_str().cmp(name)).ok()?;
        self.defined.get(at)
    }

    /// The names of all variables, for messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.defined.iter().map(|variable| &*variable.name)
    }

    /// Variables whose definitions do not settle what they are.
    pub fn unsettled(&self) -> &[String] {
        &self.unsettled
    }
}
