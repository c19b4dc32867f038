//! JSON paths of printer columns: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`,
//! `.metadata.labels['a/b']`, `.items[-1]`, `.items[*].name`.
//!
//! This is the part of kubectl's dialect that a path to one value can make use of: no recursion, ranges or templates.

use std::cmp::Ordering;

use serde_json::Value;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// From the end when it is negative.
    Index(i64),
    All,
    Filter(Filter),
}

/// `?(@.type=="Ready")`, or `?(@.type)` for elements with such a field.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    path: JsonPath,
    condition: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer comparisons first: `<=` begins with `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// How many filters may stand within each other.
const DEPTH: usize = 8;

impl JsonPath {
    /// Reads a path; `None` for what is none, or needs more than is understood.
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

    /// The first value that the path leads to.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        Self::follow(&self.0, value)
    }

    fn follow<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
        let Some((step, rest)) = steps.split_first() else { return Some(value) };
        let go_on = |value| Self::follow(rest, value);
        match (step, value) {
            (Step::Field(name), Value::Object(members)) => Self::follow(rest, members.get(name)?),
            (Step::Index(index), Value::Array(elements)) => {
                let from_start = usize::try_from(*index).ok();
                let from_end = || elements.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
                Self::follow(rest, elements.get(from_start.or_else(from_end)?)?)
            }
            (Step::All, Value::Array(elements)) => elements.iter().find_map(go_on),
            (Step::All, Value::Object(members)) => members.values().find_map(go_on),
            (Step::Filter(filter), Value::Array(elements)) => {
                elements.iter().filter(|element| filter.holds(element)).find_map(go_on)
            }
            _ => None,
        }
    }
}

/// A field, without the dot before it; a backslash takes the meaning from what follows it. A dot alone is where one is.
fn field(text: &str) -> Option<(Option<Step>, &str)> {
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
        "*" => Some((Some(Step::All), rest)),
        _ => Some((Some(Step::Field(name)), rest)),
    }
}

/// What stands in brackets, without the first one.
fn bracket(text: &str, depth: usize) -> Option<(Option<Step>, &str)> {
    if let Some(inner) = text.strip_prefix("?(") {
        let end = closing(inner)?;
        let rest = inner[end + 1..].trim_start().strip_prefix(']')?;
        return Some((Some(Step::Filter(Filter::parse(&inner[..end], depth.checked_sub(1)?)?)), rest));
    }
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, rest) = quoted(&text[1..], quote)?;
        return Some((Some(Step::Field(name)), rest.strip_prefix(']')?));
    }
    let (inner, rest) = text.split_once(']')?;
    let step = match inner.trim() {
        "*" => Step::All,
        number => Step::Index(number.parse().ok()?),
    };
    Some((Some(step), rest))
}

/// Where the parenthesis that is open ends, texts passed over.
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

/// A text up to its closing quote, and what follows it.
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
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::Unequal => order.is_some_and(Ordering::is_ne),
            Comparison::Less => order.is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order.is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// Splits at the first comparison outside of brackets and texts.
fn comparison(text: &str) -> Option<(&str, Comparison, &str)> {
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
