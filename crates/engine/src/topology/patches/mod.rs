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
//! Patches work on copies of the templates of the class and not on computed objects, so they see no computed field
//! (PE-02). What does not follow from the class alone and is the same for several items is computed once.

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
    ItemName, NotAsked, OperationPosition, PatchError, PatchLocation, SkipReason, Skipped, Trace, Undefined,
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

/// Applies the patches of the class to what is desired; `contract` is that of the desired control plane (PE-01 to PE-32).
///
/// # Errors
/// A patch cannot be applied, or an extension has not been asked yet or refuses. What is desired is unknown then.
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
    let scopes = Scopes::new(blueprint, desired, compiled.expressions, compiled.sources);
    let growth = Growth { before: blueprint.size(), sum: Weight::default(), notes: 0 };
    let mut run = PatchRun {
        blueprint,
        world,
        options,
        scopes,
        items,
        allowance: PatchAllowance::default(),
        growth,
        trace: Trace::default(),
    };
    for (position, patch) in compiled.patches.iter().enumerate() {
        run.patch(position, patch)?;
    }
    for (position, patch) in compiled.patches.iter().enumerate() {
        run.validate(position, patch)?;
    }
    let PatchRun { items, mut trace, .. } = run;
    let changed = items.into_iter().filter_map(|item| {
        let document = item.document.filter(|document| document.is_changed)?;
        Some((item.slot, document, item.name))
    });
    let changed: Vec<_> = changed.collect();
    // Patches mostly make equal specs of equal templates.
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
struct PatchRun<'a> {
    blueprint: &'a Blueprint,
    world: &'a World,
    options: &'a Options,
    scopes: Scopes<'a>,
    items: Vec<TemplateItem<'a>>,
    /// What the patches of extensions may still take, all of them together.
    allowance: PatchAllowance,
    growth: Growth,
    trace: Trace,
}

/// How much patches have enlarged the objects of a topology.
struct Growth {
    /// The size of the topology without patches.
    before: TopologySize,
    sum: Weight,
    /// Notes about skipped definitions that are not in the sum yet.
    notes: usize,
}

/// The weight of a note that a definition was skipped. There is one copy of it.
const NOTE: Weight = Weight { text: 0, memory: 40 };

impl PatchRun<'_> {
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

    /// Counts by how much a patch has enlarged an item, and takes the memory for it (DEC-58).
    ///
    /// # Errors
    /// When the topology is too large now, the memory is used by others, or the computation should end.
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
