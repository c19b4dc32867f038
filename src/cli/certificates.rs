//! `serve --manage-certificates`: the managed objects, the names in certificates, and their validity.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::args::certificates::CertificateFlags;
use super::leading::Leading;
use super::tasks::supervise;
use server::certificates::bundles::Services;
use server::certificates::rotation::Policy;
use server::certificates::self_managed::{InstallationNames, SelfManaged};
use server::telemetry::metrics::Metrics;
use tls::identity::ServerIdentity;

impl CertificateFlags {
    fn names(&self, namespace: String) -> InstallationNames {
        InstallationNames {
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

/// Presents the certificate of the Secret, and manages the Secret whenever this process leads.
pub(super) fn start(
    flags: &CertificateFlags,
    client: &kube::Client,
    leading: &Leading,
    identity: Arc<ServerIdentity>,
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
