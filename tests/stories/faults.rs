//! Faults of the machine: what the process is given is full, small, or not writable.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::server::{READ_ONLY, after, command};
use crate::harness::tls_client::{Connection, Protocol};
use crate::harness::wait::SOON;
use crate::serving::VALIDATE;

/// A server whose output goes where a test says.
struct Server {
    child: Child,
    webhook: String,
    authority: Vec<u8>,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn quick_start() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start")
}

/// `serve` with the objects of the quick start, and its state in `state`.
fn serve(state: &Path) -> Command {
    let (load, state) = (quick_start().display().to_string(), state.display().to_string());
    let addresses = ["--webhook-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--shutdown-grace=1s"];
    let objects = ["--embedded", "--controllers=none", "--load", &load, "--state-dir", &state];
    command(&[&["serve"][..], &addresses, &objects].concat())
}

impl Server {
    /// Starts, and waits for the greeting, which says where reviews are answered.
    fn start(change: impl FnOnce(Command) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let mut child = change(serve(&state)).stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let webhook = greeting.split("https://").nth(1).and_then(|rest| rest.split_whitespace().next());
        let webhook = webhook.unwrap_or_else(|| panic!("no address in {greeting:?}")).to_owned();
        let authority = fs::read(state.join("ca.crt")).unwrap();
        Server { child, webhook, authority, _folder: folder }
    }

    async fn connect(&self) -> Connection {
        Connection::open(&self.webhook, &self.authority, Protocol::Http2).await.unwrap()
    }
}

async fn is_allowed(connection: &mut Connection) -> bool {
    let review = fs::read_to_string(quick_start().join("review.json")).unwrap();
    let (code, body) = connection.post(VALIDATE, review).await.unwrap();
    assert_eq!(code.as_u16(), 200, "{body}");
    let is_allowed = serde_json::from_str::<Value>(&body).unwrap()["response"]["allowed"] == true;
    assert!(is_allowed, "{body}");
    is_allowed
}

#[tokio::test]
async fn a_full_log_device_stops_nothing() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut server = Server::start(|mut command| {
        command.stderr(full());
        command
    });
    let mut connection = server.connect().await;
    for _ in 0..20 {
        assert!(is_allowed(&mut connection).await);
    }
    drop(connection);
    assert!(Command::new("kill").arg("-TERM").arg(server.child.id().to_string()).status().unwrap().success());
    let deadline = Instant::now() + SOON;
    let status = loop {
        match server.child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > deadline => panic!("it does not end"),
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn with_little_memory_large_bodies_are_rejected_and_others_answered() {
    // DEC-44, DEC-46
    let server = Server::start(|command| {
        // In KiB: three times as much as is divided, since that is address space and not memory.
        let mut limited = after("ulimit -v 786432", &command);
        limited.arg("--memory-limit=256Mi").stderr(Stdio::null());
        limited
    });
    let mut connection = server.connect().await;
    let wide = "{},".repeat(2_000_000);
    let class = r#"{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"ClusterClass","metadata":{"name":"c","namespace":"n"},"spec":{"variables":["#;
    let review = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"CREATE","name":"c","namespace":"n",
        "kind":{{"group":"cluster.x-k8s.io","version":"v1beta2","kind":"ClusterClass"}},"object":{class}{wide}{{}}]}}}}}}}}"#
    );
    for _ in 0..3 {
        let path = "/validate-cluster-x-k8s-io-v1beta2-clusterclass?timeout=30s";
        let (code, body) = connection.post(path, review.clone()).await.unwrap();
        assert!(code.as_u16() == 200 && body.contains("JSON objects, and the limit is"), "{code} {body}");
        assert!(is_allowed(&mut connection).await);
    }
    let mut other = server.connect().await;
    let large = " ".repeat(40 << 20);
    if let Ok((code, _)) = other.post(VALIDATE, large).await {
        assert_eq!(code.as_u16(), 413);
    }
    assert!(is_allowed(&mut connection).await);
}

#[test]
fn a_process_that_may_open_too_few_files_does_not_start() {
    // It would be ready, and its watches would fail.
    let folder = tempfile::tempdir().unwrap();
    let output = after("ulimit -n 64", &serve(folder.path())).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the process may open 64 files, and needs 224 at least"), "{text}");
}

#[test]
fn a_folder_that_cannot_be_created_is_named() {
    let state = Path::new("/proc/nowhere");
    let output = serve(state).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cannot create the directory /proc/nowhere (--state-dir): "), "{text}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = after(READ_ONLY, &serve(folder.path())).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let path = folder.path().display();
    assert!(text.contains(&format!("{path}")) && text.contains("Read-only file system"), "{text}");
}
