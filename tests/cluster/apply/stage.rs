//! A class with every kind of part on a real API server, and a controller's way from Needs to writes, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use http::Method;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use topologist::hub::contract::plural;
use topologist::hub::{Cluster, ClusterClass, Object, ObjectKey, ObjectRef, ResourceDefinition, group_of, version_of};
use topologist::kubernetes::apply::{AppliedPlan, Applier, PlanRun};
use topologist::kubernetes::dry_run::DryRuns;
use topologist::reconciler::names::LiveNames;
use topologist::telemetry::metrics::Metrics;
use topologist::topology::plan::{AppliedState, Plan};
use topologist::topology::{Computation, Failure, Options};
use topologist::wire::{Decode, WireVersion};
use topologist::world::{Answer, DefinitionName, Facts, Found, Need, World, settle};
use topologist::yaml;
use tower::service_fn;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::stream;
use crate::harness::server::command;
use crate::harness::wait;
use crate::harness::wait::SOON;

pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
pub const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
pub const CORE: &str = "cluster.x-k8s.io/v1beta2";

/// The kinds of providers, and those of Cluster API that a topology makes.
const KINDS: [(&str, &str); 13] = [
    (INFRASTRUCTURE, "ForgeClusterTemplate"),
    (INFRASTRUCTURE, "ForgeCluster"),
    (INFRASTRUCTURE, "ForgeMachineTemplate"),
    (INFRASTRUCTURE, "ForgeMachinePoolTemplate"),
    (INFRASTRUCTURE, "ForgeMachinePool"),
    (CONTROL_PLANE, "KubeadmControlPlaneTemplate"),
    (CONTROL_PLANE, "KubeadmControlPlane"),
    (BOOTSTRAP, "KubeadmConfigTemplate"),
    (BOOTSTRAP, "KubeadmConfig"),
    (CORE, "MachineDeployment"),
    (CORE, "MachinePool"),
    (CORE, "MachineHealthCheck"),
    (CORE, "Machine"),
];

/// What a topology has made, apart from the Cluster.
pub const MADE: [(&str, &str); 9] = [
    (INFRASTRUCTURE, "ForgeCluster"),
    (INFRASTRUCTURE, "ForgeMachineTemplate"),
    (INFRASTRUCTURE, "ForgeMachinePool"),
    (CONTROL_PLANE, "KubeadmControlPlane"),
    (BOOTSTRAP, "KubeadmConfigTemplate"),
    (BOOTSTRAP, "KubeadmConfig"),
    (CORE, "MachineDeployment"),
    (CORE, "MachinePool"),
    (CORE, "MachineHealthCheck"),
];

const SCENE: &str = r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeClusterTemplate
metadata: {name: ground}
spec: {template: {spec: {site: north, controlPlaneEndpoint: {host: "", port: 0}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: brain}
spec:
  template:
    spec:
      kubeadmConfigSpec:
        clusterConfiguration: {apiServer: {extraArgs: [{name: v, value: "2"}, {name: profiling, value: "false"}]}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeMachineTemplate
metadata: {name: brain}
spec: {template: {spec: {size: large}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeMachineTemplate
metadata: {name: smith}
spec: {template: {spec: {size: Small, zones: [{name: a, weight: 1}, {name: b, weight: 2}]}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: smith}
spec: {template: {spec: {format: cloud-config}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeMachinePoolTemplate
metadata: {name: crew}
spec: {template: {spec: {size: small}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: crew}
spec: {template: {spec: {format: cloud-config}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: forge}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeClusterTemplate, name: ground}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: brain}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeMachineTemplate, name: brain}}
    healthCheck: {checks: {nodeStartupTimeoutSeconds: 300}}
  workers:
    machineDeployments:
    - class: smith
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: smith}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeMachineTemplate, name: smith}}
      healthCheck: {checks: {nodeStartupTimeoutSeconds: 300}}
    machinePools:
    - class: crew
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: crew}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeMachinePoolTemplate, name: crew}}
  variables:
  - {name: size, required: false, schema: {openAPIV3Schema: {type: string}}}
  patches:
  - name: size
    enabledIf: "{{ if .size }}true{{ end }}"
    definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: ForgeMachineTemplate
        matchResources: {machineDeploymentClass: {names: [smith]}}
      jsonPatches: [{op: replace, path: /spec/template/spec/size, valueFrom: {variable: size}}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: blade}
spec:
  topology:
    classRef: {name: forge}
    version: v1.33.0
    controlPlane: {replicas: 3}
    workers:
      machineDeployments: [{name: md, class: smith, replicas: 2}]
      machinePools: [{name: mp, class: crew, replicas: 2}]
"#;

/// A definition of a kind whose objects hold whatever they like, apart from what makes a difference to merges: keyed
/// lists of templates and arguments, and a default.
fn definition((api_version, kind): (&str, &str)) -> Value {
    let (group, version) = (group_of(api_version), version_of(api_version));
    let open = |mut schema: Value| {
        schema["type"] = json!("object");
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        schema
    };
    let text = json!({"type": "string"});
    let keyed = |keys: &[&str], other: &str, of: Value| {
        let properties: Value =
            keys.iter().map(|key| ((*key).to_owned(), text.clone())).chain([(other.to_owned(), of)]).collect();
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "required": keys, "properties": properties}})
    };
    let spec = match kind {
        "ForgeMachineTemplate" => {
            let zones = keyed(&["name"], "weight", json!({"type": "integer"}));
            let disk = json!({"type": "integer", "default": 20});
            let spec = open(json!({"properties": {"zones": zones, "disk": disk, "size": text}}));
            open(json!({"properties": {"template": open(json!({"properties": {"spec": spec}}))}}))
        }
        "ForgeCluster" => {
            let endpoint = open(json!({}));
            json!({"type": "object", "properties": {"site": text, "note": text, "controlPlaneEndpoint": endpoint}})
        }
        "KubeadmControlPlane" => {
            let arguments = open(json!({"properties": {"extraArgs": keyed(&["name", "value"], "note", text.clone())}}));
            let configuration = open(json!({"properties": {"apiServer": arguments}}));
            let config = open(json!({"properties": {"clusterConfiguration": configuration}}));
            open(json!({"properties": {"kubeadmConfigSpec": config}}))
        }
        _ => open(json!({})),
    };
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": open(json!({}))}});
    let plural = plural(kind);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"cluster.x-k8s.io/v1beta2": version}},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [
            {"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}},
        ]},
    })
}

/// The server that the stories of this folder share.
async fn kubernetes() -> &'static Kubernetes {
    static SHARED: OnceLock<Kubernetes> = OnceLock::new();
    static READY: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    let kubernetes = SHARED.get_or_init(Kubernetes::start);
    READY
        .get_or_init(async || {
            let crds = command(&["crds"]).output().unwrap();
            kubernetes.apply_yaml(&String::from_utf8(crds.stdout).unwrap()).await;
            kubernetes.apply_yaml(&stream(&KINDS.map(definition))).await;
        })
        .await;
    kubernetes
}

/// What was asked of the API server, apart from reads: `PATCH forgeclusters`, and whether it was a dry run.
type Requests = Arc<Mutex<Vec<(String, bool)>>>;

/// A client that notes what it writes.
fn noting(client: kube::Client, requests: Requests) -> kube::Client {
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        if *request.method() != Method::GET {
            let path: Vec<&str> = request.uri().path().split('/').collect();
            let at = path.iter().position(|part| *part == "namespaces").map_or(0, |at| at + 2);
            let what = format!("{} {}", request.method(), path[at]);
            let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
            requests.lock().unwrap().push((what, is_dry));
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    kube::Client::new(service, "default")
}

/// A namespace with the scene in it.
pub struct Stage {
    pub kubernetes: &'static Kubernetes,
    pub client: kube::Client,
    pub namespace: String,
    pub applier: Applier,
    dry_runs: DryRuns,
    requests: Requests,
    pub metrics: Arc<Metrics>,
}

/// A plan, and the Cluster that it is for.
#[derive(Debug)]
pub struct Planned {
    pub plan: Plan,
    cluster: Object,
}

impl Stage {
    /// The scene as it is.
    pub async fn new(prefix: &str) -> Self {
        Self::with(prefix, |_| {}).await
    }

    /// The scene, each of whose documents is changed first.
    pub async fn with(prefix: &str, change: impl Fn(&mut Value)) -> Self {
        let kubernetes = kubernetes().await;
        let namespace = kubernetes.namespace(prefix).await;
        let requests = Requests::default();
        let client = noting(kubernetes.client(), requests.clone());
        let metrics = Arc::new(Metrics::default());
        let dry_runs = DryRuns::new(client.clone(), metrics.clone());
        let applier = Applier::new(client.clone());
        let stage = Stage { kubernetes, client: kubernetes.client(), namespace, applier, dry_runs, requests, metrics };
        for document in yaml::documents(SCENE) {
            let mut document = document.unwrap().value;
            change(&mut document);
            let (api_version, kind) = (document["apiVersion"].as_str().unwrap(), document["kind"].as_str().unwrap());
            let name = document["metadata"]["name"].as_str().unwrap();
            let user = PatchParams::apply("user").force();
            stage.api(api_version, kind).patch(name, &user, &Patch::Apply(&document)).await.unwrap();
        }
        stage
    }

    pub fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group_of(api_version), version_of(api_version), kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural(kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Changes an object as somebody called `who` would.
    pub async fn edit(&self, who: &str, (api_version, kind): (&str, &str), name: &str, change: Value) {
        let params = PatchParams { field_manager: Some(who.to_owned()), ..PatchParams::default() };
        self.api(api_version, kind).patch(name, &params, &Patch::Merge(change)).await.unwrap();
    }

    pub async fn edit_cluster(&self, change: Value) {
        self.edit("user", (CORE, "Cluster"), "blade", change).await;
    }

    pub async fn create(&self, (api_version, kind): (&str, &str), mut object: Value) {
        (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(api_version, kind).create(&PostParams::default(), &object).await.unwrap();
    }

    /// Waits until the API server calls the webhook that normalizes templates.
    pub async fn until_normalized(&self) {
        let labels = json!({"topology.cluster.x-k8s.io/owned": ""});
        let probe = json!({"apiVersion": INFRASTRUCTURE, "kind": "ForgeMachineTemplate", "metadata": {"name": "probe",
            "labels": labels}, "spec": {"template": {"spec": {"size": "LARGE"}}}});
        let params = PatchParams { dry_run: true, ..PatchParams::apply("probe").force() };
        let templates = self.api(INFRASTRUCTURE, "ForgeMachineTemplate");
        let is_normalized = async || {
            let answer = templates.patch("probe", &params, &Patch::Apply(&probe)).await.unwrap();
            answer.data["spec"]["template"]["spec"]["size"] == "large"
        };
        wait::until_async("the webhook is called", SOON, is_normalized, wait::nothing).await;
    }

    /// The objects of a kind as JSON, by name, those of the class left out.
    pub async fn made(&self, (api_version, kind): (&str, &str)) -> Vec<Value> {
        let list = self.api(api_version, kind).list(&ListParams::default()).await.unwrap();
        let values = list.items.into_iter().map(|mut object| {
            object.types = Some(kube::api::TypeMeta { api_version: api_version.into(), kind: kind.into() });
            serde_json::to_value(object).unwrap()
        });
        values.filter(|object| !object["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_null()).collect()
    }

    /// The only object of a kind.
    pub async fn one(&self, kind: (&str, &str)) -> Value {
        let made = self.made(kind).await;
        assert_eq!(made.len(), 1, "{kind:?}: {made:#?}");
        made.into_iter().next().unwrap()
    }

    pub async fn cluster(&self) -> Value {
        let cluster = self.api(CORE, "Cluster").get("blade").await.unwrap();
        serde_json::to_value(cluster).unwrap()
    }

    /// Everything that the topology has made, as it is.
    pub async fn everything(&self) -> Vec<Object> {
        let mut all = Vec::new();
        for kind in MADE {
            all.extend(self.made(kind).await.into_iter().map(|one| Object::try_from(one).unwrap()));
        }
        all
    }

    /// What was written since the last time, and how many dry runs there were.
    pub fn requests(&self) -> (Vec<String>, usize) {
        let all = std::mem::take(&mut *self.requests.lock().unwrap());
        let dry = all.iter().filter(|(_, is_dry)| *is_dry).count();
        (
            all.into_iter()
                .filter(|(what, is_dry)| !is_dry && !what.ends_with("events"))
                .map(|(what, _)| what)
                .collect(),
            dry,
        )
    }

    /// Cluster and class as they are; the class is ready.
    async fn facts(&self) -> (Cluster, ClusterClass, Facts) {
        let cluster = self.cluster().await.to_string();
        let cluster = Cluster::decode(WireVersion::V1Beta2, &cluster).unwrap();
        let mut class = serde_json::to_value(self.api(CORE, "ClusterClass").get("forge").await.unwrap()).unwrap();
        let status = json!({"observedGeneration": class["metadata"]["generation"],
            "conditions": [{"type": "VariablesReady", "status": "True"}], "variables": [{"name": "size",
            "definitions": [{"from": "inline", "required": false,
                "schema": {"openAPIV3Schema": {"type": "string"}}}]}]});
        class["status"] = status;
        let class = ClusterClass::decode(WireVersion::V1Beta2, &class.to_string()).unwrap();
        (cluster.clone(), class.clone(), Facts::complete([cluster], [class]))
    }

    /// What is to be done as everything is now.
    pub async fn plan(&self) -> Result<Planned, Failure> {
        let base = Object::try_from(self.cluster().await).unwrap();
        let (cluster, class, facts) = self.facts().await;
        let compute = |world: World, mut names: LiveNames| {
            let computation = Computation::from_world(&cluster, &world, &mut names, &Options::new(false));
            let plan =
                computation.and_then(|one| Plan::from_computation(&one, &world, &AppliedState::default(), &mut names));
            assert!(!world.has_needs() || matches!(plan, Err(Failure::NotAsked)));
            ready(Ok::<_, Failure>((plan, world, names)))
        };
        let gather = async |needs: BTreeSet<Need>| {
            let mut answers = Vec::new();
            for need in needs {
                let answer = self.answer(&need).await;
                answers.push((need, answer));
            }
            Ok(answers)
        };
        let (world, names) = (World::new(Arc::new(facts)), LiveNames::for_cluster(&cluster, &class));
        let (plan, _) = settle(world, names, compute, gather).await?;
        plan.map(|plan| Planned { plan, cluster: base })
    }

    async fn answer(&self, need: &Need) -> Answer {
        let of = |value: Value| Arc::new(Object::try_from(value).unwrap());
        match need {
            Need::Object(ObjectRef { api_version, kind, key }) => {
                let found = self.api(api_version, kind).get_opt(&key.name).await.unwrap();
                let found = found.map(|found| of(serde_json::to_value(found).unwrap()));
                Answer::Object(found.map_or(Found::Absent, Found::Yes))
            }
            Need::List(selection) => {
                let all = self.made((&selection.api_version, &selection.kind)).await.into_iter();
                let has = |one: &Value| {
                    selection.labels.iter().all(|(name, value)| one["metadata"]["labels"][name] == **value)
                };
                Answer::List(Found::Yes(all.filter(has).map(of).collect()))
            }
            Need::Definition(DefinitionName(name)) => {
                let (_, kind) = KINDS
                    .iter()
                    .find(|(api_version, kind)| format!("{}.{}", plural(kind), group_of(api_version)) == **name)
                    .map_or((0, None), |kind| (1, Some(*kind)));
                // Only metadata is read, and so without schemas.
                let definition = kind.map(|kind| ResourceDefinition::from_object(&definition(kind)).unwrap());
                let metadata =
                    definition.map(|one| ResourceDefinition { labels: one.labels, ..ResourceDefinition::default() });
                Answer::Definition(metadata.map_or(Found::Absent, |one| Found::Yes(Arc::new(one))))
            }
            Need::DryRun(call) => self.dry_runs.answer(call, Instant::now() + Duration::from_secs(20)).await.unwrap(),
            other => other.unanswered("nobody is asked"),
        }
    }

    /// Carries a plan out.
    pub async fn apply(&self, planned: &Planned) -> AppliedPlan {
        let cluster = ObjectKey::new(&self.namespace, "blade");
        let run = PlanRun {
            cluster: &cluster,
            base: &planned.cluster,
            plan: &planned.plan,
            shim: None,
            known_workers: &BTreeSet::new(),
        };
        self.applier.apply(run).await
    }

    /// Plans and carries out, which works.
    pub async fn roll_out(&self) -> Planned {
        let planned = self.plan().await.unwrap();
        let outcome = self.apply(&planned).await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        planned
    }

    /// Rolls out from nothing, and does what other controllers do then: the Cluster becomes the owner of what it refers
    /// to, the control plane comes up, and what the shim has owned is collected.
    pub async fn settle(&self) {
        self.roll_out().await;
        let cluster = self.cluster().await;
        let owner = json!({"apiVersion": CORE, "kind": "Cluster", "name": "blade", "uid": cluster["metadata"]["uid"]});
        for kind in [(INFRASTRUCTURE, "ForgeCluster"), (CONTROL_PLANE, "KubeadmControlPlane")] {
            let name = self.name_of(kind).await;
            let mut owners = self.one(kind).await["metadata"]["ownerReferences"].clone();
            owners.as_array_mut().unwrap().push(owner.clone());
            self.edit("core", kind, &name, json!({"metadata": {"ownerReferences": owners}})).await;
        }
        let name = self.name_of((CONTROL_PLANE, "KubeadmControlPlane")).await;
        let status = Patch::Merge(json!({"status": {"version": "v1.33.0"}}));
        let control_planes = self.api(CONTROL_PLANE, "KubeadmControlPlane");
        control_planes.patch_status(&name, &PatchParams::default(), &status).await.unwrap();
        self.roll_out().await;
        for kind in [(INFRASTRUCTURE, "ForgeCluster"), (CONTROL_PLANE, "KubeadmControlPlane")] {
            let name = self.name_of(kind).await;
            self.edit("collector", kind, &name, json!({"metadata": {"ownerReferences": [owner]}})).await;
        }
        self.requests();
    }

    pub async fn name_of(&self, kind: (&str, &str)) -> String {
        self.one(kind).await["metadata"]["name"].as_str().unwrap().to_owned()
    }

    /// Type, reason, verb and object of each part of an event, sorted, with the names of the Cluster's namespace left
    /// out, and how often each was reported.
    pub async fn events(&self) -> BTreeMap<String, i64> {
        let list = self.api("v1", "Event").list(&ListParams::default()).await.unwrap();
        let shown = |event: DynamicObject| {
            let event = event.data;
            assert_eq!(event["source"]["component"], "topology/cluster-controller");
            assert_eq!(event["reportingComponent"], "topology/cluster-controller");
            assert_eq!(event["involvedObject"]["kind"], "Cluster");
            let message = event["message"].as_str().unwrap().replace(&format!("{}/", self.namespace), "");
            let (verb, objects) = message.split_once(' ').unwrap();
            let text = |part: &str| {
                format!("{} {}: {verb} {part}", event["type"].as_str().unwrap(), event["reason"].as_str().unwrap())
            };
            let count = event["count"].as_i64().unwrap();
            objects.split(", ").map(|part| (text(part), count)).collect::<Vec<_>>()
        };
        let mut counts = BTreeMap::new();
        for (text, count) in list.items.into_iter().flat_map(shown) {
            *counts.entry(text).or_default() += count;
        }
        counts
    }
}

/// The steps of a plan.
pub fn steps(planned: &Planned) -> Vec<String> {
    planned.plan.steps.iter().map(|step| format!("{} {}", step.action.name(), step.part)).collect()
}
