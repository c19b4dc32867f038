//! URLs.

use super::{Function, first, function, method, one, tenths, unfit};
use crate::cel::extended::CelUrl;
use crate::cel::fault::EvalError;
use crate::cel::meter::Meter;
use crate::cel::value::{CelMap, MapTable, Val};

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "isURL",
        &["string->bool"],
        |size| tenths(1, size(0)).min(1),
        |meter, args| match args {
            [Val::Text(text)] => {
                meter.work(text.as_str().len().saturating_mul(4))?;
                Ok(Val::Bool(CelUrl::read(text.as_str()).is_some()))
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
                let url = CelUrl::read(text.as_str());
                url.map(|url| Val::Url(url.into()))
                    .ok_or_else(|| EvalError::failed("URL parse error during conversion from string"))
            }
            _ => Err(unfit(args)),
        },
    )
    .sized(first),
    method("getScheme", &["url->string"], one, |meter, args| part(meter, args, |url| &url.scheme)),
    method("getHost", &["url->string"], one, |meter, args| part(meter, args, |url| &url.host)),
    method("getHostname", &["url->string"], one, |meter, args| part(meter, args, |url| url.name_and_port().0)),
    method("getPort", &["url->string"], one, |meter, args| part(meter, args, |url| url.name_and_port().1)),
    method("getEscapedPath", &["url->string"], one, |meter, args| part(meter, args, |url| &url.path)),
    method("getQuery", &["url->map(string,list(string))"], one, query),
];

fn part<'v>(meter: &mut Meter, args: &[Val<'v>], of: fn(&CelUrl) -> &str) -> Result<Val<'v>, EvalError> {
    match args {
        [Val::Url(url)] => {
            let part = of(url);
            meter.work(part.len())?;
            Ok(Val::made(part))
        }
        _ => Err(unfit(args)),
    }
}

fn query<'v>(meter: &mut Meter, args: &[Val<'v>]) -> Result<Val<'v>, EvalError> {
    let [Val::Url(url)] = args else { return Err(unfit(args)) };
    meter.work(url.query.len().saturating_mul(50))?;
    let mut values: std::collections::BTreeMap<String, Vec<Val<'v>>> = std::collections::BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) {
            values.entry(key).or_default().push(Val::made(value));
        }
    }
    let mut table = MapTable::default();
    for (key, list) in values {
        table.insert(Val::made(key), Val::list(list), meter)?;
    }
    Ok(Val::Map(CelMap::Made(table.into())))
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
