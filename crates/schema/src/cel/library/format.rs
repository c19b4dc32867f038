//! Named formats, and messages for strings that do not match them.

use super::{Function, function, method, one, tenths, unfit};
use crate::cel::extended::NamedFormat;
use crate::cel::fault::EvalError;
use crate::cel::meter::Meter;
use crate::cel::texts::{is_base64, is_request_uri, is_uuid};
use crate::cel::value::Val;
use golang::calendar::{self, Moment};

static FORMATS: [NamedFormat; 12] = [
    NamedFormat { name: "dns1123Label", fits: |text| text.len() <= 63 && is_label(text) },
    NamedFormat { name: "dns1123Subdomain", fits: |text| text.len() <= 253 && is_subdomain(text) },
    NamedFormat { name: "dns1035Label", fits: |text| text.len() <= 63 && is_old_label(text) },
    NamedFormat { name: "qualifiedName", fits: is_qualified_name },
    NamedFormat { name: "dns1123LabelPrefix", fits: |text| text.len() <= 63 && is_label(without_dash(text)) },
    NamedFormat { name: "dns1123SubdomainPrefix", fits: |text| text.len() <= 253 && is_subdomain(without_dash(text)) },
    NamedFormat { name: "dns1035LabelPrefix", fits: |text| text.len() <= 63 && is_old_label(without_dash(text)) },
    NamedFormat { name: "labelValue", fits: |text| text.is_empty() || is_name_part(text) },
    NamedFormat { name: "uri", fits: |text| text != "*" && is_request_uri(text) },
    NamedFormat { name: "uuid", fits: is_uuid },
    NamedFormat { name: "byte", fits: is_base64 },
    NamedFormat { name: "date", fits: |text| calendar::date(text).is_some() },
];

static DATE_TIME: NamedFormat = NamedFormat { name: "datetime", fits: |text| Moment::parse(text).is_some() };

fn named(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().chain([&DATE_TIME]).find(|format| format.name == name)
}

macro_rules! constants {
    ($($full:literal $name:literal),* $(,)?) => {
        &[
            $(function($full, &["->format"], one, |_, _| {
                named($name).map(Val::Format).ok_or_else(|| EvalError::failed("no such format"))
            }),)*
            function("format.named", &["string->optional(format)"], one, |_, args| match args {
                [Val::Text(name)] => Ok(match named(name.as_str()) {
                    Some(format) => Val::some(Val::Format(format)),
                    None => Val::Optional(None),
                }),
                _ => Err(unfit(args)),
            }),
            method(
                "validate",
                &["format string->optional(list(string))"],
                |size| tenths(1, size(1)).saturating_mul(32),
                validate,
            ),
        ]
    };
}

pub(super) const FUNCTIONS: &[Function] = constants![
    "format.dns1123Label" "dns1123Label",
    "format.dns1123Subdomain" "dns1123Subdomain",
    "format.dns1035Label" "dns1035Label",
    "format.qualifiedName" "qualifiedName",
    "format.dns1123LabelPrefix" "dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix" "dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix" "dns1035LabelPrefix",
    "format.labelValue" "labelValue",
    "format.uri" "uri",
    "format.uuid" "uuid",
    "format.byte" "byte",
    "format.date" "date",
    "format.datetime" "datetime",
];

fn validate<'v>(meter: &mut Meter, args: &[Val<'v>]) -> Result<Val<'v>, EvalError> {
    let [Val::Format(format), Val::Text(text)] = args else { return Err(unfit(args)) };
    meter.work(text.as_str().len().saturating_mul(8))?;
    if (format.fits)(text.as_str()) {
        return Ok(Val::Optional(None));
    }
    let message = Val::made(format!("must be of format {}", format.name));
    Ok(Val::some(Val::list(vec![message])))
}

fn is_label(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    edge(text.bytes().next())
        && edge(text.bytes().next_back())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_old_label(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// A generated name's prefix may end in a dash.
fn without_dash(text: &str) -> &str {
    text.strip_suffix('-').unwrap_or(text)
}

fn is_name_part(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().next_back())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => prefix.len() <= 253 && is_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}
