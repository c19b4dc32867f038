//! Machine deployments and machine pools.

use super::draft::{contract_ref, labels_of_all};
use super::health_check;
use super::layers::Layers;
use super::metadata::{MetadataEntry, MetadataLayers};
use super::{DesiredInputs, DesiredObject, DesiredWorker, clone, machine_deployment, machine_pool, name_of, naming};
use crate::topology::current::CurrentWorker;
use crate::topology::origin::Origin;
use crate::topology::upgrade::DecidedUpgrade;
use crate::topology::worker::{API_VERSION, WorkerEntry, WorkerKind};
use crate::topology::{Failure, Interrupted};
use golang::version::VersionText;
use model::hub::names::Names;
use model::hub::{
    MachineDeploymentClass, MachineDeploymentTopology, MachinePoolClass, MachinePoolTopology, NameSubject, Object,
    TopologyMetadata, annotation, paths,
};

/// The workers of a kind, in the order of the topology (DS-24 to DS-38).
pub(super) fn compute(
    basis: DesiredInputs<'_>,
    kind: WorkerKind,
    decided: &DecidedUpgrade<'_>,
    names: &mut dyn Names,
) -> Result<Vec<DesiredWorker>, Failure> {
    let plans = plans(basis, kind)?;
    let worker = |(position, plan): (usize, &WorkerPlan<'_>)| {
        Interrupted::unless(basis.world.stop())?;
        plan.worker(basis, position, decided, names)
    };
    plans.iter().enumerate().map(worker).collect()
}

/// The inputs of a worker.
struct WorkerPlan<'a> {
    kind: WorkerKind,
    entry: WorkerEntry<'a>,
    class_metadata: &'a TopologyMetadata,
    naming: &'a str,
    fields: WorkerFields<'a>,
    topology_path: String,
    class_path: String,
}

/// The fields that differ between the kinds.
enum WorkerFields<'a> {
    Deployment(&'a MachineDeploymentTopology, &'a MachineDeploymentClass),
    Pool(&'a MachinePoolTopology, &'a MachinePoolClass),
}

fn plans(basis: DesiredInputs<'_>, kind: WorkerKind) -> Result<Vec<WorkerPlan<'_>>, Failure> {
    let workers = &basis.blueprint.topology().workers;
    match kind {
        WorkerKind::MachineDeployment => workers.machine_deployments.iter().map(|one| deployment(basis, one)).collect(),
        WorkerKind::MachinePool => workers.machine_pools.iter().map(|one| pool(basis, one)).collect(),
    }
}

fn deployment<'a>(
    basis: DesiredInputs<'a>,
    topology: &'a MachineDeploymentTopology,
) -> Result<WorkerPlan<'a>, Failure> {
    let (kind, entry) = (WorkerKind::MachineDeployment, WorkerEntry::from(topology));
    let class = basis.blueprint.class.spec.machine_deployment_class(entry.class);
    let class = class.ok_or_else(|| no_class(kind, entry))?;
    Ok(WorkerPlan {
        kind,
        entry,
        class_metadata: &class.metadata,
        naming: &class.naming.template,
        fields: WorkerFields::Deployment(topology, class),
        topology_path: format!("spec.topology.workers.machineDeployments[{}]", entry.name),
        class_path: format!("spec.workers.machineDeployments[{}]", entry.class),
    })
}

fn pool<'a>(basis: DesiredInputs<'a>, topology: &'a MachinePoolTopology) -> Result<WorkerPlan<'a>, Failure> {
    let (kind, entry) = (WorkerKind::MachinePool, WorkerEntry::from(topology));
    let class = basis.blueprint.class.spec.machine_pool_class(entry.class).ok_or_else(|| no_class(kind, entry))?;
    Ok(WorkerPlan {
        kind,
        entry,
        class_metadata: &class.metadata,
        naming: &class.naming.template,
        fields: WorkerFields::Pool(topology, class),
        topology_path: format!("spec.topology.workers.machinePools[{}]", entry.name),
        class_path: format!("spec.workers.machinePools[{}]", entry.class),
    })
}

/// DS-24
fn no_class(kind: WorkerKind, entry: WorkerEntry<'_>) -> Failure {
    let (topology_name, class) = (entry.name.to_owned(), entry.class.to_owned());
    Failure::NoWorkerClass { kind: kind.name(), topology_name, class }
}

impl WorkerPlan<'_> {
    fn worker(
        &self,
        basis: DesiredInputs<'_>,
        position: usize,
        decided: &DecidedUpgrade<'_>,
        names: &mut dyn Names,
    ) -> Result<DesiredWorker, Failure> {
        let current = basis.current.workers(self.kind).get(self.entry.name);
        let (bootstrap, infrastructure) = self.parts(basis, current, names)?;
        let name = self.name(basis, current, names)?;
        let version = decided.worker_version(self.kind, position);
        let mut worker = DesiredObject::new(API_VERSION, self.kind.name(), &name, basis);
        self.add_metadata(&mut worker, basis)?;
        add_common_fields(&mut worker, version, &bootstrap.object, &infrastructure.object, basis)?;
        let health_check = match self.fields {
            WorkerFields::Deployment(topology, class) => {
                machine_deployment::add_fields(&mut worker, topology, class, self.layers(), basis)?;
                let paths = (&*self.topology_path, &*self.class_path);
                health_check::for_machine_deployment(basis, &name, topology, class, paths)?
            }
            WorkerFields::Pool(topology, class) => {
                let current = current.map(|current| &*current.object);
                machine_pool::add_fields(&mut worker, topology, class, current, self.layers())?;
                None
            }
        };
        Ok(DesiredWorker {
            kind: self.kind,
            topology_name: self.entry.name.to_owned(),
            class: self.entry.class.to_owned(),
            worker,
            bootstrap,
            infrastructure,
            health_check,
        })
    }

    fn layers(&self) -> Layers<'_> {
        Layers { topology_path: &self.topology_path, class_path: &self.class_path }
    }

    /// The templates of a machine deployment (DS-25) or the objects of a machine pool (DS-35).
    fn parts(
        &self,
        basis: DesiredInputs<'_>,
        current: Option<&CurrentWorker>,
        names: &mut dyn Names,
    ) -> Result<(DesiredObject, DesiredObject), Failure> {
        let templates = basis.blueprint.templates(self.kind, self.entry.name, self.entry.class)?;
        let bootstrap = current.and_then(|worker| worker.bootstrap.as_ref());
        let infrastructure = current.and_then(|worker| worker.infrastructure.as_ref());
        Ok((
            self.part(&templates.bootstrap, name_of(bootstrap), "bootstrap", basis, names)?,
            self.part(&templates.infrastructure, name_of(infrastructure), "infrastructure", basis, names)?,
        ))
    }

    fn part(
        &self,
        template: &Object,
        current: Option<String>,
        slot: &str,
        basis: DesiredInputs<'_>,
        names: &mut dyn Names,
    ) -> Result<DesiredObject, Failure> {
        let name = current.unwrap_or_else(|| {
            let prefix = format!("{}-{}-", basis.cluster_name(), self.entry.name);
            naming::prefixed(&prefix, &format!("{}.{slot}", self.topology_path), basis, names)
        });
        let labels = [MetadataEntry::from_engine(self.kind.label(), self.entry.name)];
        let extra = clone::CloneMetadata { labels: &labels, annotations: &[] };
        match self.kind {
            WorkerKind::MachineDeployment => clone::template(template, &name, extra, basis),
            WorkerKind::MachinePool => {
                let mut object = clone::object(template, &name, extra, basis)?;
                object.own(&basis.blueprint.cluster)?;
                Ok(object)
            }
        }
    }

    fn name(
        &self,
        basis: DesiredInputs<'_>,
        current: Option<&CurrentWorker>,
        names: &mut dyn Names,
    ) -> Result<String, Failure> {
        let part = match self.kind {
            WorkerKind::MachineDeployment => NameSubject::MachineDeployment(self.entry.name),
            WorkerKind::MachinePool => NameSubject::MachinePool(self.entry.name),
        };
        let generated = naming::templated(self.naming, part, &self.class_path, basis, names)?;
        Ok(name_of(current.map(|worker| &worker.object)).unwrap_or(generated))
    }

    /// Sets labels and annotations, which are also propagated to its machines in place (DS-29, DS-37, LBL-03).
    fn add_metadata(&self, worker: &mut DesiredObject, basis: DesiredInputs<'_>) -> Result<(), Failure> {
        let given = MetadataLayers {
            topology: self.entry.metadata,
            class: self.class_metadata,
            topology_path: &self.topology_path,
            class_path: &self.class_path,
        };
        let mut labels = given.labels();
        labels.extend(labels_of_all(basis));
        labels.push(MetadataEntry::from_engine(self.kind.label(), self.entry.name));
        let mut annotations = given.annotations();
        let is_for_the_engine =
            |key: &str| [annotation::HOLD_UPGRADE_SEQUENCE, annotation::DEFER_UPGRADE].contains(&key);
        annotations.retain(|entry| !is_for_the_engine(entry.key));
        for path in [paths::metadata::LABELS, paths::worker::MACHINE_LABELS] {
            worker.overlay(path, &labels)?;
        }
        for path in [paths::metadata::ANNOTATIONS, paths::worker::MACHINE_ANNOTATIONS] {
            worker.overlay(path, &annotations)?;
        }
        Ok(())
    }
}

/// Sets the fields of both kinds (DS-26, DS-36).
fn add_common_fields(
    worker: &mut DesiredObject,
    version: &VersionText,
    bootstrap: &Object,
    infrastructure: &Object,
    basis: DesiredInputs<'_>,
) -> Result<(), Failure> {
    for path in [paths::CLUSTER_NAME, paths::worker::MACHINE_CLUSTER_NAME] {
        worker.set(path, basis.cluster_name(), Origin::Topology)?;
    }
    worker.set(paths::worker::VERSION, version.as_str(), Origin::Cluster(paths::cluster::TOPOLOGY_VERSION.into()))?;
    worker.set(paths::worker::BOOTSTRAP_CONFIG_REF, contract_ref(bootstrap), Origin::Topology)?;
    worker.set(paths::worker::INFRASTRUCTURE_REF, contract_ref(infrastructure), Origin::Topology)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::topology::testing::Scene;
    use model::hub::TOPOLOGY_MANAGER;

    const BOTH: [(WorkerKind, &str, &str); 2] = [
        (WorkerKind::MachineDeployment, "machineDeployments", "topology.cluster.x-k8s.io/deployment-name"),
        (WorkerKind::MachinePool, "machinePools", "topology.cluster.x-k8s.io/pool-name"),
    ];

    fn in_topology(list: &str) -> String {
        format!("/spec/topology/workers/{list}")
    }

    fn in_class(list: &str) -> String {
        format!("/spec/workers/{list}")
    }

    #[test]
    fn workers_come_in_the_order_of_the_topology() {
        // DS-01, DS-24
        for (kind, list, _) in BOTH {
            let class = if kind == WorkerKind::MachineDeployment { "smith" } else { "crew" };
            let entries = ["z", "a", "m"].map(|name| json!({"name": name, "class": class}));
            let scene = Scene::new().at("Cluster", &in_topology(list), json!(entries));
            let desired = scene.applied().desired();
            let seen: Vec<_> = desired.workers(kind).iter().map(|one| (&*one.topology_name, &*one.class)).collect();
            assert_eq!(seen, [("z", class), ("a", class), ("m", class)]);
        }
    }

    #[test]
    fn a_worker_of_a_class_that_is_not_there_fails() {
        // DS-24
        for (kind, list, _) in BOTH {
            let scene = Scene::new().at("Cluster", &in_topology(list), json!([{"name": "w", "class": "nope"}]));
            let want =
                Failure::NoWorkerClass { kind: kind.name(), topology_name: "w".to_owned(), class: "nope".to_owned() };
            assert_eq!(scene.compute().unwrap_err(), want);
        }
    }

    #[test]
    fn a_worker_without_settings_has_only_names_and_references() {
        // DS-03, DS-26, DS-30, DS-31, DS-36
        let desired = Scene::new().desired();
        for ((kind, _, label), name) in BOTH.into_iter().zip(["md", "mp"]) {
            let [worker] = desired.workers(kind) else { panic!("one worker") };
            let labels = json!({
                "cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": "", label: name,
            });
            let mut want = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind.name(),
                "metadata": {"name": worker.worker.object.name(), "namespace": "ns", "labels": labels},
                "spec": {
                    "clusterName": "blade",
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "clusterName": "blade",
                            "version": "v1.33.0",
                            "bootstrap": {"configRef": contract_ref(&worker.bootstrap.object)},
                            "infrastructureRef": contract_ref(&worker.infrastructure.object),
                        },
                    },
                },
            });
            if kind == WorkerKind::MachineDeployment {
                want["spec"]["selector"] = json!({"matchLabels": labels});
            }
            assert_eq!(json!(worker.worker.object.members()), want);
            assert_eq!(worker.health_check, None);
        }
    }

    #[test]
    fn machine_deployments_have_templates_and_machine_pools_have_objects() {
        // DS-25, DS-35
        let desired = Scene::new().desired();
        let owner = json!([
            {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blade", "uid": "uid-of-blade"},
        ]);
        for ((kind, _, label), (name, bootstrap, infrastructure)) in BOTH
            .into_iter()
            .zip([("md", "KubeadmConfigTemplate", "ForgeMachineTemplate"), ("mp", "KubeadmConfig", "ForgeMachinePool")])
        {
            let worker = &desired.workers(kind)[0];
            for (part, want) in [(&worker.bootstrap, bootstrap), (&worker.infrastructure, infrastructure)] {
                assert_eq!((part.object.kind(), part.object.label(label)), (want, Some(name)));
                assert!(part.object.name().starts_with(&format!("blade-{name}-")));
                assert_eq!(part.object.at("metadata.ownerReferences"), Some(&owner));
            }
            let at = if kind == WorkerKind::MachineDeployment { "spec.template.spec.size" } else { "spec.size" };
            assert_eq!(worker.infrastructure.object.at(at), Some(&json!("small")));
        }
    }

    #[test]
    fn workers_of_one_class_have_parts_of_their_own() {
        // DS-25, DS-35, NAM-06
        for (kind, list, _) in BOTH {
            let class = if kind == WorkerKind::MachineDeployment { "smith" } else { "crew" };
            let entries = ["a", "b"].map(|name| json!({"name": name, "class": class}));
            let desired = Scene::new().at("Cluster", &in_topology(list), json!(entries)).desired();
            let [a, b] = desired.workers(kind) else { panic!("two workers") };
            assert_ne!(a.bootstrap.object.name(), b.bootstrap.object.name());
            assert_ne!(a.infrastructure.object.name(), b.infrastructure.object.name());
            assert_ne!(a.worker.object.name(), b.worker.object.name());
        }
    }

    #[test]
    fn metadata_goes_to_the_worker_and_to_its_machines() {
        // DS-29, DS-37, LBL-01, LBL-02
        for ((kind, list, label), name) in BOTH.into_iter().zip(["md", "mp"]) {
            let metadata = |value: &str, own: &str| {
                json!({
                    "labels": {"a": value, own: "", label: value, "topology.cluster.x-k8s.io/owned": value},
                    "annotations": {
                        "n": value, own: "", annotation::DEFER_UPGRADE: "", annotation::HOLD_UPGRADE_SEQUENCE: "",
                    },
                })
            };
            let desired = Scene::new()
                .at("ClusterClass", &format!("{}/0/metadata", in_class(list)), metadata("class", "c"))
                .at("Cluster", &format!("{}/0/metadata", in_topology(list)), metadata("cluster", "o"))
                .desired();
            let worker = &desired.workers(kind)[0].worker.object;
            let labels = json!({
                "a": "cluster", "c": "", "o": "", label: name,
                "cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": "",
            });
            let want = json!({"labels": labels, "annotations": {"n": "cluster", "c": "", "o": ""}});
            assert_eq!(worker.at("spec.template.metadata"), Some(&want));
            for what in ["labels", "annotations"] {
                assert_eq!(worker.at(&format!("metadata.{what}")), Some(&want[what]));
            }
            if kind == WorkerKind::MachineDeployment {
                let selector = json!({
                    "cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": "", label: name,
                });
                assert_eq!(worker.at("spec.selector.matchLabels"), Some(&selector), "DS-30");
            }
        }
    }

    /// Each field: where it is in Cluster and class, two values, and where it goes.
    fn fields_of_both() -> Vec<(&'static str, Value, Value, &'static str)> {
        let taint =
            |key: &str| json!([{"key": key, "value": "v", "effect": "NoExecute", "propagation": "OnInitialization"}]);
        vec![
            ("deletion/nodeDrainTimeoutSeconds", json!(0), json!(2), "deletion.nodeDrainTimeoutSeconds"),
            ("deletion/nodeVolumeDetachTimeoutSeconds", json!(3), json!(4), "deletion.nodeVolumeDetachTimeoutSeconds"),
            ("deletion/nodeDeletionTimeoutSeconds", json!(5), json!(6), "deletion.nodeDeletionTimeoutSeconds"),
            ("minReadySeconds", json!(0), json!(8), "minReadySeconds"),
            ("taints", taint("a"), taint("b"), "taints"),
        ]
    }

    #[test]
    fn fields_are_those_of_the_topology_or_else_of_the_class() {
        // DS-26, DS-28, DS-36
        let gate = |name: &str| json!([{"conditionType": name, "polarity": "Negative"}]);
        let max = "healthCheck/remediation/maxInFlight";
        for (kind, list, _) in BOTH {
            let in_machines = |(from, ours, theirs, to)| (from, ours, theirs, format!("spec.template.spec.{to}"));
            let mut fields: Vec<_> = fields_of_both().into_iter().map(in_machines).collect();
            match kind {
                WorkerKind::MachineDeployment => fields.extend([
                    ("deletion/order", json!("Oldest"), json!("Newest"), "spec.deletion.order".to_owned()),
                    (max, json!("30%"), json!(2), "spec.remediation.maxInFlight".to_owned()),
                    ("failureDomain", json!("a"), json!("b"), "spec.template.spec.failureDomain".to_owned()),
                    ("readinessGates", gate("a"), gate("b"), "spec.template.spec.readinessGates".to_owned()),
                ]),
                WorkerKind::MachinePool => {
                    fields.push(("failureDomains", json!(["a"]), json!(["b", "c"]), "spec.failureDomains".to_owned()));
                }
            }
            let member = if kind == WorkerKind::MachineDeployment { "md" } else { "mp" };
            let base = Scene::new()
                .at("ClusterClass", &format!("{}/0/deletion", in_class(list)), json!({}))
                .at("ClusterClass", &format!("{}/0/healthCheck", in_class(list)), json!({"remediation": {}}))
                .at("Cluster", &format!("{}/0/deletion", in_topology(list)), json!({}))
                .at("Cluster", &format!("{}/0/healthCheck", in_topology(list)), json!({"remediation": {}}));
            for (from, ours, theirs, to) in &fields {
                for (topology, class) in [(true, true), (true, false), (false, true), (false, false)] {
                    let value = |is_given: bool, value: &Value| if is_given { value.clone() } else { json!(null) };
                    let desired = base
                        .clone()
                        .at("ClusterClass", &format!("{}/0/{from}", in_class(list)), value(class, theirs))
                        .at("Cluster", &format!("{}/0/{from}", in_topology(list)), value(topology, ours))
                        .desired();
                    let worker = &desired.workers(kind)[0].worker;
                    let want = if topology { Some(ours) } else { Some(theirs).filter(|_| class) };
                    assert_eq!(worker.object.at(to), want, "{list} {from} {topology} {class}");
                    let dotted = from.replace('/', ".");
                    let origin = match (topology, class) {
                        (true, _) => format!("Cluster spec.topology.workers.{list}[{member}].{dotted}"),
                        (false, true) => format!(
                            "ClusterClass spec.workers.{list}[{}].{dotted}",
                            if kind == WorkerKind::MachineDeployment { "smith" } else { "crew" }
                        ),
                        (false, false) => continue,
                    };
                    assert_eq!(worker.origins.decisive(to).unwrap().to_string(), origin);
                }
            }
        }
    }

    #[test]
    fn a_list_of_the_topology_without_entries_covers_that_of_the_class() {
        // DS-03, DS-26, DS-36
        for (kind, list, _) in BOTH {
            let taints = json!([{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]);
            let scene = Scene::new().at("ClusterClass", &format!("{}/0/taints", in_class(list)), taints);
            let desired = scene.at("Cluster", &format!("{}/0/taints", in_topology(list)), json!([])).desired();
            assert_eq!(desired.workers(kind)[0].worker.object.at("spec.template.spec.taints"), None);
        }
    }

    #[test]
    fn replicas_are_only_those_of_the_topology() {
        // DS-31, DS-36, DEC-24
        for (kind, list, _) in BOTH {
            for replicas in [json!(0), json!(3)] {
                let desired =
                    Scene::new().at("Cluster", &format!("{}/0/replicas", in_topology(list)), replicas.clone());
                assert_eq!(desired.desired().workers(kind)[0].worker.object.at("spec.replicas"), Some(&replicas));
            }
        }
    }

    /// A pool with the sizes of an autoscaler, from 2 to 5.
    fn autoscaled(scene: Scene) -> Scene {
        let sizes = json!({annotation::AUTOSCALER_MIN_SIZE: "2", annotation::AUTOSCALER_MAX_SIZE: "5"});
        scene.at("Cluster", "/spec/topology/workers/machinePools/0/metadata", json!({"annotations": sizes}))
    }

    fn replicas_of_pool(scene: &Scene) -> Option<i64> {
        scene.desired().machine_pools[0].worker.object.replicas()
    }

    #[test]
    fn a_pool_of_an_autoscaler_has_its_minimum_until_another_manager_changes_it() {
        // DEC-72, DS-31, DS-36
        let new = autoscaled(Scene::new());
        assert_eq!(replicas_of_pool(&new), Some(2));
        let created = new.applied();
        assert_eq!(replicas_of_pool(&created), Some(2), "it is not removed again");
        // Replicas that leave the topology stay, within the sizes.
        for (had, want) in [(1, 2), (4, 4), (9, 5)] {
            let set = Scene::new().at("Cluster", "/spec/topology/workers/machinePools/0/replicas", json!(had));
            let left = set.applied().at("Cluster", "/spec/topology/workers/machinePools/0/replicas", Value::Null);
            assert_eq!(replicas_of_pool(&autoscaled(left.clone())), Some(want), "{had}");
            assert_eq!(replicas_of_pool(&left), None, "{had}: there are no sizes");
        }
        // The autoscaler has written them.
        let managed = |manager: &str, operation: &str| {
            json!([{"manager": manager, "operation": operation, "apiVersion": "cluster.x-k8s.io/v1beta2",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}])
        };
        for (managers, want) in [
            (managed(TOPOLOGY_MANAGER, "Apply"), Some(3)),
            (managed(TOPOLOGY_MANAGER, "Update"), None),
            (managed("cluster-autoscaler", "Update"), None),
            (json!([]), None),
        ] {
            let scaled = created.clone().at("MachinePool", "/spec/replicas", json!(3));
            let scaled = scaled.at("MachinePool", "/metadata/managedFields", managers.clone());
            assert_eq!(replicas_of_pool(&scaled), want, "{managers}");
        }
        // A size that is no number, which admission denies.
        let broken = created.at(
            "Cluster",
            "/spec/topology/workers/machinePools/0/metadata/annotations",
            json!({annotation::AUTOSCALER_MIN_SIZE: "few", annotation::AUTOSCALER_MAX_SIZE: "5"}),
        );
        assert_eq!(replicas_of_pool(&broken), None);
    }

    #[test]
    fn a_worker_keeps_the_name_that_it_has() {
        // DS-07
        let made = Scene::new().applied();
        let before = made.desired();
        // Another naming template changes nothing of what is there.
        let naming = json!({"template": "{{ .cluster.name }}-{{ .random }}-x"});
        for (kind, list, _) in BOTH {
            let desired =
                made.clone().at("ClusterClass", &format!("{}/0/naming", in_class(list)), naming.clone()).desired();
            assert_eq!(desired.workers(kind), before.workers(kind));
        }
    }

    #[test]
    fn a_machine_deployment_that_is_being_deleted_gets_new_names_for_its_templates() {
        // DS-07
        let made = Scene::new().applied();
        let before = made.desired();
        let deleting = made.at("MachineDeployment", "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z")).at(
            "MachineDeployment",
            "/spec/template/spec/bootstrap/configRef/name",
            json!("gone"),
        );
        let after = deleting.desired();
        let (before, after) = (&before.machine_deployments[0], &after.machine_deployments[0]);
        assert_eq!(after.worker.object.name(), before.worker.object.name());
        assert_ne!(after.bootstrap.object.name(), "gone");
    }
}
