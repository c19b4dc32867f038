//! JSON paths of printer columns: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`,
//! `.metadata.labels['a/b']`, `.items[-1]`, `.items[*].name`.
//!
//! The part of kubectl's dialect that paths to single values use: no recursion, ranges or templates.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<JsonPathStep>);

#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    Field(String),
    /// From the end if negative.
    Index(i64),
    All,
    Filter(Filter),
}

/// `?(@.type=="Ready")`, or `?(@.type)` for elements with that field.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    path: JsonPath,
    condition: Option<(ComparisonOperator, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ComparisonOperator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators first: `<=` starts with `<`.
const COMPARISONS: [(&str, ComparisonOperator); 6] = [
    ("==", ComparisonOperator::Equal),
    ("!=", ComparisonOperator::Unequal),
    ("<=", ComparisonOperator::LessOrEqual),
    (">=", ComparisonOperator::GreaterOrEqual),
    ("<", ComparisonOperator::Less),
    (">", ComparisonOperator::Greater),
];

/// Maximum nesting of filters.
const DEPTH: usize = 8;

impl JsonPath {
    /// Parses a path; `None` if it is invalid or unsupported.
    pub(crate) fn parse(text: &str) -> Option<JsonPath> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        Self::parse_within(text.strip_prefix('$').unwrap_or(text), DEPTH)
    }

    fn parse_within(text: &str, depth: usize) -> Option<JsonPath> {
        let (mut steps, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let step;
            (step, rest) = match rest.strip_prefix('[') {
                Some(inner) => bracket(inner, depth)?,
                None => field(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            steps.extend(step);
        }
        Some(JsonPath(steps))
    }

    /// The first value at the path.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        Self::follow(&self.0, value)
    }

    fn follow<'a>(steps: &[JsonPathStep], value: &'a Value) -> Option<&'a Value> {
        let Some((step, rest)) = steps.split_first() else { return Some(value) };
        let go_on = |value| Self::follow(rest, value);
        match (step, value) {
            (JsonPathStep::Field(name), Value::Object(members)) => Self::follow(rest, members.get(name)?),
            (JsonPathStep::Index(index), Value::Array(elements)) => {
                let from_start = usize::try_from(*index).ok();
                let from_end = || elements.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
                Self::follow(rest, elements.get(from_start.or_else(from_end)?)?)
            }
            (JsonPathStep::All, Value::Array(elements)) => elements.iter().find_map(go_on),
            (JsonPathStep::All, Value::Object(members)) => members.values().find_map(go_on),
            (JsonPathStep::Filter(filter), Value::Array(elements)) => {
                elements.iter().filter(|element| filter.holds(element)).find_map(go_on)
            }
            _ => None,
        }
    }
}

/// A field name after the dot; a backslash escapes the next character. A dot alone refers to the current value.
fn field(text: &str) -> Option<(Option<JsonPathStep>, &str)> {
    let (mut name, mut rest) = (String::new(), text);
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        rest = &text[at + c.len_utf8()..];
        match c {
            '\\' if !is_quoted => {
                is_quoted = true;
                continue;
            }
            '.' | '[' if !is_quoted => {
                rest = &text[at..];
                break;
            }
            ' ' | '(' | ')' | '{' | '}' | '\'' | '"' | ']' if !is_quoted => return None,
            c => name.push(c),
        }
        is_quoted = false;
    }
    match &*name {
        "" if rest.is_empty() || rest.starts_with('[') => Some((None, rest)),
        "" => None,
        "*" => Some((Some(JsonPathStep::All), rest)),
        _ => Some((Some(JsonPathStep::Field(name)), rest)),
    }
}

/// The contents of brackets after the opening one.
fn bracket(text: &str, depth: usize) -> Option<(Option<JsonPathStep>, &str)> {
    if let Some(inner) = text.strip_prefix("?(") {
        let end = closing(inner)?;
        let rest = inner[end + 1..].trim_start().strip_prefix(']')?;
        return Some((Some(JsonPathStep::Filter(Filter::parse(&inner[..end], depth.checked_sub(1)?)?)), rest));
    }
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, rest) = quoted(&text[1..], quote)?;
        return Some((Some(JsonPathStep::Field(name)), rest.strip_prefix(']')?));
    }
    let (inner, rest) = text.split_once(']')?;
    let step = match inner.trim() {
        "*" => JsonPathStep::All,
        number => JsonPathStep::Index(number.parse().ok()?),
    };
    Some((Some(step), rest))
}

/// The position of the closing parenthesis, skipping strings.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut quote, mut is_quoted) = (1_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if is_quoted => is_quoted = false,
            (Some(_), '\\') => is_quoted = true,
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => open += 1,
            (None, ')') => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// A string up to its closing quote, and the rest.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let (mut content, mut is_quoted) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !is_quoted => {
                is_quoted = true;
                continue;
            }
            c if c == quote && !is_quoted => return Some((content, &text[at + c.len_utf8()..])),
            c => content.push(c),
        }
        is_quoted = false;
    }
    None
}

impl Filter {
    fn parse(text: &str, depth: usize) -> Option<Filter> {
        let text = text.trim().strip_prefix('@')?;
        let (path, condition) = match comparison(text) {
            Some((path, comparison, literal)) => (path, Some((comparison, literal_value(literal.trim())?))),
            None => (text, None),
        };
        Some(Filter { path: JsonPath::parse_within(path.trim(), depth)?, condition })
    }

    fn holds(&self, value: &Value) -> bool {
        let found = self.path.first(value);
        let (Some(found), Some((comparison, wanted))) = (found, &self.condition) else {
            return found.is_some() && self.condition.is_none();
        };
        let order = compare(found, wanted);
        match comparison {
            ComparisonOperator::Equal => order == Some(Ordering::Equal),
            ComparisonOperator::Unequal => order.is_some_and(Ordering::is_ne),
            ComparisonOperator::Less => order.is_some_and(Ordering::is_lt),
            ComparisonOperator::LessOrEqual => order.is_some_and(Ordering::is_le),
            ComparisonOperator::Greater => order.is_some_and(Ordering::is_gt),
            ComparisonOperator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// Splits at the first operator outside brackets and strings.
fn comparison(text: &str) -> Option<(&str, ComparisonOperator, &str)> {
    let (mut quote, mut open) = (None, 0_usize);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => open += 1,
            (None, ']') => open = open.saturating_sub(1),
            (None, _) if open == 0 => {
                let rest = &text[at..];
                let found = COMPARISONS.iter().find_map(|(word, kind)| Some((rest.strip_prefix(word)?, kind)));
                if let Some((literal, comparison)) = found {
                    return Some((&text[..at], *comparison, literal));
                }
            }
            _ => {}
        }
    }
    None
}

fn literal_value(text: &str) -> Option<Value> {
    match text.chars().next()? {
        quote @ ('\'' | '"') => {
            let (content, rest) = quoted(&text[1..], quote)?;
            rest.is_empty().then_some(Value::String(content))
        }
        _ => serde_json::from_str(text).ok().filter(|value: &Value| value.is_number() || value.is_boolean()),
    }
}

/// The order of two values of one type.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_the_first_value_that_fits() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": {"c": true}, "list": [[1, 2], [3]]},
            "metadata": {"labels": {"x.io/name": "n"}},
            "status": {"conditions": [
                {"type": "Paused", "status": "False"}, {"type": "Ready", "status": "True", "count": 7},
            ]},
        });
        for (path, want) in [
            (".spec.replicas", Some(json!(3))),
            ("spec.replicas", Some(json!(3))),
            ("{.spec.replicas}", Some(json!(3))),
            ("$.spec['replicas']", Some(json!(3))),
            (r".spec.a\.b.c", Some(json!(true))),
            (r#".metadata.labels["x.io/name"]"#, Some(json!("n"))),
            (r".metadata.labels.x\.io/name", Some(json!("n"))),
            (".spec.list[0][1]", Some(json!(2))),
            (".spec.list[-1][0]", Some(json!(3))),
            (".spec.list[2]", None),
            (".spec.list[-3]", None),
            (".spec.list[*][1]", Some(json!(2))),
            (".status.conditions[*].count", Some(json!(7))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (".status.conditions[?(@.type=='Ready')].status", Some(json!("True"))),
            (".status.conditions[?( @.type != 'Paused' )].status", Some(json!("True"))),
            (".status.conditions[?(@.count)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.count>=7)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.count>7)].type", None),
            (".status.conditions[?(@.count<7.5)].type", Some(json!("Ready"))),
            (".status.conditions[?(@.type==\"None\")].status", None),
            (".status.conditions.type", None),
            (".spec.replicas.more", None),
            (".", Some(object.clone())),
            (".spec.*", Some(json!({"c": true}))),
        ] {
            let read = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} is a path"));
            assert_eq!(read.first(&object), want.as_ref(), "{path}");
        }
    }

    #[test]
    fn malformed_json_paths_are_rejected() {
        let deep = format!(".a{}", "[?(@".repeat(50_000));
        for text in [
            "..name",
            ".a[",
            ".a[x]",
            ".a[1:2]",
            ".a[?(@.b==)]",
            ".a[?(b)]",
            ".a['b]",
            ".a b",
            "{.a",
            ".a[?(@.b",
            &deep,
        ] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }
}
