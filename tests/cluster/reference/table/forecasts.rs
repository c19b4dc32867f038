//! What `plan --live`, the warning of `kubectl apply` and `simulate --live` say before an edit, in the terms of what
//! then happens.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::super::history::Life;
use super::super::site::{Machines, Site};
use crate::harness::kubectl::Outcome;
use crate::harness::server::command;

/// The control plane among the parts of a Cluster; the others are worker sets.
const CONTROL_PLANE: &str = "control plane";

/// Machines of one part of a Cluster that come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) replaced: u64,
    pub(super) added: u64,
    pub(super) removed: u64,
}

/// Changes by part; parts without a change are left out.
pub(super) type Changes = BTreeMap<String, Change>;

/// Which of the Machines that were there went, and in which order.
#[derive(Default)]
pub(super) struct Deletions(Vec<Deletion>);

struct Deletion {
    name: String,
    part: String,
    /// The moment in some order; deletions at the same moment have none.
    moment: i64,
}

impl Deletions {
    /// Whether the same Machines go, and none before another that it follows in the other order. Worker sets do not
    /// wait for each other.
    fn agree(&self, other: &Self) -> bool {
        let moments = |those: &Self| -> BTreeMap<String, i64> {
            those.0.iter().map(|one| (one.name.clone(), one.moment)).collect()
        };
        let (mine, others) = (moments(self), moments(other));
        let is_reversed = |first: &Deletion, second: &Deletion| {
            let wait = first.part == second.part || first.part == CONTROL_PLANE || second.part == CONTROL_PLANE;
            wait && first.moment < second.moment && others[&first.name] > others[&second.name]
        };
        mine.keys().eq(others.keys())
            && !self.0.iter().any(|first| self.0.iter().any(|second| is_reversed(first, second)))
    }

    fn text(&self) -> String {
        let mut those: Vec<&Deletion> = self.0.iter().collect();
        those.sort_by_key(|one| (one.moment, &one.name));
        let names: Vec<String> = those.iter().map(|one| format!("{} at {}", one.name, one.moment)).collect();
        names.join(", ")
    }
}

/// Machines made and gone by part.
#[derive(Default)]
struct Counts(BTreeMap<String, (u64, u64)>);

impl Counts {
    fn changes(self) -> Changes {
        let change = |(made, gone): (u64, u64)| {
            let replaced = made.min(gone);
            Change { replaced, added: made - replaced, removed: gone - replaced }
        };
        self.0
            .into_iter()
            .map(|(part, counts)| (part, change(counts)))
            .filter(|(_, one)| *one != Change::default())
            .collect()
    }

    fn count(&mut self, part: String, is_made: bool, is_gone: bool) {
        let (made, gone) = self.0.entry(part).or_default();
        *made += u64::from(is_made);
        *gone += u64::from(is_gone);
    }
}

/// What happened after a moment at which `seen` Machines had been made and `before` were there.
pub(super) fn happened(before: &Machines, seen: usize, lives: &[Life], after: &Machines) -> Changes {
    let mut counts = Counts::default();
    for (place, life) in lives.iter().enumerate() {
        let is_new = place >= seen;
        let is_gone = (is_new || before.contains_key(&life.uid)) && !after.contains_key(&life.uid);
        counts.count(life.machine.set.clone().unwrap_or_else(|| CONTROL_PLANE.to_owned()), is_new, is_gone);
    }
    counts.changes()
}

/// The Machines among `before` that were then asked to go.
pub(super) fn deleted(before: &Machines, lives: &[Life]) -> Deletions {
    let those = lives.iter().filter(|life| before.contains_key(&life.uid));
    let deletion = |life: &Life| {
        let moment = life.deleted.as_ref()?.parse::<jiff::Timestamp>().unwrap().as_second();
        let part = life.machine.set.clone().unwrap_or_else(|| CONTROL_PLANE.to_owned());
        Some(Deletion { name: life.machine.name.clone(), part, moment })
    };
    Deletions(those.filter_map(deletion).collect())
}

/// What a forecast says, and whether that is what happened.
pub(super) enum Forecast {
    Says(Changes),
    /// It also says which Machines go, and in which order.
    Shows(Changes, Deletions),
    /// How many machines are replaced and removed altogether, and the warnings that say so.
    Sums(u64, u64, String),
    /// How many machines are replaced or removed at most, and the warnings that say so.
    AtMost(u64, String),
    /// It gives no numbers.
    Fails(String),
}

impl Forecast {
    /// Whether a forecast is what happened; in which order, if it is known at the time of the forecast.
    pub(super) fn is_right(&self, happened: &Changes, deletions: Option<&Deletions>) -> bool {
        match self {
            Forecast::Says(message) => message == happened,
            Forecast::Shows(message, order) => message == happened && deletions.is_none_or(|those| order.agree(those)),
            Forecast::Sums(replaced, removed, _) => {
                let sum = |of: fn(&Change) -> u64| happened.values().map(of).sum::<u64>();
                (*replaced, *removed) == (sum(|one| one.replaced), sum(|one| one.removed))
            }
            Forecast::AtMost(machines, _) => {
                (1..=*machines).contains(&happened.values().map(|one| one.replaced + one.removed).sum())
            }
            Forecast::Fails(_) => false,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Forecast::Says(changes) => text(changes),
            Forecast::Shows(changes, order) => format!("{}; {}", text(changes), order.text()),
            Forecast::Sums(_, _, warnings) if warnings.is_empty() => "no warning".to_owned(),
            Forecast::Sums(_, _, text) | Forecast::AtMost(_, text) | Forecast::Fails(text) => {
                text.chars().take(240).map(|one| if one.is_control() { ' ' } else { one }).collect()
            }
        }
    }
}

/// Changes in one line.
pub(super) fn text(changes: &Changes) -> String {
    let one = |(part, change): (&String, &Change)| {
        let numbers = [("replaced", change.replaced), ("added", change.added), ("removed", change.removed)];
        let numbers = numbers.iter().filter(|(_, number)| *number > 0).map(|(name, number)| format!("{number} {name}"));
        format!("{part}: {}", numbers.collect::<Vec<_>>().join(", "))
    };
    if changes.is_empty() { "none".to_owned() } else { changes.iter().map(one).collect::<Vec<_>>().join("; ") }
}

/// `plan --live` with the objects in a file.
pub(super) fn of_plan(site: &Site, file: &Path) -> Forecast {
    read(&run(site, "plan", file), |plan| {
        let clusters = plan["clusters"].as_array()?;
        let mut changes = Changes::new();
        for roll in clusters.iter().flat_map(|cluster| cluster["rolls"].as_array().into_iter().flatten()) {
            let machines = &roll["machines"];
            let number = |name: &str| machines[name].as_u64();
            // An upgrade over two minors rolls the control plane twice.
            let change = changes.entry(part(roll["kind"].as_str()?, roll["name"].as_str()?)).or_default();
            change.replaced += number("replaced")?;
            change.added += number("added")?;
            change.removed += number("removed")?;
        }
        changes.retain(|_, change| *change != Change::default());
        Some(Forecast::Says(changes))
    })
}

/// `simulate --live` with the objects in a file.
pub(super) fn of_simulation(site: &Site, file: &Path) -> Forecast {
    read(&run(site, "simulate", file), |simulation| {
        let cluster = simulation["clusters"].as_array()?.iter().find(|one| one["namespace"] == site.namespace())?;
        // The edit of a paused Cluster is carried out after the pause.
        let is_paused = cluster["reason"].as_str().is_some_and(|reason| reason.ends_with("spec.paused is true"));
        if cluster["outcome"] != "converged" && !is_paused {
            return Some(Forecast::Fails(format!("{}: {}", cluster["outcome"], cluster["reason"])));
        }
        let (mut counts, mut order) = (Counts::default(), Deletions::default());
        for machine in cluster["machines"].as_array()? {
            let is_of_control_plane = machine["controlPlane"] == true;
            let part = if is_of_control_plane { CONTROL_PLANE } else { machine["owner"].as_str()? };
            counts.count(part.to_owned(), !machine["made"].is_null(), !machine["gone"].is_null());
            let name = machine["name"].as_str()?;
            let mut events = cluster["events"].as_array()?.iter().filter(|event| event["name"] == name);
            let deletion = events.find(|event| event["what"] == "Deleting" || event["what"] == "gone");
            if let Some(event) = deletion.filter(|_| machine["made"].is_null()) {
                let (name, part) = (name.to_owned(), part.to_owned());
                order.0.push(Deletion { name, part, moment: event["t"].as_i64()? });
            }
        }
        Some(Forecast::Shows(counts.changes(), order))
    })
}

/// The warnings of `kubectl apply`.
pub(super) fn of_warning(applied: &Outcome) -> Forecast {
    let number = |verb: &str| {
        let mut lines = applied.err.lines().filter_map(|line| line.strip_prefix("Warning: ")?.strip_prefix(verb));
        lines.find_map(|rest| rest.split(' ').next()?.replace(',', "").parse().ok())
    };
    // What was edited during a pause is not counted one by one.
    if let Some(machines) = number("may replace or remove up to ") {
        return Forecast::AtMost(machines, applied.err.clone());
    }
    Forecast::Sums(number("replaces ").unwrap_or(0), number("removes ").unwrap_or(0), applied.err.clone())
}

fn run(site: &Site, what: &str, file: &Path) -> Outcome {
    let mut command = command(&[what, "--live", "-o", "json", "--kubeconfig"]);
    command.arg(site.stack.kubernetes.kubeconfig()).arg("--to").arg(file);
    Outcome::of(command)
}

fn read(outcome: &Outcome, forecast: impl FnOnce(&Value) -> Option<Forecast>) -> Forecast {
    let document = serde_json::from_str(&outcome.out).unwrap_or(Value::Null);
    let failure = || {
        let reason = document["clusters"].as_array().into_iter().flatten().find_map(|one| one["reason"].as_str());
        format!("exit code {}: {}", outcome.code, reason.unwrap_or(&outcome.err))
    };
    forecast(&document).unwrap_or_else(|| Forecast::Fails(failure()))
}

/// The part of the Cluster `one` that an object stands for. MachineDeployments are called `one-<set>-<random>`.
fn part(kind: &str, name: &str) -> String {
    if kind != "MachineDeployment" {
        return CONTROL_PLANE.to_owned();
    }
    let set = name.strip_prefix("one-").unwrap_or(name);
    set.rsplit_once('-').map_or(set, |(set, _)| set).to_owned()
}
