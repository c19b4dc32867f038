//! Versions in control plane objects of any provider (CT-5.14, CT-10.4 to CT-10.6).

use serde_json::Value;

use super::{Object, WrongType};
use crate::hub::paths;
use golang::version::{BuildOrder, KubeVersion, VersionError, VersionText};

/// Reasons why the versions of a control plane are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnclearVersion {
    #[error(transparent)]
    WrongType(#[from] WrongType),
    #[error("{object}: {path} is missing")]
    Missing { object: String, path: String },
    #[error("{object}: {path} {text:?} is not a version: {reason}")]
    NoVersion { object: String, path: String, text: String, reason: VersionError },
    #[error("{object}: status.versions[{index}] is lower than the version before it")]
    NotInOrder { object: String, index: usize },
    #[error("{object}: status.versions[{index}].replicas is negative")]
    NegativeReplicas { object: String, index: usize },
}

/// The version at a path such as `spec.version` (UP-03).
///
/// # Errors
/// When it is absent or invalid.
pub fn version_at(object: &Object, path: &str) -> Result<KubeVersion, UnclearVersion> {
    version_text_at(object, path).map(KubeVersion::from)
}

/// The version at a path, with its text.
///
/// # Errors
/// When it is absent or invalid.
pub fn version_text_at(object: &Object, path: &str) -> Result<VersionText, UnclearVersion> {
    let text = object.text(path)?.filter(|text| !text.is_empty());
    let missing = || UnclearVersion::Missing { object: name_of(object), path: path.to_owned() };
    parsed(object, path, text.ok_or_else(missing)?)
}

/// The running versions of a control plane, oldest first: `status.versions`, else `status.version` (UPG-022). Empty
/// while it is being provisioned (UPG-010, UP-06).
///
/// # Errors
/// When a version is invalid, they are not ordered, or a count is negative.
pub fn running_versions(object: &Object) -> Result<Vec<KubeVersion>, UnclearVersion> {
    if object.has_null(paths::status::VERSIONS) {
        let (object, path) = (name_of(object), paths::status::VERSIONS.to_owned());
        return Err(WrongType { object, path, wanted: "a list", found: "null" }.into());
    }
    let listed = object.list(paths::status::VERSIONS)?.filter(|listed| !listed.is_empty());
    let Some(listed) = listed else {
        let single = object.text(paths::control_plane::STATUS_VERSION)?.filter(|text| !text.is_empty());
        let version = |text| parsed(object, paths::control_plane::STATUS_VERSION, text).map(KubeVersion::from);
        return single.map(version).into_iter().collect();
    };
    let mut versions: Vec<KubeVersion> = Vec::new();
    for (index, entry) in listed.iter().enumerate() {
        let version = entry_version(object, index, entry)?;
        if versions.last().is_some_and(|before| version.build_order(before) == BuildOrder::Lower) {
            return Err(UnclearVersion::NotInOrder { object: name_of(object), index });
        }
        versions.push(version);
    }
    Ok(versions)
}

/// Whether a control plane with a desired version still runs another: a lower one, or one with a different build
/// (UPG-011, UP-07). With a higher running version it is not upgrading.
pub fn is_upgrading(wanted: &KubeVersion, running: &[KubeVersion]) -> bool {
    running.iter().any(|version| matches!(wanted.build_order(version), BuildOrder::Higher | BuildOrder::Different))
}

fn entry_version(object: &Object, index: usize, entry: &Value) -> Result<KubeVersion, UnclearVersion> {
    let path = format!("status.versions[{index}].version");
    // An entry is read as an object, so that its members are read with the outcomes of CT-5.1.
    let wrong = |found| WrongType { object: name_of(object), path: path.clone(), wanted: "an entry", found };
    let members = Object::try_from(entry.clone()).map_err(wrong)?;
    let in_place = |error: WrongType| WrongType {
        object: name_of(object),
        path: format!("status.versions[{index}].{}", error.path),
        ..error
    };
    if members.integer("replicas").map_err(in_place)?.is_some_and(|replicas| replicas < 0) {
        return Err(UnclearVersion::NegativeReplicas { object: name_of(object), index });
    }
    parsed(object, &path, members.text("version").map_err(in_place)?.unwrap_or_default()).map(KubeVersion::from)
}

fn parsed(object: &Object, path: &str, text: &str) -> Result<VersionText, UnclearVersion> {
    VersionText::parse(text).map_err(|reason| UnclearVersion::NoVersion {
        object: name_of(object),
        path: path.to_owned(),
        text: text.to_owned(),
        reason,
    })
}

fn name_of(object: &Object) -> String {
    object.reference().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn control_plane(spec: Value, status: Value) -> Object {
        let metadata = json!({"namespace": "ns", "name": "cp"});
        Object::try_from(json!({"kind": "CP", "metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn running(status: Value) -> Result<Vec<String>, String> {
        let versions = running_versions(&control_plane(json!({}), status)).map_err(|error| error.to_string())?;
        Ok(versions.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_list_of_versions_comes_before_the_single_one() {
        // UPG-010, UPG-022, CT-10.5
        let list =
            |versions: &[&str]| -> Value { versions.iter().map(|version| json!({"version": version})).collect() };
        for (status, want) in [
            (json!({}), vec![]),
            (json!({"version": "", "versions": []}), vec![]),
            (json!({"version": "v1.30.0"}), vec!["v1.30.0"]),
            (json!({"version": "v1.30.0", "versions": []}), vec!["v1.30.0"]),
            (json!({"version": "v1.29.0", "versions": list(&["v1.30.0", "v1.31"])}), vec!["v1.30.0", "v1.31.0"]),
            (json!({"versions": list(&["v1.30.0+b", "v1.30.0+a"])}), vec!["v1.30.0+b", "v1.30.0+a"]),
            (json!({"versions": [{"version": "v1.30.0", "replicas": 0}]}), vec!["v1.30.0"]),
        ] {
            assert_eq!(running(status.clone()).unwrap(), want, "{status}");
        }
    }

    #[test]
    fn versions_that_cannot_be_read_give_a_reason() {
        // UPG-022, CT-5.14
        for (status, want) in [
            (json!({"version": "latest"}), "CP ns/cp: status.version \"latest\" is not a version"),
            (json!({"version": 1}), "CP ns/cp: status.version is a number where a string was expected"),
            (json!({"versions": "v1"}), "CP ns/cp: status.versions is a string where a list was expected"),
            (json!({"versions": null}), "CP ns/cp: status.versions is null where a list was expected"),
            (json!({"versions": ["v1"]}), "CP ns/cp: status.versions[0].version is a string where an entry"),
            (json!({"versions": [{}]}), "CP ns/cp: status.versions[0].version \"\" is not a version"),
            (
                json!({"versions": [{"version": 1}]}),
                "CP ns/cp: status.versions[0].version is a number where a string was expected",
            ),
            (
                json!({"versions": [{"version": "v1.31.0"}, {"version": "v1.30.9"}]}),
                "CP ns/cp: status.versions[1] is lower than the version before it",
            ),
            (
                json!({"versions": [{"version": "v1.30.0+2"}, {"version": "v1.30.0+1"}]}),
                "CP ns/cp: status.versions[1] is lower than the version before it",
            ),
            (
                json!({"versions": [{"version": "v1.31.0", "replicas": -1}]}),
                "CP ns/cp: status.versions[0].replicas is negative",
            ),
            (
                json!({"versions": [{"version": "v1.31.0", "replicas": "1"}]}),
                "CP ns/cp: status.versions[0].replicas is a string where an integer was expected",
            ),
        ] {
            let error = running(status.clone()).unwrap_err();
            assert!(error.starts_with(want), "{status}: {error}");
        }
    }

    #[test]
    fn a_control_plane_upgrades_while_it_runs_anything_lower_or_of_another_build() {
        // UPG-011, CT-10.6
        for (wanted, running, want) in [
            ("v1.30.0", vec![], false),
            ("v1.30.0", vec!["v1.30.0"], false),
            ("v1.30.0", vec!["v1.29.9"], true),
            ("v1.30.0", vec!["v1.31.0"], false),
            ("v1.30.0", vec!["v1.29.9", "v1.30.0"], true),
            ("v1.30.0", vec!["v1.30.0", "v1.31.0"], false),
            ("v1.30.0+b", vec!["v1.30.0+a"], true),
            ("v1.30.0+1", vec!["v1.30.0+2"], false),
            ("v1.30.0+2", vec!["v1.30.0+1"], true),
            ("v1.30.0", vec!["v1.30.0-rc.1"], true),
        ] {
            let version = |text: &str| KubeVersion::parse_tolerant(text).unwrap();
            let running: Vec<_> = running.into_iter().map(version).collect();
            assert_eq!(is_upgrading(&version(wanted), &running), want, "{wanted} {running:?}");
        }
    }

    #[test]
    fn the_spec_version_exists_and_is_a_version() {
        // UPG-009
        let wanted = |spec: Value| version_at(&control_plane(spec, json!({})), "spec.version");
        assert_eq!(wanted(json!({"version": "v1.30"})), Ok(KubeVersion::new(1, 30, 0)));
        for (spec, want) in [
            (json!({}), "CP ns/cp: spec.version is missing"),
            (json!({"version": ""}), "CP ns/cp: spec.version is missing"),
            (json!({"version": true}), "CP ns/cp: spec.version is a boolean where a string was expected"),
            (json!({"version": "x"}), "CP ns/cp: spec.version \"x\" is not a version"),
        ] {
            let error = wanted(spec).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
