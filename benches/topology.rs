//! What topologies cost: desired state, patches, plans, and how that grows. On one thread, unless something else is
//! said.
//!
//! Budgets are those of the design. `cargo bench --profile dist --bench topology -- [PART…]`; exit code 1 when a budget
//! is missed by more than the tolerance.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts and times are small")]

mod support {
    pub mod budgets;
    pub mod topologies;
}

use std::fmt::Write;
use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::budgets::{Budget, Budgets, micros, millis, shortest};
use support::topologies::{self, Size, facts, key};
use topologist::topology::Options;
use topologist::topology::plan::TopologySimulator;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A part of the benchmark.
type Part = fn(&mut Budgets);

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let parts: [(&str, Part); 4] = [("desired", desired), ("growth", growth), ("plans", plans), ("sets", sets)];
    let mut budgets = Budgets::titled("Topologies");
    for (_, part) in parts.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)) {
        part(&mut budgets);
    }
    budgets.finish();
}

/// Desired state and patches of one Cluster, before it exists and once it is rolled out.
fn desired(budgets: &mut Budgets) {
    let mut fold = TopologySimulator::new(facts(1, Size { deployments: 10, patches: 15 }), Options::new(false));
    let compute = |fold: &TopologySimulator| shortest(300, || drop(black_box(fold.compute(&key(0)).unwrap())));
    let new = compute(&fold);
    let what = "desired state and patches, 10 machine deployments, 15 patches";
    budgets.note(&format!("{what} (a new Cluster)"), "ms", Budget::AtMost(1.0), millis(new));
    let outcome = fold.roll_out(&key(0));
    assert!(outcome.failure.is_none() && outcome.rounds.len() == 1, "{:?}", outcome.failure);
    budgets.note(&format!("{what} (one that is rolled out)"), "ms", Budget::AtMost(1.0), millis(compute(&fold)));
    let again = shortest(100, || assert!(black_box(fold.roll_out(&key(0))).rounds.is_empty()));
    budgets.note("the same, and the plan that nothing is to be done", "ms", Budget::None, millis(again));
}

/// Time per object as a topology grows; it should stay the same.
fn growth(budgets: &mut Budgets) {
    for (what, sizes) in [
        ("machine deployments", [1, 10, 50].map(|deployments| Size { deployments, patches: 15 })),
        ("patches", [1, 10, 50].map(|patches| Size { deployments: 10, patches })),
    ] {
        for size in sizes {
            let fold = TopologySimulator::new(facts(1, size), Options::new(false));
            let time = shortest(100, || drop(black_box(fold.compute(&key(0)).unwrap())));
            let (count, parts) = match what {
                "patches" => (size.patches, size.patches),
                _ => (size.deployments, 4 + 3 * size.deployments),
            };
            let each = micros(time) / parts as f64;
            let unit = if what == "patches" { "a patch" } else { "an object" };
            budgets.note(&format!("desired state with {count} {what}: {unit}"), "µs", Budget::None, each);
        }
    }
}

/// `plan` as people run it: a change of a class that rolls every Cluster.
fn plans(budgets: &mut Budgets) {
    let size = Size { deployments: 3, patches: 15 };
    for clusters in [1, 10, 100, 1000, 5000] {
        let folder = tempfile::tempdir().unwrap();
        let (class, templates) = topologies::class_and_templates(size);
        let write = |name: &str, edit: &dyn Fn(&mut Value)| {
            let mut text = String::new();
            for mut object in templates.iter().cloned().chain([class.clone()]) {
                edit(&mut object);
                writeln!(text, "---\n{object}").unwrap();
            }
            (0..clusters).for_each(|i| writeln!(text, "---\n{}", topologies::cluster(i, size)).unwrap());
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let from = write("from.yaml", &|_| {});
        let to = write("to.yaml", &|object| {
            if object["kind"] == "BoxMachineTemplate" {
                object["spec"]["template"]["spec"]["instanceType"] = json!("large");
            }
        });
        let (message, time, _) = run("json", &from, &to);
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["summary"]["machines"]["replaced"], json!(clusters * 12));
        let budget = if clusters == 1000 { Budget::AtMost(2000.0) } else { Budget::None };
        budgets.note(&format!("`plan -o json` over {clusters} Clusters, all of which roll"), "ms", budget, time);
        let (_, time, memory) = run("text", &from, &to);
        let [most_time, most_memory] =
            if clusters == 5000 { [3000.0, 300.0].map(Budget::AtMost) } else { [Budget::None; 2] };
        budgets.note(&format!("`plan` over {clusters} Clusters, all of which roll"), "ms", most_time, time);
        budgets.note(&format!("memory of `plan` over {clusters} Clusters"), "MB", most_memory, memory);
    }
}

/// `plan` of one Cluster with many worker sets, which an upgrade of its version rolls one after the other.
fn sets(budgets: &mut Budgets) {
    for deployments in [200, 400, 2000] {
        let size = Size { deployments, patches: 0 };
        let folder = tempfile::tempdir().unwrap();
        let (class, mut templates) = topologies::class_and_templates(size);
        for template in templates.iter_mut().filter(|template| template["kind"] != "MachineClusterTemplate") {
            let missing = 5_000_usize.saturating_sub(template.to_string().len());
            template["spec"]["template"]["spec"]["userData"] = json!("x".repeat(missing));
        }
        let [from, to] = ["v1.33.1", "v1.34.2"].map(|version| {
            let mut cluster = topologies::cluster(0, size);
            cluster["spec"]["topology"]["version"] = json!(version);
            let mut text = String::new();
            templates.iter().chain([&class, &cluster]).for_each(|object| writeln!(text, "---\n{object}").unwrap());
            let path = folder.path().join(version);
            std::fs::write(&path, text).unwrap();
            path
        });
        let (_, time, memory) = run("text", &from, &to);
        let [most_time, most_memory] =
            if deployments == 2000 { [5000.0, 300.0].map(Budget::AtMost) } else { [Budget::None; 2] };
        let what = format!("an upgrade of {deployments} worker sets, templates of 5 KB");
        budgets.note(&format!("`plan` of {what}"), "ms", most_time, time);
        budgets.note(&format!("memory of `plan` of {what}"), "MB", most_memory, memory);
    }
}

/// The output of `plan`, how many milliseconds it took, and how many megabytes.
fn run(format: &str, from: &Path, to: &Path) -> (Vec<u8>, f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_topologist"));
    command.args(["plan", "-o", format, "--from"]).arg(from).arg("--to").arg(to);
    let mut child = command.stdout(File::create(&out).unwrap()).spawn().unwrap();
    let mut peak = 0.0;
    let code = loop {
        peak = peak_megabytes(child.id()).unwrap_or(peak);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let time = started.elapsed();
    assert_eq!(code, Some(4));
    (std::fs::read(out).unwrap(), millis(time), peak)
}

/// The most resident memory of a process so far, as Linux counts it.
fn peak_megabytes(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? / 1024.0)
}
