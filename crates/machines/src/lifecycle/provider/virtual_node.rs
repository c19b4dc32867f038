//! Nodes and Pods of workload clusters (CT-19.1, CT-19.5, CT-19.6, CT-19.9).

use std::sync::Arc;

use serde_json::{Value, json};

use super::context::{ProviderContext, made};
use crate::lifecycle::fields::{items, map_mut, set_annotation, stamp, text};
use crate::lifecycle::names;
use crate::lifecycle::objects::{GroupKind, WorkloadObjects};
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use golang::calendar::Moment;
use model::hub::{Object, ObjectKey, paths};

const SYSTEM: &str = "kube-system";
/// Label and taint of control plane Nodes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Taint of Nodes before the first synchronisation (CT-12.6).
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";
/// On Pods of etcd: the cluster, the member, and whether it leads (CT-19.6).
const ETCD_CLUSTER: &str = "etcd.topologist.dev/cluster-id";
const ETCD_MEMBER: &str = "etcd.topologist.dev/member-id";
const ETCD_LEADER: &str = "etcd.topologist.dev/leader";

/// The provider id of a machine (CT-19.4).
pub(super) fn provider_id(name: &str) -> String {
    format!("in-memory://{name}")
}

/// Properties of a Node.
pub(super) struct NodeDescription<'a> {
    pub(super) name: &'a str,
    pub(super) provider_id: String,
    pub(super) version: &'a str,
    pub(super) is_control_plane: bool,
    pub(super) is_ready: bool,
}

impl NodeDescription<'_> {
    /// The Node as registered by a kubelet (CT-19.5).
    pub(super) fn node(&self, now: Moment) -> Object {
        let mut labels = json!({"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"});
        let taint = if self.is_control_plane { CONTROL_PLANE } else { UNINITIALIZED };
        if self.is_control_plane {
            labels[CONTROL_PLANE] = json!("");
        }
        made(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"providerID": self.provider_id, "taints": [{"key": taint, "effect": "NoSchedule"}]},
            "status": {
                "conditions": self.conditions(now),
                // Never changed later (CT-19.12).
                "nodeInfo": {"kubeletVersion": self.version, "operatingSystem": "linux"},
                "addresses": [{"type": "Hostname", "address": self.name}],
            },
        }))
    }

    fn conditions(&self, now: Moment) -> Value {
        let condition = |name: &str, is_true: bool, reason: &str| {
            let status = if is_true { "True" } else { "False" };
            json!({"type": name, "status": status, "reason": reason, "message": "", "lastTransitionTime": stamp(now)})
        };
        json!([
            condition("MemoryPressure", false, "KubeletHasSufficientMemory"),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure"),
            condition("PIDPressure", false, "KubeletHasSufficientPID"),
            condition("Ready", self.is_ready, if self.is_ready { "KubeletReady" } else { "KubeletNotReady" }),
        ])
    }
}

/// A Pod of a control plane machine (CT-19.6).
pub(super) fn pod(ctx: &ProviderContext<'_>, name: &str, version: &str) -> Object {
    let node = ctx.object.name();
    let mut pod = made(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": SYSTEM, "name": format!("{name}-{node}"),
            "labels": {"component": name, "tier": "control-plane"},
            // Static Pods are not drained.
            "annotations": {"kubernetes.io/config.mirror": "true"},
        },
        "spec": {"nodeName": node, "containers": [{"name": name, "image": format!("{name}:{version}")}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }));
    if name == "etcd" {
        describe_member(ctx, &mut pod);
    }
    pod
}

/// The first member sets the cluster ID and leads; the others join (CT-19.6).
fn describe_member(ctx: &ProviderContext<'_>, pod: &mut Object) {
    let members = ctx.context.workload(&ctx.cluster_key()).map(members).unwrap_or_default();
    let known = members.iter().find_map(|member| member.annotation(ETCD_CLUSTER));
    let id = |text: &str| names::short_hash(text).to_string();
    let cluster = known.map_or_else(|| id(ctx.cluster.uid()), str::to_owned);
    set_annotation(pod, ETCD_CLUSTER, &cluster);
    set_annotation(pod, ETCD_MEMBER, &id(ctx.object.uid()));
    if members.iter().all(|member| member.annotation(ETCD_LEADER).is_none()) {
        set_annotation(pod, ETCD_LEADER, "true");
    }
}

/// Pods registered together: only the first member leads.
pub(super) fn with_one_leader(mut objects: Vec<Object>) -> Vec<Object> {
    let leaders = objects.iter_mut().filter(|object| object.annotation(ETCD_LEADER).is_some());
    for other in leaders.skip(1) {
        map_mut(other, paths::metadata::ANNOTATIONS).remove(ETCD_LEADER);
    }
    objects
}

fn members(workload: &WorkloadObjects) -> Vec<Arc<Object>> {
    let kind = GroupKind::new("", "Pod");
    workload.all(&kind).filter(|pod| pod.annotation(ETCD_MEMBER).is_some()).cloned().collect()
}

/// Initial objects of every cluster: namespaces (CT-19.2), then kubeadm's configuration, kube-proxy and CoreDNS
/// (CT-19.6). The last two have neither Pods nor a status, since no kubelet runs them.
pub(super) fn basics(cluster: &Object, version: &str) -> Vec<Object> {
    let network = |name: &str| {
        let blocks = items(cluster, &format!("spec.clusterNetwork.{name}.cidrBlocks")).iter().filter_map(Value::as_str);
        blocks.collect::<Vec<_>>().join(",")
    };
    let domain = match text(cluster, paths::cluster::SERVICE_DOMAIN) {
        "" => "cluster.local",
        domain => domain,
    };
    // JSON is valid YAML.
    let configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
        "clusterName": cluster.name(), "kubernetesVersion": version,
        "networking": {"dnsDomain": domain, "podSubnet": network("pods"), "serviceSubnet": network("services")},
    });
    let runs = |kind: &str, name: &str, image: String| {
        let labels = json!({"k8s-app": name});
        made(json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": {"namespace": SYSTEM, "name": name, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": image}]}},
            },
        }))
    };
    let kubeadm = made(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": SYSTEM, "name": "kubeadm-config"},
        "data": {"ClusterConfiguration": configuration.to_string()},
    }));
    let proxy = runs("DaemonSet", "kube-proxy", format!("kube-proxy:{version}"));
    let dns = runs("Deployment", "coredns", "coredns".to_owned());
    namespaces().into_iter().chain([kubeadm, proxy, dns]).collect()
}

fn namespaces() -> Vec<Object> {
    let namespace = |name: &&str| {
        made(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"},
        }))
    };
    ["default", "kube-node-lease", "kube-public", SYSTEM].iter().map(namespace).collect()
}

/// Deletes the Node of a machine, then its Pods; another etcd member becomes leader if necessary (CT-19.9).
pub(super) fn delete(ctx: &ProviderContext<'_>, step: &mut Reconciliation) {
    let cluster = ctx.cluster_key();
    let Some(workload) = ctx.context.known_workload(&cluster) else { return };
    let name = ctx.object.name();
    let node = workload.node(name);
    let is_etcd = |pod: &&Arc<Object>| pod.annotation(ETCD_MEMBER).is_some();
    let kind = GroupKind::new("", "Pod");
    let pods = workload.all(&kind).filter(|pod| runs_on(pod, name));
    let (etcd, others): (Vec<_>, Vec<_>) = pods.partition(is_etcd);
    if etcd.iter().any(|pod| pod.annotation(ETCD_LEADER).is_some()) {
        move_leadership(&cluster, workload, name).into_iter().for_each(|write| step.require(write));
    }
    for object in node.into_iter().chain(etcd).chain(others).filter(|object| !object.is_being_deleted()) {
        step.require(ObjectWrite::Delete { workload: Some(cluster.clone()), object: object.clone() });
    }
}

fn runs_on(pod: &Object, node: &str) -> bool {
    pod.at(paths::pod::NODE_NAME).is_some_and(|name| name == node) && pod.namespace() == SYSTEM
}

/// Makes the first other member the leader.
fn move_leadership(cluster: &ObjectKey, workload: &WorkloadObjects, from: &str) -> Option<ObjectWrite> {
    let before = members(workload).into_iter().find(|member| !runs_on(member, from))?;
    let mut after = (*before).clone();
    set_annotation(&mut after, ETCD_LEADER, "true");
    Some(ObjectWrite::Update { workload: Some(cluster.clone()), before, after })
}
