//! What a person at a terminal sees when the server is ready.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::listeners::Listeners;
use crate::cli::embedded::{self, LoadedContents};
use crate::cli::machines;
use crate::cli::output::{self, Text};
use crate::cli::status_line::StatusLine;
use server::telemetry::metrics::Metrics;
use server::webhook::probes::Health;

/// Prints the announcement; with --embedded once everything is ready.
/// On a terminal, the machines of the embedded API follow.
pub(super) async fn greet(
    health: Arc<Health>,
    embedded: Option<Arc<Metrics>>,
    progress: StatusLine,
    announcement: Text,
) {
    if embedded.is_some() {
        until_ready(&health).await;
    }
    drop(progress);
    // Standard output may be closed.
    let _ = output::text(&announcement);
    if let Some(metrics) = embedded.filter(|_| output::is_terminal()) {
        machines::report_progress(metrics).await;
    }
}

/// Waits until the embedded objects are listed, which takes a moment, so that the first review is answered like any
/// other.
async fn until_ready(health: &Health) {
    let ready = async {
        while health.ready().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // What keeps it from being ready is in the log.
    let _ = tokio::time::timeout(Duration::from_secs(5), ready).await;
}

/// What a person at a terminal should know.
pub(super) struct Announcement<'a> {
    server: &'a str,
    webhook: SocketAddr,
    /// Where the CA certificate is, if one was made.
    authority: Option<&'a str>,
    /// The API of --embedded: its address, its kubeconfig, and what it began with.
    api: Option<(SocketAddr, PathBuf, &'a LoadedContents)>,
    /// Which default ports were in use.
    moved: &'a [String],
}

impl<'a> Announcement<'a> {
    pub(super) fn new(server: &'a str, listeners: &'a Listeners, authority: Option<&'a str>) -> Self {
        let Listeners { addresses, api, moved, .. } = listeners;
        let api = api.as_ref().map(|api| (api.address, api.kubeconfig.clone(), &api.loaded));
        Announcement { server, webhook: addresses.reviews, authority, api, moved }
    }
}

impl Announcement<'_> {
    pub(super) fn text(&self) -> Text {
        let Announcement { server, webhook, authority, api, moved } = self;
        let mut text = Text::default();
        match api {
            None => text.line(format_args!("topologist answers reviews at https://{webhook} and follows {server}")),
            Some((address, kubeconfig, contents)) => {
                let LoadedContents { classes, clusters, .. } = contents;
                let count = format_args!("(ClusterClasses: {classes}, Clusters: {clusters})");
                text.line(format_args!("topologist answers reviews at https://{webhook} {count}"));
                moved.iter().for_each(|note| text.line(format_args!("{note}.")));
                contents.files_line().into_iter().for_each(|line| text.line(line));
                embedded::add_usage(&mut text, kubeconfig, *address);
            }
        }
        if let Some(authority) = authority {
            let port = webhook.port();
            text.line("Send it a review:");
            text.line("");
            text.line(format_args!("  curl --cacert {authority} --data-binary @fixtures/quick-start/review.json \\"));
            text.line(format_args!("    https://localhost:{port}/validate-cluster-x-k8s-io-v1beta2-cluster"));
            text.line("");
        }
        text
    }
}
