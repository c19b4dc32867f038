//! Modules that follow a public specification link it at their head.

use std::fs;
use std::path::Path;

/// The modules with a part of the address of each specification that they follow.
const FOLLOWED: [(&str, &[&str]); 23] = [
    ("golang/src/calendar.rs", &["rfc3339", "pkg.go.dev/time"]),
    ("schema/src/cel.rs", &["cel-spec/blob/master/doc/langdef.md", "using-api/cel/"]),
    ("server/src/certificates.rs", &["rfc5280"]),
    ("model/src/crd/schema.rs", &["#specifying-a-structural-schema"]),
    ("apiserver/src/http.rs", &["using-api/api-concepts/"]),
    ("apiserver/src/http/patch.rs", &["rfc6902", "rfc7386", "using-api/server-side-apply/"]),
    ("apiserver/src/http/selector.rs", &["#label-selectors", "field-selectors/"]),
    ("apiserver/src/http/strategic.rs", &["strategic-merge-patch.md"]),
    ("apiserver/src/storage/collect.rs", &["architecture/garbage-collection/"]),
    ("golang/src/regexp.rs", &["re2/wiki/Syntax", "pkg.go.dev/regexp/syntax"]),
    ("golang/src/template/functions.rs", &["masterminds.github.io/sprig/"]),
    ("golang/src/template.rs", &["pkg.go.dev/text/template", "masterminds.github.io/sprig/"]),
    ("model/src/hub/contract.rs", &["providers/contracts/overview"]),
    ("server/src/kubernetes/lease.rs", &["architecture/leases/"]),
    ("schema/src/openapi.rs", &["spec.openapis.org/oas/v3", "#specifying-a-structural-schema"]),
    ("schema/src/ssa.rs", &["using-api/server-side-apply/"]),
    ("server/src/telemetry/metrics.rs", &["open_metrics_spec/", "practices/naming/"]),
    ("engine/src/topology/patches/document.rs", &["rfc6902", "rfc7386"]),
    ("engine/src/topology/patches/pointer.rs", &["rfc6901"]),
    ("golang/src/version.rs", &["semver.org"]),
    ("server/src/webhook.rs", &["extensible-admission-controllers/", "#webhook-conversion"]),
    ("server/src/webhook/review.rs", &["extensible-admission-controllers/"]),
    ("model/src/wire.rs", &["#webhook-conversion"]),
];

#[test]
fn module_heads_link_the_specifications_that_they_follow() {
    for (module, addresses) in FOLLOWED {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(module)).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for address in addresses {
            assert!(head.contains(address), "crates/{module} has no link to …{address}");
        }
    }
}
