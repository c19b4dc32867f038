//! Syntax of names, labels, URL segments, and numbers in texts (LBL, INT and IOP of the admission rules, DEC-45).
//!
//! Each check returns one sentence per violated condition, and nothing for a valid text.

use golang::fnv;
use std::borrow::Cow;

use super::IntOrString;

/// Maximum length of the name of a label key, and of a label value, in bytes.
pub const LABEL_LIMIT: usize = 63;
/// Maximum length of a DNS subdomain in bytes.
const SUBDOMAIN_LIMIT: usize = 253;

/// A label key: an optional DNS subdomain and `/`, then a name (LBL-001).
pub fn label_key_faults(key: &str) -> Vec<String> {
    let mut parts = key.split('/');
    let mut faults = Vec::new();
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(""), Some(name), None) => {
            faults.push("the prefix before \"/\" must not be empty".to_owned());
            name
        }
        (Some(prefix), Some(name), None) => {
            faults.extend(subdomain_faults(prefix).into_iter().map(|fault| format!("the prefix before \"/\" {fault}")));
            name
        }
        _ => {
            return vec![
                "must be a name with an optional DNS subdomain and \"/\" in front, such as example.com/name".to_owned(),
            ];
        }
    };
    if name.is_empty() {
        faults.push("the name must not be empty".to_owned());
    } else if name.len() > LABEL_LIMIT {
        faults.push(format!("the name must be no more than {LABEL_LIMIT} bytes"));
    }
    if !is_label_text(name) {
        faults.push(format!("the name {LABEL_SHAPE}"));
    }
    faults
}

/// A label value: a label text of at most 63 bytes, or empty (LBL-002).
pub fn label_value_faults(value: &str) -> Vec<String> {
    faults(value, LABEL_LIMIT, value.is_empty() || is_label_text(value), LABEL_SHAPE)
}

/// A name as a label value: the name itself, or a hash of it if it is too long (MA-15.10).
pub fn to_label_value(name: &str) -> Cow<'_, str> {
    if name.len() <= LABEL_LIMIT {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("hash_{:08x}_z", fnv::hash32(name.bytes())))
}

/// A DNS subdomain of at most 253 bytes (LBL-005).
pub fn subdomain_faults(text: &str) -> Vec<String> {
    let shape = "must consist of lower-case letters, digits, \"-\" and \".\", and start and end with a letter or digit";
    faults(text, SUBDOMAIN_LIMIT, text.split('.').all(is_dns_label), shape)
}

/// A DNS label of at most 63 bytes, such as the name of a namespace (DEC-45).
pub fn dns_label_faults(text: &str) -> Vec<String> {
    let shape = "must consist of lower-case letters, digits and \"-\", and start and end with a letter or digit";
    faults(text, LABEL_LIMIT, is_dns_label(text), shape)
}

/// The version or the plural of a kind: a DNS label that starts with a letter (DEC-45).
pub fn resource_part_faults(text: &str) -> Vec<String> {
    let fits = is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase());
    let shape =
        "must consist of lower-case letters, digits and \"-\", start with a letter, and end with a letter or digit";
    faults(text, LABEL_LIMIT, fits, shape)
}

/// A kind of at most 63 bytes: `[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?` (DEC-45).
pub fn kind_faults(text: &str) -> Vec<String> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let fits = has_edges(text, |byte| byte.is_ascii_alphanumeric())
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(inner);
    let shape = "must consist of letters, digits and \"-\", start with a letter, and end with a letter or digit";
    faults(text, LABEL_LIMIT, fits, shape)
}

/// The violations of a text with a length limit and a pattern.
fn faults(text: &str, limit: usize, fits: bool, shape: &str) -> Vec<String> {
    let too_long = (text.len() > limit).then(|| format!("must be no more than {limit} bytes"));
    too_long.into_iter().chain((!fits).then(|| shape.to_owned())).collect()
}

/// `group/version`: a DNS subdomain and the version of a kind (DEC-45).
pub fn group_version_faults(text: &str) -> Vec<String> {
    match text.split_once('/') {
        Some((group, version)) => {
            let group = subdomain_faults(group).into_iter().map(|fault| format!("the group {fault}"));
            let version = resource_part_faults(version).into_iter().map(|fault| format!("the version {fault}"));
            group.chain(version).collect()
        }
        None => vec!["must be <group>/<version>".to_owned()],
    }
}

/// A decimal integer of 64 bits, with an optional sign (INT-001).
pub fn decimal_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Whether a value is an integer or a percentage such as `10%` (IOP-001).
pub fn is_int_or_percentage(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(_) => true,
        IntOrString::String(text) => text.strip_suffix('%').and_then(decimal_integer).is_some(),
    }
}

const LABEL_SHAPE: &str =
    "must consist of letters, digits, \"-\", \"_\" and \".\", and start and end with a letter or digit";

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_label_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    has_edges(text, |byte| byte.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_dns_label(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    has_edges(text, edge) && text.bytes().all(|byte| edge(byte) || byte == b'-')
}

/// Whether the text is not empty and its first and last byte satisfy `edge`.
fn has_edges(text: &str, edge: impl Fn(u8) -> bool) -> bool {
    matches!((text.bytes().next(), text.bytes().next_back()), (Some(first), Some(last)) if edge(first) && edge(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_label_values_all_the_same() {
        // MA-15.10
        let (short, long) = ("a".repeat(63), "a".repeat(64));
        assert_eq!(to_label_value(&short), short);
        let values = [to_label_value(&long).into_owned(), to_label_value(&format!("{long}b")).into_owned()];
        assert_ne!(values[0], values[1]);
        assert_eq!(to_label_value("a"), "a");
        assert!(values.iter().all(|value| label_value_faults(value).is_empty()), "{values:?}");
    }

    #[test]
    fn label_keys_have_an_optional_prefix_and_a_name() {
        // LBL-001
        let long = "a".repeat(64);
        let long_prefix = format!("{}/a", "a.".repeat(126) + "aa");
        for (key, faults) in [
            ("a", 0),
            ("A-b_c.9", 0),
            ("example.com/a", 0),
            (&long[..63], 0),
            (&long, 1),
            ("", 2),
            ("example.com/", 2),
            ("/a", 1),
            ("a/b/c", 1),
            ("Example.com/a", 1),
            ("example..com/-a", 2),
            ("-a", 1),
            ("a ", 1),
            ("ä", 1),
            (&long_prefix, 1),
        ] {
            assert_eq!(label_key_faults(key).len(), faults, "{key:?}: {:?}", label_key_faults(key));
        }
    }

    #[test]
    fn label_values_are_short_label_texts_or_empty() {
        // LBL-002
        let long = "a".repeat(64);
        for (value, faults) in [("", 0), ("a", 0), ("A_b", 0), (&long[..63], 0), (&long, 1), ("a/b", 1), (".a", 1)] {
            assert_eq!(label_value_faults(value).len(), faults, "{value:?}");
        }
        assert_eq!(label_value_faults(&"-".repeat(64)).len(), 2);
    }

    #[test]
    fn subdomains_are_dot_separated_dns_labels() {
        // LBL-005
        let long = ["a"; 127].join(".");
        assert_eq!(long.len(), 253);
        let longer = format!("a{long}");
        for (text, faults) in [
            ("a", 0),
            ("a-b.c9", 0),
            (&*long, 0),
            (&*longer, 1),
            ("", 1),
            ("a..b", 1),
            ("A", 1),
            ("a_b", 1),
            ("-a", 1),
            ("a-", 1),
        ] {
            assert_eq!(subdomain_faults(text).len(), faults, "{text:?}");
        }
    }

    #[test]
    fn parts_of_paths_have_the_shapes_that_kubernetes_gives_them() {
        // DEC-45
        type Check = fn(&str) -> Vec<String>;
        let (label, long) = ("a".repeat(63), "a".repeat(64));
        let checks: [(Check, &[&str], &[&str]); 4] = [
            (dns_label_faults, &["a", "1a", "a-b", &label], &["", "a.b", "A", "-a", "a-", "a_b", "a?x=", &long]),
            (
                resource_part_faults,
                &["v1", "v1beta2", "a-b", &label],
                &["", "1a", "v1.2", "V1", "v1%62eta2", "..", &long],
            ),
            (kind_faults, &["A", "aB9", "A-B", &label], &["", "9A", "A/B", "A.B", "A-", "Ä", "A%41", "A?", &long]),
            (
                group_version_faults,
                &["g/v1", "a.b-c.io/v1beta2"],
                &["", "/", "v1", "g/", "/v1", "g/v1/x", "g/v1%2Fx", "../v1", "g/..", "g/v1?x=", "g/1"],
            ),
        ];
        for (faults, good, bad) in checks {
            good.iter().for_each(|text| assert_eq!(faults(text), Vec::<String>::new(), "{text:?}"));
            bad.iter().for_each(|text| assert_ne!(faults(text), Vec::<String>::new(), "{text:?}"));
        }
    }

    #[test]
    fn integers_are_decimal_and_fit_64_bits() {
        // INT-001
        for (text, want) in [
            ("0", Some(0)),
            ("+5", Some(5)),
            ("-5", Some(-5)),
            ("007", Some(7)),
            ("9223372036854775807", Some(i64::MAX)),
        ] {
            assert_eq!(decimal_integer(text), want, "{text}");
        }
        for text in ["", "+", "-", " 5", "5 ", "1_0", "1.0", "0x1", "9223372036854775808"] {
            assert_eq!(decimal_integer(text), None, "{text}");
        }
    }

    #[test]
    fn an_int_or_percentage_is_a_number_or_ends_in_a_percent_sign() {
        // IOP-001
        let text = |text: &str| IntOrString::String(text.to_owned());
        for good in [IntOrString::Int(-1), IntOrString::Int(0), text("0%"), text("-5%"), text("500%"), text("+1%")] {
            assert!(is_int_or_percentage(&good), "{good:?}");
        }
        for bad in [text("5"), text(""), text("%"), text("5.5%"), text("5%%"), text(" 5%")] {
            assert!(!is_int_or_percentage(&bad), "{bad:?}");
        }
    }
}
