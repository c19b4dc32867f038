use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use futures::future::join_all;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use engine::extensions::Selector;
use model::world::PatchHook;
use tls::authority::IssuedCertificate;
use tls::identity::ServerIdentity;
use tls::pair::CertificateFiles;

/// Extensions with one whose only handler ignores failures, at a port of this machine.
fn extensions(port: u16) -> ExtensionCaller {
    // Every namespace is selected, so nothing is read from the cluster.
    let client = kube::Client::new(
        tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no request is expected"))
        }),
        "default",
    );
    let extensions = ExtensionCaller::new(client, Clients::new(None), Arc::default());
    let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "GeneratePatches"});
    let handler = json!({"name": "gen", "requestHook": hook, "failurePolicy": "Ignore", "timeoutSeconds": 30});
    let certificate = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap();
    register(&extensions, port, &certificate.pem(), &[handler]);
    extensions
}

/// Registers an extension with these handlers.
fn register(extensions: &ExtensionCaller, port: u16, ca: &str, handlers: &[Value]) {
    let answer = json!({"status": "Success", "handlers": handlers}).to_string();
    let registration =
        Registration::from_discovery("ext", &RawValue::from_string(answer).unwrap(), BTreeMap::new()).unwrap();
    extensions.change(|registry| {
        registry.register(
            "ext",
            RegisteredConfig {
                registration,
                version: "1".to_owned(),
                address: BaseUrl::parse(&format!("https://127.0.0.1:{port}")).unwrap(),
                ca: ca.as_bytes().to_vec(),
                selector: Selector::Everything,
            },
        );
    });
}

/// An extension whose handlers answer a hook after some time.
struct Slow {
    port: u16,
    issued: IssuedCertificate,
    handlers: Vec<&'static str>,
    called: Arc<Mutex<Vec<String>>>,
}

impl Slow {
    /// Handlers, each with the milliseconds and the seconds of `retryAfterSeconds` of its answers.
    async fn start(handlers: &[(&'static str, u64, u32)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        let identity = ServerIdentity::new(None, Arc::new(()));
        let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
        identity.install(&issued.pair(), &files).unwrap();
        let acceptor = TlsAcceptor::from(identity.config().unwrap());
        let called = Arc::new(Mutex::new(Vec::new()));
        let (answers, calls) = (handlers.to_vec(), called.clone());
        let router = Router::new().fallback(move |request: Request| {
            let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let (_, millis, seconds) = *answers.iter().find(|(handler, ..)| *handler == name).unwrap();
            calls.lock().unwrap().push(name);
            async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                json!({"status": "Success", "retryAfterSeconds": seconds, "message": "later"}).to_string()
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
                tokio::spawn(async move {
                    let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
                    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await;
                });
            }
        });
        Slow { port, issued, handlers: handlers.iter().map(|(name, ..)| *name).collect(), called }
    }

    /// What a process that begins knows of it.
    fn extensions(&self) -> ExtensionCaller {
        let extensions = extensions(self.port);
        let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate"});
        let handler = |name: &&str| json!({"name": name, "requestHook": hook, "timeoutSeconds": 30});
        let handlers: Vec<Value> = self.handlers.iter().map(handler).collect();
        register(&extensions, self.port, &self.issued.authority, &handlers);
        extensions
    }

    fn called(&self) -> String {
        self.called.lock().unwrap().join(" ")
    }
}

/// The hook for a Cluster with this version, in a run that calls extensions for this time.
async fn before_create(
    extensions: &ExtensionCaller,
    version: &str,
    patience: Duration,
) -> Result<Found<HookAnswer>, String> {
    // Metadata and status differ in each run.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let cluster = json!({"metadata": {"resourceVersion": run.to_string()}, "spec": {"topology": {"version": version}}});
    let request = json!({"kind": "BeforeClusterCreateRequest", "cluster": cluster}).to_string();
    let call = HookCall { hook: Hook::BeforeClusterCreate, cluster: ObjectKey::new("ns", "c"), request };
    extensions.hook(&call, Instant::now() + patience).await.map_err(|error| error.to_string())
}

/// Time for every handler.
const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn handlers_of_a_hook_that_take_long_together_are_called_in_several_runs() {
    // RH-8.1, RS-10
    const SHORT: Duration = Duration::from_millis(800);
    let slow = Slow::start(&[("a", 1000, 0), ("b", 1000, 0), ("c", 0, 0)]).await;
    let extensions = slow.extensions();
    let run = async |version: &str, patience| before_create(&extensions, version, patience).await;
    let late = |name: &str| {
        let why = "the calls before it took longer than a run may take for them; it is called in a later run";
        Err(format!("handler {name:?} is not called: {why}"))
    };
    let done = Ok(Found::Yes(HookAnswer::Done));
    for (want, called) in [(late("b"), "a"), (late("c"), "a b"), (done.clone(), "a b c")] {
        assert_eq!((run("v1.33.0", SHORT).await, slow.called()), (want, called.to_owned()));
    }
    // All have passed: answers of earlier runs are not used again.
    assert_eq!((run("v1.33.0", LONG).await, slow.called()), (done.clone(), "a b c a b c".to_owned()));
    // Nor for another question.
    assert_eq!(run("v1.33.0", SHORT).await, late("b"));
    assert_eq!((run("v1.34.0", LONG).await, slow.called()), (done, "a b c a b c a a b c".to_owned()));
}

#[tokio::test]
async fn a_handler_that_blocks_is_called_in_the_next_run_after_one_that_ended_early() {
    // RH-9.3
    let slow = Slow::start(&[("a", 1000, 600), ("b", 0, 0)]).await;
    let extensions = slow.extensions();
    assert!(before_create(&extensions, "v1.33.0", Duration::from_millis(800)).await.is_err());
    let blocked = Ok(Found::Yes(HookAnswer::Retry { after_seconds: 600, message: "later, later".to_owned() }));
    assert_eq!(before_create(&extensions, "v1.33.0", LONG).await, blocked);
    assert_eq!(slow.called(), "a a b");
}

#[tokio::test]
async fn a_process_that_begins_calls_hooks_again() {
    // RH-9.3, RH-9.7
    for (seconds, of_one_process, of_both) in [(0, "a a", "a a a"), (600, "a", "a a")] {
        let slow = Slow::start(&[("a", 0, seconds)]).await;
        let first = slow.extensions();
        for _ in 0..2 {
            before_create(&first, "v1.33.0", LONG).await.unwrap();
        }
        assert_eq!(slow.called(), of_one_process, "{seconds}");
        before_create(&slow.extensions(), "v1.33.0", LONG).await.unwrap();
        assert_eq!(slow.called(), of_both, "{seconds}");
    }
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
    assert_eq!(ignored.unwrap(), Found::Yes(PatchAnswer::Patches(Arc::default())), "the call has failed");
    let late = extensions.patch(&call("c"), Instant::now()).await;
    let want = "handler \"gen\" is not called: the calls before it took longer than a run may take for them; it is \
                called in a later run";
    assert_eq!(late.unwrap_err().to_string(), want);
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
        let want = "handler \"gen\" is not called: its extension has 16 calls to answer";
        assert_eq!(refused.unwrap_err().to_string(), want);
    }
    // Connections that end let others go on.
    drop((connections, hanging));
    for task in made {
        assert_eq!(task.await.unwrap().unwrap(), Found::Yes(PatchAnswer::Patches(Arc::default())));
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
