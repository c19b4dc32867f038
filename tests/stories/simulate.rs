//! `simulate`: rollouts on a virtual clock, as a user sees them.

mod chosen;
mod elements;
mod endless;
mod hooks;
mod others;
mod page;
mod remediation;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use topologist::yaml;

use crate::fleet_plans::on_terminal;
use crate::harness::server::command;
use crate::plans::bundle;

/// Files of one simulation, and what it prints.
struct Story {
    folder: TempDir,
}

/// The result of a run.
struct Told {
    code: i32,
    out: String,
    err: String,
}

impl Told {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

impl Story {
    fn new() -> Self {
        Story { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs `simulate` with these arguments in the folder of the files.
    fn run(&self, arguments: &[&str]) -> Told {
        let mut command = command(&["simulate"]);
        let output = command.args(arguments).current_dir(self.folder.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Told { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn documents(text: &str) -> Vec<Value> {
    yaml::documents(text).into_iter().map(|document| document.unwrap().value).collect()
}

/// The objects of a fixture of the embedded provider.
fn embedded(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(file);
    documents(&fs::read_to_string(path).unwrap())
}

fn written(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

/// The class of the embedded provider, and these Clusters.
fn world(clusters: &[Value]) -> String {
    written(&[embedded("class.yaml"), clusters.to_vec()].concat())
}

/// A Cluster with three control plane machines and one set of workers.
fn cluster(name: &str, workers: i64) -> Value {
    let mut cluster = embedded("cluster.yaml").remove(0);
    cluster["metadata"]["name"] = json!(name);
    cluster["spec"]["topology"]["workers"] =
        json!({"machineDeployments": [{"class": "default-worker", "name": "blue", "replicas": workers}]});
    cluster
}

/// A Cluster with two machines, of which many are simulated soon.
fn small(name: &str) -> Value {
    let mut cluster = cluster(name, 1);
    cluster["spec"]["topology"]["controlPlane"]["replicas"] = json!(1);
    cluster
}

fn at(mut cluster: Value, version: &str) -> Value {
    cluster["spec"]["topology"]["version"] = json!(version);
    cluster
}

/// The machines of the first Cluster that satisfy a predicate.
fn count(report: &Value, is_counted: impl Fn(&Value) -> bool) -> usize {
    report["clusters"][0]["machines"].as_array().unwrap().iter().filter(|machine| is_counted(machine)).count()
}

#[test]
fn a_new_cluster_runs_with_its_machines() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 2)]));
    let outcome = story.run(&["a.yaml", "-o", "json"]);
    let report = outcome.json();
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(report["summary"]["clusters"], 1);
    assert_eq!(report["summary"]["stuck"], 0);
    assert_eq!(report["summary"]["peakMachines"], 5);
    let only = &report["clusters"][0];
    assert_eq!((&only["outcome"], &only["peakMachines"]), (&json!("converged"), &json!(5)));
    assert_eq!(count(&report, |machine| machine["running"].is_i64() && machine["gone"].is_null()), 5);
    assert_eq!(count(&report, |machine| machine["controlPlane"] == true), 3);
    assert_eq!(count(&report, |machine| machine["owner"] == "blue"), 2);
    assert!(only["durationSeconds"].as_i64().unwrap() > 0);
    // Workers wait for the first machine of the control plane.
    let first = |is_control_plane: bool| {
        let all = report["clusters"][0]["machines"].as_array().unwrap();
        let of = all.iter().filter(|machine| machine["controlPlane"] == is_control_plane);
        of.map(|machine| machine["running"].as_i64().unwrap()).min().unwrap()
    };
    assert!(first(true) < first(false));
}

#[test]
fn an_upgrade_over_two_minors_replaces_the_control_plane_twice_and_holds_workers() {
    let story = Story::new();
    story.file("a.yaml", world(&[at(cluster("blue", 2), "v1.32.0")]));
    for (name, version, replaced) in [("one.yaml", "v1.33.5", 3 + 2), ("two.yaml", "v1.34.2", 6 + 2)] {
        story.file(name, world(&[at(cluster("blue", 2), version)]));
        let outcome = story.run(&["a.yaml", "--to", name, "-o", "json"]);
        let report = outcome.json();
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        let made = count(&report, |machine| machine["made"].is_i64());
        assert_eq!(made, count(&report, |machine| machine["gone"].is_i64()), "{name}");
        assert!(made >= replaced, "{name}: {made} machines are made");
        let newest = count(&report, |machine| machine["gone"].is_null() && machine["version"] == version);
        assert_eq!(newest, 5, "{name}");
        let held = report["clusters"][0]["held"].as_array().unwrap();
        let waits =
            |span: &Value| span["kind"] == "MachineDeployment" && span["until"].as_i64() > span["from"].as_i64();
        assert!(held.iter().any(waits), "{name}: workers wait for the control plane: {held:?}");
    }
}

#[test]
fn a_variable_that_machines_have_replaces_them() {
    let story = Story::new();
    let mut after = cluster("blue", 2);
    for variable in after["spec"]["topology"]["variables"].as_array_mut().unwrap() {
        if variable["name"] == "motd" {
            variable["value"] = json!("another greeting");
        }
    }
    story.file("a.yaml", world(&[cluster("blue", 2)]));
    story.file("b.yaml", world(&[after]));
    let report = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]).json();
    let (made, gone) = (count(&report, |it| it["made"].is_i64()), count(&report, |it| it["gone"].is_i64()));
    assert_eq!((made, gone), (5, 5));
    let events = report["clusters"][0]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["what"] == "replaced"), "a template is replaced");
}

#[test]
fn a_cluster_that_the_change_leaves_out_is_deleted() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 2), cluster("green", 1)]));
    story.file("b.yaml", world(&[cluster("green", 1)]));
    let outcome = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]);
    let report = outcome.json();
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(count(&report, |machine| machine["gone"].is_i64()), 5);
    let events = report["clusters"][0]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "Cluster" && event["what"] == "gone"));
    assert_eq!(report["clusters"][1]["events"], json!([]), "nothing happens to the other one");
}

#[test]
fn a_machine_that_fails_is_named_with_its_reason_and_a_way_out() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 2)]));
    for (what, reason) in [("bootstrap", "ootstrap"), ("infrastructure", "nfrastructure"), ("node", "ode")] {
        story.file("timings.yaml", format!("failures:\n- cluster: blue\n  what: {what}\n"));
        let outcome = story.run(&["a.yaml", "--timings", "timings.yaml", "--limit", "20m"]);
        assert_eq!(outcome.code, 1, "{what}: {}", outcome.out);
        let stuck = outcome
            .out
            .lines()
            .find(|line| line.trim().starts_with("Stuck: "))
            .unwrap_or_else(|| panic!("{}", outcome.out));
        assert!(stuck.contains("Machine blue-") && stuck.contains(reason), "{what}: {stuck}");
        assert!(outcome.out.contains("help: "), "{}", outcome.out);
    }
}

#[test]
fn one_machine_that_never_runs_is_named_although_its_cluster_is_available() {
    let story = Story::new();
    // A health check would replace the machine.
    let mut blue = cluster("blue", 2);
    blue["spec"]["topology"]["controlPlane"]["healthCheck"] = json!({"enabled": false});
    blue["spec"]["topology"]["workers"]["machineDeployments"][0]["healthCheck"] = json!({"enabled": false});
    story.file("a.yaml", world(std::slice::from_ref(&blue)));
    story.file("b.yaml", world(&[at(blue, "v1.34.0")]));
    // The second machine of the Cluster, and one that the upgrade makes.
    for (machine, files) in [(2, &["a.yaml"][..]), (6, &["a.yaml", "--to", "b.yaml"])] {
        let failure = format!("failures:\n- cluster: default/blue\n  machine: {machine}\n  what: nodeReady\n");
        story.file("timings.yaml", failure);
        let outcome = story.run(&[files, &["--timings", "timings.yaml", "--limit", "30m"]].concat());
        assert_eq!(outcome.code, 1, "{machine}: {}", outcome.out);
        assert!(outcome.out.contains("Stuck: Machine blue-"), "{machine}: {}", outcome.out);
        assert!(outcome.out.contains("help: the file of --timings makes machines fail"), "{}", outcome.out);
    }
}

#[test]
fn a_machine_that_a_health_check_replaces_goes_with_a_reason() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 2)]));
    story.file("timings.yaml", "failures: [{machine: 2, what: nodeReady}]\n");
    let outcome = story.run(&["a.yaml", "--timings", "timings.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.out);
    assert!(outcome.out.contains("gone (unhealthy: "), "{}", outcome.out);
}

#[test]
fn one_large_cluster_shows_on_a_terminal_how_far_it_is() {
    let story = Story::new();
    // As many workers as keep this machine busy for longer than the time in which nothing is shown.
    let message = [60, 120, 240].into_iter().find_map(|workers| {
        let file = story.file("a.yaml", world(&[cluster("blue", workers)]));
        let message = on_terminal(command(&["simulate"]).arg(file), true, 0);
        (!message.is_empty()).then_some(message)
    });
    assert!(message.as_ref().is_some_and(|message| message.contains("s simulated")), "{message:?}");
}

#[test]
fn nothing_is_left_to_do_for_a_cluster_that_runs() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 1)]));
    let outcome = story.run(&["a.yaml", "--to", "a.yaml"]);
    assert_eq!((outcome.code, &*outcome.out), (0, "1 Cluster: nothing is left to do\n"), "{}", outcome.err);
}

#[test]
fn waits_of_several_clusters_name_none_of_their_objects() {
    let story = Story::new();
    let two = |name: &str, replicas: [i64; 2]| {
        let mut cluster = cluster(name, 1);
        let set = |name: &str, replicas| json!({"class": "default-worker", "name": name, "replicas": replicas});
        cluster["spec"]["topology"]["workers"] =
            json!({"machineDeployments": [set("x", replicas[0]), set("y", replicas[1])]});
        cluster
    };
    let clusters = [two("blue", [1, 1]), two("green", [1, 2])];
    story.file("a.yaml", world(&clusters));
    story.file("b.yaml", world(&clusters.map(|cluster| at(cluster, "v1.34.0"))));
    let outcome = story.run(&["a.yaml", "--to", "b.yaml"]);
    let totals = outcome.out.split("\n\nCluster").next().unwrap();
    let used_up =
        totals.lines().find(|line| line.contains("is used up by")).unwrap_or_else(|| panic!("{}", outcome.out));
    assert!(used_up.contains(" of 2 Clusters: ") && used_up.ends_with("is used up by …"), "{used_up}");
}

#[test]
fn failures_of_clusters_that_do_not_exist_are_reported() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 1)]));
    story.file("timings.yaml", "failures: [{cluster: blau, what: node}, {cluster: other/blue, what: node}]\n");
    let outcome = story.run(&["a.yaml", "--timings", "timings.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.out);
    for name in ["blau", "other/blue"] {
        assert!(
            outcome.err.contains(&format!("no Cluster is named {name:?} (failures in --timings)")),
            "{}",
            outcome.err
        );
    }
}

#[test]
fn failures_of_machines_that_are_never_made_are_reported() {
    let story = Story::new();
    story.file("a.yaml", world(&[small("blue"), small("green")]));
    let numbered = |number: usize| {
        story.file("timings.yaml", format!("failures: [{{cluster: blue, machine: {number}, what: node}}]\n"));
        story.run(&["a.yaml", "--timings", "timings.yaml", "--limit", "1h"])
    };
    let outcome = numbered(3);
    let want = "no machine has the number 3 (failures in --timings): there were at most 2 in a Cluster\n";
    assert!(outcome.code == 0 && outcome.err.contains(want), "{}{}", outcome.out, outcome.err);
    let outcome = numbered(2);
    assert!(outcome.code == 1 && !outcome.err.contains("no machine"), "{}{}", outcome.out, outcome.err);
    assert!(outcome.out.contains("Durations are defaults"), "the file names none: {}", outcome.out);
}

#[test]
fn a_class_that_does_not_exist_is_not_a_matter_of_time() {
    let story = Story::new();
    let mut lost = cluster("blue", 1);
    lost["spec"]["topology"]["classRef"]["name"] = json!("lost");
    story.file("a.yaml", world(&[lost]));
    let outcome = story.run(&["a.yaml"]);
    assert_eq!(outcome.code, 1, "{}", outcome.out);
    let way_out = "help: add the ClusterClass to the files, or correct spec.topology.classRef";
    assert!(outcome.out.contains("lost was not found") && outcome.out.contains(way_out), "{}", outcome.out);
    assert!(!outcome.out.contains("--limit"), "{}", outcome.out);
}

#[test]
fn a_paused_cluster_is_stuck_and_the_way_out_is_to_resume_it() {
    let story = Story::new();
    let mut paused = cluster("blue", 1);
    paused["spec"]["paused"] = json!(true);
    story.file("a.yaml", world(&[paused]));
    let outcome = story.run(&["a.yaml"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.out.contains("Stuck: Cluster blue: spec.paused is true"), "{}", outcome.out);
    assert!(outcome.out.contains("help: remove spec.paused from the Cluster"), "{}", outcome.out);
}

#[test]
fn outputs_replace_links_and_not_what_they_lead_to() {
    // DEC-65
    let story = Story::new();
    story.file("a.yaml", world(&[small("blue")]));
    story.file("kept", "kept");
    let path = |name: &str| story.folder.path().join(name);
    for name in ["page.html", "objects.yaml"] {
        symlink("kept", path(name)).unwrap();
    }
    let outcome = story.run(&["a.yaml", "--html", "page.html", "--objects", "objects.yaml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(fs::read_to_string(path("kept")).unwrap(), "kept");
    assert!(fs::read_to_string(path("page.html")).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(fs::symlink_metadata(path("objects.yaml")).unwrap().is_file());
    let outcome = story.run(&["a.yaml", "-o", "json", "--html", "/dev/stdout"]);
    assert!(outcome.code == 0 && outcome.out.starts_with("<!DOCTYPE html>"), "a pipe is written to: {}", outcome.err);
    assert_eq!(fs::read_dir(story.folder.path()).unwrap().count(), 4, "nothing is left over");
}

#[test]
fn input_that_cannot_be_simulated_is_refused_with_a_reason() {
    let story = Story::new();
    story.file("class.yaml", world(&[]));
    story.file("a.yaml", world(&[cluster("blue", 1)]));
    story.file("older.yaml", world(&[at(cluster("blue", 1), "v1.32.0")]));
    story.file("broken.yaml", "a: [\n");
    story.file("timings.yaml", "infra: 1s\n");
    for (arguments, code, wanted) in [
        (&["class.yaml"][..], 2, "nothing was simulated: no Cluster with spec.topology was found"),
        (&["absent.yaml"], 2, "absent.yaml"),
        (&["broken.yaml"], 2, "broken.yaml"),
        (&["a.yaml", "--to", "broken.yaml"], 2, "broken.yaml"),
        (&["a.yaml", "--timings", "absent"], 2, "cannot read absent (--timings)"),
        (&["a.yaml", "--timings", "timings.yaml"], 2, "did you mean infrastructure?"),
        (&["a.yaml", "--html", "none/page.html"], 2, "cannot write none/page.html (--html)"),
        (&["a.yaml", "--to", "older.yaml"], 1, "error[UPG-005]: "),
    ] {
        let outcome = story.run(arguments);
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.contains(wanted), "{arguments:?}: {}", outcome.err);
        assert_eq!(outcome.out, "", "{arguments:?}");
    }
    assert_eq!(story.run(&["class.yaml", "--allow-empty"]).code, 0);
}

#[test]
fn more_machines_than_a_simulation_follows_are_refused_at_once() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 1)]));
    story.file("b.yaml", world(&[cluster("blue", 2_000_000_000)]));
    let wanted = "machines, and a simulation follows 10000 at most";
    for arguments in [&["b.yaml"][..], &["a.yaml", "--to", "b.yaml"]] {
        let outcome = story.run(arguments);
        assert_eq!(outcome.code, 1, "{arguments:?}: {}", outcome.err);
        assert!(outcome.out.contains("Stuck: it asks for 20") && outcome.out.contains(wanted), "{}", outcome.out);
        assert!(outcome.out.contains("help: simulate the Cluster with fewer replicas"), "{}", outcome.out);
    }
}

#[test]
fn a_limit_ends_a_rollout_that_takes_longer() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 1)]));
    let outcome = story.run(&["a.yaml", "--limit", "3s"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.out.contains("the time of --limit is over"), "{}", outcome.out);
}

#[test]
fn the_same_input_gives_the_same_output() {
    // DEC-12
    let story = Story::new();
    story.file("a.yaml", world(&[at(cluster("blue", 2), "v1.32.0"), at(cluster("green", 2), "v1.32.0")]));
    story.file("b.yaml", world(&[at(cluster("blue", 2), "v1.34.0"), at(cluster("green", 2), "v1.33.0")]));
    for format in ["text", "json"] {
        let run = |now| story.run(&["a.yaml", "--to", "b.yaml", "-o", format, "--now", now, "--html", "page.html"]).out;
        // The page names the start.
        let page = |now: &str| {
            let page = fs::read_to_string(story.folder.path().join("page.html")).unwrap();
            assert!(page.contains(&format!("ClusterClass default/embedded, from {now}; ")), "{page}");
            page.replace(now, "")
        };
        let [now, later] = ["2026-01-31T08:00:00Z", "2031-05-02T23:59:59Z"];
        let (first, first_page) = (run(now), page(now));
        // Times in the output count from the start.
        assert!(first == run(later), "{format}");
        assert!(first_page == page(later));
    }
}

#[test]
fn clusters_with_the_same_timeline_are_one_group() {
    // DEC-48
    let story = Story::new();
    let clusters = |version| {
        let names = (0..22).map(|i| format!("fleet-{i:02}"));
        let same = names.map(|name| at(small(&name), version));
        world(&same.chain([at(cluster("other", 1), version)]).collect::<Vec<_>>())
    };
    story.file("a.yaml", clusters("v1.33.0"));
    story.file("b.yaml", clusters("v1.34.0"));
    let outcome = story.run(&["a.yaml", "--to", "b.yaml"]);
    assert!(outcome.out.starts_with("23 Clusters in "), "{}", outcome.out);
    assert!(outcome.out.contains("\n22 Clusters with the same timeline: "), "{}", outcome.out);
    assert!(outcome.out.contains("default/fleet-19 and 2 more (--all lists them)"), "{}", outcome.out);
    assert!(!outcome.out.contains("default/fleet-20"), "{}", outcome.out);
    assert!(outcome.out.contains("\nCluster default/other: "), "{}", outcome.out);
    assert!(outcome.out.contains("\nWaiting:\n"), "{}", outcome.out);
    assert!(story.run(&["a.yaml", "--to", "b.yaml", "--all"]).out.contains("default/fleet-21"));
    let report = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]).json();
    let sizes: Vec<usize> =
        report["groups"].as_array().unwrap().iter().map(|group| group["clusters"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [22, 1]);
}

#[test]
fn the_fields_of_json_are_those_of_the_documentation() {
    let story = Story::new();
    story.file("a.yaml", world(&[at(cluster("blue", 2), "v1.32.0")]));
    story.file("b.yaml", world(&[at(cluster("blue", 2), "v1.33.0")]));
    let report = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]).json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulate.md")).unwrap();
    let only = &report["clusters"][0];
    for (value, want) in [
        (&report, &["clusters", "groups", "summary"][..]),
        (&report["summary"], &["clusters", "durationSeconds", "peakMachines", "stuck"]),
        (&report["groups"][0], &["clusters", "durationSeconds", "outcome", "peakMachines", "reason", "wayOut"]),
        (
            only,
            &[
                "durationSeconds",
                "events",
                "held",
                "machines",
                "name",
                "namespace",
                "outcome",
                "peakMachines",
                "reason",
                "wayOut",
            ],
        ),
        (&only["events"][0], &["because", "kind", "name", "t", "what"]),
        (&only["held"][0], &["from", "kind", "name", "reason", "until"]),
        (&only["machines"][0], &["controlPlane", "gone", "made", "name", "owner", "running", "version"]),
    ] {
        assert_eq!(keys(value), want.iter().map(|key| (*key).to_owned()).collect());
        for key in want {
            assert!(document.contains(&format!("`{key}`")), "docs/simulate.md does not describe {key}");
        }
    }
}

/// The bundle of a provider, and the same at the next minor version.
fn next_minor(name: &str) -> (String, String) {
    let mut objects = documents(&bundle(name));
    let before = written(&objects);
    for cluster in objects.iter_mut().filter(|object| object["kind"] == "Cluster") {
        let version = cluster["spec"]["topology"]["version"].as_str().unwrap();
        let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
        cluster["spec"]["topology"]["version"] = json!(format!("v1.{}.0", minor + 1));
    }
    (before, written(&objects))
}

#[test]
fn a_cluster_of_every_provider_rolls_out_and_upgrades() {
    for name in ["aws", "azure", "docker", "in-memory", "vsphere"] {
        let (before, after) = next_minor(name);
        let story = Story::new();
        story.file("a.yaml", before);
        story.file("b.yaml", after);
        let created = story.run(&["a.yaml", "-o", "json"]);
        assert_eq!(created.code, 0, "{name}: {}{}", created.err, created.out);
        assert!(created.json()["summary"]["peakMachines"].as_i64().unwrap() > 0, "{name}");
        let upgraded = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]);
        assert_eq!(upgraded.code, 0, "{name}: {}{}", upgraded.err, upgraded.out);
        let report = upgraded.json();
        let gone = count(&report, |machine| machine["gone"].is_i64());
        assert!(
            gone > 0 && gone == count(&report, |machine| machine["made"].is_i64()),
            "{name}: {gone} machines are gone"
        );
    }
}

/// A simulation of files, with the objects at its end in `running.yaml`, together with the classes and templates of the
/// files.
fn run_up(story: &Story, files: &str) {
    let outcome = story.run(&[files, "--objects", "objects.yaml", "-o", "json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let text = |name: &str| fs::read_to_string(story.folder.path().join(name)).unwrap();
    let is_class = |object: &Value| object["kind"] != "Cluster";
    let mut all: Vec<Value> = documents(&text(files)).into_iter().filter(is_class).collect();
    all.extend(documents(&text("objects.yaml")));
    story.file("running.yaml", written(&all));
}

/// The names of what a simulation makes are no part of when and how often it happens.
fn without_names(report: &Value) -> Value {
    let mut report = report.clone();
    for cluster in report["clusters"].as_array_mut().unwrap() {
        for list in ["events", "machines", "held"] {
            for entry in cluster[list].as_array_mut().into_iter().flatten() {
                entry.as_object_mut().unwrap().retain(|field, _| !["name", "because", "reason"].contains(&&**field));
            }
            if let Some(entries) = cluster[list].as_array_mut() {
                entries.sort_by_key(Value::to_string);
            }
        }
    }
    report
}

#[test]
fn a_cluster_that_runs_goes_on_from_where_it_is() {
    let story = Story::new();
    let cluster = embedded("cluster.yaml").remove(0);
    story.file("a.yaml", world(std::slice::from_ref(&cluster)));
    story.file("b.yaml", world(&[at(cluster, "v1.34.0")]));
    run_up(&story, "a.yaml");
    let still = story.run(&["running.yaml", "-o", "json"]).json();
    assert_eq!(still["clusters"][0]["events"], json!([]), "nothing is left to do");
    assert_eq!(count(&still, |machine| machine["running"] == 0), 8, "all machines run from the beginning");
    let new = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]);
    let running = story.run(&["running.yaml", "--to", "b.yaml", "-o", "json"]);
    assert_eq!((new.code, running.code), (0, 0), "{}", running.err);
    assert_eq!(without_names(&running.json()), without_names(&new.json()));
    let exported = documents(&fs::read_to_string(story.folder.path().join("objects.yaml")).unwrap());
    let exported = exported.into_iter().find(|object| object["kind"] == "Cluster").unwrap();
    story.file("exported.yaml", world(&[exported]));
    let anew = story.run(&["exported.yaml", "-o", "json"]).json();
    assert_eq!(count(&anew, |machine| machine["made"].is_i64()), 8, "without its objects it is rolled out");
    story.file("none.yaml", world(&[]));
    let gone = story.run(&["running.yaml", "--to", "none.yaml", "-o", "json"]).json();
    assert_eq!(count(&gone, |machine| machine["gone"].is_i64()), 8);
    assert_eq!(gone["clusters"][0]["outcome"], "converged");
}

#[test]
fn what_waits_before_a_change_still_waits_after_it() {
    let story = Story::new();
    let mut waiting = cluster("demo", 1);
    story.file("a.yaml", world(std::slice::from_ref(&waiting)));
    run_up(&story, "a.yaml");
    waiting["spec"]["topology"]["version"] = json!("v1.34.0");
    waiting["spec"]["topology"]["workers"]["machineDeployments"][0]["metadata"] =
        json!({"annotations": {"topology.cluster.x-k8s.io/defer-upgrade": ""}});
    story.file("b.yaml", world(std::slice::from_ref(&waiting)));
    let outcome =
        story.run(&["running.yaml", "--to", "b.yaml", "-o", "json", "--objects", "objects.yaml", "--limit", "1h"]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let held = |report: &Value| -> Vec<Value> {
        let all = report["clusters"][0]["held"].as_array().unwrap().iter();
        all.filter(|one| one["until"].is_null()).cloned().collect()
    };
    let before = held(&outcome.json());
    assert!(!before.is_empty(), "{}", outcome.out);
    let mut all: Vec<Value> = embedded("class.yaml");
    all.extend(documents(&fs::read_to_string(story.folder.path().join("objects.yaml")).unwrap()));
    story.file("running.yaml", written(&all));
    waiting["spec"]["topology"]["controlPlane"]["replicas"] = json!(1);
    story.file("c.yaml", world(&[waiting]));
    let after = held(&story.run(&["running.yaml", "--to", "c.yaml", "-o", "json", "--limit", "1h"]).json());
    let reasons = |held: &[Value]| held.iter().map(|one| one["reason"].clone()).collect::<Vec<_>>();
    assert_eq!(reasons(&after), reasons(&before));
    assert!(after.iter().all(|one| one["from"] == 0), "{after:#?}");
}

#[test]
fn workers_wait_for_the_control_plane() {
    // MA-17.2, CT-18.3, CT-19.3
    let story = Story::new();
    let mut cluster = small("demo");
    let outcome = |cluster: &Value| {
        story.file("a.yaml", world(std::slice::from_ref(cluster)));
        let report = story.run(&["a.yaml", "-o", "json"]).json()["clusters"][0].clone();
        let machines = report["machines"].as_array().unwrap();
        let running = machines.iter().find(|machine| machine["controlPlane"] == true).unwrap()["running"].clone();
        let made = machines.iter().find(|machine| machine["controlPlane"] == false).unwrap()["made"].clone();
        let held = report["held"].as_array().unwrap().iter().filter(|held| held["from"] != held["until"]);
        (held.cloned().collect::<Vec<_>>(), running, made)
    };
    let (held, running, made) = outcome(&cluster);
    let reason = held[0]["reason"].as_str().unwrap();
    assert!(reason.contains("is being provisioned (\"ControlPlaneIsStable\""), "{held:#?}");
    assert_eq!((held.len(), &held[0]["kind"], &held[0]["from"]), (1, &json!("MachineSet"), &json!(0)));
    assert_eq!((&held[0]["until"], &made), (&running, &running), "then it makes its machine");

    cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["metadata"] =
        json!({"annotations": {"machineset.cluster.x-k8s.io/skip-preflight-checks": "All"}});
    let (held, running, made) = outcome(&cluster);
    assert_eq!(made, 0, "without the checks it is made at once");
    let reasons: Vec<_> =
        held.iter().map(|one| (one["kind"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect();
    let want = [
        ("Machine", "the infrastructure of the Cluster is not provisioned yet"),
        ("Machine", "the control plane of the Cluster is not initialized yet"),
    ];
    assert_eq!(reasons, want);
    assert!(held[0]["until"] == held[1]["from"] && held[1]["until"].as_i64() <= running.as_i64(), "{held:#?}");
}

/// The kinds of objects in `objects.yaml` of which a worker set consists.
fn of_worker_sets(story: &Story) -> BTreeSet<String> {
    let text = fs::read_to_string(story.folder.path().join("objects.yaml")).unwrap();
    let kinds = documents(&text).into_iter().map(|object| object["kind"].as_str().unwrap().to_owned());
    kinds
        .filter(|kind| kind == "MachineSet" || kind == "MachineDeployment" || kind == "EmbeddedConfigTemplate")
        .collect()
}

#[test]
fn a_worker_set_that_runs_goes_with_its_templates() {
    // DEL-05, DEL-06, DEL-07
    let story = Story::new();
    let mut cluster = cluster("demo", 2);
    story.file("a.yaml", world(std::slice::from_ref(&cluster)));
    run_up(&story, "a.yaml");
    assert_eq!(of_worker_sets(&story).len(), 3);
    cluster["spec"]["topology"].as_object_mut().unwrap().remove("workers");
    story.file("b.yaml", world(std::slice::from_ref(&cluster)));
    let outcome = story.run(&["running.yaml", "--to", "b.yaml", "-o", "json", "--objects", "objects.yaml"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.err, outcome.out);
    assert_eq!(count(&outcome.json(), |machine| machine["gone"].is_i64()), 2);
    assert_eq!(of_worker_sets(&story), BTreeSet::new(), "nothing of the worker set is left");
    // A paused Cluster keeps what its finalizers hold until it goes on.
    cluster["spec"]["paused"] = json!(true);
    story.file("paused.yaml", world(&[cluster]));
    let outcome = story.run(&["running.yaml", "--to", "paused.yaml", "-o", "json", "--objects", "objects.yaml"]);
    assert_eq!(outcome.code, 1, "{}", outcome.out);
    assert_eq!(of_worker_sets(&story).len(), 3);
}

/// The same objects as other providers would have made them: with their own finalizers, provider ids and Nodes, and
/// without anything that only the simulated provider writes.
fn of_others(mut object: Value) -> Value {
    let ours = |text: &str| text.starts_with("lifecycle.topologist.dev/");
    let is_core = object["apiVersion"].as_str().unwrap().starts_with("cluster.x-k8s.io/");
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.retain(|name, _| !ours(name));
    }
    if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
        finalizers.retain(|name| !ours(name.as_str().unwrap()));
        if !is_core {
            finalizers.push(json!("others.infrastructure.cluster.x-k8s.io"));
        }
    }
    if let Some(Value::Array(conditions)) = object.pointer_mut("/status/conditions") {
        conditions.retain(|one| !one["type"].as_str().unwrap().ends_with("Provisioned"));
    }
    if let Some(id) = object.pointer_mut("/spec/providerID") {
        *id = json!(format!("others:///eu/{name}"));
    }
    if let Some(Value::Array(ids)) = object.pointer_mut("/spec/providerIDList") {
        for (number, id) in ids.iter_mut().enumerate() {
            *id = json!(format!("others:///eu/{number}"));
        }
    }
    if let Some(node) = object.pointer_mut("/status/nodeRef/name") {
        *node = json!(format!("ip-{name}"));
    }
    object
}

#[test]
fn what_other_providers_have_brought_up_is_not_made_again() {
    for name in ["aws", "azure", "docker", "in-memory", "vsphere"] {
        let story = Story::new();
        let (before, after) = next_minor(name);
        story.file("a.yaml", before);
        story.file("b.yaml", after);
        run_up(&story, "a.yaml");
        let running = fs::read_to_string(story.folder.path().join("running.yaml")).unwrap();
        let others: Vec<Value> = documents(&running).into_iter().map(of_others).collect();
        assert!(!written(&others).contains("lifecycle.topologist.dev"), "{name}");
        story.file("others.yaml", written(&others));
        let still = story.run(&["others.yaml", "-o", "json"]);
        assert_eq!(still.code, 0, "{name}: {}{}", still.err, still.out);
        let report = still.json();
        assert_eq!(report["clusters"][0]["events"], json!([]), "{name}");
        assert!(count(&report, |machine| machine["running"] == 0) > 0, "{name}");
        let [own, foreign] = ["running.yaml", "others.yaml"].map(|file| {
            let outcome = story.run(&[file, "--to", "b.yaml", "-o", "json"]);
            assert_eq!(outcome.code, 0, "{name}: {}{}", outcome.err, outcome.out);
            outcome.json()
        });
        let gone = |report: &Value| count(report, |machine| machine["gone"].is_i64());
        assert!(gone(&own) > 0 && gone(&own) == gone(&foreign), "{name}");
        // Its delays have a part that depends on uids, which are new in each simulation.
        if name != "in-memory" {
            assert_eq!(without_names(&own), without_names(&foreign), "{name}");
        }
    }
}

#[test]
fn twins_get_the_reports_that_each_of_them_would_get_alone() {
    let names = ["blue", "green", "blue-2", "control"];
    let shape = |report: &Value, name: &str| {
        let clusters = report["clusters"].as_array().unwrap().iter();
        let mut one = clusters.clone().find(|one| one["name"] == name).unwrap().clone();
        one.as_object_mut().unwrap().remove("name");
        without_names(&json!({"clusters": [one]}))
    };
    let story = Story::new();
    for (file, version) in [("a.yaml", "v1.33.0"), ("b.yaml", "v1.34.0")] {
        story.file(file, world(&names.map(|name| at(cluster(name, 2), version))));
    }
    let outcome = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let together = outcome.json();
    for name in names {
        for (file, version) in [("one.yaml", "v1.33.0"), ("two.yaml", "v1.34.0")] {
            story.file(file, world(&[at(cluster(name, 2), version)]));
        }
        let alone = story.run(&["one.yaml", "--to", "two.yaml", "-o", "json"]).json();
        assert_eq!(shape(&together, name), shape(&alone, name), "{name}");
        let mine = together["clusters"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
        let machines = mine["machines"].as_array().unwrap();
        assert!(machines.iter().all(|machine| machine["name"].as_str().unwrap().starts_with(&format!("{name}-"))));
        assert!(mine["held"].as_array().unwrap().iter().all(|held| held["name"].as_str().unwrap().starts_with(name)));
    }
}
