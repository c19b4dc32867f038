//! Whether the Clusters of a class still fit when it changes (DEC-1).
//!
//! Values are completed and judged by the definitions that the class will have, as at the Cluster's own next change,
//! without transition rules. Only what the old class did not find wrong counts. What Clusters set is theirs: messages
//! name Clusters, paths and rules, and no values.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::class::Change;
use super::shared;
use crate::admission::Dependents;
use crate::admission::defaults::cluster::lists;
use crate::field::{ErrorKind, FieldError, Findings, Path, Shown};
use crate::hub::{Cluster, ClusterClass, ExternalPatch, Patch, StatusVariable, VariableValue, annotation};
use crate::variables::{self, Variables};
use crate::world::World;

/// How many Clusters a message about a removed variable names.
const NAMED_CLUSTERS: usize = 5;

/// How many breaking changes are warned about one by one.
const WARNINGS: usize = 10;

/// The Clusters of a class still fit when it changes (DEC-1).
pub(super) fn clusters_still_fit(
    change: &Change<'_>,
    old: &ClusterClass,
    clusters: &[Arc<Cluster>],
    found: &mut Findings,
) {
    let dependents = change.settings.dependents;
    if dependents == Dependents::Off || change.new.spec == old.spec {
        return;
    }
    let Some(change_of_variables) = ChangeOfVariables::of(change, old) else { return };
    let mut breakages = change_of_variables.breakages(clusters);
    let may_break = change.new.metadata.annotations.contains_key(annotation::ALLOW_BREAKING_CLUSTERS);
    if dependents == Dependents::Warn || may_break {
        warn(&breakages, found);
        return;
    }
    if let Some(last) = breakages.last_mut() {
        let way_out = annotation::ALLOW_BREAKING_CLUSTERS;
        last.detail.push_str(&format!("; the annotation {way_out} on the ClusterClass turns this into a warning"));
    }
    for FieldError { kind, path, value, detail, .. } in breakages {
        found.error(kind, path, value, detail);
    }
}

fn warn(breakages: &[FieldError], found: &mut Findings) {
    for error in breakages.iter().take(WARNINGS) {
        found.warn(format!("{}: {}", error.path, error.detail));
    }
    if let Some(more) = breakages.len().checked_sub(WARNINGS).filter(|more| *more > 0) {
        found.warn(format!("and {more} more that no longer fit the ClusterClass"));
    }
}

/// The variables of a class before and after a change of its spec.
struct ChangeOfVariables<'a> {
    world: &'a World,
    before: Vec<StatusVariable>,
    old: OnceCell<Arc<Variables>>,
    new: Arc<Variables>,
    /// Names that had a definition and lose it.
    removed: BTreeSet<String>,
}

impl<'a> ChangeOfVariables<'a> {
    /// `None` when variables stay what they are, or nobody knows what they were.
    fn of(change: &Change<'a>, old: &ClusterClass) -> Option<Self> {
        let before = variables::current(old)?.into_owned();
        let expected = variables::expected_status(&change.new.spec, &old.status.variables);
        if same_definitions(&before, &expected) {
            return None;
        }
        // What a patch discovers that has not been asked yet may define anything.
        let known = |(patch, extension): (&Patch, &ExternalPatch)| {
            old.spec.discovering_patches().any(|(other, asked)| other.name == patch.name && asked == extension)
        };
        let removed = match change.new.spec.discovering_patches().all(known) {
            true => {
                before.iter().map(|variable| variable.name.clone()).filter(|name| !defines(&expected, name)).collect()
            }
            false => BTreeSet::new(),
        };
        let new = change.world.variables(&expected);
        Some(ChangeOfVariables { world: change.world, before, old: OnceCell::new(), new, removed })
    }

    /// Everything that the old class accepts and the new one refuses: removed variables, then Cluster by Cluster.
    fn breakages(&self, clusters: &[Arc<Cluster>]) -> Vec<FieldError> {
        let (mut still_set, mut others) = (BTreeMap::<&str, Vec<String>>::new(), Vec::new());
        for cluster in clusters.iter().filter(|cluster| !cluster.metadata.is_being_deleted()) {
            for name in self.removed_and_set(cluster) {
                still_set.entry(name).or_default().push(cluster.metadata.key().to_string());
            }
            let errors = judge(cluster, &self.new);
            if !errors.is_empty() {
                let old = self.old.get_or_init(|| self.world.variables(&self.before));
                let excused: BTreeSet<String> = judge(cluster, old).iter().map(identity).collect();
                let breakages = errors.into_iter().filter(|error| !excused.contains(&identity(error)));
                others.extend(breakages.map(|error| of_cluster(error, cluster)));
            }
        }
        still_set.iter().map(|(name, clusters)| removed(name, clusters)).chain(others).collect()
    }

    fn removed_and_set<'b>(&'b self, cluster: &'b Cluster) -> BTreeSet<&'b str> {
        if self.removed.is_empty() {
            return BTreeSet::new();
        }
        let values = lists(&cluster.spec.topology).flat_map(|list| list.values);
        values.map(|value| &*value.name).filter(|name| self.removed.contains(*name)).collect()
    }
}

/// Whether two lists define the same, in whatever order.
fn same_definitions(before: &[StatusVariable], after: &[StatusVariable]) -> bool {
    before.len() == after.len() && before.iter().all(|variable| after.contains(variable))
}

fn defines(status: &[StatusVariable], name: &str) -> bool {
    status.iter().any(|variable| variable.name == name)
}

/// What is wrong with the values of a Cluster that have a definition, after their defaults.
fn judge(cluster: &Cluster, variables: &Variables) -> Vec<FieldError> {
    let mut found = Findings::default();
    let is_defined =
        |value: &&VariableValue| variables.get(&value.name).is_some() || variables.unsettled().contains(&value.name);
    for list in lists(&cluster.spec.topology) {
        // An undefined value would keep defaults from the whole list (VAR-D-004), and has been spoken of.
        let defined: Cow<'_, [VariableValue]> = match list.values.iter().all(|value| is_defined(&value)) {
            true => Cow::Borrowed(list.values),
            false => Cow::Owned(list.values.iter().filter(is_defined).cloned().collect()),
        };
        // Transition rules are not run: nothing changes a value here.
        variables::settle(&defined, &[], &list.path, variables, list.mode, &mut found);
    }
    found.into_parts().0
}

/// What makes two errors the same complaint. Several complaints share the path of a list or of a variable; their text tells
/// them apart.
fn identity(error: &FieldError) -> String {
    let detail = match error.rule {
        "VAR-V-002" | "VAR-V-003" | "VAR-V-030" => &*error.detail,
        rule if rule.starts_with("CEL-") => &*error.detail,
        _ => "",
    };
    format!("{} {} {detail}", error.rule, error.path)
}

fn removed(name: &str, clusters: &[String]) -> FieldError {
    let detail = format!(
        "variable {name:?} cannot be removed because Clusters set it: {}",
        shared::a_few(clusters, NAMED_CLUSTERS)
    );
    FieldError {
        rule: "DEC-1",
        kind: ErrorKind::Forbidden,
        path: Path::of("spec.variables"),
        value: Shown::NOTHING,
        detail,
    }
}

/// The error as the author of the class gets to see it.
fn of_cluster(error: FieldError, cluster: &Cluster) -> FieldError {
    let detail = format!("{}{}", error.detail, shared::whose(cluster));
    FieldError { value: "(not shown)".into(), detail, ..error }
}
