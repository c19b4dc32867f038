//! A cluster with topologist in it, and a shell for what the guide prints.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use topologist::{crd, yaml};

use super::guide;
use super::nodes::Nodes;
use crate::harness::balancer::Balancer;
use crate::harness::kubectl::{self, Kubectl};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay, stream};
use crate::harness::wait;

pub(super) const NAMESPACE: &str = "topologist-system";
const TENANT: &str = "team-a";

/// What must be denied.
pub(super) const WRONG: &str = r#"{"spec":{"topology":{"version":"latest"}}}"#;

/// What kubectl says then.
const DENIED: &str = "spec.topology.version: Invalid value";

/// Fields end in this order: pods first, so that none outlives its API server.
pub(super) struct Site {
    pub nodes: Nodes,
    /// In the namespace of the tenant.
    pub kubectl: Kubectl,
    /// In the namespace of topologist.
    pub operator: Kubectl,
    folder: tempfile::TempDir,
    kubernetes: Kubernetes,
}

impl Site {
    /// An installation of the overlay `alone`, with the class `base` and its Clusters `one` and `two`, whose objects
    /// are made.
    pub(super) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// The same, with more variables in the Deployment.
    pub(super) async fn with(settings: &[&str]) -> Self {
        let kubernetes = Kubernetes::start();
        let balancer = Arc::new(Balancer::start());
        let folder = tempfile::tempdir().unwrap();
        write_manifests(folder.path(), &balancer.address);
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(kubectl::program(), bin.join("kubectl")).unwrap();
        symlink(env!("CARGO_BIN_EXE_topologist"), bin.join("topologist")).unwrap();
        let is_embedded =
            |definition: &Value| definition["spec"]["group"].as_str().unwrap().ends_with("topologist.dev");
        let definitions: Vec<_> = crd::definitions().into_iter().filter(is_embedded).collect();
        kubernetes.apply_yaml(&stream(&definitions)).await;
        let kubectl = Kubectl::within(kubernetes.kubeconfig().to_owned(), TENANT.to_owned());
        let manifests = folder.path().join("manifests/overlays/alone").display().to_string();
        let operator = Kubectl::within(kubernetes.kubeconfig().to_owned(), NAMESPACE.to_owned());
        operator.out(&["apply", "-k", &manifests]);
        for setting in settings {
            operator.out(&["set", "env", "deployment/topologist", setting]);
        }
        let kubeconfig = kubernetes.service_account_kubeconfig(NAMESPACE, "topologist").await;
        let client = kubernetes.client_maker();
        let nodes = Nodes::start(client, kubeconfig.display().to_string(), balancer);
        let site = Site { nodes, kubectl, operator, folder, kubernetes };
        site.until("the guard answers", || site.denies_what_is_wrong_in("default"));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}});
        let class = bundle("class.yaml");
        let clusters = ["one", "two"].map(|name| {
            let mut cluster = bundle("cluster.yaml").remove(0);
            cluster["metadata"]["name"] = json!(name);
            cluster["spec"]["topology"]["classRef"]["name"] = json!("base");
            cluster
        });
        let objects: Vec<Value> = [namespace].into_iter().chain(class).chain(clusters).collect();
        site.kubernetes.apply_yaml(&stream(&objects)).await;
        site.until("the objects of Cluster one are there", || site.deployments("one").len() == 2);
        site.until("the objects of Cluster two are there", || site.deployments("two").len() == 2);
        site
    }

    /// The commands of a part of the guide.
    pub(super) fn guide(&self, heading: &str) -> Guide<'_> {
        let mut blocks = guide::blocks(heading);
        blocks.reverse();
        Guide { site: self, blocks }
    }

    /// Waits until something holds.
    #[track_caller]
    pub(super) fn until(&self, fact: &str, holds: impl FnMut() -> bool) {
        // All of it may have to start again meanwhile, on a busy machine.
        wait::until(fact, wait::ROLLOUT, holds, || format!("{:?}\n{}", self.refusal(), self.nodes.logs()));
    }

    /// Whether the guard denies a Cluster that is wrong.
    fn denies_what_is_wrong_in(&self, namespace: &str) -> bool {
        let wrong = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "wrong", "namespace": namespace},
            "spec": {"topology": {"classRef": {"name": "base"}, "version": "latest"}}});
        let outcome = self.kubectl.try_give(&wrong, &["create", "--dry-run=server", "-n", namespace]);
        outcome.code != 0 && outcome.err.contains(DENIED)
    }

    /// What a wrong change of Cluster one is answered with, if it is refused.
    pub(super) fn refusal(&self) -> Option<String> {
        let outcome = self.kubectl.run(&["patch", "cluster", "one", "--dry-run=server", "--type=merge", "-p", WRONG]);
        (outcome.code != 0).then_some(outcome.err)
    }

    /// Whether the guard judges.
    pub(super) fn is_guarded(&self) -> bool {
        self.refusal().is_some_and(|words| words.contains(DENIED) || words.contains("denied the request"))
    }

    /// Applies the overlay.
    pub(super) fn apply(&self) {
        let manifests = self.folder.path().join("manifests/overlays/alone").display().to_string();
        self.operator.out(&["apply", "-k", &manifests]);
    }

    /// Takes the Lease away from the replicas for good: they may not renew it, and another process holds it for a day.
    pub(super) fn lose_the_leader(&self) {
        self.operator.out(&["delete", "rolebinding", "topologist-leader"]);
        let holder = r#"{"spec":{"holderIdentity":"gone","leaseDurationSeconds":86400}}"#;
        self.operator.out(&["patch", "lease", "topologist", "--type=merge", "-p", holder]);
        self.until("no replica leads", || !self.nodes.any(|pod| pod.metric("topologist_leader") == Some(1.0)));
    }

    /// Whether the authority in the Secret is no longer valid.
    pub(super) fn authority_has_expired(&self) -> bool {
        let authority = self.operator.field("secret/topologist-certificates", r".data.ca\.crt");
        let pem = STANDARD.decode(authority).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
        !pem.parse_x509().unwrap().validity().is_valid()
    }

    /// Names of the worker sets of a Cluster in its topology.
    pub(super) fn workers(&self, cluster: &str) -> String {
        self.kubectl.field(&format!("cluster/{cluster}"), ".spec.topology.workers.machineDeployments[*].name")
    }

    /// The MachineDeployments of a Cluster by the names of their worker sets, with their replicas.
    pub(super) fn deployments(&self, cluster: &str) -> Vec<(String, u64)> {
        let selector = format!("cluster.x-k8s.io/cluster-name={cluster}");
        let outcome = self.kubectl.run(&["get", "machinedeployments", "-l", &selector, "-o", "json"]);
        let Ok(list) = serde_json::from_str::<Value>(&outcome.out) else { return Vec::new() };
        let set = |item: &Value| {
            let name = item["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"].as_str().unwrap();
            (name.to_owned(), item["spec"]["replicas"].as_u64().unwrap())
        };
        let mut all: Vec<_> = list["items"].as_array().unwrap().iter().map(set).collect();
        all.sort();
        all
    }

    /// Replicas of the control plane object of a Cluster.
    pub(super) fn control_plane(&self, cluster: &str) -> String {
        let selector = format!("cluster.x-k8s.io/cluster-name={cluster}");
        let path = "jsonpath={.items[*].spec.replicas}";
        self.kubectl.out(&["get", "embeddedcontrolplanes", "-l", &selector, "-o", path])
    }

    /// Whether a Cluster is being deleted, or gone.
    pub(super) fn is_deleted(&self, cluster: &str) -> bool {
        let outcome = self.kubectl.run(&["get", "cluster", cluster, "-o", "jsonpath={.metadata.deletionTimestamp}"]);
        outcome.err.contains("not found") || !outcome.out.is_empty()
    }

    /// Whether a Cluster is gone.
    pub(super) fn is_gone(&self, cluster: &str) -> bool {
        self.kubectl.run(&["get", "cluster", cluster]).err.contains("not found")
    }

    /// Runs a block in one shell; returns code and output of each command.
    fn shell(&self, commands: &[guide::Command]) -> Vec<(i32, String)> {
        let folder = self.folder.path();
        let script: String = commands
            .iter()
            .enumerate()
            .map(|(i, command)| format!("{{ {}\n}} >out.{i} 2>&1; echo $? >code.{i}\n", command.text))
            .collect();
        let mut bash = Command::new("timeout");
        bash.args(["300", "bash", "-c", &script]).current_dir(folder).stdin(Stdio::null());
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
        bash.env("PATH", path).env("KUBECONFIG", self.kubernetes.kubeconfig()).env("HOME", folder);
        bash.env("KUBECTL_KUBERC", "false").env("KUBECACHEDIR", folder.join("cache"));
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            bash.env_remove(name);
        }
        assert!(bash.status().unwrap().success(), "{script}\n{}", self.nodes.logs());
        let read = |name: String| fs::read_to_string(folder.join(name)).unwrap();
        (0..commands.len())
            .map(|i| (read(format!("code.{i}")).trim().parse().unwrap(), read(format!("out.{i}"))))
            .collect()
    }
}

/// What is left to run of a part of the guide.
pub(super) struct Guide<'a> {
    site: &'a Site,
    blocks: Vec<Vec<guide::Command>>,
}

impl Guide<'_> {
    /// Runs the next block, which has to contain these words, and compares with what it prints.
    #[track_caller]
    pub(super) fn next(&mut self, words: &str) {
        let block = self.blocks.pop().expect("the guide has another block");
        assert!(block.iter().any(|command| command.text.contains(words)), "{words:?} is not in {block:#?}");
        for (command, (code, out)) in block.iter().zip(self.site.shell(&block)) {
            let reported = || format!("$ {}\n{out}\n(code {code})\n{}", command.text, self.site.nodes.logs());
            assert_eq!(code != 0, command.is_refused(), "{}", reported());
            assert!(command.prints.iter().all(|line| guide::has(&out, line)), "{:?}\n{}", command.prints, reported());
        }
    }

    /// Everything of this part was run.
    #[track_caller]
    pub(super) fn ends(self) {
        assert!(self.blocks.is_empty(), "never run: {:#?}", self.blocks);
    }
}

/// The overlay `alone` in a folder as in the repository, with Services that lead out of the cluster: there is nothing
/// behind others where only an API server runs.
fn write_manifests(folder: &Path, address: &str) {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let mut objects = overlay("alone");
    for object in &mut objects {
        match object["kind"].as_str().unwrap() {
            "Service" => object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"}),
            "CustomResourceDefinition" => {
                if let Some(service) = object.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
                    service["port"] = json!(port);
                }
            }
            kind if kind.ends_with("WebhookConfiguration") => {
                for webhook in object["webhooks"].as_array_mut().unwrap() {
                    webhook["clientConfig"]["service"]["port"] = json!(port);
                }
            }
            _ => {}
        }
    }
    let folder = folder.join("manifests/overlays/alone");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("all.yaml"), stream(&objects)).unwrap();
    fs::write(folder.join("kustomization.yaml"), "resources: [all.yaml]\n").unwrap();
}

/// The objects of a file of the bundle for the embedded provider, in the namespace of the tenant; its class is called
/// `base`.
fn bundle(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(name);
    let text = fs::read_to_string(path).unwrap();
    let mut objects: Vec<Value> = yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect();
    for object in &mut objects {
        object["metadata"]["namespace"] = json!(TENANT);
        if object["kind"] == "ClusterClass" {
            object["metadata"]["name"] = json!("base");
        }
    }
    objects
}
