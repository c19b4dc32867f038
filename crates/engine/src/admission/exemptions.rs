//! Updates that are allowed regardless of their content, since a denial would block a deletion (DEC-16, DEC-56).

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::oversize::Oversize;
use golang::json;
use model::hub::{Kind, Metadata, annotation, deletion_hold};

/// Whether an update is exempt from validation: of an object that is being deleted with the same spec, so that
/// finalizers can always be removed (DEC-16), or only of the hold on the deletion of a Cluster (DEC-56).
pub(super) fn is_unexamined(kind: Kind, old: &str, new: &str) -> bool {
    // Most updates are neither, and are not decoded again.
    let may_be_released = new.contains("deletionTimestamp");
    let may_be_held = [old, new].iter().any(|text| text.contains(deletion_hold::PREFIX));
    if !may_be_released && !may_be_held || [new, old].iter().any(|text| Oversize::find(text).is_some()) {
        return false;
    }
    keeps_spec_of_a_deleted_object(old, new) || (kind == Kind::Cluster && changes_hold_alone(old, new))
}

/// Whether an update of an object with a deletion timestamp does not change the spec, valid or not.
fn keeps_spec_of_a_deleted_object(old: &str, new: &str) -> bool {
    #[derive(Deserialize)]
    struct MetadataAndSpec<'a> {
        metadata: Metadata,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    let (Ok(new), Ok(old)) = (json::decode::<MetadataAndSpec<'_>>(new), json::decode::<MetadataAndSpec<'_>>(old))
    else {
        return false;
    };
    let value = |raw: Option<&RawValue>| raw.and_then(|raw| json::value(raw.get()).ok());
    new.metadata.is_being_deleted() && value(new.spec) == value(old.spec)
}

/// Whether an update only sets, changes or removes the hold on the deletion of a Cluster. It must be possible if the
/// class no longer accepts the Cluster, which could not be deleted otherwise.
fn changes_hold_alone(old: &str, new: &str) -> bool {
    match (without_hold(old), without_hold(new)) {
        (Some((old_hold, old)), Some((new_hold, new))) => old_hold != new_hold && old == new,
        _ => false,
    }
}

/// The hold on a Cluster, and the Cluster without it and without metadata of the API server.
fn without_hold(text: &str) -> Option<(Option<Value>, Value)> {
    let mut value = json::value(text).ok()?;
    let metadata = value.get_mut("metadata")?.as_object_mut()?;
    for name in ["managedFields", "resourceVersion", "generation"] {
        metadata.remove(name);
    }
    let mut hold = None;
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        let is_hold = |value: &&Value| value.as_str().is_some_and(|value| !deletion_hold::is_pause(value));
        hold = annotations.get(annotation::PAUSED).filter(is_hold).cloned();
        if hold.is_some() {
            annotations.remove(annotation::PAUSED);
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    Some((hold, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOLD: &str = "topologist.dev/before-cluster-delete uid=u since=2030-01-01T00:00:00Z";

    fn cluster(paused: Option<&str>, version: &str, metadata: Value) -> String {
        let mut all =
            json!({"metadata": {"name": "c", "resourceVersion": "1"}, "spec": {"topology": {"version": version}}});
        if let Some(paused) = paused {
            all["metadata"]["annotations"] = json!({annotation::PAUSED: paused});
        }
        json_patch::merge(&mut all["metadata"], &metadata);
        all.to_string()
    }

    #[test]
    fn the_hold_alone_may_be_written_and_removed() {
        // DEC-56
        let plain = || cluster(None, "v1.31.0", json!({}));
        let held =
            || cluster(Some(HOLD), "v1.31.0", json!({"resourceVersion": "2", "managedFields": [{"manager": "m"}]}));
        let other = HOLD.replace("uid=u", "uid=other");
        for (case, old, new, want) in [
            ("written", plain(), held(), true),
            ("removed", held(), plain(), true),
            ("replaced", cluster(Some(&other), "v1.31.0", json!({})), held(), true),
            ("unchanged", held(), held(), false),
            ("a pause", plain(), cluster(Some("by me"), "v1.31.0", json!({})), false),
            ("a pause instead of the hold", held(), cluster(Some("by me"), "v1.31.0", json!({})), false),
            ("with a version", plain(), cluster(Some(HOLD), "v1.32.0", json!({})), false),
            ("with an annotation", plain(), cluster(Some(HOLD), "v1.31.0", json!({"annotations": {"a": ""}})), false),
            ("with a label", plain(), cluster(Some(HOLD), "v1.31.0", json!({"labels": {"a": ""}})), false),
            ("no object", "null".to_owned(), held(), false),
            ("no JSON", "{".to_owned(), held(), false),
        ] {
            assert_eq!(is_unexamined(Kind::Cluster, &old, &new), want, "{case}");
            assert!(!is_unexamined(Kind::ClusterClass, &old, &new), "{case}");
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_may_keep_a_spec_that_is_wrong() {
        // DEC-16
        let leaving = |version: &str, metadata: Value| {
            let mut all = json!({"deletionTimestamp": "2030-01-01T00:00:00Z"});
            json_patch::merge(&mut all, &metadata);
            cluster(None, version, all)
        };
        let old = leaving("wrong", json!({"finalizers": ["a"]}));
        assert!(is_unexamined(Kind::ClusterClass, &old, &leaving("wrong", json!({}))));
        assert!(!is_unexamined(Kind::ClusterClass, &old, &leaving("other", json!({}))));
        assert!(!is_unexamined(Kind::ClusterClass, &old, &cluster(None, "wrong", json!({}))));
    }
}
