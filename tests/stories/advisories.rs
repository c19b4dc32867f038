//! What `.ci/advisories` says of a database of advisories: cargo deny and git run against databases that are made here.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// The database that cargo deny fetches unless deny.toml names another.
const PUBLIC: &str = "https://github.com/RustSec/advisory-db";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Where this machine's cargo keeps the crates, with all that Cargo.lock names.
fn crates() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        run(Command::new(env!("CARGO")).args(["fetch", "--locked", "--quiet"]).current_dir(repository()));
        let default = || Path::new(&std::env::var("HOME").unwrap()).join(".cargo");
        std::env::var("CARGO_HOME").map_or_else(|_| default(), PathBuf::from)
    })
}

/// A PATH on which cargo finds `deny`: the one that is installed, or else the version of `.ci/run`, installed once.
fn path() -> &'static OsString {
    static PATH: OnceLock<OsString> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap();
        if Command::new(env!("CARGO")).args(["deny", "--version"]).output().unwrap().status.success() {
            return path;
        }
        let script = fs::read_to_string(repository().join(".ci/run")).unwrap();
        let version = script.split_whitespace().find(|word| word.starts_with("cargo-deny@")).unwrap();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools");
        run(Command::new(env!("CARGO")).args(["install", "--locked", "--root"]).arg(&root).arg(version));
        std::env::join_paths([root.join("bin")].into_iter().chain(std::env::split_paths(&path))).unwrap()
    })
}

/// A copy of a directory in which every file is a link.
fn link_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    run(Command::new("cp").arg("-rsT").args([fs::canonicalize(from).unwrap().as_path(), to]));
}

/// A home for cargo with the crates of this machine and no database, beside the database that git finds in place of the
/// public one.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        for entry in fs::read_dir(crates()).unwrap().map(Result::unwrap) {
            if !["registry", "advisory-dbs"].map(OsString::from).contains(&entry.file_name()) {
                symlink(entry.path(), home.join(entry.file_name())).unwrap();
            }
        }
        link_tree(&crates().join("registry/index"), &home.join("registry/index"));
        for part in ["cache", "src"] {
            symlink(crates().join("registry").join(part), home.join("registry").join(part)).unwrap();
        }
        Machine { folder }
    }

    /// A machine whose database holds this one advisory.
    fn with(advisory: &str) -> Self {
        let machine = Machine::new();
        machine.publish(advisory);
        machine
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("database")
    }

    fn publish(&self, advisory: &str) {
        let crates = self.database().join("crates/tokio");
        fs::create_dir_all(&crates).unwrap();
        fs::write(crates.join("RUSTSEC-2020-0001.md"), advisory).unwrap();
        for arguments in ["init --quiet --initial-branch=main", "add .", "commit --quiet --message=advisory"] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgSign=false"]);
            run(git.args(arguments.split(' ')).current_dir(self.database()));
        }
    }

    /// The exit code and the words of the script.
    fn advisories(&self) -> (i32, String) {
        self.advisories_from(&format!("file://{}", self.database().display()), "60")
    }

    fn advisories_from(&self, url: &str, seconds: &str) -> (i32, String) {
        let mut script = Command::new(repository().join(".ci/advisories"));
        script.arg(seconds).env("PATH", path()).env("CARGO", env!("CARGO"));
        script.env("CARGO_HOME", self.folder.path().join("home"));
        script.env("GIT_CONFIG_COUNT", "1");
        script.env("GIT_CONFIG_KEY_0", format!("url.{url}.insteadOf")).env("GIT_CONFIG_VALUE_0", PUBLIC);
        let output = script.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout) + &text(output.stderr))
    }

    /// Marks all versions of a crate as yanked in this machine's copy of the index.
    fn yank(&self, entry: &str) {
        let indices = fs::read_dir(self.folder.path().join("home/registry/index")).unwrap();
        let entries =
            indices.map(|index| index.unwrap().path().join(".cache").join(entry)).filter(|path| path.exists());
        let count = entries.map(|path| {
            let bytes = fs::read(&path).unwrap();
            let yanked = String::from_utf8_lossy(&bytes).replace("\"yanked\": false", "\"yanked\":true");
            fs::remove_file(&path).unwrap();
            fs::write(&path, yanked.replace("\"yanked\":false", "\"yanked\":true")).unwrap();
        });
        assert!(count.count() > 0, "{entry} is in no index");
    }
}

fn advisory(patched: &str) -> String {
    format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-2020-0001\"\npackage = \"tokio\"\ndate = \"2020-01-01\"\n\n[versions]\n\
         patched = [\"{patched}\"]\n```\n\n# Made up for a test\n\nNot real.\n"
    )
}

const MATCHES: &str = ">= 999.0.0";
const PATCHED: &str = ">= 0.1.0";

#[test]
fn an_advisory_about_a_dependency_fails_lint() {
    let machine = Machine::with(&advisory(MATCHES));
    let (code, words) = machine.advisories();
    assert_ne!(code, 0, "{words}");
    assert!(words.contains("RUSTSEC-2020-0001") && words.contains("advisories FAILED"), "{words}");
    // Once it is fixed, the copy from before does not count.
    machine.publish(&advisory(PATCHED));
    assert_eq!(machine.advisories(), (0, "advisories ok\n".to_owned()));
}

#[test]
fn a_yanked_dependency_fails_lint() {
    let machine = Machine::with(&advisory(PATCHED));
    machine.yank("to/ki/tokio");
    let (code, words) = machine.advisories();
    assert_ne!(code, 0, "{words}");
    assert!(words.contains("detected yanked crate") && words.contains("advisories FAILED"), "{words}");
}

#[test]
fn a_database_that_cannot_be_read_fails_lint() {
    let machine = Machine::with("no advisory\n");
    let (code, words) = machine.advisories();
    assert_ne!(code, 0, "{words}");
    assert!(words.contains("failed to parse advisory"), "{words}");
}

#[test]
fn without_a_database_lint_warns_and_continues() {
    let machine = Machine::new();
    let (code, words) = machine.advisories();
    let start = "advisories are not checked: the database cannot be fetched (";
    assert_eq!(
        (code, words.strip_prefix(start).map(|reason| reason.contains("git repository"))),
        (0, Some(true)),
        "{words}"
    );
}

#[test]
fn a_server_that_does_not_answer_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("git://{}/database", silent.local_addr().unwrap());
    let (code, words) = Machine::new().advisories_from(&url, "5");
    let want = "advisories are not checked: the database cannot be fetched (no answer within 5 s)\n";
    assert_eq!((code, words.as_str()), (0, want));
    // Git had connected, and has ended as well.
    silent.set_nonblocking(true).unwrap();
    let (mut connection, _) = silent.accept().unwrap();
    connection.set_nonblocking(false).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    connection.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn make_lint_asks_for_advisories() {
    let mut make = Command::new("make");
    make.args(["--dry-run", "lint", "CARGO=cargo"]).env_remove("MAKEFLAGS").current_dir(repository());
    let commands = run(&mut make);
    assert!(commands.contains("cargo deny check licenses bans sources && CARGO='cargo' .ci/advisories"), "{commands}");
}
