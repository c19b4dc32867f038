//! Type variables: types that are inferred from later uses.

use super::Checker;
use crate::cel::types::Type;

impl Checker<'_> {
    pub(super) fn open(&mut self) -> Type {
        self.bound.push(None);
        Type::Open(u32::try_from(self.bound.len() - 1).unwrap_or(u32::MAX))
    }

    fn binding(&self, open: u32) -> Option<&Type> {
        self.bound.get(usize::try_from(open).ok()?)?.as_ref()
    }

    /// The type with everything that is known about open parts of it.
    pub(super) fn resolved(&self, ty: &Type) -> Type {
        match ty {
            Type::Open(open) => self.binding(*open).map_or_else(|| ty.clone(), |known| self.resolved(known)),
            Type::List(of) => Type::list(self.resolved(of)),
            Type::Optional(of) => Type::optional(self.resolved(of)),
            Type::Map(parts) => Type::map(self.resolved(&parts.0), self.resolved(&parts.1)),
            other => other.clone(),
        }
    }

    fn mentions(&self, ty: &Type, open: u32) -> bool {
        match ty {
            Type::Open(other) => *other == open || self.binding(*other).is_some_and(|known| self.mentions(known, open)),
            Type::List(of) | Type::Optional(of) => self.mentions(of, open),
            Type::Map(parts) => self.mentions(&parts.0, open) || self.mentions(&parts.1, open),
            _ => false,
        }
    }

    fn bind(&mut self, open: u32, ty: &Type) -> bool {
        if self.mentions(ty, open) {
            return matches!(self.resolved(ty), Type::Open(other) if other == open);
        }
        let at = usize::try_from(open).unwrap_or(usize::MAX);
        if let Some(place) = self.bound.get_mut(at) {
            self.trail.push((at, place.replace(ty.clone())));
        }
        true
    }

    /// Reverts the inferences made since the trail had `length` steps.
    pub(super) fn forget(&mut self, length: usize) {
        while self.trail.len() > length {
            if let Some((at, before)) = self.trail.pop()
                && let Some(place) = self.bound.get_mut(at)
            {
                *place = before;
            }
        }
    }

    /// Whether a value of one type can stand where another is wanted; remembers what that says about open types.
    pub(super) fn fits(&mut self, given: &Type, wanted: &Type) -> bool {
        let before = self.trail.len();
        let fits = self.unify(given, wanted);
        if !fits {
            self.forget(before);
        }
        fits
    }

    fn unify(&mut self, given: &Type, wanted: &Type) -> bool {
        if let Type::Open(open) = wanted {
            let Some(known) = self.binding(*open).cloned() else { return self.bind(*open, given) };
            let fits = self.unify(given, &known);
            // Of a dyn and another type the dyn is the more general.
            if fits && matches!(self.resolved(given), Type::Dyn) {
                return self.bind(*open, &Type::Dyn);
            }
            return fits;
        }
        if let Type::Open(open) = given {
            return match self.binding(*open).cloned() {
                Some(known) => self.unify(&known, wanted),
                None => self.bind(*open, wanted),
            };
        }
        match (given, wanted) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Duration
                    | Type::Timestamp
                    | Type::Optional(_)
                    | Type::Ip
                    | Type::Cidr
                    | Type::Url
                    | Type::Quantity
                    | Type::Semver
                    | Type::Format
            ),
            (a, b) => a == b,
        }
    }
}

pub(super) fn instantiated(ty: &Type, fresh: &[Type; 2]) -> Type {
    match ty {
        Type::Open(0) => fresh[0].clone(),
        Type::Open(_) => fresh[1].clone(),
        Type::List(of) => Type::list(instantiated(of, fresh)),
        Type::Optional(of) => Type::optional(instantiated(of, fresh)),
        Type::Map(parts) => Type::map(instantiated(&parts.0, fresh), instantiated(&parts.1, fresh)),
        other => other.clone(),
    }
}
