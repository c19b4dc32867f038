//! The patches of a class, applied to the objects of a topology.
//!
//! ```text
//! class ── compiler.rs ─► patches: selectors, templates, pointers ─┐
//! templates of the class ── items.rs ─► copies, one for each use ──┤
//! Cluster and desired objects ── scopes.rs ─► variables ───────────┤
//!                                                                  ▼
//!         inline.rs, external.rs: each patch in turn ─► document.rs: the copies change, marks say by whom
//!                                                                  │
//!         desired objects, and where their fields come from ◄── copy_back.rs
//! ```
//!
//! Patches change copies of the templates of the class instead of computed objects, so they see no computed field
//! (PE-02). Values that depend on more than the class and are equal for several items are computed once.

mod compiler;
mod copy_back;
mod document;
mod external;
mod inline;
mod items;
mod pointer;
mod scopes;
mod trace;

use std::sync::Arc;

pub use document::patched;
pub(in crate::topology) use trace::summary;
pub use trace::{
    IneffectiveChange, ItemName, NotAsked, OperationPosition, PatchError, PatchLocation, SkipReason, Skipped, Trace,
    Undefined,
};

use compiler::{CompiledPatch, CompiledPatches};
use document::{Document, PatchAllowance};
use items::TemplateItem;
use scopes::Scopes;

use super::blueprint::Blueprint;
use super::desired::Desired;
use super::size::{self, TopologySize};
use super::{Failure, Interrupted, Options};
use golang::json::Weight;
use model::hub::SharedValues;
use model::hub::contract::Contract;
use model::world::World;

/// Applies the patches of the class to the desired state; `contract` is that of the desired control plane (PE-01 to
/// PE-32).
///
/// # Errors
/// When a patch cannot be applied, or an extension has not been called yet or rejects the topology. The desired state
/// is unknown then.
pub fn apply(
    blueprint: &Blueprint,
    contract: Contract,
    desired: &mut Desired,
    world: &World,
    options: &Options,
) -> Result<Trace, Failure> {
    if blueprint.class.spec.patches.is_empty() {
        return Ok(Trace::default());
    }
    let class = &blueprint.class;
    let compiled = class.compiled(|object| CompiledPatches::compile(object, class.variables().as_deref()));
    let cluster = items::cluster_as_holder(blueprint);
    let items = items::collect(blueprint, contract, desired, &cluster)?;
    let (items, mut trace) = {
        let mut run = PatchRun {
            blueprint,
            world,
            options,
            scopes: Scopes::new(blueprint, desired, compiled.expressions, compiled.sources),
            items,
            allowance: PatchAllowance::default(),
            growth: Growth { before: blueprint.size(), sum: Weight::default(), notes: 0 },
            trace: Trace::default(),
        };
        for (position, patch) in compiled.patches.iter().enumerate() {
            run.patch(position, patch)?;
        }
        for (position, patch) in compiled.patches.iter().enumerate() {
            run.validate(position, patch)?;
        }
        (run.items, run.trace)
    };
    let changed = items.into_iter().filter_map(|mut item| {
        let document = item.document.take().filter(|document| document.is_changed)?;
        let uncopied = copy_back::uncopied(item.slot, &document, || item.unpatched());
        for change in document.ineffective.iter().chain(&uncopied) {
            trace.note_ineffective(change, item.slot.is_template(), &item.name);
        }
        Some((item.slot, document, item.name))
    });
    let changed: Vec<_> = changed.collect();
    // Equal templates mostly have equal specs after patches.
    let mut shared = SharedValues::default();
    for (slot, document, name) in changed {
        if let Some(object) = slot.desired_mut(desired) {
            copy_back::copy_back(slot, document, object, &name, &mut trace.skipped)?;
            object.object.share(&mut shared);
        }
    }
    Ok(trace)
}

/// One computation of the patches of a class for a Cluster.
struct PatchRun<'a, 's> {
    blueprint: &'a Blueprint,
    world: &'a World,
    options: &'a Options,
    scopes: Scopes<'s>,
    items: Vec<TemplateItem<'a>>,
    /// The remaining budget of all extension patches together.
    allowance: PatchAllowance,
    growth: Growth,
    trace: Trace,
}

/// The growth of the objects of a topology by patches.
struct Growth {
    /// The size of the topology without patches.
    before: TopologySize,
    sum: Weight,
    /// Notes about skipped definitions that have not been counted yet.
    notes: usize,
}

/// The weight of a note about a skipped definition, which exists once.
const NOTE: Weight = Weight { text: 0, memory: 40 };

impl PatchRun<'_, '_> {
    /// Generates and applies one patch (PE-07, PE-11).
    fn patch(&mut self, position: usize, patch: &CompiledPatch) -> Result<(), Failure> {
        let fail = |problem: &str| {
            let error = self.error(position, patch, PatchLocation::Patch, None, problem.to_owned());
            Err(Failure::Patches(vec![error]))
        };
        if patch.external.is_some() && !self.options.runtime_sdk {
            return fail("external patches need the feature gate RuntimeSDK");
        }
        let external = patch.external.as_ref();
        match external {
            _ if !patch.definitions.is_empty() => self.inline(position, patch),
            Some(external) if !external.generate_patches_extension.is_empty() => {
                self.generate(position, patch, external)
            }
            Some(external) if !external.validate_topology_extension.is_empty() => {
                self.skip(patch, None, None, SkipReason::OnlyValidates);
                Ok(())
            }
            _ => fail("it has neither definitions nor a generate or validate extension"),
        }
    }

    /// Counts the growth of an item by a patch, and leases the memory for it (DEC-58).
    ///
    /// # Errors
    /// When the topology is too large, the memory is in use, or the computation must stop.
    fn count_growth(&mut self, item: usize) -> Result<(), Failure> {
        Interrupted::unless(self.world.stop())?;
        let document = self.items.get_mut(item).and_then(|item| item.document.as_mut());
        let notes = NOTE.times(std::mem::take(&mut self.growth.notes));
        let growth = document.map(Document::growth).unwrap_or_default() + notes;
        self.growth.sum += growth;
        self.options.limit.check_grown(self.growth.before, self.growth.sum)?;
        if self.world.lease().grow(size::memory(growth)) { Ok(()) } else { Err(Interrupted::NoMemory.into()) }
    }

    fn skip(
        &mut self,
        patch: &CompiledPatch,
        definition: Option<usize>,
        item: Option<Arc<ItemName>>,
        reason: SkipReason,
    ) {
        self.growth.notes += 1;
        self.trace.skipped.push(Skipped { patch: patch.name.clone(), definition, item, reason });
    }

    fn error(
        &self,
        position: usize,
        patch: &CompiledPatch,
        place: PatchLocation,
        item: Option<Arc<ItemName>>,
        problem: String,
    ) -> PatchError {
        let class = self.blueprint.class.metadata.key();
        PatchError { class, patch: patch.name.clone(), position, place, item, problem }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
