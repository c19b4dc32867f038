//! Metadata and spec of the sets of a MachineDeployment (MA-21.6 to MA-21.10).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::sets::SetDraft;
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::{map_mut, owner, set, set_annotation, set_label, set_owner, texts};
use crate::lifecycle::machine_set::{DISABLE_CREATE, IN_PLACE, PropagatedMetadata, RECORD, REVISION, title};
use crate::lifecycle::names;
use crate::lifecycle::objects::GroupKind;
use model::hub::{Object, ObjectKey, annotation, label, paths, prefixed_name};

/// Label that distinguishes the machines of the sets of a deployment (MA-21.8).
const UNIQUE: &str = "machine-template-hash";
/// Annotation with former revisions of a set.
const HISTORY: &str = "machinedeployment.clusters.x-k8s.io/revision-history";
/// Annotation with the desired replicas of the deployment.
pub(super) const DESIRED: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
/// Annotation with the maximum number of machines.
pub(super) const MAX: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";
/// Annotations of a deployment that are not copied to its sets (MA-21.9).
const OWN: [&str; 7] = [annotation::LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, annotation::CONVERSION_DATA, RECORD];

/// The common content of all sets of a deployment.
pub(super) struct SetTemplate<'a> {
    pub(super) deployment: &'a Object,
    pub(super) handed_down: PropagatedMetadata,
    pub(super) replicas: i64,
    /// Maximum number of surplus machines.
    pub(super) surge: i64,
    pub(super) is_on_delete: bool,
}

/// Labels and annotations that a deployment propagates to its sets (MA-21.7, MA-21.9).
pub(super) fn hand_down(deployment: &mut Object) -> PropagatedMetadata {
    let labels = texts(deployment, paths::worker::MACHINE_LABELS);
    let mut annotations = texts(deployment, paths::metadata::ANNOTATIONS);
    annotations.retain(|name, _| !OWN.contains(&&**name));
    PropagatedMetadata::from_owner(deployment, labels, annotations)
}

impl SetTemplate<'_> {
    /// Updates a set; replicas are unchanged (MA-21.7).
    ///
    /// # Errors
    /// When the set has no unique label (MA-21.8).
    pub(super) fn put_on(&self, set: &mut Object, is_new: bool) -> Result<(), StepError> {
        let missing = || StepError::failed(format!("{} has no label {UNIQUE}", title(set)));
        let unique = set.label(UNIQUE).ok_or_else(missing)?.to_owned();
        self.handed_down.apply(set);
        self.label(set, &unique);
        set_annotation(set, DESIRED, &self.replicas.to_string());
        set_annotation(set, MAX, &(self.replicas + self.surge).to_string());
        let is_disabled = self.is_on_delete && !is_new;
        set_annotation(set, DISABLE_CREATE, if is_disabled { "true" } else { "false" });
        self.put_spec(set, &unique);
        Ok(())
    }

    fn label(&self, set: &mut Object, unique: &str) {
        set_label(set, UNIQUE, unique);
        set_label(set, label::CLUSTER_NAME, self.cluster());
        set_label(set, label::MACHINE_DEPLOYMENT_NAME, self.deployment.name());
    }

    fn cluster(&self) -> &str {
        self.deployment.cluster_name()
    }

    /// Updates the spec, without replicas and without fields whose changes replace machines.
    fn put_spec(&self, object: &mut Object, unique: &str) {
        let from = self.deployment;
        set(object, paths::CLUSTER_NAME, json!(self.cluster()));
        set(object, paths::worker::SELECTOR, self.selector(unique));
        let mut labels = texts(from, paths::worker::MACHINE_LABELS);
        labels.insert(label::CLUSTER_NAME.to_owned(), self.cluster().to_owned());
        labels.insert(UNIQUE.to_owned(), unique.to_owned());
        set(object, paths::worker::MACHINE_LABELS, json!(labels));
        let annotations: BTreeMap<String, String> = texts(from, paths::worker::MACHINE_ANNOTATIONS);
        let annotations = if annotations.is_empty() { Value::Null } else { json!(annotations) };
        set(object, paths::worker::MACHINE_ANNOTATIONS, annotations);
        let in_template = IN_PLACE.iter().map(|field| format!("spec.template.spec.{field}"));
        for path in
            [paths::worker::DELETION_ORDER.to_owned(), "spec.machineNaming".to_owned()].into_iter().chain(in_template)
        {
            set(object, &path, from.at(&path).cloned().unwrap_or_default());
        }
    }

    fn selector(&self, unique: &str) -> Value {
        let mut selector = self.deployment.at(paths::worker::SELECTOR).cloned().unwrap_or_default();
        if !selector.is_object() {
            selector = json!({});
        }
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        selector["matchLabels"][label::CLUSTER_NAME] = json!(self.cluster());
        selector["matchLabels"][UNIQUE] = json!(unique);
        selector
    }

    /// A new set without replicas (MA-21.6).
    ///
    /// # Errors
    /// When no name is available.
    pub(super) fn new_set(&self, context: &StepContext<'_>) -> Result<SetDraft, StepError> {
        let (name, unique) = self.free_name(context)?;
        let from = self.deployment;
        let mut new = Object::from(Map::from_iter([
            ("apiVersion".to_owned(), json!(from.api_version())),
            ("kind".to_owned(), json!("MachineSet")),
        ]));
        let metadata = map_mut(&mut new, "metadata");
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("namespace".to_owned(), json!(from.namespace()));
        set_label(&mut new, UNIQUE, &unique);
        set_owner(&mut new, owner(from, true), from);
        set(&mut new, paths::REPLICAS, json!(0));
        set(&mut new, paths::TEMPLATE_SPEC, from.at(paths::TEMPLATE_SPEC).cloned().unwrap_or_default());
        self.put_on(&mut new, true)?;
        Ok(SetDraft { before: None, after: new })
    }

    /// An unused name for a set, and the value of its unique label.
    fn free_name(&self, context: &StepContext<'_>) -> Result<(String, String), StepError> {
        const ATTEMPTS: usize = 10;
        let from = self.deployment;
        let template = from.at(paths::TEMPLATE).map(Value::to_string).unwrap_or_default();
        let hash = names::short_hash(&template);
        for number in 0..ATTEMPTS {
            let end = names::name_suffix(from, &format!("set/{hash}"), number, context.time_of_names());
            let name = prefixed_name(&format!("{}-", from.name()), &end);
            let key = ObjectKey::new(from.namespace(), &*name);
            if context.get(&GroupKind::core("MachineSet"), &key)?.is_none() {
                return Ok((name, format!("{hash}-{end}")));
            }
        }
        Err(StepError::failed(format!("{}: found no free name for a MachineSet", title(from))))
    }
}

/// Sets the revision of the new set to one above those of the old sets, and returns it (MA-21.10).
pub(super) fn revise(new: &mut Object, old: &[SetDraft]) -> String {
    let revision = |set: &Object| set.annotation(REVISION).and_then(|text| text.parse::<i64>().ok());
    let highest = old.iter().map(|set| revision(&set.after).unwrap_or_default()).max().unwrap_or_default();
    let wanted = (highest + 1).max(revision(new).unwrap_or_default()).to_string();
    if let Some(former) = new.annotation(REVISION).filter(|former| *former != wanted).map(str::to_owned) {
        let history = match new.annotation(HISTORY) {
            Some(history) if !history.is_empty() => format!("{history},{former}"),
            _ => former,
        };
        set_annotation(new, HISTORY, &history);
    }
    set_annotation(new, REVISION, &wanted);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_set_gets_the_highest_revision() {
        // MA-21.10
        let set = |revision: Option<&str>, history: Option<&str>| {
            let mut set = Object::try_from(json!({"metadata": {}})).unwrap();
            revision.into_iter().for_each(|revision| set_annotation(&mut set, REVISION, revision));
            history.into_iter().for_each(|history| set_annotation(&mut set, HISTORY, history));
            set
        };
        for (own, history, old, want, want_history) in [
            (None, None, vec![], "1", None),
            (None, None, vec!["1", "3"], "4", None),
            (Some("4"), None, vec!["1", "3"], "4", None),
            (Some("7"), None, vec!["1", "3"], "7", None),
            (Some("1"), None, vec!["2"], "3", Some("1")),
            (Some("3"), Some("1"), vec!["4"], "5", Some("1,3")),
            (None, None, vec!["x"], "1", None),
        ] {
            let mut new = set(own, history);
            let old: Vec<SetDraft> =
                old.into_iter().map(|revision| SetDraft { before: None, after: set(Some(revision), None) }).collect();
            assert_eq!(revise(&mut new, &old), want);
            assert_eq!((new.annotation(REVISION), new.annotation(HISTORY)), (Some(want), want_history));
        }
    }
}
