//! The manifests say the same as the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use topologist::admission::{END_POINTS, Operation, Phase};
use topologist::hub::{GROUP, Kind};
use topologist::wire::Version;
use topologist::yaml;

fn manifest(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(name);
    yaml::documents(&fs::read_to_string(path).unwrap()).into_iter().map(|document| document.unwrap().value).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn webhook_configurations_name_the_end_points_of_the_storage_version() {
    // ADM-001, ADM-002
    let mut named = BTreeSet::new();
    for configuration in manifest("webhooks.yaml") {
        let phase = match configuration["kind"].as_str() {
            Some("MutatingWebhookConfiguration") => Phase::Default,
            Some("ValidatingWebhookConfiguration") => Phase::Validate,
            other => panic!("{other:?}"),
        };
        for webhook in configuration["webhooks"].as_array().unwrap() {
            assert_eq!(webhook["failurePolicy"], "Fail");
            assert_eq!(webhook["matchPolicy"], "Equivalent");
            assert_eq!(webhook["sideEffects"], "None");
            assert_eq!(strings(&webhook["admissionReviewVersions"]), ["v1"]);
            let rule = &webhook["rules"][0];
            assert_eq!((strings(&rule["apiGroups"]), strings(&rule["apiVersions"])), (vec![GROUP], vec!["v1beta2"]));
            let kind = Kind::ALL.into_iter().find(|kind| strings(&rule["resources"]) == [kind.plural()]).unwrap();
            let operations = match phase {
                Phase::Default => vec![Operation::Create, Operation::Update],
                Phase::Validate => vec![Operation::Create, Operation::Update, Operation::Delete],
            };
            let operations: Vec<_> = operations.into_iter().map(Operation::name).collect();
            assert_eq!(strings(&rule["operations"]), operations);
            named.insert((phase, kind, webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned()));
        }
    }
    let served: BTreeSet<_> = END_POINTS
        .iter()
        .filter(|end_point| end_point.version == Version::V1Beta2)
        .map(|end_point| (end_point.phase, end_point.kind, end_point.path.to_owned()))
        .collect();
    assert_eq!(named, served);
}

#[test]
fn permissions_are_those_that_watches_need() {
    let role = manifest("rbac.yaml").into_iter().find(|object| object["kind"] == "ClusterRole").unwrap();
    let rules = role["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 1);
    let mut plurals = Kind::ALL.map(Kind::plural);
    plurals.sort_unstable();
    assert_eq!(strings(&rules[0]["resources"]), plurals);
    assert_eq!(
        (strings(&rules[0]["apiGroups"]), strings(&rules[0]["verbs"])),
        (vec![GROUP], vec!["get", "list", "watch"])
    );
}
