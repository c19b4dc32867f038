//! Policy rules of roles.

use serde_json::Value;

/// A policy rule of a role.
#[derive(Debug)]
struct PolicyRule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// The combined permissions of roles.
#[derive(Debug, Default)]
pub(super) struct Grants(Vec<PolicyRule>);

impl Grants {
    /// Reads the policy rules of roles.
    pub(super) fn from_roles<'a>(roles: impl IntoIterator<Item = &'a Value>) -> Self {
        let all = roles.into_iter().filter_map(|role| role.get("rules")?.as_array()).flatten();
        Grants(all.filter_map(PolicyRule::from_value).collect())
    }

    /// The verbs that are not granted for a resource, such as `foos` or `foos/status`.
    pub(super) fn missing<'v>(&self, group: &str, resource: &str, verbs: &[&'v str]) -> Vec<&'v str> {
        verbs.iter().filter(|verb| !self.allow(group, resource, verb)).copied().collect()
    }

    /// Whether any verb is granted for a resource.
    pub(super) fn name(&self, group: &str, resource: &str) -> bool {
        self.0.iter().any(|rule| rule.is_for(group, resource))
    }

    fn allow(&self, group: &str, resource: &str, verb: &str) -> bool {
        let has_verb = |rule: &PolicyRule| rule.verbs.iter().any(|one| one == "*" || one == verb);
        self.0.iter().any(|rule| rule.is_for(group, resource) && has_verb(rule))
    }
}

impl PolicyRule {
    /// A rule for all objects; `None` for one restricted to names.
    fn from_value(rule: &Value) -> Option<Self> {
        let texts = |name: &str| -> Vec<String> {
            let texts = rule.get(name).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        texts("resourceNames").is_empty().then(|| PolicyRule {
            groups: texts("apiGroups"),
            resources: texts("resources"),
            verbs: texts("verbs"),
        })
    }

    fn is_for(&self, group: &str, resource: &str) -> bool {
        let has_group = self.groups.iter().any(|one| one == "*" || one == group);
        let is_resource = |one: &String| {
            // `*/status` is the status of every resource.
            let of_all = one.strip_prefix('*').is_some_and(|end| end.starts_with('/') && resource.ends_with(end));
            one == "*" || one == resource || of_all
        };
        has_group && self.resources.iter().any(is_resource)
    }
}
