//! `docs/rules.md` lists the rules of the program: every one once, under its name, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use topologist::admission::catalogue;

/// The first row of each table of rules.
const HEAD: [&str; 5] = ["id", "name", "when", "what holds", "error type @ path"];

/// A row of a table of rules; a fact has no name.
#[derive(Debug)]
struct Row {
    line: usize,
    id: String,
    name: String,
    when: String,
    holds: String,
}

fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect())
}

/// The rows of every table that has the head of a table of rules.
fn rows() -> Vec<Row> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules.md")).unwrap();
    let mut rows = Vec::new();
    let mut in_table = false;
    for (line, text) in (1..).zip(text.lines()) {
        let Some(cells) = cells(text) else {
            in_table = false;
            continue;
        };
        if cells == HEAD {
            in_table = true;
        } else if in_table && !cells.iter().all(|cell| cell.bytes().all(|byte| byte == b'-')) {
            let [id, name, when, holds, _] = *cells else { panic!("line {line} has {} cells", cells.len()) };
            let owned = |text: &str| text.trim_matches('`').to_owned();
            rows.push(Row { line, id: owned(id), name: owned(name), when: owned(when), holds: owned(holds) });
        }
    }
    rows
}

#[test]
fn every_rule_has_one_row_under_its_name() {
    let rows = rows();
    for rule in catalogue() {
        let documented: Vec<_> = rows.iter().filter(|row| row.id == rule.id).map(|row| &*row.name).collect();
        assert_eq!(documented, [rule.name], "{}", rule.id);
    }
}

#[test]
fn no_row_names_a_rule_that_does_not_exist() {
    let known: BTreeSet<_> = catalogue().iter().map(|rule| (rule.id, rule.name)).collect();
    for row in rows().iter().filter(|row| !row.name.is_empty()) {
        assert!(known.contains(&(&*row.id, &*row.name)), "line {}: {} {}", row.line, row.id, row.name);
    }
}

#[test]
fn every_row_says_when_and_what_and_no_id_comes_twice() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        let (prefix, number) = row.id.rsplit_once('-').unwrap_or_default();
        // Sections of a chapter have numbers with points.
        let is_id = !prefix.is_empty() && number.split('.').all(|part| part.parse::<u32>().is_ok());
        assert!(is_id, "line {}: {:?} is no id", row.line, row.id);
        assert!(!row.when.is_empty() && row.when.split(' ').all(|when| ["C", "U", "D"].contains(&when)), "{row:?}");
        assert!(row.holds.ends_with('.'), "{row:?}");
        assert!(seen.insert(row.id.clone()), "line {}: {} comes twice", row.line, row.id);
    }
    assert!(seen.len() > catalogue().len(), "{} rows", seen.len());
}
