//! Edits that replace machines are held by a ceiling also where they cannot be computed, or where an earlier edit has
//! changed what they release (DEC-59). Each story counts Machines of the embedded controllers by uid.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::kubectl::Outcome;
use crate::machines::server::{TestServer, cluster, deployment, workers};

mod released;
mod timed;
mod unknown;

const APPROVAL: &str = "topologist.dev/approved-impact";
const CLASS: &str = "clusterclass/swift";

/// A Cluster with 1 + 2 machines, on a server whose ceiling is one machine.
struct Fleet {
    server: TestServer,
}

impl Fleet {
    fn start() -> Self {
        Self::start_with(&cluster(1, &json!([workers("a", 2)]), &json!([])))
    }

    fn start_with(cluster: &Value) -> Self {
        // A debug build is slow.
        let server = TestServer::start(&["--max-replaced-machines", "1", "--impact-time", "20s"]);
        server.run_cluster(cluster);
        server.wait("machinedeployments --all", "jsonpath={.status.upToDateReplicas}=2");
        Fleet { server }
    }

    fn stored(&self, object: &str) -> Value {
        let mut stored: Value = serde_json::from_str(&self.server.kubectl.out(&["get", object, "-o", "json"])).unwrap();
        let metadata = stored["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
        stored
    }

    /// Replaces a stored object by one that is edited.
    fn edit(&self, object: &str, edit: impl Fn(&mut Value)) -> Outcome {
        loop {
            let mut edited = self.stored(object);
            edit(&mut edited);
            let outcome = self.server.kubectl.try_give(&edited, &["replace"]);
            // A controller may write the object between the two requests.
            if !outcome.err.contains("the object has been modified") {
                return outcome;
            }
        }
    }

    /// The answer to an edit that is not stored.
    fn dry_run(&self, object: &str, edit: impl Fn(&mut Value)) -> Outcome {
        let mut edited = self.stored(object);
        edit(&mut edited);
        self.server.kubectl.try_give(&edited, &["replace", "--dry-run=server"])
    }

    /// The same edit with an approval.
    fn approve(&self, object: &str, approval: &str, edit: impl Fn(&mut Value)) {
        self.edit(object, |edited| {
            edit(edited);
            edited["metadata"]["annotations"][APPROVAL] = json!(approval);
        })
        .unwrap();
    }

    /// The uids of Machines, of a worker set or of the control plane.
    fn machines(&self, set: &str) -> BTreeSet<String> {
        let machines = self.server.list("machines").into_iter().filter(|machine| deployment(machine) == set);
        machines.map(|machine| machine["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a set has as many Machines as before, and none of them.
    fn until_replaced(&self, set: &str, before: &BTreeSet<String>) {
        self.server.until("all machines are replaced", || {
            let now = self.machines(set);
            now.len() == before.len() && now.is_disjoint(before)
        });
    }
}

/// The message of an edit that the ceiling denies.
#[track_caller]
fn held(outcome: &Outcome) -> String {
    let is_invalid = outcome.err.contains("is invalid: metadata.annotations[topologist.dev/approved-impact]");
    assert!(outcome.code != 0 && is_invalid, "{outcome:#?}");
    outcome.err.clone()
}

/// The class with other files on its workers.
fn greets(class: &mut Value, greeting: &str) {
    let template = format!("path: /etc/motd\ncontent: {greeting}\n");
    class["spec"]["patches"][0]["definitions"][0]["jsonPatches"][0]["valueFrom"] = json!({"template": template});
}
