//! `docs/authors.md` says what the program does: its examples are run, and its lists are those of the program.
//!
//! A block ```` ```yaml class.yaml ```` is a file; one that begins with `# changes` is merged into it (RFC 7386) until
//! the next command has run. A ```` ```console ```` block is a command and everything that it prints. A ```` ```yaml
//! rendered ```` block is a template, its variables, and the `output`, the `value` that is read from it, or words of
//! the `error`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use topologist::template::{Functions, RenderLimits, Template};
use topologist::yaml;

use crate::harness::server::command;

/// A fenced block: the words behind its fence, its lines, and where it begins.
struct Block {
    info: String,
    text: String,
    line: usize,
}

fn guide() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/authors.md")).unwrap()
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for (line, text) in (1..).zip(text.lines()) {
        match (text.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info: info.to_owned(), text: String::new(), line }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{text}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// The value with these changes (RFC 7386).
fn merge(value: &mut Value, changes: Value) {
    match (value, changes) {
        (Value::Object(members), Value::Object(changes)) => {
            for (name, change) in changes {
                if change.is_null() {
                    members.remove(&name);
                } else {
                    merge(members.entry(name).or_insert(Value::Null), change);
                }
            }
        }
        (value, changes) => *value = changes,
    }
}

/// What a command prints in a folder with these files, which `before` has as they were.
fn printed(line: &str, files: &BTreeMap<String, Value>, before: &BTreeMap<String, Value>) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("before")).unwrap();
    for (file, value) in before {
        fs::write(folder.path().join("before").join(file), serde_saphyr::to_string(value).unwrap()).unwrap();
    }
    for (file, value) in files {
        fs::write(folder.path().join(file), serde_saphyr::to_string(value).unwrap()).unwrap();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let arguments = words.strip_prefix(&["$", "topologist"]).unwrap_or_else(|| panic!("{line} is no command"));
    let output = command(arguments).current_dir(folder.path()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    text(output.stdout) + &text(output.stderr)
}

#[test]
fn commands_print_what_the_guide_shows() {
    let (mut before, mut files) = (BTreeMap::new(), BTreeMap::<String, Value>::new());
    let (mut commands, mut differences) = (0, String::new());
    for block in blocks(&guide()) {
        if block.info == "console" {
            if before.is_empty() {
                before = files.clone();
            }
            let (line, want) = block.text.split_once('\n').unwrap();
            let got = printed(line, &files, &before);
            if got != want {
                let _ = writeln!(differences, "line {}: {line}\n{got}want:\n{want}", block.line);
            }
            files = before.clone();
            commands += 1;
        } else if let Some(file) = block.info.strip_prefix("yaml ").filter(|file| *file != "rendered") {
            let value = yaml::value(&block.text).unwrap_or_else(|error| panic!("line {}: {error}", block.line));
            match block.text.starts_with("# changes\n") {
                true => merge(files.get_mut(file).unwrap(), value),
                false => assert!(files.insert(file.to_owned(), value).is_none(), "{file} comes twice"),
            }
        }
    }
    assert!(commands > 20, "{commands} commands");
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn templates_render_what_the_guide_shows() {
    let mut rendered = 0;
    for block in blocks(&guide()).iter().filter(|block| block.info == "yaml rendered") {
        let example = yaml::value(&block.text).unwrap();
        let known: BTreeSet<&str> = ["template", "variables", "output", "value", "error"].into();
        assert!(example.as_object().unwrap().keys().all(|key| known.contains(&**key)), "line {}", block.line);
        let template = Template::parse("template", example["template"].as_str().unwrap(), Functions::Sprig).unwrap();
        let output = template.render(&example["variables"], RenderLimits::default());
        let value = template.render_value(&example["variables"], RenderLimits::default());
        match (output, example["error"].as_str()) {
            (Ok(output), None) => {
                assert!(example.get("output").is_none_or(|want| *want == output), "line {}: {output:?}", block.line);
                let value = value.ok();
                assert!(
                    example.get("value").is_none_or(|want| Some(want) == value.as_ref()),
                    "line {}: {value:?}",
                    block.line
                );
            }
            (Err(error), Some(words)) => assert!(error.to_string().contains(words), "line {}: {error}", block.line),
            (output, _) => panic!("line {}: {output:?}", block.line),
        }
        rendered += 1;
    }
    assert!(rendered >= 9, "{rendered} templates");
}

/// The names in back quotes of the paragraph that begins with these words.
fn listed(guide: &str, beginning: &str) -> BTreeSet<String> {
    let paragraph = guide.split("\n\n").find(|paragraph| paragraph.starts_with(beginning)).unwrap();
    paragraph.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn functions_are_those_of_the_guide() {
    // TPL-010, TPL-011, DEC-31
    let guide = guide();
    let (own, sprig) = (listed(&guide, "Go's own: "), listed(&guide, "Those of sprig: "));
    assert_eq!((own.len(), sprig.len()), (19, 194));
    let names = |functions: Functions| functions.names().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(own, names(Functions::Builtin));
    assert_eq!(own.union(&sprig).cloned().collect::<BTreeSet<_>>(), names(Functions::Sprig));
}
