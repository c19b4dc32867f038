//! The diagrams of docs/machines.md have the transitions of the program, and those of docs/provider.md its steps.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use topologist::lifecycle::{CLUSTER_FLOW, CLUSTER_TRANSITIONS, Flow, MACHINE_FLOW, TRANSITIONS};

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

/// A flow as Mermaid draws it.
fn picture(flow: &Flow) -> String {
    let mut lines = vec!["flowchart TD".to_owned(), format!("    begin([\"{}\"]) --> q1", flow.begins)];
    for (number, question) in (1..).zip(flow.questions) {
        let (ends, goes_on) = (question.ends_at.name(), question.ends_at.other().name());
        let next = if number == flow.questions.len() { "done".to_owned() } else { format!("q{}", number + 1) };
        lines.push(format!("    q{number}{{\"{}\"}} -- {ends} --> s{number}[\"{}\"]", question.asks, question.then));
        lines.push(format!("    q{number} -- {goes_on} --> {next}"));
    }
    lines.push(format!("    done[\"{}\"]", flow.ends));
    format!("```mermaid\n{}\n```\n", lines.join("\n"))
}

#[test]
fn the_flows_of_providers_are_drawn_as_the_steps_go() {
    // CT-18.1, CT-18.2, CT-18.3, CT-18.4; a unit test compares the flows with the steps
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/provider.md")).unwrap();
    for flow in [CLUSTER_FLOW, MACHINE_FLOW] {
        let picture = picture(&flow);
        assert!(text.contains(&picture), "docs/provider.md needs this picture:\n{picture}");
    }
}
