//! The digest of an object: what its owners read of it in each of their steps, computed once for each state.
//!
//! A rollout replaces machines one by one, and after each change of one machine its owners read all others.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use super::condition_status::{ConditionStatus, type_of};
use super::objects::GroupKind;
use golang::calendar::Moment;
use model::hub::{Object, ObjectKey, label, paths};

/// How many results of selectors are kept: a MachineSet, a MachineDeployment and health checks select a Machine.
const SELECTORS: usize = 8;

/// Values of one state of an object.
#[derive(Debug, Default)]
pub(super) struct ObjectDigest {
    conditions: OnceLock<Box<[ConditionDigest]>>,
    created: OnceLock<Option<Moment>>,
    controller: OnceLock<Option<Box<str>>>,
    is_of_control_plane: OnceLock<bool>,
    external: OnceLock<Box<[Option<ExternalId>; 2]>>,
    /// Fingerprints of selectors that select the object.
    selectors: [AtomicU64; SELECTORS],
    /// Fingerprint of the desired fields that the object has.
    in_step: AtomicU64,
}

/// Kind and name of an object that a Machine refers to.
type ExternalId = (GroupKind, ObjectKey);

/// The digest of an object.
pub(super) fn digest(object: &Object) -> &ObjectDigest {
    object.derived().unwrap_or_else(|| unreachable!("nothing else is derived from objects"))
}

impl ObjectDigest {
    fn condition(&self, object: &Object, name: &str) -> Option<&ConditionDigest> {
        let all = self.conditions.get_or_init(|| ConditionDigest::of_list(object.conditions()));
        let wanted = Fingerprint::new(name);
        all.iter().find(|condition| condition.r#type == wanted)
    }

    /// The entry of a condition in the v1beta2 form.
    pub(super) fn entry<'v>(&self, object: &'v Object, name: &str) -> Option<&'v Value> {
        object.conditions().get(self.condition(object, name)?.position)
    }

    /// The status of a condition; `None` if it is absent, or has another value.
    pub(super) fn status(&self, object: &Object, name: &str) -> Option<ConditionStatus> {
        self.condition(object, name)?.status
    }

    /// Whether a condition has a message.
    pub(super) fn has_message(&self, object: &Object, name: &str) -> bool {
        self.condition(object, name).is_some_and(|condition| condition.has_message)
    }

    /// Whether the object is part of a control plane.
    pub(super) fn is_of_control_plane(&self, object: &Object) -> bool {
        *self.is_of_control_plane.get_or_init(|| object.label(label::CONTROL_PLANE).is_some())
    }

    /// The bootstrap configuration and the infrastructure of a Machine; `None` for an empty reference.
    pub(super) fn external(&self, machine: &Object) -> &[Option<ExternalId>; 2] {
        self.external.get_or_init(|| {
            let paths = [paths::machine::BOOTSTRAP_CONFIG_REF, paths::INFRASTRUCTURE_REF];
            Box::new(paths.map(|path| {
                let reference = machine.contract_ref_at(path);
                let key = || ObjectKey::new(machine.namespace(), &*reference.name);
                reference.is_defined().then(|| (GroupKind::for_reference(&reference), key()))
            }))
        })
    }

    /// The creation time.
    pub(super) fn created(&self, object: &Object) -> Option<Moment> {
        *self.created.get_or_init(|| Moment::parse(object.at(paths::metadata::CREATION_TIMESTAMP)?.as_str()?))
    }

    /// The uid of the controlling owner, which may be empty.
    pub(super) fn controller_uid(&self, object: &Object) -> Option<&str> {
        let read = || Some(object.controller()?.get("uid").and_then(Value::as_str).unwrap_or_default().into());
        self.controller.get_or_init(read).as_deref()
    }

    /// Whether a selector is known to select the object.
    pub(super) fn is_selected(&self, selector: Fingerprint) -> bool {
        self.selectors.get(selector.slot()).is_some_and(|slot| slot.load(Ordering::Relaxed) == selector.0)
    }

    /// Records that a selector selects the object.
    pub(super) fn note_selected(&self, selector: Fingerprint) {
        if let Some(slot) = self.selectors.get(selector.slot()) {
            slot.store(selector.0, Ordering::Relaxed);
        }
    }

    /// Whether the object is known to have these desired fields.
    pub(super) fn is_in_step(&self, desired: Fingerprint) -> bool {
        self.in_step.load(Ordering::Relaxed) == desired.0
    }

    /// Records that the object has these desired fields.
    pub(super) fn note_in_step(&self, desired: Fingerprint) {
        self.in_step.store(desired.0, Ordering::Relaxed);
    }
}

/// Identifies a value by a hash with keys that are random for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a value.
    pub(super) fn new(value: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        // Zero stands for nothing.
        Fingerprint(KEYS.hash_one(value) | 1)
    }

    const fn slot(self) -> usize {
        (self.0 >> 1) as usize % SELECTORS
    }
}

/// A condition of an object in the v1beta2 form.
#[derive(Debug)]
struct ConditionDigest {
    r#type: Fingerprint,
    /// In the list of conditions.
    position: usize,
    /// `None` for an unknown value.
    status: Option<ConditionStatus>,
    has_message: bool,
}

impl ConditionDigest {
    fn of_list(conditions: &[Value]) -> Box<[ConditionDigest]> {
        let digest = |(position, entry): (usize, &Value)| {
            let message = entry.get("message").and_then(Value::as_str).unwrap_or_default();
            Some(ConditionDigest {
                r#type: Fingerprint::new(type_of(entry)?),
                position,
                status: ConditionStatus::from_value(entry.get("status")),
                has_message: !message.is_empty(),
            })
        };
        conditions.iter().enumerate().filter_map(digest).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Change = fn(&mut Object);

    fn machine(name: &str) -> Object {
        let conditions = json!([
            {"type": "Ready", "status": "False", "message": "m"},
            {"type": "Available", "status": "True", "message": ""},
            {"type": "Ready", "status": "True"},
        ]);
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "i"}},
            "status": {"conditions": conditions},
        });
        Object::try_from(object).unwrap()
    }

    #[test]
    fn a_digest_has_what_the_object_has() {
        let machine = machine("a");
        let of = digest(&machine);
        assert_eq!(of.status(&machine, "Ready"), Some(ConditionStatus::False), "the first of two counts");
        assert_eq!(of.status(&machine, "Available"), Some(ConditionStatus::True));
        assert_eq!(of.status(&machine, "UpToDate"), None);
        assert_eq!(of.entry(&machine, "Available").unwrap()["type"], "Available");
        assert_eq!(["Ready", "Available", "UpToDate"].map(|name| of.has_message(&machine, name)), [true, false, false]);
        assert_eq!(of.created(&machine), Moment::parse("2030-01-01T00:00:00Z"));
        assert_eq!(of.controller_uid(&machine), None);
        assert!(!of.is_of_control_plane(&machine));
        let [bootstrap, infrastructure] = of.external(&machine);
        assert_eq!(*bootstrap, None);
        assert_eq!(*infrastructure, Some((GroupKind::new("g", "K"), ObjectKey::new("ns", "i"))));
    }

    #[test]
    fn a_digest_is_computed_anew_after_a_change() {
        let object = machine("a");
        let (selector, fields) = (Fingerprint::new("selector"), Fingerprint::new("fields"));
        let is_known = |object: &Object| (digest(object).is_selected(selector), digest(object).is_in_step(fields));
        assert_eq!(digest(&object).status(&object, "Ready"), Some(ConditionStatus::False));
        assert_eq!(is_known(&object), (false, false));
        digest(&object).note_selected(selector);
        digest(&object).note_in_step(fields);
        assert_eq!(is_known(&object.clone()), (true, true), "a copy that is not changed shares the digest");
        let changes: [Change; 4] = [
            |object| object.set("status.conditions", json!([{"type": "Ready", "status": "True"}])).unwrap(),
            |object| drop(object.remove("status.conditions")),
            |object| drop(object.members_mut().remove("status")),
            |object| drop(object.members_mut_at("status").unwrap().remove("conditions")),
        ];
        for change in changes {
            let mut copy = object.clone();
            change(&mut copy);
            assert_ne!(digest(&copy).status(&copy, "Ready"), Some(ConditionStatus::False));
            assert_eq!(is_known(&copy), (false, false));
            assert_eq!(is_known(&object), (true, true));
        }
    }
}
