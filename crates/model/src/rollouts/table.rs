//! The rules. Fields with another name in v1beta1 are listed under both names.

use super::RolloutOwner::{
    EmbeddedControlPlane, KubeadmControlPlane, MachineDeployment, MachinePool, OtherControlPlane, Rke2ControlPlane,
};
use super::{Decider, RolloutEffect, RolloutOwner, RolloutRule};

const KUBEADM: &[RolloutOwner] = &[KubeadmControlPlane];
const RKE2: &[RolloutOwner] = &[Rke2ControlPlane];
const DEPLOYMENT: &[RolloutOwner] = &[MachineDeployment];
const POOL: &[RolloutOwner] = &[MachinePool];
/// Control planes with known controllers.
const KNOWN: &[RolloutOwner] = &[KubeadmControlPlane, EmbeddedControlPlane];
/// Control planes that apply these fields to running machines, as the control plane contract requires.
const OF_CONTRACT: &[RolloutOwner] = &[KubeadmControlPlane, EmbeddedControlPlane, Rke2ControlPlane, OtherControlPlane];
/// Control planes other than kubeadm's.
const OTHERS: &[RolloutOwner] = &[EmbeddedControlPlane, OtherControlPlane];
const WORKERS: &[RolloutOwner] = &[MachineDeployment, MachinePool];

const fn rule(
    rule: &'static str,
    owners: &'static [RolloutOwner],
    path: &'static str,
    effect: RolloutEffect,
) -> RolloutRule {
    RolloutRule { rule, owners, path, effect, decider: Decider::Rule }
}

const fn provider(
    rule: &'static str,
    owners: &'static [RolloutOwner],
    path: &'static str,
    effect: RolloutEffect,
) -> RolloutRule {
    RolloutRule { rule, owners, path, effect, decider: Decider::Provider }
}

/// All rules. The one with the longest path counts.
pub const ROWS: &[RolloutRule] = &[
    // Fields that are not listed below.
    rule("ROLL-7", KUBEADM, "spec", RolloutEffect::Nothing),
    rule("ROLL-14", &[EmbeddedControlPlane], "spec", RolloutEffect::Replaces),
    provider("ROLL-14", &[OtherControlPlane, Rke2ControlPlane], "spec", RolloutEffect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec", RolloutEffect::Nothing),
    provider("ROLL-15", POOL, "spec", RolloutEffect::Nothing),
    // Versions.
    rule("ROLL-1", KNOWN, "spec.version", RolloutEffect::Replaces),
    rule("ROLL-14", &[OtherControlPlane], "spec.version", RolloutEffect::Replaces),
    provider("ROLL-14", RKE2, "spec.version", RolloutEffect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.version", RolloutEffect::Replaces),
    provider("ROLL-15", POOL, "spec.template.spec.version", RolloutEffect::Replaces),
    // References to templates: group, kind and name count, versions do not.
    rule("ROLL-2", OF_CONTRACT, "spec.machineTemplate.spec.infrastructureRef", RolloutEffect::Nothing),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.spec.infrastructureRef.name", RolloutEffect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.spec.infrastructureRef.kind", RolloutEffect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.spec.infrastructureRef.apiGroup", RolloutEffect::Replaces),
    rule("ROLL-14", &[OtherControlPlane], "spec.machineTemplate.spec.infrastructureRef.name", RolloutEffect::Replaces),
    provider("ROLL-14", RKE2, "spec.machineTemplate.spec.infrastructureRef.name", RolloutEffect::Replaces),
    rule("ROLL-2", OF_CONTRACT, "spec.machineTemplate.infrastructureRef", RolloutEffect::Nothing),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.infrastructureRef.name", RolloutEffect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.infrastructureRef.kind", RolloutEffect::Replaces),
    rule("ROLL-2", KNOWN, "spec.machineTemplate.infrastructureRef.apiVersion", RolloutEffect::ReplacesByGroup),
    rule("ROLL-14", &[OtherControlPlane], "spec.machineTemplate.infrastructureRef.name", RolloutEffect::Replaces),
    provider("ROLL-14", RKE2, "spec.machineTemplate.infrastructureRef.name", RolloutEffect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.bootstrap", RolloutEffect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.bootstrap.configRef.apiVersion", RolloutEffect::ReplacesByGroup),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.infrastructureRef", RolloutEffect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.infrastructureRef.apiVersion", RolloutEffect::ReplacesByGroup),
    provider("ROLL-15", POOL, "spec.template.spec.bootstrap", RolloutEffect::Replaces),
    provider("ROLL-15", POOL, "spec.template.spec.bootstrap.configRef.apiVersion", RolloutEffect::ReplacesByGroup),
    provider("ROLL-15", POOL, "spec.template.spec.infrastructureRef", RolloutEffect::Replaces),
    provider("ROLL-15", POOL, "spec.template.spec.infrastructureRef.apiVersion", RolloutEffect::ReplacesByGroup),
    // The KubeadmConfig of a machine.
    rule("ROLL-3", KUBEADM, "spec.kubeadmConfigSpec", RolloutEffect::Replaces),
    rule("ROLL-3", KUBEADM, "spec.kubeadmConfigSpec.initConfiguration", RolloutEffect::ReplacesInitialized),
    rule("ROLL-3", KUBEADM, "spec.kubeadmConfigSpec.joinConfiguration", RolloutEffect::ReplacesJoined),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.clusterConfiguration.controlPlaneEndpoint", RolloutEffect::Nothing),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.clusterConfiguration.dns", RolloutEffect::InPlace),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.joinConfiguration.discovery", RolloutEffect::Nothing),
    rule("ROLL-4", KUBEADM, "spec.kubeadmConfigSpec.joinConfiguration.caCertPath", RolloutEffect::ReplacesJoined),
    rule(
        "ROLL-4",
        KUBEADM,
        "spec.kubeadmConfigSpec.initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
        RolloutEffect::Nothing,
    ),
    rule(
        "ROLL-4",
        KUBEADM,
        "spec.kubeadmConfigSpec.joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
        RolloutEffect::Nothing,
    ),
    rule(
        "ROLL-4",
        KUBEADM,
        "spec.kubeadmConfigSpec.clusterConfiguration.apiServer.timeoutForControlPlane",
        RolloutEffect::Nothing,
    ),
    // Times at which machines are replaced regardless of changes.
    rule("ROLL-6", KNOWN, "spec.rollout.after", RolloutEffect::ReplacesAfter),
    rule("ROLL-6", KNOWN, "spec.rolloutAfter", RolloutEffect::ReplacesAfter),
    rule("ROLL-6", KNOWN, "spec.rollout.before.certificatesExpiryDays", RolloutEffect::ReplacesExpiring),
    rule("ROLL-6", KNOWN, "spec.rolloutBefore.certificatesExpiryDays", RolloutEffect::ReplacesExpiring),
    rule("ROLL-10", DEPLOYMENT, "spec.rollout.after", RolloutEffect::ReplacesAfter),
    rule("ROLL-10", DEPLOYMENT, "spec.rolloutAfter", RolloutEffect::ReplacesAfter),
    // Fields that are applied to running machines, or ignored.
    rule("ROLL-7", OF_CONTRACT, "spec.replicas", RolloutEffect::Scales),
    rule("ROLL-12", WORKERS, "spec.replicas", RolloutEffect::Scales),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.metadata", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.spec.deletion", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.nodeDrainTimeout", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.nodeDeletionTimeout", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.nodeVolumeDetachTimeout", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.spec.taints", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.taints", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.spec.readinessGates", RolloutEffect::InPlace),
    rule("ROLL-7", OF_CONTRACT, "spec.machineTemplate.readinessGates", RolloutEffect::InPlace),
    rule("ROLL-7", OTHERS, "spec.machineNaming", RolloutEffect::Nothing),
    rule("ROLL-7", OTHERS, "spec.machineNamingStrategy", RolloutEffect::Nothing),
    rule("ROLL-7", OTHERS, "spec.remediation", RolloutEffect::Nothing),
    rule("ROLL-7", OTHERS, "spec.remediationStrategy", RolloutEffect::Nothing),
    rule("ROLL-7", OTHERS, "spec.rollout", RolloutEffect::Nothing),
    rule("ROLL-7", OTHERS, "spec.rolloutStrategy", RolloutEffect::Nothing),
    rule("ROLL-14", RKE2, "spec.rolloutStrategy", RolloutEffect::Nothing),
    rule("ROLL-14", RKE2, "spec.rollout", RolloutEffect::Nothing),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.failureDomain", RolloutEffect::Replaces),
    rule("ROLL-9", DEPLOYMENT, "spec.template.metadata", RolloutEffect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.minReadySeconds", RolloutEffect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.readinessGates", RolloutEffect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.deletion", RolloutEffect::InPlace),
    rule("ROLL-9", DEPLOYMENT, "spec.template.spec.taints", RolloutEffect::InPlace),
];
