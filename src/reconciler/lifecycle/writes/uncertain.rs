//! Creations of which it is not known whether the API server has carried them out.
//!
//! ```text
//! create ─► no answer ─► read again for `LIMIT` ─► answer: made or not
//!                              └─► none: noted for the owner, whose next step reads again before anything else
//! ```
//!
//! A step that took such an object for absent would make another one under another name, and delete what the first one refers to.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::hub::{Object, ObjectKey, ObjectRef, label};
use crate::kubernetes::untyped;

/// How long after a request without an answer its effect is looked for.
const PAUSE: Duration = Duration::from_secs(1);
/// For how long a step reads again. It occupies one of the few places for steps meanwhile.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// How long a creation is noted that no step of its owner asks for: by then the owner is gone, since steps are repeated every ten minutes.
const KEPT: Duration = Duration::from_hours(1);
/// How many steps of one Cluster read again at a time. The objects of the others are noted at once.
pub(super) const SHARE: usize = 4;

/// An object that may have been created, with those that were created before it and have to go if it was not.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub object: Object,
    pub before: Vec<Object>,
}

/// What the API server says of an object that may have been created.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Made(Box<Object>),
    NotMade,
    Unknown,
}

/// The creations of one owner without an answer.
#[derive(Debug)]
struct Noted {
    doubts: Vec<Doubt>,
    /// When the last one was added, or a step of the owner asked for them.
    at: Instant,
}

/// All creations without an answer.
#[derive(Debug, Default)]
pub(super) struct Uncertain {
    /// By the uid of the owner.
    noted: Mutex<HashMap<String, Noted>>,
    /// How many steps of a Cluster read again.
    waiting: Mutex<HashMap<ObjectKey, usize>>,
}

/// One of the places of a Cluster.
struct Place<'u>(&'u Uncertain, ObjectKey);

impl Drop for Place<'_> {
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

impl Uncertain {
    /// Whether an object was created whose creation was not answered. A request without an answer may be carried out a moment later.
    pub(super) async fn look_up(&self, client: &kube::Client, object: &Object) -> Found {
        let Some(_place) = self.place(object) else { return Found::Unknown };
        let until = Instant::now() + LIMIT;
        let reading = async {
            loop {
                sleep(PAUSE).await;
                match read(client, object).await {
                    Found::Unknown => {}
                    found => return found,
                }
            }
        };
        timeout_at(until, reading).await.unwrap_or(Found::Unknown)
    }

    fn place(&self, object: &Object) -> Option<Place<'_>> {
        let cluster = ObjectKey::new(object.namespace(), object.label(label::CLUSTER_NAME).unwrap_or_default());
        let mut waiting = self.waiting();
        let count = waiting.entry(cluster.clone()).or_default();
        if *count >= SHARE {
            return None;
        }
        *count += 1;
        drop(waiting);
        Some(Place(self, cluster))
    }

    /// Notes an object for the next step of its owner. Without an owner its name is always the same, and the next step finds it.
    pub(super) fn note(&self, doubt: Doubt) {
        let Some(owner) = owner(&doubt.object) else { return };
        let (mut noted, at) = (self.noted(), Instant::now());
        noted.retain(|_, noted| at.duration_since(noted.at) < KEPT);
        let of_owner = noted.entry(owner.to_owned()).or_insert_with(|| Noted { doubts: Vec::new(), at });
        of_owner.doubts.push(doubt);
        of_owner.at = at;
    }

    /// What is noted for an owner.
    pub(super) fn of(&self, owner: &str) -> Vec<Doubt> {
        let mut noted = self.noted();
        let Some(noted) = noted.get_mut(owner) else { return Vec::new() };
        noted.at = Instant::now();
        noted.doubts.clone()
    }

    /// Forgets an object of which it is known by now whether it was created.
    pub(super) fn clear(&self, owner: &str, object: &ObjectRef) {
        let mut noted = self.noted();
        if let Some(of_owner) = noted.get_mut(owner) {
            of_owner.doubts.retain(|doubt| doubt.object.reference() != *object);
            if of_owner.doubts.is_empty() {
                noted.remove(owner);
            }
        }
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<String, Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ObjectKey, usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an object that may have been created.
pub(super) async fn read(client: &kube::Client, object: &Object) -> Found {
    match untyped::get(client, &object.reference()).await {
        Ok(Some(found)) if has_same_owners(&found, object) => Found::Made(Box::new(found)),
        Err(error) if error.may_have_written() => Found::Unknown,
        Ok(_) | Err(_) => Found::NotMade,
    }
}

fn has_same_owners(one: &Object, other: &Object) -> bool {
    one.at("metadata.ownerReferences") == other.at("metadata.ownerReferences")
}

/// The uid of the owner whose step makes an object.
fn owner(object: &Object) -> Option<&str> {
    let owners = object.at("metadata.ownerReferences")?.as_array()?;
    let controls = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    owners.iter().find(controls).or_else(|| owners.first())?.get("uid")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    fn doubt(owner: &str) -> Doubt {
        let owners = json!([{"kind": "MachineSet", "name": "ms", "uid": owner, "controller": true}]);
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"namespace": "ns", "name": "m", "ownerReferences": owners}});
        Doubt { object: Object::try_from(object).unwrap(), before: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn creations_of_owners_that_are_gone_are_forgotten() {
        // DEC-102
        let uncertain = Uncertain::default();
        for owner in ["stays", "goes"] {
            uncertain.note(doubt(owner));
        }
        advance(KEPT / 2).await;
        assert_eq!(uncertain.of("stays").len(), 1);
        advance(KEPT / 2).await;
        uncertain.note(doubt("new"));
        assert_eq!(["stays", "goes", "new"].map(|owner| uncertain.of(owner).len()), [1, 0, 1]);
    }
}
