//! Objects from files, folders and standard input.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::wire::manifest::{self, Manifest};
use crate::yaml;

/// An object and the file that it came from.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub file: String,
    pub manifest: Manifest,
}

/// A document that cannot be read: `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    file: String,
    reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.reason)
    }
}

/// Everything that some paths hold.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// The objects in the order of paths and documents; files of a folder are sorted by name.
    pub objects: Vec<Loaded>,
    /// What could not be read, besides the objects that could.
    pub unreadable: Vec<Unreadable>,
}

/// Reads files, folders and `-`.
///
/// # Errors
/// When a path cannot be read at all. A broken document is no error; it is listed in the result.
pub(super) fn read(paths: &[PathBuf]) -> Result<Input> {
    let mut input = Input::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            input.add("<stdin>", &text);
            continue;
        }
        for file in files_of(path)? {
            if seen.insert(file.clone()) {
                let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                let text =
                    String::from_utf8(bytes).with_context(|| format!("{} is not text in UTF-8", file.display()))?;
                input.add(&file.display().to_string(), &text);
            }
        }
    }
    Ok(input)
}

impl Input {
    fn add(&mut self, file: &str, text: &str) {
        for document in yaml::documents(text) {
            let objects = document.map_err(|error| error.to_string());
            match objects.and_then(|document| manifest::objects(document).map_err(|error| error.to_string())) {
                Ok(objects) => {
                    self.objects.extend(objects.into_iter().map(|manifest| Loaded { file: file.to_owned(), manifest }));
                }
                Err(reason) => self.unreadable.push(Unreadable { file: file.to_owned(), reason }),
            }
        }
    }
}

/// A file itself, or the manifests below a folder.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let kind = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        entries.push(entry.with_context(|| format!("cannot read {}", path.display()))?.path());
    }
    entries.sort();
    for entry in entries {
        let is_manifest =
            entry.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if entry.is_dir() {
            files.extend(files_of(&entry)?);
        } else if is_manifest {
            files.push(entry);
        }
    }
    Ok(files)
}
