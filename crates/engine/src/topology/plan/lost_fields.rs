//! Fields that others have set on a template, and that the new template does not have.

use super::difference::{Comparison, UNCOMPARED, recorded, schema};
use super::{ChangedField, MANAGER};
use crate::topology::Failure;
use crate::topology::origin::is_below;
use model::hub::{Object, paths};
use schema::ssa::{self, MergeSchema};

impl Comparison<'_> {
    /// The other fields that a renamed object lacks. They are not computed for a server, because the object is written
    /// anyway.
    pub(super) fn lost(&self, current: &Object, sent: &Object) -> Result<Vec<ChangedField>, Failure> {
        match self.world.is_offline() {
            true => lost(current, sent, &schema(self.world, sent, Some(current))?),
            false => Ok(Vec::new()),
        }
    }
}

/// Fields of a template that another field manager has set and that `sent` lacks: a renamed object starts without them
/// (ROT-05). Fields without an owner are defaults, which the new object gets as well.
fn lost(current: &Object, sent: &Object, schema: &MergeSchema) -> Result<Vec<ChangedField>, Failure> {
    let is_other = |entry: &&ssa::ManagedFields| !entry.is_of_applier(MANAGER) && entry.subresource.is_empty();
    let entries = recorded(current)?;
    let theirs: Vec<String> = entries
        .iter()
        .filter(is_other)
        .flat_map(|entry| entry.fields.paths())
        .map(|path| path.to_path().to_string())
        .collect();
    if theirs.is_empty() {
        return Ok(Vec::new());
    }
    let is_theirs = |path: &str| theirs.iter().any(|owned| is_below(owned, path));
    let changes = ssa::changes(&current.to_value(), &sent.to_value(), schema, UNCOMPARED).into_iter();
    let gone = changes.filter(|change| change.to.is_none() && is_content(change.path.as_str()));
    let gone = gone.filter(|change| is_theirs(change.path.as_str()));
    let change = |change: ssa::FieldChange| ChangedField {
        path: change.path.to_string(),
        from: change.from,
        to: None,
        because: None,
        was: None,
        is_sensitive: false,
    };
    Ok(gone.map(change).collect())
}

/// Owners are set again, and the cloning controller writes the origin of a clone.
fn is_content(path: &str) -> bool {
    ["spec", paths::metadata::LABELS, paths::metadata::ANNOTATIONS].into_iter().any(|above| is_below(path, above))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_new_template_lacks_fields_that_others_set_on_the_old_one() {
        // ROT-05, DEC-43
        let object = |metadata: Value, spec: Value| {
            Object::try_from(json!({"apiVersion": "g.io/v1", "kind": "T", "metadata": metadata, "spec": spec})).unwrap()
        };
        let entry = |manager: &str, fields: Value| {
            json!({"manager": manager, "operation": "Apply",
                "apiVersion": "g.io/v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let ours = entry(MANAGER, json!({"f:spec": {"f:size": {}, "f:old": {}}}));
        let theirs =
            json!({"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:size": {}, "f:extra": {"f:a": {}}}});
        let metadata =
            json!({"name": "old", "labels": {"team": "x"}, "managedFields": [ours, entry("another", theirs)]});
        let current = object(metadata, json!({"size": 1, "old": 1, "extra": {"a": 1}, "default": 1}));
        let sent = object(json!({"name": "new"}), json!({"size": 2}));
        let paths = |schema: &MergeSchema| -> Vec<String> {
            lost(&current, &sent, schema).unwrap().into_iter().map(|change| change.path).collect()
        };
        assert_eq!(paths(&MergeSchema::unknown()), ["metadata.labels", "spec.extra"]);
    }
}
