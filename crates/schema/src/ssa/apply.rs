//! Apply and update, in the steps of an API server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::last_applied::{is_kubectl, refresh, remaining};
use super::merge::merged;
use super::remove::removed;
use super::validate::{Repetitions, validate};
use super::{ElementPath, FieldComparison, FieldSet, ManagedFields, ManagedOperation, MergeSchema, field_set};

/// An object in another version with the type of that version; `None` if the version does not exist (any more).
pub type ConvertedObject = Option<(Value, MergeSchema)>;

/// Converts an object to an `apiVersion`.
pub type Convert<'a> = dyn Fn(&Value, &str) -> Result<ConvertedObject, NotConverted> + 'a;

/// A failed conversion to the version of an entry, with the reason of the converter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotConverted(pub String);

/// The writer, the version and the time of a write.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// The version of the given objects, such as `apps/v1`.
    pub api_version: &'a str,
    /// The written subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the request: RFC 3339, UTC, seconds.
    pub now: &'a str,
    pub schema: &'a MergeSchema,
    /// Fields that this endpoint does not write, such as `status`; writing them gives no ownership.
    pub reset: &'a FieldSet,
    /// Converter for entries of other versions; without it they are kept as they are.
    pub convert: Option<&'a Convert<'a>>,
}

impl<'a> ApplyRequest<'a> {
    /// A write of the object itself.
    pub fn new(manager: &'a str, api_version: &'a str, now: &'a str, schema: &'a MergeSchema) -> Self {
        static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
        ApplyRequest { manager, api_version, subresource: "", now, schema, reset: &NOTHING, convert: None }
    }
}

impl fmt::Debug for ApplyRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Request");
        shown.field("manager", &self.manager).field("api_version", &self.api_version);
        shown.field("subresource", &self.subresource).field("now", &self.now).finish_non_exhaustive()
    }
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedObject {
    /// The object, with the `managedFields` of the live one.
    pub object: Value,
    pub managers: Vec<ManagedFields>,
    /// Whether a field of the object changes; ownership may change without it.
    pub changed: bool,
}

/// A field owned by another manager that the applied configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The entry of the owner.
    pub owner: ManagedFields,
    pub path: ElementPath,
}

impl Conflict {
    /// The conflict message of a server.
    pub fn message(conflicts: &[Conflict]) -> String {
        if let [only] = conflicts {
            return format!("Apply failed with 1 conflict: {only}: {}", only.path);
        }
        let mut lines = Vec::new();
        for (i, conflict) in conflicts.iter().enumerate() {
            if i.checked_sub(1).and_then(|i| conflicts.get(i)).is_none_or(|before| before.owner != conflict.owner) {
                lines.push(format!("conflicts with {}:", conflict.owner));
            }
            lines.push(format!("- {}", conflict.path));
        }
        format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
    }
}

/// The other manager: `conflict with "kubectl-edit" using apps/v1`.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}", self.owner)
    }
}

/// Reasons why a configuration is not applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyRefused {
    /// Other managers own fields that it would change, sorted by owner.
    #[error("{}", Conflict::message(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration or the live object does not match the schema.
    #[error("{0}")]
    Misshapen(String),
    /// The object cannot be converted to the version of an entry.
    #[error(transparent)]
    Unconverted(#[from] NotConverted),
}

/// Manager of the fields that an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Manager of the oldest updates when there are too many.
const ANCIENT_CHANGES: &str = "ancient-changes";
/// Maximum number of update entries of an object.
const MAX_UPDATES: usize = 10;

/// Fields that identify an object or belong to the server: no entry lists them.
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let paths: [&[&str]; 12] = [
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ];
    FieldSet::from_paths(paths.map(ElementPath::from_fields).iter().map(|path| path.0.as_slice()))
});

/// Applies a configuration to an object, or creates the object (SSA-01). Fields of other managers stay, and fields that
/// the manager no longer sends are removed, key by key (LBL-04).
///
/// `managers` are the entries of the live object; without any, `before-first-apply` becomes the owner of all its
/// fields. The manager `kubectl` may take over fields that it applied without `--server-side`. The result is the object
/// before a server fills in defaults.
///
/// # Errors
/// [`ApplyRefused::Conflicts`] when other managers own fields that the configuration would change, unless `force` is
/// set.
pub fn apply(
    live: Option<&Value>,
    managers: &[ManagedFields],
    config: &Value,
    request: &ApplyRequest<'_>,
    force: bool,
) -> Result<AppliedObject, ApplyRefused> {
    static NO_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
    check_configuration(config, request.schema)?;
    if let Some(live) = live {
        check_type("live", live, config, request.schema, Repetitions::Allowed)?;
    }
    let writes = ApplyEngine(request);
    let managers = match live {
        Some(live) if managers.is_empty() => {
            let first = ApplyRequest { manager: BEFORE_FIRST_APPLY, ..*request };
            ApplyEngine(&first).update(&NO_OBJECT, live, Vec::new())?
        }
        _ => managers.to_vec(),
    };
    let live = live.unwrap_or(&NO_OBJECT);
    if !is_kubectl(request) {
        return writes.apply(live, managers, config, force);
    }
    let mut applied = match writes.apply(live, managers.clone(), config, force) {
        Err(ApplyRefused::Conflicts(conflicts)) => match remaining(live, conflicts, request) {
            none if none.is_empty() => writes.apply(live, managers, config, true)?,
            conflicts => return Err(ApplyRefused::Conflicts(conflicts)),
        },
        outcome => outcome?,
    };
    refresh(&mut applied, config);
    Ok(applied)
}

/// Checks that a configuration can be applied to a new object, which is then equal to it.
///
/// # Errors
/// [`ApplyRefused::Misshapen`] when the configuration does not match the schema.
pub fn check_configuration(config: &Value, schema: &MergeSchema) -> Result<(), ApplyRefused> {
    check_type("patch", config, config, schema, Repetitions::Refused)
}

fn check_type(
    what: &str,
    object: &Value,
    config: &Value,
    schema: &MergeSchema,
    repetitions: Repetitions,
) -> Result<(), ApplyRefused> {
    validate(object, &schema.0, repetitions).map_err(|wrong| {
        ApplyRefused::Misshapen(format!("failed to create typed {what} object ({}): {wrong}", identity(config)))
    })
}

/// The entries after a write other than apply: the changed fields belong to the manager.
///
/// `before` is `None` for a new object. `managers` are the initial entries, see
/// [`managers_of_update`](super::managers_of_update). Ownership of an existing object without entries is not tracked.
///
/// # Errors
/// [`ApplyRefused::Unconverted`] when the converter fails.
pub fn update(
    before: Option<&Value>,
    after: &Value,
    managers: &[ManagedFields],
    request: &ApplyRequest<'_>,
) -> Result<Vec<ManagedFields>, ApplyRefused> {
    static NO_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
    let of = &request.schema.0;
    if before.is_some() && managers.is_empty() {
        return Ok(Vec::new());
    }
    let before = before.unwrap_or(&NO_OBJECT);
    if [before, after].iter().any(|object| validate(object, of, Repetitions::Allowed).is_err()) {
        return Ok(managers.to_vec());
    }
    ApplyEngine(request).update(before, after, managers.to_vec())
}

/// The object in messages: `namespace/name; apps/v1, Kind=Deployment`.
fn identity(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    format!("{namespace}/{name}; {}, Kind={}", text("/apiVersion"), text("/kind"))
}

/// An object in one of its versions.
struct Versioned<'a> {
    object: Cow<'a, Value>,
    version: Cow<'a, str>,
    schema: MergeSchema,
}

impl Versioned<'_> {
    fn field_set(&self) -> FieldSet {
        field_set(&self.object, &self.schema).with_named_fields(&self.schema.0)
    }

    fn removed(&self, fields: &FieldSet) -> Versioned<'static> {
        Versioned {
            object: Cow::Owned(removed(&self.object, fields, &self.schema.0)),
            version: Cow::Owned(self.version.clone().into_owned()),
            schema: self.schema.clone(),
        }
    }
}

/// An object in the version of an entry.
enum AtVersion<'a> {
    Given(Versioned<'a>),
    /// The version no longer exists.
    Gone,
    /// There is no converter.
    Unknown,
}

/// The steps of a write.
struct ApplyEngine<'a>(&'a ApplyRequest<'a>);

impl ApplyEngine<'_> {
    fn apply(
        &self,
        live: &Value,
        managers: Vec<ManagedFields>,
        config: &Value,
        force: bool,
    ) -> Result<AppliedObject, ApplyRefused> {
        let is_new = managers.is_empty() && live.as_object().is_some_and(Map::is_empty);
        let mut managers = self.settled(live, managers)?;
        let sent = field_set(config, self.0.schema).without(self.0.reset);
        let has_fields = !sent.is_empty();
        let mut own = self.entry(ManagedOperation::Apply, sent.difference(&NEVER_OWNED));
        let last = managers.iter().position(|entry| entry.is_of_same_manager(&own)).map(|i| managers.swap_remove(i));
        // Nothing to merge with.
        let object = match is_new {
            true => config.clone(),
            false => merged(Some(live), Some(config), &self.0.schema.0).unwrap_or_default(),
        };
        let object = match &last {
            // All fields that were applied before are applied now.
            Some(last) if last.api_version == own.api_version && last.fields.difference(&own.fields).is_empty() => {
                object
            }
            Some(last) => {
                managers.push(ManagedFields { fields: sent, ..own.clone() });
                let pruned = self.pruned(object, &managers, last)?;
                managers.pop();
                pruned
            }
            None => object,
        };
        // A new object has no other managers. One that is atomic as a whole has no fields, and counts as unchanged.
        let changed = is_new && has_fields || !self.conceded(live, &object, &mut managers, force)?.is_same();
        own.time = match changed {
            true => Some(self.0.now.to_owned()),
            false => last.and_then(|last| last.time),
        };
        if !own.fields.is_empty() {
            managers.push(own);
        }
        managers.sort_by(ManagedFields::order);
        let object = if changed { object } else { live.clone() };
        Ok(AppliedObject { object, managers, changed })
    }

    fn update(
        &self,
        before: &Value,
        after: &Value,
        managers: Vec<ManagedFields>,
    ) -> Result<Vec<ManagedFields>, ApplyRefused> {
        let mut managers = self.settled(before, managers)?;
        let comparison = self.conceded(before, after, &mut managers, true)?;
        let written = comparison.modified.union(&comparison.added).without(self.0.reset).difference(&NEVER_OWNED);
        if !written.is_empty() {
            let mut own = self.entry(ManagedOperation::Update, written);
            own.time = Some(self.0.now.to_owned());
            if let Some(i) = managers.iter().position(|entry| entry.is_of_same_manager(&own)) {
                own.fields = own.fields.union(&managers.swap_remove(i).fields);
            }
            managers.push(own);
        }
        let mut managers = capped(managers);
        managers.sort_by(ManagedFields::order);
        Ok(managers)
    }

    fn entry(&self, operation: ManagedOperation, fields: FieldSet) -> ManagedFields {
        let manager = if self.0.manager.is_empty() { "unknown" } else { self.0.manager };
        ManagedFields {
            manager: manager.to_owned(),
            operation,
            api_version: self.0.api_version.to_owned(),
            time: None,
            subresource: self.0.subresource.to_owned(),
            fields,
        }
    }

    fn here<'v>(&'v self, object: Cow<'v, Value>) -> Versioned<'v> {
        Versioned { object, version: Cow::Borrowed(self.0.api_version), schema: self.0.schema.clone() }
    }

    fn at<'v>(&self, from: &'v Versioned<'_>, version: &str) -> Result<AtVersion<'v>, ApplyRefused> {
        if from.version == version {
            return Ok(AtVersion::Given(Versioned {
                object: Cow::Borrowed(&from.object),
                version: Cow::Borrowed(&from.version),
                schema: from.schema.clone(),
            }));
        }
        let Some(convert) = self.0.convert else { return Ok(AtVersion::Unknown) };
        Ok(match convert(&from.object, version)? {
            Some((object, schema)) => AtVersion::Given(Versioned {
                object: Cow::Owned(object),
                version: Cow::Owned(version.to_owned()),
                schema,
            }),
            None => AtVersion::Gone,
        })
    }

    /// The object in another version, if available.
    fn converted<'v>(&self, from: &'v Versioned<'_>, version: &str) -> Result<Option<Versioned<'v>>, ApplyRefused> {
        match self.at(from, version)? {
            AtVersion::Given(object) => Ok(Some(object)),
            AtVersion::Gone | AtVersion::Unknown => Ok(None),
        }
    }

    /// The entries adjusted to the current schema.
    fn settled(&self, live: &Value, mut managers: Vec<ManagedFields>) -> Result<Vec<ManagedFields>, ApplyRefused> {
        let live = self.here(Cow::Borrowed(live));
        let mut schemas: BTreeMap<String, Option<MergeSchema>> = BTreeMap::new();
        for entry in &mut managers {
            if !schemas.contains_key(&entry.api_version) {
                let schema = self.converted(&live, &entry.api_version)?.map(|live| live.schema);
                schemas.insert(entry.api_version.clone(), schema);
            }
            if let Some(Some(schema)) = schemas.get(&entry.api_version) {
                entry.fields = entry.fields.settled(&schema.0);
            }
        }
        Ok(managers)
    }

    /// Takes changed fields from other managers, or fails with a conflict without `force`; returns all changed fields,
    /// including those that this endpoint does not write.
    fn conceded(
        &self,
        before: &Value,
        after: &Value,
        managers: &mut Vec<ManagedFields>,
        force: bool,
    ) -> Result<FieldComparison, ApplyRefused> {
        let all = FieldComparison::between(before, after, self.0.schema);
        let own = all.without(self.0.reset);
        let (before, after) = (self.here(Cow::Borrowed(before)), self.here(Cow::Borrowed(after)));
        let mut comparisons = BTreeMap::from([(self.0.api_version.to_owned(), Some(own))]);
        let (mut conflicts, mut conceded) = (Vec::new(), Vec::new());
        for mut entry in std::mem::take(managers) {
            if !comparisons.contains_key(&entry.api_version) {
                let comparison = self.compared_at(&before, &after, &entry.api_version)?;
                comparisons.insert(entry.api_version.clone(), comparison);
            }
            // An entry of a removed version is dropped.
            let Some(Some(comparison)) = comparisons.get(&entry.api_version) else { continue };
            if !comparison.is_same() {
                let taken = entry.fields.intersection(&comparison.modified.union(&comparison.added));
                conflicts.extend(taken.paths().into_iter().map(|path| Conflict { owner: entry.clone(), path }));
                entry.fields = entry.fields.difference(&taken).difference(&comparison.removed);
            }
            if !entry.fields.is_empty() {
                conceded.push(entry);
            }
        }
        if !force && !conflicts.is_empty() {
            conflicts.sort_by(|left, right| left.owner.order_of_names(&right.owner));
            return Err(ApplyRefused::Conflicts(conflicts));
        }
        *managers = conceded;
        Ok(all)
    }

    /// The comparison in another version; `None` if there is no such version.
    fn compared_at(
        &self,
        before: &Versioned<'_>,
        after: &Versioned<'_>,
        version: &str,
    ) -> Result<Option<FieldComparison>, ApplyRefused> {
        Ok(match (self.at(before, version)?, self.at(after, version)?) {
            (AtVersion::Given(before), AtVersion::Given(after)) => {
                Some(FieldComparison::between(&before.object, &after.object, &before.schema))
            }
            (AtVersion::Gone, _) | (_, AtVersion::Gone) => None,
            (AtVersion::Unknown, _) | (_, AtVersion::Unknown) => Some(FieldComparison::default()),
        })
    }

    /// The object without fields that the manager applied before and no longer does, unless another manager owns them.
    fn pruned(&self, object: Value, managers: &[ManagedFields], last: &ManagedFields) -> Result<Value, ApplyRefused> {
        if last.fields.is_empty() {
            return Ok(object);
        }
        let here = self.here(Cow::Borrowed(&object));
        let Some(merged) = self.converted(&here, &last.api_version)? else { return Ok(object) };
        let applied = last.fields.with_named_fields(&merged.schema.0);
        let pruned = self.with_owned(&merged, merged.removed(&applied), managers)?;
        let Some(pruned) = self.converted(&pruned, &last.api_version)? else { return Ok(object) };
        // Only fields applied by the manager itself are removed, not unowned fields inside them.
        let gone = merged.field_set().difference(&pruned.field_set()).intersection(&applied);
        let left = merged.removed(&gone);
        match self.converted(&left, self.0.api_version)? {
            Some(left) => Ok(left.object.into_owned()),
            None => Ok(object),
        }
    }

    /// The pruned object with the fields that are still owned; the version in which it was pruned comes first, since a
    /// conversion may need what others lack.
    fn with_owned(
        &self,
        merged: &Versioned<'_>,
        mut pruned: Versioned<'static>,
        managers: &[ManagedFields],
    ) -> Result<Versioned<'static>, ApplyRefused> {
        let mut versions: Vec<&str> = managers.iter().map(|entry| entry.api_version.as_str()).collect();
        versions.sort_unstable_by_key(|version| (*version != merged.version, *version));
        versions.dedup();
        for version in versions {
            let (Some(all), Some(less)) = (self.converted(merged, version)?, self.converted(&pruned, version)?) else {
                continue;
            };
            let owned = managers.iter().filter(|entry| entry.api_version == version);
            let owned = owned.fold(FieldSet::default(), |owned, entry| owned.union(&entry.fields));
            let kept = less.field_set().union(&owned.with_named_fields(&all.schema.0));
            pruned = all.removed(&all.field_set().difference(&kept));
        }
        Ok(pruned)
    }
}

/// At most ten entries of updates: the oldest are merged, per version.
fn capped(mut managers: Vec<ManagedFields>) -> Vec<ManagedFields> {
    let is_update = |entry: &ManagedFields| entry.operation == ManagedOperation::Update;
    let mut updates: Vec<ManagedFields> = managers.iter().filter(|entry| is_update(entry)).cloned().collect();
    let mut surplus = updates.len().saturating_sub(MAX_UPDATES);
    if surplus == 0 {
        return managers;
    }
    managers.retain(|entry| !is_update(entry));
    updates.sort_by(|left, right| left.time.cmp(&right.time).then_with(|| left.order_of_names(right)));
    let mut oldest: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<ManagedFields> = Vec::new();
    for entry in updates {
        match oldest.get(&entry.api_version).and_then(|i| kept.get_mut(*i)) {
            Some(bucket) if surplus > 0 => {
                ANCIENT_CHANGES.clone_into(&mut bucket.manager);
                bucket.subresource.clear();
                bucket.fields = bucket.fields.union(&entry.fields);
                bucket.time = entry.time;
                surplus -= 1;
            }
            _ => {
                oldest.entry(entry.api_version.clone()).or_insert(kept.len());
                kept.push(entry);
            }
        }
    }
    managers.extend(kept);
    managers
}
