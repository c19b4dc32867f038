//! Type variables: types that are inferred from later uses.

use super::Checker;
use crate::cel::types::CelType;

impl Checker<'_> {
    pub(super) fn open(&mut self) -> CelType {
        self.bound.push(None);
        CelType::Open(u32::try_from(self.bound.len() - 1).unwrap_or(u32::MAX))
    }

    fn binding(&self, open: u32) -> Option<&CelType> {
        self.bound.get(usize::try_from(open).ok()?)?.as_ref()
    }

    /// The type with all known bindings of its open parts.
    pub(super) fn resolved(&self, ty: &CelType) -> CelType {
        match ty {
            CelType::Open(open) => self.binding(*open).map_or_else(|| ty.clone(), |known| self.resolved(known)),
            CelType::List(of) => CelType::list(self.resolved(of)),
            CelType::Optional(of) => CelType::optional(self.resolved(of)),
            CelType::Map(parts) => CelType::map(self.resolved(&parts.0), self.resolved(&parts.1)),
            other => other.clone(),
        }
    }

    fn mentions(&self, ty: &CelType, open: u32) -> bool {
        match ty {
            CelType::Open(other) => {
                *other == open || self.binding(*other).is_some_and(|known| self.mentions(known, open))
            }
            CelType::List(of) | CelType::Optional(of) => self.mentions(of, open),
            CelType::Map(parts) => self.mentions(&parts.0, open) || self.mentions(&parts.1, open),
            _ => false,
        }
    }

    fn bind(&mut self, open: u32, ty: &CelType) -> bool {
        if self.mentions(ty, open) {
            return matches!(self.resolved(ty), CelType::Open(other) if other == open);
        }
        let at = usize::try_from(open).unwrap_or(usize::MAX);
        if let Some(place) = self.bound.get_mut(at) {
            self.trail.push((at, place.replace(ty.clone())));
        }
        true
    }

    /// Reverts the inferences made after the trail had `length` steps.
    pub(super) fn forget(&mut self, length: usize) {
        while self.trail.len() > length {
            if let Some((at, before)) = self.trail.pop()
                && let Some(place) = self.bound.get_mut(at)
            {
                *place = before;
            }
        }
    }

    /// Whether a value of type `given` may stand where `wanted` is expected; binds open types.
    pub(super) fn fits(&mut self, given: &CelType, wanted: &CelType) -> bool {
        let before = self.trail.len();
        let fits = self.unify(given, wanted);
        if !fits {
            self.forget(before);
        }
        fits
    }

    fn unify(&mut self, given: &CelType, wanted: &CelType) -> bool {
        if let CelType::Open(open) = wanted {
            let Some(known) = self.binding(*open).cloned() else { return self.bind(*open, given) };
            let fits = self.unify(given, &known);
            // Of dyn and another type, dyn is the more general.
            if fits && matches!(self.resolved(given), CelType::Dyn) {
                return self.bind(*open, &CelType::Dyn);
            }
            return fits;
        }
        if let CelType::Open(open) = given {
            return match self.binding(*open).cloned() {
                Some(known) => self.unify(&known, wanted),
                None => self.bind(*open, wanted),
            };
        }
        match (given, wanted) {
            (CelType::Dyn, _) | (_, CelType::Dyn) => true,
            (CelType::List(a), CelType::List(b)) | (CelType::Optional(a), CelType::Optional(b)) => self.unify(a, b),
            (CelType::Map(a), CelType::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (CelType::Null, other) | (other, CelType::Null) => matches!(
                other,
                CelType::Null
                    | CelType::Object(_)
                    | CelType::Duration
                    | CelType::Timestamp
                    | CelType::Optional(_)
                    | CelType::Ip
                    | CelType::Cidr
                    | CelType::Url
                    | CelType::Quantity
                    | CelType::Semver
                    | CelType::Format
            ),
            (a, b) => a == b,
        }
    }
}

pub(super) fn instantiated(ty: &CelType, fresh: &[CelType; 2]) -> CelType {
    match ty {
        CelType::Open(0) => fresh[0].clone(),
        CelType::Open(_) => fresh[1].clone(),
        CelType::List(of) => CelType::list(instantiated(of, fresh)),
        CelType::Optional(of) => CelType::optional(instantiated(of, fresh)),
        CelType::Map(parts) => CelType::map(instantiated(&parts.0, fresh), instantiated(&parts.1, fresh)),
        other => other.clone(),
    }
}
