//! The HTTPS service as its callers, and those who should not call it, see it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::server::{Topologist, command, make_certificates};
use crate::harness::tls_client::{Connection, Protocol, tls, tls_as};
use crate::harness::wait;
use crate::harness::wait::SOON;

pub(crate) const VALIDATE: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster?timeout=5s";
const MUTATE: &str = "/mutate-cluster-x-k8s-io-v1beta2-cluster";

/// A server on the objects of the quick start, and the CA certificate of its callers.
pub(crate) struct Served {
    pub(crate) topologist: Topologist,
    pub(crate) authority: Vec<u8>,
    folder: TempDir,
}

fn quick_start() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start")
}

pub(crate) fn serve(more: &[&str]) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state").display().to_string();
    let load = quick_start().display().to_string();
    // Controllers would write, and what they write is reviewed as well.
    let mut arguments = vec!["--embedded", "--controllers=none", "--load", &load, "--state-dir", &state];
    arguments.extend(more);
    let topologist = Topologist::serve(&arguments);
    topologist.wait_until_ready();
    let authority = std::fs::read(Path::new(&state).join("ca.crt")).unwrap_or_default();
    Served { topologist, authority, folder }
}

/// A server on the objects of the quick start and these.
fn serve_also(objects: &str) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("more.yaml"), objects).unwrap();
    let (load, state) = (quick_start().display().to_string(), file("state"));
    let more = file("more.yaml");
    let topologist = Topologist::serve(&[
        "--embedded",
        "--controllers=none",
        "--load",
        &load,
        "--load",
        &more,
        "--state-dir",
        &state,
    ]);
    topologist.wait_until_ready();
    let authority = std::fs::read(Path::new(&state).join("ca.crt")).unwrap();
    Served { topologist, authority, folder }
}

/// A server with the certificate files of a folder, which it reads every 300 ms: longer than it takes to write a pair.
fn serve_with_files() -> Served {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let load = quick_start().display().to_string();
    let (cert, key, state) = (file("tls.crt"), file("tls.key"), file("state"));
    let arguments = [
        "--embedded",
        "--controllers=none",
        "--state-dir",
        &state,
        "--load",
        &load,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--tls-poll",
        "300ms",
    ];
    let topologist = Topologist::serve(&arguments);
    let authority = std::fs::read(file("ca.crt")).unwrap();
    Served { topologist, authority, folder }
}

pub(crate) fn review(name: &str) -> String {
    std::fs::read_to_string(quick_start().join(name)).unwrap()
}

pub(crate) fn response(body: &str) -> Value {
    let answer: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    answer["response"].clone()
}

impl Served {
    pub(crate) async fn connect(&self, protocol: Protocol) -> Connection {
        Connection::open(&self.topologist.webhook, &self.authority, protocol).await.unwrap()
    }
}

#[tokio::test]
async fn reviews_are_answered_on_both_protocols_over_one_connection() {
    let served = serve(&[]);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut connection = served.connect(protocol).await;
        for _ in 0..3 {
            let (code, body) = connection.post(VALIDATE, review("review.json")).await.unwrap();
            assert_eq!((code.as_u16(), &response(&body)["allowed"]), (200, &json!(true)), "{body}");
        }
        let (_, body) = connection.post(VALIDATE, review("review-denied.json")).await.unwrap();
        let causes = response(&body)["status"]["details"]["causes"].clone();
        let fields: Vec<_> = causes.as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap()).collect();
        let want = [
            "spec.clusterNetwork.pods.cidrBlocks[0]",
            "spec.topology.version",
            "spec.topology.workers.machineDeployments[0].class",
        ];
        assert_eq!(fields, want);
        let without_v = review("review.json").replace("\"v1.33", "\"1.33");
        let (_, body) = connection.post(MUTATE, without_v).await.unwrap();
        let response = response(&body);
        assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")), "{body}");
    }
}

#[tokio::test]
async fn machines_are_reviewed_with_lifecycle_on() {
    // MA-28
    let mut review: Value = serde_json::from_str(&review("review.json")).unwrap();
    review["request"]["kind"] = json!({"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "MachineDeployment"});
    review["request"]["object"] = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {"clusterName": "one", "template": {"spec": {"clusterName": "two", "version": "v1.33"}}}});
    let paths = ["mutate", "validate"].map(|phase| format!("/{phase}-cluster-x-k8s-io-v1beta2-machinedeployment"));
    let served = serve(&[]);
    let mut connection = served.connect(Protocol::Http2).await;
    let (_, body) = connection.post(&paths[0], review.to_string()).await.unwrap();
    assert_eq!(response(&body)["patchType"], "JSONPatch", "{body}");
    let (_, body) = connection.post(&paths[1], review.to_string()).await.unwrap();
    let causes = response(&body)["status"]["details"]["causes"].clone();
    let fields: Vec<_> = causes.as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.template.spec.version", "spec.selector", "spec.template.spec.clusterName"]);
    review["request"]["kind"]["version"] = json!("v1beta1");
    let (_, body) = connection.post(&paths[1], review.to_string()).await.unwrap();
    let message = response(&body)["status"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("versions v1beta2; the review is about MachineDeployment"), "{message}");

    let off = serve(&["--lifecycle=off"]);
    let mut connection = off.connect(Protocol::Http2).await;
    for path in &paths {
        let (code, body) = connection.post(path, review.to_string()).await.unwrap();
        assert_eq!(code.as_u16(), 404, "{body}");
        assert!(!body.contains("machinedeployment,"), "{body}");
    }
}

#[tokio::test]
async fn a_version_change_is_judged_by_the_control_plane_that_was_loaded() {
    let mut change: Value = serde_json::from_str(&review("review.json")).unwrap();
    let request = &mut change["request"];
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    request["object"]["spec"]["topology"]["version"] = json!("v1.34.2");
    let message = async |served: &Served, change: &Value| {
        let (_, body) = served.connect(Protocol::Http2).await.post(VALIDATE, change.to_string()).await.unwrap();
        response(&body)["status"]["message"].as_str().unwrap().to_owned()
    };
    // UPG-008: what was not started has no version that could change.
    let denial = message(&serve(&[]), &change).await;
    assert!(denial.contains("the Cluster has no controlPlaneRef yet"), "{denial}");

    let reference = json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "x"});
    for object in ["object", "oldObject"] {
        change["request"][object]["spec"]["controlPlaneRef"] = reference.clone();
    }
    let control_plane = "{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: \
        {name: x, labels: {cluster.x-k8s.io/cluster-name: my-first, topology.cluster.x-k8s.io/owned: ''}}, \
        spec: {version: v1.33.5}, status: {version: v1.32.0}}";
    let denial = message(&serve_also(control_plane), &change).await;
    assert!(denial.contains("KubeadmControlPlane default/x is upgrading to v1.33.5: v1.32.0 runs in it"), "{denial}");
}

#[tokio::test]
async fn metrics_count_what_was_answered() {
    let served = serve(&[]);
    let mut connection = served.connect(Protocol::Http2).await;
    connection.post(VALIDATE, review("review.json")).await.unwrap();
    connection.post(VALIDATE, review("review-denied.json")).await.unwrap();
    connection.post(VALIDATE, "{}").await.unwrap();
    for (metric, want) in [
        ("topologist_admission_requests_total{kind=\"Cluster\",operation=\"CREATE\",outcome=\"allowed\"}", 1.0),
        ("topologist_admission_requests_total{kind=\"Cluster\",operation=\"CREATE\",outcome=\"invalid\"}", 1.0),
        ("topologist_admission_duration_seconds_count", 2.0),
        ("topologist_rule_rejections_total{rule=\"CL-V-055\"}", 1.0),
        ("topologist_refused_requests_total{reason=\"not_a_review\"}", 1.0),
        ("topologist_connections", 2.0),
        ("topologist_panics_total", 0.0),
    ] {
        assert_eq!(served.topologist.metric(metric), Some(want), "{metric}");
    }
    let expiry = served.topologist.metric("topologist_tls_certificate_expiry_timestamp_seconds").unwrap();
    assert!(expiry > 1.7e9, "{expiry}");
    assert_eq!(served.topologist.admin_get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(served.topologist.admin_get("/nothing").0, 404);
}

#[tokio::test]
async fn conversions_ignore_scope_and_enforcement() {
    let folder = tempfile::tempdir().unwrap();
    let definition = folder.path().join("crd.yaml");
    std::fs::write(
        &definition,
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com, \
         labels: {cluster.x-k8s.io/v1beta2: v1_v2}}, spec: {group: example.com, scope: Namespaced, \
         names: {kind: Thing, plural: things}, versions: [{name: v2, served: true, storage: true, \
         schema: {openAPIV3Schema: {type: object}}}]}}",
    )
    .unwrap();
    let definition = definition.display().to_string();
    let served = serve(&["--namespace", "another", "--enforce", "warn", "--load", &definition]);
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"infrastructureRef": {"apiGroup": "example.com", "kind": "Thing", "name": "t"}}});
    let request = json!({"uid": "u", "desiredAPIVersion": "cluster.x-k8s.io/v1beta1", "objects": [object]});
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let Topologist { webhook, conversions, .. } = &served.topologist;
    for (protocol, address) in [
        (Protocol::Http1, webhook),
        (Protocol::Http2, webhook),
        (Protocol::Http1, conversions),
        (Protocol::Http2, conversions),
    ] {
        let mut connection = Connection::open(address, &served.authority, protocol).await.unwrap();
        let (code, body) = connection.post("/convert?timeout=30s", review.to_string()).await.unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code.as_u16(), &answer["response"]["result"]["status"]), (200, &json!("Success")), "{body}");
        let want = json!({"apiVersion": "example.com/v2", "kind": "Thing", "name": "t", "namespace": "ns"});
        assert_eq!(answer["response"]["convertedObjects"][0]["spec"]["infrastructureRef"], want);
    }
}

#[tokio::test]
async fn logs_carry_the_uid_of_the_request_and_dry_runs_are_marked() {
    let mut served = serve(&[]);
    let mut connection = served.connect(Protocol::Http2).await;
    let mut request: Value = serde_json::from_str(&review("review.json")).unwrap();
    request["request"]["uid"] = json!("uid-of-the-story");
    request["request"]["dryRun"] = json!(true);
    connection.post(VALIDATE, request.to_string()).await.unwrap();
    let line = served.topologist.wait_for_log("Answered admission request");
    assert_eq!(line["span"]["uid"], "uid-of-the-story");
    assert_eq!((&line["allowed"], &line["dry_run"], &line["name"]), (&json!(true), &json!(true), &json!("my-first")));
}

#[tokio::test]
async fn bodies_that_are_too_large_get_413_and_the_connection_serves_on() {
    let served = serve(&[]);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut connection = served.connect(protocol).await;
        let (code, body) = connection.post(VALIDATE, vec![b' '; 8 * 1024 * 1024]).await.unwrap();
        assert_eq!(
            (code.as_u16(), &*body),
            (413, "topologist: the body is larger than 7340032 bytes\n"),
            "{protocol:?}"
        );
        let mut next = served.connect(protocol).await;
        assert_eq!(next.post(VALIDATE, review("review.json")).await.unwrap().0.as_u16(), 200);
    }
}

#[test]
fn plain_http_on_the_tls_port_gets_an_explanation() {
    let served = serve(&[]);
    let mut stream = TcpStream::connect(&served.topologist.webhook).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("this port serves HTTPS, but the request is plain HTTP\n"), "{answer}");
}

#[test]
fn slow_clients_are_closed_and_do_not_affect_others() {
    let served = serve(&["--client-patience", "2s", "--client-idle", "10m"]);
    let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(&served.topologist.webhook).unwrap()).collect();
    let mut half = TcpStream::connect(&served.topologist.webhook).unwrap();
    half.write_all(&[0x16, 0x03]).unwrap();
    silent.push(half);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connection = served.connect(Protocol::Http1).await;
        assert_eq!(connection.post(VALIDATE, review("review.json")).await.unwrap().0.as_u16(), 200);
        // A handshake, and then headers that never end.
        let mut slow = tls(&served.topologist.webhook, &served.authority, Protocol::Http1).await.unwrap();
        slow.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
        let started = Instant::now();
        let mut rest = Vec::new();
        let _ =
            tokio::time::timeout(SOON, slow.read_to_end(&mut rest)).await.expect("the server closes the connection");
        assert!(started.elapsed() < Duration::from_secs(10));
        // A handshake, and then nothing at all, in either protocol.
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut silent = tls(&served.topologist.webhook, &served.authority, protocol).await.unwrap();
            let _ = tokio::time::timeout(SOON, silent.read_to_end(&mut rest))
                .await
                .expect("the server closes the connection");
        }
    });
    for mut stream in silent {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "a client that said nothing gets nothing but the end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_connections_are_closed_gracefully() {
    let served = serve(&["--connection-age", "200ms"]);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut connection = served.connect(protocol).await;
        connection.post(VALIDATE, review("review.json")).await.unwrap();
        // This one waits for its class when the connection grows old, and is answered all the same.
        let waits = review("review.json").replace("\"quick-start\"", "\"absent\"");
        let (code, _) = connection.post(MUTATE, waits).await.unwrap();
        assert_eq!(code.as_u16(), 200, "{protocol:?}");
        assert!(
            connection.post(VALIDATE, review("review.json")).await.is_err(),
            "{protocol:?}: the connection has ended"
        );
    }
}

#[tokio::test]
async fn an_old_connection_is_closed_with_its_next_answer() {
    // kube-apiserver calls Services by HTTP/1.1: a request on a connection that is just being closed would be lost.
    let served = serve(&["--client-patience", "500ms", "--connection-age", "100ms"]);
    let mut connection = served.connect(Protocol::Http1).await;
    connection.post(VALIDATE, review("review.json")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (code, _) = connection.post(VALIDATE, review("review.json")).await.unwrap();
    assert_eq!(code.as_u16(), 200, "longer idle than a head may take, and older than connections get");
    assert!(connection.post(VALIDATE, review("review.json")).await.is_err(), "and this was the last answer");
}

#[tokio::test]
async fn a_new_certificate_is_taken_on_without_dropping_a_connection() {
    let mut served = serve_with_files();
    let mut old = served.connect(Protocol::Http2).await;
    old.post(VALIDATE, review("review.json")).await.unwrap();
    // Mounted Secrets change by a swap of symbolic links; a rename is the same to a reader.
    make_certificates(served.folder.path());
    served.topologist.wait_for_log("Loaded a new certificate");
    let fresh = std::fs::read(served.folder.path().join("ca.crt")).unwrap();
    let mut new = Connection::open(&served.topologist.webhook, &fresh, Protocol::Http2).await.unwrap();
    assert_eq!(new.post(VALIDATE, review("review.json")).await.unwrap().0.as_u16(), 200);
    assert_eq!(old.post(VALIDATE, review("review.json")).await.unwrap().0.as_u16(), 200, "the old connection goes on");
    assert!(Connection::open(&served.topologist.webhook, &served.authority, Protocol::Http2).await.is_err());
    assert_eq!(served.topologist.metric("topologist_tls_reloads_total{outcome=\"success\"}"), Some(1.0));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_reported_and_the_old_one_stays() {
    let mut served = serve_with_files();
    std::fs::write(served.folder.path().join("tls.crt"), "nothing").unwrap();
    let line = served.topologist.wait_for_log("Kept the old certificate because the new one cannot be used");
    assert!(line["error"].as_str().unwrap().contains("holds no certificate in PEM form"), "{line}");
    let mut connection = served.connect(Protocol::Http1).await;
    assert_eq!(connection.post(VALIDATE, review("review.json")).await.unwrap().0.as_u16(), 200);
    assert_eq!(served.topologist.metric("topologist_tls_reloads_total{outcome=\"failure\"}"), Some(1.0));
    // The same fault again is no news; a good pair ends it.
    make_certificates(served.folder.path());
    served.topologist.wait_for_log("Loaded a new certificate");
    assert_eq!(served.topologist.metric("topologist_tls_reloads_total{outcome=\"failure\"}"), Some(1.0));
}

#[test]
fn certificates_that_cannot_serve_keep_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    make_certificates(&one);
    make_certificates(&two);
    let expired = folder.path().join("expired");
    expire(&expired);
    let path = |folder: &Path, name: &str| folder.join(name).display().to_string();
    for (cert, key, words) in [
        (path(&one, "tls.crt"), path(&two, "tls.key"), "does not belong to the key"),
        (path(&expired, "tls.crt"), path(&expired, "tls.key"), "expired at"),
        (path(&one, "absent.crt"), path(&one, "tls.key"), "cannot read"),
        (path(&one, "tls.key"), path(&one, "tls.key"), "holds no certificate"),
        (path(&one, "tls.crt"), path(&one, "tls.crt"), "holds no private key"),
    ] {
        let state = folder.path().join("state").display().to_string();
        let serve = ["serve", "--embedded", "--state-dir", &state, "--tls-cert", &cert, "--tls-key", &key];
        let output = command(&serve).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{words:?} is missing in {text}");
    }
}

/// A pair that expired long ago.
fn expire(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(folder.join("tls.crt"), parameters.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
}

#[test]
fn an_error_of_the_operating_system_is_printed_once_and_unquoted() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent").display().to_string();
    for arguments in [
        ["serve", "--kubeconfig", &absent, "--manage-certificates"].as_slice(),
        &["plan", "--live", "--kubeconfig", &absent, "--to", "fixtures/quick-start"],
        &["validate", &absent],
    ] {
        let text = String::from_utf8(command(arguments).output().unwrap().stderr).unwrap();
        let last = text.lines().last().unwrap_or_default();
        assert_eq!(last, format!("topologist: cannot read {absent}: No such file or directory (os error 2)"));
    }
}

#[test]
fn a_request_that_fails_is_logged_by_the_program_alone() {
    let folder = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let (cluster, context) = (json!({"server": format!("http://{free}")}), json!({"cluster": "c", "user": "u"}));
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": cluster}], "contexts": [{"name": "c", "context": context}]});
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    make_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (kubeconfig, certificate, key) = (path("kubeconfig"), path("tls.crt"), path("tls.key"));
    let arguments = ["--kubeconfig", &kubeconfig, "--controllers=none", "--tls-cert", &certificate, "--tls-key", &key];
    let served = Topologist::serve(&arguments);
    wait::until("it warns", SOON, || served.log_text().contains("\"WARN\""), || served.log_text());
    assert!(!served.log_text().contains("kube_client"), "{}", served.log_text());
}

#[test]
fn a_second_server_leaves_the_state_directory_of_the_first_alone() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display().to_string();
    let server = || {
        let addresses = ["serve", "--log-format=json", "--webhook-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"];
        let mut server = command(&addresses);
        server.args(["--embedded", "--controllers=none", "--state-dir", &state]);
        server
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let mut first = Topologist::launch(server());
    let before = [read("kubeconfig"), read("ca.crt")];
    let output = server().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let user = format!("process {} uses the directory {state}", first.id());
    assert!(text.contains(&user) && text.contains("another --state-dir"), "{text}");
    assert_eq!([read("kubeconfig"), read("ca.crt")], before);
    // A process that is killed leaves no lock.
    first.signal("KILL");
    first.wait();
    let _second = Topologist::launch(server());
    assert_ne!(read("kubeconfig"), before[0]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display().to_string();
    let output = command(&["serve", "--embedded", "--state-dir", &state, "--webhook-addr", &address]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(&format!("cannot listen on {address} (--webhook-addr)")), "{text}");
    assert!(!folder.path().join("kubeconfig").exists(), "another server may have written one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_signal_drains_and_a_second_one_aborts() {
    let mut served = serve(&["--shutdown-grace", "3s"]);
    let mut connection = served.connect(Protocol::Http1).await;
    served.topologist.signal("TERM");
    served.topologist.wait_for_log("Shutting down; a second signal aborts");
    assert_eq!(served.topologist.admin_get("/readyz").0, 503, "nobody should send more");
    let (code, _) = connection.post(VALIDATE, review("review.json")).await.unwrap();
    assert_eq!(code.as_u16(), 200, "and whoever does is still answered");
    assert_eq!(served.topologist.wait().code(), Some(0));

    let mut served = serve(&["--shutdown-grace", "10m"]);
    served.topologist.signal("INT");
    served.topologist.wait_for_log("Shutting down; a second signal aborts");
    served.topologist.signal("INT");
    assert_eq!(served.topologist.wait().code(), Some(130));
}

#[tokio::test]
async fn a_review_under_way_is_finished_when_the_server_stops() {
    let mut served = serve(&[]);
    let mut connection = served.connect(Protocol::Http2).await;
    // A class that does not exist is waited for, which keeps the review open for two seconds.
    let waits = review("review.json").replace("\"quick-start\"", "\"absent\"");
    let answer = tokio::spawn(async move { connection.post(MUTATE, waits).await });
    let in_flight = async || served.topologist.metric("topologist_admission_requests_in_flight");
    let has_arrived = async || in_flight().await == Some(1.0);
    wait::until_async("the review arrives", SOON, has_arrived, wait::nothing).await;
    served.topologist.signal("TERM");
    let (code, body) = answer.await.unwrap().unwrap();
    assert_eq!((code.as_u16(), &response(&body)["allowed"]), (200, &true.into()), "{body}");
    assert_eq!(served.topologist.wait().code(), Some(0));
}

#[tokio::test]
async fn only_the_mutating_end_point_waits_for_a_class_that_is_absent() {
    // DEC-2
    let served = serve(&[]);
    let mut connection = served.connect(Protocol::Http2).await;
    let absent = review("review.json").replace("\"quick-start\"", "\"absent\"");
    let mut time = async |path: &str| {
        let started = Instant::now();
        let (code, body) = connection.post(path, absent.clone()).await.unwrap();
        assert_eq!(code.as_u16(), 200, "{body}");
        (started.elapsed(), body)
    };
    let (waited, _) = time(MUTATE).await;
    assert!(waited >= Duration::from_millis(1900), "it may be about to arrive: {waited:?}");
    let (waited, body) = time(VALIDATE).await;
    assert!(waited < Duration::from_millis(1500), "it was waited for already: {waited:?}");
    assert!(response(&body)["warnings"][0].as_str().unwrap().contains("default/absent does not exist"), "{body}");
}

#[test]
fn the_server_describes_how_to_send_a_review() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state").display().to_string();
    let load = quick_start().display().to_string();
    let arguments = [
        "serve",
        "--embedded",
        "--load",
        &load,
        "--state-dir",
        &state,
        "--webhook-addr=127.0.0.1:0",
        "--admin-addr=127.0.0.1:0",
    ];
    let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut text = String::new();
    while !text.contains("validate-cluster-x-k8s-io-v1beta2-cluster\n") {
        let mut buffer = [0; 4096];
        let read = out.read(&mut buffer).unwrap();
        assert!(read > 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        text.contains(&format!("curl --cacert {state}/ca.crt --data-binary @fixtures/quick-start/review.json")),
        "{text}"
    );
    assert!(text.contains("(ClusterClasses: 1, Clusters: 1)"), "{text}");
    assert!(text.contains(&format!("  export KUBECONFIG={state}/kubeconfig\n")), "{text}");
    let shown = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/embedded.md")).unwrap();
    for line in text.lines().filter(|line| line.starts_with("  kubectl ")) {
        assert!(shown.contains(line), "{line} is not in docs/embedded.md");
    }
}

/// A review of a ClusterClass whose patterns take a tenth of a second each to compile.
fn hostile_class(name: &str) -> String {
    let variable = |index: usize| {
        let schema = json!({"type": "string", "pattern": format!("{name}-{index}[\\pL\\pN]{{90}}")});
        json!({"name": format!("v{index}"), "required": false, "schema": {"openAPIV3Schema": schema}})
    };
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"variables": (0..6).map(variable).collect::<Vec<_>>()}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": name, "operation": "CREATE", "name": name, "namespace": "default", "object": object,
        "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "ClusterClass"}}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_reviews_stay_fast_while_hostile_classes_are_judged() {
    let served = serve(&[]);
    let mut connection = served.connect(Protocol::Http2).await;
    connection.post(VALIDATE, review("review.json")).await.unwrap();
    // More of them than there are async threads.
    let cores = std::thread::available_parallelism().unwrap().get();
    let started = Instant::now();
    let mut hostile = Vec::new();
    for index in 0..=cores {
        let mut connection = served.connect(Protocol::Http2).await;
        hostile.push(tokio::spawn(async move {
            // As long as anybody may wait: the machine of the test may be busy with other things.
            let path = "/validate-cluster-x-k8s-io-v1beta2-clusterclass?timeout=60s";
            for turn in 0..4 {
                let class = hostile_class(&format!("hostile-{index}-{turn}"));
                let (_, body) = connection.post(path, class).await.unwrap();
                assert_ne!(response(&body)["status"]["code"], 500, "{body}");
            }
        }));
    }
    let mut times = Vec::new();
    while !hostile.iter().all(tokio::task::JoinHandle::is_finished) {
        let begun_at = Instant::now();
        let (code, body) = connection.post(VALIDATE, review("review.json")).await.unwrap();
        assert_eq!((code.as_u16(), &response(&body)["allowed"]), (200, &json!(true)), "{body}");
        times.push(begun_at.elapsed());
    }
    for task in hostile {
        task.await.unwrap();
    }
    let (together, slowest) = (started.elapsed(), times.iter().max().unwrap());
    let usual = times.iter().min().unwrap();
    assert!(together > *usual * 100, "the classes are not hostile: {together:?}, and a Cluster review {usual:?}");
    assert!(*slowest < together / 5, "one of {} Cluster reviews took {slowest:?} of {together:?}", times.len());
}

/// An authority of client certificates, and a certificate of it with its key, in PEM form.
struct Caller {
    authority: String,
    certificate: String,
    key: String,
}

fn caller(name: &str) -> Caller {
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    Caller { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
}

impl Served {
    /// Whether a review is answered to a client with this certificate, or with none.
    async fn answers(&self, caller: Option<&Caller>, protocol: Protocol) -> bool {
        let shown = caller.map(|caller| (&*caller.certificate, &*caller.key));
        let stream = tls_as(shown, &self.topologist.webhook, &self.authority, protocol).await;
        // With TLS 1.3 a client hears only after its handshake that it was refused.
        let Ok(stream) = stream else { return false };
        let Ok(mut connection) = Connection::over(stream, protocol).await else { return false };
        let answer = connection.post(VALIDATE, review("review.json")).await;
        answer.is_ok_and(|(code, _)| code.as_u16() == 200)
    }
}

#[tokio::test]
async fn only_callers_with_a_certificate_of_the_client_authority_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client-ca.crt");
    let (known, other, stranger) = (caller("kube-apiserver"), caller("kube-apiserver"), caller("somebody"));
    std::fs::write(&file, format!("{}{}", known.authority, stranger.authority)).unwrap();
    let file_argument = file.display().to_string();
    let mut served = serve(&["--client-ca", &file_argument, "--client-name", "kube-apiserver", "--tls-poll", "100ms"]);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        assert!(served.answers(Some(&known), protocol).await, "{protocol:?}");
        assert!(!served.answers(None, protocol).await, "{protocol:?}: no certificate");
        assert!(!served.answers(Some(&other), protocol).await, "{protocol:?}: another authority");
        assert!(!served.answers(Some(&stranger), protocol).await, "{protocol:?}: another name");
    }
    for (reason, want) in [("client_certificate_missing", 2.0), ("client_certificate_refused", 4.0)] {
        let metric = format!("topologist_tls_handshake_failures_total{{reason=\"{reason}\"}}");
        assert_eq!(served.topologist.metric(&metric), Some(want), "{reason}");
    }
    let rejected = "Rejected a connection without a valid client certificate";
    served.topologist.wait_for_log(rejected);
    let log = served.topologist.log_text();
    assert_eq!(log.matches(rejected).count(), 1, "one line for all connections of a peer: {log}");
    assert_eq!(served.topologist.admin_get("/readyz").0, 200, "probes are asked by the kubelet, which has none");
    // Conversions are asked for without a certificate, at their own address.
    let nothing = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "cluster.x-k8s.io/v1beta1", "objects": []}});
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let conversions = &served.topologist.conversions;
        let mut connection = Connection::open(conversions, &served.authority, protocol).await.unwrap();
        let (code, body) = connection.post("/convert", nothing.to_string()).await.unwrap();
        assert!(code.as_u16() == 200 && body.contains("Success"), "{body}");
        let (code, body) = connection.post(VALIDATE, review("review.json")).await.unwrap();
        assert!(code.as_u16() == 404 && body.contains("send conversions to POST /convert"), "{body}");
        let shown = Some((&*known.certificate, &*known.key));
        let stream = tls_as(shown, &served.topologist.webhook, &served.authority, protocol).await.unwrap();
        let mut connection = Connection::over(stream, protocol).await.unwrap();
        let (code, body) = connection.post("/convert", nothing.to_string()).await.unwrap();
        assert!(code.as_u16() == 404 && body.contains("--conversion-addr"), "{body}");
    }

    std::fs::write(&file, "nothing").unwrap();
    served.topologist.wait_for_log("Kept the old CA for client certificates because the new one cannot be used");
    assert!(served.answers(Some(&known), Protocol::Http2).await);
    std::fs::write(&file, &other.authority).unwrap();
    served.topologist.wait_for_log("Loaded a new CA for client certificates");
    assert!(served.answers(Some(&other), Protocol::Http2).await);
    assert!(!served.answers(Some(&known), Protocol::Http2).await, "its authority is gone");
}

#[test]
fn a_client_authority_that_cannot_be_used_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("empty"), "").unwrap();
    for (arguments, words) in [
        (vec!["--client-ca", &path("absent")], "cannot read"),
        (vec!["--client-ca", &path("empty")], "holds no certificate in PEM form"),
        (vec!["--client-name", "kube-apiserver"], "--client-ca <FILE>"),
    ] {
        let output =
            command(&["serve", "--embedded", "--state-dir", &path("state")]).args(&arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{words:?} is missing in {text}");
    }
}

#[test]
fn an_embedded_server_serves_when_it_knows_its_objects() {
    // A class would be unknown to the first review otherwise, which would be answered with 500.
    let log = serve(&[]).topologist.log_text();
    let place = |words: &[&str]| log.lines().position(|line| words.iter().all(|word| line.contains(word)));
    let serving = place(&["\"Serving\""]).expect("it serves");
    for kind in ["\"Cluster\"", "\"ClusterClass\""] {
        let listed = place(&["\"Listed objects\"", kind]).expect("they are listed");
        assert!(listed < serving, "{kind}: {log}");
    }
}
