//! Objects from files, folders and standard input.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rayon::prelude::*;

use super::args::{LinkFlags, VariableFlags};
use super::hints;
use super::sources::{RefusedFile, Sources};
use super::substitution::{self, VariableLookup};
use super::threads;
use engine::file_review::LoadedObject;
use golang::yaml::{self, UnreadDocument};
use model::hub::{Kind, Object, ObjectKey, ObjectRef};
use model::wire::manifest;

/// The name of standard input in messages.
pub(super) const STANDARD_INPUT: &str = "<stdin>";

/// A document or a file that cannot be read: `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    file: String,
    reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.reason)
    }
}

/// A Cluster or ClusterClass of a running cluster that does not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undecoded {
    pub kind: Kind,
    pub key: ObjectKey,
    pub reason: String,
}

/// The content of the given paths.
#[derive(Clone, Debug, Default)]
pub(super) struct FileInput {
    /// The objects in the order of paths and documents; files of a folder are sorted by name.
    pub objects: Vec<LoadedObject>,
    /// Some of the objects in further versions, as an API server converted them.
    pub conversions: Vec<Object>,
    /// Objects that are missing on the API server.
    pub missing: BTreeSet<ObjectRef>,
    /// Stored objects of a running cluster that do not decode.
    pub undecoded: Vec<Undecoded>,
    /// Unreadable files and documents.
    pub unreadable: Vec<Unreadable>,
    /// The texts of the files before variables are replaced.
    pub texts: BTreeMap<String, String>,
    /// By file, the lines in which variables were replaced.
    pub changed_lines: BTreeMap<String, BTreeSet<usize>>,
    /// Documents of folders that are not objects, such as values of other tools.
    pub passed_over: Vec<Unreadable>,
}

/// The text of a file.
struct FileText {
    name: String,
    text: String,
    is_of_folder: bool,
}

/// Reads the files of a command, within limits on their bytes ([`super::sources`]).
#[derive(Clone, Debug, Default)]
pub(super) struct FileReader {
    variables: VariableFlags,
    sources: Sources,
}

impl FileReader {
    /// Reads with these flags.
    pub(super) fn new(variables: &VariableFlags, links: &LinkFlags) -> Self {
        FileReader { variables: variables.clone(), sources: Sources::new(links) }
    }

    /// Reads files, folders and `-`. Folders may contain other files besides objects: names that begin with a dot are
    /// skipped, and documents without apiVersion and kind are passed over.
    ///
    /// The named variables of the texts are replaced first ([`substitution`]).
    ///
    /// # Errors
    /// When a path cannot be read at all. A broken document is no error; it is listed in the result, and so is a file
    /// of a folder that must not be read.
    pub(super) fn read(&mut self, paths: &[PathBuf]) -> Result<FileInput> {
        threads::start();
        let mut texts: Vec<Result<FileText, Unreadable>> = Vec::new();
        let mut seen = BTreeSet::new();
        for path in paths {
            if path == Path::new("-") {
                let text = self.sources.standard_input()?;
                texts.push(Ok(FileText { name: STANDARD_INPUT.to_owned(), text, is_of_folder: false }));
                continue;
            }
            for file in self.sources.list(path)? {
                match file {
                    Ok(file) if seen.insert(file.clone()) => {
                        let text = self.sources.file(&file)?;
                        let name = file.display().to_string();
                        texts.push(Ok(FileText { name, text, is_of_folder: file != *path }));
                    }
                    Ok(_) => {}
                    Err(RefusedFile { path, reason }) => {
                        let file = path.display().to_string();
                        texts.push(Err(Unreadable { file, reason: format!(" {reason}") }));
                    }
                }
            }
        }
        let read = |text: Result<FileText, Unreadable>| {
            let mut input = FileInput::default();
            match text {
                Ok(FileText { name, text, is_of_folder }) => input.add(&name, &text, &self.variables, is_of_folder),
                Err(refused) => input.unreadable.push(refused),
            }
            input
        };
        let inputs: Vec<FileInput> = texts.into_par_iter().map(read).collect();
        let input = inputs.into_iter().fold(FileInput::default(), FileInput::joined);
        Ok(input)
    }
}

impl FileInput {
    /// Keeps definitions only: the directory was not named by the user, and may hold other things.
    pub(super) fn keep_definitions(&mut self) {
        self.objects.retain(|loaded| loaded.manifest.kind == "CustomResourceDefinition");
        self.passed_over.clear();
        for unreadable in &mut self.unreadable {
            unreadable.reason.push_str(" (read for definitions; TOPOLOGIST_CRDS= switches this off)");
        }
    }

    fn add(&mut self, file: &str, written: &str, variables: &VariableFlags, is_of_folder: bool) {
        let unreadable = |reason: String| Unreadable { file: file.to_owned(), reason };
        let resolved = match variables.is_empty() {
            true => Ok(Cow::Borrowed(written)),
            false => substitution::resolve(written, |name| lookup(name, variables)).map(Cow::Owned),
        };
        let text = match resolved {
            Ok(text) => text,
            Err(unresolved) => {
                self.unreadable.extend(unresolved.iter().map(|error| unreadable(error.to_string())));
                return;
            }
        };
        self.keep_text(file, written, &text);
        let read = |document: UnreadDocument<'_>| {
            let document = document.read()?;
            let repeated = document.as_ref().map(|document| document.repeated.clone()).unwrap_or_default();
            Some((repeated, document.map(manifest::objects)))
        };
        let documents: Vec<_> = yaml::unread_documents(&text).into_par_iter().filter_map(read).collect();
        for (repeated, objects) in documents {
            match objects {
                Ok(Ok(objects)) => {
                    if let Some(again) = repeated.iter().find(|again| ["apiVersion", "kind"].contains(&&*again.path)) {
                        self.unreadable.push(unreadable(format!(
                            "{}:1: the key {:?} is repeated, and only the last value is used; put a line with --- between \
                             two objects",
                            again.line, again.key
                        )));
                        continue;
                    }
                    let mut repeated = Some(repeated);
                    self.objects.extend(objects.into_iter().map(|manifest| LoadedObject {
                        file: file.to_owned(),
                        manifest,
                        repeated: repeated.take().unwrap_or_default(),
                    }));
                }
                Ok(Err(no_object)) if is_of_folder => self.passed_over.push(unreadable(no_object.to_string())),
                Ok(Err(no_object)) => self.unreadable.push(unreadable(no_object.to_string())),
                Err(error) => {
                    let hint = hints::for_line(&text, error.line).map(|hint| format!(" ({hint})")).unwrap_or_default();
                    self.unreadable.push(unreadable(format!("{error}{hint}")));
                }
            }
        }
    }
}

impl FileInput {
    /// The content of this file and then of another one.
    fn joined(mut self, other: FileInput) -> FileInput {
        let FileInput { objects, conversions, missing, undecoded, unreadable, texts, changed_lines, passed_over } =
            other;
        self.objects.extend(objects);
        self.conversions.extend(conversions);
        self.missing.extend(missing);
        self.undecoded.extend(undecoded);
        self.unreadable.extend(unreadable);
        self.texts.extend(texts);
        self.changed_lines.extend(changed_lines);
        self.passed_over.extend(passed_over);
        self
    }

    /// Keeps the text of a file as it is written, without the values of variables. If a value has added lines, lines are not
    /// those of the file, and none is kept.
    fn keep_text(&mut self, file: &str, written: &str, resolved: &str) {
        if written.lines().count() != resolved.lines().count() {
            return;
        }
        let lines = (1..).zip(written.lines().zip(resolved.lines()));
        let changed: BTreeSet<usize> = lines.filter(|(_, (a, b))| a != b).map(|(number, _)| number).collect();
        if !changed.is_empty() {
            self.changed_lines.insert(file.to_owned(), changed);
        }
        self.texts.insert(file.to_owned(), written.trim_start_matches('\u{feff}').to_owned());
    }
}

/// A variable of the environment, if the command line names it (DEC-65).
fn lookup(name: &str, variables: &VariableFlags) -> VariableLookup {
    match (variables.include(name), std::env::var(name)) {
        (false, _) => VariableLookup::NotNamed,
        (true, Ok(value)) => VariableLookup::Set(value),
        (true, Err(_)) => VariableLookup::Unset,
    }
}
