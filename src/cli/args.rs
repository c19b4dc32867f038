//! Arguments. The flags of `serve` that take one value have an environment variable: `--webhook-addr` is
//! `TOPOLOGIST_WEBHOOK_ADDR`.

pub mod certificates;
pub mod extensions;
mod input;
pub mod leading;
pub(super) mod values;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::builder::BoolishValueParser;
use clap::{ArgGroup, Args, ColorChoice, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::memory;
use super::named_values::{DEPENDENTS, DEPRECATED, ENFORCE, LOG_FORMAT, UNKNOWN_IMPACT, named};
use ::server::telemetry::log::Format;
use engine::admission::{Dependents, Deprecated, Enforce, FeatureGates, Settings};
use engine::impact::UnknownImpact;
use engine::topology::hooks::DeletionGuard;
pub use input::{Input, Links, Variables};
use model::hub::{LabelRequirements, ObjectKey};
use model::world::Scope;
pub use values::{ClusterPattern, KindAndName};
use values::{cluster_pattern, duration, kind_and_name, label_selector, moment, object_key, positive_duration};

/// Validates and reconciles Cluster API managed topologies.
#[derive(Debug, Parser)]
#[command(name = "topologist", version, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve admission webhooks over HTTPS and run controllers.
    ///
    /// Outside a pod, use --embedded for an API server in memory, or --kubeconfig to connect to an API server.
    Serve(Box<Serve>),
    /// Validate Clusters and ClusterClasses in files as the API server and the webhook would.
    ///
    /// Only objects in the files exist: a Cluster must find its class in them. A version change is checked against the control
    /// plane, MachineDeployments, Machines, MachinePools and Nodes in the files. With --old, an object in both sets is an
    /// update, and an object in the old files only is a deletion.
    ///
    /// Exit code: 0 all objects allowed, 1 an object is denied, 2 wrong usage, unreadable input, or nothing to validate.
    Validate(Validate),
    /// Print the objects in files with the defaults that the mutating webhook sets.
    ///
    /// Exit code: 0 printed, 1 an object is denied and nothing is printed, 2 wrong usage, unreadable input, or no Cluster and no
    /// ClusterClass.
    Default(Default),
    /// Print every object that the topologies in files define, as YAML.
    ///
    /// The suffixes of generated names depend on the Cluster and the object only, so the same files give the same output.
    ///
    /// Exit code: 0 printed, 1 an object is denied or cannot be computed, 2 wrong usage, unreadable input, or nothing to render.
    Render(Render),
    /// Show what a change does to every Cluster: which objects change, why, and which machines are replaced.
    ///
    /// The plan assumes that the files of --from are fully rolled out, unless they contain the current objects, and that
    /// providers finish at once. It therefore covers the whole rollout.
    ///
    /// Exit code: 0 no change, 1 the change is denied, cannot be computed or would be refused by the API server, 2 wrong usage, unreadable input, or nothing to plan,
    /// 3 objects change in place or are new, 4 machines are replaced or removed, 5 objects are deleted. The highest of 3, 4 and 5
    /// that applies is used.
    Plan(Plan),
    /// Roll Clusters out on a virtual clock, and print what happens when.
    ///
    /// Exit code: 0 every Cluster is as it should be at the end, 1 one is not, or is denied, 2 wrong usage or unreadable input.
    Simulate(Simulate),
    /// Check the CustomResourceDefinitions and roles of a provider against the contract of Cluster API.
    ///
    /// Definitions are checked together: a template is compared with the definition of the objects that are made from it, and a
    /// ClusterRole must grant access to groups that Cluster API does not know. With --live nothing is read from files: objects in a
    /// running cluster are followed.
    ///
    /// Exit code: 0 no error, 1 an error was found, 2 wrong usage, unreadable input, or no definition of a provider.
    CheckProvider(CheckProvider),
    /// Call Runtime Extensions as the controllers would, and check that they behave as callers expect.
    ///
    /// The classes in --files decide which requests the handlers of patches get; each is sent again with changes, such as a
    /// variable that is missing. Handlers of lifecycle hooks are not called, because they may have side effects.
    ///
    /// Exit code: 0 no error, 1 an error was found, 2 wrong usage, unreadable input, or an extension whose Discovery fails.
    CheckExtension(Box<CheckExtension>),
    /// Print the CustomResourceDefinitions of Cluster API and of the embedded provider as YAML.
    Crds(Crds),
    /// Create a development CA and a serving certificate.
    Certs(Certs),
    /// Print a completion script for a shell.
    Completions(Completions),
}

/// Switches of the admission rules.
#[derive(Clone, Debug, Args)]
pub struct Rules {
    /// Feature gates, as Gate=true,Gate=false; the default names them all.
    #[arg(long, value_name = "GATES", default_value_t, env = "TOPOLOGIST_FEATURE_GATES")]
    pub feature_gates: FeatureGates,
    /// Minimum node startup timeout of a health check in seconds; 0 in the health check is always allowed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(i32).range(0..), env = "TOPOLOGIST_MINIMUM_NODE_STARTUP_TIMEOUT")]
    pub minimum_node_startup_timeout: i32,
    /// How to treat a class change that breaks variables of existing Clusters.
    #[arg(long, value_name = "WHAT", default_value = "deny", value_parser = named(DEPENDENTS), env = "TOPOLOGIST_DEPENDENTS")]
    pub dependents: Dependents,
    /// Deny new Clusters that set infrastructureRef or controlPlaneRef together with a topology, instead of warning.
    #[arg(long, env = "TOPOLOGIST_REFUSE_REFS_WITH_TOPOLOGY", value_parser = BoolishValueParser::new())]
    pub refuse_refs_with_topology: bool,
    /// How to treat a Cluster that sets variables, or parts of them, that its ClusterClass marks as deprecated.
    #[arg(long, value_name = "WHAT", default_value = "warn", value_parser = named(DEPRECATED), env = "TOPOLOGIST_DEPRECATED")]
    pub deprecated: Deprecated,
    /// Maximum size of the topology of one Cluster, in bytes or as 512Ki or 64Mi: the bytes of all objects, each as large as its template,
    /// and of the variables that patches see. A larger one is not computed; a Cluster that needs it is invalid. In a server, the memory
    /// limit may lower it.
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = memory::bytes, env = "TOPOLOGIST_COMPUTATION_LIMIT")]
    pub computation_limit: usize,
}

impl Rules {
    /// The settings of the rules.
    pub fn settings(&self) -> Settings {
        Settings {
            gates: self.feature_gates,
            minimum_node_startup_timeout_seconds: self.minimum_node_startup_timeout,
            dependents: self.dependents,
            refuse_refs_with_topology: self.refuse_refs_with_topology,
            deprecated: self.deprecated,
            computation_limit: self.computation_limit,
            ..Settings::default()
        }
    }
}

/// The ceiling of a server (DEC-53).
#[derive(Clone, Debug, Args)]
pub struct CeilingFlag {
    /// Report edits that replace or remove more machines than this as denied, as serve does with the same flag. The annotation
    /// topologist.dev/max-replaced-machines of a ClusterClass may set a lower number.
    #[arg(long, value_name = "NUMBER")]
    pub max_replaced_machines: Option<u32>,
}

/// `serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// Run an API server in memory with the objects of --load; kubectl connects to it with the written kubeconfig.
    #[arg(long, env = "TOPOLOGIST_EMBEDDED", value_parser = BoolishValueParser::new(), conflicts_with = "kubeconfig")]
    pub embedded: bool,
    /// Files or directories with objects for --embedded.
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "embedded")]
    pub load: Vec<PathBuf>,
    #[command(flatten)]
    pub links: Links,
    /// Connect to the API server of this kubeconfig.
    #[arg(long, value_name = "FILE", env = "TOPOLOGIST_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server of --embedded. Default: 127.0.0.1:6443. With --embedded, a default port that is in use is replaced
    /// by the next free one.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_API_ADDR")]
    pub api_addr: Option<SocketAddr>,
    /// Address of the API servers of the workload clusters that topologist creates. Default: 0.0.0.0:6444, or 127.0.0.1:6444 with
    /// --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_WORKLOAD_ADDR")]
    pub workload_addr: Option<SocketAddr>,
    /// IP address by which others reach --workload-addr, for kubeconfigs; in a pod, the address of the pod.
    #[arg(long, value_name = "IP", env = "TOPOLOGIST_WORKLOAD_ADVERTISE_ADDRESS")]
    pub workload_advertise_address: Option<IpAddr>,
    /// Address for admission reviews. Default: 0.0.0.0:9443, or 127.0.0.1:9443 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_WEBHOOK_ADDR")]
    pub webhook_addr: Option<SocketAddr>,
    /// Address for conversion reviews; callers need no client certificate. --webhook-addr serves conversions too, unless
    /// --client-ca is set. Default: 0.0.0.0:9444, or 127.0.0.1:9444 with --embedded.
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
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration, env = "TOPOLOGIST_TLS_POLL")]
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
    /// Maximum number of open connections for reviews; memory and file descriptors may lower it. At the limit, a new connection
    /// closes an idle one.
    #[arg(long, value_name = "NUMBER", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..), env = "TOPOLOGIST_CONNECTIONS")]
    pub connections: u32,
    /// Timeout for a client's TLS handshake, its first request, and the headers of each later request.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_duration, env = "TOPOLOGIST_CLIENT_PATIENCE")]
    pub client_patience: Duration,
    /// Idle timeout of connections. Clients should use a shorter one (kube-apiserver: 90s): a request that is sent while the
    /// server closes the connection is lost.
    #[arg(long, value_name = "TIME", default_value = "150s", value_parser = positive_duration, env = "TOPOLOGIST_CLIENT_IDLE")]
    pub client_idle: Duration,
    /// Age after which a connection is closed gracefully; it may live up to twice as long.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = positive_duration, env = "TOPOLOGIST_CONNECTION_AGE")]
    pub connection_age: Duration,
    /// Memory limit of the process, in bytes or as 512Mi or 1Gi. Bodies of reviews, compiled classes and work in progress
    /// together stay below 60 % of it. Default: the memory limit of the container, or 1Gi without one.
    #[arg(long, value_name = "SIZE", value_parser = memory::size, env = "TOPOLOGIST_MEMORY_LIMIT")]
    pub memory_limit: Option<usize>,
    /// Whether denials are enforced, or only reported: as warnings, in metrics and in the audit log.
    #[arg(long, value_name = "HOW", default_value = "deny", value_parser = named(ENFORCE), env = "TOPOLOGIST_ENFORCE")]
    pub enforce: Enforce,
    /// How long a review may take to count the machines that an edit replaces; what is not counted by then is estimated. It
    /// includes the check of a Cluster's objects against the schemas of their CustomResourceDefinitions. 0 switches both off, and every
    /// ceiling.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration, env = "TOPOLOGIST_IMPACT_TIME")]
    pub impact_time: Duration,
    /// Watch the templates of ClusterClasses, from which the replaced machines are counted; on with --embedded. The component
    /// `templates` sets it and grants the permissions.
    #[arg(long, env = "TOPOLOGIST_WATCH_TEMPLATES", value_parser = BoolishValueParser::new())]
    pub watch_templates: bool,
    /// Deny edits that replace or remove more machines than this, unless the edited object carries the annotation
    /// topologist.dev/approved-impact. A ClusterClass may set a lower number.
    #[arg(long, value_name = "NUMBER", env = "TOPOLOGIST_MAX_REPLACED_MACHINES")]
    pub max_replaced_machines: Option<u32>,
    /// How machines count against the ceiling whose number is not known: bound counts all machines of the Clusters that cannot be
    /// computed, warn counts none of them and warns.
    #[arg(long, value_name = "HOW", default_value = "bound", value_parser = named(UNKNOWN_IMPACT), env = "TOPOLOGIST_IMPACT_UNKNOWN")]
    pub impact_unknown: UnknownImpact,
    /// Whether topologist creates, upgrades and deletes machines, as Cluster API's machine controllers do; auto means only with
    /// --embedded. With --embedded it also does what providers do; elsewhere only for the kinds of the embedded provider.
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
    /// This divides work between installations and is not a security boundary: a user who may write an object may set or
    /// remove its label, and the webhook allows objects without the label unchecked. Use --namespace and RBAC for tenants.
    #[arg(long, value_name = "VALUE", env = "TOPOLOGIST_WATCH_FILTER")]
    pub watch_filter: Option<String>,
    /// Log format.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOPOLOGIST_LOG_FORMAT", value_parser = named(LOG_FORMAT))]
    pub log_format: Format,
    /// Log filter: a level, or module=level pairs. Default: info; with --embedded on a terminal, RUST_LOG or warn.
    #[arg(long, value_name = "FILTER", env = "TOPOLOGIST_LOG")]
    pub log: Option<String>,
    #[command(flatten)]
    pub certificates: certificates::Flags,
    #[command(flatten)]
    pub leading: leading::Flags,
    #[command(flatten)]
    pub rules: Rules,
}

impl Serve {
    /// The namespaces and the label value to which --namespace and --watch-filter limit the server (DEC-37).
    pub fn scope(&self) -> Result<Scope> {
        Scope::new(&self.namespaces, self.watch_filter.clone()).map_err(|reason| anyhow!("--namespace: {reason}"))
    }

    pub fn settings(&self) -> Settings {
        Settings { enforce: self.enforce, lifecycle: self.drives_machines(), ..self.rules.settings() }
    }

    /// A ceiling needs the count of replaced machines.
    ///
    /// # Errors
    /// When there is a ceiling and no count.
    pub fn check_ceiling(&self) -> Result<()> {
        ensure!(
            self.max_replaced_machines.is_none() || !self.impact_time.is_zero(),
            "--max-replaced-machines needs the count of machines that --impact-time 0 switches off; leave one of them out"
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

    /// What keeps the objects of a Cluster that is being deleted until its hooks have passed (DEC-56). Cluster API's core, which does not
    /// wait once topologist has taken over, leaves a Cluster with a hold alone.
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

    /// Whether the API server of the pod's own cluster is used. Nothing else is inferred from this (`Source::of`).
    pub fn is_in_pod(&self) -> bool {
        self.kubeconfig.is_none() && !self.embedded
    }
}

/// `simulate`
#[derive(Debug, Args)]
#[command(
    override_usage = "topologist simulate [OPTIONS] <PATH>... [--to <PATH>...]\n       topologist simulate [OPTIONS] --live [--to <PATH>...]"
)]
pub struct Simulate {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input. A Cluster with a uid whose
    /// objects are in the files runs already: the simulation starts from them.
    #[arg(value_name = "PATH", required_unless_present = "live")]
    pub paths: Vec<PathBuf>,
    /// Start from the objects of a running management cluster instead of files; nothing is written to it. The files of --to then
    /// contain the objects to apply; all other objects stay.
    #[arg(long, conflicts_with = "paths")]
    pub live: bool,
    /// Kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "paths")]
    pub kubeconfig: Option<PathBuf>,
    /// Files or directories with the desired state; may be repeated. New Clusters of PATH are rolled out first, and the output is about
    /// the change from PATH to these files. Without --to, the output is about the rollout of PATH.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub to: Vec<PathBuf>,
    /// Clusters to simulate, as namespace/name or a pattern with * and ?, such as prod/* or */blue; may be repeated. A name without
    /// a namespace is in the namespace default. Default: all.
    #[arg(long = "cluster", value_name = "PATTERN", value_parser = cluster_pattern)]
    pub clusters: Vec<ClusterPattern>,
    /// Simulate only Clusters that match this label selector, such as env=prod,tier in (a,b),!canary.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = label_selector)]
    pub selector: Option<LabelRequirements>,
    /// File with the time that the parts of a rollout take, and with failures (docs/machines.md). Its times win over those of
    /// spec.backend.inMemory.
    #[arg(long, value_name = "FILE")]
    pub timings: Option<PathBuf>,
    /// Stop after this virtual time, such as 48h. Clusters that are not done by then are reported as stuck.
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = duration)]
    pub limit: Duration,
    /// Stop after this time of the machine on which the command runs, such as 2m. Clusters that are not done by then are reported as stuck,
    /// so the result depends on how fast the machine is. Default: no limit.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub time_limit: Option<Duration>,
    /// Time at which the simulation starts, in RFC 3339 format; rollout.after replaces machines once this time has come. Times in the
    /// output count from the start. Default: the start of the simulation that --record wrote, if --extension names its file, and
    /// now otherwise.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub now: Option<Timestamp>,
    /// Write a page with a chart of each group of Clusters to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the Clusters at the end, with their objects, to this file as YAML.
    #[arg(long, value_name = "FILE")]
    pub objects: Option<PathBuf>,
    /// List all Clusters of each group and every event. Without it, text output lists 20 Clusters per group and combines the events of
    /// machines.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub extensions: extensions::Extensions,
    #[command(flatten)]
    pub hooks: extensions::Hooks,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
    #[command(flatten)]
    pub rules: Rules,
}

/// `check-provider`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("provider").args(["paths", "live"]).required(true),
    override_usage = "topologist check-provider [OPTIONS] <PATH>...\n       topologist check-provider [OPTIONS] --live <KIND[/NAME]>"
)]
pub struct CheckProvider {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input, with what the provider installs.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Follow objects of a provider in a running cluster instead, and say which rules their changes keep or break: one object, or
    /// all of a kind. KIND is a kind or a resource, such as DockerMachine or dockermachines.infrastructure.cluster.x-k8s.io. Nothing is
    /// written.
    #[arg(long, value_name = "KIND[/NAME]", value_parser = kind_and_name)]
    pub live: Option<KindAndName>,
    /// Namespace of the objects of --live. Default: default for one object, and all namespaces for a kind.
    #[arg(short, long, value_name = "NAMESPACE", requires = "live", conflicts_with = "paths")]
    pub namespace: Option<String>,
    /// Stop after this time, such as 30m. Default: when the object is gone, or with Ctrl-C.
    #[arg(long = "for", value_name = "TIME", requires = "live", conflicts_with = "paths", value_parser = duration)]
    pub lasts: Option<Duration>,
    #[command(flatten)]
    pub links: Links,
    /// Kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "paths")]
    pub kubeconfig: Option<PathBuf>,
    /// Exit with code 1 if there are warnings.
    #[arg(long)]
    pub fail_on_warnings: bool,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

/// `check-extension`
#[derive(Debug, Args)]
pub struct CheckExtension {
    /// Extensions that run, such as https://localhost:9443. NAME is the name of the ExtensionConfig, by which classes refer to
    /// handlers: handler.NAME. Default: extension. Patches of several extensions are also applied in another order.
    #[arg(value_name = "[NAME=]URL", required = true, value_parser = extensions::running_extension)]
    pub extensions: Vec<extensions::RunningExtension>,
    /// Files or directories with classes that use the extensions, their templates, and Clusters. A class that no Cluster uses gets a
    /// sample Cluster. Without them, handlers of patches are not called.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// CA certificates in PEM form for the URLs. Default: those of the system.
    #[arg(long, value_name = "FILE")]
    pub extension_ca: Option<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Exit with code 1 if there are warnings.
    #[arg(long)]
    pub fail_on_warnings: bool,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
    #[command(flatten)]
    pub rules: Rules,
}

/// `validate`
#[derive(Debug, Args)]
pub struct Validate {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Files or directories with the currently stored objects; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub old: Vec<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub extensions: extensions::Extensions,
    /// Deny fields that the API server would drop, instead of warning.
    #[arg(long)]
    pub strict: bool,
    /// Exit with code 1 if there are warnings.
    #[arg(long)]
    pub fail_on_warnings: bool,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
    #[command(flatten)]
    pub rules: Rules,
    #[command(flatten)]
    pub ceiling: CeilingFlag,
}

/// `default`
#[derive(Debug, Args)]
pub struct Default {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: Written,
    #[command(flatten)]
    pub rules: Rules,
}

/// `render`
#[derive(Debug, Args)]
pub struct Render {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Render this Cluster only.
    #[arg(long, value_name = "NS/NAME", value_parser = object_key)]
    pub cluster: Option<ObjectKey>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub extensions: extensions::Extensions,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: Written,
    #[command(flatten)]
    pub rules: Rules,
}

/// `plan`
#[derive(Debug, Args)]
pub struct Plan {
    /// Files or directories with the current state; may be repeated.
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "live")]
    pub from: Vec<PathBuf>,
    /// Compare with a running management cluster instead of files; nothing is written to it. The files of --to then contain
    /// the objects to apply; all other objects stay.
    #[arg(long, conflicts_with = "from")]
    pub live: bool,
    /// Kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "from")]
    pub kubeconfig: Option<PathBuf>,
    /// Whether --live computes changes of existing objects with dry runs on the API server. Without dry runs, fields are
    /// compared locally and the changes are assumptions.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = DryRunMode::None, requires = "live", conflicts_with = "from")]
    pub dry_run: DryRunMode,
    /// Files or directories with the desired state; may be repeated.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    pub to: Vec<PathBuf>,
    /// Clusters to plan, as namespace/name or a pattern with * and ?, such as prod/* or */blue; may be repeated. A name without
    /// a namespace is in the namespace default. Default: all.
    #[arg(long = "cluster", value_name = "PATTERN", value_parser = cluster_pattern)]
    pub clusters: Vec<ClusterPattern>,
    /// Plan only Clusters that match this label selector, such as env=prod,tier in (a,b),!canary.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = label_selector)]
    pub selector: Option<LabelRequirements>,
    /// Time of the change in RFC 3339 format; rollout.after replaces machines if it is before this time. Default: now.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub now: Option<Timestamp>,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub extensions: extensions::Extensions,
    #[command(flatten)]
    pub hooks: extensions::Hooks,
    #[command(flatten)]
    pub sides: extensions::Sides,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: PlanOutput,
    /// List all Clusters of each group and all lines of long values. Without it, text output lists 20 Clusters per group.
    #[arg(long)]
    pub all: bool,
    /// When to use colors in text output. With auto: on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    #[command(flatten)]
    pub rules: Rules,
    #[command(flatten)]
    pub ceiling: CeilingFlag,
}

/// Whether a plan of a running cluster uses dry runs on its API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRunMode {
    /// No dry runs.
    None,
    /// Dry runs for changes of existing objects. They need the permission to patch these objects.
    Server,
}

/// How a plan looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// Human-readable text.
    Text,
    /// Stable, documented format for programs.
    Json,
    /// Markdown for merge requests.
    Markdown,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Written {
    /// One document per object.
    Yaml,
    /// One array of objects.
    Json,
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

/// `crds`
#[derive(Debug, Args)]
pub struct Crds {
    /// Print one family of CustomResourceDefinitions only.
    #[arg(long, value_name = "FAMILY")]
    pub only: Option<Family>,
    /// Print the OpenAPI document of the hooks of Runtime Extensions instead.
    #[arg(long, conflicts_with = "only")]
    pub hooks: bool,
}

/// Kinds that are installed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// Cluster, ClusterClass and the kinds around machines, of the group cluster.x-k8s.io.
    ClusterApi,
    /// The provider whose machines exist in memory only, of the groups below topologist.dev.
    EmbeddedProvider,
}

/// `completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Human-readable text.
    Text,
    /// Stable, documented format for programs.
    Json,
}

/// `certs`
#[derive(Debug, Args)]
pub struct Certs {
    /// Directory for ca.crt, ca.key, tls.crt and tls.key; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "certs/dev")]
    pub out: PathBuf,
    /// DNS name or IP address of the certificate; may be repeated.
    #[arg(long = "host", value_name = "NAME", default_values = ["localhost", "127.0.0.1", "::1"])]
    pub hosts: Vec<String>,
    /// Validity of the certificates in days.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Overwrite existing files.
    #[arg(long)]
    pub force: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
