//! Which API version a referenced kind has: the labels of its CustomResourceDefinition say so (UPG-021).
//!
//! Definitions are asked for one by one and only when an object is converted to v1beta1, so nothing has to be listed
//! before the first conversion is answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::time::{Instant, timeout};

use super::{address, words};
use crate::hub::contract::{definition_name, newest_version};
use crate::wire::conversion::{GroupKind, Versions};

/// How long an answer counts. A new version of a provider serves the former ones as well.
const FRESH: Duration = Duration::from_mins(1);
/// How long it counts that there is no answer.
const ABSENT: Duration = Duration::from_secs(1);
/// How long the API server may take, which is waiting for the conversion itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The API versions of kinds.
pub struct ApiVersions {
    client: kube::Client,
    known: Mutex<BTreeMap<GroupKind, Known>>,
}

impl fmt::Debug for ApiVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiVersions").field("known", &self.known).finish_non_exhaustive()
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
        ApiVersions { client, known: Mutex::default() }
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
        if kind.1.is_empty() {
            return Err("the reference names no kind".to_owned());
        }
        let former = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned();
        if let Some(known) = former.as_ref().filter(|known| Instant::now() < known.until) {
            return known.version.clone();
        }
        let (version, is_certain) = ask(&self.client, kind).await;
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
    let definition = match address::one_of_cluster::<CustomResourceDefinition>(client.clone(), &name) {
        Ok(definition) => definition,
        Err(malformed) => return (Err(malformed.to_string()), true),
    };
    match timeout(PATIENCE, definition.get_metadata_opt()).await {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Answer, Script};

    fn kind(kind: &str) -> GroupKind {
        ("infrastructure.cluster.x-k8s.io".to_owned(), kind.to_owned())
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
        let nameless = ApiVersions::of_cluster(Script::default().client()).find(vec![kind("")]).await;
        assert_eq!(nameless[&kind("")], Err("the reference names no kind".to_owned()));
    }
}
