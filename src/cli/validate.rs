//! `validate`: the verdicts of the API server and the webhook on objects in files.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use jiff::Timestamp;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;

use super::UNUSABLE;
use super::args::{FailOn, FindingsFormat, ObjectFindingFlags, ValidateArgs};
use super::empty::{self, ExpectedInput};
use super::errors::{ErrorRow, shown};
use super::extensions::CommandExtensions;
use super::file_watch;
use super::findings::{Finding, FindingObject, Report, SourceTexts, topology_findings};
use super::held_edits::held_edits;
use super::offline::{self, CommandInput};
use super::output;
use super::rollout::RolloutSide;
use super::sizes::{SizedEdit, sized_edits};
use super::topologies::{self, Inspection, Inspector};
use engine::admission::{AdmissionSettings, Operation};
use engine::comparison::held_edit::HeldEdit;
use engine::file_review::{LoadedObject, ObjectReview, ReviewSubject, StoredManifest, UnknownFields};
use engine::impact::SizeVerdict;
use engine::topology::problems::{ProblemObject, TopologyProblem};
use engine::topology::refusals::UncheckedKind;
use model::hub::{Kind, ObjectKey, paths};
use model::wire::manifest::Manifest;
use model::world::Facts;
use schema::field::{FieldError, FieldPart, Level, RuleId, Warning, a_few, counted};

/// Prints the findings about every Cluster and ClusterClass.
pub(super) fn run(options: &ValidateArgs) -> Result<ExitCode> {
    if !options.watch {
        return run_once(options);
    }
    let paths = || {
        let of_flags = options.input.crd_paths().into_iter().chain(options.input.world.clone());
        let further = of_flags.chain(options.input.assume.clone()).chain(options.old.clone());
        options.paths.iter().cloned().chain(further).collect::<Vec<_>>()
    };
    if paths().iter().any(|path| path.as_os_str() == "-") {
        bail!("--watch needs files: standard input can be read only once");
    }
    if !matches!(options.findings.output, FindingsFormat::Text | FindingsFormat::Short) {
        bail!("--watch prints text or short: a document for programs has one report");
    }
    file_watch::run_on_changes(paths, &options.input.links, || run_once(options))
}

fn run_once(options: &ValidateArgs) -> Result<ExitCode> {
    let case = CommandInput::read(&options.paths, &options.old, &options.input)?.kept_as_stored();
    let extensions = CommandExtensions::open(&options.extensions, || case.objects(), None)?;
    let case = case.with_extensions(extensions.clone().map(|extensions| extensions as _));
    for unused in case.unused_assumptions() {
        output::message(unused)?;
    }
    let settings = options.rules.settings();
    let subjects = case.subjects(&settings);
    let facts = Arc::new(case.facts(&subjects));
    let unknown_fields = if options.strict { UnknownFields::Deny } else { UnknownFields::Warn };
    let mut results: Vec<ObjectResult<'_>> = subjects
        .par_iter()
        .map(|subject| ObjectResult::new(subject, offline::judge(subject, &facts, &settings, unknown_fields)))
        .collect();
    for SizedEdit { kind, key, verdict } in sized_edits(&case, &subjects, &facts, &settings) {
        let object = (&*kind, &*key.namespace, &*key.name);
        let SizeVerdict { denial, warnings } = verdict;
        if let Some(result) = results.iter_mut().find(|result| result.object() == object) {
            result.warnings.extend(warnings);
        }
        if let Some(error) = denial {
            deny(&mut results, &case, object, &error);
        }
    }
    inspect_all(&subjects, &mut results, &Inspector::new(&case, &facts, &settings));
    remove_consequences(&mut results);
    // A server counts the machines of an edit that is allowed otherwise.
    if results.iter().all(|result| result.outcome() != Outcome::Denied) {
        let ceiling = (&settings, options.ceiling.max_replaced_machines);
        hold(&mut results, &case, &held_edits(&case, &subjects, &facts, ceiling, Timestamp::now()));
    }
    let texts = SourceTexts::new(case.inputs());
    let is_counted = |unchecked: &&UncheckedKind| !options.allow_unchecked.contains(&unchecked.kind);
    let unchecked: BTreeSet<&UncheckedKind> =
        results.iter().flat_map(|result| &result.schemas_not_checked).filter(is_counted).collect();
    let lacks_checks = options.findings.fail_on() == FailOn::Warning && !unchecked.is_empty();
    let missing = if lacks_checks { missing_definitions(&results, &unchecked, &texts) } else { Vec::new() };
    let report = report(&results, missing, &case, &texts);
    let fails = report.fails(&options.findings);
    let report = if options.findings.quiet { report.failures_only(&options.findings) } else { report };
    match (options.format_version, options.findings.output) {
        (1, FindingsFormat::Json) => {
            output::json(&results.iter().map(ObjectResult::first_format).collect::<Vec<_>>())?;
        }
        _ => report.print(&options.findings)?,
    }
    let is_text = matches!(options.findings.output, FindingsFormat::Text | FindingsFormat::Short);
    if is_text && !lacks_checks && !options.findings.quiet {
        topologies::note(unchecked)?;
    }
    let is_faulty = extensions.as_ref().is_some_and(|extensions| extensions.is_faulty());
    for reason in extensions.map(|extensions| extensions.finish(None)).transpose()?.unwrap_or_default() {
        output::message(reason)?;
    }
    if let Some(code) = report_problems(&case)? {
        return Ok(ExitCode::from(code));
    }
    let nothing =
        if results.is_empty() { empty::check_found(ExpectedInput::Judged, &case, &options.input)? } else { None };
    Ok(ExitCode::from(nothing.unwrap_or(u8::from(fails || is_faulty))))
}

/// Adds the denials of edits by a ceiling. Templates have results only for these.
fn hold<'a>(results: &mut Vec<ObjectResult<'a>>, case: &'a CommandInput, held: &[HeldEdit]) {
    for held in held {
        deny(results, case, held.object(), &held.error);
    }
}

/// Adds an error to the result of an object, by its kind, namespace and name.
fn deny<'a>(
    results: &mut Vec<ObjectResult<'a>>,
    case: &'a CommandInput,
    object: (&str, &str, &str),
    error: &FieldError,
) {
    let mut error = ErrorRow::from_error(error);
    // An object of another group may have the same kind and name.
    let is_it = |loaded: &&LoadedObject| {
        let manifest = &loaded.manifest;
        named(loaded) == object && manifest.admitted_kind().is_some() == Kind::from_name(&manifest.kind).is_some()
    };
    let loaded = case.new.objects.iter().rfind(is_it);
    loaded.into_iter().for_each(|loaded| error.locate(&loaded.manifest));
    match results.iter_mut().find(|result| result.object() == object) {
        Some(result) => result.errors.push(error),
        None => results.extend(loaded.map(|loaded| ObjectResult::of_template(loaded, error))),
    }
}

/// Adds the problems of topologies: of Clusters first, then those of classes, which also have samples.
fn inspect_all(subjects: &[ReviewSubject<'_>], results: &mut [ObjectResult<'_>], inspector: &Inspector<'_>) {
    let is_class = |subject: &ReviewSubject<'_>| subject.kind == Kind::ClusterClass;
    let clusters = subjects.par_iter().zip(&mut *results).filter(|(subject, _)| !is_class(subject));
    clusters.for_each(|(subject, result)| result.inspect(subject, inspector));
    // What the Clusters of a class have, and one that could be computed, if any.
    let mut of_clusters: BTreeMap<ObjectKey, (Option<ObjectKey>, Vec<TopologyProblem>)> = BTreeMap::new();
    let mut denied = BTreeSet::new();
    for (subject, result) in subjects.iter().zip(&*results) {
        let Some(class) = result.class.clone() else { continue };
        if !result.errors.is_empty() {
            denied.insert(class);
        } else if result.unknown.is_none() {
            let (first, problems) = of_clusters.entry(class).or_default();
            *first = first.take().or(subject.stored().map(|(_, key)| key.clone()));
            problems.extend(result.problems.keys().cloned());
        }
    }
    for (subject, result) in subjects.iter().zip(&mut *results).filter(|(subject, _)| is_class(subject)) {
        let class = &subject.loaded.manifest.key;
        match of_clusters.get(class) {
            Some((Some(cluster), known)) if result.errors.is_empty() => {
                let found = inspector.inspect_beside(cluster, &known.iter().collect::<Vec<_>>());
                (result.problems, result.untried) = (found.problems, found.untried);
            }
            Some(_) => {}
            None => result.inspect(subject, inspector),
        }
        // A denied Cluster is mended first; it shows what only some Clusters of its class have.
        if denied.contains(class) && !of_clusters.contains_key(class) {
            result.problems.retain(|_, level| *level == Level::Error);
        }
    }
}

/// Removes problems of topologies that follow from errors of their class in the same part of it.
fn remove_consequences<'a>(results: &mut [ObjectResult<'a>]) {
    let mut wrong: BTreeMap<&'a ObjectKey, (&'a Manifest, BTreeSet<String>)> = BTreeMap::new();
    for ObjectResult { loaded, errors, .. } in results.iter().filter(|result| !result.errors.is_empty()) {
        let class = &loaded.manifest;
        if class.admitted_kind() == Some(Kind::ClusterClass) {
            let parts = errors.iter().map(|error| part_of_class(&class.named_path(&error.field)).to_owned());
            wrong.insert(&class.key, (class, parts.collect()));
        }
    }
    for result in results {
        let ObjectResult { problems, class, .. } = result;
        problems.retain(|problem, _| match &problem.object {
            ProblemObject::Class(key) => wrong.get(key).is_none_or(|(class, parts)| {
                let path = class.named_path(&problem.path);
                !parts.contains(part_of_class(&path))
            }),
            ProblemObject::Cluster(_) => class.as_ref().is_none_or(|class| !wrong.contains_key(class)),
            ProblemObject::Template { .. } => true,
        });
    }
}

/// The part of a class that a path is in: `spec.workers.machineDeployments[a]`, `spec.controlPlane`. All patches are one
/// part, together with variables: a patch may need an earlier one.
fn part_of_class(path: &str) -> &str {
    if path.starts_with(paths::cluster_class::VARIABLES) || path.starts_with(paths::cluster_class::PATCHES) {
        return paths::cluster_class::PATCHES;
    }
    let end = match path.starts_with("spec.workers") {
        true => path.find(']').map(|end| end + 1),
        false => path.match_indices('.').nth(1).map(|(at, _)| at),
    };
    &path[..end.unwrap_or(path.len())]
}

/// Kind, namespace and name of an object.
fn named(loaded: &LoadedObject) -> (&str, &str, &str) {
    let key = &loaded.manifest.key;
    (&loaded.manifest.kind, &key.namespace, &key.name)
}

/// Prints unreadable input and probable mistakes; returns the exit code if there is unreadable input.
pub(super) fn report_problems(case: &CommandInput) -> Result<Option<u8>> {
    let code = report_unreadable(case)?;
    if code.is_none() {
        empty::report_misspelled_kinds(case)?;
    }
    Ok(code)
}

/// Prints unreadable input; returns the exit code if there is any.
pub(super) fn report_unreadable(case: &CommandInput) -> Result<Option<u8>> {
    let each = || case.inputs().into_iter();
    for unreadable in each().flat_map(|input| &input.unreadable) {
        output::message(unreadable)?;
    }
    for passed_over in each().flat_map(|input| &input.passed_over) {
        output::message(format_args!("{passed_over}: passed over"))?;
    }
    if each().any(|input| !input.unreadable.is_empty()) {
        return Ok(Some(UNUSABLE));
    }
    Ok(None)
}

/// Why objects are denied.
pub(super) fn denials(
    subjects: &[ReviewSubject<'_>],
    facts: &Arc<Facts>,
    settings: &AdmissionSettings,
    texts: &SourceTexts<'_>,
) -> Vec<Finding> {
    let judge = |subject| ObjectResult::new(subject, offline::judge(subject, facts, settings, UnknownFields::Warn));
    let results: Vec<ObjectResult<'_>> = subjects.par_iter().map(judge).collect();
    let errors = results.iter().flat_map(|result| result.errors.iter().map(|error| (result.loaded, error)));
    errors.map(|(loaded, error)| texts.error(loaded, error)).collect()
}

/// Writes why objects of a side are denied; returns whether any is.
pub(super) fn report_denials(
    side: &RolloutSide,
    subjects: &[ReviewSubject<'_>],
    facts: &Arc<Facts>,
    flags: &ObjectFindingFlags,
) -> Result<bool> {
    let texts = SourceTexts::new(side.case().inputs());
    let report = Report::of_findings(denials(subjects, facts, side.settings(), &texts), &texts);
    if report.has_errors() {
        report.write(flags)?;
    }
    Ok(report.has_errors())
}

/// What the API server and the webhook answer, and whether the topology can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Allowed,
    Denied,
    /// Allowed, but the topology cannot be computed, or an API server would refuse its objects (DEC-68).
    NotComputable,
}

/// The result for one object.
#[derive(Debug)]
struct ObjectResult<'a> {
    loaded: &'a LoadedObject,
    operation: Operation,
    errors: Vec<ErrorRow>,
    warnings: Vec<Warning>,
    problems: BTreeMap<TopologyProblem, Level>,
    /// Why it could not be computed without the running cluster.
    unknown: Option<String>,
    /// The class of a Cluster.
    class: Option<ObjectKey>,
    not_checked: Vec<RuleId>,
    schemas_not_checked: BTreeSet<UncheckedKind>,
    /// How many other values of variables were too many to try.
    untried: usize,
    patch: json_patch::Patch,
}

/// Removes what another error says better: that something empty is too short, beside what it has to hold; and that values
/// cannot be checked by a rule, beside why the rule cannot be compiled.
fn remove_repetitions(errors: &mut Vec<ErrorRow>, manifest: &Manifest) {
    let of_rules = errors.iter().filter(|error| error.rule != API_SCHEMA);
    let fields: BTreeSet<String> = of_rules.map(|error| manifest.named_path(&error.field)).collect();
    let variable = |error: &ErrorRow| {
        let path = manifest.named_path(&error.field);
        path.split_once(']').map_or(path.clone(), |(variable, _)| variable.to_owned())
    };
    let broken: BTreeSet<String> = errors.iter().filter(|error| error.rule == "CEL-009").map(variable).collect();
    let is_empty = |path: &str| {
        let found = manifest.locate(path).filter(|found| found.is_exact);
        found.is_some_and(|found| match found.value.value() {
            Value::String(text) => text.is_empty(),
            Value::Array(entries) => entries.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        })
    };
    errors.retain(|error| match error.rule {
        API_SCHEMA => !(is_empty(&error.field) && fields.contains(&manifest.named_path(&error.field))),
        "CEL-024" => !broken.contains(&variable(error)),
        _ => true,
    });
}

/// The rule about what the schemas of the API say.
const API_SCHEMA: RuleId = "DEC-32";

/// The result for one object in version 1 of the JSON format.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultRow<'a> {
    #[serde(flatten)]
    object: ResultObject<'a>,
    errors: Vec<ErrorRow>,
    warnings: Vec<String>,
    #[serde(flatten)]
    rest: ResultRest<'a>,
}

/// The result for one object, beside its findings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JudgedObject<'a> {
    #[serde(flatten)]
    object: ResultObject<'a>,
    /// Whether its topology can be computed, and an API server would accept the objects.
    computable: bool,
    #[serde(flatten)]
    rest: ResultRest<'a>,
}

/// An object and its verdict.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultObject<'a> {
    file: &'a str,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    operation: &'static str,
    allowed: bool,
}

/// The defaults of an object, and the rules and kinds that could not be checked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultRest<'a> {
    not_checked: &'a [RuleId],
    /// The kinds of rendered objects whose CustomResourceDefinitions are not known.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    schemas_not_checked: &'a BTreeSet<UncheckedKind>,
    patch: &'a json_patch::Patch,
}

impl<'a> ObjectResult<'a> {
    fn new(subject: &ReviewSubject<'a>, review: ObjectReview) -> Self {
        let manifest = &subject.loaded.manifest;
        let mut errors: Vec<ErrorRow> = subject.defaulted.as_ref().map(shown).unwrap_or_default();
        errors.extend(review.schema_errors().map(ErrorRow::from_error));
        // Without a class name there is one thing to say, and defaulting has said it (CL-D-003).
        if errors.iter().all(|error| error.rule != "CL-D-003") {
            errors.extend(shown(&review.verdict));
        }
        let mut warnings: Vec<Warning> = review.verdict.warnings.into_iter().chain(review.warnings).collect();
        if let Some(version) = manifest.version().filter(|_| !errors.is_empty() && review.misplaced.len() > 1) {
            errors.retain(|error| !error.follows_from(&review.misplaced));
            errors.insert(0, ErrorRow::other_version(version, &review.misplaced));
            warnings.retain(|warning| !review.misplaced.iter().any(|field| field == warning.path.as_str()));
        }
        remove_repetitions(&mut errors, manifest);
        errors.iter_mut().for_each(|error| error.locate(manifest));
        let patch = subject.defaulted.as_ref().map(|verdict| verdict.printed_patch().clone()).unwrap_or_default();
        ObjectResult {
            loaded: subject.loaded,
            operation: subject.operation,
            errors,
            warnings,
            problems: BTreeMap::new(),
            unknown: None,
            class: subject.new.as_ref().and_then(StoredManifest::class_key),
            not_checked: review.verdict.not_checked,
            schemas_not_checked: BTreeSet::new(),
            untried: 0,
            patch,
        }
    }

    /// The result for an edit of a template, which is denied.
    fn of_template(loaded: &'a LoadedObject, error: ErrorRow) -> Self {
        ObjectResult {
            loaded,
            operation: Operation::Update,
            errors: vec![error],
            warnings: Vec::new(),
            problems: BTreeMap::new(),
            unknown: None,
            class: None,
            not_checked: Vec::new(),
            schemas_not_checked: BTreeSet::new(),
            untried: 0,
            patch: json_patch::Patch::default(),
        }
    }

    /// Kind, namespace and name.
    fn object(&self) -> (&str, &str, &str) {
        named(self.loaded)
    }

    fn outcome(&self) -> Outcome {
        let has_error = self.problems.values().any(|level| *level == Level::Error);
        match (self.errors.is_empty(), has_error) {
            (false, _) => Outcome::Denied,
            (true, true) => Outcome::NotComputable,
            (true, false) => Outcome::Allowed,
        }
    }

    /// Adds the problems of the topology of an allowed object.
    fn inspect(&mut self, subject: &ReviewSubject<'_>, inspector: &Inspector<'_>) {
        let Some((kind, key)) = subject.stored().filter(|_| self.errors.is_empty()) else { return };
        let Inspection { problems, unanswered, unknown, unchecked, untried } = inspector.inspect(kind, key);
        (self.problems, self.untried) = (problems, untried);
        self.problems.extend(unanswered.into_iter().map(|problem| (problem, Level::Warning)));
        if kind == Kind::ClusterClass {
            self.excuse_samples();
        }
        self.unknown = unknown.into_iter().next().map(|problem| problem.message);
        self.schemas_not_checked = unchecked;
    }

    /// What depends on labels and annotations, which samples lack, is no error of the class.
    fn excuse_samples(&mut self) {
        let manifest = &self.loaded.manifest;
        let reads_metadata = |problem: &TopologyProblem| {
            let is_own = problem.object == ProblemObject::Class(manifest.key.clone());
            let found = manifest.locate(&problem.path).filter(|found| is_own && found.is_exact);
            let text = found.map(|found| found.value.value().to_string()).unwrap_or_default();
            ["metadata.labels", "metadata.annotations"].iter().any(|field| text.contains(field))
        };
        for (_, level) in self.problems.iter_mut().filter(|(problem, _)| reads_metadata(problem)) {
            *level = Level::Warning;
        }
    }

    fn result_object(&self, allowed: bool) -> ResultObject<'_> {
        let manifest = &self.loaded.manifest;
        ResultObject {
            file: &self.loaded.file,
            api_version: &manifest.api_version,
            kind: &manifest.kind,
            namespace: &manifest.key.namespace,
            name: &manifest.key.name,
            operation: self.operation.name(),
            allowed,
        }
    }

    fn rest(&self) -> ResultRest<'_> {
        ResultRest {
            not_checked: &self.not_checked,
            schemas_not_checked: &self.schemas_not_checked,
            patch: &self.patch,
        }
    }

    fn judged(&self) -> JudgedObject<'_> {
        let outcome = self.outcome();
        JudgedObject {
            object: self.result_object(outcome != Outcome::Denied),
            computable: outcome != Outcome::NotComputable,
            rest: self.rest(),
        }
    }

    /// The row of version 1 of the JSON format.
    fn first_format(&self) -> ResultRow<'_> {
        let of = |wanted: Level| {
            self.problems.iter().filter(move |(_, level)| **level == wanted).map(|(problem, _)| problem)
        };
        let problems = of(Level::Error).map(ErrorRow::from_problem);
        let warnings = self.warnings.iter().map(|warning| warning.text.clone());
        ResultRow {
            object: self.result_object(self.outcome() == Outcome::Allowed),
            errors: self.errors.iter().cloned().chain(problems).collect(),
            warnings: warnings.chain(of(Level::Warning).map(|problem| problem.message.clone())).collect(),
            rest: self.rest(),
        }
    }

    /// `update of ClusterClass default/base`
    fn title(&self) -> String {
        let title = FindingObject::from_loaded(self.loaded).title();
        match self.operation {
            Operation::Create => title,
            Operation::Update => format!("update of {title}"),
            Operation::Delete => format!("deletion of {title}"),
        }
    }
}

/// A warning for each kind of rendered objects whose definition is not known, at a class that makes such objects.
fn missing_definitions(
    results: &[ObjectResult<'_>],
    unchecked: &BTreeSet<&UncheckedKind>,
    texts: &SourceTexts<'_>,
) -> Vec<Finding> {
    let finding = |unchecked: &&UncheckedKind| {
        let reference = |result: &ObjectResult<'_>| {
            let manifest = &result.loaded.manifest;
            let is_class = manifest.admitted_kind() == Some(Kind::ClusterClass);
            is_class.then(|| reference_of_kind(&manifest.value, "", &unchecked.kind)).flatten()
        };
        let has_it = |result: &&ObjectResult<'_>| result.schemas_not_checked.contains(*unchecked);
        let of_class = results.iter().find_map(|result| Some((result.loaded, reference(result)?)));
        // The class may be elsewhere.
        let (loaded, path) =
            of_class.or_else(|| Some((results.iter().find(has_it)?.loaded, paths::cluster::TOPOLOGY.to_owned())))?;
        let message = format!("objects of kind {} are not checked: no definition of it is known", unchecked.kind);
        let fix = match topologies::command_for_definitions([*unchecked]) {
            Some(command) => format!("{command}, and give the file with --crds, or accept it with --allow-unchecked"),
            None => "give it with --crds, or accept that with --allow-unchecked".to_owned(),
        };
        let finding = Finding { fix: Some(fix), ..Finding::new(Level::Warning, API_SCHEMA, message) };
        Some(texts.finding((loaded, &path, FieldPart::Value), finding))
    };
    unchecked.iter().filter_map(finding).collect()
}

/// The path of the first reference to a kind or to its templates.
fn reference_of_kind(value: &Value, path: &str, kind: &str) -> Option<String> {
    match value {
        Value::Object(members) => {
            let is_of_kind = |found: &str| found.strip_suffix("Template").unwrap_or(found) == kind;
            if members.get("kind").and_then(Value::as_str).is_some_and(is_of_kind) && !path.is_empty() {
                return Some(format!("{path}.kind"));
            }
            members.iter().find_map(|(name, member)| {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                reference_of_kind(member, &below, kind)
            })
        }
        Value::Array(entries) => entries
            .iter()
            .enumerate()
            .find_map(|(index, entry)| reference_of_kind(entry, &format!("{path}[{index}]"), kind)),
        _ => None,
    }
}

/// The findings of all results, and a summary.
fn report<'a>(
    results: &'a [ObjectResult<'a>],
    mut findings: Vec<Finding>,
    case: &CommandInput,
    texts: &'a SourceTexts<'a>,
) -> Report<'a, JudgedObject<'a>> {
    for result in results {
        let loaded = result.loaded;
        findings.extend(result.errors.iter().map(|error| texts.error(loaded, error)));
        findings.extend(result.warnings.iter().map(|warning| texts.warning(loaded, warning)));
    }
    let problems = results
        .iter()
        .flat_map(|result| result.problems.iter().map(|(problem, level)| (*level, problem, result.loaded)));
    findings.extend(topology_findings(problems, case.inputs(), texts));
    let judged = results.iter().map(ObjectResult::judged).collect();
    let objects = results.iter().map(|result| FindingObject::from_loaded(result.loaded)).collect();
    let mut report = Report::new(findings, judged, objects, texts);
    let of = |outcome: Outcome| results.iter().filter(move |result| result.outcome() == outcome);
    for (outcome, title) in [
        (Outcome::Allowed, "allowed"),
        (Outcome::NotComputable, "allowed, but cannot be rolled out"),
        (Outcome::Denied, "denied"),
    ] {
        let names: Vec<String> = of(outcome).map(ObjectResult::title).collect();
        if !names.is_empty() {
            report.verdict(format!("{title}: {}", a_few(&names, NAMED)));
        }
    }
    let reason = |result: &ObjectResult<'_>| Some(format!("{} ({})", result.title(), result.unknown.as_ref()?));
    let unknown: Vec<String> = results.iter().filter_map(reason).collect();
    if !unknown.is_empty() {
        report.verdict(format!("not computed: {}", a_few(&unknown, NAMED)));
    }
    for result in results.iter().filter(|result| result.untried > 0) {
        let other = counted(result.untried, "other value");
        report.verdict(format!("not tried, because there are too many: {other} of variables of {}", result.title()));
    }
    let not_checked: BTreeSet<RuleId> = results.iter().flat_map(|result| &result.not_checked).copied().collect();
    if !not_checked.is_empty() {
        let rules: Vec<RuleId> = not_checked.into_iter().collect();
        let reason = "not checked, because the files do not hold the running cluster";
        report.verdict(format!("{reason}: {}", rules.join(", ")));
    }
    let [allowed, unusable, denied] =
        [Outcome::Allowed, Outcome::NotComputable, Outcome::Denied].map(|outcome| of(outcome).count());
    for (what, number) in [("checked", results.len()), ("allowed", allowed + unusable), ("denied", denied)] {
        report.count(what, number);
    }
    if !results.is_empty() {
        let unusable = if unusable > 0 { format!(", {unusable} that cannot be rolled out") } else { String::new() };
        report.verdict(format!("{} checked, {allowed} allowed{unusable}, {denied} denied", results.len()));
    }
    report
}

/// Maximum number of objects of a verdict that are named; the rest is counted.
const NAMED: usize = 20;
