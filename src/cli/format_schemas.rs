//! `schema`: the JSON Schemas of the program's own formats (DEC-63).

use std::process::ExitCode;

use anyhow::Result;

use super::args::{SchemaArgs, SchemaName};
use super::{findings, output};

/// Prints the schema of a format.
pub(super) fn run(options: &SchemaArgs) -> Result<ExitCode> {
    let schema = match options.name {
        SchemaName::Findings => findings::SCHEMA,
    };
    output::data(schema)?;
    Ok(ExitCode::SUCCESS)
}
