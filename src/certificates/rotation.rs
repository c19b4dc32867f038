//! When which certificate is made, and whom the API server trusts meanwhile: decisions without IO.
//!
//! ```text
//!  Make ──► bundle of new and old ──► everywhere for a while ──► Issue ──► shown everywhere ──► Keep the new alone
//! ```
//!
//! No request is lost: a certificate is shown only after every configuration trusts its authority, and an authority is
//! trusted until long after the last of its certificates was replaced. All that is needed to go on stands in the Secret
//! and in the configurations, so another leader can take over at any point.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::authority::{Authority, Certificate, Validity, bundle};
use super::tls::{Files, Pair, TlsError, Usable};

/// How many authorities are trusted besides the present one; there is never a need for more than one or two.
const MOST_FORMER: usize = 4;

/// How long nothing is looked at again when nothing is due.
const IDLE: Duration = Duration::from_hours(1);

/// For how long certificates are made, and for which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The life of a serving certificate.
    pub certificate: Duration,
    /// The life of an authority, at least twice that of a serving certificate.
    pub authority: Duration,
    /// DNS names of the server.
    pub names: Vec<String>,
}

impl Policy {
    /// How long before now certificates begin to be valid, for clocks that are slow.
    fn backdate(&self) -> Duration {
        Duration::from_mins(5).min(self.certificate / 10)
    }

    /// How long a change of the configurations takes until every API server goes by it.
    fn settle(&self) -> Duration {
        Duration::from_secs(10).min(self.certificate / 10)
    }

    /// How long after a certificate was made its predecessor may still be shown somewhere.
    fn overlap(&self) -> Duration {
        Duration::from_hours(1).min(self.certificate / 5)
    }

    fn validity(&self, life: Duration, now: SystemTime) -> Validity {
        Validity { begins: now - self.backdate(), ends: now + life }
    }

    /// When a certificate with this validity was made.
    fn made(&self, validity: Validity) -> SystemTime {
        validity.begins + self.backdate()
    }
}

/// What the Secret holds; all of it in PEM form, and empty where there is nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub authority: String,
    pub authority_key: String,
    /// Authorities that are still trusted besides.
    pub former: String,
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Content {
    /// The keys of a Secret that are ours.
    pub const KEYS: [&str; 5] = ["ca.crt", "ca.key", "ca-old.crt", "tls.crt", "tls.key"];

    /// Reads the data of a Secret; what is no text counts as absent.
    pub fn of(data: &BTreeMap<String, Vec<u8>>) -> Self {
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.clone()).ok());
        let [authority, authority_key, former, certificate, key] = Self::KEYS.map(|key| text(key).unwrap_or_default());
        Content { authority, authority_key, former, certificate, key }
    }

    /// The data of a Secret.
    pub fn data(&self) -> BTreeMap<&'static str, &str> {
        let texts = [&self.authority, &self.authority_key, &self.former, &self.certificate, &self.key];
        let filled = Self::KEYS.into_iter().zip(texts).filter(|(_, text)| !text.is_empty());
        filled.map(|(key, text)| (key, text.as_str())).collect()
    }

    /// The serving certificate with its key.
    pub fn pair(&self) -> Pair {
        Pair { certificate: self.certificate.clone().into_bytes(), key: self.key.clone().into_bytes() }
    }

    /// The pair to serve with, if an authority of the Secret vouches for it.
    ///
    /// # Errors
    /// When the pair cannot serve, or those who trust the Secret would not accept it.
    pub fn serving(&self, files: &Files, names: &[String], now: SystemTime) -> Result<Pair, TlsError> {
        Usable::check(&self.pair(), files, now)?;
        let chain = Certificate::read_all(&self.certificate);
        let mut trusted = Certificate::read_all(&self.authority);
        trusted.extend(Certificate::read_all(&self.former));
        match trusted.iter().any(|authority| authority.vouches_for(&chain, names, now)) {
            true => Ok(self.pair()),
            false => Err(TlsError::Untrusted(files.certificate.clone())),
        }
    }
}

/// The Secret as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stored {
    #[default]
    Absent,
    /// It is there and bears no label of ours.
    Foreign,
    Ours(Content),
}

/// Whom the API server trusts, as the configurations said when they were last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Whether all configurations have been seen.
    pub is_known: bool,
    /// The caBundle of each webhook that calls us, as text; empty where there is none.
    pub bundles: Vec<String>,
    /// For how long they have been as they are, as far as this leader knows; of a clock that never jumps.
    pub unchanged: Duration,
}

impl Live {
    fn all_hold(&self, bundle: &str) -> bool {
        self.is_known && self.bundles.iter().all(|held| held == bundle)
    }
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// What every caBundle should hold, once there is an authority.
    pub bundle: Option<String>,
    pub step: Step,
}

/// What happens to the Secret.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it belongs to somebody else.
    Refuse,
    /// Nothing before this moment, unless something changes.
    Wait { until: SystemTime },
    /// It gets a new authority next to those that are trusted now, and a serving certificate too if nobody trusts any.
    Make { former: String, issue: bool },
    /// It gets a new serving certificate.
    Issue,
    /// It keeps just these authorities besides the present one.
    Keep { former: String },
}

/// What to do with a Secret and the configurations as they are.
pub fn next(stored: &Stored, live: &Live, policy: &Policy, now: SystemTime) -> Plan {
    let content = match stored {
        Stored::Foreign => return Plan { bundle: None, step: Step::Refuse },
        Stored::Absent => Content::default(),
        Stored::Ours(content) => content.clone(),
    };
    // A certificate that is not valid yet says that our clock is wrong. Others may have the right time, and trust it.
    let unexpired = |pem: &str| Certificate::read_all(pem).into_iter().filter(|one| now < one.validity().ends);
    let authority = Authority::read(&content.authority, &content.authority_key).ok();
    let present = authority.map(|authority| authority.certificate().clone()).filter(|one| one.validity().has(now));
    let known: Vec<_> = unexpired(&content.authority).chain(unexpired(&content.former)).collect();
    let trusted: Vec<_> = live.bundles.iter().flat_map(|bundle| unexpired(bundle)).collect();
    let leaf = Leaf::find(&content, known.iter().chain(&trusted), policy, now);

    let Some(present) = present else {
        let issuer = leaf.as_ref().map(|leaf| &leaf.issuer);
        let former = distinct(issuer.into_iter().chain(&known).chain(&trusted), None);
        let issue = former.is_empty() && live.is_known;
        return Plan { bundle: None, step: Step::Make { former: bundle(&former), issue } };
    };
    let former: Vec<_> = unexpired(&content.former).collect();
    let situation = Situation { present, former, trusted, leaf, live, policy, now };
    let former = situation.wanted_former();
    let wanted = bundle([&situation.present].into_iter().chain(&former));
    let step = match bundle(&former) {
        text if text != content.former => Step::Keep { former: text },
        _ => situation.step(&wanted, former.is_empty()),
    };
    Plan { bundle: Some(wanted), step }
}

/// A serving certificate that works for whoever trusts its issuer.
struct Leaf {
    issuer: Certificate,
    validity: Validity,
}

impl Leaf {
    fn find<'a>(
        content: &Content,
        mut candidates: impl Iterator<Item = &'a Certificate>,
        policy: &Policy,
        now: SystemTime,
    ) -> Option<Leaf> {
        let files = Files { certificate: "tls.crt".into(), key: "tls.key".into() };
        Usable::check(&content.pair(), &files, now).ok()?;
        let chain = Certificate::read_all(&content.certificate);
        let issuer = candidates.find(|candidate| candidate.vouches_for(&chain, &policy.names, now))?;
        Some(Leaf { issuer: issuer.clone(), validity: chain.first()?.validity() })
    }
}

/// What is known when there is an authority that can issue certificates.
struct Situation<'a> {
    present: Certificate,
    former: Vec<Certificate>,
    trusted: Vec<Certificate>,
    leaf: Option<Leaf>,
    live: &'a Live,
    policy: &'a Policy,
    now: SystemTime,
}

impl Situation<'_> {
    /// The authorities that have to be trusted besides the present one.
    fn wanted_former(&self) -> Vec<Certificate> {
        let all: Vec<&Certificate> = match &self.leaf {
            Some(leaf) if leaf.issuer != self.present => [&leaf.issuer].into_iter().chain(&self.former).collect(),
            Some(leaf) if self.policy.made(leaf.validity) + self.policy.overlap() <= self.now => Vec::new(),
            Some(_) => self.former.iter().collect(),
            // Who knows what is shown now.
            None => self.former.iter().chain(&self.trusted).collect(),
        };
        distinct(all, Some(&self.present))
    }

    fn step(&self, bundle: &str, is_alone: bool) -> Step {
        match &self.leaf {
            Some(leaf) if leaf.issuer == self.present => self.renewal(leaf, is_alone),
            leaf => self.succession(bundle, leaf.is_none()),
        }
    }

    /// All is in order; what is due next?
    fn renewal(&self, leaf: &Leaf, is_alone: bool) -> Step {
        let (policy, now) = (self.policy, self.now);
        let end_of_present = self.present.validity().two_thirds();
        if is_alone && end_of_present <= now {
            return Step::Make { former: self::bundle([&self.present]), issue: false };
        }
        // Close to the end of its authority another certificate would not last longer.
        let due = leaf.validity.two_thirds();
        let is_better = (due.max(now) + policy.certificate).min(self.present.validity().ends) > leaf.validity.ends;
        if due <= now && is_better {
            return Step::Issue;
        }
        let over = policy.made(leaf.validity) + policy.overlap();
        let next = if is_alone { end_of_present } else { over };
        Step::Wait { until: if is_better { due.min(next) } else { next } }
    }

    /// The present authority has not issued what is shown; it may as soon as it is trusted everywhere.
    fn succession(&self, bundle: &str, shows_nothing: bool) -> Step {
        let is_published = self.live.all_hold(bundle);
        let settles = self.policy.settle().saturating_sub(self.live.unchanged);
        if is_published && settles.is_zero() {
            return Step::Issue;
        }
        // When some configuration cannot be written, the others should not suffer for ever.
        let overdue = self.policy.made(self.present.validity()) + self.policy.overlap();
        if shows_nothing && overdue <= self.now {
            return Step::Issue;
        }
        let until = self.now + if is_published { settles } else { IDLE };
        Step::Wait { until: if shows_nothing { until.min(overdue) } else { until } }
    }
}

/// The certificates without repetition and without `except`, and not too many of them.
fn distinct<'a>(
    certificates: impl IntoIterator<Item = &'a Certificate>,
    except: Option<&Certificate>,
) -> Vec<Certificate> {
    let mut all: Vec<Certificate> = Vec::new();
    for certificate in certificates {
        if Some(certificate) != except && !all.contains(certificate) && all.len() < MOST_FORMER {
            all.push(certificate.clone());
        }
    }
    all
}

/// The Secret after a step; `None` for steps that do not write.
///
/// # Errors
/// When a certificate cannot be made.
pub fn perform(step: &Step, content: &Content, policy: &Policy, now: SystemTime) -> Result<Option<Content>, TlsError> {
    match step {
        Step::Refuse | Step::Wait { .. } => Ok(None),
        Step::Keep { former } => Ok(Some(Content { former: former.clone(), ..content.clone() })),
        Step::Make { former, issue } => make(former, *issue, content, policy, now).map(Some),
        Step::Issue => {
            let authority = Authority::read(&content.authority, &content.authority_key)?;
            let issued = issue(&authority, content, policy, now)?;
            let chain = Certificate::read_all(&issued.certificate);
            if authority.certificate().vouches_for(&chain, &policy.names, now) {
                return Ok(Some(issued));
            }
            // Somebody put an authority there that may not issue this; it would be tried for ever.
            let former = [authority.certificate().clone()].into_iter().chain(Certificate::read_all(&content.former));
            let former = distinct(&former.collect::<Vec<_>>(), None);
            make(&bundle(&former), false, content, policy, now).map(Some)
        }
    }
}

fn make(
    former: &str,
    and_issue: bool,
    content: &Content,
    policy: &Policy,
    now: SystemTime,
) -> Result<Content, TlsError> {
    // Authorities with different keys have different names, or verifiers would take one for the other.
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let authority = Authority::make(&format!("topologist {seconds}"), policy.validity(policy.authority, now))?;
    let content = Content {
        authority: bundle([authority.certificate()]),
        authority_key: authority.key(),
        former: former.to_owned(),
        ..content.clone()
    };
    if and_issue { issue(&authority, &content, policy, now) } else { Ok(content) }
}

fn issue(authority: &Authority, content: &Content, policy: &Policy, now: SystemTime) -> Result<Content, TlsError> {
    let Pair { certificate, key } = authority.issue(&policy.names, policy.validity(policy.certificate, now))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Content { certificate: text(certificate), key: text(key), ..content.clone() })
}

#[cfg(test)]
mod tests {
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
        stored: Stored,
        live: Live,
        /// When the configurations changed.
        changed: SystemTime,
        /// Pairs that a replica may show, with the time until which it may, the present one last.
        shown: VecDeque<(Content, SystemTime)>,
        /// Bundles that an API server may go by, the present one last.
        trusted: VecDeque<(String, SystemTime)>,
        steps: Vec<&'static str>,
        /// How late replicas are at most.
        replicas_lag: Duration,
        /// How late API servers are at most.
        servers_lag: Duration,
    }

    impl World {
        fn new(policy: Policy, stored: Stored, bundles: &[&str]) -> Self {
            let bundles: Vec<String> = bundles.iter().map(|bundle| (*bundle).to_owned()).collect();
            let never = start() + 100_000 * DAY;
            let trusted = bundles.first().map(|bundle| (bundle.clone(), never)).into_iter().collect();
            let live = Live { is_known: true, bundles, unchanged: Duration::ZERO };
            let (shown, steps) = (VecDeque::new(), Vec::new());
            let (replicas_lag, servers_lag) = (Duration::from_mins(30), 9 * SECOND);
            World {
                policy,
                now: start(),
                stored,
                live,
                changed: start(),
                shown,
                trusted,
                steps,
                replicas_lag,
                servers_lag,
            }
        }

        /// Everything settled with an installation of its own.
        fn settled() -> Self {
            let mut world = World::new(policy(), Stored::Absent, &["", ""]);
            world.run_until(start() + DAY);
            world.steps.clear();
            world
        }

        fn content(&self) -> Content {
            match &self.stored {
                Stored::Ours(content) => content.clone(),
                other => panic!("{other:?}"),
            }
        }

        /// Does what is to be done now; returns when to look again.
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
                Step::Wait { until } => return *until,
                Step::Refuse => return self.now + IDLE,
                Step::Make { issue: true, .. } => Some("make and issue"),
                Step::Make { issue: false, .. } => Some("make"),
                Step::Issue => Some("issue"),
                Step::Keep { .. } => Some("keep"),
            });
            let content = match &self.stored {
                Stored::Ours(content) => content.clone(),
                _ => Content::default(),
            };
            let content = perform(&plan.step, &content, &self.policy, self.now).unwrap().unwrap();
            self.stored = Stored::Ours(content.clone());
            self.take_on(content);
            self.now
        }

        /// Replicas take on what they accept, sooner or later.
        fn take_on(&mut self, content: Content) {
            let files = Files { certificate: "tls.crt".into(), key: "tls.key".into() };
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
                    // Whoever trusts nobody yet does not get worse.
                    let accepts = authorities.is_empty()
                        || authorities.iter().any(|authority| authority.vouches_for(&chain, &self.policy.names, now));
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
        let mut world = World::new(policy(), Stored::Absent, &["", "", ""]);
        assert_eq!(world.run(SECOND), ["make and issue", "publish"]);
        let content = world.content();
        assert_eq!(content.former, "");
        assert_eq!(world.live.bundles, [&*content.authority; 3]);
        assert_eq!(world.run(50 * DAY), [""; 0], "and then nothing is to be done for long");
    }

    #[test]
    fn no_request_is_lost_in_a_life_of_twelve_years() {
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
        let mut world = World::new(policy, Stored::Absent, &["", ""]);
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
        let renewed = perform(&Step::Issue, &content, &world.policy, world.now).unwrap().unwrap();
        world.stored = Stored::Ours(renewed);
        let plan = next(&world.stored, &world.live, &world.policy, world.now);
        let Step::Make { former, issue: false } = &plan.step else { panic!("{plan:?}") };
        assert_eq!(*former, content.authority);
        let made = perform(&plan.step, &world.content(), &world.policy, world.now).unwrap().unwrap();
        world.stored = Stored::Ours(made.clone());
        let both = format!("{}{}", made.authority, content.authority);
        for (bundles, seconds, is_issued) in [
            (vec![both.clone(), content.authority.clone()], 50, false),
            (vec![both.clone(), both.clone()], 0, false),
            (vec![both.clone(), both.clone()], 9, false),
            (vec![both.clone(), both], 10, true),
        ] {
            let live = Live { is_known: true, bundles, unchanged: seconds * SECOND };
            let plan = next(&world.stored, &live, &world.policy, world.now + seconds * SECOND);
            assert_eq!(plan.step == Step::Issue, is_issued, "{plan:?}");
        }
        let unknown = Live { is_known: false, bundles: vec![], unchanged: 20 * DAY };
        let plan = next(&world.stored, &unknown, &world.policy, world.now + 20 * DAY);
        assert!(matches!(plan.step, Step::Wait { .. }), "{plan:?}");
    }

    #[test]
    fn a_clock_that_jumps_delays_nothing() {
        let world = World::settled();
        let content = world.content();
        // All has expired, so nothing is lost.
        let now = world.now + 3650 * DAY;
        let plan = next(&world.stored, &world.live, &world.policy, now);
        let made = perform(&plan.step, &content, &world.policy, now).unwrap().unwrap();
        let files = Files { certificate: "tls.crt".into(), key: "tls.key".into() };
        assert!(content.serving(&files, &world.policy.names, now).is_err());
        made.serving(&files, &world.policy.names, now).unwrap();
        // Nothing is valid yet, by our clock alone: what is shown stays trusted, and is replaced in good order.
        let now = world.now - 3650 * DAY;
        let plan = next(&world.stored, &world.live, &world.policy, now);
        assert_eq!(plan.step, Step::Make { former: content.authority.clone(), issue: false });
        let made = perform(&plan.step, &content, &world.policy, now).unwrap().unwrap();
        let both = format!("{}{}", made.authority, content.authority);
        for (seconds, is_issued) in [(9, false), (10, true)] {
            let live = Live { is_known: true, bundles: vec![both.clone(); 2], unchanged: seconds * SECOND };
            let plan = next(&Stored::Ours(made.clone()), &live, &world.policy, now);
            assert_eq!((plan.bundle.as_deref(), plan.step == Step::Issue), (Some(&*both), is_issued));
        }
        // Back by less than certificates are backdated, while a new authority becomes known.
        let made = make(&content.authority, false, &content, &world.policy, world.now).unwrap();
        let bundle = format!("{}{}", made.authority, content.authority);
        let live = Live { is_known: true, bundles: vec![bundle; 2], unchanged: 10 * SECOND };
        let plan = next(&Stored::Ours(made), &live, &world.policy, world.now - 240 * SECOND);
        assert_eq!(plan.step, Step::Issue);
    }

    #[test]
    fn another_leader_goes_on_at_any_point_of_a_rotation() {
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

    type Damage = fn(&mut Content);

    #[test]
    fn a_secret_that_was_damaged_is_repaired_and_no_request_is_lost() {
        let cases: [(&str, Damage, &[&str]); 10] = [
            ("the serving pair is gone", |c| (c.certificate, c.key) = Default::default(), &["issue"]),
            ("the serving certificate is garbage", |c| c.certificate = "x".into(), &["issue"]),
            ("its key is another", |c| c.key = KeyPairs::other(), &["issue"]),
            ("the authority's key is gone", |c| c.authority_key.clear(), &["make", "publish", "issue"]),
            ("the authority is garbage", |c| c.authority = "x".into(), &["make", "publish", "issue"]),
            ("former authorities are garbage", |c| c.former = "x".into(), &["keep"]),
            ("everything is gone", |c| *c = Content::default(), &["make", "publish", "issue"]),
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
            world.stored = Stored::Ours(content.clone());
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
    fn a_deleted_secret_is_made_anew_and_those_who_serve_are_trusted_meanwhile() {
        let mut world = World::settled();
        world.stored = Stored::Absent;
        assert_eq!(world.run(DAY), ["make", "publish", "issue", "publish", "keep"]);
    }

    #[test]
    fn bundles_from_elsewhere_are_trusted_until_the_own_certificate_is_everywhere() {
        // As when certificates came from somewhere else so far.
        let before = make("", true, &Content::default(), &policy(), start()).unwrap();
        let mut world = World::new(policy(), Stored::Absent, &[&before.authority, &before.authority]);
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
        assert!(matches!(plan.step, Step::Wait { .. }), "the Secret is in order: {plan:?}");
    }

    #[test]
    fn a_secret_of_somebody_else_is_left_alone() {
        let world = World::new(policy(), Stored::Foreign, &["", ""]);
        let plan = next(&world.stored, &world.live, &world.policy, world.now);
        assert_eq!(plan, Plan { bundle: None, step: Step::Refuse });
    }

    #[test]
    fn other_names_get_another_certificate() {
        let mut world = World::settled();
        world.policy.names = vec!["moved.ns.svc".to_owned()];
        world.shown.clear();
        assert_eq!(world.run(DAY), ["issue"]);
        let chain = Certificate::read_all(&world.content().certificate);
        let authority = &Certificate::read_all(&world.content().authority)[0];
        assert!(authority.vouches_for(&chain, &world.policy.names, world.now));
    }

    #[test]
    fn a_configuration_that_cannot_be_written_does_not_hold_up_for_ever_who_shows_nothing() {
        let mut world = World::new(policy(), Stored::Absent, &["", "x"]);
        world.live.is_known = false;
        assert_eq!(world.run(59 * Duration::from_mins(1)), ["make"]);
        assert_eq!(world.run(Duration::from_mins(2)), ["issue"]);
    }

    #[test]
    fn replicas_accept_only_what_the_secret_itself_vouches_for() {
        let content = World::settled().content();
        let files = Files { certificate: "tls.crt".into(), key: "tls.key".into() };
        let check = |content: &Content, names: &[String]| {
            content.serving(&files, names, start() + DAY).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(check(&content, &policy().names), Ok(()));
        let (certificate, key) = KeyPairs::foreign();
        let foreign = Content { certificate, key, ..content.clone() };
        assert!(check(&foreign, &policy().names).unwrap_err().contains("no authority of the Secret"));
        assert!(check(&content, &["other.svc".to_owned()]).unwrap_err().contains("no authority of the Secret"));
        assert!(check(&Content::default(), &[]).unwrap_err().contains("holds no certificate"));
        let data = content.data().into_iter().map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
        assert_eq!(Content::of(&data.collect()), content);
    }

    /// Keys and pairs of others.
    struct KeyPairs;

    impl KeyPairs {
        fn other() -> String {
            make("", true, &Content::default(), &policy(), start()).unwrap().key
        }

        fn foreign() -> (String, String) {
            let content = make("", true, &Content::default(), &policy(), start()).unwrap();
            (content.certificate, content.key)
        }
    }
}
