//! Bootstrap configuration and infrastructure of a pool.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::contract::{Flag, has_failed, terminal_failure};
use crate::lifecycle::fields::{is_of_kind, list_mut, owner, reference, set, set_label, set_owner, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, label};

/// Paths of the flags of a pool.
pub(super) const DATA: &str = "status.initialization.bootstrapDataSecretCreated";
pub(super) const PROVISIONED: &str = "status.initialization.infrastructureProvisioned";
const SECRET: &str = "spec.template.spec.bootstrap.dataSecretName";

/// The existing objects that a pool refers to.
pub(super) struct PoolObjects {
    pub(super) config: Option<Arc<Object>>,
    pub(super) infrastructure: Option<Arc<Object>>,
    pub(super) has_config_ref: bool,
}

impl PoolObjects {
    pub(super) fn read(context: &StepContext<'_>, pool: &Object) -> Result<PoolObjects, StepError> {
        let config = reference(pool, "spec.template.spec.bootstrap.configRef");
        let infrastructure = reference(pool, "spec.template.spec.infrastructureRef");
        Ok(PoolObjects {
            has_config_ref: config.is_defined(),
            config: context.referenced(&config, pool.namespace())?,
            infrastructure: context.referenced(&infrastructure, pool.namespace())?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.config.iter().chain(&self.infrastructure)
    }

    /// Makes the pool the controller of both, with the label of the Cluster (MA-5.3).
    pub(super) fn own(&self, cluster: &Object, pool: &Object, step: &mut Reconciliation) {
        for part in self.all().filter(|part| !part.is_being_deleted()) {
            let mut after = (**part).clone();
            // A topology creates them with the Cluster as their controller, until the pool takes over.
            let is_controller = |owner: &Value| owner.get("controller") == Some(&Value::Bool(true));
            list_mut(&mut after, "metadata", "ownerReferences")
                .retain(|owner| !(is_of_kind(owner, &GroupKind::core("Cluster")) && is_controller(owner)));
            set_owner(&mut after, owner(pool, true), pool);
            set_label(&mut after, label::CLUSTER_NAME, cluster.name());
            step.update(part, after);
        }
    }

    /// Copies the name of the Secret with the bootstrap data (MA-6.3, MA-6.5, MA-6.6), then the instances (MA-7.3,
    /// CT-13.1).
    pub(super) fn take_over(
        &self,
        context: &StepContext<'_>,
        after: &mut Object,
        step: &mut Reconciliation,
    ) -> Result<(), StepError> {
        self.all().for_each(|part| copy_failure(part, after, step));
        let data = self.take_data(context, after, step);
        step.collect_error(data)?;
        let Some(infrastructure) = &self.infrastructure else { return Ok(()) };
        if Flag::read_of_pool(context, infrastructure)? && after.at(PROVISIONED).is_none() {
            set(after, PROVISIONED, json!(true));
            step.event("InfrastructureProvisioned", "The infrastructure of the pool is provisioned");
        }
        let ids = infrastructure.at("spec.providerIDList").cloned().unwrap_or(Value::Null);
        set(after, "spec.providerIDList", ids);
        let replicas = infrastructure.at("status.replicas").cloned().unwrap_or(json!(0));
        set(after, "status.replicas", replicas);
        Ok(())
    }

    /// Whether an object of the contract v1beta1 has failed permanently (DEC-6).
    pub(super) fn have_failed(&self, context: &StepContext<'_>) -> bool {
        self.all().any(|part| has_failed(context, part))
    }

    fn take_data(
        &self,
        context: &StepContext<'_>,
        after: &mut Object,
        step: &mut Reconciliation,
    ) -> Result<(), StepError> {
        if !text(after, SECRET).is_empty() {
            set(after, DATA, json!(true));
            return Ok(());
        }
        let Some(config) = self.config.as_ref().filter(|config| !config.is_being_deleted()) else { return Ok(()) };
        if !Flag::DataSecretCreated.read(context, config)? {
            return Ok(());
        }
        match text(config, "status.dataSecretName") {
            "" => Err(StepError::failed(format!("{} {} has no status.dataSecretName", config.kind(), config.key()))),
            name => {
                set(after, SECRET, json!(name));
                set(after, DATA, json!(true));
                step.event("BootstrapDataCreated", format!("The bootstrap data of the pool is in Secret {name}"));
                Ok(())
            }
        }
    }
}

/// Copies a terminal failure; the first one is kept (MA-5.4, CT-5.5).
fn copy_failure(part: &Object, after: &mut Object, step: &mut Reconciliation) {
    const MESSAGE: &str = "status.deprecated.v1beta1.failureMessage";
    let Some((reason, message)) = terminal_failure(part) else { return };
    if !text(after, MESSAGE).is_empty() {
        return;
    }
    let said = if message.is_empty() { &reason } else { &message };
    let message = format!("{} {} failed: {said}", part.kind(), part.name());
    if !reason.is_empty() {
        set(after, "status.deprecated.v1beta1.failureReason", json!(reason));
    }
    set(after, MESSAGE, json!(message));
    step.warn("ProviderFailure", message);
}
