//! Which role an object of a provider plays: that of the field by which its owner refers to it (CT-1.1).

use std::sync::Arc;

use super::scene::Scene;
use crate::lifecycle::context::{Context, Fault};
use crate::lifecycle::fields::{cluster_of, owner_name, reference};
use crate::lifecycle::objects::GroupKind;
use model::hub::Object;

/// A role, with the owner that gives it.
pub(super) enum Role<'a> {
    InfrastructureCluster(Scene<'a>),
    ControlPlane(Scene<'a>),
    InfrastructureMachine(Scene<'a>, Arc<Object>),
    InfrastructurePool(Scene<'a>, Arc<Object>),
    /// Of a Machine or a MachinePool.
    Bootstrap(Scene<'a>, Arc<Object>),
}

/// The role of an object. One without an owner of Cluster API has none, nor has one whose owner refers to another object (CT-15.1).
pub(super) fn role<'a>(context: &'a Context<'a>, object: &'a Arc<Object>) -> Result<Option<Role<'a>>, Fault> {
    if let Some(name) = owner_name(object, "Cluster")
        && let Some(cluster) = context.core("Cluster", object.namespace(), name)?
    {
        let is = |path: &str| refers(&cluster, path, object);
        let scene = |cluster: &Arc<Object>| Scene { context, object, cluster: cluster.clone() };
        if is("spec.infrastructureRef") {
            return Ok(Some(Role::InfrastructureCluster(scene(&cluster))));
        }
        if is("spec.controlPlaneRef") {
            return Ok(Some(Role::ControlPlane(scene(&cluster))));
        }
    }
    let machine = of_owner(context, object, "Machine", ["spec.infrastructureRef", "spec.bootstrap.configRef"])?;
    if let Some((scene, owner, is_infrastructure)) = machine {
        let role = if is_infrastructure { Role::InfrastructureMachine } else { Role::Bootstrap };
        return Ok(Some(role(scene, owner)));
    }
    let paths = ["spec.template.spec.infrastructureRef", "spec.template.spec.bootstrap.configRef"];
    let pool = of_owner(context, object, "MachinePool", paths)?;
    Ok(pool.map(|(scene, owner, is_infrastructure)| {
        let role = if is_infrastructure { Role::InfrastructurePool } else { Role::Bootstrap };
        role(scene, owner)
    }))
}

/// The owner of a kind that refers to the object, and whether it does so as its infrastructure. Without a Cluster there is no role
/// (CT-12.9, CT-18.3).
fn of_owner<'a>(
    context: &'a Context<'a>,
    object: &'a Arc<Object>,
    kind: &str,
    [infrastructure, bootstrap]: [&str; 2],
) -> Result<Option<(Scene<'a>, Arc<Object>, bool)>, Fault> {
    let Some(name) = owner_name(object, kind) else { return Ok(None) };
    let Some(owner) = context.core(kind, object.namespace(), name)? else { return Ok(None) };
    let is_infrastructure = refers(&owner, infrastructure, object);
    if !is_infrastructure && !refers(&owner, bootstrap, object) {
        return Ok(None);
    }
    let cluster = cluster_of(context, &owner)?;
    Ok(cluster.map(|cluster| (Scene { context, object, cluster }, owner, is_infrastructure)))
}

/// Whether the reference at a path is to the object.
fn refers(owner: &Object, path: &str, object: &Object) -> bool {
    let reference = reference(owner, path);
    GroupKind::to(&reference) == GroupKind::of(object) && reference.name == object.name()
}
