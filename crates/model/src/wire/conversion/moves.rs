//! Applies the conversion table in both directions.

use serde_json::{Value, json};

use super::form::{self, DowngradeContext};
use super::table::{FieldTable, places};
use super::{ConversionError, ConvertResult, JsonMembers, KindVersions};
use crate::hub::Kind;

/// From v1beta1 to v1beta2.
///
/// Members that only v1beta2 has are removed first: in v1beta1 they are unknown and have no meaning.
pub(super) fn up(kind: Kind, object: &mut Value) -> ConvertResult {
    if kind == Kind::Cluster {
        spread_rollout_after(object);
    }
    places_up(places(kind), object)
}

/// Converts these tables from the older to the newer form.
pub(super) fn places_up(places: &[FieldTable], object: &mut Value) -> ConvertResult {
    for place in places {
        visit(object, place.path, &mut String::new(), &mut |members, at| place_up(place, members, at))?;
    }
    Ok(())
}

/// From v1beta2 to v1beta1.
pub(super) fn down(kind: Kind, object: &mut Value, versions: &KindVersions) -> ConvertResult {
    places_down(places(kind), object, versions)
}

/// Converts these tables from the newer to the older form.
pub(super) fn places_down(places: &[FieldTable], object: &mut Value, versions: &KindVersions) -> ConvertResult {
    let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
    let form = DowngradeContext { namespace: namespace.as_deref(), versions };
    for place in places {
        visit(object, place.path, &mut String::new(), &mut |members, at| place_down(place, members, at, &form))?;
    }
    Ok(())
}

fn place_up(place: &FieldTable, members: &mut JsonMembers, at: &str) -> ConvertResult {
    let mut moved = Vec::new();
    for row in place.rows.iter().copied().flatten() {
        let value = take(members, row.old, at)?;
        if let Some(value) = form::up(row.form, value, &|| join(at, row.old))? {
            moved.push((row.new, value));
        }
    }
    place.old.iter().for_each(|root| drop_hollow(members, root));
    place.new.iter().chain(place.dropped).for_each(|root| forget(members, root));
    moved.into_iter().for_each(|(path, value)| put(members, path, value));
    Ok(())
}

fn place_down(place: &FieldTable, members: &mut JsonMembers, at: &str, form: &DowngradeContext<'_>) -> ConvertResult {
    let mut moved = Vec::new();
    for row in place.rows.iter().copied().flatten() {
        let value = take(members, row.new, at)?;
        if let Some(value) = form.value(row.form, value, &|| join(at, row.new))? {
            moved.push((row.old, value));
        }
    }
    place.new.iter().for_each(|root| drop_hollow(members, root));
    place.old.iter().chain(place.dropped).for_each(|root| forget(members, root));
    moved.into_iter().for_each(|(path, value)| put(members, path, value));
    Ok(())
}

/// Calls `edit` with every object at `path` and its path. Other values are left to the decoder.
fn visit(
    value: &mut Value,
    path: &str,
    at: &mut String,
    edit: &mut dyn FnMut(&mut JsonMembers, &str) -> ConvertResult,
) -> ConvertResult {
    if path.is_empty() {
        return value.as_object_mut().map_or(Ok(()), |members| edit(members, at));
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = step.strip_suffix("[]");
    let Some(member) = value.get_mut(name.unwrap_or(step)) else { return Ok(()) };
    let length = at.len();
    if length > 0 {
        at.push('.');
    }
    at.push_str(name.unwrap_or(step));
    let outcome = match (name, member) {
        (None, member) => visit(member, rest, at, edit),
        (Some(_), Value::Array(entries)) => visit_each(entries, rest, at, edit),
        (Some(_), _) => Ok(()),
    };
    at.truncate(length);
    outcome
}

fn visit_each(
    entries: &mut [Value],
    path: &str,
    at: &mut String,
    edit: &mut dyn FnMut(&mut JsonMembers, &str) -> ConvertResult,
) -> ConvertResult {
    let length = at.len();
    for (i, entry) in entries.iter_mut().enumerate() {
        at.push_str(&format!("[{i}]"));
        visit(entry, path, at, edit)?;
        at.truncate(length);
    }
    Ok(())
}

/// Copies the rollout time of a v1beta1 topology to each part without one (DEC-21).
fn spread_rollout_after(cluster: &mut Value) {
    let Some(topology) = cluster.pointer_mut("/spec/topology").and_then(Value::as_object_mut) else { return };
    let Some(after) = topology.remove("rolloutAfter").filter(|after| !after.is_null()) else { return };
    let give = |part: &mut JsonMembers| {
        if let Some(rollout) = object_or_new(part, "rollout")
            && rollout.get("after").is_none_or(Value::is_null)
        {
            rollout.insert("after".to_owned(), after.clone());
        }
    };
    if let Some(control_plane) = object_or_new(topology, "controlPlane") {
        give(control_plane);
    }
    let workers = topology.get_mut("workers").and_then(|workers| workers.get_mut("machineDeployments"));
    let workers = workers.and_then(Value::as_array_mut).into_iter().flatten();
    workers.filter_map(Value::as_object_mut).for_each(give);
}

/// An object member, created if absent or null; `None` for other values.
fn object_or_new<'a>(members: &'a mut JsonMembers, name: &str) -> Option<&'a mut JsonMembers> {
    let member = members.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = json!({});
    }
    member.as_object_mut()
}

fn join(at: &str, path: &str) -> String {
    format!("{at}.{path}")
}

/// Removes the value at a path; null counts as absent.
fn take(members: &mut JsonMembers, path: &str, at: &str) -> Result<Option<Value>, ConversionError> {
    let mut holder = members;
    let mut rest = path;
    while let Some((step, after)) = rest.split_once('.') {
        rest = after;
        holder = match holder.get_mut(step) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(inner)) => inner,
            Some(_) => {
                let wrong = path.strip_suffix(after).unwrap_or(path).trim_end_matches('.');
                return Err(ConversionError::NoObject { path: join(at, wrong) });
            }
        };
    }
    Ok(holder.remove(rest).filter(|value| !value.is_null()))
}

/// Sets the member at a path, creating objects on the path and replacing other values.
fn put(members: &mut JsonMembers, path: &str, value: Value) {
    let Some((step, rest)) = path.split_once('.') else {
        members.insert(path.to_owned(), value);
        return;
    };
    let next = members.entry(step).or_insert_with(|| json!({}));
    if !next.is_object() {
        *next = json!({});
    }
    if let Some(next) = next.as_object_mut() {
        put(next, rest, value);
    }
}

/// Removes members without a meaning in the version of the object.
fn forget(members: &mut JsonMembers, path: &str) {
    remove_if(members, path, &|_| true);
}

/// Removes members that have become empty.
fn drop_hollow(members: &mut JsonMembers, path: &str) {
    remove_if(members, path, &is_hollow);
}

/// Removes the value at a path, and its parent if that becomes empty.
fn remove_if(members: &mut JsonMembers, path: &str, condition: &dyn Fn(&Value) -> bool) {
    let Some((step, rest)) = path.split_once('.') else {
        if members.get(path).is_some_and(condition) {
            members.remove(path);
        }
        return;
    };
    if let Some(inner) = members.get_mut(step).and_then(Value::as_object_mut)
        && !inner.is_empty()
    {
        remove_if(inner, rest, condition);
        if inner.is_empty() {
            members.remove(step);
        }
    }
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().all(is_hollow),
        _ => false,
    }
}
