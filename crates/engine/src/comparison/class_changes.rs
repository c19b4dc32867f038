//! Changes of a class and its templates that are visible in no Cluster of the plan.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::cluster_report::{ChangeReport, ClusterReport, StepReport};
use crate::topology::plan::StepAction;
use model::hub::{ClusterClass, Object, ObjectKey, TemplateRef, group_of};
use model::world::Facts;
use schema::openapi::SENSITIVE;

/// The classes of one side by key, in v1beta2.
pub(super) type ClassesByName = BTreeMap<ObjectKey, Value>;

/// A class before and after a change, with the classes and the facts of both sides.
pub(super) struct ComparedClass<'a> {
    pub before: (&'a ClassesByName, &'a Facts),
    pub after: (&'a ClassesByName, &'a Facts),
    pub classes: (Option<&'a ClusterClass>, &'a ClusterClass),
}

/// The changes of a class that both sides have, and of its templates; `None` without changes.
pub(super) fn changed(class: &ObjectKey, sides: &ComparedClass<'_>) -> Option<ClusterReport> {
    let (old, new) = (sides.classes.0?, sides.classes.1);
    let secrets = secret_variables(old).chain(secret_variables(new)).collect();
    let mut changes = Vec::new();
    let (from, to) = (sides.before.0.get(class)?.get("spec")?, sides.after.0.get(class)?.get("spec")?);
    Differences { secrets: &secrets, because: "the class itself", changes: &mut changes }.add("spec", from, to);
    let of_class = StepReport {
        changes,
        ..StepReport::exact(StepAction::Apply, "ClusterClass", &class.name, "no Cluster uses it")
    };
    let mut steps = Vec::new();
    if !of_class.changes.is_empty() {
        steps.push(of_class);
    }
    let namespace = &class.namespace;
    let (before, after) = (templates(old), templates(new));
    let mut seen = BTreeSet::new();
    for (slot, to) in &after {
        let Some(from) = before.get(slot) else { continue };
        if seen.insert((from.kind.clone(), from.name.clone(), to.kind.clone(), to.name.clone())) {
            steps.extend(template(namespace, (from, sides.before.1), (to, sides.after.1)));
        }
    }
    let title = format!("ClusterClass {class}, which no Cluster uses: its patches and templates change");
    (!steps.is_empty()).then(|| ClusterReport::for_class(class, title, steps))
}

/// A class that only the old files have.
pub(super) fn removed(class: &ObjectKey) -> ClusterReport {
    let steps =
        vec![StepReport::exact(StepAction::Delete, "ClusterClass", &class.name, "it is not among the new files")];
    ClusterReport::for_class(class, format!("ClusterClass {class}, which no Cluster uses, is deleted"), steps)
}

/// A class that only the new files have.
pub(super) fn created(class: &ObjectKey) -> ClusterReport {
    let steps = vec![StepReport::exact(StepAction::Create, "ClusterClass", &class.name, "it is new")];
    ClusterReport::for_class(class, format!("ClusterClass {class} is new"), steps)
}

/// A template of a class before and after.
fn template(namespace: &str, from: (&TemplateRef, &Facts), to: (&TemplateRef, &Facts)) -> Option<StepReport> {
    let object = |(reference, facts): (&TemplateRef, &Facts)| {
        let key = ObjectKey::new(namespace, &reference.name);
        facts.objects()?.in_any_version(group_of(&reference.api_version), &reference.kind, &key).cloned()
    };
    let spec = |object: &Object| object.at("spec").cloned().unwrap_or_default();
    let (old, new) = (object(from)?, object(to)?);
    let because = format!("{} {}", new.kind(), new.name());
    let mut changes = Vec::new();
    Differences { secrets: &BTreeSet::new(), because: &because, changes: &mut changes }.add(
        "spec",
        &spec(&old),
        &spec(&new),
    );
    let is_same = old.kind() == new.kind() && old.name() == new.name();
    let action = if is_same { StepAction::Apply } else { StepAction::Rotate };
    let replaces = (!is_same).then(|| old.name().to_owned());
    let step = StepReport::exact(action, new.kind(), new.name(), "the class refers to it");
    (!changes.is_empty()).then_some(StepReport { replaces, changes, ..step })
}

/// The templates of a class by their paths.
fn templates(class: &ClusterClass) -> BTreeMap<String, &TemplateRef> {
    let spec = &class.spec;
    let mut all = BTreeMap::new();
    let mut add = |place: String, reference| _ = all.insert(place, reference);
    add("infrastructure".to_owned(), &spec.infrastructure.template_ref);
    add("controlPlane".to_owned(), &spec.control_plane.template_ref);
    add("controlPlane.machineInfrastructure".to_owned(), &spec.control_plane.machine_infrastructure.template_ref);
    for worker in &*spec.workers.machine_deployments {
        add(format!("machineDeployments[{}].bootstrap", worker.class), &worker.bootstrap.template_ref);
        add(format!("machineDeployments[{}].infrastructure", worker.class), &worker.infrastructure.template_ref);
    }
    for worker in &*spec.workers.machine_pools {
        add(format!("machinePools[{}].bootstrap", worker.class), &worker.bootstrap.template_ref);
        add(format!("machinePools[{}].infrastructure", worker.class), &worker.infrastructure.template_ref);
    }
    all
}

/// The paths of variables whose schemas may contain a password (DEC-34).
fn secret_variables(class: &ClusterClass) -> impl Iterator<Item = String> {
    let secrets = class.spec.variables.iter().filter(|variable| variable.schema.open_api_v3_schema.has_secrets());
    secrets.map(|variable| format!("spec.variables[{}]", variable.name))
}

/// Collects the fields that differ.
struct Differences<'a> {
    secrets: &'a BTreeSet<String>,
    because: &'a str,
    changes: &'a mut Vec<ChangeReport>,
}

impl Differences<'_> {
    fn add(&mut self, path: &str, from: &Value, to: &Value) {
        match (from, to) {
            _ if from == to => {}
            (Value::Object(from), Value::Object(to)) => self.add_members(path, from, to),
            (Value::Array(before), Value::Array(after)) => match (named(before), named(after)) {
                (Some(before), Some(after)) if in_same_order(&before, &after) => self.add_named(path, &before, &after),
                _ => self.put(path, from, to),
            },
            _ => self.put(path, from, to),
        }
    }

    fn add_members(&mut self, path: &str, from: &Map<String, Value>, to: &Map<String, Value>) {
        let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for name in names {
            let (from, to) = (from.get(name).unwrap_or(&Value::Null), to.get(name).unwrap_or(&Value::Null));
            self.add(&format!("{path}.{name}"), from, to);
        }
    }

    fn add_named(&mut self, path: &str, from: &[(&str, &Value)], to: &[(&str, &Value)]) {
        let find = |list: &[(&str, &Value)], name: &str| {
            list.iter().find(|(known, _)| *known == name).map_or(Value::Null, |(_, value)| (*value).clone())
        };
        let new = to.iter().filter(|(name, _)| from.iter().all(|(known, _)| known != name));
        for (name, _) in from.iter().chain(new) {
            self.add(&format!("{path}[{name}]"), &find(from, name), &find(to, name));
        }
    }

    fn put(&mut self, path: &str, from: &Value, to: &Value) {
        let is_secret = self.secrets.iter().any(|secret| path.starts_with(secret));
        let shown = |value: &Value| if is_secret && !value.is_null() { json!(SENSITIVE) } else { value.clone() };
        let (from, to) = (shown(from), shown(to));
        self.changes.push(ChangeReport {
            path: path.to_owned(),
            from,
            to,
            because: self.because.to_owned(),
            before: None,
        });
    }
}

/// The items of a list by name, if all names are unique.
fn named(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let name = |item| Value::get(item, "name").or_else(|| item.get("class"));
    let named = list.iter().map(|item| Some((name(item)?.as_str()?, item))).collect::<Option<Vec<_>>>()?;
    let different: BTreeSet<&str> = named.iter().map(|(name, _)| *name).collect();
    (different.len() == list.len()).then_some(named)
}

/// Whether the common items of both lists are in the same order, which matters for patches.
fn in_same_order(before: &[(&str, &Value)], after: &[(&str, &Value)]) -> bool {
    let common = |list: &[(&str, &Value)], other: &[(&str, &Value)]| -> Vec<String> {
        let names = list.iter().map(|(name, _)| *name);
        names.filter(|name| other.iter().any(|(known, _)| known == name)).map(str::to_owned).collect()
    };
    common(before, after) == common(after, before)
}
