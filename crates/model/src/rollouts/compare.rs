//! Differences as a controller sees them: leaves that differ after defaulting, ignoring empty values (ROLL-5).

use serde_json::{Map, Value, json};

use super::RolloutOwner;
use crate::hub::paths;
use golang::version::KubeVersion;

/// A leaf that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafDifference<'a> {
    /// Kubernetes-style path: `spec.kubeadmConfigSpec.files`.
    pub path: String,
    pub from: Option<&'a Value>,
    pub to: Option<&'a Value>,
}

/// kubeadm's default taints; an empty list means no taints.
const TAINTS: &str = "nodeRegistration.taints";
/// Feature gate that kubeadm sets from 1.31 on and that is always enabled from 1.36 on.
const LOCAL_MODE: &str = "spec.kubeadmConfigSpec.clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode";
/// The minor versions of Kubernetes 1 for which kubeadm sets it.
const WITH_LOCAL_MODE: std::ops::Range<u64> = 31..36;

/// Differences between two values at a path, for a control plane or workers of this Kubernetes version.
pub fn differences<'a>(
    owner: RolloutOwner,
    version: &str,
    path: &str,
    from: Option<&'a Value>,
    to: Option<&'a Value>,
) -> Vec<LeafDifference<'a>> {
    let mut found = Vec::new();
    leaves(path, from, to, &mut found);
    if owner == RolloutOwner::KubeadmControlPlane {
        found.retain(|leaf| {
            leaf.from.or(default(&leaf.path, version).as_ref()) != leaf.to.or(default(&leaf.path, version).as_ref())
        });
    }
    found
}

fn leaves<'a>(path: &str, from: Option<&'a Value>, to: Option<&'a Value>, found: &mut Vec<LeafDifference<'a>>) {
    let is_map = |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
    if from == to || (is_empty(from) && is_empty(to) && !path.ends_with(TAINTS)) {
        return;
    }
    if !(is_map(from) && is_map(to)) {
        found.push(LeafDifference { path: path.to_owned(), from, to });
        return;
    }
    let members = |value: Option<&'a Value>| value.and_then(Value::as_object);
    let (from, to) = (members(from), members(to));
    let names = |of: Option<&'a Map<String, Value>>| of.into_iter().flat_map(Map::keys);
    for name in names(from).chain(names(to).filter(|name| from.is_none_or(|from| !from.contains_key(*name)))) {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let path = if is_plain { format!("{path}.{name}") } else { format!("{path}[{name}]") };
        leaves(&path, from.and_then(|from| from.get(name)), to.and_then(|to| to.get(name)), found);
    }
}

/// Whether a value is empty: absent, an empty list, or a map of empty values.
fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.values().all(|value| is_empty(Some(value))),
        Some(_) => false,
    }
}

/// The default of an absent value.
fn default(path: &str, version: &str) -> Option<Value> {
    let field = path.strip_prefix(paths::control_plane::KUBEADM_CONFIG)?;
    let has_local_mode = || {
        KubeVersion::parse_tolerant(version)
            .is_ok_and(|version| version.major() == 1 && WITH_LOCAL_MODE.contains(&version.minor()))
    };
    match field {
        ".format" => Some(json!("cloud-config")),
        ".initConfiguration.nodeRegistration.imagePullPolicy"
        | ".joinConfiguration.nodeRegistration.imagePullPolicy" => Some(json!("IfNotPresent")),
        _ if path == LOCAL_MODE && has_local_mode() => Some(json!(true)),
        _ => None,
    }
}

/// Whether a machine initialised by `kubeadm init` equals one that joins now, as far as these two configurations tell
/// (ROLL-3).
pub fn initialized_as_joined(init: Option<&Value>, join: Option<&Value>) -> bool {
    let read = |from: Option<&Value>, endpoint: &str| {
        let mut read = Map::new();
        for name in ["timeouts", "patches", "skipPhases", "nodeRegistration"] {
            let value = from.and_then(|from| from.get(name)).cloned();
            value.map(|value| read.insert(name.to_owned(), value));
        }
        if let Some(Value::Object(timeouts)) = read.get_mut("timeouts") {
            timeouts.remove("controlPlaneComponentHealthCheckSeconds");
        }
        let endpoint = from.and_then(|from| from.pointer(endpoint)).cloned();
        endpoint.map(|endpoint| read.insert("localAPIEndpoint".to_owned(), endpoint));
        Value::Object(read)
    };
    let (init, join) = (read(init, "/localAPIEndpoint"), read(join, "/controlPlane/localAPIEndpoint"));
    differences(
        RolloutOwner::KubeadmControlPlane,
        "",
        "spec.kubeadmConfigSpec.joinConfiguration",
        Some(&init),
        Some(&join),
    )
    .is_empty()
}
