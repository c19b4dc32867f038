//! `crds`: the CustomResourceDefinitions of our kinds, and the OpenAPI document of the hooks of extensions.

use std::process::ExitCode;

use anyhow::Result;

use super::args::{CrdsArgs, Family};
use super::output;
use engine::extensions::openapi;
use model::crd;

/// Prints the definitions as one YAML stream.
pub(super) fn run(options: &CrdsArgs) -> Result<ExitCode> {
    if options.hooks {
        output::data(&serde_saphyr::to_string(&openapi::document())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let definitions = match options.only {
        None => crd::definitions(),
        Some(Family::ClusterApi) => crd::cluster_api(),
        Some(Family::EmbeddedProvider) => crd::embedded_provider(),
    };
    let mut text = String::new();
    for definition in definitions {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&definition)?);
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
