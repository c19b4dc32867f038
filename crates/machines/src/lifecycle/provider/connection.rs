//! Connects the workload cluster of a Cluster (CT-19.2).
//!
//! It is in the memory of the process that leads (DEC-54), so the next leader begins with an empty one. The Nodes and Pods of machines
//! that were provisioned before come first, and the connection comes last: no step sees a workload cluster that lacks them, and no
//! health check takes their machines for broken ones. A Node that a user deletes later is not registered again.

use std::sync::Arc;

use super::infrastructure_machine::{self, API_SERVER};
use super::infrastructure_pool;
use super::scene::Scene;
use super::virtual_node::{basics, with_one_leader};
use crate::lifecycle::conditions::is_true;
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{created, items, reference, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::{Step, Write};
use model::hub::{Object, label};

/// Connects the workload cluster, with what is in each from the beginning and with what its machines have registered.
///
/// # Errors
/// When the kinds of its machines are not listed yet.
pub(super) fn connect(scene: &Scene<'_>, step: &mut Step) -> Result<(), Fault> {
    let workload = scene.cluster_key();
    let basics = basics(&scene.cluster, &version(scene)?);
    let objects = basics.into_iter().chain(with_one_leader(registered(scene)?));
    let create = |object| Write::CreateIfAbsent { workload: Some(workload.clone()), object };
    step.writes.extend(objects.map(create));
    step.writes.push(Write::Connect { workload, up: true });
    Ok(())
}

/// Control plane Machines without an object that controls them are connected by the first of them whose API server answers.
///
/// # Errors
/// When the kinds of the machines of the Cluster are not listed yet.
pub(super) fn without_control_plane(scene: &Scene<'_>, step: &mut Step) -> Result<(), Fault> {
    let has_control_plane = reference(&scene.cluster, "spec.controlPlaneRef").is_defined();
    if has_control_plane || scene.is_connected() || !has_api_server(scene.object) {
        return Ok(());
    }
    connect(scene, step)
}

fn has_api_server(object: &Object) -> bool {
    is_true(object, API_SERVER) && !object.is_being_deleted()
}

/// The version of the control plane, or of its oldest Machine if there is no object that controls them.
fn version(scene: &Scene<'_>) -> Result<String, Fault> {
    let of_object = text(scene.object, "spec.version");
    if !of_object.is_empty() {
        return Ok(of_object.to_owned());
    }
    let machines = of_cluster(scene, "Machine")?;
    let ours = machines.iter().filter(|machine| machine.label(label::CONTROL_PLANE).is_some());
    let first = ours.min_by_key(|machine| (created(machine), machine.name()));
    Ok(first.map(|machine| text(machine, "spec.version").to_owned()).unwrap_or_default())
}

/// What machines and instances of pools have registered so far.
fn registered(scene: &Scene<'_>) -> Result<Vec<Object>, Fault> {
    let mut all = Vec::new();
    for machine in of_cluster(scene, "Machine")? {
        // One without a provider id has no Node, and its kind may not even be installed.
        if text(&machine, "spec.providerID").is_empty() {
            continue;
        }
        if let Some(object) = infrastructure(scene, &machine, "spec.infrastructureRef")? {
            all.extend(infrastructure_machine::registered(&of(scene, &object), &machine));
        }
    }
    for pool in of_cluster(scene, "MachinePool")? {
        if items(&pool, "spec.providerIDList").is_empty() {
            continue;
        }
        if let Some(object) = infrastructure(scene, &pool, "spec.template.spec.infrastructureRef")? {
            all.extend(infrastructure_pool::registered(&of(scene, &object)));
        }
    }
    Ok(all)
}

fn of_cluster(scene: &Scene<'_>, kind: &str) -> Result<Vec<Arc<Object>>, Fault> {
    scene.context.of_cluster(&GroupKind::core(kind), &scene.cluster_key())
}

/// The infrastructure of a Machine or pool, if this process plays its provider.
fn infrastructure(scene: &Scene<'_>, owner: &Object, path: &str) -> Result<Option<Arc<Object>>, Fault> {
    let to = reference(owner, path);
    if !scene.context.settings.plays(&GroupKind::to(&to)) {
        return Ok(None);
    }
    let found = scene.context.referenced(&to, owner.namespace())?;
    // What is being deleted takes its Nodes with it.
    Ok(found.filter(|object| !object.is_being_deleted()))
}

fn of<'a>(scene: &Scene<'a>, object: &'a Arc<Object>) -> Scene<'a> {
    Scene { context: scene.context, object, cluster: scene.cluster.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::super::tests::{BOOTSTRAP, INFRASTRUCTURE, make_cluster, make_machine, play, scene};
    use super::*;
    use crate::lifecycle::context::Context;
    use crate::lifecycle::fields::set;
    use crate::lifecycle::fold::Fold;
    use crate::lifecycle::next::next;
    use crate::lifecycle::objects::ObjectId;
    use crate::lifecycle::settings::{Settings, Timings};
    use crate::lifecycle::step::Outcome;
    use crate::lifecycle::testing::{CLUSTER, cluster_key, core, fold_with, object};
    use model::hub::ObjectKey;

    const CONTROL_PLANE: &str = "controlplane.topologist.dev";

    fn template(kind: &str) -> Object {
        let group = if kind.starts_with("EmbeddedConfig") { BOOTSTRAP } else { INFRASTRUCTURE };
        object(&format!("{group}/v1beta1"), kind, "t", json!({"template": {"spec": {}}}))
    }

    fn to(group: &str, kind: &str, name: &str) -> Value {
        json!({"apiGroup": group, "kind": kind, "name": name})
    }

    /// A Cluster with three control plane Machines, two Machines of a set, two instances of a pool, and a health check of all Machines.
    fn whole() -> Fold {
        let mut fold = fold_with(Settings { timings: Timings::NONE, ..Settings::default() });
        make_cluster(&mut fold, json!({}));
        let cluster = fold.core("Cluster", CLUSTER);
        fold.edit(&cluster, |it| set(it, "spec.controlPlaneRef", to(CONTROL_PLANE, "EmbeddedControlPlane", "cp")));
        for kind in ["EmbeddedMachineTemplate", "EmbeddedConfigTemplate"] {
            fold.make(template(kind));
        }
        let machine = to(INFRASTRUCTURE, "EmbeddedMachineTemplate", "t");
        let spec =
            json!({"replicas": 3, "version": "v1.31.0", "machineTemplate": {"spec": {"infrastructureRef": machine}}});
        fold.make(object(&format!("{CONTROL_PLANE}/v1beta1"), "EmbeddedControlPlane", "cp", spec));
        let config = to(BOOTSTRAP, "EmbeddedConfigTemplate", "t");
        let spec = json!({
            "clusterName": CLUSTER, "version": "v1.31.0", "bootstrap": {"configRef": config}, "infrastructureRef": machine,
        });
        let labels = json!({"app": "w"});
        fold.make(core(
            "MachineSet",
            "w",
            json!({
                "clusterName": CLUSTER, "replicas": 2, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            }),
        ));
        fold.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachinePool", "pool", json!({})));
        let spec = json!({
            "clusterName": CLUSTER, "version": "v1.31.0", "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": to(INFRASTRUCTURE, "EmbeddedMachinePool", "pool"),
        });
        fold.make(core(
            "MachinePool",
            "pool",
            json!({"clusterName": CLUSTER, "replicas": 2, "template": {"spec": spec}}),
        ));
        let selector = json!({"matchLabels": {"cluster.x-k8s.io/cluster-name": CLUSTER}});
        fold.make(core("MachineHealthCheck", "all", json!({"clusterName": CLUSTER, "selector": selector})));
        assert!(fold.settle(10_000));
        fold
    }

    fn machines(fold: &Fold) -> BTreeSet<String> {
        fold.all(&GroupKind::core("Machine")).iter().map(|machine| machine.uid().to_owned()).collect()
    }

    /// The names of what is in the workload cluster, and how many etcd members lead.
    fn registered(fold: &Fold) -> (BTreeSet<String>, usize) {
        let workload = fold.objects.workload(&cluster_key()).unwrap();
        let kinds = [
            ("", "Node"),
            ("", "Pod"),
            ("", "Namespace"),
            ("", "ConfigMap"),
            ("apps", "DaemonSet"),
            ("apps", "Deployment"),
        ];
        let objects = kinds.map(|(group, kind)| GroupKind::new(group, kind));
        let objects: Vec<_> = objects.iter().flat_map(|kind| workload.all(kind)).collect();
        let leaders = objects.iter().filter(|one| one.annotation("etcd.topologist.dev/leader").is_some()).count();
        (objects.iter().map(|one| format!("{} {}", one.kind(), one.key())).collect(), leaders)
    }

    #[test]
    fn the_next_leader_registers_what_was_lost_before_anything_looks_for_it() {
        // CT-19.2, CT-19.5, CT-19.6, CT-13.1
        let mut fold = whole();
        let (before, known) = (registered(&fold), machines(&fold));
        assert_eq!((before.0.len(), before.1, known.len()), (7 + 3 * 4 + 4 + 3, 1, 5), "{before:#?}");
        fold.restart();
        let control_plane =
            ObjectId::of(&fold.find(&GroupKind::new(CONTROL_PLANE, "EmbeddedControlPlane"), "cp").unwrap());
        let context = Context::new(&fold.objects, &fold.settings, fold.now());
        let Outcome::Done(step) = next(context, &control_plane) else { panic!("all kinds are listed") };
        let is_connection = |write: &Write| matches!(write, Write::Connect { up: true, .. });
        assert_eq!(
            step.writes.iter().position(is_connection),
            Some(before.0.len()),
            "it is connected after all of them"
        );
        assert!(fold.settle(10_000));
        assert_eq!(registered(&fold), before);
        assert_eq!(machines(&fold), known, "no Machine is replaced");
        assert!(fold.all(&GroupKind::core("Machine")).iter().all(|machine| is_true(machine, "HealthCheckSucceeded")));
    }

    #[test]
    fn a_workload_cluster_has_what_kubeadm_leaves_in_each() {
        // CT-19.6
        let mut fold = scene(Timings::NONE);
        make_cluster(&mut fold, json!({}));
        let cluster = fold.core("Cluster", CLUSTER);
        fold.edit(&cluster, |it| set(it, "spec.clusterNetwork.pods.cidrBlocks", json!(["10.0.0.0/16", "fd00::/64"])));
        make_machine(&mut fold, "m", true, json!({}));
        play(&mut fold, 10);
        let workload = fold.objects.workload(&cluster_key()).unwrap();
        let found = |group: &str, kind: &str, name: &str| {
            workload.get(&GroupKind::new(group, kind), &ObjectKey::new("kube-system", name)).cloned().unwrap()
        };
        let configuration = found("", "ConfigMap", "kubeadm-config");
        let configuration: Value = serde_json::from_str(text(&configuration, "data.ClusterConfiguration")).unwrap();
        assert_eq!(configuration["kubernetesVersion"], "v1.31.0", "that of the first Machine");
        assert_eq!(configuration["networking"]["podSubnet"], "10.0.0.0/16,fd00::/64");
        let image = |object: &Object| items(object, "spec.template.spec.containers")[0]["image"].clone();
        assert_eq!(image(&found("apps", "DaemonSet", "kube-proxy")), "kube-proxy:v1.31.0");
        assert_eq!(image(&found("apps", "Deployment", "coredns")), "coredns");
    }

    #[test]
    fn a_node_that_a_user_deletes_is_not_registered_again() {
        // CT-19.5
        let mut fold = scene(Timings::NONE);
        make_cluster(&mut fold, json!({}));
        make_machine(&mut fold, "m", true, json!({}));
        play(&mut fold, 10);
        let id = |name: &str| ObjectId {
            workload: Some(cluster_key()),
            kind: GroupKind::new("", "Node"),
            key: ObjectKey::new("", name),
        };
        fold.delete(&id("m"));
        let machine = super::super::tests::embedded(&fold, "EmbeddedMachine", "m");
        fold.edit(&machine, |machine| set(machine, "metadata.annotations.note", json!("x")));
        play(&mut fold, 10);
        assert!(fold.objects.get(&id("m")).is_none());
        // The Machine has no control plane, so the infrastructure machine connects.
        fold.restart();
        play(&mut fold, 10);
        assert!(fold.objects.get(&id("m")).is_some());
    }

    #[test]
    fn machines_without_a_node_and_those_that_leave_get_none() {
        // CT-18.4, CT-19.5
        let mut fold = whole();
        let workers: Vec<_> =
            fold.all(&GroupKind::core("Machine")).into_iter().filter(|one| one.label("app") == Some("w")).collect();
        let infrastructure = |machine: &Object| super::super::tests::embedded(&fold, "EmbeddedMachine", machine.name());
        let [first, second] = [&workers[0], &workers[1]].map(|machine| infrastructure(machine));
        fold.settings.timings.deletion = core::time::Duration::from_mins(1);
        fold.edit(&first, |it| crate::lifecycle::conditions::remove(it, "NodeProvisioned"));
        fold.edit(&second, |it| set(it, "metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z")));
        let control_plane = fold.find(&GroupKind::new(CONTROL_PLANE, "EmbeddedControlPlane"), "cp").unwrap();
        fold.restart();
        fold.take(&ObjectId::of(&control_plane));
        let (there, _) = registered(&fold);
        for machine in [first, second] {
            assert!(!there.contains(&format!("Node {}", ObjectKey::new("", machine.name()))), "{there:#?}");
        }
        assert_eq!(there.iter().filter(|name| name.starts_with("Node")).count(), 5);
    }
}
