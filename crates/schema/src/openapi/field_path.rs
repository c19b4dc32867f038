//! The `fieldPath` of a rule (CEL-004).

use super::SchemaDefinition;
use crate::field::closest;

/// An error of a `fieldPath`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldPathError {
    #[error("has no steps")]
    Empty,
    #[error("leads through a value without properties")]
    Through,
    #[error("has the step {0:?} into a value without properties")]
    Into(String),
    #[error(
        "names the unknown property {name:?}{}",
        closest.as_ref().map(|meant| format!("; the closest one is {meant:?}")).unwrap_or_default()
    )]
    Unknown { name: String, closest: Option<String> },
    #[error("has a step without a name")]
    NoName,
    #[error("is not made of steps .name and ['name']; begin it with a dot")]
    NoDot,
    #[error("is not made of steps .name and ['name']")]
    NoSteps,
    #[error("has a bracket that does not end")]
    OpenBracket,
    #[error("has an unknown escape")]
    UnknownEscape,
    #[error("has a quote that does not end")]
    OpenQuote,
}

/// The normalised path: properties joined by dots, additional properties as `[key]`.
pub(super) fn normalised(text: &str, node: &SchemaDefinition) -> Option<String> {
    read(text, node).ok()
}

/// Parses a path relative to a node, or returns what is wrong with it.
pub(super) fn read(text: &str, node: &SchemaDefinition) -> Result<String, FieldPathError> {
    let mut path = String::new();
    let mut node = Some(node);
    let mut rest = text;
    if rest.is_empty() {
        return Err(FieldPathError::Empty);
    }
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        rest = after;
        let at = node.ok_or(FieldPathError::Through)?;
        if let Some(properties) = at.properties.as_ref().filter(|properties| !properties.is_empty()) {
            node = Some(properties.get(&name).ok_or_else(|| unknown(&name, properties.iter().map(|(name, _)| name)))?);
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&name);
        } else if let Some(value) = &at.additional_properties {
            node = Some(value);
            path.push_str(&format!("[{name}]"));
        } else {
            return Err(FieldPathError::Into(name));
        }
    }
    Ok(path)
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> FieldPathError {
    FieldPathError::Unknown { name: name.to_owned(), closest: closest(name, known).map(str::to_owned) }
}

/// The first step and the rest.
fn step(text: &str) -> Result<(String, &str), FieldPathError> {
    if let Some(rest) = text.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        return match name.is_empty() || name.contains(char::is_whitespace) {
            true => Err(FieldPathError::NoName),
            false => Ok((name.to_owned(), after)),
        };
    }
    let Some(rest) = text.strip_prefix("['") else {
        let is_name = text.starts_with(|c: char| c.is_alphabetic());
        return Err(if is_name { FieldPathError::NoDot } else { FieldPathError::NoSteps });
    };
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let after = rest.get(at + 1..).and_then(|rest| rest.strip_prefix(']'));
                return match after {
                    Some(after) if !name.is_empty() => Ok((name, after)),
                    _ => Err(FieldPathError::OpenBracket),
                };
            }
            '\\' => name.push(match chars.next().map(|(_, c)| c) {
                Some('a') => '\x07',
                Some('b') => '\x08',
                Some('f') => '\x0c',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('v') => '\x0b',
                Some(c @ ('\'' | '\\')) => c,
                _ => return Err(FieldPathError::UnknownEscape),
            }),
            c => name.push(c),
        }
    }
    Err(FieldPathError::OpenQuote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_properties_that_exist() {
        // CEL-004
        let node: SchemaDefinition = serde_json::from_str(
            r#"{"type":"object","properties":{
                "a":{"type":"object","properties":{"b.c":{"type":"array","items":{"type":"string"}}}},
                "m":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{"type":"string"}}}}}}"#,
        )
        .unwrap();
        for (text, want) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            ("['a']['b.c']", Some("a.b.c")),
            (".m['k\\'1'].x", Some("m[k'1].x")),
            (".m.key", Some("m[key]")),
            ("a", None),
            (".z", None),
            (".a.b", None),
            (".a['b.c'][0]", None),
            (".a['b.c'].x", None),
            (".", None),
            (" .a", None),
            (".a ", None),
            ("['a", None),
            ("['\\q']", None),
        ] {
            assert_eq!(normalised(text, &node).as_deref(), want, "{text}");
        }
    }
}
