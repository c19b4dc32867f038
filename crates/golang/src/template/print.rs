//! Values printed as Go's `fmt` prints them: `Sprint`, `Sprintln` and the verbs of `Sprintf` (TV-08, TV-09).
//!
//! Not taken from Go: the verbs `%x` and `%b` of floats and `%p`, which are answered as wrong verbs.

use super::characters::{is_print, quoted};
use super::error::RenderFailure;
use super::floats;
use super::value::{Heap, TemplateValue};

/// Maximum nesting of a printed value.
pub(super) const MAX_DEPTH: usize = 200;

/// The largest width or precision; Go's own bound for widths given as arguments is 1e6.
const MAX_WIDTH: usize = 65_000;

/// Text of limited length.
#[derive(Debug)]
pub(super) struct BoundedText {
    text: String,
    limit: usize,
}

impl BoundedText {
    /// At most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), RenderFailure> {
        if text.len() > self.limit.saturating_sub(self.text.len()) {
            return Err(RenderFailure::Limit { what: "bytes produced", limit: self.limit });
        }
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn repeat(&mut self, c: char, count: usize) -> Result<(), RenderFailure> {
        if count > self.limit {
            return Err(RenderFailure::Limit { what: "bytes produced", limit: self.limit });
        }
        self.push(&c.to_string().repeat(count))
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Go's `fmt.Sprint`: operands with a blank between them where neither is a string.
pub(super) fn sprint(heap: &Heap<'_>, values: &[TemplateValue<'_>], limit: usize) -> Result<String, RenderFailure> {
    let mut printer = ValuePrinter::new(heap, limit);
    let mut after_text = true;
    for (index, value) in values.iter().enumerate() {
        let is_text = matches!(value, TemplateValue::Text(_));
        if index > 0 && !is_text && !after_text {
            printer.out.push(" ")?;
        }
        printer.value(value, 'v', 0)?;
        after_text = is_text;
    }
    Ok(printer.out.into_text())
}

/// Go's `fmt.Sprintln`.
pub(super) fn sprintln(heap: &Heap<'_>, values: &[TemplateValue<'_>], limit: usize) -> Result<String, RenderFailure> {
    let mut printer = ValuePrinter::new(heap, limit);
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.out.push(" ")?;
        }
        printer.value(value, 'v', 0)?;
    }
    printer.out.push("\n")?;
    Ok(printer.out.into_text())
}

/// A single value as `%v` prints it.
pub(super) fn display(heap: &Heap<'_>, value: &TemplateValue<'_>, limit: usize) -> Result<String, RenderFailure> {
    sprint(heap, std::slice::from_ref(value), limit)
}

/// A single value as the verb prints it.
pub(super) fn with_verb(
    heap: &Heap<'_>,
    verb: char,
    value: &TemplateValue<'_>,
    limit: usize,
) -> Result<String, RenderFailure> {
    let mut printer = ValuePrinter::new(heap, limit);
    printer.value(value, verb, 0)?;
    Ok(printer.out.into_text())
}

/// Go's `fmt.Sprintf`.
pub(super) fn sprintf(
    heap: &Heap<'_>,
    format: &str,
    values: &[TemplateValue<'_>],
    limit: usize,
) -> Result<String, RenderFailure> {
    let mut arguments = FormatOperands { values, next: 0, reordered: false, good: true, after_index: false };
    let mut printer = ValuePrinter::new(heap, limit);
    let mut rest = format;
    while let Some(percent) = rest.find('%') {
        printer.out.push(&rest[..percent])?;
        rest = printer.directive(&rest[percent + 1..], &mut arguments)?;
    }
    printer.out.push(rest)?;
    printer.extra(&arguments)?;
    Ok(printer.out.into_text())
}

/// The flags, width and precision of a directive.
#[derive(Clone, Copy, Debug, Default)]
struct FormatFlags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%#v`: Go syntax.
    syntax: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// The operands of `printf`, and which one is next.
struct FormatOperands<'v, 'a> {
    values: &'v [TemplateValue<'a>],
    next: usize,
    reordered: bool,
    good: bool,
    after_index: bool,
}

impl FormatOperands<'_, '_> {
    /// Reads an index like `[3]` at the start of `text`.
    fn index<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(inner) = text.strip_prefix('[') else {
            self.after_index = false;
            return text;
        };
        self.reordered = true;
        let Some((number, rest)) = inner.split_once(']') else {
            self.good = false;
            self.after_index = false;
            return inner;
        };
        match number.parse::<usize>().ok().filter(|number| (1..=self.values.len()).contains(number)) {
            Some(number) if number > 0 => {
                self.next = number - 1;
                self.after_index = true;
            }
            _ => {
                self.good = false;
                self.after_index = true;
            }
        }
        rest
    }

    /// The operand of a `*`.
    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        match value {
            TemplateValue::Int(number) | TemplateValue::Int64(number) => Some(*number),
            TemplateValue::Byte(number) => Some(i64::from(*number)),
            TemplateValue::Uint64(number) => i64::try_from(*number).ok(),
            _ => None,
        }
        .filter(|number| number.unsigned_abs() <= 1_000_000)
    }
}

/// Digits at the start of `text` as a width.
fn width(text: &str) -> Result<(Option<usize>, &str), RenderFailure> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    if number.is_empty() {
        return Ok((None, rest));
    }
    match number.parse() {
        Ok(width) => at_most_max(width).map(|()| (Some(width), rest)),
        Err(_) => Err(RenderFailure::Limit { what: "width and precision", limit: MAX_WIDTH }),
    }
}

fn at_most_max(width: usize) -> Result<(), RenderFailure> {
    match width {
        ..=MAX_WIDTH => Ok(()),
        _ => Err(RenderFailure::Limit { what: "width and precision", limit: MAX_WIDTH }),
    }
}

struct ValuePrinter<'h, 'a> {
    heap: &'h Heap<'a>,
    out: BoundedText,
    flags: FormatFlags,
}

impl<'h, 'a> ValuePrinter<'h, 'a> {
    fn new(heap: &'h Heap<'a>, limit: usize) -> Self {
        Self { heap, out: BoundedText::new(limit), flags: FormatFlags::default() }
    }

    /// Prints the directive after a `%`; returns the rest.
    fn directive<'t>(
        &mut self,
        text: &'t str,
        arguments: &mut FormatOperands<'_, 'a>,
    ) -> Result<&'t str, RenderFailure> {
        self.flags = FormatFlags::default();
        arguments.good = true;
        let rest = self.read_flags(text);
        let rest = arguments.index(rest);
        let rest = self.read_width(rest, arguments)?;
        let mut rest = self.read_precision(rest, arguments)?;
        if !arguments.after_index {
            rest = arguments.index(rest);
        }
        let mut chars = rest.chars();
        let Some(verb) = chars.next() else {
            self.out.push("%!(NOVERB)")?;
            return Ok("");
        };
        arguments.after_index = false;
        if verb == '%' {
            self.out.push("%")?;
        } else if !arguments.good {
            self.out.push(&format!("%!{verb}(BADINDEX)"))?;
        } else if let Some(value) = arguments.values.get(arguments.next) {
            if matches!(verb, 'v' | 'w') {
                self.flags.syntax = self.flags.sharp;
                (self.flags.sharp, self.flags.plus) = (false, false);
            }
            self.value(value, verb, 0)?;
            arguments.next += 1;
        } else {
            self.out.push(&format!("%!{verb}(MISSING)"))?;
        }
        Ok(chars.as_str())
    }

    fn read_flags<'t>(&mut self, text: &'t str) -> &'t str {
        let rest = text.trim_start_matches(['#', '0', '+', '-', ' ']);
        for flag in text[..text.len() - rest.len()].chars() {
            match flag {
                '#' => self.flags.sharp = true,
                '0' => self.flags.zero = true,
                '+' => self.flags.plus = true,
                '-' => self.flags.minus = true,
                _ => self.flags.space = true,
            }
        }
        rest
    }

    fn read_width<'t>(
        &mut self,
        text: &'t str,
        arguments: &mut FormatOperands<'_, 'a>,
    ) -> Result<&'t str, RenderFailure> {
        let Some(rest) = text.strip_prefix('*') else {
            let (given, rest) = width(text)?;
            arguments.good &= !(arguments.after_index && given.is_some());
            self.flags.width = given;
            return Ok(rest);
        };
        match arguments.star() {
            None => self.out.push("%!(BADWIDTH)")?,
            Some(number) => {
                let size = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
                at_most_max(size)?;
                self.flags.width = Some(size);
                if number < 0 {
                    (self.flags.minus, self.flags.zero) = (true, false);
                }
            }
        }
        arguments.after_index = false;
        Ok(rest)
    }

    fn read_precision<'t>(
        &mut self,
        text: &'t str,
        arguments: &mut FormatOperands<'_, 'a>,
    ) -> Result<&'t str, RenderFailure> {
        let Some(rest) = text.strip_prefix('.').filter(|rest| !rest.is_empty()) else { return Ok(text) };
        arguments.good &= !arguments.after_index;
        let rest = arguments.index(rest);
        let Some(after) = rest.strip_prefix('*') else {
            let (given, rest) = width(rest)?;
            self.flags.precision = Some(given.unwrap_or(0));
            return Ok(rest);
        };
        let number = arguments.star();
        self.flags.precision = number.and_then(|number| usize::try_from(number).ok());
        at_most_max(self.flags.precision.unwrap_or(0))?;
        if self.flags.precision.is_none() {
            self.out.push("%!(BADPREC)")?;
        }
        arguments.after_index = false;
        Ok(after)
    }

    fn extra(&mut self, arguments: &FormatOperands<'_, 'a>) -> Result<(), RenderFailure> {
        let extra = arguments.values.get(arguments.next..).unwrap_or_default();
        if arguments.reordered || extra.is_empty() {
            return Ok(());
        }
        self.flags = FormatFlags::default();
        self.out.push("%!(EXTRA ")?;
        for (index, value) in extra.iter().enumerate() {
            if index > 0 {
                self.out.push(", ")?;
            }
            if value.is_nil_interface() {
                self.out.push("<nil>")?;
            } else {
                self.out.push(self.heap.type_name(value))?;
                self.out.push("=")?;
                self.value(value, 'v', 0)?;
            }
        }
        self.out.push(")")
    }

    fn value(&mut self, value: &TemplateValue<'a>, verb: char, depth: usize) -> Result<(), RenderFailure> {
        if depth > MAX_DEPTH {
            return Err(RenderFailure::Limit { what: "levels of a value to print", limit: MAX_DEPTH });
        }
        if verb == 'T' && depth == 0 {
            return self.text(self.heap.type_name(value), 's');
        }
        match value {
            TemplateValue::Missing | TemplateValue::Nil if depth > 0 && self.flags.syntax => {
                self.out.push("interface {}(nil)")
            }
            TemplateValue::Missing | TemplateValue::Nil if depth > 0 => self.out.push("<nil>"),
            TemplateValue::Missing | TemplateValue::Nil if verb == 'v' => self.padded("<nil>"),
            TemplateValue::Missing | TemplateValue::Nil => self.out.push(&format!("%!{verb}(<nil>)")),
            TemplateValue::Bool(truth) if matches!(verb, 't' | 'v') => {
                self.padded(if *truth { "true" } else { "false" })
            }
            TemplateValue::Int(number) | TemplateValue::Int64(number) => {
                self.integer(value, *number < 0, number.unsigned_abs(), verb)
            }
            TemplateValue::Uint64(number) => self.integer(value, false, *number, verb),
            TemplateValue::Byte(number) => self.integer(value, false, u64::from(*number), verb),
            TemplateValue::Float(number) => self.float(value, *number, verb),
            TemplateValue::Complex(real, imaginary) => self.complex(value, *real, *imaginary, verb),
            TemplateValue::Text(text) if self.flags.syntax && verb == 'v' => self.text(text, 'q'),
            TemplateValue::Text(text) if matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') => self.text(text, verb),
            TemplateValue::Version(version) if matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') => {
                self.text(&version.to_string(), verb)
            }
            TemplateValue::Time(time) if matches!(verb, 'v' | 's' | 'q' | 'x' | 'X') => {
                self.text(&time.to_string(), verb)
            }
            TemplateValue::List(list) => {
                let items = (0..self.heap.list_len(*list)).map_while(|index| self.heap.item(*list, index));
                let open = if self.flags.syntax { format!("{}{{", self.heap.type_name(value)) } else { "[".to_owned() };
                self.out.push(&open)?;
                for (index, item) in items.enumerate() {
                    if index > 0 {
                        self.out.push(if self.flags.syntax { ", " } else { " " })?;
                    }
                    self.value(&item, verb, depth + 1)?;
                }
                self.out.push(if self.flags.syntax { "}" } else { "]" })
            }
            TemplateValue::Map(map) => {
                let open = match self.flags.syntax {
                    true => format!("{}{{", self.heap.type_name(value)),
                    false => "map[".to_owned(),
                };
                self.out.push(&open)?;
                for (index, key) in self.heap.keys(*map).into_iter().enumerate() {
                    if index > 0 {
                        self.out.push(if self.flags.syntax { ", " } else { " " })?;
                    }
                    let member = self.heap.get(*map, &key).unwrap_or(TemplateValue::Nil);
                    self.value(&TemplateValue::Text(key), verb, depth + 1)?;
                    self.out.push(":")?;
                    self.value(&member, verb, depth + 1)?;
                }
                self.out.push(if self.flags.syntax { "}" } else { "]" })
            }
            TemplateValue::Bool(_) | TemplateValue::Text(_) | TemplateValue::Version(_) | TemplateValue::Time(_) => {
                self.wrong_verb(value, verb)
            }
        }
    }

    /// `%!d(string=x)`
    fn wrong_verb(&mut self, value: &TemplateValue<'a>, verb: char) -> Result<(), RenderFailure> {
        self.out.push(&format!("%!{verb}({}=", self.heap.type_name(value)))?;
        self.value(value, 'v', 0)?;
        self.out.push(")")
    }

    /// Writes text padded to the width; zeros pad numbers only.
    fn padded(&mut self, text: &str) -> Result<(), RenderFailure> {
        let missing = self.flags.width.unwrap_or(0).saturating_sub(text.chars().count());
        let padding = if self.flags.zero && !self.flags.minus { '0' } else { ' ' };
        if !self.flags.minus {
            self.out.repeat(padding, missing)?;
        }
        self.out.push(text)?;
        if self.flags.minus { self.out.repeat(' ', missing) } else { Ok(()) }
    }

    fn text(&mut self, text: &str, verb: char) -> Result<(), RenderFailure> {
        if matches!(verb, 'x' | 'X') {
            return self.hexadecimal(text, verb);
        }
        let end =
            self.flags.precision.and_then(|count| text.char_indices().nth(count)).map_or(text.len(), |(at, _)| at);
        let cut = &text[..end];
        // Escapes take up to ten bytes per character.
        let longest = cut.len().saturating_mul(if verb == 'q' { 10 } else { 1 });
        if longest > self.out.limit.saturating_sub(self.out.len()).saturating_mul(10) {
            return Err(RenderFailure::Limit { what: "bytes produced", limit: self.out.limit });
        }
        match verb {
            'q' if self.flags.sharp && can_stand_raw(cut) => self.padded(&format!("`{cut}`")),
            'q' => self.padded(&quoted(cut, '"', self.flags.plus)),
            _ => self.padded(cut),
        }
    }

    fn hexadecimal(&mut self, text: &str, verb: char) -> Result<(), RenderFailure> {
        let bytes = text.as_bytes();
        let bytes = bytes.get(..self.flags.precision.unwrap_or(bytes.len())).unwrap_or(bytes);
        if bytes.len() > self.out.limit {
            return Err(RenderFailure::Limit { what: "bytes produced", limit: self.out.limit });
        }
        let mut written = String::new();
        for (index, byte) in bytes.iter().enumerate() {
            if index > 0 && self.flags.space {
                written.push(' ');
            }
            if self.flags.sharp && (index == 0 || self.flags.space) {
                written.push_str(if verb == 'x' { "0x" } else { "0X" });
            }
            written.push_str(&if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
        }
        self.padded(&written)
    }

    fn integer(
        &mut self,
        value: &TemplateValue<'a>,
        negative: bool,
        size: u64,
        verb: char,
    ) -> Result<(), RenderFailure> {
        let is_unsigned = matches!(value, TemplateValue::Uint64(_) | TemplateValue::Byte(_));
        let (digits, prefix) = match verb {
            'v' if self.flags.syntax && is_unsigned => (format!("{size:x}"), "0x"),
            'v' | 'd' => (size.to_string(), ""),
            'b' => (format!("{size:b}"), if self.flags.sharp { "0b" } else { "" }),
            'o' => (format!("{size:o}"), if self.flags.sharp { "0" } else { "" }),
            'O' => (format!("{size:o}"), "0o"),
            'x' => (format!("{size:x}"), if self.flags.sharp { "0x" } else { "" }),
            'X' => (format!("{size:X}"), if self.flags.sharp { "0X" } else { "" }),
            'c' | 'q' | 'U' => return self.character(negative, size, verb),
            _ => return self.wrong_verb(value, verb),
        };
        let digits = match self.flags.precision {
            Some(0) if size == 0 => return self.blank(),
            Some(precision) => format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len()))),
            None => digits,
        };
        let zeros_pad = self.flags.zero && !self.flags.minus && self.flags.precision.is_none();
        self.number(self.sign(negative), prefix, &digits, zeros_pad)
    }

    fn blank(&mut self) -> Result<(), RenderFailure> {
        self.out.repeat(' ', self.flags.width.unwrap_or(0))
    }

    fn sign(&self, negative: bool) -> &'static str {
        match negative {
            true => "-",
            false if self.flags.plus => "+",
            false if self.flags.space => " ",
            false => "",
        }
    }

    /// Writes a number, padded with zeros after its sign or with blanks.
    fn number(&mut self, sign: &str, prefix: &str, digits: &str, zeros_pad: bool) -> Result<(), RenderFailure> {
        let missing = self.flags.width.unwrap_or(0).saturating_sub(sign.len() + prefix.len() + digits.len());
        // The width includes prefixes, except where zeros fill it.
        let missing = if zeros_pad { missing + prefix.len() } else { missing };
        if !zeros_pad && !self.flags.minus {
            self.out.repeat(' ', missing)?;
        }
        self.out.push(sign)?;
        self.out.push(prefix)?;
        if zeros_pad {
            self.out.repeat('0', missing)?;
        }
        self.out.push(digits)?;
        if self.flags.minus { self.out.repeat(' ', missing) } else { Ok(()) }
    }

    fn character(&mut self, negative: bool, size: u64, verb: char) -> Result<(), RenderFailure> {
        let code = u32::try_from(size).ok().filter(|_| !negative);
        let c = code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
        match verb {
            'c' => self.padded(&c.to_string()),
            'q' => self.padded(&quoted(&c.to_string(), '\'', self.flags.plus)),
            _ => {
                let digits = self.flags.precision.unwrap_or(0).max(4);
                let number = if negative { size.wrapping_neg() } else { size };
                let name = if self.flags.sharp && is_print(c) { format!(" '{c}'") } else { String::new() };
                self.flags.zero = false;
                self.padded(&format!("U+{number:0digits$X}{name}"))
            }
        }
    }

    fn float(&mut self, value: &TemplateValue<'a>, number: f64, verb: char) -> Result<(), RenderFailure> {
        match self.float_text(number, verb) {
            None => self.wrong_verb(value, verb),
            Some(text) => {
                let (sign, digits) = self.split_sign(&text);
                let zeros_pad = self.flags.zero && !self.flags.minus && number.is_finite();
                self.number(sign, "", digits, zeros_pad)
            }
        }
    }

    fn split_sign<'t>(&self, text: &'t str) -> (&'static str, &'t str) {
        match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => match text.strip_prefix('+') {
                Some(infinity) if self.flags.space && !self.flags.plus => (" ", infinity),
                Some(infinity) if self.flags.plus => ("+", infinity),
                Some(_) => ("", text),
                None => (self.sign(false), text),
            },
        }
    }

    fn float_text(&self, number: f64, verb: char) -> Option<String> {
        let precision = self.flags.precision;
        Some(match verb {
            'v' | 'g' => floats::general(number, precision),
            'G' => floats::general(number, precision).replace('e', "E"),
            'e' => floats::exponent(number, Some(precision.unwrap_or(6))),
            'E' => floats::exponent(number, Some(precision.unwrap_or(6))).replace('e', "E"),
            'f' | 'F' => floats::fixed(number, Some(precision.unwrap_or(6))),
            _ => return None,
        })
    }

    fn complex(
        &mut self,
        value: &TemplateValue<'a>,
        real: f64,
        imaginary: f64,
        verb: char,
    ) -> Result<(), RenderFailure> {
        match (self.float_text(real, verb), self.float_text(imaginary, verb)) {
            (Some(real), Some(imaginary)) => {
                let sign = if imaginary.starts_with(['-', '+']) { "" } else { "+" };
                self.out.push(&format!("({real}{sign}{imaginary}i)"))
            }
            _ => self.wrong_verb(value, verb),
        }
    }
}

/// Whether Go's `%#q` may write the text in back quotes.
fn can_stand_raw(text: &str) -> bool {
    text.chars().all(|c| c != '`' && c != '\u{feff}' && (c == '\t' || !c.is_control()))
}
