//! An extension that is written in Go with the module of Cluster API works unchanged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use topologist::tls::authority::IssuedCertificate;
use topologist::yaml;

use crate::harness::programs;
use crate::harness::server::command;
use crate::harness::wait::{self, SOON};
use crate::machines::server::{TestServer, cluster, condition, workers};

/// The program, built if need be.
fn program() -> PathBuf {
    programs::folder("extension").join("extension")
}

/// The extension as a process of its own.
struct Extension {
    child: Child,
    port: u16,
    ca: String,
    folder: tempfile::TempDir,
    /// The hooks that were called, in their order.
    called: Arc<Mutex<Vec<String>>>,
}

impl Drop for Extension {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Extension {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        for (name, text) in [("tls.crt", &issued.certificate), ("tls.key", &issued.key), ("ca.crt", &issued.authority)]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        // The server of Cluster API takes a number, and does not tell which it got.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut program = Command::new(program());
        program.arg("--port").arg(port.to_string()).arg("--cert-dir").arg(folder.path());
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let called = Arc::new(Mutex::new(Vec::new()));
        let (lines, hooks) = (BufReader::new(child.stdout.take().unwrap()).lines(), called.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                hooks.lock().unwrap().extend(line.strip_prefix("called ").map(str::to_owned));
            }
        });
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait::until("the extension listens", SOON, listens, String::new);
        Extension { child, port, ca: issued.authority, folder, called }
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    fn has_called(&self, hook: &str) -> bool {
        self.called().iter().any(|called| called == hook)
    }
}

const EXTERNAL: &str = r#"{"generatePatchesExtension": "generate.go", "validateTopologyExtension": "validate.go",
    "discoverVariablesExtension": "variables.go"}"#;

#[test]
fn the_printed_document_has_the_members_of_cluster_api() {
    // RH-1.2, RH-4.3, RH-5.1, RH-5.2, RH-15.1
    let output = command(&["crds", "--hooks"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let ours = yaml::documents(&String::from_utf8(output.stdout).unwrap()).remove(0).unwrap().value;
    let output = Command::new(program()).arg("--openapi").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (ours, theirs) = (Documented::of(&ours), Documented::of(&serde_json::from_slice(&output.stdout).unwrap()));
    let of_places = |one: &Documented| one.types.keys().filter(|place| place.ends_with('>')).count();
    assert_eq!((of_places(&ours), ours.types.len()), (14, theirs.types.len()));
    assert_eq!(ours.types, theirs.types);
    let ends = |ends: &[&str], place: &str| ends.iter().any(|end| place.ends_with(end));
    // An answer of an extension may leave out members that have a default.
    let lenient = |place: &&String| !ends(&["<.retryAfterSeconds", ".variables[].required"], place);
    let strict: Vec<_> = theirs.required.iter().filter(lenient).collect();
    let (marked, by_type): (Vec<&String>, Vec<_>) = ours.required.iter().partition(|place| ends(&MARKED, place));
    assert_eq!(by_type, strict);
    assert_eq!(marked.len(), 18, "{marked:#?}");
}

/// Members that comments in the source of Cluster API mark as required. Its Go types omit them when they are empty.
const MARKED: [&str; 8] = [
    ".controlPlaneUpgrades[].version",
    ".workersUpgrades[].version",
    "discovervariables<.variables[].name",
    "discovervariables<.variables[].schema",
    ".schema.openAPIV3Schema",
    "generateupgradeplan>.cluster",
    ".fromControlPlaneKubernetesVersion",
    "generateupgradeplan>.toKubernetesVersion",
];

/// The members of all requests (`hook>`) and answers (`hook<`).
struct Documented {
    types: BTreeMap<String, String>,
    required: Vec<String>,
}

impl Documented {
    fn of(document: &Value) -> Self {
        let mut all = Documented { types: BTreeMap::new(), required: Vec::new() };
        for (path, operation) in document["paths"].as_object().unwrap() {
            let hook = path.split('/').nth(3).unwrap();
            // Updates in place.
            if hook.starts_with("canupdate") || hook == "updatemachine" {
                continue;
            }
            let content = |message: &Value| message["content"]["application/json"]["schema"].clone();
            let post = &operation["post"];
            all.walk(document, &content(&post["requestBody"]), format!("{hook}>"));
            all.walk(document, &content(&post["responses"]["200"]), format!("{hook}<"));
        }
        all.required.sort();
        all
    }

    fn walk(&mut self, document: &Value, schema: &Value, place: String) {
        let schema = schema["allOf"].get(0).unwrap_or(schema);
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap();
            return self.walk(document, &document["components"]["schemas"][name], place);
        }
        let is_opaque = [".cluster", ".object", ".openAPIV3Schema", ".deprecatedV1Beta1Metadata"];
        if is_opaque.iter().any(|end| place.ends_with(end)) {
            self.types.insert(place, "an object".to_owned());
            return;
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            self.required.push(format!("{place}.{}", name.as_str().unwrap()));
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            self.walk(document, schema, format!("{place}.{name}"));
        }
        if schema["type"] == "array" {
            self.walk(document, &schema["items"], format!("{place}[]"));
        }
        self.types.insert(place, schema["type"].as_str().unwrap_or("any").to_owned());
    }
}

#[test]
fn an_extension_in_go_answers_every_hook() {
    // RH-1.2, RH-4.3, RH-6.2, RH-11.3, RH-12.2, RH-16.2, RH-18.1, RH-19.1 to RH-19.10, RH-21.3
    let (extension, server) = (Extension::start(), TestServer::start(&[]));
    let url = format!("https://127.0.0.1:{}", extension.port);
    let config = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "go"}, "spec": {"clientConfig": {"url": url, "caBundle": STANDARD.encode(&extension.ca)},
        "settings": {"place": "cellar"}}});
    server.kubectl.give(&config, &["create"]);
    server.wait("extensionconfig/go", "condition=Discovered");
    let text = server.kubectl.out(&["get", "clusterclass/swift", "-o", "json"]);
    let class: Value = serde_json::from_str(&text).unwrap();
    let mut patches = class["spec"]["patches"].as_array().unwrap().clone();
    let external: Value = serde_json::from_str(EXTERNAL).unwrap();
    patches.push(json!({"name": "remote", "external": external}));
    let upgrade = json!({"external": {"generateUpgradePlanExtension": "plan.go"}});
    let spec = json!({"patches": patches, "upgrade": upgrade, "kubernetesVersions": null});
    server.merge("clusterclass/swift", &json!({"spec": spec}));
    server.wait("clusterclass/swift", "jsonpath={.status.variables[?(@.name==\"format\")].definitions[0].from}=remote");
    let mut demo = cluster(1, &json!([workers("a", 1)]), &json!([]));
    demo["spec"]["topology"]["variables"] = json!([{"name": "format", "value": "ignition"}]);
    demo["metadata"]["annotations"] = json!({"go.example.com/hold-beforeclustercreate": ""});
    server.kubectl.give(&demo, &["create"]);
    let reports = |words: &str| {
        let text = server.kubectl.out(&["get", "cluster/demo", "-o", "json"]);
        let cluster: Value = serde_json::from_str(&text).unwrap();
        super::message(&cluster, "TopologyReconciled").contains(words)
    };
    server.until("the creation is held", || reports("BeforeClusterCreate: the annotation holds demo"));
    server.kubectl.out(&["annotate", "cluster/demo", "go.example.com/hold-beforeclustercreate-"]);
    server.wait("cluster/demo", "condition=Available");
    let labels = &server.list("embeddedclusters")[0]["metadata"]["labels"];
    assert_eq!(labels["place"], "cellar", "the merge patch: {labels}");
    let templates = server.list("embeddedconfigtemplates");
    let formats = templates.iter().filter(|one| one["spec"]["template"]["spec"]["format"] == "ignition");
    assert_eq!(formats.count(), 1, "the JSON patch");
    server.edit_topology(
        &json!({"variables": [{"name": "format", "value": "ignition"}, {"name": "refuse", "value": "yes"}]}),
    );
    server.until("the validation refuses", || reports("the variable refuse says so"));
    server.edit_topology(&json!({"variables": [{"name": "format", "value": "ignition"}], "version": "v1.33.0"}));
    server.until("the upgrade is over", || extension.has_called("AfterClusterUpgrade"));
    server.until("nothing is held", || {
        let text = server.kubectl.out(&["get", "cluster/demo", "-o", "json"]);
        condition(&serde_json::from_str(&text).unwrap(), "TopologyReconciled").0 == "True"
    });
    server.kubectl.out(&["delete", "cluster/demo", "--timeout=60s"]);
    for hook in super::hooks::HOOKS.iter().chain(&["GenerateUpgradePlan", "DiscoverVariables"]) {
        assert!(extension.has_called(hook), "{hook}: {:?}", extension.called());
    }
}

#[test]
fn files_are_rendered_with_an_extension_in_go() {
    // RH-4.7, RH-12.2
    let extension = Extension::start();
    let bundle = crate::plans::bundle("docker");
    let external =
        "{generatePatchesExtension: generate.go, validateTopologyExtension: validate.go, settings: {place: shed}}";
    let patch = format!("\n  patches:\n  - name: remote\n    external: {external}\n");
    std::fs::write(extension.folder.path().join("class.yaml"), bundle.replacen("\n  patches:\n", &patch, 1)).unwrap();
    let url = format!("go=https://127.0.0.1:{}", extension.port);
    let mut render = command(&["render", "class.yaml", "--extension", &url, "--extension-ca", "ca.crt"]);
    let output = render.current_dir(extension.folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && out.contains("place: shed"), "{out}{err}");
}
