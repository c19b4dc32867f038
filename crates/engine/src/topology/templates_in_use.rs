//! The templates of machines that are unused after a MachineDeployment or MachineSet is deleted.

use serde_json::Value;

use model::hub::{ContractRef, GROUP, Object, WrongType, group_of, label, paths};

/// The kinds that create machines from templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineOwner {
    /// A MachineDeployment.
    Deployment,
    /// A MachineSet.
    Set,
}

impl MachineOwner {
    /// Both.
    pub const ALL: [Self; 2] = [MachineOwner::Deployment, MachineOwner::Set];

    /// The kind of an object; `None` for other kinds.
    pub fn from_object(object: &Object) -> Option<Self> {
        Self::ALL.into_iter().find(|maker| object.group() == GROUP && object.kind() == maker.kind())
    }

    /// Its kind, in the group of Cluster API.
    pub const fn kind(self) -> &'static str {
        match self {
            MachineOwner::Deployment => "MachineDeployment",
            MachineOwner::Set => "MachineSet",
        }
    }

    /// The finalizer that delays the deletion of an object until its templates are deleted (DEL-05, DEL-07).
    pub const fn finalizer(self) -> &'static str {
        match self {
            MachineOwner::Deployment => "machinedeployment.topology.cluster.x-k8s.io",
            MachineOwner::Set => "machineset.topology.cluster.x-k8s.io",
        }
    }
}

/// The name of the MachineDeployment of a MachineSet: from its owner (DEL-07, MA-29.4), or from its label. An orphan,
/// as after `kubectl delete machinedeployment --cascade=orphan`, only has the label; without the fallback it could not
/// be deleted.
pub fn deployment_of(set: &Object) -> Option<String> {
    let named = || set.label(label::MACHINE_DEPLOYMENT_NAME).map(str::to_owned);
    owning_deployment(set).or_else(named)
}

fn owning_deployment(set: &Object) -> Option<String> {
    let owners = set.owner_references();
    let is_deployment = |owner: &&Value| {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        text("kind") == MachineOwner::Deployment.kind() && group_of(text("apiVersion")) == GROUP
    };
    Some(owners.iter().find(is_deployment)?.get("name")?.as_str()?.to_owned())
}

/// Paths of the references to templates, in the order of their deletion (DEL-06).
const REFERENCES: [&str; 2] = [paths::worker::BOOTSTRAP_CONFIG_REF, paths::worker::INFRASTRUCTURE_REF];

/// The templates of `leaving` that neither the deployment nor its remaining `sets` use (DEL-08, DEL-09, MA-29.2).
/// Templates are compared regardless of the version in which they are read.
///
/// Two sets of one deployment may share a template, if only the other template was rotated (DEL-11).
///
/// # Errors
/// When a reference has the wrong type, because its template may be in use.
pub fn unused<'a>(
    leaving: &Object,
    sets: impl IntoIterator<Item = &'a Object>,
    deployment: Option<&'a Object>,
) -> Result<Vec<ContractRef>, WrongType> {
    let staying = sets.into_iter().chain(deployment).filter(|user| !user.is_being_deleted());
    let mut in_use = Vec::new();
    for user in staying {
        in_use.extend(templates(user)?);
    }
    let mut unused: Vec<ContractRef> = Vec::new();
    for template in templates(leaving)? {
        if !in_use.contains(&template) && !unused.contains(&template) {
            unused.push(template);
        }
    }
    Ok(unused)
}

/// The templates that an object references; incomplete references are skipped.
fn templates(object: &Object) -> Result<Vec<ContractRef>, WrongType> {
    let mut all = Vec::new();
    for path in REFERENCES {
        let text = |name: &str| -> Result<String, WrongType> {
            Ok(object.text(&format!("{path}.{name}"))?.unwrap_or_default().to_owned())
        };
        let reference = ContractRef { api_group: text("apiGroup")?, kind: text("kind")?, name: text("name")? };
        if !reference.kind.is_empty() && !reference.name.is_empty() {
            all.push(reference);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference(group: &str, kind: &str, name: &str) -> Value {
        json!({"apiGroup": group, "kind": kind, "name": name})
    }

    /// Who makes machines from two templates.
    fn maker(bootstrap: &str, infrastructure: &str) -> Object {
        let spec = json!({"bootstrap": {"configRef": reference("b", "BootstrapTemplate", bootstrap)},
            "infrastructureRef": reference("i", "MachineTemplate", infrastructure)});
        Object::try_from(json!({"metadata": {"name": "m"}, "spec": {"template": {"spec": spec}}})).unwrap()
    }

    fn leaving(mut object: Object) -> Object {
        object.set("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")).unwrap();
        object
    }

    fn names(leaver: &Object, sets: &[Object], deployment: Option<&Object>) -> Vec<String> {
        unused(leaver, sets, deployment).unwrap().into_iter().map(|template| template.name).collect()
    }

    #[test]
    fn a_template_is_deleted_when_nothing_refers_to_it() {
        // DEL-08, DEL-11
        let leaver = leaving(maker("b1", "i1"));
        for (case, sets, deployment, want) in [
            ("alone", vec![], None, vec!["b1", "i1"]),
            ("among itself", vec![leaver.clone()], None, vec!["b1", "i1"]),
            ("a set that stays has both", vec![maker("b1", "i1")], None, vec![]),
            ("a set that stays shares one", vec![maker("b1", "i2")], None, vec!["i1"]),
            ("a set that goes as well", vec![leaving(maker("b1", "i1"))], None, vec!["b1", "i1"]),
            ("the deployment has one", vec![maker("b2", "i2")], Some(maker("b2", "i1")), vec!["b1"]),
            ("the deployment goes as well", vec![], Some(leaving(maker("b1", "i1"))), vec!["b1", "i1"]),
        ] {
            assert_eq!(names(&leaver, &sets, deployment.as_ref()), want, "{case}");
        }
    }

    #[test]
    fn templates_are_identified_by_group_and_kind_without_version() {
        // DEL-08, MA-29.2
        let leaver = leaving(maker("b1", "i1"));
        for (path, value, want) in [
            ("spec.template.spec.infrastructureRef.apiGroup", json!("other"), vec!["i1"]),
            ("spec.template.spec.infrastructureRef.kind", json!("OtherTemplate"), vec!["i1"]),
            ("spec.template.spec.infrastructureRef.apiVersion", json!("i/v9"), vec![]),
        ] {
            let mut other = maker("b1", "i1");
            other.set(path, value).unwrap();
            assert_eq!(names(&leaver, &[other], None), want, "{path}");
        }
    }

    #[test]
    fn only_referenced_templates_are_deleted_and_unreadable_objects_stop_the_deletion() {
        // DEL-09
        let mut leaver = leaving(maker("b1", "i1"));
        leaver.remove("spec.template.spec.bootstrap.configRef");
        assert_eq!(names(&leaver, &[], None), ["i1"]);
        let mut odd = maker("b1", "i1");
        odd.set("spec.template.spec.infrastructureRef.name", json!(5)).unwrap();
        assert!(unused(&leaver, [&odd], None).is_err());
        odd.set("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(unused(&leaver, [&odd], None).is_ok(), "nobody asks what an object that goes has");
    }
}
