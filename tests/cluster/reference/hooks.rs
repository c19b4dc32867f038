//! Lifecycle hooks that block one after the other.

use serde_json::{Value, json};

use super::extension::Extension;
use super::site::{Site, cluster};
use super::stack::Stack;
use crate::harness::extension_hooks::UPGRADE_HOOKS;

/// The versions of the Machines of the control plane and of the workers.
fn versions(site: &Site) -> [Vec<String>; 2] {
    let machines = site.machines("one");
    let of = |is_worker: bool| {
        let those = machines.values().filter(|machine| machine.set.is_some() == is_worker && !machine.is_deleted);
        let mut versions: Vec<String> = those.map(|machine| machine.version.clone()).collect();
        versions.sort();
        versions.dedup();
        versions
    };
    [of(false), of(true)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "part of `make reference`"]
async fn each_hook_of_a_creation_an_upgrade_and_a_deletion_blocks_until_it_is_released() {
    let site = Stack::shared().await.site("hooks").await;
    let extension = Extension::start(&site).await;
    let mut object = cluster("one", "v1.33.0", 1, &[("md-0", 1)]);
    let hooks = UPGRADE_HOOKS.iter().chain(&["BeforeClusterCreate", "BeforeClusterDelete"]);
    let holds: serde_json::Map<String, Value> = hooks.map(|hook| (Extension::hold(hook), json!(""))).collect();
    object["metadata"]["annotations"] = Value::Object(holds);
    site.apply(&object);
    let calls = |hook: &str| extension.called().iter().filter(|called| *called == hook).count();
    let release = |hook: &str| {
        site.kubectl.out(&["annotate", "cluster", "one", &format!("{}-", Extension::hold(hook))]);
    };
    // A hook that blocks is called again.
    site.until("BeforeClusterCreate blocks", async || calls("BeforeClusterCreate") > 2).await;
    assert_eq!(site.list("kubeadmcontrolplanes", "one").len(), 0);
    release("BeforeClusterCreate");
    site.settled("one").await;

    site.merge("one", &json!({"spec": {"topology": {"version": "v1.34.0"}}}));
    for hook in UPGRADE_HOOKS {
        site.until(&format!("{hook} blocks"), async || calls(hook) > 2).await;
        let later = UPGRADE_HOOKS.iter().skip_while(|one| **one != hook).skip(1);
        let early: Vec<&&str> = later.filter(|later| calls(later) > 0).collect();
        assert!(early.is_empty(), "{hook} blocks, and {early:?} were called");
        let at = |version: &str| vec![version.to_owned()];
        let wanted = match hook {
            "BeforeClusterUpgrade" | "BeforeControlPlaneUpgrade" => [at("v1.33.0"), at("v1.33.0")],
            "AfterControlPlaneUpgrade" | "BeforeWorkersUpgrade" => [at("v1.34.0"), at("v1.33.0")],
            _ => [at("v1.34.0"), at("v1.34.0")],
        };
        assert_eq!(versions(&site), wanted, "{hook}");
        release(hook);
    }
    let upgraded = site.settled("one").await;
    assert_eq!(site.lives("one").len(), 2 + 2, "{:#?}", site.lives("one"));

    site.kubectl.out(&["delete", "cluster", "one", "--wait=false"]);
    site.until("BeforeClusterDelete blocks", async || calls("BeforeClusterDelete") > 2).await;
    assert_eq!(site.machines("one"), upgraded);
    release("BeforeClusterDelete");
    site.until("the Cluster is gone", async || site.get("cluster/one").is_none()).await;
    assert!(site.machines("one").is_empty(), "{}", site.state());
}
