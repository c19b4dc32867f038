//! Runs steps on a virtual clock and applies their writes immediately (MA-30.1).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use core::time::Duration;

use serde_json::json;

mod garbage;

use super::context::StepContext;
use super::dependents::dependents;
use super::dispatch::next;
use super::fields::{later, stamp};
use super::objects::{GroupKind, MachineCache, ObjectId, RefusedEviction};
use super::settings::MachineSettings;
use super::step::{ObjectWrite, Reconciliation, StepEvent, StepOutcome, StepWrite};
use golang::calendar::Moment;
use model::hub::contract::definition_name;
use model::hub::contract::{Contract, assumed, listed};
use model::hub::{GROUP, Object, ObjectKey, paths, version_of};

/// Initial and maximum retry interval of a failed step.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// Why an object is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("{0} already exists")]
    AlreadyExists(Box<ObjectId>),
    #[error("{0} not found")]
    NotFound(Box<ObjectId>),
    /// It was read before the last change.
    #[error("{0} has changed")]
    Changed(Box<ObjectId>),
    /// A webhook denies the write, for instance.
    #[error("{0} is refused")]
    Refused(Box<ObjectId>),
}

/// Objects, what is due, and the time.
#[derive(Debug)]
pub struct MachineSimulator {
    pub objects: MachineCache,
    pub settings: MachineSettings,
    now: Moment,
    /// Objects that are due now.
    due: Due,
    /// Objects that are due later.
    timers: Timers,
    failures: HashMap<ObjectId, (u32, String)>,
    /// Everything that was told.
    pub events: Vec<(Moment, ObjectId, StepEvent)>,
    /// Objects that garbage collection has to look at.
    uncollected: VecDeque<ObjectId>,
    /// Objects whose deletion in the foreground is not complete, by uid.
    waiting: HashMap<String, ObjectId>,
    /// What has changed since [`MachineSimulator::take_changes`]: before and after.
    changes: Vec<StoredChange>,
    /// Labels of definitions, by name, which determine the contracts of versions.
    definitions: BTreeMap<String, BTreeMap<String, String>>,
    /// The contract of kinds without a definition; `None` for the assumption of DEC-17.
    pub assumed: Option<Contract>,
    /// The changes that webhooks make to an object of the management cluster before it is stored.
    pub admit: fn(&mut Object),
    /// Whether a write is refused.
    pub refuses: fn(&ObjectWrite) -> bool,
    numbers: u64,
    steps: u64,
}

/// Due times, indexed by object and by time.
#[derive(Debug, Default)]
struct Timers {
    by_object: HashMap<ObjectId, Moment>,
    by_time: BTreeSet<(Moment, ObjectId)>,
}

impl Timers {
    fn set(&mut self, id: &ObjectId, at: Moment) {
        self.remove(id);
        self.by_object.insert(id.clone(), at);
        self.by_time.insert((at, id.clone()));
    }

    fn remove(&mut self, id: &ObjectId) {
        if let Some(at) = self.by_object.remove(id) {
            self.by_time.remove(&(at, id.clone()));
        }
    }

    fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes the objects that are due at a time.
    fn take_until(&mut self, now: Moment) -> Vec<ObjectId> {
        let mut due = Vec::new();
        while self.next().is_some_and(|at| at <= now) {
            let Some((_, id)) = self.by_time.pop_first() else { break };
            self.by_object.remove(&id);
            due.push(id);
        }
        due
    }
}

/// Due objects, in the order of aggregation: an object runs after the objects that it aggregates have settled.
#[derive(Debug, Default)]
struct Due {
    by_rank: [BTreeSet<ObjectId>; RANKS],
}

/// Number of ranks.
const RANKS: usize = 6;

/// The aggregation rank of a kind, from the parts of machines to the Cluster.
fn rank(kind: &GroupKind) -> usize {
    match (&*kind.group, &*kind.kind) {
        (GROUP, "Machine") => 1,
        (GROUP, "MachineSet") => 2,
        (GROUP, "MachineDeployment" | "MachinePool") => 3,
        (GROUP, "MachineHealthCheck") => 4,
        (GROUP, "Cluster") => 5,
        (_, kind) if kind.ends_with("ControlPlane") => 3,
        _ => 0,
    }
}

impl Due {
    fn insert(&mut self, id: ObjectId) {
        if let Some(ids) = self.by_rank.get_mut(rank(&id.kind)) {
            ids.insert(id);
        }
    }

    fn extend(&mut self, ids: impl IntoIterator<Item = ObjectId>) {
        ids.into_iter().for_each(|id| self.insert(id));
    }

    fn pop_first(&mut self) -> Option<ObjectId> {
        self.by_rank.iter_mut().find_map(BTreeSet::pop_first)
    }

    fn is_empty(&self) -> bool {
        self.by_rank.iter().all(BTreeSet::is_empty)
    }
}

/// A change of a stored object; `None` before its creation or after its deletion.
#[derive(Clone, Debug)]
pub struct StoredChange {
    pub id: ObjectId,
    pub before: Option<Arc<Object>>,
    pub after: Option<Arc<Object>>,
}

impl MachineSimulator {
    /// A simulator without objects at a point in time.
    pub fn new(settings: MachineSettings, now: Moment) -> Self {
        MachineSimulator {
            objects: MachineCache::default(),
            settings,
            now,
            due: Due::default(),
            timers: Timers::default(),
            failures: HashMap::new(),
            events: Vec::new(),
            uncollected: VecDeque::new(),
            waiting: HashMap::new(),
            changes: Vec::new(),
            definitions: BTreeMap::new(),
            assumed: None,
            admit: |_| {},
            refuses: |_| false,
            numbers: 0,
            steps: 0,
        }
    }

    /// The current time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Sets the labels of a definition, which determine the contracts of its versions (CT-3.3).
    pub fn define(&mut self, name: String, labels: BTreeMap<String, String>) {
        self.definitions.insert(name, labels);
    }

    /// The changes since the last call.
    pub fn take_changes(&mut self) -> Vec<StoredChange> {
        std::mem::take(&mut self.changes)
    }

    /// The contract of a version of a kind: by its definition, else the assumed one (DEC-17).
    fn contract_of(&self, object: &Object) -> Contract {
        let (group, kind, version) = (object.group(), object.kind(), version_of(object.api_version()));
        let labels = self.definitions.get(&definition_name(group, kind));
        let assumed = || self.assumed.unwrap_or_else(|| assumed(group, kind, version));
        labels.and_then(|labels| listed(labels, version)).unwrap_or_else(assumed)
    }

    /// Creates an object as an API server does: with uid, creation time and generation.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn create(&mut self, workload: Option<&ObjectKey>, mut object: Object) -> Result<Arc<Object>, StoreError> {
        let id = ObjectId { workload: workload.cloned(), ..ObjectId::for_object(&object) };
        if self.objects.get(&id).is_some() {
            return Err(StoreError::AlreadyExists(id.into()));
        }
        if workload.is_none() {
            (self.admit)(&mut object);
        }
        self.numbers += 1;
        let number = self.numbers;
        let metadata = super::fields::map_mut(&mut object, "metadata");
        metadata.entry("uid").or_insert_with(|| json!(format!("uid-{number}")));
        metadata.insert("resourceVersion".to_owned(), json!(number.to_string()));
        metadata.insert("generation".to_owned(), json!(1));
        metadata.insert("creationTimestamp".to_owned(), stamp(self.now));
        if workload.is_none() && self.objects.contract(&id.kind).is_none() {
            self.objects.set_listed(&id.kind, Some(self.contract_of(&object)));
        }
        let object = Arc::new(object);
        self.store(&id, Some(object.clone()));
        self.collect_garbage();
        Ok(object)
    }

    /// Stores an object of an API server with its uid, creation time and generation.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn insert(&mut self, mut object: Object) -> Result<(), StoreError> {
        let id = ObjectId::for_object(&object);
        if self.objects.get(&id).is_some() {
            return Err(StoreError::AlreadyExists(id.into()));
        }
        self.numbers += 1;
        super::fields::set(&mut object, paths::metadata::RESOURCE_VERSION, json!(self.numbers.to_string()));
        if self.objects.contract(&id.kind).is_none() {
            self.objects.set_listed(&id.kind, Some(self.contract_of(&object)));
        }
        let object = Arc::new(object);
        self.put(&id, Some(object.clone()));
        if object.is_being_deleted() {
            self.collect_later(&id, &object);
        }
        Ok(())
    }

    /// Updates an object; one that is being deleted is removed with its last finalizer.
    ///
    /// # Errors
    /// When it is gone, or has changed meanwhile.
    pub fn update(
        &mut self,
        workload: Option<&ObjectKey>,
        before: &Object,
        mut after: Object,
    ) -> Result<(), StoreError> {
        let id = ObjectId { workload: workload.cloned(), ..ObjectId::for_object(before) };
        let Some(known) = self.objects.get(&id).cloned() else { return Err(StoreError::NotFound(id.into())) };
        let version = |object: &Object| object.at(paths::metadata::RESOURCE_VERSION).cloned();
        if version(&known) != version(before) {
            return Err(StoreError::Changed(id.into()));
        }
        if *known == after {
            return Ok(());
        }
        self.numbers += 1;
        let generation = known.generation().unwrap_or(1);
        let has_new_spec = known.at("spec") != after.at("spec");
        let metadata = super::fields::map_mut(&mut after, "metadata");
        metadata.insert("resourceVersion".to_owned(), json!(self.numbers.to_string()));
        metadata.insert("generation".to_owned(), json!(generation + i64::from(has_new_spec)));
        let is_gone = after.is_being_deleted() && after.finalizers().is_empty();
        self.store(&id, (!is_gone).then(|| Arc::new(after)));
        self.collect_garbage();
        Ok(())
    }

    fn put(&mut self, id: &ObjectId, object: Option<Arc<Object>>) -> Option<Arc<Object>> {
        let before = match &object {
            Some(object) => self.objects.put(id, object.clone()),
            None => self.objects.remove(id),
        };
        self.due.extend(dependents(&self.objects, id, before.as_deref(), object.as_deref()));
        if id.workload.is_none() {
            self.due.insert(id.clone());
        }
        self.changes.push(StoredChange { id: id.clone(), before: before.clone(), after: object });
        before
    }

    /// Runs the steps of due objects until none is due, or until `most` steps have run; returns whether it settled.
    pub fn settle(&mut self, most: usize) -> bool {
        self.collect_garbage();
        for _ in 0..most {
            let Some(id) = self.due.pop_first() else { return true };
            self.timers.remove(&id);
            self.take(&id);
        }
        self.due.is_empty()
    }

    /// Number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs the next step of one object.
    pub fn take(&mut self, id: &ObjectId) {
        self.steps += 1;
        let context = StepContext::new(&self.objects, &self.settings, self.now);
        match next(context, id) {
            StepOutcome::Needs(kinds) => {
                // The first object of a kind determines its contract.
                kinds.iter().for_each(|kind| self.objects.set_listed(kind, None));
                self.due.insert(id.clone());
            }
            StepOutcome::Done(step) => self.carry_out(id, step),
        }
    }

    fn carry_out(&mut self, id: &ObjectId, step: Reconciliation) {
        let mut errors = step.errors;
        let mut has_failures = false;
        for part in step.writes {
            let (writes, is_required) = match part {
                StepWrite::Required(write) if has_failures => (vec![write.without_observation()], true),
                StepWrite::Required(write) => (vec![write], true),
                StepWrite::Attempted(writes) => (writes, false),
            };
            if let Err(error) = writes.into_iter().try_for_each(|write| self.write(write)) {
                has_failures = true;
                errors.push(error.to_string());
                if is_required || !matches!(error, StoreError::Refused(_)) {
                    break;
                }
            }
        }
        self.events.extend(step.events.into_iter().map(|event| (self.now, id.clone(), event)));
        if errors.is_empty() {
            self.failures.remove(id);
            if let Some(again) = step.requeue_after {
                self.timers.set(id, later(self.now, again));
            }
            return;
        }
        let (count, text) = self.failures.entry(id.clone()).or_default();
        *count += 1;
        *text = errors.join("; ");
        let wait = FIRST_RETRY.saturating_mul(1 << (*count - 1).min(6)).min(LAST_RETRY);
        self.timers.set(id, later(self.now, wait));
    }

    fn write(&mut self, write: ObjectWrite) -> Result<(), StoreError> {
        if let Some(object) = write.object().filter(|_| (self.refuses)(&write)) {
            let id = ObjectId { workload: write.workload().cloned(), ..ObjectId::for_object(object) };
            let refused = StoreError::Refused(id.into());
            let ObjectWrite::Evict { workload, pod, .. } = &write else { return Err(refused) };
            let refusal = RefusedEviction { reason: refused.to_string(), at: self.now };
            self.objects.note_eviction(workload, &pod.key(), Some(refusal));
            return Ok(());
        }
        match write {
            ObjectWrite::Create { workload, objects } => {
                let mut made = Vec::new();
                for object in objects {
                    let id = ObjectId { workload: workload.clone(), ..ObjectId::for_object(&object) };
                    if let Err(error) = self.create(workload.as_ref(), object) {
                        made.iter().for_each(|id| self.delete(id));
                        return Err(error);
                    }
                    made.push(id);
                }
                Ok(())
            }
            ObjectWrite::CreateIfAbsent { workload, object } => {
                let id = ObjectId { workload: workload.clone(), ..ObjectId::for_object(&object) };
                if self.objects.get(&id).is_none() {
                    self.create(workload.as_ref(), object)?;
                }
                Ok(())
            }
            ObjectWrite::Update { workload, before, after } => self.update(workload.as_ref(), &before, after),
            ObjectWrite::Delete { workload, object } => {
                self.delete(&ObjectId { workload, ..ObjectId::for_object(&object) });
                Ok(())
            }
            ObjectWrite::Evict { workload, pod, grace: _ } => {
                self.delete(&ObjectId { workload: Some(workload), ..ObjectId::for_object(&pod) });
                Ok(())
            }
            ObjectWrite::Connect { workload, up: true } => {
                self.objects.workload_mut(&workload).is_reachable = true;
                self.due
                    .extend(self.objects.everything_of(&workload).iter().map(|object| ObjectId::for_object(object)));
                self.due.insert(ObjectId::core("Cluster", &workload.namespace, &workload.name));
                Ok(())
            }
            // There is no server to connect to on a virtual clock.
            ObjectWrite::Follow { workload, on: true } => {
                self.objects.disconnect(&workload, None);
                Ok(())
            }
            ObjectWrite::Connect { workload, up: false } | ObjectWrite::Follow { workload, on: false } => {
                self.objects.forget_workload(&workload);
                self.due.insert(ObjectId::core("Cluster", &workload.namespace, &workload.name));
                Ok(())
            }
        }
    }

    /// Advances the clock only.
    #[cfg(test)]
    pub(super) fn advance_by(&mut self, by: Duration) {
        self.now = later(self.now, by);
    }

    /// Simulates a new process with the stored objects: workload clusters are empty, and every object is due.
    #[cfg(test)]
    pub(super) fn restart(&mut self) {
        let clusters: Vec<ObjectKey> =
            self.objects.all(&GroupKind::core("Cluster")).map(|cluster| cluster.key()).collect();
        clusters.iter().for_each(|cluster| self.objects.forget_workload(cluster));
        let all = self.objects.kinds().flat_map(|kind| self.objects.all(kind));
        let all: Vec<ObjectId> = all.map(|object| ObjectId::for_object(object)).collect();
        self.due = Due::default();
        self.due.extend(all);
        self.timers = Timers::default();
    }

    /// The next due time, if nothing is due now.
    pub fn next_due(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// Advances the clock to the next due time; returns whether there is one.
    pub fn advance(&mut self) -> bool {
        let Some(next) = self.next_due() else { return false };
        self.now = self.now.max(next);
        self.due.extend(self.timers.take_until(self.now));
        true
    }

    /// Runs for a period of virtual time; returns whether nothing is due by then.
    pub fn run(&mut self, lasts: Duration) -> bool {
        const STEPS: usize = 100_000;
        let end = later(self.now, lasts);
        loop {
            if !self.settle(STEPS) {
                return false;
            }
            match self.next_due() {
                Some(next) if next <= end => self.advance(),
                Some(_) => {
                    self.now = end;
                    return false;
                }
                None => return true,
            };
        }
    }

    /// Lets time pass, after which every object is due.
    #[cfg(any(test, feature = "testing"))]
    pub fn pass(&mut self, time: Duration) {
        self.now = later(self.now, time);
        self.due.extend(self.timers.take_until(self.now));
    }

    /// The error of an object's last step, if it failed.
    pub fn failure(&self, id: &ObjectId) -> Option<&str> {
        self.failures.get(id).map(|(_, text)| &**text)
    }
}
