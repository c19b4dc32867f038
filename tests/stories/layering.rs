//! Crates use each other as ARCHITECTURE.md says, modules of a crate as the rows here say, only edges use sockets,
//! files, clocks and randomness, and no files of a folder use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates without sockets, files, clocks and randomness.
const PURE: [&str; 6] = ["golang", "schema", "model", "engine", "machines", "simulation"];

/// What a module may use of its crate. All modules of `server` may use `telemetry` as well.
const MAY_USE: [(&str, &str, &[&str]); 41] = [
    ("golang", "json", &[]),
    ("golang", "calendar", &[]),
    ("golang", "fnv", &[]),
    ("golang", "version", &[]),
    ("golang", "regexp", &[]),
    ("golang", "yaml", &["json"]),
    ("golang", "template", &["json", "calendar", "version", "regexp", "yaml"]),
    ("schema", "field", &[]),
    ("schema", "budget", &[]),
    ("schema", "cel", &["field", "budget"]),
    ("schema", "openapi", &["field", "budget", "cel"]),
    ("schema", "ssa", &["field"]),
    ("tls", "pair", &[]),
    ("tls", "authority", &["pair"]),
    ("tls", "callers", &["pair"]),
    ("tls", "identity", &["pair", "callers"]),
    ("model", "hooks", &[]),
    ("model", "hub", &[]),
    ("model", "wire", &["hub"]),
    ("model", "crd", &["hub", "wire"]),
    ("model", "variables", &["hub"]),
    // Facts keep the variables of each class compiled.
    ("model", "world", &["hub", "variables"]),
    ("model", "rollouts", &["hub"]),
    ("model", "garbage", &["hub"]),
    ("engine", "admission", &[]),
    ("engine", "topology", &[]),
    ("engine", "impact", &["topology"]),
    ("engine", "extensions", &["topology"]),
    ("engine", "file_apply", &[]),
    ("engine", "file_review", &["admission", "topology", "file_apply"]),
    ("engine", "sample_clusters", &["admission", "topology"]),
    ("engine", "object_names", &[]),
    ("engine", "comparison", &["admission", "topology", "impact", "sample_clusters", "object_names"]),
    ("machines", "lifecycle", &[]),
    // Where the flags of a contract are.
    ("machines", "provider_contract", &["lifecycle"]),
    ("server", "telemetry", &[]),
    ("server", "extension_client", &[]),
    // Needs of topologies are answered by extensions as well.
    ("server", "kubernetes", &["extension_client"]),
    ("server", "certificates", &["kubernetes"]),
    ("server", "webhook", &["certificates", "kubernetes"]),
    ("server", "reconciler", &["kubernetes"]),
];

/// Folders of a crate that may not use another one of the same crate.
const NOT_FROM: [(&str, &str); 1] = [("crates/apiserver/src/storage", "crate::http")];

/// What pure crates must not name.
const FORBIDDEN: [&str; 12] = [
    "tokio",
    "hyper",
    "axum",
    "kube::",
    "rustls",
    "std::env",
    "std::fs",
    "std::net::Tcp",
    "std::time",
    "SystemTime",
    "Instant",
    "rand::",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the sources of a crate.
fn source(name: &str) -> PathBuf {
    root().join("crates").join(name).join("src")
}

/// The folders of the sources of all crates and of the program.
fn sources() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    crates.chain([root().join("src")]).collect()
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            all.extend(files(&entry));
        } else if entry.file_name().is_some_and(|name| name != "tests.rs" && name != "testing.rs") {
            all.push((entry.display().to_string(), fs::read_to_string(&entry).unwrap()));
        }
    }
    assert!(!all.is_empty() || folder.join("tests.rs").exists(), "{} is empty", folder.display());
    all
}

/// The code of a file, without comments and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The files that may build the path of a request: one that checks its parts, and two whose parts come from the command
/// line.
const BUILD_PATHS: [&str; 3] = ["kubernetes/address.rs", "kubernetes/lease.rs", "certificates/self_managed.rs"];

/// What builds the path of a request to an API server.
const PATH_BUILDERS: [&str; 13] = [
    "Api::namespaced",
    "Api::all",
    "Api::default_namespaced",
    ">::namespaced",
    ">::all(",
    "url_path(",
    "core::Request",
    "from_gvk",
    "format!(\"/api",
    "\"/api/v1/",
    "\"/apis/",
    ".request(http",
    "ApiResource::erase",
];

#[test]
fn paths_of_requests_are_built_in_one_place() {
    // DEC-45
    let mut wrong = Vec::new();
    for folder in [source("server"), source("extension"), root().join("src")] {
        for (file, text) in files(&folder) {
            if BUILD_PATHS.iter().any(|allowed| file.ends_with(allowed)) || file.ends_with("scripted.rs") {
                continue;
            }
            let code = code(&text);
            let built = PATH_BUILDERS.iter().filter(|name| code.contains(**name));
            wrong.extend(built.map(|name| format!("{file} has {name}")));
        }
    }
    assert!(wrong.is_empty(), "build paths in kubernetes/address.rs:\n{}", wrong.join("\n"));
}

/// The crates of the workspace, each with those that it uses, as cargo reads their manifests.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--locked", "--offline"]).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value.as_str().unwrap().trim_start_matches("topologist-").to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let used = package["dependencies"].as_array().unwrap().iter();
            let used = used.filter(|one| one["path"].is_string() && one["kind"].is_null());
            (name(&package["name"]), used.map(|one| name(&one["name"])).collect())
        })
        .collect()
}

#[test]
fn crates_use_each_other_as_the_architecture_allows() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let row = |line: &str| {
        let (name, used) = line.strip_prefix("| `crates/")?.strip_suffix(" |")?.split_once("` |")?;
        let is_crate = !name.contains('/') && !used.contains('|');
        let used = used.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        is_crate.then(|| (name.to_owned(), used.collect::<BTreeSet<_>>()))
    };
    let documented: BTreeMap<_, _> = text.lines().filter_map(row).collect();
    let mut crates = crates();
    let program = crates.remove("topologist").unwrap();
    assert_eq!(documented, crates);
    let others = crates.keys().filter(|name| !["extension", "testing"].contains(&name.as_str())).cloned();
    assert_eq!(program, others.collect());
}

#[test]
fn every_module_has_a_row() {
    let crates: BTreeSet<&str> = MAY_USE.iter().map(|(name, ..)| *name).collect();
    for name in crates {
        let entries = fs::read_dir(source(name)).unwrap().map(|entry| entry.unwrap().path());
        let modules = entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
        let modules: BTreeSet<String> = modules.filter(|module| module != "lib").collect();
        let rows = MAY_USE.iter().filter(|(of, ..)| *of == name).map(|(_, module, _)| (*module).to_owned());
        assert_eq!(modules, rows.collect(), "{name}");
    }
}

/// The files of a module.
fn of_module(name: &str, module: &str) -> Vec<(String, String)> {
    let (folder, file) = (source(name).join(module), source(name).join(format!("{module}.rs")));
    match folder.is_dir() {
        true => files(&folder),
        false => vec![(file.display().to_string(), fs::read_to_string(&file).unwrap())],
    }
}

#[test]
fn modules_use_what_their_rows_say() {
    let mut wrong = Vec::new();
    for (name, module, row) in MAY_USE {
        for (file, text) in of_module(name, module) {
            let code = code(&text);
            assert!(!code.contains("crate::{"), "{file}: one line for each module");
            for path in code.split("crate::").skip(1) {
                let used: String = path.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let is_module = MAY_USE.iter().any(|(of, other, _)| *of == name && *other == used);
                if is_module && used != module && used != "telemetry" && !row.contains(&used.as_str()) {
                    wrong.push(format!("{file} uses {used}"));
                }
            }
        }
    }
    for (folder, forbidden) in NOT_FROM {
        let named = files(&root().join(folder)).into_iter().filter(|(_, text)| code(text).contains(forbidden));
        wrong.extend(named.map(|(file, _)| format!("{file} uses {forbidden}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Those that use themselves by way of others.
fn circles(direct: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&str> {
    let is_in_circle = |one: &str| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![one]);
        while let Some(next) = left.pop() {
            left.extend(direct[next].iter().map(String::as_str).filter(|name| seen.insert(*name)));
        }
        seen.contains(one)
    };
    direct.keys().map(String::as_str).filter(|one| is_in_circle(one)).collect()
}

/// The first names of the paths that begin in a certain way: `a` and `b` of `super::{a, b::C}`.
fn named(code: &str, beginning: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(beginning).filter(|(at, _)| !code[..*at].ends_with("::")) {
        let rest = &code[at + beginning.len()..];
        let paths = rest.strip_prefix('{').map_or(rest, |group| group.split('}').next().unwrap_or_default());
        assert!(
            !paths.starts_with('{') && (paths == rest || !paths.contains('{')),
            "one line for each module: {paths}"
        );
        let count = if paths == rest { 1 } else { usize::MAX };
        for path in paths.split(',').take(count) {
            names.insert(path.trim().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        }
    }
    names
}

/// The files of a folder, each with the others that it names. A file and the folder of its name are one. What the
/// folder exports under a name of its own is not seen.
fn neighbours(source: &Path, folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let within = folder.strip_prefix(source).unwrap();
    let absolute: String = within.iter().map(|step| format!("{}::", step.to_str().unwrap())).collect();
    let absolute = format!("crate::{absolute}");
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in files(folder) {
        let path = Path::new(&file).strip_prefix(folder).unwrap().with_extension("");
        let steps: Vec<&str> = path.iter().map(|step| step.to_str().unwrap()).collect();
        let steps: Vec<&str> = steps.into_iter().filter(|step| !["mod", "lib", "main"].contains(step)).collect();
        if let Some(name) = steps.first() {
            let code = code(&text);
            let used = named(&code, &absolute).into_iter().chain(named(&code, &"super::".repeat(steps.len())));
            all.entry((*name).to_owned()).or_default().extend(used);
        }
    }
    let known: BTreeSet<String> = all.keys().cloned().collect();
    all.iter_mut().for_each(|(name, used)| used.retain(|other| other != name && known.contains(other)));
    all
}

/// A folder, those in it, and theirs, but for those of tests.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.filter(|path| path.is_dir() && !path.ends_with("tests"));
    below.flat_map(|path| folders(&path)).chain([folder.to_owned()]).collect()
}

#[test]
fn files_of_a_folder_do_not_use_each_other_in_a_circle() {
    let mut uses = 0;
    for source in sources() {
        for folder in folders(&source) {
            let direct = neighbours(&source, &folder);
            uses += direct.values().map(BTreeSet::len).sum::<usize>();
            assert_eq!(circles(&direct), BTreeSet::new(), "files of {} use each other in a circle", folder.display());
        }
    }
    assert!(uses > 500, "{uses} uses are too few to be all");
}

#[test]
fn pure_crates_have_no_sockets_files_clocks_or_randomness() {
    let mut wrong = Vec::new();
    for (file, text) in PURE.into_iter().flat_map(|name| files(&source(name))) {
        let code = code(&text);
        wrong.extend(FORBIDDEN.iter().filter(|name| code.contains(**name)).map(|name| format!("{file} names {name}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
