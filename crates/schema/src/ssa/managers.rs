//! Entries of `metadata.managedFields`: managers, their fields, and the time.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value, json};

use super::{FieldSet, FieldSetError};

/// The operation by which a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedOperation {
    Apply,
    Update,
}

impl ManagedOperation {
    /// The value in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            ManagedOperation::Apply => "Apply",
            ManagedOperation::Update => "Update",
        }
    }
}

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFields {
    pub manager: String,
    pub operation: ManagedOperation,
    /// The object version of the field names, such as `apps/v1`.
    pub api_version: String,
    /// RFC 3339 in UTC with seconds; such texts sort by time.
    pub time: Option<String>,
    /// Empty for the object itself.
    pub subresource: String,
    pub fields: FieldSet,
}

/// Error of reading `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("managed fields entry {position}: {what}")]
pub struct InvalidManagedFields {
    position: usize,
    #[source]
    what: ManagedFieldsFault,
}

/// The fault of an entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ManagedFieldsFault {
    #[error("{0} is no string")]
    NoText(&'static str),
    #[error("unknown operation {0:?}")]
    Operation(String),
    #[error("unknown type of fields {0:?}")]
    FieldsType(String),
    #[error(transparent)]
    Fields(#[from] FieldSetError),
}

impl ManagedFields {
    /// The entries of an object; of several entries of one manager the last counts.
    ///
    /// # Errors
    /// When one of them is not what a server accepts.
    pub fn all_of(object: &Value) -> Result<Vec<Self>, InvalidManagedFields> {
        Self::all_in(object.pointer("/metadata/managedFields"))
    }

    /// The same, from the value of `managedFields`.
    ///
    /// # Errors
    /// When one of them is not what a server accepts.
    pub fn all_in(record: Option<&Value>) -> Result<Vec<Self>, InvalidManagedFields> {
        let mut all: Vec<Self> = Vec::new();
        let entries = record.and_then(Value::as_array);
        for (position, entry) in entries.into_iter().flatten().enumerate() {
            let entry = Self::parse(entry).map_err(|what| InvalidManagedFields { position, what })?;
            all.retain(|other| !other.is_of_same_manager(&entry));
            all.push(entry);
        }
        Ok(all)
    }

    fn parse(entry: &Value) -> Result<Self, ManagedFieldsFault> {
        let text = |name: &'static str| match entry.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(ManagedFieldsFault::NoText(name)),
        };
        let operation = match text("operation")?.as_str() {
            "Apply" => ManagedOperation::Apply,
            "Update" => ManagedOperation::Update,
            other => return Err(ManagedFieldsFault::Operation(other.to_owned())),
        };
        match text("fieldsType")?.as_str() {
            "FieldsV1" => {}
            other => return Err(ManagedFieldsFault::FieldsType(other.to_owned())),
        }
        Ok(ManagedFields {
            manager: text("manager")?,
            operation,
            api_version: text("apiVersion")?,
            time: Some(text("time")?).filter(|time| !time.is_empty()),
            subresource: text("subresource")?,
            fields: FieldSet::parse(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
        })
    }

    /// The entry as JSON.
    pub fn to_value(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": self.operation.as_str(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }

    /// Whether this is the apply entry of `manager` for the object itself.
    pub fn is_of_applier(&self, manager: &str) -> bool {
        self.manager == manager && self.operation == ManagedOperation::Apply && self.subresource.is_empty()
    }

    /// Whether two entries belong to the same manager; update entries are separate per version.
    pub(super) fn is_of_same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == ManagedOperation::Apply || self.api_version == other.api_version)
    }

    /// The order of entries in an object.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| (entry.operation, entry.time.clone(), entry.manager.clone());
        let rest = |entry: &Self| (entry.api_version.clone(), entry.subresource.clone());
        key(self).cmp(&key(other)).then_with(|| rest(self).cmp(&rest(other)))
    }

    /// The order of managers in messages; the object itself comes after its subresources.
    pub(super) fn order_of_names(&self, other: &Self) -> Ordering {
        let key = |entry: &Self| (entry.manager.clone(), entry.operation, entry.api_version.clone());
        let rest = |entry: &Self| (entry.subresource.is_empty(), entry.subresource.clone());
        key(self).cmp(&key(other)).then_with(|| rest(self).cmp(&rest(other)))
    }
}

/// The manager in messages of a server: `"kubectl-edit" using apps/v1`.
impl fmt::Display for ManagedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            ManagedOperation::Apply => Ok(()),
            ManagedOperation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// The initial entries of an update: those of the new object, or of the live one if the new one has none or invalid
/// ones, or if a subresource is written; a new object with an empty list, or one empty entry, resets them.
pub fn managers_of_update(live: &Value, new: &Value, subresource: &str) -> Vec<ManagedFields> {
    let of_live = || ManagedFields::all_of(live).unwrap_or_default();
    if !subresource.is_empty() {
        return of_live();
    }
    match new.pointer("/metadata/managedFields").and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => return Vec::new(),
        Some([Value::Object(only)]) if only.is_empty() => return Vec::new(),
        _ => {}
    }
    match ManagedFields::all_of(new) {
        Ok(entries) if !entries.is_empty() => entries,
        _ => of_live(),
    }
}

/// The object with these entries instead of its existing ones.
#[must_use]
pub fn with_managers(mut object: Value, managers: &[ManagedFields]) -> Value {
    if let Value::Object(object) = &mut object {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            let entries: Vec<Value> = managers.iter().map(ManagedFields::to_value).collect();
            match entries.is_empty() {
                true => metadata.remove("managedFields"),
                false => metadata.insert("managedFields".to_owned(), Value::Array(entries)),
            };
        }
    }
    object
}

/// Whether two lists of entries differ at most in their times; a write that changes nothing else keeps the old entries.
pub fn same_but_for_times(old: &[ManagedFields], new: &[ManagedFields]) -> bool {
    let timeless = |entry: &ManagedFields| ManagedFields { time: None, ..entry.clone() };
    let sorted = |entries: &[ManagedFields]| {
        let mut entries: Vec<_> = entries.iter().map(timeless).collect();
        entries.sort_by(ManagedFields::order);
        entries
    };
    old.len() == new.len() && sorted(old) == sorted(new)
}
