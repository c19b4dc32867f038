//! Comparison of machine templates (MA-21.1).

use serde_json::Value;

use crate::lifecycle::fields::text;
use model::hub::contract::object_kind;
use model::hub::{Object, paths};

/// Fields of a machine template whose changes replace machines (MA-21.1), as in the rollout table.
pub(super) const REPLACING: [&str; 4] = [
    paths::worker::VERSION,
    paths::worker::BOOTSTRAP,
    paths::worker::INFRASTRUCTURE_REF,
    paths::worker::FAILURE_DOMAIN,
];

/// Differences between the machines of a set and those desired by its MachineDeployment, one line per field; empty if
/// their templates are equal for rollouts (MA-21.1, MA-21.2).
pub(in crate::lifecycle) fn differences(have: &Object, want: &Object) -> Vec<String> {
    REPLACING.iter().filter(|path| is_different(have, want, path)).map(|path| message(have, want, path)).collect()
}

fn is_different(have: &Object, want: &Object, path: &str) -> bool {
    let read = |object: &Object| -> Value {
        match object.at(path) {
            None | Some(Value::Null) => Value::Null,
            Some(Value::String(text)) if text.is_empty() => Value::Null,
            Some(Value::Object(members)) => {
                let set = members.iter().filter(|(_, value)| !is_empty(value));
                Value::Object(set.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            Some(value) => value.clone(),
        }
    };
    read(have) != read(want)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn message(have: &Object, want: &Object, path: &str) -> String {
    let kind = |path: &str| object_kind(text(want, &format!("{path}.kind"))).to_owned();
    let change = |what: &str, path: &str| {
        let shown = |object: &Object| match text(object, path) {
            "" => "(none)".to_owned(),
            text => text.to_owned(),
        };
        format!("{what} {}, {} required", shown(have), shown(want))
    };
    match path.rsplit('.').next().unwrap_or_default() {
        "version" => change("Version", path),
        "failureDomain" => change("Failure domain", path),
        "bootstrap" => match kind(&format!("{path}.configRef")) {
            kind if kind.is_empty() => change("Bootstrap data Secret", &format!("{path}.dataSecretName")),
            kind => format!("{kind} is not up-to-date"),
        },
        _ => format!("{} is not up-to-date", kind(path)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::rollouts::{ROWS, RolloutEffect, RolloutOwner};

    #[test]
    fn the_fields_that_replace_machines_are_those_of_the_rollout_table() {
        // MA-21.1, ROLL-9
        let replaces = ROWS.iter().filter(|row| row.owners.contains(&RolloutOwner::MachineDeployment));
        let mut paths: Vec<&str> =
            replaces.filter(|row| row.effect == RolloutEffect::Replaces).map(|row| row.path).collect();
        let mut ours = REPLACING.to_vec();
        paths.sort_unstable();
        ours.sort_unstable();
        assert_eq!(paths, ours);
    }

    #[test]
    fn templates_differ_by_four_fields_and_by_nothing_else() {
        // MA-21.1, MA-21.2
        let reference = |kind: &str, name: &str| json!({"apiGroup": "g", "kind": kind, "name": name});
        let base = json!({"spec": {"template": {
            "metadata": {"labels": {"a": "1"}},
            "spec": {
                "version": "v1.31.0", "clusterName": "demo", "failureDomain": "",
                "bootstrap": {"configRef": reference("FooConfigTemplate", "a")},
                "infrastructureRef": reference("FooMachineTemplate", "a"),
            },
        }}});
        let object = |value: &Value| Object::try_from(value.clone()).unwrap();
        for (path, value, want) in [
            ("spec/version", json!("v1.32.0"), vec!["Version v1.31.0, v1.32.0 required"]),
            (
                "spec/bootstrap",
                json!({"configRef": reference("FooConfigTemplate", "b")}),
                vec!["FooConfig is not up-to-date"],
            ),
            ("spec/bootstrap", json!({"dataSecretName": "s"}), vec!["Bootstrap data Secret (none), s required"]),
            ("spec/bootstrap/dataSecretName", json!(""), vec![]),
            ("spec/infrastructureRef", reference("FooMachineTemplate", "b"), vec!["FooMachine is not up-to-date"]),
            ("spec/failureDomain", json!("one"), vec!["Failure domain (none), one required"]),
            ("spec/failureDomain", Value::Null, vec![]),
            ("metadata/labels", json!({"b": "2"}), vec![]),
            ("metadata/annotations", json!({"b": "2"}), vec![]),
            ("spec/clusterName", json!("other"), vec![]),
            ("spec/providerID", json!("p"), vec![]),
            ("spec/minReadySeconds", json!(3), vec![]),
            ("spec/readinessGates", json!([{"conditionType": "x"}]), vec![]),
            ("spec/deletion", json!({"nodeDrainTimeoutSeconds": 3}), vec![]),
            ("spec/taints", json!([{"key": "x"}]), vec![]),
        ] {
            let mut want_object = base.clone();
            let (parent, name) = path.rsplit_once('/').unwrap();
            want_object.pointer_mut(&format!("/spec/template/{parent}")).unwrap()[name] = value.clone();
            assert_eq!(differences(&object(&base), &object(&want_object)), want, "{path} {value}");
        }
    }
}
