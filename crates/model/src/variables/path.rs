//! Paths into the values of variables, as in `valueFrom.variable` of a patch (TV-01, TV-02).

use std::fmt;

use serde_json::{Map, Value};

/// A path into variables: the name of a variable, and the steps into its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePath {
    name: Box<str>,
    steps: Vec<PathStep>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    /// A member of an object; a number may also be a list position.
    Member(Box<str>),
    /// A list position.
    Index(usize),
}

/// Reasons why a path has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is not a path.
    #[error("{path:?} is not a variable path: {problem}")]
    NoPath { path: String, problem: &'static str },
    /// The variable or a member of its value does not exist.
    #[error("{0} was not found")]
    NotFound(String),
    /// A position in a value that is not a list.
    #[error("{path} is not a list, so it has no element {index}")]
    NoList { path: String, index: usize },
    /// A position beyond the end.
    #[error("{path} has {length} elements, and no element {index}")]
    OutOfRange { path: String, index: usize, length: usize },
}

impl PathError {
    /// Whether the path is valid and the value is only absent, as for an unset optional variable.
    pub fn is_not_found(&self) -> bool {
        matches!(self, PathError::NotFound(_))
    }
}

impl VariablePath {
    /// Parses a path: segments separated by `.`, each a name or `name[index]`; the first is the variable (TV-01).
    ///
    /// # Errors
    /// When brackets are unbalanced, or contain no position.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let mut segments = path.split('.');
        let first = segments.next().unwrap_or_default();
        let fault = |problem| PathError::NoPath { path: path.to_owned(), problem };
        let (name, index) = segment(first).map_err(fault)?;
        let mut steps: Vec<PathStep> = index.map(PathStep::Index).into_iter().collect();
        for text in segments {
            let (name, index) = segment(text).map_err(fault)?;
            steps.push(PathStep::Member(name.into()));
            steps.extend(index.map(PathStep::Index));
        }
        Ok(VariablePath { name: name.into(), steps })
    }

    /// The name of the variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the selected members in order, without positions.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            PathStep::Member(name) => Some(&**name),
            PathStep::Index(_) => None,
        })
    }

    /// The value at the path (TV-01).
    ///
    /// # Errors
    /// When there is no value (TV-02).
    pub fn resolve<'v>(&self, variables: &'v Map<String, Value>) -> Result<&'v Value, PathError> {
        let mut here = variables.get(&*self.name).ok_or_else(|| PathError::NotFound(self.until(0)))?;
        for (position, step) in self.steps.iter().enumerate() {
            here = match (step, here) {
                (PathStep::Member(name), Value::Object(members)) => members.get(&**name),
                (PathStep::Member(name), Value::Array(elements)) => {
                    decimal(name).and_then(|position| elements.get(position))
                }
                (PathStep::Member(_), _) => None,
                (PathStep::Index(index), Value::Array(elements)) => {
                    let (index, length) = (*index, elements.len());
                    let beyond = || PathError::OutOfRange { path: self.until(position), index, length };
                    Some(elements.get(index).ok_or_else(beyond)?)
                }
                (PathStep::Index(index), _) => {
                    return Err(PathError::NoList { path: self.until(position), index: *index });
                }
            }
            .ok_or_else(|| PathError::NotFound(self.until(position + 1)))?;
        }
        Ok(here)
    }

    /// The path up to a step.
    fn until(&self, steps: usize) -> String {
        let shown = self.steps.iter().take(steps).map(|step| match step {
            PathStep::Member(name) => format!(".{name}"),
            PathStep::Index(index) => format!("[{index}]"),
        });
        std::iter::once(self.name.to_string()).chain(shown).collect()
    }
}

impl fmt::Display for VariablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.until(self.steps.len()))
    }
}

/// A name and its optional position.
fn segment(text: &str) -> Result<(&str, Option<usize>), &'static str> {
    let Some((name, rest)) = text.split_once('[') else {
        return if text.contains(']') { Err("\"]\" has no matching \"[\"") } else { Ok((text, None)) };
    };
    if name.contains(']') {
        return Err("a bracket is closed before it was opened");
    }
    let Some((index, behind)) = rest.split_once(']') else { return Err("a bracket is not closed") };
    match behind {
        "" => {}
        more if more.starts_with('[') => return Err("only one position can follow a name"),
        _ => return Err("unexpected text between a closing bracket and the next \".\""),
    }
    let index = decimal(index).ok_or("brackets must hold an index, a number from 0")?;
    if name.is_empty() { Err("a bracket needs a name before it") } else { Ok((name, Some(index))) }
}

/// A number consisting of digits only.
fn decimal(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look_up(path: &str) -> Result<Value, PathError> {
        let variables = json!({
            "text": "a", "none": null, "list": [{"name": "first"}, [1, 2]], "": "nameless",
            "object": {"list": ["x", "y"], "0": "zero", "none": null, "": "e"}, "a-b": 1.0,
        });
        VariablePath::parse(path)?.resolve(variables.as_object().unwrap()).cloned()
    }

    #[test]
    fn a_path_selects_members_and_elements() {
        // TV-01
        for (path, want) in [
            ("text", json!("a")),
            ("none", json!(null)),
            ("a-b", json!(1.0)),
            ("object.list", json!(["x", "y"])),
            ("object.list[1]", json!("y")),
            ("list[0].name", json!("first")),
            ("list[00].name", json!("first")),
            ("object.none", json!(null)),
            ("object.0", json!("zero")),
            ("object.", json!("e")),
            ("", json!("nameless")),
            // TV-02: a number that is a member selects an element of a list.
            ("list.0.name", json!("first")),
            ("list.1.1", json!(2)),
        ] {
            assert_eq!(look_up(path), Ok(want), "{path}");
        }
    }

    #[test]
    fn a_missing_value_differs_from_a_malformed_path() {
        // TV-02
        for (path, want) in [
            ("nothing", "nothing was not found"),
            ("nothing.below", "nothing was not found"),
            ("object.nothing", "object.nothing was not found"),
            ("object.nothing.below[3]", "object.nothing was not found"),
            ("text.a", "text.a was not found"),
            ("none.a", "none.a was not found"),
            ("object.none.a", "object.none.a was not found"),
            ("list.2", "list.2 was not found"),
            ("list.-1", "list.-1 was not found"),
            ("list.name", "list.name was not found"),
        ] {
            let error = look_up(path).unwrap_err();
            assert_eq!((error.is_not_found(), &*error.to_string()), (true, want), "{path}");
        }
        for (path, want) in [
            ("list[2]", "list has 2 elements, and no element 2"),
            ("object.list[7]", "object.list has 2 elements, and no element 7"),
            ("object[0]", "object is not a list, so it has no element 0"),
            ("text[0]", "text is not a list, so it has no element 0"),
            ("none[0]", "none is not a list, so it has no element 0"),
            ("list[", r#""list[" is not a variable path: a bracket is not closed"#),
            ("list]", r#""list]" is not a variable path: "]" has no matching "[""#),
            ("list]0[", r#""list]0[" is not a variable path: a bracket is closed before it was opened"#),
            (
                "list[0]]",
                r#""list[0]]" is not a variable path: unexpected text between a closing bracket and the next ".""#,
            ),
            ("list[1][0]", r#""list[1][0]" is not a variable path: only one position can follow a name"#),
            (
                "list[0]name",
                r#""list[0]name" is not a variable path: unexpected text between a closing bracket and the next ".""#,
            ),
            ("list[-1]", r#""list[-1]" is not a variable path: brackets must hold an index, a number from 0"#),
            ("list[+1]", r#""list[+1]" is not a variable path: brackets must hold an index, a number from 0"#),
            ("list[]", r#""list[]" is not a variable path: brackets must hold an index, a number from 0"#),
            ("list[x]", r#""list[x]" is not a variable path: brackets must hold an index, a number from 0"#),
            (
                "list[99999999999999999999]",
                r#""list[99999999999999999999]" is not a variable path: brackets must hold an index, a number from 0"#,
            ),
            ("[0]", r#""[0]" is not a variable path: a bracket needs a name before it"#),
        ] {
            let error = look_up(path).unwrap_err();
            assert_eq!((error.is_not_found(), &*error.to_string()), (false, want), "{path}");
        }
    }

    #[test]
    fn a_path_has_a_name_and_members() {
        let path = VariablePath::parse("builtin.cluster.list[3].x").unwrap();
        assert_eq!(path.name(), "builtin");
        assert_eq!(path.members().collect::<Vec<_>>(), ["cluster", "list", "x"]);
        assert_eq!(path.to_string(), "builtin.cluster.list[3].x");
    }
}
