//! Values of variables that the class deprecates (VAR-V-040).

use std::collections::HashMap;

use super::topology_change::TopologyChange;
use crate::admission::lists::{Values, lists};
use crate::admission::{Deprecated, ListedRule};
use golang::json;
use model::hub::{Cluster, Kind, Topology, VariableValue};
use model::variables::CompiledVariables;
use model::world::Class;
use schema::field::{Findings, Path, RuleId};
use schema::openapi::{DeprecatedPart, Schema, ValidationEffort};

const RULE: RuleId = "VAR-V-040";

/// Maximum number of warnings in a review; the others are counted.
const MOST_WARNINGS: usize = 20;

/// The rules of this file.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [ListedRule { id: RULE, name: "deprecated_parts_are_not_set", kind: Some(Kind::Cluster) }].into_iter()
}

/// Validates that deprecated variables are not set; skipped for a class without deprecations.
pub(super) fn validate(change: &TopologyChange<'_>, class: &Class, found: &mut Findings) {
    if !class.deprecates() {
        return;
    }
    if let Some(variables) = class.variables() {
        found.run(RULE, |found| deprecated_parts_are_not_set(change, &variables, found));
    }
}

/// A Cluster sets no deprecated variable and no deprecated part of one (VAR-V-040).
///
/// Values are checked after defaulting, as they are stored, so a part that equals its default counts as not set. If new
/// uses are denied, each use of the old Cluster permits one at the same path.
fn deprecated_parts_are_not_set(change: &TopologyChange<'_>, variables: &CompiledVariables, found: &mut Findings) {
    let effort = ValidationEffort::for_object(change.world.stop());
    let is_denied = change.settings.deprecated == Deprecated::Deny;
    let old = change.old.and_then(Cluster::topology).filter(|_| is_denied);
    let mut permitted = old.map(|old| uses(old, variables, change)).unwrap_or_default();
    let mut warned = 0;
    each_use(change.topology, variables, &effort, &mut |value, part| {
        if is_denied && !take_one(&mut permitted, part.identity) {
            // Errors beyond the limit are only counted, and need no path.
            let path = if found.is_full() { Path::ROOT } else { path(value, &part) };
            found.forbidden(path, message(&part));
            return;
        }
        warned += 1;
        if warned <= MOST_WARNINGS {
            found.warn_at(&path(value, &part), message(&part));
        }
    });
    if let more @ 1.. = warned.saturating_sub(MOST_WARNINGS) {
        found.warn(format!("and {more} more deprecated values"));
    }
}

/// The number of deprecated parts that a topology sets at each path.
fn uses(topology: &Topology, variables: &CompiledVariables, change: &TopologyChange<'_>) -> HashMap<u64, usize> {
    let mut uses = HashMap::new();
    // The effort for the old object is unlimited, because its values are allowed.
    let effort = ValidationEffort::unlimited(change.world.stop());
    each_use(topology, variables, &effort, &mut |_, part| *uses.entry(part.identity).or_default() += 1);
    uses
}

fn take_one(uses: &mut HashMap<u64, usize>, identity: u64) -> bool {
    let left = uses.get_mut(&identity).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

/// A value with its list.
struct VariableUse<'a> {
    list: &'a Values<'a>,
    value: &'a VariableValue,
}

/// Every deprecated part of all lists, in the order of the lists.
fn each_use(
    topology: &Topology,
    variables: &CompiledVariables,
    effort: &ValidationEffort,
    report: &mut dyn FnMut(&VariableUse<'_>, DeprecatedPart<'_>),
) {
    for list in lists(topology) {
        for value in list.values {
            let Some(schema) = deprecating(&value.name, variables) else { continue };
            // Unreadable values are reported elsewhere (VAR-V-010).
            let Some(Ok(mut read)) = value.value.as_ref().map(|raw| json::value(raw.get())) else { continue };
            json::with_go_numbers(&mut read);
            let place = VariableUse { list: &list, value };
            let name = format!("{}[{}]", list.path, value.name);
            schema.deprecated_parts(&name, &read, effort, &mut |part| report(&place, part));
        }
    }
}

/// The schema of a variable, if it deprecates something.
fn deprecating<'a>(name: &str, variables: &'a CompiledVariables) -> Option<&'a Schema> {
    variables.get(name)?.schema.as_ref().ok().filter(|schema| schema.has_deprecated())
}

fn path(place: &VariableUse<'_>, part: &DeprecatedPart<'_>) -> Path {
    place.list.path.key(&place.value.name).child("value").place(&part.place())
}

fn message(part: &DeprecatedPart<'_>) -> String {
    match part.text {
        "" => "deprecated".to_owned(),
        text => format!("deprecated: {text}"),
    }
}
