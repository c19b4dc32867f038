package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/infrastructure/kind"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Service of Cluster API's test extension.
const (
	extensionNamespace = "test-extension-system"
	extensionService   = "test-extension-webhook-service"
)

// spec is a spec of Cluster API with the input that it gets here.
type spec struct {
	name     string
	register func(*environment)
	heavy    bool // whether it loads the machine
}

// specs has the longest first, so that they do not end last.
var specs = []spec{
	{name: "upgrade-chained", register: func(e *environment) {
		upgrade(e, "upgrades-runtimesdk", func(input *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
			input.InfrastructureProvider = ptr.To("docker")
			input.DeployClusterClassInSeparateNamespace = true
			input.KubernetesVersionFrom = kubernetesLongBefore
			input.KubernetesVersions = upTo(kind.GetKubernetesVersions(), kubernetes)
			input.ExtensionConfigName = "k8s-chained-upgrade-with-runtimesdk-cross-ns"
		})
	}},
	{name: "upgrade-with-hooks", register: func(e *environment) { upgrade(e, "in-memory-topology", nil) }},
	{name: "upgrade-with-class-in-another-namespace", register: func(e *environment) {
		upgrade(e, "in-memory-topology", func(input *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
			input.DeployClusterClassInSeparateNamespace = true
			input.ExtensionConfigName = "k8s-upgrade-with-runtimesdk-cross-ns"
		})
	}},
	{name: "quick-start", register: func(e *environment) {
		quickStart(e, "topology", func(input *e2e.QuickStartSpecInput) { input.PostMachinesProvisioned = e.resilience })
	}},
	{name: "quick-start-v1beta1", register: func(e *environment) {
		quickStart(e, "topology-runtimesdk-v1beta1", func(input *e2e.QuickStartSpecInput) {
			input.ExtensionServiceNamespace = extensionNamespace
			input.ExtensionServiceName = extensionService
			input.PostMachinesProvisioned = e.stability
		})
	}},
	{name: "quick-start-control-plane-only", register: func(e *environment) {
		quickStart(e, "topology-kcp-only", func(input *e2e.QuickStartSpecInput) { input.WorkerMachineCount = ptr.To[int64](0) })
	}},
	{name: "class-changes", register: classChanges},
	{name: "class-rollout", register: classRollout},
	{name: "deletion", register: deletion},
	{name: "in-place-update", register: inPlaceUpdate},
	{name: "scale", register: scale, heavy: true},
}

func quickStart(e *environment, flavor string, edit func(*e2e.QuickStartSpecInput)) {
	e2e.QuickStartSpec(e.ctx, func() e2e.QuickStartSpecInput {
		input := e2e.QuickStartSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup: e.keep,
			Flavor:      ptr.To(flavor),
		}
		edit(&input)
		return input
	})
}

func upgrade(e *environment, flavor string, edit func(*e2e.ClusterUpgradeWithRuntimeSDKSpecInput)) {
	e2e.ClusterUpgradeWithRuntimeSDKSpec(e.ctx, func() e2e.ClusterUpgradeWithRuntimeSDKSpecInput {
		input := e2e.ClusterUpgradeWithRuntimeSDKSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup:               e.keep,
			Flavor:                    ptr.To(flavor),
			PostUpgrade:               e.stability,
			ExtensionServiceNamespace: extensionNamespace,
			ExtensionServiceName:      extensionService,
		}
		if edit != nil {
			edit(&input)
		}
		return input
	})
}

func scale(e *environment) {
	e2e.ScaleSpec(e.ctx, func() e2e.ScaleSpecInput {
		return e2e.ScaleSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup:                       e.keep,
			Flavor:                            ptr.To("in-memory-scale"),
			ClusterCount:                      ptr.To[int64](10),
			Concurrency:                       ptr.To[int64](5),
			ControlPlaneMachineCount:          ptr.To[int64](1),
			MachineDeploymentCount:            ptr.To[int64](1),
			WorkerPerMachineDeploymentCount:   ptr.To[int64](3),
			AdditionalClusterClassCount:       ptr.To[int64](4),
			ClusterClassName:                  "in-memory",
			DeployClusterInSeparateNamespaces: ptr.To(false),
			UseCrossNamespaceClusterClass:     ptr.To(false),
			ExtensionServiceNamespace:         extensionNamespace,
			ExtensionServiceName:              extensionService,
		}
	})
}

func classChanges(e *environment) {
	e2e.ClusterClassChangesSpec(e.ctx, func() e2e.ClusterClassChangesSpecInput {
		verbosity := map[string]any{"spec.template.spec.verbosity": int64(4)}
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup:               e.keep,
			Flavor:                    "in-memory-topology",
			ExtensionServiceNamespace: extensionNamespace,
			ExtensionServiceName:      extensionService,
			ModifyControlPlaneFields:  map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: verbosity,
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
				"spec.template.spec.backend.inMemory.vm.provisioning.startupDuration": "15s",
			},
		}
	})
}

func classRollout(e *environment) {
	e2e.ClusterClassRolloutSpec(e.ctx, func() e2e.ClusterClassRolloutSpecInput {
		return e2e.ClusterClassRolloutSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup:                    e.keep,
			Flavor:                         "in-memory-topology",
			ExtensionServiceNamespace:      extensionNamespace,
			ExtensionServiceName:           extensionService,
			FilterMetadataBeforeValidation: ofTopology,
		}
	})
}

// ofTopology returns labels and annotations without those of the provider and of the test extension.
func ofTopology(object client.Object) clusterv1.ObjectMeta {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	delete(labels, "top-level-label-1")
	for _, name := range []string{
		"inmemorycluster.infrastructure.cluster.x-k8s.io/listener",
		"machine.inmemory.infrastructure.cluster.x-k8s.io/bootstrapped",
		"top-level-annotation-1",
	} {
		delete(annotations, name)
	}
	return clusterv1.ObjectMeta{Labels: labels, Annotations: annotations}
}

func deletion(e *environment) {
	e2e.ClusterDeletionSpec(e.ctx, func() e2e.ClusterDeletionSpecInput {
		machines := func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool { return object.Kind == "Machine" }
		cluster := func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
			return object.Kind == "DevCluster"
		}
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup:              e.keep,
			ControlPlaneMachineCount: ptr.To[int64](3),
			Flavor:                   ptr.To("topology"),
			// Workers, then the control plane, then the infrastructure; machines hold a phase up.
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				{ObjectFilter: within("MachineDeployment", "MachineSet"), BlockingObjectFilter: machines},
				{ObjectFilter: within("KubeadmControlPlane"), BlockingObjectFilter: machines},
				{ObjectFilter: cluster, BlockingObjectFilter: cluster},
			},
		}
	})
}

// within matches objects of these kinds and the Machines that they own.
func within(kinds ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
	return func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
		owned := slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return slices.Contains(kinds, owner.Kind) })
		return slices.Contains(kinds, object.Kind) || object.Kind == "Machine" && owned
	}
}

func inPlaceUpdate(e *environment) {
	e2e.ClusterInPlaceUpdateSpec(e.ctx, func() e2e.ClusterInPlaceUpdateSpecInput {
		return e2e.ClusterInPlaceUpdateSpecInput{
			E2EConfig: e.config, ClusterctlConfigPath: e.clusterctlConfig, BootstrapClusterProxy: e.proxy, ArtifactFolder: e.artifacts,
			SkipCleanup:               e.keep,
			Flavor:                    ptr.To("in-memory-topology"),
			ExtensionServiceNamespace: extensionNamespace,
			ExtensionServiceName:      extensionService,
			// Otherwise a rollout may make a machine instead of updating one.
			ClusterctlVariables: map[string]string{
				"KUBEADM_CONTROL_PLANE_MAX_SURGE": "0",
				"MD_MAX_SURGE":                    "1",
				"MD_MAX_UNAVAILABLE":              "1",
			},
		}
	})
}

// resilience checks that owner references and finalizers that are removed or outdated come back, and that objects become stable.
func (e *environment) resilience(proxy framework.ClusterProxy, namespace, cluster string) {
	ofCluster := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
	ginkgo.By("Checking that owner references are restored")
	framework.ValidateOwnerReferencesResilience(e.ctx, proxy, namespace, cluster, ofCluster,
		framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, framework.DevInfraOwnerReferenceAssertions(true),
		framework.KubeadmBootstrapOwnerReferenceAssertions, framework.KubeadmControlPlaneOwnerReferenceAssertions(true),
		framework.KubernetesReferenceAssertions)
	ginkgo.By("Checking that owner references get the current API version")
	framework.ValidateOwnerReferencesOnUpdate(e.ctx, proxy, namespace, cluster, ofCluster,
		framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, framework.DevInfraOwnerReferenceAssertions(true),
		framework.KubeadmBootstrapOwnerReferenceAssertions, framework.KubeadmControlPlaneOwnerReferenceAssertions(true),
		framework.KubernetesReferenceAssertions)
	ginkgo.By("Checking that finalizers are restored")
	framework.ValidateFinalizersResilience(e.ctx, proxy, namespace, cluster, ofCluster,
		framework.CoreFinalizersAssertionWithClassyClusters, framework.KubeadmControlPlaneFinalizersAssertion,
		framework.ExpFinalizersAssertion, framework.DevInfraFinalizersAssertion)
	e.stability(proxy, namespace, cluster)
}

// stability checks that no controller goes on writing when all is done.
func (e *environment) stability(proxy framework.ClusterProxy, namespace, cluster string) {
	ginkgo.By("Checking that resource versions are stable")
	framework.ValidateResourceVersionStable(e.ctx, framework.ValidateResourceVersionStableInput{
		ClusterProxy:             proxy,
		Namespace:                namespace,
		OwnerGraphFilterFunction: clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster),
		WaitToBecomeStable:       e.config.GetIntervals("default", "wait-resource-versions-become-stable"),
		WaitToRemainStable:       e.config.GetIntervals("default", "wait-resource-versions-remain-stable"),
	})
}

// upTo returns the versions up to this one, with one for each minor version that is missing at the end.
func upTo(versions []string, last string) []string {
	target := semver.MustParse(strings.TrimPrefix(last, "v"))
	minor := uint64(0)
	for _, version := range versions {
		minor = max(minor, semver.MustParse(strings.TrimPrefix(version, "v")).Minor)
	}
	for minor++; minor < target.Minor; minor++ {
		versions = append(versions, fmt.Sprintf("v1.%d.0", minor))
	}
	if minor == target.Minor {
		versions = append(versions, last)
	}
	return versions
}
