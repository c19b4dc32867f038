//! ClusterClasses with their compiled parts.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::hub::ClusterClass;
use crate::variables::{self, ClassCache, ClassSlot, CompiledVariables};
use golang::json::JsonSize;
use golang::template::Template;
use schema::budget::Stop;
use schema::openapi::{SchemaAllowance, SchemaError};

/// A ClusterClass with cached compiled variables. They are compiled again only after they were evicted from the cache
/// (DEC-44).
pub struct Class {
    object: ClusterClass,
    slot: ClassSlot,
    deprecates: bool,
    is_nameless: OnceLock<bool>,
    reads_template_names: OnceLock<bool>,
    shares_names: OnceLock<bool>,
    prefixes_name: OnceLock<bool>,
    summary: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Class {
    /// A class that shares compiled parts with all classes of equal content in `library` (DEC-39).
    ///
    /// # Errors
    /// When its variables and templates exceed the limits of a class (DEC-44).
    pub(super) fn compile(mut object: ClusterClass, library: &Arc<ClassCache>) -> Result<Self, SchemaError> {
        object.share_definitions();
        let deprecates =
            variables::current(&object).is_some_and(|definitions| variables::have_deprecated(&definitions));
        let slot = ClassSlot::new(library);
        let class = Class {
            object,
            slot,
            deprecates,
            is_nameless: OnceLock::new(),
            reads_template_names: OnceLock::new(),
            shares_names: OnceLock::new(),
            prefixes_name: OnceLock::new(),
            summary: OnceLock::new(),
        };
        let mut allowance = SchemaAllowance::new(Stop::never());
        allowance.compile(class.template_bytes())?;
        if let Some(definitions) = variables::current(&class.object) {
            class.slot.compile(&definitions, &mut allowance)?;
        }
        Ok(class)
    }

    /// The variables for validating values; `None` while only an extension knows them.
    ///
    /// If extensions may define more, values without a definition are not checked.
    pub fn variables(&self) -> Option<Arc<CompiledVariables>> {
        let known = self.known_variables()?;
        if self.object.may_have_more_variables() { Some(Arc::new(known.only(|_| true))) } else { Some(known) }
    }

    /// Whether any of its variables, or a part of their values, is deprecated.
    pub fn deprecates(&self) -> bool {
        self.deprecates
    }

    /// Whether it is independent of Cluster names, computed once by the layer above.
    pub fn is_nameless(&self, find_out: impl FnOnce(&ClusterClass) -> bool) -> bool {
        *self.is_nameless.get_or_init(|| find_out(&self.object))
    }

    /// Whether its patches may read names of templates, computed once by the layer above.
    pub fn reads_template_names(&self, find_out: impl FnOnce(&ClusterClass) -> bool) -> bool {
        *self.reads_template_names.get_or_init(|| find_out(&self.object))
    }

    /// Whether its naming templates may give parts of two Clusters one name, computed once by the layer above.
    pub fn shares_names(&self, find_out: impl FnOnce(&ClusterClass) -> bool) -> bool {
        *self.shares_names.get_or_init(|| find_out(&self.object))
    }

    /// Whether its templates write something directly before the names of Clusters, computed once by the layer above.
    pub fn prefixes_name(&self, find_out: impl FnOnce(&ClusterClass) -> bool) -> bool {
        *self.prefixes_name.get_or_init(|| find_out(&self.object))
    }

    /// What the layer above sums up of the class alone, once, and for as long as the class is kept: it takes few bytes.
    /// There is one such thing, of one type.
    pub fn summary<T: Send + Sync + 'static>(&self, sum_up: impl Fn(&ClusterClass) -> T) -> Arc<T> {
        let summary = self.summary.get_or_init(|| Arc::new(sum_up(&self.object)));
        Arc::downcast(summary.clone()).unwrap_or_else(|_| Arc::new(sum_up(&self.object)))
    }

    fn known_variables(&self) -> Option<Arc<CompiledVariables>> {
        self.slot.variables().or_else(|| {
            let definitions = variables::current(&self.object)?;
            // They were compiled within the same allowance before, with the same outcome.
            let compiled = self.slot.compile(&definitions, &mut SchemaAllowance::new(Stop::never()));
            Some(
                compiled
                    .unwrap_or_else(|error| Arc::new(CompiledVariables::unusable(&definitions, &error.to_string()))),
            )
        })
    }

    /// Whether its variables are compiled, so that access is cheap.
    pub fn is_compiled(&self) -> bool {
        self.slot.variables().is_some() || variables::current(&self.object).is_none()
    }

    /// A value that the layer above computes once from the class alone; there is one such value, of one type.
    pub fn compiled<T: Send + Sync + 'static>(&self, compile: impl FnOnce(&ClusterClass) -> T) -> Arc<T> {
        let values: usize = self.object.spec.patch_values().map(JsonSize::decoded_bytes).sum();
        self.slot.more(self.template_bytes() + values, || compile(&self.object))
    }

    /// Upper bound of the memory of its compiled templates, in bytes.
    fn template_bytes(&self) -> usize {
        self.object.spec.templates().map(Template::footprint).sum()
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
    fn a_status_shares_definitions_that_equal_those_of_the_spec() {
        let variable = |name: &str, r#type: &str| {
            json!({"name": name, "required": true,
                "schema": {"openAPIV3Schema": {"type": r#type}}})
        };
        let settled = |name: &str, types: &[&str]| {
            let definition = |r#type: &&str| {
                json!({"from": "inline", "required": true,
                    "schema": {"openAPIV3Schema": {"type": r#type}}})
            };
            json!({"name": name, "definitions": types.iter().map(definition).collect::<Vec<_>>()})
        };
        let class: ClusterClass = serde_json::from_value(json!({
            "spec": {"variables": [variable("a", "string"), variable("b", "string")]},
            "status": {"variables": [settled("a", &["string", "integer"]), settled("b", &["integer"]),
                settled("c", &["string"])]},
        }))
        .unwrap();
        let kept = Class::compile(class.clone(), &Arc::default()).unwrap();
        assert_eq!(*kept, class, "nothing else is different");
        let written = |i: usize| &kept.spec.variables[i].schema.open_api_v3_schema;
        let repeated = |i: usize, j: usize| &kept.status.variables[i].definitions[j].schema.open_api_v3_schema;
        assert!(repeated(0, 0).is_same(written(0)) && !repeated(0, 1).is_same(written(0)));
        assert!(!repeated(1, 0).is_same(written(1)));
    }

    #[test]
    fn what_is_summed_up_of_a_class_is_summed_up_once() {
        let class = Class::compile(ClusterClass::default(), &Arc::default()).unwrap();
        let times = std::cell::Cell::new(0);
        let sum = || class.summary(|_| times.replace(times.get() + 1));
        assert_eq!((*sum(), *sum(), times.get()), (0, 0, 1));
    }
}
