//! Generated topologies: a class with inline patches, its templates, and Clusters of any size.
#![allow(dead_code, reason = "each benchmark uses a part of the shared support")]

use std::sync::Arc;

use serde_json::{Value, json};
use topologist::hub::{Cluster, ClusterClass, Object, ObjectKey};
use topologist::topology::class_status;
use topologist::wire::{Decode, WireVersion};
use topologist::world::{Facts, ObjectSet, Record};

pub const NAMESPACE: &str = "fleet";

/// How large a topology is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub deployments: usize,
    pub patches: usize,
}

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// The class and its templates.
pub fn class_and_templates(size: Size) -> (Value, Vec<Value>) {
    let template = |api_version: &str, kind: &str, spec: Value| {
        let metadata = json!({"namespace": NAMESPACE, "name": kind.to_lowercase()});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"template": {"spec": spec}}})
    };
    let machines = json!({
        "instanceType": "medium", "image": {"name": "ubuntu-22", "checksum": "0000"}, "rootVolume": {"size": 40},
        "tags": (0..8).map(|i| (format!("tag-{i}"), json!("value"))).collect::<serde_json::Map<_, _>>(),
    });
    let files: Vec<Value> = (0..6)
        .map(|i| json!({"path": format!("/etc/files/{i}"), "content": "x".repeat(400), "permissions": "0644"}))
        .collect();
    let kubeadm = json!({
        "files": files, "preKubeadmCommands": ["swapoff -a", "sysctl --system"],
        "joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "2"}]}},
    });
    let control_plane = json!({"kubeadmConfigSpec": kubeadm, "machineTemplate": {"spec": {}}});
    let templates = vec![
        template(INFRASTRUCTURE, "MachineClusterTemplate", json!({"region": "north", "subnets": ["a", "b", "c"]})),
        template(INFRASTRUCTURE, "BoxMachineTemplate", machines),
        template("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", kubeadm),
        template("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate", control_plane),
    ];
    let reference = |kind: &str| {
        let template = templates.iter().find(|template| template["kind"] == kind).unwrap();
        let (api_version, name) = (&template["apiVersion"], &template["metadata"]["name"]);
        json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": name}})
    };
    let variable = |i: usize| {
        json!({"name": format!("setting{i}"), "required": true,
            "schema": {"openAPIV3Schema": {"type": "string", "default": format!("value-{i}")}}})
    };
    let mut spec = json!({
        "infrastructure": reference("MachineClusterTemplate"),
        "controlPlane": reference("KubeadmControlPlaneTemplate"),
        "workers": {"machineDeployments": [{
            "class": "box", "bootstrap": reference("KubeadmConfigTemplate"),
            "infrastructure": reference("BoxMachineTemplate"),
        }]},
        "variables": (0..size.patches).map(variable).collect::<Vec<_>>(),
        "patches": (0..size.patches).map(patch).collect::<Vec<_>>(),
    });
    spec["controlPlane"]["machineInfrastructure"] = reference("BoxMachineTemplate");
    let class = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"namespace": NAMESPACE, "name": "box"}, "spec": spec,
    });
    (class, templates)
}

/// Patches of the kinds that classes have: a variable, a template, a template of builtin variables, one that is
/// switched off.
fn patch(i: usize) -> Value {
    let workers = json!({"machineDeploymentClass": {"names": ["*"]}});
    let machines = |path: &str, value: Value| {
        json!([{"selector": {"apiVersion": INFRASTRUCTURE, "kind": "BoxMachineTemplate",
            "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["*"]}}},
            "jsonPatches": [{"op": "add", "path": path, "valueFrom": value}]}])
    };
    let bootstrap = |path: &str, value: Value| {
        json!([{"selector": {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
            "matchResources": workers}, "jsonPatches": [{"op": "add", "path": path, "valueFrom": value}]}])
    };
    let (name, variable) = (format!("patch-{i}"), format!("setting{i}"));
    match i % 4 {
        0 => {
            let path = format!("/spec/template/spec/tags/patch-{i}");
            json!({"name": name, "definitions": machines(&path, json!({"variable": variable}))})
        }
        1 => {
            let file = format!(
                "path: /etc/patched/{i}\npermissions: \"0600\"\n\
                 content: |\n  name={{{{ .builtin.cluster.name }}}}\n  value={{{{ .{variable} | quote }}}}\n"
            );
            json!({"name": name, "definitions": bootstrap("/spec/template/spec/files/-", json!({"template": file}))})
        }
        2 => {
            let image = "{{ .builtin.machineDeployment.version | default \"\" | replace \"+\" \"-\" | quote }}";
            let path = "/spec/template/spec/image/version";
            let mut definitions = machines(path, json!({"template": image}));
            definitions[0]["selector"]["matchResources"] = workers;
            json!({"name": name, "definitions": definitions})
        }
        _ => {
            let path = format!("/spec/template/spec/tags/off-{i}");
            let enabled = format!("{{{{ eq .{variable} \"on\" }}}}");
            json!({"name": name, "enabledIf": enabled, "definitions": machines(&path, json!({"variable": variable}))})
        }
    }
}

/// A Cluster of the class.
pub fn cluster(i: usize, size: Size) -> Value {
    let deployment = |at: usize| json!({"class": "box", "name": format!("pool-{at}"), "replicas": 3});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": NAMESPACE, "name": format!("cluster-{i}"), "uid": format!("uid-{i}")},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}, "services": {"cidrBlocks": ["10.1.0.0/16"]}},
            "topology": {
                "classRef": {"name": "box"}, "version": "v1.33.1",
                "controlPlane": {"replicas": 3, "metadata": {"labels": {"tier": "gold"}}},
                "workers": {"machineDeployments": (0..size.deployments).map(deployment).collect::<Vec<_>>()},
            },
        },
    })
}

/// A world of so many Clusters.
pub fn facts(clusters: usize, size: Size) -> Facts {
    let (class, templates) = class_and_templates(size);
    let mut objects = ObjectSet::default();
    templates.into_iter().for_each(|template| objects.put(Arc::new(Object::try_from(template).unwrap())));
    let class = ClusterClass::decode(WireVersion::V1Beta2, &class_status::with_status(&class.to_string())).unwrap();
    let clusters = (0..clusters).map(|i| serde_json::from_value(cluster(i, size)).unwrap());
    Facts::complete(clusters, [class]).with_objects(objects)
}

/// The same, with another number of machines in each Cluster.
pub fn facts_that_differ(clusters: usize, size: Size) -> Facts {
    let mut facts = facts(clusters, size);
    for i in 0..clusters {
        let mut cluster = cluster(i, size);
        cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] = json!(3 + i);
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        facts.put_cluster(cluster.metadata.key(), Record::readable(cluster));
    }
    facts
}

/// The name of a Cluster.
pub fn key(i: usize) -> ObjectKey {
    ObjectKey::new(NAMESPACE, format!("cluster-{i}"))
}
