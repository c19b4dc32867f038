//! Conditions in the status of an object, in both forms, as raw JSON, so that other fields of the status stay
//! unchanged.

use serde_json::{Map, Value, json};

use model::hub::condition;

/// The paths of conditions and metadata in an API version.
#[derive(Clone, Copy)]
pub(crate) struct StatusLayout {
    pub(crate) conditions: &'static [&'static str],
    pub(crate) legacy: &'static [&'static str],
    /// The metadata of a variable, in the spec and in the status.
    pub(crate) metadata: &'static str,
}

impl StatusLayout {
    pub(crate) const V1BETA2: StatusLayout = StatusLayout {
        conditions: &["conditions"],
        legacy: &["deprecated", "v1beta1", "conditions"],
        metadata: "deprecatedV1Beta1Metadata",
    };
    pub(crate) const V1BETA1: StatusLayout =
        StatusLayout { conditions: &["v1beta2", "conditions"], legacy: &["conditions"], metadata: "metadata" };
}

/// A condition to set.
pub(crate) struct DesiredCondition {
    pub(crate) r#type: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

pub(crate) fn condition(
    r#type: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
) -> DesiredCondition {
    DesiredCondition { r#type, status, reason, message }
}

/// The conditions of a type in a list of raw conditions; a valid list has at most one.
pub(crate) fn with_type<'a>(conditions: Option<&'a Value>, r#type: &'a str) -> impl Iterator<Item = &'a Value> {
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.filter(move |condition| condition["type"] == r#type)
}

/// Builder for the status of an object.
pub(crate) struct StatusBuilder<'a> {
    pub(crate) layout: StatusLayout,
    pub(crate) generation: i64,
    now: &'a str,
    pub(crate) members: Map<String, Value>,
}

impl<'a> StatusBuilder<'a> {
    /// Starts with the current status of an object.
    pub(crate) fn for_object(object: &Value, layout: StatusLayout, now: &'a str) -> Self {
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let members = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        StatusBuilder { layout, generation, now, members }
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.members)
    }

    /// Sets a condition; its time is that of the last change of its status.
    pub(crate) fn set(&mut self, wanted: &DesiredCondition) {
        let (generation, now) = (self.generation, self.now);
        let Some(entry) = self.entry(self.layout.conditions, wanted.r#type) else { return };
        let since = entry.get("lastTransitionTime").filter(|_| entry.get("status") == Some(&json!(wanted.status)));
        let mut next = json!({
            "type": wanted.r#type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": cut(&wanted.message),
            "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(now)),
        });
        if generation > 0 {
            next["observedGeneration"] = json!(generation);
        }
        *entry = next;
    }

    /// Sets a condition in the v1beta1 form; its time is that of the last change of any field. Empty texts are omitted.
    pub(crate) fn set_legacy(&mut self, wanted: &DesiredCondition, severity: Option<&str>) {
        let now = self.now;
        let Some(entry) = self.entry(self.layout.legacy, wanted.r#type) else { return };
        let message = cut(&wanted.message);
        let texts = [("severity", severity.unwrap_or_default()), ("reason", wanted.reason), ("message", &*message)];
        let mut next = json!({"type": wanted.r#type, "status": wanted.status});
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            next[name] = json!(text);
        }
        let names = ["status", "severity", "reason", "message"];
        let same = names.iter().all(|name| entry.get(name) == next.get(name));
        let since = entry.get("lastTransitionTime").filter(|_| same).cloned();
        next["lastTransitionTime"] = since.unwrap_or_else(|| json!(now));
        *entry = next;
    }

    /// The condition of a type in the list at a path, created if it is missing; `None` if a value of another type is in
    /// the way.
    fn entry(&mut self, path: &[&str], r#type: &str) -> Option<&mut Value> {
        let (name, way) = path.split_last()?;
        let mut members = &mut self.members;
        for step in way {
            members = present(members, step, json!({})).as_object_mut()?;
        }
        let list = present(members, name, json!([])).as_array_mut()?;
        let at = list.iter().position(|entry| entry.get("type").is_some_and(|found| found == r#type));
        let at = at.unwrap_or_else(|| {
            list.push(json!({}));
            list.len() - 1
        });
        list.get_mut(at)
    }
}

/// A member, created if it is missing or null.
pub(crate) fn present<'a>(members: &'a mut Map<String, Value>, name: &str, new: Value) -> &'a mut Value {
    let member = members.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = new;
    }
    member
}

/// Maximum length of a condition's message in both forms (F-OLDCOND). The limit is in characters; counting bytes is
/// stricter.
pub(crate) const MESSAGE_BYTES: usize = condition::LEGACY_MESSAGE;

/// A message in plain characters, truncated to the maximum length.
pub(crate) fn cut(text: &str) -> String {
    condition::message(text, MESSAGE_BYTES).into_owned()
}
