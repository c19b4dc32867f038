//! Kubernetes versions: strict and tolerant parsing, precedence, and the orders that upgrades need.
//!
//! [Semantic Versioning 2.0.0](https://semver.org/spec/v2.0.0.html) as Cluster API compares it (VER-001 to VER-006,
//! `docs/rules.md`). The `semver` crate has the numbers and identifiers; tolerant input and an order of builds are
//! here.

mod constraint;
mod loose;
mod text;

pub use constraint::{Constraint, ConstraintError};
pub use loose::{LooseVersion, LooseVersionError};
pub use text::VersionText;

use std::cmp::Ordering;
use std::fmt;

use semver::{BuildMetadata, Prerelease, Version};

/// A parsed Kubernetes version.
///
/// Two values are equal when they are the *same version* (VER-006): numbers, prerelease and build all equal. A leading
/// `v` and zeros that only the tolerant parser takes make no difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KubeVersion(Version);

/// Why a text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text does not follow `MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]`.
    #[error("{0}")]
    Syntax(String),
    /// A part was left out although a prerelease or build part is there.
    #[error("short version cannot contain prerelease or build metadata")]
    Short,
    /// A numeric prerelease identifier beyond 64 bits.
    #[error("prerelease number {0} does not fit 64 bits")]
    PrereleaseNumber(String),
}

/// The outcome of comparing two versions including their build metadata (VER-005).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildOrder {
    Lower,
    Same,
    Higher,
    /// Equal in precedence, with build identifiers that have no order.
    Different,
}

impl KubeVersion {
    /// `0.0.0`, which stands in for a version that does not parse (UPG-001).
    pub const ZERO: KubeVersion = KubeVersion(Version::new(0, 0, 0));

    /// A release version.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        KubeVersion(Version::new(major, minor, patch))
    }

    /// Strict semver without a leading `v` (VER-001).
    pub fn parse_strict(text: &str) -> Result<Self, VersionError> {
        let version = Version::parse(text).map_err(|error| VersionError::Syntax(error.to_string()))?;
        match version.pre.split('.').find(|id| is_numeric(id) && id.parse::<u64>().is_err()) {
            Some(id) => Err(VersionError::PrereleaseNumber(id.to_owned())),
            None => Ok(KubeVersion(version)),
        }
    }

    /// Strict semver after forgiving white space, one leading `v`, leading zeros and missing parts (VER-002).
    pub fn parse_tolerant(text: &str) -> Result<Self, VersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<&str> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(VersionError::Short);
            }
            parts.resize(3, "0");
        }
        Self::parse_strict(&parts.join("."))
    }

    /// The major number.
    pub fn major(&self) -> u64 {
        self.0.major
    }

    /// The minor number.
    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// Major, minor and patch alone (VER-004).
    #[must_use]
    pub fn release(&self) -> Self {
        KubeVersion::new(self.0.major, self.0.minor, self.0.patch)
    }

    /// Semver precedence; build metadata does not count (VER-003).
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    /// Precedence without prereleases (VER-004).
    pub fn release_order(&self, other: &Self) -> Ordering {
        self.release().precedence(&other.release())
    }

    /// Precedence first, then build identifiers (VER-005, CT-10.7).
    pub fn build_order(&self, other: &Self) -> BuildOrder {
        match self.precedence(other) {
            Ordering::Less => BuildOrder::Lower,
            Ordering::Greater => BuildOrder::Higher,
            Ordering::Equal => build_order(&self.0.build, &other.0.build),
        }
    }

    /// Whether there is a prerelease part.
    pub fn is_prerelease(&self) -> bool {
        self.0.pre != Prerelease::EMPTY
    }
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// The text of a version without its build metadata: `v1.33.1` of `v1.33.1+k0s.0`.
pub fn without_build(text: &str) -> &str {
    text.split_once('+').map_or(text, |(version, _)| version)
}

/// A part without superfluous zeros in front; one digit stays.
fn without_leading_zeros(part: &str) -> &str {
    let digits = part.len() - part.trim_start_matches('0').len();
    let followed_by_digit = part[digits..].starts_with(|c: char| c.is_ascii_digit());
    match digits {
        0 => part,
        _ if followed_by_digit => &part[digits..],
        _ => &part[digits - 1..],
    }
}

fn is_numeric(identifier: &str) -> bool {
    !identifier.is_empty() && identifier.bytes().all(|byte| byte.is_ascii_digit())
}

fn build_order(left: &BuildMetadata, right: &BuildMetadata) -> BuildOrder {
    let (mut ours, mut theirs) = (identifiers(left), identifiers(right));
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return BuildOrder::Same,
            (None, Some(_)) => return BuildOrder::Lower,
            (Some(_), None) => return BuildOrder::Higher,
            (Some(a), Some(b)) => match identifier_order(a, b) {
                BuildOrder::Same => {}
                decided => return decided,
            },
        }
    }
}

fn identifiers(build: &BuildMetadata) -> impl Iterator<Item = &str> {
    build.as_str().split('.').filter(|id| !id.is_empty())
}

/// Digits compare as numbers and stand below anything else; different words have no order.
fn identifier_order(a: &str, b: &str) -> BuildOrder {
    match (is_numeric(a), is_numeric(b)) {
        (true, true) => match numeric_order(a, b) {
            Ordering::Less => BuildOrder::Lower,
            Ordering::Equal => BuildOrder::Same,
            Ordering::Greater => BuildOrder::Higher,
        },
        (true, false) => BuildOrder::Lower,
        (false, true) => BuildOrder::Higher,
        (false, false) if a == b => BuildOrder::Same,
        (false, false) => BuildOrder::Different,
    }
}

/// The order of two decimal numbers of any length.
fn numeric_order(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KubeVersion {
        KubeVersion::parse_tolerant(text).unwrap()
    }

    #[test]
    fn strict_versions_follow_semver_to_the_letter() {
        // VER-001
        for text in
            ["1.2.3", "0.0.0", "1.30.0-rc.1+build.5", "1.2.3-0a", "1.2.3--", "1.2.3+007", "18446744073709551615.0.0"]
        {
            assert!(KubeVersion::parse_strict(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "1",
            "1.30",
            "v1.2.3",
            "01.2.3",
            "1.02.3",
            "1.2.3-",
            "1.2.3+",
            "1.2.3-a..b",
            "1.2.3-01",
            "1.2.3-a_b",
            " 1.2.3",
            "1.2.3 ",
            "1.2.3.4",
            "18446744073709551616.0.0",
            "1.2.3-18446744073709551616",
            "-1.2.3",
            "1.2.x",
        ] {
            assert!(KubeVersion::parse_strict(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tolerant_versions_accept_common_forms() {
        // VER-002
        for (text, want) in [
            ("v1.30", "v1.30.0"),
            ("1", "v1.0.0"),
            ("v01.2.3", "v1.2.3"),
            (" v1.2.3\n", "v1.2.3"),
            ("v1.002.0003", "v1.2.3"),
            ("00.00.00-rc.1", "v0.0.0-rc.1"),
            ("v1.2.3-rc.1+b.01", "v1.2.3-rc.1+b.01"),
            ("v1.2.03+x", "v1.2.3+x"),
        ] {
            assert_eq!(version(text).to_string(), want, "{text}");
        }
        for text in ["", "v", "vv1.2.3", "V1.2.3", "v1.30-rc.1", "1+b", "1..2", "v1.2.3-01", "x"] {
            assert!(KubeVersion::parse_tolerant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn precedence_is_that_of_semver_and_ignores_builds() {
        // VER-003
        let rising = [
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta",
            "1.0.0",
            "1.0.1",
            "1.1.0",
            "2.0.0",
        ];
        for (i, low) in rising.iter().enumerate() {
            for high in &rising[i + 1..] {
                assert_eq!(version(low).precedence(&version(high)), Ordering::Less, "{low} {high}");
            }
        }
        assert_eq!(version("1.0.0+a").precedence(&version("1.0.0+b")), Ordering::Equal);
    }

    #[test]
    fn release_order_forgets_prereleases() {
        // VER-004
        assert_eq!(version("1.30.1-rc.1").release_order(&version("1.30.1+x")), Ordering::Equal);
        assert_eq!(version("1.30.0").release_order(&version("1.30.1-rc.1")), Ordering::Less);
    }

    #[test]
    fn builds_have_a_partial_order() {
        // VER-005, CT-10.7
        for (a, b, want) in [
            ("1.0.0", "1.0.0", BuildOrder::Same),
            ("1.0.0+1", "1.0.0+2", BuildOrder::Lower),
            ("1.0.0+10", "1.0.0+9", BuildOrder::Higher),
            ("1.0.0+007", "1.0.0+7", BuildOrder::Same),
            ("1.0.0+1", "1.0.0+a", BuildOrder::Lower),
            ("1.0.0+a", "1.0.0+1", BuildOrder::Higher),
            ("1.0.0+a", "1.0.0+b", BuildOrder::Different),
            ("1.0.0+a.1", "1.0.0+a", BuildOrder::Higher),
            ("1.0.0", "1.0.0+a", BuildOrder::Lower),
            ("1.0.1", "1.0.0+a", BuildOrder::Higher),
            ("1.0.0+99999999999999999999", "1.0.0+99999999999999999998", BuildOrder::Higher),
        ] {
            assert_eq!(version(a).build_order(&version(b)), want, "{a} {b}");
        }
    }

    #[test]
    fn same_version_compares_every_part() {
        // VER-006
        assert_eq!(version("v1.30"), version("1.30.0"));
        assert_ne!(version("1.30.0+a"), version("1.30.0+b"));
        assert_ne!(version("1.30.0-rc.1"), version("1.30.0"));
    }
}
