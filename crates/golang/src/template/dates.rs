//! Times in templates: parsed by a Go layout, shifted, printed (Go's `time`).

use std::fmt;

use super::characters::quote;
use crate::calendar::{DAY, civil, days};

/// A point in time with the offset it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    /// Since 1970, UTC.
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
    /// Seconds east of UTC.
    pub(super) offset: i32,
}

/// Go's zero time: January 1 of the year 1, UTC.
pub(super) const ZERO: Time = Time { seconds: -62_135_596_800, nanoseconds: 0, offset: 0 };

impl Time {
    fn local(&self) -> i64 {
        self.seconds.saturating_add(i64::from(self.offset))
    }

    /// Year, month and day.
    pub(super) fn date(&self) -> (i64, i64, i64) {
        civil(self.local().div_euclid(DAY))
    }

    /// Hour, minute and second.
    fn clock(&self) -> (i64, i64, i64) {
        let second = self.local().rem_euclid(DAY);
        (second / 3600, second / 60 % 60, second % 60)
    }

    /// This time plus a number of nanoseconds.
    pub(super) fn plus(self, nanoseconds: i64) -> Self {
        let sum = i64::from(self.nanoseconds) + nanoseconds % 1_000_000_000;
        let seconds = self.seconds.saturating_add(nanoseconds / 1_000_000_000);
        let seconds = seconds.saturating_add(sum.div_euclid(1_000_000_000));
        let nanoseconds = u32::try_from(sum.rem_euclid(1_000_000_000)).unwrap_or(0);
        Self { seconds, nanoseconds, ..self }
    }

    fn fraction(&self) -> String {
        match self.nanoseconds {
            0 => String::new(),
            nanoseconds => format!(".{nanoseconds:09}").trim_end_matches('0').to_owned(),
        }
    }

    fn zone(&self, colon: &str) -> String {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60)
    }

    /// The form in JSON.
    pub(super) fn rfc3339(&self) -> String {
        let ((year, month, day), (hour, minute, second)) = (self.date(), self.clock());
        let zone = if self.offset == 0 { "Z".to_owned() } else { self.zone(":") };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{}{zone}", self.fraction())
    }

    /// Reads `text` by a Go layout; without a zone it is UTC.
    pub(super) fn parse(layout: &str, text: &str) -> Result<Self, TimeError> {
        LayoutParser::new(layout, text).read()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((year, month, day), (hour, minute, second)) = (self.date(), self.clock());
        let (fraction, zone) = (self.fraction(), self.zone(""));
        let name = if self.offset == 0 { "UTC" } else { &zone };
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} {zone} {name}")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The elements of a layout, longer spellings first.
const ELEMENTS: [&str; 31] = [
    "January",
    "Monday",
    "2006",
    "-07:00:00",
    "Z07:00",
    "-07:00",
    "-0700",
    "Z0700",
    "Jan",
    "Mon",
    "MST",
    "002",
    "__2",
    "_2",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "-07",
    "Z07",
    "1",
    "2",
    "3",
    "4",
    "5",
    "00",
];

/// Notation of a UTC offset: `-07`, `-0700` or `-07:00`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ZoneFormat {
    Hours,
    Minutes,
    ColonMinutes,
}

struct LayoutParser<'t> {
    layout: &'t str,
    text: &'t str,
    whole: (&'t str, &'t str),
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanoseconds: u32,
    afternoon: Option<bool>,
    offset: i32,
}

/// A text that does not have the form of a layout, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TimeError {
    #[error("parsing time {} as {}: cannot parse {} as {}", quote(text), quote(layout), quote(rest), quote(element))]
    Mismatch { text: String, layout: String, rest: String, element: String },
    #[error("parsing time {}: extra text: {}", quote(text), quote(extra))]
    ExtraText { text: String, extra: String },
    #[error("parsing time {}: {part} out of range", quote(text))]
    OutOfRange { text: String, part: &'static str },
}

impl<'t> LayoutParser<'t> {
    fn new(layout: &'t str, text: &'t str) -> Self {
        Self {
            layout,
            text,
            whole: (layout, text),
            year: 0,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            nanoseconds: 0,
            afternoon: None,
            offset: 0,
        }
    }

    fn read(mut self) -> Result<Time, TimeError> {
        while !self.layout.is_empty() {
            let found = ELEMENTS.iter().find(|element| self.layout.starts_with(**element));
            match found {
                Some(element) => {
                    self.layout = &self.layout[element.len()..];
                    self.element(element).ok_or_else(|| self.refusal(element))?;
                }
                None => self.literal()?,
            }
        }
        match self.text.is_empty() {
            true => self.finish(),
            false => Err(TimeError::ExtraText { text: self.whole.1.to_owned(), extra: self.text.to_owned() }),
        }
    }

    fn refusal(&self, element: &str) -> TimeError {
        let ((layout, text), rest) = (self.whole, self.text);
        let [layout, text, rest, element] = [layout, text, rest, element].map(str::to_owned);
        TimeError::Mismatch { text, layout, rest, element }
    }

    /// A character that stands for itself; `.000` and `.999` are fractions of a second.
    fn literal(&mut self) -> Result<(), TimeError> {
        let digits = self.layout.trim_start_matches(['.', ',']).len();
        if digits + 1 == self.layout.len() {
            let rest = self.layout[1..].trim_start_matches(['0', '9']);
            if rest.len() + 1 < self.layout.len() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                self.layout = rest;
                self.fraction();
                return Ok(());
            }
        }
        let Some(c) = self.layout.chars().next() else { return Ok(()) };
        match self.text.strip_prefix(c) {
            Some(rest) => {
                (self.layout, self.text) = (&self.layout[c.len_utf8()..], rest);
                Ok(())
            }
            None => Err(self.refusal(&c.to_string())),
        }
    }

    fn fraction(&mut self) {
        let Some(rest) = self.text.strip_prefix(['.', ',']) else { return };
        let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = &rest[..length.min(9)];
        if !digits.is_empty() {
            self.nanoseconds = format!("{digits:0<9}").parse().unwrap_or(0);
            self.text = &rest[length..];
        }
    }

    /// A number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let length = self.text.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.text.split_at(length);
        self.text = rest;
        (length >= least).then(|| digits.parse().ok()).flatten()
    }

    fn name(&mut self, names: &[&str], length: Option<usize>) -> Option<i64> {
        let index = names.iter().position(|name| {
            let name = length.map_or(*name, |length| &name[..length]);
            self.text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        })?;
        self.text = &self.text[length.unwrap_or_else(|| names[index].len())..];
        i64::try_from(index + 1).ok()
    }

    fn element(&mut self, element: &str) -> Option<()> {
        match element {
            "2006" => self.year = self.number(4, 4)?,
            "06" => {
                let year = self.number(2, 2)?;
                self.year = if year >= 69 { 1900 + year } else { 2000 + year };
            }
            "January" => self.month = self.name(&MONTHS, None)?,
            "Jan" => self.month = self.name(&MONTHS, Some(3))?,
            "01" => self.month = self.number(2, 2)?,
            "1" => self.month = self.number(1, 2)?,
            "Monday" => drop(self.name(&WEEKDAYS, None)?),
            "Mon" => drop(self.name(&WEEKDAYS, Some(3))?),
            "02" => self.day = self.number(2, 2)?,
            "_2" | "2" => {
                self.text = self.text.strip_prefix(' ').filter(|_| element == "_2").unwrap_or(self.text);
                self.day = self.number(1, 2)?;
            }
            "15" => self.hour = self.number(2, 2)?,
            "03" => self.hour = self.number(2, 2).filter(|hour| *hour <= 12)?,
            "3" => self.hour = self.number(1, 2).filter(|hour| *hour <= 12)?,
            "04" => self.minute = self.number(2, 2)?,
            "4" => self.minute = self.number(1, 2)?,
            "05" | "5" => {
                self.second = if element == "05" { self.number(2, 2)? } else { self.number(1, 2)? };
                if !self.layout.starts_with(['.', ',']) {
                    self.fraction();
                }
            }
            "PM" | "pm" => {
                let marks = if element == "PM" { ["AM", "PM"] } else { ["am", "pm"] };
                let mark = marks.iter().position(|mark| self.text.starts_with(mark))?;
                self.afternoon = Some(mark == 1);
                self.text = &self.text[2..];
            }
            "MST" => self.text = self.text.strip_prefix("UTC").or_else(|| self.text.strip_prefix("GMT"))?,
            "Z07:00" | "Z0700" | "Z07" if self.text.starts_with('Z') => self.text = &self.text[1..],
            "Z07:00" | "-07:00" => self.zone(ZoneFormat::ColonMinutes)?,
            "Z0700" | "-0700" => self.zone(ZoneFormat::Minutes)?,
            "Z07" | "-07" => self.zone(ZoneFormat::Hours)?,
            _ => return None,
        }
        Some(())
    }

    fn zone(&mut self, format: ZoneFormat) -> Option<()> {
        let sign = if self.text.starts_with('-') { -1 } else { 1 };
        self.text = self.text.strip_prefix(['+', '-'])?;
        let hours = self.number(2, 2).filter(|hours| *hours <= 24)?;
        if format == ZoneFormat::ColonMinutes {
            self.text = self.text.strip_prefix(':')?;
        }
        let has_minutes = format != ZoneFormat::Hours;
        let minutes = if has_minutes { self.number(2, 2).filter(|minutes| *minutes < 60)? } else { 0 };
        self.offset = i32::try_from(sign * (hours * 3600 + minutes * 60)).ok()?;
        Some(())
    }

    fn finish(mut self) -> Result<Time, TimeError> {
        match self.afternoon {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        let start = days(self.year, self.month.clamp(1, 12), 1);
        let next = if self.month == 12 { days(self.year + 1, 1, 1) } else { days(self.year, self.month + 1, 1) };
        let ranges = [
            ("month", (1..=12).contains(&self.month)),
            ("day", self.day >= 1 && self.day <= next - start),
            ("hour", self.hour < 24),
            ("minute", self.minute < 60),
            ("second", self.second < 60),
        ];
        if let Some((name, _)) = ranges.iter().find(|(_, good)| !good) {
            return Err(TimeError::OutOfRange { text: self.whole.1.to_owned(), part: name });
        }
        let second = self.hour * 3600 + self.minute * 60 + self.second;
        let seconds = (start + self.day - 1) * DAY + second - i64::from(self.offset);
        Ok(Time { seconds, nanoseconds: self.nanoseconds, offset: self.offset })
    }
}
