//! The index of the classes that refer to each template, to find the dependents of a change.

use std::collections::{BTreeMap, BTreeSet};

use crate::kubernetes::templates::ObjectKind;
use engine::topology::class_references::group_version;
use model::hub::{ObjectKey, TemplateRef, contract};

/// Classes by their references.
#[derive(Debug, Default)]
pub(super) struct Users {
    references: BTreeMap<ObjectKey, Vec<TemplateRef>>,
    /// The classes that refer to a template, by its kind and its key.
    of_templates: BTreeMap<ObjectKind, BTreeMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

impl Users {
    /// Replaces the references of a class.
    pub(super) fn put(&mut self, class: ObjectKey, references: Vec<TemplateRef>) {
        self.remove(&class);
        for (kind, template) in templates(&class, &references) {
            let of_kind = self.of_templates.entry(kind).or_default();
            of_kind.entry(template).or_default().insert(class.clone());
        }
        self.references.insert(class, references);
    }

    /// Forgets a class.
    pub(super) fn remove(&mut self, class: &ObjectKey) {
        let Some(references) = self.references.remove(class) else { return };
        for (kind, template) in templates(class, &references) {
            let Some(of_kind) = self.of_templates.get_mut(&kind) else { continue };
            let Some(users) = of_kind.get_mut(&template) else { continue };
            users.remove(class);
            if users.is_empty() {
                of_kind.remove(&template);
            }
            if of_kind.is_empty() {
                self.of_templates.remove(&kind);
            }
        }
    }

    /// All classes.
    pub(super) fn classes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.references.keys()
    }

    /// All kinds of templates of all classes.
    pub(super) fn kinds(&self) -> BTreeSet<ObjectKind> {
        self.of_templates.keys().cloned().collect()
    }

    /// The classes that refer to a template, or to any of its kind.
    pub(super) fn of_template(&self, kind: &ObjectKind, template: Option<&ObjectKey>) -> BTreeSet<&ObjectKey> {
        let Some(of_kind) = self.of_templates.get(kind) else { return BTreeSet::new() };
        match template {
            Some(template) => of_kind.get(template).into_iter().flatten().collect(),
            None => of_kind.values().flatten().collect(),
        }
    }

    /// The classes that refer to templates of a kind with this definition; of any kind if none is named, readable or
    /// not.
    pub(super) fn of_definition(&self, name: Option<&str>) -> BTreeSet<&ObjectKey> {
        let Some(name) = name else {
            return self.references.iter().filter(|(_, all)| !all.is_empty()).map(|(class, _)| class).collect();
        };
        let is_defined = |kind: &ObjectKind| contract::definition_name(&kind.group, &kind.kind) == name;
        let kinds = self.of_templates.iter().filter(|(kind, _)| is_defined(kind));
        kinds.flat_map(|(_, of_kind)| of_kind.values()).flatten().collect()
    }
}

/// The templates of the readable references of a class.
fn templates<'a>(
    class: &'a ObjectKey,
    references: &'a [TemplateRef],
) -> impl Iterator<Item = (ObjectKind, ObjectKey)> + use<'a> {
    references.iter().filter_map(|reference| {
        let (group, version) = group_version(reference).ok()?;
        let (group, version, kind) = (group.to_owned(), version.to_owned(), reference.kind.clone());
        Some((ObjectKind { group, version, kind }, ObjectKey::new(&class.namespace, &reference.name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ObjectKey {
        let (namespace, name) = text.split_once('/').unwrap();
        ObjectKey::new(namespace, name)
    }

    fn kind(version: &str, kind: &str) -> ObjectKind {
        ObjectKind { group: "g.io".to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    fn put(users: &mut Users, class: &str, references: &[(&str, &str, &str)]) {
        let reference = |(api_version, kind, name): &(&str, &str, &str)| TemplateRef {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
        };
        users.put(key(class), references.iter().map(reference).collect());
    }

    fn names(classes: BTreeSet<&ObjectKey>) -> Vec<String> {
        classes.into_iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_template_finds_the_classes_that_refer_to_it_now() {
        let mut users = Users::default();
        put(&mut users, "ns/b", &[("g.io/v1", "ATemplate", "one"), ("g.io/v1", "ATemplate", "two")]);
        put(&mut users, "ns/a", &[("g.io/v1", "ATemplate", "one"), ("g.io/v2", "BTemplate", "one")]);
        put(&mut users, "far/a", &[("g.io/v1", "ATemplate", "one")]);
        let of =
            |users: &Users, template: &str| names(users.of_template(&kind("v1", "ATemplate"), Some(&key(template))));
        assert_eq!(of(&users, "ns/one"), ["ns/a", "ns/b"]);
        assert_eq!(of(&users, "ns/two"), ["ns/b"]);
        assert_eq!(of(&users, "far/one"), ["far/a"]);
        assert_eq!(of(&users, "far/two"), [""; 0]);
        assert_eq!(names(users.of_template(&kind("v1", "ATemplate"), None)), ["far/a", "ns/a", "ns/b"]);
        assert_eq!(names(users.of_template(&kind("v1", "BTemplate"), None)), [""; 0], "another version");
        assert_eq!(users.kinds(), [kind("v1", "ATemplate"), kind("v2", "BTemplate")].into());

        put(&mut users, "ns/a", &[("g.io/v1", "ATemplate", "two")]);
        users.remove(&key("far/a"));
        assert_eq!(
            (of(&users, "ns/one"), of(&users, "ns/two")),
            (vec!["ns/b".into()], vec!["ns/a".into(), "ns/b".into()])
        );
        assert_eq!(of(&users, "far/one"), [""; 0]);
        assert_eq!(users.kinds(), [kind("v1", "ATemplate")].into(), "no class refers to the other any more");
        users.remove(&key("ns/a"));
        users.remove(&key("ns/b"));
        assert!(users.kinds().is_empty() && users.classes().next().is_none());
    }

    #[test]
    fn a_definition_finds_the_classes_that_refer_to_its_kind_in_any_version() {
        let mut users = Users::default();
        put(&mut users, "ns/a", &[("g.io/v1", "ATemplate", "one"), ("g.io/v2", "ATemplate", "two")]);
        put(&mut users, "ns/b", &[("g.io/v2", "ATemplate", "one")]);
        put(&mut users, "ns/c", &[("h.io/v1", "ATemplate", "one")]);
        put(&mut users, "ns/malformed", &[("g.io/v1/x", "ATemplate", "one")]);
        put(&mut users, "ns/none", &[]);
        assert_eq!(names(users.of_definition(Some("atemplates.g.io"))), ["ns/a", "ns/b"]);
        assert_eq!(names(users.of_definition(Some("btemplates.g.io"))), [""; 0]);
        assert_eq!(names(users.of_definition(None)), ["ns/a", "ns/b", "ns/c", "ns/malformed"]);
        assert_eq!(users.classes().count(), 5);
    }
}
