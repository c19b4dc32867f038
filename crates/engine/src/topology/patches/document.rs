//! The document of an item that patches change, with marks for the patch that set each field. Patches are JSON patches
//! ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)) and JSON merge patches ([RFC
//! 7386](https://www.rfc-editor.org/rfc/rfc7386)).

use std::collections::BTreeSet;
use std::fmt;

use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use serde_json::{Map, Value};

use super::pointer::{self, Pointer, PointerError, PointerTarget, SetOperation};
use crate::topology::origin::PatchOrigin;
use golang::json::{self, Weight};
use model::hub::{paths, type_of};
use schema::field::{Path, shortened};

/// The fields that patches can change, as dotted paths and as pointers (PE-21).
const PLACES: [(&str, &str); 3] = [
    ("spec", "/spec"),
    (paths::metadata::LABELS, "/metadata/labels"),
    (paths::metadata::ANNOTATIONS, "/metadata/annotations"),
];

/// Maximum bytes of extension patches for one Cluster, decoded and with the values that they copy: `copy` operations
/// can double a document (DEC-44).
const MAX_PATCHED: usize = 32 << 20;
/// Maximum number of their operations: each insertion into a list moves the following elements.
const MAX_OPERATIONS: usize = 20_000;
/// Maximum bytes of documents and marks that are copied to undo changes of other fields.
const MAX_SCRATCH: usize = 64 << 20;
/// Maximum number of changes without effect that are kept for a document.
const MAX_INEFFECTIVE: usize = 20;
/// Approximate bytes of a mark.
const MARK: usize = 256;
/// The weight of a mark. There are fewer copies of it than of an object.
const KEPT_MARK: usize = MARK / 2;

/// The remaining budget for extension patches in one computation of a Cluster. Inline patches are bounded by the size
/// of their class.
#[derive(Debug)]
pub(super) struct PatchAllowance {
    bytes: usize,
    operations: usize,
    scratch: usize,
}

impl Default for PatchAllowance {
    fn default() -> Self {
        PatchAllowance { bytes: MAX_PATCHED, operations: MAX_OPERATIONS, scratch: MAX_SCRATCH }
    }
}

impl PatchAllowance {
    fn take_bytes(&mut self, bytes: usize) -> Result<(), AllowanceError> {
        take(&mut self.bytes, bytes, AllowanceError::Bytes)
    }

    fn take_operations(&mut self, operations: usize) -> Result<(), AllowanceError> {
        take(&mut self.operations, operations, AllowanceError::Operations)
    }

    fn take_scratch(&mut self, document: &Document) -> Result<(), AllowanceError> {
        let bytes = json::in_memory(&document.value) + document.marks.len() * MARK;
        take(&mut self.scratch, bytes, AllowanceError::Scratch)
    }
}

/// The part of the allowance that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AllowanceError {
    #[error("patches of extensions take more than {} MiB", MAX_PATCHED >> 20)]
    Bytes,
    #[error("patches of extensions have more than {} operations", MAX_OPERATIONS)]
    Operations,
    #[error("too many patches of extensions change something outside of spec")]
    Scratch,
}

/// An error of a patch, or a mismatch with the document.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error(transparent)]
    Allowance(#[from] AllowanceError),
    #[error(transparent)]
    Pointer(#[from] PointerError),
    #[error("{operation} {path}: {fault}")]
    Mismatch { operation: &'static str, path: String, fault: String },
    #[error("{operation} from {from}: {source}")]
    Source { operation: &'static str, from: String, source: Box<DocumentError> },
    #[error("{0}")]
    MissingPath(String),
    #[error("{0} is inside of it")]
    MoveIntoItself(String),
    #[error("patchType is {0:?}, and must be \"JSONPatch\" or \"JSONMergePatch\"")]
    UnknownPatchType(String),
    #[error("is not UTF-8: {0}")]
    NoText(#[from] std::str::Utf8Error),
    #[error("is not JSON: {0}")]
    NoJson(#[from] serde_json::Error),
    #[error("a JSONPatch must be a list of operations, but this is {0}")]
    NoList(&'static str),
    #[error("a JSONMergePatch must be an object, but this is {0}")]
    NoMergePatch(&'static str),
    #[error("is no object")]
    NoObject,
    #[error("{name} must be a string, but is {found}")]
    NoString { name: &'static str, found: &'static str },
    #[error("{0} is missing")]
    MissingMember(&'static str),
    #[error("{0:?} is not a JSON patch operation")]
    UnknownOperation(String),
}

/// An error of an extension's patch, with the position of the operation, if it is in one.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(super) struct ExtensionPatchError {
    pub operation: Option<usize>,
    #[source]
    pub error: DocumentError,
}

impl From<DocumentError> for ExtensionPatchError {
    fn from(error: DocumentError) -> Self {
        ExtensionPatchError { operation: None, error }
    }
}

impl From<AllowanceError> for ExtensionPatchError {
    fn from(error: AllowanceError) -> Self {
        DocumentError::from(error).into()
    }
}

fn take(left: &mut usize, wanted: usize, error: AllowanceError) -> Result<(), AllowanceError> {
    *left = left.checked_sub(wanted).ok_or(error)?;
    Ok(())
}

/// A copy of a template of the class, with the changes by patches.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub value: Value,
    /// The changes and their patches, the latest last, as paths of the document.
    pub marks: Vec<PatchMark>,
    /// The first changes of fields that patches cannot change, without effect (PE-21).
    pub ineffective: Vec<PatchMark>,
    /// Whether any operation was applied.
    pub is_changed: bool,
    /// The weight of added values minus the weight of removed values.
    grown: Weight,
    /// The part of `grown` that has been counted.
    counted: Weight,
}

/// A path of a document with the patch that changed the values at and below it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PatchMark {
    pub path: String,
    pub origin: PatchOrigin,
}

impl Document {
    pub(super) fn new(value: Value) -> Self {
        Document {
            value,
            marks: Vec::new(),
            ineffective: Vec::new(),
            is_changed: false,
            grown: Weight::default(),
            counted: Weight::default(),
        }
    }

    /// Applies operations that only change fields below `/spec`.
    ///
    /// # Errors
    /// The position of the failed operation and the reason. Earlier operations stay applied, because the run ends.
    pub(super) fn apply<'o>(
        &mut self,
        operations: impl IntoIterator<Item = (&'o Pointer, &'o PatchOperation, &'o PatchOrigin)>,
    ) -> Result<(), (usize, DocumentError)> {
        for (at, (pointer, operation, origin)) in operations.into_iter().enumerate() {
            self.apply_one(pointer, operation, origin).map_err(|problem| (at, problem))?;
        }
        Ok(())
    }

    /// Runs `act` on a copy, and copies the fields back that patches can change (PE-21).
    pub(super) fn within_places<E>(&mut self, act: impl FnOnce(&mut Document) -> Result<(), E>) -> Result<(), E> {
        // They are no part of the copy, whose size is bounded.
        let ineffective = std::mem::take(&mut self.ineffective);
        let mut scratch = self.clone();
        let done = act(&mut scratch);
        self.ineffective = ineffective;
        done?;
        for path in changes_outside_places(&self.value, &scratch.value) {
            if self.ineffective.len() < MAX_INEFFECTIVE
                && let Some(origin) = scratch.last_origin(&path)
            {
                let origin = origin.clone();
                self.ineffective.push(PatchMark { path, origin });
            }
        }
        let mut marks = Vec::new();
        for (path, place) in PLACES {
            let value = scratch.value.pointer_mut(place).map(Value::take).filter(|value| !value.is_null());
            // The marks of the copy are up to date with the moved value.
            let marked = if value.is_some() { &scratch.marks } else { &self.marks };
            marks.extend(marked.iter().filter_map(|change| change.at_place(path)));
            if let Some(value) = value {
                put(&mut self.value, path, value);
            }
        }
        self.marks = marks;
        self.is_changed = scratch.is_changed;
        self.grown = scratch.grown;
        Ok(())
    }

    /// The growth of the document since the last call.
    pub(super) fn growth(&mut self) -> Weight {
        let growth = self.grown.beyond(self.counted);
        self.counted += growth;
        growth
    }

    /// Applies a patch of an extension; `origin` also gets the position of the operation.
    ///
    /// # Errors
    /// The position of the failed operation, if any, and the reason: an invalid patch, its size, or a mismatch with the
    /// document.
    pub(super) fn apply_sent(
        &mut self,
        patch_type: &str,
        patch: &[u8],
        origin: &PatchOrigin,
        allowance: &mut PatchAllowance,
    ) -> Result<(), ExtensionPatchError> {
        let sent = ExtensionPatch::decode(patch_type, patch, allowance)?;
        // Fields below spec stay there.
        if sent.is_below("spec") && self.value.get("spec").is_some_and(Value::is_object) {
            return sent.apply(self, origin, allowance);
        }
        allowance.take_scratch(self)?;
        self.within_places(|scratch| sent.apply(scratch, origin, allowance))
    }

    /// The origin of the last change above, at or below a path, or of the last change at all.
    pub(super) fn last_origin(&self, path: &str) -> Option<&PatchOrigin> {
        let change = self.marks.iter().rfind(|change| change.touches(path)).or(self.marks.last());
        change.map(|change| &change.origin)
    }

    fn apply_one(
        &mut self,
        pointer: &Pointer,
        operation: &PatchOperation,
        origin: &PatchOrigin,
    ) -> Result<(), DocumentError> {
        let location = pointer.locate(&self.value);
        let (added, removed) = self.change_of_weight(pointer, operation);
        let is_new = matches!(operation, PatchOperation::Add(_) | PatchOperation::Copy(_));
        json_patch::patch_unsafe(&mut self.value, std::slice::from_ref(operation)).map_err(|error| {
            let fault = pointer.fault(&self.value, is_new).unwrap_or_else(|| error.kind.to_string());
            DocumentError::Mismatch { operation: name_of(operation), path: pointer.buffer().to_string(), fault }
        })?;
        self.grown = (self.grown + added).beyond(removed);
        self.note(operation, location, origin);
        Ok(())
    }

    /// The weights of the values that an operation adds and removes.
    fn change_of_weight(&self, pointer: &Pointer, operation: &PatchOperation) -> (Weight, Weight) {
        let current = || self.value.pointer(pointer.buffer().as_str()).map(Weight::from_value).unwrap_or_default();
        match operation {
            // A replaced value, if any, is not looked up.
            PatchOperation::Add(AddOperation { value, .. }) => (Weight::from_value(value), Weight::default()),
            PatchOperation::Replace(ReplaceOperation { value, .. }) => (Weight::from_value(value), current()),
            PatchOperation::Remove(_) => (Weight::default(), current()),
            PatchOperation::Move(_) | PatchOperation::Copy(_) | PatchOperation::Test(_) => {
                (Weight::default(), Weight::default())
            }
        }
    }

    /// Records the change of an operation.
    fn note(
        &mut self,
        operation: &PatchOperation,
        PointerTarget { path, element }: PointerTarget,
        origin: &PatchOrigin,
    ) {
        match (operation, element) {
            (PatchOperation::Test(_), _) => return,
            // A removed element has no path.
            (PatchOperation::Remove(_), Some((list, removed))) => {
                self.shift(&list, removed, |position| (position > removed).then(|| position - 1));
            }
            (PatchOperation::Add(_) | PatchOperation::Copy(_), Some((list, added))) => {
                self.shift(&list, added, |position| Some(position + 1));
                self.mark(path, origin);
            }
            _ => self.mark(path, origin),
        }
        self.is_changed = true;
    }

    fn mark(&mut self, path: String, origin: &PatchOrigin) {
        self.grown += Weight { text: 0, memory: KEPT_MARK };
        self.marks.push(PatchMark { path, origin: origin.clone() });
    }

    /// Updates the marks of moved list elements, and removes those of removed elements.
    fn shift(&mut self, list: &str, from: usize, new: impl Fn(usize) -> Option<usize>) {
        self.marks.retain_mut(|change| {
            let Some(rest) = change.path.strip_prefix(list).and_then(|rest| rest.strip_prefix('[')) else {
                return true;
            };
            let Some((position, below)) = rest.split_once(']') else { return true };
            match position.parse::<usize>() {
                Ok(position) if position >= from => match new(position) {
                    Some(position) => {
                        change.path = format!("{list}[{position}]{below}");
                        true
                    }
                    None => false,
                },
                _ => true,
            }
        });
    }
}

/// A patch of an extension that does not fit a template; the message is shortened.
#[derive(Debug)]
pub struct NotPatched(ExtensionPatchError);

impl fmt::Display for NotPatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExtensionPatchError { operation, error } = &self.0;
        if let Some(at) = operation {
            write!(f, "operation {at}: ")?;
        }
        f.write_str(&shortened(&error.to_string()))
    }
}

impl std::error::Error for NotPatched {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.error)
    }
}

/// A template after a patch of an extension (PE-20, PE-21).
///
/// # Errors
/// An invalid patch, or a mismatch with the template.
pub fn patched(template: &Value, patch_type: &str, patch: &[u8]) -> Result<Value, NotPatched> {
    let mut document = Document::new(template.clone());
    let allowance = &mut PatchAllowance::default();
    match document.apply_sent(patch_type, patch, &PatchOrigin::default(), allowance) {
        Ok(()) => Ok(document.value),
        Err(error) => Err(NotPatched(error)),
    }
}

impl PatchMark {
    /// Whether the change is above, at or below a path.
    pub(super) fn touches(&self, path: &str) -> bool {
        is_below(&self.path, path) || is_below(path, &self.path)
    }

    /// The part of the change that is at or below a field.
    pub(super) fn at_place(&self, place: &str) -> Option<PatchMark> {
        match () {
            () if is_below(&self.path, place) => Some(self.clone()),
            () if is_below(place, &self.path) => {
                Some(PatchMark { path: place.to_owned(), origin: self.origin.clone() })
            }
            () => None,
        }
    }
}

/// Whether a path equals `above` or is below it.
pub(super) fn is_below(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The differences of two documents outside of the fields that patches can change, and those of these fields that
/// have gone (PE-28), as dotted paths.
fn changes_outside_places(before: &Value, after: &Value) -> Vec<String> {
    let mut paths = differing_members("", Some(before), Some(after), &["spec", "metadata"]);
    let metadata = (before.get("metadata"), after.get("metadata"));
    paths.extend(differing_members("metadata", metadata.0, metadata.1, &["labels", "annotations"]));
    let is_there = |document: &Value, place: &str| document.pointer(place).is_some_and(|value| !value.is_null());
    let gone = PLACES.iter().filter(|(_, place)| is_there(before, place) && !is_there(after, place));
    paths.extend(gone.map(|(path, _)| (*path).to_owned()));
    paths
}

/// The members in which two objects differ, besides some names, as paths below `path`.
pub(super) fn differing_members(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    besides: &[&str],
) -> Vec<String> {
    let [before, after] = [before, after].map(|value| value.and_then(Value::as_object));
    let names: BTreeSet<&String> = [before, after].into_iter().flatten().flat_map(Map::keys).collect();
    let differs = |name: &&String| {
        let [before, after] = [before, after].map(|members| members.and_then(|members| members.get(*name)));
        !besides.contains(&name.as_str()) && before != after
    };
    let path_of = |name: &String| if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
    names.into_iter().filter(differs).map(path_of).collect()
}

/// Sets a value at a dotted path of a document, if its parents exist.
fn put(document: &mut Value, path: &str, value: Value) {
    let mut here = document;
    for name in path.split('.') {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        let Value::Object(members) = here else { return };
        here = members.entry(name).or_insert(Value::Null);
    }
    *here = value;
}

fn name_of(operation: &PatchOperation) -> &'static str {
    match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    }
}

/// A decoded patch of an extension (PE-20).
#[derive(Debug)]
enum ExtensionPatch {
    Operations(Vec<(Pointer, PatchOperation, Option<Pointer>)>),
    Merge(Value),
}

impl ExtensionPatch {
    /// Decodes a patch.
    ///
    /// # Errors
    /// The position of the invalid operation, if any, and the reason.
    fn decode(
        patch_type: &str,
        patch: &[u8],
        allowance: &mut PatchAllowance,
    ) -> Result<ExtensionPatch, ExtensionPatchError> {
        match patch_type {
            "JSONPatch" => operations(patch, allowance),
            "JSONMergePatch" => Ok(merge_patch(patch, allowance)?),
            other => Err(DocumentError::UnknownPatchType(other.to_owned()).into()),
        }
    }

    /// Whether the patch only reads and changes values below a member of the document.
    fn is_below(&self, member: &str) -> bool {
        match self {
            ExtensionPatch::Merge(Value::Object(members)) => {
                members.iter().all(|(name, value)| name == member && value.is_object())
            }
            ExtensionPatch::Merge(_) => false,
            ExtensionPatch::Operations(operations) => operations.iter().all(|(pointer, _, from)| {
                pointer.is_below(member) && from.as_ref().is_none_or(|from| from.is_below(member))
            }),
        }
    }

    fn apply(
        self,
        document: &mut Document,
        origin: &PatchOrigin,
        allowance: &mut PatchAllowance,
    ) -> Result<(), ExtensionPatchError> {
        match self {
            ExtensionPatch::Merge(patch) => {
                let mut paths = Vec::new();
                leaves(&patch, &Path::ROOT, &mut paths);
                document.grown += Weight::from_value(&patch);
                json_patch::merge(&mut document.value, &patch);
                document.is_changed |= !paths.is_empty();
                paths.into_iter().for_each(|path| document.mark(path, origin));
            }
            ExtensionPatch::Operations(operations) => {
                for (at, (pointer, operation, from)) in operations.into_iter().enumerate() {
                    let origin = PatchOrigin { operation: at, ..origin.clone() };
                    let done = match from {
                        Some(from) => carry(document, &from, &pointer, &operation, &origin, allowance),
                        None => document.apply_one(&pointer, &operation, &origin),
                    };
                    done.map_err(|error| ExtensionPatchError { operation: Some(at), error })?;
                }
            }
        }
        Ok(())
    }
}

/// Moves or copies a value, which must exist and not exceed the allowance.
fn carry(
    document: &mut Document,
    from: &Pointer,
    to: &Pointer,
    operation: &PatchOperation,
    origin: &PatchOrigin,
    allowance: &mut PatchAllowance,
) -> Result<(), DocumentError> {
    let explain = |source| DocumentError::Source {
        operation: name_of(operation),
        from: from.buffer().to_string(),
        source: Box::new(source),
    };
    let Some(value) = document.value.pointer(from.buffer().as_str()) else {
        let fault = from.fault(&document.value, false);
        let fault = fault.unwrap_or_else(|| "the path does not exist".to_owned());
        return Err(explain(DocumentError::MissingPath(fault)));
    };
    allowance.take_bytes(json::in_memory(value)).map_err(|error| explain(error.into()))?;
    let add = to.make(SetOperation::Add, value.clone()).map_err(|error| explain(error.into()))?;
    if matches!(operation, PatchOperation::Move(_)) {
        if to.buffer().starts_with(from.buffer()) && to.depth() > from.depth() {
            return Err(explain(DocumentError::MoveIntoItself(to.buffer().to_string())));
        }
        document.apply_one(from, &from.remove(), origin)?;
    }
    document.apply_one(to, &add, origin)
}

fn operations(patch: &[u8], allowance: &mut PatchAllowance) -> Result<ExtensionPatch, ExtensionPatchError> {
    let operations = match read(patch, allowance)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(DocumentError::NoList(type_of(&other)).into()),
    };
    allowance.take_operations(operations.len())?;
    let decode = |(at, operation)| {
        decode_operation(operation).map_err(|error| ExtensionPatchError { operation: Some(at), error })
    };
    Ok(ExtensionPatch::Operations(operations.into_iter().enumerate().map(decode).collect::<Result<_, _>>()?))
}

fn decode_operation(operation: Value) -> Result<(Pointer, PatchOperation, Option<Pointer>), DocumentError> {
    use json_patch::{CopyOperation, MoveOperation, TestOperation};
    let Value::Object(mut members) = operation else { return Err(DocumentError::NoObject) };
    let text = |name: &'static str| match members.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(DocumentError::NoString { name, found: type_of(other) }),
        None => Err(DocumentError::MissingMember(name)),
    };
    let (name, pointer) = (text("op")?, Pointer::parse(&text("path")?)?);
    let path = pointer.buffer().clone();
    let from = match &*name {
        "move" | "copy" => Some(Pointer::parse(&text("from")?)?),
        _ => None,
    };
    let mut value = || members.remove("value").ok_or(DocumentError::MissingMember("value"));
    let operation = match (&*name, &from) {
        ("add", _) => PatchOperation::Add(AddOperation { path, value: value()? }),
        ("replace", _) => PatchOperation::Replace(ReplaceOperation { path, value: value()? }),
        ("test", _) => PatchOperation::Test(TestOperation { path, value: value()? }),
        ("remove", _) => pointer.remove(),
        ("move", Some(from)) => PatchOperation::Move(MoveOperation { from: from.buffer().clone(), path }),
        ("copy", Some(from)) => PatchOperation::Copy(CopyOperation { from: from.buffer().clone(), path }),
        _ => return Err(DocumentError::UnknownOperation(name)),
    };
    if let PatchOperation::Add(AddOperation { value, .. }) | PatchOperation::Replace(ReplaceOperation { value, .. }) =
        &operation
    {
        pointer::fits(&pointer, value)?;
    }
    Ok((pointer, operation, from))
}

fn merge_patch(patch: &[u8], allowance: &mut PatchAllowance) -> Result<ExtensionPatch, DocumentError> {
    if patch.is_empty() {
        return Ok(ExtensionPatch::Merge(Value::Object(Map::new())));
    }
    match read(patch, allowance)? {
        merge @ Value::Object(_) => Ok(ExtensionPatch::Merge(merge)),
        other => Err(DocumentError::NoMergePatch(type_of(&other))),
    }
}

fn read(patch: &[u8], allowance: &mut PatchAllowance) -> Result<Value, DocumentError> {
    let text = std::str::from_utf8(patch)?;
    allowance.take_bytes(json::JsonSize::decoded_bytes(text))?;
    Ok(json::value(text)?)
}

/// The paths of a merge patch that set or remove values.
fn leaves(merge: &Value, above: &Path, found: &mut Vec<String>) {
    match merge {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, value)| leaves(value, &above.member(name), found));
        }
        // An empty object only replaces a value that is not an object.
        Value::Object(_) if *above == Path::ROOT => {}
        _ => found.push(above.as_str().to_owned()),
    }
}
