//! The objects of a topology in the form that an API server would store, and the fields that it would reject.

use std::sync::Arc;

use super::desired::{Desired, DesiredObject};
use super::refusals::{CheckedObject, Checks, completed_in};
use super::{Computation, Failure, plan};
use model::hub::Object;
use model::world::{Facts, World};

/// The objects of a topology, and the fields that an API server would reject.
#[derive(Debug)]
pub struct InspectedObjects {
    /// In the order in which they are applied (RS-12), with the defaults of their definitions.
    pub objects: Vec<Object>,
    pub checks: Checks,
}

impl InspectedObjects {
    /// Checks the objects of a computation, by the definitions among the facts.
    ///
    /// # Errors
    /// When an object cannot be applied at all.
    pub fn from_computation(computation: Computation, facts: &Facts) -> Result<Self, Failure> {
        let class = computation.observed.blueprint.class.metadata.key();
        let world = World::new(Arc::new(facts.clone()));
        let mut inspected = InspectedObjects { objects: Vec::new(), checks: Checks::default() };
        for DesiredObject { object, origins } in all(computation.desired) {
            let sent = plan::sent(&object)?;
            let slot = format!("{} {}", sent.kind(), sent.name());
            let subject = CheckedObject { slot: &slot, sent: &sent, merged: &sent, origins: &origins, class: &class };
            inspected.checks.add(subject, &world, None);
            inspected.objects.push(completed_in(&world, sent));
        }
        Ok(inspected)
    }
}

/// The objects in the order in which they are applied (RS-12).
fn all(desired: Desired) -> Vec<DesiredObject> {
    let control_plane = desired.control_plane;
    let mut all: Vec<Option<DesiredObject>> = vec![
        Some(desired.infrastructure),
        control_plane.health_check,
        control_plane.machines,
        Some(control_plane.control_plane),
    ];
    for worker in desired.machine_deployments.into_iter().chain(desired.machine_pools) {
        all.extend([Some(worker.infrastructure), Some(worker.bootstrap), Some(worker.worker), worker.health_check]);
    }
    all.into_iter().flatten().collect()
}
