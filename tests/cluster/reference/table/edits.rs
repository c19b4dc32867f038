//! The edits of the table.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::site::{Site, cluster};

/// How a step changes something.
#[derive(Clone, Copy)]
pub(super) enum Act {
    /// An edit of the Cluster, by `kubectl apply`.
    Cluster(fn(&mut Value)),
    /// Objects besides the Cluster, by `kubectl apply`.
    Object(fn(&Site) -> Value),
    /// Something that no forecast is about: a deletion, an annotation of a Machine, a Node that breaks.
    Other(fn(&Site)),
}

/// When a step is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Every controller has done its part.
    Settled,
    /// Machines have come or gone, and then every controller has done its part.
    Changed,
    /// Nothing has happened for a while. Machines may be outdated.
    Quiet,
    /// The Cluster is gone.
    Deleted,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) act: Act,
    /// Follows at once.
    pub(super) then: Option<fn(&Site)>,
    pub(super) end: End,
    /// How many Machines are replaced once more after a take-over, as docs/operations.md says of the gate of Cluster
    /// API's core manager.
    pub(super) once_more: u64,
}

/// A Cluster and the steps that are taken one after the other.
#[derive(Clone, Copy)]
pub(super) struct Edit {
    pub(super) start: fn() -> Value,
    pub(super) steps: &'static [Step],
}

fn usual() -> Value {
    cluster("one", "v1.33.0", 1, &[("md-0", 2)])
}

fn topology(cluster: &mut Value) -> &mut Value {
    &mut cluster["spec"]["topology"]
}

fn set(cluster: &mut Value) -> &mut Value {
    &mut topology(cluster)["workers"]["machineDeployments"][0]
}

fn note(cluster: &mut Value, name: &str) {
    topology(cluster)["variables"] = json!([{"name": name, "value": "second"}]);
}

fn version(cluster: &mut Value, version: &str) {
    topology(cluster)["version"] = json!(version);
}

/// The present time and some seconds, as Kubernetes writes times.
fn after(seconds: i64) -> String {
    let time = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A health check that replaces Machines on demand, and whose Node has the condition `Broken`.
fn checked() -> Value {
    let mut cluster = cluster("one", "v1.33.0", 1, &[("md-0", 2)]);
    let broken = json!({"type": "Broken", "status": "True", "timeoutSeconds": 1});
    set(&mut cluster)["healthCheck"] = json!({"enabled": true, "checks": {"unhealthyNodeConditions": [broken]}});
    cluster
}

fn remediate(site: &Site) {
    let machines = site.machines("one");
    let machine = machines.values().find(|machine| machine.set.is_some()).unwrap();
    site.kubectl.out(&["annotate", "machine", &machine.name, "cluster.x-k8s.io/remediate-machine="]);
}

/// Makes the controllers look at the Cluster again.
fn touch(site: &Site) {
    site.kubectl.out(&["annotate", "cluster", "one", "example.com/touched="]);
}

/// Makes the controller of MachineDeployments look at the time: it does not wait for that of `rollout.after`.
fn touch_set_when_due(site: &Site) {
    std::thread::sleep(Duration::from_secs(32));
    let set = &site.list("machinedeployments", "one")[0]["metadata"]["name"];
    site.kubectl.out(&["annotate", "machinedeployment", set.as_str().unwrap(), "example.com/touched="]);
}

/// Gives a Node of a worker the condition `Broken`, in the API server of its workload cluster.
fn break_node(site: &Site) {
    let machines = site.list("machines", "one");
    let worker =
        machines.iter().find(|one| one["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] == "md-0");
    let node = worker.unwrap()["status"]["nodeRef"]["name"].as_str().unwrap().to_owned();
    let workload = site.workload("one");
    let object: Value = serde_json::from_str(&workload.out(&["get", "node", &node, "-o", "json"])).unwrap();
    let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(json!({"type": "Broken", "status": "True", "lastTransitionTime": after(-10)}));
    let patch = json!({"status": {"conditions": conditions}}).to_string();
    // The API server of the development provider has no subresources.
    workload.out(&["patch", "node", &node, "--type=merge", "-p", &patch]);
}

/// The class of the site after a change.
fn class(site: &Site, change: impl FnOnce(&mut Value)) -> Value {
    let mut class = site.applied("clusterclass/quick");
    change(&mut class);
    class
}

fn upgraded_class(site: &Site) -> Value {
    class(site, |class| {
        let patch = &mut class["spec"]["patches"][1]["definitions"][0]["jsonPatches"][0];
        patch["valueFrom"]["template"] = json!("[\"echo of the class {{ .workerNote }}\"]");
    })
}

fn edited_template(site: &Site) -> Value {
    let mut template = site.applied("kubeadmconfigtemplate/quick-worker");
    template["spec"]["template"]["spec"]["postKubeadmCommands"] = json!(["echo of the template"]);
    template
}

fn patch_level(cluster: &mut Value) {
    version(cluster, "v1.33.1");
    set(cluster)["replicas"] = json!(3);
}

const fn step(name: &'static str, act: Act, end: End) -> Step {
    Step { name, act, then: None, end, once_more: 0 }
}

/// The table, in its order.
pub(super) const EDITS: &[Edit] = &[
    Edit {
        start: || cluster("one", "v1.33.0", 3, &[("md-0", 1)]),
        steps: &[step("control plane field", Act::Cluster(|one| note(one, "planeNote")), End::Settled)],
    },
    Edit {
        start: usual,
        steps: &[
            step("worker field", Act::Cluster(|one| note(one, "workerNote")), End::Settled),
            step(
                "in-place fields",
                Act::Cluster(|one| {
                    set(one)["metadata"] = json!({"labels": {"place": "here"}, "annotations": {"place": "here"}});
                    set(one)["deletion"] = json!({"nodeDrainTimeoutSeconds": 30});
                }),
                End::Settled,
            ),
        ],
    },
    Edit {
        start: usual,
        steps: &[
            step("scale up", Act::Cluster(|one| set(one)["replicas"] = json!(4)), End::Settled),
            step("scale down", Act::Cluster(|one| set(one)["replicas"] = json!(1)), End::Settled),
        ],
    },
    Edit {
        start: usual,
        steps: &[step(
            "scale and change at once",
            Act::Cluster(|one| {
                set(one)["replicas"] = json!(3);
                note(one, "workerNote");
            }),
            End::Settled,
        )],
    },
    Edit {
        start: usual,
        steps: &[
            step(
                "OnDelete",
                Act::Cluster(|one| {
                    set(one)["rollout"] = json!({"strategy": {"type": "OnDelete"}});
                    note(one, "workerNote");
                }),
                End::Quiet,
            ),
            step(
                "back from OnDelete",
                Act::Cluster(|one| set(one)["rollout"] = json!({"strategy": {"type": "RollingUpdate"}})),
                End::Changed,
            ),
        ],
    },
    Edit { start: usual, steps: &[step("class edit", Act::Object(upgraded_class), End::Changed)] },
    Edit {
        start: usual,
        // Cluster API does not watch templates: the next event of the Cluster makes it read them.
        steps: &[Step { then: Some(touch), ..step("template edit", Act::Object(edited_template), End::Changed) }],
    },
    Edit {
        start: usual,
        steps: &[step(
            "rollout.after now",
            Act::Cluster(|one| set(one)["rollout"] = json!({"after": after(-1)})),
            End::Changed,
        )],
    },
    Edit {
        start: usual,
        steps: &[Step {
            then: Some(touch_set_when_due),
            ..step(
                "rollout.after in 30 s",
                Act::Cluster(|one| set(one)["rollout"] = json!({"after": after(30)})),
                End::Changed,
            )
        }],
    },
    Edit { start: checked, steps: &[step("remediation by annotation", Act::Other(remediate), End::Changed)] },
    Edit { start: checked, steps: &[step("health check fires", Act::Other(break_node), End::Changed)] },
    Edit {
        start: usual,
        steps: &[step("failure domain", Act::Cluster(|one| set(one)["failureDomain"] = json!("fd2")), End::Settled)],
    },
    Edit {
        start: usual,
        steps: &[
            step("upgrade by one minor", Act::Cluster(|one| version(one, "v1.34.0")), End::Settled),
            step("upgrade by two minors", Act::Cluster(|one| version(one, "v1.36.0")), End::Settled),
        ],
    },
    Edit {
        start: checked,
        steps: &[Step {
            then: Some(remediate),
            // The set makes a Machine of its old version in the place of the unhealthy one.
            once_more: 1,
            ..step("patch-level upgrade, scale and remediation", Act::Cluster(patch_level), End::Settled)
        }],
    },
    Edit {
        start: || {
            let mut object = cluster("one", "v1.33.0", 1, &[("md-0", 1), ("md-1", 1), ("md-2", 1)]);
            object["metadata"]["annotations"] = json!({"topology.cluster.x-k8s.io/upgrade-concurrency": "2"});
            object
        },
        steps: &[step("upgrade, concurrency 2", Act::Cluster(|one| version(one, "v1.34.0")), End::Settled)],
    },
    Edit {
        start: usual,
        steps: &[
            step(
                "set added",
                Act::Cluster(|one| {
                    let sets = topology(one)["workers"]["machineDeployments"].as_array_mut().unwrap();
                    sets.push(json!({"class": "worker", "name": "md-1", "replicas": 2}));
                }),
                End::Settled,
            ),
            step(
                "set removed",
                Act::Cluster(|one| {
                    topology(one)["workers"]["machineDeployments"].as_array_mut().unwrap().remove(0);
                }),
                End::Settled,
            ),
        ],
    },
    Edit {
        start: usual,
        steps: &[
            step(
                "edit while paused",
                Act::Cluster(|one| {
                    one["spec"]["paused"] = json!(true);
                    note(one, "workerNote");
                }),
                End::Quiet,
            ),
            step("resume", Act::Cluster(|one| one["spec"]["paused"] = json!(false)), End::Changed),
            step(
                "delete",
                Act::Other(|site| {
                    site.kubectl.out(&["delete", "cluster", "one", "--wait=false"]);
                }),
                End::Deleted,
            ),
        ],
    },
];
