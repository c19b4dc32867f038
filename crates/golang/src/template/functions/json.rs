//! JSON as Go's `encoding/json` writes and reads it.

use super::super::context::Context;
use super::super::error::Failure;
use super::super::floats;
use super::super::print::{MAX_DEPTH, Output};
use super::super::value::{Elements, Heap, Value};
use super::Parameter::{Any, Text};
use super::{Arguments, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("toJson", &[Any], |context, arguments| lenient(write(context, arguments, Style::ESCAPED))),
    Function::new("mustToJson", &[Any], |context, arguments| write(context, arguments, Style::ESCAPED)),
    Function::new("toPrettyJson", &[Any], |context, arguments| lenient(write(context, arguments, Style::PRETTY))),
    Function::new("mustToPrettyJson", &[Any], |context, arguments| write(context, arguments, Style::PRETTY)),
    Function::new("toRawJson", &[Any], |context, arguments| write(context, arguments, Style::RAW)),
    Function::new("mustToRawJson", &[Any], |context, arguments| write(context, arguments, Style::RAW)),
    Function::new("fromJson", &[Text], |context, arguments| match read(context, arguments) {
        Err(Failure::Template(_)) => Ok(Value::Nil),
        result => result,
    }),
    Function::new("mustFromJson", &[Text], read),
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

/// Functions without `must` swallow what Go cannot write; limits stay errors.
fn lenient(result: Result<Value<'_>, Failure>) -> Result<Value<'_>, Failure> {
    match result {
        Err(Failure::Template(_)) => Ok("".into()),
        result => result,
    }
}

fn write<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>, style: Style) -> Result<Value<'a>, Failure> {
    let mut writer = Writer { heap: &context.heap, out: Output::new(context.left()), style };
    writer.value(arguments.any(0), 0)?;
    let text = writer.out.into_text();
    context.text(text)
}

struct Writer<'h, 'a> {
    heap: &'h Heap<'a>,
    out: Output,
    style: Style,
}

impl<'a> Writer<'_, 'a> {
    fn value(&mut self, value: &Value<'a>, depth: usize) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::Limit { what: "levels of a value to write", limit: MAX_DEPTH });
        }
        match value {
            Value::Missing | Value::Nil => self.out.push("null"),
            Value::Bool(truth) => self.out.push(if *truth { "true" } else { "false" }),
            Value::Int(number) | Value::Int64(number) => self.out.push(&number.to_string()),
            Value::Uint64(number) => self.out.push(&number.to_string()),
            Value::Byte(number) => self.out.push(&number.to_string()),
            Value::Float(number) => match floats::json(*number) {
                Some(text) => self.out.push(&text),
                None => Err(Failure::new(format!("json: unsupported value: {}", floats::general(*number, None)))),
            },
            Value::Complex(..) => Err(Failure::new("json: unsupported type: complex128")),
            Value::Text(text) => self.text(text),
            Value::Version(version) => self.text(&version.to_string()),
            Value::Time(time) => self.text(&time.rfc3339()),
            Value::List(list) if self.heap.is_nil_list(*list) => self.out.push("null"),
            Value::List(list) => {
                let length = self.heap.list_len(*list);
                self.out.push("[")?;
                for index in 0..length {
                    self.separate(index, depth + 1)?;
                    self.value(&self.heap.item(*list, index).unwrap_or(Value::Nil), depth + 1)?;
                }
                self.finish(length, depth, "]")
            }
            Value::Map(map) => {
                let keys = self.heap.keys(*map);
                self.out.push("{")?;
                for (index, key) in keys.iter().enumerate() {
                    self.separate(index, depth + 1)?;
                    self.text(key)?;
                    self.out.push(if self.style.indents { ": " } else { ":" })?;
                    self.value(&self.heap.get(*map, key).unwrap_or(Value::Nil), depth + 1)?;
                }
                self.finish(keys.len(), depth, "}")
            }
        }
    }

    fn separate(&mut self, index: usize, depth: usize) -> Result<(), Failure> {
        if index > 0 {
            self.out.push(",")?;
        }
        self.new_line(depth)
    }

    fn finish(&mut self, count: usize, depth: usize, bracket: &str) -> Result<(), Failure> {
        if count > 0 {
            self.new_line(depth)?;
        }
        self.out.push(bracket)
    }

    fn new_line(&mut self, depth: usize) -> Result<(), Failure> {
        if !self.style.indents {
            return Ok(());
        }
        self.out.push("\n")?;
        self.out.push(&"  ".repeat(depth))
    }

    fn text(&mut self, text: &str) -> Result<(), Failure> {
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

fn read<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0);
    context.work(text.len().saturating_mul(16))?;
    let json = crate::json::value(text).map_err(|error| Failure::new(error.to_string()))?;
    owned(context, &json)
}

/// The value on the heap; serde_json has bounded its depth.
fn owned<'a>(context: &mut Context<'a>, json: &serde_json::Value) -> Result<Value<'a>, Failure> {
    Ok(match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => {
            let items = items.iter().map(|item| owned(context, item)).collect::<Result<_, _>>()?;
            context.list(Elements::Any, items)?
        }
        serde_json::Value::Object(members) => {
            let mut made = Vec::new();
            for (key, member) in members {
                made.push((key.as_str().into(), owned(context, member)?));
            }
            Value::Map(context.map(made)?)
        }
    })
}
