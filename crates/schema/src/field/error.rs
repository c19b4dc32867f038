//! Field errors as values.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::Path;

/// Id of the rule that reports an error, as listed in `docs/rules.md`: `UPG-005`.
pub type RuleId = &'static str;

/// Type of a field error: the reason of a Kubernetes status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    Required,
    Invalid,
    TypeInvalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
}

impl ErrorKind {
    /// Every kind, for tables and tests.
    pub const ALL: [ErrorKind; 9] = [
        ErrorKind::Required,
        ErrorKind::Invalid,
        ErrorKind::TypeInvalid,
        ErrorKind::NotSupported,
        ErrorKind::Duplicate,
        ErrorKind::Forbidden,
        ErrorKind::TooLong,
        ErrorKind::TooMany,
        ErrorKind::Internal,
    ];

    /// The `reason` of the status cause.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::Internal => "InternalError",
        }
    }

    /// The words in a rendered error.
    pub fn words(self) -> &'static str {
        match self {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::Internal => "Internal error",
        }
    }

    /// Whether the rendering includes the offending value.
    pub fn shows_value(self) -> bool {
        !matches!(self, ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal)
    }
}

/// An offending value, reduced to the part that an error displays.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorValue(Value);

impl ErrorValue {
    /// No value, for kinds that do not display one.
    pub const NOTHING: ErrorValue = ErrorValue(Value::Null);

    /// A value, or the beginning of a long text: errors do not keep large values.
    pub fn bounded(value: &Value) -> Self {
        match shortened(&value.to_string()) {
            Cow::Borrowed(_) => ErrorValue(value.clone()),
            Cow::Owned(text) => ErrorValue(Value::String(text)),
        }
    }
}

impl ErrorValue {
    /// Approximate size in bytes; only texts are long.
    fn text_bytes(&self) -> usize {
        match &self.0 {
            Value::String(text) => text.len(),
            _ => SHOWN_BYTES,
        }
    }
}

impl<T: Into<Value>> From<T> for ErrorValue {
    fn from(value: T) -> Self {
        ErrorValue(value.into())
    }
}

impl fmt::Display for ErrorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => write!(f, "{:?}", shortened(text)),
            other => f.write_str(&shortened(&other.to_string())),
        }
    }
}

/// Maximum bytes of a value in an error.
const SHOWN_BYTES: usize = 1024;

/// A text, cut if it is long: there may be many errors about a large value.
pub fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN_BYTES {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(SHOWN_BYTES);
    Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len()))
}

/// An error followed by its causes, without repetitions: some errors include the text of their cause.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let added = next.to_string();
        if !text.contains(&added) {
            text = format!("{text}: {added}");
        }
        cause = next.source();
    }
    text
}

/// The first names, followed by the number of the others.
pub fn a_few(names: &[String], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown}, ... ({more} more)"),
    }
}

/// `1 Cluster`, `2 Clusters`.
pub fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Texts separated by commas, up to a readable number.
pub fn enumerated<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut all = String::new();
    for (i, text) in texts.into_iter().enumerate() {
        if all.len() > SHOWN_BYTES {
            all.push_str(", …");
            break;
        }
        if i > 0 {
            all.push_str(", ");
        }
        all.push_str(&shortened(text.as_ref()));
    }
    all
}

/// One invalid field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The rule that reports it.
    pub rule: RuleId,
    pub kind: ErrorKind,
    pub path: Path,
    pub value: ErrorValue,
    pub detail: String,
}

impl FieldError {
    /// The error without its path: the `message` of a status cause.
    pub fn message(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if self.kind.shows_value() {
            text.push_str(&format!(": {}", self.value));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!(": {}", self.detail));
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

/// The part of a field that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPart {
    Key,
    Value,
}

/// A warning, which does not deny the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The rule that reports it.
    pub rule: RuleId,
    /// The field that it is about; the root if it is about the object as a whole.
    pub path: Path,
    pub part: FieldPart,
    /// The whole text, which begins with the path if that helps.
    pub text: String,
}

impl Warning {
    /// A warning about an object as a whole.
    pub fn new(rule: RuleId, text: impl Into<String>) -> Self {
        Warning { rule, path: Path::ROOT, part: FieldPart::Value, text: text.into() }
    }

    /// The same, about the value of a field.
    #[must_use]
    pub fn about(self, path: Path) -> Self {
        Warning { path, ..self }
    }

    /// The same, about a field that should not be there.
    #[must_use]
    pub fn about_key(self, path: Path) -> Self {
        Warning { path, part: FieldPart::Key, ..self }
    }

    /// The text without the path at its beginning.
    pub fn detail(&self) -> &str {
        let rest = self.text.strip_prefix(self.path.as_str()).filter(|_| self.path != Path::ROOT);
        rest.and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&self.text)
    }
}

/// Maximum number of kept errors, which bounds the size of a response.
const KEPT_ERRORS: usize = 2000;

/// Maximum bytes of errors and warnings together; the first is always kept.
const KEPT_TEXT: usize = 4 << 20;

/// Maximum number of kept warnings.
const KEPT_WARNINGS: usize = 100;

/// Collector of errors and warnings, in the order in which rules report them.
///
/// The caller names the running rule ([`Findings::run`]); a check shared by several rules names itself. One rule can be
/// silenced: its reports are dropped, as if the rule did not exist. Tests use this to show that every rule is needed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    errors: Vec<FieldError>,
    /// Number of errors, including dropped ones.
    count: usize,
    warnings: Vec<Warning>,
    /// Number of warnings, including dropped ones.
    warned: usize,
    /// Bytes of kept errors and warnings.
    text: usize,
    running: RuleId,
    silenced: Option<RuleId>,
}

impl Findings {
    /// A collector that drops the reports of the rule `silenced`.
    pub fn without(silenced: Option<RuleId>) -> Self {
        Findings { silenced, ..Findings::default() }
    }

    /// Runs `check` under the id of a rule, unless that rule is silenced.
    pub fn run<R>(&mut self, rule: RuleId, check: impl FnOnce(&mut Self) -> R) -> Option<R> {
        if self.silenced == Some(rule) {
            return None;
        }
        let outer = std::mem::replace(&mut self.running, rule);
        let result = check(self);
        self.running = outer;
        Some(result)
    }

    /// Reports an error of any kind.
    pub fn error(&mut self, kind: ErrorKind, path: Path, value: impl Into<ErrorValue>, detail: impl Into<String>) {
        self.push(kind, path, value.into(), detail);
    }

    /// Reports a missing field.
    pub fn required(&mut self, path: Path, detail: impl Into<String>) {
        self.push(ErrorKind::Required, path, ErrorValue::NOTHING, detail);
    }

    /// Reports a field with an invalid value.
    pub fn invalid(&mut self, path: Path, value: impl Into<ErrorValue>, detail: impl Into<String>) {
        self.push(ErrorKind::Invalid, path, value.into(), detail);
    }

    /// Reports a field that may not be set, or not to this value, in the current state.
    pub fn forbidden(&mut self, path: Path, detail: impl Into<String>) {
        self.push(ErrorKind::Forbidden, path, ErrorValue::NOTHING, detail);
    }

    /// Reports a field that is too long.
    pub fn too_long(&mut self, path: Path, detail: impl Into<String>) {
        self.push(ErrorKind::TooLong, path, ErrorValue::NOTHING, detail);
    }

    /// Reports a field that cannot be checked.
    pub fn internal(&mut self, path: Path, detail: impl Into<String>) {
        self.push(ErrorKind::Internal, path, ErrorValue::NOTHING, detail);
    }

    /// Reports a warning about the object as a whole.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warn_about(Path::ROOT, text);
    }

    /// Reports a warning about a field; the text begins with its path.
    pub fn warn_at(&mut self, path: &Path, detail: impl fmt::Display) {
        self.warn_about(path.clone(), format!("{path}: {detail}"));
    }

    /// Reports a warning about a field whose path is no part of the text, or in the middle of it.
    pub fn warn_about(&mut self, path: Path, text: impl Into<String>) {
        self.warned += 1;
        if self.is_worth_warnings() {
            let text = text.into();
            self.text += text.len();
            self.warnings.push(Warning::new(self.running, text).about(path));
        }
    }

    /// Whether the next error gets a long message: only the first hundred do.
    pub fn is_worth_hints(&self) -> bool {
        self.count < SHOWN_ERRORS
    }

    /// Whether the next warning is kept.
    pub fn is_worth_warnings(&self) -> bool {
        self.warnings.len() < KEPT_WARNINGS && self.text < KEPT_TEXT
    }

    /// Whether further errors are only counted.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= KEPT_ERRORS || (self.text >= KEPT_TEXT && !self.errors.is_empty())
    }

    /// Adds the errors of another collector, without duplicates.
    pub fn add_errors(&mut self, other: Findings) {
        for error in other.errors {
            if !self.errors.contains(&error) {
                let FieldError { rule, kind, path, value, detail } = error;
                self.run(rule, |found| found.error(kind, path, value, detail));
            }
        }
    }

    /// Number of errors.
    pub fn error_count(&self) -> usize {
        self.count
    }

    /// Errors and warnings, each in the order in which they were reported.
    pub fn into_parts(mut self) -> (Vec<FieldError>, Vec<Warning>) {
        if let (Some(last), more @ 1..) = (self.warnings.last(), self.warned - self.warnings.len()) {
            let rule = last.rule;
            self.warnings.push(Warning::new(rule, format!("and {more} more warnings")));
        }
        (self.errors, self.warnings)
    }

    fn push(&mut self, kind: ErrorKind, path: Path, value: ErrorValue, detail: impl Into<String>) {
        self.count += 1;
        if self.is_full() {
            return;
        }
        let detail = detail.into();
        self.text += path.as_str().len() + value.text_bytes() + detail.len();
        self.errors.push(FieldError { rule: self.running, kind, path, value, detail });
    }
}

/// Maximum number of errors in a message; the others are counted.
const SHOWN_ERRORS: usize = 100;

/// Rendered errors as one text: `e` alone, or `[e1, e2]` without duplicates (ADM-004). Many errors are cut; the causes
/// list all.
pub fn join(errors: &[FieldError]) -> String {
    let mut seen = BTreeSet::new();
    let mut rendered: Vec<String> =
        errors.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
    if rendered.len() > SHOWN_ERRORS {
        let more = rendered.len() - SHOWN_ERRORS;
        rendered.truncate(SHOWN_ERRORS);
        rendered.push(format!("and {more} more"));
    }
    match rendered.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", rendered.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(kind: ErrorKind, value: Value, detail: &str) -> FieldError {
        FieldError { rule: "T-1", kind, path: Path::new("spec.a"), value: ErrorValue(value), detail: detail.into() }
    }

    #[test]
    fn an_error_shows_its_value_only_where_kubernetes_does() {
        for (kind, value, detail, want) in [
            (ErrorKind::Invalid, json!("x"), "no", r#"spec.a: Invalid value: "x": no"#),
            (ErrorKind::TypeInvalid, json!("x\n"), "no", r#"spec.a: Invalid value: "x\n": no"#),
            (ErrorKind::Invalid, json!(3), "", "spec.a: Invalid value: 3"),
            (ErrorKind::Invalid, json!(true), "", "spec.a: Invalid value: true"),
            (ErrorKind::Invalid, json!({"b": 1}), "no", r#"spec.a: Invalid value: {"b":1}: no"#),
            (ErrorKind::Duplicate, json!("x"), "", r#"spec.a: Duplicate value: "x""#),
            (
                ErrorKind::NotSupported,
                json!("x"),
                r#"supported values: "a""#,
                r#"spec.a: Unsupported value: "x": supported values: "a""#,
            ),
            (
                ErrorKind::TooMany,
                json!(4),
                "must have at most 3 items",
                "spec.a: Too many: 4: must have at most 3 items",
            ),
            (ErrorKind::Required, json!("x"), "why", "spec.a: Required value: why"),
            (ErrorKind::Forbidden, json!("x"), "", "spec.a: Forbidden"),
            (ErrorKind::TooLong, json!("x"), "may not be longer", "spec.a: Too long: may not be longer"),
            (ErrorKind::Internal, json!("x"), "why", "spec.a: Internal error: why"),
        ] {
            assert_eq!(error(kind, value, detail).to_string(), want);
        }
    }

    #[test]
    fn reasons_are_the_words_of_status_causes() {
        let reasons: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.reason()).collect();
        assert_eq!(
            reasons,
            [
                "FieldValueRequired",
                "FieldValueInvalid",
                "FieldValueTypeInvalid",
                "FieldValueNotSupported",
                "FieldValueDuplicate",
                "FieldValueForbidden",
                "FieldValueTooLong",
                "FieldValueTooMany",
                "InternalError"
            ]
        );
    }

    #[test]
    fn joined_errors_drop_repetitions() {
        let one = error(ErrorKind::Forbidden, Value::Null, "a");
        let two = error(ErrorKind::Forbidden, Value::Null, "b");
        assert_eq!(join(std::slice::from_ref(&one)), "spec.a: Forbidden: a");
        assert_eq!(join(&[one.clone(), one.clone()]), "spec.a: Forbidden: a");
        assert_eq!(join(&[one.clone(), two, one]), "[spec.a: Forbidden: a, spec.a: Forbidden: b]");
    }

    #[test]
    fn many_errors_are_cut() {
        let errors: Vec<_> = (0..20_000).map(|i| error(ErrorKind::Forbidden, Value::Null, &i.to_string())).collect();
        assert!(join(&errors).ends_with("spec.a: Forbidden: 99, and 19900 more]"));
        let mut found = Findings::default();
        (0..20_000).for_each(|_| found.forbidden(Path::ROOT, ""));
        assert_eq!((found.error_count(), found.into_parts().0.len()), (20_000, 2000));
        let long = error(ErrorKind::Invalid, "é".repeat(600).into(), "no").to_string();
        assert!(long.ends_with("é… (1200 bytes)\": no") && long.len() < 1100, "{long}");
    }

    #[test]
    fn many_warnings_are_counted() {
        let mut found = Findings::default();
        (0..20_000).for_each(|i| found.warn(i.to_string()));
        assert!(!found.is_worth_warnings());
        let warnings = found.into_parts().1;
        assert_eq!((warnings.len(), &*warnings[100].text), (101, "and 19900 more warnings"));
    }

    #[test]
    fn long_enumerations_are_cut() {
        assert_eq!((enumerated(["a", "", "b"]), enumerated([""; 0])), ("a, , b".to_owned(), String::new()));
        let long = enumerated((0..100_000).map(|i| i.to_string()));
        assert!(long.starts_with("0, 1, 2") && long.ends_with(", …") && long.len() < 1100, "{long}");
        assert!(enumerated(["a".repeat(100_000), "b".repeat(100_000), "c".into()]).len() < 2200);
    }

    #[test]
    fn a_silenced_rule_reports_nothing_and_others_keep_their_names() {
        let mut errors = Findings::without(Some("B"));
        errors.run("A", |errors| {
            errors.run("B", |errors| errors.forbidden(Path::ROOT, "dropped"));
            errors.run("C", |errors| errors.forbidden(Path::ROOT, "kept"));
            errors.forbidden(Path::ROOT, "kept too");
        });
        let found: Vec<_> = errors.into_parts().0.into_iter().map(|error| (error.rule, error.detail)).collect();
        assert_eq!(found, [("C", "kept".to_owned()), ("A", "kept too".to_owned())]);
    }
}
