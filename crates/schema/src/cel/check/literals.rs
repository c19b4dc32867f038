//! Literals of lists, maps and messages.

use super::{Checker, mistake};
use crate::cel::fault::CompileError;
use crate::cel::node::{CelNode, Op, TimeField};
use crate::cel::parse::Expr;
use crate::cel::types::CelType;

impl Checker<'_> {
    pub(super) fn list(&mut self, items: &[(Expr, bool)]) -> Result<CelNode, CompileError> {
        let mut element: Option<CelType> = None;
        let mut nodes = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let node = self.check(item)?;
            let ty = self.element_type(item.at, &node, *optional)?;
            element = Some(self.join(item.at, element, ty)?);
            nodes.push((node, *optional));
        }
        let element = element.unwrap_or_else(|| self.open());
        Ok(CelNode { op: Op::List(nodes), ty: CelType::list(element) })
    }

    fn element_type(&mut self, at: usize, node: &CelNode, optional: bool) -> Result<CelType, CompileError> {
        if !optional {
            return Ok(self.resolved(&node.ty));
        }
        let inner = self.open();
        if !self.fits(&node.ty, &CelType::optional(inner.clone())) {
            return mistake(at, format!("\"?\" needs an optional after it, not {}", self.resolved(&node.ty)));
        }
        Ok(self.resolved(&inner))
    }

    /// The common type of elements: they must have one type, unless mixed types are allowed.
    fn join(&mut self, at: usize, known: Option<CelType>, next: CelType) -> Result<CelType, CompileError> {
        let Some(known) = known else { return Ok(next) };
        let (is_dyn, next_is_dyn) = (matches!(known, CelType::Dyn), matches!(next, CelType::Dyn));
        if is_dyn != next_is_dyn || !self.fits(&next, &known) {
            if self.allows_mixed {
                return Ok(CelType::Dyn);
            }
            return mistake(at, format!("all elements must have one type: found {next} after {known}"));
        }
        Ok(self.resolved(&known))
    }

    pub(super) fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Result<CelNode, CompileError> {
        let (mut keys, mut values) = (None, None);
        let mut nodes = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let (key_node, value_node) = (self.check(key)?, self.check(value)?);
            let key_type = self.resolved(&key_node.ty);
            if matches!(key_type, CelType::Bytes) {
                return mistake(key.at, format!("{key_type} cannot be a key of a map"));
            }
            keys = Some(self.join(key.at, keys, key_type)?);
            let ty = self.element_type(value.at, &value_node, *optional)?;
            values = Some(self.join(value.at, values, ty)?);
            nodes.push((key_node, value_node, *optional));
        }
        let keys = keys.unwrap_or_else(|| self.open());
        let values = values.unwrap_or_else(|| self.open());
        Ok(CelNode { op: Op::Map(nodes), ty: CelType::map(keys, values) })
    }

    pub(super) fn message(
        &mut self,
        at: usize,
        name: &str,
        fields: &[(String, Expr, bool)],
    ) -> Result<CelNode, CompileError> {
        let ty = match name {
            "google.protobuf.Duration" => CelType::Duration,
            "google.protobuf.Timestamp" => CelType::Timestamp,
            _ => {
                let known = "google.protobuf.Duration and google.protobuf.Timestamp";
                return mistake(at, format!("cannot create a message of type {name}; only {known} can be created"));
            }
        };
        let mut units = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            let unit = match &**field {
                "seconds" => TimeField::Seconds,
                "nanos" => TimeField::Nanos,
                _ => return mistake(value.at, format!("undefined field {field:?}; {name} has seconds and nanos")),
            };
            let node = self.check(value)?;
            let given = self.element_type(value.at, &node, *optional)?;
            if !self.fits(&given, &CelType::Int) {
                return mistake(value.at, format!("{field} is an int, not {}", self.resolved(&given)));
            }
            units.push((unit, node, *optional));
        }
        Ok(CelNode { op: Op::Time(units), ty })
    }
}
