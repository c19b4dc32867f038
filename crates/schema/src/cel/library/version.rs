//! Semantic versions.

use super::{Function, function, method, one, tenths, unfit};
use crate::cel::fault::EvalError;
use crate::cel::value::Val;

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "semver",
        &["string->semver", "string bool->semver"],
        |size| tenths(1, size(0)),
        |meter, args| {
            meter.work(args.first().map_or(0, length))?;
            let version = read(args)?;
            version.map(|version| Val::Semver(version.into())).ok_or_else(|| EvalError::failed("semver parse error"))
        },
    ),
    function(
        "isSemver",
        &["string->bool", "string bool->bool"],
        |size| tenths(1, size(0)),
        |meter, args| {
            meter.work(args.first().map_or(0, length))?;
            Ok(Val::Bool(read(args)?.is_some()))
        },
    ),
    method("major", &["semver->int"], one, |_, args| part(args, |version| version.major)),
    method("minor", &["semver->int"], one, |_, args| part(args, |version| version.minor)),
    method("patch", &["semver->int"], one, |_, args| part(args, |version| version.patch)),
];

fn length(value: &Val<'_>) -> usize {
    match value {
        Val::Text(text) => text.as_str().len(),
        _ => 0,
    }
}

fn read(args: &[Val<'_>]) -> Result<Option<semver::Version>, EvalError> {
    match args {
        [Val::Text(text)] | [Val::Text(text), Val::Bool(false)] => Ok(semver::Version::parse(text.as_str()).ok()),
        [Val::Text(text), Val::Bool(true)] => Ok(normalised(text.as_str())),
        _ => Err(unfit(args)),
    }
}

/// A version with a leading `v`, missing parts or leading zeros, in standard form.
fn normalised(text: &str) -> Option<semver::Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut parts: Vec<&str> = core.split('.').collect();
    if parts.len() > 3 || (parts.len() < 3 && !rest.is_empty()) {
        return None;
    }
    parts.resize(3, "0");
    let parts: Vec<&str> = parts
        .into_iter()
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    semver::Version::parse(&format!("{}{rest}", parts.join("."))).ok()
}

fn part<'v>(args: &[Val<'v>], of: fn(&semver::Version) -> u64) -> Result<Val<'v>, EvalError> {
    match args {
        [Val::Semver(version)] => Ok(Val::Int(i64::try_from(of(version)).unwrap_or(i64::MAX))),
        _ => Err(unfit(args)),
    }
}
