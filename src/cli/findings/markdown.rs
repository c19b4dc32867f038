//! Findings as Markdown for a comment on a pull request.

use std::fmt::Write as _;

use super::Finding;
use crate::cli::markdown::{code, text};
use schema::field::{Level, counted};

/// Maximum length of a comment, in bytes; GitHub refuses more than 65,536 characters.
const LONGEST: usize = 60_000;

/// A list of findings, the worst first.
pub(super) fn comment(findings: &[Finding], verdicts: &[String]) -> String {
    let of = |level: Level| findings.iter().filter(move |finding| finding.severity == level);
    let mut comment = String::from("### topologist\n\n");
    for verdict in verdicts {
        let _ = writeln!(comment, "{}\n", text(verdict));
    }
    let mut left = 0;
    for finding in of(Level::Error).chain(of(Level::Warning)) {
        let item = item(finding);
        if left > 0 || comment.len() + item.len() > LONGEST {
            left += 1;
        } else {
            comment.push_str(&item);
        }
    }
    if left > 0 {
        let _ = writeln!(comment, "\n{} not shown", counted(left, "finding"));
    }
    comment
}

fn item(finding: &Finding) -> String {
    let icon = match finding.severity {
        Level::Error => "❌",
        Level::Warning => "⚠️",
    };
    let place = finding.place.as_ref().map(|place| format!(" {}", code(&format!("{}:{}", place.file, place.line))));
    let field = if finding.named_path.is_empty() { String::new() } else { format!(" {}", code(&finding.named_path)) };
    let fix = finding.fix.as_ref().map(|fix| format!(" {}", text(fix))).unwrap_or_default();
    format!(
        "- {icon} **{}**{} {}{field}: {}{fix}\n",
        text(finding.id),
        place.unwrap_or_default(),
        text(&finding.object.title()),
        text(&finding.message)
    )
}
