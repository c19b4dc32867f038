//! Values of arguments, read and checked.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::Offset;
use wildmatch::WildMatch;

use super::ArgumentError;
use model::hub::{LabelRequirements, ObjectKey, naming};

/// The names of Clusters: namespace and name, each with `*` for any characters and `?` for one.
#[derive(Clone, Debug)]
pub struct ClusterPattern {
    namespace: WildMatch,
    name: WildMatch,
}

impl ClusterPattern {
    /// Whether a Cluster has such a name.
    pub fn matches(&self, cluster: &ObjectKey) -> bool {
        self.namespace.matches(&cluster.namespace) && self.name.matches(&cluster.name)
    }

    /// Whether it is the name of one Cluster.
    pub fn is_exact(&self) -> bool {
        !self.to_string().contains(['*', '?'])
    }
}

impl fmt::Display for ClusterPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

pub(super) fn moment(text: &str) -> Result<Timestamp, ArgumentError> {
    let time = text.parse().map_err(|_| ArgumentError::Form("must be a time such as 2026-01-31T08:00:00Z"))?;
    start(time)
}

/// A time at which a rollout may start: the years of times in objects have four digits, and a rollout goes on after its
/// start.
pub(in crate::cli) fn start(time: Timestamp) -> Result<Timestamp, ArgumentError> {
    let year = Offset::UTC.to_datetime(time).year();
    (1..=9000).contains(&year).then_some(time).ok_or(ArgumentError::Range("must be a time in the years 1 to 9000"))
}

/// Reads `namespace/name`; a name alone is one of the namespace `default`.
pub(super) fn object_key(text: &str) -> Result<ObjectKey, ArgumentError> {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] if !name.is_empty() => Ok(ObjectKey::new("default", *name)),
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(ObjectKey::new(*namespace, *name)),
        _ => Err(ArgumentError::Form("expected namespace/name")),
    }
}

/// A kind or a resource, and the name of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindAndName {
    pub kind: String,
    /// None for all objects of the kind.
    pub name: Option<String>,
}

/// Reads `kind` or `kind/name`.
pub(super) fn kind_and_name(text: &str) -> Result<KindAndName, ArgumentError> {
    let is_part = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace());
    let (kind, name) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [kind] if is_part(kind) => ((*kind).to_owned(), None),
        [kind, name] if is_part(kind) && is_part(name) => ((*kind).to_owned(), Some((*name).to_owned())),
        _ => {
            return Err(ArgumentError::Form(
                "expected KIND or KIND/NAME, such as DockerMachine or DockerMachine/blue-4z8q; --namespace gives the \
                 namespace",
            ));
        }
    };
    Ok(KindAndName { kind, name })
}

/// Reads `namespace/name`, in which `*` and `?` stand for others.
pub(super) fn cluster_pattern(text: &str) -> Result<ClusterPattern, ArgumentError> {
    let ObjectKey { namespace, name } = object_key(text)?;
    Ok(ClusterPattern { namespace: WildMatch::new(&namespace), name: WildMatch::new(&name) })
}

pub(super) fn label_selector(text: &str) -> Result<LabelRequirements, ArgumentError> {
    let read = LabelRequirements::parse(text).filter(|labels| !labels.is_empty());
    read.ok_or(ArgumentError::Form("expected labels such as env=prod,tier in (a,b),!canary"))
}

/// Reads `5s`, `500ms`, `2m`, `12h`, `90d`.
pub(super) fn duration(text: &str) -> Result<Duration, ArgumentError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits]
        .parse()
        .map_err(|_| ArgumentError::Form("expected a number with a unit, such as 5s or 500ms"))?;
    match &text[digits..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(number.saturating_mul(3600))),
        "d" => Ok(Duration::from_secs(number.saturating_mul(86_400))),
        _ => Err(ArgumentError::Form("expected one of the units ms, s, m, h and d")),
    }
}

/// The time of a lease, long enough for renewals to be in time.
pub(super) fn lease_duration(text: &str) -> Result<Duration, ArgumentError> {
    match duration(text)? {
        time if time < Duration::from_secs(2) => Err(ArgumentError::Range("must be at least 2s")),
        time => Ok(time),
    }
}

/// A namespace, which becomes part of a URL (DEC-45).
pub(super) fn namespace(text: &str) -> Result<String, ArgumentError> {
    without_faults(text, naming::dns_label_faults(text))
}

/// The name of an object, which becomes part of a URL (DEC-45).
pub(super) fn object_name(text: &str) -> Result<String, ArgumentError> {
    without_faults(text, naming::subdomain_faults(text))
}

fn without_faults(text: &str, faults: Vec<String>) -> Result<String, ArgumentError> {
    if faults.is_empty() { Ok(text.to_owned()) } else { Err(ArgumentError::InvalidName { faults }) }
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, ArgumentError> {
    match duration(text)? {
        Duration::ZERO => Err(ArgumentError::Range("must be longer than 0")),
        time => Ok(time),
    }
}

/// The life of a certificate: there has to be time to replace it, and X.509 knows no year 10000.
pub(super) fn life(text: &str) -> Result<Duration, ArgumentError> {
    match duration(text)? {
        time if time < Duration::from_secs(5) => Err(ArgumentError::Range("must be at least 5s")),
        time if time > Duration::from_hours(24 * 36_500) => Err(ArgumentError::Range("must be at most 36500d")),
        time => Ok(time),
    }
}

/// Reads a memory limit.
///
/// # Errors
/// When it is not a size, or less than 64Mi.
pub(super) fn memory_limit(text: &str) -> Result<usize, ArgumentError> {
    let size = byte_size(text)?;
    if size < 64 << 20 { Err(ArgumentError::SmallLimit(text.to_owned())) } else { Ok(size) }
}

/// Reads a size as Kubernetes writes one: bytes, or with Ki, Mi, Gi.
///
/// # Errors
/// When it is not such a size.
pub(super) fn byte_size(text: &str) -> Result<usize, ArgumentError> {
    let wrong = || ArgumentError::Size(text.to_owned());
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let (number, shift) =
        units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift))).unwrap_or((text, 0));
    let number: usize = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_has_a_year_of_four_digits_and_time_after_it() {
        for good in ["0001-01-01T00:00:00Z", "2026-01-31T08:00:00+01:00", "9000-12-31T23:59:59Z"] {
            assert!(moment(good).is_ok(), "{good}");
        }
        for (wrong, words) in [
            ("0000-12-31T23:59:59Z", "years 1 to 9000"),
            ("0001-01-01T00:00:00+01:00", "years 1 to 9000"),
            ("-005000-01-01T00:00:00Z", "years 1 to 9000"),
            ("9001-01-01T00:00:00Z", "years 1 to 9000"),
            ("2026-01-31", "such as 2026-01-31T08:00:00Z"),
        ] {
            let error = moment(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, want) in [
            ("5s", Ok(5_000)),
            ("500ms", Ok(500)),
            ("2m", Ok(120_000)),
            ("5", Err(())),
            ("s", Err(())),
            ("5h", Ok(18_000_000)),
            ("2d", Ok(172_800_000)),
            ("5w", Err(())),
        ] {
            assert_eq!(duration(text).map_err(drop), want.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes_are_written_as_kubernetes_writes_them() {
        for (text, want) in [("134217728", 128 << 20), ("131072Ki", 128 << 20), ("512Mi", 512 << 20), ("2Gi", 2 << 30)]
        {
            assert_eq!(memory_limit(text), Ok(want), "{text}");
        }
        for text in ["", "Gi", "1.5Gi", "-1Gi", "1G", "1Mi", "99999999999999999999Gi", "18014398509481984Gi"] {
            assert!(memory_limit(text).is_err(), "{text}");
        }
    }
}
