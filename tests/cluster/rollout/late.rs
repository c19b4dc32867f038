//! Requests that arrive after newer ones, lists that fail, and templates that are gone.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use topologist::telemetry::metrics::Reconcile;

use super::crash::{Wish, at_rest};
use super::layer::{Trouble, Wire};
use super::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, Manager, Site, text};

on_both![
    a_restart_writes_nothing_even_if_lists_fail_at_first,
    an_overload_of_the_api_server_is_no_condition_unless_it_lasts,
    an_apply_that_was_given_up_and_arrives_later_is_refused,
    an_edit_while_a_run_writes_is_neither_reverted_nor_reported_as_reconciled,
    templates_that_are_gone_get_successors,
    conflicts_with_those_who_write_status_are_rare,
];

const OF_CONTROL_PLANE: &str = "/spec/machineTemplate/spec/infrastructureRef/name";

/// The template that the control plane refers to.
async fn referenced(site: &Site) -> String {
    text(&site.list(CONTROL_PLANE, "EmbeddedControlPlane").await.remove(0), OF_CONTROL_PLANE)
}

/// The template that the control plane refers to, once it is another one than before and exists.
async fn successor(site: &Site, before: &str) -> String {
    site.until("the control plane refers to another template", || async {
        let name = referenced(site).await;
        let is_there = site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &name).await.is_some();
        (name != before && is_there).then_some(name)
    })
    .await
}

async fn a_restart_writes_nothing_even_if_lists_fail_at_first(site: Site) {
    // DEC-100
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    site.apply_file("cluster.yaml").await;
    at_rest(&site, &manager).await;
    manager.stop().await;
    let wire = Wire::new(Trouble::Lists { fail: Duration::from_secs(8) });
    let manager = Manager::start(&site, &wire);
    let runs = |controller, outcome| manager.metrics.reconciles.get_or_create(&Reconcile { controller, outcome }).get();
    for controller in ["topology/cluster", "clusterclass"] {
        site.until("it was reconciled", || async { (runs(controller, "unchanged") > 0).then_some(()) }).await;
        assert_eq!(runs(controller, "failed"), 0, "{controller}");
    }
    assert!(runs("topology/cluster", "postponed") > 0, "no run began before the lists were there");
    let written: Vec<String> = wire.requests().into_iter().filter(|request| !request.starts_with("GET")).collect();
    assert!(written.is_empty(), "{written:#?}");
    manager.stop().await;
}

async fn an_overload_of_the_api_server_is_no_condition_unless_it_lasts(site: Site) {
    // DEC-106
    let wire = Wire::new(Trouble::None);
    site.provide().await;
    let manager = Manager::start(&site, &wire);
    site.apply_file("cluster.yaml").await;
    at_rest(&site, &manager).await;
    let failed = || {
        let labels = Reconcile { controller: "topology/cluster", outcome: "failed" };
        manager.metrics.reconciles.get_or_create(&labels).get()
    };
    let change = async |value: &str| {
        site.change("demo", |topology| topology["variables"][0]["value"] = json!(value)).await;
    };
    for (value, code) in [("one", StatusCode::TOO_MANY_REQUESTS), ("two", StatusCode::SERVICE_UNAVAILABLE)] {
        let (before, refused) = (failed(), wire.refused());
        wire.set(Trouble::Overload(code));
        change(value).await;
        let fails = || async {
            assert_eq!(site.reported("demo").await.0, "ReconcileSucceeded", "{code}");
            (failed() >= before + 3).then_some(())
        };
        site.until("three runs fail", fails).await;
        assert!(wire.refused() >= refused + 3, "{code}");
        wire.mend();
        at_rest(&site, &manager).await;
    }
    wire.set(Trouble::Overload(StatusCode::SERVICE_UNAVAILABLE));
    change("three").await;
    let message = site.until("the condition says so", || async {
        let (reason, message) = site.reported("demo").await;
        (reason == "ReconcileFailed").then_some(message)
    });
    let message = message.await;
    assert!(message.ends_with("failed to apply in a dry run: the wire broke"), "{message}");
    assert!(failed() >= 4, "it failed once");
    wire.mend();
    at_rest(&site, &manager).await;
    assert_eq!(site.reported("demo").await.0, "ReconcileSucceeded");
}

async fn an_apply_that_was_given_up_and_arrives_later_is_refused(site: Site) {
    // SSA-24, DEC-90
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    site.apply_file("cluster.yaml").await;
    at_rest(&site, &manager).await;
    manager.stop().await;
    let before = referenced(&site).await;
    let wire = Wire::new(Trouble::Late { kind: "embeddedcontrolplanes", by: Duration::from_secs(12) });
    let manager = Manager::start(&site, &wire);
    Wish::Rotate.apply_to(&site).await;
    // The run is repeated with another template, and those that nothing refers to are deleted.
    successor(&site, &before).await;
    let late = site.until("the apply arrives", || async { wire.late() }).await;
    assert_eq!(late, StatusCode::CONFLICT);
    at_rest(&site, &manager).await;
    let name = referenced(&site).await;
    assert!(site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &name).await.is_some(), "{name} is gone");
    manager.stop().await;
}

async fn an_edit_while_a_run_writes_is_neither_reverted_nor_reported_as_reconciled(site: Site) {
    // RS-06, DEC-118: a run writes defaults of variables, which are missing here, for the topology that it has read.
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::Edits));
    site.apply_file("cluster.yaml").await;
    site.until("a run has read the edit", || async {
        let cluster = site.cluster("demo").await;
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let reconciled = conditions.into_iter().find(|condition| condition["type"] == "TopologyReconciled")?;
        let seen = reconciled["observedGeneration"].as_i64()?;
        // The generation grows with the edit, the references and the defaults.
        let has_defaults = cluster["spec"]["topology"]["variables"].to_string().contains("workerStartup");
        assert!(seen < 3 || has_defaults, "{cluster:#}");
        has_defaults.then_some(())
    })
    .await;
    at_rest(&site, &manager).await;
    let cluster = site.cluster("demo").await;
    assert_eq!(text(&cluster, "/spec/topology/variables/0/value"), "edited");
    manager.stop().await;
}

async fn templates_that_are_gone_get_successors(site: Site) {
    // ROT-13, DEC-90
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    site.apply_file("cluster.yaml").await;
    at_rest(&site, &manager).await;
    let before = referenced(&site).await;
    site.delete(INFRASTRUCTURE, "EmbeddedMachineTemplate", &before).await;
    let after = successor(&site, &before).await;
    let bootstrap = "/spec/template/spec/bootstrap/configRef/name";
    let deployment = site.list(CORE, "MachineDeployment").await.remove(0);
    let (name, old) = (text(&deployment, "/metadata/name"), text(&deployment, bootstrap));
    site.delete(BOOTSTRAP, "EmbeddedConfigTemplate", &old).await;
    site.until("the machine deployment refers to another template", || async {
        let new = text(&site.get(CORE, "MachineDeployment", &name).await?, bootstrap);
        (new != old && site.get(BOOTSTRAP, "EmbeddedConfigTemplate", &new).await.is_some()).then_some(())
    })
    .await;
    at_rest(&site, &manager).await;
    assert_eq!(referenced(&site).await, after, "one successor is enough");
    manager.stop().await;
}

async fn conflicts_with_those_who_write_status_are_rare(site: Site) {
    // SSA-24, DEC-90: each write names the version that it was computed from, and providers write all the time.
    site.provide().await;
    let wire = Wire::new(Trouble::None);
    let manager = Manager::start(&site, &wire);
    for wish in [Wish::Create, Wish::Rotate, Wish::Workers, Wish::Upgrade] {
        wish.apply_to(&site).await;
        at_rest(&site, &manager).await;
    }
    let (conflicts, requests) = (wire.conflicts(), wire.requests().len());
    println!("{conflicts} of {requests} requests met a conflict");
    assert!(conflicts * 20 <= requests, "{conflicts} of {requests}");
    manager.stop().await;
}
