//! The served kinds: a snapshot that is replaced when a CustomResourceDefinition changes.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::builtin::Builtin;
use super::kind_schema::KindSchema;

/// A kind in a version, as served and as listed by discovery.
#[derive(Clone, Debug)]
pub struct ServedResource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub is_namespaced: bool,
    /// Whether `status` is a subresource.
    pub has_status: bool,
    /// Paths of the scale subresource; `None` without one.
    pub scale: Option<ScalePaths>,
    /// Columns besides the name; empty for the default, which is the age.
    pub columns: Vec<PrinterColumn>,
    /// The schema; `None` if only metadata is known.
    pub schema: Option<Arc<KindSchema>>,
    /// Whether objects are stored in this version.
    pub is_storage: bool,
    /// Whether the version is served; others are not listed.
    pub is_served: bool,
    /// The storage version.
    pub storage_version: String,
    /// Warning for clients of a deprecated version.
    pub deprecation: Option<String>,
    /// Selectable fields besides name and namespace, as `.spec.color`.
    pub selectable_fields: Vec<String>,
    /// Built-in behavior; `None` for custom kinds.
    pub builtin: Option<Builtin>,
}

impl ServedResource {
    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Name of the kind in the store and in error messages: `things.example.com`, or `secrets` for the core group.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// Name of the kind in the store: both groups of Events share one.
    pub(crate) fn store_name(&self) -> String {
        if self.builtin == Some(Builtin::Event) { self.plural.clone() } else { self.qualified() }
    }

    /// The merge schema of the kind.
    pub fn merging(&self) -> schema::ssa::MergeSchema {
        self.schema.as_ref().map_or_else(schema::ssa::MergeSchema::unknown, |schema| schema.merging.clone())
    }

    fn key(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

/// `group/version`, or the version alone for the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `name.group`, or the name alone for the core group.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// JSON paths of the scale subresource, such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    /// Empty if the kind has no selector.
    pub label_selector: String,
}

impl ScalePaths {
    /// The paths of kinds with replicas in their spec.
    pub(super) fn of_replicas() -> Self {
        let owned = str::to_owned;
        ScalePaths {
            spec_replicas: owned(".spec.replicas"),
            status_replicas: owned(".status.replicas"),
            label_selector: String::new(),
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    pub format: String,
    pub description: String,
    /// Columns above 0 are shown in wide tables only.
    pub priority: i64,
    /// JSON path such as `.status.phase`.
    pub json_path: String,
}

/// All served kinds in all versions; sorted by group, version and plural.
#[derive(Clone, Debug, Default)]
pub struct KindRegistry(Vec<Arc<ServedResource>>);

impl KindRegistry {
    /// The kind of a resource path.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedResource>> {
        let found = self.0.binary_search_by(|resource| resource.key().cmp(&(group, version, plural))).ok()?;
        self.0.get(found).filter(|resource| resource.is_served)
    }

    /// The kind with this `apiVersion` and `kind`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ServedResource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group(group).find(|resource| resource.version == version && resource.kind == kind)
    }

    /// The storage version of a kind.
    pub fn stored(&self, group: &str, plural: &str) -> Option<&Arc<ServedResource>> {
        self.all_of(group).find(|resource| resource.plural == plural && resource.is_storage)
    }

    /// All kinds, sorted by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        self.0.iter().filter(|resource| resource.is_served)
    }

    /// The kinds of a group.
    pub fn group<'a, 'g>(&'a self, group: &'g str) -> impl Iterator<Item = &'a Arc<ServedResource>> + use<'a, 'g> {
        self.all_of(group).filter(|resource| resource.is_served)
    }

    fn all_of<'a, 'g>(&'a self, group: &'g str) -> impl Iterator<Item = &'a Arc<ServedResource>> + use<'a, 'g> {
        let start = self.0.partition_point(|resource| &*resource.group < group);
        self.0.iter().skip(start).take_while(move |resource| resource.group == group)
    }

    /// Replaces all versions of a kind.
    pub(crate) fn replace(&mut self, group: &str, plural: &str, versions: Vec<ServedResource>) {
        self.0.retain(|resource| (&*resource.group, &*resource.plural) != (group, plural));
        self.0.extend(versions.into_iter().map(Arc::new));
        self.0.sort_by(|left, right| left.key().cmp(&right.key()));
    }
}

impl FromIterator<ServedResource> for KindRegistry {
    fn from_iter<I: IntoIterator<Item = ServedResource>>(resources: I) -> Self {
        let mut all: Vec<Arc<ServedResource>> = resources.into_iter().map(Arc::new).collect();
        all.sort_by(|left, right| left.key().cmp(&right.key()));
        KindRegistry(all)
    }
}

/// The value at a JSON path without wildcards: `.spec.replicas`, `.metadata.labels['a.b/c']`.
pub(crate) fn at_path<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).iter().try_fold(object, |value, step| value.get(step))
}

/// The member names of a JSON path.
pub(crate) fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\"")) {
            let end = quoted.find(['\'', '"']).unwrap_or(quoted.len());
            let (step, after) = quoted.split_at(end);
            steps.push(step.to_owned());
            rest = after.get(2..).unwrap_or_default();
        } else {
            let name = rest.trim_start_matches('.');
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (step, after) = name.split_at(end);
            if step.is_empty() {
                return steps;
            }
            steps.push(step.replace("\\.", "."));
            rest = after;
        }
    }
    steps
}

/// The kind in messages: `Thing.example.com`.
impl fmt::Display for ServedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&qualified(&self.kind, &self.group))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_json_path_leads_through_members_and_quoted_keys() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}}, "spec": {"replicas": 3}});
        assert_eq!(at_path(&object, ".spec.replicas"), Some(&json!(3)));
        assert_eq!(at_path(&object, ".metadata.labels['a.b/c']"), Some(&json!("x")));
        assert_eq!(at_path(&object, ".spec.other.more"), None);
        for odd in ["", ".", "..", "['", "[", "a[", ".a['b", "é['é"] {
            let _ = at_path(&object, odd);
        }
    }
}
