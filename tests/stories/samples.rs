//! What `plan` says of classes that no Cluster uses (DEC-48).

use serde_json::{Value, json};
use topologist::yaml;

use crate::plans::{bundle, plan};

const PROVIDERS: [&str; 5] = ["aws", "azure", "docker", "in-memory", "vsphere"];

/// A bundle without its Clusters.
fn classes(provider: &str) -> String {
    let documents = yaml::documents(&bundle(provider)).into_iter().map(|document| document.unwrap().value);
    let classes: Vec<String> =
        documents.filter(|object| object["kind"] != "Cluster").map(|object| object.to_string()).collect();
    classes.join("\n---\n")
}

fn planned(before: &str, after: &str) -> (i32, Value) {
    let (code, message) = plan(before, after, &["-o", "json"]);
    (code, serde_json::from_str(&message).unwrap_or_else(|_| panic!("{message}")))
}

/// The bundle with the definition of a variable that Clusters must set.
fn with_variable(text: &str, variable: &Value) -> String {
    let mut documents: Vec<Value> = yaml::documents(text).into_iter().map(|document| document.unwrap().value).collect();
    let class = documents.iter_mut().find(|object| object["kind"] == "ClusterClass").unwrap();
    class["spec"]["variables"] = json!([variable]);
    documents.iter().map(|object| format!("{object}\n---\n")).collect()
}

#[test]
fn every_provider_shape_can_be_planned_without_a_cluster() {
    for provider in PROVIDERS {
        let text = classes(provider);
        assert_eq!(plan(&text, &text, &[]), (0, "1 sample Cluster, nothing changes\n".to_owned()), "{provider}");
    }
}

#[test]
fn a_field_of_a_template_rolls_a_sample() {
    let before = classes("in-memory");
    let after = before.replace("\"startupDuration\":\"15s\"", "\"startupDuration\":\"16s\"");
    assert_ne!(before, after);
    let (code, message) = planned(&before, &after);
    assert_eq!(code, 4);
    let sample = &message["clusters"][0];
    assert_eq!((&sample["name"], &sample["sample"]), (&json!("sample-paper"), &json!(true)));
    assert_eq!(sample["rolls"][0]["machines"]["replaced"], 1, "{sample:#}");
    let change = &sample["steps"][0]["changes"][0];
    assert_eq!((&change["from"], &change["to"]), (&json!("15s"), &json!("16s")));
    let none = json!({"replaced": 0, "removed": 0, "added": 0, "outdatedUntilDeleted": 0, "atLeast": 0});
    let summary = json!({"clusters": 0, "changed": 0, "machines": none, "deletedObjects": 0});
    assert_eq!(message["summary"], summary, "nothing runs");
    assert_eq!(message["complete"], true);
    let title = "ClusterClass default/paper: sample Cluster default/sample-paper (v1.34.0) of the class, generated from its schemas\n";
    let (_, text) = plan(&before, &after, &[]);
    assert!(text.starts_with(&format!("1 of 1 sample Cluster changed\n\n{title}")), "{text}");
    let (_, markdown) = plan(&before, &after, &["-o", "markdown"]);
    assert!(markdown.contains(&format!("<summary>{}</summary>", title.trim_end())), "{markdown}");
}

#[test]
fn a_class_that_a_cluster_uses_has_no_sample() {
    let (before, without) = (bundle("in-memory"), classes("in-memory"));
    for (before, after) in [(&before, &before), (&before, &without), (&without, &before)] {
        let (_, message) = planned(before, after);
        assert_eq!(message["clusters"].as_array().unwrap().len(), 1);
        assert_eq!((&message["clusters"][0]["name"], message.get("classes")), (&json!("memo"), None));
        assert!(message["clusters"][0].get("sample").is_none(), "{message:#}");
    }
    // A Cluster of that name does not lose it to a sample.
    let other = without.replace("\"name\":\"paper\"", "\"name\":\"spare\"");
    let both = format!("{}\n---\n{other}", bundle("in-memory").replace("\"memo\"", "\"sample-spare\""));
    let (code, message) = planned(&both, &both);
    let names: Vec<&Value> = message["clusters"].as_array().unwrap().iter().map(|cluster| &cluster["name"]).collect();
    assert_eq!((code, names), (0, vec![&json!("sample-2-spare"), &json!("sample-spare")]));
    let (_, message) = plan(&both, &both, &["--cluster", "sample-2-spare"]);
    assert_eq!(message, "1 sample Cluster, nothing changes\n");
    let (_, message) = plan(&both, &both, &["--cluster", "sample-spare"]);
    assert_eq!(message, "1 Cluster, nothing changes\n");
}

#[test]
fn new_and_deleted_classes_are_listed() {
    let all = classes("docker");
    let rest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let (code, message) = planned(rest, &all);
    assert_eq!((code, &message["clusters"][0]["sample"]), (3, &json!(true)), "{message:#}");
    let actions = message["clusters"][0]["steps"].as_array().unwrap().iter().map(|step| &step["action"]);
    assert!(actions.clone().any(|action| action == "create") && actions.clone().all(|action| action != "delete"));
    let (_, text) = plan(rest, &all, &[]);
    assert!(
        text.starts_with(
            "1 of 1 sample Cluster changed\n\n\
                          ClusterClass default/workshop is new: sample Cluster default/sample-workshop ("
        ),
        "{text}"
    );
    let (code, text) = plan(&all, rest, &[]);
    let want = "1 ClusterClass changed without a Cluster\n\n\
                ClusterClass default/workshop, which no Cluster uses, is deleted\n  delete ClusterClass workshop: it is not among the new files\n\nexit code 5: objects are deleted and not replaced\n";
    assert_eq!((code, &*text), (5, want));
}

#[test]
fn required_variables_get_a_value_of_their_schema() {
    let plain = bundle("in-memory");
    let plain = &plain[..plain.rfind("---").unwrap()];
    let schema = |schema: Value| json!({"name": "site", "required": true, "schema": {"openAPIV3Schema": schema}});
    let of = |value: Value| with_variable(plain, &schema(value));
    for schema in [
        json!({"type": "string", "pattern": "^[a-z]{3}-\\d+$"}),
        json!({"type": "object", "required": ["ip"], "properties": {"ip": {"type": "string", "format": "ipv4"}}}),
        json!({"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer", "minimum": 3}}),
        json!({"type": "string", "example": "north", "x-kubernetes-validations": [{"rule": "self.size() * 7 == 35"}]}),
    ] {
        let text = of(schema.clone());
        assert_eq!(plan(&text, &text, &[]), (0, "1 sample Cluster, nothing changes\n".to_owned()), "{schema}");
        // The sides do not have the same sample, since the old class does not know the variable; and the class differs.
        let (code, message) = planned(plain, &text);
        assert_eq!((code, &message["complete"]), (3, &json!(true)), "{message:#}");
        assert_eq!(message["classes"][0]["steps"][0]["changes"][0]["path"], "spec.variables");
        let warning = message["clusters"][0]["warnings"][0].as_str().unwrap();
        assert!(
            warning
                .starts_with("the sample differs before and after the change, because no sample is valid for both: "),
            "{warning}"
        );
    }
}

#[test]
fn without_a_sample_templates_and_patches_are_compared() {
    let rule = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.size() * self.size() == 1849"}]});
    let variable = json!({"name": "site", "required": true, "schema": {"openAPIV3Schema": rule}});
    let before = with_variable(&classes("in-memory"), &variable);
    let reason = "cannot generate a sample Cluster of ClusterClass default/paper, which no Cluster uses: before the \
                  change: no valid value was found for the variable site: ";
    let help = "; add an example or a default to its schema, or a Cluster of the class to the files";
    let (code, message) = planned(&before, &before);
    let reported = message["incomplete"][0].as_str().unwrap();
    assert!(reported.starts_with(reason) && reported.ends_with(help), "{reported}");
    assert_eq!((code, &message["complete"], &message["clusters"]), (0, &json!(false), &json!([])));
    assert!(message.get("classes").is_none(), "{message:#}");

    let after = before
        .replace("\"startupDuration\":\"15s\"", "\"startupDuration\":\"16s\"")
        .replace("\"class\":\"clerk\"", "\"class\":\"clerk\",\"minReadySeconds\":5");
    let (code, message) = planned(&before, &after);
    assert_eq!((code, &message["complete"]), (3, &json!(false)));
    let steps = message["classes"][0]["steps"].as_array().unwrap();
    let changes: Vec<Value> = steps
        .iter()
        .map(|step| {
            let change = &step["changes"][0];
            json!([step["action"], step["kind"], step["name"], change["path"], change["from"], change["to"]])
        })
        .collect();
    let minimum = "spec.workers.machineDeployments[clerk].minReadySeconds";
    let duration = "spec.template.spec.backend.inMemory.vm.provisioning.startupDuration";
    assert_eq!(
        json!(changes),
        json!([
            ["apply", "ClusterClass", "paper", minimum, null, 5],
            ["apply", "DevMachineTemplate", "paper-clerk-machine", duration, "15s", "16s"],
        ])
    );
    assert_eq!(message["summary"]["machines"]["replaced"], 0);
    let (_, text) = plan(&before, &after, &[]);
    assert!(text.starts_with("1 ClusterClass changed without a Cluster\n"), "{text}");
}

#[test]
fn a_difference_that_a_sample_does_not_show_is_listed() {
    let before = classes("in-memory");
    let mut documents: Vec<Value> =
        yaml::documents(&before).into_iter().map(|document| document.unwrap().value).collect();
    let class = documents.iter_mut().find(|object| object["kind"] == "ClusterClass").unwrap();
    let mut other = class["spec"]["workers"]["machineDeployments"][0].clone();
    other["class"] = json!("scribe");
    class["spec"]["workers"]["machineDeployments"].as_array_mut().unwrap().push(other);
    let after: String = documents.iter().map(|object| format!("{object}\n---\n")).collect();
    let (code, message) = plan(&before, &after, &[]);
    assert_eq!(code, 3);
    assert!(message.contains("spec.workers.machineDeployments[scribe]: nothing → "), "{message}");
    assert!(
        message.starts_with("1 sample Cluster, nothing changes; 1 ClusterClass changed without a Cluster\n"),
        "{message}"
    );
    let (code, message) = plan(&after, &before, &[]);
    assert_eq!(code, 3, "the sample is that of the new class, which does not know the other workers: {message}");
}

#[test]
fn a_class_of_which_no_cluster_can_be_created_any_more_is_an_error() {
    // DEC-42
    let before = classes("docker");
    let broken = ".builtin.machineDeployment.version | replace \\\"+\\\" \\\"-\\\" }}";
    assert_eq!(before.matches(broken).count(), 1, "{before}");
    let after = before.replace(broken, ".builtin.machineDeployment.version | replace }}");
    let (code, message) = planned(&before, &after);
    let reason = "no sample Cluster of ClusterClass default/workshop can be created any more: ";
    assert_eq!(code, 1, "{message:#}");
    assert!(message["errors"][0].as_str().unwrap().starts_with(reason), "{message:#}");
    // A value that was made up may be at fault.
    let cidr = json!({"name": "cidr", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}});
    let before = with_variable(&classes("in-memory"), &cidr);
    let patch = json!({"name": "cidr", "definitions": [{"selector": {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
        "matchResources": {"controlPlane": true}}, "jsonPatches": [{"op": "add", "path": "/spec/template/spec/rollout",
        "valueFrom": {"template": "{{ index (splitList \".\" .cidr) 2 }}"}}]}]});
    let with_patch = before.replace("\"variables\":[", &format!("\"patches\":[{patch}],\"variables\":["));
    assert_ne!(before, with_patch);
    let (code, message) = planned(&before, &with_patch);
    assert!(code == 3 && message["complete"] == json!(false), "{message:#}");
    // A class that was as broken before is no news.
    let (code, message) = planned(&after, &after);
    assert_eq!((code, &message["errors"]), (0, &json!([])), "{message:#}");
}

#[test]
fn a_template_that_is_missing_now_is_an_error() {
    let before = classes("in-memory");
    let after = before.replace("\"metadata\":{\"name\":\"paper-clerk-machine\"}", "\"metadata\":{\"name\":\"other\"}");
    assert_ne!(before, after);
    let (code, message) = plan(&before, &after, &[]);
    assert_eq!(code, 1);
    assert!(
        message.contains("error: the template DevMachineTemplate default/paper-clerk-machine was not found"),
        "{message}"
    );
    // It was missing before: no edit of the class is to blame.
    let (code, message) = plan(&after, &after, &[]);
    assert_eq!(code, 0);
    assert!(message.contains("not complete: ") && message.contains("paper-clerk-machine was not found"), "{message}");
}

#[test]
fn passwords_of_a_class_are_not_shown() {
    // DEC-34
    let of = |default: &str| {
        let schema = json!({"type": "string", "format": "password", "default": default});
        with_variable(
            &classes("in-memory"),
            &json!({"name": "token", "required": false, "schema": {"openAPIV3Schema": schema}}),
        )
    };
    let (code, message) = plan(&of("hunter22"), &of("hunter33"), &[]);
    assert_eq!(code, 3);
    assert!(
        message.contains("spec.variables[token].schema.openAPIV3Schema.default: \"(sensitive)\" → \"(sensitive)\""),
        "{message}"
    );
    assert!(!message.contains("hunter"), "{message}");
}
