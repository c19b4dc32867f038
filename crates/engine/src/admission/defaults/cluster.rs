//! Defaults of a Cluster, and the check of its variables (CL-D).
//!
//! Values are only validated here, so that defaults and validation use the same version of the class.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use super::{add, pointer};
use crate::admission::lists::{Values, lists};
use crate::admission::rules::topology::leaves_alone_what_the_class_says;
use crate::admission::{AdmissionOutcome, AdmissionSettings, ListedRule, Verdict};
use model::hub::{Cluster, Kind, Topology, paths};
use model::variables::{self, CompiledVariables, ValueBudget, ValueChange, ValueList};
use model::world::{Class, Found, World};
use schema::field::{FieldError, Findings, Path};

/// The rules of this file in the order in which they run.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        ("CL-D-002", "version_starts_with_v"),
        ("CL-D-003", "class_is_named"),
        ("CL-D-004", "class_can_be_looked_up"),
        ("VAR-V-001", "names_are_unique"),
        ("VAR-V-002", "definitions_are_settled"),
        ("VAR-V-004", "value_has_a_definition"),
        ("VAR-V-010", "value_and_schema_can_be_read"),
        ("CL-D-006", "missing_values_get_their_defaults"),
        ("VAR-V-003", "required_variables_are_set"),
        ("VAR-V-020", "value_has_the_type_of_its_schema"),
        ("VAR-V-021", "required_properties_are_set"),
        ("VAR-V-022", "value_is_within_bounds"),
        ("VAR-V-023", "integers_have_no_fraction"),
        ("VAR-V-024", "text_has_its_format"),
        ("VAR-V-025", "value_is_one_of_the_enum"),
        ("VAR-V-026", "int_or_string_is_one_of_both"),
        ("VAR-V-027", "value_satisfies_junctors"),
        ("VAR-V-030", "fields_are_known"),
        ("CEL-022", "rules_hold"),
        ("CEL-023", "messages_are_within_budget"),
        ("CEL-024", "rules_compile"),
        ("CEL-025", "rules_can_be_evaluated"),
        ("CEL-026", "rules_are_within_budget"),
    ]
    .into_iter()
    .map(|(id, name)| ListedRule { id, name, kind: Some(Kind::Cluster) })
}

/// The mutating end point for Clusters on create and update. Feature gates are not consulted (CL-D-010).
pub(in crate::admission) fn default(
    cluster: &Cluster,
    old: Option<&Cluster>,
    world: &World,
    settings: &AdmissionSettings,
) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let mut patch = RedactablePatch::default();
    // CL-D-001: without a defined topology there is nothing to do.
    if let Some(topology) = cluster.topology() {
        let version = found.run("CL-D-002", |_| version_starts_with_v(topology)).flatten();
        patch.extend(version.map(|operation| (operation, None)));
        found.run("CL-D-003", |found| class_is_named(topology, found));
        if found.error_count() == 0 {
            match class_of(cluster, old, world) {
                Ok(class) => {
                    if let Some(variables) = class.and_then(|class| class.variables()) {
                        let old = old.and_then(Cluster::topology);
                        patch.extend(settle_within_budget(topology, old, &variables, world, &mut found).0);
                    }
                }
                Err(error) => {
                    let message = error.to_string();
                    let unknown = |_: &mut Findings| AdmissionOutcome::Unknown { rule: "CL-D-004", message };
                    if let Some(outcome) = found.run("CL-D-004", unknown) {
                        return Verdict::plain(Kind::Cluster, "", outcome);
                    }
                }
            }
        }
    }
    let (mut errors, warnings) = found.into_parts();
    if let Some(old) = old.filter(|_| errors.iter().any(|error| error.rule == "VAR-V-004")) {
        explain_leftover_defaults(cluster, old, world, &mut errors);
    }
    // CL-D-009: a denied request has no patch.
    match errors.is_empty() {
        true => {
            let (patch, printed_patch) = patch.into_patches();
            Verdict { warnings, patch, printed_patch, ..Verdict::plain(Kind::Cluster, "", AdmissionOutcome::Allowed) }
        }
        false => Verdict { warnings, ..Verdict::plain(Kind::Cluster, "", AdmissionOutcome::Invalid(errors)) },
    }
}

/// An operation, and its printed form if it differs.
type RedactableOperation = (PatchOperation, Option<PatchOperation>);

/// A patch with the printed form of operations that contain passwords (DEC-34).
#[derive(Default)]
struct RedactablePatch(Vec<RedactableOperation>);

impl RedactablePatch {
    fn extend(&mut self, edits: impl IntoIterator<Item = RedactableOperation>) {
        self.0.extend(edits);
    }

    /// The patch, and its printed form if it differs.
    fn into_patches(self) -> (Patch, Option<Patch>) {
        let is_the_same = self.0.iter().all(|(_, printed)| printed.is_none());
        let printed = || self.0.iter().map(|(done, printed)| printed.as_ref().unwrap_or(done).clone()).collect();
        let printed = (!is_the_same).then(|| Patch(printed()));
        (Patch(self.0.into_iter().map(|(done, _)| done).collect()), printed)
    }
}

/// A version starts with a lower-case `v`; one is put in front where it does not, and nothing else is changed
/// (CL-D-002).
fn version_starts_with_v(topology: &Topology) -> Option<PatchOperation> {
    let value = format!("v{}", topology.version);
    (!topology.version.starts_with('v')).then(|| add(&pointer("/spec/topology/version"), value.into()))
}

/// A topology names its class (CL-D-003).
fn class_is_named(topology: &Topology, found: &mut Findings) {
    if topology.class_ref.name.is_empty() {
        found.required(
            Path::new(paths::cluster::TOPOLOGY_CLASS_NAME),
            "name the ClusterClass of this topology (spec.topology.class in v1beta1)",
        );
    }
}

/// Adds to the errors of a rebase which values are defaults of the old class, and how to remove them (DEC-112). The
/// patch is for the stored Cluster, and fails if its list of variables has changed since.
fn explain_leftover_defaults(cluster: &Cluster, old: &Cluster, world: &World, errors: &mut [FieldError]) {
    let (Some(new_key), Some(old_key), Some(stored)) = (cluster.class_key(), old.class_key(), old.topology()) else {
        return;
    };
    if new_key == old_key {
        return;
    }
    let Found::Yes(class) = world.class(&old_key) else { return };
    let Some(variables) = class.variables() else { return };
    let list = Path::new(paths::cluster::TOPOLOGY_VARIABLES);
    let values = stored.variables.iter().enumerate();
    let places: BTreeMap<_, _> = values.map(|place| (list.key(&place.1.name).to_string(), place)).collect();
    for error in errors.iter_mut().filter(|error| error.rule == "VAR-V-004") {
        let Some((position, value)) = places.get(error.path.as_str()) else { continue };
        let default = variables.get(&value.name).and_then(|variable| variable.default_value());
        let written = value.value.as_ref().and_then(|raw| golang::json::value(raw.get()).ok());
        if default.is_none() || default != written.as_ref() {
            continue;
        }
        let entry = format!("/spec/topology/variables/{position}");
        let patch = json!([
            {"op": "test", "path": format!("{entry}/name"), "value": *value.name},
            {"op": "remove", "path": entry},
        ]);
        error.detail = format!(
            "{}; the value is the default of the variable in the old ClusterClass {:?}, so no file needs to contain \
             it: change the class and remove the value in one JSON patch, with {patch}",
            error.detail, old_key.name
        );
    }
}

/// The class of a Cluster cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot look up the ClusterClass of this Cluster: {reason}")]
struct ClassLookupError {
    reason: String,
}

/// The class, if it is there (CL-D-004). A class that is not reconciled has no variables yet (CL-D-005).
///
/// An unreadable class sets no defaults in a Cluster whose class, version and variables stay the same (DEC-44).
fn class_of(cluster: &Cluster, old: Option<&Cluster>, world: &World) -> Result<Option<Arc<Class>>, ClassLookupError> {
    let Some(key) = cluster.class_key() else { return Ok(None) };
    if world.is_unreadable(&key) && old.is_some_and(|old| leaves_alone_what_the_class_says(cluster, old)) {
        return Ok(None);
    }
    match world.class(&key) {
        Found::Yes(class) => Ok(Some(class)),
        Found::Absent | Found::NotAsked => Ok(None),
        Found::Unreadable(reason) => Err(ClassLookupError { reason }),
    }
}

/// Defaults and validates all values within the budget of an object (DEC-44).
///
/// A Cluster that exceeded it before keeps a budget for each value, as in Cluster API, and gets a warning.
fn settle_within_budget(
    topology: &Topology,
    old: Option<&Topology>,
    variables: &CompiledVariables,
    world: &World,
    found: &mut Findings,
) -> RedactablePatch {
    let mut budget = ValueBudget::new(world.stop());
    let before = found.clone();
    let patch = settle_variables(topology, old, variables, &mut budget, found);
    let exceeded_before = |old: &Topology| {
        let (mut budget, mut scratch) = (ValueBudget::new(world.stop()), Findings::default());
        settle_variables(old, Some(old), variables, &mut budget, &mut scratch);
        budget.is_over()
    };
    if let Some(exceeded) = budget.exceeded()
        && old.is_some_and(exceeded_before)
    {
        *found = before;
        found.run("DEC-44", |found| {
            let detail = format!("it {exceeded}, as before; a new Cluster like this one is refused");
            found.warn_at(&Path::new(paths::cluster::TOPOLOGY), detail);
        });
        return settle_variables(topology, old, variables, &mut ValueBudget::per_value(world.stop()), found);
    }
    patch
}

/// Defaults and validates every list of values (CL-D-006, CL-D-007); the patch is in the order of the lists.
///
/// Transition rules compare with the list of the old object at the same path, which names the topology of a worker: a
/// list of one name belongs to a list of the same name (CL-D-008).
fn settle_variables(
    topology: &Topology,
    old: Option<&Topology>,
    variables: &CompiledVariables,
    budget: &mut ValueBudget,
    found: &mut Findings,
) -> RedactablePatch {
    let mut patch = RedactablePatch::default();
    let before: Vec<Values<'_>> = old.into_iter().flat_map(lists).collect();
    for list in lists(topology) {
        let old = before.iter().find(|old| old.path == list.path).map_or(&[][..], |old| old.values);
        let values = ValueList { values: list.values, old, path: &list.path };
        let changes = variables::settle(values, variables, list.mode, budget, found);
        found.run("CL-D-006", |_| patch.extend(operations(&list, changes)));
    }
    patch
}

/// Changes of a list as operations that keep all other values unchanged (ADM-007).
fn operations(list: &Values<'_>, changes: Vec<ValueChange>) -> Vec<RedactableOperation> {
    let (mut operations, mut added) = (Vec::new(), Vec::new());
    let entry = |name: &str, value: Value| json!({"name": name, "value": value});
    for change in changes {
        let shown = change.shown();
        match (change, shown) {
            (ValueChange::Replace { position, value, .. }, shown) => {
                let at = pointer(&format!("{}/{position}/value", list.pointer));
                operations.push((add(&at, value), shown.map(|shown| add(&at, shown.into_value()))));
            }
            (ValueChange::Append { name, value, .. }, shown) => {
                added.push((entry(&name, value), shown.map(|shown| entry(&name, shown.into_value()))));
            }
        }
    }
    if list.is_present {
        let end = pointer(&format!("{}/-", list.pointer));
        operations
            .extend(added.into_iter().map(|(done, shown)| (add(&end, done), shown.map(|shown| add(&end, shown)))));
    } else if !added.is_empty() {
        let at = pointer(&list.pointer);
        let has_secrets = added.iter().any(|(_, shown)| shown.is_some());
        let shown: Option<Vec<Value>> =
            has_secrets.then(|| added.iter().map(|(done, shown)| shown.as_ref().unwrap_or(done).clone()).collect());
        let done: Vec<Value> = added.into_iter().map(|(done, _)| done).collect();
        operations.push((add(&at, done.into()), shown.map(|shown| add(&at, shown.into()))));
    }
    operations
}
