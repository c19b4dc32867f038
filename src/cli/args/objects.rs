//! `validate`, `default` and `render`: objects in files.

use std::path::PathBuf;

use clap::Args;

use super::values::object_key;
use super::{CeilingFlag, Input, Output, Rules, Written, extensions};
use model::hub::ObjectKey;

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
