use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use proptest::prelude::*;
use proptest::proptest;
use serde_json::json;

use super::*;
use testing::cases;

/// What could be a part of a path, and what would like to be more than one.
fn part() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b1",
        "v1",
        "v1beta2",
        "victim",
        "Kind",
        "-",
        ".",
        "..",
        "/",
        "%2F",
        "%2f",
        "%2e",
        "%62",
        "%",
        "%00",
        "?",
        "&",
        "#",
        "=",
        "x=",
        ";",
        ":",
        "@",
        "\\",
        " ",
        "\n",
        "\r\n",
        "\0",
        "ä",
        "K",
        "namespaces",
        "secrets",
        "labelSelector=",
    ]);
    prop_oneof![
        3 => prop::sample::select(vec!["a", "v1", "ns", "cluster.x-k8s.io", "Thing"]).prop_map(str::to_owned),
        4 => prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat()),
        1 => "[a-z]{60,70}",
        1 => any::<String>(),
    ]
}

fn api_version() -> impl Strategy<Value = String> {
    prop_oneof![part(), (part(), part()).prop_map(|(group, version)| format!("{group}/{version}"))]
}

/// A text without its percent-encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The segments of a path as a server sees them that splits it after it has decoded it, and the names in the query.
fn taken_apart(uri: &http::Uri) -> (Vec<String>, Vec<String>) {
    let path = decode(uri.path());
    let query = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let names = query.map(|pair| decode(pair.split_once('=').map_or(pair, |(name, _)| name)));
    (path.split('/').map(str::to_owned).collect(), names.collect())
}

/// A client that notes where requests go and answers none.
fn noting() -> (kube::Client, Arc<Mutex<Vec<http::Uri>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, message) = (seen.clone(), crate::kubernetes::scripted::status(404, "NotFound").to_string());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        noted.lock().unwrap().push(request.uri().clone());
        let response = http::Response::builder().status(404).body(axum::body::Body::from(message.clone())).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    (kube::Client::new(service, "default"), seen)
}

const OURS: [&str; 5] = ["limit", "labelSelector", "fieldManager", "force", "dryRun"];

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn no_input_leaves_its_segment_of_a_path(api_version in api_version(), kind in part(), namespace in part(), name in part()) {
        // DEC-45
        let (group, version) = (group_of(&api_version).to_owned(), version_of(&api_version).to_owned());
        let plural = contract::plural(&kind);
        let mut want = vec![String::new()];
        want.extend(if group.is_empty() { vec!["api".into(), version] } else { vec!["apis".into(), group, version] });
        want.extend(["namespaces".to_owned(), namespace.clone(), plural]);
        if let Ok(requests) = ObjectRequests::for_kind(&api_version, &kind, &namespace) {
            let patch = Patch::Merge(json!({}));
            let params = PatchParams { dry_run: true, ..PatchParams::apply("m").force() };
            let list = ListParams::default().limit(5).labels("a=b");
            let all = [requests.list(&list), requests.list_metadata(&list), requests.create(&name, &PostParams::default(), vec![])];
            let one = [
                requests.get(&name), requests.get_metadata(&name), requests.patch(&name, &params, &patch),
                requests.delete(&name, &DeleteParams::default()),
            ];
            let named: Vec<String> = want.iter().cloned().chain([name.clone()]).collect();
            for (ready, want) in all.into_iter().map(|one| (one, &want)).chain(one.into_iter().map(|one| (one, &named))) {
                let Ok(request) = ready else { continue };
                let (segments, query) = taken_apart(request.uri());
                prop_assert_eq!(&segments, want);
                prop_assert!(query.iter().all(|name| OURS.contains(&&**name)), "{:?}", query);
            }
        }
    }

    #[test]
    fn no_name_leaves_its_segment_of_a_path(namespace in part(), name in part()) {
        // DEC-45
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let key = ObjectKey::new(&*namespace, &*name);
        let seen = runtime.block_on(async {
            let (client, seen) = noting();
            if let Ok(one) = one::<Secret>(client.clone(), &key) {
                assert!(one.get_opt().await.is_ok_and(|found| found.is_none()));
            }
            if let Ok(one) = one_of_cluster::<CustomResourceDefinition>(client.clone(), &name) {
                assert!(one.get_metadata_opt().await.is_ok_and(|found| found.is_none()));
            }
            let things = Resource::new("g.io", "v1", "Thing").unwrap();
            if let Ok(one) = things.one::<DynamicObject>(client.clone(), &key) {
                one.patch(&PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap_err();
                one.patch_status(&PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap_err();
            }
            if let Ok(api) = things.api::<DynamicObject>(client.clone(), Some(&namespace)) {
                api.list(&ListParams::default()).await.unwrap_err();
            }
            seen
        });
        if let Ok(path) = nodes(Some(&name)) {
            seen.lock().unwrap().push(path.parse().unwrap());
        }
        for uri in &*seen.lock().unwrap() {
            let (segments, query) = taken_apart(uri);
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            let is_ours = match segments.as_slice() {
                ["", "api", "v1", "namespaces", ns, "secrets", one]
                | ["", "apis", "g.io", "v1", "namespaces", ns, "things", one]
                | ["", "apis", "g.io", "v1", "namespaces", ns, "things", one, "status"] => {
                    (*ns, *one) == (&*namespace, &*name)
                }
                ["", "apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions", one]
                | ["", "api", "v1", "nodes", one] => *one == name,
                ["", "apis", "g.io", "v1", "namespaces", ns, "things"] => *ns == namespace,
                _ => false,
            };
            prop_assert!(is_ours && query.is_empty(), "{}", uri);
        }
    }
}

#[test]
fn names_that_kubernetes_allows_are_sent() {
    // DEC-45
    for (api_version, kind, want) in [
        ("v1", "Secret", "/api/v1/namespaces/ns-1/secrets/a.b-c"),
        ("cluster.x-k8s.io/v1beta2", "Machine", "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns-1/machines/a.b-c"),
        ("g/v1alpha1", "AWSCluster", "/apis/g/v1alpha1/namespaces/ns-1/awsclusters/a.b-c"),
    ] {
        let requests = ObjectRequests::for_kind(api_version, kind, "ns-1").unwrap();
        assert_eq!(requests.get("a.b-c").unwrap().uri().path(), want);
    }
    let error = ObjectRequests::for_kind("g/v1%62eta2", "Thing", "ns").unwrap_err().to_string();
    let want = "invalid object reference: the version \"v1%62eta2\" must consist of lower-case letters, digits \
                    and \"-\", start with a letter, and end with a letter or digit";
    assert_eq!(error, want);
}
