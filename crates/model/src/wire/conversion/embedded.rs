//! Conversion of the kinds of the embedded provider between v1alpha1 and v1beta1.
//!
//! v1beta1 is stored and follows the contract v1beta2; v1alpha1 follows the contract v1beta1 (CT-3.2, CT-5.4). No data
//! is lost in either direction: parts that the other version cannot represent are restored from the annotation, as long
//! as the spec or status that they belong to is unchanged (CONV-017).

use std::fmt;

use serde_json::{Value, json};

use super::table::{EmbeddedRole, places_of_provider};
use super::{ConversionError, ConvertResult, KindKey, KindVersions, moves, preserved};

/// The group of infrastructure clusters, machines and pools.
pub const INFRASTRUCTURE: &str = "infrastructure.topologist.dev";
/// The group of bootstrap configurations.
pub const BOOTSTRAP: &str = "bootstrap.topologist.dev";
/// The group of control planes.
pub const CONTROL_PLANE: &str = "controlplane.topologist.dev";

/// A version of these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddedVersion {
    /// The version of the contract v1beta1.
    V1Alpha1,
    /// The version of the contract v1beta2, which is stored.
    V1Beta1,
}

impl EmbeddedVersion {
    /// `v1beta1`
    pub const fn name(self) -> &'static str {
        match self {
            EmbeddedVersion::V1Alpha1 => "v1alpha1",
            EmbeddedVersion::V1Beta1 => "v1beta1",
        }
    }

    /// The version for an `apiVersion` of the provider's groups.
    pub fn from_api_version(api_version: &str) -> Option<EmbeddedVersion> {
        let (group, version) = api_version.split_once('/')?;
        let all = [EmbeddedVersion::V1Alpha1, EmbeddedVersion::V1Beta1];
        let is_ours = [INFRASTRUCTURE, BOOTSTRAP, CONTROL_PLANE].contains(&group);
        all.into_iter().find(|one| is_ours && one.name() == version)
    }
}

impl fmt::Display for EmbeddedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kind of the embedded provider.
#[derive(Debug, PartialEq, Eq)]
pub struct EmbeddedKind {
    pub group: &'static str,
    pub name: &'static str,
    part: EmbeddedRole,
}

impl EmbeddedKind {
    /// The kinds, a kind before its template.
    pub const ALL: [EmbeddedKind; 10] = [
        EmbeddedKind { group: INFRASTRUCTURE, name: "EmbeddedCluster", part: EmbeddedRole::Cluster },
        EmbeddedKind { group: INFRASTRUCTURE, name: "EmbeddedClusterTemplate", part: EmbeddedRole::ClusterTemplate },
        EmbeddedKind { group: INFRASTRUCTURE, name: "EmbeddedMachine", part: EmbeddedRole::Machine },
        EmbeddedKind { group: INFRASTRUCTURE, name: "EmbeddedMachineTemplate", part: EmbeddedRole::OtherTemplate },
        EmbeddedKind { group: INFRASTRUCTURE, name: "EmbeddedMachinePool", part: EmbeddedRole::MachinePool },
        EmbeddedKind { group: INFRASTRUCTURE, name: "EmbeddedMachinePoolTemplate", part: EmbeddedRole::OtherTemplate },
        EmbeddedKind { group: BOOTSTRAP, name: "EmbeddedConfig", part: EmbeddedRole::Config },
        EmbeddedKind { group: BOOTSTRAP, name: "EmbeddedConfigTemplate", part: EmbeddedRole::OtherTemplate },
        EmbeddedKind { group: CONTROL_PLANE, name: "EmbeddedControlPlane", part: EmbeddedRole::ControlPlane },
        EmbeddedKind {
            group: CONTROL_PLANE,
            name: "EmbeddedControlPlaneTemplate",
            part: EmbeddedRole::ControlPlaneTemplate,
        },
    ];

    /// The kind of this group and name.
    pub fn find(group: &str, name: &str) -> Option<&'static EmbeddedKind> {
        const ALL: &[EmbeddedKind] = &EmbeddedKind::ALL;
        ALL.iter().find(|kind| kind.group == group && kind.name == name)
    }

    /// The kind of an object in one of the two versions.
    pub fn for_object(object: &Value) -> Option<&'static EmbeddedKind> {
        let api_version = object["apiVersion"].as_str()?;
        EmbeddedVersion::from_api_version(api_version)?;
        EmbeddedKind::find(api_version.split_once('/')?.0, object["kind"].as_str()?)
    }
}

/// Kinds whose API versions are needed to convert an object (CONV-005); those of the provider's kinds are known.
pub fn versions_needed(object: &Value, to: EmbeddedVersion) -> Vec<KindKey> {
    if to != EmbeddedVersion::V1Alpha1 || version(object) != Some(EmbeddedVersion::V1Beta1) {
        return Vec::new();
    }
    let foreign = reference(object, "apiGroup").filter(|(group, kind)| EmbeddedKind::find(group, kind).is_none());
    foreign.filter(|(group, _)| !group.is_empty()).into_iter().collect()
}

/// Converts an object to a version; unchanged if it already has that version (CONV-017).
///
/// # Errors
/// When a value cannot be converted, or the object has no version of its kind. The object is then partially converted.
pub fn convert(kind: &EmbeddedKind, object: &mut Value, to: EmbeddedVersion, versions: &KindVersions) -> ConvertResult {
    let from = version(object).ok_or(ConversionError::NotOurs)?;
    if from != to {
        let kept = preserved::take(object).filter(|kept| version(kept) == Some(to));
        let original = object.clone();
        for part in PARTS {
            let restored = kept.as_ref().and_then(|kept| restored(kind, &original, kept, part, from));
            let converted = match restored {
                Some(value) => Some(value),
                None => converted(kind, &original, part, to, versions)?,
            };
            if let Some(value) = converted {
                object[part] = value;
            }
        }
        keep(kind, object, &original, from);
    }
    let members = object.as_object_mut().ok_or(ConversionError::NotOurs)?;
    members.insert("apiVersion".to_owned(), json!(format!("{}/{to}", kind.group)));
    // The API server requires metadata, and ignores changes to it.
    members.entry("metadata").or_insert_with(|| json!({}));
    Ok(())
}

/// The parts of an object that differ between versions and are written independently.
const PARTS: [&str; 2] = ["spec", "status"];

fn version(object: &Value) -> Option<EmbeddedVersion> {
    EmbeddedVersion::from_api_version(object["apiVersion"].as_str()?)
}

/// A part of an object in another version.
fn converted(
    kind: &EmbeddedKind,
    object: &Value,
    part: &str,
    to: EmbeddedVersion,
    versions: &KindVersions,
) -> Result<Option<Value>, ConversionError> {
    let Some(value) = object.get(part) else { return Ok(None) };
    let mut alone = json!({"metadata": object["metadata"], part: value});
    let places = places_of_provider(kind.part);
    match to {
        EmbeddedVersion::V1Beta1 => moves::places_up(places, &mut alone)?,
        EmbeddedVersion::V1Alpha1 => {
            let own = EmbeddedKind::ALL.iter().map(|kind| {
                ((kind.group.to_owned(), kind.name.to_owned()), Ok(EmbeddedVersion::V1Alpha1.name().to_owned()))
            });
            let versions: KindVersions = own.chain(versions.clone()).collect();
            moves::places_down(places, &mut alone, &versions)?;
            if kind.part == EmbeddedRole::ControlPlane {
                count(&mut alone, &object["spec"]["replicas"]);
            }
        }
    }
    Ok(Some(alone[part].take()))
}

/// Counters of the older contract that the newer one lacks: missing and unready Machines (CT-10.3), and whether any is
/// ready.
fn count(object: &mut Value, wanted: &Value) {
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    let number = |name: &str| status.get(name).and_then(Value::as_i64);
    let Some(there) = number("replicas") else { return };
    let ready = number("readyReplicas").unwrap_or_default();
    let missing = there.max(wanted.as_i64().unwrap_or(1)).saturating_sub(ready).max(0);
    status.insert("unavailableReplicas".to_owned(), json!(missing));
    status.insert("ready".to_owned(), json!(ready > 0));
}

/// A part from the annotation, if the part of the object is unchanged since.
fn restored(kind: &EmbeddedKind, object: &Value, kept: &Value, part: &str, from: EmbeddedVersion) -> Option<Value> {
    let value = kept.get(part)?;
    let mut before = json!({"metadata": object["metadata"], part: value});
    if part == "status" {
        before["spec"] = json!({"replicas": object["spec"]["replicas"]});
    }
    let again = converted(kind, &before, part, from, &versions_of(object)).ok()?;
    (again.as_ref() == object.get(part)).then(|| value.clone())
}

/// Stores the parts that would not survive the conversion in the annotation.
fn keep(kind: &EmbeddedKind, object: &mut Value, original: &Value, from: EmbeddedVersion) {
    let is_lost = |part: &&str| {
        let again = converted(kind, object, part, from, &KindVersions::new());
        again.map_or(true, |again| again.as_ref() != original.get(*part))
    };
    let lost: Vec<&str> = PARTS.into_iter().filter(|part| original.get(*part).is_some() && is_lost(part)).collect();
    if lost.is_empty() {
        return;
    }
    let mut kept = json!({"apiVersion": original["apiVersion"]});
    for part in lost {
        kept[part] = original[part].clone();
    }
    preserved::write(object, |_| Some(kept.to_string()));
}

/// The version of the references in a v1alpha1 object.
fn versions_of(object: &Value) -> KindVersions {
    let version = reference(object, "apiVersion").and_then(|(api_version, kind)| {
        let (group, version) = api_version.split_once('/')?;
        Some(((group.to_owned(), kind), Ok(version.to_owned())))
    });
    version.into_iter().collect()
}

/// Group or version, and kind, of the machine template of a control plane.
fn reference(object: &Value, group: &str) -> Option<KindKey> {
    let template = &object["spec"]["machineTemplate"];
    let reference = if group == "apiGroup" { &template["spec"] } else { template }.get("infrastructureRef")?;
    let text = |name: &str| reference[name].as_str().map(str::to_owned);
    Some((text(group)?, text("kind")?))
}

#[cfg(test)]
mod tests;
