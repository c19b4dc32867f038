//! What the image says it is made of: the list in the binary, and the SBOM beside the image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use auditable_info::{Limits, audit_info_from_file};
use serde_json::Value;

use crate::{image, repository};

/// Names and versions.
type Packages = BTreeSet<(String, String)>;

/// The packages that the binary of the image lists.
fn in_the_binary() -> Packages {
    let list = audit_info_from_file(&image().root.join("topologist"), Limits::default()).unwrap();
    list.packages.into_iter().map(|package| (package.name, package.version.to_string())).collect()
}

fn sbom() -> Value {
    serde_json::from_slice(&fs::read(image().sbom.join("topologist.cdx.json")).unwrap()).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// What cargo prints about the tree of dependencies on this machine, each package once.
fn tree(arguments: &[&str]) -> Packages {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["tree", "--locked", "--package=topologist", "--prefix=none", "--format={p}"])
        .args(arguments)
        .current_dir(repository());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let package = |line: &str| {
        let mut words = line.split(' ');
        (words.next().unwrap().to_owned(), words.next().unwrap().trim_start_matches('v').to_owned())
    };
    String::from_utf8(output.stdout).unwrap().lines().map(package).collect()
}

/// The packages of Cargo.lock.
fn locked() -> Packages {
    let text = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
        line.unwrap().trim_end_matches('"').to_owned()
    };
    text.split("[[package]]\n").skip(1).map(|block| (value(block, "name"), value(block, "version"))).collect()
}

#[test]
fn the_binary_lists_what_it_is_made_of_and_no_more() {
    let listed = in_the_binary();
    let names: BTreeSet<_> = listed.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["topologist", "tokio", "rustls", "ring", "serde_derive"] {
        assert!(names.contains(name), "{name} is missing from {names:?}");
    }
    assert_eq!(
        listed.difference(&locked()).collect::<Vec<_>>(),
        Vec::<&(String, String)>::new(),
        "versions of Cargo.lock"
    );
    let built = tree(&["--edges=normal,build"]);
    assert_eq!(built.difference(&listed).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "nothing is left out");
    let mut for_tests = tree(&["--edges=dev", "--depth=1"]);
    for_tests.retain(|package| !built.contains(package));
    assert!(for_tests.iter().any(|(name, _)| name == "proptest"), "{for_tests:?}");
    assert_eq!(listed.intersection(&for_tests).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "of tests alone");
}

#[test]
fn the_sbom_lists_the_packages_of_the_binary() {
    let sbom = sbom();
    assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = sbom["components"].as_array().unwrap();
    let package = |component: &Value| (text(&component["name"]), text(&component["version"]));
    let described = &sbom["metadata"]["component"];
    let listed: Packages = components.iter().chain([described]).map(package).collect();
    assert_eq!(listed, in_the_binary());
    for component in components {
        let (name, version) = package(component);
        let url = format!("pkg:cargo/{name}@{version}");
        if let Some(folder) = name.strip_prefix("topologist-") {
            // A crate of the workspace, which no registry has.
            assert_eq!(component["purl"], format!("{url}?download_url=file://crates/{folder}"));
        } else {
            assert_eq!(component["purl"], url);
            assert_eq!(component["hashes"][0]["alg"], "SHA-256", "{name}");
        }
        assert!(component["licenses"].is_array(), "{name}");
    }
}

#[test]
fn the_sbom_names_its_packages_once_and_connects_them() {
    let sbom = sbom();
    let components = sbom["components"].as_array().unwrap().iter().chain([&sbom["metadata"]["component"]]);
    let mut references = BTreeMap::new();
    components.for_each(|component| *references.entry(text(&component["bom-ref"])).or_insert(0) += 1);
    assert!(references.values().all(|count| *count == 1), "{references:?}");
    for dependency in sbom["dependencies"].as_array().unwrap() {
        let others = dependency["dependsOn"].as_array().into_iter().flatten();
        others.chain([&dependency["ref"]]).for_each(|name| assert!(references.contains_key(&text(name)), "{name}"));
    }
}

#[test]
fn the_sbom_has_no_number_and_no_time_of_its_own() {
    let sbom = sbom();
    assert_eq!(sbom["serialNumber"], Value::Null);
    assert_eq!(text(&sbom["metadata"]["timestamp"]), "1970-01-01T00:00:00.000000000Z");
}

#[test]
fn make_image_writes_the_sbom_and_then_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let builder = folder.path().join("builder");
    fs::write(&builder, "#!/bin/sh\necho \"$* with layers: $BUILDAH_LAYERS\"\n").unwrap();
    fs::set_permissions(&builder, fs::Permissions::from_mode(0o755)).unwrap();
    let mut make = Command::new("make");
    make.args(["--silent", "image", "IMAGE=registry.example/topologist:v1"]);
    make.arg(format!("IMAGE_BUILDER={}", builder.display())).env_remove("MAKEFLAGS").current_dir(repository());
    let output = String::from_utf8(make.output().unwrap().stdout).unwrap();
    let commands = [
        "build --target sbom --output type=local,dest=target/sbom . with layers: true",
        "build -t registry.example/topologist:v1 . with layers: true",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), commands);
}
