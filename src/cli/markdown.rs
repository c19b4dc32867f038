//! Escapes untrusted texts in Markdown for GitHub and GitLab (DEC-64): nothing in them becomes a link, a mention, a
//! heading or HTML.
//!
//! Characters with a meaning in Markdown or HTML become numeric character references, which never begin or end an
//! element (CommonMark 0.31, entity and numeric character references). Addresses and user names are recognized in plain
//! text. A word joiner (U+2060), which is invisible, keeps them from becoming links and mentions.

use std::fmt::Write as _;

use schema::field::plain;

/// The word joiner: invisible, and no part of an address or a name.
const JOINER: char = '\u{2060}';

/// Escapes a text inside a paragraph, a list item, a cell of a table, or an HTML element.
pub(super) fn text(text: &str) -> String {
    let text = plain(text);
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut last = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        match c {
            '&' | '<' | '>' | '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '^' => {
                let _ = write!(escaped, "&#{};", u32::from(c));
            }
            _ => escaped.push(c),
        }
        let begins_mention = matches!(c, '@' | '#' | '!' | '%' | '$' | '&' | '~' | '^') && !next.is_whitespace();
        let begins_address = (c == ':' && next == '/') || (matches!(c, 'w' | 'W') && matches!(last, 'w' | 'W'));
        if begins_mention || begins_address {
            escaped.push(JOINER);
        }
        last = c;
    }
    escaped
}

/// A text in a fixed-width font.
pub(super) fn code(code: &str) -> String {
    let plain = plain(code);
    // In a cell of a table the end of a code span depends on bars and backslashes.
    match plain.contains(['`', '|']) || plain.trim().is_empty() {
        true => format!("<code>{}</code>", text(code)),
        false => format!("`{plain}`"),
    }
}

/// Lines in a fence that is longer than any in them. `info` names the language.
pub(super) fn fenced(info: &str, lines: &[String]) -> String {
    let text: String = lines.iter().map(|line| format!("{}\n", plain(line))).collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{info}\n{text}{fence}\n")
}

#[cfg(test)]
mod tests {
    use comrak::nodes::NodeValue;
    use comrak::{Arena, Options, parse_document};

    use super::*;

    /// Texts that Markdown or HTML acts on, or GitHub or GitLab.
    const HOSTILE: [&str; 20] = [
        "a\n\n# heading\n\n",
        "a\r\n\r\n</details>\r\n<h1>b",
        "<!-- hidden",
        "`code` ``more` `",
        "| a | b |\n|---|---|",
        "\\| a \\\\| b",
        "[link](https://evil.example) ![beacon](https://evil.example/x.png)",
        "<https://evil.example> https://evil.example www.evil.example WWW.evil.example",
        "mail@evil.example mailto:mail@evil.example",
        "@everyone and @org/team",
        "**bold** _em_ ~~gone~~ ^up^",
        "&lt;b&gt; &#60;b&#62; &amp;",
        "[^1]: note\n[ref]: https://evil.example",
        "- [x] task\n1. one\n> quote\n    code",
        "#1 !2 %3 ~4 $5 &6",
        "<b>bold</b><img src=x onerror=y>",
        "\u{1b}]8;;https://evil.example\u{7}link\u{1b}]8;;\u{7}",
        "$`math`$ $$x$$",
        ":tada: [[wiki]]",
        "trailing\\",
    ];

    fn options() -> Options<'static> {
        let mut options = Options::default();
        let extensions = &mut options.extension;
        (extensions.table, extensions.autolink, extensions.strikethrough, extensions.tasklist) =
            (true, true, true, true);
        (extensions.footnotes, extensions.superscript) = (true, true);
        options
    }

    /// The nodes of a document, without their texts: HTML tags, and the kinds of all others.
    fn structure(markdown: &str) -> Vec<String> {
        let arena = Arena::new();
        let mut found = Vec::new();
        for node in parse_document(&arena, markdown, &options()).descendants() {
            let name = match &node.data().value {
                NodeValue::Text(text) => {
                    let is_mention = text
                        .match_indices('@')
                        .any(|(at, _)| text[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric()));
                    assert!(!is_mention, "{text}");
                    continue;
                }
                NodeValue::HtmlInline(html) => html.clone(),
                NodeValue::HtmlBlock(block) => {
                    let tags = block.literal.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default());
                    tags.collect::<Vec<_>>().join(" ")
                }
                NodeValue::Code(_) => continue,
                value => format!("{value:?}").split(['(', ' ', '{']).next().unwrap_or_default().to_owned(),
            };
            if !["<code>", "</code>"].contains(&name.as_str()) {
                found.push(name);
            }
        }
        found
    }

    fn document(one: &str) -> String {
        let (shown, code) = (text(one), code(one));
        format!(
            "**{shown}**\n\n> denied: {shown}\n\n- **error** {shown}\n- {code}\n\n| a | b |\n|---|---|\n\
             | {shown} | {code} |\n| x | y |\n\n\
             <details><summary>{shown}</summary>\n\n{}\n</details>\n",
            fenced("diff", &[format!("- {one}"), format!("+ {one}")]),
        )
    }

    #[test]
    fn no_text_changes_the_structure_of_a_document() {
        // DEC-64
        let want = structure(&document("text"));
        assert!(want.contains(&"Table".to_owned()) && want.contains(&"Strong".to_owned()), "{want:?}");
        for hostile in HOSTILE {
            let document = document(hostile);
            assert_eq!(structure(&document), want, "{hostile:?}\n{document}");
        }
        // All of them beside each other, and without what protects.
        assert_eq!(structure(&document(&HOSTILE.join(""))), want);
        assert_ne!(structure(&document("text").replace("text", HOSTILE[6])), want);
    }

    #[test]
    fn texts_and_code_read_as_they_are() {
        assert_eq!(
            text("spec.topology.version: \"v1.34.0\" (a, b) 50 %"),
            "spec.topology.version: \"v1.34.0\" (a, b) 50 %"
        );
        assert_eq!(text("a<b> | *c* [d](e)"), "a&#60;b&#62; &#124; &#42;c&#42; &#91;d&#93;(e)");
        assert_eq!(text("@all https://a"), "@\u{2060}all https:\u{2060}//a");
        assert_eq!(code("a*b"), "`a*b`");
        assert_eq!(code("a`b|c"), "<code>a&#96;b&#124;c</code>");
        assert_eq!(code(""), "<code></code>");
        assert_eq!(fenced("diff", &["- ```".to_owned()]), "````diff\n- ```\n````\n");
    }
}
