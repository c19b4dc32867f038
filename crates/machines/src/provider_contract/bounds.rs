//! Bounds of the endpoint of infrastructure clusters (CT-6.2).

use serde_json::Value;

use super::field_types::{FieldLookup, find};
use super::finding::ContractFinding;
use model::hub::contract::Contract::{self, V1Beta1, V1Beta2};

const RULE: &str = "CT-6.2";

/// Bounds of an endpoint field.
struct EndpointBounds {
    path: &'static str,
    json_type: &'static str,
    /// Keyword and value of the minimum.
    least: (&'static str, i64),
    /// Keyword and value of the maximum.
    most: (&'static str, i64),
    /// The value that the schema must accept in contract v1beta1 while the endpoint is unknown.
    zero: &'static str,
}

const ENDPOINT: [EndpointBounds; 2] = [
    EndpointBounds {
        path: "spec.controlPlaneEndpoint.host",
        json_type: "string",
        least: ("minLength", 1),
        most: ("maxLength", 512),
        zero: "an empty host",
    },
    EndpointBounds {
        path: "spec.controlPlaneEndpoint.port",
        json_type: "integer",
        least: ("minimum", 1),
        most: ("maximum", 65535),
        zero: "the port 0",
    },
];

/// Compares the bounds in the schema of an infrastructure cluster with those of the contract.
pub(super) fn check(schema: &Value, contract: Contract) -> Vec<ContractFinding> {
    let known = ENDPOINT.iter().filter_map(|bounds| match find(schema, bounds.path) {
        FieldLookup::Known(node) if node.get("type").and_then(Value::as_str) == Some(bounds.json_type) => {
            Some((bounds, node))
        }
        FieldLookup::Known(_) | FieldLookup::Open | FieldLookup::Missing => None,
    });
    let finding = |(bounds, node): (&EndpointBounds, &Value)| match contract {
        V1Beta1 => bounds.refuses_zero(node),
        V1Beta2 => bounds.differ(node),
    };
    known.filter_map(finding).collect()
}

impl EndpointBounds {
    /// In contract v1beta1 both fields are always written, so the schema must accept their values before the endpoint
    /// is known.
    fn refuses_zero(&self, node: &Value) -> Option<ContractFinding> {
        (least(node, self.least.0)? > 0).then(|| {
            let message =
                format!("the schema refuses {}, which contract v1beta1 has until the endpoint is known", self.zero);
            let remediation = format!("remove {} from the field", self.least.0);
            ContractFinding::warning(RULE, self.path, message).with_remediation(remediation)
        })
    }

    fn differ(&self, node: &Value) -> Option<ContractFinding> {
        let (found, wanted) = (self.read_bounds(node), (Some(self.least.1), Some(self.most.1)));
        if found == wanted {
            return None;
        }
        let unit = if self.least.0 == "minLength" { " characters" } else { "" };
        let message = format!(
            "the schema {}, but the contract has {} to {}{unit}",
            accepted(found, unit),
            self.least.1,
            self.most.1
        );
        let remediation = format!("set {} to {} and {} to {}", self.least.0, self.least.1, self.most.0, self.most.1);
        Some(ContractFinding::warning(RULE, self.path, message).with_remediation(remediation))
    }

    fn read_bounds(&self, node: &Value) -> (Option<i64>, Option<i64>) {
        (least(node, self.least.0), most(node, self.most.0))
    }
}

/// Description of the values that bounds accept.
fn accepted(bounds: (Option<i64>, Option<i64>), unit: &str) -> String {
    match bounds {
        (None, None) => "has no bounds".to_owned(),
        (Some(least), None) => format!("accepts {least}{unit} or more"),
        (None, Some(most)) => format!("accepts up to {most}{unit}"),
        (Some(least), Some(most)) => format!("accepts {least} to {most}{unit}"),
    }
}

fn is_exclusive(node: &Value, keyword: &str) -> bool {
    node.get(keyword) == Some(&Value::Bool(true))
}

/// The smallest integer that a schema accepts.
fn least(node: &Value, keyword: &str) -> Option<i64> {
    let bound = node.get(keyword)?.as_i64()?;
    Some(bound.saturating_add(i64::from(keyword == "minimum" && is_exclusive(node, "exclusiveMinimum"))))
}

/// The largest integer that a schema accepts.
fn most(node: &Value, keyword: &str) -> Option<i64> {
    let bound = node.get(keyword)?.as_i64()?;
    Some(bound.saturating_sub(i64::from(keyword == "maximum" && is_exclusive(node, "exclusiveMaximum"))))
}
