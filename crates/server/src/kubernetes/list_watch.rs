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
mod tests;
