//! The document about security names tests for what it claims: these exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all functions below a folder.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            functions(&entry, names);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            let signatures =
                text.lines().filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("fn "));
            names.extend(signatures.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
        }
    }
}

#[test]
fn every_limit_attack_and_trap_has_a_test() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = BTreeSet::new();
    ["src", "crates", "tests"].iter().for_each(|folder| functions(&repository.join(folder), &mut known));
    let text = fs::read_to_string(repository.join("docs/security.md")).unwrap();
    let mut section = "";
    let (mut rows, mut unknown) = (0, Vec::new());
    for line in text.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let is_row = line.starts_with("| ")
            && !line.starts_with("| what |")
            && !line.contains("| test |")
            && !line.contains("| held by |");
        if !is_row
            || !["Limits", "Files and sums", "Attacks that are tests", "Texts of others", "Traps"].contains(&section)
        {
            continue;
        }
        rows += 1;
        let tests: Vec<&str> =
            line.split('`').skip(1).step_by(2).filter(|name| name.contains('_') && !name.contains(' ')).collect();
        assert!(!tests.is_empty(), "no test is named in {line}");
        unknown.extend(tests.into_iter().filter(|name| !known.contains(*name)).map(str::to_owned));
    }
    assert!(rows > 30, "{rows}");
    assert!(unknown.is_empty(), "docs/security.md names tests that do not exist: {unknown:?}");
}
