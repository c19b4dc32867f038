//! A system clock that jumps, for a replica that manages the certificates.
//!
//! The clock is that of libfaketime, which reads a file. Time that only goes forward (`CLOCK_MONOTONIC`) is left alone, as it is
//! when an administrator or a time server sets the clock.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::load::{Load, clusters, until};
use crate::self_managed::Site;

/// The system clock of a process.
struct Clock {
    folder: TempDir,
}

impl Clock {
    fn new() -> Self {
        let clock = Clock { folder: tempfile::tempdir().unwrap() };
        clock.set("+0");
        clock
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// The clock is as far from the right time as this says (`-1h`, `+30d`).
    fn set(&self, offset: &str) {
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, offset).unwrap();
        std::fs::rename(fresh, self.file()).unwrap();
    }

    fn give_to(&self, process: &mut Command) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/faketime");
        let output = Command::new(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        process.env("LD_PRELOAD", String::from_utf8(output.stdout).unwrap().trim());
        process.env("FAKETIME_TIMESTAMP_FILE", self.file());
        process.envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
    }
}

/// A guard with one replica, and the clock of that.
async fn guarded() -> (Site, Clock) {
    let (mut site, clock) = (Site::start().await, Clock::new());
    site.serve_where(&[], |process| clock.give_to(process));
    site.use_newest();
    site.until_guarded().await;
    (site, clock)
}

/// By how many days the certificate that is served ends after the right time.
fn days_left(site: &Site) -> f64 {
    let ends = site.replicas[0].metric("topologist_tls_certificate_expiry_timestamp_seconds").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    (ends - now) / 86_400.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_lost_when_the_clock_jumps_and_the_replica_leads_again_within_its_lease() {
    let (site, clock) = guarded().await;
    let load = Load::start(|| clusters(&site.kubernetes));
    for offset in ["+1h", "-1h", "+30d", "-30d", "+0"] {
        clock.set(offset);
        load.more(50).await;
        // Longer than the lease, so that it was renewed by the new clock.
        tokio::time::sleep(Duration::from_secs(4)).await;
        until("the replica leads", || site.replicas[0].metric("topologist_leader") == Some(1.0)).await;
    }
    let lost = load.stop().await;
    assert!(lost.is_empty(), "{lost:#?}\n{}", site.logs());
    assert_eq!(site.actions("make_all"), 1, "certificates of 90 days do not depend on it\n{}", site.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn certificates_that_expire_by_a_clock_jump_are_renewed_at_once() {
    let (site, clock) = guarded().await;
    let authority = site.secret("ca.crt").await;
    // Beyond the end of the authority, which is made for five years.
    clock.set("+3000d");
    until("there are certificates for the time to come", || days_left(&site) > 3000.0).await;
    clock.set("+0");
    until("there are certificates for the present", || (80.0..91.0).contains(&days_left(&site))).await;
    site.until_guarded().await;
    assert_ne!(site.secret("ca.crt").await, authority);
}
