//! The definitions that are included in the program, beside those of Cluster API's module.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::programs;

/// The included files, with the part of Cluster API and the file in it that they are made from.
const FILES: [(&str, &str, &str); 4] = [
    ("kubeadmconfigs", "bootstrap", "bootstrap.cluster.x-k8s.io_kubeadmconfigs"),
    ("kubeadmconfigtemplates", "bootstrap", "bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates"),
    ("kubeadmcontrolplanes", "control-plane", "controlplane.cluster.x-k8s.io_kubeadmcontrolplanes"),
    ("kubeadmcontrolplanetemplates", "control-plane", "controlplane.cluster.x-k8s.io_kubeadmcontrolplanetemplates"),
];

/// Set by `make definitions`, which writes the files.
const WRITE: &str = "TOPOLOGIST_TEST_WRITE_DEFINITIONS";

#[test]
fn are_those_of_cluster_api() {
    let included = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/included_definitions");
    for (name, part, source) in FILES {
        let definition = fs::read_to_string(definition(part, source)).unwrap();
        let definition = yaml::documents(&definition).remove(0).unwrap().value;
        let wanted = format!("{}\n", json!({"release": release(), "definition": reduced(&definition)}));
        let path = included.join(format!("{name}.json"));
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let is_current = fs::read_to_string(&path).is_ok_and(|found| found == wanted);
        assert!(is_current, "{} differs from Cluster API's definition; `make definitions` writes it", path.display());
    }
}

fn definition(part: &str, file: &str) -> PathBuf {
    programs::folder("reference").join(format!("{part}.config/crd/bases/{file}.yaml"))
}

/// The version of Cluster API that tests are built with.
fn release() -> String {
    let pins = fs::read_to_string(programs::scripts().join("reference/go.mod")).unwrap();
    let pin = pins.lines().find_map(|line| line.strip_prefix("require sigs.k8s.io/cluster-api v"));
    format!("v{}", pin.unwrap())
}

/// The schemas of a definition without descriptions, which checks do not need.
fn reduced(definition: &Value) -> Value {
    let versions = definition["spec"]["versions"].as_array().unwrap().iter();
    let version = |version: &Value| {
        let mut schema = version["schema"]["openAPIV3Schema"].clone();
        remove_descriptions(&mut schema);
        json!({"name": version["name"], "schema": {"openAPIV3Schema": schema}})
    };
    json!({
        "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]},
        "spec": {"versions": versions.map(version).collect::<Vec<_>>()},
    })
}

/// Removes the descriptions of a schema. A property may have that name, too.
fn remove_descriptions(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    if schema.get("description").is_some_and(Value::is_string) {
        schema.remove("description");
    }
    for (key, value) in schema {
        match key.as_str() {
            "properties" => value.as_object_mut().unwrap().values_mut().for_each(remove_descriptions),
            "items" | "additionalProperties" => remove_descriptions(value),
            _ => {}
        }
    }
}
