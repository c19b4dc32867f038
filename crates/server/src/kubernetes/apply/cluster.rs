//! Writes of the Cluster, limited to the fields of the plan (RS-22, RS-23, SSA-19).

use kube::api::Patch;
use serde_json::{Map, Value, json};
use tracing::debug;

use super::ApplyError;
use crate::kubernetes::tested_patch::TestedPatch;
use crate::kubernetes::untyped;
use engine::topology::plan::ChangedField;
use model::hub::{Object, ObjectRef, annotation, paths};

/// Maximum number of reads of the Cluster after write conflicts.
const ATTEMPTS: usize = 5;

/// A field of a Cluster that changes.
#[derive(Debug)]
pub(super) struct ClusterField<'a> {
    /// Member names from the top.
    path: Vec<&'a str>,
    from: Option<&'a Value>,
    to: Option<&'a Value>,
}

impl<'a> ClusterField<'a> {
    /// The field of a change of a plan: a label, an annotation or a reference.
    pub(super) fn for_change(change: &'a ChangedField) -> Self {
        let ChangedField { path, from, to, .. } = change;
        let path = match path.split_once('[') {
            Some((parents, name)) => parents.split('.').chain([name.strip_suffix(']').unwrap_or(name)]).collect(),
            None => path.split('.').collect(),
        };
        ClusterField { path, from: from.as_ref(), to: to.as_ref() }
    }

    /// The value before the change.
    pub(super) fn from(&self) -> Option<&'a Value> {
        self.from
    }

    /// The value after the change.
    pub(super) fn to(&self) -> Option<&'a Value> {
        self.to
    }

    /// The change of the same place to another value, after this one.
    pub(super) fn changed_to<'b>(&'b self, value: Option<&'b Value>) -> ClusterField<'b> {
        ClusterField { path: self.path.clone(), from: self.to, to: value }
    }

    /// Whether it is the annotation with the pending hooks.
    pub(super) fn is_of_hooks(&self) -> bool {
        self.is_annotation(annotation::PENDING_HOOKS)
    }

    /// Whether it is a record for topologist itself, whose changes have no event.
    pub(super) fn is_record(&self) -> bool {
        self.is_of_hooks() || self.is_rolled_out()
    }

    /// Whether it is the record of the inputs of the objects.
    pub(super) fn is_rolled_out(&self) -> bool {
        self.is_annotation(annotation::ROLLED_OUT)
    }

    fn is_annotation(&self, name: &str) -> bool {
        self.path == ["metadata", "annotations", name]
    }

    /// Whether it is the reference to the control plane.
    pub(super) fn is_control_plane(&self) -> bool {
        self.path == ["spec", "controlPlaneRef"]
    }

    /// Whether the Cluster has there what it had when the plan was made, or what it is to have.
    fn is_as_planned(&self, cluster: &Object) -> bool {
        let mut here = Some(cluster.as_ref());
        for name in &self.path {
            here = here.and_then(|value| value.get(name));
        }
        let is_nothing = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let here = here.filter(|value| !is_nothing(value));
        here == self.from || here == self.to
    }

    /// Puts what the place is to have into a merge patch, in which `null` takes away.
    fn put_into(&self, patch: &mut Map<String, Value>) {
        let Some((last, parents)) = self.path.split_last() else { return };
        let mut here = patch;
        for name in parents {
            let next = here.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(next) = next else { return };
            here = next;
        }
        here.insert((*last).to_owned(), self.to.cloned().unwrap_or(Value::Null));
    }
}

/// Writes the places, and nothing else, of a Cluster that was `base` when it was read; returns it as it is then.
///
/// A write of other fields by another client, as status is written all the time, is no conflict (DEC-118). If a place
/// has changed, the Cluster is read again: new objects must not be lost because of that. The plan stands as long as none
/// of its places has another value than before or after it.
pub(super) async fn write(
    client: &kube::Client,
    cluster: &ObjectRef,
    base: &Object,
    places: &[ClusterField<'_>],
) -> Result<Object, ApplyError> {
    let changed = || ApplyError::Changed { object: Box::new(cluster.clone()) };
    let failed = |source| ApplyError::update(cluster, source);
    let uid = base.uid();
    let mut patch = TestedPatch::for_object(base);
    places.iter().for_each(|place| patch.set(&place.path, place.to.cloned()));
    // An earlier write of this run may have returned what another client has written since.
    if !patch.is_empty() && places.iter().all(|place| place.is_as_planned(base)) {
        match untyped::update(client, cluster, &patch.tested()).await {
            Err(error) if error.is_conflict() || error.is_invalid() => {}
            Err(error) if error.is_not_found() => return Err(changed()),
            written => return written.map_err(failed),
        }
    }
    for _ in 0..ATTEMPTS {
        let Some(found) = untyped::get(client, cluster).await.map_err(failed)? else { return Err(changed()) };
        let is_same = found.uid() == uid && !found.is_being_deleted();
        if !is_same || !places.iter().all(|place| place.is_as_planned(&found)) {
            return Err(changed());
        }
        debug!(%cluster, "Write conflict on the Cluster, retrying");
        let metadata = json!({"uid": uid, "resourceVersion": found.text(paths::metadata::RESOURCE_VERSION)?});
        let mut patch = Map::from_iter([("metadata".to_owned(), metadata)]);
        places.iter().for_each(|place| place.put_into(&mut patch));
        match untyped::update(client, cluster, &Patch::Merge(Value::Object(patch))).await {
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Err(changed()),
            written => return written.map_err(failed),
        }
    }
    Err(changed())
}
