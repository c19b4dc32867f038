//! The variables of patches: those of the topology, overrides of its parts, and builtin variables (BV).

use std::cell::{LazyCell, OnceCell};
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::compiler::{Expression, VisibleVariables};
use crate::topology::blueprint::Blueprint;
use crate::topology::desired::{Desired, DesiredCluster, DesiredControlPlane, DesiredWorker};
use crate::topology::worker::WorkerKind;
use golang::json;
use golang::template::{RenderLimits, Rendered, ValueError};
use model::hub::{Cluster, Object, VariableValue, annotation, paths};

/// The variable that contains the builtin variables.
const BUILTIN: &str = "builtin";

/// The variables of all parts of a topology.
pub(super) struct Scopes<'a> {
    /// Variables of the whole topology, in its order, without one called `builtin` (PE-09, BV-07).
    global: Vec<(&'a str, Value)>,
    /// `builtin.cluster`, in its object.
    builtin: Value,
    /// Scopes of the infrastructure cluster, the control plane, and the workers.
    scopes: Vec<VariableScope<'a>>,
    /// Results of expressions that are equal for all scopes, by number.
    shared: Vec<OnceCell<Result<Rendered, ValueError>>>,
}

/// The variables of the items of one part of a topology.
struct VariableScope<'a> {
    /// Overrides in their order (PE-10).
    overrides: Vec<(&'a str, Value)>,
    /// An object with the member of `builtin` for the part; `None` for the infrastructure cluster (BV-03).
    builtin: PartBuiltin<'a>,
    /// Merged variables by [`Visible::number`] (PE-15).
    merged: Vec<OnceCell<Value>>,
}

/// The builtin variables of a part. Few patches read them.
type PartBuiltin<'a> = LazyCell<Option<Value>, Box<dyn FnOnce() -> Option<Value> + 'a>>;

/// Identifies the scope of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScopeId(usize);

impl ScopeId {
    pub(super) const INFRASTRUCTURE: ScopeId = ScopeId(0);
    pub(super) const CONTROL_PLANE: ScopeId = ScopeId(1);

    /// The scope of the worker at a position of all workers, machine deployments first.
    pub(super) const fn worker(position: usize) -> ScopeId {
        ScopeId(2 + position)
    }
}

/// A variable of a request to an extension.
pub(super) type NamedVariable<'s> = (&'s str, &'s Value);

impl<'a> Scopes<'a> {
    /// The variables of a topology; `expressions` and `sources` are the numbers of the class.
    pub(super) fn new(blueprint: &'a Blueprint, desired: &'a Desired, expressions: usize, sources: usize) -> Self {
        let topology = blueprint.topology();
        let infrastructure = VariableScope::new(&[], || None, sources);
        let replicas = topology.control_plane.replicas;
        let control_plane = VariableScope::new(
            &topology.control_plane.variables.overrides,
            move || Some(json!({"controlPlane": control_plane(&desired.control_plane, replicas)})),
            sources,
        );
        let overrides: BTreeMap<(WorkerKind, &str), &'a [VariableValue]> = {
            let deployments = topology
                .workers
                .machine_deployments
                .iter()
                .map(|worker| ((WorkerKind::MachineDeployment, &*worker.name), &*worker.variables.overrides));
            let pools = topology
                .workers
                .machine_pools
                .iter()
                .map(|worker| ((WorkerKind::MachinePool, &*worker.name), &*worker.variables.overrides));
            deployments.chain(pools).collect()
        };
        let workers = WorkerKind::ALL.into_iter().flat_map(|kind| desired.workers(kind));
        let workers = workers.map(|desired| {
            let overrides = overrides.get(&(desired.kind, &*desired.topology_name)).copied().unwrap_or_default();
            let member = match desired.kind {
                WorkerKind::MachineDeployment => "machineDeployment",
                WorkerKind::MachinePool => "machinePool",
            };
            VariableScope::new(overrides, move || Some(json!({member: worker(desired)})), sources)
        });
        Scopes {
            global: parsed(&topology.variables),
            builtin: json!({"cluster": cluster(&blueprint.cluster, &desired.cluster)}),
            scopes: [infrastructure, control_plane].into_iter().chain(workers).collect(),
            shared: std::iter::repeat_with(OnceCell::new).take(expressions).collect(),
        }
    }

    /// The variables of the whole topology that are visible, `builtin` last (PE-09).
    pub(super) fn global(&self, visible: &VisibleVariables) -> Vec<NamedVariable<'_>> {
        with_builtin(&self.global, Some(&self.builtin), visible)
    }

    /// The variables of a part of the topology that are visible, `builtin` last (PE-10).
    pub(super) fn overrides(&self, scope: ScopeId, visible: &VisibleVariables) -> Vec<NamedVariable<'_>> {
        let Some(scope) = self.scopes.get(scope.0) else { return Vec::new() };
        with_builtin(&scope.overrides, scope.builtin.as_ref(), visible)
    }

    /// All variables that are visible to items of a scope: overrides replace values of the topology as a whole, and
    /// builtin variables are merged member by member (PE-15).
    pub(super) fn merged(&self, id: ScopeId, visible: &VisibleVariables) -> &Value {
        static NONE: Value = Value::Null;
        let Some((scope, merged)) =
            self.scopes.get(id.0).and_then(|scope| Some((scope, scope.merged.get(visible.number)?)))
        else {
            return &NONE;
        };
        merged.get_or_init(|| {
            let mut all = Map::new();
            for (name, value) in self.global.iter().chain(&scope.overrides) {
                if visible.names.contains(*name) {
                    all.insert((*name).to_owned(), value.clone());
                }
            }
            let mut builtin = self.builtin.clone();
            if let (Value::Object(members), Some(Value::Object(own))) = (&mut builtin, &*scope.builtin) {
                members.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            all.insert(BUILTIN.to_owned(), builtin);
            Value::Object(all)
        })
    }

    /// The value of an expression for items of a scope, and whether this call computed it. Values that are equal for
    /// all scopes are computed once.
    pub(super) fn evaluate(
        &self,
        expression: &Expression,
        scope: ScopeId,
        visible: &VisibleVariables,
    ) -> (Result<Rendered, ValueError>, bool) {
        let compute = || {
            let data = self.merged(scope, visible);
            expression.template.evaluate(data, RenderLimits::default())
        };
        let shared = self.shared.get(expression.number).filter(|_| self.is_shared(expression, scope));
        match shared {
            Some(known) => {
                let mut is_new = false;
                let result = known.get_or_init(|| {
                    is_new = true;
                    compute()
                });
                (result.clone(), is_new)
            }
            None => (compute(), true),
        }
    }

    /// Whether an expression has the same value in a scope as in scopes without overrides.
    fn is_shared(&self, expression: &Expression, scope: ScopeId) -> bool {
        let overrides = self.scopes.get(scope.0).map_or(&[][..], |scope| &scope.overrides);
        let Some(names) = &expression.shared else { return false };
        names.iter().all(|name| overrides.iter().all(|(overridden, _)| overridden != name))
    }
}

impl<'a> VariableScope<'a> {
    fn new(overrides: &'a [VariableValue], builtin: impl FnOnce() -> Option<Value> + 'a, sources: usize) -> Self {
        let merged = std::iter::repeat_with(OnceCell::new).take(sources).collect();
        VariableScope { overrides: parsed(overrides), builtin: LazyCell::new(Box::new(builtin)), merged }
    }
}

/// Values of variables as JSON, without `builtin` (BV-07).
fn parsed(values: &[VariableValue]) -> Vec<(&str, Value)> {
    let own = values.iter().filter(|variable| variable.name != BUILTIN);
    let parse = |variable: &'_ VariableValue| {
        // The text is valid JSON, because the Cluster has been decoded.
        variable.value.as_ref().and_then(|raw| json::value(raw.get()).ok()).unwrap_or_default()
    };
    own.map(|variable| (&*variable.name, parse(variable))).collect()
}

fn with_builtin<'s>(
    values: &'s [(&str, Value)],
    builtin: Option<&'s Value>,
    visible: &VisibleVariables,
) -> Vec<NamedVariable<'s>> {
    let values = values.iter().filter(|(name, _)| visible.names.contains(*name));
    values.map(|(name, value)| (*name, value)).chain(builtin.map(|builtin| (BUILTIN, builtin))).collect()
}

/// `builtin.cluster` (BV-02). Its metadata is the desired one, including marks of an upgrade (BV-04).
fn cluster(cluster: &Cluster, desired: &DesiredCluster) -> Value {
    let topology = &cluster.spec.topology;
    let class = cluster.class_key().unwrap_or_default();
    let mut members = Map::new();
    put_text(&mut members, "name", &cluster.metadata.name);
    put_text(&mut members, "namespace", &cluster.metadata.namespace);
    put_text(&mut members, "uid", &cluster.metadata.uid);
    if !desired.labels.is_empty() || !desired.annotations.is_empty() {
        let labels = desired.labels.iter().map(|(name, value)| (&**name, Value::from(&**value)));
        let annotations = desired.annotations.iter().map(|(name, value)| (&**name, Value::from(&**value)));
        members.insert("metadata".to_owned(), metadata(collect(labels), collect(annotations)));
    }
    let mut described = Map::new();
    put_text(&mut described, "version", &topology.version);
    described.insert("classRef".to_owned(), json!({"name": class.name, "namespace": class.namespace}));
    put_text(&mut described, "class", &class.name);
    put_text(&mut described, "classNamespace", &class.namespace);
    members.insert("topology".to_owned(), Value::Object(described));
    let network = &cluster.spec.cluster_network;
    let mut ranges = Map::new();
    put_text(&mut ranges, "serviceDomain", &network.service_domain);
    for (name, blocks) in [("services", &network.services.cidr_blocks), ("pods", &network.pods.cidr_blocks)] {
        if !blocks.is_empty() {
            ranges.insert(name.to_owned(), blocks.iter().map(|block| Value::from(&**block)).collect());
        }
    }
    if !ranges.is_empty() {
        members.insert("network".to_owned(), Value::Object(ranges));
    }
    Value::Object(members)
}

/// `builtin.controlPlane` (BV-02). The version is that of the current step; the name of the template is that before a
/// rotation (BV-05, BV-06).
fn control_plane(desired: &DesiredControlPlane, replicas: Option<i32>) -> Value {
    let object = &desired.control_plane.object;
    let mut members = Map::new();
    put_text(&mut members, "name", object.name());
    put_text(&mut members, "version", object.version());
    if let Some(replicas) = replicas {
        members.insert("replicas".to_owned(), replicas.into());
    }
    put_metadata(&mut members, object);
    if let Some(machines) = &desired.machines {
        let reference = json!({"infrastructureRef": {"name": machines.object.name()}});
        members.insert("machineTemplate".to_owned(), reference);
    }
    Value::Object(members)
}

/// `builtin.machineDeployment`, `builtin.machinePool` (BV-02): with the version of the worker, and names before a
/// rotation (BV-05, BV-06). Numbers are integers (BV-08).
fn worker(desired: &DesiredWorker) -> Value {
    let object = &desired.worker.object;
    let mut members = Map::new();
    put_text(&mut members, "version", object.machine_version());
    put_text(&mut members, "class", &desired.class);
    put_text(&mut members, "name", object.name());
    put_text(&mut members, "topologyName", &desired.topology_name);
    if let Some(replicas) = object.at(paths::REPLICAS) {
        members.insert("replicas".to_owned(), replicas.clone());
    }
    put_metadata(&mut members, object);
    let bootstrap = json!({"configRef": {"name": desired.bootstrap.object.name()}});
    members.insert("bootstrap".to_owned(), bootstrap);
    members.insert("infrastructureRef".to_owned(), json!({"name": desired.infrastructure.object.name()}));
    Value::Object(members)
}

/// Adds a member if it has a value (BV-01).
fn put_text(members: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        members.insert(name.to_owned(), text.into());
    }
}

/// Adds the metadata of an object if it has labels or annotations (BV-03).
fn put_metadata(members: &mut Map<String, Value>, object: &Object) {
    let map = |path: &str| {
        let entries = object.at(path)?.as_object()?.iter();
        Some(collect(entries.map(|(name, value)| (&**name, value.clone()))))
    };
    let (labels, annotations) = (map(paths::metadata::LABELS), map(paths::metadata::ANNOTATIONS));
    if labels.is_some() || annotations.is_some() {
        let metadata = metadata(labels.unwrap_or_default(), annotations.unwrap_or_default());
        members.insert("metadata".to_owned(), metadata);
    }
}

fn metadata(labels: Map<String, Value>, mut annotations: Map<String, Value>) -> Value {
    for name in [annotation::LAST_APPLIED, annotation::CONVERSION_DATA, annotation::ROLLED_OUT] {
        annotations.remove(name);
    }
    let maps = [("labels", labels), ("annotations", annotations)];
    let filled = maps.into_iter().filter(|(_, map)| !map.is_empty());
    Value::Object(filled.map(|(name, map)| (name.to_owned(), Value::Object(map))).collect())
}

fn collect<'e>(entries: impl Iterator<Item = (&'e str, Value)>) -> Map<String, Value> {
    entries.map(|(name, value)| (name.to_owned(), value)).collect()
}
