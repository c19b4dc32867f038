//! Paths from the root of a repository, as code scanning and annotations need them.

use std::path::{Component, Path, PathBuf};

use crate::cli::files::STANDARD_INPUT;

/// The repository that the working directory is in.
#[derive(Debug)]
pub(super) struct Repository {
    directory: PathBuf,
    /// `None` outside of a repository.
    root: Option<PathBuf>,
}

impl Repository {
    pub(super) fn find() -> Self {
        let directory = std::env::current_dir().unwrap_or_default();
        let root = directory.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned);
        Repository { directory, root }
    }

    /// The path of a file from the root, or as it was given if the file is in no repository.
    pub(super) fn path(&self, file: &str) -> String {
        if file == STANDARD_INPUT {
            return file.to_owned();
        }
        let mut whole = PathBuf::new();
        for component in self.directory.join(file).components() {
            match component {
                Component::ParentDir => drop(whole.pop()),
                Component::CurDir => {}
                other => whole.push(other),
            }
        }
        let relative = self.root.as_ref().and_then(|root| whole.strip_prefix(root).ok());
        // A file that was given as ./a is a.
        let given = || file.strip_prefix("./").unwrap_or(file).to_owned();
        relative.map_or_else(given, |path| path.display().to_string())
    }
}
