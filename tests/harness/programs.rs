//! Programs that are built for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The scripts that build and attend programs.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes")
}

/// The folder with programs that `tests/kubernetes/build` makes, built if need be; its progress shows even when tests
/// are captured.
pub fn folder(programs: &'static str) -> PathBuf {
    static FOLDERS: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    folders.entry(programs).or_insert_with(|| build(programs)).clone()
}

fn build(programs: &str) -> PathBuf {
    let mut build = Command::new("bash");
    build.arg(scripts().join("build")).arg(programs).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = build.output().expect("tests/kubernetes/build needs bash");
    assert!(output.status.success(), "tests/kubernetes/build {programs} failed; it says why on standard error");
    let printed = String::from_utf8(output.stdout).expect("a path");
    printed.lines().last().expect("it prints a directory").into()
}
