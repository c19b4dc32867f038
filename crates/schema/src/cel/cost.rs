//! Worst-case cost estimate of an expression, without a value (CEL-011, CEL-014, CEL-015).

use super::lex::Constant;
use super::library::{self, Function};
use super::node::{CelNode, Op, Repeat};
use super::parse::LoopForm;
use super::types::{CelType, Decl};

/// Maximum cost units of one evaluation, times the number of evaluations.
pub(crate) const PER_RULE: u64 = 10_000_000;

/// Maximum cost units of all expressions of a variable.
pub(crate) const PER_VARIABLE: u64 = 100_000_000;

/// Maximum cost of a part of an expression, and maximum size of its value.
#[derive(Clone, Copy)]
struct Estimate<'a> {
    cost: u64,
    /// Characters, bytes or elements.
    size: u64,
    /// The declaration of the value, if it is a part of `self`.
    decl: Option<&'a Decl>,
}

impl<'a> Estimate<'a> {
    fn of_decl(cost: u64, decl: Option<&'a Decl>) -> Estimate<'a> {
        let size = decl.map_or(0, |decl| match decl.ty {
            CelType::Bool | CelType::Int | CelType::Double | CelType::Object(_) => 0,
            _ => decl.max_elements,
        });
        Estimate { cost, size, decl }
    }

    fn made(cost: u64, size: u64) -> Estimate<'a> {
        Estimate { cost, size, decl: None }
    }
}

/// The maximum cost of an expression over `self`.
pub(super) fn estimate(root: &CelNode, this: &Decl) -> u64 {
    let this = Estimate::of_decl(0, Some(this));
    Estimator { stack: vec![this, this] }.node(root).cost
}

struct Estimator<'a> {
    stack: Vec<Estimate<'a>>,
}

impl<'a> Estimator<'a> {
    fn node(&mut self, node: &CelNode) -> Estimate<'a> {
        match &node.op {
            Op::Literal(literal) => Estimate::made(0, literal_size(literal)),
            Op::TypeName(_) => Estimate::made(0, 1),
            Op::Slot(slot) => {
                let known = self.stack.get(*slot).copied().unwrap_or(Estimate::made(0, 0));
                Estimate { cost: 1, ..known }
            }
            Op::Select { of, field, how } => {
                let of = self.node(of);
                if *how == super::parse::SelectMode::Test {
                    return Estimate::made(of.cost, 0);
                }
                let member = of.decl.and_then(|decl| match decl.structure() {
                    Some(structure) => structure.fields.get(field).map(|field| &field.decl),
                    None => decl.element.as_deref(),
                });
                Estimate::of_decl(of.cost.saturating_add(1), member)
            }
            Op::And(sides) | Op::Or(sides) => {
                let cost = self.node(&sides.0).cost.saturating_add(self.node(&sides.1).cost);
                Estimate::made(cost, 1)
            }
            Op::Choose(parts) => {
                let (condition, yes, no) = (self.node(&parts.0), self.node(&parts.1), self.node(&parts.2));
                let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
                Estimate::made(cost, yes.size.max(no.size))
            }
            Op::Index { of, .. } => {
                let (list, key) = (self.node(&of.0), self.node(&of.1));
                let cost = list.cost.saturating_add(key.cost).saturating_add(1);
                Estimate::of_decl(cost, list.decl.and_then(|decl| decl.element.as_deref()))
            }
            Op::Call { function, args } | Op::Search { function, args, .. } => self.call(function, args),
            Op::List(items) => {
                let cost = items.iter().fold(10_u64, |cost, (item, _)| cost.saturating_add(self.node(item).cost));
                Estimate::made(cost, count(items.len()))
            }
            Op::Map(entries) => {
                let cost = entries.iter().fold(30_u64, |cost, (key, value, _)| {
                    cost.saturating_add(self.node(key).cost).saturating_add(self.node(value).cost)
                });
                Estimate::made(cost, count(entries.len()))
            }
            Op::Time(units) => {
                let cost = units.iter().fold(40_u64, |cost, (_, value, _)| cost.saturating_add(self.node(value).cost));
                Estimate::made(cost, 1)
            }
            Op::Loop(repeat) => self.repeat(repeat),
            Op::Bind { of, body, .. } => {
                let of = self.node(of);
                let body = self.within(vec![of], |estimator| estimator.node(body));
                let cost = of.cost.saturating_mul(2).saturating_add(body.cost).saturating_add(15);
                Estimate::made(cost, body.size)
            }
        }
    }

    fn within<R>(&mut self, variables: Vec<Estimate<'a>>, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.stack.len();
        self.stack.extend(variables);
        let result = act(self);
        self.stack.truncate(before);
        result
    }

    fn call(&mut self, function: &'static Function, nodes: &[CelNode]) -> Estimate<'a> {
        let args: Vec<Estimate<'a>> = nodes.iter().map(|arg| self.node(arg)).collect();
        let cost = args.iter().fold(0_u64, |cost, arg| cost.saturating_add(arg.cost));
        let text = |decl: &Decl| matches!(decl.ty, CelType::Text | CelType::Bytes).then_some(decl.max_elements);
        let element = args.first().and_then(|list| text(list.decl?.element.as_deref()?)).unwrap_or(0);
        let given = |at: usize| if at == library::ELEMENT { element } else { args.get(at).map_or(0, |arg| arg.size) };
        let result = bounded_by_literals(function.name, nodes).unwrap_or_else(|| (function.grows)(&given));
        let sizes = |at: usize| if at == library::RESULT { result } else { given(at) };
        Estimate::made(cost.saturating_add((function.price)(&sizes)), result)
    }

    fn repeat(&mut self, repeat: &Repeat) -> Estimate<'a> {
        let range = self.node(&repeat.range);
        let element = Estimate::of_decl(0, range.decl.and_then(|decl| decl.element.as_deref()));
        let is_map = matches!(repeat.range.ty, CelType::Map(_));
        let unknown = Estimate::made(0, 0);
        let variables = match (repeat.keyed, is_map) {
            (true, _) => vec![unknown, element],
            (false, true) => vec![unknown],
            (false, false) => vec![element],
        };
        let (filter, body) = self.within(variables, |estimator| {
            let filter = repeat.filter.as_ref().map_or(0, |filter| estimator.node(filter).cost);
            (filter, estimator.node(&repeat.body).cost)
        });
        // Cost of the loop itself: once, and per iteration.
        let (once, turn) = match repeat.form {
            LoopForm::All => (1, 3),
            LoopForm::Exists => (1, 4),
            LoopForm::ExistsOne => (2, 2),
            LoopForm::Map | LoopForm::TransformList => (11, 12),
            LoopForm::Filter => (11, 13),
            LoopForm::TransformMap => (31, 3),
            LoopForm::TransformMapEntry => (31, 2),
            LoopForm::SortBy => {
                let squares = range.size.saturating_mul(range.size).saturating_mul(2);
                (squares.saturating_add(34), 12)
            }
        };
        let turn = body.saturating_add(filter).saturating_add(turn);
        let cost = range.cost.saturating_add(once).saturating_add(range.size.saturating_mul(turn));
        let size = match repeat.form {
            LoopForm::All | LoopForm::Exists | LoopForm::ExistsOne => 1,
            _ => range.size,
        };
        Estimate::made(cost, size)
    }
}

/// The size of a result that is determined by literals.
fn bounded_by_literals(name: &str, args: &[CelNode]) -> Option<u64> {
    let number = |at: usize| match args.get(at).map(|arg| &arg.op) {
        Some(Op::Literal(Constant::Int(number))) => Some(u64::try_from(*number).unwrap_or(0)),
        _ => None,
    };
    match name {
        "lists.range" => number(0),
        "slice" => Some(number(2)?.saturating_sub(number(1)?)),
        _ => None,
    }
}

fn literal_size(literal: &Constant) -> u64 {
    match literal {
        Constant::Text(text) => count(text.chars().count()),
        Constant::Bytes(bytes) => count(bytes.len()),
        _ => 1,
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
