//! Clusters that differ in nothing but their names: one of them is planned, and the others are counted with it.
//!
//! That is done only where it is certain that a plan of each would say the same once names are left out:
//!
//! * both sides ask for the same, and nothing has been made yet: the Cluster has no references, no object has its label, and no
//!   object has a name that begins like those that its topology makes;
//! * its classes do not look at names. Patches read builtin variables of a known list, which has no name; they may write the name of the
//!   Cluster into a value as it is. There are no naming templates and no Runtime Extensions;
//! * its name is short, so that no name that is made of it is cut, and is read as a text in every position of YAML;
//! * the name is in nothing that the plan says, apart from where it is recognized as the name.
//!
//! Where Clusters are listed one by one, each is planned.

use std::collections::{BTreeSet, HashMap};

use crate::gotemplate::{Functions, Template};
use crate::hub::label::CLUSTER_NAME;
use crate::hub::{ClassUpgrade, Cluster, ClusterClass, ClusterClassSpec, Naming, ObjectKey, Patch};
use crate::topology::plan::Fold;
use crate::world::{Facts, Found, Objects};

/// The longest name of a Cluster and of a worker set together: those of templates have 58 characters before their end.
const LONGEST: usize = 48;
/// The builtin variable that patches may write as it is.
const NAME: &str = "builtin.cluster.name";
/// Builtin variables without names, and all below them.
const NAMELESS: [&[&str]; 14] = [
    &["builtin", "cluster", "namespace"],
    &["builtin", "cluster", "topology"],
    &["builtin", "cluster", "classNamespace"],
    &["builtin", "cluster", "network"],
    &["builtin", "controlPlane", "version"],
    &["builtin", "controlPlane", "replicas"],
    &["builtin", "machineDeployment", "version"],
    &["builtin", "machineDeployment", "class"],
    &["builtin", "machineDeployment", "topologyName"],
    &["builtin", "machineDeployment", "replicas"],
    &["builtin", "machinePool", "version"],
    &["builtin", "machinePool", "class"],
    &["builtin", "machinePool", "topologyName"],
    &["builtin", "machinePool", "replicas"],
];
/// Words that YAML does not read as texts.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "inf", "nan", "y"];
/// Letters that numbers and times in YAML may have.
const OF_NUMBERS: &str = "abcdefotxz";

/// A Cluster to plan, and the others for which the plan holds as well.
#[derive(Debug)]
pub(super) struct Twins {
    pub first: ObjectKey,
    pub others: Vec<ObjectKey>,
}

/// What plans of a Cluster follow from, apart from its name.
type Input = [Is; 2];

/// What there is of a Cluster on one side.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Is {
    /// Without its name.
    There(Box<Cluster>),
    Absent,
}

/// All Clusters, those with the same input together, in the order of the first of each.
pub(super) fn of(clusters: Vec<ObjectKey>, before: &Fold, after: &Fold) -> Vec<Twins> {
    let sides = [before, after].map(|fold| Side::of(fold.facts()));
    let mut all: Vec<Twins> = Vec::new();
    let mut known: HashMap<Input, usize> = HashMap::new();
    for cluster in clusters {
        let input = input(&cluster, &sides);
        let same = input.as_ref().and_then(|input| known.get(input)).and_then(|at| all.get_mut(*at));
        if let Some(twins) = same {
            twins.others.push(cluster);
            continue;
        }
        known.extend(input.map(|input| (input, all.len())));
        all.push(Twins { first: cluster, others: Vec::new() });
    }
    all
}

/// Every Cluster by itself.
pub(super) fn apart(clusters: Vec<ObjectKey>) -> Vec<Twins> {
    clusters.into_iter().map(|first| Twins { first, others: Vec::new() }).collect()
}

/// What a plan of a Cluster follows from; `None` where it may follow from the name or from objects.
fn input(key: &ObjectKey, sides: &[Side<'_>; 2]) -> Option<Input> {
    if !is_read_as_text(&key.name) {
        return None;
    }
    let [before, after] = sides;
    Some([before.input(key)?, after.input(key)?])
}

/// The facts of a side, and what every Cluster needs of them.
struct Side<'a> {
    facts: &'a Facts,
    /// Classes that do not look at names.
    classes: BTreeSet<&'a ObjectKey>,
    /// Namespace and name of all objects.
    names: BTreeSet<(&'a str, &'a str)>,
    /// Namespaces and names of Clusters that objects have the label of.
    labelled: BTreeSet<(&'a str, &'a str)>,
    has_nodes: bool,
}

impl<'a> Side<'a> {
    fn of(facts: &'a Facts) -> Self {
        let is_nameless = |key: &&ObjectKey| matches!(facts.class(key), Found::Yes(class) if has_no_names(&class));
        let objects = || facts.objects().into_iter().flat_map(Objects::iter);
        let labelled = objects().filter_map(|object| Some((object.namespace(), object.label(CLUSTER_NAME)?)));
        Side {
            facts,
            classes: facts.class_keys().filter(is_nameless).collect(),
            names: objects().map(|object| (object.namespace(), object.name())).collect(),
            labelled: labelled.collect(),
            has_nodes: objects().any(|object| object.kind() == "Node"),
        }
    }

    /// The Cluster without its name, if it is there; `None` where its plan may follow from the name or from objects.
    fn input(&self, key: &ObjectKey) -> Option<Is> {
        if self.has_objects(key) {
            return None;
        }
        let cluster = match self.facts.cluster(key) {
            Found::Yes(cluster) => cluster,
            Found::Absent => return Some(Is::Absent),
            Found::Unreadable(_) | Found::NotAsked => return None,
        };
        let is_new = !cluster.spec.infrastructure_ref.is_defined() && !cluster.spec.control_plane_ref.is_defined();
        let workers = &cluster.spec.topology.workers;
        let deployments = workers.machine_deployments.iter().map(|set| set.name.len());
        let longest = deployments.chain(workers.machine_pools.iter().map(|set| set.name.len())).max();
        let is_short = key.name.len() + longest.unwrap_or_default() <= LONGEST;
        let has_class = self.classes.contains(&cluster.class_key()?);
        (is_new && is_short && has_class).then(|| Is::There(Box::new(nameless(&cluster))))
    }

    /// Whether objects of the Cluster are there, or others with names that its own may get.
    fn has_objects(&self, ObjectKey { namespace, name }: &ObjectKey) -> bool {
        let begins = format!("{name}-");
        let mut near = self.names.range((&**namespace, &*begins)..);
        let is_near = near.next().is_some_and(|(other, object)| other == namespace && object.starts_with(&begins));
        let key = (&**namespace, &**name);
        is_near || self.has_nodes || self.labelled.contains(&key) || self.names.contains(&key)
    }
}

fn nameless(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    cluster.metadata.name.clear();
    cluster.metadata.uid.clear();
    cluster
}

/// Whether YAML reads a value as a text if this name is in it.
fn is_read_as_text(name: &str) -> bool {
    let has_letter = name.chars().any(|c| c.is_ascii_lowercase() && !OF_NUMBERS.contains(c));
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_plain && has_letter && !WORDS.iter().any(|word| word.contains(name))
}

/// Whether nothing in a class depends on names of Clusters and of their objects.
fn has_no_names(class: &ClusterClass) -> bool {
    let ClusterClassSpec { infrastructure, control_plane, workers, upgrade, patches, .. } = &class.spec;
    let is_named = |naming: &Naming| *naming != Naming::default();
    let workers_are_named = workers.machine_deployments.iter().any(|one| is_named(&one.naming))
        || workers.machine_pools.iter().any(|one| is_named(&one.naming));
    !is_named(&infrastructure.naming)
        && !is_named(&control_plane.naming)
        && !workers_are_named
        && *upgrade == ClassUpgrade::default()
        && patches.iter().all(writes_no_names)
}

/// Whether a patch does not look at names, and writes that of the Cluster as it is, if at all.
fn writes_no_names(patch: &Patch) -> bool {
    let mut values =
        patch.definitions.iter().flat_map(|one| &*one.json_patches).filter_map(|one| one.value_from.as_ref());
    patch.external.is_none()
        && reads_no_names(&patch.enabled_if)
        && values.all(|from| {
            let variable = &*from.variable;
            let is_nameless = variable == NAME || is_nameless(&variable.split(['.', '[']).collect::<Vec<_>>());
            is_nameless && without_name(&from.template).is_some_and(|rest| reads_no_names(&rest))
        })
}

/// A template without the places that write the name of the Cluster as it is; `None` where one may be the key of a map.
fn without_name(template: &str) -> Option<String> {
    // What a template of its own writes may become a key elsewhere.
    if ["define", "block"].iter().any(|word| template.contains(word)) {
        return None;
    }
    let mut rest = String::new();
    for (i, line) in template.split('\n').enumerate() {
        rest.push_str(if i > 0 { "\n" } else { "" });
        let mut line = line.to_owned();
        while let Some((start, end)) = place_of_name(&line) {
            if line.get(end..)?.contains(':') || line.trim_start().starts_with('?') {
                return None;
            }
            line.replace_range(start..end, "name");
        }
        rest.push_str(&line);
    }
    Some(rest)
}

/// Where `{{ .builtin.cluster.name }}` begins and ends.
fn place_of_name(line: &str) -> Option<(usize, usize)> {
    let path = format!(".{NAME}");
    line.match_indices("{{").find_map(|(start, _)| {
        let (inside, _) = line[start + 2..].split_once("}}")?;
        (inside.trim() == path).then_some((start, start + 2 + inside.len() + 2))
    })
}

/// Whether a template reads no name; one that does not tell what it reads may.
fn reads_no_names(template: &str) -> bool {
    if template.is_empty() {
        return true;
    }
    let parsed = Template::parse("names", template, Functions::Sprig);
    let fields = parsed.ok().and_then(|template| template.all_fields());
    fields.is_some_and(|fields| {
        fields.iter().all(|path| is_nameless(&path.iter().map(String::as_str).collect::<Vec<_>>()))
    })
}

/// Whether a variable is one that users set, or a builtin one without a name in it.
fn is_nameless(path: &[&str]) -> bool {
    path.first().is_some_and(|first| *first != "builtin") || NAMELESS.iter().any(|known| path.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_computed_once_if_templates_only_print_the_name() {
        for (template, is_nameless) in [
            ("", true),
            ("plain", true),
            ("{{ .size }}", true),
            ("{{ .builtin.controlPlane.version }}", true),
            ("{{ .builtin.cluster.topology.version }}", true),
            ("name={{ .builtin.cluster.name }}", true),
            ("a: {{ .builtin.cluster.name }}-x\nb: {{.builtin.cluster.name}}/{{ .builtin.cluster.name }}", true),
            ("tag/{{ .builtin.cluster.name }}: owned", false),
            ("{{ .builtin.cluster.name | upper }}", false),
            ("{{ if eq .builtin.cluster.name \"a\" }}b{{ end }}", false),
            ("{{- .builtin.cluster.name -}}", false),
            ("{{ .builtin.cluster.uid }}", false),
            ("{{ .builtin.machineDeployment.infrastructureRef.name }}", false),
            ("{{ .builtin.controlPlane.metadata.labels }}", false),
            ("{{ .builtin.cluster | toJson }}", false),
            ("{{ .builtin }}", false),
            ("{{ . }}", false),
            ("{{ range $name, $value := . }}{{ $value }}{{ end }}", false),
            ("{{ with .builtin.cluster }}{{ .name }}{{ end }}", false),
            ("{{ index . \"builtin\" \"cluster\" \"name\" }}", false),
            ("{{ $b := .builtin }}{{ $b.cluster.name }}", false),
            ("{{ define \"n\" }}{{ .builtin.cluster.name }}{{ end }}{{ template \"n\" . }}: owned", false),
            ("? {{ .builtin.cluster.name }}", false),
            ("{{ wrong", false),
        ] {
            let rest = without_name(template).filter(|rest| reads_no_names(rest));
            assert_eq!(rest.is_some(), is_nameless, "{template:?}");
        }
        for (variable, want) in
            [("size", true), ("builtin.cluster.uid", false), ("builtin", false), ("builtin.cluster", false)]
        {
            assert_eq!(is_nameless(&variable.split('.').collect::<Vec<_>>()), want, "{variable}");
        }
    }

    #[test]
    fn some_names_are_no_texts_to_yaml() {
        for (name, is_text) in [
            ("cluster-1", true),
            ("blue", true),
            ("prod", true),
            ("on", false),
            ("al", false),
            ("1e5", false),
            ("0x12", false),
            ("dead-beef", false),
            ("12", false),
            ("a.b", false),
        ] {
            assert_eq!(is_read_as_text(name), is_text, "{name}");
        }
    }
}
