//! Charts as SVG: positions along the time are percentages, so that a chart fits every width and its texts keep their size.

use std::collections::BTreeMap;

use super::palette::{Palette, escaped};
use super::report::{Wait, span, waits_of};
use crate::simulation::timeline::{ClusterTimeline, MachineSpan};

/// Heights in pixels.
const AXIS: usize = 22;
const TITLE: usize = 18;
const BAR: usize = 10;
const LANE: usize = 13;
const WAIT: usize = 27;
/// How much of a name is written above the bar of a wait.
const SHOWN: usize = 56;
const STEPS: usize = 60;
/// How many parts the axis of time has at most.
const TICKS: i64 = 5;

/// A time as a position.
struct Scale {
    seconds: i64,
}

impl Scale {
    fn of(seconds: i64) -> Self {
        Scale { seconds: seconds.max(1) }
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of a rollout")]
    fn percent(&self, t: i64) -> String {
        format!("{:.2}%", 100.0 * t.clamp(0, self.seconds) as f64 / self.seconds as f64)
    }

    fn rect(&self, class: &str, from: i64, until: i64, y: usize, height: usize) -> String {
        let width = self.percent((until - from).max(0));
        format!(
            "<rect class=\"{class}\" x=\"{}\" width=\"{width}\" y=\"{y}\" height=\"{height}\"/>",
            self.percent(from)
        )
    }

    /// Lines at even times, with the times below each other.
    fn axis(&self, height: usize) -> String {
        let step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 604_800]
            .into_iter()
            .find(|step| self.seconds / step <= TICKS)
            .unwrap_or(self.seconds);
        let mut text = String::new();
        for t in (0..=self.seconds).step_by(usize::try_from(step).unwrap_or(1)) {
            let (x, end) = (self.percent(t), t * 10 > self.seconds * 9);
            let anchor = if t == 0 {
                "start"
            } else if end {
                "end"
            } else {
                "middle"
            };
            text += &format!("<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"{AXIS}\" y2=\"{height}\"/>");
            text += &format!("<text class=\"axis\" x=\"{x}\" y=\"14\" text-anchor=\"{anchor}\">{}</text>", span(t));
        }
        text
    }
}

fn svg(class: &str, label: &str, height: usize, content: &str) -> String {
    format!(
        "<svg class=\"{class}\" role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"{height}\">{content}</svg>\n",
        escaped(label)
    )
}

/// The bar of a Cluster in the list of all, of which `seconds` is the longest.
pub(super) fn bar(timeline: &ClusterTimeline, is_stuck: bool, seconds: i64) -> String {
    let scale = Scale::of(seconds);
    let (class, word) = if is_stuck { ("stuck", "stuck") } else { ("done", "complete") };
    let title = format!("<title>{word} after {}</title>", span(timeline.last));
    let until = if is_stuck { seconds } else { timeline.last.max(1) };
    let mut content = format!("<g>{title}{}</g>", scale.rect(class, 0, until, 2, 12));
    for (from, until) in merged(timeline, seconds) {
        let title = format!("something waits from {} to {}", span(from), span(until));
        content += &format!("<g><title>{title}</title>{}</g>", scale.rect("wait", from, until, 2, 12));
    }
    svg("fleet", word, 16, &content)
}

/// The times in which anything waited.
fn merged(timeline: &ClusterTimeline, seconds: i64) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> =
        timeline.held.iter().map(|span| (span.from, span.until.unwrap_or(seconds))).filter(|(a, b)| a < b).collect();
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, until) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => merged.push((from, until)),
        }
    }
    merged
}

/// The machines of a Cluster: a bar each from made to gone, by owner, and below them what waited.
pub(super) fn machines(timeline: &ClusterTimeline, seconds: i64, palette: &Palette) -> String {
    let scale = Scale::of(seconds);
    let (mut content, mut y) = (String::new(), AXIS + 4);
    for (owner, machines) in owners(timeline) {
        content += &format!("<text class=\"owner\" x=\"0\" y=\"{}\">{}</text>", y + 12, escaped(&owner));
        y += TITLE;
        let mut lanes: Vec<i64> = Vec::new();
        for (name, machine) in machines {
            let lane = lane(&mut lanes, machine);
            content += &of_machine(name, machine, y + lane * LANE, &scale, palette);
        }
        y += lanes.len() * LANE + 6;
    }
    let waits = waits_of(timeline);
    if !waits.is_empty() {
        content += &format!("<text class=\"owner\" x=\"0\" y=\"{}\">waiting</text>", y + 12);
        y += TITLE;
    }
    for wait in &waits {
        content += &of_wait(wait, y, &scale);
        y += WAIT;
    }
    let content = scale.axis(y) + &content;
    svg("gantt", "machines from when they are created until they are gone", y + 4, &content)
}

/// Machines by owner; those of the control plane first, then by name of the owner, and by time.
fn owners(timeline: &ClusterTimeline) -> BTreeMap<String, Vec<(&str, &MachineSpan)>> {
    let mut owners: BTreeMap<(bool, &str), Vec<(&str, &MachineSpan)>> = BTreeMap::new();
    for (name, machine) in &timeline.machines {
        owners.entry((!machine.is_control_plane, &machine.owner)).or_default().push((name, machine));
    }
    let mut all = BTreeMap::new();
    for ((is_worker, owner), mut machines) in owners {
        machines.sort_by_key(|(name, machine)| (machine.made, *name));
        let title = if is_worker { format!("workers {owner}") } else { format!("control plane {owner}") };
        all.insert(title, machines);
    }
    all
}

/// The first lane that is free when a machine is made.
fn lane(lanes: &mut Vec<i64>, machine: &MachineSpan) -> usize {
    let (from, until) = (machine.made.unwrap_or(0), machine.gone.map_or(i64::MAX, |gone| gone + 1));
    let is_free = |end: &i64| *end <= from;
    let free = if machine.made.is_some() { lanes.iter().position(is_free) } else { None };
    let lane = free.unwrap_or_else(|| {
        lanes.push(0);
        lanes.len() - 1
    });
    if let Some(end) = lanes.get_mut(lane) {
        *end = until;
    }
    lane
}

fn of_machine(name: &str, machine: &MachineSpan, y: usize, scale: &Scale, palette: &Palette) -> String {
    let MachineSpan { version, made, running, gone, .. } = machine;
    let began = made.map_or("existed at the start".to_owned(), |t| format!("created at {}", span(t)));
    let runs = match (made, running) {
        (None, Some(0)) => String::new(),
        (_, Some(t)) => format!(", running at {}", span(*t)),
        (_, None) => ", never running".to_owned(),
    };
    let ended = gone.map(|t| format!(", gone at {}", span(t))).unwrap_or_default();
    let title = escaped(&format!("{name}: {version}, {began}{runs}{ended}"));
    let (from, until) = (made.unwrap_or(0), gone.unwrap_or(scale.seconds));
    let ready = running.unwrap_or(until).min(until);
    let color = palette.class(version);
    let mut bars = String::new();
    if from < ready {
        bars += &scale.rect(&format!("{color} starting"), from, ready, y, BAR);
    }
    if ready < until || from == ready {
        bars += &scale.rect(&color, ready, until, y, BAR);
    }
    format!("<g class=\"machine\"><title>{title}</title>{bars}</g>")
}

fn of_wait(wait: &Wait<'_>, y: usize, scale: &Scale) -> String {
    let until = wait.span.until.unwrap_or(scale.seconds);
    let (kind, reason) = (&wait.span.kind, &wait.span.reason);
    let (names, from) = (wait.names.join(", "), span(wait.span.from));
    let title = escaped(&format!("{kind} {names}, {from} to {}: {reason}", span(until)));
    let label = format!("{names}: {reason}");
    let label = match label.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label,
    };
    format!(
        "<g class=\"held\"><title>{title}</title><text class=\"axis\" x=\"0\" y=\"{}\">{}</text>{}</g>",
        y + 10,
        escaped(&label),
        scale.rect("wait", wait.span.from, until, y + 14, BAR)
    )
}

/// The number of machines over time as a line with steps.
pub(super) fn count<'a>(timelines: impl IntoIterator<Item = (&'a ClusterTimeline, usize)>, seconds: i64) -> String {
    let mut changes: BTreeMap<i64, i64> = [(0, 0)].into();
    for (timeline, clusters) in timelines {
        let clusters = i64::try_from(clusters).unwrap_or(i64::MAX);
        for machine in timeline.machines.values() {
            *changes.entry(machine.made.unwrap_or(0)).or_default() += clusters;
            if let Some(gone) = machine.gone {
                *changes.entry(gone).or_default() -= clusters;
            }
        }
    }
    let counts: Vec<(i64, i64)> = changes
        .into_iter()
        .scan(0, |count, (t, change)| {
            *count += change;
            Some((t, *count))
        })
        .collect();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or_default();
    let scale = Scale::of(seconds);
    let graph = graph(&counts, most, scale.seconds);
    let height = STEPS + AXIS;
    let title = format!("<title>at most {most} machines at once</title>");
    let content = format!(
        "{}<svg y=\"{AXIS}\" width=\"100%\" height=\"{STEPS}\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">{title}{graph}</svg>\
         <text class=\"axis\" x=\"2\" y=\"{}\">{most}</text>",
        scale.axis(height),
        AXIS + 16,
    );
    svg("count", "number of machines over time", height + 2, &content)
}

/// The line in a square of 1000 by 100.
#[expect(clippy::cast_precision_loss, reason = "seconds and machines of a rollout")]
fn graph(counts: &[(i64, i64)], most: i64, seconds: i64) -> String {
    let x = |t: i64| format!("{:.1}", 1000.0 * t as f64 / seconds as f64);
    let y = |count: i64| format!("{:.1}", 98.0 - 92.0 * count as f64 / most.max(1) as f64);
    let mut path = String::new();
    for (i, (t, count)) in counts.iter().enumerate() {
        path += &match i {
            0 => format!("M{},{}", x(*t), y(*count)),
            _ => format!("H{}V{}", x(*t), y(*count)),
        };
    }
    path += "H1000";
    format!("<path class=\"area\" d=\"{path}V100H0Z\"/><path class=\"line\" d=\"{path}\"/>")
}
