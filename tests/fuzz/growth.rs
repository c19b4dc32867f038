//! How the cost of a topology grows with its worker sets: an upgrade of twice as many takes about twice as long.

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use topologist::hub::{Cluster, Object};
use topologist::topology::Options;
use topologist::topology::blueprint::Blueprint;
use topologist::topology::plan::{StepAction, TopologySimulator};
use topologist::world::{Facts, Found, Record, World};

use peakmem_alloc::PeakMemAllocTrait as _;

use crate::topologies::{self, Size, key};
use crate::{ALLOCATOR, MEASURING, PEAK};

/// What an upgrade of a topology costs.
struct Cost {
    seconds: f64,
    /// Bytes that were allocated, each time that they were.
    allocated: f64,
    /// The most bytes that were in use at a time.
    peak: f64,
}

fn at(version: &str, size: Size) -> Facts {
    let mut facts = topologies::facts(1, size);
    let mut cluster = topologies::cluster(0, size);
    cluster["spec"]["topology"]["version"] = json!(version);
    let cluster: Cluster = serde_json::from_value(cluster).unwrap();
    facts.put_cluster(cluster.metadata.key(), Record::readable(cluster));
    facts
}

/// Creates a Cluster of so many worker sets and upgrades it, as `plan` does.
fn upgrade(deployments: usize) -> Cost {
    let size = Size { deployments, patches: 3 };
    let options = Options::new(false);
    let [before, after] = ["v1.33.1", "v1.34.2"].map(|version| TopologySimulator::new(at(version, size), options));
    PEAK.reset_peak_memory();
    let (time, given) = (thread_time(), ALLOCATOR.total_allocated());
    let mut old = before.clone();
    assert_eq!(old.settle(&key(0)).failure, None);
    let mut new = after.clone();
    new.take_over(&key(0), &old);
    let outcome = new.roll_out(&key(0));
    let cost = Cost {
        seconds: thread_time() - time,
        allocated: (ALLOCATOR.total_allocated() - given) as f64,
        peak: PEAK.get_peak_memory() as f64,
    };
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.held, []);
    // One set upgrades at a time.
    let upgraded = outcome.rounds.iter().filter(|round| round.rolls.iter().any(|roll| roll.part.worker().is_some()));
    assert_eq!(upgraded.count(), deployments);
    let rotated = outcome.rounds.iter().flat_map(|round| &round.steps).filter(|step| step.action == StepAction::Rotate);
    assert!(rotated.count() >= deployments);
    cost
}

fn thread_time() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The bytes of the templates of all worker sets, as JSON.
fn template_bytes(deployments: usize) -> f64 {
    let (_, templates) = topologies::class_and_templates(Size { deployments: 1, patches: 3 });
    let is_of_workers = |template: &&Value| {
        ["BoxMachineTemplate", "KubeadmConfigTemplate"].iter().any(|kind| template["kind"] == *kind)
    };
    let bytes: usize = templates.iter().filter(is_of_workers).map(|template| template.to_string().len()).sum();
    (deployments * bytes) as f64
}

#[test]
fn an_upgrade_of_twice_as_many_worker_sets_costs_about_twice_as_much() {
    let _alone = MEASURING.lock();
    // Caches fill.
    upgrade(10);
    let (half, all) = (upgrade(200), upgrade(400));
    let growth = all.allocated / half.allocated;
    assert!(growth < 2.2, "{growth} times as many bytes are allocated");
    // Other work of the machine takes part of a processor's speed.
    let growth = all.seconds / half.seconds;
    assert!(growth < 3.0, "it takes {growth} times as long");
    let growth = all.peak / half.peak;
    assert!(growth < 2.2, "it takes {growth} times as much memory");
    let of_each = all.peak / template_bytes(400);
    assert!(of_each < PEAK_OF_EACH, "{of_each} bytes of memory for each byte of the templates");
}

/// The most bytes of memory that an upgrade of many worker sets takes, and those that it is charged before it begins;
/// the bootstrap template of the sets has this spec.
fn peak_and_charge(deployments: usize, patches: usize, spec: &Value, variable: &str) -> (f64, f64) {
    let size = Size { deployments, patches };
    let sides = ["v1.33.1", "v1.34.2"].map(|version| {
        let mut facts = topologies::facts(1, size);
        let mut cluster = topologies::cluster(0, size);
        cluster["spec"]["topology"]["version"] = json!(version);
        if patches > 0 {
            cluster["spec"]["topology"]["variables"] = json!([{"name": "setting0", "value": variable}]);
        }
        let (_, templates) = topologies::class_and_templates(size);
        let mut template = templates.into_iter().find(|one| one["kind"] == "KubeadmConfigTemplate").unwrap();
        template["spec"]["template"]["spec"]["more"] = spec.clone();
        facts.objects_mut().unwrap().put(Arc::new(Object::try_from(template).unwrap()));
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        facts.put_cluster(cluster.metadata.key(), Record::readable(cluster));
        facts
    });
    let world = World::new(Arc::new(sides[1].clone()));
    let Found::Yes(cluster) = world.cluster(&key(0)) else { panic!("it is there") };
    let charged = Blueprint::read(&cluster, &world).unwrap().size().memory();
    let [before, after] = sides.map(|facts| TopologySimulator::new(facts, Options::new(false)));
    PEAK.reset_peak_memory();
    let mut old = before.clone();
    assert_eq!(old.settle(&key(0)).failure, None);
    let mut new = after.clone();
    new.take_over(&key(0), &old);
    assert_eq!(new.roll_out(&key(0)).failure, None);
    (PEAK.get_peak_memory() as f64, charged as f64)
}

#[test]
fn worker_sets_share_what_is_equal_in_their_templates() {
    let _alone = MEASURING.lock();
    let (deployments, text) = (200, json!("x".repeat(50_000)));
    let sum = (deployments * 50_000) as f64;
    // Without sharing it is 5.2 and 7.5 bytes.
    for (patches, most) in [(0, 2.5), (3, 5.0)] {
        let (peak, _) = peak_and_charge(deployments, patches, &text, "x");
        let of_each = peak / sum;
        println!("{patches} patches: {of_each:.2}");
        assert!(of_each < most, "{patches} patches: {of_each:.2} bytes for each byte of the templates");
    }
}

#[test]
fn a_computation_takes_no_more_memory_than_it_is_charged() {
    // DEC-58: both sides of an edit, as a review computes them.
    let _alone = MEASURING.lock();
    let nested = (0..200).fold(json!({}), |below, _| json!({"a": below}));
    let entries: serde_json::Map<_, _> = (0..300).map(|i| (format!("entry-{i}"), json!({"on": true}))).collect();
    let shapes = [
        ("small templates", 300, 0, json!(null), "x".to_owned()),
        ("small templates with patches", 300, 15, json!(null), "x".to_owned()),
        ("a long text", 100, 3, json!("x".repeat(20_000)), "x".to_owned()),
        ("objects in objects", 100, 3, nested, "x".to_owned()),
        ("many small objects", 50, 3, json!(entries), "x".to_owned()),
        ("a large variable", 100, 4, json!(null), "x".repeat(30_000)),
    ];
    for (what, deployments, patches, spec, variable) in shapes {
        let (peak, charged) = peak_and_charge(deployments, patches, &spec, &variable);
        let of_each = peak / charged;
        println!("{what}: {of_each:.2}");
        assert!(of_each < 1.0, "{what}: {of_each:.2} bytes for each that is charged");
    }
}

/// Bytes of memory for each byte of the templates of all sets. These templates are small, so most of it is the objects
/// of the sets.
const PEAK_OF_EACH: f64 = 80.0;
