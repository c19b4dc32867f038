//! The image, made by its own Dockerfile and run without a container engine.
//!
//! The steps of the Dockerfile run on this machine, `apk` and `cargo` apart: the stand-in for cargo links glibc
//! statically where the image has musl, and builds with the development profile. The result runs in a root directory
//! that holds the binary and nothing else, as the user of the image.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_macros, unreachable_pub, reason = "tests")]

mod dockerfile;
mod packages;

#[path = "../harness/mod.rs"]
mod harness;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dockerfile::Image;
use serde_json::Value;
use topologist::crd;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{find, overlay, permissions, stream};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::tls_client::{Connection, Protocol};

const USER: u32 = 65532;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The image, built once for all tests.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| Image::build(repository(), Path::new(env!("CARGO_TARGET_TMPDIR"))))
}

/// Whether we are root. Others run the image in a user namespace, where they are whom they say.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim() == "0"
}

/// The image with the files of its root directory, to mount things in.
struct Container {
    root: tempfile::TempDir,
}

/// The devices of chance, which every container runtime brings (OCI runtime specification, "Default Devices"). Files do
/// as well, and anybody may make them.
fn devices(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let mut bytes = vec![0; 64 * 1024];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    for name in ["random", "urandom"] {
        fs::write(folder.join(name), &bytes).unwrap();
    }
}

impl Container {
    fn new() -> Self {
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Others may look, as in an image; nobody but root may write.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for file in fs::read_dir(&image().root).unwrap().map(Result::unwrap) {
            // A process that another thread starts would hold a copy open for writing, and the copy could not run.
            fs::hard_link(file.path(), root.path().join(file.file_name())).unwrap();
        }
        devices(&root.path().join("dev"));
        Container { root }
    }

    /// What the image runs, with other arguments than its own, and no environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let root = self.root.path().to_str().unwrap();
        let user = &image().user;
        assert_eq!(user, &format!("{USER}:{USER}"), "a number, so that runAsNonRoot can be checked");
        let mut command = if is_root() {
            let mut chroot = Command::new("chroot");
            chroot.args([&format!("--userspec={user}"), root]);
            chroot
        } else {
            let mut unshare = Command::new("unshare");
            unshare.args(["--user", &format!("--map-user={USER}"), &format!("--map-group={USER}")]);
            unshare.arg(format!("--root={root}"));
            unshare
        };
        command.args(&image().entry_point).args(arguments).env_clear().env("PATH", std::env::var("PATH").unwrap());
        command.stdin(Stdio::null());
        command
    }

    /// Mounts what a kubelet mounts for a ServiceAccount, and says where the API server is.
    fn mount_account(&self, kubeconfig: &Path, command: &mut Command) {
        let kubeconfig: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
        let cluster = &kubeconfig["clusters"][0]["cluster"];
        let authority = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
        let folder = self.root.path().join("var/run/secrets/kubernetes.io/serviceaccount");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ca.crt"), authority).unwrap();
        fs::write(folder.join("token"), kubeconfig["users"][0]["user"]["token"].as_str().unwrap()).unwrap();
        fs::write(folder.join("namespace"), "topologist-system").unwrap();
        let (host, port) =
            cluster["server"].as_str().unwrap().strip_prefix("https://").unwrap().split_once(':').unwrap();
        command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
    }

    /// Mounts a Secret as the cert-manager overlay does: for the group of the pod.
    fn mount_certificates(&self) {
        let folder = self.root.path().join("certificates");
        make_certificates(&folder);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        for file in fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
            if is_root() {
                chown(&file, None, Some(USER)).unwrap();
            }
        }
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_dockerfile_uses_the_toolchain_of_the_repository() {
    let toolchain = fs::read_to_string(repository().join("rust-toolchain.toml")).unwrap();
    let instructions = dockerfile::instructions(repository());
    let base = instructions[0].strip_prefix("ARG BASE=").unwrap();
    let version = base.strip_prefix("docker.io/library/rust:").and_then(|tag| tag.split_once("-alpine")).unwrap().0;
    assert!(toolchain.contains(&format!("channel = \"{version}.")), "{version} is not in {toolchain}");
    assert_eq!(instructions[1], "FROM ${BASE} AS build");
}

#[test]
fn the_base_image_can_be_pinned_by_its_digest() {
    let base = format!("rust:1.95-alpine@sha256:{}", "0".repeat(64));
    let make = |arguments: &[&str]| {
        let output = Command::new("make")
            .args(["--dry-run", "image", "IMAGE_BUILDER=docker"])
            .args(arguments)
            .current_dir(repository())
            .output();
        text(&output.unwrap())
    };
    let pinned = make(&[&format!("IMAGE_BASE={base}")]);
    let builds: Vec<&str> = pinned.lines().filter(|line| line.starts_with("docker build ")).collect();
    assert_eq!(builds.len(), 2, "{pinned}");
    assert!(builds.iter().all(|line| line.contains(&format!(" --build-arg BASE='{base}' "))), "{pinned}");
    assert!(!make(&["IMAGE_BASE="]).contains("--build-arg"));
}

#[test]
fn the_image_holds_the_binary_alone_and_serves_by_default() {
    let names: Vec<_> = fs::read_dir(&image().root).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["topologist"]);
    assert_eq!(
        (image().entry_point.join(" "), image().command.join(" ")),
        ("/topologist".to_owned(), "serve".to_owned())
    );
    assert_eq!(image().ports, ["9443", "9444", "8081"]);
}

#[test]
fn files_are_judged_in_an_empty_root_directory() {
    let bundle = fs::read_to_string(repository().join("fixtures/quick-start/class.yaml")).unwrap();
    for (text_in, code, words) in
        [(bundle.as_str(), 0, "1 checked, 1 allowed, 0 denied"), ("kind: Nothing\n", 2, "apiVersion")]
    {
        let container = Container::new();
        let mut command = container.command(&["validate", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text_in.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(words), "{}", text(&output));
    }
}

#[test]
fn without_arguments_it_reports_what_it_lacks() {
    let arguments: Vec<_> = image().command.iter().map(String::as_str).collect();
    let container = Container::new();
    let output = container.command(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("--embedded"), "{}", text(&output));
}

#[tokio::test]
async fn reviews_are_answered_in_an_empty_root_directory() {
    let container = Container::new();
    container.mount_certificates();
    let objects = container.root.path().join("objects");
    fs::create_dir(&objects).unwrap();
    fs::copy(repository().join("fixtures/quick-start/class.yaml"), objects.join("class.yaml")).unwrap();
    // Nothing else can be written to.
    let state = container.root.path().join("state");
    fs::create_dir(&state).unwrap();
    if is_root() {
        chown(&state, Some(USER), Some(USER)).unwrap();
    }
    let mut command = container.command(&["serve", "--load", "/objects"]);
    for (flag, value) in [
        ("EMBEDDED", "true"),
        ("TLS_CERT", "/certificates/tls.crt"),
        ("TLS_KEY", "/certificates/tls.key"),
        ("WEBHOOK_ADDR", "127.0.0.1:0"),
        ("ADMIN_ADDR", "127.0.0.1:0"),
        ("API_ADDR", "127.0.0.1:0"),
        ("WORKLOAD_ADDR", "127.0.0.1:0"),
        ("STATE_DIR", "/state"),
        ("LOG_FORMAT", "json"),
    ] {
        command.env(format!("TOPOLOGIST_{flag}"), value);
    }
    let mut topologist = Topologist::launch(command);
    topologist.wait_until_ready();
    if is_root() {
        let status = fs::read_to_string(format!("/proc/{}/status", topologist.id())).unwrap();
        let users = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
        assert_eq!(users.split_whitespace().skip(1).collect::<Vec<_>>(), ["65532"; 4]);
    }
    let authority = fs::read(container.root.path().join("certificates/ca.crt")).unwrap();
    let mut connection = Connection::open(&topologist.webhook, &authority, Protocol::Http2).await.unwrap();
    for (name, allowed) in [("review.json", true), ("review-denied.json", false)] {
        let review = fs::read(repository().join("fixtures/quick-start").join(name)).unwrap();
        let (code, body) = connection.post("/validate-cluster-x-k8s-io-v1beta2-cluster", review).await.unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code.as_u16(), &answer["response"]["allowed"]), (200, &allowed.into()), "{body}");
    }
    topologist.signal("TERM");
    assert_eq!(topologist.wait().code(), Some(0), "{}", topologist.log_text());
}

/// The overlays whose pods can do all that they are told.
const RUNNABLE: [&str; 1] = ["cert-manager"];

#[tokio::test]
async fn a_pod_of_the_deployment_becomes_ready() {
    for name in RUNNABLE {
        let kubernetes = Kubernetes::start();
        let objects = overlay(name);
        kubernetes.apply_yaml(&stream(&crd::definitions())).await;
        kubernetes.apply_yaml(&stream(&permissions(objects.clone()))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let deployed = &find(&objects, "Deployment", "topologist")["spec"]["template"]["spec"]["containers"][0];
        let arguments = deployed["args"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());

        let container = Container::new();
        let mut command = container.command(&arguments.collect::<Vec<_>>());
        for entry in deployed["env"].as_array().unwrap() {
            command.env(entry["name"].as_str().unwrap(), entry["value"].as_str().unwrap());
        }
        // The ports of the manifest may be taken here.
        for name in ["WEBHOOK", "CONVERSION", "ADMIN"] {
            command.env(format!("TOPOLOGIST_{name}_ADDR"), "127.0.0.1:0");
        }
        container.mount_account(&kubeconfig, &mut command);
        container.mount_certificates();
        let topologist = Topologist::launch(command);
        topologist.wait_until_ready();
        assert!(!topologist.log_text().contains("Watch failed"), "{name}: {}", topologist.log_text());
    }
}
