//! Versions as Masterminds/semver reads them: `v` prefix, missing parts and leading zeros are taken.

use std::cmp::Ordering;
use std::fmt;

/// A loosely written version, as templates (`semver`, `semverCompare`) and constraints use it.
///
/// Equality is that of the parts; [`LooseVersion::precedence`] leaves build metadata out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseVersion {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// Without the hyphen; empty when there is none.
    pub prerelease: String,
    /// Build metadata without the plus; empty when there is none.
    pub metadata: String,
    /// The text that was read.
    pub original: String,
}

/// Why a text is not a loosely written version, in Masterminds' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LooseVersionError {
    #[error("invalid semantic version")]
    Syntax,
    #[error("version segment starts with 0")]
    LeadingZero,
    #[error("error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    OutOfRange(String),
}

/// The pieces of `v?1[.2[.3]][-pre][+meta]`, numbers not yet read.
pub(super) struct Pieces<'t> {
    pub(super) whole: &'t str,
    pub(super) numbers: [Option<&'t str>; 3],
    pub(super) prerelease: Option<&'t str>,
    pub(super) metadata: Option<&'t str>,
}

impl<'t> Pieces<'t> {
    /// The longest such text at the start of `text`; `in_number` says which characters stand in its numbers.
    pub(super) fn at_start(text: &'t str, in_number: fn(char) -> bool) -> Option<Self> {
        let mut rest = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = [None; 3];
        numbers[0] = Some(take(&mut rest, in_number)?);
        for number in &mut numbers[1..] {
            let Some(mut after) = rest.strip_prefix('.') else { break };
            let Some(digits) = take(&mut after, in_number) else { break };
            *number = Some(digits);
            rest = after;
        }
        let prerelease = identifiers(&mut rest, '-');
        let metadata = identifiers(&mut rest, '+');
        Some(Self { whole: &text[..text.len() - rest.len()], numbers, prerelease, metadata })
    }
}

/// The longest run of such characters; none when it would be empty.
fn take<'t>(rest: &mut &'t str, wanted: fn(char) -> bool) -> Option<&'t str> {
    let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    let (taken, after) = rest.split_at(end);
    *rest = after;
    (!taken.is_empty()).then_some(taken)
}

/// Dotted identifiers behind `mark`.
fn identifiers<'t>(rest: &mut &'t str, mark: char) -> Option<&'t str> {
    let text = rest.strip_prefix(mark)?;
    let in_identifier: fn(char) -> bool = |c| c.is_ascii_alphanumeric() || c == '-';
    let mut after = text;
    take(&mut after, in_identifier)?;
    while let Some(mut next) = after.strip_prefix('.') {
        if take(&mut next, in_identifier).is_none() {
            break;
        }
        after = next;
    }
    *rest = after;
    Some(&text[..text.len() - after.len()])
}

impl LooseVersion {
    /// Reads a version as Masterminds' `NewVersion` does.
    pub fn parse(text: &str) -> Result<Self, LooseVersionError> {
        let pieces = Pieces::at_start(text, |c| c.is_ascii_digit()).filter(|pieces| pieces.whole.len() == text.len());
        let pieces = pieces.ok_or(LooseVersionError::Syntax)?;
        let number = |index: usize| {
            let digits = pieces.numbers[index].unwrap_or("0");
            digits.parse().map_err(|_| LooseVersionError::OutOfRange(digits.to_owned()))
        };
        let prerelease = pieces.prerelease.unwrap_or_default();
        let starts_with_zero =
            |id: &str| id.len() > 1 && id.starts_with('0') && id.bytes().all(|byte| byte.is_ascii_digit());
        let version = Self {
            major: number(0)?,
            minor: number(1)?,
            patch: number(2)?,
            prerelease: prerelease.to_owned(),
            metadata: pieces.metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        };
        match prerelease.split('.').any(starts_with_zero) {
            true => Err(LooseVersionError::LeadingZero),
            false => Ok(version),
        }
    }

    /// Semver precedence; build metadata does not count.
    pub fn precedence(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| prerelease_order(&self.prerelease, &other.prerelease))
    }
}

/// The order of two prerelease parts; none stands above any.
pub(super) fn prerelease_order(ours: &str, theirs: &str) -> Ordering {
    match (ours.is_empty(), theirs.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut ours, mut theirs) = (ours.split('.'), theirs.split('.'));
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return Ordering::Equal,
            (ours, theirs) => match identifier_order(ours.unwrap_or_default(), theirs.unwrap_or_default()) {
                Ordering::Equal => {}
                decided => return decided,
            },
        }
    }
}

/// A missing identifier stands below all, a number below a word.
fn identifier_order(ours: &str, theirs: &str) -> Ordering {
    match (ours.parse::<u64>(), theirs.parse::<u64>()) {
        _ if ours == theirs => Ordering::Equal,
        _ if ours.is_empty() => Ordering::Less,
        _ if theirs.is_empty() => Ordering::Greater,
        (Ok(ours), Ok(theirs)) => ours.cmp(&theirs),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => ours.cmp(theirs),
    }
}

impl fmt::Display for LooseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}
