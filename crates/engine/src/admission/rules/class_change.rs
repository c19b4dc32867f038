//! The change of a ClusterClass in a review, and paths in a class.

use std::cell::RefCell;

use crate::admission::AdmissionSettings;
use model::hub::{ClusterClass, ClusterClassSpec, Patch, VariableDefinition, paths};
use model::wire::Reference;
use model::world::World;
use schema::field::Path;
use schema::openapi::SchemaAllowance;

/// A ClusterClass that is created or updated.
pub(super) struct ClassChange<'a> {
    pub new: &'a ClusterClass,
    pub old: Option<&'a ClusterClass>,
    /// The references of a v1beta1 object, with fields that the hub lacks.
    pub references: &'a [Reference],
    /// A class whose equal variables and patches are not checked again.
    known: Option<&'a ClusterClass>,
    pub world: &'a World,
    pub settings: &'a AdmissionSettings,
    /// The remaining allowance of its variables and patches (DEC-44).
    pub allowance: RefCell<SchemaAllowance>,
}

impl<'a> ClassChange<'a> {
    pub(super) fn new(
        new: &'a ClusterClass,
        old: Option<&'a ClusterClass>,
        references: &'a [Reference],
        world: &'a World,
        settings: &'a AdmissionSettings,
    ) -> Self {
        let allowance = RefCell::new(SchemaAllowance::new(world.stop().clone()));
        ClassChange { new, old, references, known: None, world, settings, allowance }
    }

    /// The variables and patches of `class` that `known` does not have, with a separate allowance.
    pub(super) fn beside(&self, class: &'a ClusterClass, known: &'a ClusterClass) -> Self {
        ClassChange { known: Some(known), ..ClassChange::new(class, None, &[], self.world, self.settings) }
    }

    pub(super) fn knows_variable(&self, variable: &VariableDefinition) -> bool {
        self.known.is_some_and(|known| known.spec.variables.contains(variable))
    }

    pub(super) fn knows_patch(&self, patch: &Patch) -> bool {
        self.known.is_some_and(|known| known.spec.patches.contains(patch))
    }

    pub(super) fn spec(&self) -> &ClusterClassSpec {
        &self.new.spec
    }
}

pub(super) fn control_plane_health_check() -> Path {
    Path::new(paths::cluster_class::CONTROL_PLANE_HEALTH_CHECK)
}

pub(super) fn machine_deployment(class: &str) -> Path {
    Path::new(paths::cluster_class::MACHINE_DEPLOYMENTS).key(class)
}

pub(super) fn machine_pool(class: &str) -> Path {
    Path::new(paths::cluster_class::MACHINE_POOLS).key(class)
}
