//! kube-apiserver proves who it is.

use std::path::Path;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;

use crate::kubernetes::Kubernetes;
use crate::kustomize::{overlay, permissions, stream, webhooks_at};
use crate::process::{SOON, Topologist, command, make_certificates};

/// A client certificate for `name` with its key, and its authority, all in PEM form.
fn issue(name: &str) -> (String, String, String) {
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem(), authority.pem())
}

/// Serves for the API server and asks callers for a certificate of this authority and name.
async fn serve(kubernetes: &Kubernetes, folder: &Path, authority: &Path, name: &str) -> Topologist {
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    make_certificates(folder);
    let file = |name: &str| folder.join(name).display().to_string();
    let topologist = Topologist::serve(&[
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--tls-cert",
        &file("tls.crt"),
        "--tls-key",
        &file("tls.key"),
        "--client-ca",
        authority.to_str().unwrap(),
        "--client-name",
        name,
    ]);
    topologist.wait_until_ready();
    let webhooks = webhooks_at(overlay("beside"), &topologist.webhook, &std::fs::read(file("ca.crt")).unwrap());
    kubernetes.apply_yaml(&stream(&webhooks)).await;
    topologist
}

/// What the API server says to a Cluster that no rule allows, once its answer has these words.
async fn refusal(kubernetes: &Kubernetes, words: &str) -> String {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "clusters");
    let clusters: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), "default", &resource);
    let wrong = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "probe"},
        "spec": {"paused": true}});
    let wrong = serde_json::from_value(wrong).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let deadline = std::time::Instant::now() + SOON;
    loop {
        let outcome = clusters.create(&dry, &wrong).await;
        let text = outcome.map_or_else(|error| error.to_string(), |_| "created".to_owned());
        if text.contains(words) {
            return text;
        }
        assert!(std::time::Instant::now() < deadline, "{words:?} is not in {text:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_api_server_shows_its_certificate_and_is_known_by_its_name() {
    let (certificate, key, authority) = issue("kube-apiserver");
    let kubernetes = Kubernetes::start_with_client_certificate(&certificate, &key);
    let folder = kubernetes.kubeconfig().parent().unwrap().to_owned();
    let file = folder.join("client-ca.crt");
    std::fs::write(&file, authority).unwrap();
    let crds = command(&["crds"]).output().unwrap();
    kubernetes.apply_yaml(&String::from_utf8(crds.stdout).unwrap()).await;
    kubernetes.apply_yaml(&stream(&permissions(overlay("beside")))).await;

    let known = serve(&kubernetes, &folder.join("one"), &file, "kube-apiserver").await;
    refusal(&kubernetes, "is invalid").await;
    assert_eq!(known.metric("topologist_tls_handshake_failures_total{reason=\"client_certificate_refused\"}"), None);
    let strict = serve(&kubernetes, &folder.join("two"), &file, "another-api-server").await;
    // Which of the two the API server gets to see first, the alert or the end of the connection, is a matter of luck.
    let text = refusal(&kubernetes, "tls: ").await;
    assert!(text.contains("failed calling webhook"), "{text}");
    let refused = strict.metric("topologist_tls_handshake_failures_total{reason=\"client_certificate_refused\"}");
    assert!(refused.is_some_and(|count| count >= 1.0), "{refused:?}");
}
