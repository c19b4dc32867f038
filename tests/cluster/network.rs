//! A network that fails between topologist and kube-apiserver.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use topologist::kubernetes::connection::{self, Pings};

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_and_permissions, overlay, stream};
use crate::harness::network::{Cut, Network};
use crate::harness::objects::template_ref;
use crate::harness::server::{Topologist, command, http_get, make_certificates};
use crate::harness::wait::{self, SOON};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_api_server_is_noticed_by_a_ping() {
    let kubernetes = Kubernetes::start();
    let folder = tempfile::tempdir().unwrap();
    let cut = Cut::start(kubernetes.kubeconfig(), folder.path()).await;
    let kubeconfig = Kubeconfig::read_from(&cut.kubeconfig).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    let pings = Pings { interval: Duration::from_secs(1), timeout: Duration::from_secs(1) };
    let namespaces = Api::<Namespace>::all(connection::client(config, pings).unwrap());
    let version = namespaces.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = namespaces.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    // Silence without news is no fault: pings are answered.
    let quiet = tokio::time::timeout(Duration::from_secs(5), events.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    cut.set(Network::Silent);
    let silent = Instant::now();
    let (ended, request) =
        tokio::time::timeout(SOON, async { tokio::join!(events.next(), namespaces.get_opt("default")) })
            .await
            .expect("the silence is noticed");
    assert!(matches!(ended, None | Some(Err(_))), "{ended:?}");
    assert!(request.is_err(), "{request:?}");
    assert!(silent.elapsed() < Duration::from_secs(10), "{:?}", silent.elapsed());
    cut.set(Network::Works);
    assert!(namespaces.get_opt("default").await.unwrap().is_some(), "a new connection is made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_are_back_soon_after_an_outage_that_is_longer_than_the_lease() {
    let kubernetes = Kubernetes::start();
    let objects = overlay("alone");
    kubernetes.apply_yaml(&stream(&definitions_and_permissions(objects))).await;
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    let cut = Cut::start(&kubeconfig, folder.path()).await;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), cut.kubeconfig.display().to_string());
    let topologist = Topologist::serve(&[
        "--kubeconfig",
        &kubeconfig,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--controllers",
        "all",
        "--lease-duration",
        "4s",
    ]);
    topologist.wait_until_ready();
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "ClusterClass");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "clusterclasses");
    let classes: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), "default", &resource);
    // The controller of ClusterClasses writes the status of a new one.
    let until_reconciled = async |name: &str| {
        classes.create(&PostParams::default(), &class(name)).await.unwrap();
        let has_conditions = async || !classes.get(name).await.unwrap().data["status"]["conditions"].is_null();
        let log = async || topologist.log_text();
        wait::until_async(&format!("{name} is reconciled"), 4 * SOON, has_conditions, log).await;
    };
    until_reconciled("before").await;
    for (outage, is_lost) in [("network", 1), ("killed", 2)] {
        match outage {
            "network" => cut.set(Network::Down),
            _ => kubernetes.kill_api_server(),
        }
        tokio::time::sleep(Duration::from_secs(12)).await;
        let log = topologist.log_text();
        assert_eq!(log.matches("Lost the Lease").count(), is_lost, "{outage}\n{log}");
        match outage {
            "network" => cut.set(Network::Works),
            _ => kubernetes.start_api_server(),
        }
        let restored = Instant::now();
        until_reconciled(&format!("after-{outage}")).await;
        // The Lease is taken again at once, and a watch pauses for five seconds at most.
        let elapsed = restored.elapsed();
        assert!(elapsed < Duration::from_secs(15), "{outage}: {elapsed:?}\n{}", topologist.log_text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_kube_apiserver() {
    let kubernetes = Kubernetes::start();
    kubernetes.apply_yaml(&stream(&definitions_and_permissions(overlay("alone")))).await;
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), kubeconfig.display().to_string());
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    kubernetes.kill_api_server();
    let mut topologist = Topologist::spawn(command(&[
        "serve",
        "--log-format=json",
        "--webhook-addr=127.0.0.1:0",
        "--conversion-addr=127.0.0.1:0",
        "--admin-addr",
        &admin,
        "--kubeconfig",
        &kubeconfig,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--controllers",
        "all",
    ]));
    let waits = "Waiting for the API server";
    topologist.wait_for_log(waits);
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!((http_get(&admin, "/healthz").0, http_get(&admin, "/readyz").0), (200, 503));
    let log = topologist.log_text();
    assert!((2..=4).contains(&log.matches(waits).count()), "{log}");
    kubernetes.start_api_server();
    topologist.wait_until_serving();
    topologist.wait_until_ready();
    topologist.wait_for_log("Acquired the Lease");
}

/// A class whose templates do not exist.
fn class(name: &str) -> DynamicObject {
    let spec = json!({
        "infrastructure": template_ref("infrastructure", "DevClusterTemplate"),
        "controlPlane": template_ref("controlplane", "KubeadmControlPlaneTemplate"),
    });
    let class = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": name},
        "spec": spec});
    serde_json::from_value(class).unwrap()
}
