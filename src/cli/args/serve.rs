//! `serve`

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

use super::values::{duration, memory_limit, positive_duration};
use super::{LinkFlags, RuleFlags, certificates, leading};
use crate::cli::named_values::{ENFORCE, LOG_FORMAT, UNKNOWN_IMPACT, named};
use engine::admission::{AdmissionSettings, Enforce};
use engine::impact::UnknownImpact;
use engine::topology::hooks::DeletionGuard;
use model::world::Scope;
use server::telemetry::log::Format;

/// `serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Run an API server in memory with the objects of --load; kubectl connects to it with the written kubeconfig.
    #[arg(long, env = "TOPOLOGIST_EMBEDDED", value_parser = BoolishValueParser::new(), conflicts_with = "kubeconfig")]
    pub embedded: bool,
    /// Files or directories with objects for --embedded.
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "embedded")]
    pub load: Vec<PathBuf>,
    #[command(flatten)]
    pub links: LinkFlags,
    /// Connect to the API server of this kubeconfig.
    #[arg(long, value_name = "FILE", env = "TOPOLOGIST_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server of --embedded. Default: 127.0.0.1:6443. With --embedded, a default port that is in use
    /// is replaced by the next free one.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_API_ADDR")]
    pub api_addr: Option<SocketAddr>,
    /// Address of the API servers of the workload clusters that topologist creates. Default: 0.0.0.0:6444, or
    /// 127.0.0.1:6444 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_WORKLOAD_ADDR")]
    pub workload_addr: Option<SocketAddr>,
    /// IP address by which others reach --workload-addr, for kubeconfigs; in a pod, the address of the pod.
    #[arg(long, value_name = "IP", env = "TOPOLOGIST_WORKLOAD_ADVERTISE_ADDRESS")]
    pub workload_advertise_address: Option<IpAddr>,
    /// Address for admission reviews. Default: 0.0.0.0:9443, or 127.0.0.1:9443 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_WEBHOOK_ADDR")]
    pub webhook_addr: Option<SocketAddr>,
    /// Address for conversion reviews; callers need no client certificate. --webhook-addr serves conversions too,
    /// unless --client-ca is set. Default: 0.0.0.0:9444, or 127.0.0.1:9444 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_CONVERSION_ADDR")]
    pub conversion_addr: Option<SocketAddr>,
    /// Address of /healthz, /readyz and /metrics. Default: 0.0.0.0:8081, or 127.0.0.1:8081 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_ADMIN_ADDR")]
    pub admin_addr: Option<SocketAddr>,
    /// Serving certificate chain in PEM form; reloaded when it changes. Without it, --embedded creates a certificate.
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "TOPOLOGIST_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the serving certificate in PEM form.
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "TOPOLOGIST_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Interval for checking the files of --tls-cert, --tls-key and --client-ca for changes, such as 5s or 500ms.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration,
        env = "TOPOLOGIST_TLS_POLL")]
    pub tls_poll: Duration,
    /// Require a client certificate issued by a CA in this file for admission reviews; reloaded when it changes.
    #[arg(long, value_name = "FILE", env = "TOPOLOGIST_CLIENT_CA")]
    pub client_ca: Option<PathBuf>,
    /// Allowed common name or DNS name of client certificates; may be repeated. Default: any.
    #[arg(
        long = "client-name",
        value_name = "NAME",
        requires = "client_ca",
        value_delimiter = ',',
        env = "TOPOLOGIST_CLIENT_NAME"
    )]
    pub client_names: Vec<String>,
    /// Directory for the kubeconfig and the CA certificate of the webhook, with --embedded.
    #[arg(long, value_name = "DIR", default_value = ".topologist", env = "TOPOLOGIST_STATE_DIR")]
    pub state_dir: PathBuf,
    /// How long to keep accepting requests after the first stop signal. Default: 5s, or 0s with --embedded.
    #[arg(long, value_name = "TIME", value_parser = duration, env = "TOPOLOGIST_SHUTDOWN_GRACE")]
    pub shutdown_grace: Option<Duration>,
    /// Maximum number of open connections for reviews; memory and file descriptors may lower it. At the limit, a new
    /// connection closes an idle one.
    #[arg(long, value_name = "NUMBER", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..),
        env = "TOPOLOGIST_CONNECTIONS")]
    pub connections: u32,
    /// Timeout for a client's TLS handshake, its first request, and the headers of each later request.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_duration,
        env = "TOPOLOGIST_CLIENT_PATIENCE")]
    pub client_patience: Duration,
    /// Idle timeout of connections. Clients should use a shorter one (kube-apiserver: 90s): a request that is sent
    /// while the server closes the connection is lost.
    #[arg(long, value_name = "TIME", default_value = "150s", value_parser = positive_duration,
        env = "TOPOLOGIST_CLIENT_IDLE")]
    pub client_idle: Duration,
    /// Age after which a connection is closed gracefully; it may live up to twice as long.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = positive_duration,
        env = "TOPOLOGIST_CONNECTION_AGE")]
    pub connection_age: Duration,
    /// Memory limit of the process, in bytes or as 512Mi or 1Gi. Bodies of reviews, compiled classes and work in
    /// progress together stay below 60 % of it. Default: the memory limit of the container, or 1Gi without one.
    #[arg(long, value_name = "SIZE", value_parser = memory_limit, env = "TOPOLOGIST_MEMORY_LIMIT")]
    pub memory_limit: Option<usize>,
    /// Whether denials are enforced, or only reported: as warnings, in metrics and in the audit log.
    #[arg(long, value_name = "HOW", default_value = "deny", value_parser = named(ENFORCE), env = "TOPOLOGIST_ENFORCE")]
    pub enforce: Enforce,
    /// How long a review may take to count the machines that an edit replaces; what is not counted by then is
    /// estimated. It includes the check of a Cluster's objects against the schemas of their CustomResourceDefinitions.
    /// 0 switches both off, and every ceiling.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration, env = "TOPOLOGIST_IMPACT_TIME")]
    pub impact_time: Duration,
    /// Watch the templates of ClusterClasses, from which the replaced machines are counted; on with --embedded. The
    /// component `templates` sets it and grants the permissions.
    #[arg(long, env = "TOPOLOGIST_WATCH_TEMPLATES", value_parser = BoolishValueParser::new())]
    pub watch_templates: bool,
    /// Deny edits that replace or remove more machines than this, unless the edited object carries the annotation
    /// topologist.dev/approved-impact. A ClusterClass may set a lower number.
    #[arg(long, value_name = "NUMBER", env = "TOPOLOGIST_MAX_REPLACED_MACHINES")]
    pub max_replaced_machines: Option<u32>,
    /// How machines count against the ceiling whose number is not known: bound counts all machines of the Clusters that
    /// cannot be computed, warn counts none of them and warns.
    #[arg(long, value_name = "HOW", default_value = "bound", value_parser = named(UNKNOWN_IMPACT),
        env = "TOPOLOGIST_IMPACT_UNKNOWN")]
    pub impact_unknown: UnknownImpact,
    /// Whether topologist creates, upgrades and deletes machines, as Cluster API's machine controllers do; auto means
    /// only with --embedded. With --embedded it also does what providers do; elsewhere only for the kinds of the
    /// embedded provider.
    #[arg(long, value_name = "WHEN", default_value = "auto", env = "TOPOLOGIST_LIFECYCLE")]
    pub lifecycle: Lifecycle,
    /// Kinds that another controller manages, such as your own provider: Kind or Kind.group.
    #[arg(long, value_name = "KIND", value_delimiter = ',', num_args = 1.., env = "TOPOLOGIST_EXTERNAL_KINDS")]
    pub external_kinds: Vec<String>,
    /// File with the time that the parts of a rollout take, and with failures (docs/machines.md).
    #[arg(long, value_name = "FILE", env = "TOPOLOGIST_TIMINGS")]
    pub timings: Option<PathBuf>,
    /// Watch these namespaces only, each given as a name or as a prefix and *. For a single name, a Role is enough.
    #[arg(long = "namespace", value_name = "NS", value_delimiter = ',', env = "TOPOLOGIST_NAMESPACE")]
    pub namespaces: Vec<String>,
    /// Watch only objects whose label cluster.x-k8s.io/watch-filter has this value.
    ///
    /// This divides work between installations and is not a security boundary: a user who may write an object may set
    /// or remove its label, and the webhook allows objects without the label unchecked. Use --namespace and RBAC for
    /// tenants.
    #[arg(long, value_name = "VALUE", env = "TOPOLOGIST_WATCH_FILTER")]
    pub watch_filter: Option<String>,
    /// Log format.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOPOLOGIST_LOG_FORMAT",
        value_parser = named(LOG_FORMAT))]
    pub log_format: Format,
    /// Log filter: a level, or module=level pairs. Default: info; with --embedded on a terminal, RUST_LOG or warn.
    #[arg(long, value_name = "FILTER", env = "TOPOLOGIST_LOG")]
    pub log: Option<String>,
    #[command(flatten)]
    pub certificates: certificates::CertificateFlags,
    #[command(flatten)]
    pub leading: leading::ControllerFlags,
    #[command(flatten)]
    pub rules: RuleFlags,
}

impl ServeArgs {
    /// The namespaces and the label value to which --namespace and --watch-filter limit the server (DEC-37).
    pub fn scope(&self) -> Result<Scope> {
        Scope::new(&self.namespaces, self.watch_filter.clone()).map_err(|reason| anyhow!("--namespace: {reason}"))
    }

    pub fn settings(&self) -> AdmissionSettings {
        AdmissionSettings { enforce: self.enforce, lifecycle: self.drives_machines(), ..self.rules.settings() }
    }

    /// Checks flags that depend on each other.
    ///
    /// # Errors
    /// When a flag lacks another one, or is no valid scope.
    pub fn check(&self) -> Result<()> {
        self.certificates.check()?;
        self.check_ceiling()?;
        self.scope().map(drop)
    }

    /// A ceiling needs the count of replaced machines.
    fn check_ceiling(&self) -> Result<()> {
        ensure!(
            self.max_replaced_machines.is_none() || !self.impact_time.is_zero(),
            "--max-replaced-machines needs the count of machines that --impact-time 0 switches off; leave one of them \
             out"
        );
        Ok(())
    }

    /// Whether the templates of ClusterClasses are watched (DEC-57).
    pub fn watches_templates(&self) -> bool {
        self.watch_templates || self.embedded
    }

    /// Whether topologist manages machines, so that their kinds get defaults and are validated.
    pub fn drives_machines(&self) -> bool {
        match self.lifecycle {
            Lifecycle::Auto => self.embedded,
            Lifecycle::On => true,
            Lifecycle::Off => false,
        }
    }

    /// The guard of the objects of a Cluster that is being deleted until its hooks have passed (DEC-56). Cluster API's
    /// core, which does not wait once topologist has taken over, does not delete a Cluster with a hold.
    pub fn deletion_guard(&self) -> DeletionGuard {
        let gates = self.rules.feature_gates;
        let controllers = self.leading.chosen(self.is_in_pod() || self.embedded);
        let calls_hooks = controllers.topologies && gates.cluster_topology && gates.runtime_sdk;
        match self.enforce {
            _ if !self.leading.take_over || self.drives_machines() || !calls_hooks => DeletionGuard::Controller,
            Enforce::Warn => DeletionGuard::Nothing,
            Enforce::Deny => DeletionGuard::Hold,
        }
    }

    /// Whether the API server of the pod's own cluster is used. Nothing else is inferred from this
    /// (`FactSource::from_options`).
    pub fn is_in_pod(&self) -> bool {
        self.kubeconfig.is_none() && !self.embedded
    }
}

/// When topologist manages machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lifecycle {
    /// Only with --embedded.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}
