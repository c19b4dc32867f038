//! The files that commands read: the selection of files of a folder, and size limits (DEC-65).
//!
//! A path of the command line may be anything that can be read, such as a pipe. The files of a folder may come from the
//! author of a merge request: only regular ones are read, and no link leads out of the folder.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, DirEntry};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::args::LinkFlags;

/// Maximum size of one file.
pub(super) const FILE_LIMIT: u64 = 64 << 20;
/// Maximum size of all files of a command.
pub(super) const TOTAL_LIMIT: u64 = 512 << 20;

/// A file below a folder that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedFile {
    pub path: PathBuf,
    pub reason: String,
}

/// The limits of reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    follows_links: bool,
    /// The bytes that are left for further files.
    left: u64,
}

impl Default for Sources {
    fn default() -> Self {
        Sources { follows_links: false, left: TOTAL_LIMIT }
    }
}

impl Sources {
    /// The limits of a command.
    pub(super) fn new(links: &LinkFlags) -> Self {
        Sources { follows_links: links.follow_links, ..Sources::default() }
    }

    /// The text of standard input.
    ///
    /// # Errors
    /// When it cannot be read, is too long, or is not UTF-8.
    pub(super) fn standard_input(&mut self) -> Result<String> {
        self.text(io::stdin(), "standard input")
    }

    /// The text of a file.
    ///
    /// # Errors
    /// When it cannot be read, is too long, or is not UTF-8.
    pub(super) fn file(&mut self, path: &Path) -> Result<String> {
        let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.text(file, path.display())
    }

    fn text(&mut self, source: impl Read, name: impl Display) -> Result<String> {
        let content = bounded(source, FILE_LIMIT.min(self.left)).with_context(|| format!("cannot read {name}"))?;
        let Some(bytes) = content else {
            match self.left < FILE_LIMIT {
                true => bail!("cannot read {name}: all files together have more than {} MiB", TOTAL_LIMIT >> 20),
                false => bail!("cannot read {name}: it has more than {} MiB", FILE_LIMIT >> 20),
            }
        };
        self.left = self.left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        String::from_utf8(bytes).with_context(|| format!("{name} is not text in UTF-8"))
    }

    /// A file itself, or the manifests below a folder, sorted by name. Names that begin with a dot are skipped.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub(super) fn list(&self, path: &Path) -> Result<Vec<Result<PathBuf, RefusedFile>>> {
        let unreadable = || format!("cannot read {}", path.display());
        if !fs::metadata(path).with_context(unreadable)?.is_dir() {
            return Ok(vec![Ok(path.to_owned())]);
        }
        let root = fs::canonicalize(path).with_context(unreadable)?;
        let mut walk = Walk { root, follows_links: self.follows_links, folders: BTreeSet::new(), files: Vec::new() };
        walk.folder(path)?;
        Ok(walk.files)
    }
}

/// The content of a file of another format, such as certificates.
///
/// # Errors
/// When it cannot be read, or has more than `most` bytes.
pub(super) fn content(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {} MiB", most >> 20));
    bounded(fs::File::open(path)?, most)?.ok_or_else(too_large)
}

/// The content of a file of another format that is text, such as timings and recordings.
///
/// # Errors
/// When it cannot be read, is too large, or is not UTF-8.
pub(super) fn text_content(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(content(path, most)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The content of a source; `None` if it has more than `most` bytes.
fn bounded(source: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let read = source.take(most.saturating_add(1)).read_to_end(&mut content)?;
    Ok((u64::try_from(read).unwrap_or(u64::MAX) <= most).then_some(content))
}

/// The search for manifests below a folder.
struct Walk {
    /// The real path of the folder.
    root: PathBuf,
    follows_links: bool,
    /// The real paths of the folders that were searched; a link may lead back to one.
    folders: BTreeSet<PathBuf>,
    files: Vec<Result<PathBuf, RefusedFile>>,
}

impl Walk {
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let unreadable = || format!("cannot read {}", folder.display());
        if self.follows_links && !self.folders.insert(fs::canonicalize(folder).with_context(unreadable)?) {
            return Ok(());
        }
        let entries = fs::read_dir(folder).with_context(unreadable)?.collect::<io::Result<Vec<_>>>();
        let mut entries = entries.with_context(unreadable)?;
        entries.retain(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type().with_context(unreadable)?);
            if kind.is_dir() {
                self.folder(&path)?;
            } else if kind.is_symlink() {
                self.link(path)?;
            } else if is_manifest(&path) {
                self.files.push(if kind.is_file() { Ok(path) } else { not_regular(path) });
            }
        }
        Ok(())
    }

    fn link(&mut self, path: PathBuf) -> Result<()> {
        let refused = |reason: String| Err(RefusedFile { path: path.clone(), reason });
        let file = match (fs::metadata(&path), fs::canonicalize(&path)) {
            (Ok(target), _) if target.is_dir() => match self.follows_links {
                true => return self.folder(&path),
                false => return Ok(()),
            },
            _ if !is_manifest(&path) => return Ok(()),
            (Err(error), _) | (_, Err(error)) => refused(format!("the link cannot be followed: {error}")),
            (Ok(target), _) if !target.is_file() => not_regular(path),
            (Ok(_), Ok(target)) if !self.follows_links && !target.starts_with(&self.root) => refused(format!(
                "the link leads out of {}, and is not followed; --follow-links follows it",
                self.root.display()
            )),
            (Ok(_), Ok(_)) => Ok(path),
        };
        self.files.push(file);
        Ok(())
    }
}

fn not_regular(path: PathBuf) -> Result<PathBuf, RefusedFile> {
    Err(RefusedFile { path, reason: "it is not a regular file".to_owned() })
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_bytes_of_all_files_have_a_sum() {
        // DEC-65
        let mut sources = Sources { left: 10, ..Sources::default() };
        assert_eq!(sources.text(&b"123456"[..], "a").unwrap(), "123456");
        let error = sources.text(&b"12345"[..], "b").unwrap_err();
        assert_eq!(error.to_string(), "cannot read b: all files together have more than 512 MiB");
        assert_eq!(sources.text(&b"1234"[..], "c").unwrap(), "1234", "up to the limit");
        assert_eq!(sources.left, 0);
        assert_eq!(sources.text(&b""[..], "d").unwrap(), "");
    }

    #[test]
    fn a_file_that_never_ends_is_refused() {
        // DEC-65
        let mut sources = Sources::default();
        let error = sources.file(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /dev/zero: it has more than 64 MiB");
        assert_eq!(sources.left, TOTAL_LIMIT);
    }

    #[test]
    fn links_stay_in_their_folder_and_do_not_lead_in_circles() {
        // DEC-65
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("folder");
        fs::create_dir_all(folder.join("..data")).unwrap();
        fs::create_dir(all.path().join("beside")).unwrap();
        for file in ["beside/outside.yaml", "folder/..data/mounted.yaml", "folder/a.yaml", "folder/text"] {
            fs::write(all.path().join(file), "").unwrap();
        }
        for (target, link) in [
            // As a mounted ConfigMap has it.
            ("..data/mounted.yaml", "b.yaml"),
            ("../beside/outside.yaml", "c.yaml"),
            ("../beside", "d"),
            ("..", "e"),
            ("gone.yaml", "f.yaml"),
            ("../beside/outside.yaml", "g.txt"),
            ("/dev/null", "h.yaml"),
        ] {
            symlink(target, folder.join(link)).unwrap();
        }
        let list = |follow_links: bool| {
            let listed = Sources::new(&LinkFlags { follow_links }).list(&folder).unwrap();
            let name = |path: &Path| path.strip_prefix(&folder).unwrap().display().to_string();
            let shown = listed.into_iter().map(|file| match file {
                Ok(path) => name(&path),
                Err(RefusedFile { path, reason }) => format!("{}: {}", name(&path), &reason[..reason.len().min(14)]),
            });
            shown.collect::<Vec<_>>()
        };
        let (gone, device) = ("f.yaml: the link canno", "h.yaml: it is not a re");
        assert_eq!(list(false), ["a.yaml", "b.yaml", "c.yaml: the link leads", gone, device]);
        assert_eq!(list(true), ["a.yaml", "b.yaml", "c.yaml", "d/outside.yaml", gone, device]);
    }
}
