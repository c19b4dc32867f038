use std::pin::{Pin, pin};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::scripted::{Script, ScriptedAnswer, status};

const PATH: &str = "/api/v1/configmaps";

fn object(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": version}})
}

fn list(names: &[&str], version: &str, next: &str) -> ScriptedAnswer {
    let items: Vec<Value> = names.iter().map(|name| object(name, version)).collect();
    ScriptedAnswer::ok(json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": items,
        "metadata": {"resourceVersion": version, "continue": next}}))
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(version: &str) -> Value {
    event("BOOKMARK", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": version}}))
}

fn after(seconds: u64, line: Value) -> (Duration, Value) {
    (Duration::from_secs(seconds), line)
}

type Reports<'a> = Pin<&'a mut dyn Stream<Item = Result<ListWatchEvent<ConfigMap>, Fault>>>;

/// The next reports in short, with the seconds since the start.
async fn next(reports: &mut Reports<'_>, count: usize, started: Instant) -> Vec<(u64, String)> {
    let mut short = Vec::new();
    for _ in 0..count {
        let text = match reports.next().await.unwrap() {
            Ok(ListWatchEvent::Bookmark) => "bookmark".to_owned(),
            Ok(ListWatchEvent::Reopened) => "reopened".to_owned(),
            Ok(ListWatchEvent::Listed { version }) => format!("Listed({version})"),
            Ok(ListWatchEvent::Event(event)) => event.to_string(),
            Err(fault) => fault.to_string(),
        };
        short.push((started.elapsed().as_secs(), text));
    }
    short
}

fn lines(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
    lines.iter().map(|(seconds, text)| (*seconds, (*text).to_owned())).collect()
}

macro_rules! follow {
    ($script:expr, $reports:ident, $started:ident) => {
        let mut stream = pin!(list_watch::<ConfigMap>(Api::all($script.client()), WatchSelection::default()));
        let mut $reports: Reports<'_> = stream.as_mut();
        let $started = Instant::now();
    };
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_arrive_as_a_whole_is_requested_in_pages() {
    // DEC-116
    let whole = || json!({"items": [object("a", "7"), object("b", "7")], "metadata": {"resourceVersion": "7"}});
    let cut = ScriptedAnswer::Text(whole().to_string().trim_end_matches('}').to_owned());
    for (answer, fault) in [
        (cut, "the list failed: the response ended before the list did"),
        (ScriptedAnswer::error(504, "Timeout"), "the list failed: scripted Timeout"),
        (ScriptedAnswer::Silence, "timed out waiting for a list"),
    ] {
        let script = Script::default();
        script
            .get(PATH, &["limit=0"], answer)
            .get(PATH, &["limit=500"], list(&["a"], "8", "more"))
            .get(PATH, &["limit=500", "continue=more"], list(&["b"], "8", ""))
            .get(PATH, &["resourceVersion=8"], ScriptedAnswer::error(410, "Expired"))
            .get(PATH, &["limit=0"], ScriptedAnswer::ok(whole()))
            .get(PATH, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![]));
        follow!(script, reports, started);
        let mut texts = Vec::new();
        while texts.last().is_none_or(|text| text != "Listed(7)") {
            texts.push(next(&mut reports, 1, started).await.remove(0).1);
        }
        let at = texts.iter().position(|text| text == fault);
        let at = at.unwrap_or_else(|| panic!("{fault} is not in {texts:?}"));
        assert_eq!(texts[at + 1..at + 5], ["Init", "InitApply(a)", "InitApply(b)", "Listed(8)"], "{fault}");
        assert_eq!(texts[at + 6..], ["Init", "InitApply(a)", "InitApply(b)", "Listed(7)"], "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_list_is_not_requested_in_pages() {
    let script = Script::default();
    script.get(PATH, &["limit=0"], ScriptedAnswer::error(403, "Forbidden"));
    script.get(PATH, &["limit=0"], list(&[], "7", ""));
    follow!(script, reports, started);
    assert_eq!(next(&mut reports, 3, started).await[2].1, "Listed(7)");
}

#[tokio::test(start_paused = true)]
async fn pages_are_requested_of_api_servers_that_need_them() {
    let script = Script::default();
    script
        .get(PATH, &["limit=100"], list(&["a", "b"], "7", "more"))
        .get(PATH, &["limit=100", "continue=more"], list(&["c"], "7", ""))
        .get(PATH, &["resourceVersion=7"], ScriptedAnswer::error(410, "Expired"))
        .get(PATH, &["limit=100"], list(&["a"], "9", ""));
    let selection = WatchSelection { page: Some(SMALL_PAGE), ..WatchSelection::default() };
    let mut stream = pin!(list_watch::<ConfigMap>(Api::all(script.client()), selection));
    let mut reports: Reports<'_> = stream.as_mut();
    let reported = next(&mut reports, 9, Instant::now()).await;
    assert_eq!(reported[8].1, "Listed(9)", "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn objects_are_listed_page_by_page_and_watched_from_there() {
    let script = Script::default();
    script
        .get(PATH, &["limit=0"], list(&["a", "b"], "7", "more"))
        .get(PATH, &["continue=more"], list(&["c"], "7", ""))
        .get(
            PATH,
            &["resourceVersion=7", "allowWatchBookmarks=true"],
            ScriptedAnswer::Watch(vec![
                after(5, event("ADDED", object("d", "8"))),
                after(60, bookmark("9")),
                after(70, event("DELETED", object("a", "10"))),
            ]),
        )
        .get(PATH, &["resourceVersion=10", "watch=true"], ScriptedAnswer::OpenWatch(vec![after(1, bookmark("11"))]));
    follow!(script, reports, started);
    let want = [
        (0, "Init"),
        (0, "InitApply(a)"),
        (0, "InitApply(b)"),
        (0, "InitApply(c)"),
        (0, "Listed(7)"),
        (5, "Apply(d)"),
        (65, "bookmark"),
        (135, "Delete(a)"),
        (136, "bookmark"),
    ];
    assert_eq!(next(&mut reports, want.len(), started).await, lines(&want));
    assert_eq!(script.left(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_selector_applies_to_lists_and_watches() {
    let script = Script::default();
    let words = ["labelSelector=%21a", "fieldSelector=metadata.name%3Db"];
    script.get(PATH, &[&words[..], &["limit=0"]].concat(), list(&["b"], "7", "")).get(
        PATH,
        &[&words[..], &["watch=true"]].concat(),
        ScriptedAnswer::OpenWatch(vec![after(1, bookmark("8")), after(2, event("DELETED", object("b", "9")))]),
    );
    let selection = WatchSelection { labels: Some("!a".into()), ..WatchSelection::by_name("b") };
    let mut stream = pin!(list_watch::<ConfigMap>(Api::all(script.client()), selection));
    let mut reports: Reports<'_> = stream.as_mut();
    let reported = next(&mut reports, 5, Instant::now()).await;
    let reported: Vec<&str> = reported.iter().map(|(_, what)| &**what).collect();
    assert_eq!(reported, ["Init", "InitApply(b)", "Listed(7)", "bookmark", "Delete(b)"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_begins_a_new_list() {
    for gone in [
        ScriptedAnswer::OpenWatch(vec![after(3, event("ERROR", status(410, "Expired")))]),
        ScriptedAnswer::error(410, "Expired"),
    ] {
        let script = Script::default();
        script.get(PATH, &["limit=0"], list(&[], "7", "")).get(PATH, &["resourceVersion=7"], gone).get(
            PATH,
            &["limit=0"],
            list(&["a"], "20", ""),
        );
        follow!(script, reports, started);
        let reported = next(&mut reports, 5, started).await;
        assert!(reported[2].1.contains("scripted Expired"), "{reported:?}");
        let rest: Vec<_> = reported[3..].iter().map(|(_, text)| &**text).collect();
        assert_eq!(rest, ["Init", "InitApply(a)"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_continues_without_losing_events() {
    let script = Script::default();
    script
        .get(PATH, &["limit=0"], list(&[], "7", ""))
        .get(PATH, &["resourceVersion=7"], ScriptedAnswer::Watch(vec![after(5, bookmark("8"))]))
        .get(PATH, &["resourceVersion=8"], ScriptedAnswer::error(500, "InternalError"))
        .get(
            PATH,
            &["resourceVersion=8"],
            // An event that cannot be read is not passed over: the next watch begins before it.
            ScriptedAnswer::OpenWatch(vec![after(1, json!({"type": "ADDED", "object": {"metadata": 5}}))]),
        )
        .get(
            PATH,
            &["resourceVersion=8"],
            ScriptedAnswer::OpenWatch(vec![after(1, event("MODIFIED", object("a", "9")))]),
        );
    follow!(script, reports, started);
    let reported = next(&mut reports, 6, started).await;
    let texts: Vec<_> = reported.iter().map(|(_, text)| &**text).collect();
    assert_eq!(texts[..3], ["Init", "Listed(7)", "bookmark"]);
    assert!(texts[3].contains("scripted InternalError"), "{texts:?}");
    assert!(texts[4].contains("the watch failed"), "{texts:?}");
    assert_eq!(texts[5], "Apply(a)");
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_are_retried_after_429() {
    let script = Script::default();
    let busy = || ScriptedAnswer::error(429, "TooManyRequests");
    script
        .get(PATH, &["limit=0"], busy())
        .get(PATH, &["limit=0"], list(&[], "7", ""))
        .get(PATH, &["resourceVersion=7"], busy())
        .get(PATH, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![after(1, bookmark("8"))]));
    follow!(script, reports, started);
    let want = [(1, "Init"), (1, "Listed(7)"), (3, "bookmark")];
    assert_eq!(next(&mut reports, want.len(), started).await, lines(&want));
    let script = Script::default();
    for _ in 0..=PATIENCE {
        script.get(PATH, &["limit=0"], busy());
    }
    follow!(script, reports, started);
    let reported = next(&mut reports, 1, started).await;
    assert!(reported[0].1.contains("scripted TooManyRequests"), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed_and_a_silent_server_is_listed_again() {
    let script = Script::default();
    script
        .get(PATH, &["limit=0"], list(&[], "7", ""))
        .get(PATH, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![after(60, bookmark("8"))]))
        .get(PATH, &["resourceVersion=8"], ScriptedAnswer::OpenWatch(vec![]))
        .get(PATH, &["limit=0"], ScriptedAnswer::Silence)
        .get(PATH, &["limit=500"], list(&["a"], "9", ""));
    follow!(script, reports, started);
    let want = [(0, "Init"), (0, "Listed(7)"), (60, "bookmark"), (325, "timed out waiting for a list")];
    assert_eq!(next(&mut reports, want.len(), started).await, lines(&want));
    assert_eq!(next(&mut reports, 2, started).await[1].1, "InitApply(a)");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_open_after_a_fault_is_reported_once() {
    let script = Script::default();
    script.get(PATH, &["limit=0"], list(&[], "7", ""));
    for _ in 0..6 {
        script.get(PATH, &["resourceVersion=7"], ScriptedAnswer::error(500, "InternalError"));
    }
    script
        .get(PATH, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![]))
        .get(PATH, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![]))
        // It said nothing, so it is no proof that the server still does.
        .get(PATH, &["limit=0"], list(&["a"], "9", ""));
    follow!(script, reports, started);
    let reported = next(&mut reports, 9, started).await;
    let (last, reopened) = (&reported[7], &reported[8]);
    assert!(last.1.contains("scripted InternalError"), "{reported:?}");
    assert_eq!(reopened.1, "reopened");
    assert!(reopened.0 - last.0 <= 6, "the pause is short: {reported:?}");
    let reported = next(&mut reports, 2, started).await;
    assert_eq!(reported[1].1, "InitApply(a)");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_restarted_with_a_delay() {
    let script = Script::default();
    script.get(PATH, &["limit=0"], list(&[], "7", ""));
    for _ in 0..5 {
        script.get(PATH, &["resourceVersion=7"], ScriptedAnswer::Watch(vec![]));
    }
    follow!(script, reports, started);
    let reported = next(&mut reports, 7, started).await;
    assert!(reported[2..].iter().all(|(_, text)| text == "the watch ended at once"), "{reported:?}");
    assert!(reported[6].0 >= 10, "pauses grow: {reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_goes_back_is_followed_by_a_new_list() {
    // DEC-105
    for line in [bookmark("3"), event("MODIFIED", object("a", "3"))] {
        let script = Script::default();
        script.get(PATH, &[], list(&["a"], "7", "")).get(
            PATH,
            &["resourceVersion=7"],
            ScriptedAnswer::OpenWatch(vec![after(1, line)]),
        );
        script.get(PATH, &["limit=0"], list(&["a"], "3", ""));
        script.get(PATH, &["resourceVersion=3"], ScriptedAnswer::OpenWatch(vec![]));
        let mut reports = pin!(list_watch::<ConfigMap>(Api::all(script.client()), WatchSelection::default()));
        let mut faults = 0;
        for _ in 0..9 {
            let next = tokio::time::timeout(Duration::from_secs(10), reports.next()).await;
            if let Ok(Some(Err(fault))) = next {
                assert!(matches!(&fault, Fault::WentBack(from, to) if from == "7" && to == "3"), "{fault}");
                faults += 1;
            }
        }
        assert_eq!((faults, script.left()), (1, 0));
    }
}
