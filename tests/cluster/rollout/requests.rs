//! The number of requests that topologist sends to kube-apiserver, by its audit log.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::many::{create, limit, reconciled, settled};
use super::process::Installation;
use super::site::{INFRASTRUCTURE, Site};
use crate::harness::kubernetes::{AuditedRequest, Kubernetes};
use crate::harness::kustomize::{USER, overlay};

const CLUSTERS: usize = 10;
/// Maximum number of requests for a new Cluster: fifteen objects and a shim are created, the shim is deleted, the Cluster
/// gets its references and its status, and there is one event.
const OF_CREATION: usize = 20;
/// Maximum number of requests for a Cluster whose control plane rolls since a template of its class was changed: two dry
/// runs, a new and an old template, the control plane, the record of the Cluster, and two events.
const OF_EDIT: usize = 8;
/// Requests that a busy machine may cause, such as a second status.
const SPARE: usize = 3;
/// The time in which nothing happens.
const CALM: Duration = Duration::from_secs(10);

/// The requests of topologist by verb, resource and status, but not those that renew its Lease, watches, and the lists with
/// which a watch begins again.
struct Requests(BTreeMap<String, usize>);

impl Requests {
    /// Those after the first `seen` requests of the log, which are all afterwards.
    fn since(seen: &mut usize, installation: &Installation) -> Self {
        let all = installation.kubernetes.audited_requests();
        let mut counts = BTreeMap::new();
        for AuditedRequest { user, verb, resource, code, uri, .. } in &all[*seen..] {
            let is_of_watch = verb == "watch" || uri.contains("limit=0");
            if user != USER || resource == "leases" || is_of_watch {
                continue;
            }
            let dry_run = if uri.contains("dryRun=All") { " in a dry run" } else { "" };
            *counts.entry(format!("{verb} {resource}{dry_run}: {code}")).or_default() += 1;
        }
        *seen = all.len();
        Requests(counts)
    }

    fn sum(&self) -> usize {
        self.0.values().sum()
    }

    /// Checks their number, and that none of them is a read or fails.
    fn check(&self, most: usize, what: &str) {
        let shown = format!("{what}: {:#?}", self.0);
        assert!(self.sum() <= most, "{} of at most {most}: {shown}", self.sum());
        let is_write = |name: &String| ["create", "patch", "delete"].iter().any(|verb| name.starts_with(verb));
        let is_fine = |name: &String| ["200", "201"].iter().any(|code| name.ends_with(code));
        assert!(self.0.keys().all(|name| is_write(name) && is_fine(name)), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_takes_few_requests_and_a_calm_fleet_none() {
    // RS-22, RS-27, ST-18, DEC-117, DEC-118
    let (kubernetes, manifests) = (Kubernetes::start_with_audit_log(), overlay("alone"));
    let installation = Installation::on(kubernetes, manifests.clone(), &[]).await;
    let topologist = installation.start_behind_webhooks(&manifests, &[]).await;
    let site = Site::on(installation.kubernetes.client(), "default".to_owned()).await;
    site.provide().await;
    // With the first Cluster come the watches.
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    settled(&topologist, 1).await;
    let mut seen = installation.kubernetes.audited_requests().len();

    create(&site, CLUSTERS).await;
    reconciled(&site, CLUSTERS, limit(CLUSTERS)).await;
    settled(&topologist, 1 + CLUSTERS).await;
    Requests::since(&mut seen, &installation).check(OF_CREATION * CLUSTERS + SPARE, "new Clusters");

    tokio::time::sleep(CALM).await;
    let calm = Requests::since(&mut seen, &installation);
    assert_eq!(calm.sum(), 0, "{:#?}", calm.0);

    // The whole fleet rolls, the first Cluster as well.
    let slower = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"etcd": {"provisioning":
        {"startupDuration": "9s"}}}}}}}});
    site.merge(INFRASTRUCTURE, "EmbeddedMachineTemplate", "embedded-control-plane-machine", slower).await;
    let rolls = async || {
        let templates = site.list(INFRASTRUCTURE, "EmbeddedMachineTemplate").await;
        templates.iter().filter(|template| template.to_string().contains("\"9s\"")).count() == CLUSTERS + 2
    };
    site.until("all Clusters have a new template", || async { rolls().await.then_some(()) }).await;
    settled(&topologist, 1 + CLUSTERS).await;
    Requests::since(&mut seen, &installation).check(OF_EDIT * (CLUSTERS + 1) + SPARE, "a change of a template");
}
