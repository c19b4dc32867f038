//! `check-provider`: checks the definitions and the behavior of a provider against the contract of Cluster API.

mod observer;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::UNUSABLE;
use super::args::{CheckProviderArgs, FindingsFormat, VariableFlags};
use super::empty;
use super::files::{FileInput, FileReader};
use super::findings::{Finding, FindingObject, Report, SourceTexts};
use super::output;
use super::sources::{self, FILE_LIMIT};
use engine::file_review::LoadedObject;
use golang::yaml;
use machines::provider_contract::{self, CheckedDefinition, ContractFinding, Kustomization, Level};
use schema::field::{FieldPart, counted, enumerated};

/// Prints the findings about each definition, or about objects of a running cluster.
pub(super) fn run(options: &CheckProviderArgs) -> Result<ExitCode> {
    match &options.live {
        Some(wanted) => observer::run(wanted, options),
        None => check_files(options),
    }
}

fn check_files(options: &CheckProviderArgs) -> Result<ExitCode> {
    let input = FileReader::new(&VariableFlags::default(), &options.links).read(&options.paths)?;
    if !input.unreadable.is_empty() {
        for unreadable in &input.unreadable {
            output::message(unreadable)?;
        }
        return Ok(ExitCode::from(UNUSABLE));
    }
    let manifests: Vec<&Value> = input.objects.iter().map(|loaded| &loaded.manifest.value).collect();
    let all = provider_contract::check(&manifests, &kustomizations(&input));
    let report = ProviderReport::from_input(&input, &all);
    if report.definitions.is_empty() {
        let found = "nothing was checked: no CustomResourceDefinition of a provider was found";
        output::message(format_args!("{found}; {}", report.others(&input)))?;
        return Ok(ExitCode::from(UNUSABLE));
    }
    let texts = SourceTexts::new([&input]);
    let findings = report.findings(&input, &all, &texts);
    if (options.format_version, options.findings.output) == (1, FindingsFormat::Json) {
        output::json(&report)?;
        return Ok(findings.exit_code(&options.findings));
    }
    findings.finish(&options.findings)
}

/// The names of a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The kustomizations beside the files of objects, or one folder above, by the index of the object: `config/crd` has the
/// labels of `config/crd/bases`.
fn kustomizations(input: &FileInput) -> BTreeMap<usize, Arc<Kustomization>> {
    let mut known: BTreeMap<&str, Option<Arc<Kustomization>>> = BTreeMap::new();
    let beside = |file: &str| {
        // Standard input has no folder.
        let folders = Path::new(file).is_file().then(|| Path::new(file).ancestors().skip(1).take(2));
        folders.into_iter().flatten().find_map(kustomization).map(Arc::new)
    };
    let mut all = BTreeMap::new();
    for (index, loaded) in input.objects.iter().enumerate() {
        let found = known.entry(&loaded.file).or_insert_with(|| beside(&loaded.file));
        all.extend(found.clone().map(|found| (index, found)));
    }
    all
}

/// The labels that the kustomization of a folder adds.
fn kustomization(folder: &Path) -> Option<Kustomization> {
    let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let path = KUSTOMIZATIONS.map(|name| folder.join(name)).into_iter().find(is_file)?;
    let value = yaml::value(&sources::text_content(&path, FILE_LIMIT).ok()?).ok()?;
    let pairs = value.get("labels").and_then(Value::as_array).into_iter().flatten();
    let labels = pairs.filter_map(|added| added.get("pairs")).chain(value.get("commonLabels"));
    let labels = labels.filter_map(Value::as_object).flatten();
    let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    Some(Kustomization { file: path.display().to_string(), labels })
}

/// The output of `-o json --format-version 1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProviderReport<'a> {
    errors: usize,
    warnings: usize,
    definitions: Vec<DefinitionRow<'a>>,
    /// Kinds that the contract is not about.
    not_checked: Vec<&'a str>,
}

/// A definition and its findings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionRow<'a> {
    file: &'a str,
    line: usize,
    name: &'a str,
    kind: &'a str,
    role: String,
    contract: Option<&'a str>,
    version: Option<&'a str>,
    findings: Vec<FindingRow<'a>>,
}

/// A definition in the output of version 2.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedObject<'a> {
    file: &'a str,
    name: &'a str,
    kind: &'a str,
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    contract: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
}

/// A finding in the output of version 1.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FindingRow<'a> {
    level: String,
    rule: &'static str,
    version: Option<&'a str>,
    field: &'a str,
    message: &'a str,
    way_out: &'a str,
}

impl<'a> ProviderReport<'a> {
    fn from_input(input: &'a FileInput, all: &'a [CheckedDefinition]) -> Self {
        let count = |level| all.iter().flat_map(|one| &one.findings).filter(|finding| finding.level == level).count();
        let not_checked = all.iter().filter(|one| one.role.is_none()).map(called);
        ProviderReport {
            errors: count(Level::Error),
            warnings: count(Level::Warning),
            definitions: all.iter().filter_map(|one| DefinitionRow::from_definition(input, one)).collect(),
            not_checked: not_checked.collect(),
        }
    }

    /// The kinds of the input, if it has no definitions of a provider.
    fn others(&self, input: &FileInput) -> String {
        match self.not_checked.is_empty() {
            true => format!("the input holds {}", empty::holds([input])),
            false => format!("no contract is about {}", enumerated(&self.not_checked)),
        }
    }

    /// The findings with their places, and a line about each definition.
    fn findings<'t>(
        &self,
        input: &'t FileInput,
        all: &[CheckedDefinition],
        texts: &'t SourceTexts<'t>,
    ) -> Report<'t, CheckedObject<'_>> {
        let loaded = |checked: &CheckedDefinition| input.objects.get(checked.index);
        let judged = all.iter().filter(|checked| checked.role.is_some());
        let findings = all
            .iter()
            .filter_map(|checked| Some((loaded(checked)?, checked)))
            .flat_map(|(loaded, checked)| checked.findings.iter().map(move |finding| located(finding, loaded, texts)));
        let objects = self.definitions.iter().map(DefinitionRow::checked).collect();
        let judged = judged.filter_map(loaded).map(object).collect();
        let mut report = Report::new(findings.collect(), objects, judged, texts);
        self.definitions.iter().for_each(|row| report.verdict(row.verdict()));
        if !self.not_checked.is_empty() {
            let kinds = enumerated(&self.not_checked);
            report.verdict(format!("not checked, because no contract is about them: {kinds}"));
        }
        let ProviderReport { errors, warnings, definitions, .. } = self;
        let [errors, warnings] =
            [(*errors, "error"), (*warnings, "warning")].map(|(number, what)| counted(number, what));
        report.verdict(format!("{} checked, {errors}, {warnings}", definitions.len()));
        report.count("checked", definitions.len());
        report
    }
}

/// A definition as the object of findings; it is in no namespace.
fn object(loaded: &LoadedObject) -> FindingObject {
    FindingObject { namespace: String::new(), ..FindingObject::from_loaded(loaded) }
}

/// A finding at its field in the definition.
fn located(finding: &ContractFinding, loaded: &LoadedObject, texts: &SourceTexts<'_>) -> Finding {
    let ContractFinding { level, rule, version, field, message, remediation } = finding;
    let is_of_definition = ["metadata.", "spec.names.", "spec.versions"].iter().any(|start| field.starts_with(start));
    let path = match version {
        Some(version) if !is_of_definition => path_in_schema(&loaded.manifest.value, version, field),
        _ => field.clone(),
    };
    let fix = Some(remediation.clone()).filter(|fix| !fix.is_empty());
    let finding = Finding { fix, ..Finding::new(*level, rule, message) };
    let finding = texts.finding((loaded, &path, FieldPart::Value), finding);
    // People know the field of the objects, not the way to it in the schema.
    Finding { object: object(loaded), named_path: field.clone(), ..finding }
}

/// The path in a definition at which the schema of a version describes a field of the objects.
fn path_in_schema(definition: &Value, version: &str, field: &str) -> String {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let position =
        versions.and_then(|all| all.iter().position(|one| one.get("name").is_some_and(|name| name == version)));
    let Some(position) = position else { return "spec.versions".to_owned() };
    let mut path = format!("spec.versions[{position}]");
    if field == "subresources" || field.starts_with("subresources.") {
        return format!("{path}.{field}");
    }
    path.push_str(".schema.openAPIV3Schema");
    for name in field.split('.').filter(|name| !name.is_empty()) {
        let (name, element) = name.split_once('[').map_or((name, false), |(name, _)| (name, true));
        path.push_str(&format!(".properties.{name}{}", if element { ".items" } else { "" }));
    }
    path
}

/// The kind, or the name of a definition that has only metadata.
fn called(checked: &CheckedDefinition) -> &str {
    if checked.kind.is_empty() { &checked.name } else { &checked.kind }
}

impl<'a> DefinitionRow<'a> {
    fn from_definition(input: &'a FileInput, checked: &'a CheckedDefinition) -> Option<Self> {
        let (loaded, role) = (input.objects.get(checked.index)?, checked.role?);
        Some(DefinitionRow {
            file: &loaded.file,
            line: loaded.manifest.line,
            name: &checked.name,
            kind: &checked.kind,
            role: if checked.is_template { format!("{} template", role.name()) } else { role.name().to_owned() },
            contract: checked.contract.as_deref(),
            version: checked.version.as_deref(),
            findings: checked.findings.iter().map(FindingRow::from_finding).collect(),
        })
    }

    /// `CustomResourceDefinition machines.example.com: infrastructure machine, contract v1beta2 in version v1: ok`
    fn verdict(&self) -> String {
        let DefinitionRow { name, role, .. } = self;
        let read = match (self.contract, self.version) {
            (Some(contract), Some(version)) => format!("contract {contract} in version {version}"),
            _ => "no contract".to_owned(),
        };
        let verdict = if self.findings.is_empty() { ": ok" } else { "" };
        format!("CustomResourceDefinition {name}: {role}, {read}{verdict}")
    }

    fn checked(&self) -> CheckedObject<'_> {
        let DefinitionRow { file, name, kind, role, contract, version, .. } = self;
        CheckedObject { file, name, kind, role, contract: *contract, version: *version }
    }
}

impl<'a> FindingRow<'a> {
    fn from_finding(finding: &'a ContractFinding) -> Self {
        FindingRow {
            level: finding.level.to_string(),
            rule: finding.rule,
            version: finding.version.as_deref(),
            field: &finding.field,
            message: &finding.message,
            way_out: &finding.remediation,
        }
    }
}
