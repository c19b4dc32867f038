//! A compiled expression over `self` and `oldSelf`.

use serde_json::Value;

use super::budget::Budget;
use super::check::{Checked, Patterns, Wanted, compile, mistake_with_hint};
use super::cost;
use super::eval::run;
use super::fault::Fault;
use super::types::Decl;
use super::value::{Val, view};

/// The longest message that an expression may give, in bytes.
const MAX_MESSAGE: usize = 5120;

/// A compiled expression, and what it costs at most.
#[derive(Debug)]
pub(crate) struct Program {
    checked: Checked,
    pub(crate) cost: u64,
}

impl Program {
    /// Compiles an expression over values that are declared so.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn compile(text: &str, decl: &Decl, wanted: Wanted, patterns: Patterns<'_>) -> Result<Self, String> {
        let checked = compile(text, decl, wanted, patterns).map_err(|mistake| mistake.shown(text))?;
        let cost = cost::estimate(&checked.root, decl);
        Ok(Program { checked, cost })
    }

    /// The mistake of an expression, with the name that may have been meant.
    pub(crate) fn mistake_with_hint(text: &str, decl: &Decl, wanted: Wanted, patterns: Patterns<'_>) -> Option<String> {
        Some(mistake_with_hint(text, decl, wanted, patterns)?.shown(text))
    }

    /// Whether it names `oldSelf`.
    pub(crate) fn uses_old(&self) -> bool {
        self.checked.uses_old
    }

    /// Whether it is true of a value.
    pub(crate) fn holds(
        &self,
        decl: &Decl,
        value: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<bool, Fault> {
        Ok(matches!(self.evaluate(decl, value, old, budget)?, Val::Bool(true)))
    }

    /// What it says of a value, where that can be shown.
    pub(crate) fn message(
        &self,
        decl: &Decl,
        value: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<Option<String>, Fault> {
        Ok(match self.evaluate(decl, value, old, budget)? {
            Val::Text(text) => usable(text.as_str()),
            _ => None,
        })
    }

    fn evaluate<'v>(
        &'v self,
        decl: &'v Decl,
        value: &'v Value,
        old: Option<&'v Value>,
        budget: &mut Budget,
    ) -> Result<Val<'v>, Fault> {
        let meter = &mut budget.0;
        let this = view(value, decl, meter)?;
        let before = if self.checked.uses_old { old } else { None };
        let before = before.map_or(Ok(Val::Null), |old| view(old, decl, meter))?;
        meter.begin();
        let result = run(&self.checked.root, this, before, meter);
        meter.end();
        result
    }
}

/// A message that can be shown.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}
