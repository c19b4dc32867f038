//! Files of strangers, such as those of a merge request: which of them are read, how much of them, and which variables
//! they may use (DEC-65).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::server::command;
use crate::offline::{CLUSTER, Folder, SIZE, class};

#[test]
fn variables_that_the_command_line_does_not_name_stay_secret() {
    // DEC-65
    let template = CLUSTER.replace("1.33.0", "${VERSION}").replace("one", "${CI_DEPLOY_TOKEN:-none}");
    let forged = CLUSTER.replace("1.33.0", "${CI_DEPLOY_TOKEN}");
    let folder = Folder::new(&[("cluster.yaml", &template), ("forged.yaml", &forged), ("class.yaml", &class(SIZE))]);
    let secret = [("CI_DEPLOY_TOKEN", "s3cr3t"), ("VERSION", "v1.33.0")];
    for command in ["default", "render", "validate"] {
        let (_, out, err) = folder.run(&[command, "--env", "VERSION", "cluster.yaml", "class.yaml"], &secret);
        assert!(!out.contains("s3cr3t") && !err.contains("s3cr3t"), "{command}: {out}{err}");
    }
    let (_, out, _) = folder.run(&["default", "--env", "VERSION", "cluster.yaml"], &secret);
    assert!(out.contains("name: none") && out.contains("v1.33.0"), "{out}");
    let (code, out, err) = folder.run(&["validate", "--env", "VERSION", "forged.yaml", "class.yaml"], &secret);
    assert!(code == 2 && !out.contains("s3cr3t") && !err.contains("s3cr3t"), "{out}{err}");
    assert!(err.contains("forged.yaml:7:1: the variable ${CI_DEPLOY_TOKEN} is not named by --env"), "{err}");
}

#[test]
fn a_path_behind_the_flag_for_variables_is_wrong_usage() {
    // DEC-65: the flag had no value before.
    let folder = Folder::new(&[("cluster.yaml", CLUSTER), ("class.yaml", &class(SIZE))]);
    fs::create_dir(folder.path("manifests")).unwrap();
    for path in ["manifests/", "manifests", "cluster.yaml", "./manifests"] {
        let (code, out, err) = folder.run(&["default", "--env", path, "class.yaml"], &[]);
        assert_eq!((code, &*out), (2, ""), "{path}: {err}");
        assert!(err.contains(&format!("invalid value '{path}' for '--env <NAME>'")), "{err}");
    }
}

#[test]
fn files_of_folders_are_regular_and_links_stay_inside() {
    // DEC-65
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("outside.yaml", CLUSTER)]);
    let inside = |name: &str| folder.path("manifests").join(name);
    fs::create_dir_all(inside("..data")).unwrap();
    fs::write(inside("..data/cluster.yaml"), CLUSTER).unwrap();
    symlink("..data/cluster.yaml", inside("cluster.yaml")).unwrap();
    let (code, out, err) = folder.run(&["validate", "manifests", "class.yaml"], &[]);
    assert_eq!(code, 0, "a mounted ConfigMap is read: {out}{err}");
    let refusals = |name: &str, target: &str| {
        symlink(target, inside(name)).unwrap();
        for command in [&["validate", "manifests", "class.yaml"][..], &["check-provider", "manifests"]] {
            let (code, out, err) = folder.run(command, &[]);
            assert!(code == 2 && !out.contains(name), "{command:?}: {out}{err}");
            let line = format!("topologist: manifests/{name}: the link leads out of ");
            assert!(err.contains(&line) && err.contains("--follow-links"), "{err}");
        }
    };
    refusals("a.yaml", "../outside.yaml");
    // Its size is that of an address space.
    refusals("b.yaml", "/proc/self/pagemap");
    let (code, _, err) = folder.run(&["validate", "--follow-links", "manifests", "class.yaml"], &[]);
    assert_eq!(code, 2);
    assert!(err.contains("cannot read manifests/b.yaml: "), "what it reads is bounded: {err}");
    fs::remove_file(inside("b.yaml")).unwrap();
    fs::remove_file(inside("cluster.yaml")).unwrap();
    let (code, out, err) = folder.run(&["validate", "--follow-links", "manifests", "class.yaml"], &[]);
    assert_eq!(code, 0, "{out}{err}");
    fs::remove_file(inside("a.yaml")).unwrap();
    assert!(Command::new("mkfifo").arg(inside("c.yaml")).status().unwrap().success());
    let (code, _, err) = folder.run(&["validate", "manifests", "class.yaml"], &[]);
    assert_eq!((code, err.contains("manifests/c.yaml: it is not a regular file")), (2, true), "{err}");
}

#[test]
fn a_path_of_the_command_line_may_be_a_pipe_and_what_it_has_is_bounded() {
    // DEC-65
    let folder = Folder::new(&[("class.yaml", &class(SIZE)), ("cluster.yaml", CLUSTER), ("large.yaml", "")]);
    let program = command(&[]).get_program().to_owned();
    let shell = |script: &str| {
        let output = Command::new("bash")
            .args(["-c", script])
            .arg(&program)
            .current_dir(folder.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start");
    let pipe = |name: &str| format!("<(cat '{}')", start.join(name).display());
    let [cluster, class, templates] = ["cluster.yaml", "class.yaml", "templates.yaml"].map(pipe);
    let plan = format!("\"$0\" plan --from {cluster} --to {cluster} --world {class} --world {templates}");
    assert_eq!(shell(&plan).0, 0, "the class is read once, for both sides");
    let (code, err) = shell("\"$0\" validate <(cat /dev/zero)");
    assert!(code == 2 && err.contains("it has more than 64 MiB"), "{err}");
    let (code, err) = shell("\"$0\" validate - < /dev/zero");
    assert!(code == 2 && err.contains("cannot read standard input: it has more than 64 MiB"), "{err}");
    fs::File::options().write(true).open(folder.path("large.yaml")).unwrap().set_len((64 << 20) + 1).unwrap();
    let (code, _, err) = folder.run(&["validate", "."], &[]);
    assert!(code == 2 && err.contains("cannot read ./large.yaml: it has more than 64 MiB"), "{err}");
    let (code, _, err) = folder.run(&["simulate", "cluster.yaml", "class.yaml", "--timings", "/dev/zero"], &[]);
    assert!(code == 2 && err.contains("cannot read /dev/zero (--timings): it has more than 64 MiB"), "{err}");
}
