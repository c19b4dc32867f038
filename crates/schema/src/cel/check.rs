//! From syntax tree to program: resolves names and infers the type of every expression (CEL-006 to CEL-009).

mod calls;
mod inference;
mod literals;
mod macros;

use super::fault::CompileError;
use super::lex::Constant;
use super::node::{CelNode, Op};
use super::parse::{Expr, ExprKind, SelectMode, parse};
use super::types::{CelType, Decl};
use crate::field::closest;
use golang::regexp::Regex;

/// Compiles the pattern of a search.
pub(crate) type Patterns<'p> = &'p mut dyn FnMut(&str) -> Result<Regex, PatternError>;

/// The pattern of a search that cannot be compiled, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PatternError(pub String);

/// The expected result type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultType {
    Bool,
    Text,
}

/// A checked expression.
#[derive(Debug, Clone)]
pub(super) struct CheckedExpr {
    pub root: CelNode,
    pub uses_old: bool,
}

/// Parses and checks an expression over `self` and `oldSelf`.
///
/// `patterns` compiles the patterns of searches.
pub(super) fn compile(
    text: &str,
    decl: &Decl,
    wanted: ResultType,
    patterns: Patterns<'_>,
) -> Result<CheckedExpr, CompileError> {
    compile_for(text, decl, wanted, false, patterns)
}

/// The error of an expression, with a suggestion for a misspelled name.
pub(super) fn mistake_with_hint(
    text: &str,
    decl: &Decl,
    wanted: ResultType,
    patterns: Patterns<'_>,
) -> Option<CompileError> {
    compile_for(text, decl, wanted, true, patterns).err()
}

fn compile_for(
    text: &str,
    decl: &Decl,
    wanted: ResultType,
    has_hints: bool,
    patterns: Patterns<'_>,
) -> Result<CheckedExpr, CompileError> {
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
        ResultType::Bool => (root.ty == CelType::Bool, "bool"),
        ResultType::Text => (root.ty == CelType::Text, "string"),
    };
    if !fits {
        return Err(CompileError::new(expr.at, format!("must result in a {name}, and results in {}", root.ty)));
    }
    Ok(CheckedExpr { root, uses_old: checker.uses_old })
}

struct Checker<'p> {
    names: Vec<(String, CelType)>,
    /// Types bound to open types.
    bound: Vec<Option<CelType>>,
    /// Previous values of `bound`, so that a binding can be reverted.
    trail: Vec<(usize, Option<CelType>)>,
    uses_old: bool,
    /// Whether errors suggest names, which takes time.
    has_hints: bool,
    /// Whether lists and maps may have mixed types, as inside arguments of `format`.
    allows_mixed: bool,
    patterns: Patterns<'p>,
}

fn mistake<T>(at: usize, text: impl Into<String>) -> Result<T, CompileError> {
    Err(CompileError::new(at, text))
}

impl Checker<'_> {
    fn check(&mut self, expr: &Expr) -> Result<CelNode, CompileError> {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(CelNode { ty: type_of(literal), op: Op::Literal(literal.clone()) }),
            ExprKind::Name(name) => self.name(expr.at, name),
            ExprKind::Select { of, field, how } => self.select(expr, of, field, *how),
            ExprKind::Call { name, target, args } => self.call(expr.at, name, target.as_deref(), args),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Message { name, fields } => self.message(expr.at, name, fields),
            ExprKind::Loop(parts) => self.repeat(expr.at, parts),
            ExprKind::Bind { of, name, body, flat } => self.bind_optional(of, name, body, *flat),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Result<CelNode, CompileError> {
        if let Some((slot, (_, ty))) = self.names.iter().enumerate().rev().find(|(_, (known, _))| known == name) {
            self.uses_old |= slot == 1;
            return Ok(CelNode { op: Op::Slot(slot), ty: ty.clone() });
        }
        match type_named(name) {
            Some(name) => Ok(CelNode { op: Op::TypeName(name), ty: CelType::Kind }),
            None => Err(self.undeclared(at, name)),
        }
    }

    fn undeclared(&self, at: usize, name: &str) -> CompileError {
        let known: Vec<&str> = self.names.iter().map(|(known, _)| &**known).collect();
        let hint = if self.has_hints { format!("; known are {}", known.join(", ")) } else { String::new() };
        CompileError::new(at, format!("{name:?} is not declared{hint}"))
    }

    /// The error of an unknown name, with the most similar known one.
    fn unknown<'n, N>(&self, at: usize, text: String, name: &str, names: impl FnOnce() -> N) -> CompileError
    where
        N: Iterator<Item = &'n str>,
    {
        let meant = self.has_hints.then(|| closest(name, names())).flatten();
        let hint = meant.map(|meant| format!("; the closest one is {meant}")).unwrap_or_default();
        CompileError::new(at, text + &hint)
    }

    fn is_variable(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(name) => self.names.iter().any(|(known, _)| known == name),
            ExprKind::Select { of, .. } => self.is_variable(of),
            _ => true,
        }
    }

    fn select(&mut self, expr: &Expr, of: &Expr, field: &str, how: SelectMode) -> Result<CelNode, CompileError> {
        if how == SelectMode::Plain
            && !self.is_variable(expr)
            && let Some(name) = expr.qualified()
            && let Some(name) = type_named(&name)
        {
            return Ok(CelNode { op: Op::TypeName(name), ty: CelType::Kind });
        }
        let of = self.check(of)?;
        let (inner, was_optional) = match self.resolved(&of.ty) {
            CelType::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let mut field = field.to_owned();
        let member = match self.resolved(&inner) {
            CelType::Object(structure) => {
                let names = || structure.fields.keys().map(|name| &**name);
                let unknown = || self.unknown(expr.at, format!("undefined field {field:?}"), &field, names);
                let (declared, known) = structure.entry(&field).ok_or_else(unknown)?;
                let ty = known.decl.ty.clone();
                // Evaluations find the field by its declared name at once.
                field.clone_from(declared);
                ty
            }
            CelType::Map(parts) => {
                if !self.fits(&CelType::Text, &parts.0) {
                    return mistake(expr.at, "only a map with string keys has fields");
                }
                parts.1.clone()
            }
            CelType::Dyn | CelType::Open(_) => CelType::Dyn,
            other => return mistake(expr.at, format!("{other} has no fields")),
        };
        let ty = match how {
            SelectMode::Test => CelType::Bool,
            SelectMode::Optional => CelType::optional(member),
            SelectMode::Plain if was_optional => CelType::optional(member),
            SelectMode::Plain => member,
        };
        let how = if was_optional && how == SelectMode::Plain { SelectMode::Optional } else { how };
        Ok(CelNode { op: Op::Select { of: Box::new(of), field, how }, ty })
    }
}

fn type_of(literal: &Constant) -> CelType {
    match literal {
        Constant::Null => CelType::Null,
        Constant::Bool(_) => CelType::Bool,
        Constant::Int(_) => CelType::Int,
        Constant::Uint(_) => CelType::Uint,
        Constant::Double(_) => CelType::Double,
        Constant::Text(_) => CelType::Text,
        Constant::Bytes(_) => CelType::Bytes,
    }
}

/// The type name in values of type `type`.
fn type_named(name: &str) -> Option<&'static str> {
    let plain = CelType::PLAIN.iter().map(|(known, _)| *known);
    plain.chain(["list", "map", "optional_type"]).find(|known| *known == name && *known != "dyn")
}
