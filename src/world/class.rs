//! A ClusterClass with what is computed from it once.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::hub::ClusterClass;
use crate::variables::{self, Library, Variables};

/// A ClusterClass; its variables are compiled when they are first asked for, and never again.
#[derive(Clone)]
pub struct Class {
    object: ClusterClass,
    variables: OnceLock<Option<Arc<Variables>>>,
    compiled: OnceLock<Arc<dyn Any + Send + Sync>>,
    library: Arc<Library>,
}

impl Class {
    /// A class that shares what it compiles with all classes of equal content in `library` (DEC-39).
    pub(super) fn new(object: ClusterClass, library: Arc<Library>) -> Self {
        Class { object, variables: OnceLock::new(), compiled: OnceLock::new(), library }
    }

    /// The variables that values are judged by; `None` while only an extension knows them.
    pub fn variables(&self) -> Option<&Arc<Variables>> {
        let compile = || Some(self.library.keep(&variables::current(&self.object)?));
        self.variables.get_or_init(compile).as_ref()
    }

    /// What the layer above computes from the class alone, once; there is one such thing, of one type.
    pub fn compiled<T: Send + Sync + 'static>(&self, compile: impl FnOnce(&ClusterClass) -> T) -> Arc<T> {
        if let Some(kept) = self.compiled.get()
            && let Ok(kept) = kept.clone().downcast()
        {
            return kept;
        }
        let compiled = Arc::new(compile(&self.object));
        // Whoever was faster has compiled the same.
        let _ = self.compiled.set(compiled.clone());
        compiled
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
