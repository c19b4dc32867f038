//! What steps read of an object again and again, computed once per state of the object.
//!
//! A rollout replaces machines one by one, and after each change of one machine its owners read all others.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use super::objects::GroupKind;
use golang::calendar::Moment;
use model::hub::{Object, ObjectKey, label, paths};

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    /// The value of `status`.
    pub const fn name(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }

    pub(super) fn from_value(value: Option<&Value>) -> Option<ConditionStatus> {
        match value?.as_str()? {
            "True" => Some(ConditionStatus::True),
            "False" => Some(ConditionStatus::False),
            "Unknown" => Some(ConditionStatus::Unknown),
            _ => None,
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { ConditionStatus::True } else { ConditionStatus::False }
    }
}

/// How many results of selectors are kept: a MachineSet, a MachineDeployment and health checks have one each.
const MARKS: usize = 8;

/// Facts of one state of an object.
#[derive(Debug, Default)]
pub(super) struct ObjectFacts {
    conditions: OnceLock<ConditionIndex>,
    created: OnceLock<Option<Moment>>,
    controller: OnceLock<Option<Box<str>>>,
    is_of_control_plane: OnceLock<bool>,
    external: OnceLock<[Option<(GroupKind, ObjectKey)>; 2]>,
    /// Selectors and whether they select the object, by their marks.
    selections: [AtomicU64; MARKS],
    /// Mark of the last fields that the object was found to have.
    fields: AtomicU64,
}

/// The facts of an object.
pub(super) fn facts(object: &Object) -> &ObjectFacts {
    object.derived().unwrap_or_else(|| unreachable!("nothing else is derived from these objects"))
}

impl ObjectFacts {
    /// A condition.
    pub(super) fn condition(&self, object: &Object, name: &str) -> Option<&IndexedCondition> {
        self.conditions.get_or_init(|| ConditionIndex::new(object.conditions())).find(name)
    }

    /// The entry of a condition in the v1beta2 form.
    pub(super) fn entry<'v>(&self, object: &'v Object, name: &str) -> Option<&'v Value> {
        object.conditions().get(self.condition(object, name)?.at)
    }

    /// The status of a condition; `None` if it is absent, or has another value.
    pub(super) fn status(&self, object: &Object, name: &str) -> Option<ConditionStatus> {
        self.condition(object, name)?.status
    }

    /// Whether the object is part of a control plane.
    pub(super) fn is_of_control_plane(&self, object: &Object) -> bool {
        *self.is_of_control_plane.get_or_init(|| object.label(label::CONTROL_PLANE).is_some())
    }

    /// The bootstrap configuration and the infrastructure of a Machine; `None` for an empty reference.
    pub(super) fn external(&self, machine: &Object) -> &[Option<(GroupKind, ObjectKey)>; 2] {
        self.external.get_or_init(|| {
            [paths::machine::BOOTSTRAP_CONFIG_REF, paths::INFRASTRUCTURE_REF].map(|path| {
                let reference = machine.contract_ref_at(path);
                let key = || ObjectKey::new(machine.namespace(), &*reference.name);
                reference.is_defined().then(|| (GroupKind::for_reference(&reference), key()))
            })
        })
    }

    /// The creation time.
    pub(super) fn created(&self, object: &Object) -> Option<Moment> {
        *self.created.get_or_init(|| Moment::parse(object.at(paths::metadata::CREATION_TIMESTAMP)?.as_str()?))
    }

    /// The uid of the controlling owner; empty if it has none.
    pub(super) fn controller_uid(&self, object: &Object) -> Option<&str> {
        let read = || Some(object.controller()?.get("uid").and_then(Value::as_str).unwrap_or_default().into());
        self.controller.get_or_init(read).as_deref()
    }

    /// Whether labels with this mark select the object, if that is known.
    pub(super) fn known_selection(&self, mark: Mark) -> Option<bool> {
        let known = self.selections.get(mark.slot())?.load(Ordering::Relaxed);
        (known & !1 == mark.0).then_some(known & 1 == 1)
    }

    /// Records whether labels with this mark select the object.
    pub(super) fn note_selection(&self, mark: Mark, is_selected: bool) {
        if let Some(slot) = self.selections.get(mark.slot()) {
            slot.store(mark.0 | u64::from(is_selected), Ordering::Relaxed);
        }
    }

    /// Whether the object was found to have the fields with this mark.
    pub(super) fn has_fields(&self, mark: Mark) -> bool {
        self.fields.load(Ordering::Relaxed) == mark.0
    }

    /// Records that the object has the fields with this mark.
    pub(super) fn note_fields(&self, mark: Mark) {
        self.fields.store(mark.0, Ordering::Relaxed);
    }
}

/// Identifies a selector or desired fields by a hash, with keys that are random for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn of(what: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        // The lowest bit is free for a result; no mark equals the initial zero.
        Mark((KEYS.hash_one(what) | 1 << 63) & !1)
    }

    const fn slot(self) -> usize {
        (self.0 >> 1) as usize % MARKS
    }
}

/// Conditions by type.
#[derive(Debug)]
struct ConditionIndex(Box<[IndexedCondition]>);

/// A condition of an object in the v1beta2 form.
#[derive(Debug)]
pub(super) struct IndexedCondition {
    r#type: Box<str>,
    /// Position in the list.
    at: usize,
    /// `None` for an unknown value.
    pub(super) status: Option<ConditionStatus>,
    /// Empty if absent, as the message.
    pub(super) reason: Box<str>,
    pub(super) message: Box<str>,
}

impl ConditionIndex {
    fn new(conditions: &[Value]) -> Self {
        let index = |(at, entry): (usize, &Value)| {
            let status = ConditionStatus::from_value(entry.get("status"));
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().into();
            Some(IndexedCondition {
                r#type: type_of(entry)?.into(),
                at,
                status,
                reason: text("reason"),
                message: text("message"),
            })
        };
        ConditionIndex(conditions.iter().enumerate().filter_map(index).collect())
    }

    /// The first condition of a type.
    fn find(&self, name: &str) -> Option<&IndexedCondition> {
        self.0.iter().find(|condition| &*condition.r#type == name)
    }
}

/// The type of a condition.
pub(super) fn type_of(entry: &Value) -> Option<&str> {
    let members = entry.as_object()?;
    // Members are sorted by name, so the type is usually the last one.
    let found = match members.iter().next_back() {
        Some((name, value)) if name == "type" => Some(value),
        _ => members.get("type"),
    };
    found?.as_str()
}
