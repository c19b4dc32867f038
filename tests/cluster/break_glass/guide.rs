//! The commands of the guide.

use std::fs;
use std::path::Path;

/// A command with the lines that the guide prints below it.
#[derive(Debug)]
pub(super) struct Command {
    pub text: String,
    /// Each is in what the command prints; `…` stands for anything.
    pub prints: Vec<String>,
}

impl Command {
    /// Whether the guide shows that the API server refuses it.
    pub(super) fn is_refused(&self) -> bool {
        let is_refusal = |line: &String| line.starts_with("Error from server") || line.starts_with("The request is");
        self.prints.iter().any(is_refusal)
    }
}

/// The blocks of commands below a heading of the third level, in their order.
pub(super) fn blocks(heading: &str) -> Vec<Vec<Command>> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, glass) = guide.split_once("\n## Break glass\n").expect("the guide has the section");
    let glass = glass.split("\n## ").next().unwrap();
    let (_, part) = glass.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no part {heading}"));
    let part = part.split("\n### ").next().unwrap();
    let blocks = part.split("\n```console\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    blocks.map(commands).collect()
}

/// Lines that are indented continue a command; others are printed by it.
fn commands(block: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for line in block.lines() {
        if let Some(text) = line.strip_prefix("$ ") {
            commands.push(Command { text: text.to_owned(), prints: Vec::new() });
            continue;
        }
        let command = commands.last_mut().expect("a block begins with a command");
        match line.starts_with(' ') {
            true => command.text.push_str(&format!("\n{line}")),
            false => command.prints.push(line.to_owned()),
        }
    }
    commands
}

/// Whether a text has the parts of a line between its `…`, in this order.
pub(super) fn has(text: &str, line: &str) -> bool {
    let mut rest = text;
    line.split('…').all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}
