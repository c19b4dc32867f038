//! `check-provider` and `check-extension`

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::values::{KindAndName, duration, kind_and_name};
use super::{FindingFlags, InputFlags, LinkFlags, RuleFlags, extensions};

/// `check-provider`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("provider").args(["paths", "live"]).required(true),
    override_usage = "topologist check-provider [OPTIONS] <PATH>...\n       \
                      topologist check-provider [OPTIONS] --live <KIND[/NAME]>"
)]
pub struct CheckProviderArgs {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input, with what the provider
    /// installs.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Follow objects of a provider in a running cluster instead, and say which rules their changes keep or break: one
    /// object, or all of a kind. KIND is a kind or a resource, such as DockerMachine or
    /// dockermachines.infrastructure.cluster.x-k8s.io. Nothing is written.
    #[arg(long, value_name = "KIND[/NAME]", value_parser = kind_and_name)]
    pub live: Option<KindAndName>,
    /// Namespace of the objects of --live. Default: default for one object, and all namespaces for a kind.
    #[arg(short, long, value_name = "NAMESPACE", requires = "live", conflicts_with = "paths")]
    pub namespace: Option<String>,
    /// Stop after this time, such as 30m. Default: when the object is gone, or with Ctrl-C.
    #[arg(long = "for", value_name = "TIME", requires = "live", conflicts_with = "paths", value_parser = duration)]
    pub lasts: Option<Duration>,
    #[command(flatten)]
    pub links: LinkFlags,
    /// Kubeconfig for --live. Default: the one that kubectl uses.
    #[arg(long, value_name = "FILE", requires = "live", conflicts_with = "paths")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub findings: FindingFlags,
    /// Version of the JSON format. Version 1 will be removed in the next release.
    #[arg(long, value_name = "VERSION", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub format_version: u8,
}

/// `check-extension`
#[derive(Debug, Args)]
pub struct CheckExtensionArgs {
    /// Extensions that run, such as https://localhost:9443. NAME is the name of the ExtensionConfig, by which classes
    /// refer to handlers: handler.NAME. Default: extension. Patches of several extensions are also applied in another
    /// order.
    #[arg(value_name = "[NAME=]URL", required = true, value_parser = extensions::running_extension)]
    pub extensions: Vec<extensions::RunningExtension>,
    /// Files or directories with classes that use the extensions, their templates, and Clusters. A class that no
    /// Cluster uses gets a sample Cluster. Without them, handlers of patches are not called.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// CA certificates in PEM form for the URLs. Default: those of the system.
    #[arg(long, value_name = "FILE")]
    pub extension_ca: Option<PathBuf>,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub findings: FindingFlags,
    /// Version of the JSON format. Version 1 will be removed in the next release.
    #[arg(long, value_name = "VERSION", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub format_version: u8,
    #[command(flatten)]
    pub rules: RuleFlags,
}
