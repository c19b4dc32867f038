//! Flags about Runtime Extensions that commands call.

use std::path::PathBuf;

use clap::Args;

use crate::extensions::Address;
use crate::hub::naming;

/// `--extension` and what goes with it.
#[derive(Clone, Debug, Default, Args)]
pub struct Extensions {
    /// Extension to call for external patches. NAME is the name of its ExtensionConfig: --extension lab=… answers for generate.lab and
    /// validate.lab. URL is an extension that runs, such as https://localhost:9443; FILE has answers that --record wrote. May be
    /// repeated.
    ///
    /// The handlers, their timeouts and their failure policies come from the Discovery of the extension. If the files have an
    /// ExtensionConfig of that name, its settings are sent. Without an answer the output is incomplete.
    #[arg(long = "extension", value_name = "NAME=URL|FILE", value_parser = named_extension)]
    pub extensions: Vec<NamedExtension>,
    /// CA certificates in PEM form for the URLs of --extension. Default: those of the system.
    #[arg(long, value_name = "FILE", requires = "extensions")]
    pub extension_ca: Option<PathBuf>,
    /// Write requests and answers of --extension to this file, for --extension NAME=FILE. It has the values of variables, secrets
    /// included.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// An extension, and what answers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedExtension {
    /// The name of the ExtensionConfig.
    pub name: String,
    pub source: Source,
}

/// What answers for an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Running(Address),
    Recorded(PathBuf),
}

fn named_extension(text: &str) -> Result<NamedExtension, String> {
    let (name, source) = text.split_once('=').ok_or("expected NAME=URL or NAME=FILE")?;
    if let Some(fault) = naming::dns_label_faults(name).first() {
        return Err(format!("the name {name:?} of an ExtensionConfig {fault}"));
    }
    let source = match source {
        "" => return Err("expected a URL or a file after =".to_owned()),
        url if url.contains("://") => Source::Running(Address::parse(url).map_err(|error| error.to_string())?),
        file => Source::Recorded(file.into()),
    };
    Ok(NamedExtension { name: name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_has_a_name_and_a_url_or_a_file() {
        let url = "https://localhost:9443/a?b=c";
        let running = Source::Running(Address::parse(url).unwrap());
        let read = |text: &str| named_extension(text).map(|named| (named.name, named.source));
        assert_eq!(read(&format!("lab={url}")), Ok(("lab".to_owned(), running)));
        assert_eq!(read("lab=a=b.json"), Ok(("lab".to_owned(), Source::Recorded("a=b.json".into()))));
        for (wrong, words) in [
            ("lab", "expected NAME=URL or NAME=FILE"),
            ("lab=", "expected a URL or a file"),
            ("generate.lab=x", "\"generate.lab\""),
            ("=x", "\"\""),
            ("lab=http://localhost:9443", "must begin with https://"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
