//! Preflight checks before machines are created or remediated (MA-17).

use core::time::Duration;

use super::members::title;
use super::templates::SetTemplates;
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::text;
use golang::version::KubeVersion;
use model::hub::control_plane::{is_upgrading, running_versions, version_at};
use model::hub::{Object, annotation, paths};

/// Interval between failing checks (MA-17.7).
pub(super) const AGAIN: Duration = Duration::from_secs(15);
/// The end of the message of a check that fails, in the condition `ScalingUp` of a MachineSet (MA-17.2 to MA-17.5).
pub const CHECK_FAILED: &str = "preflight check failed)";
/// How many minor versions machines may be behind their control plane.
const MOST_BEHIND: u64 = 3;

/// The inputs of the checks.
struct PreflightFacts<'a> {
    cluster: &'a Object,
    control_plane: &'a Object,
    wanted: KubeVersion,
    running: Vec<KubeVersion>,
    /// Text of the version of the control plane.
    wanted_text: &'a str,
    is_kubeadm: bool,
}

/// A check with its name.
type PreflightCheck = (&'static str, fn(&PreflightFacts<'_>, Option<(&str, &KubeVersion)>) -> Option<String>);

/// All checks, in the order of their messages.
const CHECKS: [PreflightCheck; 4] = [
    ("ControlPlaneIsStable", is_stable),
    ("KubernetesVersionSkew", has_kubernetes_skew),
    ("KubeadmVersionSkew", has_kubeadm_skew),
    ("ControlPlaneVersionSkew", has_control_plane_skew),
];

/// Messages of failed checks; empty if no check applies (MA-17.1).
///
/// # Errors
/// When the control plane or a version cannot be read.
pub(super) fn failures(
    context: &StepContext<'_>,
    cluster: &Object,
    set: &Object,
    templates: &SetTemplates,
) -> Result<Vec<String>, StepError> {
    let to = cluster.control_plane_ref();
    if !to.is_defined() {
        return Ok(Vec::new());
    }
    let skipped = skipped(set, templates);
    let is_active = |name: &str| !skipped.iter().any(|one| one == name || one == "All");
    let active: Vec<PreflightCheck> = CHECKS.into_iter().filter(|(name, _)| is_active(name)).collect();
    if active.is_empty() {
        return Ok(Vec::new());
    }
    let missing = || StepError::failed(format!("{}: {} {} does not exist", title(cluster), to.kind, to.name));
    let control_plane = context.referenced(&to, cluster.namespace())?.ok_or_else(missing)?;
    let wanted_text = control_plane.version();
    if wanted_text.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = version_at(&control_plane, paths::VERSION).map_err(|error| StepError::failed(error.to_string()))?;
    let running = running_versions(&control_plane).map_err(|error| StepError::failed(error.to_string()))?;
    let is_kubeadm = is_kubeadm(templates);
    let facts = PreflightFacts { cluster, control_plane: &control_plane, wanted, running, wanted_text, is_kubeadm };
    let machine = machine_version(set)?;
    let mut failing = Vec::new();
    for (name, check) in active {
        let message = check(&facts, machine.as_ref().map(|(text, version)| (&**text, version)));
        failing.extend(message.map(|message| format!("{message} (\"{name}\" {CHECK_FAILED}")));
    }
    Ok(failing)
}

/// Skipped checks: listed by the set, which has the annotations of its MachineDeployment, or by the bootstrap template
/// (MA-17.6).
fn skipped(set: &Object, templates: &SetTemplates) -> Vec<String> {
    let of_template =
        || templates.bootstrap.object.as_ref().and_then(|it| it.annotation(annotation::SKIP_PREFLIGHT_CHECKS));
    let text = set.annotation(annotation::SKIP_PREFLIGHT_CHECKS).or_else(of_template).unwrap_or_default();
    text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn is_kubeadm(templates: &SetTemplates) -> bool {
    let reference = &templates.bootstrap.reference;
    reference.kind == "KubeadmConfigTemplate" && reference.api_group == "bootstrap.cluster.x-k8s.io"
}

/// The version in the machine template, without which most checks do not apply (MA-17.3).
fn machine_version(set: &Object) -> Result<Option<(String, KubeVersion)>, StepError> {
    let version = set.machine_version();
    if version.is_empty() {
        return Ok(None);
    }
    let parsed = KubeVersion::parse_tolerant(version);
    let parsed = parsed.map_err(|error| {
        StepError::failed(format!("{}: spec.template.spec.version {version:?}: {error}", title(set)))
    })?;
    Ok(Some((version.to_owned(), parsed)))
}

/// The version of a topology; `None` for other Clusters.
fn topology_version(cluster: &Object) -> Option<&str> {
    cluster.at(paths::cluster::TOPOLOGY).map(|_| text(cluster, paths::cluster::TOPOLOGY_VERSION))
}

/// The control plane is neither being provisioned nor upgraded, and has no pending upgrade (MA-17.2).
fn is_stable(facts: &PreflightFacts<'_>, _machine: Option<(&str, &KubeVersion)>) -> Option<String> {
    let PreflightFacts { cluster, control_plane, wanted, running, wanted_text, .. } = facts;
    let name = title(control_plane);
    if let Some(version) = topology_version(cluster)
        && version != *wanted_text
        && cluster.annotation(annotation::UPGRADE_STEP) != Some(wanted_text)
    {
        return Some(format!("{name} is at {wanted_text} and has a pending upgrade to {version}"));
    }
    if running.is_empty() {
        return Some(format!("{name} is being provisioned"));
    }
    is_upgrading(wanted, running).then(|| format!("{name} is being upgraded to {wanted_text}"))
}

/// Machines are not newer than their control plane, and at most three minor versions older (MA-17.3).
fn has_kubernetes_skew(facts: &PreflightFacts<'_>, machine: Option<(&str, &KubeVersion)>) -> Option<String> {
    let (text, machine) = machine?;
    let is_allowed = (machine.major(), machine.minor()) <= (facts.wanted.major(), facts.wanted.minor())
        && facts.wanted.minor() <= machine.minor().saturating_add(MOST_BEHIND);
    (!is_allowed).then(|| {
        format!(
            "version {text} of the Machines and version {} of the control plane do not support each other: \
             Machines may be at most {MOST_BEHIND} minor versions lower, and not higher",
            facts.wanted_text
        )
    })
}

/// kubeadm only joins machines of the same minor version (MA-17.4).
fn has_kubeadm_skew(facts: &PreflightFacts<'_>, machine: Option<(&str, &KubeVersion)>) -> Option<String> {
    let (text, machine) = machine.filter(|_| facts.is_kubeadm)?;
    let is_same = (machine.major(), machine.minor()) == (facts.wanted.major(), facts.wanted.minor());
    (!is_same).then(|| {
        format!(
            "version {text} of the Machines and version {} of the control plane have different minor versions, \
             which kubeadm does not join",
            facts.wanted_text
        )
    })
}

/// Machines of a topology have the version of their control plane (MA-17.5).
fn has_control_plane_skew(facts: &PreflightFacts<'_>, machine: Option<(&str, &KubeVersion)>) -> Option<String> {
    let (text, _) = machine.filter(|_| topology_version(facts.cluster).is_some())?;
    let wanted = facts.wanted_text;
    (text != wanted).then(|| format!("version {text} of the Machines is not {wanted}, which the control plane has"))
}
