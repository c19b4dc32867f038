//! Creations without a response of the API server, which may have succeeded.
//!
//! ```text
//! create ─► no answer ─► read again for `LIMIT` ─► answer: made or not
//!                              └─► none: noted for the owner, whose next step reads again before anything else
//! ```
//!
//! A step that treated such an object as absent would create another one with another name, and delete the objects that
//! the first one refers to.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use crate::kubernetes::untyped;
use model::hub::{Object, ObjectKey, ObjectRef, label, paths};

/// Delay between a request without a response and the read of the object.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum time for which a step reads again. It occupies one of the few slots for steps meanwhile.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// Time after which an unused note is dropped: by then the owner is deleted, since its steps are repeated every ten
/// minutes.
const KEPT: Duration = Duration::from_hours(1);
/// Maximum number of concurrent steps of one Cluster that read again. The objects of others are noted at once.
pub(super) const SHARE: usize = 4;
/// Maximum size of all noted objects, as JSON. Above it, the objects of the least recently used owner are dropped.
const MOST_BYTES: usize = 16 << 20;

/// An object that may have been created, with the objects before it, which have to be deleted if it was not.
#[derive(Clone, Debug)]
pub(super) struct UncertainCreation {
    pub object: Object,
    pub before: Vec<Object>,
}

impl UncertainCreation {
    fn bytes(&self) -> usize {
        self.before.iter().chain([&self.object]).map(|object| object.as_ref().to_string().len()).sum()
    }
}

/// The result of reading an object that may have been created.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CreationResult {
    Made(Box<Object>),
    NotMade,
    Unknown,
}

/// The uncertain creations of one owner.
#[derive(Debug)]
struct OwnerCreations {
    doubts: Vec<UncertainCreation>,
    /// The sum of the bytes of `doubts`.
    bytes: usize,
    /// When the last one was added, or a step of the owner asked for them.
    at: Instant,
}

impl OwnerCreations {
    fn new(at: Instant) -> Self {
        OwnerCreations { doubts: Vec::new(), bytes: 0, at }
    }

    fn push(&mut self, doubt: UncertainCreation, at: Instant) {
        self.bytes += doubt.bytes();
        self.doubts.push(doubt);
        self.at = at;
    }

    fn remove(&mut self, at: usize) {
        self.bytes -= self.doubts.remove(at).bytes();
    }
}

/// All uncertain creations.
#[derive(Debug, Default)]
pub(super) struct UncertainCreations {
    /// By the uid of the owner.
    noted: Mutex<HashMap<String, OwnerCreations>>,
    /// How many steps of a Cluster read again.
    waiting: Mutex<HashMap<ObjectKey, usize>>,
}

/// One of the slots of a Cluster.
struct ReadSlot<'u>(&'u UncertainCreations, ObjectKey);

impl Drop for ReadSlot<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        if let Some(count) = waiting.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.1);
            }
        }
    }
}

impl UncertainCreations {
    /// Whether a creation without a response succeeded. The API server may execute the request a moment later.
    pub(super) async fn look_up(&self, client: &kube::Client, object: &Object) -> CreationResult {
        let Some(_place) = self.place(object) else { return CreationResult::Unknown };
        let until = Instant::now() + LIMIT;
        let reading = async {
            loop {
                sleep(PAUSE).await;
                match read(client, object).await {
                    CreationResult::Unknown => {}
                    found => return found,
                }
            }
        };
        timeout_at(until, reading).await.unwrap_or(CreationResult::Unknown)
    }

    fn place(&self, object: &Object) -> Option<ReadSlot<'_>> {
        let cluster = ObjectKey::new(object.namespace(), object.label(label::CLUSTER_NAME).unwrap_or_default());
        let mut waiting = self.waiting();
        let count = waiting.entry(cluster.clone()).or_default();
        if *count >= SHARE {
            return None;
        }
        *count += 1;
        drop(waiting);
        Some(ReadSlot(self, cluster))
    }

    /// Notes an object for the next step of its owner. An object without an owner has a fixed name, so the next step
    /// finds it.
    pub(super) fn note(&self, doubt: UncertainCreation) {
        let Some(owner) = owner(&doubt.object) else { return };
        let (mut noted, at) = (self.noted(), Instant::now());
        noted.retain(|_, noted| at.duration_since(noted.at) < KEPT);
        let owner = owner.to_owned();
        noted.entry(owner.clone()).or_insert_with(|| OwnerCreations::new(at)).push(doubt, at);
        make_room(&mut noted, &owner);
    }

    /// The noted creations of an owner.
    pub(super) fn for_owner(&self, owner: &str) -> Vec<UncertainCreation> {
        let mut noted = self.noted();
        let Some(noted) = noted.get_mut(owner) else { return Vec::new() };
        noted.at = Instant::now();
        noted.doubts.clone()
    }

    /// Removes an object whose creation is certain by now.
    pub(super) fn clear(&self, owner: &str, object: &ObjectRef) {
        let mut noted = self.noted();
        if let Some(of_owner) = noted.get_mut(owner) {
            while let Some(at) = of_owner.doubts.iter().position(|doubt| doubt.object.reference() == *object) {
                of_owner.remove(at);
            }
            if of_owner.doubts.is_empty() {
                noted.remove(owner);
            }
        }
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<String, OwnerCreations>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ObjectKey, usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the oldest creations until the others are within the limit; the last one of `newest` stays. If a dropped
/// object was created, a later step creates a second one.
fn make_room(noted: &mut HashMap<String, OwnerCreations>, newest: &str) {
    while noted.values().map(|noted| noted.bytes).sum::<usize>() > MOST_BYTES {
        let others = noted.iter().filter(|(owner, _)| *owner != newest);
        let oldest = others.min_by_key(|(owner, noted)| (noted.at, *owner)).map(|(owner, _)| owner.clone());
        let (owner, creations) = match oldest {
            Some(owner) => {
                let dropped = noted.remove(&owner).map_or(0, |noted| noted.doubts.len());
                (owner, dropped)
            }
            None => match noted.get_mut(newest) {
                Some(noted) if noted.doubts.len() > 1 => {
                    noted.remove(0);
                    (newest.to_owned(), 1)
                }
                _ => return,
            },
        };
        warn!(owner, creations, limit = MOST_BYTES, "Dropped creations without an answer, because they are too large");
    }
}

/// Reads an object that may have been created.
pub(super) async fn read(client: &kube::Client, object: &Object) -> CreationResult {
    match untyped::get(client, &object.reference()).await {
        Ok(Some(found)) if has_same_owners(&found, object) => CreationResult::Made(Box::new(found)),
        Err(error) if error.may_have_written() => CreationResult::Unknown,
        Ok(_) | Err(_) => CreationResult::NotMade,
    }
}

fn has_same_owners(one: &Object, other: &Object) -> bool {
    one.at(paths::metadata::OWNER_REFERENCES) == other.at(paths::metadata::OWNER_REFERENCES)
}

/// The uid of the owner whose step creates an object.
fn owner(object: &Object) -> Option<&str> {
    let owners = object.owner_references();
    let controls = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    owners.iter().find(controls).or_else(|| owners.first())?.get("uid")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;
    use testing::Lines;

    fn doubt(owner: &str) -> UncertainCreation {
        let owners = json!([{"kind": "MachineSet", "name": "ms", "uid": owner, "controller": true}]);
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"namespace": "ns", "name": "m", "ownerReferences": owners}});
        UncertainCreation { object: Object::try_from(object).unwrap(), before: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn creations_of_owners_that_are_gone_are_forgotten() {
        // DEC-102
        let uncertain = UncertainCreations::default();
        for owner in ["stays", "goes"] {
            uncertain.note(doubt(owner));
        }
        advance(KEPT / 2).await;
        assert_eq!(uncertain.for_owner("stays").len(), 1);
        advance(KEPT / 2).await;
        uncertain.note(doubt("new"));
        assert_eq!(["stays", "goes", "new"].map(|owner| uncertain.for_owner(owner).len()), [1, 0, 1]);
    }

    /// The same, of an object of 1 MiB.
    fn large(owner: &str, name: &str) -> UncertainCreation {
        let mut doubt = doubt(owner);
        for (path, value) in [("metadata.name", json!(name)), ("spec.text", json!("a".repeat(1 << 20)))] {
            machines::lifecycle::set_field(&mut doubt.object, path, value);
        }
        doubt
    }

    #[tokio::test(start_paused = true)]
    async fn creations_have_a_sum_and_the_oldest_are_dropped() {
        // DEC-102
        let (lines, _guard) = Lines::collect();
        let uncertain = UncertainCreations::default();
        let owners: Vec<String> = (0..40).map(|number| format!("owner-{number}")).collect();
        for owner in &owners {
            advance(Duration::from_secs(1)).await;
            uncertain.note(large(owner, "m"));
            // A step of this owner asks all the time.
            assert_eq!(uncertain.for_owner("owner-0").len(), 1, "{owner}");
        }
        let bytes: usize = uncertain.noted().values().map(|noted| noted.bytes).sum();
        assert!(bytes <= MOST_BYTES, "{bytes}");
        let left: Vec<&String> = owners.iter().filter(|owner| uncertain.noted().contains_key(*owner)).collect();
        assert_eq!((left.len(), left[0], left[1]), (15, &owners[0], &owners[26]));
        let text = lines.text();
        assert_eq!(text.matches("Dropped creations without an answer").count(), 25, "{text}");
        assert!(text.contains(r#"owner="owner-1" creations=1"#), "{text}");
        // What is settled makes room again.
        for owner in &left {
            uncertain.clear(owner, &large(owner, "m").object.reference());
        }
        assert!(uncertain.noted().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn creations_of_one_owner_have_a_sum() {
        // DEC-102
        let uncertain = UncertainCreations::default();
        let names: Vec<String> = (0..40).map(|number| format!("m-{number}")).collect();
        names.iter().for_each(|name| uncertain.note(large("owner", name)));
        let left = uncertain.for_owner("owner");
        assert_eq!((left.len(), left[0].object.name()), (15, "m-25"));
    }
}
