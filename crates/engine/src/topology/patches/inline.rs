//! Inline patches: definitions, selectors, conditions and JSON patches (PE-12 to PE-18).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::Value;

use super::compiler::{
    CompiledDefinition, CompiledOperation, CompiledPatch, EvaluationError, OperationError, PatchAction, ValueSource,
    shown,
};
use super::pointer::Pointer;
use super::scopes::ScopeId;
use super::trace::{OperationPosition, PatchLocation, SkipReason, Undefined};
use super::{ItemName, PatchRun};
use crate::topology::Failure;
use crate::topology::origin::PatchOrigin;

/// An operation with its value for an item.
type ReadyOperation<'p> = (&'p Pointer, Cow<'p, PatchOperation>, &'p PatchOrigin);

/// The result of `enabledIf` for the items of a scope.
#[derive(Clone)]
enum EnabledIf {
    Met,
    NotMet(Arc<str>),
    Wrong(String),
}

/// An operation that failed for an item.
struct FailedOperation {
    place: OperationPosition,
    /// The field of the operation that is wrong; empty for the operation as a whole.
    field: &'static str,
    problem: String,
}

impl FailedOperation {
    fn new(place: OperationPosition, error: &OperationError) -> Self {
        FailedOperation { place, field: error.field(), problem: error.to_string() }
    }
}

impl PatchRun<'_, '_> {
    /// Generates and applies the definitions of a patch. Errors are collected over all items (PE-18).
    pub(super) fn inline(&mut self, position: usize, patch: &CompiledPatch) -> Result<(), Failure> {
        let mut errors = Vec::new();
        let mut conditions: BTreeMap<ScopeId, EnabledIf> = BTreeMap::new();
        let mut is_used = vec![false; patch.definitions.len()];
        for at in 0..self.items.len() {
            let mut is_broken = false;
            for (number, definition) in patch.definitions.iter().enumerate() {
                let Some(item) = self.items.get(at) else { continue };
                let (name, scope) = (item.name.clone(), item.scope);
                if !item.is_selected(&definition.selected) {
                    self.skip(patch, Some(number), Some(name), SkipReason::NotSelected);
                    continue;
                }
                if let Some(is_used) = is_used.get_mut(number) {
                    *is_used = true;
                }
                match self.condition(patch, scope, &name, &mut conditions) {
                    EnabledIf::Met => {}
                    EnabledIf::NotMet(rendered) => {
                        self.skip(patch, Some(number), Some(name), SkipReason::Disabled { rendered });
                        continue;
                    }
                    EnabledIf::Wrong(problem) => {
                        if !is_broken {
                            errors.push(self.error(position, patch, PatchLocation::EnabledIf, Some(name), problem));
                        }
                        is_broken = true;
                        continue;
                    }
                }
                let wrong = match self.generate_inline(patch, definition, scope, &name) {
                    // Later mismatches may be consequences of earlier errors.
                    Ok(_) if is_broken => continue,
                    Ok(ready) => self.apply_inline(at, definition, &ready).err().into_iter().collect(),
                    Err(wrong) => wrong,
                };
                is_broken |= !wrong.is_empty();
                errors.extend(wrong.into_iter().map(|FailedOperation { place, field, problem }| {
                    let place = PatchLocation::Operation { position: place, field };
                    self.error(position, patch, place, Some(name.clone()), problem)
                }));
            }
            self.count_growth(at)?;
        }
        for (number, _) in is_used.iter().enumerate().filter(|(_, is_used)| !**is_used) {
            self.skip(patch, Some(number), None, SkipReason::SelectsNothing);
        }
        if errors.is_empty() { Ok(()) } else { Err(Failure::Patches(errors)) }
    }

    /// Whether the patch is enabled for the items of a scope (PE-16, TV-14).
    fn condition(
        &mut self,
        patch: &CompiledPatch,
        scope: ScopeId,
        item: &Arc<ItemName>,
        known: &mut BTreeMap<ScopeId, EnabledIf>,
    ) -> EnabledIf {
        let expression = match &patch.enabled_if {
            None => return EnabledIf::Met,
            Some(Err(problem)) => return EnabledIf::Wrong(problem.to_string()),
            Some(Ok(expression)) => expression,
        };
        if let Some(condition) = known.get(&scope) {
            return condition.clone();
        }
        let (result, is_new) = self.scopes.evaluate(expression, scope, &patch.visible);
        let condition = match result {
            Ok(rendered) => {
                if rendered.shows_no_value && is_new {
                    self.note_undefined(patch, None, item);
                }
                match rendered.value {
                    Value::Bool(true) => EnabledIf::Met,
                    other => EnabledIf::NotMet(shown(&other, expression.is_sensitive)),
                }
            }
            Err(error) => {
                EnabledIf::Wrong(EvaluationError { error, is_sensitive: expression.is_sensitive }.to_string())
            }
        };
        known.insert(scope, condition.clone());
        condition
    }

    /// The operations of a definition with their values (PE-17).
    fn generate_inline<'p>(
        &mut self,
        patch: &'p CompiledPatch,
        definition: &'p CompiledDefinition,
        scope: ScopeId,
        item: &Arc<ItemName>,
    ) -> Result<Vec<ReadyOperation<'p>>, Vec<FailedOperation>> {
        let mut ready = Vec::with_capacity(definition.operations.len());
        let mut wrong = Vec::new();
        for operation in &definition.operations {
            let made = match &operation.action {
                Ok(action) => self
                    .make(patch, operation, action, scope, item)
                    .map(|made| (&action.pointer, made, &operation.origin))
                    .map_err(|error| FailedOperation::new(operation.place, &error)),
                Err(error) => Err(FailedOperation::new(operation.place, error)),
            };
            match made {
                Ok(made) => ready.push(made),
                Err(failed) => wrong.push(failed),
            }
        }
        if wrong.is_empty() { Ok(ready) } else { Err(wrong) }
    }

    fn make<'p>(
        &mut self,
        patch: &CompiledPatch,
        operation: &CompiledOperation,
        action: &'p PatchAction,
        scope: ScopeId,
        item: &Arc<ItemName>,
    ) -> Result<Cow<'p, PatchOperation>, OperationError> {
        let (value, make) = match &action.value {
            ValueSource::Fixed(fixed) => return Ok(Cow::Borrowed(fixed)),
            ValueSource::Variable { path, make } => {
                let variables = self.scopes.merged(scope, &patch.visible).as_object();
                let value = variables.map(|variables| path.resolve(variables)).transpose()?;
                (value.cloned().unwrap_or_default(), *make)
            }
            ValueSource::Template { template, make } => {
                let (result, is_new) = self.scopes.evaluate(template, scope, &patch.visible);
                let rendered =
                    result.map_err(|error| EvaluationError { error, is_sensitive: template.is_sensitive })?;
                if rendered.shows_no_value && is_new {
                    self.note_undefined(patch, Some(operation.place), item);
                }
                (rendered.value, *make)
            }
        };
        Ok(Cow::Owned(action.pointer.make(make, value)?))
    }

    /// Applies the operations of a definition to an item (PE-19 to PE-21).
    fn apply_inline(
        &mut self,
        at: usize,
        definition: &CompiledDefinition,
        ready: &[ReadyOperation<'_>],
    ) -> Result<(), FailedOperation> {
        let Some(item) = self.items.get_mut(at) else { return Ok(()) };
        let document = item.document();
        let operations = || ready.iter().map(|(pointer, operation, origin)| (*pointer, &**operation, *origin));
        let done = match definition.is_below_spec {
            true => document.apply(operations()),
            false => document.within_places(|scratch| scratch.apply(operations())),
        };
        done.map_err(|(failed, error)| {
            let place = definition.operations.get(failed).map(|operation| operation.place);
            let place = place.unwrap_or(OperationPosition { definition: 0, operation: failed });
            FailedOperation { place, field: "path", problem: error.to_string() }
        })
    }

    fn note_undefined(&mut self, patch: &CompiledPatch, operation: Option<OperationPosition>, item: &Arc<ItemName>) {
        let is_known = |known: &Undefined| known.patch == patch.name && known.operation == operation;
        if !self.trace.undefined.iter().any(is_known) {
            self.trace.undefined.push(Undefined { patch: patch.name.clone(), operation, item: item.clone() });
        }
    }
}
