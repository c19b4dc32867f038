//! `validate`, `default` and `render`: objects in files.

use std::path::PathBuf;

use clap::Args;

use super::values::object_key;
use super::{CeilingFlag, FindingFlags, InputFlags, ObjectFindingFlags, ObjectFormat, RuleFlags, extensions};
use model::hub::ObjectKey;

/// `validate`
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Files or directories with the currently stored objects; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub old: Vec<PathBuf>,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub extensions: extensions::ExtensionFlags,
    /// Deny fields that the API server would drop, instead of warning.
    #[arg(long)]
    pub strict: bool,
    /// Judge the files again after each change of one of them, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub findings: FindingFlags,
    /// With --fail-on warning, do not warn that objects of this kind are not checked, because no CustomResourceDefinition
    /// of it is known; may be repeated.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub allow_unchecked: Vec<String>,
    /// Version of the JSON format. Version 1 will be removed in the next release.
    #[arg(long, value_name = "VERSION", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub format_version: u8,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub ceiling: CeilingFlag,
}

/// `default`
#[derive(Debug, Args)]
pub struct DefaultArgs {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub input: InputFlags,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: ObjectFormat,
    #[command(flatten)]
    pub findings: ObjectFindingFlags,
    #[command(flatten)]
    pub rules: RuleFlags,
}

/// `render`
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// Files, directories (searched for .yaml, .yml and .json), or - for standard input.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Render this Cluster only.
    #[arg(long, value_name = "NS/NAME", value_parser = object_key)]
    pub cluster: Option<ObjectKey>,
    /// Accept topologies without the patches of extensions that could not be called.
    #[arg(long)]
    pub incomplete: bool,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub extensions: extensions::ExtensionFlags,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub output: ObjectFormat,
    #[command(flatten)]
    pub findings: ObjectFindingFlags,
    #[command(flatten)]
    pub rules: RuleFlags,
}
