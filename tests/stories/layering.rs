//! Leaves hold nothing of Cluster API, the core uses no edge, only edges use sockets, files, clocks and randomness, and no
//! modules use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LEAVES: [&str; 11] =
    ["field", "json", "budget", "calendar", "version", "goregex", "yaml", "gotemplate", "cel", "schema", "ssa"];
const CORE: [&str; 13] = [
    "hub",
    "wire",
    "crd",
    "variables",
    "world",
    "rollouts",
    "admission",
    "topology",
    "lifecycle",
    "simulation",
    "provider_contract",
    "impact",
    "extensions",
];
const EDGES: [&str; 9] = [
    "extension_client",
    "kubernetes",
    "certificates",
    "extension",
    "embedded",
    "webhook",
    "reconciler",
    "telemetry",
    "cli",
];

/// What a module may use besides itself and what its row names may use. Every edge except `telemetry` may also use
/// `telemetry`, the core and the leaves.
const MAY_USE: [(&str, &[&str]); 33] = [
    ("field", &[]),
    ("json", &[]),
    ("budget", &[]),
    ("calendar", &[]),
    ("version", &[]),
    ("goregex", &[]),
    ("yaml", &["json"]),
    ("gotemplate", &["version", "goregex", "yaml", "calendar"]),
    ("cel", &["field", "goregex", "calendar", "budget"]),
    ("schema", &["field", "goregex", "cel", "json"]),
    ("ssa", &["field", "json"]),
    // A class holds schemas of its variables, and a definition the schema by which its objects are merged.
    ("hub", &["field", "version", "gotemplate", "schema", "ssa"]),
    ("wire", &["hub", "yaml"]),
    ("crd", &["wire", "schema"]),
    ("variables", &["hub", "schema"]),
    // Facts keep the variables of each class compiled.
    ("world", &["hub", "variables"]),
    ("rollouts", &["hub"]),
    // Rules for definitions compare them with those that `crds` prints.
    ("admission", &["wire", "world", "variables", "crd"]),
    // A status names the version in which a class was written.
    ("topology", &["world", "variables", "ssa", "rollouts", "wire"]),
    ("lifecycle", &["topology"]),
    // New objects get the defaults of the webhook.
    ("simulation", &["lifecycle", "wire", "admission"]),
    // Where the flags of a contract are.
    ("provider_contract", &["lifecycle"]),
    ("impact", &["topology"]),
    ("extensions", &["topology"]),
    ("extension_client", &[]),
    // Needs of topologies are answered by extensions as well.
    ("kubernetes", &["extension_client"]),
    ("certificates", &["kubernetes"]),
    ("extension", &["certificates"]),
    ("embedded", &[]),
    ("webhook", &["certificates", "kubernetes"]),
    ("reconciler", &["kubernetes"]),
    ("telemetry", &["field"]),
    ("cli", &["webhook", "reconciler", "embedded", "extension_client"]),
];

/// Rooms of a module that may not use another one of the same module.
const NOT_FROM: [(&str, &str); 1] = [("embedded/storage", "crate::embedded::http")];

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
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
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

/// The modules that a module names, each with a file that names it.
fn used(module: &str) -> BTreeMap<String, String> {
    let mut used = BTreeMap::new();
    for (file, text) in files(&source(module)) {
        let code = code(&text);
        assert!(!code.contains("crate::{"), "{file}: one line for each module");
        for path in code.split("crate::").skip(1) {
            let name: String = path.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if name != module && MAY_USE.iter().any(|(known, _)| *known == name) {
                used.insert(name, file.clone());
            }
        }
    }
    used
}

/// A row with everything that the modules that it names may use.
fn may_use(module: &str) -> BTreeSet<&'static str> {
    let row = MAY_USE.iter().find(|(known, _)| *known == module).expect("every module has a row").1;
    let mut all: BTreeSet<&str> = row.iter().flat_map(|used| may_use(used)).chain(row.iter().copied()).collect();
    if EDGES.contains(&module) && module != "telemetry" {
        all.extend(CORE.into_iter().chain(LEAVES).chain(["telemetry"]));
    }
    all
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let mut wrong = Vec::new();
    for (module, _) in MAY_USE {
        let below = may_use(module);
        let above = used(module).into_iter().filter(|(name, _)| !below.contains(name.as_str()));
        wrong.extend(above.map(|(name, file)| format!("{file} uses {name}")));
    }
    for (room, forbidden) in NOT_FROM {
        let named = files(&source(room)).into_iter().filter(|(_, text)| code(text).contains(forbidden));
        wrong.extend(named.map(|(file, _)| format!("{file} uses {forbidden}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(MAY_USE.len(), LEAVES.len() + CORE.len() + EDGES.len());
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

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let direct = MAY_USE.map(|(module, _)| (module.to_owned(), used(module).into_keys().collect())).into();
    assert_eq!(circles(&direct), BTreeSet::new(), "these modules use each other in a circle");
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

/// The files of a room, each with the others that it names. A file and the folder of its name are one. What the room exports
/// under a name of its own is not seen.
fn neighbours(room: &str) -> BTreeMap<String, BTreeSet<String>> {
    let absolute = format!("crate::{}::", room.replace('/', "::"));
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in files(&source(room)) {
        let path = Path::new(&file).strip_prefix(source(room)).unwrap().with_extension("");
        let steps: Vec<&str> = path.iter().map(|step| step.to_str().unwrap()).filter(|step| *step != "mod").collect();
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

/// The folders of a folder, and theirs, but for those of tests.
fn rooms(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.filter(|path| path.is_dir() && !path.ends_with("tests"));
    below.flat_map(|path| rooms(&path).into_iter().chain([path])).collect()
}

#[test]
fn files_of_a_module_do_not_use_each_other_in_a_circle() {
    let mut uses = 0;
    for room in rooms(&source("")) {
        let room = room.strip_prefix(source("")).unwrap().to_str().unwrap().to_owned();
        let direct = neighbours(&room);
        uses += direct.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(circles(&direct), BTreeSet::new(), "these files of {room} use each other in a circle");
    }
    assert!(uses > 500, "{uses} uses are too few to be all");
}

#[test]
fn the_core_has_no_sockets_files_clocks_or_randomness() {
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
