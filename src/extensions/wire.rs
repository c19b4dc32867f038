//! Answers of extensions as they are on the wire. Unknown fields are ignored, and `apiVersion` and `kind` are not checked (RH-4.10).

use crate::json::{List, lenient};

lenient! {
    /// The handlers that an extension has (RH-6.2).
    pub struct DiscoveryResponse {
        pub status: String,
        pub message: String,
        pub handlers: List<DiscoveredHandler>,
    }

    /// One function of an extension.
    pub struct DiscoveredHandler {
        pub name: String,
        pub request_hook: RequestHook,
        pub timeout_seconds: Option<i32>,
        pub failure_policy: Option<String>,
    }

    /// The hook that a handler is for.
    pub struct RequestHook {
        pub api_version: String,
        pub hook: String,
    }

    /// The answer to GeneratePatches, and without items the one to ValidateTopology (RH-5.2, RH-12.1).
    pub struct PatchResponse {
        pub status: String,
        pub message: String,
        pub items: List<PatchItem>,
    }

    /// A patch of one item; the patch is base64 (RH-5.7).
    pub struct PatchItem {
        pub uid: String,
        pub patch_type: String,
        pub patch: String,
    }
}
