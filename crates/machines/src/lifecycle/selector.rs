//! Label selectors of the owners of machines.

use super::context::StepError;
use super::digest::{Fingerprint, digest};
use model::hub::{LabelSelector, Object, paths};

/// A label selector. Objects remember which selectors select them.
#[derive(Debug)]
pub(super) struct ObjectSelector {
    pub(super) labels: LabelSelector,
    fingerprint: Fingerprint,
}

impl ObjectSelector {
    /// The selector at `spec.selector`; an absent one is empty.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(object: &Object) -> Result<ObjectSelector, serde_json::Error> {
        let value = object.at(paths::worker::SELECTOR).cloned().unwrap_or_default();
        let fingerprint = Fingerprint::new(value.to_string());
        Ok(ObjectSelector { labels: serde_json::from_value(value)?, fingerprint })
    }

    /// Whether it selects an object.
    ///
    /// # Errors
    /// When the selector makes no sense.
    pub(super) fn selects(&self, object: &Object) -> Result<bool, StepError> {
        let digest = digest(object);
        let is_selected = digest.is_selected(self.fingerprint) || selects(&self.labels, object)?;
        if is_selected {
            digest.note_selected(self.fingerprint);
        }
        Ok(is_selected)
    }
}

fn selects(selector: &LabelSelector, object: &Object) -> Result<bool, StepError> {
    if !selector.match_labels.iter().all(|(name, value)| object.label(name) == Some(value)) {
        return Ok(false);
    }
    if selector.match_expressions.is_empty() {
        return Ok(true);
    }
    let labels = object.at(paths::metadata::LABELS).cloned().unwrap_or_default();
    let labels = serde_json::from_value(labels).map_err(|error| StepError::failed(error.to_string()))?;
    selector.matches(&labels).map_err(StepError::failed)
}
