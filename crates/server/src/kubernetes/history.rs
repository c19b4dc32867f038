//! An API server whose history went back, since its etcd was restored from an older copy (DEC-105).
//!
//! ```text
//! Lease: its resourceVersion went back ─► History::went_back ─┬─► open watches end
//!                                                             └─► 410 for each watch until its kind has been listed again
//! ```
//!
//! A watch cannot detect it: kube-apiserver continues with events of the restored history, or leaves out those whose
//! version is not above the requested one. The Lease is written every two seconds, so its version goes back in any
//! case.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tower::BoxError;

/// The history of the API server, and the epoch of each list.
#[derive(Debug)]
pub struct ApiHistory {
    /// How often it went back.
    epoch: watch::Sender<u64>,
    /// The epoch in which each selection of objects was listed last, by path and selectors.
    listed: Mutex<HashMap<String, u64>>,
}

impl Default for ApiHistory {
    fn default() -> Self {
        ApiHistory { epoch: watch::Sender::new(0), listed: Mutex::default() }
    }
}

type HistoryBody = UnsyncBoxBody<Bytes, BoxError>;

/// The kind of a request: whether it lists or watches.
#[derive(Debug, PartialEq, Eq)]
enum RequestKind {
    /// The first page of a list.
    List(String),
    Watch(String),
    Other,
}

impl RequestKind {
    fn from_request<B>(request: &Request<B>) -> RequestKind {
        if *request.method() != Method::GET {
            return RequestKind::Other;
        }
        let query = request.uri().query().unwrap_or_default();
        let has = |name: &str| query.split('&').any(|part| part.split_once('=').unwrap_or((part, "")).0 == name);
        let selectors =
            query.split('&').filter(|part| part.starts_with("labelSelector=") || part.starts_with("fieldSelector="));
        let mut selection = vec![request.uri().path()];
        selection.extend(selectors);
        if query.split('&').any(|part| part == "watch=true") {
            return RequestKind::Watch(selection.join("&"));
        }
        if has("limit") && !has("continue") { RequestKind::List(selection.join("&")) } else { RequestKind::Other }
    }
}

impl ApiHistory {
    /// Notes that the history went back, so all known objects are outdated.
    pub(crate) fn went_back(&self) {
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// The number of times the history went back.
    #[cfg(test)]
    pub(super) fn epoch(&self) -> u64 {
        *self.epoch.borrow()
    }

    /// A client whose watches end when the history goes back, and start again with a list.
    pub fn client(self: &Arc<Self>, client: kube::Client) -> kube::Client {
        let (history, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request| {
            let (history, client) = (history.clone(), client.clone());
            async move { history.send(&client, request).await }
        });
        kube::Client::new(service, namespace)
    }

    async fn send(&self, client: &kube::Client, request: Request<Body>) -> Result<Response<HistoryBody>, BoxError> {
        let (call, mut epoch) = (RequestKind::from_request(&request), self.epoch.subscribe());
        let now = *epoch.borrow_and_update();
        if let RequestKind::Watch(selection) = &call
            && self.listed_in(selection) < now
        {
            return Ok(gone());
        }
        let response = client.send(request).await?;
        match call {
            RequestKind::List(selection) if response.status().is_success() => {
                self.listed.lock().unwrap_or_else(PoisonError::into_inner).insert(selection, now);
            }
            RequestKind::Watch(_) if response.status() == StatusCode::OK => {
                return Ok(response.map(|body| {
                    let ends = async move { drop(epoch.changed().await) };
                    let frames = body.into_data_stream().take_until(ends);
                    BodyExt::boxed_unsync(StreamBody::new(
                        frames.map(|data| data.map(Frame::data).map_err(BoxError::from)),
                    ))
                }));
            }
            _ => {}
        }
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }

    fn listed_in(&self, selection: &str) -> u64 {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).get(selection).copied().unwrap_or(0)
    }
}

/// The response of an API server whose history no longer has a version.
fn gone() -> Response<HistoryBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired",
        "message": "the API server was restored from an older copy",
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(BoxError::from).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::GONE;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::Api;
    use serde_json::Value;

    use super::*;
    use crate::kubernetes::WatchSelection;
    use crate::kubernetes::observations::{self, Observation, WatchedKind};
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    const PATH: &str = "/api/v1/configmaps";

    fn list(names: &[&str], version: &str) -> ScriptedAnswer {
        let item = |name: &&str| json!({"metadata": {"name": name, "resourceVersion": version}});
        let items: Vec<Value> = names.iter().map(item).collect();
        ScriptedAnswer::ok(json!({"metadata": {"resourceVersion": version}, "items": items}))
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_listed_again_when_the_history_goes_back() {
        // DEC-105
        let (script, history) = (Script::default(), Arc::new(ApiHistory::default()));
        script.get(PATH, &["limit="], list(&["kept", "ghost"], "500"));
        script.get(PATH, &["watch=true", "resourceVersion=500"], ScriptedAnswer::OpenWatch(vec![]));
        let client = history.client(script.client());
        let kind = WatchedKind::own("ConfigMap", "v1");
        let mut seen =
            observations::follow::<ConfigMap>(Api::all(client), WatchSelection::default(), kind, Arc::default());
        let mut next_list = async || {
            loop {
                if let Some(Observation::Listed { keys, .. }) = seen.next().await {
                    return keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
                }
            }
        };
        assert_eq!(next_list().await, ["ghost", "kept"]);
        let more = tokio::time::timeout(Duration::from_mins(1), next_list());
        assert!(more.await.is_err(), "nothing is asked for meanwhile");
        assert_eq!(script.left(), 0);
        script.get(PATH, &["limit="], list(&["kept", "resurrected"], "100"));
        script.get(PATH, &["watch=true", "resourceVersion=100"], ScriptedAnswer::OpenWatch(vec![]));
        history.went_back();
        let listed = tokio::time::timeout(Duration::from_secs(10), next_list()).await;
        assert_eq!(listed.unwrap(), ["kept", "resurrected"]);
        assert!(tokio::time::timeout(Duration::from_mins(1), next_list()).await.is_err());
        assert_eq!(script.left(), 0, "the watch goes on from there");
    }

    #[test]
    fn a_selection_is_a_path_with_its_selectors() {
        let call = |uri: &str| RequestKind::from_request(&Request::get(uri).body(()).unwrap());
        assert_eq!(call("/a?limit=100&labelSelector=x"), RequestKind::List("/a&labelSelector=x".to_owned()));
        assert_eq!(
            call("/a?labelSelector=x&watch=true&resourceVersion=7"),
            RequestKind::Watch("/a&labelSelector=x".to_owned())
        );
        for other in ["/a?limit=100&continue=c", "/a/b", "/a?timeoutSeconds=1"] {
            assert_eq!(call(other), RequestKind::Other, "{other}");
        }
    }
}
