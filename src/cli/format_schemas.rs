//! `schema`: the JSON Schemas of the program's own formats, and input files that are checked by them (DEC-63).

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::args::{SchemaArgs, SchemaName};
use super::{findings, output};
use golang::yaml::{self, LocatedValue, YamlDocument};
use schema::field::closest;

/// The schema of a file of timings.
pub(super) const TIMINGS: &str = include_str!("format_schemas/timings.json");

/// The schema of a recording of extensions.
pub(super) const RECORDING: &str = include_str!("format_schemas/recording.json");

/// The schema of the plans that `plan -o json` prints.
const PLAN: &str = include_str!("format_schemas/plan.json");

/// Maximum number of mistakes that a message names; the rest is counted.
const NAMED: usize = 5;

/// Maximum number of characters of a value in a message.
const SHOWN: usize = 60;

/// Prints the schema of a format.
pub(super) fn run(options: &SchemaArgs) -> Result<ExitCode> {
    output::data(match options.name {
        SchemaName::Findings => findings::SCHEMA,
        SchemaName::Plan => PLAN,
        SchemaName::Timings => TIMINGS,
        SchemaName::Recording => RECORDING,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Checks an input file by the schema of its format. What is not YAML or JSON is left to the reader of the file.
///
/// # Errors
/// When the file violates the schema; names file, line, column and path of each mistake.
pub(super) fn check(file: &Path, text: &str, schema: &str) -> Result<()> {
    let Some(value) = serde_json::from_str(text).ok().or_else(|| yaml::value(text).ok()) else { return Ok(()) };
    let schema: Value = serde_json::from_str(schema).context("the schema of the format is no JSON")?;
    let validator = jsonschema::validator_for(&schema).map_err(|error| anyhow!("the schema of the format: {error}"))?;
    let mut errors = validator.iter_errors(&value).peekable();
    if errors.peek().is_none() {
        let second = yaml::documents(text).into_iter().filter_map(Result::ok).nth(1);
        return second.map_or(Ok(()), |second| {
            Err(anyhow!("{}:{}: there is a second document, but the format has one", file.display(), second.line))
        });
    }
    let document = yaml::documents(text).into_iter().find_map(Result::ok).unwrap_or_default();
    let mistakes: Vec<String> = errors.flat_map(|error| mistakes(file, &document, &schema, &error)).collect();
    let more = match mistakes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Err(anyhow!("{}{more}", mistakes[..mistakes.len().min(NAMED)].join("; ")))
}

/// The mistakes of an error, each with its place: unknown keys of an object are one error.
fn mistakes(file: &Path, document: &YamlDocument, schema: &Value, error: &ValidationError<'_>) -> Vec<String> {
    let path = error.instance_path().as_str();
    let found = document.positions.locate(&document.value).and_then(|root| located(root, path));
    let keyword = error.schema_path().as_str();
    let part = keyword.rsplit_once('/').and_then(|(part, _)| schema.pointer(part));
    let at = |key: Option<&str>, message: String| {
        let member = key.and_then(|key| found?.member(key));
        let position = member.map(LocatedValue::key_position).or(found.map(LocatedValue::position));
        let place = position.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
        let path = dotted(path);
        format!("{}{place}: {path}{message}", file.display())
    };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = part.and_then(|part| part.get("properties")?.as_object());
            let known: Vec<&str> = known.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
            // A name may be cut short.
            let near = |key: &str| {
                let longer = || known.iter().copied().find(|known| key.len() > 2 && known.starts_with(key));
                closest(key, known.iter().copied()).or_else(longer)
            };
            let message = |key: &String| match near(key) {
                Some(near) => format!("unknown key {key:?}; did you mean {near}?"),
                None => format!("unknown key {key:?}; known keys are {}", known.join(" ")),
            };
            unexpected.iter().map(|key| at(Some(key), message(key))).collect()
        }
        ValidationErrorKind::Required { property } => {
            vec![at(None, format!("the key {} is missing", property.as_str().unwrap_or_default()))]
        }
        _ => {
            // Objects and lists of a recording may hold secrets.
            let value = match error.instance().as_ref() {
                Value::Object(_) => "an object".to_owned(),
                Value::Array(_) => "a list".to_owned(),
                value => value.to_string().chars().take(SHOWN).collect(),
            };
            let title = match path.is_empty() {
                true => "an object",
                false => part.and_then(|part| part.get("title")?.as_str()).unwrap_or("allowed here"),
            };
            vec![at(None, format!("{value} is not {title}"))]
        }
    }
}

/// A JSON pointer as the beginning of a message: `failures[0].what: `.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        match step.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path.push_str(step),
            Err(_) => path.push_str(&format!(".{step}")),
        }
    }
    if path.is_empty() { path } else { path + ": " }
}

/// The value at a JSON pointer.
fn located<'a>(root: LocatedValue<'a>, pointer: &str) -> Option<LocatedValue<'a>> {
    pointer.split('/').skip(1).try_fold(root, |value, step| {
        let name = step.replace("~1", "/").replace("~0", "~");
        match value.value() {
            Value::Array(_) => value.children().nth(name.parse().ok()?),
            _ => value.member(&name),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::lifecycle::settings::{read, read_duration};

    fn said(text: &str) -> String {
        check(Path::new("t.yaml"), text, TIMINGS).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_mistake_in_a_file_of_timings_has_a_place() {
        // DEC-63
        for (text, want) in [
            (
                "node: 1s\ninfrastucture: 1s\n",
                "t.yaml:2:1: unknown key \"infrastucture\"; did you mean infrastructure?",
            ),
            ("- 1\n", "t.yaml:1:1: a list is not an object"),
            ("infra: 1s\n", "t.yaml:1:1: unknown key \"infra\"; did you mean infrastructure?"),
            ("node: soon\n", "t.yaml:1:7: node: \"soon\" is not a duration, such as 20s or 1m30s"),
            ("node: 20\n", "t.yaml:1:7: node: 20 is not a duration, such as 20s or 1m30s"),
            ("failures:\n- machine: 1\n", "t.yaml:2:3: failures[0]: the key what is missing"),
            (
                "failures:\n- what: nodeready\n",
                "t.yaml:2:9: failures[0].what: \"nodeready\" is not infrastructure, bootstrap, node or nodeReady",
            ),
            (
                "{\"failures\": [{\"what\": \"node\", \"machine\": \"3\"}]}",
                "t.yaml:1:43: failures[0].machine: \"3\" is not the number of a machine",
            ),
        ] {
            assert_eq!(said(text), want);
            assert!(read(text).is_err(), "{text}");
        }
        let two = said("a: 1s\nzzzzzzzz: 1s\n");
        assert!(
            two.contains("t.yaml:1:1: ") && two.contains("; t.yaml:2:1: unknown key \"zzzzzzzz\"; known keys are "),
            "{two}"
        );
    }

    #[test]
    fn the_schema_of_timings_accepts_what_is_read() {
        for text in ["", "failures: []\n", "cluster: 5s\nfailures:\n- {machine: 3, what: nodeReady}\n"] {
            assert_eq!((said(text), read(text).is_ok()), (String::new(), true), "{text}");
        }
        for duration in
            ["0", "+0", "1s", "1.5h", ".5m", "1.s", "1h2m3.5s", "10µs", "1m30", "s", "", "-1s", "1 s", "1d", "."]
        {
            let text = format!("node: {duration:?}\n");
            assert_eq!(said(&text).is_empty(), read_duration(duration).is_some(), "{duration:?}");
        }
    }
}
