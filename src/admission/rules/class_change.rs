//! What a review changes of a ClusterClass, and paths into one.

use std::cell::RefCell;

use crate::admission::Settings;
use crate::field::Path;
use crate::hub::{ClusterClass, ClusterClassSpec};
use crate::schema::Allowance;
use crate::wire::Reference;
use crate::world::World;

/// A ClusterClass that is created or updated.
pub(super) struct ClassChange<'a> {
    pub new: &'a ClusterClass,
    pub old: Option<&'a ClusterClass>,
    /// The references of a v1beta1 object, with what the hub does not have.
    pub references: &'a [Reference],
    pub world: &'a World,
    pub settings: &'a Settings,
    /// What its variables and patches may still take together (DEC-44).
    pub allowance: RefCell<Allowance>,
}

impl<'a> ClassChange<'a> {
    pub(super) fn new(
        new: &'a ClusterClass,
        old: Option<&'a ClusterClass>,
        references: &'a [Reference],
        world: &'a World,
        settings: &'a Settings,
    ) -> Self {
        let allowance = RefCell::new(Allowance::new(world.stop().clone()));
        ClassChange { new, old, references, world, settings, allowance }
    }

    pub(super) fn spec(&self) -> &ClusterClassSpec {
        &self.new.spec
    }
}

pub(super) fn control_plane_health_check() -> Path {
    Path::of("spec.controlPlane.healthCheck")
}

pub(super) fn machine_deployment(class: &str) -> Path {
    Path::of("spec.workers.machineDeployments").key(class)
}

pub(super) fn machine_pool(class: &str) -> Path {
    Path::of("spec.workers.machinePools").key(class)
}
