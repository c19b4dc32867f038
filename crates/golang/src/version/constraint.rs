//! Version constraints in the language of
//! [Masterminds/semver 3.4](https://github.com/Masterminds/semver#checking-version-constraints):
//! `>= 1.28, < 1.31 || ~1.32`, `1.2 - 1.4`, `^1`, `1.x`.
//!
//! ```text
//!  text ──hyphen ranges rewritten──► split at || ──► terms, separated by blanks or commas: all must hold
//! ```
//!
//! A prerelease only satisfies an alternative that has a term with a prerelease.

use std::cmp::Ordering;

use super::loose::{LooseVersion, Pieces, prerelease_order};

/// A parsed constraint: alternatives of terms that must hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint(Vec<Vec<Comparator>>);

/// Why a text is not a constraint, in Masterminds' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    #[error("improper constraint: {0}")]
    Improper(String),
    #[error("constraint parser error")]
    Version,
    #[error("constraint of {0} bytes is longer than {MAX_LENGTH}")]
    TooLong(usize),
}

/// The longest constraint that is read, in bytes: looking for hyphen ranges takes quadratic time.
pub(super) const MAX_LENGTH: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    version: LooseVersion,
    /// How many of the three numbers are given, from the left: one of `1.x` and of `1`, none of `*`.
    given: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    AtLeast,
    AtMost,
    Tilde,
    Caret,
}

/// Longer spellings first.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::AtLeast),
    ("=>", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("=<", Operator::AtMost),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

impl Constraint {
    /// Reads a constraint.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > MAX_LENGTH {
            return Err(ConstraintError::TooLong(text.len()));
        }
        with_ranges_as_bounds(text).split("||").map(alternative).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of the alternatives holds for `version`.
    pub fn matches(&self, version: &LooseVersion) -> bool {
        self.0.iter().any(|terms| {
            let takes_prereleases = terms.iter().any(|term| !term.version.prerelease.is_empty());
            (version.prerelease.is_empty() || takes_prereleases) && terms.iter().all(|term| term.holds(version))
        })
    }
}

/// RE2's `\s`.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

fn without_blanks(text: &str) -> &str {
    text.trim_start_matches(is_blank)
}

/// Numbers of constraints may be wildcards, and Masterminds' character class holds `|` as well.
fn in_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '|' | 'x' | 'X' | '*')
}

/// Writes `1.2 - 1.4` as `>= 1.2, <= 1.4 `.
fn with_ranges_as_bounds(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((low, high, after)) = range_at_start(rest) {
            written.push_str(&format!(">= {low}, <= {high} "));
            rest = after;
        } else {
            // Nothing that follows within these blanks can start a range that does not start here.
            let skipped = if is_blank(first) { rest.len() - without_blanks(rest).len() } else { first.len_utf8() };
            written.push_str(&rest[..skipped]);
            rest = &rest[skipped..];
        }
    }
    written
}

fn range_at_start(text: &str) -> Option<(&str, &str, &str)> {
    let start = without_blanks(text);
    let low = Pieces::at_start(start, in_number)?.whole;
    let rest = &start[low.len()..];
    let hyphen = without_blanks(rest);
    let behind = hyphen.strip_prefix('-')?;
    let end = without_blanks(behind);
    if hyphen.len() == rest.len() || end.len() == behind.len() {
        return None;
    }
    let high = Pieces::at_start(end, in_number)?.whole;
    Some((low, high, without_blanks(&end[high.len()..])))
}

fn alternative(text: &str) -> Result<Vec<Comparator>, ConstraintError> {
    let improper = || ConstraintError::Improper(text.to_owned());
    let mut found: Vec<(Operator, Pieces<'_>)> = Vec::new();
    let mut rest = without_blanks(text);
    loop {
        let spelled = OPERATORS.iter().find(|(spelling, _)| rest.starts_with(spelling));
        let (spelling, operator) = spelled.copied().unwrap_or(("", Operator::Equal));
        let version = without_blanks(&rest[spelling.len()..]);
        let pieces = Pieces::at_start(version, in_number).ok_or_else(improper)?;
        let behind = &version[pieces.whole.len()..];
        found.push((operator, pieces));
        let next = without_blanks(behind);
        if next.is_empty() {
            return found.into_iter().map(|(operator, pieces)| Comparator::new(operator, &pieces)).collect();
        }
        rest = match next.strip_prefix(',') {
            Some(after) => without_blanks(after),
            None if next.len() < behind.len() => next,
            None => return Err(improper()),
        };
    }
}

impl Comparator {
    fn new(operator: Operator, pieces: &Pieces<'_>) -> Result<Self, ConstraintError> {
        let is_given = |number: &&str| !matches!(*number, "x" | "X" | "*");
        let numbers: Vec<&str> = pieces.numbers.into_iter().map_while(|number| number.filter(is_given)).collect();
        let given = numbers.len();
        let text = match (given, pieces.prerelease) {
            (3, _) => pieces.whole.to_owned(),
            (_, prerelease) => {
                let padded = [numbers.as_slice(), ["0"; 3].get(given..).unwrap_or_default()].concat().join(".");
                prerelease.map_or(padded.clone(), |id| format!("{padded}-{id}"))
            }
        };
        let version = LooseVersion::parse(&text).map_err(|_| ConstraintError::Version)?;
        Ok(Self { operator, version, given })
    }

    /// Whether the term holds: by the precedence of versions, or by as many numbers as are given.
    fn holds(&self, version: &LooseVersion) -> bool {
        let order = version.precedence(&self.version);
        let by_given = self.order_of_numbers(version, self.given);
        match (self.operator, self.given) {
            (Operator::Less, _) => order.is_lt(),
            (Operator::AtLeast, _) => order.is_ge(),
            (Operator::Equal, 3) => order.is_eq(),
            // `>1.2` means from 1.3 on.
            (Operator::Greater, 1 | 2) => by_given.is_gt(),
            (Operator::Greater, _) => order.is_gt(),
            // `<=1.2` means up to the last 1.2.
            (Operator::AtMost, 3) => order.is_le(),
            (Operator::AtMost, 1) => by_given.is_le(),
            (Operator::AtMost, _) => self.order_of_numbers(version, 2).is_le(),
            (Operator::NotEqual, 1) => by_given.is_ne(),
            (Operator::NotEqual, 2) => by_given.is_ne() || self.differs_in_prerelease(version),
            (Operator::NotEqual, _) => order.is_ne(),
            (Operator::Equal | Operator::Tilde | Operator::Caret, _) => {
                order.is_ge() && self.order_of_numbers(version, self.kept()).is_eq()
            }
        }
    }

    /// How the first `count` numbers of `version` compare with ours.
    fn order_of_numbers(&self, version: &LooseVersion, count: usize) -> Ordering {
        let numbers = |version: &LooseVersion| [version.major, version.minor, version.patch].into_iter().take(count);
        numbers(version).cmp(numbers(&self.version))
    }

    fn differs_in_prerelease(&self, version: &LooseVersion) -> bool {
        prerelease_order(&version.prerelease, &self.version.prerelease).is_ne()
    }

    /// How many numbers stay what they are: of `~1.2.3` major and minor, of `^1.2.3` those up to the first that is not
    /// zero.
    fn kept(&self) -> usize {
        let numbers = [self.version.major, self.version.minor, self.version.patch];
        match (self.operator, self.given) {
            (_, 1) => 1,
            (Operator::Caret, given) => {
                let all = if given == 2 { 2 } else { 3 };
                numbers.into_iter().position(|number| number > 0).map_or(all, |first| first + 1)
            }
            // Nothing is asked of a version by `~*`, nor, which is how it is, by `~0.0.0`.
            (_, 0 | 3) if numbers == [0, 0, 0] => 0,
            _ => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per constraint and version: whether it matches, or the error (Masterminds/semver 3.4.0).
    const VECTORS: &str = include_str!("../../../../fixtures/version/constraints.jsonl");

    fn answer(constraint: &str, version: &str) -> Result<bool, String> {
        let constraint = Constraint::parse(constraint).map_err(|error| error.to_string())?;
        let version = LooseVersion::parse(version).map_err(|error| error.to_string())?;
        Ok(constraint.matches(&version))
    }

    #[test]
    fn constraints_answer_as_masterminds_does() {
        let mut wrong = Vec::new();
        for line in VECTORS.lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            let (constraint, version) = (vector["constraint"].as_str().unwrap(), vector["version"].as_str().unwrap());
            let want = match vector["error"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(vector["matches"].as_bool().unwrap()),
            };
            let got = answer(constraint, version);
            if got != want {
                wrong.push(format!("{constraint} | {version}: {got:?}, want {want:?}"));
            }
        }
        assert!(VECTORS.lines().count() > 4000);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn long_constraints_are_refused_unread() {
        assert_eq!(
            answer(&" ".repeat(MAX_LENGTH + 1), "1"),
            Err("constraint of 1025 bytes is longer than 1024".into())
        );
        assert_eq!(answer(&"1,".repeat(MAX_LENGTH / 2), "1").map_err(|error| error.len()), Err(MAX_LENGTH + 21));
    }
}
