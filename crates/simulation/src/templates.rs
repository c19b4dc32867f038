//! Deletion of templates that MachineDeployments and MachineSets leave behind, as by the template controllers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster_id;
use engine::topology::templates_in_use::{MachineOwner, deployment_of, unused};
use machines::lifecycle::dependents::is_paused;
use machines::lifecycle::objects::cluster_of;
use machines::lifecycle::simulator::MachineSimulator;
use machines::lifecycle::{GroupKind, ObjectId, set_field};
use model::hub::{Object, ObjectKey, annotation, label, paths};

/// Adds the finalizer that the controller adds to a new object of a topology (DEL-05, MA-29.1).
pub(super) fn protect(object: &mut Object) {
    let Some(maker) = MachineOwner::from_object(object).filter(|_| object.label(label::OWNED).is_some()) else {
        return;
    };
    let mut finalizers = finalizers(object);
    finalizers.push(json!(maker.finalizer()));
    set_field(object, paths::metadata::FINALIZERS, finalizers.into());
}

fn finalizers(object: &Object) -> Vec<Value> {
    object.finalizers().to_vec()
}

/// Deletes the templates of an object that is being deleted, and then its finalizer (DEL-06, DEL-07).
pub(super) fn clean_up(machines: &mut MachineSimulator, leaving: &Object) {
    let Some(maker) =
        MachineOwner::from_object(leaving).filter(|_| leaving.is_being_deleted() && !waits(machines, leaving))
    else {
        return;
    };
    let mut finalizers = finalizers(leaving);
    let before = finalizers.len();
    finalizers.retain(|name| name != maker.finalizer());
    // Unreadable templates might be in use: the finalizer stays.
    let Some(templates) = left_behind(machines, maker, leaving).filter(|_| finalizers.len() < before) else { return };
    templates.iter().for_each(|template| machines.delete(template));
    if maker == MachineOwner::Deployment {
        let key = leaving.key();
        machines.delete(&ObjectId::core("MachineHealthCheck", &key.namespace, &key.name));
    }
    let mut after = leaving.clone();
    set_field(&mut after, paths::metadata::FINALIZERS, finalizers.into());
    // It was just read.
    let _ = machines.update(None, leaving, after);
}

/// Objects of a Cluster that may have waited for it.
pub(super) fn leaving_of(machines: &MachineSimulator, cluster: &ObjectKey) -> Vec<Arc<Object>> {
    let of = |maker: MachineOwner| machines.objects.of_cluster(&GroupKind::core(maker.kind()), cluster);
    MachineOwner::ALL.into_iter().flat_map(of).filter(|object| object.is_being_deleted()).collect()
}

/// Whether a pause blocks the deletion.
fn waits(machines: &MachineSimulator, leaving: &Object) -> bool {
    let cluster = cluster_of(leaving).and_then(|key| machines.objects.get(&cluster_id(&key)).cloned());
    leaving.annotation(annotation::PAUSED).is_some() || cluster.is_some_and(|cluster| is_paused(&cluster))
}

/// Templates that are no longer used; `None` if references cannot be read.
fn left_behind(machines: &MachineSimulator, maker: MachineOwner, leaving: &Object) -> Option<Vec<ObjectId>> {
    let key = leaving.key();
    let name = match maker {
        MachineOwner::Deployment => key.name.clone(),
        MachineOwner::Set => deployment_of(leaving)?,
    };
    let all = machines.objects.of_cluster(&GroupKind::core(MachineOwner::Set.kind()), &cluster_of(leaving)?);
    let sets = all.iter().filter(|set| set.label(label::MACHINE_DEPLOYMENT_NAME) == Some(&name));
    let deployment = machines.objects.get(&ObjectId::core(MachineOwner::Deployment.kind(), &key.namespace, &name));
    let deployment = deployment.filter(|_| maker == MachineOwner::Set);
    let all = unused(leaving, sets.map(Arc::as_ref), deployment.map(Arc::as_ref)).ok()?;
    let id =
        |template| ObjectId::new(GroupKind::for_reference(template), ObjectKey::new(&key.namespace, &template.name));
    Some(all.iter().map(id).collect())
}
