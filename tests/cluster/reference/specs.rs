//! Cluster API's own end-to-end specs, on Cluster API alone and after a take-over.
//!
//! ```text
//!  test ──► unshare ──► the same test, in a network of its own ──► stack, test extension (port 443)
//!                            └──► specs: a process for each spec, of which some run at once ──► kube-apiserver
//! ```
//!
//! The specs name a Service for the test extension, and the development provider has fixed ports: a network of one's
//! own has both.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use super::managers;
use super::stack::Stack;
use crate::harness::kustomize::{permissions, render_folder, stream};
use crate::harness::programs;
use crate::harness::server::{command, http_get};

/// Is set for the test in its own network.
const INSIDE: &str = "TOPOLOGIST_TEST_SPECS_INSIDE";
/// The Service of the test extension, as the specs name it.
const EXTENSION: (&str, &str) = ("test-extension-system", "test-extension-webhook-service");
const START_LIMIT: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of `make reference`"]
async fn own_specs_of_cluster_api_pass_on_cluster_api_alone() {
    if is_in_own_network("own_specs_of_cluster_api_pass_on_cluster_api_alone") {
        let stack = Stack::alone().await;
        run(&stack, "alone").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of `make reference`"]
async fn own_specs_of_cluster_api_pass_after_a_take_over() {
    if is_in_own_network("own_specs_of_cluster_api_pass_after_a_take_over") {
        let stack = Stack::alone().await;
        stack.take_over().await;
        run(&stack, "take-over").await;
    }
}

/// Whether this process is in a network of its own. Otherwise the test has passed in another process that is.
fn is_in_own_network(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    let (namespace, service) = EXTENSION;
    std::fs::write(&hosts, format!("127.0.0.1 localhost {service}.{namespace}.svc\n")).unwrap();
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut inside = with_parent("unshare");
    inside.args(["--net", "--mount"]);
    if !rustix::process::geteuid().is_root() {
        inside.arg("--map-root-user");
    }
    inside.args(["sh", "-ec", "ip link set lo up; mount --bind \"$0\" /etc/hosts; exec \"$@\""]).arg(&hosts);
    inside.arg(std::env::current_exe().unwrap()).arg(format!("{module}::{test}")).args([
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    let status = inside.env(INSIDE, "1").status().expect("unshare of util-linux");
    assert!(status.success(), "{status}");
    false
}

/// A program that is killed when the thread ends that starts it.
fn with_parent(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// Runs the specs, whose logs stay in a folder of the target directory.
async fn run(stack: &Stack, name: &str) {
    let extension = Extension::start(stack).await;
    let artifacts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("specs").join(name);
    if artifacts.exists() {
        std::fs::remove_dir_all(&artifacts).unwrap();
    }
    let folder = programs::folder("specs");
    let kustomize = programs::folder("kustomize").join("kustomize");
    let mut specs = with_parent(folder.join("specs"));
    specs.arg("-kubeconfig").arg(stack.kubernetes.kubeconfig()).arg("-data").arg(folder.join("specs.data"));
    specs.arg("-kustomize").arg(kustomize).arg("-artifacts").arg(&artifacts);
    // How many run at once, the factor for waiting, and names, if not all.
    let arguments = std::env::var("TOPOLOGIST_TEST_SPECS").unwrap_or_default();
    specs.args(arguments.split_whitespace());
    let started = Instant::now();
    let status = tokio::task::spawn_blocking(move || specs.status().unwrap()).await.unwrap();
    println!("{name}: {status} after {} s; logs are in {}", started.elapsed().as_secs(), artifacts.display());
    assert!(status.success(), "{}{}", stack.logs(""), extension.log());
}

/// Cluster API's test extension; dropping it, or ending the process in whatever way, kills it.
struct Extension {
    attendant: Child,
    log: PathBuf,
    _folder: TempDir,
}

impl Extension {
    async fn start(stack: &Stack) -> Self {
        let (namespace, service) = EXTENSION;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let out = folder.path().to_str().unwrap();
        let host = format!("{service}.{namespace}.svc");
        let mut certificates = command(&["certs", "--force", "--out", out, "--host", &host]);
        assert!(certificates.stdout(Stdio::null()).status().unwrap().success());

        let programs = managers::folder();
        let manifests = render_folder(&programs.join("test-extension.config/default"));
        let text = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": format!("{service}-cert"), "namespace": namespace},
            "stringData": {"tls.crt": text("tls.crt"), "tls.key": text("tls.key"), "ca.crt": text("ca.crt")},
        });
        stack.kubernetes.apply_yaml(&stream(&[permissions(manifests), vec![secret]].concat())).await;
        let kubeconfig = stack.kubernetes.service_account_kubeconfig(namespace, "test-extension-manager").await;

        let health = free_address();
        let log = path("log");
        let file = std::fs::File::create(&log).unwrap();
        let mut extension = Command::new("bash");
        extension.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/attend"));
        extension.arg(programs.join("test-extension")).arg(format!("--kubeconfig={}", kubeconfig.display()));
        extension.args(["--webhook-port=443", "--insecure-diagnostics", "--diagnostics-address=127.0.0.1:0"]);
        extension.arg(format!("--webhook-cert-dir={out}")).arg(format!("--health-addr={health}"));
        extension.stdin(Stdio::piped()).stdout(file.try_clone().unwrap()).stderr(file);
        let attendant = extension.spawn().unwrap();
        let extension = Extension { attendant, log, _folder: folder };
        let started = Instant::now();
        while http_get(&health, "/readyz").0 != 200 {
            assert!(started.elapsed() < START_LIMIT, "the test extension is not ready:\n{}", extension.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        extension
    }

    /// The last lines of its log.
    fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("--- test extension\n{}\n", lines[lines.len().saturating_sub(60)..].join("\n"))
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        drop(self.attendant.stdin.take());
        let _ = self.attendant.wait();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
