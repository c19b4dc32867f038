//! The rows. Where a field has another name in v1beta1, both stand here.

use super::Owner::{
    EmbeddedControlPlane, KubeadmControlPlane, MachineDeployment, MachinePool, OtherControlPlane, Rke2ControlPlane,
};
use super::{Decider, Effect, Owner, Row};

const KUBEADM: &[Owner] = &[KubeadmControlPlane];
const RKE2: &[Owner] = &[Rke2ControlPlane];
const DEPLOYMENT: &[Owner] = &[MachineDeployment];
const POOL: &[Owner] = &[MachinePool];
/// Control planes whose controllers are known.
const KNOWN: &[Owner] = &[KubeadmControlPlane, EmbeddedControlPlane];
/// Control planes that hand these fields to running machines, as the contract of control planes says.
const OF_CONTRACT: &[Owner] = &[KubeadmControlPlane, EmbeddedControlPlane, Rke2ControlPlane, OtherControlPlane];
/// Control planes that are not of kubeadm.
const OTHERS: &[Owner] = &[EmbeddedControlPlane, OtherControlPlane];
const WORKERS: &[Owner] = &[MachineDeployment, MachinePool];

const fn rule(rule: &'static str, owners: &'static [Owner], path: &'static str, effect: Effect) -> Row {
    Row { rule, owners, path, effect, decider: Decider::Rule }
}

const fn provider(rule: &'static str, owners: &'static [Owner], path: &'static str, effect: Effect) -> Row {
    Row { rule, owners, path, effect, decider: Decider::Provider }
}

/// All rows. The one with the longest path counts.
pub const ROWS: &[Row] = &[
    // What is not named below.
    rule("ROLL-7", KUBEADM, "spec", Effect::Nothing),
    rule("ROLL-14", &[EmbeddedControlPlane], "spec", Effect::Replaces),
    provider("ROLL-14", &[OtherControlPlane, Rke2ControlPlane], "spec", Effect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec", Effect::Nothing),
    provider("ROLL-15", POOL, "spec", Effect::Nothing),
    // Versions.
    rule("ROLL-1", KNOWN, "spec.version", Effect::Replaces),
    rule("ROLL-14", &[OtherControlPlane], "spec.version", Effect::Replaces),
    provider("ROLL-14", RKE2, "spec.version", Effect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.version", Effect::Replaces),
    provider("ROLL-15", POOL, "spec.template.spec.version", Effect::Replaces),
    // References to templates: group, kind and name count, versions do not.
    rule("ROLL-2", OF_CONTRACT, "spec.machineTemplate.spec.infrastructureRef", Effect::Nothing),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.spec.infrastructureRef.name", Effect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.spec.infrastructureRef.kind", Effect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.spec.infrastructureRef.apiGroup", Effect::Replaces),
    rule("ROLL-14", &[OtherControlPlane], "spec.machineTemplate.spec.infrastructureRef.name", Effect::Replaces),
    provider("ROLL-14", RKE2, "spec.machineTemplate.spec.infrastructureRef.name", Effect::Replaces),
    rule("ROLL-2", OF_CONTRACT, "spec.machineTemplate.infrastructureRef", Effect::Nothing),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.infrastructureRef.name", Effect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.infrastructureRef.kind", Effect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.infrastructureRef.apiVersion", Effect::ReplacesByGroup),
    rule("ROLL-14", &[OtherControlPlane], "spec.machineTemplate.infrastructureRef.name", Effect::Replaces),
    provider("ROLL-14", RKE2, "spec.machineTemplate.infrastructureRef.name", Effect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.bootstrap", Effect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.bootstrap.configRef.apiVersion", Effect::ReplacesByGroup),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.infrastructureRef", Effect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.infrastructureRef.apiVersion", Effect::ReplacesByGroup),
    provider("ROLL-15", POOL, "spec.template.spec.bootstrap", Effect::Replaces),
    provider("ROLL-15", POOL, "spec.template.spec.bootstrap.configRef.apiVersion", Effect::ReplacesByGroup),
    provider("ROLL-15", POOL, "spec.template.spec.infrastructureRef", Effect::Replaces),
    provider("ROLL-15", POOL, "spec.template.spec.infrastructureRef.apiVersion", Effect::ReplacesByGroup),
    // The KubeadmConfig of a machine.
    rule("ROLL-3", KUBEADM, "spec.kubeadmConfigSpec", Effect::Replaces),
    rule("ROLL-3", KUBEADM, "spec.kubeadmConfigSpec.initConfiguration", Effect::ReplacesInitialized),
    rule("ROLL-3", KUBEADM, "spec.kubeadmConfigSpec.joinConfiguration", Effect::ReplacesJoined),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.clusterConfiguration.controlPlaneEndpoint", Effect::Nothing),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.clusterConfiguration.dns", Effect::InPlace),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.joinConfiguration.discovery", Effect::Nothing),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.joinConfiguration.caCertPath", Effect::ReplacesJoined),
    rule(
        "ROLL-4",
        KUBEADM,
        "spec.kubeadmConfigSpec.initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
        Effect::Nothing,
    ),
    rule(
        "ROLL-4",
        KUBEADM,
        "spec.kubeadmConfigSpec.joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
        Effect::Nothing,
    ),
    rule(
        "ROLL-4",
        KUBEADM,
        "spec.kubeadmConfigSpec.clusterConfiguration.apiServer.timeoutForControlPlane",
        Effect::Nothing,
    ),
    // Times at which machines are replaced in any case.
    rule("ROLL-6", KNOWN, "spec.rollout.after", Effect::ReplacesAfter),
    rule("ROLL-6", KNOWN, "spec.rolloutAfter", Effect::ReplacesAfter),
    rule("ROLL-6", KNOWN, "spec.rollout.before.certificatesExpiryDays", Effect::ReplacesExpiring),
    rule("ROLL-6", KNOWN, "spec.rolloutBefore.certificatesExpiryDays", Effect::ReplacesExpiring),
    rule("ROLL-10", DEPLOYMENT, "spec.rollout.after", Effect::ReplacesAfter),
    rule("ROLL-10", DEPLOYMENT, "spec.rolloutAfter", Effect::ReplacesAfter),
    // What running machines get, and what they do not look at.
    rule("ROLL-7", OF_CONTRACT, "spec.replicas", Effect::Scales),
    rule("ROLL-12", WORKERS, "spec.replicas", Effect::Scales),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.metadata", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.spec.deletion", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.nodeDrainTimeout", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.nodeDeletionTimeout", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.nodeVolumeDetachTimeout", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.spec.taints", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.taints", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.spec.readinessGates", Effect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.readinessGates", Effect::InPlace),
    rule("ROLL-7", OTHERS, "spec.machineNaming", Effect::Nothing),
    rule("ROLL-7", OTHERS, "spec.machineNamingStrategy", Effect::Nothing),
    rule("ROLL-7", OTHERS, "spec.remediation", Effect::Nothing),
    rule("ROLL-7", OTHERS, "spec.remediationStrategy", Effect::Nothing),
    rule("ROLL-7", OTHERS, "spec.rollout", Effect::Nothing),
    rule("ROLL-7", OTHERS, "spec.rolloutStrategy", Effect::Nothing),
    rule("ROLL-14", RKE2, "spec.rolloutStrategy", Effect::Nothing),
    rule("ROLL-14", RKE2, "spec.rollout", Effect::Nothing),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.failureDomain", Effect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.metadata", Effect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.minReadySeconds", Effect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.readinessGates", Effect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.deletion", Effect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.taints", Effect::InPlace),
];
