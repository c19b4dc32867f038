//! Which kinds are served: a snapshot that is replaced when a CustomResourceDefinition changes.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::builtin::Builtin;
use super::structure::Structure;

/// One kind in one version, as discovery lists it and as its objects are handled.
#[derive(Clone, Debug)]
pub struct Resource {
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
    /// Where the scale subresource finds its numbers; none when there is no such subresource.
    pub scale: Option<Scale>,
    /// What tables show besides the name; empty for the default, which is the age.
    pub columns: Vec<Column>,
    /// What objects look like; none when nothing is known of them but their metadata.
    pub schema: Option<Arc<Structure>>,
    /// Whether objects are kept in this version.
    pub is_storage: bool,
    /// Whether the version is served; what is only stored is not listed.
    pub is_served: bool,
    /// The version in which objects are kept.
    pub storage_version: String,
    /// The warning for clients that use the version; none when it is not deprecated.
    pub deprecation: Option<String>,
    /// Fields that selectors may name besides name and namespace, as `.spec.color`.
    pub selectable_fields: Vec<String>,
    /// What the server itself knows of the kind; none for custom kinds.
    pub builtin: Option<Builtin>,
}

impl Resource {
    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// How the store and error messages name the kind: `things.example.com`, or `secrets` for the core group.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// How the store names the kind: both groups of Events share one.
    pub(crate) fn store_name(&self) -> String {
        if self.builtin == Some(Builtin::Event) { self.plural.clone() } else { self.qualified() }
    }

    /// How objects of the kind are merged.
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

/// Where the scale subresource of a kind finds its numbers: JSON paths such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    /// Empty when the kind has no selector.
    pub label_selector: String,
}

impl Scale {
    /// Of the kinds that have a number of replicas in their spec.
    pub(super) fn of_replicas() -> Self {
        let owned = str::to_owned;
        Scale {
            spec_replicas: owned(".spec.replicas"),
            status_replicas: owned(".status.replicas"),
            label_selector: String::new(),
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    pub format: String,
    pub description: String,
    /// Above 0 only wide tables show the column.
    pub priority: i64,
    /// Where the value stands, such as `.status.phase`.
    pub json_path: String,
}

/// All kinds that are served, in all their versions; sorted by group, version and plural.
#[derive(Clone, Debug, Default)]
pub struct Registry(Vec<Arc<Resource>>);

impl Registry {
    /// The kind that a path names.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let found = self.0.binary_search_by(|resource| resource.key().cmp(&(group, version, plural))).ok()?;
        self.0.get(found).filter(|resource| resource.is_served)
    }

    /// The kind of an object with this `apiVersion` and `kind`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group(group).find(|resource| resource.version == version && resource.kind == kind)
    }

    /// The version of a kind in which its objects are kept.
    pub fn stored(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.all_of(group).find(|resource| resource.plural == plural && resource.is_storage)
    }

    /// All kinds, sorted by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.iter().filter(|resource| resource.is_served)
    }

    /// The kinds of a group.
    pub fn group<'a, 'g>(&'a self, group: &'g str) -> impl Iterator<Item = &'a Arc<Resource>> + use<'a, 'g> {
        self.all_of(group).filter(|resource| resource.is_served)
    }

    fn all_of<'a, 'g>(&'a self, group: &'g str) -> impl Iterator<Item = &'a Arc<Resource>> + use<'a, 'g> {
        let start = self.0.partition_point(|resource| &*resource.group < group);
        self.0.iter().skip(start).take_while(move |resource| resource.group == group)
    }

    /// Puts versions of one kind in place of all that there were of it.
    pub(crate) fn replace(&mut self, group: &str, plural: &str, versions: Vec<Resource>) {
        self.0.retain(|resource| (&*resource.group, &*resource.plural) != (group, plural));
        self.0.extend(versions.into_iter().map(Arc::new));
        self.0.sort_by(|left, right| left.key().cmp(&right.key()));
    }
}

impl FromIterator<Resource> for Registry {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut all: Vec<Arc<Resource>> = resources.into_iter().map(Arc::new).collect();
        all.sort_by(|left, right| left.key().cmp(&right.key()));
        Registry(all)
    }
}

/// A value by a JSON path without wildcards: `.spec.replicas`, `.metadata.labels['a.b/c']`.
pub(crate) fn at_path<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).iter().try_fold(object, |value, step| value.get(step))
}

/// The member names that a JSON path leads through.
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

/// The kind as messages name it: `Thing.example.com`.
impl fmt::Display for Resource {
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
