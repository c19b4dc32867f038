//! Arguments. The flags of `serve` that take one value have an environment variable: `--webhook-addr` is
//! `TOPOLOGIST_WEBHOOK_ADDR`.

pub mod certificates;
pub mod leading;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::builder::{BoolishValueParser, PossibleValue};
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use k8s_openapi::jiff::Timestamp;

use super::memory;
use crate::admission::{Dependents, Enforce, FeatureGates, Settings};
use crate::hub::{LabelRequirements, ObjectKey};
use crate::telemetry::log::Format;
use crate::world::Scope;
pub use values::ClusterPattern;
use values::{cluster_pattern, duration, label_selector, moment, object_key, positive_duration};

/// Guards and rolls out Cluster API managed topologies.
#[derive(Debug, Parser)]
#[command(name = "topologist", version, max_term_width = 110)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer admission reviews over HTTPS.
    ///
    /// Outside a pod nothing is inferred: give --embedded for an API server in memory, or --kubeconfig to follow one.
    Serve(Box<Serve>),
    /// Judge Clusters and ClusterClasses in files as the API server and the webhook would.
    ///
    /// The files are the world: a Cluster finds its class in them, and a change of its version is judged by its control
    /// plane, MachineDeployments, Machines, MachinePools and Nodes, where they are there. With --old an object that is in
    /// both is an update, and one that is only in the old files a deletion.
    /// Exit code: 0 everything allowed, 1 something denied, 2 wrong usage, unreadable input, or nothing to judge.
    Validate(Validate),
    /// Print the objects of files as the mutating webhook would leave them.
    ///
    /// Exit code: 0 printed, 1 something denied (nothing is printed then), 2 wrong usage, unreadable input, or no Cluster and no
    /// ClusterClass.
    Default(Default),
    /// Print every object that the topologies of files ask for, as YAML.
    ///
    /// Names have endings that follow from Cluster and object, so that the same files give the same output.
    /// Exit code: 0 printed, 1 something is denied or cannot be computed, 2 wrong usage, unreadable input, or nothing to render.
    Render(Render),
    /// Say what a change does to every Cluster: which objects change, why, and which machines are replaced.
    ///
    /// The files of --from are taken as fully rolled out, unless they hold the objects as they are now. Providers are taken
    /// to answer at once, so that the plan is the whole rollout.
    /// Exit code: 0 nothing changes, 3 in place only, 4 machines are replaced, 5 something is deleted, 1 invalid, 2 wrong
    /// usage, unreadable input, or nothing to plan.
    Plan(Plan),
    /// Print CustomResourceDefinitions as YAML: those of Cluster API's kinds, and those of the embedded provider.
    Crds(Crds),
    /// Make a development CA and a serving certificate.
    Certs(Certs),
    /// Print a completion script for a shell.
    Completions(Completions),
}

/// What commands read besides their own files.
#[derive(Clone, Debug, Args)]
pub struct Input {
    /// Files or folders with objects that are there and are not judged; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub world: Vec<PathBuf>,
    /// Files or folders with CustomResourceDefinitions of providers: contracts, and how lists are merged; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub crds: Vec<PathBuf>,
    /// Replace ${V}, ${V:-default} and ${V:=default} in the files by environment variables. $${V} stays as it is.
    #[arg(long)]
    pub env: bool,
    /// Accept input with nothing to judge, default, render or plan, such as other kinds only. Otherwise the exit code is 2.
    #[arg(long)]
    pub allow_empty: bool,
}

/// Switches of the admission rules.
#[derive(Clone, Debug, Args)]
pub struct Rules {
    /// Feature gates, as Gate=true,Gate=false; the default names them all.
    #[arg(long, value_name = "GATES", default_value_t, env = "TOPOLOGIST_FEATURE_GATES")]
    pub feature_gates: FeatureGates,
    /// The smallest node startup timeout of a health check other than 0, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(i32).range(0..), env = "TOPOLOGIST_MINIMUM_NODE_STARTUP_TIMEOUT")]
    pub minimum_node_startup_timeout: i32,
    /// What becomes of a change of a class that breaks the variables of its Clusters.
    #[arg(long, value_name = "WHAT", default_value = "deny", env = "TOPOLOGIST_DEPENDENTS")]
    pub dependents: Dependents,
    /// Deny new Clusters that have infrastructureRef or controlPlaneRef besides a topology, instead of warning.
    #[arg(long, env = "TOPOLOGIST_REFUSE_REFS_WITH_TOPOLOGY", value_parser = BoolishValueParser::new())]
    pub refuse_refs_with_topology: bool,
}

impl Rules {
    /// The settings of the rules.
    pub fn settings(&self) -> Settings {
        Settings {
            gates: self.feature_gates,
            minimum_node_startup_timeout_seconds: self.minimum_node_startup_timeout,
            dependents: self.dependents,
            refuse_refs_with_topology: self.refuse_refs_with_topology,
            ..Settings::default()
        }
    }
}

/// `serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// Run on an API server of its own, in memory, which begins with the objects of --load; kubectl gets at it with the
    /// kubeconfig that is written.
    #[arg(long, env = "TOPOLOGIST_EMBEDDED", value_parser = BoolishValueParser::new(), conflicts_with = "kubeconfig")]
    pub embedded: bool,
    /// Files or folders with objects for --embedded.
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "embedded")]
    pub load: Vec<PathBuf>,
    /// Follow the API server of this kubeconfig.
    #[arg(long, value_name = "FILE", env = "TOPOLOGIST_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Where the API of --embedded is. Default: 127.0.0.1:6443.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_API_ADDR")]
    pub api_addr: Option<SocketAddr>,
    /// Where reviews are answered. Default: 0.0.0.0:9443, or 127.0.0.1:9443 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_WEBHOOK_ADDR")]
    pub webhook_addr: Option<SocketAddr>,
    /// Where conversions are answered, of callers without a certificate too; --webhook-addr answers them as well, unless
    /// --client-ca is given. Default: 0.0.0.0:9444, or 127.0.0.1:9444 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_CONVERSION_ADDR")]
    pub conversion_addr: Option<SocketAddr>,
    /// Where /healthz, /readyz and /metrics are. Default: 0.0.0.0:8081, or 127.0.0.1:8081 with --embedded.
    #[arg(long, value_name = "ADDR", env = "TOPOLOGIST_ADMIN_ADDR")]
    pub admin_addr: Option<SocketAddr>,
    /// Serving certificate chain in PEM form; read again when it changes. Without it --embedded makes one.
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "TOPOLOGIST_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the serving certificate in PEM form.
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "TOPOLOGIST_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// How often the files of --tls-cert, --tls-key and --client-ca are read, such as 5s or 500ms.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration, env = "TOPOLOGIST_TLS_POLL")]
    pub tls_poll: Duration,
    /// Ask callers of reviews for a certificate that was issued by one of this file's authorities; read again when it changes.
    #[arg(long, value_name = "FILE", env = "TOPOLOGIST_CLIENT_CA")]
    pub client_ca: Option<PathBuf>,
    /// A common name or DNS name that a caller's certificate may have; may be repeated. Default: any.
    #[arg(
        long = "client-name",
        value_name = "NAME",
        requires = "client_ca",
        value_delimiter = ',',
        env = "TOPOLOGIST_CLIENT_NAME"
    )]
    pub client_names: Vec<String>,
    /// Where --embedded leaves what clients need: kubeconfig, and the CA certificate of the webhook.
    #[arg(long, value_name = "DIR", default_value = ".topologist", env = "TOPOLOGIST_STATE_DIR")]
    pub state_dir: PathBuf,
    /// How long to go on accepting requests after the first stop signal. Default: 5s, or 0s with --embedded.
    #[arg(long, value_name = "TIME", value_parser = duration, env = "TOPOLOGIST_SHUTDOWN_GRACE")]
    pub shutdown_grace: Option<Duration>,
    /// How many connections for reviews may be open, if memory and file descriptors allow them. When all are, a new one closes one
    /// that waits for a request.
    #[arg(long, value_name = "NUMBER", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..), env = "TOPOLOGIST_CONNECTIONS")]
    pub connections: u32,
    /// How long a client may take for its TLS handshake, for its first request, and for the head of each other request.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_duration, env = "TOPOLOGIST_CLIENT_PATIENCE")]
    pub client_patience: Duration,
    /// How long a connection may be idle. Clients should end theirs sooner (kube-apiserver: 90s): a request that is sent while
    /// the server closes the connection is lost.
    #[arg(long, value_name = "TIME", default_value = "150s", value_parser = positive_duration, env = "TOPOLOGIST_CLIENT_IDLE")]
    pub client_idle: Duration,
    /// How long a connection is used before it is ended in good order; the most is twice as long.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = positive_duration, env = "TOPOLOGIST_CONNECTION_AGE")]
    pub connection_age: Duration,
    /// The memory that the process may use, in bytes or as 512Mi or 1Gi. Bodies of reviews, compiled classes and work in progress
    /// together stay below 60 % of it. Default: the limit of the container, or 1Gi where there is none.
    #[arg(long, value_name = "SIZE", value_parser = memory::size, env = "TOPOLOGIST_MEMORY_LIMIT")]
    pub memory_limit: Option<usize>,
    /// Whether denials deny, or are only warned about, counted and written to the audit log.
    #[arg(long, value_name = "HOW", default_value = "deny", env = "TOPOLOGIST_ENFORCE")]
    pub enforce: Enforce,
    /// Whether machines are driven here: auto does so with --embedded. So far that means no more than that MachineDeployments,
    /// MachineSets, Machines and MachineHealthChecks are given defaults and judged; nothing makes machines yet.
    #[arg(long, value_name = "WHEN", default_value = "auto", env = "TOPOLOGIST_LIFECYCLE")]
    pub lifecycle: Lifecycle,
    /// Look after these namespaces alone, each a name or the beginning of names and *. A single name is listed by itself,
    /// for which a Role is enough.
    #[arg(long = "namespace", value_name = "NS", value_delimiter = ',', env = "TOPOLOGIST_NAMESPACE")]
    pub namespaces: Vec<String>,
    /// Look after objects with this value of the label cluster.x-k8s.io/watch-filter alone.
    ///
    /// This shares out work between installations and is no security boundary: a user who may write an object may set or
    /// remove its label, and the guard allows objects without the label unread. Use --namespace and RBAC for tenants.
    #[arg(long, value_name = "VALUE", env = "TOPOLOGIST_WATCH_FILTER")]
    pub watch_filter: Option<String>,
    /// How log lines look.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "TOPOLOGIST_LOG_FORMAT")]
    pub log_format: Format,
    /// Which log lines appear: a level, or module=level pairs.
    #[arg(long, value_name = "FILTER", default_value = "info", env = "TOPOLOGIST_LOG")]
    pub log: String,
    #[command(flatten)]
    pub certificates: certificates::Flags,
    #[command(flatten)]
    pub leading: leading::Flags,
    #[command(flatten)]
    pub rules: Rules,
}

impl Serve {
    /// What is looked after (DEC-37).
    pub fn scope(&self) -> Result<Scope> {
        Scope::new(&self.namespaces, self.watch_filter.clone()).map_err(|reason| anyhow!("--namespace: {reason}"))
    }

    pub fn settings(&self) -> Settings {
        Settings { enforce: self.enforce, lifecycle: self.drives_machines(), ..self.rules.settings() }
    }

    /// Whether the kinds around machines are ours.
    pub fn drives_machines(&self) -> bool {
        match self.lifecycle {
            Lifecycle::Auto => self.embedded,
            Lifecycle::On => true,
            Lifecycle::Off => false,
        }
    }

    /// Whether the pod's own API server is followed; nothing else is inferred (`Source::of`).
    pub fn is_in_pod(&self) -> bool {
        self.kubeconfig.is_none() && !self.embedded
    }
}

/// `validate`
#[derive(Debug, Args)]
pub struct Validate {
    /// Files, folders (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Files or folders with the objects as they are stored now; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub old: Vec<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Deny fields that the API server would drop, instead of warning.
    #[arg(long)]
    pub strict: bool,
    /// Exit with 1 when there are warnings.
    #[arg(long)]
    pub fail_on_warnings: bool,
    /// How the result looks.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
    #[command(flatten)]
    pub rules: Rules,
}

/// `default`
#[derive(Debug, Args)]
pub struct Default {
    /// Files, folders (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// How the objects are written.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: Written,
    #[command(flatten)]
    pub rules: Rules,
}

/// `render`
#[derive(Debug, Args)]
pub struct Render {
    /// Files, folders (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The one Cluster to render.
    #[arg(long, value_name = "NS/NAME", value_parser = object_key)]
    pub cluster: Option<ObjectKey>,
    #[command(flatten)]
    pub input: Input,
    /// How the objects are written.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: Written,
    #[command(flatten)]
    pub rules: Rules,
}

/// `plan`
#[derive(Debug, Args)]
pub struct Plan {
    /// Files or folders with everything as it is now; may be repeated.
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "live")]
    pub from: Vec<PathBuf>,
    /// Compare with a running management cluster instead of files; it is read, and nothing is written. The files of --to then
    /// hold what is to be applied: what they do not mention stays.
    #[arg(long, conflicts_with = "from")]
    pub live: bool,
    /// The kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "from")]
    pub kubeconfig: Option<PathBuf>,
    /// Whether --live asks the API server what changes of existing objects, in dry runs that store nothing. Without that,
    /// changes are compared field by field, and are assumed.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = DryRunMode::None, requires = "live", conflicts_with = "from")]
    pub dry_run: DryRunMode,
    /// Files or folders with everything as it is to be; may be repeated.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    pub to: Vec<PathBuf>,
    /// The Clusters to plan, each as namespace/name or as a pattern with * and ?, such as prod/* or */blue; may be repeated. A
    /// name alone is one of the namespace default. Default: all.
    #[arg(long = "cluster", value_name = "PATTERN", value_parser = cluster_pattern)]
    pub clusters: Vec<ClusterPattern>,
    /// Plan Clusters with these labels alone, such as env=prod,tier in (a,b),!canary.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = label_selector)]
    pub selector: Option<LabelRequirements>,
    /// The time at which the change is made, as RFC 3339 writes it: `rollout.after` replaces machines once it has passed. Default:
    /// now.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub now: Option<Timestamp>,
    #[command(flatten)]
    pub input: Input,
    /// How the result looks.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: PlanOutput,
    /// List all Clusters of a group, and all lines of long values. Without it text names 20 Clusters of each group.
    #[arg(long)]
    pub all: bool,
    /// Whether text has colors. With auto it has them on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    #[command(flatten)]
    pub rules: Rules,
}

/// What a plan of a running cluster asks its API server to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRunMode {
    /// Nothing.
    None,
    /// What it would apply to objects that exist. This needs the permission to patch them.
    Server,
}

/// How a plan looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanOutput {
    /// For people.
    Text,
    /// Stable and documented.
    Json,
    /// For merge requests.
    Markdown,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Written {
    /// A document for each object.
    Yaml,
    /// One array.
    Json,
}

/// When something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lifecycle {
    /// With --embedded.
    Auto,
    On,
    Off,
}

/// `crds`
#[derive(Debug, Args)]
pub struct Crds {
    /// One family only.
    #[arg(long, value_name = "FAMILY")]
    pub only: Option<Family>,
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
    /// For people.
    Text,
    /// Stable and documented.
    Json,
}

/// `certs`
#[derive(Debug, Args)]
pub struct Certs {
    /// The folder that gets ca.crt, ca.key, tls.crt and tls.key; it is made if it is missing.
    #[arg(long, value_name = "DIR", default_value = "certs/dev")]
    pub out: PathBuf,
    /// A DNS name or IP address that the certificate is for; may be repeated.
    #[arg(long = "host", value_name = "NAME", default_values = ["localhost", "127.0.0.1", "::1"])]
    pub hosts: Vec<String>,
    /// How long the certificates are valid.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Replace files that are already there.
    #[arg(long)]
    pub force: bool,
}

impl ValueEnum for Dependents {
    fn value_variants<'a>() -> &'a [Self] {
        &[Dependents::Deny, Dependents::Warn, Dependents::Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Dependents::Deny => PossibleValue::new("deny").help("It is denied"),
            Dependents::Warn => PossibleValue::new("warn").help("It is allowed with warnings"),
            Dependents::Off => PossibleValue::new("off").help("Nobody looks"),
        })
    }
}

impl ValueEnum for Enforce {
    fn value_variants<'a>() -> &'a [Self] {
        &[Enforce::Deny, Enforce::Warn]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Enforce::Deny => PossibleValue::new("deny").help("A denial denies"),
            Enforce::Warn => PossibleValue::new("warn").help("A denial becomes a warning"),
        })
    }
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
