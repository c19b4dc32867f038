//! The templates that classes name, from a watch and single reads.
//!
//! ```text
//! watch (without copies) ──► named by a class? ─ yes ─► held, decoded at its first use by a review
//!                                  └─ no ─► spare: the latest ones, which an edited class may name next
//! a class names a template that the watch does not show ─► pending ─► read once ─► held, or absent
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lru::LruCache;

use super::address::InvalidSegment;
use super::describe;
use super::observations::Observation;
use super::raw_object::RawObject;
use super::templates::ObjectKind;
use engine::admission::Oversize;
use golang::json::{self, JsonSize};
use model::hub::{Object, ObjectKey, ObjectRef, group_of, paths, version_of};
use model::world::Found;

/// Why a template could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateReadError {
    #[error(transparent)]
    InvalidSegment(#[from] InvalidSegment),
    #[error("{}", describe(.0))]
    Api(#[source] kube::Error),
    #[error("the API server did not answer in time")]
    TimedOut,
}

/// Why a template could not be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateDecodeError {
    #[error("its {} {}", .0.part, .0.reason())]
    TooLarge(Oversize),
    #[error(transparent)]
    NoJson(#[from] serde_json::Error),
    #[error("it is {found}")]
    NoObject { found: &'static str },
}

/// The key of a template: a version of a kind, and its name.
pub(super) type TemplateKey = (ObjectKind, ObjectKey);

/// The key of the template of a reference.
pub(super) fn template_key(reference: &ObjectRef) -> TemplateKey {
    let ObjectRef { api_version, kind, key } = reference;
    let (group, version) = (group_of(api_version).to_owned(), version_of(api_version).to_owned());
    (ObjectKind { group, version, kind: kind.clone() }, key.clone())
}

/// The templates of the watched kinds.
#[derive(Debug)]
pub(super) struct TemplateStore {
    kinds: BTreeMap<ObjectKind, Listing>,
    /// The templates that classes name.
    named: BTreeMap<TemplateKey, HeldTemplate>,
    /// Those of them that have to be read, since the watch does not show them.
    unread: BTreeSet<TemplateKey>,
    /// Templates that no class names, the latest last.
    spare: LruCache<TemplateKey, Arc<StoredTemplate>>,
    /// What named templates take.
    bytes: usize,
    spare_bytes: usize,
    most_bytes: usize,
}

/// Whether the list of a kind is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Listed,
    Unlisted,
    /// The kind cannot be listed at the moment.
    Failed(String),
}

/// The state of a template that a class names.
#[derive(Debug)]
enum HeldTemplate {
    /// The watch does not show it, and it has not been read; with the reason if reading has failed.
    Pending(Option<String>),
    /// The API server had no such template when it was asked.
    Absent,
    Present {
        template: Arc<StoredTemplate>,
        /// Whether the watch has shown it. One that carries the label of copies is only read.
        is_watched: bool,
    },
    /// There is no memory left for it.
    TooLarge,
}

/// The text of a template, which is decoded at its first use.
#[derive(Debug)]
pub(super) struct StoredTemplate {
    written: RawObject,
    decoded: OnceLock<Result<Arc<Object>, TemplateDecodeError>>,
    /// How many bytes it takes decoded and as text, at most.
    bytes: usize,
}

impl StoredTemplate {
    fn new(written: RawObject) -> Arc<Self> {
        let bytes = written.text().len() + JsonSize::decoded_bytes(written.text());
        Arc::new(StoredTemplate { written, decoded: OnceLock::new(), bytes })
    }

    /// The object without `managedFields`.
    ///
    /// # Errors
    /// When it does not decode, or exceeds the limits of an object.
    pub(super) fn object(&self) -> Result<Arc<Object>, &TemplateDecodeError> {
        self.decoded.get_or_init(|| decode(self.written.text())).as_ref().map(Arc::clone)
    }
}

fn decode(text: &str) -> Result<Arc<Object>, TemplateDecodeError> {
    if let Some(oversize) = Oversize::find(text) {
        return Err(TemplateDecodeError::TooLarge(oversize));
    }
    let mut object = Object::try_from(json::value(text)?).map_err(|found| TemplateDecodeError::NoObject { found })?;
    object.remove(paths::metadata::MANAGED_FIELDS);
    Ok(Arc::new(object).with_shared_spec())
}

impl TemplateStore {
    /// A store without kinds. All templates together take `most_bytes` at most (DEC-44).
    pub(super) fn new(most_bytes: usize) -> Self {
        TemplateStore {
            kinds: BTreeMap::new(),
            named: BTreeMap::new(),
            unread: BTreeSet::new(),
            spare: LruCache::unbounded(),
            bytes: 0,
            spare_bytes: 0,
            most_bytes,
        }
    }

    /// Adds a kind, or starts its list again.
    pub(super) fn begin(&mut self, kind: &ObjectKind) {
        self.kinds.insert(kind.clone(), Listing::Unlisted);
    }

    /// Removes a kind that no class names any more.
    pub(super) fn end(&mut self, kind: &ObjectKind) {
        self.kinds.remove(kind);
        let spare: Vec<_> = self.spare.iter().filter(|((of, _), _)| of == kind).map(|(key, _)| key.clone()).collect();
        spare.iter().for_each(|key| drop(self.take_spare(key)));
        let named: Vec<_> = self.named.keys().filter(|(of, _)| of == kind).cloned().collect();
        for key in &named {
            self.unread.remove(key);
            self.take_named(key);
        }
    }

    /// Notes that the kind cannot be listed at the moment.
    pub(super) fn fail(&mut self, kind: &ObjectKind, reason: String) {
        if let Some(listing @ (Listing::Unlisted | Listing::Failed(_))) = self.kinds.get_mut(kind) {
            *listing = Listing::Failed(reason);
        }
    }

    /// Notes that a class names a template. The class has just changed, so a template that the watch leaves out is read
    /// again.
    pub(super) fn name(&mut self, key: &TemplateKey) {
        if let Some(HeldTemplate::Present { is_watched: true, .. }) = self.named.get(key) {
            return;
        }
        if let Some(template) = self.take_spare(key) {
            return self.hold(key, template, true);
        }
        self.unread.insert(key.clone());
        // The former content counts until the template is read again.
        if !matches!(self.named.get(key), Some(HeldTemplate::Present { .. })) {
            self.named.insert(key.clone(), HeldTemplate::Pending(None));
        }
    }

    /// Notes that no class names a template any more. It stays among the spare ones: an edit may be reverted.
    pub(super) fn release(&mut self, key: &TemplateKey) {
        self.unread.remove(key);
        if let Some(HeldTemplate::Present { template, is_watched: true }) = self.take_named(key) {
            self.put_spare(key, template);
        }
    }

    /// Applies an observation of the watch of a kind; returns whether templates have to be read now.
    pub(super) fn see(&mut self, kind: &ObjectKind, seen: Observation<RawObject>) -> bool {
        // Its watch is about to end.
        if !self.kinds.contains_key(kind) {
            return false;
        }
        match seen {
            Observation::There { object, .. } => {
                let key = (kind.clone(), object.key());
                match self.named.contains_key(&key) {
                    true => self.hold(&key, StoredTemplate::new(object), true),
                    false => self.put_spare(&key, StoredTemplate::new(object)),
                }
                false
            }
            Observation::Gone(object) => {
                let key = (kind.clone(), object.key());
                self.take_spare(&key);
                self.lose(&key)
            }
            Observation::Listed { keys, .. } => self.list(kind, &keys),
            Observation::Failed(fault) => {
                self.fail(kind, fault.to_string());
                false
            }
            Observation::Alive => false,
        }
    }

    fn list(&mut self, kind: &ObjectKind, keys: &BTreeSet<ObjectKey>) -> bool {
        let Some(listing) = self.kinds.get_mut(kind) else { return false };
        *listing = Listing::Listed;
        let is_gone = |(of, key): &TemplateKey| of == kind && !keys.contains(key);
        let spare: Vec<_> = self.spare.iter().map(|(key, _)| key).filter(|key| is_gone(key)).cloned().collect();
        spare.iter().for_each(|key| drop(self.take_spare(key)));
        let named: Vec<_> = self.named.keys().filter(|key| is_gone(key)).cloned().collect();
        for key in &named {
            self.lose(key);
        }
        !self.unread().is_empty()
    }

    /// Removes a template that the watch no longer shows: it was deleted, or got the label of copies.
    fn lose(&mut self, key: &TemplateKey) -> bool {
        let was_watched = matches!(
            self.named.get(key),
            Some(HeldTemplate::Present { is_watched: true, .. } | HeldTemplate::TooLarge)
        );
        if was_watched {
            self.take_named(key);
            self.named.insert(key.clone(), HeldTemplate::Pending(None));
            self.unread.insert(key.clone());
        }
        was_watched
    }

    /// The templates that have to be read: classes name them, and the complete list of their kind does not contain
    /// them.
    pub(super) fn unread(&self) -> Vec<TemplateKey> {
        let is_listed = |(kind, _): &&TemplateKey| self.kinds.get(kind) == Some(&Listing::Listed);
        self.unread.iter().filter(is_listed).cloned().collect()
    }

    /// Whether these templates are noted as named by classes, and none of them is still being listed or read.
    pub(super) fn is_settled(&self, keys: &BTreeSet<TemplateKey>) -> bool {
        let is_settled = |key: &TemplateKey| {
            let is_listing = matches!(self.kinds.get(&key.0), None | Some(Listing::Unlisted));
            self.named.contains_key(key) && !is_listing
        };
        keys.iter().all(is_settled) && self.unread().is_empty()
    }

    /// Stores the result of a read, unless the watch has shown the template meanwhile.
    pub(super) fn read(&mut self, key: &TemplateKey, read: Result<Option<RawObject>, TemplateReadError>) {
        if !self.unread.contains(key) {
            return;
        }
        match read {
            Ok(Some(written)) => self.hold(key, StoredTemplate::new(written), false),
            Ok(None) => {
                self.take_named(key);
                self.named.insert(key.clone(), HeldTemplate::Absent);
                self.unread.remove(key);
            }
            Err(error) => {
                if let Some(HeldTemplate::Pending(because)) = self.named.get_mut(key) {
                    *because = Some(error.to_string());
                }
            }
        }
    }

    /// A template, as far as it is known. One that no class names may exist.
    pub(super) fn get(&self, reference: &ObjectRef) -> Found<Arc<StoredTemplate>> {
        let key = template_key(reference);
        match self.named.get(&key) {
            Some(HeldTemplate::Present { template, .. }) => Found::Yes(template.clone()),
            Some(HeldTemplate::Absent) => Found::Absent,
            Some(HeldTemplate::TooLarge) => Found::Unreadable("there is no memory left for it".to_owned()),
            Some(HeldTemplate::Pending(Some(reason))) => Found::Unreadable(reason.clone()),
            Some(HeldTemplate::Pending(None)) | None => match self.spare.peek(&key) {
                Some(template) => Found::Yes(template.clone()),
                None => Found::Unreadable(self.unknown(&key.0)),
            },
        }
    }

    /// Why a template is not known.
    fn unknown(&self, kind: &ObjectKind) -> String {
        match self.kinds.get(kind) {
            Some(Listing::Unlisted) => "the templates of its kind are not listed yet".to_owned(),
            Some(Listing::Failed(reason)) => reason.clone(),
            Some(Listing::Listed) => "the watch of its kind has not shown it yet".to_owned(),
            None => "its kind is not watched, since no stored ClusterClass refers to it".to_owned(),
        }
    }

    fn hold(&mut self, key: &TemplateKey, template: Arc<StoredTemplate>, is_watched: bool) {
        self.take_named(key);
        self.unread.remove(key);
        let bytes = template.bytes;
        let held = match self.make_room(bytes) {
            true => {
                self.bytes += bytes;
                HeldTemplate::Present { template, is_watched }
            }
            false => HeldTemplate::TooLarge,
        };
        self.named.insert(key.clone(), held);
    }

    fn take_named(&mut self, key: &TemplateKey) -> Option<HeldTemplate> {
        let held = self.named.remove(key)?;
        if let HeldTemplate::Present { template, .. } = &held {
            self.bytes -= template.bytes;
        }
        Some(held)
    }

    /// Drops spare templates until there is room; returns whether there is.
    fn make_room(&mut self, bytes: usize) -> bool {
        let fits =
            |store: &Self| store.bytes.saturating_add(store.spare_bytes).saturating_add(bytes) <= store.most_bytes;
        while !fits(self) && self.drop_spare() {}
        fits(self)
    }

    fn put_spare(&mut self, key: &TemplateKey, template: Arc<StoredTemplate>) {
        self.take_spare(key);
        // A review decodes it for itself.
        self.spare_bytes += template.bytes;
        self.spare.put(key.clone(), template);
        let is_full = |store: &Self| {
            store.spare_bytes > store.most_bytes / SPARE || store.bytes + store.spare_bytes > store.most_bytes
        };
        while is_full(self) && self.drop_spare() {}
    }

    fn take_spare(&mut self, key: &TemplateKey) -> Option<Arc<StoredTemplate>> {
        let template = self.spare.pop(key)?;
        self.spare_bytes -= template.bytes;
        Some(template)
    }

    fn drop_spare(&mut self) -> bool {
        let oldest = self.spare.pop_lru();
        if let Some((_, template)) = &oldest {
            self.spare_bytes -= template.bytes;
        }
        oldest.is_some()
    }
}

/// Divisor of the memory for spare templates.
const SPARE: usize = 4;

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::observations::ListProgress;

    fn kind() -> ObjectKind {
        ObjectKind { group: "g.io".to_owned(), version: "v1".to_owned(), kind: "ATemplate".to_owned() }
    }

    fn key(name: &str) -> TemplateKey {
        (kind(), ObjectKey::new("ns", name))
    }

    fn written(name: &str, version: &str) -> RawObject {
        let metadata = json!({"namespace": "ns", "name": name, "resourceVersion": version, "managedFields": [{}]});
        serde_json::from_value(json!({"apiVersion": "g.io/v1", "kind": "ATemplate", "metadata": metadata})).unwrap()
    }

    /// A store, and the watch of one kind.
    struct Watch(TemplateStore, ListProgress);

    impl Watch {
        fn new(most_bytes: usize) -> Self {
            let mut store = TemplateStore::new(most_bytes);
            store.begin(&kind());
            Watch(store, ListProgress::default())
        }

        fn see(&mut self, event: Event<RawObject>) -> bool {
            let seen = self.1.seen(event);
            self.0.see(&kind(), seen)
        }

        fn list(&mut self, templates: &[(&str, &str)]) {
            self.see(Event::Init);
            for (name, version) in templates {
                self.see(Event::InitApply(written(name, version)));
            }
            self.see(Event::InitDone);
        }

        /// The version of a template that is known.
        fn version(&self, name: &str) -> Found<String> {
            let reference = ObjectRef::new("g.io/v1", "ATemplate", ObjectKey::new("ns", name));
            self.0.get(&reference).map(|template| {
                let object = template.object().unwrap();
                assert_eq!(object.at("metadata.managedFields"), None);
                object.text("metadata.resourceVersion").unwrap().unwrap().to_owned()
            })
        }
    }

    fn yes(version: &str) -> Found<String> {
        Found::Yes(version.to_owned())
    }

    #[test]
    fn what_was_read_yields_to_what_the_watch_shows() {
        // DEC-57
        let mut watch = Watch::new(1 << 20);
        watch.0.name(&key("a"));
        assert!(watch.0.unread().is_empty(), "the list may show it");
        watch.list(&[]);
        assert_eq!(watch.0.unread(), [key("a")]);
        watch.see(Event::Apply(written("a", "7")));
        watch.0.read(&key("a"), Ok(None));
        assert_eq!((watch.version("a"), watch.0.unread().len()), (yes("7"), 0));
        watch.list(&[("a", "6")]);
        assert_eq!(watch.version("a"), yes("6"), "the API server was restored from an older copy");

        // It gets the label of copies, so the watch shows that it is gone.
        assert!(watch.see(Event::Delete(written("a", "8"))));
        assert!(matches!(watch.version("a"), Found::Unreadable(_)));
        watch.0.read(&key("a"), Err(TemplateReadError::TimedOut));
        assert_eq!(
            (watch.version("a"), watch.0.unread().len()),
            (Found::Unreadable(TemplateReadError::TimedOut.to_string()), 1)
        );
        watch.0.read(&key("a"), Ok(Some(written("a", "8"))));
        assert_eq!((watch.version("a"), watch.0.unread().len()), (yes("8"), 0));
        watch.list(&[]);
        assert_eq!(watch.version("a"), yes("8"), "no list shows it");
        watch.0.name(&key("a"));
        assert_eq!((watch.version("a"), watch.0.unread().len()), (yes("8"), 1), "its class has changed");
        watch.see(Event::Apply(written("a", "9")));
        watch.list(&[]);
        assert_eq!(watch.0.unread(), [key("a")], "a list without it");
        watch.0.read(&key("a"), Ok(None));
        assert_eq!(watch.version("a"), Found::Absent);
    }

    #[test]
    fn spare_templates_make_room_for_those_that_classes_name() {
        // DEC-44
        let size = StoredTemplate::new(written("a", "1")).bytes;
        let mut watch = Watch::new(4 * size);
        watch.list(&[("a", "1"), ("b", "1")]);
        let known = |watch: &Watch| ["a", "b", "c"].map(|name| matches!(watch.version(name), Found::Yes(_)));
        assert_eq!(known(&watch), [false, true, false], "a quarter is for spare ones, the latest");
        watch.0.name(&key("b"));
        watch.see(Event::Apply(written("a", "2")));
        assert_eq!((known(&watch), watch.0.bytes, watch.0.spare_bytes), ([true, true, false], size, size));
        for name in ["c", "d", "e", "f"] {
            watch.0.name(&key(name));
            watch.see(Event::Apply(written(name, "3")));
        }
        assert_eq!((known(&watch), watch.0.bytes, watch.0.spare_bytes), ([false, true, true], 4 * size, 0));
        assert_eq!(watch.version("f"), Found::Unreadable("there is no memory left for it".to_owned()));
        watch.0.release(&key("b"));
        watch.0.release(&key("c"));
        watch.0.name(&key("f"));
        assert_eq!(watch.0.unread(), [key("f")], "there is room again");
        watch.0.read(&key("f"), Ok(Some(written("f", "3"))));
        assert_eq!(watch.version("f"), yes("3"));
        watch.0.end(&kind());
        assert_eq!((watch.0.bytes, watch.0.spare_bytes, watch.0.named.len()), (0, 0, 0));
    }
}
