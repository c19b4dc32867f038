use axum::body::Body;
use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::webhook::testing;
use apiserver::{ApiOptions, Embedded};

fn converter(limits: ConversionLimits) -> Arc<Converter> {
    let versions = ApiVersions::for_cluster(Embedded::new(ApiOptions::default()).client());
    Arc::new(Converter::new(versions, limits, Arc::new(Metrics::default())))
}

async fn post(converter: &Arc<Converter>, body: impl Into<Body>) -> (StatusCode, String) {
    testing::post(router(converter.clone()), PATH, body).await
}

fn review(desired: &str, objects: &[Value]) -> String {
    let request = json!({"uid": "u", "desiredAPIVersion": desired, "objects": objects});
    json!({"apiVersion": API_VERSION, "kind": KIND, "request": request}).to_string()
}

async fn response(converter: &Arc<Converter>, desired: &str, objects: &[Value]) -> Value {
    let (code, body) = post(converter, review(desired, objects)).await;
    assert_eq!(code, StatusCode::OK, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(API_VERSION), &json!(KIND)));
    assert_eq!(answer["response"]["uid"], "u");
    answer["response"].clone()
}

const NEW: &str = "cluster.x-k8s.io/v1beta2";
const OLD: &str = "cluster.x-k8s.io/v1beta1";

fn cluster(name: &str, topology: Value) -> Value {
    json!({"apiVersion": OLD, "kind": "Cluster", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"topology": topology}})
}

#[tokio::test(flavor = "multi_thread")]
async fn many_objects_are_converted_in_order_on_either_kind_of_thread() {
    for inline in [0, ConversionLimits::default().inline] {
        let converter = converter(ConversionLimits { inline, ..ConversionLimits::default() });
        let objects: Vec<_> = (0..50).map(|i| cluster(&format!("c{i}"), json!({"class": "k"}))).collect();
        let response = response(&converter, NEW, &objects).await;
        assert_eq!(response["result"], json!({"status": "Success"}));
        let got = response["convertedObjects"].as_array().unwrap();
        assert_eq!(got.len(), 50);
        for (i, object) in got.iter().enumerate() {
            assert_eq!((&object["apiVersion"], &object["kind"]), (&json!(NEW), &json!("Cluster")));
            assert_eq!(object["metadata"]["name"], format!("c{i}"));
            assert_eq!(object["spec"], json!({"topology": {"classRef": {"name": "k"}}}));
        }
        let text = converter.metrics.render();
        assert!(text.contains("topologist_conversions_total{kind=\"Cluster\",outcome=\"success\"} 50\n"), "{text}");
        assert!(text.contains("topologist_conversion_duration_seconds_count 1\n"), "{text}");
    }
    assert_eq!(response(&converter(ConversionLimits::default()), NEW, &[]).await["convertedObjects"], json!([]));
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_fails_the_review_and_is_named() {
    let slow = |name: &str| cluster(name, json!({"controlPlane": {"nodeDrainTimeout": "soon"}}));
    let fine = cluster("fine", json!({"class": "k"}));
    let error = r#"spec.topology.controlPlane.nodeDrainTimeout: "soon" is not a duration such as 5m30s"#;
    let failure = |i: usize, name: &str| {
        format!("objects[{i}]: Cluster ns/{name} (cluster.x-k8s.io/v1beta1) cannot be converted to v1beta2: {error}")
    };
    let converter = converter(ConversionLimits::default());
    for (desired, objects, message) in [
            (NEW, vec![fine.clone(), slow("a")], failure(1, "a")),
            (NEW, vec![slow("a"), fine.clone(), slow("b")], format!("{}; {}", failure(0, "a"), failure(2, "b"))),
            (
                NEW,
                vec![json!({"apiVersion": OLD, "kind": "Machine", "metadata": {"name": "m"}})],
                "objects[0]: Machine /m (cluster.x-k8s.io/v1beta1): only Cluster and ClusterClass of cluster.x-k8s.io are converted".into(),
            ),
            (
                NEW,
                vec![json!({"apiVersion": "v1", "kind": "Cluster"})],
                "objects[0]: Cluster / (v1): only Cluster and ClusterClass of cluster.x-k8s.io are converted".into(),
            ),
            (NEW, vec![json!(5)], "objects[0]:  / (): only Cluster and ClusterClass of cluster.x-k8s.io are converted".into()),
            (
                "cluster.x-k8s.io/v2",
                vec![fine],
                "nothing is converted to \"cluster.x-k8s.io/v2\"; versions of cluster.x-k8s.io are v1beta1 and v1beta2, \
                 those of the embedded provider v1alpha1 and v1beta1, and those of runtime.cluster.x-k8s.io v1alpha1 and \
                 v1beta2".into(),
            ),
            (
                OLD,
                vec![json!({"apiVersion": NEW, "kind": "Cluster", "metadata": {"name": "r", "namespace": "ns"},
                    "spec": {"controlPlaneRef": {"apiGroup": "example.com", "kind": "Third", "name": "t"}}})],
                "objects[0]: Cluster ns/r (cluster.x-k8s.io/v1beta2) cannot be converted to v1beta1: spec.controlPlaneRef: \
                 the API version of Third.example.com is not known: CustomResourceDefinition thirds.example.com does \
                 not exist".into(),
            ),
        ] {
            let response = response(&converter, desired, &objects).await;
            assert_eq!(response["result"], json!({"status": "Failure", "message": message}));
            assert_eq!(response["convertedObjects"], json!([]));
        }
    let many: Vec<_> = (0..8).map(|i| slow(&format!("c{i}"))).collect();
    let message = response(&converter, NEW, &many).await["result"]["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("; and 3 more") && message.contains("ns/c4") && !message.contains("ns/c5"), "{message}");
    let text = converter.metrics.render();
    for line in ["kind=\"Cluster\",outcome=\"failure\"} 12\n", "kind=\"other\",outcome=\"failure\"} 3\n"] {
        assert!(text.contains(&format!("topologist_conversions_total{{{line}")), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn what_is_no_review_gets_an_http_error() {
    let good = review(NEW, &[]);
    for (body, code, words) in [
        (String::new(), 400, "EOF"),
        ("[]".into(), 400, "not a ConversionReview"),
        ("{}".into(), 400, "apiextensions.k8s.io/v1 is understood"),
        (good.replace("k8s.io/v1\"", "k8s.io/v1beta1\""), 400, "v1beta1"),
        (good.replace("ConversionReview", "AdmissionReview"), 400, "AdmissionReview"),
        (json!({"apiVersion": API_VERSION, "kind": KIND}).to_string(), 400, "it has no request"),
        (json!({"apiVersion": API_VERSION, "kind": KIND, "request": {"uid": "u"}}).to_string(), 400, "missing field"),
        ("x".repeat(2_000), 413, "larger than 1000 bytes"),
    ] {
        let converter = converter(ConversionLimits { body: 1000, ..ConversionLimits::default() });
        let (got, text) = post(&converter, body).await;
        assert_eq!(got.as_u16(), code, "{text}");
        assert!(text.contains(words), "{text}");
        assert!(converter.metrics.render().contains("topologist_refused_requests_total{"));
    }
}

#[tokio::test]
async fn objects_that_would_take_much_memory_are_named_and_not_decoded() {
    let converter = converter(ConversionLimits::default());
    let spec = |filling: &str, count: usize| {
        let filling = vec![filling; count].join(",");
        let text = format!(
            r#"{{"apiVersion":"{NEW}","kind":"Cluster","metadata":{{"name":"c","namespace":"n"}},"spec":{{"x":[{filling}]}}}}"#
        );
        format!(
            r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","desiredAPIVersion":"{OLD}","objects":[{text}]}}}}"#
        )
    };
    for (filling, count, words) in [
        (r#"{"":0}"#, 49_000, None),
        (r#"{"":0}"#, 60_000, Some("it has 60003 JSON objects, and the limit is 50000")),
        ("[0]", 210_000, Some("JSON values, and the limit is 400000")),
        ("0", 500_000, Some("values, and the limit is 400000")),
        (r#""{[{[{[{[{[{[{[{[{[{[{[""#, 3_000, None),
        (r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx""#, 70_000, Some("bytes, and the limit is 3145728")),
    ] {
        let (code, body) = post(&converter, spec(filling, count)).await;
        assert_eq!(code, StatusCode::OK);
        let answer: Value = serde_json::from_str(&body).unwrap();
        let message = answer["response"]["result"]["message"].as_str();
        match words {
            None => assert_eq!(message, None),
            Some(words) => {
                let message = message.unwrap();
                assert!(message.starts_with("objects[0]: Cluster n/c (cluster.x-k8s.io/v1beta2): "), "{message}");
                assert!(message.contains(words), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn the_kinds_that_a_review_asks_for_are_counted() {
    let converter = converter(ConversionLimits::default());
    let object = |i: usize| {
        json!({"apiVersion": NEW, "kind": "Cluster", "metadata": {"name": format!("c{i}"), "namespace": "ns"},
                "spec": {"controlPlaneRef": {"apiGroup": "example.com", "kind": format!("K{i}"), "name": "t"}}})
    };
    let objects: Vec<_> = (0..KINDS + 10).map(object).collect();
    let message = response(&converter, OLD, &objects).await["result"]["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with(&format!("; and {} more", KINDS + 10 - NAMED)), "{message}");
    let message = response(&converter, OLD, &vec![object(0); 100]).await["result"]["message"].clone();
    assert!(message.as_str().unwrap().contains("does not exist"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_ends_and_gives_its_turn_back_only_when_its_work_has_ended() {
    let limits = ConversionLimits {
        inline: 0,
        blocking: 1,
        patience: Duration::from_millis(900),
        ..ConversionLimits::default()
    };
    let converter = converter(limits);
    // Another request converts a large object, which this one has to wait for.
    let large = converter.large.acquire().await.unwrap();
    let object = format!(r#"{{"apiVersion":"{NEW}","kind":"Cluster","spec":{{"x":[{}0]}}}}"#, "{},".repeat(6000));
    let text = format!(
        r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","desiredAPIVersion":"{OLD}","objects":[{object},{object}]}}}}"#
    );
    let (code, body) = post(&converter, text.clone()).await;
    assert_eq!((code.as_u16(), &*body), (500, "topologist: the conversion took longer than the caller's timeout\n"));
    assert_eq!(converter.turns.available_permits(), 0, "it still works");
    let (code, _) = post(&converter, text).await;
    assert_eq!(code.as_u16(), 429);
    drop(large);
    let turn = tokio::time::timeout(Duration::from_secs(5), converter.turns.acquire()).await;
    assert!(turn.is_ok(), "it ends");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let (_sender, receiver) = futures::channel::mpsc::unbounded::<Result<Bytes, std::io::Error>>();
    let (code, _) = post(&converter(ConversionLimits::default()), Body::from_stream(receiver)).await;
    assert_eq!(code, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn extension_configs_are_converted_between_their_versions() {
    // RH-2.1
    let converter = converter(ConversionLimits::default());
    let version = |version: &str| format!("runtime.cluster.x-k8s.io/{version}");
    let config = json!({"apiVersion": version("v1alpha1"), "kind": "ExtensionConfig", "metadata": {"name": "lab"},
        "spec": {"clientConfig": {"url": "https://a"}}, "status": {"conditions": [{"type": "Discovered"}]}});
    let answer = response(&converter, &version("v1beta2"), &[config]).await;
    let object = &answer["convertedObjects"][0];
    assert_eq!(object["status"], json!({"deprecated": {"v1beta1": {"conditions": [{"type": "Discovered"}]}}}));
    assert_eq!(object["apiVersion"], version("v1beta2"));
    let answer = response(&converter, &version("v1beta2"), &[cluster("c", json!({}))]).await;
    let message = answer["result"]["message"].as_str().unwrap();
    assert!(message.contains("only ExtensionConfigs of runtime.cluster.x-k8s.io are converted"), "{message}");
}

#[tokio::test]
async fn kinds_of_the_embedded_provider_are_converted() {
    // CONV-017
    let converter = converter(ConversionLimits::default());
    let machine = |version: &str, status: Value| {
        json!({"apiVersion": format!("infrastructure.topologist.dev/{version}"), "kind": "EmbeddedMachine",
            "metadata": {"name": "m", "namespace": "ns"}, "spec": {}, "status": status})
    };
    let (old, new) = (
        machine("v1alpha1", json!({"ready": true})),
        machine("v1beta1", json!({"initialization": {"provisioned": true}})),
    );
    for (from, to) in [(&old, &new), (&new, &old)] {
        let answer = response(&converter, to["apiVersion"].as_str().unwrap(), std::slice::from_ref(from)).await;
        assert_eq!(answer["convertedObjects"], json!([to]), "{answer}");
    }
    let metric = converter
        .metrics
        .conversions
        .get_or_create(&metrics::Conversion { kind: "EmbeddedMachine", outcome: "success" })
        .get();
    assert_eq!(metric, 2);
    let mixed = response(&converter, "infrastructure.topologist.dev/v1alpha1", &[cluster("c", json!({}))]).await;
    let message = mixed["result"]["message"].as_str().unwrap();
    assert!(message.contains("only kinds of the embedded provider are converted"), "{message}");
}
