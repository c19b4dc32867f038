//! The binary under test as a process.

use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use kube::config::Kubeconfig;
use serde_json::Value;

use super::wait::{self, SOON};

/// How long the lines of a process that has ended may take to be read.
const LAST_LINES: Duration = Duration::from_secs(3);

/// The entries of a log, one a line; a line that is no JSON is a string.
type Log = Arc<Entries>;

type Entries = Mutex<Vec<Value>>;

/// The logs of the processes that run, by the address of their API server.
static LOGS: Mutex<Vec<(String, Weak<Entries>)>> = Mutex::new(Vec::new());

/// The warnings and errors of the processes on the API server of a kubeconfig.
pub fn warnings_at(kubeconfig: &Path) -> String {
    let Some(address) = api_address(kubeconfig) else { return String::new() };
    let logs = LOGS.lock().unwrap();
    let ours = logs.iter().filter(|(at, _)| *at == address).filter_map(|(_, log)| log.upgrade());
    ours.map(|log| warnings(&log.lock().unwrap())).collect()
}

/// Host and port of the API server of a kubeconfig.
fn api_address(kubeconfig: &Path) -> Option<String> {
    let server = Kubeconfig::read_from(kubeconfig).ok()?.clusters.pop()?.cluster?.server?;
    let uri: http::Uri = server.parse().ok()?;
    uri.authority().map(ToString::to_string)
}

fn note_log(address: String, log: &Log) {
    let mut logs = LOGS.lock().unwrap();
    logs.retain(|(_, log)| log.strong_count() > 0);
    logs.push((address, Arc::downgrade(log)));
}

/// The value of `--kubeconfig`.
fn kubeconfig(command: &Command) -> Option<PathBuf> {
    let mut arguments = command.get_args();
    arguments.find(|argument| *argument == "--kubeconfig")?;
    arguments.next().map(PathBuf::from)
}

/// A `topologist serve` that is up.
pub struct Topologist {
    child: Child,
    /// Kills the child when this process ends, however it ends: a static is never dropped.
    watchdog: Child,
    log: Log,
    /// `127.0.0.1:port` of the webhook.
    pub webhook: String,
    /// `127.0.0.1:port` of conversions.
    pub conversions: String,
    /// `127.0.0.1:port` of probes and metrics.
    pub admin: String,
    /// `127.0.0.1:port` of the API of --embedded; empty without it.
    pub api: String,
}

/// How the line about objects begins that were not checked, for want of their definitions.
pub const NOT_CHECKED: &str = "topologist: not checked against CustomResourceDefinitions";

/// What a command says apart from that line.
pub fn without_not_checked(output: &str) -> String {
    output.split_inclusive('\n').filter(|line| !line.starts_with(NOT_CHECKED)).collect()
}

/// The binary with these arguments, and no environment of ours.
pub fn command(arguments: &[&str]) -> Command {
    command_of(env!("CARGO_BIN_EXE_topologist").as_ref(), arguments)
}

fn command_of(program: &OsStr, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TOPOLOGIST_")) {
        command.env_remove(name);
    }
    // Whoever does not say otherwise: many servers run at once.
    command.env("TOPOLOGIST_API_ADDR", "127.0.0.1:0");
    command.env("TOPOLOGIST_WORKLOAD_ADDR", "127.0.0.1:0");
    command.env("TOPOLOGIST_CONVERSION_ADDR", "127.0.0.1:0");
    command
}

/// The same command after a shell command that changes what its process is given: limits, file systems.
pub fn after(preparation: &str, command: &Command) -> Command {
    let mut prepared = Command::new("unshare");
    // Mounts of its own; without being root, rights on them come with a user namespace.
    let is_root = rustix::process::geteuid().is_root();
    prepared.args(if is_root { &["--mount"][..] } else { &["--user", "--map-root-user", "--mount"] });
    prepared.args(["bash", "-c", &format!("{preparation} && exec \"$0\" \"$@\"")]);
    prepared.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => prepared.env(name, value),
            None => prepared.env_remove(name),
        };
    }
    prepared
}

/// Makes the file system read-only, as `readOnlyRootFilesystem` does; `/tmp` may be another one.
pub const READ_ONLY: &str = "mount -o remount,bind,ro / && { mount -o remount,bind,ro /tmp 2>/dev/null || true; }";

/// `serve` on free ports, with a log that is read. Every second one is of the version before, if `TOPOLOGIST_PREVIOUS`
/// says where that is.
pub fn serving(arguments: &[&str]) -> Command {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let addresses = ["serve", "--log-format=json", "--webhook-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"];
    let all = [&addresses, arguments].concat();
    let previous = std::env::var_os("TOPOLOGIST_PREVIOUS");
    let previous = previous.filter(|_| COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(2));
    previous.map_or_else(|| command(&all), |previous| command_of(&previous, &all))
}

impl Topologist {
    /// Starts `serve` on free ports and waits until it listens.
    pub fn serve(arguments: &[&str]) -> Self {
        Self::launch(serving(arguments))
    }

    /// Starts a command that serves and logs in JSON, and waits until it listens.
    pub fn launch(command: Command) -> Self {
        let mut started = Self::spawn(command);
        started.wait_until_serving();
        started
    }

    /// Starts a command that serves and logs in JSON.
    pub fn spawn(mut command: Command) -> Self {
        let address = kubeconfig(&command).and_then(|path| api_address(&path));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let watchdog = Command::new("bash")
            .args(["-c", "cat >/dev/null; kill -KILL \"$0\" 2>/dev/null", &child.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let log = Log::default();
        address.into_iter().for_each(|address| note_log(address, &log));
        let stderr = child.stderr.take().expect("stderr is piped");
        std::thread::spawn({
            let log = log.clone();
            move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                    log.lock().unwrap().push(entry);
                }
            }
        });
        let [webhook, conversions, admin, api] = [const { String::new() }; 4];
        Topologist { child, watchdog, log, webhook, conversions, admin, api }
    }

    /// Waits until it listens.
    pub fn wait_until_serving(&mut self) {
        let entry = self.wait_for_log("Serving");
        let address = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (self.webhook, self.conversions) = (address("webhook"), address("conversions"));
        (self.admin, self.api) = (address("admin"), address("api"));
        if !self.api.is_empty() {
            note_log(self.api.clone(), &self.log);
        }
    }

    /// Waits for a log line with this message.
    pub fn wait_for_log(&mut self, message: &str) -> Value {
        self.wait_for_log_where(message, |_| true)
    }

    /// Waits for a log line with this message that satisfies a condition.
    pub fn wait_for_log_where(&mut self, message: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut deadline = Instant::now() + SOON;
        let mut ended = None;
        loop {
            let found =
                self.log.lock().unwrap().iter().find(|entry| entry["message"] == message && condition(entry)).cloned();
            if let Some(entry) = found {
                return entry;
            }
            if ended.is_none() {
                ended = self.child.try_wait().expect("the child can be asked");
                if ended.is_some() {
                    // Its last lines may not have been read yet.
                    deadline = deadline.min(Instant::now() + LAST_LINES);
                }
            }
            assert!(Instant::now() < deadline, "no {message:?} in the log ({ended:?}):\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The log so far, one entry a line.
    pub fn log_text(&self) -> String {
        text(&self.log.lock().unwrap())
    }

    /// The warnings and errors in the log so far, one entry a line.
    pub fn warnings(&self) -> String {
        warnings(&self.log.lock().unwrap())
    }

    /// The answer of `/readyz`, `/healthz` or `/metrics`: status and body.
    pub fn admin_get(&self, path: &str) -> (u16, String) {
        http_get(&self.admin, path)
    }

    /// Its memory and processor time; `None` if it has ended.
    pub fn figures(&self) -> Option<ProcessFigures> {
        ProcessFigures::for_process(self.child.id())
    }

    /// The value of a metric without labels, or with exactly these labels as they are rendered.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.admin_get("/metrics");
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until `/readyz` says yes.
    pub fn wait_until_ready(&self) {
        let is_ready = || self.admin_get("/readyz").0 == 200;
        wait::until("the server is ready", SOON, is_ready, || {
            format!("{:?}\n{}", self.admin_get("/readyz"), self.log_text())
        });
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        let (child, log) = (&mut self.child, &self.log);
        wait::until_some("the process ends", SOON, || child.try_wait().unwrap(), || text(&log.lock().unwrap()))
    }
}

fn warnings(log: &[Value]) -> String {
    let warnings = log.iter().filter(|entry| entry["level"] == "WARN" || entry["level"] == "ERROR");
    warnings.map(|entry| format!("{entry}\n")).collect()
}

fn text(log: &[Value]) -> String {
    log.iter().map(|entry| format!("{entry}\n")).collect()
}

/// The memory of a process, and the time that it has run on processors.
#[derive(Clone, Copy, Debug)]
pub struct ProcessFigures {
    /// The most memory that it has used, in MiB.
    pub peak: u64,
    /// In seconds.
    pub processor_time: f64,
}

impl ProcessFigures {
    /// The figures of a process that runs.
    pub fn for_process(process: u32) -> Option<Self> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).ok();
        let status = read("status")?;
        let peak: u64 =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
        // The fields after the name, which may hold anything: user and system time are the 12th and 13th of them, in
        // 1/100 s.
        let stat = read("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks: u32 = fields.get(11..13)?.iter().filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
        Some(ProcessFigures { peak: peak / 1024, processor_time: f64::from(ticks) / 100.0 })
    }
}

impl fmt::Display for ProcessFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessFigures { peak, processor_time } = self;
        write!(f, "{peak} MiB at most, {processor_time:.2} s of processor time")
    }
}

impl Drop for Topologist {
    fn drop(&mut self) {
        // With `--nocapture`, what each test took of the process.
        if let (Some(test), Some(figures)) = (std::thread::current().name(), self.figures()) {
            println!("{test}: {figures}");
        }
        // A test that fails because a command of kubectl does has no other place that says why.
        if std::thread::panicking() {
            println!("warnings of topologist (process {}):\n{}", self.child.id(), self.warnings());
        }
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A GET over plain HTTP on loopback.
pub fn http_get(address: &str, path: &str) -> (u16, String) {
    use std::io::Write;
    let Ok(mut stream) = std::net::TcpStream::connect(address) else { return (0, String::new()) };
    stream.set_read_timeout(Some(SOON)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).is_err() {
        return (0, String::new());
    }
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Makes a CA and a serving certificate for loopback with the program's own command.
pub fn make_certificates(folder: &Path) {
    let out = folder.to_str().unwrap();
    let status = command(&["certs", "--force", "--out", out, "--host", "127.0.0.1", "--host", "localhost"])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}
