//! The OpenAPI document of all hooks (RH-1.2): paths, requests and answers, for authors of extensions and for tests.

use serde_json::{Map, Value, json};

use super::requests::{DISCOVER_VARIABLES, GENERATE_UPGRADE_PLAN};
use super::{GROUP, VERSION};
use model::hub::Hook;
use model::world::PatchHook;

/// Discovery, which has no handler in its path.
const DISCOVERY: &str = "Discovery";

/// The document, in OpenAPI 3.0.
pub fn document() -> Value {
    let lifecycle = Hook::ALL.iter().map(|hook| hook.name());
    let others = [
        DISCOVERY,
        PatchHook::GeneratePatches.name(),
        PatchHook::ValidateTopology.name(),
        DISCOVER_VARIABLES,
        GENERATE_UPGRADE_PLAN,
    ];
    let (mut paths, mut schemas) = (Map::new(), shared());
    for hook in others.into_iter().chain(lifecycle) {
        let (request, response) = (format!("{hook}Request"), format!("{hook}Response"));
        paths.insert(path(hook), json!({"post": operation(hook, &request, &response)}));
        let [of_request, of_response] = members(hook);
        schemas.insert(request.clone(), message(&request, of_request));
        schemas.insert(response.clone(), message(&response, answer(of_response)));
    }
    let description = "Requests are sent over HTTPS. Every answer has the HTTP status 200, also with the status \
        Failure. Unknown members are ignored.";
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Runtime hooks of Cluster API", "version": VERSION, "description": description},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The path of a hook (RH-4.3).
fn path(hook: &str) -> String {
    let base = format!("/{GROUP}/{VERSION}/{}", hook.to_lowercase());
    if hook == DISCOVERY { base } else { format!("{base}/{{handler}}") }
}

fn operation(hook: &str, request: &str, response: &str) -> Value {
    let content = |schema: &str| json!({"application/json": {"schema": reference(schema)}});
    let text = json!({"type": "string"});
    let mut parameters = vec![json!({"name": "timeout", "in": "query", "schema": text,
        "description": "How long the caller waits, such as 10s."})];
    if hook != DISCOVERY {
        parameters.push(json!({"name": "handler", "in": "path", "required": true, "schema": text,
            "description": "The name of the handler in the answer to Discovery."}));
    }
    json!({
        "operationId": hook,
        "description": about(hook),
        "parameters": parameters,
        "requestBody": {"required": true, "content": content(request)},
        "responses": {"200": {"description": "A success or a failure.", "content": content(response)}},
    })
}

/// When a hook is called.
fn about(hook: &str) -> &'static str {
    match hook {
        DISCOVERY => "Lists the handlers of the extension.",
        DISCOVER_VARIABLES => "Defines variables of a ClusterClass.",
        GENERATE_UPGRADE_PLAN => "Plans the versions of an upgrade.",
        "GeneratePatches" => "Changes the templates of a topology.",
        "ValidateTopology" => "Checks the templates of a topology after all patches.",
        "BeforeClusterCreate" => "Called before anything of a topology is created; may block.",
        "AfterControlPlaneInitialized" => "Called once, when the control plane can be reached.",
        "BeforeClusterUpgrade" => "Called once before an upgrade; may block.",
        "BeforeControlPlaneUpgrade" => "Called before each step of the control plane; may block.",
        "AfterControlPlaneUpgrade" => "Called after each step of the control plane; may block.",
        "BeforeWorkersUpgrade" => "Called before each step of the workers; may block.",
        "AfterWorkersUpgrade" => "Called after each step of the workers; may block.",
        "AfterClusterUpgrade" => "Called when everything has the new version; may block the next upgrade.",
        _ => "Called before anything is deleted; may block.",
    }
}

/// The members of request and response of a hook, without the common ones.
fn members(hook: &str) -> [ObjectSchema; 2] {
    let retry = || ObjectSchema::new().optional("retryAfterSeconds", integer("Seconds to wait; 0 to go on."));
    match hook {
        DISCOVERY => [ObjectSchema::new(), ObjectSchema::new().optional("handlers", list(reference("Handler")))],
        DISCOVER_VARIABLES => [
            ObjectSchema::new().settings(),
            ObjectSchema::new().optional("variables", list(reference("VariableDefinition"))),
        ],
        "GeneratePatches" => {
            let request = patch_request("GeneratePatchesRequestItem");
            [request, ObjectSchema::new().optional("items", list(reference("GeneratePatchesResponseItem")))]
        }
        "ValidateTopology" => [patch_request("ValidateTopologyRequestItem"), ObjectSchema::new()],
        GENERATE_UPGRADE_PLAN => {
            let request = ObjectSchema::new()
                .settings()
                .required("cluster", reference("Cluster"))
                .required("fromControlPlaneKubernetesVersion", text("The version of the control plane."))
                .optional(
                    "fromWorkersKubernetesVersion",
                    text("The lowest version of workers; absent without workers."),
                )
                .required("toKubernetesVersion", text("The version of the topology."));
            [request, ObjectSchema::new().steps()]
        }
        hook => {
            let request = ObjectSchema::new().settings().required("cluster", reference("Cluster"));
            let version =
                |members: ObjectSchema| members.required("kubernetesVersion", text("The version that was reached."));
            let request = match hook {
                "BeforeClusterUpgrade" | "BeforeControlPlaneUpgrade" | "BeforeWorkersUpgrade" => request
                    .required("fromKubernetesVersion", text("The current version."))
                    .required("toKubernetesVersion", text("The version of the step."))
                    .steps(),
                "AfterControlPlaneUpgrade" | "AfterWorkersUpgrade" => version(request).steps(),
                "AfterClusterUpgrade" => version(request),
                _ => request,
            };
            [request, if hook == "AfterControlPlaneInitialized" { ObjectSchema::new() } else { retry() }]
        }
    }
}

fn patch_request(item: &str) -> ObjectSchema {
    ObjectSchema::new()
        .settings()
        .optional("variables", list(reference("Variable")))
        .required("items", list(reference(item)))
}

/// The schemas that several messages use.
fn shared() -> Map<String, Value> {
    let any = || json!({"description": "Any JSON value."});
    let version = "The version in the group, such as cluster.x-k8s.io/v1beta2.";
    let holder = ObjectSchema::new()
        .required("apiVersion", text(version))
        .required("kind", text("Such as MachineDeployment."))
        .required("namespace", text("The namespace of the holder."))
        .required("name", text("The name of the object."))
        .required("fieldPath", text("Such as spec.template.spec.infrastructureRef."));
    let item = || {
        ObjectSchema::new()
            .required("holderReference", reference("HolderReference"))
            .required("object", json!({"type": "object", "description": "The template."}))
            .optional("variables", list(reference("Variable")))
    };
    let patched = item().required("uid", text("Names the item in the answer."));
    let patch = ObjectSchema::new()
        .required("uid", text("That of the item."))
        .required("patchType", json!({"type": "string", "enum": ["JSONPatch", "JSONMergePatch"]}))
        .required("patch", json!({"type": "string", "format": "byte", "description": "The patch as base64."}));
    let hook = ObjectSchema::new()
        .required("apiVersion", text("The version of the hook."))
        .required("hook", text("Such as GeneratePatches."));
    let handler = ObjectSchema::new()
        .required("name", text("A DNS label, which no other handler of the extension has."))
        .required("requestHook", hook.schema())
        .optional(
            "timeoutSeconds",
            json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 30, "default": 10}),
        )
        .optional("failurePolicy", json!({"type": "string", "enum": ["Fail", "Ignore"], "default": "Fail"}));
    let schema = json!({"type": "object", "required": ["openAPIV3Schema"],
        "properties": {"openAPIV3Schema": {"type": "object"}}});
    let definition = ObjectSchema::new()
        .required("name", text("The name of the variable."))
        .optional("required", json!({"type": "boolean"}))
        .required("schema", schema)
        .optional("deprecatedV1Beta1Metadata", json!({"type": "object"}));
    let variable = ObjectSchema::new().required("name", text("The name of the variable.")).required("value", any());
    let step = ObjectSchema::new().required("version", text("A Kubernetes version, such as v1.34.1."));
    let cluster = json!({"type": "object",
        "description": "The Cluster in cluster.x-k8s.io/v1beta2, without status and managed fields."});
    let all = [
        ("HolderReference", holder.schema()),
        ("GeneratePatchesRequestItem", patched.schema()),
        ("ValidateTopologyRequestItem", item().schema()),
        ("GeneratePatchesResponseItem", patch.schema()),
        ("Handler", handler.schema()),
        ("VariableDefinition", definition.schema()),
        ("Variable", variable.schema()),
        ("UpgradeStep", step.schema()),
        ("Cluster", cluster),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// The members of every answer (RH-5.2).
fn answer(members: ObjectSchema) -> ObjectSchema {
    members
        .required("status", json!({"type": "string", "enum": ["Success", "Failure"]}))
        .optional("message", text("Shown to users; the same text for the same state."))
}

/// A request or a response with its type (RH-5.1).
fn message(kind: &str, members: ObjectSchema) -> Value {
    let version = format!("{GROUP}/{VERSION}");
    let members = members
        .optional("apiVersion", json!({"type": "string", "enum": [version]}))
        .optional("kind", json!({"type": "string", "enum": [kind]}));
    members.schema()
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn integer(description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "description": description})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// The schema of an object.
struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl ObjectSchema {
    fn new() -> Self {
        ObjectSchema { properties: Map::new(), required: Vec::new() }
    }

    fn optional(mut self, name: &'static str, schema: Value) -> Self {
        self.properties.insert(name.to_owned(), schema);
        self
    }

    fn required(mut self, name: &'static str, schema: Value) -> Self {
        self.required.push(name);
        self.optional(name, schema)
    }

    /// RH-5.6
    fn settings(self) -> Self {
        let description = "Settings of the ExtensionConfig, of which those of the patch replace some.";
        self.optional(
            "settings",
            json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description}),
        )
    }

    /// RH-18.2
    fn steps(self) -> Self {
        self.optional("controlPlaneUpgrades", list(reference("UpgradeStep")))
            .optional("workersUpgrades", list(reference("UpgradeStep")))
    }

    fn schema(self) -> Value {
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_has_a_path_and_every_reference_a_schema() {
        // RH-1.2, RH-4.3
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 5 + Hook::ALL.len());
        assert!(paths.contains_key("/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"));
        assert!(paths.contains_key("/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterupgrade/{handler}"));
        let text = document.to_string();
        let named = text.match_indices("\"#/components/schemas/").map(|(at, start)| {
            let rest = &text[at + start.len()..];
            &rest[..rest.find('"').unwrap()]
        });
        let mut number = 0;
        for name in named {
            number += 1;
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        assert!(number > 50, "{number}");
    }
}
