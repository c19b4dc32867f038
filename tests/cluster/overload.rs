//! What a client of the API server gets to hear when topologist is overloaded.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topologist::admission::AdmissionSettings;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::gather::Gatherer;
use topologist::telemetry::metrics::Metrics;
use topologist::tls::authority::IssuedCertificate;
use topologist::tls::identity::ServerIdentity;
use topologist::tls::pair::CertificateFiles;
use topologist::webhook::limits::ReviewLimits;
use topologist::webhook::review::ReviewHandler;
use topologist::webhook::routes;
use topologist::webhook::server::{self, HttpServer};
use topologist::world::Facts;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::wait::SOON;

/// Serves without a single place for reviews; returns the address and the CA certificate.
async fn overloaded() -> (String, String) {
    let metrics = Arc::new(Metrics::default());
    let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
    let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
    let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
    identity.install(&issued.pair(), &files).unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let server =
        HttpServer::bind(address, Some(identity), server::ConnectionLimits::default(), metrics.clone()).await.unwrap();
    let address = server.local_address().unwrap().to_string();
    let limits = ReviewLimits { in_flight: 0, queue: 0, ..ReviewLimits::default() };
    let gatherer = Gatherer::new(Arc::new(Cache::new(Facts::complete([], []))));
    let handler = Arc::new(ReviewHandler::new(gatherer, AdmissionSettings::default(), limits, metrics));
    tokio::spawn(server.serve(routes::router(handler), CancellationToken::new()));
    (address, issued.authority)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_an_overloaded_server_must_retry() {
    use base64::Engine as _;
    let kubernetes = Kubernetes::shared();
    let namespace = kubernetes.namespace("overload").await;
    let (address, authority) = overloaded().await;
    let path = "validate-cluster-x-k8s-io-v1beta2-cluster";
    // Any kind will do, since nobody looks at the review; those of Clusters belong to other stories.
    let configuration = json!({
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": namespace}, "webhooks": [{
        "name": "overload.topologist.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "timeoutSeconds": 10,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "clientConfig": {"url": format!("https://{address}/{path}"),
            "caBundle": base64::engine::general_purpose::STANDARD.encode(authority)},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }]});
    kubernetes.apply_yaml(&configuration.to_string()).await;
    let kubeconfig = Kubeconfig::read_from(kubernetes.kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // Or this client does try again, for minutes.
    config.default_retry = false;
    let objects: Api<ConfigMap> = Api::namespaced(kube::Client::try_from(config).unwrap(), &namespace);
    let metadata = ObjectMeta { generate_name: Some("o-".into()), ..ObjectMeta::default() };
    let object = ConfigMap { metadata, ..ConfigMap::default() };
    let deadline = Instant::now() + SOON;
    let error = loop {
        match objects.create(&PostParams::default(), &object).await {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < deadline, "the webhook is never asked"),
        }
    };
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, &*status.reason), (429, "TooManyRequests"), "{status:?}");
    assert_eq!(status.details.map(|details| details.retry_after_seconds), Some(1), "clients go by this");
    assert!(status.message.contains("too many reviews are waiting; try again"), "{}", status.message);
}
