//! A provider's webhook that writes sizes in lower case.

use axum::Router;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use topologist::telemetry::metrics::Metrics;
use topologist::tls::authority::IssuedCertificate;
use topologist::tls::identity::ServerIdentity;
use topologist::tls::pair::CertificateFiles;
use topologist::webhook::server::{ConnectionLimits, HttpServer};

const SIZE: &str = "/spec/template/spec/size";

/// Serves, and returns what leads to it from the templates of topologies in a namespace.
pub async fn webhook(namespace: &str) -> Value {
    let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
    let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
    let metrics = Arc::new(Metrics::default());
    let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
    identity.install(&issued.pair(), &files).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::bind(any, Some(identity), ConnectionLimits::default(), metrics).await.unwrap();
    let url = format!("https://{}/normalize", server.local_address().unwrap());
    tokio::spawn(server.serve(Router::new().fallback(normalize), CancellationToken::new()));
    let owned = json!({"matchExpressions": [{"key": "topology.cluster.x-k8s.io/owned", "operator": "Exists"}]});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": format!("normalizing-{namespace}")},
        "webhooks": [{
            "name": "normalizing.provider.test",
            "clientConfig": {"url": url, "caBundle": STANDARD.encode(&issued.authority)},
            "rules": [{"apiGroups": ["infrastructure.cluster.x-k8s.io"], "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"], "resources": ["forgemachinetemplates"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": owned,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

async fn normalize(body: Bytes) -> impl IntoResponse {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"], "allowed": true});
    if let Some(size) = request["object"].pointer(SIZE).and_then(Value::as_str) {
        let patch = json!([{"op": "replace", "path": SIZE, "value": size.to_lowercase()}]);
        (response["patchType"], response["patch"]) = (json!("JSONPatch"), json!(STANDARD.encode(patch.to_string())));
    }
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    ([("content-type", "application/json")], answer.to_string())
}
