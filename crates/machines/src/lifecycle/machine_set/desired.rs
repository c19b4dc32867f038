//! Objects of a new machine (MA-15.8 to MA-15.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::members::title;
use super::templates::{SetTemplateRef, SetTemplates};
use crate::lifecycle::clone::{CloneExtras, clone};
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::{map_mut, owner, reference_value, set, texts};
use crate::lifecycle::names;
use model::hub::machine_defaults::NODE_DELETION_TIMEOUT_SECONDS;
use model::hub::naming::to_label_value;
use model::hub::{ContractRef, NameSubject, Object, label, paths};

/// Finalizer that the Machine controller removes last.
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// Fields of the machine template that running machines get too (MA-15.11).
pub(in crate::lifecycle) const IN_PLACE: [&str; 6] = [
    "readinessGates",
    "deletion.nodeDrainTimeoutSeconds",
    "deletion.nodeVolumeDetachTimeoutSeconds",
    "deletion.nodeDeletionTimeoutSeconds",
    "minReadySeconds",
    "taints",
];

/// Labels of the objects of a machine (MA-15.10).
pub(super) fn labels(set: &Object) -> BTreeMap<String, String> {
    let mut labels = texts(set, paths::worker::MACHINE_LABELS);
    labels.insert(label::CLUSTER_NAME.to_owned(), set.cluster_name().to_owned());
    labels.insert(label::SET_NAME.to_owned(), to_label_value(set.name()).into_owned());
    if let Some(deployment) = set.label(label::MACHINE_DEPLOYMENT_NAME) {
        labels.insert(label::MACHINE_DEPLOYMENT_NAME.to_owned(), deployment.to_owned());
    }
    labels
}

/// Annotations of the objects of a machine (MA-15.10).
pub(super) fn annotations(set: &Object) -> BTreeMap<String, String> {
    texts(set, paths::worker::MACHINE_ANNOTATIONS)
}

/// The value of an in-place field in the machine template of a set.
pub(super) fn in_place(set: &Object, field: &str) -> Value {
    let value = set.at(&format!("spec.template.spec.{field}")).cloned().unwrap_or_default();
    match field {
        "deletion.nodeDeletionTimeoutSeconds" if value.is_null() => NODE_DELETION_TIMEOUT_SECONDS.into(),
        _ => value,
    }
}

/// The objects of a new machine in creation order: bootstrap configuration, infrastructure machine, and Machine
/// (MA-15.8, MA-2.7).
///
/// # Errors
/// When a template is missing, or the naming template cannot be rendered.
pub(super) fn machine(
    context: &StepContext<'_>,
    set: &Object,
    templates: &SetTemplates,
    number: usize,
) -> Result<Vec<Object>, StepError> {
    let name = name(context, set, number)?;
    let mut machine = bare(set, &name);
    let mut objects = Vec::new();
    for (template, path) in [
        (&templates.bootstrap, paths::machine::BOOTSTRAP_CONFIG_REF),
        (&templates.infrastructure, paths::INFRASTRUCTURE_REF),
    ] {
        if let Some(object) = cloned(set, template, &name)? {
            let reference = ContractRef {
                api_group: object.group().to_owned(),
                kind: object.kind().to_owned(),
                name: name.clone(),
            };
            crate::lifecycle::fields::set(&mut machine, path, reference_value(&reference));
            objects.push(object);
        }
    }
    objects.push(machine);
    Ok(objects)
}

/// An unused name for a machine (MA-15.9).
fn name(context: &StepContext<'_>, set: &Object, number: usize) -> Result<String, StepError> {
    // Each step of a set has different suffixes, also for several machines at once.
    let purpose = format!("machine/{}", set.resource_version());
    let mut count = number * names::ATTEMPTS * 2;
    let end = || {
        count += 1;
        names::name_suffix(set, &purpose, count, context.time_of_names())
    };
    names::machine_name(context, set, NameSubject::Machine(set.name()), paths::MACHINE_NAMING, end)
}

/// A Machine without references.
fn bare(set: &Object, name: &str) -> Object {
    let mut machine = Object::from(serde_json::Map::from_iter([
        ("apiVersion".to_owned(), json!(set.api_version())),
        ("kind".to_owned(), json!("Machine")),
    ]));
    let metadata = map_mut(&mut machine, "metadata");
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(set.namespace()));
    metadata.insert("labels".to_owned(), json!(labels(set)));
    let annotations = annotations(set);
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    metadata.insert("ownerReferences".to_owned(), json!([owner(set, true)]));
    metadata.insert("finalizers".to_owned(), json!([MACHINE_FINALIZER]));
    let spec = set.at(paths::TEMPLATE_SPEC).cloned().unwrap_or_default();
    crate::lifecycle::fields::set(&mut machine, "spec", spec);
    set_all(&mut machine, set);
    machine.remove(paths::machine::BOOTSTRAP_CONFIG_REF);
    machine.remove(paths::INFRASTRUCTURE_REF);
    machine
}

fn set_all(machine: &mut Object, group: &Object) {
    set(machine, paths::CLUSTER_NAME, json!(group.cluster_name()));
    for field in IN_PLACE {
        set(machine, &format!("spec.{field}"), in_place(group, field));
    }
}

/// The object cloned from a template, named like the machine and initially owned by the set.
fn cloned(set: &Object, template: &SetTemplateRef, name: &str) -> Result<Option<Object>, StepError> {
    if !template.reference.is_defined() {
        return Ok(None);
    }
    let Some(object): &Option<Arc<Object>> = &template.object else {
        let ContractRef { kind, name, .. } = &template.reference;
        return Err(StepError::failed(format!("{}: cannot create Machines: {kind} {name} does not exist", title(set))));
    };
    let extra = CloneExtras { labels: labels(set), annotations: annotations(set), owner: Some(owner(set, false)) };
    Ok(Some(clone(object, name, set.cluster_name(), extra)))
}
