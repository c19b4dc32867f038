//! Alerts and documents speak of metrics that the program has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use topologist::telemetry::metrics::{
    Action, Controller, Conversion, Kind, Metrics, Outcome, Phase, Queue, Read, Reason, Reconcile, Requested, Requests,
    Review, Rule,
};

use crate::harness::kustomize::render;

/// Metrics of kube-apiserver; a story on a real one sees that it has them.
const OF_THE_API_SERVER: &str = "apiserver_admission_webhook_rejection_count";

/// What Prometheus puts on everything that it takes from a pod.
const OF_THE_POD: [&str; 2] = ["namespace", "pod"];

const FUNCTIONS: [&str; 8] = ["absent", "histogram_quantile", "increase", "max", "min", "rate", "sum", "time"];
const OPERATORS: [&str; 2] = ["and", "by"];

/// Everything that the program can report: the labels of each metric, by the names of its samples and its own.
fn reported() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = Metrics::default();
    // A family without a member is not in the text.
    let review = Review { kind: "Cluster", operation: "CREATE", outcome: "allowed" };
    let (kind, outcome, reason) =
        (Kind { kind: "Cluster" }, Outcome { outcome: "success" }, Reason { reason: "broken" });
    drop(metrics.admission_requests.get_or_create(&review));
    drop(metrics.would_be_denials.get_or_create(&review));
    drop(metrics.conversions.get_or_create(&Conversion { kind: "Cluster", outcome: "success" }));
    drop(metrics.rule_rejections.get_or_create(&Rule { rule: "CL-V-001" }));
    drop(metrics.announced_machines.get_or_create(&Action { action: "replaced" }));
    drop(metrics.impacts.get_or_create(&outcome));
    drop(metrics.held_edits.get_or_create(&kind));
    drop(metrics.refused_requests.get_or_create(&reason));
    drop(metrics.handshake_failures.get_or_create(&reason));
    drop(metrics.closed_early.get_or_create(&reason));
    drop(metrics.cache_objects.get_or_create(&kind));
    drop(metrics.watched_kinds.get_or_create(&kind));
    drop(metrics.cache_age.get_or_create(&kind));
    drop(metrics.unreadable_objects.get_or_create(&kind));
    drop(metrics.cache_unreadable_objects.get_or_create(&kind));
    drop(metrics.watch_errors.get_or_create(&kind));
    drop(metrics.missing_registrations.get_or_create(&kind));
    drop(metrics.tls_reloads.get_or_create(&outcome));
    drop(metrics.lease_transitions.get_or_create(&outcome));
    drop(metrics.reconciles.get_or_create(&Reconcile { controller: "clusterclass", outcome: "failed" }));
    drop(metrics.reconcile_duration.get_or_create(&Controller { controller: "clusterclass" }));
    drop(metrics.reconciles_due.get_or_create(&Controller { controller: "clusterclass" }));
    drop(metrics.watch_version.get_or_create(&kind));
    drop(metrics.waiting.get_or_create(&Queue { queue: "reviews" }));
    drop(metrics.shed_requests.get_or_create(&reason));
    drop(metrics.live_reads.get_or_create(&Read { what: "nodes", outcome: "found" }));
    drop(metrics.ssa_cache_hits.get_or_create(&Controller { controller: "topology" }));
    drop(metrics.ssa_cache_misses.get_or_create(&Controller { controller: "topology" }));
    drop(metrics.extension_requests.get_or_create(&Requests { hook: "Discovery", outcome: "answered" }));
    drop(metrics.extension_duration.get_or_create(&Requested { hook: "Discovery" }));
    drop(metrics.machines.get_or_create(&Phase { phase: "Running" }));
    drop(metrics.certificate_actions.get_or_create(&Action { action: "publish" }));
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics.render().lines() {
        if let Some(name) = line.strip_prefix("# TYPE ").and_then(|line| line.split(' ').next()) {
            all.entry(name.to_owned()).or_default();
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_once(['{', ' ']).unwrap();
            let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
            let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            all.entry(name.to_owned()).or_default().extend(labels.collect::<BTreeSet<_>>());
        }
    }
    all
}

/// What an expression names.
#[derive(Debug, Default)]
struct Names {
    metrics: BTreeSet<String>,
    /// Label, operator and value of each matcher.
    matchers: Vec<(String, String)>,
    groups: BTreeSet<String>,
}

/// Reads an expression, as far as it takes to know what it names.
fn names(expression: &str) -> Names {
    let (mut names, mut open, mut rest) = (Names::default(), Vec::new(), expression);
    let mut last = String::new();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => rest[1..].find('"').expect("strings end") + 2,
            c if c.is_ascii_alphabetic() || c == '_' => {
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            c if c.is_ascii_digit() => {
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        match first {
            '(' | '[' | '{' => open.push((first, last.clone())),
            ')' | ']' | '}' => {
                let (begin, _) = open.pop().expect("brackets match");
                assert!(matches!((begin, first), ('(', ')') | ('[', ']') | ('{', '}')), "{expression}");
            }
            '"' => {
                let matcher = names.matchers.last_mut().expect("a string is the value of a label");
                matcher.1 = word.trim_matches('"').to_owned();
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let before_bracket = rest.trim_start().starts_with('(');
                match open.last() {
                    Some(('{', _)) => names.matchers.push((word.to_owned(), String::new())),
                    Some(('(', of)) if of == "by" => drop(names.groups.insert(word.to_owned())),
                    _ if OPERATORS.contains(&word) => {}
                    _ if FUNCTIONS.contains(&word) => {
                        assert!(before_bracket || rest.starts_with(" by"), "{word} is called: {expression}");
                    }
                    _ => {
                        assert!(!before_bracket, "{word} is not a function: {expression}");
                        names.metrics.insert(word.to_owned());
                    }
                }
            }
            _ => {}
        }
        if !first.is_whitespace() {
            word.clone_into(&mut last);
        }
    }
    assert!(open.is_empty(), "brackets are closed: {expression}");
    names
}

/// The alerts of `manifests/monitoring`.
fn alerts() -> Vec<Value> {
    let rules = render("monitoring").into_iter().filter(|object| object["kind"] == "PrometheusRule");
    let groups = rules.flat_map(|object| object["spec"]["groups"].as_array().unwrap().clone());
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn alerts_are_about_metrics_of_the_program() {
    let reported = reported();
    // Labels come from fixed sets, which stand in the source.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/src");
    let folders = ["webhook", "reconciler"].map(|folder| fs::read_dir(sources.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let source: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    for alert in alerts() {
        let (name, names) = (&alert["alert"], names(alert["expr"].as_str().unwrap()));
        assert!(!names.metrics.is_empty(), "{name}");
        if names.metrics.contains(OF_THE_API_SERVER) {
            continue;
        }
        let mut labels: BTreeSet<&str> = OF_THE_POD.into();
        for metric in &names.metrics {
            let known = reported.get(metric).unwrap_or_else(|| panic!("{name}: the program has no {metric}"));
            labels.extend(known.iter().map(String::as_str));
        }
        for (label, values) in &names.matchers {
            assert!(labels.contains(&**label), "{name}: no label {label}");
            for value in values.split('|') {
                assert!(source.contains(&format!("\"{value}\"")), "{name}: {label} is never {value:?}");
            }
        }
        assert!(names.groups.iter().all(|label| labels.contains(&**label)), "{name}: {names:?}");
    }
}

#[test]
fn a_wrong_alert_expression_fails_the_check() {
    let found = names("histogram_quantile(0.9, sum by (le) (rate(some_bucket{a=~\"b|c\"}[5m]))) > 2 * 60");
    assert_eq!(found.metrics, BTreeSet::from(["some_bucket".to_owned()]));
    assert_eq!(found.matchers, [("a".to_owned(), "b|c".to_owned())]);
    assert_eq!(found.groups, BTreeSet::from(["le".to_owned()]));
    for wrong in ["sum(rate(x[5m])", "summ(x)", "x{a=\"b\"", "sum(x]", "increase > 1"] {
        assert!(std::panic::catch_unwind(|| names(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn alerts_say_how_bad_it_is_and_have_a_row_in_the_operations_document() {
    let operations = read("docs/operations.md");
    let mut known = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(known.insert(name.to_owned()), "{name} is there twice");
        assert!(operations.contains(&format!("| `{name}` |")), "{name} has no row");
        assert!(["critical", "warning"].map(Value::from).contains(&alert["labels"]["severity"]), "{name}");
        assert!(alert["annotations"]["summary"].is_string(), "{name}");
    }
    for row in operations.lines().filter_map(|line| line.strip_prefix("| `Topologist")) {
        let name = format!("Topologist{}", row.split('`').next().unwrap());
        assert!(known.contains(&name), "there is no alert {name}");
    }
}

#[test]
fn documents_name_metrics_of_the_program() {
    let reported = reported();
    for file in ["docs/metrics.md", "docs/operations.md"] {
        let text = read(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: BTreeSet<_> = words.filter(|word| word.starts_with("topologist_")).collect();
        let unknown: Vec<_> = named.iter().filter(|name| !reported.contains_key(**name)).collect();
        assert!(!named.is_empty() && unknown.is_empty(), "{file}: the program has no {unknown:?}");
    }
}

#[test]
fn every_metric_of_the_program_is_explained() {
    let text = read("docs/metrics.md");
    for name in reported().keys().filter(|name| !name.ends_with("_bucket") && !name.ends_with("_sum")) {
        let name = name.trim_end_matches("_count");
        assert!(text.contains(name), "{name} is not explained");
    }
}

#[test]
fn the_controllers_and_outcomes_of_machines_are_explained() {
    let text = read("docs/metrics.md");
    let source = read("crates/server/src/reconciler/lifecycle.rs");
    let (_, names) = source.split_once("fn controller_name(").unwrap();
    let names = names.split("\n}\n").next().unwrap().lines().filter_map(|line| line.split_once("=> \""));
    let names: BTreeSet<&str> = names.map(|(_, rest)| rest.split('"').next().unwrap()).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    for word in names.into_iter().chain(["waiting", "conflict", "not-leading"]) {
        assert!(source.contains(&format!("\"{word}\"")), "no run is ever {word:?}");
        assert!(text.contains(&format!("`{word}`")), "{word} is not explained");
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}
