//! The columns of `kubectl get`.

use serde_json::{Value, json};

use Column::{Always, Wide};

use crate::hub::Kind;
use crate::wire::SchemaVersion;

/// A column of `kubectl get`: title, type and path in v1beta2; wide columns need `-o wide`.
pub(super) enum Column {
    Always(&'static str, &'static str, &'static str),
    Wide(&'static str, &'static str, &'static str),
}

impl Column {
    /// The column of a kind that is served in v1beta2 only.
    pub(super) fn definition(&self) -> Value {
        self.at(str::to_owned)
    }

    /// The column of a kind that is served in two versions, for one of them.
    fn render(&self, shape: SchemaVersion) -> Value {
        self.at(|path| shape.pick(path.to_owned(), in_v1beta1(path)))
    }

    /// The column of a kind of the embedded provider, for the version of the older contract.
    pub(super) fn older(&self) -> Value {
        self.at(in_older_contract)
    }

    fn at(&self, place: impl FnOnce(&str) -> String) -> Value {
        let (Always(name, kind, path) | Wide(name, kind, path)) = self;
        let mut column = json!({"name": name, "type": kind, "jsonPath": place(path)});
        if matches!(self, Wide(..)) {
            column["priority"] = json!(10);
        }
        column
    }
}

/// The columns of a kind in a version.
pub(super) fn columns(kind: Kind, shape: SchemaVersion) -> Vec<Value> {
    let columns = match kind {
        Kind::Cluster => CLUSTER,
        Kind::ClusterClass => CLUSTER_CLASS,
        // The definitions of these kinds have columns already.
        Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => &[],
    };
    columns.iter().map(|column| column.render(shape)).collect()
}

/// The v1beta1 path of a v1beta2 path (CONV-007, CONV-016).
fn in_v1beta1(path: &str) -> String {
    const MOVED: [(&str, &str); 4] = [
        (".spec.topology.classRef.name", ".spec.topology.class"),
        (".status.conditions", ".status.v1beta2.conditions"),
        (".status.controlPlane.", ".status.v1beta2.controlPlane."),
        (".status.workers.", ".status.v1beta2.workers."),
    ];
    moved(path, &MOVED)
}

/// The path in the older contract of a path in the newer one (CT-5.4).
fn in_older_contract(path: &str) -> String {
    const MOVED: [(&str, &str); 6] = [
        (".status.conditions", ".status.v1beta2.conditions"),
        (".status.availableReplicas", ".status.v1beta2.availableReplicas"),
        (".status.initialization.controlPlaneInitialized", ".status.initialized"),
        (".status.initialization.dataSecretCreated", ".status.ready"),
        (".status.initialization.provisioned", ".status.ready"),
        (".status.upToDateReplicas", ".status.updatedReplicas"),
    ];
    moved(path, &MOVED)
}

fn moved(path: &str, moved: &[(&str, &str)]) -> String {
    let moved = moved.iter().find_map(|(new, old)| Some(format!("{old}{}", path.strip_prefix(new)?)));
    moved.unwrap_or_else(|| path.to_owned())
}

pub(super) const PAUSED: Column = Wide("Paused", "string", r#".status.conditions[?(@.type=="Paused")].status"#);
pub(super) const AGE: Column = Always("Age", "date", ".metadata.creationTimestamp");

const CLUSTER: &[Column] = &[
    Always("ClusterClass", "string", ".spec.topology.classRef.name"),
    Always("Available", "string", r#".status.conditions[?(@.type=="Available")].status"#),
    Always("CP Desired", "integer", ".status.controlPlane.desiredReplicas"),
    Wide("CP Current", "integer", ".status.controlPlane.replicas"),
    Wide("CP Ready", "integer", ".status.controlPlane.readyReplicas"),
    Always("CP Available", "integer", ".status.controlPlane.availableReplicas"),
    Always("CP Up-to-date", "integer", ".status.controlPlane.upToDateReplicas"),
    Always("W Desired", "integer", ".status.workers.desiredReplicas"),
    Wide("W Current", "integer", ".status.workers.replicas"),
    Wide("W Ready", "integer", ".status.workers.readyReplicas"),
    Always("W Available", "integer", ".status.workers.availableReplicas"),
    Always("W Up-to-date", "integer", ".status.workers.upToDateReplicas"),
    PAUSED,
    Always("Phase", "string", ".status.phase"),
    AGE,
    Always("Version", "string", ".spec.topology.version"),
];

const CLUSTER_CLASS: &[Column] =
    &[PAUSED, Always("Variables Ready", "string", r#".status.conditions[?(@.type=="VariablesReady")].status"#), AGE];
