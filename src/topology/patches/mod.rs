//! stub
use super::blueprint::Blueprint;
use super::contract::Contract;
use super::desired::Desired;
use super::{Failure, Options};
use crate::world::World;
#[derive(Debug, Default)]
pub struct Trace;
impl Trace {
    pub fn notes(&self) -> impl Iterator<Item = String> {
        std::iter::empty()
    }
    pub fn unavailable(&self) -> impl Iterator<Item = String> {
        std::iter::empty()
    }
}
pub fn apply(_: &Blueprint, _: Contract, _: &mut Desired, _: &World, _: &Options) -> Result<Trace, Failure> {
    Ok(Trace)
}
