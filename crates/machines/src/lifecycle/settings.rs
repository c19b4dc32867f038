//! Settings of the caller: delays, injected failures, and kinds with external controllers.

use std::collections::BTreeSet;

use core::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::objects::GroupKind;
use golang::calendar::{Moment, go_duration};
use golang::yaml::{self, YamlError};
use model::hub::{ObjectKey, type_of};

/// Inputs of steps besides objects.
#[derive(Clone, Debug)]
pub struct MachineSettings {
    pub timings: Timings,
    /// Names of timings that override those in the specs of objects.
    pub fixed: BTreeSet<String>,
    /// Injected failures.
    pub failures: Vec<InjectedFailure>,
    /// Kinds with an external controller: `Kind` or `Kind.group`.
    pub external: BTreeSet<String>,
    pub provides: ProvidedKinds,
    /// Whether externally managed infrastructure (CT-6.8) is simulated as well, because no other controller exists.
    pub plays_managed: bool,
    /// Address of the API servers of workload clusters of the embedded provider.
    pub endpoint: ServerAddress,
    /// Whether extensions are called before a Cluster with a topology is deleted; the topology controller annotates the
    /// Cluster when they agree (MA-27.15).
    pub runtime_hooks: bool,
    /// Epoch of the times that seed generated names; `None` for the Unix epoch.
    pub began: Option<Moment>,
}

/// Suffix of the groups of the embedded provider.
const EMBEDDED: &str = ".topologist.dev";

impl Default for MachineSettings {
    fn default() -> Self {
        MachineSettings {
            timings: Timings::default(),
            fixed: BTreeSet::new(),
            failures: Vec::new(),
            external: BTreeSet::new(),
            provides: ProvidedKinds::Everything,
            plays_managed: false,
            endpoint: ServerAddress { host: "127.0.0.1".to_owned(), port: 6443 },
            runtime_hooks: true,
            began: None,
        }
    }
}

impl MachineSettings {
    /// Whether a kind has an external controller.
    pub fn is_external(&self, kind: &GroupKind) -> bool {
        self.external.contains(&*kind.kind) || self.external.contains(&kind.to_string())
    }

    /// Whether the steps simulate the provider of a kind.
    pub(super) fn plays(&self, kind: &GroupKind) -> bool {
        let is_provided = self.provides == ProvidedKinds::Everything || kind.group.ends_with(EMBEDDED);
        is_provided && !self.is_external(kind)
    }
}

/// Provider kinds that the steps reconcile, besides those of Cluster API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvidedKinds {
    /// All kinds: there are no other controllers.
    Everything,
    /// Kinds of the embedded provider only.
    Embedded,
}

/// Address of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    pub host: String,
    pub port: u16,
}

/// Delays of the parts of a rollout. Objects of the embedded provider may override them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Timings {
    /// Until the infrastructure of a Cluster is provisioned.
    #[serde(deserialize_with = "duration")]
    pub cluster: Duration,
    /// From the bootstrap data of a machine until it runs.
    #[serde(deserialize_with = "duration")]
    pub infrastructure: Duration,
    /// Until the bootstrap data of a machine is there.
    #[serde(deserialize_with = "duration")]
    pub bootstrap: Duration,
    /// From a running machine to its Node.
    #[serde(deserialize_with = "duration")]
    pub node: Duration,
    /// From the Node of a control plane to its etcd member.
    #[serde(deserialize_with = "duration")]
    pub etcd: Duration,
    /// From the etcd member to the API server.
    #[serde(deserialize_with = "duration")]
    pub api_server: Duration,
    /// From the end of a drain until the member of a KubeadmControlPlane's Machine has left etcd.
    #[serde(deserialize_with = "duration")]
    pub etcd_removal: Duration,
    /// Until a control plane without machines is at another version.
    #[serde(deserialize_with = "duration")]
    pub control_plane: Duration,
    /// Duration of a drain besides evictions.
    #[serde(deserialize_with = "duration")]
    pub drain: Duration,
    /// Until deleted infrastructure is gone.
    #[serde(deserialize_with = "duration")]
    pub deletion: Duration,
    /// Total time of controllers for one machine: requests and queues.
    #[serde(deserialize_with = "duration")]
    pub controllers: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timings {
            cluster: seconds(5),
            infrastructure: seconds(20),
            bootstrap: seconds(10),
            node: seconds(10),
            etcd: seconds(2),
            api_server: seconds(2),
            etcd_removal: seconds(2),
            control_plane: seconds(60),
            drain: seconds(5),
            deletion: seconds(5),
            controllers: seconds(3),
        }
    }
}

impl Timings {
    /// A tenth of the default times, for demonstrations.
    pub fn quick() -> Self {
        let Timings {
            cluster,
            infrastructure,
            bootstrap,
            node,
            etcd,
            api_server,
            etcd_removal,
            control_plane,
            drain,
            deletion,
            controllers: _,
        } = Timings::default();
        Timings {
            cluster: cluster / 10,
            infrastructure: infrastructure / 10,
            bootstrap: bootstrap / 10,
            node: node / 10,
            etcd: etcd / 10,
            api_server: api_server / 10,
            etcd_removal: etcd_removal / 10,
            control_plane: control_plane / 10,
            drain: drain / 10,
            deletion: deletion / 10,
            controllers: Duration::ZERO,
        }
    }

    /// All delays zero.
    pub const NONE: Timings = Timings {
        cluster: Duration::ZERO,
        infrastructure: Duration::ZERO,
        bootstrap: Duration::ZERO,
        node: Duration::ZERO,
        etcd: Duration::ZERO,
        api_server: Duration::ZERO,
        etcd_removal: Duration::ZERO,
        control_plane: Duration::ZERO,
        drain: Duration::ZERO,
        deletion: Duration::ZERO,
        controllers: Duration::ZERO,
    };
}

/// An injected failure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectedFailure {
    /// Name of the Cluster, with or without namespace; `None` for all.
    pub cluster: Option<String>,
    /// Number of the machine within the Cluster in creation order, from 1; `None` for all.
    pub machine: Option<u32>,
    pub what: FailingPart,
}

impl InjectedFailure {
    /// Whether it applies to a Cluster.
    pub fn is_of(&self, cluster: &ObjectKey) -> bool {
        self.cluster.as_deref().is_none_or(|name| match name.split_once('/') {
            Some((namespace, name)) => namespace == &*cluster.namespace && name == &*cluster.name,
            None => name == &*cluster.name,
        })
    }
}

/// The failing part of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailingPart {
    /// The provider reports a terminal failure.
    Infrastructure,
    /// The bootstrap data is never created.
    Bootstrap,
    /// The Node never appears.
    Node,
    /// The Node never becomes ready.
    NodeReady,
}

/// A non-negative duration in Go syntax, such as `1m30s`.
fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    read_duration(&text).ok_or_else(|| {
        serde::de::Error::custom(format!("{text:?} is not a duration; write a number and a unit, such as 20s or 1m30s"))
    })
}

/// A non-negative duration in Go syntax.
pub fn read_duration(text: &str) -> Option<Duration> {
    Some(Duration::from_nanos(u64::try_from(go_duration(text)?).ok()?))
}

/// A file of timings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimingsFile {
    pub timings: Timings,
    pub failures: Vec<InjectedFailure>,
    /// Names of the timings in the file.
    pub named: BTreeSet<String>,
}

/// A file of timings that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TimingsError {
    #[error("line {line}: {0}", line = .0.line)]
    NoYaml(#[from] YamlError),
    #[error("it has {found} where names of timings and durations belong")]
    NoObject { found: &'static str },
    #[error("failures: {0}")]
    Failures(#[source] serde_json::Error),
    /// The names that serde lists for an unknown one lack `failures`.
    #[error("{0}{more}", more = if .0.to_string().starts_with("unknown field") { ", `failures`" } else { "" })]
    Timings(#[source] serde_json::Error),
}

/// Reads a file of timings: durations by name, and `failures`. Missing ones keep their defaults.
///
/// # Errors
/// When it is not YAML, or contains something unknown; names it.
pub fn read(text: &str) -> Result<TimingsFile, TimingsError> {
    let value = yaml::value(text)?;
    let mut members = match value {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other => return Err(TimingsError::NoObject { found: type_of(&other) }),
    };
    let failures = members.remove("failures").unwrap_or_else(|| Value::Array(Vec::new()));
    let failures = serde_json::from_value(failures).map_err(TimingsError::Failures)?;
    let named = members.keys().cloned().collect();
    let timings = serde_json::from_value(Value::Object(members)).map_err(TimingsError::Timings)?;
    Ok(TimingsFile { timings, failures, named })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_timings_changes_what_it_names() {
        let text = "infrastructure: 1s\nbootstrap: 1m30s\nfailures:\n- machine: 3\n  what: nodeReady\n\
                    - cluster: demo\n  what: bootstrap\n";
        let TimingsFile { timings, failures, named } = read(text).unwrap();
        assert_eq!(named, ["bootstrap", "infrastructure"].map(str::to_owned).into());
        let seconds = Duration::from_secs;
        let want = Timings { infrastructure: seconds(1), bootstrap: seconds(90), ..Timings::default() };
        assert_eq!(timings, want);
        assert_eq!(failures.len(), 2);
        assert_eq!((failures[0].machine, failures[0].what), (Some(3), FailingPart::NodeReady));
        assert_eq!(read("").unwrap(), TimingsFile::default());
    }

    #[test]
    fn an_error_in_a_file_of_timings_names_what_is_wrong() {
        for (text, want) in [
            ("infrastructure: soon\n", "\"soon\" is not a duration; write a number and a unit, such as 20s or 1m30s"),
            ("infra: 1s\n", "unknown field `infra`"),
            ("failure: []\n", ", `controllers`, `failures`"),
            ("- 1\n", "it has a list where names of timings and durations belong"),
            ("failures:\n- machine: 1\n", "failures: missing field `what`"),
            ("drain: -1s\n", "\"-1s\" is not a duration"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
