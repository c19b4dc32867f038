//! ExtensionConfigs, and answers of extensions as they are on the wire. Unknown fields are ignored, and `apiVersion`
//! and `kind` are not checked (RH-4.10).

use golang::json::{List, RawJson, lenient};
use model::hub::LabelSelector;

lenient! {
    /// The spec of an ExtensionConfig (RH-2.2). `settings` is decoded separately as a map of texts.
    pub struct ExtensionConfigSpec {
        pub client_config: ClientConfig,
        pub namespace_selector: Option<LabelSelector>,
    }

    /// The address of an extension.
    pub struct ClientConfig {
        pub url: String,
        pub service: Option<ServiceReference>,
        pub ca_bundle: String,
    }

    /// The Service of an extension.
    pub struct ServiceReference {
        pub namespace: String,
        pub name: String,
        pub path: String,
        pub port: Option<i32>,
    }

    /// The handlers of an extension (RH-6.2).
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

    /// The hook of a handler.
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

    /// The answer of a lifecycle hook (RH-5.2).
    pub struct RetryResponse {
        pub status: String,
        pub message: String,
        pub retry_after_seconds: i32,
    }

    /// The answer to GenerateUpgradePlan (RH-21.3).
    pub struct PlanResponse {
        pub status: String,
        pub message: String,
        pub control_plane_upgrades: List<UpgradeStep>,
        pub workers_upgrades: List<UpgradeStep>,
    }

    /// An intermediate version of an upgrade.
    pub struct UpgradeStep {
        pub version: String,
    }

    /// The answer to DiscoverVariables (RH-16.2).
    pub struct VariablesResponse {
        pub status: String,
        pub message: String,
        pub variables: List<RawJson>,
    }
}
