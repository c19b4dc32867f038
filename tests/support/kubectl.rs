//! A real kubectl.
#![allow(dead_code, reason = "each test binary uses a part of the shared support")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// kubectl with a kubeconfig.
pub struct Kubectl {
    kubeconfig: PathBuf,
    /// Its caches, and files of the test.
    pub folder: tempfile::TempDir,
}

/// What came of a command.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Kubectl {
    pub fn new(kubeconfig: PathBuf) -> Self {
        Kubectl { kubeconfig, folder: tempfile::tempdir().unwrap() }
    }

    /// A command that was not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(self.folder.path().join("cache"));
        // Nothing of whoever runs the tests: other kubeconfigs, preferences, proxies.
        command.args(arguments).env("HOME", self.folder.path()).env("KUBECTL_KUBERC", "false").stdin(Stdio::null());
        for name in ["KUBECONFIG", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments))
    }

    /// The output of a command that has to succeed.
    pub fn out(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, 0, "kubectl {arguments:?}: {outcome:#?}");
        outcome.out
    }

    /// What a command that has to fail says.
    pub fn err(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_ne!(outcome.code, 0, "kubectl {arguments:?}: {outcome:#?}");
        outcome.err
    }

    /// Gives a text to a command, which reads it from `-f -`.
    pub fn with_input(&self, text: &str, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Outcome::from(child.wait_with_output().unwrap())
    }
}

impl Outcome {
    pub fn of(mut command: Command) -> Self {
        command.output().unwrap().into()
    }

    /// The output, if the command succeeded.
    #[track_caller]
    pub fn unwrap(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }
}

impl From<std::process::Output> for Outcome {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// kubectl, built if need be; its progress shows even when tests are captured.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/build");
        let mut build = Command::new("bash");
        build.arg(script).arg("kubectl").stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = build.output().expect("tests/kubernetes/build needs bash");
        assert!(output.status.success(), "tests/kubernetes/build kubectl failed; it says why on standard error");
        let printed = String::from_utf8(output.stdout).unwrap();
        Path::new(printed.lines().last().expect("it prints a directory")).join("kubectl")
    })
}
