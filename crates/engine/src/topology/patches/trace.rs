//! The trace of patches: patches without effect, warnings, and errors.

use std::fmt;
use std::sync::Arc;

use super::document::PatchMark;
use crate::topology::worker::WorkerKind;
use model::hub::{ObjectKey, paths};
use model::world::PatchHook;
use schema::field::{Path, shortened};

/// The trace of a successful run of the patches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Skipped patches and definitions, in the order of patches, items and definitions.
    pub skipped: Vec<Skipped>,
    /// Templates whose output has `<no value>` in it (DEC-5).
    pub undefined: Vec<Undefined>,
    /// Extensions that could not be called: the result lacks their patches.
    pub not_asked: Vec<NotAsked>,
    /// Changes of fields that are not used, for each patch and template.
    pub ineffective: Vec<IneffectiveChange>,
}

/// Maximum number of paths of an [`IneffectiveChange`].
const SHOWN_PATHS: usize = 5;

impl Trace {
    /// Records a change without effect, once for each patch, template and path.
    pub(super) fn note_ineffective(&mut self, change: &PatchMark, is_template: bool, item: &Arc<ItemName>) {
        let is_of_same = |known: &&mut IneffectiveChange| {
            let template =
                (&known.item.template_kind, &known.item.template_name) == (&item.template_kind, &item.template_name);
            template && known.patch == change.origin.patch
        };
        let path = shortened(&change.path).into_owned();
        match self.ineffective.iter_mut().find(is_of_same) {
            None => self.ineffective.push(IneffectiveChange {
                patch: change.origin.patch.clone(),
                item: item.clone(),
                paths: vec![path],
                has_more: false,
                is_template,
            }),
            Some(known) if known.paths.contains(&path) => {}
            Some(known) if known.paths.len() < SHOWN_PATHS => known.paths.push(path),
            Some(known) => known.has_more = true,
        }
    }
}

/// Changes by a patch of fields of a template that are not used (PE-21, PE-25, PE-26, PE-28).
#[derive(Clone, Debug, PartialEq)]
pub struct IneffectiveChange {
    pub patch: Arc<str>,
    /// The first item with such a change.
    pub item: Arc<ItemName>,
    /// The first paths in the template, shortened.
    pub paths: Vec<String>,
    /// Whether there are other paths.
    pub has_more: bool,
    /// Whether the item is a template of the topology, so that its own labels and annotations are used as well.
    pub is_template: bool,
}

/// A definition of a patch that did not change an item, or a patch that did nothing at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    pub patch: Arc<str>,
    /// The position of the definition; `None` for the patch as a whole.
    pub definition: Option<usize>,
    /// The item; `None` for all of them.
    pub item: Option<Arc<ItemName>>,
    pub reason: SkipReason,
}

/// The reason for which a patch or definition was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The selector matches other items (PE-13).
    NotSelected,
    /// The selector matches none of the items of this topology.
    SelectsNothing,
    /// `enabledIf` rendered something other than `true` (PE-16).
    Disabled { rendered: Arc<str> },
    /// The topology sets the field at this path of the object, and patches do not change it (PE-24, PE-27).
    Kept { path: String },
    /// The patch only has an extension that validates (PE-11).
    OnlyValidates,
    /// The extension could not be called.
    NotAsked,
}

/// A template whose output has `<no value>` in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Undefined {
    pub patch: Arc<str>,
    /// `None` for `enabledIf`.
    pub operation: Option<OperationPosition>,
    /// The first item with such an output.
    pub item: Arc<ItemName>,
}

/// An extension that could not be called.
#[derive(Clone, Debug, PartialEq)]
pub struct NotAsked {
    pub patch: Arc<str>,
    pub hook: PatchHook,
    /// The name that the extension is registered by.
    pub extension: String,
}

/// The names of an item and of the object that is made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemName {
    /// The kind of the template.
    pub template_kind: String,
    /// The name of the template in the class.
    pub template_name: String,
    /// Its worker set, by the name in the topology.
    pub worker: Option<(WorkerKind, String)>,
    /// The kind of the resulting object or template.
    pub kind: String,
    /// The name of the resulting object or template.
    pub name: String,
}

/// An operation of a patch in the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationPosition {
    /// The position of the definition.
    pub definition: usize,
    /// The position of the operation in the definition.
    pub operation: usize,
}

/// The position of an error in a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchLocation {
    /// The patch as a whole.
    Patch,
    EnabledIf,
    /// An operation in the class, and the field of it that is wrong; empty for the operation as a whole.
    Operation {
        position: OperationPosition,
        field: &'static str,
    },
    /// A call of an extension.
    Extension {
        hook: PatchHook,
        extension: String,
    },
    /// A patch in the answer of an extension, by its position, and an operation in it.
    Answer {
        extension: String,
        position: usize,
        operation: Option<usize>,
    },
}

/// An error of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    pub class: ObjectKey,
    pub patch: Arc<str>,
    /// The position of the patch in the class.
    pub position: usize,
    pub place: PatchLocation,
    /// The item, if it matters.
    pub item: Option<Arc<ItemName>>,
    /// The problem, with line and column for templates.
    pub problem: String,
}

/// The name in the class, which is stable between computations, unlike names of new objects.
impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.template_kind, self.template_name)?;
        match &self.worker {
            Some((kind, name)) => write!(f, " of {} {name:?}", kind.name()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for OperationPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "definitions[{}].jsonPatches[{}]", self.definition, self.operation)
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::NotSelected => f.write_str("the selector names other templates"),
            SkipReason::SelectsNothing => f.write_str("the selector matches nothing in this topology"),
            SkipReason::Disabled { rendered } => write!(f, "enabledIf rendered {rendered}"),
            SkipReason::Kept { path } => write!(f, "the topology itself decides {path}"),
            SkipReason::OnlyValidates => f.write_str("the patch has only a validate extension"),
            SkipReason::NotAsked => f.write_str("the extension could not be called"),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?}", self.patch)?;
        if let Some(definition) = self.definition {
            write!(f, " definitions[{definition}]")?;
        }
        if let Some(item) = &self.item {
            write!(f, " did not change {item}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?} ", self.patch)?;
        match &self.operation {
            Some(place) => write!(f, "{place}.valueFrom.template")?,
            None => f.write_str("enabledIf")?,
        }
        write!(f, " rendered \"<no value>\" for {}: a variable that it refers to is not set", self.item)
    }
}

impl fmt::Display for IneffectiveChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.paths.iter().map(|path| format!("{path:?}")).collect();
        let others = if self.has_more { " and others" } else { "" };
        let metadata = if self.is_template { "metadata and spec.template.metadata" } else { "spec.template.metadata" };
        write!(
            f,
            "patch {:?} changes {}{others} of {}, which has no effect: only changes in spec.template.spec and of labels \
             and annotations in {metadata} are used",
            self.patch,
            paths.join(", "),
            self.item
        )
    }
}

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?}: {} of {} could not be called", self.patch, self.hook.name(), self.extension)
    }
}

impl PatchError {
    /// The path in the class.
    pub fn path(&self) -> Path {
        let path = Path::new(paths::cluster_class::PATCHES).index(self.position);
        match &self.place {
            PatchLocation::Patch => path,
            PatchLocation::EnabledIf => path.child("enabledIf"),
            PatchLocation::Operation { position: OperationPosition { definition, operation }, .. } => {
                path.child("definitions").index(*definition).child("jsonPatches").index(*operation)
            }
            PatchLocation::Extension { hook: PatchHook::ValidateTopology, .. } => {
                path.child("external.validateTopologyExtension")
            }
            PatchLocation::Extension { .. } | PatchLocation::Answer { .. } => {
                path.child("external.generatePatchesExtension")
            }
        }
    }

    /// The path in the class, down to the field of an operation.
    pub fn field_path(&self) -> Path {
        match &self.place {
            PatchLocation::Operation { field, .. } if !field.is_empty() => self.path().child(field),
            _ => self.path(),
        }
    }

    /// The problem, with the call of an extension or the part of its answer.
    pub fn cause(&self) -> String {
        let problem = &self.problem;
        match &self.place {
            PatchLocation::Extension { hook, extension } => format!("{} of {extension}: {problem}", hook.name()),
            PatchLocation::Answer { extension, position, operation: None } => {
                format!("items[{position}] of the answer of {extension}: {problem}")
            }
            PatchLocation::Answer { extension, position, operation: Some(operation) } => {
                format!("items[{position}] of the answer of {extension}, operation {operation}: {problem}")
            }
            PatchLocation::Patch | PatchLocation::EnabledIf | PatchLocation::Operation { .. } => problem.clone(),
        }
    }
}

/// The position and the problem, without the item.
impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?} ({}): {}", self.patch, self.path(), self.cause())
    }
}

/// Maximum number of templates that an error names; the rest is counted.
const NAMED: usize = 3;

/// Maximum number of shown errors; the rest is counted.
const SHOWN: usize = 10;

/// All errors in one line; an error of several templates is shown once.
pub(in crate::topology) fn summary(errors: &[PatchError]) -> String {
    let mut groups: Vec<(String, Vec<&ItemName>)> = Vec::new();
    for error in errors {
        let text = error.to_string();
        let item = error.item.as_deref();
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, items)) => items.extend(item),
            None => groups.push((text, item.into_iter().collect())),
        }
    }
    let one = |(text, items): &(String, Vec<&ItemName>)| {
        let names: Vec<String> = items.iter().take(NAMED).map(ToString::to_string).collect();
        match items.len() {
            0 => text.clone(),
            count if count > NAMED => format!("{text} (for {} and {} more)", names.join(", "), count - NAMED),
            _ => format!("{text} (for {})", names.join(", ")),
        }
    };
    let mut messages: Vec<String> = groups.iter().take(SHOWN).map(one).collect();
    if groups.len() > SHOWN {
        messages.push(format!("and {} more errors", groups.len() - SHOWN));
    }
    let class = errors.first().map(|error| error.class.to_string()).unwrap_or_default();
    format!("the patches of ClusterClass {class} cannot be applied: {}", messages.join("; "))
}
