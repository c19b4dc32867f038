//! Whether the running cluster is ready for another version (UPG-008 to UPG-017, UPG-021, UPG-022).
//!
//! ```text
//! old Cluster ─┬─► control plane object           has the old version, and nothing else runs
//!              ├─► machine deployments ─► Machines have the old version, kubelets included
//!              └─► machine pools ─► Nodes          the same, read from the workload cluster
//! ```
//!
//! All three are checked, so that their facts are gathered in parallel. Each returns at most one reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::topology_change::version_path;
use crate::admission::ListedRule;
use golang::version::{KubeVersion, without_build};
use model::hub::contract::{cloned_kind, definition_name, newest_version};
use model::hub::control_plane::{UnclearVersion, is_upgrading, running_versions, version_at};
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Object, ObjectKey, ObjectRef, WrongType, label, paths};
use model::world::{Found, Nodes, NodesOf, Selection, World};
use schema::field::{Findings, RuleId, enumerated, shortened};

const READY: RuleId = "UPG-008";
const CONTROL_PLANE: RuleId = "UPG-009";
const PROVISIONED: RuleId = "UPG-010";
const NOT_UPGRADING: RuleId = "UPG-011";
const DEPLOYMENTS: RuleId = "UPG-012";
const DEPLOYMENT_VERSIONS: RuleId = "UPG-013";
const MACHINES: RuleId = "UPG-014";
const POOLS: RuleId = "UPG-015";
const POOL_VERSIONS: RuleId = "UPG-016";
const NODES: RuleId = "UPG-017";
const CONTRACT: RuleId = "UPG-021";
const RUNNING_VERSIONS: RuleId = "UPG-022";

/// Rules that are not checked if the running cluster is unknown (DEC-18).
const LIVE: [RuleId; 10] = [
    READY,
    CONTROL_PLANE,
    PROVISIONED,
    NOT_UPGRADING,
    DEPLOYMENTS,
    DEPLOYMENT_VERSIONS,
    MACHINES,
    POOLS,
    POOL_VERSIONS,
    NODES,
];

/// Rules that are not checked without permission to read kubeconfigs of workload clusters (DEC-47).
const OF_POOLS: [RuleId; 3] = [POOLS, POOL_VERSIONS, NODES];

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        (READY, "running_cluster_is_ready_for_another_version"),
        (CONTRACT, "control_plane_kind_follows_a_contract"),
        (CONTROL_PLANE, "control_plane_has_the_old_version"),
        (RUNNING_VERSIONS, "versions_of_the_control_plane_can_be_told"),
        (PROVISIONED, "control_plane_is_provisioned"),
        (NOT_UPGRADING, "control_plane_is_not_upgrading"),
        (DEPLOYMENTS, "machine_deployments_can_be_listed"),
        (DEPLOYMENT_VERSIONS, "machine_deployments_have_the_old_version"),
        (MACHINES, "machines_have_the_version_of_their_machine_deployment"),
        (POOLS, "machine_pools_and_their_workload_cluster_can_be_read"),
        (POOL_VERSIONS, "machine_pools_have_the_old_version"),
        (NODES, "nodes_have_the_version_of_their_machine_pool"),
    ]
    .into_iter()
    .map(|(id, name)| ListedRule { id, name, kind: Some(Kind::Cluster) })
}

/// A change of a topology's version.
pub(super) struct Upgrade<'a> {
    pub world: &'a World,
    pub old: &'a Cluster,
    pub class: &'a ClusterClass,
    /// The version of the old topology.
    pub from: &'a KubeVersion,
    /// The text of the new topology's version.
    pub to: &'a str,
}

/// The reason for which a part of the cluster is not known to be ready.
enum Halt {
    /// The part is not ready, or its state is unknown: a reason to wait either way.
    Because(RuleId, String),
    /// A fact is missing; the check will run again.
    NotAsked,
}

type CheckResult<T = ()> = Result<T, Halt>;

/// Control plane, machine deployments and machine pools are ready for another version (UPG-008). All reasons are
/// reported in one error. If the control plane is not among the files, nothing is checked (DEC-18).
pub(super) fn validate(upgrade: &Upgrade<'_>, found: &mut Findings, not_checked: &mut Vec<RuleId>) {
    if upgrade.world.is_closed() && upgrade.held_control_plane().is_none() {
        not_checked.extend(LIVE);
        return;
    }
    let pools = upgrade.machine_pools(found, not_checked);
    let parts = [upgrade.control_plane(), upgrade.machine_deployments(), pools];
    let mut reasons: Vec<(RuleId, String)> = parts.into_iter().filter_map(reason).collect();
    // Reasons of a silenced rule are not reported.
    reasons.retain(|(rule, _)| found.run(rule, |_| ()).is_some());
    let (rule, detail) = match &*reasons {
        [] => return,
        [(rule, text)] => (*rule, text.clone()),
        several => {
            let texts: Vec<&str> = several.iter().map(|(_, text)| &**text).collect();
            (READY, format!("[{}]", texts.join(", ")))
        }
    };
    found.run(READY, |found| found.run(rule, |found| found.invalid(version_path(), upgrade.to, detail)));
}

fn reason(part: CheckResult) -> Option<(RuleId, String)> {
    match part {
        Err(Halt::Because(rule, text)) => Some((rule, text)),
        Err(Halt::NotAsked) | Ok(()) => None,
    }
}

/// The warning about machine pools that are not checked (DEC-47).
fn unreadable_kubeconfig(cluster: &ObjectKey) -> String {
    format!(
        "spec.topology.version: machine pools were not checked ({}), because topologist has no permission to read \
         Secret {cluster}-kubeconfig; make sure that none of them is upgrading",
        enumerated(OF_POOLS)
    )
}

fn halt(rule: RuleId, reason: impl ToString) -> Halt {
    Halt::Because(rule, shortened(&reason.to_string()).into_owned())
}

/// The object, or none if it does not exist; an unreadable one is a reason.
fn known<T>(found: Found<T>, rule: RuleId, what: impl std::fmt::Display) -> CheckResult<Option<T>> {
    match found {
        Found::Yes(object) => Ok(Some(object)),
        Found::Absent => Ok(None),
        Found::Unreadable(reason) => Err(halt(rule, format!("{what} cannot be read: {reason}"))),
        Found::NotAsked => Err(Halt::NotAsked),
    }
}

impl Upgrade<'_> {
    fn control_plane(&self) -> CheckResult {
        let object = self.control_plane_object()?;
        let wanted = version_at(&object, paths::VERSION).map_err(|unclear| halt(CONTROL_PLANE, unclear))?;
        let name = object.reference();
        if wanted != *self.from {
            let text = format!("{name} has not been moved to {} yet: its spec.version is {wanted}", self.from);
            return Err(halt(CONTROL_PLANE, text));
        }
        let running = running_versions(&object).map_err(|unclear: UnclearVersion| halt(RUNNING_VERSIONS, unclear))?;
        if running.is_empty() {
            return Err(halt(PROVISIONED, format!("{name} is being provisioned: no version runs in it yet")));
        }
        if is_upgrading(&wanted, &running) {
            let running: Vec<String> = running.iter().map(ToString::to_string).collect();
            let text = format!("{name} is upgrading to {wanted}: {} runs in it", enumerated(running));
            return Err(halt(NOT_UPGRADING, text));
        }
        Ok(())
    }

    /// The object of the reference of the old Cluster, in the version that its definition names (UPG-009, UPG-021).
    fn control_plane_object(&self) -> CheckResult<Arc<Object>> {
        if let Some(object) = self.held_control_plane() {
            // Files need not have the version of the contract, and the fields have the same path in all versions
            // (CT-5.4).
            return self.control_plane_version().map(|_| object);
        }
        let reference = &self.old.spec.control_plane_ref;
        if !reference.is_defined() {
            return Err(halt(CONTROL_PLANE, "the Cluster has no controlPlaneRef yet"));
        }
        if reference.kind.is_empty() || reference.name.is_empty() {
            return Err(halt(CONTROL_PLANE, "the controlPlaneRef of the Cluster names no kind or no object"));
        }
        let version = self.control_plane_version()?.ok_or_else(|| halt(CONTRACT, self.missing_definition()))?;
        let key = ObjectKey::new(&self.old.metadata.namespace, &reference.name);
        let reference = ObjectRef::new(format!("{}/{version}", reference.api_group), &reference.kind, key);
        let object = known(self.world.object(&reference), CONTROL_PLANE, &reference)?;
        object.ok_or_else(|| halt(CONTROL_PLANE, format!("{reference} does not exist")))
    }

    /// The newest version of the newest contract (UPG-021); `None` without a definition.
    fn control_plane_version(&self) -> CheckResult<Option<String>> {
        let name = self.definition_name();
        let what = format!("CustomResourceDefinition {name}");
        let Some(definition) = known(self.world.definition(&name), CONTRACT, &what)? else { return Ok(None) };
        let version = newest_version(&definition.labels).map(str::to_owned);
        let unlabelled = || format!("{what} has no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1");
        Ok(Some(version.ok_or_else(|| halt(CONTRACT, unlabelled()))?))
    }

    fn definition_name(&self) -> String {
        let reference = &self.old.spec.control_plane_ref;
        definition_name(&reference.api_group, &reference.kind)
    }

    fn missing_definition(&self) -> String {
        format!("CustomResourceDefinition {} does not exist", self.definition_name())
    }

    /// The control plane among files. If the Cluster has no reference yet, it is the object with the labels of the
    /// topology.
    fn held_control_plane(&self) -> Option<Arc<Object>> {
        if !self.world.is_closed() {
            return None;
        }
        let reference = &self.old.spec.control_plane_ref;
        if reference.is_defined() {
            let key = ObjectKey::new(&self.old.metadata.namespace, &reference.name);
            return self.world.held(&reference.api_group, &reference.kind, &key);
        }
        let template = &self.class.spec.control_plane.template_ref;
        let kind = cloned_kind(&template.kind)?;
        let selection = Selection { api_version: template.api_version.clone(), ..self.selection(kind, self.labels()) };
        match self.world.list(&selection) {
            Found::Yes(objects) => objects.into_iter().next(),
            Found::Absent | Found::Unreadable(_) | Found::NotAsked => None,
        }
    }

    fn machine_deployments(&self) -> CheckResult {
        let mut upgrading = Upgrading::new("MachineDeployment");
        let mut is_asked = true;
        for deployment in self.owned("MachineDeployment", DEPLOYMENTS)? {
            let version = version_at(&deployment, paths::worker::VERSION)
                .map_err(|unclear| halt(DEPLOYMENT_VERSIONS, unclear))?;
            if version != *self.from {
                upgrading.note(deployment.name(), DEPLOYMENT_VERSIONS);
                continue;
            }
            match self.some_machine_lags(&deployment) {
                Ok(true) => upgrading.note(deployment.name(), MACHINES),
                Ok(false) => {}
                // The needs of the others are recorded in the same round.
                Err(Halt::NotAsked) => is_asked = false,
                Err(because) => return Err(because),
            }
        }
        if is_asked { upgrading.into() } else { Err(Halt::NotAsked) }
    }

    /// Whether a Machine of a deployment, or its kubelet, has another version than the deployment (UPG-014).
    fn some_machine_lags(&self, deployment: &Object) -> CheckResult<bool> {
        let Some(labels) = selector(deployment).map_err(|reason| halt(MACHINES, reason))? else { return Ok(false) };
        let selection = self.selection("Machine", labels);
        let what = format!("the Machines of {}", deployment.reference());
        let machines = known(self.world.list(&selection), MACHINES, what)?.unwrap_or_default();
        let mut lags = false;
        for machine in machines {
            lags |= is_behind(&machine, deployment).map_err(|reason| halt(MACHINES, reason))?;
        }
        Ok(lags)
    }

    /// Machine pools are checked like machine deployments, with Nodes instead of Machines (UPG-015).
    fn machine_pools(&self, found: &mut Findings, not_checked: &mut Vec<RuleId>) -> CheckResult {
        let pools = self.owned("MachinePool", POOLS)?;
        if pools.is_empty() {
            return Ok(());
        }
        let mut upgrading = Upgrading::new("MachinePool");
        let settled = self.settled(&pools, &mut upgrading);
        let names = settled.iter().flatten().flat_map(|(_, names)| names).cloned().collect();
        let cluster = self.old.metadata.key();
        let nodes = self.world.ask(&NodesOf { cluster: cluster.clone(), names });
        if nodes == Found::Absent && !self.world.is_offline() {
            not_checked.extend(OF_POOLS);
            found.run(POOLS, |found| found.warn(unreadable_kubeconfig(&cluster)));
            return Ok(());
        }
        let settled = settled?;
        let Some(nodes) = known(nodes, POOLS, format!("the workload cluster of {cluster}"))? else {
            not_checked.push(NODES);
            return upgrading.into();
        };
        for (pool, names) in settled {
            if some_node_lags(pool, &names, &nodes)? {
                upgrading.note(pool.name(), NODES);
            }
        }
        upgrading.into()
    }

    /// The machine pools with the old version, each with the names of its Nodes. Others are recorded as upgrading.
    fn settled<'p>(
        &self,
        pools: &'p [Arc<Object>],
        upgrading: &mut Upgrading,
    ) -> CheckResult<Vec<(&'p Arc<Object>, Vec<String>)>> {
        let mut settled = Vec::new();
        for pool in pools {
            let version = version_at(pool, paths::worker::VERSION).map_err(|unclear| halt(POOL_VERSIONS, unclear))?;
            if version == *self.from {
                settled.push((pool, nodes_of(pool).map_err(|reason| halt(NODES, reason))?));
            } else {
                upgrading.note(pool.name(), POOL_VERSIONS);
            }
        }
        Ok(settled)
    }

    /// The objects of a kind that belong to the topology (UPG-012).
    fn owned(&self, kind: &str, rule: RuleId) -> CheckResult<Vec<Arc<Object>>> {
        let found = self.world.list(&self.selection(kind, self.labels()));
        Ok(known(found, rule, format!("the {kind}s of the Cluster"))?.unwrap_or_default())
    }

    /// The labels of the topology's objects.
    fn labels(&self) -> BTreeMap<String, String> {
        let labels = [(label::CLUSTER_NAME, &*self.old.metadata.name), (label::OWNED, "")];
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn selection(&self, kind: &str, labels: BTreeMap<String, String>) -> Selection {
        let namespace = self.old.metadata.namespace.clone();
        Selection { api_version: format!("{GROUP}/v1beta2"), kind: kind.to_owned(), namespace, labels }
    }
}

/// The upgrading objects of a kind, with the first rule that found one.
struct Upgrading {
    kind: &'static str,
    names: Vec<String>,
    rule: Option<RuleId>,
}

impl Upgrading {
    fn new(kind: &'static str) -> Self {
        Upgrading { kind, names: Vec::new(), rule: None }
    }

    fn note(&mut self, name: &str, rule: RuleId) {
        self.names.push(name.to_owned());
        self.rule.get_or_insert(rule);
    }
}

impl From<Upgrading> for CheckResult {
    fn from(Upgrading { kind, names, rule }: Upgrading) -> CheckResult {
        let text = match &*names {
            [only] => format!("{kind} {only} is upgrading"),
            several => format!("{kind}s {} are upgrading", enumerated(several)),
        };
        rule.map_or(Ok(()), |rule| Err(halt(rule, text)))
    }
}

/// An error of the fields that these checks read.
#[derive(Debug, thiserror::Error)]
enum FieldFault {
    #[error(transparent)]
    WrongType(#[from] WrongType),
    #[error("{0} has no spec.version")]
    NoVersion(ObjectRef),
    #[error("the selector of {0} has more than labels and operators In of one value")]
    Selector(ObjectRef),
    #[error("status.nodeRefs of {0} names no Node")]
    NoNode(ObjectRef),
}

/// Whether a Machine has another version than its deployment, as text, or its kubelet another one without build
/// metadata (UPG-014, DEC-71).
fn is_behind(machine: &Object, deployment: &Object) -> Result<bool, FieldFault> {
    let text = |object: &Object, path| -> Result<Option<String>, WrongType> {
        Ok(object.text(path)?.filter(|text| !text.is_empty()).map(str::to_owned))
    };
    let wanted = text(deployment, paths::worker::VERSION)?;
    let version = text(machine, paths::VERSION)?;
    let version = version.ok_or_else(|| FieldFault::NoVersion(machine.reference()))?;
    let kubelet = text(machine, paths::status::KUBELET_VERSION)?;
    let release = wanted.as_deref().map(without_build);
    Ok(Some(&version) != wanted.as_ref() || kubelet.is_some_and(|kubelet| Some(without_build(&kubelet)) != release))
}

/// The labels that a selector requires; `None` if it requires two values of one label.
fn selector(object: &Object) -> Result<Option<BTreeMap<String, String>>, FieldFault> {
    let mut labels = object.texts(paths::worker::MATCH_LABELS)?;
    let expressions = object.list(paths::worker::MATCH_EXPRESSIONS)?;
    for expression in expressions.into_iter().flatten() {
        let text = |name| expression.get(name).and_then(|value| value.as_str()).unwrap_or_default();
        let values = expression.get("values").and_then(|values| values.as_array()).map_or(&[][..], Vec::as_slice);
        let ("In", [value]) = (text("operator"), values) else {
            return Err(FieldFault::Selector(object.reference()));
        };
        let value = value.as_str().unwrap_or_default();
        if labels.insert(text("key").to_owned(), value.to_owned()).is_some_and(|before| before != value) {
            return Ok(None);
        }
    }
    Ok(Some(labels))
}

/// Whether the kubelet of a Node of a machine pool has another version than the pool, without build metadata (UPG-017,
/// DEC-71).
fn some_node_lags(pool: &Object, names: &[String], nodes: &Nodes) -> CheckResult<bool> {
    let wanted = pool.text(paths::worker::VERSION).map_err(|wrong| halt(POOL_VERSIONS, wrong))?;
    let mut lags = false;
    for name in names {
        let node = nodes.get(name).ok_or_else(|| halt(NODES, format!("Node {name} does not exist")))?;
        let kubelet = node.text(paths::status::KUBELET_VERSION).map_err(|wrong| halt(NODES, wrong))?;
        lags |= Some(without_build(kubelet.unwrap_or_default())) != wanted.map(without_build);
    }
    Ok(lags)
}

/// The names of the Nodes of a machine pool (UPG-017).
fn nodes_of(pool: &Object) -> Result<Vec<String>, FieldFault> {
    let listed = pool.list(paths::worker::NODE_REFS)?;
    let name = |reference: &serde_json::Value| {
        let name = reference.get("name").and_then(|name| name.as_str()).filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| FieldFault::NoNode(pool.reference()))
    };
    listed.into_iter().flatten().map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use model::wire::{Decode, WireVersion};
    use model::world::{Answer, Facts, Need, settle_at_once};

    const OLD: &str = "v1.33.0";

    fn object(value: Value) -> Arc<Object> {
        Arc::new(Object::try_from(value).unwrap())
    }

    /// The verdict on a version change of a Cluster with this machine pool, when its Nodes are answered like this:
    /// errors, warnings, and rules that were not checked.
    fn judged(pool: Option<&Value>, nodes: &Found<Nodes>) -> (Vec<String>, Vec<String>, Vec<RuleId>) {
        let cluster = json!({"metadata": {"namespace": "ns", "name": "one"}, "spec": {
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
                "name": "cp"},
            "topology": {"classRef": {"name": "base"}, "version": OLD},
        }});
        let old = Cluster::decode(WireVersion::V1Beta2, &cluster.to_string()).unwrap();
        let class =
            ClusterClass::decode(WireVersion::V1Beta2, r#"{"metadata": {"name": "base"}, "spec": {}}"#).unwrap();
        let from = KubeVersion::parse_tolerant(OLD).unwrap();
        let judge = |world: &World| {
            let (mut found, mut not_checked) = (Findings::default(), Vec::new());
            let upgrade = Upgrade { world, old: &old, class: &class, from: &from, to: "v1.34.0" };
            validate(&upgrade, &mut found, &mut not_checked);
            let (errors, warnings) = found.into_parts();
            let errors = errors.iter().map(|error| format!("{} {}", error.rule, error.detail)).collect();
            let warnings = warnings.into_iter().map(|warning| format!("{} {}", warning.rule, warning.text)).collect();
            (errors, warnings, not_checked)
        };
        let labels = BTreeMap::from([("cluster.x-k8s.io/v1beta2".to_owned(), "v1beta2".to_owned())]);
        let definition =
            Arc::new(model::hub::ResourceDefinition { labels, ..model::hub::ResourceDefinition::default() });
        let answer = |need: &Need| match need {
            Need::Definition(_) => Answer::Definition(Found::Yes(definition.clone())),
            Need::Object(_) => Answer::Object(Found::Yes(object(json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
                "metadata": {"name": "cp"}, "spec": {"version": OLD}, "status": {"version": OLD},
            })))),
            Need::List(selection) if selection.kind == "MachinePool" => {
                Answer::List(Found::Yes(pool.cloned().map(object).into_iter().collect()))
            }
            Need::List(_) => Answer::List(Found::Yes(Vec::new())),
            Need::Nodes(_) => Answer::Nodes(nodes.clone()),
            other => panic!("{other:?}"),
        };
        settle_at_once(World::new(Arc::new(Facts::default())), judge, answer).unwrap()
    }

    #[test]
    fn without_permission_to_read_kubeconfigs_machine_pools_are_not_checked_and_deny_nothing() {
        // DEC-47, UPG-015 to UPG-017
        let pool = |version: Value, status: Value| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "metadata": {"name": "mp"},
                "spec": {"template": {"spec": {"version": version}}}, "status": status})
        };
        let ready = pool(json!(OLD), json!({"nodeRefs": [{"name": "n"}]}));
        let warning = "UPG-015 spec.topology.version: machine pools were not checked (UPG-015, UPG-016, UPG-017), \
                       because topologist has no permission to read Secret ns/one-kubeconfig; make sure that none of \
                       them is upgrading";
        for pool in [
            ready.clone(),
            pool(json!("v1.32.0"), json!({})),
            pool(json!("latest"), json!({})),
            pool(json!(OLD), json!({"nodeRefs": [{}]})),
        ] {
            let (errors, warnings, not_checked) = judged(Some(&pool), &Found::Absent);
            assert_eq!((errors, warnings), (vec![], vec![warning.to_owned()]), "{pool}");
            assert_eq!(not_checked, OF_POOLS, "{pool}");
        }
        // Any other failure is a reason to deny, as is what is known of Nodes.
        let nodes = |kubelet: &str| {
            let node = object(json!({"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}}));
            Found::Yes([("n".to_owned(), node)].into())
        };
        for (nodes, want) in [
            (Found::Unreadable("no".to_owned()), vec!["UPG-015 the workload cluster of ns/one cannot be read: no"]),
            (Found::Yes(Nodes::new()), vec!["UPG-017 Node n does not exist"]),
            (nodes("v1.32.0"), vec!["UPG-017 MachinePool mp is upgrading"]),
            (nodes(OLD), vec![]),
            (nodes(&format!("{OLD}+k0s")), vec![]),
        ] {
            let (errors, warnings, not_checked) = judged(Some(&ready), &nodes);
            assert_eq!(
                (errors, warnings, not_checked),
                (want.into_iter().map(str::to_owned).collect(), vec![], vec![])
            );
        }
        // Without machine pools nothing is asked for, and nothing is missing.
        assert_eq!(judged(None, &Found::Absent), (vec![], vec![], vec![]));
    }
}
