//! Events, as `kubectl describe` shows them (EV-01 to EV-09).
//!
//! Repeats within an hour increment the count of the existing event.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use lru::LruCache;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::address::{self, InvalidSegment, ObjectApi};
use super::describe;
use model::hub::{ObjectKey, ObjectRef};
use schema::field::plain;

/// Timeout of writing all events of a run, so that they do not delay it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Capacity and lifetime of the cache of written events, whose repeats are counted.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("it is more than none");
const MEMORY: Duration = Duration::from_hours(1);
/// Maximum lengths of a message, a reason and a name that an API server accepts, in bytes.
pub(super) const LONGEST_MESSAGE: usize = 1024;
const LONGEST_REASON: usize = 128;
const LONGEST_NAME: usize = 253;

/// The type and the reason of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventReason {
    /// One word, such as `TopologyCreate`.
    pub name: &'static str,
    pub is_warning: bool,
}

impl EventReason {
    /// The reason of an event of type Normal.
    pub(crate) const fn normal(name: &'static str) -> Self {
        assert!(name.len() <= LONGEST_REASON);
        EventReason { name, is_warning: false }
    }

    /// The reason of an event of type Warning.
    pub(crate) const fn warning(name: &'static str) -> Self {
        EventReason { is_warning: true, ..EventReason::normal(name) }
    }

    const fn type_(self) -> &'static str {
        if self.is_warning { "Warning" } else { "Normal" }
    }
}

/// An event about an object that is not written yet.
#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    object: ObjectRef,
    uid: String,
    reason: EventReason,
    message: String,
    at: Timestamp,
}

impl QueuedEvent {
    /// An event of this moment. The message is made one line of plain characters, and cut at the maximum length
    /// (DEC-64).
    pub(crate) fn now(object: &ObjectRef, uid: &str, reason: EventReason, message: String) -> Self {
        let message = shortened(&plain(&message));
        QueuedEvent { object: object.clone(), uid: uid.to_owned(), reason, message, at: Timestamp::now() }
    }
}

#[cfg(test)]
impl QueuedEvent {
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

/// Object, reason and message.
type EventKey = (String, EventReason, String);

/// An event that was written.
#[derive(Clone, Debug)]
struct WrittenEvent {
    name: String,
    count: i32,
    last: Instant,
}

/// Writes events. A failure is logged, and fails no run.
pub(crate) struct Recorder {
    /// Who reports them.
    reporter: &'static str,
    client: kube::Client,
    known: Mutex<LruCache<EventKey, WrittenEvent>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl Recorder {
    /// A recorder for the events of a controller.
    pub(crate) fn new(client: kube::Client, reporter: &'static str) -> Self {
        Recorder { reporter, client, known: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// Writes events in this order.
    pub(crate) async fn write(&self, events: Vec<QueuedEvent>) {
        let count = events.len();
        let all = async {
            for one in events {
                if let Err(error) = self.record(&one).await {
                    let (object, reason, error) = (&one.object, one.reason.name, describe(&error));
                    warn!(%object, reason, error, "Failed to write an Event");
                }
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            warn!(events = count, "Timed out writing Events");
        }
    }

    async fn record(&self, event: &QueuedEvent) -> kube::Result<()> {
        let key = (event.uid.clone(), event.reason, event.message.clone());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let known = known.filter(|known| known.last.elapsed() < MEMORY);
        let counted = match known {
            Some(known) => self.count(event, known).await?,
            None => None,
        };
        let known = match counted {
            Some(known) => known,
            None => self.create(event).await?,
        };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).put(key, known);
        Ok(())
    }

    /// Increments the count of an event, unless it is deleted.
    async fn count(&self, event: &QueuedEvent, known: WrittenEvent) -> kube::Result<Option<WrittenEvent>> {
        let count = known.count.saturating_add(1);
        let patch = Patch::Merge(json!({"count": count, "lastTimestamp": Time(event.at)}));
        match self.event(event, &known.name)?.patch(&PatchParams::default(), &patch).await {
            Ok(_) => Ok(Some(WrittenEvent { count, last: Instant::now(), ..known })),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, event: &QueuedEvent) -> kube::Result<WrittenEvent> {
        let QueuedEvent { object, uid, reason, message, at } = event;
        let name = name(&object.key.name, *at);
        let written = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace_of(object).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(object.api_version.clone()),
                kind: Some(object.kind.clone()),
                namespace: Some(object.key.namespace.clone()).filter(|namespace| !namespace.is_empty()),
                name: Some(object.key.name.clone()),
                uid: Some(uid.clone()),
                ..ObjectReference::default()
            },
            type_: Some(reason.type_().to_owned()),
            reason: Some(reason.name.to_owned()),
            message: Some(message.clone()),
            source: Some(EventSource { component: Some(self.reporter.to_owned()), host: None }),
            reporting_component: Some(self.reporter.to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(*at)),
            last_timestamp: Some(Time(*at)),
            ..Event::default()
        };
        self.event(event, &name)?.create(&PostParams::default(), &written).await?;
        Ok(WrittenEvent { name, count: 1, last: Instant::now() })
    }

    fn event(&self, event: &QueuedEvent, name: &str) -> Result<ObjectApi<Event>, InvalidSegment> {
        address::one(self.client.clone(), &ObjectKey::new(namespace_of(&event.object), name))
    }
}

/// The name of an event about an object of this name.
fn name(object: &str, at: Timestamp) -> String {
    let time = format!(".{:x}", at.as_nanosecond());
    let end = object.floor_char_boundary(LONGEST_NAME - time.len());
    object[..end].trim_end_matches(['.', '-']).to_owned() + &time
}

/// The namespace of the events of an object; `default` for objects without a namespace.
fn namespace_of(object: &ObjectRef) -> &str {
    match &*object.key.namespace {
        "" => "default",
        namespace => namespace,
    }
}

/// The text, cut at the maximum length of a message.
fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_MESSAGE {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST_MESSAGE - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_the_api_server_accepts() {
        // DEC-64
        let object = ObjectRef::new("v1", "ConfigMap", ObjectKey::new("ns", "a"));
        let message =
            |text: &str| QueuedEvent::now(&object, "u", EventReason::normal("Tested"), text.to_owned()).message;
        assert_eq!(message("a\nb\r\u{1b}[2J\u{9b}\u{202e}"), r"a\nb\r\u{1b}[2J\u{9b}\u{202e}");
        for text in ["é".repeat(LONGEST_MESSAGE), "\u{1b}".repeat(LONGEST_MESSAGE)] {
            let message = message(&text);
            assert!(message.len() <= LONGEST_MESSAGE && message.ends_with('…'), "{message}");
        }
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(name(&"a".repeat(LONGEST_NAME), at).len(), LONGEST_NAME);
        assert_eq!(name("one.b", at), "one.b.0");
    }
}
