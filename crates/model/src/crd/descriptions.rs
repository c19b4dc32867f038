//! The description of each field, for `kubectl explain`.
//!
//! An entry is the end of a path, without positions and beginning with the kind, and a sentence. The longest matching
//! end counts, so a field has the same sentence in every version. Only installed definitions have descriptions: the
//! schemas for validation have none.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

/// The end of a path, and its description.
type Description = (&'static str, &'static str);

/// The entries of every field name, longest path first.
static BY_NAME: LazyLock<HashMap<&'static str, Vec<Description>>> = LazyLock::new(|| {
    let mut rows: HashMap<&str, Vec<Description>> = HashMap::new();
    for (path, sentence) in [KINDS, COMMON, CLUSTER, CLASS, MACHINES, EXTENSIONS, PROVIDER].concat() {
        rows.entry(last(path)).or_default().push((path, sentence));
    }
    rows.values_mut().for_each(|rows| rows.sort_by_key(|(path, _)| std::cmp::Reverse(path.split('.').count())));
    rows
});

/// Adds descriptions to a kind's `openAPIV3Schema` and all of its fields.
pub(super) fn describe(kind: &str, schema: &mut Value) {
    if let Some(sentence) = sentence(kind) {
        schema["description"] = json!(sentence);
    }
    describe_fields(kind, schema);
}

fn describe_fields(path: &str, schema: &mut Value) {
    let is_root = !path.contains('.');
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        // The API server describes object metadata itself, and rejects definitions that do.
        for (name, field) in fields.iter_mut().filter(|(name, _)| !is_root || *name != "metadata") {
            let path = format!("{path}.{name}");
            let own = OF_EVERY_OBJECT.iter().find(|(own, _)| is_root && own == name).map(|(_, sentence)| *sentence);
            if let Some(sentence) = own.or_else(|| sentence(&path)) {
                field["description"] = json!(sentence);
            }
            describe_fields(&path, field);
        }
    }
    for entries in ["items", "additionalProperties"] {
        if let Some(entries) = schema.get_mut(entries) {
            describe_fields(path, entries);
        }
    }
}

fn sentence(path: &str) -> Option<&'static str> {
    let rows = BY_NAME.get(last(path))?;
    rows.iter().find(|(end, _)| ends(path, end)).map(|(_, sentence)| *sentence)
}

/// Whether a path ends with these segments.
pub(super) fn ends(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The paths of all entries.
#[cfg(test)]
pub(super) fn ends_of_paths() -> impl Iterator<Item = &'static str> {
    BY_NAME.values().flatten().map(|(path, _)| *path)
}

fn last(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, name)| name)
}

/// Top-level fields of every object.
const OF_EVERY_OBJECT: &[Description] =
    &[("apiVersion", "The API group and version of this object."), ("kind", "The kind of this object.")];

const KINDS: &[Description] = &[
    ("ExtensionConfig", "The address of a Runtime Extension, and the handlers that it has."),
    ("Cluster", "A Kubernetes cluster whose machines and control plane are managed by Cluster API."),
    ("ClusterClass", "A template for Clusters: the templates of their parts, variables, and patches."),
    ("MachineDeployment", "A group of worker machines that is scaled and updated through MachineSets."),
    ("MachineSet", "A set of identical Machines, kept at a number of replicas."),
    ("Machine", "One machine that runs a Kubernetes node."),
    ("MachineHealthCheck", "The conditions under which Machines of a Cluster are unhealthy and are remediated."),
    ("MachinePool", "A group of worker machines that the infrastructure provider scales and updates."),
    ("EmbeddedCluster", "The infrastructure of a Cluster that exists in memory only."),
    ("EmbeddedClusterTemplate", "A template for EmbeddedCluster objects."),
    ("EmbeddedMachine", "A machine that exists in memory only."),
    ("EmbeddedMachineTemplate", "A template for EmbeddedMachine objects."),
    ("EmbeddedMachinePool", "A pool of machines that exist in memory only."),
    ("EmbeddedMachinePoolTemplate", "A template for EmbeddedMachinePool objects."),
    ("EmbeddedConfig", "The bootstrap data of an embedded machine."),
    ("EmbeddedConfigTemplate", "A template for EmbeddedConfig objects."),
    ("EmbeddedControlPlane", "A control plane that is made of embedded machines."),
    ("EmbeddedControlPlaneTemplate", "A template for EmbeddedControlPlane objects."),
];

/// Fields of several kinds.
const COMMON: &[Description] = &[
    ("apiVersion", "The API group and version of the referenced object."),
    ("kind", "The kind of the referenced object."),
    ("name", "The name of the referenced object."),
    ("namespace", "The namespace of the referenced object."),
    ("apiGroup", "The API group of the referenced object. Its version comes from the contract of the CRD."),
    ("uid", "The UID of the referenced object."),
    ("resourceVersion", "The resource version of the referenced object."),
    ("fieldPath", "The part of the referenced object that is meant."),
    ("spec", "The desired state of the object."),
    ("status", "The observed state of the object. Controllers write it."),
    ("template.spec", "The spec of the objects that are created from this template."),
    ("metadata", "Labels and annotations for the objects that are created from this part."),
    ("labels", "Labels as keys and values."),
    ("annotations", "Annotations as keys and values."),
    ("selector", "The labels that select objects."),
    ("matchLabels", "Labels that an object must have with exactly these values."),
    ("matchExpressions", "Requirements on labels. An object must meet all of them."),
    ("matchExpressions.key", "The key of the label."),
    ("matchExpressions.operator", "How the label relates to the values: In, NotIn, Exists or DoesNotExist."),
    ("matchExpressions.values", "The values for In and NotIn. Empty for Exists and DoesNotExist."),
    ("conditions", "The latest observations of the object, one entry for each condition type."),
    ("conditions.type", "The type of the condition."),
    ("conditions.status", "Whether the condition holds: True, False or Unknown."),
    ("conditions.reason", "The reason for the last change of the condition, in one word."),
    ("conditions.message", "Details of the condition, for people."),
    ("conditions.severity", "How serious a False condition is: Error, Warning or Info."),
    ("conditions.lastTransitionTime", "The time when the status of the condition last changed."),
    ("conditions.observedGeneration", "The generation of the object that the condition describes."),
    ("observedGeneration", "The generation of the object that the status describes."),
    ("deprecated", "Fields of earlier API versions that will be removed."),
    ("deprecated.v1beta1", "Status fields of v1beta1 that will be removed with it."),
    ("status.v1beta2", "Status fields in the form that they have in v1beta2."),
    ("failureReason", "Why the object failed for good, in one word. Deprecated."),
    ("failureMessage", "Why the object failed for good, for people. Deprecated."),
    ("initialization", "How far the first provisioning of the object has come."),
    ("phase", "The current phase of the object."),
    ("paused", "Whether controllers leave the Cluster and its objects alone."),
    ("clusterName", "The name of the Cluster that the object belongs to."),
    ("replicas", "The number of machines."),
    ("spec.replicas", "The desired number of machines."),
    ("topology.controlPlane.replicas", "The desired number of machines. Empty leaves the number to others."),
    ("machineDeployments.replicas", "The desired number of machines. Empty leaves the number to an autoscaler."),
    ("machinePools.replicas", "The desired number of machines. Empty leaves the number to an autoscaler."),
    ("versions.replicas", "The number of machines with this version."),
    ("desiredReplicas", "The desired number of machines."),
    ("readyReplicas", "The number of machines that are ready."),
    ("availableReplicas", "The number of machines that have been ready for long enough."),
    ("upToDateReplicas", "The number of machines that match the current spec."),
    ("updatedReplicas", "The number of machines that match the current spec."),
    ("unavailableReplicas", "The number of machines that are missing or not available."),
    ("fullyLabeledReplicas", "The number of machines that have all labels of the template."),
    ("versions", "The Kubernetes versions that machines have now."),
    ("version", "A Kubernetes version."),
    ("spec.version", "The Kubernetes version that the machines should have."),
    ("status.version", "The lowest Kubernetes version of the machines."),
    ("minReadySeconds", "How many seconds a machine must be ready before it counts as available."),
    ("failureDomain", "The failure domain in which machines are created."),
    ("status.failureDomain", "The failure domain in which the machine is."),
    ("failureDomains", "The failure domains across which machines are spread."),
    ("status.failureDomains", "The failure domains that the infrastructure provider reports."),
    ("failureDomains.name", "The name of the failure domain."),
    ("failureDomains.controlPlane", "Whether control plane machines may be created in the failure domain."),
    ("failureDomains.attributes", "Properties of the failure domain, as the infrastructure provider names them."),
    ("controlPlaneEndpoint", "Where the API server of the cluster can be reached."),
    ("controlPlaneEndpoint.host", "The host name or IP address of the API server."),
    ("controlPlaneEndpoint.port", "The TCP port of the API server."),
    ("infrastructureRef", "The infrastructure object or template that the provider's controller reconciles."),
    ("bootstrap", "Where the bootstrap data of machines comes from."),
    ("taints", "Taints that the nodes of the machines get."),
    ("taints.key", "The key of the taint."),
    ("taints.value", "The value of the taint."),
    ("taints.effect", "What the taint does to pods: NoSchedule, PreferNoSchedule or NoExecute."),
    (
        "taints.propagation",
        "Whether the taint is kept on nodes (Always) or only set when they join (OnInitialization).",
    ),
    ("readinessGates", "Further conditions that a Machine must meet before it is ready."),
    ("availabilityGates", "Further conditions that the Cluster must meet before it is available."),
    ("conditionType", "The type of the condition that is required."),
    ("polarity", "Whether the condition is good when it is True (Positive) or when it is False (Negative)."),
    ("deletion", "How machines are deleted."),
    ("order", "Which machines are deleted first: Random, Newest or Oldest."),
    ("deletePolicy", "Which machines are deleted first: Random, Newest or Oldest."),
    ("nodeDrainTimeoutSeconds", "How many seconds draining a node may take. 0 means no limit."),
    ("nodeDrainTimeout", "How long draining a node may take. 0 means no limit."),
    ("nodeVolumeDetachTimeoutSeconds", "How many seconds detaching the volumes of a node may take. 0 means no limit."),
    ("nodeVolumeDetachTimeout", "How long detaching the volumes of a node may take. 0 means no limit."),
    ("nodeDeletionTimeoutSeconds", "How many seconds deleting the node is retried. 0 means no limit."),
    ("nodeDeletionTimeout", "How long deleting the node is retried. 0 means no limit."),
    ("rollout", "How and when machines are replaced."),
    ("rollout.after", "Machines that were created before this time are replaced once it has come."),
    ("strategy", "How machines are replaced when their spec changes."),
    ("strategy.type", "RollingUpdate replaces machines by itself. OnDelete replaces a machine when it is deleted."),
    ("rollingUpdate", "The limits of a rolling update."),
    ("maxSurge", "How many machines may exist beyond the desired number, as a number or percentage."),
    ("maxUnavailable", "How many machines may be unavailable, as a number or percentage."),
    ("strategy.remediation", "How unhealthy machines are replaced."),
    ("remediation", "How unhealthy machines are remediated."),
    ("maxInFlight", "How many machines are remediated at the same time, as a number or percentage."),
    ("healthCheck", "The MachineHealthCheck for these machines."),
    ("machineHealthCheck", "The MachineHealthCheck for these machines."),
    ("enabled", "Whether there is a MachineHealthCheck. Empty follows the ClusterClass."),
    ("enable", "Whether there is a MachineHealthCheck. Empty follows the ClusterClass."),
    ("checks", "When a machine is unhealthy."),
    ("nodeStartupTimeoutSeconds", "How many seconds a machine may take until its node joins. 0 means no limit."),
    ("nodeStartupTimeout", "How long a machine may take until its node joins. 0 means no limit."),
    ("unhealthyNodeConditions", "Conditions of a node that make its machine unhealthy. One of them is enough."),
    ("unhealthyConditions", "Conditions of a node that make its machine unhealthy. One of them is enough."),
    ("unhealthyMachineConditions", "Conditions of a Machine that make it unhealthy. One of them is enough."),
    ("unhealthyNodeConditions.type", "The type of the node's condition."),
    ("unhealthyConditions.type", "The type of the node's condition."),
    ("unhealthyMachineConditions.type", "The type of the Machine's condition."),
    ("unhealthyNodeConditions.status", "The status of the condition that is unhealthy."),
    ("unhealthyConditions.status", "The status of the condition that is unhealthy."),
    ("unhealthyMachineConditions.status", "The status of the condition that is unhealthy."),
    ("timeoutSeconds", "For how many seconds the condition must have this status."),
    ("timeout", "For how long the condition must have this status."),
    ("triggerIf", "Limits on unhealthy machines beyond which none is remediated."),
    (
        "unhealthyLessThanOrEqualTo",
        "Remediate only while no more machines than this number or percentage are unhealthy.",
    ),
    ("maxUnhealthy", "Remediate only while no more machines than this number or percentage are unhealthy."),
    ("unhealthyInRange", "Remediate only while the number of unhealthy machines is in this range, such as [3-5]."),
    ("unhealthyRange", "Remediate only while the number of unhealthy machines is in this range, such as [3-5]."),
    ("remediation.templateRef", "The template of the object that asks an external controller to remediate a machine."),
    ("remediationTemplate", "The template of the object that asks an external controller to remediate a machine."),
    ("addresses", "The addresses of the machine."),
    ("addresses.address", "The address."),
    ("addresses.type", "What kind of address it is, such as InternalIP or Hostname."),
];

const CLUSTER: &[Description] = &[
    (
        "Cluster.spec.controlPlaneRef",
        "The control plane object of the Cluster. With a topology it is set automatically.",
    ),
    (
        "Cluster.spec.infrastructureRef",
        "The infrastructure object of the Cluster. With a topology it is set automatically.",
    ),
    ("clusterNetwork", "The network of the cluster."),
    ("apiServerPort", "The TCP port on which the API server listens."),
    ("pods", "The IP ranges for pods."),
    ("services", "The IP ranges for Services."),
    ("cidrBlocks", "IP ranges in CIDR notation."),
    ("serviceDomain", "The DNS domain of Services, such as cluster.local."),
    ("topology", "The desired cluster, as a ClusterClass with versions, replicas and values for its variables."),
    ("classRef", "The ClusterClass of the Cluster."),
    ("classRef.name", "The name of the ClusterClass."),
    ("classRef.namespace", "The namespace of the ClusterClass. Empty means that of the Cluster."),
    ("topology.class", "The name of the ClusterClass."),
    ("classNamespace", "The namespace of the ClusterClass. Empty means that of the Cluster."),
    ("topology.version", "The Kubernetes version of the cluster."),
    (
        "rolloutAfter",
        "The rollout.after of the control plane and of machine deployments without one. They roll out at the same \
         time.",
    ),
    ("topology.controlPlane", "The control plane of the cluster."),
    ("topology.variables", "Values for the variables of the ClusterClass."),
    ("topology.workers", "The worker machines of the cluster."),
    ("variables", "Values of variables for this part of the topology alone."),
    ("overrides", "Values that take precedence over those of the whole topology."),
    ("topology.variables.name", "The name of the variable."),
    ("overrides.name", "The name of the variable."),
    ("topology.variables.value", "The value of the variable, as any JSON that fits its schema."),
    ("overrides.value", "The value of the variable, as any JSON that fits its schema."),
    ("definitionFrom", "Which definition of the variable is meant. Must be empty when all definitions agree."),
    ("machineDeployments", "The MachineDeployments of the cluster."),
    ("machinePools", "The MachinePools of the cluster."),
    ("machineDeployments.class", "The machine deployment class of the ClusterClass to use."),
    ("machinePools.class", "The machine pool class of the ClusterClass to use."),
    ("machineDeployments.name", "The name of this MachineDeployment within the topology."),
    ("machinePools.name", "The name of this MachinePool within the topology."),
    ("status.controlPlane", "The machines of the control plane in numbers and versions."),
    ("status.workers", "The worker machines in numbers and versions."),
    ("v1beta2.controlPlane", "The machines of the control plane in numbers and versions."),
    ("v1beta2.workers", "The worker machines in numbers and versions."),
    ("upgradePlan", "The versions that are still ahead in the current upgrade, in order."),
    ("controlPlaneInitialized", "Whether the control plane can take requests for the first time."),
    ("infrastructureProvisioned", "Whether the infrastructure has been provisioned."),
    ("controlPlaneReady", "Whether the control plane is ready."),
    ("infrastructureReady", "Whether the infrastructure is ready."),
];

const CLASS: &[Description] = &[
    ("ClusterClass.spec.infrastructure", "The infrastructure of Clusters of this class."),
    ("ClusterClass.spec.controlPlane", "The control plane of Clusters of this class."),
    ("ClusterClass.spec.workers", "The worker machines that Clusters of this class can have."),
    ("ClusterClass.spec.variables", "The variables that Clusters of this class can set."),
    ("ClusterClass.spec.variables.name", "The name of the variable."),
    ("ClusterClass.spec.workers.machineDeployments", "The classes of machine deployments."),
    ("ClusterClass.spec.workers.machinePools", "The classes of machine pools."),
    ("ClusterClass.spec.workers.machineDeployments.class", "The name of the class, which Clusters refer to."),
    ("ClusterClass.spec.workers.machinePools.class", "The name of the class, which Clusters refer to."),
    ("ClusterClass.status.variables", "The variables of the class with all their definitions."),
    ("ClusterClass.status.variables.name", "The name of the variable."),
    ("templateRef", "The template that objects of Clusters are created from."),
    ("ref", "The template that objects of Clusters are created from."),
    ("infrastructure", "The infrastructure of the machines."),
    ("machineInfrastructure", "The infrastructure of the machines of the control plane."),
    ("machineDeployments.template", "The templates and metadata of the machines."),
    ("machinePools.template", "The templates and metadata of the machines."),
    ("naming", "How the created objects are named."),
    ("namingStrategy", "How the created objects are named."),
    ("infrastructureNamingStrategy", "How the created objects are named."),
    ("naming.template", "A Go template for the names, such as {{ .cluster.name }}-{{ .random }}."),
    ("namingStrategy.template", "A Go template for the names, such as {{ .cluster.name }}-{{ .random }}."),
    (
        "infrastructureNamingStrategy.template",
        "A Go template for the names, such as {{ .cluster.name }}-{{ .random }}.",
    ),
    ("kubernetesVersions", "The Kubernetes versions that upgrades go through, in ascending order."),
    ("upgrade", "How Clusters of this class are upgraded."),
    ("upgrade.external", "The Runtime Extension that decides about upgrades."),
    ("generateUpgradePlanExtension", "The name of the Runtime Extension that generates upgrade plans."),
    ("patches", "Changes to the templates, applied in order."),
    ("patches.name", "The name of the patch."),
    ("patches.description", "What the patch does, for people."),
    ("enabledIf", "A Go template. The patch is applied when it results in the text true."),
    ("patches.external", "The Runtime Extensions that compute and validate the patch."),
    ("generatePatchesExtension", "The name of the Runtime Extension that generates patches."),
    ("generateExtension", "The name of the Runtime Extension that generates patches."),
    ("validateTopologyExtension", "The name of the Runtime Extension that validates the result of the patches."),
    ("validateExtension", "The name of the Runtime Extension that validates the result of the patches."),
    ("discoverVariablesExtension", "The name of the Runtime Extension that defines further variables."),
    ("settings", "Settings that are passed to the Runtime Extensions."),
    ("patches.definitions", "The JSON patches, and the templates that they apply to."),
    ("definitions.selector", "The templates that the JSON patches apply to."),
    ("definitions.selector.apiVersion", "The API group and version of the templates."),
    ("definitions.selector.kind", "The kind of the templates."),
    ("matchResources", "For which parts of the class the templates are patched."),
    ("matchResources.controlPlane", "Whether the templates of the control plane are patched."),
    ("infrastructureCluster", "Whether the template of the infrastructure cluster is patched."),
    ("machineDeploymentClass", "The machine deployment classes whose templates are patched."),
    ("machinePoolClass", "The machine pool classes whose templates are patched."),
    ("names", "The names of the classes. An asterisk stands for any text at one end."),
    ("jsonPatches", "Operations of a JSON patch, applied in order."),
    ("jsonPatches.op", "The operation: add, replace or remove."),
    ("jsonPatches.path", "The JSON pointer to the field, which starts with /spec/."),
    ("jsonPatches.value", "The new value. Excludes valueFrom."),
    ("valueFrom", "Where the new value comes from. Excludes value."),
    ("valueFrom.variable", "The variable, or the part of one, whose value is used."),
    ("valueFrom.template", "A Go template whose result is the value, as YAML or JSON."),
    ("variables.definitions", "The definitions of the variable, one for each source."),
    ("definitionsConflict", "Whether the definitions of the variable differ."),
    ("definitions.from", "Where the definition is from: inline, or the name of a patch."),
    ("variables.required", "Whether every Cluster must have a value for the variable."),
    ("definitions.required", "Whether every Cluster must have a value for the variable."),
    ("variables.metadata", "Labels and annotations of the variable. Deprecated."),
    ("definitions.metadata", "Labels and annotations of the variable. Deprecated."),
    ("deprecatedV1Beta1Metadata", "Labels and annotations of the variable. Deprecated."),
    ("schema", "The schema that values of the variable must fit."),
    ("openAPIV3Schema", "The schema, in the OpenAPI v3 subset of CustomResourceDefinitions."),
    ("openAPIV3Schema.description", "What the variable is for, for people."),
    ("openAPIV3Schema.example", "A value that shows how the variable is used."),
    ("openAPIV3Schema.type", "The type of the value: object, array, string, integer, number or boolean."),
    ("openAPIV3Schema.properties", "The schemas of the fields of an object."),
    ("openAPIV3Schema.additionalProperties", "The schema of the values of a map."),
    ("openAPIV3Schema.maxProperties", "The largest number of fields of an object."),
    ("openAPIV3Schema.minProperties", "The smallest number of fields of an object."),
    ("openAPIV3Schema.required", "The fields that an object must have."),
    ("openAPIV3Schema.items", "The schema of the items of an array."),
    ("openAPIV3Schema.maxItems", "The largest number of items of an array."),
    ("openAPIV3Schema.minItems", "The smallest number of items of an array."),
    ("openAPIV3Schema.uniqueItems", "Whether the items of an array must differ from each other."),
    ("openAPIV3Schema.format", "The format of a string, such as date-time or ipv4."),
    ("openAPIV3Schema.maxLength", "The largest number of characters of a string."),
    ("openAPIV3Schema.minLength", "The smallest number of characters of a string."),
    ("openAPIV3Schema.pattern", "The regular expression that a string must match."),
    ("openAPIV3Schema.maximum", "The largest number."),
    ("openAPIV3Schema.minimum", "The smallest number."),
    ("openAPIV3Schema.exclusiveMaximum", "Whether a number must be below the maximum."),
    ("openAPIV3Schema.exclusiveMinimum", "Whether a number must be above the minimum."),
    ("x-kubernetes-preserve-unknown-fields", "Whether fields that the schema does not have are kept."),
    ("openAPIV3Schema.enum", "The only values that are allowed."),
    ("openAPIV3Schema.default", "The value for Clusters that set none."),
    ("x-metadata", "Labels and annotations of this part of the schema."),
    ("x-kubernetes-int-or-string", "Whether the value may be an integer or a string."),
    ("allOf", "Schemas that a value must all fit."),
    ("oneOf", "Schemas of which a value must fit exactly one."),
    ("anyOf", "Schemas of which a value must fit at least one."),
    ("not", "A schema that a value must not fit."),
    ("x-kubernetes-validations", "CEL rules that a value must meet."),
    ("x-kubernetes-validations.rule", "The CEL expression. It must be true; self is the value."),
    ("x-kubernetes-validations.message", "The message when the rule is not met."),
    ("x-kubernetes-validations.messageExpression", "A CEL expression whose result is the message."),
    ("x-kubernetes-validations.reason", "The kind of error that is reported when the rule is not met."),
    ("x-kubernetes-validations.fieldPath", "The field at which the error is reported."),
];

const MACHINES: &[Description] = &[
    ("spec.template", "The template of the objects that are created."),
    ("machineNaming", "How the Machines are named."),
    ("machineNaming.template", "A Go template for the names, such as {{ .machineSet.name }}-{{ .random }}."),
    ("bootstrap.configRef", "The object that the bootstrap provider makes the bootstrap data from."),
    ("bootstrap.dataSecretName", "The name of the Secret with the bootstrap data."),
    ("MachineDeployment.spec.deletion", "How surplus machines are deleted."),
    ("MachineSet.spec.deletion", "How surplus machines are deleted."),
    ("Machine.status.deletion", "How far the deletion of the machine has come."),
    ("MachineDeployment.status.selector", "The label selector of the Machines, as text."),
    ("MachineSet.status.selector", "The label selector of the Machines, as text."),
    ("MachineHealthCheck.spec.selector", "The labels of the Machines that are checked."),
    ("providerID", "The ID of the machine at the infrastructure provider."),
    ("providerIDList", "The IDs of the machines at the infrastructure provider."),
    ("Machine.spec.version", "The Kubernetes version of the machine."),
    ("nodeDrainStartTime", "The time when draining the node began."),
    ("waitForNodeVolumeDetachStartTime", "The time when waiting for volumes to be detached began."),
    ("waitForPreDrainHookStartTime", "The time when waiting for pre-drain hooks began."),
    ("waitForPreTerminateHookStartTime", "The time when waiting for pre-terminate hooks began."),
    ("nodeRef", "The node that runs on the machine."),
    ("nodeRef.name", "The name of the node."),
    ("nodeRefs", "The nodes that run on the machines."),
    ("certificatesExpiryDate", "The time when the certificates of the machine expire."),
    ("lastUpdated", "The time when the phase last changed."),
    ("bootstrapDataSecretCreated", "Whether the Secret with the bootstrap data exists."),
    ("nodeInfo", "Facts about the node."),
    ("nodeInfo.architecture", "The processor architecture, such as amd64."),
    ("nodeInfo.bootID", "The ID of the last boot."),
    ("nodeInfo.containerRuntimeVersion", "The name and version of the container runtime."),
    ("nodeInfo.kernelVersion", "The version of the kernel."),
    ("nodeInfo.kubeProxyVersion", "The version of kube-proxy. Deprecated."),
    ("nodeInfo.kubeletVersion", "The version of the kubelet."),
    ("nodeInfo.machineID", "The ID of the machine's system."),
    ("nodeInfo.operatingSystem", "The operating system, such as linux."),
    ("nodeInfo.osImage", "The name and version of the operating system image."),
    ("nodeInfo.systemUUID", "The UUID of the system."),
    ("currentHealthy", "The number of checked machines that are healthy."),
    ("expectedMachines", "The number of machines that are checked."),
    ("remediationsAllowed", "The number of machines that may be remediated now."),
    ("targets", "The names of the Machines that are checked."),
    ("infrastructureMachineKind", "The kind of the infrastructure machines behind the pool."),
];

const EXTENSIONS: &[Description] = &[
    ("clientConfig", "Where the extension is, and which CA it is trusted by."),
    ("caBundle", "The CA certificates of the extension in PEM form. Empty for those of the system."),
    ("clientConfig.url", "The URL of the extension. Only https is allowed."),
    ("clientConfig.service", "The Service of the extension."),
    ("service.name", "The name of the Service."),
    ("service.namespace", "The namespace of the Service."),
    ("service.path", "The path in front of the paths of hooks."),
    ("service.port", "The port of the Service."),
    ("namespaceSelector", "The namespaces for whose objects the extension is called. An empty selector selects all."),
    ("ExtensionConfig.spec.settings", "Settings that the extension gets with each request."),
    ("status.handlers", "The handlers that the extension has, as it says itself."),
    ("handlers.name", "The name that the handler is registered by: <handler>.<ExtensionConfig>."),
    ("handlers.requestHook", "The hook that the handler is for."),
    ("requestHook.apiVersion", "The group and version of the hook."),
    ("requestHook.hook", "The name of the hook."),
    ("handlers.timeoutSeconds", "How long a call may take, in seconds. 0 means 10."),
    ("handlers.failurePolicy", "What a failed call means: Fail (an error) or Ignore."),
];

const PROVIDER: &[Description] = &[
    ("backend", "Where the object exists."),
    ("inMemory", "Settings of the backend that keeps everything in memory."),
    ("inMemory.apiServer", "The API server of the machine."),
    ("inMemory.etcd", "The etcd member of the machine."),
    ("inMemory.failure", "Lets the object fail, in these words."),
    ("failure.message", "The message of the failure."),
    (
        "failure.part",
        "What fails: bootstrap, infrastructure, node (it never comes) or nodeReady (it never becomes ready).",
    ),
    ("failure.reason", "The reason of the failure, one word such as NoCapacity."),
    ("inMemory.node", "The node of the machine."),
    ("inMemory.vm", "The virtual machine itself."),
    ("provisioning", "How long starting takes."),
    ("startupDuration", "The shortest time that starting takes, such as 10s."),
    ("startupJitter", "The share of startupDuration that is added at random, such as 0.2."),
    ("provisioned", "Whether the infrastructure has been provisioned."),
    ("EmbeddedCluster.status.ready", "Whether the infrastructure has been provisioned."),
    ("EmbeddedMachine.status.ready", "Whether the infrastructure has been provisioned."),
    ("EmbeddedMachinePool.status.ready", "Whether the infrastructure has been provisioned."),
    ("EmbeddedConfig.status.ready", "Whether the Secret with the bootstrap data exists."),
    ("EmbeddedControlPlane.status.ready", "Whether a machine of the control plane is ready."),
    ("EmbeddedControlPlane.status.initialized", "Whether the API server of the control plane has answered."),
    ("status.capacity", "The resources of a machine, for autoscalers that start at no machines."),
    ("spec.bootstrap", "Where the bootstrap data of the machine comes from."),
    ("EmbeddedControlPlane.spec.bootstrap", "The bootstrap data of the machines."),
    ("EmbeddedControlPlaneTemplate.spec.template.spec.bootstrap", "The bootstrap data of the machines."),
    ("commands", "Commands that run when the machine starts."),
    ("files", "Files that are written when the machine starts."),
    ("files.content", "The content of the file."),
    ("files.owner", "The owner of the file, such as root:root."),
    ("files.path", "The path of the file."),
    ("files.permissions", "The permissions of the file in octal notation, such as 0644."),
    ("format", "The format of the bootstrap data: cloud-config or ignition."),
    ("kubeletExtraArgs", "Further command line arguments of the kubelet."),
    ("kubeletExtraArgs.name", "The name of the argument."),
    ("kubeletExtraArgs.value", "The value of the argument."),
    ("dataSecretCreated", "Whether the Secret with the bootstrap data exists."),
    ("status.dataSecretName", "The name of the Secret with the bootstrap data."),
    ("machineTemplate", "The template of the Machines."),
    ("machineTemplate.spec", "The spec of the Machines."),
    ("externalManagedControlPlane", "Whether the control plane runs outside the cluster."),
    ("EmbeddedControlPlane.status.selector", "The label selector of the Machines, as text."),
];
