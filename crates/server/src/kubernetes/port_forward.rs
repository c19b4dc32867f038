//! Streams to a Service of a cluster from the outside, as `kubectl port-forward` opens them.
//!
//! ```text
//! Service ─► the name of its port ─► EndpointSlices ─► a ready Pod and its port ─► pods/portforward ─► Stream
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use kube::api::ListParams;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::address::{self, InvalidSegment};
use super::describe;
use crate::extension_client::{Stream, Tunnel};
use engine::extensions::ServicePort;
use model::hub::ObjectKey;
use model::hub::naming::dns_label_faults;

/// The label of EndpointSlices that names their Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// Why no stream could be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error(transparent)]
    Malformed(#[from] InvalidSegment),
    #[error("cannot read {what}: {reason}")]
    Unreadable { what: String, reason: String },
    #[error("there is no Service {0}")]
    NoService(ObjectKey),
    #[error("Service {service} has no port {port}")]
    NoPort { service: ObjectKey, port: u16 },
    #[error("no Pod of Service {0} is ready")]
    NoPod(ObjectKey),
    #[error("cannot forward a port to Pod {pod} (this needs permission for pods/portforward): {reason}")]
    Refused { pod: ObjectKey, reason: String },
}

/// Forwards one port of a Service.
#[derive(Clone)]
pub struct Forward {
    client: kube::Client,
    to: ServicePort,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").field("to", &self.to).finish_non_exhaustive()
    }
}

impl Forward {
    pub fn new(client: kube::Client, to: ServicePort) -> Self {
        Forward { client, to }
    }

    async fn forwarded(self) -> Result<Forwarded, ForwardError> {
        let (pod, port) = self.pod().await?;
        let refused = |reason: &kube::Error| ForwardError::Refused { pod: pod.clone(), reason: describe(reason) };
        let one = address::one::<Pod>(self.client.clone(), &pod)?;
        let mut forwarder = one.portforward(port).await.map_err(|error| refused(&error))?;
        let stream = forwarder.take_stream(port).expect("it was asked for this port");
        let error = forwarder.take_error(port).expect("it was asked for this port").boxed();
        Ok(Forwarded { stream, error })
    }

    /// A ready Pod behind the port, and the port of the Pod.
    async fn pod(&self) -> Result<(ObjectKey, u16), ForwardError> {
        let ServicePort { service: key, port } = &self.to;
        let unreadable = |what: &str, error: &kube::Error| ForwardError::Unreadable {
            what: format!("{what} {key}"),
            reason: describe(error),
        };
        let service = address::one::<Service>(self.client.clone(), key)?.get_opt().await;
        let service = service.map_err(|error| unreadable("Service", &error))?;
        let service = service.ok_or_else(|| ForwardError::NoService(key.clone()))?;
        let name =
            port_name(&service, *port).ok_or_else(|| ForwardError::NoPort { service: key.clone(), port: *port })?;
        // The name becomes part of a selector.
        if let Some(fault) = dns_label_faults(&key.name).into_iter().next() {
            let (part, text) = ("the name", key.name.clone());
            return Err(InvalidSegment { part, text, fault }.into());
        }
        let slices = address::in_namespace::<EndpointSlice>(self.client.clone(), &key.namespace)?;
        let of_service = ListParams::default().labels(&format!("{OF_SERVICE}={}", key.name));
        let slices = slices.list(&of_service).await.map_err(|error| unreadable("EndpointSlices of Service", &error))?;
        let (pod, port) = ready_pod(&slices.items, &name).ok_or_else(|| ForwardError::NoPod(key.clone()))?;
        Ok((ObjectKey::new(&*key.namespace, pod), port))
    }
}

impl Tunnel for Forward {
    fn open(&self) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let forward = self.clone();
        async move {
            let forwarded = forward.forwarded().await.map_err(io::Error::other)?;
            Ok(Box::new(forwarded) as Box<dyn Stream>)
        }
        .boxed()
    }
}

/// The name of a port of a Service; a single port may have the empty name.
fn port_name(service: &Service, port: u16) -> Option<String> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let found = ports.iter().find(|one| one.port == i32::from(port))?;
    Some(found.name.clone().unwrap_or_default())
}

/// The first ready Pod of EndpointSlices that has a port of this name.
fn ready_pod(slices: &[EndpointSlice], name: &str) -> Option<(String, u16)> {
    slices.iter().find_map(|slice| {
        let is_it = |port: &&EndpointPort| port.name.as_deref().unwrap_or_default() == name;
        let port = slice.ports.iter().flatten().find(is_it)?.port?;
        let ready = slice.endpoints.iter().filter(|endpoint| {
            // Without the condition, an endpoint counts as ready.
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
        });
        let mut pods = ready.filter_map(|endpoint| endpoint.target_ref.as_ref());
        let pod = pods.find(|target| target.kind.as_deref() == Some("Pod"))?.name.clone()?;
        Some((pod, u16::try_from(port).ok()?))
    })
}

/// A stream to a port of a Pod. If the node cannot open it, the reason is the error of reading.
struct Forwarded {
    stream: DuplexStream,
    error: BoxFuture<'static, Option<String>>,
}

impl AsyncRead for Forwarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let is_end = buf.filled().len() == before && buf.remaining() > 0;
        if is_end && let Some(Some(reason)) = (&mut self.error).now_or_never() {
            return Poll::Ready(Err(io::Error::other(reason)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(port: &Value, endpoints: &Value) -> EndpointSlice {
        let slice = json!({"addressType": "IPv4", "ports": [port], "endpoints": endpoints});
        serde_json::from_value(slice).unwrap()
    }

    fn endpoint(pod: &str, conditions: &Value) -> Value {
        json!({"addresses": ["10.0.0.1"], "conditions": conditions, "targetRef": {"kind": "Pod", "name": pod}})
    }

    #[test]
    fn the_pod_is_ready_and_has_the_port_of_that_name() {
        let named = |name: &str, port: i32| json!({"name": name, "port": port});
        let (ready, not_ready) = (json!({"ready": true}), json!({"ready": false}));
        let both = json!([endpoint("old", &not_ready), endpoint("new", &ready)]);
        let slices = [
            slice(&named("metrics", 8080), &json!([endpoint("metrics", &ready)])),
            slice(&named("https", 9443), &json!([endpoint("gone", &not_ready)])),
            slice(&named("https", 9444), &both),
        ];
        assert_eq!(ready_pod(&slices, "https"), Some(("new".to_owned(), 9444)));
        assert_eq!(ready_pod(&slices[..2], "https"), None, "no Pod is ready");
        assert_eq!(ready_pod(&slices, "http"), None, "there is no such port");
        let unnamed = [slice(&json!({"port": 9443}), &json!([endpoint("one", &json!({}))]))];
        assert_eq!(ready_pod(&unnamed, ""), Some(("one".to_owned(), 9443)), "a missing condition is ready");
        let no_pod = json!([{"addresses": ["10.0.0.1"]}]);
        assert_eq!(ready_pod(&[slice(&named("https", 9443), &no_pod)], "https"), None);
    }

    #[test]
    fn ports_of_services_are_found_by_number() {
        let service = |ports: Value| -> Service { serde_json::from_value(json!({"spec": {"ports": ports}})).unwrap() };
        let two = service(json!([{"name": "metrics", "port": 80}, {"name": "https", "port": 443}]));
        assert_eq!((port_name(&two, 443), port_name(&two, 9443)), (Some("https".to_owned()), None));
        assert_eq!(port_name(&service(json!([{"port": 443}])), 443), Some(String::new()));
    }
}
