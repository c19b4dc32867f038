//! A running management cluster as input: the inputs and the objects of topologies, read once.
//!
//! ```text
//! Clusters, ClusterClasses ─► Computation ─► Needs ─► API server ─► objects ─┐
//!        ▲                        ▲                                          ├─► Input, as if it came from files
//!        └── the files of --to ───┴── what they hold need not be asked for ──┘
//! ```

mod machines;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::files::{FileInput, Undecoded};
use super::output;
use engine::extensions::config;
use engine::file_review::LoadedObject;
use engine::file_review::settled;
use engine::sample_clusters::with_samples;
use engine::topology::{Computation, Options, class_status};
use golang::yaml::YamlDocument;
use model::hub::contract::{definition_name, object_kind};
use model::hub::names::DeterministicNames;
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Object, ObjectKey, ObjectRef};
use model::wire::manifest;
use model::wire::{Decode, WireVersion};
use model::world::{Answer, DefinitionName, Facts, Found, Need, ObjectSet, Record, World, settle};
use server::kubernetes::address::Resource;
use server::kubernetes::cache::Cache;
use server::kubernetes::gather::Gatherer;
use server::telemetry::metrics::Metrics;

/// The source of objects, in place of a file name.
const SOURCE: &str = "<cluster>";
/// Timeout of one round of reads.
const PATIENCE: Duration = Duration::from_secs(30);
/// Objects per page of a list.
const PAGE: u32 = 500;

/// Reads the inputs of the topologies of a cluster, now and after applying the files.
///
/// # Errors
/// When the cluster cannot be reached, or does not serve Clusters and ClusterClasses.
pub(super) fn read(connection: &ClusterConnection, after: &Facts, options: Options, reach: Reach) -> Result<FileInput> {
    connection.block_on(async {
        let mut reading = ClusterReading::start(connection.client()).await?;
        let now = reading.facts();
        reading.note_kinds(after);
        reading.follow(&with_samples(now.clone(), after), &Facts::default(), options).await?;
        let then = with_samples(over(now, after), after);
        reading.follow(&then, after, options).await?;
        if reach == Reach::Machines {
            machines::read(&mut reading).await?;
        }
        reading.into_input().await
    })
}

/// The objects of a cluster that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// What topologies look at.
    Topologies,
    /// The machines of topologies as well, with everything that they refer to.
    Machines,
}

/// A client and its runtime.
#[derive(Debug)]
pub(super) struct ClusterConnection {
    runtime: Runtime,
    client: OpaqueClient,
}

/// A client without content in its `Debug` output.
struct OpaqueClient(kube::Client);

impl fmt::Debug for OpaqueClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl ClusterConnection {
    /// Finds the cluster of a kubeconfig, or of the one that kubectl would use.
    ///
    /// # Errors
    /// When there is no kubeconfig that can be used.
    pub(super) fn open(kubeconfig: Option<&Path>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(connect(kubeconfig))?;
        Ok(ClusterConnection { runtime, client: OpaqueClient(client) })
    }

    pub(super) fn client(&self) -> kube::Client {
        self.client.0.clone()
    }

    /// Waits for the result of a request, on any thread except those of the connection itself.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// The kubeconfig in a file. The message of kube-rs repeats the error of the operating system, so that error is
/// returned instead.
pub(super) fn read_kubeconfig(path: &Path) -> Result<Kubeconfig> {
    let read = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(error, _) => anyhow::Error::new(error),
        other => anyhow::Error::new(other),
    });
    read.with_context(|| format!("cannot read {}", path.display()))
}

/// A client for the cluster of a kubeconfig, or of the one that kubectl would use.
async fn connect(kubeconfig: Option<&Path>) -> Result<kube::Client> {
    let read = match kubeconfig {
        Some(path) => read_kubeconfig(path)?,
        None => Kubeconfig::read().context("cannot find a kubeconfig; give one with --kubeconfig")?,
    };
    let context = read.current_context.clone().unwrap_or_default();
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    output::message(format_args!("reading {} (context {context:?})", config.cluster_url))?;
    kube::Client::try_from(config).context("cannot create a client for the API server")
}

/// The facts of the cluster, with its Clusters and classes replaced by those of files.
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

/// The objects that were read so far.
struct ClusterReading {
    client: kube::Client,
    /// Clusters and ClusterClasses, as they are stored.
    stored: Vec<(Kind, Value)>,
    objects: BTreeMap<(String, String, ObjectKey), Arc<Object>>,
    /// Some of them in further versions, by their `apiVersion`: a class may name another one than its edit does.
    conversions: BTreeMap<(String, ObjectKey, String), Arc<Object>>,
    /// Objects that the API server does not have.
    missing: BTreeSet<ObjectRef>,
    definitions: BTreeSet<String>,
    undecoded: Vec<Undecoded>,
}

impl ClusterReading {
    async fn start(client: kube::Client) -> Result<Self> {
        let mut stored = Vec::new();
        for kind in Kind::ALL {
            let resource = Resource::known(GROUP, "v1beta2", kind.name());
            let objects =
                list(&client, &resource, None).await.with_context(|| format!("cannot list {}", kind.plural()))?;
            stored.extend(objects.into_iter().map(|object| (kind, object)));
        }
        let mut reading = ClusterReading::empty(client, stored);
        reading.extensions().await;
        Ok(reading)
    }

    fn empty(client: kube::Client, stored: Vec<(Kind, Value)>) -> Self {
        let (objects, conversions) = (BTreeMap::new(), BTreeMap::new());
        let (missing, definitions, undecoded) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        ClusterReading { client, stored, objects, conversions, missing, definitions, undecoded }
    }

    /// Reads the ExtensionConfigs; without permission, or if they are not served, there are none: the answers of their
    /// extensions are then unknown.
    async fn extensions(&mut self) {
        let resource = Resource::known(config::CONFIG_GROUP, config::CONFIG_VERSION, config::CONFIG_KIND);
        for config in list(&self.client, &resource, None).await.unwrap_or_default() {
            let Ok(object) = Object::try_from(config) else { continue };
            let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
            self.objects.insert(id, Arc::new(object));
        }
    }

    /// Clusters and classes that decode. The others are noted: they are errors only of the Clusters that they belong
    /// to.
    fn facts(&mut self) -> Facts {
        let (mut clusters, mut classes) = (Vec::new(), Vec::new());
        for (kind, object) in &self.stored {
            let text = object.to_string();
            let failure = match kind {
                Kind::Cluster => Cluster::decode(WireVersion::V1Beta2, &text).map(|cluster| clusters.push(cluster)),
                // Only kinds that are always guarded are listed.
                Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => Ok(()),
                // Its controller may not have seen it yet; what it will say follows from the spec.
                Kind::ClusterClass => {
                    let text = class_status::with_status(&text);
                    ClusterClass::decode(WireVersion::V1Beta2, &text).map(|class| classes.push(settled(class)))
                }
            };
            if let Err(reason) = failure {
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
                let key = ObjectKey::new(text("namespace"), text("name"));
                self.undecoded.push(Undecoded { kind: *kind, key, reason });
            }
        }
        Facts::complete(clusters, classes)
    }

    /// Notes the kinds of objects in files, whose definitions give them defaults.
    fn note_kinds(&mut self, files: &Facts) {
        for object in files.objects().into_iter().flat_map(ObjectSet::iter) {
            let kinds = [object.kind(), object_kind(object.kind())];
            self.definitions.extend(kinds.map(|kind| definition_name(object.group(), kind)));
        }
    }

    /// Reads the objects that the topologies of `facts` need and `files` do not hold.
    async fn follow(&mut self, facts: &Facts, files: &Facts, options: Options) -> Result<()> {
        let keys: Vec<ObjectKey> = facts.cluster_keys().cloned().collect();
        let facts = Arc::new(facts.clone());
        let cache = Arc::new(Cache::new(Facts::clone(&facts)));
        let gatherer =
            Gatherer::with_api_server(cache, self.client.clone(), Arc::new(Metrics::default())).with_owners();
        for key in keys {
            let Found::Yes(cluster) = facts.cluster(&key) else { continue };
            if cluster.topology().is_none() {
                continue;
            }
            // The plan computes the same again and reports errors.
            let compute =
                |world: &World| drop(Computation::from_world(&cluster, world, &mut DeterministicNames, &options));
            let read = gathered(World::new(facts.clone()), compute, files, &gatherer).await;
            read.and_then(|read| self.keep(&read)).with_context(|| format!("cannot read what Cluster {key} needs"))?;
        }
        Ok(())
    }

    /// Keeps what the API server answered.
    ///
    /// # Errors
    /// When it did not answer all requests.
    fn keep(&mut self, read: &[(Need, Answer)]) -> Result<()> {
        // What extensions say is asked for later, if they can be called.
        let is_of_extension =
            |need: &Need| matches!(need, Need::Patch(_) | Need::Hook(_) | Need::GenerateUpgradePlan(_));
        let unread = |(need, answer): &(Need, Answer)| {
            let reason = answer.unreadable().filter(|_| !is_of_extension(need))?;
            Some(format!("{need}: {reason}"))
        };
        let unread: Vec<String> = read.iter().filter_map(unread).collect();
        ensure!(unread.is_empty(), "{}", unread.join("; "));
        read.iter().for_each(|(need, answer)| self.keep_one(need, answer));
        Ok(())
    }

    fn keep_one(&mut self, need: &Need, answer: &Answer) {
        let objects = match answer {
            Answer::Object(Found::Yes(object)) => std::slice::from_ref(object),
            Answer::List(Found::Yes(objects)) => objects.as_slice(),
            _ => &[],
        };
        for object in objects {
            let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
            self.definitions.insert(definition_name(&id.0, &id.1));
            let first = self.objects.entry(id).or_insert_with(|| object.clone());
            if first.api_version() != object.api_version() {
                let id = (object.kind().to_owned(), object.key(), object.api_version().to_owned());
                self.conversions.insert(id, object.clone());
            }
        }
        if let (Need::Object(object), Answer::Object(Found::Absent)) = (need, answer) {
            self.missing.insert(object.clone());
        }
        if let Need::Definition(DefinitionName(name)) = need {
            self.definitions.insert(name.clone());
        }
    }

    /// All objects as the input of a file, with the definitions of all their kinds.
    async fn into_input(self) -> Result<FileInput> {
        let mut values: Vec<Value> = self.stored.into_iter().map(|(_, object)| object).collect();
        values.extend(self.objects.into_values().map(|object| Value::from(Object::clone(&object))));
        // As it is written: the types of Kubernetes turn the bounds of integers into fractions.
        let definitions = Resource::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        for name in self.definitions {
            // A name that is none has been reported as the answer to the question that it was part of.
            let Ok(one) = definitions.one_of_cluster::<DynamicObject>(self.client.clone(), &name) else { continue };
            if let Some(definition) = one.get_opt().await.with_context(|| format!("cannot read {name}"))? {
                values.push(serde_json::to_value(definition)?);
            }
        }
        let mut input = FileInput {
            missing: self.missing,
            undecoded: self.undecoded,
            conversions: self.conversions.into_values().map(|object| Object::clone(&object)).collect(),
            ..FileInput::default()
        };
        for value in values {
            let objects = manifest::objects(YamlDocument { line: 1, value, ..YamlDocument::default() })?;
            input.objects.extend(objects.into_iter().map(|manifest| LoadedObject {
                file: SOURCE.to_owned(),
                manifest,
                repeated: Vec::new(),
            }));
        }
        Ok(input)
    }
}

/// Reads from the API server until `compute` needs no more facts; objects of files are not requested.
async fn gathered(
    world: World,
    compute: impl Fn(&World),
    files: &Facts,
    gatherer: &Gatherer,
) -> Result<Vec<(Need, Answer)>> {
    let read = RefCell::<Vec<_>>::default();
    let compute = |world: World, ()| ready(anyhow::Ok((compute(&world), world, ())));
    let gather = async |needs: BTreeSet<Need>| {
        let (mut answers, mut there) = (Vec::new(), Vec::new());
        for need in needs {
            match in_files(&need, files) {
                Some(answer) => answers.push((need, answer)),
                None => there.push(need),
            }
        }
        let live = gatherer.gather_all(there, Instant::now() + PATIENCE).await;
        read.borrow_mut().extend(live.iter().cloned());
        answers.extend(live);
        Ok(answers)
    };
    settle(world, (), compute, gather).await?;
    Ok(read.take())
}

/// The answer from files: for all needs but those about objects that files may not contain, as in the plan.
fn in_files(need: &Need, files: &Facts) -> Option<Answer> {
    let answer = match need {
        Need::Class(_) | Need::List(_) => return None,
        need => files.answer(need),
    };
    let is_elsewhere = matches!(answer, Answer::Object(Found::Absent) | Answer::Definition(Found::Absent));
    (!is_elsewhere).then_some(answer)
}

/// All objects of one kind, page by page.
///
/// # Errors
/// When the API server rejects the request.
pub(super) async fn list(
    client: &kube::Client,
    resource: &Resource,
    labels: Option<&str>,
) -> Result<Vec<Value>, kube::Error> {
    let (api, kind) = (resource.anywhere::<DynamicObject>(client.clone()), resource.as_api());
    let mut params = ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default().limit(PAGE) };
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        for mut object in page.items {
            object.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: kind.api_version.clone(),
                kind: kind.kind.clone(),
            });
            all.push(serde_json::to_value(object).map_err(kube::Error::SerdeError)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::world::NodesOf;
    use server::kubernetes::scripted::{Script, ScriptedAnswer};

    fn gatherer(script: &Script) -> Gatherer {
        Gatherer::with_api_server(Arc::new(Cache::new(Facts::default())), script.client(), Arc::default())
    }

    #[tokio::test]
    async fn an_unanswered_request_is_an_error_with_the_name_of_the_cluster() {
        let template = |kind: &str| json!({"templateRef": {"apiVersion": "g.io/v1", "kind": kind, "name": "t"}});
        let object = |kind: Kind, name: &str, spec: Value| {
            let metadata = json!({"namespace": "ns", "name": name});
            let object = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": kind.name(), "metadata": metadata,
                "spec": spec});
            (kind, object)
        };
        let class = json!({"infrastructure": template("ITemplate"), "controlPlane": template("ATemplate")});
        let topology = json!({"topology": {"classRef": {"name": "base"}, "version": "v1.34.0"}});
        let script = Script::default();
        let path = |kind: &str| format!("/apis/g.io/v1/namespaces/ns/{kind}/t");
        script.get(&path("atemplates"), &[], ScriptedAnswer::error(403, "Forbidden"));
        script.get(&path("itemplates"), &[], ScriptedAnswer::error(404, "NotFound"));
        let stored = vec![object(Kind::ClusterClass, "base", class), object(Kind::Cluster, "one", topology)];
        let mut reading = ClusterReading::empty(script.client(), stored);
        let facts = reading.facts();
        let failed = reading.follow(&facts, &Facts::default(), Options::new(false)).await.unwrap_err();
        let words = "cannot read what Cluster ns/one needs: ATemplate ns/t: scripted Forbidden";
        assert_eq!((format!("{failed:#}").as_str(), script.left()), (words, 0));
    }

    #[tokio::test]
    async fn what_does_not_decode_is_left_out_and_noted() {
        let cluster = |name: &str, paused: Value| {
            let metadata = json!({"namespace": "ns", "name": name});
            (
                Kind::Cluster,
                json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "Cluster", "metadata": metadata,
                "spec": {"paused": paused}}),
            )
        };
        let stored = vec![cluster("one", json!(true)), cluster("two", json!("yes"))];
        let mut reading = ClusterReading::empty(Script::default().client(), stored);
        let facts = reading.facts();
        assert_eq!(facts.cluster_keys().collect::<Vec<_>>(), [&ObjectKey::new("ns", "one")]);
        let [Undecoded { kind: Kind::Cluster, key, reason }] = &reading.undecoded[..] else { panic!("one is noted") };
        assert_eq!(&*key.name, "two");
        assert!(reason.contains("spec.paused"), "{reason}");
    }

    #[tokio::test]
    async fn definitions_of_the_kinds_in_files_are_read() {
        let metadata = json!({"namespace": "ns", "name": "new"});
        let template = json!({"apiVersion": "g.io/v1", "kind": "ThingTemplate", "metadata": metadata});
        let mut files = ObjectSet::default();
        files.put(Arc::new(Object::try_from(template).unwrap()));
        let mut reading = ClusterReading::empty(Script::default().client(), Vec::new());
        reading.note_kinds(&Facts::default().with_objects(files));
        let names: Vec<&str> = reading.definitions.iter().map(String::as_str).collect();
        assert_eq!(names, ["things.g.io", "thingtemplates.g.io"]);
    }

    #[tokio::test]
    async fn running_out_of_rounds_names_what_is_missing() {
        let script = Script::default();
        let endless = |world: &World| {
            let _ = (0..100).find(|number| {
                let names = [format!("n{number}")].into();
                world.ask(&NodesOf { cluster: ObjectKey::new("ns", "one"), names }) == Found::NotAsked
            });
        };
        let world = World::new(Arc::default());
        let failed = gathered(world, endless, &Facts::default(), &gatherer(&script)).await.unwrap_err();
        let words = "facts are still missing after 16 rounds: Nodes {\"n15\"} of Cluster ns/one";
        assert_eq!(failed.to_string(), words);
    }

    #[tokio::test]
    async fn files_answer_before_the_api_server_does() {
        let script = Script::default();
        let path = "/apis/g.io/v1/namespaces/ns/atemplates/there";
        script.get(path, &[], ScriptedAnswer::ok(json!({"metadata": {"name": "there", "namespace": "ns"}})));
        let template = |name: &str| {
            let metadata = json!({"namespace": "ns", "name": name});
            Object::try_from(json!({"apiVersion": "g.io/v1", "kind": "ATemplate", "metadata": metadata})).unwrap()
        };
        let mut files = ObjectSet::default();
        files.put(Arc::new(template("here")));
        let compute = |world: &World| {
            ["here", "there"].iter().for_each(|name| drop(world.object(&template(name).reference())));
        };
        let read =
            gathered(World::new(Arc::default()), compute, &Facts::default().with_objects(files), &gatherer(&script))
                .await
                .unwrap();
        let names: Vec<_> = read.iter().map(|(need, _)| need.to_string()).collect();
        assert_eq!(
            (&*names, script.left()),
            (&["ATemplate ns/there".to_owned()][..], 0),
            "files are not kept as live objects"
        );
    }
}
