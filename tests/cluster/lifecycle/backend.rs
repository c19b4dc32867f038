//! Where the stories about machines run here: a namespace of their own, and a process that looks at this namespace
//! alone.

use std::path::{Path, PathBuf};

use serde_json::Value;
use topologist::yaml;

use super::both::server::fixture;
use super::server::Shared;
use super::story::nothing_was_forbidden;
use crate::harness::kubectl::Kubectl;
use crate::harness::server::Topologist;

/// The classes of the stories; the others have kinds that are not defined.
const CLASSES: [&str; 2] = ["older.yaml", "swift.yaml"];

/// A process with a namespace.
pub struct Backend {
    pub topologist: Topologist,
    pub kubeconfig: PathBuf,
    pub namespace: String,
}

impl Backend {
    /// The classes of the stories in a new namespace, and a process with the timings of a file in a folder.
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        // The story may be in a runtime, which cannot wait for another one.
        std::thread::scope(|scope| scope.spawn(|| block_on(Self::begin(folder, more))).join().unwrap())
    }

    async fn begin(folder: &Path, more: &[&str]) -> Self {
        let shared = Shared::get().await;
        let kubernetes = &shared.installation.kubernetes;
        let namespace = kubernetes.namespace("machines").await;
        let timings = folder.join("timings.yaml").display().to_string();
        let topologist =
            shared.installation.start_within(&namespace, &[&["--timings", &timings][..], more].concat()).await;
        let backend = Backend { topologist, kubeconfig: kubernetes.kubeconfig().to_owned(), namespace };
        let kubectl = Kubectl::within(backend.kubeconfig.clone(), backend.namespace.clone());
        kubectl.with_input(&CLASSES.map(|name| backend.objects(name)).concat(), &["create", "-f", "-"]).unwrap();
        backend.topologist.wait_until_ready();
        backend
    }

    /// The objects of a fixture, in the namespace.
    fn objects(&self, name: &str) -> String {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        let all = yaml::documents(&text).into_iter().map(|document| document.unwrap().value);
        let within = |mut object: Value| {
            object["metadata"]["namespace"] = self.namespace.clone().into();
            format!("{object}\n---\n")
        };
        all.map(within).collect()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            nothing_was_forbidden(&self.topologist);
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
