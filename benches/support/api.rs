//! As much of an API server as the guard asks for: lists of ClusterClasses and Clusters, page by page, and watches on
//! which nothing happens.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};

/// Serves these objects on loopback, in the runtime that this is called in.
pub async fn serve(classes: Vec<Value>, clusters: Vec<Value>) -> SocketAddr {
    let router = Router::new()
        .route("/apis/cluster.x-k8s.io/v1beta2/clusterclasses", collection("ClusterClassList", classes))
        .route("/apis/cluster.x-k8s.io/v1beta2/clusters", collection("ClusterList", clusters));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

fn collection(kind: &'static str, objects: Vec<Value>) -> axum::routing::MethodRouter {
    let objects: Arc<[Value]> = objects.into();
    get(async move |request: Request| {
        let query: BTreeMap<&str, &str> =
            request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')).collect();
        if query.contains_key("watch") {
            return Response::new(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
        }
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
        let start = number("continue").unwrap_or(0).min(objects.len());
        let most = number("limit").filter(|limit| *limit > 0).unwrap_or(objects.len());
        let end = objects.len().min(start.saturating_add(most));
        let more = if end < objects.len() { end.to_string() } else { String::new() };
        let list = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"resourceVersion": "1", "continue": more}, "items": objects[start..end]});
        Response::new(list.to_string().into())
    })
}

/// Writes a kubeconfig for the API server at this address into a folder.
pub fn kubeconfig(folder: &Path, server: SocketAddr) -> PathBuf {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "fleet",
        "clusters": [{"name": "fleet", "cluster": {"server": format!("http://{server}")}}],
        "contexts": [{"name": "fleet", "context": {"cluster": "fleet", "user": "fleet"}}],
        "users": [{"name": "fleet", "user": {}}]});
    let path = folder.join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}
