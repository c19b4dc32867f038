//! Flags of `serve` about leader election and the controllers.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;

use super::ArgumentError;
use super::values::{lease_duration, namespace, object_name, positive_duration};
use server::extension_client::IdentityFiles;

/// Flags of `serve` about controllers.
#[derive(Debug, Args)]
pub struct ControllerFlags {
    /// Controllers to run: none, all, or a comma-separated list of clusterclass, topology and topology-templates.
    /// Default: all in a pod and with --embedded, else none.
    #[arg(long, value_name = "LIST", env = "TOPOLOGIST_CONTROLLERS")]
    pub controllers: Option<Controllers>,
    /// Run controllers although Cluster API's core controllers hold their Lease.
    ///
    /// Use this only if Cluster API runs with the feature gate ClusterTopology=false. Otherwise two controllers write
    /// the same objects.
    #[arg(long, env = "TOPOLOGIST_TAKE_OVER", value_parser = BoolishValueParser::new())]
    pub take_over: bool,
    /// How long a Cluster that is not being deleted keeps the hold on its deletion, with --take-over. Another webhook
    /// may have denied the deletion that the hold was written for.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = positive_duration,
        env = "TOPOLOGIST_DELETION_HOLD_TIME")]
    pub deletion_hold_time: Duration,
    /// The Lease whose holder runs the controllers and manages certificates.
    #[arg(long, value_name = "NAME", default_value = "topologist", value_parser = object_name,
        env = "TOPOLOGIST_LEASE_NAME")]
    pub lease_name: String,
    /// Namespace of the Lease. Default: the namespace of the pod, or topologist-system outside a pod.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, env = "TOPOLOGIST_LEASE_NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// Duration of the Lease after a renewal. A leader that stops responding is replaced within this time and two
    /// seconds.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = lease_duration,
        env = "TOPOLOGIST_LEASE_DURATION")]
    pub lease_duration: Duration,
    /// Number of Clusters that are reconciled in parallel.
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..),
        env = "TOPOLOGIST_TOPOLOGY_CONCURRENCY")]
    pub topology_concurrency: u16,
    /// Certificate in PEM form that Runtime Extensions are shown if they ask for one. It is read again when the file
    /// changes.
    #[arg(long, value_name = "FILE", requires = "extension_client_key", env = "TOPOLOGIST_EXTENSION_CLIENT_CERT")]
    pub extension_client_cert: Option<PathBuf>,
    /// Private key of --extension-client-cert in PEM form.
    #[arg(long, value_name = "FILE", requires = "extension_client_cert", env = "TOPOLOGIST_EXTENSION_CLIENT_KEY")]
    pub extension_client_key: Option<PathBuf>,
}

/// A choice of controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// The status of ClusterClasses, and who owns their templates.
    pub classes: bool,
    /// What the topologies of Clusters ask for.
    pub topologies: bool,
    /// Templates of machines that no topology uses any more.
    pub templates: bool,
}

impl Controllers {
    pub const ALL: Controllers = Controllers { classes: true, topologies: true, templates: true };
    pub const NONE: Controllers = Controllers { classes: false, topologies: false, templates: false };
}

impl FromStr for Controllers {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        match text.trim() {
            "all" => return Ok(Controllers::ALL),
            "none" => return Ok(Controllers::NONE),
            _ => {}
        }
        let mut chosen = Controllers::NONE;
        for name in text.split(',').map(str::trim) {
            match name {
                "clusterclass" => chosen.classes = true,
                "topology" => chosen.topologies = true,
                "topology-templates" => chosen.templates = true,
                _ => return Err(ArgumentError::Controller(name.to_owned())),
            }
        }
        Ok(chosen)
    }
}

impl ControllerFlags {
    /// The files of the certificate that extensions are shown.
    pub fn extension_identity(&self) -> Option<IdentityFiles> {
        let files = self.extension_client_cert.clone().zip(self.extension_client_key.clone());
        files.map(|(certificate, key)| IdentityFiles { certificate, key })
    }

    /// The controllers to run.
    pub fn chosen(&self, has_own_server: bool) -> Controllers {
        self.controllers.unwrap_or(if has_own_server { Controllers::ALL } else { Controllers::NONE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_by_name() {
        for (text, want) in [
            ("none", Some(Controllers::NONE)),
            ("all", Some(Controllers::ALL)),
            ("clusterclass", Some(Controllers { classes: true, ..Controllers::NONE })),
            (" topology , topology", Some(Controllers { topologies: true, ..Controllers::NONE })),
            ("topology-templates", Some(Controllers { templates: true, ..Controllers::NONE })),
            ("clusterclass,topology,topology-templates", Some(Controllers::ALL)),
            ("", None),
            ("clusterclass,", None),
            ("all,clusterclass", None),
            ("cluster", None),
        ] {
            assert_eq!(text.parse::<Controllers>().ok(), want, "{text:?}");
        }
    }
}
