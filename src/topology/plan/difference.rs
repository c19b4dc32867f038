//! Which fields of an object a topology changes, and what each change comes from.

use serde_json::Value;

use super::{Applied, Certainty, Change};
use crate::hub::{Definition, Object, ObjectRef, version_of};
use crate::hub::contract::definition_name;
use crate::ssa::{self, Ownership, Schema};
use crate::topology::Failure;
use crate::topology::desired::DesiredObject;
use crate::world::{Found, World};

/// The field manager of everything that a topology applies (SSA-01).
pub const MANAGER: &str = "capi-topology";

/// What is left out of infrastructure clusters and control planes (SSA-03).
const UNSET_ENDPOINT: [(&str, UnsetValue); 2] =
    [("spec.controlPlaneEndpoint.host", UnsetValue::Text), ("spec.controlPlaneEndpoint.port", UnsetValue::Number)];

/// The value with which providers say that an endpoint is not known yet.
#[derive(Clone, Copy)]
enum UnsetValue {
    Text,
    Number,
}

/// How an object is to change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub changes: Vec<Change>,
    /// Whether any of them is below `spec`.
    pub is_in_spec: bool,
    /// Whether nothing but the record of who owns which fields changes.
    pub is_ownership_only: bool,
    pub certainty: Certainty,
}

impl Difference {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.is_ownership_only
    }
}

/// What is sent of a desired object (SSA-02 to SSA-04).
pub(super) fn sent(desired: &Object, has_endpoint: bool) -> Result<Object, Failure> {
    let mut ignored = Vec::new();
    if has_endpoint {
        for (path, unset) in UNSET_ENDPOINT {
            let is_unset = match unset {
                UnsetValue::Text => desired.text(path)? == Some(""),
                UnsetValue::Number => desired.integer(path)? == Some(0),
            };
            if is_unset {
                ignored.push(path);
            }
        }
    }
    Ok(Object::from(ssa::reduce(desired.members(), &ignored)))
}
