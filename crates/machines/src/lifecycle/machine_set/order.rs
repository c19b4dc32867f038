//! Deletion order of machines (MA-16).

use std::cmp::Ordering;

use crate::lifecycle::conditions::is_false;
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::created;
use golang::calendar::Moment;
use model::hub::Object;

/// On a machine that is deleted before others.
const DELETE_FIRST: &str = "cluster.x-k8s.io/delete-machine";

/// `spec.deletion.order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionOrder {
    /// By name (MA-16.2).
    Random,
    Oldest,
    Newest,
}

impl DeletionOrder {
    /// Parses an order.
    ///
    /// # Errors
    /// When the order is unknown (MA-16.4).
    pub(super) fn read(text: &str) -> Result<DeletionOrder, StepError> {
        match text {
            "" | "Random" => Ok(DeletionOrder::Random),
            "Oldest" => Ok(DeletionOrder::Oldest),
            "Newest" => Ok(DeletionOrder::Newest),
            other => Err(StepError::failed(format!("spec.deletion.order {other:?} is not Random, Newest or Oldest"))),
        }
    }
}

/// Deletion priority of a machine, highest first (MA-16.1). Ages map to priorities monotonically (MA-16.5).
pub(super) fn priority(machine: &Object, is_leaving: bool, order: DeletionOrder, now: Moment) -> f64 {
    if is_leaving {
        return 100.0;
    }
    if machine.annotation(DELETE_FIRST).is_some() {
        return 80.0;
    }
    if is_unhealthy(machine) {
        return 50.0;
    }
    match order {
        DeletionOrder::Random => 20.0,
        DeletionOrder::Oldest => by_age(machine, now),
        // A machine created just now ties with an unhealthy one (MA-16.3).
        DeletionOrder::Newest => 50.0 - by_age(machine, now),
    }
}

/// Whether a machine counts as unhealthy for deletion.
pub(super) fn is_unhealthy(machine: &Object) -> bool {
    machine.node_name().is_empty() || ["NodeHealthy", "HealthCheckSucceeded"].iter().any(|name| is_false(machine, name))
}

/// From 0 for a machine created just now towards 50.
fn by_age(machine: &Object, now: Moment) -> f64 {
    const TEN_DAYS: f64 = 864_000.0;
    let age = created(machine).and_then(|created| now.since(created));
    // Ages below a century in nanoseconds are exact enough as floats.
    #[allow(clippy::cast_precision_loss)]
    let seconds = age.filter(|age| *age > 0).map_or(0.0, |nanos| nanos as f64 / 1e9);
    50.0 * (1.0 - (-seconds / TEN_DAYS).exp())
}

/// The higher priority first, then by name.
pub(super) fn sooner(a: (f64, &Object), b: (f64, &Object)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.name().cmp(b.1.name()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn machine(name: &str, age_in_days: i64, change: Value) -> Object {
        let now = Moment::parse("2030-01-01T00:00:00Z").unwrap();
        let born = now.plus(-age_in_days * 86_400 * golang::calendar::SECOND).unwrap();
        let mut object = json!({
            "kind": "Machine", "metadata": {"name": name, "creationTimestamp": born.to_string()},
            "status": {"nodeRef": {"name": "node"}, "conditions": [{"type": "NodeHealthy", "status": "True"}]},
        });
        for (part, members) in change.as_object().unwrap() {
            for (key, value) in members.as_object().unwrap() {
                object[part][key] = value.clone();
            }
        }
        Object::try_from(object).unwrap()
    }

    fn sorted(order: DeletionOrder, machines: &[Object]) -> Vec<&str> {
        let now = Moment::parse("2030-01-01T00:00:00Z").unwrap();
        let mut all: Vec<(f64, &Object)> =
            machines.iter().map(|one| (priority(one, one.is_being_deleted(), order, now), one)).collect();
        all.sort_by(|a, b| sooner(*a, *b));
        all.into_iter().map(|(_, machine)| machine.name()).collect()
    }

    #[test]
    fn machines_go_by_what_is_wrong_with_them_and_then_by_the_order() {
        // MA-16.1, MA-16.2, MA-16.3
        let failed = |name: &str| json!({"status": {"conditions": [{"type": name, "status": "False"}]}});
        let machines = [
            machine("f-young", 1, json!({})),
            machine("e-old", 9, json!({})),
            machine("d-no-node", 3, json!({"status": {"nodeRef": null}})),
            machine("c-checked", 3, failed("HealthCheckSucceeded")),
            machine("b-sick", 3, failed("NodeHealthy")),
            machine("y-named", 3, json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}})),
            machine("z-leaving", 3, json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})),
            machine("a-new", 0, json!({})),
        ];
        let first = ["z-leaving", "y-named"];
        let sick = ["b-sick", "c-checked", "d-no-node"];
        assert_eq!(
            sorted(DeletionOrder::Random, &machines),
            [&first[..], &sick, &["a-new", "e-old", "f-young"]].concat()
        );
        assert_eq!(
            sorted(DeletionOrder::Oldest, &machines),
            [&first[..], &sick, &["e-old", "f-young", "a-new"]].concat()
        );
        assert_eq!(
            sorted(DeletionOrder::Newest, &machines),
            [&first[..], &["a-new"], &sick, &["f-young", "e-old"]].concat()
        );
    }

    #[test]
    fn the_age_counts_by_an_exponential() {
        // MA-16.1, MA-16.5: the results are ordered by age alone
        let now = Moment::parse("2030-01-01T00:00:00Z").unwrap();
        let at = |days: i64, order| priority(&machine("m", days, json!({})), false, order, now);
        assert!((at(10, DeletionOrder::Oldest) - 50.0 * (1.0 - (-1.0_f64).exp())).abs() < 1e-9);
        assert!(at(-1, DeletionOrder::Oldest).abs() < 1e-9, "a machine of the future has no age");
        assert!((at(0, DeletionOrder::Newest) - 50.0).abs() < 1e-9);
        assert!((1..20).all(|days| at(days, DeletionOrder::Oldest) > at(days - 1, DeletionOrder::Oldest)));
        assert!((1..20).all(|days| at(days, DeletionOrder::Newest) < at(days - 1, DeletionOrder::Newest)));
    }

    #[test]
    fn an_order_has_one_of_three_names() {
        // MA-16.4
        for (text, want) in [
            ("", Some(DeletionOrder::Random)),
            ("Random", Some(DeletionOrder::Random)),
            ("Oldest", Some(DeletionOrder::Oldest)),
            ("Newest", Some(DeletionOrder::Newest)),
            ("newest", None),
        ] {
            assert_eq!(DeletionOrder::read(text).ok(), want, "{text}");
        }
    }
}
