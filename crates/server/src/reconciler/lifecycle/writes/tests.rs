use http::Method;
use tokio::time::sleep;

use super::super::workloads::{WorkloadCluster, WorkloadOpenError};
use super::*;
use crate::kubernetes::scripted::{Script, ScriptedAnswer};

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

/// A process without workload clusters.
#[derive(Debug)]
struct NoWorkloads;

impl WorkloadClusters for NoWorkloads {
    fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, WorkloadOpenError> {
        Err(WorkloadOpenError::NotCreated(cluster.to_string().into()))
    }

    fn get(&self, _: &ObjectKey) -> Option<WorkloadCluster> {
        None
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
        ScriptedAnswer::ok(stored)
    };
    let failing = || ScriptedAnswer::error(504, "Timeout");
    for (case, answers, is_made) in [
        ("it was made", vec![ScriptedAnswer::Silence, failing(), stored(&owners)], true),
        ("it was made before an error", vec![failing(), stored(&owners)], true),
        ("it was not made", vec![failing(), ScriptedAnswer::error(404, "NotFound")], false),
        ("it was made by another owner", vec![failing(), stored(&json!([]))], false),
        ("it was refused", vec![ScriptedAnswer::error(422, "Invalid")], false),
    ] {
        let script = Script::default();
        let (mut answers, one) = (answers.into_iter(), format!("{PATH}/m"));
        script.expect(&Method::POST, PATH, &[], answers.next().unwrap());
        for answer in answers {
            script.get(&one, &[], answer);
        }
        let (store, _queue) = LifecycleStore::new(Arc::default());
        let store = Arc::new(store);
        let writer = Writer::new(
            script.client(),
            store.clone(),
            Arc::new(NoWorkloads),
            ExternalClusters::none(&store),
            Arc::default(),
        );
        let write = ObjectWrite::Create { workload: None, objects: vec![machine(&owners)] };
        assert_eq!(writer.write(vec![StepWrite::Required(write)]).await.is_ok(), is_made, "{case}");
        assert_eq!(script.left(), 0, "{case}");
        let id = ObjectId::core("Machine", "ns", "m");
        assert_eq!(store.with(|objects| objects.get(&id).is_some()), is_made, "{case}: the next step knows of it");
    }
}

/// A server for Machines that answers no request, stores what it is sent, or is well.
struct SilentServer {
    is_silent: Arc<std::sync::atomic::AtomicBool>,
    requests: Arc<std::sync::Mutex<Vec<String>>>,
}

impl SilentServer {
    /// A client of a server that has these objects, and no others.
    fn client(&self, objects: Vec<Value>) -> kube::Client {
        let (is_silent, requests) = (self.is_silent.clone(), self.requests.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (path, is_silent) =
                (request.uri().path().to_owned(), is_silent.load(std::sync::atomic::Ordering::Relaxed));
            requests.lock().unwrap().push(format!("{} {path}", request.method()));
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let found = objects.iter().find(|object| object["metadata"]["name"] == name).cloned();
            async move {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                let (code, body) = match found {
                    Some(found) => (200, found),
                    None => (404, crate::kubernetes::scripted::status(404, "NotFound")),
                };
                let body = axum::body::Body::from(body.to_string());
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_occupies_a_step_for_a_short_time() {
    // MA-15.8, DEC-102
    let owners = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "s", "uid": "owner"}]);
    let machine = |name: &str| {
        object(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {
            "namespace": "ns", "name": name, "uid": "u", "ownerReferences": owners,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}}}))
    };
    let owner = object(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"namespace": "ns", "name": "s", "uid": "owner"}}));
    for is_made in [true, false] {
        let server = SilentServer { is_silent: Arc::new(true.into()), requests: Arc::default() };
        let objects = if is_made { vec![Value::from(machine("m"))] } else { Vec::new() };
        let (store, _queue) = LifecycleStore::new(Arc::default());
        let (store, client) = (Arc::new(store), server.client(objects));
        let writer = Arc::new(Writer::new(
            client,
            store.clone(),
            Arc::new(NoWorkloads),
            ExternalClusters::none(&store),
            Arc::default(),
        ));
        let started = Instant::now();
        let create = |name: &str| {
            let (writer, write) =
                (writer.clone(), ObjectWrite::Create { workload: None, objects: vec![machine(name)] });
            tokio::spawn(async move { writer.write(vec![StepWrite::Required(write)]).await })
        };
        let others: Vec<_> = (0..uncertain::SHARE).map(|number| create(&format!("other{number}"))).collect();
        tokio::task::yield_now().await;
        assert!(create("m").await.unwrap().is_err());
        let first = started.elapsed();
        for other in others {
            assert!(other.await.unwrap().is_err());
        }
        assert!(started.elapsed() <= first + uncertain::LIMIT + Duration::from_secs(1), "{:?}", started.elapsed());
        assert!(writer.settle(&owner).await.is_err(), "the owner has no other step before the API server answers");
        server.is_silent.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(writer.settle(&owner).await.is_ok());
        let id = ObjectId::core("Machine", "ns", "m");
        assert_eq!(store.with(|objects| objects.get(&id).is_some()), is_made, "the next step knows of it");
        server.requests.lock().unwrap().clear();
        assert!(writer.settle(&owner).await.is_ok());
        assert!(server.requests.lock().unwrap().is_empty(), "it is asked once");
    }
}

#[tokio::test]
async fn a_forgotten_workload_cluster_is_not_made_again() {
    let (store, _queue) = LifecycleStore::new(Arc::default());
    let store = Arc::new(store);
    let writer = Writer::new(
        Script::default().client(),
        store.clone(),
        Arc::new(NoWorkloads),
        ExternalClusters::none(&store),
        Arc::default(),
    );
    let node = object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
    let write = ObjectWrite::Create { workload: Some(ObjectKey::new("ns", "c")), objects: vec![node] };
    let write = || write.clone();
    let error = async || writer.write(vec![StepWrite::Required(write())]).await.unwrap_err().to_string();
    assert_eq!(error().await, "workload cluster ns/c is not connected", "there is no Cluster");
    let cluster = |metadata: Value| {
        let mut cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "ns", "name": "c", "uid": "u"}});
        json_patch::merge(&mut cluster["metadata"], &metadata);
        object(cluster)
    };
    let id = ObjectId::core("Cluster", "ns", "c");
    store.wrote(&id, cluster(json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["f"]})));
    assert_eq!(error().await, "workload cluster ns/c is not connected", "it is being deleted");
    let forge = ObjectId::new(GroupKind::new("infrastructure.cluster.x-k8s.io", "ForgeCluster"), id.key.clone());
    let mut waiting =
        cluster(json!({"uid": "other", "deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["f"]}));
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "c"});
    machines::lifecycle::set_field(&mut waiting, "spec.infrastructureRef", reference);
    store.removed(&id, None);
    store.wrote(&id, waiting);
    let infrastructure = |metadata: Value| {
        let mut forge = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "ForgeCluster",
            "metadata": {"namespace": "ns", "name": "c", "uid": "i"}});
        json_patch::merge(&mut forge["metadata"], &metadata);
        object(forge)
    };
    store.wrote(&forge, infrastructure(json!({})));
    assert_eq!(error().await, "ns/c", "a hook may hold the deletion of its infrastructure");
    store.removed(&forge, None);
    store.wrote(
        &forge,
        infrastructure(json!({"uid": "j", "deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["f"]})),
    );
    assert_eq!(error().await, "workload cluster ns/c is not connected", "its infrastructure is being deleted");
    store.removed(&id, None);
    store.wrote(&id, cluster(json!({"uid": "another"})));
    assert_eq!(error().await, "ns/c", "its first Node makes it");
}

/// The workload clusters of a process: one, whose client this is.
struct OneWorkload(kube::Client);

impl std::fmt::Debug for OneWorkload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneWorkload")
    }
}

impl WorkloadClusters for OneWorkload {
    fn open(&self, _: &ObjectKey) -> Result<WorkloadCluster, WorkloadOpenError> {
        Ok(WorkloadCluster { client: self.0.clone(), kubeconfig: String::new() })
    }

    fn get(&self, cluster: &ObjectKey) -> Option<WorkloadCluster> {
        self.open(cluster).ok()
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
    let (ok, taken) = (|| ScriptedAnswer::ok(made.clone()), || ScriptedAnswer::error(409, "AlreadyExists"));
    let other = || ScriptedAnswer::error(422, "Invalid");
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
            vec![(&create, "of-plane", taken()), (&replace, "of-plane", other()), (&replace, "of-cluster", other())],
            false,
        ),
    ] {
        let (script, (store, _queue)) = (Script::default(), LifecycleStore::new(Arc::default()));
        let store = Arc::new(store);
        for object in [Some(&cluster), control_plane].into_iter().flatten() {
            store.wrote(&ObjectId::for_object(object), object.clone());
        }
        for ((method, path), owner, answer) in requests {
            script.expect(method, path, &[owner], answer);
        }
        let followed = ExternalClusters::none(&store);
        let writer = Writer::new(script.client(), store, Arc::new(NoWorkloads), followed, Arc::default());
        let written = writer.publish(&key, "k").await;
        assert_eq!(written.is_ok(), is_written, "{case}: {written:?}");
        assert_eq!(script.left(), 0, "{case}");
    }
}

/// The status code of the response about an object of this name, and how long the response takes.
type AnswerTo = Box<dyn Fn(&str) -> (u16, Duration) + Send>;

/// An API server of a workload cluster.
struct WorkloadServer {
    requests: std::sync::Mutex<Vec<String>>,
    answer: std::sync::Mutex<AnswerTo>,
}

impl WorkloadServer {
    fn new(answer: impl Fn(&str) -> (u16, Duration) + Send + 'static) -> Arc<Self> {
        let answer: AnswerTo = Box::new(answer);
        Arc::new(WorkloadServer { requests: Vec::new().into(), answer: answer.into() })
    }

    fn set_answer(&self, answer: impl Fn(&str) -> (u16, Duration) + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    /// The names of the requested objects since the last call.
    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn client(self: &Arc<Self>) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let path = request.uri().path().trim_end_matches("/eviction").to_owned();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let (code, takes) = (server.answer.lock().unwrap())(&name);
            server.requests.lock().unwrap().push(name.clone());
            async move {
                sleep(takes).await;
                let body = match code {
                    200..300 => json!({
                        "kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": "2"},
                    }),
                    code => json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                        "reason": "Refused", "message": "the disruption budget x needs 1 healthy pods",
                    }),
                };
                let body = axum::body::Body::from(body.to_string());
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }
}

fn writer_to(server: &Arc<WorkloadServer>, script: &Script) -> (Writer, Arc<LifecycleStore>) {
    let (store, _queue) = LifecycleStore::new(Arc::default());
    let store = Arc::new(store);
    let (workloads, followed) = (Arc::new(OneWorkload(server.client())), ExternalClusters::none(&store));
    (Writer::new(script.client(), store.clone(), workloads, followed, Arc::default()), store)
}

#[tokio::test(start_paused = true)]
async fn refused_evictions_are_remembered_and_a_pass_takes_ten_seconds() {
    // MA-10.6
    let (quick, slow) = (Duration::ZERO, Duration::from_secs(4));
    let server = WorkloadServer::new(move |name| match name {
        "a" => (429, quick),
        "b" => (403, quick),
        "c" => (500, quick),
        _ => (201, quick),
    });
    let (writer, store) = writer_to(&server, &Script::default());
    let cluster = ObjectKey::new("ns", "c");
    let pods = ["a", "b", "c", "d", "e"].map(|name| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name}});
        Arc::new(object(pod))
    });
    for pod in &pods {
        store.wrote(&id_of(Some(&cluster), pod), (**pod).clone());
    }
    let evict = || {
        let evict = |pod: &Arc<Object>| ObjectWrite::Evict { workload: cluster.clone(), pod: pod.clone(), grace: None };
        vec![StepWrite::Attempted(pods.iter().map(evict).collect())]
    };
    let refusal = |name: &str| {
        let pod = ObjectKey::new("default", name);
        store.with(|objects| objects.workload(&cluster)?.refusal(&pod).map(|refusal| refusal.reason.clone()))
    };
    writer.write(evict()).await.unwrap();
    assert_eq!(server.take_requests(), ["a", "b", "c", "d", "e"], "the others go on after a refusal, which is final");
    for name in ["a", "b", "c"] {
        assert!(refusal(name).unwrap().contains("the disruption budget x needs 1 healthy pods"), "{name}");
    }
    assert_eq!(refusal("d"), None);
    server.set_answer(move |_| (201, slow));
    writer.write(evict()).await.unwrap();
    assert_eq!(server.take_requests(), ["a", "b", "c"], "after ten seconds the next pass goes on");
    assert_eq!(refusal("a"), None, "it is evicted in the next pass");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_of_another_object_does_not_end_a_step() {
    // DEC-115, MA-4.4
    const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m/status";
    let cluster = ObjectKey::new("ns", "c");
    let node = |name: &str| {
        let before = object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        let mut after = before.clone();
        machines::lifecycle::set_field(&mut after, "spec.unschedulable", json!(true));
        ObjectWrite::Update { workload: Some(cluster.clone()), before: Arc::new(before), after }
    };
    let pod = Arc::new(object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
    })));
    let evict = ObjectWrite::Evict { workload: cluster.clone(), pod, grace: None };
    let machine = |status: Value| {
        object(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "status": status,
            "metadata": {"namespace": "ns", "name": "m", "generation": 2},
        }))
    };
    let own = || {
        let before = Arc::new(machine(json!({"observedGeneration": 1})));
        let after = machine(json!({"observedGeneration": 2, "phase": "Running"}));
        StepWrite::Required(ObjectWrite::Update { workload: None, before, after })
    };
    // The code for Node a, then what is requested of the workload cluster, and whether the Machine is written.
    for (code, requested, is_written) in [
        (403, vec!["a", "b"], true),
        (500, vec!["a", "b"], true),
        (0, vec!["a"], true),
        (503, vec!["a"], true),
        (409, vec!["a"], false),
    ] {
        let server = WorkloadServer::new(move |name| match (name, code) {
            ("a", 0) => (200, Duration::from_hours(1)),
            ("a", code) => (code, Duration::ZERO),
            _ => (200, Duration::ZERO),
        });
        let script = Script::default();
        if is_written {
            script.expect(
                &Method::PATCH,
                MACHINE,
                &[r#""status":{"phase":"Running"}"#],
                ScriptedAnswer::ok(Value::from(machine(json!({})))),
            );
        }
        let (writer, _) = writer_to(&server, &script);
        let step =
            vec![StepWrite::Attempted(vec![node("a"), evict.clone()]), StepWrite::Attempted(vec![node("b")]), own()];
        let error = writer.write(step).await.unwrap_err().to_string();
        assert!(error.contains("Node a"), "{code}: the failure is reported: {error}");
        assert_eq!(server.take_requests(), requested, "{code}: no eviction without a cordon");
        assert_eq!(script.left(), 0, "{code}: the generation is not observed");
    }
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

#[tokio::test]
async fn an_object_that_is_not_found_is_read_again() {
    // DEC-60
    const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m";
    const POD: &str = "/api/v1/namespaces/ns/pods/m";
    let named = |api_version: &str, kind: &str| {
        object(json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"namespace": "ns", "name": "m", "uid": "u", "resourceVersion": "1"}}))
    };
    let (machine, pod) = (Arc::new(named("cluster.x-k8s.io/v1beta2", "Machine")), Arc::new(named("v1", "Pod")));
    let mut changed = Object::clone(&machine);
    machines::lifecycle::set_field(&mut changed, "spec.version", json!("v1.33.0"));
    let cluster = ObjectKey::new("ns", "c");
    let missing = || ScriptedAnswer::error(404, "NotFound");
    let update = || ObjectWrite::Update { workload: None, before: machine.clone(), after: changed.clone() };
    let evict = || ObjectWrite::Evict { workload: cluster.clone(), pod: pod.clone(), grace: None };
    let eviction = format!("{POD}/eviction");
    let of_machine = ObjectId::for_object(&machine);
    let of_pod = ObjectId { workload: Some(cluster.clone()), ..ObjectId::for_object(&pod) };
    for (case, id, write, (method, path), read, found, is_stored) in [
        ("a deleted Machine", &of_machine, update(), (Method::PATCH, MACHINE), MACHINE, missing(), false),
        ("a deleted Pod", &of_pod, evict(), (Method::POST, &*eviction), POD, missing(), false),
        (
            "a Machine whose part is not served",
            &of_machine,
            update(),
            (Method::PATCH, MACHINE),
            MACHINE,
            ScriptedAnswer::ok(Value::from(Object::clone(&machine))),
            true,
        ),
    ] {
        let (script, (store, _queue)) = (Script::default(), LifecycleStore::new(Arc::default()));
        script.expect(&method, path, &[], missing());
        script.get(read, &[], found);
        let store = Arc::new(store);
        for (id, object) in [(&of_machine, &machine), (&of_pod, &pod)] {
            store.seen(id, Object::clone(object));
        }
        let workloads = Arc::new(OneWorkload(script.client()));
        let writer =
            Writer::new(script.client(), store.clone(), workloads, ExternalClusters::none(&store), Arc::default());
        let written = writer.write(vec![StepWrite::Attempted(vec![write])]).await;
        assert_eq!(script.left(), 0, "{case}");
        assert_eq!(store.with(|objects| objects.get(id).is_some()), is_stored, "{case}");
        // A failure has growing pauses; the next step of the other cases comes at once.
        let error = written.err();
        assert_eq!(matches!(error, Some(WriteError::Failed(_))), is_stored, "{case}: {error:?}");
        // There is nothing left to do about a Pod that is gone.
        assert_eq!(
            matches!(error, Some(WriteError::Conflict { .. })),
            !is_stored && *id != of_pod,
            "{case}: {error:?}"
        );
    }
}
