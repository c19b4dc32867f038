//! A process that takes part in an election, and the times that follow from the duration of the lease.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;

/// The longest time between two reads of another process's Lease, regardless of its duration.
const LOOK: Duration = Duration::from_secs(1);

/// The Lease of the election, and the identity of this process.
#[derive(Clone, Debug)]
pub struct Candidacy {
    pub namespace: String,
    pub name: String,
    /// Differs between all processes that ever campaign.
    pub identity: String,
    /// How long a lease lasts after a renewal.
    pub duration: Duration,
}

impl Candidacy {
    /// A candidacy under a fresh identity: the host's name and a random suffix.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, duration: Duration) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
        let host = host.map_or_else(|_| "topologist".to_owned(), |host| host.trim().to_owned());
        // The keys of a hash map are random, which is all that is needed of chance here.
        let chance = RandomState::new().build_hasher().finish();
        let identity = format!("{host}_{chance:016x}");
        Candidacy { namespace: namespace.into(), name: name.into(), identity, duration }
    }

    /// How long after a renewal the next one is due.
    pub(super) fn renewal(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// How long after something went wrong the next attempt follows.
    pub(super) fn retry(&self) -> Duration {
        LOOK.min(self.duration / 15)
    }

    /// How long after a look at another's lease the next one is due: the time by which a renewal is seen too late.
    pub(super) fn look(&self) -> Duration {
        LOOK.min(self.renewal())
    }

    /// How long a request for the Lease may take.
    pub(super) fn request(&self) -> Duration {
        self.duration / 5
    }

    /// How long after a renewal writes may start.
    pub(super) fn mandate(&self) -> Duration {
        self.duration / 2
    }

    /// How long a write may take: less than what is left of the lease when it starts.
    pub(super) fn write(&self) -> Duration {
        self.duration * 2 / 5
    }

    pub(super) fn lease(&self, spec: LeaseSpec) -> Lease {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        Lease { metadata, spec: Some(spec) }
    }

    /// What the Lease says once it is ours, or still is.
    pub(super) fn claim(&self, former: LeaseSpec) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let is_ours = former.holder_identity.as_deref() == Some(&*self.identity);
        let transitions = former.lease_transitions.unwrap_or(0);
        let seconds = self.duration.as_millis().div_ceil(1000);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: if is_ours { former.acquire_time } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(if is_ours { transitions } else { transitions.saturating_add(1) }),
            ..former
        }
    }
}
