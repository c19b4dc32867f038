//! The rules as the documentation explains them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A rule of the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentedRule {
    /// The name of a rule of admission, such as `version_never_goes_back`; empty for others.
    pub name: &'static str,
    /// What holds for valid objects, in Markdown.
    pub text: &'static str,
    /// The file of `docs/rules` that explains it, without its ending.
    pub page: &'static str,
}

macro_rules! pages {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../../docs/rules/", $name, ".md")))),*] };
}

/// The pages of `docs/rules`.
const PAGES: [(&str, &str); 22] = pages![
    "applying",
    "blueprint",
    "class-controller",
    "cluster",
    "clusterclass",
    "clusters",
    "contracts",
    "conversion",
    "decisions",
    "desired",
    "extensions",
    "fields",
    "machine-sets",
    "machines",
    "patches",
    "patching",
    "providers",
    "requests",
    "status",
    "upgrades",
    "variables",
    "versions",
];

static RULES: LazyLock<BTreeMap<&'static str, DocumentedRule>> = LazyLock::new(|| {
    let mut rules = BTreeMap::new();
    for (page, text) in PAGES {
        let mut columns: Vec<&str> = Vec::new();
        for line in text.lines() {
            let Some(row) = line.strip_prefix("| ").and_then(|line| line.trim_end().strip_suffix('|')) else {
                continue;
            };
            let cells: Vec<&'static str> = cells(row);
            if cells.first() == Some(&"id") {
                columns = cells;
                continue;
            }
            let cell = |titles: &[&str]| {
                let position = columns.iter().position(|column| titles.contains(column));
                position.and_then(|position| cells.get(position)).copied().unwrap_or_default()
            };
            let (name, text) = (cell(&["name"]).trim_matches('`'), cell(&["what holds", "what it means"]));
            if let Some(id) = cells.first().filter(|_| !text.is_empty()) {
                rules.insert(*id, DocumentedRule { name, text, page });
            }
        }
    }
    rules
});

/// The cells of a row of a table; a bar in a cell is written `\|`.
fn cells(row: &'static str) -> Vec<&'static str> {
    let (mut cells, mut start) = (Vec::new(), 0);
    for (at, _) in row.match_indices('|').filter(|(at, _)| !row[..*at].ends_with('\\')) {
        cells.push(row[start..at].trim());
        start = at + 1;
    }
    cells.push(row[start..].trim());
    cells
}

/// The rule with an id, if the documentation has it.
pub(super) fn rule(id: &str) -> Option<&'static DocumentedRule> {
    RULES.get(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_their_id() {
        let class = rule("PAT-021").unwrap();
        assert!(!class.name.is_empty() && class.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{class:?}");
        assert!(!class.text.is_empty() && class.page == "patches", "{class:?}");
        let engine = rule("PE-17").unwrap();
        assert_eq!((engine.name, engine.page), ("", "patching"));
        assert!(engine.text.starts_with("A definition is a JSON patch."), "{engine:?}");
        assert_eq!(rule("id"), None);
        assert!(RULES.len() > 400, "{}", RULES.len());
        assert_eq!(cells(r"`a \| b` | c "), [r"`a \| b`", "c"]);
    }
}
