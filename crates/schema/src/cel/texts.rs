//! Checks of strings in known formats: URIs, UUIDs, base64.

use std::sync::LazyLock;

use regex::Regex;

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
        .expect("the expression is a constant")
});

pub(crate) fn is_uuid(text: &str) -> bool {
    UUID.is_match(text)
}

pub(crate) fn is_base64(text: &str) -> bool {
    let symbols = text.trim_end_matches('=');
    let padding = text.len() - symbols.len();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && padding <= 2 && text.len().is_multiple_of(4) && symbols.bytes().all(fits)
}

/// An absolute URI or an absolute path, as in the request line of HTTP.
pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty()
        || text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ')
        || !escapes_are_complete(text)
    {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return text == "*" };
    let mut letters = scheme.bytes();
    let is_scheme = letters.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme && rest.strip_prefix("//").is_none_or(is_authority)
}

fn escapes_are_complete(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    let mut parts = path.split('%');
    parts.next();
    parts.all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

/// The part after `//`: a host with an optional numeric port.
fn is_authority(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = match host.strip_prefix('[') {
        Some(literal) => match literal.split_once(']') {
            Some((_, port)) => port,
            None => return false,
        },
        None if host.contains(['<', '>', '"', '[', ']', '\\', '^', '`', '{', '|', '}']) => return false,
        None => host.find(':').map_or("", |at| &host[at..]),
    };
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}
