//! How soon the caches of replicas are current again after outages of kube-apiserver, etcd and the network.

use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_and_permissions, overlay, stream, webhooks_at};
use crate::harness::network::{Cut, Network};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;
use crate::load::{CLASS, clusters, until};

/// A leader and a follower with all controllers, which reach their API server over a network of the test. The follower
/// is called by the API server.
struct Site {
    leader: Topologist,
    follower: Topologist,
    cut: Cut,
    kubernetes: Kubernetes,
    _folder: TempDir,
}

impl Site {
    async fn start() -> Self {
        let kubernetes = Kubernetes::start();
        let objects = overlay("alone");
        kubernetes.apply_yaml(&stream(&definitions_and_permissions(objects.clone()))).await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let cut = Cut::start(&kubeconfig, folder.path()).await;
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), cut.kubeconfig.display().to_string());
        let common = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        let serve = || Topologist::serve(&[&common[..], &["--controllers", "all"]].concat());
        let mut leader = serve();
        leader.wait_for_log("Acquired the Lease");
        let follower = serve();
        follower.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        kubernetes.apply_yaml(&stream(&webhooks_at(objects, &follower.webhook, &authority))).await;
        Site { leader, follower, cut, kubernetes, _folder: folder }
    }

    fn replicas(&self) -> [&Topologist; 2] {
        [&self.leader, &self.follower]
    }

    fn classes(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "ClusterClass");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "clusterclasses");
        Api::namespaced_with(self.kubernetes.client(), "default", &resource)
    }

    async fn make_class(&self, name: &str) {
        let mut class = topologist::yaml::value(CLASS).unwrap();
        class["metadata"]["name"] = json!(name);
        let class: DynamicObject = serde_json::from_value(class).unwrap();
        let classes = self.classes();
        let create = async || classes.create(&PostParams::default(), &class).await;
        let error = async || format!("{:?}", create().await);
        wait::until_async(&format!("{name} is created"), SOON, async || create().await.is_ok(), error).await;
    }

    async fn make_cluster(&self, name: &str, class: &str) {
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"topology": {"classRef": {"name": class}, "version": "v1.33.0"}}});
        let cluster: DynamicObject = serde_json::from_value(cluster).unwrap();
        clusters(&self.kubernetes).create(&PostParams::default(), &cluster).await.unwrap();
    }

    /// Whether the follower takes a class for one that Clusters use; `None` if the API server gives no verdict of it.
    async fn is_in_use(&self, class: &str) -> Option<bool> {
        let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
        match self.classes().delete(class, &params).await {
            Ok(_) => Some(false),
            Err(kube::Error::Api(status)) if status.code == 403 => Some(true),
            Err(_) => None,
        }
    }

    /// Returns when the follower takes the first class for one in use, and the second for one that is not.
    async fn until_in_use(&self, used: &str, unused: &str) {
        let verdicts = async || (self.is_in_use(used).await, self.is_in_use(unused).await);
        let state = async || format!("{:?}\n{}", verdicts().await, self.follower.log_text());
        let is_so = async || verdicts().await == (Some(true), Some(false));
        wait::until_async(&format!("{used} is in use and {unused} is not"), 2 * SOON, is_so, state).await;
    }
}

/// How many objects of a kind a replica knows.
fn known(replica: &Topologist, kind: &str) -> Option<f64> {
    replica.metric(&format!("topologist_cache_objects{{kind=\"{kind}\"}}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn caches_are_current_within_seconds_after_an_outage() {
    const OUTAGE: Duration = Duration::from_secs(26);
    let site = Site::start().await;
    let (mut classes, mut late) = (0.0, Vec::new());
    // A watch pauses for five seconds at most. A connection that nothing passes on is noticed after 20 seconds, and an
    // attempt to make another one takes ten at most.
    for (outage, most) in [("killed", 9), ("forgotten connections", 16)] {
        match outage {
            "killed" => site.kubernetes.kill_api_server(),
            _ => site.cut.set(Network::Forgetful),
        }
        tokio::time::sleep(OUTAGE).await;
        match outage {
            "killed" => site.kubernetes.start_api_server(),
            _ => site.cut.set(Network::Works),
        }
        let over = Instant::now();
        classes += 1.0;
        site.kubernetes.apply_yaml(&CLASS.replace("name: base", &format!("name: after-{classes}"))).await;
        let mut behind = [None; 2];
        while behind.contains(&None) {
            for (replica, behind) in site.replicas().into_iter().zip(&mut behind) {
                if behind.is_none() && known(replica, "ClusterClass") == Some(classes) {
                    *behind = Some(over.elapsed());
                }
            }
            assert!(over.elapsed() < 3 * SOON, "{outage}: {behind:?}\n{}", site.follower.log_text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("{outage}: leader and follower are current after {behind:?}");
        let is_late = behind.iter().flatten().any(|behind| *behind >= Duration::from_secs(most));
        late.extend(is_late.then(|| format!("{outage}: {behind:?}")));
    }
    assert!(late.is_empty(), "{late:?}\n{}", site.follower.log_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restore_of_etcd_is_noticed_within_seconds() {
    // DEC-105
    let site = Site::start().await;
    site.make_class("left").await;
    site.make_class("right").await;
    site.make_cluster("resurrected", "left").await;
    site.until_in_use("left", "right").await;
    site.kubernetes.copy_etcd();
    site.make_cluster("ghost", "right").await;
    clusters(&site.kubernetes).delete("resurrected", &DeleteParams::default()).await.unwrap();
    site.until_in_use("right", "left").await;
    // The history that is lost has some length.
    tokio::time::sleep(Duration::from_secs(5)).await;
    site.kubernetes.restore_etcd();
    let restored = Instant::now();
    site.until_in_use("left", "right").await;
    let elapsed = restored.elapsed();
    println!("the follower is current {elapsed:?} after the restore");
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}\n{}", site.follower.log_text());
    until("both replicas know one Cluster", || {
        site.replicas().iter().all(|replica| known(replica, "Cluster") == Some(1.0))
    })
    .await;
    // The ghost blocks no edit: its class may list the versions that it does not have.
    let edit: Value = json!({"spec": {"kubernetesVersions": ["v1.32.0"]}});
    let edited = async |class: &str| {
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        site.classes().patch(class, &params, &Patch::Merge(&edit)).await
    };
    edited("right").await.unwrap();
    let log = site.follower.log_text();
    assert!(log.contains("The API server was restored from an older copy"), "{log}");
}
