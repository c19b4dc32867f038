//! One computation: from a Cluster and the world to everything that is to be, and what is to be done about it.

use super::blueprint::Blueprint;
use super::contract::Contract;
use super::current::Current;
use super::desired::{self, Desired};
use super::names::Names;
use super::patches::{self, Trace};
use super::upgrade::{Tracker, Upgrade};
use super::{Failure, Options};
use crate::hub::Cluster;
use crate::world::World;

/// What there is and what is to be.
#[derive(Debug)]
pub struct Computation {
    pub blueprint: Blueprint,
    pub current: Current,
    pub desired: Desired,
    pub tracker: Tracker,
    /// The contract of the desired control plane (DS-13).
    pub contract: Contract,
    /// What the patches did and did not do.
    pub trace: Trace,
    /// What somebody should know, although nothing is wrong.
    pub warnings: Vec<String>,
    /// Whether a contract is assumed for want of a definition (DEC-17).
    pub assumes_contract: bool,
}

impl Computation {
    /// Computes what the topology of a Cluster is to be (RS-07 from step 1 to step 9).
    ///
    /// # Errors
    /// Nothing can be computed; [`Failure::NotAsked`] when `world` has needs that must be gathered first.
    pub fn of(cluster: &Cluster, world: &World, names: &mut dyn Names, options: &Options) -> Result<Self, Failure> {
        let blueprint = Blueprint::of(cluster, world)?;
        let current = Current::of(&blueprint, world)?;
        let mut upgrade = Upgrade::begin(&blueprint, &current, world, options)?;
        let computed = desired::compute(&blueprint, &current, world, &mut upgrade, names)?;
        let tracker = upgrade.into_tracker();
        let (mut desired, contract) = (computed.desired, computed.contract);
        let trace = patches::apply(&blueprint, contract, &mut desired, world, options)?;
        let (warnings, assumes_contract) = (computed.warnings, computed.assumed);
        Ok(Computation { blueprint, current, desired, tracker, contract, trace, warnings, assumes_contract })
    }
}
