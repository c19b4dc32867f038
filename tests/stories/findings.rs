//! Findings of `validate` in all formats (DEC-62), and what it computes (DEC-68).

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::server::command;
use crate::mistakes::mistaken_bundles;
use crate::offline::Folder;

fn repository(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The class of the quick-start example and its templates.
fn class_and_templates() -> String {
    let [class, templates] =
        ["class", "templates"].map(|name| repository(&format!("fixtures/quick-start/{name}.yaml")));
    format!("{class}---\n{templates}")
}

fn cluster() -> String {
    repository("fixtures/quick-start/cluster.yaml")
}

/// The quick-start example with changes of its class.
fn quick_start(changes: &[(&str, &str)]) -> Folder {
    let mut class = class_and_templates();
    for (from, to) in changes {
        assert_eq!(class.matches(from).count(), 1, "{from}");
        class = class.replace(from, to);
    }
    Folder::new(&[("class.yaml", &class), ("cluster.yaml", &cluster())])
}

fn validate(folder: &Folder, flags: &[&str]) -> (i32, String) {
    let (code, out, err) = folder.run(&[&["validate", "class.yaml", "cluster.yaml"], flags].concat(), &[]);
    assert!(code < 2, "{err}");
    (code, out)
}

fn json(folder: &Folder, flags: &[&str]) -> Value {
    serde_json::from_str(&validate(folder, &[&["-o", "json"], flags].concat()).1).unwrap()
}

/// An operation of a patch that fails for the control plane.
const BROKEN_PATH: (&str, &str) =
    ("initConfiguration/nodeRegistration/kubeletExtraArgs/-", "initConfiguration/nodeRegistration/kubeletArgs/-");

#[test]
fn a_patch_that_cannot_be_applied_is_an_error_at_its_operation() {
    // DEC-68
    let folder = quick_start(&[BROKEN_PATH]);
    let report = json(&folder, &[]);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{report:#}");
    let finding = &findings[0];
    assert_eq!((&finding["severity"], &finding["id"]), (&"error".into(), &"PE-17".into()));
    assert_eq!(finding["path"], "spec.patches[2].definitions[0].jsonPatches[0].path");
    let line = repository("fixtures/quick-start/class.yaml").lines().position(|line| line.contains(BROKEN_PATH.0));
    assert_eq!((&finding["file"], &finding["line"]), (&"class.yaml".into(), &(line.unwrap() + 1).into()));
    assert_eq!(finding["related"][0]["object"]["name"], "demo");
    let objects = report["objects"].as_array().unwrap();
    let cluster = objects.iter().find(|object| object["kind"] == "Cluster").unwrap();
    assert_eq!((&cluster["allowed"], &cluster["computable"]), (&true.into(), &false.into()), "{cluster}");
    let (code, text) = validate(&folder, &[]);
    assert_eq!(code, 1);
    assert!(text.ends_with("2 checked, 1 allowed, 1 that cannot be rolled out, 0 denied\n"), "{text}");
    // Without a Cluster, each sample Cluster has it.
    let (code, out, _) = folder.run(&["validate", "-o", "short", "class.yaml"], &[]);
    assert!(code == 1 && out.contains("error[PE-17]: ClusterClass default/quick-start: "), "{out}");
}

#[test]
fn a_missing_template_is_an_error_at_its_reference() {
    // DEC-68
    let class = class_and_templates();
    let is_kept = |document: &&str| !document.contains("  name: quick-start-worker-bootstrap\n  namespace");
    let without: Vec<&str> = class.split("\n---\n").filter(is_kept).collect();
    let folder = Folder::new(&[("class.yaml", &without.join("\n---\n")), ("cluster.yaml", &cluster())]);
    let report = json(&folder, &[]);
    let finding = &report["findings"][0];
    assert_eq!((&finding["severity"], &finding["id"]), (&"error".into(), &"BP-07".into()), "{report:#}");
    assert_eq!(finding["path"], "spec.workers.machineDeployments[0].bootstrap.templateRef");
    let fix = "add the template to the files, or correct the reference";
    assert_eq!(finding["fix"], fix);
    let (_, text) = validate(&folder, &[]);
    assert!(text.contains(&format!("  = help: {fix}\n")), "{text}");
    // Without any template nothing is expected.
    let class = repository("fixtures/quick-start/class.yaml");
    let folder = Folder::new(&[("class.yaml", &class), ("cluster.yaml", &cluster())]);
    assert_eq!(json(&folder, &[])["findings"], Value::Array(Vec::new()));
}

#[test]
fn no_value_in_the_output_of_a_template_is_an_error() {
    // DEC-68
    let folder =
        quick_start(&[("/node:{{ .builtin.machinePool.version }}", "/node:{{ .builtin.machinePool.vrsion }}")]);
    let (code, text) = validate(&folder, &["-o", "short"]);
    let want = "error[DEC-68]: ClusterClass default/quick-start: ";
    assert!(code == 1 && text.contains(want) && text.contains("renders \"<no value>\""), "{text}");
    let (code, _, err) = folder.run(&["render", "class.yaml", "cluster.yaml"], &[]);
    assert!(code == 1 && err.contains("<no value>"), "{err}");
}

#[test]
fn two_objects_without_a_separator_are_no_object() {
    // DEC-65
    let class = class_and_templates().replacen("\n---\n", "\n", 2);
    let folder = Folder::new(&[("class.yaml", &class)]);
    let (code, _, err) = folder.run(&["validate", "class.yaml"], &[]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("the key \"apiVersion\" is repeated, and only the last value is used; put a line with ---"),
        "{err}"
    );
}

/// All mistakes of the look-alike bundles, and a broken patch.
fn folders() -> Vec<Folder> {
    let mistaken =
        mistaken_bundles().into_iter().map(|bundle| Folder::new(&[("class.yaml", &bundle), ("cluster.yaml", "")]));
    mistaken.chain([quick_start(&[BROKEN_PATH])]).collect()
}

#[test]
fn every_finding_has_a_line_and_fits_the_published_schema() {
    // DEC-62, DEC-63
    let folders = folders();
    let (_, schema, _) = folders[0].run(&["schema", "findings"], &[]);
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let mut found = 0;
    for folder in &folders {
        let report = json(folder, &[]);
        let faults: Vec<String> =
            schema.iter_errors(&report).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert_eq!(faults, Vec::<String>::new(), "{report:#}");
        for finding in report["findings"].as_array().unwrap() {
            found += 1;
            let file = finding["file"].as_str().unwrap_or_else(|| panic!("without a place: {finding}"));
            let text = fs::read_to_string(folder.path(file)).unwrap();
            let number = |name: &str| usize::try_from(finding[name].as_u64().unwrap()).unwrap();
            let line = text.lines().nth(number("line") - 1).unwrap_or_else(|| panic!("{finding}"));
            assert!(number("column") < number("endColumn"), "{finding}");
            assert!(number("endColumn") <= line.chars().count() + 1, "{finding}: {line}");
            assert_eq!(number("line"), number("endLine"), "{finding}");
        }
    }
    assert!(found > 100, "{found} findings");
}

#[test]
fn sarif_is_what_its_schema_and_code_scanning_want() {
    // DEC-62
    let mut schema: Value = serde_json::from_str(&repository("fixtures/sarif/sarif-schema-2.1.0.json")).unwrap();
    // The pattern has a bracket too many, which newer dialects refuse.
    for definition in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][definition]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern").unwrap();
    }
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut results = 0;
    for folder in folders() {
        fs::create_dir_all(folder.path(".git")).unwrap();
        let (_, text) = validate(&folder, &["-o", "sarif"]);
        let log: Value = serde_json::from_str(&text).unwrap();
        let faults: Vec<String> =
            schema.iter_errors(&log).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert_eq!(faults, Vec::<String>::new(), "{log:#}");
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        for rule in rules {
            let texts = [&rule["id"], &rule["name"], &rule["shortDescription"]["text"], &rule["help"]["markdown"]];
            assert!(texts.iter().all(|text| text.as_str().is_some_and(|text| !text.is_empty())), "{rule}");
            assert_ne!(rule["help"]["markdown"], rule["id"], "the documentation explains it: {rule}");
        }
        for result in run["results"].as_array().unwrap() {
            results += 1;
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"], "{result}");
            assert_eq!(result["locations"].as_array().unwrap().len(), 1, "{result}");
            let place = &result["locations"][0]["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(["class.yaml", "cluster.yaml"].contains(&uri), "{result}");
            let region = place["region"].as_object().unwrap();
            let names: Vec<&String> = region.keys().collect();
            assert_eq!(names, ["endColumn", "endLine", "startColumn", "startLine"], "{result}");
            assert_eq!(region["startLine"], region["endLine"], "{result}");
        }
    }
    assert!(results > 100, "{results} results");
}

#[test]
fn a_file_of_a_repository_is_named_from_its_root() {
    // DEC-62
    let folder = quick_start(&[BROKEN_PATH]);
    fs::create_dir_all(folder.path(".git")).unwrap();
    fs::create_dir_all(folder.path("de ep")).unwrap();
    fs::copy(folder.path("class.yaml"), folder.path("de ep/class.yaml")).unwrap();
    let (_, out, _) = folder.run(&["validate", "-o", "sarif", "./de ep/../de ep/class.yaml"], &[]);
    let log: Value = serde_json::from_str(&out).unwrap();
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "de%20ep/class.yaml");
}

#[test]
fn annotations_are_one_command_each_with_the_worst_first() {
    // DEC-62
    let folder = quick_start(&[BROKEN_PATH]);
    let (_, text) = validate(&folder, &["-o", "github"]);
    let start = "::error file=class.yaml,line=185,col=15,endLine=185,endColumn=";
    assert!(text.starts_with(start) && text.lines().count() == 1, "{text}");
    assert!(
        text.contains(",title=PE-17 ClusterClass default/quick-start::spec.patches[kubeletLogLevel].definitions[0]"),
        "{text}"
    );
    let variables: String = (0..25).map(|number| format!("    - {{name: v{number}, value: \"50%,::a\"}}\n")).collect();
    let cluster = cluster().replace("    variables:\n", &format!("    variables:\n{variables}"));
    let folder =
        Folder::new(&[("class.yaml", &repository("fixtures/quick-start/class.yaml")), ("cluster.yaml", &cluster)]);
    let (_, text) = validate(&folder, &["-o", "github"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("::error file=cluster.yaml,")).count(), 10, "{text}");
    assert_eq!(lines.last(), Some(&"::notice title=topologist::not shown: 15 errors of VAR-V-004"), "{text}");
}

#[test]
fn a_report_of_junit_has_a_case_for_each_object() {
    // DEC-62
    let folder = quick_start(&[BROKEN_PATH]);
    let (_, text) = validate(&folder, &["-o", "junit"]);
    let mut reader = quick_xml::Reader::from_str(&text);
    let (mut names, mut failures) = (Vec::new(), 0);
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Start(tag) | quick_xml::events::Event::Empty(tag) => {
                let name = tag.name().as_ref().to_owned();
                failures += usize::from(name == "failure");
                if name == "testcase" {
                    let attribute = tag.try_get_attribute("name").unwrap().unwrap();
                    names.push(attribute.value.into_owned());
                }
            }
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(
        (names, failures),
        (vec!["Cluster default/demo".into(), "ClusterClass default/quick-start".to_owned()], 1)
    );
}

#[test]
fn equal_findings_of_many_clusters_are_shown_once() {
    // DEC-62
    let cluster = cluster().replace("default-worker", "gpu-worker");
    let many: Vec<String> =
        (0..30).map(|number| cluster.replace("name: demo", &format!("name: demo-{number:02}"))).collect();
    let folder = Folder::new(&[
        ("class.yaml", &repository("fixtures/quick-start/class.yaml")),
        ("cluster.yaml", &many.join("\n---\n")),
    ]);
    let (code, text) = validate(&folder, &[]);
    assert_eq!((code, text.matches("error[CL-V-056]").count()), (1, 1), "{text}");
    assert!(text.contains("note: the same for Cluster default/demo-01, Cluster default/demo-02, Cluster default/demo-03 and 26 others\n"), "{text}");
    assert_eq!(json(&folder, &[])["findings"].as_array().unwrap().len(), 30);
}

#[test]
fn a_comment_lists_the_worst_first() {
    // DEC-62
    let folder = quick_start(&[("  - name: ntp\n    required", "  - name: clock\n    required")]);
    let (_, text) = validate(&folder, &["-o", "markdown"]);
    let items: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
    assert!(items.first().unwrap().starts_with("- ❌ **") && items.last().unwrap().starts_with("- ⚠️ **"), "{text}");
}

/// The Cluster of the quick-start example as it is stored: with references that its controller has set.
fn stored_cluster() -> String {
    let references = "  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: demo-x1}\n  \
                      controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: demo-x2}\n";
    cluster()
        .replace("spec:\n", &format!("spec:\n{references}"))
        .replace("  name: demo\n", "  name: demo\n  uid: 1-2\n")
}

#[test]
fn files_are_judged_beside_a_dump_of_a_server() {
    // DEC-68: without its current objects, a Cluster is computed as a new one.
    let wrong = cluster().replace("default-worker", "gpu-worker");
    let folder = Folder::new(&[
        ("class.yaml", &class_and_templates()),
        ("broken.yaml", &class_and_templates().replace(BROKEN_PATH.0, BROKEN_PATH.1)),
        ("cluster.yaml", &cluster()),
        ("wrong.yaml", &wrong),
        ("stored.yaml", &stored_cluster()),
    ]);
    let old = ["--old", "stored.yaml", "--old", "class.yaml"];
    let (code, out) = validate(&folder, &old);
    assert!(code == 0 && out.starts_with("allowed: update of "), "{out}");
    let (code, out, _) = folder.run(&[&["validate", "broken.yaml", "cluster.yaml"][..], &old].concat(), &[]);
    assert!(code == 1 && out.contains("error[PE-17]: "), "{out}");
    // The places are those of the file, to which the references were added.
    let (_, out, _) = folder.run(&[&["validate", "-o", "short", "wrong.yaml", "class.yaml"][..], &old].concat(), &[]);
    let line = wrong.lines().position(|line| line.contains("gpu-worker")).unwrap() + 1;
    assert!(out.contains(&format!("wrong.yaml:{line}:16: error[CL-V-056]: ")), "{out}");
    // A class whose Clusters are elsewhere is computed as well.
    let (code, out, _) = folder.run(&["validate", "broken.yaml", "--world", "cluster.yaml"], &[]);
    assert!(code == 1 && out.contains("error[PE-17]: "), "{out}");
}

#[test]
fn what_only_a_server_knows_is_no_error_and_has_a_reason() {
    // DEC-68
    let [class, templates] =
        ["class", "templates"].map(|name| repository(&format!("fixtures/quick-start/{name}.yaml")));
    let version = "infrastructure.cluster.x-k8s.io/v1beta2\nkind: DevClusterTemplate";
    let other = templates.replace(version, &version.replace("v1beta2", "v1beta1"));
    assert_ne!(templates, other);
    let folder = Folder::new(&[("class.yaml", &format!("{class}---\n{other}")), ("cluster.yaml", &cluster())]);
    let (code, text) = validate(&folder, &[]);
    let reason = "not computed: Cluster default/demo (the topology cannot be computed: ";
    assert!(code == 0 && text.contains(reason) && text.contains("only an API server can convert it"), "{text}");
}

#[test]
fn labels_that_samples_lack_are_no_errors_of_a_class() {
    // DEC-68
    let labels = "/node:{{ .builtin.cluster.metadata.labels.zone }}";
    let class = class_and_templates().replace("/node:{{ .builtin.machinePool.version }}", labels);
    assert!(class.contains(labels));
    let folder = Folder::new(&[("class.yaml", &class)]);
    let (code, out, _) = folder.run(&["validate", "class.yaml"], &[]);
    assert!(code == 0 && out.contains("warning[DEC-68]: the template renders \"<no value>\""), "{out}");
}

#[test]
fn an_object_of_another_group_is_another_object() {
    // DEC-62
    let other =
        "apiVersion: postgresql.cnpg.io/v1\nkind: Cluster\nmetadata: {name: demo, namespace: default}\nspec: {}\n---\n";
    let folder = Folder::new(&[
        ("class.yaml", &class_and_templates().replace(BROKEN_PATH.0, BROKEN_PATH.1)),
        ("cluster.yaml", &(other.to_owned() + &cluster())),
    ]);
    let related = &json(&folder, &[])["findings"][0]["related"][0];
    assert_eq!(
        (&related["line"], &related["object"]["apiVersion"]),
        (&7.into(), &"cluster.x-k8s.io/v1beta2".into()),
        "{related}"
    );
}

#[test]
fn only_errors_are_printed_with_quiet() {
    // DEC-62
    let folder = quick_start(&[("  - name: ntp\n    required", "  - name: clock\n    required")]);
    for format in ["text", "short", "json", "sarif", "junit", "github", "markdown"] {
        let (code, out) = validate(&folder, &["-q", "-o", format]);
        assert!(code == 1 && out.contains("VAR-V-004") && !out.contains("DEC-5"), "{format}: {out}");
    }
}

#[test]
fn a_file_of_one_long_line_is_judged_in_time() {
    // DEC-44
    let object = |number: usize| {
        serde_json::json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": format!("c{number}")},
            "spec": {"topology": {"classRef": {"name": "absent"}, "version": "v1"}},
        })
    };
    let list =
        serde_json::json!({"apiVersion": "v1", "kind": "List", "items": (0..2000).map(object).collect::<Vec<_>>()});
    let folder = Folder::new(&[("all.json", &list.to_string())]);
    let started = std::time::Instant::now();
    let (code, out, _) = folder.run(&["validate", "all.json"], &[]);
    assert!(code == 1 && out.contains("2000 checked, 0 allowed, 2000 denied"), "{out}");
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn findings_of_commands_that_print_objects_go_to_files_and_standard_error() {
    // DEC-62
    let folder = quick_start(&[BROKEN_PATH]);
    let outputs = ["--findings", "sarif=out.sarif", "--findings", "junit=out.xml"];
    let (code, _, err) = folder.run(&[&["render", "class.yaml", "cluster.yaml"][..], &outputs].concat(), &[]);
    assert!(code == 1 && err.starts_with("error[PE-17]: "), "people see it as well: {err}");
    let log: Value = serde_json::from_str(&fs::read_to_string(folder.path("out.sarif")).unwrap()).unwrap();
    assert_eq!(log["runs"][0]["results"][0]["ruleId"], "PE-17");
    let report = fs::read_to_string(folder.path("out.xml")).unwrap();
    assert!(report.contains("<testcase classname=\"Cluster\" name=\"Cluster default/demo\""), "{report}");
    let json = ["render", "class.yaml", "cluster.yaml", "--findings", "json"];
    let (_, _, err) = folder.run(&json, &[]);
    let report: Value = serde_json::from_str(err.split("\ntopologist: ").next().unwrap()).unwrap();
    assert_eq!(report["findings"][0]["id"], "PE-17", "{err}");
    for wrong in ["yaml", "sarif="] {
        let (code, _, err) = folder.run(&["render", "class.yaml", "--findings", wrong], &[]);
        assert!(code == 2 && err.contains("--findings"), "{wrong}: {err}");
    }
}

#[test]
fn a_line_with_a_variable_is_marked_as_a_whole() {
    // DEC-62, DEC-65: the value is not shown.
    let cluster = cluster().replace("    version: v1.33.0\n", "    version: ${VERSION}\n");
    let folder = Folder::new(&[("class.yaml", &class_and_templates()), ("cluster.yaml", &cluster)]);
    let line = cluster.lines().position(|line| line.contains("${VERSION}")).unwrap() + 1;
    let arguments = ["validate", "-o", "short", "--env", "VERSION", "class.yaml", "cluster.yaml"];
    let (code, out, _) = folder.run(&arguments, &[("VERSION", "v1.30.0")]);
    assert!(code == 1 && out.contains(&format!("cluster.yaml:{line}:5: error[CL-V-055]: ")), "{out}");
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // The constants of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The pointers of all values in a value.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let names: Vec<String> = match value {
        Value::Object(members) => members.keys().cloned().collect(),
        Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
        _ => Vec::new(),
    };
    for name in names {
        let below = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
        pointers(value.pointer(&below[pointer.len()..]).unwrap(), &below, found);
        found.push(below);
    }
}

/// Drops or renames a key, or changes a letter or the type of a value; says what it did.
fn mutate(object: &mut Value, numbers: &mut Numbers) -> Option<String> {
    let mut all = Vec::new();
    pointers(&object["spec"], "/spec", &mut all);
    let pointer = all.swap_remove(numbers.below(all.len()));
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    let what = match (numbers.below(4), object.pointer_mut(parent)?) {
        (0, Value::Object(members)) => members.remove(&name).map(|_| "without")?,
        (0, Value::Array(items)) => Some(items.remove(name.parse().unwrap())).map(|_| "without")?,
        (1, Value::Object(members)) => {
            let value = members.remove(&name)?;
            members.insert(format!("{name}X"), value);
            "another name for"
        }
        (2, _) => {
            let text = object.pointer(&pointer)?.as_str().filter(|text| !text.is_empty())?.to_owned();
            let at = numbers.below(text.chars().count());
            let letter = |(position, letter)| if position == at { 'q' } else { letter };
            *object.pointer_mut(&pointer)? = text.chars().enumerate().map(letter).collect::<String>().into();
            "another letter in"
        }
        (3, _) => {
            let value = object.pointer_mut(&pointer)?;
            *value = match value {
                Value::String(_) => 5.into(),
                Value::Number(_) | Value::Bool(_) => "text".into(),
                _ => return None,
            };
            "another type of"
        }
        _ => return None,
    };
    Some(format!("{what} {pointer} of {}", object["kind"]))
}

#[test]
fn no_change_that_render_refuses_is_silent() {
    // DEC-68
    let (mut refused, mut silent) = (0, Vec::new());
    for (bundle, seed) in crate::mistakes::BUNDLES.into_iter().zip(1..) {
        let text = repository(&format!("fixtures/providers/{bundle}/bundle.yaml"));
        let objects: Vec<Value> =
            topologist::yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect();
        let (mut numbers, mut changes) = (Numbers(seed), 0);
        while changes < 40 {
            let mut objects = objects.clone();
            // A change of the class half of the time.
            let class = objects.iter().position(|object| object["kind"] == "ClusterClass").unwrap();
            let any = numbers.below(objects.len());
            let chosen = if numbers.below(2) == 0 { class } else { any };
            if objects[chosen].get("spec").is_none() {
                continue;
            }
            let Some(what) = mutate(&mut objects[chosen], &mut numbers) else { continue };
            changes += 1;
            let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
            let folder = Folder::new(&[("all.yaml", &documents.join("\n---\n"))]);
            let (rendered, _, err) = folder.run(&["render", "all.yaml"], &[]);
            refused += usize::from(rendered == 1);
            let (validated, out, _) = folder.run(&["validate", "-o", "short", "all.yaml"], &[]);
            if rendered == 1 && validated != 1 {
                silent.push(format!("{bundle}: {what}: render: {err}validate: {out}"));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(refused > 40, "{refused} refused");
}

#[test]
fn other_values_of_variables_are_tried() {
    // DEC-68
    let variables = "  variables:\n  - name: zones\n    required: true\n    schema:\n      openAPIV3Schema: {type: string, enum: [one, two]}\n  \
                     - name: hidden\n    required: false\n    schema:\n      openAPIV3Schema: {type: object, default: {}, properties: {deep: {type: boolean, default: false}}}\n";
    let patch = |name: &str, enabled: &str, path: &str| {
        format!(
            "  - name: {name}\n    enabledIf: '{enabled}'\n    definitions:\n    - selector:\n        \
             apiVersion: controlplane.cluster.x-k8s.io/v1beta2\n        kind: KubeadmControlPlaneTemplate\n        \
             matchResources: {{controlPlane: true}}\n      jsonPatches:\n      - op: add\n        path: {path}\n        value: x\n"
        )
    };
    let second = patch("second", "{{ eq .zones \"two\" }}", "/spec/template/spec/nowhere/below");
    let third = patch("third", "{{ .hidden.deep }}", "/spec/template/spec/kubeadmConfigSpec/nowhere");
    let class = class_and_templates();
    for from in ["  variables:\n", "  patches:\n"] {
        assert_eq!(class.matches(from).count(), 1, "{from}");
    }
    let class =
        class.replace("  variables:\n", variables).replace("  patches:\n", &format!("  patches:\n{second}{third}"));
    let cluster = cluster().replace("    variables:\n", "    variables:\n    - {name: zones, value: one}\n");
    for files in [vec![("class.yaml", &*class)], vec![("class.yaml", &class), ("cluster.yaml", &cluster)]] {
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let (code, out, err) = Folder::new(&files).run(&[&["validate", "-o", "short"], &names[..]].concat(), &[]);
        let lines: Vec<&str> = out.lines().filter(|line| line.contains("warning[")).collect();
        assert_eq!((code, lines.len()), (0, 2), "{out}{err}");
        let like = if files.len() == 1 { "a sample Cluster" } else { "a Cluster like default/demo" };
        for ((rule, which), line) in [("PE-17", "zones: two"), ("DEC-32", "hidden.deep: true")].into_iter().zip(lines) {
            let end = format!("(in {like} with {which})");
            assert!(line.contains(&format!("warning[{rule}]")) && line.ends_with(&end), "{line}");
        }
    }
}

#[test]
fn a_field_that_a_webhook_adds_can_be_assumed() {
    // DEC-68
    let class = repository("fixtures/providers/aws/bundle.yaml");
    let patched = "/spec/template/spec/region";
    assert_eq!(class.matches(patched).count(), 1);
    let class = class.replace(patched, "/spec/template/spec/bastion/enabled");
    let kind = "kind: AWSClusterTemplate\nspec: {template: {spec: {bastion: {enabled: false}}}}\n";
    let assumed = format!("apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n{kind}");
    let folder = Folder::new(&[
        ("class.yaml", &class),
        ("assumed.yaml", &assumed),
        ("other.yaml", &assumed.replace("/v1beta2", "/v1beta3")),
        ("broken.yaml", "kind: [\n"),
        ("empty.yaml", ""),
        ("own.yaml", "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: a}}\n"),
    ]);
    let validate = |flags: &[&str]| folder.run(&[&["validate", "class.yaml"], flags].concat(), &[]);
    for flags in [&[][..], &["--assume", "other.yaml"]] {
        let (code, out, _) = validate(flags);
        assert!(code == 1 && out.contains("has no \"bastion\""), "{flags:?}: {out}");
    }
    let (_, _, err) = validate(&["--assume", "other.yaml"]);
    let note =
        "--assume: the files have no AWSClusterTemplate in infrastructure.cluster.x-k8s.io/v1beta3, and no template";
    assert!(err.contains(note), "{err}");
    for (file, wanted) in [("empty.yaml", "the files have no object"), ("own.yaml", "Cluster is not of a provider")] {
        let (code, _, err) = validate(&["--assume", file]);
        assert!(code == 2 && err.contains(wanted), "{file}: {err}");
    }
    let (code, out, err) = validate(&["--assume", "assumed.yaml"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = folder.run(&["render", "class.yaml", "--assume", "assumed.yaml"], &[]);
    assert!(code == 0 && out.contains("bastion:"), "{out}{err}");
    let (code, _, err) = validate(&["--assume", "broken.yaml"]);
    assert!(code == 2 && err.contains("broken.yaml:"), "{err}");
}

#[test]
fn files_are_judged_again_after_each_change() {
    // DEC-62
    let folder = quick_start(&[]);
    let (code, _, err) = folder.run(&["validate", "--watch", "-"], &[]);
    assert!(code == 2 && err.contains("--watch needs files"), "{err}");
    let mut command = command(&["validate", "--watch", "-o", "short", "."]);
    command.current_dir(folder.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut verdicts = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut messages = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut verdict = |wanted: &str| {
        let line = verdicts.find(|line| line.as_ref().unwrap().contains(" checked, ")).unwrap().unwrap();
        assert_eq!(line, wanted);
    };
    let mut message =
        |wanted: &str| assert!(messages.any(|line| line.unwrap().starts_with(wanted)), "it does not say {wanted}");
    verdict("2 checked, 2 allowed, 0 denied");
    message("topologist: waiting for a change of 2 files");
    fs::write(folder.path("class.yaml"), class_and_templates().replace("- name: ntp\n", "- name: clock\n")).unwrap();
    verdict("2 checked, 0 allowed, 2 denied");
    message("topologist: changed: ./class.yaml");
    message("topologist: waiting");
    // Neither broken nor missing files end it, and a new one counts.
    fs::write(folder.path("class.yaml"), "a: [\n").unwrap();
    message("topologist: ./class.yaml:");
    verdict("1 checked, 1 allowed, 0 denied");
    message("topologist: waiting");
    fs::remove_file(folder.path("class.yaml")).unwrap();
    message("topologist: changed: ./class.yaml");
    verdict("1 checked, 1 allowed, 0 denied");
    message("topologist: waiting");
    fs::write(folder.path("new.yaml"), class_and_templates()).unwrap();
    message("topologist: changed: ./new.yaml");
    verdict("2 checked, 2 allowed, 0 denied");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The errors and warnings of the quick-start class with one change, a line each.
fn lines(from: &str, to: &str) -> (String, String) {
    let folder = quick_start(&[(from, to)]);
    let (_, short) = validate(&folder, &["-o", "short"]);
    let (_, text) = validate(&folder, &[]);
    (short.lines().filter(|line| line.contains("]: ")).map(|line| format!("{line}\n")).collect(), text)
}

#[test]
fn one_mistake_is_one_finding() {
    // DEC-62
    let variable = |schema: &str| {
        let schema =
            format!("  variables:\n  - {{name: extra, required: false, schema: {{openAPIV3Schema: {schema}}}}}\n");
        lines("  variables:\n", &schema).0
    };
    // An empty rule is too short for the API server, too.
    let empty = variable("{type: string, x-kubernetes-validations: [{rule: ''}]}");
    assert!(empty.contains("error[CEL-001]") && empty.lines().count() == 1, "{empty}");
    let broken = variable("{type: string, default: x, x-kubernetes-validations: [{rule: 'self.size('}]}");
    assert!(
        !broken.contains("ClusterClass default/quick-start: spec.variables[extra].schema.openAPIV3Schema.default"),
        "{broken}"
    );
    assert!(broken.contains("error[CEL-009]"), "{broken}");
    let nested = variable(
        "{type: object, default: {}, properties: {size: {type: integer, default: 3}}, \
         x-kubernetes-validations: [{rule: 'self.size > 2'}]}",
    );
    assert!(nested.contains("a default is checked without the defaults of its properties"), "{nested}");
    // Two patches select the kind that no template has.
    let kind = "kind: KubeadmControlPlaneTemplate\n      name";
    let (short, text) = lines(kind, &kind.replace("ControlPlane", "Config"));
    assert_eq!((short.matches("[PAT-032]").count(), text.matches("[PAT-032]").count()), (2, 1), "{short}{text}");
    let other = "note: and spec.patches[ntp].definitions[0].selector.matchResources.controlPlane (class.yaml:";
    assert!(text.contains(other), "{text}");
}

#[test]
fn a_finding_about_a_template_has_its_place_in_the_text() {
    // DEC-62
    let template =
        "valueFrom:\n          template: |\n            {{ .builtin.controlPlane.version\n              | frob }}\n";
    let class = class_and_templates();
    let start = class.find("valueFrom:").unwrap();
    let end = start + class[start..].find("\n  - name").unwrap() + 1;
    let mistaken = format!("{}{template}{}", &class[..start], &class[end..]);
    let folder = Folder::new(&[("class.yaml", &mistaken), ("cluster.yaml", &cluster())]);
    let report = json(&folder, &[]);
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "PAT-018").unwrap();
    let line = mistaken.lines().position(|line| line == "              | frob }}").unwrap() + 1;
    let place = ["line", "column", "endLine", "endColumn"].map(|name| finding[name].as_u64().unwrap());
    assert_eq!(place, [line as u64, 17, line as u64, 21], "{finding:#}");
}

/// The quick-start class with variables and patches of the control plane: name, condition, and path of each.
fn class_with(variables: &str, patches: &[(&str, &str, &str)]) -> String {
    let patch = |(name, enabled, path): &(&str, &str, &str)| {
        format!(
            "  - name: {name}\n    enabledIf: '{enabled}'\n    definitions:\n    - selector:\n        \
             apiVersion: controlplane.cluster.x-k8s.io/v1beta2\n        kind: KubeadmControlPlaneTemplate\n        \
             matchResources: {{controlPlane: true}}\n      jsonPatches:\n      - {path}\n"
        )
    };
    let patches: String = patches.iter().map(patch).collect();
    class_and_templates()
        .replace("  variables:\n", &format!("  variables:\n{variables}"))
        .replace("  patches:\n", &format!("  patches:\n{patches}"))
}

#[test]
fn other_values_are_tried_one_at_a_time() {
    // DEC-68
    let boolean = |name: &str| {
        format!(
            "  - {{name: {name}, required: false, schema: {{openAPIV3Schema: {{type: boolean, default: false}}}}}}\n"
        )
    };
    let remove = "{op: remove, path: /spec/template/spec/kubeadmConfigSpec/clusterConfiguration}";
    let patches = [("byX", "{{ .byX }}", remove), ("byY", "{{ .byY }}", remove)];
    let run = |class: &str, more: &[(&str, &str)]| {
        let files: Vec<(&str, &str)> = [("class.yaml", class)].into_iter().chain(more.iter().copied()).collect();
        let (_, out, err) = Folder::new(&files).run(&["validate", "-o", "short", "."], &[]);
        format!("{out}{err}")
    };
    // Both at once would fail, which is no mistake.
    let out = run(&class_with(&(boolean("byX") + &boolean("byY")), &patches), &[]);
    assert!(!out.contains("warning["), "{out}");
    // One value does not hide what another one shows, and the last entry of a long list counts.
    let entries: Vec<String> = (0..40).map(|number| format!("e{number}")).collect();
    let list = format!(
        "  - {{name: entry, required: true, schema: {{openAPIV3Schema: {{type: string, enum: [{}]}}}}}}\n",
        entries.join(", ")
    );
    let broken = "{op: add, path: /spec/template/spec/nowhere/below, value: x}";
    let patches =
        [("last", "{{ eq .entry \"e39\" }}", broken), ("masked", "{{ and (eq .entry \"e1\") (not .fast) }}", broken)];
    let class = class_with(&(boolean("fast") + &list), &patches);
    let out = run(&class, &[]);
    for which in ["entry: e39", "entry: e1"] {
        assert!(out.contains(&format!("(in a sample Cluster with {which})\n")), "{which}: {out}");
    }
    // A denied Cluster beside a good one hides nothing.
    let good = cluster().replace("    variables:\n", "    variables:\n    - {name: entry, value: e0}\n");
    let denied = cluster().replace("name: demo", "name: denied");
    let out = run(&class, &[("good.yaml", &good), ("denied.yaml", &denied)]);
    assert!(out.contains("(in a Cluster like default/demo with entry: e39)\n"), "{out}");
    // What is too much is said.
    let many: String = (0..10).map(|number| list.replace("entry", &format!("entry{number}"))).collect();
    let out = run(&class_with(&many, &[]), &[]);
    let skipped = "not tried, because there are too many: ";
    assert!(out.contains(skipped), "{out}");
}

#[test]
fn sets_of_workers_of_a_sample_have_names_of_their_class() {
    // DEC-68
    let class = class_and_templates();
    let worker = class.find("    - class: default-worker\n").unwrap();
    let end = worker + class[worker..].find("    machinePools:").unwrap();
    let second = class[worker..end].replace("default-worker", "second");
    let class = format!("{}{second}{}", &class[..end], &class[end..]);
    let cluster = cluster().replace("name: blue", "name: sample-second");
    let folder = Folder::new(&[("class.yaml", &class), ("cluster.yaml", &cluster)]);
    let (code, out) = validate(&folder, &["-o", "short"]);
    assert!(code == 0 && !out.contains("warning["), "{out}");
}

#[test]
fn fields_of_other_objects_are_counted_for_these() {
    // DEC-62
    let wrong = cluster().replace("class: default-worker", "class: other");
    let second = wrong.replace("name: demo", "name: second");
    let folder = quick_start(&[]);
    fs::write(folder.path("cluster.yaml"), &wrong).unwrap();
    fs::write(folder.path("second.yaml"), &second).unwrap();
    let (_, text, _) = folder.run(&["validate", "."], &[]);
    assert!(text.contains("note: the same for Cluster default/second\n") && !text.contains("note: and "), "{text}");
}

#[test]
fn a_finding_names_the_variables_that_it_depends_on() {
    // DEC-62
    let patch = "{op: add, path: /spec/template/spec/kubeadmConfigSpec/files, valueFrom: {template: '[{path: /a, contnt: {{ \
                 .kubeletLogLevel }}}]'}}";
    let class = class_with("", &[("log", "true", patch)]);
    let mut all = vec![("class.yaml", &*class)];
    let run = |files: &[(&str, &str)]| {
        let folder = Folder::new(files);
        let (_, out, err) = folder.run(&["validate", "-o", "json", "."], &[]);
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
        let (_, text, _) = folder.run(&["validate", "."], &[]);
        (report["findings"][0]["related"].clone(), text)
    };
    let (of_class, text) = run(&all);
    assert_eq!(of_class[0]["path"], "spec.variables[1]", "{of_class:#}");
    assert!(
        text.contains("note: depends on spec.variables[kubeletLogLevel] of ClusterClass default/quick-start ("),
        "{text}"
    );
    let cluster = cluster();
    all.push(("cluster.yaml", &cluster));
    let (of_cluster, text) = run(&all);
    let variable = of_cluster.as_array().unwrap().iter().find(|related| related.get("path").is_some()).unwrap();
    let line = cluster.lines().position(|line| line.contains("- name: kubeletLogLevel")).unwrap() + 1;
    assert_eq!((&variable["line"], &variable["file"]), (&line.into(), &"./cluster.yaml".into()), "{of_cluster:#}");
    assert!(
        text.contains("note: depends on spec.topology.variables[kubeletLogLevel] of Cluster default/demo"),
        "{text}"
    );
}
