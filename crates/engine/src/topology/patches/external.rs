//! External patches: requests to Runtime Extensions, and the application of their answers (PE-23, PE-29). The protocol
//! is that of the [topology mutation
//! hook](https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/implement-topology-mutation-hook).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::compiler::CompiledPatch;
use super::document::ExtensionPatchError;
use super::items::HolderReference;
use super::scopes::NamedVariable;
use super::trace::{NotAsked, PatchError, PatchLocation, SkipReason};
use super::{ItemName, PatchRun};
use crate::topology::Failure;
use crate::topology::origin::PatchOrigin;
use model::hub::ExternalPatch;
use model::world::{Found, ItemPatch, PatchAnswer, PatchCall, PatchHook};
use schema::field::shortened;

/// The version of the hooks that patches call.
const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// A request to generate patches or to validate their result; the sender adds the `uid` of items (RH-10.1).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchRequestBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
    variables: Vec<RequestVariable<'a>>,
    items: Vec<RequestItem<'a>>,
}

#[derive(Debug, Serialize)]
struct RequestVariable<'a> {
    name: &'a str,
    value: &'a Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestItem<'a> {
    holder_reference: HolderReference<'a>,
    object: &'a Value,
    variables: Vec<RequestVariable<'a>>,
}

fn listed(variables: Vec<NamedVariable<'_>>) -> Vec<RequestVariable<'_>> {
    variables.into_iter().map(|(name, value)| RequestVariable { name, value }).collect()
}

impl PatchRun<'_, '_> {
    /// Calls the extension of a patch to generate patches, and applies them.
    pub(super) fn generate(
        &mut self,
        position: usize,
        patch: &CompiledPatch,
        external: &ExternalPatch,
    ) -> Result<(), Failure> {
        let extension = &external.generate_patches_extension;
        let hook = PatchHook::GeneratePatches;
        match self.ask(position, patch, hook, extension)? {
            None => {
                self.skip(patch, None, None, SkipReason::NotAsked);
                Ok(())
            }
            Some(PatchAnswer::Patches(patches)) => self.apply_answer(position, patch, extension, &patches),
            Some(PatchAnswer::Valid) => {
                self.refused(position, patch, hook, extension, "returned something other than patches".to_owned())
            }
            Some(PatchAnswer::Failure(message)) => {
                self.refused(position, patch, hook, extension, format!("answered Failure: {message}"))
            }
        }
    }

    /// Calls the validating extension of a patch (PE-29).
    pub(super) fn validate(&mut self, position: usize, patch: &CompiledPatch) -> Result<(), Failure> {
        let extension = patch.external.as_ref().map(|external| &external.validate_topology_extension);
        let Some(extension) = extension.filter(|extension| !extension.is_empty()) else { return Ok(()) };
        let hook = PatchHook::ValidateTopology;
        match self.ask(position, patch, hook, extension)? {
            None | Some(PatchAnswer::Valid) => Ok(()),
            Some(PatchAnswer::Patches(_)) => {
                self.refused(position, patch, hook, extension, "returned patches that were not requested".to_owned())
            }
            Some(PatchAnswer::Failure(message)) => {
                self.refused(position, patch, hook, extension, format!("answered Failure: {message}"))
            }
        }
    }

    /// The answer of an extension; `None` when it cannot be called.
    fn ask(
        &mut self,
        position: usize,
        patch: &CompiledPatch,
        hook: PatchHook,
        extension: &str,
    ) -> Result<Option<PatchAnswer>, Failure> {
        let call = PatchCall {
            hook,
            extension: extension.to_owned(),
            cluster: self.blueprint.cluster.metadata.key(),
            request: self.request(patch, hook),
        };
        match self.world.patch(&call) {
            Found::Yes(answer) => Ok(Some(answer)),
            Found::Absent => {
                let (patch, extension) = (patch.name.clone(), extension.to_owned());
                self.trace.not_asked.push(NotAsked { patch, hook, extension });
                Ok(None)
            }
            Found::Unreadable(reason) => self.refused(position, patch, hook, extension, reason),
            // One extension at a time: the next request depends on this answer.
            Found::NotAsked => Err(Failure::NotAsked),
        }
    }

    /// A request with the current state of all items and the variables that are visible to the patch (PE-08, PE-23).
    fn request(&mut self, patch: &CompiledPatch, hook: PatchHook) -> String {
        for item in &mut self.items {
            item.document();
        }
        let scopes = &self.scopes;
        let items = self.items.iter().filter_map(|item| {
            Some(RequestItem {
                holder_reference: item.holder_reference(),
                object: &item.document.as_ref()?.value,
                variables: listed(scopes.overrides(item.scope, &patch.visible)),
            })
        });
        let request = PatchRequestBody {
            api_version: API_VERSION,
            kind: match hook {
                PatchHook::GeneratePatches => "GeneratePatchesRequest",
                PatchHook::ValidateTopology => "ValidateTopologyRequest",
            },
            settings: patch.external.as_ref().map(|external| external.settings.to_map()).unwrap_or_default(),
            variables: listed(scopes.global(&patch.visible)),
            items: items.collect(),
        };
        serde_json::to_string(&request).expect("JSON values and texts are always written")
    }

    /// Applies the answer of an extension, in its order (PE-19, PE-20).
    fn apply_answer(
        &mut self,
        position: usize,
        patch: &CompiledPatch,
        extension: &str,
        patches: &[ItemPatch],
    ) -> Result<(), Failure> {
        // An extension sees all items, including secrets that earlier patches have set.
        let changes = self.items.iter().filter_map(|item| item.document.as_ref());
        let had_secrets = changes.flat_map(|document| &document.marks).any(|change| change.origin.is_sensitive);
        let origin = PatchOrigin { is_sensitive: patch.origin.is_sensitive || had_secrets, ..patch.origin.clone() };
        for (at, sent) in patches.iter().enumerate() {
            let place = |operation| PatchLocation::Answer { extension: extension.to_owned(), position: at, operation };
            let Some(item) = self.items.get_mut(sent.item) else {
                let problem = format!("is for item {} of {}", sent.item, self.items.len());
                return Err(self.failure(position, patch, place(None), None, problem));
            };
            let name = item.name.clone();
            let document = item.document();
            let done = document.apply_sent(&sent.patch_type, &sent.patch, &origin, &mut self.allowance);
            if let Err(ExtensionPatchError { operation, error }) = done {
                // The text may quote the answer of the extension.
                let problem = shortened(&error.to_string()).into_owned();
                return Err(self.failure(position, patch, place(operation), Some(name), problem));
            }
            self.count_growth(sent.item)?;
        }
        Ok(())
    }

    fn refused<T>(
        &self,
        position: usize,
        patch: &CompiledPatch,
        hook: PatchHook,
        extension: &str,
        problem: String,
    ) -> Result<T, Failure> {
        let place = PatchLocation::Extension { hook, extension: extension.to_owned() };
        Err(self.failure(position, patch, place, None, problem))
    }

    fn failure(
        &self,
        position: usize,
        patch: &CompiledPatch,
        place: PatchLocation,
        item: Option<Arc<ItemName>>,
        problem: String,
    ) -> Failure {
        let error: PatchError = self.error(position, patch, place, item, problem);
        Failure::Patches(vec![error])
    }
}
