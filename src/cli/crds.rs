//! `crds`: what an API server has to know of our kinds.

use std::process::ExitCode;

use anyhow::Result;

use crate::crd;

/// Prints the definitions as one YAML stream.
pub(super) fn run() -> Result<ExitCode> {
    let mut text = String::new();
    for definition in crd::definitions() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&definition)?);
    }
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
