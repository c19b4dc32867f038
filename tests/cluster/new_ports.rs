//! An upgrade from manifests in which reviews and conversions share a port, as docs/operations.md describes it.
//!
//! ```text
//!  writes ──► kube-apiserver ──► Service topologist ─────────────► port `webhook` of ready pods
//!  reads in v1beta1 ──┘  └─────► Service topologist-conversion ──► its target port, of all pods that have it
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use topologist::hub::Kind;
use topologist::yaml;

use crate::harness::balancer::Balancer;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, find, overlay, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait::{self, SOON};
use crate::load::{CLASS, Load, bad, clusters, dry, good};

/// The manifests of the version before.
fn previous() -> Vec<Value> {
    let all = [include_str!("previous/services.yaml"), include_str!("previous/deployment.yaml")];
    let documents = all.into_iter().flat_map(yaml::documents);
    documents.map(|document| document.unwrap().value).collect()
}

/// The names of the container ports.
fn ports(manifests: &[Value]) -> Vec<String> {
    let container = &find(manifests, "Deployment", "topologist")["spec"]["template"]["spec"]["containers"][0];
    container["ports"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap().to_owned()).collect()
}

/// Where a Service leads: the name of a container port.
fn target(manifests: &[Value], service: &str) -> String {
    let service = &find(manifests, "Service", service)["spec"];
    assert_eq!((&service["ports"][0]["name"], &service["ports"][0]["port"]), (&json!("webhook"), &json!(443)));
    service["ports"][0]["targetPort"].as_str().unwrap().to_owned()
}

/// A pod: the binary, and the addresses of its named ports.
struct Pod {
    topologist: Topologist,
    ports: BTreeMap<String, String>,
}

impl Pod {
    /// A pod of these manifests.
    fn start(manifests: &[Value], arguments: &[&str]) -> Pod {
        let topologist = Topologist::serve(arguments);
        let of = |name: &String| match &**name {
            "webhook" => topologist.webhook.clone(),
            "conversion" => topologist.conversions.clone(),
            _ => topologist.admin.clone(),
        };
        let ports = ports(manifests).into_iter().map(|name| (name.clone(), of(&name))).collect();
        Pod { topologist, ports }
    }
}

/// The two Services, and where they lead.
struct Services {
    reviews: Balancer,
    conversions: Balancer,
    target: String,
}

impl Services {
    fn add(&self, pod: &Pod) {
        // Behind the port of the container that has the name; a pod without one is not behind the Service.
        if let Some(address) = pod.ports.get(&self.target) {
            self.conversions.add_early(address, &pod.topologist.admin);
        }
        self.reviews.add(&pod.ports["webhook"], &pod.topologist.admin);
    }

    /// Changes the target port of the Service for conversions.
    fn lead_to(&mut self, target: String, pods: &[Pod]) {
        for address in pods.iter().filter_map(|pod| pod.ports.get(&target).map(|address| (address, pod))) {
            self.conversions.add_early(address.0, &address.1.topologist.admin);
        }
        for address in pods.iter().filter_map(|pod| pod.ports.get(&self.target)) {
            self.conversions.remove(address);
        }
        self.target = target;
    }

    /// Ends a pod as a rollout does; a Service forgets it when it has ended.
    fn end(&self, mut pod: Pod) {
        pod.topologist.signal("TERM");
        assert_eq!(pod.topologist.wait().code(), Some(0), "{}", pod.topologist.log_text());
        for address in pod.ports.values() {
            self.reviews.remove(address);
            self.conversions.remove(address);
        }
    }
}

/// Clients that read in v1beta1 all the time.
struct Reads {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    workers: Vec<JoinHandle<Vec<String>>>,
}

impl Reads {
    fn start(kubernetes: &Kubernetes) -> Reads {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let workers = (0..4).map(|_| {
            let (stop, count) = (stop.clone(), count.clone());
            let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", Kind::ClusterClass.name());
            let resource = ApiResource::from_gvk_with_plural(&gvk, Kind::ClusterClass.plural());
            let classes: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), "default", &resource);
            tokio::spawn(async move {
                let mut lost = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match classes.get("base").await {
                        Ok(class) => assert!(class.data["spec"]["infrastructure"].get("ref").is_some()),
                        Err(error) => lost.push(error.to_string()),
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
                lost
            })
        });
        let workers = workers.collect();
        Reads { stop, count, workers }
    }

    async fn more(&self, count: usize) {
        let enough = self.count.load(Ordering::Relaxed) + self.workers.len() + count;
        crate::load::until("objects are read", || self.count.load(Ordering::Relaxed) >= enough).await;
    }

    async fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut lost = Vec::new();
        for worker in self.workers {
            lost.extend(worker.await.unwrap());
        }
        lost
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_deployment_is_rolled_first_and_the_service_changed_second_without_a_failed_request() {
    let (old, new) = (previous(), overlay("alone"));
    // The other order, or both at once, leaves the Service without a pod that has the port.
    assert!(!ports(&old).contains(&target(&new, "topologist-conversion")));
    assert!(ports(&new).contains(&target(&old, "topologist-conversion")), "new pods are behind the old Service");
    assert_eq!(target(&old, "topologist"), target(&new, "topologist"));

    let kubernetes = Kubernetes::start();
    kubernetes.apply_yaml(&stream(&permissions(new.clone()))).await;
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let kubeconfig = kubeconfig.to_str().unwrap();
    let mut arguments = vec!["--kubeconfig", kubeconfig, "--tls-cert", &cert, "--tls-key", &key];
    arguments.extend(["--controllers=none", "--shutdown-grace", "2s"]);

    let (reviews, conversions) = (Balancer::start(), Balancer::start());
    let authority = std::fs::read(file("ca.crt")).unwrap();
    kubernetes.apply_yaml(&stream(&definitions_at(new.clone(), &conversions.address, &authority))).await;
    let mut services = Services { reviews, conversions, target: target(&old, "topologist-conversion") };
    let mut pods: Vec<Pod> = (0..2).map(|_| Pod::start(&old, &arguments)).collect();
    pods.iter().for_each(|pod| services.add(pod));
    kubernetes.apply_yaml(CLASS).await;
    kubernetes.apply_yaml(&stream(&webhooks_at(new.clone(), &services.reviews.address, &authority))).await;
    let of_default = clusters(&kubernetes);
    let are_called = async || {
        of_default.create(&dry(), &bad("probe")).await.is_err()
            && of_default.create(&PostParams { dry_run: true, ..PostParams::default() }, &good("probe")).await.is_ok()
    };
    wait::until_async("the webhooks are called", SOON, are_called, wait::nothing).await;

    let (writes, reads) = (Load::start(|| clusters(&kubernetes)), Reads::start(&kubernetes));
    writes.more(50).await;
    for _ in 0..2 {
        let pod = Pod::start(&new, &arguments);
        services.add(&pod);
        pods.push(pod);
        services.end(pods.remove(0));
        writes.more(50).await;
        reads.more(50).await;
    }
    services.lead_to(target(&new, "topologist-conversion"), &pods);
    reads.more(100).await;
    // What comes after is an ordinary rollout.
    let pod = Pod::start(&new, &arguments);
    services.add(&pod);
    pods.push(pod);
    services.end(pods.remove(0));
    writes.more(50).await;
    reads.more(100).await;
    let (lost, unread) = (writes.stop().await, reads.stop().await);
    assert!(lost.is_empty() && unread.is_empty(), "{lost:#?}\n{unread:#?}");
    let converted =
        |pod: &Pod| pod.topologist.metric("topologist_conversions_total{kind=\"ClusterClass\",outcome=\"success\"}");
    assert!(pods.iter().any(|pod| converted(pod).is_some_and(|count| count > 0.0)));
}
