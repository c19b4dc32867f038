//! A simulation for programs; docs/simulate.md describes the fields.

use serde_json::{Value, json};

use super::report::{SimulationReport, TimelineGroup};
use model::hub::ObjectKey;
use simulation::timeline::{ClusterTimeline, HeldSpan, MachineSpan, TimelineEvent};

/// The report as JSON.
pub(super) fn value(report: &SimulationReport<'_>) -> Value {
    let of_groups = report.groups.iter().flat_map(|group| group.clusters.iter().map(move |key| (*key, group)));
    let groups_of: std::collections::BTreeMap<&ObjectKey, &TimelineGroup<'_>> = of_groups.collect();
    let clusters = report.timeline.clusters.iter().filter_map(|(key, timeline)| {
        let group = groups_of.get(key)?;
        Some(cluster(key, timeline, group))
    });
    json!({
        "clusters": clusters.collect::<Vec<_>>(),
        "groups": report.groups.iter().map(group).collect::<Vec<_>>(),
        "summary": {
            "clusters": report.timeline.clusters.len(),
            "stuck": report.stuck,
            "durationSeconds": report.seconds,
            "peakMachines": report.timeline.peak_machines,
        },
    })
}

fn outcome(group: &TimelineGroup<'_>) -> &'static str {
    if group.reason.is_none() { "converged" } else { "stuck" }
}

fn group(group: &TimelineGroup<'_>) -> Value {
    json!({
        "clusters": group.clusters.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "outcome": outcome(group),
        "reason": group.reason.map(ToString::to_string),
        "wayOut": group.way_out,
        "durationSeconds": group.timeline.last,
        "peakMachines": group.timeline.peak_machines,
    })
}

fn cluster(key: &ObjectKey, timeline: &ClusterTimeline, group: &TimelineGroup<'_>) -> Value {
    json!({
        "namespace": key.namespace,
        "name": key.name,
        "outcome": outcome(group),
        "reason": group.reasons.get(key).map(ToString::to_string),
        "wayOut": group.way_out,
        "durationSeconds": timeline.last,
        "peakMachines": timeline.peak_machines,
        "held": timeline.holds.iter().map(held).collect::<Vec<_>>(),
        "machines": timeline.machines.iter().map(machine).collect::<Vec<_>>(),
        "events": timeline.events.iter().map(event).collect::<Vec<_>>(),
    })
}

fn held(span: &HeldSpan) -> Value {
    json!({"kind": span.kind, "name": span.name, "reason": span.reason, "from": span.from, "until": span.until})
}

fn machine((name, machine): (&String, &MachineSpan)) -> Value {
    json!({
        "name": name,
        "owner": machine.owner,
        "controlPlane": machine.is_control_plane,
        "version": machine.version,
        "made": machine.made,
        "running": machine.running,
        "gone": machine.gone,
    })
}

fn event(TimelineEvent { t, kind, name, change, because }: &TimelineEvent) -> Value {
    json!({"t": t, "kind": kind, "name": name, "what": change.to_string(), "because": because})
}
