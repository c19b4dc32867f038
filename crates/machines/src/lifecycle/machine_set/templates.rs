//! The two templates from which machines are made (MA-15.3).

use std::sync::Arc;

use crate::lifecycle::context::{Context, Fault};
use crate::lifecycle::fields::{has_owner, owner, reference, set_owner};
use crate::lifecycle::step::Step;
use model::hub::{ContractRef, Object};

/// A reference to a template, and the template.
#[derive(Debug)]
pub(in crate::lifecycle) struct Template {
    pub(in crate::lifecycle) reference: ContractRef,
    pub(in crate::lifecycle) object: Option<Arc<Object>>,
}

/// The templates of a MachineSet or MachineDeployment.
#[derive(Debug)]
pub(in crate::lifecycle) struct Templates {
    pub(in crate::lifecycle) bootstrap: Template,
    pub(in crate::lifecycle) infrastructure: Template,
}

impl Templates {
    /// The templates that the machine template of an object refers to.
    ///
    /// # Errors
    /// When their kinds are not listed yet.
    pub(in crate::lifecycle) fn of(context: &Context<'_>, object: &Object) -> Result<Self, Fault> {
        let load = |path: &str| -> Result<Template, Fault> {
            let reference = reference(object, path);
            let found = context.referenced(&reference, object.namespace())?;
            Ok(Template { reference, object: found })
        };
        Ok(Templates {
            bootstrap: load("spec.template.spec.bootstrap.configRef")?,
            infrastructure: load("spec.template.spec.infrastructureRef")?,
        })
    }

    /// The references whose templates do not exist, for messages.
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
    pub(in crate::lifecycle) fn own(&self, cluster: &Object, step: &mut Step) {
        for template in [&self.bootstrap, &self.infrastructure] {
            let Some(object) = &template.object else { continue };
            if has_owner(object, cluster) || object.is_being_deleted() || !template.reference.kind.ends_with("Template")
            {
                continue;
            }
            let mut after = (**object).clone();
            set_owner(&mut after, owner(cluster, false), cluster);
            step.update(object, after);
        }
    }
}
