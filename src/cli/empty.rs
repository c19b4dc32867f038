//! Input without objects for a command. This is probably a mistake, so it is an error without `--allow-empty`.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use super::UNUSABLE;
use super::args;
use super::files::FileInput;
use super::offline::CommandInput;
use super::output;
use engine::file_review::LoadedObject;
use schema::field::enumerated;

/// The objects that a command looks for in its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedInput {
    Judged,
    Defaulted,
    Rendered,
    Planned,
    Simulated,
    /// The state before a change.
    Compared,
}

impl fmt::Display for ExpectedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExpectedInput::Judged => "nothing was checked: no Cluster and no ClusterClass was found",
            ExpectedInput::Defaulted => "nothing was defaulted: no Cluster and no ClusterClass was found",
            ExpectedInput::Rendered => "nothing was rendered: no Cluster with spec.topology was found",
            ExpectedInput::Planned => {
                "nothing was planned: no Cluster with spec.topology and no ClusterClass was found"
            }
            ExpectedInput::Simulated => "nothing was simulated: no Cluster with spec.topology was found",
            ExpectedInput::Compared => "nothing was planned: --from or --live gives nothing to compare with",
        })
    }
}

/// Prints that a command found no such objects, and which ones it found; returns the exit code, unless the user accepts
/// that.
///
/// # Errors
/// When standard error cannot be written.
pub(super) fn check_found(
    wanted: ExpectedInput,
    case: &CommandInput,
    flags: &args::InputFlags,
) -> io::Result<Option<u8>> {
    if flags.allow_empty {
        return Ok(None);
    }
    let found = holds([&*case.new, &*case.old]);
    output::message(format_args!("{wanted}; the input holds {found}; use --allow-empty if this is intended"))?;
    Ok(Some(UNUSABLE))
}

/// Prints the objects whose kind is most likely a misspelled known kind.
///
/// # Errors
/// When standard error cannot be written.
pub(super) fn report_misspelled_kinds(case: &CommandInput) -> io::Result<()> {
    let mut reported = BTreeSet::new();
    for LoadedObject { file, manifest, .. } in case.inputs().into_iter().flat_map(|input| &input.objects) {
        let Some((kind, api_version)) = manifest.meant() else { continue };
        if !reported.insert((file, manifest.line, manifest.identity())) {
            continue;
        }
        let written = &manifest.api_version;
        let version = if api_version == *written { String::new() } else { format!(" of {api_version}") };
        output::message(format_args!(
            "{file}:{}: the kind {} of {written} is unknown, so the object was skipped; did you mean {}{version}?",
            manifest.line,
            manifest.kind,
            kind.name()
        ))?;
    }
    Ok(())
}

/// The kinds of the objects, each once: `only Deployment of apps/v1`.
pub(super) fn holds<'a>(inputs: impl IntoIterator<Item = &'a FileInput>) -> String {
    let objects = inputs.into_iter().flat_map(|input| &input.objects);
    let kinds: BTreeSet<_> =
        objects.map(|LoadedObject { manifest, .. }| (&*manifest.kind, &*manifest.api_version)).collect();
    match kinds.is_empty() {
        true => "no objects".to_owned(),
        false => {
            format!("only {}", enumerated(kinds.into_iter().map(|(kind, version)| format!("{kind} of {version}"))))
        }
    }
}
