//! Methods and fields of values that are neither maps nor plain: versions and times.

use std::cmp::Ordering;
use std::rc::Rc;

use super::context::RenderContext;
use super::error::RenderFailure;
use super::functions::{CallArguments, FunctionKind, Parameter, TemplateFunction};
use super::value::TemplateValue;
use crate::version::LooseVersion;

/// The method of that name; its first parameter is the receiver.
pub(super) fn find(receiver: &TemplateValue<'_>, name: &str) -> Option<&'static TemplateFunction> {
    let methods = match receiver {
        TemplateValue::Version(_) => VERSION,
        TemplateValue::Time(_) => TIME,
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
        &[$(TemplateFunction { name: $name, parameters: $parameters, further: None, action: FunctionKind::Call($body) }),*]
    };
}

const VERSION: &[TemplateFunction] = methods! {
    "Major" ALONE |_, arguments| Ok(TemplateValue::Uint64(version(arguments, 0)?.major));
    "Minor" ALONE |_, arguments| Ok(TemplateValue::Uint64(version(arguments, 0)?.minor));
    "Patch" ALONE |_, arguments| Ok(TemplateValue::Uint64(version(arguments, 0)?.patch));
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
    "Compare" WITH_OTHER |_, arguments| Ok(TemplateValue::Int(order(arguments)? as i64));
    "Equal" WITH_OTHER |_, arguments| Ok((order(arguments)? == Ordering::Equal).into());
    "LessThan" WITH_OTHER |_, arguments| Ok((order(arguments)? == Ordering::Less).into());
    "LessThanEqual" WITH_OTHER |_, arguments| Ok((order(arguments)? != Ordering::Greater).into());
    "GreaterThan" WITH_OTHER |_, arguments| Ok((order(arguments)? == Ordering::Greater).into());
    "GreaterThanEqual" WITH_OTHER |_, arguments| Ok((order(arguments)? != Ordering::Less).into());
};

const TIME: &[TemplateFunction] = methods! {
    "Unix" ALONE |_, arguments| Ok(TemplateValue::Int64(time(arguments)?.seconds));
    "Year" ALONE |_, arguments| Ok(TemplateValue::Int(time(arguments)?.date().0));
    "Day" ALONE |_, arguments| Ok(TemplateValue::Int(time(arguments)?.date().2));
    "String" ALONE |_, arguments| Ok(time(arguments)?.to_string().into());
};

fn version<'v>(arguments: &CallArguments<'v, '_>, index: usize) -> Result<&'v LooseVersion, RenderFailure> {
    match arguments.0.get(index) {
        Some(TemplateValue::Version(version)) => Ok(version),
        _ => Err(RenderFailure::new("wrong type for value; expected *semver.Version")),
    }
}

fn time(arguments: &CallArguments<'_, '_>) -> Result<super::dates::Time, RenderFailure> {
    match arguments.0.first() {
        Some(TemplateValue::Time(time)) => Ok(*time),
        _ => Err(RenderFailure::new("wrong type for value; expected time.Time")),
    }
}

fn order(arguments: &CallArguments<'_, '_>) -> Result<Ordering, RenderFailure> {
    Ok(version(arguments, 0)?.precedence(version(arguments, 1)?))
}

/// A version that prints with the `v` of its original text, if there was one.
fn remade<'a>(old: &LooseVersion, mut made: LooseVersion) -> TemplateValue<'a> {
    let prefix = if old.original.starts_with('v') { "v" } else { "" };
    made.original = format!("{prefix}{made}");
    TemplateValue::Version(Rc::new(made))
}

fn raised<'a>(
    arguments: &CallArguments<'_, 'a>,
    next: fn(&LooseVersion) -> (u64, u64, u64),
) -> Result<TemplateValue<'a>, RenderFailure> {
    let old = version(arguments, 0)?;
    let (major, minor, patch) = next(old);
    let (prerelease, metadata, original) = Default::default();
    Ok(remade(old, LooseVersion { major, minor, patch, prerelease, metadata, original }))
}

/// The version with another prerelease or build part.
fn with_part<'a>(
    _: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    mark: char,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let old = version(arguments, 0)?;
    let part = match arguments.0.get(1) {
        Some(TemplateValue::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    if !part.is_empty() {
        let refusal = if mark == '-' { "invalid prerelease string" } else { "invalid metadata string" };
        let read = LooseVersion::parse(&format!("0.0.0{mark}{part}")).map_err(|_| RenderFailure::new(refusal))?;
        if read.prerelease != part && read.metadata != part {
            return Err(RenderFailure::new(refusal));
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
