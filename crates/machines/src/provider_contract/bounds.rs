//! What an endpoint of infrastructure clusters accepts (CT-6.2).

use serde_json::Value;

use super::finding::Finding;
use super::holds::{Place, find};
use model::hub::contract::Contract::{self, V1Beta1, V1Beta2};

const RULE: &str = "CT-6.2";

/// The bounds of a field of the endpoint.
struct Bounds {
    path: &'static str,
    json_type: &'static str,
    /// The keyword for the least value, and the value.
    least: (&'static str, i64),
    /// The keyword for the greatest value, and the value.
    most: (&'static str, i64),
    /// What the schema must accept in contract v1beta1 as long as the endpoint is unknown.
    zero: &'static str,
}

const ENDPOINT: [Bounds; 2] = [
    Bounds {
        path: "spec.controlPlaneEndpoint.host",
        json_type: "string",
        least: ("minLength", 1),
        most: ("maxLength", 512),
        zero: "an empty host",
    },
    Bounds {
        path: "spec.controlPlaneEndpoint.port",
        json_type: "integer",
        least: ("minimum", 1),
        most: ("maximum", 65535),
        zero: "the port 0",
    },
];

/// Compares the bounds in the schema of an infrastructure cluster with those of the contract.
pub(super) fn check(schema: &Value, contract: Contract) -> Vec<Finding> {
    let known = ENDPOINT.iter().filter_map(|bounds| match find(schema, bounds.path) {
        Place::Known(node) if node.get("type").and_then(Value::as_str) == Some(bounds.json_type) => {
            Some((bounds, node))
        }
        Place::Known(_) | Place::Open | Place::Missing => None,
    });
    let finding = |(bounds, node): (&Bounds, &Value)| match contract {
        V1Beta1 => bounds.refuses_zero(node),
        V1Beta2 => bounds.differ(node),
    };
    known.filter_map(finding).collect()
}

impl Bounds {
    /// Both fields are always written in contract v1beta1, so the schema accepts what they hold before the endpoint is known.
    fn refuses_zero(&self, node: &Value) -> Option<Finding> {
        (least(node, self.least.0)? > 0).then(|| {
            let message =
                format!("the schema refuses {}, which contract v1beta1 has until the endpoint is known", self.zero);
            let way_out = format!("remove {} from the field", self.least.0);
            Finding::warning(RULE, self.path, message).way_out(way_out)
        })
    }

    fn differ(&self, node: &Value) -> Option<Finding> {
        let (found, wanted) = (self.of(node), (Some(self.least.1), Some(self.most.1)));
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
        let way_out = format!("set {} to {} and {} to {}", self.least.0, self.least.1, self.most.0, self.most.1);
        Some(Finding::warning(RULE, self.path, message).way_out(way_out))
    }

    fn of(&self, node: &Value) -> (Option<i64>, Option<i64>) {
        (least(node, self.least.0), most(node, self.most.0))
    }
}

/// What a schema with these bounds accepts.
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

/// The least whole number that a schema accepts.
fn least(node: &Value, keyword: &str) -> Option<i64> {
    let bound = node.get(keyword)?.as_i64()?;
    Some(bound.saturating_add(i64::from(keyword == "minimum" && is_exclusive(node, "exclusiveMinimum"))))
}

/// The greatest whole number that a schema accepts.
fn most(node: &Value, keyword: &str) -> Option<i64> {
    let bound = node.get(keyword)?.as_i64()?;
    Some(bound.saturating_sub(i64::from(keyword == "maximum" && is_exclusive(node, "exclusiveMaximum"))))
}
