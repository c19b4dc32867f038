//! `simulate`: a rollout on a virtual clock.
//!
//! ```text
//! PATH or --live ─► State ─┐ for each Cluster, on all processors:
//!                          ├─ Simulation: run ─► change ─► run ─► ClusterTimeline ─► Report: groups of the same timeline
//! --to ───────────► Change ┘                                                          ├─► text.rs, json.rs
//!                                                                                     └─► page.rs, with chart.rs and palette.rs
//! ```

mod chart;
mod json;
mod page;
mod palette;
mod report;
mod text;

use self::page::PageContext;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use self::report::{SimulationReport, Stuck, span};
use super::args::{ObjectFindingFlags, OutputFormat, SimulateArgs};
use super::atomic_file;
use super::choice;
use super::empty::{self, ExpectedInput};
use super::extensions::CommandExtensions;
use super::files::Undecoded;
use super::live::{ClusterConnection, Reach};
use super::machines::timings;
use super::output;
use super::progress_bar::{OF_CLUSTERS, ProgressBar};
use super::rollout::RolloutSide;
use super::validate::{report_denials, report_problems};
use engine::file_review::ReviewSubject;
use engine::topology::equivalent_clusters::{EquivalentClusters, ungrouped};
use engine::topology::plan::TopologySimulator;
use golang::calendar::Moment;
use machines::lifecycle::settings::{InjectedFailure, TimingsFile};
use machines::lifecycle::{GroupKind, MachineSettings, ObjectId};
use model::hub::{Object, ObjectKey, paths};
use model::world::{Facts, Found, Record};
use schema::budget::Stop;
use simulation::equivalent_clusters::{equivalent, renamed};
use simulation::timeline::{ClusterTimeline, Timeline};
use simulation::{End, Simulation, StuckReason};

/// Simulates a rollout, or the rollout of a change.
pub(super) fn run(options: &SimulateArgs) -> Result<ExitCode> {
    let TimingsFile { timings, failures, named: fixed } = timings(options.timings.as_deref())?;
    for (file, flag) in [(&options.html, "--html"), (&options.objects, "--objects")] {
        file.as_deref().map_or(Ok(()), |file| check_folder(file, flag))?;
    }
    let fails = !failures.is_empty();
    let durations = if fixed.is_empty() { text::Durations::Default } else { text::Durations::File };
    let runtime_hooks = options.rules.feature_gates.runtime_sdk;
    let sides = SimulationSides::read(options)?;
    let extensions = sides.extensions(options)?;
    // Requests of hooks hold times. Objects that are live now may be younger than a recording.
    let recorded = extensions.as_ref().filter(|_| !options.live).and_then(|extensions| extensions.recorded_start());
    let start = options.now.or(recorded).unwrap_or_else(Timestamp::now);
    let began = Some(Moment { seconds: start.as_second(), nanos: 0 });
    let settings = MachineSettings {
        timings,
        fixed,
        failures,
        runtime_hooks,
        began,
        plays_managed: true,
        ..MachineSettings::default()
    };
    let sides = sides.with_extensions(extensions.as_ref());
    if let Some(code) = sides.unusable(options)? {
        return Ok(ExitCode::from(code));
    }
    if let Some(extension) =
        engine::topology::plan::updater(&sides.after.as_ref().unwrap_or(&sides.before).case().objects())
    {
        output::message(format_args!(
            "the extension {extension} may update machines in place; this simulation replaces them"
        ))?;
    }
    let undecoded = sides.undecoded();
    for reason in &undecoded {
        output::message(reason)?;
    }
    for failure in sides.unused(&settings.failures) {
        output::message(format_args!("no Cluster is named {failure:?} (failures in --timings)"))?;
    }
    let outcome = simulate(&sides, &settings, options)?;
    for reason in extensions.map(|extensions| extensions.finish(Some(start))).transpose()?.unwrap_or_default() {
        output::message(reason)?;
    }
    let Some(SimulationOutcome { timeline, stuck, objects }) = outcome else {
        return Ok(ExitCode::from(1));
    };
    for (number, most) in never_made(&settings.failures, &timeline) {
        output::message(format_args!(
            "no machine has the number {number} (failures in --timings): there were at most {most} in a Cluster"
        ))?;
    }
    if let Some(file) = &options.objects {
        atomic_file::write(file, &stream(&objects)?, 0o666)
            .with_context(|| format!("cannot write {} (--objects)", file.display()))?;
    }
    let report = SimulationReport::from_timeline(&timeline, &stuck, fails);
    if let Some(file) = &options.html {
        let context = PageContext { durations, start, classes: sides.classes(timeline.clusters.keys()) };
        atomic_file::write(file, &page::page(&report, &context), 0o666)
            .with_context(|| format!("cannot write {} (--html)", file.display()))?;
    }
    match options.output {
        OutputFormat::Json => output::json(&json::value(&report))?,
        OutputFormat::Text => output::text(&text::text(&report, options.all, durations))?,
    }
    Ok(ExitCode::from(u8::from(report.stuck > 0 || !undecoded.is_empty())))
}

/// Both sides; there is only one without `--to`.
struct SimulationSides {
    before: RolloutSide,
    after: Option<RolloutSide>,
    /// The cluster that they were read from.
    connection: Option<Arc<ClusterConnection>>,
}

impl SimulationSides {
    fn read(options: &SimulateArgs) -> Result<Self> {
        if options.live {
            let after = RolloutSide::read(&options.to, &[], &options.input, &options.rules)?;
            let connection = ClusterConnection::open(options.kubeconfig.as_deref())?;
            let (before, after) = after.with_cluster(&connection, Reach::Machines)?;
            let after = (!options.to.is_empty()).then_some(after);
            return Ok(SimulationSides { before, after, connection: Some(Arc::new(connection)) });
        }
        let before = RolloutSide::read(&options.paths, &[], &options.input, &options.rules)?;
        let after = match options.to.is_empty() {
            true => None,
            false => Some(RolloutSide::after(&before, &options.to)?),
        };
        Ok(SimulationSides { before, after, connection: None })
    }

    /// The extensions that are called.
    fn extensions(&self, options: &SimulateArgs) -> Result<Option<Arc<CommandExtensions>>> {
        let last = self.after.as_ref().unwrap_or(&self.before).case();
        CommandExtensions::open(&options.extensions.with(&options.hooks), || last.objects(), self.connection.as_deref())
    }

    fn with_extensions(self, extensions: Option<&Arc<CommandExtensions>>) -> Self {
        let served = |side: RolloutSide| side.with_extensions(extensions.cloned().map(|extensions| extensions as _));
        SimulationSides { before: served(self.before), after: self.after.map(served), ..self }
    }

    /// Prints why the input cannot be used, and returns the exit code in that case.
    fn unusable(&self, options: &SimulateArgs) -> Result<Option<u8>> {
        let sides = [Some(&self.before), self.after.as_ref()];
        let mut has_clusters = false;
        for side in sides.into_iter().flatten() {
            if let Some(code) = report_problems(side.case())? {
                return Ok(Some(code));
            }
            let subjects = side.subjects();
            let mut clusters = subjects.iter().filter_map(ReviewSubject::cluster);
            has_clusters |= clusters.any(|cluster| cluster.has_topology());
        }
        match has_clusters {
            true => Ok(None),
            false => Ok(empty::check_found(
                ExpectedInput::Simulated,
                self.after.as_ref().unwrap_or(&self.before).case(),
                &options.input,
            )?),
        }
    }
}

impl SimulationSides {
    /// Why Clusters of a running cluster are not simulated, and classes are unknown.
    fn undecoded(&self) -> Vec<String> {
        let all = self.before.case().undecoded();
        all.map(|Undecoded { kind, key, reason }| format!("{} {key} does not decode: {reason}", kind.name())).collect()
    }

    /// The Clusters that --cluster and --selector choose; `None` for all.
    fn wanted(&self, options: &SimulateArgs) -> Result<Option<BTreeSet<ObjectKey>>> {
        if options.clusters.is_empty() && options.selector.is_none() {
            return Ok(None);
        }
        let facts = |side: &RolloutSide| side.facts(&side.subjects());
        let before = facts(&self.before);
        let after = self.after.as_ref().map_or_else(|| before.clone(), facts);
        let undecoded = BTreeSet::new();
        let chosen = choice::clusters([&before, &after], &undecoded, &options.clusters, options.selector.as_ref())?;
        Ok(Some(chosen.into_iter().collect()))
    }

    /// The classes of Clusters, before and after the change.
    fn classes<'k>(&self, clusters: impl Iterator<Item = &'k ObjectKey>) -> BTreeSet<ObjectKey> {
        let sides = [Some(&self.before), self.after.as_ref()];
        let facts: Vec<_> = sides.into_iter().flatten().map(|side| side.facts(&side.subjects())).collect();
        let class = |key: &ObjectKey, facts: &Facts| match facts.cluster(key) {
            Found::Yes(cluster) => cluster.class_key(),
            Found::Absent | Found::NotAsked | Found::Unreadable(_) => None,
        };
        clusters.flat_map(|key| facts.iter().filter_map(|facts| class(key, facts))).collect()
    }

    /// The Clusters that failures name and that do not exist.
    fn unused<'f>(&self, failures: &'f [InjectedFailure]) -> Vec<&'f str> {
        // Subjects get their defaults each time, which is work for a fleet.
        if failures.iter().all(|failure| failure.cluster.is_none()) {
            return Vec::new();
        }
        let subjects: Vec<ReviewSubject<'_>> =
            [Some(&self.before), self.after.as_ref()].into_iter().flatten().flat_map(RolloutSide::subjects).collect();
        let keys: Vec<ObjectKey> =
            subjects.iter().filter_map(ReviewSubject::cluster).map(|cluster| cluster.key()).collect();
        let is_unused = |failure: &&InjectedFailure| !keys.iter().any(|key| failure.is_of(key));
        failures.iter().filter(is_unused).filter_map(|failure| failure.cluster.as_deref()).collect()
    }
}

/// The numbers of machines of failures that no Cluster reaches, and the maximum number of machines of a Cluster.
fn never_made(failures: &[InjectedFailure], timeline: &Timeline) -> Vec<(u32, usize)> {
    let unused = |failure: &InjectedFailure| {
        let clusters = timeline.clusters.iter().filter(|(key, _)| failure.is_of(key));
        let (number, most) = (failure.machine?, clusters.map(|(_, timeline)| timeline.machines_ever).max()?);
        (usize::try_from(number).is_ok_and(|number| number > most)).then_some((number, most))
    };
    failures.iter().filter_map(unused).collect()
}

/// Fails early for a file in a folder that does not exist.
fn check_folder(file: &Path, flag: &str) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "cannot write {} ({flag}): {} is not a directory", file.display(), folder.display());
    Ok(())
}

/// Objects as one YAML stream.
fn stream(objects: &[Arc<Object>]) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string((**object).as_ref())?);
    }
    Ok(text)
}

/// The timeline of each Cluster, and why some are stuck; `None` when an object of the files is denied.
///
/// Clusters do not affect each other, so each has a separate simulation, or that of an equivalent one.
fn simulate(
    sides: &SimulationSides,
    settings: &MachineSettings,
    options: &SimulateArgs,
) -> Result<Option<SimulationOutcome>> {
    // What a cluster has stored is not judged again.
    if (sides.connection.is_none() && has_denials(&sides.before)?)
        || sides.after.as_ref().map_or(Ok(false), has_denials)?
    {
        return Ok(None);
    }
    let wanted = sides.wanted(options)?;
    let before = SimulationInputs::from_side(&sides.before);
    let change = sides.after.as_ref().map(|side| SimulatedChange {
        deletes: sides.connection.is_none(),
        ..SimulatedChange::between(&sides.before, side)
    });
    let start = settings.began.unwrap_or(Moment { seconds: 0, nanos: 0 });
    let keeps_objects = options.objects.is_some();
    let stop = options.time_limit.map_or_else(Stop::never, |limit| {
        let began = Instant::now();
        Stop::when(move || began.elapsed() >= limit)
    });
    let run = ClusterSimulations { before, change, settings, start, limit: options.limit, stop, keeps_objects };
    let mut keys = run.keys();
    keys.retain(|key| wanted.as_ref().is_none_or(|wanted| wanted.contains(key)));
    // Requests to extensions contain the names of Clusters.
    let is_alone = keeps_objects || sides.before.case().extensions().is_some();
    let groups = if is_alone {
        ungrouped(keys)
    } else {
        let fold = |side: &RolloutSide| side.fold(&side.facts(&side.subjects()));
        equivalent(keys, &fold(&sides.before), sides.after.as_ref().map(fold).as_ref(), settings)
    };
    let (mut clusters, mut stuck, mut objects) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (key, end) in run.all(&groups)? {
        if let Some(reason) = end.stuck_before {
            output::message(format_args!("Cluster {key} is not rolled out before the change: {reason}"))?;
        }
        clusters.extend(end.timeline.map(|timeline| (key.clone(), timeline)));
        stuck.extend(end.stuck.map(|end| (key, end)));
        objects.extend(end.objects);
    }
    Ok(Some(SimulationOutcome { timeline: Timeline::merge(clusters), stuck, objects }))
}

/// The timeline, the stuck Clusters, and the final objects if they are requested.
struct SimulationOutcome {
    timeline: Timeline,
    stuck: BTreeMap<ObjectKey, Stuck>,
    objects: Vec<Arc<Object>>,
}

/// The files of one side, prepared for simulations.
struct SimulationInputs {
    /// Without Clusters: each is created by its simulation, with the identity that it has there.
    topologies: TopologySimulator,
    classes: Vec<Object>,
    clusters: BTreeMap<ObjectKey, Object>,
    /// The objects of Clusters that run already.
    running: BTreeMap<ObjectKey, Vec<Arc<Object>>>,
}

/// Prints the denied objects of a side; returns whether there are any.
fn has_denials(side: &RolloutSide) -> Result<bool> {
    let subjects = side.subjects();
    report_denials(side, &subjects, &side.facts(&subjects), &ObjectFindingFlags::default())
}

impl SimulationInputs {
    fn from_side(side: &RolloutSide) -> Self {
        let subjects = side.subjects();
        let facts = side.facts(&subjects);
        let mut topologies = side.fold(&facts);
        let keys: Vec<ObjectKey> = topologies.facts().cluster_keys().cloned().collect();
        keys.iter().for_each(|key| topologies.facts_mut().remove_cluster(key));
        if let Some(objects) = topologies.facts_mut().objects_mut() {
            let clusters: Vec<_> = objects.iter().filter(|one| is_cluster(one)).map(|one| one.reference()).collect();
            clusters.iter().for_each(|cluster| objects.remove(cluster));
        }
        let classes = subjects.iter().filter_map(ReviewSubject::class);
        let classes = classes.map(|(_, class)| Object::try_from(class).unwrap_or_default()).collect();
        let clusters = subjects.iter().filter_map(ReviewSubject::cluster);
        let clusters = clusters.filter(Object::has_topology);
        let mut clusters: BTreeMap<_, _> = clusters.map(|cluster| (cluster.key(), cluster)).collect();
        let mut running = BTreeMap::new();
        for (key, cluster) in clusters.iter_mut().filter(|(_, cluster)| !cluster.uid().is_empty()) {
            let objects = take_objects(&mut topologies, key);
            if objects.is_empty() {
                as_new(cluster);
            } else {
                running.insert(key.clone(), objects);
            }
        }
        SimulationInputs { topologies, classes, clusters, running }
    }
}

/// A Cluster that was exported without its objects, as its user would create it.
fn as_new(cluster: &mut Object) {
    let of_metadata = ["uid", "resourceVersion", "generation", "creationTimestamp", "finalizers", "managedFields"];
    let of_metadata = of_metadata.map(|name| format!("metadata.{name}"));
    let of_controllers = [
        "status",
        paths::INFRASTRUCTURE_REF,
        paths::cluster::CONTROL_PLANE_REF,
        paths::cluster::CONTROL_PLANE_ENDPOINT,
    ];
    for path in of_metadata.iter().map(String::as_str).chain(of_controllers) {
        cluster.remove(path);
    }
}

/// Takes the objects of a Cluster, which are facts only of its simulation.
fn take_objects(topologies: &mut TopologySimulator, cluster: &ObjectKey) -> Vec<Arc<Object>> {
    let Some(objects) = topologies.facts_mut().objects_mut() else { return Vec::new() };
    let taken: Vec<Arc<Object>> = objects.of_cluster(cluster).cloned().collect();
    taken.iter().for_each(|object| objects.remove(&object.reference()));
    taken
}

/// Where extensions are called, Clusters are among the objects.
fn is_cluster(object: &Object) -> bool {
    GroupKind::for_object(object).is_core("Cluster")
}

/// The changes on the other side.
struct SimulatedChange {
    state: SimulationInputs,
    /// Objects that are new or have changed, but for Clusters.
    objects: Vec<Object>,
    /// Whether Clusters that the other side lacks are deleted.
    deletes: bool,
}

impl SimulatedChange {
    fn between(before: &RolloutSide, after: &RolloutSide) -> Self {
        let (old, new) = (before.case().objects(), after.case().objects());
        let is_new = |object: &Object| {
            let known = old.in_any_version(object.group(), object.kind(), &object.key());
            known.is_none_or(|known| **known != *object)
        };
        let others = new.iter().filter(|object| !is_cluster(object));
        let objects = others.map(|object| Object::clone(object)).filter(is_new).collect();
        SimulatedChange { state: SimulationInputs::from_side(after), objects, deletes: true }
    }

    /// Makes the change for one Cluster.
    fn make(&self, key: &ObjectKey, simulation: &mut Simulation) -> Result<()> {
        for object in &self.objects {
            simulation.put(object)?;
        }
        let (from, into) = (self.state.topologies.facts(), simulation.topologies_mut().facts_mut());
        for class_key in from.class_keys() {
            if let Found::Yes(class) = from.class(class_key) {
                into.put_compiled(class_key.clone(), Record::Readable(class));
            }
        }
        if let Some(cluster) = self.state.clusters.get(key) {
            return put(simulation, cluster);
        }
        if self.deletes {
            simulation.delete(&ObjectId::core("Cluster", &key.namespace, &key.name));
        }
        Ok(())
    }
}

/// The outcome for one Cluster.
struct ClusterOutcome {
    timeline: Option<ClusterTimeline>,
    stuck: Option<Stuck>,
    stuck_before: Option<StuckReason>,
    objects: Vec<Arc<Object>>,
}

impl ClusterOutcome {
    /// A Cluster that converged.
    fn well(timeline: ClusterTimeline) -> Self {
        ClusterOutcome { timeline: Some(timeline), stuck: None, stuck_before: None, objects: Vec::new() }
    }
}

/// Simulations of Clusters.
struct ClusterSimulations<'a> {
    before: SimulationInputs,
    change: Option<SimulatedChange>,
    settings: &'a MachineSettings,
    start: Moment,
    limit: Duration,
    /// Ends all simulations.
    stop: Stop,
    keeps_objects: bool,
}

impl ClusterSimulations<'_> {
    /// The Clusters of either side.
    fn keys(&self) -> Vec<ObjectKey> {
        let of_change = self.change.iter().flat_map(|change| change.state.clusters.keys());
        let keys: BTreeSet<&ObjectKey> = self.before.clusters.keys().chain(of_change).collect();
        keys.into_iter().cloned().collect()
    }

    /// Simulates Clusters, on all processors.
    fn all(&self, clusters: &[EquivalentClusters]) -> Result<BTreeMap<ObjectKey, ClusterOutcome>> {
        let number = clusters.iter().map(|group| 1 + group.others.len()).sum();
        let template = if number == 1 { "{spinner} {msg} simulated" } else { OF_CLUSTERS };
        let (next, progress) = (AtomicUsize::new(0), ProgressBar::new(number, template, Instant::now()));
        let work = || {
            let mut ends = Vec::new();
            while let Some(group) = clusters.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.each(group, &progress) {
                    Ok(some) => ends.extend(some.into_iter().map(Ok)),
                    Err(error) => ends.push(Err(error)),
                }
            }
            ends
        };
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(clusters.len());
        thread::scope(|scope| {
            let shares: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let shares =
                shares.into_iter().map(|share| share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            shares.flatten().collect()
        })
    }

    /// Simulates one Cluster; equivalent ones get its timeline with their names. Each stuck Cluster gets its own
    /// reason.
    fn each(&self, group: &EquivalentClusters, progress: &ProgressBar) -> Result<Vec<(ObjectKey, ClusterOutcome)>> {
        let EquivalentClusters { first, others } = group;
        let end = self.one(first, progress)?;
        progress.add(1);
        let mut ends = Vec::with_capacity(1 + others.len());
        for other in others {
            let known = (end.stuck.is_none() && end.stuck_before.is_none()).then_some(end.timeline.as_ref()).flatten();
            ends.push(match known.and_then(|known| renamed(known, &first.name, &other.name)) {
                Some(timeline) => (other.clone(), ClusterOutcome::well(timeline)),
                None => (other.clone(), self.one(other, progress)?),
            });
            progress.add(1);
        }
        ends.push((first.clone(), end));
        Ok(ends)
    }

    /// Runs up to the start of the output. Before a change, the rollout has an end there.
    fn begin(
        &self,
        key: &ObjectKey,
        simulation: &mut Simulation,
        on_progress: impl FnMut(Moment),
    ) -> Result<Option<End>> {
        let Some(cluster) = self.before.clusters.get(key) else { return Ok(None) };
        let end = if let Some(objects) = self.before.running.get(key) {
            adopt(simulation, cluster, objects)?;
            // The controllers see what there is, before the change comes and before any time passes.
            simulation.run(Duration::ZERO, |_| {});
            None
        } else {
            put(simulation, cluster)?;
            if self.change.is_none() {
                return Ok(None);
            }
            Some(simulation.run(self.limit, on_progress))
        };
        simulation.restart();
        Ok(end)
    }

    /// Simulates one Cluster.
    fn one(&self, key: &ObjectKey, progress: &ProgressBar) -> Result<ClusterOutcome> {
        let on_progress = |now: Moment| progress.set_message(|| span(now.seconds - self.start.seconds));
        let simulation = Simulation::new(self.before.topologies.clone(), self.settings.clone(), self.start);
        let mut simulation = simulation.until(self.stop.clone());
        for class in &self.before.classes {
            simulation.put(class)?;
        }
        let end = self.begin(key, &mut simulation, on_progress)?;
        let stuck_before = end.and_then(|end| reason(end, key));
        if let Some(change) = &self.change {
            change.make(key, &mut simulation)?;
        }
        let end = simulation.run(self.limit, on_progress);
        // More time does not help a topology that cannot be computed.
        let ran_out = simulation.ran_out && simulation.is_computed(key);
        let stuck = reason(end, key).map(|reason| Stuck { reason, ran_out });
        let objects = if self.keeps_objects { objects_of(key, &simulation) } else { Vec::new() };
        Ok(ClusterOutcome { timeline: simulation.timeline.clusters.remove(key), stuck, stuck_before, objects })
    }
}

/// A Cluster and its objects, without those in its workload cluster.
fn objects_of(key: &ObjectKey, simulation: &Simulation) -> Vec<Arc<Object>> {
    let all = simulation.objects();
    let cluster = all.get(&ObjectId::core("Cluster", &key.namespace, &key.name)).cloned();
    let others = all.everything_of(key).into_iter();
    cluster.into_iter().chain(others.filter(|object| !is_cluster(object))).collect()
}

fn reason(end: End, key: &ObjectKey) -> Option<StuckReason> {
    match end {
        End::Converged => None,
        End::Stuck(mut stuck) => stuck.remove(key),
    }
}

fn adopt(simulation: &mut Simulation, cluster: &Object, objects: &[Arc<Object>]) -> Result<()> {
    simulation.adopt(cluster, objects).map_err(|error| anyhow::anyhow!("Cluster {}: {error}", cluster.key()))
}

fn put(simulation: &mut Simulation, cluster: &Object) -> Result<()> {
    simulation.put_cluster(cluster).map_err(|error| anyhow::anyhow!("Cluster {}: {error}", cluster.key()))
}
