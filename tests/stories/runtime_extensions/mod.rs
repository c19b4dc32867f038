//! Runtime Extensions of a server: real HTTPS between the embedded API with its controllers and an extension.

mod api_versions;
mod discovery;
mod example;
mod go;
mod hooks;
mod offline;
mod patches;
mod plans;
mod variables;

use serde_json::{Value, json};

use crate::harness::extension::TestExtension;
use crate::machines::server::{TestServer, condition};

/// A server without Clusters, and an extension without handlers.
struct Site {
    server: TestServer,
    lab: TestExtension,
}

impl Site {
    fn start() -> Self {
        Site { server: TestServer::start(&[]), lab: TestExtension::start() }
    }

    /// Registers the extension as `lab`, and waits until it is discovered.
    fn register(&self, more: &Value) {
        self.server.kubectl.give(&self.lab.config("lab", more), &["create"]);
        self.server.wait("extensionconfig/lab", "condition=Discovered");
    }

    /// Adds external patches to the class.
    fn patch_class(&self, more: &[(&str, Value)]) {
        let class = self.class();
        let mut patches = class["spec"]["patches"].as_array().unwrap().clone();
        patches.extend(more.iter().map(|(name, external)| json!({"name": name, "external": external})));
        self.server.merge("clusterclass/swift", &json!({"spec": {"patches": patches}}));
        // The webhook judges Clusters by a class that its controller has seen.
        self.server.until("the class is reconciled", || {
            let class = self.class();
            let is_ready = condition(&class, "VariablesReady").0 == "True";
            is_ready && class["status"]["observedGeneration"] == class["metadata"]["generation"]
        });
    }

    fn class(&self) -> Value {
        serde_json::from_str(&self.server.kubectl.out(&["get", "clusterclass/swift", "-o", "json"])).unwrap()
    }

    fn cluster(&self) -> Value {
        serde_json::from_str(&self.server.kubectl.out(&["get", "cluster/demo", "-o", "json"])).unwrap()
    }

    fn config(&self) -> Value {
        serde_json::from_str(&self.server.kubectl.out(&["get", "extensionconfig/lab", "-o", "json"])).unwrap()
    }

    /// Waits until a condition of the Cluster has this reason and these words.
    #[track_caller]
    fn wait_for(&self, kind: &str, reason: &str, words: &str) {
        let is_so = || {
            let cluster = self.cluster();
            condition(&cluster, kind).1 == reason && message(&cluster, kind).contains(words)
        };
        self.server.until(&format!("{kind} has the reason {reason} and says {words:?}"), is_so);
    }
}

/// The message of a condition of an object.
fn message(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    found["message"].as_str().unwrap_or_default().to_owned()
}
