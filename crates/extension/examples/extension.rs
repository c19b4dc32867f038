//! A Runtime Extension: it sets the image of machines from a variable, defines that variable, refuses one value, and
//! holds upgrades.
//!
//! ```sh
//! topologist certs --out certs --host localhost
//! cargo run -p topologist-extension --example extension -- certs/tls.crt certs/tls.key 127.0.0.1:9443
//! ```

#![expect(clippy::disallowed_macros, reason = "this program is not topologist, and prints one address")]

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use topologist_extension::{
    Decision, Extension, HandlerError, Hook, LifecycleRequest, PatchRequest, Patches, PlannedVersions,
    UpgradePlanRequest,
};

/// The variable that this extension defines.
const IMAGE: &str = "machineImage";
/// The annotation that holds the upgrades of a Cluster, with the reason as its value.
const HOLD: &str = "extension.example.com/hold-upgrade";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        |what| arguments.next().with_context(|| format!("usage: extension CERTIFICATE KEY ADDRESS; no {what}"));
    let (certificate, key) = (PathBuf::from(next("certificate")?), PathBuf::from(next("key")?));
    let listener = TcpListener::bind(next("address")?).await?;
    println!("listening on {}", listener.local_addr()?);
    let stop = async {
        // Without a signal handler, only a kill stops the server.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    extension().serve(listener, &certificate, &key, stop).await.context("cannot serve the extension")
}

fn extension() -> Extension {
    Extension::new()
        .generate_patches("images", images)
        .validate_topology("allowed-images", allowed)
        .discover_variables("variables", |_| Ok(vec![variable()]))
        .generate_upgrade_plan("plan", plan)
        .lifecycle(Hook::BeforeClusterUpgrade, "hold", |request| Ok(hold(request)))
}

/// The definition, as in a class.
fn variable() -> Value {
    let schema = json!({"type": "string", "default": "ubuntu-24.04", "description": "The image of all machines."});
    json!({"name": IMAGE, "required": false, "schema": {"openAPIV3Schema": schema}})
}

/// Writes the image into machine templates of known kinds; others are unchanged.
fn images(request: &PatchRequest, patches: &mut Patches) -> Result<(), HandlerError> {
    for item in &request.items {
        let variables = request.variables_of(item);
        let image = variables.get(IMAGE).ok_or_else(|| format!("the variable {IMAGE} is missing"))?;
        let image = image.as_str().ok_or_else(|| format!("the variable {IMAGE} is not text"))?;
        match item.object["kind"].as_str() {
            Some("DockerMachineTemplate") => {
                patches.change(item, |object| object["spec"]["template"]["spec"]["customImage"] = json!(image));
            }
            Some("EmbeddedConfigTemplate") => {
                let file = json!({"path": "/etc/image", "content": image});
                patches.change(item, |object| object["spec"]["template"]["spec"]["files"] = json!([file]));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses images that are no longer maintained.
fn allowed(request: &PatchRequest) -> Result<(), HandlerError> {
    let is_old = |item| request.variables_of(item).get(IMAGE).is_some_and(|image| image == "ubuntu-18.04");
    match request.items.iter().any(is_old) {
        true => Err(format!("{IMAGE}: ubuntu-18.04 has no updates any more").into()),
        false => Ok(()),
    }
}

/// Stops the control plane at the first release of every minor version on the way. Workers without explicit steps
/// follow in as few steps as possible.
fn plan(request: &UpgradePlanRequest) -> Result<PlannedVersions, HandlerError> {
    let (from, to) = (&request.from_control_plane_kubernetes_version, &request.to_kubernetes_version);
    let minor = |version: &str| version.split('.').nth(1)?.parse::<u32>().ok();
    let (Some(first), Some(last)) = (minor(from), minor(to)) else {
        return Err(format!("cannot plan from {from:?} to {to:?}").into());
    };
    let between = (first + 1..last).map(|minor| format!("v1.{minor}.0"));
    let control_plane = if from == to { Vec::new() } else { between.chain([to.clone()]).collect() };
    Ok(PlannedVersions { control_plane, workers: Vec::new() })
}

/// Holds an upgrade while the Cluster has the annotation.
fn hold(request: &LifecycleRequest) -> Decision {
    let reason = request.cluster["metadata"]["annotations"].get(HOLD);
    reason.map_or(Decision::Proceed, |reason| Decision::wait(5, reason.as_str().unwrap_or_default()))
}
