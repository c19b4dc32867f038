//! Clients that ask all the time, and notice when they do not get the answer that they should get.
//!
//! Workers take turns with a Cluster that is fine and one that is not, so a guard that lets things pass shows as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::wait;
use crate::harness::wait::SOON;

/// Waits until something holds.
pub(crate) async fn until(fact: &str, mut holds: impl FnMut() -> bool) {
    wait::until_async(fact, SOON, async || holds(), wait::nothing).await;
}

/// The Clusters of the namespace `default`.
pub(crate) fn clusters(kubernetes: &Kubernetes) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "clusters");
    Api::namespaced_with(kubernetes.client(), "default", &resource)
}

/// The class of the Clusters that workers ask about.
pub(crate) const CLASS: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: base, namespace: default}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevClusterTemplate, name: t}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: t}
";

pub(crate) fn dry() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

pub(crate) fn good(name: &str) -> DynamicObject {
    cluster(name, "v1.33.0")
}

pub(crate) fn bad(name: &str) -> DynamicObject {
    cluster(name, "v1.33")
}

fn cluster(name: &str, version: &str) -> DynamicObject {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"topology": {"classRef": {"name": "base"}, "version": version}}});
    serde_json::from_value(cluster).unwrap()
}

/// A request that did not get the answer that it should have got.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) started: Instant,
    pub(crate) is_good: bool,
    /// `None` when a Cluster was let through that should not have been.
    pub(crate) status: Option<(u16, String)>,
}

/// Workers that ask all the time.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    workers: Vec<JoinHandle<Vec<Lost>>>,
}

const WORKERS: usize = 8;

impl Load {
    pub(crate) fn start(clusters: impl Fn() -> Api<DynamicObject>) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let workers = (0..WORKERS).map(|worker| {
            let (clusters, stop, answered) = (clusters(), stop.clone(), answered.clone());
            tokio::spawn(async move {
                let (name, mut lost) = (format!("worker-{worker}"), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    for is_good in [true, false] {
                        lost.extend(ask(&clusters, &name, is_good).await);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
                lost
            })
        });
        let workers = workers.collect();
        Load { stop, answered, workers }
    }

    /// Returns when so many requests that were not under way before have been answered.
    pub(crate) async fn more(&self, count: usize) {
        let answered = || self.answered.load(Ordering::Relaxed);
        let enough = answered() + WORKERS + count;
        until("requests are answered", || answered() >= enough).await;
    }

    pub(crate) async fn stop(self) -> Vec<Lost> {
        self.stop.store(true, Ordering::Relaxed);
        let mut lost = Vec::new();
        for worker in self.workers {
            lost.extend(worker.await.unwrap());
        }
        lost
    }
}

pub(crate) async fn ask(clusters: &Api<DynamicObject>, name: &str, is_good: bool) -> Option<Lost> {
    let started = Instant::now();
    let object = if is_good { good(name) } else { bad(name) };
    let status = match clusters.create(&dry(), &object).await {
        Ok(_) if is_good => return None,
        Ok(_) => None,
        Err(kube::Error::Api(status)) if !is_good && status.code == 422 => return None,
        Err(kube::Error::Api(status)) => Some((status.code, status.message.clone())),
        Err(error) => Some((0, error.to_string())),
    };
    Some(Lost { started, is_good, status })
}
