//! A real kubectl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::wait::{self, SOON};
use super::{programs, server};

/// kubectl with a kubeconfig.
pub struct Kubectl {
    kubeconfig: PathBuf,
    /// Where its objects are unless a command says something else.
    pub namespace: String,
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
        Self::within(kubeconfig, "default".to_owned())
    }

    pub fn within(kubeconfig: PathBuf, namespace: String) -> Self {
        Kubectl { kubeconfig, namespace, folder: tempfile::tempdir().unwrap() }
    }

    /// A command that was not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(self.folder.path().join("cache"));
        command.arg("--namespace").arg(&self.namespace);
        // Nothing of whoever runs the tests: other kubeconfigs, preferences, proxies.
        command.args(arguments).env("HOME", self.folder.path()).env("KUBECTL_KUBERC", "false").stdin(Stdio::null());
        // Most commands end before they have used much memory: garbage collection would take a fifth of their time.
        command.env("GOGC", "off").env("GOMEMLIMIT", "256MiB");
        for name in ["KUBECONFIG", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments))
    }

    /// The output of a command that has to succeed. One that fails shows the warnings of the processes on its API
    /// server.
    #[track_caller]
    pub fn out(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, 0, "kubectl {arguments:?}: {outcome:#?}\n{}", self.warnings());
        outcome.out
    }

    /// What a command that has to fail says.
    pub fn err(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_ne!(outcome.code, 0, "kubectl {arguments:?}: {outcome:#?}\n{}", self.warnings());
        outcome.err
    }

    /// The output of a command that succeeds sooner or later.
    pub fn eventually(&self, arguments: &[&str]) -> String {
        let ask = || Some(self.run(arguments)).filter(|outcome| outcome.code == 0);
        wait::until_some(&format!("kubectl {arguments:?} succeeds"), SOON, ask, || self.described(arguments)).out
    }

    /// The warnings of the processes on this API server.
    fn warnings(&self) -> String {
        server::warnings_at(&self.kubeconfig)
    }

    /// What a command prints now, and why the server may have failed it.
    fn described(&self, arguments: &[&str]) -> String {
        format!("{:#?}\n{}", self.run(arguments), self.warnings())
    }

    /// `kubectl … -f -` with an object, which has to succeed.
    #[track_caller]
    pub fn give(&self, object: &Value, arguments: &[&str]) -> String {
        let outcome = self.try_give(object, arguments);
        assert_eq!(outcome.code, 0, "kubectl {arguments:?}: {outcome:#?}\n{}", self.warnings());
        outcome.out
    }

    pub fn try_give(&self, object: &Value, arguments: &[&str]) -> Outcome {
        self.with_input(&object.to_string(), &[arguments, &["-f", "-"]].concat())
    }

    /// A field of an object by its JSON path.
    pub fn field(&self, object: &str, path: &str) -> String {
        self.out(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
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

/// kubectl, built if need be.
pub fn program() -> PathBuf {
    programs::folder("kubectl").join("kubectl")
}
