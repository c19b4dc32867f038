//! The extensions that are checked, and the findings about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::super::args::extensions::RunningExtension;
use super::super::discovered::VariableServer;
use super::super::extensions::settings;
use engine::admission::variable_problem;
use engine::extensions::behavior::{self, FailedCall, Finding, Reply};
use engine::extensions::errors::AnswerError;
use engine::extensions::{
    BaseUrl, CallTarget, DISCOVER_VARIABLES, DISCOVERY, ExtensionHandler, GENERATE_UPGRADE_PLAN, GROUP, HandlerRequest,
    NotRegistered, PlanRequest, PreparedPatchRequest, Registration, VERSION, VariablesRequest, find_handler,
};
use engine::topology::class_variables::{ClassVariables, Discovered};
use engine::topology::plan::ExtensionServer;
use engine::topology::upgrade;
use model::hub::{Hook, ObjectKey};
use model::world::{
    Found, HookAnswer, HookCall, ObjectSet, PatchAnswer, PatchCall, PatchHook, PlanCall, PlannedVersions,
};
use schema::field::{Level, enumerated};
use server::extension_client::Client;

/// The hook whose patches are applied in both orders.
const GENERATE: &str = PatchHook::GeneratePatches.name();
/// Maximum number of pairs of patches that are applied in both orders.
const PAIRS: usize = 32;
/// Maximum number of Clusters of a class whose requests are kept for that.
const CLUSTERS: usize = 4;

/// Calls extensions and checks their answers.
#[derive(Debug)]
pub(super) struct ExtensionChecker {
    runtime: Runtime,
    client: Client,
    extensions: Vec<CheckedExtension>,
    state: Mutex<CheckerState>,
}

#[derive(Debug)]
struct CheckedExtension {
    name: String,
    address: BaseUrl,
    registration: Registration,
}

#[derive(Debug, Default)]
struct CheckerState {
    expected: BTreeMap<ObjectKey, ExpectedCluster>,
    /// The first requests to each handler of a patch for a class, by its registered name, and by Cluster.
    requests: BTreeMap<(ObjectKey, String), BTreeMap<ObjectKey, PreparedPatchRequest>>,
    /// The answers to requests, by registered name and body.
    answers: BTreeMap<(String, String), Found<PatchAnswer>>,
    /// The variables of handlers, in the same way.
    variables: BTreeMap<(String, String), Found<Arc<[Value]>>>,
    checked: BTreeMap<String, CheckedHandler>,
    problems: BTreeSet<String>,
}

/// The known data of a Cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpectedCluster {
    pub class: ObjectKey,
    /// The variables that no Cluster of the class lacks.
    pub always_set: BTreeSet<String>,
}

/// A handler that was called.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedHandler {
    pub calls: usize,
    /// The time of the longest call.
    pub milliseconds: u64,
    pub findings: Vec<Finding>,
}

/// A handler and its check.
#[derive(Debug)]
pub(super) struct HandlerRow {
    /// The name that it is registered by.
    pub name: String,
    pub hook: &'static str,
    /// The findings, or why it was not called.
    pub checked: Result<CheckedHandler, &'static str>,
}

impl ExtensionChecker {
    /// Discovers the handlers of each extension. `objects` may contain their ExtensionConfigs, whose settings are sent.
    ///
    /// # Errors
    /// When Discovery fails, or a name is repeated.
    pub(super) fn discover(extensions: &[RunningExtension], client: Client, objects: &ObjectSet) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut checker = ExtensionChecker { runtime, client, extensions: Vec::new(), state: Mutex::default() };
        for RunningExtension { name, address } in extensions {
            let is_new = checker.extensions.iter().all(|known| known.name != *name);
            ensure!(is_new, "two extensions are called {name}; name each with NAME=URL");
            let answer = checker.post(&address.discovery(), DISCOVERY).outcome;
            let answer = answer.map_err(|error| anyhow!("extension {name}: Discovery: {error}"))?;
            let registration = Registration::from_discovery(name, &answer, settings(objects, name));
            let registration = registration.with_context(|| format!("extension {name}: Discovery"))?;
            checker.extensions.push(CheckedExtension { name: name.clone(), address: address.clone(), registration });
        }
        Ok(checker)
    }

    /// Sets the known data of the Clusters.
    pub(super) fn expect(&self, expected: BTreeMap<ObjectKey, ExpectedCluster>) {
        self.state().expected = expected;
    }

    /// Checks the calls that topologies do not make: variables, plans, and the order of the patches of a class.
    pub(super) fn check_others(&self, classes: &[(ObjectKey, Value)]) {
        let mut sources: Vec<(String, Vec<Value>)> = classes.iter().map(|(_, class)| inline(class)).collect();
        for extension in &self.extensions {
            for (name, handler) in extension.registration.handlers() {
                let target = extension.address.handler(handler);
                match handler.hook() {
                    DISCOVER_VARIABLES => self.check_variables(&name, handler, extension, classes, &mut sources),
                    GENERATE_UPGRADE_PLAN => {
                        let request =
                            PlanRequest::new(&upgrade_request().to_string(), extension.registration.settings());
                        let Ok(request) = request else { continue };
                        let send = |body: &str| self.counted(&name, &target, body);
                        self.add(&name, behavior::check_call(request.body(), &send));
                        let plan = answer(&request, handler, &send);
                        self.add(&name, plan.ok().and_then(|plan| no_plan(&plan)));
                    }
                    _ => {}
                }
            }
        }
        let mut of_pairs: BTreeMap<(String, String), Vec<&ObjectKey>> = BTreeMap::new();
        for (key, class) in classes {
            pairs(class).into_iter().for_each(|pair| of_pairs.entry(pair).or_default().push(key));
        }
        let of_pairs = of_pairs.into_iter().take(PAIRS);
        of_pairs.for_each(|((first, second), classes)| self.check_order(&first, &second, &classes));
    }

    /// Requests variables with the settings of each patch that names the handler, and compares them with other
    /// definitions of the same names.
    fn check_variables(
        &self,
        name: &str,
        handler: &ExtensionHandler,
        extension: &CheckedExtension,
        classes: &[(ObjectKey, Value)],
        sources: &mut Vec<(String, Vec<Value>)>,
    ) {
        let target = extension.address.handler(handler);
        let (mut found, mut own) = (Vec::new(), Vec::new());
        for settings in settings_of_patches(name, classes) {
            let request = VariablesRequest::new(&settings, extension.registration.settings());
            let Ok(request) = request else { continue };
            let send = |body: &str| self.counted(name, &target, body);
            found.extend(behavior::check_call(request.body(), &send));
            let Ok(variables) = answer(&request, handler, &send) else { continue };
            found.extend(variable_problem(&variables).map(unusable));
            found.extend(shared(&variables, sources));
            // Several patches may define the same variables to get them (RH-17.8), but not in different ways.
            found.extend(shared(&variables, &own).into_iter().filter(|finding| finding.level == Level::Error));
            own.push((format!("{name} with the settings of another patch"), variables.to_vec()));
        }
        let mut seen: Vec<Finding> = Vec::new();
        for finding in found {
            if !seen.contains(&finding) {
                seen.push(finding);
            }
        }
        self.add(name, seen);
        sources.extend(own.into_iter().map(|(_, variables)| (format!("the handler {name}"), variables)));
    }

    /// Applies two patches in both orders, with the requests for the same Cluster.
    fn check_order(&self, first: &str, second: &str, classes: &[&ObjectKey]) {
        let (Ok((_, _, of_a)), Ok((_, _, of_b))) =
            (self.find::<()>(first, GENERATE), self.find::<()>(second, GENERATE))
        else {
            return;
        };
        let of_class = |class: &&ObjectKey| {
            let state = self.state();
            let requests = |name: &str| state.requests.get(&(ObjectKey::clone(class), name.to_owned()));
            let (of_first, of_second) = (requests(first)?, requests(second)?);
            of_first.iter().find_map(|(cluster, a)| Some((a.clone(), of_second.get(cluster)?.clone())))
        };
        let Some((a, b)) = classes.iter().find_map(of_class) else { return };
        let found = behavior::check_order(
            (&a, &|body| self.counted(first, &of_a, body)),
            (&b, &|body| self.counted(second, &of_b, body)),
        );
        self.add(
            second,
            found.into_iter().map(|mut finding| {
                finding.message = format!("{}, after {first} and before it", finding.message);
                finding
            }),
        );
    }

    /// Why variables of classes are not known.
    pub(super) fn problems(&self) -> Vec<String> {
        self.state().problems.iter().cloned().collect()
    }

    /// All handlers in the order of their Discovery.
    pub(super) fn rows(&self) -> Vec<HandlerRow> {
        let state = self.state();
        let handlers = self.extensions.iter().flat_map(|extension| extension.registration.handlers());
        let row = |(name, handler): (String, &ExtensionHandler)| {
            let hook = handler.hook();
            let checked = state.checked.get(&name).cloned().ok_or(match hook {
                "GeneratePatches" | "ValidateTopology" => "no class of --files uses it in a topology",
                _ if Hook::ALL.iter().any(|known| known.name() == hook) => "it may have side effects",
                _ => "topologist does not call this hook",
            });
            HandlerRow { name, hook, checked }
        };
        handlers.map(row).collect()
    }

    fn state(&self) -> MutexGuard<'_, CheckerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &str, findings: impl IntoIterator<Item = Finding>) {
        self.state().checked.entry(name.to_owned()).or_default().findings.extend(findings);
    }

    fn post(&self, target: &CallTarget, body: &str) -> Reply {
        let start = Instant::now();
        let response = self.runtime.block_on(self.client.call_json(target, body.to_owned()));
        let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let outcome = response.map_err(|error| FailedCall(error.to_string()));
        Reply { outcome, milliseconds }
    }

    fn counted(&self, name: &str, target: &CallTarget, body: &str) -> Reply {
        let reply = self.post(target, body);
        let mut state = self.state();
        let checked = state.checked.entry(name.to_owned()).or_default();
        checked.calls += 1;
        checked.milliseconds = checked.milliseconds.max(reply.milliseconds);
        reply
    }

    /// Keeps the first request to a handler for a Cluster.
    fn keep(&self, class: ObjectKey, name: &str, cluster: &ObjectKey, request: &PreparedPatchRequest) {
        let mut state = self.state();
        let kept = state.requests.entry((class, name.to_owned())).or_default();
        if kept.len() < CLUSTERS && !kept.contains_key(cluster) {
            kept.insert(cluster.clone(), request.clone());
        }
    }

    /// The handler with this name for a hook, and its address.
    ///
    /// # Errors
    /// When there is none; `Absent` if the extension is not checked.
    fn find<T>(&self, name: &str, hook: &str) -> Result<(&CheckedExtension, &ExtensionHandler, CallTarget), Found<T>> {
        let checked = |config: &str| match self.extensions.iter().find(|extension| extension.name == config) {
            Some(extension) => Ok((extension, &extension.registration)),
            None => Err(NotRegistered::NoConfig { name: name.to_owned(), config: config.to_owned() }),
        };
        let (extension, handler) = find_handler(name, hook, checked).map_err(|reason| match reason {
            NotRegistered::NoConfig { .. } => Found::Absent,
            NotRegistered::Name(name) => Found::Unreadable(format!("{name:?} is not a registered name")),
            reason => Found::Unreadable(reason.to_string()),
        })?;
        Ok((extension, handler, extension.address.handler(handler)))
    }
}

/// The answer of a handler to a request.
fn answer<R: HandlerRequest>(
    request: &R,
    handler: &ExtensionHandler,
    send: &behavior::Send<'_>,
) -> Result<R::Answer, AnswerError> {
    let reply = send(request.body());
    request.decode(handler, reply.outcome.as_deref().map_err(FailedCall::reason))
}

/// The answer as a fact.
fn found<T>(answer: Result<T, AnswerError>) -> Found<T> {
    answer.map_or_else(|problem| Found::Unreadable(problem.to_string()), Found::Yes)
}

impl ExtensionServer for ExtensionChecker {
    fn patch(&self, call: &PatchCall) -> Found<PatchAnswer> {
        let name = &call.extension;
        let (extension, handler, target) = match self.find(name, call.hook.name()) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let request = match PreparedPatchRequest::new(call, extension.registration.settings()) {
            Ok(request) => request,
            Err(problem) => return Found::Unreadable(problem.to_string()),
        };
        let key = (name.clone(), request.body().to_owned());
        if let Some(known) = self.state().answers.get(&key) {
            return known.clone();
        }
        let send = |body: &str| self.counted(name, &target, body);
        let ExpectedCluster { class, always_set } =
            self.state().expected.get(&call.cluster).cloned().unwrap_or_default();
        let is_first = !self.state().requests.keys().any(|(_, known)| known == name);
        if is_first {
            self.add(name, behavior::check_patch(&request, &always_set, &send));
        }
        self.keep(class, name, &call.cluster, &request);
        let found = found(answer(&request, handler, &send));
        self.state().answers.insert(key, found.clone());
        found
    }

    fn hook(&self, _: &HookCall) -> Found<HookAnswer> {
        Found::Absent
    }

    fn upgrade_plan(&self, _: &PlanCall) -> Found<PlannedVersions> {
        Found::Unreadable("plans are checked without a topology".to_owned())
    }
}

impl VariableServer for ExtensionChecker {
    fn variables(&self, _: &ObjectKey, name: &str, settings: &BTreeMap<String, String>) -> Found<Arc<[Value]>> {
        let (extension, handler, target) = match self.find(name, DISCOVER_VARIABLES) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let request = match VariablesRequest::new(settings, extension.registration.settings()) {
            Ok(request) => request,
            Err(problem) => return Found::Unreadable(problem.to_string()),
        };
        let key = (name.to_owned(), request.body().to_owned());
        if let Some(known) = self.state().variables.get(&key) {
            return known.clone();
        }
        let found = found(answer(&request, handler, &|body| self.counted(name, &target, body)));
        self.state().variables.insert(key, found.clone());
        found
    }

    fn refuse(&self, problem: String) {
        self.state().problems.insert(problem);
    }
}

fn version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// The upgrade for which plans are requested: over two minor versions.
const UPGRADE: (&str, &str) = ("v1.33.0", "v1.35.0");

fn upgrade_request() -> Value {
    let (from, to) = UPGRADE;
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": "default", "name": "sample"}, "spec": {"topology": {"version": to}}});
    json!({"apiVersion": version(), "kind": "GenerateUpgradePlanRequest", "cluster": cluster,
        "fromControlPlaneKubernetesVersion": from, "fromWorkersKubernetesVersion": from, "toKubernetesVersion": to})
}

/// The finding about an invalid plan.
fn no_plan(plan: &PlannedVersions) -> Option<Finding> {
    let (from, to) = UPGRADE;
    let problem = upgrade::check_plan(from, to, plan).err()?;
    Some(Finding {
        level: Level::Error,
        rule: "RH-21.10",
        message: format!("from {from} to {to}: {problem}"),
        way_out: "list every minor version of the control plane, and end with the version of the topology",
    })
}

/// The settings of the patches whose variables a handler defines; no settings if there is no such patch.
fn settings_of_patches(name: &str, classes: &[(ObjectKey, Value)]) -> BTreeSet<BTreeMap<String, String>> {
    let patches = |class: &Value| class.pointer("/spec/patches").and_then(Value::as_array).cloned().unwrap_or_default();
    let settings = |patch: Value| -> BTreeMap<String, String> {
        let all = patch["external"]["settings"].as_object().cloned().unwrap_or_default();
        all.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
    };
    let is_named = |patch: &Value| patch["external"]["discoverVariablesExtension"] == name;
    let all = classes.iter().flat_map(|(_, class)| patches(class)).filter(is_named).map(settings);
    let all: BTreeSet<_> = all.collect();
    if all.is_empty() { BTreeSet::from([BTreeMap::new()]) } else { all }
}

/// The finding about variables that no class can use.
fn unusable(problem: String) -> Finding {
    Finding {
        level: Level::Error,
        rule: "RH-16.4",
        message: format!("the variables are invalid: {problem}"),
        way_out: "define variables as spec.variables of a ClusterClass does: a class gets none of this answer",
    }
}

/// The variables in the spec of a class.
fn inline(class: &Value) -> (String, Vec<Value>) {
    let name = class.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let variables = class.pointer("/spec/variables").and_then(Value::as_array).cloned();
    (format!("ClusterClass {name}"), variables.unwrap_or_default())
}

/// Findings about variables that are defined elsewhere too.
fn shared(variables: &[Value], sources: &[(String, Vec<Value>)]) -> Vec<Finding> {
    let names = |variables: &[Value]| -> BTreeSet<String> {
        variables.iter().filter_map(|variable| variable["name"].as_str()).map(str::to_owned).collect()
    };
    let of_source = |(source, others): &(String, Vec<Value>)| {
        let both: Vec<String> = names(variables).intersection(&names(others)).cloned().collect();
        if both.is_empty() {
            return None;
        }
        let class = json!({"spec": {"variables": others}});
        let discovered = [Discovered { patch: "extension".to_owned(), variables: Ok(variables.into()) }];
        Some(match ClassVariables::from_class(&class, &discovered) {
            ClassVariables::Conflicting { names, .. } => Finding {
                level: Level::Error,
                rule: "RH-17.5",
                message: format!("{source} defines variables of the same name in another way: {}", enumerated(&names)),
                way_out: "give the variables of the extension a prefix: Clusters wait while definitions differ",
            },
            _ => Finding {
                level: Level::Warning,
                rule: "RH-17.1",
                message: format!("{source} defines these variables too: {}", enumerated(&both)),
                way_out: "give the variables of the extension a prefix, or define them in one place",
            },
        })
    };
    sources.iter().filter_map(of_source).collect()
}

/// Pairs of patches of a class that different handlers generate.
fn pairs(class: &Value) -> Vec<(String, String)> {
    let patches = class.pointer("/spec/patches").and_then(Value::as_array).into_iter().flatten();
    let name = |patch: &Value| Some(patch.pointer("/external/generatePatchesExtension")?.as_str()?.to_owned());
    let names: Vec<String> = patches.filter_map(name).collect();
    let with_later = |(at, first): (usize, &String)| {
        let first = first.clone();
        let later: Vec<(String, String)> = names
            .iter()
            .skip(at + 1)
            .filter(|second| **second != first)
            .map(|second| (first.clone(), second.clone()))
            .collect();
        later
    };
    names.iter().enumerate().flat_map(with_later).collect()
}
