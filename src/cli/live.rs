//! A running management cluster as input: what topologies are made of and what they have made, read once.
//!
//! ```text
//! Clusters, ClusterClasses ─► Computation ─► Needs ─► API server ─► objects ─┐
//!        ▲                        ▲                                          ├─► Input, as if it came from files
//!        └── the files of --to ───┴── what they hold need not be asked for ──┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::time::Instant;

use super::files::{Input, Loaded};
use super::offline::settled;
use super::sample::with_samples;
use crate::hub::contract::definition_name;
use crate::hub::{Cluster, ClusterClass, GROUP, Kind, Object, ObjectKey};
use crate::kubernetes::address::{self, Resource};
use crate::kubernetes::cache::Cache;
use crate::kubernetes::gather::Gatherer;
use crate::telemetry::metrics::Metrics;
use crate::topology::names::Derived;
use crate::topology::{Computation, Failure, Options, class_status};
use crate::wire::manifest;
use crate::wire::{Decode, Version};
use crate::world::{Answer, Facts, Found, Need, Objects, Record, World};
use crate::yaml::Document;

/// What stands in the place of a file name.
const SOURCE: &str = "<cluster>";
/// How many times a computation may ask for more.
const ROUNDS: usize = 16;
/// How long one round of questions may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many objects come in one part of a list.
const PAGE: u32 = 500;

/// Reads what the topologies of a cluster look at, now and once the files take the place of what it has.
///
/// # Errors
/// When the cluster cannot be reached, or does not serve Clusters and ClusterClasses.
pub(super) fn read(kubeconfig: Option<&Path>, after: &Facts, options: Options) -> Result<Input> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(kubeconfig).await?;
        let mut reading = Reading::of(client).await?;
        let now = reading.facts()?;
        reading.follow(&with_samples(now.clone(), after), &Objects::default(), options).await?;
        let then = with_samples(over(now, after), after);
        let files = after.objects().cloned().unwrap_or_default();
        reading.follow(&then, &files, options).await?;
        reading.into_input().await
    })
}

/// A client for the cluster of a kubeconfig, or of the one that kubectl would use.
async fn connect(kubeconfig: Option<&Path>) -> Result<kube::Client> {
    let read = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?,
        None => Kubeconfig::read().context("cannot find a kubeconfig; name one with --kubeconfig")?,
    };
    let context = read.current_context.clone().unwrap_or_default();
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    writeln!(io::stderr(), "topologist: reading {} (context {context:?})", config.cluster_url)?;
    kube::Client::try_from(config).context("cannot make a client for the API server")
}

/// The facts of the cluster, in which the Clusters and classes of files have taken the place of theirs.
fn over(mut now: Facts, files: &Facts) -> Facts {
    for key in files.class_keys() {
        if let Found::Yes(class) = files.class(key) {
            now.put_class(key.clone(), Record::readable(ClusterClass::clone(&class)));
        }
    }
    for key in files.cluster_keys() {
        let Found::Yes(written) = files.cluster(key) else { continue };
        let mut cluster = Cluster::clone(&written);
        if let Found::Yes(stored) = now.cluster(key) {
            cluster.metadata.uid.clone_from(&stored.metadata.uid);
            cluster.spec.infrastructure_ref.clone_from(&stored.spec.infrastructure_ref);
            cluster.spec.control_plane_ref.clone_from(&stored.spec.control_plane_ref);
        }
        now.put_cluster(key.clone(), Record::readable(cluster));
    }
    now
}

/// What has been read so far.
struct Reading {
    client: kube::Client,
    /// Clusters and ClusterClasses, as they are stored.
    stored: Vec<(Kind, Value)>,
    objects: BTreeMap<(String, String, ObjectKey), Arc<Object>>,
    definitions: BTreeSet<String>,
}

impl Reading {
    async fn of(client: kube::Client) -> Result<Self> {
        let mut stored = Vec::new();
        for kind in Kind::ALL {
            let objects = list(&client, kind).await.with_context(|| format!("cannot list {}", kind.plural()))?;
            stored.extend(objects.into_iter().map(|object| (kind, object)));
        }
        Ok(Reading { client, stored, objects: BTreeMap::new(), definitions: BTreeSet::new() })
    }

    fn facts(&self) -> Result<Facts> {
        let (mut clusters, mut classes) = (Vec::new(), Vec::new());
        for (kind, object) in &self.stored {
            let text = object.to_string();
            let unreadable = || format!("cannot read {} {}", kind.name(), object["metadata"]["name"]);
            match kind {
                Kind::Cluster => {
                    clusters.push(Cluster::decode(Version::V1Beta2, &text).ok().with_context(unreadable)?);
                }
                // Only kinds that are always guarded are listed.
                Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => {}
                // Its controller may not have seen it yet; what it will say follows from the spec.
                Kind::ClusterClass => {
                    let text = class_status::of_file(&text);
                    let class = ClusterClass::decode(Version::V1Beta2, &text).ok().with_context(unreadable)?;
                    classes.push(settled(class));
                }
            }
        }
        Ok(Facts::of(clusters, classes))
    }

    /// Asks for whatever the topologies of `facts` look at and `files` do not hold.
    async fn follow(&mut self, facts: &Facts, files: &Objects, options: Options) -> Result<()> {
        let keys: Vec<ObjectKey> = facts.cluster_keys().cloned().collect();
        let facts = Arc::new(facts.clone());
        let cache = Arc::new(Cache::new(Facts::clone(&facts)));
        let gatherer = Gatherer::of_cluster(cache, self.client.clone(), Arc::new(Metrics::default()));
        for key in keys {
            let Found::Yes(cluster) = facts.cluster(&key) else { continue };
            if cluster.topology().is_none() {
                continue;
            }
            let mut world = World::new(facts.clone());
            for _ in 0..ROUNDS {
                // What is wrong is said by the plan, which computes the same again.
                let outcome = Computation::of(&cluster, &world, &mut Derived, &options);
                let needs = world.take_needs();
                if needs.is_empty() || !matches!(outcome, Err(Failure::NotAsked)) {
                    break;
                }
                let (here, there): (Vec<_>, Vec<_>) = needs
                    .into_iter()
                    .map(|need| (in_files(&need, files), need))
                    .partition(|(answer, _)| answer.is_some());
                for (answer, need) in here {
                    answer.into_iter().for_each(|answer| world.pin(need.clone(), answer));
                }
                let there = there.into_iter().map(|(_, need)| need);
                for (need, answer) in gatherer.gather_all(there, Instant::now() + PATIENCE).await {
                    self.keep(&need, &answer);
                    world.pin(need, answer);
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, need: &Need, answer: &Answer) {
        let objects = match answer {
            Answer::Object(Found::Yes(object)) => std::slice::from_ref(object),
            Answer::List(Found::Yes(objects)) => objects.as_slice(),
            _ => &[],
        };
        for object in objects {
            let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
            self.definitions.insert(definition_name(&id.0, &id.1));
            self.objects.insert(id, object.clone());
        }
        if let Need::Definition(name) = need {
            self.definitions.insert(name.clone());
        }
    }

    /// Everything as if it had been in a file, with the definitions of all kinds that were met.
    async fn into_input(self) -> Result<Input> {
        let mut values: Vec<Value> = self.stored.into_iter().map(|(_, object)| object).collect();
        values.extend(self.objects.into_values().map(|object| Value::from(Object::clone(&object))));
        for name in self.definitions {
            // A name that is none has been reported as the answer to the question that it was part of.
            let Ok(one) = address::one_of_cluster::<CustomResourceDefinition>(self.client.clone(), &name) else {
                continue;
            };
            if let Some(definition) = one.get_opt().await.with_context(|| format!("cannot read {name}"))? {
                let mut value = serde_json::to_value(definition)?;
                value["apiVersion"] = "apiextensions.k8s.io/v1".into();
                value["kind"] = "CustomResourceDefinition".into();
                values.push(value);
            }
        }
        let mut input = Input::default();
        for value in values {
            let objects = manifest::objects(Document { line: 1, value, repeated: Vec::new() })?;
            input.objects.extend(objects.into_iter().map(|manifest| Loaded {
                file: SOURCE.to_owned(),
                manifest,
                repeated: Vec::new(),
            }));
        }
        Ok(input)
    }
}

/// What files answer, and what nobody is asked for the sake of a plan: hooks and the extensions of patches.
fn in_files(need: &Need, files: &Objects) -> Option<Answer> {
    match need {
        Need::Object(reference) => match files.object(reference) {
            Found::Absent => None,
            found => Some(Answer::Object(found)),
        },
        Need::Definition(name) => match files.definition(name) {
            Found::Absent => None,
            found => Some(Answer::Definition(found)),
        },
        Need::Hook(_) => Some(Answer::Hook(Found::Absent)),
        Need::Patch(_) => Some(Answer::Patch(Found::Absent)),
        Need::DryRun(_) => Some(Answer::DryRun(Found::Absent)),
        Need::GenerateUpgradePlan(_) => Some(need.unanswered("a plan asks no Runtime Extension")),
        Need::Class(_) | Need::List(_) | Need::Nodes { .. } => None,
    }
}

/// All objects of one of our kinds.
async fn list(client: &kube::Client, kind: Kind) -> Result<Vec<Value>> {
    let api = Resource::known(GROUP, "v1beta2", kind.name()).anywhere::<DynamicObject>(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        for mut object in page.items {
            object.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: format!("{GROUP}/v1beta2"),
                kind: kind.name().to_owned(),
            });
            all.push(serde_json::to_value(object)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}
