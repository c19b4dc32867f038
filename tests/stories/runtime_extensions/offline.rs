//! Commands with files and an extension: variables, plans of upgrades, two versions of an extension, and
//! `check-extension`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::extension::{Reply, TestExtension, patched, variable};
use crate::harness::server::command;

const CONFIG: &str = "spec.template.spec.bootstrap.configRef";
/// What is said of a format that the definition of the extension does not allow.
const REFUSED: &str = "error[VAR-V-025]: Unsupported value: ";

/// A folder with the embedded class and its Cluster, and the CA of an extension.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// The class uses these external patches besides its own; `edit` changes class and Cluster.
    pub fn with(patches: &[(&str, Value)], edit: impl Fn(&mut Value)) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("bundle.json", patches, edit);
        folder
    }

    pub fn write(&self, file: &str, patches: &[(&str, Value)], edit: impl Fn(&mut Value)) {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded");
        let texts = ["class.yaml", "cluster.yaml"].map(|name| fs::read_to_string(fixtures.join(name)).unwrap());
        let mut objects: Vec<Value> = texts
            .iter()
            .flat_map(|text| yaml::documents(text).into_iter().map(|document| document.unwrap().value))
            .collect();
        for object in &mut objects {
            if object["kind"] == "ClusterClass" {
                let all = object["spec"]["patches"].as_array_mut().unwrap();
                all.extend(patches.iter().map(|(name, external)| json!({"name": name, "external": external})));
            }
            edit(object);
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(self.path(file), list.to_string()).unwrap();
    }

    pub fn trust(&self, ca: &str) {
        fs::write(self.path("ca.crt"), ca).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command in the folder: exit code, standard output, standard error.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = command(arguments).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// An extension that defines the variable `format` and writes it into the templates of bootstrap configurations.
fn formatting() -> TestExtension {
    let lab = TestExtension::start();
    lab.on("DiscoverVariables", "variables", |request| {
        let schema =
            json!({"type": "string", "enum": ["cloud-config", "ignition"], "default": request["settings"]["first"]});
        Reply::success(
            json!({"variables": [{"name": "format", "required": false, "schema": {"openAPIV3Schema": schema}}]}),
        )
    });
    lab.on("GeneratePatches", "generate", |request| match variable(request, "format") {
        Value::Null => Reply::failure("the variable format is missing"),
        format => patched(request, CONFIG, "format", &format),
    });
    lab
}

fn formats() -> Value {
    json!({"generatePatchesExtension": "generate.lab", "discoverVariablesExtension": "variables.lab",
        "settings": {"first": "ignition"}})
}

fn set(object: &mut Value, name: &str, value: &str) {
    if object["kind"] == "Cluster" {
        object["spec"]["topology"]["variables"].as_array_mut().unwrap().push(json!({"name": name, "value": value}));
    }
}

#[test]
fn a_class_may_have_many_external_patches() {
    // PE-23, PE-29
    let lab = TestExtension::start();
    lab.on("GeneratePatches", "generate", |request| {
        let format = if request["settings"]["number"] == "19" { "ignition" } else { "cloud-config" };
        patched(request, CONFIG, "format", &json!(format))
    });
    lab.on("ValidateTopology", "validate", |_| Reply::done());
    let names: Vec<String> = (0..20).map(|number| format!("remote-{number}")).collect();
    let external = |number: usize| {
        json!({"generatePatchesExtension": "generate.lab", "validateTopologyExtension": "validate.lab",
            "settings": {"number": number.to_string()}})
    };
    let patches: Vec<(&str, Value)> =
        names.iter().enumerate().map(|(number, name)| (&**name, external(number))).collect();
    let folder = Folder::with(&patches, |_| {});
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let (code, out, err) = folder.run(&["render", "bundle.json", "--extension", &url, "--extension-ca", "ca.crt"]);
    assert!(code == 0 && out.contains("format: ignition"), "the last one wins: {err}");
    assert!(lab.count("generate") >= 20 && lab.count("validate") >= 20);
}

#[test]
fn discovered_variables_are_defaulted_validated_and_patched() {
    // RH-16.1, RH-17.9, RH-11.3
    let lab = formatting();
    let folder = Folder::with(&[("remote", formats())], |_| {});
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let flags = ["--extension", &*url, "--extension-ca", "ca.crt"];
    let (code, out, err) = folder.run(&[&["render", "bundle.json"][..], &flags].concat());
    assert_eq!((code, err.contains("incomplete")), (0, false), "{err}");
    assert!(out.contains("format: ignition"), "the default of the definition: {out}");
    folder.write("wrong.json", &[("remote", formats())], |object| set(object, "format", "tar"));
    let record = ["validate", "wrong.json", "--record", "lab.json"];
    let (code, out, _) = folder.run(&[&record[..], &flags].concat());
    assert_eq!(code, 1, "{out}");
    assert!(out.contains(REFUSED), "{out}");
    let (_, out, err) = folder.run(&["validate", "wrong.json"]);
    assert!(!out.contains("Unsupported value"), "nothing says what format may be: {out}{err}");
    drop(lab);
    let (code, recorded, err) = folder.run(&["validate", "wrong.json", "--extension", "lab=lab.json"]);
    assert!(code == 1 && recorded.contains(REFUSED), "{recorded}{err}");
}

#[test]
fn definitions_that_conflict_are_reported() {
    // RH-17.5
    let lab = formatting();
    let folder = Folder::with(&[("remote", formats())], |object| {
        if object["kind"] == "ClusterClass" {
            let own = json!({"name": "format", "required": true, "schema": {"openAPIV3Schema": {"type": "integer"}}});
            object["spec"]["variables"].as_array_mut().unwrap().push(own);
        }
        if object["kind"] == "Cluster" {
            let all = object["spec"]["topology"]["variables"].as_array_mut().unwrap();
            all.push(json!({"name": "format", "value": 1}));
        }
    });
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let (_, out, err) = folder.run(&["validate", "bundle.json", "--extension", &url, "--extension-ca", "ca.crt"]);
    let want = "ClusterClass default/embedded: VariableDiscovery failed: the following variables have conflicting \
                definitions: format";
    assert!(err.contains(want), "{out}{err}");
    let check = ["check-extension", &*url, "--extension-ca", "ca.crt", "--files", "bundle.json", "-o", "json"];
    let (code, out, _) = folder.run(&[&check[..], &["--format-version", "1"]].concat());
    let report: Value = serde_json::from_str(&out).unwrap();
    let of = |hook: &str| {
        let handlers = report["handlers"].as_array().unwrap();
        handlers.iter().find(|handler| handler["hook"] == hook).unwrap()["findings"][0].clone()
    };
    let want = "ClusterClass embedded defines variables of the same name in another way: format";
    let finding = of("DiscoverVariables");
    assert_eq!((code, &finding["rule"], &finding["message"]), (1, &json!("RH-17.5"), &json!(want)), "{report:#}");
}

#[test]
fn an_upgrade_follows_the_plan_of_the_extension() {
    // RH-21.1, RH-21.3
    let lab = TestExtension::start();
    lab.on("GenerateUpgradePlan", "plan", |request| {
        assert_eq!(request["cluster"]["metadata"]["name"], "demo", "{request}");
        let steps =
            |versions: &[&str]| -> Value { versions.iter().map(|version| json!({"version": version})).collect() };
        match (request["fromControlPlaneKubernetesVersion"].as_str(), request["toKubernetesVersion"].as_str()) {
            (Some("v1.33.0"), Some("v1.35.0")) => {
                Reply::success(json!({"controlPlaneUpgrades": steps(&["v1.34.7", "v1.35.0"]), "workersUpgrades": []}))
            }
            (Some("v1.34.7"), Some("v1.35.0")) => Reply::success(json!({"controlPlaneUpgrades": steps(&["v1.35.0"])})),
            (Some("v1.35.0"), Some("v1.35.0")) => Reply::success(json!({"workersUpgrades": steps(&["v1.35.0"])})),
            other => Reply::failure(&format!("no plan for {other:?}")),
        }
    });
    let planned = |version: &'static str| {
        move |object: &mut Value| match object["kind"].as_str() {
            Some("ClusterClass") => {
                object["spec"]["upgrade"] = json!({"external": {"generateUpgradePlanExtension": "plan.lab"}});
                object["spec"].as_object_mut().unwrap().remove("kubernetesVersions");
            }
            Some("Cluster") => object["spec"]["topology"]["version"] = json!(version),
            _ => {}
        }
    };
    let folder = Folder::with(&[], planned("v1.33.0"));
    folder.write("to.json", &[], planned("v1.35.0"));
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let flags = ["--extension", &*url, "--extension-ca", "ca.crt"];
    let plan = ["plan", "--from", "bundle.json", "--to", "to.json"];
    let (code, out, err) = folder.run(&[&plan[..], &flags].concat());
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("v1.34.7"), "it goes through the version of the extension: {out}{err}");
    let (code, out, err) = folder.run(&plan);
    assert!(code == 1 && out.contains("call the extension with --extension"), "{code} {out}{err}");
    let simulate = ["simulate", "bundle.json", "--to", "to.json"];
    let (code, out, err) = folder.run(&[&simulate[..], &flags].concat());
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("v1.34.7"), "{out}{err}");
}

#[test]
fn plans_and_simulations_show_what_hooks_hold() {
    // HK-14, RH-5.5, RH-18.4, RH-19.3, DEC-12
    let mut lab = TestExtension::start();
    lab.on("BeforeClusterUpgrade", "gate", |_| Reply::wait(600, "the window is closed"));
    let version = |version: &'static str| {
        move |object: &mut Value| {
            if object["kind"] == "Cluster" {
                object["spec"]["topology"]["version"] = json!(version);
            }
        }
    };
    let folder = Folder::with(&[], version("v1.33.0"));
    folder.write("to.json", &[], version("v1.34.0"));
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let flags = ["--extension", &*url, "--extension-ca", "ca.crt"];
    let plan = ["plan", "--from", "bundle.json", "--to", "to.json"];
    let (code, out, err) = folder.run(&[&plan[..], &flags].concat());
    let passed = "ExtensionConfig lab: lifecycle hooks are not called, and are assumed to pass";
    assert!(code == 4 && format!("{out}{err}").contains(passed), "{code} {out}{err}");
    assert_eq!(lab.count("gate"), 0);
    let (_, unasked, err) = folder.run(&[&plan[..], &flags, &["--record", "unasked.json"]].concat());
    let (_, replayed, replayed_err) = folder.run(&[&plan[..], &["--extension", "lab=unasked.json"]].concat());
    assert_eq!((replayed, replayed_err), (unasked, err), "a recording without hooks says no more than its session did");
    let held = "hook BeforeClusterUpgrade: the window is closed";
    let record = [&plan[..], &flags, &["--call-hooks", "--record", "lab.json"]].concat();
    let (code, live, err) = folder.run(&record);
    assert!(code == 0 && live.contains(held), "{code} {live}{err}");
    assert!(lab.count("gate") > 0);
    let simulate = ["simulate", "bundle.json", "--to", "to.json"];
    let (code, out, err) = folder.run(&[&simulate[..], &flags, &["--call-hooks"]].concat());
    assert!(code == 1 && out.contains(held), "{code} {out}{err}");
    let earlier = ["--now", "2026-01-31T12:00:00Z", "--call-hooks", "--record", "simulated.json"];
    let (_, simulated, _) = folder.run(&[&simulate[..], &flags, &earlier].concat());
    lab.stop();
    let recorded = [&simulate[..], &["--extension", "lab=simulated.json"]].concat();
    for more in [&["--record", "simulated.json"][..], &[]] {
        let (code, repeated, err) = folder.run(&[&recorded[..], more].concat());
        assert_eq!((code, &repeated), (1, &simulated), "it starts when the recorded simulation did: {err}");
    }
    let (code, _, err) = folder.run(&[&recorded[..], &["--now", "2026-02-01T12:00:00Z"]].concat());
    assert!(code == 0 && err.contains("simulated.json has no answer to this request"), "{code} {err}");
    let text = fs::read_to_string(folder.path("simulated.json")).unwrap();
    fs::write(folder.path("simulated.json"), text.replace("2026-01-31T12:00:00Z", "0000-01-31T12:00:00Z")).unwrap();
    let (code, _, err) = folder.run(&recorded);
    assert!(code == 2 && err.contains("simulated.json: start must be a time in the years 1 to 9000"), "{code} {err}");
    let (code, replayed, err) = folder.run(&[&plan[..], &["--extension", "lab=lab.json"]].concat());
    assert_eq!((code, &replayed), (0, &live), "{err}");
}

#[test]
fn a_plan_compares_two_versions_of_an_extension() {
    // RH-3.8
    let extension = |format: &'static str| {
        let lab = TestExtension::start();
        lab.on("GeneratePatches", "generate", move |request| patched(request, CONFIG, "format", &json!(format)));
        lab
    };
    let (old, new) = (extension("cloud-config"), extension("ignition"));
    let folder = Folder::with(&[("remote", json!({"generatePatchesExtension": "generate.lab"}))], |_| {});
    folder.trust(&[&*old.ca, &*new.ca].concat());
    let [old, same, new] = [&old, &old, &new].map(|lab| format!("lab={}", lab.url()));
    let plan = |to: &str| {
        let sides = ["--extension-from", &*old, "--extension-to", to, "--extension-ca", "ca.crt"];
        folder.run(&[&["plan", "--from", "bundle.json", "--to", "bundle.json"][..], &sides].concat())
    };
    let (code, out, err) = plan(&same);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = plan(&new);
    assert_eq!(code, 4, "machines get another bootstrap configuration: {out}{err}");
    assert!(out.contains("cloud-config") && out.contains("ignition"), "{out}{err}");
}

#[test]
fn a_check_reports_an_order_that_has_an_effect_and_a_handler_that_dies() {
    // RH-10.10, RH-23.4
    let (first, second) = (TestExtension::start(), TestExtension::start());
    first.on("GeneratePatches", "generate", |request| patched(request, CONFIG, "format", &json!("ignition")));
    second.on("DiscoverVariables", "variables", |_| {
        let schema = json!({"openAPIV3Schema": {"type": "string", "default": "cloud-config"}});
        Reply::success(json!({"variables": [{"name": "format", "schema": schema}]}))
    });
    second.on("GeneratePatches", "generate", |request| match variable(request, "format") {
        Value::Null => Reply::Hang,
        format => patched(request, CONFIG, "format", &format),
    });
    let one = json!({"generatePatchesExtension": "generate.a"});
    let two = json!({"generatePatchesExtension": "generate.b", "discoverVariablesExtension": "variables.b"});
    let folder = Folder::with(&[("one", one), ("two", two)], |_| {});
    folder.trust(&[&*first.ca, &*second.ca].concat());
    let urls = [format!("a={}", first.url()), format!("b={}", second.url())];
    let check = ["check-extension", &*urls[0], &*urls[1], "--extension-ca", "ca.crt", "--files", "bundle.json"];
    let (code, out, err) = folder.run(&check);
    assert_eq!((code, &*err), (1, ""), "{out}");
    for words in [
        "warning[RH-10.10]: the result depends on the order of the patches: EmbeddedConfigTemplate",
        "error[RH-23.4]: without the variable \"format\", the call failed: no answer within 2s",
        " help: answer Failure with a message",
        "3 handlers checked, ",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (code, _, err) = folder.run(&["check-extension", &first.url(), &second.url(), "--extension-ca", "ca.crt"]);
    assert_eq!(code, 2);
    assert!(err.contains("two extensions are called extension; name each with NAME=URL"), "{err}");
    let (code, _, err) = folder.run(&["check-extension", "https://127.0.0.1:1", "--extension-ca", "ca.crt"]);
    assert!(code == 2 && err.contains("extension extension: Discovery: "), "{err}");
}

#[test]
fn a_simulation_shows_what_holds_a_deletion() {
    // HK-22, RH-19.10
    let lab = TestExtension::start();
    lab.on("BeforeClusterDelete", "gate", |_| Reply::wait(600, "a backup runs"));
    let folder = Folder::with(&[], |_| {});
    let bundle: Value = serde_json::from_str(&fs::read_to_string(folder.path("bundle.json")).unwrap()).unwrap();
    let others = bundle["items"].as_array().unwrap().iter().filter(|object| object["kind"] != "Cluster");
    let without = json!({"apiVersion": "v1", "kind": "List", "items": others.collect::<Vec<_>>()});
    fs::write(folder.path("without.json"), without.to_string()).unwrap();
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let flags = ["--extension", &*url, "--extension-ca", "ca.crt"];
    let simulate = ["simulate", "bundle.json", "--to", "without.json"];
    let (code, out, err) = folder.run(&[&simulate[..], &flags].concat());
    assert!(code == 0 && lab.count("gate") == 0, "{code} {out}{err}");
    let (code, out, err) = folder.run(&[&simulate[..], &flags, &["--call-hooks"]].concat());
    let held = "Following hooks are blocking delete: BeforeClusterDelete: a backup runs";
    assert!(code == 1 && out.contains(held), "{code} {out}{err}");
    lab.on("BeforeClusterDelete", "gate", |_| Reply::done());
    let (code, out, err) = folder.run(&[&simulate[..], &flags, &["--call-hooks"]].concat());
    assert!(code == 0 && lab.count("gate") > 1, "{code} {out}{err}");
}

#[test]
fn variables_that_no_class_can_use_are_errors() {
    // RH-16.4
    let lab = TestExtension::start();
    lab.on("DiscoverVariables", "variables", |_| {
        Reply::success(json!({"variables": [{"name": "format", "schema": {"openAPIV3Schema": {"type": "bogus"}}}]}))
    });
    lab.on("GeneratePatches", "generate", |_| Reply::done());
    let folder = Folder::with(&[("remote", formats())], |_| {});
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let flags = ["--extension", &*url, "--extension-ca", "ca.crt"];
    let message = "VariableDiscovery failed: patch \"remote\": the variables of \"variables.lab\" are invalid: ";
    for arguments in [&["validate", "bundle.json"][..], &["render", "bundle.json"]] {
        let (code, out, err) = folder.run(&[arguments, &flags].concat());
        assert_eq!(code, 1, "{arguments:?} {out}{err}");
        assert!(err.contains(message) && err.contains("bogus"), "{arguments:?} {out}{err}");
    }
    let (_, out, _) =
        folder.run(&[&["plan", "--from", "bundle.json", "--to", "bundle.json", "-o", "json"][..], &flags].concat());
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert!(plan["warnings"].to_string().contains("are invalid"), "{plan:#}");
    let check = ["check-extension", &*url, "--extension-ca", "ca.crt", "--files", "bundle.json"];
    let (code, out, err) = folder.run(&check);
    assert!(code == 1 && out.contains("error[RH-16.4]: the variables are invalid: "), "{code} {out}{err}");
}

/// What the patches of a check may write.
fn writes(value: &'static str) -> impl Fn(&Value) -> Reply + Send + 'static {
    move |request| patched(request, CONFIG, "format", &json!(value))
}

/// The findings about each handler.
fn findings(folder: &Folder, url: &str, more: &[&str]) -> Vec<(String, Vec<String>)> {
    let check = ["check-extension", url, "--extension-ca", "ca.crt", "--files", "bundle.json", "-o", "json"];
    let (_, out, err) = folder.run(&[&check[..], more].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let (_, schema, _) = folder.run(&["schema", "findings"]);
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    assert!(schema.is_valid(&report), "{report:#}");
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let findings = |handler: &Value| {
        let of_handler =
            |one: &&Value| (&one["object"]["name"], &one["object"]["kind"]) == (&handler["name"], &handler["hook"]);
        let finding = |one: &Value| ["severity", "id", "message"].map(|name| text(one, name)).join(" ");
        report["findings"].as_array().unwrap().iter().filter(of_handler).map(finding).collect::<Vec<String>>()
    };
    report["objects"].as_array().unwrap().iter().map(|handler| (text(handler, "name"), findings(handler))).collect()
}

#[test]
fn a_check_reports_every_way_to_misbehave() {
    // RH-23.5, RH-23.6, RH-10.4
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let count = || CALLS.fetch_add(1, Ordering::SeqCst).to_string();
    let lab = TestExtension::start();
    lab.on("GeneratePatches", "different", move |request| patched(request, CONFIG, "format", &json!(count())));
    lab.on("GeneratePatches", "texts", move |_| Reply::success(json!({"message": count()})));
    lab.on("GeneratePatches", "idle", |request| {
        let item = json!({"uid": request["items"][0]["uid"], "patchType": "JSONMergePatch", "patch": "e30="});
        Reply::success(json!({"items": [item]}))
    });
    lab.on("GeneratePatches", "slow", |_| {
        std::thread::sleep(std::time::Duration::from_millis(250));
        Reply::done()
    });
    lab.on("GeneratePatches", "again", |request| {
        let items = request["items"].as_array().unwrap();
        let found = items.iter().find(|item| item["holderReference"]["fieldPath"] == CONFIG).unwrap();
        let before = found["object"]["spec"]["template"]["spec"]["format"].as_str().unwrap_or_default();
        patched(request, CONFIG, "format", &json!(format!("{before}x")))
    });
    lab.on("GeneratePatches", "guess", |request| patched(request, CONFIG, "format", &variable(request, "first")));
    lab.on("DiscoverVariables", "first", |_| {
        let schema = json!({"openAPIV3Schema": {"type": "string", "default": "cloud-config"}});
        Reply::success(json!({"variables": [{"name": "first", "schema": schema}]}))
    });
    lab.on("GeneratePatches", "kinds", writes("ignition"));
    lab.on("GeneratePatches", "versions", |request| {
        let is_known = |item: &Value| item["object"]["apiVersion"] == "bootstrap.topologist.dev/v1beta1";
        match request["items"].as_array().unwrap().iter().any(is_known) {
            true => patched(request, CONFIG, "format", &json!("cloud-config")),
            false => Reply::done(),
        }
    });
    lab.on("ValidateTopology", "said", move |_| Reply::success(json!({"message": count()})));
    let names = ["different", "texts", "idle", "slow", "again", "guess", "kinds", "versions"];
    let external = |name: &str| {
        let mut external = json!({"generatePatchesExtension": format!("{name}.lab")});
        if name == "guess" {
            external["discoverVariablesExtension"] = json!("first.lab");
        }
        external
    };
    let mut patches: Vec<(&str, Value)> = names.iter().map(|name| (*name, external(name))).collect();
    patches.push(("said", json!({"validateTopologyExtension": "said.lab"})));
    let folder = Folder::with(&patches, |_| {});
    folder.trust(&lab.ca);
    let found = findings(&folder, &format!("lab={}", lab.url()), &[]);
    for (handler, words) in [
        ("different", "error RH-23.5 two equal requests got different patches: EmbeddedConfigTemplate "),
        ("texts", "error RH-23.5 two equal requests got answers with different texts"),
        ("idle", "warning RH-23.6 a patch of EmbeddedClusterTemplate "),
        ("slow", "warning RH-23.5 a call takes "),
        ("again", "error RH-23.5 objects that are patched already get another patch: EmbeddedConfigTemplate "),
        ("guess", "warning RH-23.5 without the variable \"first\", the answer is a success with other patches"),
        ("guess", "warning RH-23.5 with a variable \"first\" of another type, the answer is a success"),
        ("kinds", "error RH-23.5 templates of an unknown kind are patched"),
        (
            "versions",
            "warning RH-10.4 in an unknown version, EmbeddedConfigTemplate gets no patch, and the answer is a success",
        ),
        ("said", "error RH-23.5 two equal requests got answers with different texts"),
    ] {
        let (_, all) = found.iter().find(|(name, _)| *name == format!("{handler}.lab")).unwrap();
        assert!(all.iter().any(|one| one.starts_with(words)), "{handler}: {words}: {all:#?}");
    }
    let kinds: std::collections::BTreeSet<String> = lab
        .requests_of("said")
        .iter()
        .filter_map(|request| Some(request["items"][0]["object"]["apiVersion"].as_str()?.to_owned()))
        .collect();
    assert!(kinds.contains("infrastructure.topologist.dev/v99alpha1"), "a foreign version: {kinds:?}");
    assert!(kinds.contains("unknown.example.com/v1"), "a foreign kind: {kinds:?}");
}

#[test]
fn a_check_sends_the_settings_of_patches_and_compares_their_definitions() {
    // RH-5.6, RH-17.1, RH-17.8
    let lab = TestExtension::start();
    lab.on("DiscoverVariables", "variables", |request| {
        let kind = if request["settings"]["place"] == "attic" { "integer" } else { "string" };
        let schema = json!({"openAPIV3Schema": {"type": kind}});
        Reply::success(json!({"variables": [{"name": "place", "schema": schema}]}))
    });
    lab.on("DiscoverVariables", "others", |_| {
        let schema = json!({"openAPIV3Schema": {"type": "string"}});
        Reply::success(json!({"variables": [{"name": "room", "schema": schema}]}))
    });
    lab.on("GeneratePatches", "generate", |_| Reply::done());
    let external = |handler: &str, place: &str| {
        json!({"generatePatchesExtension": "generate.lab", "discoverVariablesExtension": format!("{handler}.lab"),
            "settings": {"place": place}})
    };
    let of = |found: &[(String, Vec<String>)], name: &str| found.iter().find(|one| one.0 == name).unwrap().1.clone();
    let patches = [
        ("one", external("variables", "cellar")),
        ("two", external("variables", "roof")),
        ("three", external("others", "cellar")),
    ];
    let folder = Folder::with(&patches, |_| {});
    folder.trust(&lab.ca);
    let url = format!("lab={}", lab.url());
    let found = findings(&folder, &url, &[]);
    assert_eq!(of(&found, "variables.lab"), [""; 0], "equal definitions of two patches are what each of them needs");
    assert_eq!(of(&found, "others.lab"), [""; 0]);
    let places: Vec<Value> =
        lab.requests_of("variables").iter().map(|request| request["settings"]["place"].clone()).collect();
    assert!(places.contains(&json!("cellar")) && places.contains(&json!("roof")), "{places:?}");
    let patches = [("one", external("variables", "cellar")), ("two", external("variables", "attic"))];
    folder.write("bundle.json", &patches, |_| {});
    let found = findings(&folder, &url, &[]);
    let want = "error RH-17.5 variables.lab with the settings of another patch defines variables of the same name in \
                another way: place";
    assert_eq!(of(&found, "variables.lab"), [want]);
    // The handler of another patch defines the same variable in the same way.
    lab.on("DiscoverVariables", "others", |_| {
        let schema = json!({"openAPIV3Schema": {"type": "string"}});
        Reply::success(json!({"variables": [{"name": "place", "schema": schema}]}))
    });
    folder.write(
        "bundle.json",
        &[("one", external("variables", "cellar")), ("three", external("others", "cellar"))],
        |_| {},
    );
    let found = findings(&folder, &url, &[]);
    let both: Vec<String> = [of(&found, "variables.lab"), of(&found, "others.lab")].concat();
    assert_eq!(both.len(), 1, "{both:#?}");
    assert!(
        both[0].starts_with("warning RH-17.1 ") && both[0].ends_with("defines these variables too: place"),
        "{both:?}"
    );
}
