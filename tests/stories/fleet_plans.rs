//! What `plan` says of many Clusters: groups of the same change, names that are chosen, and how long the output is
//! (DEC-48).

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::server::{command, without_not_checked};

/// A Cluster of a fleet.
struct Member {
    name: &'static str,
    labels: Value,
    /// The replicas of its worker sets.
    sets: &'static [i64],
    /// What comes before its name in the text that its machines have; the name is left out after `same`.
    text: &'static str,
}

fn member(name: &'static str, sets: &'static [i64]) -> Member {
    Member { name, labels: json!({}), sets, text: "" }
}

/// The class of the embedded provider, whose Clusters are named in the text of a file.
fn class() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded/class.yaml");
    let text = fs::read_to_string(path).unwrap();
    yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect()
}

/// A Cluster in `namespace/name` with worker sets named after their positions.
fn cluster(member: &Member) -> Value {
    let (namespace, name) = member.name.split_once('/').unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded/cluster.yaml");
    let mut cluster = yaml::value(&fs::read_to_string(path).unwrap()).unwrap();
    cluster["metadata"] = json!({"namespace": namespace, "name": name, "labels": member.labels});
    let topology = &mut cluster["spec"]["topology"];
    let class = topology["workers"]["machineDeployments"][0]["class"].clone();
    let set = |(i, replicas): (usize, &i64)| json!({"class": class, "name": format!("set-{i}"), "replicas": replicas});
    topology["classRef"]["namespace"] = json!("default");
    let sets: Vec<Value> = member.sets.iter().enumerate().map(set).collect();
    topology.as_object_mut().unwrap().remove("workers");
    if !sets.is_empty() {
        topology["workers"] = json!({"machineDeployments": sets});
    }
    for variable in topology["variables"].as_array_mut().unwrap().iter_mut().filter(|one| one["name"] == "motd") {
        variable["value"] = match member.text {
            "same" => json!("same"),
            text => json!(format!("{text}{name}")),
        };
    }
    cluster
}

/// Files with these Clusters, before and after an edit of each.
struct Fleet {
    folder: tempfile::TempDir,
}

impl Fleet {
    fn new(members: &[Member], edit: impl Fn(&mut Value)) -> Self {
        Fleet::of_class(class(), members, edit)
    }

    fn of_class(class: Vec<Value>, members: &[Member], edit: impl Fn(&mut Value)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, edit: &dyn Fn(&mut Value)| {
            let mut objects = class.clone();
            objects.extend(members.iter().map(cluster).map(|mut cluster| {
                edit(&mut cluster);
                cluster
            }));
            let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
            fs::write(folder.path().join(name), text).unwrap();
        };
        write("from.yaml", &|_| {});
        write("to.yaml", &edit);
        Fleet { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut plan = command(&["plan", "--from"]);
        plan.arg(self.path("from.yaml")).arg("--to").arg(self.path("to.yaml")).args(flags);
        plan
    }

    fn run(&self, flags: &[&str]) -> Output {
        self.command(flags).output().unwrap()
    }

    /// The exit code, and what is printed.
    fn plan(&self, flags: &[&str]) -> (i32, String) {
        let output = self.run(flags);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout) + &text(output.stderr))
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.run(&["-o", "json"]).stdout).unwrap()
    }
}

/// Gives a Cluster the version.
fn at(version: &'static str) -> impl Fn(&mut Value) {
    move |cluster| cluster["spec"]["topology"]["version"] = json!(version)
}

/// Changes the text that every machine of a Cluster has.
fn greeting(cluster: &mut Value) {
    let variables = cluster["spec"]["topology"]["variables"].as_array_mut().unwrap();
    for variable in variables.iter_mut().filter(|one| one["name"] == "motd") {
        variable["value"] = json!(format!("{}, hello", variable["value"].as_str().unwrap()));
    }
}

fn names(group: &Value) -> Vec<&str> {
    group["clusters"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn clusters_with_the_same_change_are_one_group_whatever_their_names_and_sizes() {
    let members = [
        member("prod/blue", &[2]),
        member("prod/red-ish", &[1, 2, 3, 4, 5]),
        member("dev/a", &[7]),
        member("dev/none", &[]),
    ];
    let report = Fleet::new(&members, greeting).json();
    let groups = report["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{groups:#?}");
    assert_eq!(names(&groups[0]), ["prod/red-ish", "dev/a", "prod/blue"], "one set or five, most machines first");
    assert_eq!(names(&groups[1]), ["dev/none"], "a Cluster without workers has another change");
    assert_eq!(groups[0]["machines"]["replaced"], json!(15 + 7 + 2 + 3 * 3), "with three control planes of three");
    let actions: Vec<_> =
        groups[0]["steps"].as_array().unwrap().iter().map(|step| (&step["action"], &step["role"])).collect();
    let want = [("apply", "control plane"), ("rotate", "MachineDeployment bootstrap"), ("apply", "MachineDeployment")];
    assert_eq!(
        actions,
        want.map(|(a, r)| (Value::from(a), Value::from(r))).iter().map(|(a, r)| (a, r)).collect::<Vec<_>>()
    );
    let change = &groups[0]["steps"][1]["changes"][0];
    assert_eq!((&change["from"], &change["to"]), (&"<cluster>".into(), &"<cluster>, hello".into()), "{change}");
    let change = &groups[0]["steps"][2]["changes"][0];
    assert_eq!((&change["from"], &change["to"]), (&"<old name>".into(), &"<new name>".into()), "{change}");
    let rolls: Vec<_> = groups[0]["rolls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|roll| (&roll["kind"], &roll["machines"]["replaced"]))
        .collect();
    assert_eq!(rolls, [(&"MachineDeployment".into(), &24.into()), (&"EmbeddedControlPlane".into(), &9.into())]);
    for cluster in report["clusters"].as_array().unwrap() {
        let name = format!("{}/{}", cluster["namespace"].as_str().unwrap(), cluster["name"].as_str().unwrap());
        let group = &groups[usize::try_from(cluster["group"].as_u64().unwrap()).unwrap()];
        assert!(names(group).contains(&&*name), "{name}");
        assert!(cluster["steps"][0]["name"].as_str().unwrap().starts_with(name.split_once('/').unwrap().1));
    }
}

#[test]
fn another_version_or_value_is_another_group() {
    let members = [member("prod/blue", &[2]), member("prod/green", &[2]), member("prod/red", &[9])];
    let fleet = Fleet::new(&members, |cluster| match cluster["metadata"]["name"].as_str().unwrap() {
        "blue" => at("v1.34.2")(cluster),
        "green" => greeting(cluster),
        _ => {}
    });
    let report = fleet.json();
    let groups: Vec<_> = report["groups"].as_array().unwrap().iter().map(names).collect();
    assert_eq!(groups, [["prod/blue"], ["prod/green"], ["prod/red"]], "what does not change comes last");
    assert_eq!(report["summary"]["changed"], 2);
    let (code, text) = fleet.plan(&[]);
    assert_eq!(code, 4);
    assert!(
        text.starts_with(
            "2 of 3 Clusters changed: 10 machines replaced\n\
                              most affected: prod/blue (5 machines), prod/green (5 machines)\n\n\
                              Cluster prod/blue (class "
        ),
        "{text}"
    );
    assert!(text.contains(", v1.33.0 → v1.34.2): 5 machines replaced\n"), "{text}");
    assert!(
        text.contains("apply  MachineDeployment blue-set-0-"),
        "a single Cluster has the names of its objects: {text}"
    );
    assert!(!text.contains("prod/red"), "{text}");
}

#[test]
fn text_names_twenty_clusters_of_a_group_unless_all_are_requested() {
    let name = |i: usize| -> &'static str { format!("prod/c{i:02}").leak() };
    let sets = |i: usize| -> &'static [i64] { if i == 7 { &[5] } else { &[1] } };
    let members: Vec<Member> = (0..23).map(|i| member(name(i), sets(i))).collect();
    let fleet = Fleet::new(&members, at("v1.34.2"));
    let (_, text) = fleet.plan(&[]);
    let headline = ", v1.33.0 → v1.34.2: 96 machines replaced\n  prod/c07 (8 machines), prod/c00 (4), prod/c01 (4), ";
    assert!(text.contains("\n23 Clusters, class ") && text.contains(headline), "{text}");
    assert!(text.contains("prod/c19 (4) and 3 more (--all lists all)\n") && !text.contains("prod/c20"), "{text}");
    assert_eq!(text.matches("spec.template.spec.version").count(), 1, "the change is told once: {text}");
    let (_, text) = fleet.plan(&["--all"]);
    assert!(text.contains("prod/c22 (4)\n") && !text.contains("more"), "{text}");
    assert!(text.lines().filter(|line| line.contains("prod/c")).all(|line| line.len() < 120), "{text}");
}

#[test]
fn lines_of_a_text_are_shown_as_a_difference() {
    let mut blue = member("prod/blue", &[1]);
    blue.text = "one\ntwo\nthree\nfour\nfive\nsix of ";
    let fleet = Fleet::new(&[blue], |cluster| {
        let variables = cluster["spec"]["topology"]["variables"].as_array_mut().unwrap();
        for variable in variables.iter_mut().filter(|one| one["name"] == "motd") {
            variable["value"] = json!(variable["value"].as_str().unwrap().replace("four", "FOUR"));
        }
    });
    let (_, text) = fleet.plan(&[]);
    let indent = " ".repeat(13);
    let lines =
        ["  two", "  three", "- four", "+ FOUR", "  five", "  six of blue"].map(|line| format!("{indent}{line}\n"));
    assert!(
        text.contains(&format!(
            ".content:   (patch \"motd\" definitions[0].jsonPatches[0] with motd)\n{}",
            lines.concat()
        )),
        "{text}"
    );
    let (_, markdown) = fleet.plan(&["-o", "markdown"]);
    assert!(markdown.contains("```diff\n  two\n  three\n- four\n+ FOUR\n"), "{markdown}");
}

#[test]
fn colors_need_a_terminal_or_the_flag() {
    let fleet = Fleet::new(&[member("prod/blue", &[1])], greeting);
    let plain = fleet.plan(&[]).1;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert_eq!(fleet.plan(&["--color", "never"]).1, plain);
    let colored = fleet.plan(&["--color", "always"]).1;
    assert!(colored.contains("\u{1b}[33mrotate\u{1b}[0m") && colored.contains("\u{1b}[31m"), "{colored:?}");
    let without: String = colored
        .split('\u{1b}')
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.split_once('m').unwrap().1 })
        .collect();
    assert_eq!(without, plain, "colors are all that differs");
    for format in ["json", "markdown"] {
        assert!(!fleet.plan(&["--color", "always", "-o", format]).1.contains('\u{1b}'), "{format}");
    }
}

#[test]
fn clusters_are_chosen_by_patterns_and_by_labels() {
    let mut members = [
        member("prod/blue", &[1]),
        member("prod/green", &[1]),
        member("dev/blue", &[1]),
        member("default/b1", &[1]),
        member("default/b22", &[1]),
    ];
    members[0].labels = json!({"env": "prod", "tier": "a"});
    members[1].labels = json!({"env": "prod", "tier": "c", "x": "1"});
    members[2].labels = json!({"env": "dev", "tier": "b"});
    let fleet = Fleet::new(&members, at("v1.34.2"));
    let chosen = |flags: &[&str]| -> Vec<String> {
        let output = fleet.run(&[flags, &["-o", "json"]].concat());
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let clusters = report["clusters"].as_array().unwrap().iter();
        clusters
            .map(|one| format!("{}/{}", one["namespace"].as_str().unwrap(), one["name"].as_str().unwrap()))
            .collect()
    };
    for (flags, want) in [
        (&["--cluster", "prod/*"][..], &["prod/blue", "prod/green"][..]),
        (&["--cluster", "*/blue"], &["dev/blue", "prod/blue"]),
        (&["--cluster", "prod/blue"], &["prod/blue"]),
        (&["--cluster", "b?"], &["default/b1"]),
        (&["--cluster", "b*", "--cluster", "dev/*"], &["default/b1", "default/b22", "dev/blue"]),
        (&["--selector", "env=prod,tier in (a,b),!x"], &["prod/blue"]),
        (&["-l", "env!=prod"], &["default/b1", "default/b22", "dev/blue"]),
        (&["--cluster", "*/blue", "-l", "env=dev"], &["dev/blue"]),
    ] {
        assert_eq!(chosen(flags), want, "{flags:?}");
    }
    for (flags, want) in [
        (
            &["--cluster", "prod/gren"][..],
            "there is no Cluster prod/gren; there is prod/green, default/b1, default/b22, dev/blue, prod/blue\n",
        ),
        (&["--cluster", "prod/*", "--cluster", "stage/*"], "no Cluster matches stage/*; there is default/b1, "),
        (&["--selector", "env=stage"], "no Cluster matches --selector\n"),
        (&["--selector", "env in prod"], "expected labels such as env=prod"),
        (&["--cluster", "a/b/c"], "expected namespace/name"),
    ] {
        let (code, report) = fleet.plan(flags);
        assert!(code == 2 && report.contains(want), "{flags:?}: exit {code}, {report}");
    }
}

#[test]
fn a_comment_fits_however_different_the_clusters_are() {
    let name = |i: usize| -> &'static str { format!("team-{}/cluster-{i}", i % 10).leak() };
    let members: Vec<Member> = (0..300).map(|i| member(name(i), &[3])).collect();
    let fleet = Fleet::new(&members, |cluster| {
        let number: u64 = cluster["metadata"]["name"].as_str().unwrap()[8..].parse().unwrap();
        let variables = cluster["spec"]["topology"]["variables"].as_array_mut().unwrap();
        for variable in variables.iter_mut().filter(|one| one["name"] == "motd") {
            variable["value"] = json!(format!("{} <b>|`{}", number * 7919, "long ".repeat(30)));
        }
    });
    let (code, comment) = fleet.plan(&["-o", "markdown"]);
    assert_eq!(code, 4);
    assert!(comment.len() < 60_000, "{} bytes", comment.len());
    assert!(
        comment.starts_with("**300 of 300 Clusters changed: 1800 machines replaced**\n\n| Clusters |"),
        "{}",
        &comment[..400]
    );
    assert_eq!(comment.matches("<details").count(), comment.matches("</details>").count());
    assert!(comment.matches("<details").count() > 10);
    assert!(comment.contains("\nThe table leaves out "), "{comment}");
    assert!(comment.contains("The details of "), "what is left out is said");
    assert!(!comment.contains("<b>|"), "values are escaped");
}

/// The class, in which each machine has this text.
fn class_with(text: &str) -> Vec<Value> {
    let mut objects = class();
    for class in objects.iter_mut().filter(|object| object["kind"] == "ClusterClass") {
        let patch =
            class["spec"]["patches"].as_array_mut().unwrap().iter_mut().find(|one| one["name"] == "motd").unwrap();
        for definition in patch["definitions"].as_array_mut().unwrap() {
            let template = format!("path: /etc/motd\ncontent: {text}\n");
            definition["jsonPatches"][0]["valueFrom"]["template"] = json!(template);
        }
    }
    objects
}

/// The Clusters of each group of several, as the text names them.
fn reported(text: &str) -> Vec<Vec<String>> {
    let of_group = |part: &str| {
        let (first, rest) = part.split_once('\n')?;
        first.contains(" Clusters, class ").then_some(())?;
        let lines = rest.lines().take_while(|line| line.contains('/') && !line.contains(": "));
        let names =
            lines.flat_map(|line| line.split(',')).map(|name| name.trim().split(' ').next().unwrap().to_owned());
        Some(names.filter(|name| !name.is_empty()).collect())
    };
    text.split("\n\n").filter_map(of_group).collect()
}

#[test]
fn clusters_that_are_computed_once_get_the_same_output_as_each_alone() {
    // JSON computes every Cluster by itself.
    let name = |i: usize| -> &'static str { format!("prod/cluster-{i:02}").leak() };
    let sets = |i: usize| -> &'static [i64] { if i.is_multiple_of(3) { &[2, 2] } else { &[] } };
    let mut members: Vec<Member> = (0..12).map(|i| member(name(i), sets(i))).collect();
    members.iter_mut().for_each(|member| member.text = "same");
    for (text, groups) in [
        ("{{ .motd | quote }}", 2),
        ("{{ .builtin.cluster.name }} says {{ .motd }}", 2),
        ("{{ if eq .builtin.cluster.name \"cluster-03\" }}odd {{ end }}{{ .motd }}", 3),
        ("{{ .motd }}{{ .builtin.cluster.name | sha256sum | trunc 1 }}", 0),
        ("{{ .motd }}-{{ .builtin.cluster.name | len }}", 2),
        ("x{{ .builtin.cluster.name }} {{ .motd }}", 12),
    ] {
        let fleet = Fleet::of_class(class_with(text), &members, greeting);
        let report = fleet.json();
        let all = report["groups"].as_array().unwrap();
        let want: Vec<Vec<&str>> = all.iter().filter(|group| group["steps"] != json!([])).map(names).collect();
        assert!(groups == 0 || want.len() == groups, "{text}: {want:?}");
        let (code, text_of_all) = fleet.plan(&["--all"]);
        assert_eq!(code, 4, "{text_of_all}");
        let of_several: Vec<Vec<&str>> = want.iter().filter(|names| names.len() > 1).cloned().collect();
        assert_eq!(reported(&text_of_all), of_several, "{text}: {text_of_all}");
        let machines =
            format!("12 of 12 Clusters changed: {} machines replaced\n", report["summary"]["machines"]["replaced"]);
        assert!(text_of_all.starts_with(&machines), "{text}: {text_of_all}");
    }
}

/// What a program writes to a terminal: standard error or standard output is one.
pub fn on_terminal(plan: &mut Command, is_error: bool, code: i32) -> String {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    plan.env("TERM", "xterm");
    let read = thread::spawn(move || {
        let (mut controller, mut report, mut part) = (File::from(controller), Vec::new(), [0; 4096]);
        // The last reader of a terminal that is closed gets an error, not an end.
        while let Ok(read @ 1..) = controller.read(&mut part) {
            report.extend_from_slice(&part[..read]);
        }
        String::from_utf8_lossy(&report).into_owned()
    });
    if is_error {
        plan.stderr(terminal).stdout(Stdio::null())
    } else {
        plan.stdout(terminal)
    };
    assert_eq!(plan.status().unwrap().code(), Some(code));
    // Nothing else holds the terminal once these are gone.
    plan.stdout(Stdio::null()).stderr(Stdio::null());
    read.join().unwrap()
}

#[test]
fn a_terminal_gets_colors_unless_they_are_not_wanted() {
    let fleet = Fleet::new(&[member("prod/blue", &[1])], greeting);
    for (variable, value, has_colors) in
        [("ANY", "1", true), ("NO_COLOR", "1", false), ("NO_COLOR", "", true), ("CLICOLOR", "0", false)]
    {
        let report = on_terminal(fleet.command(&[]).env(variable, value), false, 4);
        assert!(report.contains("1 of 1 Cluster changed"), "{report:?}");
        assert_eq!(report.contains("\u{1b}[33mrotate"), has_colors, "{variable}={value}: {report:?}");
    }
}

#[test]
fn long_work_shows_progress_on_a_terminal_only() {
    let name = |i: usize| -> &'static str { format!("prod/c{i}").leak() };
    let of_size = |count: usize| -> Vec<Member> { (0..count).map(|i| member(name(i), &[1, 1])).collect() };
    // As many Clusters as keep this machine busy for longer than the time in which nothing is shown.
    let (members, fleet) = [100, 200, 400, 800, 1600]
        .into_iter()
        .find_map(|count| {
            let members = of_size(count);
            let fleet = Fleet::new(&members, at("v1.34.2"));
            let started = Instant::now();
            let piped = fleet.run(&[]);
            assert_eq!(without_not_checked(&String::from_utf8(piped.stderr).unwrap()), "", "a pipe gets no bar");
            (started.elapsed() > Duration::from_secs(4)).then_some((members, fleet))
        })
        .expect("no fleet is large enough to tell");
    let report = on_terminal(&mut fleet.command(&[]), true, 4);
    assert!(report.contains(&format!(" of {} Clusters, ", members.len())), "{report:?}");
    let small = Fleet::new(&members[..1], at("v1.34.2"));
    assert_eq!(
        without_not_checked(&on_terminal(&mut small.command(&[]), true, 4)),
        "",
        "work that is done at once shows nothing"
    );
}
