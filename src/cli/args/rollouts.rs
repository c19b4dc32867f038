//! `plan` and `simulate`: what a change does to Clusters.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ColorChoice, ValueEnum};
use jiff::Timestamp;

use super::values::{ClusterPattern, cluster_pattern, duration, label_selector, moment, positive_duration};
use super::{ArgumentError, CeilingFlag, InputFlags, OutputFormat, PlanFormat, RuleFlags, extensions};
use model::hub::LabelRequirements;

/// Refuses a path that is neither the state before nor the state after a change.
fn path_without_flag(_: &str) -> Result<String, ArgumentError> {
    Err(ArgumentError::Form("give the state before the change with --from PATH, and the state after it with --to PATH"))
}

/// `plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Takes a path without a flag, to refuse it with a reason.
    #[arg(hide = true, value_name = "PATH", value_parser = path_without_flag)]
    misplaced: Option<String>,
    /// Files or directories with the current state; may be repeated.
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "live")]
    pub from: Vec<PathBuf>,
    /// Compare with a running management cluster instead of files; nothing is written to it. The files of --to then
    /// contain the objects to apply; all other objects stay.
    #[arg(long, conflicts_with = "from")]
    pub live: bool,
    /// Kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "from")]
    pub kubeconfig: Option<PathBuf>,
    /// Whether --live computes changes of existing objects with dry runs on the API server. Without dry runs, fields
    /// are compared locally and the changes are assumptions.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = DryRunMode::None, requires = "live",
        conflicts_with = "from")]
    pub dry_run: DryRunMode,
    /// Files or directories with the desired state; may be repeated.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    pub to: Vec<PathBuf>,
    /// Clusters to plan, as namespace/name or a pattern with * and ?, such as prod/* or */blue; may be repeated. A name
    /// without a namespace is in the namespace default. Default: all.
    #[arg(long = "cluster", value_name = "PATTERN", value_parser = cluster_pattern)]
    pub clusters: Vec<ClusterPattern>,
    /// Plan only Clusters that match this label selector, such as env=prod,tier in (a,b),!canary.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = label_selector)]
    pub selector: Option<LabelRequirements>,
    /// Time of the change in RFC 3339 format; rollout.after replaces machines if it is before this time. Default: now.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub now: Option<Timestamp>,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub extensions: extensions::ExtensionFlags,
    #[command(flatten)]
    pub hooks: extensions::HookFlags,
    #[command(flatten)]
    pub sides: extensions::SideExtensionFlags,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: PlanFormat,
    /// List all Clusters of each group and all lines of long values. Without it, text output lists 20 Clusters per
    /// group.
    #[arg(long)]
    pub all: bool,
    /// When to use colors in text output. With auto: on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    #[command(flatten)]
    pub rules: RuleFlags,
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

/// `simulate`
#[derive(Debug, Args)]
#[command(override_usage = "topologist simulate [OPTIONS] <PATH>... [--to <PATH>...]\n       \
                      topologist simulate [OPTIONS] --live [--to <PATH>...]")]
pub struct SimulateArgs {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input. A Cluster with a uid whose
    /// objects are in the files runs already: the simulation starts from them.
    #[arg(value_name = "PATH", required_unless_present = "live")]
    pub paths: Vec<PathBuf>,
    /// Start from the objects of a running management cluster instead of files; nothing is written to it. The files of
    /// --to then contain the objects to apply; all other objects stay.
    #[arg(long, conflicts_with = "paths")]
    pub live: bool,
    /// Kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "paths")]
    pub kubeconfig: Option<PathBuf>,
    /// Files or directories with the desired state; may be repeated. New Clusters of PATH are rolled out first, and the
    /// output is about the change from PATH to these files. Without --to, the output is about the rollout of PATH.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub to: Vec<PathBuf>,
    /// Clusters to simulate, as namespace/name or a pattern with * and ?, such as prod/* or */blue; may be repeated. A
    /// name without a namespace is in the namespace default. Default: all.
    #[arg(long = "cluster", value_name = "PATTERN", value_parser = cluster_pattern)]
    pub clusters: Vec<ClusterPattern>,
    /// Simulate only Clusters that match this label selector, such as env=prod,tier in (a,b),!canary.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = label_selector)]
    pub selector: Option<LabelRequirements>,
    /// File with the time that the parts of a rollout take, and with failures (docs/machines.md). Its times win over
    /// those of spec.backend.inMemory.
    #[arg(long, value_name = "FILE")]
    pub timings: Option<PathBuf>,
    /// Stop after this virtual time, such as 48h. Clusters that are not done by then are reported as stuck.
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = duration)]
    pub limit: Duration,
    /// Stop after this time of the machine on which the command runs, such as 2m. Clusters that are not done by then
    /// are reported as stuck, so the result depends on how fast the machine is. Default: no limit.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub time_limit: Option<Duration>,
    /// Time at which the simulation starts, in RFC 3339 format; rollout.after replaces machines once this time has
    /// come. Times in the output count from the start. Default: the start of the simulation that --record wrote, if
    /// --extension names its file, and now otherwise.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub now: Option<Timestamp>,
    /// Write a page with a chart of each group of Clusters to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the Clusters at the end, with their objects, to this file as YAML.
    #[arg(long, value_name = "FILE")]
    pub objects: Option<PathBuf>,
    /// List all Clusters of each group and every event. Without it, text output lists 20 Clusters per group and
    /// combines the events of machines.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub extensions: extensions::ExtensionFlags,
    #[command(flatten)]
    pub hooks: extensions::HookFlags,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    #[command(flatten)]
    pub rules: RuleFlags,
}
