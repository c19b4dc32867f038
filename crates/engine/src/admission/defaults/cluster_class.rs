//! Defaults of a ClusterClass: v1beta1 alone has any.

use json_patch::Patch;
use serde_json::Value;

use super::{add, pointer};
use crate::admission::{AdmissionOutcome, AdmissionSettings, Verdict};
use model::hub::Kind;
use model::wire::Reference;
use schema::field::Findings;

/// The mutating end point for ClusterClasses: references without a namespace get that of the class (DEC-3).
pub(in crate::admission) fn default(
    namespace: &str,
    references: &[Reference],
    settings: &AdmissionSettings,
) -> Verdict {
    let mut patch = Vec::new();
    if !namespace.is_empty() {
        Findings::without(settings.silenced).run("DEC-3", |_| {
            let missing = references.iter().filter(|reference| reference.namespace.is_none());
            patch.extend(
                missing.map(|reference| {
                    add(&pointer(&format!("{}/namespace", reference.pointer)), Value::from(namespace))
                }),
            );
        });
    }
    Verdict { patch: Patch(patch), ..Verdict::plain(Kind::ClusterClass, "", AdmissionOutcome::Allowed) }
}
