//! Plans beside the objects that exist: as `kubectl get -o yaml` prints them, with the record of field owners and
//! without.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use topologist::ssa::{MergeSchema, as_applied, with_managers};
use topologist::yaml;

use crate::harness::server::command;

/// How an export shows who owns the fields of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owners {
    /// `kubectl get -o yaml --show-managed-fields`
    Shown,
    /// `kubectl get -o yaml`
    Hidden,
}

/// A kind, what the plan says of it, and what is done to every object of it.
type Edit = (&'static str, &'static str, fn(&mut Value));

/// Where machine templates of the bundle say how machines start.
const VM: &str = "/spec/template/spec/backend/inMemory/vm/provisioning";

fn bundle(provider: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers").join(provider).join("bundle.yaml");
    yaml::documents(&fs::read_to_string(path).unwrap()).into_iter().map(|document| document.unwrap().value).collect()
}

fn written(objects: &[Value]) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text: String = objects.iter().map(|object| format!("---\n{object:#}\n")).collect();
    fs::write(file.path(), text).unwrap();
    file
}

/// The bundle with everything that its topology has made.
fn exported(bundle: &[Value], owners: Owners) -> Vec<Value> {
    let output = command(&["render", "-o", "json"]).arg(written(bundle).path()).output().unwrap();
    let rendered: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let mut all = bundle.to_vec();
    let cluster = all.iter_mut().find(|one| one["kind"] == "Cluster").unwrap();
    cluster["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = cluster["metadata"]["name"].clone();
    cluster["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"] = json!("");
    let mut made = Vec::new();
    for mut object in rendered {
        let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let reference = json!({"apiGroup": group, "kind": object["kind"], "name": object["metadata"]["name"]});
        match object["kind"].as_str().unwrap() {
            "DevCluster" => cluster["spec"]["infrastructureRef"] = reference,
            "KubeadmControlPlane" => {
                cluster["spec"]["controlPlaneRef"] = reference;
                object["status"] = json!({"version": object["spec"]["version"]});
            }
            _ => {}
        }
        object["metadata"]["uid"] = json!(format!("uid-of-{}", object["metadata"]["name"].as_str().unwrap()));
        if owners == Owners::Shown {
            let entry = as_applied("capi-topology", &object, &MergeSchema::unknown());
            object = with_managers(object, &[entry]);
        }
        made.push(object);
    }
    all.extend(made);
    all
}

/// The bundle after an edit of one of its objects.
fn edited(objects: &[Value], kind: &str, edit: impl Fn(&mut Value)) -> Vec<Value> {
    let mut edited = objects.to_vec();
    edited.iter_mut().filter(|one| one["kind"] == kind).for_each(edit);
    assert_ne!(edited, objects, "the edit of {kind} changes something");
    edited
}

fn plan(from: &[Value], to: &[Value]) -> (i32, String) {
    let (from, to) = (written(from), written(to));
    let output = command(&["plan", "--from"]).arg(from.path()).arg("--to").arg(to.path()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout) + &text(output.stderr))
}

/// The lines that say what changes, without what comes from the identity of objects.
fn lines(output: &str) -> Vec<&str> {
    output.lines().map(str::trim).collect()
}

#[test]
fn a_plan_with_existing_objects_equals_the_plan_of_the_files() {
    // DEC-43: fields that are added, changed and removed
    let bundle = bundle("in-memory");
    let edits: [Edit; 6] = [
        ("DevMachineTemplate", "rotate DevMachineTemplate", |one| {
            drop(one.pointer_mut(VM).and_then(|vm| vm.as_object_mut()?.remove("startupDuration")));
        }),
        ("DevMachineTemplate", "rotate DevMachineTemplate", |one| {
            one.pointer_mut(VM).into_iter().for_each(|vm| vm["startupDuration"] = json!("77s"));
        }),
        ("DevMachineTemplate", "rotate DevMachineTemplate", |one| {
            one.pointer_mut(VM).into_iter().for_each(|vm| vm["startupJitter"] = json!("0.5"));
        }),
        ("KubeadmConfigTemplate", "rotate KubeadmConfigTemplate", |one| {
            one["spec"]["template"]["spec"] = json!({"format": "cloud-config"});
        }),
        ("Cluster", "apply  MachineDeployment", |one| {
            drop(
                one.pointer_mut("/spec/topology/workers/machineDeployments/0")
                    .and_then(|md| md.as_object_mut()?.remove("replicas")),
            );
        }),
        ("Cluster", "apply  MachineDeployment", |one| {
            one["spec"]["topology"]["workers"]["machineDeployments"][0]["failureDomain"] = json!("b");
        }),
    ];
    for (position, (kind, headline, edit)) in edits.into_iter().enumerate() {
        let (code, want) = plan(&bundle, &edited(&bundle, kind, edit));
        assert!(code >= 3 && want.contains(headline), "edit {position}: {want}");
        for owners in [Owners::Shown, Owners::Hidden] {
            let from = exported(&bundle, owners);
            assert_eq!(plan(&from, &from), (0, "1 Cluster, nothing changes\n".to_owned()), "{owners:?}");
            // Whoever edits the class has the objects among the files of one side, or of both.
            for to in [edited(&from, kind, edit), edited(&bundle, kind, edit)] {
                let (is, output) = plan(&from, &to);
                assert_eq!((is, lines(&output)), (code, lines(&want)), "edit {position}, {owners:?}");
            }
        }
    }
}

#[test]
fn a_removed_failure_domain_replaces_machines() {
    // DEC-43, ROLL-9
    let domain =
        |one: &mut Value| one["spec"]["topology"]["workers"]["machineDeployments"][0]["failureDomain"] = json!("b");
    let before = edited(&bundle("in-memory"), "Cluster", domain);
    let after = bundle("in-memory");
    for owners in [Owners::Shown, Owners::Hidden] {
        let (code, output) = plan(&exported(&before, owners), &after);
        assert!(
            code == 4 && output.contains("spec.template.spec.failureDomain: \"b\" → nothing"),
            "{owners:?}: {output}"
        );
    }
}

#[test]
fn values_that_a_provider_normalises_are_no_changes() {
    // DEC-43
    let bundle = bundle("in-memory");
    for owners in [Owners::Shown, Owners::Hidden] {
        let mut from = exported(&bundle, owners);
        let templates =
            from.iter_mut().filter(|one| one["kind"] == "DevMachineTemplate" && one["metadata"]["uid"].is_string());
        for template in templates {
            template["spec"]["template"]["spec"]["backend"]["inMemory"]["vm"]["provisioning"]["startupDuration"] =
                json!("0h0m15s");
            template["spec"]["template"]["spec"]["providerID"] = json!("set by the provider");
        }
        assert_eq!(plan(&from, &from).0, 0, "{owners:?}");
        assert_eq!(plan(&from, &bundle).0, 0, "{owners:?}");
        // Where it has not been rolled out, what differs is a change.
        let paused = edited(&from, "Cluster", |one| one["spec"]["paused"] = json!(true));
        let (code, output) = plan(&paused, &bundle);
        assert!(code == 4 && output.contains("startupDuration: \"0h0m15s\" → \"15s\""), "{owners:?}: {output}");
    }
}

/// The machine templates that the topology has made.
fn made(objects: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    objects.iter_mut().filter(|one| one["kind"] == "DevMachineTemplate" && one["metadata"]["uid"].is_string())
}

/// The fields of the entry of a machine template, below `vm.provisioning`.
const OF_VM: &str =
    "/metadata/managedFields/0/fieldsV1/f:spec/f:template/f:spec/f:backend/f:inMemory/f:vm/f:provisioning";

#[test]
fn managed_fields_of_another_version_decide_removals_and_are_no_change() {
    // DEC-43, SSA-01: what Cluster API applied in v1beta1, before the provider had v1beta2
    let bundle = bundle("in-memory");
    let removed = edited(&bundle, "DevMachineTemplate", |one| {
        drop(one.pointer_mut(VM).and_then(|vm| vm.as_object_mut()?.remove("startupDuration")));
    });
    let older = "infrastructure.cluster.x-k8s.io/v1beta1";
    for has_other_names in [false, true] {
        let mut from = exported(&bundle, Owners::Shown);
        for template in made(&mut from) {
            template["metadata"]["managedFields"][0]["apiVersion"] = json!(older);
            if has_other_names {
                let fields = template.pointer_mut(OF_VM).unwrap().as_object_mut().unwrap();
                let field = fields.remove("f:startupDuration").unwrap();
                fields.insert("f:startup".to_owned(), field);
            }
            let theirs = json!({"f:spec": {"f:template": {"f:spec": {"f:other": {}}}}});
            template["spec"]["template"]["spec"]["other"] = json!("theirs");
            let entry = json!({"manager": "another", "operation": "Update", "apiVersion": older,
                "fieldsType": "FieldsV1",
                "fieldsV1": theirs});
            template["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
        }
        assert_eq!(plan(&from, &bundle), (0, "1 Cluster, nothing changes\n".to_owned()), "{has_other_names}");
        let (code, output) = plan(&from, &removed);
        assert!(code == 4 && output.contains("startupDuration: \"15s\" → nothing"), "{has_other_names}: {output}");
    }
}

#[test]
fn a_value_that_another_manager_took_over_is_set_back() {
    // DEC-43, SSA-01
    let bundle = bundle("in-memory");
    let take = |all: &mut Vec<Value>, is_recorded: bool| {
        for template in made(all) {
            *template.pointer_mut(VM).unwrap() = json!({"startupDuration": "77s", "startupJitter": "0.2"});
            if is_recorded {
                let fields = template.pointer_mut(OF_VM).unwrap();
                drop(fields.as_object_mut().unwrap().remove("f:startupDuration"));
            }
        }
    };
    for (is_recorded, want) in [(true, 4), (false, 0)] {
        let mut from = exported(&bundle, Owners::Shown);
        take(&mut from, is_recorded);
        let (code, output) = plan(&from, &bundle);
        assert_eq!((code, output.contains("startupDuration: \"77s\" → \"15s\"")), (want, is_recorded), "{output}");
    }
    // A record that was lost says nothing of what others have taken (SSA-22).
    let mut from = exported(&bundle, Owners::Shown);
    take(&mut from, true);
    made(&mut from)
        .for_each(|one| one["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:metadata": {"f:name": {}}}));
    assert_eq!(plan(&from, &bundle).0, 0);
}

#[test]
fn a_new_template_lacks_fields_that_others_set_on_the_old_one() {
    // ROT-05
    let bundle = bundle("in-memory");
    let longer = edited(&bundle, "DevMachineTemplate", |one| {
        one.pointer_mut(VM).into_iter().for_each(|vm| vm["startupDuration"] = json!("99s"));
    });
    let mut from = exported(&bundle, Owners::Shown);
    for template in made(&mut from) {
        template["spec"]["template"]["spec"]["providerID"] = json!("theirs");
        template["spec"]["template"]["spec"]["default"] = json!("of the provider");
        let theirs = json!({"f:spec": {"f:template": {"f:spec": {"f:providerID": {}}}}});
        let entry = json!({"manager": "another", "operation": "Update", "apiVersion": template["apiVersion"],
            "fieldsType": "FieldsV1", "fieldsV1": theirs});
        template["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
    }
    assert_eq!(plan(&from, &bundle).0, 0);
    let (code, output) = plan(&from, &longer);
    assert!(code == 4 && output.contains("spec.template.spec.providerID: \"theirs\" → nothing"), "{output}");
    assert!(!output.contains("of the provider"), "defaults come again: {output}");
}

#[test]
fn a_cluster_that_cannot_be_decoded_is_denied_and_not_deleted() {
    let bundle = bundle("in-memory");
    let broken = edited(&bundle, "Cluster", |one| one["spec"]["topology"]["controlPlane"]["replicas"] = json!("five"));
    let (code, output) = plan(&bundle, &broken);
    assert_eq!(code, 1, "{output}");
    assert!(output.starts_with("denied: ") && !output.contains("delete"), "{output}");
}

#[test]
fn a_removed_patch_is_named() {
    let bundle = bundle("docker");
    let without = edited(&bundle, "ClusterClass", |one| {
        one["spec"]["patches"].as_array_mut().unwrap().retain(|patch| patch["name"] != "machineImage");
    });
    let (code, output) = plan(&bundle, &without);
    assert_eq!(code, 4, "{output}");
    assert!(output.contains("customImage") && output.contains("before: patch \"machineImage\""), "{output}");
}
