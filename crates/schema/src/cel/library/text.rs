//! Strings. Positions count characters.

use super::printf::{format, quoted};
use super::{
    ArgumentSizes, ELEMENT, EvalResult, Function, RESULT, SizeRange, SizeRanges, first, function, method, one,
    part_of_first, tenths, unfit,
};
use crate::cel::fault::EvalError;
use crate::cel::meter::{Meter, PER_ELEMENT};
use crate::cel::value::{CelText, Val};
use golang::regexp::Regex;

pub(super) const FUNCTIONS: &[Function] = &[
    method(
        "startsWith",
        &["string string->bool"],
        |size| tenths(1, size(1)),
        |meter, args| compare(meter, args, |text, other| text.starts_with(other)),
    ),
    method(
        "endsWith",
        &["string string->bool"],
        |size| tenths(1, size(1)),
        |meter, args| compare(meter, args, |text, other| text.ends_with(other)),
    ),
    method(
        "contains",
        &["string string->bool"],
        |size| tenths(1, size(0)).saturating_mul(tenths(1, size(1))),
        |meter, args| compare(meter, args, |text, other| text.contains(other)),
    ),
    function("matches", &["string string->bool"], searching, |meter, args| dynamic("matches", meter, args)),
    method("matches", &["string string->bool"], searching, |meter, args| dynamic("matches", meter, args)),
    method("find", &["string string->string"], searching, |meter, args| dynamic("find", meter, args))
        .sized(part_of_first),
    method("findAll", &["string string->list(string)", "string string int->list(string)"], searching, |meter, args| {
        dynamic("findAll", meter, args)
    })
    .sized(part_of_first),
    method("charAt", &["string int->string"], one, |meter, args| match args {
        [Val::Text(text), Val::Int(at)] => {
            meter.work(text.as_str().len() / 8)?;
            let text = text.as_str();
            let found = usize::try_from(*at).ok().and_then(|at| text.chars().nth(at));
            match found {
                Some(c) => Ok(Val::made(c.to_string())),
                None if usize::try_from(*at).is_ok_and(|at| at == text.chars().count()) => Ok(Val::made("")),
                None => Err(EvalError::failed(format!("index out of range: {at}"))),
            }
        }
        _ => Err(unfit(args)),
    }),
    method("indexOf", &["string string->int", "string string int->int"], scan, |meter, args| {
        index_of(meter, args, false)
    }),
    method("lastIndexOf", &["string string->int", "string string int->int"], scan, |meter, args| {
        index_of(meter, args, true)
    }),
    method("lowerAscii", &["string->string"], scan, |meter, args| remade(meter, args, str::to_ascii_lowercase))
        .sized(first),
    method("upperAscii", &["string->string"], scan, |meter, args| remade(meter, args, str::to_ascii_uppercase))
        .sized(first),
    method("trim", &["string->string"], scan, |meter, args| remade(meter, args, |text| text.trim().to_owned()))
        .sized(first),
    method("replace", &["string string string->string", "string string string int->string"], twice, replace)
        .sized(replaced),
    method("split", &["string string->list(string)", "string string int->list(string)"], twice, split)
        .sized(part_of_first),
    method("substring", &["string int->string", "string int int->string"], scan, substring).sized(first),
    method("join", &["list(string)->string", "list(string) string->string"], |size| tenths(1, size(RESULT)), join)
        .sized(|size| {
            let (list, separator) = (size(0), size(1));
            let between = SizeRange { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
            list.times(size(ELEMENT)).plus(separator.times(between))
        }),
    method("format", &["string list(dyn)->string"], scan, format),
    function("strings.quote", &["string->string"], scan, |meter, args| remade(meter, args, quoted)).sized(|size| {
        let doubled = size(0).max.saturating_mul(2);
        SizeRange { min: size(0).min.saturating_add(2), max: doubled.saturating_add(2) }
    }),
];

fn scan(size: ArgumentSizes<'_>) -> u64 {
    tenths(1, size(0))
}

/// The size of a text after replacements of its second argument by its third.
fn replaced(size: SizeRanges<'_>) -> SizeRange {
    let (text, old, new) = (size(0), size(1), size(2));
    let (most, kept_at_most) = match old.min {
        // The replacement is put around every character.
        0 => (text.max.saturating_add(1), text.max),
        shortest if new.max <= shortest => (0, text.max),
        shortest => (text.max.div_ceil(shortest), 0),
    };
    let (fewest, kept_at_least) = match old.max {
        0 => (text.min.saturating_add(1), text.min),
        longest if longest <= new.min => (0, text.min),
        longest => (text.min.div_ceil(longest), 0),
    };
    SizeRange { min: fewest, max: most }.times(new).plus(SizeRange { min: kept_at_least, max: kept_at_most })
}

fn twice(size: ArgumentSizes<'_>) -> u64 {
    tenths(2, size(0))
}

fn searching(size: ArgumentSizes<'_>) -> u64 {
    tenths(1, size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4))
}

fn compare<'v>(meter: &mut Meter, args: &[Val<'v>], fits: fn(&str, &str) -> bool) -> EvalResult<'v> {
    match args {
        [Val::Text(text), Val::Text(other)] => {
            meter.work((text.as_str().len() + other.as_str().len()) / 4)?;
            Ok(Val::Bool(fits(text.as_str(), other.as_str())))
        }
        _ => Err(unfit(args)),
    }
}

fn remade<'v>(meter: &mut Meter, args: &[Val<'v>], make: fn(&str) -> String) -> EvalResult<'v> {
    match args {
        [Val::Text(text)] => {
            meter.work(text.as_str().len().saturating_mul(2))?;
            Ok(Val::made(make(text.as_str())))
        }
        _ => Err(unfit(args)),
    }
}

fn dynamic<'v>(name: &'static str, meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    match args {
        [Val::Text(_), Val::Text(pattern), ..] => {
            let regex = meter.regex(pattern.as_str())?;
            searched(name, &regex, meter, args)
        }
        _ => Err(unfit(args)),
    }
}

/// Searches with a precompiled expression.
pub(in crate::cel) fn search<'v>(
    function: &Function,
    regex: &Regex,
    meter: &mut Meter,
    args: &[Val<'v>],
) -> EvalResult<'v> {
    searched(function.name, regex, meter, args)
}

fn searched<'v>(name: &str, regex: &Regex, meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let Some(Val::Text(text)) = args.first() else { return Err(unfit(args)) };
    let text = text.as_str();
    meter.work(regex.steps(text).saturating_mul(3).saturating_add(100))?;
    match (name, args.get(2)) {
        ("matches", None) => Ok(Val::Bool(regex.is_match(text))),
        ("find", None) => Ok(Val::made(regex.find(text).map_or("", |found| found.as_str()))),
        ("findAll", limit) => {
            let limit = match limit {
                Some(Val::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                Some(_) => return Err(unfit(args)),
                None => usize::MAX,
            };
            let mut found = Vec::new();
            for part in regex.find_iter(text).take(limit) {
                meter.work(2 * PER_ELEMENT)?;
                found.push(Val::made(part.as_str()));
            }
            Ok(Val::list(found))
        }
        _ => Err(unfit(args)),
    }
}

/// Byte offset of a character position; the end is a valid position.
fn offset(text: &str, at: usize) -> Option<usize> {
    if text.is_ascii() {
        return (at <= text.len()).then_some(at);
    }
    text.char_indices().map(|(offset, _)| offset).chain([text.len()]).nth(at)
}

fn index_of<'v>(meter: &mut Meter, args: &[Val<'v>], last: bool) -> EvalResult<'v> {
    let [Val::Text(text), Val::Text(wanted), rest @ ..] = args else { return Err(unfit(args)) };
    let (text, wanted) = (text.as_str(), wanted.as_str());
    meter.work(text.len() + wanted.len())?;
    let from = match rest {
        [] => None,
        [Val::Int(at)] => {
            let Ok(place) = usize::try_from(*at) else {
                return Err(EvalError::failed(format!("index out of range: {at}")));
            };
            match offset(text, place).filter(|offset| !last || *offset < text.len()) {
                Some(offset) => Some(offset),
                None => return Ok(Val::Int(-1)),
            }
        }
        _ => return Err(unfit(args)),
    };
    let found = match (last, from) {
        (false, from) => {
            let from = from.unwrap_or(0);
            text.get(from..).and_then(|rest| rest.find(wanted)).map(|at| at + from)
        }
        (true, None) => text.rfind(wanted),
        (true, Some(from)) => {
            // A match may begin at or before the position.
            let end = from.saturating_add(wanted.len()).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
            text.get(..end).and_then(|head| head.rfind(wanted)).filter(|at| *at <= from)
        }
    };
    let position = found.and_then(|at| text.get(..at)).map(|head| head.chars().count());
    Ok(position.map_or(Val::Int(-1), Val::size))
}

fn replace<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let [Val::Text(text), Val::Text(old), Val::Text(new), rest @ ..] = args else { return Err(unfit(args)) };
    let limit = match rest {
        [] => usize::MAX,
        [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => return Err(unfit(args)),
    };
    let (text, old, new) = (text.as_str(), old.as_str(), new.as_str());
    meter.work(text.len().saturating_mul(2))?;
    let found = text.matches(old).count().min(limit);
    meter.work(found.saturating_mul(new.len() + 4))?;
    Ok(Val::made(text.replacen(old, new, limit)))
}

fn split<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let [Val::Text(text), Val::Text(by), rest @ ..] = args else { return Err(unfit(args)) };
    let limit = match rest {
        [] => usize::MAX,
        [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => return Err(unfit(args)),
    };
    if limit == 0 {
        return Ok(Val::list(Vec::new()));
    }
    meter.work(text.as_str().len())?;
    // Substrings of an input string need no memory.
    let mut pieces = Vec::new();
    let mut keep = |piece: Val<'v>| {
        meter.work(2 * PER_ELEMENT)?;
        pieces.push(piece);
        Ok::<_, EvalError>(())
    };
    let by = by.as_str();
    match text {
        CelText::Written(text) => {
            for piece in parts(text, by, limit) {
                keep(Val::Text(CelText::Written(piece)))?;
            }
        }
        CelText::Made(text) => {
            for piece in parts(text, by, limit) {
                keep(Val::made(piece))?;
            }
        }
    }
    Ok(Val::list(pieces))
}

/// The parts of a string; an empty separator splits it into characters.
fn parts<'a: 'b, 'b>(text: &'a str, by: &'b str, limit: usize) -> Box<dyn Iterator<Item = &'a str> + 'b> {
    if !by.is_empty() {
        return Box::new(text.splitn(limit, by));
    }
    let cut = text.char_indices().map(|(at, _)| at).nth(limit - 1).unwrap_or(text.len());
    let cut = if limit == usize::MAX { text.len() } else { cut };
    let (head, tail) = text.split_at(cut);
    let characters = head.char_indices().map(move |(at, c)| head.get(at..at + c.len_utf8()).unwrap_or_default());
    Box::new(characters.chain((!tail.is_empty()).then_some(tail)))
}

fn substring<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let [Val::Text(text), Val::Int(from), rest @ ..] = args else { return Err(unfit(args)) };
    let written = text.as_str();
    meter.work(written.len())?;
    let place = |at: i64| {
        let found = usize::try_from(at).ok().and_then(|at| offset(written, at));
        found.ok_or_else(|| EvalError::failed(format!("index out of range: {at}")))
    };
    let from = place(*from)?;
    let to = match rest {
        [] => written.len(),
        [Val::Int(to)] => place(*to)?,
        _ => return Err(unfit(args)),
    };
    if to < from {
        return Err(EvalError::failed("invalid substring range"));
    }
    Ok(match text {
        CelText::Written(text) => Val::Text(CelText::Written(text.get(from..to).unwrap_or_default())),
        CelText::Made(text) => Val::made(text.get(from..to).unwrap_or_default()),
    })
}

fn join<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let [Val::List(list), rest @ ..] = args else { return Err(unfit(args)) };
    let by = match rest {
        [] => "",
        [Val::Text(by)] => by.as_str(),
        _ => return Err(unfit(args)),
    };
    let mut joined = String::new();
    for at in 0..list.len() {
        let Val::Text(piece) = list.at(at, meter)? else {
            return Err(EvalError::failed("join() needs a list of strings"));
        };
        meter.work(piece.as_str().len() + by.len())?;
        if at > 0 {
            joined.push_str(by);
        }
        joined.push_str(piece.as_str());
    }
    Ok(Val::made(joined))
}
