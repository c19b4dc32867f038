//! Which extensions are registered, and which of them a call goes to (RH-3.3 to RH-3.7, RH-7.1, RH-8.1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Address, Handler, Registration, Selector, Target, registered_name};

/// An extension that has answered Discovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    pub registration: Registration,
    /// The resourceVersion of the ExtensionConfig (RH-3.5).
    pub version: String,
    pub address: Address,
    /// Certificates in PEM form; empty for those of the system.
    pub ca: Vec<u8>,
    pub selector: Selector,
}

/// What is known of an ExtensionConfig.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Registered(Arc<Registered>),
    Unknown(Unknown),
}

/// An ExtensionConfig that has not answered Discovery since this process leads.
#[derive(Clone, Debug, PartialEq)]
struct Unknown {
    reason: String,
    /// The hooks of its handlers when it was discovered last; `None` while it has not been called.
    hooks: Option<BTreeSet<String>>,
    last_known: BTreeSet<String>,
}

/// A handler that is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// The name that it is registered by: `<handler>.<ExtensionConfig>`.
    pub name: String,
    pub handler: Handler,
    pub extension: Arc<Registered>,
}

impl Called {
    /// Where the call goes.
    pub fn target(&self) -> Target {
        self.extension.address.handler(&self.handler)
    }
}

/// All ExtensionConfigs, by name.
///
/// One that was there at the start and has not been discovered since is an error where its handlers would be called, so that no run
/// does without them (RH-3.7). Which these are is known from its status.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<String, Entry>);

impl Registry {
    /// An ExtensionConfig that was there at the start, and for which hooks it had handlers.
    pub fn expect(&mut self, config: &str, last_known: BTreeSet<String>) {
        let reason = "it has not been called yet".to_owned();
        self.0.insert(config.to_owned(), Entry::Unknown(Unknown { reason, hooks: None, last_known }));
    }

    /// Replaces all handlers of an ExtensionConfig (RH-3.4).
    pub fn register(&mut self, config: &str, registered: Registered) {
        self.0.insert(config.to_owned(), Entry::Registered(Arc::new(registered)));
    }

    /// Discovery failed: what was registered before stays (RH-3.2).
    pub fn failed(&mut self, config: &str, reason: &str) {
        match self.0.get_mut(config) {
            Some(Entry::Unknown(unknown)) => {
                reason.clone_into(&mut unknown.reason);
                unknown.hooks = Some(unknown.last_known.clone());
            }
            Some(Entry::Registered(_)) => {}
            None => {
                let (reason, hooks, last_known) = (reason.to_owned(), Some(BTreeSet::new()), BTreeSet::new());
                self.0.insert(config.to_owned(), Entry::Unknown(Unknown { reason, hooks, last_known }));
            }
        }
    }

    /// The ExtensionConfig is gone (RH-2.8).
    pub fn unregister(&mut self, config: &str) {
        self.0.remove(config);
    }

    /// Keeps these ExtensionConfigs only.
    pub fn keep_only(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|config, _| is_there(config));
    }

    /// What is registered for an ExtensionConfig.
    pub fn get(&self, config: &str) -> Option<&Arc<Registered>> {
        match self.0.get(config)? {
            Entry::Registered(registered) => Some(registered),
            Entry::Unknown(_) => None,
        }
    }

    /// The versions of the ExtensionConfigs that are registered.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let registered = self.0.keys().filter_map(|config| Some((config.clone(), self.get(config)?.version.clone())));
        registered.collect()
    }

    /// Whether every ExtensionConfig that was there at the start has been called.
    pub fn is_settled(&self) -> bool {
        !self.0.values().any(|entry| matches!(entry, Entry::Unknown(Unknown { hooks: None, .. })))
    }

    /// The handler that is registered by a name, which must be for this hook (RH-7.1).
    ///
    /// # Errors
    /// When there is none.
    pub fn one(&self, name: &str, hook: &str) -> Result<Called, String> {
        let (handler, config) =
            registered_name(name).ok_or_else(|| format!("{name:?} is not a registered name such as handler.config"))?;
        let registered = match self.0.get(config) {
            Some(Entry::Registered(registered)) => registered,
            Some(Entry::Unknown(unknown)) => return Err(not_discovered(config, unknown)),
            None => {
                return Err(format!("no extension is registered as {name:?}: there is no ExtensionConfig {config:?}"));
            }
        };
        let handler = registered.registration.handler(handler, hook)?.clone();
        Ok(Called { name: name.to_owned(), handler, extension: registered.clone() })
    }

    /// All handlers of a hook, by the name that they are registered by (RH-8.1, RH-8.3).
    ///
    /// # Errors
    /// When an ExtensionConfig has not been discovered that has handlers of the hook, or may have.
    pub fn all(&self, hook: &str) -> Result<Vec<Called>, String> {
        let mut found = Vec::new();
        for (config, entry) in &self.0 {
            let registered = match entry {
                Entry::Registered(registered) => registered,
                Entry::Unknown(unknown) if unknown.hooks.as_ref().is_none_or(|hooks| hooks.contains(hook)) => {
                    return Err(not_discovered(config, unknown));
                }
                Entry::Unknown(_) => continue,
            };
            let handlers = registered.registration.handlers().filter(|(_, handler)| handler.hook() == hook);
            found.extend(handlers.map(|(name, handler)| Called {
                name,
                handler: handler.clone(),
                extension: registered.clone(),
            }));
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

fn not_discovered(config: &str, unknown: &Unknown) -> String {
    format!("ExtensionConfig {config:?} has not been discovered: {}", unknown.reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    fn registered(config: &str, handlers: &[(&str, &str)], version: &str) -> Registered {
        let handlers: Vec<_> = handlers
            .iter()
            .map(|(name, hook)| {
                let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook});
                json!({"name": name, "requestHook": hook})
            })
            .collect();
        let raw = RawValue::from_string(json!({"status": "Success", "handlers": handlers}).to_string()).unwrap();
        Registered {
            registration: Registration::of(config, &raw, BTreeMap::new()).unwrap(),
            version: version.to_owned(),
            address: Address::parse("https://localhost:9443").unwrap(),
            ca: Vec::new(),
            selector: Selector::Everything,
        }
    }

    fn names(registry: &Registry, hook: &str) -> Vec<String> {
        registry.all(hook).unwrap().into_iter().map(|called| called.name).collect()
    }

    #[test]
    fn handlers_of_a_hook_come_in_the_order_of_their_registered_names() {
        // RH-3.3, RH-8.1, RH-8.3
        let mut registry = Registry::default();
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
        let mut registry = Registry::default();
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate")], "1"));
        registry.expect("b", ["BeforeClusterCreate".to_owned()].into());
        assert!(!registry.is_settled());
        let error = "ExtensionConfig \"b\" has not been discovered: it has not been called yet";
        for hook in ["BeforeClusterCreate", "BeforeClusterDelete"] {
            assert_eq!(registry.all(hook).unwrap_err(), error);
        }
        assert_eq!(registry.one("m.b", "GeneratePatches").unwrap_err(), error);
        assert!(registry.one("n.a", "BeforeClusterCreate").is_ok(), "which extension is meant is known");
        registry.failed("b", "refused");
        assert!(registry.is_settled());
        assert!(registry.all("BeforeClusterCreate").unwrap_err().ends_with("refused"));
        assert_eq!(names(&registry, "BeforeClusterDelete"), [""; 0], "it had no handler of this hook");
        registry.failed("new", "refused");
        registry.unregister("b");
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["n.a"], "one that never was there holds nothing up");
        assert!(registry.one("m.new", "GeneratePatches").unwrap_err().ends_with("refused"));
    }

    #[test]
    fn a_registration_stays_until_the_next_one() {
        // RH-2.8, RH-3.2, RH-3.4
        let mut registry = Registry::default();
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate")], "1"));
        registry.failed("a", "refused");
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["n.a"]);
        registry.register("a", registered("a", &[("m", "BeforeClusterCreate")], "2"));
        assert_eq!(names(&registry, "BeforeClusterCreate"), ["m.a"]);
        assert_eq!(registry.get("a").unwrap().version, "2");
        registry.keep_only(|name| name != "a");
        let gone = registry.one("m.a", "BeforeClusterCreate").unwrap_err();
        assert_eq!(gone, "no extension is registered as \"m.a\": there is no ExtensionConfig \"a\"");
    }

    #[test]
    fn a_name_must_be_registered_for_the_hook() {
        // RH-7.1
        let mut registry = Registry::default();
        registry.register("a", registered("a", &[("n", "BeforeClusterCreate")], "1"));
        for (name, want) in [
            ("n.a", "is for BeforeClusterCreate, not for GeneratePatches"),
            ("m.a", "has no handler \"m\""),
            ("n.a.b", "is not a registered name"),
        ] {
            let error = registry.one(name, "GeneratePatches").unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
