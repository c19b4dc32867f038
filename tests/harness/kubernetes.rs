//! A real kube-apiserver with its etcd, for tests.
//!
//! ```text
//!  test process ──keys, certificates──► directory ◄──── etcd, kube-apiserver
//!       │                                   ▲                   ▲
//!       └──────── pipe ────────► tests/kubernetes/run ──────────┘   end of file: stop both, remove the directory
//! ```
//!
//! There are no controllers: nothing gives a namespace a `default` ServiceAccount, and unless the test starts a
//! `ControllerManager`, nothing collects garbage or finishes the deletion of a namespace. Admission webhooks are called
//! on loopback, so configure them with `url`, not with `service`. A new webhook or RBAC rule takes a moment to be seen;
//! wait for its effect.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams, TypeMeta,
};
use kube::discovery::{self, Scope};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};

use super::server::ProcessFigures;
use super::{programs, wait};

/// Who the harness is in `managedFields`.
const FIELD_MANAGER: &str = "topologist-tests";
/// A start takes seconds; a loaded machine gets minutes.
const START_LIMIT: Duration = Duration::from_mins(2);
/// How long a running server may take to serve what it has accepted.
const SERVE_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(25);
/// Another process may take the port between our finding it free and the server's binding it.
const PORT_ATTEMPTS: usize = 5;
const LOG_LINES: usize = 40;

/// A running API server; dropping it, or ending the process in whatever way, stops it.
pub struct Kubernetes {
    supervisor: Supervisor,
    kubeconfig: PathBuf,
    url: String,
    authority: rcgen::Certificate,
    administrator: Value,
}

impl Kubernetes {
    /// The server that all tests of this process share; give each test its own namespace.
    ///
    /// The first call blocks its thread for the start, and for the build of the programs if they were never built.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<Kubernetes>> = OnceLock::new();
        let outcome = SHARED.get_or_init(|| Self::try_start(&ServerOptions::default()));
        outcome.as_ref().unwrap_or_else(|error| panic!("no Kubernetes API server: {error:#}"))
    }

    /// A server of one's own, for tests that change what is not namespaced.
    pub fn start() -> Self {
        Self::try_start(&ServerOptions::default()).unwrap_or_else(|error| panic!("no Kubernetes API server: {error:#}"))
    }

    /// A server of one's own that shows the webhooks at `host` a client certificate; it has the files of `certs/`.
    pub fn start_with_client_certificate(shown: &ClientCertificate<'_>) -> Self {
        let options = ServerOptions { shown: Some(shown), ..ServerOptions::default() };
        Self::try_start(&options).unwrap_or_else(|error| panic!("no Kubernetes API server: {error:#}"))
    }

    /// A server of one's own that logs each request of a ServiceAccount.
    pub fn start_with_audit_log() -> Self {
        let options = ServerOptions { has_audit_log: true, ..ServerOptions::default() };
        Self::try_start(&options).unwrap_or_else(|error| panic!("no Kubernetes API server: {error:#}"))
    }

    /// The finished requests in the audit log, in the order of their end.
    pub fn audited_requests(&self) -> Vec<AuditedRequest> {
        let log = fs::read_to_string(self.supervisor.directory.join("audit.log")).expect("requests are logged");
        // The last line may not be complete yet.
        let (complete, _) = log.rsplit_once('\n').unwrap_or_default();
        let mut requests = Vec::new();
        for line in complete.lines() {
            let event: Value = serde_json::from_str(line).expect("an event is JSON");
            if event["stage"] == "ResponseComplete" {
                requests.push(AuditedRequest::for_event(&event));
            }
        }
        requests
    }

    /// A kubeconfig file for an administrator who may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client for the administrator.
    ///
    /// It belongs to the current tokio runtime, and every test has its own, so there is no shared one.
    pub fn client(&self) -> kube::Client {
        self.client_maker()()
    }

    /// Makes such a client in another runtime.
    pub fn client_maker(&self) -> impl FnOnce() -> kube::Client + Send + 'static {
        let mut config = kube::Config::new(self.url.parse().expect("a loopback URL"));
        config.root_cert = Some(vec![self.authority.der().to_vec()]);
        config.auth_info = serde_json::from_value(self.administrator.clone()).expect("a kubeconfig user");
        || kube::Client::try_from(config).expect("our own certificates are fit for a client")
    }

    /// Creates a namespace whose name starts with `prefix` and is new, and returns the name.
    pub async fn namespace(&self, prefix: &str) -> String {
        let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..Default::default() };
        let namespace = Namespace { metadata, ..Default::default() };
        let created = Api::all(self.client()).create(&PostParams::default(), &namespace).await;
        created.expect("namespace is created").metadata.name.expect("the server made a name")
    }

    /// A kubeconfig file that speaks for a ServiceAccount, which is created if it is missing, for one hour.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let (params, request) = (PostParams::default(), TokenRequest::default());
        create_if_missing(&accounts, name).await;
        let issued = accounts.create_token_request(name, &params, &request).await.expect("token is issued");
        let token = issued.status.expect("an issued token has a status").token;
        let path = self.supervisor.directory.join(format!("{namespace}.{name}.kubeconfig"));
        self.write_kubeconfig(&path, namespace, &json!({ "token": token })).expect("kubeconfig is written");
        path
    }

    /// Applies documents in their order with server-side apply; unknown or repeated fields are errors.
    ///
    /// CustomResourceDefinitions are served in all their versions before anything after them is applied, and on return.
    pub async fn apply_yaml(&self, yaml: &str) {
        let client = self.client();
        let mut definitions = Vec::new();
        for object in documents(yaml) {
            if object["kind"] == "CustomResourceDefinition" {
                definitions.push(apply(&client, &object).await.metadata.name.expect("it was applied by name"));
            } else {
                all_served(&client, std::mem::take(&mut definitions)).await;
                apply(&client, &object).await;
            }
        }
        all_served(&client, definitions).await;
    }

    /// Memory and processor time of kube-apiserver.
    pub fn api_server_figures(&self) -> ProcessFigures {
        let file = self.supervisor.directory.join("kube-apiserver.pid");
        let process = fs::read_to_string(file).expect("it has a process id");
        let process = process.trim().parse().expect("a process id is a number");
        ProcessFigures::for_process(process).expect("it runs")
    }

    /// Kills kube-apiserver as an out-of-memory killer would. etcd goes on.
    pub fn kill_api_server(&self) {
        self.kill("kube-apiserver");
    }

    /// The answer of etcd to a request of its JSON gateway, such as `range` or `txn`.
    pub fn etcd(&self, request: &str, body: &Value) -> Value {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--data", "@-", "--unix-socket"]);
        curl.arg(self.supervisor.directory.join("client:0")).arg(format!("http://etcd/v3/kv/{request}"));
        let mut curl = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("curl runs");
        let mut stdin = curl.stdin.take().expect("it is piped");
        stdin.write_all(body.to_string().as_bytes()).expect("curl reads");
        drop(stdin);
        let output = curl.wait_with_output().expect("curl ends");
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{request}: {answer}");
        serde_json::from_str(&answer).expect("etcd answers in JSON")
    }

    /// Stops etcd for a moment, and copies what it stores.
    pub fn copy_etcd(&self) {
        self.kill("etcd");
        self.copy("etcd", "etcd.copy");
        self.start_api_server();
    }

    /// Stops kube-apiserver and etcd, and starts them again with what the copy stores.
    pub fn restore_etcd(&self) {
        self.kill("kube-apiserver");
        self.kill("etcd");
        fs::remove_dir_all(self.supervisor.directory.join("etcd")).expect("etcd has a directory");
        self.copy("etcd.copy", "etcd");
        self.start_api_server();
    }

    /// Kills one of both servers, and waits until it is gone.
    fn kill(&self, server: &str) {
        let directory = &self.supervisor.directory;
        fs::write(directory.join("down"), "").expect("a file is made");
        let file = directory.join(format!("{server}.pid"));
        let process = fs::read_to_string(&file).expect("it has a process id");
        let killed = Command::new("kill").args(["-KILL", process.trim()]).status().expect("kill runs");
        assert!(killed.success(), "{server} does not run");
        let start = Instant::now();
        while file.exists() {
            assert!(start.elapsed() < SERVE_LIMIT, "{server} goes on after SIGKILL");
            std::thread::sleep(POLL);
        }
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.supervisor.directory.join(name));
        let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
        assert!(copied.success(), "etcd's files cannot be copied");
    }

    /// Starts again what was killed, kube-apiserver on the same port, and waits until it is ready.
    pub fn start_api_server(&self) {
        fs::remove_file(self.supervisor.directory.join("down")).expect("it was killed");
        self.wait_until_ready().unwrap_or_else(|error| panic!("no Kubernetes API server: {error:#}"));
    }

    /// The last lines of each log, for the message of a failing test.
    pub fn log_tail(&self) -> String {
        ["run.log", "etcd.log", "kube-apiserver.log"].map(|name| self.supervisor.tail(name)).concat()
    }

    fn try_start(options: &ServerOptions<'_>) -> Result<Self> {
        let programs = programs::folder("server");
        let mut attempt = 1;
        loop {
            let server = Self::launch(&programs, options)?;
            match server.wait_until_ready() {
                Err(_) if attempt < PORT_ATTEMPTS && server.supervisor.lost_its_port() => attempt += 1,
                outcome => return outcome.map(|()| server),
            }
        }
    }

    fn launch(programs: &Path, options: &ServerOptions<'_>) -> Result<Self> {
        let supervisor = Supervisor::spawn(programs)?;
        let (authority, administrator) = write_identities(&supervisor.directory)?;
        let kubeconfig = supervisor.directory.join("administrator.kubeconfig");
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let server = Self { supervisor, kubeconfig, url, authority, administrator };
        server.write_kubeconfig(server.kubeconfig(), "default", &server.administrator)?;
        if let Some(shown) = options.shown {
            shown.write(&server.supervisor.directory)?;
        }
        if options.has_audit_log {
            let rules = json!([{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]);
            let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
                "rules": rules});
            fs::write(server.supervisor.directory.join("audit.yaml"), policy.to_string())?;
        }
        server.supervisor.run_on(port)?;
        Ok(server)
    }

    /// Blocks, on a thread of its own: the caller may be inside a tokio runtime, where starting another is forbidden.
    fn wait_until_ready(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ready = move || runtime.block_on(self.ready());
        std::thread::scope(|scope| scope.spawn(ready).join()).expect("polling does not panic")
    }

    async fn ready(&self) -> Result<()> {
        let client = self.client();
        let start = Instant::now();
        while !is_ready(&client).await {
            ensure!(!self.supervisor.ended(), "a server ended by itself\n{}", self.log_tail());
            ensure!(start.elapsed() < START_LIMIT, "not ready after {START_LIMIT:?}\n{}", self.log_tail());
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    fn write_kubeconfig(&self, path: &Path, namespace: &str, user: &Value) -> Result<()> {
        let authority = STANDARD.encode(self.authority.pem());
        let cluster = json!({ "server": self.url, "certificate-authority-data": authority });
        let context = json!({ "cluster": "tests", "user": "tests", "namespace": namespace });
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "tests", "cluster": cluster }],
            "users": [{ "name": "tests", "user": user }],
            "contexts": [{ "name": "tests", "context": context }],
            "current-context": "tests",
        });
        fs::write(path, kubeconfig.to_string()).with_context(|| format!("write {}", path.display()))
    }
}

/// The configuration of a server.
#[derive(Default)]
struct ServerOptions<'a> {
    shown: Option<&'a ClientCertificate<'a>>,
    has_audit_log: bool,
}

/// A request that kube-apiserver has answered.
#[derive(Clone, Debug)]
pub struct AuditedRequest {
    pub user: String,
    pub verb: String,
    /// The plural name, with the subresource after a slash.
    pub resource: String,
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// The HTTP status of the response.
    pub code: u64,
}

impl AuditedRequest {
    fn for_event(event: &Value) -> Self {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let subresource = Some(text("/objectRef/subresource")).filter(|subresource| !subresource.is_empty());
        AuditedRequest {
            user: text("/user/username"),
            verb: text("/verb"),
            resource: [text("/objectRef/resource")].into_iter().chain(subresource).collect::<Vec<_>>().join("/"),
            name: text("/objectRef/name"),
            uri: text("/requestURI"),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        }
    }
}

/// The process that stops the servers when our end of its standard input closes, even if we are killed.
struct Supervisor {
    process: Child,
    directory: PathBuf,
}

impl Supervisor {
    /// In a process group of its own, so that Ctrl-C ends the tests and leaves it to clean up.
    fn spawn(programs: &Path) -> Result<Self> {
        let mut command = Command::new("bash");
        command.arg(programs::scripts().join("run")).arg(programs).process_group(0);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start tests/kubernetes/run")?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let directory = PathBuf::from(line.trim_end());
        ensure!(directory.is_absolute(), "tests/kubernetes/run made no directory");
        Ok(Self { process, directory })
    }

    fn run_on(&self, port: u16) -> Result<()> {
        let mut stdin = self.process.stdin.as_ref().expect("it is piped");
        writeln!(stdin, "{port}").context("tests/kubernetes/run ended early")
    }

    fn ended(&self) -> bool {
        self.directory.join("ended").exists()
    }

    fn lost_its_port(&self) -> bool {
        self.ended() && self.tail("kube-apiserver.log").contains("address already in use")
    }

    fn tail(&self, name: &str) -> String {
        let log = fs::read(self.directory.join(name)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Writes what kube-apiserver reads; returns the authority and the administrator as a kubeconfig user.
fn write_identities(directory: &Path) -> Result<(rcgen::Certificate, Value)> {
    let (authority, issuer) = authority()?;
    fs::write(directory.join("ca.crt"), authority.pem())?;

    let mut server = CertificateParams::new(["127.0.0.1".to_string(), "localhost".to_string()])?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let (certificate, key) = issue(server, "kube-apiserver", &issuer)?;
    fs::write(directory.join("server.crt"), certificate)?;
    fs::write(directory.join("server.key"), key)?;

    let service_accounts = KeyPair::generate()?;
    fs::write(directory.join("service-accounts.key"), service_accounts.serialize_pem())?;
    fs::write(directory.join("service-accounts.pub"), service_accounts.public_key_pem())?;

    let mut administrator = CertificateParams::default();
    administrator.distinguished_name.push(DnType::OrganizationName, "system:masters");
    administrator.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let (certificate, key) = issue(administrator, FIELD_MANAGER, &issuer)?;
    Ok((authority, user(&certificate, &key)))
}

/// A kubeconfig user with a client certificate.
fn user(certificate: &str, key: &str) -> Value {
    json!({"client-certificate-data": STANDARD.encode(certificate), "client-key-data": STANDARD.encode(key)})
}

/// What kube-apiserver shows to webhooks.
pub struct ClientCertificate<'a> {
    /// `host:port` of the webhooks.
    pub host: &'a str,
    /// In PEM form.
    pub certificate: &'a str,
    /// In PEM form.
    pub key: &'a str,
}

impl ClientCertificate<'_> {
    /// Writes the files of `certs/` with other paths and another host.
    fn write(&self, directory: &Path) -> Result<()> {
        let certs = Path::new(env!("CARGO_MANIFEST_DIR")).join("certs");
        let at = |name: &str| directory.join(name).display().to_string();
        let adapt = |name: &str, pairs: &[(&str, &str)]| -> Result<String> {
            let text = fs::read_to_string(certs.join(name))?;
            pairs.iter().try_fold(text, |text, (from, to)| {
                ensure!(text.contains(from), "certs/{name} has no {from}");
                Ok(text.replace(from, to))
            })
        };
        fs::write(at("topologist-client.crt"), self.certificate)?;
        fs::write(at("topologist-client.key"), self.key)?;
        let kubeconfig = [
            ("name: topologist.topologist-system.svc", &*format!("name: {}", self.host)),
            ("/etc/kubernetes/pki/topologist-client.crt", &at("topologist-client.crt")),
            ("/etc/kubernetes/pki/topologist-client.key", &at("topologist-client.key")),
        ];
        fs::write(at("webhooks.kubeconfig"), adapt("webhooks.kubeconfig", &kubeconfig)?)?;
        let configuration = [("/etc/kubernetes/webhooks.kubeconfig", &*at("webhooks.kubeconfig"))];
        fs::write(at("admission.yaml"), adapt("admission-configuration.yaml", &configuration)?)?;
        Ok(())
    }
}

fn authority() -> Result<(rcgen::Certificate, Issuer<'static, KeyPair>)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "topologist tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?, Issuer::new(params, key)))
}

/// A certificate and its key, both in PEM.
fn issue(mut params: CertificateParams, name: &str, issuer: &Issuer<'_, KeyPair>) -> Result<(String, String)> {
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}

/// Ready, and the namespaces that every cluster has are there; those come a moment later.
async fn is_ready(client: &kube::Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a valid request");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let answers = async {
        client.request_text(request).await.is_ok()
            && namespaces.get("default").await.is_ok()
            && namespaces.get("kube-system").await.is_ok()
    };
    // Whoever took our port may never answer.
    tokio::time::timeout(Duration::from_secs(5), answers).await.unwrap_or(false)
}

fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("YAML of a test does not parse: {error}"))
}

fn apply_params() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force().validation_strict()
}

/// Leaves an existing account as it is: applying one would drop the labels that a manifest gave it.
async fn create_if_missing(accounts: &Api<ServiceAccount>, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_string()), ..Default::default() };
    let account = ServiceAccount { metadata, ..Default::default() };
    match accounts.create(&PostParams::default(), &account).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        outcome => drop(outcome.expect("service account is created")),
    }
}

/// Sends the document as it is, so that the server sees its unknown fields.
async fn apply(client: &kube::Client, object: &Value) -> DynamicObject {
    let name = object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("a document has no name: {object}"));
    let (resource, scope) = resource_of(client, object).await;
    let api = match (scope, object["metadata"]["namespace"].as_str()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let applied = api.patch(name, &apply_params(), &Patch::Apply(object)).await;
    applied.unwrap_or_else(|error| panic!("{} {name} is not applied: {error}", resource.kind))
}

/// The server's name and scope for the kind of an object.
async fn resource_of(client: &kube::Client, object: &Value) -> (ApiResource, Scope) {
    let types: TypeMeta =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error} in document {object}"));
    let kind = GroupVersionKind::try_from(types).unwrap_or_else(|error| panic!("{error} in document {object}"));
    discovered(client, &kind).await
}

async fn discovered(client: &kube::Client, kind: &GroupVersionKind) -> (ApiResource, Scope) {
    let discover = async || discovery::pinned_kind(client, kind).await.map(Some);
    let (resource, capabilities) = until(&format!("{} is served", kind.kind), discover).await;
    (resource, capabilities.scope)
}

async fn all_served(client: &kube::Client, definitions: Vec<String>) {
    for name in definitions {
        served(client, &name).await;
    }
}

/// Waits until a definition is established and discovery offers each of its versions, which comes a little later.
async fn served(client: &kube::Client, name: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = async || Ok(Some(definitions.get(name).await?).filter(is_established));
    let spec = until(&format!("{name} is established"), established).await.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        discovered(client, &GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind)).await;
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Asks until there is an answer; panics with the last error when it takes too long.
async fn until<T>(fact: &str, ask: impl AsyncFn() -> kube::Result<Option<T>>) -> T {
    let answered = async || ask().await.ok().flatten();
    let error = async || ask().await.err().map(|error| error.to_string()).unwrap_or_default();
    wait::until_some_async(fact, SERVE_LIMIT, answered, error).await
}
