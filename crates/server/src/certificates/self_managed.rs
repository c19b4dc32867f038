//! Certificates that topologist issues for itself.
//!
//! ```text
//!  Secret ──watch──► every replica: presents the pair that the CA in the Secret issued
//!    ▲    ──watch──► the leader ◄──watch── webhook configurations, definitions
//!    └──── step ──────── rotation::next ──────── caBundle ──────► ┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, error, info};

use super::bundles::{BundleHolder, Services};
use super::disputes::{self, BundleDisputes};
use super::registrations::Registrations;
use super::rotation::{self, Policy, Rotation, RotationStep, SecretContent, StoredSecret, TrustedBundles};
use crate::kubernetes::events::{EventReason, QueuedEvent, Recorder};
use crate::kubernetes::lease::Leadership;
use crate::kubernetes::observations::{self, Observation, WatchedKind};
use crate::kubernetes::{WatchSelection, describe};
use crate::telemetry::metrics::{self, Metrics};
use model::hub::{ObjectKey, ObjectRef};
use tls::identity::ServerIdentity;
use tls::pair::{CertificateFiles, CertificatePair, TlsError};

/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "topologist";

/// Who reports Events, and why: the API server does not call this installation.
const REPORTER: &str = "topologist-certificates";
const NOT_CALLED: EventReason = EventReason::warning("NotCalled");

/// The label of a Secret that is ours to write.
pub const LABEL: &str = "topologist.dev/managed-certificates";

/// How long the configurations may take to be seen before decisions are made without those that are missing.
const ACQUAINTANCE: Duration = Duration::from_secs(30);

/// When to look again at a Secret that has not changed: a certificate may have become valid.
const SECOND_LOOK: Duration = Duration::from_mins(1);

/// The longest time without a look at what is due: the system's clock may jump, and then a certificate has expired, or
/// is not valid yet, at once.
const IDLE: Duration = Duration::from_secs(10);

/// Pause after a write, so that another client that reverts each write does not cause a busy loop.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause after repeated failures of writes.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The names of the objects of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallationNames {
    /// The Secret, in the namespace of the Services.
    pub secret: String,
    /// The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.
    pub configurations: String,
    pub services: Services,
}

impl InstallationNames {
    /// The DNS names that the API server calls.
    pub fn hosts(&self) -> Vec<String> {
        let Services { namespace, webhook, conversion } = &self.services;
        let both = |service: &String| ["svc", "svc.cluster.local"].map(|end| format!("{service}.{namespace}.{end}"));
        [webhook, conversion].into_iter().flat_map(both).collect()
    }

    fn secret_name(&self) -> String {
        format!("Secret {}/{}", self.services.namespace, self.secret)
    }
}

/// Creates, renews and presents the certificates of an installation.
pub struct SelfManaged {
    client: kube::Client,
    names: InstallationNames,
    policy: Policy,
    identity: Arc<ServerIdentity>,
    metrics: Arc<Metrics>,
    /// The Secret as it was last seen; `None` before that.
    seen: watch::Sender<Option<ObservedSecret>>,
    shown: Mutex<PresentedPair>,
}

/// The observed Secret, or its absence. Without `Debug`, which would print the keys.
#[derive(Clone, Default)]
struct ObservedSecret {
    secret: Option<Secret>,
    stored: StoredSecret,
}

/// The pair that this replica presents, and why it does not present another.
#[derive(Debug)]
struct PresentedPair {
    pair: Option<CertificatePair>,
    obstacle: Option<String>,
}

impl fmt::Debug for SelfManaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelfManaged").field("names", &self.names).finish_non_exhaustive()
    }
}

/// There is no certificate to present.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no serving certificate: {obstacle}")]
pub struct NoServingCertificate {
    pub obstacle: String,
}

impl SelfManaged {
    /// Certificates before the first observation of the Secret; nothing is presented.
    pub fn new(
        client: kube::Client,
        names: InstallationNames,
        policy: Policy,
        identity: Arc<ServerIdentity>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let obstacle = Some(format!("{} has not been read yet", names.secret_name()));
        let (seen, shown) = (watch::Sender::default(), Mutex::new(PresentedPair { pair: None, obstacle }));
        Arc::new(SelfManaged { client, names, policy, identity, metrics, seen, shown })
    }

    /// Whether there is a certificate to present.
    ///
    /// # Errors
    /// Names what is missing.
    pub fn ready(&self) -> Result<(), NoServingCertificate> {
        let shown = self.shown();
        match (&shown.pair, &shown.obstacle) {
            (None, Some(obstacle)) => Err(NoServingCertificate { obstacle: obstacle.clone() }),
            _ => Ok(()),
        }
    }

    fn shown(&self) -> MutexGuard<'_, PresentedPair> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the Secret and presents its pair; never ends. Runs in every replica.
    pub async fn follow(self: Arc<Self>) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.names.services.namespace);
        let kind = WatchedKind::own("Secret", "v1");
        let mut seen =
            observations::follow(secrets, WatchSelection::by_name(&self.names.secret), kind, self.metrics.clone());
        loop {
            tokio::select! {
                Some(seen) = seen.next() => self.apply(seen),
                () = sleep(SECOND_LOOK) => self.show(),
            }
        }
    }

    fn apply(&self, seen: Observation<Secret>) {
        match seen {
            Observation::There { object, .. } => self.see(Some(object)),
            Observation::Gone(_) => self.see(None),
            Observation::Listed { keys, .. } if keys.is_empty() => self.see(None),
            Observation::Failed(fault) if self.seen.borrow().is_none() => {
                self.shown().obstacle = Some(format!("{} cannot be read: {fault}", self.names.secret_name()));
            }
            Observation::Listed { .. } | Observation::Alive | Observation::Failed(_) => {}
        }
    }

    fn see(&self, secret: Option<Secret>) {
        let stored = stored(secret.as_ref());
        self.seen.send_replace(Some(ObservedSecret { secret, stored }));
        self.show();
    }

    /// Presents the pair of the Secret from the next handshake on, if it is another one and can be used.
    fn show(&self) {
        let Some(stored) = self.seen.borrow().as_ref().map(|seen| seen.stored.clone()) else { return };
        let mut shown = self.shown();
        match self.usable(&stored, shown.pair.as_ref()) {
            Ok(pair) => {
                if shown.pair.as_ref() != Some(&pair) {
                    info!(secret = self.names.secret_name(), "Loaded a new certificate");
                    // The first one replaces none.
                    if shown.pair.is_some() {
                        self.count_reload("success");
                    }
                }
                *shown = PresentedPair { pair: Some(pair), obstacle: None };
            }
            Err(error) => {
                let obstacle = error.to_string();
                if shown.pair.is_some() && shown.obstacle.as_ref() != Some(&obstacle) {
                    self.count_reload("failure");
                    error!(error = obstacle, "Kept the old certificate because the new one cannot be used");
                }
                shown.obstacle = Some(obstacle);
            }
        }
    }

    /// The pair of the Secret, installed if it is not `present`. The error says why it cannot be used.
    fn usable(
        &self,
        stored: &StoredSecret,
        present: Option<&CertificatePair>,
    ) -> Result<CertificatePair, UnusableSecret> {
        let name = self.names.secret_name();
        let files = CertificateFiles {
            certificate: format!("tls.crt of {name}").into(),
            key: format!("tls.key of {name}").into(),
        };
        let content = match stored {
            StoredSecret::Absent => return Err(UnusableSecret::Absent(name)),
            StoredSecret::Foreign => return Err(UnusableSecret::Foreign(name)),
            StoredSecret::Ours(content) => content,
        };
        let pair = content.serving(&files, &self.policy.names, SystemTime::now())?;
        if present != Some(&pair) {
            self.identity.install(&pair, &files)?;
        }
        Ok(pair)
    }

    fn count_reload(&self, outcome: &'static str) {
        self.metrics.tls_reloads.get_or_create(&metrics::Outcome { outcome }).inc();
    }

    /// Creates and renews the content of the Secret whenever this process leads; never ends.
    pub async fn manage(self: Arc<Self>, leadership: Leadership) {
        let writer = leadership.writer(self.client.clone());
        let managed = &self;
        leadership.while_leading(|| managed.lead(writer.clone())).await;
    }

    /// The observations of the configurations that hold the bundle.
    fn follow_configurations(&self) -> BoxStream<'static, (BundleHolder, Observation<DynamicObject>)> {
        let follow = |holder: BundleHolder| {
            let (api, name) =
                (api(&self.client, holder), WatchSelection::by_name(&holder.name(&self.names.configurations)));
            let kind = WatchedKind::own(holder.kind(), &format!("{}/v1", holder.group()));
            observations::follow(api, name, kind, self.metrics.clone()).map(move |seen| (holder, seen)).boxed()
        };
        stream::select_all(BundleHolder::ALL.map(follow)).boxed()
    }

    async fn lead(&self, writer: kube::Client) {
        let mut leader = Leader::new(self, writer);
        let mut seen = self.seen.subscribe();
        let mut configurations = self.follow_configurations();
        loop {
            let now = seen.borrow_and_update().clone();
            let pause = leader.step(now.as_ref()).await;
            tokio::select! {
                Some((holder, seen)) = configurations.next() => leader.observe(holder, seen),
                _ = seen.changed() => leader.forget_failure(WriteTarget::Secret),
                () = sleep(pause) => {}
            }
        }
    }
}

fn stored(secret: Option<&Secret>) -> StoredSecret {
    let Some(secret) = secret else { return StoredSecret::Absent };
    if !secret.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL)) {
        return StoredSecret::Foreign;
    }
    let data = secret.data.iter().flatten().map(|(key, ByteString(bytes))| (key.clone(), bytes.clone()));
    StoredSecret::Ours(SecretContent::from_data(&data.collect()))
}

fn api(client: &kube::Client, holder: BundleHolder) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(holder.group(), "v1", holder.kind());
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// Why the pair of the Secret cannot be presented.
#[derive(Debug, thiserror::Error)]
enum UnusableSecret {
    #[error("{0} does not exist; the leader creates it")]
    Absent(String),
    #[error("{0} does not have the label {LABEL}")]
    Foreign(String),
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

/// The work of the leader and its state.
struct Leader<'a> {
    managed: &'a SelfManaged,
    writer: kube::Client,
    began: Instant,
    /// The configurations that exist, as far as they matter.
    configurations: BTreeMap<BundleHolder, Value>,
    /// Those of which is known whether they exist.
    listed: BTreeSet<BundleHolder>,
    live: TrustedBundles,
    /// When `live` changed.
    changed: Instant,
    pauses: BTreeMap<WriteTarget, WritePause>,
    disputes: BundleDisputes,
    /// The last other field manager of the bundle in each configuration.
    writers: BTreeMap<BundleHolder, String>,
    registrations: Registrations,
    recorder: Recorder,
}

/// An object that the leader writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WriteTarget {
    Secret,
    Configuration(BundleHolder),
}

impl WriteTarget {
    const fn kind(self) -> &'static str {
        match self {
            WriteTarget::Secret => "Secret",
            WriteTarget::Configuration(holder) => holder.kind(),
        }
    }
}

/// The pause after a write of an object: the earliest time of the next write, and the error of the last one.
struct WritePause {
    time: Duration,
    until: Instant,
    error: Option<String>,
}

impl<'a> Leader<'a> {
    fn new(managed: &'a SelfManaged, writer: kube::Client) -> Self {
        Leader {
            managed,
            recorder: Recorder::new(writer.clone(), REPORTER),
            disputes: BundleDisputes::default(),
            writers: BTreeMap::new(),
            registrations: Registrations::default(),
            writer,
            began: Instant::now(),
            configurations: BTreeMap::new(),
            listed: BTreeSet::new(),
            live: TrustedBundles { is_known: false, bundles: Vec::new(), unchanged: Duration::ZERO },
            changed: Instant::now(),
            pauses: BTreeMap::new(),
        }
    }

    fn observe(&mut self, holder: BundleHolder, seen: Observation<DynamicObject>) {
        match seen {
            Observation::There { object, .. } => self.keep(holder, &object),
            Observation::Gone(_) => drop(self.configurations.remove(&holder)),
            Observation::Listed { keys, .. } => {
                if keys.is_empty() {
                    self.configurations.remove(&holder);
                }
                self.listed.insert(holder);
            }
            Observation::Alive | Observation::Failed(_) => {}
        }
        self.look();
    }

    fn keep(&mut self, holder: BundleHolder, object: &DynamicObject) {
        let entries = object.metadata.managed_fields.as_deref().unwrap_or_default();
        match disputes::writer(entries, FIELD_MANAGER) {
            Some(writer) => drop(self.writers.insert(holder, writer.to_owned())),
            None => drop(self.writers.remove(&holder)),
        }
        // What came over the wire as JSON goes back into it.
        let object = serde_json::to_value(object).unwrap_or_default();
        self.configurations.insert(holder, holder.excerpt(&object));
    }

    /// Updates the authorities that the API server trusts, and when they changed.
    fn look(&mut self) {
        let services = &self.managed.names.services;
        let all = self.configurations.iter().flat_map(|(holder, object)| holder.bundles(object, services));
        let (bundles, is_known) = (all.collect(), self.listed.len() == BundleHolder::ALL.len());
        if (&bundles, is_known) != (&self.live.bundles, self.live.is_known) {
            self.live = TrustedBundles { is_known, bundles, unchanged: Duration::ZERO };
            self.changed = Instant::now();
        }
    }

    /// Does the work that is due; returns when the next work is due, unless something changes.
    async fn step(&mut self, seen: Option<&ObservedSecret>) -> Duration {
        let Some(seen) = seen else { return IDLE };
        if !self.live.is_known && self.began.elapsed() < ACQUAINTANCE {
            return ACQUAINTANCE.saturating_sub(self.began.elapsed());
        }
        self.live.unchanged = self.changed.elapsed();
        let Rotation { bundle, step } =
            rotation::next(&seen.stored, &self.live, &self.managed.policy, SystemTime::now());
        self.check_registrations(seen).await;
        if let Some(bundle) = bundle {
            self.publish(&bundle).await;
        }
        let pause = match &step {
            RotationStep::Refuse => {
                if !self.must_wait(WriteTarget::Secret) {
                    let name = self.managed.names.secret_name();
                    self.fail(
                        WriteTarget::Secret,
                        format!("{name} does not have the label {LABEL}, so topologist does not manage it"),
                    );
                }
                IDLE
            }
            RotationStep::Wait { until } => until.duration_since(SystemTime::now()).unwrap_or_default().min(IDLE),
            step => self.write(step, seen).await,
        };
        let ends = self.pauses.values().filter_map(|pause| pause.until.checked_duration_since(Instant::now()));
        ends.filter(|end| !end.is_zero()).fold(pause, Duration::min)
    }

    /// Reports missing configurations, without which the API server does not call this installation.
    async fn check_registrations(&mut self, seen: &ObservedSecret) {
        let (names, metrics) = (&self.managed.names, &self.managed.metrics);
        let new = self.registrations.update(&self.configurations, &names.services, &names.configurations, metrics);
        let uid = seen.secret.as_ref().and_then(|secret| secret.metadata.uid.clone());
        if let (Some(message), Some(uid)) = (new, uid) {
            let secret = ObjectRef::new("v1", "Secret", ObjectKey::new(&names.services.namespace, &names.secret));
            self.recorder.write(vec![QueuedEvent::now(&secret, &uid, NOT_CALLED, message)]).await;
        }
    }

    /// Writes the bundle into the configurations that lack it.
    async fn publish(&mut self, bundle: &str) {
        let services = &self.managed.names.services;
        let patches = self.configurations.iter().filter_map(|(holder, object)| {
            let patch = holder.patch(object, services, bundle)?;
            Some((*holder, patch))
        });
        for (holder, patch) in patches.collect::<Vec<_>>() {
            let target = WriteTarget::Configuration(holder);
            if self.must_wait(target) {
                continue;
            }
            let name = holder.name(&self.managed.names.configurations);
            let patch = match holder {
                BundleHolder::Mutating | BundleHolder::Validating => Patch::Strategic(patch),
                BundleHolder::Definition(_) => Patch::Merge(patch),
            };
            let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            match api(&self.writer, holder).patch(&name, &params, &patch).await {
                Ok(object) => {
                    info!(kind = holder.kind(), name, "Wrote the CA bundle");
                    let writer = self.writers.get(&holder).map(String::as_str);
                    let pause = self.disputes.write(holder, &name, bundle, writer, &self.managed.metrics);
                    self.keep(holder, &object);
                    self.succeed(target, "publish", pause);
                }
                Err(error) => self.fail_to_write(target, &error),
            }
            self.look();
        }
    }

    /// Writes the Secret, unless it has changed; returns the delay before the next step.
    async fn write(&mut self, step: &RotationStep, seen: &ObservedSecret) -> Duration {
        if self.must_wait(WriteTarget::Secret) {
            return IDLE;
        }
        let content = match &seen.stored {
            StoredSecret::Ours(content) => content.clone(),
            StoredSecret::Absent | StoredSecret::Foreign => SecretContent::default(),
        };
        let next = match rotation::perform(step, &content, &self.managed.policy, SystemTime::now()) {
            Ok(Some(next)) => next,
            Ok(None) => return IDLE,
            Err(error) => {
                self.fail(WriteTarget::Secret, error.to_string());
                return IDLE;
            }
        };
        let names = &self.managed.names;
        let secrets: Api<Secret> = Api::namespaced(self.writer.clone(), &names.services.namespace);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        // The write contains the resourceVersion that was read, so a change of another client causes a conflict.
        let written = match &seen.secret {
            None => secrets.create(&params, &new_secret(&names.secret, &next)).await,
            Some(secret) => secrets.replace(&names.secret, &params, &changed_secret(secret, &next)).await,
        };
        match written {
            Ok(secret) => {
                let action = action(step);
                info!(secret = names.secret_name(), action, "Wrote certificates");
                self.succeed(WriteTarget::Secret, action, PAUSE);
                self.managed.see(Some(secret));
                Duration::ZERO
            }
            Err(error) => {
                self.fail_to_write(WriteTarget::Secret, &error);
                IDLE
            }
        }
    }

    fn must_wait(&self, target: WriteTarget) -> bool {
        self.pauses.get(&target).is_some_and(|pause| Instant::now() < pause.until)
    }

    fn succeed(&mut self, target: WriteTarget, action: &'static str, pause: Duration) {
        self.managed.metrics.certificate_actions.get_or_create(&metrics::Action { action }).inc();
        self.pauses.insert(target, WritePause { time: PAUSE, until: Instant::now() + pause, error: None });
    }

    /// Clears an error that may be resolved.
    fn forget_failure(&mut self, target: WriteTarget) {
        self.pauses.retain(|other, pause| *other != target || pause.error.is_none());
    }

    fn fail_to_write(&mut self, target: WriteTarget, error: &kube::Error) {
        if matches!(error, kube::Error::Api(status) if status.code == 409) {
            debug!(kind = target.kind(), "Write conflict, reading again");
            self.pauses.insert(target, WritePause { time: PAUSE, until: Instant::now() + PAUSE, error: None });
        } else {
            self.fail(target, describe(error));
        }
    }

    /// Notes a failure, and schedules a retry.
    fn fail(&mut self, target: WriteTarget, error: String) {
        let former = self.pauses.remove(&target).filter(|former| former.error.is_some());
        let time = former.as_ref().map_or(PAUSE, |former| (former.time * 2).min(LONGEST_PAUSE));
        if former.is_none_or(|former| former.error.as_ref() != Some(&error)) {
            error!(kind = target.kind(), error, "Failed to manage certificates, retrying");
        }
        self.pauses.insert(target, WritePause { time, until: Instant::now() + time, error: Some(error) });
    }
}

fn action(step: &RotationStep) -> &'static str {
    match step {
        RotationStep::Make { issue: true, .. } => "make_all",
        RotationStep::Make { .. } => "make_authority",
        RotationStep::Issue => "issue_certificate",
        RotationStep::Keep { .. } => "settle_former_authorities",
        RotationStep::Refuse | RotationStep::Wait { .. } => "none",
    }
}

fn new_secret(name: &str, content: &SecretContent) -> Secret {
    let labels = [(LABEL.to_owned(), "true".to_owned())].into();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    Secret { metadata, type_: Some("Opaque".to_owned()), data: Some(data(content)), ..Secret::default() }
}

/// The Secret with other certificates; data of other writers stays.
fn changed_secret(secret: &Secret, content: &SecretContent) -> Secret {
    let mut changed = secret.clone();
    let held = changed.data.get_or_insert_default();
    held.retain(|key, _| !SecretContent::KEYS.contains(&key.as_str()));
    held.extend(data(content));
    changed
}

fn data(content: &SecretContent) -> BTreeMap<String, ByteString> {
    let bytes = |(key, text): (&str, &str)| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    content.data().into_iter().map(bytes).collect()
}
