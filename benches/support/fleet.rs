//! Data for benchmarks: a class of 20 variables as people write them, and Clusters of about 20 KB that use it.
//!
//! Everything follows from numbers, so every run measures the same. Objects have what the API server adds before it
//! asks, managed fields included.
#![allow(dead_code, reason = "each benchmark uses a part of the shared support")]

use serde_json::{Value, json};

/// Namespace of everything.
pub const NAMESPACE: &str = "fleet";

const ZONES: [&str; 3] = ["a", "b", "c"];

/// The class called `class-{i}`; classes with different numbers have different definitions.
pub fn class(i: usize) -> Value {
    let template = |group: &str, kind: &str| {
        json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"),
            "kind": kind, "name": format!("class-{i}")})
    };
    let worker = |name: &str| {
        json!({"class": name,
            "bootstrap": {"templateRef": template("bootstrap", "KubeadmConfigTemplate")},
            "infrastructure": {"templateRef": template("infrastructure", "ProviderMachineTemplate")},
            "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 600, "unhealthyNodeConditions": [
                {"type": "Ready", "status": "False", "timeoutSeconds": 300},
                {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]},
                "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}}})
    };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": format!("class-{i}"), "namespace": NAMESPACE, "generation": 1},
        "spec": {
            "infrastructure": {"templateRef": template("infrastructure", "ProviderClusterTemplate")},
            "controlPlane": {"templateRef": template("controlplane", "KubeadmControlPlaneTemplate"),
                "machineInfrastructure": {"templateRef": template("infrastructure", "ProviderMachineTemplate")}},
            "workers": {"machineDeployments": [worker("general"), worker("memory"), worker("gpu")]},
            "kubernetesVersions": ["v1.32.9", "v1.33.5", "v1.34.2"],
            "variables": variables(i),
        },
        "status": {"observedGeneration": 1, "conditions": [{"type": "VariablesReady", "status": "True"}],
            "variables": variables(i).iter().map(settled).collect::<Vec<_>>()},
    })
}

/// The same class with 20 CEL rules.
pub fn class_with_rules(i: usize) -> Value {
    let mut class = class(i);
    let variables = class["spec"]["variables"].as_array_mut().unwrap();
    add_rules(variables);
    class["status"]["variables"] = variables.iter().map(settled).collect();
    class
}

/// A class with 50 variables, 100 patches and 20 CEL rules.
pub fn large_class() -> Value {
    let mut class = class(0);
    let mut variables = Vec::new();
    for round in 0..3 {
        for mut variable in self::variables(0) {
            if round > 0 {
                variable["name"] = format!("{}{round}", variable["name"].as_str().unwrap()).into();
            }
            variables.push(variable);
        }
    }
    variables.truncate(50);
    add_rules(&mut variables);
    class["spec"]["patches"] = (0..100).map(patch).collect();
    class["spec"]["variables"] = variables.into();
    class["status"] = json!({});
    class
}

/// Rules for the definitions that [`variables`] has.
fn add_rules(variables: &mut [Value]) {
    let size = [
        "self.sizeGiB >= 20",
        "!has(self.type) || self.type != 'io1' || has(self.iops)",
        "!has(self.iops) || self.iops <= self.sizeGiB * 500",
    ];
    let rules: [(&str, &[&str]); 9] = [
        ("region", &["self.startsWith('eu-') || self.startsWith('us-')"]),
        ("controlPlaneVolume", &size),
        ("workerVolume", &size),
        (
            "network",
            &[
                "self.subnets.exists(subnet, subnet.public)",
                "self.subnets.all(subnet, subnet.zone.startsWith('eu-') == self.subnets[0].zone.startsWith('eu-'))",
                "self.natGateways <= size(self.subnets)",
            ],
        ),
        ("podSecurity", &["!has(self.enforce) || self.enforce != 'privileged'", "has(self.audit) == has(self.warn)"]),
        ("users", &["self.all(user, size(user.keys) > 0)"]),
        ("proxy", &["has(self.http) == has(self.https)", "!has(self.http) || has(self.noProxy)"]),
        ("oidc", &["self.issuer.startsWith('https://')", "self.usernameClaim != self.groupsClaim"]),
        (
            "apiServerArguments",
            &[
                "!('anonymous-auth' in self)",
                "!('profiling' in self) || self['profiling'] == 'false'",
                "self.all(name, !name.startsWith('-'))",
            ],
        ),
    ];
    for (name, rules) in rules {
        let variable = variables.iter_mut().find(|variable| variable["name"] == name).unwrap();
        variable["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
            rules.iter().map(|rule| json!({"rule": rule, "message": "does not go together"})).collect();
    }
}

fn patch(i: usize) -> Value {
    let template = "{{ if .imageRepository }}{{ .imageRepository }}/etcd{{ else }}registry.k8s.io/etcd{{ end }}";
    json!({"name": format!("patch-{i}"), "description": "sets what the variable says",
    "enabledIf": "{{ if .oidc }}true{{ end }}",
    "definitions": [{
        "selector": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "ProviderMachineTemplate",
            "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["general", "memory"]}}},
        "jsonPatches": [
            {"op": "add", "path": format!("/spec/template/spec/field{i}"), "valueFrom": {"variable": "network.mtu"}},
            {"op": "add", "path": format!("/spec/template/spec/image{i}"), "valueFrom": {"template": template}},
            {"op": "replace", "path": "/spec/template/spec/volume", "value": {"type": "gp3"}},
        ]}]})
}

/// A definition as a status has it once the class is reconciled.
fn settled(variable: &Value) -> Value {
    json!({"name": variable["name"],
        "definitions": [{"from": "inline", "required": variable["required"], "schema": variable["schema"]}]})
}

/// The definitions of a class, as `spec.variables` has them.
pub fn variables(class: usize) -> Vec<Value> {
    let repository = format!("registry-{class}.example.com/kubernetes");
    let machine_type = "^[a-z][0-9][a-z]*\\.[0-9]*(nano|micro|small|medium|large|xlarge)$";
    let quota = json!({"type": "integer", "minimum": 2, "maximum": 64, "default": 8});
    vec![
        required("region", text(json!({"enum": ["eu-central-1", "eu-west-1", "us-east-1", "us-west-2"]}))),
        optional("imageRepository", text(json!({"default": repository}))),
        required("machineImage", text(json!({"pattern": "^ami-[0-9a-f]{8,17}$"}))),
        required("controlPlaneMachineType", text(json!({"pattern": machine_type}))),
        optional("workerMachineType", text(json!({"default": "m6i.2xlarge", "maxLength": 64}))),
        required("controlPlaneVolume", volume()),
        optional("workerVolume", with(volume(), json!({"default": {"sizeGiB": 100}}))),
        required("network", network()),
        optional("additionalTags", texts(json!({"maxLength": 256}))),
        optional("podSecurity", with(pod_security(), json!({"default": {}}))),
        optional("auditPolicy", json!({"type": "string", "maxLength": 16384})),
        optional("trustedCertificates", strings(json!({"pattern": "^-----BEGIN CERTIFICATE-----\\n"}))),
        optional("files", list(file_schema())),
        optional("users", list(user())),
        optional("registryMirrors", list(mirror())),
        optional("proxy", proxy()),
        optional("oidc", oidc()),
        optional("apiServerArguments", texts(json!({}))),
        optional("kubeletArguments", texts(json!({}))),
        optional("etcdQuotaGiB", quota),
    ]
}

fn required(name: &str, schema: Value) -> Value {
    json!({"name": name, "required": true, "schema": {"openAPIV3Schema": schema}})
}

fn optional(name: &str, schema: Value) -> Value {
    json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}})
}

fn text(more: Value) -> Value {
    with(json!({"type": "string", "maxLength": 4096}), more)
}

fn flag(default: bool) -> Value {
    json!({"type": "boolean", "default": default})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "maxItems": 4096, "items": items})
}

fn strings(more: Value) -> Value {
    list(text(more))
}

fn texts(more: Value) -> Value {
    json!({"type": "object", "additionalProperties": text(more)})
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn volume() -> Value {
    let properties = json!({
        "sizeGiB": {"type": "integer", "format": "int32", "minimum": 20, "maximum": 16384},
        "type": {"type": "string", "enum": ["gp2", "gp3", "io1", "io2"], "default": "gp3"},
        "iops": {"type": "integer", "minimum": 100, "maximum": 64000},
        "encrypted": flag(true),
    });
    object(&["sizeGiB"], properties)
}

fn network() -> Value {
    let vpc = json!({"id": text(json!({"pattern": "^vpc-"})), "cidr": text(json!({"format": "cidr"}))});
    let subnet = json!({
        "id": text(json!({"pattern": "^subnet-[0-9a-f]{8,17}$"})),
        "cidr": text(json!({"format": "cidr"})),
        "zone": text(json!({"pattern": "^[a-z]{2}-[a-z]+-[0-9][a-f]$"})),
        "public": flag(false),
        "tags": texts(json!({})),
    });
    let properties = json!({
        "vpc": object(&["id"], vpc),
        "subnets": with(list(object(&["id", "cidr", "zone"], subnet)), json!({"minItems": 1, "maxItems": 16})),
        "mtu": {"type": "integer", "minimum": 1280, "maximum": 9001, "default": 1500},
        "natGateways": {"type": "integer", "minimum": 0, "maximum": 3, "default": 1},
    });
    object(&["vpc", "subnets"], properties)
}

fn pod_security() -> Value {
    let level =
        |default: &str| json!({"type": "string", "enum": ["privileged", "baseline", "restricted"], "default": default});
    let properties = json!({
        "enabled": flag(true),
        "enforce": level("baseline"),
        "audit": level("restricted"),
        "warn": level("restricted"),
        "exemptNamespaces": strings(json!({"maxLength": 63})),
    });
    object(&[], properties)
}

fn file_schema() -> Value {
    let properties = json!({
        "path": text(json!({"pattern": "^/", "minLength": 2})),
        "owner": text(json!({"default": "root:root"})),
        "permissions": text(json!({"pattern": "^0[0-7]{3}$", "default": "0644"})),
        "content": {"type": "string"},
    });
    object(&["path", "content"], properties)
}

fn user() -> Value {
    let properties = json!({
        "name": text(json!({"pattern": "^[a-z][-a-z0-9]{0,31}$"})),
        "sudo": text(json!({"default": "ALL=(ALL) NOPASSWD:ALL"})),
        "keys": strings(json!({"pattern": "^ssh-"})),
    });
    object(&["name"], properties)
}

fn mirror() -> Value {
    let properties = json!({
        "host": text(json!({"format": "hostname"})),
        "endpoints": strings(json!({"format": "uri"})),
        "insecure": flag(false),
        "capabilities": list(json!({"type": "string", "enum": ["pull", "resolve", "push"]})),
    });
    object(&["host", "endpoints"], properties)
}

fn proxy() -> Value {
    let uri = text(json!({"format": "uri"}));
    object(&[], json!({"http": uri, "https": uri, "noProxy": strings(json!({}))}))
}

fn oidc() -> Value {
    let properties = json!({
        "issuer": text(json!({"format": "uri"})),
        "clientID": text(json!({})),
        "usernameClaim": text(json!({"default": "sub"})),
        "groupsClaim": text(json!({"default": "groups"})),
    });
    object(&["issuer", "clientID"], properties)
}

/// How much of what the class has defaults for a Cluster says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As a person writes a Cluster: what has a default is left out here and there.
    ByHand,
    /// As it is stored: nothing is left to default.
    Completely,
}

/// A Cluster called `cluster-{i}` of about 20 KB with 10 machine deployments, three of which override variables.
pub fn cluster(i: usize, class: usize, written: Written) -> Value {
    let complete = written == Written::Completely;
    let deployments: Vec<Value> = (0..10).map(|number| machine_deployment(i, number, complete)).collect();
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": format!("cluster-{i}"),
            "namespace": NAMESPACE,
            "uid": format!("705ab4f5-6393-11e8-b7cc-{i:012}"),
            "creationTimestamp": "2025-11-04T09:30:00Z",
            "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "fleet", "example.com/environment": "production",
                "example.com/owner": "platform", "topology.cluster.x-k8s.io/owned": ""},
            "annotations": {"example.com/contact": "platform@example.com", "example.com/cost-center": "4711",
                "example.com/repository": format!("https://git.example.com/fleet/clusters/cluster-{i}")},
            "managedFields": managed_fields(),
        },
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local",
                "services": {"cidrBlocks": ["10.96.0.0/12"]}},
            "topology": {
                "classRef": {"name": format!("class-{class}")},
                "controlPlane": {"metadata": {"annotations": {"example.com/backup": "daily"},
                    "labels": {"example.com/pool": "control-plane"}}, "replicas": 3,
                    "variables": {"overrides": [value("etcdQuotaGiB", json!(16))]}},
                "variables": values(i, complete),
                "version": "v1.33.5",
                "workers": {"machineDeployments": deployments},
            },
        },
    })
}

/// A Cluster of about 2 KB, of about 20 KB, or of more, most of which is a list of files.
pub fn cluster_of_size(kilobytes: usize) -> Value {
    let mut cluster = cluster(0, 0, Written::ByHand);
    if kilobytes < 20 {
        cluster["metadata"]["managedFields"] = json!([]);
        let topology = &mut cluster["spec"]["topology"];
        let required = ["region", "machineImage", "controlPlaneMachineType", "controlPlaneVolume", "network"];
        topology["variables"]
            .as_array_mut()
            .unwrap()
            .retain(|value| required.iter().any(|name| value["name"] == *name));
        topology["variables"][4]["value"]["subnets"].as_array_mut().unwrap().truncate(2);
        topology["workers"]["machineDeployments"].as_array_mut().unwrap().truncate(1);
    }
    let values = cluster["spec"]["topology"]["variables"].as_array_mut().unwrap();
    if let Some(files) = values.iter_mut().find(|value| value["name"] == "files") {
        let written = file(0, 0).to_string().len();
        let more = (kilobytes * 1024).saturating_sub(20 * 1024) / written;
        files["value"].as_array_mut().unwrap().extend((0..more).map(|number| file(0, 10 + number)));
    }
    cluster
}

fn file(cluster: usize, number: usize) -> Value {
    let content = format!(
        "# written by cloud-init\n[Unit]\nDescription=Service {number} of cluster {cluster}\n\
         After=network-online.target\n\n\
         [Service]\nExecStart=/usr/local/bin/service-{number} --config /etc/service-{number}.yaml\nRestart=always\n"
    );
    json!({"content": content, "owner": "root:root", "path": format!("/etc/systemd/system/service-{number}.service"),
        "permissions": "0644"})
}

fn machine_deployment(cluster: usize, number: usize, complete: bool) -> Value {
    let class = ["general", "memory", "gpu"][number % 3];
    let mut deployment = json!({
        "class": class,
        "failureDomain": format!("eu-central-1{}", ZONES[number % 3]),
        "metadata": {
            "annotations": {"example.com/contact": "platform@example.com",
                "example.com/ticket": format!("OPS-{cluster}{number}")},
            "labels": {"example.com/pool": class, "example.com/zone": ZONES[number % 3],
                "node-role.example.com/worker": ""}},
        "name": format!("md-{number}"),
        "replicas": 3 + number,
    });
    if number % 4 == 1 {
        let volume = json!({"sizeGiB": 200 + number, "iops": 4000});
        let volume = if complete { with(volume, json!({"type": "gp3", "encrypted": true})) } else { volume };
        deployment["variables"] =
            json!({"overrides": [value("workerMachineType", json!("r6i.4xlarge")), value("workerVolume", volume)]});
    }
    deployment
}

fn values(i: usize, complete: bool) -> Vec<Value> {
    let default = |value: Value, defaults: Value| if complete { with(value, defaults) } else { value };
    let subnet = |number: usize| {
        let subnet = json!({"cidr": format!("10.{}.{}.0/24", i % 200, number),
            "id": format!("subnet-{:012x}", i * 16 + number),
            "tags": {"kubernetes.io/role/internal-elb": "1", "example.com/tier": format!("tier-{number}")},
            "zone": format!("eu-central-1{}", ZONES[number % 3])});
        // Public subnets have to be said.
        if number < 3 { with(subnet, json!({"public": true})) } else { default(subnet, json!({"public": false})) }
    };
    let user = |number: usize| {
        let key = format!("ssh-ed25519 {} user-{number}@example.com", base64(68, i * 7 + number));
        json!({"keys": [key], "name": format!("user-{number}"), "sudo": "ALL=(ALL) NOPASSWD:ALL"})
    };
    let mirror = |host: &str| {
        let mirror = json!({"capabilities": ["pull", "resolve"], "host": host,
            "endpoints": [format!("https://mirror.example.com/v2/{host}"),
                format!("https://mirror-2.example.com/v2/{host}")]});
        with(mirror, json!({"insecure": false}))
    };
    let mut values = vec![
        value("region", json!("eu-central-1")),
        value("machineImage", json!(format!("ami-{i:012x}"))),
        value("controlPlaneMachineType", json!("m6i.xlarge")),
        value("workerMachineType", json!("m6i.4xlarge")),
        value(
            "controlPlaneVolume",
            default(json!({"sizeGiB": 120, "iops": 3000}), json!({"type": "gp3", "encrypted": true})),
        ),
        value("workerVolume", json!({"encrypted": true, "iops": 3000, "sizeGiB": 250, "type": "gp3"})),
        value(
            "network",
            default(
                json!({"natGateways": 3, "subnets": (0..9).map(subnet).collect::<Vec<_>>(),
                    "vpc": {"cidr": format!("10.{}.0.0/16", i % 200), "id": format!("vpc-{i:012x}")}}),
                json!({"mtu": 1500}),
            ),
        ),
        value(
            "additionalTags",
            json!({"backup": "daily", "business-unit": "platform", "compliance": "internal",
                "confidentiality": "restricted",
                "cost-center": "4711", "data-classification": "none", "environment": "production",
                "managed-by": "fleet",
                "on-call": "platform-primary", "owner": "platform", "patch-group": "wednesday", "recovery-tier": "2",
                "service": format!("cluster-{i}"), "support-level": "24x7"}),
        ),
        value("auditPolicy", json!(audit_policy())),
        value("trustedCertificates", json!([certificate(i), certificate(i + 1)])),
        value("files", (0..10).map(|number| file(i, number)).collect()),
        value("users", (0..8).map(user).collect()),
        value(
            "registryMirrors",
            ["docker.io", "gcr.io", "ghcr.io", "mcr.microsoft.com", "public.ecr.aws", "quay.io", "registry.k8s.io"]
                .map(mirror)
                .to_vec()
                .into(),
        ),
        value(
            "proxy",
            json!({"http": "http://proxy.example.com:3128", "https": "http://proxy.example.com:3128",
                "noProxy": ["localhost", "127.0.0.1", "10.0.0.0/8", "192.168.0.0/16", ".svc", ".cluster.local",
                    ".example.com"]}),
        ),
        value(
            "oidc",
            json!({"clientID": format!("cluster-{i}"), "groupsClaim": "groups",
                "issuer": "https://login.example.com/realms/fleet",
                "usernameClaim": "email"}),
        ),
        value(
            "apiServerArguments",
            json!({"audit-log-maxage": "30", "audit-log-maxbackup": "10", "audit-log-maxsize": "100",
                "audit-policy-file": "/etc/kubernetes/audit-policy.yaml", "default-not-ready-toleration-seconds": "60",
                "default-unreachable-toleration-seconds": "60",
                "enable-admission-plugins": "NodeRestriction,PodNodeSelector",
                "encryption-provider-config": "/etc/kubernetes/encryption.yaml", "event-ttl": "1h0m0s",
                "max-mutating-requests-inflight": "400", "max-requests-inflight": "800", "profiling": "false",
                "request-timeout": "300s", "service-account-lookup": "true", "tls-min-version": "VersionTLS12"}),
        ),
        value(
            "kubeletArguments",
            json!({"event-qps": "0", "eviction-hard": "memory.available<500Mi,nodefs.available<10%",
                "eviction-max-pod-grace-period": "60",
                "image-gc-high-threshold": "80", "image-gc-low-threshold": "70", "max-pods": "110",
                "protect-kernel-defaults": "true", "read-only-port": "0", "rotate-certificates": "true",
                "serialize-image-pulls": "false", "streaming-connection-idle-timeout": "5m",
                "system-reserved": "cpu=200m,memory=512Mi", "tls-min-version": "VersionTLS12"}),
        ),
    ];
    if complete {
        let security = json!({"audit": "restricted", "enabled": true, "enforce": "baseline", "warn": "restricted"});
        values.push(value("imageRepository", json!("registry.example.com/kubernetes")));
        values.push(value("podSecurity", security));
        values.push(value("etcdQuotaGiB", json!(8)));
    }
    values
}

fn value(name: &str, value: Value) -> Value {
    json!({"name": name, "value": value})
}

/// A create review of an object, as kube-apiserver sends it.
pub fn review(object: &Value) -> String {
    let kind = json!({"group": "cluster.x-k8s.io", "kind": object["kind"], "version": "v1beta2"});
    let resource = json!({"group": "cluster.x-k8s.io", "resource": "clusters", "version": "v1beta2"});
    let ends = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":{},"namespace":{},"operation":"CREATE","userInfo":{{"username":"system:serviceaccount:flux-system:kustomize-controller","uid":"a3c2","groups":["system:serviceaccounts","system:authenticated"]}},"object":"#,
        object["metadata"]["name"], object["metadata"]["namespace"]
    );
    format!(
        r#"{ends}{object},"oldObject":null,"dryRun":false,"options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kustomize-controller","fieldValidation":"Strict"}}}}}}"#
    )
}

/// `base` with the members of `more`.
fn with(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

fn audit_policy() -> String {
    let rule = |level: &str, resources: &str| {
        format!(
            "- level: {level}\n  omitStages: [\"RequestReceived\"]\n  resources:\n  - group: \"\"\n    resources: [{resources}]\n"
        )
    };
    let rules: String =
        ["\"secrets\", \"configmaps\"", "\"pods\", \"pods/log\"", "\"services\"", "\"events\"", "\"nodes\""]
            .map(|resources| rule("Metadata", resources) + &rule("Request", resources))
            .concat();
    format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}- level: Metadata\n")
}

fn certificate(seed: usize) -> String {
    let lines: String = (0..19).map(|line| base64(64, seed * 31 + line) + "\n").collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

/// Letters that look like Base64.
fn base64(length: usize, seed: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = seed as u64 + 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(LETTERS[(state >> 58) as usize])
        })
        .collect()
}

fn managed_fields() -> Value {
    let labels =
        json!({"f:app.kubernetes.io/managed-by": {}, "f:example.com/environment": {}, "f:example.com/owner": {}});
    let annotations =
        json!({"f:example.com/contact": {}, "f:example.com/cost-center": {}, "f:example.com/repository": {}});
    let deployments: serde_json::Map<String, Value> = (0..10)
        .map(|i| {
            (format!("k:{{\"name\":\"md-{i}\"}}"), json!({".": {}, "f:class": {}, "f:name": {}, "f:replicas": {}}))
        })
        .collect();
    let topology = json!({"f:classRef": {"f:name": {}}, "f:controlPlane": {"f:replicas": {}}, "f:variables": {},
        "f:version": {}, "f:workers": {"f:machineDeployments": deployments}});
    json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "fieldsType": "FieldsV1", "manager": "kustomize-controller",
        "operation": "Apply", "time": "2025-11-04T09:30:00Z",
        "fieldsV1": {"f:metadata": {"f:annotations": annotations, "f:labels": labels},
            "f:spec": {"f:topology": topology}}}])
}
