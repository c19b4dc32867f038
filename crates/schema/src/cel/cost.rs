//! Worst-case cost estimate of an expression, without a value (CEL-011, CEL-014, CEL-015, CEL-028).

use super::lex::Constant;
use super::library::{self, Function, SizeRange};
use super::node::{CelNode, Op, Repeat};
use super::parse::{LoopForm, SelectMode};
use super::types::{CelType, Decl};

/// Maximum cost units of one evaluation, times the number of evaluations.
pub(crate) const PER_RULE: u64 = 10_000_000;

/// Maximum cost units of all expressions of a variable.
pub(crate) const PER_VARIABLE: u64 = 100_000_000;

/// The maximum cost of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpressionCost {
    pub units: u64,
    /// The function whose result has no maximum size, if the cost depends on one.
    pub unbounded: Option<&'static str>,
}

/// Maximum cost of a part of an expression, and the size of its value.
#[derive(Clone, Copy)]
struct Estimate<'a> {
    cost: u64,
    /// Characters, bytes or elements.
    size: SizeRange,
    path: SchemaPath<'a>,
    /// The size of an element, if the value is a list or map that the expression makes.
    element: Option<SizeRange>,
    /// The function because of which the value has no maximum size.
    unbounded: Option<&'static str>,
}

/// The place of a value in the schema, as Kubernetes' estimator tracks it.
#[derive(Clone, Copy)]
enum SchemaPath<'a> {
    /// A value that the expression makes.
    None,
    Known(&'a Decl),
    /// A value below one whose schema has no such member.
    Undeclared,
}

impl<'a> SchemaPath<'a> {
    /// The place below this one. Kubernetes looks up what is below a made value as if that was `self`, so that its
    /// members have the sizes of `self`; this decides which rules a server accepts (CEL-028).
    fn below(self, root: &'a Decl, member: impl FnOnce(&'a Decl) -> Option<&'a Decl>) -> SchemaPath<'a> {
        match self {
            SchemaPath::None => SchemaPath::Known(root),
            SchemaPath::Known(decl) => member(decl).map_or(SchemaPath::Undeclared, SchemaPath::Known),
            SchemaPath::Undeclared => SchemaPath::Undeclared,
        }
    }

    /// The size of a value of this type.
    fn size(self, ty: &CelType) -> SizeRange {
        match self {
            SchemaPath::Known(decl) => SizeRange::up_to(match decl.ty {
                CelType::Bool | CelType::Int | CelType::Double | CelType::Object(_) => 0,
                _ => decl.max_elements,
            }),
            SchemaPath::None | SchemaPath::Undeclared => size_of_type(ty),
        }
    }
}

impl<'a> Estimate<'a> {
    /// A value that the expression makes.
    fn made(cost: u64, size: SizeRange) -> Estimate<'a> {
        Estimate { cost, size, path: SchemaPath::None, element: None, unbounded: None }
    }

    fn at(cost: u64, path: SchemaPath<'a>, ty: &CelType) -> Estimate<'a> {
        Estimate { cost, size: path.size(ty), path, element: None, unbounded: None }
    }
}

/// The maximum cost of an expression over `self`.
pub(super) fn estimate(root: &CelNode, this: &Decl) -> ExpressionCost {
    let variable = Estimate::at(0, SchemaPath::Known(this), &this.ty);
    let mut estimator = Estimator { root: this, stack: vec![variable, variable], unbounded: None };
    let units = estimator.node(root).cost;
    ExpressionCost { units, unbounded: estimator.unbounded }
}

struct Estimator<'a> {
    root: &'a Decl,
    stack: Vec<Estimate<'a>>,
    unbounded: Option<&'static str>,
}

impl<'a> Estimator<'a> {
    fn node(&mut self, node: &CelNode) -> Estimate<'a> {
        match &node.op {
            Op::Literal(literal) => Estimate::made(0, literal_size(literal)),
            // The name of a type is an identifier, which is looked up like a made value.
            Op::TypeName(_) => {
                let path = SchemaPath::None.below(self.root, |_| None);
                Estimate { path, ..Estimate::at(1, path, &node.ty) }
            }
            Op::Slot(slot) => {
                let known = self.stack.get(*slot).copied().unwrap_or(Estimate::made(0, SizeRange::UNKNOWN));
                Estimate { cost: 1, ..known }
            }
            Op::Select { of, field, how } => self.select(of, field, *how, &node.ty),
            Op::And(sides) | Op::Or(sides) => {
                let cost = self.node(&sides.0).cost.saturating_add(self.node(&sides.1).cost);
                Estimate::made(cost, SizeRange::fixed(1))
            }
            Op::Choose(parts) => {
                let (condition, yes, no) = (self.node(&parts.0), self.node(&parts.1), self.node(&parts.2));
                let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
                let element = yes.element.zip(no.element).map(|(yes, no)| yes.or(no));
                let unbounded = yes.unbounded.or(no.unbounded);
                Estimate { element, unbounded, ..Estimate::made(cost, yes.size.or(no.size)) }
            }
            Op::Index { of, optional } => self.index(&of.0, &of.1, *optional, &node.ty),
            Op::Call { function, args } | Op::Search { function, args, .. } => self.call(function, args, &node.ty),
            Op::List(items) => {
                let mut cost = 10_u64;
                let mut elements = Vec::with_capacity(items.len());
                for (item, _) in items {
                    let item = self.node(item);
                    cost = cost.saturating_add(item.cost);
                    elements.push(item.size);
                }
                Estimate {
                    element: Some(union(elements)),
                    ..Estimate::made(cost, SizeRange::fixed(count(items.len())))
                }
            }
            Op::Map(entries) => {
                let mut cost = 30_u64;
                let mut values = Vec::with_capacity(entries.len());
                for (key, value, _) in entries {
                    let (key, value) = (self.node(key), self.node(value));
                    cost = cost.saturating_add(key.cost).saturating_add(value.cost);
                    values.push(value.size);
                }
                Estimate {
                    element: Some(union(values)),
                    ..Estimate::made(cost, SizeRange::fixed(count(entries.len())))
                }
            }
            Op::Time(units) => {
                let cost = units.iter().fold(40_u64, |cost, (_, value, _)| cost.saturating_add(self.node(value).cost));
                Estimate::made(cost, SizeRange::fixed(1))
            }
            Op::Loop(repeat) => self.repeat(repeat),
            Op::Bind { of, body, .. } => {
                // The variable has the value of the optional.
                let of_cost = self.node(of).cost;
                let inner = match &of.ty {
                    CelType::Optional(inner) => size_of_type(inner),
                    _ => SizeRange::UNKNOWN,
                };
                let body = self.within(vec![Estimate::made(0, inner)], |estimator| estimator.node(body));
                let cost = of_cost.saturating_mul(2).saturating_add(body.cost).saturating_add(15);
                Estimate::made(cost, size_of_type(&node.ty))
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

    fn select(&mut self, of: &CelNode, field: &str, how: SelectMode, ty: &CelType) -> Estimate<'a> {
        let operand = self.node(of);
        match how {
            SelectMode::Test => Estimate::made(operand.cost, SizeRange::fixed(1)),
            SelectMode::Optional => Estimate::made(operand.cost.saturating_add(1), size_of_type(ty)),
            SelectMode::Plain => {
                let path = operand.path.below(self.root, |decl| {
                    decl.structure().and_then(|structure| structure.field(field)).map(|field| &field.decl)
                });
                Estimate::at(operand.cost.saturating_add(1), path, ty)
            }
        }
    }

    fn index(&mut self, of: &CelNode, key: &CelNode, is_optional: bool, ty: &CelType) -> Estimate<'a> {
        let (operand, key) = (self.node(of), self.node(key));
        let cost = operand.cost.saturating_add(key.cost).saturating_add(1);
        if is_optional || matches!(of.ty, CelType::Optional(_)) {
            return Estimate::made(cost, size_of_type(ty));
        }
        let found = Estimate::at(cost, operand.path.below(self.root, element_of), ty);
        Estimate { size: operand.element.unwrap_or(found.size), ..found }
    }

    fn call(&mut self, function: &'static Function, nodes: &[CelNode], ty: &CelType) -> Estimate<'a> {
        let args: Vec<Estimate<'a>> = nodes.iter().map(|arg| self.node(arg)).collect();
        let cost = args.iter().fold(0_u64, |cost, arg| cost.saturating_add(arg.cost));
        match (function.name, args.as_slice()) {
            // It only hides the type.
            ("dyn", [arg]) => {
                return Estimate { cost: cost.saturating_add(1), path: SchemaPath::None, ..*arg };
            }
            // They are compared as numbers or as a few bytes, in one direction only.
            ("==", [_, _]) if nodes.iter().all(|node| is_parsed(&node.ty)) => {
                return Estimate::made(cost.saturating_add(1), SizeRange::fixed(1));
            }
            _ => {}
        }
        let call = CallSizes { args: &args, nodes, element: self.element_size(nodes, &args) };
        let candidates = candidates(function, nodes);
        let mut price = 0;
        let mut result: Option<SizeRange> = None;
        let of_arguments = args.iter().find_map(|arg| arg.unbounded);
        let mut unbounded = None;
        for candidate in candidates {
            let known = call.result(candidate);
            let size = known.unwrap_or_else(|| size_of_type(ty));
            if size.max == u64::MAX {
                unbounded = unbounded.or(of_arguments).or_else(|| known.is_none().then_some(candidate.name));
            }
            price = price.max(call.price(candidate, size));
            result = Some(result.map_or(size, |other| other.or(size)));
        }
        if price > PER_RULE && self.unbounded.is_none() {
            self.unbounded = of_arguments;
        }
        let adds_lists = function.name == "+" && matches!(ty, CelType::List(_));
        let element = match args.as_slice() {
            [first, second] if adds_lists => first.element.zip(second.element).map(|(first, second)| first.or(second)),
            _ => None,
        };
        let size = result.unwrap_or(SizeRange::UNKNOWN);
        Estimate { element, unbounded, ..Estimate::made(cost.saturating_add(price), size) }
    }

    /// The maximum size of the texts in a list that is the first argument; zero for elements of other types.
    fn element_size(&self, nodes: &[CelNode], args: &[Estimate<'a>]) -> u64 {
        let (Some(node), Some(list)) = (nodes.first(), args.first()) else { return 0 };
        match (&node.ty, list.path) {
            (CelType::List(of), SchemaPath::Known(_)) if is_text(of) => {
                list.path.below(self.root, element_of).size(of).max
            }
            (CelType::List(of), _) if is_text(of) => u64::MAX,
            _ => 0,
        }
    }

    fn repeat(&mut self, repeat: &Repeat) -> Estimate<'a> {
        let range = self.node(&repeat.range);
        let is_list = matches!(repeat.range.ty, CelType::List(_));
        let element_type = match &repeat.range.ty {
            CelType::List(of) => (**of).clone(),
            CelType::Map(of) => of.1.clone(),
            _ => CelType::Dyn,
        };
        let key_type = match &repeat.range.ty {
            CelType::List(_) => CelType::Int,
            CelType::Map(of) => of.0.clone(),
            _ => CelType::Dyn,
        };
        let element = Estimate::at(0, range.path.below(self.root, element_of), &element_type);
        let key = match range.path {
            // Keys of maps have no maximum length, and count as empty.
            SchemaPath::Known(decl) if !is_list && matches!(decl.ty, CelType::Map(_)) => {
                Estimate { path: SchemaPath::Undeclared, ..Estimate::made(0, SizeRange::fixed(0)) }
            }
            path => Estimate::at(0, path.below(self.root, |_| None), &key_type),
        };
        let variables = match (repeat.keyed, is_list) {
            (true, _) => vec![key, element],
            (false, false) => vec![key],
            (false, true) => vec![element],
        };
        let (filter, body) = self.within(variables, |estimator| {
            let filter = repeat.filter.as_ref().map_or(0, |filter| estimator.node(filter).cost);
            (filter, estimator.node(&repeat.body))
        });
        // Cost of the loop itself: once, and per iteration.
        let size = range.size.max;
        let (once, turn) = match repeat.form {
            LoopForm::All => (1, 3),
            LoopForm::Exists => (1, 4),
            LoopForm::ExistsOne => (2, 2),
            LoopForm::Map | LoopForm::TransformList => (11, 12),
            LoopForm::Filter => (11, 13),
            LoopForm::TransformMap => (31, 3),
            LoopForm::TransformMapEntry => (31, 2),
            LoopForm::SortBy => {
                let squares = size.saturating_mul(size);
                let of_texts = if is_text(&repeat.body.ty) { squares.div_ceil(10) } else { 0 };
                (squares.saturating_mul(2).saturating_add(of_texts).saturating_add(34), 12)
            }
        };
        let turn = body.cost.saturating_add(filter).saturating_add(turn);
        let cost = range.cost.saturating_add(once).saturating_add(size.saturating_mul(turn));
        if cost > PER_RULE && self.unbounded.is_none() {
            self.unbounded = range.unbounded;
        }
        match repeat.form {
            LoopForm::All | LoopForm::Exists | LoopForm::ExistsOne => Estimate::made(cost, SizeRange::fixed(1)),
            LoopForm::Map | LoopForm::TransformList => {
                Estimate { element: Some(body.size.or(SizeRange::fixed(0))), ..Estimate::made(cost, range.size) }
            }
            LoopForm::Filter => {
                Estimate { element: Some(element.size.or(SizeRange::fixed(0))), ..Estimate::made(cost, range.size) }
            }
            LoopForm::TransformMap | LoopForm::TransformMapEntry => Estimate::made(cost, range.size),
            LoopForm::SortBy => Estimate::made(cost, range.size.times(range.size)),
        }
    }
}

/// The sizes in a call.
struct CallSizes<'c, 'a> {
    args: &'c [Estimate<'a>],
    nodes: &'c [CelNode],
    element: u64,
}

impl CallSizes<'_, '_> {
    fn arg(&self, at: usize) -> SizeRange {
        match at {
            library::ELEMENT => SizeRange::up_to(self.element),
            at => self.args.get(at).map_or(SizeRange::fixed(0), |arg| arg.size),
        }
    }

    /// The size of the result, if the arguments determine it.
    fn result(&self, function: &Function) -> Option<SizeRange> {
        let list = self.arg(0);
        match (function.name, self.nodes) {
            ("lists.range", [end]) => Some(SizeRange::fixed(literal_number(end).unwrap_or(u64::MAX))),
            ("slice", [_, start, end]) => {
                let (start, end) = (literal_number(start).unwrap_or(0), literal_number(end).unwrap_or(list.max));
                Some(SizeRange::fixed(end.wrapping_sub(start)))
            }
            // A negative number is no limit.
            ("split", [_, _, most]) => {
                let most = literal_integer(most).map(|most| u64::try_from(most).unwrap_or(u64::MAX));
                Some(SizeRange::up_to(most.unwrap_or(list.max)))
            }
            _ => function.result_size.map(|of| of(&|at| self.arg(at))),
        }
    }

    fn price(&self, function: &Function, result: SizeRange) -> u64 {
        let depth = match (function.name, self.nodes) {
            ("flatten", [_, depth]) => Some(literal_number(depth).unwrap_or(u64::MAX)),
            _ => None,
        };
        (function.price)(&|at| match (at, depth) {
            (library::RESULT, _) => result.max,
            (1, Some(depth)) => depth,
            _ => self.arg(at).max,
        })
    }
}

/// The functions that a call may mean: several, if the type of an argument is known at run time only.
fn candidates(function: &'static Function, nodes: &[CelNode]) -> Vec<&'static Function> {
    if !nodes.iter().any(|node| matches!(node.ty, CelType::Dyn)) {
        return vec![function];
    }
    let fits = |param: &CelType, ty: &CelType| {
        matches!((param, ty), (CelType::Dyn | CelType::Open(_), _) | (_, CelType::Dyn | CelType::Open(_)))
            || std::mem::discriminant(param) == std::mem::discriminant(ty)
    };
    let overloads = library::overloads(function.name, function.is_method).unwrap_or_default();
    overloads
        .iter()
        .filter(|overload| {
            let params = &overload.params;
            params.len() == nodes.len() && params.iter().zip(nodes).all(|(param, node)| fits(param, &node.ty))
        })
        .map(|overload| overload.function)
        .chain([function])
        .collect()
}

/// The declaration of the elements of a list or of the values of a map.
fn element_of(decl: &Decl) -> Option<&Decl> {
    decl.element.as_deref()
}

/// Whether values of a type are parsed from a text.
fn is_parsed(ty: &CelType) -> bool {
    matches!(ty, CelType::Ip | CelType::Cidr | CelType::Url | CelType::Quantity | CelType::Semver | CelType::Format)
}

fn is_text(ty: &CelType) -> bool {
    matches!(ty, CelType::Text | CelType::Bytes)
}

/// The size of a value without a schema: one for scalars, otherwise unknown.
fn size_of_type(ty: &CelType) -> SizeRange {
    match ty {
        CelType::Bool | CelType::Int | CelType::Uint | CelType::Double | CelType::Duration | CelType::Timestamp => {
            SizeRange::fixed(1)
        }
        CelType::Optional(of) => size_of_type(of),
        _ => SizeRange::UNKNOWN,
    }
}

/// A range that contains all; zero for none.
fn union(sizes: Vec<SizeRange>) -> SizeRange {
    sizes.into_iter().reduce(SizeRange::or).unwrap_or(SizeRange::fixed(0))
}

/// The value of a literal integer; zero if it is negative.
fn literal_number(node: &CelNode) -> Option<u64> {
    literal_integer(node).map(|number| u64::try_from(number).unwrap_or(0))
}

fn literal_integer(node: &CelNode) -> Option<i64> {
    match node.op {
        Op::Literal(Constant::Int(number)) => Some(number),
        _ => None,
    }
}

fn literal_size(literal: &Constant) -> SizeRange {
    SizeRange::fixed(match literal {
        Constant::Text(text) => count(text.chars().count()),
        Constant::Bytes(bytes) => count(bytes.len()),
        _ => 1,
    })
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
