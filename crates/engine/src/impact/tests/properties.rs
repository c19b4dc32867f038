//! The sums of an impact are those of plans, on worlds and edits that chance puts together.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::*;

/// With such names, equal Clusters stand for each other; with the others, which YAML may read as numbers, they do not.
const TWINS: &str = "blue-";
const SINGLES: &str = "c";
/// A time that has not come.
const FUTURE: &str = "2999-01-01T00:00:00Z";
/// A label that a patch reads.
const LABEL: &str = "site.cluster.x-k8s.io/name";
const VERSIONS: [&str; 3] = ["v1.33.0", "v1.33.5", "v1.34.0"];
const TEMPLATE: &str = "ForgeMachineTemplate smith";
/// What is set in a document: which one, where, and to what.
type Setting = (&'static str, &'static str, Value);

fn patch(name: &str, kind: &str, resources: Value, operations: Value) -> Value {
    let group = match kind {
        "KubeadmConfigTemplate" => "bootstrap",
        "KubeadmControlPlaneTemplate" => "controlplane",
        _ => "infrastructure",
    };
    json!({"name": name, "definitions": [{
        "selector": {
            "apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "matchResources": resources,
        },
        "jsonPatches": operations,
    }]})
}

/// Patches by what turns them on and off.
fn patches() -> impl Strategy<Value = Value> {
    let (workers, control_plane) =
        (json!({"machineDeploymentClass": {"names": ["smith"]}}), json!({"controlPlane": true}));
    let workers_too = workers.clone();
    let add = |path: &str, from: Value| {
        json!([{"op": "add", "path": format!("/spec/template/spec/{path}"),
            "valueFrom": from}])
    };
    let sized = add("size", json!({"variable": "size"}));
    let mut conditional =
        patch("huge", "KubeadmConfigTemplate", workers.clone(), add("huge", json!({"variable": "size"})));
    conditional["enabledIf"] = json!("{{ eq .size \"huge\" }}");
    let all = vec![
        patch("workers", "ForgeMachineTemplate", workers.clone(), sized.clone()),
        patch("control-plane", "ForgeMachineTemplate", control_plane.clone(), sized.clone()),
        patch(
            "version",
            "KubeadmControlPlaneTemplate",
            control_plane,
            add("kubeadmConfigSpec/version", json!({"variable": "builtin.controlPlane.version"})),
        ),
        patch(
            "named",
            "KubeadmConfigTemplate",
            workers,
            add("named", json!({"template": "of {{ .builtin.cluster.name }}"})),
        ),
        patch(
            "labelled",
            "KubeadmConfigTemplate",
            workers_too,
            add("at", json!({"template": format!("at {{{{ index .builtin.cluster.metadata.labels \"{LABEL}\" }}}}")})),
        ),
        conditional,
        patch(
            "site",
            "ForgeClusterTemplate",
            json!({"infrastructureCluster": true}),
            add("site", json!({"variable": "size"})),
        ),
        patch("pool", "ForgeMachinePoolTemplate", json!({"machinePoolClass": {"names": ["*"]}}), sized),
    ];
    subsequence(all.clone(), 0..=all.len()).prop_map(Value::Array)
}

/// What an edit of a class sets besides patches.
fn of_classes() -> impl Strategy<Value = Vec<Setting>> {
    let worker = |field: &str| -> &'static str { format!("/spec/workers/machineDeployments/0/{field}").leak() };
    let all: Vec<Setting> = vec![
        ("ClusterClass", worker("minReadySeconds"), json!(9)),
        ("ClusterClass", worker("metadata"), json!({"labels": {"a": "b"}})),
        ("ClusterClass", worker("failureDomain"), json!("east")),
        ("ClusterClass", worker("deletion"), json!({"nodeDrainTimeoutSeconds": 7})),
        ("ClusterClass", worker("rollout"), json!({"strategy": {"type": "OnDelete"}})),
        // E4: every node is unhealthy.
        (
            "ClusterClass",
            worker("healthCheck"),
            json!({"checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "True", "timeoutSeconds": 0}]}}),
        ),
        ("ClusterClass", worker("infrastructure/templateRef/name"), json!("brain")),
        ("ClusterClass", worker("class"), json!("miller")),
        (
            "ClusterClass",
            worker("naming"),
            json!({"template": "{{ .cluster.name }}-x-{{ .machineDeployment.topologyName }}"}),
        ),
        ("ClusterClass", "/spec/controlPlane/naming", json!({"template": "x-{{ .cluster.name }}-{{ .random }}"})),
        ("ClusterClass", "/spec/controlPlane/metadata", json!({"labels": {"a": "b"}})),
        ("ClusterClass", "/spec/infrastructure/templateRef/name", json!("missing")),
    ];
    subsequence(all.clone(), 0..=3)
}

/// What an edit of a template sets.
fn of_templates() -> impl Strategy<Value = Setting> {
    select(vec![
        ("ForgeMachineTemplate smith", "/spec/template/spec/size", json!("large")),
        ("ForgeMachineTemplate brain", "/spec/template/spec/size", json!("small")),
        ("KubeadmConfigTemplate smith", "/spec/template/spec/files", json!([{"path": "/a"}])),
        ("KubeadmControlPlaneTemplate brain", "/spec/template/spec/kubeadmConfigSpec/format", json!("ignition")),
        ("KubeadmControlPlaneTemplate brain", "/spec/template/metadata", json!({"labels": {"a": "b"}})),
        // E1, E3
        ("KubeadmControlPlaneTemplate brain", "/spec/template/spec/rollout", json!({"after": FUTURE})),
        (
            "KubeadmControlPlaneTemplate brain",
            "/spec/template/spec/rollout",
            json!({"before": {"certificatesExpiryDays": 9999}}),
        ),
        ("ForgeClusterTemplate ground", "/spec/template/spec/site", json!("south")),
        ("ForgeMachinePoolTemplate crew", "/spec/template/spec/size", json!("large")),
    ])
}

/// The topology of a Cluster. There are few of each part, so that Clusters are equal now and then.
fn topologies() -> impl Strategy<Value = Value> {
    let bounds = |least: &str| {
        json!({"annotations": {
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": least,
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9",
        }})
    };
    let set = |name: &str, more: Value| {
        let mut set = json!({"class": "smith", "name": name});
        set.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        set
    };
    let deployments = vec![
        json!([]),
        json!([set("md", json!({"replicas": 4}))]),
        json!([set("md", json!({"replicas": 1}))]),
        json!([set("md", json!({}))]),
        json!([set("md", json!({"metadata": bounds("2")}))]),
        json!([set("md", json!({"replicas": 2, "rollout": {"strategy": {"type": "OnDelete"}}}))]),
        // E2
        json!([set("md", json!({"replicas": 2, "rollout": {"after": FUTURE}}))]),
        json!([set("md", json!({"replicas": 2, "minReadySeconds": 5})), set("two", json!({"replicas": 3}))]),
        json!([set("md", json!({"replicas": 2, "variables": {"overrides": [{"name": "size", "value": "huge"}]}}))]),
    ];
    let pools = vec![json!([]), json!([{"class": "crew", "name": "mp", "replicas": 2}])];
    let size = vec![json!([]), json!([{"name": "size", "value": "huge"}])];
    // E2
    let control_planes =
        vec![json!({"replicas": 1}), json!({"replicas": 3}), json!({"replicas": 3, "rollout": {"after": FUTURE}})];
    (select(control_planes), select(deployments), select(pools), select(VERSIONS.to_vec()), select(size)).prop_map(
        |(control_plane, deployments, pools, version, variables)| {
            json!({
                "classRef": {"name": "forge"}, "version": version, "variables": variables,
                "controlPlane": control_plane,
                "workers": {"machineDeployments": deployments, "machinePools": pools},
            })
        },
    )
}

/// What is edited.
#[derive(Clone, Debug)]
enum What {
    Class,
    Template(Setting),
    /// A template that the class names is created; E9, and E10 in the second of its edits.
    NewTemplate,
    /// The first Cluster gets another topology.
    Cluster(Value),
    /// The first Cluster gets a label that a patch may read (E5).
    Label,
}

/// A class, Clusters and an edit, before names are given.
#[derive(Clone, Debug)]
struct Story {
    class: (Value, Vec<Setting>),
    edited: (Value, Vec<Setting>),
    topologies: Vec<Value>,
    what: What,
}

fn stories() -> impl Strategy<Value = Story> {
    let what = prop_oneof![
        2 => Just(What::Class),
        1 => of_templates().prop_map(What::Template),
        1 => Just(What::NewTemplate),
        1 => Just(What::Label),
        1 => topologies().prop_map(What::Cluster),
    ];
    let class = || (patches(), of_classes());
    // Half of them are equal to one of the others.
    let topologies = (topologies(), topologies()).prop_map(|(one, other)| vec![one.clone(), other.clone(), one, other]);
    (class(), class(), topologies, what).prop_map(|(class, edited, topologies, what)| Story {
        class,
        edited,
        topologies,
        what,
    })
}

impl Story {
    /// The world before the edit and after it.
    fn scenes(&self, prefix: &str) -> [Scene; 2] {
        let mut before = with_class(self.with_clusters(prefix), &self.class);
        let after = match &self.what {
            What::Class => with_class(self.with_clusters(prefix), &self.edited),
            What::NewTemplate => {
                let after = before.clone();
                before = before.without(TEMPLATE);
                after
            }
            What::Label => {
                let labels = json!({"number": "0", LABEL: "north"});
                before.clone().at(&format!("Cluster {prefix}0"), "/metadata/labels", labels)
            }
            What::Template((which, at, value)) => before.clone().at(which, at, value.clone()),
            What::Cluster(topology) => {
                before.clone().at(&format!("Cluster {prefix}0"), "/spec/topology", topology.clone())
            }
        };
        [before, after]
    }

    fn with_clusters(&self, prefix: &str) -> Scene {
        let mut cluster = Scene::new().document("Cluster").clone();
        self.topologies.iter().enumerate().fold(Scene::new().without("Cluster"), |scene, (i, topology)| {
            cluster["metadata"]["name"] = json!(format!("{prefix}{i}"));
            cluster["metadata"]["labels"] = json!({"number": i.to_string()});
            cluster["spec"]["topology"] = topology.clone();
            scene.with(cluster.clone())
        })
    }

    fn edit(&self, prefix: &str) -> Edit {
        let [before, after] = self.scenes(prefix);
        match &self.what {
            What::Class => class_edit(&before, &after),
            What::Template((which, ..)) => {
                let [old, new] =
                    [&before, &after].map(|scene| Arc::new(Object::try_from(scene.document(which).clone()).unwrap()));
                Edit::Template { old, new }
            }
            What::NewTemplate => {
                Edit::NewTemplate(Arc::new(Object::try_from(after.document(TEMPLATE).clone()).unwrap()))
            }
            What::Cluster(_) | What::Label => {
                let which = format!("Cluster {prefix}0");
                let [old, new] = [&before, &after]
                    .map(|scene| Arc::new(serde_json::from_value(scene.document(&which).clone()).unwrap()));
                Edit::Cluster { old, new }
            }
        }
    }

    /// The Clusters that the edit concerns.
    fn concerned(&self) -> usize {
        if matches!(self.what, What::Cluster(_) | What::Label) { 1 } else { self.topologies.len() }
    }
}

fn with_class(scene: Scene, (patches, settings): &(Value, Vec<Setting>)) -> Scene {
    let schema = json!({"openAPIV3Schema": {"type": "string", "default": "medium"}});
    let definition = json!({"from": "inline", "required": false, "schema": schema});
    let scene = scene
        .at("ClusterClass", "/spec/variables", json!([{"name": "size", "required": false, "schema": schema}]))
        .at(
            "ClusterClass",
            "/status/variables",
            json!([{"name": "size", "definitionsConflict": false, "definitions": [definition]}]),
        )
        .at("ClusterClass", "/spec/patches", patches.clone());
    settings.iter().fold(scene, |scene, (which, at, value)| scene.at(which, at, value.clone()))
}

/// Sums, without what they are made of.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    machines: ImpactCounts,
    affected: usize,
    failing: usize,
    unknown: usize,
}

/// The sums of plans, one for each Cluster, each of which knows no other.
fn planned_sums(story: &Story, prefix: &str) -> Sums {
    let [before, after] = story.scenes(prefix);
    let mut sums = Sums::default();
    for i in 0..story.concerned() {
        let key = ObjectKey::new("ns", format!("{prefix}{i}"));
        let [mut old, mut new] = [&before, &after].map(|scene| scene.simulator().at(Timestamp::UNIX_EPOCH));
        let is_known = old.settle(&key).failure.is_none();
        new.take_over(&key, &old);
        let rollout = new.roll_out(&key);
        if rollout.failure.is_some() || !is_known {
            sums.failing += usize::from(is_known);
            sums.unknown += usize::from(!is_known);
            continue;
        }
        let mut affects = false;
        for machines in rollout.rounds.iter().flat_map(|round| &round.rolls).map(|roll| roll.machines) {
            let outdated = machines.outdated_until_deleted.unwrap_or_default();
            let count = &mut sums.machines;
            count.replaced += machines.replaced.unwrap_or(machines.at_least);
            count.removed += machines.removed.unwrap_or_default();
            count.added += machines.added.unwrap_or_default();
            count.outdated += outdated;
            count.is_least |= machines.replaced.is_none();
            count.removed_is_least |= machines.removed.is_none();
            affects |= machines.affects_machines() || outdated > 0;
        }
        sums.affected += usize::from(affects);
    }
    sums
}

/// The sums of the impact; `None` for an edit that changes nothing.
fn impact_sums(story: &Story, prefix: &str) -> Option<Sums> {
    let impact = impact(&story.scenes(prefix)[0], &story.edit(prefix));
    impact.map(|impact| {
        assert_eq!((impact.clusters, impact.compared), (story.concerned(), story.concerned()));
        let Impact { machines, affected, failing, unknown, .. } = impact;
        Sums { machines, affected, failing, unknown }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// DEC-42: whether equal Clusters are computed once or one by one.
    #[test]
    fn the_sums_of_an_impact_are_those_of_plans(story in stories()) {
        let planned = planned_sums(&story, TWINS);
        for prefix in [TWINS, SINGLES] {
            // Topologies that could not be computed before cannot be computed now.
            let nothing = || Sums { unknown: planned.unknown, ..Sums::default() };
            prop_assert_eq!(&impact_sums(&story, prefix).unwrap_or_else(nothing), &planned);
        }
    }
}
