//! `serve --embedded` as a person sees it at a terminal: progress, then the greeting, and no log lines.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Child;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::harness::server::command;

pub(crate) const ERASE: &str = "\r\x1b[K";

/// The last words of the greeting.
pub(crate) const END: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster";

/// Both ends of a terminal: where its screen is read, and what a process writes to.
pub(crate) fn terminal() -> (File, File) {
    const NO_CONTROLLING_TERMINAL: i32 = 0o400;
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(NO_CONTROLLING_TERMINAL);
    (File::from(screen), options.open(OsStr::from_bytes(name.as_bytes())).unwrap())
}

/// Kills the process at the end of a test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is on the screen of `serve --embedded` with these arguments, up to the end of the greeting.
fn screen(arguments: &[&str]) -> String {
    let (mut screen, process) = terminal();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display().to_string();
    let start =
        ["serve", "--embedded", "--webhook-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--state-dir", &state];
    let mut command = command(&[&start, arguments].concat());
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).env_remove("TOPOLOGIST_API_ADDR").env_remove("RUST_LOG");
    command.stdout(process.try_clone().unwrap()).stderr(process);
    let _running = Running(command.spawn().unwrap());
    // The other ends here would keep the screen open after the process has ended.
    drop(command);
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&bytes).contains(END) {
        let count = screen.read(&mut part).unwrap_or(0);
        assert!(count > 0, "the process ended: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&part[..count]);
    }
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

#[test]
fn progress_is_replaced_and_the_greeting_comes_last_and_alone() {
    // Either this takes the default port, or another process has.
    let _taken = TcpListener::bind("127.0.0.1:6443");
    let screen = screen(&["--load", "fixtures/quick-start"]);
    let (progress, greeting) = screen.rsplit_once(ERASE).unwrap_or_else(|| panic!("{screen}"));
    assert_eq!(
        progress.split(ERASE).collect::<Vec<_>>(),
        ["", "Reading files …", "Loading 9 objects …", "Starting controllers …"]
    );
    let lines: Vec<&str> = greeting.lines().collect();
    assert!(lines[0].starts_with("topologist answers reviews at https://127.0.0.1:"), "{greeting}");
    let note = lines[1].strip_prefix("Port 6443 is in use. Listening on port ").unwrap_or_else(|| panic!("{greeting}"));
    let port = note.strip_suffix(" instead (--api-addr).").unwrap_or_else(|| panic!("{greeting}"));
    let files = ["class", "cluster", "templates"].map(|name| format!("fixtures/quick-start/{name}.yaml")).join(", ");
    assert_eq!(lines[2], format!("Loaded {files}"));
    assert!(lines[3].starts_with(&format!("A Kubernetes API is at https://127.0.0.1:{port}, in memory")), "{greeting}");
}

#[test]
fn requested_log_lines_are_shown_at_a_terminal() {
    let screen = screen(&["--load", "fixtures/quick-start", "--log=info", "--api-addr=127.0.0.1:0"]);
    assert!(screen.contains("Loaded objects"), "{screen}");
    let greeting = &screen[screen.find("topologist answers").unwrap()..];
    assert!(greeting.lines().all(|line| !line.starts_with("Port ")), "{greeting}");
}
