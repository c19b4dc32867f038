//! Deletions that wait for the hook BeforeClusterDelete, which Cluster API's core manager does not do by itself after a
//! take-over.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::extension::Extension;
use super::site::{Machines, Site, cluster};
use super::stack::Stack;

const HOOK: &str = "BeforeClusterDelete";
const HOLD: &str = "topologist.dev/before-cluster-delete uid=";

/// A namespace whose Clusters wait for an extension before they are deleted.
struct Waiting {
    site: Site,
    extension: Extension,
}

impl Waiting {
    /// With settled Clusters of these names, each with a Machine of the control plane and a worker.
    async fn with(prefix: &str, names: &[&str]) -> (Self, Vec<Machines>) {
        let site = Stack::shared().await.site(prefix).await;
        let extension = Extension::start(&site).await;
        for name in names {
            let mut object = cluster(name, "v1.33.0", 1, &[("md-0", 1)]);
            object["metadata"]["annotations"] = json!({Extension::hold(HOOK): "true"});
            object["metadata"]["labels"] = json!({"story": name.trim_end_matches(char::is_numeric)});
            site.apply(&object);
        }
        let mut machines = Vec::new();
        for name in names {
            machines.push(site.settled(name).await);
        }
        (Waiting { site, extension }, machines)
    }

    fn cluster(&self, name: &str) -> Option<Value> {
        self.site.get(&format!("cluster/{name}"))
    }

    /// The value of the annotation that pauses a Cluster.
    fn paused(&self, name: &str) -> Option<String> {
        let cluster = self.cluster(name).unwrap();
        cluster["metadata"]["annotations"]["cluster.x-k8s.io/paused"].as_str().map(str::to_owned)
    }

    fn is_held(&self, name: &str) -> bool {
        let uid = self.cluster(name).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        self.paused(name).is_some_and(|value| value.starts_with(&format!("{HOLD}{uid} ")))
    }

    /// Sends a DELETE with these options, and returns the exit code and the message.
    fn delete_with(&self, name: &str, options: &Value) -> (i32, String) {
        let file = self.site.kubectl.folder.path().join(format!("{name}.json"));
        let mut all = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        std::fs::write(&file, all.to_string()).unwrap();
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters/{name}", self.site.namespace());
        let outcome = self.site.kubectl.run(&["delete", "--raw", &path, "-f", file.to_str().unwrap()]);
        (outcome.code, outcome.err)
    }

    /// Waits until the hook has been called this often from now on.
    async fn calls(&self, count: usize) {
        let called = || self.extension.called().iter().filter(|hook| *hook == HOOK).count();
        let before = called();
        self.site.until("the hook is called again and again", async || called() >= before + count).await;
    }

    /// Nothing of a Cluster has been deleted, nor is it being deleted.
    fn keeps_everything(&self, name: &str, machines: &Machines) {
        assert_eq!(self.site.machines(name), *machines, "{name}\n{}", self.site.state());
        for kind in ["machinedeployments", "machinesets", "kubeadmcontrolplanes", "devclusters", "devmachines"] {
            let all = self.site.list(kind, name);
            let leaving = all.iter().filter(|object| !object["metadata"]["deletionTimestamp"].is_null()).count();
            assert!(
                !all.is_empty() && leaving == 0,
                "{name}: {leaving} of {} {kind}\n{}",
                all.len(),
                self.site.state()
            );
        }
    }

    fn annotate(&self, name: &str, annotations: &[&str]) {
        self.site.kubectl.out(&[&["annotate", "--overwrite", "cluster", name], annotations].concat());
    }

    /// The extension no longer blocks.
    fn pass(&self, name: &str) {
        self.annotate(name, &[&format!("{}-", Extension::hold(HOOK))]);
    }

    async fn until_gone(&self, name: &str) {
        self.site.until(&format!("{name} is gone"), async || self.cluster(name).is_none()).await;
        assert!(self.site.machines(name).is_empty(), "{}", self.site.state());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_each_kind_of_request_a_deletion_waits_for_its_hook_and_then_ends() {
    // DEC-56
    let names = ["plain", "uid", "version", "foreground", "many1", "many2"];
    let (waiting, machines) = Waiting::with("deletions", &names).await;
    let site = &waiting.site;

    site.kubectl.out(&["delete", "cluster", "plain", "--dry-run=server"]);
    assert_eq!(waiting.paused("plain"), None, "a dry run holds nothing");
    let metadata = |name: &str| waiting.cluster(name).unwrap()["metadata"].clone();

    site.kubectl.out(&["delete", "cluster", "plain", "--wait=false"]);
    let uid = json!({"preconditions": {"uid": metadata("uid")["uid"]}});
    assert_eq!(waiting.delete_with("uid", &uid), (0, String::new()));
    let mut conflicts = String::new();
    for attempt in 1.. {
        let version = json!({"preconditions": {"resourceVersion": metadata("version")["resourceVersion"]}});
        let (code, message) = waiting.delete_with("version", &version);
        if code == 0 {
            break;
        }
        // The first conflict is ours; another controller may write the status at the same moment.
        assert!(message.contains("onflict") && attempt < 6, "{message}");
        let _ = writeln!(conflicts, "{message}");
    }
    assert!(waiting.is_held("version"), "{conflicts}");
    site.kubectl.out(&["delete", "cluster", "foreground", "--cascade=foreground", "--wait=false"]);
    let collection =
        format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters?labelSelector=story%3Dmany", site.namespace());
    site.kubectl.out(&["delete", "--raw", &collection]);

    for name in names {
        assert!(!metadata(name)["deletionTimestamp"].is_null() && waiting.is_held(name), "{name}\n{}", site.state());
    }
    waiting.calls(10 * names.len()).await;
    for (name, machines) in names.iter().zip(&machines) {
        waiting.keeps_everything(name, machines);
        assert!(waiting.is_held(name), "{name}");
    }
    names.iter().for_each(|name| waiting.pass(name));
    for name in names.into_iter().filter(|name| *name != "foreground") {
        waiting.until_gone(name).await;
    }
    // The garbage collector deletes all objects at once; the development provider cannot delete its machines then.
    let is_permitted = async || {
        let Some(cluster) = waiting.cluster("foreground") else { return true };
        cluster["metadata"]["annotations"]["runtime.cluster.x-k8s.io/ok-to-delete"].is_string()
            && !waiting.is_held("foreground")
    };
    site.until("the Cluster may be deleted in the foreground", is_permitted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_outlives_replacements_of_the_cluster_and_a_killed_leader() {
    // DEC-56
    let (waiting, machines) = Waiting::with("holds", &["one"]).await;
    let site = &waiting.site;
    site.kubectl.out(&["delete", "cluster", "one", "--wait=false"]);
    let mut replacement = waiting.cluster("one").unwrap();
    let metadata = replacement["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|member, _| matches!(member.as_str(), "name" | "namespace" | "finalizers" | "annotations" | "labels"));
    metadata["annotations"].as_object_mut().unwrap().remove("cluster.x-k8s.io/paused");
    // kubectl reads the version that it replaces, and a controller may write in between.
    let replace = async || {
        let outcome = site.kubectl.try_give(&replacement, &["replace"]);
        assert!(outcome.code == 0 || outcome.err.contains("the object has been modified"), "{outcome:#?}");
        outcome.code == 0
    };
    site.until("the Cluster is replaced", replace).await;
    assert!(waiting.is_held("one"), "kubectl replace\n{}", site.state());
    waiting.annotate("one", &["cluster.x-k8s.io/paused-"]);
    assert!(waiting.is_held("one"), "kubectl annotate\n{}", site.state());

    // A pause of the user stays as it is, and the hook is not called while it lasts.
    waiting.annotate("one", &["cluster.x-k8s.io/paused=by-me"]);
    waiting.pass("one");
    let condition = async || {
        let cluster = waiting.cluster("one").unwrap();
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "TopologyReconciled" && one["reason"] == "Paused")
    };
    site.until("the pause of the user is reported", condition).await;
    assert_eq!(waiting.paused("one").as_deref(), Some("by-me"));
    waiting.keeps_everything("one", &machines[0]);
    waiting.annotate("one", &[&format!("{}=true", Extension::hold(HOOK)), "cluster.x-k8s.io/paused-"]);
    assert!(waiting.is_held("one"), "{}", site.state());

    site.stack.replace_topologist().await;
    assert!(waiting.is_held("one"));
    waiting.calls(3).await;
    waiting.keeps_everything("one", &machines[0]);
    waiting.pass("one");
    waiting.until_gone("one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_ends_when_the_deletion_is_denied_and_when_hooks_are_skipped() {
    // DEC-56
    let (waiting, machines) = Waiting::with("released", &["denied", "skipped"]).await;
    let site = &waiting.site;
    let denying = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": format!("denies-{}", site.namespace())},
        "webhooks": [{
            "name": "denies.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace()}},
            "objectSelector": {"matchLabels": {"story": "denied"}},
            "rules": [{"apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["v1beta2"], "operations": ["DELETE"],
                "resources": ["clusters"]}],
        }],
    });
    site.apply(&denying);
    // Until the API server knows the webhook, a dry run is allowed.
    let is_denied = async || site.kubectl.run(&["delete", "cluster", "denied", "--dry-run=server"]).code != 0;
    site.until("the other webhook denies the deletion", is_denied).await;
    let outcome = site.kubectl.run(&["delete", "cluster", "denied", "--wait=false"]);
    assert!(outcome.code != 0 && outcome.err.contains("denies.example.com"), "{outcome:#?}");
    assert!(waiting.is_held("denied"), "the hold comes before the answer of the other webhook");
    site.until("the hold is dropped", async || waiting.paused("denied").is_none()).await;
    assert_eq!(site.settled("denied").await, machines[0]);

    site.kubectl.out(&["delete", "cluster", "skipped", "--wait=false"]);
    waiting.calls(3).await;
    waiting.keeps_everything("skipped", &machines[1]);
    waiting.annotate("skipped", &["unsafe.topologist.dev/skip-delete-hooks="]);
    waiting.until_gone("skipped").await;
    site.kubectl.out(&["delete", "validatingwebhookconfiguration", &format!("denies-{}", site.namespace())]);
}
