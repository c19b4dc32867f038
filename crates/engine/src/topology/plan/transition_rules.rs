//! Transition rules of a schema, which deny changes of objects and dry runs of templates. Controllers use such a dry
//! run to find out whether they have to replace a template (CT-9.2, CT-9.5, CT-13.3).

use serde_json::Value;

use super::Certainty;
use super::difference::{Comparison, ObjectDifference, merged, owners, schema};
use crate::topology::failure::{DeniedChange, Failure};
use crate::topology::refusals::{completed, definition_of};
use model::hub::{Object, version_of};
use schema::openapi::ResourceSchema;

impl Comparison<'_> {
    /// Rejects a difference that transition rules of the schema deny, unless a server has confirmed it.
    ///
    /// # Errors
    /// [`Failure::Immutable`].
    pub(super) fn is_allowed(
        &self,
        current: &Object,
        sent: &Object,
        difference: &ObjectDifference,
        change: DeniedChange,
    ) -> Result<(), Failure> {
        if difference.certainty != Certainty::Assumed || current.api_version() != sent.api_version() {
            return Ok(());
        }
        let Some(definition) = definition_of(sent, self.world) else { return Ok(()) };
        let Some(Ok(rules)) = definition.resource_schema(version_of(sent.api_version())) else { return Ok(()) };
        let structure = schema(self.world, sent, Some(current))?;
        let managers = owners(current, self.applied.get(&current.reference()), sent, &structure)?;
        let stored = completed(current.clone(), Some(&definition));
        // Merge errors are reported elsewhere.
        let Ok(result) = merged(&stored.to_value(), &managers, sent, &structure) else { return Ok(()) };
        let result = completed(result, Some(&definition));
        match denied(rules, &result.to_value(), &stored.to_value()) {
            None => Ok(()),
            Some(place) => Err(Failure::Immutable { object: sent.reference().into(), place, change }),
        }
    }
}

/// The first field with a violated transition rule; rules that the new value violates by itself are reported elsewhere.
fn denied(rules: &ResourceSchema, new: &Value, old: &Value) -> Option<String> {
    let by_itself = rules.rule_violations(new, None);
    let mut denied = rules.rule_violations(new, Some(old)).into_iter();
    let denied = denied.find(|found| !by_itself.contains(found))?;
    let place = denied.pointer.trim_start_matches('/').replace('/', ".");
    Some(if place.is_empty() { "the object".to_owned() } else { place })
}
