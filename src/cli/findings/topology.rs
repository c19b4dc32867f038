//! Problems of topologies as findings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, RELATED, RelatedObject, SourceTexts};
use crate::cli::files::FileInput;
use engine::file_review::LoadedObject;
use engine::topology::problems::{ProblemObject, TopologyProblem};
use model::hub::{Kind, ObjectKey, paths};
use model::wire::WireVersion;
use schema::field::{FieldPart, Level, RuleId};

/// The rule about templates of a class that do not exist.
const MISSING_TEMPLATE: RuleId = "BP-07";

/// Each problem once, with the objects that have it.
pub(in crate::cli) fn topology_findings<'a>(
    problems: impl IntoIterator<Item = (Level, &'a TopologyProblem, &'a LoadedObject)>,
    inputs: [&FileInput; 4],
    texts: &SourceTexts<'_>,
) -> Vec<Finding> {
    // Of several objects of a name, the last one of the new files counts, then one of the world.
    let [new, old, world, crds] = inputs;
    let mut objects: BTreeMap<(&str, &ObjectKey), &LoadedObject> = BTreeMap::new();
    for loaded in [crds, old, world, new].into_iter().flat_map(|input| &input.objects) {
        let manifest = &loaded.manifest;
        // The kinds of templates end in a word of their group.
        if manifest.admitted_kind().is_some() || Kind::from_name(&manifest.kind).is_none() {
            objects.insert((&manifest.kind, &manifest.key), loaded);
        }
    }
    let mut groups: Vec<((Level, &TopologyProblem), Vec<&LoadedObject>)> = Vec::new();
    let mut known = BTreeMap::new();
    for (level, problem, owner) in problems {
        let position = *known.entry((level, problem)).or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, owners)) => owners.push(owner),
            None => groups.push(((level, problem), vec![owner])),
        }
    }
    let finding = |((level, problem), owners): ((Level, &TopologyProblem), Vec<&LoadedObject>)| {
        let object = match &problem.object {
            ProblemObject::Class(key) => (Kind::ClusterClass.name(), key),
            ProblemObject::Cluster(key) => (Kind::Cluster.name(), key),
            ProblemObject::Template { kind, key } => (&**kind, key),
        };
        let mut finding = Finding::new(level, problem.rule, &*problem.message);
        if problem.rule == MISSING_TEMPLATE {
            finding.fix = Some("add the template to the files, or correct the reference".to_owned());
        }
        let Some(loaded) = objects.get(&object).or(owners.first()).copied() else { return finding };
        let others = || owners.iter().filter(|owner| !std::ptr::eq(**owner, loaded));
        let mut related: Vec<RelatedObject> = others().take(RELATED).map(|owner| texts.related(owner)).collect();
        let class = owners.iter().chain([&loaded]).find(|owner| is_of(owner, Kind::ClusterClass)).copied();
        let cluster = owners.iter().find(|owner| is_of(owner, Kind::Cluster)).copied();
        let variables = problem.variables.iter().take(RELATED);
        related.extend(variables.filter_map(|name| {
            let set = cluster.and_then(|cluster| Some((cluster, variable(cluster, name)?)));
            let (loaded, path) = set.or_else(|| class.and_then(|class| Some((class, variable(class, name)?))))?;
            Some(texts.related_field(loaded, &path))
        }));
        let path = match loaded.manifest.version() {
            Some(WireVersion::V1Beta2) | None => problem.path.clone(),
            Some(_) => first_version(&problem.path),
        };
        let related_count = Some(others().count()).filter(|count| *count > 0);
        Finding { related, related_count, ..texts.finding((loaded, &path, FieldPart::Value), finding) }
    };
    groups.into_iter().map(finding).collect()
}

fn is_of(loaded: &LoadedObject, kind: Kind) -> bool {
    loaded.manifest.admitted_kind() == Some(kind)
}

/// The path of a variable that a Cluster sets, or that a class defines.
fn variable(loaded: &LoadedObject, name: &str) -> Option<String> {
    let list = match is_of(loaded, Kind::Cluster) {
        true => paths::cluster::TOPOLOGY_VARIABLES,
        false => paths::cluster_class::VARIABLES,
    };
    let variables = loaded.manifest.locate(list).filter(|found| found.is_exact)?;
    let is_it = |variable: &Value| variable.get("name").and_then(Value::as_str) == Some(name);
    let position = variables.value.value().as_array()?.iter().position(is_it)?;
    Some(format!("{list}[{position}]"))
}

/// The path of v1beta1 for a path of v1beta2 that problems have.
fn first_version(path: &str) -> String {
    match path {
        paths::cluster::TOPOLOGY_CLASS_NAME => return "spec.topology.class".to_owned(),
        "spec.infrastructure.naming.template" => return "spec.infrastructureNamingStrategy.template".to_owned(),
        _ => {}
    }
    let Some(reference) = path.strip_suffix(".templateRef") else {
        return path
            .strip_suffix(".naming.template")
            .map_or(path.to_owned(), |it| format!("{it}.namingStrategy.template"));
    };
    // Workers have their templates below `template`.
    match reference.rsplit_once("].") {
        Some((entry, holder)) => format!("{entry}].template.{holder}.ref"),
        None => format!("{reference}.ref"),
    }
}
