//! ExtensionConfigs: v1alpha1 and v1beta2 differ in the place of the status conditions (RH-2.1).

use serde_json::{Map, Value, json};

use super::{ConversionError, omitted_fields};

/// The group of ExtensionConfigs.
pub const GROUP: &str = "runtime.cluster.x-k8s.io";
/// The kind.
pub const KIND: &str = "ExtensionConfig";
const OLD: &str = "v1alpha1";
const NEW: &str = "v1beta2";

/// Whether an `apiVersion` belongs to ExtensionConfigs.
pub fn is_version(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, version)| group == GROUP && [OLD, NEW].contains(&version))
}

/// Converts an ExtensionConfig to an `apiVersion`. Empty fields that v1beta2 leaves out are the only loss (CONV-015).
///
/// # Errors
/// When the object's version or the requested one does not exist.
pub fn convert(object: &mut Value, to: &str) -> Result<(), ConversionError> {
    let from = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    if object["kind"] != KIND || !is_version(&from) || !is_version(to) {
        return Err(ConversionError::NotOurs);
    }
    let members = object.as_object_mut().ok_or(ConversionError::NotOurs)?;
    let is_up = to.ends_with(NEW);
    if from != to
        && let Some(status) = members.get_mut("status").and_then(Value::as_object_mut)
    {
        if is_up { up(status) } else { down(status) }
    }
    members.insert("apiVersion".to_owned(), json!(to));
    members.entry("metadata").or_insert_with(|| json!({}));
    if from != to && is_up {
        omitted_fields::remove_empty(KIND, object);
    }
    Ok(())
}

/// From `conditions` and `v1beta2.conditions` to `deprecated.v1beta1.conditions` and `conditions`.
fn up(status: &mut Map<String, Value>) {
    let legacy = status.remove("conditions");
    let newer = status.remove("v1beta2").and_then(|mut newer| newer.as_object_mut()?.remove("conditions"));
    status.extend(newer.map(|newer| ("conditions".to_owned(), newer)));
    status.extend(legacy.map(|legacy| ("deprecated".to_owned(), json!({"v1beta1": {"conditions": legacy}}))));
}

fn down(status: &mut Map<String, Value>) {
    let newer = status.remove("conditions");
    let legacy = status
        .remove("deprecated")
        .and_then(|mut deprecated| deprecated.pointer_mut("/v1beta1/conditions").map(Value::take));
    status.extend(newer.map(|newer| ("v1beta2".to_owned(), json!({"conditions": newer}))));
    status.extend(legacy.map(|legacy| ("conditions".to_owned(), legacy)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWEST: &str = "runtime.cluster.x-k8s.io/v1beta2";
    const OLDER: &str = "runtime.cluster.x-k8s.io/v1alpha1";

    #[test]
    fn conditions_move_and_come_back() {
        // RH-2.1, RH-2.3
        let spec = json!({"clientConfig": {"url": "https://a"}, "namespaceSelector": {}, "settings": {"a": "b"}});
        let handlers = json!([{"name": "a.b"}]);
        let (legacy, newer) = (json!([{"type": "Discovered", "status": "True"}]), json!([{"type": "Paused"}]));
        let object = |version: &str, status: Value| {
            json!({"apiVersion": version, "kind": KIND,
                "metadata": {"name": "lab"}, "spec": spec, "status": status})
        };
        let old = object(OLDER, json!({"handlers": handlers, "conditions": legacy, "v1beta2": {"conditions": newer}}));
        let new = object(
            NEWEST,
            json!({"handlers": handlers, "conditions": newer, "deprecated": {"v1beta1": {"conditions": legacy}}}),
        );
        let bare = |version: &str| json!({"apiVersion": version, "kind": KIND, "metadata": {}, "spec": spec});
        for (old, new) in [(old, new), (bare(OLDER), bare(NEWEST))] {
            let converted = |object: &Value, to: &str| {
                let mut object = object.clone();
                convert(&mut object, to).unwrap();
                object
            };
            assert_eq!(converted(&old, NEWEST), new);
            assert_eq!(converted(&new, OLDER), old);
            assert_eq!(converted(&new, NEWEST), new);
        }
    }

    #[test]
    fn nothing_else_is_converted() {
        for (object, to) in [
            (json!({"apiVersion": OLDER, "kind": "Cluster"}), NEWEST),
            (json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": KIND}), NEWEST),
            (json!({"apiVersion": OLDER, "kind": KIND}), "runtime.cluster.x-k8s.io/v1"),
            (json!([]), NEWEST),
        ] {
            assert_eq!(convert(&mut object.clone(), to), Err(ConversionError::NotOurs), "{object}");
        }
    }
}
