//! The infrastructure cluster.

use super::{Basis, DesiredObject, clone, name_of, naming};
use crate::hub::Named;
use crate::topology::Failure;
use crate::topology::names::Names;

/// The infrastructure cluster (DS-08). The Cluster does not own it: providers begin once they see that owner, which Cluster
/// API sets when the Cluster refers to the object (DS-09).
pub(super) fn compute(basis: Basis<'_>, names: &mut dyn Names) -> Result<DesiredObject, Failure> {
    let current = basis.current.infrastructure.as_ref();
    let naming = &basis.blueprint.class.spec.infrastructure.naming;
    let generated = naming::templated(&naming.template, Named::Cluster, "spec.infrastructure", basis, names)?;
    let name = name_of(current).unwrap_or(generated);
    let mut object = clone::object(&basis.blueprint.infrastructure, &name, clone::Extra::default(), basis)?;
    object.keep_shim(current, basis)?;
    Ok(object)
}
