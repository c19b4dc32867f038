//! The example of the library for extensions, as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::{Value, json};
use topologist::tls::authority::IssuedCertificate;

use super::offline::Folder;
use crate::machines::server::{TestServer, cluster, workers};

/// The example, which is built if need be: cargo builds it by itself only for all tests together.
fn program() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "-p",
        "topologist-extension",
        "--example",
        "extension",
        "--message-format=json",
    ]);
    let output = build.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let is_example = |message: &Value| message["target"]["name"] == "extension" && message["executable"].is_string();
    let message = messages.into_iter().find(is_example).expect("cargo says where the example is");
    message["executable"].as_str().unwrap().into()
}

struct Running {
    child: Child,
    port: String,
    ca: String,
    _folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
    let files = [("tls.crt", &issued.certificate), ("tls.key", &issued.key)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let mut command = Command::new(program());
    let mut child = command.args(&files).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().expect("it says where it listens");
    let port = first.rsplit(':').next().unwrap().to_owned();
    std::thread::spawn(move || lines.for_each(drop));
    Running { child, port, ca: issued.authority, _folder: folder }
}

#[test]
fn the_example_patches_defines_refuses_and_holds() {
    // RH-23.1, RH-23.3, RH-23.5, RH-23.6
    let (extension, server) = (start(), TestServer::start(&[]));
    let url = format!("https://127.0.0.1:{}", extension.port);
    let config = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "example"},
        "spec": {"clientConfig": {"url": url, "caBundle": STANDARD.encode(&extension.ca)}}});
    server.kubectl.give(&config, &["create"]);
    server.wait("extensionconfig/example", "condition=Discovered");
    let read =
        |object: &str| -> Value { serde_json::from_str(&server.kubectl.out(&["get", object, "-o", "json"])).unwrap() };
    let mut patches = read("clusterclass/swift")["spec"]["patches"].as_array().unwrap().clone();
    patches.push(json!({"name": "remote", "external": {"generatePatchesExtension": "images.example",
        "validateTopologyExtension": "allowed-images.example", "discoverVariablesExtension": "variables.example"}}));
    let upgrade = json!({"external": {"generateUpgradePlanExtension": "plan.example"}});
    let spec = json!({"patches": patches, "upgrade": upgrade, "kubernetesVersions": null});
    server.merge("clusterclass/swift", &json!({"spec": spec}));
    server.wait(
        "clusterclass/swift",
        "jsonpath={.status.variables[?(@.name==\"machineImage\")].definitions[0].from}=remote",
    );
    server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let made = |one: &&Value| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "demo";
    let templates = server.list("embeddedconfigtemplates");
    let files = &templates.iter().find(made).unwrap()["spec"]["template"]["spec"]["files"];
    assert!(files.to_string().contains("ubuntu-24.04"), "{files}");
    let reports = |words: &str| super::message(&read("cluster/demo"), "TopologyReconciled").contains(words);
    server.edit_topology(&json!({"variables": [{"name": "machineImage", "value": "ubuntu-18.04"}]}));
    server.until("the image is refused", || reports("ubuntu-18.04 has no updates any more"));
    server.edit_topology(&json!({"variables": [{"name": "machineImage", "value": "ubuntu-24.04"}]}));
    server.kubectl.out(&["annotate", "cluster/demo", "extension.example.com/hold-upgrade=a freeze"]);
    server.edit_topology(&json!({"version": "v1.33.0"}));
    server.until("the upgrade is held", || reports("BeforeClusterUpgrade: a freeze"));
    server.kubectl.out(&["annotate", "cluster/demo", "extension.example.com/hold-upgrade-"]);
    server.wait("machinedeployments --all", "jsonpath={.spec.template.spec.version}=v1.33.0");
}

#[test]
fn the_guide_prints_what_a_check_of_the_example_prints() {
    // RH-23.5
    let extension = start();
    let external = json!({"generatePatchesExtension": "images.example",
        "validateTopologyExtension": "allowed-images.example",
        "discoverVariablesExtension": "variables.example"});
    let folder = Folder::with(&[("remote", external)], |_| {});
    folder.trust(&extension.ca);
    let url = format!("example=https://127.0.0.1:{}", extension.port);
    let (code, out, err) = folder.run(&["check-extension", &url, "--extension-ca", "ca.crt", "--files", "bundle.json"]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/extension-authors.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, block) = guide.split_once("$ topologist check-extension ").unwrap();
    let (_, printed) = block.split_once('\n').unwrap();
    let (printed, _) = printed.split_once("```").unwrap();
    let times = Regex::new("at most [0-9]+ ms").unwrap();
    assert_eq!(times.replace_all(&out, "at most N ms"), times.replace_all(printed, "at most N ms"));
}
