//! `completions`: the completion script of a shell.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use super::args::{Arguments, CompletionsArgs};

/// Prints the script for one shell.
pub(super) fn run(options: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "topologist", &mut script);
    super::output::data(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
