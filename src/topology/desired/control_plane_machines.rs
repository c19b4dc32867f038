//! The template of the machines of the control plane.

use super::{Basis, DesiredObject, clone, name_of, naming};
use crate::topology::Failure;
use crate::topology::names::Names;

/// The template of the control plane's machines, if the class has one (DS-11).
pub(super) fn compute(basis: Basis<'_>, names: &mut dyn Names) -> Result<Option<DesiredObject>, Failure> {
    let Some(template) = &basis.blueprint.control_plane_machines else { return Ok(None) };
    let name = name_of(basis.current.control_plane.machines.as_ref()).unwrap_or_else(|| {
        let prefix = format!("{}-", basis.cluster_name());
        naming::prefixed(&prefix, "spec.controlPlane.machineInfrastructure", basis, names)
    });
    clone::template(template, &name, clone::Extra::default(), basis).map(Some)
}
