//! Documents tell the truth: commands exist, links lead somewhere, and every module has its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use clap::CommandFactory;
use regex::Regex;
use topologist::cli::args::Arguments;

/// What the program prints about itself, which begins like a command.
const PRINTED: [&str; 2] = ["topologist answers reviews", "topologist is overloaded"];

static INLINE_CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`([^`\n]+)`").unwrap());
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").unwrap());

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document of the repository, by its path.
pub(crate) fn documents() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_owned(), text);
            }
        }
    }
    assert!(found.len() > 30, "{} documents", found.len());
    found
}

/// The lines of a document with their numbers, those of fenced blocks marked.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        Some((number, line, is_fenced))
    })
}

/// What a document shows as code: words in back quotes, and commands of blocks.
fn code(text: &str) -> Vec<(usize, String)> {
    let mut code = Vec::new();
    for (number, line, is_fenced) in lines(text) {
        if is_fenced {
            code.push((number, line.trim().trim_start_matches("$ ").to_owned()));
        } else {
            code.extend(INLINE_CODE.captures_iter(line).map(|found| (number, found[1].to_owned())));
        }
    }
    code
}

#[test]
fn every_command_in_the_documents_is_one() {
    let known: BTreeSet<String> =
        Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let called = Regex::new(r"(?:^|[|&;] ?|\bat -c |exec )topologist ([a-z][a-z-]*)").unwrap();
    let mut calls = 0;
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for (line, code) in code(&text) {
            if PRINTED.iter().any(|printed| code.starts_with(printed)) {
                continue;
            }
            for word in called.captures_iter(&code).map(|found| found[1].to_owned()) {
                calls += 1;
                if !known.contains(&word) {
                    wrong.push(format!("{}:{line}: topologist has no command {word}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(calls > 40, "only {calls} calls were found");
}

/// The anchors of a document, as GitHub makes them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line, is_fenced) in lines(text) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if is_fenced || level == 0 || !line[level..].starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        let slug: String = line[level + 1..].trim().to_lowercase().chars().filter(kept).collect();
        let slug = slug.replace(' ', "-");
        let count = seen.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(normal.pop(), "{} leaves the repository", path.display()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[test]
fn every_relative_link_leads_somewhere() {
    let documents = documents();
    let mut broken = Vec::new();
    let mut links = 0;
    for (path, text) in &documents {
        for (number, line, _) in lines(text).filter(|(_, _, is_fenced)| !is_fenced) {
            let line = INLINE_CODE.replace_all(line, "");
            for target in LINK.captures_iter(&line).map(|found| found[1].to_owned()) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                links += 1;
                let (file, anchor) =
                    target.split_once('#').map_or((&*target, None), |(file, anchor)| (file, Some(anchor)));
                let file = if file.is_empty() { path.clone() } else { normal(&path.parent().unwrap().join(file)) };
                let leads = match anchor {
                    None => root().join(&file).exists(),
                    Some(anchor) => documents.get(&file).is_some_and(|text| anchors(text).contains(anchor)),
                };
                if !leads {
                    broken.push(format!("{}:{number}: {target}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(links > 100, "only {links} links were found");
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

#[test]
fn every_module_stands_in_the_architecture() {
    let text = read("ARCHITECTURE.md");
    let has_row = |path: &str| text.matches(&format!("\n| `{path}` | ")).count() == 1;
    for path in fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let modules = fs::read_dir(path.join("src")).unwrap().map(|entry| entry.unwrap().path());
        for module in modules.filter(|module| module.is_dir()) {
            let module = format!("crates/{name}/src/{}", module.file_name().unwrap().to_str().unwrap());
            // A crate of one module has a row as a whole.
            assert!(has_row(&module) || has_row(&format!("crates/{name}/src")), "{module}");
        }
    }
    assert!(has_row("src/cli"));
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let text = read("ARCHITECTURE.md");
    let mut named = 0;
    for (line, code) in code(&text) {
        let is_path = ["src/", "crates/", "tests/", "docs/", "fixtures/", "manifests/"]
            .iter()
            .any(|folder| code.starts_with(folder));
        if is_path && !code.contains(['<', '…', ' ']) {
            named += 1;
            assert!(root().join(&code).exists(), "ARCHITECTURE.md:{line}: {code} does not exist");
        }
    }
    assert!(named > 60, "only {named} files are named");
}

#[test]
fn every_decision_is_in_the_index() {
    let index = read("docs/decisions/README.md");
    for (path, text) in documents().into_iter().filter(|(path, _)| path.starts_with("docs/decisions")) {
        for heading in text.lines().filter_map(|line| line.strip_prefix("## DEC-")) {
            let (number, subject) = heading.split_once(": ").unwrap();
            assert!(index.contains(&format!("| [DEC-{number}](")), "DEC-{number} of {}", path.display());
            assert!(index.contains(&format!(" | {subject} |\n")), "the subject of DEC-{number}");
        }
        let entries = text.split("\n## ").skip(1);
        for entry in entries {
            for part in ["**Question.** ", "**Decision.** ", "**Why.** ", "**Cost.** "] {
                assert_eq!(entry.matches(part).count(), 1, "{part}in {:?}", entry.lines().next());
            }
        }
    }
}

#[test]
fn the_readme_is_one_page_with_both_commands_of_setting_up() {
    let readme = read("README.md");
    let count = readme.lines().count();
    assert!(count <= 95, "{count} lines");
    assert!(readme.contains("\n$ cargo run -- serve --embedded --load fixtures/quick-start\n"));
    assert!(readme.contains("\n```sh\nmake test\n```\n"));
}

#[test]
fn nothing_points_to_documents_that_are_not_here() {
    let elsewhere =
        Regex::new(r"(?i)\b(?:design|style|crates)\.md\b|\bspec/[a-z-]+\.md\b|\bsections? [0-9]+|\bseeds/").unwrap();
    let mut wrong = Vec::new();
    let mut folders =
        ["src", "crates", "tests", "benches", "docs", "manifests"].map(|folder| root().join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_text = path.extension().is_some_and(|one| ["rs", "md", "yaml"].iter().any(|known| one == *known));
            if !is_text || path.ends_with(file!()) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let lines = (1..).zip(text.lines()).filter(|(_, line)| elsewhere.is_match(line) && !line.contains("RFC"));
            wrong.extend(lines.map(|(number, line)| format!("{}:{number}: {}", path.display(), line.trim())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_story_of_the_contributors_guide_is_one_of_the_stories() {
    let guide = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, block) = guide.split_once("```rust\n").expect("the guide shows a story");
    let (story, _) = block.split_once("```").unwrap();
    assert_eq!(story, include_str!("scaling.rs"));
    assert!(include_str!("main.rs").contains("\nmod scaling;\n"), "the story is run");
    let (_, body) = story.split_once("#[test]\n").unwrap();
    assert!(body.lines().count() <= 11, "ten lines, and the name");
}
