//! What is around an object of a provider: read when it changes.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use serde_json::Value;

use crate::hub::{GROUP, Object, ObjectKey, label};
use crate::kubernetes::address::Resource;
use crate::lifecycle::wake::is_controlled_by;
use crate::provider_contract::Role;
use crate::provider_contract::behavior::Surroundings;

/// Reads what is around an object; what cannot be read is not known.
pub(super) async fn look_around(client: &kube::Client, role: Role, object: &Object) -> Surroundings {
    let namespace = object.namespace();
    let name = object.label(label::CLUSTER_NAME).map(str::to_owned).or_else(|| owner(object, &["Cluster"]));
    let cluster = match &name {
        Some(name) => get(client, namespace, "Cluster", name).await,
        None => None,
    };
    let of_machine = match (owner(object, &["Machine"]), owner(object, &["MachinePool"])) {
        (Some(name), _) => get(client, namespace, "Machine", &name).await,
        (None, Some(name)) => get(client, namespace, "MachinePool", &name).await,
        (None, None) => cluster.clone(),
    };
    let (mut machines, mut has_kubeconfig) = (None, None);
    if let Some(name) = name.filter(|_| role == Role::ControlPlane) {
        machines = count_machines(client, object, &name).await;
        has_kubeconfig = kubeconfig(client, namespace, &name).await;
    }
    Surroundings { cluster, owner: of_machine, machines, has_kubeconfig }
}

/// The name of the first owner of one of these kinds of Cluster API.
fn owner(object: &Object, kinds: &[&str]) -> Option<String> {
    let owners = object.at("metadata.ownerReferences").and_then(Value::as_array)?;
    let text = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_one = |owner: &&Value| {
        text(owner, "apiVersion").starts_with(&format!("{GROUP}/")) && kinds.contains(&&*text(owner, "kind"))
    };
    owners.iter().find(is_one).map(|owner| text(owner, "name"))
}

async fn get(client: &kube::Client, namespace: &str, kind: &'static str, name: &str) -> Option<Object> {
    let resource = Resource::known(GROUP, "v1beta2", kind);
    // Names come from objects: one that cannot be part of a path is not asked for.
    let one = resource.one::<DynamicObject>(client.clone(), &ObjectKey::new(namespace, name)).ok()?;
    let found = one.get_opt().await.ok().flatten()?;
    Object::try_from(serde_json::to_value(found).ok()?).ok()
}

/// How many Machines of the Cluster a control plane controls.
async fn count_machines(client: &kube::Client, control_plane: &Object, cluster: &str) -> Option<usize> {
    let api: Api<DynamicObject> =
        Resource::known(GROUP, "v1beta2", "Machine").api(client.clone(), Some(control_plane.namespace())).ok()?;
    let labels = format!("{}={cluster}", label::CLUSTER_NAME);
    let all = api.list(&ListParams::default().labels(&labels)).await.ok()?;
    let objects = all.items.into_iter().filter_map(|one| Object::try_from(serde_json::to_value(one).ok()?).ok());
    Some(objects.filter(|machine| is_controlled_by(machine, control_plane)).count())
}

/// Whether the Secret with the kubeconfig is there; only its metadata is read.
async fn kubeconfig(client: &kube::Client, namespace: &str, cluster: &str) -> Option<bool> {
    let resource = Resource::known("", "v1", "Secret");
    let api: Api<PartialObjectMeta<DynamicObject>> = resource.api(client.clone(), Some(namespace)).ok()?;
    let named = ListParams::default().fields(&format!("metadata.name={cluster}-kubeconfig"));
    api.list_metadata(&named).await.ok().map(|found| !found.items.is_empty())
}
