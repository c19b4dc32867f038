//! The state of one connection, and its timeouts.
//!
//! kube-apiserver calls Services by HTTP/1.1 and keeps connections for 90 s. A server that closes one of them just when
//! the next request is on its way makes that request fail, and a failed call is a rejected write. So an idle connection
//! is kept open for longer than that, and an old connection is closed by its next response (`Connection: close`).
//! HTTP/2 has GOAWAY for that, after which clients know which requests to send again.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

/// Time for which the peer may delay the body of a request or the reading of a response, before the connection may be
/// closed to make room for others.
pub(super) const SLOW: Duration = Duration::from_secs(2);

/// The phase of a connection without an open request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdlePhase {
    /// Nothing, since then.
    Idle(Instant),
    /// The head of a request has begun to arrive, at that time.
    Head(Instant),
}

/// An open request: whether it waits for the peer or for this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OpenRequest {
    /// The peer has to send more of the body, or to take more of the answer, since then.
    peers: Option<Instant>,
    /// For how long it was the move of the peer before.
    before: Duration,
    /// The answer is going out.
    is_answer: bool,
}

impl OpenRequest {
    /// Time for which this request has waited for the peer.
    fn waited(&self, now: Instant) -> Duration {
        self.before + self.peers.map_or(Duration::ZERO, |since| now.duration_since(since))
    }
}

/// The state of a connection.
#[derive(Debug)]
struct ConnectionState {
    quiet: IdlePhase,
    next: u64,
    open: BTreeMap<u64, OpenRequest>,
}

impl ConnectionState {
    /// Time for which all open requests have waited for the peer; `None` if one waits for this server.
    fn waits_for_peer(&self, now: Instant) -> Option<Duration> {
        let all_wait = self.open.values().all(|open| open.peers.is_some());
        self.open.values().map(|open| open.waited(now)).max().filter(|_| all_wait)
    }

    /// The start of the oldest response that the peer does not read; `None` if a request waits for this server.
    fn unread_since(&self) -> Option<Instant> {
        let all_wait = self.open.values().all(|open| open.peers.is_some());
        self.open.values().filter(|open| open.is_answer).filter_map(|open| open.peers).min().filter(|_| all_wait)
    }
}

/// Why a connection can be closed to make room, the best reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EvictionReason {
    /// It has not sent a request.
    Silent,
    /// It keeps us waiting, with bodies or by not taking answers.
    Slow,
    /// All its requests have been answered.
    Idle,
    /// Its peer has most of the connections, and one with fewer wants to connect.
    Busy,
}

impl EvictionReason {
    /// The metric label.
    pub(super) fn label(self) -> &'static str {
        match self {
            EvictionReason::Silent => "no_request",
            EvictionReason::Slow => "slow",
            EvictionReason::Idle => "idle",
            EvictionReason::Busy => "busy",
        }
    }
}

/// Tracks the state of a connection by its bytes and its requests.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    opened: Instant,
    doing: Arc<Mutex<ConnectionState>>,
    has_asked: Arc<AtomicBool>,
    is_leaving: Arc<AtomicBool>,
}

/// Guard of an open request; dropped when the response has been sent.
#[derive(Debug)]
pub(super) struct RequestGuard {
    activity: Activity,
    number: u64,
}

impl RequestGuard {
    fn change(&self, change: impl FnOnce(&mut OpenRequest)) {
        if let Some(open) = self.activity.state().open.get_mut(&self.number) {
            change(open);
        }
    }

    /// Notes that the peer has to send more of the body, or to read more of the response.
    pub(super) fn waits_for_peer(&self) {
        self.change(|open| open.peers = open.peers.or_else(|| Some(Instant::now())));
    }

    /// Notes that this server has to act.
    pub(super) fn waits_for_us(&self) {
        self.change(|open| {
            if let Some(since) = open.peers.take() {
                open.before += since.elapsed();
            }
        });
    }

    /// Notes that a part of the response is ready, which the peer has to read.
    pub(super) fn answers(&self) {
        self.change(|open| {
            let before = if open.is_answer { open.waited(Instant::now()) } else { Duration::ZERO };
            *open = OpenRequest { peers: Some(Instant::now()), before, is_answer: true };
        });
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut doing = self.activity.state();
        doing.open.remove(&self.number);
        if doing.open.is_empty() {
            doing.quiet = IdlePhase::Idle(Instant::now());
        }
    }
}

impl Activity {
    /// A new connection.
    pub(super) fn new() -> Self {
        let opened = Instant::now();
        let doing = ConnectionState { quiet: IdlePhase::Idle(opened), next: 0, open: BTreeMap::new() };
        Activity { opened, doing: Arc::new(Mutex::new(doing)), has_asked: Arc::default(), is_leaving: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a request, whose head is complete.
    pub(super) fn answering(&self) -> RequestGuard {
        self.has_asked.store(true, Ordering::Relaxed);
        let mut doing = self.state();
        let number = doing.next;
        doing.next += 1;
        doing.open.insert(number, OpenRequest::default());
        drop(doing);
        RequestGuard { activity: self.clone(), number }
    }

    /// The number of open requests.
    pub(super) fn open(&self) -> usize {
        self.state().open.len()
    }

    fn reads(&self) {
        let mut doing = self.state();
        if doing.open.is_empty()
            && let IdlePhase::Idle(_) = doing.quiet
        {
            doing.quiet = IdlePhase::Head(Instant::now());
        }
    }

    /// Makes the next response close the connection.
    pub(super) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Whether a response should close the connection.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Whether the peer has sent a request.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// The time at which the connection was opened.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Why the connection can be closed to make room, and since when.
    pub(super) fn spare(&self, now: Instant) -> Option<(EvictionReason, Instant)> {
        let doing = self.state();
        if !doing.open.is_empty() {
            let waits = doing.waits_for_peer(now).filter(|waits| *waits >= SLOW);
            return waits.map(|waits| (EvictionReason::Slow, now.checked_sub(waits).unwrap_or(self.opened)));
        }
        match doing.quiet {
            _ if !self.has_asked() => Some((EvictionReason::Silent, self.opened)),
            IdlePhase::Idle(since) | IdlePhase::Head(since) => Some((EvictionReason::Idle, since)),
        }
    }

    /// Resolves when the connection has been idle for `idle`, or when the first request, the head of another, or
    /// reading a response, has taken `patience`.
    pub(super) async fn overdue(&self, idle: Duration, patience: Duration) {
        let step = (patience / 8).max(Duration::from_millis(10));
        loop {
            let end = {
                let doing = self.state();
                match doing.quiet {
                    _ if !doing.open.is_empty() => doing.unread_since().map(|since| since + patience),
                    _ if !self.has_asked() => Some(self.opened + patience),
                    IdlePhase::Idle(since) => Some(since + idle),
                    IdlePhase::Head(since) => Some(since + patience),
                }
            };
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return,
                left => sleep(left.map_or(step, |left| left.min(step))).await,
            }
        }
    }

    /// Resolves when the peer reads no more responses, after `patience` at the earliest.
    pub(super) async fn quiet(&self, patience: Duration) {
        loop {
            sleep(patience).await;
            let doing = self.state();
            if doing.open.is_empty() || doing.unread_since().is_some_and(|since| since.elapsed() >= patience) {
                return;
            }
        }
    }
}

/// A stream that notes when bytes of HTTP/1.1 arrive. HTTP/2 has frames besides requests, such as answers to pings,
/// which do not count.
#[derive(Debug)]
pub(super) struct ObservedStream<S> {
    stream: S,
    activity: Option<Activity>,
}

impl<S> ObservedStream<S> {
    pub(super) fn new(stream: S, activity: &Activity, is_http2: bool) -> Self {
        ObservedStream { stream, activity: (!is_http2).then(|| activity.clone()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(activity) = self.activity.as_ref().filter(|_| buf.filled().len() > before) {
            activity.reads();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(150);
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn overdue_after(activity: &Activity) -> Option<u64> {
        let start = Instant::now();
        let limit = Duration::from_secs(1000);
        let outcome = tokio::time::timeout(limit, activity.overdue(IDLE, PATIENCE)).await;
        outcome.ok().map(|()| start.elapsed().as_secs())
    }

    fn used() -> Activity {
        let activity = Activity::new();
        drop(activity.answering());
        activity
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_idle_for_long_and_a_head_may_not_take_long() {
        assert_eq!(overdue_after(&used()).await, Some(150));
        let activity = used();
        activity.reads();
        assert_eq!(overdue_after(&activity).await, Some(10));
        let activity = Activity::new();
        let (one, two) = (activity.answering(), activity.answering());
        activity.reads();
        drop(one);
        assert_eq!(overdue_after(&activity).await, None, "an answer may take its time, and so may its body");
        drop(two);
        assert_eq!(overdue_after(&activity).await, Some(150), "and then it is idle again");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_is_due_soon_whatever_else_arrives() {
        let activity = Activity::new();
        assert_eq!(overdue_after(&activity).await, Some(10));
        let activity = Activity::new();
        sleep(Duration::from_secs(8)).await;
        activity.reads();
        assert_eq!(overdue_after(&activity).await, Some(2), "the head has begun, and is as late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_begins_late_is_noticed_in_time() {
        let activity = used();
        let begins = async {
            sleep(Duration::from_secs(100)).await;
            activity.reads();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            time = overdue_after(&activity) => assert!(time.is_some_and(|time| (110..113).contains(&time)), "{time:?}"),
            () = begins => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_the_client_does_not_read_times_out_and_one_in_progress_does_not() {
        let activity = used();
        let (one, two) = (activity.answering(), activity.answering());
        one.answers();
        assert_eq!(overdue_after(&activity).await, None, "another request is answered");
        two.answers();
        two.waits_for_us();
        assert_eq!(overdue_after(&activity).await, None, "a watch waits for something to tell");
        drop(two);
        one.answers();
        assert_eq!(overdue_after(&activity).await, Some(10));
    }

    #[tokio::test(start_paused = true)]
    async fn other_requests_do_not_reset_the_timeout_of_a_slow_one() {
        let activity = used();
        let slow = activity.answering();
        slow.waits_for_peer();
        for _ in 0..4 {
            let other = activity.answering();
            other.waits_for_peer();
            sleep(Duration::from_millis(500)).await;
            slow.waits_for_us();
            drop(other);
            slow.waits_for_peer();
        }
        let spare = |activity: &Activity| activity.spare(Instant::now()).map(|(spare, _)| spare);
        assert_eq!(spare(&activity), Some(EvictionReason::Slow));
        slow.waits_for_us();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(spare(&activity), None, "it waits for our memory");
        let young = activity.answering();
        young.waits_for_peer();
        slow.waits_for_peer();
        assert_eq!(spare(&activity), Some(EvictionReason::Slow));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_closing_finishes_its_requests() {
        let activity = used();
        let answering = activity.answering();
        let quiet = activity.quiet(PATIENCE);
        let ends = async {
            sleep(Duration::from_secs(55)).await;
            drop(answering);
            std::future::pending::<()>().await;
        };
        let start = Instant::now();
        tokio::select! {
            () = quiet => assert_eq!(start.elapsed(), Duration::from_mins(1)),
            () = ends => {}
        }
    }
}
