//! A Runtime Extension with two patches, which counts its calls.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use extension::{Extension, PatchRequest, Patches};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use topologist::tls::authority::IssuedCertificate;

const NAME: &str = "counting";
const PATCHES: [&str; 2] = ["first", "second"];

/// The extension. It serves until it is dropped.
pub struct Counting {
    calls: Arc<AtomicUsize>,
    port: u16,
    ca: String,
    _runtime: Runtime,
}

impl Counting {
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        let (ca, calls) = (issued.authority.clone(), Arc::new(AtomicUsize::new(0)));
        let extension = PATCHES.into_iter().fold(Extension::new(), |extension, name| {
            let calls = calls.clone();
            extension.generate_patches(name, move |request: &PatchRequest, patches: &mut Patches| {
                calls.fetch_add(1, Ordering::Relaxed);
                let of_workers = request.items.iter().filter(|item| item.object["kind"] == "EmbeddedConfigTemplate");
                of_workers.for_each(|item| patches.merge(item, &json!({"metadata": {"labels": {name: "yes"}}})));
                Ok(())
            })
        });
        runtime.spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let files = [("tls.crt", &issued.certificate), ("tls.key", &issued.key)].map(|(name, text)| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                path
            });
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            extension.serve(listener, &files[0], &files[1], std::future::pending()).await.unwrap();
        });
        Counting { calls, port, ca, _runtime: runtime }
    }

    /// How often it has been asked for patches.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub fn config(&self) -> Value {
        let url = format!("https://127.0.0.1:{}", self.port);
        let spec =
            json!({"clientConfig": {"url": url, "caBundle": STANDARD.encode(&self.ca)}, "namespaceSelector": {}});
        json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": NAME},
            "spec": spec})
    }

    /// The patches of a class that call it.
    pub fn patches() -> impl Iterator<Item = Value> {
        PATCHES
            .into_iter()
            .map(|name| json!({"name": name, "external": {"generatePatchesExtension": format!("{name}.{NAME}")}}))
    }
}
