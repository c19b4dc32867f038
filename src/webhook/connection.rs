//! One connection: what it is doing, and when it has been doing that for too long.
//!
//! kube-apiserver calls Services by HTTP/1.1 and keeps connections for 90 s. A server that closes one of them just when
//! the next request is on its way makes that request fail, and a failed call is a refused write. So an idle connection is
//! left to its client for longer than that, and one that has grown old is ended by its next answer
//! (`Connection: close`), never by surprise. HTTP/2 has GOAWAY for that, after which clients know what to send again.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep};

/// How long request bodies may take to arrive before their connection may be closed to make room for others.
const SLOW: Duration = Duration::from_secs(2);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, since then.
    Idle(Instant),
    /// The head of a request has begun to arrive, at that time.
    Head(Instant),
    /// So many requests are being answered. The bodies of some of them are still arriving; `since` is when one of the others
    /// ended, or arrived.
    Answering { count: usize, arriving: usize, since: Instant },
}

/// Why a connection can be spared, most easily spared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spare {
    /// It has not sent a request.
    Silent,
    /// All its requests have been answered.
    Idle,
    /// All its requests are incomplete, and slow.
    Slow,
}

impl Spare {
    /// What metrics call it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Spare::Silent => "no_request",
            Spare::Idle => "idle",
            Spare::Slow => "slow_body",
        }
    }
}

/// What a connection is doing, as seen by its bytes and its requests.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    opened: Instant,
    doing: Arc<Mutex<Doing>>,
    has_asked: Arc<AtomicBool>,
    is_leaving: Arc<AtomicBool>,
}

/// A request is being answered for as long as this lives.
#[derive(Debug)]
pub(super) struct Answering(Activity);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut doing = self.0.doing();
        *doing = match *doing {
            Doing::Answering { count, arriving, .. } if count > 1 => {
                Doing::Answering { count: count - 1, arriving, since: Instant::now() }
            }
            _ => Doing::Idle(Instant::now()),
        };
    }
}

/// The body of a request is arriving for as long as this lives.
#[derive(Debug)]
pub(super) struct Arriving(Activity);

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Doing::Answering { arriving, since, .. } = &mut *self.0.doing() {
            (*arriving, *since) = (arriving.saturating_sub(1), Instant::now());
        }
    }
}

impl Activity {
    /// A connection that has just been made.
    pub(super) fn new() -> Self {
        let opened = Instant::now();
        let doing = Arc::new(Mutex::new(Doing::Idle(opened)));
        Activity { opened, doing, has_asked: Arc::default(), is_leaving: Arc::default() }
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request is complete.
    pub(super) fn answering(&self) -> Answering {
        self.has_asked.store(true, Ordering::Relaxed);
        let mut doing = self.doing();
        *doing = match *doing {
            Doing::Answering { count, arriving, since } => Doing::Answering { count: count + 1, arriving, since },
            _ => Doing::Answering { count: 1, arriving: 0, since: Instant::now() },
        };
        Answering(self.clone())
    }

    /// The body of a request that is being answered has not arrived.
    pub(super) fn arriving(&self) -> Arriving {
        if let Doing::Answering { arriving, .. } = &mut *self.doing() {
            *arriving += 1;
        }
        Arriving(self.clone())
    }

    fn reads(&self) {
        let mut doing = self.doing();
        if let Doing::Idle(_) = *doing {
            *doing = Doing::Head(Instant::now());
        }
    }

    /// From now on answers say that they are the last ones.
    pub(super) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Whether an answer should say that it is the last one.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Whether a request has been sent.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Whether the connection can be spared, and since when.
    pub(super) fn spare(&self, now: Instant) -> Option<(Spare, Instant)> {
        match *self.doing() {
            Doing::Idle(_) | Doing::Head(_) if !self.has_asked() => Some((Spare::Silent, self.opened)),
            Doing::Idle(since) | Doing::Head(since) => Some((Spare::Idle, since)),
            Doing::Answering { count, arriving, since } if arriving >= count && now.duration_since(since) >= SLOW => {
                Some((Spare::Slow, since))
            }
            Doing::Answering { .. } => None,
        }
    }

    /// Ends when the connection has been idle for `idle`, or when the first request, or the head of another, has taken
    /// `patience`.
    pub(super) async fn overdue(&self, idle: Duration, patience: Duration) {
        let step = (patience / 8).max(Duration::from_millis(10));
        loop {
            let doing = *self.doing();
            let end = match doing {
                Doing::Idle(_) | Doing::Head(_) if !self.has_asked() => Some(self.opened + patience),
                Doing::Idle(since) => Some(since + idle),
                Doing::Head(since) => Some(since + patience),
                Doing::Answering { .. } => None,
            };
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return,
                left => sleep(left.map_or(step, |left| left.min(step))).await,
            }
        }
    }

    /// Ends when nothing is being answered, `patience` from now at the earliest.
    pub(super) async fn quiet(&self, patience: Duration) {
        loop {
            sleep(patience).await;
            if !matches!(*self.doing(), Doing::Answering { .. }) {
                return;
            }
        }
    }
}

/// A stream that tells when bytes of HTTP/1.1 arrive. HTTP/2 has frames besides requests, such as answers to pings, which
/// do not count.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    activity: Option<Activity>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: &Activity, is_http2: bool) -> Self {
        Watched { stream, activity: (!is_http2).then(|| activity.clone()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(activity) = self.activity.as_ref().filter(|_| buf.filled().len() > before) {
            activity.reads();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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
    async fn a_connection_that_was_told_to_end_is_left_to_its_requests() {
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
