//! Namespaces of the template references of a v1beta1 ClusterClass, which the hub lacks.

use serde_json::Value;

use super::WireVersion;
use golang::json;
use schema::field::Path;

/// A template reference of a v1beta1 ClusterClass as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Path of errors about the reference: `spec.infrastructure.ref` (TRF).
    pub path: Path,
    /// JSON pointer to it in the object.
    pub pointer: String,
    /// Its namespace; `None` if absent, null or empty.
    pub namespace: Option<String>,
}

/// The template references of a ClusterClass, in the order of CC-V-002; empty for versions whose references have no
/// namespace. Only objects are listed.
pub fn references(version: WireVersion, text: &str) -> Vec<Reference> {
    if version == WireVersion::V1Beta2 {
        return Vec::new();
    }
    let Ok(object) = json::value(text) else { return Vec::new() };
    holders(&object).into_iter().filter_map(|(path, pointer)| reference(&object, path, &pointer)).collect()
}

/// Error path and JSON pointer of each object that may have a `ref`.
fn holders(object: &Value) -> Vec<(Path, String)> {
    let fixed = [
        ("spec.infrastructure", "/spec/infrastructure"),
        ("spec.controlPlane", "/spec/controlPlane"),
        ("spec.controlPlane.machineInfrastructure", "/spec/controlPlane/machineInfrastructure"),
    ];
    let mut holders: Vec<_> = fixed.into_iter().map(|(path, pointer)| (Path::new(path), pointer.to_owned())).collect();
    for list in ["machineDeployments", "machinePools"] {
        let pointer = format!("/spec/workers/{list}");
        let count = object.pointer(&pointer).and_then(Value::as_array).map_or(0, Vec::len);
        for i in 0..count {
            let path = Path::new("spec.workers").child(list).index(i).child("template");
            holders.extend(
                ["bootstrap", "infrastructure"]
                    .map(|part| (path.child(part), format!("{pointer}/{i}/template/{part}"))),
            );
        }
    }
    holders
}

fn reference(object: &Value, path: Path, holder: &str) -> Option<Reference> {
    let pointer = format!("{holder}/ref");
    let members = object.pointer(&pointer)?.as_object()?;
    let namespace = members.get("namespace").and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(Reference { path: path.child("ref"), pointer, namespace: namespace.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_listed_with_their_namespaces() {
        // DEC-3
        let text = json!({"spec": {
            "infrastructure": {"ref": {"name": "a", "namespace": "x"}},
            "controlPlane": {"ref": {"name": "a", "namespace": ""}, "machineInfrastructure": {"ref": null}},
            "workers": {"machineDeployments": [
                {"template": {"bootstrap": {"ref": {}}, "infrastructure": {"ref": {"namespace": "y"}}}}, 5,
            ], "machinePools": {"a": 1}},
        }})
        .to_string();
        let shown: Vec<_> = references(WireVersion::V1Beta1, &text)
            .into_iter()
            .map(|reference| (reference.path.to_string(), reference.pointer, reference.namespace))
            .collect();
        let row = |path: &str, pointer: &str, namespace: Option<&str>| {
            (path.to_owned(), pointer.to_owned(), namespace.map(str::to_owned))
        };
        let worker = "/spec/workers/machineDeployments/0/template";
        assert_eq!(
            shown,
            [
                row("spec.infrastructure.ref", "/spec/infrastructure/ref", Some("x")),
                row("spec.controlPlane.ref", "/spec/controlPlane/ref", None),
                row(
                    "spec.workers.machineDeployments[0].template.bootstrap.ref",
                    &format!("{worker}/bootstrap/ref"),
                    None
                ),
                row(
                    "spec.workers.machineDeployments[0].template.infrastructure.ref",
                    &format!("{worker}/infrastructure/ref"),
                    Some("y")
                ),
            ]
        );
        assert_eq!(references(WireVersion::V1Beta2, &text), []);
    }
}
