//! Startup delays of the parts of a machine: from its spec or from the settings (CT-19.4).

use core::time::Duration;

use crate::lifecycle::fields::text;
use crate::lifecycle::names::fraction;
use crate::lifecycle::settings::{MachineSettings, read_duration};
use model::hub::Object;

/// On infrastructure machines: all parts have started once, and do not take time again (CT-19.7).
pub(super) const BOOTSTRAPPED: &str = "lifecycle.topologist.dev/bootstrapped";

/// The field of a spec with the part of a delay that follows from the uid of the object.
pub const STARTUP_JITTER: &str = "startupJitter";

/// How long something takes to start: what the settings say, if they fix the timing of that name; else
/// `startupDuration` at a path of the spec, and a part of it more by `startupJitter`; else what the settings say.
/// Nothing takes time again in a machine that was up once (CT-19.7). The jitter follows from the uid, and the clock is
/// an argument, so that runs can be repeated (CT-19.13).
pub(super) fn delay(
    settings: &MachineSettings,
    object: &Object,
    path: &str,
    (name, otherwise): (&str, Duration),
) -> Duration {
    if object.annotation(BOOTSTRAPPED).is_some() {
        return Duration::ZERO;
    }
    if settings.fixed.contains(name) {
        return otherwise;
    }
    let provisioning = |name: &str| text(object, &format!("{path}.provisioning.{name}"));
    let Some(least) = read_duration(provisioning("startupDuration")) else { return otherwise };
    let jitter = provisioning(STARTUP_JITTER).parse::<f64>().unwrap_or_default();
    let part = jitter.clamp(0.0, 1.0) * fraction(&format!("{}/{path}", object.uid()));
    least + least.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_spec_wins_over_the_settings_and_jitter_adds_a_part_of_it() {
        // CT-19.4, CT-19.7, CT-19.13
        let machine = |provisioning: serde_json::Value, annotations: serde_json::Value| {
            let metadata = json!({"uid": "u", "annotations": annotations});
            let spec = json!({"backend": {"inMemory": {"vm": {"provisioning": provisioning}}}});
            Object::try_from(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let by = |settings: &MachineSettings, object: &Object| {
            let otherwise = ("infrastructure", Duration::from_secs(20));
            delay(settings, object, "spec.backend.inMemory.vm", otherwise).as_secs_f64()
        };
        let seconds = |object: &Object| by(&MachineSettings::default(), object);
        assert!((seconds(&machine(json!({}), json!({}))) - 20.0).abs() < 1e-9, "as the settings say");
        let slow = json!({"startupDuration": "1m"});
        assert!((seconds(&machine(slow.clone(), json!({}))) - 60.0).abs() < 1e-9, "as the spec says");
        let fixed = MachineSettings { fixed: ["infrastructure".to_owned()].into(), ..MachineSettings::default() };
        assert!((by(&fixed, &machine(slow.clone(), json!({}))) - 20.0).abs() < 1e-9, "the settings fix it");
        let jittery = json!({"startupDuration": "1m", "startupJitter": "0.5"});
        let with_jitter = seconds(&machine(jittery.clone(), json!({})));
        assert!(with_jitter > 60.0 && with_jitter <= 90.0, "{with_jitter}");
        assert!((with_jitter - seconds(&machine(jittery, json!({})))).abs() < 1e-9, "the same each time");
        assert!(seconds(&machine(slow, json!({BOOTSTRAPPED: ""}))) < 1e-9, "it was up once");
    }
}
