//! What the controllers may do with the kinds of a provider (CT-1.5, CT-16.1, CT-16.2).

use serde_json::Value;

use super::definition::{Definition, text};
use super::finding::Finding;

/// The label by which a ClusterRole adds its rules to that of the controllers (CT-16.1).
const AGGREGATES: &str = "cluster.x-k8s.io/aggregate-to-manager";

/// Groups whose kinds the controllers may always read and write (CT-1.5).
const GRANTED: [&str; 3] =
    ["bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"];
/// The end of the groups of the embedded provider: topologist's own roles name them.
const EMBEDDED: &str = ".topologist.dev";
/// What the controllers do with objects and templates (CT-16.2).
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// A rule of a ClusterRole.
#[derive(Debug)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// The ClusterRoles of a provider.
#[derive(Debug, Default)]
pub(super) struct Access {
    has_roles: bool,
    /// Rules of those that add to the role of the controllers.
    rules: Vec<Rule>,
}

impl Access {
    /// Reads the ClusterRoles among manifests.
    pub(super) fn of(manifests: &[&Value]) -> Self {
        let mut access = Access::default();
        for role in manifests.iter().filter(|manifest| text(manifest, "/kind") == "ClusterRole") {
            access.has_roles = true;
            let labels = role.pointer("/metadata/labels");
            if labels.and_then(|labels| labels.get(AGGREGATES)).and_then(Value::as_str) == Some("true") {
                let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
                access.rules.extend(rules.map(Rule::of));
            }
        }
        access
    }

    /// Whether the controllers may do what they have to with a kind.
    pub(super) fn check(&self, definition: &Definition<'_>, findings: &mut Vec<Finding>) {
        let group = definition.group;
        if GRANTED.contains(&group) || group.ends_with(EMBEDDED) {
            return;
        }
        let resource = text(definition.manifest, "/spec/names/plural");
        let missing: Vec<&str> = VERBS.into_iter().filter(|verb| !self.allows(group, resource, verb)).collect();
        findings.extend((!missing.is_empty()).then(|| self.finding(group, resource, &missing)));
    }

    fn finding(&self, group: &str, resource: &str, missing: &[&str]) -> Finding {
        let way_out = format!(
            "add a ClusterRole with the label {AGGREGATES}: \"true\" and a rule for {resource} of {group} with the verbs {}",
            VERBS.join(", ")
        );
        if !self.has_roles {
            let message = format!(
                "not checked: the controllers have no access to group {group} by themselves, and the files have no ClusterRole"
            );
            return Finding::warning("CT-16.1", "spec.group", message).way_out(way_out);
        }
        let is_named = VERBS.into_iter().any(|verb| self.allows(group, resource, verb));
        let (rule, message) = match is_named {
            true => {
                ("CT-16.2", format!("the ClusterRoles with the label {AGGREGATES} do not grant {}", missing.join(", ")))
            }
            false => (
                "CT-16.1",
                format!("no ClusterRole with the label {AGGREGATES} grants access to {resource} of {group}"),
            ),
        };
        Finding::error(rule, "spec.group", message).way_out(way_out)
    }

    fn allows(&self, group: &str, resource: &str, verb: &str) -> bool {
        let is_in = |list: &[String], name: &str| list.iter().any(|one| one == "*" || one == name);
        let allows =
            |rule: &Rule| is_in(&rule.groups, group) && is_in(&rule.resources, resource) && is_in(&rule.verbs, verb);
        self.rules.iter().any(allows)
    }
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let texts = rule.get(name).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule { groups: texts("apiGroups"), resources: texts("resources"), verbs: texts("verbs") }
    }
}
