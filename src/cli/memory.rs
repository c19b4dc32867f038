//! How much memory there is, and what becomes of it (DEC-44).
//!
//! ```text
//! limit of the container ─► 60 % ─┬─► bodies of reviews        a quarter, at most 256 MiB
//!                                 ├─► bodies of conversions    an eighth, at most 128 MiB
//!                                 ├─► compiled classes         a third, at most 256 MiB
//!                                 └─► reviews in progress      the rest: so many threads for long work
//! ```

use std::fs;

/// What is taken as the limit where there is none.
const WITHOUT_LIMIT: usize = 1 << 30;

/// What bodies of reviews, and compiled classes, take at most; bodies of conversions take half of it.
const MOST: usize = 256 << 20;

/// What the review of a ClusterClass takes at most: two objects of 3 MiB, decoded, and what is compiled of them.
const REVIEW: usize = 80 << 20;

/// What each user of memory may have, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub bodies: usize,
    pub conversions: usize,
    pub classes: usize,
    /// How many threads may judge large objects and ClusterClasses.
    pub threads: usize,
}

impl Shares {
    /// The shares of a process with this limit, on so many processors.
    pub(super) fn of(limit: usize, processors: usize) -> Self {
        let all = limit / 100 * 60;
        let (bodies, conversions, classes) = ((all / 4).min(MOST), (all / 8).min(MOST / 2), (all / 3).min(MOST));
        let left = all - bodies - conversions - classes;
        // One processor stays with the reviews of Clusters.
        let threads = (left / REVIEW).min(processors.saturating_sub(1)).max(1);
        Shares { bodies, conversions, classes, threads }
    }
}

/// The limit of the container that the process runs in.
pub(super) fn limit() -> usize {
    const FILES: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let read = |file: &str| fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
    // Version 1 writes a number beyond all memory where there is no limit.
    FILES.into_iter().find_map(read).filter(|limit| *limit < 1 << 50).unwrap_or(WITHOUT_LIMIT)
}

/// Reads a size as Kubernetes writes one: bytes, or with Ki, Mi, Gi.
///
/// # Errors
/// When it is not such a size, or less than 64Mi.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let wrong = || format!("{text:?} is not a size such as 512Mi or 1Gi");
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let (number, shift) =
        units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift))).unwrap_or((text, 0));
    let number: usize = number.parse().map_err(|_| wrong())?;
    let size = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if size < 64 << 20 { Err(format!("{text} is less than 64Mi, which is too little to run")) } else { Ok(size) }
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
                let Shares { bodies, conversions, classes, threads } = Shares::of(limit, processors);
                let sum = bodies + conversions + classes + threads * REVIEW;
                // One review has to be possible, however little there is.
                assert!(sum <= limit / 100 * 60 || threads == 1, "{limit} {processors}: {sum}");
                assert!(threads >= 1 && threads < processors.max(2) && bodies <= MOST && classes <= MOST);
            }
        }
        let shares = Shares::of(1 << 30, 8);
        let in_mib = [shares.bodies, shares.conversions, shares.classes].map(|bytes| bytes / MIB);
        assert_eq!((in_mib, shares.threads), ([153, 76, 204], 2));
        let ample = Shares { bodies: MOST, conversions: MOST / 2, classes: MOST, threads: 7 };
        assert_eq!(Shares::of(8 << 30, 8), ample);
    }

    #[test]
    fn sizes_are_written_as_kubernetes_writes_them() {
        for (text, want) in
            [("134217728", 128 * MIB), ("131072Ki", 128 * MIB), ("512Mi", 512 * MIB), ("2Gi", 2048 * MIB)]
        {
            assert_eq!(size(text), Ok(want), "{text}");
        }
        for text in ["", "Gi", "1.5Gi", "-1Gi", "1G", "1Mi", "99999999999999999999Gi", "18014398509481984Gi"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
