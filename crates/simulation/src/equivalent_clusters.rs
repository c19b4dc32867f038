//! Equivalent Clusters, which differ only in their names: one is simulated, and the others get its timeline with their
//! own names.

use engine::object_names::{NameBoundary, ObjectNames};
use engine::topology::equivalent_clusters::{EquivalentClusters, grouped, ungrouped};
use engine::topology::plan::TopologySimulator;
use golang::json::RawJson;
use machines::lifecycle::{MachineSettings, STARTUP_JITTER};
use model::hub::{Cluster, ClusterClass, JsonPatch, Object, ObjectKey};
use model::world::{Found, ObjectSet};
use schema::openapi::SchemaDefinition;
use serde_json::Value;

use crate::timeline::ClusterTimeline;

/// The Clusters, equivalent ones together; `before` and `after` are the two states of the files.
///
/// Besides the conditions of plans, no delay and no failure may depend on the name of an object.
pub fn equivalent(
    keys: Vec<ObjectKey>,
    before: &TopologySimulator,
    after: Option<&TopologySimulator>,
    settings: &MachineSettings,
) -> Vec<EquivalentClusters> {
    if !settings.failures.is_empty() || has_jitter(before) || after.is_some_and(has_jitter) {
        return ungrouped(keys);
    }
    grouped(keys, before, after.unwrap_or(before))
}

/// Whether templates, or what classes and Clusters write into them, have a jitter: a part of the time in which machines
/// start that follows from their uids.
fn has_jitter(fold: &TopologySimulator) -> bool {
    let facts = fold.facts();
    let mut objects = facts.objects().into_iter().flat_map(ObjectSet::iter);
    let mut classes = facts.class_keys().filter_map(|key| match facts.class(key) {
        Found::Yes(class) => Some(class),
        _ => None,
    });
    let mut clusters = facts.cluster_keys().filter_map(|key| match facts.cluster(key) {
        Found::Yes(cluster) => Some(cluster),
        _ => None,
    });
    objects.any(|object| value_has_jitter(Object::as_ref(object)))
        || classes.any(|class| class_has_jitter(&class))
        || clusters.any(|cluster| cluster_has_jitter(&cluster))
}

fn value_has_jitter(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, member)| name == STARTUP_JITTER || value_has_jitter(member))
        }
        Value::Array(elements) => elements.iter().any(value_has_jitter),
        // Templates and patches may be texts.
        Value::String(text) => text.contains(STARTUP_JITTER),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn raw_has_jitter(value: Option<&RawJson>) -> bool {
    value.is_some_and(|value| value.get().contains(STARTUP_JITTER))
}

/// Whether patches or variables of a class write the field.
fn class_has_jitter(class: &ClusterClass) -> bool {
    let patches = class.spec.patches.iter().flat_map(|patch| &*patch.definitions);
    let mut patches = patches.flat_map(|definition| &*definition.json_patches);
    let of_patch = |JsonPatch { path, value, value_from, .. }: &JsonPatch| {
        let template = value_from.as_ref().is_some_and(|from| from.template.contains(STARTUP_JITTER));
        template || path.contains(STARTUP_JITTER) || raw_has_jitter(value.as_ref())
    };
    let mut variables = class.spec.variables.iter();
    patches.any(of_patch) || variables.any(|variable| schema_has_jitter(&variable.schema.open_api_v3_schema))
}

/// Whether values of a schema may have the field.
fn schema_has_jitter(schema: &SchemaDefinition) -> bool {
    let mut properties = schema.properties.iter().flat_map(golang::json::Members::iter);
    let mut below = schema.additional_properties.iter().chain(&schema.items).map(|one| &**one);
    raw_has_jitter(schema.default.as_ref())
        || properties.any(|(name, one)| name == STARTUP_JITTER || schema_has_jitter(one))
        || below.any(schema_has_jitter)
        || schema.r#enum.iter().any(|value| value.get().contains(STARTUP_JITTER))
}

/// Whether variables of a Cluster set the field.
fn cluster_has_jitter(cluster: &Cluster) -> bool {
    let topology = &cluster.spec.topology;
    let workers = &topology.workers;
    let overrides = [&topology.control_plane.variables]
        .into_iter()
        .chain(workers.machine_deployments.iter().map(|set| &set.variables))
        .chain(workers.machine_pools.iter().map(|set| &set.variables));
    let mut values = topology.variables.iter().chain(overrides.flat_map(|one| &*one.overrides));
    values.any(|variable| raw_has_jitter(variable.value.as_ref()))
}

/// The timeline of a Cluster as that of an equivalent one; `None` if its texts have the name of the Cluster elsewhere
/// than in names of objects.
pub fn renamed(timeline: &ClusterTimeline, from: &str, to: &str) -> Option<ClusterTimeline> {
    let begins = format!("{from}-");
    let rename = |name: &str| match name.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with('-') => format!("{to}{rest}"),
        _ => name.to_owned(),
    };
    let of_events = timeline.events.iter().map(|entry| &*entry.name);
    let names = of_events
        .chain(timeline.holds.iter().map(|held| &*held.name))
        .chain(timeline.machines.keys().map(|name| &**name));
    let names = names.filter(|name| name.starts_with(&begins)).map(|name| (name.to_owned(), rename(name)));
    let names = ObjectNames::new(NameBoundary::Anywhere, names);
    let replaced = |text: &str| (!names.remove(text).contains(from)).then(|| names.replace(text));
    let mut renamed = timeline.clone();
    for entry in &mut renamed.events {
        (entry.name, entry.because) = (rename(&entry.name), replaced(&entry.because)?);
    }
    for held in &mut renamed.holds {
        (held.name, held.reason) = (rename(&held.name), replaced(&held.reason)?);
    }
    renamed.machines = renamed.machines.into_iter().map(|(name, machine)| (rename(&name), machine)).collect();
    Some(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{HeldSpan, MachineSpan, TimelineChange, TimelineEvent};

    fn timeline(reason: &str) -> ClusterTimeline {
        let entry = TimelineEvent {
            t: 0,
            kind: "Machine".into(),
            name: "blue-md-1".into(),
            change: TimelineChange::Created,
            because: String::new(),
        };
        let held = HeldSpan {
            kind: "MachineDeployment".into(),
            name: "blue-md".into(),
            reason: reason.into(),
            from: 0,
            until: None,
        };
        let machines = [("blue-md-1".to_owned(), MachineSpan::default()), ("other".to_owned(), MachineSpan::default())];
        ClusterTimeline {
            events: vec![entry],
            holds: vec![held],
            machines: machines.into(),
            ..ClusterTimeline::default()
        }
    }

    #[test]
    fn an_equivalent_cluster_has_its_own_name_in_all_places() {
        let copy = renamed(&timeline("waits for blue-md-1 of the bluest"), "blue", "green");
        assert_eq!(copy, None, "blue is a part of another word");
        let copy = renamed(&timeline("waits for blue-md-1, blue-md"), "blue", "green").unwrap();
        assert_eq!((&*copy.events[0].name, &*copy.holds[0].name), ("green-md-1", "green-md"));
        assert_eq!(copy.holds[0].reason, "waits for green-md-1, green-md");
        assert_eq!(copy.machines.keys().collect::<Vec<_>>(), ["green-md-1", "other"]);
    }
}
