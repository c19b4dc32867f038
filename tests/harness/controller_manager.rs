//! A real kube-controller-manager for a kube-apiserver of the tests.
//!
//! ```text
//!  test process ── pipe ──► tests/kubernetes/attend ──► kube-controller-manager ──► kube-apiserver
//!                                   end of file: kill it
//! ```
//!
//! It runs three controllers: the garbage collector, the one that empties namespaces that are being deleted, and the
//! one that fills aggregated ClusterRoles. They act on every namespace, so start it for a kube-apiserver that other
//! tests do not use: their objects may name owners that do not exist. The garbage collector looks for new kinds every
//! 30 seconds, so define all kinds before it starts.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::kubernetes::Kubernetes;
use super::programs;

/// How long the start may take on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(100);

/// A running kube-controller-manager; dropping it, or ending the process in whatever way, stops it.
pub struct ControllerManager {
    attendant: Mutex<Child>,
    folder: tempfile::TempDir,
}

impl ControllerManager {
    /// Starts it as the administrator, and waits until it collects garbage.
    pub async fn start(kubernetes: &Kubernetes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("bash");
        command.arg(programs::scripts().join("attend")).arg(program()).args(arguments(kubernetes.kubeconfig()));
        // In a process group of its own, so that Ctrl-C ends the tests and leaves the script to clean up.
        command.process_group(0).stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
        let attendant = command.spawn().expect("tests/kubernetes/attend starts");
        let started = ControllerManager { attendant: Mutex::new(attendant), folder };
        started.collects_garbage(kubernetes.client(), "default").await;
        started
    }

    /// Makes an object whose owner does not exist, and waits until it is deleted.
    pub async fn collects_garbage(&self, client: kube::Client, namespace: &str) {
        let objects: Api<ConfigMap> = Api::namespaced(client, namespace);
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"});
        let garbage = json!({"metadata": {"generateName": "garbage-", "ownerReferences": [owner]}});
        let garbage: ConfigMap = serde_json::from_value(garbage).unwrap();
        let name = objects.create(&PostParams::default(), &garbage).await.unwrap().metadata.name.unwrap();
        let started = Instant::now();
        while objects.get_opt(&name).await.unwrap().is_some() {
            let ended = self.attendant.lock().unwrap().try_wait().unwrap();
            let is_late = started.elapsed() > START_LIMIT;
            assert!(ended.is_none() && !is_late, "kube-controller-manager collects no garbage:\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// What it has logged, for the message of a failing test.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        let attendant = self.attendant.get_mut().unwrap();
        drop(attendant.stdin.take());
        let _ = attendant.wait();
    }
}

/// It serves on no port. Without the rates, emptying a namespace of a few objects takes ten seconds.
fn arguments(kubeconfig: &Path) -> Vec<String> {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let others = [
        "--controllers=garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=500",
    ];
    [kubeconfig].into_iter().chain(others.map(str::to_owned)).collect()
}

/// kube-controller-manager, built if need be.
fn program() -> PathBuf {
    programs::folder("controller-manager").join("kube-controller-manager")
}
