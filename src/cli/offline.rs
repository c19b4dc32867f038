//! Reviews of objects in files, as kube-apiserver and its webhooks would do them, with the files as the world.
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

use anyhow::Result;
use serde_json::Value;

use super::args::InputFlags as Flags;
use super::discovered::{self, VariableServer};
use super::files::{FileInput, FileReader, LoadedObject, Undecoded};
use super::{hints, substitution};
use engine::admission::{
    AdmissionOutcome, AdmissionSettings, DecodedRequest, EditedObject, Operation, Phase, RawRequest, Verdict,
};
use engine::file_apply::{self, clusters};
use engine::topology::class_status;
use engine::topology::explanations;
use engine::topology::refusals::completed;
use engine::topology::worker::API_VERSION;
use golang::json;
use golang::yaml::RepeatedKey;
use model::crd;
use model::hub::contract::definition_name;
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Object, ObjectKey, ResourceDefinition};
use model::variables;
use model::wire::conversion::{KindVersions, convert};
use model::wire::{Decode, WireVersion, as_hub_json};
use model::world::{Facts, Found, ObjectSet, Record};
use schema::field::{ErrorKind, FieldError, Findings, Path};

/// The input of a command.
#[derive(Debug, Default)]
pub(super) struct CommandInput {
    pub new: Arc<FileInput>,
    /// Possibly shared with `new` of another input.
    pub old: Arc<FileInput>,
    world: Arc<FileInput>,
    crds: Arc<FileInput>,
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
        let (old, new, world, crds) = (read(old)?, read(paths)?, read(&flags.world)?, read(&flags.crds)?);
        Ok(CommandInput { new, old, world, crds, reader, ..CommandInput::default() })
    }

    /// Reads the files of a command that replace those of another input; the rest is that of the other input.
    ///
    /// # Errors
    /// When a path cannot be read at all.
    pub(super) fn after(paths: &[PathBuf], before: &CommandInput) -> Result<Self> {
        let mut reader = before.reader.clone();
        let (old, world, crds) = (before.new.clone(), before.world.clone(), before.crds.clone());
        Ok(CommandInput { new: Arc::new(reader.read(paths)?), old, world, crds, reader, ..CommandInput::default() })
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
                Some(Kind::Cluster) => file_apply::clusters::keep_references(&mut loaded.manifest, old),
                None => file_apply::provider_objects::keep_defaults(&mut loaded.manifest, old),
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
        objects([&*self.crds, &*self.world, &*self.new])
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
    pub(super) fn subjects(&self, settings: &AdmissionSettings) -> Vec<ReviewSubject<'_>> {
        let mut old: BTreeMap<(Kind, &ObjectKey), StoredManifest> = BTreeMap::new();
        let stored = Arc::new(
            self.facts_of(self.old.objects.iter().chain(&self.world.objects).filter_map(StoredManifest::from_loaded)),
        );
        let mut before: BTreeMap<(Kind, &ObjectKey), &Value> = BTreeMap::new();
        for loaded in &self.old.objects {
            if let Some(mut object) = StoredManifest::from_loaded(loaded) {
                object.default(&stored, settings);
                before.insert((object.kind, &loaded.manifest.key), &loaded.manifest.value);
                old.insert((object.kind, &loaded.manifest.key), object);
            }
        }
        let mut subjects: Vec<ReviewSubject<'_>> = Vec::new();
        let mut positions = BTreeMap::new();
        for loaded in &self.new.objects {
            if let Some(kind) = loaded.manifest.admitted_kind() {
                let key = (kind, &loaded.manifest.key);
                if let Some(earlier) = positions.insert(key, subjects.len()).and_then(|at| subjects.get_mut(at)) {
                    earlier.repeat(loaded);
                }
                let mut subject = ReviewSubject::new(loaded, kind, old.get(&key).cloned());
                if let Some(written) = before.get(&key).filter(|_| self.keeps_defaults && kind == Kind::Cluster) {
                    subject.keep_variables(written, &stored, settings);
                }
                subjects.push(subject);
            }
        }
        let written = Arc::new(self.facts(&subjects));
        subjects.iter_mut().for_each(|subject| subject.default(&written, settings));
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
        self.with_undecoded(facts).with_objects(objects([&*self.old, &*self.world, &*self.new]))
    }

    /// The facts before the first object is applied, and what the new files create besides Clusters.
    pub(super) fn stored(&self, subjects: &[ReviewSubject<'_>]) -> Facts {
        let is_new_class =
            |subject: &&ReviewSubject<'_>| subject.operation == Operation::Create && subject.kind == Kind::ClusterClass;
        let created = subjects.iter().filter(is_new_class).filter_map(|subject| subject.new.clone());
        let world = self.world.objects.iter().filter_map(StoredManifest::from_loaded);
        let old = subjects.iter().filter_map(|subject| subject.old.clone());
        let facts = self.facts_of(world.chain(created).chain(old));
        facts.with_objects(objects([&*self.crds, &*self.world, &*self.new, &*self.old]))
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
        let (mut clusters, mut classes) = (Vec::new(), Vec::new());
        for StoredManifest { kind, version, text } in objects {
            match kind {
                Kind::Cluster => clusters.extend(Cluster::decode(version, &text)),
                // Facts like any other (`objects`).
                Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => {}
                Kind::ClusterClass => {
                    let extensions = self.extensions.as_deref();
                    let discovered = extensions.and_then(|extensions| discovered::class(version, &text, extensions));
                    let plain = || ClusterClass::decode(version, &class_status::with_status(&text)).map(settled).ok();
                    classes.extend(discovered.or_else(plain));
                }
            }
        }
        Facts::complete(clusters, classes)
    }
}

/// The objects of all other kinds, completed as their definitions say, and definitions by their names; a later one
/// takes the place of an earlier one of the same name.
pub(super) fn objects<'a>(inputs: impl IntoIterator<Item = &'a FileInput, IntoIter: Clone>) -> ObjectSet {
    let inputs = inputs.into_iter();
    let mut all = ObjectSet::default();
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

fn complete(all: &ObjectSet, object: Object) -> Arc<Object> {
    let name = definition_name(object.group(), object.kind());
    let definition = if let Found::Yes(found) = all.definition(&name) { Some(found) } else { None };
    Arc::new(completed(object, definition.as_deref()))
}

/// A class with the variables that its controller will give it: a file may hold a status from before its spec was
/// edited. Only those that discover variables are not settled already ([`class_status::of_file`]); their extensions are
/// not called, so that definitions of the spec, and those that a status has from extensions, are all that is known.
pub(super) fn settled(mut class: ClusterClass) -> ClusterClass {
    if !class.is_reconciled() && class.discovers_variables() {
        class.use_known_variables();
    }
    if class.is_reconciled() {
        class.status.variables = variables::expected_status(&class.spec, &class.status.variables).into();
    }
    class
}

/// A Cluster in v1beta2, in its namespace.
fn hub_cluster(value: Value, key: &ObjectKey) -> Option<Object> {
    let mut object = Object::try_from(value).ok()?;
    let members = object.members_mut_at("metadata").ok()?;
    members.insert("namespace".to_owned(), key.namespace.clone().into());
    object.set("apiVersion", API_VERSION.into()).ok()?;
    Some(object)
}

/// An object as text, in a known version.
#[derive(Clone, Debug)]
pub(super) struct StoredManifest {
    kind: Kind,
    version: WireVersion,
    text: String,
}

impl StoredManifest {
    fn from_loaded(loaded: &LoadedObject) -> Option<Self> {
        let (kind, version) = (loaded.manifest.admitted_kind()?, loaded.manifest.version()?);
        Some(StoredManifest { kind, version, text: loaded.manifest.text() })
    }

    /// Applies the mutating end point, as when the object was stored.
    fn default(&mut self, facts: &Arc<Facts>, settings: &AdmissionSettings) -> Option<Verdict> {
        let verdict = DecodedRequest::decode(&self.creation(Phase::Default, "")).ok()?.settle(facts, settings);
        self.change(&verdict);
        Some(verdict)
    }

    /// The request that creates the object.
    fn creation<'a>(&'a self, phase: Phase, name: &'a str) -> RawRequest<'a> {
        RawRequest {
            phase,
            kind: self.kind,
            version: self.version,
            operation: Operation::Create,
            name,
            object: Some(&self.text),
            old_object: None,
            old_version: self.version,
        }
    }

    /// The class that a Cluster names.
    fn class_key(&self) -> Option<ObjectKey> {
        let is_cluster = self.kind == Kind::Cluster;
        is_cluster.then(|| Cluster::decode(self.version, &self.text).ok()?.class_key()).flatten()
    }

    fn change(&mut self, verdict: &Verdict) {
        if let Ok(mut value) = json::value(&self.text)
            && json_patch::patch(&mut value, &verdict.patch).is_ok()
        {
            self.text = value.to_string();
        }
    }
}

/// A reviewed object, with the verdict of the mutating end point.
#[derive(Debug)]
pub(super) struct ReviewSubject<'a> {
    pub loaded: &'a LoadedObject,
    pub kind: Kind,
    pub operation: Operation,
    /// `None` for a deletion, and for a version of our group that is not understood.
    new: Option<StoredManifest>,
    old: Option<StoredManifest>,
    pub defaulted: Option<Verdict>,
    /// Where the object comes again, if it does.
    repeated_at: Option<String>,
}

impl<'a> ReviewSubject<'a> {
    fn new(loaded: &'a LoadedObject, kind: Kind, old: Option<StoredManifest>) -> Self {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        ReviewSubject {
            loaded,
            kind,
            operation,
            new: StoredManifest::from_loaded(loaded),
            old,
            defaulted: None,
            repeated_at: None,
        }
    }

    fn deletion(loaded: &'a LoadedObject, kind: Kind, old: StoredManifest) -> Self {
        let operation = Operation::Delete;
        ReviewSubject { loaded, kind, operation, new: None, old: Some(old), defaulted: None, repeated_at: None }
    }

    /// Keeps the variables of the stored Cluster that were set by default; `written` is what it was read as.
    fn keep_variables(&mut self, written: &Value, facts: &Arc<Facts>, settings: &AdmissionSettings) {
        let (Some(new), Some(old)) = (&mut self.new, &self.old) else { return };
        let (Ok(mut value), Ok(stored)) = (json::value(&new.text), json::value(&old.text)) else { return };
        let mut defaulted = old.clone();
        defaulted.text = clusters::without_variables(&stored, &value).to_string();
        defaulted.default(facts, settings);
        let Ok(defaulted) = json::value(&defaulted.text) else { return };
        let kept = clusters::kept_variables(&value, written, &stored, &defaulted);
        if !kept.is_empty() {
            clusters::add_variables(&mut value, kept);
            new.text = value.to_string();
        }
    }

    fn repeat(&mut self, later: &LoadedObject) {
        self.repeated_at = Some(format!("{}:{}", later.file, later.manifest.line));
    }

    fn default(&mut self, facts: &Arc<Facts>, settings: &AdmissionSettings) {
        let Some(Ok(question)) = self.question(Phase::Default) else { return };
        let mut verdict = question.settle(facts, settings);
        if self.kind == Kind::ClusterClass && !self.loaded.manifest.names_its_namespace() {
            // A file without a namespace can be applied to any namespace, and so can its references (DEC-3).
            verdict.patch = json_patch::Patch::default();
            verdict.printed_patch = None;
        }
        // After a correction the defaults that need no class apply, so the rest is validated with them.
        let mended = (!verdict.is_allowed()).then(|| question.settle(&Arc::default(), settings));
        if let Some(new) = &mut self.new {
            new.change(mended.as_ref().unwrap_or(&verdict));
        }
        self.defaulted = Some(verdict);
    }

    /// A new class after the mutating end point, in v1beta2 if it can be converted.
    pub(super) fn class(&self) -> Option<(ObjectKey, Value)> {
        let class = self.new.as_ref().filter(|new| new.kind == Kind::ClusterClass)?;
        let mut value = json::value(&class.text).ok()?;
        // One that cannot be converted is denied.
        let _ = convert(Kind::ClusterClass, &mut value, WireVersion::V1Beta2, &KindVersions::default());
        Some((self.loaded.manifest.key.clone(), value))
    }

    /// A new Cluster after the mutating end point, in v1beta2.
    pub(super) fn cluster(&self) -> Option<Object> {
        let cluster = self.new.as_ref().filter(|new| new.kind == Kind::Cluster)?;
        let converted = as_hub_json(cluster.version, &cluster.text, Kind::Cluster);
        hub_cluster(converted.or_else(|| json::value(&cluster.text).ok())?, &self.loaded.manifest.key)
    }

    fn question(&self, phase: Phase) -> Option<Result<DecodedRequest, Box<Verdict>>> {
        let subject = if self.operation == Operation::Delete { &self.old } else { &self.new };
        let version = subject.as_ref()?.version;
        Some(DecodedRequest::decode(&RawRequest {
            phase,
            kind: self.kind,
            version,
            operation: self.operation,
            name: &self.loaded.manifest.key.name,
            object: self.new.as_ref().map(|new| &*new.text),
            old_object: self.old.as_ref().map(|old| &*old.text),
            old_version: self.old.as_ref().map_or(version, |old| old.version),
        }))
    }

    /// Whether a text is part of the stored object.
    pub(super) fn had_text(&self, text: &str) -> bool {
        self.old.as_ref().is_some_and(|old| old.text.contains(text))
    }

    /// A new Cluster, or the update of a stored object, as the validating end point sees it.
    pub(super) fn edited(&self) -> Option<EditedObject> {
        self.question(Phase::Validate)?.ok()?.into_edited()
    }

    /// Why the mutating end point denies the object, if it does.
    pub(super) fn denial(&self) -> Option<Verdict> {
        let verdict = match (&self.defaulted, self.question(Phase::Default)) {
            (Some(verdict), _) => verdict.clone(),
            (None, Some(Err(verdict))) => *verdict,
            (None, Some(Ok(_))) => return None,
            (None, None) => self.unknown_version(),
        };
        (!verdict.is_allowed()).then_some(verdict)
    }

    /// The Cluster or ClusterClass as it would be stored; `None` for a deletion.
    pub(super) fn stored(&self) -> Option<(Kind, &ObjectKey)> {
        self.new.as_ref().map(|new| (new.kind, &self.loaded.manifest.key))
    }

    /// The review by the API server and the validating end point.
    pub(super) fn judge(&self, facts: &Arc<Facts>, settings: &AdmissionSettings, strict: bool) -> ObjectReview {
        let mut verdict = match self.question(Phase::Validate) {
            Some(Ok(question)) => question.settle(facts, settings),
            Some(Err(verdict)) => *verdict,
            None => self.unknown_version(),
        };
        self.suggest_class(&mut verdict, facts);
        let class = self.new.as_ref().and_then(StoredManifest::class_key);
        let (mut found, mut misplaced) = (Findings::default(), Vec::new());
        let again = |place: &String| {
            format!("the same object is defined again at {place}; other objects are validated against that one")
        };
        let mut warnings: Vec<String> = self.repeated_at.iter().map(again).collect();
        warnings.extend(class.into_iter().flat_map(|class| explanations::unknown_variables(&class, facts)));
        if self.new.as_ref().is_some_and(|new| new.version == WireVersion::V1Alpha4) {
            warnings.push(format!(
                "no API server serves {GROUP}/v1alpha4 any more; it is read as v1beta1: change apiVersion to {GROUP}/v1beta1 \
                 or {GROUP}/v1beta2"
            ));
        }
        if let Some((new, value)) = self.new.as_ref().and_then(|new| Some((new, json::value(&new.text).ok()?))) {
            for DroppedField { field, reaction, is_misplaced } in dropped(self.kind, new.version, &value, &mut found) {
                match strict {
                    true => drop(found.run("DEC-32", |found| {
                        found.forbidden(Path::ROOT.child(&field), format!("unknown field, {reaction}"));
                    })),
                    false => warnings.push(format!("unknown field {field}, {reaction}")),
                }
                misplaced.extend(is_misplaced.then_some(field));
            }
            warnings.extend(unresolved(&value));
            warnings.extend(misread(&value));
        }
        for RepeatedKey { line, key } in &self.loaded.repeated {
            let said = format!("the key {key:?} is repeated on line {line}; only the last value is used");
            match strict {
                true => drop(found.run("DEC-32", |found| {
                    found.error(ErrorKind::Duplicate, Path::ROOT, &**key, said);
                })),
                false => warnings.push(said),
            }
        }
        ObjectReview { schema: found.into_parts().0, warnings, verdict, misplaced }
    }

    /// Adds the class that the user most likely meant to the warning about an absent one (CL-V-052).
    fn suggest_class(&self, verdict: &mut Verdict, facts: &Facts) {
        let key = self.new.as_ref().and_then(StoredManifest::class_key);
        let Some(hint) = key.and_then(|key| explanations::similar_class(&key, facts)) else { return };
        for warning in verdict.warnings.iter_mut().filter(|warning| warning.rule == "CL-V-052") {
            warning.text = format!("{}; {hint}", warning.text);
        }
    }

    fn unknown_version(&self) -> Verdict {
        let manifest = &self.loaded.manifest;
        let known = WireVersion::ALL.map(WireVersion::name).join(", ");
        let reason = format!("unknown version {} of {}; known versions: {known}", manifest.api_version, manifest.kind);
        Verdict::plain(self.kind, &manifest.key.name, AdmissionOutcome::Undecodable(reason))
    }
}

/// The review of one object.
#[derive(Debug)]
pub(super) struct ObjectReview {
    /// What its API schema does not allow (DEC-32).
    pub schema: Vec<FieldError>,
    /// What is said besides the verdict.
    pub warnings: Vec<String>,
    pub verdict: Verdict,
    /// Unknown fields that have another name in the version of the object.
    pub misplaced: Vec<String>,
}

impl ObjectReview {
    /// Errors of the schema, without those that a rule found as well at the same field and of the same type.
    pub(super) fn schema_errors(&self) -> impl Iterator<Item = &FieldError> {
        let same = |a: &FieldError, b: &FieldError| a.kind == b.kind && a.path == b.path;
        self.schema.iter().filter(move |error| !self.verdict.errors().iter().any(|other| same(error, other)))
    }
}

/// An unknown field.
struct DroppedField {
    field: String,
    /// The reaction of the API server.
    reaction: String,
    /// Whether the version of the object has another field in its place.
    is_misplaced: bool,
}

/// Checks the API schema; returns unknown fields, each with the reaction of the API server (DEC-32).
fn dropped(kind: Kind, version: WireVersion, object: &Value, found: &mut Findings) -> Vec<DroppedField> {
    let wire = version.schema_version();
    let explain = |field: String| {
        let mut reaction = "which the API server drops".to_owned();
        let instead = crd::instead(wire, &field);
        if let Some(instead) = instead {
            reaction.push_str(&format!("; {version} has {instead} in its place"));
        }
        DroppedField { field, reaction, is_misplaced: instead.is_some() }
    };
    crd::check(kind, wire, object, found).into_iter().map(explain).collect()
}

/// Warnings about unsubstituted variables of a file, once for each (DEC-33). The patches of a class are skipped: their
/// scripts contain many variables of the same form.
fn unresolved(object: &Value) -> Vec<String> {
    let mut places = BTreeMap::new();
    let mut visit = |path: &str, text: &str| {
        for name in substitution::names(text).filter(|_| !path.starts_with("spec.patches[")) {
            places.entry(name.to_owned()).or_insert_with(|| path.to_owned());
        }
    };
    texts(object, "", &mut visit);
    let say = |(name, path)| {
        format!(
            "{path} holds the variable ${{{name}}}, which is not substituted: use --env {name} to take it from the environment"
        )
    };
    places.into_iter().map(say).collect()
}

/// Warnings about texts that YAML probably reads in another way than intended.
fn misread(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    texts(object, "", &mut |path, text| {
        warnings.extend(hints::for_text(text).map(|hint| format!("{path} {hint}")));
    });
    warnings
}

/// Every text of a value with its path.
fn texts(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(i, element)| texts(element, &format!("{path}[{i}]"), visit));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                texts(member, &path, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
