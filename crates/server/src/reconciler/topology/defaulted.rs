//! Default values of variables that a class got after the Cluster was written (BP-03, RS-06).

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Value, json};

use model::hub::{Cluster, Object, VariableValue};

/// The operations that write the defaulted values into a Cluster; nothing else of it changes.
///
/// Lists are written as a whole, with all entries of `raw`.
pub(super) fn operations(raw: &Object, before: &Cluster, after: &Cluster) -> Vec<PatchOperation> {
    let (before, after) = (&before.spec.topology, &after.spec.topology);
    let mut operations = Vec::new();
    let mut list = |path: &[String], before: &[VariableValue], after: &[VariableValue]| {
        if before != after {
            let pointer = PointerBuf::from_tokens(path.iter().map(String::as_str));
            let written = raw.as_ref().pointer(pointer.as_str()).and_then(Value::as_array);
            let value = completed(written.map_or(&[], Vec::as_slice), after);
            operations.push(PatchOperation::Add(AddOperation { path: pointer, value }));
        }
    };
    let path = |steps: &[&str]| -> Vec<String> {
        ["spec", "topology"].iter().chain(steps).map(|step| (*step).to_owned()).collect()
    };
    list(&path(&["variables"]), &before.variables, &after.variables);
    let (of_before, of_after) = (&before.control_plane.variables.overrides, &after.control_plane.variables.overrides);
    list(&path(&["controlPlane", "variables", "overrides"]), of_before, of_after);
    let deployments = before.workers.machine_deployments.iter().zip(after.workers.machine_deployments.iter());
    for (position, (before, after)) in deployments.enumerate() {
        let path = path(&["workers", "machineDeployments", &position.to_string(), "variables", "overrides"]);
        list(&path, &before.variables.overrides, &after.variables.overrides);
    }
    let pools = before.workers.machine_pools.iter().zip(after.workers.machine_pools.iter());
    for (position, (before, after)) in pools.enumerate() {
        let path = path(&["workers", "machinePools", &position.to_string(), "variables", "overrides"]);
        list(&path, &before.variables.overrides, &after.variables.overrides);
    }
    operations
}

/// A list of values with the new ones added.
fn completed(written: &[Value], values: &[VariableValue]) -> Value {
    let complete = |(position, value): (usize, &VariableValue)| {
        let mut entry = written.get(position).cloned().unwrap_or_else(|| json!({"name": value.name}));
        let text = value.value.as_ref().map_or("null", |value| value.get());
        // A value that was read from JSON is JSON.
        entry["value"] = serde_json::from_str(text).unwrap_or_default();
        entry
    };
    values.iter().enumerate().map(complete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::wire::{Decode, WireVersion};

    fn cluster(topology: &Value) -> (Object, Cluster) {
        let value = json!({"metadata": {"name": "c"}, "spec": {"topology": topology}});
        let cluster = Cluster::decode(WireVersion::V1Beta2, &value.to_string()).unwrap();
        (Object::try_from(value).unwrap(), cluster)
    }

    #[test]
    fn defaults_are_written_where_they_are_missing_and_nothing_else() {
        // BP-03, RS-06
        let workers = |value: &Value| {
            json!({"machineDeployments": [
                {"name": "a", "class": "w"},
                {"name": "b", "class": "w", "unknown": 1, "variables": {"overrides": [{"name": "x", "value": value}]}},
            ]})
        };
        let before =
            json!({"variables": [{"name": "x", "value": {"p": 1}, "more": 2}], "workers": workers(&json!({}))});
        let after = json!({
            "variables": [{"name": "x", "value": {"p": 1, "q": 2}}, {"name": "y", "value": "z"}],
            "workers": workers(&json!({"q": 2})),
        });
        let ((raw, before), (_, after)) = (cluster(&before), cluster(&after));
        assert!(operations(&raw, &before, &before).is_empty());
        let patch = json_patch::Patch(operations(&raw, &before, &after));
        let mut patched: Value = raw.as_ref().clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(
            patched["spec"]["topology"]["variables"],
            json!([
                {"name": "x", "value": {"p": 1, "q": 2}, "more": 2}, {"name": "y", "value": "z"},
            ])
        );
        assert_eq!(patched["spec"]["topology"]["workers"], workers(&json!({"q": 2})));
        assert_eq!(patch.0.len(), 2);
    }
}
