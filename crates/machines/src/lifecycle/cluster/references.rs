//! Infrastructure and control plane of a Cluster: owner, flags, endpoint, failure domains (MA-27.2 to MA-27.5).

use std::net::IpAddr;
use std::sync::Arc;

use core::time::Duration;

use serde_json::{Map, Value, json};

use super::context::{ClusterContext, ReferencedObject};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::{Flag, terminal_failure};
use crate::lifecycle::fields::{flag, is_to, owner, set, set_label, set_owner, text};
use crate::lifecycle::step::Reconciliation;
use model::hub::contract::Contract;
use model::hub::paths::{cluster, status};
use model::hub::{Object, label};

/// Paths of terminal failures.
pub(super) const FAILURE: [&str; 2] = [status::DEPRECATED_FAILURE_REASON, status::DEPRECATED_FAILURE_MESSAGE];
/// Requeue interval for missing objects.
const MISSING: Duration = Duration::from_secs(30);

/// Infrastructure (MA-27.2, MA-27.3).
///
/// # Errors
/// When the object has another controller, is gone although it was provisioned, or has fields of a wrong type.
pub(super) fn infrastructure(
    ctx: &ClusterContext<'_>,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let part = &ctx.infrastructure;
    if !part.is_set() {
        // Clusters without an infrastructure object are not blocked; with a topology the reference is yet to be set.
        if !ctx.has_topology && !ctx.cluster.is_being_deleted() {
            set(after, status::INFRASTRUCTURE_PROVISIONED, json!(true));
        }
        return Ok(());
    }
    let Some(found) = connect(ctx, part, status::INFRASTRUCTURE_PROVISIONED, after, step)? else {
        return Ok(());
    };
    if !Flag::Provisioned.read(ctx.context, found)? && !after.is_infrastructure_provisioned() {
        return Ok(());
    }
    copy_endpoint(found, after)?;
    copy_failure_domains(ctx, found, after)?;
    raise(
        after,
        status::INFRASTRUCTURE_PROVISIONED,
        step,
        "InfrastructureProvisioned",
        "The infrastructure is provisioned",
    );
    Ok(())
}

/// Control plane (MA-27.4); without a reference it is initialized when one of its machines has a Node.
///
/// # Errors
/// As for the infrastructure.
pub(super) fn control_plane(
    ctx: &ClusterContext<'_>,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    const MESSAGE: &str = "The API server of the control plane can be reached";
    let part = &ctx.control_plane;
    if !part.is_set() {
        let has_node = |machine: &Arc<Object>| !machine.node_name().is_empty();
        if !ctx.has_topology && ctx.control_plane_machines.iter().any(has_node) {
            raise(after, status::CONTROL_PLANE_INITIALIZED, step, "ControlPlaneInitialized", MESSAGE);
        }
        return Ok(());
    }
    let Some(found) = connect(ctx, part, status::CONTROL_PLANE_INITIALIZED, after, step)? else { return Ok(()) };
    if !Flag::ControlPlaneInitialized.read(ctx.context, found)? && !after.is_control_plane_initialized() {
        return Ok(());
    }
    copy_endpoint(found, after)?;
    raise(after, status::CONTROL_PLANE_INITIALIZED, step, "ControlPlaneInitialized", MESSAGE);
    Ok(())
}

/// The referenced object, owned by the Cluster; `None` if it is missing or being deleted, in which case nothing is
/// copied.
fn connect<'s>(
    ctx: &ClusterContext<'_>,
    part: &'s ReferencedObject,
    done: &str,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<Option<&'s Arc<Object>>, StepError> {
    let Some(found) = &part.found else {
        return missing(ctx, part, flag(after, done), step).map(|()| None);
    };
    adopt(ctx, found, step)?;
    copy_failure(found, after, step);
    Ok((!found.is_being_deleted()).then_some(found))
}

fn missing(
    ctx: &ClusterContext<'_>,
    part: &ReferencedObject,
    was_there: bool,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    if ctx.cluster.is_being_deleted() {
        return Ok(());
    }
    if was_there {
        let (kind, name) = (&part.reference.kind, &part.reference.name);
        return Err(StepError::failed(format!("{kind} {name} is missing although the Cluster has used it")));
    }
    step.requeue_after(MISSING);
    Ok(())
}

/// Makes the Cluster an owner, with a topology its controller, and sets the label (CT-15.1).
fn adopt(ctx: &ClusterContext<'_>, found: &Arc<Object>, step: &mut Reconciliation) -> Result<(), StepError> {
    let cluster = ctx.cluster;
    let wanted = owner(cluster, ctx.has_topology);
    if found.label(label::CLUSTER_NAME) == Some(cluster.name())
        && found.owner_references().iter().any(|it| is_same(it, &wanted))
    {
        return Ok(());
    }
    if ctx.has_topology
        && let Some(other) = found.controller()
        && !is_to(other, cluster)
    {
        let other = other.get("name").and_then(Value::as_str).unwrap_or_default();
        return Err(StepError::failed(format!("{} {} is already controlled by {other}", found.kind(), found.name())));
    }
    let mut owned = (**found).clone();
    set_owner(&mut owned, wanted, cluster);
    set_label(&mut owned, label::CLUSTER_NAME, cluster.name());
    step.update_other(found, owned);
    Ok(())
}

/// Whether an owner reference equals another one in the members that core compares.
fn is_same(owner: &Value, wanted: &Value) -> bool {
    let is_controller = |owner: &Value| owner.get("controller") == Some(&Value::Bool(true));
    ["apiVersion", "kind", "name", "uid"].iter().all(|name| owner.get(name) == wanted.get(name))
        && is_controller(owner) == is_controller(wanted)
}

/// Copies a terminal failure of either contract; it is permanent (MA-27.5, CT-5.5, CT-6.7).
fn copy_failure(found: &Object, after: &mut Object, step: &mut Reconciliation) {
    let Some((reason, message)) = terminal_failure(found) else { return };
    let message = match &*message {
        "" => String::new(),
        message => format!("{} {} failed: {message}", found.kind(), found.name()),
    };
    let mut is_new = false;
    for (path, value) in FAILURE.into_iter().zip([&reason, &message]) {
        if !value.is_empty() && text(after, path) != *value {
            set(after, path, json!(value));
            is_new = true;
        }
    }
    if is_new {
        step.warn("ProviderFailed", if message.is_empty() { reason } else { message });
    }
}

/// Copies the endpoint unless the Cluster has a valid one (CT-6.3); zero values count as absent (CT-5.13).
///
/// # Errors
/// When the host is invalid or the port out of range: the endpoint is permanent, and URLs are built from it.
fn copy_endpoint(found: &Object, after: &mut Object) -> Result<(), StepError> {
    if after.has_control_plane_endpoint() {
        return Ok(());
    }
    let wrong = |field: &str, wanted: &str| {
        let (kind, name) = (found.kind(), found.name());
        StepError::failed(format!(
            "spec.controlPlaneEndpoint.{field} of {kind} {name} is not taken over: it is not {wanted}"
        ))
    };
    let mut endpoint = Map::new();
    if let Some(host) = found.text(cluster::CONTROL_PLANE_ENDPOINT_HOST)?.filter(|host| !host.is_empty()) {
        if !is_host(host) {
            return Err(wrong("host", "a DNS name or an IP address"));
        }
        endpoint.insert("host".to_owned(), json!(host));
    }
    if let Some(port) = found.integer(cluster::CONTROL_PLANE_ENDPOINT_PORT)?.filter(|port| *port != 0) {
        if !(1..=65535).contains(&port) {
            return Err(wrong("port", "a number from 1 to 65535"));
        }
        endpoint.insert("port".to_owned(), json!(port));
    }
    set(
        after,
        cluster::CONTROL_PLANE_ENDPOINT,
        if endpoint.is_empty() { Value::Null } else { Value::Object(endpoint) },
    );
    Ok(())
}

/// Whether a text is an IP address or a DNS name. Upper case letters, underscores and a final dot are allowed. A name
/// whose last label is a number would be parsed as an IPv4 address (RFC 1123).
fn is_host(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| {
        let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
        hex.map_or_else(|| label.chars().all(|c| c.is_ascii_digit()), |hex| hex.chars().all(|c| c.is_ascii_hexdigit()))
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_name = name.len() <= 253 && name.split('.').all(is_label) && !name.rsplit('.').next().is_some_and(is_number);
    is_name || text.parse::<IpAddr>().is_ok()
}

/// Copies the current failure domains, sorted by name; removes the list if there are none (CT-6.6).
fn copy_failure_domains(ctx: &ClusterContext<'_>, found: &Object, after: &mut Object) -> Result<(), StepError> {
    let mut domains: Vec<(String, Value)> = match ctx.context.contract(found) {
        Contract::V1Beta1 => {
            let members = found.members_at(status::FAILURE_DOMAINS)?.into_iter().flatten();
            members.map(|(name, it)| (name.clone(), domain(name, it))).collect()
        }
        Contract::V1Beta2 => {
            let name = |it: &Value| it.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let entries = found.list(status::FAILURE_DOMAINS)?.into_iter().flatten();
            entries.map(|it| (name(it), domain(&name(it), it))).collect()
        }
    };
    domains.sort_by(|(a, _), (b, _)| a.cmp(b));
    let domains: Vec<Value> = domains.into_iter().map(|(_, domain)| domain).collect();
    set(after, status::FAILURE_DOMAINS, if domains.is_empty() { Value::Null } else { Value::Array(domains) });
    Ok(())
}

/// A failure domain with all its fields (CT-5.10, CT-5.11).
fn domain(name: &str, value: &Value) -> Value {
    let is_for_control_planes = value.get("controlPlane").and_then(Value::as_bool).unwrap_or_default();
    let mut domain = json!({"name": name, "controlPlane": is_for_control_planes});
    if let Some(attributes) = value.get("attributes").filter(|it| it.as_object().is_some_and(|it| !it.is_empty())) {
        domain["attributes"] = attributes.clone();
    }
    domain
}

/// Sets a permanent flag.
fn raise(after: &mut Object, path: &str, step: &mut Reconciliation, reason: &'static str, message: &str) {
    if !flag(after, path) {
        set(after, path, json!(true));
        step.event(reason, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_dns_names_or_addresses() {
        // CT-6.4
        let (longest, long) = (["a".repeat(63), "b".repeat(63)].join("."), "a".repeat(64));
        let usual = ["h", "10.0.0.1", "::1", "fd00::a", "api.Demo_1.example.com.", "1-2", "1.2.3.a", "1.2.com", "0xg"];
        for host in usual.into_iter().chain([&*longest]) {
            assert!(is_host(host), "{host}");
        }
        let too_long = vec!["a"; 128].join(".");
        let strange =
            ["", ".", "a b", "a\n", "\u{1b}[2J", "a..b", "-a", "a-", "[::1]", "a:1", "a/b", "a@b", "é", "\u{202e}a"];
        // RFC 1123 and the URL standard: a host that ends in a number is an IPv4 address or invalid.
        let numbers = ["1.2.3.999", "1.2.3", "10.0.0.1.", "1", "01.2.3.4", "a.1", "1.2.3.0x7f", "0x", "a.0XFF."];
        for host in strange.into_iter().chain(numbers).chain([&*long, &*too_long]) {
            assert!(!is_host(host), "{host:?}");
        }
    }
}
