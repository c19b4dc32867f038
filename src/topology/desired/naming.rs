//! Names of new objects (NAM-01 to NAM-06).

use super::Basis;
use crate::hub::{Named, default_name, name_from, prefixed_name};
use crate::topology::Failure;
use crate::topology::names::Names;

/// The name that a naming template of the class gives, or the default one. `path` is where the part stands in the class.
///
/// It is computed for objects that exist as well, so that a template that gives no names shows at once (NAM-01).
pub(super) fn templated(
    template: &str,
    part: Named<'_>,
    path: &str,
    basis: Basis<'_>,
    names: &mut dyn Names,
) -> Result<String, Failure> {
    let cluster = basis.blueprint.cluster.metadata.key();
    let mut slot = match part {
        Named::Cluster => path.to_owned(),
        Named::MachineDeployment(name) | Named::MachinePool(name) => format!("{path}/{name}"),
    };
    let end = || {
        let end = names.end(&cluster, &slot);
        // A name that has to be cut gets fresh characters (NAM-05).
        slot.push_str("/cut");
        end
    };
    if template.is_empty() {
        return Ok(default_name(&cluster.name, part, end));
    }
    name_from(template, &cluster.name, part, end)
        .map_err(|reason| Failure::Naming { path: format!("{path}.naming.template"), reason })
}

/// The name of an object that only its prefix says something of (NAM-06).
pub(super) fn prefixed(prefix: &str, slot: &str, basis: Basis<'_>, names: &mut dyn Names) -> String {
    prefixed_name(prefix, &names.end(&basis.blueprint.cluster.metadata.key(), slot))
}
