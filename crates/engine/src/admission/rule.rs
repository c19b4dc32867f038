//! Rules, tables of rules, and the list of all of them.

use model::hub::Kind;
use schema::field::{Findings, RuleId};

/// A rule: a fact about valid objects, as a function that reports violations.
///
/// `F` is `fn(&Change<'_>, &mut Findings)` for the change type of the table. A rule only reads its change, and does not
/// decide whether other rules run.
pub(super) struct Rule<F> {
    pub id: RuleId,
    pub name: &'static str,
    pub check: F,
}

/// A table of rules in the order in which they run: `rules!["CL-V-001" => name_is_a_label_value, …]`.
macro_rules! rules {
    ($($id:literal => $check:ident),* $(,)?) => {
        &[$(crate::admission::rule::Rule { id: $id, name: stringify!($check), check: $check }),*]
    };
}
pub(super) use rules;

/// Runs all rules of a table; returns whether they reported no error.
pub(super) fn run<C, F: Fn(&C, &mut Findings)>(rules: &[Rule<F>], change: &C, found: &mut Findings) -> bool {
    let before = found.error_count();
    for rule in rules {
        found.run(rule.id, |found| (rule.check)(change, found));
    }
    found.error_count() == before
}

/// A rule in lists and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRule {
    pub id: RuleId,
    /// The name of the function, which is the fact: `version_never_goes_back`.
    pub name: &'static str,
    /// The kind whose review runs it; `None` for checks that several rules share.
    pub kind: Option<Kind>,
}

/// The rows of one table.
pub(super) fn listed<F>(kind: Kind, rules: &'static [Rule<F>]) -> impl Iterator<Item = ListedRule> {
    rules.iter().map(move |rule| ListedRule { id: rule.id, name: rule.name, kind: Some(kind) })
}
