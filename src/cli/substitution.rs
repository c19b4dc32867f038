//! Variables of templates in files: `${V}`, `${V:-default}` and `${V:=default}` (DEC-33). Only those that the command
//! line names have the values of the environment (DEC-65): the author of a file could otherwise have every secret of a
//! CI job printed.
//!
//! Everything else that begins with `${` is left unchanged, since scripts contain it; so is `$${…}`, the escaped form
//! of templates.

/// A variable of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextVariable<'a> {
    name: &'a str,
    default: Option<&'a str>,
}

/// A part of a text.
enum Piece<'a> {
    Text(&'a str),
    Variable(TextVariable<'a>),
}

/// The value of a variable in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VariableLookup {
    Set(String),
    Unset,
    /// The command line does not name the variable.
    NotNamed,
}

/// Why a text cannot be resolved, and the line on which the variable stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unresolved {
    #[error("{line}:1: the variable ${{{name}}} is not set, and the file has no default for it")]
    Unset { line: usize, name: String },
    #[error(
        "{line}:1: the variable ${{{name}}} is not named by --env or --env-prefix, and the file has no default for it"
    )]
    NotNamed { line: usize, name: String },
    #[error("{line}:1: with its variables the text has more than {} MiB", LONGEST >> 20)]
    TooLong { line: usize },
}

/// Maximum length of a text with its variables.
const LONGEST: usize = 64 << 20;

/// The text with every variable replaced by its value, or by its default where the value is empty or absent.
///
/// # Errors
/// All variables without either.
pub(super) fn resolve(text: &str, value_of: impl Fn(&str) -> VariableLookup) -> Result<String, Vec<Unresolved>> {
    let (mut resolved, mut errors, mut line) = (String::with_capacity(text.len()), Vec::new(), 1);
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => {
                line += text.matches('\n').count();
                resolved.push_str(text);
            }
            Piece::Variable(TextVariable { name, default }) => {
                match (value_of(name), default) {
                    (VariableLookup::Set(value), _) if !value.is_empty() => resolved.push_str(&value),
                    (_, Some(default)) => resolved.push_str(default),
                    (VariableLookup::Set(_), None) => {}
                    (VariableLookup::Unset, None) => errors.push(Unresolved::Unset { line, name: name.to_owned() }),
                    (VariableLookup::NotNamed, None) => {
                        errors.push(Unresolved::NotNamed { line, name: name.to_owned() });
                    }
                }
                line += default.map_or(0, |default| default.matches('\n').count());
                if resolved.len() > LONGEST.max(text.len()) {
                    return Err(vec![Unresolved::TooLong { line }]);
                }
            }
        }
    }
    if errors.is_empty() { Ok(resolved) } else { Err(errors) }
}

/// The names of the variables of a text, in their order, repetitions included.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Variable(variable) => Some(variable.name),
        Piece::Text(_) => None,
    })
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = text[at..].find('$').map(|offset| at + offset) {
        if let Some((variable, length)) = variable(&text[found..]) {
            pieces.extend([Piece::Text(&text[start..found]), Piece::Variable(variable)]);
            start = found + length;
            at = start;
        } else {
            // `$$` hides the variable that it stands before.
            at = found + if text[found..].starts_with("$$") { 2 } else { 1 };
        }
    }
    pieces.push(Piece::Text(&text[start..]));
    pieces
}

/// The variable at the start of a text, and its length there.
fn variable(text: &str) -> Option<(TextVariable<'_>, usize)> {
    let inside = text.strip_prefix("${")?;
    let length = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
    let (name, rest) = inside.split_at(length);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if rest.starts_with('}') {
        return Some((TextVariable { name, default: None }, "${}".len() + length));
    }
    let default = rest.strip_prefix(":-").or_else(|| rest.strip_prefix(":="))?;
    let default = &default[..default.find('}')?];
    Some((TextVariable { name, default: Some(default) }, "${:-}".len() + length + default.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(name: &str) -> VariableLookup {
        match name {
            "A" => VariableLookup::Set("a".to_owned()),
            "EMPTY" => VariableLookup::Set(String::new()),
            "LONG" => VariableLookup::Set("x".repeat(1 << 20)),
            "SECRET" => VariableLookup::NotNamed,
            _ => VariableLookup::Unset,
        }
    }

    #[test]
    fn variables_get_their_values_or_defaults() {
        // DEC-33
        for (text, want) in [
            ("x${A}y", "xay"),
            ("${A}${A:-b}${A:=b}", "aaa"),
            ("${B:-b c}, ${B:=}", "b c, "),
            ("${EMPTY}|${EMPTY:-e}", "|e"),
            ("${SECRET:-x}${SECRET:=}", "x"),
            ("$${A} $$${A} $A ${A", "$${A} $$a $A ${A"),
            ("${#A[@]} ${A%b} ${A:1} ${1} ${} ${é} $", "${#A[@]} ${A%b} ${A:1} ${1} ${} ${é} $"),
            ("é${A}é\n${B:-x\ny}", "éaé\nx\ny"),
            ("", ""),
        ] {
            assert_eq!(resolve(text, value_of).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn variables_without_a_value_are_reported_with_their_line() {
        // DEC-33, DEC-65
        let errors = resolve("a\n${B}\n${A} ${C:-\n} ${SECRET}", value_of).unwrap_err();
        let shown: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let want = [
            "2:1: the variable ${B} is not set, and the file has no default for it",
            "4:1: the variable ${SECRET} is not named by --env or --env-prefix, and the file has no default for it",
        ];
        assert_eq!(shown, want);
        assert_eq!(names("${A} $${B} ${A:-x} ${#C}").collect::<Vec<_>>(), ["A", "A"]);
    }

    #[test]
    fn the_length_of_a_resolved_text_is_bounded() {
        let text = "${LONG}\n".repeat(1_000_000);
        assert_eq!(resolve(&text, value_of), Err(vec![Unresolved::TooLong { line: 64 }]));
        assert_eq!(resolve("${LONG}", value_of).map(|text| text.len()), Ok(1 << 20));
    }
}
