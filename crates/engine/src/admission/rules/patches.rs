//! The patches of a ClusterClass (PAT), on which the engine relies (PE-30).
//!
//! These rules do not check whether a path exists in the selected templates, or the result of a Go template.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::class_change::ClassChange;
use super::hints;
use crate::admission::ListedRule;
use golang::template::{Functions, Template};
use model::hub::naming::{decimal_integer, label_key_faults};
use model::hub::{
    ClassNames, ClusterClassSpec, JsonPatch, JsonPatchValue, Kind, Patch, PatchDefinition, PatchSelector, TemplateRef,
    paths,
};
use schema::field::{ErrorKind, Findings, Path, RuleId, closest, enumerated};
use schema::openapi::SchemaAllowance;

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        ("PAT-001", "patch_has_a_name"),
        ("PAT-002", "patch_is_not_called_inline"),
        ("PAT-003", "patch_names_are_unique"),
        ("PAT-004", "condition_parses"),
        ("PAT-005", "patch_does_something"),
        ("PAT-006", "patch_is_inline_or_external"),
        ("PAT-007", "external_patches_are_switched_on"),
        ("PAT-008", "external_patch_calls_an_extension"),
        ("PAT-010", "operation_is_known"),
        ("PAT-011", "path_is_below_spec"),
        ("PAT-012", "arrays_are_changed_at_their_ends"),
        ("PAT-013", "operation_has_a_value"),
        ("PAT-014", "operation_has_one_value"),
        ("PAT-016", "value_has_a_source"),
        ("PAT-017", "value_has_one_source"),
        ("PAT-018", "template_parses"),
        ("DEC-5", "templates_name_what_is_defined"),
        ("PAT-019", "builtin_variable_is_known"),
        ("PAT-021", "variable_is_defined"),
        ("DEC-27", "paths_say_what_they_mean"),
        ("PAT-030", "selector_selects_something"),
        ("PAT-031", "infrastructure_has_the_selected_kind"),
        ("PAT-032", "control_plane_has_the_selected_kind"),
        ("PAT-033", "selected_machine_deployment_classes_exist"),
        ("PAT-034", "selected_machine_pool_classes_exist"),
    ]
    .into_iter()
    .map(|(id, name)| ListedRule { id, name, kind: Some(Kind::ClusterClass) })
}

/// Patches can be applied (CC-V-070).
pub(super) fn patches_are_usable(change: &ClassChange<'_>, found: &mut Findings) {
    let spec = &change.new.spec;
    let scope = PatchScope::new(spec, &change.allowance);
    let mut names = BTreeSet::new();
    for (i, entry) in spec.patches.iter().enumerate().filter(|(_, entry)| !change.knows_patch(entry)) {
        let path = Path::new(paths::cluster_class::PATCHES).index(i);
        name_is_usable(entry, &mut names, &path.child("name"), found);
        if !entry.enabled_if.is_empty() {
            template_is_usable("PAT-004", &entry.enabled_if, &scope, &path.child("enabledIf"), found);
        }
        kind_of_patch_is_clear(entry, change, &path, found);
        for (j, definition) in entry.definitions.iter().enumerate() {
            if found.is_full() || change.allowance.borrow().is_over() {
                return;
            }
            definition_is_usable(definition, &scope, &path.child("definitions").index(j), found);
        }
    }
}

/// The context of the patches of a class.
struct PatchScope<'a> {
    spec: &'a ClusterClassSpec,
    /// The names of variables, in the order of the class.
    variables: Vec<&'a str>,
    defined: BTreeSet<&'a str>,
    /// Whether an extension may define others.
    is_open: bool,
    /// The remaining allowance of the class (DEC-44).
    allowance: &'a RefCell<SchemaAllowance>,
}

impl<'a> PatchScope<'a> {
    fn new(spec: &'a ClusterClassSpec, allowance: &'a RefCell<SchemaAllowance>) -> Self {
        let variables: Vec<&str> = spec.variables.iter().map(|variable| &*variable.name).collect();
        let defined = variables.iter().copied().collect();
        PatchScope { spec, variables, defined, is_open: spec.discovering_patches().next().is_some(), allowance }
    }

    /// The message about an undefined variable.
    fn unknown(&self, expression: &str, name: Option<&str>, found: &Findings) -> String {
        let unknown = "the ClusterClass defines no such variable";
        let known = || {
            let names = self.variables.iter().map(|name| format!("{name:?}"));
            format!("{unknown}; it defines {}", enumerated(names))
        };
        let builtin = || closest(expression, BUILTIN);
        let meant = || closest(name?, self.variables.iter().copied()).or_else(builtin);
        match name {
            _ if !found.is_worth_hints() => unknown.to_owned(),
            Some("builtin") => "name one of the builtin variables, such as builtin.cluster.name".to_owned(),
            _ if self.variables.is_empty() => "the ClusterClass defines no variables".to_owned(),
            _ => meant().map_or_else(known, |meant| format!("{unknown}; the closest one is {meant:?}")),
        }
    }
}

/// A patch has a unique name (PAT-001 to PAT-003).
fn name_is_usable<'a>(entry: &'a Patch, names: &mut BTreeSet<&'a str>, path: &Path, found: &mut Findings) {
    let name = &*entry.name;
    found.run("PAT-001", |found| {
        if name.is_empty() {
            found.required(path.clone(), "give the patch a name");
        }
    });
    found.run("PAT-002", |found| {
        if name == model::variables::INLINE {
            found.required(path.clone(), "cannot be \"inline\", which marks definitions of the ClusterClass itself");
        }
    });
    found.run("PAT-003", |found| {
        if !names.insert(name) {
            found.invalid(path.clone(), name, "another patch has the same name");
        }
    });
}

/// A patch is a list of definitions or a call of an extension (PAT-005 to PAT-008).
fn kind_of_patch_is_clear(entry: &Patch, change: &ClassChange<'_>, path: &Path, found: &mut Findings) {
    let is_inline = entry.definitions.is_present();
    found.run("PAT-005", |found| {
        if !is_inline && entry.external.is_none() {
            found.required(path.clone(), "set definitions or external");
        }
    });
    let Some(external) = &entry.external else { return };
    found.run("PAT-006", |found| {
        if is_inline {
            found.invalid(path.clone(), &*entry.name, "set definitions or external, not both");
        }
    });
    let path = path.child("external");
    found.run("PAT-007", |found| {
        if !change.settings.gates.runtime_sdk {
            found.forbidden(path.clone(), "external patches need the feature gate RuntimeSDK");
        }
    });
    found.run("PAT-008", |found| {
        if external.generate_patches_extension.is_empty() && external.validate_topology_extension.is_empty() {
            let detail = "set generatePatchesExtension or validateTopologyExtension; discovery of variables alone \
                          patches nothing";
            found.invalid(path.clone(), &*entry.name, detail);
        }
    });
}

/// Checks the JSON patches of a definition, then its selector.
fn definition_is_usable(definition: &PatchDefinition, scope: &PatchScope<'_>, path: &Path, found: &mut Findings) {
    for (k, operation) in definition.json_patches.iter().enumerate() {
        if found.is_full() {
            return;
        }
        json_patch_is_usable(operation, scope, &path.child("jsonPatches").index(k), found);
    }
    selector_is_usable(&definition.selector, scope.spec, &path.child("selector"), found);
}

const OPERATIONS: [&str; 3] = ["add", "remove", "replace"];

fn json_patch_is_usable(operation: &JsonPatch, scope: &PatchScope<'_>, path: &Path, found: &mut Findings) {
    found.run("PAT-010", |found| {
        if !OPERATIONS.contains(&&*operation.op) {
            let detail = "supported values: \"add\", \"remove\", \"replace\"";
            found.error(ErrorKind::NotSupported, path.child("op"), &*operation.op, detail);
        }
    });
    found.run("PAT-011", |found| {
        if !operation.path.starts_with("/spec") {
            found.invalid(
                path.child("path"),
                &*operation.path,
                "must start with /spec: patches change the spec of a template",
            );
        }
    });
    found.run("PAT-012", |found| arrays_are_changed_at_their_ends(operation, path, found));
    found.run("DEC-27", |found| path_says_what_it_means(operation, path, found));
    if matches!(&*operation.op, "add" | "replace") {
        value_is_given(operation, scope, path, found);
    }
}

/// Elements of arrays are added in front (`0`) or at the end (`-`), and never addressed otherwise (PAT-012).
fn arrays_are_changed_at_their_ends(operation: &JsonPatch, path: &Path, found: &mut Findings) {
    for index in operation.path.split('/').filter_map(decimal_integer) {
        let detail = match &*operation.op {
            "add" if index != 0 => format!("cannot address element {index}: use 0 for the front or - for the end"),
            "remove" | "replace" => {
                format!("cannot address element {index}: {} the whole array, or a field above it", operation.op)
            }
            _ => continue,
        };
        found.invalid(path.child("path"), &*operation.path, detail);
    }
}

/// Valid paths that probably do not have the intended effect (DEC-27).
fn path_says_what_it_means(operation: &JsonPatch, path: &Path, found: &mut Findings) {
    let text = &*operation.path;
    let path = path.child("path");
    if text.starts_with("/spec") && text != "/spec" && !text.starts_with("/spec/") {
        found.warn_at(&path, format!("{text:?} is not below /spec; templates have no such field"));
    }
    if text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
        found.warn_at(&path, format!("{text:?} has a \"~\" that is neither ~0 (for ~) nor ~1 (for /)"));
    }
    if operation.op == "remove" && text.ends_with("/-") {
        found.warn_at(&path, format!("{text:?} removes the element behind the last, which never exists"));
    }
}

/// An operation that sets a value has one (PAT-013 to PAT-021).
fn value_is_given(operation: &JsonPatch, scope: &PatchScope<'_>, path: &Path, found: &mut Findings) {
    found.run("PAT-013", |found| {
        if operation.value.is_none() && operation.value_from.is_none() {
            found.invalid(path.clone(), &*operation.path, "set value or valueFrom; null does not count as a value");
        }
    });
    let Some(source) = &operation.value_from else { return };
    found.run("PAT-014", |found| {
        if operation.value.is_some() {
            found.invalid(path.clone(), &*operation.path, "set value or valueFrom, not both");
        }
    });
    source_is_usable(source, scope, &path.child("valueFrom"), found);
}

fn source_is_usable(source: &JsonPatchValue, scope: &PatchScope<'_>, path: &Path, found: &mut Findings) {
    let (has_variable, has_template) = (!source.variable.is_empty(), !source.template.is_empty());
    found.run("PAT-016", |found| {
        if !has_variable && !has_template {
            found.invalid(path.clone(), "", "set variable or template");
        }
    });
    found.run("PAT-017", |found| {
        if has_variable && has_template {
            found.invalid(path.clone(), &*source.variable, "set variable or template, not both");
        }
    });
    if has_template {
        template_is_usable("PAT-018", &source.template, scope, &path.child("template"), found);
    }
    if !has_variable {
        return;
    }
    let path = path.child("variable");
    let (variable, name) = (&*source.variable, name_of(&source.variable));
    if variable.starts_with("builtin.") {
        found.run("PAT-019", |found| {
            if !BUILTIN.contains(&variable) {
                let hint = if found.is_worth_hints() { builtin_hint(variable) } else { String::new() };
                found.invalid(path.clone(), variable, format!("is not a builtin variable{hint}"));
            }
        });
        return;
    }
    found.run("PAT-021", |found| {
        if name.is_none_or(|name| !scope.defined.contains(name)) {
            found.invalid(path.clone(), variable, scope.unknown(variable, name, found));
        }
    });
}

/// A template parses (PAT-004, PAT-018), and the variables that it refers to are defined (DEC-5).
fn template_is_usable(rule: RuleId, template: &str, scope: &PatchScope<'_>, path: &Path, found: &mut Findings) {
    {
        let mut allowance = scope.allowance.borrow_mut();
        if allowance.is_over() {
            return;
        }
        if let Err(exceeded) = allowance.compile(Template::footprint(template)) {
            return allowance.note_breach(path.clone(), exceeded);
        }
    }
    let parsed = match Template::parse("template", template, Functions::Sprig) {
        Ok(parsed) => parsed,
        Err(error) => {
            found.run(rule, |found| {
                let variables = scope.variables.iter().copied();
                let hint = found
                    .is_worth_hints()
                    .then(|| hints::template_hint(&error, template, Functions::Sprig, variables))
                    .flatten();
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                found.invalid(path.clone(), template, format!("{error}{hint}"));
            });
            return;
        }
    };
    // An extension may define any variable.
    if scope.is_open {
        return;
    }
    found.run("DEC-5", |found| {
        let names: BTreeSet<String> = parsed.fields().into_iter().filter_map(|path| path.into_iter().next()).collect();
        let is_defined = |name: &str| name == "builtin" || scope.defined.contains(name);
        for name in names.iter().filter(|name| !is_defined(name)) {
            let known = scope.variables.iter().copied().chain(["builtin"]);
            let meant = found.is_worth_warnings().then(|| closest(name, known)).flatten();
            let hint = meant.map(|meant| format!("; the closest one is .{meant}")).unwrap_or_default();
            let detail = format!(
                "the template refers to .{name}, which the ClusterClass does not define; it renders as <no value>{hint}"
            );
            found.warn_at(path, detail);
        }
    });
}

/// The variable of an expression: its first non-empty segment (PAT-021).
fn name_of(expression: &str) -> Option<&str> {
    expression.split(['.', '[']).find(|piece| !piece.is_empty())
}

/// A hint for an unknown builtin variable.
fn builtin_hint(variable: &str) -> String {
    let reads = |known: &str| {
        let rest = variable.strip_prefix(known)?;
        let part = match rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(position) if position.bytes().all(|byte| byte.is_ascii_digit()) => position.to_owned(),
            Some(key) => format!("{key:?}"),
            None => format!("{:?}", rest.strip_prefix('.')?),
        };
        let has_parts = known.ends_with('s');
        has_parts.then(|| format!("; a part is read by a template: {{{{ index .{known} {part} }}}}"))
    };
    if let Some(hint) = BUILTIN.iter().find_map(|known| reads(known)) {
        return hint;
    }
    match closest(variable, BUILTIN) {
        Some(meant) => format!("; the closest one is {meant:?}"),
        None => format!("; known are {}", known_below(variable)),
    }
}

/// The builtin variables next to a wrong one: those with the same beginning.
fn known_below(variable: &str) -> String {
    let mut beginning = variable;
    while let Some((parent, _)) = beginning.rsplit_once('.') {
        let near: Vec<&str> = BUILTIN.iter().copied().filter(|known| known.starts_with(parent)).collect();
        if !near.is_empty() && parent != "builtin" {
            return near.join(", ");
        }
        beginning = parent;
    }
    "builtin.cluster, builtin.controlPlane, builtin.machineDeployment, builtin.machinePool and what is below them"
        .to_owned()
}

/// Every builtin variable that a patch can name (PAT-020, BV-09).
const BUILTIN: [&str; 43] = [
    "builtin.cluster",
    "builtin.cluster.name",
    "builtin.cluster.namespace",
    "builtin.cluster.uid",
    "builtin.cluster.metadata.labels",
    "builtin.cluster.metadata.annotations",
    "builtin.cluster.topology",
    "builtin.cluster.topology.classRef.name",
    "builtin.cluster.topology.classRef.namespace",
    "builtin.cluster.topology.class",
    "builtin.cluster.topology.classNamespace",
    "builtin.cluster.topology.version",
    "builtin.cluster.network",
    "builtin.cluster.network.serviceDomain",
    "builtin.cluster.network.services",
    "builtin.cluster.network.pods",
    "builtin.controlPlane",
    "builtin.controlPlane.name",
    "builtin.controlPlane.replicas",
    "builtin.controlPlane.version",
    "builtin.controlPlane.metadata.labels",
    "builtin.controlPlane.metadata.annotations",
    "builtin.controlPlane.machineTemplate.infrastructureRef.name",
    "builtin.machineDeployment",
    "builtin.machineDeployment.class",
    "builtin.machineDeployment.name",
    "builtin.machineDeployment.replicas",
    "builtin.machineDeployment.topologyName",
    "builtin.machineDeployment.version",
    "builtin.machineDeployment.metadata.labels",
    "builtin.machineDeployment.metadata.annotations",
    "builtin.machineDeployment.bootstrap.configRef.name",
    "builtin.machineDeployment.infrastructureRef.name",
    "builtin.machinePool",
    "builtin.machinePool.class",
    "builtin.machinePool.name",
    "builtin.machinePool.replicas",
    "builtin.machinePool.topologyName",
    "builtin.machinePool.version",
    "builtin.machinePool.metadata.labels",
    "builtin.machinePool.metadata.annotations",
    "builtin.machinePool.bootstrap.configRef.name",
    "builtin.machinePool.infrastructureRef.name",
];

/// A selector matches something of the class (PAT-030 to PAT-034).
fn selector_is_usable(selector: &PatchSelector, spec: &ClusterClassSpec, path: &Path, found: &mut Findings) {
    let wanted = &selector.match_resources;
    let names = |names: &Option<ClassNames>| names.as_ref().is_some_and(|names| !names.names.is_empty());
    let infrastructure = wanted.infrastructure_cluster == Some(true);
    let control_plane = wanted.control_plane == Some(true);
    if !infrastructure
        && !control_plane
        && !names(&wanted.machine_deployment_class)
        && !names(&wanted.machine_pool_class)
    {
        found.run("PAT-030", |found| {
            let detail = "selects nothing: set one of controlPlane, infrastructureCluster, machineDeploymentClass and \
                          machinePoolClass in matchResources";
            found.invalid(path.clone(), shown(selector), detail);
        });
        return;
    }
    let path = path.child("matchResources");
    found.run("PAT-031", |found| {
        if infrastructure && !matches(selector, &spec.infrastructure.template_ref) {
            let detail = mismatch(selector, "the infrastructure", [&spec.infrastructure.template_ref], found);
            found.invalid(path.child("infrastructureCluster"), true, detail);
        }
    });
    found.run("PAT-032", |found| {
        let machines = &spec.control_plane.machine_infrastructure.template_ref;
        let is_machines = machines.is_defined() && matches(selector, machines);
        if control_plane && !is_machines && !matches(selector, &spec.control_plane.template_ref) {
            let whom = "the control plane and its machines";
            let templates =
                [&spec.control_plane.template_ref].into_iter().chain(machines.is_defined().then_some(machines));
            found.invalid(path.child("controlPlane"), true, mismatch(selector, whom, templates, found));
        }
    });
    let deployments: Vec<WorkerClassTemplates<'_>> = spec
        .workers
        .machine_deployments
        .iter()
        .map(|class| (&*class.class, [&class.bootstrap.template_ref, &class.infrastructure.template_ref]))
        .collect();
    let pools: Vec<WorkerClassTemplates<'_>> = spec
        .workers
        .machine_pools
        .iter()
        .map(|class| (&*class.class, [&class.bootstrap.template_ref, &class.infrastructure.template_ref]))
        .collect();
    found.run("PAT-033", |found| {
        let path = path.child("machineDeploymentClass.names");
        classes_match(selector, wanted.machine_deployment_class.as_ref(), &deployments, &path, found);
    });
    found.run("PAT-034", |found| {
        let path = path.child("machinePoolClass.names");
        classes_match(selector, wanted.machine_pool_class.as_ref(), &pools, &path, found);
    });
}

/// The name of a worker class, and its templates.
type WorkerClassTemplates<'a> = (&'a str, [&'a TemplateRef; 2]);

/// Every name selects a class with a template of the selected kind.
fn classes_match(
    selector: &PatchSelector,
    names: Option<&ClassNames>,
    classes: &[WorkerClassTemplates<'_>],
    path: &Path,
    found: &mut Findings,
) {
    for (n, name) in names.into_iter().flat_map(|names| &names.names).enumerate() {
        if found.is_full() {
            return;
        }
        if let Some(fault) = pattern_fault(name) {
            // The rest of the list is not checked.
            return found.invalid(path.index(n), &**name, fault);
        }
        let mut selected = classes.iter().filter(|(class, _)| selects(name, class)).peekable();
        if selected.peek().is_none() {
            let known = match found.is_worth_hints() {
                true if classes.is_empty() => "; the ClusterClass has none".to_owned(),
                true => {
                    let known = enumerated(classes.iter().map(|(class, _)| format!("{class:?}")));
                    format!("; the ClusterClass has {known}")
                }
                false => String::new(),
            };
            found.invalid(path.index(n), &**name, format!("selects no class{known}"));
        } else if !selected.any(|(_, templates)| templates.iter().any(|template| matches(selector, template))) {
            let templates =
                classes.iter().filter(|(class, _)| selects(name, class)).flat_map(|(_, templates)| *templates);
            let detail = mismatch(selector, "the selected classes", templates, found);
            found.invalid(path.index(n), &**name, detail);
        }
    }
}

/// The fault of a pattern with `*`.
fn pattern_fault(name: &str) -> Option<String> {
    match name.matches('*').count() {
        0 => return None,
        1 => {}
        _ => return Some("can contain only one \"*\"".to_owned()),
    }
    if !name.starts_with('*') && !name.ends_with('*') {
        return Some("can have \"*\" only at its beginning or at its end".to_owned());
    }
    label_key_faults(&name.replace('*', "a")).into_iter().next()
}

/// Whether a name or pattern selects a class.
fn selects(name: &str, class: &str) -> bool {
    match (name.strip_prefix('*'), name.strip_suffix('*')) {
        (Some(end), _) => class.ends_with(end),
        (None, Some(beginning)) => class.starts_with(beginning),
        (None, None) => name == class,
    }
}

/// Whether a selector matches a template: kind and apiVersion are equal texts.
fn matches(selector: &PatchSelector, template: &TemplateRef) -> bool {
    selector.kind == template.kind && selector.api_version == template.api_version
}

fn mismatch<'a>(
    selector: &PatchSelector,
    whom: &str,
    templates: impl IntoIterator<Item = &'a TemplateRef>,
    found: &Findings,
) -> String {
    let PatchSelector { kind, api_version, .. } = selector;
    let wanted = format!("no template of {whom} has kind {kind} and apiVersion {api_version}");
    if !found.is_worth_hints() {
        return wanted;
    }
    let there: BTreeSet<String> = templates
        .into_iter()
        .filter(|template| !template.kind.is_empty())
        .map(|template| format!("{} of {}", template.kind, template.api_version))
        .collect();
    if there.is_empty() {
        return wanted;
    }
    format!("{wanted}; there is {}", enumerated(there))
}

fn shown(selector: &PatchSelector) -> String {
    format!("{} {}", selector.api_version, selector.kind)
}
