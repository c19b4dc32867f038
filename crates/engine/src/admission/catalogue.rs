//! The list of all rules.

use super::rules::{class, cluster, machine, machine_group, machine_health_check, shared};
use super::{ListedRule, defaults};
use model::hub::compatibility;

/// Every rule that can deny or warn, in the order in which they run; shared checks last.
pub fn catalogue() -> Vec<ListedRule> {
    let shared =
        shared::LISTED.iter().chain(compatibility::LISTED).map(|(id, name)| ListedRule { id, name, kind: None });
    let of_topologies = defaults::cluster::listed_rules().chain(cluster::listed_rules()).chain(class::listed_rules());
    let of_machines = defaults::machine::listed_rules()
        .chain(defaults::machine_group::listed_rules())
        .chain(defaults::machine_health_check::listed_rules())
        .chain(machine::listed_rules())
        .chain(machine_group::listed_rules())
        .chain(machine_health_check::listed_rules());
    of_topologies.chain(of_machines).chain(shared).collect()
}
