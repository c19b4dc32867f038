//! The texts of files, and the places of fields in them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::AhoCorasick;
use serde_json::Value;

use super::template_text::{TextRange, place_in_template};
use super::{Finding, FindingObject, Place, RelatedObject};
use crate::cli::errors::ErrorRow;
use crate::cli::files::FileInput;
use engine::file_review::LoadedObject;
use golang::yaml::{LocatedValue, Position};
use model::hub::{Kind, paths};
use model::wire::manifest::LocatedField;
use schema::field::{FieldPart, Level, Warning};

/// The path of an object as a whole in errors of Kubernetes.
const ROOT: &str = "[]";

/// The texts of the files of a command, and the secrets in them. Both are looked at when there is a finding.
#[derive(Debug)]
pub(in crate::cli) struct SourceTexts<'a> {
    files: BTreeMap<&'a str, FileText<'a>>,
    /// By file, the lines in which variables were replaced.
    changed_lines: BTreeMap<&'a str, &'a BTreeSet<usize>>,
    objects: Vec<&'a LoadedObject>,
    secrets: OnceCell<Secrets>,
}

/// The text of a file, and its lines.
#[derive(Debug)]
struct FileText<'a> {
    text: &'a str,
    lines: OnceCell<Vec<&'a str>>,
}

impl<'a> FileText<'a> {
    /// A line; lines count from 1.
    fn line(&self, number: usize) -> Option<&'a str> {
        self.lines.get_or_init(|| lines(self.text)).get(number.checked_sub(1)?).copied()
    }
}

/// The lines of a text, as YAML counts them: a line ends with a line feed, a carriage return, or both.
fn lines(text: &str) -> Vec<&str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r')).collect()
}

/// Maximum length of a line that is shown, in bytes. A file may be one line.
const LONGEST_LINE: usize = 2000;

/// Texts and lines that may be secrets (DEC-34).
#[derive(Debug, Default)]
struct Secrets {
    texts: BTreeSet<String>,
    /// Finds the texts; `None` if there are none, or more than it can find.
    search: Option<AhoCorasick>,
    /// By file, the lines of such values.
    lines: BTreeMap<String, BTreeSet<usize>>,
}

impl<'a> SourceTexts<'a> {
    /// The texts of these inputs.
    pub(in crate::cli) fn new(inputs: impl IntoIterator<Item = &'a FileInput> + Clone) -> Self {
        let texts = inputs.clone().into_iter().flat_map(|input| &input.texts);
        let changed = inputs.clone().into_iter().flat_map(|input| &input.changed_lines);
        let file = |(name, text): (&'a String, &'a String)| (&**name, FileText { text, lines: OnceCell::new() });
        SourceTexts {
            files: texts.map(file).collect(),
            changed_lines: changed.map(|(name, lines)| (&**name, lines)).collect(),
            objects: inputs.into_iter().flat_map(|input| &input.objects).collect(),
            secrets: OnceCell::new(),
        }
    }

    /// A line of a file, unless it may show a secret (DEC-34).
    pub(super) fn line(&self, place: &Place) -> Option<&'a str> {
        let line = self.files.get(&*place.file)?.line(place.line)?;
        let is_shown = line.len() <= LONGEST_LINE && !line.trim().is_empty();
        let is_secret = || {
            self.secrets.get_or_init(|| Secrets::find(&self.objects, &self.files)).are_in(&place.file, place.line, line)
        };
        Some(line).filter(|_| is_shown && !is_secret())
    }

    /// The place of a field, or of the nearest one above it.
    pub(in crate::cli) fn place(&self, loaded: &LoadedObject, path: &str, part: FieldPart) -> Option<Place> {
        let LocatedField { value, key, is_exact } = loaded.manifest.locate(path)?;
        let is_text = !value.value().is_object() && !value.value().is_array();
        let shows_value = key.is_none() || (part == FieldPart::Value && is_exact && is_text);
        let Position { line, column } = if shows_value { value.position() } else { value.key_position() };
        let expected = match (shows_value, key, value.value()) {
            (false, key, _) => key,
            (true, _, Value::String(text)) => Some(text.clone()),
            (true, _, Value::Object(_) | Value::Array(_)) => None,
            (true, _, number) => Some(number.to_string()),
        };
        let text = self.files.get(&*loaded.file).and_then(|file| file.line(line));
        let (column, end_column) = match text {
            // A variable was replaced in it.
            Some(text) if self.changed_lines.get(&*loaded.file).is_some_and(|lines| lines.contains(&line)) => {
                let blanks = text.chars().take_while(|letter| letter.is_whitespace()).count();
                (blanks + 1, text.trim_end().chars().count() + 1)
            }
            Some(text) => (column, token_end(text, column, expected.as_deref())),
            None => (column, column + 1),
        };
        Some(Place { file: loaded.file.clone(), line, column, end_line: line, end_column })
    }

    /// An error of a rule.
    pub(in crate::cli) fn error(&self, loaded: &LoadedObject, error: &ErrorRow) -> Finding {
        self.finding((loaded, &error.field, error.part), Finding::new(Level::Error, error.rule, error.message()))
    }

    /// A warning of a rule.
    pub(in crate::cli) fn warning(&self, loaded: &LoadedObject, warning: &Warning) -> Finding {
        let Warning { rule, path, part, .. } = warning;
        self.finding((loaded, path.as_str(), *part), Finding::new(Level::Warning, rule, warning.detail()))
    }

    /// The finding with its object, path and place.
    pub(in crate::cli) fn finding(
        &self,
        (loaded, path, part): (&LoadedObject, &str, FieldPart),
        finding: Finding,
    ) -> Finding {
        Finding {
            object: FindingObject::from_loaded(loaded),
            path: if path == ROOT { String::new() } else { path.to_owned() },
            named_path: if path == ROOT { String::new() } else { loaded.manifest.named_path(path) },
            place: self
                .place(loaded, path, part)
                .map(|place| self.place_in_text(loaded, path, place, &finding.message)),
            ..finding
        }
    }

    /// The place in the text of a template that a message names, or else the place of the text.
    fn place_in_text(&self, loaded: &LoadedObject, path: &str, place: Place, message: &str) -> Place {
        let narrow = || {
            let found = loaded.manifest.locate(path).filter(|found| found.is_exact)?;
            let template = found.value.value().as_str()?;
            let TextRange { line, column, length } = place_in_template(message, template)?;
            let number = place.line.checked_add(line)?;
            let wanted = template.split('\n').nth(line)?;
            // Lines of a block are in the file as they are, behind their indentation.
            let text = self.files.get(&*place.file)?.line(number)?;
            // On its first line, a value may stand behind an equal text.
            let from = if line == 0 { text.char_indices().nth(place.column - 1)?.0 } else { 0 };
            let start = from + text.get(from..)?.find(wanted).filter(|_| text.len() <= LONGEST_LINE)?;
            let columns = |bytes: usize| Some(text.get(..start + bytes)?.chars().count() + 1);
            let (column, end_column) = (columns(column)?, columns(column + length)?);
            Some(Place { line: number, end_line: number, column, end_column, file: place.file.clone() })
        };
        narrow().unwrap_or(place)
    }

    /// An object that belongs to a finding.
    pub(in crate::cli) fn related(&self, loaded: &LoadedObject) -> RelatedObject {
        self.related_field(loaded, "")
    }

    /// A field that a finding depends on.
    pub(in crate::cli) fn related_field(&self, loaded: &LoadedObject, path: &str) -> RelatedObject {
        let object = FindingObject::from_loaded(loaded);
        let (path, named_path) = (path.to_owned(), loaded.manifest.named_path(path));
        RelatedObject { object, place: self.place(loaded, &path, FieldPart::Key), path, named_path }
    }
}

/// Maximum length of a range, in characters.
const LONGEST: usize = 1000;

/// The column behind the key or value that begins at a column of a line.
fn token_end(line: &str, column: usize, expected: Option<&str>) -> usize {
    if line.len() > LONGEST_LINE {
        // To look for the end would be work for each finding in the line.
        return column + expected.map_or(1, |text| text.chars().take(LONGEST).count()).max(1);
    }
    let rest: String = line.chars().skip(column.saturating_sub(1)).take(LONGEST).collect();
    let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first));
    let length = match (expected, quote) {
        (Some(expected), None) if !expected.is_empty() && rest.starts_with(expected) => expected.chars().count(),
        (_, Some(quote)) => quoted_length(&rest, quote),
        _ => rest.trim_end().chars().count(),
    };
    column + length.max(1)
}

/// The characters of a text in quotes, both quotes included; all of it if it does not end in its line.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut letters = text.chars().enumerate().skip(1).peekable();
    while let Some((position, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        if (letter == '\\' && quote == '"') || (letter == '\'' && quote == '\'' && next == Some('\'')) {
            letters.next();
        } else if letter == quote {
            return position + 1;
        }
    }
    text.trim_end().chars().count()
}

impl Secrets {
    /// The values of variables of Clusters whose class has a variable with a password, or is not in the files, and the
    /// values in the definitions of such a class.
    fn find(objects: &[&LoadedObject], files: &BTreeMap<&str, FileText<'_>>) -> Self {
        let mut secrets = Secrets::default();
        let mut open: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        let of_kind = |kind: Kind| objects.iter().filter(move |loaded| loaded.manifest.admitted_kind() == Some(kind));
        for class in of_kind(Kind::ClusterClass) {
            let (key, value) = (&class.manifest.key, &class.manifest.value);
            let has_passwords = has_format(value, "password") || discovers_variables(value);
            *open.entry((&key.namespace, &key.name)).or_insert(true) &= !has_passwords;
            if !has_passwords {
                continue;
            }
            let lines = ObjectLines::new(class, files);
            for path in [paths::cluster_class::VARIABLES, "status.variables"] {
                let found = class.manifest.locate(path).filter(|found| found.is_exact);
                secrets.add_literals(found.map(|found| found.value), &lines);
            }
        }
        for cluster in of_kind(Kind::Cluster) {
            let Some(topology) = cluster.manifest.locate(paths::cluster::TOPOLOGY).filter(|found| found.is_exact)
            else {
                continue;
            };
            let class = class_of(topology.value.value(), &cluster.manifest.key.namespace);
            if open.get(&class) != Some(&true) {
                secrets.add_variables(topology.value, &ObjectLines::new(cluster, files));
            }
        }
        secrets.search = AhoCorasick::new(&secrets.texts).ok().filter(|_| !secrets.texts.is_empty());
        secrets
    }

    /// Whether there may be a secret in a line of a file.
    fn are_in(&self, file: &str, number: usize, line: &str) -> bool {
        let is_its = |lines: &BTreeSet<usize>| lines.contains(&number);
        self.lines.get(file).is_some_and(is_its)
            || self.search.as_ref().map_or(!self.texts.is_empty(), |search| search.is_match(line))
    }

    /// Adds the values that schemas contain.
    fn add_literals(&mut self, value: Option<LocatedValue<'_>>, object: &ObjectLines<'_, '_>) {
        for (name, member) in value.into_iter().flat_map(members) {
            match name {
                Some("default" | "example" | "enum") => self.add_values(member, object),
                _ => self.add_literals(Some(member), object),
            }
        }
    }

    /// Adds the values of all lists of variables.
    fn add_variables(&mut self, value: LocatedValue<'_>, object: &ObjectLines<'_, '_>) {
        for (name, member) in members(value) {
            match (name, member.member("overrides")) {
                (Some("variables"), Some(overrides)) => self.add_list(overrides, object),
                (Some("variables"), None) => self.add_list(member, object),
                _ => self.add_variables(member, object),
            }
        }
    }

    /// Adds the values of a list of variables: all but names, or all if it is no such list.
    fn add_list(&mut self, variables: LocatedValue<'_>, object: &ObjectLines<'_, '_>) {
        if !variables.value().is_array() {
            return self.add_values(variables, object);
        }
        for entry in variables.children() {
            if !entry.value().is_object() {
                self.add_values(entry, object);
            }
            let values = members(entry).filter(|(name, _)| !matches!(name, Some("name" | "definitionFrom") | None));
            values.for_each(|(_, value)| self.add_values(value, object));
        }
    }

    /// Adds a value and all values in it: their lines, and texts that are long enough to be found elsewhere, as they are and
    /// as in quotes.
    fn add_values(&mut self, value: LocatedValue<'_>, object: &ObjectLines<'_, '_>) {
        let first = value.position().line;
        let last = match value.value() {
            Value::String(text) => object.last_line(first, text),
            _ => first,
        };
        self.lines.entry(object.file.to_owned()).or_default().extend(first..=last);
        if let Value::String(text) = value.value() {
            let lines = text.lines().map(|line| line.trim().to_owned());
            self.texts.extend(lines.chain([in_quotes(text)]).filter(|text| text.len() >= SHORTEST));
        }
        value.children().for_each(|child| self.add_values(child, object));
    }
}

/// Minimum length of a text that may be a secret in any line, in bytes.
const SHORTEST: usize = 6;

/// A text as it is in quotes, without these.
fn in_quotes(text: &str) -> String {
    Value::from(text).to_string().trim_matches('"').to_owned()
}

/// The lines of an object in a file.
struct ObjectLines<'a, 't> {
    file: &'a str,
    text: Option<&'a FileText<'t>>,
    /// The lines on which a key or a value begins.
    starts: BTreeSet<usize>,
}

impl<'a, 't> ObjectLines<'a, 't> {
    fn new(object: &'a LoadedObject, files: &'a BTreeMap<&str, FileText<'t>>) -> Self {
        fn add(value: LocatedValue<'_>, starts: &mut BTreeSet<usize>) {
            starts.extend([value.key_position().line, value.position().line]);
            value.children().for_each(|child| add(child, starts));
        }
        let mut starts = BTreeSet::new();
        object.manifest.locate("").into_iter().for_each(|root| add(root.value, &mut starts));
        ObjectLines { file: &object.file, text: files.get(&*object.file), starts }
    }

    /// The last line of a text that begins on a line: that line, or up to the one on which something else begins.
    fn last_line(&self, first: usize, text: &str) -> usize {
        let line = |number| self.text.and_then(|file| file.line(number));
        // A long line is not searched for each text in it, and never shown.
        let has_text =
            |line: &str| line.len() <= LONGEST_LINE && (line.contains(text) || line.contains(&in_quotes(text)));
        match line(first).is_none_or(has_text) || line(first + 1).is_none() {
            true => first,
            false => self.starts.range(first + 1..).next().copied().unwrap_or(first + LONGEST),
        }
    }
}

/// The members of an object with their names, or the entries of a list.
fn members(value: LocatedValue<'_>) -> impl Iterator<Item = (Option<&str>, LocatedValue<'_>)> {
    let names = value.value().as_object().into_iter().flat_map(serde_json::Map::keys).map(|name| Some(&**name));
    names.chain(std::iter::repeat(None)).zip(value.children())
}

/// Namespace and name of the class of a topology.
fn class_of<'a>(topology: &'a Value, namespace: &'a str) -> (&'a str, &'a str) {
    let text = |pointers: [&str; 2]| {
        let mut texts = pointers.into_iter().filter_map(|pointer| topology.pointer(pointer)?.as_str());
        texts.find(|text| !text.is_empty())
    };
    let namespace = text(["/classRef/namespace", "/classNamespace"]).unwrap_or(namespace);
    (namespace, text(["/classRef/name", "/class"]).unwrap_or_default())
}

/// Whether an object has a schema of a format in it.
fn has_format(value: &Value, format: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| has_format(item, format)),
        Value::Object(members) => members.iter().any(|(name, member)| match (&**name, member) {
            ("format", Value::String(found)) => found == format,
            _ => has_format(member, format),
        }),
        _ => false,
    }
}

/// Whether extensions define variables of a class.
fn discovers_variables(class: &Value) -> bool {
    let patches = class.pointer("/spec/patches").and_then(Value::as_array).into_iter().flatten();
    patches.into_iter().any(|patch| patch.pointer("/external/discoverVariablesExtension").is_some())
}

#[cfg(test)]
mod tests {
    use golang::yaml::documents;
    use model::wire::manifest::objects;

    use super::*;

    fn input(text: &str) -> FileInput {
        let manifests = documents(text).into_iter().flat_map(|document| objects(document.unwrap()).unwrap());
        let load = |manifest| LoadedObject { file: "a.yaml".to_owned(), manifest, repeated: Vec::new() };
        FileInput {
            objects: manifests.map(load).collect(),
            texts: [("a.yaml".to_owned(), text.to_owned())].into(),
            ..FileInput::default()
        }
    }

    #[test]
    fn a_range_is_a_key_or_a_value_in_one_line() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nspec:\n  plain: some text # a comment\n  \
                    \"quoted\": \"a \\\" b\"\n  single: 'it''s'\n  flow: {m: 12, l: [x, w z]}\n  block: |\n    first\n    \
                    second\n  empty:\n  folded: a\n    b\n";
        let input = input(text);
        let texts = SourceTexts::new([&input]);
        let lines: Vec<&str> = text.lines().collect();
        for (path, part, want) in [
            ("spec.plain", FieldPart::Value, "some text"),
            ("spec.plain", FieldPart::Key, "plain"),
            ("spec.plain.below", FieldPart::Value, "plain"),
            ("spec.quoted", FieldPart::Value, "\"a \\\" b\""),
            ("spec.quoted", FieldPart::Key, "\"quoted\""),
            ("spec.single", FieldPart::Value, "'it''s'"),
            ("spec.flow", FieldPart::Value, "flow"),
            ("spec.flow.m", FieldPart::Value, "12"),
            ("spec.flow.l[1]", FieldPart::Value, "w z"),
            ("spec.block", FieldPart::Value, "first"),
            ("spec.folded", FieldPart::Value, "a"),
        ] {
            let Place { line, column, end_line, end_column, .. } = texts.place(&input.objects[0], path, part).unwrap();
            let marked: String = lines[line - 1].chars().skip(column - 1).take(end_column - column).collect();
            assert_eq!((&*marked, line), (want, end_line), "{path} {part:?}");
        }
    }

    /// The lines that may be shown.
    fn shown(text: &str) -> Vec<usize> {
        let input = input(text);
        let texts = SourceTexts::new([&input]);
        let place = |line| Place { file: "a.yaml".to_owned(), line, column: 1, end_line: line, end_column: 2 };
        (1..=text.lines().count()).filter(|line| texts.line(&place(*line)).is_some()).collect()
    }

    #[test]
    fn lines_are_counted_as_yaml_counts_them() {
        assert_eq!(lines("a\r\nb\rc\n\nd"), ["a", "b", "c", "", "d"]);
        let text = "# one\r# two\napiVersion: v1\nkind: Secret\nspec: {key: 1}\n";
        let input = input(text);
        let place = SourceTexts::new([&input]).place(&input.objects[0], "spec.key", FieldPart::Value).unwrap();
        assert_eq!((place.line, place.column, place.end_column), (5, 13, 14));
    }

    #[test]
    fn lines_that_may_have_passwords_are_not_shown() {
        // DEC-34
        let class = |schema: &str| {
            format!(
                "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {{name: a}}\nspec:\n  \
                 variables:\n  - name: key\n    schema:\n      openAPIV3Schema: {{type: object}}\n  - name: other\n    \
                 schema: {{openAPIV3Schema: {schema}}}\n---\n"
            )
        };
        let cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: b}\nspec:\n  topology:\n    \
                       classRef: {name: a}\n    variables:\n    - name: key\n      value: 7\n    controlPlane:\n      \
                       variables:\n        overrides:\n        - name: key\n          value: |\n            hidden\n            too\n";
        let all: Vec<usize> = (1..=27).collect();
        assert_eq!(shown(&(class("{type: string}") + cluster)), all);
        let hidden: Vec<usize> = all.iter().copied().filter(|line| ![20, 26, 27].contains(line)).collect();
        assert_eq!(shown(&(class("{type: string, format: password}") + cluster)), hidden);
        let default = class("{type: string, format: password, default: s3cret}");
        let hidden: Vec<usize> = hidden.into_iter().filter(|line| *line != 10).collect();
        assert_eq!(shown(&(default + cluster)), hidden);
        // A text in quotes goes on in the next line.
        let long = cluster.replace("value: 7", "value: {a: \"one\\n\n        two\", b: 1}");
        assert!(
            !shown(&(class("{type: string, format: password}") + &long)).iter().any(|line| (20..=21).contains(line))
        );
        // A class that is elsewhere may have passwords.
        assert_eq!(shown(cluster), [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14]);
    }
}
