//! A search for inputs that cost too much: a class, a Cluster of it and a template, by thread time and peak memory.
//!
//! A test of its own, since measuring memory takes the place of the allocator. `docs/testing.md` says how to run it for
//! hours. Two other tests measure memory as well: `growth` and `stored`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_macros, unreachable_pub, reason = "a test")]
#![allow(clippy::cast_precision_loss, reason = "sizes and times are small")]

mod corpus;
mod cost;
mod genes;
mod growth;
mod random;
mod search;
mod stored;
#[path = "../../benches/support/topologies.rs"]
mod topologies;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use cap::Cap;
use mimalloc::MiMalloc;
use peakmem_alloc::PeakMemAlloc;

use corpus::Corpus;
use search::Search;

/// The allocator of the binary, with the most that was in use at a time.
static PEAK: PeakMemAlloc<MiMalloc> = PeakMemAlloc::new(MiMalloc);

/// The same, with a count of all bytes that were allocated.
#[global_allocator]
static ALLOCATOR: Cap<&PeakMemAlloc<MiMalloc>> = Cap::new(&PEAK, usize::MAX);

/// Memory is that of the whole process, so one test runs at a time.
static MEASURING: Mutex<()> = Mutex::new(());

/// Seconds that the search takes, unless `TOPOLOGIST_FUZZ_SECONDS` says otherwise.
const SECONDS: u64 = 20;

/// How many inputs that exceed a bound are made smaller and shown.
const SHOWN: usize = 5;

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable);
    text.map_or(usual, |text| text.parse().unwrap_or_else(|error| panic!("{variable}={text:?}: {error}")))
}

/// The bounds are for a release build on an idle machine. Without optimization, and next to whatever else a test
/// machine does, time means little; memory is the same.
const ALLOWED: (f64, f64) = (if cfg!(debug_assertions) { 40.0 } else { 1.0 }, 1.0);

#[test]
fn nothing_that_is_found_costs_more_than_the_bounds() {
    // DEC-44
    let _alone = MEASURING.lock();
    let (seed, seconds) = (number("TOPOLOGIST_FUZZ_SEED", 44), number("TOPOLOGIST_FUZZ_SECONDS", SECONDS));
    let until = Instant::now() + Duration::from_secs(seconds);
    let corpus = std::env::var_os("TOPOLOGIST_FUZZ_CORPUS").map(Corpus::at);
    let mut search = Search::new(seed);
    search.begin_with(corpus.iter().flat_map(Corpus::read).collect());
    search.run_until(until);
    println!("{}", search.report());
    corpus.iter().for_each(|corpus| corpus.write(&search.worst()));
    let mut excess: Vec<_> = search.worst().into_iter().filter(|found| found.cost.exceeds(ALLOWED)).collect();
    excess.truncate(SHOWN);
    let shown: String = excess.iter().map(|found| found.shrunk().shown()).collect();
    assert!(excess.is_empty(), "{shown}");
}
