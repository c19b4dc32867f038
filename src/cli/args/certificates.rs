//! Flags of `serve` about certificates that it makes itself.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::BoolishValueParser;

use super::values::{life, object_name};

/// Flags of `serve` about certificates that it makes itself.
#[derive(Debug, Args)]
#[group(id = "certificates")]
pub struct CertificateFlags {
    /// Create and renew the serving certificate and its CA in a Secret, and update the caBundles.
    #[arg(
        long,
        env = "TOPOLOGIST_MANAGE_CERTIFICATES",
        value_parser = BoolishValueParser::new(),
        conflicts_with_all = ["tls_cert", "embedded"]
    )]
    pub manage_certificates: bool,
    /// The Secret of --manage-certificates, in the namespace of the Lease.
    #[arg(long, value_name = "NAME", default_value = "topologist-certificates", value_parser = object_name,
        env = "TOPOLOGIST_CERTIFICATE_SECRET")]
    pub certificate_secret: String,
    /// The Service that the webhook configurations call, in the namespace of the Lease.
    #[arg(long, value_name = "NAME", default_value = "topologist", value_parser = object_name,
        env = "TOPOLOGIST_WEBHOOK_SERVICE")]
    pub webhook_service: String,
    /// The Service that conversions call, in the namespace of the Lease.
    #[arg(long, value_name = "NAME", default_value = "topologist-conversion", value_parser = object_name,
        env = "TOPOLOGIST_CONVERSION_SERVICE")]
    pub conversion_service: String,
    /// The MutatingWebhookConfiguration and ValidatingWebhookConfiguration whose caBundles are updated.
    #[arg(long, value_name = "NAME", default_value = "topologist", value_parser = object_name,
        env = "TOPOLOGIST_WEBHOOK_CONFIGURATIONS")]
    pub webhook_configurations: String,
    /// Validity of serving certificates; they are renewed after two thirds of it.
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = life,
        env = "TOPOLOGIST_CERTIFICATE_LIFETIME")]
    pub certificate_lifetime: Duration,
    /// Validity of CA certificates; they are renewed after two thirds of it. At least twice --certificate-lifetime.
    #[arg(long, value_name = "TIME", default_value = "1825d", value_parser = life, env = "TOPOLOGIST_CA_LIFETIME")]
    pub ca_lifetime: Duration,
}

impl CertificateFlags {
    /// Checks what the flags say together.
    ///
    /// # Errors
    /// When an authority would not outlive its certificates.
    pub fn check(&self) -> Result<()> {
        if self.ca_lifetime < self.certificate_lifetime * 2 {
            bail!("--ca-lifetime must be at least twice as long as --certificate-lifetime");
        }
        Ok(())
    }
}
