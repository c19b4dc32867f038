//! A Runtime Extension that is written with Cluster API's module, registered for the namespace of one story.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::site::Site;
use crate::harness::programs;
use crate::harness::server::make_certificates;

/// The running extension of `tests/kubernetes/extension`. A lifecycle hook of it blocks while the Cluster has the
/// annotation of the hook.
pub(crate) struct Extension {
    attendant: Child,
    folder: tempfile::TempDir,
}

impl Extension {
    /// Starts it, and waits until its handlers are discovered.
    pub(crate) async fn start(site: &Site) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let out = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("bash");
        command.arg(programs::scripts().join("attend")).arg(program()).arg("--port").arg(port.to_string());
        command.arg("--cert-dir").arg(folder.path());
        command.process_group(0).stdin(Stdio::piped()).stdout(out.try_clone().unwrap()).stderr(out);
        let attendant = command.spawn().expect("tests/kubernetes/attend starts");
        let extension = Extension { attendant, folder };
        let authority = STANDARD.encode(std::fs::read(extension.folder.path().join("ca.crt")).unwrap());
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": site.namespace()}});
        let client = json!({"url": format!("https://127.0.0.1:{port}"), "caBundle": authority});
        site.apply(&json!({
            "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
            "metadata": {"name": site.namespace()}, "spec": {"clientConfig": client, "namespaceSelector": selector},
        }));
        let name = format!("extensionconfig/{}", site.namespace());
        let is_discovered = async || {
            let object = site.get(&name).unwrap();
            object["status"]["handlers"].as_array().is_some_and(|handlers| !handlers.is_empty())
        };
        site.until("the extension is discovered", is_discovered).await;
        extension
    }

    /// The hooks that were called, in their order.
    pub(crate) fn called(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.lines().filter_map(|line| line.strip_prefix("called ")).map(str::to_owned).collect()
    }

    /// The annotation that makes a hook block.
    pub(crate) fn hold(hook: &str) -> String {
        format!("go.example.com/hold-{}", hook.to_lowercase())
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        drop(self.attendant.stdin.take());
        let _ = self.attendant.wait();
    }
}

/// The program, built if need be.
fn program() -> PathBuf {
    programs::folder("extension").join("extension")
}
