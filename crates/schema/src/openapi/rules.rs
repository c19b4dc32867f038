//! CEL rules of a definition (CEL-001 to CEL-013), and the keywords checked in the same stage.

use std::sync::Arc;

use serde_json::json;

use super::keywords::{example_of, keywords, report_at_place};
use super::validations::CompiledRules;
use super::{ChildStep, Schema, SchemaAllowance, SchemaDefinition, ValidationRule, field_path};
use crate::cel::{Decl, MAX_REQUEST, PER_RULE, PER_VARIABLE};
use crate::field::{ErrorKind, ErrorValue, Findings, Path};

/// Maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 2048;

/// Minimum size of a contribution that is named when a total is too large, and their maximum number.
const LARGE: u64 = 1_000_000;
const NAMED: usize = 4;

/// Reasons of a failed rule.
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The last stage of the check of a definition; `root` are the rules of its root (VAR-S-040 to VAR-S-047, CEL-001 to
/// CEL-013).
pub(super) fn rules_and_everything_else(
    definition: &SchemaDefinition,
    schema: &Schema,
    root: Option<&Arc<CompiledRules>>,
    path: &Path,
    allowance: &mut SchemaAllowance,
    found: &mut Findings,
) {
    let mut walk = RuleChecker { contributions: Vec::new(), total: 0, allowance };
    let place = NodePosition { path: path.clone(), cardinality: Some(1), items: None };
    walk.node(definition, schema, root, &place, found);
    found.run("CEL-012", |found| walk.total_is_bounded(path, found));
}

/// Position of a node.
#[derive(Clone)]
struct NodePosition {
    path: Path,
    /// Maximum number of values; `None` if unbounded.
    cardinality: Option<u64>,
    /// Path of the outermost `items` at or above the node.
    items: Option<Path>,
}

impl NodePosition {
    /// The position of a child with at most `most` values for each value of this node.
    fn below(&self, path: Path, most: Option<i64>) -> NodePosition {
        let most = most.map(|most| u64::try_from(most).unwrap_or(0));
        let cardinality = self.cardinality.zip(most).map(|(above, most)| above.saturating_mul(most));
        NodePosition { path, cardinality, items: self.items.clone() }
    }

    /// Maximum number of evaluations of the rules of a node (CEL-011).
    fn times(&self, rules: &CompiledRules) -> u64 {
        self.cardinality.unwrap_or(MAX_REQUEST / (rules.min_size() + 1))
    }
}

struct RuleChecker<'a> {
    /// The largest contributions, largest first.
    contributions: Vec<(u64, Path)>,
    total: u64,
    allowance: &'a mut SchemaAllowance,
}

impl RuleChecker<'_> {
    /// Checks a node and its descendants. Returns whether rules of the nodes above can be compiled (CEL-005).
    fn node(
        &mut self,
        node: &SchemaDefinition,
        schema: &Schema,
        rules: Option<&Arc<CompiledRules>>,
        place: &NodePosition,
        found: &mut Findings,
    ) -> bool {
        let path = &place.path;
        let (before, mut is_sound) = (found.error_count(), true);
        if self.allowance.is_over() || !keywords(node, schema, path, self.allowance, found) {
            return false;
        }
        is_sound &= found.error_count() == before;
        for ((step, child), schema) in node.children().zip(schema.children()) {
            let child_path = step.below(path);
            let place = match step {
                ChildStep::Items => {
                    let below = place.below(child_path, node.max_items);
                    NodePosition { items: below.items.or_else(|| Some(below.path.clone())), ..below }
                }
                ChildStep::AdditionalProperties => place.below(child_path, node.max_properties),
                _ => NodePosition { path: child_path, ..place.clone() },
            };
            is_sound &= self.node(child, schema, schema.rules.as_ref(), &place, found);
        }
        let at = path.child("x-kubernetes-validations");
        let before_texts = found.error_count();
        for (i, rule) in node.validations.iter().enumerate() {
            text_is_good(rule, node, &at.index(i), found);
        }
        is_sound &= found.error_count() == before_texts;
        if let Some(rules) = rules.filter(|_| is_sound) {
            self.compiled(node, rules, &at, place, found);
            if found.error_count() == before {
                found.run("CEL-013", |found| literals_keep_the_rules(node, schema, path, self.allowance, found));
            }
        }
        is_sound
    }

    /// Compile errors and costs of rules (CEL-005, CEL-009 to CEL-011).
    fn compiled(
        &mut self,
        node: &SchemaDefinition,
        rules: &Arc<CompiledRules>,
        at: &Path,
        place: &NodePosition,
        found: &mut Findings,
    ) {
        if !rules.has_type() {
            found.run("CEL-005", |found| {
                found
                    .internal(at.clone(), "rules cannot be set on a node whose type, or that of its elements, is open");
            });
            return;
        }
        for (i, (written, rule)) in node.validations.iter().zip(&rules.rules).enumerate() {
            let at = at.index(i);
            if let Some(mistake) = rule.mistake() {
                found.run("CEL-009", |found| {
                    let hinted = found.is_worth_hints().then(|| rule.hinted_mistake(rules)).flatten();
                    let detail = format!("compilation failed: {}", hinted.as_deref().unwrap_or(&mistake));
                    found.invalid(at.child("rule"), shown(written), detail);
                });
                continue;
            }
            if let Some(mistake) = rule.message_mistake() {
                found.run("CEL-009", |found| {
                    let hinted = found.is_worth_hints().then(|| rule.hinted_message_mistake(rules)).flatten();
                    let detail = format!("compilation failed: {}", hinted.as_deref().unwrap_or(&mistake));
                    found.invalid(at.child("messageExpression"), shown(written), detail);
                });
            }
            if let Some(items) = place.items.as_ref().filter(|_| rule.uses_old()) {
                found.run("CEL-010", |found| {
                    let detail = format!("oldSelf cannot be used, because elements below {items} have no old value");
                    found.invalid(at.child("rule"), &*written.rule, detail);
                });
            }
            found.run("CEL-011", |found| {
                let total = rule.cost().saturating_mul(place.times(rules));
                self.cost_is_bounded((total, rule.unbounded()), at.child("rule"), "rule", found);
                let message_cost = (rule.message_cost(), rule.unbounded_in_message());
                self.cost_is_bounded(message_cost, at.child("messageExpression"), "messageExpression", found);
            });
        }
    }

    /// The cost of an expression, and the function without a maximum size in it, if any.
    fn cost_is_bounded(
        &mut self,
        (cost, unbounded): (u64, Option<&str>),
        path: Path,
        what: &str,
        found: &mut Findings,
    ) {
        if cost > PER_RULE {
            let remediation = match unbounded {
                Some(function) => format!(
                    "the result of {function}() has no maximum size for the estimate of Kubernetes, so the {what} must \
                     not join, search or iterate over it"
                ),
                None => "limit maxItems, maxProperties and maxLength of what it looks at".to_owned(),
            };
            let excess = excess(cost, PER_RULE);
            found.forbidden(
                path.clone(),
                format!("the estimated cost of the {what} exceeds the budget by {excess}; {remediation}"),
            );
        }
        self.total = self.total.saturating_add(cost);
        if cost >= LARGE {
            self.contributions.push((cost, path));
            self.contributions.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.contributions.truncate(NAMED);
        }
    }

    /// The total cost of the rules of a variable is bounded (CEL-012).
    fn total_is_bounded(&mut self, path: &Path, found: &mut Findings) {
        if self.total <= PER_VARIABLE {
            return;
        }
        let times = excess(self.total, PER_VARIABLE);
        for (cost, path) in &self.contributions {
            let detail = format!(
                "contributes {}% of the estimated cost of all rules of the variable, which exceeds the budget by \
                 {times}",
                u128::from(*cost) * 100 / u128::from(self.total)
            );
            found.forbidden(path.clone(), detail);
        }
        let detail = format!("the estimated cost of all rules of the variable exceeds the budget by {times}");
        found.forbidden(path.clone(), detail);
    }
}

/// Whether the rules of a node and its descendants satisfy CEL-001 to CEL-005, so that they can be evaluated
/// (VAR-S-032).
pub(super) fn are_written_well(node: &SchemaDefinition) -> bool {
    let mut found = Findings::default();
    node.validations.iter().for_each(|rule| text_is_good(rule, node, &Path::ROOT, &mut found));
    found.error_count() == 0
        && (node.validations.is_empty() || Decl::has_declaration(node))
        && node.children().all(|(_, child)| are_written_well(child))
}

/// Checks text of rule and message, reason and field path (CEL-001 to CEL-004).
fn text_is_good(rule: &ValidationRule, node: &SchemaDefinition, at: &Path, found: &mut Findings) {
    found.run("CEL-001", |found| rule_and_message_are_lines(rule, at, found));
    found.run("CEL-002", |found| {
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            found.required(at.child("messageExpression"), "must not be blank if it is set");
        }
    });
    found.run("CEL-003", |found| {
        let reason = rule.reason.as_deref().unwrap_or_default();
        if !reason.is_empty() && !REASONS.contains(&reason) {
            let supported = REASONS.map(|reason| format!("{reason:?}")).join(", ");
            let detail = format!("supported values: {supported}");
            found.error(ErrorKind::NotSupported, at.child("reason"), reason, detail);
        }
    });
    found.run("CEL-004", |found| field_path_is_good(rule, node, at, found));
}

/// CEL-001; only the first violation is reported.
fn rule_and_message_are_lines(rule: &ValidationRule, at: &Path, found: &mut Findings) {
    let breaks = |text: &str| text.trim().contains(['\n', '\r']);
    let message = &*rule.message;
    if rule.rule.trim().is_empty() {
        found.required(at.child("rule"), "say what has to hold");
    } else if !message.is_empty() && message.trim().is_empty() {
        found.invalid(at.child("message"), message, "must not be blank if it is set");
    } else if message.len() > MAX_MESSAGE {
        let beginning = format!("{}...", &message[..message.floor_char_boundary(10)]);
        found.invalid(at.child("message"), beginning, format!("may not be longer than {MAX_MESSAGE} bytes"));
    } else if breaks(message) {
        found.invalid(at.child("message"), message, "must not contain line breaks");
    } else if breaks(&rule.rule) && message.is_empty() {
        found.required(at.child("message"), "a rule of several lines needs a message");
    }
}

/// CEL-004
fn field_path_is_good(rule: &ValidationRule, node: &SchemaDefinition, at: &Path, found: &mut Findings) {
    let text = &*rule.field_path;
    if text.is_empty() {
        return;
    }
    if text.trim().is_empty() {
        found.invalid(at.child("fieldPath"), text, "must not be blank if it is set");
    }
    if text.contains(['\n', '\r']) {
        found.invalid(at.child("fieldPath"), text, "must not contain line breaks");
    }
    if let Err(problem) = field_path::read(text, node) {
        found.invalid(at.child("fieldPath"), text, format!("the path {problem}"));
    }
}

/// Examples and enum entries satisfy the rules, as new values (CEL-013).
fn literals_keep_the_rules(
    node: &SchemaDefinition,
    schema: &Schema,
    path: &Path,
    allowance: &mut SchemaAllowance,
    found: &mut Findings,
) {
    let example = example_of(node);
    let entries = schema.values.iter().enumerate().map(|(i, entry)| (path.child("enum").index(i), entry));
    for (path, literal) in example.iter().map(|example| (path.child("example"), example)).chain(entries) {
        if allowance.is_over() {
            return;
        }
        let violations = allowance
            .evaluate(&path, |budget, stop| schema.broken_rules(literal, None, schema.rules.as_ref(), budget, stop));
        report_at_place("CEL-013", violations, &path, schema, literal, found);
    }
}

/// The rule as an object.
fn shown(rule: &ValidationRule) -> ErrorValue {
    let mut object = json!({"rule": &*rule.rule});
    for (key, text) in [
        ("message", &*rule.message),
        ("messageExpression", &*rule.message_expression),
        ("reason", rule.reason.as_deref().unwrap_or_default()),
        ("fieldPath", &*rule.field_path),
    ] {
        if !text.is_empty() {
            object[key] = text.into();
        }
    }
    ErrorValue::bounded(&object)
}

/// The factor by which a cost is too high, in words.
fn excess(cost: u64, limit: u64) -> String {
    match cost / limit {
        times if times >= 100 => "a factor of more than 100".to_owned(),
        0 | 1 => "a factor of less than 2".to_owned(),
        times => format!("a factor of about {times}"),
    }
}
