//! What the guard keeps of a fleet, as Linux counts it.
//!
//! The benchmark of the same name measures the optimised binary under load; this test is about what a change of a
//! cache, of a decoder or of the allocator's settings does to memory, which is the same in every build.

use std::path::Path;

use crate::api;
use crate::fleet::{self, Written};
use crate::harness::server::{Topologist, make_certificates};

const CLUSTERS: usize = 1000;
const CLASSES: usize = 50;

/// The most memory that is not a mapped file, in MB: half as much again as it takes. The whole process may have 100 MB,
/// of which 15 MB are the optimised binary and its libraries.
const MOST: f64 = 65.0;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clusters_and_fifty_classes_take_little_memory() {
    let classes = (0..CLASSES).map(fleet::class).collect();
    let clusters = (0..CLUSTERS).map(|i| fleet::cluster(i, i % CLASSES, Written::Completely)).collect();
    let address = api::serve(classes, clusters).await;
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("tls.crt"), file("tls.key"));
    let kubeconfig = api::kubeconfig(folder.path(), address).display().to_string();
    let guard = tokio::task::spawn_blocking(move || {
        let mut guard =
            Topologist::serve(&["--kubeconfig", &kubeconfig, "--tls-cert", &certificate, "--tls-key", &key]);
        guard.wait_for_log_where("Listed objects", |line| line["kind"] == "Cluster" && line["objects"] == CLUSTERS);
        guard.wait_for_log_where("Listed objects", |line| line["kind"] == "ClusterClass" && line["objects"] == CLASSES);
        guard
    });
    let guard = guard.await.unwrap();
    assert!(private_megabytes(&guard) < MOST, "{} MB", private_megabytes(&guard));
}

/// Resident memory of a process that is not a mapped file.
fn private_megabytes(guard: &Topologist) -> f64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(guard.id().to_string()).join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
}
