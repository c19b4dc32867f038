//! Objects in the protobuf form of Kubernetes, which clients choose for built-in kinds, as in `kubectl create
//! namespace`. Only requests are decoded; responses are always JSON, which those clients accept as well.
//!
//! ```text
//! "k8s\0" ─► Unknown { typeMeta { apiVersion, kind }, raw } ─► the message of that kind ─► JSON
//! ```
//!
//! Field numbers are those of the published `generated.proto` files. Go writes non-optional fields even when empty, so
//! an empty value counts as absent, except where a field is optional.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The media type.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// Reasons why bytes are not an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtobufError {
    #[error("the body does not begin as a protobuf body of Kubernetes does")]
    NoMagic,
    #[error("the body ends in the middle of a field, or has one of another type")]
    Broken,
    #[error("{0} is not read from protobuf")]
    UnknownKind(String),
}

/// A field of a message.
#[derive(Clone, Copy)]
struct MessageField {
    number: u64,
    name: &'static str,
    r#type: FieldKind,
    /// Whether it may be repeated.
    is_list: bool,
    /// Whether an empty value differs from an absent one.
    is_optional: bool,
}

/// Type of a field.
#[derive(Clone, Copy)]
enum FieldKind {
    Text,
    Bytes,
    Number,
    Flag,
    /// A timestamp; the flag selects microseconds.
    Time(bool),
    Message(&'static [MessageField]),
    /// A map with strings or bytes as values.
    Map(&'static [MessageField]),
    /// JSON in the only field of a message.
    Json,
}

use FieldKind::{Bytes, Flag, Json, Message, Number, Text, Time};

const fn field(number: u64, name: &'static str, r#type: FieldKind) -> MessageField {
    MessageField { number, name, r#type, is_list: false, is_optional: false }
}

const fn optional(number: u64, name: &'static str, r#type: FieldKind) -> MessageField {
    MessageField { is_optional: true, ..field(number, name, r#type) }
}

const fn list(number: u64, name: &'static str, r#type: FieldKind) -> MessageField {
    MessageField { is_list: true, ..field(number, name, r#type) }
}

/// Decodes the object in a body.
///
/// # Errors
/// When the body is invalid, or its kind has no protobuf form.
pub(super) fn object(body: &[u8]) -> Result<Value, ProtobufError> {
    let wrapped = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut kind, mut raw) = (Map::new(), &[][..]);
    for item in MessageFields(wrapped) {
        match item? {
            (1, Wire::Bytes(bytes)) => kind = message(bytes, TYPE_META)?,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let text = |name: &str| kind.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields = match (text("apiVersion"), text("kind")) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "Event") => EVENT,
        ("events.k8s.io/v1", "Event") => NEWER_EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => RULES_REVIEW,
        ("authentication.k8s.io/v1", "SelfSubjectReview") => &[],
        (_, "DeleteOptions") => DELETE_OPTIONS,
        (version, kind) => return Err(ProtobufError::UnknownKind(format!("{kind} in {version}"))),
    };
    let mut object = message(raw, fields)?;
    object.extend(kind);
    Ok(Value::Object(object))
}

/// A value in wire format.
#[derive(Clone, Copy)]
enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    /// A wire type that is not used here.
    Other,
}

/// Iterator over the fields of a message.
struct MessageFields<'b>(&'b [u8]);

impl<'b> MessageFields<'b> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self, length: u64) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn item(&mut self) -> Option<(u64, Wire<'b>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => self.bytes(8).map(|_| Wire::Other)?,
            2 => {
                let length = self.number()?;
                Wire::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Wire::Other)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'b> Iterator for MessageFields<'b> {
    type Item = Result<(u64, Wire<'b>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = self.item();
        if item.is_none() {
            self.0 = &[];
        }
        Some(item.ok_or(ProtobufError::Broken))
    }
}

fn message(bytes: &[u8], fields: &[MessageField]) -> Result<Map<String, Value>, ProtobufError> {
    let mut members = Map::new();
    for item in MessageFields(bytes) {
        let (number, wire) = item?;
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        if let (FieldKind::Map(entry), Wire::Bytes(bytes)) = (field.r#type, wire) {
            let mut entry = message(bytes, entry)?;
            let key = entry.remove("key").and_then(|key| key.as_str().map(str::to_owned)).unwrap_or_default();
            members.entry(field.name).or_insert_with(|| json!({}))[key] =
                entry.remove("value").unwrap_or_else(|| json!(""));
            continue;
        }
        let value = value(field, wire)?;
        if field.is_list {
            if let Value::Array(elements) = members.entry(field.name).or_insert_with(|| json!([])) {
                elements.push(value);
            }
        } else if field.is_optional || !is_empty(&value) {
            members.insert(field.name.to_owned(), value);
        }
    }
    Ok(members)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[allow(clippy::cast_possible_wrap, reason = "negative numbers are sent as their two's complement")]
fn value(field: &MessageField, wire: Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match (field.r#type, wire) {
        (Text, Wire::Bytes(bytes)) => json!(str::from_utf8(bytes).map_err(|_| ProtobufError::Broken)?),
        (Bytes, Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        (Number, Wire::Number(number)) => json!(number as i64),
        (Flag, Wire::Number(number)) => json!(number != 0),
        (Time(_), Wire::Bytes([])) => Value::Null,
        (Time(micros), Wire::Bytes(bytes)) => json!(moment(&message(bytes, MOMENT)?, micros)?),
        (Message(fields), Wire::Bytes(bytes)) => Value::Object(message(bytes, fields)?),
        (Json, Wire::Bytes(bytes)) => {
            let raw = MessageFields(bytes).find_map(|item| match item {
                Ok((1, Wire::Bytes(raw))) => Some(raw),
                _ => None,
            });
            serde_json::from_slice(raw.unwrap_or(b"{}")).map_err(|_| ProtobufError::Broken)?
        }
        _ => return Err(ProtobufError::Broken),
    })
}

fn moment(parts: &Map<String, Value>, micros: bool) -> Result<String, ProtobufError> {
    let part = |name: &str| parts.get(name).and_then(Value::as_i64).unwrap_or_default();
    let nanos = i32::try_from(part("nanos")).map_err(|_| ProtobufError::Broken)?;
    let moment = Timestamp::new(part("seconds"), nanos).map_err(|_| ProtobufError::Broken)?;
    let format = if micros { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(moment.strftime(format).to_string())
}

const TYPE_META: &[MessageField] = &[field(1, "apiVersion", Text), field(2, "kind", Text)];
const MOMENT: &[MessageField] = &[field(1, "seconds", Number), field(2, "nanos", Number)];
const TEXTS: FieldKind = FieldKind::Map(&[optional(1, "key", Text), optional(2, "value", Text)]);
const DATA: FieldKind = FieldKind::Map(&[optional(1, "key", Text), optional(2, "value", Bytes)]);

const METADATA: FieldKind = Message(&[
    field(1, "name", Text),
    field(2, "generateName", Text),
    field(3, "namespace", Text),
    field(5, "uid", Text),
    field(6, "resourceVersion", Text),
    field(7, "generation", Number),
    field(8, "creationTimestamp", Time(false)),
    field(9, "deletionTimestamp", Time(false)),
    optional(10, "deletionGracePeriodSeconds", Number),
    field(11, "labels", TEXTS),
    field(12, "annotations", TEXTS),
    list(13, "ownerReferences", OWNER),
    list(14, "finalizers", Text),
    list(17, "managedFields", MANAGED),
]);
const OWNER: FieldKind = Message(&[
    field(5, "apiVersion", Text),
    field(1, "kind", Text),
    field(3, "name", Text),
    field(4, "uid", Text),
    optional(6, "controller", Flag),
    optional(7, "blockOwnerDeletion", Flag),
]);
const MANAGED: FieldKind = Message(&[
    field(1, "manager", Text),
    field(2, "operation", Text),
    field(3, "apiVersion", Text),
    field(4, "time", Time(false)),
    field(6, "fieldsType", Text),
    field(7, "fieldsV1", Json),
    field(8, "subresource", Text),
]);
const REFERENCE: FieldKind = Message(&[
    field(1, "kind", Text),
    field(2, "namespace", Text),
    field(3, "name", Text),
    field(4, "uid", Text),
    field(5, "apiVersion", Text),
    field(6, "resourceVersion", Text),
    field(7, "fieldPath", Text),
]);

const NAMESPACE: &[MessageField] = &[
    field(1, "metadata", METADATA),
    field(2, "spec", Message(&[list(1, "finalizers", Text)])),
    field(3, "status", Message(&[field(1, "phase", Text)])),
];
const CONFIG_MAP: &[MessageField] = &[
    field(1, "metadata", METADATA),
    field(2, "data", TEXTS),
    field(3, "binaryData", DATA),
    optional(4, "immutable", Flag),
];
const SECRET: &[MessageField] = &[
    field(1, "metadata", METADATA),
    field(2, "data", DATA),
    field(3, "type", Text),
    field(4, "stringData", TEXTS),
    optional(5, "immutable", Flag),
];
const SERVICE_ACCOUNT: &[MessageField] = &[
    field(1, "metadata", METADATA),
    list(2, "secrets", REFERENCE),
    list(3, "imagePullSecrets", Message(&[field(1, "name", Text)])),
    optional(4, "automountServiceAccountToken", Flag),
];
const SERIES: FieldKind = Message(&[field(1, "count", Number), field(2, "lastObservedTime", Time(true))]);
const SOURCE: FieldKind = Message(&[field(1, "component", Text), field(2, "host", Text)]);
const EVENT: &[MessageField] = &[
    field(1, "metadata", METADATA),
    field(2, "involvedObject", REFERENCE),
    field(3, "reason", Text),
    field(4, "message", Text),
    field(5, "source", SOURCE),
    field(6, "firstTimestamp", Time(false)),
    field(7, "lastTimestamp", Time(false)),
    field(8, "count", Number),
    field(9, "type", Text),
    field(10, "eventTime", Time(true)),
    field(11, "series", SERIES),
    field(12, "action", Text),
    field(13, "related", REFERENCE),
    field(14, "reportingComponent", Text),
    field(15, "reportingInstance", Text),
];
const NEWER_EVENT: &[MessageField] = &[
    field(1, "metadata", METADATA),
    field(2, "eventTime", Time(true)),
    field(3, "series", SERIES),
    field(4, "reportingController", Text),
    field(5, "reportingInstance", Text),
    field(6, "action", Text),
    field(7, "reason", Text),
    field(8, "regarding", REFERENCE),
    field(9, "related", REFERENCE),
    field(10, "note", Text),
    field(11, "type", Text),
    field(12, "deprecatedSource", SOURCE),
    field(13, "deprecatedFirstTimestamp", Time(false)),
    field(14, "deprecatedLastTimestamp", Time(false)),
    field(15, "deprecatedCount", Number),
];
const LEASE: &[MessageField] = &[
    field(1, "metadata", METADATA),
    field(
        2,
        "spec",
        Message(&[
            optional(1, "holderIdentity", Text),
            optional(2, "leaseDurationSeconds", Number),
            field(3, "acquireTime", Time(true)),
            field(4, "renewTime", Time(true)),
            optional(5, "leaseTransitions", Number),
            optional(6, "strategy", Text),
            optional(7, "preferredHolder", Text),
        ]),
    ),
];
const ACCESS_REVIEW: &[MessageField] = &[field(
    2,
    "spec",
    Message(&[
        field(
            1,
            "resourceAttributes",
            Message(&[
                field(1, "namespace", Text),
                field(2, "verb", Text),
                field(3, "group", Text),
                field(4, "version", Text),
                field(5, "resource", Text),
                field(6, "subresource", Text),
                field(7, "name", Text),
            ]),
        ),
        field(2, "nonResourceAttributes", Message(&[field(1, "path", Text), field(2, "verb", Text)])),
    ]),
)];
const RULES_REVIEW: &[MessageField] = &[field(2, "spec", Message(&[field(1, "namespace", Text)]))];
const DELETE_OPTIONS: &[MessageField] = &[
    optional(1, "gracePeriodSeconds", Number),
    field(2, "preconditions", Message(&[optional(1, "uid", Text), optional(2, "resourceVersion", Text)])),
    optional(3, "orphanDependents", Flag),
    optional(4, "propagationPolicy", Text),
    list(5, "dryRun", Text),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with bytes.
    fn part(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    /// A field with a multi-byte number.
    fn large(field: u8, mut value: u64) -> Vec<u8> {
        let mut bytes = vec![field << 3];
        while value > 0x7f {
            bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).unwrap());
        bytes
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [part(1, api_version.as_bytes()), part(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), part(1, &type_meta), part(2, raw), part(3, b""), part(4, b"")].concat()
    }

    #[test]
    fn a_protobuf_object_is_read_like_a_json_object() {
        let label = part(11, &[part(1, b"a"), part(2, b"b")].concat());
        let owner = part(13, &[part(1, b"Thing"), part(3, b"t"), number(6, 0)].concat());
        let metadata = [part(1, b"n"), part(2, b""), number(7, 0), part(8, b""), label, owner, part(14, b"f")].concat();
        let secret =
            [part(1, &metadata), part(2, &[part(1, b"k"), part(2, b"\xff")].concat()), part(3, b""), number(5, 0)];
        let want = json!({"apiVersion": "v1", "kind": "Secret", "immutable": false, "data": {"k": "/w=="},
            "metadata": {"name": "n", "labels": {"a": "b"}, "finalizers": ["f"],
                "ownerReferences": [{"kind": "Thing", "name": "t", "controller": false}]}});
        assert_eq!(object(&body("v1", "Secret", &secret.concat())), Ok(want));

        let moment = [large(1, 1_893_456_000), large(2, 500_000_000)].concat();
        let spec = [part(1, b""), number(5, 0), part(4, &moment), part(3, b"")].concat();
        let lease = object(&body("coordination.k8s.io/v1", "Lease", &part(2, &spec))).unwrap();
        let want = json!({"holderIdentity": "", "leaseTransitions": 0, "renewTime": "2030-01-01T00:00:00.500000Z"});
        assert_eq!(lease["spec"], want);
    }

    #[test]
    fn malformed_protobuf_is_an_error_and_no_panic() {
        assert_eq!(object(b"{}"), Err(ProtobufError::NoMagic));
        assert!(matches!(object(&body("apps/v1", "Deployment", b"")), Err(ProtobufError::UnknownKind(_))));
        let whole = body("v1", "Namespace", &part(1, &part(1, b"name")));
        assert!(object(&whole).is_ok());
        for end in MAGIC.len()..whole.len() {
            let _ = object(&whole[..end]);
            let mut odd = whole.clone();
            odd[end] ^= 0xff;
            let _ = object(&odd);
        }
        let length = [MAGIC, &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]].concat();
        assert_eq!(object(&length), Err(ProtobufError::Broken));
        assert_eq!(object(&body("v1", "Namespace", &number(1, 1))), Err(ProtobufError::Broken));
    }
}
