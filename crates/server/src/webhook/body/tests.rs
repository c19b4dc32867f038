use futures::channel::mpsc::{UnboundedSender, unbounded};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;

type Sender = UnboundedSender<Result<Bytes, std::io::Error>>;
type Reading = JoinHandle<Result<Bytes, BodyReadError>>;

const DEADLINE: Duration = Duration::from_secs(10);

fn bodies(body: usize, held: usize) -> Arc<Bodies> {
    let bounds = BodyLimits { body, time: DEADLINE, held };
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

async fn read(bodies: &Arc<Bodies>, bytes: usize) -> Result<Bytes, BodyReadError> {
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
async fn partly_read_bodies_do_not_block_each_other() {
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
async fn bodies_that_arrive_evenly_do_not_deadlock() {
    // The fifth takes six of its eight bytes before another request waits.
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
async fn an_answer_is_charged_until_it_is_read_and_is_aborted_for_waiting_bodies() {
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
async fn slow_bodies_are_aborted_only_while_others_wait() {
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
async fn a_body_that_is_too_large_is_read_without_taking_memory() {
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
