//! Flags about Runtime Extensions that commands call.

use std::path::PathBuf;

use clap::Args;

use super::ArgumentError;
use engine::extensions::BaseUrl;
use model::hub::naming;

/// `--extension` and what goes with it.
#[derive(Clone, Debug, Default, Args)]
pub struct ExtensionFlags {
    /// Extension to call for external patches. NAME is the name of its ExtensionConfig: --extension lab=… answers for
    /// generate.lab and validate.lab. URL is an extension that runs, such as https://localhost:9443; FILE has answers
    /// that --record wrote. May be repeated.
    ///
    /// The handlers, their timeouts and their failure policies come from the Discovery of the extension. If the files
    /// have an ExtensionConfig of that name, its settings are sent. Without an answer the output is incomplete.
    #[arg(long = "extension", value_name = "NAME=URL|FILE", value_parser = named_extension)]
    pub extensions: Vec<NamedExtension>,
    /// CA certificates in PEM form for the URLs of --extension. Default: those of the system.
    #[arg(long, value_name = "FILE")]
    pub extension_ca: Option<PathBuf>,
    /// Write requests and answers of --extension to this file, for --extension NAME=FILE. It has the values of
    /// variables, secrets included.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Whether handlers of lifecycle hooks are called, as [`HookFlags`] set.
    #[arg(skip)]
    pub call_hooks: bool,
}

impl ExtensionFlags {
    /// The same, in which `others` replace extensions of the same name.
    #[must_use]
    pub fn over(&self, others: &[NamedExtension]) -> Self {
        let is_kept = |one: &&NamedExtension| others.iter().all(|other| other.name != one.name);
        let extensions = self.extensions.iter().filter(is_kept).chain(others).cloned().collect();
        ExtensionFlags { extensions, ..self.clone() }
    }

    /// The same, in which handlers of lifecycle hooks may be called.
    #[must_use]
    pub fn with(&self, hooks: &HookFlags) -> Self {
        ExtensionFlags { call_hooks: hooks.call_hooks, ..self.clone() }
    }
}

/// Lifecycle hooks of a command that looks ahead.
#[derive(Clone, Debug, Default, Args)]
pub struct HookFlags {
    /// Call the lifecycle hooks of extensions too, and show what they hold. They are told about upgrades that have not
    /// begun, so use it with extensions that only answer. Without it, hooks pass, except those that a file of
    /// --extension answers.
    #[arg(long)]
    pub call_hooks: bool,
}

/// Extensions of one side of a plan.
#[derive(Clone, Debug, Default, Args)]
pub struct SideExtensionFlags {
    /// Like --extension, for the current state only: the extension as it is. With --extension-to, the plan shows what
    /// an upgrade of the extension changes; --from and --to may then be the same files.
    #[arg(long, value_name = "NAME=URL|FILE", value_parser = named_extension, conflicts_with = "record")]
    pub extension_from: Vec<NamedExtension>,
    /// Like --extension, for the desired state only.
    #[arg(long, value_name = "NAME=URL|FILE", value_parser = named_extension, conflicts_with = "record")]
    pub extension_to: Vec<NamedExtension>,
}

impl SideExtensionFlags {
    /// Whether the sides have different extensions.
    pub fn differ(&self) -> bool {
        !(self.extension_from.is_empty() && self.extension_to.is_empty())
    }
}

/// An extension, and the source of its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedExtension {
    /// The name of the ExtensionConfig.
    pub name: String,
    pub source: ExtensionSource,
}

/// The source of the answers of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtensionSource {
    Running(BaseUrl),
    Recorded(PathBuf),
}

/// A running extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningExtension {
    /// The name of the ExtensionConfig.
    pub name: String,
    pub address: BaseUrl,
}

/// The name of an extension whose name does not matter.
const UNNAMED: &str = "extension";

fn named_extension(text: &str) -> Result<NamedExtension, ArgumentError> {
    let (name, source) = text.split_once('=').ok_or(ArgumentError::Form("expected NAME=URL or NAME=FILE"))?;
    check_name(name)?;
    let source = match source {
        "" => return Err(ArgumentError::Form("expected a URL or a file after =")),
        url if url.contains("://") => ExtensionSource::Running(BaseUrl::parse(url)?),
        file => ExtensionSource::Recorded(file.into()),
    };
    Ok(NamedExtension { name: name.to_owned(), source })
}

/// `[NAME=]URL`. A URL may have a `=` too, after its scheme.
pub(super) fn running_extension(text: &str) -> Result<RunningExtension, ArgumentError> {
    let (name, url) = match text.split_once('=') {
        Some((name, url)) if !name.contains("://") => (name, url),
        _ => (UNNAMED, text),
    };
    check_name(name)?;
    Ok(RunningExtension { name: name.to_owned(), address: BaseUrl::parse(url)? })
}

fn check_name(name: &str) -> Result<(), ArgumentError> {
    match naming::dns_label_faults(name).first() {
        Some(fault) => Err(ArgumentError::ExtensionName { name: name.to_owned(), fault: fault.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_extension_may_have_a_name() {
        let address = |url: &str| BaseUrl::parse(url).unwrap();
        let read = |text: &str| running_extension(text).map(|one| (one.name, one.address));
        let (plain, query) = ("https://localhost:9443", "https://localhost:9443/a?b=c");
        assert_eq!(read(plain), Ok((UNNAMED.to_owned(), address(plain))));
        assert_eq!(read(query), Ok((UNNAMED.to_owned(), address(query))));
        assert_eq!(read(&format!("lab={query}")), Ok(("lab".to_owned(), address(query))));
        for (wrong, words) in
            [("lab", "must be a URL such as https://"), ("a.b=https://c", "\"a.b\""), ("lab=", "https://")]
        {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_extension_has_a_name_and_a_url_or_a_file() {
        let url = "https://localhost:9443/a?b=c";
        let running = ExtensionSource::Running(BaseUrl::parse(url).unwrap());
        let read = |text: &str| named_extension(text).map(|named| (named.name, named.source));
        assert_eq!(read(&format!("lab={url}")), Ok(("lab".to_owned(), running)));
        assert_eq!(read("lab=a=b.json"), Ok(("lab".to_owned(), ExtensionSource::Recorded("a=b.json".into()))));
        for (wrong, words) in [
            ("lab", "expected NAME=URL or NAME=FILE"),
            ("lab=", "expected a URL or a file"),
            ("generate.lab=x", "\"generate.lab\""),
            ("=x", "\"\""),
            ("lab=http://localhost:9443", "must begin with https://"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
