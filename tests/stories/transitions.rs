//! The diagrams of docs/machines.md have the transitions of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use topologist::lifecycle::{CLUSTER_TRANSITIONS, TRANSITIONS};

/// From, to, and when.
type Arrow = (String, String, String);

/// The arrows of the state diagram below a heading; `[*]` is the empty state.
fn drawn(heading: &str) -> BTreeSet<Arrow> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/machines.md")).unwrap();
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let (_, rest) = rest.split_once("```mermaid\nstateDiagram-v2\n").unwrap();
    let diagram = rest.split("```").next().unwrap();
    let state = |name: &str| name.trim().replace("[*]", "");
    let arrow = |line: &str| {
        let (from, rest) = line.split_once(" --> ").unwrap_or_else(|| panic!("no arrow: {line}"));
        let (to, when) = rest.split_once(": ").unwrap_or((rest, ""));
        (state(from), state(to), when.trim().to_owned())
    };
    let arrows: Vec<Arrow> = diagram.lines().map(arrow).collect();
    let all: BTreeSet<Arrow> = arrows.iter().cloned().collect();
    assert_eq!(all.len(), arrows.len(), "{heading}: an arrow is there twice");
    all
}

#[test]
fn the_phases_of_a_machine_are_drawn_as_they_follow() {
    // DEC-6, MA-3.2
    let mut want: BTreeSet<Arrow> =
        TRANSITIONS.iter().map(|(from, to, when)| (from.to_string(), to.to_string(), (*when).to_owned())).collect();
    assert_eq!(want.len(), TRANSITIONS.len());
    // A new Machine, and one that is gone.
    for (from, to) in [("", "Pending"), ("Deleted", "")] {
        want.insert((from.to_owned(), to.to_owned(), String::new()));
    }
    assert_eq!(drawn("Phases of a Machine"), want);
}

#[test]
fn the_phases_of_a_cluster_are_drawn_as_they_follow() {
    // DEC-6, MA-27.8
    let want: BTreeSet<Arrow> = CLUSTER_TRANSITIONS
        .iter()
        .map(|(from, to, when)| ((*from).to_owned(), (*to).to_owned(), (*when).to_owned()))
        .collect();
    assert_eq!(want.len(), CLUSTER_TRANSITIONS.len());
    assert_eq!(drawn("Phases of a Cluster"), want);
}
