//! Certificates that topologist makes itself, in front of an API server that calls it by its Service.
//!
//! ```text
//!  kube-apiserver ──► Service (an ExternalName: localhost) ──► Balancer ──► replicas of the binary
//!        ▲                                                                    │
//!        └──────────────── Secret, caBundles, Lease ◄─────────────────────────┘
//! ```

use std::process::Command;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::harness::balancer::Balancer;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay, permissions, stream};
use crate::harness::server::{Topologist, serving};
use crate::harness::wait;
use crate::load::{CLASS, Load, bad, clusters, dry, good, until};

const NAMESPACE: &str = "topologist-system";

/// An API server with everything that is applied before topologist runs.
pub(crate) struct Site {
    /// Fields end in this order: replicas first, so that none outlives its API server.
    pub(crate) replicas: Vec<Topologist>,
    balancer: Balancer,
    kubeconfig: String,
    pub(crate) kubernetes: Kubernetes,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let kubernetes = Kubernetes::start();
        let balancer = Balancer::start();
        let objects = overlay("alone");
        let of_kind = |kind: &str| -> Vec<Value> {
            objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with(kind)).cloned().collect()
        };
        kubernetes.apply_yaml(&stream(&of_kind("CustomResourceDefinition"))).await;
        kubernetes.apply_yaml(&stream(&permissions(objects.clone()))).await;
        kubernetes.apply_yaml(CLASS).await;
        // There is nothing behind Services where only an API server runs, except behind those with a name from outside.
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "topologist", "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let port: u16 = balancer.address.rsplit(':').next().unwrap().parse().unwrap();
        let mut configurations = of_kind("WebhookConfiguration");
        for webhook in configurations.iter_mut().flat_map(|object| object["webhooks"].as_array_mut().unwrap()) {
            webhook["clientConfig"]["service"]["port"] = json!(port);
        }
        configurations.push(service);
        kubernetes.apply_yaml(&stream(&configurations)).await;
        let kubeconfig = kubernetes.service_account_kubeconfig(NAMESPACE, "topologist").await;
        Site { replicas: Vec::new(), balancer, kubeconfig: kubeconfig.display().to_string(), kubernetes }
    }

    fn serve(&mut self, more: &[&str]) {
        self.serve_where(more, |_| {});
    }

    /// Starts a replica as a test wants its process to be.
    pub(crate) fn serve_where(&mut self, more: &[&str], change: impl FnOnce(&mut Command)) {
        let mut arguments = vec!["--kubeconfig", &*self.kubeconfig, "--manage-certificates"];
        arguments.extend(["--lease-duration", "3s", "--shutdown-grace", "1s", "--connection-age", "300ms"]);
        arguments.extend(more);
        let mut command = serving(&arguments);
        change(&mut command);
        self.replicas.push(Topologist::launch(command));
    }

    /// Sends connections to the newest replica once it is ready.
    pub(crate) fn use_newest(&self) {
        let newest = self.replicas.last().unwrap();
        self.balancer.add(&newest.webhook, &newest.admin);
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.kubernetes.client(), NAMESPACE)
    }

    pub(crate) async fn secret(&self, key: &str) -> Option<String> {
        let secret = self.secrets().get_opt("topologist-certificates").await.unwrap()?;
        Some(String::from_utf8(secret.data?.remove(key)?.0).unwrap())
    }

    /// The caBundle of every webhook.
    async fn bundles(&self) -> Vec<String> {
        use base64::Engine as _;
        let mut all = Vec::new();
        for kind in CONFIGURATIONS {
            let object = configurations(&self.kubernetes, kind).get("topologist").await.unwrap();
            for webhook in object.data["webhooks"].as_array().unwrap() {
                let bundle = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
                let bundle = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap();
                all.push(String::from_utf8(bundle).unwrap());
            }
        }
        all
    }

    /// Waits until the guard answers through the Service.
    pub(crate) async fn until_guarded(&self) {
        let clusters = clusters(&self.kubernetes);
        let probe =
            async || (clusters.create(&dry(), &good("probe")).await, clusters.create(&dry(), &bad("probe")).await);
        let is_guarded = async || matches!(probe().await, (Ok(_), Err(kube::Error::Api(status))) if status.code == 422);
        let state = async || format!("{:?}\n{}", probe().await, self.logs());
        wait::until_async("the guard answers through the Service", wait::SOON, is_guarded, state).await;
    }

    pub(crate) fn logs(&self) -> String {
        self.replicas.iter().map(|replica| format!("---\n{}", replica.log_text())).collect()
    }

    /// How often the replicas together did something.
    pub(crate) fn actions(&self, action: &str) -> u64 {
        let name = format!("topologist_certificate_actions_total{{action=\"{action}\"}}");
        let counts = self.replicas.iter().filter_map(|replica| replica.metric(&name));
        counts.map(|count| format!("{count}").parse::<u64>().unwrap()).sum()
    }
}

const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

fn configurations(kubernetes: &Kubernetes, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    Api::all_with(kubernetes.client(), &ApiResource::from_gvk(&gvk))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_installation_without_a_certificate_creates_one_and_maintains_its_bundles() {
    let mut site = Site::start().await;
    for _ in 0..2 {
        site.serve(&[]);
        site.use_newest();
    }
    site.until_guarded().await;
    let authority = site.secret("ca.crt").await.unwrap();
    assert!(site.bundles().await.iter().all(|bundle| *bundle == authority));
    let secret = site.secrets().get("topologist-certificates").await.unwrap();
    let mut keys: Vec<_> = secret.data.unwrap().into_keys().collect();
    keys.sort();
    assert_eq!(keys, ["ca.crt", "ca.key", "tls.crt", "tls.key"]);
    assert_eq!(site.actions("make_all"), 1, "one of them leads");
    for replica in &site.replicas {
        let expiry = replica.metric("topologist_tls_certificate_expiry_timestamp_seconds").unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((89.0..91.0).contains(&((expiry - now) / 86_400.0)), "{expiry}");
    }

    // Somebody's tool puts back what it knows.
    for (kind, bundle) in CONFIGURATIONS.into_iter().zip(["", "bm90aGluZw=="]) {
        let wiped = json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
        let wiped: json_patch::Patch = serde_json::from_value(wiped).unwrap();
        let api = configurations(&site.kubernetes, kind);
        // A bundle that is no certificate is not accepted by every version of the API server.
        let _ = api.patch("topologist", &PatchParams::default(), &Patch::Json::<()>(wiped)).await;
    }
    let are_back = async || site.bundles().await.iter().all(|bundle| *bundle == authority);
    wait::until_async("wiped bundles are written again", wait::SOON, are_back, async || site.logs()).await;
    site.until_guarded().await;
    assert_eq!(site.secret("ca.crt").await.unwrap(), authority, "the authority is the same");
    assert!(!site.logs().contains("forbidden"), "{}", site.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_lost_while_certificates_and_authorities_are_replaced() {
    let lifetimes = ["--certificate-lifetime", "12s", "--ca-lifetime", "27s"];
    let mut site = Site::start().await;
    for _ in 0..2 {
        site.serve(&lifetimes);
        site.use_newest();
    }
    site.until_guarded().await;
    let load = Load::start(|| clusters(&site.kubernetes));
    until("an authority is replaced", || site.actions("settle_former_authorities") >= 1).await;

    // The Secret goes away, and all of it is made anew; those who serve go on with what they have.
    let before = site.secret("ca.crt").await;
    site.secrets().delete("topologist-certificates", &DeleteParams::default()).await.unwrap();
    let made = site.actions("make_authority");
    until("another authority is made", || site.actions("make_authority") > made).await;
    assert_ne!(site.secret("ca.crt").await, before);

    // The leader goes; another goes on, whatever was under way.
    let leads = |replica: &Topologist| replica.metric("topologist_leader") == Some(1.0);
    let leader = site.replicas.iter().position(leads).unwrap();
    let mut former = site.replicas.remove(leader);
    former.signal("TERM");
    assert_eq!(former.wait().code(), Some(0), "{}", former.log_text());
    site.balancer.remove(&former.webhook);
    let settled = site.actions("settle_former_authorities");
    until("another leader replaces an authority", || site.actions("settle_former_authorities") >= settled + 2).await;

    load.more(50).await;
    let lost = load.stop().await;
    assert!(lost.is_empty(), "{lost:#?}\n{}\n---{}", site.logs(), former.log_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_secret_without_the_managed_label_is_not_changed_until_it_gets_the_label() {
    let mut site = Site::start().await;
    let metadata = ObjectMeta { name: Some("topologist-certificates".to_owned()), ..ObjectMeta::default() };
    let theirs = Secret { metadata, ..Secret::default() };
    let theirs = site.secrets().create(&PostParams::default(), &theirs).await.unwrap();
    site.serve(&[]);
    let replica = site.replicas.last_mut().unwrap();
    let line = replica.wait_for_log("Failed to manage certificates, retrying");
    assert!(line["error"].as_str().unwrap().contains("topologist.dev/managed-certificates"), "{line}");
    let (code, reason) = replica.admin_get("/readyz");
    assert_eq!(code, 503);
    assert!(reason.contains("no serving certificate: Secret topologist-system/topologist-certificates"), "{reason}");
    let now = site.secrets().get("topologist-certificates").await.unwrap();
    assert_eq!(now.metadata.resource_version, theirs.metadata.resource_version);
    let label = json!({"metadata": {"labels": {"topologist.dev/managed-certificates": "true"}}});
    let params = PatchParams::default();
    site.secrets().patch("topologist-certificates", &params, &Patch::Merge(label)).await.unwrap();
    site.use_newest();
    site.until_guarded().await;
}
