//! Simulations and the embedded API delete the same objects: both collect garbage by `model::garbage` (MA-27.16).
//!
//! `tests/cluster/garbage_collection` carries out the same deletions where kube-controller-manager collects.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use topologist::embedded::{ApiOptions, Embedded};
use topologist::garbage::Propagation;

use crate::harness::deletions::{Form, Owner, Player, Server, Step, Store, VirtualClock, scenarios};

/// An embedded API with the two namespaces of the scenarios.
async fn embedded() -> Player<Server> {
    let embedded = Embedded::new(ApiOptions::default());
    let client = embedded.client();
    for name in ["near", "far"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let request = http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
        client.request_text(request.body(namespace.to_string().into_bytes()).unwrap()).await.unwrap();
    }
    Player::new(Server::new(&client, "near", "far"))
}

/// Carries out the steps on both, and compares after each of them.
async fn compare(name: &str, steps: &[Step]) {
    let mut clock = Player::new(VirtualClock::new());
    let mut server = embedded().await;
    for (number, step) in steps.iter().enumerate() {
        clock.play(step).await;
        server.play(step).await;
        let (expected, left) = (server.left().await, clock.left().await);
        assert_eq!(left, expected, "{name}, after step {number}: {step:?}\nof {steps:#?}");
    }
}

#[tokio::test]
async fn a_simulation_deletes_what_the_embedded_api_deletes() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 20);
    for (name, steps) in scenarios {
        compare(name, &steps).await;
    }
}

#[tokio::test]
async fn a_dependent_that_blocks_keeps_its_owner_and_others_do_not() {
    // What both stores do, so that they cannot be wrong alike.
    let mut clock = Player::new(VirtualClock::new());
    let owner = |form| vec![Owner { object: "a", form }];
    clock.play(&Step::Create { name: "a", owners: Vec::new(), is_held: false }).await;
    clock.play(&Step::Create { name: "b", owners: owner(Form::Blocking), is_held: true }).await;
    clock.play(&Step::Create { name: "c", owners: owner(Form::Plain), is_held: true }).await;
    clock.play(&Step::Delete("a", Some(Propagation::Foreground))).await;
    assert_eq!(clock.left().await.into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(clock.store.get("a").await.unwrap()["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    clock.play(&Step::Release("b")).await;
    assert_eq!(clock.left().await.into_keys().collect::<Vec<_>>(), ["c"]);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || select(vec!["a", "b", "c", "d", "far-e"]);
    let form = select(vec![
        Form::Blocking,
        Form::Blocking,
        Form::Blocking,
        Form::Plain,
        Form::Plain,
        Form::Renamed,
        Form::OtherKind,
        Form::UnknownKind,
    ]);
    let owner = (name(), form).prop_map(|(object, form)| Owner { object, form });
    // A list has no two entries with the same uid.
    let owners = proptest::collection::vec(owner, 0..3).prop_map(|mut owners| {
        owners.dedup_by_key(|owner| owner.object);
        owners
    });
    let policy = select(vec![
        None,
        Some(Propagation::Background),
        Some(Propagation::Foreground),
        Some(Propagation::Foreground),
        Some(Propagation::Orphan),
    ]);
    let step = prop_oneof![
        4 => (name(), owners.clone(), any::<bool>())
            .prop_map(|(name, owners, is_held)| Step::Create { name, owners, is_held }),
        3 => (name(), policy).prop_map(|(name, policy)| Step::Delete(name, policy)),
        2 => name().prop_map(Step::Release),
        1 => (name(), owners).prop_map(|(name, owners)| Step::Own(name, owners)),
    ];
    proptest::collection::vec(step, 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn simulations_and_the_embedded_api_agree_on_any_deletions(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare("generated", &steps));
    }
}
