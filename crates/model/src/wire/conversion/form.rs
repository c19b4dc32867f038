//! Conversion of single values.

use serde_json::{Value, json};

use super::table::ValueForm;
use super::{ConversionError, JsonMembers, KindVersions, UnknownKindVersion};
use golang::calendar;

type Rewritten = Result<Option<Value>, ConversionError>;

/// Members of v1beta1 references that v1beta2 lacks.
const PLACE_OF_A_REFERENCE: [&str; 4] = ["namespace", "uid", "resourceVersion", "fieldPath"];

/// Converts a v1beta1 value to v1beta2; `path` is its path.
pub(super) fn up(form: ValueForm, value: Option<Value>, path: &dyn Fn() -> String) -> Rewritten {
    let Some(value) = value else { return Ok((form == ValueForm::Explicit).then_some(Value::Bool(false))) };
    match form {
        ValueForm::Same | ValueForm::Explicit => Ok(Some(value)),
        ValueForm::Text | ValueForm::NonZero | ValueForm::Object => Ok(unless_empty(value)),
        ValueForm::Seconds => seconds(value, path).map(Some),
        ValueForm::Conditions => conditions_up(value, path).map(Some),
        ValueForm::Template { .. } => reference_up(value, path, |_| Ok(())),
        ValueForm::Contract => reference_up(value, path, |reference| api_group(reference, path)),
        ValueForm::Domains => Ok(Some(domains_up(value))),
    }
}

/// Context of a conversion from v1beta2 to v1beta1.
pub(super) struct DowngradeContext<'a> {
    /// The namespace of the object, which all references get.
    pub(super) namespace: Option<&'a str>,
    pub(super) versions: &'a KindVersions,
}

impl DowngradeContext<'_> {
    /// Converts a v1beta2 value to v1beta1; `path` is its path.
    pub(super) fn value(&self, form: ValueForm, value: Option<Value>, path: &dyn Fn() -> String) -> Rewritten {
        let Some(value) = value else {
            return Ok(match form {
                ValueForm::Explicit => Some(json!(false)),
                ValueForm::Template { always: true } => Some(self.placed(JsonMembers::new())),
                _ => None,
            });
        };
        match form {
            ValueForm::Same | ValueForm::Explicit => Ok(Some(value)),
            ValueForm::Text | ValueForm::NonZero | ValueForm::Object => Ok(unless_empty(value)),
            ValueForm::Seconds => duration_of(&value, path).map(Some),
            ValueForm::Conditions => conditions_down(value, path).map(Some),
            ValueForm::Template { always } => Ok(self.template(value, always)),
            ValueForm::Contract => self.contract(value, path),
            ValueForm::Domains => Ok(Some(domains_down(value))),
        }
    }

    /// Converts a template reference (CONV-006).
    fn template(&self, value: Value, always: bool) -> Option<Value> {
        match value {
            Value::Object(reference) if always || is_defined(&reference, "apiVersion") => Some(self.placed(reference)),
            Value::Object(_) => None,
            wrong => Some(wrong),
        }
    }

    /// Converts a reference by contract (CONV-005, CT-4.4).
    fn contract(&self, value: Value, path: &dyn Fn() -> String) -> Rewritten {
        let Value::Object(mut reference) = value else { return Ok(Some(value)) };
        if !is_defined(&reference, "apiGroup") {
            return Ok(None);
        }
        let group = reference.remove("apiGroup").unwrap_or_default();
        match group.as_str() {
            Some("") => drop(reference.insert("apiVersion".to_owned(), json!(""))),
            Some(group) => {
                let version = self.version(group, text(&reference, "kind"), path)?;
                reference.insert("apiVersion".to_owned(), json!(format!("{group}/{version}")));
            }
            None => {}
        }
        Ok(Some(self.placed(reference)))
    }

    fn version(&self, group: &str, kind: &str, path: &dyn Fn() -> String) -> Result<&str, ConversionError> {
        let unknown = |source: UnknownKindVersion| ConversionError::UnknownVersion {
            path: path(),
            kind: format!("{kind}.{group}"),
            source,
        };
        match self.versions.get(&(group.to_owned(), kind.to_owned())) {
            Some(Ok(version)) => Ok(version),
            Some(Err(reason)) => Err(unknown(reason.clone())),
            None => Err(unknown(UnknownKindVersion::NotLookedUp)),
        }
    }

    fn placed(&self, mut reference: JsonMembers) -> Value {
        if let Some(namespace) = self.namespace {
            reference.insert("namespace".to_owned(), json!(namespace));
        }
        Value::Object(reference)
    }
}

fn unless_empty(value: Value) -> Option<Value> {
    let is_empty = match &value {
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    };
    (!is_empty).then_some(value)
}

fn seconds(value: Value, path: &dyn Fn() -> String) -> Result<Value, ConversionError> {
    let text = match value {
        Value::String(text) => text,
        wrong => return Err(ConversionError::Duration { path: path(), text: wrong.to_string() }),
    };
    match calendar::whole_seconds(&text) {
        Some(seconds) => Ok(seconds.into()),
        None => Err(ConversionError::Duration { path: path(), text }),
    }
}

fn duration_of(value: &Value, path: &dyn Fn() -> String) -> Result<Value, ConversionError> {
    let seconds = value.as_i64().and_then(|seconds| i32::try_from(seconds).ok());
    match seconds {
        Some(seconds) => Ok(calendar::format_seconds(seconds.into()).into()),
        None => Err(ConversionError::Seconds { path: path(), text: value.to_string() }),
    }
}

/// Converts conditions; a timeout is never absent (CONV-004).
fn conditions_up(value: Value, path: &dyn Fn() -> String) -> Result<Value, ConversionError> {
    each_condition(value, "timeout", "timeoutSeconds", |i, timeout| match timeout {
        Some(timeout) => seconds(timeout, &|| format!("{}[{i}].timeout", path())),
        None => Ok(json!(0)),
    })
}

fn conditions_down(value: Value, path: &dyn Fn() -> String) -> Result<Value, ConversionError> {
    each_condition(value, "timeoutSeconds", "timeout", |i, timeout| {
        duration_of(&timeout.unwrap_or(json!(0)), &|| format!("{}[{i}].timeoutSeconds", path()))
    })
}

fn each_condition(
    mut list: Value,
    from: &str,
    to: &str,
    rewrite: impl Fn(usize, Option<Value>) -> Result<Value, ConversionError>,
) -> Result<Value, ConversionError> {
    for (i, condition) in list.as_array_mut().into_iter().flatten().enumerate() {
        let Some(condition) = condition.as_object_mut() else { continue };
        let timeout = rewrite(i, condition.remove(from).filter(|timeout| !timeout.is_null()))?;
        condition.insert(to.to_owned(), timeout);
    }
    Ok(list)
}

/// A reference without its namespace, if anything that defines it remains (CONV-005, CONV-006).
fn reference_up(
    value: Value,
    path: &dyn Fn() -> String,
    rewrite: impl Fn(&mut JsonMembers) -> Result<(), ConversionError>,
) -> Rewritten {
    let Value::Object(mut reference) = value else { return Ok(Some(value)) };
    for name in PLACE_OF_A_REFERENCE {
        match reference.remove(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(_) => return Err(ConversionError::NoText { path: format!("{}.{name}", path()) }),
        }
    }
    let is_defined = is_defined(&reference, "apiVersion");
    rewrite(&mut reference)?;
    Ok(is_defined.then_some(Value::Object(reference)))
}

/// Replaces an `apiVersion` by its group.
fn api_group(reference: &mut JsonMembers, path: &dyn Fn() -> String) -> Result<(), ConversionError> {
    // Unknown to v1beta1.
    reference.remove("apiGroup");
    let group = match reference.remove("apiVersion") {
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            return Err(ConversionError::ApiVersion { path: path(), text });
        }
        Some(Value::String(text)) => text.split_once('/').map_or("", |(group, _)| group).into(),
        Some(Value::Null) | None => return Ok(()),
        Some(wrong) => wrong,
    };
    reference.insert("apiGroup".to_owned(), group);
    Ok(())
}

fn is_defined(reference: &JsonMembers, group: &str) -> bool {
    let is_something = |value: &Value| !value.is_null() && value.as_str() != Some("");
    [group, "kind", "name"].iter().any(|name| reference.get(*name).is_some_and(is_something))
}

fn text<'a>(members: &'a JsonMembers, name: &str) -> &'a str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A list sorted by name; `controlPlane` is always written (CONV-003, CONV-016).
fn domains_up(value: Value) -> Value {
    let Value::Object(domains) = value else { return value };
    // The map is sorted by name.
    let list = domains.into_iter().map(|(name, domain)| {
        let mut domain = match domain {
            Value::Object(domain) => domain,
            Value::Null => JsonMembers::new(),
            wrong => return wrong,
        };
        domain.insert("name".to_owned(), name.into());
        let flag = domain.entry("controlPlane").or_insert(Value::Null);
        if flag.is_null() {
            *flag = json!(false);
        }
        Value::Object(domain)
    });
    list.collect()
}

fn domains_down(value: Value) -> Value {
    let Value::Array(domains) = value else { return value };
    let mut map = JsonMembers::new();
    for domain in domains {
        let Value::Object(mut domain) = domain else { continue };
        if let Some(Value::String(name)) = domain.remove("name") {
            map.insert(name, Value::Object(domain));
        }
    }
    Value::Object(map)
}
