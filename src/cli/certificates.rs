//! `serve --manage-certificates`: what is managed, under which names, and for how long.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use tokio::task::JoinSet;

use super::args::{life, object_name};
use super::leading::Leading;
use super::serve::supervise;
use crate::certificates::bundles::Services;
use crate::certificates::rotation::Policy;
use crate::certificates::self_managed::{Names, SelfManaged};
use crate::certificates::tls::Identity;
use crate::telemetry::metrics::Metrics;

/// Flags of `serve` about certificates that it makes itself.
#[derive(Debug, Args)]
#[group(id = "certificates")]
pub struct Flags {
    /// Make and renew the serving certificate and its authority, in one Secret, and keep the caBundles current.
    #[arg(
        long,
        env = "TOPOLOGIST_MANAGE_CERTIFICATES",
        value_parser = BoolishValueParser::new(),
        conflicts_with_all = ["tls_cert", "embedded"]
    )]
    pub manage_certificates: bool,
    /// The Secret of --manage-certificates, in the namespace of the Lease.
    #[arg(long, value_name = "NAME", default_value = "topologist-certificates", value_parser = object_name, env = "TOPOLOGIST_CERTIFICATE_SECRET")]
    pub certificate_secret: String,
    /// The Service that the webhook configurations call, in that namespace.
    #[arg(long, value_name = "NAME", default_value = "topologist", value_parser = object_name, env = "TOPOLOGIST_WEBHOOK_SERVICE")]
    pub webhook_service: String,
    /// The Service that conversions call, in that namespace.
    #[arg(long, value_name = "NAME", default_value = "topologist-conversion", value_parser = object_name, env = "TOPOLOGIST_CONVERSION_SERVICE")]
    pub conversion_service: String,
    /// The MutatingWebhookConfiguration and ValidatingWebhookConfiguration whose caBundles are kept current.
    #[arg(long, value_name = "NAME", default_value = "topologist", value_parser = object_name, env = "TOPOLOGIST_WEBHOOK_CONFIGURATIONS")]
    pub webhook_configurations: String,
    /// How long serving certificates are valid; they are renewed after two thirds of it.
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = life, env = "TOPOLOGIST_CERTIFICATE_LIFETIME")]
    pub certificate_lifetime: Duration,
    /// How long authorities are valid; they are renewed after two thirds of it. At least twice --certificate-lifetime.
    #[arg(long, value_name = "TIME", default_value = "1825d", value_parser = life, env = "TOPOLOGIST_CA_LIFETIME")]
    pub ca_lifetime: Duration,
}

impl Flags {
    /// Checks what the flags say together.
    ///
    /// # Errors
    /// When an authority would not outlive its certificates.
    pub(super) fn check(&self) -> Result<()> {
        if self.ca_lifetime < self.certificate_lifetime * 2 {
            bail!("--ca-lifetime must be at least twice as long as --certificate-lifetime");
        }
        Ok(())
    }

    fn names(&self, namespace: String) -> Names {
        Names {
            secret: self.certificate_secret.clone(),
            configurations: self.webhook_configurations.clone(),
            services: Services {
                namespace,
                webhook: self.webhook_service.clone(),
                conversion: self.conversion_service.clone(),
            },
        }
    }
}

/// Shows what the Secret holds, and makes it whenever this process leads.
pub(super) fn start(
    flags: &Flags,
    client: &kube::Client,
    leading: &Leading,
    identity: Arc<Identity>,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<&'static str>,
) -> Arc<SelfManaged> {
    let names = flags.names(leading.namespace.clone());
    let policy = Policy { certificate: flags.certificate_lifetime, authority: flags.ca_lifetime, names: names.hosts() };
    let managed = SelfManaged::new(client.clone(), names, policy, identity, metrics.clone());
    supervise(tasks, "the watch of the certificate Secret", managed.clone().follow());
    supervise(tasks, "the management of certificates", managed.clone().manage(leading.leadership.clone()));
    managed
}
