use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::Metrics;
use crate::webhook::limits::ReviewLimits;
use crate::webhook::routes::router;
use engine::admission::AdmissionSettings;
use engine::topology::testing::Scene;
use model::wire::review::{API_VERSION, KIND};

const DENIED: &str = "ForgeMachineTemplate ns/smith cannot be deleted because it is used by ClusterClass ns/forge (1 Cluster); \
                      to delete it anyway, set the annotation unsafe.topologist.dev/delete-template-in-use on it";

async fn answer(enforce: Enforce, operation: &str) -> (Value, String) {
    let metrics = Arc::new(Metrics::default());
    let settings = AdmissionSettings { enforce, ..AdmissionSettings::default() };
    let gatherer = Gatherer::new(Arc::new(Cache::new(Scene::new().simulator().facts().clone())));
    let handler = Arc::new(ReviewHandler::new(gatherer, settings, ReviewLimits::default(), metrics.clone()));
    let request = json!({
        "uid": "u", "operation": operation, "namespace": "ns", "name": "smith",
        "kind": {"group": "infrastructure.cluster.x-k8s.io", "version": "v1beta1", "kind": "ForgeMachineTemplate"},
        "oldObject": {"metadata": {"name": "smith", "namespace": "ns"}},
    });
    let review = json!({"apiVersion": API_VERSION, "kind": KIND, "request": request}).to_string();
    let request = http::Request::post(PATH).body(axum::body::Body::from(review)).unwrap();
    let answer = router(handler).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let answer = serde_json::from_slice::<Value>(&body).unwrap()["response"].clone();
    (answer, metrics.render())
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_forbidden_and_names_the_template() {
    // DEC-110, DEC-38
    let (denied, metrics) = answer(Enforce::Deny, "DELETE").await;
    let status = &denied["status"];
    assert_eq!(
        (&denied["allowed"], &status["code"], &status["reason"]),
        (&json!(false), &json!(403), &json!("Forbidden"))
    );
    assert_eq!((&status["message"], &status["details"]["kind"]), (&json!(DENIED), &json!("ForgeMachineTemplate")));
    let counted = r#"kind="Template",operation="DELETE",outcome="forbidden""#;
    assert!(metrics.contains(&format!("topologist_admission_requests_total{{{counted}}} 1")), "{metrics}");

    let (warned, metrics) = answer(Enforce::Warn, "DELETE").await;
    assert_eq!(warned["allowed"], true);
    assert_eq!(warned["warnings"], json!([format!("would be denied: {DENIED}")]));
    assert!(metrics.contains(&format!("topologist_admission_would_be_denials_total{{{counted}}} 1")), "{metrics}");

    assert_eq!(answer(Enforce::Deny, "UPDATE").await.0, json!({"uid": "u", "allowed": true}));
}
