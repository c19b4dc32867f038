//! Regular expressions in Go's syntax, with Go's rules for empty matches and for `$1` in replacements.

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::{ElementType, TemplateValue};
use super::Parameter::{Int, Text};
use super::{CallArguments, TemplateFunction};
use crate::regexp::{Captures, Match, Regex};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("regexMatch", &[Text, Text], |context, arguments| match compiled(context, arguments, 1) {
        Err(RenderFailure::Template(_)) => Ok(false.into()),
        Err(failure) => Err(failure),
        Ok(regex) => Ok(regex.is_match(arguments.text(1)).into()),
    }),
    TemplateFunction::new("mustRegexMatch", &[Text, Text], |context, arguments| {
        Ok(compiled(context, arguments, 1)?.is_match(arguments.text(1)).into())
    }),
    TemplateFunction::new("regexFind", &[Text, Text], |context, arguments| find(context, arguments, ON_PANIC)),
    TemplateFunction::new("mustRegexFind", &[Text, Text], |context, arguments| find(context, arguments, PLAIN)),
    TemplateFunction::new("regexFindAll", &[Text, Text, Int], |context, arguments| {
        find_all(context, arguments, ON_PANIC)
    }),
    TemplateFunction::new("mustRegexFindAll", &[Text, Text, Int], |context, arguments| {
        find_all(context, arguments, PLAIN)
    }),
    TemplateFunction::new("regexReplaceAll", &[Text, Text, Text], |context, arguments| {
        replace(context, arguments, ON_PANIC, expand)
    }),
    TemplateFunction::new("mustRegexReplaceAll", &[Text, Text, Text], |context, arguments| {
        replace(context, arguments, PLAIN, expand)
    }),
    TemplateFunction::new("regexReplaceAllLiteral", &[Text, Text, Text], |context, arguments| {
        replace(context, arguments, ON_PANIC, literal)
    }),
    TemplateFunction::new("mustRegexReplaceAllLiteral", &[Text, Text, Text], |context, arguments| {
        replace(context, arguments, PLAIN, literal)
    }),
    TemplateFunction::new("regexSplit", &[Text, Text, Int], |context, arguments| split(context, arguments, ON_PANIC)),
    TemplateFunction::new("mustRegexSplit", &[Text, Text, Int], |context, arguments| split(context, arguments, PLAIN)),
    TemplateFunction::new("regexQuoteMeta", &[Text], |context, arguments| {
        let mut quoted = String::new();
        for c in arguments.text(0).chars() {
            if r"\.+*?()|[]{}^$".contains(c) {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        context.text(quoted)
    }),
];

/// Work counted for each searched byte, on top of the length of the pattern.
const SEARCH_WORK: usize = 64;

/// Whether an invalid pattern is reported as by `regexp.MustCompile`, which quotes it.
type Wording = bool;
const ON_PANIC: Wording = true;
const PLAIN: Wording = false;

/// The compiled pattern argument; searching the text counts as work.
fn compiled<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    text: usize,
) -> Result<Regex, RenderFailure> {
    let regex = context.regex(arguments.text(0))?.map_err(|error| RenderFailure::new(error.to_string()))?;
    context.work(arguments.text(text).len().saturating_mul(SEARCH_WORK + arguments.text(0).len()))?;
    Ok(regex)
}

fn worded<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    wording: Wording,
) -> Result<Regex, RenderFailure> {
    compiled(context, arguments, 1).map_err(|failure| match failure {
        RenderFailure::Template(message) if wording == ON_PANIC => {
            RenderFailure::new(format!("regexp: Compile({}): {message}", pattern_in_quotes(arguments.text(0))))
        }
        failure => failure,
    })
}

fn pattern_in_quotes(pattern: &str) -> String {
    match pattern.contains('`') {
        true => super::super::characters::quote(pattern),
        false => format!("`{pattern}`"),
    }
}

/// The matches in Go's sense: an empty match directly after another match does not count.
fn matches<'t>(
    context: &mut RenderContext<'_>,
    regex: &Regex,
    text: &'t str,
    most: usize,
) -> Result<Vec<Match<'t>>, RenderFailure> {
    let mut found: Vec<Match<'t>> = Vec::new();
    for next in regex.find_iter(text) {
        let repeats = next.is_empty() && found.last().is_some_and(|last| last.end() == next.start());
        if found.len() >= most {
            break;
        }
        if !repeats {
            // Every search may read the rest of the text.
            context.work(size_of::<Match<'_>>() + (text.len() - next.start()) / SEARCH_WORK)?;
            found.push(next);
        }
    }
    Ok(found)
}

fn find<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    wording: Wording,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let regex = worded(context, arguments, wording)?;
    let found = regex.find(arguments.text(1)).map_or("", |found| found.as_str());
    context.text(found.to_owned())
}

/// The maximum number of matches; negative numbers mean all.
fn count(arguments: &CallArguments<'_, '_>) -> usize {
    usize::try_from(arguments.int(2)).unwrap_or(usize::MAX)
}

fn find_all<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    wording: Wording,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let regex = worded(context, arguments, wording)?;
    let found = matches(context, &regex, arguments.text(1), count(arguments))?;
    context.text_list(found.into_iter().map(|found| found.as_str()))
}

fn split<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    wording: Wording,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let regex = worded(context, arguments, wording)?;
    let (text, most) = (arguments.text(1), count(arguments));
    if most == 0 {
        return context.list(ElementType::Text, Vec::new());
    }
    if !arguments.text(0).is_empty() && text.is_empty() {
        return context.text_list([""]);
    }
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in matches(context, &regex, text, most)? {
        if parts.len() + 1 == most {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(&text[start..end]);
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(&text[start..]);
    }
    context.text_list(parts)
}

type Expansion = for<'t> fn(&Regex, &Captures<'t>, &str, &mut String);

fn replace<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    wording: Wording,
    expansion: Expansion,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let regex = worded(context, arguments, wording)?;
    let (text, replacement) = (arguments.text(1), arguments.text(2));
    let mut written = String::new();
    let mut last: Option<usize> = None;
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        if whole.is_empty() && last == Some(whole.start()) {
            continue;
        }
        written.push_str(&text[last.unwrap_or(0)..whole.start()]);
        let before = written.len();
        expansion(&regex, &captures, replacement, &mut written);
        let rest = text.len() - whole.start();
        context.work(written.len() - before + replacement.len() + 16 + rest / SEARCH_WORK)?;
        last = Some(whole.end());
    }
    written.push_str(&text[last.unwrap_or(0)..]);
    context.text(written)
}

fn literal(_: &Regex, _: &Captures<'_>, replacement: &str, written: &mut String) {
    written.push_str(replacement);
}

/// Go's `Regexp.Expand`: `$1`, `${1}`, `$name`, `${name}`, `$$`; unknown groups are empty.
fn expand(regex: &Regex, captures: &Captures<'_>, replacement: &str, written: &mut String) {
    let mut rest = replacement;
    while let Some(dollar) = rest.find('$') {
        written.push_str(&rest[..dollar]);
        let behind = &rest[dollar + 1..];
        if let Some(after) = behind.strip_prefix('$') {
            written.push('$');
            rest = after;
            continue;
        }
        let Some((name, after)) = group_name(behind) else {
            written.push('$');
            rest = behind;
            continue;
        };
        written.push_str(group(regex, captures, name));
        rest = after;
    }
    written.push_str(rest);
}

fn group_name(text: &str) -> Option<(&str, &str)> {
    let braced = text.strip_prefix('{');
    let inner = braced.unwrap_or(text);
    let length = inner.find(|c: char| !(c == '_' || c.is_alphanumeric())).unwrap_or(inner.len());
    let (name, after) = inner.split_at(length);
    let after = if braced.is_some() { after.strip_prefix('}')? } else { after };
    (!name.is_empty()).then_some((name, after))
}

fn group<'t>(regex: &Regex, captures: &Captures<'t>, name: &str) -> &'t str {
    if name.bytes().all(|byte| byte.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0')) {
        let group = name.parse().ok().and_then(|index| captures.get(index));
        return group.map_or("", |group| group.as_str());
    }
    let mut named = regex.group_names().enumerate().filter(|(_, known)| *known == Some(name));
    named.find_map(|(index, _)| captures.get(index + 1)).map_or("", |group| group.as_str())
}
