//! Two instances on one kube-apiserver, each with a Lease of its own and a part of the Clusters.

use serde_json::json;

use super::many::terminate;
use super::process::Installation;
use super::site::{CORE, INFRASTRUCTURE, Site, bundle, is_reconciled};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::overlay;
use crate::harness::quiet;
use crate::harness::server::Topologist;

const INSTANCES: [&str; 2] = ["east", "west"];

/// An instance in a namespace of its own, with these flags. The permissions of a manifest are for one instance.
async fn start(installation: &Installation, name: &str, flags: &[&str]) -> Topologist {
    let kubernetes = &installation.kubernetes;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": name, "name": "topologist"}],
    });
    kubernetes.apply_yaml(&format!("{namespace}\n---\n{binding}")).await;
    let kubeconfig = kubernetes.service_account_kubeconfig(name, "topologist").await;
    installation.start_as(&kubeconfig.display().to_string(), &[&["--lease-namespace", name], flags].concat())
}

/// Creates a Cluster with a value of the label that divides Clusters between instances.
async fn create(site: &Site, name: &str, filter: &str) {
    let mut cluster = bundle("cluster.yaml").remove(0);
    cluster["metadata"]["name"] = json!(name);
    cluster["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"] = json!(filter);
    site.create(cluster).await;
    site.until("it is reconciled", || async { is_reconciled(&site.cluster(name).await).then_some(()) }).await;
}

/// How many requests an instance has sent that change objects whose path or name has this text.
fn writes(installation: &Installation, instance: &str, text: &str) -> usize {
    let user = format!("system:serviceaccount:{instance}:topologist");
    let requests = installation.kubernetes.audited_requests();
    let is_write = |verb: &str| ["create", "patch", "update", "delete"].contains(&verb);
    requests.iter().filter(|it| it.user == user && is_write(&it.verb) && it.uri.contains(text)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_divide_the_clusters_by_namespace_or_by_label() {
    // docs/scale.md
    let installation = Installation::on(Kubernetes::start_with_audit_log(), overlay("alone"), &[]).await;
    let (mut sites, mut instances) = (Vec::new(), Vec::new());
    for name in INSTANCES {
        let namespace = format!("team-{name}");
        let site = Site::on(installation.kubernetes.client(), namespace.clone()).await;
        site.provide().await;
        instances.push(start(&installation, name, &["--namespace", &namespace]).await);
        sites.push(site);
    }
    for site in &sites {
        create(site, "demo", "").await;
    }
    for (position, name) in INSTANCES.into_iter().enumerate() {
        quiet::until_idle_async(&instances[position]).await;
        let [own, others] = [position, 1 - position].map(|at| format!("/namespaces/team-{}/", INSTANCES[at]));
        assert!(writes(&installation, name, &own) > 10, "{}", instances[position].log_text());
        assert_eq!(writes(&installation, name, &others), 0, "{name}");
    }
    instances.drain(..).for_each(terminate);

    // By the label of Clusters and of their classes.
    for (name, site) in INSTANCES.into_iter().zip(&sites) {
        let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": name}}});
        site.merge(CORE, "ClusterClass", "embedded", label).await;
        instances.push(start(&installation, name, &["--watch-filter", name]).await);
    }
    for (name, site) in INSTANCES.into_iter().zip(&sites) {
        create(site, &format!("of-{name}"), name).await;
    }
    for (position, name) in INSTANCES.into_iter().enumerate() {
        let other = INSTANCES[1 - position];
        quiet::until_idle_async(&instances[position]).await;
        assert!(writes(&installation, name, &format!("/of-{name}")) > 10, "{}", instances[position].log_text());
        assert_eq!(writes(&installation, name, &format!("/namespaces/team-{other}/")), 0, "{name}");
    }
    for site in &sites {
        assert_eq!(site.list(INFRASTRUCTURE, "EmbeddedCluster").await.len(), 2);
    }
}
