//! Arguments: the commands, and one module for the flags of each group of them.
//!
//! The flags of `serve` that take one value have an environment variable: `--webhook-addr` is
//! `TOPOLOGIST_WEBHOOK_ADDR`.

pub mod certificates;
mod checks;
mod error;
pub mod extensions;
mod formats;
mod input;
pub mod leading;
mod objects;
mod rollouts;
mod rules;
mod serve;
pub(super) mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use error::ArgumentError;

pub use checks::{CheckExtensionArgs, CheckProviderArgs};
pub use formats::{
    FailOn, FindingFlags, FindingsFormat, FindingsOutput, ObjectFindingFlags, ObjectFormat, OutputFormat, PlanFormat,
};
pub use input::{InputFlags, LinkFlags, VariableFlags};
pub use objects::{DefaultArgs, RenderArgs, ValidateArgs};
pub use rollouts::{DryRunMode, PlanArgs, SimulateArgs};
pub use rules::{CeilingFlag, RuleFlags};
pub use serve::{Lifecycle, ServeArgs};
pub use values::{ClusterPattern, KindAndName};

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
    Serve(Box<ServeArgs>),
    /// Validate Clusters and ClusterClasses in files as the API server and the webhook would.
    ///
    /// Only objects in the files exist: a Cluster must find its class in them. A version change is checked against the
    /// control plane, MachineDeployments, Machines, MachinePools and Nodes in the files. With --old, an object in both
    /// sets is an update, and an object in the old files only is a deletion.
    ///
    /// Topologies whose class and templates are in the files are computed as well.
    ///
    /// Exit code: 0 no error, 1 an object is denied or cannot be rolled out, or --fail-on applies, 2 wrong usage,
    /// unreadable input, or nothing to validate.
    Validate(ValidateArgs),
    /// Print the objects in files with the defaults that the mutating webhook sets.
    ///
    /// Exit code: 0 printed, 1 an object is denied and nothing is printed, 2 wrong usage, unreadable input, or no
    /// Cluster and no ClusterClass.
    Default(DefaultArgs),
    /// Print every object that the topologies in files define, as YAML.
    ///
    /// The suffixes of generated names depend on the Cluster and the object only, so the same files give the same
    /// output.
    ///
    /// Exit code: 0 printed, 1 an object is denied, cannot be computed or is incomplete, 2 wrong usage, unreadable input,
    /// or nothing to render.
    Render(RenderArgs),
    /// Show what a change does to every Cluster: which objects change, why, and which machines are replaced.
    ///
    /// The plan assumes that the files of --from are fully rolled out, unless they contain the current objects, and
    /// that providers finish at once. It therefore covers the whole rollout.
    ///
    /// Exit code: 0 no change, 1 the change is denied, cannot be computed or would be refused by the API server, 2
    /// wrong usage, unreadable input, or nothing to plan, 3 objects change in place or are new, 4 machines are replaced
    /// or removed, 5 objects are deleted. The highest of 3, 4 and 5 that applies is used.
    Plan(PlanArgs),
    /// Roll Clusters out on a virtual clock, and print what happens when.
    ///
    /// Exit code: 0 every Cluster is as it should be at the end, 1 one is not, or is denied, 2 wrong usage or
    /// unreadable input.
    Simulate(SimulateArgs),
    /// Check the CustomResourceDefinitions and roles of a provider against the contract of Cluster API.
    ///
    /// Definitions are checked together: a template is compared with the definition of the objects that are made from
    /// it, and a ClusterRole must grant access to groups that Cluster API does not know. With --live nothing is read
    /// from files: objects in a running cluster are followed.
    ///
    /// Exit code: 0 no error, 1 an error was found, 2 wrong usage, unreadable input, or no definition of a provider.
    CheckProvider(CheckProviderArgs),
    /// Call Runtime Extensions as the controllers would, and check that they behave as callers expect.
    ///
    /// The classes in --files decide which requests the handlers of patches get; each is sent again with changes, such
    /// as a variable that is missing. Handlers of lifecycle hooks are not called, because they may have side effects.
    ///
    /// Exit code: 0 no error, 1 an error was found, 2 wrong usage, unreadable input, or an extension whose Discovery
    /// fails.
    CheckExtension(Box<CheckExtensionArgs>),
    /// Print the CustomResourceDefinitions of Cluster API and of the embedded provider as YAML.
    Crds(CrdsArgs),
    /// Create a development CA and a serving certificate.
    Certs(CertsArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the JSON Schema of a format that commands write.
    Schema(SchemaArgs),
}

/// `crds`
#[derive(Debug, Args)]
pub struct CrdsArgs {
    /// Print one family of CustomResourceDefinitions only.
    #[arg(long, value_name = "FAMILY")]
    pub only: Option<Family>,
    /// Print the OpenAPI document of the hooks of Runtime Extensions instead.
    #[arg(long, conflicts_with = "only")]
    pub hooks: bool,
}

/// A group of kinds that are installed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// Cluster, ClusterClass and the kinds around machines, of the group cluster.x-k8s.io.
    ClusterApi,
    /// The provider whose machines exist in memory only, of the groups below topologist.dev.
    EmbeddedProvider,
}

/// `schema`
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The format.
    pub name: SchemaName,
}

/// A format with a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// Findings, as validate -o json prints them.
    Findings,
    /// Plans, as plan -o json prints them.
    Plan,
    /// The file of --timings.
    Timings,
    /// Recorded answers of extensions, as --record writes them.
    Recording,
}

/// `completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `certs`
#[derive(Debug, Args)]
pub struct CertsArgs {
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
