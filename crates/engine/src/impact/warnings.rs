//! Warnings about the impact of an edit, which kubectl prints, and the summary for the audit log (DEC-34: names, paths
//! and counts, never values).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::tally::{Impact, ImpactCounts, ImpactGroup, Uncounted};
use crate::topology::origin::Origin;
use crate::topology::refusals::{Checks, RefusedField};
use schema::field::Warning;

/// Maximum characters of a warning, according to the API conventions of Kubernetes.
const MOST_CHARS: usize = 120;
/// Maximum bytes of all warnings.
const MOST_TEXT: usize = 4_096;
/// Maximum bytes of the summary.
const MOST_SUMMARY: usize = 8 << 10;
/// Maximum characters of the reason for uncounted machines in the summary.
const MOST_REASON: usize = 1_024;
/// The rule that gives these warnings.
const RULE: &str = "DEC-42";
/// The rule that gives warnings about fields.
const RULE_OF_SCHEMAS: &str = "DEC-32";

impl Impact {
    /// The warnings, the most important first; none if no machine is affected.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut texts = Vec::new();
        if self.compared == 0 {
            let reason = self.uncounted.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            texts.push(format!("the number of replaced machines is not known{reason}"));
            return within(texts.into_iter().map(|text| shortened_in_middle(&text, MOST_CHARS)));
        }
        let about = if self.is_estimate() { "about " } else { "" };
        let of = match self.is_estimate() {
            true => format!("{}; estimated from {}", self.subject, grouped(self.compared)),
            false => self.subject.clone(),
        };
        let clusters = format!("{about}{} of {}", grouped(self.affected), clusters_of(self.clusters));
        for (verb, number, is_least) in self.machines.verbs() {
            texts.push(format!("{verb} {about}{} in {clusters} ({of})", machines(number, is_least)));
        }
        if let Some(extension) = &self.in_place {
            texts.push(format!("or machines are updated in place, if the extension {extension} agrees"));
        }
        if self.failing > 0 {
            let example = self.fails.as_ref().map(|key| format!(", such as {key}")).unwrap_or_default();
            texts.push(format!("breaks the topology of {about}{}{example} ({of})", clusters_of(self.failing)));
        }
        if let Some(Uncounted::Failure { cluster, reason }) = self.uncounted.as_ref().filter(|_| self.failing > 0) {
            texts.push(shortened_in_middle(&format!("Cluster {cluster}: {reason}"), MOST_CHARS));
        }
        match self.groups.as_slice() {
            // The total contains the number.
            [one] => texts.extend(one.reason("")),
            groups => texts.extend(groups.iter().map(ImpactGroup::text)),
        }
        if let Some(reason @ Uncounted::Pause(_)) = self.uncounted.as_ref().filter(|_| self.at_most > self.certain) {
            let (most, clusters) = (machines(self.at_most, false), clusters_of(self.clusters));
            texts.push(format!("may replace or remove up to {most} in {clusters} ({})", self.subject));
            texts.push(shortened_in_middle(&reason.to_string(), MOST_CHARS));
        }
        if let Some(reason) = &self.incomplete {
            texts.push(format!("the number of machines is incomplete: {reason}"));
        }
        if self.unknown > 0 {
            let mut text = format!("no number for {about}{}", clusters_of(self.unknown));
            if let Some(Uncounted::Failure { cluster, reason }) = &self.uncounted {
                text = format!("{text}, such as {cluster}: {reason}");
            }
            texts.push(shortened_in_middle(&text, MOST_CHARS));
        }
        within(texts.into_iter().map(shortened))
    }

    /// The summary for the audit log, as JSON; `None` if no machine is affected.
    pub fn summary(&self) -> Option<String> {
        if self.warnings().is_empty() {
            return None;
        }
        let mut groups: Vec<Value> = self.groups.iter().map(ImpactGroup::summary).collect();
        loop {
            let left_out = self.groups.len() - groups.len();
            let text = json!({
                "subject": self.subject,
                "clusters": self.clusters,
                "compared": self.compared,
                "affected": self.affected,
                "machines": self.machines.summary(),
                "failing": self.failing,
                "unknown": self.unknown,
                "atMost": self.at_most,
                "uncounted": self.uncounted.as_ref().map(|reason| shortened_in_middle(&reason.to_string(),
                    MOST_REASON)),
                "inPlace": self.in_place,
                "incomplete": self.incomplete.as_deref().map(|reason| shortened(reason.to_owned())),
                "groups": groups,
                "groupsLeftOut": left_out,
            })
            .to_string();
            if text.len() <= MOST_SUMMARY {
                return Some(text);
            }
            groups.pop()?;
        }
    }
}

impl ImpactCounts {
    /// The effects on machines, each with a number and whether it is a minimum.
    fn verbs(&self) -> impl Iterator<Item = (&'static str, i64, bool)> {
        let all = [
            ("replaces", self.replaced, self.is_least),
            ("removes", self.removed, self.removed_is_least),
            ("leaves outdated until they are deleted", self.outdated, false),
        ];
        all.into_iter().filter(|(_, number, is_least)| *number > 0 || *is_least)
    }

    fn summary(&self) -> Value {
        json!({
            "replaced": self.replaced,
            "removed": self.removed,
            "added": self.added,
            "outdatedUntilDeleted": self.outdated,
            "atLeast": self.is_least || self.removed_is_least,
        })
    }
}

impl ImpactGroup {
    fn text(&self) -> String {
        let numbers: Vec<String> = self
            .machines
            .verbs()
            .map(|(verb, number, is_least)| format!("{verb} {}", at_least(number, is_least)))
            .collect();
        let example = match self.clusters {
            1 => format!("in {}", self.example),
            _ => format!("in {}, such as {}", clusters_of(self.clusters), self.example),
        };
        let text = format!("{} {example}", numbers.join(", "));
        self.reason(&format!("{text}: ")).unwrap_or(text)
    }

    /// The kinds that replace machines, and the first reason; a path that is too long is truncated at its start.
    fn reason(&self, before: &str) -> Option<String> {
        let (_, reason) = self.reasons.first()?;
        let kinds: BTreeSet<&str> = self.reasons.iter().map(|(kind, _)| &**kind).collect();
        let more = match self.reasons.iter().map(|(_, reason)| reason).collect::<BTreeSet<_>>().len() {
            1 => String::new(),
            many => format!(" (and {} more reasons)", many - 1),
        };
        let before = format!("{before}{}: ", kinds.into_iter().collect::<Vec<_>>().join(", "));
        let left = MOST_CHARS.saturating_sub(before.chars().count() + more.chars().count());
        Some(format!("{before}{}{more}", with_short_path(reason, left)))
    }

    fn summary(&self) -> Value {
        let reasons = self.reasons.iter().map(|(kind, reason)| shortened(format!("{kind}: {reason}")));
        json!({
            "clusters": self.clusters,
            "example": self.example.to_string(),
            "machines": self.machines.summary(),
            "reasons": reasons.take(MOST_REASONS).collect::<Vec<_>>(),
        })
    }
}

/// Maximum reasons of a group in the summary.
const MOST_REASONS: usize = 10;

pub(super) fn machines(number: i64, is_least: bool) -> String {
    match (number, is_least) {
        (0, true) => "an unknown number of machines".to_owned(),
        (1, _) => format!("{} machine", at_least(number, is_least)),
        _ => format!("{} machines", at_least(number, is_least)),
    }
}

fn at_least(number: i64, is_least: bool) -> String {
    match (number, is_least) {
        (0, true) => "an unknown number".to_owned(),
        (_, true) => format!("at least {}", grouped(number)),
        (_, false) => grouped(number),
    }
}

pub(super) fn clusters_of(number: usize) -> String {
    format!("{} {}", grouped(number), if number == 1 { "Cluster" } else { "Clusters" })
}

/// Maximum fields in warnings that the API server would reject.
const MOST_REFUSALS: usize = 10;

/// The warnings, followed by one for each field that the API server would reject, as far as they fit.
pub fn with_refusals(mut warnings: Vec<Warning>, checks: &Checks) -> Vec<Warning> {
    let refusals = &checks.refusals;
    let mut texts: Vec<String> = refusals.iter().take(MOST_REFUSALS).map(refused).collect();
    let used: usize = warnings.iter().map(|warning| warning.text.len()).sum();
    let mut left = MOST_TEXT.saturating_sub(used + MOST_CHARS);
    texts.retain(|text| {
        left = left.saturating_sub(text.len());
        left > 0
    });
    if refusals.len() > texts.len() {
        texts.push(format!("the API server would refuse {} more fields", refusals.len() - texts.len()));
    }
    warnings.extend(texts.into_iter().map(|text| Warning::new(RULE_OF_SCHEMAS, text)));
    warnings
}

/// A field that the API server would reject, with the patch that set it.
fn refused(refusal: &RefusedField) -> String {
    let RefusedField { kind, field, detail, because, .. } = refusal;
    let because = match because {
        Some(Origin::Patch(patch)) => format!(" (patch {:?})", patch.patch),
        Some(_) | None => String::new(),
    };
    let detail = if refusal.may_be_completed() { "is required" } else { detail };
    let length = |text: &str| text.chars().count();
    let used = length(kind) + length(&because) + 4;
    // The path is more important than the hint.
    let without_hint = detail.split("; ").next().unwrap_or_default();
    let fits = used + length(detail) + length(field) <= MOST_CHARS;
    let detail = if fits { detail } else { without_hint };
    let left = MOST_CHARS.saturating_sub(used + length(detail));
    let place = if field.is_empty() { String::new() } else { format!(" {}", with_short_path(field, left)) };
    shortened(format!("{kind}{place}{because}: {detail}"))
}

/// A number with commas between groups of three digits.
pub(super) fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The text, shortened in the middle to a number of characters: its end contains the problem.
fn shortened_in_middle(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let (first, last) = (kept / 2, kept - kept / 2);
    let begin: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(length - last).collect();
    format!("{begin}…{end}")
}

/// A text, truncated to the length of a warning.
fn shortened(text: String) -> String {
    shortened_in_middle(&text, MOST_CHARS)
}

/// A reason without the position of the operation in its patch; `plan` has it.
fn without_operation(reason: &str) -> String {
    let Some((before, rest)) = reason.split_once(" definitions[") else { return reason.to_owned() };
    let end = rest.find([' ', ')']).unwrap_or(rest.len());
    format!("{before}{}", &rest[end..])
}

/// The reason, without the first names of its path if it would be longer than the given number of characters.
fn with_short_path(reason: &str, most: usize) -> String {
    let reason = &*without_operation(reason);
    let too_many = reason.chars().count().saturating_sub(most);
    let path = reason.split(' ').find(|word| word.matches('.').count() > 1).filter(|_| too_many > 0);
    let Some(path) = path else { return reason.to_owned() };
    let starts = path.match_indices('.').map(|(at, _)| at);
    let cut = starts.clone().find(|at| *at >= too_many + 2).or(starts.clone().next_back()).unwrap_or_default();
    reason.replacen(path, &format!("..{}", &path[cut..]), 1)
}

/// The warnings that fit, with the number of the others.
fn within(texts: impl Iterator<Item = String>) -> Vec<Warning> {
    const LAST: usize = 40;
    let texts: Vec<String> = texts.collect();
    let (mut length, mut kept) = (0, Vec::new());
    for text in &texts {
        if length + text.len() > MOST_TEXT - LAST {
            kept.push(format!("and {} more groups of Clusters", texts.len() - kept.len()));
            break;
        }
        length += text.len();
        kept.push(text.clone());
    }
    kept.into_iter().map(|text| Warning::new(RULE, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::origin::PatchOrigin;
    use model::hub::ObjectKey;
    use schema::field::ErrorKind;

    fn refusal(field: &str, detail: &str, patch: Option<&str>) -> RefusedField {
        let origin = |patch: &str| PatchOrigin {
            patch: patch.into(),
            definition: Some(0),
            operation: 0,
            variables: [].into(),
            is_sensitive: false,
        };
        let because = patch.map(|patch| Origin::Patch(origin(patch)));
        RefusedField::new(
            ("KubeadmConfigTemplate", "md"),
            field,
            ErrorKind::Invalid,
            detail,
            because,
            &ObjectKey::new("ns", "c"),
        )
    }

    fn texts(refusals: Vec<RefusedField>, before: usize) -> Vec<String> {
        let checks = Checks { refusals, ..Checks::default() };
        let before = (0..before).map(|_| Warning::new(RULE, "w".repeat(100))).collect();
        with_refusals(before, &checks).into_iter().map(|warning| warning.text).collect()
    }

    #[test]
    fn warnings_about_refused_fields_are_short_and_few() {
        // DEC-34, DEC-44
        let one = |field: &str, detail: &str, patch| texts(vec![refusal(field, detail, patch)], 0).remove(0);
        assert_eq!(
            one("spec.a", "is wrong; try b", Some("p")),
            "KubeadmConfigTemplate spec.a (patch \"p\"): is wrong; try b"
        );
        assert_eq!(one("", "is wrong", None), "KubeadmConfigTemplate: is wrong");
        let deep = "spec.template.spec.joinConfiguration.nodeRegistration.kubeletExtraArgs[3].name";
        let want = "KubeadmConfigTemplate ..kubeletExtraArgs[3].name (patch \"arguments\"): must be of type string, \
                    and is integer";
        let got = one(deep, "must be of type string, and is integer; write it in quotes", Some("arguments"));
        assert_eq!((got.replace("...", ".."), got.chars().count() <= MOST_CHARS), (want.to_owned(), true), "{got}");
        let long = one(&"a.".repeat(500), &"x".repeat(500), Some(&"p".repeat(500)));
        assert_eq!(long.chars().count(), MOST_CHARS, "{long}");
        let many = |count: usize| (0..count).map(|i| refusal(&format!("spec.f{i}"), "is wrong", None)).collect();
        let warnings = texts(many(25), 0);
        assert_eq!((warnings.len(), warnings[10].as_str()), (11, "the API server would refuse 15 more fields"));
        let warnings = texts(many(25), 38);
        assert!(warnings.iter().map(String::len).sum::<usize>() <= MOST_TEXT, "{warnings:?}");
        assert!(warnings.last().unwrap().starts_with("the API server would refuse "), "{warnings:?}");
        assert_eq!(texts(Vec::new(), 2).len(), 2);
    }
}
