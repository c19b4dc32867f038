//! JSON as Go's `encoding/json` writes and reads it.

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::floats;
use super::super::print::{BoundedText, MAX_DEPTH};
use super::super::value::{ElementType, Heap, TemplateValue};
use super::Parameter::{Any, Text};
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("toJson", &[Any], |context, arguments| lenient(write(context, arguments, Style::ESCAPED))),
    TemplateFunction::new("mustToJson", &[Any], |context, arguments| write(context, arguments, Style::ESCAPED)),
    TemplateFunction::new("toPrettyJson", &[Any], |context, arguments| {
        lenient(write(context, arguments, Style::PRETTY))
    }),
    TemplateFunction::new("mustToPrettyJson", &[Any], |context, arguments| write(context, arguments, Style::PRETTY)),
    TemplateFunction::new("toRawJson", &[Any], |context, arguments| write(context, arguments, Style::RAW)),
    TemplateFunction::new("mustToRawJson", &[Any], |context, arguments| write(context, arguments, Style::RAW)),
    TemplateFunction::new("fromJson", &[Text], |context, arguments| match read(context, arguments) {
        Err(RenderFailure::Template(_)) => Ok(TemplateValue::Nil),
        result => result,
    }),
    TemplateFunction::new("mustFromJson", &[Text], read),
];

#[derive(Clone, Copy)]
struct Style {
    /// Whether `<`, `>` and `&` are escaped.
    escapes: bool,
    indents: bool,
}

impl Style {
    const ESCAPED: Self = Self { escapes: true, indents: false };
    const PRETTY: Self = Self { escapes: true, indents: true };
    const RAW: Self = Self { escapes: false, indents: false };
}

/// Functions without `must` ignore values that Go cannot write; limits remain errors.
fn lenient(result: Result<TemplateValue<'_>, RenderFailure>) -> Result<TemplateValue<'_>, RenderFailure> {
    match result {
        Err(RenderFailure::Template(_)) => Ok("".into()),
        result => result,
    }
}

fn write<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    style: Style,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut writer = JsonWriter { heap: &context.heap, out: BoundedText::new(context.left()), style };
    writer.value(arguments.any(0), 0)?;
    let text = writer.out.into_text();
    context.text(text)
}

struct JsonWriter<'h, 'a> {
    heap: &'h Heap<'a>,
    out: BoundedText,
    style: Style,
}

impl<'a> JsonWriter<'_, 'a> {
    fn value(&mut self, value: &TemplateValue<'a>, depth: usize) -> Result<(), RenderFailure> {
        if depth > MAX_DEPTH {
            return Err(RenderFailure::Limit { what: "levels of a value to write", limit: MAX_DEPTH });
        }
        match value {
            TemplateValue::Missing | TemplateValue::Nil => self.out.push("null"),
            TemplateValue::Bool(truth) => self.out.push(if *truth { "true" } else { "false" }),
            TemplateValue::Int(number) | TemplateValue::Int64(number) => self.out.push(&number.to_string()),
            TemplateValue::Uint64(number) => self.out.push(&number.to_string()),
            TemplateValue::Byte(number) => self.out.push(&number.to_string()),
            TemplateValue::Float(number) => match floats::json(*number) {
                Some(text) => self.out.push(&text),
                None => Err(RenderFailure::new(format!("json: unsupported value: {}", floats::general(*number, None)))),
            },
            TemplateValue::Complex(..) => Err(RenderFailure::new("json: unsupported type: complex128")),
            TemplateValue::Text(text) => self.text(text),
            TemplateValue::Version(version) => self.text(&version.to_string()),
            TemplateValue::Time(time) => self.text(&time.rfc3339()),
            TemplateValue::List(list) if self.heap.is_nil_list(*list) => self.out.push("null"),
            TemplateValue::List(list) => {
                let length = self.heap.list_len(*list);
                self.out.push("[")?;
                for index in 0..length {
                    self.separate(index, depth + 1)?;
                    self.value(&self.heap.item(*list, index).unwrap_or(TemplateValue::Nil), depth + 1)?;
                }
                self.finish(length, depth, "]")
            }
            TemplateValue::Map(map) => {
                let keys = self.heap.keys(*map);
                self.out.push("{")?;
                for (index, key) in keys.iter().enumerate() {
                    self.separate(index, depth + 1)?;
                    self.text(key)?;
                    self.out.push(if self.style.indents { ": " } else { ":" })?;
                    self.value(&self.heap.get(*map, key).unwrap_or(TemplateValue::Nil), depth + 1)?;
                }
                self.finish(keys.len(), depth, "}")
            }
        }
    }

    fn separate(&mut self, index: usize, depth: usize) -> Result<(), RenderFailure> {
        if index > 0 {
            self.out.push(",")?;
        }
        self.new_line(depth)
    }

    fn finish(&mut self, count: usize, depth: usize, bracket: &str) -> Result<(), RenderFailure> {
        if count > 0 {
            self.new_line(depth)?;
        }
        self.out.push(bracket)
    }

    fn new_line(&mut self, depth: usize) -> Result<(), RenderFailure> {
        if !self.style.indents {
            return Ok(());
        }
        self.out.push("\n")?;
        self.out.push(&"  ".repeat(depth))
    }

    fn text(&mut self, text: &str) -> Result<(), RenderFailure> {
        self.out.push("\"")?;
        for c in text.chars() {
            match c {
                '"' => self.out.push("\\\"")?,
                '\\' => self.out.push("\\\\")?,
                '\n' => self.out.push("\\n")?,
                '\r' => self.out.push("\\r")?,
                '\t' => self.out.push("\\t")?,
                '\u{8}' => self.out.push("\\b")?,
                '\u{c}' => self.out.push("\\f")?,
                '\u{2028}' | '\u{2029}' => self.out.push(&format!("\\u{:04x}", u32::from(c)))?,
                '<' | '>' | '&' if self.style.escapes => self.out.push(&format!("\\u{:04x}", u32::from(c)))?,
                _ if u32::from(c) < 0x20 => self.out.push(&format!("\\u{:04x}", u32::from(c)))?,
                _ => self.out.push(c.encode_utf8(&mut [0; 4]))?,
            }
        }
        self.out.push("\"")
    }
}

fn read<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let text = arguments.text(0);
    context.work(text.len().saturating_mul(16))?;
    let json = crate::json::value(text).map_err(|error| RenderFailure::new(error.to_string()))?;
    owned(context, &json)
}

/// The value on the heap; serde_json bounds its depth.
fn owned<'a>(context: &mut RenderContext<'a>, json: &serde_json::Value) -> Result<TemplateValue<'a>, RenderFailure> {
    Ok(match json {
        serde_json::Value::Null => TemplateValue::Nil,
        serde_json::Value::Bool(truth) => TemplateValue::Bool(*truth),
        serde_json::Value::Number(number) => TemplateValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => {
            let items = items.iter().map(|item| owned(context, item)).collect::<Result<_, _>>()?;
            context.list(ElementType::Any, items)?
        }
        serde_json::Value::Object(members) => {
            let mut made = Vec::new();
            for (key, member) in members {
                made.push((key.as_str().into(), owned(context, member)?));
            }
            TemplateValue::Map(context.map(made)?)
        }
    })
}
