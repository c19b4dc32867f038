//! `serve`: the settings of the machine controllers, and the output of their progress.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::args::ServeArgs;
use super::format_schemas;
use super::output::{self, Text};
use super::sources::{self, FILE_LIMIT};
use machines::lifecycle::MachineSettings;
use machines::lifecycle::settings::{ProvidedKinds, ServerAddress, Timings, TimingsFile, read};
use server::telemetry::metrics::{Metrics, PHASES, Phase};

/// Interval in which progress is printed.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The timings and failures of a file; the defaults without one.
///
/// # Errors
/// When the file cannot be read, or has mistakes.
pub(super) fn timings(file: Option<&Path>) -> Result<TimingsFile> {
    let Some(path) = file else { return Ok(TimingsFile::default()) };
    let text = sources::text_content(path, FILE_LIMIT)
        .with_context(|| format!("cannot read {} (--timings)", path.display()))?;
    format_schemas::check(path, &text, format_schemas::TIMINGS).context("--timings")?;
    read(&text).map_err(|error| anyhow!("{} (--timings): {error}", path.display()))
}

impl ServeArgs {
    /// The settings of the machine controllers, with the address of workload clusters.
    ///
    /// # Errors
    /// When the file of timings cannot be read, or a kind is invalid.
    pub(super) fn lifecycle_settings(&self, endpoint: ServerAddress) -> Result<MachineSettings> {
        let TimingsFile { mut timings, failures, named } = timings(self.timings.as_deref())?;
        if self.embedded && named.is_empty() {
            // A person is waiting.
            timings = Timings::quick();
        }
        // These controllers take their own time.
        let timings = Timings { controllers: Duration::ZERO, ..timings };
        let is_kind = |text: &String| text.chars().next().is_some_and(|first| first.is_ascii_uppercase());
        if let Some(other) = self.external_kinds.iter().find(|text| !is_kind(text)) {
            bail!("--external-kinds: {other:?} is no kind; write it as in manifests, such as DockerMachine");
        }
        let external = self.external_kinds.iter().cloned().collect();
        let provides = if self.embedded { ProvidedKinds::Everything } else { ProvidedKinds::Embedded };
        let runtime_hooks = self.rules.feature_gates.runtime_sdk;
        Ok(MachineSettings {
            timings,
            failures,
            external,
            provides,
            endpoint,
            runtime_hooks,
            ..MachineSettings::default()
        })
    }
}

/// Prints the number of machines in each phase, at most every [`REPORT_INTERVAL`], after changes.
pub(super) async fn report_progress(metrics: Arc<Metrics>) {
    let (mut printed, mut ticks) = (String::new(), tokio::time::interval(REPORT_INTERVAL));
    loop {
        ticks.tick().await;
        let text = machines_text(&metrics);
        if text != printed && (!text.is_empty() || !printed.is_empty()) {
            // Standard output may be closed.
            let mut line = Text::default();
            line.line(format_args!("Machines: {}", if text.is_empty() { "none" } else { &text }));
            let _ = output::text(&line);
            printed = text;
        }
    }
}

/// `3 Running, 1 Pending`; empty without machines.
fn machines_text(metrics: &Metrics) -> String {
    let counted = PHASES.map(|phase| (phase, metrics.machines.get_or_create(&Phase { phase }).get()));
    let some = counted.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(phase, count)| format!("{count} {phase}")).collect::<Vec<_>>().join(", ")
}
