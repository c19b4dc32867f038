//! Atomic writes of files: a reader sees the old file or the new one, and a link is replaced instead of its target
//! (DEC-65).

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file; `mode` is the mode of a new file, before the umask.
///
/// # Errors
/// When the folder or the file cannot be written.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    write_with(path, mode, |file| file.write_all(text.as_bytes()))
}

/// The same with a function that writes the content.
///
/// # Errors
/// When the folder or the file cannot be written.
pub(super) fn write_with(
    path: &Path,
    mode: u32,
    content: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    if is_stream(path) {
        // A redirection to a file may have other output before it.
        return content(&mut fs::OpenOptions::new().append(true).open(path)?);
    }
    let fresh = beside(path).ok_or_else(|| io::Error::new(io::ErrorKind::IsADirectory, "it names no file"))?;
    let _ = fs::remove_file(&fresh);
    let written = write_new(&fresh, mode, content).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

fn write_new(path: &Path, mode: u32, content: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    content(&mut file)?;
    file.sync_all()
}

/// A name for the new file that no other process uses.
fn beside(path: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(format!(".{}.new", std::process::id()));
    Some(path.with_file_name(name))
}

/// Whether a path is a pipe or a device, such as `/dev/stdout`, which cannot be replaced. A link to one counts only in
/// the folders of the system: in others another user may have made it.
fn is_stream(path: &Path) -> bool {
    let is_other = |kind: &fs::Metadata| !kind.is_file() && !kind.is_dir();
    let is_link = fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink());
    let is_of_system = || {
        let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        folder.is_some_and(|folder| folder.starts_with("/dev") || folder.starts_with("/proc"))
    };
    match is_link {
        true => is_of_system(),
        false => fs::metadata(path).is_ok_and(|kind| is_other(&kind)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_are_replaced_and_streams_are_written_to() {
        // DEC-65
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("other"), "other").unwrap();
        symlink("other", path("link")).unwrap();
        symlink("/dev/null", path("null")).unwrap();
        for name in ["link", "null", "fresh", "link"] {
            write(&path(name), "text", 0o600).unwrap();
            let kind = fs::symlink_metadata(path(name)).unwrap();
            assert_eq!((kind.is_file(), kind.permissions().mode() & 0o777), (true, 0o600), "{name}");
            assert_eq!(fs::read_to_string(path(name)).unwrap(), "text", "{name}");
        }
        assert_eq!(fs::read_to_string(path("other")).unwrap(), "other");
        write(Path::new("/dev/null"), "text", 0o600).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(is_stream(Path::new("/dev/stdout")) && is_stream(Path::new("/dev/fd/1")));
        assert!(write(&path(".."), "text", 0o600).is_err());
        let failed = write_with(&path("fails"), 0o600, |_| Err(io::Error::other("no")));
        assert!(failed.is_err() && !path("fails").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left over");
    }
}
