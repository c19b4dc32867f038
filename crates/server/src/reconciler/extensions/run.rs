//! One run for an ExtensionConfig.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use super::config::{RawConfig, Revision};
use super::disputes::{StatusDisputes, WriteDecision, summary};
use crate::kubernetes::address::{self, InvalidSegment};
use crate::kubernetes::describe;
use crate::kubernetes::events::{EventReason, QueuedEvent, Recorder};
use crate::kubernetes::extensions::{DiscoverError, ExtensionCaller};
use crate::kubernetes::lease::{Leadership, NotLeading};
use crate::reconciler::backoff::Backoff;
use crate::reconciler::runs::{RunOutcome, resync};
use crate::reconciler::{add, in_our_name, now};
use engine::extensions::config::{is_paused, paused_status, status};
use engine::extensions::{ConfigError, ExtensionConfig, RegisteredConfig, Registration};
use model::hub::ObjectKey;

/// Interval of discoveries of an extension whose CA comes from a Secret, which is not watched (RH-2.7).
const RESYNC_SECRET: Duration = Duration::from_mins(1);
/// The key of a CA in a Secret (RH-2.7).
const CA_KEY: &str = "ca.crt";

/// Why a run did not register an extension.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiscoveryFailure {
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error("the object has changed since it was read")]
    Conflict,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the CA cannot be read from the Secret {secret}: {reason}")]
    Secret { secret: ObjectKey, reason: String },
    #[error(transparent)]
    Discovery(#[from] DiscoverError),
    #[error("{what} cannot be written: {}", describe(.error))]
    Write { what: &'static str, error: kube::Error },
    #[error("timed out after a minute")]
    Late,
}

/// The dependencies of all runs.
pub(super) struct ExtensionReconciler {
    /// Writes only while this process leads.
    pub writer: kube::Client,
    pub leadership: Leadership,
    pub extensions: Arc<ExtensionCaller>,
    pub events: Recorder,
    pub backoff: Backoff,
    /// The last registration of each ExtensionConfig, and its time.
    pub known: Mutex<HashMap<String, (Revision, Instant)>>,
    pub disputes: StatusDisputes,
}

impl ExtensionReconciler {
    /// Discovers an extension and registers its handlers; returns the delay before the next discovery (RH-3.1).
    pub(super) async fn run(&self, config: &RawConfig) -> Result<(Duration, RunOutcome), DiscoveryFailure> {
        self.leadership.may_write()?;
        let name = config.object.name();
        // At the start one that is paused is discovered like the others (RH-3.6).
        if is_paused(&config.object) && !self.extensions.is_expected(name) {
            self.write_status(config, paused_status(config.value(), &now())).await?;
            return Ok((resync(&config.key()), RunOutcome::LeftAlone));
        }
        if let Some(left) = self.still_holds(config) {
            return Ok((left, RunOutcome::Unchanged));
        }
        match self.discover(config).await {
            Ok(found) => self.register(config, found).await,
            Err(failure) => {
                if !matches!(failure, DiscoveryFailure::Conflict | DiscoveryFailure::NotLeading(_)) {
                    self.failed(config, &failure.to_string()).await?;
                }
                Err(failure)
            }
        }
    }

    /// Remaining time of the last registration, unless the ExtensionConfig has changed since.
    fn still_holds(&self, config: &RawConfig) -> Option<Duration> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (revision, since) = known.get(config.object.name()).filter(|(known, _)| *known == config.revision())?;
        let _ = revision;
        interval(config).checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    /// Drops the data of a deleted ExtensionConfig.
    pub(super) fn forget(&self, config: &RawConfig) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(config.object.name());
        self.disputes.forget(config.object.name());
        self.backoff.forget(&config.key());
    }

    async fn discover(&self, config: &RawConfig) -> Result<(ExtensionConfig, Registration), DiscoveryFailure> {
        let mut read = ExtensionConfig::from_object(&config.object)?;
        if let Some(secret) = &read.ca_secret {
            let ca = self.ca(secret).await?;
            if ca != read.ca {
                self.inject(config, &ca).await?;
                // Its own event brings the next run, whose condition speaks of the new generation.
                read.ca = ca;
                return Err(DiscoveryFailure::Conflict);
            }
        }
        let found = self.extensions.discover(&read.name, &read.address, &read.ca, read.settings.clone()).await;
        Ok((read, found?))
    }

    /// The certificates in a Secret (RH-2.7).
    async fn ca(&self, secret: &ObjectKey) -> Result<Vec<u8>, DiscoveryFailure> {
        let failed = |reason: String| DiscoveryFailure::Secret { secret: secret.clone(), reason };
        let one = address::one::<Secret>(self.writer.clone(), secret)
            .map_err(|error: InvalidSegment| failed(error.to_string()))?;
        let found = one.get_opt().await.map_err(|error| failed(describe(&error)))?;
        let data = found.ok_or_else(|| failed("it does not exist".to_owned()))?.data.unwrap_or_default();
        data.get(CA_KEY).map(|ca| ca.0.clone()).ok_or_else(|| failed(format!("it has no key {CA_KEY}")))
    }

    async fn inject(&self, config: &RawConfig, ca: &[u8]) -> Result<(), DiscoveryFailure> {
        let bundle = json!(STANDARD.encode(ca));
        self.patch(config, add(["spec", "clientConfig", "caBundle"], bundle), "caBundle", false).await?;
        info!("Updated the CA of an ExtensionConfig from its Secret");
        Ok(())
    }

    /// Writes the status, and then registers its handlers (RH-3.1).
    async fn register(
        &self,
        config: &RawConfig,
        (read, registration): (ExtensionConfig, Registration),
    ) -> Result<(Duration, RunOutcome), DiscoveryFailure> {
        let version = self.write_status(config, status(config.value(), Ok(&registration), &now())).await?;
        let outcome = if version.is_some() { RunOutcome::Changed } else { RunOutcome::Unchanged };
        let version = version.unwrap_or_else(|| config.version().to_owned());
        let ExtensionConfig { name, address, ca, selector, .. } = read;
        let registered = RegisteredConfig { registration, version, address, ca, selector };
        self.extensions.change(|registry| registry.register(&name, registered));
        let entry = (config.revision(), Instant::now());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name, entry);
        Ok((interval(config), outcome))
    }

    /// Reports a failed discovery; earlier registrations stay (RH-3.2).
    async fn failed(&self, config: &RawConfig, reason: &str) -> Result<(), DiscoveryFailure> {
        let name = config.object.name();
        self.extensions.change(|registry| registry.failed(name, reason));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        if self.write_status(config, status(config.value(), Err(reason), &now())).await?.is_some() {
            const FAILED: EventReason = EventReason::warning("DiscoveryFailed");
            let event = QueuedEvent::now(&config.reference(), config.object.uid(), FAILED, reason.to_owned());
            self.events.write(vec![event]).await;
        }
        Ok(())
    }

    /// Writes the status if it differs; returns the new resourceVersion. One that another controller keeps overwriting
    /// is written every ten minutes (DEC-92).
    async fn write_status(&self, config: &RawConfig, status: Value) -> Result<Option<String>, DiscoveryFailure> {
        let stored = config.value().get("status");
        if stored == Some(&status) {
            return Ok(None);
        }
        match self.disputes.turn(config) {
            WriteDecision::Write => {}
            WriteDecision::Stale | WriteDecision::Disputed { is_new: false } => return Ok(None),
            WriteDecision::Disputed { is_new: true } => {
                self.report_dispute(config, &summary(stored), &summary(Some(&status))).await;
                return Ok(None);
            }
        }
        let version = self.patch(config, add(["status"], status.clone()), "the status", true).await?;
        self.disputes.wrote(config, &status);
        Ok(Some(version))
    }

    async fn report_dispute(&self, config: &RawConfig, stored: &str, own: &str) {
        const DISPUTED: EventReason = EventReason::warning("DiscoveryDisputed");
        warn!(stored, own, "Another controller replaced the result of a discovery");
        let message = format!(
            "Another controller wrote {stored}; topologist found {own}, uses its own result, and writes it every ten \
             minutes"
        );
        self.events.write(vec![QueuedEvent::now(&config.reference(), config.object.uid(), DISPUTED, message)]).await;
    }

    async fn patch(
        &self,
        config: &RawConfig,
        change: json_patch::PatchOperation,
        what: &'static str,
        is_status: bool,
    ) -> Result<String, DiscoveryFailure> {
        self.leadership.may_write()?;
        let version = add(["metadata", "resourceVersion"], json!(config.version()));
        let patch = Patch::Json::<()>(json_patch::Patch(vec![version, change]));
        let one = address::one_of_cluster::<RawConfig>(self.writer.clone(), config.object.name());
        let one = one.map_err(|malformed| DiscoveryFailure::Write { what, error: malformed.into() })?;
        let written = match is_status {
            true => one.patch_status(&in_our_name(), &patch).await,
            false => one.patch(&in_our_name(), &patch).await,
        };
        match written {
            Ok(written) => Ok(written.version().to_owned()),
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
                Err(DiscoveryFailure::Conflict)
            }
            Err(error) => Err(DiscoveryFailure::Write { what, error }),
        }
    }
}

fn interval(config: &RawConfig) -> Duration {
    let has_secret = config.object.annotation(engine::extensions::config::INJECT_CA).is_some();
    if has_secret { RESYNC_SECRET } else { resync(&config.key()) }
}
