//! List, then watch, and repeat ([efficient detection of
//! changes](https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes)).
//!
//! kube's own watcher is not used, for two reasons. It does not pass bookmarks on; if the objects of a kind do not
//! change, only bookmarks show that the API server still answers. And it notices a dead connection only after 290
//! seconds and a margin; until then reviews would be answered from outdated caches.
//!
//! ```text
//! list ─► watch from the version of the list ─► events and bookmarks, each of which moves the version
//!  ▲              ▲         │
//!  │              └─────────┤  the watch ended, failed, or said nothing for SILENCE
//!  └────────────────────────┘  the version is too old (410), or nothing was heard for twice SILENCE
//! ```
//!
//! A list has no limit, so that kube-apiserver answers it from its watch cache, which from Kubernetes 1.31 on is as
//! recent as etcd; it reads the pages of a list with a limit from etcd, which takes more than twice its processor time.
//! Only a list that does not arrive as a whole is requested in pages (DEC-116).

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::api::{Api, ListParams, Resource, ResourceExt, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{DefaultBackoff, Event};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::describe;
use super::list_items::{ListError, ListItems, ListMetadata};

/// Silence of a watch after which its connection counts as dead. kube-apiserver sends bookmarks every 60 to 75 seconds,
/// but none for a kind of which it has not seen an event since its start; so after twice this time the objects are
/// listed again, which shows whether the server responds.
const SILENCE: Duration = Duration::from_secs(100);

/// Timeout of the headers of a list, and of each part of its body; that of kube-apiserver is a minute.
const LIST_LIMIT: Duration = Duration::from_secs(65);

/// Timeout of the headers of a watch.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A watch that ends sooner and without an event is a fault, so that it is not restarted in a loop without a pause. One
/// that stays open for this time after a fault shows that the fault is over: missed events would have arrived.
const BRIEF: Duration = Duration::from_secs(1);

/// Maximum pause after a fault, within which a recovered API server is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of retries on 429 before that is a fault. The API server responds so while a definition is new.
const PATIENCE: usize = 5;

/// The limit of a list without one.
const WITHOUT_LIMIT: u32 = 0;
/// Objects per page of a list that did not arrive as a whole.
const PAGE: u32 = 500;
/// Objects per page of a list of an API server whose responses are limited in size and time.
pub(crate) const SMALL_PAGE: u32 = 100;

/// A report of the API server.
#[derive(Debug)]
pub(super) enum ListWatchEvent<K> {
    Event(Event<K>),
    /// A list is complete; it shows all objects as they were at this resourceVersion.
    Listed {
        version: String,
    },
    /// Nothing has changed.
    Bookmark,
    /// The watch is open again after a fault, and nothing has changed meanwhile.
    Reopened,
}

/// The objects of a kind that are listed and watched; defaults to all, as whole objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchSelection {
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// Requests only the metadata of objects.
    pub only_metadata: bool,
    /// Objects per page of a list; `None` for lists without pages.
    pub page: Option<u32>,
}

impl WatchSelection {
    /// The objects with these labels.
    pub(crate) fn by_labels(selector: impl Into<String>) -> Self {
        WatchSelection { labels: Some(selector.into()), ..WatchSelection::default() }
    }

    /// The object of this name.
    pub(crate) fn by_name(name: &str) -> Self {
        WatchSelection { fields: Some(format!("metadata.name={name}")), ..WatchSelection::default() }
    }
}

/// Why a list or a watch ended; each fault is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the list failed: {}", describe(.0))]
    List(#[source] kube::Error),
    #[error("the list failed: {0}")]
    Items(#[source] ListError),
    #[error("the list has no resourceVersion")]
    NoVersion,
    #[error("the watch failed: {}", describe(.0))]
    Watch(#[source] kube::Error),
    #[error("the watch reported: {}", .0.message)]
    Reported(Box<Status>),
    #[error("the watch ended at once")]
    Brief,
    #[error("the resourceVersion went back from {0} to {1}: the API server was restored from an older copy")]
    WentBack(String, String),
    #[error("timed out waiting for a {0}")]
    Late(&'static str),
}

/// What a response is called that is late.
const LIST: &str = "list";
const WATCH: &str = "watch";

impl Fault {
    /// Whether the kind does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        match self {
            Fault::List(kube::Error::Api(status)) | Fault::Watch(kube::Error::Api(status)) => status.code == 404,
            _ => false,
        }
    }

    /// Whether the API server responded that it does not list these objects. A server that is busy, unreachable or not
    /// ready says nothing about them.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Fault::List(kube::Error::Api(status)) => !matches!(status.code, 429 | 502..=504),
            _ => false,
        }
    }

    /// Whether this client may not list or watch these objects.
    pub(super) fn is_forbidden(&self) -> bool {
        match self {
            Fault::List(kube::Error::Api(status)) | Fault::Watch(kube::Error::Api(status)) => {
                matches!(status.code, 401 | 403)
            }
            _ => false,
        }
    }

    /// The fault as shown to a tenant: only the status code of the response, never its body (DEC-40).
    pub(crate) fn status(&self, what: &str) -> String {
        let code = match self {
            Fault::List(kube::Error::Api(status))
            | Fault::Watch(kube::Error::Api(status))
            | Fault::Reported(status) => status.code,
            _ => return format!("{what} cannot be listed and watched; see the log of topologist"),
        };
        format!("it answered {code} to a request for {what}")
    }

    /// Whether the requested version is too old to continue from.
    fn is_gone(&self) -> bool {
        match self {
            Fault::Watch(kube::Error::Api(status)) | Fault::Reported(status) => status.code == 410,
            Fault::WentBack(..) => true,
            _ => false,
        }
    }

    /// Whether the list may have been too long to arrive as a whole.
    fn is_about_size(&self) -> bool {
        match self {
            Fault::List(kube::Error::Api(status)) => matches!(status.code, 413 | 504),
            Fault::Items(error) => error.is_end(),
            Fault::Late(what) => *what == LIST,
            _ => false,
        }
    }

    /// The delay that a busy API server requests; `None` for other faults.
    fn is_busy(&self) -> Option<Duration> {
        match self {
            Fault::List(kube::Error::Api(status)) | Fault::Watch(kube::Error::Api(status)) if status.code == 429 => {
                let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                Some(Duration::from_secs(u64::from(seconds).clamp(1, 5)))
            }
            _ => None,
        }
    }
}

/// Every object and then every change of it, with growing pauses after faults; never ends.
///
/// A new list begins with `Event::Init`, which comes with the first page and not before it; so each report shows that
/// the API server has just responded.
pub(super) fn list_watch<K>(
    api: Api<K>,
    selection: WatchSelection,
) -> impl Stream<Item = Result<ListWatchEvent<K>, Fault>> + Send
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (state, heard) = (ListWatchState::Unlisted, Instant::now());
    let page = selection.page;
    let start = ListWatch { api, selection, state, page, heard, has_failed: false, patience: PATIENCE };
    let reports = stream::unfold(start, |mut this| async move {
        let outcome = this.next().await;
        Some((outcome, this))
    });
    reports.backoff(Pauses(DefaultBackoff::default()))
}

/// Exponentially growing pauses.
struct Pauses(DefaultBackoff);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.next()?.min(LONGEST_PAUSE))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

struct ListWatch<K> {
    api: Api<K>,
    selection: WatchSelection,
    state: ListWatchState<K>,
    /// Objects per page of the next list.
    page: Option<u32>,
    heard: Instant,
    /// Whether a fault was the last that was reported.
    has_failed: bool,
    /// How often the API server may still say that it is busy.
    patience: usize,
}

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

enum ListWatchState<K> {
    Unlisted,
    /// A list or a page of it, of which these items are left.
    Listing(ListItems<K>),
    /// All objects up to this version are known, and no watch is open.
    Listed {
        version: String,
    },
    Watching {
        version: String,
        events: Events<K>,
        since: Instant,
        /// Nothing has come on this watch yet.
        silent: bool,
    },
}

impl<K> ListWatch<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    async fn next(&mut self) -> Result<ListWatchEvent<K>, Fault> {
        loop {
            // A step that fails leaves the state from which to try again.
            let state = std::mem::replace(&mut self.state, ListWatchState::Unlisted);
            match self.step(state).await {
                Ok(None) => {}
                Ok(Some(report)) => {
                    // A watch that opens and says nothing is no proof that it ever will.
                    if !matches!(report, ListWatchEvent::Reopened) {
                        self.heard = Instant::now();
                    }
                    (self.has_failed, self.patience) = (false, PATIENCE);
                    return Ok(report);
                }
                Err(fault) => match fault.is_busy() {
                    Some(pause) if self.patience > 0 => {
                        self.patience -= 1;
                        sleep(pause).await;
                    }
                    _ => {
                        self.has_failed = true;
                        if fault.is_about_size() {
                            self.page = Some(self.page.unwrap_or(PAGE));
                        }
                        return Err(fault);
                    }
                },
            }
        }
    }

    async fn step(&mut self, state: ListWatchState<K>) -> Result<Option<ListWatchEvent<K>>, Fault> {
        match state {
            ListWatchState::Unlisted => {
                self.state = ListWatchState::Listing(list(&self.api, &self.selection, self.page, None).await?);
                Ok(Some(ListWatchEvent::Event(Event::Init)))
            }
            ListWatchState::Listing(mut items) => {
                let next = timeout(LIST_LIMIT, items.next()).await.map_err(|_| Fault::Late(LIST))?;
                if let Some(object) = next.map_err(Fault::Items)? {
                    self.state = ListWatchState::Listing(items);
                    return Ok(Some(ListWatchEvent::Event(Event::InitApply(object))));
                }
                let ListMetadata { resource_version: version, r#continue: token } =
                    items.metadata().map_err(Fault::Items)?;
                if !token.is_empty() {
                    self.state =
                        ListWatchState::Listing(list(&self.api, &self.selection, self.page, Some(token)).await?);
                    return Ok(None);
                }
                if version.is_empty() {
                    return Err(Fault::NoVersion);
                }
                self.state = ListWatchState::Listed { version: version.clone() };
                self.page = self.selection.page;
                Ok(Some(ListWatchEvent::Listed { version }))
            }
            ListWatchState::Listed { version } => {
                let events = start(&self.api, &self.selection, &version).await;
                let events = events.inspect_err(|fault| self.state = self.after(fault, &version))?;
                self.state = ListWatchState::Watching { version, events, since: Instant::now(), silent: true };
                Ok(None)
            }
            ListWatchState::Watching { version, events, since, silent } => {
                self.listen(version, events, since, silent).await
            }
        }
    }

    async fn listen(
        &mut self,
        version: String,
        mut events: Events<K>,
        since: Instant,
        silent: bool,
    ) -> Result<Option<ListWatchEvent<K>>, Fault> {
        let silence = since.max(self.heard) + SILENCE;
        let limit = if self.has_failed { silence.min(since + BRIEF) } else { silence };
        let fault = match timeout_at(limit, events.next()).await {
            Ok(Some(Ok(event))) => match report_of(event) {
                Ok((_, Some(moved))) if is_before(&moved, &version) => Fault::WentBack(version.clone(), moved),
                Ok((report, moved)) => {
                    let version = moved.unwrap_or(version);
                    self.state = ListWatchState::Watching { version, events, since, silent: false };
                    return Ok(Some(report));
                }
                Err(fault) => fault,
            },
            Ok(Some(Err(error))) => Fault::Watch(error),
            Ok(None) if silent && since.elapsed() < BRIEF => Fault::Brief,
            Err(_) if limit < silence => {
                self.state = ListWatchState::Watching { version, events, since, silent };
                return Ok(Some(ListWatchEvent::Reopened));
            }
            Ok(None) | Err(_) => {
                self.state = self.again(version);
                return Ok(None);
            }
        };
        self.state = self.after(&fault, &version);
        Err(fault)
    }

    /// The state after a fault.
    fn after(&self, fault: &Fault, version: &str) -> ListWatchState<K> {
        if fault.is_gone() { ListWatchState::Unlisted } else { self.again(version.to_owned()) }
    }

    /// A new watch, or a new list after too long a silence.
    fn again(&self, version: String) -> ListWatchState<K> {
        if self.heard.elapsed() < 2 * SILENCE { ListWatchState::Listed { version } } else { ListWatchState::Unlisted }
    }
}

/// Requests a list, or a page of it.
async fn list<K>(
    api: &Api<K>,
    selection: &WatchSelection,
    page: Option<u32>,
    token: Option<String>,
) -> Result<ListItems<K>, Fault>
where
    K: Resource + Clone + DeserializeOwned,
{
    let WatchSelection { labels, fields, only_metadata, .. } = selection.clone();
    let params = ListParams {
        limit: Some(page.unwrap_or(WITHOUT_LIMIT)),
        continue_token: token,
        label_selector: labels,
        field_selector: fields,
        ..ListParams::default()
    };
    let requests = Request::new(api.resource_url());
    let request = if only_metadata { requests.list_metadata(&params) } else { requests.list(&params) };
    let request = request.map_err(|error| Fault::List(kube::Error::BuildRequest(error)))?;
    let client = api.clone().into_client();
    let answer = timeout(LIST_LIMIT, client.request_stream(request)).await;
    Ok(ListItems::from_body(answer.map_err(|_| Fault::Late(LIST))?.map_err(Fault::List)?))
}

async fn start<K>(api: &Api<K>, selection: &WatchSelection, version: &str) -> Result<Events<K>, Fault>
where
    K: Resource + Clone + DeserializeOwned + Send + 'static,
{
    let WatchSelection { labels, fields, only_metadata, .. } = selection.clone();
    let params = WatchParams { label_selector: labels, field_selector: fields, ..WatchParams::default() };
    let requests = Request::new(api.resource_url());
    let request = match only_metadata {
        true => requests.watch_metadata(&params, version),
        false => requests.watch(&params, version),
    };
    let request = request.map_err(|error| Fault::Watch(kube::Error::BuildRequest(error)))?;
    let client = api.clone().into_client();
    let answer = timeout(START_LIMIT, client.request_events(request)).await;
    Ok(answer.map_err(|_| Fault::Late(WATCH))?.map_err(Fault::Watch)?.boxed())
}

/// Whether a version is before another one; both are numbers.
pub(super) fn is_before(version: &str, other: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(version).zip(number(other)).is_some_and(|(version, other)| version < other)
}

/// The report of a watch event, and the version up to which all is known then.
fn report_of<K: Resource>(event: WatchEvent<K>) -> Result<(ListWatchEvent<K>, Option<String>), Fault> {
    let version = |object: &K| object.resource_version().filter(|version| !version.is_empty());
    Ok(match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            let moved = version(&object);
            (ListWatchEvent::Event(Event::Apply(object)), moved)
        }
        WatchEvent::Deleted(object) => {
            let moved = version(&object);
            (ListWatchEvent::Event(Event::Delete(object)), moved)
        }
        WatchEvent::Bookmark(bookmark) => {
            (ListWatchEvent::Bookmark, Some(bookmark.metadata.resource_version).filter(|version| !version.is_empty()))
        }
        WatchEvent::Error(status) => return Err(Fault::Reported(status)),
    })
}

#[cfg(test)]
mod tests {
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
            .get(
                PATH,
                &["resourceVersion=10", "watch=true"],
                ScriptedAnswer::OpenWatch(vec![after(1, bookmark("11"))]),
            );
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
}
