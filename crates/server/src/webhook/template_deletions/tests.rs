use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::Metrics;
use crate::webhook::limits::ReviewLimits;
use crate::webhook::routes::router;
use crate::webhook::testing::post_review;
use engine::admission::AdmissionSettings;
use engine::topology::testing::Scene;

const DENIED: &str = "ForgeMachineTemplate ns/smith cannot be deleted because it is used by ClusterClass ns/forge \
                      (1 Cluster); to delete it anyway, set the annotation unsafe.topologist.dev/delete-template-in-use on it";

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
    let response = post_review(router(handler), PATH, &request).await;
    (response, metrics.render())
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
