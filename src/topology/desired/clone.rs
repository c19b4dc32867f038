//! Objects and templates made from the templates of the class.

use serde_json::{Map, Value};

use super::draft::labels_of_all;
use super::metadata::Entry;
use super::{Basis, DesiredObject};
use crate::hub::{Object, annotation};
use crate::topology::Failure;
use crate::topology::origin::{Origin, Origins};

const LABELS: &str = "metadata.labels";
const ANNOTATIONS: &str = "metadata.annotations";

/// What a clone gets besides what is in its template.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra<'a> {
    pub(super) labels: &'a [Entry<'a>],
    pub(super) annotations: &'a [Entry<'a>],
}

/// The object that a template describes (DS-04); who owns it is for the caller to say.
pub(super) fn object(
    template: &Object,
    name: &str,
    extra: Extra<'_>,
    basis: Basis<'_>,
) -> Result<DesiredObject, Failure> {
    let empty = Map::new();
    let described = template.members_at("spec.template")?.unwrap_or(&empty);
    let mut members = without_system_fields(described);
    let kind = template.kind().strip_suffix("Template").unwrap_or(template.kind());
    members.entry("apiVersion").or_insert_with(|| template.api_version().into());
    members.entry("kind").or_insert_with(|| kind.into());
    finished(members, template, name, extra, basis)
}

/// A template like that of the class (DS-05), which the Cluster owns.
pub(super) fn template(
    template: &Object,
    name: &str,
    extra: Extra<'_>,
    basis: Basis<'_>,
) -> Result<DesiredObject, Failure> {
    let mut clone = finished(without_system_fields(template.members()), template, name, extra, basis)?;
    clone.object.members_mut_at(ANNOTATIONS)?.remove(annotation::LAST_APPLIED);
    clone.own(&basis.blueprint.cluster)?;
    Ok(clone)
}

/// Everything but what a server keeps of an object: it would never be applied (SSA-02).
fn without_system_fields(members: &Map<String, Value>) -> Map<String, Value> {
    let kept = members.iter().filter(|(name, _)| *name != "status");
    let kept = kept.map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept =
                metadata.iter().filter(|(name, _)| matches!(&***name, "labels" | "annotations" | "ownerReferences"));
            (name.clone(), kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        _ => (name.clone(), value.clone()),
    });
    kept.collect()
}

/// Name, namespace, labels and annotations of a clone.
fn finished(
    members: Map<String, Value>,
    template: &Object,
    name: &str,
    extra: Extra<'_>,
    basis: Basis<'_>,
) -> Result<DesiredObject, Failure> {
    let mut clone = DesiredObject { object: Object::from(members), origins: Origins::default() };
    clone.origins.mark("", Origin::Template { kind: template.kind().into(), name: template.name().into() });
    clone.set("metadata.name", name, Origin::Topology)?;
    clone.set("metadata.namespace", basis.namespace(), Origin::Topology)?;
    clone.overlay(LABELS, extra.labels)?;
    clone.overlay(LABELS, &labels_of_all(basis))?;
    clone.overlay(ANNOTATIONS, extra.annotations)?;
    clone.overlay(ANNOTATIONS, &cloned_from(template, &template_kind(template)))?;
    Ok(clone)
}

/// `Kind.group` of a template.
fn template_kind(template: &Object) -> String {
    format!("{}.{}", template.kind(), template.group())
}

/// What a clone says of its template (DS-06).
fn cloned_from<'a>(template: &'a Object, kind: &'a str) -> [Entry<'a>; 2] {
    [
        Entry::of_engine(annotation::CLONED_FROM_NAME, template.name()),
        Entry::of_engine(annotation::CLONED_FROM_KIND, kind),
    ]
}
