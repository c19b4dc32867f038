//! The rules of a schema node: compiled once, run on values (CEL-020 to CEL-026).

use std::sync::Arc;

use serde_json::Value;

use super::field_path;
use super::{Allowance, Definition, Schema, Step, Unusable, ValidationRule, Violation};
use crate::budget::{Exceeded, Stop};
use crate::cel::{Budget, CelCost, Decl, Fault, Program, Wanted};
use crate::field::{ErrorKind, lengthen, point, shortened};
use golang::regexp::Regex;

/// How many violations of one value are kept.
const KEPT: usize = 1000;

/// How many bytes their texts may have together.
const KEPT_BYTES: usize = 4 << 20;

/// What a byte of an expression takes once it is compiled, and a node of the schema that expressions see, in bytes at most.
const COMPILED_BYTE: usize = 160;
const DECLARED_NODE: usize = 256;

/// What a byte of a name takes there: the name itself, and escaped it is up to nine times as long.
const DECLARED_BYTE: usize = 10;

/// The rules of a node.
#[derive(Debug)]
pub(super) struct Rules {
    /// None when the node has no type (CEL-007).
    decl: Option<Decl>,
    pub(super) rules: Vec<Rule>,
    /// Whether any rule is a transition rule.
    uses_old: bool,
}

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    source: ValidationRule,
    kind: ErrorKind,
    /// The field path as errors have it, with what stands in front of it.
    field_path: String,
    program: Result<Program, String>,
    message: Option<Result<Program, String>>,
}

impl Rules {
    /// Compiles the rules of a node, if it has any; as a Kubernetes object has them at its root where asked (CEL-008).
    ///
    /// # Errors
    /// When the allowance does not suffice (DEC-44).
    pub(super) fn compile(
        node: &Definition,
        with_pseudo_fields: bool,
        allowance: &mut Allowance,
    ) -> Result<Option<Arc<Rules>>, Unusable> {
        if node.validations.is_empty() {
            return Ok(None);
        }
        allowance.compile(declared(node))?;
        let decl = if with_pseudo_fields { Decl::with_pseudo_fields(node) } else { Decl::of(node) };
        let rules = node.validations.iter().enumerate().map(|(i, rule)| {
            let compiled = Rule::compile(rule, node, decl.as_ref(), allowance);
            compiled.map_err(|error| error.below(|| format!(".x-kubernetes-validations[{i}]")))
        });
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        let uses_old = rules.iter().any(Rule::uses_old);
        Ok(Some(Arc::new(Rules { decl, rules, uses_old })))
    }

    /// Whether expressions can speak of the node.
    pub(super) fn has_type(&self) -> bool {
        self.decl.is_some()
    }

    /// The smallest serialised size of a value, in bytes.
    pub(super) fn min_size(&self) -> u64 {
        self.decl.as_ref().map_or(1, |decl| decl.min_size)
    }
}

/// What a node and everything below it take as expressions see them. Each rule has a declaration of its own.
fn declared(node: &Definition) -> usize {
    let below = node.children().map(|(step, child)| match step {
        Step::Property(name) => declared(child).saturating_add(name.len().saturating_mul(DECLARED_BYTE)),
        _ => declared(child),
    });
    below.fold(DECLARED_NODE, usize::saturating_add)
}

impl Rule {
    fn compile(
        rule: &ValidationRule,
        node: &Definition,
        decl: Option<&Decl>,
        allowance: &mut Allowance,
    ) -> Result<Rule, Unusable> {
        if allowance.stop().is_due() {
            return Err(Unusable::Stopped);
        }
        let mut compiled = |text: &str, wanted| {
            let decl = decl.ok_or("the node has no type that expressions know")?;
            Program::compile(text, decl, wanted, &mut |pattern| pattern_of(pattern, allowance))
        };
        let program = compiled(&rule.rule, Wanted::Bool);
        let message = (program.is_ok() && !rule.message_expression.trim().is_empty())
            .then(|| compiled(&rule.message_expression, Wanted::Text));
        let kind = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => ErrorKind::Forbidden,
            Some("FieldValueRequired") => ErrorKind::Required,
            Some("FieldValueDuplicate") => ErrorKind::Duplicate,
            _ => ErrorKind::Invalid,
        };
        // What does not compile is not kept. A pattern that did not fit has left nothing of the allowance.
        let kept = if program.is_ok() { rule.rule.len() + rule.message_expression.len() } else { 0 };
        allowance.compile(size_of::<Rule>() + kept * COMPILED_BYTE)?;
        let field_path = field_path::normalised(&rule.field_path, node).map(|path| format!(".{path}"));
        Ok(Rule {
            source: rule.clone(),
            kind,
            field_path: field_path.filter(|_| !rule.field_path.is_empty()).unwrap_or_default(),
            program,
            message,
        })
    }

    /// What keeps the rule from running (CEL-009).
    pub(super) fn mistake(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    /// What keeps its message expression from running (CEL-009).
    pub(super) fn message_mistake(&self) -> Option<&str> {
        self.message.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// The mistake of the rule, with the name that may have been meant.
    pub(super) fn hinted_mistake(&self, rules: &Rules) -> Option<String> {
        hinted(&self.source.rule, rules, Wanted::Bool)
    }

    /// The same of its message expression.
    pub(super) fn hinted_message_mistake(&self, rules: &Rules) -> Option<String> {
        hinted(&self.source.message_expression, rules, Wanted::Text)
    }

    /// Whether it is a transition rule (CEL-021).
    pub(super) fn uses_old(&self) -> bool {
        self.program.as_ref().is_ok_and(Program::uses_old)
    }

    /// What one evaluation costs at most.
    pub(super) fn cost(&self) -> u64 {
        self.program.as_ref().map_or(0, |program| program.cost)
    }

    /// What one evaluation of its message expression costs at most.
    pub(super) fn message_cost(&self) -> u64 {
        self.message.as_ref().and_then(|message| message.as_ref().ok()).map_or(0, |program| program.cost)
    }

    /// The message without a message expression.
    fn plain_message(&self) -> String {
        match self.source.message.trim() {
            "" => format!("failed rule: {}", self.source.rule.trim()),
            message => message.to_owned(),
        }
    }
}

/// Compiles a pattern of a search; one that does not fit exhausts the allowance.
fn pattern_of(pattern: &str, allowance: &mut Allowance) -> Result<Regex, String> {
    allowance.pattern(pattern).map_err(|error| error.to_string())
}

/// The mistake of an expression, with the name that may have been meant.
fn hinted(text: &str, rules: &Rules, wanted: Wanted) -> Option<String> {
    // The memory of its patterns was taken when the rule was compiled.
    let mut allowance = Allowance::unlimited();
    let patterns = &mut |pattern: &str| pattern_of(pattern, &mut allowance);
    Program::mistake_with_hint(text, rules.decl.as_ref()?, wanted, patterns)
}

impl Schema {
    /// Whether this node or a core node below it has rules.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Rules that do not hold for `value` (CEL-020 to CEL-026); `old` is what stood in its place, if anything did.
    ///
    /// The value must be valid against the schema. A place is `.key` for a property, `[key]` for an additional property,
    /// `[0]` for an element. Costs nothing for a schema without rules; otherwise it ends within a budget, for all rules
    /// and values.
    pub fn rule_violations(&self, value: &Value, old: Option<&Value>) -> Vec<Violation> {
        self.rule_violations_until(value, old, &Stop::never())
    }

    /// The same; ends early when `stop` is due.
    pub fn rule_violations_until(&self, value: &Value, old: Option<&Value>, stop: &Stop) -> Vec<Violation> {
        match self.has_rules {
            true => self.broken_rules(value, old, self.rules.as_ref(), &mut Budget::new(), stop),
            false => Vec::new(),
        }
    }

    /// The same, at the cost of an object, and until `stop` is due.
    ///
    /// # Errors
    /// When the evaluation cost more than was left. The violations are those of the value by itself.
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

    /// The same with other rules at the root, and within what is left of a budget.
    pub(super) fn broken_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        root: Option<&Arc<Rules>>,
        budget: &mut Budget,
        stop: &Stop,
    ) -> Vec<Violation> {
        budget.heed(stop);
        let mut judge = Judge { budget, stop, is_secret: false, violations: Vec::new(), kept: 0 };
        // Whether the budget lasted is seen in the violations.
        let _ = judge.node(self, root.map(|rules| &**rules), value, old, &mut RuleLocation::default());
        judge.violations
    }
}

/// A budget is used up, or the time.
struct Exhausted;

/// Where a rule is evaluated.
#[derive(Default)]
struct RuleLocation {
    place: String,
    pointer: String,
    /// Whether the pointer leads to something around the place, because it would be too long.
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

struct Judge<'m> {
    budget: &'m mut Budget,
    stop: &'m Stop,
    /// Whether the node whose rules are run may hold a password: what expressions make of it is not told (DEC-34).
    is_secret: bool,
    violations: Vec<Violation>,
    /// Bytes of their texts.
    kept: usize,
}

impl Judge<'_> {
    /// The rules of a node, then those of its elements, additional properties and properties (CEL-020).
    fn node(
        &mut self,
        schema: &Schema,
        rules: Option<&Rules>,
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
        rules: &Rules,
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
                Ok(false) => self.broken(rule, rules, decl, value, old, place)?,
                Err(Fault::Spent) => return self.exhausted("CEL-026", rule, place, ""),
                Err(Fault::Failed(text)) => {
                    let text = if self.is_secret { "it failed".into() } else { text };
                    let detail = format!("{text}, while evaluating the rule {}", rule.source.rule.trim());
                    self.report("CEL-025", ErrorKind::Invalid, place, "", detail);
                }
            }
        }
        Ok(())
    }

    /// A rule that is false (CEL-022, CEL-023).
    fn broken(
        &mut self,
        rule: &Rule,
        rules: &Rules,
        decl: &Decl,
        value: &Value,
        old: Option<&Value>,
        place: &RuleLocation,
    ) -> Result<(), Exhausted> {
        let mut message = None;
        if let Some(Ok(program)) = rule.message.as_ref().filter(|_| !self.is_secret) {
            // An old value is known here only if some rule of the node asks for it.
            let old = old.filter(|_| rules.uses_old);
            if program.uses_old() && old.is_none() {
                message = None;
            } else {
                match program.message(decl, value, old, self.budget) {
                    Ok(text) => message = text,
                    Err(Fault::Spent) => {
                        let detail = "the message expression exceeds its budget";
                        self.report("CEL-023", ErrorKind::Invalid, place, &rule.field_path, detail.to_owned());
                        return Err(Exhausted);
                    }
                    Err(Fault::Failed(_)) => {}
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
        rule: &Rule,
        place: &RuleLocation,
        field_path: &str,
    ) -> Result<(), Exhausted> {
        let detail = format!(
            "the rule {} exceeds the budget of an evaluation, and no further rule is evaluated; limit the sizes of lists, maps and \
             texts, or make the rule simpler",
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
