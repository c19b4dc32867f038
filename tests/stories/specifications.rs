//! Modules that follow a public specification link it at their head.

use std::fs;
use std::path::Path;

/// The modules with a part of the address of each specification that they follow.
const FOLLOWED: [(&str, &[&str]); 23] = [
    ("calendar/mod.rs", &["rfc3339", "pkg.go.dev/time"]),
    ("cel/mod.rs", &["cel-spec/blob/master/doc/langdef.md", "using-api/cel/"]),
    ("certificates/mod.rs", &["rfc5280"]),
    ("crd/schema.rs", &["#specifying-a-structural-schema"]),
    ("embedded/http/mod.rs", &["using-api/api-concepts/"]),
    ("embedded/http/patch.rs", &["rfc6902", "rfc7386", "using-api/server-side-apply/"]),
    ("embedded/http/selector.rs", &["#label-selectors", "field-selectors/"]),
    ("embedded/http/strategic.rs", &["strategic-merge-patch.md"]),
    ("embedded/storage/collect.rs", &["architecture/garbage-collection/"]),
    ("goregex/mod.rs", &["re2/wiki/Syntax", "pkg.go.dev/regexp/syntax"]),
    ("gotemplate/functions/mod.rs", &["masterminds.github.io/sprig/"]),
    ("gotemplate/mod.rs", &["pkg.go.dev/text/template", "masterminds.github.io/sprig/"]),
    ("hub/contract.rs", &["providers/contracts/overview"]),
    ("kubernetes/lease.rs", &["architecture/leases/"]),
    ("schema/mod.rs", &["spec.openapis.org/oas/v3", "#specifying-a-structural-schema"]),
    ("ssa/mod.rs", &["using-api/server-side-apply/"]),
    ("telemetry/metrics.rs", &["open_metrics_spec/", "practices/naming/"]),
    ("topology/patches/document.rs", &["rfc6902", "rfc7386"]),
    ("topology/patches/pointer.rs", &["rfc6901"]),
    ("version/mod.rs", &["semver.org"]),
    ("webhook/mod.rs", &["extensible-admission-controllers/", "#webhook-conversion"]),
    ("webhook/review.rs", &["extensible-admission-controllers/"]),
    ("wire/mod.rs", &["#webhook-conversion"]),
];

#[test]
fn module_heads_link_the_specifications_that_they_follow() {
    for (module, addresses) in FOLLOWED {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module)).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for address in addresses {
            assert!(head.contains(address), "src/{module} has no link to …{address}");
        }
    }
}
