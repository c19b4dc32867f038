//! Formats known to Kubernetes (VAR-V-024). Others have no effect.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::cel::{is_base64, is_request_uri, is_uuid};
use golang::calendar::{self, Moment};

/// A known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
    Int32,
    Int64,
    Float,
    Double,
}

const NAMES: [(&str, StringFormat); 30] = [
    ("bsonobjectid", StringFormat::BsonObjectId),
    ("uri", StringFormat::Uri),
    ("email", StringFormat::Email),
    ("hostname", StringFormat::Hostname),
    ("ipv4", StringFormat::Ipv4),
    ("ipv6", StringFormat::Ipv6),
    ("cidr", StringFormat::Cidr),
    ("mac", StringFormat::Mac),
    ("uuid", StringFormat::Uuid),
    ("uuid3", StringFormat::Uuid3),
    ("uuid4", StringFormat::Uuid4),
    ("uuid5", StringFormat::Uuid5),
    ("isbn", StringFormat::Isbn),
    ("isbn10", StringFormat::Isbn10),
    ("isbn13", StringFormat::Isbn13),
    ("creditcard", StringFormat::CreditCard),
    ("ssn", StringFormat::Ssn),
    ("hexcolor", StringFormat::HexColor),
    ("rgbcolor", StringFormat::RgbColor),
    ("byte", StringFormat::Byte),
    ("password", StringFormat::Password),
    ("date", StringFormat::Date),
    ("duration", StringFormat::Duration),
    ("datetime", StringFormat::DateTime),
    ("k8sshortname", StringFormat::ShortName),
    ("k8slongname", StringFormat::LongName),
    ("int32", StringFormat::Int32),
    ("int64", StringFormat::Int64),
    ("float", StringFormat::Float),
    ("double", StringFormat::Double),
];

/// The names of all formats, without dashes.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().map(|(name, _)| name)
}

impl StringFormat {
    /// The format with that name, ignoring dashes; `None` if unknown (VAR-S-045).
    pub(super) fn from_name(name: &str) -> Option<StringFormat> {
        let plain: String = name.chars().filter(|c| *c != '-').collect();
        NAMES.into_iter().find(|(known, _)| *known == plain).map(|(_, format)| format)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES.into_iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    pub(super) fn is_for_integers(self) -> bool {
        matches!(self, StringFormat::Int32 | StringFormat::Int64)
    }

    pub(super) fn is_for_numbers(self) -> bool {
        matches!(self, StringFormat::Float | StringFormat::Double)
    }

    pub(super) fn is_for_strings(self) -> bool {
        !self.is_for_integers() && !self.is_for_numbers()
    }

    /// Whether a number is in the range of a number format.
    #[allow(clippy::cast_precision_loss, reason = "the ends of the 64-bit range are compared as floats")]
    pub(super) fn holds(self, value: f64) -> bool {
        match self {
            StringFormat::Int32 => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value),
            StringFormat::Int64 => (i64::MIN as f64..=i64::MAX as f64).contains(&value),
            StringFormat::Float => value.abs() <= f64::from(f32::MAX),
            _ => value.is_finite(),
        }
    }

    /// An example of the format, where its name does not describe it.
    pub(super) fn example(self) -> Option<&'static str> {
        Some(match self {
            StringFormat::Uri => "https://example.com/a or /a",
            StringFormat::Email => "somebody@example.com",
            StringFormat::Hostname => "api.example.com",
            StringFormat::Ipv4 => "192.0.2.1",
            StringFormat::Ipv6 => "2001:db8::1",
            StringFormat::Cidr => "192.0.2.0/24",
            StringFormat::Mac => "02:00:5e:10:00:00",
            StringFormat::Uuid => "3f2b6a0c-8d1e-4c5a-9b7f-0a1b2c3d4e5f",
            StringFormat::HexColor => "#00ff00",
            StringFormat::RgbColor => "rgb(0,255,0)",
            StringFormat::Byte => "aGVsbG8=",
            StringFormat::Date => "2026-01-31",
            StringFormat::Duration => "1h30m",
            StringFormat::DateTime => "2026-01-31T12:00:00Z",
            StringFormat::ShortName => "a-name",
            StringFormat::LongName => "a-name.example.com",
            _ => return None,
        })
    }

    /// Sample texts of the format: some short, some of at least `least` characters.
    pub(super) fn samples(self, least: usize) -> Vec<String> {
        let long = "a".repeat(least);
        let more: &[&str] = match self {
            StringFormat::BsonObjectId => &["507f1f77bcf86cd799439011"],
            StringFormat::Uri => {
                &["https://example.com/a", "/", &format!("https://example.com/{long}"), &format!("/{long}")]
            }
            StringFormat::Email => &["a@b.cc", &format!("{long}@example.com")],
            StringFormat::Hostname | StringFormat::LongName => &["a", &long, &long_name(least)],
            StringFormat::Ipv4 => &["10.0.0.1", "1.1.1.1", "0.0.0.0"],
            StringFormat::Ipv6 => &["::", "2001:db8:1111:2222:3333:4444:5555:6666"],
            StringFormat::Cidr => &["0.0.0.0/0", "10.0.0.0/16", "2001:db8::/32", "::/0"],
            StringFormat::Mac => &["02-00-5e-10-00-00", "0200.5e10.0000", "02:00:5e:10:00:00:00:00"],
            StringFormat::Uuid | StringFormat::Uuid4 => {
                &["3f2b6a0c-8d1e-4c5a-9b7f-0a1b2c3d4e5f", "3f2b6a0c8d1e4c5a9b7f0a1b2c3d4e5f"]
            }
            StringFormat::Uuid3 => &["3f2b6a0c-8d1e-3c5a-9b7f-0a1b2c3d4e5f"],
            StringFormat::Uuid5 => &["3f2b6a0c-8d1e-5c5a-9b7f-0a1b2c3d4e5f"],
            StringFormat::Isbn | StringFormat::Isbn10 => &["0306406152", "9780306406157"],
            StringFormat::Isbn13 => &["9780306406157", "978-0-306-40615-7"],
            StringFormat::CreditCard => &["4111111111111111"],
            StringFormat::Ssn => &["000000000", "000-00-0000"],
            StringFormat::HexColor => &["fff", "#fff"],
            StringFormat::RgbColor => &["rgb(0, 0, 0)"],
            StringFormat::Byte => &["AAAA", &"A".repeat(least.next_multiple_of(4))],
            StringFormat::Duration => &["1s", "10m", "1h0m0s", &format!("{}1s", "0".repeat(least))],
            StringFormat::ShortName => &["a", &long],
            StringFormat::DateTime => &["2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00+00:00"],
            StringFormat::Date
            | StringFormat::Password
            | StringFormat::Int32
            | StringFormat::Int64
            | StringFormat::Float
            | StringFormat::Double => &[],
        };
        self.example()
            .into_iter()
            .filter(|text| self.fits(text))
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    /// Whether a text has the format.
    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            StringFormat::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            StringFormat::Uri => is_request_uri(text),
            StringFormat::Email => is_email(text),
            StringFormat::Hostname => is_hostname(text),
            StringFormat::Ipv4 => is_ipv4(text),
            StringFormat::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            StringFormat::Cidr => is_cidr(text),
            StringFormat::Mac => is_mac(text),
            StringFormat::Uuid => is_uuid(text),
            StringFormat::Uuid3 => UUID3.is_match(text),
            StringFormat::Uuid4 => UUID4.is_match(text),
            StringFormat::Uuid5 => UUID5.is_match(text),
            StringFormat::Isbn => is_isbn10(text) || is_isbn13(text),
            StringFormat::Isbn10 => is_isbn10(text),
            StringFormat::Isbn13 => is_isbn13(text),
            StringFormat::CreditCard => is_credit_card(text),
            StringFormat::Ssn => SSN.is_match(text),
            StringFormat::HexColor => HEX_COLOR.is_match(text),
            StringFormat::RgbColor => is_rgb_color(text),
            StringFormat::Byte => is_base64(text),
            StringFormat::Date => calendar::date(text).is_some(),
            StringFormat::Duration => calendar::is_duration(text),
            StringFormat::DateTime => Moment::parse(text).is_some(),
            StringFormat::ShortName => text.len() <= 63 && is_dns_label(text),
            StringFormat::LongName => text.len() <= 253 && text.split('.').all(is_dns_label),
            StringFormat::Password
            | StringFormat::Int32
            | StringFormat::Int64
            | StringFormat::Float
            | StringFormat::Double => true,
        }
    }
}

/// A DNS name of at least `least` characters, in labels of 50.
fn long_name(least: usize) -> String {
    let labels = vec!["a".repeat(50); least / 51 + 1];
    labels.join(".")
}

macro_rules! pattern {
    ($($name:ident = $text:literal;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("the expression is a constant"));)*
    };
}

pattern! {
    HOSTNAME = r"^([0-9\p{S}\p{L}]-?[0-9\p{S}\p{L}]*|([0-9\p{S}\p{L}]([0-9\p{S}\p{L}-]*[0-9\p{S}\p{L}])?\.)+\p{L}{2,})$";
    UUID3 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    SSN = "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\([ \t]*([0-9]{1,3})[ \t]*,[ \t]*([0-9]{1,3})[ \t]*,[ \t]*([0-9]{1,3})[ \t]*\)$";
    CREDIT_CARD = "^(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$";
}

/// Leading zeros in IPv4 octets are accepted.
fn is_ipv4(text: &str) -> bool {
    let without_zeros = |octet: &str| match octet.trim_start_matches('0') {
        "" if !octet.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let plain = || text.split('.').map(without_zeros).collect::<Vec<_>>().join(".");
    text.parse::<Ipv4Addr>().is_ok() || plain().parse::<Ipv4Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let Ok(length) = length.parse::<u32>() else { return false };
    (length <= 32 && is_ipv4(address)) || (length <= 128 && address.parse::<Ipv6Addr>().is_ok())
}

/// An address of 6, 8 or 20 bytes, in groups of two hex digits with `:` or `-`, of four with `.`, or in one.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let groups: Vec<&str> = text.split(separator).collect();
        let fits =
            groups.iter().all(|group| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()));
        fits && [6, 8, 20].contains(&(groups.len() * digits / 2))
    };
    let is_bare = [12, 16, 40].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_bare || groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn is_isbn10(text: &str) -> bool {
    let symbols: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let value = |(i, c): (usize, &char)| match c {
        'X' if i == 9 => Some(10),
        c => c.to_digit(10),
    };
    let digits: Option<Vec<u32>> = symbols.iter().enumerate().map(value).collect();
    digits.is_some_and(|digits| {
        digits.len() == 10 && digits.iter().zip((1..=10).rev()).map(|(d, w)| d * w).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let symbols = text.chars().filter(|c| !matches!(c, '-' | ' '));
    let digits: Option<Vec<u32>> = symbols.map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        digits.len() == 13 && digits.iter().zip([1, 3].into_iter().cycle()).map(|(d, w)| d * w).sum::<u32>() % 10 == 0
    })
}

/// A number of a known issuer with a valid check digit (Luhn).
fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let values = digits.chars().rev().filter_map(|c| c.to_digit(10));
    values.enumerate().map(|(i, digit)| if i % 2 == 1 { doubled(digit) } else { digit }).sum::<u32>() % 10 == 0
}

fn is_rgb_color(text: &str) -> bool {
    RGB_COLOR.captures(text).is_some_and(|parts| (1..=3).all(|i| parts[i].parse::<u32>().is_ok_and(|part| part <= 255)))
}

fn is_dns_label(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let has_edges = matches!((text.bytes().next(), text.bytes().next_back()),
        (Some(first), Some(last)) if edge(first) && edge(last));
    has_edges && text.bytes().all(|byte| edge(byte) || byte == b'-')
}

/// A name without a dot may have a hyphen only as its second character; one with dots ends in at least two letters.
fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

/// The common subset of RFC 5322: an address, or a display name with an address in angle brackets.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((name, address))
                if !name.contains(['<', '>', '@', ',', ';', ':', '(', ')', '[', ']']) || is_quoted(name.trim()) =>
            {
                address
            }
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atoms = |text: &str| text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_character));
    let is_literal = domain.starts_with('[') && domain.ends_with(']') && domain.len() > 2;
    (atoms(local) || is_quoted(local)) && (atoms(domain) || is_literal)
}

fn is_quoted(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with('"')
        && text.ends_with('"')
        && !text[1..text.len() - 1].contains(['"', '\n', '\r'])
}

fn is_atom_character(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::StringFormat;

    #[test]
    fn texts_are_distinguished_by_format() {
        // VAR-V-024
        for (name, good, bad) in [
            ("bsonobjectid", &["507f1f77bcf86cd799439011"][..], &["507f", "zz7f1f77bcf86cd799439011"][..]),
            (
                "uri",
                &["http://a.b/c?d=e#f", "/path", "mailto:a@b", "http://[::1]:80/", "http://a:b@c"],
                &["", "a/b", "http://a b", "/%zz", "http://a:x", "1http://a", "http://[::1"],
            ),
            (
                "email",
                &["a@b", "a.b+c@d.example", "Ada <a@b.c>", "\"x y\"@z", "a@[127.0.0.1]"],
                &["", "a", "a@", "@b", "a b@c", "a..b@c", "Ada <a@b", "a@b>"],
            ),
            (
                "hostname",
                &["a", "a-bc", "a-", "9a-b.cd", "a.example", "grün.example", "☃.example", "x--y.example", "abc123"],
                &[
                    "",
                    "-a",
                    "ab-c",
                    "a..bc",
                    "a_b",
                    "a b",
                    "A.b",
                    "a-b.c9",
                    "1.2.3.4",
                    "123-45-6789",
                    "a.example.",
                    "a-.example",
                    "2024-02-30",
                    "123e4567-e89b-12d3-a456-426614174000",
                    concat!("a.", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr"),
                ],
            ),
            ("ipv4", &["1.2.3.4", "010.001.000.255"], &["", "1.2.3", "256.1.1.1", "1.2.3.4.5", "::1"]),
            ("ipv6", &["::1", "fe80::1"], &["", "1.2.3.4", "fe80::1%eth0", ":::"]),
            (
                "cidr",
                &["10.0.0.0/8", "010.0.0.0/8", "fd00::/48"],
                &["10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/x"],
            ),
            (
                "mac",
                &["00:11:22:aa:bb:cc", "00-11-22-aa-bb-cc", "0011.22aa.bbcc", "00:11:22:33:44:55:66:77"],
                &["", "00:11:22", "00:11:22:aa:bb:cg", "0011.22aa"],
            ),
            (
                "uuid",
                &["123E4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
                &["", "123e4567", "123e4567-e89b-12d3-a456-42661417400g"],
            ),
            ("uuid3", &["123e4567-e89b-32d3-a456-426614174000"], &["123e4567-e89b-42d3-a456-426614174000"]),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-42d3-c456-426614174000"]),
            ("uuid5", &["123e4567-e89b-52d3-b456-426614174000"], &["123e4567-e89b-42d3-b456-426614174000"]),
            ("isbn", &["0-306-40615-2", "978-0-306-40615-7"], &["", "0-306-40615-3"]),
            ("isbn10", &["080442957X"], &["978-0-306-40615-7", "X80442957X"]),
            ("isbn13", &["9780306406157"], &["0306406152", "9780306406158"]),
            ("creditcard", &["4111 1111 1111 1111", "5555-5555-5555-4444"], &["4111111111111112", "1234", ""]),
            ("ssn", &["111-22-3333", "111 22 3333", "111223333"], &["111-22-333", "a11-22-3333"]),
            ("hexcolor", &["#fff", "A0b1C2"], &["#ffff", "ggg", ""]),
            ("rgbcolor", &["rgb(0,128,255)", "rgb( 1 , 2 , 3 )"], &["rgb(0,128,256)", "rgb(1,2)", "0,1,2"]),
            ("byte", &["YQ==", "YWI=", "YWJj"], &["", "a", "YQ=", "Y*==", "YQ===", "YWJj\n", "YW\nJj", "===="]),
            ("password", &["", "anything at all"], &[]),
            (
                "date",
                &["2024-02-29", "1999-12-31"],
                &["2023-02-29", "2023-13-01", "2023-1-01", "2023-01-01T00:00:00Z", ""],
            ),
            (
                "duration",
                &["5m30s", "1.5h", "2 days", "3w", "-1s", "0", "10 seconds", "1 day 12 hours"],
                &["", "5", "five", "1y", "d"],
            ),
            (
                "date-time",
                &["2024-01-01T00:00:00Z", "2024-01-01t23:59:59.5z", "2024-01-01T00:00:00+02:00"],
                &["2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z", "2024-01-01 00:00:00Z"],
            ),
            ("k8s-short-name", &["a", "a-b9"], &["", "A", "a.b", "-a"]),
            ("k8s-long-name", &["a.b-c"], &["", "a..b", "A"]),
        ] {
            let format = StringFormat::from_name(name).unwrap();
            good.iter().for_each(|text| assert!(format.fits(text), "{name} {text:?}"));
            bad.iter().for_each(|text| assert!(!format.fits(text), "{name} {text:?}"));
        }
        assert_eq!(StringFormat::from_name("no-such-format"), None);
        assert_eq!(StringFormat::from_name("d-a-t-e"), Some(StringFormat::Date));
    }

    #[test]
    fn an_example_is_of_its_format() {
        for (_, format) in super::NAMES {
            for example in format.example().into_iter().flat_map(|example| example.split(" or ")) {
                assert!(format.fits(example), "{example}");
            }
        }
    }

    #[test]
    fn numbers_are_held_by_their_ranges() {
        for (name, good, bad) in [
            ("int32", 2_147_483_647.0, 2_147_483_648.0),
            ("int64", 9e18, 1e19),
            ("float", 3e38, 4e38),
            ("double", 1e300, f64::INFINITY),
        ] {
            let format = StringFormat::from_name(name).unwrap();
            assert!(format.holds(good) && !format.holds(bad), "{name}");
        }
    }
}
