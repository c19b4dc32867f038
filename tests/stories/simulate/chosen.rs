//! Clusters that flags choose, and times that the file of `--timings` sets.

use serde_json::{Value, json};

use super::{Story, cluster, small, world};

#[test]
fn only_the_chosen_clusters_are_simulated() {
    let story = Story::new();
    let mut labelled = small("green");
    labelled["metadata"]["labels"] = json!({"env": "prod"});
    story.file("a.yaml", world(&[small("blue"), labelled, small("red")]));
    let chosen = |arguments: &[&str]| {
        let outcome = story.run(&[&["a.yaml", "-o", "json"], arguments].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        let report = outcome.json();
        let names = report["clusters"].as_array().unwrap().iter();
        names.map(|cluster| cluster["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&[]), ["blue", "green", "red"]);
    assert_eq!(chosen(&["--cluster", "default/blue", "--cluster", "default/r*"]), ["blue", "red"]);
    assert_eq!(chosen(&["-l", "env=prod"]), ["green"]);
    for (arguments, want) in [
        (["--cluster", "yellow"], "there is no Cluster default/yellow"),
        (["-l", "env=test"], "no Cluster matches --selector"),
    ] {
        let outcome = story.run(&[&["a.yaml"][..], &arguments].concat());
        assert_eq!(outcome.code, 2, "{}", outcome.out);
        assert!(outcome.err.contains(want), "{}", outcome.err);
    }
}

#[test]
fn times_of_the_file_win_over_those_of_objects() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("demo", 1)]));
    let all = "cluster: 0s\ninfrastructure: 0s\nbootstrap: 0s\nnode: 0s\netcd: 0s\napiServer: 0s\ncontrollers: 0s\n";
    let took = |timings: &str| -> i64 {
        story.file("timings.yaml", timings);
        let report: Value = story.run(&["a.yaml", "--timings", "timings.yaml", "-o", "json"]).json();
        report["summary"]["durationSeconds"].as_i64().unwrap()
    };
    assert_eq!(took(all), 0);
    // Three control plane machines come one after the other, and the worker with the second of them.
    assert_eq!(took(&all.replace("infrastructure: 0s", "infrastructure: 100s")), 300);
    assert_eq!(took(&all.replace("controllers: 0s", "controllers: 10s")), 30);
}
