//! A Service in small: connections go to replicas whose `/readyz` says yes.
//!
//! ```text
//!  kube-apiserver ──► Balancer ──► webhook of a ready replica
//!                        └─ every 100 ms ─► /readyz of each replica
//! ```
//!
//! It does what the nodes of a cluster do, not more: it learns late who is ready, leaves open connections where they
//! are, and does not try another replica when one refuses.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::server::http_get;
use super::wait::SOON;

/// How late the balancer learns that a replica is ready or no longer ready.
pub const LAG: Duration = Duration::from_millis(100);

/// A running balancer; dropping it closes its port.
pub struct Balancer {
    /// `127.0.0.1:port`.
    pub address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    replicas: Mutex<Vec<Arc<Replica>>>,
    turn: AtomicUsize,
    ended: AtomicBool,
}

struct Replica {
    webhook: String,
    admin: String,
    /// What says whether it gets connections.
    probe: &'static str,
    is_ready: AtomicBool,
    connections: AtomicUsize,
}

impl Balancer {
    /// Listens on a free port, with nothing behind it.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::<Shared>::default();
        std::thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        std::thread::spawn({
            let shared = shared.clone();
            move || shared.follow()
        });
        Balancer { address, shared }
    }

    /// Puts a replica behind the balancer, and returns when it gets connections.
    pub fn add(&self, webhook: &str, admin: &str) {
        self.add_when_ready(webhook, admin, "/readyz");
    }

    /// As a Service with `publishNotReadyAddresses` does: it gets connections for as long as it runs.
    pub fn add_early(&self, webhook: &str, admin: &str) {
        self.add_when_ready(webhook, admin, "/healthz");
    }

    /// Puts a replica behind the balancer; it gets connections while it is ready.
    pub fn follow(&self, webhook: &str, admin: &str) {
        self.enlist(webhook, admin, "/readyz");
    }

    fn add_when_ready(&self, webhook: &str, admin: &str, probe: &'static str) {
        let replica = self.enlist(webhook, admin, probe);
        let deadline = Instant::now() + SOON;
        while !replica.is_ready.load(Ordering::Acquire) {
            assert!(Instant::now() < deadline, "{webhook} does not become ready: {:?}", http_get(admin, probe));
            std::thread::sleep(LAG / 10);
        }
    }

    fn enlist(&self, webhook: &str, admin: &str, probe: &'static str) -> Arc<Replica> {
        let replica = Arc::new(Replica {
            webhook: webhook.to_owned(),
            admin: admin.to_owned(),
            probe,
            is_ready: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        self.shared.replicas.lock().unwrap().push(replica.clone());
        replica
    }

    /// Forgets a replica that has ended: another process may get its ports.
    pub fn remove(&self, webhook: &str) {
        self.shared.replicas.lock().unwrap().retain(|replica| replica.webhook != webhook);
    }

    /// Whether a replica gets connections.
    pub fn is_ready(&self, webhook: &str) -> bool {
        let replicas = self.shared.replicas.lock().unwrap();
        replicas.iter().any(|replica| replica.webhook == webhook && replica.is_ready.load(Ordering::Acquire))
    }

    /// How many connections a replica has got so far.
    pub fn connections(&self, webhook: &str) -> usize {
        let replicas = self.shared.replicas.lock().unwrap();
        let replica = replicas.iter().find(|replica| replica.webhook == webhook);
        replica.map_or(0, |replica| replica.connections.load(Ordering::Relaxed))
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Ends the wait for the next connection.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn accept(&self, listener: &TcpListener) {
        for client in listener.incoming().map_while(Result::ok) {
            if self.has_ended() {
                return;
            }
            // With nobody ready, or when the replica refuses, the connection just closes.
            let Some(replica) = self.next() else { continue };
            replica.connections.fetch_add(1, Ordering::Relaxed);
            if let Ok(server) = TcpStream::connect(&replica.webhook) {
                let _ = join(client, server);
            }
        }
    }

    /// The ready replicas take turns.
    fn next(&self) -> Option<Arc<Replica>> {
        let replicas = self.replicas.lock().unwrap();
        let ready: Vec<_> = replicas.iter().filter(|replica| replica.is_ready.load(Ordering::Acquire)).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        ready.get(turn.checked_rem(ready.len())?).map(|replica| Arc::clone(replica))
    }

    fn follow(&self) {
        while !self.has_ended() {
            let replicas = self.replicas.lock().unwrap().clone();
            for replica in replicas {
                let is_ready = http_get(&replica.admin, replica.probe).0 == 200;
                replica.is_ready.store(is_ready, Ordering::Release);
            }
            std::thread::sleep(LAG);
        }
    }
}

/// Passes bytes on in both directions until both are through.
fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    pass(client.try_clone()?, server.try_clone()?);
    pass(server, client);
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        // A reset on one side is one on the other.
        let how = if io::copy(&mut from, &mut to).is_ok() { Shutdown::Write } else { Shutdown::Both };
        let _ = to.shutdown(how);
    });
}
