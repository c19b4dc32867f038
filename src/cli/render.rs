//! `render`: every object that topologies ask for.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::args::Render;
use super::empty::{self, Wanted};
use super::hints;
use super::rollout::{self, Side};
use super::validate::{complain, denials};
use crate::hub::Object;
use crate::topology::desired::{Desired, DesiredObject};
use crate::topology::patches::Trace;
use crate::topology::plan;

/// Prints the objects of every Cluster, or of one.
pub(super) fn run(options: &Render) -> Result<ExitCode> {
    let side = Side::read(&options.paths, &[], &options.input, &options.rules)?;
    let subjects = side.subjects();
    if let Some(code) = complain(side.case())? {
        return Ok(ExitCode::from(code));
    }
    let facts = side.facts(&subjects);
    let denials = denials(&subjects, &facts, side.settings());
    for denial in &denials {
        writeln!(io::stderr(), "topologist: denied: {denial}")?;
    }
    if !denials.is_empty() {
        return Ok(ExitCode::from(1));
    }
    let fold = side.fold(&facts);
    let clusters = rollout::clusters(fold.facts(), options.cluster.as_ref())?;
    if clusters.is_empty()
        && let Some(code) = empty::settle(Wanted::Rendered, side.case(), &options.input)?
    {
        return Ok(ExitCode::from(code));
    }
    let mut objects = Vec::new();
    let mut has_failed = false;
    for cluster in clusters {
        for reason in hints::unknown_variables_of(&cluster, fold.facts()) {
            writeln!(io::stderr(), "topologist: Cluster {cluster}: incomplete: {reason}")?;
        }
        match fold.compute(&cluster) {
            Ok(computation) => {
                for note in notes(&computation.warnings, &computation.trace) {
                    writeln!(io::stderr(), "topologist: Cluster {cluster}: {note}")?;
                }
                for object in all(computation.desired) {
                    objects.push(Value::from(plan::sent(&object)?));
                }
            }
            Err(failure) => {
                has_failed = true;
                let failure = hints::explained(&failure, fold.facts());
                writeln!(io::stderr(), "topologist: Cluster {cluster}: {failure}")?;
            }
        }
    }
    super::print(&super::default::written(&objects, options.output)?)?;
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Notes about a topology that can be computed.
fn notes(warnings: &[String], trace: &Trace) -> Vec<String> {
    let undefined = trace.undefined.iter().map(ToString::to_string);
    let not_asked = trace.not_asked.iter().map(|call| format!("not complete: {call}"));
    warnings.iter().cloned().chain(undefined).chain(not_asked).collect()
}

/// The objects in the order in which they are applied (RS-12).
fn all(desired: Desired) -> Vec<Object> {
    let control_plane = desired.control_plane;
    let mut all: Vec<Option<DesiredObject>> = vec![
        Some(desired.infrastructure),
        control_plane.health_check,
        control_plane.machines,
        Some(control_plane.control_plane),
    ];
    for worker in desired.machine_deployments.into_iter().chain(desired.machine_pools) {
        all.extend([Some(worker.infrastructure), Some(worker.bootstrap), Some(worker.worker), worker.health_check]);
    }
    all.into_iter().flatten().map(|one| one.object).collect()
}
