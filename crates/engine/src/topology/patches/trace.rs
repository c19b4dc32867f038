//! The trace of patches: which had no effect and why, warnings, and failures.

use std::fmt;
use std::sync::Arc;

use crate::topology::worker::WorkerKind;
use model::hub::ObjectKey;
use model::world::PatchHook;
use schema::field::Path;

/// The trace of a successful run of the patches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What did nothing, in the order of patches, items and definitions.
    pub skipped: Vec<Skipped>,
    /// Templates whose output has `<no value>` in it (DEC-5).
    pub undefined: Vec<Undefined>,
    /// Extensions that could not be called: the result lacks their patches.
    pub not_asked: Vec<NotAsked>,
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

/// Why something did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The selector is about other items (PE-13).
    NotSelected,
    /// The selector matches none of the items of this topology.
    SelectsNothing,
    /// `enabledIf` rendered something other than `true` (PE-16).
    Disabled { rendered: Arc<str> },
    /// The topology itself decides the field at this path of the object, and keeps its value (PE-24, PE-27).
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
    /// The first item for which it did.
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

/// A template of the class on its way to become an object of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemName {
    /// The kind of the template.
    pub template_kind: String,
    /// The name of the template in the class.
    pub template_name: String,
    /// The workers that it is for, by their name in the topology.
    pub worker: Option<(WorkerKind, String)>,
    /// The kind of the object or template that it becomes.
    pub kind: String,
    /// The name of the object or template that it becomes.
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

/// Where in a patch something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchLocation {
    /// The patch as a whole.
    Patch,
    EnabledIf,
    /// An operation in the class.
    Operation(OperationPosition),
    /// A call of an extension.
    Extension {
        hook: PatchHook,
        extension: String,
    },
    /// A patch that an extension answered, by its position in the answer, and an operation in it.
    Answer {
        extension: String,
        position: usize,
        operation: Option<usize>,
    },
}

/// What is wrong with a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    pub class: ObjectKey,
    pub patch: Arc<str>,
    /// The position of the patch in the class.
    pub position: usize,
    pub place: PatchLocation,
    /// The item, if it matters.
    pub item: Option<Arc<ItemName>>,
    /// What is wrong, with line and column where a template is.
    pub problem: String,
}

/// The name in the class, which stays the same from one computation to the next: names of new objects do not.
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

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?}: {} of {} could not be called", self.patch, self.hook.name(), self.extension)
    }
}

impl PatchError {
    /// Where it is in the class.
    fn path(&self) -> Path {
        let path = Path::new("spec.patches").index(self.position);
        match &self.place {
            PatchLocation::Patch => path,
            PatchLocation::EnabledIf => path.child("enabledIf"),
            PatchLocation::Operation(OperationPosition { definition, operation }) => {
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
}

/// Where, and what is wrong, without the item.
impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?} ({}): ", self.patch, self.path())?;
        match &self.place {
            PatchLocation::Extension { hook, extension } => write!(f, "{} of {extension}: ", hook.name())?,
            PatchLocation::Answer { extension, position, operation } => {
                write!(f, "items[{position}] of the answer of {extension}")?;
                match operation {
                    Some(operation) => write!(f, ", operation {operation}: ")?,
                    None => f.write_str(": ")?,
                }
            }
            _ => {}
        }
        f.write_str(&self.problem)
    }
}

/// How many templates an error names before it counts the rest.
const NAMED: usize = 3;

/// How many errors are told before the rest is counted.
const TOLD: usize = 10;

/// All errors in one line: what is wrong for several templates is told once.
pub(in crate::topology) fn summary(errors: &[PatchError]) -> String {
    let mut groups: Vec<(String, Vec<&ItemName>)> = Vec::new();
    for error in errors {
        let text = error.to_string();
        let item = error.item.as_deref();
        match groups.iter_mut().find(|(told, _)| *told == text) {
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
    let mut told: Vec<String> = groups.iter().take(TOLD).map(one).collect();
    if groups.len() > TOLD {
        told.push(format!("and {} more errors", groups.len() - TOLD));
    }
    let class = errors.first().map(|error| error.class.to_string()).unwrap_or_default();
    format!("the patches of ClusterClass {class} cannot be applied: {}", told.join("; "))
}
