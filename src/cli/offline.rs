//! The files of a command as reviews of their objects ([`engine::file_review`]), with the files as the world.
//!
//! ```text
//! old ─┐                  new only: CREATE · both: UPDATE · old only: DELETE
//! new ─┼─► CommandInput ─► default (mutating end point) ─► judge (API schema, validating end point) ─► ObjectReview
//! world┘      └──► facts: new, world, and classes that only old has, since Clusters that leave them still need them;
//!                  objects of other kinds, in all files
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::Value;

use super::args::InputFlags as Flags;
use super::discovered::{self, VariableServer};
use super::files::{FileInput, FileReader, Undecoded};
use super::{hints, included_definitions, substitution};
use engine::admission::{AdmissionSettings, Operation};
use engine::file_apply;
use engine::file_review::{
    LoadedObject, ObjectReview, ReviewSubject, StoredManifest, UnknownFields, complete, hub_cluster, settled, texts,
};
use engine::topology::class_status;
use model::hub::contract::object_kind;
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Object, ObjectKey, ResourceDefinition, group_of};
use model::wire::manifest::Manifest;
use model::wire::{Decode, as_hub_json};
use model::world::{Assumptions, Facts, Found, ObjectSet, Record};
use schema::field::{Path, Warning};

/// The input of a command.
#[derive(Debug, Default)]
pub(super) struct CommandInput {
    pub new: Arc<FileInput>,
    /// Possibly shared with `new` of another input.
    pub old: Arc<FileInput>,
    world: Arc<FileInput>,
    crds: Arc<FileInput>,
    /// What webhooks are assumed to add to objects.
    assumptions: Arc<Assumptions>,
    /// Reads further files, within what is left of the limits.
    reader: FileReader,
    /// Whether values stay that were set by default when a Cluster was stored.
    keeps_defaults: bool,
    /// Calls extensions.
    extensions: Option<Arc<dyn VariableServer>>,
}

impl CommandInput {
    /// Reads the files of a command.
    ///
    /// # Errors
    /// When a path cannot be read at all.
    pub(super) fn read(paths: &[PathBuf], old: &[PathBuf], flags: &Flags) -> Result<Self> {
        let mut reader = FileReader::new(&flags.variables, &flags.links);
        let mut read = |paths: &[PathBuf]| reader.read(paths).map(Arc::new);
        let (old, new, world) = (read(old)?, read(paths)?, read(&flags.world)?);
        let mut crds = reader.read(&flags.crd_paths()).with_context(|| flags.crd_source())?;
        if flags.crds.is_empty() {
            crds.keep_definitions();
        }
        let assumed = reader.read(&flags.assume).context("--assume")?;
        let assumptions = assumptions(&assumed, !flags.assume.is_empty()).context("--assume")?;
        // The problems of these files are those of the input.
        crds.unreadable.extend(assumed.unreadable);
        let (crds, assumptions) = (Arc::new(crds), Arc::new(assumptions));
        Ok(CommandInput { new, old, world, crds, assumptions, reader, ..CommandInput::default() })
    }

    /// Reads the files of a command that replace those of another input; the rest is that of the other input.
    ///
    /// # Errors
    /// When a path cannot be read at all.
    pub(super) fn after(paths: &[PathBuf], before: &CommandInput) -> Result<Self> {
        let mut reader = before.reader.clone();
        let (old, world, crds) = (before.new.clone(), before.world.clone(), before.crds.clone());
        let (new, assumptions) = (Arc::new(reader.read(paths)?), before.assumptions.clone());
        Ok(CommandInput { new, old, world, crds, assumptions, reader, ..CommandInput::default() })
    }

    /// Kinds that something is assumed about, and that no object of the files has, nor a template of it.
    pub(super) fn unused_assumptions(&self) -> impl Iterator<Item = String> {
        let is_unused = |(api_version, kind): &(&str, &str)| {
            let mut all = self.inputs().into_iter().flat_map(|input| &input.objects).map(|loaded| &loaded.manifest);
            !all.any(|other| other.api_version == *api_version && object_kind(&other.kind) == object_kind(kind))
        };
        let unused = self.assumptions.kinds().filter(is_unused);
        unused.map(|(version, kind)| format!("--assume: the files have no {kind} in {version}, and no template of it"))
    }

    /// The same files, applied to a cluster that holds `live`: fields that they do not mention stay unchanged.
    pub(super) fn applied_to(self, live: &FileInput) -> Self {
        let named: BTreeSet<_> = self.new.objects.iter().map(|loaded| loaded.manifest.identity()).collect();
        let applied = |loaded: &&LoadedObject| named.contains(&loaded.manifest.identity());
        let old = FileInput { objects: live.objects.iter().filter(applied).cloned().collect(), ..FileInput::default() };
        let mut world = Arc::unwrap_or_clone(self.world);
        world.objects.extend(live.objects.iter().cloned());
        world.conversions.extend(live.conversions.iter().cloned());
        world.missing.extend(live.missing.iter().cloned());
        world.undecoded.extend(live.undecoded.iter().cloned());
        CommandInput { old: Arc::new(old), world: Arc::new(world), ..self }
    }

    /// The same, in which Clusters keep the references of their controllers and defaulted variables, and objects of
    /// providers the defaulted values: applying a file does not change fields that it does not mention.
    pub(super) fn kept_as_stored(mut self) -> Self {
        self.keeps_defaults = true;
        let stored: BTreeMap<_, _> =
            self.old.objects.iter().map(|old| (old.manifest.identity(), &old.manifest)).collect();
        for loaded in &mut Arc::make_mut(&mut self.new).objects {
            let Some(old) = stored.get(&loaded.manifest.identity()).copied() else { continue };
            match old.admitted_kind() {
                Some(Kind::Cluster) => {
                    loaded.manifest.keep_written();
                    file_apply::clusters::keep_references(&mut loaded.manifest, old);
                }
                None => {
                    loaded.manifest.keep_written();
                    file_apply::provider_objects::keep_defaults(&mut loaded.manifest, old);
                }
                Some(_) => {}
            }
        }
        self
    }

    /// The same, with calls of extensions.
    pub(super) fn with_extensions(self, extensions: Option<Arc<dyn VariableServer>>) -> Self {
        CommandInput { extensions, ..self }
    }

    /// Calls extensions.
    pub(super) fn extensions(&self) -> Option<Arc<dyn VariableServer>> {
        self.extensions.clone()
    }

    /// The content of `live` as the input of files.
    pub(super) fn from_live(live: FileInput) -> Self {
        CommandInput { new: Arc::new(live), ..CommandInput::default() }
    }

    /// All inputs, with their unreadable parts.
    pub(super) fn inputs(&self) -> [&FileInput; 4] {
        [&self.new, &self.old, &self.world, &self.crds]
    }

    /// Objects of all other kinds in their new state, with the defaults of an API server; objects that only the old
    /// files have are deleted.
    pub(super) fn objects(&self) -> ObjectSet {
        objects([&*self.crds, &*self.world, &*self.new], &self.assumptions)
    }

    /// The Clusters of the files as they are written, in v1beta2.
    pub(super) fn clusters(&self) -> impl Iterator<Item = Object> {
        let loaded = self.world.objects.iter().chain(&self.new.objects).map(|loaded| &loaded.manifest);
        loaded.filter(|manifest| manifest.admitted_kind() == Some(Kind::Cluster)).filter_map(|manifest| {
            let value = as_hub_json(manifest.version()?, &manifest.text(), Kind::Cluster);
            hub_cluster(value.unwrap_or_else(|| manifest.value.clone()), &manifest.key)
        })
    }

    /// Clusters and ClusterClasses in the order of their files, deletions last, defaulted as the mutating end point
    /// does.
    pub(super) fn subjects<'a>(&'a self, settings: &AdmissionSettings) -> Vec<ReviewSubject<'a>> {
        let mut old: BTreeMap<(Kind, &ObjectKey), StoredManifest> = BTreeMap::new();
        let stored = Arc::new(
            self.facts_of(self.old.objects.iter().chain(&self.world.objects).filter_map(StoredManifest::from_loaded)),
        );
        let mut before: BTreeMap<(Kind, &ObjectKey), &Value> = BTreeMap::new();
        let defaulted = |loaded: &'a LoadedObject| {
            let mut object = StoredManifest::from_loaded(loaded)?;
            object.default(&stored, settings);
            Some((loaded, object))
        };
        let old_objects: Vec<(&LoadedObject, StoredManifest)> =
            self.old.objects.par_iter().filter_map(defaulted).collect();
        for (loaded, object) in old_objects {
            before.insert((object.kind, &loaded.manifest.key), &loaded.manifest.value);
            old.insert((object.kind, &loaded.manifest.key), object);
        }
        let subject = |loaded: &'a LoadedObject| {
            let kind = loaded.manifest.admitted_kind()?;
            let key = (kind, &loaded.manifest.key);
            let mut subject = ReviewSubject::new(loaded, kind, old.get(&key).cloned());
            if let Some(written) = before.get(&key).filter(|_| self.keeps_defaults && kind == Kind::Cluster) {
                subject.keep_variables(written, &stored, settings);
            }
            Some(subject)
        };
        let mut subjects: Vec<ReviewSubject<'a>> = self.new.objects.par_iter().filter_map(subject).collect();
        let mut positions = BTreeMap::new();
        let mut repeated: Vec<(usize, &LoadedObject)> = Vec::new();
        for (position, subject) in subjects.iter().enumerate() {
            let earlier = positions.insert((subject.kind, &subject.loaded.manifest.key), position);
            repeated.extend(earlier.map(|earlier| (earlier, subject.loaded)));
        }
        for (earlier, later) in repeated {
            subjects.get_mut(earlier).into_iter().for_each(|subject| subject.repeat(later));
        }
        let written = Arc::new(self.facts(&subjects));
        subjects.par_iter_mut().for_each(|subject| subject.default(&written, settings));
        let stays: BTreeSet<_> = self.world.objects.iter().map(|loaded| loaded.manifest.identity()).collect();
        old.retain(|key, _| !positions.contains_key(key));
        for loaded in &self.old.objects {
            // A stored object that is also in the world is not deleted.
            if let Some(kind) = loaded.manifest.admitted_kind()
                && !stays.contains(&loaded.manifest.identity())
                && let Some(object) = old.remove(&(kind, &loaded.manifest.key))
            {
                subjects.push(ReviewSubject::deletion(loaded, kind, object));
            }
        }
        subjects
    }

    /// The world of the validating end point.
    pub(super) fn facts(&self, subjects: &[ReviewSubject<'_>]) -> Facts {
        let left = self
            .old
            .objects
            .iter()
            .filter_map(StoredManifest::from_loaded)
            .filter(|object| object.kind == Kind::ClusterClass);
        let world = self.world.objects.iter().filter_map(StoredManifest::from_loaded);
        let facts = self.facts_of(left.chain(world).chain(subjects.iter().filter_map(|subject| subject.new.clone())));
        self.with_undecoded(facts).with_objects(objects([&*self.old, &*self.world, &*self.new], &self.assumptions))
    }

    /// The facts before the first object is applied, and what the new files create besides Clusters.
    pub(super) fn stored(&self, subjects: &[ReviewSubject<'_>]) -> Facts {
        let is_new_class =
            |subject: &&ReviewSubject<'_>| subject.operation == Operation::Create && subject.kind == Kind::ClusterClass;
        let created = subjects.iter().filter(is_new_class).filter_map(|subject| subject.new.clone());
        let world = self.world.objects.iter().filter_map(StoredManifest::from_loaded);
        let old = subjects.iter().filter_map(|subject| subject.old.clone());
        let facts = self.facts_of(world.chain(created).chain(old));
        facts.with_objects(objects([&*self.crds, &*self.world, &*self.new, &*self.old], &self.assumptions))
    }

    /// Stored objects of a running cluster that do not decode, unless files replace them.
    pub(super) fn undecoded(&self) -> impl Iterator<Item = &Undecoded> {
        self.world.undecoded.iter().chain(&self.new.undecoded)
    }

    /// The same facts with existing objects that do not decode: errors of the Clusters that they belong to, and of no
    /// others.
    fn with_undecoded(&self, mut facts: Facts) -> Facts {
        for Undecoded { kind, key, reason } in self.undecoded() {
            let reason: Arc<str> = format!("{} {key} does not decode: {reason}", kind.name()).into();
            match kind {
                Kind::Cluster if !matches!(facts.cluster(key), Found::Yes(_)) => {
                    facts.put_cluster(key.clone(), Record::Unreadable { reason, class: None });
                }
                Kind::ClusterClass if !matches!(facts.class(key), Found::Yes(_)) => {
                    facts.put_class(key.clone(), Record::Unreadable { reason, class: None });
                }
                _ => {}
            }
        }
        facts
    }

    /// Facts of these objects; a later one replaces an earlier one of the same name.
    fn facts_of(&self, objects: impl Iterator<Item = StoredManifest>) -> Facts {
        // Other kinds are facts like any other (`objects`).
        let (clusters, classes): (Vec<StoredManifest>, Vec<StoredManifest>) = objects
            .filter(|object| matches!(object.kind, Kind::Cluster | Kind::ClusterClass))
            .partition(|object| object.kind == Kind::Cluster);
        let cluster = |StoredManifest { version, text, .. }| Cluster::decode(version, &text).ok();
        let clusters: Vec<Cluster> = clusters.into_par_iter().filter_map(cluster).collect();
        let class = |StoredManifest { version, text, .. }| {
            let extensions = self.extensions.as_deref();
            let discovered = extensions.and_then(|extensions| discovered::class(version, &text, extensions));
            let plain = || ClusterClass::decode(version, &class_status::with_status(&text)).map(settled).ok();
            discovered.or_else(plain)
        };
        Facts::complete(clusters, classes.into_iter().filter_map(class))
    }
}

/// What the objects of files say about their kinds.
///
/// # Errors
/// When there is none though files are given, or one is not of a provider.
fn assumptions(assumed: &FileInput, are_given: bool) -> Result<Assumptions> {
    if are_given && assumed.objects.is_empty() && assumed.unreadable.is_empty() {
        bail!("the files have no object");
    }
    let mut all = Assumptions::default();
    for LoadedObject { file, manifest, .. } in &assumed.objects {
        let Manifest { api_version, kind, line, .. } = manifest;
        if group_of(api_version) == GROUP || kind == "CustomResourceDefinition" {
            bail!("{file}:{line}: {kind} is not of a provider; only fields of its kinds can be assumed");
        }
        all.add(api_version, kind, &manifest.value);
    }
    Ok(all)
}

/// The objects of all other kinds, completed as their definitions say, and definitions by their names; a later one
/// takes the place of an earlier one of the same name.
fn objects<'a>(
    inputs: impl IntoIterator<Item = &'a FileInput, IntoIter: Clone>,
    assumptions: &Arc<Assumptions>,
) -> ObjectSet {
    let inputs = inputs.into_iter();
    let mut all = ObjectSet::default();
    all.assume(assumptions.clone());
    all.include_definitions(included_definitions::by_name);
    for LoadedObject { manifest, .. } in inputs.clone().flat_map(|input| &input.objects) {
        if let Some(definition) = ResourceDefinition::from_object(&manifest.value) {
            all.put_definition(manifest.key.name.clone(), Arc::new(definition));
        }
    }
    for FileInput { objects, conversions, missing, .. } in inputs {
        missing.iter().for_each(|object| all.put_missing(object));
        for LoadedObject { manifest, .. } in objects {
            if manifest.admitted_kind().is_none() && manifest.kind != "CustomResourceDefinition" {
                let Some(object) = manifest.object() else { continue };
                let object = complete(&all, object);
                all.put(object);
            }
        }
        for object in conversions {
            let object = complete(&all, object.clone());
            all.put_conversion(object);
        }
    }
    all
}

/// Warnings about the object as a file.
fn remarks(object: &Value) -> Vec<Warning> {
    let mut warnings = unresolved(object);
    warnings.extend(misread(object));
    warnings
}

/// The review of an object of the files.
pub(super) fn judge(
    subject: &ReviewSubject<'_>,
    facts: &Arc<Facts>,
    settings: &AdmissionSettings,
    unknown_fields: UnknownFields,
) -> ObjectReview {
    subject.judge(facts, settings, unknown_fields, remarks)
}

/// Warnings about unsubstituted variables of a file, once for each (DEC-33). The patches of a class are skipped: their
/// scripts contain many variables of the same form.
fn unresolved(object: &Value) -> Vec<Warning> {
    let mut places = BTreeMap::new();
    let mut visit = |path: &str, text: &str| {
        for name in substitution::names(text).filter(|_| !path.starts_with("spec.patches[")) {
            places.entry(name.to_owned()).or_insert_with(|| path.to_owned());
        }
    };
    texts(object, "", &mut visit);
    let say = |(name, path): (String, String)| {
        let text = format!(
            "{path}: the variable ${{{name}}} is not substituted: use --env {name} to take it from the environment"
        );
        Warning::new("DEC-33", text).about(Path::ROOT.child(&path))
    };
    places.into_iter().map(say).collect()
}

/// Warnings about texts that YAML probably reads in another way than intended.
fn misread(object: &Value) -> Vec<Warning> {
    let mut warnings = Vec::new();
    texts(object, "", &mut |path, text| {
        let warning = |hint| Warning::new("DEC-32", format!("{path}: the text {hint}")).about(Path::ROOT.child(path));
        warnings.extend(hints::for_text(text).map(warning));
    });
    warnings
}
