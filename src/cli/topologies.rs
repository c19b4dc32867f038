//! Topologies of Clusters in files, computed and checked against the schemas of CustomResourceDefinitions (DEC-68).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use serde_json::Value;

use super::offline::CommandInput;
use super::output;
use super::rollout;
use engine::admission::AdmissionSettings;
use engine::sample_clusters::{self, Draft, DraftError};
use engine::topology::class_references::{created_kinds, references};
use engine::topology::inspection::InspectedObjects;
use engine::topology::origin::{Origin, PatchOrigin};
use engine::topology::plan::TopologySimulator;
use engine::topology::problems::{ProblemObject, TopologyProblem};
use engine::topology::refusals::{Checks, RefusedField, UncheckedKind};
use engine::topology::{Computation, Failure};
use golang::json;
use model::hub::contract::definition_name;
use model::hub::{Cluster, Kind, Object, ObjectKey, ObjectRef, TemplateRef, group_of, paths, version_of};
use model::variables::{self, AlternativeValue, SampleExtent};
use model::world::{Class, Facts, Found, Record, World};
use schema::field::{ErrorKind, Level, RuleId, a_few};

/// Prints once which kinds of objects were not checked, and how to get their definitions.
pub(super) fn note<'a>(unchecked: impl IntoIterator<Item = &'a UncheckedKind>) -> Result<()> {
    let unchecked: BTreeSet<&UncheckedKind> = unchecked.into_iter().collect();
    if unchecked.is_empty() {
        return Ok(());
    }
    let kinds: BTreeSet<&str> = unchecked.iter().map(|unchecked| &*unchecked.kind).collect();
    let kinds = Vec::from_iter(kinds).join(", ");
    let command = command_for_definitions(unchecked).map(|command| format!("; from a cluster: {command}"));
    let command = command.unwrap_or_default();
    output::message(format_args!(
        "not checked against CustomResourceDefinitions (give them with --crds FILE): {kinds}{command}"
    ))?;
    Ok(())
}

/// The command that writes the definitions of kinds in a cluster to a file.
pub(super) fn command_for_definitions<'a>(kinds: impl IntoIterator<Item = &'a UncheckedKind>) -> Option<String> {
    let definitions: Vec<String> = kinds.into_iter().map(UncheckedKind::definition).collect();
    // The names are from files, and the line is for a shell.
    let is_plain = |name: &String| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    let is_safe = definitions.iter().all(is_plain);
    is_safe.then(|| format!("kubectl get crds {} -o yaml >FILE", definitions.join(" ")))
}

/// The topologies of Clusters in files, and of sample Clusters.
#[derive(Debug)]
pub(super) struct Inspector<'a> {
    fold: TopologySimulator,
    facts: &'a Arc<Facts>,
    settings: &'a AdmissionSettings,
    /// The problems of the templates of classes.
    of_templates: Mutex<BTreeMap<ObjectKey, Vec<(TopologyProblem, Level)>>>,
}

/// The problems of the topology of a Cluster, or of sample Clusters.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    pub problems: BTreeMap<TopologyProblem, Level>,
    /// Extensions that could not be called.
    pub unanswered: Vec<TopologyProblem>,
    /// Why it could not be computed without a running cluster.
    pub unknown: Vec<TopologyProblem>,
    pub unchecked: BTreeSet<UncheckedKind>,
    /// How many other values of variables were too many to try.
    pub untried: usize,
}

/// Maximum number of variables of a sample that are named; the rest is counted.
const NAMED: usize = 5;
/// Maximum number of other values of variables that are tried for a class.
const ALTERNATIVES: usize = 256;

impl Inspection {
    fn add(&mut self, level: Level, problem: TopologyProblem) {
        let known = self.problems.entry(problem).or_insert(level);
        *known = (*known).min(level);
    }
}

impl<'a> Inspector<'a> {
    /// The topologies of these facts, with the objects and definitions of the files.
    pub(super) fn new(case: &CommandInput, facts: &'a Arc<Facts>, settings: &'a AdmissionSettings) -> Self {
        Inspector { fold: rollout::fold(case, facts, settings), facts, settings, of_templates: Mutex::default() }
    }

    /// The problems of a Cluster's topology, or of sample Clusters of a class. Without the class and any of its templates
    /// nothing can be computed.
    pub(super) fn inspect(&self, kind: Kind, key: &ObjectKey) -> Inspection {
        let class = match (kind, self.facts.cluster(key)) {
            (Kind::Cluster, Found::Yes(cluster)) => cluster.class_key(),
            (Kind::ClusterClass, _) => Some(key.clone()),
            _ => None,
        };
        let Some(Found::Yes(class)) = class.map(|class| self.facts.class(&class)) else { return Inspection::default() };
        if !self.has_a_template(&class) {
            return Inspection::default();
        }
        let mut inspection = Inspection::default();
        match kind {
            Kind::ClusterClass => self.inspect_samples(key, &class, &mut inspection),
            _ => self.inspect_or_as_new(key, &mut inspection),
        }
        for (problem, level) in self.problems_of_templates(&class) {
            inspection.add(level, problem);
        }
        let made = created_kinds(&class.spec);
        let unknown = made.iter().filter(|(version, kind)| !self.has_schema(version, kind));
        inspection.unchecked = unknown.map(|(version, kind)| UncheckedKind::new(version, kind)).collect();
        inspection
    }

    /// The problems of a class beside those of one of its Clusters, which has `known` ones: with other values of variables and
    /// all classes of workers.
    pub(super) fn inspect_beside(&self, cluster: &ObjectKey, known: &[&TopologyProblem]) -> Inspection {
        let mut inspection = Inspection::default();
        if let Found::Yes(cluster) = self.facts.cluster(cluster)
            && let Some(Found::Yes(class)) = cluster.class_key().map(|class| self.facts.class(&class))
            && self.has_a_template(&class)
        {
            let known = known.iter().map(|problem| Cause::from_problem(problem)).collect();
            self.inspect_alternatives((&cluster, false), &class, known, &mut inspection);
        }
        inspection
    }

    /// Adds the problems of a Cluster. If the files lack its current objects, it is computed as a new one.
    fn inspect_or_as_new(&self, key: &ObjectKey, inspection: &mut Inspection) {
        inspect_computed(&self.fold, key, None, inspection);
        if let (false, Found::Yes(cluster)) = (inspection.unknown.is_empty(), self.facts.cluster(key)) {
            let mut new = Cluster::clone(&cluster);
            (new.spec.infrastructure_ref, new.spec.control_plane_ref) = Default::default();
            let mut fold = self.fold.clone();
            fold.facts_mut().put_cluster(key.clone(), Record::readable(new));
            *inspection = Inspection::default();
            inspect_computed(&fold, key, None, inspection);
        }
    }

    /// Whether the files contain a template of a class: then the others are missing.
    fn has_a_template(&self, class: &Class) -> bool {
        self.templates(class).next().is_some()
    }

    /// The templates of a class that the files contain.
    fn templates(&self, class: &Class) -> impl Iterator<Item = Arc<Object>> {
        let found = |reference: &TemplateRef| {
            let key = ObjectKey::new(&class.metadata.namespace, &reference.name);
            let template = ObjectRef::new(&reference.api_version, &reference.kind, key);
            match self.fold.facts().objects()?.object(&template) {
                Found::Yes(template) => Some(template),
                Found::Absent | Found::NotAsked | Found::Unreadable(_) => None,
            }
        };
        references(&class.spec).into_iter().filter_map(found)
    }

    fn known_templates(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Vec<(TopologyProblem, Level)>>> {
        self.of_templates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fields of a class's templates that an API server would refuse, and schemas that cannot be used.
    fn problems_of_templates(&self, class: &Class) -> Vec<(TopologyProblem, Level)> {
        let key = class.metadata.key();
        if let Some(known) = self.known_templates().get(&key) {
            return known.clone();
        }
        let world = World::new(Arc::new(self.fold.facts().clone()));
        let mut checks = Checks::default();
        self.templates(class).for_each(|template| checks.add_template(&template, &key, &world));
        let refused = checks.refusals.iter().map(|refusal| {
            let level = if refusal.may_be_completed() { Level::Warning } else { Level::Error };
            (TopologyProblem::of_template(refusal), level)
        });
        let unusable = checks.unusable.iter().map(|reason| (TopologyProblem::of_class(&key, reason), Level::Warning));
        let problems: Vec<_> = refused.chain(unusable).collect();
        self.known_templates().insert(key, problems.clone());
        problems
    }

    /// Adds the problems of sample Clusters of a class. What each of them has is an error of the class. What only some have, or
    /// what other values of variables cause, is a warning.
    fn inspect_samples(&self, key: &ObjectKey, class: &Class, inspection: &mut Inspection) {
        let Some(version) = sample_clusters::version(&[class], &[self.fold.facts()]) else { return };
        let sample = sample_clusters::key(key, &[self.facts]);
        let (mut samples, mut largest, mut refused) = (Vec::new(), None, None);
        for extent in SampleExtent::EACH {
            let draft = Draft::generate(class, &sample, &version, extent, self.settings);
            let cluster = match draft.admitted(self.facts, self.settings) {
                Ok(cluster) => cluster,
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            };
            let mut fold = self.fold.clone();
            fold.facts_mut().put_cluster(sample.clone(), Record::readable(cluster.clone()));
            let (mut found, set) = (Inspection::default(), set_variables(&draft.value));
            inspect_computed(&fold, &sample, Some(&set), &mut found);
            samples.push((found, set));
            largest = Some(cluster);
        }
        if samples.is_empty() {
            let reason = refused.map(|error: DraftError| error.to_string()).unwrap_or_default();
            let message = format!("no sample Cluster could be computed: {reason}");
            inspection.add(Level::Warning, TopologyProblem::of_class(key, message));
        }
        let mut known: BTreeSet<&TopologyProblem> = BTreeSet::new();
        for (found, set) in &samples {
            for (problem, level) in found.problems.iter().filter(|(problem, _)| known.insert(problem)) {
                let has_it = |(other, _): &(Inspection, Vec<String>)| other.problems.contains_key(problem);
                match *level {
                    Level::Error if !samples.iter().all(has_it) => {
                        let set = if set.is_empty() { "no variables".to_owned() } else { a_few(set, NAMED) };
                        let one = format!("in a sample Cluster that sets {set}");
                        inspection.add(Level::Warning, of_sample(key, problem, Some(&one)));
                    }
                    level => {
                        let own = matches!(problem.object, ProblemObject::Cluster(_));
                        let level = if own { Level::Warning } else { level };
                        inspection.add(level, of_sample(key, problem, None));
                    }
                }
            }
        }
        if let Some(cluster) = largest {
            let known = samples.iter().flat_map(|(found, _)| found.problems.keys()).map(Cause::from_problem).collect();
            self.inspect_alternatives((&cluster, true), class, known, inspection);
        }
    }

    /// The problems of a Cluster like another one, with another value of a variable and all worker classes.
    fn inspect_varied(&self, cluster: &Cluster, class: &Class, other: Option<&AlternativeValue>) -> Inspection {
        let varied = sample_clusters::varied(cluster, class, other, self.settings);
        let key = varied.metadata.key();
        let mut set: Vec<String> =
            varied.spec.topology.variables.iter().map(|variable| variable.name.clone()).collect();
        // Values that the class lists are not invented.
        set.retain(|name| !other.is_some_and(|other| other.is_listed && other.variable == *name));
        let mut fold = self.fold.clone();
        fold.facts_mut().put_cluster(key.clone(), Record::readable(varied));
        let mut found = Inspection::default();
        inspect_computed(&fold, &key, Some(&set), &mut found);
        found
    }

    /// Adds what only other values of a Cluster's variables cause, one at a time: other entries of each `enum`, other
    /// booleans, something for what is empty, variables set and unset. Extensions are not asked about Clusters that do not
    /// exist.
    fn inspect_alternatives(
        &self,
        (cluster, is_sample): (&Cluster, bool),
        class: &Class,
        mut known: BTreeSet<Cause>,
        inspection: &mut Inspection,
    ) {
        if class.spec.patches.iter().any(|patch| patch.external.is_some()) {
            return;
        }
        let key = class.metadata.key();
        let (Some(definitions), Some(compiled)) = (variables::current(class), class.variables()) else { return };
        let set = &cluster.spec.topology.variables;
        let current = |name: &str| {
            let value = set.iter().find(|variable| variable.name == name)?.value.as_ref()?;
            json::value(value.get()).ok()
        };
        let alternatives = AlternativeValue::generate(&definitions, &compiled, current);
        let like = match is_sample {
            true => "in a sample Cluster".to_owned(),
            false => format!("in a Cluster like {}", cluster.metadata.key()),
        };
        let mut add_new = |found: Inspection, which: &str| {
            for problem in found.problems.keys() {
                if known.insert(Cause::from_problem(problem)) {
                    inspection.add(Level::Warning, of_sample(&key, problem, Some(which)));
                }
            }
        };
        add_new(self.inspect_varied(cluster, class, None), &format!("{like} with each class of workers"));
        // All variables get their first alternative before one gets its second.
        let rounds = alternatives.iter().map(Vec::len).max().unwrap_or_default();
        let in_turn = (0..rounds).flat_map(|round| alternatives.iter().filter_map(move |all| all.get(round)));
        for other in in_turn.take(ALTERNATIVES) {
            let which = format!("{like} with {}", other.difference);
            add_new(self.inspect_varied(cluster, class, Some(other)), &which);
        }
        let count: usize = alternatives.iter().map(Vec::len).sum();
        inspection.untried = count.saturating_sub(ALTERNATIVES);
    }

    fn has_schema(&self, api_version: &str, kind: &str) -> bool {
        let definition = definition_name(group_of(api_version), kind);
        let found = self.fold.facts().objects().and_then(|objects| objects.definition_for_checks(&definition));
        found.is_some_and(|found| matches!(found.resource_schema(version_of(api_version)), Some(Ok(_))))
    }
}

/// The objects of the topology of a Cluster, whose problems are added; `sample` are the variables of a sample Cluster with
/// invented values.
pub(super) fn inspect_computed(
    fold: &TopologySimulator,
    cluster: &ObjectKey,
    sample: Option<&[String]>,
    inspection: &mut Inspection,
) -> Vec<Object> {
    let inspected = fold.compute(cluster).and_then(|computation| {
        add_notes(&computation, cluster, inspection);
        InspectedObjects::from_computation(computation, fold.facts())
    });
    match inspected {
        Err(failure) => {
            for problem in TopologyProblem::from_failure(&failure, cluster, fold.facts()) {
                match (&failure, &problem.object) {
                    (Failure::PlanNotAsked { .. }, _) => inspection.unanswered.push(problem),
                    // Templates are problems of the class.
                    (Failure::NotFound { .. } | Failure::Unreadable(_), ProblemObject::Cluster(_)) => {
                        inspection.unknown.push(problem);
                    }
                    _ => inspection.add(Level::Error, problem),
                }
            }
            Vec::new()
        }
        Ok(InspectedObjects { objects, checks }) => {
            let is_of_class = |refusal: &&RefusedField| sample.is_none_or(|set| !is_invented(refusal, set));
            for refusal in checks.refusals.iter().filter(is_of_class) {
                let level = if refusal.may_be_completed() { Level::Warning } else { Level::Error };
                inspection.add(level, TopologyProblem::from_refusal(refusal, cluster));
            }
            for reason in checks.unusable {
                inspection.add(Level::Warning, TopologyProblem::of_topology(cluster, reason));
            }
            inspection.unchecked.extend(checks.unchecked);
            objects
        }
    }
}

/// What causes a problem: its messages differ with the values of variables.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    object: ProblemObject,
    path: String,
    rule: RuleId,
}

impl Cause {
    fn from_problem(problem: &TopologyProblem) -> Self {
        let TopologyProblem { object, path, rule, .. } = problem;
        Cause { object: object.clone(), path: path.clone(), rule }
    }
}

/// A problem of a sample Cluster, as one of its class or of an object of the class, with the sample that has it.
fn of_sample(class: &ObjectKey, problem: &TopologyProblem, which: Option<&str>) -> TopologyProblem {
    let which = which.map(|which| format!(" ({which})")).unwrap_or_default();
    match problem.object {
        // The sample may be at fault, not the class.
        ProblemObject::Cluster(_) => {
            TopologyProblem::of_class(class, format!("sample Cluster: {}{which}", problem.message))
        }
        _ => TopologyProblem { message: format!("{}{which}", problem.message), ..problem.clone() },
    }
}

/// The names of the variables that a Cluster sets.
fn set_variables(cluster: &Value) -> Vec<String> {
    let pointer = format!("/{}", paths::cluster::TOPOLOGY_VARIABLES.replace('.', "/"));
    let variables = cluster.pointer(&pointer).and_then(Value::as_array).into_iter().flatten();
    variables.filter_map(|variable| Some(variable.get("name")?.as_str()?.to_owned())).collect()
}

/// Whether a field is refused because of its value, and the value was invented for a sample Cluster.
fn is_invented(refusal: &RefusedField, set: &[String]) -> bool {
    let is_about_value = !matches!(refusal.error, ErrorKind::Required | ErrorKind::TypeInvalid | ErrorKind::Forbidden);
    match &refusal.because {
        Some(Origin::Patch(PatchOrigin { variables, .. })) => {
            is_about_value && variables.iter().any(|name| set.contains(name))
        }
        Some(Origin::Cluster(_)) => true,
        _ => false,
    }
}

/// Adds the problems of a topology that can be computed.
fn add_notes(computation: &Computation, cluster: &ObjectKey, inspection: &mut Inspection) {
    for undefined in TopologyProblem::from_undefined(computation) {
        // Any other output than `true` switches a patch off, so this may be meant.
        let level = if undefined.path.ends_with("enabledIf") { Level::Warning } else { Level::Error };
        inspection.add(level, undefined);
    }
    for unavailable in &computation.unavailable {
        inspection.add(Level::Error, TopologyProblem::of_topology(cluster, unavailable.to_string()));
    }
    TopologyProblem::from_ineffective(computation).into_iter().for_each(|it| inspection.add(Level::Warning, it));
    for text in &computation.warnings {
        inspection.add(Level::Warning, TopologyProblem::of_topology(cluster, text));
    }
    inspection.unanswered.extend(TopologyProblem::from_unanswered(computation));
}
