//! What inputs are made of. A gene is one way to be expensive; sizes are random, and mutation mixes inputs.

use serde_json::{Map, Value, json};

use crate::random::Random;
use crate::search::places;

/// The largest input, a class and a Cluster together: what etcd takes at most in one request.
pub const MOST_BYTES: usize = 3 << 19;

/// A class, a Cluster of it, and a template that is rendered with that Cluster as its data.
#[derive(Clone)]
pub struct Input {
    pub gene: &'static str,
    pub class: Value,
    pub cluster: Value,
    pub template: String,
}

pub const NAMES: &[&str] = &[
    "nested defaults",
    "wide defaults",
    "wide junctors",
    "junctors of lists",
    "enums",
    "examples",
    "patterns",
    "patterns of one text",
    "long names",
    "deep names",
    "required",
    "rules of texts",
    "rules of lists",
    "rules of maps",
    "rules of bytes",
    "rules of nodes",
    "many variables",
    "many patches",
    "values of patches",
    "templates",
    "nulls",
    "odd JSON",
];

const PATTERNS: &[&str] = &[
    r"\pL{200}N",
    r"a{0,1000}",
    r"(a|b|ab)*c",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"[^a]$",
    r"(?i)\p{Greek}{1,100}",
    r"(x+x+)+y",
    r".{0,500}",
    r"(a?){100}a{100}",
    r"\b\w+\b",
];

const RULES_OF_TEXTS: &[&str] = &[
    "lists.range(20000).map(i, {self: i}).size() > 0",
    "lists.range(1000).map(i, self + self).size() > 0",
    "self.split('').map(a, self).size() > 0",
    "self.matches('(a?){100}a{100}')",
    "self.matches(self)",
    "[{'a': 1}].all(m, lists.range(14000).all(i, !(self in m)))",
    "lists.range(100000).all(i, self != 'x')",
    "self.replace('a', self.substring(0, 20)).size() > 0",
    "'%s'.format([[self, self, self, self]]).size() > 0",
    "self.lowerAscii().upperAscii().contains(self)",
    "lists.range(2000).all(i, !isURL(self))",
    "lists.range(500).all(i, !isQuantity(self) && !isIP(self) && !isCIDR(self))",
    "self.findAll('a').size() >= 0",
    "[self, self, self].sort().distinct().size() == 1",
    "lists.range(3000).map(i, bytes(self)).size() > 0",
    "lists.range(1000).map(i, string(i) + self).join(self).size() > 0",
    "format.dns1123Subdomain().validate(self).hasValue()",
    "strings.quote(self).size() > 0",
];

const RULES_OF_LISTS: &[&str] = &[
    "self.all(a, self.all(b, a <= b || a > b))",
    "self.sort().distinct().size() <= self.size()",
    "self.map(a, self).size() > 0",
    "self.map(a, self.map(b, b)).flatten().size() > 0",
    "self.exists(a, self.filter(b, b == a).size() > 1) || true",
    "sets.equivalent(self, self.reverse())",
    "self.transformMap(i, a, a).size() > 0",
    "self == self.map(a, a)",
    "'%s'.format([self]).size() > 0",
    "self + self + self + self == self || true",
];

const RULES_OF_MAPS: &[&str] = &[
    "self.all(k, self.exists(j, j == k))",
    "self.map(k, self[k]).size() >= 0",
    "self.transformMapEntry(k, v, {k: v}) == self",
    "self.transformMap(k, v, self).size() >= 0",
    "'%s'.format([self]).size() > 0",
];

const TEMPLATES: &[&str] = &[
    "{{ range $i := until 20000 }}{{ $i }}{{ end }}",
    "{{ range until 500 }}{{ range until 500 }}x{{ end }}{{ end }}",
    "{{ repeat 100000 \"ab\" }}",
    "{{ range until 100 }}{{ toJson $ }}{{ end }}",
    "{{ regexReplaceAll \"(a?){100}a{100}\" (repeat 5000 \"a\") \"b\" }}",
    "{{ $s := \"a\" }}{{ range until 30 }}{{ $s = print $s $s }}{{ end }}{{ $s }}",
    "{{ printf \"%1000000d\" 1 }}",
    "{{ range until 1000 }}{{ sha256sum (repeat 1000 \"a\") }}{{ end }}",
    "{{ toPrettyJson . | splitList \"\" | join \"-\" | upper }}",
    "{{ (list 1 2 3 | toJson | repeat 10000) | wrapWith 1 \"\\n\" }}",
    "{{ regexFindAll \".\" (toJson .) -1 | sortAlpha | uniq }}",
    "{{ index (fromJson (repeat 1000 \"[\")) }}",
    "{{ with $x := dict \"a\" . }}{{ mergeOverwrite $x $x $x | toJson }}{{ end }}",
];

impl Input {
    pub fn of(gene: &'static str, random: &mut Random) -> Input {
        let mut input = Input { gene, class: class(), cluster: cluster(), template: String::new() };
        match gene {
            "many patches" | "values of patches" => input.class["spec"]["patches"] = patches(gene, random),
            "templates" => input.template = template(random),
            "odd JSON" => input.odd(random),
            "many variables" => {
                for number in 0..random.size(300) {
                    let (schema, value) = schema_and_value(random.pick(&NAMES[..12]), 12, random);
                    input.define(&format!("v{number}"), schema, value);
                }
            }
            _ => {
                let (schema, value) = schema_and_value(gene, 100_000, random);
                input.define("v", schema, value);
            }
        }
        input
    }

    pub fn size(&self) -> usize {
        self.class.to_string().len() + self.cluster.to_string().len() + self.template.len()
    }

    fn define(&mut self, name: &str, schema: Value, value: Value) {
        let variable = json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}});
        push(&mut self.class["spec"]["variables"], variable);
        push(&mut self.cluster["spec"]["topology"]["variables"], json!({"name": name, "value": value}));
    }

    fn odd(&mut self, random: &mut Random) {
        let many = vec![random.pick(&[json!({}), json!(null), json!(0), json!(""), json!([])]); random.size(60_000)];
        let at = random.pick(&["variables", "patches", "workers/machineDeployments", "workers/machinePools"]);
        if random.is_one_in(2) {
            set(&mut self.class["spec"], at, json!(many));
        } else {
            set(&mut self.cluster["spec"]["topology"], at, json!(many));
        }
    }

    /// The input with a part repeated, wrapped, replaced or taken from another.
    pub fn mutated(mut self, other: &Input, random: &mut Random) -> Input {
        for _ in 0..=random.below(3) {
            if !self.template.is_empty() && random.is_one_in(2) {
                let pieces = [&*self.template, &*other.template, random.pick(TEMPLATES)];
                self.template = (0..=random.below(3)).map(|_| random.pick(&pieces)).collect();
                continue;
            }
            let of_class = random.is_one_in(2);
            let (object, from) = match of_class {
                true => (&mut self.class["spec"], &other.class["spec"]),
                false => (
                    &mut self.cluster["spec"]["topology"]["variables"],
                    &other.cluster["spec"]["topology"]["variables"],
                ),
            };
            mutate(object, from, random);
        }
        self
    }
}

fn mutate(object: &mut Value, other: &Value, random: &mut Random) {
    let (mut here, mut there) = (Vec::new(), Vec::new());
    places(object, String::new(), &mut here);
    places(other, String::new(), &mut there);
    let part = other.pointer(&random.pick(&there)).cloned().unwrap_or_default();
    let Some(place) = object.pointer_mut(&random.pick(&here)) else { return };
    match (random.below(5), &mut *place) {
        (0, Value::Array(items)) if !items.is_empty() => {
            let item = random.pick(items);
            items.extend(vec![item; random.size(5000)]);
        }
        (0, Value::String(text)) => *text = text.repeat(random.size(2000)),
        (0, Value::Object(members)) if !members.is_empty() => {
            let (name, member) = members.iter().next().map(|(name, member)| (name.clone(), member.clone())).unwrap();
            members.extend((0..random.size(2000)).map(|number| (format!("{name}{number}"), member.clone())));
        }
        (1, place) => {
            let keyword = random.pick(&["items", "not", "additionalProperties"]);
            for _ in 0..random.size(60) {
                *place = json!({"type": "array", keyword: place.take()});
            }
        }
        (2, place) => {
            let keyword = random.pick(&["anyOf", "allOf", "oneOf", "enum"]);
            let inner = place.take();
            *place = json!({"type": "object", keyword: vec![inner; random.size(500)]});
        }
        (3, place) => *place = json!(random.pick(RULES_OF_TEXTS)),
        (_, place) => *place = part,
    }
}

/// A schema of a gene, and a value that is meant for it.
fn schema_and_value(gene: &str, most: usize, random: &mut Random) -> (Value, Value) {
    let n = random.size(most);
    match gene {
        "nested defaults" => {
            let mut schema = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}});
            for _ in 0..random.size(9) {
                let filled = vec![json!({}); random.size(12)];
                schema = json!({"type": "array", "items": schema, "default": filled});
            }
            (schema, json!([]))
        }
        "wide defaults" => {
            let members: Map<String, Value> =
                (0..n.min(20_000)).map(|i| (format!("p{i}"), json!({"type": "integer", "default": i}))).collect();
            (json!({"type": "object", "default": {}, "properties": members}), json!({}))
        }
        "wide junctors" => {
            let entry =
                random.pick(&[json!({"minLength": 2}), json!({"pattern": "^b"}), json!({}), json!({"enum": ["x"]})]);
            (
                json!({"type": "string", random.pick(&["anyOf", "oneOf", "allOf"]): vec![entry; n.min(24_000)]}),
                json!("a"),
            )
        }
        "junctors of lists" => {
            let entry = json!({"items": {"minimum": 1}});
            let keyword = random.pick(&["anyOf", "oneOf", "allOf"]);
            let schema = json!({"type": "array", "items": {"type": "integer"}, keyword: vec![entry; n.min(8_000)]});
            (schema, json!(vec![0; random.size(30_000)]))
        }
        "enums" => {
            let entries: Vec<String> = (0..n.min(40_000)).map(|i| format!("e{i}")).collect();
            let node = json!({"type": "string", "enum": entries});
            (json!({"type": "array", "items": node}), json!(vec!["e39999"; random.size(16_000)]))
        }
        "examples" => (json!({"type": "array", "items": {"type": "integer"}, "example": vec![0; n * 2]}), json!([1])),
        "patterns" => {
            let nodes: Map<String, Value> = (0..n.min(400))
                .map(|i| {
                    (format!("p{i}"), json!({"type": "string", "pattern": format!("{}{i}", random.pick(PATTERNS))}))
                })
                .collect();
            (json!({"type": "object", "properties": nodes}), json!({"p0": text(random)}))
        }
        "patterns of one text" => {
            let pattern = random.pick(PATTERNS).repeat(random.size(60)) + random.pick(PATTERNS);
            (json!({"type": "string", "pattern": pattern}), json!(text(random)))
        }
        "long names" => {
            let mut schema = json!({"type": "object", "properties": {"/".repeat(n): {"type": "string"}}});
            for _ in 0..random.size(100) {
                schema = ruled(json!({"type": "array", "items": schema}), &["true"], random);
            }
            (schema, json!([]))
        }
        "deep names" => {
            let wide: Map<String, Value> =
                (0..n.min(24_000)).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
            let (mut schema, mut value) = (json!({"type": "object", "properties": wide}), json!({"p0": 1}));
            for _ in 0..random.size(58) {
                let name = "n".repeat(random.size(1024));
                schema = json!({"type": "object", "properties": {&name: schema}});
                value = json!({name: value});
            }
            (schema, value)
        }
        "required" => {
            let members: Map<String, Value> =
                (0..n.min(24_000)).map(|i| (format!("p{i:05}"), json!({"type": "string"}))).collect();
            let names = vec!["p99999"; random.size(100_000)];
            (ruled(json!({"type": "object", "properties": members, "required": names}), &["true"], random), json!({}))
        }
        gene if gene.starts_with("rules") => rules_and_value(gene, n, random),
        _ => (json!({"type": "object", random.pick(&["allOf", "required", "enum"]): vec![Value::Null; n]}), json!({})),
    }
}

/// A schema with rules, and a value that they are run on.
fn rules_and_value(gene: &str, n: usize, random: &mut Random) -> (Value, Value) {
    match gene {
        "rules of texts" => (ruled(json!({"type": "string"}), RULES_OF_TEXTS, random), json!(text(random))),
        "rules of lists" => {
            let most = random.size(1000);
            let schema = json!({"type": "array", "maxItems": most, "items": {"type": "integer"}});
            (ruled(schema, RULES_OF_LISTS, random), json!(vec![7; most]))
        }
        "rules of maps" => {
            let most = random.size(1000);
            let schema = json!({"type": "object", "maxProperties": most, "additionalProperties": {"type": "string"}});
            let value: Map<String, Value> = (0..most).map(|i| (format!("k{i}"), json!("x"))).collect();
            (ruled(schema, RULES_OF_MAPS, random), json!(value))
        }
        "rules of bytes" => {
            let schema = json!({"type": "object", "properties": {"b": {"type": "string", "format": "byte"}}});
            let of_bytes =
                ["lists.range(2000).all(i, self.b.size() > i || true)", "lists.range(900).map(i, self.b).size() > 0"];
            (ruled(schema, &of_bytes, random), json!({"b": "YWJj".repeat(random.size(15_000))}))
        }
        _ => {
            let rule = json!([{"rule": format!("self == {}", random.size(1_000_000))}]);
            let node = json!({"type": "integer", "x-kubernetes-validations": rule});
            let nodes: Map<String, Value> = (0..n.min(3000)).map(|i| (format!("p{i}"), node.clone())).collect();
            let value: Map<String, Value> = (0..n.min(3000)).map(|i| (format!("p{i}"), json!(i))).collect();
            (json!({"type": "object", "properties": nodes}), json!(value))
        }
    }
}

fn text(random: &mut Random) -> String {
    random.pick(&["a", "b", "aA", "☃", "x.", "1"]).repeat(random.size(60_000))
}

fn ruled(mut schema: Value, rules: &[&str], random: &mut Random) -> Value {
    let rules: Vec<Value> = (0..random.size(20)).map(|_| json!({"rule": random.pick(rules)})).collect();
    schema["x-kubernetes-validations"] = json!(rules);
    schema
}

fn patches(gene: &str, random: &mut Random) -> Value {
    let value = json!(vec![json!({"a": [1, {}]}); random.size(2000)]);
    let operation = match gene {
        "many patches" => {
            let template = random.pick(&["{{ . }}", "{{ .v }}", "{{ if .v }}a{{ else }}b{{ end }}", "{{ toJson . }}"]);
            json!({"op": "add", "path": "/spec/template/spec/a", "valueFrom": {"template": template}})
        }
        _ => json!({"op": "add", "path": "/spec/template/spec/a", "value": value}),
    };
    let resources = json!({"infrastructureCluster": true});
    let selector = json!({"apiVersion": "infrastructure.example.com/v1", "kind": "ForgeClusterTemplate",
        "matchResources": resources});
    let operations = vec![operation; random.size(if gene == "many patches" { 99 } else { 9 })];
    let definitions = vec![json!({"selector": selector, "jsonPatches": operations}); random.size(9)];
    (0..random.size(200)).map(|number| json!({"name": format!("p{number}"), "definitions": definitions})).collect()
}

fn template(random: &mut Random) -> String {
    (0..random.size(40)).map(|_| random.pick(TEMPLATES)).collect()
}

fn class() -> Value {
    let of =
        |kind: &str| json!({"templateRef": {"apiVersion": "infrastructure.example.com/v1", "kind": kind, "name": "t"}});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "class", "namespace": "ns"},
        "spec": {"infrastructure": of("ForgeClusterTemplate"), "controlPlane": of("ForgeControlPlaneTemplate")},
    })
}

fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "ns"},
        "spec": {"topology": {"classRef": {"name": "class"}, "version": "v1.34.0"}},
    })
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn set(object: &mut Value, path: &str, value: Value) {
    match path.split_once('/') {
        Some((name, rest)) => set(&mut object[name], rest, value),
        None => object[path] = value,
    }
}

/// Smaller inputs, one after the other: without a part, with half of a list or a text.
#[derive(Default)]
pub struct Smaller {
    at: usize,
}

impl Smaller {
    /// The next attempt; none when every part was tried in vain.
    pub fn next(&mut self, input: &Input) -> Option<Input> {
        let parts = parts(input);
        while let Some((of_class, place)) = parts.get(self.at / 2) {
            let halves = self.at.is_multiple_of(2);
            self.at += 1;
            let mut smaller = input.clone();
            let object = if *of_class { &mut smaller.class["spec"] } else { &mut smaller.cluster["spec"]["topology"] };
            if shrink(object, place, halves) {
                return Some(smaller);
            }
        }
        None
    }

    /// The last attempt is the input from now on, so the same place is tried again.
    pub fn worked(&mut self) {
        self.at -= 1;
    }
}

/// The larger parts first, which are those further up.
fn parts(input: &Input) -> Vec<(bool, String)> {
    let mut parts = Vec::new();
    for (of_class, object) in [(true, &input.class["spec"]), (false, &input.cluster["spec"]["topology"])] {
        let mut all = Vec::new();
        places(object, String::new(), &mut all);
        parts.extend(all.into_iter().map(|place| (of_class, place)));
    }
    parts.sort_by_key(|(_, place)| place.matches('/').count());
    parts.truncate(400);
    parts
}

fn shrink(object: &mut Value, place: &str, halves: bool) -> bool {
    if !halves {
        let Some((parent, name)) = place.rsplit_once('/') else { return false };
        return match object.pointer_mut(parent) {
            Some(Value::Object(members)) => members.remove(&name.replace("~1", "/").replace("~0", "~")).is_some(),
            Some(Value::Array(items)) => {
                name.parse().ok().filter(|at| *at < items.len()).map(|at: usize| items.remove(at)).is_some()
            }
            _ => false,
        };
    }
    match object.pointer_mut(place) {
        Some(Value::Array(items)) if items.len() > 1 => {
            items.truncate(items.len() / 2);
            true
        }
        Some(Value::Object(members)) if members.len() > 8 => {
            let names: Vec<String> = members.keys().skip(members.len() / 2).cloned().collect();
            names.iter().for_each(|name| drop(members.remove(name)));
            true
        }
        Some(Value::String(text)) if text.len() > 8 => {
            let end = text.floor_char_boundary(text.len() / 2);
            text.truncate(end);
            true
        }
        _ => false,
    }
}
