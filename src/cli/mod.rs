//! The command line: one file per command.
//!
//! Exit codes: 0 for a clean result, 1 when something was denied, 2 for wrong usage, unreadable input, or
//! input with nothing to work on.

mod applied;
pub mod args;
mod atomic_file;
mod certificates;
mod certs;
mod check_extension;
mod check_provider;
mod choice;
mod completions;
mod crds;
mod default;
mod discovered;
mod embedded;
mod empty;
mod errors;
mod extensions;
mod files;
mod hints;
mod in_process;
mod kept;
mod leading;
mod listen;
mod live;
mod machines;
mod markdown;
mod memory;
mod offline;
mod plan;
mod progress;
mod render;
mod rollout;
mod sample;
mod schemas;
mod simulate;
mod serve;
mod sources;
mod state_dir;
mod substitution;
mod tasks;
mod twins;
mod validate;
mod workloads;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Arguments, Command};

use crate::field::chain;

/// Wrong usage or unreadable input.
pub const UNUSABLE: u8 = 2;

/// Runs a command and returns what the process exits with.
pub fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Serve(options) => serve::run(*options),
        Command::Validate(options) => validate::run(&options),
        Command::Default(options) => default::run(&options),
        Command::Render(options) => render::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::CheckProvider(options) => check_provider::run(&options),
        Command::CheckExtension(options) => check_extension::run(&options),
        Command::Crds(options) => crds::run(&options),
        Command::Certs(options) => certs::run(&options),
        Command::Completions(options) => completions::run(&options),
    };
    outcome.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "topologist: {}", chain(error.as_ref()));
        ExitCode::from(UNUSABLE)
    })
}

/// Writes a result; a reader that has seen enough is no failure, and does not change the exit code.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    forgiving(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The outcome of writing a result to a reader that may have seen enough.
fn forgiving(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
