use std::pin::Pin;

use kube::api::{DeleteParams, ObjectMeta};
use serde_json::json;

use super::super::testing::{ApiServer, Failure};
use super::*;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/topologist";
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);

/// A process that takes part, and that can be stopped and continued like one.
struct Candidate {
    leadership: Leadership,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    election: Pin<Box<dyn Future<Output = ()>>>,
}

impl Candidate {
    fn new(server: &ApiServer, identity: &str) -> Self {
        Candidate::of(server, identity, LEASE)
    }

    fn of(server: &ApiServer, identity: &str, duration: Duration) -> Self {
        let (metrics, stop) = (Arc::new(Metrics::default()), CancellationToken::new());
        let candidacy = Candidacy { identity: identity.to_owned(), ..Candidacy::new("ns", "topologist", duration) };
        let (election, leadership) = Election::new(server.client(), candidacy, metrics.clone());
        Candidate { leadership, metrics, stop: stop.clone(), election: Box::pin(election.run(stop)) }
    }

    /// Lets the process run for a while; it stands still otherwise.
    async fn run(&mut self, time: Duration) {
        let _ = timeout(time, &mut self.election).await;
    }

    fn leads(&self) -> bool {
        self.leadership.state.borrow().leading
    }

    fn transitions(&self, outcome: &'static str) -> u64 {
        self.metrics.lease_transitions.get_or_create(&Outcome { outcome }).get()
    }
}

/// Both run side by side.
async fn run(time: Duration, one: &mut Candidate, other: &mut Candidate) {
    tokio::join!(one.run(time), other.run(time));
}

fn spec(server: &ApiServer) -> LeaseSpec {
    let lease: Lease = serde_json::from_value(server.object(PATH).expect("there is a lease")).unwrap();
    lease.spec.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_missing_is_acquired_and_renewed_in_place() {
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    assert_eq!(one.leadership.may_write(), Err(NotLeading::NoLease));
    one.run(SECOND).await;
    assert!(one.leads() && one.leadership.may_write().is_ok());
    assert_eq!(one.metrics.leader.get(), 1);
    let first = spec(&server);
    assert_eq!((first.holder_identity.as_deref(), first.lease_duration_seconds), (Some("one"), Some(15)));
    one.run(60 * SECOND).await;
    let later = spec(&server);
    assert!(one.leads() && one.leadership.may_write().is_ok());
    assert_eq!((later.acquire_time, later.lease_transitions), (first.acquire_time, first.lease_transitions));
    assert_ne!(later.renew_time, first.renew_time);
    let reads = server.take_requests().iter().filter(|request| request.method == http::Method::GET).count();
    assert_eq!(reads, 1, "a leader writes on what it wrote last");
}

#[tokio::test(start_paused = true)]
async fn a_follower_takes_over_a_lease_duration_after_the_last_renewal_it_saw() {
    let server = ApiServer::default();
    let (mut one, mut two) = (Candidate::new(&server, "one"), Candidate::new(&server, "two"));
    run(SECOND, &mut one, &mut two).await;
    run(60 * SECOND, &mut one, &mut two).await;
    assert!(one.leads() && !two.leads());
    drop(one);
    two.run(12 * SECOND).await;
    assert!(!two.leads(), "the lease may still be in use");
    two.run(6 * SECOND).await;
    assert!(two.leads());
    assert_eq!(spec(&server).lease_transitions, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_replaced_within_its_lease_and_two_seconds() {
    for millis in [500, 1_000, 2_500, 3_000, 15_000, 40_000, 137_000] {
        let duration = Duration::from_millis(millis);
        let mut latest = Duration::ZERO;
        // At every moment between two renewals and between two looks.
        for moment in 0..16 {
            let server = ApiServer::default();
            let mut one = Candidate::of(&server, "one", duration);
            let mut two = Candidate::of(&server, "two", duration);
            one.run(duration / 30).await;
            run(duration * 2 + duration * moment / 32, &mut one, &mut two).await;
            assert!(one.leads() && !two.leads(), "{duration:?}");
            let last = one.leadership.office.renewal().unwrap().at;
            drop(one);
            let died = Instant::now();
            while !two.leads() {
                two.run(duration / 250).await;
                assert!(died.elapsed() <= duration + 2 * SECOND, "{duration:?}, {moment}: it is not replaced");
            }
            // Writes of the former leader end within nine tenths of its lease.
            assert!(last.elapsed() >= duration * 9 / 10, "{duration:?}, {moment}: {:?}", last.elapsed());
            latest = latest.max(died.elapsed());
        }
        // A second is left for requests, which take no time here.
        assert!(latest <= duration.max(SECOND) + SECOND + duration / 250, "{duration:?}: {latest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clocks_of_other_machines_do_not_matter() {
    for renewed in ["1970-01-01T00:00:00.000000Z", "2970-01-01T00:00:00.000000Z"] {
        let server = ApiServer::default();
        server.edit(PATH, |lease| {
            lease["metadata"]["name"] = json!("topologist");
            lease["spec"] = json!({"holderIdentity": "elsewhere", "leaseDurationSeconds": 15, "renewTime": renewed});
        });
        let mut one = Candidate::new(&server, "one");
        one.run(14 * SECOND).await;
        assert!(!one.leads(), "{renewed}: it may be a moment old");
        one.run(4 * SECOND).await;
        assert!(one.leads(), "{renewed}: nobody renewed it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_waits_as_long_as_the_holder_has_claimed() {
    let server = ApiServer::default();
    server.edit(PATH, |lease| {
        lease["metadata"]["name"] = json!("topologist");
        lease["spec"] = json!({"holderIdentity": "elsewhere", "leaseDurationSeconds": 60});
    });
    let mut one = Candidate::new(&server, "one");
    one.run(59 * SECOND).await;
    assert!(!one.leads());
    one.run(4 * SECOND).await;
    assert!(one.leads());
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_over_after_the_work_has_ended() {
    let server = ApiServer::default();
    let (mut one, mut two) = (Candidate::new(&server, "one"), Candidate::new(&server, "two"));
    run(SECOND, &mut one, &mut two).await;
    let ended = Arc::new(Mutex::new(None));
    let work = tokio::spawn(one.leadership.clone().while_leading({
        let (server, ended) = (server.clone(), ended.clone());
        move || {
            let noted = scopeguard(server.clone(), ended.clone());
            async move {
                let _noted = noted;
                std::future::pending::<()>().await;
            }
        }
    }));
    run(SECOND, &mut one, &mut two).await;
    one.stop.cancel();
    run(3 * SECOND, &mut one, &mut two).await;
    assert_eq!(ended.lock().unwrap().as_deref(), Some("one"), "the lease was still held when the work ended");
    assert!(!one.leads() && two.leads(), "nobody waits for a lease that was given back");
    assert_eq!((one.transitions("released"), one.transitions("lost")), (1, 0));
    assert_eq!((one.metrics.leader.get(), one.leadership.may_write()), (0, Err(NotLeading::NoLease)));
    work.abort();
}

/// Notes who holds the lease when it is dropped.
fn scopeguard(server: ApiServer, ended: Arc<Mutex<Option<String>>>) -> impl Drop {
    struct Noted(ApiServer, Arc<Mutex<Option<String>>>);
    impl Drop for Noted {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = spec(&self.0).holder_identity;
        }
    }
    Noted(server, ended)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_writing_while_its_lease_still_lasts() {
    for failure in [Failure::Hangs, Failure::Status(500), Failure::Status(403)] {
        let server = ApiServer::default();
        let mut one = Candidate::new(&server, "one");
        one.run(SECOND).await;
        one.leadership.acquired().await;
        server.fail(Some(failure));
        let lost = tokio::spawn({
            let mut leadership = one.leadership.clone();
            async move { leadership.lost().await }
        });
        one.run(4 * SECOND).await;
        assert!(one.leads() && one.leadership.may_write().is_ok(), "{failure:?}: a hiccup is no loss");
        one.run(4 * SECOND).await;
        assert_eq!(one.leadership.may_write(), Err(NotLeading::NoLease), "{failure:?}");
        assert!(!one.leads() && lost.is_finished());
        assert_eq!((one.transitions("lost"), one.metrics.leader.get()), (1, 0));
        // No other process took it since.
        server.fail(None);
        one.run(4 * SECOND).await;
        assert!(one.leads() && one.leadership.may_write().is_ok(), "{failure:?}: it is acquired again");
        assert_eq!(spec(&server).lease_transitions, Some(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_writes_nothing_more() {
    let server = ApiServer::default();
    let (mut one, mut two) = (Candidate::new(&server, "one"), Candidate::new(&server, "two"));
    run(SECOND, &mut one, &mut two).await;
    assert!(one.leads());
    let writer = one.leadership.writer(server.client());
    // The process stands still, which includes everything that would tell it so.
    two.run(20 * SECOND).await;
    assert!(two.leads());
    assert!(one.leads(), "it has not noticed yet");
    assert_eq!(one.leadership.may_write(), Err(NotLeading::Overdue));
    let leases: Api<Lease> = Api::namespaced(writer, "ns");
    server.take_requests();
    assert!(leases.delete("topologist", &DeleteParams::default()).await.is_err());
    assert!(server.take_requests().is_empty(), "nothing was sent");
    run(SECOND, &mut one, &mut two).await;
    assert!(!one.leads() && two.leads());
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn a_writer_can_always_read_and_cancels_writes_before_the_lease_expires() {
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    let leases: Api<Lease> = Api::namespaced(one.leadership.writer(server.client()), "ns");
    assert!(leases.get_opt("topologist").await.unwrap().is_none());
    let other = Lease { metadata: ObjectMeta { name: Some("other".into()), ..Default::default() }, spec: None };
    let refused = leases.create(&PostParams::default(), &other).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Service(reason) if reason.is::<NotLeading>()), "{refused}");
    one.run(SECOND).await;
    leases.create(&PostParams::default(), &other).await.unwrap();
    server.fail(Some(Failure::Hangs));
    let started = Instant::now();
    assert!(leases.replace("other", &PostParams::default(), &other).await.is_err());
    assert!(started.elapsed() < LEASE / 2, "a write that starts in the first half of a lease ends in the second");
}

#[tokio::test(start_paused = true)]
async fn edits_of_the_lease_by_others_do_not_end_leadership() {
    let server = ApiServer::default();
    let (mut one, mut two) = (Candidate::new(&server, "one"), Candidate::new(&server, "two"));
    run(SECOND, &mut one, &mut two).await;
    server.edit(PATH, |lease| lease["metadata"]["labels"] = json!({"a": "b"}));
    run(10 * SECOND, &mut one, &mut two).await;
    assert!(one.leads() && !two.leads());
    assert_eq!(server.object(PATH).unwrap()["metadata"]["labels"], json!({"a": "b"}));
    server.delete(PATH);
    run(10 * SECOND, &mut one, &mut two).await;
    assert_eq!([&one, &two].iter().filter(|candidate| candidate.leads()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_took_is_lost_at_once() {
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    one.run(SECOND).await;
    server.edit(PATH, |lease| lease["spec"]["holderIdentity"] = json!("usurper"));
    one.run(2 * SECOND).await;
    assert!(!one.leads());
    assert_eq!(one.leadership.may_write(), Err(NotLeading::NoLease));
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("usurper"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_a_lease_write_is_recovered() {
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    one.run(SECOND).await;
    server.fail(Some(Failure::LosesAnswers));
    one.run(4 * SECOND).await;
    server.fail(None);
    one.run(3 * SECOND).await;
    assert!(one.leads());
    assert_eq!(one.transitions("acquired"), 1);
    server.fail(Some(Failure::LosesAnswers));
    one.run(4 * SECOND).await;
    one.stop.cancel();
    one.run(SECOND).await;
    server.fail(None);
    one.run(5 * SECOND).await;
    assert_eq!(spec(&server).holder_identity.as_deref(), Some("one"), "it could not be given back, and runs out");
}

/// Work that counts how often it starts.
fn counted(one: &Candidate) -> (tokio::task::JoinHandle<()>, Arc<Mutex<usize>>) {
    let terms = Arc::new(Mutex::new(0));
    let count = terms.clone();
    let work = one.leadership.clone().while_leading(move || {
        *count.lock().unwrap() += 1;
        std::future::pending()
    });
    (tokio::spawn(work), terms)
}

#[tokio::test(start_paused = true)]
async fn work_and_its_caches_outlive_a_lease_that_no_other_process_took() {
    // DEC-101
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    let (work, terms) = counted(&one);
    one.run(SECOND).await;
    let started = Instant::now();
    for failure in [Failure::Status(500), Failure::Hangs] {
        server.fail(Some(failure));
        one.run(LEASE).await;
        assert!(!one.leads() && one.leadership.may_write().is_err(), "{failure:?}: writes are refused meanwhile");
        server.fail(None);
        one.run(LEASE).await;
        assert!(one.leads() && one.leadership.may_write().is_ok(), "{failure:?}");
        assert_eq!(*terms.lock().unwrap(), 1, "{failure:?}: it goes on");
    }
    assert_eq!((one.transitions("lost"), one.transitions("acquired")), (2, 3));
    assert!(started.elapsed() >= 4 * LEASE);
    // A suspended term does not hold up a clean stop.
    server.fail(Some(Failure::Hangs));
    one.run(LEASE).await;
    one.stop.cancel();
    assert!(timeout(LEASE, &mut one.election).await.is_ok());
    work.abort();
}

#[tokio::test(start_paused = true)]
async fn work_starts_anew_after_another_process_had_the_lease() {
    // DEC-101
    let held = |lease: &mut serde_json::Value, holder: &str| lease["spec"]["holderIdentity"] = json!(holder);
    // Seen in its hands, and given back before this process could see that.
    for holder in ["two", ""] {
        let server = ApiServer::default();
        let mut one = Candidate::new(&server, "one");
        let (work, terms) = counted(&one);
        one.run(SECOND).await;
        server.fail(Some(Failure::Status(500)));
        one.run(LEASE).await;
        assert!(!one.leads());
        server.edit(PATH, |lease| held(lease, holder));
        server.fail(None);
        one.run(3 * LEASE).await;
        assert!(one.leads(), "{holder:?}");
        assert_eq!(*terms.lock().unwrap(), 2, "{holder:?}");
        work.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_by_itself_is_not_started_for_ever() {
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    one.run(SECOND).await;
    let ends = one.leadership.clone().while_leading(|| std::future::ready(()));
    assert!(timeout(SECOND, ends).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn slow_renewals_limit_the_writes() {
    // DEC-101
    let server = ApiServer::default();
    let mut one = Candidate::new(&server, "one");
    one.run(30 * SECOND).await;
    assert_eq!(one.metrics.write_limit.get(), 128);
    server.fail(Some(Failure::Hangs));
    one.run(10 * SECOND).await;
    assert!(one.metrics.write_limit.get() < 64, "{}", one.metrics.write_limit.get());
    server.fail(None);
    one.run(60 * SECOND).await;
    assert_eq!(one.metrics.write_limit.get(), 128);
}

#[tokio::test(start_paused = true)]
async fn a_longer_lease_is_held_on_a_slow_api_server() {
    // DEC-101
    for (duration, leads) in [(LEASE, false), (2 * LEASE, true)] {
        let server = ApiServer::default();
        server.fail(Some(Failure::Slow(5 * SECOND)));
        let mut one = Candidate::of(&server, "one", duration);
        one.run(300 * SECOND).await;
        assert_eq!((one.leads(), one.leadership.may_write().is_ok()), (leads, leads), "{duration:?}");
        assert_eq!((one.transitions("acquired"), one.transitions("lost")), (u64::from(leads), 0), "{duration:?}");
    }
    let late = LeaseError::Late(Candidacy::new("ns", "topologist", LEASE).request()).to_string();
    assert_eq!(
        late,
        "timed out after 3s, a fifth of the lease duration; if the API server always takes this long, increase \
         --lease-duration"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_of_the_lease_that_goes_back_begins_a_new_term() {
    // DEC-105
    let server = ApiServer::default();
    let history = Arc::new(crate::kubernetes::history::ApiHistory::default());
    let (metrics, stop) = (Arc::new(Metrics::default()), CancellationToken::new());
    let candidacy = Candidacy { identity: "one".to_owned(), ..Candidacy::new("ns", "topologist", LEASE) };
    let (election, leadership) = Election::new(server.client(), candidacy, metrics.clone());
    let election = Box::pin(election.watching(history.clone()).run(stop.clone()));
    let mut one = Candidate { leadership, metrics, stop, election };
    let (work, terms) = counted(&one);
    one.run(60 * SECOND).await;
    let copy = server.copy();
    one.run(60 * SECOND).await;
    assert_eq!((*terms.lock().unwrap(), one.transitions("acquired"), history.epoch()), (1, 1, 0));
    server.restore(copy);
    one.run(5 * SECOND).await;
    assert!(one.leads());
    assert_eq!(
        (*terms.lock().unwrap(), history.epoch()),
        (2, 1),
        "it leads again, with caches of the restored history"
    );
    one.run(60 * SECOND).await;
    assert_eq!((*terms.lock().unwrap(), history.epoch()), (2, 1));
    work.abort();
}

#[test]
fn identities_differ() {
    let identity = || Candidacy::new("ns", "topologist", LEASE).identity;
    assert_ne!(identity(), identity());
}
