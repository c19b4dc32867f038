//! A ClusterClass with what is computed from it once.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::hub::ClusterClass;
use crate::variables::Variables;

/// A ClusterClass; its variables are compiled when they are first asked for, and never again.
#[derive(Clone)]
pub struct Class {
    object: ClusterClass,
    variables: OnceLock<Option<Arc<Variables>>>,
}

impl Class {
    /// The variables that values are judged by; `None` while only an extension knows them.
    pub fn variables(&self) -> Option<&Variables> {
        self.variables.get_or_init(|| Variables::of(&self.object).map(Arc::new)).as_deref()
    }

    /// The same class with what `former` has compiled, when that follows from the same definitions (DEC-39).
    #[must_use]
    pub(super) fn inherit(self, former: &Class) -> Self {
        if let Some(compiled) = former.variables.get()
            && self.has_the_definitions_of(former)
        {
            let _ = self.variables.set(compiled.clone());
        }
        self
    }

    fn has_the_definitions_of(&self, other: &Class) -> bool {
        let (ours, theirs) = (&self.object, &other.object);
        ours.is_reconciled() == theirs.is_reconciled()
            && ours.spec.variables == theirs.spec.variables
            && ours.spec.patches == theirs.spec.patches
            && ours.status.variables == theirs.status.variables
    }
}

impl From<ClusterClass> for Class {
    fn from(object: ClusterClass) -> Self {
        Class { object, variables: OnceLock::new() }
    }
}

impl Deref for Class {
    type Target = ClusterClass;

    fn deref(&self) -> &ClusterClass {
        &self.object
    }
}

impl PartialEq for Class {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Class").field(&self.object.metadata.key()).finish()
    }
}
