//! Texts of others on a terminal and in the log of a CI job: nothing in them erases, hides or forges a line, or is a
//! command (DEC-64).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::extension::{Reply, TestExtension};
use crate::harness::server::command;

/// A line that reads like a result, commands of CI systems, and what terminals act on.
const HOSTILE: &str = "::error::forged\n::add-mask::a\nOK: all fine\r\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{85}##[add-mask]b ##vso[task.complete]c";
/// The same without a line feed, for names of files and arguments that are looked for.
const ONE_LINE: &str = "::error::forged\rOK: all fine\u{1b}[2J\u{9b}31m\u{202e}##[add-mask]b";

/// Where a text is put: a value, which becomes the text, a member, which gets it as a name, or the end of a text.
#[derive(Clone, Copy, Debug)]
enum At {
    Value,
    Name,
    End,
}
use At::{End, Name, Value as Whole};

/// The kind of an object, and a place in it.
const PLACES: [(&str, &str, At); 58] = [
    ("Cluster", "/metadata/name", Whole),
    ("Cluster", "/metadata/namespace", Whole),
    ("Cluster", "/metadata/labels", Name),
    ("Cluster", "/metadata/labels/site", Whole),
    ("Cluster", "/metadata/annotations", Name),
    ("Cluster", "/metadata", Name),
    ("Cluster", "/metadata/finalizers/0", Whole),
    ("Cluster", "/apiVersion", Whole),
    ("Cluster", "/apiVersion", End),
    ("Cluster", "/kind", Whole),
    ("Cluster", "/kind", End),
    ("Cluster", "/spec", Name),
    ("Cluster", "/spec/clusterNetwork/pods/cidrBlocks/0", Whole),
    ("Cluster", "/spec/topology", Name),
    ("Cluster", "/spec/topology/classRef/name", Whole),
    ("Cluster", "/spec/topology/classRef/namespace", Whole),
    ("Cluster", "/spec/topology/version", Whole),
    ("Cluster", "/spec/topology/version", End),
    ("Cluster", "/spec/topology/controlPlane/metadata/labels", Name),
    ("Cluster", "/spec/topology/controlPlane/replicas", Whole),
    ("Cluster", "/spec/topology/workers/machineDeployments/0/name", Whole),
    ("Cluster", "/spec/topology/workers/machineDeployments/0/class", Whole),
    ("Cluster", "/spec/topology/workers/machineDeployments/0/failureDomain", Whole),
    ("Cluster", "/spec/topology/workers/machineDeployments/0/variables/overrides/0/name", Whole),
    ("Cluster", "/spec/topology/variables/0/name", Whole),
    ("Cluster", "/spec/topology/variables/0/value", Whole),
    ("Cluster", "/spec/topology/variables/1/value", Name),
    ("Cluster", "/spec/topology/variables/1/value/servers/0", Whole),
    ("Cluster", "/spec/topology/variables/2/value", Whole),
    ("ClusterClass", "/metadata/name", Whole),
    ("ClusterClass", "/spec", Name),
    ("ClusterClass", "/spec/kubernetesVersions/0", Whole),
    ("ClusterClass", "/spec/infrastructure/templateRef/kind", Whole),
    ("ClusterClass", "/spec/infrastructure/templateRef/kind", End),
    ("ClusterClass", "/spec/infrastructure/templateRef/name", Whole),
    ("ClusterClass", "/spec/infrastructure/templateRef/apiVersion", Whole),
    ("ClusterClass", "/spec/controlPlane/metadata/labels", Name),
    ("ClusterClass", "/spec/workers/machineDeployments/0/class", Whole),
    ("ClusterClass", "/spec/workers/machineDeployments/0/naming/template", Whole),
    ("ClusterClass", "/spec/variables/0/name", Whole),
    ("ClusterClass", "/spec/variables/0/schema/openAPIV3Schema/pattern", Whole),
    ("ClusterClass", "/spec/variables/0/schema/openAPIV3Schema/pattern", End),
    ("ClusterClass", "/spec/variables/0/schema/openAPIV3Schema/default", Whole),
    ("ClusterClass", "/spec/variables/0/schema/openAPIV3Schema", Name),
    ("ClusterClass", "/spec/variables/2/schema/openAPIV3Schema/properties", Name),
    ("ClusterClass", "/spec/variables/2/schema/openAPIV3Schema/x-kubernetes-validations/0/message", Whole),
    ("ClusterClass", "/spec/variables/2/schema/openAPIV3Schema/x-kubernetes-validations/0/rule", Whole),
    ("ClusterClass", "/spec/variables/2/schema/openAPIV3Schema/x-kubernetes-validations/0/messageExpression", Whole),
    ("ClusterClass", "/spec/patches/0/name", Whole),
    ("ClusterClass", "/spec/patches/0/enabledIf", Whole),
    ("ClusterClass", "/spec/patches/0/definitions/0/selector/kind", Whole),
    ("ClusterClass", "/spec/patches/0/definitions/0/jsonPatches/0/path", End),
    ("ClusterClass", "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom/template", Whole),
    ("ClusterClass", "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom/template", End),
    ("DevMachineTemplate", "/metadata/name", Whole),
    ("DevMachineTemplate", "/kind", End),
    ("DevMachineTemplate", "/spec/template/spec", Name),
    ("DevClusterTemplate", "/spec/template/metadata/labels", Name),
];

/// The objects of the quick start, with members that places are in.
fn objects() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start");
    let texts =
        ["class.yaml", "cluster.yaml", "templates.yaml"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
    let mut objects: Vec<Value> = texts
        .iter()
        .flat_map(|text| yaml::documents(text).into_iter().map(|document| document.unwrap().value))
        .collect();
    for object in &mut objects {
        match object["kind"].as_str() {
            Some("Cluster") => {
                object["metadata"]["labels"] = json!({"site": "a"});
                object["metadata"]["annotations"] = json!({});
                object["metadata"]["finalizers"] = json!(["example.com/a"]);
                let topology = &mut object["spec"]["topology"];
                topology["controlPlane"]["metadata"] = json!({"labels": {}});
                let image = json!({"name": "imageRepository", "value": "docker.io/kindest"});
                topology["variables"].as_array_mut().unwrap().push(image.clone());
                topology["workers"]["machineDeployments"][0]["variables"] = json!({"overrides": [image]});
            }
            Some("ClusterClass") => {
                object["spec"]["controlPlane"]["metadata"] = json!({"labels": {}});
                object["spec"]["variables"][0]["schema"]["openAPIV3Schema"]["pattern"] = json!("^[a-z./]+$");
                object["spec"]["workers"]["machineDeployments"][0]["naming"] =
                    json!({"template": "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}"});
            }
            Some("DevClusterTemplate") => object["spec"]["template"]["metadata"] = json!({"labels": {}}),
            _ => {}
        }
    }
    objects
}

/// Puts a text at a place of each object of a kind.
fn put(objects: &mut [Value], (kind, pointer, at): (&str, &str, At), text: &str) {
    let mut count = 0;
    for object in objects.iter_mut().filter(|object| object["kind"] == kind) {
        count += 1;
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match at {
            Name => {
                let members = object.pointer_mut(pointer).unwrap_or_else(|| panic!("{kind} has no {pointer}"));
                members[text] = json!(text);
            }
            Whole | End => {
                let old = object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                let new = if matches!(at, End) { format!("{old}{text}") } else { text.to_owned() };
                let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("{kind} has no {parent}"));
                match parent {
                    Value::Array(list) => list[name.parse::<usize>().unwrap()] = json!(new),
                    other => other[name] = json!(new),
                }
            }
        }
    }
    assert!(count > 0, "no {kind}");
}

/// What is wrong with an output that people read.
fn fault(text: &[u8]) -> Option<String> {
    let Ok(text) = str::from_utf8(text) else { return Some("it is not UTF-8".to_owned()) };
    let is_acted_on = |c: char| {
        (c != '\n' && c.is_control())
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let wrong = |line: &&str| {
        let start = line.trim_start();
        line.contains(is_acted_on)
            || start.starts_with("::")
            || start.starts_with("OK: ")
            || line.contains("##[")
            || line.contains("##vso[")
    };
    text.lines().find(wrong).map(|line| format!("{line:?}"))
}

/// Whether an output says something of a hostile text.
fn shows(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains(r"\u{1b}[2J\u{9b}31m\u{202e}")
}

/// A command, and whether its standard output is for people: the rest is YAML or JSON.
type Line<'a> = (&'a [&'a str], bool);

const COMMANDS: [Line<'static>; 12] = [
    (&["validate", "new.json"], true),
    (&["validate", "-o", "short", "new.json"], true),
    (&["validate", "-o", "junit", "new.json"], true),
    (&["validate", "-o", "markdown", "--old", "old.json", "new.json"], true),
    (&["validate", "--strict", "--old", "old.json", "new.json"], true),
    (&["default", "new.json"], false),
    (&["render", "new.json"], false),
    (&["plan", "--from", "old.json", "--to", "new.json"], true),
    (&["plan", "--from", "old.json", "--to", "new.json", "-o", "markdown"], true),
    (&["plan", "--from", "new.json", "--to", "old.json", "--color=never", "--all"], true),
    (&["simulate", "old.json", "--to", "new.json"], true),
    (&["check-provider", "new.json"], true),
];

/// Runs a command in a folder: what is wrong with its outputs, and whether one of them shows the text.
fn run(folder: &Path, (arguments, is_text): Line<'_>) -> (Option<String>, bool) {
    let output = command(arguments).current_dir(folder).output().unwrap();
    let out = fault(&output.stdout).filter(|_| is_text).map(|line| format!("standard output: {line}"));
    let err = fault(&output.stderr).map(|line| format!("standard error: {line}"));
    (out.or(err), (is_text && shows(&output.stdout)) || shows(&output.stderr))
}

/// Runs the work for each number below `count` on all processors.
fn each(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    match next.fetch_add(1, Ordering::Relaxed) {
                        at if at < count => work(at),
                        _ => return,
                    }
                }
            });
        }
    });
}

#[test]
fn no_text_of_an_object_is_acted_on_by_a_terminal_or_a_ci_system() {
    // DEC-64
    let (faults, shown) = (Mutex::new(Vec::new()), COMMANDS.map(|_| AtomicUsize::new(0)));
    let old = json!({"apiVersion": "v1", "kind": "List", "items": objects()}).to_string();
    each(PLACES.len(), |at| {
        let place = PLACES[at];
        let folder = tempfile::tempdir().unwrap();
        let mut new = objects();
        put(&mut new, place, HOSTILE);
        fs::write(folder.path().join("old.json"), &old).unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": new}).to_string();
        fs::write(folder.path().join("new.json"), list).unwrap();
        for (line, shown) in COMMANDS.iter().zip(&shown) {
            let (fault, is_shown) = run(folder.path(), *line);
            shown.fetch_add(usize::from(is_shown), Ordering::Relaxed);
            if let Some(fault) = fault {
                faults.lock().unwrap().push(format!("{place:?}: {}: {fault}", line.0.join(" ")));
            }
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    // Each command shows the texts of some places, so the test sees them.
    let shown = shown.map(AtomicUsize::into_inner);
    assert!(shown.iter().all(|count| *count >= 5), "{shown:?}");
}

#[test]
fn no_text_of_a_definition_is_acted_on() {
    // DEC-64
    const KIND: &str = "CustomResourceDefinition";
    let output = command(&["crds", "--only", "embedded-provider"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let definitions: Vec<Value> = yaml::documents(&text).into_iter().map(|one| one.unwrap().value).collect();
    let mut shown = 0;
    for place in [
        (KIND, "/metadata/name", Whole),
        (KIND, "/metadata/labels", Name),
        (KIND, "/spec/group", End),
        (KIND, "/spec/scope", Whole),
        (KIND, "/spec/names/kind", Whole),
        (KIND, "/spec/names/kind", End),
        (KIND, "/spec/names/plural", Whole),
        (KIND, "/spec/versions/0/name", Whole),
        (KIND, "/spec/versions/0/schema/openAPIV3Schema/properties", Name),
        (KIND, "/spec/versions/0/schema/openAPIV3Schema/properties/spec/type", Whole),
        (KIND, "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties", Name),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut new = definitions.clone();
        put(&mut new, place, HOSTILE);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": new}).to_string();
        fs::write(folder.path().join("new.json"), list).unwrap();
        let (fault, is_shown) = run(folder.path(), (&["check-provider", "new.json"], true));
        assert_eq!(fault, None, "{place:?}");
        shown += usize::from(is_shown);
    }
    assert!(shown >= 5, "{shown}");
}

#[test]
fn no_name_of_a_file_and_no_argument_is_acted_on() {
    // DEC-64
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects()}).to_string();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let hostile_file = format!("{ONE_LINE}\n.json");
    file(&hostile_file, &list);
    file("old.json", &list);
    file("broken.yaml", "a: 1\n---\n\"b\u{202e}\": \"c\n\u{9b} d: e\nf\"");
    file("keys.yaml", "\"::error::\\r\\e[2J\": 1\n\"::error::\\r\\e[2J\": 2\n");
    file("reference.yaml", &format!("{}\n", "a: ${\u{9b}::error::B}"));
    file("timings.yaml", "\"\\e[2J\\n::error::\": 1s\n");
    file("failures.yaml", "failures: [{cluster: \"::error::\\n::add-mask::a\\e[2J\", machine: 900}]\n");
    let (mut shown, mut faults) = (0, Vec::new());
    let hostile = HOSTILE;
    let lines: [(&[&str], bool); 27] = [
        (&["validate", &hostile_file], true),
        (&["default", &hostile_file], false),
        (&["render", &hostile_file], false),
        (&["plan", "--from", &hostile_file, "--to", "old.json"], true),
        (&["simulate", &hostile_file], true),
        (&["check-provider", &hostile_file], true),
        (&["validate", hostile], true),
        (&["validate", "broken.yaml"], true),
        (&["validate", "keys.yaml"], true),
        (&["validate", "--env", "UNSET", "reference.yaml"], true),
        (&["simulate", "--timings", "timings.yaml", "old.json"], true),
        (&["simulate", "--timings", "failures.yaml", "old.json"], true),
        (&["simulate", "old.json", "--html", "absent/::error::\n\u{1b}/a"], true),
        (&["plan", "--from", "old.json", "--to", hostile], true),
        (&["plan", "--from", "old.json", "--to", "old.json", "--cluster", hostile], true),
        (&["plan", "--from", "old.json", "--to", "old.json", "-l", hostile], true),
        (&["render", "old.json", "--cluster", hostile], true),
        (&["render", "old.json", "--extension", hostile], true),
        (&["render", "old.json", "--extension", "a=::error::\n\u{1b}[2J"], true),
        (&["certs", "--out", "old.json/::error::\n\u{1b}"], true),
        (&["certs", "--out", "certs\n::error::\u{1b}[2J", "--host", "localhost"], true),
        (&["certs", "--out", "others", "--host", hostile], true),
        (&["crds", "--only", hostile], true),
        (&[hostile], true),
        (&["validate", "--::error::\n\u{1b}[2J"], true),
        (&["serve", "--embedded", "--load", hostile], true),
        (&["serve", "--kubeconfig", hostile], true),
    ];
    for line in lines {
        let (fault, is_shown) = run(folder.path(), line);
        faults.extend(fault.map(|fault| format!("{:?}: {fault}", line.0)));
        shown += usize::from(is_shown);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(shown >= 11, "{shown}");
}

#[test]
fn no_answer_of_an_extension_is_acted_on() {
    // DEC-64
    const PATCH: &str = "GeneratePatches";
    let answers: [(&str, Reply); 6] = [
        ("a failure", Reply::failure(HOSTILE)),
        ("a status", Reply::Json(json!({"status": HOSTILE, "message": HOSTILE}))),
        ("an item", Reply::success(json!({"items": [{"uid": HOSTILE, "patchType": HOSTILE, "patch": "e30="}]}))),
        ("a body", Reply::Code(500, "::error::\n\u{1b}[2J\u{9b}31m\u{202e}OK")),
        ("a member", Reply::Json(json!({HOSTILE: HOSTILE}))),
        ("a type", Reply::Json(json!({"status": {HOSTILE: 1}}))),
    ];
    let mut shown = 0;
    for (what, reply) in answers {
        let lab = TestExtension::start();
        lab.on(PATCH, "generate", move |_| reply.clone());
        let folder = tempfile::tempdir().unwrap();
        let mut new = objects();
        for class in new.iter_mut().filter(|object| object["kind"] == "ClusterClass") {
            let external = json!({"name": "remote", "external": {"generatePatchesExtension": "generate.lab"}});
            class["spec"]["patches"].as_array_mut().unwrap().push(external);
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": new}).to_string();
        fs::write(folder.path().join("new.json"), list).unwrap();
        fs::write(folder.path().join("ca.crt"), &lab.ca).unwrap();
        let url = format!("lab={}", lab.url());
        let flags = ["--extension", &*url, "--extension-ca", "ca.crt"];
        let check = ["check-extension", &*url, "--extension-ca", "ca.crt", "--files", "new.json"];
        for line in [
            &[&["render", "new.json"][..], &flags].concat()[..],
            &[&["validate", "new.json"][..], &flags].concat(),
            &[&["plan", "--from", "new.json", "--to", "new.json"][..], &flags].concat(),
            &[&["simulate", "new.json"][..], &flags].concat(),
            &check,
        ] {
            let (fault, is_shown) = run(folder.path(), (line, line[0] != "render"));
            assert_eq!(fault, None, "{what} {line:?}");
            shown += usize::from(is_shown);
        }
        let members = json!({"handlers": [{"name": HOSTILE, "requestHook": {"apiVersion": HOSTILE, "hook": HOSTILE},
            "failurePolicy": HOSTILE}], "message": HOSTILE});
        for status in ["Success", "Failure", HOSTILE] {
            let (members, status) = (members.clone(), status.to_owned());
            lab.on_discovery(move |_| {
                let mut answer = members.clone();
                answer["status"] = json!(status);
                Reply::Json(answer)
            });
            let (fault, is_shown) = run(folder.path(), (&check, true));
            assert_eq!(fault, None, "{what}");
            assert!(is_shown, "{what}");
        }
    }
    assert!(shown >= 8, "{shown}");
}

#[test]
fn no_environment_variable_is_acted_on() {
    // DEC-64
    let folder = tempfile::tempdir().unwrap();
    let help = command(&["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let names: Vec<&str> = help.split("[env: ").skip(1).map(|rest| rest.split(['=', ']']).next().unwrap()).collect();
    assert!(names.len() >= 40 && names.iter().all(|name| name.starts_with("TOPOLOGIST_")), "{names:?}");
    let (shown, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    each(names.len(), |at| {
        // Without --embedded and --kubeconfig it ends at once.
        for arguments in [&["serve"][..], &["serve", "--no-such-flag"], &["serve", "--help"]] {
            let output = command(arguments).current_dir(folder.path()).env(names[at], HOSTILE).output().unwrap();
            for text in [&output.stdout, &output.stderr] {
                shown.fetch_add(usize::from(shows(text)), Ordering::Relaxed);
                if let Some(fault) = fault(text) {
                    faults.lock().unwrap().push(format!("{} {arguments:?}: {fault}", names[at]));
                }
            }
        }
    });
    let (shown, faults) = (shown.into_inner(), faults.into_inner().unwrap());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(shown >= 15, "{shown}");
}

#[test]
fn a_panic_is_one_line() {
    // DEC-64: the test runs itself, and panics there.
    const CHILD: &str = "TOPOLOGIST_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        topologist::cli::report_panics();
        panic!("{HOSTILE}");
    }
    let mut itself = Command::new(std::env::current_exe().unwrap());
    itself.args(["--exact", "hostile_texts::a_panic_is_one_line", "--nocapture"]).env(CHILD, "1");
    for (backtrace, lines) in [("0", 1..=1), ("1", 3..=1000)] {
        let output = itself.env("RUST_BACKTRACE", backtrace).output().unwrap();
        assert!(!output.status.success());
        assert_eq!(fault(&output.stderr), None);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("topologist: panicked at tests/stories/hostile_texts.rs:"), "{text}");
        assert!(
            text.lines().next().unwrap().contains(r": ::error::forged\n::add-mask::a\nOK: all fine\r\u{1b}[2J"),
            "{text}"
        );
        assert!(lines.contains(&text.lines().count()), "{text}");
    }
}
