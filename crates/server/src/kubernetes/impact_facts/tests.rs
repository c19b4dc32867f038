//! What reviews know of templates and definitions, and the requests that it takes.

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::kubernetes::testing::{ApiServer, Failure};
use crate::telemetry::metrics;
use model::hub::{ClusterClass, ObjectKey};
use model::world::{Facts, Record};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/atemplates.infrastructure.cluster.x-k8s.io";

/// An API server, and a process that watches it for impacts.
struct Site {
    server: ApiServer,
    cache: Arc<Cache>,
    watched: Arc<ImpactWatches>,
    metrics: Arc<Metrics>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Site {
    fn new(bounds: FactLimits) -> Self {
        let (server, metrics) = (ApiServer::default(), Arc::new(Metrics::default()));
        let cache = Arc::new(Cache::new(Facts::complete([], [])));
        let client = server.client();
        let (definitions, follow) = Definitions::follow(client.clone(), metrics.clone());
        let watched = ImpactWatches::new(&client, &cache, definitions, Arc::default(), bounds, &metrics);
        let watched = Arc::new(watched);
        let tasks = vec![tokio::spawn(follow), tokio::spawn(watched.clone().follow())];
        Site { server, cache, watched, metrics, tasks }
    }

    /// Stores a class whose workers are of these templates.
    fn put_class(&self, name: &str, templates: &[&str]) {
        let worker = |name: &&str| {
            let reference = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ATemplate", "name": name});
            json!({"class": name, "infrastructure": {"templateRef": reference}})
        };
        let workers: Vec<Value> = templates.iter().map(worker).collect();
        let class = json!({"metadata": {"namespace": "ns", "name": name},
            "spec": {"workers": {"machineDeployments": workers}}});
        let class: ClusterClass = serde_json::from_value(class).unwrap();
        self.cache.update(|facts| facts.put_class(ObjectKey::new("ns", name), Record::readable(class)));
    }

    /// Stores a template of this size.
    fn put_template(&self, name: &str, size: i64, labels: &Value) {
        self.server.edit(&path(name), |template| {
            template["metadata"]["labels"] = labels.clone();
            template["spec"]["size"] = json!(size);
        });
    }

    /// The size of a template.
    fn size(&self, name: &str) -> Found<i64> {
        let key = ObjectKey::new("ns", name);
        let need = Need::Object(ObjectRef::new(format!("{GROUP}/v1"), "ATemplate", key));
        let answers = ImpactFacts::Watched(self.watched.clone()).answers([need]);
        let Answer::Object(found) = answers.into_iter().next().unwrap().1 else { panic!("it is another answer") };
        found.map(|template| template.at("spec.size").and_then(Value::as_i64).unwrap())
    }

    fn unreadable(&self, name: &str) -> String {
        match self.size(name) {
            Found::Unreadable(reason) => reason,
            other => panic!("{name}: {other:?}"),
        }
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let holding = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), holding).await.unwrap_or_else(|_| panic!("it never holds: {what}"));
    }

    /// The paths of the requests since the last call, without those of watches that begin.
    fn requested(&self) -> Vec<String> {
        self.server.take_requests().into_iter().map(|request| request.path).collect()
    }

    fn reads(&self, what: &'static str, outcome: &'static str) -> u64 {
        self.metrics.live_reads.get_or_create(&metrics::Read { what, outcome }).get()
    }

    /// How many faults the schema that is known finds in a template.
    fn faults(&self) -> Option<usize> {
        let kinds = BTreeSet::from([(format!("{GROUP}/v1"), "ATemplate".to_owned())]);
        let schemas = ImpactFacts::Watched(self.watched.clone()).schemas(&kinds);
        let schema = schemas.get(&format!("atemplates.{GROUP}"))?.resource_schema("v1")?.unwrap();
        Some(schema.faults(&json!({"spec": {"size": 1}}), None).len())
    }

    fn define(&self, generation: i64, r#type: &str) {
        let spec = json!({"type": "object", "properties": {"size": {"type": r#type, "description": "how large"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        self.server.edit(DEFINITION, |definition| {
            definition["metadata"]["generation"] = json!(generation);
            definition["spec"]["versions"] = json!([{"name": "v1", "served": true, "schema": schema}]);
        });
    }
}

fn path(template: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/ns/atemplates/{template}")
}

fn ample() -> FactLimits {
    FactLimits { schemas: 1 << 20, templates: Some(1 << 20) }
}

#[tokio::test(start_paused = true)]
async fn templates_of_classes_are_known_without_a_request() {
    // DEC-57
    let site = Site::new(ample());
    let none = json!({});
    assert!(site.unreadable("one").contains("no stored ClusterClass refers to it"));
    site.put_template("one", 1, &none);
    site.put_template("copy", 1, &json!({"topology.cluster.x-k8s.io/owned": ""}));
    site.put_class("a", &["one", "copy", "missing"]);
    timeout(Duration::from_secs(20), site.watched.settled()).await.unwrap();
    let found = ["one", "copy", "missing"].map(|name| site.size(name));
    assert_eq!(found, [Found::Yes(1), Found::Yes(1), Found::Absent], "the copy is named by mistake");
    assert_eq!([site.reads("template", "found"), site.reads("template", "absent")], [1, 1]);

    site.requested();
    site.put_template("one", 2, &none);
    site.until("the new content is known", |site| site.size("one") == Found::Yes(2)).await;
    site.put_template("missing", 3, &none);
    site.until("a template that was missing is there", |site| site.size("missing") == Found::Yes(3)).await;
    assert!(site.unreadable("next").contains("has not shown it yet"), "it may exist");
    site.put_template("next", 4, &none);
    site.until("an edited class may name a new template", |site| site.size("next") == Found::Yes(4)).await;
    assert_eq!(site.requested(), [""; 0]);

    site.server.delete(&path("missing"));
    site.until("it is gone", |site| site.size("missing") == Found::Absent).await;

    // What the watch does not show is read with each change of a class that names it.
    site.server.hide("atemplates");
    site.put_template("copy", 5, &json!({"topology.cluster.x-k8s.io/owned": ""}));
    site.server.take_requests();
    site.put_class("a", &["next", "copy"]);
    site.until("the copy is read again", |site| site.size("copy") == Found::Yes(5)).await;
    assert_eq!(site.requested(), [path("copy")]);
    assert_eq!([site.size("one"), site.size("next")], [Found::Yes(2), Found::Yes(4)], "the edit may be taken back");

    site.put_class("a", &[]);
    let is_unwatched =
        |site: &Site| matches!(site.size("copy"), Found::Unreadable(reason) if reason.contains("no stored"));
    site.until("the watch has ended", is_unwatched).await;
    let watched = || site.metrics.watched_kinds.get_or_create(&metrics::Kind { kind: "ClassTemplate" }).get();
    assert_eq!(watched(), 0);
}

#[tokio::test(start_paused = true)]
async fn templates_that_cannot_be_listed_or_read_are_not_known() {
    // DEC-57
    let site = Site::new(ample());
    site.server.fail(Some(Failure::Status(403)));
    site.put_class("a", &["one"]);
    site.until("the reason is given", |site| site.unreadable("one").contains("as scripted")).await;
    site.server.fail(None);
    site.server.refuse(&http::Method::GET, &path("one"), 500);
    site.until("it is listed", |site| site.size("one") == Found::Absent).await;

    let unwatched = Site::new(FactLimits { templates: None, ..ample() });
    unwatched.put_class("a", &["one"]);
    timeout(Duration::from_secs(20), unwatched.watched.settled()).await.unwrap();
    assert!(unwatched.unreadable("one").contains("--watch-templates"));
    let small = Site::new(FactLimits { templates: Some(10), ..ample() });
    small.put_template("one", 1, &json!({}));
    small.put_class("a", &["one"]);
    small.until("it does not fit", |site| site.unreadable("one").contains("no memory left")).await;
}

#[tokio::test(start_paused = true)]
async fn a_schema_is_read_once_for_each_generation_of_its_definition() {
    // DEC-57
    let site = Site::new(ample());
    site.define(1, "string");
    site.put_class("a", &["one"]);
    site.until("the schema is known", |site| site.faults() == Some(1)).await;
    site.server.edit(DEFINITION, |definition| definition["metadata"]["labels"] = json!({"a": "b"}));
    let need = || Need::Definition(DefinitionName(format!("atemplates.{GROUP}")));
    let labels = |site: &Site| match ImpactFacts::Watched(site.watched.clone()).answers([need()]).remove(0).1 {
        Answer::Definition(Found::Yes(definition)) => definition.labels.len(),
        other => panic!("{other:?}"),
    };
    site.until("the label is known", |site| labels(site) == 1).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((site.faults(), site.reads("schema", "found")), (Some(1), 1), "the generation is the same");

    site.server.fail(Some(Failure::Status(500)));
    site.define(2, "integer");
    site.until("it is of another generation", |site| site.faults().is_none()).await;
    site.server.fail(None);
    site.until("it is read anew", |site| site.faults() == Some(0)).await;
    assert_eq!(site.reads("schema", "found"), 2);

    site.put_class("a", &[]);
    site.until("no class needs it", |site| site.faults().is_none()).await;
    let small = Site::new(FactLimits { schemas: 1, ..ample() });
    small.define(1, "string");
    small.put_class("a", &["one"]);
    small.until("it is read", |site| site.reads("schema", "found") == 1).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((small.faults(), small.reads("schema", "found")), (None, 1), "it does not fit");
}
