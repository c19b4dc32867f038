//! Patches computed by comparing an object before and after a change (RH-23.6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Item;

/// The patches of a response.
#[derive(Clone, Debug, Default)]
pub struct Patches(Vec<Value>);

impl Patches {
    /// Changes a template. The patch is a JSON patch (RFC 6902) of the difference; without a difference there is none.
    pub fn change(&mut self, item: &Item, change: impl FnOnce(&mut Value)) {
        let mut after = item.object.clone();
        change(&mut after);
        let difference = json_patch::diff(&item.object, &after);
        if !difference.0.is_empty() {
            self.push(item, "JSONPatch", &json!(difference));
        }
    }

    /// Applies a JSON merge patch (RFC 7386), which is omitted if it has no effect.
    pub fn merge(&mut self, item: &Item, patch: &Value) {
        let mut after = item.object.clone();
        json_patch::merge(&mut after, patch);
        if after != item.object {
            self.push(item, "JSONMergePatch", patch);
        }
    }

    fn push(&mut self, item: &Item, patch_type: &str, patch: &Value) {
        let patch = STANDARD.encode(patch.to_string());
        self.0.push(json!({"uid": item.uid, "patchType": patch_type, "patch": patch}));
    }

    pub(super) fn into_items(self) -> Vec<Value> {
        self.0
    }
}
