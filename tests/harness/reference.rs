//! What Cluster API's own functions make of objects.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::programs;

/// The program that answers.
pub fn program() -> PathBuf {
    programs::folder("answers").join("answers")
}

/// The answers about the objects, in their order.
pub fn ask<'a>(question: &str, objects: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    ask_texts(question, objects.map(Value::to_string))
}

/// The answers about objects that are JSON already.
pub fn ask_texts(question: &str, objects: impl Iterator<Item = String>) -> Vec<Value> {
    let mut lines = tempfile::NamedTempFile::new().unwrap();
    objects.for_each(|object| writeln!(lines, "{object}").unwrap());
    let input = File::open(lines.path()).unwrap();
    let mut command = Command::new(program());
    let output = command.arg(question).stdin(Stdio::from(input)).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "answers {question} failed; it says why on standard error");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
