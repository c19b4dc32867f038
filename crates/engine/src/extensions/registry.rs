//! The registered extensions, and the resolution of handlers (RH-3.3 to RH-3.7, RH-7.1, RH-8.1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::errors::HandlerError;
use super::{BaseUrl, CallTarget, ExtensionHandler, Registration, Selector, registered_name};

/// An extension that has answered Discovery.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredConfig {
    pub registration: Registration,
    /// The resourceVersion of the ExtensionConfig (RH-3.5).
    pub version: String,
    pub address: BaseUrl,
    /// Certificates in PEM form; empty for those of the system.
    pub ca: Vec<u8>,
    pub selector: Selector,
}

/// The state of an ExtensionConfig.
#[derive(Clone, Debug, PartialEq)]
enum RegistryEntry {
    Registered(Arc<RegisteredConfig>),
    Unknown(UndiscoveredConfig),
}

/// An ExtensionConfig that has not answered Discovery since this process leads.
#[derive(Clone, Debug, PartialEq)]
struct UndiscoveredConfig {
    reason: String,
    /// The hooks of its handlers at the last Discovery; `None` while it has not been called.
    hooks: Option<BTreeSet<String>>,
    last_known: BTreeSet<String>,
    selector: Selector,
    /// Whether it existed when this process became the leader.
    is_expected: bool,
}

/// The reason for which a handler is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRegistered {
    /// The first call of an ExtensionConfig that was there at the start has not ended.
    #[error("ExtensionConfig {0:?} has not been discovered: it has not been called yet")]
    Pending(String),
    #[error("{0:?} is not a registered name such as handler.config")]
    Name(String),
    #[error("no extension is registered as {name:?}: there is no ExtensionConfig {config:?}")]
    NoConfig { name: String, config: String },
    #[error("ExtensionConfig {config:?} has not been discovered: {reason}")]
    NotDiscovered { config: String, reason: String },
    #[error(transparent)]
    Handler(#[from] HandlerError),
}

/// A handler with its extension.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedHandler {
    /// The registered name: `<handler>.<ExtensionConfig>`.
    pub name: String,
    pub handler: ExtensionHandler,
    pub extension: Arc<RegisteredConfig>,
}

impl ResolvedHandler {
    /// The target of the call.
    pub fn target(&self) -> CallTarget {
        self.extension.address.handler(&self.handler)
    }
}

/// All ExtensionConfigs, by name.
///
/// An ExtensionConfig that existed at the start and has not been discovered since is an error if its handlers would be
/// called, so that no reconcile skips them (RH-3.7). Its status lists these handlers.
#[derive(Clone, Debug, Default)]
pub struct ExtensionRegistry(BTreeMap<String, RegistryEntry>);

impl ExtensionRegistry {
    /// Adds an ExtensionConfig that existed at the start, with the hooks of its last known handlers and its selector.
    pub fn expect(&mut self, config: &str, last_known: BTreeSet<String>, selector: Selector) {
        self.0.insert(
            config.to_owned(),
            RegistryEntry::Unknown(UndiscoveredConfig {
                reason: String::new(),
                hooks: None,
                last_known,
                selector,
                is_expected: true,
            }),
        );
    }

    /// Replaces all handlers of an ExtensionConfig (RH-3.4).
    pub fn register(&mut self, config: &str, registered: RegisteredConfig) {
        self.0.insert(config.to_owned(), RegistryEntry::Registered(Arc::new(registered)));
    }

    /// Records a failed Discovery: earlier registrations stay (RH-3.2).
    pub fn failed(&mut self, config: &str, reason: &str) {
        match self.0.get_mut(config) {
            Some(RegistryEntry::Unknown(unknown)) => {
                reason.clone_into(&mut unknown.reason);
                unknown.hooks = Some(unknown.last_known.clone());
            }
            Some(RegistryEntry::Registered(_)) => {}
            None => {
                let (reason, hooks, selector) = (reason.to_owned(), Some(BTreeSet::new()), Selector::Nothing);
                let unknown =
                    UndiscoveredConfig { reason, hooks, last_known: BTreeSet::new(), selector, is_expected: false };
                self.0.insert(config.to_owned(), RegistryEntry::Unknown(unknown));
            }
        }
    }

    /// Removes a deleted ExtensionConfig (RH-2.8).
    pub fn unregister(&mut self, config: &str) {
        self.0.remove(config);
    }

    /// Keeps these ExtensionConfigs only.
    pub fn keep_only(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|config, _| is_there(config));
    }

    /// Whether an ExtensionConfig exists.
    pub fn has(&self, config: &str) -> bool {
        self.0.contains_key(config)
    }

    /// The registration of an ExtensionConfig.
    pub fn get(&self, config: &str) -> Option<&Arc<RegisteredConfig>> {
        match self.0.get(config)? {
            RegistryEntry::Registered(registered) => Some(registered),
            RegistryEntry::Unknown(_) => None,
        }
    }

    /// Whether an ExtensionConfig was there at the start and has not been discovered since.
    pub fn is_expected(&self, config: &str) -> bool {
        matches!(self.0.get(config), Some(RegistryEntry::Unknown(UndiscoveredConfig { is_expected: true, .. })))
    }

    /// Whether an ExtensionConfig was there at the start and its first call has not ended.
    pub fn is_pending(&self, config: &str) -> bool {
        matches!(self.0.get(config), Some(RegistryEntry::Unknown(UndiscoveredConfig { hooks: None, .. })))
    }

    /// The versions of the ExtensionConfigs that are registered.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let registered = self.0.keys().filter_map(|config| Some((config.clone(), self.get(config)?.version.clone())));
        registered.collect()
    }

    /// Whether every ExtensionConfig that was there at the start has been called.
    pub fn is_settled(&self) -> bool {
        !self.0.values().any(|entry| matches!(entry, RegistryEntry::Unknown(UndiscoveredConfig { hooks: None, .. })))
    }

    /// The handler with a registered name, which must be for this hook (RH-7.1).
    ///
    /// # Errors
    /// When it is not registered.
    pub fn one(&self, name: &str, hook: &str) -> Result<ResolvedHandler, NotRegistered> {
        let (extension, handler) = find_handler(name, hook, |config| match self.0.get(config) {
            Some(RegistryEntry::Registered(registered)) => Ok((registered, &registered.registration)),
            Some(RegistryEntry::Unknown(unknown)) => Err(not_discovered(config, unknown)),
            None => Err(NotRegistered::NoConfig { name: name.to_owned(), config: config.to_owned() }),
        })?;
        Ok(ResolvedHandler { name: name.to_owned(), handler: handler.clone(), extension: extension.clone() })
    }

    /// All handlers of a hook in the order of their registered names, each with the selector of its ExtensionConfig
    /// (RH-8.1, RH-8.3). An undiscovered ExtensionConfig that may have such handlers is an error for the namespaces
    /// that it selects.
    pub fn all(&self, hook: &str) -> Vec<(Selector, Result<ResolvedHandler, NotRegistered>)> {
        let mut found: Vec<(String, Selector, Result<ResolvedHandler, NotRegistered>)> = Vec::new();
        for (config, entry) in &self.0 {
            match entry {
                RegistryEntry::Registered(registered) => {
                    let handlers = registered.registration.handlers().filter(|(_, handler)| handler.hook() == hook);
                    found.extend(handlers.map(|(name, handler)| {
                        let (extension, handler) = (registered.clone(), handler.clone());
                        (name.clone(), registered.selector.clone(), Ok(ResolvedHandler { name, handler, extension }))
                    }));
                }
                RegistryEntry::Unknown(unknown) if unknown.hooks.as_ref().is_none_or(|hooks| hooks.contains(hook)) => {
                    found.push((config.clone(), unknown.selector.clone(), Err(not_discovered(config, unknown))));
                }
                RegistryEntry::Unknown(_) => {}
            }
        }
        found.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        found.into_iter().map(|(_, selector, called)| (selector, called)).collect()
    }
}

/// The handler with a registered name, which must be for this hook, and its extension (RH-7.1). `extension` looks up
/// the extension of an ExtensionConfig.
///
/// # Errors
/// When the name is not a registered name, the extension is not found, or it has no such handler.
pub fn find_handler<'a, E>(
    name: &str,
    hook: &str,
    extension: impl FnOnce(&str) -> Result<(E, &'a Registration), NotRegistered>,
) -> Result<(E, &'a ExtensionHandler), NotRegistered> {
    let (handler, config) = registered_name(name).ok_or_else(|| NotRegistered::Name(name.to_owned()))?;
    let (extension, registration) = extension(config)?;
    Ok((extension, registration.handler(handler, hook)?))
}

fn not_discovered(config: &str, unknown: &UndiscoveredConfig) -> NotRegistered {
    match unknown.hooks {
        None => NotRegistered::Pending(config.to_owned()),
        Some(_) => NotRegistered::NotDiscovered { config: config.to_owned(), reason: unknown.reason.clone() },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    fn registered(config: &str, handlers: &[(&str, &str)], version: &str) -> RegisteredConfig {
        let handlers: Vec<_> = handlers
            .iter()
            .map(|(name, hook)| {
                let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook});
                json!({"name": name, "requestHook": hook})
            })
            .collect();
        let raw = RawValue::from_string(json!({"status": "Success", "handlers": handlers}).to_string()).unwrap();
        RegisteredConfig {
            registration: Registration::from_discovery(config, &raw, BTreeMap::new()).unwrap(),
            version: version.to_owned(),
            address: BaseUrl::parse("https://localhost:9443").unwrap(),
            ca: Vec::new(),
            selector: Selector::Everything,
        }
    }

    fn names(registry: &ExtensionRegistry, hook: &str) -> Vec<String> {
        registry.all(hook).into_iter().map(|(_, called)| called.unwrap().name).collect()
    }

    fn error(registry: &ExtensionRegistry, hook: &str) -> String {
        registry.all(hook).into_iter().find_map(|(_, called)| called.err()).unwrap().to_string()
    }

    #[test]
    fn handlers_of_a_hook_come_in_the_order_of_their_registered_names() {
        // RH-3.3, RH-8.1, RH-8.3
        let mut registry = ExtensionRegistry::default();
        registry.register("b", registered("b", &[("m", "BeforeClusterCreate"), ("z", "BeforeClusterCreate")], "1"));
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate"), ("x", "BeforeClusterDelete")], "1"));
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["m.b", "n.a", "z.b"]);
        assert_eq!(names(&registry, "BeforeClusterDelete"), ["x.a"]);
        assert_eq!(names(&registry, "AfterClusterUpgrade"), [""; 0]);
        let called = registry.one("x.a", "BeforeClusterDelete").unwrap();
        assert!(called.target().uri().path().ends_with("/beforeclusterdelete/x"), "{:?}", called.target());
    }

    #[test]
    fn nothing_is_answered_without_what_has_to_be_discovered() {
        // RH-3.7
        let mut registry = ExtensionRegistry::default();
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate")], "1"));
        registry.expect("b", ["BeforeClusterCreate".to_owned()].into(), Selector::Everything);
        assert!(!registry.is_settled());
        let want = "ExtensionConfig \"b\" has not been discovered: it has not been called yet";
        for hook in ["BeforeClusterCreate", "BeforeClusterDelete"] {
            assert_eq!(error(&registry, hook), want);
        }
        assert_eq!(registry.one("m.b", "GeneratePatches").unwrap_err(), NotRegistered::Pending("b".to_owned()));
        assert!(registry.one("n.a", "BeforeClusterCreate").is_ok(), "which extension is meant is known");
        registry.failed("b", "refused");
        assert!(registry.is_settled());
        assert!(error(&registry, "BeforeClusterCreate").ends_with("refused"));
        assert_eq!(names(&registry, "BeforeClusterDelete"), [""; 0], "it had no handler of this hook");
        registry.failed("new", "refused");
        registry.unregister("b");
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["n.a"], "one that never was there holds nothing up");
        assert!(registry.one("m.new", "GeneratePatches").unwrap_err().to_string().ends_with("refused"));
    }

    #[test]
    fn a_registration_stays_until_the_next_one() {
        // RH-2.8, RH-3.2, RH-3.4
        let mut registry = ExtensionRegistry::default();
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate")], "1"));
        registry.failed("a", "refused");
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["n.a"]);
        registry.register("a", registered("a", &[("m", "BeforeClusterCreate")], "2"));
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["m.a"]);
        assert_eq!(registry.get("a").unwrap().version, "2");
        registry.keep_only(|name| name != "a");
        let gone = registry.one("m.a", "BeforeClusterCreate").unwrap_err().to_string();
        assert_eq!(gone, "no extension is registered as \"m.a\": there is no ExtensionConfig \"a\"");
    }

    #[test]
    fn a_name_must_be_registered_for_the_hook() {
        // RH-7.1
        let mut registry = ExtensionRegistry::default();
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate")], "1"));
        for (name, want) in [
            ("n.a", "is for BeforeClusterCreate, not for GeneratePatches"),
            ("m.a", "has no handler \"m\""),
            ("n.a.b", "is not a registered name"),
        ] {
            let error = registry.one(name, "GeneratePatches").unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
