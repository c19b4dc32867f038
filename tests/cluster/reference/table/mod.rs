//! `make reference`: each edit of the table beside Cluster API's managers, once with topologist and once with Cluster
//! API alone.
//!
//! Both must end with the same changes to the same sets, and with the same objects. The table also says what `plan
//! --live`, the warning of `kubectl apply` and `simulate --live` said before each edit, and whether it was right: how
//! many Machines of each set come and go, and for the simulation also which go and in which order. Times are not
//! compared.

mod edits;
mod forecasts;
mod remains;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use self::edits::{Act, EDITS, Edit, End, Step};
use self::forecasts::{Changes, Deletions, Forecast, deleted, happened, of_plan, of_simulation, of_warning, text};
use self::remains::{Remains, differences, remains};
use super::site::Site;
use super::stack::Stack;

/// How many Clusters are edited at a time.
const AT_A_TIME: usize = 6;

/// How the cell of a forecast begins that is not what happened.
const WRONG: &str = "wrong: ";

/// What reconciles topologies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    TakenOver,
    Alone,
}

/// The result of a step.
struct Row {
    name: &'static str,
    happened: Changes,
    deleted: Deletions,
    /// The plan, the warning and the simulation; none where they do not apply.
    forecasts: [Option<Forecast>; 3],
    /// The objects afterwards.
    remains: Remains,
}

#[test]
#[ignore = "part of `make reference`"]
fn every_edit_ends_as_with_cluster_api_alone() {
    let chosen = chosen();
    let with_topologist = all(&chosen, Mode::TakenOver);
    let alone = all(&chosen, Mode::Alone);
    println!(
        "| edit | happened | plan --live | warning | simulate --live | Cluster API alone |\n|---|---|---|---|---|---|"
    );
    let (mut different, mut objects, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for (place, step) in chosen.iter().flat_map(|edit| edit.steps).enumerate() {
        let name = step.name;
        let (row, control) = (with_topologist.get(&place), alone.get(&place));
        let (Some(row), Some(control)) = (row, control) else {
            println!("| {name} | {} | | | | {} |", row.map_or("failed", |_| ""), control.map_or("failed", |_| ""));
            different.push(name);
            continue;
        };
        let fields = differences(&row.remains, &control.remains);
        let expected = less(&row.happened, step.once_more);
        if expected != control.happened || !fields.is_empty() {
            different.push(name);
        }
        objects.extend(fields.into_iter().map(|field| format!("{name}: {field}")));
        // A forecast does not know what is done after it.
        let order = step.then.is_none().then_some(&row.deleted);
        let cell = |forecast: &Option<Forecast>| match forecast {
            None => "–".to_owned(),
            Some(forecast) if forecast.is_right(&expected, order) => "right".to_owned(),
            Some(forecast) => format!("{WRONG}{}", forecast.text()),
        };
        let cells = row.forecasts.each_ref().map(cell);
        if cells.iter().any(|cell| cell.starts_with(WRONG)) {
            wrong.push(name);
        }
        let [plan, warning, simulation] = cells;
        let (happened, control) = (text(&row.happened), text(&control.happened));
        println!("| {} | {happened} | {plan} | {warning} | {simulation} | {control} |", row.name);
    }
    objects.iter().for_each(|field| println!("{field}"));
    assert!(different.is_empty(), "these edits failed, or end otherwise than with Cluster API alone: {different:?}");
    assert!(wrong.is_empty(), "these edits have a wrong forecast: {wrong:?}");
}

/// Changes without Machines that a worker set has replaced once more than with Cluster API alone.
fn less(changes: &Changes, once_more: u64) -> Changes {
    let mut changes = changes.clone();
    if let Some(change) = changes.values_mut().next_back() {
        change.replaced = change.replaced.saturating_sub(once_more);
    }
    changes
}

/// The edits with a step whose name has the text of a variable in it; all without that variable.
fn chosen() -> Vec<Edit> {
    let text = std::env::var("TOPOLOGIST_TEST_EDITS").unwrap_or_default();
    let chosen = EDITS.iter().filter(|edit| edit.steps.iter().any(|step| step.name.contains(&text)));
    let chosen: Vec<Edit> = chosen.copied().collect();
    assert!(!chosen.is_empty(), "no edit is called {text}");
    chosen
}

/// The rows of a stack by their places. The rows of an edit that failed are missing.
fn all(edits: &[Edit], mode: Mode) -> BTreeMap<usize, Row> {
    let stack = block_on(async {
        let stack = Stack::alone().await;
        if mode == Mode::TakenOver {
            stack.take_over().await;
        }
        stack
    });
    let first = |edit: usize| edits[..edit].iter().map(|edit| edit.steps.len()).sum::<usize>();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(edit) = edits.get(place) else { return };
            let rows = catch_unwind(AssertUnwindSafe(|| block_on(rows(&stack, edit, mode == Mode::TakenOver))));
            // A panic has printed its message.
            let rows = rows.into_iter().flatten().enumerate().map(|(step, row)| (first(place) + step, row));
            all.lock().unwrap().extend(rows);
        }
    };
    std::thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn rows(stack: &Arc<Stack>, edit: &Edit, with_forecasts: bool) -> Vec<Row> {
    let site = stack.site("table").await;
    let mut object = (edit.start)();
    object["metadata"]["namespace"] = json!(site.namespace());
    site.apply(&object);
    site.settled("one").await;
    let mut rows = Vec::new();
    for step in edit.steps {
        rows.push(take(&site, &mut object, step, with_forecasts).await);
    }
    rows
}

/// Takes a step and waits for its end.
async fn take(site: &Site, cluster: &mut Value, step: &Step, with_forecasts: bool) -> Row {
    let (before, seen) = (site.machines("one"), site.lives("one").len());
    let forecasts = match step.act {
        Act::Other(act) => {
            act(site);
            [None, None, None]
        }
        Act::Cluster(edit) => {
            edit(cluster);
            apply(site, cluster, with_forecasts)
        }
        Act::Object(object) => apply(site, &object(site), with_forecasts),
    };
    if let Some(then) = step.then {
        then(site);
    }
    let has_changed = async || site.lives("one").len() > seen || site.machines("one") != before;
    match step.end {
        End::Settled => drop(site.settled("one").await),
        End::Changed => {
            site.until("Machines come or go", has_changed).await;
            site.settled("one").await;
        }
        End::Quiet => site.quiet("one").await,
        End::Deleted => site.until("the Cluster is gone", async || site.get("cluster/one").is_none()).await,
    }
    let lives = site.lives("one");
    let happened = happened(&before, seen, &lives, &site.machines("one"));
    println!("{}: {}", step.name, text(&happened));
    Row { name: step.name, happened, deleted: deleted(&before, &lives), forecasts, remains: remains(site) }
}

/// Asks for the forecasts, and applies an object.
fn apply(site: &Site, object: &Value, with_forecasts: bool) -> [Option<Forecast>; 3] {
    let file = site.kubectl.folder.path().join("edit.yaml");
    std::fs::write(&file, object.to_string()).unwrap();
    let ask = |of: fn(&Site, &std::path::Path) -> Forecast| with_forecasts.then(|| of(site, &file));
    let (plan, simulation) = (ask(of_plan), ask(of_simulation));
    let applied = site.apply(object);
    [plan, with_forecasts.then(|| of_warning(&applied)), simulation]
}
