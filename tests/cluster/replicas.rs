//! What callers notice of it when replicas change: certificates, restarts, and a sudden death.
//!
//! ```text
//!  workers ──dry runs──► kube-apiserver ──► Balancer ──► replicas of the binary
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kube::api::{Api, DynamicObject};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::balancer::Balancer;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_and_permissions, overlay, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;
use crate::load::{CLASS, Load, ask, clusters, dry, good, until};

/// Replicas behind a balancer, and an API server that asks them.
struct Fleet {
    /// Fields end in this order: replicas first, so that none outlives its API server.
    replicas: Vec<Topologist>,
    balancer: Balancer,
    folder: TempDir,
    kubeconfig: String,
    more: Vec<&'static str>,
    /// How often the configurations were written.
    turns: AtomicUsize,
    kubernetes: Kubernetes,
}

impl Fleet {
    /// Two replicas with these arguments on top, asked about every Cluster of the namespace `default`.
    async fn start(more: &[&'static str]) -> Self {
        let kubernetes = Kubernetes::start();
        let objects = overlay("alone");
        kubernetes.apply_yaml(&stream(&definitions_and_permissions(objects))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let kubeconfig = kubeconfig.to_str().unwrap().to_owned();
        let balancer = Balancer::start();
        let (replicas, more, turns) = (Vec::new(), more.to_vec(), AtomicUsize::default());
        let mut fleet = Fleet { replicas, balancer, folder, kubeconfig, more, turns, kubernetes };
        fleet.add_replica();
        fleet.add_replica();
        fleet.kubernetes.apply_yaml(CLASS).await;
        fleet.trust(&authority(fleet.folder.path())).await;
        fleet
    }

    fn add_replica(&mut self) {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let (cert, key) = (file("tls.crt"), file("tls.key"));
        let mut arguments = vec!["--kubeconfig", &self.kubeconfig, "--tls-cert", &cert, "--tls-key", &key];
        arguments.extend(["--tls-poll", "100ms", "--shutdown-grace", "1s"]);
        arguments.extend(&self.more);
        let replica = Topologist::serve(&arguments);
        self.balancer.add(&replica.webhook, &replica.admin);
        self.replicas.push(replica);
    }

    fn clusters(&self) -> Api<DynamicObject> {
        clusters(&self.kubernetes)
    }

    /// Gives the API server this bundle, and returns when it goes by it for defaults and for rules.
    async fn trust(&self, bundle: &str) {
        let mut configurations = webhooks_at(overlay("alone"), &self.balancer.address, bundle.as_bytes());
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut marks = Vec::new();
        for configuration in &mut configurations {
            // A webhook that nobody answers, for one name: once that name is refused, the whole configuration is in
            // force.
            let name = format!("mark-{turn}-{}", configuration["kind"].as_str().unwrap().to_lowercase());
            let webhooks = configuration["webhooks"].as_array_mut().unwrap();
            let mut extra = webhooks[0].clone();
            extra["name"] = json!("mark.topologist.dev");
            extra["clientConfig"] = json!({"url": "https://127.0.0.1:1/mark"});
            extra["matchConditions"] =
                json!([{"name": "mark", "expression": format!("object.metadata.name == '{name}'")}]);
            webhooks.push(extra);
            marks.push(name);
        }
        self.kubernetes.apply_yaml(&stream(&configurations)).await;
        for name in marks {
            self.until_refused(&name, "mark.topologist.dev").await;
        }
    }

    async fn until_refused(&self, name: &str, word: &str) {
        let clusters = self.clusters();
        let answer = async || clusters.create(&dry(), &good(name)).await;
        let is_refused =
            async || matches!(answer().await, Err(kube::Error::Api(status)) if status.message.contains(word));
        let fact = format!("{word} refuses {name}");
        wait::until_async(&fact, SOON, is_refused, async || format!("{:?}", answer().await)).await;
    }

    /// Replaces the certificate, and returns when every replica shows the new one.
    async fn replace_certificate(&self, from: &Path) {
        let before: Vec<_> = self.replicas.iter().map(reloads).collect();
        for name in ["tls.crt", "tls.key"] {
            let fresh = self.folder.path().join("fresh");
            std::fs::copy(from.join(name), &fresh).unwrap();
            std::fs::rename(&fresh, self.folder.path().join(name)).unwrap();
        }
        until("all replicas take on the certificate", || {
            self.replicas.iter().zip(&before).all(|(replica, before)| reloads(replica) > *before)
        })
        .await;
    }

    /// Returns when every replica has got another connection.
    async fn connections_to_all(&self) {
        let count = |replica: &Topologist| self.balancer.connections(&replica.webhook);
        let before: Vec<_> = self.replicas.iter().map(count).collect();
        until("every replica is connected to", || {
            self.replicas.iter().zip(&before).all(|(replica, before)| count(replica) > *before)
        })
        .await;
    }
}

fn reloads(replica: &Topologist) -> u64 {
    let count = replica.metric("topologist_tls_reloads_total{outcome=\"success\"}").unwrap_or_default();
    format!("{count}").parse().unwrap()
}

fn authority(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("ca.crt")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_lost_when_the_certificate_and_its_authority_change() {
    // Short-lived connections, so that there are handshakes at every moment.
    let fleet = Fleet::start(&["--connection-age", "300ms"]).await;
    let next = tempfile::tempdir().unwrap();
    make_certificates(next.path());
    let (old, new) = (authority(fleet.folder.path()), authority(next.path()));
    let load = Load::start(|| fleet.clusters());
    fleet.connections_to_all().await;

    fleet.trust(&format!("{old}{new}")).await;
    fleet.connections_to_all().await;
    fleet.replace_certificate(next.path()).await;
    fleet.connections_to_all().await;
    fleet.trust(&new).await;
    fleet.connections_to_all().await;
    load.more(50).await;
    let lost = load.stop().await;
    assert!(lost.is_empty(), "{lost:#?}");

    // The other order is an outage, with the words that operators will search for, and trust ends it.
    let hasty = tempfile::tempdir().unwrap();
    make_certificates(hasty.path());
    fleet.replace_certificate(hasty.path()).await;
    fleet.until_refused("hasty", "x509: certificate signed by unknown authority").await;
    fleet.trust(&authority(hasty.path())).await;
    fleet.clusters().create(&dry(), &good("trusted")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_lost_when_replicas_are_replaced_one_by_one() {
    let mut fleet = Fleet::start(&[]).await;
    let load = Load::start(|| fleet.clusters());
    load.more(50).await;
    let mut connections = 0;
    for _ in 0..2 {
        fleet.add_replica();
        let mut old = fleet.replicas.remove(0);
        old.signal("TERM");
        assert_eq!(old.wait().code(), Some(0), "{}", old.log_text());
        connections += fleet.balancer.connections(&old.webhook);
        fleet.balancer.remove(&old.webhook);
        load.more(50).await;
    }
    let lost = load.stop().await;
    assert!(lost.is_empty(), "{lost:#?}");
    assert!(connections > 0, "no replica that was replaced was in use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_replica_fails_few_requests_and_allows_none() {
    let mut fleet = Fleet::start(&[]).await;
    let load = Load::start(|| fleet.clusters());
    load.more(50).await;
    let in_use = |replica: &Topologist| fleet.balancer.connections(&replica.webhook) > 0;
    let victim = fleet.replicas.iter().position(in_use).unwrap();
    let mut victim = fleet.replicas.remove(victim);
    victim.signal("KILL");
    victim.wait();
    until("the balancer has noticed", || !fleet.balancer.is_ready(&victim.webhook)).await;
    let noticed = Instant::now();
    load.more(200).await;
    let lost = load.stop().await;
    // kube-apiserver does not ask again: what was under way is refused, with a code that clients may retry.
    for request in &lost {
        let (code, message) = request.status.as_ref().expect("nothing passes that was not judged");
        assert!(*code == 500 && message.contains("failed calling webhook"), "{request:#?}");
        assert!(request.started < noticed, "{request:#?} comes after the end of the outage");
    }
    for is_good in lost.iter().map(|request| request.is_good) {
        assert!(ask(&fleet.clusters(), "again", is_good).await.is_none(), "a second attempt is judged");
    }
}
