//! Bodies of requests and of their answers: each is read whole, and all of them share one bounded memory.
//!
//! Every byte is charged when it arrives and freed when the last reference to it is dropped; an answer is charged until it
//! has gone out. A body that finds no memory waits for it, smallest first. The oldest body that is arriving may exceed the
//! memory by one body limit, so that half-read bodies never wait for each other. While bodies wait, a body that takes long to
//! arrive is ended, so is an answer that nobody takes, and if that does not help, the largest body that waits. (DEC-46)

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

use crate::telemetry::metrics::Raised;

/// How many bytes of a body that is too large are read and discarded, so that its sender can read the answer.
const DISCARDED: usize = 64 * 1024 * 1024;

/// How long a body may take to arrive while others wait for its memory. Time that it waits itself does not count.
const SLOW: Duration = Duration::from_secs(2);

/// How often waiting bodies look for slow ones.
const LOOK: Duration = Duration::from_millis(100);

/// How long a body waits before one of twice its size that waits as well is ended for it.
const CROWDED: Duration = Duration::from_secs(1);

/// How much of an answer is given out of hand at a time.
const PIECE: usize = 16 * 1024;

/// Bounds of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The largest body in bytes.
    pub(super) body: usize,
    /// How long a body may take to arrive, the wait for memory included.
    pub(super) time: Duration,
    /// How many bytes of bodies may be held at a time.
    pub(super) held: usize,
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body did not arrive in time")]
    TooSlow,
    #[error("the body took longer than {} s to arrive while others waited for memory", SLOW.as_secs())]
    GaveWay,
    #[error("the body could not be read: {0}")]
    Broken(String),
    #[error("the bodies of other requests take all memory that is set aside for them; try again")]
    NoMemory,
}

impl Unread {
    /// The status of the answer, and what metrics call it.
    pub(super) fn parts(&self) -> (StatusCode, &'static str) {
        match self {
            Unread::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Unread::TooSlow | Unread::GaveWay => (StatusCode::REQUEST_TIMEOUT, "too_slow"),
            Unread::Broken(_) => (StatusCode::BAD_REQUEST, "broken"),
            Unread::NoMemory => (StatusCode::TOO_MANY_REQUESTS, "too_many"),
        }
    }
}

/// Reads bodies.
#[derive(Debug)]
pub(super) struct Bodies {
    memory: Arc<Memory>,
}

impl Bodies {
    /// Bodies with these bounds; `waiting` counts those that wait for memory.
    pub(super) fn new(bounds: Bounds, waiting: Gauge) -> Self {
        Bodies { memory: Arc::new(Memory { bounds, waiting, state: Mutex::default() }) }
    }

    /// The whole body of a request, at `deadline` at the latest. Its memory is charged until the last of the bytes is
    /// dropped.
    pub(super) async fn read(&self, request: Request, deadline: Instant) -> Result<Bytes, Unread> {
        let bounds = self.memory.bounds;
        let expects = request.headers().contains_key(header::EXPECT);
        // The head of the request must not wait for the body: it costs memory that nobody has charged.
        let body = request.into_body();
        let announced = body.size_hint().lower();
        // The sender of `Expect` waits for an answer before it sends the body.
        if announced > bounds.body as u64 && (expects || announced > DISCARDED as u64) {
            return Err(Unread::TooLarge(bounds.body));
        }
        let mut arriving = Arriving::new(self.memory.clone(), usize::try_from(announced).unwrap_or(usize::MAX));
        let deadline = deadline.min(Instant::now() + bounds.time);
        match timeout_at(deadline, arriving.collect(body)).await {
            Ok(outcome) => outcome.and_then(|()| arriving.finish()),
            Err(_) if arriving.size > bounds.body => Err(Unread::TooLarge(bounds.body)),
            Err(_) if self.memory.state().waits(arriving.id) => Err(Unread::NoMemory),
            Err(_) => Err(Unread::TooSlow),
        }
    }

    /// An answer as a body whose memory is charged until it has gone out.
    pub(super) fn answer(&self, answer: Vec<u8>) -> Body {
        let bytes = Arc::new(Mutex::new(Some(Bytes::from(answer))));
        let held = whole(&bytes).as_ref().map_or(0, Bytes::len);
        let mut state = self.memory.state();
        let id = state.next;
        state.next += 1;
        state.used += held;
        state.leaving.insert(id, Part { bytes: Some(bytes.clone()), ..Part::new(held) });
        drop(state);
        Body::new(Leaving { memory: self.memory.clone(), id, bytes })
    }
}

/// The bytes of an answer; none once they had to make room for others.
type Answer = Arc<Mutex<Option<Bytes>>>;

fn whole(bytes: &Answer) -> MutexGuard<'_, Option<Bytes>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory that all bodies share.
#[derive(Debug)]
struct Memory {
    bounds: Bounds,
    waiting: Gauge,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that are held, those of complete bodies included.
    used: usize,
    next: u64,
    /// Bodies that are not complete, oldest first. One that has to make room for others is taken out.
    arriving: BTreeMap<u64, Part>,
    /// Those of them that wait for memory, with what they hold and need, smallest first.
    waiting: BTreeSet<(usize, u64)>,
    /// Answers that have not gone out.
    leaving: BTreeMap<u64, Part>,
    /// When slow bodies were last looked for.
    looked: Option<Instant>,
}

/// A body that is not complete, or an answer that has not gone out.
#[derive(Debug)]
struct Part {
    held: usize,
    /// How much it waits for; 0 if it does not.
    need: usize,
    /// When it began, later by the time that it has waited.
    began: Instant,
    waits_since: Instant,
    /// Tells the body that something here has changed.
    changed: Arc<Notify>,
    /// What an answer holds.
    bytes: Option<Answer>,
}

impl Part {
    fn new(held: usize) -> Self {
        let now = Instant::now();
        Part { held, need: 0, began: now, waits_since: now, changed: Arc::default(), bytes: None }
    }

    fn size(&self) -> usize {
        self.held + self.need
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
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

impl State {
    fn is_oldest(&self, id: u64) -> bool {
        self.arriving.first_key_value().is_some_and(|(oldest, _)| *oldest == id)
    }

    fn waits(&self, id: u64) -> bool {
        self.arriving.get(&id).is_some_and(|part| part.need > 0)
    }

    /// Whether a body may take this much more. What the others hold is never more than the memory, and so the excess is
    /// enough for the oldest.
    fn fits(&self, id: u64, more: usize, bounds: &Bounds) -> bool {
        let most = if self.is_oldest(id) { bounds.held.saturating_add(bounds.body) } else { bounds.held };
        self.used.saturating_add(more) <= most
    }

    /// Gives what is free to those that wait: to the oldest body, which may have more, then to the smallest ones.
    fn grant(&mut self, bounds: &Bounds) {
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

    /// Gives a body what it waits for, if that is free.
    fn give(&mut self, id: u64, bounds: &Bounds) {
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

    /// While bodies wait: ends those that take long to arrive or to be taken, those that hold most first, and then the
    /// largest one that waits, if a much smaller one has waited for long.
    fn make_room(&mut self, bounds: &Bounds) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK / 2) {
            return;
        }
        self.looked = Some(now);
        self.grant(bounds);
        let is_slow = |(id, part): &(&u64, &Part)| {
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
        let has_waited = |part: &Part| part.need > 0 && now.duration_since(part.waits_since) >= CROWDED;
        if self.arriving.values().any(|part| has_waited(part) && part.size() <= most / 2) {
            self.end(id);
            self.grant(bounds);
        }
    }

    /// Frees what a body or an answer holds, and tells it.
    fn end(&mut self, id: u64) {
        if let Some(part) = self.take_out(id) {
            part.changed.notify_one();
            if let Some(bytes) = &part.bytes {
                *whole(bytes) = None;
            }
        }
    }

    fn take_out(&mut self, id: u64) -> Option<Part> {
        let part = self.arriving.remove(&id).or_else(|| self.leaving.remove(&id))?;
        self.waiting.remove(&(part.size(), id));
        self.used -= part.held;
        Some(part)
    }
}

/// A body that is being read; what it holds is free again when this is dropped.
#[derive(Debug)]
struct Arriving {
    memory: Arc<Memory>,
    id: u64,
    changed: Arc<Notify>,
    /// What has arrived, in one piece: small frames cost no more than their bytes.
    bytes: Vec<u8>,
    size: usize,
    announced: usize,
}

impl Arriving {
    fn new(memory: Arc<Memory>, announced: usize) -> Self {
        let part = Part::new(0);
        let changed = part.changed.clone();
        let mut state = memory.state();
        let id = state.next;
        state.next += 1;
        state.arriving.insert(id, part);
        drop(state);
        Arriving { memory, id, changed, bytes: Vec::new(), size: 0, announced }
    }

    async fn collect(&mut self, mut body: Body) -> Result<(), Unread> {
        let limit = self.memory.bounds.body;
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = self.changed.notified() => {
                    self.still_there()?;
                    continue;
                }
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| Unread::Broken(error.to_string()))?;
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
        if self.size > limit { Err(Unread::TooLarge(limit)) } else { self.still_there() }
    }

    /// Waits until this much more may be held.
    async fn charge(&self, more: usize) -> Result<(), Unread> {
        if self.take(more)? {
            return Ok(());
        }
        let _counted = Raised::new(&self.memory.waiting);
        loop {
            let _ = timeout(LOOK, self.changed.notified()).await;
            let mut state = self.memory.state();
            if state.waits(self.id) {
                state.make_room(&self.memory.bounds);
            }
            match state.arriving.get(&self.id) {
                None => return Err(Unread::NoMemory),
                Some(part) if part.need == 0 => return Ok(()),
                Some(_) => {}
            }
        }
    }

    /// Takes memory if there is some; otherwise this body waits.
    fn take(&self, more: usize) -> Result<bool, Unread> {
        let mut state = self.memory.state();
        let fits = more == 0 || state.fits(self.id, more, &self.memory.bounds);
        let part = state.arriving.get_mut(&self.id).ok_or(Unread::GaveWay)?;
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

    /// Frees what has arrived of a body that is too large.
    fn discard(&mut self) {
        if self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
            let held = self.memory.state().arriving.get_mut(&self.id).map_or(0, |part| std::mem::take(&mut part.held));
            self.memory.release(held);
        }
    }

    fn still_there(&self) -> Result<(), Unread> {
        self.memory.state().arriving.get(&self.id).map(|_| ()).ok_or(Unread::GaveWay)
    }

    /// The bytes, with what they hold.
    fn finish(mut self) -> Result<Bytes, Unread> {
        let bytes = std::mem::take(&mut self.bytes);
        let held = {
            let mut state = self.memory.state();
            let part = state.arriving.get_mut(&self.id).ok_or(Unread::GaveWay)?;
            std::mem::take(&mut part.held)
        };
        Ok(Bytes::from_owner(Complete { bytes, held, memory: self.memory.clone() }))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        state.take_out(self.id);
        // What this one waited for may fit another, which may now be the oldest.
        state.grant(&self.memory.bounds);
    }
}

/// An answer on its way.
struct Leaving {
    memory: Arc<Memory>,
    id: u64,
    bytes: Answer,
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let mut bytes = whole(&self.bytes);
        Poll::Ready(match &mut *bytes {
            None => Some(Err(std::io::Error::other("the answer was not taken while others waited for its memory"))),
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

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        if state.take_out(self.id).is_some() {
            state.grant(&self.memory.bounds);
        }
    }
}

/// A body that is complete.
struct Complete {
    bytes: Vec<u8>,
    held: usize,
    memory: Arc<Memory>,
}

impl AsRef<[u8]> for Complete {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Complete {
    fn drop(&mut self) {
        self.memory.release(self.held);
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::{UnboundedSender, unbounded};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    type Sender = UnboundedSender<Result<Bytes, std::io::Error>>;
    type Reading = JoinHandle<Result<Bytes, Unread>>;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn bodies(body: usize, held: usize) -> Arc<Bodies> {
        let bounds = Bounds { body, time: DEADLINE, held };
        Arc::new(Bodies::new(bounds, Gauge::default()))
    }

    fn used(bodies: &Bodies) -> usize {
        bodies.memory.state().used
    }

    /// A body that arrives as it is sent, and its reader.
    fn begin(bodies: &Arc<Bodies>) -> (Sender, Reading) {
        let (sender, receiver) = unbounded();
        let (bodies, request) = (bodies.clone(), Request::new(Body::from_stream(receiver)));
        (sender, tokio::spawn(async move { bodies.read(request, Instant::now() + DEADLINE).await }))
    }

    async fn send(sender: &Sender, bytes: usize) {
        sender.unbounded_send(Ok(Bytes::from(vec![b'x'; bytes]))).unwrap();
        sleep(Duration::from_millis(1)).await;
    }

    async fn read(bodies: &Arc<Bodies>, bytes: usize) -> Result<Bytes, Unread> {
        bodies.read(Request::new(Body::from(vec![b'x'; bytes])), Instant::now() + DEADLINE).await
    }

    #[tokio::test(start_paused = true)]
    async fn every_byte_is_charged_once_until_the_last_part_of_the_body_is_dropped() {
        let bodies = bodies(1000, 1000);
        let (sender, reading) = begin(&bodies);
        for byte in 1..=500 {
            send(&sender, 1).await;
            assert_eq!(used(&bodies), byte, "a chunk costs no more than its bytes");
        }
        drop(sender);
        let whole = reading.await.unwrap().unwrap();
        assert_eq!((whole.len(), used(&bodies)), (500, 500));
        let part = whole.slice(10..20);
        drop(whole);
        assert_eq!(used(&bodies), 500, "the part keeps all of it");
        drop(part);
        assert_eq!(used(&bodies), 0);
        assert!(bodies.memory.state().arriving.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn half_read_bodies_do_not_wait_for_eachother() {
        let bodies = bodies(8, 12);
        let mut all: Vec<_> = (0..5).map(|_| begin(&bodies)).collect();
        for part in [3, 3, 2] {
            for (sender, _) in &all {
                send(sender, part).await;
            }
        }
        assert!(used(&bodies) <= 20, "the memory and one body more");
        all.iter_mut().for_each(|(sender, _)| sender.close_channel());
        for (_, reading) in all {
            assert_eq!(reading.await.unwrap().unwrap().len(), 8);
            assert!(used(&bodies) <= 20);
        }
        assert_eq!(used(&bodies), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_arrive_evenly_never_wait_for_eachother_in_a_circle() {
        // The fifth takes six of its eight bytes before anybody waits.
        let five = bodies(8, 12);
        let mut all: Vec<_> = (0..5).map(|_| begin(&five)).collect();
        for (index, part) in [(0, 3), (1, 3), (2, 3), (3, 3), (4, 3), (4, 3), (0, 3), (1, 3), (2, 3), (3, 3), (4, 2)] {
            send(&all[index].0, part).await;
            assert!(used(&five) <= 20, "the memory and one body more");
        }
        for (sender, _) in &all[..4] {
            send(sender, 2).await;
        }
        all.iter_mut().for_each(|(sender, _)| sender.close_channel());
        for (_, reading) in all {
            assert_eq!(reading.await.unwrap().unwrap().len(), 8);
        }
        // As many as want, byte by byte.
        let many = bodies(70, 2560);
        let mut all: Vec<_> = (0..100).map(|_| begin(&many)).collect();
        let started = Instant::now();
        for _ in 0..70 {
            for (sender, _) in &all {
                let _ = sender.unbounded_send(Ok(Bytes::from_static(b"x")));
            }
            sleep(Duration::from_millis(10)).await;
            assert!(used(&many) <= 2630);
        }
        all.iter_mut().for_each(|(sender, _)| sender.close_channel());
        for (_, reading) in all {
            assert_eq!(reading.await.unwrap().unwrap().len(), 70);
        }
        assert!(started.elapsed() < SLOW, "{:?}", started.elapsed());
        assert_eq!((used(&many), many.memory.waiting.get()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_body_does_not_wait_for_many_large_ones() {
        let bodies = bodies(70, 2560);
        // They are never slow, because they wait themselves; each has more to come.
        let all: Vec<_> = (0..100).map(|_| begin(&bodies)).collect();
        for _ in 0..5 {
            for (sender, _) in &all {
                send(sender, 10).await;
            }
        }
        assert!(bodies.memory.state().waiting.len() > 40);
        let started = Instant::now();
        assert_eq!(read(&bodies, 2).await.unwrap().len(), 2);
        assert!(started.elapsed() <= CROWDED + 2 * LOOK, "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_charged_until_it_is_taken_and_gives_way_to_bodies_that_wait() {
        let bodies = bodies(40_000, 60_000);
        let taken = bodies.answer(vec![b'x'; 40_000]);
        assert_eq!((used(&bodies), taken.size_hint().exact()), (40_000, Some(40_000)));
        assert_eq!(taken.collect().await.unwrap().to_bytes().len(), 40_000);
        assert_eq!(used(&bodies), 0);
        let mut answers: Vec<_> = (0..3).map(|_| bodies.answer(vec![b'x'; 40_000])).collect();
        let started = Instant::now();
        assert_eq!(read(&bodies, 40_000).await.unwrap().len(), 40_000);
        assert!((SLOW..=SLOW + 2 * LOOK).contains(&started.elapsed()), "{:?}", started.elapsed());
        let mut ended = 0;
        for answer in &mut answers {
            ended += usize::from(answer.frame().await.unwrap().is_err());
        }
        assert!((1..=2).contains(&ended), "as many as it takes: {ended}");
        drop(answers);
        assert_eq!(used(&bodies), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_memory_and_small_ones_fit_into_gaps() {
        let bodies = bodies(8, 10);
        let held = read(&bodies, 8).await.unwrap();
        // It may exceed the memory by one body, and then that is in use, too.
        let excess = read(&bodies, 8).await.unwrap();
        let waits = tokio::spawn({
            let bodies = bodies.clone();
            async move { read(&bodies, 8).await }
        });
        sleep(Duration::from_secs(3)).await;
        assert_eq!((waits.is_finished(), bodies.memory.waiting.get()), (false, 1));
        drop(excess);
        assert_eq!(waits.await.unwrap().unwrap().len(), 8);
        assert_eq!((used(&bodies), bodies.memory.waiting.get()), (8, 0));
        let small = read(&bodies, 2).await.unwrap();
        assert_eq!(small.len() + held.len(), used(&bodies));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_finds_no_memory_in_time_is_refused() {
        let bodies = bodies(8, 8);
        let _held = (read(&bodies, 8).await.unwrap(), read(&bodies, 8).await.unwrap());
        let started = Instant::now();
        let refused = read(&bodies, 1).await.unwrap_err();
        assert_eq!((refused.parts().0.as_u16(), started.elapsed()), (429, DEADLINE));
        assert_eq!(used(&bodies), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_give_way_to_waiting_ones_and_stay_while_none_waits() {
        let bodies = bodies(8, 16);
        let slow: Vec<_> = (0..2).map(|_| begin(&bodies)).collect();
        for (sender, _) in &slow {
            send(sender, 7).await;
        }
        sleep(Duration::from_secs(5)).await;
        assert!(slow.iter().all(|(_, reading)| !reading.is_finished()), "they keep nobody waiting");
        let started = Instant::now();
        assert_eq!(read(&bodies, 8).await.unwrap().len(), 8);
        assert!(started.elapsed() <= LOOK, "{:?}", started.elapsed());
        sleep(Duration::from_millis(1)).await;
        let ended = slow.iter().filter(|(_, reading)| reading.is_finished()).count();
        assert_eq!((ended, used(&bodies)), (1, 7), "as many as it takes");
        for (sender, reading) in slow {
            drop(sender);
            match reading.await.unwrap() {
                Ok(bytes) => assert_eq!(bytes.len(), 7),
                Err(refused) => assert_eq!(refused.parts().0.as_u16(), 408, "{refused}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_body_waits_itself_does_not_make_it_slow() {
        let bodies = bodies(8, 8);
        let held = (read(&bodies, 8).await.unwrap(), read(&bodies, 7).await.unwrap());
        let (sender, patient) = begin(&bodies);
        send(&sender, 1).await;
        send(&sender, 1).await;
        sleep(Duration::from_secs(4)).await;
        drop(held.1);
        sleep(Duration::from_millis(1)).await;
        let (other, waits) = begin(&bodies);
        send(&other, 8).await;
        sleep(Duration::from_millis(1500)).await;
        assert!(!patient.is_finished() && !waits.is_finished());
        drop(sender);
        assert_eq!(patient.await.unwrap().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_too_large_is_read_and_holds_nothing() {
        let bodies = bodies(8, 100);
        let (sender, reading) = begin(&bodies);
        for _ in 0..4 {
            send(&sender, 4).await;
        }
        assert_eq!((used(&bodies), reading.is_finished()), (0, false));
        drop(sender);
        assert_eq!(reading.await.unwrap().unwrap_err().to_string(), "the body is larger than 8 bytes");
        let (sender, reading) = begin(&bodies);
        send(&sender, 9).await;
        assert_eq!(reading.await.unwrap().unwrap_err().parts().0.as_u16(), 413, "it is too large, whatever comes");
        drop(sender);
        for announced in [9, DISCARDED + 1] {
            // Without a byte of it.
            let (_sender, receiver) = unbounded::<Result<Bytes, std::io::Error>>();
            let body = Body::new(Announced(Body::from_stream(receiver), announced as u64));
            let mut request = Request::new(body);
            if announced == 9 {
                request.headers_mut().insert(header::EXPECT, "100-continue".parse().unwrap());
            }
            let started = Instant::now();
            let refused = bodies.read(request, Instant::now() + DEADLINE).await.unwrap_err();
            assert_eq!((refused.parts().0.as_u16(), started.elapsed()), (413, Duration::ZERO));
        }
    }

    /// A body with a length.
    struct Announced(Body, u64);

    impl HttpBody for Announced {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
            std::pin::Pin::new(&mut self.0).poll_frame(context)
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.1)
        }
    }
}
