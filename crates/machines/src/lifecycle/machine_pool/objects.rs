//! Bootstrap configuration and infrastructure of a pool.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::contract::{Flag, has_failed, terminal_failure};
use crate::lifecycle::fields::{is_of_kind, list_mut, owner, set, set_label, set_owner, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, label, paths};

/// The existing objects that a pool refers to.
pub(super) struct PoolObjects {
    pub(super) config: Option<Arc<Object>>,
    pub(super) infrastructure: Option<Arc<Object>>,
    pub(super) has_config_ref: bool,
}

impl PoolObjects {
    pub(super) fn read(context: &StepContext<'_>, pool: &Object) -> Result<PoolObjects, StepError> {
        let config = pool.contract_ref_at(paths::worker::BOOTSTRAP_CONFIG_REF);
        let infrastructure = pool.contract_ref_at(paths::worker::INFRASTRUCTURE_REF);
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
            step.update_other(part, after);
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
        if Flag::read_of_pool(context, infrastructure)? && after.at(paths::status::INFRASTRUCTURE_PROVISIONED).is_none()
        {
            set(after, paths::status::INFRASTRUCTURE_PROVISIONED, json!(true));
            step.event("InfrastructureProvisioned", "The infrastructure of the pool is provisioned");
        }
        let ids = infrastructure.at(paths::PROVIDER_ID_LIST).cloned().unwrap_or(Value::Null);
        set(after, paths::PROVIDER_ID_LIST, ids);
        let replicas = infrastructure.at(paths::status::REPLICAS).cloned().unwrap_or(json!(0));
        set(after, paths::status::REPLICAS, replicas);
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
        if !text(after, paths::worker::BOOTSTRAP_DATA_SECRET).is_empty() {
            set(after, paths::status::BOOTSTRAP_DATA_CREATED, json!(true));
            return Ok(());
        }
        let Some(config) = self.config.as_ref().filter(|config| !config.is_being_deleted()) else { return Ok(()) };
        if !Flag::DataSecretCreated.read(context, config)? {
            return Ok(());
        }
        match text(config, paths::bootstrap::DATA_SECRET) {
            "" => Err(StepError::failed(format!("{} {} has no status.dataSecretName", config.kind(), config.key()))),
            name => {
                set(after, paths::worker::BOOTSTRAP_DATA_SECRET, json!(name));
                set(after, paths::status::BOOTSTRAP_DATA_CREATED, json!(true));
                step.event("BootstrapDataCreated", format!("The bootstrap data of the pool is in Secret {name}"));
                Ok(())
            }
        }
    }
}

/// Copies a terminal failure; the first one is kept (MA-5.4, CT-5.5).
fn copy_failure(part: &Object, after: &mut Object, step: &mut Reconciliation) {
    let Some((reason, message)) = terminal_failure(part) else { return };
    if !text(after, paths::status::DEPRECATED_FAILURE_MESSAGE).is_empty() {
        return;
    }
    let cause = if message.is_empty() { &reason } else { &message };
    let message = format!("{} {} failed: {cause}", part.kind(), part.name());
    if !reason.is_empty() {
        set(after, paths::status::DEPRECATED_FAILURE_REASON, json!(reason));
    }
    set(after, paths::status::DEPRECATED_FAILURE_MESSAGE, json!(message));
    step.warn("ProviderFailure", message);
}
