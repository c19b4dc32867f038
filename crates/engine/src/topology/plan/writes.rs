//! Writes steps into the facts of the simulator, followed by the effects of providers and machine controllers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::difference::{MergeError, applied, object_from, owners, schema};
use super::rolls::{defaulted, owner};
use super::{LastApplied, OF_SERVER, PlanStep, TopologyPart, TopologySimulator, uid};
use crate::topology::Failure;
use crate::topology::refusals::{completed_in, definition_of};
use crate::topology::worker::{API_VERSION, WorkerKind};
use golang::json::StringMap;
use model::hub::machine_defaults::{MAX_SURGE, MAX_UNAVAILABLE, ROLLING_UPDATE};
use model::hub::{Cluster, Object, ObjectKey, ObjectRef, label, paths};
use model::rollouts::RolloutOwner;
use model::world::{Found, Record, Selection, World};
use schema::ssa::{self, ManagedFields};

impl TopologySimulator {
    pub(super) fn carry_out(&mut self, cluster: &ObjectKey, step: &PlanStep) -> Result<(), Failure> {
        self.write(cluster, step)?;
        self.answer(step);
        Ok(())
    }

    /// Writes the object of a step like a server: adopts an existing object of the name, keeps fields of other
    /// managers, and updates `managedFields` unless they are omitted (RS-13, DEC-36, DEC-43).
    ///
    /// # Errors
    /// When the object cannot be applied.
    pub fn write(&mut self, cluster: &ObjectKey, step: &PlanStep) -> Result<(), Failure> {
        let Some(sent) = &step.applied else {
            self.delete(step);
            return Ok(());
        };
        if step.part == TopologyPart::Cluster {
            self.apply_to_cluster(cluster, sent);
            return Ok(());
        }
        let world = World::new(Arc::new(self.facts.clone()));
        let mut object = completed_in(&world, self.applied_to(&step.object, sent)?);
        // A server would set a new one. Earlier dry runs of the object are no longer valid.
        object.remove(paths::metadata::RESOURCE_VERSION);
        if object.uid().is_empty() {
            object.set(paths::metadata::UID, json!(uid(step.object.group(), &step.object.kind, &step.object.key)))?;
        }
        // An object that consists of the applied fields replaces the applied one, so that only one copy is kept.
        let has_only = object.is_same_besides(sent, OF_SERVER);
        object.share(&mut self.shared);
        let (stored, origins) = (Arc::new(object), step.origins.clone());
        let sent = if has_only { &stored } else { sent };
        let stored_now = Arc::downgrade(&stored);
        let applied = LastApplied { object: sent.clone(), origins, is_rolled_out: true, stored: stored_now };
        self.applied.put(&step.object, applied);
        if let Some(objects) = self.facts.objects_mut() {
            objects.put(stored);
        }
        Ok(())
    }

    /// The result of applying `sent` to the existing object of that name, if any. Values that a schema rejects have
    /// been reported and are applied nevertheless: machines are counted as if the values were corrected.
    fn applied_to(&self, reference: &ObjectRef, sent: &Object) -> Result<Object, Failure> {
        let world = World::new(Arc::new(self.facts.clone()));
        let merged = self.merged(reference, sent);
        match merged {
            Err(Failure::Unreadable(_)) if definition_of(sent, &world).is_some() => {
                self.merged_by(reference, sent, &world, &ssa::MergeSchema::unknown())
            }
            merged => merged,
        }
    }

    pub(super) fn merged(&self, reference: &ObjectRef, sent: &Object) -> Result<Object, Failure> {
        let world = World::new(Arc::new(self.facts.clone()));
        let before = world.object(reference);
        let live = if let Found::Yes(live) = &before { Some(&**live) } else { None };
        self.merged_by(reference, sent, &world, &schema(&world, sent, live)?)
    }

    fn merged_by(
        &self,
        reference: &ObjectRef,
        sent: &Object,
        world: &World,
        schema: &ssa::MergeSchema,
    ) -> Result<Object, Failure> {
        let before = world.object(reference);
        let omits = |live: Option<&Object>| {
            self.omits_managed_fields && live.is_none_or(|live| live.at(paths::metadata::MANAGED_FIELDS).is_none())
        };
        let written = |live: Option<&Object>, managers: &[ManagedFields]| {
            let value = live.map(|live| live.to_value());
            let (object, managers) = applied(value.as_deref(), managers, sent, schema)?;
            object_from(if omits(live) { object } else { ssa::with_managers(object, &managers) })
        };
        let merged = match &before {
            Found::Yes(live) => written(Some(live), &owners(live, self.applied.get(reference), sent, schema)?),
            // The object is equal to the configuration.
            _ if omits(None) => {
                ssa::check_configuration(&sent.to_value(), schema).map(|()| sent.clone()).map_err(MergeError::from)
            }
            _ => written(None, &[]),
        };
        merged.map_err(|reason| Failure::Unreadable(format!("{reference} cannot be applied: {reason}")))
    }

    /// Applies the effects of the provider and the machine controllers after a step.
    pub(super) fn answer(&mut self, step: &PlanStep) {
        let Some(owner) = owner(&step.part, &step.object.kind) else { return };
        let Some(Found::Yes(written)) = self.facts.objects().map(|objects| objects.object(&step.object)) else {
            return;
        };
        let mut object = Object::clone(&written);
        keep_replicas(&mut object, owner, step);
        if owner == RolloutOwner::MachineDeployment {
            complete_strategy(&mut object);
            self.replace_machines(&written);
        }
        provide(&mut object, step);
        if let Some(objects) = self.facts.objects_mut() {
            let object = Arc::new(object);
            self.applied.note_stored(&object);
            objects.put(object);
        }
    }

    /// Adds the defaults of admission to the written object of a step: replicas and strategy (MA-28.2, MA-28.3).
    pub fn admit(&mut self, step: &PlanStep) {
        let owner = owner(&step.part, &step.object.kind);
        let Some(owner) =
            owner.filter(|owner| matches!(owner, RolloutOwner::MachineDeployment | RolloutOwner::MachinePool))
        else {
            return;
        };
        let Some(Found::Yes(written)) = self.facts.objects().map(|objects| objects.object(&step.object)) else {
            return;
        };
        let mut object = Object::clone(&written);
        if object.at(paths::REPLICAS).is_none()
            && let Some(replicas) = defaulted(owner, &object, had_replicas(step))
        {
            // `spec` holds other fields.
            let _ = object.set(paths::REPLICAS, replicas.into());
        }
        if owner == RolloutOwner::MachineDeployment {
            complete_strategy(&mut object);
        }
        if let Some(objects) = self.facts.objects_mut() {
            objects.put(Arc::new(object));
        }
    }

    fn delete(&mut self, step: &PlanStep) {
        self.applied.remove(&step.object);
        if let Some(objects) = self.facts.objects_mut() {
            objects.remove(&step.object);
        }
    }

    /// The Cluster with its desired labels, annotations and references.
    fn apply_to_cluster(&mut self, key: &ObjectKey, patch: &Object) {
        let Found::Yes(found) = self.facts.cluster(key) else { return };
        let mut cluster = Cluster::clone(&found);
        let texts = |path: &str| StringMap::from(patch.texts(path).unwrap_or_default());
        cluster.metadata.labels = texts(paths::metadata::LABELS);
        cluster.metadata.annotations = texts(paths::metadata::ANNOTATIONS);
        let reference = |path: &'static str| crate::topology::field_path::contract_ref(patch, path).ok();
        cluster.spec.infrastructure_ref = reference(paths::INFRASTRUCTURE_REF).unwrap_or_default();
        cluster.spec.control_plane_ref = reference(paths::cluster::CONTROL_PLANE_REF).unwrap_or_default();
        self.facts.put_cluster(key.clone(), Record::readable(cluster));
    }

    /// Replaces the machines of a machine deployment by up-to-date ones.
    fn replace_machines(&mut self, deployment: &Object) {
        let version = deployment.at(paths::worker::VERSION).cloned();
        let (Some(version), Ok(labels)) = (version, deployment.texts(paths::worker::MATCH_LABELS)) else { return };
        if !labels.contains_key(label::CLUSTER_NAME) {
            return;
        }
        let Some(objects) = self.facts.objects_mut() else { return };
        let machines = objects.list(&Selection {
            api_version: API_VERSION.to_owned(),
            kind: "Machine".to_owned(),
            namespace: deployment.namespace().to_owned(),
            labels,
        });
        for machine in machines {
            let mut machine = Object::clone(&machine);
            let is_set = machine.set(paths::VERSION, version.clone()).is_ok();
            if machine.at(paths::status::KUBELET_VERSION).is_some() {
                let _ = machine.set(paths::status::KUBELET_VERSION, version.clone());
            }
            if is_set {
                objects.put(Arc::new(machine));
            }
        }
    }
}

/// The number of replicas that a step changes.
fn had_replicas(step: &PlanStep) -> Option<i64> {
    let change = step.changes.iter().find(|change| change.path == paths::REPLICAS)?;
    change.from.as_ref()?.as_i64()
}

/// Sets the default of admission for replicas that were removed (ROLL-13).
fn keep_replicas(object: &mut Object, owner: RolloutOwner, step: &PlanStep) {
    let Some(had) = had_replicas(step) else { return };
    if object.at(paths::REPLICAS).is_none()
        && let Some(replicas) = defaulted(owner, object, Some(had))
    {
        // `spec` holds other fields.
        let _ = object.set(paths::REPLICAS, replicas.into());
    }
}

/// Sets the default strategy of admission in a machine deployment (MA-28.2.3).
fn complete_strategy(object: &mut Object) {
    let kind = object.at(paths::worker::ROLLOUT_STRATEGY).and_then(Value::as_str).unwrap_or(ROLLING_UPDATE).to_owned();
    let mut fill = |path: &str, value: Value| {
        if object.at(path).is_none() {
            // `spec` exists because it has other fields, and the parents are objects if they exist.
            let _ = object.set(path, value);
        }
    };
    if kind == ROLLING_UPDATE {
        fill(paths::worker::ROLLOUT_STRATEGY, kind.into());
        fill(paths::worker::MAX_SURGE, MAX_SURGE.into());
        fill(paths::worker::MAX_UNAVAILABLE, MAX_UNAVAILABLE.into());
    }
}

/// Sets the status fields of a provider that has finished.
fn provide(object: &mut Object, step: &PlanStep) {
    match &step.part {
        TopologyPart::ControlPlane => {
            let version = object.at(paths::VERSION).cloned();
            object.remove(paths::status::VERSIONS);
            if let Some(version) = version {
                let _ = object.set(paths::control_plane::STATUS_VERSION, version);
            }
        }
        TopologyPart::Worker(WorkerKind::MachinePool, _) => {
            object.remove(paths::worker::NODE_REFS);
        }
        _ => {}
    }
}
