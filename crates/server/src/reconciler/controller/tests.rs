use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::extension_client::Clients;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::lease::{Candidacy, Election};
use crate::kubernetes::testing::{ApiServer, Failure, Received};
use crate::telemetry::metrics;
use model::world::Facts;
use testing::Lines;

const CLASS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusterclasses/base";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/own/leases/topologist";
const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

fn template(name: &str) -> String {
    format!("/apis/g.io/v1/namespaces/ns/atemplates/{name}")
}

/// A server with a class that refers to two templates of one kind.
fn server() -> ApiServer {
    let server = ApiServer::default();
    let reference = |name: &str| json!({"templateRef": {"apiVersion": "g.io/v1", "kind": "ATemplate", "name": name}});
    server.edit("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/atemplates.g.io", |definition| {
        definition["metadata"]["labels"] = json!({"cluster.x-k8s.io/v1beta2": "v1"});
    });
    server.edit(&template("one"), |_| ());
    server.edit(&template("two"), |_| ());
    server.edit(CLASS, |class| {
        class["metadata"]["generation"] = json!(1);
        class["spec"] = json!({"infrastructure": reference("one"), "controlPlane": reference("two")});
    });
    server
}

/// A process whose controller runs whenever it leads; it ends with the test.
struct Process {
    extensions: Arc<ExtensionCaller>,
    metrics: Arc<Metrics>,
    tasks: Vec<JoinHandle<()>>,
}

impl Process {
    fn start(server: &ApiServer) -> Self {
        Process::in_scope(server, Scope::default())
    }

    fn in_scope(server: &ApiServer, scope: Scope) -> Self {
        let metrics = Arc::new(Metrics::default());
        let candidacy = Candidacy::new("own", "topologist", Duration::from_secs(15));
        let (election, leadership) = Election::new(server.client(), candidacy, metrics.clone());
        let (client, cache) = (server.client(), Arc::new(Cache::new(Facts::default().within(scope))));
        let extensions = Arc::new(ExtensionCaller::new(client.clone(), Clients::new(None), metrics.clone()));
        let (leads, counted, known) = (leadership.clone(), metrics.clone(), Some(extensions.clone()));
        let setup = Setup { client: client.clone(), leadership: leads, cache, extensions: known, metrics: counted };
        let controller = Arc::new(ClassController(setup));
        let work = leadership.while_leading(move || {
            let controller = controller.clone();
            Definitions::beside(client.clone(), Arc::default(), |definitions| controller.run(definitions))
        });
        let tasks = vec![tokio::spawn(election.run(CancellationToken::new())), tokio::spawn(work)];
        Process { extensions, metrics, tasks }
    }

    fn outcomes(&self, outcome: &'static str) -> u64 {
        self.metrics.reconciles.get_or_create(&metrics::Reconcile { controller: NAME, outcome }).get()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn observed(server: &ApiServer) -> Value {
    server.object(CLASS).unwrap()["status"]["observedGeneration"].clone()
}

fn condition(server: &ApiServer, r#type: &str) -> Value {
    let class = server.object(CLASS).unwrap();
    let conditions = class["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == r#type).unwrap_or_default()
}

fn writes(requests: &[Received], name: &str) -> usize {
    requests.iter().filter(|request| request.method == Method::PATCH && request.is_about(name)).count()
}

#[tokio::test(start_paused = true)]
async fn a_class_is_reconciled_and_then_there_are_only_watches() {
    // CCR-02
    let server = server();
    let process = Process::start(&server);
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 1);
    let requests = server.take_requests();
    // First that it is not paused, then the rest.
    assert_eq!((writes(&requests, "base"), writes(&requests, "one"), writes(&requests, "two")), (2, 1, 1));
    assert_eq!(process.outcomes("failed"), 0);
    sleep(HOUR).await;
    let watched = ["clusterclasses", "atemplates", "customresourcedefinitions", "topologist"];
    for request in server.take_requests() {
        assert!(watched.iter().any(|end| request.path.ends_with(end)), "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_are_added_to_what_is_there_and_conflicts_are_tried_again() {
    // CCR-04, CT-15.2
    let server = server();
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "1"});
    let former = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "ClusterClass", "name": "base", "uid": "0"});
    server.edit(&template("one"), |one| one["metadata"]["ownerReferences"] = json!([former, theirs]));
    server.conflict(&template("one"));
    server.conflict(&template("one"));
    let _process = Process::start(&server);
    sleep(MINUTE).await;
    let ours =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "name": "base", "uid": "uid-of-base"});
    assert_eq!(server.object(&template("one")).unwrap()["metadata"]["ownerReferences"], json!([ours, theirs]));
    assert_eq!(server.object(&template("two")).unwrap()["metadata"]["ownerReferences"], json!([ours]));
    assert_eq!(writes(&server.take_requests(), "one"), 3);
    assert_eq!(observed(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_of_others_are_not_reverted() {
    // CCR-04
    let server = server();
    let _process = Process::start(&server);
    sleep(MINUTE).await;
    server.hide("atemplates");
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "1"});
    server.edit(&template("one"), |one| one["metadata"]["ownerReferences"].as_array_mut().unwrap().push(theirs));
    let spec = server.object(CLASS).unwrap()["spec"].clone();
    server.edit(&CLASS.replace("base", "second"), |class| class["spec"] = spec);
    sleep(MINUTE).await;
    let one = server.object(&template("one")).unwrap();
    let owners = one["metadata"]["ownerReferences"].as_array().unwrap();
    let names: Vec<_> = owners.iter().map(|owner| owner["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "theirs", "second"], "the watch did not show the second of them");
}

#[tokio::test(start_paused = true)]
async fn a_template_of_a_topology_is_found_although_it_is_not_watched() {
    let server = server();
    server.edit(&template("one"), |one| one["metadata"]["labels"] = json!({"topology.cluster.x-k8s.io/owned": ""}));
    let _process = Process::start(&server);
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_template_is_retried_with_backoff() {
    // CCR-04, RS-09
    let server = server();
    server.delete(&template("one"));
    let process = Process::start(&server);
    sleep(2 * HOUR).await;
    assert_eq!(condition(&server, "RefVersionsUpToDate")["status"], "Unknown");
    assert_eq!(observed(&server), Value::Null);
    assert!(process.outcomes("failed") > 5);
    let requests = server.take_requests();
    assert_eq!((writes(&requests, "base"), writes(&requests, "two")), (2, 1), "the status is told once");
    let looks: Vec<Instant> = requests.iter().filter(|request| request.is_about("one")).map(|r| r.at).collect();
    let gaps: Vec<Duration> = looks.windows(2).map(|pair| pair[1] - pair[0]).skip(1).collect();
    assert!(gaps.is_sorted() && gaps.len() < 30, "{gaps:?}");
    assert_eq!(gaps.last().unwrap().as_secs(), 1000);
    // It is there, and the class does not wait for its next turn.
    server.edit(&template("one"), |_| ());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(observed(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_no_missing_template() {
    // CT-4.6
    let server = server();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/atemplates.g.io";
    server.delete(definition);
    let _process = Process::start(&server);
    sleep(MINUTE).await;
    assert_eq!(condition(&server, "RefVersionsUpToDate")["status"], "Unknown");
    let requested =
        server.take_requests().iter().any(|request| request.path.contains("g.io/v1/namespaces/ns/atemplates"));
    assert!(!requested, "a kind that is not served is not asked for");
    server.edit(definition, |definition| {
        definition["metadata"]["labels"] = json!({"cluster.x-k8s.io/v1beta1": "v1_v2"});
    });
    sleep(MINUTE).await;
    assert_eq!(condition(&server, "RefVersionsUpToDate")["reason"], "RefVersionsNotUpToDate");
    assert_eq!(observed(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn two_writers_of_the_same_status_do_not_race() {
    let (lines, _logging) = Lines::collect();
    let server = server();
    server.meddle(|class| {
        for condition in class["status"]["conditions"].as_array_mut().unwrap() {
            condition["message"] = json!("mine");
        }
    });
    let process = Process::start(&server);
    sleep(HOUR).await;
    let count = writes(&server.take_requests(), "base");
    assert!((5..25).contains(&count), "{count} writes in an hour");
    assert!(process.outcomes("held") > 0);
    let text = lines.text();
    assert!(text.contains("another client keeps changing the status; delaying the next write"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn many_edits_of_a_class_are_not_called_those_of_its_status() {
    let (lines, _logging) = Lines::collect();
    let server = server();
    // The class is edited as soon as its status is written.
    server
        .meddle(|class| class["metadata"]["generation"] = json!(class["metadata"]["generation"].as_u64().unwrap() + 1));
    let process = Process::start(&server);
    sleep(MINUTE).await;
    assert!(process.outcomes("held") > 0);
    let text = lines.text();
    assert!(text.contains("more than 5 changes of the status in a row; delaying the next write"), "{text}");
    assert!(!text.contains("another client"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn requests_are_retried_until_the_api_server_recovers() {
    let server = server();
    let process = Process::start(&server);
    sleep(MINUTE).await;
    server.edit(CLASS, |class| class["metadata"]["generation"] = json!(2));
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 2);
    // All writes fail, those of the Lease included, so the Lease is lost and acquired again.
    server.fail(Some(Failure::Status(500)));
    server.edit(CLASS, |class| class["metadata"]["generation"] = json!(3));
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 2);
    server.fail(None);
    sleep(5 * MINUTE).await;
    assert_eq!(observed(&server), 3);
    assert_eq!(process.metrics.leader.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_overload_of_the_api_server_is_no_condition_unless_it_lasts() {
    // DEC-106
    let server = server();
    let refuse =
        |times: usize, code: u16| (0..times).for_each(|_| server.refuse(&Method::PATCH, &template("one"), code));
    refuse(2, 429);
    refuse(2, 503);
    let process = Process::start(&server);
    while process.outcomes("failed") < 4 {
        assert_eq!(condition(&server, "RefVersionsUpToDate"), Value::Null);
        sleep(Duration::from_millis(100)).await;
    }
    sleep(MINUTE).await;
    assert_eq!((observed(&server), &condition(&server, "RefVersionsUpToDate")["status"]), (json!(1), &json!("True")));

    server.edit(&template("one"), |one| one["metadata"]["ownerReferences"] = json!([]));
    refuse(100, 503);
    server.edit(CLASS, |class| class["metadata"]["generation"] = json!(2));
    sleep(Duration::from_secs(15)).await;
    assert_eq!(condition(&server, "RefVersionsUpToDate")["status"], "True");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(condition(&server, "RefVersionsUpToDate")["status"], "Unknown", "it lasts");

    // What else is wrong is reported at once.
    let server = self::server();
    server.delete(&template("two"));
    server.refuse(&Method::PATCH, &template("one"), 503);
    let process = Process::start(&server);
    while process.outcomes("failed") < 1 {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(condition(&server, "RefVersionsUpToDate")["status"], "Unknown");
}

#[tokio::test(start_paused = true)]
async fn a_follower_reconciles_nothing() {
    let server = server();
    server.edit(LEASE, |lease| {
        lease["spec"] = json!({"holderIdentity": "another", "leaseDurationSeconds": 3600});
    });
    let process = Process::start(&server);
    sleep(MINUTE).await;
    assert!(server.take_requests().iter().all(|request| request.path == LEASE), "followers watch nothing");
    server.edit(LEASE, |lease| lease["spec"] = json!({}));
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 1);
    server.edit(LEASE, |lease| {
        lease["spec"] = json!({"holderIdentity": "another", "leaseDurationSeconds": 3600});
    });
    sleep(MINUTE).await;
    server.take_requests();
    server.edit(CLASS, |class| class["metadata"]["generation"] = json!(2));
    sleep(5 * MINUTE).await;
    assert!(server.take_requests().iter().all(|request| request.path == LEASE), "and neither does a former leader");
    assert_eq!((observed(&server), process.metrics.leader.get()), (json!(1), 0));
}

#[tokio::test(start_paused = true)]
async fn only_classes_in_scope_are_reconciled() {
    // CCR-01, DEC-37
    let server = server();
    let _process = Process::in_scope(&server, Scope::new(&[], Some("mine".into())).unwrap());
    sleep(MINUTE).await;
    assert_eq!(server.object(CLASS).unwrap().get("status"), None);
    server.edit(CLASS, |class| class["metadata"]["labels"] = json!({"cluster.x-k8s.io/watch-filter": "mine"}));
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 1);
    server.edit(CLASS, |class| {
        class["metadata"]["labels"] = Value::Null;
        class["metadata"]["generation"] = json!(2);
    });
    sleep(MINUTE).await;
    assert_eq!(observed(&server), 1, "it was ours until now");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_being_deleted_and_one_that_cannot_be_read_are_left_alone() {
    // CCR-02, CCR-14
    let server = server();
    server.edit(CLASS, |class| class["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let broken = CLASS.replace("base", "broken");
    server.edit(&broken, |class| class["spec"] = json!({"patches": 5}));
    let process = Process::start(&server);
    sleep(MINUTE).await;
    assert_eq!((writes(&server.take_requests(), "one"), observed(&server)), (0, Value::Null));
    assert!(process.outcomes("left-alone") > 0 && process.outcomes("failed") > 0);
}

/// A class whose infrastructure has these references, as classes of workers.
fn refer(server: &ApiServer, references: impl IntoIterator<Item = (String, &'static str, &'static str)>) {
    let holder = |(api_version, kind, name)| {
        json!({"bootstrap": {"templateRef": {"apiVersion": api_version,
            "kind": kind, "name": name}}})
    };
    let workers: Vec<Value> = references.into_iter().map(holder).collect();
    server.edit(CLASS, |class| class["spec"]["workers"]["machineDeployments"] = json!(workers));
}

#[tokio::test(start_paused = true)]
async fn malformed_references_are_not_followed_and_a_condition_says_so() {
    // DEC-45
    let server = server();
    server.edit("/apis/g.io/v1/namespaces/victim/atemplates/prod", |_| ());
    let traversal = "g.io/v1%2Fnamespaces%2Fvictim%2Fatemplates%2Fprod?x=".to_owned();
    refer(
        &server,
        [
            (traversal.clone(), "ATemplate", "prod"),
            ("g.io/%761".to_owned(), "ATemplate", "one"),
            ("g.io/v1".to_owned(), "ATemplate", ".."),
            ("g.io/v1".to_owned(), "ATemplate", "../../victim/atemplates/prod"),
            ("g.io/v1".to_owned(), "x?y=/ATemplate", "one"),
            ("g.io/v1/../../v1".to_owned(), "ATemplate", "one"),
        ],
    );
    let process = Process::start(&server);
    sleep(HOUR).await;
    let requests = server.take_requests();
    let odd = |path: &str| path.contains("victim") || path.contains('%') || path.contains("..");
    assert!(!requests.iter().any(|request| odd(&request.path)), "{requests:?}");
    assert_eq!((writes(&requests, "one"), writes(&requests, "two")), (1, 1), "other references are followed");
    assert!(process.outcomes("failed") > 0);
    let reported = condition(&server, "RefVersionsUpToDate");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("Unknown"), &json!("MalformedReferences")));
    let message = reported["message"].as_str().unwrap();
    for words in
        [&*traversal, "the version \"%761\"", "the name \"..\"", "the kind \"x?y=/ATemplate\"", "g.io/v1/../../v1"]
    {
        assert!(message.contains(words.trim_start_matches("g.io/")), "{words}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_not_served_are_not_watched() {
    // DEC-45
    let server = server();
    let versions = || (2..=203).map(|version| format!("g.io/v{version}"));
    server.stop_serving(versions().map(|version| format!("/apis/{version}/")));
    refer(&server, versions().map(|version| (version, "ATemplate", "one")));
    let process = Process::start(&server);
    sleep(HOUR).await;
    let requests = server.take_requests();
    let of_unserved =
        requests.iter().filter(|request| request.path.ends_with("/atemplates") && !request.path.contains("/v1/"));
    let runs = usize::try_from(process.outcomes("failed")).unwrap();
    assert!((1..40).contains(&runs), "{runs}");
    assert!(of_unserved.count() <= 202 * (runs + 1), "a list for each run, and no watch that tries again by itself");
    let watched = process.metrics.watched_kinds.get_or_create(&metrics::Kind { kind: "Template" }).get();
    assert_eq!(watched, 1, "the one version that is served");
    assert_eq!((writes(&requests, "one"), writes(&requests, "two")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_extensions_before_they_are_listed() {
    // DEC-100, CCR-07
    let server = server();
    let external = json!({"name": "p", "external": {"discoverVariablesExtension": "discover.x"}});
    server.edit(CLASS, |class| class["spec"]["patches"] = json!([external]));
    let (lines, _guard) = Lines::collect();
    let process = Process::start(&server);
    sleep(MINUTE).await;
    assert_eq!(condition(&server, "VariablesReady"), Value::Null);
    assert_eq!(condition(&server, "Paused")["status"], "False", "the class is looked at");
    assert_eq!((process.outcomes("failed"), process.outcomes("postponed") > 0), (0, true));
    assert_eq!(lines.text().matches("Postponed reconciling").count(), 1, "{}", lines.text());
    // There is one, and it has not been called.
    process
        .extensions
        .change(|registry| registry.expect("x", BTreeSet::new(), engine::extensions::Selector::Everything));
    sleep(MINUTE).await;
    assert_eq!(condition(&server, "VariablesReady"), Value::Null);
    process.extensions.change(|registry| registry.failed("x", "refused"));
    sleep(Duration::from_secs(2)).await;
    let condition = condition(&server, "VariablesReady");
    assert!(condition["message"].as_str().unwrap().contains("refused"), "{condition}");
}
