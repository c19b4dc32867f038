//! The rotation of certificates and CAs: decides the next step, without IO.
//!
//! ```text
//!  Make ──► bundle of new and old ──► everywhere for a while ──► Issue ──► shown everywhere ──► Keep the new alone
//! ```
//!
//! No request is lost: a certificate is presented only after every configuration trusts its authority, and an authority
//! is trusted until long after the last of its certificates was replaced. The whole state is in the Secret and in the
//! configurations, so another leader can take over at any point.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tls::authority::{Authority, Certificate, Validity, bundle};
use tls::pair::{CertificateFiles, CertificatePair, LoadedPair, TlsError};

/// Maximum number of trusted authorities besides the current one; one or two are enough.
const MOST_FORMER: usize = 4;

/// Delay before the next check when nothing is due.
const IDLE: Duration = Duration::from_hours(1);

/// Validity and names of certificates.
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
    /// How far in the past the validity begins, for slow clocks.
    fn backdate(&self) -> Duration {
        Duration::from_mins(5).min(self.certificate / 10)
    }

    /// Time until every API server uses a change of the configurations.
    fn settle(&self) -> Duration {
        Duration::from_secs(10).min(self.certificate / 10)
    }

    /// Time after the creation of a certificate for which its predecessor may still be presented.
    fn overlap(&self) -> Duration {
        Duration::from_hours(1).min(self.certificate / 5)
    }

    fn validity(&self, life: Duration, now: SystemTime) -> Validity {
        Validity { begins: now - self.backdate(), ends: now + life }
    }

    /// The creation time of a certificate with this validity.
    fn made(&self, validity: Validity) -> SystemTime {
        validity.begins + self.backdate()
    }
}

/// The content of the Secret in PEM form; absent parts are empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretContent {
    pub authority: String,
    pub authority_key: String,
    /// Former authorities that are still trusted.
    pub former: String,
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl SecretContent {
    /// The keys of the Secret that the rotation writes.
    pub(super) const KEYS: [&str; 5] = ["ca.crt", "ca.key", "ca-old.crt", "tls.crt", "tls.key"];

    /// Reads the data of a Secret; values that are not text count as absent.
    pub fn from_data(data: &BTreeMap<String, Vec<u8>>) -> Self {
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.clone()).ok());
        let [authority, authority_key, former, certificate, key] = Self::KEYS.map(|key| text(key).unwrap_or_default());
        SecretContent { authority, authority_key, former, certificate, key }
    }

    /// The data of a Secret.
    pub fn data(&self) -> BTreeMap<&'static str, &str> {
        let texts = [&self.authority, &self.authority_key, &self.former, &self.certificate, &self.key];
        let filled = Self::KEYS.into_iter().zip(texts).filter(|(_, text)| !text.is_empty());
        filled.map(|(key, text)| (key, text.as_str())).collect()
    }

    /// The serving certificate with its key.
    pub fn pair(&self) -> CertificatePair {
        CertificatePair { certificate: self.certificate.clone().into_bytes(), key: self.key.clone().into_bytes() }
    }

    /// The pair to serve with, if an authority of the Secret issued it.
    ///
    /// # Errors
    /// When the pair cannot serve, or clients that trust the Secret would not accept it.
    pub fn serving(
        &self,
        files: &CertificateFiles,
        names: &[String],
        now: SystemTime,
    ) -> Result<CertificatePair, TlsError> {
        LoadedPair::check(&self.pair(), files, now)?;
        let chain = Certificate::read_all(&self.certificate);
        let mut trusted = Certificate::read_all(&self.authority);
        trusted.extend(Certificate::read_all(&self.former));
        match trusted.iter().any(|authority| authority.verifies(&chain, names, now)) {
            true => Ok(self.pair()),
            false => Err(TlsError::Untrusted(files.certificate.clone())),
        }
    }
}

/// The last observed Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoredSecret {
    #[default]
    Absent,
    /// It exists without the label of this installation.
    Foreign,
    Ours(SecretContent),
}

/// The authorities that the API server trusts, by the last observed configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedBundles {
    /// Whether all configurations have been seen.
    pub is_known: bool,
    /// The caBundle of each webhook that calls us, as text; empty where there is none.
    pub bundles: Vec<String>,
    /// For how long they have been as they are, as far as this leader knows; of a clock that never jumps.
    pub unchanged: Duration,
}

impl TrustedBundles {
    fn all_hold(&self, bundle: &str) -> bool {
        self.is_known && self.bundles.iter().all(|held| held == bundle)
    }
}

/// The next step of the rotation, and when the one after it is due.
#[derive(Debug, PartialEq, Eq)]
pub struct Rotation {
    /// What every caBundle should hold, once there is an authority.
    pub bundle: Option<String>,
    pub step: RotationStep,
}

/// A step: the change of the Secret.
#[derive(Debug, PartialEq, Eq)]
pub enum RotationStep {
    /// Nothing: topologist does not manage it.
    Refuse,
    /// Nothing before this moment, unless something changes.
    Wait { until: SystemTime },
    /// It gets a new authority next to those that are trusted now, and a serving certificate too if no client trusts
    /// any.
    Make { former: String, issue: bool },
    /// It gets a new serving certificate.
    Issue,
    /// It keeps just these authorities besides the present one.
    Keep { former: String },
}

/// The next step for this Secret and these configurations.
pub fn next(stored: &StoredSecret, live: &TrustedBundles, policy: &Policy, now: SystemTime) -> Rotation {
    let content = match stored {
        StoredSecret::Foreign => return Rotation { bundle: None, step: RotationStep::Refuse },
        StoredSecret::Absent => SecretContent::default(),
        StoredSecret::Ours(content) => content.clone(),
    };
    // A certificate that is not valid yet says that our clock is wrong. Others may have the right time, and trust it.
    let unexpired = |pem: &str| Certificate::read_all(pem).into_iter().filter(|one| now < one.validity().ends);
    let authority = Authority::read(&content.authority, &content.authority_key).ok();
    let present = authority.map(|authority| authority.certificate().clone()).filter(|one| one.validity().contains(now));
    let known: Vec<_> = unexpired(&content.authority).chain(unexpired(&content.former)).collect();
    let trusted: Vec<_> = live.bundles.iter().flat_map(|bundle| unexpired(bundle)).collect();
    let leaf = Leaf::find(&content, known.iter().chain(&trusted), policy, now);

    let Some(present) = present else {
        let issuer = leaf.as_ref().map(|leaf| &leaf.issuer);
        let former = distinct(issuer.into_iter().chain(&known).chain(&trusted), None);
        let issue = former.is_empty() && live.is_known;
        return Rotation { bundle: None, step: RotationStep::Make { former: bundle(&former), issue } };
    };
    let former: Vec<_> = unexpired(&content.former).collect();
    let situation = Situation { present, former, trusted, leaf, live, policy, now };
    let former = situation.wanted_former();
    let wanted = bundle([&situation.present].into_iter().chain(&former));
    let step = match bundle(&former) {
        text if text != content.former => RotationStep::Keep { former: text },
        _ => situation.step(&wanted, former.is_empty()),
    };
    Rotation { bundle: Some(wanted), step }
}

/// A serving certificate that works for every client that trusts its issuer.
struct Leaf {
    issuer: Certificate,
    validity: Validity,
}

impl Leaf {
    fn find<'a>(
        content: &SecretContent,
        mut candidates: impl Iterator<Item = &'a Certificate>,
        policy: &Policy,
        now: SystemTime,
    ) -> Option<Leaf> {
        let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
        LoadedPair::check(&content.pair(), &files, now).ok()?;
        let chain = Certificate::read_all(&content.certificate);
        let issuer = candidates.find(|candidate| candidate.verifies(&chain, &policy.names, now))?;
        Some(Leaf { issuer: issuer.clone(), validity: chain.first()?.validity() })
    }
}

/// The state of a Secret with an authority that can issue certificates.
struct Situation<'a> {
    present: Certificate,
    former: Vec<Certificate>,
    trusted: Vec<Certificate>,
    leaf: Option<Leaf>,
    live: &'a TrustedBundles,
    policy: &'a Policy,
    now: SystemTime,
}

impl Situation<'_> {
    /// The authorities that have to be trusted besides the current one.
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

    fn step(&self, bundle: &str, is_alone: bool) -> RotationStep {
        match &self.leaf {
            Some(leaf) if leaf.issuer == self.present => self.renewal(leaf, is_alone),
            leaf => self.succession(bundle, leaf.is_none()),
        }
    }

    /// The next renewal when everything is in order.
    fn renewal(&self, leaf: &Leaf, is_alone: bool) -> RotationStep {
        let (policy, now) = (self.policy, self.now);
        let end_of_present = self.present.validity().two_thirds();
        if is_alone && end_of_present <= now {
            return RotationStep::Make { former: self::bundle([&self.present]), issue: false };
        }
        // Close to the end of its authority another certificate would not last longer.
        let due = leaf.validity.two_thirds();
        let is_better = (due.max(now) + policy.certificate).min(self.present.validity().ends) > leaf.validity.ends;
        if due <= now && is_better {
            return RotationStep::Issue;
        }
        let over = policy.made(leaf.validity) + policy.overlap();
        let next = if is_alone { end_of_present } else { over };
        RotationStep::Wait { until: if is_better { due.min(next) } else { next } }
    }

    /// The step when the current authority did not issue the presented certificate; it may once it is trusted
    /// everywhere.
    fn succession(&self, bundle: &str, shows_nothing: bool) -> RotationStep {
        let is_published = self.live.all_hold(bundle);
        let settles = self.policy.settle().saturating_sub(self.live.unchanged);
        if is_published && settles.is_zero() {
            return RotationStep::Issue;
        }
        // When some configuration cannot be written, the others should not suffer for ever.
        let overdue = self.policy.made(self.present.validity()) + self.policy.overlap();
        if shows_nothing && overdue <= self.now {
            return RotationStep::Issue;
        }
        let until = self.now + if is_published { settles } else { IDLE };
        RotationStep::Wait { until: if shows_nothing { until.min(overdue) } else { until } }
    }
}

/// The certificates without repetition and without `except`, up to the maximum number.
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
pub(super) fn perform(
    step: &RotationStep,
    content: &SecretContent,
    policy: &Policy,
    now: SystemTime,
) -> Result<Option<SecretContent>, TlsError> {
    match step {
        RotationStep::Refuse | RotationStep::Wait { .. } => Ok(None),
        RotationStep::Keep { former } => Ok(Some(SecretContent { former: former.clone(), ..content.clone() })),
        RotationStep::Make { former, issue } => make(former, *issue, content, policy, now).map(Some),
        RotationStep::Issue => {
            let authority = Authority::read(&content.authority, &content.authority_key)?;
            let issued = issue(&authority, content, policy, now)?;
            let chain = Certificate::read_all(&issued.certificate);
            if authority.certificate().verifies(&chain, &policy.names, now) {
                return Ok(Some(issued));
            }
            // The Secret holds a CA that may not issue this; without this check it would be retried endlessly.
            let former = [authority.certificate().clone()].into_iter().chain(Certificate::read_all(&content.former));
            let former = distinct(&former.collect::<Vec<_>>(), None);
            make(&bundle(&former), false, content, policy, now).map(Some)
        }
    }
}

fn make(
    former: &str,
    and_issue: bool,
    content: &SecretContent,
    policy: &Policy,
    now: SystemTime,
) -> Result<SecretContent, TlsError> {
    // Authorities with different keys have different names, or verifiers would take one for the other.
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let authority = Authority::generate(&format!("topologist {seconds}"), policy.validity(policy.authority, now))?;
    let content = SecretContent {
        authority: bundle([authority.certificate()]),
        authority_key: authority.key(),
        former: former.to_owned(),
        ..content.clone()
    };
    if and_issue { issue(&authority, &content, policy, now) } else { Ok(content) }
}

fn issue(
    authority: &Authority,
    content: &SecretContent,
    policy: &Policy,
    now: SystemTime,
) -> Result<SecretContent, TlsError> {
    let CertificatePair { certificate, key } =
        authority.issue(&policy.names, policy.validity(policy.certificate, now))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(SecretContent { certificate: text(certificate), key: text(key), ..content.clone() })
}

#[cfg(test)]
mod tests;
