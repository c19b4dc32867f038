//! ClusterClass: templates, variables and patches for the objects of Clusters.

use std::collections::BTreeMap;

use super::{
    Condition, ControlPlaneHealthCheck, HealthCheck, MachineDeletion, MachineGate, Metadata, Naming, RolloutSpec,
    Taint, TemplateHolder, TemplateRef, TopologyMetadata,
};
use golang::json::{List, RawJson, SharedValue, StringMap, lenient};
use schema::openapi;

lenient! {
    /// A ClusterClass.
    pub struct ClusterClass {
        pub metadata: Metadata,
        pub spec: ClusterClassSpec,
        pub status: ClusterClassStatus,
    }

    /// The spec of a ClusterClass.
    pub struct ClusterClassSpec {
        pub availability_gates: List<MachineGate>,
        pub infrastructure: InfrastructureClass,
        pub control_plane: ControlPlaneClass,
        pub workers: WorkersClass,
        pub variables: List<VariableDefinition>,
        pub patches: List<Patch>,
        pub upgrade: ClassUpgrade,
        pub kubernetes_versions: List<String>,
    }

    /// The infrastructure cluster of a class.
    pub struct InfrastructureClass {
        pub template_ref: TemplateRef,
        pub naming: Naming,
    }

    /// The control plane of a class.
    pub struct ControlPlaneClass {
        pub metadata: TopologyMetadata,
        pub template_ref: TemplateRef,
        pub machine_infrastructure: TemplateHolder,
        pub health_check: ControlPlaneHealthCheck,
        pub naming: Naming,
        pub deletion: MachineDeletion,
        pub taints: List<Taint>,
        pub readiness_gates: List<MachineGate>,
    }

    /// The workers of a class.
    pub struct WorkersClass {
        pub machine_deployments: List<MachineDeploymentClass>,
        pub machine_pools: List<MachinePoolClass>,
    }

    /// A class of machine deployments.
    pub struct MachineDeploymentClass {
        pub metadata: TopologyMetadata,
        pub class: String,
        pub bootstrap: TemplateHolder,
        pub infrastructure: TemplateHolder,
        pub health_check: HealthCheck,
        pub failure_domain: String,
        pub naming: Naming,
        pub deletion: MachineDeletion,
        pub taints: List<Taint>,
        pub min_ready_seconds: Option<i32>,
        pub readiness_gates: List<MachineGate>,
        pub rollout: RolloutSpec,
    }

    /// A class of machine pools.
    pub struct MachinePoolClass {
        pub metadata: TopologyMetadata,
        pub class: String,
        pub bootstrap: TemplateHolder,
        pub infrastructure: TemplateHolder,
        pub failure_domains: List<String>,
        pub naming: Naming,
        pub deletion: MachineDeletion,
        pub taints: List<Taint>,
        pub min_ready_seconds: Option<i32>,
    }

    /// A variable that Clusters of the class may set.
    pub struct VariableDefinition {
        pub name: String,
        pub required: bool,
        #[serde(rename = "deprecatedV1Beta1Metadata")]
        pub deprecated_v1beta1_metadata: TopologyMetadata,
        pub schema: VariableSchema,
    }

    /// The schema of a variable.
    pub struct VariableSchema {
        #[serde(rename = "openAPIV3Schema")]
        pub open_api_v3_schema: SharedValue<openapi::SchemaDefinition>,
    }

    /// A patch: inline definitions, or an extension that computes them.
    pub struct Patch {
        pub name: String,
        pub description: String,
        pub enabled_if: String,
        pub definitions: List<PatchDefinition>,
        pub external: Option<ExternalPatch>,
    }

    /// JSON patches for the templates that a selector matches.
    pub struct PatchDefinition {
        pub selector: PatchSelector,
        pub json_patches: List<JsonPatch>,
    }

    /// Selects the templates that a patch definition applies to.
    pub struct PatchSelector {
        pub api_version: String,
        pub kind: String,
        pub match_resources: MatchResources,
    }

    /// Selects the uses of a template that a patch definition applies to.
    pub struct MatchResources {
        pub control_plane: Option<bool>,
        pub infrastructure_cluster: Option<bool>,
        pub machine_deployment_class: Option<ClassNames>,
        pub machine_pool_class: Option<ClassNames>,
    }

    /// Names of worker classes, with `*` at either end.
    pub struct ClassNames {
        pub names: List<String>,
    }

    /// One operation on a template.
    pub struct JsonPatch {
        pub op: String,
        pub path: String,
        pub value: Option<RawJson>,
        pub value_from: Option<JsonPatchValue>,
    }

    /// The source of the value of an operation.
    pub struct JsonPatchValue {
        pub variable: String,
        pub template: String,
    }

    /// A patch computed by a Runtime Extension.
    pub struct ExternalPatch {
        pub generate_patches_extension: String,
        pub validate_topology_extension: String,
        pub discover_variables_extension: String,
        pub settings: StringMap,
    }

    /// Upgrade settings of a class.
    pub struct ClassUpgrade {
        pub external: ExternalUpgrade,
    }

    /// Extensions that plan upgrades.
    pub struct ExternalUpgrade {
        pub generate_upgrade_plan_extension: String,
    }

    /// A variable of the status with its definitions.
    pub struct StatusVariable {
        pub name: String,
        pub definitions_conflict: bool,
        pub definitions: List<StatusVariableDefinition>,
    }

    /// A definition of a variable and its source: `inline`, or the name of a patch.
    pub struct StatusVariableDefinition {
        pub from: String,
        pub required: bool,
        #[serde(rename = "deprecatedV1Beta1Metadata")]
        pub deprecated_v1beta1_metadata: TopologyMetadata,
        pub schema: VariableSchema,
    }

    /// The status of a ClusterClass, reduced to the fields that are read.
    pub struct ClusterClassStatus {
        pub observed_generation: i64,
        pub variables: List<StatusVariable>,
        pub conditions: List<Condition>,
    }
}

impl AsRef<Metadata> for ClusterClass {
    fn as_ref(&self) -> &Metadata {
        &self.metadata
    }
}

/// Reason of a condition of a class whose extensions are not called.
const NOT_CALLED: &str = "ExtensionsNotCalled";

impl ClusterClass {
    /// Whether the controller has reconciled the variables of the current generation (CL-V-051).
    pub fn is_reconciled(&self) -> bool {
        self.metadata.generation == self.status.observed_generation
            && self.status.conditions.iter().any(|c| c.r#type == "VariablesReady" && c.status != "False")
    }

    /// Shares the definitions of the spec with the status, which repeats them unless an extension adds some.
    pub(crate) fn share_definitions(&mut self) {
        let written: BTreeMap<&str, &VariableSchema> =
            self.spec.variables.iter().map(|variable| (&*variable.name, &variable.schema)).collect();
        for variable in &mut *self.status.variables {
            let Some(written) = written.get(&*variable.name) else { continue };
            variable.definitions.iter_mut().filter(|definition| definition.schema == **written).for_each(
                |definition| {
                    definition.schema = (*written).clone();
                },
            );
        }
    }

    /// Marks the class as usable with its known variables, although extensions that are not called may define more: for
    /// files, no controller calls them.
    pub fn use_known_variables(&mut self) {
        let (r#type, status) = ("VariablesReady".to_owned(), "Unknown".to_owned());
        let mut conditions = std::mem::take(&mut self.status.conditions).into_vec();
        conditions.retain(|condition| condition.r#type != r#type);
        conditions.push(Condition { r#type, status, reason: NOT_CALLED.to_owned(), ..Condition::default() });
        self.status.conditions = conditions.into();
        self.status.observed_generation = self.metadata.generation;
    }

    /// Whether uncalled extensions may define further variables.
    pub fn may_have_more_variables(&self) -> bool {
        self.discovers_variables() && self.status.conditions.iter().any(|condition| condition.reason == NOT_CALLED)
    }

    /// Whether a patch discovers variables by an extension.
    pub fn discovers_variables(&self) -> bool {
        self.spec.discovering_patches().next().is_some()
    }
}

impl ClusterClassSpec {
    /// The texts of all templates in its patches, including conditions.
    pub fn templates(&self) -> impl Iterator<Item = &str> {
        let conditions = self.patches.iter().map(|patch| &*patch.enabled_if);
        conditions.chain(self.operations().filter_map(|operation| Some(&*operation.value_from.as_ref()?.template)))
    }

    /// The values set by patches, as written.
    pub(crate) fn patch_values(&self) -> impl Iterator<Item = &str> {
        self.operations().filter_map(|operation| Some(operation.value.as_ref()?.get()))
    }

    /// The operations that set a value.
    fn operations(&self) -> impl Iterator<Item = &JsonPatch> {
        let definitions = self.patches.iter().flat_map(|patch| patch.definitions.iter());
        definitions.flat_map(|definition| definition.json_patches.iter()).filter(|operation| operation.op != "remove")
    }

    /// The patches that discover variables, in order, with their extension.
    pub fn discovering_patches(&self) -> impl Iterator<Item = (&Patch, &ExternalPatch)> {
        let asks = |extension: &&ExternalPatch| !extension.discover_variables_extension.is_empty();
        self.patches.iter().filter_map(move |patch| Some((patch, patch.external.as_ref().filter(asks)?)))
    }

    /// The machine deployment class `name`.
    pub fn machine_deployment_class(&self, name: &str) -> Option<&MachineDeploymentClass> {
        self.workers.machine_deployments.iter().find(|class| class.class == name)
    }

    /// The machine pool class `name`.
    pub fn machine_pool_class(&self, name: &str) -> Option<&MachinePoolClass> {
        self.workers.machine_pools.iter().find(|class| class.class == name)
    }

    /// Whether control plane machines have an infrastructure template.
    pub fn has_control_plane_machines(&self) -> bool {
        self.control_plane.machine_infrastructure.template_ref.is_defined()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(generation: i64, status: Value) -> ClusterClass {
        serde_json::from_value(json!({"metadata": {"generation": generation}, "status": status})).unwrap()
    }

    #[test]
    fn a_class_is_reconciled_when_its_variables_are_settled() {
        // CL-V-051
        let ready = |status: &str| json!([{"type": "VariablesReady", "status": status}]);
        for (case, class, want) in [
            ("no condition", class(0, json!({})), false),
            ("true", class(2, json!({"observedGeneration": 2, "conditions": ready("True")})), true),
            ("unknown counts", class(2, json!({"observedGeneration": 2, "conditions": ready("Unknown")})), true),
            ("false", class(2, json!({"observedGeneration": 2, "conditions": ready("False")})), false),
            ("older generation", class(2, json!({"observedGeneration": 1, "conditions": ready("True")})), false),
            ("both zero", class(0, json!({"conditions": ready("True")})), true),
            ("another condition", class(0, json!({"conditions": [{"type": "Paused", "status": "True"}]})), false),
        ] {
            assert_eq!(class.is_reconciled(), want, "{case}");
        }
    }

    #[test]
    fn a_schema_of_the_wrong_shape_does_not_decode() {
        // ADM-003
        let with =
            |schema: Value| json!({"spec": {"variables": [{"name": "v", "schema": {"openAPIV3Schema": schema}}]}});
        for (schema, decodes) in [
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), true),
            (json!({"type": "object", "nullable": true, "additionalProperties": null}), true),
            (json!({"type": "object", "additionalProperties": true}), false),
            (json!({"type": "number", "maximum": 1.5}), false),
            (json!({"type": "array", "items": [{"type": "string"}]}), false),
            (json!({"properties": {"a": {"properties": {"b": {"minLength": "1"}}}}}), false),
        ] {
            assert_eq!(serde_json::from_value::<ClusterClass>(with(schema.clone())).is_ok(), decodes, "{schema}");
        }
    }
}
