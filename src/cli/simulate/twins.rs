//! Clusters that differ in nothing but their names: one of them is simulated, and the others have its timeline with their own name.

use std::collections::BTreeSet;

use crate::cli::rollout::Side;
use crate::cli::twins::{self, Twins};
use engine::topology::plan::Fold;
use machines::lifecycle::MachineSettings;
use model::hub::{Object, ObjectKey};
use model::world::{Found, ObjectSet};
use simulation::timeline::ClusterTimeline;

/// A part of the time in which machines start that follows from their uids.
const JITTER: &str = "startupJitter";

/// The Clusters, twins together.
///
/// Besides the conditions of plans, no delay and no failure may follow from what an object is called.
pub(super) fn of(keys: Vec<ObjectKey>, before: &Side, after: Option<&Side>, settings: &MachineSettings) -> Vec<Twins> {
    if !settings.failures.is_empty() {
        return twins::apart(keys);
    }
    let before = fold(before);
    let after = after.map(fold);
    if has_jitter(&before) || after.as_ref().is_some_and(has_jitter) {
        return twins::apart(keys);
    }
    twins::of(keys, &before, after.as_ref().unwrap_or(&before))
}

fn fold(side: &Side) -> Fold {
    side.fold(&side.facts(&side.subjects()))
}

/// Whether templates, or what classes and Clusters write into them, have a jitter.
fn has_jitter(fold: &Fold) -> bool {
    let facts = fold.facts();
    let has = |text: String| text.contains(JITTER);
    let classes =
        facts.class_keys().filter_map(|key| if let Found::Yes(class) = facts.class(key) { Some(class) } else { None });
    let mut objects = facts.objects().into_iter().flat_map(ObjectSet::iter);
    objects.any(|object| has(Object::as_ref(object).to_string()))
        || classes.into_iter().any(|class| has(format!("{:?}", class.spec)))
}

/// The timeline of a Cluster as that of a twin; `None` if it says the name of the Cluster in other places than names of objects.
pub(super) fn renamed(timeline: &ClusterTimeline, from: &str, to: &str) -> Option<ClusterTimeline> {
    let begins = format!("{from}-");
    let rename = |name: &str| match name.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with('-') => format!("{to}{rest}"),
        _ => name.to_owned(),
    };
    let of_events = timeline.events.iter().map(|entry| &*entry.name);
    let names = of_events
        .chain(timeline.held.iter().map(|held| &*held.name))
        .chain(timeline.machines.keys().map(|name| &**name));
    // Longer names first: one may be the beginning of another.
    let mut names: Vec<&str> =
        names.filter(|name| name.starts_with(&begins)).collect::<BTreeSet<_>>().into_iter().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let retell = |text: &str| {
        let mut rest = text.to_owned();
        let mut told = text.to_owned();
        for name in names.iter().filter(|name| text.contains(**name)) {
            told = told.replace(name, &rename(name));
            rest = rest.replace(name, "");
        }
        (!rest.contains(from)).then_some(told)
    };
    let mut twin = timeline.clone();
    for entry in &mut twin.events {
        (entry.name, entry.because) = (rename(&entry.name), retell(&entry.because)?);
    }
    for held in &mut twin.held {
        (held.name, held.reason) = (rename(&held.name), retell(&held.reason)?);
    }
    twin.machines = twin.machines.into_iter().map(|(name, machine)| (rename(&name), machine)).collect();
    Some(twin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::timeline::{HeldSpan, MachineSpan, TimelineEvent};

    fn timeline(reason: &str) -> ClusterTimeline {
        let entry = TimelineEvent {
            t: 0,
            kind: "Machine".into(),
            name: "blue-md-1".into(),
            what: "created".into(),
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
            held: vec![held],
            machines: machines.into(),
            ..ClusterTimeline::default()
        }
    }

    #[test]
    fn a_twin_has_its_own_name_in_all_places() {
        let twin = renamed(&timeline("waits for blue-md-1 of the bluest"), "blue", "green");
        assert_eq!(twin, None, "blue is a part of another word");
        let twin = renamed(&timeline("waits for blue-md-1, blue-md"), "blue", "green").unwrap();
        assert_eq!((&*twin.events[0].name, &*twin.held[0].name), ("green-md-1", "green-md"));
        assert_eq!(twin.held[0].reason, "waits for green-md-1, green-md");
        assert_eq!(twin.machines.keys().collect::<Vec<_>>(), ["green-md-1", "other"]);
    }
}
