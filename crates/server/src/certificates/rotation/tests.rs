use std::collections::VecDeque;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

fn policy() -> Policy {
    Policy { certificate: 90 * DAY, authority: 5 * 365 * DAY, names: vec!["topologist.ns.svc".to_owned()] }
}

fn start() -> SystemTime {
    UNIX_EPOCH + 20_000 * DAY
}

/// An installation: the Secret, what the configurations hold, replicas that are late, and API servers that are late.
struct World {
    policy: Policy,
    now: SystemTime,
    stored: StoredSecret,
    live: TrustedBundles,
    /// When the configurations changed.
    changed: SystemTime,
    /// Pairs that a replica may show, with the time until which it may, the present one last.
    shown: VecDeque<(SecretContent, SystemTime)>,
    /// Bundles that an API server may go by, the present one last.
    trusted: VecDeque<(String, SystemTime)>,
    steps: Vec<&'static str>,
    /// How late replicas are at most.
    replicas_lag: Duration,
    /// How late API servers are at most.
    servers_lag: Duration,
}

impl World {
    fn new(policy: Policy, stored: StoredSecret, bundles: &[&str]) -> Self {
        let bundles: Vec<String> = bundles.iter().map(|bundle| (*bundle).to_owned()).collect();
        let never = start() + 100_000 * DAY;
        let trusted = bundles.first().map(|bundle| (bundle.clone(), never)).into_iter().collect();
        let live = TrustedBundles { is_known: true, bundles, unchanged: Duration::ZERO };
        let (shown, steps) = (VecDeque::new(), Vec::new());
        let (replicas_lag, servers_lag) = (Duration::from_mins(30), 9 * SECOND);
        World { policy, now: start(), stored, live, changed: start(), shown, trusted, steps, replicas_lag, servers_lag }
    }

    /// An installation with its certificate, trusted everywhere.
    fn settled() -> Self {
        let mut world = World::new(policy(), StoredSecret::Absent, &["", ""]);
        world.run_until(start() + DAY);
        world.steps.clear();
        world
    }

    fn content(&self) -> SecretContent {
        match &self.stored {
            StoredSecret::Ours(content) => content.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Does the work that is due; returns when to look again.
    fn turn(&mut self) -> SystemTime {
        self.live.unchanged = self.now.duration_since(self.changed).unwrap();
        let plan = next(&self.stored, &self.live, &self.policy, self.now);
        if let Some(bundle) = &plan.bundle
            && !self.live.all_hold(bundle)
            && self.live.is_known
        {
            self.live.bundles.iter_mut().for_each(|held| held.clone_from(bundle));
            self.changed = self.now;
            for (_, until) in &mut self.trusted {
                *until = (*until).min(self.now + self.servers_lag);
            }
            self.trusted.push_back((bundle.clone(), start() + 100_000 * DAY));
            self.steps.push("publish");
            return self.now;
        }
        self.steps.extend(match &plan.step {
            RotationStep::Wait { until } => return *until,
            RotationStep::Refuse => return self.now + IDLE,
            RotationStep::Make { issue: true, .. } => Some("make and issue"),
            RotationStep::Make { issue: false, .. } => Some("make"),
            RotationStep::Issue => Some("issue"),
            RotationStep::Keep { .. } => Some("keep"),
        });
        let content = match &self.stored {
            StoredSecret::Ours(content) => content.clone(),
            _ => SecretContent::default(),
        };
        let content = perform(&plan.step, &content, &self.policy, self.now).unwrap().unwrap();
        self.stored = StoredSecret::Ours(content.clone());
        self.take_on(content);
        self.now
    }

    /// Replicas take on what they accept, sooner or later.
    fn take_on(&mut self, content: SecretContent) {
        let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
        let is_new = self.shown.back().is_none_or(|(shown, _)| shown.certificate != content.certificate);
        if is_new && content.serving(&files, &self.policy.names, self.now).is_ok() {
            for (_, until) in &mut self.shown {
                *until = (*until).min(self.now + self.replicas_lag);
            }
            self.shown.push_back((content, start() + 100_000 * DAY));
        }
    }

    /// Every pair that may be shown is accepted by every API server.
    fn check(&mut self) {
        let now = self.now;
        self.shown.retain(|(_, until)| *until >= now);
        self.trusted.retain(|(_, until)| *until >= now);
        for (content, _) in &self.shown {
            let chain = Certificate::read_all(&content.certificate);
            for (bundle, _) in &self.trusted {
                let authorities = Certificate::read_all(bundle);
                // A bundle without a CA does not get worse.
                let accepts = authorities.is_empty()
                    || authorities.iter().any(|authority| authority.verifies(&chain, &self.policy.names, now));
                let days = now.duration_since(start()).unwrap().as_secs_f64() / 86_400.0;
                assert!(accepts, "a request is lost on day {days}, after {:?}", self.steps);
            }
        }
    }

    fn run_until(&mut self, end: SystemTime) {
        let mut turns = 0;
        while self.now < end {
            let until = self.turn();
            self.check();
            turns += 1;
            assert!(turns < 200_000, "it goes in circles: {:?}", &self.steps[..40.min(self.steps.len())]);
            self.now = self.now.max(until).min(end);
            self.check();
        }
    }

    fn run(&mut self, time: Duration) -> Vec<&'static str> {
        self.run_until(self.now + time);
        std::mem::take(&mut self.steps)
    }
}

#[test]
fn an_installation_without_anything_serves_at_once() {
    let mut world = World::new(policy(), StoredSecret::Absent, &["", "", ""]);
    assert_eq!(world.run(SECOND), ["make and issue", "publish"]);
    let content = world.content();
    assert_eq!(content.former, "");
    assert_eq!(world.live.bundles, [&*content.authority; 3]);
    assert_eq!(world.run(50 * DAY), [""; 0], "and then nothing is to be done for long");
}

#[test]
fn no_request_is_lost_in_twelve_years_of_rotations() {
    let mut world = World::settled();
    let first = world.content().authority;
    let steps = world.run(12 * 365 * DAY);
    let count = |step| steps.iter().filter(|other| **other == step).count();
    // Authorities at two thirds of five years, certificates at two thirds of ninety days.
    assert_eq!(count("make"), 3);
    assert_eq!(count("keep"), 3);
    assert_eq!(count("publish"), 6, "once with the old and once without");
    assert!((73..80).contains(&count("issue")), "{}", count("issue"));
    assert_eq!(steps.len(), 12 + count("issue"));
    let order: Vec<_> = steps.iter().skip_while(|step| **step != "make").take(5).copied().collect();
    assert_eq!(order, ["make", "publish", "issue", "publish", "keep"]);
    assert_ne!(world.content().authority, first);
}

#[test]
fn no_request_is_lost_when_certificates_live_for_seconds() {
    let policy = Policy { certificate: 20 * SECOND, authority: 60 * SECOND, ..policy() };
    let mut world = World::new(policy, StoredSecret::Absent, &["", ""]);
    (world.replicas_lag, world.servers_lag) = (SECOND, SECOND);
    let steps = world.run(Duration::from_mins(10));
    let count = |step| steps.iter().filter(|other| **other == step).count();
    assert!((12..20).contains(&count("make")), "{}", count("make"));
    assert!(count("issue") > 40, "{}", count("issue"));
    assert!(steps.len() < 200, "{}", steps.len());
}

#[test]
fn a_new_authority_waits_until_it_is_trusted_everywhere() {
    let mut world = World::settled();
    // The authority is due; one configuration cannot be written.
    world.now += 4 * 365 * DAY;
    world.shown.clear();
    let content = world.content();
    let renewed = perform(&RotationStep::Issue, &content, &world.policy, world.now).unwrap().unwrap();
    world.stored = StoredSecret::Ours(renewed);
    let plan = next(&world.stored, &world.live, &world.policy, world.now);
    let RotationStep::Make { former, issue: false } = &plan.step else { panic!("{plan:?}") };
    assert_eq!(*former, content.authority);
    let made = perform(&plan.step, &world.content(), &world.policy, world.now).unwrap().unwrap();
    world.stored = StoredSecret::Ours(made.clone());
    let both = format!("{}{}", made.authority, content.authority);
    for (bundles, seconds, is_issued) in [
        (vec![both.clone(), content.authority.clone()], 50, false),
        (vec![both.clone(), both.clone()], 0, false),
        (vec![both.clone(), both.clone()], 9, false),
        (vec![both.clone(), both], 10, true),
    ] {
        let live = TrustedBundles { is_known: true, bundles, unchanged: seconds * SECOND };
        let plan = next(&world.stored, &live, &world.policy, world.now + seconds * SECOND);
        assert_eq!(plan.step == RotationStep::Issue, is_issued, "{plan:?}");
    }
    let unknown = TrustedBundles { is_known: false, bundles: vec![], unchanged: 20 * DAY };
    let plan = next(&world.stored, &unknown, &world.policy, world.now + 20 * DAY);
    assert!(matches!(plan.step, RotationStep::Wait { .. }), "{plan:?}");
}

#[test]
fn a_clock_that_jumps_delays_nothing() {
    let world = World::settled();
    let content = world.content();
    // All has expired, so nothing is lost.
    let now = world.now + 3650 * DAY;
    let plan = next(&world.stored, &world.live, &world.policy, now);
    let made = perform(&plan.step, &content, &world.policy, now).unwrap().unwrap();
    let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
    assert!(content.serving(&files, &world.policy.names, now).is_err());
    made.serving(&files, &world.policy.names, now).unwrap();
    // Nothing is valid yet, by our clock alone: what is shown stays trusted, and is replaced in good order.
    let now = world.now - 3650 * DAY;
    let plan = next(&world.stored, &world.live, &world.policy, now);
    assert_eq!(plan.step, RotationStep::Make { former: content.authority.clone(), issue: false });
    let made = perform(&plan.step, &content, &world.policy, now).unwrap().unwrap();
    let both = format!("{}{}", made.authority, content.authority);
    for (seconds, is_issued) in [(9, false), (10, true)] {
        let live = TrustedBundles { is_known: true, bundles: vec![both.clone(); 2], unchanged: seconds * SECOND };
        let plan = next(&StoredSecret::Ours(made.clone()), &live, &world.policy, now);
        assert_eq!((plan.bundle.as_deref(), plan.step == RotationStep::Issue), (Some(&*both), is_issued));
    }
    // Back by less than certificates are backdated, while a new authority becomes known.
    let made = make(&content.authority, false, &content, &world.policy, world.now).unwrap();
    let bundle = format!("{}{}", made.authority, content.authority);
    let live = TrustedBundles { is_known: true, bundles: vec![bundle; 2], unchanged: 10 * SECOND };
    let plan = next(&StoredSecret::Ours(made), &live, &world.policy, world.now - 240 * SECOND);
    assert_eq!(plan.step, RotationStep::Issue);
}

#[test]
fn another_leader_can_continue_a_rotation_at_any_point() {
    let mut world = World::settled();
    world.run((5 * 365 * 2 / 3 - 2) * DAY);
    let mut leaders = 0;
    while !world.steps.contains(&"keep") {
        let until = world.turn();
        if until == world.now {
            // The leader goes with its step; the next one has seen nothing change before its own time.
            leaders += 1;
            world.changed = world.now;
        }
        world.check();
        world.now = world.now.max(until);
        world.check();
    }
    assert!(leaders >= 5, "{leaders}");
    assert_eq!(world.run(DAY).last(), Some(&"keep"), "and nothing is left to be done");
}

type Damage = fn(&mut SecretContent);

#[test]
fn a_secret_that_was_damaged_is_repaired_and_no_request_is_lost() {
    let cases: [(&str, Damage, &[&str]); 10] = [
        ("the serving pair is gone", |c| (c.certificate, c.key) = Default::default(), &["issue"]),
        ("the serving certificate is garbage", |c| c.certificate = "x".into(), &["issue"]),
        ("its key is another", |c| c.key = KeyPairs::other(), &["issue"]),
        ("the authority's key is gone", |c| c.authority_key.clear(), &["make", "publish", "issue"]),
        ("the authority is garbage", |c| c.authority = "x".into(), &["make", "publish", "issue"]),
        ("former authorities are garbage", |c| c.former = "x".into(), &["keep"]),
        ("everything is gone", |c| *c = SecretContent::default(), &["make", "publish", "issue"]),
        (
            "only the pair is left",
            |c| (c.authority, c.authority_key) = Default::default(),
            &["make", "publish", "issue"],
        ),
        ("the pair is somebody else's", |c| (c.certificate, c.key) = KeyPairs::foreign(), &["issue"]),
        (
            "the authority may issue nothing",
            |c| (c.authority, c.authority_key) = (c.certificate.clone(), c.key.clone()),
            &["make", "publish", "issue"],
        ),
    ];
    for (case, damage, want) in cases {
        let mut world = World::settled();
        world.run(10 * DAY);
        let mut content = world.content();
        damage(&mut content);
        world.stored = StoredSecret::Ours(content.clone());
        world.take_on(content);
        let steps = world.run(DAY);
        assert_eq!(steps[..want.len()], *want, "{case}: {steps:?}");
        let content = world.content();
        assert_eq!(content.former, "", "{case}: the overlap ends");
        assert_eq!(world.live.bundles, [&*content.authority; 2], "{case}");
        assert_eq!(world.run(10 * DAY), [""; 0], "{case}: it stays repaired");
    }
}

#[test]
fn a_deleted_secret_is_created_again_and_serving_replicas_stay_trusted() {
    let mut world = World::settled();
    world.stored = StoredSecret::Absent;
    assert_eq!(world.run(DAY), ["make", "publish", "issue", "publish", "keep"]);
}

#[test]
fn bundles_from_elsewhere_are_trusted_until_the_own_certificate_is_everywhere() {
    // As when certificates came from somewhere else so far.
    let before = make("", true, &SecretContent::default(), &policy(), start()).unwrap();
    let mut world = World::new(policy(), StoredSecret::Absent, &[&before.authority, &before.authority]);
    world.shown.push_back((before, start() + Duration::from_mins(30)));
    assert_eq!(world.run(DAY), ["make", "publish", "issue", "publish", "keep"]);
}

#[test]
fn a_bundle_that_was_overwritten_is_written_again() {
    let mut world = World::settled();
    let bundle = world.content().authority;
    world.live.bundles = vec![bundle.clone(), String::new()];
    let plan = next(&world.stored, &world.live, &world.policy, world.now);
    assert_eq!(plan.bundle, Some(bundle));
    assert!(matches!(plan.step, RotationStep::Wait { .. }), "the Secret is in order: {plan:?}");
}

#[test]
fn a_secret_without_the_managed_label_is_not_changed() {
    let world = World::new(policy(), StoredSecret::Foreign, &["", ""]);
    let plan = next(&world.stored, &world.live, &world.policy, world.now);
    assert_eq!(plan, Rotation { bundle: None, step: RotationStep::Refuse });
}

#[test]
fn other_names_get_another_certificate() {
    let mut world = World::settled();
    world.policy.names = vec!["moved.ns.svc".to_owned()];
    world.shown.clear();
    assert_eq!(world.run(DAY), ["issue"]);
    let chain = Certificate::read_all(&world.content().certificate);
    let authority = &Certificate::read_all(&world.content().authority)[0];
    assert!(authority.verifies(&chain, &world.policy.names, world.now));
}

#[test]
fn a_first_certificate_is_issued_after_an_hour_even_if_a_configuration_cannot_be_written() {
    let mut world = World::new(policy(), StoredSecret::Absent, &["", "x"]);
    world.live.is_known = false;
    assert_eq!(world.run(59 * Duration::from_mins(1)), ["make"]);
    assert_eq!(world.run(Duration::from_mins(2)), ["issue"]);
}

#[test]
fn replicas_accept_only_certificates_of_a_ca_in_the_secret() {
    let content = World::settled().content();
    let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
    let check = |content: &SecretContent, names: &[String]| {
        content.serving(&files, names, start() + DAY).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(check(&content, &policy().names), Ok(()));
    let (certificate, key) = KeyPairs::foreign();
    let foreign = SecretContent { certificate, key, ..content.clone() };
    assert!(check(&foreign, &policy().names).unwrap_err().contains("no authority of the Secret"));
    assert!(check(&content, &["other.svc".to_owned()]).unwrap_err().contains("no authority of the Secret"));
    assert!(check(&SecretContent::default(), &[]).unwrap_err().contains("holds no certificate"));
    let data = content.data().into_iter().map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
    assert_eq!(SecretContent::from_data(&data.collect()), content);
}

/// Keys and pairs of others.
struct KeyPairs;

impl KeyPairs {
    fn other() -> String {
        make("", true, &SecretContent::default(), &policy(), start()).unwrap().key
    }

    fn foreign() -> (String, String) {
        let content = make("", true, &SecretContent::default(), &policy(), start()).unwrap();
        (content.certificate, content.key)
    }
}
