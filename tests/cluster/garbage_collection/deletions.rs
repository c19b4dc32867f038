//! kube-controller-manager deletes what simulations and the embedded API delete (`tests/stories/garbage.rs`).

use super::story::Story;
use crate::harness::deletions::{Player, Server, Step, VirtualClock, scenarios};
use crate::harness::wait::{SOON, until_async};

/// The step of a scenario after which kube-controller-manager is behind: it looks at a new dependent of an owner that
/// waits once another dependent is gone.
const BEHIND: (&str, usize) = ("an object that is created while its owner waits", 3);

/// Carries out the steps of a scenario on a virtual clock and on a server, and waits after each until the server has
/// what the clock has.
async fn play(
    client: &kube::Client,
    number: usize,
    name: &str,
    steps: &[Step],
) -> (Player<Server>, Player<VirtualClock>) {
    let namespaces = [format!("deletions-{number}"), format!("deletions-{number}-far")];
    for namespace in &namespaces {
        Story::make_namespace(client, namespace).await;
    }
    let mut clock = Player::new(VirtualClock::new());
    let mut server = Player::new(Server::new(client, &namespaces[0], &namespaces[1]));
    for (number, step) in steps.iter().enumerate() {
        clock.play(step).await;
        server.play(step).await;
        if (name, number) == BEHIND {
            continue;
        }
        let expected = clock.left().await;
        let fact = format!("{name}, after step {number}, {step:?}: the server has {expected:#?}");
        let state = async || format!("{:#?}", server.left().await);
        until_async(&fact, 3 * SOON, async || server.left().await == expected, state).await;
    }
    (server, clock)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_controller_manager_deletes_what_simulations_delete() {
    let (client, controller_manager) = Story::real_cluster().await;
    let scenarios = scenarios();
    let plays = scenarios.iter().enumerate().map(|(number, (name, steps))| play(&client, number, name, steps));
    let played = futures::future::join_all(plays).await;
    // It has looked at everything that happened before an object that is garbage now.
    controller_manager.collects_garbage(client.clone(), "default").await;
    for ((name, _), (server, clock)) in scenarios.iter().zip(played) {
        assert_eq!(server.left().await, clock.left().await, "{name}");
    }
}
