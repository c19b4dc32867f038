//! The previous desired state of existing objects (DEC-43).

use std::sync::{Arc, Weak};

use super::difference::sent;
use super::{AppliedState, LastApplied};
use crate::topology::current::Current;
use crate::topology::desired::{Desired, DesiredObject, DesiredWorker};
use crate::topology::status::TOPOLOGY_RECONCILED;
use crate::topology::{Computation, Failure};
use model::hub::{Cluster, Object};

/// A current object with its desired state.
type CurrentAndDesired = (Option<Arc<Object>>, Option<DesiredObject>);

impl AppliedState {
    /// Records the desired state of every existing object, except of objects whose slot gets another kind.
    ///
    /// # Errors
    /// When an endpoint has a value of the wrong type.
    pub(super) fn note(&mut self, computation: Computation) -> Result<(), Failure> {
        let Computation { observed, desired, .. } = computation;
        let is_rolled_out = is_rolled_out(&observed.blueprint.cluster);
        for (is, wanted) in pairs(&observed.current, desired) {
            let (Some(is), Some(DesiredObject { object, origins })) = (is, wanted) else { continue };
            if (is.group(), is.kind()) == (object.group(), object.kind()) {
                let (object, origins) = (Arc::new(sent(&object)?), Arc::new(origins));
                self.put(&is.reference(), LastApplied { object, origins, is_rolled_out, stored: Weak::new() });
            }
        }
        Ok(())
    }
}

/// Whether the objects of a Cluster match its topology: it is not paused, and its condition does not report otherwise.
/// A Cluster without status, as in handwritten files, counts as rolled out.
fn is_rolled_out(cluster: &Cluster) -> bool {
    let mut conditions = cluster.status.conditions.iter();
    let waits = conditions.any(|condition| condition.r#type == TOPOLOGY_RECONCILED && condition.status != "True");
    !cluster.is_paused() && !waits
}

/// All slots of a topology.
fn pairs(current: &Current, desired: Desired) -> Vec<CurrentAndDesired> {
    let Desired { infrastructure, control_plane, machine_deployments, machine_pools, .. } = desired;
    let is = current.control_plane.clone();
    let mut all = vec![
        (current.infrastructure.clone(), Some(infrastructure)),
        (is.object, Some(control_plane.control_plane)),
        (is.machines, control_plane.machines),
        (is.health_check, control_plane.health_check),
    ];
    for DesiredWorker { kind, topology_name, worker, bootstrap, infrastructure, health_check, .. } in
        machine_deployments.into_iter().chain(machine_pools)
    {
        let Some(is) = current.workers(kind).get(&topology_name).cloned() else { continue };
        all.extend([
            (Some(is.object), Some(worker)),
            (is.bootstrap, Some(bootstrap)),
            (is.infrastructure, Some(infrastructure)),
            (is.health_check, health_check),
        ]);
    }
    all
}
