//! Items of arrays, and members of objects.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::place::ValuePath;
use super::report::ViolationReport;
use super::{STEPS_OF_NODE, signed};
use crate::field::ErrorKind;
use crate::openapi::Schema;

impl Schema {
    pub(super) fn check_array(&self, elements: &[Value], place: &ValuePath<'_>, report: &mut ViolationReport<'_>) {
        let count = signed(elements.len());
        if let Some(least) = self.min_items {
            report.require(count >= least, "VAR-V-022", ErrorKind::Invalid, place, || {
                format!("must have at least {least} items, and has {count}")
            });
        }
        if let Some(most) = self.max_items {
            report.require(count <= most, "VAR-V-022", ErrorKind::TooMany, place, || {
                format!("must have at most {most} items, and has {count}")
            });
        }
        if self.unique_items {
            let mut seen = HashSet::new();
            let repeated = elements.iter().position(|element| {
                let text = element.to_string();
                !report.effort.take(STEPS_OF_NODE + text.len()) || !seen.insert(text)
            });
            report.require(repeated.is_none(), "VAR-V-022", ErrorKind::Invalid, place, || {
                format!("must have no equal items, and item {} repeats an earlier one", repeated.unwrap_or_default())
            });
        }
        if let Some(node) = &self.items {
            for (i, element) in elements.iter().enumerate() {
                node.apply(element, &ValuePath::Element(place, i), report);
            }
        }
    }

    pub(super) fn check_object(
        &self,
        members: &Map<String, Value>,
        place: &ValuePath<'_>,
        report: &mut ViolationReport<'_>,
    ) {
        if !report.effort.take(members.len() + self.required.len()) {
            return;
        }
        let count = signed(members.len());
        if let Some(least) = self.min_properties {
            report.require(count >= least, "VAR-V-022", ErrorKind::Invalid, place, || {
                format!("must have at least {least} properties, and has {count}")
            });
        }
        if let Some(most) = self.max_properties {
            report.require(count <= most, "VAR-V-022", ErrorKind::TooMany, place, || {
                format!("must have at most {most} properties, and has {count}")
            });
        }
        for name in &self.required {
            report.require(
                members.contains_key(name),
                "VAR-V-021",
                ErrorKind::Required,
                &ValuePath::Member(place, name),
                String::new,
            );
        }
        for (name, member) in members {
            if let Some(node) = self.properties.get(name).or(self.additional_properties.as_deref()) {
                node.apply(member, &ValuePath::Member(place, name), report);
            }
        }
    }
}
