//! In which order things happened: as `simulate` tells it, and as it was written to an API server.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;

use super::ends::masked;
use crate::machines::server::{is_control_plane, name, version};

/// The orders of one change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// The phases of each new Machine, by name without random parts.
    pub machines: BTreeMap<String, Vec<Vec<String>>>,
    /// Machines that a control plane or a worker set makes and deletes, one after the other: `+v1.34.0`, `-v1.33.0`.
    pub moves: BTreeMap<String, Vec<String>>,
    /// The objects whose version changes, with the version.
    pub versions: Vec<(String, String)>,
    /// The objects that the topology makes.
    pub made: Vec<String>,
    /// The phases of the Cluster.
    pub cluster: Vec<String>,
    /// Machines of workers and of the control plane that are gone, and the Cluster, without repetitions.
    pub gone: Vec<String>,
}

const CONTROL_PLANE: &str = "control plane";

fn push_if_new(all: &mut Vec<String>, value: String) {
    if all.last() != Some(&value) {
        all.push(value);
    }
}

fn sorted(each: BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut all: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    each.into_iter().for_each(|(name, values)| all.entry(masked(&name)).or_default().push(values));
    all.values_mut().for_each(|same| same.sort());
    all
}

impl Orders {
    /// Forgets in which order the machines of these worker sets come and go: where a set is resized while it is
    /// replaced, two controllers write at the same time.
    pub fn forget_order_of(&mut self, sets: &BTreeSet<String>) {
        self.moves.iter_mut().filter(|(set, _)| sets.contains(*set)).for_each(|(_, moves)| moves.sort());
    }
}

/// Both must have gone the same way.
#[track_caller]
pub fn must_be_the_same(of: &str, simulated: &Orders, written: &Orders) {
    let parts = |orders: &Orders| {
        let Orders { machines, moves, versions, made, cluster: _, gone } = orders;
        [
            ("phases of Machines", format!("{machines:?}")),
            ("machines made and deleted", format!("{moves:?}")),
            ("versions", format!("{versions:?}")),
            ("objects made", format!("{made:?}")),
            ("gone", format!("{gone:?}")),
        ]
    };
    let both = parts(simulated).into_iter().zip(parts(written)).filter(|(ours, theirs)| ours != theirs);
    let differences: String =
        both.map(|((part, ours), (_, theirs))| format!("{part}\n  simulate {ours}\n  API      {theirs}\n")).collect();
    assert!(differences.is_empty(), "{of}:\n{differences}");
    // Two controllers write to a Cluster, so a phase that lasts for some milliseconds may never be written.
    let mut phases = simulated.cluster.iter();
    let (ours, theirs) = (&simulated.cluster, &written.cluster);
    let is_in_order = theirs.iter().all(|phase| phases.any(|one| one == phase)) && ours.last() == theirs.last();
    assert!(is_in_order, "{of}: phases of the Cluster\n  simulate {ours:?}\n  API      {theirs:?}");
}

/// A machine of the JSON of `simulate`: its owner and its version.
struct Told {
    owner: String,
    version: String,
    is_new: bool,
}

/// The orders that `simulate` tells. Of what the topology makes, these kinds count.
pub fn simulated(cluster: &Value, kinds: &BTreeSet<String>) -> Orders {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let reported = |machine: &Value| {
        let is_control_plane = machine["controlPlane"] == true;
        let owner = if is_control_plane { CONTROL_PLANE.to_owned() } else { text(&machine["owner"]) };
        (text(&machine["name"]), Told { owner, version: text(&machine["version"]), is_new: !machine["made"].is_null() })
    };
    let machines: BTreeMap<String, Told> = cluster["machines"].as_array().unwrap().iter().map(reported).collect();
    let change = Regex::new(r"version (\S+) → ([^\s,)]+)").unwrap();
    let (mut orders, mut phases) = (Orders::default(), BTreeMap::<String, Vec<String>>::new());
    for event in cluster["events"].as_array().unwrap() {
        let [kind, name, what, because] = ["kind", "name", "what", "because"].map(|field| text(&event[field]));
        match &*kind {
            "Machine" => {
                let machine = &machines[&name];
                let moves = orders.moves.entry(machine.owner.clone()).or_default();
                match &*what {
                    "created" => moves.push(format!("+{}", machine.version)),
                    "Deleting" => moves.push(format!("-{}", machine.version)),
                    "gone" => push_if_new(&mut orders.gone, of_role(&machine.owner)),
                    _ => {}
                }
                if machine.is_new && what != "created" && what != "waits" {
                    phases.entry(name).or_default().push(what);
                }
            }
            "Cluster" if what == "gone" => push_if_new(&mut orders.gone, kind),
            "Cluster" => push_if_new(&mut orders.cluster, what),
            _ if what == "created" && kinds.contains(&kind) => orders.made.push(format!("{kind} {}", masked(&name))),
            _ if what == "changed" => {
                if let Some(versions) = change.captures(&because) {
                    orders.versions.push((masked(&name), versions[2].to_owned()));
                }
            }
            _ => {}
        }
    }
    orders.machines = sorted(phases);
    orders
}

fn of_role(owner: &str) -> String {
    let role = if owner == CONTROL_PLANE { CONTROL_PLANE } else { "workers" };
    role.to_owned()
}

/// The worker set of a Machine, or the control plane.
fn owner(machine: &Value) -> String {
    if is_control_plane(machine) {
        return CONTROL_PLANE.to_owned();
    }
    let label = |name: &str| machine["metadata"]["labels"][format!("topology.cluster.x-k8s.io/{name}-name")].as_str();
    label("deployment").or_else(|| label("pool")).unwrap_or_default().to_owned()
}

/// Tells the orders from what was written.
struct Writes {
    /// The names of the Machines that there were before.
    known: BTreeSet<String>,
    orders: Orders,
    phases: BTreeMap<String, Vec<String>>,
    /// The versions of objects so far.
    versions: BTreeMap<String, String>,
    /// Machines whose deletion has begun.
    deleted: BTreeSet<String>,
}

/// The orders of what was written to an API server: watch events of all kinds, and the objects from before.
pub fn written(events: &[(String, Value)], before: &[Value]) -> Orders {
    let of = |kind: &'static str| before.iter().filter(move |object| object["kind"] == kind);
    let known: BTreeSet<String> = of("Machine").map(name).collect();
    let versions = before.iter().filter(|object| !version(object).is_empty());
    let versions = versions.map(|object| (name(object), version(object).to_owned())).collect();
    let phase = of("Cluster").map(|cluster| cluster["status"]["phase"].as_str().unwrap_or_default().to_owned());
    let number = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let mut in_order: Vec<&(String, Value)> = events.iter().collect();
    in_order.sort_by_key(|(_, object)| number(object));
    let (phases, deleted) = (BTreeMap::new(), BTreeSet::new());
    let orders = Orders { cluster: phase.collect(), ..Orders::default() };
    let mut writes = Writes { known, orders, phases, versions, deleted };
    for (what, object) in in_order {
        match object["kind"].as_str().unwrap() {
            "Machine" => writes.note_machine(what, object),
            "Cluster" => writes.note_cluster(what, object),
            kind => writes.note_part(what, kind, object),
        }
    }
    writes.orders.machines = sorted(writes.phases);
    // The phase from before is not news.
    writes.orders.cluster.drain(..of("Cluster").count());
    writes.orders
}

impl Writes {
    fn note_machine(&mut self, what: &str, machine: &Value) {
        let (name, owner) = (name(machine), owner(machine));
        let moves = self.orders.moves.entry(owner.clone()).or_default();
        if what == "ADDED" {
            moves.push(format!("+{}", version(machine)));
        }
        let is_deleted = what == "DELETED" || machine["metadata"]["deletionTimestamp"].is_string();
        if is_deleted && self.deleted.insert(name.clone()) {
            moves.push(format!("-{}", version(machine)));
        }
        let mut phase = machine["status"]["phase"].as_str().unwrap_or_default();
        if what == "DELETED" {
            push_if_new(&mut self.orders.gone, of_role(&owner));
            phase = "gone";
        }
        if !phase.is_empty() && !self.known.contains(&name) {
            push_if_new(self.phases.entry(name).or_default(), phase.to_owned());
        }
    }

    fn note_cluster(&mut self, what: &str, cluster: &Value) {
        let phase = cluster["status"]["phase"].as_str().unwrap_or_default();
        if what == "DELETED" {
            push_if_new(&mut self.orders.gone, "Cluster".to_owned());
        } else if !phase.is_empty() {
            push_if_new(&mut self.orders.cluster, phase.to_owned());
        }
    }

    fn note_part(&mut self, what: &str, kind: &str, object: &Value) {
        let called = masked(&name(object));
        if what == "ADDED" {
            self.orders.made.push(format!("{kind} {called}"));
        }
        let version = version(object);
        if version.is_empty() {
            return;
        }
        let before = self.versions.insert(name(object), version.to_owned());
        if before.is_some_and(|before| before != version) {
            self.orders.versions.push((called, version.to_owned()));
        }
    }
}
