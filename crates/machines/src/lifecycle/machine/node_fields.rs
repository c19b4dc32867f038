//! What a Node has of its Machine: annotations, labels and taints (MA-8.5 to MA-8.9).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::work::Work;
use crate::lifecycle::conditions::{Status, status};
use crate::lifecycle::fields::{controller, flag, items, map_mut, set, set_annotation, texts};
use model::hub::Object;

const LABELS_FROM_MACHINE: &str = "cluster.x-k8s.io/labels-from-machine";
const ANNOTATIONS_FROM_MACHINE: &str = "cluster.x-k8s.io/annotations-from-machine";
const TAINTS_FROM_MACHINE: &str = "cluster.x-k8s.io/taints-from-machine";
const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// Domains whose labels and annotations go from Machines to Nodes.
const OF_NODES: &str = "node.cluster.x-k8s.io";
const RESTRICTED: &str = "node-restriction.kubernetes.io";
const ROLE: &str = "node-role.kubernetes.io";
/// On a Node that has not got anything of its Machine yet (CT-12.6).
const UNINITIALIZED: (&str, &str) = ("node.cluster.x-k8s.io/uninitialized", "NoSchedule");
/// On a Node whose Machine is of an older revision.
const OUTDATED: (&str, &str) = ("node.cluster.x-k8s.io/outdated-revision", "PreferNoSchedule");

type Texts = BTreeMap<String, String>;

/// Brings the Node in step with its Machine; it is written once, with everything else that changes of it (MA-8.10).
pub(super) fn keep_in_step(work: &mut Work<'_, '_>) {
    let owners = owner_annotations(work);
    let annotations = of_domain(&texts(&work.machine, "metadata.annotations"), is_annotation_of_nodes);
    let labels = labels(work);
    let taints = items(&work.machine, "spec.taints").to_vec();
    let is_outdated = is_outdated(work);
    let Some(node) = work.node_mut() else { return };
    follow(node, "metadata.labels", LABELS_FROM_MACHINE, &labels);
    follow(node, "metadata.annotations", ANNOTATIONS_FROM_MACHINE, &annotations);
    for (name, value) in &owners {
        set_annotation(node, name, value);
    }
    set_taints(node, &taints, is_outdated);
}

/// Where the Machine of the Node is, and who controls that (MA-8.5).
fn owner_annotations(work: &Work<'_, '_>) -> Texts {
    let machine = &work.machine;
    let mut all = Texts::from([
        ("cluster.x-k8s.io/cluster-name".to_owned(), work.cluster.name().to_owned()),
        ("cluster.x-k8s.io/cluster-namespace".to_owned(), machine.namespace().to_owned()),
        ("cluster.x-k8s.io/machine".to_owned(), machine.name().to_owned()),
    ]);
    if let Some(owner) = controller(machine) {
        let member = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        all.insert("cluster.x-k8s.io/owner-kind".to_owned(), member("kind"));
        all.insert("cluster.x-k8s.io/owner-name".to_owned(), member("name"));
    }
    all
}

fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// Whether a domain is this one, or below it.
fn is_within(domain: &str, base: &str) -> bool {
    domain.strip_suffix(base).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_annotation_of_nodes(domain: &str) -> bool {
    is_within(domain, OF_NODES)
}

fn is_label_of_nodes(domain: &str) -> bool {
    domain == ROLE || is_within(domain, RESTRICTED) || is_within(domain, OF_NODES)
}

fn of_domain(all: &Texts, is_meant: fn(&str) -> bool) -> Texts {
    let is_meant = |(key, _): &(&String, &String)| is_meant(domain(key));
    all.iter().filter(is_meant).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The labels of the Machine that are for its Node, and one for a machine that can be taken away any time (MA-8.6, CT-8.5).
fn labels(work: &Work<'_, '_>) -> Texts {
    let mut labels = of_domain(&texts(&work.machine, "metadata.labels"), is_label_of_nodes);
    if work.infrastructure.found().is_some_and(|object| flag(object, "status.interruptible")) {
        labels.insert(INTERRUPTIBLE.to_owned(), String::new());
    }
    labels
}

/// Sets entries of a map of the Node, takes those away that were set earlier and are not wanted any more, and notes which they are
/// (MA-8.7).
fn follow(node: &mut Object, path: &str, tracking: &str, wanted: &Texts) {
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

/// Whether the Machine is of an older revision than its MachineDeployment (MA-8.9).
fn is_outdated(work: &Work<'_, '_>) -> bool {
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

/// The taints of the Node (MA-8.8, MA-8.9).
fn set_taints(node: &mut Object, of_machine: &[Value], is_outdated: bool) {
    let before = items(node, "spec.taints").to_vec();
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
        set(node, "spec.taints", if taints.is_empty() { Value::Null } else { json!(taints) });
    }
}

fn remove(taints: &mut Vec<Value>, (key, effect): (&str, &str)) {
    taints.retain(|taint| (member(taint, "key"), member(taint, "effect")) != (key, effect));
}

/// Puts a taint with its value, in the place of one with the same key and effect.
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

/// Whether a Node cannot be reached: nothing has been heard of it (MA-10.2).
pub(super) fn is_unreachable(node: &Object) -> bool {
    status(node, "Ready") == Some(Status::Unknown)
}
