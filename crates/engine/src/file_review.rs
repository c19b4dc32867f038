//! Reviews of objects in files, as kube-apiserver and the webhook would do them.
//!
//! ```text
//! LoadedObject ─► StoredManifest ─┐
//!                                 ├─► ReviewSubject ─► default (mutating end point) ─► judge (API schema, validating
//! stored object ──────────────────┘                                                    end point) ─► ObjectReview
//! ```

use std::sync::Arc;

use serde_json::Value;

use crate::admission::{
    AdmissionOutcome, AdmissionSettings, DecodedRequest, EditedObject, Operation, Phase, RawRequest, Verdict,
};
use crate::file_apply::clusters;
use crate::topology::explanations;
use crate::topology::refusals::completed;
use crate::topology::worker::API_VERSION;
use golang::json;
use golang::yaml::RepeatedKey;
use model::crd;
use model::hub::contract::definition_name;
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Object, ObjectKey, paths};
use model::variables;
use model::wire::conversion::{KindVersions, convert};
use model::wire::manifest::Manifest;
use model::wire::{Decode, WireVersion, as_hub_json};
use model::world::{Facts, Found, ObjectSet};
use schema::field::{ErrorKind, FieldError, Findings, Path, RuleId, Warning};

/// The rule about objects in files: their API schema, unknown fields, repeated keys.
const FILE_RULE: RuleId = "DEC-32";

/// An object and its file.
#[derive(Clone, Debug)]
pub struct LoadedObject {
    pub file: String,
    pub manifest: Manifest,
    /// Repeated keys of the document; only its first object has them.
    pub repeated: Vec<RepeatedKey>,
}

/// An object as text, in a known version.
#[derive(Clone, Debug)]
pub struct StoredManifest {
    pub kind: Kind,
    pub version: WireVersion,
    pub text: String,
}

impl StoredManifest {
    /// The text of an object of an admitted kind, if its version is known.
    pub fn from_loaded(loaded: &LoadedObject) -> Option<Self> {
        let (kind, version) = (loaded.manifest.admitted_kind()?, loaded.manifest.version()?);
        Some(StoredManifest { kind, version, text: loaded.manifest.text() })
    }

    /// Applies the mutating end point, as when the object was stored.
    pub fn default(&mut self, facts: &Arc<Facts>, settings: &AdmissionSettings) -> Option<Verdict> {
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
    pub fn class_key(&self) -> Option<ObjectKey> {
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
pub struct ReviewSubject<'a> {
    pub loaded: &'a LoadedObject,
    pub kind: Kind,
    pub operation: Operation,
    /// `None` for a deletion, and for a version of our group that is not understood.
    pub new: Option<StoredManifest>,
    pub old: Option<StoredManifest>,
    pub defaulted: Option<Verdict>,
    /// Where the object is defined again, if it is.
    repeated_at: Option<String>,
}

impl<'a> ReviewSubject<'a> {
    /// The creation of an object, or its update if it is stored.
    pub fn new(loaded: &'a LoadedObject, kind: Kind, old: Option<StoredManifest>) -> Self {
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

    /// The deletion of a stored object.
    pub fn deletion(loaded: &'a LoadedObject, kind: Kind, old: StoredManifest) -> Self {
        let operation = Operation::Delete;
        ReviewSubject { loaded, kind, operation, new: None, old: Some(old), defaulted: None, repeated_at: None }
    }

    /// Keeps the variables of the stored Cluster that were set by default; `written` is what it was read as.
    pub fn keep_variables(&mut self, written: &Value, facts: &Arc<Facts>, settings: &AdmissionSettings) {
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

    /// Records that the object is defined again.
    pub fn repeat(&mut self, later: &LoadedObject) {
        self.repeated_at = Some(format!("{}:{}", later.file, later.manifest.line));
    }

    /// Applies the mutating end point.
    pub fn default(&mut self, facts: &Arc<Facts>, settings: &AdmissionSettings) {
        let Some(Ok(request)) = self.decode_request(Phase::Default) else { return };
        let mut verdict = request.settle(facts, settings);
        if self.kind == Kind::ClusterClass && !self.loaded.manifest.names_its_namespace() {
            // A file without a namespace can be applied to any namespace, and so can its references (DEC-3).
            verdict.patch = json_patch::Patch::default();
            verdict.printed_patch = None;
        }
        // After a correction the defaults that need no class apply, so the rest is validated with them.
        let corrected = (!verdict.is_allowed()).then(|| request.settle(&Arc::default(), settings));
        if let Some(new) = &mut self.new {
            new.change(corrected.as_ref().unwrap_or(&verdict));
        }
        self.defaulted = Some(verdict);
    }

    /// A new class after the mutating end point, in v1beta2 if it can be converted.
    pub fn class(&self) -> Option<(ObjectKey, Value)> {
        let class = self.new.as_ref().filter(|new| new.kind == Kind::ClusterClass)?;
        let mut value = json::value(&class.text).ok()?;
        // One that cannot be converted is denied.
        let _ = convert(Kind::ClusterClass, &mut value, WireVersion::V1Beta2, &KindVersions::default());
        Some((self.loaded.manifest.key.clone(), value))
    }

    /// A new Cluster after the mutating end point, in v1beta2.
    pub fn cluster(&self) -> Option<Object> {
        let cluster = self.new.as_ref().filter(|new| new.kind == Kind::Cluster)?;
        let converted = as_hub_json(cluster.version, &cluster.text, Kind::Cluster);
        hub_cluster(converted.or_else(|| json::value(&cluster.text).ok())?, &self.loaded.manifest.key)
    }

    /// The request of the object; `None` if its version is not known.
    fn decode_request(&self, phase: Phase) -> Option<Result<DecodedRequest, Box<Verdict>>> {
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
    pub fn had_text(&self, text: &str) -> bool {
        self.old.as_ref().is_some_and(|old| old.text.contains(text))
    }

    /// A new Cluster, or the update of a stored object, as the validating end point sees it.
    pub fn edited(&self) -> Option<EditedObject> {
        self.decode_request(Phase::Validate)?.ok()?.into_edited()
    }

    /// Why the mutating end point denies the object, if it does.
    pub fn denial(&self) -> Option<Verdict> {
        let verdict = match (&self.defaulted, self.decode_request(Phase::Default)) {
            (Some(verdict), _) => verdict.clone(),
            (None, Some(Err(verdict))) => *verdict,
            (None, Some(Ok(_))) => return None,
            (None, None) => self.unknown_version(),
        };
        (!verdict.is_allowed()).then_some(verdict)
    }

    /// The Cluster or ClusterClass as it would be stored; `None` for a deletion.
    pub fn stored(&self) -> Option<(Kind, &ObjectKey)> {
        self.new.as_ref().map(|new| (new.kind, &self.loaded.manifest.key))
    }

    /// The review by the API server and the validating end point; `remarks` are warnings about the object as a file.
    pub fn judge(
        &self,
        facts: &Arc<Facts>,
        settings: &AdmissionSettings,
        unknown_fields: UnknownFields,
        remarks: impl FnOnce(&Value) -> Vec<Warning>,
    ) -> ObjectReview {
        let mut verdict = match self.decode_request(Phase::Validate) {
            Some(Ok(request)) => request.settle(facts, settings),
            Some(Err(verdict)) => *verdict,
            None => self.unknown_version(),
        };
        self.suggest_class(&mut verdict, facts);
        let class = self.new.as_ref().and_then(StoredManifest::class_key);
        let (mut found, mut misplaced) = (Findings::default(), Vec::new());
        let again = |place: &String| {
            let text = "other objects are validated against that one";
            Warning::new(FILE_RULE, format!("the same object is defined again at {place}; {text}"))
        };
        let mut warnings: Vec<Warning> = self.repeated_at.iter().map(again).collect();
        let unknown = class.into_iter().flat_map(|class| explanations::unknown_variables(&class, facts));
        let path = || Path::new(paths::cluster::TOPOLOGY_VARIABLES);
        warnings.extend(unknown.map(|text| Warning::new("DEC-5", text).about(path())));
        if self.new.as_ref().is_some_and(|new| new.version == WireVersion::V1Alpha4) {
            let text = format!(
                "no API server serves {GROUP}/v1alpha4 any more; it is read as v1beta1: change apiVersion to \
                 {GROUP}/v1beta1 or {GROUP}/v1beta2"
            );
            warnings.push(Warning::new(FILE_RULE, text).about(Path::new("apiVersion")));
        }
        if let Some((new, value)) = self.new.as_ref().and_then(|new| Some((new, json::value(&new.text).ok()?))) {
            for DroppedField { field, reaction, is_misplaced } in dropped(self.kind, new.version, &value, &mut found) {
                match unknown_fields {
                    UnknownFields::Deny => drop(found.run(FILE_RULE, |found| {
                        found.forbidden(Path::ROOT.child(&field), format!("unknown field, {reaction}"));
                    })),
                    UnknownFields::Warn => {
                        let text = format!("{field}: unknown field, {reaction}");
                        warnings.push(Warning::new(FILE_RULE, text).about_key(Path::ROOT.child(&field)));
                    }
                }
                misplaced.extend(is_misplaced.then_some(field));
            }
            warnings.extend(remarks(&value));
        }
        for RepeatedKey { line, key, path } in &self.loaded.repeated {
            let detail = format!("the key {key:?} is repeated on line {line}; only the last value is used");
            match unknown_fields {
                UnknownFields::Deny => drop(found.run(FILE_RULE, |found| {
                    found.error(ErrorKind::Duplicate, Path::ROOT.child(path), &**key, detail);
                })),
                UnknownFields::Warn => {
                    warnings.push(Warning::new(FILE_RULE, detail).about_key(Path::ROOT.child(path)));
                }
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

/// The effect of unknown fields and repeated keys of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    Warn,
    Deny,
}

/// The review of one object.
#[derive(Debug)]
pub struct ObjectReview {
    /// Errors of its API schema (DEC-32).
    pub schema: Vec<FieldError>,
    /// Warnings besides those of the verdict.
    pub warnings: Vec<Warning>,
    pub verdict: Verdict,
    /// Unknown fields that the other version has, under another name than the version of the object.
    pub misplaced: Vec<String>,
}

impl ObjectReview {
    /// Errors of the schema, without those that a rule found as well at the same field and of the same type.
    pub fn schema_errors(&self) -> impl Iterator<Item = &FieldError> {
        let same = |a: &FieldError, b: &FieldError| a.kind == b.kind && a.path == b.path;
        self.schema.iter().filter(move |error| !self.verdict.errors().iter().any(|other| same(error, other)))
    }
}

/// An unknown field.
struct DroppedField {
    field: String,
    /// The reaction of the API server.
    reaction: String,
    /// Whether the version of the object has another field in its place, and the other version has it.
    is_misplaced: bool,
}

/// Checks the API schema; returns unknown fields (DEC-32).
fn dropped(kind: Kind, version: WireVersion, object: &Value, found: &mut Findings) -> Vec<DroppedField> {
    let wire = version.schema_version();
    let explain = |field: String| {
        let mut reaction = "which the API server drops".to_owned();
        let instead = crd::instead(wire, &field);
        if let Some(instead) = instead {
            reaction.push_str(&format!("; {version} has {instead} in its place"));
        }
        // A name that neither version has belongs to no version.
        let is_misplaced = instead.is_some() && crd::instead(version.other().schema_version(), &field).is_none();
        DroppedField { field, reaction, is_misplaced }
    };
    crd::check(kind, wire, object, found).into_iter().map(explain).collect()
}

/// Every text of a value with its path.
pub fn texts(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
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

/// A Cluster in v1beta2, in its namespace.
pub fn hub_cluster(value: Value, key: &ObjectKey) -> Option<Object> {
    let mut object = Object::try_from(value).ok()?;
    let members = object.members_mut_at("metadata").ok()?;
    members.insert("namespace".to_owned(), key.namespace.clone().into());
    object.set("apiVersion", API_VERSION.into()).ok()?;
    Some(object)
}

/// A class with the variables that its controller will give it: a file may hold a status from before its spec was
/// edited. Only those that discover variables are not settled already ([`class_status::of_file`]); their extensions are
/// not called, so that definitions of the spec, and those that a status has from extensions, are all that is known.
pub fn settled(mut class: ClusterClass) -> ClusterClass {
    if !class.is_reconciled() && class.discovers_variables() {
        class.use_known_variables();
    }
    if class.is_reconciled() {
        class.status.variables = variables::expected_status(&class.spec, &class.status.variables).into();
    }
    class
}

/// An object with what webhooks are assumed to add.
fn assumed(all: &ObjectSet, object: Object) -> Object {
    if all.assumptions().is_empty() {
        return object;
    }
    let mut value = Value::from(object.clone());
    match all.assumptions().complete(object.api_version(), object.kind(), &mut value) {
        true => Object::try_from(value).unwrap_or(object),
        false => object,
    }
}

/// An object with what webhooks are assumed to add, and with the defaults of its definition, if that is known.
pub fn complete(all: &ObjectSet, object: Object) -> Arc<Object> {
    let name = definition_name(object.group(), object.kind());
    let definition = if let Found::Yes(found) = all.definition(&name) { Some(found) } else { None };
    Arc::new(completed(assumed(all, object), definition.as_deref()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use golang::yaml::YamlDocument;
    use model::wire::manifest;

    fn loaded(file: &str, value: &Value) -> LoadedObject {
        let document = YamlDocument { line: 1, value: value.clone(), ..YamlDocument::default() };
        let manifest = manifest::objects(document).unwrap().remove(0);
        let repeated = vec![RepeatedKey { line: 3, key: "paused".to_owned(), path: "spec.paused".to_owned() }];
        LoadedObject { file: file.to_owned(), manifest, repeated }
    }

    fn cluster(spec: &Value) -> LoadedObject {
        let metadata = json!({"namespace": "default", "name": "blue"});
        loaded(
            "a.yaml",
            &json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": spec}),
        )
    }

    #[test]
    fn unknown_fields_and_repeated_keys_are_warnings_or_errors() {
        // DEC-32
        let cluster = cluster(&json!({"unknown": true, "paused": true}));
        let subject = ReviewSubject::new(&cluster, Kind::Cluster, None);
        let judge = |unknown_fields| {
            let remarks = |_: &Value| vec![Warning::new("DEC-33", "a remark")];
            let review = subject.judge(&Arc::default(), &AdmissionSettings::default(), unknown_fields, remarks);
            let warnings = review.warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.detail()));
            let errors = review.schema.iter().map(|error| error.path.to_string());
            (errors.collect::<Vec<_>>(), warnings.collect::<Vec<_>>())
        };
        let repeated = "the key \"paused\" is repeated on line 3; only the last value is used";
        let (errors, warnings) = judge(UnknownFields::Warn);
        assert_eq!(errors, Vec::<String>::new());
        let unknown = "spec.unknown: unknown field, which the API server drops";
        assert_eq!(warnings, [unknown, "[]: a remark", &format!("spec.paused: {repeated}")]);
        let (errors, warnings) = judge(UnknownFields::Deny);
        assert_eq!(
            (errors, warnings),
            (vec!["spec.unknown".to_owned(), "spec.paused".to_owned()], vec!["[]: a remark".to_owned()])
        );
    }

    #[test]
    fn an_object_that_is_defined_twice_is_a_warning() {
        let (first, second) = (cluster(&json!({})), cluster(&json!({})));
        let mut subject = ReviewSubject::new(&first, Kind::Cluster, None);
        subject.repeat(&LoadedObject { file: "b.yaml".to_owned(), ..second });
        let review = subject.judge(&Arc::default(), &AdmissionSettings::default(), UnknownFields::Warn, |_| Vec::new());
        let want = "the same object is defined again at b.yaml:1; other objects are validated against that one";
        assert_eq!(review.warnings[0].text, want);
    }

    #[test]
    fn a_cluster_of_a_file_is_one_of_its_namespace_in_the_hub_version() {
        let value = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "blue"}});
        let cluster = hub_cluster(value, &ObjectKey::new("prod", "blue")).unwrap();
        assert_eq!((cluster.key(), cluster.api_version()), (ObjectKey::new("prod", "blue"), API_VERSION));
    }

    #[test]
    fn texts_have_paths() {
        let mut all = Vec::new();
        texts(&json!({"a": [{"b": "x"}, 1], "c": "y"}), "", &mut |path, text| all.push(format!("{path}={text}")));
        assert_eq!(all, ["a[0].b=x", "c=y"]);
    }
}
