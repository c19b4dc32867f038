//! The `topologist` binary.

use std::process::ExitCode;

use clap::Parser;
use topologist::cli;
use topologist::cli::args::Arguments;

/// A third less time is spent decoding reviews than with the system's allocator. It does not ask for huge pages (`no_thp`), of
/// which each is resident as a whole for the few objects in it, which came to 10 MB and more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("topologist: another TLS provider is installed already");
        return ExitCode::from(cli::UNUSABLE);
    }
    cli::run(arguments)
}
