//! URLs.

use super::{Function, function, method, one, tenths, unfit};
use crate::cel::fault::Fault;
use crate::cel::meter::Meter;
use crate::cel::texts::is_request_uri;
use crate::cel::value::{Map, Table, Val};

/// An absolute URL or an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cel) struct Url {
    scheme: String,
    /// Host and port.
    host: String,
    path: String,
    query: String,
}

impl Url {
    fn read(text: &str) -> Option<Url> {
        if text == "*" || !is_request_uri(text) {
            return None;
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if !text.starts_with('/') => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Right after the scheme two slashes begin a host, and in a plain path they are part of it.
        let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                rest.split_at(end)
            }
            None => ("", rest),
        };
        let host = host.rsplit('@').next().unwrap_or_default();
        Some(Url { scheme, host: host.to_owned(), path: path.to_owned(), query: query.to_owned() })
    }

    fn name_and_port(&self) -> (&str, &str) {
        if let Some((literal, rest)) = self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return (literal, rest.strip_prefix(':').unwrap_or_default());
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }
}

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "isURL",
        &["string->bool"],
        |size| tenths(1, size(0)).min(1),
        |meter, args| match args {
            [Val::Text(text)] => {
                meter.work(text.as_str().len().saturating_mul(4))?;
                Ok(Val::Bool(Url::read(text.as_str()).is_some()))
            }
            _ => Err(unfit(args)),
        },
    ),
    function(
        "url",
        &["string->url"],
        |size| tenths(1, size(0)),
        |meter, args| match args {
            [Val::Text(text)] => {
                meter.work(text.as_str().len().saturating_mul(4))?;
                let url = Url::read(text.as_str());
                url.map(|url| Val::Url(url.into()))
                    .ok_or_else(|| Fault::of("URL parse error during conversion from string"))
            }
            _ => Err(unfit(args)),
        },
    ),
    method("getScheme", &["url->string"], one, |meter, args| part(meter, args, |url| &url.scheme)),
    method("getHost", &["url->string"], one, |meter, args| part(meter, args, |url| &url.host)),
    method("getHostname", &["url->string"], one, |meter, args| part(meter, args, |url| url.name_and_port().0)),
    method("getPort", &["url->string"], one, |meter, args| part(meter, args, |url| url.name_and_port().1)),
    method("getEscapedPath", &["url->string"], one, |meter, args| part(meter, args, |url| &url.path)),
    method("getQuery", &["url->map(string,list(string))"], one, query),
];

fn part<'v>(meter: &mut Meter, args: &[Val<'v>], of: fn(&Url) -> &str) -> Result<Val<'v>, Fault> {
    match args {
        [Val::Url(url)] => {
            let part = of(url);
            meter.work(part.len())?;
            Ok(Val::made(part))
        }
        _ => Err(unfit(args)),
    }
}

fn query<'v>(meter: &mut Meter, args: &[Val<'v>]) -> Result<Val<'v>, Fault> {
    let [Val::Url(url)] = args else { return Err(unfit(args)) };
    meter.work(url.query.len().saturating_mul(50))?;
    let mut values: std::collections::BTreeMap<String, Vec<Val<'v>>> = std::collections::BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) {
            values.entry(key).or_default().push(Val::made(value));
        }
    }
    let mut table = Table::default();
    for (key, list) in values {
        table.insert(Val::made(key), Val::list(list), meter)?;
    }
    Ok(Val::Map(Map::Made(table.into())))
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let code = digit(rest.next())? * 16 + digit(rest.next())?;
                bytes.push(u8::try_from(code).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
