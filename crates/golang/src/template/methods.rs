//! Methods and fields of values that are neither maps nor plain: versions and times.

use std::cmp::Ordering;
use std::rc::Rc;

use super::context::Context;
use super::error::Failure;
use super::functions::{Action, Arguments, Function, Parameter};
use super::value::Value;
use crate::version::LooseVersion;

/// The method of that name; its first parameter is the receiver.
pub(super) fn find(receiver: &Value<'_>, name: &str) -> Option<&'static Function> {
    let methods = match receiver {
        Value::Version(_) => VERSION,
        Value::Time(_) => TIME,
        _ => &[],
    };
    methods.iter().find(|method| method.name == name)
}

const ALONE: &[Parameter] = &[Parameter::Any];
const WITH_OTHER: &[Parameter] = &[Parameter::Any, Parameter::Any];
const WITH_TEXT: &[Parameter] = &[Parameter::Any, Parameter::Text];

/// Declares methods.
macro_rules! methods {
    ($($name:literal $parameters:ident $body:expr;)*) => {
        &[$(Function { name: $name, parameters: $parameters, further: None, action: Action::Call($body) }),*]
    };
}

const VERSION: &[Function] = methods! {
    "Major" ALONE |_, arguments| Ok(Value::Uint64(version(arguments, 0)?.major));
    "Minor" ALONE |_, arguments| Ok(Value::Uint64(version(arguments, 0)?.minor));
    "Patch" ALONE |_, arguments| Ok(Value::Uint64(version(arguments, 0)?.patch));
    "Prerelease" ALONE |_, arguments| Ok(version(arguments, 0)?.prerelease.as_str().into());
    "Metadata" ALONE |_, arguments| Ok(version(arguments, 0)?.metadata.as_str().into());
    "Original" ALONE |_, arguments| Ok(version(arguments, 0)?.original.as_str().into());
    "String" ALONE |_, arguments| Ok(version(arguments, 0)?.to_string().into());
    "IncMajor" ALONE |_, arguments| {
        raised(arguments, |version| (version.major.wrapping_add(1), 0, 0))
    };
    "IncMinor" ALONE |_, arguments| {
        raised(arguments, |version| (version.major, version.minor.wrapping_add(1), 0))
    };
    "IncPatch" ALONE |_, arguments| {
        raised(arguments, |version| {
            let patch = if version.prerelease.is_empty() { version.patch.wrapping_add(1) } else { version.patch };
            (version.major, version.minor, patch)
        })
    };
    "SetPrerelease" WITH_TEXT |context, arguments| with_part(context, arguments, '-');
    "SetMetadata" WITH_TEXT |context, arguments| with_part(context, arguments, '+');
    "Compare" WITH_OTHER |_, arguments| Ok(Value::Int(order(arguments)? as i64));
    "Equal" WITH_OTHER |_, arguments| Ok((order(arguments)? == Ordering::Equal).into());
    "LessThan" WITH_OTHER |_, arguments| Ok((order(arguments)? == Ordering::Less).into());
    "LessThanEqual" WITH_OTHER |_, arguments| Ok((order(arguments)? != Ordering::Greater).into());
    "GreaterThan" WITH_OTHER |_, arguments| Ok((order(arguments)? == Ordering::Greater).into());
    "GreaterThanEqual" WITH_OTHER |_, arguments| Ok((order(arguments)? != Ordering::Less).into());
};

const TIME: &[Function] = methods! {
    "Unix" ALONE |_, arguments| Ok(Value::Int64(time(arguments)?.seconds));
    "Year" ALONE |_, arguments| Ok(Value::Int(time(arguments)?.date().0));
    "Day" ALONE |_, arguments| Ok(Value::Int(time(arguments)?.date().2));
    "String" ALONE |_, arguments| Ok(time(arguments)?.to_string().into());
};

fn version<'v>(arguments: &Arguments<'v, '_>, index: usize) -> Result<&'v LooseVersion, Failure> {
    match arguments.0.get(index) {
        Some(Value::Version(version)) => Ok(version),
        _ => Err(Failure::new("wrong type for value; expected *semver.Version")),
    }
}

fn time(arguments: &Arguments<'_, '_>) -> Result<super::dates::Time, Failure> {
    match arguments.0.first() {
        Some(Value::Time(time)) => Ok(*time),
        _ => Err(Failure::new("wrong type for value; expected time.Time")),
    }
}

fn order(arguments: &Arguments<'_, '_>) -> Result<Ordering, Failure> {
    Ok(version(arguments, 0)?.precedence(version(arguments, 1)?))
}

/// A version whose original text is what it prints, with the `v` that was there before.
fn remade<'a>(old: &LooseVersion, mut made: LooseVersion) -> Value<'a> {
    let prefix = if old.original.starts_with('v') { "v" } else { "" };
    made.original = format!("{prefix}{made}");
    Value::Version(Rc::new(made))
}

fn raised<'a>(arguments: &Arguments<'_, 'a>, next: fn(&LooseVersion) -> (u64, u64, u64)) -> Result<Value<'a>, Failure> {
    let old = version(arguments, 0)?;
    let (major, minor, patch) = next(old);
    let (prerelease, metadata, original) = Default::default();
    Ok(remade(old, LooseVersion { major, minor, patch, prerelease, metadata, original }))
}

/// The version with another prerelease or build part.
fn with_part<'a>(_: &mut Context<'a>, arguments: &Arguments<'_, 'a>, mark: char) -> Result<Value<'a>, Failure> {
    let old = version(arguments, 0)?;
    let part = match arguments.0.get(1) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    if !part.is_empty() {
        let refusal = if mark == '-' { "invalid prerelease string" } else { "invalid metadata string" };
        let read = LooseVersion::parse(&format!("0.0.0{mark}{part}")).map_err(|_| Failure::new(refusal))?;
        if read.prerelease != part && read.metadata != part {
            return Err(Failure::new(refusal));
        }
    }
    let mut made = old.clone();
    if mark == '-' {
        made.prerelease = part;
    } else {
        made.metadata = part;
    }
    Ok(remade(old, made))
}
