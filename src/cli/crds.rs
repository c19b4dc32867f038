//! `crds`: what an API server has to know of our kinds.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;

use crate::crd;

/// Prints the definitions as one YAML stream.
pub(super) fn run() -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    for definition in crd::definitions() {
        writeln!(out, "---")?;
        out.write_all(serde_saphyr::to_string(&definition)?.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
