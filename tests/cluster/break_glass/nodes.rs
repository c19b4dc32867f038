//! What runs the pods of the Deployment where only an API server runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::site::NAMESPACE;
use crate::harness::balancer::Balancer;
use crate::harness::kustomize::variables;
use crate::harness::server::{Topologist, command};

/// How often the Deployment is looked at.
const PACE: Duration = Duration::from_millis(200);
/// The image that the nodes have.
const IMAGE: &str = "topologist:dev";

/// Deployment controller and kubelet in one, until this is dropped.
pub(super) struct Nodes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    pods: Mutex<Vec<Pod>>,
    ended: AtomicBool,
    balancer: Arc<Balancer>,
    kubeconfig: String,
    /// The logs of pods that have ended.
    logs: Mutex<String>,
}

struct Pod {
    template: Value,
    process: Topologist,
}

impl Nodes {
    pub(super) fn start(
        client: impl FnOnce() -> kube::Client + Send + 'static,
        kubeconfig: String,
        balancer: Arc<Balancer>,
    ) -> Self {
        let (pods, ended) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { pods, ended, balancer, kubeconfig, logs: Mutex::default() });
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async { shared.run(&Api::namespaced(client(), NAMESPACE)).await });
            }
        });
        Nodes { shared, thread: Some(thread) }
    }

    /// Ends all pods at once, as when their nodes lose power; others are started from the Deployment as it is.
    pub(super) fn lose_power(&self) {
        let pods = std::mem::take(&mut *self.shared.pods.lock().unwrap());
        for pod in pods {
            self.shared.balancer.remove(&pod.process.webhook);
            pod.process.signal("KILL");
        }
    }

    /// Whether each pod that runs satisfies a condition, and there is one.
    pub(super) fn all(&self, condition: impl Fn(&Topologist) -> bool) -> bool {
        let pods = self.shared.pods.lock().unwrap();
        !pods.is_empty() && pods.iter().all(|pod| condition(&pod.process))
    }

    /// Whether a pod that runs satisfies a condition.
    pub(super) fn any(&self, condition: impl Fn(&Topologist) -> bool) -> bool {
        self.shared.pods.lock().unwrap().iter().any(|pod| condition(&pod.process))
    }

    pub(super) fn logs(&self) -> String {
        let pods = self.shared.pods.lock().unwrap();
        let running: String = pods.iter().map(|pod| format!("--- running\n{}", pod.process.log_text())).collect();
        format!("{}{running}", self.shared.logs.lock().unwrap())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().expect("the nodes work until the end");
        }
    }
}

impl Shared {
    async fn run(&self, deployments: &Api<Deployment>) {
        let mut status = Value::Null;
        while !self.ended.load(Ordering::Acquire) {
            if let Ok(deployment) = deployments.get("topologist").await {
                let now = self.turn(&serde_json::to_value(deployment).unwrap());
                if now != status {
                    let patch = Patch::Merge(json!({"status": now}));
                    deployments.patch_status("topologist", &PatchParams::default(), &patch).await.unwrap();
                    status = now;
                }
            }
            tokio::time::sleep(PACE).await;
        }
        self.pods.lock().unwrap().clear();
    }

    /// One step to where the Deployment wants to be; returns its status.
    fn turn(&self, deployment: &Value) -> Value {
        let template = &deployment["spec"]["template"];
        let wanted = usize::try_from(deployment["spec"]["replicas"].as_u64().unwrap()).unwrap();
        let mut pods = self.pods.lock().unwrap();
        let is_new = |pod: &Pod| pod.template == *template;
        let has_image = template["spec"]["containers"][0]["image"] == IMAGE;
        let new = pods.iter().filter(|pod| is_new(pod)).count();
        if has_image && new < wanted {
            let process = self.launch(deployment);
            self.balancer.follow(&process.webhook, &process.admin);
            pods.push(Pod { template: template.clone(), process });
        }
        let is_ready = |pod: &Pod| self.balancer.is_ready(&pod.process.webhook);
        let updated = pods.iter().filter(|pod| is_new(pod)).count();
        let ready = pods.iter().filter(|pod| is_new(pod) && is_ready(pod)).count();
        // A new pod is ready before an old one stops (maxUnavailable: 0).
        let surplus = match ready >= wanted {
            true => pods.iter().position(|pod| !is_new(pod) || updated > wanted),
            false => None,
        };
        if let Some(position) = surplus {
            self.stop(pods.remove(position));
        }
        let available = pods.iter().filter(|pod| is_ready(pod)).count();
        json!({
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": pods.len(), "updatedReplicas": pods.iter().filter(|pod| is_new(pod)).count(),
            "readyReplicas": available, "availableReplicas": available,
        })
    }

    fn launch(&self, deployment: &Value) -> Topologist {
        let own = ["serve", "--kubeconfig", &self.kubeconfig, "--webhook-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"];
        // Shorter than in production, so that a story takes seconds.
        let times = ["--shutdown-grace=1s", "--lease-duration=3s", "--connection-age=300ms"];
        let mut start = command(&[&own[..], &times].concat());
        start.envs(variables(std::slice::from_ref(deployment))).env_remove("TOPOLOGIST_SHUTDOWN_GRACE");
        Topologist::launch(start)
    }

    fn stop(&self, mut pod: Pod) {
        pod.process.signal("TERM");
        let status = pod.process.wait();
        self.balancer.remove(&pod.process.webhook);
        let log = pod.process.log_text();
        assert!(status.success(), "{status}\n{log}");
        self.logs.lock().unwrap().push_str(&format!("--- ended\n{log}"));
    }
}
