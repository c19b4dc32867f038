//! Failures and gaps of computations in words, with hints for users.

use super::failure::Failure;
use model::hub::{ExternalPatch, ObjectKey, Patch};
use model::world::{Facts, Found};
use schema::field::closest;

/// A known class of the namespace with a name similar to that of an absent one.
pub fn similar_class(absent: &ObjectKey, facts: &Facts) -> Option<String> {
    let near = facts.class_keys().filter(|key| key.namespace == absent.namespace);
    let meant = closest(&absent.name, near.map(|key| &*key.name)).filter(|_| facts.class(absent) == Found::Absent)?;
    Some(format!("the closest ClusterClass in namespace {} is {meant:?}", absent.namespace))
}

/// The patches whose variables are unknown because their extension was not called.
pub fn unknown_variables(class: &ObjectKey, facts: &Facts) -> Vec<String> {
    let Found::Yes(found) = facts.class(class) else { return Vec::new() };
    let patches = found.spec.discovering_patches().filter(|_| found.may_have_more_variables());
    let say = |(patch, external): (&Patch, &ExternalPatch)| {
        format!(
            "ClusterClass {class}, patch {:?}: the variables of the extension {:?} are not known offline",
            patch.name, external.discover_variables_extension
        )
    };
    patches.map(say).collect()
}

/// [`unknown_variables`] for the class of a Cluster.
pub fn unknown_variables_of(cluster: &ObjectKey, facts: &Facts) -> Vec<String> {
    let class = match facts.cluster(cluster) {
        Found::Yes(found) => found.class_key(),
        _ => None,
    };
    class.map(|class| unknown_variables(&class, facts)).unwrap_or_default()
}

/// A failure as a message, with the class that the user most likely meant.
pub fn explain(failure: &Failure, facts: &Facts) -> String {
    let hint = match failure {
        Failure::NoClass(absent) => similar_class(absent, facts),
        _ => None,
    };
    hint.map_or_else(|| failure.to_string(), |hint| format!("{failure}; {hint}"))
}
