//! Which API version a referenced kind has: the labels of its CustomResourceDefinition say so (UPG-021).
//!
//! Definitions are asked for one by one and only when an object is converted to v1beta1, so nothing has to be listed
//! before the first conversion is answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use tokio::time::{Instant, timeout};

use super::words;
use crate::hub::contract::{definition_name, newest_version};
use crate::wire::conversion::{GroupKind, Versions};

/// How long an answer counts. A new version of a provider serves the former ones as well.
const FRESH: Duration = Duration::from_mins(1);
/// How long it counts that there is no answer.
const ABSENT: Duration = Duration::from_secs(1);
/// How long the API server may take, which is waiting for the conversion itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is assumed of the providers of Cluster API where there is no cluster to ask (DEC-17).
const ASSUMED: (&str, &str) = (".cluster.x-k8s.io", "v1beta2");

/// The labels of definitions by their names.
pub type Labels = BTreeMap<String, BTreeMap<String, String>>;

/// The API versions of kinds.
#[derive(Debug)]
pub struct ApiVersions {
    source: Source,
    known: Mutex<BTreeMap<GroupKind, Known>>,
}

enum Source {
    Files(Labels),
    Cluster(kube::Client),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::Files(_) => "Files",
            Source::Cluster(_) => "Cluster",
        })
    }
}

#[derive(Clone, Debug)]
struct Known {
    version: Result<String, String>,
    until: Instant,
}

impl ApiVersions {
    /// The versions that a cluster has.
    pub fn of_cluster(client: kube::Client) -> Self {
        ApiVersions { source: Source::Cluster(client), known: Mutex::default() }
    }

    /// The versions that the definitions of files have.
    pub fn of_files(labels: Labels) -> Self {
        ApiVersions { source: Source::Files(labels), known: Mutex::default() }
    }

    /// The version of each kind, or why there is none.
    pub async fn find(&self, kinds: Vec<GroupKind>) -> Versions {
        let mut all = Versions::new();
        for kind in kinds {
            let version = self.version(&kind).await;
            all.insert(kind, version);
        }
        all
    }

    async fn version(&self, kind: &GroupKind) -> Result<String, String> {
        let (group, name) = kind;
        if name.is_empty() {
            return Err("the reference names no kind".to_owned());
        }
        match &self.source {
            Source::Files(labels) => of_files(labels, group, name),
            Source::Cluster(client) => self.of_server(client, kind).await,
        }
    }

    async fn of_server(&self, client: &kube::Client, kind: &GroupKind) -> Result<String, String> {
        let former = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned();
        if let Some(known) = former.as_ref().filter(|known| Instant::now() < known.until) {
            return known.version.clone();
        }
        let (version, is_certain) = ask(client, kind).await;
        let version = match (former, version) {
            // What was true a minute ago is better than nothing.
            (Some(Known { version: Ok(former), .. }), Err(_)) if !is_certain => Ok(former),
            (_, version) => version,
        };
        let lasts = if is_certain && version.is_ok() { FRESH } else { ABSENT };
        let known = Known { version: version.clone(), until: Instant::now() + lasts };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.clone(), known);
        version
    }
}

/// The answer of the API server, and whether it is one.
async fn ask(client: &kube::Client, (group, kind): &GroupKind) -> (Result<String, String>, bool) {
    let name = definition_name(group, kind);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    match timeout(PATIENCE, definitions.get_metadata_opt(&name)).await {
        Ok(Ok(Some(definition))) => (newest(&name, definition.metadata.labels.unwrap_or_default()), true),
        Ok(Ok(None)) => (Err(format!("CustomResourceDefinition {name} does not exist")), true),
        Ok(Err(error)) => (Err(format!("CustomResourceDefinition {name} cannot be read: {}", words(&error))), false),
        Err(_) => (Err(format!("CustomResourceDefinition {name} could not be read in time")), false),
    }
}

fn newest(name: &str, labels: BTreeMap<String, String>) -> Result<String, String> {
    let version = newest_version(&labels).map(str::to_owned);
    version.ok_or_else(|| format!("CustomResourceDefinition {name} has no label of a contract"))
}

fn of_files(labels: &Labels, group: &str, kind: &str) -> Result<String, String> {
    let name = definition_name(group, kind);
    let (suffix, assumed) = ASSUMED;
    match labels.get(&name) {
        Some(labels) => newest(&name, labels.clone()),
        None if group.ends_with(suffix) => Ok(assumed.to_owned()),
        None => Err(format!("CustomResourceDefinition {name} is not among the files")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Answer, Script};

    fn kind(kind: &str) -> GroupKind {
        ("infrastructure.cluster.x-k8s.io".to_owned(), kind.to_owned())
    }

    #[test]
    fn files_come_first_and_cluster_api_itself_is_assumed() {
        // DEC-17, UPG-021
        let label = |version: &str| BTreeMap::from([("cluster.x-k8s.io/v1beta1".to_owned(), version.to_owned())]);
        let labels = Labels::from([
            ("devclusters.infrastructure.cluster.x-k8s.io".to_owned(), label("v1alpha4_v1beta1")),
            ("others.example.com".to_owned(), BTreeMap::new()),
        ]);
        let group = "infrastructure.cluster.x-k8s.io";
        assert_eq!(of_files(&labels, group, "DevCluster").as_deref(), Ok("v1beta1"));
        assert_eq!(of_files(&labels, group, "Another").as_deref(), Ok("v1beta2"));
        let error = of_files(&labels, "example.com", "Other").unwrap_err();
        assert_eq!(error, "CustomResourceDefinition others.example.com has no label of a contract");
        let error = of_files(&labels, "example.com", "Third").unwrap_err();
        assert_eq!(error, "CustomResourceDefinition thirds.example.com is not among the files");
    }

    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devs.infrastructure.cluster.x-k8s.io";

    fn definition(labels: &serde_json::Value) -> Answer {
        Answer::ok(json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "devs.infrastructure.cluster.x-k8s.io", "labels": labels}}))
    }

    async fn find(versions: &ApiVersions) -> Result<String, String> {
        versions.find(vec![kind("Dev")]).await.remove(&kind("Dev")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_is_asked_for_once_a_minute_and_outlives_a_server_that_fails() {
        let script = Script::default();
        script.get(PATH, &[], definition(&json!({"cluster.x-k8s.io/v1beta2": "v1beta1_v1beta2"})));
        let versions = ApiVersions::of_cluster(script.client());
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"));
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"));
        assert_eq!(script.left(), 0, "one request was enough");

        tokio::time::advance(Duration::from_millis(1)).await;
        script.get(PATH, &[], Answer::error(500, "InternalError"));
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"), "it was true a minute ago");
        tokio::time::advance(ABSENT).await;
        script.get(PATH, &[], Answer::error(404, "NotFound"));
        assert!(find(&versions).await.unwrap_err().ends_with("infrastructure.cluster.x-k8s.io does not exist"));
        tokio::time::advance(ABSENT).await;
        script.get(PATH, &[], definition(&json!({"cluster.x-k8s.io/v1beta1": "v1"})));
        assert_eq!(find(&versions).await.as_deref(), Ok("v1"), "an installation is seen within a second");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_none_says_why() {
        for (answer, words) in [
            (definition(&json!({})), "has no label of a contract"),
            (Answer::error(403, "Forbidden"), "cannot be read: scripted Forbidden"),
            (Answer::Silence, "could not be read in time"),
        ] {
            let script = Script::default();
            script.get(PATH, &[], answer);
            let error = find(&ApiVersions::of_cluster(script.client())).await.unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let nameless = ApiVersions::of_files(Labels::new()).find(vec![kind("")]).await;
        assert_eq!(nameless[&kind("")], Err("the reference names no kind".to_owned()));
    }
}
