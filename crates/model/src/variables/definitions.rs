//! The variables that a class defines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::ClassCache;
use crate::hub::{ClusterClass, ClusterClassSpec, StatusVariable, StatusVariableDefinition, VariableDefinition};
use golang::json::SharedValue;
use schema::openapi::{DefaultSize, Footprint, Schema, SchemaAllowance, SchemaDefinition, SchemaError};

/// Source of definitions from the class itself.
pub const INLINE: &str = "inline";

/// The status variables of a spec without extensions, sorted by name (CCR-06, CCR-09).
///
/// A repeated name, which VAR-S-001 rejects, counts once: a status is a list with unique names.
pub fn status_variables(spec: &ClusterClassSpec) -> Vec<StatusVariable> {
    let mut variables = BTreeMap::new();
    for variable in &spec.variables {
        variables.entry(&*variable.name).or_insert(variable);
    }
    let status = variables.into_iter().map(|(name, variable)| StatusVariable {
        name: name.to_owned(),
        definitions_conflict: false,
        definitions: vec![inline(variable)].into(),
    });
    status.collect()
}

fn inline(variable: &VariableDefinition) -> StatusVariableDefinition {
    StatusVariableDefinition {
        from: INLINE.to_owned(),
        required: variable.required,
        deprecated_v1beta1_metadata: variable.deprecated_v1beta1_metadata.clone(),
        schema: variable.schema.clone(),
    }
}

/// The expected variables of a class after `spec` is reconciled, assuming unchanged answers of extensions: definitions
/// of the spec, then those in `before` from patches that still discover variables, in the order of the patches
/// (CCR-07).
pub fn expected_status(spec: &ClusterClassSpec, before: &[StatusVariable]) -> Vec<StatusVariable> {
    let mut expected: BTreeMap<String, StatusVariable> =
        status_variables(spec).into_iter().map(|variable| (variable.name.clone(), variable)).collect();
    for (patch, _) in spec.discovering_patches() {
        for variable in before {
            for definition in variable.definitions.iter().filter(|definition| definition.from == patch.name) {
                let entry = expected
                    .entry(variable.name.clone())
                    .or_insert_with(|| StatusVariable { name: variable.name.clone(), ..StatusVariable::default() });
                entry.definitions_conflict |= entry.definitions.first().is_some_and(|first| differ(first, definition));
                entry.definitions = [&*entry.definitions, std::slice::from_ref(definition)].concat().into();
            }
        }
    }
    expected.into_values().collect()
}

/// Whether two definitions of one variable conflict: they differ in more than their source (CCR-08, VAR-S-051).
fn differ(first: &StatusVariableDefinition, other: &StatusVariableDefinition) -> bool {
    first.required != other.required
        || first.schema != other.schema
        || first.deprecated_v1beta1_metadata != other.deprecated_v1beta1_metadata
}

/// The definitions for validating values; `None` while only an extension knows them (VAR-S-050, CL-D-005).
///
/// A class that awaits its controller has the variables that the controller will compute, unless extensions contribute
/// some (DEC-2).
pub fn current(class: &ClusterClass) -> Option<Cow<'_, [StatusVariable]>> {
    if class.is_reconciled() {
        return Some(Cow::Borrowed(&class.status.variables));
    }
    (!class.discovers_variables()).then(|| Cow::Owned(status_variables(&class.spec)))
}

/// Whether any variable, or a part of its values, is deprecated; only first definitions count (VAR-S-052).
pub fn have_deprecated(status: &[StatusVariable]) -> bool {
    let mut first = status.iter().filter_map(|variable| variable.definitions.first());
    first.any(|definition| definition.schema.open_api_v3_schema.has_deprecated())
}

/// The compiled variables of a class, sorted by name, the order of its status.
#[derive(Clone, Debug, Default)]
pub struct CompiledVariables {
    defined: Vec<Arc<CompiledVariable>>,
    /// Variables without a definition, or with conflicting definitions (VAR-D-002).
    unsettled: Vec<String>,
    are_some_of_many: bool,
}

/// The reason for which the schema of a variable is unusable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UnusableSchema {
    #[error(transparent)]
    Invalid(SchemaError),
    /// The definitions of the variable cannot be used together.
    #[error("{0}")]
    Conflict(String),
}

/// A compiled variable; only its first definition counts (VAR-S-052).
#[derive(Debug)]
pub struct CompiledVariable {
    pub name: String,
    pub required: bool,
    /// Whether the root of the schema has a default.
    pub has_default: bool,
    /// The default value if a Cluster does not set it.
    pub(super) addition: Option<DefaultValue>,
    /// The schema, or the reason why it is unusable.
    pub schema: Result<Schema, UnusableSchema>,
    /// Its share of an allowance.
    pub(super) footprint: Footprint,
    /// Accounts its memory until it is dropped.
    pub(super) _charge: MemoryCharge,
}

/// Memory of a compiled part, accounted until this is dropped.
#[derive(Debug)]
pub(super) struct MemoryCharge {
    live: Arc<AtomicUsize>,
    bytes: usize,
}

impl MemoryCharge {
    pub(super) fn new(live: &Arc<AtomicUsize>, bytes: usize) -> Self {
        live.fetch_add(bytes, Ordering::Relaxed);
        MemoryCharge { live: live.clone(), bytes }
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The content that identifies a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VariableContent {
    name: String,
    required: bool,
    definition: SharedValue<SchemaDefinition>,
}

/// The expanded default of a variable.
#[derive(Clone, Debug)]
pub(super) struct DefaultValue {
    pub value: Value,
    /// Whether it satisfies its schema, apart from rules.
    pub is_good: bool,
    pub extent: DefaultSize,
}

impl DefaultValue {
    fn from_schema(schema: &Schema, allowance: &mut SchemaAllowance) -> Result<Option<Self>, SchemaError> {
        let Some(mut value) = schema.expanded_default(allowance)? else { return Ok(None) };
        golang::json::with_integers(&mut value);
        let violations = allowance.violations(schema, &value);
        let violations = violations.map_err(|exceeded| SchemaError::from(exceeded).below(|| ".default".to_owned()))?;
        let is_good = violations.is_empty() && schema.unknown_fields(&value).is_empty();
        let extent = DefaultSize::measure(&value);
        Ok(Some(DefaultValue { value, is_good, extent }))
    }
}

impl CompiledVariable {
    /// The value that a Cluster without this variable gets, with the defaults inside it.
    pub fn default_value(&self) -> Option<&Value> {
        self.addition.as_ref().map(|addition| &addition.value)
    }

    /// Compiles a variable; `live` accounts the memory of all variables.
    ///
    /// # Errors
    /// When the allowance or the time does not suffice.
    pub(super) fn compile(
        content: &VariableContent,
        live: &Arc<AtomicUsize>,
        allowance: &mut SchemaAllowance,
    ) -> Result<CompiledVariable, SchemaError> {
        let VariableContent { name, required, definition } = content;
        let before = allowance.compiled_bytes();
        let schema = match Schema::compile_within(definition, allowance) {
            Err(error) if error.is_of_the_set() => return Err(error),
            compiled => compiled.map_err(UnusableSchema::Invalid),
        };
        let has_default = definition.default.as_ref().is_some_and(|default| default.get() != "null");
        let addition = match schema.as_ref() {
            Ok(schema) if has_default => DefaultValue::from_schema(schema, allowance)?,
            _ => None,
        };
        let footprint = allowance.measure(before);
        let charge = MemoryCharge::new(live, footprint.bytes());
        Ok(CompiledVariable {
            name: name.clone(),
            required: *required,
            has_default,
            addition,
            schema,
            footprint,
            _charge: charge,
        })
    }

    /// Whether values are subject to CEL rules.
    pub fn has_rules(&self) -> bool {
        self.schema.as_ref().is_ok_and(Schema::has_rules)
    }
}

impl CompiledVariables {
    /// Compiles the variables of a status; of several definitions the first counts (VAR-S-052).
    ///
    /// # Errors
    /// When the allowance or the time does not suffice.
    pub fn compile(
        status: &[StatusVariable],
        allowance: &mut SchemaAllowance,
    ) -> Result<CompiledVariables, SchemaError> {
        ClassCache::default().look_up(status, allowance).map(Arc::unwrap_or_clone)
    }

    /// As [`CompiledVariables::compile`], reusing variables in `compiled`.
    pub(super) fn compile_with(
        status: &[StatusVariable],
        allowance: &mut SchemaAllowance,
        mut compiled: impl FnMut(VariableContent, &mut SchemaAllowance) -> Result<Arc<CompiledVariable>, SchemaError>,
    ) -> Result<CompiledVariables, SchemaError> {
        let mut variables = CompiledVariables::default();
        for variable in status {
            match variable.definitions.first() {
                Some(first) if !variable.definitions_conflict => {
                    let definition = first.schema.open_api_v3_schema.clone();
                    let content = VariableContent { name: variable.name.clone(), required: first.required, definition };
                    allowance.next_schema()?;
                    let compiled = compiled(content, allowance);
                    let compiled = compiled.map_err(|error| error.below(|| format!("variable {:?}", variable.name)))?;
                    variables.defined.push(compiled);
                }
                _ => variables.unsettled.push(variable.name.clone()),
            }
        }
        allowance.next_schema()?;
        variables.defined.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(variables)
    }

    /// Variables that accept no value, because their definitions cannot be used together.
    pub fn unusable(status: &[StatusVariable], reason: &str) -> CompiledVariables {
        let defined = status.iter().map(|variable| {
            Arc::new(CompiledVariable {
                name: variable.name.clone(),
                required: false,
                has_default: false,
                addition: None,
                schema: Err(UnusableSchema::Conflict(reason.to_owned())),
                footprint: Footprint::default(),
                _charge: MemoryCharge::new(&Arc::default(), 0),
            })
        });
        let mut defined: Vec<_> = defined.collect();
        defined.sort_by(|a, b| a.name.cmp(&b.name));
        CompiledVariables { defined, ..CompiledVariables::default() }
    }

    /// The variables that `is_wanted` selects by name: values of others are not checked.
    #[must_use]
    pub fn only(&self, is_wanted: impl Fn(&str) -> bool) -> CompiledVariables {
        let defined = self.defined.iter().filter(|variable| is_wanted(&variable.name)).cloned().collect();
        CompiledVariables { defined, unsettled: self.unsettled.clone(), are_some_of_many: true }
    }

    /// Whether the class has further variables.
    pub(super) fn are_some_of_many(&self) -> bool {
        self.are_some_of_many
    }

    /// Every variable with a valid definition, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &CompiledVariable> {
        self.defined.iter().map(|variable| &**variable)
    }

    /// The variable `name`.
    pub fn get(&self, name: &str) -> Option<&CompiledVariable> {
        let at = self.defined.binary_search_by(|variable| variable.name.as_str().cmp(name)).ok()?;
        self.defined.get(at).map(|variable| &**variable)
    }

    /// The names of all variables, for messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.defined.iter().map(|variable| &*variable.name)
    }

    /// Variables without a unique definition.
    pub fn unsettled(&self) -> &[String] {
        &self.unsettled
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(spec: &Value, status: &Value) -> ClusterClass {
        serde_json::from_value(json!({"metadata": {"generation": 1}, "spec": spec, "status": status})).unwrap()
    }

    fn variable(name: &str, r#type: &str) -> Value {
        json!({"name": name, "required": name == "a", "schema": {"openAPIV3Schema": {"type": r#type}}})
    }

    #[test]
    fn a_status_follows_from_the_spec_by_name() {
        // CCR-06, CCR-09
        let spec = json!({"variables": [variable("b", "string"), variable("a", "string"), variable("b", "integer")]});
        let status = status_variables(&class(&spec, &json!({})).spec);
        let shown: Vec<_> = status
            .iter()
            .map(|variable| (&*variable.name, variable.definitions_conflict, variable.definitions.len()))
            .collect();
        assert_eq!(shown, [("a", false, 1), ("b", false, 1)]);
        let first = |i: usize| &status[i].definitions[0];
        assert_eq!((&*first(0).from, first(0).required, first(1).required), ("inline", true, false));
        assert_eq!(first(1).schema.open_api_v3_schema.r#type, "string", "the first definition of a name counts");
    }

    #[test]
    fn definitions_come_from_the_spec_until_the_class_is_reconciled() {
        // DEC-2, VAR-S-050
        let spec = json!({"variables": [variable("new", "string")]});
        let discovering = json!({"variables": [variable("new", "string")],
            "patches": [{"name": "p", "external": {"discoverVariablesExtension": "discover.ext"}}]});
        let status = |generation: i64| {
            json!({"observedGeneration": generation, "conditions": [{"type": "VariablesReady", "status": "True"}],
                "variables": [{"name": "old", "definitions": [{"from": "inline",
                    "schema": {"openAPIV3Schema": {"type": "string"}}}]}]})
        };
        let names = |spec: &Value, status: &Value| {
            let class = class(spec, status);
            let compiled =
                |status: &[_]| CompiledVariables::compile(status, &mut SchemaAllowance::unlimited()).unwrap();
            current(&class).map(|status| compiled(&status).names().collect::<Vec<_>>().join(","))
        };
        assert_eq!(names(&spec, &json!({})).as_deref(), Some("new"));
        assert_eq!(names(&spec, &status(0)).as_deref(), Some("new"), "an older generation");
        assert_eq!(names(&spec, &status(1)).as_deref(), Some("old"), "reconciled");
        assert_eq!(names(&discovering, &json!({})), None);
        assert_eq!(names(&discovering, &status(1)).as_deref(), Some("old"));
    }

    #[test]
    fn discovered_definitions_stay_as_long_as_their_patch_discovers() {
        // CCR-07, CCR-08, DEC-1
        let discovering =
            |name: &str| json!({"name": name, "external": {"discoverVariablesExtension": "discover.ext"}});
        let spec = |patches: Value| {
            class(
                &json!({"variables": [variable("a", "string"), variable("b", "string")], "patches": patches}),
                &json!({}),
            )
            .spec
        };
        let definition = |from: &str, required: bool, r#type: &str| {
            json!({"from": from, "required": required,
                "schema": {"openAPIV3Schema": {"type": r#type}}})
        };
        let before = class(
            &json!({}),
            &json!({"variables": [
                {"name": "a", "definitions": [definition("inline", true, "string"), definition("p", true, "string")]},
                {"name": "b", "definitions": [definition("p", false, "integer")]},
                {"name": "c", "definitions": [definition("q", false, "string"), definition("p", false, "string")]},
            ]}),
        );
        let shown = |patches: Value| -> Vec<String> {
            let expected = expected_status(&spec(patches), &before.status.variables);
            let show = |variable: &StatusVariable| {
                let from: Vec<_> = variable.definitions.iter().map(|definition| &*definition.from).collect();
                format!("{}:{}{}", variable.name, from.join("+"), if variable.definitions_conflict { "!" } else { "" })
            };
            expected.iter().map(show).collect()
        };
        assert_eq!(shown(json!([])), ["a:inline", "b:inline"]);
        assert_eq!(shown(json!([{"name": "p"}])), ["a:inline", "b:inline"], "a patch that no longer discovers");
        assert_eq!(shown(json!([discovering("p")])), ["a:inline+p", "b:inline+p!", "c:p"]);
        assert_eq!(shown(json!([discovering("p"), discovering("q")])), ["a:inline+p", "b:inline+p!", "c:p+q"]);
    }
}
