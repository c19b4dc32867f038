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
    pub(super) fn new(mut object: ClusterClass, library: Arc<Library>) -> Self {
        object.share_definitions();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_has_in_common_with_the_spec_what_it_repeats() {
        let variable = |name: &str, r#type: &str| json!({"name": name, "required": true, "schema": {"openAPIV3Schema": {"type": r#type}}});
        let settled = |name: &str, types: &[&str]| {
            let definition = |r#type: &&str| json!({"from": "inline", "required": true, "schema": {"openAPIV3Schema": {"type": r#type}}});
            json!({"name": name, "definitions": types.iter().map(definition).collect::<Vec<_>>()})
        };
        let class: ClusterClass = serde_json::from_value(json!({
            "spec": {"variables": [variable("a", "string"), variable("b", "string")]},
            "status": {"variables": [settled("a", &["string", "integer"]), settled("b", &["integer"]), settled("c", &["string"])]},
        }))
        .unwrap();
        let kept = Class::new(class.clone(), Arc::default());
        assert_eq!(*kept, class, "nothing else is different");
        let written = |i: usize| &kept.spec.variables[i].schema.open_api_v3_schema;
        let repeated = |i: usize, j: usize| &kept.status.variables[i].definitions[j].schema.open_api_v3_schema;
        assert!(repeated(0, 0).is_same(written(0)) && !repeated(0, 1).is_same(written(0)));
        assert!(!repeated(1, 0).is_same(written(1)));
    }
}
