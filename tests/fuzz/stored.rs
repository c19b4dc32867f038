//! What the API in memory keeps: about the text of its objects, and nothing of what has been deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use http::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use topologist::embedded::{ApiOptions, Embedded};

use crate::{ALLOCATOR, MEASURING};

const GAUGES: &str = "/apis/example.com/v1/namespaces/default/gauges";
const OBJECTS: usize = 400;

/// An object with as many members as a Machine.
fn gauge(name: &str, round: usize) -> Value {
    let entry =
        |i: usize| (format!("member{i}"), json!({"on": i.is_multiple_of(2), "count": i + round, "names": ["a", "b"]}));
    json!({
        "apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": name},
        "spec": (0..40).map(entry).collect::<serde_json::Map<_, _>>(),
    })
}

/// Sends a request and returns how long the body of the answer is.
async fn send(api: &Embedded, method: Method, path: &str, body: &Value) -> usize {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let response = api.call(request.body(Body::from(body)).unwrap()).await;
    assert!(response.status().is_success(), "{path}: {}", response.status());
    axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().len()
}

#[test]
fn stored_objects_take_about_their_text_and_deleted_ones_nothing() {
    let _alone = MEASURING.lock();
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(store_and_delete());
}

async fn store_and_delete() {
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let clock = seconds.clone();
    let clock = Arc::new(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap());
    let api = Embedded::new(ApiOptions { clock, ..ApiOptions::default() });
    api.load(vec![
        json!({"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": "first", "namespace": "default"}}),
    ])
    .unwrap();
    let in_use = || {
        seconds.fetch_add(31, Ordering::Relaxed);
        api.sweep();
        ALLOCATOR.allocated()
    };
    let before = in_use();
    let mut text = 0;
    for i in 0..OBJECTS {
        text += send(&api, Method::POST, GAUGES, &gauge(&format!("g{i}"), 0)).await;
    }
    let of_objects = (in_use() - before) as f64 / text as f64;
    assert!(of_objects < 1.6, "an object takes {of_objects} times as much as its text");
    for i in 0..OBJECTS {
        send(&api, Method::PATCH, &format!("{GAUGES}/g{i}"), &gauge(&format!("g{i}"), 1)).await;
    }
    let with_changes = (ALLOCATOR.allocated() - before) as f64 / text as f64;
    assert!(with_changes < 3.2, "an object and the one before take {with_changes} times as much as the text");
    for i in 0..OBJECTS {
        send(&api, Method::DELETE, &format!("{GAUGES}/g{i}"), &Value::Null).await;
    }
    let left = in_use().saturating_sub(before) as f64 / text as f64;
    assert!(left < 0.05, "{left} of what the objects took is left of them");
}
