//! kube-apiserver takes the definitions that the program prints, keeps every field that they have and refuses what they
//! refuse; and what a topology of the embedded class renders to fits them.

use std::fs;
use std::path::Path;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::core::response::Status;
use regex::Regex;
use serde_json::{Map, Value, json};
use topologist::{crd, yaml};

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::stream;
use crate::harness::server::command;

/// Texts that some pattern of the definitions accepts; the first that fits is taken.
const TEXTS: [&str; 12] = [
    "a",
    "NodeHealthy",
    "v1",
    "abc.example/v1",
    "[1-2]",
    "1m30s",
    "0.5",
    "0644",
    "2026-01-02T03:04:05Z",
    "5m",
    "https://a.example",
    "/path",
];

/// A value that has everything that a schema knows.
fn full(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let mut object: Map<_, _> = fields.map(|(name, field)| (name.clone(), full(field))).collect();
            if schema["x-kubernetes-validations"].to_string().contains("has(self.url) != has(self.service)") {
                object.remove("url");
            }
            if let Some(values) = schema.get("additionalProperties") {
                object.insert("key".to_owned(), full(values));
            }
            Value::Object(object)
        }
        Some("array") => json!([full(&schema["items"])]),
        Some("boolean") => json!(true),
        Some("integer") => json!(1),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
        Some("string") if schema["format"] == "byte" => json!("YQ=="),
        Some("string") => {
            let pattern = Regex::new(schema["pattern"].as_str().unwrap_or_default()).unwrap();
            // What a health check must not look at is a condition that is a word as well.
            let known = TEXTS.iter().filter(|text| schema.get("x-kubernetes-validations").is_none() || text.len() > 5);
            json!(*known.into_iter().find(|text| pattern.is_match(text)).unwrap())
        }
        _ if schema["x-kubernetes-int-or-string"] == true => json!(1),
        _ => json!({"any": ["thing"]}),
    }
}

/// The kinds on a server of their own: other tests of this process have look-alikes of some.
struct Installation {
    kubernetes: Kubernetes,
}

impl Installation {
    async fn new() -> Self {
        let kubernetes = Kubernetes::start();
        let mut definitions = crd::definitions();
        // Only one version of Cluster and ClusterClass is asked for here, so there is no need for anyone who converts.
        for definition in &mut definitions {
            definition["spec"].as_object_mut().unwrap().remove("conversion");
        }
        kubernetes.apply_yaml(&stream(&definitions)).await;
        Installation { kubernetes }
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if kind == "ExtensionConfig" {
            return Api::all_with(self.kubernetes.client(), &resource);
        }
        Api::namespaced_with(self.kubernetes.client(), "default", &resource)
    }

    async fn apply(&self, object: &Value) -> kube::Result<DynamicObject> {
        let api = self.api(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let strict = PatchParams::apply("kinds").force().validation_strict();
        api.patch(object["metadata"]["name"].as_str().unwrap(), &strict, &Patch::Apply(object)).await
    }
}

/// An object of a definition with every field of its spec, and the status with every field.
fn full_object(definition: &Value) -> (Value, Option<Value>) {
    let spec = &definition["spec"];
    let version = &spec["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"]["properties"];
    let types = json!({
        "apiVersion": format!("{}/{}", spec["group"].as_str().unwrap(), version["name"].as_str().unwrap()),
        "kind": spec["names"]["kind"],
        "metadata": {"name": "full"},
    });
    let mut object = types.clone();
    object["spec"] = full(&schema["spec"]);
    let status = schema.get("status").map(|schema| {
        let mut object = types;
        object["status"] = full(schema);
        object
    });
    (object, status)
}

#[tokio::test]
async fn no_field_of_any_kind_is_pruned() {
    let installation = Installation::new().await;
    for definition in crd::definitions() {
        let (object, status) = full_object(&definition);
        let kind = object["kind"].as_str().unwrap();
        let kept = installation.apply(&object).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(kept.data["spec"], object["spec"], "{kind}");
        let api = installation.api(object["apiVersion"].as_str().unwrap(), kind);
        if let Some(status) = status {
            let strict = PatchParams::apply("kinds").force().validation_strict();
            let kept = api.patch_status("full", &strict, &Patch::Apply(&status)).await;
            let kept = kept.unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(kept.data["status"], status["status"], "{kind}");
            assert_eq!(kept.data["spec"], object["spec"], "{kind}: a write of the status leaves the spec alone");
        }
        if definition["spec"]["versions"][0]["subresources"].get("scale").is_some() {
            let scale = api.get_scale("full").await.unwrap();
            let (spec, status) = (scale.spec.unwrap(), scale.status.unwrap());
            assert_eq!((spec.replicas, status.replicas), (Some(1), 1), "{kind}");
            assert_eq!(status.selector.is_some(), kind != "MachinePool", "{kind}");
        }
        api.delete("full", &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn objects_that_violate_the_definitions_are_rejected() {
    let installation = Installation::new().await;
    let definitions = crd::definitions();
    let version = "spec.template.spec.version";
    for (kind, path, value, words) in [
        ("Machine", "spec.unknown", json!(1), "unknown"),
        ("Machine", "spec.clusterName", json!(""), "spec.clusterName"),
        ("Machine", "spec.clusterName", Value::Null, "spec.clusterName"),
        ("Machine", "spec.infrastructureRef.apiVersion", json!("g/v1"), "apiVersion"),
        ("Machine", "spec.infrastructureRef.name", json!("Not_A_Name"), "spec.infrastructureRef.name"),
        ("Machine", "spec.deletion.nodeDrainTimeoutSeconds", json!(-1), "nodeDrainTimeoutSeconds"),
        ("Machine", "spec.taints", json!([{"key": "k", "effect": "Never", "propagation": "Always"}]), "effect"),
        ("MachineSet", "spec.selector", Value::Null, "spec.selector"),
        ("MachineSet", version, json!("v".repeat(257)), version),
        ("MachineSet", "spec.rollout", json!({}), "rollout"),
        ("MachineDeployment", "spec.template", Value::Null, "spec.template"),
        ("MachineDeployment", "spec.rollout.strategy.type", json!("Recreate"), "spec.rollout.strategy.type"),
        ("MachineDeployment", "spec.rollout.strategy.rollingUpdate.maxSurge", json!([]), "maxSurge"),
        ("MachineDeployment", "spec.deletion.order", json!("First"), "spec.deletion.order"),
        ("MachineDeployment", "spec.replicas", json!("three"), "spec.replicas"),
        ("MachinePool", "spec.failureDomains", json!([]), "spec.failureDomains"),
        ("MachinePool", "spec.selector", json!({}), "selector"),
        ("MachineHealthCheck", "spec.checks", json!({}), "spec.checks"),
        ("MachineHealthCheck", "spec.remediation.maxInFlight", json!(1), "maxInFlight"),
        (
            "MachineHealthCheck",
            "spec.checks.unhealthyMachineConditions",
            json!([{"type": "Ready", "status": "True", "timeoutSeconds": 1}]),
            "type must not be one of",
        ),
        ("EmbeddedCluster", "spec.controlPlaneEndpoint.port", json!(65536), "spec.controlPlaneEndpoint.port"),
        ("EmbeddedCluster", "spec.failureDomains", json!([{"name": "a"}, {"name": "a"}]), "duplicate"),
        ("EmbeddedMachine", "spec.backend.inMemory.vm.provisioning.startupDuration", json!("soon"), "startupDuration"),
        ("EmbeddedMachine", "spec.backend.inMemory.vm.provisioning.startupJitter", json!("1.5"), "startupJitter"),
        ("EmbeddedMachinePool", "spec.backend.inMemory.etcd", json!({}), "etcd"),
        ("EmbeddedMachineTemplate", "spec.template.spec.providerID", json!("in-memory://a"), "providerID"),
        ("EmbeddedConfig", "spec.format", json!("script"), "spec.format"),
        ("EmbeddedConfigTemplate", "spec.template.spec", Value::Null, "spec.template.spec"),
        ("EmbeddedControlPlane", "spec.version", Value::Null, "spec.version"),
        ("EmbeddedControlPlane", "spec.replicas", json!(-1), "spec.replicas"),
        ("EmbeddedControlPlaneTemplate", "spec.template.spec.replicas", json!(3), "replicas"),
        ("ExtensionConfig", "spec.clientConfig", json!({}), "spec.clientConfig"),
        ("ExtensionConfig", "spec.clientConfig.url", json!("https://a.example"), "exactly one of url and service"),
        ("ExtensionConfig", "spec.clientConfig.service.port", json!(0), "spec.clientConfig.service.port"),
    ] {
        let definition = definitions.iter().find(|definition| definition["spec"]["names"]["kind"] == kind).unwrap();
        let (mut object, _) = full_object(definition);
        put(&mut object, path, value.clone());
        match installation.apply(&object).await {
            Err(kube::Error::Api(status)) => {
                let Status { message, .. } = &*status;
                assert!(message.contains(words), "{kind} {path} {value}: {message}");
            }
            other => panic!("{kind} with {path} {value} is not refused: {other:?}"),
        }
    }
}

/// Sets a field, or removes it.
fn put(object: &mut Value, path: &str, value: Value) {
    let (parents, last) = path.rsplit_once('.').unwrap();
    let parent = parents.split('.').fold(object, |node, name| &mut node[name]);
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(last)),
        value => parent[last] = value,
    }
}

#[tokio::test]
async fn the_embedded_class_and_its_objects_are_stored_unchanged() {
    let installation = Installation::new().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded");
    let rendered = command(&["render", folder.to_str().unwrap()]).output().unwrap();
    let mut texts: Vec<String> =
        ["class.yaml", "cluster.yaml"].map(|name| fs::read_to_string(folder.join(name)).unwrap()).into();
    texts.push(String::from_utf8(rendered.stdout).unwrap());
    let mut kinds = std::collections::BTreeSet::new();
    for object in texts.iter().flat_map(|text| yaml::documents(text)).map(|document| document.unwrap().value) {
        let kept = installation.apply(&object).await.unwrap_or_else(|error| panic!("{object}: {error}"));
        let kept = serde_json::to_value(kept).unwrap();
        assert_eq!(kept["spec"], object["spec"], "{} {}", object["kind"], object["metadata"]["name"]);
        kinds.insert(object["kind"].as_str().unwrap().to_owned());
    }
    for kind in
        ["EmbeddedControlPlane", "EmbeddedMachinePool", "MachineDeployment", "MachineHealthCheck", "MachinePool"]
    {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
}
