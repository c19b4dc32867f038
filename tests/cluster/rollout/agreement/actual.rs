//! What happened, told from the objects before and after, and what a plan foresaw, in the same terms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kube::api::ListParams;
use regex::Regex;
use serde_json::{Value, json};

use super::super::site::{CORE, MADE, api, text};

/// The field manager that writes to what topologies have made.
pub(super) const FOREIGN: &str = "a-gitops-tool";

/// What becomes of one Cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Effects {
    /// `create MachineDeployment demo-blue-*`, with the fields of what changes.
    steps: BTreeMap<String, BTreeSet<String>>,
    /// Machines replaced, removed, added and outdated until deleted, as a plan counts them; none where it does not
    /// know.
    machines: [Option<i64>; 4],
}

impl Effects {
    /// Whether a plan foresaw what happened. The machines that it counts are compared with a rollout in
    /// `crates/simulation/src/counts/tests.rs`.
    pub(super) fn agrees_with(&self, happened: &Effects) -> bool {
        self.steps == happened.steps
    }

    /// Leaves out these fields of templates that are replaced.
    pub(super) fn forget_lost(&mut self, fields: &[&str]) {
        let rotations = self.steps.iter_mut().filter(|(step, _)| step.starts_with("rotate"));
        rotations.for_each(|(_, paths)| paths.retain(|path| !fields.iter().any(|field| path.starts_with(field))));
    }

    /// Leaves out these fields of templates that are replaced, where nothing has come of it in the end.
    pub(super) fn forget_set_again(&mut self, happened: &Effects, fields: &[&str]) {
        for (step, paths) in self.steps.iter_mut().filter(|(step, _)| step.starts_with("rotate")) {
            let stays = |path: &String| happened.steps.get(step).is_some_and(|happened| happened.contains(path));
            paths.retain(|path| !fields.contains(&&**path) || stays(path));
        }
    }

    /// The exit code of a plan that says this (DEC-42).
    pub(super) fn exit_code(&self) -> i32 {
        let goes = self.steps.keys().any(|step| step.starts_with("delete"));
        match self.machines {
            _ if goes => 5,
            [replaced, removed, ..] if replaced != Some(0) || removed != Some(0) => 4,
            _ if !self.steps.is_empty() => 3,
            _ => 0,
        }
    }
}

/// All objects that topologies made, and the Clusters, by namespace, kind and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State(BTreeMap<(String, String, String), Value>);

impl State {
    pub(super) async fn read(client: &kube::Client) -> Self {
        let mut all = BTreeMap::new();
        for (api_version, kind) in MADE.into_iter().chain([(CORE, "MachineHealthCheck"), (CORE, "Cluster")]) {
            let list = api(client, "", api_version, kind).list(&ListParams::default()).await.unwrap();
            for item in list.items {
                let mut object = serde_json::to_value(item).unwrap();
                (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
                // Templates of the class are no part of a topology.
                if kind == "Cluster" || object["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_string() {
                    let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
                    all.insert((namespace, kind.to_owned(), name), object);
                }
            }
        }
        State(all)
    }

    /// The namespaces whose topology is not reconciled as it is now.
    pub(super) fn unreconciled(&self) -> Vec<&str> {
        let clusters = self.0.iter().filter(|((_, kind, _), _)| kind == "Cluster");
        let waits = clusters.filter(|(_, cluster)| {
            let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
            !conditions.any(|condition| {
                condition["type"] == "TopologyReconciled"
                    && condition["status"] == "True"
                    && condition["observedGeneration"] == cluster["metadata"]["generation"]
            })
        });
        waits.map(|((namespace, ..), _)| &**namespace).collect()
    }

    /// What `kubectl get` prints of everything.
    pub(super) fn exported(&self, shows_owners: bool) -> impl Iterator<Item = Value> + '_ {
        self.0.values().map(move |object| {
            let mut object = object.clone();
            if !shows_owners {
                object["metadata"].as_object_mut().unwrap().remove("managedFields");
            }
            object
        })
    }

    /// The objects of the topology of a namespace. Templates that were replaced, and what a pool left behind, are none
    /// any more.
    pub(super) fn topology_of(&self, namespace: &str) -> Vec<&Value> {
        let all = self.made_in(namespace);
        let is_part = |kind: &str| is_template(kind) || ["EmbeddedMachinePool", "EmbeddedConfig"].contains(&kind);
        let is_in_use =
            |((kind, _), object): &(&(String, String), &Value)| !is_part(kind) || owner(object, &all).is_some();
        let in_use: BTreeSet<&(String, String)> = all.iter().filter(is_in_use).map(|(id, _)| id).collect();
        let of = self
            .0
            .iter()
            .filter(|((of, kind, name), _)| of == namespace && in_use.contains(&(kind.clone(), name.clone())));
        of.map(|(_, object)| object).collect()
    }

    /// Everything that the topology of a namespace made, by kind and name.
    fn made_in(&self, namespace: &str) -> Objects {
        let all = self.0.iter().filter(|((of, kind, _), _)| of == namespace && kind != "Cluster");
        all.map(|((_, kind, name), object)| ((kind.clone(), name.clone()), object.clone())).collect()
    }

    /// What happened since, by namespace. Where changes were seen one after the other, a template may have been
    /// replaced by one that was replaced as well.
    pub(super) fn since(&self, before: &State, one_by_one: bool) -> BTreeMap<String, Effects> {
        let namespaces: BTreeSet<&String> = self.0.keys().map(|(namespace, ..)| namespace).collect();
        let effects = |namespace: &String| {
            let (old, new) = (before.made_in(namespace), self.made_in(namespace));
            Effects { steps: steps(&old, &new, one_by_one), machines: [None; 4] }
        };
        namespaces.into_iter().map(|namespace| (namespace.clone(), effects(namespace))).collect()
    }
}

type Objects = BTreeMap<(String, String), Value>;

fn is_template(kind: &str) -> bool {
    kind.ends_with("Template")
}

fn steps(old: &Objects, new: &Objects, one_by_one: bool) -> BTreeMap<String, BTreeSet<String>> {
    let mut steps: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id @ (kind, name), object) in new {
        let (action, changes) = match old.get(id) {
            Some(before) => match differences(before, object) {
                none if none.is_empty() && owned(before) == owned(object) => continue,
                changes => ("apply", changes),
            },
            None => match is_template(kind).then(|| replaced_by(object, old, new)).flatten() {
                Some(before) => ("rotate", differences(before, object)),
                None if one_by_one && is_template(kind) && owner(object, new).is_none() => continue,
                None => ("create", BTreeSet::new()),
            },
        };
        steps.entry(format!("{action} {kind} {}", stem(name))).or_default().extend(changes);
    }
    // Templates that were replaced go when nothing uses them any more, which no plan lists.
    let gone = old.keys().filter(|id| !new.contains_key(*id) && !is_template(&id.0));
    for (kind, name) in gone {
        steps.entry(format!("delete {kind} {}", stem(name))).or_default();
    }
    steps
}

/// The fields that a topology owns. The version in which the record names them is none of what a plan lists
/// (docs/plan.md, "plan").
fn owned(object: &Value) -> Option<&Value> {
    let mut entries = object["metadata"]["managedFields"].as_array()?.iter();
    let own = entries.find(|entry| entry["manager"] == "capi-topology" && entry["operation"] == "Apply");
    own.map(|entry| &entry["fieldsV1"])
}

/// The template that the owner of a new one referred to before.
fn replaced_by<'a>(template: &Value, old: &'a Objects, new: &Objects) -> Option<&'a Value> {
    let kind = text(template, "/kind");
    let owner = old.get(owner(template, new)?)?;
    old.iter().find(|((of, name), _)| *of == kind && refers(owner, &kind, name)).map(|(_, template)| template)
}

/// What refers to a template.
fn owner<'a>(template: &Value, all: &'a Objects) -> Option<&'a (String, String)> {
    let (kind, name) = (text(template, "/kind"), text(template, "/metadata/name"));
    all.iter().find(|(_, object)| refers(object, &kind, &name)).map(|(id, _)| id)
}

fn refers(object: &Value, kind: &str, name: &str) -> bool {
    object["spec"].to_string().contains(&format!("\"kind\":\"{kind}\",\"name\":\"{name}\""))
}

/// Where two states of an object differ, as far as a topology decides it.
fn differences(before: &Value, after: &Value) -> BTreeSet<String> {
    let part = |object: &Value| {
        let metadata = &object["metadata"];
        json!({"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]},
            "spec": object["spec"]})
    };
    let mut found = BTreeSet::new();
    leaves("", &part(before), &part(after), &mut found);
    found.retain(|path| !path.contains("cluster.x-k8s.io/cloned-from"));
    found
}

/// The paths of leaves that differ, as far as the first list or label on the way.
fn leaves(path: &str, from: &Value, to: &Value, found: &mut BTreeSet<String>) {
    let is_map = |value: &Value| value.is_object() || value.is_null();
    let is_end = path.ends_with("labels") || path.ends_with("annotations");
    if from == to || is_nothing(from) && is_nothing(to) {
    } else if is_end || !(is_map(from) && is_map(to)) {
        found.insert(path.to_owned());
    } else {
        let names = |value: &Value| value.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>());
        let all: BTreeSet<String> = [from, to].into_iter().filter_map(names).flatten().collect();
        for name in all {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            leaves(&below, &from[&name], &to[&name], found);
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().all(is_nothing),
        _ => false,
    }
}

/// What a plan says of each namespace.
pub(super) fn foreseen(plan: &Value) -> BTreeMap<String, Effects> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let effects = |cluster: &Value| {
        assert_eq!(cluster["errors"], json!([]), "{cluster:#}");
        // One object may be written more than once on the way: what counts is the first value and the last.
        let mut values: BTreeMap<String, BTreeMap<String, (Value, Value)>> = BTreeMap::new();
        for step in list(&cluster["steps"]).iter().filter(|step| step["kind"] != "Cluster") {
            let key = format!("{} {} {}", text(step, "/action"), text(step, "/kind"), stem(&text(step, "/name")));
            let fields = values.entry(key).or_default();
            for change in list(&step["changes"]) {
                let value = fields.entry(text(&change, "/path")).or_insert((change["from"].clone(), Value::Null));
                value.1 = change["to"].clone();
            }
        }
        let steps = values.into_iter().map(|(key, fields)| {
            let mut found = BTreeSet::new();
            for (path, (from, to)) in fields {
                match path.split_once('[') {
                    Some((list, _)) if from != to => drop(found.insert(cut(list))),
                    _ => leaves(&cut(&path), &from, &to, &mut found),
                }
            }
            (key, found)
        });
        let mut sums = [Some(0); 4];
        for roll in list(&cluster["rolls"]) {
            let names = ["replaced", "removed", "added", "outdatedUntilDeleted"];
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum = sum.zip(roll["machines"][name].as_i64()).map(|(sum, number)| sum + number);
            }
        }
        Effects { steps: steps.collect(), machines: sums }
    };
    list(&plan["clusters"]).iter().map(|cluster| (text(cluster, "/namespace"), effects(cluster))).collect()
}

/// A path as far as the first list, label or annotation.
fn cut(path: &str) -> String {
    for end in ["labels", "annotations"] {
        if let Some(at) = path.find(&format!(".{end}.")) {
            return path[..=at + end.len()].to_owned();
        }
    }
    path.to_owned()
}

/// A name with `*` for the end that the API server or the controller has drawn.
pub(super) fn stem(name: &str) -> String {
    static END: LazyLock<Regex> = LazyLock::new(|| Regex::new("-[bcdfghjklmnpqrstvwxz2456789]{5}$").unwrap());
    END.replace(name, "-*").into_owned()
}
