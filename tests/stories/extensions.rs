//! `render` and `plan` with Runtime Extensions: an HTTPS server in this process, and recordings of what it said.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::LOCATION;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use topologist::tls::authority::IssuedCertificate;

use crate::harness::server::command;
use crate::harness::tls_server::serve;
use crate::plans::bundle;

const HOOKS: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// What the extension does when it is asked for patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    Fails,
    Refuses,
    SaysNothing,
    Lies,
    Garbage,
    Redirects,
    Hangs,
    TooMuch,
    UnknownItem,
    NotBase64,
}

struct Shared {
    mood: Mood,
    policy: &'static str,
    /// Paths with queries, and bodies.
    requests: Mutex<Vec<(String, Value)>>,
}

/// An extension with the handlers `generate` and `validate`, and files of a class that uses both as `lab`.
struct Lab {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Lab {
    fn start(mood: Mood, policy: &'static str) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.crt"), &issued.authority).unwrap();
        let shared = Arc::new(Shared { mood, policy, requests: Mutex::default() });
        runtime.spawn(serve(listener, issued, Router::new().fallback(answer).with_state(shared.clone())));
        let lab = Lab { runtime: Some(runtime), shared, port, folder };
        lab.write("before.yaml", &bundle("docker"));
        lab.write("after.yaml", &with_extension());
        lab
    }

    /// From now on nothing answers.
    fn stop(&mut self) {
        self.runtime.take().unwrap().shutdown_timeout(Duration::ZERO);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn url(&self) -> String {
        format!("lab=https://127.0.0.1:{}/base", self.port)
    }

    /// Runs a command in the folder: exit code, standard output, standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = command(arguments).current_dir(self.folder.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn plan(&self, more: &[&str]) -> (i32, String, String) {
        let plan = ["plan", "--from", "before.yaml", "--to", "after.yaml"];
        self.run(&plan.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    }

    fn plan_live(&self, more: &[&str]) -> (i32, String, String) {
        let url = self.url();
        let live = ["--extension", &url, "--extension-ca", "ca.crt"];
        self.plan(&live.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.shared.requests.lock().unwrap().clone()
    }
}

/// The bundle with an external patch.
fn with_extension() -> String {
    let external =
        "{generatePatchesExtension: generate.lab, validateTopologyExtension: validate.lab, settings: {colour: green}}";
    let patch = format!("\n  patches:\n  - name: remote\n    external: {external}\n");
    bundle("docker").replacen("\n  patches:\n", &patch, 1)
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    shared.requests.lock().unwrap().push((parts.uri.to_string(), body.clone()));
    match parts.uri.path().rsplit('/').next().unwrap() {
        "discovery" => axum_json(&discovery(shared.policy)),
        "generate" => generate(shared.mood, &body).await,
        _ => axum_json(&json!({"status": "Success"})),
    }
}

fn axum_json(value: &Value) -> Response {
    value.to_string().into_response()
}

fn discovery(policy: &str) -> Value {
    let handler = |name: &str, hook: &str| {
        let hook = json!({"apiVersion": HOOKS, "hook": hook});
        json!({"name": name, "requestHook": hook, "timeoutSeconds": 2, "failurePolicy": policy})
    };
    let handlers = json!([handler("generate", "GeneratePatches"), handler("validate", "ValidateTopology")]);
    json!({"apiVersion": HOOKS, "kind": "DiscoveryResponse", "status": "Success", "handlers": handlers})
}

async fn generate(mood: Mood, request: &Value) -> Response {
    let failure = |status: &str| axum_json(&json!({"status": status, "message": "the lab is closed"}));
    let patched = |uid: &Value, patch: &str| {
        axum_json(&json!({"status": "Success", "items": [{"uid": uid, "patchType": "JSONPatch", "patch": patch}]}))
    };
    match mood {
        Mood::Well => axum_json(&patches(request)),
        Mood::Fails => (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response(),
        Mood::Refuses => failure("Failure"),
        Mood::SaysNothing => axum_json(&json!({})),
        Mood::Lies => failure("Fine"),
        Mood::Garbage => "<html>".into_response(),
        Mood::Redirects => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/elsewhere")]).into_response(),
        Mood::Hangs => std::future::pending().await,
        Mood::TooMuch => vec![b' '; 20 * 1024 * 1024 + 1].into_response(),
        Mood::UnknownItem => patched(&json!("no such item"), "W10="),
        Mood::NotBase64 => patched(&request["items"][0]["uid"], "[]"),
    }
}

/// Adds a field with the colour of the settings to infrastructure clusters.
fn patches(request: &Value) -> Value {
    let value = format!("{} from {}", request["settings"]["colour"], request["settings"]["place"]).replace('"', "");
    let patch = json!([{"op": "add", "path": "/spec/template/spec/paint", "value": value}]).to_string();
    let items = request["items"].as_array().unwrap().iter();
    let clusters = items.filter(|item| item["holderReference"]["fieldPath"] == "spec.infrastructureRef");
    let patched =
        clusters.map(|item| json!({"uid": item["uid"], "patchType": "JSONPatch", "patch": STANDARD.encode(&patch)}));
    json!({"status": "Success", "items": patched.collect::<Vec<_>>()})
}

#[test]
fn an_extension_that_runs_patches_what_is_rendered() {
    // RH-4.3, RH-4.5, RH-5.1, RH-5.6, RH-10.2, PE-23, PE-29
    let lab = Lab::start(Mood::Well, "Fail");
    lab.write(
        "config.yaml",
        "apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\nmetadata: {name: lab}\n\
         spec: {settings: {colour: grey, place: cellar}}\n",
    );
    let url = lab.url();
    let (code, out, err) =
        lab.run(&["render", "after.yaml", "--world", "config.yaml", "--extension", &url, "--extension-ca", "ca.crt"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("paint: green from cellar"), "{out}");
    assert!(!err.contains("not complete"), "{err}");
    let requests = lab.requests();
    let paths: Vec<&str> = requests.iter().map(|(path, _)| &**path).collect();
    let hook = |rest: &str| format!("/base/{HOOKS}/{rest}");
    assert_eq!(
        paths,
        [
            hook("discovery?timeout=10s"),
            hook("generatepatches/generate?timeout=2s"),
            hook("validatetopology/validate?timeout=2s")
        ]
    );
    let kinds: Vec<&Value> = requests.iter().map(|(_, body)| &body["kind"]).collect();
    assert_eq!(kinds, ["DiscoveryRequest", "GeneratePatchesRequest", "ValidateTopologyRequest"]);
    assert_eq!(requests[0].1, json!({"apiVersion": HOOKS, "kind": "DiscoveryRequest"}), "RH-6.1");
    assert_eq!(requests[1].1["settings"], json!({"colour": "green", "place": "cellar"}));
    let uids = |at: usize| -> Vec<String> {
        requests[at].1["items"].as_array().unwrap().iter().map(|item| item["uid"].to_string()).collect()
    };
    assert!(uids(2).iter().all(|uid| uid == "null"), "nothing is answered about an item that is validated (RH-15.1)");
    let mut distinct = uids(1);
    distinct.sort();
    distinct.dedup();
    assert!(distinct.len() > 3 && distinct.len() == uids(1).len(), "{distinct:?}");
}

#[test]
fn a_recording_gives_the_same_plan_without_the_extension() {
    let mut lab = Lab::start(Mood::Well, "Fail");
    let want: Vec<_> = ["text", "json", "markdown"]
        .map(|output| lab.plan_live(&["-o", output, "--record", "lab.json"]))
        .into_iter()
        .collect();
    let calls = lab.requests().len();
    assert!(want[0].1.contains("paint") && want[0].0 == 3, "{want:?}");
    assert!(want[1].1.contains("\"complete\": true"), "{}", want[1].1);
    let recording = fs::read_to_string(lab.path("lab.json")).unwrap();
    assert_eq!(fs::metadata(lab.path("lab.json")).unwrap().permissions().mode() & 0o777, 0o600);
    lab.stop();
    for (output, want) in ["text", "json", "markdown"].into_iter().zip(want) {
        let replayed = lab.plan(&["-o", output, "--extension", "lab=lab.json", "--record", "again.json"]);
        assert_eq!(replayed, want, "{output}");
    }
    assert_eq!(lab.requests().len(), calls);
    assert_eq!(fs::read_to_string(lab.path("again.json")).unwrap(), recording, "a recording can be recorded");
}

#[test]
fn a_request_that_was_not_recorded_leaves_the_plan_incomplete() {
    let lab = Lab::start(Mood::Well, "Fail");
    let (code, _, err) = lab.plan_live(&["--record", "lab.json"]);
    assert_eq!(code, 3, "{err}");
    lab.write("after.yaml", &with_extension().replace("colour: green", "colour: red"));
    let (_, out, _) = lab.plan(&["-o", "json", "--extension", "lab=lab.json"]);
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["complete"], false, "{out}");
    assert!(plan["incomplete"].to_string().contains("GeneratePatches of generate.lab could not be called"), "{out}");
    let reason = "GeneratePatches of generate.lab for Cluster default/shed: lab.json has no answer to this request";
    assert!(plan["warnings"].to_string().contains(reason), "{out}");
    let (_, out, err) = lab.run(&["render", "after.yaml", "--extension", "other=lab.json"]);
    assert!(err.contains("lab.json has no answers of other"), "{out}{err}");
}

#[test]
fn an_extension_that_is_not_named_leaves_the_plan_incomplete() {
    let lab = Lab::start(Mood::Well, "Fail");
    lab.write("after.yaml", &with_extension().replace("generate.lab", "generate.other"));
    let (code, out, _) = lab.plan_live(&["-o", "json"]);
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &plan["complete"]), (0, &false.into()), "{out}");
    assert!(plan["warnings"].to_string().contains("no --extension other=URL|FILE"), "{out}");
}

#[test]
fn every_way_to_fail_is_named() {
    // RH-4.6, RH-4.8, RH-4.9, RH-4.10, RH-5.3, RH-5.4, RH-7.3, RH-7.4, RH-12.3
    for (mood, words, is_ignorable) in [
        (Mood::Fails, "status 500: out of order", true),
        (Mood::Refuses, "answered Failure: the lab is closed", false),
        (Mood::SaysNothing, "unknown status \"\"", false),
        (Mood::Lies, "unknown status \"Fine\"", false),
        (Mood::Garbage, "expected value", true),
        (Mood::Redirects, "status 307", true),
        (Mood::Hangs, "no answer within 2s", true),
        (Mood::TooMuch, "longer than 20971520 bytes", true),
        (Mood::UnknownItem, "no item of the request has the uid", false),
        (Mood::NotBase64, "items[0].patch is not base64", true),
    ] {
        let (code, out, _) = Lab::start(mood, "Fail").plan_live(&[]);
        assert!(code == 1 && out.contains(words) && out.contains("remote"), "{mood:?}: {code} {out}");
        let lab = Lab::start(mood, "Ignore");
        let (code, out, err) = lab.plan_live(&[]);
        assert_eq!((code == 0, out.contains(words)), (is_ignorable, !is_ignorable), "{mood:?}: {code} {out}{err}");
        assert!(!lab.requests().iter().any(|(path, _)| path.contains("elsewhere")), "a redirect is not followed");
    }
}

#[test]
fn an_extension_must_be_reachable_and_trusted() {
    // RH-4.2, RH-4.7, RH-7.1
    let lab = Lab::start(Mood::Well, "Fail");
    let url = lab.url();
    let (code, _, err) = lab.plan(&["--extension", &url]);
    assert!(code == 2 && err.contains("extension lab: Discovery: ") && err.contains("certificate"), "{err}");
    let (code, _, err) = lab.plan(&["--extension", &url.replace("https", "http")]);
    assert!(code == 2 && err.contains("must begin with https://"), "{err}");
    let (code, _, err) = lab.plan_live(&["--extension", &url]);
    assert!(code == 2 && err.contains("--extension names lab twice"), "{err}");
    lab.write("after.yaml", &with_extension().replace("generate.lab", "validate.lab"));
    let (code, out, _) = lab.plan_live(&[]);
    assert!(
        code == 1 && out.contains("the handler \"validate\" is for ValidateTopology, not for GeneratePatches"),
        "{out}"
    );
    lab.write("after.yaml", &with_extension().replace("generate.lab", "guess.lab"));
    let (code, out, _) = lab.plan_live(&[]);
    assert!(code == 1 && out.contains("has no handler \"guess\"; it has: generate, validate"), "{out}");
}
