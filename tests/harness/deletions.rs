//! Deletions of ConfigMaps that own each other, and the stores that carry them out: the virtual clock of simulations,
//! and API servers.

use std::collections::BTreeMap;

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use topologist::calendar::Moment;
use topologist::garbage::Propagation;
use topologist::hub::{Object, ObjectKey};
use topologist::lifecycle::simulator::MachineSimulator;
use topologist::lifecycle::{GroupKind, MachineSettings, ObjectId};

use Form::{Blocking, OtherKind, Plain, Renamed, UnknownKind};
use Step::{Delete, Own, Release};

/// The finalizer that [`Step::Release`] removes.
const FINALIZER: &str = "example.com/held";

/// One write of a scenario.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates a ConfigMap with these owners, held by a finalizer or not.
    Create { name: &'static str, owners: Vec<Owner>, is_held: bool },
    /// Deletes a ConfigMap, if it is there.
    Delete(&'static str, Option<Propagation>),
    /// Removes the finalizer of a ConfigMap, if it is there.
    Release(&'static str),
    /// Sets the owners of a ConfigMap, if it is there.
    Own(&'static str, Vec<Owner>),
}

/// An owner reference.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The ConfigMap whose uid it has: the one that is there, or the last one that was.
    pub object: &'static str,
    pub form: Form,
}

/// The form of an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `blockOwnerDeletion: true`
    Blocking,
    /// Without `blockOwnerDeletion`.
    Plain,
    /// With another name than the object of the uid.
    Renamed,
    /// With another kind, of which there is no object with the uid.
    OtherKind,
    /// With a kind that is not served.
    UnknownKind,
}

/// Names of ConfigMaps that begin so are in a second namespace.
const ELSEWHERE: &str = "far-";

/// Something that stores ConfigMaps and collects garbage.
#[allow(async_fn_in_trait, reason = "tests name the types")]
pub trait Store {
    /// The uid of a new object, or the reason why there is none.
    async fn create(&mut self, object: Value) -> Option<String>;
    async fn delete(&mut self, name: &str, policy: Option<Propagation>);
    async fn get(&self, name: &str) -> Option<Value>;
    /// Replaces a list of the metadata.
    async fn set(&mut self, name: &str, list: &str, entries: Value);
}

/// A store, and the uids of the objects that it has had.
pub struct Player<S> {
    pub store: S,
    uids: BTreeMap<&'static str, String>,
}

/// The names of the objects that are there, each with its state.
pub type Left = BTreeMap<&'static str, Value>;

impl<S: Store> Player<S> {
    pub fn new(store: S) -> Self {
        Player { store, uids: BTreeMap::new() }
    }

    /// Carries out a step.
    pub async fn play(&mut self, step: &Step) {
        match step {
            Step::Create { name, owners, is_held } => {
                let finalizers = if *is_held { json!([FINALIZER]) } else { json!([]) };
                let owners = self.references(owners);
                let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
                if let Some(uid) = self.store.create(object).await {
                    self.uids.insert(name, uid);
                }
            }
            Step::Delete(name, policy) => self.store.delete(name, *policy).await,
            Step::Release(name) => {
                let Some(object) = self.store.get(name).await else { return };
                let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                let left: Vec<Value> = finalizers.into_iter().filter(|finalizer| finalizer != FINALIZER).collect();
                self.store.set(name, "finalizers", json!(left)).await;
            }
            Step::Own(name, owners) => {
                if self.store.get(name).await.is_some() {
                    let owners = self.references(owners);
                    self.store.set(name, "ownerReferences", owners).await;
                }
            }
        }
    }

    fn references(&self, owners: &[Owner]) -> Value {
        let reference = |owner: &Owner| {
            let uid = self.uids.get(owner.object).map_or("never", String::as_str);
            let name = if owner.form == Form::Renamed { "renamed" } else { owner.object };
            let kind = match owner.form {
                Form::OtherKind => "Secret",
                Form::UnknownKind => "Unknown",
                _ => "ConfigMap",
            };
            let mut reference = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
            if owner.form == Form::Blocking {
                reference["blockOwnerDeletion"] = json!(true);
            }
            reference
        };
        owners.iter().map(reference).collect()
    }

    /// The objects that are left: whether they are being deleted, their finalizers, and the names of their owners.
    pub async fn left(&self) -> Left {
        let mut left = Left::new();
        for name in self.uids.keys().copied().collect::<Vec<_>>() {
            let Some(object) = self.store.get(name).await else { continue };
            let metadata = &object["metadata"];
            let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            let state = json!({
                "isBeingDeleted": metadata["deletionTimestamp"].is_string(),
                "finalizers": metadata["finalizers"].as_array().cloned().unwrap_or_default(),
                "owners": owners.map(|owner| owner["name"].clone()).collect::<Vec<_>>(),
            });
            left.insert(name, state);
        }
        left
    }
}

/// The store of simulations.
pub struct VirtualClock(MachineSimulator);

impl VirtualClock {
    pub fn new() -> Self {
        let now = Moment::parse("2026-01-01T00:00:00Z").unwrap();
        let mut simulator = MachineSimulator::new(MachineSettings::default(), now);
        for kind in ["ConfigMap", "Secret"] {
            simulator.objects.set_listed(&GroupKind::new("", kind), None);
        }
        VirtualClock(simulator)
    }

    fn id(name: &str) -> ObjectId {
        let namespace = if name.starts_with(ELSEWHERE) { "far" } else { "near" };
        ObjectId::new(GroupKind::new("", "ConfigMap"), ObjectKey::new(namespace, name))
    }
}

impl Store for VirtualClock {
    async fn create(&mut self, mut object: Value) -> Option<String> {
        let id = Self::id(object["metadata"]["name"].as_str().unwrap());
        object["metadata"]["namespace"] = json!(id.key.namespace);
        let created = self.0.create(None, Object::try_from(object).unwrap()).ok()?;
        Some(created.uid().to_owned())
    }

    async fn delete(&mut self, name: &str, policy: Option<Propagation>) {
        self.0.delete_with(&Self::id(name), policy);
    }

    async fn get(&self, name: &str) -> Option<Value> {
        self.0.objects.get(&Self::id(name)).map(|object| object.as_ref().as_ref().clone())
    }

    async fn set(&mut self, name: &str, list: &str, entries: Value) {
        let before = self.0.objects.get(&Self::id(name)).unwrap().clone();
        let mut after = (*before).clone();
        after.set(&format!("metadata.{list}"), entries).unwrap();
        self.0.update(None, &before, after).unwrap();
    }
}

/// An API server.
pub struct Server {
    near: Api<DynamicObject>,
    far: Api<DynamicObject>,
}

impl Server {
    /// Two namespaces of an API server, which exist.
    pub fn new(client: &kube::Client, near: &str, far: &str) -> Self {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let namespaced = |namespace| Api::namespaced_with(client.clone(), namespace, &resource);
        Server { near: namespaced(near), far: namespaced(far) }
    }

    fn api(&self, name: &str) -> &Api<DynamicObject> {
        if name.starts_with(ELSEWHERE) { &self.far } else { &self.near }
    }
}

impl Store for Server {
    async fn create(&mut self, object: Value) -> Option<String> {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api = self.api(object.metadata.name.as_deref().unwrap());
        match api.create(&PostParams::default(), &object).await {
            Ok(created) => created.metadata.uid,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn delete(&mut self, name: &str, policy: Option<Propagation>) {
        let propagation_policy = policy.map(|policy| match policy {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        });
        match self.api(name).delete(name, &DeleteParams { propagation_policy, ..DeleteParams::default() }).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn get(&self, name: &str) -> Option<Value> {
        self.api(name).get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap())
    }

    async fn set(&mut self, name: &str, list: &str, entries: Value) {
        let patch = Patch::Merge(json!({"metadata": {list: entries}}));
        self.api(name).patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// What happens, and the steps of it.
pub type Scenario = (&'static str, Vec<Step>);

fn create(name: &'static str, owners: &[(&'static str, Form)]) -> Step {
    Step::Create { name, owners: owned_by(owners), is_held: false }
}

fn hold(name: &'static str, owners: &[(&'static str, Form)]) -> Step {
    Step::Create { name, owners: owned_by(owners), is_held: true }
}

fn owned_by(owners: &[(&'static str, Form)]) -> Vec<Owner> {
    owners.iter().map(|(object, form)| Owner { object, form: *form }).collect()
}

const BACKGROUND: Option<Propagation> = Some(Propagation::Background);
const FOREGROUND: Option<Propagation> = Some(Propagation::Foreground);
const ORPHAN: Option<Propagation> = Some(Propagation::Orphan);

/// The deletions on which all stores have to agree.
pub fn scenarios() -> Vec<Scenario> {
    [owners_and_dependents(), owners_that_wait(), references()].concat()
}

/// A chain of three objects with this root, and more steps.
fn chain(root: Step, more: &[Step]) -> Vec<Step> {
    let chain = [root, create("b", &[("a", Blocking)]), create("c", &[("b", Blocking)])];
    [&chain, more].concat()
}

fn owners_and_dependents() -> Vec<Scenario> {
    vec![
        ("a chain in the background", chain(create("a", &[]), &[Delete("a", BACKGROUND)])),
        ("a chain without a policy", chain(create("a", &[]), &[Delete("a", None)])),
        ("a chain whose root stays as long as it is held", chain(hold("a", &[]), &[Delete("a", None), Release("a")])),
        ("orphans keep what they own", chain(create("a", &[]), &[Delete("a", ORPHAN)])),
        (
            "orphans of an owner that is held",
            chain(hold("a", &[]), &[Delete("a", ORPHAN), Release("a"), Delete("b", BACKGROUND)]),
        ),
        (
            "one of two owners",
            vec![create("a", &[]), create("b", &[]), create("c", &[("a", Plain), ("b", Blocking)]), Delete("a", None)],
        ),
        (
            "both owners, one after the other",
            vec![
                create("a", &[]),
                create("b", &[]),
                create("c", &[("a", Plain), ("b", Blocking)]),
                Delete("a", FOREGROUND),
                Delete("b", FOREGROUND),
            ],
        ),
        (
            "a dependent that is held",
            vec![create("a", &[]), hold("b", &[("a", Plain)]), Delete("a", None), Release("b")],
        ),
    ]
}

fn owners_that_wait() -> Vec<Scenario> {
    vec![
        ("a chain in the foreground", chain(create("a", &[]), &[Delete("a", FOREGROUND)])),
        (
            "both owners, one of which waits",
            vec![
                create("a", &[]),
                create("b", &[]),
                hold("c", &[("a", Blocking), ("b", Blocking)]),
                Delete("b", None),
                Delete("a", FOREGROUND),
                Release("c"),
            ],
        ),
        (
            "the foreground waits for a dependent that blocks",
            vec![create("a", &[]), hold("b", &[("a", Blocking)]), Delete("a", FOREGROUND), Release("b")],
        ),
        (
            "the foreground does not wait for a dependent that does not block",
            vec![create("a", &[]), hold("b", &[("a", Plain)]), Delete("a", FOREGROUND), Release("b")],
        ),
        (
            "the foreground reaches down a chain that is held in the middle",
            vec![
                create("a", &[]),
                hold("b", &[("a", Blocking)]),
                create("c", &[("b", Blocking)]),
                Delete("a", FOREGROUND),
                Release("b"),
            ],
        ),
        (
            "the foreground waits for the end of a chain",
            vec![
                create("a", &[]),
                create("b", &[("a", Blocking)]),
                hold("c", &[("b", Blocking)]),
                Delete("a", FOREGROUND),
                Release("c"),
            ],
        ),
        (
            "a dependent with another owner leaves the one that is deleted in the foreground",
            vec![
                create("a", &[]),
                create("b", &[]),
                hold("c", &[("a", Blocking), ("b", Blocking)]),
                Delete("a", FOREGROUND),
            ],
        ),
        (
            "a dependent that is disowned lets the foreground go on",
            vec![
                create("a", &[]),
                create("b", &[]),
                hold("c", &[("a", Blocking)]),
                Delete("a", FOREGROUND),
                Own("c", vec![Owner { object: "b", form: Plain }]),
                Delete("b", None),
            ],
        ),
        (
            "a later request replaces the policy",
            vec![
                create("a", &[]),
                hold("b", &[("a", Blocking)]),
                Delete("a", FOREGROUND),
                Delete("a", BACKGROUND),
                Release("b"),
            ],
        ),
        (
            "orphan instead of foreground while it waits",
            vec![
                hold("a", &[]),
                hold("b", &[("a", Blocking)]),
                Delete("a", FOREGROUND),
                Delete("a", ORPHAN),
                Release("a"),
                Release("b"),
            ],
        ),
        (
            "an object that is created while its owner waits",
            vec![
                create("a", &[]),
                hold("b", &[("a", Blocking)]),
                Delete("a", FOREGROUND),
                create("c", &[("a", Blocking)]),
                Release("b"),
            ],
        ),
    ]
}

fn references() -> Vec<Scenario> {
    vec![
        ("an owner that never existed", vec![create("a", &[("x", Plain)]), create("b", &[("a", Plain)])]),
        ("an owner of another name", vec![create("a", &[]), create("b", &[("a", Renamed)])]),
        ("an owner of another kind", vec![create("a", &[]), create("b", &[("a", OtherKind)])]),
        (
            "an owner of a kind that is not served",
            vec![create("a", &[]), create("b", &[("a", UnknownKind), ("a", Plain)]), Delete("a", None)],
        ),
        ("an owner in another namespace", vec![create("far-a", &[]), create("b", &[("far-a", Plain)])]),
        (
            "a circle",
            vec![
                create("a", &[]),
                create("b", &[("a", Blocking)]),
                Own("a", vec![Owner { object: "b", form: Blocking }]),
                Delete("a", None),
            ],
        ),
        (
            "an object of the same name as its owner had",
            vec![hold("a", &[]), create("b", &[("a", Plain)]), Delete("a", None), Release("a"), create("a", &[])],
        ),
    ]
}
