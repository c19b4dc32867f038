//! kube-apiserver shows a certificate to webhooks, with the files of `certs/`, and none when it asks for conversions.

use std::path::Path;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::harness::balancer::Balancer;
use crate::harness::kubernetes::{ClientCertificate, Kubernetes};
use crate::harness::kustomize::{definitions_at, overlay, permissions, render_by_address, stream};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait::{self, SOON};

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

/// Serves for the API server and asks callers of reviews for a certificate of this authority and name.
fn serve(kubeconfig: &Path, certificates: &Path, authority: &Path, name: &str) -> Topologist {
    let file = |name: &str| certificates.join(name).display().to_string();
    Topologist::serve(&[
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
    ])
}

fn clusters(kubernetes: &Kubernetes, version: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", version, "Cluster");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "clusters");
    Api::namespaced_with(kubernetes.client(), "default", &resource)
}

/// What the API server says to a dry run, once its answer has these words.
async fn answer(kubernetes: &Kubernetes, version: &str, spec: &Value, words: &str) -> String {
    let cluster = json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster",
        "metadata": {"name": "probe"}, "spec": spec});
    let cluster = serde_json::from_value(cluster).unwrap();
    let (clusters, dry) = (clusters(kubernetes, version), PostParams { dry_run: true, ..PostParams::default() });
    let text = async || {
        let outcome = clusters.create(&dry, &cluster).await;
        outcome.map_or_else(|error| error.to_string(), |_| "created".to_owned())
    };
    let fact = format!("{words:?} is in the answer");
    wait::until_some_async(&fact, SOON, async || Some(text().await).filter(|text| text.contains(words)), text).await
}

#[tokio::test]
async fn the_api_server_shows_its_certificate_and_conversions_need_none() {
    let (certificate, key, authority) = issue("kube-apiserver");
    // Its address is known before the API server reads whom it shows the certificate.
    let reviews = Balancer::start();
    let shown = ClientCertificate { host: &reviews.address, certificate: &certificate, key: &key };
    let kubernetes = Kubernetes::start_with_client_certificate(&shown);
    let folder = kubernetes.kubeconfig().parent().unwrap().join("topologist");
    make_certificates(&folder);
    let file = folder.join("client-ca.crt");
    std::fs::write(&file, authority).unwrap();
    kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;

    let known = serve(&kubeconfig, &folder, &file, "kube-apiserver");
    let own_authority = std::fs::read(folder.join("ca.crt")).unwrap();
    kubernetes.apply_yaml(&stream(&definitions_at(overlay("alone"), &known.conversions, &own_authority))).await;
    reviews.add(&known.webhook, &known.admin);
    kubernetes.apply_yaml(&stream(&render_by_address(&reviews.address, &folder))).await;
    let paused = json!({"paused": true});
    answer(&kubernetes, "v1beta2", &paused, "is invalid").await;
    let refused = "topologist_tls_handshake_failures_total{reason=\"client_certificate_refused\"}";
    assert_eq!(known.metric(refused), None);
    // A review of a v1beta1 Cluster is about the object in v1beta2.
    let wrong = json!({"topology": {"class": "base", "version": "v1.33"}});
    answer(&kubernetes, "v1beta1", &wrong, "spec.topology.version").await;
    let converted = "topologist_conversions_total{kind=\"Cluster\",outcome=\"success\"}";
    assert!(known.metric(converted).is_some_and(|count| count >= 1.0));

    let strict = serve(&kubeconfig, &folder, &file, "another-api-server");
    reviews.add(&strict.webhook, &strict.admin);
    reviews.remove(&known.webhook);
    drop(known);
    // Which of the two the API server gets to see first, the alert or the end of the connection, is a matter of luck.
    let text = answer(&kubernetes, "v1beta2", &paused, "tls: ").await;
    assert!(text.contains("failed calling webhook"), "{text}");
    // The alert is sent before the failure is counted.
    wait::until_async("a failure is counted", SOON, async || strict.metric(refused).is_some(), wait::nothing).await;
}
