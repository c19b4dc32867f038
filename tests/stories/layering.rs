//! Leaves know nothing of Cluster API, the core knows no edge, and only edges touch sockets, files, clocks and chance.

use std::fs;
use std::path::{Path, PathBuf};

const LEAVES: [&str; 10] =
    ["budget", "calendar", "field", "goregex", "gotemplate", "json", "schema", "ssa", "version", "yaml"];
const CORE: [&str; 8] = ["admission", "crd", "hub", "rollouts", "topology", "variables", "wire", "world"];
const EDGES: [&str; 7] = ["certificates", "cli", "embedded", "kubernetes", "reconciler", "telemetry", "webhook"];

/// What a core or leaf module may use besides itself: its own row and what stands in the rows that it names.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("budget", &[]),
    ("calendar", &[]),
    ("field", &[]),
    ("goregex", &[]),
    ("gotemplate", &["calendar", "version", "goregex", "yaml", "json"]),
    ("json", &[]),
    ("version", &[]),
    ("yaml", &["json"]),
    ("cel", &["budget", "calendar", "field", "goregex"]),
    ("schema", &["budget", "cel", "calendar", "field", "goregex", "json"]),
    ("ssa", &["field", "json"]),
    ("hub", &["field", "json", "version", "schema", "gotemplate", "ssa"]),
    ("wire", &["calendar", "hub", "yaml", "json", "field"]),
    ("crd", &["hub", "wire", "schema", "field"]),
    ("variables", &["hub", "schema", "json", "field", "budget"]),
    ("world", &["hub", "variables", "schema", "gotemplate", "json", "budget", "crd"]),
    ("rollouts", &["hub", "version"]),
    (
        "topology",
        &[
            "calendar",
            "wire",
            "world",
            "variables",
            "rollouts",
            "hub",
            "version",
            "gotemplate",
            "schema",
            "ssa",
            "json",
            "field",
        ],
    ),
    (
        "admission",
        &["wire", "world", "variables", "hub", "version", "field", "json", "schema", "gotemplate", "budget", "crd"],
    ),
];

/// What the core must not name.
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

fn source(module: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module)
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
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The files that may build the path of a request: one that checks its parts, and two whose parts come from the command line.
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
    for module in EDGES.into_iter().filter(|module| *module != "embedded") {
        for (file, text) in files(&source(module)) {
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

#[test]
fn every_module_has_a_layer() {
    let mut modules: Vec<String> = fs::read_dir(source(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    modules.sort();
    let mut known: Vec<&str> = LEAVES.into_iter().chain(CORE).chain(EDGES).collect();
    known.sort_unstable();
    assert_eq!(modules, known);
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let mut wrong = Vec::new();
    for (module, may_use) in MAY_USE {
        for (file, text) in files(&source(module)) {
            for used in code(&text).split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let is_module = LEAVES.contains(&&*used) || CORE.contains(&&*used) || EDGES.contains(&&*used);
                if is_module && used != module && !may_use.contains(&&*used) {
                    wrong.push(format!("{file} uses {used}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(MAY_USE.len(), LEAVES.len() + CORE.len());
}

#[test]
fn the_core_has_no_sockets_files_clocks_or_chance() {
    let mut wrong = Vec::new();
    for module in LEAVES.into_iter().chain(CORE) {
        for (file, text) in files(&source(module)) {
            let code = code(&text);
            wrong.extend(
                FORBIDDEN.iter().filter(|name| code.contains(**name)).map(|name| format!("{file} names {name}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
