//! The tables in `docs/` explain every rule: those of the program under their names, and every id that code or tests
//! cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use topologist::admission::catalogue;

/// The first row of a table of rules that admission enforces.
const ENFORCED: [&str; 5] = ["id", "name", "when", "what holds", "error type @ path"];
/// The first row of a table of rules that the engine and the controllers follow.
const FOLLOWED: [&str; 3] = ["id", "what it means", "when it does not hold"];
/// The first row of the table of what replaces machines.
const REPLACING: [&str; 3] = ["rule", "object", "what"];
/// Names that look like ids.
const OTHER_NAMES: [&str; 4] = ["UTF-8", "SHA-256", "SHA-1", "UTC-1"];

static ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[A-Z]{2,6}(?:-[A-Z])?-[0-9]{1,3}(?:\.[0-9]+)*\b").unwrap());

/// A row of a table of rules that admission enforces; a fact has no name.
#[derive(Debug)]
struct Row {
    place: String,
    id: String,
    name: String,
    when: String,
    holds: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below a folder that have one of the extensions.
fn files(folder: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|one| extensions.iter().any(|extension| one == *extension)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect())
}

/// The rows of every table in `docs/` that has this head, with the place of each.
fn table_rows(head: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut rows = Vec::new();
    for path in files("docs", &["md"]) {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_table = false;
        for (line, text) in (1..).zip(text.lines()) {
            let Some(cells) = cells(text) else {
                in_table = false;
                continue;
            };
            if cells == head {
                in_table = true;
            } else if in_table && !cells.iter().all(|cell| cell.bytes().all(|byte| byte == b'-')) {
                let place = format!("{}:{line}", path.strip_prefix(root()).unwrap().display());
                assert_eq!(cells.len(), head.len(), "cells of {place}");
                rows.push((place, cells.into_iter().map(str::to_owned).collect()));
            }
        }
    }
    rows
}

fn enforced() -> Vec<Row> {
    let owned = |text: &str| text.trim_matches('`').to_owned();
    table_rows(&ENFORCED)
        .into_iter()
        .map(|(place, cells)| Row {
            place,
            id: owned(&cells[0]),
            name: owned(&cells[1]),
            when: owned(&cells[2]),
            holds: owned(&cells[3]),
        })
        .collect()
}

/// Every id with the places where it is explained: rows of tables, and headings of decisions.
fn explained() -> BTreeMap<String, Vec<String>> {
    let mut explained: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let rows = [&ENFORCED[..], &FOLLOWED, &REPLACING].into_iter().flat_map(table_rows);
    for (place, cells) in rows.filter(|(_, cells)| !cells[0].starts_with("DEC-")) {
        explained.entry(cells[0].clone()).or_default().push(place);
    }
    for path in files("docs/decisions", &["md"]) {
        let text = fs::read_to_string(&path).unwrap();
        for heading in text.lines().filter_map(|line| line.strip_prefix("## DEC-")) {
            let number = heading.split(':').next().unwrap();
            explained.entry(format!("DEC-{number}")).or_default().push(path.display().to_string());
        }
    }
    explained
}

/// Every id that a file cites, with the first file that does.
fn cited() -> BTreeMap<String, PathBuf> {
    let mut cited = BTreeMap::new();
    for folder in ["src", "crates", "tests", "benches", "manifests", "docs"] {
        for path in files(folder, &["rs", "yaml", "md"]) {
            let text = fs::read_to_string(&path).unwrap();
            for id in ID.find_iter(&text).map(|id| id.as_str()).filter(|id| !OTHER_NAMES.contains(id)) {
                cited.entry(id.to_owned()).or_insert_with(|| path.clone());
            }
        }
    }
    cited
}

#[test]
fn every_rule_has_one_row_under_its_name() {
    let rows = enforced();
    for rule in catalogue() {
        let documented: Vec<_> = rows.iter().filter(|row| row.id == rule.id).map(|row| &*row.name).collect();
        assert_eq!(documented, [rule.name], "{}", rule.id);
    }
}

#[test]
fn no_row_names_a_rule_that_does_not_exist() {
    let known: BTreeSet<_> = catalogue().iter().map(|rule| (rule.id, rule.name)).collect();
    for row in enforced().iter().filter(|row| !row.name.is_empty()) {
        assert!(known.contains(&(&*row.id, &*row.name)), "{}: {} {}", row.place, row.id, row.name);
    }
}

#[test]
fn every_row_has_operations_and_a_rule() {
    let rows = enforced();
    for row in &rows {
        assert!(ID.find(&row.id).is_some_and(|id| id.as_str() == row.id), "{}: {:?} is no id", row.place, row.id);
        assert!(!row.when.is_empty() && row.when.split(' ').all(|when| ["C", "U", "D"].contains(&when)), "{row:?}");
        assert!(row.holds.ends_with('.'), "{row:?}");
    }
    assert!(rows.len() > catalogue().len(), "{} rows", rows.len());
    for (place, cells) in table_rows(&FOLLOWED) {
        assert!(ID.find(&cells[0]).is_some_and(|id| id.as_str() == cells[0]), "{place}: {:?} is no id", cells[0]);
        assert!(cells[1].ends_with('.'), "{place}: {:?} is no sentence", cells[1]);
    }
}

#[test]
fn no_id_is_explained_twice() {
    let explained = explained();
    let twice: Vec<_> = explained.iter().filter(|(_, places)| places.len() != 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
    let mut decisions = BTreeSet::new();
    for row in enforced().into_iter().filter(|row| row.id.starts_with("DEC-")) {
        assert!(decisions.insert(row.id.clone()), "{}: {} comes twice", row.place, row.id);
    }
}

#[test]
fn every_id_that_code_tests_or_docs_cite_is_explained() {
    let explained = explained();
    let cited = cited();
    let missing: Vec<_> = cited.iter().filter(|(id, _)| !explained.contains_key(*id)).collect();
    assert!(missing.is_empty(), "{} ids have no row in docs/rules and no decision: {missing:#?}", missing.len());
    // The walk has found the code and the tests.
    assert!(cited.len() > 600, "only {} ids are cited", cited.len());
}
