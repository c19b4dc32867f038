//! `tests/prerequisites`, with which `make test` begins: it lists every missing program, and how to install it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs that the script itself runs.
const OWN: [&str; 7] = ["sh", "dirname", "head", "id", "sed", "sort", "tail"];

/// Programs that it checks for, each with the package that has it; Rust and Go are not installed by packages.
const CHECKED: [(&str, Option<&str>); 9] = [
    ("cargo", None),
    ("go", None),
    ("cc", Some("gcc")),
    ("bash", Some("bash")),
    ("curl", Some("curl")),
    ("git", Some("git")),
    ("jq", Some("jq")),
    ("flock", Some("util-linux")),
    ("prlimit", Some("util-linux")),
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder that is the whole PATH of a machine.
struct Machine(tempfile::TempDir);

impl Machine {
    /// A machine with everything but these, on which packages are installed with apt-get.
    fn without(missing: &[&str]) -> Self {
        let machine = Machine(tempfile::tempdir().unwrap());
        for name in OWN.into_iter().chain(["make"]) {
            symlink(installed(name), machine.0.path().join(name)).unwrap();
        }
        for name in CHECKED.into_iter().map(|(name, _)| name).chain(["apt-get"]).filter(|name| !missing.contains(name))
        {
            machine.write(name, "echo ran >>$0.ran; exit 1");
        }
        if !missing.contains(&"go") {
            machine.write("go", &format!("echo go{}", needed_go()));
        }
        machine
    }

    fn write(&self, name: &str, script: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(repository()).env_clear().env("PATH", self.0.path());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap().replace("sudo ", "");
        (status.code(), String::from_utf8(stdout).unwrap() + &stderr)
    }

    fn check(&self) -> (Option<i32>, String) {
        self.run("tests/prerequisites", &[])
    }
}

/// Where a program of this machine is.
fn installed(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name)).filter(|file| file.is_file());
    found.next().unwrap_or_else(|| panic!("{name} is not installed"))
}

/// The highest version of Go that a module of the tests requires.
fn needed_go() -> String {
    let folders = fs::read_dir(repository().join("tests/kubernetes")).unwrap();
    let modules = folders.filter_map(|folder| fs::read_to_string(folder.unwrap().path().join("go.mod")).ok());
    let versions = modules.map(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("go ")).unwrap();
        line.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>()
    });
    let parts: Vec<String> = versions.max().unwrap().iter().map(u32::to_string).collect();
    parts.join(".")
}

#[test]
fn each_missing_program_is_named_with_how_to_install_it() {
    assert_eq!(Machine::without(&[]).check(), (Some(0), String::new()));
    for (name, package) in CHECKED {
        let advice = match (name, package) {
            (_, Some(package)) => format!("apt-get update && apt-get install {package}"),
            ("go", None) => format!("Go {} or newer: https://go.dev/dl", needed_go()),
            _ => "Rust: https://rustup.rs".to_owned(),
        };
        let want = format!("make test needs programs that are missing: {name}. To install them:\n  {advice}\n");
        assert_eq!(Machine::without(&[name]).check(), (Some(1), want));
    }
}

#[test]
fn all_missing_packages_are_installed_by_one_command() {
    let (_, message) = Machine::without(&["jq", "flock", "curl", "prlimit"]).check();
    let want = "make test needs programs that are missing: curl, jq, flock, prlimit. To install them:\n  \
        apt-get update && apt-get install curl jq util-linux\n";
    assert_eq!(message, want);
    let other = Machine::without(&["jq", "curl", "apt-get"]);
    assert!(other.check().1.ends_with("\n  packages: curl jq\n"), "{}", other.check().1);
    other.write("dnf", "exit 1");
    assert!(other.check().1.ends_with("\n  dnf install curl jq\n"), "{}", other.check().1);
}

#[test]
fn an_old_go_is_not_enough() {
    let machine = Machine::without(&[]);
    for (printed, is_enough) in
        [("go1.9.7", false), ("go1.99.1", true), ("devel go1.99-1a2b3c4 X:none", true), ("", false)]
    {
        machine.write("go", &format!("echo '{printed}'"));
        let (code, message) = machine.check();
        assert_eq!(code == Some(0), is_enough, "{printed}: {message}");
        assert_eq!(message.contains("is too old). To install"), !is_enough, "{message}");
    }
}

#[test]
fn make_test_runs_nothing_on_a_machine_without_jq() {
    let machine = Machine::without(&["jq"]);
    let (code, message) = machine.run("make", &["test"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("make test needs programs that are missing: jq. To install them:\n"), "{message}");
    assert!(!machine.0.path().join("cargo.ran").exists(), "{message}");
    // With jq it goes on.
    let whole = Machine::without(&[]);
    let (_, message) = whole.run("make", &["test"]);
    assert!(whole.0.path().join("cargo.ran").exists(), "{message}");
}

#[test]
fn contributors_read_which_go_they_need() {
    let text = fs::read_to_string(repository().join("CONTRIBUTING.md")).unwrap();
    let needed = needed_go();
    let minor = needed.rsplitn(2, ".0").last().unwrap();
    assert!(text.contains(&format!("Go {minor} or newer")), "Go {needed}");
}
