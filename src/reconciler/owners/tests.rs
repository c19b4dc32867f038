use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::lease::{Candidacy, Election};
use crate::kubernetes::testing::ApiServer;
use crate::telemetry::metrics::Metrics;
use crate::world::Facts;

const MINUTE: Duration = Duration::from_mins(1);
const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters";
const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinedeployments";
const INFRASTRUCTURE: &str = "/apis/i.io/v1/namespaces/ns/iclusters/infra";

/// A Cluster as it is cached, which refers to an infrastructure cluster.
fn cluster(name: &str) -> Cluster {
    let metadata = json!({"namespace": "ns", "name": name, "uid": format!("uid-of-{name}")});
    let reference = json!({"apiGroup": "i.io", "kind": "ICluster", "name": "infra"});
    let topology = json!({"classRef": {"name": "class"}, "version": "v1.33.0"});
    let spec = json!({"infrastructureRef": reference, "topology": topology});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// A server with these Clusters, each of which has a machine deployment of its name.
fn server(clusters: &[&str]) -> ApiServer {
    let server = ApiServer::default();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/iclusters.i.io";
    server.edit(definition, |one| one["metadata"]["labels"] = json!({"cluster.x-k8s.io/v1beta2": "v1"}));
    for name in clusters {
        server.edit(&format!("{CLUSTERS}/{name}"), |_| ());
        server.edit(&format!("{DEPLOYMENTS}/{name}"), |deployment| {
            deployment["metadata"]["labels"] =
                json!({"topology.cluster.x-k8s.io/owned": "", "cluster.x-k8s.io/cluster-name": name});
        });
    }
    server
}

/// The controller in a process that leads, with what it has cached.
fn start(server: &ApiServer, cached: &[&str]) -> Vec<JoinHandle<()>> {
    let (metrics, facts) = (Arc::new(Metrics::default()), Facts::of(cached.iter().map(|name| cluster(name)), []));
    let candidacy = Candidacy::new("own", "topologist", Duration::from_secs(15));
    let (election, leadership) = Election::new(server.client(), candidacy, metrics.clone());
    let cache = Arc::new(Cache::new(facts));
    let setup = Setup { client: server.client(), leadership: leadership.clone(), cache, metrics };
    let controller = Arc::new(OwnersController(setup));
    let client = server.client();
    let work = leadership.while_leading(move || {
        let controller = controller.clone();
        Definitions::beside(client.clone(), Arc::default(), |definitions| controller.run(definitions))
    });
    vec![tokio::spawn(election.run(CancellationToken::new())), tokio::spawn(work)]
}

fn owners(server: &ApiServer, path: &str) -> Value {
    server.object(path).unwrap()["metadata"]["ownerReferences"].clone()
}

fn plain(name: &str) -> Value {
    let api_version = "cluster.x-k8s.io/v1beta2";
    json!({"apiVersion": api_version, "kind": "Cluster", "name": name, "uid": format!("uid-of-{name}")})
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_being_deleted_gets_no_objects_even_if_the_cache_is_old() {
    // DEL-01
    let server = server(&["deleting", "another", "gone", "stays"]);
    server.edit(&format!("{CLUSTERS}/deleting"), |cluster| {
        cluster["metadata"]["finalizers"] = json!(["orphan"]);
        cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    server.edit(&format!("{CLUSTERS}/another"), |cluster| cluster["metadata"]["uid"] = json!("another"));
    server.delete(&format!("{CLUSTERS}/gone"));
    let _tasks = start(&server, &["deleting", "another", "gone", "stays"]);
    sleep(MINUTE).await;
    for name in ["deleting", "another", "gone"] {
        assert_eq!(owners(&server, &format!("{DEPLOYMENTS}/{name}")), Value::Null, "{name}");
    }
    assert_eq!(owners(&server, &format!("{DEPLOYMENTS}/stays")), json!([plain("stays")]));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_controls_what_it_refers_to_unless_another_object_does() {
    // CT-15.1, MA-27.3
    let controls = |mut owner: Value| {
        (owner["controller"], owner["blockOwnerDeletion"]) = (json!(true), json!(true));
        owner
    };
    let shim = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "one-shim", "uid": "shim"});
    let other = controls(json!({"apiVersion": "o.io/v1", "kind": "Other", "name": "other", "uid": "other"}));
    let mut beside = controls(plain("one"));
    beside.as_object_mut().unwrap().remove("controller");
    for (case, before, want) in [
        ("no owner", json!([]), json!([controls(plain("one"))])),
        ("the shim", json!([shim]), json!([shim, controls(plain("one"))])),
        ("a plain owner", json!([plain("one"), shim]), json!([controls(plain("one")), shim])),
        ("the controller", json!([controls(plain("one"))]), json!([controls(plain("one"))])),
        ("another controller", json!([other]), json!([other, beside])),
        ("an owner beside a controller", json!([other, plain("one")]), json!([other, plain("one")])),
    ] {
        let server = server(&["one"]);
        server.edit(INFRASTRUCTURE, |object| {
            (object["kind"], object["metadata"]["ownerReferences"]) = (json!("ICluster"), before);
        });
        let _tasks = start(&server, &["one"]);
        sleep(MINUTE).await;
        assert_eq!(owners(&server, INFRASTRUCTURE), want, "{case}");
    }
}
