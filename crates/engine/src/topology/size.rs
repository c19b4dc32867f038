//! The size of a topology: its objects and their memory. It is known before the computation (DEC-58).
//!
//! ```text
//! templates of the class ─► ClassSize (for each class of workers) ─┐
//! Cluster: its worker sets, variables and metadata ────────────────┴─► TopologySize ─► SizeLimit ─► computation
//! ```
//!
//! A Cluster of a few kilobytes can name thousands of worker sets, each of which gets copies of the templates of its
//! class.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::blueprint::Blueprint;
use golang::json::Weight;
use model::hub::{Cluster, ClusterClass, HealthCheck, TemplateHolder, TemplateRef, TopologyMetadata, VariableValue};
use model::world::Class;
use schema::field::counted;

/// The memory that a computation takes for each byte of its objects in memory: desired and current objects, the
/// documents that patches change, and the steps of plans. The test
/// `a_computation_takes_no_more_memory_than_it_is_charged` measures it.
const COPIES: usize = 6;

/// A MachineDeployment, MachinePool or health check without the lists and the metadata of its class.
const OBJECT: Weight = Weight { text: 1_000, memory: 14 << 10 };
/// An element of a list of taints, gates or conditions, and a label or annotation as part of a variable.
const ELEMENT: Weight = Weight { text: 80, memory: 720 };
/// The builtin variables of a part.
const BUILTIN: Weight = Weight { text: 500, memory: 6 << 10 };

/// The number of a topology's objects, and their weight with the variables of their patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopologySize {
    pub objects: usize,
    /// Copies of templates count in full: patches may enlarge them.
    pub weight: Weight,
}

impl TopologySize {
    /// The bytes of memory that a computation takes, with the plan that follows.
    pub fn memory(&self) -> usize {
        memory(self.weight)
    }
}

/// The memory that a computation takes for values of this weight.
pub(super) const fn memory(weight: Weight) -> usize {
    weight.memory.saturating_mul(COPIES)
}

/// The size of a worker set of a class of workers, without its templates.
#[derive(Clone, Copy, Debug, Default)]
struct WorkerSize {
    size: TopologySize,
    /// The weight of its health check, unless the Cluster has another one.
    check: Option<Weight>,
    /// The position of the class of workers.
    position: usize,
}

/// The sizes of the parts of a class, without templates.
#[derive(Debug, Default)]
pub(crate) struct OwnSize {
    /// Infrastructure cluster and control plane.
    cluster: TopologySize,
    control_plane_check: Option<Weight>,
    machine_deployments: HashMap<String, WorkerSize>,
    machine_pools: HashMap<String, WorkerSize>,
    has_patches: bool,
}

impl OwnSize {
    /// The sizes of the parts of a class.
    pub(crate) fn from_class(class: &ClusterClass) -> Self {
        let spec = &class.spec;
        let control_plane = &spec.control_plane;
        let lists = ELEMENT.times(control_plane.taints.len() + control_plane.readiness_gates.len());
        let mut cluster =
            TopologySize { objects: 2, weight: lists + metadata_weight(&control_plane.metadata).times(2) };
        if control_plane.machine_infrastructure.template_ref.is_defined() {
            cluster.add(1, Weight::default());
        }
        let of_workers = |metadata: &TopologyMetadata, elements: usize| {
            let weight = OBJECT + metadata_weight(metadata).times(2) + ELEMENT.times(elements);
            TopologySize { objects: 3, weight }
        };
        let machine_deployments = spec.workers.machine_deployments.iter().enumerate().map(|(position, class)| {
            let size = of_workers(&class.metadata, class.taints.len() + class.readiness_gates.len());
            (class.class.clone(), WorkerSize { size, check: check_weight(&class.health_check), position })
        });
        let machine_pools = spec.workers.machine_pools.iter().enumerate().map(|(position, class)| {
            let size = of_workers(&class.metadata, class.taints.len());
            (class.class.clone(), WorkerSize { size, check: None, position })
        });
        OwnSize {
            cluster,
            control_plane_check: check_weight(&control_plane.health_check),
            machine_deployments: machine_deployments.collect(),
            machine_pools: machine_pools.collect(),
            has_patches: !spec.patches.is_empty(),
        }
    }
}

/// The sizes of the parts of a class, with their templates.
#[derive(Clone, Debug)]
pub(crate) struct ClassSize {
    own: Arc<OwnSize>,
    /// The templates of infrastructure cluster and control plane.
    templates: Weight,
    /// The templates of the classes of workers, in their order.
    of_machine_deployments: Vec<Weight>,
    of_machine_pools: Vec<Weight>,
}

impl ClassSize {
    /// The sizes of the parts of an edited class; `weigh` returns the weights of templates, and zero for unknown ones.
    pub(crate) fn from_edited(class: &ClusterClass, weigh: impl FnMut(&TemplateRef) -> Weight) -> Self {
        Self::with(Arc::new(OwnSize::from_class(class)), class, weigh)
    }

    /// The sizes of the parts of a stored class, whose template-independent part is cached.
    pub(crate) fn from_class(class: &Class, weigh: impl FnMut(&TemplateRef) -> Weight) -> Self {
        Self::with(class.summary(OwnSize::from_class), class, weigh)
    }

    fn with(own: Arc<OwnSize>, class: &ClusterClass, mut weigh: impl FnMut(&TemplateRef) -> Weight) -> Self {
        let spec = &class.spec;
        let (control_plane, machines) = (&spec.control_plane, &spec.control_plane.machine_infrastructure.template_ref);
        let mut templates = weigh(&spec.infrastructure.template_ref) + weigh(&control_plane.template_ref);
        if machines.is_defined() {
            templates += weigh(machines);
        }
        let mut both = |bootstrap: &TemplateHolder, infrastructure: &TemplateHolder| {
            weigh(&bootstrap.template_ref) + weigh(&infrastructure.template_ref)
        };
        let deployments = spec.workers.machine_deployments.iter();
        let of_machine_deployments = deployments.map(|class| both(&class.bootstrap, &class.infrastructure)).collect();
        let pools = spec.workers.machine_pools.iter();
        let of_machine_pools = pools.map(|class| both(&class.bootstrap, &class.infrastructure)).collect();
        ClassSize { own, templates, of_machine_deployments, of_machine_pools }
    }

    /// The size of the topology of a Cluster of this class.
    pub(crate) fn topology(&self, cluster: &Cluster) -> TopologySize {
        let topology = &cluster.spec.topology;
        // The variables of patches are copied for each part.
        let own = &self.own;
        let seen = if own.has_patches { seen_by_patches(cluster) } else { Weight::default() };
        let mut all = own.cluster;
        all.weight += self.templates + seen.times(2);
        all.weight += metadata_weight(&topology.control_plane.metadata).times(2);
        all.weight += variables_weight(&topology.control_plane.variables.overrides);
        all.add_check(check_weight(&topology.control_plane.health_check).or(own.control_plane_check));
        for worker in &topology.workers.machine_deployments {
            let (WorkerSize { size, check, .. }, templates) =
                worker_set_size(&own.machine_deployments, &self.of_machine_deployments, &worker.class);
            all.add(size.objects, size.weight + templates + seen + metadata_weight(&worker.metadata).times(3));
            all.weight += variables_weight(&worker.variables.overrides).times(2);
            all.weight += ELEMENT.times(worker.taints.len() + worker.readiness_gates.len());
            all.add_check(check_weight(&worker.health_check).or(check));
        }
        for worker in &topology.workers.machine_pools {
            let (WorkerSize { size, .. }, templates) =
                worker_set_size(&own.machine_pools, &self.of_machine_pools, &worker.class);
            all.add(size.objects, size.weight + templates + seen + metadata_weight(&worker.metadata).times(3));
            all.weight += variables_weight(&worker.variables.overrides).times(2);
            all.weight += ELEMENT.times(worker.taints.len());
        }
        all
    }
}

/// The size of a worker set of a class, and the weight of its templates; zero if the class of workers does not exist.
fn worker_set_size(classes: &HashMap<String, WorkerSize>, templates: &[Weight], name: &str) -> (WorkerSize, Weight) {
    let size = classes.get(name).copied();
    let templates = size.and_then(|size| templates.get(size.position)).copied();
    (size.unwrap_or_default(), templates.unwrap_or_default())
}

/// The weight of the variables of one part's patches.
fn seen_by_patches(cluster: &Cluster) -> Weight {
    let metadata = &cluster.metadata;
    let metadata = [&metadata.labels, &metadata.annotations].map(|texts| Weight::from_texts(texts.iter()));
    variables_weight(&cluster.spec.topology.variables) + metadata.into_iter().sum::<Weight>() + BUILTIN
}

impl TopologySize {
    fn add(&mut self, objects: usize, weight: Weight) {
        self.objects += objects;
        self.weight += weight;
    }

    fn add_check(&mut self, check: Option<Weight>) {
        if let Some(weight) = check {
            self.add(1, weight);
        }
    }
}

impl Blueprint {
    /// The size of the topology.
    pub fn size(&self) -> TopologySize {
        let workers = self.machine_deployments.values().chain(self.machine_pools.values());
        let of_workers = workers.flat_map(|workers| [&workers.bootstrap, &workers.infrastructure]);
        let templates = [&self.infrastructure, &self.control_plane].into_iter().chain(&self.control_plane_machines);
        let weights: BTreeMap<(&str, &str), Weight> = templates
            .chain(of_workers)
            .map(|template| ((template.kind(), template.name()), template.weight()))
            .collect();
        let weigh =
            |reference: &TemplateRef| weights.get(&(&*reference.kind, &*reference.name)).copied().unwrap_or_default();
        ClassSize::from_class(&self.class, weigh).topology(&self.cluster)
    }
}

fn metadata_weight(metadata: &TopologyMetadata) -> Weight {
    Weight::from_texts(metadata.labels.iter()) + Weight::from_texts(metadata.annotations.iter())
}

fn variables_weight(variables: &[VariableValue]) -> Weight {
    let of_one = |variable: &VariableValue| {
        let value = variable.value.as_ref().map_or(Weight::default(), |value| Weight::from_text(value.get()));
        value + Weight { text: variable.name.len(), memory: variable.name.len() } + ELEMENT
    };
    variables.iter().map(of_one).sum()
}

fn check_weight(check: &HealthCheck) -> Option<Weight> {
    let conditions = check.checks.unhealthy_node_conditions.len() + check.checks.unhealthy_machine_conditions.len();
    check.is_defined().then(|| OBJECT + ELEMENT.times(conditions))
}

/// A limit on the size of topologies; larger ones are not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    /// Bytes of objects as text.
    text: usize,
    /// Bytes of memory that a computation may take.
    memory: usize,
}

impl SizeLimit {
    /// No limit.
    pub const NONE: SizeLimit = SizeLimit { text: usize::MAX, memory: usize::MAX };

    /// A limit on the bytes of all objects as text.
    pub const fn for_text(bytes: usize) -> Self {
        SizeLimit { text: bytes, ..SizeLimit::NONE }
    }

    /// Adds a limit on the memory of a computation.
    #[must_use]
    pub const fn with_memory(self, bytes: usize) -> Self {
        SizeLimit { memory: bytes, ..self }
    }

    /// Whether a topology may be computed.
    ///
    /// # Errors
    /// When it is too large.
    pub fn check(self, size: TopologySize) -> Result<(), TopologyTooLarge> {
        let TopologySize { objects, weight } = size;
        self.excess(weight)
            .map_or(Ok(()), |excess| Err(TopologyTooLarge { excess, made_by: MadeBy::Templates { objects } }))
    }

    /// Checks the size with the growth by patches.
    ///
    /// # Errors
    /// When it is too large.
    pub(crate) fn check_grown(self, size: TopologySize, grown: Weight) -> Result<(), TopologyTooLarge> {
        let excess = self.excess(size.weight + grown);
        excess.map_or(Ok(()), |excess| Err(TopologyTooLarge { excess, made_by: MadeBy::Patches }))
    }

    /// Checks the weight of all objects that the plans of a rollout write.
    ///
    /// # Errors
    /// When it is too large.
    pub(crate) fn check_written(self, written: Weight) -> Result<(), TopologyTooLarge> {
        let limit = SizeLimit { text: self.text.saturating_mul(WRITTEN), memory: self.memory.saturating_mul(WRITTEN) };
        let excess = limit.excess(written);
        excess.map_or(Ok(()), |excess| Err(TopologyTooLarge { excess, made_by: MadeBy::Rounds }))
    }

    fn excess(self, weight: Weight) -> Option<Excess> {
        let memory = memory(weight);
        match () {
            () if weight.text > self.text => Some(Excess::Text { sum: weight.text, limit: self.text }),
            () if memory > self.memory => Some(Excess::Memory { sum: memory, limit: self.memory }),
            () => None,
        }
    }
}

/// Maximum number of writes of each object of the largest topology in a rollout: one for each version of a chained
/// upgrade.
const WRITTEN: usize = 4;

/// The error of a topology that is too large to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{made_by} {excess}; use fewer worker sets, or smaller templates and variables{}", .excess.remedy())]
pub struct TopologyTooLarge {
    excess: Excess,
    made_by: MadeBy,
}

/// The cause of a topology's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MadeBy {
    Templates { objects: usize },
    Patches,
    Rounds,
}

/// A sum and the limit that it exceeds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    Text { sum: usize, limit: usize },
    Memory { sum: usize, limit: usize },
}

impl Excess {
    const fn remedy(self) -> &'static str {
        match self {
            Excess::Text { .. } => ", or raise the limit (--computation-limit)",
            Excess::Memory { .. } => ", or raise the memory limit of topologist",
        }
    }
}

impl fmt::Display for MadeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MadeBy::Templates { objects } => {
                write!(f, "the {} of the topology and their variables", counted(*objects, "object"))
            }
            MadeBy::Patches => f.write_str("the objects of the topology, enlarged by patches,"),
            MadeBy::Rounds => f.write_str("the objects that the rollout writes"),
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Text { sum, limit } => {
                write!(f, "come to {}, more than the limit of {}", rounded_up(*sum), rounded(*limit))
            }
            Excess::Memory { sum, limit } => {
                let (sum, limit) = (rounded_up(*sum), rounded(*limit));
                write!(f, "take {sum} of memory to compute, more than the limit of {limit}")
            }
        }
    }
}

/// Bytes in a unit with few digits, rounded up.
fn rounded_up(bytes: usize) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}

/// Bytes in a unit with few digits.
fn rounded(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests;
