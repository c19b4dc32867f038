//! Problems of a topology, each with the field that causes it.

use super::class_references::located_references;
use super::explanations::explain;
use super::origin::{Origin, PatchOrigin};
use super::patches::{IneffectiveChange, ItemName, NotAsked, PatchError, PatchLocation, Undefined};
use super::refusals::RefusedField;
use super::{Computation, Failure};
use model::hub::contract::is_template_kind;
use model::hub::{ClusterClass, ObjectKey, TemplateRef, paths};
use model::world::{Facts, Found};
use schema::field::{RuleId, enumerated};

/// A problem with the object and the field that cause it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyProblem {
    pub rule: RuleId,
    pub object: ProblemObject,
    /// The path of the field in v1beta2; empty for the object as a whole.
    pub path: String,
    pub message: String,
    /// The variables whose values a patch has written.
    pub variables: Vec<String>,
}

/// The object that a problem is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemObject {
    Class(ObjectKey),
    Cluster(ObjectKey),
    /// A template of a class, by kind, namespace and name.
    Template {
        kind: String,
        key: ObjectKey,
    },
}

/// The rule about topologies that cannot be computed.
const TOPOLOGIES: RuleId = "DEC-68";

/// The rule about fields of objects that an API server would refuse.
const REFUSALS: RuleId = "DEC-32";

/// Maximum number of templates that a problem names; the rest is counted.
const NAMED: usize = 3;

impl TopologyProblem {
    /// The reasons for which the topology of a Cluster cannot be computed.
    pub fn from_failure(failure: &Failure, cluster: &ObjectKey, facts: &Facts) -> Vec<Self> {
        let at_class = |rule, class: &ClusterClass, path: String| TopologyProblem {
            rule,
            object: ProblemObject::Class(class.metadata.key()),
            path,
            message: failure.to_string(),
            variables: Vec::new(),
        };
        let class = match facts.cluster(cluster) {
            Found::Yes(cluster) => cluster.class_key().map(|class| facts.class(&class)),
            _ => None,
        };
        let Some(Found::Yes(class)) = class else { return vec![TopologyProblem::of_failed(failure, cluster, facts)] };
        match failure {
            Failure::Patches(errors) => from_patches(errors),
            Failure::Naming { path, .. } => vec![at_class("NAM-01", &class, path.clone())],
            Failure::NotFound { object, .. } => {
                let is_it = |(_, reference): &(String, &TemplateRef)| {
                    reference_key(reference) == (&object.kind, &object.key.name)
                };
                let referred = located_references(&class.spec).into_iter().find(is_it);
                let at_topology = || TopologyProblem::of_failed(failure, cluster, facts);
                vec![referred.map_or_else(at_topology, |(path, _)| at_class("BP-07", &class, path))]
            }
            _ => vec![TopologyProblem::of_failed(failure, cluster, facts)],
        }
    }

    fn of_failed(failure: &Failure, cluster: &ObjectKey, facts: &Facts) -> Self {
        let path = match failure {
            Failure::NoClass(_) => paths::cluster::TOPOLOGY_CLASS_NAME,
            _ => paths::cluster::TOPOLOGY,
        };
        let message = format!("the topology cannot be computed: {}", explain(failure, facts));
        TopologyProblem { path: path.to_owned(), ..TopologyProblem::of_topology(cluster, message) }
    }

    /// Extensions whose patches are missing, because they could not be called.
    pub fn from_unanswered(computation: &Computation) -> Vec<Self> {
        let class = computation.observed.blueprint.class.metadata.key();
        let problem = |call: &NotAsked| TopologyProblem {
            rule: "PE-23",
            object: ProblemObject::Class(class.clone()),
            path: format!("{}[{}].external", paths::cluster_class::PATCHES, call.patch),
            message: format!("not complete: {call}"),
            variables: Vec::new(),
        };
        computation.trace.not_asked.iter().map(problem).collect()
    }

    /// A problem of the topology of a Cluster.
    pub fn of_topology(cluster: &ObjectKey, message: impl Into<String>) -> Self {
        TopologyProblem {
            rule: TOPOLOGIES,
            object: ProblemObject::Cluster(cluster.clone()),
            path: paths::cluster::TOPOLOGY.to_owned(),
            message: message.into(),
            variables: Vec::new(),
        }
    }

    /// A problem of a class.
    pub fn of_class(class: &ObjectKey, message: impl Into<String>) -> Self {
        TopologyProblem {
            rule: TOPOLOGIES,
            object: ProblemObject::Class(class.clone()),
            path: String::new(),
            message: message.into(),
            variables: Vec::new(),
        }
    }

    /// Templates of patches whose output has `<no value>` in it (DEC-68).
    pub fn from_undefined(computation: &Computation) -> Vec<Self> {
        let class = computation.observed.blueprint.class.metadata.key();
        let problem = |undefined: &Undefined| {
            let Undefined { patch, operation, item } = undefined;
            let (field, rendered) = match operation {
                Some(position) => (format!("{position}.valueFrom.template"), "the template renders"),
                None => ("enabledIf".to_owned(), "the condition renders"),
            };
            TopologyProblem {
                rule: TOPOLOGIES,
                object: ProblemObject::Class(class.clone()),
                path: format!("{}[{patch}].{field}", paths::cluster_class::PATCHES),
                message: format!("{rendered} \"<no value>\" for {item}: a variable that it refers to is not set"),
                variables: Vec::new(),
            }
        };
        computation.trace.undefined.iter().map(problem).collect()
    }

    /// Changes by patches that have no effect (PE-21).
    pub fn from_ineffective(computation: &Computation) -> Vec<Self> {
        let class = computation.observed.blueprint.class.metadata.key();
        let problem = |change: &IneffectiveChange| TopologyProblem {
            rule: "PE-21",
            object: ProblemObject::Class(class.clone()),
            path: format!("{}[{}]", paths::cluster_class::PATCHES, change.patch),
            message: change.to_string(),
            variables: Vec::new(),
        };
        computation.trace.ineffective.iter().map(problem).collect()
    }

    /// A field of a template that an API server would refuse or drop.
    pub fn of_template(refusal: &RefusedField) -> Self {
        let key = ObjectKey::new(&refusal.class.namespace, &refusal.name);
        TopologyProblem {
            rule: REFUSALS,
            object: ProblemObject::Template { kind: refusal.kind.clone(), key },
            path: refusal.field.clone(),
            message: refusal.detail.clone(),
            variables: Vec::new(),
        }
    }

    /// A field of an object that an API server would refuse, at the patch or in the template that it comes from.
    pub fn from_refusal(refusal: &RefusedField, cluster: &ObjectKey) -> Self {
        let class = &refusal.class;
        let (object, path) = match &refusal.because {
            Some(Origin::Patch(PatchOrigin { patch, definition, operation, .. })) => {
                let mut path = format!("{}[{patch}]", paths::cluster_class::PATCHES);
                if let Some(definition) = definition {
                    path.push_str(&format!(".definitions[{definition}].jsonPatches[{operation}]"));
                }
                (ProblemObject::Class(class.clone()), path)
            }
            Some(Origin::Template { kind, name }) => {
                let field = refusal.field.strip_prefix("spec").unwrap_or_default();
                // The template of a machine deployment is copied as it is; other objects are made from its inner part.
                let path = match is_template_kind(&refusal.kind) {
                    true => refusal.field.clone(),
                    false => format!("{}{field}", paths::TEMPLATE_SPEC),
                };
                let key = ObjectKey::new(&class.namespace, &**name);
                (ProblemObject::Template { kind: kind.to_string(), key }, path)
            }
            Some(Origin::Class(path)) => (ProblemObject::Class(class.clone()), path.to_string()),
            Some(Origin::Cluster(path)) => (ProblemObject::Cluster(cluster.clone()), path.to_string()),
            Some(Origin::Topology) | None => {
                (ProblemObject::Cluster(cluster.clone()), paths::cluster::TOPOLOGY.to_owned())
            }
        };
        let message = match object {
            // The path of the template says the rest.
            ProblemObject::Template { .. } => refusal.detail.clone(),
            ProblemObject::Class(_) | ProblemObject::Cluster(_) => refusal.problem(),
        };
        let variables = match &refusal.because {
            Some(Origin::Patch(PatchOrigin { variables, .. })) => variables.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        TopologyProblem { rule: REFUSALS, object, path, message, variables }
    }
}

/// The errors of patches; an error of several templates is one problem.
fn from_patches(errors: &[PatchError]) -> Vec<TopologyProblem> {
    let mut groups: Vec<(&PatchError, Vec<&ItemName>)> = Vec::new();
    for error in errors {
        let is_same = |(known, _): &&mut (&PatchError, Vec<&ItemName>)| {
            (&known.class, known.position, &known.place, &known.problem)
                == (&error.class, error.position, &error.place, &error.problem)
        };
        let item = error.item.as_deref();
        match groups.iter_mut().find(is_same) {
            Some((_, items)) => items.extend(item),
            None => groups.push((error, item.into_iter().collect())),
        }
    }
    groups.into_iter().map(|(error, items)| from_patch(error, &items)).collect()
}

fn from_patch(error: &PatchError, items: &[&ItemName]) -> TopologyProblem {
    let rule = match &error.place {
        PatchLocation::Patch => "PE-11",
        PatchLocation::EnabledIf => "PE-16",
        PatchLocation::Operation { .. } => "PE-17",
        PatchLocation::Extension { .. } => "PE-23",
        PatchLocation::Answer { .. } => "PE-20",
    };
    let names = enumerated(items.iter().take(NAMED).map(ToString::to_string));
    let to = match items.len() {
        0 => String::new(),
        count if count > NAMED => format!(" to {names} and {} more", count - NAMED),
        _ => format!(" to {names}"),
    };
    TopologyProblem {
        rule,
        object: ProblemObject::Class(error.class.clone()),
        path: error.field_path().to_string(),
        message: format!("patch {:?} cannot be applied{to}: {}", error.patch, error.cause()),
        variables: Vec::new(),
    }
}

fn reference_key(reference: &TemplateRef) -> (&String, &String) {
    (&reference.kind, &reference.name)
}
