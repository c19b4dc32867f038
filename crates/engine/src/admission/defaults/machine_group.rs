//! Defaults of MachineDeployments and MachineSets (MA-28.2, MA-28.3).

use serde_json::Value;

use super::edits::PatchBuilder;
use super::machine::{label_names_the_cluster, version_starts_with_v};
use crate::admission::{AdmissionOutcome, AdmissionSettings, ListedRule, Verdict};
use model::hub::machine_defaults::{DEFAULT_REPLICAS, MAX_SURGE, MAX_UNAVAILABLE, ROLLING_UPDATE, replicas_within};
use model::hub::naming::{decimal_integer, to_label_value};
use model::hub::{Kind, MachineGroup, RollingUpdate, annotation, label, paths};
use schema::field::{Findings, Path, RuleId};

const REPLICAS: RuleId = "MA-28.3.1";
const STRATEGY: RuleId = "MA-28.2.3";
const SELECTOR: RuleId = "MA-28.2.1";
const CLUSTER: RuleId = "MA-28.2.2";

/// The defaults of this file in the order in which they are set.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let deployment = Some(Kind::MachineDeployment);
    [
        ListedRule { id: REPLICAS, name: "replicas_are_set", kind: None },
        ListedRule { id: STRATEGY, name: "strategy_is_complete", kind: deployment },
        ListedRule { id: SELECTOR, name: "empty_selector_selects_its_own", kind: None },
        ListedRule { id: CLUSTER, name: "deployment_selects_within_its_cluster", kind: deployment },
    ]
    .into_iter()
}

/// The mutating end point for MachineDeployments and MachineSets on create and update.
pub(in crate::admission) fn default(
    kind: Kind,
    group: &MachineGroup,
    old: Option<&MachineGroup>,
    raw: Value,
    settings: &AdmissionSettings,
) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let mut edits = PatchBuilder::new(raw);
    label_names_the_cluster(&group.metadata, &group.spec.cluster_name, &mut edits, &mut found);
    found.run(REPLICAS, |found| replicas_are_set(group, old, &mut edits, found));
    if kind == Kind::MachineDeployment {
        found.run(STRATEGY, |_| strategy_is_complete(group, &mut edits));
    }
    found.run(SELECTOR, |_| empty_selector_selects_its_own(kind, group, &mut edits));
    if kind == Kind::MachineDeployment {
        found.run(CLUSTER, |_| deployment_selects_within_its_cluster(group, &mut edits));
    }
    let version = &group.spec.template.spec.version;
    version_starts_with_v(version, &["spec", "template", "spec", "version"], &mut edits, &mut found);
    let (errors, warnings) = found.into_parts();
    match errors.is_empty() {
        true => Verdict { warnings, patch: edits.into_patch(), ..Verdict::plain(kind, "", AdmissionOutcome::Allowed) },
        false => Verdict { warnings, ..Verdict::plain(kind, "", AdmissionOutcome::Invalid(errors)) },
    }
}

/// The default number of machines is one. With the bounds of an autoscaler, it is the lower bound for a new object, and
/// the previous number within the bounds for an update.
fn replicas_are_set(group: &MachineGroup, old: Option<&MachineGroup>, edits: &mut PatchBuilder, found: &mut Findings) {
    if group.spec.replicas.is_some() {
        return;
    }
    let bounds = [annotation::AUTOSCALER_MIN_SIZE, annotation::AUTOSCALER_MAX_SIZE];
    let bounds = bounds.map(|name| group.metadata.annotations.get(name).map(|text| (name, text)));
    let [Some(least), Some(most)] = bounds else { return edits.set(&["spec", "replicas"], DEFAULT_REPLICAS) };
    let [least, most] = [least, most].map(|(name, text)| {
        let number = decimal_integer(text).and_then(|number| i32::try_from(number).ok());
        if number.is_none() {
            let path = Path::new(paths::metadata::ANNOTATIONS).key(name);
            found.invalid(path, text, "must be a number of machines, from which replicas are derived");
        }
        number
    });
    let (Some(least), Some(most)) = (least, most) else { return };
    let had = old.and_then(|old| old.spec.replicas);
    edits.set(&["spec", "replicas"], replicas_within(had, least, most));
}

/// By default, a deployment replaces its machines one by one, and creates the new one first.
fn strategy_is_complete(group: &MachineGroup, edits: &mut PatchBuilder) {
    let strategy = &group.spec.rollout.strategy;
    if strategy.r#type.is_empty() {
        edits.set(&["spec", "rollout", "strategy", "type"], ROLLING_UPDATE);
    }
    if strategy.r#type.is_empty() || strategy.r#type == ROLLING_UPDATE {
        let RollingUpdate { max_surge, max_unavailable } = &strategy.rolling_update;
        let bounds = ["spec", "rollout", "strategy", "rollingUpdate"];
        for (name, value, default) in
            [("maxSurge", max_surge, MAX_SURGE), ("maxUnavailable", max_unavailable, MAX_UNAVAILABLE)]
        {
            if value.is_none() {
                edits.set(&[&bounds[..], &[name]].concat(), default);
            }
        }
    }
}

/// A group without a selector selects the machines with its name as a label. A group with a generated name cannot,
/// since the name is not known yet.
fn empty_selector_selects_its_own(kind: Kind, group: &MachineGroup, edits: &mut PatchBuilder) {
    let name = &group.metadata.name;
    if name.is_empty() || !group.spec.selector.is_empty() {
        return;
    }
    let key = if kind == Kind::MachineSet { label::SET_NAME } else { label::MACHINE_DEPLOYMENT_NAME };
    select(key, &to_label_value(name), edits);
}

/// A deployment selects machines of its Cluster.
fn deployment_selects_within_its_cluster(group: &MachineGroup, edits: &mut PatchBuilder) {
    let cluster = &group.spec.cluster_name;
    let is_selected = group.spec.selector.match_labels.get(label::CLUSTER_NAME) == Some(cluster);
    let is_made = group.spec.template.metadata.labels.get(label::CLUSTER_NAME) == Some(cluster);
    if cluster.is_empty() || is_selected && is_made {
        return;
    }
    select(label::CLUSTER_NAME, cluster, edits);
}

/// Adds a label to the machine template and the selector.
fn select(key: &str, value: &str, edits: &mut PatchBuilder) {
    edits.set(&["spec", "selector", "matchLabels", key], value);
    edits.set(&["spec", "template", "metadata", "labels", key], value);
}
