//! A Cluster (CL-V): rules that do not depend on a topology, and the order in which the others run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::topology_change::TopologyChange;
use super::{rebase, references, topology, version};
use crate::admission::rule::{Rule, listed, rules, run};
use crate::admission::{AdmissionOutcome, AdmissionSettings, ListedRule, Verdict};
use model::hub::naming::label_value_faults;
use model::hub::{Cluster, Kind, NetworkRanges, annotation, paths};
use model::world::World;
use schema::field::{Findings, Path, Warning};

/// A Cluster that is created (`old` is `None`) or updated.
pub(super) struct ClusterChange<'a> {
    pub new: &'a Cluster,
    pub old: Option<&'a Cluster>,
}

type ClusterRule = Rule<fn(&ClusterChange<'_>, &mut Findings)>;

const INDEPENDENT: &[ClusterRule] = rules![
    "CL-V-001" => name_is_a_label_value,
    "CL-V-002" => infrastructure_ref_stays_defined,
    "CL-V-003" => something_is_asked_for,
    "CL-V-004" => control_plane_ref_stays_defined,
    "CL-V-005" => pod_ranges_are_cidr_blocks,
    "CL-V-006" => service_ranges_are_cidr_blocks,
];

const AFTER_TOPOLOGY: &[ClusterRule] = rules!["CL-V-007" => topology_stays_defined];

/// The rules of this kind in the order in which they run.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    listed(Kind::Cluster, INDEPENDENT)
        .chain(topology::listed_rules())
        .chain(version::listed_rules())
        .chain(rebase::listed_rules())
        .chain(listed(Kind::Cluster, AFTER_TOPOLOGY))
}

/// The validating end point for Clusters on create and update.
pub(crate) fn validate(new: &Cluster, old: Option<&Cluster>, world: &World, settings: &AdmissionSettings) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let change = ClusterChange { new, old };
    run(INDEPENDENT, &change, &mut found);
    found.run(references::RULE, |found| references_can_be_part_of_a_url(&change, found));
    let mut not_checked = Vec::new();
    if let Some(topology) = new.topology() {
        let change = TopologyChange { new, topology, old, world, settings };
        topology::validate(&change, &mut found, &mut not_checked);
    }
    run(AFTER_TOPOLOGY, &change, &mut found);
    Verdict { not_checked, ..Verdict::from_findings(Kind::Cluster, found) }
}

/// The validating end point for Clusters on delete: always allowed (CL-V-080), with a warning if the deletion does not
/// wait for hooks (DEC-56).
pub(crate) fn validate_delete(old: &Cluster) -> Verdict {
    let is_unsafe = old.topology().is_some() && old.annotation(annotation::SKIP_DELETE_HOOKS).is_some();
    let text = format!("annotation {} is set: hooks BeforeClusterDelete are not called", annotation::SKIP_DELETE_HOOKS);
    let warnings = is_unsafe.then_some(Warning::new("DEC-56", text)).into_iter().collect();
    Verdict { warnings, ..Verdict::plain(Kind::Cluster, "", AdmissionOutcome::Allowed) }
}

/// The name of a Cluster is used as a label value and must be one (CL-V-001).
fn name_is_a_label_value(change: &ClusterChange<'_>, found: &mut Findings) {
    let name = &change.new.metadata.name;
    for fault in label_value_faults(name) {
        found.invalid(
            Path::new(paths::metadata::NAME),
            &**name,
            format!("the name of a Cluster is a label value, which {fault}"),
        );
    }
}

/// References of a Cluster can be part of a URL (DEC-45).
fn references_can_be_part_of_a_url(change: &ClusterChange<'_>, found: &mut Findings) {
    let old = change.old.map(references::malformed_in_cluster).unwrap_or_default();
    references::can_be_part_of_a_url(references::malformed_in_cluster(change.new), &old, found);
}

/// An infrastructure reference may change, but may not be removed (CL-V-002).
fn infrastructure_ref_stays_defined(change: &ClusterChange<'_>, found: &mut Findings) {
    if change.old.is_some_and(|old| old.spec.infrastructure_ref.is_defined())
        && !change.new.spec.infrastructure_ref.is_defined()
    {
        found.forbidden(Path::new(paths::INFRASTRUCTURE_REF), "cannot be removed");
    }
}

/// A Cluster has a topology, a control plane or an infrastructure cluster (CL-V-003).
fn something_is_asked_for(change: &ClusterChange<'_>, found: &mut Findings) {
    let spec = &change.new.spec;
    if !spec.control_plane_ref.is_defined() && !spec.infrastructure_ref.is_defined() && !spec.topology.is_defined() {
        found.forbidden(Path::new("spec"), "set at least one of topology, controlPlaneRef, infrastructureRef");
    }
}

/// A control plane reference may change, but may not be removed (CL-V-004).
fn control_plane_ref_stays_defined(change: &ClusterChange<'_>, found: &mut Findings) {
    if change.old.is_some_and(|old| old.spec.control_plane_ref.is_defined())
        && !change.new.spec.control_plane_ref.is_defined()
    {
        found.forbidden(Path::new(paths::cluster::CONTROL_PLANE_REF), "cannot be removed");
    }
}

/// Address ranges of pods are in CIDR notation (CL-V-005).
fn pod_ranges_are_cidr_blocks(change: &ClusterChange<'_>, found: &mut Findings) {
    cidr_blocks(&change.new.spec.cluster_network.pods, Path::new(paths::cluster::POD_CIDR_BLOCKS), found);
}

/// Address ranges of services are in CIDR notation (CL-V-006).
fn service_ranges_are_cidr_blocks(change: &ClusterChange<'_>, found: &mut Findings) {
    cidr_blocks(&change.new.spec.cluster_network.services, Path::new(paths::cluster::SERVICE_CIDR_BLOCKS), found);
}

/// A topology is never removed, regardless of feature gates (CL-V-007).
fn topology_stays_defined(change: &ClusterChange<'_>, found: &mut Findings) {
    if change.old.is_some_and(|old| old.topology().is_some()) && change.new.topology().is_none() {
        found.forbidden(Path::new(paths::cluster::TOPOLOGY), "cannot be removed from an existing Cluster");
    }
}

fn cidr_blocks(ranges: &NetworkRanges, path: Path, found: &mut Findings) {
    for (i, block) in ranges.cidr_blocks.iter().enumerate() {
        if !is_cidr(block) {
            found.invalid(
                path.index(i),
                &**block,
                "must be an address range in CIDR notation, such as 192.168.0.0/16 or fd00::/48",
            );
        }
    }
}

/// An IP address, `/`, and a prefix length that fits it. Host bits may be set; only the length may have leading zeros.
fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let bits =
        match address.parse::<Ipv4Addr>().map(IpAddr::V4).or_else(|_| address.parse::<Ipv6Addr>().map(IpAddr::V6)) {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = match length.trim_start_matches('0') {
        _ if !is_number => None,
        "" => Some(0),
        significant => significant.parse().ok(),
    };
    length.is_some_and(|length: u32| length <= bits)
}

#[cfg(test)]
mod tests {
    use super::is_cidr;

    #[test]
    fn address_ranges_are_an_address_and_a_prefix_length() {
        // CL-V-005, CL-V-006
        for good in [
            "10.0.0.0/8",
            "10.0.0.1/8",
            "0.0.0.0/0",
            "10.0.0.0/08",
            "10.0.0.0/00",
            "1.2.3.4/32",
            "fd00::/48",
            "::/0",
            "::1/128",
            "::ffff:1.2.3.4/96",
        ] {
            assert!(is_cidr(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0/8",
            "010.0.0.0/8",
            "10.0.0.0/33",
            "::/129",
            "fe80::1%eth0/64",
            " 10.0.0.0/8",
            "10.0.0.0/8 ",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "10.0.0.0/4294967304",
            "a/8",
        ] {
            assert!(!is_cidr(bad), "{bad}");
        }
    }
}
