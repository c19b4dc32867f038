//! From the syntax tree to a program: names are resolved, and every expression gets its type (CEL-006 to CEL-009).

mod calls;
mod inference;
mod literals;
mod macros;

use super::fault::Mistake;
use super::lex::Literal;
use super::node::{Node, Op};
use super::parse::{Expr, Kind, Selection, parse};
use super::types::{Decl, Type};
use crate::field::closest;
use golang::regexp::Regex;

/// Compiles the pattern of a search, or says why it cannot be compiled.
pub(crate) type Patterns<'p> = &'p mut dyn FnMut(&str) -> Result<Regex, String>;

/// What an expression has to result in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Bool,
    Text,
}

/// A checked expression.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    pub root: Node,
    pub uses_old: bool,
}

/// Reads and checks an expression over `self` and `oldSelf`.
///
/// Patterns of searches are compiled by `patterns`.
pub(super) fn compile(text: &str, decl: &Decl, wanted: Wanted, patterns: Patterns<'_>) -> Result<Checked, Mistake> {
    compile_for(text, decl, wanted, false, patterns)
}

/// The mistake of an expression, with the name that may have been meant.
pub(super) fn mistake_with_hint(text: &str, decl: &Decl, wanted: Wanted, patterns: Patterns<'_>) -> Option<Mistake> {
    compile_for(text, decl, wanted, true, patterns).err()
}

fn compile_for(
    text: &str,
    decl: &Decl,
    wanted: Wanted,
    has_hints: bool,
    patterns: Patterns<'_>,
) -> Result<Checked, Mistake> {
    let expr = parse(text)?;
    let mut checker = Checker {
        names: vec![("self".to_owned(), decl.ty.clone()), ("oldSelf".to_owned(), decl.ty.clone())],
        bound: Vec::new(),
        trail: Vec::new(),
        uses_old: false,
        has_hints,
        allows_mixed: false,
        patterns,
    };
    let mut root = checker.check(&expr)?;
    root.ty = checker.resolved(&root.ty);
    let (fits, name) = match wanted {
        Wanted::Bool => (root.ty == Type::Bool, "bool"),
        Wanted::Text => (root.ty == Type::Text, "string"),
    };
    if !fits {
        return Err(Mistake::new(expr.at, format!("must result in a {name}, and results in {}", root.ty)));
    }
    Ok(Checked { root, uses_old: checker.uses_old })
}

struct Checker<'p> {
    names: Vec<(String, Type)>,
    /// What open types turned out to be.
    bound: Vec<Option<Type>>,
    /// What `bound` said before each change, so that a change can be taken back.
    trail: Vec<(usize, Option<Type>)>,
    uses_old: bool,
    /// Whether mistakes come with names that may have been meant, which takes time.
    has_hints: bool,
    /// Whether lists and maps may be of mixed types, as they may inside of what `format` writes.
    allows_mixed: bool,
    patterns: Patterns<'p>,
}

fn mistake<T>(at: usize, text: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake::new(at, text))
}

impl Checker<'_> {
    fn check(&mut self, expr: &Expr) -> Result<Node, Mistake> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node { ty: type_of(literal), op: Op::Literal(literal.clone()) }),
            Kind::Name(name) => self.name(expr.at, name),
            Kind::Select { of, field, how } => self.select(expr, of, field, *how),
            Kind::Call { name, target, args } => self.call(expr.at, name, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Message { name, fields } => self.message(expr.at, name, fields),
            Kind::Loop(parts) => self.repeat(expr.at, parts),
            Kind::Bind { of, name, body, flat } => self.bind_optional(of, name, body, *flat),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Result<Node, Mistake> {
        if let Some((slot, (_, ty))) = self.names.iter().enumerate().rev().find(|(_, (known, _))| known == name) {
            self.uses_old |= slot == 1;
            return Ok(Node { op: Op::Slot(slot), ty: ty.clone() });
        }
        match type_named(name) {
            Some(name) => Ok(Node { op: Op::TypeName(name), ty: Type::Kind }),
            None => Err(self.undeclared(at, name)),
        }
    }

    fn undeclared(&self, at: usize, name: &str) -> Mistake {
        let known: Vec<&str> = self.names.iter().map(|(known, _)| &**known).collect();
        let hint = if self.has_hints { format!("; known are {}", known.join(", ")) } else { String::new() };
        Mistake::new(at, format!("{name:?} is not declared{hint}"))
    }

    /// The mistake of a name that there is not, with the one that may have been meant.
    fn unknown<'n, N>(&self, at: usize, text: String, name: &str, names: impl FnOnce() -> N) -> Mistake
    where
        N: Iterator<Item = &'n str>,
    {
        let meant = self.has_hints.then(|| closest(name, names())).flatten();
        let hint = meant.map(|meant| format!("; the closest one is {meant}")).unwrap_or_default();
        Mistake::new(at, text + &hint)
    }

    fn is_variable(&self, expr: &Expr) -> bool {
        match &expr.kind {
            Kind::Name(name) => self.names.iter().any(|(known, _)| known == name),
            Kind::Select { of, .. } => self.is_variable(of),
            _ => true,
        }
    }

    fn select(&mut self, expr: &Expr, of: &Expr, field: &str, how: Selection) -> Result<Node, Mistake> {
        if how == Selection::Plain
            && !self.is_variable(expr)
            && let Some(name) = expr.qualified()
            && let Some(name) = type_named(&name)
        {
            return Ok(Node { op: Op::TypeName(name), ty: Type::Kind });
        }
        let of = self.check(of)?;
        let (inner, was_optional) = match self.resolved(&of.ty) {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let member = match self.resolved(&inner) {
            Type::Object(structure) => {
                let names = || structure.fields.keys().map(|name| &**name);
                let known = structure.fields.get(field);
                let unknown = || self.unknown(expr.at, format!("undefined field {field:?}"), field, names);
                known.ok_or_else(unknown)?.decl.ty.clone()
            }
            Type::Map(parts) => {
                if !self.fits(&Type::Text, &parts.0) {
                    return mistake(expr.at, "only a map with string keys has fields");
                }
                parts.1.clone()
            }
            Type::Dyn | Type::Open(_) => Type::Dyn,
            other => return mistake(expr.at, format!("{other} has no fields")),
        };
        let ty = match how {
            Selection::Test => Type::Bool,
            Selection::Optional => Type::optional(member),
            Selection::Plain if was_optional => Type::optional(member),
            Selection::Plain => member,
        };
        let how = if was_optional && how == Selection::Plain { Selection::Optional } else { how };
        Ok(Node { op: Op::Select { of: Box::new(of), field: field.to_owned(), how }, ty })
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The name of a type as values of type `type` have it.
fn type_named(name: &str) -> Option<&'static str> {
    let plain = Type::PLAIN.iter().map(|(known, _)| *known);
    plain.chain(["list", "map", "optional_type"]).find(|known| *known == name && *known != "dyn")
}
