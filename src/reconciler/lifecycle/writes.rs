//! The writes of a step as requests; what the API server answers goes into the store at once.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, ReplaceOperation, TestOperation};
use kube::api::Patch;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::followed::Followed;
use super::store::Store;
use super::watches::WorkloadWatches;
use super::workloads::WorkloadClusters;
use crate::field::shortened;
use crate::hub::{Object, ObjectKey, ObjectRef, label};
use crate::kubernetes::lease::NotLeading;
use crate::kubernetes::untyped::{self, RequestError};
use crate::lifecycle::{GroupKind, ObjectId, Objects, Write};
use crate::telemetry::metrics::Metrics;

/// The type of Secrets of Cluster API (CT-10.10).
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// How long after a request without an answer its effect is looked for.
const PAUSE: Duration = Duration::from_secs(1);
/// For how long one pass of a drain evicts Pods; those that are left come in the next pass (MA-10.6).
const EVICTING: Duration = Duration::from_secs(10);

/// Why the writes of a step did not all succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("this process is not the leader")]
    NotLeading,
    /// An object is not what the step took it for.
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Failed(String),
}

impl WriteError {
    fn of(id: &ObjectId, error: RequestError) -> Self {
        match error {
            error if is_not_leading(&error) => WriteError::NotLeading,
            error if error.is_conflict() || error.is_not_found() => WriteError::Conflict(format!("{id}: {error}")),
            error => WriteError::Failed(format!("{id}: {error}")),
        }
    }
}

fn is_not_leading(error: &RequestError) -> bool {
    matches!(error, RequestError::Api(kube::Error::Service(cause)) if cause.is::<NotLeading>())
}

/// A merge patch of a part of an object.
enum Part {
    /// Everything but the status.
    Main(Map<String, Value>),
    Status(Map<String, Value>),
}

/// Writes what steps ask for.
pub(super) struct Writer {
    client: kube::Client,
    store: Arc<Store>,
    workloads: Arc<dyn WorkloadClusters>,
    watches: WorkloadWatches,
    followed: Followed,
}

impl Writer {
    pub(super) fn new(
        client: kube::Client,
        store: Arc<Store>,
        workloads: Arc<dyn WorkloadClusters>,
        followed: Followed,
        metrics: Arc<Metrics>,
    ) -> Self {
        let watches = WorkloadWatches::new(store.clone(), metrics);
        Writer { client, store, workloads, watches, followed }
    }

    /// Writes in this order, until one fails.
    pub(super) async fn write(&self, writes: Vec<Write>) -> Result<(), WriteError> {
        let mut first_eviction = None;
        for one in writes {
            match one {
                Write::Evict { workload, pod, grace } => {
                    let begun = first_eviction.get_or_insert_with(Instant::now);
                    if begun.elapsed() < EVICTING {
                        self.evict(&workload, &pod, grace).await?;
                    }
                }
                other => self.one(other).await?,
            }
        }
        Ok(())
    }

    /// Evicts a Pod. A refusal, as because of a disruption budget, does not stop the others; it is remembered for the next pass
    /// (MA-10.6).
    async fn evict(&self, workload: &ObjectKey, pod: &Object, grace: Option<u32>) -> Result<(), WriteError> {
        let refusal = match untyped::evict(&self.client(Some(workload))?, &reference(pod), grace).await {
            Ok(()) => None,
            Err(error) if error.is_too_many_requests() => Some(shortened(&error.to_string()).into_owned()),
            Err(error) => return Err(WriteError::of(&id_of(Some(workload), pod), error)),
        };
        self.store.note_eviction(workload, &pod.key(), refusal);
        Ok(())
    }

    async fn one(&self, write: Write) -> Result<(), WriteError> {
        match write {
            Write::Create { workload, objects } => self.create_all(workload.as_ref(), objects).await,
            Write::CreateIfAbsent { workload, object } => match self.create(workload.as_ref(), &object).await {
                Ok(_) | Err(WriteError::Conflict(_)) => Ok(()),
                Err(error) => Err(error),
            },
            Write::Update { workload, before, after } => self.update(workload.as_ref(), &before, &after).await,
            Write::Delete { workload, object } => self.delete(workload.as_ref(), &object).await,
            Write::Evict { workload, pod, grace } => self.evict(&workload, &pod, grace).await,
            Write::Connect { workload, up: true } => self.connect(&workload).await,
            Write::Connect { workload, up: false } => {
                self.watches.stop(&workload);
                self.workloads.forget(&workload);
                self.store.connected(&workload, false);
                Ok(())
            }
            Write::Follow { workload, on: true } => {
                self.watches.stop(&workload);
                self.workloads.forget(&workload);
                self.followed.start(&workload);
                Ok(())
            }
            Write::Follow { workload, on: false } => {
                self.followed.stop(&workload);
                Ok(())
            }
        }
    }

    /// Ends what there is of a Cluster that is gone.
    pub(super) fn gone(&self, cluster: &ObjectKey) {
        self.followed.stop(cluster);
    }

    fn client(&self, workload: Option<&ObjectKey>) -> Result<kube::Client, WriteError> {
        match workload {
            None => Ok(self.client.clone()),
            Some(cluster) => match self.followed.client(cluster) {
                Some(followed) => followed.map_err(WriteError::Failed),
                None => Ok(self.workloads.open(cluster).map_err(WriteError::Failed)?.client),
            },
        }
    }

    /// Makes objects, all or none.
    async fn create_all(&self, workload: Option<&ObjectKey>, objects: Vec<Object>) -> Result<(), WriteError> {
        let mut made = Vec::new();
        for object in objects {
            match self.create(workload, &object).await {
                Ok(object) => made.push(object),
                Err(error) => {
                    for object in made.iter().rev() {
                        self.delete(workload, object).await?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn create(&self, workload: Option<&ObjectKey>, object: &Object) -> Result<Object, WriteError> {
        let (client, id) = (self.client(workload)?, id_of(workload, object));
        let mut made = self.post(&client, object).await.map_err(|error| WriteError::of(&id, error))?;
        // Most kinds have no status when they are created.
        if let Some(status) = object.at("status").filter(|status| made.at("status") != Some(status)) {
            // In any version: the step of the new object itself may have written it meanwhile.
            let patch = Patch::Merge(json!({"status": status}));
            let written = untyped::update_status(&client, &made.reference(), &patch).await;
            made = written.map_err(|error| WriteError::of(&id, error))?;
        }
        self.store.wrote(&id, made.clone());
        Ok(made)
    }

    /// Makes an object. If there is no answer that says whether it was made, this is found out: a step that believed it was not
    /// would make another one under another name, and take away what the first one refers to.
    async fn post(&self, client: &kube::Client, object: &Object) -> Result<Object, RequestError> {
        match untyped::create(client, object).await {
            Err(error) if !is_not_leading(&error) && error.may_have_written() => {
                let found = stored(client, &object.reference()).await;
                found.filter(|found| has_same_owners(found, object)).ok_or(error)
            }
            answered => answered,
        }
    }

    /// Changes an object by two merge patches: one of everything but the status, and one of the status. Both name the version that
    /// the step has seen. The status goes last, since it says that the rest is done (CT-8.2, CT-18.1), unless the rest takes the last
    /// finalizer away: the object would be gone.
    async fn update(&self, workload: Option<&ObjectKey>, before: &Object, after: &Object) -> Result<(), WriteError> {
        let (client, id) = (self.client(workload)?, id_of(workload, before));
        let reference = reference(before);
        let (main, status) = patches(before, after);
        let parts =
            [main.map(Part::Main), status.map(|status| Part::Status(Map::from_iter([("status".to_owned(), status)])))];
        let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
        if after.is_being_deleted() && !has_finalizers(after) {
            parts.reverse();
        }
        let mut version = before.at("metadata.resourceVersion").cloned().unwrap_or_default();
        for part in parts {
            let written = match part {
                Part::Main(main) => untyped::update(&client, &reference, &versioned(main, &version)).await,
                Part::Status(status) => untyped::update_status(&client, &reference, &versioned(status, &version)).await,
            };
            let written = written.map_err(|error| WriteError::of(&id, error))?;
            version = written.at("metadata.resourceVersion").cloned().unwrap_or_default();
            self.wrote_or_removed(&id, written);
        }
        Ok(())
    }

    /// An update that takes away the last finalizer of an object that is being deleted removes it.
    fn wrote_or_removed(&self, id: &ObjectId, written: Object) {
        if written.is_being_deleted() && !has_finalizers(&written) {
            self.store.removed(id, Some(written.uid()));
        } else {
            self.store.wrote(id, written);
        }
    }

    async fn delete(&self, workload: Option<&ObjectKey>, object: &Object) -> Result<(), WriteError> {
        let (client, id) = (self.client(workload)?, id_of(workload, object));
        match untyped::delete(&client, &reference(object), Some(object.uid())).await {
            Ok(true) => Ok(()),
            // It was gone already, even if the watch is behind.
            Ok(false) => {
                self.store.removed(&id, Some(object.uid()));
                Ok(())
            }
            Err(error) => Err(WriteError::of(&id, error)),
        }
    }

    /// Opens a workload cluster, and publishes its kubeconfig (CT-10.10).
    async fn connect(&self, cluster: &ObjectKey) -> Result<(), WriteError> {
        self.followed.stop(cluster);
        let opened = self.workloads.open(cluster).map_err(WriteError::Failed)?;
        self.publish(cluster, &opened.kubeconfig).await?;
        if !self.watches.has(cluster) {
            self.watches.start(cluster, &opened.client);
        }
        self.store.connected(cluster, true);
        Ok(())
    }

    /// Writes the Secret `<cluster>-kubeconfig`; one of an earlier process has credentials that open nothing any more.
    async fn publish(&self, cluster: &ObjectKey, kubeconfig: &str) -> Result<(), WriteError> {
        let Some((object, owner)) = self.store.with(|objects| owned(objects, cluster)) else { return Ok(()) };
        let secret = kubeconfig_secret(&object, &owner, kubeconfig);
        let id = ObjectId::of(&secret);
        match untyped::create(&self.client, &secret).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => match self.replace(&secret, [&owner, &object]).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(WriteError::Failed(format!("{id} exists and is not of Cluster {cluster}"))),
                Err(error) => Err(WriteError::of(&id, error)),
            },
            Err(error) => Err(WriteError::of(&id, error)),
        }
    }

    /// Replaces the Secret if one of the objects is its owner; one that was made without a control plane is the Cluster's.
    async fn replace(&self, secret: &Object, owners: [&Object; 2]) -> Result<bool, RequestError> {
        for owner in owners {
            match untyped::update(&self.client, &secret.reference(), &replacement(owner, secret)).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_invalid() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// The object that is stored, as soon as the API server answers. A request without an answer may be carried out a moment later.
async fn stored(client: &kube::Client, reference: &ObjectRef) -> Option<Object> {
    loop {
        sleep(PAUSE).await;
        match untyped::get(client, reference).await {
            Ok(found) => return found,
            Err(error) if error.may_have_written() => {}
            Err(_) => return None,
        }
    }
}

fn has_same_owners(one: &Object, other: &Object) -> bool {
    one.at("metadata.ownerReferences") == other.at("metadata.ownerReferences")
}

/// A Cluster, and what owns its kubeconfig: the control plane, or the Cluster where it has none.
fn owned(objects: &Objects, cluster: &ObjectKey) -> Option<(Arc<Object>, Arc<Object>)> {
    let object = objects.get(&ObjectId::core("Cluster", &cluster.namespace, &cluster.name))?;
    let text =
        |name: &str| object.at(&format!("spec.controlPlaneRef.{name}")).and_then(Value::as_str).unwrap_or_default();
    let control_plane = ObjectId::new(
        GroupKind::new(text("apiGroup"), text("kind")),
        ObjectKey::new(&*cluster.namespace, text("name")),
    );
    Some((object.clone(), objects.get(&control_plane).unwrap_or(object).clone()))
}

/// The Secret with which a workload cluster is reached.
fn kubeconfig_secret(cluster: &Object, owner: &Object, kubeconfig: &str) -> Object {
    let owner = json!({
        "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
    });
    Object::try_from(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{}-kubeconfig", cluster.name()),
            "namespace": cluster.namespace(),
            "labels": {label::CLUSTER_NAME: cluster.name()},
            "ownerReferences": [owner],
        },
        "type": SECRET_TYPE,
        "data": {"value": STANDARD.encode(kubeconfig)},
    }))
    .unwrap_or_default()
}

/// Replaces owner and data of a Secret that was made by an earlier process for the same owner, and of no other.
fn replacement(owner: &Object, secret: &Object) -> Patch<Value> {
    let pointer = |path: &[&str]| PointerBuf::from_tokens(path.iter().copied());
    let test = |path: &[&str], value: Value| PatchOperation::Test(TestOperation { path: pointer(path), value });
    let replace = |path: &[&str]| {
        let value = secret.at(&path.join(".")).cloned().unwrap_or_default();
        PatchOperation::Replace(ReplaceOperation { path: pointer(path), value })
    };
    let operations = vec![
        test(&["type"], json!(SECRET_TYPE)),
        test(&["metadata", "ownerReferences", "0", "uid"], json!(owner.uid())),
        replace(&["metadata", "ownerReferences"]),
        replace(&["data"]),
    ];
    Patch::Json(json_patch::Patch(operations))
}

fn has_finalizers(object: &Object) -> bool {
    object.at("metadata.finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

fn id_of(workload: Option<&ObjectKey>, object: &Object) -> ObjectId {
    ObjectId { workload: workload.cloned(), ..ObjectId::of(object) }
}

fn reference(object: &Object) -> ObjectRef {
    object.reference()
}

/// The merge patches that make one object of another: everything but the status, and the status.
fn patches(before: &Object, after: &Object) -> (Option<Map<String, Value>>, Option<Value>) {
    let (before, after) = (before.members(), after.members());
    let mut main = Map::new();
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    for name in names.filter(|name| *name != "status") {
        if let Some(change) = change(before.get(name), after.get(name)) {
            main.insert(name.clone(), change);
        }
    }
    let status = change(before.get("status"), after.get("status"));
    ((!main.is_empty()).then_some(main), status)
}

/// What a merge patch has in the place of a value that changes; nothing where it stays.
fn change(before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    match (before, after) {
        (before, after) if before == after => None,
        (_, None) => Some(Value::Null),
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            let changes = names.filter_map(|name| Some((name.clone(), change(before.get(name), after.get(name))?)));
            Some(Value::Object(changes.collect()))
        }
        (_, Some(after)) => Some(after.clone()),
    }
}

/// A merge patch that holds for this version only.
fn versioned(mut patch: Map<String, Value>, version: &Value) -> Patch<Value> {
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    Patch::Merge(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::workloads::WorkloadCluster;
    use super::*;
    use crate::kubernetes::scripted::{Answer, Script};

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    /// A process without workload clusters.
    #[derive(Debug)]
    struct NoWorkloads;

    impl WorkloadClusters for NoWorkloads {
        fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, String> {
            Err(cluster.to_string())
        }

        fn forget(&self, _: &ObjectKey) {}

        fn forget_all(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_not_made_twice_if_the_api_server_does_not_answer() {
        // MA-15.8
        const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
        let owners = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "s", "uid": "u"}]);
        let machine = |owners: &Value| {
            object(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"namespace": "ns", "name": "m", "ownerReferences": owners},
            }))
        };
        let stored = |owners: &Value| {
            let mut stored = Value::from(machine(owners));
            stored["metadata"]["uid"] = json!("made");
            Answer::ok(stored)
        };
        let failing = || Answer::error(504, "Timeout");
        for (case, answers, is_made) in [
            ("it was made", vec![Answer::Silence, failing(), stored(&owners)], true),
            ("it was made before an error", vec![failing(), stored(&owners)], true),
            ("it was not made", vec![failing(), Answer::error(404, "NotFound")], false),
            ("it was made by another owner", vec![failing(), stored(&json!([]))], false),
            ("it was refused", vec![Answer::error(422, "Invalid")], false),
        ] {
            let script = Script::default();
            let (mut answers, one) = (answers.into_iter(), format!("{PATH}/m"));
            script.expect(&Method::POST, PATH, &[], answers.next().unwrap());
            for answer in answers {
                script.get(&one, &[], answer);
            }
            let (store, _queue) = Store::new(Arc::default());
            let store = Arc::new(store);
            let writer = Writer::new(
                script.client(),
                store.clone(),
                Arc::new(NoWorkloads),
                Followed::none(&store),
                Arc::default(),
            );
            let write = Write::Create { workload: None, objects: vec![machine(&owners)] };
            assert_eq!(writer.write(vec![write]).await.is_ok(), is_made, "{case}");
            assert_eq!(script.left(), 0, "{case}");
            let id = ObjectId::core("Machine", "ns", "m");
            assert_eq!(store.with(|objects| objects.get(&id).is_some()), is_made, "{case}: the next step knows of it");
        }
    }

    /// The workload clusters of a process: one, whose client this is.
    struct OneWorkload(kube::Client);

    impl std::fmt::Debug for OneWorkload {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("OneWorkload")
        }
    }

    impl WorkloadClusters for OneWorkload {
        fn open(&self, _: &ObjectKey) -> Result<WorkloadCluster, String> {
            Ok(WorkloadCluster { client: self.0.clone(), kubeconfig: String::new() })
        }

        fn forget(&self, _: &ObjectKey) {}

        fn forget_all(&self) {}
    }

    #[tokio::test]
    async fn the_control_plane_owns_the_kubeconfig() {
        // CT-10.10
        const PATH: &str = "/api/v1/namespaces/ns/secrets";
        let named = |api_version: &str, kind: &str, uid: &str, spec: Value| {
            object(json!({"apiVersion": api_version, "kind": kind, "spec": spec,
                "metadata": {"namespace": "ns", "name": "c", "uid": uid}}))
        };
        let to = json!({"controlPlaneRef": {"apiGroup": "g.io", "kind": "Plane", "name": "c"}});
        let cluster = named("cluster.x-k8s.io/v1beta2", "Cluster", "of-cluster", to);
        let plane = named("g.io/v1", "Plane", "of-plane", json!({}));
        let key = ObjectKey::new("ns", "c");
        let existing = format!("{PATH}/c-kubeconfig");
        let (create, replace) = ((Method::POST, PATH), (Method::PATCH, &*existing));
        let made = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-kubeconfig"}});
        let (ok, taken) = (|| Answer::ok(made.clone()), || Answer::error(409, "AlreadyExists"));
        let other = || Answer::error(422, "Invalid");
        for (case, control_plane, requests, is_written) in [
            ("new", Some(&plane), vec![(&create, "of-plane", ok())], true),
            ("without a control plane", None, vec![(&create, "of-cluster", ok())], true),
            (
                "one of an earlier process",
                Some(&plane),
                vec![(&create, "of-plane", taken()), (&replace, "of-plane", ok())],
                true,
            ),
            (
                "one that the Cluster owns",
                Some(&plane),
                vec![(&create, "of-plane", taken()), (&replace, "of-plane", other()), (&replace, "of-cluster", ok())],
                true,
            ),
            (
                "one of another owner",
                Some(&plane),
                vec![
                    (&create, "of-plane", taken()),
                    (&replace, "of-plane", other()),
                    (&replace, "of-cluster", other()),
                ],
                false,
            ),
        ] {
            let (script, (store, _queue)) = (Script::default(), Store::new(Arc::default()));
            let store = Arc::new(store);
            for object in [Some(&cluster), control_plane].into_iter().flatten() {
                store.wrote(&ObjectId::of(object), object.clone());
            }
            for ((method, path), owner, answer) in requests {
                script.expect(method, path, &[owner], answer);
            }
            let followed = Followed::none(&store);
            let writer = Writer::new(script.client(), store, Arc::new(NoWorkloads), followed, Arc::default());
            let written = writer.publish(&key, "k").await;
            assert_eq!(written.is_ok(), is_written, "{case}: {written:?}");
            assert_eq!(script.left(), 0, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_evictions_are_remembered_and_a_pass_takes_ten_seconds() {
        // MA-10.6
        let is_refusing = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let (tried, refusing) = (Arc::new(std::sync::Mutex::new(Vec::new())), is_refusing.clone());
        let log = tried.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path().to_owned();
            let name = path.trim_end_matches("/eviction").rsplit('/').next().unwrap_or_default().to_owned();
            let is_refusing = refusing.load(std::sync::atomic::Ordering::Relaxed);
            let is_refused = is_refusing && name == "a";
            log.lock().unwrap().push(name);
            async move {
                // Those who refuse are quick.
                sleep(Duration::from_secs(if is_refusing { 0 } else { 4 })).await;
                let (code, body) = match is_refused {
                    true => (
                        429,
                        json!({
                            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
                            "reason": "TooManyRequests", "message": "the disruption budget x needs 1 healthy pods",
                        }),
                    ),
                    false => (201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})),
                };
                let body = axum::body::Body::from(body.to_string());
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        let workloads = Arc::new(OneWorkload(kube::Client::new(service, "default")));
        let (store, _queue) = Store::new(Arc::default());
        let (store, cluster) = (Arc::new(store), ObjectKey::new("ns", "c"));
        let writer =
            Writer::new(Script::default().client(), store.clone(), workloads, Followed::none(&store), Arc::default());
        let pods = ["a", "b", "c", "d"].map(|name| {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name}});
            Arc::new(object(pod))
        });
        for pod in &pods {
            store.wrote(&id_of(Some(&cluster), pod), (**pod).clone());
        }
        let evict = || {
            pods.iter().map(|pod| Write::Evict { workload: cluster.clone(), pod: pod.clone(), grace: None }).collect()
        };
        let refusal = |name: &str| {
            let pod = ObjectKey::new("default", name);
            store.with(|objects| objects.workload(&cluster)?.refusal(&pod).map(str::to_owned))
        };
        writer.write(evict()).await.unwrap();
        let tried = || {
            let mut tried: Vec<String> = std::mem::take(&mut *tried.lock().unwrap());
            // The client tries again by itself.
            tried.dedup();
            tried
        };
        assert_eq!(tried(), ["a", "b", "c", "d"], "the others go on after a refusal");
        assert!(refusal("a").unwrap().contains("the disruption budget x needs 1 healthy pods"));
        assert_eq!(refusal("b"), None);
        is_refusing.store(false, std::sync::atomic::Ordering::Relaxed);
        writer.write(evict()).await.unwrap();
        assert_eq!(tried(), ["a", "b", "c"], "after ten seconds the next pass goes on");
        assert_eq!(refusal("a"), None, "it is evicted in the next pass");
    }

    #[test]
    fn a_merge_patch_holds_what_has_changed_and_the_status_apart() {
        let before = object(json!({
            "metadata": {"name": "m", "labels": {"a": "1", "b": "2"}}, "spec": {"x": [1], "y": {"z": 1}},
            "status": {"phase": "Pending"},
        }));
        let after = object(json!({
            "metadata": {"name": "m", "labels": {"a": "1", "c": "3"}}, "spec": {"x": [1, 2], "y": {"z": 1}},
            "status": {"phase": "Running"},
        }));
        let (main, status) = patches(&before, &after);
        let want = json!({"metadata": {"labels": {"b": null, "c": "3"}}, "spec": {"x": [1, 2]}});
        assert_eq!(Value::Object(main.unwrap()), want);
        assert_eq!(status, Some(json!({"phase": "Running"})));
        assert_eq!(patches(&before, &before), (None, None));
        let (main, _) = patches(&before, &object(json!({"metadata": {"name": "m"}})));
        assert_eq!(Value::Object(main.unwrap()), json!({"metadata": {"labels": null}, "spec": null}));
    }
}
