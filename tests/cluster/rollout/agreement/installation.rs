//! Where a fleet runs: `serve --embedded`, or a real kube-apiserver with the binary as webhook and as reconciler.

use std::path::{Path, PathBuf};

use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::json;
use tempfile::TempDir;

use super::super::site::{CORE, MADE, api, bundle, text, without_conversion};
use super::normal::Normaliser;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, overlay, overlay_with, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait::SOON;
use crate::harness::{objects, quiet, wait};

/// The field of machine templates that has a default, in their schema.
const JITTER: &str = "/properties/spec/properties/template/properties/spec/properties/backend/properties/inMemory/properties/vm\
    /properties/provisioning/properties/startupJitter";

/// An API server with a reconciler.
pub(super) struct Installation {
    pub client: kube::Client,
    pub kubeconfig: PathBuf,
    /// For files of the fleet.
    pub folder: TempDir,
    reconciler: Topologist,
    /// What else has to run; none with `serve --embedded`, which is one process.
    real: Option<Real>,
}

/// What stands beside the reconciler on a real kube-apiserver.
struct Real {
    _webhook: Topologist,
    /// What changes the values of infrastructure and bootstrap objects as they are written.
    _normaliser: Normaliser,
    _kubernetes: Kubernetes,
}

/// All kinds that controllers of machines would look after.
const EXTERNAL: &str = "Cluster,MachineDeployment,MachineSet,Machine,MachinePool,MachineHealthCheck,EmbeddedCluster,\
    EmbeddedControlPlane,EmbeddedMachine,EmbeddedConfig,EmbeddedMachinePool";

impl Installation {
    pub(super) async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        // Machine deployments get their defaults, and the stories play all other controllers.
        let address = ["--embedded", "--external-kinds", EXTERNAL, "--api-addr", "127.0.0.1:0", "--state-dir"];
        let reconciler = Topologist::serve(&[&address[..], &[&*state.display().to_string()]].concat());
        reconciler.wait_until_ready();
        let kubeconfig = state.join("kubeconfig");
        let client = objects::client(&kubeconfig).await;
        let installation = Installation { client, kubeconfig, folder, reconciler, real: None };
        installation.change_definitions().await;
        installation
    }

    pub(super) async fn real() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubernetes = Kubernetes::start();
        kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
        let account = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        make_certificates(folder.path());
        let serve = |arguments: &[&str]| serve(&account, folder.path(), arguments);
        // It guards machine deployments as well, as Cluster API does.
        let webhook = serve(&["--lifecycle", "on"]);
        let authority = std::fs::read(folder.path().join("ca.crt")).unwrap();
        // Their versions are alike here, and one more is added: there is nothing to convert.
        let embedded = topologist::crd::embedded_provider().into_iter().map(without_conversion);
        let definitions = definitions_at(overlay("alone"), &webhook.conversions, &authority).into_iter();
        kubernetes.apply_yaml(&stream(&definitions.chain(embedded).collect::<Vec<_>>())).await;
        webhook.wait_until_ready();
        let manifests = overlay_with("alone", &["lifecycle"], &[]);
        kubernetes.apply_yaml(&stream(&webhooks_at(manifests, &webhook.webhook, &authority))).await;
        let normaliser = Normaliser::start(&kubernetes).await;
        // It stands still in every round, and is to lead all the same when it goes on.
        let mut reconciler = serve(&["--controllers", "all", "--lease-duration", "30m"]);
        reconciler.wait_for_log("Acquired the Lease");
        let (client, kubeconfig) = (kubernetes.client(), kubernetes.kubeconfig().to_owned());
        let real = Some(Real { _webhook: webhook, _normaliser: normaliser, _kubernetes: kubernetes });
        let installation = Installation { client, kubeconfig, folder, reconciler, real };
        installation.change_definitions().await;
        installation.webhooks_are_called().await;
        installation
    }

    /// Whether the reconciler can stand still while its API server goes on.
    pub(super) fn can_wait(&self) -> bool {
        self.real.is_some()
    }

    /// Whether a mutating webhook can normalise values.
    pub(super) fn has_webhooks(&self) -> bool {
        self.real.is_some()
    }

    /// What the reconciler has logged.
    pub(super) fn log(&self) -> String {
        self.reconciler.log_text()
    }

    /// Waits until the reconciler has seen all Clusters as they are now, and has nothing left to do.
    pub(super) async fn until_quiet(&self) {
        let clusters = objects::list(&api(&self.client, "", CORE, "Cluster")).await;
        for mut cluster in clusters {
            cluster["kind"] = json!("Cluster");
            quiet::until_quiet_async(&self.reconciler, &cluster).await;
        }
    }

    /// The reconciler writes nothing until it is told to go on.
    pub(super) fn hold(&self) {
        if self.can_wait() {
            self.reconciler.signal("STOP");
        }
    }

    pub(super) fn go_on(&self) {
        if self.can_wait() {
            self.reconciler.signal("CONT");
        }
    }

    /// Everything that topologies make is served in a second version, which has the same fields; and machine templates,
    /// those of classes included, have a default.
    async fn change_definitions(&self) {
        for (api_version, kind) in MADE.into_iter().chain([(CORE, "MachineHealthCheck")]) {
            let (group, version) = api_version.split_once('/').unwrap();
            let name = format!("{}s.{group}", kind.to_lowercase());
            let definitions = api(&self.client, "", "apiextensions.k8s.io/v1", "CustomResourceDefinition");
            let definition = serde_json::to_value(definitions.get(&name).await.unwrap()).unwrap();
            let mut versions = definition["spec"]["versions"].as_array().unwrap().clone();
            let stored = versions.iter_mut().find(|one| one["name"] == version).unwrap();
            if kind == "EmbeddedMachineTemplate" {
                stored["schema"]["openAPIV3Schema"].pointer_mut(JITTER).unwrap()["default"] = json!("0.1");
            }
            let mut other = stored.clone();
            (other["name"], other["storage"]) = (json!(other_version(version)), json!(false));
            versions.push(other);
            let patch = kube::api::Patch::Merge(json!({"spec": {"versions": versions}}));
            definitions.patch(&name, &kube::api::PatchParams::default(), &patch).await.unwrap();
            let other = api(&self.client, "", &format!("{group}/{}", other_version(version)), kind);
            until("the other version is served", async || other.list(&ListParams::default()).await.is_ok()).await;
        }
    }

    /// A configuration of webhooks takes a moment to be seen.
    async fn webhooks_are_called(&self) {
        let class = bundle("class.yaml").into_iter().find(|one| text(one, "/kind") == "ClusterClass").unwrap();
        let mut wrong = [class, bundle("cluster.yaml").remove(0)];
        wrong[0]["spec"]["controlPlane"]["templateRef"]["kind"] = json!("Wrong");
        wrong[1]["spec"]["topology"]["version"] = json!("wrong");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        for object in wrong {
            let api = api(&self.client, "default", CORE, &text(&object, "/kind"));
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            until("the webhooks are called", async || api.create(&dry, &object).await.is_err()).await;
        }
    }
}

/// The version beside the one that topologies use.
pub(super) fn other_version(version: &str) -> &'static str {
    if version == "v1beta1" { "v1beta2" } else { "v1beta1" }
}

fn serve(account: &Path, certificates: &Path, arguments: &[&str]) -> Topologist {
    let file = |name: &str| certificates.join(name).display().to_string();
    let (account, cert, key) = (account.display().to_string(), file("tls.crt"), file("tls.key"));
    let common = ["--kubeconfig", &account, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
    Topologist::serve(&[&common[..], arguments].concat())
}

/// Waits until something holds.
async fn until(fact: &str, holds: impl AsyncFn() -> bool) {
    wait::until_async(fact, SOON, holds, wait::nothing).await;
}
