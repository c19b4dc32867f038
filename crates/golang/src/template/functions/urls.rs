//! `urlParse` and `urlJoin`, with the parts of Go's `net/url`.

use super::super::characters::quote;
use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::TemplateValue;
use super::Parameter::{self, Text};
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] =
    &[TemplateFunction::new("urlParse", &[Text], parse), TemplateFunction::new("urlJoin", &[Parameter::Map], join)];

/// A text that is no URL, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum UrlError {
    #[error("invalid URL escape {}", quote(.0))]
    Escape(String),
    #[error("missing protocol scheme")]
    NoScheme,
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("first path segment in URL cannot contain colon")]
    Colon,
    #[error("invalid character {} in host name", quote(.0))]
    HostCharacter(String),
    #[error("missing ']' in host")]
    NoBracket,
    #[error("invalid port {} after host", quote(.0))]
    Port(String),
}

/// The parts of a URL, escapes resolved where Go resolves them.
#[derive(Default)]
struct ParsedUrl {
    scheme: String,
    opaque: String,
    userinfo: String,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

fn unescaped(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let escape = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = escape.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(|| {
            let shown = String::from_utf8_lossy(after.get(..2).unwrap_or(after)).into_owned();
            UrlError::Escape(format!("%{shown}"))
        })?;
        bytes.push(byte);
        rest = &after[2..];
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Percent escapes for all but unreserved characters and those given.
fn escaped(text: &str, kept: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-_.~".contains(c) || byte.is_ascii() && kept.contains(c) {
            written.push(c);
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

/// The scheme and what follows it.
fn scheme(text: &str) -> Result<(&str, &str), UrlError> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    match end {
        Some(0) if text.starts_with(':') => Err(UrlError::NoScheme),
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((&text[..end], &text[end + 1..]))
        }
        _ => Ok(("", text)),
    }
}

fn parsed(text: &str) -> Result<ParsedUrl, UrlError> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = ParsedUrl { fragment: unescaped(fragment)?, ..ParsedUrl::default() };
    if rest.chars().any(|c| c.is_ascii_control()) {
        return Err(UrlError::ControlCharacter);
    }
    if rest == "*" {
        url.path = rest.to_owned();
        return Ok(url);
    }
    let (scheme, rest) = scheme(rest)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    let mut rest = rest;
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(UrlError::Colon);
        }
    }
    let has_authority = rest.starts_with("//") && (!url.scheme.is_empty() || !rest.starts_with("///"));
    if let Some(behind) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = behind.find('/').unwrap_or(behind.len());
        authority(&behind[..end], &mut url)?;
        rest = &behind[end..];
    }
    url.path = unescaped(rest)?;
    Ok(url)
}

fn authority(text: &str, url: &mut ParsedUrl) -> Result<(), UrlError> {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, text),
    };
    if let Some(user) = user {
        url.userinfo = match user.split_once(':') {
            Some((name, password)) => {
                format!("{}:{}", escaped(&unescaped(name)?, "$&+,;="), escaped(&unescaped(password)?, "$&+,;="))
            }
            None => escaped(&unescaped(user)?, "$&+,;="),
        };
    }
    let port = match host.rfind(']') {
        Some(end) if host.starts_with('[') => host[end + 1..].to_owned(),
        Some(_) => return Err(UrlError::HostCharacter("]".to_owned())),
        None if host.starts_with('[') => return Err(UrlError::NoBracket),
        None => host.find(':').map(|colon| host[colon..].to_owned()).unwrap_or_default(),
    };
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !is_port(&port) {
        return Err(UrlError::Port(port));
    }
    if let Some(bad) = host.chars().find(|c| " \"<>\\^`{}|".contains(*c)) {
        return Err(UrlError::HostCharacter(bad.to_string()));
    }
    url.host = unescaped(host)?;
    Ok(())
}

/// The host without port and brackets.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, _)) => inner,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn parse<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let text = arguments.text(0);
    let url = parsed(text)
        .map_err(|error| RenderFailure::new(format!("unable to parse url: parse {}: {error}", quote(text))))?;
    context.work(text.len().saturating_mul(3))?;
    let hostname = host_name(&url.host).to_owned();
    let parts = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", url.userinfo),
    ];
    context.map(parts.into_iter().map(|(name, part)| (name.into(), part.into())).collect()).map(TemplateValue::Map)
}

fn join<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let part = |name: &str| match arguments.map(0).and_then(|map| context.heap.get(map, name)) {
        None => Ok(String::new()),
        Some(TemplateValue::Text(text)) => Ok(text.to_string()),
        Some(other) => {
            let message = format!("unable to parse {name} key, must be of type string, but {} found", other.kind());
            Err(RenderFailure::new(message))
        }
    };
    let (scheme, host, path, query) = (part("scheme")?, part("host")?, part("path")?, part("query")?);
    let (opaque, fragment, userinfo) = (part("opaque")?, part("fragment")?, part("userinfo")?);
    let mut url = String::new();
    if !scheme.is_empty() {
        url.push_str(&format!("{scheme}:"));
    }
    if opaque.is_empty() {
        if !scheme.is_empty() || !host.is_empty() || !userinfo.is_empty() {
            if !host.is_empty() || !path.is_empty() || !userinfo.is_empty() {
                url.push_str("//");
            }
            if !userinfo.is_empty() {
                url.push_str(&format!("{userinfo}@"));
            }
            url.push_str(&escaped(&host, "!$&'()*+,;=:[]<>\""));
        }
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            url.push('/');
        }
        url.push_str(&escaped(&path, "$&+,/:;=@"));
    } else {
        url.push_str(&opaque);
    }
    if !query.is_empty() {
        url.push_str(&format!("?{query}"));
    }
    if !fragment.is_empty() {
        url.push_str(&format!("#{}", escaped(&fragment, "!()*$&+,/:;=?@")));
    }
    context.text(url)
}
