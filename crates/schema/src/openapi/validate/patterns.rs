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
        "GROUP/VERSION, such as apps/v1",
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
    (r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$", "letters, digits and -, with a letter at the beginning"),
    (
        r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        "a letter, then letters, digits, _, , and :, with a letter, digit or _ at the end",
    ),
    (r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$", "a duration, such as 1h30m"),
];

const QUALIFIED_NAME: &str = "a name such as ready or example.com/ready: letters, digits, -, _ and ., after a DNS subdomain and / if there is one";

/// What a string has to be that does not match a pattern.
pub(super) fn demand(pattern: &str) -> String {
    match KNOWN.iter().find(|(known, _)| *known == pattern) {
        Some((_, words)) => format!("must be {words}"),
        None => format!("must match {pattern:?}"),
    }
}
