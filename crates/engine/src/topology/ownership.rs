//! The Cluster and the part of its topology that an existing object belongs to (DEC-36).
//!
//! A topology creates objects with generated names. An existing object of the name is adopted (RS-13), unless its
//! metadata names another owner: another Cluster, another worker set, or another controller.

use std::fmt;

use serde_json::Value;

use super::worker::WorkerKind;
use model::hub::{GROUP, Object, ObjectKey, ObjectRef, group_of, label, paths};

/// A part of a topology that claims an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The name of the Cluster.
    pub cluster: String,
    /// The set of workers, by its name in the topology; `None` for parts of the Cluster itself.
    pub worker: Option<(WorkerKind, String)>,
}

/// The current owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentOwner {
    /// Another Cluster, and the field that names it.
    Cluster { name: String, field: &'static str },
    /// Another set of workers of the same Cluster.
    Worker { kind: WorkerKind, topology_name: String },
    /// The control plane of the same Cluster.
    ControlPlane,
    /// Another controller.
    Controller { kind: String, name: String },
    /// Another Cluster, whose topology generates the same name.
    Generated(Claimant),
}

/// A conflict about an object that has another owner than the part that claims it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object} belongs to {owner}, so it cannot belong to {claimant}; give one of them another name: \
     .random in the naming template of the ClusterClass makes names unique"
)]
pub struct OwnershipConflict {
    pub object: ObjectRef,
    pub owner: CurrentOwner,
    pub claimant: Claimant,
}

/// A name that the naming templates of a class generate for two parts of one topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{first} and {second} of Cluster {cluster} both have the generated name {name:?}; use .random{hint} in the naming \
     template of the ClusterClass"
)]
pub struct SameName {
    pub cluster: ObjectKey,
    pub first: String,
    pub second: String,
    pub name: String,
    /// Another variable that makes names unique.
    pub hint: &'static str,
}

/// Why an object of that name cannot be created or adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error(transparent)]
    Taken(#[from] Box<OwnershipConflict>),
    #[error("{0} is being deleted; another object of this name can be created when it is gone")]
    Leaving(Box<ObjectRef>),
}

impl Unavailable {
    /// The existing object with the name.
    pub fn object(&self) -> &ObjectRef {
        match self {
            Unavailable::Taken(taken) => &taken.object,
            Unavailable::Leaving(object) => object,
        }
    }
}

impl Claimant {
    /// The Cluster itself.
    pub fn cluster(name: impl Into<String>) -> Self {
        Claimant { cluster: name.into(), worker: None }
    }

    /// A set of workers of a Cluster.
    pub fn worker(cluster: impl Into<String>, kind: WorkerKind, topology_name: impl Into<String>) -> Self {
        Claimant { cluster: cluster.into(), worker: Some((kind, topology_name.into())) }
    }

    /// Fails if an object cannot be adopted: it has another owner, or is being deleted.
    ///
    /// # Errors
    /// The reason; [`OwnershipConflict`] names both owners.
    pub fn adopt(&self, found: &Object) -> Result<(), Unavailable> {
        let owner =
            self.other_cluster(found).or_else(|| self.other_part(found)).or_else(|| self.other_controller(found));
        match owner {
            Some(owner) => Err(Unavailable::Taken(Box::new(self.taken(found, owner)))),
            None if found.is_being_deleted() => Err(Unavailable::Leaving(Box::new(found.reference()))),
            None => Ok(()),
        }
    }

    /// The other Cluster that an object belongs to.
    pub(crate) fn taken_by_another_cluster(&self, found: &Object) -> Option<OwnershipConflict> {
        self.other_cluster(found).map(|owner| self.taken(found, owner))
    }

    fn taken(&self, found: &Object, owner: CurrentOwner) -> OwnershipConflict {
        OwnershipConflict { object: found.reference(), owner, claimant: self.clone() }
    }

    /// Another Cluster that the object names: by label, by the field of Cluster API's own kinds, or as an owner. The
    /// uid of an owner is not compared: a Cluster that was restored has another one (LBL-06).
    fn other_cluster(&self, found: &Object) -> Option<CurrentOwner> {
        let by_label = found.label(label::CLUSTER_NAME).map(|name| (name, "label cluster.x-k8s.io/cluster-name"));
        let is_core = found.group() == GROUP;
        let by_field = found.at(paths::CLUSTER_NAME).and_then(Value::as_str).filter(|_| is_core);
        let by_field = by_field.map(|name| (name, paths::CLUSTER_NAME));
        let by_owner =
            owners(found).filter(|owner| owner.is_of("Cluster")).map(|owner| (owner.name, "owner reference"));
        let mut named = by_label.into_iter().chain(by_field).chain(by_owner);
        let other = named.find(|(name, _)| !name.is_empty() && *name != self.cluster);
        other.map(|(name, field)| CurrentOwner::Cluster { name: name.to_owned(), field })
    }

    /// Another part of the topology, by the label with a topology name. A health check has no such label, but the
    /// machines that it selects do.
    fn other_part(&self, found: &Object) -> Option<CurrentOwner> {
        let of_machines = machine_labels(found);
        let value = |name: &str| found.label(name).or_else(|| of_machines?.get(name)?.as_str());
        let own = |kind: WorkerKind| self.worker.as_ref().filter(|(of, _)| *of == kind).map(|(_, name)| &**name);
        for kind in WorkerKind::ALL {
            let topology_name = value(kind.label());
            if topology_name.is_some() && topology_name != own(kind) {
                return topology_name.map(|name| CurrentOwner::Worker { kind, topology_name: name.to_owned() });
            }
        }
        let checks_control_plane = of_machines.is_some_and(|labels| labels.get(label::CONTROL_PLANE).is_some());
        (checks_control_plane && self.worker.is_some()).then_some(CurrentOwner::ControlPlane)
    }

    /// A controller other than the Cluster and the claimant's machine pool, which controls its bootstrap and
    /// infrastructure objects.
    fn other_controller(&self, found: &Object) -> Option<CurrentOwner> {
        let is_own = |owner: &OwnerReference<'_>| {
            let worker = self.worker.as_ref().filter(|(kind, _)| owner.is_of(kind.name()));
            worker.is_some_and(|(kind, name)| found.label(kind.label()) == Some(&**name))
        };
        let other = owners(found).find(|owner| owner.is_controller && !owner.is_of("Cluster") && !is_own(owner));
        other.map(|owner| CurrentOwner::Controller { kind: owner.kind.to_owned(), name: owner.name.to_owned() })
    }
}

/// The labels of the machines that a health check of a topology selects.
fn machine_labels(found: &Object) -> Option<&Value> {
    let is_health_check = (found.group(), found.kind()) == (GROUP, "MachineHealthCheck");
    let is_owned = found.label(label::OWNED).is_some();
    (is_health_check && is_owned).then(|| found.at(paths::worker::MATCH_LABELS)).flatten()
}

struct OwnerReference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    is_controller: bool,
}

impl OwnerReference<'_> {
    /// Whether the owner is of one of Cluster API's own kinds.
    fn is_of(&self, kind: &str) -> bool {
        (group_of(self.api_version), self.kind) == (GROUP, kind)
    }
}

fn owners(found: &Object) -> impl Iterator<Item = OwnerReference<'_>> {
    found.owner_references().iter().map(|owner| {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        OwnerReference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            is_controller: owner.get("controller").and_then(Value::as_bool).unwrap_or_default(),
        }
    })
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.worker {
            Some((kind, name)) => write!(f, "{} {name:?} of Cluster {:?}", kind.name(), self.cluster),
            None => write!(f, "Cluster {:?}", self.cluster),
        }
    }
}

impl fmt::Display for CurrentOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CurrentOwner::Cluster { name, field } => write!(f, "Cluster {name:?} ({field})"),
            CurrentOwner::Worker { kind, topology_name } => {
                write!(f, "{} {topology_name:?} of the same topology", kind.name())
            }
            CurrentOwner::ControlPlane => f.write_str("the control plane of the same topology"),
            CurrentOwner::Controller { kind, name } => write!(f, "its controller, {kind:?} {name:?}"),
            CurrentOwner::Generated(other) => write!(f, "{other}, which generates the same name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MD: WorkerKind = WorkerKind::MachineDeployment;
    const MP: WorkerKind = WorkerKind::MachinePool;

    fn object(kind: &str, metadata: Value, spec: Value) -> Object {
        let group = if kind.starts_with("Machine") { "cluster.x-k8s.io" } else { "infrastructure.cluster.x-k8s.io" };
        let mut object =
            json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind, "metadata": metadata, "spec": spec});
        object["metadata"]["namespace"] = json!("ns");
        object["metadata"]["name"] = json!("x");
        Object::try_from(object).unwrap()
    }

    fn owner(api_version: &str, kind: &str, name: &str, is_controller: bool) -> Value {
        json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": "u",
            "controller": is_controller}]})
    }

    fn other_owner(claimant: &Claimant, found: &Object) -> Option<CurrentOwner> {
        match claimant.adopt(found) {
            Ok(()) => None,
            Err(Unavailable::Taken(taken)) => Some(taken.owner),
            Err(leaving @ Unavailable::Leaving(_)) => panic!("{leaving}"),
        }
    }

    #[test]
    fn an_object_without_another_owner_may_be_adopted() {
        // RS-13, DEC-36, LBL-06
        let cluster = Claimant::cluster("blue");
        let core = "cluster.x-k8s.io/v1beta1";
        for metadata in [
            json!({}),
            json!({"labels": {label::CLUSTER_NAME: "blue"}}),
            json!({"labels": {label::CLUSTER_NAME: "", "team": "red"}}),
            owner(core, "Cluster", "blue", true),
            owner("v1", "ConfigMap", "blue-shim", false),
            owner("apps/v1", "Deployment", "any", false),
        ] {
            assert_eq!(other_owner(&cluster, &object("ForgeCluster", metadata.clone(), json!({}))), None, "{metadata}");
        }
        let worker = Claimant::worker("blue", MP, "mp");
        let mut controlled = owner(core, "MachinePool", "blue-mp", true);
        controlled["labels"] = json!({label::CLUSTER_NAME: "blue", label::POOL_NAME: "mp"});
        assert_eq!(other_owner(&worker, &object("ForgePool", controlled, json!({}))), None);
        let unlabelled = object("MachinePool", json!({}), json!({"clusterName": "blue"}));
        assert_eq!(other_owner(&worker, &unlabelled), None);
    }

    #[test]
    fn an_object_of_another_cluster_is_taken() {
        // DEC-36
        let core = "cluster.x-k8s.io/v1beta2";
        let spec = json!({"clusterName": "green"});
        for claimant in [Claimant::cluster("blue"), Claimant::worker("blue", MD, "md")] {
            for (found, field) in [
                (
                    object("ForgeCluster", json!({"labels": {label::CLUSTER_NAME: "green"}}), json!({})),
                    "label cluster.x-k8s.io/cluster-name",
                ),
                (object("MachineDeployment", json!({}), spec.clone()), "spec.clusterName"),
                (object("ForgeCluster", owner(core, "Cluster", "green", true), json!({})), "owner reference"),
                (object("ForgeCluster", owner(core, "Cluster", "green", false), json!({})), "owner reference"),
            ] {
                let want = CurrentOwner::Cluster { name: "green".to_owned(), field };
                assert_eq!(other_owner(&claimant, &found), Some(want.clone()));
                assert_eq!(claimant.taken_by_another_cluster(&found).unwrap().owner, want);
            }
        }
        // The field has that meaning in Cluster API's own kinds only.
        assert_eq!(other_owner(&Claimant::cluster("blue"), &object("ForgeCluster", json!({}), spec)), None);
    }

    #[test]
    fn an_object_of_another_part_of_the_topology_is_taken() {
        // DEC-36
        let labelled = |name: &str, value: &str| {
            object("MachineDeployment", json!({"labels": {label::CLUSTER_NAME: "blue", name: value}}), json!({}))
        };
        let worker = |kind, name: &str| Some(CurrentOwner::Worker { kind, topology_name: name.to_owned() });
        let md = Claimant::worker("blue", MD, "md");
        assert_eq!(other_owner(&md, &labelled(label::DEPLOYMENT_NAME, "md")), None);
        assert_eq!(other_owner(&md, &labelled(label::DEPLOYMENT_NAME, "other")), worker(MD, "other"));
        assert_eq!(other_owner(&md, &labelled(label::POOL_NAME, "md")), worker(MP, "md"));
        let cluster = Claimant::cluster("blue");
        assert_eq!(other_owner(&cluster, &labelled(label::DEPLOYMENT_NAME, "md")), worker(MD, "md"));
        assert_eq!(md.taken_by_another_cluster(&labelled(label::DEPLOYMENT_NAME, "other")), None);
    }

    #[test]
    fn a_health_check_belongs_to_the_part_whose_machines_it_selects() {
        // DEC-36
        let check = |is_owned: bool, name: &str, value: &str| {
            let labels = if is_owned { json!({label::OWNED: ""}) } else { json!({}) };
            object("MachineHealthCheck", json!({"labels": labels}), json!({"selector": {"matchLabels": {name: value}}}))
        };
        let (cluster, md) = (Claimant::cluster("blue"), Claimant::worker("blue", MD, "md"));
        for (claimant, found, want) in [
            (&cluster, check(true, label::CONTROL_PLANE, ""), None),
            (&md, check(true, label::CONTROL_PLANE, ""), Some(CurrentOwner::ControlPlane)),
            (&md, check(false, label::CONTROL_PLANE, ""), None),
            (&md, check(true, label::DEPLOYMENT_NAME, "md"), None),
            (
                &md,
                check(true, label::DEPLOYMENT_NAME, "no"),
                Some(CurrentOwner::Worker { kind: MD, topology_name: "no".into() }),
            ),
            (
                &cluster,
                check(true, label::DEPLOYMENT_NAME, "md"),
                Some(CurrentOwner::Worker { kind: MD, topology_name: "md".into() }),
            ),
        ] {
            assert_eq!(other_owner(claimant, &found), want, "{claimant}");
        }
    }

    #[test]
    fn an_object_of_another_controller_is_taken() {
        // DEC-36
        let mut labelled = owner("example.com/v1", "Fleet", "f", true);
        labelled["labels"] = json!({label::CLUSTER_NAME: "blue", label::POOL_NAME: "mp"});
        for metadata in [owner("example.com/v1", "Fleet", "f", true), labelled] {
            let found = object("ForgePool", metadata, json!({}));
            let want = CurrentOwner::Controller { kind: "Fleet".to_owned(), name: "f".to_owned() };
            assert_eq!(other_owner(&Claimant::worker("blue", MP, "mp"), &found), Some(want));
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_is_not_adopted() {
        // RS-13
        let found = object("ForgeCluster", json!({"deletionTimestamp": "2030-01-01T00:00:00Z"}), json!({}));
        let leaving = Claimant::cluster("blue").adopt(&found).unwrap_err();
        assert_eq!(leaving, Unavailable::Leaving(Box::new(found.reference())));
    }

    #[test]
    fn the_message_names_both_owners() {
        let found = object("ForgeCluster", json!({"labels": {label::CLUSTER_NAME: "green"}}), json!({}));
        let taken = Claimant::worker("blue", MD, "md").adopt(&found).unwrap_err().to_string();
        let want = "ForgeCluster ns/x belongs to Cluster \"green\" (label cluster.x-k8s.io/cluster-name), so it cannot \
                    belong to MachineDeployment \"md\" of Cluster \"blue\"; give one of them another name: .random in \
                    the naming template of the ClusterClass makes names unique";
        assert_eq!(taken, want);
    }
}
