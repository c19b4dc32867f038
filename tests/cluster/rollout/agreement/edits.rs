//! What people do to classes, templates and Clusters.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Numbers that look like chance and are the same in every test.
#[derive(Debug)]
pub(super) struct Draw(pub u64);

impl Draw {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        values[self.below(values.len())].clone()
    }
}

/// The files of one user: a class with its templates, and a Cluster.
pub(super) struct Files(pub Vec<Value>);

impl Files {
    /// Whether `before` has a field that is not here.
    pub(super) fn lack_a_field_of(&self, before: &Files) -> bool {
        let names = |files: &Files| -> BTreeSet<String> {
            let of = |file: &Value| {
                let (kind, name) = (&file["kind"], &file["metadata"]["name"]);
                fields(file).into_iter().map(move |field| format!("{kind} {name} {field}")).collect::<Vec<_>>()
            };
            files.0.iter().flat_map(of).collect()
        };
        !names(before).is_subset(&names(self))
    }

    pub(super) fn find(&mut self, kind: &str, name: &str) -> &mut Value {
        let is = |one: &&mut Value| one["kind"] == kind && (name.is_empty() || one["metadata"]["name"] == name);
        self.0.iter_mut().find(is).unwrap_or_else(|| panic!("there is {kind} {name}"))
    }

    fn class(&mut self) -> &mut Value {
        &mut self.find("ClusterClass", "")["spec"]
    }

    fn topology(&mut self) -> &mut Value {
        &mut self.find("Cluster", "")["spec"]["topology"]
    }

    /// The template that a reference of the class leads to.
    fn template(&mut self, reference: &str) -> &mut Value {
        let reference = self.class().pointer(reference).unwrap().clone();
        let (kind, name) = (reference["kind"].as_str().unwrap(), reference["name"].as_str().unwrap());
        &mut self.find(kind, name)["spec"]["template"]
    }
}

/// References of the class.
const WORKER_MACHINE: &str = "/workers/machineDeployments/0/infrastructure/templateRef";
const WORKER_BOOTSTRAP: &str = "/workers/machineDeployments/0/bootstrap/templateRef";
const CONTROL_PLANE: &str = "/controlPlane/templateRef";
const CONTROL_PLANE_MACHINE: &str = "/controlPlane/machineInfrastructure/templateRef";
const INFRASTRUCTURE: &str = "/infrastructure/templateRef";
const POOL: &str = "/workers/machinePools/0/infrastructure/templateRef";

/// Sets a field, changes it, or takes it away when it has that value already.
fn flip(parent: &mut Value, field: &str, value: Value) {
    match parent.get(field) == Some(&value) {
        true => drop(parent.as_object_mut().unwrap().remove(field)),
        false => parent[field] = value,
    }
}

/// The paths of all fields and entries of lists below a value.
fn fields(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), member)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    let below = |(name, child): (String, &Value)| {
        let paths = fields(child).into_iter().map(|path| format!("{name}/{path}")).collect::<Vec<_>>();
        std::iter::once(name).chain(paths).collect::<Vec<_>>()
    };
    children.into_iter().flat_map(below).collect()
}

/// The first worker set, if there is one.
fn worker(files: &mut Files) -> Option<&mut Value> {
    files.topology().pointer_mut("/workers/machineDeployments/0")
}

/// One edit, by its name.
type Edit = (&'static str, fn(&mut Files, &mut Draw));

pub(super) const DEFAULT: &str = "a default of a variable";

pub(super) const EDITS: &[Edit] = &[
    ("a field of the worker machines", |files, draw| {
        let jitter = draw.one_of(&[json!("0.2"), json!("0.3")]);
        let vm = files.template(WORKER_MACHINE).pointer_mut("/spec/backend/inMemory/vm/provisioning").unwrap();
        flip(vm, "startupJitter", jitter);
    }),
    ("a part of the worker machines", |files, _| {
        let memory = &mut files.template(WORKER_MACHINE)["spec"]["backend"]["inMemory"];
        flip(memory, "node", json!({"provisioning": {"startupDuration": "1s"}}));
    }),
    ("a field of the control plane machines", |files, draw| {
        let time = draw.one_of(&[json!("1s"), json!("2s"), json!("3s")]);
        let vm = files.template(CONTROL_PLANE_MACHINE).pointer_mut("/spec/backend/inMemory/vm/provisioning").unwrap();
        vm["startupDuration"] = time;
    }),
    ("files of the worker bootstrap", |files, draw| {
        let content = draw.one_of(&[json!("one"), json!("two")]);
        let list = files.template(WORKER_BOOTSTRAP)["spec"]["files"].as_array_mut().unwrap();
        if list.len() > 1 {
            list.pop();
        } else {
            list.push(json!({"path": "/etc/more", "content": content}));
        }
    }),
    ("the format of the worker bootstrap", |files, _| {
        flip(&mut files.template(WORKER_BOOTSTRAP)["spec"], "format", json!("cloud-config"));
    }),
    ("arguments of the control plane", |files, draw| {
        let value = draw.one_of(&[json!([{"name": "max-pods", "value": "60"}]), json!([{"name": "v", "value": "2"}])]);
        flip(&mut files.template(CONTROL_PLANE)["spec"]["bootstrap"], "kubeletExtraArgs", value);
    }),
    ("failure domains of the infrastructure", |files, draw| {
        let domains = draw.one_of(&[json!([{"name": "rack-1", "controlPlane": true}]), json!([{"name": "rack-9"}])]);
        flip(&mut files.template(INFRASTRUCTURE)["spec"], "failureDomains", domains);
    }),
    ("a field of the pool", |files, draw| {
        let time = draw.one_of(&[json!("1s"), json!("2s"), json!("3s")]);
        let vm = files.template(POOL).pointer_mut("/spec/backend/inMemory/vm/provisioning").unwrap();
        vm["startupDuration"] = time;
    }),
    ("labels of a template", |files, draw| {
        let value = draw.one_of(&[json!({"tier": "a"}), json!({"tier": "b", "zone": "c"})]);
        let template = files.template(WORKER_MACHINE);
        template["metadata"] = json!({"labels": value});
    }),
    ("a patch", |files, _| {
        let patches = files.class()["patches"].as_array_mut().unwrap();
        patches.rotate_left(1);
        match patches.iter().position(|patch| patch["name"] == "workerStartup") {
            Some(position) if patches.len() == 3 => drop(patches.remove(position)),
            _ => {}
        }
    }),
    (DEFAULT, |files, draw| {
        let time = draw.one_of(&[json!("2s"), json!("4s")]);
        files.class()["variables"][1]["schema"]["openAPIV3Schema"]["default"] = time;
    }),
    ("the health check of the class", |files, draw| {
        let seconds = draw.one_of(&[json!(300), json!(600), json!(900)]);
        files.class()["workers"]["machineDeployments"][0]["healthCheck"]["checks"]["nodeStartupTimeoutSeconds"] =
            seconds;
    }),
    ("the health check of the control plane", |files, _| {
        let check = json!({"checks": {"nodeStartupTimeoutSeconds": 300}});
        flip(&mut files.class()["controlPlane"], "healthCheck", check);
    }),
    ("timeouts of the class", |files, draw| {
        let seconds = draw.one_of(&[json!(10), json!(20)]);
        let deletion = json!({"nodeDrainTimeoutSeconds": seconds});
        flip(&mut files.class()["workers"]["machineDeployments"][0], "deletion", deletion);
    }),
    ("timeouts of the control plane", |files, draw| {
        let seconds = draw.one_of(&[json!(10), json!(20)]);
        flip(&mut files.topology()["controlPlane"], "deletion", json!({"nodeDrainTimeoutSeconds": seconds}));
    }),
    ("a variable", |files, draw| {
        let value = draw.one_of(&[json!("one"), json!("two"), json!("three")]);
        let variables = files.topology()["variables"].as_array_mut().unwrap();
        variables.retain(|variable| variable["name"] != "motd");
        if draw.below(4) > 0 {
            variables.push(json!({"name": "motd", "value": value}));
        }
    }),
    ("arguments in a variable", |files, draw| {
        let value =
            draw.one_of(&[json!([]), json!([{"name": "v", "value": "4"}]), json!([{"name": "v", "value": "6"}])]);
        let variables = files.topology()["variables"].as_array_mut().unwrap();
        variables.retain(|variable| variable["name"] != "kubeletArgs");
        variables.push(json!({"name": "kubeletArgs", "value": value}));
    }),
    ("an override of a worker set", |files, draw| {
        let time = draw.one_of(&[json!("5s"), json!("6s")]);
        if let Some(worker) = worker(files) {
            flip(worker, "variables", json!({"overrides": [{"name": "workerStartup", "value": time}]}));
        }
    }),
    ("replicas of a worker set", |files, draw| {
        let replicas = draw.one_of(&[json!(1), json!(2), json!(4)]);
        // With the bounds of an autoscaler nobody else says how many there are.
        if let Some(worker) = worker(files).filter(|worker| !worker["metadata"].to_string().contains("autoscaler")) {
            flip(worker, "replicas", replicas);
        }
    }),
    ("replicas of the control plane", |files, draw| {
        files.topology()["controlPlane"]["replicas"] = draw.one_of(&[json!(1), json!(3), json!(5)]);
    }),
    ("a failure domain", |files, draw| {
        let domain = draw.one_of(&[json!("rack-1"), json!("rack-3")]);
        if let Some(worker) = worker(files) {
            flip(worker, "failureDomain", domain);
        }
    }),
    ("labels of a worker set", |files, draw| {
        let labels =
            draw.one_of(&[json!({"labels": {"a": "1"}}), json!({"labels": {"a": "2"}, "annotations": {"b": "c"}})]);
        if let Some(worker) = worker(files) {
            flip(worker, "metadata", labels);
        }
    }),
    ("labels of the control plane", |files, draw| {
        let labels = draw.one_of(&[json!({"labels": {"a": "1"}}), json!({"annotations": {"b": "c"}})]);
        flip(&mut files.topology()["controlPlane"], "metadata", labels);
    }),
    ("the bounds of an autoscaler", |files, _| {
        if let Some(worker) = worker(files) {
            let bound = |name: &str| format!("cluster.x-k8s.io/cluster-api-autoscaler-node-group-{name}-size");
            worker["metadata"] = json!({"annotations": {bound("min"): "2", bound("max"): "5"}});
            worker.as_object_mut().unwrap().remove("replicas");
        }
    }),
    ("a strategy", |files, draw| {
        let strategy =
            draw.one_of(&[json!({"strategy": {"type": "OnDelete"}}), json!({"strategy": {"type": "RollingUpdate"}})]);
        if let Some(worker) = worker(files) {
            flip(worker, "rollout", strategy);
        }
    }),
    ("a health check turned off", |files, _| {
        if let Some(worker) = worker(files) {
            flip(worker, "healthCheck", json!({"enabled": false}));
        }
    }),
    ("a worker set", |files, draw| {
        let sets = files.topology()["workers"]["machineDeployments"].as_array_mut().unwrap();
        match sets.len() {
            0..2 => {
                sets.push(json!({"class": "default-worker", "name": format!("set-{}", draw.below(90)), "replicas": 2}));
            }
            _ => drop(sets.remove(0)),
        }
    }),
    ("a pool", |files, draw| {
        let (number, replicas) = (draw.below(1_000), 1 + draw.below(2));
        let workers = &mut files.topology()["workers"];
        let has_pool = workers.as_object_mut().unwrap().remove("machinePools").is_some();
        if !has_pool {
            // What a pool was made of stays here when it goes, since nothing controls pools: the next has another name.
            let pool = json!({"class": "default-pool", "name": format!("pool-{number}"), "replicas": replicas});
            workers["machinePools"] = json!([pool]);
        }
    }),
    ("a readiness gate", |files, draw| {
        let gates = draw.one_of(&[json!([{"conditionType": "a/b"}]), json!([{"conditionType": "c/d"}])]);
        if let Some(worker) = worker(files) {
            flip(worker, "readinessGates", gates);
        }
    }),
    ("how long machines have to be ready", |files, draw| {
        let seconds = draw.one_of(&[json!(5), json!(6)]);
        if let Some(worker) = worker(files) {
            flip(worker, "minReadySeconds", seconds);
        }
    }),
    ("a reference to another template", |files, _| {
        let reference = files.class().pointer(WORKER_MACHINE).unwrap().clone();
        let (kind, old) = (reference["kind"].as_str().unwrap(), reference["name"].as_str().unwrap());
        let mut copy = files.find(kind, old).clone();
        let name = format!("{}-2", old.trim_end_matches("-2"));
        let vm = &mut copy["spec"]["template"]["spec"]["backend"]["inMemory"]["vm"]["provisioning"];
        // What defaults make of a template that is new, no plan knows (docs/plan.md, "Beside existing objects").
        if old == name || vm["startupJitter"].is_null() {
            return;
        }
        vm["startupDuration"] = json!("9s");
        copy["metadata"]["name"] = json!(name);
        files.0.push(copy);
        files.class().pointer_mut(WORKER_MACHINE).unwrap()["name"] = json!(name);
    }),
    ("an upgrade", |files, _| {
        let versions = files.class()["kubernetesVersions"].as_array().unwrap().clone();
        let now = files.topology()["version"].clone();
        if let Some(next) = versions.iter().skip_while(|version| **version != now).nth(1) {
            files.topology()["version"] = next.clone();
        }
    }),
];
