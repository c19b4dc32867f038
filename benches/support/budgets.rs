//! Budgets and what was measured, side by side.
#![allow(dead_code, reason = "each benchmark uses a part of the shared support")]

use std::time::{Duration, Instant};

/// How far beyond its budget a figure may lie before the run fails: machines do other things as well.
pub const TOLERANCE: f64 = 1.25;

/// Collects figures as a table; a line is printed as soon as it is known.
pub struct Budgets {
    missed: Vec<String>,
}

/// What a figure is held against.
#[derive(Clone, Copy)]
pub enum Budget {
    AtMost(f64),
    AtLeast(f64),
    /// The figure is there to compare others with.
    None,
}

impl Budgets {
    /// A table with a title.
    pub fn titled(title: &str) -> Self {
        println!("\n{title}\n");
        println!("{:<72} {:>14} {:>12}", "", "budget", "measured");
        Budgets { missed: Vec::new() }
    }

    /// Notes a figure.
    pub fn note(&mut self, what: &str, unit: &str, budget: Budget, measured: f64) {
        let show = |sign: &str, figure: f64| format!("{sign}{figure:.digits$} {unit}", digits = digits(figure));
        let (shown, is_met) = match budget {
            Budget::AtMost(most) => (show("≤ ", most), measured <= most * TOLERANCE),
            Budget::AtLeast(least) => (show("≥ ", least), measured >= least / TOLERANCE),
            Budget::None => ("–".to_owned(), true),
        };
        let mark = if is_met { "" } else { "  MISSED" };
        let figure = show("", measured);
        println!("{what:<72} {shown:>14} {figure:>12}{mark}");
        if !is_met {
            self.missed.push(format!("{what}: {figure}, budget {shown}"));
        }
    }

    /// Ends the process with code 1 if a budget was missed by more than the tolerance.
    pub fn finish(self) {
        if !self.missed.is_empty() {
            println!("\nMissed by more than a factor of {TOLERANCE}:\n  {}", self.missed.join("\n  "));
            std::process::exit(1);
        }
    }
}

fn digits(figure: f64) -> usize {
    match figure {
        figure if figure < 10.0 => 2,
        figure if figure < 100.0 => 1,
        _ => 0,
    }
}

/// The shortest time that some work took on average, over rounds of about a millisecond: what it costs when nothing
/// else happens. Longer rounds would never be undisturbed on a busy machine.
pub fn shortest(rounds: usize, mut work: impl FnMut()) -> Duration {
    let once = time(1, &mut work).max(Duration::from_nanos(1));
    let times = u32::try_from(Duration::from_millis(1).as_nanos() / once.as_nanos()).unwrap_or(u32::MAX).max(1);
    (0..rounds).map(|_| time(times, &mut work) / times).min().unwrap_or_default()
}

fn time(times: u32, work: &mut impl FnMut()) -> Duration {
    let started = Instant::now();
    (0..times).for_each(|_| work());
    started.elapsed()
}

/// A duration in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A duration in milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
