//! The related objects of an object of a provider, which are read when it changes.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use machines::lifecycle::dependents::is_controlled_by;
use machines::provider_contract::ProviderRole;
use machines::provider_contract::behavior::{RelatedObjects, Secret};
use model::hub::naming::to_label_value;
use model::hub::{GROUP, Object, ObjectKey, label, paths, version_of};
use server::kubernetes::address::Resource;

/// Reads the related objects of an object; unreadable ones are unknown.
pub(super) async fn look_around(client: &kube::Client, role: ProviderRole, object: &Object) -> RelatedObjects {
    let namespace = object.namespace();
    let name = object.label(label::CLUSTER_NAME).map(str::to_owned).or_else(|| owner(object, &["Cluster"]));
    let name = name.filter(|name| is_name(client, namespace, name));
    let cluster = match &name {
        Some(name) => get(client, namespace, "Cluster", name).await,
        None => None,
    };
    let of_machine = match (owner(object, &["Machine"]), owner(object, &["MachinePool"])) {
        (Some(name), _) => get(client, namespace, "Machine", &name).await,
        (None, Some(name)) => get(client, namespace, "MachinePool", &name).await,
        (None, None) => cluster.clone(),
    };
    let mut around = RelatedObjects { cluster, owner: of_machine, ..RelatedObjects::default() };
    let Some(name) = name else { return around };
    match role {
        ProviderRole::ControlPlane => {
            around.machines = machines(client, object, &name).await;
            around.secret = kubeconfig(client, namespace, &format!("{name}-kubeconfig")).await;
        }
        ProviderRole::BootstrapConfig => {
            if let Some(name) = object.at(paths::bootstrap::DATA_SECRET).and_then(Value::as_str) {
                around.secret = secret(client, namespace, name).await;
            }
        }
        ProviderRole::InfrastructureMachinePool => around.instances = instances(client, object, &name).await,
        ProviderRole::InfrastructureCluster | ProviderRole::InfrastructureMachine => {}
    }
    around
}

/// Whether a text from an object can be a name, and so a segment of a path or a part of a selector.
fn is_name(client: &kube::Client, namespace: &str, text: &str) -> bool {
    let key = ObjectKey::new(namespace, text);
    Resource::known("", "v1", "Secret").one::<DynamicObject>(client.clone(), &key).is_ok()
}

/// The name of the first owner of one of these kinds of Cluster API.
fn owner(object: &Object, kinds: &[&str]) -> Option<String> {
    let text = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_one = |owner: &&Value| {
        text(owner, "apiVersion").starts_with(&format!("{GROUP}/")) && kinds.contains(&&*text(owner, "kind"))
    };
    object.owner_references().iter().find(is_one).map(|owner| text(owner, "name"))
}

async fn get(client: &kube::Client, namespace: &str, kind: &'static str, name: &str) -> Option<Object> {
    let resource = Resource::known(GROUP, "v1beta2", kind);
    // Names come from objects: one that cannot be part of a path is not asked for.
    let one = resource.one::<DynamicObject>(client.clone(), &ObjectKey::new(namespace, name)).ok()?;
    let found = one.get_opt().await.ok().flatten()?;
    Object::try_from(serde_json::to_value(found).ok()?).ok()
}

/// The Machines of the Cluster that a control plane controls.
async fn machines(client: &kube::Client, control_plane: &Object, cluster: &str) -> Option<Vec<Object>> {
    let api: Api<DynamicObject> =
        Resource::known(GROUP, "v1beta2", "Machine").api(client.clone(), Some(control_plane.namespace())).ok()?;
    let labels = format!("{}={cluster}", label::CLUSTER_NAME);
    let all = api.list(&ListParams::default().labels(&labels)).await.ok()?;
    let objects = all.items.into_iter().filter_map(|one| {
        let mut one = serde_json::to_value(one).ok()?;
        // Entries of lists may leave it out.
        one.as_object_mut()?.insert("kind".to_owned(), json!("Machine"));
        one.as_object_mut()?.insert("apiVersion".to_owned(), json!(format!("{GROUP}/v1beta2")));
        Object::try_from(one).ok()
    });
    Some(objects.filter(|machine| is_controlled_by(machine, control_plane)).collect())
}

/// The number of objects of the kind of a pool with the labels of the Cluster and of the MachinePool.
async fn instances(client: &kube::Client, pool: &Object, cluster: &str) -> Option<usize> {
    let kind = pool.at("status.infrastructureMachineKind").and_then(Value::as_str).filter(|kind| !kind.is_empty())?;
    let resource = Resource::new(pool.group(), version_of(pool.api_version()), kind).ok()?;
    let api: Api<PartialObjectMeta<DynamicObject>> = resource.api(client.clone(), Some(pool.namespace())).ok()?;
    let name = owner(pool, &["MachinePool"])?;
    let name = to_label_value(&name);
    let labels = format!("{}={cluster},{}={name}", label::CLUSTER_NAME, label::MACHINE_POOL_NAME);
    Some(api.list_metadata(&ListParams::default().labels(&labels)).await.ok()?.items.len())
}

/// The Secret with the kubeconfig, and whether it has its type.
async fn kubeconfig(client: &kube::Client, namespace: &str, name: &str) -> Secret {
    let found = secret(client, namespace, name).await;
    let Secret::There { metadata, .. } = found else { return found };
    let typed = secrets(client, namespace, &format!("metadata.name={name},type=cluster.x-k8s.io/secret")).await;
    Secret::There { metadata, is_of_the_type: typed.map(|typed| !typed.is_empty()) }
}

/// A Secret; only its metadata is read.
async fn secret(client: &kube::Client, namespace: &str, name: &str) -> Secret {
    if !is_name(client, namespace, name) {
        return Secret::Absent;
    }
    match secrets(client, namespace, &format!("metadata.name={name}")).await.map(|found| found.into_iter().next()) {
        None => Secret::Unknown,
        Some(None) => Secret::Absent,
        Some(Some(metadata)) => Secret::There { metadata, is_of_the_type: None },
    }
}

/// The metadata of Secrets; `None` if they may not be listed.
async fn secrets(client: &kube::Client, namespace: &str, fields: &str) -> Option<Vec<Object>> {
    let resource = Resource::known("", "v1", "Secret");
    let api: Api<PartialObjectMeta<DynamicObject>> = resource.api(client.clone(), Some(namespace)).ok()?;
    let found = api.list_metadata(&ListParams::default().fields(fields)).await.ok()?;
    let values =
        found.items.into_iter().map(|one| json!({"apiVersion": "v1", "kind": "Secret", "metadata": one.metadata}));
    Some(values.filter_map(|value| Object::try_from(value).ok()).collect())
}
