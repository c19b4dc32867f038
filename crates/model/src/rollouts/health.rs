//! Detects changes of a MachineHealthCheck that make healthy machines unhealthy (ROLL-17).

use serde_json::Value;

/// Default node startup timeout of a health check, in seconds.
const NODE_STARTUP_TIMEOUT: i64 = 600;

/// Whether the new value at a path of a MachineHealthCheck can make more machines unhealthy than the old one.
pub fn is_stricter(path: &str, from: Option<&Value>, to: Option<&Value>) -> bool {
    if path.ends_with("nodeStartupTimeoutSeconds") {
        let seconds = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(NODE_STARTUP_TIMEOUT);
        // 0 disables the check.
        return seconds(to) != 0 && (seconds(from) == 0 || seconds(to) < seconds(from));
    }
    if path.ends_with("timeoutSeconds") {
        return from.and_then(Value::as_i64) > to.and_then(Value::as_i64);
    }
    match to {
        Some(Value::Array(conditions)) if path.contains("unhealthy") => {
            let old = from.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            conditions.iter().any(|condition| !old.iter().any(|old| covers(old, condition)))
        }
        Some(Value::Object(members)) => members
            .iter()
            .any(|(name, to)| is_stricter(&format!("{path}.{name}"), from.and_then(|from| from.get(name)), Some(to))),
        _ => false,
    }
}

/// Whether every machine that is unhealthy by `condition` is also unhealthy by `old`.
fn covers(old: &Value, condition: &Value) -> bool {
    let timeout = |condition: &Value| condition["timeoutSeconds"].as_i64().unwrap_or_default();
    old["type"] == condition["type"] && old["status"] == condition["status"] && timeout(old) <= timeout(condition)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shorter_timeouts_and_more_conditions_are_stricter() {
        // ROLL-17
        let ready = |seconds: i64| json!({"type": "Ready", "status": "False", "timeoutSeconds": seconds});
        let conditions = "spec.checks.unhealthyNodeConditions";
        let startup = "spec.checks.nodeStartupTimeoutSeconds";
        for (path, from, to, want) in [
            (conditions, json!([ready(300)]), json!([ready(60)]), true),
            (conditions, json!([ready(60)]), json!([ready(300)]), false),
            (conditions, json!([ready(60)]), json!([]), false),
            (conditions, json!([]), json!([ready(60)]), true),
            (conditions, json!(null), json!([ready(60)]), true),
            ("spec.checks", json!({}), json!({"unhealthyMachineConditions": [ready(1)]}), true),
            (startup, json!(900), json!(60), true),
            (startup, json!(null), json!(60), true),
            (startup, json!(null), json!(900), false),
            (startup, json!(60), json!(0), false),
            (startup, json!(0), json!(900), true),
            ("spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", json!("10%"), json!("90%"), false),
        ] {
            assert_eq!(is_stricter(path, Some(&from), Some(&to)), want, "{path}: {from} to {to}");
        }
    }
}
