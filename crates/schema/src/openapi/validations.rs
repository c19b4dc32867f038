//! Rules of a schema node: compiled once, evaluated on values (CEL-020 to CEL-026).

use std::sync::Arc;

use serde_json::Value;

use super::field_path;
use super::{ChildStep, Schema, SchemaAllowance, SchemaDefinition, SchemaError, ValidationRule, Violation};
use crate::budget::{Exceeded, Stop};
use crate::cel::{CelCost, Decl, EvalError, EvaluationBudget, PatternError, Program, ProgramError, ResultType};
use crate::field::{ErrorKind, lengthen, point, shortened};
use golang::regexp::Regex;

/// Maximum number of kept violations of one value.
const KEPT: usize = 1000;

/// Maximum bytes of their texts together.
const KEPT_BYTES: usize = 4 << 20;

/// Upper bound of the memory per byte of a compiled expression, and per schema node that expressions see, in bytes.
const COMPILED_BYTE: usize = 160;
const DECLARED_NODE: usize = 256;

/// Memory per byte of a property name in declarations: the name itself, and up to nine times its length escaped.
const DECLARED_BYTE: usize = 10;

/// The rules of a node.
#[derive(Debug)]
pub(super) struct CompiledRules {
    /// `None` if the node has no type (CEL-007).
    decl: Option<Decl>,
    pub(super) rules: Vec<CompiledRule>,
    /// Whether any rule is a transition rule.
    uses_old: bool,
}

/// A rule.
#[derive(Debug)]
pub(super) struct CompiledRule {
    source: ValidationRule,
    kind: ErrorKind,
    /// The field path in errors, with its prefix.
    field_path: String,
    program: Result<Program, ProgramError>,
    message: Option<Result<Program, ProgramError>>,
}

impl CompiledRules {
    /// Compiles the rules of a node, if any; at the root of a Kubernetes object with the fields of every object
    /// (CEL-008).
    ///
    /// # Errors
    /// When the allowance does not suffice (DEC-44).
    pub(super) fn compile(
        node: &SchemaDefinition,
        with_pseudo_fields: bool,
        allowance: &mut SchemaAllowance,
    ) -> Result<Option<Arc<CompiledRules>>, SchemaError> {
        if node.validations.is_empty() {
            return Ok(None);
        }
        allowance.compile(declared(node))?;
        let decl = if with_pseudo_fields { Decl::with_pseudo_fields(node) } else { Decl::for_node(node) };
        let rules = node.validations.iter().enumerate().map(|(i, rule)| {
            let compiled = CompiledRule::compile(rule, node, decl.as_ref(), allowance);
            compiled.map_err(|error| error.below(|| format!(".x-kubernetes-validations[{i}]")))
        });
        let rules: Vec<CompiledRule> = rules.collect::<Result<_, _>>()?;
        let uses_old = rules.iter().any(CompiledRule::uses_old);
        Ok(Some(Arc::new(CompiledRules { decl, rules, uses_old })))
    }

    /// Whether expressions can refer to the node.
    pub(super) fn has_type(&self) -> bool {
        self.decl.is_some()
    }

    /// Minimum serialised size of a value, in bytes.
    pub(super) fn min_size(&self) -> u64 {
        self.decl.as_ref().map_or(1, |decl| decl.min_size)
    }
}

/// Memory of the declaration of a node and its descendants. Each rule has a separate declaration.
fn declared(node: &SchemaDefinition) -> usize {
    let below = node.children().map(|(step, child)| match step {
        ChildStep::Property(name) => declared(child).saturating_add(name.len().saturating_mul(DECLARED_BYTE)),
        _ => declared(child),
    });
    below.fold(DECLARED_NODE, usize::saturating_add)
}

impl CompiledRule {
    fn compile(
        rule: &ValidationRule,
        node: &SchemaDefinition,
        decl: Option<&Decl>,
        allowance: &mut SchemaAllowance,
    ) -> Result<CompiledRule, SchemaError> {
        if allowance.stop().is_due() {
            return Err(SchemaError::Stopped);
        }
        let mut compiled = |text: &str, wanted| {
            let decl = decl.ok_or(ProgramError::NoType)?;
            Program::compile(text, decl, wanted, &mut |pattern| pattern_of(pattern, allowance))
        };
        let program = compiled(&rule.rule, ResultType::Bool);
        let message = (program.is_ok() && !rule.message_expression.trim().is_empty())
            .then(|| compiled(&rule.message_expression, ResultType::Text));
        let kind = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => ErrorKind::Forbidden,
            Some("FieldValueRequired") => ErrorKind::Required,
            Some("FieldValueDuplicate") => ErrorKind::Duplicate,
            _ => ErrorKind::Invalid,
        };
        // Rules that do not compile are not kept. A pattern that did not fit has exhausted the allowance.
        let kept = if program.is_ok() { rule.rule.len() + rule.message_expression.len() } else { 0 };
        allowance.compile(size_of::<CompiledRule>() + kept * COMPILED_BYTE)?;
        let field_path = field_path::normalised(&rule.field_path, node).map(|path| format!(".{path}"));
        Ok(CompiledRule {
            source: rule.clone(),
            kind,
            field_path: field_path.filter(|_| !rule.field_path.is_empty()).unwrap_or_default(),
            program,
            message,
        })
    }

    /// The compile error of the rule (CEL-009).
    pub(super) fn mistake(&self) -> Option<String> {
        self.program.as_ref().err().map(ToString::to_string)
    }

    /// The compile error of its message expression (CEL-009).
    pub(super) fn message_mistake(&self) -> Option<String> {
        self.message.as_ref()?.as_ref().err().map(ToString::to_string)
    }

    /// The compile error of the rule, with a suggestion for a misspelled name.
    pub(super) fn hinted_mistake(&self, rules: &CompiledRules) -> Option<String> {
        hinted(&self.source.rule, rules, ResultType::Bool)
    }

    /// The compile error of the message expression, with a suggestion.
    pub(super) fn hinted_message_mistake(&self, rules: &CompiledRules) -> Option<String> {
        hinted(&self.source.message_expression, rules, ResultType::Text)
    }

    /// Whether it is a transition rule (CEL-021).
    pub(super) fn uses_old(&self) -> bool {
        self.program.as_ref().is_ok_and(Program::uses_old)
    }

    /// Maximum cost of one evaluation.
    pub(super) fn cost(&self) -> u64 {
        self.program.as_ref().map_or(0, |program| program.cost)
    }

    /// Maximum cost of one evaluation of its message expression.
    pub(super) fn message_cost(&self) -> u64 {
        self.message.as_ref().and_then(|message| message.as_ref().ok()).map_or(0, |program| program.cost)
    }

    /// The function whose result has no maximum size, if the cost of the rule depends on one.
    pub(super) fn unbounded(&self) -> Option<&'static str> {
        self.program.as_ref().ok()?.unbounded
    }

    /// The function whose result has no maximum size, if the cost of the message expression depends on one.
    pub(super) fn unbounded_in_message(&self) -> Option<&'static str> {
        self.message.as_ref()?.as_ref().ok()?.unbounded
    }

    /// The message without a message expression.
    fn plain_message(&self) -> String {
        match self.source.message.trim() {
            "" => format!("failed rule: {}", self.source.rule.trim()),
            message => message.to_owned(),
        }
    }
}

/// Compiles the pattern of a search; one that does not fit exhausts the allowance.
fn pattern_of(pattern: &str, allowance: &mut SchemaAllowance) -> Result<Regex, PatternError> {
    allowance.pattern(pattern).map_err(|error| PatternError(error.to_string()))
}

/// The compile error of an expression, with a suggestion for a misspelled name.
fn hinted(text: &str, rules: &CompiledRules, wanted: ResultType) -> Option<String> {
    // The memory of its patterns was charged when the rule was compiled.
    let mut allowance = SchemaAllowance::unlimited();
    let patterns = &mut |pattern: &str| pattern_of(pattern, &mut allowance);
    Program::mistake_with_hint(text, rules.decl.as_ref()?, wanted, patterns)
}

impl Schema {
    /// Whether this node or a core node below it has rules.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Rules that `value` violates (CEL-020 to CEL-026); `old` is the previous value at its place, if any.
    ///
    /// The value must be valid against the schema. A place is `.key` for a property, `[key]` for an additional
    /// property, `[0]` for an element. Free for a schema without rules; otherwise bounded by a budget for all rules and
    /// values.
    pub fn rule_violations(&self, value: &Value, old: Option<&Value>) -> Vec<Violation> {
        self.rule_violations_until(value, old, &Stop::never())
    }

    /// As [`Schema::rule_violations`]; ends early when `stop` is due.
    pub fn rule_violations_until(&self, value: &Value, old: Option<&Value>, stop: &Stop) -> Vec<Violation> {
        match self.has_rules {
            true => self.broken_rules(value, old, self.rules.as_ref(), &mut EvaluationBudget::new(), stop),
            false => Vec::new(),
        }
    }

    /// As [`Schema::rule_violations`], within the cost budget of an object and until `stop` is due.
    ///
    /// # Errors
    /// When the evaluation exceeded the budget. The violations are those of the value by itself.
    pub fn rule_violations_at_cost(
        &self,
        value: &Value,
        old: Option<&Value>,
        cost: &mut CelCost,
        stop: &Stop,
    ) -> (Vec<Violation>, Result<(), Exceeded>) {
        match self.has_rules {
            true => cost.spend(|budget| self.broken_rules(value, old, self.rules.as_ref(), budget, stop)),
            false => (Vec::new(), Ok(())),
        }
    }

    /// Violations with other rules at the root, within the remaining budget.
    pub(super) fn broken_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        root: Option<&Arc<CompiledRules>>,
        budget: &mut EvaluationBudget,
        stop: &Stop,
    ) -> Vec<Violation> {
        budget.heed(stop);
        let mut judge = RuleEvaluator { budget, stop, is_secret: false, violations: Vec::new(), kept: 0 };
        // An exceeded budget shows in the violations.
        let _ = judge.node(self, root.map(|rules| &**rules), value, old, &mut RuleLocation::default());
        judge.violations
    }
}

/// A budget or the time is used up.
struct Exhausted;

/// The place at which a rule is evaluated.
#[derive(Default)]
struct RuleLocation {
    place: String,
    pointer: String,
    /// Whether the pointer refers to an enclosing value, because it would be too long.
    is_cut: bool,
}

impl RuleLocation {
    fn within<R>(&mut self, step: &str, key: &str, act: impl FnOnce(&mut Self) -> R) -> R {
        let (place, pointer, is_cut) = (self.place.len(), self.pointer.len(), self.is_cut);
        lengthen(&mut self.place, &[&shortened(step)]);
        self.is_cut = is_cut || !point(&mut self.pointer, key);
        let result = act(self);
        self.place.truncate(place);
        self.pointer.truncate(pointer);
        self.is_cut = is_cut;
        result
    }
}

struct RuleEvaluator<'m> {
    budget: &'m mut EvaluationBudget,
    stop: &'m Stop,
    /// Whether the node may hold a password: results of its expressions are not shown (DEC-34).
    is_secret: bool,
    violations: Vec<Violation>,
    /// Bytes of their texts.
    kept: usize,
}

/// A value that rules are evaluated with.
struct RuleInput<'v> {
    decl: &'v Decl,
    value: &'v Value,
    old: Option<&'v Value>,
}

impl RuleEvaluator<'_> {
    /// Evaluates the rules of a node, then those of its elements, additional properties and properties (CEL-020).
    fn node(
        &mut self,
        schema: &Schema,
        rules: Option<&CompiledRules>,
        value: &Value,
        old: Option<&Value>,
        place: &mut RuleLocation,
    ) -> Result<(), Exhausted> {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        if let Some(rules) = rules {
            self.is_secret = schema.has_secrets;
            self.rules(rules, value, old, place)?;
        }
        match value {
            Value::Array(elements) => {
                let Some(node) = schema.items.as_deref().filter(|node| node.has_rules) else { return Ok(()) };
                for (i, element) in elements.iter().enumerate() {
                    place.within(&format!("[{i}]"), &i.to_string(), |place| {
                        self.node(node, node.rules.as_deref(), element, None, place)
                    })?;
                }
            }
            Value::Object(members) => {
                let before = |name: &str| old.and_then(|old| old.as_object()?.get(name));
                if let Some(node) = schema.additional_properties.as_deref().filter(|node| node.has_rules) {
                    let free = members.iter().filter(|(name, _)| !schema.properties.contains_key(name));
                    for (name, member) in free {
                        place.within(&format!("[{name}]"), name, |place| {
                            self.node(node, node.rules.as_deref(), member, before(name), place)
                        })?;
                    }
                }
                for (name, node) in schema.properties.iter().filter(|(_, node)| node.has_rules) {
                    let Some(member) = members.get(name) else { continue };
                    place.within(&format!(".{name}"), name, |place| {
                        self.node(node, node.rules.as_deref(), member, before(name), place)
                    })?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        rules: &CompiledRules,
        value: &Value,
        old: Option<&Value>,
        place: &RuleLocation,
    ) -> Result<(), Exhausted> {
        for rule in &rules.rules {
            if self.stop.is_due() {
                return Err(Exhausted);
            }
            let program = match (&rule.program, &rules.decl) {
                (Ok(program), Some(decl)) => (program, decl),
                (Err(mistake), _) => {
                    let detail = format!("the rule cannot be compiled: {mistake}");
                    self.report("CEL-024", ErrorKind::Invalid, place, "", detail);
                    continue;
                }
                (Ok(_), None) => continue,
            };
            let (program, decl) = program;
            if program.uses_old() && old.is_none() {
                continue;
            }
            if self.budget.has_run_out() {
                return self.exhausted("CEL-026", rule, place, "");
            }
            match program.holds(decl, value, old, self.budget) {
                Ok(true) => {}
                Ok(false) => self.broken(rule, rules, &RuleInput { decl, value, old }, place)?,
                Err(EvalError::Spent) => return self.exhausted("CEL-026", rule, place, ""),
                Err(EvalError::Failed(text)) => {
                    let text = if self.is_secret { "it failed".into() } else { text };
                    let detail = format!("{text}, while evaluating the rule {}", rule.source.rule.trim());
                    self.report("CEL-025", ErrorKind::Invalid, place, "", detail);
                }
            }
        }
        Ok(())
    }

    /// The violation of a rule (CEL-022, CEL-023).
    fn broken(
        &mut self,
        rule: &CompiledRule,
        rules: &CompiledRules,
        input: &RuleInput<'_>,
        place: &RuleLocation,
    ) -> Result<(), Exhausted> {
        let RuleInput { decl, value, old } = *input;
        let mut message = None;
        if let Some(Ok(program)) = rule.message.as_ref().filter(|_| !self.is_secret) {
            // The old value is known only if a rule of the node uses it.
            let old = old.filter(|_| rules.uses_old);
            if program.uses_old() && old.is_none() {
                message = None;
            } else {
                match program.message(decl, value, old, self.budget) {
                    Ok(text) => message = text,
                    Err(EvalError::Spent) => {
                        let detail = "the message expression exceeds its budget";
                        self.report("CEL-023", ErrorKind::Invalid, place, &rule.field_path, detail.to_owned());
                        return Err(Exhausted);
                    }
                    Err(EvalError::Failed(_)) => {}
                }
            }
        }
        let detail = match rule.kind {
            ErrorKind::Duplicate => String::new(),
            _ => message.unwrap_or_else(|| rule.plain_message()),
        };
        self.report("CEL-022", rule.kind, place, &rule.field_path, detail);
        Ok(())
    }

    fn exhausted(
        &mut self,
        id: crate::field::RuleId,
        rule: &CompiledRule,
        place: &RuleLocation,
        field_path: &str,
    ) -> Result<(), Exhausted> {
        let detail = format!(
            "the rule {} exceeds the budget of an evaluation, and no further rule is evaluated; limit the sizes of \
             lists, maps and texts, or make the rule simpler",
            rule.source.rule.trim()
        );
        self.report(id, ErrorKind::Invalid, place, field_path, detail);
        Err(Exhausted)
    }

    fn report(
        &mut self,
        rule: crate::field::RuleId,
        kind: ErrorKind,
        place: &RuleLocation,
        field_path: &str,
        detail: String,
    ) {
        if self.violations.len() < KEPT && self.kept < KEPT_BYTES {
            let (mut at, pointer) = (place.place.clone(), place.pointer.clone());
            lengthen(&mut at, &[field_path]);
            self.kept += at.len() + pointer.len() + detail.len();
            self.violations.push(Violation { rule, kind, place: at, pointer, detail });
        }
    }
}

#[cfg(test)]
mod tests;
