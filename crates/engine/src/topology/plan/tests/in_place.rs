//! Extensions that may update machines in place.

use serde_json::{Value, json};

use super::{SIZE, SMITH, change};
use crate::topology::plan::Certainty;
use crate::topology::testing::Scene;

fn extension(hook: &str) -> Value {
    json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "lab"},
        "status": {"handlers": [{"name": "one.lab", "requestHook": {"apiVersion": "v1alpha1", "hook": hook}}]},
    })
}

#[test]
fn machines_may_be_updated_in_place_if_an_extension_has_the_hooks() {
    // RH-1.2
    let scene = Scene::new().at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(4));
    for (hook, want) in [
        ("CanUpdateMachine", Some("lab")),
        ("CanUpdateMachineSet", Some("lab")),
        ("UpdateMachine", Some("lab")),
        ("GeneratePatches", None),
    ] {
        let scene = scene.clone().with(extension(hook));
        let outcome = change(&scene, &scene.clone().at(SMITH, SIZE, json!("large")));
        let [roll] = &outcome.rounds[0].rolls[..] else { panic!("{:?}", outcome.rounds[0].rolls) };
        assert_eq!((roll.machines.replaced, roll.in_place.as_deref()), (Some(4), want), "{hook}");
        assert_eq!(roll.certainty == Certainty::Provider, want.is_some(), "{hook}");
        let scaled = scene.clone().at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(6));
        assert_eq!(change(&scene, &scaled).rounds[0].rolls[0].in_place, None, "{hook}: none is replaced");
    }
}
