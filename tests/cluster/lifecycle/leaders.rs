//! Processes of which one leads.

use serde_json::{Value, json};

use super::server::Installation;
use super::story::{Census, MACHINES, NODES, Story, nothing_was_forbidden};
use crate::harness::server::Topologist;
use crate::rollout::site::{BOOTSTRAP, INFRASTRUCTURE, text};

/// Two processes, of which one leads.
struct Pair<'a> {
    installation: &'a Installation,
    leader: Topologist,
    next: Topologist,
}

impl<'a> Pair<'a> {
    fn start(installation: &'a Installation) -> Self {
        let mut leader = installation.start();
        leader.wait_for_log("Acquired the Lease");
        let next = installation.start();
        next.wait_until_ready();
        Pair { installation, leader, next }
    }

    /// Kills the process that leads. The other one leads then, and a third takes its place.
    fn kill_leader(&mut self) {
        self.leader.signal("KILL");
        self.leader.wait();
        self.next.wait_for_log("Acquired the Lease");
        let third = self.installation.start();
        third.wait_until_ready();
        self.leader = std::mem::replace(&mut self.next, third);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_killed_the_next_one_goes_on_and_makes_nothing_twice() {
    // DEC-54, CT-19.5, MA-22.4, ROLL-8
    let installation = Installation::new().await;
    let mut pair = Pair::start(&installation);
    let story = Story::begin(&installation, "demo", String::new).await;
    let census = Census::begin(&story.site);
    story.until("some Machines are there", || async { (census.names().len() >= 2).then_some(()) }).await;
    pair.kill_leader();
    story.until_running("all Machines run", MACHINES, |_| true).await;
    story.until_nodes(NODES, "v1.33.0").await;
    census.has_seen(MACHINES);
    census.was_at_most(3, 2, 1);

    // A rollout, with another machine for each set of machines.
    let old = census.names();
    story.site.change("demo", |topology| topology["variables"][0]["value"] = json!("another greeting")).await;
    let workers = || census.number_of("blue") + census.number_of("green") > 3;
    story.until("workers are replaced", || async { workers().then_some(()) }).await;
    pair.kill_leader();
    let is_new = |machine: &Value| !old.contains(&text(machine, "/metadata/name"));
    story.until_running("all Machines are replaced", MACHINES, is_new).await;
    story.until_nodes(NODES, "v1.33.0").await;
    census.has_seen(2 * MACHINES);
    census.was_at_most(4, 3, 2);

    // Nothing is going on: the Nodes come again, and that is all.
    pair.kill_leader();
    story.until_nodes(NODES, "v1.33.0").await;
    story.until_running("all Machines go on running", MACHINES, is_new).await;
    census.has_seen(2 * MACHINES);
    for (api_version, kind, number) in
        [(INFRASTRUCTURE, "EmbeddedMachine", MACHINES), (BOOTSTRAP, "EmbeddedConfig", MACHINES + 1)]
    {
        let names: Vec<String> =
            story.site.list(api_version, kind).await.iter().map(|one| text(one, "/metadata/name")).collect();
        assert_eq!(names.len(), number, "{names:?}");
    }
    nothing_was_forbidden(&pair.leader);
}
