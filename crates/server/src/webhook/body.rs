//! Bodies of requests and responses: each is buffered whole, and all of them share one bounded memory.
//!
//! Every byte is charged when it arrives and freed when the last reference to it is dropped; a response is charged
//! until it has been sent. A body without free memory waits for it, smallest first. The oldest incoming body may exceed
//! the memory by one body limit, so that half-read bodies never wait for each other. While bodies wait, slow incoming
//! bodies and responses that the client does not read are evicted, and if that does not help, the largest waiting body.
//! (DEC-46)

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::telemetry::metrics::GaugeGuard;

/// Maximum number of bytes of an oversized body that are read and discarded, so that its sender can read the response.
const DISCARDED: usize = 64 * 1024 * 1024;

/// Maximum time in which a body arrives while others wait for its memory. Time that it waits itself does not count.
const SLOW: Duration = Duration::from_secs(2);

/// Interval in which waiting bodies look for slow ones.
const LOOK: Duration = Duration::from_millis(100);

/// Time after which a waiting body evicts another waiting body of twice its size.
const CROWDED: Duration = Duration::from_secs(1);

/// Maximum size of a frame of a response.
const PIECE: usize = 16 * 1024;

/// Limits of size, time and memory of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyLimits {
    /// The largest body in bytes.
    pub(super) body: usize,
    /// How long a body may take to arrive, the wait for memory included.
    pub(super) time: Duration,
    /// How many bytes of bodies may be held at a time.
    pub(super) held: usize,
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyReadError {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the request body did not arrive in time")]
    TooSlow,
    #[error("the request body took longer than {} s to arrive while other requests waited for memory", SLOW.as_secs())]
    GaveWay,
    #[error("the body could not be read: {0}")]
    Broken(String),
    #[error("the memory for request bodies is used up by other requests; try again")]
    NoMemory,
}

impl BodyReadError {
    /// The status of the response, and the reason as a metric label.
    pub(super) fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            BodyReadError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            BodyReadError::TooSlow | BodyReadError::GaveWay => (StatusCode::REQUEST_TIMEOUT, "too_slow"),
            BodyReadError::Broken(_) => (StatusCode::BAD_REQUEST, "broken"),
            BodyReadError::NoMemory => (StatusCode::TOO_MANY_REQUESTS, "too_many"),
        }
    }
}

/// Reads request bodies and writes responses within the shared memory.
#[derive(Debug)]
pub(super) struct Bodies {
    memory: Arc<BodyMemory>,
}

impl Bodies {
    /// Bodies with these limits; `waiting` counts the bodies that wait for memory.
    pub(super) fn new(bounds: BodyLimits, waiting: Gauge) -> Self {
        Bodies { memory: Arc::new(BodyMemory { bounds, waiting, state: Mutex::default() }) }
    }

    /// Reads the whole body of a request, at `deadline` at the latest. Its memory is charged until the last reference
    /// to the bytes is dropped.
    pub(super) async fn read(&self, request: Request, deadline: Instant) -> Result<Bytes, BodyReadError> {
        let bounds = self.memory.bounds;
        let expects = request.headers().contains_key(header::EXPECT);
        // The head of the request must not wait for the body: it costs memory that is not charged.
        let body = request.into_body();
        let announced = body.size_hint().lower();
        // The sender of `Expect` waits for an answer before it sends the body.
        if announced > bounds.body as u64 && (expects || announced > DISCARDED as u64) {
            return Err(BodyReadError::TooLarge(bounds.body));
        }
        let mut arriving = IncomingBody::new(self.memory.clone(), usize::try_from(announced).unwrap_or(usize::MAX));
        let deadline = deadline.min(Instant::now() + bounds.time);
        match timeout_at(deadline, arriving.collect(body)).await {
            Ok(outcome) => outcome.and_then(|()| arriving.finish()),
            Err(_) if arriving.size > bounds.body => Err(BodyReadError::TooLarge(bounds.body)),
            Err(_) if self.memory.state().waits(arriving.id) => Err(BodyReadError::NoMemory),
            Err(_) => Err(BodyReadError::TooSlow),
        }
    }

    /// A response body whose memory is charged until it has been sent.
    pub(super) fn answer(&self, answer: Vec<u8>) -> Body {
        let bytes = Arc::new(Mutex::new(Some(Bytes::from(answer))));
        let held = whole(&bytes).as_ref().map_or(0, Bytes::len);
        let mut state = self.memory.state();
        let id = state.next;
        state.next += 1;
        state.used += held;
        state.leaving.insert(id, BodyCharge { bytes: Some(bytes.clone()), ..BodyCharge::new(held) });
        drop(state);
        Body::new(OutgoingBody { memory: self.memory.clone(), id, bytes })
    }
}

/// The bytes of a response; `None` after their eviction.
type ResponseBytes = Arc<Mutex<Option<Bytes>>>;

fn whole(bytes: &ResponseBytes) -> MutexGuard<'_, Option<Bytes>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory shared by all bodies.
#[derive(Debug)]
struct BodyMemory {
    bounds: BodyLimits,
    waiting: Gauge,
    state: Mutex<BodyMemoryState>,
}

#[derive(Debug, Default)]
struct BodyMemoryState {
    /// Bytes that are held, those of complete bodies included.
    used: usize,
    next: u64,
    /// Bodies that are not complete, oldest first. One that has to make room for others is taken out.
    arriving: BTreeMap<u64, BodyCharge>,
    /// Those of them that wait for memory, with what they hold and need, smallest first.
    waiting: BTreeSet<(usize, u64)>,
    /// Answers that have not gone out.
    leaving: BTreeMap<u64, BodyCharge>,
    /// When slow bodies were last looked for.
    looked: Option<Instant>,
}

/// The memory charge of an incomplete body, or of a response that has not been sent.
#[derive(Debug)]
struct BodyCharge {
    held: usize,
    /// How much it waits for; 0 if it does not.
    need: usize,
    /// When it began, later by the time that it has waited.
    began: Instant,
    waits_since: Instant,
    /// Tells the body that something here has changed.
    changed: Arc<Notify>,
    /// What an answer holds.
    bytes: Option<ResponseBytes>,
}

impl BodyCharge {
    fn new(held: usize) -> Self {
        let now = Instant::now();
        BodyCharge { held, need: 0, began: now, waits_since: now, changed: Arc::default(), bytes: None }
    }

    fn size(&self) -> usize {
        self.held + self.need
    }
}

impl BodyMemory {
    fn state(&self) -> MutexGuard<'_, BodyMemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, bytes: usize) {
        if bytes > 0 {
            let mut state = self.state();
            state.used -= bytes;
            state.grant(&self.bounds);
        }
    }
}

impl BodyMemoryState {
    fn is_oldest(&self, id: u64) -> bool {
        self.arriving.first_key_value().is_some_and(|(oldest, _)| *oldest == id)
    }

    fn waits(&self, id: u64) -> bool {
        self.arriving.get(&id).is_some_and(|part| part.need > 0)
    }

    /// Whether a body may take `more` bytes. The others together never hold more than the memory, so the excess is
    /// enough for the oldest.
    fn fits(&self, id: u64, more: usize, bounds: &BodyLimits) -> bool {
        let most = if self.is_oldest(id) { bounds.held.saturating_add(bounds.body) } else { bounds.held };
        self.used.saturating_add(more) <= most
    }

    /// Gives free memory to waiting bodies: first to the oldest, which may exceed the memory, then to the smallest.
    fn grant(&mut self, bounds: &BodyLimits) {
        if self.waiting.is_empty() {
            return;
        }
        if let Some(oldest) = self.arriving.first_key_value().map(|(id, _)| *id) {
            self.give(oldest, bounds);
        }
        if self.used < bounds.held {
            for (_, id) in self.waiting.iter().copied().collect::<Vec<_>>() {
                self.give(id, bounds);
            }
        }
    }

    /// Gives a waiting body its memory, if that is free.
    fn give(&mut self, id: u64, bounds: &BodyLimits) {
        let need = self.arriving.get(&id).map_or(0, |part| part.need);
        if need == 0 || !self.fits(id, need, bounds) {
            return;
        }
        if let Some(part) = self.arriving.get_mut(&id) {
            self.waiting.remove(&(part.size(), id));
            self.used += need;
            part.held += std::mem::take(&mut part.need);
            part.began += part.waits_since.elapsed();
            part.changed.notify_one();
        }
    }

    /// Evicts slow bodies and responses while others wait, those that hold most first, and then the largest waiting
    /// body, if a much smaller one has waited for long.
    fn make_room(&mut self, bounds: &BodyLimits) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK / 2) {
            return;
        }
        self.looked = Some(now);
        self.grant(bounds);
        let is_slow = |(id, part): &(&u64, &BodyCharge)| {
            // The oldest one may keep others from the excess without a byte.
            (part.held > 0 || self.is_oldest(**id)) && part.need == 0 && now.duration_since(part.began) >= SLOW
        };
        let slow = self.arriving.iter().chain(&self.leaving).filter(is_slow);
        let mut slow: Vec<(usize, u64)> = slow.map(|(id, part)| (part.held, *id)).collect();
        slow.sort_unstable();
        while let Some((_, id)) = slow.pop().filter(|_| !self.waiting.is_empty()) {
            self.end(id);
            self.grant(bounds);
        }
        let Some((_, id)) = self.waiting.iter().rev().copied().find(|(_, id)| !self.is_oldest(*id)) else { return };
        let most = self.arriving.get(&id).map_or(0, |part| part.held);
        let has_waited = |part: &BodyCharge| part.need > 0 && now.duration_since(part.waits_since) >= CROWDED;
        if self.arriving.values().any(|part| has_waited(part) && part.size() <= most / 2) {
            self.end(id);
            self.grant(bounds);
        }
    }

    /// Evicts a body or a response: frees its memory and notifies its owner.
    fn end(&mut self, id: u64) {
        if let Some(part) = self.take_out(id) {
            part.changed.notify_one();
            if let Some(bytes) = &part.bytes {
                *whole(bytes) = None;
            }
        }
    }

    fn take_out(&mut self, id: u64) -> Option<BodyCharge> {
        let part = self.arriving.remove(&id).or_else(|| self.leaving.remove(&id))?;
        self.waiting.remove(&(part.size(), id));
        self.used -= part.held;
        Some(part)
    }
}

/// A body that is being read; dropping it frees its memory.
#[derive(Debug)]
struct IncomingBody {
    memory: Arc<BodyMemory>,
    id: u64,
    changed: Arc<Notify>,
    /// What has arrived, in one piece: small frames cost no more than their bytes.
    bytes: Vec<u8>,
    size: usize,
    announced: usize,
}

impl IncomingBody {
    fn new(memory: Arc<BodyMemory>, announced: usize) -> Self {
        let part = BodyCharge::new(0);
        let changed = part.changed.clone();
        let mut state = memory.state();
        let id = state.next;
        state.next += 1;
        state.arriving.insert(id, part);
        drop(state);
        IncomingBody { memory, id, changed, bytes: Vec::new(), size: 0, announced }
    }

    async fn collect(&mut self, mut body: Body) -> Result<(), BodyReadError> {
        let limit = self.memory.bounds.body;
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = self.changed.notified() => {
                    self.check_held()?;
                    continue;
                }
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| BodyReadError::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            self.size = self.size.saturating_add(data.len());
            if self.size.max(self.announced) <= limit {
                self.charge(data.len()).await?;
                self.append(&data);
            } else {
                self.discard();
            }
            if self.size > DISCARDED {
                break;
            }
        }
        if self.size > limit { Err(BodyReadError::TooLarge(limit)) } else { self.check_held() }
    }

    /// Waits until `more` bytes may be held.
    async fn charge(&self, more: usize) -> Result<(), BodyReadError> {
        if self.take(more)? {
            return Ok(());
        }
        let _counted = GaugeGuard::new(&self.memory.waiting);
        loop {
            let _ = timeout(LOOK, self.changed.notified()).await;
            let mut state = self.memory.state();
            if state.waits(self.id) {
                state.make_room(&self.memory.bounds);
            }
            match state.arriving.get(&self.id) {
                None => return Err(BodyReadError::NoMemory),
                Some(part) if part.need == 0 => return Ok(()),
                Some(_) => {}
            }
        }
    }

    /// Takes `more` bytes if they are free; otherwise queues this body.
    fn take(&self, more: usize) -> Result<bool, BodyReadError> {
        let mut state = self.memory.state();
        let fits = more == 0 || state.fits(self.id, more, &self.memory.bounds);
        let part = state.arriving.get_mut(&self.id).ok_or(BodyReadError::GaveWay)?;
        if fits {
            part.held += more;
            state.used += more;
        } else {
            (part.need, part.waits_since) = (more, Instant::now());
            let size = part.size();
            state.waiting.insert((size, self.id));
        }
        Ok(fits)
    }

    fn append(&mut self, data: &[u8]) {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity - length < data.len() {
            let most = if self.announced > 0 { self.announced } else { self.memory.bounds.body };
            let want = capacity.saturating_mul(2).max(4096).min(most).max(length + data.len());
            self.bytes.reserve_exact(want - length);
        }
        self.bytes.extend_from_slice(data);
    }

    /// Frees the received bytes of an oversized body.
    fn discard(&mut self) {
        if self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
            let held = self.memory.state().arriving.get_mut(&self.id).map_or(0, |part| std::mem::take(&mut part.held));
            self.memory.release(held);
        }
    }

    fn check_held(&self) -> Result<(), BodyReadError> {
        self.memory.state().arriving.get(&self.id).map(|_| ()).ok_or(BodyReadError::GaveWay)
    }

    /// The bytes with their memory charge.
    fn finish(mut self) -> Result<Bytes, BodyReadError> {
        let bytes = std::mem::take(&mut self.bytes);
        let held = {
            let mut state = self.memory.state();
            let part = state.arriving.get_mut(&self.id).ok_or(BodyReadError::GaveWay)?;
            std::mem::take(&mut part.held)
        };
        Ok(Bytes::from_owner(ChargedBytes { bytes, held, memory: self.memory.clone() }))
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        state.take_out(self.id);
        // What this one waited for may fit another, which may now be the oldest.
        state.grant(&self.memory.bounds);
    }
}

/// A response that is being sent.
struct OutgoingBody {
    memory: Arc<BodyMemory>,
    id: u64,
    bytes: ResponseBytes,
}

impl HttpBody for OutgoingBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let mut bytes = whole(&self.bytes);
        Poll::Ready(match &mut *bytes {
            None => Some(Err(std::io::Error::other(
                "the client did not read the response while other requests waited for memory",
            ))),
            Some(left) if left.is_empty() => None,
            // A copy: a part of the whole would keep all of it.
            Some(left) => Some(Ok(Frame::data(Bytes::copy_from_slice(&left.split_to(left.len().min(PIECE)))))),
        })
    }

    fn is_end_stream(&self) -> bool {
        whole(&self.bytes).as_ref().is_some_and(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(whole(&self.bytes).as_ref().map_or(0, |left| left.len() as u64))
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        if state.take_out(self.id).is_some() {
            state.grant(&self.memory.bounds);
        }
    }
}

/// The bytes of a complete body, with their memory charge.
struct ChargedBytes {
    bytes: Vec<u8>,
    held: usize,
    memory: Arc<BodyMemory>,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.memory.release(self.held);
    }
}

#[cfg(test)]
mod tests;
