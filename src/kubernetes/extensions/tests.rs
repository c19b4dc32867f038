use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use super::*;
use crate::extensions::Selector;
use crate::world::PatchHook;

/// Extensions with one whose only handler ignores failures, at a port of this machine.
fn extensions(port: u16) -> Extensions {
    // Every namespace is selected, so nothing is read from the cluster.
    let client = kube::Client::new(
        tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no request is expected"))
        }),
        "default",
    );
    let extensions = Extensions::new(client, Clients::new(None), Arc::default());
    let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "GeneratePatches"});
    let handler = json!({"name": "gen", "requestHook": hook, "failurePolicy": "Ignore", "timeoutSeconds": 30});
    let answer = json!({"status": "Success", "handlers": [handler]}).to_string();
    let registration = Registration::of("ext", &RawValue::from_string(answer).unwrap(), BTreeMap::new()).unwrap();
    let certificate = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap();
    extensions.change(|registry| {
        registry.register(
            "ext",
            Registered {
                registration,
                version: "1".to_owned(),
                address: Address::parse(&format!("https://127.0.0.1:{port}")).unwrap(),
                ca: certificate.pem().into_bytes(),
                selector: Selector::Everything,
            },
        );
    });
    extensions
}

fn call(cluster: &str) -> PatchCall {
    let request = json!({"kind": "GeneratePatchesRequest", "cluster": cluster, "items": []}).to_string();
    let (extension, cluster) = ("gen.ext".to_owned(), ObjectKey::new("ns", cluster));
    PatchCall { hook: PatchHook::GeneratePatches, extension, cluster, request }
}

#[tokio::test]
async fn the_failure_policy_decides_about_calls_that_were_made() {
    // RH-7.3
    // A port at which nothing listens.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let extensions = extensions(port);
    let soon = Instant::now() + Duration::from_secs(30);
    let ignored = extensions.patch(&call("c"), soon).await;
    assert_eq!(ignored, Ok(Found::Yes(PatchAnswer::Patches(Arc::default()))), "the call has failed");
    let late = extensions.patch(&call("c"), Instant::now()).await;
    assert_eq!(late, Err("handler \"gen\" is not called: the calls before it took too long".to_owned().into()));
}

#[tokio::test]
async fn an_extension_that_hangs_holds_up_a_bounded_number_of_runs() {
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let extensions = Arc::new(extensions(hanging.local_addr().unwrap().port()));
    let soon = Instant::now() + Duration::from_secs(30);
    let made: Vec<_> = (0..CALLS)
        .map(|at| {
            let extensions = extensions.clone();
            tokio::spawn(async move { extensions.patch(&call(&format!("c{at}")), soon).await })
        })
        .collect();
    let mut connections = Vec::new();
    for _ in 0..CALLS {
        connections.push(hanging.accept().await.unwrap());
    }
    let more = join_all((0..3).map(|at| {
        let extensions = extensions.clone();
        async move { extensions.patch(&call(&format!("d{at}")), soon).await }
    }));
    for refused in more.await {
        assert_eq!(
            refused,
            Err("handler \"gen\" is not called: its extension has 16 calls to answer".to_owned().into())
        );
    }
    // Connections that end let others go on.
    drop((connections, hanging));
    for task in made {
        assert_eq!(task.await.unwrap(), Ok(Found::Yes(PatchAnswer::Patches(Arc::default()))));
    }
    assert!(extensions.patch(&call("e"), soon).await.is_ok());
}

#[tokio::test]
async fn extensions_that_are_not_known_yet_give_no_answer() {
    // RH-3.7, DEC-100
    let extensions = extensions(1);
    let soon = Instant::now() + Duration::from_secs(30);
    let needs = [call("c").need()];
    let answer = async || extensions.answer(&needs[0], soon).await.map(|answer| answer.is_some());
    assert_eq!(answer().await, Ok(true), "it fails, which is an answer");
    extensions.reset();
    assert_eq!(answer().await, Err(Unlisted::ExtensionConfigs));
    assert!(!extensions.has(&Unlisted::ExtensionConfigs));
    extensions.change(|registry| registry.expect("ext", std::collections::BTreeSet::new(), Selector::Everything));
    let pending = Unlisted::Extension("ext".to_owned());
    assert_eq!(answer().await, Err(pending.clone()));
    assert!(extensions.has(&Unlisted::ExtensionConfigs) && !extensions.has(&pending));
    extensions.change(|registry| registry.failed("ext", "refused"));
    assert_eq!(answer().await, Ok(true), "a failure is an answer");
    assert!(extensions.has(&pending));
}

#[tokio::test]
async fn nothing_is_kept_of_an_extension_that_is_gone() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let extensions = extensions(port);
    assert!(extensions.patch(&call("c"), Instant::now() + Duration::from_secs(30)).await.is_ok());
    assert_eq!(extensions.calls.lock().unwrap().len(), 1);
    extensions.change(|registry| registry.unregister("other"));
    assert_eq!(extensions.calls.lock().unwrap().len(), 1);
    extensions.change(|registry| registry.unregister("ext"));
    assert!(extensions.calls.lock().unwrap().is_empty());
}
