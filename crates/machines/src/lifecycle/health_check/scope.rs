//! Machines selected by a MachineHealthCheck (MA-19.1).

use std::fmt::Display;
use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::selector::ObjectSelector;
use model::hub::{HealthChecks, MachineHealthCheckSpec, Object, ObjectKey, Remediation, annotation};

/// On a Machine: excludes it from checks and remediation.
const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";

/// A health check with its Cluster and its machines, sorted by name.
pub(super) struct CheckScope {
    pub cluster: Arc<Object>,
    pub key: ObjectKey,
    pub checks: HealthChecks,
    pub remediation: Remediation,
    pub machines: Vec<Arc<Object>>,
}

impl CheckScope {
    /// Collects the machines of a health check.
    ///
    /// # Errors
    /// When a kind is not listed yet, or the spec cannot be read.
    pub(super) fn gather(context: &StepContext<'_>, object: &Object, cluster: Arc<Object>) -> Result<Self, StepError> {
        let spec = object.at("spec").unwrap_or(&Value::Null);
        let MachineHealthCheckSpec { checks, remediation, .. } = read(spec)?;
        let key = cluster.key();
        let selector = ObjectSelector::read(object).map_err(unreadable)?;
        selector.labels.check().map_err(unusable)?;
        let mut machines = Vec::new();
        for machine in context.of_cluster(&GroupKind::core("Machine"), &key)? {
            let is_skipped = [annotation::PAUSED, SKIP_REMEDIATION].iter().any(|it| machine.annotation(it).is_some());
            if !is_skipped && selector.selects(&machine).map_err(unusable)? {
                machines.push(machine);
            }
        }
        Ok(CheckScope { cluster, key, checks, remediation, machines })
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, StepError> {
    T::deserialize(value).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> StepError {
    StepError::failed(format!("cannot read the spec: {error}"))
}

fn unusable(error: impl Display) -> StepError {
    StepError::failed(format!("cannot use the selector: {error}"))
}
