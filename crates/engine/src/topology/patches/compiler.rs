//! The compiled patches of a class: everything that depends on the class alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::Value;

use super::pointer::{Pointer, PointerError, SetOperation};
use super::trace::OperationPosition;
use crate::topology::origin::PatchOrigin;
use golang::json;
use golang::template::{Functions, ParseError, Template, ValueError};
use model::hub::{
    ClassNames, ClusterClass, ExternalPatch, JsonPatch, Patch, PatchSelector, StatusVariable, TemplateRef,
};
use model::variables::{self, CompiledVariables, INLINE, PathError, VariablePath};
use schema::openapi::Schema;

/// The patches of a class, ready to be applied to any Cluster.
#[derive(Debug)]
pub(super) struct CompiledPatches {
    pub patches: Vec<CompiledPatch>,
    /// The number of expressions; they are numbered to cache results that are equal for all items.
    pub expressions: usize,
    /// The number of variable sources, see [`Visible::number`].
    pub sources: usize,
}

/// A patch.
#[derive(Debug)]
pub(super) struct CompiledPatch {
    pub name: Arc<str>,
    /// The variables that are visible to the patch (PE-08).
    pub visible: Arc<VisibleVariables>,
    pub enabled_if: Option<Result<Expression, ParseError>>,
    pub definitions: Vec<CompiledDefinition>,
    pub external: Option<ExternalPatch>,
    /// The origin of fields that an external patch sets.
    pub origin: PatchOrigin,
}

/// The variables with a definition of one source, which is a patch or the class itself (PE-08).
#[derive(Debug)]
pub(super) struct VisibleVariables {
    /// The number of the source in the class; patches with equal numbers see the same variables.
    pub number: usize,
    pub names: BTreeSet<String>,
    /// The names of secret variables (DEC-34).
    pub secrets: BTreeSet<String>,
    /// All names including the builtin variables, which a template uses that prints all of its data.
    everything: Arc<[String]>,
}

/// A definition of a patch.
#[derive(Debug)]
pub(super) struct CompiledDefinition {
    pub selected: SelectedTemplates,
    pub operations: Vec<CompiledOperation>,
    /// Whether only fields below `/spec` can change.
    pub is_below_spec: bool,
}

/// The templates of the class that a selector matches (PE-13).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SelectedTemplates {
    pub infrastructure: bool,
    pub control_plane: bool,
    pub control_plane_machines: bool,
    /// By the position of the class of machine deployments: bootstrap, infrastructure.
    pub machine_deployments: Vec<[bool; 2]>,
    /// By the position of the class of machine pools: bootstrap, infrastructure.
    pub machine_pools: Vec<[bool; 2]>,
}

/// An operation of a definition, or the reason for which it fails for all items.
#[derive(Debug)]
pub(super) struct CompiledOperation {
    pub place: OperationPosition,
    pub action: Result<PatchAction, OperationError>,
    pub origin: PatchOrigin,
}

/// An error of an operation or of its value.
#[derive(Debug, thiserror::Error)]
pub(super) enum OperationError {
    #[error(transparent)]
    Pointer(#[from] PointerError),
    #[error("unknown operation {0:?}: use add, remove or replace")]
    UnknownOperation(String),
    #[error("both value and valueFrom are set")]
    TwoValues,
    #[error("neither value nor valueFrom is set; null does not count as a value")]
    NoValue,
    #[error("value is not JSON: {0}")]
    NoJson(#[from] serde_json::Error),
    #[error("valueFrom has both variable and template")]
    TwoSources,
    #[error("valueFrom has neither variable nor template")]
    NoSource,
    #[error("valueFrom.variable: {0}")]
    Variable(#[from] PathError),
    #[error("valueFrom.{0}")]
    Template(#[from] ParseError),
    #[error("valueFrom.{0}")]
    Evaluation(#[from] EvaluationError),
}

impl OperationError {
    /// The field of the operation that is wrong; empty for the operation as a whole.
    pub(super) fn field(&self) -> &'static str {
        match self {
            OperationError::Pointer(_) => "path",
            OperationError::UnknownOperation(_) => "op",
            OperationError::NoJson(_) => "value",
            OperationError::TwoSources | OperationError::NoSource => "valueFrom",
            OperationError::Variable(_) => "valueFrom.variable",
            OperationError::Template(_) | OperationError::Evaluation(_) => "valueFrom.template",
            OperationError::TwoValues | OperationError::NoValue => "",
        }
    }
}

/// A failed evaluation of a template. The error of a sensitive template shows only its position, and is no `source`,
/// since its text may contain a secret (DEC-34).
#[derive(Debug, thiserror::Error)]
#[error("{}", redacted(.error.to_string(), *.is_sensitive))]
pub(super) struct EvaluationError {
    pub error: ValueError,
    pub is_sensitive: bool,
}

/// An error of a template; for sensitive templates only its position, since the text may show a secret (DEC-34).
fn redacted(problem: String, is_sensitive: bool) -> String {
    if !is_sensitive {
        return problem;
    }
    let mut parts = problem.splitn(5, ':');
    let place: Vec<&str> = parts.by_ref().take(4).collect();
    format!("{}: failed; the reason is hidden because it may contain a secret", place.join(":"))
}

/// The target and the value of an operation.
#[derive(Debug)]
pub(super) struct PatchAction {
    pub pointer: Pointer,
    pub value: ValueSource,
}

/// The source of an operation's value.
#[derive(Debug)]
pub(super) enum ValueSource {
    /// The class contains the value, or the operation needs none.
    Fixed(PatchOperation),
    Variable {
        path: VariablePath,
        make: SetOperation,
    },
    Template {
        template: Expression,
        make: SetOperation,
    },
}

/// A template with its dependencies.
#[derive(Debug)]
pub(super) struct Expression {
    pub template: Template,
    /// The number of the expression in the class.
    pub number: usize,
    /// The variables that it refers to, apart from `builtin`; `None` if they cannot be determined, or if it uses
    /// builtin variables that differ between items.
    pub shared: Option<Vec<String>>,
    /// Whether it refers to a secret (DEC-34).
    pub is_sensitive: bool,
}

const BUILTIN: &str = "builtin";

impl CompiledPatches {
    /// Compiles the patches of a class. An error in a part of them is reported when an item needs that part.
    pub(super) fn compile(class: &ClusterClass, variables: Option<&CompiledVariables>) -> Self {
        let status = variables::current(class).unwrap_or_default();
        let mut compiler = Compiler { class, status: &status, variables, sources: Vec::new(), expressions: 0 };
        let patches = class.spec.patches.iter().map(|patch| compiler.patch(patch)).collect();
        CompiledPatches { patches, expressions: compiler.expressions, sources: compiler.sources.len() }
    }
}

struct Compiler<'a> {
    class: &'a ClusterClass,
    status: &'a [StatusVariable],
    variables: Option<&'a CompiledVariables>,
    /// The sources of variables so far.
    sources: Vec<(String, Arc<VisibleVariables>)>,
    expressions: usize,
}

impl Compiler<'_> {
    fn patch(&mut self, patch: &Patch) -> CompiledPatch {
        let name: Arc<str> = (&*patch.name).into();
        let visible = self.visible(if patch.external.is_some() { &patch.name } else { INLINE });
        let enabled_if = (!patch.enabled_if.is_empty())
            .then(|| self.expression("enabledIf", &patch.enabled_if, &visible).map(|(expression, _)| expression));
        let definitions = patch.definitions.iter().enumerate().map(|(at, definition)| {
            let operations: Vec<_> = (definition.json_patches.iter().enumerate())
                .map(|(operation, json_patch)| {
                    let place = OperationPosition { definition: at, operation };
                    self.operation(json_patch, place, &name, &visible)
                })
                .collect();
            let is_below_spec = operations
                .iter()
                .all(|operation| operation.action.as_ref().map_or(true, |action| action.pointer.is_below("spec")));
            CompiledDefinition {
                selected: SelectedTemplates::select(&definition.selector, self.class),
                operations,
                is_below_spec,
            }
        });
        let definitions = definitions.collect();
        // It is unknown how an extension uses the variables that it gets.
        let origin = PatchOrigin {
            patch: name.clone(),
            definition: None,
            operation: 0,
            variables: Arc::default(),
            is_sensitive: !visible.secrets.is_empty(),
        };
        CompiledPatch { name, visible, enabled_if, definitions, external: patch.external.clone(), origin }
    }

    /// The variables with a definition from a source (PE-08).
    fn visible(&mut self, from: &str) -> Arc<VisibleVariables> {
        if let Some((_, known)) = self.sources.iter().find(|(source, _)| source == from) {
            return known.clone();
        }
        let is_defined = |variable: &&StatusVariable| {
            variable.definitions.iter().any(|definition| definition.from == from) && variable.name != BUILTIN
        };
        let names: BTreeSet<String> =
            self.status.iter().filter(is_defined).map(|variable| variable.name.clone()).collect();
        let secrets = names.iter().filter(|name| self.is_secret(name)).cloned().collect();
        let everything: BTreeSet<&str> = names.iter().map(String::as_str).chain([BUILTIN]).collect();
        let everything = everything.into_iter().map(str::to_owned).collect();
        let visible = Arc::new(VisibleVariables { number: self.sources.len(), names, secrets, everything });
        self.sources.push((from.to_owned(), visible.clone()));
        visible
    }

    /// Whether a variable may contain a password; a variable without a known definition may (DEC-34).
    fn is_secret(&self, name: &str) -> bool {
        match self.variables.and_then(|variables| variables.get(name)) {
            Some(variable) => variable.schema.as_ref().map_or(true, Schema::has_secrets),
            None => true,
        }
    }

    /// Compiles an operation (PE-17).
    fn operation(
        &mut self,
        operation: &JsonPatch,
        place: OperationPosition,
        patch: &Arc<str>,
        visible: &VisibleVariables,
    ) -> CompiledOperation {
        let mut variables: Arc<[String]> = Arc::default();
        let mut is_sensitive = false;
        let action = Pointer::parse(&operation.path).map_err(OperationError::from).and_then(|pointer| {
            let value = self.value(operation, &pointer, visible, &mut variables, &mut is_sensitive)?;
            Ok(PatchAction { pointer, value })
        });
        let (patch, definition, operation) = (patch.clone(), Some(place.definition), place.operation);
        let origin = PatchOrigin { patch, definition, operation, variables, is_sensitive };
        CompiledOperation { place, action, origin }
    }

    fn value(
        &mut self,
        operation: &JsonPatch,
        pointer: &Pointer,
        visible: &VisibleVariables,
        variables: &mut Arc<[String]>,
        is_sensitive: &mut bool,
    ) -> Result<ValueSource, OperationError> {
        let make = match &*operation.op {
            "add" => SetOperation::Add,
            "replace" => SetOperation::Replace,
            "remove" => return Ok(ValueSource::Fixed(pointer.remove())),
            other => return Err(OperationError::UnknownOperation(other.to_owned())),
        };
        match (&operation.value, &operation.value_from) {
            (Some(_), Some(_)) => Err(OperationError::TwoValues),
            (None, None) => Err(OperationError::NoValue),
            (Some(raw), None) => Ok(ValueSource::Fixed(pointer.make(make, json::value(raw.get())?)?)),
            (None, Some(source)) => match (source.variable.is_empty(), source.template.is_empty()) {
                (true, true) => Err(OperationError::NoSource),
                (false, false) => Err(OperationError::TwoSources),
                (false, true) => {
                    let path = VariablePath::parse(&source.variable)?;
                    *is_sensitive = visible.secrets.contains(path.name());
                    *variables = [named(std::iter::once(path.name()).chain(path.members()))].into();
                    Ok(ValueSource::Variable { path, make })
                }
                (true, false) => {
                    let (template, used) = self.expression("template", &source.template, visible)?;
                    *is_sensitive = template.is_sensitive;
                    *variables = used;
                    Ok(ValueSource::Template { template, make })
                }
            },
        }
    }

    /// Compiles a template; also returns the sorted names of the variables that it may use.
    fn expression(
        &mut self,
        name: &str,
        text: &str,
        visible: &VisibleVariables,
    ) -> Result<(Expression, Arc<[String]>), ParseError> {
        let template = Template::parse(name, text, Functions::Sprig)?;
        let fields = template.all_fields();
        let used: Arc<[String]> = match &fields {
            Some(fields) => {
                let names = fields.iter().map(|path| named(path.iter().map(String::as_str)));
                names.collect::<BTreeSet<_>>().into_iter().collect()
            }
            None => visible.everything.clone(),
        };
        let is_builtin = |name: &str| name.split('.').next() == Some(BUILTIN);
        let is_sensitive = used.iter().any(|name| visible.secrets.contains(name));
        let shared = fields
            .filter(|fields| fields.iter().all(|path| is_shared(path)))
            .map(|_| used.iter().filter(|name| !is_builtin(name)).cloned().collect());
        let number = self.expressions;
        self.expressions += 1;
        Ok((Expression { template, number, shared, is_sensitive }, used))
    }
}

/// The name of a used variable: the full path of a builtin variable, since each is a separate variable.
fn named<'a>(mut path: impl Iterator<Item = &'a str>) -> String {
    match path.next() {
        Some(BUILTIN) => path.fold(BUILTIN.to_owned(), |name, member| format!("{name}.{member}")),
        name => name.unwrap_or_default().to_owned(),
    }
}

/// Whether the value at a path is the same for all items, apart from overrides.
fn is_shared(path: &[String]) -> bool {
    path.first().is_none_or(|name| name != BUILTIN) || path.get(1).is_some_and(|part| part == "cluster")
}

impl SelectedTemplates {
    /// Selects the templates of the class that match a selector (PE-13).
    fn select(selector: &PatchSelector, class: &ClusterClass) -> Self {
        let spec = &class.spec;
        let wanted = &selector.match_resources;
        let is_meant =
            |template: &TemplateRef| template.kind == selector.kind && template.api_version == selector.api_version;
        let worker =
            |names: &Option<ClassNames>, class: &str, bootstrap: &TemplateRef, infrastructure: &TemplateRef| {
                let is_named = names.as_ref().is_some_and(|names| names.names.iter().any(|name| is_match(name, class)));
                [is_named && is_meant(bootstrap), is_named && is_meant(infrastructure)]
            };
        let control_plane = |template: &TemplateRef| wanted.control_plane == Some(true) && is_meant(template);
        let deployments = spec.workers.machine_deployments.iter().map(|class| {
            let (bootstrap, infrastructure) = (&class.bootstrap.template_ref, &class.infrastructure.template_ref);
            worker(&wanted.machine_deployment_class, &class.class, bootstrap, infrastructure)
        });
        let pools = spec.workers.machine_pools.iter().map(|class| {
            let (bootstrap, infrastructure) = (&class.bootstrap.template_ref, &class.infrastructure.template_ref);
            worker(&wanted.machine_pool_class, &class.class, bootstrap, infrastructure)
        });
        SelectedTemplates {
            infrastructure: wanted.infrastructure_cluster == Some(true) && is_meant(&spec.infrastructure.template_ref),
            control_plane: control_plane(&spec.control_plane.template_ref),
            control_plane_machines: spec.has_control_plane_machines()
                && control_plane(&spec.control_plane.machine_infrastructure.template_ref),
            machine_deployments: deployments.collect(),
            machine_pools: pools.collect(),
        }
    }
}

/// Whether a name or pattern matches a class of workers (PE-14).
fn is_match(pattern: &str, class: &str) -> bool {
    pattern == class
        || pattern.strip_prefix('*').is_some_and(|end| class.ends_with(end))
        || pattern.strip_suffix('*').is_some_and(|beginning| class.starts_with(beginning))
}

/// Maximum length of a shown value.
const SHOWN: usize = 100;

/// A value in the form that traces may show.
pub(super) fn shown(value: &Value, is_sensitive: bool) -> Arc<str> {
    if is_sensitive {
        return "(sensitive)".into();
    }
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_that_use_all_variables_have_one_list_of_them() {
        // DEC-44
        let operation = json!({"op": "add", "path": "/spec/a", "valueFrom": {"template": "{{ toJson . }}"}});
        let operations = [operation.clone(), operation];
        let class: ClusterClass = serde_json::from_value(json!({"spec": {
            "variables": [{"name": "a"}, {"name": "b"}],
            "patches": [{"name": "p", "definitions": [{"jsonPatches": operations}]}],
        }}))
        .unwrap();
        let compiled = CompiledPatches::compile(&class, None);
        let [one, other] = &*compiled.patches[0].definitions[0].operations else { panic!("two operations") };
        assert_eq!(*one.origin.variables, ["a", "b", "builtin"]);
        assert!(Arc::ptr_eq(&one.origin.variables, &other.origin.variables));
    }
}
