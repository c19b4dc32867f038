//! Variables of topologies through the API server: defaults are stored, and classes and Clusters change side by side.

use std::sync::Arc;

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest};
use topologist::hub::{ClusterClass, Kind};
use topologist::wire::{Decode, WireVersion};
use topologist::world::Facts;

use crate::admission::{Objects, causes, class, cluster, denial, pairs};
use crate::harness::wait::{self, SOON};

/// A class with variables, each a name and a schema.
fn class_with(name: &str, variables: &[(&str, Value)]) -> Value {
    let mut class = class(name);
    class["spec"]["variables"] = definitions(variables);
    class
}

fn definitions(variables: &[(&str, Value)]) -> Value {
    let definition = |(name, schema): &(&str, Value)| {
        json!({"name": name, "required": false,
            "schema": {"openAPIV3Schema": schema}})
    };
    variables.iter().map(definition).collect()
}

fn cluster_with(name: &str, class: &str, variables: Value) -> Value {
    let mut cluster = cluster(name, class);
    cluster["spec"]["topology"]["variables"] = variables;
    cluster
}

#[tokio::test]
async fn a_defaulted_variable_is_stored() {
    // CL-D-006, DEC-2
    let objects = Objects::fresh("defaults").await;
    let size = json!({"type": "object", "default": {}, "properties": {"cpu": {"type": "integer", "default": 2}}});
    let class = class_with("base", &[("size", size), ("zone", json!({"type": "string", "enum": ["a", "b"]}))]);
    objects.create("ClusterClass", &class).await.unwrap();
    let stored = objects.create("Cluster", &cluster("one", "base")).await.unwrap();
    let want = json!([{"name": "size", "value": {"cpu": 2}}]);
    assert_eq!(stored.data["spec"]["topology"]["variables"], want);
    assert_eq!(objects.clusters.get("one").await.unwrap().data["spec"]["topology"]["variables"], want);

    let wrong =
        cluster_with("two", "base", json!([{"name": "zone", "value": "c"}, {"name": "size", "value": {"cpu": "4"}}]));
    let status = denial(objects.create("Cluster", &wrong).await);
    let want = [
        ("FieldValueNotSupported", "spec.topology.variables[zone].value"),
        ("FieldValueTypeInvalid", "spec.topology.variables[size].value.cpu"),
    ];
    assert_eq!(causes(&status), pairs(&want));
}

#[tokio::test]
async fn a_class_update_that_breaks_a_cluster_is_denied_and_names_it() {
    // DEC-1
    let objects = Objects::fresh("breaking").await;
    let class = class_with("base", &[("size", json!({"type": "string"}))]);
    objects.create("ClusterClass", &class).await.unwrap();
    objects.create("Cluster", &cluster_with("one", "base", json!([{"name": "size", "value": "l"}]))).await.unwrap();

    let integers = Patch::Merge(json!({"spec": {"variables": definitions(&[("size", json!({"type": "integer"}))])}}));
    let status = refused_soon(&objects, &integers).await;
    assert_eq!(causes(&status), pairs(&[("FieldValueTypeInvalid", "spec.topology.variables[size].value")]));
    let whose = format!("(Cluster \"one\" in namespace {:?})", objects.namespace);
    assert!(status.message.contains(&whose), "{}", status.message);

    let way_out = "unsafe.topologist.dev/allow-breaking-clusters";
    assert!(status.message.contains(way_out), "{}", status.message);
    let annotated = Patch::Merge(json!({"metadata": {"annotations": {way_out: ""}},
        "spec": {"variables": definitions(&[("size", json!({"type": "integer"}))])}}));
    objects.classes.patch("base", &PatchParams::default(), &annotated).await.unwrap();
}

/// The denial of a change of the class; the watch needs a moment to show its Cluster.
async fn refused_soon(objects: &Objects, change: &Patch<Value>) -> kube::core::response::Status {
    let dry_run = PatchParams::default().dry_run();
    let is_denied = async || objects.classes.patch("base", &dry_run, change).await.is_err();
    wait::until_async("the webhook has seen the Cluster", SOON, is_denied, wait::nothing).await;
    denial(objects.classes.patch("base", &PatchParams::default(), change).await)
}

/// How often a class and a Cluster race.
const RACES: usize = 25;

#[tokio::test]
async fn concurrent_changes_of_a_class_and_a_cluster_are_denied_or_reported_later() {
    // DEC-1, BP-03
    let objects = Objects::fresh("race").await;
    let (mut class_lost, mut cluster_lost, mut slipped) = (0, 0, 0);
    for i in 0..RACES {
        let (class_name, cluster_name) = (format!("class-{i}"), format!("cluster-{i}"));
        let before = class_with(&class_name, &[("size", json!({"type": "string"}))]);
        objects.create("ClusterClass", &before).await.unwrap();
        let removal =
            Patch::Merge(json!({"spec": {"variables": definitions(&[("other", json!({"type": "string"}))])}}));
        let setting = cluster_with(&cluster_name, &class_name, json!([{"name": "size", "value": "l"}]));
        let update = async {
            // Sometimes before, sometimes after.
            tokio::time::sleep(std::time::Duration::from_millis(u64::try_from(i % 5).unwrap() * 3)).await;
            objects.classes.patch(&class_name, &PatchParams::default(), &removal).await
        };
        match tokio::join!(objects.create("Cluster", &setting), update) {
            (Ok(_), Err(error)) => {
                class_lost += 1;
                let message = format!("{}/{cluster_name}", objects.namespace);
                assert!(error.to_string().contains(&message), "{error}");
            }
            (Err(error), Ok(_)) => {
                cluster_lost += 1;
                assert!(error.to_string().contains("spec.topology.variables[size]"), "{error}");
            }
            (Ok(cluster), Ok(class)) => {
                slipped += 1;
                assert_eq!(judged(&cluster, &class), ["VAR-V-004"], "the next look at both finds out");
            }
            (Err(cluster), Err(class)) => panic!("both were refused: {cluster}, {class}"),
        }
    }
    assert_eq!(class_lost + cluster_lost + slipped, RACES);
    println!("class refused {class_lost}, Cluster refused {cluster_lost}, found out later {slipped}");
}

/// The rules by which the variables of a stored Cluster are refused, judged with the class as it is stored.
fn judged(cluster: &DynamicObject, class: &DynamicObject) -> Vec<&'static str> {
    let class = ClusterClass::decode(WireVersion::V1Beta2, &serde_json::to_string(class).unwrap()).unwrap();
    let cluster = serde_json::to_string(cluster).unwrap();
    let request = RawRequest {
        phase: Phase::Default,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta2,
        operation: Operation::Create,
        name: "",
        object: Some(&cluster),
        old_object: None,
        old_version: WireVersion::V1Beta2,
    };
    let facts = Arc::new(Facts::complete([], [class]));
    DecodedRequest::decode(&request).unwrap().settle(&facts, &AdmissionSettings::default()).denied_by()
}
