//! Connects the workload cluster of a Cluster (CT-19.2).
//!
//! It is in the memory of the leading process (DEC-54), so a new leader starts with an empty one. The Nodes and Pods of
//! provisioned machines are restored before it is connected, so that no step sees a workload cluster without them, and
//! no health check considers their machines unhealthy. A Node that a user deletes later is not registered again.

use std::sync::Arc;

use super::context::ProviderContext;
use super::infrastructure_machine::{self, API_SERVER};
use super::infrastructure_pool;
use super::virtual_node::{basics, with_one_leader};
use crate::lifecycle::conditions::is_true;
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::created;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, label, paths};
use model::wire::conversion::embedded::EmbeddedKind;

/// Connects the workload cluster, with its initial objects and those registered by its machines.
///
/// # Errors
/// When the kinds of its machines are not listed yet.
pub(super) fn connect(ctx: &ProviderContext<'_>, step: &mut Reconciliation) -> Result<(), StepError> {
    let workload = ctx.cluster_key();
    let basics = basics(&ctx.cluster, &version(ctx)?);
    let objects = basics.into_iter().chain(with_one_leader(registered(ctx)?));
    let create = |object| ObjectWrite::CreateIfAbsent { workload: Some(workload.clone()), object };
    objects.map(create).for_each(|write| step.require(write));
    step.require(ObjectWrite::Connect { workload, up: true });
    Ok(())
}

/// Connects by the first stand-alone control plane Machine whose API server responds.
///
/// # Errors
/// When the kinds of the machines of the Cluster are not listed yet.
pub(super) fn without_control_plane(ctx: &ProviderContext<'_>, step: &mut Reconciliation) -> Result<(), StepError> {
    let has_control_plane = ctx.cluster.control_plane_ref().is_defined();
    if has_control_plane || ctx.is_connected() || !has_api_server(ctx.object) {
        return Ok(());
    }
    connect(ctx, step)
}

fn has_api_server(object: &Object) -> bool {
    is_true(object, API_SERVER) && !object.is_being_deleted()
}

/// The version of the control plane, or of its oldest Machine without a control plane object.
fn version(ctx: &ProviderContext<'_>) -> Result<String, StepError> {
    let of_object = ctx.object.version();
    if !of_object.is_empty() {
        return Ok(of_object.to_owned());
    }
    let machines = of_cluster(ctx, "Machine")?;
    let ours = machines.iter().filter(|machine| machine.label(label::CONTROL_PLANE).is_some());
    let first = ours.min_by_key(|machine| (created(machine), machine.name()));
    Ok(first.map(|machine| machine.version().to_owned()).unwrap_or_default())
}

/// The registered objects of machines and pool instances.
fn registered(ctx: &ProviderContext<'_>) -> Result<Vec<Object>, StepError> {
    let mut all = Vec::new();
    for machine in of_cluster(ctx, "Machine")? {
        let is_running = !machine.provider_id().is_empty();
        if let Some(object) = infrastructure(ctx, &machine, paths::INFRASTRUCTURE_REF, is_running)? {
            all.extend(infrastructure_machine::registered(&context_for(ctx, &object), &machine));
        }
    }
    for pool in of_cluster(ctx, "MachinePool")? {
        let is_running = !pool.provider_id_list().is_empty();
        if let Some(object) = infrastructure(ctx, &pool, paths::worker::INFRASTRUCTURE_REF, is_running)? {
            all.extend(infrastructure_pool::registered(&context_for(ctx, &object)));
        }
    }
    Ok(all)
}

fn of_cluster(ctx: &ProviderContext<'_>, kind: &str) -> Result<Vec<Arc<Object>>, StepError> {
    ctx.context.of_cluster(&GroupKind::core(kind), &ctx.cluster_key())
}

/// The infrastructure of a Machine or pool, if this process plays its provider.
///
/// It may run, and have registered Nodes, before its owner has a provider ID. Without one, a kind that may not be
/// installed is not waited for.
fn infrastructure(
    ctx: &ProviderContext<'_>,
    owner: &Object,
    path: &str,
    is_running: bool,
) -> Result<Option<Arc<Object>>, StepError> {
    let to = owner.contract_ref_at(path);
    let kind = GroupKind::for_reference(&to);
    if !ctx.context.settings.plays(&kind) {
        return Ok(None);
    }
    let is_installed = is_running || EmbeddedKind::find(&kind.group, &kind.kind).is_some();
    if !is_installed && !ctx.context.is_listed(&kind) {
        return Ok(None);
    }
    let found = ctx.context.referenced(&to, owner.namespace())?;
    // Infrastructure that is being deleted removes its Nodes.
    Ok(found.filter(|object| !object.is_being_deleted()))
}

fn context_for<'a>(ctx: &ProviderContext<'a>, object: &'a Arc<Object>) -> ProviderContext<'a> {
    ProviderContext { context: ctx.context, object, cluster: ctx.cluster.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::super::tests::{BOOTSTRAP, INFRASTRUCTURE, make_cluster, make_machine, play, setup};
    use super::*;
    use crate::lifecycle::context::StepContext;
    use crate::lifecycle::dispatch::next;
    use crate::lifecycle::fields::{items, set, text};
    use crate::lifecycle::objects::ObjectId;
    use crate::lifecycle::settings::{MachineSettings, ProvidedKinds, Timings};
    use crate::lifecycle::simulator::MachineSimulator;
    use crate::lifecycle::step::{StepOutcome, StepWrite};
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

    /// A Cluster with three control plane Machines, two Machines of a set, two instances of a pool, and a health check
    /// of all Machines, after its rollout.
    fn whole() -> MachineSimulator {
        let mut simulator = created();
        assert!(simulator.settle(10_000));
        simulator
    }

    /// The same before its rollout.
    fn created() -> MachineSimulator {
        let mut simulator = fold_with(MachineSettings { timings: Timings::NONE, ..MachineSettings::default() });
        make_cluster(&mut simulator, json!({}));
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator.edit(&cluster, |it| set(it, "spec.controlPlaneRef", to(CONTROL_PLANE, "EmbeddedControlPlane", "cp")));
        for kind in ["EmbeddedMachineTemplate", "EmbeddedConfigTemplate"] {
            simulator.make(template(kind));
        }
        let machine = to(INFRASTRUCTURE, "EmbeddedMachineTemplate", "t");
        let spec =
            json!({"replicas": 3, "version": "v1.31.0", "machineTemplate": {"spec": {"infrastructureRef": machine}}});
        simulator.make(object(&format!("{CONTROL_PLANE}/v1beta1"), "EmbeddedControlPlane", "cp", spec));
        let config = to(BOOTSTRAP, "EmbeddedConfigTemplate", "t");
        let spec = json!({
            "clusterName": CLUSTER, "version": "v1.31.0", "bootstrap": {"configRef": config},
            "infrastructureRef": machine,
        });
        let labels = json!({"app": "w"});
        simulator.make(core(
            "MachineSet",
            "w",
            json!({
                "clusterName": CLUSTER, "replicas": 2, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            }),
        ));
        simulator.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachinePool", "pool", json!({})));
        let spec = json!({
            "clusterName": CLUSTER, "version": "v1.31.0", "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": to(INFRASTRUCTURE, "EmbeddedMachinePool", "pool"),
        });
        simulator.make(core(
            "MachinePool",
            "pool",
            json!({"clusterName": CLUSTER, "replicas": 2, "template": {"spec": spec}}),
        ));
        let selector = json!({"matchLabels": {"cluster.x-k8s.io/cluster-name": CLUSTER}});
        simulator.make(core("MachineHealthCheck", "all", json!({"clusterName": CLUSTER, "selector": selector})));
        simulator
    }

    fn machines(simulator: &MachineSimulator) -> BTreeSet<String> {
        simulator.all(&GroupKind::core("Machine")).iter().map(|machine| machine.uid().to_owned()).collect()
    }

    /// Names of the objects in the workload cluster, and number of etcd leaders.
    fn registered(simulator: &MachineSimulator) -> (BTreeSet<String>, usize) {
        let workload = simulator.objects.workload(&cluster_key()).unwrap();
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
        let mut simulator = whole();
        let (before, known) = (registered(&simulator), machines(&simulator));
        assert_eq!((before.0.len(), before.1, known.len()), (7 + 3 * 4 + 4 + 3, 1, 5), "{before:#?}");
        simulator.restart();
        let control_plane = ObjectId::for_object(
            &simulator.find(&GroupKind::new(CONTROL_PLANE, "EmbeddedControlPlane"), "cp").unwrap(),
        );
        let context = StepContext::new(&simulator.objects, &simulator.settings, simulator.now());
        let StepOutcome::Done(step) = next(context, &control_plane) else { panic!("all kinds are listed") };
        let is_connection =
            |write: &StepWrite| matches!(write, StepWrite::Required(ObjectWrite::Connect { up: true, .. }));
        assert_eq!(
            step.writes.iter().position(is_connection),
            Some(before.0.len()),
            "it is connected after all of them"
        );
        assert!(simulator.settle(10_000));
        assert_eq!(registered(&simulator), before);
        assert_eq!(machines(&simulator), known, "no Machine is replaced");
        assert!(
            simulator.all(&GroupKind::core("Machine")).iter().all(|machine| is_true(machine, "HealthCheckSucceeded"))
        );
    }

    #[test]
    fn a_leader_that_ends_after_any_step_leaves_no_machine_without_its_node() {
        // CT-19.2, CT-19.5, CT-19.6, CT-13.1
        let whole = whole();
        let expected = registered(&whole).0.len();
        for taken in 0..usize::try_from(whole.steps()).unwrap() {
            let mut simulator = created();
            simulator.settle(taken);
            simulator.restart();
            // Machines may not have the provider IDs of their infrastructure yet.
            simulator.take(&ObjectId::new(
                GroupKind::new(CONTROL_PLANE, "EmbeddedControlPlane"),
                ObjectKey::new(cluster_key().namespace, "cp"),
            ));
            assert!(simulator.settle(10_000), "after {taken} steps");
            assert_eq!(registered(&simulator).0.len(), expected, "after {taken} steps");
        }
    }

    #[test]
    fn a_machine_of_a_kind_that_is_not_installed_does_not_delay_the_connection() {
        // CT-19.2
        let mut simulator = whole();
        simulator.settings.provides = ProvidedKinds::Everything;
        let to = to("infrastructure.example.com", "AbsentMachine", "m");
        simulator.make(core(
            "Machine",
            "m",
            json!({"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": to}),
        ));
        simulator.restart();
        let control_plane = simulator.find(&GroupKind::new(CONTROL_PLANE, "EmbeddedControlPlane"), "cp").unwrap();
        let context = StepContext::new(&simulator.objects, &simulator.settings, simulator.now());
        let outcome = next(context, &ObjectId::for_object(&control_plane));
        let StepOutcome::Done(step) = outcome else { panic!("{outcome:?}") };
        let is_connection =
            |write: &StepWrite| matches!(write, StepWrite::Required(ObjectWrite::Connect { up: true, .. }));
        assert!(step.writes.iter().any(is_connection));
    }

    #[test]
    fn a_workload_cluster_has_what_kubeadm_leaves_in_each() {
        // CT-19.6
        let mut simulator = setup(Timings::NONE);
        make_cluster(&mut simulator, json!({}));
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator
            .edit(&cluster, |it| set(it, "spec.clusterNetwork.pods.cidrBlocks", json!(["10.0.0.0/16", "fd00::/64"])));
        make_machine(&mut simulator, "m", true, json!({}));
        play(&mut simulator, 10);
        let workload = simulator.objects.workload(&cluster_key()).unwrap();
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
        let mut simulator = setup(Timings::NONE);
        make_cluster(&mut simulator, json!({}));
        make_machine(&mut simulator, "m", true, json!({}));
        play(&mut simulator, 10);
        let id = |name: &str| ObjectId {
            workload: Some(cluster_key()),
            kind: GroupKind::new("", "Node"),
            key: ObjectKey::new("", name),
        };
        simulator.delete(&id("m"));
        let machine = super::super::tests::embedded(&simulator, "EmbeddedMachine", "m");
        simulator.edit(&machine, |machine| set(machine, "metadata.annotations.note", json!("x")));
        play(&mut simulator, 10);
        assert!(simulator.objects.get(&id("m")).is_none());
        // The Machine has no control plane, so the infrastructure machine connects.
        simulator.restart();
        play(&mut simulator, 10);
        assert!(simulator.objects.get(&id("m")).is_some());
    }

    #[test]
    fn machines_without_a_node_and_those_that_leave_get_none() {
        // CT-18.4, CT-19.5
        let mut simulator = whole();
        let workers: Vec<_> = simulator
            .all(&GroupKind::core("Machine"))
            .into_iter()
            .filter(|one| one.label("app") == Some("w"))
            .collect();
        let infrastructure =
            |machine: &Object| super::super::tests::embedded(&simulator, "EmbeddedMachine", machine.name());
        let [first, second] = [&workers[0], &workers[1]].map(|machine| infrastructure(machine));
        simulator.settings.timings.deletion = core::time::Duration::from_mins(1);
        simulator.edit(&first, |it| crate::lifecycle::conditions::remove(it, "NodeProvisioned"));
        simulator.edit(&second, |it| set(it, "metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z")));
        let control_plane = simulator.find(&GroupKind::new(CONTROL_PLANE, "EmbeddedControlPlane"), "cp").unwrap();
        simulator.restart();
        simulator.take(&ObjectId::for_object(&control_plane));
        let (there, _) = registered(&simulator);
        for machine in [first, second] {
            assert!(!there.contains(&format!("Node {}", ObjectKey::new("", machine.name()))), "{there:#?}");
        }
        assert_eq!(there.iter().filter(|name| name.starts_with("Node")).count(), 5);
    }

    #[test]
    fn a_pool_that_is_scaled_down_between_two_leaders_leaves_no_node() {
        // CT-13.1
        let mut simulator = whole();
        simulator.restart();
        let pool = simulator.core("MachinePool", "pool");
        simulator.edit(&pool, |it| set(it, "spec.replicas", json!(1)));
        assert!(simulator.settle(10_000));
        let workload = simulator.objects.workload(&cluster_key()).unwrap();
        let kind = GroupKind::new("", "Node");
        let nodes: Vec<&str> =
            workload.all(&kind).map(|node| node.name()).filter(|name| name.starts_with("pool")).collect();
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        assert_eq!(items(&simulator.core("MachinePool", "pool"), "status.nodeRefs").len(), 1);
    }
}
