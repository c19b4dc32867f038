//! `--watch`: a command that runs again when one of its files changes.
//!
//! Files are looked at in intervals: events of the file system do not exist on all of them, and editors replace files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;

use super::args::LinkFlags;
use super::output;
use super::sources::Sources;
use schema::field::{a_few, counted};

/// The shortest time between two looks.
const PAUSE: Duration = Duration::from_millis(40);
/// Between two looks passes at least this many times the duration of one.
const SHARE: u32 = 20;
/// The time in which files must not change any more before they are read: editors write in several steps.
const SETTLED: Duration = Duration::from_millis(10);
/// Maximum number of such times.
const STEPS: usize = 20;
/// Maximum number of changed files that are named.
const NAMED: usize = 3;

/// The files with the time of their last change and their size; `None` for one that cannot be read.
type Snapshot = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// Runs a command at once, and after each change of the files at these paths. It ends only with an error: of the first run,
/// or because standard output is closed.
///
/// # Errors
/// When the command cannot run at all, or its output cannot be written.
pub(super) fn run_on_changes(
    paths: impl Fn() -> Vec<PathBuf>,
    links: &LinkFlags,
    run: impl Fn() -> Result<ExitCode>,
) -> Result<ExitCode> {
    let look = || look(&paths(), links);
    let mut seen = look();
    run()?;
    loop {
        output::message(format_args!("waiting for a change of {}; Ctrl-C ends", counted(seen.len(), "file")))?;
        let mut now = loop {
            let started = Instant::now();
            let now = look();
            if now != seen {
                break now;
            }
            thread::sleep(PAUSE.max(started.elapsed().saturating_mul(SHARE)));
        };
        for _ in 0..STEPS {
            thread::sleep(SETTLED);
            let next = look();
            if std::mem::replace(&mut now, next) == now {
                break;
            }
        }
        output::message(format_args!("changed: {}", a_few(&differences(&seen, &now), NAMED)))?;
        seen = now;
        if let Err(error) = run() {
            let is_closed = |cause: &io::Error| cause.kind() == ErrorKind::BrokenPipe;
            if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
                return Err(error);
            }
            // A file may be back after the next change.
            output::message(format_args!("{error:#}"))?;
        }
    }
}

fn look(paths: &[PathBuf], links: &LinkFlags) -> Snapshot {
    let sources = Sources::new(links);
    let files = |path: &PathBuf| match sources.list(path) {
        Ok(files) => files.into_iter().map(|file| file.unwrap_or_else(|refused| refused.path)).collect(),
        Err(_) => vec![path.clone()],
    };
    paths.iter().flat_map(files).map(|path| (path.clone(), state(&path))).collect()
}

fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// The names of the files that differ.
fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let is_other = |(path, state): &(&PathBuf, &Option<_>)| before.get(*path) != Some(*state);
    let changed = after.iter().filter(is_other).map(|(path, _)| path);
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    changed.chain(gone).map(|path| path.display().to_string()).collect()
}
