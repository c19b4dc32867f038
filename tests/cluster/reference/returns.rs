//! Topologies that go back from topologist to Cluster API.

use serde_json::json;

use super::extension::Extension;
use super::site::cluster;
use super::stack::Midway;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of `make reference`"]
async fn in_the_middle_of_an_upgrade_no_machine_is_replaced_twice_and_a_deletion_goes_on_waiting() {
    let Midway { site, .. } = Midway::start().await;
    let first = site.settled("one").await;
    let extension = Extension::start(&site).await;
    let hold = Extension::hold("BeforeClusterDelete");
    let mut waiting = cluster("waiting", "v1.34.0", 1, &[("md-0", 1)]);
    waiting["metadata"]["annotations"] = json!({&hold: ""});
    site.apply(&waiting);
    let kept = site.settled("waiting").await;
    let calls = || extension.called().iter().filter(|called| *called == "BeforeClusterDelete").count();
    site.kubectl.out(&["delete", "cluster", "waiting", "--wait=false"]);
    site.until("the hook blocks", async || calls() > 2).await;

    let made = site.lives("one").len();
    site.merge("one", &json!({"spec": {"topology": {"version": "v1.35.0"}}}));
    site.until("a Machine is made", async || site.lives("one").len() > made).await;
    let listed = site.stack.give_back().await;
    assert_eq!(listed, format!("{} waiting\n", site.namespace()));

    let after = site.settled("one").await;
    assert!(after.values().all(|machine| machine.version == "v1.35.0"), "{after:#?}");
    assert_eq!((after.len(), site.lives("one").len()), (first.len(), made + first.len()), "{:#?}", site.lives("one"));
    let before = calls();
    site.until("Cluster API calls the hook", async || calls() > before + 2).await;
    assert_eq!(site.machines("waiting"), kept);
    let object = site.get("cluster/waiting").unwrap();
    assert!(object["metadata"]["annotations"].get("cluster.x-k8s.io/paused").is_none(), "{object:#}");
    site.kubectl.out(&["annotate", "cluster", "waiting", &format!("{hold}-")]);
    site.until("the Cluster is gone", async || site.get("cluster/waiting").is_none()).await;
}
