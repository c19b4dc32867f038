//! A cache with one client for each set of certificate authorities, so that calls of different Clusters share
//! connections (RH-4.11).

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use super::{Client, ClientError, ClientIdentity};

/// Capacity and lifetime of the cache (RH-4.11).
const KEPT: NonZeroUsize = NonZeroUsize::new(64).expect("it is more than none");
const LIFETIME: Duration = Duration::from_hours(24);
/// Interval in which the files of the client certificate are read (RH-4.7).
const RELOAD: Duration = Duration::from_secs(10);

/// The files of the client certificate for extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Clients by the authorities that they trust.
#[derive(Debug)]
pub struct Clients {
    files: Option<IdentityFiles>,
    reload: Duration,
    state: Mutex<ClientsState>,
}

#[derive(Debug)]
struct ClientsState {
    clients: LruCache<Vec<u8>, (Client, Instant)>,
    identity: Option<ClientIdentity>,
    read: Option<Instant>,
}

impl Clients {
    /// Clients that present the certificate of these files, if there are any.
    pub fn new(files: Option<IdentityFiles>) -> Self {
        Self::reading_every(RELOAD, files)
    }

    pub(super) fn reading_every(reload: Duration, files: Option<IdentityFiles>) -> Self {
        let state = ClientsState { clients: LruCache::new(KEPT), identity: None, read: None };
        Clients { files, reload, state: Mutex::new(state) }
    }

    /// A client that trusts the authorities of a PEM text, or those of the system if it is empty (RH-4.7).
    ///
    /// # Errors
    /// When the certificates cannot be read.
    pub fn trusting(&self, ca: &[u8]) -> Result<Client, ClientError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload(&mut state)?;
        if let Some((client, made)) = state.clients.get(ca)
            && made.elapsed() < LIFETIME
        {
            return Ok(client.clone());
        }
        let client = Client::showing(Some(ca).filter(|ca| !ca.is_empty()), state.identity.as_ref())?;
        state.clients.put(ca.to_owned(), (client.clone(), Instant::now()));
        Ok(client)
    }

    /// Drops all clients when the files have changed.
    fn reload(&self, state: &mut ClientsState) -> Result<(), ClientError> {
        let Some(files) = &self.files else { return Ok(()) };
        if state.read.is_some_and(|read| read.elapsed() < self.reload) {
            return Ok(());
        }
        let identity = ClientIdentity::read(files)?;
        if state.identity.as_ref() != Some(&identity) {
            state.clients.clear();
            state.identity = Some(identity);
        }
        state.read = Some(Instant::now());
        Ok(())
    }
}
