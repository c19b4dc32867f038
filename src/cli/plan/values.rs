//! The difference between two values in readable form. Long values are cut, but the difference is always shown.

use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use engine::comparison::changed_values::ChangedValue;

/// The longest value that is shown whole, in characters.
const LONGEST: usize = 96;
/// How many characters are shown before and after a difference.
const AROUND: usize = 24;
/// How many lines are shown before and after a difference.
const LINES_AROUND: usize = 2;
/// Texts with more lines are not compared line by line.
const MOST_LINES: usize = 5_000;

/// Two values that differ.
#[derive(Debug, PartialEq)]
pub(super) enum ValueDifference {
    Values {
        from: String,
        to: String,
    },
    /// Both begin with `before` and end with `after`.
    Within {
        before: String,
        from: String,
        to: String,
        after: String,
    },
    Lines(Vec<DiffLine>),
}

/// A line of a text, or a placeholder for equal lines.
#[derive(Debug, PartialEq)]
pub(super) enum DiffLine {
    Same(String),
    Gone(String),
    New(String),
    Skipped,
}

/// What is shown of the two values.
pub(super) fn difference(change: &ChangedValue<'_>) -> ValueDifference {
    let lines = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        _ => None,
    };
    if let (Some(from), Some(to)) = (lines(change.from), lines(change.to))
        && [&from, &to].iter().any(|text| is_multiline(text))
    {
        return ValueDifference::Lines(differing_lines(&from, &to));
    }
    let (from, to) = (shown(change.from), shown(change.to));
    let is_short = |text: &str| text.chars().nth(LONGEST).is_none();
    if (is_short(&from) && is_short(&to)) || change.from.is_null() || change.to.is_null() {
        return ValueDifference::Values { from: cut(&from), to: cut(&to) };
    }
    let (before, from, to, after) = within(&from, &to);
    ValueDifference::Within { before, from, to, after }
}

/// Whether people would show a text in lines: not one line with its end.
fn is_multiline(text: &str) -> bool {
    let lines = text.lines().count();
    (2..=MOST_LINES).contains(&lines)
}

/// A value on one line; JSON escapes what would break it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    }
}

/// The beginning of a long text, and how long it is.
fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

/// What two texts begin with, as far as it is next to the difference, what differs, and what they end with.
fn within(from: &str, to: &str) -> (String, String, String, String) {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let same = |(a, b): &(&char, &char)| a == b;
    let start = from.iter().zip(&to).take_while(same).count();
    let end = from[start..].iter().rev().zip(to[start..].iter().rev()).take_while(same).count();
    let text = |chars: &[char]| chars.iter().collect::<String>();
    let before = match start.checked_sub(AROUND) {
        None | Some(0) => text(&from[..start]),
        Some(hidden) => format!("…{}", text(&from[hidden..start])),
    };
    let tail = &from[from.len() - end..];
    let after = match tail.get(..AROUND) {
        Some(near) if tail.len() > AROUND => format!("{}…", text(near)),
        _ => text(tail),
    };
    (before, cut(&text(&from[start..from.len() - end])), cut(&text(&to[start..to.len() - end])), after)
}

/// The lines that differ, with those around them.
fn differing_lines(from: &str, to: &str) -> Vec<DiffLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (from.split_inclusive('\n').collect(), to.split_inclusive('\n').collect());
    // Both ends are marked where only one of them ends its last line.
    let marks_ends = from.ends_with('\n') != to.ends_with('\n') && !from.is_empty() && !to.is_empty();
    let line = |text: &str| readable(text, marks_ends);
    let groups = group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), LINES_AROUND);
    let mut lines = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        if i > 0 {
            lines.push(DiffLine::Skipped);
        }
        for op in group {
            let (old, new) = (&old[op.old_range()], &new[op.new_range()]);
            if matches!(op, DiffOp::Equal { .. }) {
                lines.extend(old.iter().map(|text| DiffLine::Same(cut(&line(text)))));
                continue;
            }
            let pair = |one: &str, other: Option<&&str>| differing_line(&line(one), other.map(|other| line(other)));
            lines.extend(old.iter().enumerate().map(|(i, text)| DiffLine::Gone(pair(text, new.get(i)))));
            lines.extend(new.iter().enumerate().map(|(i, text)| DiffLine::New(pair(text, old.get(i)))));
        }
    }
    lines
}

/// A line that is gone or new; a long one around what tells it from the line that stands in its place.
fn differing_line(line: &str, other: Option<String>) -> String {
    let is_long = |text: &str| text.chars().nth(LONGEST).is_some();
    match other {
        Some(other) if is_long(line) || is_long(&other) => {
            let (before, one, _, after) = within(line, &other);
            format!("{before}{one}{after}")
        }
        _ => cut(line),
    }
}

/// A line with its end and its spaces at the end, where they would not be seen.
fn readable(line: &str, marks_ends: bool) -> String {
    let text = line.strip_suffix('\n').unwrap_or(line);
    let end = if marks_ends && text.len() == line.len() { " (no newline at the end)" } else { "" };
    let spaces = text.len() - text.trim_end_matches(' ').len();
    let text = &text[..text.len() - spaces];
    format!("{text}{}{end}", "·".repeat(spaces))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn difference(from: Value, to: Value) -> ValueDifference {
        super::difference(&ChangedValue { path: String::new(), from: &from, to: &to })
    }

    fn lines(from: &str, to: &str) -> Vec<String> {
        let ValueDifference::Lines(lines) = difference(json!(from), json!(to)) else { return Vec::new() };
        let text = |line: &DiffLine| match line {
            DiffLine::Same(text) => format!(" {text}"),
            DiffLine::Gone(text) => format!("-{text}"),
            DiffLine::New(text) => format!("+{text}"),
            DiffLine::Skipped => "…".to_owned(),
        };
        lines.iter().map(text).collect()
    }

    #[test]
    fn short_values_are_shown_whole() {
        let want = ValueDifference::Values { from: "\"a\"".to_owned(), to: "nothing".to_owned() };
        assert_eq!(difference(json!("a"), Value::Null), want);
        let one_line = ValueDifference::Values { from: "\"a\\n\"".to_owned(), to: "\"b\\n\"".to_owned() };
        assert_eq!(difference(json!("a\n"), json!("b\n")), one_line, "a single line with its end is a value");
    }

    #[test]
    fn long_values_are_shown_around_the_difference() {
        let long = |middle: &str| json!(format!("{}{middle}{}", "a".repeat(500), "z".repeat(500)));
        let want = ValueDifference::Within {
            before: format!("…{}", "a".repeat(AROUND)),
            from: "1".to_owned(),
            to: "22".to_owned(),
            after: format!("{}…", "z".repeat(AROUND)),
        };
        assert_eq!(difference(long("1"), long("22")), want);
        let ValueDifference::Within { from, to, .. } = difference(long(&"b".repeat(400)), long(&"c".repeat(400)))
        else {
            unreachable!("both are long")
        };
        assert!(from.starts_with("bbb") && from.ends_with("… (400 characters)"), "{from}");
        assert!(to.starts_with("ccc"), "{to}");
        let ValueDifference::Within { before, from, to, after } = difference(long(""), long("a")) else {
            unreachable!("both are long")
        };
        assert_eq!((&*from, &*to), ("", "a"), "{before} {after}");
    }

    #[test]
    fn texts_of_several_lines_are_compared_by_line() {
        let text = |at: usize, line: &str| {
            (0..12).map(|i| if i == at { format!("{line}\n") } else { format!("line {i}\n") }).collect::<String>()
        };
        let want = [" line 3", " line 4", "-old", "+new", " line 6", " line 7"];
        assert_eq!(lines(&text(5, "old"), &text(5, "new")), want);
        assert_eq!(lines("a\nb\n", "b\nc\n"), ["-a", " b", "+c"]);
        assert_eq!(lines("a\nb", "a\nb\n"), [" a", "-b (no newline at the end)", "+b"]);
        assert_eq!(lines("a\nb \n", "a\nb\n"), [" a", "-b·", "+b"]);
        let far: String = (0..20).map(|i| format!("{i}\n")).collect();
        let changed = far.replace("2\n3\n", "2\nthree\n").replace("16\n", "sixteen\n");
        assert_eq!(
            lines(&far, &changed),
            [" 1", " 2", "-3", "+three", " 4", " 5", "…", " 14", " 15", "-16", "+sixteen", " 17", " 18"]
        );
    }

    #[test]
    fn a_long_line_is_shown_around_the_difference() {
        let text = |middle: &str| format!("first\n{}{middle}{}\n", "a".repeat(300), "z".repeat(300));
        let near = |middle: &str| format!("…{}{middle}{}…", "a".repeat(AROUND), "z".repeat(AROUND));
        let want = [" first".to_owned(), format!("-{}", near("1")), format!("+{}", near("2"))];
        assert_eq!(lines(&text("1"), &text("2")), want);
    }
}
