//! Checks whether an extension behaves as its callers expect (RH-23.5). Its handler gets a real request again, and
//! variants of the request.
//!
//! ```text
//! PreparedPatchRequest ─┬─► sent twice ───────────────────────► equal and fast answers
//!                       ├─► with its patches applied ─────────► no further patch
//!                       ├─► a missing or mistyped variable ───► an answer without a guess
//!                       └─► an unknown kind or version ───────► an answer without patches that have no effect
//! two requests ─► one after the other, in both orders ─► equal objects
//! ```

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{HandlerRequest, MESSAGE, PreparedPatchRequest, cut};
use crate::topology::patches::patched;
use model::world::PatchAnswer;
use schema::field::Level;

/// Milliseconds that a call should not exceed: patches are computed in every run.
pub const SLOW: u64 = 200;
/// How many variables of a request are changed.
const VARIABLES: usize = 16;
/// A group, a kind and a version that no provider has.
const FOREIGN_GROUP: &str = "unknown.example.com/v1";
const FOREIGN_KIND: &str = "UnknownMachineTemplate";
const FOREIGN_VERSION: &str = "v99alpha1";

/// A behavior that callers do not expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The id of the rule, such as `RH-23.5`.
    pub rule: &'static str,
    pub message: String,
    pub way_out: &'static str,
}

/// A failed call, with the reason that its client reports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FailedCall(pub String);

impl FailedCall {
    /// The reason as text.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

/// The reply to a call.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The answer, or the reason of a failed call.
    pub outcome: Result<Box<RawValue>, FailedCall>,
    pub milliseconds: u64,
}

/// Sends the body of a request to a handler.
pub type Send<'a> = dyn Fn(&str) -> Reply + 'a;

/// The effect of an answer.
#[derive(Clone, Debug, PartialEq)]
enum CallEffect {
    /// The patched templates, and patches without effect.
    Patched {
        objects: Vec<Value>,
        idle: Vec<usize>,
    },
    Valid,
    Refused(String),
    /// No answer, or an invalid one.
    Failed(String),
}

/// The calls of one handler, and the findings.
struct Check<'a> {
    request: &'a PreparedPatchRequest,
    send: &'a Send<'a>,
    findings: Vec<Finding>,
}

/// Checks the handler of a patch. `always_set` are the variables that no Cluster of the class lacks.
pub fn check_patch(request: &PreparedPatchRequest, always_set: &BTreeSet<String>, send: &Send<'_>) -> Vec<Finding> {
    let mut check = Check { request, send, findings: Vec::new() };
    check.run(always_set);
    check.findings
}

/// Checks a handler by sending one request twice: answers must be equal and fast.
pub fn check_call(body: &str, send: &Send<'_>) -> Vec<Finding> {
    let [first, second] = [send(body), send(body)];
    let mut findings = slow(first.milliseconds.min(second.milliseconds));
    let failure = |outcome: &Result<Box<RawValue>, FailedCall>| match outcome {
        Err(FailedCall(reason)) => Some(format!("the call failed: {}", cut(reason, MESSAGE))),
        Ok(answer) => {
            let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
            let message = answer["message"].as_str().unwrap_or_default();
            (answer["status"] != "Success").then(|| format!("the answer is no success: {}", cut(message, MESSAGE)))
        }
    };
    if let Some(problem) = failure(&first.outcome).or_else(|| failure(&second.outcome)) {
        let way_out = "answer every request with the code 200 and a status";
        findings.push(Finding { level: Level::Error, rule: "RH-23.2", message: problem, way_out });
    } else if answers_differ(&first, &second) {
        findings.push(unequal("two equal requests got different answers".to_owned()));
    }
    findings
}

fn answers_differ(first: &Reply, second: &Reply) -> bool {
    let value = |reply: &Reply| -> Option<Value> { serde_json::from_str(reply.outcome.as_ref().ok()?.get()).ok() };
    value(first) != value(second)
}

/// Checks whether the order of two patches matters: `a` and `b` get the objects before both patches.
pub fn check_order(a: (&PreparedPatchRequest, &Send<'_>), b: (&PreparedPatchRequest, &Send<'_>)) -> Option<Finding> {
    let start = a.0.objects();
    let one_after_the_other = |first: (&PreparedPatchRequest, &Send<'_>),
                               second: (&PreparedPatchRequest, &Send<'_>)| {
        let objects = first.0.with_objects(&start).patched_by(first.1)?;
        second.0.with_objects(&objects).patched_by(second.1)
    };
    let (ab, ba) = (one_after_the_other(a, b)?, one_after_the_other(b, a)?);
    let place = difference(&ab, &ba)?;
    Some(Finding {
        level: Level::Warning,
        rule: "RH-10.10",
        message: format!("the result depends on the order of the patches: {place}"),
        way_out: "let one extension alone write this field",
    })
}

impl PreparedPatchRequest {
    fn patched_by(&self, send: &Send<'_>) -> Option<Vec<Value>> {
        match self.effect(&send(self.body())) {
            CallEffect::Patched { objects, .. } => Some(objects),
            _ => None,
        }
    }

    fn effect(&self, reply: &Reply) -> CallEffect {
        match self.read(reply.outcome.as_deref().map_err(FailedCall::reason)) {
            Err(problem) => CallEffect::Failed(problem.to_string()),
            Ok(PatchAnswer::Valid) => CallEffect::Valid,
            Ok(PatchAnswer::Failure(message)) => CallEffect::Refused(message),
            Ok(PatchAnswer::Patches(patches)) => {
                let (mut objects, mut idle) = (self.objects(), Vec::new());
                for patch in &*patches {
                    let Some(object) = objects.get_mut(patch.item) else { continue };
                    match patched(object, &patch.patch_type, &patch.patch) {
                        Err(problem) => return CallEffect::Failed(format!("{}: {problem}", named(object))),
                        Ok(after) if after == *object => idle.push(patch.item),
                        Ok(after) => *object = after,
                    }
                }
                CallEffect::Patched { objects, idle }
            }
        }
    }
}

impl Check<'_> {
    fn run(&mut self, always_set: &BTreeSet<String>) {
        let [first, second] = [(self.send)(self.request.body()), (self.send)(self.request.body())];
        self.findings.extend(slow(first.milliseconds.min(second.milliseconds)));
        let [effect, again] = [&first, &second].map(|reply| self.request.effect(reply));
        if let CallEffect::Failed(problem) = &effect {
            self.error(
                "RH-23.2",
                format!("the call failed: {problem}"),
                "answer every request with the code 200 and a status",
            );
            return;
        }
        self.compare(&effect, &again, &first, &second);
        match effect {
            CallEffect::Patched { objects, idle } => {
                self.idle(&objects, &idle);
                self.check_idempotence(&objects);
                self.variables(&objects, always_set);
                self.check_foreign_templates(&objects);
            }
            CallEffect::Refused(message) => self.warning(
                "RH-23.5",
                format!("the request got the answer Failure, so nothing else was checked: {message}"),
                "name files with a Cluster that the extension accepts",
            ),
            _ => self.variables_of_a_validation(),
        }
    }

    fn error(&mut self, rule: &'static str, message: String, way_out: &'static str) {
        self.findings.push(Finding { level: Level::Error, rule, message, way_out });
    }

    fn warning(&mut self, rule: &'static str, message: String, way_out: &'static str) {
        self.findings.push(Finding { level: Level::Warning, rule, message, way_out });
    }

    /// Two answers to the same request.
    fn compare(&mut self, effect: &CallEffect, again: &CallEffect, first: &Reply, second: &Reply) {
        match (effect, again) {
            (CallEffect::Patched { objects: a, .. }, CallEffect::Patched { objects: b, .. }) => {
                if let Some(place) = difference(a, b) {
                    self.findings.push(unequal(format!("two equal requests got different patches: {place}")));
                } else if answers_differ(first, second) {
                    self.findings.push(unequal("two equal requests got answers with different texts".to_owned()));
                }
            }
            (CallEffect::Refused(a), CallEffect::Refused(b)) if a != b => {
                self.findings.push(unequal("two equal requests got different messages".to_owned()));
            }
            (a, b) if a != b => {
                self.findings.push(unequal("two equal requests got different answers".to_owned()));
            }
            _ if answers_differ(first, second) => {
                self.findings.push(unequal("two equal requests got answers with different texts".to_owned()));
            }
            _ => {}
        }
    }

    fn idle(&mut self, objects: &[Value], idle: &[usize]) {
        for at in idle.iter().collect::<BTreeSet<_>>() {
            let Some(object) = objects.get(*at) else { continue };
            let message = format!("a patch of {} changes nothing", named(object));
            self.warning("RH-23.6", message, "compare the object before and after, and send the difference");
        }
    }

    /// Patched objects need no further patch.
    fn check_idempotence(&mut self, objects: &[Value]) {
        let way_out = "test first whether the change is there, such as before add with a path that ends in /-";
        let repeated = self.request.with_objects(objects);
        match repeated.effect(&(self.send)(repeated.body())) {
            CallEffect::Patched { objects: after, .. } => {
                if let Some(place) = difference(objects, &after) {
                    self.error(
                        "RH-23.5",
                        format!("objects that are patched already get another patch: {place}"),
                        way_out,
                    );
                }
            }
            CallEffect::Failed(problem) => {
                self.error("RH-23.4", format!("objects that are patched already: the call failed: {problem}"), way_out);
            }
            CallEffect::Refused(message) => {
                let message = format!("objects that are patched already got the answer Failure: {message}");
                self.error("RH-23.5", message, way_out);
            }
            CallEffect::Valid => {}
        }
    }

    /// A variable is missing, or has another type.
    fn variables(&mut self, objects: &[Value], always_set: &BTreeSet<String>) {
        let way_out = "answer Failure, and name the variable";
        for name in self.request.variables().into_iter().take(VARIABLES) {
            let Some(missing) =
                self.try_request(&format!("without the variable {name:?}"), &self.request.without(&name))
            else {
                continue;
            };
            let is_used = !matches!(&missing, CallEffect::Patched { objects: after, .. } if after == objects);
            if always_set.contains(&name) && is_used && matches!(missing, CallEffect::Patched { .. }) {
                let message = format!("without the variable {name:?}, the answer is a success with other patches");
                self.warning("RH-23.5", message, way_out);
            }
            let what = format!("with a variable {name:?} of another type");
            let other = self.try_request(&what, &self.request.with_other_type(&name));
            if is_used && matches!(other, Some(CallEffect::Patched { .. })) {
                self.warning("RH-23.5", format!("{what}, the answer is a success"), way_out);
            }
        }
    }

    /// It is unknown which variables a validation reads, so only failed calls count.
    fn variables_of_a_validation(&mut self) {
        for name in self.request.variables().into_iter().take(VARIABLES) {
            self.try_request(&format!("without the variable {name:?}"), &self.request.without(&name));
            self.try_request(
                &format!("with a variable {name:?} of another type"),
                &self.request.with_other_type(&name),
            );
        }
        self.try_request("with templates of an unknown kind", &self.request.with_foreign_kinds());
        self.try_request("with templates in an unknown version", &self.request.with_foreign_versions());
    }

    /// Templates of an unknown kind, or in an unknown version.
    fn check_foreign_templates(&mut self, objects: &[Value]) {
        let kinds = self.request.with_foreign_kinds();
        let way_out = "skip templates of unknown kinds";
        match self.try_request("with templates of an unknown kind", &kinds) {
            Some(CallEffect::Refused(message)) => {
                self.warning(
                    "RH-23.5",
                    format!("templates of an unknown kind got the answer Failure: {message}"),
                    way_out,
                );
            }
            Some(CallEffect::Patched { objects: after, .. }) if after != kinds.objects() => {
                self.error("RH-23.5", "templates of an unknown kind are patched".to_owned(), way_out);
            }
            _ => {}
        }
        let before = self.request.objects();
        let is_patched = |at: &usize| before.get(*at) != objects.get(*at);
        let patched: Vec<usize> = (0..objects.len()).filter(is_patched).collect();
        if patched.is_empty() {
            return;
        }
        let versions = self.request.with_foreign_versions();
        if let Some(CallEffect::Patched { objects: after, .. }) =
            self.try_request("with templates in an unknown version", &versions)
        {
            let before = versions.objects();
            let lost = patched.into_iter().filter(|at| before.get(*at) == after.get(*at));
            let kinds: BTreeSet<&str> = lost.filter_map(|at| before.get(at)?["kind"].as_str()).collect();
            if !kinds.is_empty() {
                let kinds: Vec<&str> = kinds.into_iter().collect();
                let message =
                    format!("in an unknown version, {} gets no patch, and the answer is a success", kinds.join(", "));
                self.warning(
                    "RH-10.4",
                    message,
                    "answer Failure for a known kind in an unknown version: otherwise a class with a newer apiVersion \
                     loses its patches",
                );
            }
        }
    }

    /// The effect of a changed request; `None` without an answer, which is reported as an error.
    fn try_request(&mut self, what: &str, request: &PreparedPatchRequest) -> Option<CallEffect> {
        match request.effect(&(self.send)(request.body())) {
            CallEffect::Failed(problem) => {
                let way_out = "answer Failure with a message; never end the connection, or the process";
                self.error("RH-23.4", format!("{what}, the call failed: {problem}"), way_out);
                None
            }
            effect => Some(effect),
        }
    }
}

fn slow(milliseconds: u64) -> Vec<Finding> {
    let message = format!("a call takes {milliseconds} ms, and should take less than {SLOW} ms");
    let way_out = "keep what does not follow from the request in memory";
    let finding = Finding { level: Level::Warning, rule: "RH-23.5", message, way_out };
    if milliseconds > SLOW { vec![finding] } else { Vec::new() }
}

fn unequal(message: String) -> Finding {
    let way_out = "use no time, no random number and no unordered map in an answer";
    Finding { level: Level::Error, rule: "RH-23.5", message, way_out }
}

/// The first difference of two lists of objects: the object, and the JSON pointer of the field, without values
/// (DEC-34).
fn difference(a: &[Value], b: &[Value]) -> Option<String> {
    let (a, b) = a.iter().zip(b).find(|(a, b)| a != b)?;
    let json_patch::Patch(operations) = json_patch::diff(a, b);
    Some(format!("{} {}", named(a), operations.first().map(|first| first.path().to_string()).unwrap_or_default()))
}

/// Kind and name of a template.
fn named(object: &Value) -> String {
    let text = |value: &Value| cut(value.as_str().unwrap_or_default(), 253).to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Requests with changes.
impl PreparedPatchRequest {
    fn changed(&self, change: impl FnOnce(&mut Value)) -> PreparedPatchRequest {
        let mut request: Value = serde_json::from_str(self.body()).unwrap_or_default();
        change(&mut request);
        self.with_body(request.to_string())
    }

    fn objects(&self) -> Vec<Value> {
        let request: Value = serde_json::from_str(self.body()).unwrap_or_default();
        request["items"].as_array().into_iter().flatten().map(|item| item["object"].clone()).collect()
    }

    fn each_object(&self, change: impl Fn(&mut Value)) -> PreparedPatchRequest {
        self.changed(|request| {
            for item in request["items"].as_array_mut().into_iter().flatten() {
                change(&mut item["object"]);
            }
        })
    }

    fn with_objects(&self, objects: &[Value]) -> PreparedPatchRequest {
        self.changed(|request| {
            for (item, object) in request["items"].as_array_mut().into_iter().flatten().zip(objects) {
                item["object"] = object.clone();
            }
        })
    }

    fn with_foreign_kinds(&self) -> PreparedPatchRequest {
        self.each_object(|object| {
            (object["apiVersion"], object["kind"]) = (json!(FOREIGN_GROUP), json!(FOREIGN_KIND));
        })
    }

    fn with_foreign_versions(&self) -> PreparedPatchRequest {
        self.each_object(|object| {
            let group =
                object["apiVersion"].as_str().and_then(|text| text.split_once('/')).map_or("", |(group, _)| group);
            object["apiVersion"] = json!(format!("{group}/{FOREIGN_VERSION}"));
        })
    }

    /// The variables of all lists, but for `builtin`.
    fn variables(&self) -> BTreeSet<String> {
        let mut request: Value = serde_json::from_str(self.body()).unwrap_or_default();
        let mut names = BTreeSet::new();
        for list in lists(&mut request) {
            names.extend(list.iter().filter_map(|variable| variable["name"].as_str()).map(str::to_owned));
        }
        names.remove("builtin");
        names
    }

    fn without(&self, name: &str) -> PreparedPatchRequest {
        self.changed(|request| {
            lists(request).into_iter().for_each(|list| list.retain(|variable| variable["name"] != name));
        })
    }

    fn with_other_type(&self, name: &str) -> PreparedPatchRequest {
        self.changed(|request| {
            let all = lists(request).into_iter().flatten().filter(|variable| variable["name"] == name);
            all.for_each(|variable| {
                variable["value"] = match &variable["value"] {
                    Value::String(_) => json!({"unexpected": 1}),
                    _ => json!("unexpected"),
                };
            });
        })
    }
}

/// The list of variables of a request, and those of its items.
fn lists(request: &mut Value) -> Vec<&mut Vec<Value>> {
    let Some(members) = request.as_object_mut() else { return Vec::new() };
    let mut lists = Vec::new();
    for (name, member) in members {
        match (&**name, member) {
            ("variables", Value::Array(list)) => lists.push(list),
            ("items", Value::Array(items)) => {
                let of_items = items.iter_mut().filter_map(|item| item.get_mut("variables")?.as_array_mut());
                lists.extend(of_items);
            }
            _ => {}
        }
    }
    lists
}

#[cfg(test)]
mod tests;
