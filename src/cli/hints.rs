//! Hints about mistakes in copied examples: gaps, quotes of word processors, lines that lost their breaks.

/// A sign in a text, and its meaning.
type Hint = (fn(&str) -> bool, &'static str);

/// Signs in a line that YAML cannot read, or in the line before.
const OF_LINES: &[Hint] = &[
    (stands_for_a_gap, "\"...\" is a placeholder for omitted text: write the text, or remove the line"),
    (has_curly_quotes, "YAML reads curly quotes as part of the text: write \" or '"),
    (has_lost_its_breaks, "one line holds several fields: its line breaks and indentation are lost"),
    (is_of_helm, "if this is a template of Helm, render it first: helm template"),
];

/// Signs in texts that YAML reads in another way than intended.
const OF_TEXTS: &[Hint] = &[
    (stands_for_a_gap, "is only \"...\", a placeholder for omitted text"),
    (is_in_curly_quotes, "is in curly quotes, which are part of the text to YAML: write \" or '"),
];

/// A hint for an unreadable line; lines count from 1.
pub(super) fn for_line(text: &str, line: usize) -> Option<&'static str> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    // A parser notices some things only when the next line does not fit.
    let mut near = lines.iter().rev().filter(|line| !line.trim().is_empty()).take(2);
    near.find_map(|line| find(OF_LINES, line))
}

/// A hint for a readable text.
pub(super) fn for_text(text: &str) -> Option<&'static str> {
    find(OF_TEXTS, text)
}

fn find(hints: &[Hint], text: &str) -> Option<&'static str> {
    hints.iter().find(|(is_there, _)| is_there(text)).map(|(_, meaning)| *meaning)
}

fn stands_for_a_gap(text: &str) -> bool {
    let text = text.trim().trim_start_matches("- ").trim_start_matches('[').trim_end_matches(']');
    ["...", "…"].contains(&text)
}

const CURLY: [(char, char); 3] = [('“', '”'), ('„', '“'), ('‘', '’')];

fn is_in_curly_quotes(text: &str) -> bool {
    CURLY.iter().any(|(open, close)| text.starts_with(*open) && text.ends_with(*close))
}

fn has_curly_quotes(line: &str) -> bool {
    CURLY.iter().any(|(open, close)| line.contains(*open) && line.contains(*close))
}

/// Templates in patches are texts, where nothing has to be readable.
fn is_of_helm(line: &str) -> bool {
    let line = line.trim();
    let has = |words: &str| line.contains(words);
    line.starts_with("{{-")
        || (has("{{") && [".Values", ".Release", ".Chart", "include \"", "template \""].into_iter().any(has))
}

fn has_lost_its_breaks(line: &str) -> bool {
    // In braces several fields in a line are as they should be.
    line.split('{').next().is_some_and(|start| start.matches(": ").count() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_found_in_the_line_or_the_one_before() {
        for (text, line, want) in [
            ("spec:\n  [...]\n  a: b\n", 3, Some(OF_LINES[0].1)),
            ("spec:\n  a: b\n  ...\n\n  c: d\n", 5, Some(OF_LINES[0].1)),
            ("spec:\n  - [...]\n", 2, Some(OF_LINES[0].1)),
            ("[...]\na: b\nc: d\ne\n", 4, None),
            ("a: [“b: c”, ]}\n", 1, Some(OF_LINES[1].1)),
            ("apiVersion: v1 kind: Cluster metadata: name: a\n", 1, Some(OF_LINES[2].1)),
            ("kind: Cluster metadata: name: a labels: {} b\n", 1, Some(OF_LINES[2].1)),
            ("{{- if .a }}\na: b\n", 1, Some(OF_LINES[3].1)),
            ("a: {{ .Values.b }}: c\n", 1, Some(OF_LINES[3].1)),
            ("a: {{ include \"b\" . }}: c\n", 1, Some(OF_LINES[3].1)),
            ("a: {{ .b }}: c\n", 1, None),
            ("a: {b: c, d: e, f: g}: h\n", 1, None),
            ("it's a: b: c\n", 1, None),
            ("", 1, None),
            ("a\n", 0, None),
        ] {
            assert_eq!(for_line(text, line), want, "{text:?}");
        }
    }

    #[test]
    fn placeholders_in_texts_are_found() {
        for (text, is_found) in [
            ("...", true),
            ("…", true),
            ("[...]", true),
            ("“/spec/a”", true),
            ("‘a’", true),
            ("„a“", true),
            ("a...", false),
            ("say “a” and ‘b’", false),
            ("\"a\"", false),
            ("", false),
        ] {
            assert_eq!(for_text(text).is_some(), is_found, "{text:?}");
        }
    }
}
