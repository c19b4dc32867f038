//! What an input costs, as a multiple of what it may.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peakmem_alloc::PeakMemAllocTrait as _;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Oversize, Phase, RawRequest, Verdict};
use topologist::budget::Stop;
use topologist::hub::{ClusterClass, Kind, ObjectKey};
use topologist::template::{Functions, RenderLimits, Template};
use topologist::topology::class_status;
use topologist::wire::{Decode, WireVersion};
use topologist::world::{Facts, Found, Record};

use crate::genes::Input;
use crate::{ALLOCATOR, PEAK};

/// Multiples of the bounds: 100 ms of thread time and 20 µs for each KiB of input, or 500 ms for a Cluster whose class
/// is hostile; 64 MiB of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub cpu: f64,
    pub memory: f64,
    /// Bytes that were allocated for each byte of input.
    pub allocated: f64,
    /// The work that took the most time.
    pub slowest: &'static str,
}

impl Cost {
    pub fn exceeds(self, (cpu, memory): (f64, f64)) -> bool {
        self.cpu > cpu || self.memory > memory
    }

    fn worst(self, other: Cost) -> Cost {
        let slowest = if self.cpu > other.cpu { self } else { other };
        let (memory, allocated) = (self.memory.max(other.memory), self.allocated.max(other.allocated));
        Cost { memory, allocated, ..slowest }
    }
}

const MEMORY: f64 = 64.0 * 1024.0 * 1024.0;
const OF_A_CLUSTER: f64 = 0.5;

/// Work ends here, whatever it is: more says nothing new.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 3 });

/// The seconds that an object of so many bytes may take.
fn seconds(bytes: usize) -> f64 {
    0.1 + 20e-6 * bytes as f64 / 1024.0
}

/// What a part of the work costs that may take so many seconds.
fn measured<R>(slowest: &'static str, bytes: usize, allowed: f64, work: impl FnOnce(&Stop) -> R) -> (R, Cost) {
    let end = Instant::now() + PATIENCE;
    let stop = Stop::when(move || Instant::now() > end);
    PEAK.reset_peak_memory();
    let (time, given) = (thread_time(), ALLOCATOR.total_allocated());
    let result = work(&stop);
    let time = thread_time() - time;
    let peak = PEAK.get_peak_memory();
    let allocated = (ALLOCATOR.total_allocated() - given) as f64 / bytes.max(1) as f64;
    (result, Cost { cpu: time / allowed, memory: peak as f64 / MEMORY, allocated, slowest })
}

fn thread_time() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The verdict of the validating or the mutating end point on a new object.
fn verdict(phase: Phase, kind: Kind, text: &str, facts: &Arc<Facts>, stop: &Stop) -> Verdict {
    let request = RawRequest {
        phase,
        kind,
        version: WireVersion::V1Beta2,
        operation: Operation::Create,
        name: "one",
        object: Some(text),
        old_object: None,
        old_version: WireVersion::V1Beta2,
    };
    match DecodedRequest::decode(&request) {
        Ok(question) => question.settle_until(facts, &AdmissionSettings::default(), stop),
        Err(verdict) => *verdict,
    }
}

/// The verdict, once its message was written.
fn answered(verdict: Verdict) -> Verdict {
    let _ = verdict.message();
    verdict
}

/// A class that is reviewed, stored whatever the verdict, and used by a Cluster, whose review is measured against the
/// bound of hostile classes if the class was allowed.
pub fn of(input: &Input) -> Cost {
    let (class, cluster) = (input.class.to_string(), input.cluster.to_string());
    let none = Arc::new(Facts::default());
    let (reviewed, mut cost) = measured("review of the class", class.len(), seconds(class.len()), |stop| {
        verdict(Phase::Default, Kind::ClusterClass, &class, &none, stop);
        answered(verdict(Phase::Validate, Kind::ClusterClass, &class, &none, stop))
    });
    let is_allowed = reviewed.is_allowed();
    drop(reviewed);
    // What is stored although it holds too much is not read.
    let is_oversize = Oversize::find(&class).is_some();
    let (text, status) = measured("status of the class", class.len(), seconds(class.len()), |_| match is_oversize {
        true => Cow::Borrowed(&*class),
        false => class_status::with_status(&class),
    });
    let (facts, stored) = measured("class in the index", text.len(), seconds(text.len()), |_| {
        let mut facts = Facts::default();
        let unreadable = |reason: String| Record::Unreadable { reason: reason.into(), class: None };
        let record = match Oversize::find(&text) {
            Some(oversize) => unreadable(oversize.reason()),
            None => ClusterClass::decode(WireVersion::V1Beta2, &text).map_or_else(unreadable, Record::readable),
        };
        facts.put_class(ObjectKey::new("ns", "class"), record);
        Arc::new(facts)
    });
    cost = cost.worst(status).worst(stored);
    let can_be_used = matches!(facts.class(&ObjectKey::new("ns", "class")), Found::Yes(_));
    if is_allowed && can_be_used {
        let (_, used) = measured("review of the Cluster", cluster.len() + text.len(), OF_A_CLUSTER, |stop| {
            verdict(Phase::Default, Kind::Cluster, &cluster, &facts, stop);
            answered(verdict(Phase::Validate, Kind::Cluster, &cluster, &facts, stop))
        });
        cost = cost.worst(used);
    }
    drop(facts);
    let ((), rendered) =
        measured("template", input.template.len() + cluster.len(), seconds(input.template.len()), |_| {
            render(&input.template, &input.cluster);
        });
    cost.worst(rendered)
}

fn render(text: &str, data: &Value) {
    if let Ok(template) = Template::parse("t", text, Functions::Sprig) {
        let _ = template.render_value(data, RenderLimits::default());
    }
}
