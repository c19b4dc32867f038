//! Calls of operators, functions and methods.

use super::inference::instantiated;
use super::{Checker, mistake};
use crate::cel::eval::converts;
use crate::cel::fault::CompileError;
use crate::cel::lex::Constant;
use crate::cel::library::printf::{FormatPart, pieces};
use crate::cel::library::{self, Function, Overload};
use crate::cel::node::{CelNode, Op};
use crate::cel::parse::Expr;
use crate::cel::types::CelType;

impl Checker<'_> {
    pub(super) fn call(
        &mut self,
        at: usize,
        name: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<CelNode, CompileError> {
        if let Some(target) = target {
            // A call with a receiver may be a function with a dot in its name.
            let full = target.qualified().map(|prefix| format!("{prefix}.{name}"));
            if let Some(overloads) = full.as_deref().and_then(|full| library::overloads(full, false)) {
                let args = args.iter().map(|arg| self.check(arg)).collect::<Result<Vec<_>, _>>()?;
                return self.resolve(at, name, overloads, args);
            }
            let mut all = vec![self.check(target)?];
            let Some(overloads) = library::overloads(name, true) else {
                return Err(self.unknown(at, format!("there is no method {name}()"), name, || library::names(true)));
            };
            let allowed = self.allows_mixed;
            self.allows_mixed |= name == "format";
            for arg in args {
                all.push(self.check(arg)?);
            }
            self.allows_mixed = allowed;
            return self.resolve(at, name, overloads, all);
        }
        let args = args.iter().map(|arg| self.check(arg)).collect::<Result<Vec<_>, _>>()?;
        match (name, args.as_slice()) {
            ("&&" | "||", [_, _]) => self.logic(at, name, args),
            ("?:", [_, _, _]) => self.choose(at, args),
            ("[]" | "[?]", [_, _]) => self.index(at, args, name == "[?]"),
            _ => match library::overloads(name, false) {
                Some(overloads) => self.resolve(at, name, overloads, args),
                None => Err(self.unknown(at, format!("there is no function {name}()"), name, || library::names(false))),
            },
        }
    }

    fn logic(&mut self, at: usize, name: &str, args: Vec<CelNode>) -> Result<CelNode, CompileError> {
        for arg in &args {
            if !self.fits(&arg.ty, &CelType::Bool) {
                return mistake(at, format!("{name} needs a bool on both sides, not {}", self.resolved(&arg.ty)));
            }
        }
        let [left, right] = pair(args);
        let both = Box::new((left, right));
        Ok(CelNode { op: if name == "&&" { Op::And(both) } else { Op::Or(both) }, ty: CelType::Bool })
    }

    fn choose(&mut self, at: usize, args: Vec<CelNode>) -> Result<CelNode, CompileError> {
        let mut args = args.into_iter();
        let (Some(condition), Some(yes), Some(no)) = (args.next(), args.next(), args.next()) else {
            return mistake(at, "?: needs a condition and two results");
        };
        if !self.fits(&condition.ty, &CelType::Bool) {
            return mistake(at, format!("the condition of ?: must be a bool, not {}", self.resolved(&condition.ty)));
        }
        let ty = self.open();
        if !self.fits(&yes.ty, &ty) || !self.fits(&no.ty, &ty) {
            let (yes, no) = (self.resolved(&yes.ty), self.resolved(&no.ty));
            return mistake(at, format!("both results of ?: must have one type, not {yes} and {no}"));
        }
        Ok(CelNode { ty: self.resolved(&ty), op: Op::Choose(Box::new((condition, yes, no))) })
    }

    fn index(&mut self, at: usize, args: Vec<CelNode>, optional: bool) -> Result<CelNode, CompileError> {
        let [of, key] = pair(args);
        let (inner, was_optional) = match self.resolved(&of.ty) {
            CelType::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let wanted = match &inner {
            CelType::List(element) => Some((CelType::Int, (**element).clone())),
            CelType::Map(parts) => Some((parts.0.clone(), parts.1.clone())),
            CelType::Dyn | CelType::Open(_) => Some((CelType::Dyn, CelType::Dyn)),
            _ => None,
        };
        let is_null = matches!(self.resolved(&key.ty), CelType::Null);
        let Some((_, element)) = wanted.filter(|(wanted, _)| !is_null && self.fits(&key.ty, wanted)) else {
            let key = self.resolved(&key.ty);
            return mistake(at, format!("{inner} cannot be indexed by {key}"));
        };
        let optional = optional || was_optional;
        let ty = if optional { CelType::optional(element) } else { element };
        Ok(CelNode { op: Op::Index { of: Box::new((of, key)), optional }, ty })
    }

    /// Resolves the overloads that fit the arguments, which determine the type.
    fn resolve(
        &mut self,
        at: usize,
        name: &str,
        overloads: &'static [Overload],
        args: Vec<CelNode>,
    ) -> Result<CelNode, CompileError> {
        let mut result: Option<(CelType, &'static Function)> = None;
        for overload in overloads.iter().filter(|overload| overload.params.len() == args.len()) {
            let fresh = [self.open(), self.open()];
            let before = self.trail.len();
            let fits = args.iter().zip(&overload.params).all(|(arg, param)| {
                let param = instantiated(param, &fresh);
                self.fits(&arg.ty, &param)
            });
            if !fits {
                self.forget(before);
                continue;
            }
            let ty = self.resolved(&instantiated(&overload.result, &fresh));
            result = Some(match result {
                Some((known, function)) if known != ty => (CelType::Dyn, function),
                Some(known) => known,
                None => (ty, overload.function),
            });
        }
        let Some((ty, function)) = result else {
            let given: Vec<String> = args.iter().map(|arg| self.resolved(&arg.ty).to_string()).collect();
            return mistake(at, format!("no overload of {name} fits ({})", given.join(", ")));
        };
        Self::literals(at, name, function, &args)?;
        if function.name == "format" {
            self.format(at, &args)?;
        }
        if library::SEARCHES.contains(&function.name)
            && let Some(CelNode { op: Op::Literal(Constant::Text(pattern)), .. }) = args.get(1)
        {
            let regex = (self.patterns)(pattern).or_else(|error| mistake(at, format!("{pattern:?}: {error}")))?;
            return Ok(CelNode { op: Op::Search { function, args, regex }, ty });
        }
        Ok(CelNode { op: Op::Call { function, args }, ty })
    }

    /// A literal template has an argument of a suitable type for each clause (CEL-009).
    fn format(&self, at: usize, args: &[CelNode]) -> Result<(), CompileError> {
        let [CelNode { op: Op::Literal(Constant::Text(template)), .. }, CelNode { op: Op::List(items), .. }] = args
        else {
            return Ok(());
        };
        let mut written = 0;
        for piece in pieces(template) {
            let FormatPart::Clause { letter, .. } = piece.or_else(|error| mistake(at, error))? else { continue };
            let Some((item, _)) = items.get(written) else {
                return mistake(at, format!("%{letter} has no argument; format() has only {}", items.len()));
            };
            if let Some(ty) = self.unwritable(letter, item) {
                return mistake(at, format!("%{letter} cannot format {ty}"));
            }
            written += 1;
        }
        match items.len() {
            given if given > written => {
                mistake(at, format!("the format uses {written} arguments, and format() has {given}"))
            }
            _ => Ok(()),
        }
    }

    /// The first type, of an argument or inside it, that a clause cannot write.
    fn unwritable(&self, letter: char, item: &CelNode) -> Option<CelType> {
        let ty = self.resolved(&item.ty);
        let fits = match letter {
            _ if matches!(ty, CelType::Dyn | CelType::Open(_)) => true,
            'd' | 'o' => matches!(ty, CelType::Int | CelType::Uint),
            // Strings are allowed for "NaN" and "Infinity".
            'f' | 'e' => matches!(ty, CelType::Double | CelType::Text),
            'b' => matches!(ty, CelType::Int | CelType::Uint | CelType::Bool),
            'x' | 'X' => matches!(ty, CelType::Int | CelType::Uint | CelType::Text | CelType::Bytes),
            _ => ty.has_text(),
        };
        if !fits {
            return Some(ty);
        }
        let mut parts: Box<dyn Iterator<Item = &CelNode>> = match &item.op {
            Op::List(items) if letter == 's' => Box::new(items.iter().map(|(item, _)| item)),
            Op::Map(entries) if letter == 's' => Box::new(entries.iter().flat_map(|(key, value, _)| [key, value])),
            _ => return None,
        };
        parts.find_map(|part| self.unwritable(letter, part))
    }

    /// Conversions of literals are evaluated when the expression is compiled.
    fn literals(at: usize, name: &str, function: &'static Function, args: &[CelNode]) -> Result<(), CompileError> {
        if let [CelNode { op: Op::Literal(literal), .. }] = args
            && ["int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"].contains(&function.name)
            && let Err(text) = converts(function, literal)
        {
            return mistake(at, format!("invalid argument of {name}(): {text}"));
        }
        Ok(())
    }
}

fn pair(args: Vec<CelNode>) -> [CelNode; 2] {
    let nothing = || CelNode { op: Op::Literal(Constant::Null), ty: CelType::Null };
    let mut args = args.into_iter();
    [args.next().unwrap_or_else(nothing), args.next().unwrap_or_else(nothing)]
}
