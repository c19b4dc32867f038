//! The variable definitions of a ClusterClass (VAR-S, CEL).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::class_change::ClassChange;
use super::shared;
use crate::admission::{AdmissionSettings, ListedRule};
use golang::json::decode;
use model::hub::{ClusterClass, Kind, TopologyMetadata, VariableDefinition, paths};
use model::world::World;
use schema::field::{Findings, Path, join};
use schema::openapi::{self, Breach, SchemaAllowance, SchemaDefinition};

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        ("VAR-S-001", "names_are_unique"),
        ("VAR-S-002", "name_is_not_empty"),
        ("VAR-S-003", "name_is_not_builtin"),
        ("VAR-S-004", "name_has_no_dot"),
        ("VAR-S-005", "metadata_is_well_formed"),
        ("VAR-S-006", "metadata_of_schemas_is_well_formed"),
        ("VAR-S-010", "literals_can_be_read"),
        ("DEC-52", "schemas_are_objects"),
        ("VAR-S-020", "nodes_have_a_type"),
        ("VAR-S-021", "arrays_have_items"),
        ("VAR-S-022", "int_or_string_keeps_no_unknown_fields"),
        ("VAR-S-023", "patterns_compile"),
        ("VAR-S-024", "junctors_constrain_only"),
        ("VAR-S-030", "defaults_have_known_fields"),
        ("VAR-S-031", "defaults_are_valid"),
        ("VAR-S-032", "defaults_keep_the_rules"),
        ("VAR-S-040", "types_are_known"),
        ("VAR-S-041", "examples_are_valid"),
        ("VAR-S-042", "enum_entries_are_valid"),
        ("VAR-S-043", "properties_are_named_or_free"),
        ("CEL-001", "rule_and_message_are_lines"),
        ("CEL-002", "message_expression_is_not_blank"),
        ("CEL-003", "reason_is_known"),
        ("CEL-004", "field_path_leads_to_a_property"),
        ("CEL-005", "node_of_a_rule_has_a_type"),
        ("CEL-009", "rules_can_be_compiled"),
        ("CEL-010", "elements_have_no_transition_rules"),
        ("CEL-011", "each_rule_has_a_bounded_cost"),
        ("CEL-012", "all_rules_have_a_bounded_cost"),
        ("CEL-013", "literals_keep_the_rules"),
    ]
    .into_iter()
    .map(|(id, name)| ListedRule { id, name, kind: Some(Kind::ClusterClass) })
}

/// Variable definitions can be used (CC-V-060).
pub(super) fn variable_definitions_are_usable(change: &ClassChange<'_>, found: &mut Findings) {
    let variables = &change.new.spec.variables;
    found.run("VAR-S-001", |found| names_are_unique(variables, found));
    for variable in variables.iter().filter(|variable| !change.knows_variable(variable)) {
        let mut allowance = change.allowance.borrow_mut();
        if allowance.is_over() {
            return;
        }
        definition_is_usable(variable, &mut allowance, found);
        if let Err(exceeded) = allowance.next_schema() {
            allowance.note_breach(path(variable).child("schema.openAPIV3Schema"), exceeded);
        }
    }
}

/// The variables that an extension defines, if a class can use them (RH-16.4).
///
/// # Errors
/// The problem, with the name of the extension.
pub fn usable_variables(extension: &str, variables: Arc<[Value]>) -> Result<Arc<[Value]>, String> {
    match variable_problem(&variables) {
        None => Ok(variables),
        Some(problem) => Err(format!("the variables of {extension:?} are invalid: {problem}")),
    }
}

/// The problem of variables that an extension defines. They are checked like those of a class (RH-16.4), with the same
/// budget (DEC-44).
pub fn variable_problem(variables: &[Value]) -> Option<String> {
    let text = json!({"spec": {"variables": variables}}).to_string();
    let class = match decode::<ClusterClass>(&text) {
        Ok(class) => class,
        Err(problem) => return Some(problem),
    };
    let (world, settings) = (World::new(Arc::default()), AdmissionSettings::default());
    let change = ClassChange::new(&class, None, &[], &world, &settings);
    let mut found = Findings::default();
    variable_definitions_are_usable(&change, &mut found);
    let (errors, _) = found.into_parts();
    if !errors.is_empty() {
        return Some(join(&errors));
    }
    change.allowance.into_inner().breach().map(|Breach { path, exceeded }| format!("{path}: the answer {exceeded}"))
}

/// No two variables share a name (VAR-S-001).
fn names_are_unique(variables: &[VariableDefinition], found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for variable in variables {
        if !seen.insert(&*variable.name) {
            found.invalid(path(variable).child("name"), &*variable.name, "another variable has the same name");
        }
    }
}

fn definition_is_usable(variable: &VariableDefinition, allowance: &mut SchemaAllowance, found: &mut Findings) {
    let (name, path) = (&*variable.name, path(variable));
    found.run("VAR-S-002", |found| {
        if name.is_empty() {
            found.required(path.child("name"), "give the variable a name");
        }
    });
    found.run("VAR-S-003", |found| {
        if name == "builtin" {
            found.invalid(path.child("name"), name, "is reserved for builtin variables");
        }
    });
    found.run("VAR-S-004", |found| {
        if name.contains('.') {
            found.invalid(path.child("name"), name, "cannot contain \".\", which patches use to reach into a variable");
        }
    });
    found.run("VAR-S-005", |found| {
        shared::metadata(&variable.deprecated_v1beta1_metadata, &path.child("deprecatedV1Beta1Metadata"), found);
    });
    let (definition, path) = (&variable.schema.open_api_v3_schema, path.child("schema.openAPIV3Schema"));
    found.run("VAR-S-006", |found| metadata_is_well_formed(definition, &path, found));
    openapi::check(definition, &path, allowance, found);
}

/// Labels and annotations of a node and of the core nodes below it are well-formed (VAR-S-006).
fn metadata_is_well_formed(node: &SchemaDefinition, path: &Path, found: &mut Findings) {
    let metadata =
        TopologyMetadata { labels: node.metadata.labels.clone(), annotations: node.metadata.annotations.clone() };
    shared::metadata(&metadata, &path.child("x-metadata"), found);
    if let Some(child) = &node.additional_properties {
        metadata_is_well_formed(child, &path.child("additionalProperties"), found);
    }
    for (name, child) in node.each_property() {
        metadata_is_well_formed(child, &path.child("properties").key(name), found);
    }
    if let Some(child) = &node.items {
        metadata_is_well_formed(child, &path.child("items"), found);
    }
}

/// No schema relies on `nullable`, which has no effect (DEC-23).
pub(super) fn schemas_are_not_nullable(change: &ClassChange<'_>, found: &mut Findings) {
    for variable in &change.new.spec.variables {
        not_nullable(&variable.schema.open_api_v3_schema, &path(variable).child("schema.openAPIV3Schema"), found);
    }
}

fn not_nullable(node: &SchemaDefinition, path: &Path, found: &mut Findings) {
    if node.nullable.is_set() {
        found.warn_at(path, "nullable has no effect; a null value gets the default of its node or is refused");
    }
    for (step, child) in node.children() {
        not_nullable(child, &step.below(path), found);
    }
}

/// No array has rules that Cluster API refuses: any rule of a variable, a transition rule elsewhere (DEC-51).
pub(super) fn rules_are_not_at_the_root_of_arrays(change: &ClassChange<'_>, found: &mut Findings) {
    for variable in &change.new.spec.variables {
        let root = &variable.schema.open_api_v3_schema;
        let path = path(variable).child("schema.openAPIV3Schema");
        if root.r#type == "array" && !root.validations.is_empty() {
            found.warn_at(
                &path.child("x-kubernetes-validations"),
                "Cluster API refuses rules at the root of an array; make the variable an object with the array in it",
            );
        } else {
            no_transition_rules_of_arrays(root, &path, found);
        }
    }
}

fn no_transition_rules_of_arrays(node: &SchemaDefinition, path: &Path, found: &mut Findings) {
    if node.items.is_some() && node.validations.iter().any(|rule| rule.rule.contains("oldSelf")) {
        found.warn_at(
            &path.child("x-kubernetes-validations"),
            "Cluster API refuses oldSelf in rules of an array; write the rule for the object around it",
        );
    }
    for (step, child) in node.children() {
        no_transition_rules_of_arrays(child, &step.below(path), found);
    }
}

fn path(variable: &VariableDefinition) -> Path {
    Path::new(paths::cluster_class::VARIABLES).key(&variable.name)
}
