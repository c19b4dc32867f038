//! Charts: positions along the time are percentages of the width, so that a chart fits every width and its texts keep
//! their size.
//!
//! Bars are SVG. Names and reasons are HTML above their bars, so that they wrap where the page is narrow.

use std::collections::BTreeMap;

use super::palette::{Palette, escaped};
use super::report::{StuckWait, span, waits_of};
use schema::field::counted;
use simulation::timeline::{ClusterTimeline, MachineSpan};

/// Heights in pixels.
const AXIS: usize = 22;
const BAR: usize = 10;
const LANE: usize = 13;
const STEPS: usize = 60;
/// Maximum number of parts of the time axis.
const TICKS: i64 = 5;

/// Converts times to positions.
pub(super) struct Scale {
    seconds: i64,
}

impl Scale {
    /// From the start to the last event; a tenth more where a Cluster is stuck, so that what is open at the end has a
    /// bar.
    pub(super) fn new(last: i64, is_stuck: bool) -> Self {
        let more = if is_stuck { last / 10 + 1 } else { 0 };
        Scale { seconds: (last + more).max(1) }
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of a rollout")]
    fn percent(&self, t: i64) -> String {
        format!("{:.3}%", 100.0 * t.clamp(0, self.seconds) as f64 / self.seconds as f64)
    }

    fn rect(&self, class: &str, from: i64, until: i64, y: usize, height: usize) -> String {
        let width = self.percent((until - from).max(0));
        format!(
            "<rect class=\"{class}\" x=\"{}\" width=\"{width}\" y=\"{y}\" height=\"{height}\"/>",
            self.percent(from)
        )
    }

    /// Lines at even times over the whole height, with the times at the top.
    fn axis(&self) -> String {
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
            text += &format!("<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"{AXIS}\" y2=\"100%\"/>");
            text += &format!("<text class=\"axis\" x=\"{x}\" y=\"14\" text-anchor=\"{anchor}\">{}</text>", even(t));
        }
        text
    }
}

/// An even time without the zeros at its end: `2m`, `1h30m`.
fn even(t: i64) -> String {
    let text = span(t);
    let text = text.strip_suffix("00s").unwrap_or(&text);
    text.strip_suffix("00m").unwrap_or(text).to_owned()
}

fn svg(class: &str, label: &str, height: usize, content: &str) -> String {
    format!(
        "<svg class=\"{class}\" role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"{height}\">{content}</svg>\n",
        escaped(label)
    )
}

/// The bar of a Cluster in the list of all: its state, and below it when something waited.
pub(super) fn bar(timeline: &ClusterTimeline, is_stuck: bool, scale: &Scale) -> String {
    let (class, until) = if is_stuck { ("stuck", scale.seconds) } else { ("done", timeline.last) };
    let word = if is_stuck { "stuck" } else { "complete" };
    let title = format!("<title>{word} after {}</title>", span(timeline.last));
    let mut content = format!("<g>{title}{}</g>", scale.rect(class, 0, until, 2, 9));
    for (from, until) in merged(timeline, scale.seconds) {
        let title = format!("something waits from {} to {}", span(from), end(until, scale));
        content += &format!("<g><title>{title}</title>{}</g>", scale.rect("wait", from, until, 13, 4));
    }
    svg("fleet", word, 18, &content)
}

/// The times in which anything waited.
fn merged(timeline: &ClusterTimeline, seconds: i64) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> =
        timeline.holds.iter().map(|span| (span.from, span.until.unwrap_or(seconds))).filter(|(a, b)| a < b).collect();
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

/// The end of a wait in words.
fn end(until: i64, scale: &Scale) -> String {
    if until >= scale.seconds { "the end".to_owned() } else { span(until) }
}

/// The machines of a Cluster: a bar each from made to gone, by owner, and below them what waited.
pub(super) fn machines(timeline: &ClusterTimeline, scale: &Scale, palette: &Palette) -> String {
    let mut content =
        format!("<svg class=\"times\" aria-hidden=\"true\" width=\"100%\" height=\"100%\">{}</svg>\n", scale.axis());
    for (owner, machines) in owners(timeline) {
        content +=
            &format!("<p class=\"owner\">{}</p>\n{}", escaped(&owner), of_owner(&owner, &machines, scale, palette));
    }
    let waits = waits_of(timeline);
    if !waits.is_empty() {
        content += "<p class=\"owner\">waiting</p>\n";
    }
    content.extend(waits.iter().map(|wait| of_wait(wait, scale)));
    format!("<div class=\"gantt\">\n{content}</div>\n")
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

/// The machines of one owner; one that is made when another is gone may be in its line.
fn of_owner(owner: &str, machines: &[(&str, &MachineSpan)], scale: &Scale, palette: &Palette) -> String {
    let (mut content, mut lanes) = (String::new(), Vec::new());
    for (name, machine) in machines {
        let lane = lane(&mut lanes, machine);
        content += &of_machine(name, machine, lane * LANE, scale, palette);
    }
    svg("lanes", &format!("machines of {owner}"), lanes.len() * LANE, &content)
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
    let title = escaped(&format!("{name}: {}", life_of(machine)));
    let (from, until) = (machine.made.unwrap_or(0), machine.gone.unwrap_or(scale.seconds));
    let ready = machine.running.unwrap_or(until).min(until);
    let color = palette.class(&machine.version);
    let mut bars = String::new();
    if from < ready {
        bars += &scale.rect(&format!("{color} starting"), from, ready, y, BAR);
    }
    if ready < until || from == ready {
        bars += &scale.rect(&color, ready, until, y, BAR);
    }
    format!("<g class=\"machine\"><title>{title}</title>{bars}</g>")
}

/// The life of a machine in words.
fn life_of(machine: &MachineSpan) -> String {
    let MachineSpan { version, made, running, gone, .. } = machine;
    let began = made.map_or("existed at the start".to_owned(), |t| format!("created at {}", span(t)));
    let runs = match (made, running) {
        (None, Some(0)) => String::new(),
        (_, Some(t)) => format!(", running at {}", span(*t)),
        (_, None) => ", never running".to_owned(),
    };
    let ended = gone.map(|t| format!(", gone at {}", span(t))).unwrap_or_default();
    format!("{version}, {began}{runs}{ended}")
}

/// The reason is never cut; a title has the names that the text leaves out.
fn of_wait(wait: &StuckWait<'_>, scale: &Scale) -> String {
    let (from, until) = (wait.span.from, wait.span.until.unwrap_or(scale.seconds));
    let times = format!("{} to {}", span(from), wait.span.until.map_or("the end".to_owned(), span));
    let (kind, reason) = (&wait.span.kind, &wait.reason);
    let title = escaped(&format!("{kind} {}, {times}: {reason}", wait.names.join(", ")));
    let text = escaped(&format!("{kind} {}: {reason}", wait.few_names()));
    let rect = scale.rect("wait", from, until, 0, BAR);
    let bar = svg("lanes", &times, LANE, &format!("<g><title>{title}</title>{rect}</g>"));
    format!(
        "<div class=\"held\"><p class=\"reason\"><span>{text}</span> <span class=\"when\">{times}</span></p>\n\
         {bar}</div>\n"
    )
}

/// The number of machines over time as a line with steps, below the most at one time.
pub(super) fn count<'a>(
    timelines: impl IntoIterator<Item = (&'a ClusterTimeline, usize)>,
    peak: usize,
    scale: &Scale,
) -> String {
    let graph = graph(&counts(timelines), peak, scale.seconds);
    let title = format!("<title>at most {} at once</title>", counted(peak, "machine"));
    let content = format!(
        "{}<svg y=\"{AXIS}\" width=\"100%\" height=\"{STEPS}\" viewBox=\"0 0 1000 100\" \
         preserveAspectRatio=\"none\">{title}{graph}</svg><text class=\"axis peak\" x=\"4\" y=\"{}\">{peak}</text>",
        scale.axis(),
        AXIS + 18,
    );
    svg("count", "number of machines over time", AXIS + STEPS + 2, &content)
}

/// How many machines there are from each time at which that changes.
fn counts<'a>(timelines: impl IntoIterator<Item = (&'a ClusterTimeline, usize)>) -> Vec<(i64, i64)> {
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
    let sums = changes.into_iter().scan(0, |count, (t, change)| {
        *count += change;
        Some((t, *count))
    });
    sums.collect()
}

/// The line in a square of 1000 by 100.
#[expect(clippy::cast_precision_loss, reason = "seconds and machines of a rollout")]
fn graph(counts: &[(i64, i64)], peak: usize, seconds: i64) -> String {
    let x = |t: i64| format!("{:.2}", 1000.0 * t as f64 / seconds as f64);
    let y = |count: i64| format!("{:.2}", 98.0 - 92.0 * count as f64 / peak.max(1) as f64);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_an_axis_have_no_zeros_at_their_end() {
        for (t, want) in [(0, "0s"), (30, "30s"), (60, "1m"), (90, "1m30s"), (3_600, "1h"), (5_400, "1h30m")] {
            assert_eq!(even(t), want);
        }
    }

    #[test]
    fn an_axis_has_few_times_and_none_beyond_its_end() {
        for seconds in [1, 7, 59, 147, 3_601, 90_000, 604_800, 9_000_000] {
            let axis = Scale::new(seconds, false).axis();
            assert!((2..=6).contains(&axis.matches("<text").count()), "{seconds}: {axis}");
        }
    }

    #[test]
    fn what_is_open_at_the_end_of_a_stuck_cluster_has_a_bar() {
        for last in [0, 1, 25, 10_000] {
            let scale = Scale::new(last, true);
            assert!(scale.seconds > last && scale.seconds <= last + last / 10 + 1, "{last}");
        }
        assert_eq!((Scale::new(25, false).seconds, Scale::new(0, false).seconds), (25, 1));
    }

    #[test]
    fn the_most_machines_are_those_of_the_simulation() {
        // Two machines of the same second are there at once if one is made before the other is gone.
        let machine = |made, gone| MachineSpan { made, gone, ..MachineSpan::default() };
        let machines = [("a", machine(None, Some(5))), ("b", machine(Some(5), None))];
        let machines = machines.map(|(name, machine)| (name.to_owned(), machine)).into();
        let timeline = ClusterTimeline { machines, peak_machines: 2, last: 5, ..ClusterTimeline::default() };
        let chart = count([(&timeline, 1)], 2, &Scale::new(10, false));
        assert!(chart.contains("at most 2 machines at once") && chart.contains(">2</text>"), "{chart}");
        assert!(chart.contains("d=\"M0.00,52.00H500.00V52.00H1000\""), "{chart}");
    }
}
