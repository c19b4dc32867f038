//! Flags of the controllers of machines that say what cannot be, and the one that switches them off.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::server::{TestServer, cluster, workers};
use crate::harness::server;
use crate::harness::wait::SOON;

/// What a command says that ends with an error.
fn refusal(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + SOON;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it serves");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn flags_of_machines_that_are_wrong_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timings.yaml");
    std::fs::write(&file, "infra: 1s\n").unwrap();
    let (state, file) = (folder.path().join("state").display().to_string(), file.display().to_string());
    for (flag, value, wants) in [
        ("--timings", file.as_str(), ["timings.yaml", "did you mean infrastructure?"]),
        ("--timings", "/nowhere/timings.yaml", ["/nowhere/timings.yaml", "No such file"]),
        ("--external-kinds", "dockerMachine", ["--external-kinds", "dockerMachine"]),
        ("--lifecycle", "maybe", ["--lifecycle", "auto, on, off"]),
    ] {
        let message = refusal(server::serving(&["--embedded", "--state-dir", &state, flag, value]));
        assert!(wants.iter().all(|want| message.contains(want)), "{flag} {value}: {message}");
    }
}

#[test]
fn no_machines_appear_when_their_controllers_are_off() {
    let server = TestServer::start(&["--lifecycle=off"]);
    server.kubectl.give(&cluster(1, &json!([workers("a", 1)]), &json!([])), &["create"]);
    server.until("the topology has its deployment", || server.list("machinedeployments").len() == 1);
    let left = server.kubectl.out(&["get", "machines,machinesets,secrets", "-o", "name"]);
    assert_eq!(left, "");
    let plane = &server.list("embeddedcontrolplanes")[0];
    assert!(plane["status"].is_null() && plane["metadata"]["finalizers"].is_null(), "{plane}");
    assert!(server.topologist.metric("topologist_machines{phase=\"Running\"}").unwrap_or_default() < 1.0);
    let (_, metrics) = server.topologist.admin_get("/metrics");
    assert!(!metrics.contains("controller=\"machinedeployment\""), "no controller of machines has run");
}
