//! Findings as annotations of GitHub Actions: workflow commands, which a runner shows at their lines in a pull request.
//!
//! <https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions>

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::repository::Repository;
use super::{Finding, Place};
use crate::cli::output::escaped;
use schema::field::{Level, RuleId, counted};

/// Maximum number of annotations of one severity in a step; GitHub drops further ones.
const SHOWN: usize = 10;

/// One workflow command for each finding, the worst first, and a summary of what has no room.
pub(super) fn annotations(findings: &[Finding]) -> String {
    let repository = Repository::find();
    let mut commands = String::new();
    let (mut written, mut left): (BTreeMap<Level, usize>, BTreeMap<(Level, RuleId), usize>) = Default::default();
    for level in [Level::Error, Level::Warning] {
        for finding in findings.iter().filter(|finding| finding.severity == level) {
            let count = written.entry(level).or_default();
            if *count == SHOWN {
                *left.entry((level, finding.id)).or_default() += 1;
                continue;
            }
            *count += 1;
            let _ = writeln!(commands, "{}", annotation(finding, &repository));
        }
    }
    if !left.is_empty() {
        let rules = left.iter().map(|((level, id), count)| format!("{} of {id}", counted(*count, &level.to_string())));
        let text = format!("not shown: {}", rules.collect::<Vec<_>>().join(", "));
        let _ = writeln!(commands, "::notice title=topologist::{}", data(&text));
    }
    commands
}

fn annotation(finding: &Finding, repository: &Repository) -> String {
    let mut properties = Vec::new();
    if let Some(Place { file, line, column, end_line, end_column }) = &finding.place {
        // The last column is part of the range here.
        let last = (*end_column).saturating_sub(1).max(*column);
        properties.push(format!("file={}", property(&repository.path(file))));
        properties.push(format!("line={line},col={column},endLine={end_line},endColumn={last}"));
    }
    properties.push(format!("title={}", property(&format!("{} {}", finding.id, finding.object.title()))));
    let fix = finding.fix.iter().map(|fix| format!("\nhelp: {fix}"));
    let text: String = std::iter::once(finding.sentence()).chain(fix).collect();
    format!("::{} {}::{}", finding.severity, properties.join(","), data(&text))
}

/// The text of a command.
fn data(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| escaped(line).replace('%', "%25").replace('\r', "%0D")).collect();
    lines.join("%0A")
}

/// The value of a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
