//! Cluster API's managers as processes, and the manifests that install them.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, permissions, render_folder, webhooks_at};
use crate::harness::programs;
use crate::harness::server::http_get;

/// How long a manager may take to become ready on a busy machine. The development provider may wait for another stack
/// first.
const START_LIMIT: Duration = Duration::from_mins(10);
const POLL: Duration = Duration::from_millis(100);
/// How many of the last lines of a log a failing test prints, and how many errors before them.
const LOG_LINES: usize = 60;
const LOG_ERRORS: usize = 10;

/// One of Cluster API's managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Core,
    ControlPlane,
    Bootstrap,
    Provider,
}

impl Program {
    pub(super) const ALL: [Self; 4] = [Self::Core, Self::ControlPlane, Self::Bootstrap, Self::Provider];

    /// The name that `tests/kubernetes/build reference` gives the program.
    fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::ControlPlane => "control-plane",
            Self::Bootstrap => "bootstrap",
            Self::Provider => "provider",
        }
    }

    /// The feature gates of an installation of Cluster API with topologies. A take-over turns `ClusterTopology` off in
    /// the core manager alone.
    fn gates(self, core_has_topologies: bool) -> String {
        match self {
            Self::Core => format!(
                "MachinePool=true,ClusterTopology={core_has_topologies},RuntimeSDK=true,InPlaceUpdates=true,\
                MachineTaintPropagation=true"
            ),
            Self::ControlPlane => "MachinePool=true,ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true,\
                MachineTaintPropagation=true"
                .to_owned(),
            Self::Bootstrap => "MachinePool=true,KubeadmBootstrapFormatIgnition=true".to_owned(),
            Self::Provider => "MachinePool=true,ClusterTopology=true".to_owned(),
        }
    }
}

/// A manager with its manifests and the ports that it listens on.
pub(super) struct Part {
    pub(super) program: Program,
    manifests: Vec<Value>,
    namespace: String,
    account: String,
    webhook: u16,
    health: u16,
}

impl Part {
    pub(super) fn new(program: Program) -> Self {
        let manifests = render_folder(&folder().join(format!("{}.config/default", program.name())));
        let deployment = manifests.iter().find(|object| object["kind"] == "Deployment").expect("a Deployment");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let namespace = text(&deployment["metadata"]["namespace"]);
        let account = text(&deployment["spec"]["template"]["spec"]["serviceAccountName"]);
        let [webhook, health] = free_ports();
        Part { program, manifests, namespace, account, webhook, health }
    }

    /// Everything that has to exist before the manager starts.
    pub(super) fn objects(&self, authority: &[u8]) -> Vec<Value> {
        let definitions = definitions_at(self.manifests.clone(), &self.address(), authority);
        [permissions(self.manifests.clone()), definitions].concat()
    }

    /// The webhooks, which work once the manager is ready.
    pub(super) fn webhooks(&self, authority: &[u8]) -> Vec<Value> {
        webhooks_at(self.manifests.clone(), &self.address(), authority)
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.webhook)
    }

    /// Starts the process with the permissions of its manifests; `certificates` has `tls.crt` and `tls.key`.
    pub(super) async fn start(
        &self,
        kubernetes: &Kubernetes,
        certificates: &Path,
        core_has_topologies: bool,
    ) -> Manager {
        let kubeconfig = kubernetes.service_account_kubeconfig(&self.namespace, &self.account).await;
        let log = certificates.join(format!("{}.log", self.program.name()));
        let out = File::options().create(true).append(true).open(&log).expect("a log");
        let mut command = Command::new("bash");
        command.arg(programs::scripts().join("attend"));
        // Variables of the environment; then flock, which becomes the program.
        command
            .args(["POD_IP=127.0.0.1", "DOCKER_HOST=tcp://127.0.0.1:1"])
            .arg(format!("POD_NAMESPACE={}", self.namespace));
        if self.program == Program::Provider {
            command.args(["flock", "--no-fork"]).arg(ports_lock());
        }
        command.arg(folder().join(self.program.name()));
        // Without --leader-elect, which works in a pod only.
        command.arg("--insecure-diagnostics").arg("--diagnostics-address=127.0.0.1:0");
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.arg(format!("--feature-gates={}", self.program.gates(core_has_topologies)));
        command.arg(format!("--webhook-port={}", self.webhook));
        command.arg(format!("--webhook-cert-dir={}", certificates.display()));
        command.arg(format!("--health-addr=127.0.0.1:{}", self.health));
        // In a process group of its own, so that Ctrl-C ends the tests and leaves the script to clean up.
        command.process_group(0).stdin(Stdio::piped()).stdout(out.try_clone().expect("a log")).stderr(out);
        let attendant = command.spawn().expect("tests/kubernetes/attend starts");
        Manager { program: self.program, attendant, log, health: format!("127.0.0.1:{}", self.health) }
    }
}

/// A running manager; dropping it, or ending the process in whatever way, kills it.
pub(super) struct Manager {
    pub(super) program: Program,
    attendant: Child,
    log: PathBuf,
    health: String,
}

impl Manager {
    pub(super) async fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while http_get(&self.health, "/readyz").0 != 200 {
            let ended = self.attendant.try_wait().expect("the attendant can be asked");
            let is_late = started.elapsed() > START_LIMIT;
            assert!(ended.is_none() && !is_late, "{:?} is not ready ({ended:?}):\n{}", self.program, self.log_tail());
            tokio::time::sleep(POLL).await;
        }
    }

    /// The first errors and the last lines of its log, for the message of a failing test.
    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let rest = lines.len().saturating_sub(LOG_LINES);
        // A manager that ends says why first, and then how each of its controllers ends.
        let errors = lines[..rest].iter().filter(|line| line.starts_with('E')).take(LOG_ERRORS);
        let last: Vec<&str> = errors.chain(&lines[rest..]).copied().collect();
        let last = last.join("\n");
        format!("--- {}\n{last}\n", self.program.name())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.attendant.stdin.take());
        let _ = self.attendant.wait();
    }
}

/// Ports that are free now, each another one.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

/// The file that a development provider holds locked while it runs.
///
/// It listens on port 19000, and for each Cluster on a port from 20000 on. These numbers are fixed in its source, so
/// one provider runs at a time in a network namespace; the others wait. No other test listens below 32768.
fn ports_lock() -> PathBuf {
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let network: String = network.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("topologist-development-provider.{network}.{user}.lock"))
}

/// The folder with the programs and their manifests.
pub(super) fn folder() -> PathBuf {
    programs::folder("reference")
}
