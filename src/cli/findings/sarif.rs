//! Findings as a log of SARIF 2.1.0, in the subset that code scanning of GitHub reads.
//!
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/>,
//! <https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning>

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::repository::Repository;
use super::{Finding, Place};
use crate::cli::rule_book::{self, DocumentedRule};
use schema::field::{Level, RuleId, plain};

/// Maximum number of results that GitHub shows of a run.
const MOST: usize = 5000;

/// A log with one run.
pub(super) fn log(findings: &[Finding]) -> Value {
    let of = |level: Level| findings.iter().filter(move |finding| finding.severity == level);
    // A result without a file cannot be shown in a repository.
    let shown: Vec<&Finding> =
        of(Level::Error).chain(of(Level::Warning)).filter(|finding| finding.place.is_some()).take(MOST).collect();
    let mut rules: BTreeMap<RuleId, Level> = BTreeMap::new();
    for finding in &shown {
        let level = rules.entry(finding.id).or_insert(finding.severity);
        *level = (*level).min(finding.severity);
    }
    let ids: Vec<RuleId> = rules.keys().copied().collect();
    let repository = Repository::find();
    let results = shown.iter().filter_map(|finding| result(finding, &ids, &repository));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "topologist",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|(id, level)| descriptor(id, *level)).collect::<Vec<_>>(),
            }},
            "automationDetails": {"id": "topologist/"},
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

/// A rule as the log describes it.
fn descriptor(id: RuleId, level: Level) -> Value {
    let mut descriptor = json!({"id": id, "defaultConfiguration": {"level": level.to_string()}});
    let documented = rule_book::rule(id);
    let text = documented.map_or(id, |rule| rule.text);
    descriptor["shortDescription"] = json!({"text": first_sentence(text)});
    descriptor["help"] = json!({"text": text, "markdown": text});
    descriptor["name"] = match documented {
        Some(DocumentedRule { name, .. }) if !name.is_empty() => json!(name),
        _ => json!(id),
    };
    descriptor
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

fn result(finding: &Finding, rules: &[RuleId], repository: &Repository) -> Option<Value> {
    let Place { file, line, column, end_line, end_column } = finding.place.as_ref()?;
    let fix = finding.fix.iter().map(|fix| format!(" ({fix})"));
    let text: String =
        std::iter::once(format!("{}: {}", finding.object.title(), finding.sentence())).chain(fix).collect();
    Some(json!({
        "ruleId": finding.id,
        "ruleIndex": rules.iter().position(|id| *id == finding.id),
        "level": finding.severity.to_string(),
        "message": {"text": plain(&text)},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(&repository.path(file))},
            "region": {
                "startLine": line, "startColumn": column, "endLine": end_line,
                "endColumn": end_column.max(&(column + 1)),
            },
        }}],
    }))
}

/// A path as a relative URI.
fn uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
