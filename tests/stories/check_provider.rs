//! `check-provider`: what authors of providers see.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::server::command;

/// Runs the command with these arguments and this input; exit code, output and messages.
fn check(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = command(&["check-provider"]);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not read its input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// What `crds` prints.
fn definitions(family: &str) -> String {
    let output = command(&["crds", "--only", family]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_embedded_provider_passes() {
    for (arguments, input) in
        [(&["-"][..], definitions("embedded-provider")), (&["manifests/crds/topologist.dev.yaml"], String::new())]
    {
        let (code, out, err) = check(arguments, &input);
        assert_eq!((code, &*err), (0, ""), "{out}");
        assert!(out.ends_with("10 checked, 0 errors, 0 warnings\n"), "{out}");
        assert!(out.contains(": infrastructure machine, contract v1beta2 in version v1beta1: ok\n"), "{out}");
    }
}

#[test]
fn a_finding_has_place_rule_field_and_way_out() {
    let provider = definitions("embedded-provider");
    let broken = provider.replace("scope: Namespaced", "scope: Cluster");
    let (code, out, _) = check(&["-"], &broken);
    assert_eq!(code, 1);
    let line = broken.lines().position(|line| line.contains("scope: Cluster")).unwrap() + 1;
    let title = "error[CT-1.3]: the scope is \"Cluster\", but objects are looked up in the namespace of the Cluster\n";
    assert!(out.starts_with(title) && out.contains(&format!("--> <stdin>:{line}:10\n")), "{out}");
    for part in [
        "note: spec.scope of CustomResourceDefinition embeddedclusters.infrastructure.topologist.dev\n",
        "note: the same for CustomResourceDefinition embeddedclustertemplates.infrastructure.topologist.dev, ",
        "help: set it to Namespaced\n",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.ends_with("10 checked, 10 errors, 0 warnings\n"), "{out}");
}

#[test]
fn findings_of_schemas_have_the_place_of_their_property() {
    // DEC-62
    let provider = definitions("embedded-provider");
    let broken = provider.replacen("                  provisioned:\n", "                  prepared:\n", 1);
    assert_ne!(provider, broken);
    let line = broken.lines().position(|line| line.contains("prepared:")).unwrap();
    let above = broken.lines().take(line).filter(|line| line.contains("properties:")).count();
    assert!(above > 0);
    let (code, out, _) = check(&["-o", "json", "-"], &broken);
    let report: Value = serde_json::from_str(&out).unwrap();
    let schema: Value = serde_json::from_str(include_str!("../../src/cli/findings/schema.json")).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&report), "{report:#}");
    let finding = &report["findings"][0];
    let path =
        "spec.versions[0].schema.openAPIV3Schema.properties.status.properties.initialization.properties.provisioned";
    assert_eq!((code, &finding["path"]), (1, &json!(path)), "{report:#}");
    // It is not there, so its place is the list of properties.
    assert_eq!(finding["line"], json!(line), "{finding:#}");
    for format in ["short", "sarif", "junit", "github", "markdown"] {
        let (code, out, _) = check(&["-o", format, "-"], &broken);
        assert!(code == 1 && out.contains(finding["id"].as_str().unwrap()), "{format}: {out}");
    }
}

#[test]
fn release_metadata_are_compared_with_the_labels() {
    let metadata = "---\napiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n";
    for (series, code, end) in [
        ("{major: 1, minor: 2, contract: v1beta2}", 0, "10 checked, 0 errors, 0 warnings\n"),
        ("{major: 1, minor: 2, contract: v1alpha4}", 1, "10 checked, 10 errors, 0 warnings\n"),
    ] {
        let input = format!("{}{metadata}releaseSeries:\n- {series}\n", definitions("embedded-provider"));
        let (found, out, err) = check(&["-"], &input);
        assert_eq!((found, out.contains("error[CT-17.2]: "), &*err), (code, code == 1, ""), "{out}");
        assert!(out.ends_with(end), "{out}");
    }
}

#[test]
fn sources_are_checked_by_the_contract_that_they_show() {
    // CT-3.5: kustomize adds the labels when the provider is built.
    let (code, out, _) = check(&["-o", "json", "fixtures/definitions"], "");
    let report: Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let mut found: Vec<[&str; 2]> =
        findings.map(|finding| ["severity", "id"].map(|name| finding[name].as_str().unwrap())).collect();
    found.sort_unstable();
    assert_eq!((code, found), (0, vec![["warning", "CT-1.2"], ["warning", "CT-3.5"]]));
    assert_eq!(report["objects"][0]["contract"], "v1beta2");
}

#[test]
fn the_labels_of_a_kustomization_count() {
    // CT-3.4, CT-3.5
    let folder = tempfile::tempdir().unwrap();
    let bases = folder.path().join("config/crd/bases");
    fs::create_dir_all(&bases).unwrap();
    for (number, definition) in definitions("embedded-provider").split("---\n").skip(1).enumerate() {
        let is_label = |line: &str| line == "  labels:" || line.starts_with("    cluster.x-k8s.io/");
        let unlabelled: String =
            definition.lines().filter(|line| !is_label(line)).map(|line| format!("{line}\n")).collect();
        fs::write(bases.join(format!("{number}.yaml")), unlabelled).unwrap();
    }
    let path = folder.path().join("config/crd").display().to_string();
    let (code, out, _) = check(&[&path], "");
    assert!(code == 0 && out.contains("the contract v1beta2 is assumed") && out.ends_with("1 warning\n"), "{out}");
    for (labels, wanted, warnings) in [
        ("labels:\n- pairs:\n    cluster.x-k8s.io/v1beta2: v1beta1\n", "contract v1beta2 in version v1beta1", 1),
        ("commonLabels: {cluster.x-k8s.io/v1beta1: v1alpha9_v1beta1}\n", "contract v1beta1 in version v1beta1", 2),
    ] {
        fs::write(folder.path().join("config/crd/kustomization.yaml"), labels).unwrap();
        let (_, out, _) = check(&[&path], "");
        assert_eq!(out.matches(wanted).count(), 10, "{out}");
        assert_eq!(out.matches("config/crd/kustomization.yaml adds labels").count(), 1, "{out}");
        assert_eq!(out.matches("warning[CT-3.").count(), warnings, "{out}");
    }
}

#[test]
fn warnings_fail_only_on_request() {
    let machine = definitions("embedded-provider");
    let template = machine.split("---\n").find(|one| one.contains("kind: EmbeddedConfigTemplate\n")).unwrap();
    let (code, out, _) = check(&["-"], template);
    assert!(code == 0 && out.contains("warning[CT-1.2]: "), "{code}: {out}");
    for flags in [&["--fail-on-warnings"][..], &["--fail-on", "warning"]] {
        assert_eq!(check(&[flags, &["-"]].concat(), template).0, 1);
    }
}

#[test]
fn input_without_a_provider_is_refused() {
    for (input, wanted) in [
        ("", "nothing was checked: no CustomResourceDefinition of a provider was found; the input holds no objects\n"),
        ("{apiVersion: v1, kind: Secret, metadata: {name: a}}", "was found; the input holds only Secret of v1\n"),
        ("a: [\n", "<stdin>:"),
        (
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: \
             machines.example.com}}",
            "no contract is about machines.example.com\n",
        ),
        (&*definitions("cluster-api"), "no contract is about Cluster, "),
    ] {
        let (code, out, err) = check(&["-"], input);
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(err.contains(wanted), "{err}");
    }
    assert_eq!(check(&["absent.yaml"], "").0, 2);
}

#[test]
fn wrong_usage_is_reported_with_both_forms() {
    let usage = "Usage: topologist check-provider [OPTIONS] <PATH>...
       topologist check-provider [OPTIONS] --live <KIND[/NAME]>\n";
    let form = "expected KIND or KIND/NAME, such as DockerMachine or DockerMachine/blue-4z8q";
    for (arguments, wanted) in [
        (&[][..], usage),
        (&["--lve", "DockerMachine"], usage),
        (&["a.yaml", "--live", "DockerMachine"], usage),
        // These are for --live, so they are not ignored.
        (&["a.yaml", "--for", "1m"], usage),
        (&["a.yaml", "--namespace", "teams"], usage),
        (&["a.yaml", "--kubeconfig", "a"], usage),
        (&["--live", "DockerMachine/"], form),
        (&["--live", "/blue"], form),
        (&["--live", "teams/DockerMachine/blue"], form),
        (&["--live", "Docker Machine"], form),
        (&["--live", ""], form),
        (&["--live", "DockerMachine", "-o", "sarif"], "--live prints text or json"),
    ] {
        let (code, out, err) = check(arguments, "");
        assert_eq!((code, &*out), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(wanted), "{arguments:?}: {err}");
    }
}

#[test]
fn the_fields_of_json_are_those_of_the_documentation() {
    let broken = definitions("embedded-provider").replace("scope: Namespaced", "scope: Cluster");
    let (_, out, _) = check(&["-o", "json", "-"], &broken);
    let current: Value = serde_json::from_str(&out).unwrap();
    let (_, out, _) = check(&["-o", "json", "--format-version", "1", "-"], &broken);
    let report: Value = serde_json::from_str(&out).unwrap();
    let definition = &report["definitions"][0];
    assert_eq!(definition["findings"][0]["rule"], json!("CT-1.3"));
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/check-provider.md");
    let document = fs::read_to_string(document).unwrap();
    for (value, want) in [
        (&current["objects"][0], &["contract", "file", "kind", "name", "role", "version"][..]),
        (&report, &["definitions", "errors", "notChecked", "warnings"]),
        (definition, &["contract", "file", "findings", "kind", "line", "name", "role", "version"]),
        (&definition["findings"][0], &["field", "level", "message", "rule", "version", "wayOut"]),
    ] {
        let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, want.iter().copied().collect());
        for key in want {
            assert!(document.contains(&format!("`{key}`")), "docs/check-provider.md does not describe {key}");
        }
    }
}
