//! What is served, as clients ask for it: groups, versions, kinds and their schemas.

use http::StatusCode;
use serde_json::{Value, json};

use super::registry::{Registry, Resource, api_version};

/// The release of Kubernetes whose behaviour is followed.
const RELEASE: (&str, &str) = ("1", "33");

/// Answers a path that is no path of an object; none for a path that nobody serves.
pub(super) fn answer(registry: &Registry, path: &str, _accept: &str) -> Option<(StatusCode, Value)> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let body = match *segments.as_slice() {
        ["version"] => {
            let (major, minor) = RELEASE;
            json!({"major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0"), "gitCommit": "",
                "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "",
                "platform": "linux/amd64"})
        }
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["api", version] => resources(registry, "", version)?,
        ["apis"] => {
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(registry)})
        }
        ["apis", group] => groups(registry).into_iter().find(|found| found["name"] == group)?,
        ["apis", group, version] => resources(registry, group, version)?,
        _ => return None,
    };
    Some((StatusCode::OK, body))
}

fn groups(registry: &Registry) -> Vec<Value> {
    let mut names: Vec<&str> =
        registry.iter().map(|resource| &*resource.group).filter(|name| !name.is_empty()).collect();
    names.dedup();
    let group = |name: &str| {
        let mut versions: Vec<&str> = registry.group(name).map(|resource| &*resource.version).collect();
        versions.dedup();
        let version = |version: &str| json!({"groupVersion": api_version(name, version), "version": version});
        let listed: Vec<Value> = versions.iter().rev().map(|name| version(name)).collect();
        let preferred = listed.first().cloned().unwrap_or_default();
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": listed, "preferredVersion": preferred})
    };
    names.into_iter().map(group).collect()
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = registry.group(group).filter(|resource| resource.version == version).collect();
    if served.is_empty() {
        return None;
    }
    let listed: Vec<Value> = served.into_iter().flat_map(|resource| entries(resource)).collect();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version),
        "resources": listed}))
}

fn entries(resource: &Resource) -> Vec<Value> {
    let entry = |name: String, verbs: &[&str]| {
        json!({"name": name, "singularName": "", "namespaced": resource.is_namespaced, "kind": resource.kind,
            "verbs": verbs})
    };
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let mut main = entry(resource.plural.clone(), &verbs);
    main["singularName"] = json!(resource.singular);
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    let mut all = vec![main];
    let verbs = ["get", "patch", "update"];
    if resource.has_status {
        all.push(entry(format!("{}/status", resource.plural), &verbs));
    }
    if resource.scale.is_some() {
        let mut scale = entry(format!("{}/scale", resource.plural), &verbs);
        scale["kind"] = json!("Scale");
        scale["group"] = json!("autoscaling");
        scale["version"] = json!("v1");
        all.push(scale);
    }
    all
}
