//! Templates that a class or a Cluster uses no more.

use serde_json::{Value, json};

use super::demo::{deployment, make_machines, own_all, rolled_out};
use super::story::Server;
use crate::rollout::site::{INFRASTRUCTURE, bundle, text};

on_both![
    a_template_that_was_rotated_goes_with_the_last_machines_that_were_made_from_it,
    a_template_stays_until_the_last_class_that_ever_used_it_is_gone,
];

const MACHINE: &str = "/spec/template/spec/infrastructureRef/name";
const KIND: &str = "EmbeddedMachineTemplate";
const WORKER: &str = "embedded-worker-machine";

async fn a_template_that_was_rotated_goes_with_the_last_machines_that_were_made_from_it(server: Server) {
    // DEL-07 to DEL-11
    let (story, _) = rolled_out(server).await;
    let (site, before) = (&story.site, deployment(&story, "blue").await.unwrap());
    site.change("demo", |topology| {
        let variables = topology["variables"].as_array_mut().unwrap();
        variables.retain(|variable| variable["name"] != "workerStartup");
        variables.push(json!({"name": "workerStartup", "value": "7s"}));
    })
    .await;
    let after = site
        .until("blue has another template", || async {
            let blue = deployment(&story, "blue").await?;
            (text(&blue, MACHINE) != text(&before, MACHINE)).then_some(blue)
        })
        .await;
    make_machines(&story, &after, "blue-new").await;
    site.reconciled("demo").await;
    let rotated = story.contents();
    let template = |name: &str| format!("embeddedmachinetemplate.infrastructure.topologist.dev/{name}");
    let (old, new) = (template(&text(&before, MACHINE)), template(&text(&after, MACHINE)));
    assert!(rotated.contains(&old) && rotated.contains(&new), "{rotated:#?}");

    story.kubectl.out(&["delete", "machineset", "blue-set", "--cascade=foreground", "--timeout=60s"]);
    let is_left = |name: &String| *name != old && !name.ends_with("/blue-set");
    let left: Vec<String> = rotated.into_iter().filter(is_left).collect();
    story.until("the old machines and their template are gone", async || story.contents() == left).await;
    story.nothing_was_forbidden();
}

async fn a_template_stays_until_the_last_class_that_ever_used_it_is_gone(server: Server) {
    // CCR-03, CCR-04, CCR-05, CCR-14
    let (story, before) = rolled_out(server).await;
    let site = &story.site;
    // A second class with the same templates, and another template in the first.
    let mut objects = bundle("class.yaml");
    let position = objects.iter().position(|object| text(object, "/kind") == "ClusterClass").unwrap();
    let mut class = objects.swap_remove(position);
    class["metadata"]["name"] = json!("second");
    site.create(class).await;
    let mut template = objects.into_iter().find(|object| text(object, "/metadata/name") == WORKER).unwrap();
    template["metadata"]["name"] = json!("another");
    site.create(template).await;
    let name = "/spec/workers/machineDeployments/0/infrastructure/templateRef/name";
    let patch = json!([{"op": "replace", "path": name, "value": "another"}]).to_string();
    story.kubectl.out(&["patch", "clusterclass", "embedded", "--type=json", "-p", &patch]);
    story
        .until("each class owns its templates", async || {
            owners(&story, "another").await == ["embedded"] && owners(&story, WORKER).await == ["embedded", "second"]
        })
        .await;

    own_all(&story, "demo").await;
    story.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    story.kubectl.eventually(&["delete", "clusterclass", "embedded"]);
    // The garbage collector deletes the templates of the first class, and its owner references from the others.
    let mut left = before.clone();
    left.iter_mut()
        .filter(|name| name.starts_with("clusterclass."))
        .for_each(|name| *name = name.replace("/embedded", "/second"));
    story.until("the templates of the second class are left", async || story.contents() == left).await;
    story.until("they have one owner", async || owners(&story, WORKER).await == ["second"]).await;
    let mut cluster = bundle("cluster.yaml").remove(0);
    cluster["spec"]["topology"]["classRef"]["name"] = json!("second");
    site.create(cluster).await;
    site.reconciled("demo").await;
    own_all(&story, "demo").await;
    story.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    story.kubectl.eventually(&["delete", "clusterclass", "second"]);
    story.until("nothing at all is left", async || story.contents().is_empty()).await;
    story.nothing_was_forbidden();
}

/// The names of the owners of a template.
async fn owners(story: &super::story::Story, template: &str) -> Vec<String> {
    let found = story.site.get(INFRASTRUCTURE, KIND, template).await.unwrap_or_default();
    let owners = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> = owners.iter().map(|owner: &Value| text(owner, "/name")).collect();
    names.sort();
    names
}
