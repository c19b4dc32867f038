//! Workers with machines that do not have the version of their worker yet.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::topology::Failure;
use crate::topology::current::{Current, CurrentWorker};
use crate::topology::worker::{API_VERSION, WorkerKind};
use golang::version::{VersionText, without_build};
use model::hub::{Object, ObjectKey, paths};
use model::world::{Found, NodesOf, Selection, World};

/// The version of a worker; `None` when it has none.
fn version(worker: &Object) -> Result<Option<&str>, Failure> {
    Ok(worker.text(paths::worker::VERSION)?.filter(|version| !version.is_empty()))
}

/// The versions of the workers that have one, as `read` takes them.
pub(super) fn versions(
    current: &Current,
    read: impl Fn(&Object, &str) -> Result<VersionText, Failure>,
) -> Result<BTreeMap<(WorkerKind, &str), VersionText>, Failure> {
    let mut versions = BTreeMap::new();
    for kind in WorkerKind::ALL {
        for (name, worker) in current.workers(kind) {
            if let Some(text) = version(&worker.object)? {
                versions.insert((kind, name.as_str()), read(&worker.object, text)?);
            }
        }
    }
    Ok(versions)
}

/// The names of the machine deployments that are upgrading, including removed ones (UP-21, UP-44).
pub(super) fn upgrading_deployments(
    deployments: &BTreeMap<String, CurrentWorker>,
    world: &World,
) -> Result<BTreeSet<String>, Failure> {
    // All machine deployments are checked, so that one round gathers all machines.
    let checked: Vec<_> =
        deployments.values().map(|one| (&one.object, is_deployment_upgrading(&one.object, world))).collect();
    let mut upgrading = BTreeSet::new();
    for (deployment, is_upgrading) in checked {
        if is_upgrading? {
            upgrading.insert(deployment.name().to_owned());
        }
    }
    Ok(upgrading)
}

/// Whether a machine deployment has machines without its version; build metadata of kubelets does not count (UP-21).
pub(in crate::topology) fn is_deployment_upgrading(deployment: &Object, world: &World) -> Result<bool, Failure> {
    let Some(wanted) = version(deployment)? else { return Ok(false) };
    let selection = Selection {
        api_version: API_VERSION.to_owned(),
        kind: "Machine".to_owned(),
        namespace: deployment.namespace().to_owned(),
        labels: selected_labels(deployment)?,
    };
    let machines = match world.list(&selection) {
        Found::Yes(machines) => machines,
        Found::Absent => Vec::new(),
        Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        Found::NotAsked => return Err(Failure::NotAsked),
    };
    let mut is_upgrading = false;
    for machine in machines {
        let has = machine.text(paths::VERSION)?.filter(|version| !version.is_empty());
        let has = has.ok_or_else(|| Failure::NoMachineVersion {
            machine: machine.reference().into(),
            owner: deployment.reference().into(),
        })?;
        let runs = machine.text(paths::status::KUBELET_VERSION)?.filter(|version| !version.is_empty());
        is_upgrading |= has != wanted || runs.is_some_and(|runs| without_build(runs) != without_build(wanted));
    }
    Ok(is_upgrading)
}

/// The labels that a selector requires, including expressions with a single value.
fn selected_labels(deployment: &Object) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = deployment.texts(paths::worker::MATCH_LABELS)?;
    for expression in deployment.list(paths::worker::MATCH_EXPRESSIONS)?.into_iter().flatten() {
        let text = |name: &str| expression.get(name).and_then(Value::as_str);
        let values = expression.get("values").and_then(Value::as_array).map(Vec::as_slice);
        match (text("key"), text("operator"), values) {
            (Some(key), Some("In"), Some([Value::String(value)])) => {
                // Two different values for one label match nothing.
                if labels.insert(key.to_owned(), value.clone()).is_some_and(|other| other != *value) {
                    return Err(Failure::Selector { object: deployment.reference() });
                }
            }
            _ => return Err(Failure::Selector { object: deployment.reference() }),
        }
    }
    Ok(labels)
}

/// The names of the machine pools that are upgrading (UP-22). Nodes are read only if a pool has some, so that creation
/// does not depend on access to the workload cluster. Without Nodes, pools do not count as upgrading: in files without
/// Nodes (DEC-18), and without permission to read kubeconfigs (DEC-47).
pub(super) fn upgrading_pools(
    pools: &BTreeMap<String, CurrentWorker>,
    cluster: &ObjectKey,
    world: &World,
) -> Result<BTreeSet<String>, Failure> {
    let mut wanted: Vec<(&Object, &str, Vec<String>)> = Vec::new();
    for pool in pools.values() {
        if let Some(version) = version(&pool.object)? {
            wanted.push((&pool.object, version, node_names(&pool.object)?));
        }
    }
    let names: BTreeSet<String> = wanted.iter().flat_map(|(.., names)| names).cloned().collect();
    if names.is_empty() {
        return Ok(BTreeSet::new());
    }
    let nodes = match world.ask(&NodesOf { cluster: cluster.clone(), names }) {
        Found::Yes(nodes) => nodes,
        Found::Absent => return Ok(BTreeSet::new()),
        Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        Found::NotAsked => return Err(Failure::NotAsked),
    };
    let mut upgrading = BTreeSet::new();
    for (pool, version, names) in wanted {
        for name in names {
            let node = nodes.get(&name);
            let node = node.ok_or_else(|| Failure::NoNode { node: name.clone(), pool: pool.reference() })?;
            if without_build(node.text(paths::status::KUBELET_VERSION)?.unwrap_or_default()) != without_build(version) {
                upgrading.insert(pool.name().to_owned());
            }
        }
    }
    Ok(upgrading)
}

fn node_names(pool: &Object) -> Result<Vec<String>, Failure> {
    let references = pool.list(paths::worker::NODE_REFS)?.into_iter().flatten();
    let name = |reference: &Value| reference.get("name")?.as_str().map(str::to_owned);
    Ok(references.filter_map(name).collect())
}

#[cfg(test)]
mod tests;
