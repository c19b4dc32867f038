//! Templates of machines (MA-15.3).

use std::sync::Arc;

use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::{has_owner, owner, set_owner};
use crate::lifecycle::step::Reconciliation;
use model::hub::contract::is_template_kind;
use model::hub::{ContractRef, Object, paths};

/// A template reference with its template.
#[derive(Debug)]
pub(in crate::lifecycle) struct SetTemplateRef {
    pub(in crate::lifecycle) reference: ContractRef,
    pub(in crate::lifecycle) object: Option<Arc<Object>>,
}

/// The templates of a MachineSet or MachineDeployment.
#[derive(Debug)]
pub(in crate::lifecycle) struct SetTemplates {
    pub(in crate::lifecycle) bootstrap: SetTemplateRef,
    pub(in crate::lifecycle) infrastructure: SetTemplateRef,
}

impl SetTemplates {
    /// The templates in the machine template of an object.
    ///
    /// # Errors
    /// When their kinds are not listed yet.
    pub(in crate::lifecycle) fn for_object(context: &StepContext<'_>, object: &Object) -> Result<Self, StepError> {
        let load = |path: &str| -> Result<SetTemplateRef, StepError> {
            let reference = object.contract_ref_at(path);
            let found = context.referenced(&reference, object.namespace())?;
            Ok(SetTemplateRef { reference, object: found })
        };
        Ok(SetTemplates {
            bootstrap: load(paths::worker::BOOTSTRAP_CONFIG_REF)?,
            infrastructure: load(paths::worker::INFRASTRUCTURE_REF)?,
        })
    }

    /// References to missing templates, for messages.
    pub(in crate::lifecycle) fn missing(&self) -> Option<String> {
        let both = [&self.bootstrap, &self.infrastructure];
        let missing = both.into_iter().filter(|it| it.reference.is_defined() && it.object.is_none());
        let names: Vec<String> = missing.map(|it| format!("{} {}", it.reference.kind, it.reference.name)).collect();
        match &*names {
            [] => None,
            [name] => Some(format!("{name} does not exist")),
            names => Some(format!("{} do not exist", names.join(" and "))),
        }
    }

    /// The Cluster owns the templates (CT-15.4).
    pub(in crate::lifecycle) fn own(&self, cluster: &Object, step: &mut Reconciliation) {
        for template in [&self.bootstrap, &self.infrastructure] {
            let Some(object) = &template.object else { continue };
            if has_owner(object, cluster) || object.is_being_deleted() || !is_template_kind(&template.reference.kind) {
                continue;
            }
            let mut after = (**object).clone();
            set_owner(&mut after, owner(cluster, false), cluster);
            step.update_other(object, after);
        }
    }
}
