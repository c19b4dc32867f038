//! Discovery: groups, versions and kinds, aggregated or as separate documents; and health endpoints, which always
//! succeed.

use axum::body::Body;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use super::groups::{GroupFilter, RELEASE, group_versions, groups, versions};
use super::openapi;
use crate::storage::builtin::Builtin;
use crate::storage::registry::{KindRegistry, ServedResource, api_version};

/// A response that is not an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawDocument {
    pub content_type: &'static str,
    pub body: String,
}

impl RawDocument {
    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        response
    }
}

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Media type of OpenAPI v2, which kubectl requests if v3 has no document for a kind.
const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type in responses, where `@` is not allowed (RFC 2045).
const OPENAPI_PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a path that is not a resource path; `None` if it is not served.
pub(super) fn answer(registry: &KindRegistry, path: &str, accept: &str) -> Option<RawDocument> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let json = |value: Value| Some(RawDocument { content_type: JSON, body: value.to_string() });
    let aggregated =
        |groups| Some(RawDocument { content_type: AGGREGATED, body: aggregated(registry, groups).to_string() });
    let all_in_one = wants_aggregated(accept);
    match *segments.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => Some(RawDocument { content_type: TEXT, body: "ok".to_owned() }),
        ["version"] => json(version()),
        ["api"] if all_in_one => aggregated(GroupFilter::Core),
        ["apis"] if all_in_one => aggregated(GroupFilter::Named),
        ["api"] => json(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => {
            let groups: Vec<Value> = groups(registry, GroupFilter::Named).map(|name| group(registry, name)).collect();
            json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["api", version] => json(resources(registry, "", version)?),
        ["apis", name] => {
            let found = groups(registry, GroupFilter::Named).find(|group| *group == name)?;
            let mut group = group(registry, found);
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            json(group)
        }
        ["apis", group, version] if !group.is_empty() => json(resources(registry, group, version)?),
        ["openapi", "v3"] => json(openapi::index(registry)),
        ["openapi", "v3", "api", version] => json(described(registry, "", version)?),
        ["openapi", "v3", "apis", group, version] => json(described(registry, group, version)?),
        ["openapi", "v2"] if accepts_json(accept) => json(openapi::whole(registry)),
        ["openapi", "v2"] if accept.contains(OPENAPI_PROTOBUF) => {
            Some(RawDocument { content_type: OPENAPI_PROTOBUF_ANSWER, body: openapi::without_schemas() })
        }
        _ => None,
    }
}

fn version() -> Value {
    let mut numbers = RELEASE.trim_start_matches('v').split('.');
    let mut next = || numbers.next().unwrap_or_default();
    json!({"major": next(), "minor": next(), "gitVersion": RELEASE, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
}

/// Whether a client accepts aggregated discovery.
fn wants_aggregated(accept: &str) -> bool {
    media_types(accept).any(|parameters| {
        let has = |name: &str, value: &str| parameters.contains(&(name, value));
        has("g", "apidiscovery.k8s.io") && has("v", "v2") && has("as", "APIGroupDiscoveryList")
    })
}

/// The parameters of the accepted media types.
fn media_types(accept: &str) -> impl Iterator<Item = Vec<(&str, &str)>> {
    accept.split(',').map(|media| {
        let parameters = media.split(';').skip(1);
        parameters
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect()
    })
}

fn accepts_json(accept: &str) -> bool {
    let mut types = accept.split(',').map(|media| media.split(';').next().unwrap_or_default().trim());
    types.any(|media| matches!(media, "" | "*/*" | "application/*" | JSON))
}

fn described(registry: &KindRegistry, group: &str, version: &str) -> Option<Value> {
    group_versions(registry).contains(&(group, version)).then(|| openapi::document(registry, group, version))
}

fn group(registry: &KindRegistry, name: &str) -> Value {
    let version = |version: &str| json!({"groupVersion": api_version(name, version), "version": version});
    let versions: Vec<Value> = versions(registry, name).into_iter().map(version).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// A subresource: its name, and the group, version and kind of its objects.
struct Subresource {
    name: &'static str,
    verbs: &'static [&'static str],
    kind: (String, String, String),
}

fn subresources(resource: &ServedResource) -> impl Iterator<Item = Subresource> {
    let own = (resource.group.clone(), resource.version.clone(), resource.kind.clone());
    let part = |name, verbs, kind| Subresource { name, verbs, kind };
    let of = |names: [&str; 3]| names.map(str::to_owned).into();
    let can_be_evicted = resource.builtin.is_some_and(Builtin::can_be_evicted);
    let eviction = can_be_evicted.then(|| part("eviction", &["create"], of(["policy", "v1", "Eviction"])));
    let scale = resource.scale.is_some();
    let scale = scale.then(|| part("scale", SUBRESOURCE_VERBS, of(["autoscaling", "v1", "Scale"])));
    let status = resource.has_status.then(|| part("status", SUBRESOURCE_VERBS, own));
    [eviction, scale, status].into_iter().flatten()
}

/// The kinds of a group version (`/apis/G/V`).
fn resources(registry: &KindRegistry, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = registry.group(group).filter(|resource| resource.version == version).collect();
    if served.is_empty() {
        return None;
    }
    let listed: Vec<Value> = served.into_iter().flat_map(|resource| entries(resource)).collect();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version),
        "resources": listed}))
}

fn entries(resource: &ServedResource) -> Vec<Value> {
    let mut main = json!({"name": resource.plural, "singularName": resource.singular, "kind": resource.kind,
        "namespaced": resource.is_namespaced, "verbs": VERBS});
    name_more(&mut main, resource);
    let subresource = |Subresource { name, verbs, kind: (group, version, kind) }: Subresource| {
        let mut entry = json!({"name": format!("{}/{name}", resource.plural), "singularName": "", "kind": kind,
            "namespaced": resource.is_namespaced, "verbs": verbs});
        if group != resource.group {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        entry
    };
    [main].into_iter().chain(subresources(resource).map(subresource)).collect()
}

/// Adds the other names of a kind, if any.
fn name_more(entry: &mut Value, resource: &ServedResource) {
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
}

/// Aggregated discovery.
fn aggregated(registry: &KindRegistry, which: GroupFilter) -> Value {
    let kind = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let resource = |resource: &ServedResource| {
        let subresource = |Subresource { name, verbs, kind: (group, version, name_of_kind) }: Subresource| {
            json!({"subresource": name, "responseKind": kind((&group, &version, &name_of_kind)),
                "verbs": verbs})
        };
        let mut entry = json!({
            "resource": resource.plural,
            "responseKind": kind((&resource.group, &resource.version, &resource.kind)),
            "scope": if resource.is_namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": resource.singular,
            "verbs": VERBS,
        });
        let subresources: Vec<Value> = subresources(resource).map(subresource).collect();
        if !subresources.is_empty() {
            entry["subresources"] = json!(subresources);
        }
        name_more(&mut entry, resource);
        entry
    };
    let version = |group: &str, version: &str| {
        let served = registry.group(group).filter(|resource| resource.version == version);
        json!({"version": version, "freshness": "Current",
            "resources": served.map(|served| resource(served)).collect::<Vec<_>>()})
    };
    let group = |name: &str| {
        let versions: Vec<Value> = versions(registry, name).into_iter().map(|each| version(name, each)).collect();
        json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
    };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups(registry, which).map(group).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::registry::ScalePaths;
    use crate::storage::sample;

    fn registry() -> KindRegistry {
        let mut registry = KindRegistry::default();
        let mut things: Vec<ServedResource> = ["v1alpha1", "v2", "v1beta1"]
            .map(|version| sample::resource("example.com", version, "Thing", "things"))
            .into();
        let paths = [".spec.replicas", ".status.replicas", ""].map(str::to_owned);
        let [spec_replicas, status_replicas, label_selector] = paths;
        things[1].scale = Some(ScalePaths { spec_replicas, status_replicas, label_selector });
        things[1].has_status = true;
        things[1].short_names = vec!["th".to_owned()];
        things[1].categories = vec!["all".to_owned()];
        registry.replace("example.com", "things", things);
        let mut spaces = sample::resource("", "v1", "Space", "spaces");
        spaces.is_namespaced = false;
        registry.replace("", "spaces", vec![spaces]);
        registry
    }

    fn get(path: &str, accept: &str) -> (&'static str, Value) {
        let answer = answer(&registry(), path, accept).unwrap_or_else(|| panic!("{path} is answered"));
        (answer.content_type, serde_json::from_str(&answer.body).unwrap())
    }

    const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
        application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

    #[test]
    fn clients_that_accept_aggregated_discovery_get_one_document() {
        let (content_type, list) = get("/apis", ACCEPT);
        assert_eq!((content_type, &list["kind"]), (AGGREGATED, &json!("APIGroupDiscoveryList")));
        let versions = &list["items"][0]["versions"];
        let names: Vec<_> = versions.as_array().unwrap().iter().map(|version| &version["version"]).collect();
        assert_eq!(names, ["v2", "v1beta1", "v1alpha1"], "the one to prefer comes first");
        let thing = &versions[0]["resources"][0];
        let kind = json!({"group": "example.com", "version": "v2", "kind": "Thing"});
        assert_eq!((&thing["responseKind"], &thing["shortNames"]), (&kind, &json!(["th"])));
        let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        assert_eq!(thing["subresources"][0]["responseKind"], scale);
        assert_eq!(
            (&thing["subresources"][1]["subresource"], &thing["categories"]),
            (&json!("status"), &json!(["all"]))
        );
        let (_, core) = get("/api", ACCEPT);
        assert_eq!(core["items"][0]["versions"][0]["resources"][0]["scope"], "Cluster");
        assert_eq!(get("/apis", JSON).1["kind"], "APIGroupList");
        let older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(get("/apis", older).1["kind"], "APIGroupList", "an older form is not spoken");
    }

    #[test]
    fn other_clients_discover_each_group_separately() {
        assert_eq!(get("/api", "").1["versions"], json!(["v1"]));
        let (_, groups) = get("/apis", "*/*");
        assert_eq!(groups["groups"][0]["preferredVersion"], json!({"groupVersion": "example.com/v2", "version": "v2"}));
        let (_, group) = get("/apis/example.com", "");
        assert_eq!((&group["kind"], &group["name"]), (&json!("APIGroup"), &json!("example.com")));
        let (_, list) = get("/apis/example.com/v2", "");
        let names: Vec<_> = list["resources"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
        assert_eq!(names, ["things", "things/scale", "things/status"]);
        assert_eq!(list["resources"][1]["kind"], "Scale");
        assert_eq!(get("/api/v1/", "").1["resources"][0]["name"], "spaces");
    }

    #[test]
    fn unknown_groups_and_versions_are_not_found() {
        for path in [
            "/",
            "/apis/other.com",
            "/apis/example.com/v3",
            "/api/v2",
            "/openapi/v3/apis/example.com/v3",
            "/swagger-2.0.0.pb-v1",
        ] {
            assert_eq!(answer(&registry(), path, ""), None, "{path}");
        }
        let proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        let document = answer(&registry(), "/openapi/v2", proto).unwrap();
        let answered = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        assert_eq!((document.content_type, &document.body[..5]), (answered, "\n\u{3}2.0"));
        assert!(answer(&registry(), "/openapi/v2", "application/json").is_some());
        assert_eq!(answer(&registry(), "/readyz", "").map(|answer| answer.body).as_deref(), Some("ok"));
        assert_eq!(get("/version", "").1["minor"], "33");
    }
}
