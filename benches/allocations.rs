//! How often computing a topology allocates, and how that grows; it should grow with the number of objects.
//!
//! A bench of its own, since counting takes the place of the allocator that the program has.
//! `cargo bench --profile dist --bench allocations`.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts are small")]

mod support {
    pub mod budgets;
    pub mod topologies;
}

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::budgets::{Budget, Budgets};
use support::topologies::{Size, facts, key};
use topologist::topology::Options;
use topologist::topology::plan::TopologySimulator;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let mut budgets = Budgets::titled("Allocations of a desired state with its patches");
    for deployments in [1, 10, 50] {
        let (all, _) = allocations(Size { deployments, patches: 15 });
        // The infrastructure cluster, the control plane with its machines, the Cluster, and three objects a deployment.
        let objects = (4 + 3 * deployments) as f64;
        budgets.note(&format!("{deployments} machine deployments: an object"), "times", Budget::None, all / objects);
    }
    for patches in [1, 10, 50] {
        let (all, bytes) = allocations(Size { deployments: 10, patches });
        budgets.note(&format!("10 machine deployments, {patches} patches"), "times", Budget::None, all);
        budgets.note("the same, in bytes", "KB", Budget::None, bytes / 1024.0);
    }
    budgets.finish();
}

/// How many allocations a computation takes once the class is compiled, and of how many bytes.
fn allocations(size: Size) -> (f64, f64) {
    let fold = TopologySimulator::new(facts(1, size), Options::new(false));
    drop(fold.compute(&key(0)).unwrap());
    let region = Region::new(ALLOCATOR);
    let computed = fold.compute(&key(0)).unwrap();
    let change = region.change();
    drop(computed);
    (change.allocations as f64, change.bytes_allocated as f64)
}
