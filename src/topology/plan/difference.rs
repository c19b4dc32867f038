//! Which fields of an object a topology changes, and what each change comes from.

use std::sync::Arc;

use serde_json::Value;

use super::{Applied, Certainty, Change};
use crate::field::Path;
use crate::hub::contract::definition_name;
use crate::hub::{Definition, GROUP, Object, version_of};
use crate::ssa::{self, Comparing, Ownership, Schema};
use crate::topology::Failure;
use crate::topology::origin::Origins;
use crate::world::{DryRun, DryRunCall, Found, World};

/// The field manager of everything that a topology applies, by server-side apply (SSA-01, DEC-30).
pub const MANAGER: &str = "capi-topology";

/// What is left out of infrastructure clusters and control planes while it says that no endpoint is known yet (SSA-03).
const HOST: &[&str] = &["spec", "controlPlaneEndpoint", "host"];
/// See [`HOST`].
const PORT: &[&str] = &["spec", "controlPlaneEndpoint", "port"];
/// What is sent and not compared (SSA-11, SSA-18).
const UNCOMPARED: &[&[&str]] = &[
    &["metadata", "annotations", "cluster.x-k8s.io/conversion-data"],
    &["metadata", "annotations", "topology.cluster.x-k8s.io/dry-run"],
    // Named so that an object that went is not made again, and no field of it.
    &["metadata", "uid"],
];

/// Maps that are wholes in Cluster API's own kinds: owners, as in any object, and selectors. `*` stands for every entry of a
/// list.
const ATOMIC: &[&[&str]] = &[&["metadata", "ownerReferences", "*"], &["spec", "selector"]];

/// How an object is to change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub changes: Vec<Change>,
    /// Whether any of them is below `spec`.
    pub is_in_spec: bool,
    /// Whether the record of who owns which fields changes.
    pub changes_owners: bool,
    pub certainty: Certainty,
}

/// What objects are compared by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    pub world: &'a World,
    pub applied: &'a Applied,
}

impl Difference {
    /// The difference of an object that is new.
    pub(super) fn none() -> Self {
        Difference { changes: Vec::new(), is_in_spec: false, changes_owners: false, certainty: Certainty::Exact }
    }

    /// The difference of two kinds, which are not compared field by field (ROT-08).
    pub(super) fn of_kinds(current: &Object, sent: &Object, origins: &Origins) -> Self {
        let because = origins.decisive("spec").cloned();
        let (from, to) = (Some(current.kind().into()), Some(sent.kind().into()));
        let change = Change { path: "kind".to_owned(), from, to, because, is_sensitive: false };
        Difference { changes: vec![change], is_in_spec: true, ..Difference::none() }
    }

    /// The difference of what is sent from what was sent before.
    fn plain(changes: Vec<ChangedValue>, origins: &Origins, old: &Origins) -> Self {
        let change = |(path, from, to): ChangedValue| change(&path, from, to, origins, Some(old));
        let changes: Vec<Change> = changes.into_iter().map(change).collect();
        let is_in_spec = changes.iter().any(|change| change.path == "spec" || change.path.starts_with("spec."));
        let certainty = if changes.is_empty() { Certainty::Exact } else { Certainty::Assumed };
        Difference { changes, is_in_spec, changes_owners: false, certainty }
    }

    /// The difference of what a server would store (SSA-12, SSA-13): a change of nothing but the fields that the manager owns
    /// counts.
    fn confirmed(current: &Object, desired: &Object, origins: &Origins) -> Self {
        let mut changes = Vec::new();
        compare(&Path::ROOT, current.as_ref(), desired.as_ref(), &mut changes);
        changes.sort_by(|(a, ..), (b, ..)| a.as_str().cmp(b.as_str()));
        let owners = |object: &Object| object.at("metadata.managedFields").cloned();
        let changes_owners = owners(current) != owners(desired);
        let plain = Difference::plain(changes, origins, &Origins::default());
        Difference { changes_owners, certainty: Certainty::Exact, ..plain }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.changes_owners
    }
}

impl Comparison<'_> {
    /// What applying `sent` would change (SSA-11 to SSA-13, DEC-15). What looks the same here is the same; whether what looks
    /// different is so says a server, if there is one. What is not known yet counts as no difference, so that one round
    /// asks for all that a plan has to know: the result is void then, and the world has needs.
    pub(super) fn of(&self, current: &Object, sent: &Object, origins: &Origins) -> Result<Difference, Failure> {
        let local = match self.seen_from_here(current, sent, origins) {
            Err(Failure::NotAsked) => return Ok(Difference::none()),
            local => local?,
        };
        if local.is_empty() || self.world.is_offline() {
            return Ok(local);
        }
        let call = DryRunCall {
            object: sent.reference(),
            version: current.text("metadata.resourceVersion")?.unwrap_or_default().to_owned(),
            current: current.as_ref().to_string(),
            sent: sent.as_ref().to_string(),
        };
        match self.world.dry_run(call) {
            Found::Yes(DryRun::Same) | Found::NotAsked => Ok(Difference::none()),
            Found::Yes(DryRun::Differs { current, desired }) => Ok(Difference::confirmed(&current, &desired, origins)),
            Found::Absent => Ok(local),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
        }
    }

    /// What applying `sent` would change, as far as can be told without a server.
    fn seen_from_here(&self, current: &Object, sent: &Object, origins: &Origins) -> Result<Difference, Failure> {
        let before = self.applied.get(&current.reference());
        let definition = self.definition(sent)?;
        // What nobody else has written is what was sent the last time: without a schema, lists are wholes, and comparing what is
        // sent with that comes to the same as applying it.
        if let (Some((before, old)), None) = (before, &definition)
            && current.at("metadata.managedFields").is_none()
        {
            let mut changes = Vec::new();
            compare(&Path::ROOT, (**before).as_ref(), sent.as_ref(), &mut changes);
            changes.sort_by(|(a, ..), (b, ..)| a.as_str().cmp(b.as_str()));
            return Ok(Difference::plain(changes, origins, old));
        }
        let managers =
            ssa::ManagedFields::all_of(current.as_ref()).map_err(|error| Failure::Unreadable(error.to_string()))?;
        let own = managers.iter().find(|entry| entry.is_of_applier(MANAGER));
        let atomic = if sent.group() == GROUP { ATOMIC } else { ATOMIC.get(..1).unwrap_or_default() };
        if own.is_some_and(|own| ssa::is_as_applied(current.as_ref(), sent.as_ref(), own, UNCOMPARED, atomic)) {
            return Ok(Difference::none());
        }
        let ownership = match before {
            _ if !managers.is_empty() => Ownership::Recorded(&managers),
            Some((before, _)) => Ownership::Assumed(Some((**before).as_ref())),
            None => Ownership::Assumed(None),
        };
        let schema =
            definition.map_or_else(Schema::unknown, |definition| definition.structure(version_of(sent.api_version())));
        let ignored: &[&[&str]] = &[];
        let comparing = Comparing { manager: MANAGER, schema: &schema, ownership, ignored, uncompared: UNCOMPARED };
        let difference = ssa::difference(current.as_ref(), sent.as_ref(), &comparing);
        let (is_in_spec, changes_owners) = (difference.spec_changed(), difference.ownership_changed.is_some());
        let old = before.map(|(_, old)| &**old);
        let changes = difference.changes.into_iter();
        let changes = changes.map(|ssa::Change { path, from, to, .. }| change(&path, from, to, origins, old));
        Ok(Difference { changes: changes.collect(), is_in_spec, changes_owners, certainty: Certainty::Assumed })
    }

    /// The definition of an object's kind; without one, lists are replaced as a whole.
    fn definition(&self, object: &Object) -> Result<Option<Arc<Definition>>, Failure> {
        match self.world.definition(&definition_name(object.group(), object.kind())) {
            Found::Yes(definition) => Ok(Some(definition)),
            Found::Absent => Ok(None),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
            Found::NotAsked => Err(Failure::NotAsked),
        }
    }
}

/// Where a value changes, what it was and what it becomes.
type ChangedValue = (Path, Option<Value>, Option<Value>);

/// A change with what it comes from, and what the value before came from.
fn change(path: &Path, from: Option<Value>, to: Option<Value>, origins: &Origins, old: Option<&Origins>) -> Change {
    let path = path.to_string();
    let because = to.as_ref().and_then(|_| origins.decisive(&path).cloned());
    let is_sensitive = origins.is_sensitive(&path) || old.is_some_and(|old| old.is_sensitive(&path));
    Change { path, from, to, because, is_sensitive }
}

/// Where two values differ; what comes or goes as a whole is named as a whole. The uid only says which object is meant, and
/// who owns which fields is no value.
fn compare(path: &Path, before: &Value, after: &Value, changes: &mut Vec<ChangedValue>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            changes.push((path.clone(), Some(before.clone()), Some(after.clone())));
        }
        return;
    };
    let is_metadata = path.as_str() == "metadata";
    let is_value = |name: &str| !(is_metadata && matches!(name, "uid" | "managedFields"));
    for (name, before) in old.iter().filter(|(name, _)| is_value(name)) {
        match new.get(name) {
            Some(after) if before == after => {}
            Some(after) => compare(&path.member(name), before, after, changes),
            None => changes.push((path.member(name), Some(before.clone()), None)),
        }
    }
    for (name, after) in new.iter().filter(|(name, _)| is_value(name)) {
        if !old.contains_key(name) {
            changes.push((path.member(name), None, Some(after.clone())));
        }
    }
}

/// What is sent of a desired object of any kind (SSA-02 to SSA-05, SSA-17). Of an endpoint that is not known yet, which
/// infrastructure clusters and control planes have, nothing is sent (SSA-03).
///
/// # Errors
/// When the endpoint has a value of the wrong type.
pub fn sent(desired: Object) -> Result<Object, Failure> {
    let mut ignored: Vec<&[&str]> = Vec::new();
    if desired.read("spec.controlPlaneEndpoint")?.is_some() {
        if desired.text("spec.controlPlaneEndpoint.host")? == Some("") {
            ignored.push(HOST);
        }
        if desired.integer("spec.controlPlaneEndpoint.port")? == Some(0) {
            ignored.push(PORT);
        }
    }
    let reduced: Value = ssa::reduce(desired.as_ref(), ssa::SENT, &ignored);
    Object::try_from(reduced).map_err(|found| Failure::Unreadable(format!("what is sent is {found}")))
}
