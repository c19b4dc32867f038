//! Fields of a Node that follow its Machine: annotations, labels and taints (MA-8.5 to MA-8.9).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::reconcile::MachineReconcile;
use crate::lifecycle::conditions::{ConditionStatus, status};
use crate::lifecycle::fields::{TextMap, flag, map_mut, set, set_annotation, texts};
use model::hub::{Object, paths};

const LABELS_FROM_MACHINE: &str = "cluster.x-k8s.io/labels-from-machine";
const ANNOTATIONS_FROM_MACHINE: &str = "cluster.x-k8s.io/annotations-from-machine";
const TAINTS_FROM_MACHINE: &str = "cluster.x-k8s.io/taints-from-machine";
const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// Domains of labels and annotations that are copied from Machines to Nodes.
const OF_NODES: &str = "node.cluster.x-k8s.io";
const RESTRICTED: &str = "node-restriction.kubernetes.io";
const ROLE: &str = "node-role.kubernetes.io";
/// Taint of a Node before its first synchronisation (CT-12.6).
const UNINITIALIZED: (&str, &str) = ("node.cluster.x-k8s.io/uninitialized", "NoSchedule");
/// Taint of a Node whose Machine has an older revision.
const OUTDATED: (&str, &str) = ("node.cluster.x-k8s.io/outdated-revision", "PreferNoSchedule");

/// Synchronises the Node with its Machine; written once, with all other changes of the Node (MA-8.10).
pub(super) fn keep_in_step(work: &mut MachineReconcile<'_, '_>) {
    let owners = owner_annotations(work);
    let annotations = of_domain(&texts(&work.machine, paths::metadata::ANNOTATIONS), is_annotation_of_nodes);
    let labels = labels(work);
    let taints = work.machine.taints().to_vec();
    let is_outdated = is_outdated(work);
    let Some(node) = work.node_mut() else { return };
    follow(node, paths::metadata::LABELS, LABELS_FROM_MACHINE, &labels);
    follow(node, paths::metadata::ANNOTATIONS, ANNOTATIONS_FROM_MACHINE, &annotations);
    for (name, value) in &owners {
        set_annotation(node, name, value);
    }
    set_taints(node, &taints, is_outdated);
}

/// Annotations with the Machine of the Node, and its owner (MA-8.5).
fn owner_annotations(work: &MachineReconcile<'_, '_>) -> TextMap {
    let machine = &work.machine;
    let mut all = TextMap::from([
        ("cluster.x-k8s.io/cluster-name".to_owned(), work.cluster.name().to_owned()),
        ("cluster.x-k8s.io/cluster-namespace".to_owned(), machine.namespace().to_owned()),
        ("cluster.x-k8s.io/machine".to_owned(), machine.name().to_owned()),
    ]);
    if let Some(owner) = machine.controller() {
        let member = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        all.insert("cluster.x-k8s.io/owner-kind".to_owned(), member("kind"));
        all.insert("cluster.x-k8s.io/owner-name".to_owned(), member("name"));
    }
    all
}

fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Whether a domain equals another or is below it.
fn is_within(domain: &str, base: &str) -> bool {
    domain.strip_suffix(base).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_annotation_of_nodes(domain: &str) -> bool {
    is_within(domain, OF_NODES)
}

fn is_label_of_nodes(domain: &str) -> bool {
    domain == ROLE || is_within(domain, RESTRICTED) || is_within(domain, OF_NODES)
}

fn of_domain(all: &TextMap, is_meant: fn(&str) -> bool) -> TextMap {
    let is_meant = |(key, _): &(&String, &String)| is_meant(domain(key));
    all.iter().filter(is_meant).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Labels of the Machine for its Node, and one for interruptible machines (MA-8.6, CT-8.5).
fn labels(work: &MachineReconcile<'_, '_>) -> TextMap {
    let mut labels = of_domain(&texts(&work.machine, paths::metadata::LABELS), is_label_of_nodes);
    if work.infrastructure.found().is_some_and(|object| flag(object, "status.interruptible")) {
        labels.insert(INTERRUPTIBLE.to_owned(), String::new());
    }
    labels
}

/// Sets entries of a map of the Node, removes those set earlier that are no longer wanted, and records their names
/// (MA-8.7).
fn follow(node: &mut Object, path: &str, tracking: &str, wanted: &TextMap) {
    let set_earlier = node.annotation(tracking).unwrap_or_default().to_owned();
    for key in set_earlier.split(',').filter(|key| !wanted.contains_key(*key)) {
        map_mut(node, path).remove(key);
    }
    for (key, value) in wanted {
        map_mut(node, path).insert(key.clone(), json!(value));
    }
    let keys: Vec<&str> = wanted.keys().map(String::as_str).collect();
    set_annotation(node, tracking, &keys.join(","));
}

/// Whether the Machine has an older revision than its MachineDeployment (MA-8.9).
fn is_outdated(work: &MachineReconcile<'_, '_>) -> bool {
    let (Some(set), Some(deployment)) = (&work.set, &work.deployment) else { return false };
    let revision = |object: &Object| object.annotation(REVISION)?.parse::<u64>().ok();
    matches!((revision(set), revision(deployment)), (Some(its), Some(latest)) if its < latest)
}

fn member<'a>(taint: &'a Value, name: &str) -> &'a str {
    taint.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn identity(taint: &Value) -> String {
    format!("{}:{}", member(taint, "key"), member(taint, "effect"))
}

/// Sets the taints of the Node (MA-8.8, MA-8.9).
fn set_taints(node: &mut Object, of_machine: &[Value], is_outdated: bool) {
    let before = node.taints().to_vec();
    let mut taints = before.clone();
    remove(&mut taints, UNINITIALIZED);
    let (lasting, initial): (Vec<&Value>, Vec<&Value>) =
        of_machine.iter().partition(|taint| member(taint, "propagation") != "OnInitialization");
    let earlier = node.annotation(TAINTS_FROM_MACHINE).map(str::to_owned);
    let wanted: BTreeSet<String> = lasting.iter().map(|taint| identity(taint)).collect();
    for gone in earlier.iter().flat_map(|earlier| earlier.split(',')) {
        if !of_machine.iter().any(|taint| identity(taint) == gone) {
            taints.retain(|taint| identity(taint) != gone);
        }
    }
    let initial = initial.into_iter().filter(|_| earlier.is_none());
    lasting.into_iter().chain(initial).for_each(|taint| ensure(&mut taints, taint));
    match is_outdated {
        true => ensure(&mut taints, &json!({"key": OUTDATED.0, "effect": OUTDATED.1})),
        false => remove(&mut taints, OUTDATED),
    }
    set_annotation(node, TAINTS_FROM_MACHINE, &wanted.into_iter().collect::<Vec<_>>().join(","));
    if taints != before {
        set(node, paths::TAINTS, if taints.is_empty() { Value::Null } else { json!(taints) });
    }
}

fn remove(taints: &mut Vec<Value>, (key, effect): (&str, &str)) {
    taints.retain(|taint| (member(taint, "key"), member(taint, "effect")) != (key, effect));
}

/// Adds a taint, or replaces the one with the same key and effect.
fn ensure(taints: &mut Vec<Value>, wanted: &Value) {
    let mut taint = json!({"key": member(wanted, "key"), "effect": member(wanted, "effect")});
    if !member(wanted, "value").is_empty() {
        taint["value"] = json!(member(wanted, "value"));
    }
    match taints.iter_mut().find(|known| identity(known) == identity(&taint)) {
        Some(known) if member(known, "value") == member(&taint, "value") => {}
        Some(known) => *known = taint,
        None => taints.push(taint),
    }
}

/// Whether a Node is unreachable: its status is unknown (MA-10.2).
pub(super) fn is_unreachable(node: &Object) -> bool {
    status(node, "Ready") == Some(ConditionStatus::Unknown)
}
