//! Inputs are changed, measured, and kept while they cost more than those that are kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use serde_json::Value;

use crate::cost::{self, Cost};
use crate::genes::{self, Input};
use crate::random::Random;

/// How many inputs are kept, and how many of them are of one gene.
const KEPT: usize = 64;
const OF_A_GENE: usize = 4;

/// From which share of its bound on a time is measured again, and how often.
const WORTH_A_SECOND_LOOK: f64 = 0.5;
const AGAIN: usize = 2;

/// An input that was measured.
#[derive(Clone)]
pub struct Found {
    pub input: Input,
    pub cost: Cost,
}

impl Found {
    fn score(&self) -> f64 {
        self.cost.cpu.max(self.cost.memory)
    }

    /// The input without what does not matter: it still costs most of what it did.
    pub fn shrunk(&self) -> Found {
        let (mut found, wanted) = (self.clone(), self.score() * 0.7);
        let end = Instant::now() + std::time::Duration::from_secs(20);
        let mut attempts = genes::Smaller::default();
        while let Some(input) = attempts.next(&found.input) {
            if Instant::now() > end {
                break;
            }
            let smaller = Found { cost: cost::of(&input), input };
            if smaller.score() >= wanted {
                attempts.worked();
                found = smaller;
            }
        }
        found
    }

    pub fn shown(&self) -> String {
        let cut = |text: String| match text.char_indices().nth(1500) {
            Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
            None => text,
        };
        let Input { class, cluster, template, .. } = &self.input;
        format!(
            "\n{}: {:.1} × the time ({}), {:.1} × the memory\n class {}\n cluster {}\n template {}\n",
            self.input.gene,
            self.cost.cpu,
            self.cost.slowest,
            self.cost.memory,
            cut(class["spec"]["variables"].to_string() + &class["spec"]["patches"].to_string()),
            cut(cluster["spec"]["topology"]["variables"].to_string()),
            cut(template.clone())
        )
    }
}

pub struct Search {
    random: Random,
    tried: usize,
    kept: Vec<Found>,
}

impl Search {
    pub fn new(seed: u64) -> Self {
        Search { random: Random::new(seed), tried: 0, kept: Vec::new() }
    }

    /// Measures inputs that an earlier search has kept.
    pub fn begin_with(&mut self, inputs: Vec<Input>) {
        for input in inputs {
            self.measure(input);
        }
    }

    /// One of each gene first, then changes of those that cost the most.
    pub fn run_until(&mut self, end: Instant) {
        let mut fresh: Vec<&str> = genes::NAMES.to_vec();
        while Instant::now() < end {
            let input = match fresh.pop() {
                Some(gene) => Input::of(gene, &mut self.random),
                None if self.kept.is_empty() || self.random.is_one_in(4) => {
                    let gene = self.random.pick(genes::NAMES);
                    Input::of(gene, &mut self.random)
                }
                None => {
                    let at = self.random.below(self.kept.len()).min(self.random.below(self.kept.len()));
                    let other = self.random.below(self.kept.len());
                    let (one, other) = (self.kept[at].input.clone(), self.kept[other].input.clone());
                    one.mutated(&other, &mut self.random)
                }
            };
            if input.size() > genes::MOST_BYTES {
                continue;
            }
            self.measure(input);
        }
    }

    fn measure(&mut self, input: Input) {
        self.tried += 1;
        let mut cost = cost::of(&input);
        // What else the machine does may only add to the time, so the least is the closest to the truth.
        for _ in 0..AGAIN {
            if cost.cpu > WORTH_A_SECOND_LOOK {
                let again = cost::of(&input);
                cost = if again.cpu < cost.cpu { again } else { cost };
            }
        }
        self.keep(Found { input, cost });
    }

    fn keep(&mut self, found: Found) {
        let at = self.kept.partition_point(|kept| kept.score() >= found.score());
        self.kept.insert(at, found);
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        let mut kept = 0;
        self.kept.retain(|found| {
            let of_gene = count.entry(found.input.gene).or_default();
            *of_gene += 1;
            kept += 1;
            *of_gene <= OF_A_GENE && kept <= KEPT
        });
    }

    /// The worst input of each gene, the worst first.
    pub fn worst(&self) -> Vec<Found> {
        let mut seen: Vec<Found> = Vec::new();
        for found in &self.kept {
            if !seen.iter().any(|known| known.input.gene == found.input.gene) {
                seen.push(found.clone());
            }
        }
        seen
    }

    pub fn report(&self) -> String {
        let mut report = format!("{} inputs; the worst of each kind, as multiples of the bounds:\n", self.tried);
        for found in self.worst() {
            let (gene, Cost { cpu, memory, allocated, slowest }) = (found.input.gene, found.cost);
            let size = found.input.size();
            let _ = writeln!(
                report,
                "  {gene:22} time {cpu:5.2} ({slowest:21})  memory {memory:5.2}  allocated {allocated:6.0} B/B  \
                 {size:7} bytes"
            );
        }
        report
    }
}

/// Every list, map and text of a value, by its pointer.
pub fn places(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| self::places(item, format!("{at}/{i}"), places));
        }
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            self::places(member, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), places);
        }),
        _ => {}
    }
    places.push(at);
}
