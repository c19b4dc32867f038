//! Runtime Extensions of a command: running ones are called, and recorded answers are read from files.
//!
//! ```text
//! PatchCall ─► HandlerRequest ─► key of the request ─► answered before? ─► Found<PatchAnswer>
//!                                      │ no                  ▲
//!                                      └─► URL, or FILE ─────┘─► --record
//! ```
//!
//! The key is a hash of the completed request. Equal requests are equal bytes, so a recording answers the same plan
//! again. Requests of a simulation contain times, so its recording has its start. Answers are cached until the command
//! ends; requests only for `--record`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, fs};

use anyhow::{Context, Result, anyhow, bail, ensure};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::args::extensions::{self as args, NamedExtension};
use super::args::values;
use super::atomic_file;
use super::discovered::VariableServer;
use super::format_schemas;
use super::live::{self, ClusterConnection};
use super::sources::{self, FILE_LIMIT, TOTAL_LIMIT};
use engine::extensions::answers::Retry;
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND, ConfigError};
use engine::extensions::errors::RequestBodyError;
use engine::extensions::{
    BaseUrl, CallTarget, DISCOVER_VARIABLES, DISCOVERY, DiscoveryError, ExtensionConfig, ExtensionHandler,
    GENERATE_UPGRADE_PLAN, HandlerRequest, HookRequest, NotRegistered, PlanRequest, PreparedPatchRequest, Registration,
    Selector, VariablesRequest, find_handler, registered_name,
};
use engine::topology::plan::ExtensionServer;
use golang::json::StringMap;
use model::hub::{Hook, Object, ObjectKey, annotation, paths};
use model::world::{Found, HookAnswer, HookCall, ObjectSet, PatchAnswer, PatchCall, PlanCall, PlannedVersions};
use server::extension_client::{CallError, Client, ClientError};
use server::kubernetes::address::Resource;
use server::kubernetes::port_forward::Forward;

/// Maximum number of calls at the same time.
const CALLS_AT_ONCE: usize = 4;
/// The format of recordings.
const FORMAT: &str = "topologist.dev/extension-recording/v1";

/// The reason for which the extension of an ExtensionConfig is not called.
#[derive(Debug, thiserror::Error)]
enum NotUsable {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("it is paused")]
    Paused,
    #[error("it has not been discovered")]
    NotDiscovered,
    #[error("it has no caBundle")]
    NoCaBundle,
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Registration(#[from] DiscoveryError),
}

/// The extensions that a command can call.
#[derive(Debug)]
pub(super) struct CommandExtensions {
    runtime: Runtime,
    /// For calls at the same time: an extension may answer one after the other.
    turns: Semaphore,
    extensions: BTreeMap<String, RegisteredExtension>,
    /// Why extensions of the cluster are not called, by the names of their ExtensionConfigs.
    unreachable: BTreeMap<String, String>,
    /// The labels of Namespaces, or why they are not known; read if the selector of an extension depends on them.
    namespaces: Result<BTreeMap<String, StringMap>, NamespacesError>,
    /// Every call and its outcome, by key.
    made: Mutex<BTreeMap<String, Arc<RecordedCall>>>,
    /// Why calls have no answer.
    unanswered: Mutex<BTreeSet<String>>,
    /// Whether the variables of a class cannot be used.
    is_faulty: AtomicBool,
    record: Option<PathBuf>,
    /// When the recorded simulation began; the latest, if there are several.
    recorded_start: Option<Timestamp>,
    /// Whether handlers of lifecycle hooks are called.
    calls_hooks: bool,
}

/// Why the labels of Namespaces are not known.
#[derive(Debug, thiserror::Error)]
#[error("cannot list Namespaces: {0}")]
struct NamespacesError(#[from] kube::Error);

#[derive(Debug)]
struct RegisteredExtension {
    discovery: Box<RawValue>,
    registration: Registration,
    /// The namespaces that it is called for; all of them if a flag names the extension.
    selector: Selector,
    source: AnswerSource,
}

#[derive(Debug)]
enum AnswerSource {
    Running(BaseUrl, Box<Client>),
    /// The file, and its calls by key.
    Recorded(PathBuf, BTreeMap<String, Arc<RecordedCall>>),
}

/// Why there is no answer of an extension.
enum NoAnswer {
    /// The request cannot be sent, or its answer is an error.
    Unreadable(String),
    /// The extension is neither named by a flag, nor called in the cluster.
    NoExtension(String),
    /// The labels of the namespace are not known, which is noted.
    UnknownNamespace,
    /// The recording has no answer to the request.
    NotRecorded(String),
}

/// The output of `--record`.
#[derive(Debug, Serialize)]
struct WrittenRecording<'a> {
    format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Timestamp>,
    extensions: Vec<WrittenExtension<'a>>,
}

#[derive(Debug, Serialize)]
struct WrittenExtension<'a> {
    name: &'a str,
    discovery: &'a RawValue,
    calls: Vec<&'a RecordedCall>,
}

/// The format of a recording.
#[derive(Debug, Deserialize)]
struct RecordingFormat {
    format: String,
}

/// The same as [`WrittenRecording`], for reading.
#[derive(Debug, Deserialize)]
struct Recording {
    /// When the simulation began, if it is one of a simulation.
    start: Option<Timestamp>,
    extensions: Vec<RecordedExtension>,
}

#[derive(Debug, Deserialize)]
struct RecordedExtension {
    name: String,
    discovery: Box<RawValue>,
    calls: Vec<RecordedCall>,
}

/// A request, and either its answer or the error.
#[derive(Debug, Serialize, Deserialize)]
struct RecordedCall {
    key: String,
    extension: String,
    hook: String,
    /// Only if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl RecordedCall {
    fn outcome(&self) -> Result<&RawValue, &str> {
        match (&self.answer, &self.error) {
            (_, Some(error)) => Err(error),
            (Some(answer), None) => Ok(answer),
            (None, None) => Err("the recording has no answer"),
        }
    }
}

impl CommandExtensions {
    /// Registers the extensions that the flags name, and those of a running cluster that can be reached from here
    /// (RH-3.8); none if there are neither flags nor ExtensionConfigs. `objects` may have the ExtensionConfigs of both.
    /// Extensions are called as long as the connection is open.
    ///
    /// # Errors
    /// When a file cannot be read, or the Discovery of an extension fails that a flag names.
    pub(super) fn open(
        flags: &args::ExtensionFlags,
        objects: impl Fn() -> ObjectSet,
        cluster: Option<&ClusterConnection>,
    ) -> Result<Option<Arc<Self>>> {
        if flags.extensions.is_empty() && cluster.is_none() {
            ensure!(flags.record.is_none(), "--record needs --extension NAME=URL|FILE");
            return Ok(None);
        }
        let objects = objects();
        let mut opened = Self::named(flags, &objects)?;
        if let Some(cluster) = cluster {
            opened.register_cluster(cluster, &objects);
        }
        let is_empty = opened.extensions.is_empty() && opened.unreachable.is_empty();
        ensure!(
            !is_empty || flags.record.is_none(),
            "--record needs --extension, or an ExtensionConfig in the cluster"
        );
        Ok((!is_empty).then(|| Arc::new(opened)))
    }

    /// Registers the extensions of a cluster; those that flags name take precedence.
    fn register_cluster(&mut self, cluster: &ClusterConnection, objects: &ObjectSet) {
        let is_config = |object: &&Arc<Object>| (object.group(), object.kind()) == (CONFIG_GROUP, CONFIG_KIND);
        for config in objects.iter().filter(is_config) {
            let name = config.name().to_owned();
            if hooks(config) && !self.calls_hooks {
                self.remark(passed(&name));
            }
            if self.extensions.contains_key(&name) {
                continue;
            }
            match self.register_config(config, cluster) {
                Ok(extension) => drop(self.extensions.insert(name, extension)),
                Err(reason) => drop(self.unreachable.insert(name, reason.to_string())),
            }
        }
        if self.extensions.values().any(|extension| matches!(extension.selector, Selector::Labels(_))) {
            self.namespaces = namespaces(cluster, objects);
        }
    }

    fn named(flags: &args::ExtensionFlags, objects: &ObjectSet) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut opened = CommandExtensions {
            extensions: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            namespaces: Ok(BTreeMap::new()),
            made: Mutex::default(),
            unanswered: Mutex::default(),
            is_faulty: AtomicBool::default(),
            record: flags.record.clone(),
            recorded_start: None,
            calls_hooks: flags.call_hooks,
            runtime,
            turns: Semaphore::new(CALLS_AT_ONCE),
        };
        let client = client(flags)?;
        for named in &flags.extensions {
            let name = &named.name;
            let (extension, start) =
                opened.register(named, objects, client.as_ref()).with_context(|| format!("extension {name}"))?;
            opened.recorded_start = opened.recorded_start.max(start);
            let known = opened.extensions.insert(name.clone(), extension);
            ensure!(known.is_none(), "--extension names {name} twice");
        }
        Ok(opened)
    }

    /// Adds an extension, and the start of its recorded simulation, if it is one.
    fn register(
        &self,
        named: &NamedExtension,
        objects: &ObjectSet,
        client: Option<&Client>,
    ) -> Result<(RegisteredExtension, Option<Timestamp>)> {
        let (discovery, source, start) = match &named.source {
            args::ExtensionSource::Running(address) => {
                let client = client.context("there is no client")?;
                let answer = self
                    .post(client, &address.discovery(), DISCOVERY)
                    .map_err(|error| anyhow!("Discovery: {error}"))?;
                (answer, AnswerSource::Running(address.clone(), Box::new(client.clone())), None)
            }
            args::ExtensionSource::Recorded(file) => recorded(file, &named.name, self.record.is_some())?,
        };
        let settings = settings(objects, &named.name);
        let registration = Registration::from_discovery(&named.name, &discovery, settings).context("Discovery")?;
        Ok((RegisteredExtension { discovery, registration, selector: Selector::Everything, source }, start))
    }

    /// An extension of a cluster, called at the address of its ExtensionConfig, or why it is not called: its current
    /// generation must have been discovered (RH-3.8). Services have names and addresses inside of the cluster only, so
    /// a port is forwarded to them.
    fn register_config(&self, config: &Object, cluster: &ClusterConnection) -> Result<RegisteredExtension, NotUsable> {
        let read = ExtensionConfig::from_object(config)?;
        if config.annotation(annotation::PAUSED).is_some() {
            return Err(NotUsable::Paused);
        }
        let discovered = config.conditions().iter().find(|condition| condition["type"] == "Discovered");
        let generation = config.at(paths::metadata::GENERATION);
        let is_current = |found: &&Value| found["status"] == "True" && Some(&found["observedGeneration"]) == generation;
        discovered.filter(is_current).ok_or(NotUsable::NotDiscovered)?;
        let ca = Some(&*read.ca).filter(|ca| !ca.is_empty()).ok_or(NotUsable::NoCaBundle)?;
        let client = match read.service {
            Some(port) => Client::through(Forward::new(cluster.client(), port), ca),
            None => Client::trusting(Some(ca)),
        };
        let client = client?;
        let discovery = self.post(&client, &read.address.discovery(), DISCOVERY)?;
        let registration = Registration::from_discovery(&read.name, &discovery, read.settings)?;
        let source = AnswerSource::Running(read.address, Box::new(client));
        Ok(RegisteredExtension { discovery, registration, selector: read.selector, source })
    }

    /// The JSON value of a response, or why the call failed.
    fn post(&self, client: &Client, target: &CallTarget, body: &str) -> Result<Box<RawValue>, CallError> {
        self.runtime.block_on(async {
            // It is never closed.
            let _turn = self.turns.acquire().await;
            client.call_json(target, body.to_owned()).await
        })
    }

    /// The start of the recorded simulation.
    pub(super) fn recorded_start(&self) -> Option<Timestamp> {
        self.recorded_start
    }

    /// Writes the recording for `--record`; returns why calls have no answer. `start` is the start of the simulation,
    /// in a command that simulates.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn finish(&self, start: Option<Timestamp>) -> Result<Vec<String>> {
        if let Some(file) = &self.record {
            let write = |to: &mut fs::File| {
                let mut to = BufWriter::new(to);
                self.write_recording(&mut to, start)?;
                to.flush()
            };
            atomic_file::write_with(file, 0o600, write).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect())
    }

    /// Whether a class has variables that its controller cannot use: in a cluster, its Clusters would wait.
    pub(super) fn is_faulty(&self) -> bool {
        self.is_faulty.load(Ordering::Relaxed)
    }

    fn write_recording(&self, to: &mut impl Write, start: Option<Timestamp>) -> io::Result<()> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut extensions = Vec::new();
        for (name, extension) in &self.extensions {
            let is_own =
                |call: &&RecordedCall| registered_name(&call.extension).is_some_and(|(_, config)| config == name);
            let calls = made.values().map(|call| &**call).filter(is_own).collect();
            extensions.push(WrittenExtension { name, discovery: &extension.discovery, calls });
        }
        serde_json::to_writer_pretty(
            &mut *to,
            &WrittenRecording { format: FORMAT, start: start.or(self.recorded_start), extensions },
        )?;
        to.write_all(b"\n")
    }

    /// Notes why a call has no answer.
    fn unanswered<T>(&self, reason: String) -> Found<T> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        Found::Absent
    }

    /// The outcome of a request to a handler, the same for all equal requests; `None` if it is not in the recording.
    fn outcome(
        &self,
        name: &str,
        handler: &ExtensionHandler,
        body: &str,
        extension: &RegisteredExtension,
    ) -> Option<Arc<RecordedCall>> {
        let key = key(name, handler.hook(), body);
        if let Some(made) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(made.clone());
        }
        let fresh = match &extension.source {
            AnswerSource::Recorded(_, calls) => calls.get(&key)?.clone(),
            AnswerSource::Running(address, client) => {
                let posted = self.post(client, &address.handler(handler), body);
                let (answer, error) =
                    posted.map_or_else(|error| (None, Some(error.to_string())), |answer| (Some(answer), None));
                let request = match self.record {
                    Some(_) => Some(RawValue::from_string(body.to_owned()).ok()?),
                    None => None,
                };
                let (extension, hook) = (name.to_owned(), handler.hook().to_owned());
                Arc::new(RecordedCall { key: key.clone(), extension, hook, request, answer, error })
            }
        };
        // The first outcome holds: another thread may have sent an equal request.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        Some(made.entry(key).or_insert(fresh).clone())
    }
}

impl CommandExtensions {
    /// Whether an extension is called for the objects of a namespace (RH-7.2, RH-8.1).
    ///
    /// # Errors
    /// When that depends on a Namespace that does not exist; without a reason if it is unknown, which is then noted.
    fn selects(&self, extension: &RegisteredExtension, namespace: &str) -> Result<bool, Option<String>> {
        let Selector::Labels(_) = extension.selector else {
            return Ok(extension.selector.matches(&StringMap::default()));
        };
        // An object of a file that names no namespace is one of the default namespace.
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let failed = |reason: &str| format!("the labels of namespace {namespace:?} cannot be read: {reason}");
        match &self.namespaces {
            Ok(all) => match all.get(namespace) {
                Some(labels) => Ok(extension.selector.matches(labels)),
                None => Err(Some(failed("it does not exist"))),
            },
            Err(error) => {
                self.remark(failed(&error.to_string()));
                Err(None)
            }
        }
    }

    /// The handler with a registered name, and its extension, if it is called for an object.
    ///
    /// # Errors
    /// When it is not called.
    fn selected(
        &self,
        call: &str,
        name: &str,
        hook: &str,
        object: &ObjectKey,
    ) -> Result<(&RegisteredExtension, &ExtensionHandler), NoAnswer> {
        let registered = |config: &str| match self.extensions.get(config) {
            Some(extension) => Ok((extension, &extension.registration)),
            None => Err(NotRegistered::NoConfig { name: name.to_owned(), config: config.to_owned() }),
        };
        let found = find_handler(name, hook, registered).map_err(|reason| match reason {
            NotRegistered::NoConfig { .. } => NoAnswer::NoExtension(self.absent(call, name)),
            reason => NoAnswer::Unreadable(reason.to_string()),
        })?;
        match self.selects(found.0, &object.namespace) {
            Ok(true) => Ok(found),
            Ok(false) => Err(NoAnswer::Unreadable(format!(
                "the handler {name:?} is not called for {object}: the namespaceSelector of its ExtensionConfig does \
                 not select the namespace"
            ))),
            Err(Some(problem)) => Err(NoAnswer::Unreadable(problem)),
            Err(None) => Err(NoAnswer::UnknownNamespace),
        }
    }

    /// The answer of the handler with a registered name to the request that `prepare` completes with the settings of
    /// its extension.
    ///
    /// # Errors
    /// When there is no valid answer.
    fn exchange<R: HandlerRequest>(
        &self,
        (call, name, hook): (&str, &str, &str),
        object: &ObjectKey,
        prepare: impl FnOnce(&BTreeMap<String, String>) -> Result<R, RequestBodyError>,
    ) -> Result<R::Answer, NoAnswer> {
        let (extension, handler) = self.selected(call, name, hook, object)?;
        let unreadable = |problem: &dyn fmt::Display| NoAnswer::Unreadable(problem.to_string());
        let request = prepare(extension.registration.settings()).map_err(|problem| unreadable(&problem))?;
        let made = self.outcome(name, handler, request.body(), extension);
        let made = made.ok_or_else(|| NoAnswer::NotRecorded(Self::no_outcome(call, extension)))?;
        request.decode(handler, made.outcome()).map_err(|problem| unreadable(&problem))
    }

    /// The answer as a fact. A call without an answer is noted.
    fn found<T>(&self, answer: Result<T, NoAnswer>) -> Found<T> {
        match answer {
            Ok(answer) => Found::Yes(answer),
            Err(NoAnswer::Unreadable(problem)) => Found::Unreadable(problem),
            Err(NoAnswer::NoExtension(reason) | NoAnswer::NotRecorded(reason)) => self.unanswered(reason),
            Err(NoAnswer::UnknownNamespace) => Found::Absent,
        }
    }

    /// Prints a remark about the result.
    fn remark(&self, remark: String) {
        self.unanswered::<()>(remark);
    }

    /// Why no extension answers a call.
    fn absent(&self, call: &str, name: &str) -> String {
        let config = registered_name(name).map_or(name, |(_, config)| config);
        let reason = self.unreachable.get(config).map(|reason| format!(": ExtensionConfig {config}: {reason}"));
        format!("{call}: no --extension {config}=URL|FILE{}", reason.unwrap_or_default())
    }

    /// Why a request to this registered extension has no answer.
    fn no_outcome(call: &str, extension: &RegisteredExtension) -> String {
        match &extension.source {
            AnswerSource::Recorded(file, _) => format!("{call}: {} has no answer to this request", file.display()),
            AnswerSource::Running(..) => format!("{call}: the request is not JSON"),
        }
    }
}

impl ExtensionServer for CommandExtensions {
    fn patch(&self, call: &PatchCall) -> Found<PatchAnswer> {
        let prepare = |settings: &_| PreparedPatchRequest::new(call, settings);
        self.found(self.exchange((&call.to_string(), &call.extension, call.hook.name()), &call.cluster, prepare))
    }

    fn upgrade_plan(&self, call: &PlanCall) -> Found<PlannedVersions> {
        let (name, shown) = (&call.extension, call.to_string());
        let prepare = |settings: &_| PlanRequest::new(&call.request, settings);
        match self.exchange((&shown, name, GENERATE_UPGRADE_PLAN), &call.cluster, prepare) {
            Ok(plan) => Found::Yes(plan),
            // Without a plan no topology can be computed.
            Err(NoAnswer::Unreadable(reason) | NoAnswer::NotRecorded(reason)) => Found::Unreadable(reason),
            Err(NoAnswer::NoExtension(reason)) => {
                self.remark(reason.clone());
                Found::Unreadable(reason)
            }
            Err(NoAnswer::UnknownNamespace) => Found::Unreadable(self.absent(&shown, name)),
        }
    }

    fn hook(&self, call: &HookCall) -> Found<HookAnswer> {
        let mut all = Vec::new();
        for (config, extension) in &self.extensions {
            let of_hook = |handler: &ExtensionHandler| handler.hook() == call.hook.name();
            for (name, handler) in extension.registration.handlers().filter(|(_, handler)| of_hook(handler)) {
                match self.selects(extension, &call.cluster.namespace) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(Some(problem)) => return Found::Unreadable(problem),
                    Err(None) => {
                        self.remark(format!("{call}: {name} is not called, and is assumed to pass"));
                        continue;
                    }
                }
                if matches!(extension.source, AnswerSource::Running(..)) && !self.calls_hooks {
                    self.remark(passed(config));
                    continue;
                }
                let request = match HookRequest::new(call, extension.registration.settings()) {
                    Ok(request) => request,
                    Err(problem) => return Found::Unreadable(problem.to_string()),
                };
                let Some(made) = self.outcome(&name, handler, request.body(), extension) else {
                    self.remark(match &extension.source {
                        // The session that was recorded did not call hooks either.
                        AnswerSource::Recorded(_, calls)
                            if !calls.values().any(|made| made.hook == call.hook.name()) =>
                        {
                            passed(config)
                        }
                        _ => format!("{}; it is assumed to pass", Self::no_outcome(&call.to_string(), extension)),
                    });
                    continue;
                };
                match request.decode(handler, made.outcome()) {
                    Ok(retry) => all.push(retry),
                    Err(problem) => return Found::Unreadable(format!("extension {name:?}: {problem}")),
                }
            }
        }
        if all.is_empty() { Found::Absent } else { Found::Yes(Retry::together(&all)) }
    }
}

impl VariableServer for CommandExtensions {
    fn variables(&self, class: &ObjectKey, name: &str, settings: &BTreeMap<String, String>) -> Found<Arc<[Value]>> {
        let call = format!("{DISCOVER_VARIABLES} of {name}");
        let prepare = |of_extension: &_| VariablesRequest::new(settings, of_extension);
        self.found(self.exchange((&call, name, DISCOVER_VARIABLES), class, prepare))
    }

    fn refuse(&self, problem: String) {
        self.is_faulty.store(true, Ordering::Relaxed);
        self.remark(problem);
    }
}

/// A client, if an extension is called.
fn client(flags: &args::ExtensionFlags) -> Result<Option<Client>> {
    let is_running = |named: &NamedExtension| matches!(named.source, args::ExtensionSource::Running(_));
    if !flags.extensions.iter().any(is_running) {
        return Ok(None);
    }
    let read =
        |file: &PathBuf| sources::content(file, FILE_LIMIT).with_context(|| format!("cannot read {}", file.display()));
    let ca = flags.extension_ca.as_ref().map(read).transpose()?;
    Ok(Some(Client::trusting(ca.as_deref()).context("--extension-ca")?))
}

/// The labels of all Namespaces of a cluster; Namespaces of files replace them.
fn namespaces(
    cluster: &ClusterConnection,
    objects: &ObjectSet,
) -> Result<BTreeMap<String, StringMap>, NamespacesError> {
    const KIND: &str = "Namespace";
    let client = cluster.client();
    let stored = cluster.block_on(live::list(&client, &Resource::known("", "v1", KIND), None))?;
    let stored = stored.into_iter().filter_map(|namespace| Object::try_from(namespace).ok()).map(Arc::new);
    let of_files = objects.iter().filter(|object| (object.group(), object.kind()) == ("", KIND)).cloned();
    let labels = |namespace: Arc<Object>| {
        (namespace.name().to_owned(), namespace.texts(paths::metadata::LABELS).unwrap_or_default().into())
    };
    Ok(stored.chain(of_files).map(labels).collect())
}

/// The remark about an extension whose lifecycle hooks are not called.
fn passed(config: &str) -> String {
    format!(
        "ExtensionConfig {config}: lifecycle hooks are not called, and are assumed to pass (--call-hooks calls them)"
    )
}

/// Whether an extension has handlers of lifecycle hooks.
fn hooks(config: &Object) -> bool {
    let handlers = config.list(paths::extension_config::HANDLERS).ok().flatten().into_iter().flatten();
    let hook = |handler: &Value| handler.pointer("/requestHook/hook").and_then(Value::as_str).map(str::to_owned);
    handlers.filter_map(hook).any(|hook| Hook::ALL.iter().any(|known| known.name() == hook))
}

/// The recorded discovery and calls of an extension, with the requests if it is recorded again, and the start of its
/// simulation.
fn recorded(file: &Path, name: &str, with_requests: bool) -> Result<(Box<RawValue>, AnswerSource, Option<Timestamp>)> {
    let text = sources::text_content(file, TOTAL_LIMIT).with_context(|| format!("cannot read {}", file.display()))?;
    // A newer format may have other keys.
    if let Ok(RecordingFormat { format }) = serde_json::from_str(&text) {
        ensure!(format == FORMAT, "{} has the format {format:?}, not {FORMAT}", file.display());
    }
    format_schemas::check(file, &text, format_schemas::RECORDING)?;
    let recording: Recording =
        serde_json::from_str(&text).with_context(|| format!("{} is not a recording", file.display()))?;
    let Some(found) = recording.extensions.into_iter().find(|found| found.name == name) else {
        bail!("{} has no answers of {name}", file.display());
    };
    let kept = |call: RecordedCall| RecordedCall { request: call.request.filter(|_| with_requests), ..call };
    let calls = found.calls.into_iter().map(|call| (call.key.clone(), Arc::new(kept(call)))).collect();
    let start = recording.start.map(values::start).transpose();
    let start = start.map_err(|fault| anyhow!("{}: start {fault}", file.display()))?;
    Ok((found.discovery, AnswerSource::Recorded(file.to_owned(), calls), start))
}

/// The settings of an ExtensionConfig of the files; empty if it is absent (RH-5.6).
pub(super) fn settings(objects: &ObjectSet, name: &str) -> BTreeMap<String, String> {
    let (group, kind) = (CONFIG_GROUP, CONFIG_KIND);
    // An object of a file that names no namespace counts as one of the default namespace.
    let found = ["", "default"]
        .iter()
        .find_map(|namespace| objects.in_any_version(group, kind, &ObjectKey::new(*namespace, name)));
    found.and_then(|config| config.texts(paths::extension_config::SETTINGS).ok()).unwrap_or_default()
}

/// The key of a request: equal requests to the same handler have the same key.
fn key(name: &str, hook: &str, body: &str) -> String {
    let text = format!("{name}\n{hook}\n{body}");
    let hash = digest(&SHA256, text.as_bytes());
    let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}
