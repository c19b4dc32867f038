use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::kubernetes::lease::{Candidacy, Election};
use crate::kubernetes::testing::{ApiServer, Failure, Received};
use crate::telemetry::metrics;
use model::hub::Cluster;
use model::world::{Record, Scope};

const MINUTE: Duration = Duration::from_mins(1);
const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/one";
const DEPLOYMENT: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinedeployments/md";
const CHECK: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinehealthchecks/md";

fn set(name: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinesets/{name}")
}

fn bootstrap(name: &str) -> String {
    format!("/apis/b.io/v1beta1/namespaces/ns/btemplates/{name}")
}

/// In the newest version of the newest contract.
fn infrastructure(name: &str) -> String {
    format!("/apis/i.io/v2/namespaces/ns/itemplates/{name}")
}

/// An object that makes machines from two existing templates.
fn makes(server: &ApiServer, path: &str, templates: (&str, &str)) {
    for template in [bootstrap(templates.0), infrastructure(templates.1)] {
        if server.object(&template).is_none() {
            server.edit(&template, |_| ());
        }
    }
    server.edit(path, |object| {
        object["metadata"]["labels"] =
            json!({"topology.cluster.x-k8s.io/owned": "", "cluster.x-k8s.io/cluster-name": "one"});
        if path.contains("/machinesets/") {
            object["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"] = json!("md");
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment", "name": "md"}]);
        }
        object["spec"]["template"]["spec"] = json!({
            "bootstrap": {"configRef": {"apiGroup": "b.io", "kind": "BTemplate", "name": templates.0}},
            "infrastructureRef": {"apiGroup": "i.io", "kind": "ITemplate", "name": templates.1}});
    });
}

/// A server with the definitions of the templates, a Cluster, and a deployment with its health check.
fn server() -> ApiServer {
    let server = ApiServer::default();
    let definition = |name: &str, labels: Value| {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        server.edit(&path, |definition| definition["metadata"]["labels"] = labels);
    };
    definition("btemplates.b.io", json!({"cluster.x-k8s.io/v1beta2": "v1beta1"}));
    definition("itemplates.i.io", json!({"cluster.x-k8s.io/v1beta1": "v3", "cluster.x-k8s.io/v1beta2": "v1_v2"}));
    server.edit(CLUSTER, |_| ());
    server.edit(CHECK, |_| ());
    makes(&server, DEPLOYMENT, ("b1", "i1"));
    server
}

fn cluster(paused: bool) -> Cluster {
    serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "one"}, "spec": {"paused": paused}})).unwrap()
}

/// A process whose controllers run while it leads; it ends with the test.
struct Process {
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    tasks: Vec<JoinHandle<()>>,
}

impl Process {
    fn start(server: &ApiServer, clusters: impl IntoIterator<Item = Cluster>) -> Self {
        Process::of(server, Facts::complete(clusters, []))
    }

    fn of(server: &ApiServer, facts: Facts) -> Self {
        let (metrics, cache) = (Arc::new(Metrics::default()), Arc::new(Cache::new(facts)));
        let candidacy = Candidacy::new("own", "topologist", Duration::from_secs(15));
        let (election, leadership) = Election::new(server.client(), candidacy, metrics.clone());
        let client = server.client();
        let setup = Setup {
            client: client.clone(),
            leadership: leadership.clone(),
            cache: cache.clone(),
            extensions: None,
            metrics: metrics.clone(),
        };
        let controller = Arc::new(TemplatesController(setup));
        let work = leadership.while_leading(move || {
            let controller = controller.clone();
            Definitions::beside(client.clone(), Arc::default(), |definitions| controller.run(definitions))
        });
        let tasks = vec![tokio::spawn(election.run(CancellationToken::new())), tokio::spawn(work)];
        Process { cache, metrics, tasks }
    }

    fn outcomes(&self, maker: MachineOwner, outcome: &'static str) -> u64 {
        self.metrics.reconciles.get_or_create(&metrics::Reconcile { controller: controller_of(maker), outcome }).get()
    }

    fn put(&self, cluster: Cluster) {
        self.cache.update(|facts| facts.put_cluster(cluster.metadata.key(), Record::Readable(Arc::new(cluster))));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn finalizers(server: &ApiServer, path: &str) -> Value {
    server.object(path).unwrap()["metadata"]["finalizers"].clone()
}

/// The writes to objects of these kinds, in their order.
fn writes(requests: &[Received]) -> Vec<(Method, &str)> {
    let writes = requests.iter().filter(|request| request.method != Method::GET && !request.is_about("leases"));
    writes.map(|request| (request.method.clone(), &*request.path)).collect()
}

#[tokio::test(start_paused = true)]
async fn only_objects_of_topologies_get_finalizers() {
    // DEL-05, DEL-07, MA-29.1
    let server = server();
    makes(&server, &set("one"), ("b1", "i1"));
    let other = set("theirs");
    server.edit(&other, |_| ());
    makes(&server, &set("paused"), ("b1", "i1"));
    server.edit(&set("paused"), |set| set["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""}));
    server.edit(&set("one"), |set| set["metadata"]["finalizers"] = json!(["theirs"]));
    // That the Cluster is paused does not matter here.
    let process = Process::start(&server, [cluster(true)]);
    sleep(MINUTE).await;
    assert_eq!(finalizers(&server, DEPLOYMENT), json!(["machinedeployment.topology.cluster.x-k8s.io"]));
    assert_eq!(finalizers(&server, &set("one")), json!(["theirs", "machineset.topology.cluster.x-k8s.io"]));
    assert_eq!(finalizers(&server, &set("paused")), Value::Null);
    assert_eq!(finalizers(&server, &other), Value::Null);
    server.edit(&other, |set| set["metadata"]["labels"] = json!({"a": "b"}));
    sleep(MINUTE).await;
    assert_eq!(finalizers(&server, &other), Value::Null);
    assert_eq!(
        (process.outcomes(MachineOwner::Set, "failed"), process.outcomes(MachineOwner::Deployment, "failed")),
        (0, 0)
    );
    server.take_requests();
    sleep(MINUTE * 60).await;
    assert!(writes(&server.take_requests()).is_empty(), "there are only watches");
}

#[tokio::test(start_paused = true)]
async fn objects_out_of_scope_are_not_reconciled() {
    // RS-04, DEC-37
    let server = server();
    makes(&server, &set("ours"), ("b1", "i1"));
    server.edit(&set("ours"), |set| set["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"] = json!("ours"));
    let scope = Scope::new(&[], Some("ours".to_owned())).unwrap();
    let process = Process::of(&server, Facts::complete([cluster(false)], []).within(scope));
    sleep(MINUTE).await;
    assert_ne!(finalizers(&server, &set("ours")), Value::Null);
    assert_eq!(finalizers(&server, DEPLOYMENT), Value::Null);
    assert_eq!(process.outcomes(MachineOwner::Deployment, "left-alone"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_deletes_its_templates_and_health_check() {
    // DEL-04, DEL-06, DEL-09, CS-08, MA-29.3
    let server = server();
    let _process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    server.take_requests();
    server.delete(DEPLOYMENT);
    sleep(MINUTE).await;
    let requests = server.take_requests();
    let delete = |path: &str| (Method::DELETE, path.to_owned());
    let want = [
        delete(&bootstrap("b1")),
        delete(&infrastructure("i1")),
        delete(CHECK),
        (Method::PATCH, DEPLOYMENT.to_owned()),
    ];
    let got: Vec<_> = writes(&requests).into_iter().map(|(method, path)| (method, path.to_owned())).collect();
    assert_eq!(got, want);
    for path in [&*bootstrap("b1"), &infrastructure("i1"), CHECK, DEPLOYMENT] {
        assert_eq!(server.object(path), None, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_set_deletes_templates_that_no_other_set_uses() {
    // DEL-07, DEL-08, DEL-11, MA-29.2, MA-29.3
    let server = server();
    makes(&server, &set("old"), ("b1", "i0"));
    makes(&server, &set("new"), ("b1", "i1"));
    let process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    server.delete(&set("old"));
    sleep(MINUTE).await;
    assert_eq!(server.object(&set("old")), None);
    assert_eq!(server.object(&infrastructure("i0")), None, "nobody has it");
    assert!(server.object(&bootstrap("b1")).is_some(), "the new set has it");
    // Now the deployment goes first: its set still needs the templates, and takes them along in the end.
    server.delete(DEPLOYMENT);
    sleep(MINUTE).await;
    assert_eq!(server.object(DEPLOYMENT), None);
    assert!(server.object(&infrastructure("i1")).is_some());
    server.delete(&set("new"));
    sleep(MINUTE).await;
    for path in [set("new"), bootstrap("b1"), infrastructure("i1")] {
        assert_eq!(server.object(&path), None, "{path}");
    }
    assert_eq!(process.outcomes(MachineOwner::Set, "failed"), 0);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_paused_cluster_wait_until_it_is_unpaused() {
    // DEL-05
    let server = server();
    let process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    process.put(cluster(true));
    server.delete(DEPLOYMENT);
    sleep(MINUTE * 60).await;
    assert!(server.object(DEPLOYMENT).is_some() && server.object(&bootstrap("b1")).is_some());
    let runs = process.outcomes(MachineOwner::Deployment, "left-alone");
    assert!((5..=7).contains(&runs), "the deletion and a resync every ten minutes, and no other event: {runs}");
    process.put(cluster(false));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.object(DEPLOYMENT), None);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_paused_cluster_are_cleaned_up_once_it_is_deleted() {
    // DEL-05
    let server = server();
    server.edit(CLUSTER, |cluster| cluster["spec"]["paused"] = json!(true));
    let process = Process::start(&server, [cluster(true)]);
    sleep(MINUTE).await;
    server.delete(DEPLOYMENT);
    sleep(MINUTE).await;
    assert_eq!(process.outcomes(MachineOwner::Deployment, "left-alone"), 1);
    server.delete(CLUSTER);
    process.cache.update(|facts| facts.remove_cluster(&ObjectKey::new("ns", "one")));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((server.object(DEPLOYMENT), server.object(&bootstrap("b1"))), (None, None));
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_set_is_deleted_without_templates_that_other_sets_use() {
    // DEL-07, DEL-08, MA-29.4
    let server = server();
    makes(&server, &set("orphan"), ("b1", "i0"));
    server.edit(&set("orphan"), |set| set["metadata"]["ownerReferences"] = json!([]));
    let _process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    server.delete(&set("orphan"));
    sleep(MINUTE).await;
    assert_eq!((server.object(&set("orphan")), server.object(&infrastructure("i0"))), (None, None));
    assert!(server.object(&bootstrap("b1")).is_some(), "the deployment of its label uses it");
}

#[tokio::test(start_paused = true)]
async fn without_its_cluster_an_object_fails_unless_it_is_being_deleted() {
    // DEL-05, DEC-11
    let server = server();
    let process = Process::start(&server, []);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(
        (finalizers(&server, DEPLOYMENT), process.outcomes(MachineOwner::Deployment, "failed")),
        (Value::Null, 1)
    );
    // It is looked at as soon as the Cluster is known.
    process.put(cluster(false));
    sleep(Duration::from_millis(100)).await;
    assert_ne!(finalizers(&server, DEPLOYMENT), Value::Null);

    process.cache.update(|facts| facts.remove_cluster(&ObjectKey::new("ns", "one")));
    server.edit(CLUSTER, |cluster| cluster["spec"]["paused"] = json!(true));
    server.delete(DEPLOYMENT);
    sleep(MINUTE).await;
    assert!(server.object(DEPLOYMENT).is_some(), "the watch of Clusters lags: this one is there, and paused");
    server.delete(CLUSTER);
    server.edit(DEPLOYMENT, |object| object["status"] = json!({"phase": "ScalingDown"}));
    sleep(MINUTE).await;
    assert_eq!((server.object(DEPLOYMENT), server.object(&bootstrap("b1"))), (None, None));
}

#[tokio::test(start_paused = true)]
async fn any_error_keeps_the_finalizer() {
    // DEL-06, DEL-07, MA-29.4
    let server = server();
    makes(&server, &set("orphan"), ("b2", "i2"));
    server.edit(&set("orphan"), |set| {
        set["metadata"]["ownerReferences"] = json!([]);
        set["metadata"]["labels"].as_object_mut().unwrap().remove("cluster.x-k8s.io/deployment-name");
    });
    makes(&server, &set("unknown"), ("b3", "i3"));
    server.edit(&set("unknown"), |set| {
        set["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!("Unheard");
    });
    let process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    server.refuse(&Method::DELETE, &infrastructure("i1"), 500);
    server.delete(DEPLOYMENT);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(process.outcomes(MachineOwner::Deployment, "failed"), 1);
    assert_ne!(finalizers(&server, DEPLOYMENT), Value::Null);
    assert!(server.object(CHECK).is_some(), "nothing goes on after a failure");
    sleep(Duration::from_secs(2)).await;
    assert_eq!((server.object(DEPLOYMENT), server.object(CHECK)), (None, None), "it is tried again");

    for name in ["orphan", "unknown"] {
        server.delete(&set(name));
    }
    sleep(MINUTE).await;
    assert!(process.outcomes(MachineOwner::Set, "failed") >= 4);
    for name in ["orphan", "unknown"] {
        assert_ne!(finalizers(&server, &set(name)), Value::Null, "{name}");
    }
    assert!(server.object(&bootstrap("b2")).is_some(), "who else uses it is not known");
}

#[test]
fn the_next_run_is_not_sooner_than_a_busy_api_server_asks_for() {
    // DEC-106
    let error = |code: u16| {
        let status = json!({"status": "Failure", "code": code, "reason": "r", "message": "later",
            "details": {"retryAfterSeconds": 30}});
        let error = kube::Error::Api(serde_json::from_value(status).unwrap()).into();
        TemplateRunError::Request { what: "t".to_owned(), done: "deleted", error }
    };
    assert_eq!(error(429).verdict(), RetryDecision::Overloaded(Duration::from_secs(30)));
    assert_eq!(error(503).verdict(), RetryDecision::Overloaded(Duration::from_secs(30)));
    assert_eq!(error(500).verdict(), RetryDecision::Failed);
}

#[tokio::test(start_paused = true)]
async fn removing_a_finalizer_is_tried_three_times_at_most() {
    // DEL-10
    for (refusals, goes) in [(2, true), (3, false)] {
        let server = server();
        makes(&server, &set("old"), ("b0", "i0"));
        let process = Process::start(&server, [cluster(false)]);
        sleep(MINUTE).await;
        (0..refusals).for_each(|_| server.refuse(&Method::PATCH, &set("old"), 422));
        server.take_requests();
        server.delete(&set("old"));
        sleep(Duration::from_millis(500)).await;
        let requests = server.take_requests();
        let attempts: Vec<_> = requests.iter().filter(|request| request.method == Method::PATCH).collect();
        let attempts: Vec<_> = attempts.into_iter().filter(|request| request.is_about("old")).collect();
        assert_eq!(attempts.len(), 3);
        let apart = attempts.windows(2).map(|pair| pair[1].at - pair[0].at);
        for pause in apart {
            assert!(pause >= Duration::from_millis(50) && pause < Duration::from_millis(60), "{pause:?}");
        }
        assert_eq!(server.object(&set("old")).is_none(), goes);
        assert_eq!(process.outcomes(MachineOwner::Set, "failed"), u64::from(!goes));
        sleep(Duration::from_secs(2)).await;
        assert_eq!(server.object(&set("old")), None, "the next run does it");
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay() {
    // DEL-10
    let server = server();
    makes(&server, &set("old"), ("b0", "i0"));
    let _process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    server.edit(&set("old"), |set| {
        let own = set["metadata"]["finalizers"][0].clone();
        set["metadata"]["finalizers"] = json!(["a/first", own, "z/last"]);
    });
    server.delete(&set("old"));
    sleep(MINUTE).await;
    assert_eq!(finalizers(&server, &set("old")), json!(["a/first", "z/last"]));
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_writes_nothing() {
    let server = server();
    let process = Process::start(&server, [cluster(false)]);
    sleep(MINUTE).await;
    server.fail(Some(Failure::Status(500)));
    sleep(MINUTE).await;
    server.take_requests();
    server.delete(DEPLOYMENT);
    sleep(MINUTE).await;
    assert!(writes(&server.take_requests()).iter().all(|(_, path)| path.contains("leases")));
    drop(process);
}
