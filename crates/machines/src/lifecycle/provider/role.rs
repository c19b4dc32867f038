//! Roles of provider objects, by the field of the owner that refers to them (CT-1.1).

use std::sync::Arc;

use super::context::ProviderContext;
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::{cluster_of, owner_name};
use crate::lifecycle::objects::GroupKind;
use model::hub::{Object, paths};

/// A role with the owner that gives it.
pub(super) enum OwnerRole<'a> {
    InfrastructureCluster(ProviderContext<'a>),
    ControlPlane(ProviderContext<'a>),
    InfrastructureMachine(ProviderContext<'a>, Arc<Object>),
    InfrastructurePool(ProviderContext<'a>, Arc<Object>),
    /// Of a Machine or a MachinePool.
    Bootstrap(ProviderContext<'a>, Arc<Object>),
}

/// The role of an object. `None` without an owner of Cluster API, or if the owner refers to another object (CT-15.1).
pub(super) fn role<'a>(
    context: &'a StepContext<'a>,
    object: &'a Arc<Object>,
) -> Result<Option<OwnerRole<'a>>, StepError> {
    if let Some(name) = owner_name(object, "Cluster")
        && let Some(cluster) = context.core("Cluster", object.namespace(), name)?
    {
        let is = |path: &str| refers(&cluster, path, object);
        let ctx = |cluster: &Arc<Object>| ProviderContext { context, object, cluster: cluster.clone() };
        if is(paths::INFRASTRUCTURE_REF) {
            return Ok(Some(OwnerRole::InfrastructureCluster(ctx(&cluster))));
        }
        if is(paths::cluster::CONTROL_PLANE_REF) {
            return Ok(Some(OwnerRole::ControlPlane(ctx(&cluster))));
        }
    }
    let machine =
        of_owner(context, object, "Machine", [paths::INFRASTRUCTURE_REF, paths::machine::BOOTSTRAP_CONFIG_REF])?;
    if let Some((ctx, owner, is_infrastructure)) = machine {
        let role = if is_infrastructure { OwnerRole::InfrastructureMachine } else { OwnerRole::Bootstrap };
        return Ok(Some(role(ctx, owner)));
    }
    let paths = [paths::worker::INFRASTRUCTURE_REF, paths::worker::BOOTSTRAP_CONFIG_REF];
    let pool = of_owner(context, object, "MachinePool", paths)?;
    Ok(pool.map(|(ctx, owner, is_infrastructure)| {
        let role = if is_infrastructure { OwnerRole::InfrastructurePool } else { OwnerRole::Bootstrap };
        role(ctx, owner)
    }))
}

/// The owner of a kind that refers to the object, and whether as its infrastructure. `None` without a Cluster (CT-12.9,
/// CT-18.3).
fn of_owner<'a>(
    context: &'a StepContext<'a>,
    object: &'a Arc<Object>,
    kind: &str,
    [infrastructure, bootstrap]: [&str; 2],
) -> Result<Option<(ProviderContext<'a>, Arc<Object>, bool)>, StepError> {
    let Some(name) = owner_name(object, kind) else { return Ok(None) };
    let Some(owner) = context.core(kind, object.namespace(), name)? else { return Ok(None) };
    let is_infrastructure = refers(&owner, infrastructure, object);
    if !is_infrastructure && !refers(&owner, bootstrap, object) {
        return Ok(None);
    }
    let cluster = cluster_of(context, &owner)?;
    Ok(cluster.map(|cluster| (ProviderContext { context, object, cluster }, owner, is_infrastructure)))
}

/// Whether the reference at a path is to the object.
fn refers(owner: &Object, path: &str, object: &Object) -> bool {
    let reference = owner.contract_ref_at(path);
    GroupKind::for_reference(&reference) == GroupKind::for_object(object) && reference.name == object.name()
}
