//! Macros: comprehensions, and functions on the value of an optional.

use super::{Checker, mistake};
use crate::cel::fault::CompileError;
use crate::cel::library;
use crate::cel::node::{CelNode, Op, Repeat};
use crate::cel::parse::{Expr, Loop, LoopForm};
use crate::cel::types::CelType;

impl Checker<'_> {
    fn within<R>(&mut self, names: Vec<(String, CelType)>, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.names.len();
        self.names.extend(names);
        let result = act(self);
        self.names.truncate(before);
        result
    }

    pub(super) fn repeat(&mut self, at: usize, parts: &Loop) -> Result<CelNode, CompileError> {
        let range = self.check(&parts.range)?;
        let (key, value) = match self.resolved(&range.ty) {
            CelType::List(element) => (CelType::Int, (*element).clone()),
            CelType::Map(parts) => (parts.0.clone(), parts.1.clone()),
            CelType::Dyn | CelType::Open(_) => (CelType::Dyn, CelType::Dyn),
            other => return mistake(at, format!("cannot iterate over {other}")),
        };
        let keyed = parts.names.len() == 2;
        let types = match (keyed, self.resolved(&range.ty)) {
            (true, _) => vec![key.clone(), value.clone()],
            (false, CelType::Map(_)) => vec![key.clone()],
            (false, _) => vec![value.clone()],
        };
        if parts.form == LoopForm::SortBy && !matches!(self.resolved(&range.ty), CelType::List(_) | CelType::Dyn) {
            return mistake(at, "sortBy() needs a list");
        }
        let element = types.first().cloned().unwrap_or(CelType::Dyn);
        let names = parts.names.iter().cloned().zip(types).collect();
        let (filter, body) = self.within(names, |checker| {
            let filter = parts.filter.as_ref().map(|filter| checker.check(filter)).transpose()?;
            Ok((filter, checker.check(&parts.body)?))
        })?;
        let body_type = self.resolved(&body.ty);
        let judges = matches!(parts.form, LoopForm::All | LoopForm::Exists | LoopForm::ExistsOne | LoopForm::Filter);
        let conditions = filter.iter().map(|filter| &filter.ty).chain(judges.then_some(&body.ty));
        for ty in conditions {
            if !self.fits(ty, &CelType::Bool) {
                return mistake(at, format!("the condition must be a bool, not {}", self.resolved(ty)));
            }
        }
        let ty = match parts.form {
            LoopForm::All | LoopForm::Exists | LoopForm::ExistsOne => CelType::Bool,
            LoopForm::Map | LoopForm::TransformList => CelType::list(body_type),
            LoopForm::Filter => CelType::list(element),
            LoopForm::TransformMap => CelType::map(key, body_type),
            LoopForm::TransformMapEntry => match body_type {
                CelType::Map(_) | CelType::Dyn => body_type,
                other => return mistake(at, format!("transformMapEntry() must result in a map, not {other}")),
            },
            LoopForm::SortBy => {
                if !library::is_ordered(&body_type) {
                    return mistake(at, format!("cannot sort by {body_type}"));
                }
                self.resolved(&range.ty)
            }
        };
        Ok(CelNode { op: Op::Loop(Box::new(Repeat { form: parts.form, range, keyed, filter, body })), ty })
    }

    pub(super) fn bind_optional(
        &mut self,
        of: &Expr,
        name: &str,
        body: &Expr,
        flat: bool,
    ) -> Result<CelNode, CompileError> {
        let target = self.check(of)?;
        let inner = self.open();
        if !self.fits(&target.ty, &CelType::optional(inner.clone())) {
            return mistake(of.at, format!("expected an optional, and found {}", self.resolved(&target.ty)));
        }
        let inner = self.resolved(&inner);
        let result = self.within(vec![(name.to_owned(), inner)], |checker| checker.check(body))?;
        let ty = if flat {
            let inner = self.open();
            if !self.fits(&result.ty, &CelType::optional(inner.clone())) {
                return mistake(body.at, "optFlatMap() must result in an optional");
            }
            CelType::optional(self.resolved(&inner))
        } else {
            CelType::optional(self.resolved(&result.ty))
        };
        Ok(CelNode { op: Op::Bind { of: Box::new(target), body: Box::new(result), flat }, ty })
    }
}
