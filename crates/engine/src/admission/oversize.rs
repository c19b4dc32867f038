//! Objects that are too large to decode (DEC-44): each JSON object takes some hundred bytes once it is decoded, which
//! precedes all other checks.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{AdmissionSettings, Verdict};
use golang::json::JsonSize;
use model::hub::Kind;
use schema::field::{Findings, Path};

/// Maximum size of the spec or the metadata of an object.
const MOST: JsonSize = JsonSize { objects: 25_000, values: 250_000 };

/// Maximum size of a status, which repeats the variables of a class.
const MOST_OF_STATUS: JsonSize = JsonSize { objects: 40_000, values: 400_000 };

/// The part of an object that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// The top-level field.
    pub part: &'static str,
    size: JsonSize,
    most: JsonSize,
}

impl Oversize {
    /// The first part of an object that is too large, if any. `managedFields` do not count, since they are not decoded.
    pub fn find(text: &str) -> Option<Oversize> {
        // Most texts are too short to exceed the limit.
        let whole = || JsonSize::measure(text);
        if text.len() <= MOST.objects || !whole().exceeds(MOST) {
            return None;
        }
        let Ok(parts) = serde_json::from_str::<ObjectParts<'_>>(text) else {
            return Some(Oversize { part: "", size: whole(), most: MOST });
        };
        let managed =
            parts.metadata.and_then(|metadata| serde_json::from_str::<ManagedMetadata<'_>>(metadata.get()).ok());
        let managed = size(managed.and_then(|metadata| metadata.managed_fields));
        [
            ("metadata", size(parts.metadata).without(managed), MOST),
            ("spec", size(parts.spec), MOST),
            ("status", size(parts.status), MOST_OF_STATUS),
        ]
        .into_iter()
        .find(|(_, size, most)| size.exceeds(*most))
        .map(|(part, size, most)| Oversize { part, size, most })
    }

    /// Whether the same part of the stored object was at least as large. Controllers write the status, so a large
    /// status does not exempt other parts.
    pub(super) fn is_as_before(&self, before: &Oversize) -> bool {
        self.part == before.part && self.part != "status" && !self.size.exceeds(before.size)
    }

    /// The problem, without the name of the part.
    pub fn reason(&self) -> String {
        let (has, what, most) = match self.size.objects > self.most.objects {
            true => (self.size.objects, "objects", self.most.objects),
            false => (self.size.values, "values", self.most.values),
        };
        format!("has {has} JSON {what}, and the limit is {most}; make its lists and schemas smaller")
    }

    /// The verdict on an object that was as large before, or was not.
    pub(super) fn verdict(&self, kind: Kind, as_before: bool, settings: &AdmissionSettings) -> Verdict {
        let mut found = Findings::without(settings.silenced);
        found.run("DEC-44", |found| match as_before {
            true => found.warn_about(
                Path::new(self.part),
                format!("{} {}, as before; nothing else is checked", self.part, self.reason()),
            ),
            false => found.invalid(Path::new(self.part), "", self.reason()),
        });
        Verdict::from_findings(kind, found)
    }
}

fn size(part: Option<&RawValue>) -> JsonSize {
    part.map_or(JsonSize::default(), |part| JsonSize::measure(part.get()))
}

#[derive(Deserialize)]
struct ObjectParts<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedMetadata<'a> {
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Option<&'static str> {
        Oversize::find(text).map(|oversize| oversize.part)
    }

    fn list(entry: &str, count: usize) -> String {
        vec![entry; count].join(",")
    }

    #[test]
    fn each_part_is_counted_separately_and_managed_fields_are_not() {
        // DEC-44
        let many = 25_001;
        for (text, want) in [
            (format!(r#"{{"spec":{{"a":[{}]}}}}"#, list("{}", many)), Some("spec")),
            (format!(r#"{{"spec":{{"a":[{}]}}}}"#, list("null", many)), Some("spec")),
            (format!(r#"{{"spec":{{"a":[{}]}}}}"#, list("0", 250_001)), Some("spec")),
            (format!(r#"{{"spec":{{"a":[{}]}}}}"#, list("0", 249_000)), None),
            (format!(r#"{{"spec":{{"a":"{}"}}}}"#, "{{}}".repeat(many)), None),
            (format!(r#"{{"metadata":{{"managedFields":[{}]}},"spec":{{}}}}"#, list("{}", many)), None),
            (format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, list("{}", many)), Some("metadata")),
            (format!(r#"{{"spec":[{0}],"status":[{0}]}}"#, list("{}", 20_000)), None),
            (format!(r#"{{"status":[{}]}}"#, list("{}", 40_001)), Some("status")),
            (format!("[{}]", list("{}", many)), Some("")),
        ] {
            assert_eq!(part(&text), want, "{}", &text[..40]);
        }
        let reason = Oversize::find(&format!(r#"{{"spec":[{}]}}"#, list("{}", many))).unwrap().reason();
        assert!(reason.starts_with("has 25001 JSON objects, and the limit is 25000;"), "{reason}");
    }

    #[test]
    fn an_object_that_was_too_large_may_not_grow() {
        // DEC-44
        let of = |part: &str, objects: usize, values: usize| {
            let text = format!(r#"{{"{part}":[{},{}]}}"#, list("{}", objects), list("0", values));
            Oversize::find(&text).unwrap()
        };
        let before = of("spec", 50_000, 1_000);
        for (after, want) in [
            (of("spec", 50_000, 1_000), true),
            (of("spec", 49_999, 1_000), true),
            (of("spec", 50_001, 1_000), false),
            (of("spec", 50_000, 1_001), false),
            (of("metadata", 50_000, 1_000), false),
        ] {
            assert_eq!(after.is_as_before(&before), want, "{after:?}");
        }
        assert!(!of("status", 50_000, 1).is_as_before(&of("status", 50_000, 1)));
    }
}
