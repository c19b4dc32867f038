//! Decoding of API versions into the hub.
//!
//! ```text
//! v1beta2 text ───────────────► hub
//! v1beta1 text ─► edits (up) ─► hub        v1alpha4 has the shape of v1beta1 for our kinds
//! ```
//!
//! Also here: the conversion between versions, which shares these edits ([`conversion`]), the envelopes of reviews
//! ([`review`], [`conversion_review`]; see [conversion webhooks][versioning]), and manifest files ([`manifest`]).
//!
//! [versioning]: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion

pub mod conversion;
pub mod conversion_review;
pub mod manifest;
mod references;
pub mod review;

use std::fmt;

use serde::de::DeserializeOwned;

pub use references::{Reference, references};

use crate::hub::{Cluster, ClusterClass, GROUP, Kind, Machine, MachineGroup, MachineHealthCheck};
use golang::json::{self, PlainValue};

/// A wire version of the group `cluster.x-k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireVersion {
    /// In files and at the v1beta1 endpoints; it has the schema of v1beta1.
    V1Alpha4,
    V1Beta1,
    V1Beta2,
}

/// The schema of an object; v1alpha4 has that of v1beta1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaVersion {
    /// Deprecated, with looser schemas.
    V1Beta1,
    /// The schema of the hub and of storage.
    V1Beta2,
}

impl WireVersion {
    /// Every version.
    pub const ALL: [WireVersion; 3] = [WireVersion::V1Alpha4, WireVersion::V1Beta1, WireVersion::V1Beta2];

    /// The version with the other field names.
    #[must_use]
    pub const fn other(self) -> WireVersion {
        match self {
            WireVersion::V1Beta2 => WireVersion::V1Beta1,
            WireVersion::V1Alpha4 | WireVersion::V1Beta1 => WireVersion::V1Beta2,
        }
    }

    /// `v1beta2`.
    pub const fn name(self) -> &'static str {
        match self {
            WireVersion::V1Alpha4 => "v1alpha4",
            WireVersion::V1Beta1 => "v1beta1",
            WireVersion::V1Beta2 => "v1beta2",
        }
    }

    /// The schema of this version.
    pub const fn schema_version(self) -> SchemaVersion {
        match self {
            WireVersion::V1Alpha4 | WireVersion::V1Beta1 => SchemaVersion::V1Beta1,
            WireVersion::V1Beta2 => SchemaVersion::V1Beta2,
        }
    }

    /// The version `name`.
    pub fn from_name(name: &str) -> Option<WireVersion> {
        WireVersion::ALL.into_iter().find(|version| version.name() == name)
    }

    /// The version of an `apiVersion` of our group.
    pub fn from_api_version(api_version: &str) -> Option<WireVersion> {
        let (group, version) = api_version.split_once('/')?;
        (group == GROUP).then(|| WireVersion::from_name(version)).flatten()
    }
}

impl fmt::Display for WireVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hub kind that can be decoded from every wire version.
pub trait Decode: DeserializeOwned {
    /// The kind whose schema it has.
    const KIND: Kind;

    /// Decodes an object (ADM-003).
    ///
    /// # Errors
    /// The decoder's message with the path of the invalid field. Paths are those of v1beta2.
    fn decode(version: WireVersion, text: &str) -> Result<Self, String> {
        read(version, text, Self::KIND).map_err(without_values)
    }
}

impl Decode for Cluster {
    const KIND: Kind = Kind::Cluster;
}

impl Decode for ClusterClass {
    const KIND: Kind = Kind::ClusterClass;
}

impl Decode for Machine {
    const KIND: Kind = Kind::Machine;
}

impl Decode for MachineGroup {
    // The fields of a MachineSet are a subset of those of a MachineDeployment.
    const KIND: Kind = Kind::MachineDeployment;
}

impl Decode for MachineHealthCheck {
    const KIND: Kind = Kind::MachineHealthCheck;
}

/// A v1beta1 object as JSON with the schema of the hub; `None` if it cannot be converted, or has that schema already.
pub fn as_hub_json(version: WireVersion, text: &str, kind: Kind) -> Option<serde_json::Value> {
    if version.schema_version() == SchemaVersion::V1Beta2 {
        return None;
    }
    let PlainValue(mut value) = json::decode(text).ok()?;
    conversion::to_hub(kind, &mut value).ok()?;
    Some(value)
}

/// The error without texts of variables, which may be misplaced passwords (DEC-34).
fn without_values(error: String) -> String {
    let (Some(path), Some(begin)) = (error.split(':').next(), error.find("string \"")) else { return error };
    let end = error.rfind("\", expected").filter(|end| begin < *end && path.contains("variables"));
    match end {
        Some(end) => format!("{}string{}", &error[..begin], &error[end + 1..]),
        None => error,
    }
}

fn read<T: serde::de::DeserializeOwned>(version: WireVersion, text: &str, kind: Kind) -> Result<T, String> {
    if version.schema_version() == SchemaVersion::V1Beta2 {
        return json::decode(text);
    }
    let PlainValue(mut value) = json::decode(text)?;
    conversion::to_hub(kind, &mut value).map_err(|error| error.to_string())?;
    json::decode(&value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    /// JSON with the names that conversions look for, and values of other types.
    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop_oneof![Just("5m"), Just("a/b/c"), Just("v1"), Just("-1000000h"), Just("\u{0}é")].prop_map(Value::from),
        ];
        let names = prop::sample::select(vec![
            "metadata",
            "spec",
            "status",
            "topology",
            "class",
            "classNamespace",
            "controlPlane",
            "workers",
            "rolloutAfter",
            "machineDeployments",
            "machinePools",
            "machineHealthCheck",
            "unhealthyConditions",
            "timeout",
            "strategy",
            "remediation",
            "maxInFlight",
            "rollingUpdate",
            "deletePolicy",
            "template",
            "bootstrap",
            "infrastructure",
            "ref",
            "templateRef",
            "apiVersion",
            "controlPlaneRef",
            "infrastructureRef",
            "namingStrategy",
            "infrastructureNamingStrategy",
            "variables",
            "schema",
            "openAPIV3Schema",
            "patches",
            "external",
            "generateExtension",
            "conditions",
            "v1beta2",
            "nodeDrainTimeout",
            "rollout",
            "after",
            "definitions",
            "namespace",
            "enum",
            "default",
            "properties",
            "additionalProperties",
        ]);
        leaf.prop_recursive(7, 96, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((names.clone(), inner), 0..6).prop_map(|members| Value::from(
                    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()
                )),
            ]
        })
    }

    proptest! {
        #![proptest_config(testing::cases(512))]

        #[test]
        fn no_object_makes_a_decoder_panic(spec in object(), status in object()) {
            let text = json!({"metadata": {"name": "x"}, "spec": spec, "status": status}).to_string();
            for version in WireVersion::ALL {
                let _ = Cluster::decode(version, &text);
                let _ = ClusterClass::decode(version, &text);
            }
        }

        #[test]
        fn no_object_makes_a_conversion_panic(spec in object(), status in object(), metadata in object()) {
            let (old, new) = (WireVersion::V1Beta1, WireVersion::V1Beta2);
            for (from, to) in [(old, new), (new, old)] {
                for kind in Kind::ALL {
                    let api_version = format!("{GROUP}/{from}");
                    let mut object =
                        json!({"apiVersion": api_version, "metadata": metadata, "spec": spec, "status": status});
                    let versions = conversion::versions_needed(kind, &object, to)
                        .into_iter()
                        .map(|needed| (needed, Ok("v1".to_owned())))
                        .collect();
                    if conversion::convert(kind, &mut object, to, &versions).is_ok() {
                        let _ = conversion::convert(kind, &mut object, from, &versions);
                    }
                }
            }
        }

        #[test]
        fn no_text_makes_a_decoder_panic(text in "[\\[\\]{}\",:a-z0-9.e+-]{0,60}") {
            for version in WireVersion::ALL {
                let _ = Cluster::decode(version, &text);
            }
            let _ = serde_json::from_str::<review::AdmissionReview<'_>>(&text);
        }
    }
}
