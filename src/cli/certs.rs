//! `certs`: a development CA and a serving certificate.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::CertsArgs;
use super::atomic_file;
use super::output::{self, Text};
use tls::authority::IssuedCertificate;

/// Writes the four files; keys are readable by their owner alone.
pub(super) fn run(options: &CertsArgs) -> Result<ExitCode> {
    let issued = IssuedCertificate::generate(&options.hosts, options.days).context("cannot create certificates")?;
    fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot create the directory {}", options.out.display()))?;
    let files = [
        ("ca.crt", &issued.authority, 0o644),
        ("ca.key", &issued.authority_key, 0o600),
        ("tls.crt", &issued.certificate, 0o644),
        ("tls.key", &issued.key, 0o600),
    ];
    let existing: Vec<_> = files.iter().map(|(name, ..)| options.out.join(name)).filter(|path| path.exists()).collect();
    if let Some(path) = existing.first().filter(|_| !options.force) {
        bail!("{} already exists; use --force to replace it", path.display());
    }
    let mut written = Text::default();
    for (name, text, mode) in files {
        let path = options.out.join(name);
        atomic_file::write(&path, text, mode).with_context(|| format!("cannot write {}", path.display()))?;
        written.line(path.display());
    }
    output::text(&written)?;
    Ok(ExitCode::SUCCESS)
}
