//! The items that patches change: copies of the templates of the class, one for each use (PE-03).

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::compiler::SelectedTemplates;
use super::document::Document;
use super::scopes::ScopeId;
use super::trace::ItemName;
use crate::topology::blueprint::Blueprint;
use crate::topology::desired::{Desired, DesiredObject, DesiredWorker};
use crate::topology::worker::{API_VERSION, WorkerKind};
use crate::topology::{Failure, field_path};
use model::hub::contract::Contract;
use model::hub::{Object, annotation, paths};

/// One use of a template of the class.
#[derive(Debug)]
pub(super) struct TemplateItem<'a> {
    pub slot: ItemSlot,
    pub scope: ScopeId,
    pub name: Arc<ItemName>,
    template: &'a Object,
    /// The object that is made from the template.
    desired: &'a Object,
    holder: &'a Object,
    field_path: &'static str,
    /// The position of the class of workers in the class.
    worker_class: usize,
    /// The patched copy, once a patch needs one.
    pub document: Option<Document>,
}

/// The slot of the object that is made from an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemSlot {
    Infrastructure,
    ControlPlane,
    ControlPlaneMachines,
    Worker { kind: WorkerKind, position: usize, part: WorkerTemplateKind },
}

/// The kinds of templates of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerTemplateKind {
    Bootstrap,
    Infrastructure,
}

impl ItemSlot {
    /// Whether the slot contains a template instead of an object of the template's kind.
    pub(super) fn is_template(self) -> bool {
        match self {
            ItemSlot::Infrastructure | ItemSlot::ControlPlane => false,
            ItemSlot::ControlPlaneMachines => true,
            ItemSlot::Worker { kind, .. } => kind == WorkerKind::MachineDeployment,
        }
    }

    /// The desired object of the slot.
    pub(super) fn desired_mut(self, desired: &mut Desired) -> Option<&mut DesiredObject> {
        match self {
            ItemSlot::Infrastructure => Some(&mut desired.infrastructure),
            ItemSlot::ControlPlane => Some(&mut desired.control_plane.control_plane),
            ItemSlot::ControlPlaneMachines => desired.control_plane.machines.as_mut(),
            ItemSlot::Worker { kind, position, part } => {
                let workers = match kind {
                    WorkerKind::MachineDeployment => &mut desired.machine_deployments,
                    WorkerKind::MachinePool => &mut desired.machine_pools,
                };
                workers.get_mut(position).map(|worker| match part {
                    WorkerTemplateKind::Bootstrap => &mut worker.bootstrap,
                    WorkerTemplateKind::Infrastructure => &mut worker.infrastructure,
                })
            }
        }
    }
}

/// All items, in the order of PE-03. `cluster` names the Cluster as their holder.
///
/// # Errors
/// When the class of a worker does not exist.
pub(super) fn collect<'a>(
    blueprint: &'a Blueprint,
    contract: Contract,
    desired: &'a Desired,
    cluster: &'a Object,
) -> Result<Vec<TemplateItem<'a>>, Failure> {
    let control_plane = &desired.control_plane.control_plane.object;
    let item = |slot, template: &'a Object, object: &'a Object, holder: &'a Object, field_path| TemplateItem {
        slot,
        scope: if slot == ItemSlot::Infrastructure { ScopeId::INFRASTRUCTURE } else { ScopeId::CONTROL_PLANE },
        name: Arc::new(named(template, object, None)),
        template,
        desired: object,
        holder,
        field_path,
        worker_class: 0,
        document: None,
    };
    let infrastructure = &desired.infrastructure.object;
    let mut items = vec![
        item(ItemSlot::Infrastructure, &blueprint.infrastructure, infrastructure, cluster, paths::INFRASTRUCTURE_REF),
        item(
            ItemSlot::ControlPlane,
            &blueprint.control_plane,
            control_plane,
            cluster,
            paths::cluster::CONTROL_PLANE_REF,
        ),
    ];
    if let (Some(template), Some(machines)) = (&blueprint.control_plane_machines, &desired.control_plane.machines) {
        let path = field_path::INFRASTRUCTURE_REF.at(contract);
        items.push(item(ItemSlot::ControlPlaneMachines, template, &machines.object, control_plane, path));
    }
    let mut number = 0;
    for kind in WorkerKind::ALL {
        for (position, worker) in desired.workers(kind).iter().enumerate() {
            items.extend(worker_items(blueprint, kind, position, worker, ScopeId::worker(number))?);
            number += 1;
        }
    }
    Ok(items)
}

fn worker_items<'a>(
    blueprint: &'a Blueprint,
    kind: WorkerKind,
    position: usize,
    worker: &'a DesiredWorker,
    scope: ScopeId,
) -> Result<[TemplateItem<'a>; 2], Failure> {
    let templates = blueprint.templates(kind, &worker.topology_name, &worker.class)?;
    let classes = &blueprint.class.spec.workers;
    let worker_class = match kind {
        WorkerKind::MachineDeployment => {
            classes.machine_deployments.iter().position(|class| class.class == worker.class)
        }
        WorkerKind::MachinePool => classes.machine_pools.iter().position(|class| class.class == worker.class),
    };
    let item = |part, template: &'a Object, object: &'a Object, field_path| TemplateItem {
        slot: ItemSlot::Worker { kind, position, part },
        scope,
        name: Arc::new(named(template, object, Some((kind, worker.topology_name.clone())))),
        template,
        desired: object,
        holder: &worker.worker.object,
        field_path,
        worker_class: worker_class.unwrap_or(usize::MAX),
        document: None,
    };
    let (bootstrap, infrastructure) = (&worker.bootstrap.object, &worker.infrastructure.object);
    Ok([
        item(WorkerTemplateKind::Bootstrap, &templates.bootstrap, bootstrap, paths::worker::BOOTSTRAP_CONFIG_REF),
        item(
            WorkerTemplateKind::Infrastructure,
            &templates.infrastructure,
            infrastructure,
            paths::worker::INFRASTRUCTURE_REF,
        ),
    ])
}

fn named(template: &Object, object: &Object, worker: Option<(WorkerKind, String)>) -> ItemName {
    ItemName {
        template_kind: template.kind().to_owned(),
        template_name: template.name().to_owned(),
        worker,
        kind: object.kind().to_owned(),
        name: object.name().to_owned(),
    }
}

/// The Cluster in the form of a holder of references.
pub(super) fn cluster_as_holder(blueprint: &Blueprint) -> Object {
    let metadata = &blueprint.cluster.metadata;
    let mut named = Map::new();
    named.insert("namespace".to_owned(), (*metadata.namespace).into());
    named.insert("name".to_owned(), (*metadata.name).into());
    let mut members = Map::new();
    members.insert("apiVersion".to_owned(), API_VERSION.into());
    members.insert("kind".to_owned(), "Cluster".into());
    members.insert("metadata".to_owned(), Value::Object(named));
    members.into()
}

/// The object that refers to an item, by its desired name, in requests to extensions (PE-04).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HolderReference<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    field_path: &'static str,
}

impl TemplateItem<'_> {
    /// Whether a selector matches the item (PE-13).
    pub(super) fn is_selected(&self, selected: &SelectedTemplates) -> bool {
        let (classes, part) = match self.slot {
            ItemSlot::Infrastructure => return selected.infrastructure,
            ItemSlot::ControlPlane => return selected.control_plane,
            ItemSlot::ControlPlaneMachines => return selected.control_plane_machines,
            ItemSlot::Worker { kind: WorkerKind::MachineDeployment, part, .. } => (&selected.machine_deployments, part),
            ItemSlot::Worker { kind: WorkerKind::MachinePool, part, .. } => (&selected.machine_pools, part),
        };
        let [bootstrap, infrastructure] = classes.get(self.worker_class).copied().unwrap_or_default();
        if part == WorkerTemplateKind::Bootstrap { bootstrap } else { infrastructure }
    }

    /// The holder (PE-03).
    pub(super) fn holder_reference(&self) -> HolderReference<'_> {
        HolderReference {
            api_version: self.holder.api_version(),
            kind: self.holder.kind(),
            namespace: self.holder.namespace(),
            name: self.holder.name(),
            field_path: self.field_path,
        }
    }

    /// The copy of the template before any patch.
    pub(super) fn unpatched(&self) -> Value {
        copy(self.template, self.desired, self.slot.is_template())
    }

    /// The copy of the template that is patched, each item's own.
    pub(super) fn document(&mut self) -> &mut Document {
        let (template, desired, is_template) = (self.template, self.desired, self.slot.is_template());
        self.document.get_or_insert_with(|| Document::new(copy(template, desired, is_template)))
    }
}

/// A copy of a template without what is no business of patches (PE-06), with the metadata that its object is to have
/// (PE-05). A template of an object may have no spec at all: the metadata has its place all the same.
fn copy(template: &Object, desired: &Object, is_template: bool) -> Value {
    let mut copy = template.to_value().into_owned();
    if let Some(Value::Object(metadata)) = copy.get_mut("metadata") {
        *metadata = cleaned(metadata);
    }
    if is_template {
        let metadata = child(&mut copy, "metadata");
        give_metadata(metadata, desired);
        if let Value::Object(members) = metadata {
            *members = cleaned(members);
        }
    } else {
        give_metadata(child(child(child(&mut copy, "spec"), "template"), "metadata"), desired);
    }
    copy
}

/// A member that is an object; one that is something else is replaced.
fn child<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members.entry(name).or_insert(Value::Null),
        other => other,
    }
}

/// Replaces labels and annotations by those of an object (PE-05).
fn give_metadata(metadata: &mut Value, desired: &Object) {
    for (name, path) in [("labels", paths::metadata::LABELS), ("annotations", paths::metadata::ANNOTATIONS)] {
        match desired.at(path) {
            Some(entries) => *child(metadata, name) = entries.clone(),
            None => {
                metadata.as_object_mut().map(|members| members.remove(name));
            }
        }
    }
}

/// Metadata without what servers and tools leave there (PE-06).
fn cleaned(metadata: &Map<String, Value>) -> Map<String, Value> {
    let mut cleaned = Map::new();
    for (name, value) in metadata {
        match (&**name, value) {
            ("managedFields", _) => {}
            ("annotations", Value::Object(annotations)) => {
                let is_kept = |name: &str| name != annotation::LAST_APPLIED && name != annotation::CONVERSION_DATA;
                let kept = annotations.iter().filter(|(name, _)| is_kept(name));
                let kept: Map<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
                if !kept.is_empty() {
                    cleaned.insert(name.clone(), Value::Object(kept));
                }
            }
            _ => {
                cleaned.insert(name.clone(), value.clone());
            }
        }
    }
    cleaned
}
