//! Limits warnings for each peer, so that a peer cannot fill the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two warnings about a peer.
const PAUSE: Duration = Duration::from_mins(1);

/// Number of remembered peers. When all are recent, there are no warnings about others.
const PEERS: usize = 256;

/// The time of the last warning about each peer.
#[derive(Debug, Default)]
pub(super) struct WarningLimiter {
    peers: Mutex<HashMap<IpAddr, Instant>>,
}

impl WarningLimiter {
    /// Whether a warning about a peer is due; if so, the next one is due after [`PAUSE`].
    pub(super) fn is_due(&self, peer: IpAddr, now: Instant) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, last| now.duration_since(*last) < PAUSE);
        if peers.contains_key(&peer) || peers.len() >= PEERS {
            return false;
        }
        peers.insert(peer, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_about_a_peer_come_once_a_minute_and_few_peers_are_remembered() {
        let (warned, now) = (WarningLimiter::default(), Instant::now());
        let peer = |number: u32| IpAddr::from(number.to_be_bytes());
        assert!(warned.is_due(peer(1), now) && !warned.is_due(peer(1), now) && warned.is_due(peer(2), now));
        assert!(warned.is_due(peer(1), now + PAUSE));
        let many = (0..1000).filter(|number| warned.is_due(peer(*number), now + PAUSE * 2)).count();
        assert_eq!(many, PEERS);
    }
}
