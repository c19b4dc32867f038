//! What strings have to be, in words.

/// The forms of names that most APIs of Kubernetes demand, by their patterns.
const KNOWN: [(&str, &str); 9] = [
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "a DNS label: lower-case letters, digits and -, with a letter or digit at both ends",
    ),
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "a DNS subdomain: lower-case letters, digits, - and ., with a letter or digit at both ends of each part",
    ),
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$",
        "GROUP/VERSION, such as apps/v1: a DNS subdomain and a DNS label that begins with a letter",
    ),
    (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        QUALIFIED_NAME,
    ),
    (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
        QUALIFIED_NAME,
    ),
    (
        r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        "letters, digits, -, _ and ., with a letter or digit at both ends",
    ),
    (
        r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
        "letters, digits and -, with a letter at the beginning and a letter or digit at the end",
    ),
    (
        r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        "a letter, then letters, digits, _, , and :, with a letter, digit or _ at the end",
    ),
    (r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$", "a duration, such as 1h30m"),
];

const QUALIFIED_NAME: &str = "a name such as ready or example.com/ready: letters, digits, -, _ and ., with a letter or digit at both ends, after a DNS \
     subdomain and / if there is one";

/// What a string has to be that does not match a pattern.
pub(super) fn demand(pattern: &str) -> String {
    match KNOWN.iter().find(|(known, _)| *known == pattern) {
        Some((_, words)) => format!("must be {words}"),
        None => format!("must match {pattern:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golang::regexp::Regex;

    #[test]
    fn words_say_what_patterns_demand() {
        // DEC-32
        let examples: [(&[&str], &[&str]); KNOWN.len()] = [
            (&["a", "a-1"], &["-a", "a-", "A", "a.b", ""]),
            (&["a", "a-1.b"], &["a..b", ".a", "A.b", ""]),
            (&["apps/v1"], &["apps", "apps/1", "/v1"]),
            (&["ready", "example.com/Ready_1"], &["-ready", "ready.", "Example.com/ready", "/ready"]),
            (&["ready", "example.com/Ready_1"], &["-ready", "ready.", "Example.com/ready", "/ready"]),
            (&["", "a_b.c-1", "A"], &["-a", "a.", "a/b"]),
            (&["Kind", "a-1"], &["a-", "1a", ""]),
            (&["Reason", "a_,:b_"], &["a:", "1", ""]),
            (&["1h30m", "1.5s"], &["1", "h", ""]),
        ];
        for ((pattern, words), (accepted, refused)) in KNOWN.iter().zip(examples) {
            let compiled = Regex::new(pattern).unwrap();
            assert!(accepted.iter().all(|text| compiled.is_match(text)), "{pattern}");
            assert!(!refused.iter().any(|text| compiled.is_match(text)), "{pattern}");
            assert_eq!(demand(pattern), format!("must be {words}"));
        }
        assert_eq!(demand("^x$"), "must match \"^x$\"");
    }
}
