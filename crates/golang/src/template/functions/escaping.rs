//! `html js urlquery`.

use super::super::characters::is_print;
use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::print::sprint;
use super::super::value::TemplateValue;
use super::Parameter::Any;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::variadic("html", &[], Any, |context, arguments| escape(context, arguments, html)),
    TemplateFunction::variadic("js", &[], Any, |context, arguments| escape(context, arguments, js)),
    TemplateFunction::variadic("urlquery", &[], Any, |context, arguments| escape(context, arguments, query)),
];

fn escape<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    escaped: fn(&str) -> String,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let shown: Vec<TemplateValue<'a>> = arguments
        .from(0)
        .iter()
        .map(|value| if value.is_nil_interface() { TemplateValue::from("<no value>") } else { value.clone() })
        .collect();
    let text = sprint(&context.heap, &shown, context.left())?;
    context.work(text.len())?;
    context.text(escaped(&text))
}

fn html(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => written.push_str("&#34;"),
            '\'' => written.push_str("&#39;"),
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '\0' => written.push('\u{fffd}'),
            _ => written.push(c),
        }
    }
    written
}

fn js(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => written.extend(['\\', c]),
            '<' | '>' | '&' | '=' => written.push_str(&format!("\\u{:04X}", u32::from(c))),
            _ if u32::from(c) < 0x20 || !c.is_ascii() && !is_print(c) => {
                written.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            _ => written.push(c),
        }
    }
    written
}

/// Go's `url.QueryEscape`.
fn query(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => written.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => written.push(char::from(byte)),
            _ => written.push_str(&format!("%{byte:02X}")),
        }
    }
    written
}
