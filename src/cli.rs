//! The command line: one file per command.
//!
//! Exit codes: 0 for a clean result, 1 when something was denied, 2 for wrong usage, unreadable input, or
//! input with nothing to work on.

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
mod file_watch;
mod files;
mod findings;
mod format_schemas;
mod held_edits;
mod hints;
mod in_process;
mod included_definitions;
mod leading;
mod listen;
mod live;
mod machines;
mod markdown;
mod memory;
mod named_values;
mod offline;
mod output;
mod plan;
mod progress_bar;
mod render;
mod rollout;
mod rule_book;
mod simulate;
mod serve;
mod sizes;
mod sources;
mod state_dir;
mod status_line;
mod substitution;
mod tasks;
mod threads;
mod topologies;
mod validate;
mod watches;
mod workloads;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsString;
use std::process::ExitCode;

use args::{Arguments, Command};
use clap::builder::{OsStr, Resettable};
use clap::{Arg, CommandFactory as _, Parser as _};

use schema::field::chain;
use server::telemetry::log;

/// Wrong usage or unreadable input.
pub const UNUSABLE: u8 = 2;

/// Runs a command and returns the exit code of the process.
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
        Command::Schema(options) => format_schemas::run(&options),
    };
    outcome.unwrap_or_else(|error| unusable(&chain(error.as_ref())))
}

/// Prints the reason of wrong usage or unreadable input.
pub fn unusable(reason: &str) -> ExitCode {
    // Nothing can be said where standard error is closed.
    let _ = output::message(reason);
    ExitCode::from(UNUSABLE)
}

/// The arguments of a process.
///
/// # Errors
/// With the exit code when they request help, or are wrong, after printing a message.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, ExitCode> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    Arguments::try_parse_from(&arguments).map_err(|error| {
        // An error quotes arguments, which may be names of files, and values of environment variables, as help does.
        let escaped = arguments.iter().map(|argument| output::escaped(&argument.to_string_lossy()));
        match with_escaped_environment(Arguments::command()).try_get_matches_from(escaped) {
            Err(error) => {
                let _ = error.print();
                ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(UNUSABLE))
            }
            Ok(_) => unusable(error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ")),
        }
    })
}

/// The same command with escaped values of environment variables. They become defaults: a program that has threads must
/// not change its environment.
fn with_escaped_environment(command: clap::Command) -> clap::Command {
    let escape = |argument: Arg| {
        let Some(value) = argument.get_env().and_then(std::env::var_os) else { return argument };
        let escaped = output::escaped(&value.to_string_lossy());
        if value.to_str() == Some(&*escaped) {
            return argument;
        }
        // The process ends with the error, so the text does not have to be freed.
        let escaped: &'static str = escaped.leak();
        argument.env(Resettable::<OsStr>::Reset).default_value(escaped)
    };
    command.mut_args(escape).mut_subcommands(with_escaped_environment)
}

/// Reports each panic in one line of standard error, and a backtrace if `RUST_BACKTRACE` asks for one. `serve` reports
/// panics in its log.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
        // There is nowhere else to say it.
        let _ = output::message(format_args!("panicked{place}: {}", log::payload(panic)));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            let mut text = output::Text::default();
            backtrace.to_string().lines().for_each(|line| text.line(line));
            let _ = output::messages(&text);
        }
    }));
}
