//! Attacks on connections and bodies, over real TLS: while each goes on, normal reviews are answered, all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::harness::tls_client::{Connection, Protocol, tcp_from, tls_over};
use crate::harness::wait;
use crate::harness::wait::SOON;
use crate::serving::{Served, VALIDATE, response, review, serve};

/// The peer that attacks; normal callers are 127.0.0.1.
const ATTACKER: &str = "127.0.0.2:0";

/// A review whose caller waits for longer than any body may take.
const PATIENT: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster?timeout=30s";

/// How long a review on a new connection may take, connection included, on a busy machine without optimisation.
const AT_ONCE: Duration = Duration::from_secs(5);

impl Served {
    /// A TLS connection of a peer.
    async fn tls_from(&self, peer: &str, protocol: Protocol) -> TlsStream<TcpStream> {
        let stream = tcp_from(peer.parse().unwrap(), &self.topologist.webhook).await.unwrap();
        tls_over(stream, None, &self.authority, protocol).await.unwrap()
    }

    /// The beginning of a review with this head, on a connection of the attacker.
    async fn begin(&self, head: &str) -> TlsStream<TcpStream> {
        let mut stream = self.tls_from(ATTACKER, Protocol::Http1).await;
        let head = format!("POST {PATIENT} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// So many connections, a few at a time.
    async fn many<T>(&self, count: usize, open: impl AsyncFn() -> T) -> Vec<T> {
        stream::iter(0..count).map(|_| open()).buffer_unordered(32).collect().await
    }

    /// Normal reviews, each on a connection of its own, are all answered, and soon.
    async fn answers_new_callers(&self, count: usize) {
        for index in 0..count {
            let protocol = if index % 2 == 0 { Protocol::Http1 } else { Protocol::Http2 };
            let begun_at = Instant::now();
            let answer = tokio::time::timeout(SOON, async {
                let mut connection = self.connect(protocol).await;
                connection.post(VALIDATE, review("review.json")).await.unwrap()
            });
            let (code, body) = answer.await.expect("a new caller is answered");
            assert_eq!((code.as_u16(), &response(&body)["allowed"]), (200, &true.into()), "{index}: {body}");
            assert!(begun_at.elapsed() < AT_ONCE, "{index} of {count} took {:?}", begun_at.elapsed());
        }
    }

    fn count(&self, name: &str, reason: &str) -> Option<f64> {
        self.topologist.metric(&format!("topologist_{name}_total{{reason=\"{reason}\"}}"))
    }

    /// After two seconds as slow ones, or before because their peer has most connections.
    fn closed_those_that_keep_us_waiting(&self) -> bool {
        ["slow", "busy"].iter().any(|reason| self.count("connections_closed_early", reason).is_some())
    }

    async fn wait_for(&self, name: &str, reason: &str) {
        let fact = format!("{name} is counted for {reason}");
        wait::until_async(&fact, SOON, async || self.count(name, reason).is_some(), wait::nothing).await;
    }

    /// The most memory that the process has had, in MiB.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.topologist.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_of_one_byte_are_charged_one_byte() {
    let served = Arc::new(serve(&[]));
    let chunks = "1\r\nx\r\n".repeat(500);
    // Together more chunks than there are KiB for all bodies, and again as soon as a body has been answered.
    let flood: Vec<_> = (0..64)
        .map(|_| {
            let (served, chunks) = (served.clone(), chunks.clone());
            tokio::spawn(async move {
                loop {
                    let mut stream = served.begin("transfer-encoding: chunked").await;
                    while stream.write_all(chunks.as_bytes()).await.is_ok() {}
                }
            })
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        served.answers_new_callers(2).await;
    }
    assert_eq!(served.count("refused_requests", "too_many"), None);
    assert!(served.peak() < 200, "{} MiB", served.peak());
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_two_bytes_are_charged_two_bytes() {
    let served = serve(&[]);
    let mut flood = Vec::new();
    for _ in 0..8 {
        let io = TokioIo::new(served.tls_from(ATTACKER, Protocol::Http2).await);
        let frames = stream::iter(0..35_000).then(async |index| {
            // So fast that they are in the way, and not so fast that h2 ends the connection for it.
            if index % 64 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"  ")))
        });
        let body = StreamBody::new(Box::pin(frames));
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        flood.push((
            tokio::spawn(connection),
            tokio::spawn(async move {
                let request = Request::post(format!("https://localhost{PATIENT}")).body(body).unwrap();
                sender.send_request(request).await.map(|response| response.status().as_u16())
            }),
        ));
    }
    served.answers_new_callers(30).await;
    for (connection, answer) in flood {
        // It is no review; on a busy machine it may also come late, or h2 ends the connection because of its small
        // frames.
        let outcome = answer.await.unwrap();
        assert!(outcome.as_ref().map_or(true, |code| [400, 408].contains(code)), "{outcome:?}");
        connection.abort();
    }
    assert_eq!(served.count("refused_requests", "too_many"), None);
    served.answers_new_callers(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_stall_give_their_memory_to_reviews() {
    let served = serve(&[]);
    let part = vec![b' '; 6_900_000];
    let mut stalled = Vec::new();
    for mut stream in served.many(45, async || served.begin("content-length: 7000000").await).await {
        let part = part.clone();
        stalled.push(tokio::spawn(async move {
            // What finds no memory is not read; all keep their connections.
            let _ = stream.write_all(&part).await;
            std::future::pending::<()>().await;
        }));
    }
    let waiting = "topologist_admission_requests_waiting{queue=\"memory\"}";
    let is_full = async || served.topologist.metric(waiting).is_some_and(|count| count >= 1.0);
    wait::until_async("the memory is full", SOON, is_full, wait::nothing).await;
    served.answers_new_callers(40).await;
    served.wait_for("refused_requests", "too_slow").await;
    assert!(served.peak() < 500, "{} MiB", served.peak());
    stalled.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_tls_connections_do_not_keep_others_out() {
    let served = serve(&["--client-patience", "10m"]);
    let silent = served.many(2048, async || served.tls_from(ATTACKER, Protocol::Http1).await).await;
    served.answers_new_callers(20).await;
    assert_eq!(served.topologist.admin_get("/readyz").0, 200);
    assert!(served.count("connections_closed_early", "no_request").is_some_and(|count| count >= 1.0));
    assert!(served.topologist.metric("topologist_connections").is_some_and(|open| open <= 2048.0 + 64.0));
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_sent_one_request_do_not_keep_others_out() {
    let served = serve(&[]);
    let idle = served
        .many(2048, async || {
            let stream = served.tls_from(ATTACKER, Protocol::Http2).await;
            let mut connection = Connection::over(stream, Protocol::Http2).await.unwrap();
            connection.post(VALIDATE, "{}").await.unwrap();
            connection
        })
        .await;
    // A caller that was there before stays: its peer has fewer connections.
    let mut own = served.connect(Protocol::Http1).await;
    own.post(VALIDATE, review("review.json")).await.unwrap();
    served.answers_new_callers(20).await;
    own.post(VALIDATE, review("review.json")).await.unwrap();
    assert!(served.count("connections_closed_early", "idle").is_some_and(|count| count >= 1.0));
    assert_eq!(served.count("connections_closed_early", "no_request"), None);
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_handshakes_do_not_keep_others_out() {
    let served = serve(&["--client-patience", "10m"]);
    // Of the same peer as normal callers, too.
    for peer in [ATTACKER, "127.0.0.1:0"] {
        let half = served
            .many(2048, async || {
                let mut stream = tcp_from(peer.parse().unwrap(), &served.topologist.webhook).await.unwrap();
                stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
                stream
            })
            .await;
        served.answers_new_callers(20).await;
        drop(half);
    }
    assert!(served.count("connections_closed_early", "no_request").is_some_and(|count| count >= 2.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_with_slow_bodies_do_not_keep_others_out() {
    let served = serve(&["--connections", "16"]);
    let slow = served
        .many(16, async || {
            let mut stream = served.begin("content-length: 1000\r\nexpect: 100-continue").await;
            // The server waits for the body now.
            let mut go_on = [0; 25];
            stream.read_exact(&mut go_on).await.unwrap();
            assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
            stream
        })
        .await;
    served.answers_new_callers(4).await;
    assert!(served.closed_those_that_keep_us_waiting());
    drop(slow);
}

/// Requests over HTTP/2 by a peer that lets no byte of a body through, and answers pings.
async fn closed_window(io: TlsStream<TcpStream>) -> (Http2, tokio::task::JoinHandle<hyper::Result<()>>) {
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(io))
        .await
        .unwrap();
    (sender, tokio::spawn(connection))
}

type Http2 = hyper::client::conn::http2::SendRequest<http_body_util::combinators::BoxBody<Bytes, std::io::Error>>;

fn nothing() -> http_body_util::combinators::BoxBody<Bytes, std::io::Error> {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed()
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_do_not_keep_others_out() {
    let served = serve(&["--connections", "16", "--client-patience", "4s"]);
    // An idle connection of a normal caller stays.
    let mut own = served.connect(Protocol::Http1).await;
    own.post(VALIDATE, review("review.json")).await.unwrap();
    let mut unread = served
        .many(15, async || {
            let (mut sender, connection) = closed_window(served.tls_from(ATTACKER, Protocol::Http2).await).await;
            let request = Request::get("https://localhost/x").body(nothing()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), 404);
            (connection, answer, sender)
        })
        .await;
    served.answers_new_callers(4).await;
    own.post(VALIDATE, review("review.json")).await.unwrap();
    assert!(served.closed_those_that_keep_us_waiting());
    assert_eq!(served.count("connections_closed_early", "idle"), None);
    // Those that are not in the way end as well.
    for (connection, ..) in &mut unread {
        assert!(tokio::time::timeout(SOON, connection).await.is_ok(), "the server ends the connection");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_to_pipelined_requests_do_not_keep_others_out() {
    let served = serve(&["--connections", "8"]);
    let requests = "GET /x HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
    let unread = served
        .many(8, async || {
            let mut stream = served.tls_from(ATTACKER, Protocol::Http1).await;
            // Until the server reads no more, because its answers do not get away.
            let fill = async { while stream.write_all(requests.as_bytes()).await.is_ok() {} };
            let _ = tokio::time::timeout(Duration::from_secs(3), fill).await;
            stream
        })
        .await;
    served.answers_new_callers(4).await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_repeat_a_field_cost_little_while_their_bodies_arrive() {
    let served = serve(&[]);
    let before = served.peak();
    let mut flood = Vec::new();
    for _ in 0..50 {
        let io = TokioIo::new(served.tls_from(ATTACKER, Protocol::Http2).await);
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        let connection = tokio::spawn(connection);
        for _ in 0..100 {
            // After the first, each of these costs one byte.
            let mut request = Request::post(format!("https://localhost{PATIENT}"));
            for _ in 0..220 {
                request = request.header("a", "b");
            }
            let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
            if sender.ready().await.is_err() {
                break;
            }
            flood.push(tokio::spawn(sender.send_request(request.body(body).unwrap())));
        }
        flood.push(tokio::spawn(async move {
            let _ = connection.await;
            std::future::pending().await
        }));
    }
    served.answers_new_callers(10).await;
    // They are 5,000 requests with a million fields; no more than 4,096 are open at a time.
    // These take 106 MiB, and all of them would take 130.
    assert!(served.peak() - before < 120, "{} MiB and then {} MiB", before, served.peak());
    assert!(served.count("connections_closed_early", "busy").is_some_and(|count| count >= 1.0));
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_of_many_small_objects_costs_no_more_than_its_text() {
    let served = serve(&[]);
    let before = served.peak();
    let filling = vec![r#"{"":0}"#; 400_000].join(",");
    let object = format!(r#"{{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","spec":{{"x":[{filling}]}}}}"#);
    let objects = [object.as_str(); 4].join(",");
    let text = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u","desiredAPIVersion":"cluster.x-k8s.io/v1beta1","objects":[{objects}]}}}}"#
    );
    let address = &served.topologist.conversions;
    let mut connection = Connection::open(address, &served.authority, Protocol::Http1).await.unwrap();
    let (code, body) = connection.post("/convert", text).await.unwrap();
    assert_eq!(code.as_u16(), 200);
    assert!(body.contains("objects[3]: Cluster / (cluster.x-k8s.io/v1beta2): it has 400002 JSON objects"), "{body}");
    assert!(served.peak() - before < 60, "{} MiB and then {} MiB", before, served.peak());
}

#[test]
fn as_many_files_may_be_open_as_the_hard_limit_allows() {
    let served = serve(&[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", served.topologist.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_table_of_files_does_not_keep_others_out() {
    let served = serve(&["--client-patience", "10m"]);
    let limit = format!("--nofile={0}:{0}", 128);
    let pid = served.topologist.id().to_string();
    let status = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(status.success());
    let open = async || {
        let mut stream = tcp_from(ATTACKER.parse().unwrap(), &served.topologist.webhook).await.unwrap();
        stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
        stream
    };
    let half = served.many(200, open).await;
    served.answers_new_callers(6).await;
    drop(half);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_http2_connection_is_closed_gracefully_even_if_it_sends_pings() {
    let served = serve(&["--client-idle", "2s"]);
    let io = TokioIo::new(served.tls_from(ATTACKER, Protocol::Http2).await);
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(100))
        .keep_alive_while_idle(true)
        .handshake(io)
        .await
        .unwrap();
    let ended = tokio::spawn(connection);
    let begun_at = Instant::now();
    let body = http_body_util::Full::new(Bytes::from(review("review.json")));
    let request = Request::post(format!("https://localhost{VALIDATE}")).body(body).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    answer.into_body().collect().await.unwrap();
    let outcome = tokio::time::timeout(SOON, ended).await.expect("the server ends the connection").unwrap();
    assert!(outcome.is_ok(), "a GOAWAY is no error: {outcome:?}");
    assert!(begun_at.elapsed() >= Duration::from_secs(2), "{:?}", begun_at.elapsed());
}

/// Sends a head, then a body unless the answer comes first, and returns the answer.
async fn exchange(mut stream: TlsStream<TcpStream>, path: &str, head: &str, body: &[u8]) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.expect("the server reads all of it");
    let mut answer = Vec::new();
    // The server may leave the connection open.
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains("bytes\n") {
        let read = tokio::time::timeout(SOON, stream.read(&mut buffer)).await.expect("there is an answer").unwrap();
        assert!(read > 0, "the connection ends without an answer: {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_40_megabytes_get_413_in_every_form() {
    const SIZE: usize = 40_000_000;
    let served = serve(&[]);
    let spaces = vec![b' '; SIZE];
    let mut chunked = Vec::with_capacity(SIZE + 1_000_000);
    for chunk in spaces.chunks(1 << 20) {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let length = format!("content-length: {SIZE}");
    let expect = format!("{length}\r\nexpect: 100-continue");
    let huge = "content-length: 10000000000";
    for (path, address, limit) in
        [(VALIDATE, &served.topologist.webhook, 7_340_032), ("/convert", &served.topologist.conversions, 33_554_432)]
    {
        let words = format!("topologist: the body is larger than {limit} bytes\n");
        for (case, head, body) in [
            ("length", &*length, &spaces[..]),
            ("chunked", "transfer-encoding: chunked", &chunked),
            ("expect", &expect, &[]),
            ("huge", huge, &[]),
        ] {
            let stream = tcp_from(ATTACKER.parse().unwrap(), address).await.unwrap();
            let stream = tls_over(stream, None, &served.authority, Protocol::Http1).await.unwrap();
            let answer = exchange(stream, path, head, body).await;
            assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with(&words), "{path}, {case}: {answer}");
        }
        let mut connection = Connection::open(address, &served.authority, Protocol::Http2).await.unwrap();
        let (code, body) = connection.post(path, spaces.clone()).await.unwrap();
        assert_eq!((code.as_u16(), body), (413, words), "{path}, HTTP/2");
    }
    assert!(served.peak() < 300, "{} MiB: what is discarded is not kept", served.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_at_once_while_the_threads_of_reviews_are_busy() {
    let served = serve(&["--client-idle", "10m"]);
    let mut large: serde_json::Value = serde_json::from_str(&review("review.json")).unwrap();
    // Small enough for an async thread, and as much work as such a review can be.
    let machine_deployment = large["request"]["object"]["spec"]["topology"]["workers"]["machineDeployments"][0].clone();
    let many = (0..300).map(|index| {
        let mut one = machine_deployment.clone();
        one["name"] = format!("md-{index}").into();
        one
    });
    large["request"]["object"]["spec"]["topology"]["workers"]["machineDeployments"] = many.collect();
    let large = large.to_string();
    assert!(large.len() < 64 * 1024, "{}", large.len());
    let mut busy = Vec::new();
    for _ in 0..24 {
        let (mut connection, large) = (served.connect(Protocol::Http1).await, large.clone());
        busy.push(tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            for _ in 0..10 {
                let begun_at = Instant::now();
                let (code, body) = connection.post(VALIDATE, large.clone()).await.unwrap();
                assert_eq!(code.as_u16(), 200, "{body}");
                slowest = slowest.max(begun_at.elapsed());
            }
            slowest
        }));
    }
    let mut probes = Vec::new();
    while !busy.iter().all(tokio::task::JoinHandle::is_finished) {
        let begun_at = Instant::now();
        let topologist = &served.topologist;
        assert_eq!(tokio::task::block_in_place(|| topologist.admin_get("/healthz")), (200, "ok\n".to_owned()));
        probes.push(begun_at.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut reviews = Duration::ZERO;
    for task in busy {
        reviews = reviews.max(task.await.unwrap());
    }
    let slowest = probes.iter().max().unwrap();
    println!("{} probes, the slowest {slowest:?}; the slowest review {reviews:?}", probes.len());
    assert!(*slowest < Duration::from_secs(1), "{slowest:?}");
}
