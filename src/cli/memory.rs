//! The memory limit, and how it is divided (DEC-44).
//!
//! ```text
//! limit of the container ─┬─► 60 % ─┬─► bodies of reviews        a fifth, at most 256 MiB
//!                         │         ├─► bodies of conversions    a tenth, at most 128 MiB
//!                         │         ├─► compiled classes         a fifth, at most 256 MiB
//!                         │         ├─► schemas of providers     a twentieth, at most 32 MiB
//!                         │         ├─► templates of classes     a twelfth, at most 64 MiB
//!                         │         ├─► computed topologies      a quarter
//!                         │         └─► work in progress         the rest, divided among threads for long work
//!                         └─► 20 % ───► connections              uncharged memory of each connection
//! ```
//!
//! A connection takes a file descriptor as well, and some of those stay for everything else.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The assumed limit if there is none.
const WITHOUT_LIMIT: usize = 1 << 30;

/// Maximum memory of bodies of reviews, and of compiled classes; bodies of conversions get half of it.
const MOST: usize = 256 << 20;

/// Maximum memory of compiled schemas of providers' kinds.
const MOST_SCHEMAS: usize = 32 << 20;

/// Maximum memory of the templates of classes.
const MOST_TEMPLATES: usize = 64 << 20;

/// Maximum memory of the review of a ClusterClass: two objects of 3 MiB, decoded and compiled.
const REVIEW: usize = 80 << 20;

/// Maximum bytes of the conversion of a large body besides the body: its 32 MiB converted, the answer, and one decoded
/// object.
const CONVERSION: usize = 144 << 20;

/// Maximum memory of a connection besides the bodies of its requests: unread bytes, its TLS state, and two requests.
const CONNECTION: usize = 76 << 10;

/// File descriptors for everything but connections: watches, files, and connections that are about to close.
const OTHER_FILES: usize = 192;

/// The fewest file descriptors with which everything works: those for everything but connections, and the fewest
/// connections.
pub(super) const LEAST_FILES: usize = OTHER_FILES + 32;

/// Maximum number of connections of each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connections {
    pub reviews: usize,
    pub conversions: usize,
    pub probes: usize,
}

impl Connections {
    /// The `wanted` connections, or fewer if this memory limit and number of file descriptors allow no more.
    pub(super) fn within(wanted: usize, limit: usize, files: usize) -> Self {
        let most = (limit / 5 / CONNECTION).min(files.saturating_sub(OTHER_FILES));
        let (conversions, probes) = ((most / 5).clamp(8, 512), (most / 16).clamp(8, 64));
        let reviews = wanted.min(most.saturating_sub(conversions + probes).max(16));
        Connections { reviews, conversions, probes }
    }
}

/// Raises the limit of open files as far as possible, and returns it.
pub(super) fn files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Without success it stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current;
    files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// The memory shares of the parts of the process, in bytes; schemas are those of providers' kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub bodies: usize,
    pub conversions: usize,
    pub classes: usize,
    pub schemas: usize,
    pub templates: usize,
    /// Computations of topologies, in reviews and controllers (DEC-58).
    pub computations: usize,
    /// Number of threads for reviews of large objects and ClusterClasses.
    pub threads: usize,
    /// Number of threads for conversions of large bodies.
    pub converting: usize,
}

impl Shares {
    /// The shares of a process with this memory limit and number of processors.
    pub(super) fn within(limit: usize, processors: usize) -> Self {
        let all = limit / 100 * 60;
        let (bodies, conversions, classes) = ((all / 5).min(MOST), (all / 10).min(MOST / 2), (all / 5).min(MOST));
        let (schemas, templates) = ((all / 20).min(MOST_SCHEMAS), (all / 12).min(MOST_TEMPLATES));
        let computations = all / 4;
        let converting = if conversions == MOST / 2 { 2.min(processors) } else { 1 };
        let kept = bodies + conversions + classes + schemas + templates + computations;
        let left = (all - kept).saturating_sub(converting * CONVERSION);
        // One processor stays with the reviews of Clusters.
        let threads = (left / REVIEW).min(processors.saturating_sub(1)).max(1);
        Shares { bodies, conversions, classes, schemas, templates, computations, threads, converting }
    }
}

/// The limit of the container that the process runs in.
pub(super) fn limit() -> usize {
    const FILES: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let read = |file: &str| fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
    // Version 1 writes a number beyond all memory where there is no limit.
    FILES.into_iter().find_map(read).filter(|limit| *limit < 1 << 50).unwrap_or(WITHOUT_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn all_shares_together_stay_below_the_limit() {
        // DEC-44
        for limit in [64 * MIB, 128 * MIB, 512 * MIB, 1 << 30, 4 << 30, 64 << 30] {
            for processors in [1, 2, 8, 128] {
                let Shares { bodies, conversions, classes, schemas, templates, computations, threads, converting } =
                    Shares::within(limit, processors);
                let kept = bodies + conversions + classes + schemas + templates + computations;
                let sum = kept + threads * REVIEW + converting * CONVERSION;
                // One review and one conversion have to be possible, however little there is.
                assert!(sum <= limit / 100 * 60 || threads == 1, "{limit} {processors}: {sum}");
                assert!(threads >= 1 && threads < processors.max(2) && bodies <= MOST && classes <= MOST);
            }
        }
        let shares = Shares::within(1 << 30, 8);
        let kept = [shares.bodies, shares.conversions, shares.classes, shares.schemas, shares.templates];
        assert_eq!((kept.map(|bytes| bytes / MIB), shares.threads, shares.converting), ([122, 61, 122, 30, 51], 1, 1));
        assert_eq!(shares.computations / MIB, 153);
        let ample = Shares {
            bodies: MOST,
            conversions: MOST / 2,
            classes: MOST,
            schemas: MOST_SCHEMAS,
            templates: MOST_TEMPLATES,
            computations: (8 << 30) / 100 * 60 / 4,
            threads: 7,
            converting: 2,
        };
        assert_eq!(Shares::within(8 << 30, 8), ample);
    }

    #[test]
    fn all_connections_together_fit_into_memory_and_the_table_of_files() {
        let all = |reviews, conversions, probes| Connections { reviews, conversions, probes };
        assert_eq!(Connections::within(2048, 1 << 30, 1 << 20), all(2048, 512, 64));
        assert_eq!(Connections::within(16, 1 << 30, 1 << 20), all(16, 512, 64));
        for limit in [64 * MIB, 128 * MIB, 512 * MIB, 1 << 30, 64 << 30] {
            for files in [300, 1024, 4096, usize::MAX] {
                let Connections { reviews, conversions, probes } = Connections::within(100_000, limit, files);
                let sum = reviews + conversions + probes;
                assert!(sum * CONNECTION <= limit / 5 && sum <= files - OTHER_FILES, "{limit} {files}: {sum}");
                assert!(reviews > conversions && conversions > probes, "{limit} {files}: {reviews}");
            }
        }
        assert_eq!(Connections::within(2048, 1 << 30, 10), all(16, 8, 8), "too few files are still tried");
    }
}
