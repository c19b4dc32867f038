//! What happens to the objects of a topology between two edits: others write to them, and records of owners are old.

use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::super::site::{api, text};
use super::actual::{FOREIGN, State, stem};
use super::edits::Draw;
use super::installation::other_version;

/// What a namespace has besides a topology.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flavour {
    /// Its provider normalises values.
    pub normalises: bool,
    /// Another field manager has labels, annotations and fields of its own.
    pub has_others: bool,
    /// Another field manager shares fields of topologies, and takes some with force.
    pub shares: bool,
    /// The record of what topologies applied is of another version of the same objects.
    pub has_old_records: bool,
}

impl Flavour {
    /// All flavours come in ten namespaces.
    pub(super) fn of(place: usize) -> Self {
        let none = Flavour::default();
        match place % 10 {
            1 => Flavour { normalises: true, ..none },
            2 => Flavour { has_others: true, ..none },
            3 => Flavour { shares: true, ..none },
            4 => Flavour { has_old_records: true, ..none },
            5 => Flavour { normalises: true, has_others: true, ..none },
            6 => Flavour { normalises: true, shares: true, ..none },
            7 => Flavour { normalises: true, has_old_records: true, ..none },
            8 => Flavour { has_others: true, has_old_records: true, ..none },
            9 => Flavour { normalises: true, has_others: true, shares: true, has_old_records: true },
            _ => none,
        }
    }

    /// Another field manager writes to the objects of a namespace, and `takes` values of topologies with force. Returns
    /// how many objects a reconciler has changed in the meantime.
    pub(super) async fn write_as_another(
        self,
        client: &kube::Client,
        state: &State,
        namespace: &str,
        takes: bool,
        draw: &mut Draw,
    ) -> usize {
        let mut missed = 0;
        let mut objects = state.topology_of(namespace);
        // Random ends of names would give each object other draws in every run.
        objects.sort_by_key(|object| (text(object, "/kind"), stem(&text(object, "/metadata/name"))));
        for object in objects.into_iter().filter(|_| self.has_others || self.shares) {
            let metadata = &object["metadata"];
            let mut config = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
                "metadata": {"name": metadata["name"], "namespace": namespace, "uid": metadata["uid"]}});
            if self.has_others {
                add_own_fields(&mut config, object);
            }
            if self.shares {
                share_fields(&mut config, object, takes, draw);
            }
            let params = PatchParams::apply(FOREIGN).force();
            missed += usize::from(patched(client, object, &params, &Patch::Apply(config)).await.is_none());
        }
        missed
    }

    /// Records of owners come to be old. Returns how many a reconciler has changed in the meantime.
    pub(super) async fn make_records_old(self, client: &kube::Client, state: &State, namespace: &str) -> usize {
        let mut missed = 0;
        for object in state.topology_of(namespace).into_iter().filter(|_| self.has_old_records) {
            let mut is_done = make_record_old(client, object).await.is_some();
            for _ in 0..10 {
                // Its provider has written a status, maybe.
                let Some(now) = read(client, object).await.filter(|_| !is_done) else { break };
                is_done = make_record_old(client, &now).await.is_some();
            }
            missed += usize::from(!is_done);
        }
        missed
    }
}

/// The object as it is now.
async fn read(client: &kube::Client, object: &Value) -> Option<Value> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let api = api(client, &text(object, "/metadata/namespace"), &api_version, &kind);
    let found = api.get_opt(&text(object, "/metadata/name")).await.unwrap()?;
    let mut found = serde_json::to_value(found).unwrap();
    (found["apiVersion"], found["kind"]) = (json!(api_version), json!(kind));
    Some(found)
}

/// The object after a write; none if it is not what it was when it was read.
async fn patched(client: &kube::Client, object: &Value, params: &PatchParams, patch: &Patch<Value>) -> Option<Value> {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let api = api(client, &namespace, &text(object, "/apiVersion"), &text(object, "/kind"));
    match api.patch(&name, params, patch).await {
        Ok(patched) => Some(serde_json::to_value(patched).unwrap()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => None,
        Err(error) => panic!("{patch:?}: {error}"),
    }
}

/// Where another field manager has fields of its own in templates.
pub(super) const OWN_FIELDS: &[&str] = &[
    "metadata.labels",
    "metadata.annotations",
    "spec.template.spec.commands",
    "spec.template.spec.backend.inMemory.etcd",
];

/// Fields that no topology of these tests asks for.
fn add_own_fields(config: &mut Value, object: &Value) {
    config["metadata"]["labels"] = json!({"gitops.example.test/owner": "a-team"});
    config["metadata"]["annotations"] = json!({"gitops.example.test/source": "a-folder"});
    let (path, value) = match &*text(object, "/kind") {
        "EmbeddedConfigTemplate" => ("/spec/template/spec/commands", json!(["true"])),
        "EmbeddedConfig" => ("/spec/commands", json!(["true"])),
        "EmbeddedControlPlane" => ("/spec/bootstrap/commands", json!(["true"])),
        "EmbeddedCluster" => ("/spec/backend/inMemory/provisioning/startupJitter", json!("0.5")),
        "EmbeddedMachinePool" => ("/spec/backend/inMemory/vm/provisioning/startupJitter", json!("0.5")),
        "EmbeddedMachineTemplate" => {
            let etcd = json!({"provisioning": {"startupDuration": "1000ms"}});
            ("/spec/template/spec/backend/inMemory/etcd", etcd)
        }
        "MachineDeployment" | "MachinePool" => {
            ("/spec/template/spec/deletion/nodeVolumeDetachTimeoutSeconds", json!(77))
        }
        _ => return,
    };
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    if !owned_by_topology(object)
        .iter()
        .any(|(owned, _)| *owned == steps || steps.starts_with(owned) || owned.starts_with(&steps))
    {
        put(config, &steps, value);
    }
}

/// Some fields of the topology with the values that they have, and some with others if it `takes` values.
fn share_fields(config: &mut Value, object: &Value, takes: bool, draw: &mut Draw) {
    for (path, value) in owned_by_topology(object) {
        // What identifies an object, and what it belongs to, has one owner.
        let is_of_engine = path.iter().any(|step| step.contains("cluster.x-k8s.io") || *step == "ownerReferences");
        // Where a class does not set it, its default does; a plan sees it go (docs/plan.md, "Beside existing objects").
        let has_default = path.last() == Some(&"startupJitter");
        if is_of_engine || has_default || draw.below(3) > 0 {
            continue;
        }
        let other = Some(other_value(path.last().unwrap(), &value)).filter(|_| draw.below(3) == 0 && takes).flatten();
        put(config, &path, other.unwrap_or(value));
    }
}

/// Another good value of a field, of those that do not decide which object is which.
fn other_value(name: &str, value: &Value) -> Option<Value> {
    Some(match name {
        "startupDuration" if value != "77000ms" => json!("77000ms"),
        "nodeStartupTimeoutSeconds" => json!(1_234),
        "minReadySeconds" | "nodeDrainTimeoutSeconds" => json!(77),
        "failureDomain" => json!("rack-77"),
        "a" | "b" | "tier" | "zone" if value.is_string() => json!("another"),
        _ => return None,
    })
}

fn put(config: &mut Value, path: &[&str], value: Value) {
    let mut at = config;
    for step in path {
        at = &mut at[*step];
    }
    *at = value;
}

/// The leaves that the topology owns, without those in lists whose entries have owners.
fn owned_by_topology(object: &Value) -> Vec<(Vec<&str>, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let own = entries.filter(|entry| entry["manager"] == "capi-topology" && entry["operation"] == "Apply");
    let mut found = Vec::new();
    for fields in own.filter_map(|entry| entry["fieldsV1"].as_object()) {
        leaves(fields, object, &mut Vec::new(), &mut found);
    }
    found
}

fn leaves<'a>(
    fields: &'a Map<String, Value>,
    value: &Value,
    path: &mut Vec<&'a str>,
    found: &mut Vec<(Vec<&'a str>, Value)>,
) {
    for (field, below) in fields {
        let Some(name) = field.strip_prefix("f:") else { continue };
        let (Some(below), Some(value)) = (below.as_object(), value.get(name)) else { continue };
        path.push(name);
        if !value.is_array() && below.keys().any(|key| key.starts_with("f:")) {
            leaves(below, value, path, found);
        } else if below.is_empty() && !value.as_object().is_some_and(Map::is_empty) {
            found.push((path.clone(), value.clone()));
        }
        path.pop();
    }
}

/// The record says that what the topology and the other field manager applied was in another version.
async fn make_record_old(client: &kube::Client, object: &Value) -> Option<()> {
    let mut entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
    let version = text(object, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap();
    let other = json!(format!("{group}/{}", other_version(version)));
    for entry in &mut entries {
        if entry["operation"] == "Apply" {
            entry["apiVersion"] = other.clone();
        }
    }
    let version = &object["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"managedFields": entries, "resourceVersion": version}});
    let params = PatchParams { field_manager: Some("cluster-api".to_owned()), ..PatchParams::default() };
    let patched = patched(client, object, &params, &Patch::Merge(patch)).await?;
    let entries = patched["metadata"]["managedFields"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["apiVersion"] == other), "{patched:#}");
    Some(())
}
