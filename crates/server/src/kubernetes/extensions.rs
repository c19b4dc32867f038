//! Answers of Runtime Extensions: which handlers are called for an object, and the cache of their answers.
//!
//! ```text
//! ExtensionConfigs ─► discovery (reconciler) ─► Registry ─┐
//! Need::Hook, Patch, GenerateUpgradePlan ─► remembered? ──┼─► namespace selected? ─► HTTPS ─► answer
//! DiscoverVariables ──────────────────────────────────────┘
//! ```
//!
//! Everything in the cache may be lost at any time (RH-9.7).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};

use super::expiring_cache::ExpiringCache;
use super::namespaces::{NamespaceError, NamespaceLabels};
use super::unlisted::Unlisted;
use crate::extension_client::{CallError, Client, ClientError, Clients};
use crate::telemetry::metrics::{Metrics, Requested, Requests};
use engine::extensions::answers::Retry;
use engine::extensions::errors::{AnswerError, RequestBodyError};
use engine::extensions::{
    BaseUrl, CallTarget, DISCOVER_VARIABLES, DISCOVERY, DiscoveryError, ExtensionRegistry, GENERATE_UPGRADE_PLAN,
    HandlerRequest, HookRequest, NotRegistered, PlanRequest, PreparedPatchRequest, RegisteredConfig, Registration,
    ResolvedHandler, VariablesRequest, sanitize,
};
use model::hub::{Hook, ObjectKey};
use model::world::{Answer, Ask, Found, HookAnswer, HookCall, Need, PatchAnswer, PatchCall, PlanCall, PlannedVersions};

/// Maximum time for which a blocking answer is cached (RH-9.3, PERF-03).
const BLOCKING: Duration = Duration::from_hours(24);
/// Time for which plans of upgrades, variables and patches are cached (RH-9.1, RH-9.5, PERF-04, PERF-05).
const ANSWERS: Duration = Duration::from_mins(10);
/// Maximum time for which the start waits for extensions; Discovery has ten seconds.
const SETTLING: Duration = Duration::from_secs(15);
/// Maximum size of an answer that is decoded inline; a longer one is decoded on a blocking thread.
const INLINE: usize = 64 * 1024;
/// Maximum number of concurrent calls of one extension, and so of the runs that an extension without response can
/// delay.
const CALLS: usize = 16;
/// Maximum time for which a call waits for other calls of its extension.
const QUEUEING: Duration = Duration::from_secs(2);
/// Capacity of the caches with small values, in entries.
const ENTRIES: usize = 16_384;
/// Capacity of the caches of patches and of variables, in bytes.
const BYTES: usize = 64 << 20;

/// Calls the extensions of a process that reconciles.
pub struct ExtensionCaller {
    /// `None` until the ExtensionConfigs are listed (RH-3.7).
    registry: RwLock<Option<ExtensionRegistry>>,
    changes: watch::Sender<u64>,
    clients: Clients,
    blocking: ExpiringCache<(Hook, ObjectKey), BlockingAnswer>,
    /// The answers of handlers to hooks of which not all handlers have answered.
    begun: ExpiringCache<(ObjectKey, AnswerKey), Retry>,
    plans: ExpiringCache<(String, String), PlannedVersions>,
    patches: ExpiringCache<AnswerKey, PatchAnswer>,
    variables: ExpiringCache<AnswerKey, Arc<[Value]>>,
    namespaces: NamespaceLabels,
    /// The calls that each ExtensionConfig may still have at a time.
    calls: Mutex<HashMap<String, Arc<Semaphore>>>,
    metrics: Arc<Metrics>,
}

/// Why there is no answer of an extension.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// Which extensions there are is not known yet.
    #[error("{0}")]
    Unlisted(Unlisted),
    #[error(transparent)]
    NotRegistered(NotRegistered),
    #[error(
        "the handler {name:?} is not called for {object}: the namespaceSelector of its ExtensionConfig does not select \
         the namespace"
    )]
    NotSelected { name: String, object: ObjectKey },
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Request(#[from] RequestBodyError),
    #[error("handler {handler:?} is not called: {source}")]
    NotCalled { handler: String, source: NotCalled },
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The answer of one of several handlers.
    #[error("extension {name:?}: {source}")]
    AnswerOfOne { name: String, source: AnswerError },
    /// The thread that reads an answer has panicked.
    #[error(transparent)]
    Reader(#[from] JoinError),
}

impl From<NotRegistered> for ExtensionError {
    fn from(reason: NotRegistered) -> Self {
        match reason {
            NotRegistered::Pending(config) => ExtensionError::Unlisted(Unlisted::Extension(config)),
            other => ExtensionError::NotRegistered(other),
        }
    }
}

/// Why no call is made. The failure policy applies only to failed calls (RH-7.3).
#[derive(Debug, thiserror::Error)]
pub enum NotCalled {
    #[error("its extension has {CALLS} calls to answer")]
    Busy,
    #[error("the calls before it took longer than a run may take for them; it is called in a later run")]
    Late,
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Why an extension is not discovered.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("cannot discover the extension: {}", in_conditions(.0))]
    NotCalled(#[source] NotCalled),
    #[error("cannot discover the extension: {}", in_conditions(.0))]
    Call(#[source] CallError),
    #[error(transparent)]
    Answer(#[from] DiscoveryError),
}

/// An error as conditions show it, without parts that change from call to call.
fn in_conditions(error: &impl fmt::Display) -> String {
    sanitize(&error.to_string())
}

/// The hash of the input of an answer.
type AnswerKey = [u8; 32];

/// A blocking answer.
#[derive(Clone, Debug)]
struct BlockingAnswer {
    until: Instant,
    message: String,
}

impl fmt::Debug for ExtensionCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Extensions")
    }
}

impl ExtensionCaller {
    /// A caller without registered extensions.
    pub fn new(client: kube::Client, clients: Clients, metrics: Arc<Metrics>) -> Self {
        ExtensionCaller {
            registry: RwLock::default(),
            changes: watch::channel(0).0,
            clients,
            blocking: ExpiringCache::new(BLOCKING, ENTRIES),
            begun: ExpiringCache::new(ANSWERS, ENTRIES),
            plans: ExpiringCache::new(ANSWERS, ENTRIES),
            patches: ExpiringCache::new(ANSWERS, BYTES),
            variables: ExpiringCache::new(ANSWERS, BYTES),
            namespaces: NamespaceLabels::new(client),
            calls: Mutex::default(),
            metrics,
        }
    }

    /// Changes the registry, which is empty at the start.
    pub fn change(&self, change: impl FnOnce(&mut ExtensionRegistry)) {
        {
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            let registry = registry.get_or_insert_default();
            change(registry);
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.retain(|config, _| registry.has(config));
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Drops all registrations: they are not kept current while another process leads.
    pub fn reset(&self) {
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A receiver that is notified of each change of the registry.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The versions of the ExtensionConfigs that are registered.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.look_up(ExtensionRegistry::versions).unwrap_or_default()
    }

    /// Whether the answers of extensions no longer wait for this cache.
    pub fn has(&self, unlisted: &Unlisted) -> bool {
        let is_ready = |registry: &ExtensionRegistry| match unlisted {
            Unlisted::Extension(config) => !registry.is_pending(config),
            _ => true,
        };
        self.look_up(is_ready).unwrap_or(false)
    }

    /// Waits until every extension that existed at the start has been called, but at most [`SETTLING`]: until its
    /// discovery, an extension that does not respond is an error of its calls (RH-3.7).
    pub async fn settled(&self) {
        let mut changes = self.changes();
        let settled = changes.wait_for(|_| self.look_up(ExtensionRegistry::is_settled).unwrap_or(false));
        let _ = timeout(SETTLING, settled).await;
    }

    /// The registration of an ExtensionConfig.
    pub fn registered(&self, config: &str) -> Option<Arc<RegisteredConfig>> {
        self.look_up(|registry| registry.get(config).cloned()).ok().flatten()
    }

    /// Whether an ExtensionConfig existed when this process began to lead, and has not been discovered since.
    pub fn is_expected(&self, config: &str) -> bool {
        self.look_up(|registry| registry.is_expected(config)).unwrap_or(false)
    }

    fn look_up<T>(&self, look: impl FnOnce(&ExtensionRegistry) -> T) -> Result<T, ExtensionError> {
        match &*self.registry.read().unwrap_or_else(PoisonError::into_inner) {
            Some(registry) => Ok(look(registry)),
            None => Err(ExtensionError::Unlisted(Unlisted::ExtensionConfigs)),
        }
    }

    /// The answer to a need that extensions can answer.
    ///
    /// # Errors
    /// While the extensions are not listed yet.
    pub(super) async fn answer(&self, need: &Need, deadline: Instant) -> Result<Option<Answer>, Unlisted> {
        Ok(Some(match need {
            Need::Hook(call) => call.answer(answered(self.hook(call, deadline).await)?),
            Need::GenerateUpgradePlan(call) => call.answer(answered(self.upgrade_plan(call, deadline).await)?),
            Need::Patch(call) => call.answer(answered(self.patch(call, deadline).await)?),
            _ => return Ok(None),
        }))
    }

    /// The handlers of an extension that answers Discovery (RH-3.1, RH-6.1).
    ///
    /// # Errors
    /// When the call fails, or the answer is not valid.
    pub async fn discover(
        &self,
        config: &str,
        address: &BaseUrl,
        ca: &[u8],
        settings: BTreeMap<String, String>,
    ) -> Result<Registration, DiscoverError> {
        let deadline = Instant::now() + Duration::from_mins(1);
        let sent = self.send("Discovery", ca, &address.discovery(), DISCOVERY.to_owned(), deadline).await;
        let answer = sent.map_err(DiscoverError::NotCalled)?.map_err(DiscoverError::Call)?;
        Ok(Registration::from_discovery(config, &answer, settings)?)
    }

    /// The variables that the extension of a patch defines for a class (RH-16.1, RH-16.2), cached by RH-9.1.
    ///
    /// # Errors
    /// When there is no such handler, or it fails.
    pub async fn variables(
        &self,
        class: &ObjectKey,
        name: &str,
        settings: &BTreeMap<String, String>,
        deadline: Instant,
    ) -> Result<Arc<[Value]>, ExtensionError> {
        let called = self.one(name, DISCOVER_VARIABLES, class, deadline).await?;
        let request = VariablesRequest::new(settings, called.extension.registration.settings())?;
        self.cached(&self.variables, &called, request, deadline).await
    }

    /// The combined answer of all handlers of a lifecycle hook (HK-04, HK-07, RH-8.1 to RH-8.5). A run that ends before
    /// all were called fails; the next run calls the others, so that slow handlers are all called eventually.
    async fn hook(&self, call: &HookCall, deadline: Instant) -> Result<Found<HookAnswer>, ExtensionError> {
        let HookCall { hook, cluster, .. } = call;
        let called = self.all(hook.name(), &cluster.namespace, deadline).await?;
        if called.is_empty() {
            return Ok(Found::Absent);
        }
        let key = (*hook, cluster.clone());
        if let Some(wait) = self.blocking.get(&key) {
            let left = wait.until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let after_seconds = u32::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1);
                return Ok(Found::Yes(HookAnswer::Retry { after_seconds, message: wait.message }));
            }
        }
        let mut all: Vec<((ObjectKey, AnswerKey), Retry)> = Vec::new();
        for one in called {
            let request = HookRequest::new(call, one.extension.registration.settings())?;
            let key = (cluster.clone(), answer_key(&one, &request.stable_body()));
            if let Some(retry) = self.begun.get(&key) {
                all.push((key, retry));
                continue;
            }
            match self.exchange(&one, request, deadline).await?.answer {
                Ok(retry) => {
                    // Until all have answered. A handler that blocks is called again.
                    if retry.after_seconds == 0 {
                        self.begun.put(key.clone(), retry.clone(), 1);
                    }
                    all.push((key, retry));
                }
                Err(source) => {
                    all.iter().for_each(|(key, _)| self.begun.remove(key));
                    return Err(ExtensionError::AnswerOfOne { name: one.name, source });
                }
            }
        }
        all.iter().for_each(|(key, _)| self.begun.remove(key));
        let all: Vec<Retry> = all.into_iter().map(|(_, retry)| retry).collect();
        let answer = Retry::together(&all);
        if let HookAnswer::Retry { after_seconds, message } = &answer {
            let until = Instant::now() + Duration::from_secs((*after_seconds).into()).min(BLOCKING);
            self.blocking.put(key, BlockingAnswer { until, message: message.clone() }, 1);
        }
        Ok(Found::Yes(answer))
    }

    /// The plan of an extension, cached by its start and end version (RH-9.5, PERF-04, RH-21.3).
    async fn upgrade_plan(&self, call: &PlanCall, deadline: Instant) -> Result<Found<PlannedVersions>, ExtensionError> {
        let PlanCall { extension, cluster, request } = call;
        let called = self.one(extension, GENERATE_UPGRADE_PLAN, cluster, deadline).await?;
        let request = PlanRequest::new(request, called.extension.registration.settings())?;
        let key = (format!("{extension} {cluster}"), request.versions().join(" "));
        if let Some(plan) = self.plans.get(&key) {
            return Ok(Found::Yes(plan));
        }
        let Exchange { answer, size } = self.exchange(&called, request, deadline).await?;
        let plan = answer?;
        if size.is_some() {
            self.plans.put(key, plan.clone(), 1);
        }
        Ok(Found::Yes(plan))
    }

    /// The answer of the extension of a patch. An extension gives equal requests equal answers (RH-23.5), so an answer
    /// holds for the next runs, and a Cluster without changes calls nothing.
    async fn patch(&self, call: &PatchCall, deadline: Instant) -> Result<Found<PatchAnswer>, ExtensionError> {
        let called = self.one(&call.extension, call.hook.name(), &call.cluster, deadline).await?;
        let request = PreparedPatchRequest::new(call, called.extension.registration.settings())?;
        self.cached(&self.patches, &called, request, deadline).await.map(Found::Yes)
    }

    /// The answer to a request, from the cache if it has the answer to an equal one. Answers to failed calls are not
    /// cached.
    async fn cached<R>(
        &self,
        cache: &ExpiringCache<AnswerKey, R::Answer>,
        called: &ResolvedHandler,
        request: R,
        deadline: Instant,
    ) -> Result<R::Answer, ExtensionError>
    where
        R: HandlerRequest<Answer: Clone + Send> + Send + 'static,
    {
        let key = answer_key(called, request.body());
        if let Some(known) = cache.get(&key) {
            return Ok(known);
        }
        let Exchange { answer, size } = self.exchange(called, request, deadline).await?;
        let answer = answer?;
        if let Some(size) = size.filter(|_| R::is_cacheable(&answer)) {
            cache.put(key, answer.clone(), size + size_of::<AnswerKey>());
        }
        Ok(answer)
    }

    /// Calls a handler, and decodes its response.
    async fn exchange<R>(
        &self,
        called: &ResolvedHandler,
        request: R,
        deadline: Instant,
    ) -> Result<Exchange<R::Answer>, ExtensionError>
    where
        R: HandlerRequest<Answer: Send> + Send + 'static,
    {
        let response = self.call(called, request.body().to_owned(), deadline).await?;
        let size = response.as_ref().ok().map(|response| response.get().len());
        let handler = called.handler.clone();
        let decode = move || match &response {
            Ok(response) => request.decode(&handler, Ok(response)),
            Err(failure) => request.decode(&handler, Err(&failure.to_string())),
        };
        let answer = on_blocking_thread(size.unwrap_or_default(), decode).await?;
        Ok(Exchange { answer, size })
    }

    /// The handler with a name, if it may be called for an object (RH-7.1, RH-7.2).
    async fn one(
        &self,
        name: &str,
        hook: &str,
        object: &ObjectKey,
        deadline: Instant,
    ) -> Result<ResolvedHandler, ExtensionError> {
        let called = self.look_up(|registry| registry.one(name, hook))??;
        match self.namespaces.are_selected(&called.extension.selector, &object.namespace, deadline).await? {
            true => Ok(called),
            false => Err(ExtensionError::NotSelected { name: name.to_owned(), object: object.clone() }),
        }
    }

    /// All handlers of a hook that are called for objects of a namespace (RH-8.1).
    async fn all(
        &self,
        hook: &str,
        namespace: &str,
        deadline: Instant,
    ) -> Result<Vec<ResolvedHandler>, ExtensionError> {
        let mut selected = Vec::new();
        for (selector, called) in self.look_up(|registry| registry.all(hook))? {
            if self.namespaces.are_selected(&selector, namespace, deadline).await? {
                selected.push(called?);
            }
        }
        Ok(selected)
    }

    async fn call(
        &self,
        called: &ResolvedHandler,
        request: String,
        deadline: Instant,
    ) -> Result<CallResult, ExtensionError> {
        let handler = || called.handler.name().to_owned();
        let not_called = |source: NotCalled| ExtensionError::NotCalled { handler: handler(), source };
        let calls = self.calls_of(called.extension.registration.config());
        let permit = timeout(QUEUEING, calls.acquire()).await;
        let _permit = permit.map_err(|_| not_called(NotCalled::Busy))?;
        let sent = self.send(called.handler.hook(), &called.extension.ca, &called.target(), request, deadline).await;
        sent.map_err(not_called)
    }

    fn calls_of(&self, config: &str) -> Arc<Semaphore> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.entry(config.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(CALLS))).clone()
    }

    /// Sends a request, and counts it (PERF-10). A call that begins before the deadline may take as long as its handler
    /// says, so that no call fails because another one took long.
    ///
    /// # Errors
    /// When the extension is not called: the failure policy applies only to failed calls (RH-7.3).
    async fn send(
        &self,
        hook: &'static str,
        ca: &[u8],
        target: &CallTarget,
        request: String,
        deadline: Instant,
    ) -> Result<CallResult, NotCalled> {
        let client: Client = self.clients.trusting(ca)?;
        let started = Instant::now();
        if started >= deadline {
            return Err(NotCalled::Late);
        }
        let response = client.call_json(target, request).await;
        let seconds = started.elapsed().as_secs_f64();
        self.metrics.extension_duration.get_or_create(&Requested { hook }).observe(seconds);
        let outcome = response.as_ref().map_or_else(CallError::outcome, |_| "answered");
        self.metrics.extension_requests.get_or_create(&Requests { hook, outcome }).inc();
        Ok(response)
    }
}

/// The response to a call, or why it failed.
type CallResult = Result<Box<RawValue>, CallError>;

/// A call that was made.
struct Exchange<T> {
    answer: Result<T, AnswerError>,
    /// The size of the response in bytes; `None` if the call failed.
    size: Option<usize>,
}

/// The answer to a need: a failure is an answer, extensions that are not listed yet are none.
fn answered<T>(answer: Result<Found<T>, ExtensionError>) -> Result<Found<T>, Unlisted> {
    match answer {
        Ok(found) => Ok(found),
        Err(ExtensionError::Unlisted(unlisted)) => Err(unlisted),
        Err(failed) => Ok(Found::Unreadable(failed.to_string())),
    }
}

/// Runs `work`, on a blocking thread if `bytes` is large (DEC-44).
async fn on_blocking_thread<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if bytes <= INLINE {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}

/// The key of a request to a handler; that of a newer version of its ExtensionConfig differs.
fn answer_key(called: &ResolvedHandler, request: &str) -> AnswerKey {
    let parts = [&called.name, called.handler.hook(), &called.extension.version, request];
    let hash = digest(&SHA256, parts.join("\n").as_bytes());
    hash.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests;
