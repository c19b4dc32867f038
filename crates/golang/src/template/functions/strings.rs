//! Strings: trimming, cutting, joining, quoting, and their cases.
//!
//! Go cuts strings by bytes; here, a character cut in two becomes U+FFFD.

use std::rc::Rc;

use super::super::characters::{is_letter, is_number, is_space, lower, quote, upper};
use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::print::{BoundedText, sprint};
use super::super::value::TemplateValue;
use super::Parameter::{Any, Int, Text};
use super::builtin::byte_range;
use super::comparison::to_text;
use super::lists::texts;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("trim", &[Text], |context, arguments| context.text(arguments.text(0).trim().to_owned())),
    TemplateFunction::new("trimAll", &[Text, Text], trim_all),
    TemplateFunction::new("trimall", &[Text, Text], trim_all),
    TemplateFunction::new("trimSuffix", &[Text, Text], |context, arguments| {
        let text = arguments.text(1);
        context.text(text.strip_suffix(arguments.text(0)).unwrap_or(text).to_owned())
    }),
    TemplateFunction::new("trimPrefix", &[Text, Text], |context, arguments| {
        let text = arguments.text(1);
        context.text(text.strip_prefix(arguments.text(0)).unwrap_or(text).to_owned())
    }),
    TemplateFunction::new("upper", &[Text], |context, arguments| {
        context.text(arguments.text(0).chars().map(upper).collect())
    }),
    TemplateFunction::new("lower", &[Text], |context, arguments| {
        context.text(arguments.text(0).chars().map(lower).collect())
    }),
    TemplateFunction::new("title", &[Text], |context, arguments| context.text(title(arguments.text(0)))),
    TemplateFunction::new("contains", &[Text, Text], |_, arguments| {
        Ok(arguments.text(1).contains(arguments.text(0)).into())
    }),
    TemplateFunction::new("hasPrefix", &[Text, Text], |_, arguments| {
        Ok(arguments.text(1).starts_with(arguments.text(0)).into())
    }),
    TemplateFunction::new("hasSuffix", &[Text, Text], |_, arguments| {
        Ok(arguments.text(1).ends_with(arguments.text(0)).into())
    }),
    TemplateFunction::new("repeat", &[Int, Text], repeat),
    TemplateFunction::new("replace", &[Text, Text, Text], replace),
    TemplateFunction::new("indent", &[Int, Text], |context, arguments| {
        let text = indented(context, arguments)?;
        context.text(text)
    }),
    TemplateFunction::new("nindent", &[Int, Text], |context, arguments| {
        let text = indented(context, arguments)?;
        context.text(format!("\n{text}"))
    }),
    TemplateFunction::new("plural", &[Text, Text, Int], |_, arguments| {
        Ok(arguments.shared(usize::from(arguments.int(2) != 1)))
    }),
    TemplateFunction::new("substr", &[Int, Int, Text], substring),
    TemplateFunction::new("trunc", &[Int, Text], truncate),
    TemplateFunction::variadic("quote", &[], Any, |context, arguments| {
        let mut quoted = Vec::new();
        for value in arguments.from(0).iter().filter(|value| !value.is_nil_interface()) {
            let text = to_text(context, value)?;
            context.work(text.len())?;
            quoted.push(quote(&text));
        }
        context.text(quoted.join(" "))
    }),
    TemplateFunction::variadic("squote", &[], Any, |context, arguments| {
        let mut quoted = Vec::new();
        for value in arguments.from(0).iter().filter(|value| !value.is_nil_interface()) {
            let text = to_text(context, value)?;
            context.work(text.len())?;
            quoted.push(format!("'{text}'"));
        }
        context.text(quoted.join(" "))
    }),
    TemplateFunction::variadic("cat", &[], Any, |context, arguments| {
        let mut words = Vec::new();
        for value in arguments.from(0).iter().filter(|value| !value.is_nil_interface()) {
            let word = sprint(&context.heap, std::slice::from_ref(value), context.left())?;
            context.work(word.len())?;
            words.push(word);
        }
        context.text(words.join(" "))
    }),
    TemplateFunction::new("toString", &[Any], |context, arguments| {
        let text = to_text(context, arguments.any(0))?;
        context.text(text)
    }),
    TemplateFunction::new("toStrings", &[Any], |context, arguments| {
        let texts = texts(context, arguments.any(0))?;
        context.text_list(texts)
    }),
    TemplateFunction::new("join", &[Text, Any], |context, arguments| {
        let texts = texts(context, arguments.any(1))?;
        context.work(texts.len().saturating_mul(arguments.text(0).len()))?;
        context.text(texts.join(arguments.text(0)))
    }),
    TemplateFunction::new("split", &[Text, Text], |context, arguments| {
        let parts = parts(context, arguments.text(0), arguments.text(1), None)?;
        numbered(context, parts)
    }),
    TemplateFunction::new("splitn", &[Text, Int, Text], |context, arguments| {
        let parts = parts(context, arguments.text(0), arguments.text(2), usize::try_from(arguments.int(1)).ok())?;
        numbered(context, parts)
    }),
    TemplateFunction::new("splitList", &[Text, Text], |context, arguments| {
        let parts = parts(context, arguments.text(0), arguments.text(1), None)?;
        context.text_list(parts)
    }),
];

fn trim_all<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let (cutset, text) = (arguments.text(0), arguments.text(1));
    context.work(cutset.len().saturating_mul(text.len()) / 8)?;
    context.text(text.trim_matches(|c| cutset.contains(c)).to_owned())
}

/// Go's `strings.Title`: the first letter of each word in upper case.
fn title(text: &str) -> String {
    let mut in_word = false;
    text.chars()
        .map(|c| {
            let starts = !in_word;
            in_word = match c {
                _ if c.is_ascii() => c.is_ascii_alphanumeric() || c == '_',
                _ => is_letter(c) || is_number(c) || !is_space(c),
            };
            if starts { upper(c) } else { c }
        })
        .collect()
}

fn repeat<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let count = usize::try_from(arguments.int(0)).map_err(|_| RenderFailure::new("strings: negative Repeat count"))?;
    context.work(arguments.text(1).len().saturating_mul(count))?;
    Ok(arguments.text(1).repeat(count).into())
}

fn replace<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let (old, new, text) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let most = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() };
    let found = if most.saturating_mul(new.len()) > context.left() { text.matches(old).count() } else { 0 };
    context.work(found.saturating_mul(new.len()))?;
    context.text(text.replace(old, new))
}

fn indented<'a>(context: &mut RenderContext<'a>, arguments: &CallArguments<'_, 'a>) -> Result<String, RenderFailure> {
    let spaces = usize::try_from(arguments.int(0)).map_err(|_| RenderFailure::new("strings: negative Repeat count"))?;
    let mut written = BoundedText::new(context.left());
    for (index, line) in arguments.text(1).split('\n').enumerate() {
        if index > 0 {
            written.push("\n")?;
        }
        written.repeat(' ', spaces)?;
        written.push(line)?;
    }
    Ok(written.into_text())
}

fn substring<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let (text, given) = (arguments.text(2), [arguments.int(0), arguments.int(1)]);
    let length = text.len();
    let (start, end) = match given.map(usize::try_from) {
        [Err(_), end] => (0, end.unwrap_or(usize::MAX)),
        [Ok(start), Ok(end)] if end <= length => (start, end),
        [Ok(start), _] => (start, length),
    };
    if start > end || end > length {
        let bounds = match given {
            [from, to] if from < 0 && to < 0 => format!("[:{to}]"),
            [from, to] if from < 0 => format!("[:{to}] with length {length}"),
            _ => format!("[{start}:{end}]"),
        };
        return Err(RenderFailure::new(format!("runtime error: slice bounds out of range {bounds}")));
    }
    context.text(byte_range(text, start, end))
}

fn truncate<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let text = arguments.text(1);
    let count = usize::try_from(arguments.int(0).unsigned_abs()).unwrap_or(usize::MAX);
    match arguments.int(0) < 0 {
        _ if count >= text.len() => Ok(arguments.shared(1)),
        true => context.text(byte_range(text, text.len() - count, text.len())),
        false => context.text(byte_range(text, 0, count)),
    }
}

/// Go's `strings.SplitN`: an empty separator splits into characters.
fn parts(
    context: &mut RenderContext<'_>,
    separator: &str,
    text: &str,
    most: Option<usize>,
) -> Result<Vec<String>, RenderFailure> {
    let most = most.unwrap_or(usize::MAX);
    let made = if separator.is_empty() { text.len() } else { text.matches(separator).count() + 1 };
    context.work(made.min(most).saturating_mul(64))?;
    Ok(match most {
        0 => Vec::new(),
        _ if !separator.is_empty() => text.splitn(most, separator).map(str::to_owned).collect(),
        _ => {
            let mut characters: Vec<String> = text.chars().take(most).map(String::from).collect();
            let taken: usize = characters.iter().map(String::len).sum();
            if let Some(last) = characters.last_mut() {
                last.push_str(&text[taken..]);
            }
            characters
        }
    })
}

/// A map from `_0`, `_1` … to the parts.
fn numbered<'a>(context: &mut RenderContext<'a>, parts: Vec<String>) -> Result<TemplateValue<'a>, RenderFailure> {
    context.work(parts.iter().map(|part| part.len() + 64).sum())?;
    let members = parts.into_iter().enumerate().map(|(index, part)| (Rc::from(format!("_{index}")), part.into()));
    let members: Vec<(Rc<str>, TemplateValue<'a>)> = members.collect();
    Ok(TemplateValue::Map(context.heap.map_of_text(members)))
}
