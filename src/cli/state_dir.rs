//! The directory of `serve --embedded`, which one process uses at a time.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use tracing::warn;

use super::atomic_file;
use super::sources::text_content;

/// The file with the id of the process that uses the directory.
const PROCESS: &str = "pid";
/// Maximum size of that file.
const LONGEST: u64 = 32;

/// A directory that no other process uses until this is dropped, or until the process ends.
#[derive(Debug)]
pub(super) struct StateDir {
    pub path: PathBuf,
    _locked: File,
}

impl StateDir {
    /// Creates and locks a directory.
    ///
    /// # Errors
    /// When it cannot be created, or another process uses it.
    pub(super) fn lock(path: &Path) -> Result<Self> {
        let cannot = |what: &str| format!("cannot {what} the directory {} (--state-dir)", path.display());
        fs::create_dir_all(path).with_context(|| cannot("create"))?;
        let folder = File::open(path).with_context(|| cannot("read"))?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "{} uses the directory {}, and its kubeconfig would be replaced; give this server another --state-dir",
                user_of(path),
                path.display()
            ),
            // Some network file systems have no locks of directories.
            Err(TryLockError::Error(error)) => warn!(%error, path = %path.display(), "Cannot lock the state directory"),
        }
        let process = path.join(PROCESS);
        atomic_file::write(&process, &format!("{}\n", process::id()), 0o644)
            .with_context(|| format!("cannot write {}", process.display()))?;
        Ok(StateDir { path: path.to_owned(), _locked: folder })
    }
}

/// The process that has locked a directory.
fn user_of(path: &Path) -> String {
    let id = text_content(&path.join(PROCESS), LONGEST).ok().and_then(|text| text.trim().parse::<u32>().ok());
    id.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let all = tempfile::tempdir().unwrap();
        let path = all.path().join("a/b");
        let locked = StateDir::lock(&path).unwrap();
        let error = StateDir::lock(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("process {} uses the directory ", process::id())), "{error}");
        assert!(error.ends_with("--state-dir"), "{error}");
        for text in ["", "x\n", "1111111111111111111111111111111111111111"] {
            fs::write(path.join(PROCESS), text).unwrap();
            let error = StateDir::lock(&path).unwrap_err().to_string();
            assert!(error.starts_with("another process uses"), "{error}");
        }
        StateDir::lock(all.path()).unwrap();
        drop(locked);
        assert_eq!(StateDir::lock(&path).unwrap().path, path);
    }
}
