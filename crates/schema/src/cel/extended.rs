//! Types that Kubernetes adds to CEL: CIDR ranges, named formats, quantities and URLs.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::texts::is_request_uri;

/// A CIDR range with its address as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cidr {
    pub ip: IpAddr,
    pub bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

impl Cidr {
    pub(super) fn read(text: &str) -> Option<Cidr> {
        let (ip, bits) = text.split_once('/')?;
        let ip = address(ip)?;
        let is_plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|_| is_plain && (bits == "0" || !bits.starts_with('0')))?;
        (bits <= if ip.is_ipv4() { 32 } else { 128 }).then_some(Cidr { ip, bits })
    }

    pub(super) fn masked(self) -> Cidr {
        let ip = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
            }
        };
        Cidr { ip, ..self }
    }

    pub(super) fn contains(self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && Cidr { ip, ..self }.masked() == self.masked()
    }
}

/// An IP address; IPv4-mapped IPv6 addresses and zones are rejected.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    match text.parse().ok()? {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

/// A format that expressions refer to by name.
#[derive(Debug)]
pub(super) struct NamedFormat {
    pub name: &'static str,
    pub fits: fn(&str) -> bool,
}

/// A quantity in billionths; finer fractions are rounded up, away from zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity {
    pub billionths: i128,
    /// Whether the number is stored as an integer. Kubernetes stores fractions of binary units differently, and does
    /// not treat them as integers, regardless of their value.
    pub is_simple: bool,
}

pub(super) const UNIT: i128 = 1_000_000_000;

/// The largest amount: 2^63 - 1 units.
pub(super) const MOST: i128 = 9_223_372_036_854_775_807 * UNIT;

impl Quantity {
    pub(super) fn read(text: &str) -> Option<Quantity> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, exponent) = factor(suffix)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let magnitude = scaled(digits, base, exponent, fraction.len())?;
        let is_simple = (base == 10 || fraction.is_empty()) && digits.len() <= 18;
        Some(Quantity { billionths: sign * magnitude.min(MOST), is_simple })
    }

    pub(super) fn cmp(&self, other: &Quantity) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }

    pub(super) fn integer(self) -> Option<i64> {
        let is_whole = self.is_simple && self.billionths % UNIT == 0;
        is_whole.then(|| i64::try_from(self.billionths / UNIT).ok()).flatten()
    }
}

/// Base and exponent of a suffix: a power of 2 or of 10.
fn factor(suffix: &str) -> Option<(u32, i32)> {
    let known = [
        ("n", 10, -9),
        ("u", 10, -6),
        ("m", 10, -3),
        ("", 10, 0),
        ("k", 10, 3),
        ("M", 10, 6),
        ("G", 10, 9),
        ("T", 10, 12),
        ("P", 10, 15),
        ("E", 10, 18),
        ("Ki", 2, 10),
        ("Mi", 2, 20),
        ("Gi", 2, 30),
        ("Ti", 2, 40),
        ("Pi", 2, 50),
        ("Ei", 2, 60),
    ];
    if let Some((_, base, exponent)) = known.into_iter().find(|(name, ..)| *name == suffix) {
        return Some((base, exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let is_number = !exponent.trim_start_matches(['+', '-']).is_empty() && exponent.len() <= 6;
    is_number.then(|| exponent.parse().ok()).flatten().map(|exponent| (10, exponent))
}

/// Digits with a factor and `places` decimal places, in billionths, rounded up; at least [`MOST`] if too large.
fn scaled(digits: &str, base: u32, exponent: i32, places: usize) -> Option<i128> {
    if digits.is_empty() {
        return Some(0);
    }
    let places = i32::try_from(places).ok()?;
    let multiplier: i128 = if base == 2 { 1 << exponent } else { 1 };
    // The power of ten to scale the digits by.
    let mut power = 9 - places + if base == 10 { exponent } else { 0 };
    // Insignificant digits are cut, so that the number fits 128 bits.
    let kept = digits.get(..digits.len().min(19)).unwrap_or(digits);
    let cut = digits.get(kept.len()..).unwrap_or_default();
    power += i32::try_from(cut.len()).ok()?;
    let mut value = kept.parse::<i128>().ok()?.checked_mul(multiplier)?;
    let mut rounds = cut.bytes().any(|digit| digit != b'0');
    for _ in 0..power.max(0) {
        if value >= MOST {
            return Some(MOST);
        }
        value = value.checked_mul(10)?;
    }
    for _ in 0..(-power).max(0) {
        if value == 0 {
            break;
        }
        rounds |= value % 10 != 0;
        value /= 10;
    }
    Some(if rounds && power <= 0 { value + 1 } else { value })
}

/// An absolute URL or an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CelUrl {
    pub scheme: String,
    /// Host and port.
    pub host: String,
    pub path: String,
    pub query: String,
}

impl CelUrl {
    pub(super) fn read(text: &str) -> Option<CelUrl> {
        if text == "*" || !is_request_uri(text) {
            return None;
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if !text.starts_with('/') => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // After a scheme, two slashes begin a host; in a plain path they belong to the path.
        let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                rest.split_at(end)
            }
            None => ("", rest),
        };
        let host = host.rsplit('@').next().unwrap_or_default();
        Some(CelUrl { scheme, host: host.to_owned(), path: path.to_owned(), query: query.to_owned() })
    }

    pub(super) fn name_and_port(&self) -> (&str, &str) {
        if let Some((literal, rest)) = self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return (literal, rest.strip_prefix(':').unwrap_or_default());
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }
}
