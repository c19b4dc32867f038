//! ExtensionConfigs: discovery, conditions, certificates, settings, and what becomes of handlers that are gone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Site, message};
use crate::harness::extension::Reply;
use crate::machines::server::{cluster, condition};

fn discovered(config: &Value) -> (String, String) {
    condition(config, "Discovered")
}

#[test]
fn the_status_lists_the_handlers() {
    // RH-2.3, RH-2.4, RH-2.6, RH-3.3, RH-6.3
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    site.lab.on_with("GeneratePatches", "generate", "Ignore", |_| Reply::done());
    site.register(&json!({}));
    let config = site.config();
    let handler = |name: &str, hook: &str, policy: &str| {
        json!({"name": name, "requestHook": {"apiVersion": crate::harness::extension::HOOKS, "hook": hook},
            "timeoutSeconds": 2,
            "failurePolicy": policy})
    };
    let want = json!([
        handler("gate.lab", "BeforeClusterCreate", "Fail"),
        handler("generate.lab", "GeneratePatches", "Ignore")
    ]);
    assert_eq!(config["status"]["handlers"], want);
    assert_eq!(config["spec"]["namespaceSelector"], json!({}));
    assert_eq!(discovered(&config), ("True".to_owned(), "Discovered".to_owned()));
    assert_eq!(condition(&config, "Paused"), ("False".to_owned(), "NotPaused".to_owned()));
    let shown = site.server.kubectl.out(&["get", "ext"]);
    assert!(shown.contains("DISCOVERED") && shown.contains("True"), "{shown}");
    let calls = site.lab.count("discovery");
    site.server.until_quiet("extensionconfig/lab");
    assert_eq!(site.lab.count("discovery"), calls, "its own status is no reason to ask again");
}

#[test]
fn an_extension_config_that_cannot_be_used_is_denied() {
    // RH-1.3, RH-2.5, RH-3.3
    let site = Site::start();
    let denied = |change: &dyn Fn(&mut Value), words: &str| {
        let mut config = site.lab.config("lab", &json!({}));
        change(&mut config);
        let reported = site.server.kubectl.try_give(&config, &["create"]).err;
        assert!(reported.contains(words), "{words}: {reported}");
    };
    denied(
        &|config| config["metadata"]["name"] = json!("a.b"),
        "The ExtensionConfig \"a.b\" is invalid: metadata.name: ",
    );
    denied(
        &|config| config["spec"]["clientConfig"]["url"] = json!("https://me@localhost"),
        "neither a user name nor a fragment",
    );
    denied(
        &|config| {
            config["apiVersion"] = json!("runtime.cluster.x-k8s.io/v1alpha1");
            config["metadata"]["name"] = json!("c.d");
        },
        "\"c.d\" is invalid",
    );
    let off = crate::machines::server::TestServer::start(&["--feature-gates=RuntimeSDK=false"]);
    let reported = off.kubectl.try_give(&site.lab.config("lab", &json!({})), &["create"]).err;
    assert!(reported.contains("the feature gate RuntimeSDK is off"), "{reported}");
}

#[test]
fn a_failed_discovery_is_reported_and_the_old_handlers_stay() {
    // RH-2.6, RH-3.2, RH-6.4
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::wait(600, "not yet"));
    site.register(&json!({}));
    for (reply, words) in [
        (json!({"status": "Failure", "message": "closed"}), "the extension answered Failure: closed"),
        (json!({"status": "Success", "handlers": [{"name": "Gate"}]}), "handlers[0]: name \"Gate\""),
        (json!({"status": "Fine"}), "unknown status \"Fine\""),
    ] {
        site.lab.on_discovery(move |_| Reply::Json(reply.clone()));
        site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"for": words}}}));
        site.server.until(words, || {
            let config = site.config();
            discovered(&config) == ("False".to_owned(), "NotDiscovered".to_owned())
                && message(&config, "Discovered").contains(words)
        });
        assert_eq!(site.config()["status"]["handlers"][0]["name"], "gate.lab");
    }
    site.server.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ClusterCreating", "not yet");
    site.lab.discoverable();
    site.server.wait("extensionconfig/lab", "condition=Discovered");
    let events = site.server.event_reasons("ExtensionConfig");
    assert!(events.contains(&"DiscoveryFailed".to_owned()), "{events:?}");
}

#[test]
fn a_result_that_another_controller_replaces_is_not_written_again_and_again() {
    // DEC-92
    let site = Site::start();
    site.register(&json!({}));
    site.lab.on_discovery(|_| Reply::failure("closed"));
    site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"a": "b"}}}));
    site.server.until("the discovery fails", || discovered(&site.config()).0 == "False");
    let failed = r#"topologist_reconciles_total{controller="extensionconfig",outcome="failed"}"#;
    let runs = || site.server.topologist.metric(failed).unwrap_or_default();
    let history = site.server.history("extensionconfigs");
    for _ in 0..5 {
        let mut status = site.config()["status"].clone();
        for condition in
            status["conditions"].as_array_mut().unwrap().iter_mut().filter(|one| one["type"] == "Discovered")
        {
            (condition["status"], condition["reason"]) = (json!("True"), json!("Discovered"));
        }
        // So that each is a change, also if the last one was not answered.
        status["conditions"][0]["observedGeneration"] = json!(history.events().len());
        let before = runs();
        site.server.merge_status("extensionconfig/lab", &status);
        site.server.until("the change is reconciled", || runs() > before);
    }
    let written = history.objects().iter().filter(|config| discovered(config).0 == "False").count();
    assert_eq!(written, 1, "the first is the one that was there: {:#?}", history.objects());
    let reported = || site.server.list("events").into_iter().filter(|event| event["reason"] == "DiscoveryDisputed");
    site.server.until("it is reported", || reported().count() == 1);
    assert_eq!(reported().next().unwrap()["count"], json!(1));
}

#[test]
fn deleting_the_config_unregisters_its_handlers() {
    // RH-2.8, RH-8.5
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::wait(1, "not yet"));
    site.register(&json!({}));
    site.server.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ClusterCreating", "BeforeClusterCreate: not yet");
    assert!(site.server.list("embeddedclusters").is_empty());
    site.server.kubectl.out(&["delete", "extensionconfig/lab"]);
    site.server.wait("cluster/demo", "condition=Available");
}

#[test]
fn the_ca_comes_from_a_secret() {
    // RH-2.7
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    let mut config = site.lab.config("lab", &json!({"clientConfig": {"url": site.lab.url()}}));
    config["metadata"]["annotations"] = json!({"runtime.cluster.x-k8s.io/inject-ca-from-secret": "default/ca"});
    site.server.kubectl.give(&config, &["create"]);
    site.server.until("the Secret is missing", || {
        message(&site.config(), "Discovered").contains("the Secret default/ca: it does not exist")
    });
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca"},
        "data": {"ca.crt": STANDARD.encode(&site.lab.ca)}});
    site.server.kubectl.give(&secret, &["create"]);
    site.server.wait("extensionconfig/lab", "condition=Discovered");
    assert_eq!(site.config()["spec"]["clientConfig"]["caBundle"], json!(STANDARD.encode(&site.lab.ca)));
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    // RH-4.7
    let site = Site::start();
    let other = crate::harness::extension::TestExtension::start();
    let config = site
        .lab
        .config("lab", &json!({"clientConfig": {"url": site.lab.url(), "caBundle": STANDARD.encode(&other.ca)}}));
    site.server.kubectl.give(&config, &["create"]);
    site.server.until("the certificate is refused", || {
        message(&site.config(), "Discovered").contains("invalid peer certificate")
    });
    assert_eq!(site.lab.requests().len(), 0);
}

#[test]
fn a_config_that_makes_no_sense_is_refused_by_its_schema() {
    // RH-2.5
    let site = Site::start();
    for (change, words) in [
        (json!({"clientConfig": {"url": "http://a"}}), "spec.clientConfig.url"),
        (json!({"clientConfig": {}}), "spec.clientConfig"),
        (
            json!({"clientConfig": {"url": "https://a", "service": {"name": "a", "namespace": "b"}}}),
            "set exactly one of url and service",
        ),
        (json!({"clientConfig": {"service": {"name": "a", "namespace": "b", "port": 70000}}}), "port"),
        (json!({"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "x"}}}), "path"),
    ] {
        let refused = site.server.kubectl.try_give(&site.lab.config("lab", &change), &["create"]);
        assert!(refused.code != 0 && refused.err.contains(words), "{change}: {refused:?}");
    }
}

#[test]
fn a_config_that_is_created_paused_is_discovered_when_it_goes_on() {
    // RH-3.1
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    let mut paused = site.lab.config("lab", &json!({}));
    paused["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    site.server.kubectl.give(&paused, &["create"]);
    site.server.wait("extensionconfig/lab", "condition=Paused");
    assert_eq!(site.lab.count("discovery"), 0);
    site.server.kubectl.out(&["annotate", "extensionconfig/lab", "cluster.x-k8s.io/paused-"]);
    site.server.wait("extensionconfig/lab", "condition=Discovered");
}

#[test]
fn a_paused_config_keeps_its_handlers_until_it_goes_on() {
    // RH-3.1, RH-2.6
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    site.register(&json!({}));
    site.server.kubectl.out(&["annotate", "extensionconfig/lab", "cluster.x-k8s.io/paused="]);
    site.server.wait("extensionconfig/lab", "condition=Paused");
    site.lab.on("BeforeClusterDelete", "last", |_| Reply::done());
    site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"a": "b"}}}));
    site.server.until_quiet("extensionconfig/lab");
    assert_eq!(site.config()["status"]["handlers"].as_array().unwrap().len(), 1);
    site.server.kubectl.out(&["annotate", "extensionconfig/lab", "cluster.x-k8s.io/paused-"]);
    site.server.until("it is discovered again", || site.config()["status"]["handlers"].as_array().unwrap().len() == 2);
    assert_eq!(condition(&site.config(), "Paused").0, "False");
}

#[test]
fn a_namespace_selector_decides_whose_objects_an_extension_sees() {
    // RH-3.9, RH-7.2, RH-8.1
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::wait(600, "not yet"));
    site.register(&json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}));
    site.server.run_cluster(&cluster(1, &json!([]), &json!([])));
    assert_eq!(site.lab.count("gate"), 0);
    site.server.kubectl.out(&["label", "namespace/default", "env=prod"]);
    let mut second = cluster(1, &json!([]), &json!([]));
    second["metadata"]["name"] = json!("second");
    // What is known of a namespace is a few seconds old at most.
    std::thread::sleep(std::time::Duration::from_secs(6));
    site.server.kubectl.give(&second, &["create"]);
    site.server.until("the second Cluster waits", || site.lab.count("gate") == 1);
}

#[test]
fn a_new_ca_in_the_secret_is_taken_over() {
    // RH-2.7
    let site = Site::start();
    let other = crate::harness::extension::TestExtension::start();
    site.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    let secret = |ca: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca"},
            "data": {"ca.crt": STANDARD.encode(ca)}})
    };
    site.server.kubectl.give(&secret(&site.lab.ca), &["create"]);
    let mut config = site.lab.config("lab", &json!({"clientConfig": {"url": site.lab.url()}}));
    config["metadata"]["annotations"] = json!({"runtime.cluster.x-k8s.io/inject-ca-from-secret": "default/ca"});
    site.server.kubectl.give(&config, &["create"]);
    site.server.wait("extensionconfig/lab", "condition=Discovered");
    let both = [&*site.lab.ca, &*other.ca].concat();
    site.server.kubectl.give(&secret(&both), &["apply"]);
    // The Secret is read every minute, and when its ExtensionConfig changes.
    site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"new": "yes"}}}));
    site.server.until("the new CA is in the object", || {
        site.config()["spec"]["clientConfig"]["caBundle"] == json!(STANDARD.encode(&both))
    });
    // The next certificate of the extension is one of the new CA.
    site.server.merge("extensionconfig/lab", &json!({"spec": {"clientConfig": {"url": other.url()}}}));
    site.server.until("the extension is called with the new CA", || other.count("discovery") > 0);
}

#[test]
fn a_handler_is_not_called_for_other_namespaces() {
    // RH-7.2, RH-16.1, HK-25
    let site = Site::start();
    site.lab.on("GeneratePatches", "generate", |_| Reply::done());
    site.lab.on("DiscoverVariables", "discover", |_| Reply::done());
    site.register(&json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}));
    let words = "the namespaceSelector of its ExtensionConfig does not select the namespace";
    site.patch_class(&[("remote", json!({"generatePatchesExtension": "generate.lab"}))]);
    site.server.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for(
        "TopologyReconciled",
        "ReconcileFailed",
        &format!("\"generate.lab\" is not called for default/demo: {words}"),
    );
    assert!(site.server.list("embeddedclusters").is_empty());
    let mut patches = site.class()["spec"]["patches"].as_array().unwrap().clone();
    patches.last_mut().unwrap()["external"]["discoverVariablesExtension"] = json!("discover.lab");
    site.server.merge("clusterclass/swift", &json!({"spec": {"patches": patches}}));
    site.server.until("the variables are not discovered", || {
        let reported = message(&site.class(), "VariablesReady");
        reported.contains(&format!("\"discover.lab\" is not called for default/swift: {words}"))
    });
    assert_eq!((site.lab.count("generate"), site.lab.count("discover")), (0, 0));
    site.server.kubectl.out(&["label", "namespace/default", "env=prod"]);
    site.server.wait("cluster/demo", "condition=Available");
    assert!(site.lab.count("generate") > 0 && site.lab.count("discover") > 0);
}
