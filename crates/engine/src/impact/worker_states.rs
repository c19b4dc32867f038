//! The machines of MachineDeployments, as sizes of worker sets that a topology does not say (DEC-53, DEC-59).

use serde::Deserialize;

use golang::json::StringMap;
use model::hub::{ObjectKey, label};
use model::world::{WorkerSet, WorkerState};

/// The worker set of the JSON of a MachineDeployment, and its state; `None` without a topology.
pub fn worker_state(namespace: &str, deployment: &str) -> Option<(WorkerSet, WorkerState)> {
    #[derive(Deserialize)]
    struct DeploymentObject {
        metadata: DeploymentMetadata,
        spec: DeploymentSpec,
        #[serde(default)]
        status: DeploymentStatus,
    }
    #[derive(Deserialize)]
    struct DeploymentMetadata {
        #[serde(default)]
        labels: StringMap,
        #[serde(default)]
        generation: i64,
    }
    #[derive(Deserialize)]
    struct DeploymentSpec {
        replicas: i64,
        #[serde(default)]
        template: DeploymentTemplate,
    }
    #[derive(Default, Deserialize)]
    struct DeploymentTemplate {
        #[serde(default)]
        spec: TemplateSpec,
    }
    #[derive(Default, Deserialize)]
    struct TemplateSpec {
        #[serde(default)]
        version: Box<str>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DeploymentStatus {
        observed_generation: Option<i64>,
        replicas: Option<i64>,
        up_to_date_replicas: Option<i64>,
    }

    let DeploymentObject { metadata: DeploymentMetadata { labels, generation }, spec, status } =
        serde_json::from_str(deployment).ok()?;
    let cluster = ObjectKey::new(namespace, labels.get(label::CLUSTER_NAME)?);
    let name = labels.get(label::DEPLOYMENT_NAME)?.to_owned();
    let counts =
        status.replicas.zip(status.up_to_date_replicas).filter(|_| status.observed_generation == Some(generation));
    let outdated = counts.map(|(all, current)| all.saturating_sub(current).max(0));
    let state = WorkerState { replicas: spec.replicas, outdated, version: spec.template.spec.version };
    Some((WorkerSet { cluster, name }, state))
}
