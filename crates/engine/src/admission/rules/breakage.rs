//! Clusters that a change of their class breaks (DEC-1).
//!
//! Values are defaulted and validated by the new definitions of the class, as at the next change of the Cluster,
//! without transition rules. Errors that the old class reports as well do not count. Messages contain Clusters, paths
//! and rules, but no values.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::class_change::ClassChange;
use super::shared;
use crate::admission::Dependents;
use crate::admission::lists::lists;
use model::hub::{Cluster, ClusterClass, ExternalPatch, ObjectKey, Patch, StatusVariable, annotation, paths};
use model::variables::{self, CompiledVariables, ValueBudget, ValueList};
use model::world::World;
use schema::budget::Stop;
use schema::field::{ErrorKind, ErrorValue, FieldError, Findings, Path, a_few};

/// Maximum number of Clusters in a message about a removed variable.
const NAMED_CLUSTERS: usize = 5;

/// Maximum number of separate warnings about breaking changes.
const WARNINGS: usize = 10;

/// Maximum number of separate errors about breaking changes: a message does not show more, and a fleet can have
/// thousands.
const ERRORS: usize = 100;

/// The Clusters of a class still fit when it changes (DEC-1).
pub(super) fn clusters_still_fit(
    change: &ClassChange<'_>,
    old: &ClusterClass,
    clusters: &[Arc<Cluster>],
    found: &mut Findings,
) {
    let dependents = change.settings.dependents;
    if dependents == Dependents::Off || clusters.is_empty() || change.new.spec == old.spec {
        return;
    }
    let Some(change_of_variables) = ChangeOfVariables::new(change, old) else { return };
    let breakages = change_of_variables.breakages(clusters);
    let may_break = change.new.metadata.annotations.contains_key(annotation::ALLOW_BREAKING_CLUSTERS);
    if dependents == Dependents::Warn || may_break {
        breakages.warn(found);
    } else {
        breakages.deny(found);
    }
}

/// The Clusters that are valid for the variables `before` but not for those `after`, each with its first error, without
/// values.
pub fn clusters_that_break(
    before: &[StatusVariable],
    after: &[StatusVariable],
    clusters: &[Arc<Cluster>],
    world: &World,
) -> Vec<(ObjectKey, String)> {
    let Some(change) = ChangeOfVariables::between(before.to_vec(), after, world) else { return Vec::new() };
    let fault = |cluster: &Cluster| {
        let removed = change.removed_and_set([cluster].into_iter()).into_keys().next();
        match (removed, change.errors(cluster).into_iter().next()) {
            (Some(name), _) => Some(format!("variable {name:?} is no longer defined")),
            (None, Some(error)) => Some(format!("{}: {}", error.path, error.detail)),
            (None, None) => None,
        }
    };
    let living = clusters.iter().filter(|cluster| !cluster.metadata.is_being_deleted());
    let until = living.take_while(|_| !world.stop().is_due());
    until.filter_map(|cluster| Some((cluster.metadata.key(), fault(cluster)?))).collect()
}

/// The breaking changes.
#[derive(Default)]
struct Breakages {
    /// The first errors.
    shown: Vec<FieldError>,
    count: usize,
}

impl Breakages {
    fn push(&mut self, error: impl FnOnce() -> FieldError) {
        self.count += 1;
        if self.shown.len() < ERRORS {
            self.shown.push(error());
        }
    }

    fn deny(mut self, found: &mut Findings) {
        let more = self.count - self.shown.len();
        if let Some(last) = self.shown.last_mut() {
            if more > 0 {
                last.detail.push_str(&format!("; and {more} more that no longer fit the ClusterClass"));
            }
            let way_out = annotation::ALLOW_BREAKING_CLUSTERS;
            last.detail.push_str(&format!("; the annotation {way_out} on the ClusterClass turns this into a warning"));
        }
        for FieldError { kind, path, value, detail, .. } in self.shown {
            found.error(kind, path, value, detail);
        }
    }

    fn warn(self, found: &mut Findings) {
        for error in self.shown.iter().take(WARNINGS) {
            found.warn_at(&error.path, &error.detail);
        }
        if let Some(more) = self.count.checked_sub(WARNINGS).filter(|more| *more > 0) {
            found.warn(format!("and {more} more that no longer fit the ClusterClass"));
        }
    }
}

/// The variables whose definitions differ before and after a change of a class.
struct ChangeOfVariables<'a> {
    world: &'a World,
    before: Vec<StatusVariable>,
    old: OnceCell<CompiledVariables>,
    new: CompiledVariables,
    /// Names of removed variables.
    removed: BTreeSet<String>,
}

impl<'a> ChangeOfVariables<'a> {
    /// `None` when variables do not change, or their old values are unknown.
    fn new(change: &ClassChange<'a>, old: &ClusterClass) -> Option<Self> {
        let before = variables::current(old)?.into_owned();
        let expected = variables::expected_status(&change.new.spec, &old.status.variables);
        // A patch whose variables are not discovered yet may define any variable.
        let known = |(patch, extension): (&Patch, &ExternalPatch)| {
            old.spec
                .discovering_patches()
                .any(|(former, former_extension)| former.name == patch.name && former_extension == extension)
        };
        let mut between = Self::between(before, &expected, change.world)?;
        if !change.new.spec.discovering_patches().all(known) {
            between.removed.clear();
        }
        Some(between)
    }

    /// `None` when variables do not change.
    fn between(before: Vec<StatusVariable>, after: &[StatusVariable], world: &'a World) -> Option<Self> {
        let (defined, redefined) = (by_name(&before), by_name(after));
        let differs = |name: &str| defined.get(name) != redefined.get(name);
        if !defined.keys().chain(redefined.keys()).any(|name| differs(name)) {
            return None;
        }
        let removed = defined.keys().filter(|name| !redefined.contains_key(*name));
        let removed = removed.map(|name| (*name).to_owned()).collect();
        // An unchanged definition reports the same errors as before. Definitions that exceed the budget of a class are
        // rejected separately (DEC-44), and validate no value.
        let new = world.variables(after).map(|new| new.only(differs)).unwrap_or_default();
        Some(ChangeOfVariables { world, before, old: OnceCell::new(), new, removed })
    }

    /// Everything that the old class accepts and the new one rejects: removed variables, then Cluster by Cluster.
    fn breakages(&self, clusters: &[Arc<Cluster>]) -> Breakages {
        let mut breakages = Breakages::default();
        let clusters = || clusters.iter().filter(|cluster| !cluster.metadata.is_being_deleted());
        for (name, clusters) in self.removed_and_set(clusters().map(|cluster| &**cluster)) {
            breakages.push(|| removed(name, &clusters));
        }
        for cluster in clusters() {
            let stop = self.world.stop();
            if stop.is_due() {
                break;
            }
            self.errors(cluster).into_iter().for_each(|error| breakages.push(|| with_cluster(error, cluster)));
        }
        breakages
    }

    /// New errors in the values of a Cluster.
    fn errors(&self, cluster: &Cluster) -> Vec<FieldError> {
        let stop = self.world.stop();
        let mut errors = judge(cluster, &self.new, stop);
        if !errors.is_empty() {
            let excused: BTreeSet<String> = judge(cluster, self.old(), stop).iter().map(identity).collect();
            errors.retain(|error| !excused.contains(&identity(error)));
        }
        errors
    }

    fn old(&self) -> &CompiledVariables {
        let is_judged = |name: &str| self.new.get(name).is_some();
        let compiled = || self.world.variables(&self.before).map(|before| before.only(is_judged));
        // A class that exceeded its budget validated nothing, and may become smaller.
        self.old.get_or_init(|| compiled().unwrap_or_default())
    }

    /// Removed variables that are set, with the Clusters that set them.
    fn removed_and_set<'b>(&self, clusters: impl Iterator<Item = &'b Cluster>) -> BTreeMap<&str, Vec<String>> {
        let mut still_set = BTreeMap::<&str, Vec<String>>::new();
        if self.removed.is_empty() {
            return still_set;
        }
        for cluster in clusters {
            let set: BTreeSet<&str> = lists(&cluster.spec.topology)
                .flat_map(|list| list.values)
                .filter_map(|value| self.removed.get(&value.name))
                .map(|name| &**name)
                .collect();
            for name in set {
                still_set.entry(name).or_default().push(cluster.metadata.key().to_string());
            }
        }
        still_set
    }
}

fn by_name(status: &[StatusVariable]) -> BTreeMap<&str, &StatusVariable> {
    status.iter().map(|variable| (&*variable.name, variable)).collect()
}

/// Errors in the values of a Cluster with one of these definitions, after defaults. Values of removed variables are
/// reported by [`removed`].
fn judge(cluster: &Cluster, variables: &CompiledVariables, stop: &Stop) -> Vec<FieldError> {
    let (mut found, mut budget) = (Findings::default(), ValueBudget::new(stop));
    for list in lists(&cluster.spec.topology) {
        // Transition rules are not evaluated: no value changes.
        let values = ValueList { values: list.values, old: &[], path: &list.path };
        variables::settle(values, variables, list.mode, &mut budget, &mut found);
    }
    found.into_parts().0
}

/// The identity of an error. Errors of a list or a variable may share their path, and differ in their text.
fn identity(error: &FieldError) -> String {
    let detail = match error.rule {
        "VAR-V-002" | "VAR-V-003" | "VAR-V-030" => variables::without_hint(&error.detail),
        rule if rule.starts_with("CEL-") => &*error.detail,
        _ => "",
    };
    // Preceding values determine which value exceeds the common budget.
    let path = if error.rule == "DEC-44" { "" } else { error.path.as_str() };
    format!("{} {path} {detail}", error.rule)
}

fn removed(name: &str, clusters: &[String]) -> FieldError {
    let detail =
        format!("variable {name:?} cannot be removed because Clusters set it: {}", a_few(clusters, NAMED_CLUSTERS));
    FieldError {
        rule: "DEC-1",
        kind: ErrorKind::Forbidden,
        path: Path::new(paths::cluster_class::VARIABLES),
        value: ErrorValue::NOTHING,
        detail,
    }
}

/// The error in the form for the author of the class.
fn with_cluster(error: FieldError, cluster: &Cluster) -> FieldError {
    let detail = format!("{}{}", error.detail, shared::whose(cluster));
    FieldError { value: "(not shown)".into(), detail, ..error }
}
