//! Fixtures of desired states, found by walking `fixtures/topology`.
//!
//! A fixture is a folder that is named after the fact that it shows. `cluster.yaml`, `class.yaml`, `templates.yaml` and
//! `current.yaml` hold the world, definitions included; which of them there are does not matter. `about.yaml` names the
//! rules and, where the world is a bundle of `fixtures/providers`, that one. `want.yaml` says what comes of it: what is
//! decided of the Cluster, then every object as it is sent, in the order in which they are computed; or why there is
//! nothing.
//!
//! `TOPOLOGIST_UPDATE_FIXTURES=1 cargo test --test stories topology_fixtures` writes `want.yaml` anew; look at what
//! changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use topologist::hub::names::DeterministicNames;
use topologist::hub::{Cluster, ClusterClass, ContractRef, Kind, ResourceDefinition};
use topologist::topology::desired::Desired;
use topologist::topology::{Computation, Failure, Options, class_status, plan};
use topologist::wire::Decode;
use topologist::wire::manifest::{self, Manifest};
use topologist::world::{Facts, ObjectSet, World};
use topologist::yaml;

const UPDATE: &str = "TOPOLOGIST_UPDATE_FIXTURES";
const FILES: [&str; 4] = ["cluster.yaml", "class.yaml", "templates.yaml", "current.yaml"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    rules: Vec<String>,
    bundle: Option<String>,
}

struct Fixture {
    name: String,
    folder: PathBuf,
    about: About,
    cluster: Cluster,
    facts: Arc<Facts>,
}

/// What the fixtures show.
fn compute(cluster: &Cluster, world: &World) -> Result<Computation, Failure> {
    Computation::from_world(cluster, world, &mut DeterministicNames, &Options::new(false))
}

fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root.join("topology")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.into_iter().map(|folder| Fixture::read(folder, &root)).collect()
}

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = |document: Result<yaml::YamlDocument, _>| {
        document.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    yaml::documents(&text).into_iter().map(|document| read(document).value).collect()
}

impl Fixture {
    fn read(folder: PathBuf, root: &Path) -> Self {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let mut files: Vec<String> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let about: About = serde_json::from_value(documents(&folder.join("about.yaml")).remove(0)).expect(&name);
        let of_world: Vec<PathBuf> = match &about.bundle {
            Some(bundle) => vec![root.join("providers").join(bundle).join("bundle.yaml")],
            None => {
                FILES.iter().filter(|file| files.iter().any(|one| one == *file)).map(|file| folder.join(file)).collect()
            }
        };
        files.retain(|file| {
            file != "about.yaml" && file != "want.yaml" && !(about.bundle.is_none() && FILES.contains(&&**file))
        });
        assert!(files.is_empty(), "{name} has files that nothing reads: {files:?}");
        let documents = of_world.iter().flat_map(|path| documents(path)).enumerate();
        let manifests = documents.flat_map(|(at, value)| {
            let document = yaml::YamlDocument { line: at, value, ..yaml::YamlDocument::default() };
            manifest::objects(document).unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        let (cluster, facts) = facts(manifests.collect());
        Fixture { name, folder, about, cluster, facts: Arc::new(facts) }
    }

    /// What comes of the fixture.
    fn outcome(&self) -> Vec<Value> {
        match compute(&self.cluster, &World::new(self.facts.clone())) {
            Ok(computation) => shown(computation),
            Err(failure) => vec![json!({"failure": failure.to_string()})],
        }
    }
}

/// The only Cluster, and everything that there is.
fn facts(manifests: Vec<Manifest>) -> (Cluster, Facts) {
    let (mut clusters, mut classes, mut objects) = (Vec::new(), Vec::new(), ObjectSet::default());
    for manifest in manifests {
        match (manifest.admitted_kind(), ResourceDefinition::from_object(&manifest.value)) {
            (Some(Kind::Cluster), _) => {
                let mut cluster = Cluster::decode(manifest.version().unwrap(), &manifest.text()).unwrap();
                cluster.metadata.uid = "uid-of-the-cluster".to_owned();
                clusters.push(cluster);
            }
            (Some(Kind::ClusterClass), _) => {
                let text = manifest.text();
                classes.push(
                    ClusterClass::decode(manifest.version().unwrap(), &class_status::with_status(&text)).unwrap(),
                );
            }
            (None, Some(definition)) => objects.put_definition(manifest.key.name, Arc::new(definition)),
            _ => objects.put(Arc::new(manifest.object().unwrap())),
        }
    }
    assert_eq!(clusters.len(), 1, "a fixture has one Cluster");
    (clusters[0].clone(), Facts::complete(clusters, classes).with_objects(objects))
}

fn shown(computation: Computation) -> Vec<Value> {
    let Computation { desired, contract, warnings, assumes_contract, .. } = computation;
    let reference = |one: &ContractRef| json!({"apiGroup": one.api_group, "kind": one.kind, "name": one.name});
    let decided = json!({
        "contract": format!("{contract:?}").to_lowercase(),
        "assumed": assumes_contract,
        "warnings": warnings,
        "cluster": {
            "labels": desired.cluster.labels,
            "annotations": desired.cluster.annotations,
            "infrastructureRef": reference(&desired.cluster.infrastructure_ref),
            "controlPlaneRef": reference(&desired.cluster.control_plane_ref),
        },
    });
    let objects = objects(desired).into_iter().map(|object| Value::from(plan::sent(&object).unwrap()));
    std::iter::once(decided).chain(objects).collect()
}

fn objects(desired: Desired) -> Vec<topologist::hub::Object> {
    let control_plane = desired.control_plane;
    let mut all = vec![Some(desired.infrastructure), control_plane.machines, Some(control_plane.control_plane)];
    all.push(control_plane.health_check);
    for worker in desired.machine_deployments.into_iter().chain(desired.machine_pools) {
        all.extend([Some(worker.bootstrap), Some(worker.infrastructure), Some(worker.worker), worker.health_check]);
    }
    all.into_iter().flatten().map(|one| one.object).collect()
}

fn written(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("---\n{}", serde_saphyr::to_string(document).unwrap())).collect()
}

#[test]
fn every_topology_gives_the_objects_of_its_fixture() {
    let is_update = std::env::var_os(UPDATE).is_some();
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        let want = fixture.folder.join("want.yaml");
        let outcome = fixture.outcome();
        if is_update {
            fs::write(&want, written(&outcome)).unwrap();
        }
        let want = documents(&want);
        let differ = |at: &usize| outcome.get(*at) != want.get(*at);
        if let Some(at) = (0..outcome.len().max(want.len())).find(differ) {
            let shown =
                |one: Option<&Value>| one.map_or("nothing".to_owned(), |one| serde_saphyr::to_string(one).unwrap());
            wrong.push(format!(
                "{}, document {at}:\n{}\nwant:\n{}",
                fixture.name,
                shown(outcome.get(at)),
                shown(want.get(at))
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n({UPDATE}=1 writes them anew)", wrong.join("\n"));
}

#[test]
fn the_same_facts_ask_for_the_same_bytes() {
    // DEC-12
    for fixture in fixtures() {
        assert_eq!(written(&fixture.outcome()), written(&fixture.outcome()), "{}", fixture.name);
    }
}

#[test]
fn fixtures_are_named_after_facts_and_name_their_rules() {
    for fixture in fixtures() {
        let is_kebab = fixture.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(is_kebab, "{}", fixture.name);
        let is_rule = |rule: &String| rule.split_once('-').is_some_and(|(_, number)| number.parse::<u8>().is_ok());
        assert!(!fixture.about.rules.is_empty() && fixture.about.rules.iter().all(is_rule), "{}", fixture.name);
    }
}
