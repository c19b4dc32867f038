//! From what travels to the hub.
//!
//! ```text
//! v1beta2 text ───────────────► hub
//! v1beta1 text ─► edits (up) ─► hub        v1alpha4 has the shape of v1beta1 for our kinds
//! ```
//!
//! Also the AdmissionReview envelope ([`review`]) and files of manifests ([`manifest`]).

mod duration;
pub mod manifest;

pub mod review;
mod v1beta1;

use std::fmt;

use serde_json::Value;

use crate::hub::{Cluster, ClusterClass, GROUP};
use crate::json;

/// A version of the group `cluster.x-k8s.io` in which objects arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// In files and on the v1beta1 end points; the shape is that of v1beta1.
    V1Alpha4,
    V1Beta1,
    V1Beta2,
}

impl Version {
    /// Every version.
    pub const ALL: [Version; 3] = [Version::V1Alpha4, Version::V1Beta1, Version::V1Beta2];

    /// `v1beta2`.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V1Alpha4 => "v1alpha4",
            Version::V1Beta1 => "v1beta1",
            Version::V1Beta2 => "v1beta2",
        }
    }

    /// The version called `name`.
    pub fn from_name(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    /// The version of an `apiVersion` of our group.
    pub fn from_api_version(api_version: &str) -> Option<Version> {
        let (group, version) = api_version.split_once('/')?;
        (group == GROUP).then(|| Version::from_name(version)).flatten()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kind of the hub that can be read from every wire version.
pub trait Decode: Sized {
    /// Reads an object (ADM-003).
    ///
    /// # Errors
    /// The decoder's words, with the path of the offending field. Paths are those of v1beta2.
    fn decode(version: Version, text: &str) -> Result<Self, String>;
}

impl Decode for Cluster {
    fn decode(version: Version, text: &str) -> Result<Self, String> {
        decode(version, text, v1beta1::cluster_to_hub)
    }
}

impl Decode for ClusterClass {
    fn decode(version: Version, text: &str) -> Result<Self, String> {
        decode(version, text, v1beta1::cluster_class_to_hub)
    }
}

fn decode<T: serde::de::DeserializeOwned>(
    version: Version,
    text: &str,
    to_hub: fn(&mut Value) -> Result<(), v1beta1::ConversionError>,
) -> Result<T, String> {
    if version == Version::V1Beta2 {
        return json::decode(text);
    }
    let mut value: Value = json::decode(text)?;
    to_hub(&mut value).map_err(|error| error.to_string())?;
    json::decode(&value.to_string())
}
