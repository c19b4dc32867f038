//! Objects whose parts are small and whose sum is not (DEC-44), sent to the real binary by a user of one namespace.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use topologist::budget::Stop;
use topologist::hub::ClusterClass;
use topologist::openapi::SchemaAllowance;
use topologist::template::Template;
use topologist::variables::{CompiledVariables, status_variables};
use topologist::wire::{Decode, WireVersion, manifest};
use topologist::yaml;

use crate::harness::objects::template_ref;
use crate::harness::server::Topologist;
use crate::harness::tls_client::{Connection, Protocol};
use crate::harness::wait;

const CLASS: &str = "/validate-cluster-x-k8s-io-v1beta2-clusterclass?timeout=30s";
const CLUSTER: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster?timeout=10s";
const DEFAULTS: &str = "/mutate-cluster-x-k8s-io-v1beta2-cluster?timeout=30s";

const MIB: u64 = 1 << 20;

struct Served {
    topologist: Topologist,
    authority: Vec<u8>,
    _folder: TempDir,
}

impl Served {
    /// A server on the objects of the quick start and these.
    fn start(objects: &[Value]) -> Self {
        Self::start_with(objects, &["--controllers=none"])
    }

    /// The same with these flags.
    fn start_with(objects: &[Value], flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(file("objects.json"), list.to_string()).unwrap();
        let quick_start = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start").display().to_string();
        let (more, state) = (file("objects.json"), file("state"));
        let load = ["--embedded", "--load", &quick_start, &more, "--state-dir", &state];
        let topologist = Topologist::serve(&[&load[..], flags].concat());
        topologist.wait_until_ready();
        let authority = std::fs::read(Path::new(&state).join("ca.crt")).unwrap();
        Served { topologist, authority, _folder: folder }
    }

    async fn connect(&self) -> Connection {
        Connection::open(&self.topologist.webhook, &self.authority, Protocol::Http2).await.unwrap()
    }

    /// The most memory that the process has used, in bytes.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.topologist.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

/// The answer to a review.
async fn ask(connection: &mut Connection, path: &str, review: &Value) -> Value {
    let (code, body) = connection.post(path, review.to_string()).await.unwrap();
    assert_eq!(code.as_u16(), 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["response"].clone()
}

fn review(operation: &str, kind: &str, object: &Value, old: Option<&Value>) -> Value {
    let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
        "kind": {"group": "cluster.x-k8s.io", "version": version, "kind": kind}, "operation": operation, "dryRun": true,
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "object": if operation == "DELETE" { Value::Null } else { object.clone() }, "oldObject": old}})
}

fn class(namespace: &str, name: &str, variables: &Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"namespace": namespace, "name": name, "generation": 1},
        "spec": {"infrastructure": template_ref("infrastructure", "DevClusterTemplate"),
            "controlPlane": template_ref("controlplane", "KubeadmControlPlaneTemplate"), "variables": variables}})
}

fn variable(name: &str, schema: &Value) -> Value {
    json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}})
}

fn cluster(namespace: &str, class: &str, replicas: u64, version: &str, variables: &Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": "one"},
        "spec": {"topology": {"classRef": {"name": class}, "version": version, "controlPlane": {"replicas": replicas},
            "variables": variables}}})
}

/// Seven arrays in one another, each with a default of ten empty objects: 1.4 KB that would be ten million objects.
fn expanding() -> Value {
    let schema = (0..7).fold(json!({"type": "string"}), |below, _| {
        json!({"type": "array", "default": vec![json!({}); 10], "items": {"type": "object", "properties": {"p": below}}})
    });
    json!([variable("list", &schema)])
}

/// Each of 300 patterns takes some 10 MB.
fn patterns(seed: usize) -> Value {
    (0..300)
        .map(|i| variable(&format!("v{i}"), &json!({"type": "string", "pattern": format!(r"\pL{{200}}N{seed}x{i}")})))
        .collect()
}

#[tokio::test]
async fn stored_classes_beyond_their_budget_crash_no_replica_and_block_no_cluster() {
    // DEC-44: stored while the webhook was away.
    let scaled = |replicas, version| {
        cluster("tenant", "expanding", replicas, version, &json!([{"name": "list", "value": ["a"]}]))
    };
    let stored =
        [class("tenant", "expanding", &expanding()), class("tenant", "patterns", &patterns(0)), scaled(1, "v1.33.0")];
    let served = Served::start(&stored);
    let unreadable = "topologist_cache_unreadable_objects{kind=\"ClusterClass\"}";
    assert_eq!(served.topologist.metric(unreadable), Some(2.0));
    let mut connection = served.connect().await;
    for path in [DEFAULTS, CLUSTER] {
        let scale = review("UPDATE", "Cluster", &scaled(3, "v1.33.0"), Some(&scaled(1, "v1.33.0")));
        let answer = ask(&mut connection, path, &scale).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        let upgrade = review("UPDATE", "Cluster", &scaled(1, "v1.34.0"), Some(&scaled(1, "v1.33.0")));
        let answer = ask(&mut connection, path, &upgrade).await;
        assert_eq!(answer["allowed"], false, "{answer}");
        let reason = answer["status"]["message"].as_str().unwrap();
        assert!(reason.contains("exceeds the limit of 10000 values in the expanded defaults"), "{reason}");
    }
    let gone = review("DELETE", "ClusterClass", &stored[1], Some(&stored[1]));
    assert_eq!(ask(&mut connection, CLASS, &gone).await["allowed"], true, "it can always be deleted");
    let plain = json!([variable("list", &json!({"type": "array", "items": {"type": "string"}}))]);
    let smaller = review("UPDATE", "ClusterClass", &class("tenant", "expanding", &plain), Some(&stored[0]));
    assert_eq!(ask(&mut connection, CLASS, &smaller).await["allowed"], true, "and made smaller");
    assert!(served.peak() < 300 * MIB, "{} MiB", served.peak() / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_of_one_namespace_do_not_delay_others() {
    // DEC-44: normal reviews are all answered while one namespace sends as many hostile ones as it can.
    let served = Served::start(&[]);
    let mut hostile = Vec::new();
    for i in 0..12 {
        let mut connection = served.connect().await;
        let variables = if i % 2 == 0 { patterns(i) } else { expanding() };
        let hostile_class =
            review("CREATE", "ClusterClass", &class("tenant", &format!("hostile-{i}"), &variables), None);
        hostile.push(tokio::spawn(async move { ask(&mut connection, CLASS, &hostile_class).await }));
    }
    let mut connection = served.connect().await;
    let normal =
        class("default", "normal", &json!([variable("size", &json!({"type": "string", "pattern": "^[a-z]+$"}))]));
    for _ in 0..13 {
        let started = Instant::now();
        let answer = ask(&mut connection, CLASS, &review("CREATE", "ClusterClass", &normal, None)).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        // One hostile review may be in progress: in a debug build, next to other tests, some seconds.
        assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    }
    for answer in hostile {
        let answer = answer.await.unwrap();
        let code = answer["status"]["code"].as_u64();
        assert!(code.is_some_and(|code| [422, 429, 500].contains(&code)), "{answer}");
        if code == Some(422) {
            assert!(answer["status"]["message"].as_str().unwrap().contains("exceeds the limit of"), "{answer}");
        }
    }
    assert!(served.peak() < 400 * MIB, "{} MiB", served.peak() / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_values_of_a_cluster_share_one_budget_and_leave_the_async_threads() {
    // DEC-44: each of 300 variables costs little; together they took seconds on an async thread.
    let rule = json!([{"rule": "self.all(x, self.all(y, x == x && y == y && x <= y || x > y))"}]);
    let schema =
        json!({"type": "array", "maxItems": 150, "items": {"type": "integer"}, "x-kubernetes-validations": rule});
    let names: Vec<String> = (0..300).map(|i| format!("v{i:03}")).collect();
    let variables: Value = names.iter().map(|name| variable(name, &schema)).collect();
    let served = Served::start(&[class("tenant", "rules", &variables)]);
    let list: Vec<u64> = (1000..1150).collect();
    let values: Value = names.iter().map(|name| json!({"name": name, "value": list})).collect();
    let expensive = review("CREATE", "Cluster", &cluster("tenant", "rules", 1, "v1.33.0", &values), None);
    assert!(expensive.to_string().len() > 200_000);
    let mut hostile = Vec::new();
    for _ in 0..4 {
        let (mut connection, expensive) = (served.connect().await, expensive.clone());
        hostile.push(tokio::spawn(async move { ask(&mut connection, DEFAULTS, &expensive).await }));
    }
    let mut slowest = Duration::ZERO;
    while !hostile.iter().all(tokio::task::JoinHandle::is_finished) {
        let started = Instant::now();
        assert_eq!(served.topologist.admin_get("/healthz").0, 200);
        slowest = slowest.max(started.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    for answer in hostile {
        let answer = answer.await.unwrap();
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.contains("exceeds the limit of 10000000 CEL cost units"), "{message}");
    }
}

#[tokio::test]
async fn the_memory_of_a_review_is_bounded_for_any_class() {
    // DEC-44: copies of a text that a rule makes, violations of alternatives, a pattern whose every state is visited
    // for each byte, and long paths of very many properties.
    let rule = json!([{"rule": "lists.range(20000).map(i, {self: i}).size() > 0"}]);
    let schemas = [
        ("copies", json!({"type": "string", "x-kubernetes-validations": rule})),
        ("alternatives", json!({"type": "array", "anyOf": vec![json!({"items": {"minimum": 1}}); 120]})),
        ("pattern", json!({"type": "string", "pattern": format!("{}[^a]$", "a{0,1000}".repeat(19))})),
    ];
    let text = "a".repeat(60_000);
    let values = [json!(text), json!(vec![0; 1000]), json!(text)];
    let wants =
        ["exceeds the budget of an evaluation", "at least one schema under", "steps of holding values against schemas"];
    let variables: Value = schemas.iter().map(|(name, schema)| variable(name, schema)).collect();
    let served = Served::start(&[class("tenant", "keeping", &variables)]);
    let mut connection = served.connect().await;
    for (((name, _), value), want) in schemas.iter().zip(values).zip(wants) {
        let values = json!([{"name": name, "value": value}]);
        let hostile = review("CREATE", "Cluster", &cluster("tenant", "keeping", 1, "v1.33.0", &values), None);
        let answer = ask(&mut connection, DEFAULTS, &hostile).await;
        assert_eq!(answer["status"]["code"], 422, "{answer}");
        assert!(answer["status"]["message"].as_str().unwrap().contains(want), "{name}: {answer}");
    }
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|i| (format!("p{i}"), json!({"type": "string", "nullable": true}))).collect();
    let deep = (0..58).fold(
        json!({"type": "object", "properties": wide}),
        |below, _| json!({"type": "object", "properties": {"n".repeat(1000): below}}),
    );
    let hostile = class("tenant", "paths", &json!([variable("v", &deep)]));
    let answer = ask(&mut connection, CLASS, &review("CREATE", "ClusterClass", &hostile, None)).await;
    assert!(answer["allowed"].is_boolean() && answer.to_string().len() < 6 << 20, "{}", answer["status"]["message"]);
    assert!(served.peak() < 300 * MIB, "{} MiB", served.peak() / MIB);
}

#[tokio::test]
async fn a_class_in_v1beta1_meets_the_bounds_of_v1beta2_first() {
    // DEC-44
    let served = Served::start(&[]);
    let entries: Vec<String> = (0..100_000).map(|i| format!("entry-{i}")).collect();
    let mut written = class("tenant", "entries", &json!([variable("v", &json!({"type": "string", "enum": entries}))]));
    written["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    for part in ["infrastructure", "controlPlane"] {
        written["spec"][part]["ref"] = written["spec"][part]["templateRef"].take();
    }
    let (mut connection, started) = (served.connect().await, Instant::now());
    let answer = ask(&mut connection, CLASS, &review("CREATE", "ClusterClass", &written, None)).await;
    let causes = &answer["status"]["details"]["causes"];
    assert_eq!(causes[0]["field"], "spec.variables[0].schema.openAPIV3Schema.enum", "{causes}");
    assert_eq!((causes[0]["reason"].as_str(), causes.as_array().map(Vec::len)), (Some("FieldValueTooMany"), Some(1)));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// What a class takes of each budget, in thousandths: compiled bytes, and bytes of defaults.
fn shares(class: &ClusterClass) -> [usize; 2] {
    let mut allowance = SchemaAllowance::new(Stop::never());
    let templates: usize = class.spec.templates().map(Template::footprint).sum();
    allowance.compile(templates).unwrap();
    CompiledVariables::compile(&status_variables(&class.spec), &mut allowance).unwrap();
    // All defaults are held against what one variable may have.
    [allowance.compiled_bytes() * 1000 / (32 << 20), allowance.default_bytes() * 1000 / (1 << 20)]
}

#[test]
fn bundles_of_every_provider_shape_take_less_than_a_tenth_of_their_budgets() {
    // DEC-44
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers");
    let folder = std::env::var_os("TOPOLOGIST_TEST_BUNDLES").map_or(folder, Into::into);
    let (mut seen, mut folders) = (0, vec![folder]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let objects =
                yaml::documents(&text).into_iter().flat_map(|document| manifest::objects(document.unwrap()).unwrap());
            for manifest in objects.filter(|manifest| manifest.kind == "ClusterClass") {
                let version = WireVersion::from_api_version(&manifest.api_version).unwrap();
                let class = ClusterClass::decode(version, &manifest.text()).unwrap();
                let shares = shares(&class);
                println!("{}: {shares:?} thousandths", path.display());
                assert!(shares.iter().all(|share| *share < 100), "{}: {shares:?}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "{seen}");
}

#[tokio::test]
async fn objects_are_counted_before_they_are_decoded() {
    // DEC-44: three bytes of text are some hundred bytes once they are decoded.
    let many = vec![json!({}); 900_000];
    let wide = class("tenant", "wide", &json!([variable("v", &json!({"type": "string", "anyOf": many}))]));
    let nulls = vec![Value::Null; 600_000];
    let empty = class("tenant", "wide", &json!([variable("v", &json!({"type": "string", "anyOf": nulls}))]));
    let mut workers = cluster("tenant", "wide", 1, "v1.33.0", &json!([]));
    workers["spec"]["topology"]["workers"] = json!({"machineDeployments": many});
    let served = Served::start(&[]);
    let mut connection = served.connect().await;
    let small = class("tenant", "wide", &json!([]));
    for (path, review, names) in [
        (CLASS, review("CREATE", "ClusterClass", &wide, None), "spec: Invalid value: \"\": has 9000"),
        (DEFAULTS, review("CREATE", "Cluster", &workers, None), "spec: Invalid value: \"\": has 9000"),
        (CLUSTER, review("CREATE", "Cluster", &workers, None), "the limit is 25000"),
        (CLASS, review("CREATE", "ClusterClass", &empty, None), "spec: Invalid value: \"\": has 6000"),
        // Stored before there was a limit: it can be relabelled, made smaller and deleted.
        (CLASS, review("UPDATE", "ClusterClass", &wide, Some(&wide)), ""),
        (CLASS, review("UPDATE", "ClusterClass", &small, Some(&wide)), ""),
        (CLASS, review("DELETE", "ClusterClass", &wide, Some(&wide)), ""),
    ] {
        let answer = ask(&mut connection, path, &review).await;
        assert_eq!(answer["allowed"], names.is_empty(), "{answer}");
        let message = answer["status"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(names), "{message}");
    }
    assert!(served.peak() < 250 * MIB, "{} MiB", served.peak() / MIB);
}

/// 60 % of the memory limit of the manifests.
const MOST: u64 = (1 << 30) / 100 * 60;

/// A class of worker sets and pools with templates of so many bytes.
fn fleet(bytes: usize) -> Vec<Value> {
    let template = |group: &str, kind: &str, bytes: usize| {
        json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind,
            "metadata": {"namespace": "tenant", "name": "t"},
            "spec": {"template": {"spec": {"text": "x".repeat(bytes)}}}})
    };
    let workers = |infrastructure: &str| {
        json!([{"class": "w", "bootstrap": template_ref("bootstrap", "BootTemplate"),
            "infrastructure": template_ref("infrastructure", infrastructure)}])
    };
    let class = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"namespace": "tenant", "name": "fleet", "generation": 1},
        "spec": {"infrastructure": template_ref("infrastructure", "BoxClusterTemplate"),
            "controlPlane": template_ref("controlplane", "PlaneTemplate"),
            "workers": {"machineDeployments": workers("BoxTemplate"), "machinePools": workers("BoxPoolTemplate")}}});
    vec![
        class,
        template("infrastructure", "BoxClusterTemplate", 10),
        template("controlplane", "PlaneTemplate", 10),
        template("bootstrap", "BootTemplate", bytes),
        template("infrastructure", "BoxTemplate", bytes),
        template("infrastructure", "BoxPoolTemplate", bytes),
    ]
}

/// A Cluster of this class, whose machines are in this zone.
fn of_fleet(sets: usize, pools: usize, zone: &str) -> Value {
    let all = |kind: &str, field: &str, count: usize| -> Value {
        (0..count)
            .map(|number| {
                json!({"name": format!("{kind}-{number:04}"), "class": "w", "replicas": 3,
                    field: if field == "failureDomain" { json!(zone) } else { json!([zone]) }})
            })
            .collect()
    };
    let mut cluster = cluster("tenant", "fleet", 3, "v1.33.0", &json!([]));
    cluster["metadata"]["uid"] = json!("uid-of-one");
    let topology = &mut cluster["spec"]["topology"];
    topology.as_object_mut().unwrap().remove("variables");
    topology["workers"] = json!({"machineDeployments": all("set", "failureDomain", sets)});
    if pools > 0 {
        topology["workers"]["machinePools"] = all("pool", "failureDomains", pools);
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_too_large_to_compute_is_denied_and_kills_no_replica() {
    // DEC-58: reviews of 243 KB that once took gigabytes.
    for (bytes, sets, pools) in [(100_000, 2_000, 0), (10_000, 2_000, 2_000)] {
        let mut stored = fleet(bytes);
        let small = of_fleet(1, 0, "a");
        stored.push(small.clone());
        let served = Served::start_with(&stored, &["--controllers=none", "--memory-limit=1Gi", "--impact-time=60s"]);
        let large = of_fleet(sets, pools, "a");
        let mut hostile = Vec::new();
        for (operation, old) in [("UPDATE", Some(&small)), ("CREATE", None)] {
            let (mut connection, review) = (served.connect().await, review(operation, "Cluster", &large, old));
            hostile.push(tokio::spawn(async move { ask(&mut connection, CLUSTER, &review).await }));
        }
        let (mut connection, started) = (served.connect().await, Instant::now());
        let edit = review("UPDATE", "Cluster", &of_fleet(1, 0, "b"), Some(&small));
        assert_eq!(ask(&mut connection, CLUSTER, &edit).await["allowed"], true);
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        for answer in hostile {
            let answer = answer.await.unwrap();
            assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
            let causes = &answer["status"]["details"]["causes"];
            assert_eq!(
                (&causes[0]["field"], causes.as_array().map(Vec::len)),
                (&json!("spec.topology.workers"), Some(1)),
                "{causes}"
            );
            let message = answer["status"]["message"].as_str().unwrap();
            assert!(
                message.contains("objects of the topology and their variables")
                    && message.contains("more than the limit of"),
                "{message}"
            );
        }
        // Stored already: it can be edited, and is not computed.
        let edit = review("UPDATE", "Cluster", &of_fleet(sets, pools, "b"), Some(&large));
        let answer = ask(&mut connection, CLUSTER, &edit).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        assert!(answer["warnings"].to_string().contains("spec.topology.workers: the "), "{}", answer["warnings"]);
        assert!(served.peak() < MOST, "{} MiB", served.peak() / MIB);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_topologies_that_are_computed_fit_into_the_memory_of_a_replica() {
    // DEC-58: several at a time; what gets no memory in time is not known.
    let mut stored = fleet(20_000);
    let before = of_fleet(350, 0, "a");
    stored.push(before.clone());
    let served = Served::start_with(&stored, &["--controllers=none", "--memory-limit=1Gi", "--impact-time=60s"]);
    let edit = review("UPDATE", "Cluster", &of_fleet(350, 0, "b"), Some(&before));
    let mut requested = Vec::new();
    for _ in 0..4 {
        let (mut connection, edit) = (served.connect().await, edit.clone());
        requested.push(tokio::spawn(async move { ask(&mut connection, CLASS_TIME, &edit).await }));
    }
    let mut counted = 0;
    for answer in requested {
        let answer = answer.await.unwrap();
        assert_eq!(answer["allowed"], true, "{answer}");
        counted += usize::from(answer["warnings"].to_string().contains("replaces 1,050 machines"));
    }
    assert!(counted > 0, "it is within the limit");
    assert!(served.peak() < MOST, "{} MiB", served.peak() / MIB);
}

/// Where Clusters are reviewed with as much time as the API server gives at the most.
const CLASS_TIME: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster?timeout=30s";

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_cluster_that_is_too_large_kills_no_leader() {
    // DEC-58: others are reconciled meanwhile, and the leader says why this one is not.
    let mut stored = fleet(100_000);
    stored.push(of_fleet(2_000, 0, "a"));
    let mut other = of_fleet(1, 0, "a");
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("uid-of-other");
    stored.push(other);
    let mut served = Served::start_with(&stored, &["--memory-limit=1Gi"]);
    let failed = served.topologist.wait_for_log_where("Failed to reconcile topology", |log| {
        log.to_string().contains("objects of the topology and their variables")
    });
    assert!(failed.to_string().contains("tenant/one"), "{failed}");
    let changed = "topologist_reconciles_total{controller=\"topology/cluster\",outcome=\"changed\"}";
    let is_reconciled = async || served.topologist.metric(changed).is_some_and(|runs| runs >= 1.0);
    let state = async || served.topologist.warnings();
    wait::until_async("the other Cluster is reconciled", wait::ROLLOUT, is_reconciled, state).await;
    assert!(served.peak() < MOST, "{} MiB", served.peak() / MIB);
}
