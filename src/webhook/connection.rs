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

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, since then.
    Idle(Instant),
    /// The head of a request has begun to arrive, at that time.
    Head(Instant),
    /// So many requests are being answered.
    Answering(usize),
}

/// What a connection is doing, as seen by its bytes and its requests.
#[derive(Clone, Debug)]
pub(super) struct Activity {
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
            Doing::Answering(count) if count > 1 => Doing::Answering(count - 1),
            _ => Doing::Idle(Instant::now()),
        };
    }
}

impl Activity {
    /// A connection that has just been made.
    pub(super) fn new() -> Self {
        Activity {
            doing: Arc::new(Mutex::new(Doing::Idle(Instant::now()))),
            has_asked: Arc::default(),
            is_leaving: Arc::default(),
        }
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of a request is complete.
    pub(super) fn answering(&self) -> Answering {
        self.has_asked.store(true, Ordering::Relaxed);
        let mut doing = self.doing();
        *doing = match *doing {
            Doing::Answering(count) => Doing::Answering(count + 1),
            _ => Doing::Answering(1),
        };
        Answering(self.clone())
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

    /// Ends when the connection has been idle for `idle`, or a head has taken `patience`.
    ///
    /// HTTP/2 has frames besides requests, and pings to notice who is gone; there only the first request is waited for.
    pub(super) async fn overdue(&self, is_http2: bool, idle: Duration, patience: Duration) {
        let start = Instant::now();
        let step = (patience / 8).max(Duration::from_millis(10));
        loop {
            let doing = *self.doing();
            let end = match doing {
                _ if is_http2 && self.has_asked.load(Ordering::Relaxed) => return std::future::pending().await,
                _ if is_http2 => Some(start + idle),
                Doing::Idle(since) => Some(since + idle),
                Doing::Head(since) => Some(since + patience),
                Doing::Answering(_) => None,
            };
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return,
                left => sleep(left.map_or(step, |left| left.min(step))).await,
            }
        }
    }
}

/// A stream that tells when bytes arrive.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    activity: Activity,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Watched { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.reads();
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

    async fn overdue_after(activity: &Activity, is_http2: bool) -> Option<u64> {
        let start = Instant::now();
        let limit = Duration::from_secs(1000);
        let outcome = tokio::time::timeout(limit, activity.overdue(is_http2, IDLE, PATIENCE)).await;
        outcome.ok().map(|()| start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_idle_for_long_and_a_head_may_not_take_long() {
        let activity = Activity::new();
        assert_eq!(overdue_after(&activity, false).await, Some(150));
        let activity = Activity::new();
        activity.reads();
        assert_eq!(overdue_after(&activity, false).await, Some(10));
        let activity = Activity::new();
        let (one, two) = (activity.answering(), activity.answering());
        activity.reads();
        drop(one);
        assert_eq!(overdue_after(&activity, false).await, None, "an answer may take its time, and so may its body");
        drop(two);
        assert_eq!(overdue_after(&activity, false).await, Some(150), "and then it is idle again");
    }

    #[tokio::test(start_paused = true)]
    async fn of_http2_only_the_first_request_is_waited_for() {
        let activity = Activity::new();
        activity.reads();
        assert_eq!(overdue_after(&activity, true).await, Some(150), "a preface is no request");
        drop(activity.answering());
        assert_eq!(overdue_after(&activity, true).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_begins_late_is_noticed_in_time() {
        let activity = Activity::new();
        let begins = async {
            sleep(Duration::from_secs(100)).await;
            activity.reads();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            time = overdue_after(&activity, false) => assert!(time.is_some_and(|time| (110..113).contains(&time)), "{time:?}"),
            () = begins => {}
        }
    }
}
