//! Servers in processes of their own, so that their time and memory can be told apart from the client's.
#![allow(dead_code, reason = "each benchmark uses a part of the shared support")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server.
pub struct Process {
    child: Child,
    log: PathBuf,
    /// `127.0.0.1:port`
    pub address: String,
}

impl Process {
    /// Starts a server that announces its address on standard output as `https://…`; its log goes to a file.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let (file, log) = (std::fs::File::create(log).unwrap(), log.to_owned());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let line = BufReader::new(out).lines().map_while(Result::ok).find(|line| line.contains("https://"));
        let line = line.expect("the server says where it listens");
        let address = line.split("https://").nth(1).unwrap();
        let address = address.chars().take_while(|c| !matches!(c, ',' | ' ')).collect();
        Process { child, log, address }
    }

    /// `topologist serve` with the certificates of a folder.
    pub fn topologist(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_topologist"));
        command
            .args(["serve", "--webhook-addr=127.0.0.1:0", "--conversion-addr=127.0.0.1:0"])
            .args(["--api-addr=127.0.0.1:0", "--workload-addr=127.0.0.1:0"])
            .args(arguments);
        command
            .arg("--state-dir")
            .arg(folder)
            .arg("--tls-cert")
            .arg(folder.join("tls.crt"))
            .arg("--tls-key")
            .arg(folder.join("tls.key"));
        Self::start(&mut command, &folder.join("log"))
    }

    /// Waits until the log has so many lines with this text.
    pub fn wait_for(&self, text: &str, lines: usize) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while std::fs::read_to_string(&self.log).unwrap().lines().filter(|line| line.contains(text)).count() < lines {
            assert!(Instant::now() < deadline, "no {text:?} in {}", self.log.display());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Processor time so far, user and system, in seconds.
    pub fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(self.file("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        // USER_HZ, which Linux fixes at 100 for programs.
        ticks / 100.0
    }

    /// A field of its status, such as `VmRSS`, in MB.
    pub fn megabytes(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(self.file("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string()).join(name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes `ca.crt`, `tls.crt` and `tls.key` for loopback into a folder, and returns the first.
pub fn certificates(folder: &Path) -> String {
    let issued =
        topologist::tls::authority::IssuedCertificate::generate(&["localhost".into(), "127.0.0.1".into()], 1).unwrap();
    std::fs::write(folder.join("tls.crt"), issued.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), issued.key).unwrap();
    issued.authority
}
