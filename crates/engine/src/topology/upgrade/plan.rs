//! The versions of an upgrade: their sources, and the checks of plans.
//!
//! ```text
//! extension │ kubernetesVersions │ one minor ─► plan of the control plane ─► valid?
//!                                                    └► default plan of the workers ─► valid?
//! ```

use std::fmt;

use golang::version::{BuildOrder, KubeVersion, VersionError, VersionText};
use model::world;
use schema::field::shortened;

/// The number of minor versions that workers may be behind their control plane, and may upgrade in one step (UP-17,
/// UP-18). Distances ignore major versions (UP-02).
const WORKER_SKEW: u64 = 3;

/// Parses a version; `what` names its owner in errors.
pub(super) fn parse_version(what: &str, text: &str) -> Result<VersionText, PlanError> {
    // Extensions may send arbitrary texts.
    let text = shortened(text);
    VersionText::parse(&text).map_err(|reason| PlanError::NoVersion {
        what: what.to_owned(),
        text: text.into(),
        reason,
    })
}

/// The current versions and the target of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpgradeRange {
    /// The current desired version of the control plane.
    pub(super) control_plane: VersionText,
    /// The lowest version of current workers; `None` without any (UP-10).
    pub(super) workers: Option<VersionText>,
    /// The version of the topology.
    pub(super) target: VersionText,
}

/// The versions to come, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpgradePlan {
    pub(super) control_plane: Vec<VersionText>,
    pub(super) workers: Vec<VersionText>,
}

/// The reason for which no plan leads to the version of the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// UP-03.
    #[error("{what} {text:?} is not a version: {reason}")]
    NoVersion { what: String, text: String, reason: VersionError },
    /// UP-13.
    #[error(
        "no upgrade plan can be computed: {target} is more than one minor version above {from} of the control plane, \
         and the ClusterClass names neither kubernetesVersions nor an extension that plans upgrades"
    )]
    MoreThanOneMinor { from: String, target: String },
    /// UP-16, UP-18.
    #[error("the upgrade plan of the {part} has to be empty, as it is at {target} already, and is {plan}")]
    NothingToDo { part: UpgradePart, target: String, plan: String },
    /// UP-18.
    #[error("the upgrade plan of the workers has to be empty, as there are no workers, and is {plan}")]
    NoWorkers { plan: String },
    /// UP-16, UP-18.
    #[error("item {index} of the upgrade plan of the {part}, {version}, is not above {before} before it")]
    NotAbove { part: UpgradePart, index: usize, version: String, before: String },
    /// UP-16, UP-18.
    #[error("item {index} of the upgrade plan of the {part}, {version}, skips minor versions after {before}")]
    SkipsMinors { part: UpgradePart, index: usize, version: String, before: String },
    /// UP-16, UP-18.
    #[error("the upgrade plan of the {part} has to end with {target}, and {ends}")]
    OtherEnd { part: UpgradePart, target: String, ends: String },
    /// UP-18.
    #[error(
        "item {index} of the upgrade plan of the workers, {version}, is not a version that the control plane has or \
         goes through"
    )]
    NotOfControlPlane { index: usize, version: String },
    /// UP-17.
    #[error("no upgrade plan of the workers can be computed: they are at {from}, which is above {target}")]
    WorkersAhead { from: String, target: String },
    /// UP-17.
    #[error(
        "no upgrade plan of the workers can be computed: on the way from {from} to {target} no version of minor \
         {minor} is known"
    )]
    UnknownMinor { from: String, target: String, minor: u64 },
}

/// The part that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradePart {
    ControlPlane,
    Workers,
}

impl fmt::Display for UpgradePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpgradePart::ControlPlane => "control plane",
            UpgradePart::Workers => "workers",
        })
    }
}

/// Checks the plan of an extension for an upgrade of a control plane and workers of the same version (UP-15 to UP-18).
///
/// # Errors
/// When the plan is invalid.
pub fn check(from: &str, to: &str, plan: &world::PlannedVersions) -> Result<(), PlanError> {
    let [start, target] = [from, to].map(|text| parse_version("the version", text));
    let control_plane = start?;
    let range = UpgradeRange { workers: Some(control_plane.clone()), control_plane, target: target? };
    let [of_control_plane, of_workers] =
        [(UpgradePart::ControlPlane, &plan.control_plane), (UpgradePart::Workers, &plan.workers)]
            .map(|(part, plan)| range.extension_plan(part, plan));
    range.plan(of_control_plane?, of_workers?).map(drop)
}

impl UpgradeRange {
    /// Whether control plane and workers have the target version (UP-11).
    pub(super) fn is_at_its_end(&self) -> bool {
        self.is_control_plane_there() && self.workers.as_ref().is_none_or(|workers| self.is_target(workers))
    }

    fn is_control_plane_there(&self) -> bool {
        self.is_target(&self.control_plane)
    }

    fn is_target(&self, one: &VersionText) -> bool {
        one.version() == self.target.version()
    }

    /// The plan that goes back to the target at once, if the target is below the control plane or some workers.
    /// Admission allows that with an annotation only (UPG-003).
    pub(super) fn back_in_one_step<'a>(
        &self,
        mut workers: impl Iterator<Item = &'a VersionText>,
    ) -> Option<UpgradePlan> {
        let is_above = |one: &VersionText| one.version().build_order(self.target.version()) == BuildOrder::Higher;
        let some_workers_are = workers.any(is_above);
        if !some_workers_are && !is_above(&self.control_plane) {
            return None;
        }
        let step = |is_there: bool| if is_there { Vec::new() } else { vec![self.target.clone()] };
        let are_workers_there = self.workers.as_ref().is_none_or(|lowest| self.is_target(lowest));
        Some(UpgradePlan {
            control_plane: step(self.is_control_plane_there()),
            workers: step(are_workers_there && !some_workers_are),
        })
    }

    /// The plan of at most one minor version (UP-13).
    pub(super) fn one_minor(&self) -> Result<Vec<VersionText>, PlanError> {
        match (&self.control_plane, &self.target) {
            _ if self.is_control_plane_there() => Ok(Vec::new()),
            (from, target) if target.minor() > from.minor().saturating_add(1) => {
                Err(PlanError::MoreThanOneMinor { from: from.to_string(), target: target.to_string() })
            }
            (_, target) => Ok(vec![target.clone()]),
        }
    }

    /// The plan through versions that a class lists: the newest of each minor version (UP-14).
    pub(super) fn through(&self, listed: &[String]) -> Result<Vec<VersionText>, PlanError> {
        let mut plan: Vec<VersionText> = Vec::new();
        if self.is_control_plane_there() {
            return Ok(plan);
        }
        // Another build of the same version (DEC-71).
        if self.control_plane.version().precedence(self.target.version()).is_eq() {
            return Ok(vec![self.target.clone()]);
        }
        let is_one_minor = self.control_plane.minor() == self.target.minor();
        for text in listed {
            let one = parse_version("in kubernetesVersions of the ClusterClass,", text)?;
            if one.version().precedence(self.control_plane.version()).is_le() {
                continue;
            }
            if one.version().precedence(self.target.version()).is_gt() {
                break;
            }
            let is_last = self.is_target(&one);
            // Other versions of the current minor version are skipped, unless it is also the target's.
            if is_one_minor || one.minor() != self.control_plane.minor() {
                // The last version uses the text of the topology: the control plane reaches the target when the texts
                // are equal.
                let one = if is_last { self.target.clone() } else { one };
                match plan.last_mut().filter(|last| is_one_minor || last.minor() == one.minor()) {
                    Some(last) => *last = one,
                    None => plan.push(one),
                }
            }
            if is_last {
                break;
            }
        }
        Ok(plan)
    }

    /// The plan of an extension (UP-15).
    pub(super) fn extension_plan(&self, part: UpgradePart, versions: &[String]) -> Result<Vec<VersionText>, PlanError> {
        let as_written = |(index, text): (usize, &String)| {
            let one = parse_version(&format!("item {index} of the upgrade plan of the {part}"), text)?;
            Ok(if self.is_target(&one) { self.target.clone() } else { one })
        };
        versions.iter().enumerate().map(as_written).collect()
    }

    /// Checks a plan of the control plane and of the workers, and adds the default plan of workers.
    pub(super) fn plan(
        &self,
        control_plane: Vec<VersionText>,
        workers: Vec<VersionText>,
    ) -> Result<UpgradePlan, PlanError> {
        self.check_control_plane(&control_plane)?;
        let behind = self.workers.as_ref().filter(|workers| !self.is_target(workers));
        let workers = match behind {
            Some(from) if workers.is_empty() => self.default_of_workers(from, &control_plane)?,
            _ => workers,
        };
        self.check_workers(&workers, &control_plane)?;
        Ok(UpgradePlan { control_plane, workers })
    }

    /// Checks a plan of the control plane (UP-16).
    fn check_control_plane(&self, plan: &[VersionText]) -> Result<(), PlanError> {
        let part = UpgradePart::ControlPlane;
        if self.is_control_plane_there() {
            let (target, plan_is) = (self.target.to_string(), texts(plan));
            return plan.is_empty().then_some(()).ok_or(PlanError::NothingToDo { part, target, plan: plan_is });
        }
        let mut before = &self.control_plane;
        for (index, one) in plan.iter().enumerate() {
            let (version, before_it) = (one.to_string(), before.to_string());
            if !is_above(one, before) {
                return Err(PlanError::NotAbove { part, index, version, before: before_it });
            }
            if one.minor() != before.minor() && one.minor() != before.minor().saturating_add(1) {
                return Err(PlanError::SkipsMinors { part, index, version, before: before_it });
            }
            before = one;
        }
        self.check_end(part, plan)
    }

    fn check_end(&self, part: UpgradePart, plan: &[VersionText]) -> Result<(), PlanError> {
        let ends = match plan.last() {
            Some(last) if self.is_target(last) => return Ok(()),
            Some(last) => format!("ends with {last}"),
            None => "is empty".to_owned(),
        };
        Err(PlanError::OtherEnd { part, target: self.target.to_string(), ends })
    }

    /// The plan of workers without an extension: the fewest steps that the version skew allows (UP-17).
    fn default_of_workers(
        &self,
        from: &VersionText,
        control_plane: &[VersionText],
    ) -> Result<Vec<VersionText>, PlanError> {
        let (lowest, target) = (from.minor(), self.target.minor());
        if target < lowest {
            return Err(PlanError::WorkersAhead { from: from.to_string(), target: self.target.to_string() });
        }
        let mut minor = lowest;
        let mut plan = Vec::new();
        loop {
            minor = minor.saturating_add(WORKER_SKEW);
            if minor >= target {
                break;
            }
            let planned = control_plane.iter().rev().find(|one| one.minor() == minor);
            let own = Some(&self.control_plane).filter(|own| own.minor() == minor);
            let known = planned.or(own).ok_or_else(|| PlanError::UnknownMinor {
                from: from.to_string(),
                target: self.target.to_string(),
                minor,
            })?;
            plan.push(known.clone());
        }
        if plan.last().is_none_or(|last| !self.is_target(last)) {
            plan.push(self.target.clone());
        }
        Ok(plan)
    }

    /// Checks a plan of the workers (UP-18).
    fn check_workers(&self, plan: &[VersionText], control_plane: &[VersionText]) -> Result<(), PlanError> {
        let part = UpgradePart::Workers;
        let from = match &self.workers {
            Some(from) if !self.is_target(from) => from,
            _ if plan.is_empty() => return Ok(()),
            Some(_) => {
                return Err(PlanError::NothingToDo { part, target: self.target.to_string(), plan: texts(plan) });
            }
            None => return Err(PlanError::NoWorkers { plan: texts(plan) }),
        };
        let known: Vec<&KubeVersion> =
            std::iter::once(&self.control_plane).chain(control_plane).map(VersionText::version).collect();
        let stands = |one: &VersionText| known.iter().position(|known| *known == one.version());
        let mut before = from;
        for (index, one) in plan.iter().enumerate() {
            let (version, before_it) = (one.to_string(), before.to_string());
            if !control_plane.is_empty() && stands(one).is_none() {
                return Err(PlanError::NotOfControlPlane { index, version });
            }
            let is_above = match one.version().build_order(before.version()) {
                BuildOrder::Higher => true,
                // The order is that of the versions which the control plane has and goes through. One that it has left
                // is the lower one, since workers are never ahead of it (DEC-71).
                BuildOrder::Different => {
                    stands(one).is_some_and(|one| stands(before).is_none_or(|before| before <= one))
                }
                BuildOrder::Lower | BuildOrder::Same => false,
            };
            if !is_above {
                return Err(PlanError::NotAbove { part, index, version, before: before_it });
            }
            if one.minor() > before.minor().saturating_add(WORKER_SKEW) {
                return Err(PlanError::SkipsMinors { part, index, version, before: before_it });
            }
            before = one;
        }
        self.check_end(part, plan)
    }
}

/// The lowest version of workers (UP-10). Of two versions without an order, the one that differs from the control
/// plane's is the lower one.
pub(super) fn lowest(
    versions: impl IntoIterator<Item = KubeVersion>,
    control_plane: &KubeVersion,
) -> Option<KubeVersion> {
    versions.into_iter().reduce(|lowest, one| match one.build_order(&lowest) {
        BuildOrder::Lower => one,
        BuildOrder::Different if lowest == *control_plane => one,
        _ => lowest,
    })
}

/// Whether a version is greater than the other one, or differs only in its build (UP-01).
fn is_above(one: &VersionText, other: &VersionText) -> bool {
    matches!(one.version().build_order(other.version()), BuildOrder::Higher | BuildOrder::Different)
}

fn texts(plan: &[VersionText]) -> String {
    plan.iter().map(VersionText::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
