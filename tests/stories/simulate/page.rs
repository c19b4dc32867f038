//! The page of `--html` says the same as the JSON of the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::elements::{Element, document};
use super::{Story, at, cluster, embedded, small, world, written};

/// What a run with these arguments prints as JSON, and its page.
fn run(story: &Story, arguments: &[&str]) -> (Value, Element) {
    let outcome = story.run(&[arguments, &["-o", "json", "--html", "page.html"]].concat());
    (outcome.json(), document(&page(story)))
}

fn page(story: &Story) -> String {
    fs::read_to_string(story.folder.path().join("page.html")).unwrap()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap()
}

fn seconds(value: &Value) -> i64 {
    value["durationSeconds"].as_i64().unwrap()
}

/// The scale of charts: a tenth more than the last event where a Cluster is stuck.
fn scale(last: i64, is_stuck: bool) -> i64 {
    if is_stuck { last + last / 10 + 1 } else { last }
}

/// Positions are compared to a hundredth of a percent.
fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.01
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a rollout")]
fn percent(t: i64, seconds: i64) -> f64 {
    100.0 * t as f64 / seconds as f64
}

/// The class of a bar, and where it begins and ends.
fn bar(rect: &Element) -> (&str, f64, f64) {
    let percent = |name: &str| rect.attribute(name).unwrap().strip_suffix('%').unwrap().parse::<f64>().unwrap();
    (rect.class(), percent("x"), percent("x") + percent("width"))
}

fn assert_bars(rects: &[&Element], want: &[(String, i64, i64)], seconds: i64, what: &str) {
    let bars: Vec<_> = rects.iter().map(|rect| bar(rect)).collect();
    assert_eq!(bars.len(), want.len(), "{what}: {bars:?}, not {want:?}");
    for ((class, from, until), (want_class, want_from, want_until)) in bars.iter().zip(want) {
        assert_eq!(class, want_class, "{what}");
        let is_right = is_near(*from, percent(*want_from, seconds)) && is_near(*until, percent(*want_until, seconds));
        assert!(is_right, "{what}: from {from} % to {until} %, not from {want_from} to {want_until} of {seconds}");
    }
}

/// The class of each text in the legends.
fn legend(page: &Element) -> BTreeMap<String, Vec<String>> {
    let classes = |key: &Element| key.named("rect").iter().map(|rect| rect.class().to_owned()).collect();
    page.of_class("key").iter().map(|key| (key.text().trim().to_owned(), classes(key))).collect()
}

/// The bars that a machine of the JSON has.
fn want_of_machine(machine: &Value, colors: &BTreeMap<String, Vec<String>>, seconds: i64) -> Vec<(String, i64, i64)> {
    let [made, running, gone] = ["made", "running", "gone"].map(|field| machine[field].as_i64());
    let (from, until) = (made.unwrap_or(0), gone.unwrap_or(seconds));
    let ready = running.unwrap_or(until).min(until);
    let color = &colors[machine["version"].as_str().unwrap()][0];
    let bars = [(format!("{color} starting"), from, ready), (color.clone(), ready, until)];
    bars.into_iter().filter(|(_, from, until)| from < until).collect()
}

/// Compares the charts of a Cluster with its JSON.
fn assert_charts(page: &Element, chart: &Element, cluster: &Value, seconds: i64) {
    let colors = legend(page);
    let mut owner = String::new();
    let mut seen = BTreeSet::new();
    for part in chart.elements() {
        if part.class() == "owner" {
            owner = part.text();
        }
        assert_lanes(part);
        for shown in part.of_class("machine") {
            let title = shown.one("title").text();
            let name = title.split(':').next().unwrap().to_owned();
            let machine = list(cluster, "machines").iter().find(|machine| machine["name"] == *name).unwrap();
            let kind = if machine["controlPlane"] == true { "control plane" } else { "workers" };
            assert_eq!(owner, format!("{kind} {}", machine["owner"].as_str().unwrap()), "{name}");
            assert!(title.starts_with(&format!("{name}: {}", machine["version"].as_str().unwrap())), "{title}");
            assert_eq!(title.contains("existed at the start"), machine["made"].is_null(), "{title}");
            assert_eq!(title.contains("never running"), machine["running"].is_null(), "{title}");
            assert_eq!(title.contains("gone at"), machine["gone"].is_i64(), "{title}");
            assert_bars(&shown.named("rect"), &want_of_machine(machine, &colors, seconds), seconds, &name);
            assert!(seen.insert(name), "{title} is there once");
        }
    }
    assert_eq!(seen.len(), list(cluster, "machines").len());
    assert_waits(chart, cluster, seconds);
}

/// No bars of one line hide each other.
fn assert_lanes(part: &Element) {
    let mut lanes: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for rect in part.named("rect") {
        let (_, from, until) = bar(rect);
        lanes.entry(rect.attribute("y").unwrap()).or_default().push((from, until));
    }
    for bars in lanes.values_mut() {
        bars.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(bars.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 0.01), "{bars:?}");
    }
}

/// Objects that waited together, as the JSON has them: kind, reason, from and until, with their names.
fn waits(cluster: &Value) -> BTreeMap<(String, String, i64, Option<i64>), Vec<String>> {
    let text = |held: &Value, field: &str| held[field].as_str().unwrap().to_owned();
    let mut waits: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for held in list(cluster, "held").iter().filter(|held| held["from"] != held["until"]) {
        let key = (text(held, "kind"), text(held, "reason"), held["from"].as_i64().unwrap(), held["until"].as_i64());
        waits.entry(key).or_default().push(text(held, "name"));
    }
    waits
}

fn assert_waits(chart: &Element, cluster: &Value, seconds: i64) {
    let (shown, waits) = (chart.of_class("held"), waits(cluster));
    assert_eq!(shown.len(), waits.len());
    for ((kind, reason, from, until), names) in &waits {
        let few = match names.split_at(names.len().min(3)) {
            (few, []) => few.join(", "),
            (few, more) => format!("{} and {} more", few.join(", "), more.len()),
        };
        let label = format!("{kind} {few}: {reason}");
        let one = shown.iter().find(|one| one.one("span").text() == label && is_of(one, *from, seconds));
        let one = one.unwrap_or_else(|| {
            panic!("{label:?} is not in {:?}", shown.iter().map(|it| it.text()).collect::<Vec<_>>())
        });
        let title = one.one("title").text();
        assert!(title.starts_with(&format!("{kind} {}, ", names.join(", "))), "{title}");
        assert!(title.ends_with(&format!(": {reason}")), "{title}");
        assert_eq!(title.contains(" to the end: "), until.is_none(), "{title}");
        assert_bars(&one.named("rect"), &[("wait".to_owned(), *from, until.unwrap_or(seconds))], seconds, &label);
    }
}

fn is_of(held: &Element, from: i64, seconds: i64) -> bool {
    is_near(bar(held.one("rect")).1, percent(from, seconds))
}

/// From when on there are how many machines of these Clusters.
fn counts<'a>(clusters: impl IntoIterator<Item = &'a Value>) -> Vec<(i64, i64)> {
    let mut changes: BTreeMap<i64, i64> = [(0, 0)].into();
    for machine in clusters.into_iter().flat_map(|cluster| list(cluster, "machines")) {
        *changes.entry(machine["made"].as_i64().unwrap_or(0)).or_default() += 1;
        machine["gone"].as_i64().into_iter().for_each(|gone| *changes.entry(gone).or_default() -= 1);
    }
    let mut count = 0;
    let sum = |(t, change)| {
        count += change;
        (t, count)
    };
    changes.into_iter().map(sum).collect()
}

/// The corners of a line: `M0,6H250V42H1000`.
fn corners(path: &str) -> Vec<(f64, f64)> {
    let path = path.strip_prefix('M').and_then(|path| path.strip_suffix("H1000")).unwrap();
    let corner = |text: &str| {
        let (x, y) = text.split_once([',', 'V']).unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    path.split('H').map(corner).collect()
}

/// Compares the line of a chart of 1000 by 100 with counts.
#[expect(clippy::cast_precision_loss, reason = "machines of a rollout")]
fn assert_count(chart: &Element, counts: &[(i64, i64)], peak: i64, seconds: i64) {
    let line = chart.of_class("line")[0].attribute("d").unwrap();
    let corners = corners(line);
    assert_eq!(corners.len(), counts.len(), "{line}: {counts:?}");
    for ((x, y), (t, count)) in corners.into_iter().zip(counts) {
        assert!(is_near(x / 10.0, percent(*t, seconds)), "{x} is not at {t} of {seconds}");
        let machines = (98.0 - y) / 92.0 * peak as f64;
        assert!((machines - *count as f64).abs() < 0.1, "{machines} machines at {t}, not {count}");
    }
    assert_eq!(chart.of_class("area")[0].attribute("d").unwrap(), format!("{line}V100H0Z"));
    assert_eq!(chart.of_class("peak")[0].text(), peak.to_string());
    assert_eq!(chart.one("title").text(), most(peak));
}

fn most(peak: i64) -> String {
    let machines = if peak == 1 { "machine" } else { "machines" };
    format!("at most {peak} {machines} at once")
}

/// Compares all of a page with the JSON of its run.
fn assert_page(page: &Element, report: &Value) {
    let summary = &report["summary"];
    let (peak, stuck) = (summary["peakMachines"].as_i64().unwrap(), summary["stuck"].as_i64().unwrap());
    let of_fleet = scale(seconds(summary), stuck > 0);
    let charts = page.of_class("count");
    assert_count(charts[0], &counts(list(report, "clusters")), peak, of_fleet);
    let totals = page.one("p").text();
    assert!(totals.starts_with(&most(peak)), "{totals}");
    assert_eq!(totals.contains(&format!(", {stuck} stuck")), stuck > 0, "{totals}");
    let origin = page.of_class("origin")[0].text();
    assert!(origin.starts_with("ClusterClass ") && origin.contains("; durations "), "{origin}");
    let (groups, shown) = (list(report, "groups"), page.named("details"));
    assert_eq!(shown.len(), groups.len());
    for (group, shown) in groups.iter().zip(shown) {
        assert_group(page, shown, group, report, of_fleet);
    }
    assert_legend(page);
}

fn assert_group(page: &Element, shown: &Element, group: &Value, report: &Value, of_fleet: i64) {
    let names: Vec<&str> = list(group, "clusters").iter().map(|name| name.as_str().unwrap()).collect();
    let is_first = |cluster: &&Value| {
        format!("{}/{}", cluster["namespace"].as_str().unwrap(), cluster["name"].as_str().unwrap()) == names[0]
    };
    let first = list(report, "clusters").iter().find(is_first).unwrap();
    assert_eq!(shown.attribute("data-names"), Some(&*names.join(" ")));
    assert!(names.len() == 1 || shown.of_class("names")[0].text() == names.join(", "));
    assert_eq!(shown.attribute("open").is_some(), list(report, "groups").len() == 1);
    let (is_stuck, last) = (group["outcome"] == "stuck", seconds(group));
    assert_eq!(shown.of_class("failed").len(), usize::from(is_stuck));
    assert_state(shown.of_class("fleet")[0], last, is_stuck, first, of_fleet);
    let own = if last == 0 { of_fleet } else { scale(last, is_stuck) };
    assert_charts(page, shown.of_class("gantt")[0], first, own);
    let count = shown.of_class("count");
    assert_eq!(count.len(), usize::from(list(report, "clusters").len() > 1), "one chart of the same is enough");
    for chart in count {
        assert_count(chart, &counts([first]), first["peakMachines"].as_i64().unwrap(), own);
    }
}

/// The state in the list is on the scale of the fleet, and no wait hides it.
fn assert_state(shown: &Element, last: i64, is_stuck: bool, cluster: &Value, of_fleet: i64) {
    let (waits, states): (Vec<_>, Vec<_>) = shown.named("rect").into_iter().partition(|rect| rect.class() == "wait");
    let state = if is_stuck { ("stuck".to_owned(), 0, of_fleet) } else { ("done".to_owned(), 0, last) };
    assert_bars(&states, &[state], of_fleet, "state");
    let edge = |rect: &Element, name: &str| rect.attribute(name).unwrap().parse::<u32>().unwrap();
    let end = edge(states[0], "y") + edge(states[0], "height");
    assert!(waits.iter().all(|wait| edge(wait, "y") >= end), "a wait is over the state");
    let waited = |t: i64| {
        list(cluster, "held")
            .iter()
            .any(|held| held["from"].as_i64() <= Some(t) && held["until"].as_i64().is_none_or(|until| t < until))
    };
    for t in 0..of_fleet {
        let middle = percent(2 * t + 1, 2 * of_fleet);
        let is_shown = waits.iter().map(|wait| bar(wait)).any(|(_, from, until)| from < middle && middle < until);
        assert_eq!(is_shown, waited(t), "waits at {t}");
    }
}

/// Each color of the legends is one of bars, and each color of bars is in the legends.
fn assert_legend(page: &Element) {
    let classes = |elements: Vec<&Element>| -> BTreeSet<String> {
        elements.iter().flat_map(|one| one.named("rect")).map(|rect| rect.class().to_owned()).collect()
    };
    let known = classes(page.of_class("key"));
    let shown = classes(page.named("details"));
    // The color of a version has its name, even if no machine at it ever runs.
    let versions = shown.iter().filter_map(|class| Some(class.strip_suffix(" starting")?.to_owned()));
    assert_eq!(known, versions.chain(shown.iter().cloned()).collect());
    // A class has one color wherever it is, in light and dark.
    let style = page.one("style").text();
    let words: BTreeSet<String> =
        known.iter().flat_map(|class| class.split(' ')).map(|word| format!(".{word}")).collect();
    for rule in style.split('}').filter(|rule| rule.contains("fill:") || rule.contains("opacity:")) {
        let selectors = rule.split('{').next().unwrap();
        let of_bars = selectors
            .split(',')
            .map(str::trim)
            .filter(|one| words.iter().any(|word| one.split([' ', ':', '>']).any(|part| part == word)));
        of_bars.for_each(|selector| assert!(words.contains(selector), "{selector} has another color than its class"));
    }
    for word in words.iter().filter(|word| *word != ".starting") {
        let name = &word[1..];
        assert!(style.contains(&format!("{word} {{ fill: var(--{name}); }}")), "{word} has no color");
        assert_eq!(style.matches(&format!("--{name}: #")).count(), 2, "{word} has a color in light and one in dark");
    }
}

/// A Cluster whose machines no health check replaces.
fn unchecked(mut cluster: Value) -> Value {
    let off = json!({"enabled": false});
    cluster["spec"]["topology"]["controlPlane"]["healthCheck"] = off.clone();
    for set in cluster["spec"]["topology"]["workers"]["machineDeployments"].as_array_mut().unwrap() {
        set["healthCheck"] = off.clone();
    }
    cluster
}

fn upgrade(story: &Story, clusters: &[Value]) {
    story.file("a.yaml", world(clusters));
    let after: Vec<Value> = clusters.iter().map(|cluster| at(cluster.clone(), "v1.34.0")).collect();
    story.file("b.yaml", world(&after));
}

#[test]
fn bars_and_lines_are_those_of_json() {
    let story = Story::new();
    upgrade(&story, &[cluster("blue", 2)]);
    let (report, page) = run(&story, &["a.yaml", "--to", "b.yaml"]);
    assert_page(&page, &report);
    assert!(!page.of_class("held").is_empty());
    assert_eq!(page.of_class("count").len(), 1, "the only Cluster is the fleet");
    assert_eq!(
        page.one("h1").text(),
        format!("1 Cluster in {}m{:02}s", seconds(&report["summary"]) / 60, seconds(&report["summary"]) % 60)
    );
    let versions = legend(&page);
    assert_eq!((&*versions["v1.33.0"], &*versions["v1.34.0"]), (&["v0".to_owned()][..], &["v1".to_owned()][..]));
    assert_eq!(versions["not running yet"], ["v1 starting"], "machines at the old version run from the start");
}

#[test]
fn a_page_of_a_new_cluster_has_no_color_of_what_does_not_happen() {
    let story = Story::new();
    story.file("a.yaml", world(&[small("blue")]));
    let (report, page) = run(&story, &["a.yaml"]);
    assert_page(&page, &report);
    assert!(!legend(&page).contains_key("stuck"));
    let (report, page) = run(&story, &["a.yaml", "--to", "a.yaml"]);
    assert_eq!(report["clusters"][0]["events"], json!([]));
    assert_eq!(page.one("h1").text(), "1 Cluster: nothing is left to do");
    assert!(!legend(&page).contains_key("not running yet"));
}

#[test]
fn the_reason_of_a_wait_is_never_cut() {
    let story = Story::new();
    let mut blue = cluster("blue", 1);
    let set = |i: i64| {
        json!({"class": "default-worker", "name": format!("workers-of-the-rack-in-the-cellar-{i}"),
            "replicas": 1})
    };
    blue["spec"]["topology"]["workers"] = json!({"machineDeployments": (0..5).map(set).collect::<Vec<_>>()});
    upgrade(&story, &[blue, small("green")]);
    let (report, page) = run(&story, &["a.yaml", "--to", "b.yaml"]);
    assert_page(&page, &report);
    let waits = waits(&report["clusters"][0]);
    let long = waits.keys().filter(|(_, reason, ..)| reason.chars().count() > 56).count();
    assert!(long > 0, "{waits:?}");
    assert!(waits.values().any(|names| names.len() == 5), "names are shortened: {waits:?}");
}

#[test]
fn a_stuck_cluster_is_red_although_something_waits() {
    let story = Story::new();
    let clusters = ["blue", "green", "red"].map(|name| unchecked(small(name)));
    upgrade(&story, &clusters);
    // The machine that the upgrade of the control plane makes.
    story.file("timings.yaml", "failures: [{cluster: red, machine: 3, what: bootstrap}]\n");
    let (report, page) = run(&story, &["a.yaml", "--to", "b.yaml", "--timings", "timings.yaml", "--limit", "1h"]);
    assert_page(&page, &report);
    assert_eq!(report["groups"][0]["clusters"], json!(["default/red"]));
    let red = page.named("details")[0];
    assert_eq!(red.of_class("stuck").len(), 1);
    let open = waits(&report["clusters"][2]).into_keys().any(|(.., until)| until.is_none());
    assert!(open && !red.of_class("wait").is_empty(), "workers wait until the end");
    assert_eq!(red.of_class("bad")[1].text(), report["clusters"][2]["reason"].as_str().unwrap());
}

#[test]
fn the_page_of_a_fleet_has_its_groups_closed_and_its_stuck_ones_first() {
    let story = Story::new();
    let shape = |i: usize| {
        let mut one = small(&format!("fleet-{i:03}"));
        if i >= 150 {
            one["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] = json!(2);
        }
        unchecked(one)
    };
    story.file("a.yaml", world(&(0..200).map(shape).collect::<Vec<_>>()));
    let failures = (195..200).map(|i| format!("- {{cluster: fleet-{i}, machine: 2, what: infrastructure}}\n"));
    story.file("timings.yaml", format!("failures:\n{}", failures.collect::<String>()));
    let (report, page) = run(&story, &["a.yaml", "--timings", "timings.yaml", "--limit", "1h"]);
    assert_page(&page, &report);
    let sizes: Vec<usize> = list(&report, "groups").iter().map(|group| list(group, "clusters").len()).collect();
    assert_eq!(sizes, [5, 150, 45]);
    let order: Vec<&str> =
        page.all().into_iter().map(|one| &*one.name).filter(|name| ["h1", "h2", "details"].contains(name)).collect();
    assert_eq!(order, ["h1", "h2", "h2", "details", "details", "details"]);
    let stuck: Vec<usize> = page.named("details").iter().map(|group| group.of_class("stuck").len()).collect();
    assert_eq!(stuck, [1, 0, 0]);
    assert_eq!(page.of_class("facts").iter().filter(|facts| facts.text().starts_with("stuck after ")).count(), 1);
    let bytes = fs::metadata(story.folder.path().join("page.html")).unwrap().len();
    assert!(bytes < 100_000, "{bytes} bytes");
}

#[test]
fn a_page_needs_no_other_file_and_fits_a_phone() {
    let story = Story::new();
    story.file("a.yaml", world(&[small("blue"), small("green")]));
    let (_, root) = run(&story, &["a.yaml"]);
    let page = page(&story);
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("url("), "{page}");
    let groups = root.named("details");
    assert!(groups.len() == 1 && groups[0].attribute("open").is_some(), "a single group is open");
    assert!(root.all().iter().any(|one| one.attribute("id") == Some("search")));
}

#[test]
fn a_page_escapes_what_manifests_say() {
    let story = Story::new();
    let message = "<script>alert(\"1\")</script> & '2'";
    let mut class = embedded("class.yaml");
    for template in class.iter_mut().filter(|one| one["kind"] == "EmbeddedMachineTemplate") {
        template["spec"]["template"]["spec"]["backend"]["inMemory"]["failure"] = json!({"message": message});
    }
    story.file("a.yaml", written(&[class, vec![unchecked(small("blue"))]].concat()));
    let (report, page) = run(&story, &["a.yaml", "--limit", "1h"]);
    let reason = report["clusters"][0]["reason"].as_str().unwrap();
    assert!(reason.contains(message), "{reason}");
    assert_page(&page, &report);
    assert!(page.of_class("bad").iter().any(|one| one.text() == reason));
    assert_eq!(page.named("script").len(), 1);
}
