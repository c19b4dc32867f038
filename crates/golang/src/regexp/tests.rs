//! Comparison with answers recorded from Go 1.26, and the documented differences.

use std::time::{Duration, Instant};

use super::*;

/// One line per pattern: what it matches and misses, or Go's error.
const VECTORS: &str = include_str!("../../../../fixtures/goregex/vectors.jsonl");

fn texts(vector: &serde_json::Value, field: &str) -> Vec<String> {
    let texts = vector[field].as_array().into_iter().flatten();
    texts.map(|text| text.as_str().expect("texts are strings").to_string()).collect()
}

fn error(pattern: &str) -> String {
    Regex::new(pattern).map_or_else(|error| error.to_string(), |_| format!("accepted: {pattern}"))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

#[test]
fn patterns_match_and_fail_as_in_go() {
    for line in VECTORS.lines() {
        let vector: serde_json::Value = serde_json::from_str(line).unwrap();
        let pattern = vector["pattern"].as_str().unwrap();
        if let Some(want) = vector["error"].as_str() {
            assert_eq!(error(pattern), want, "{pattern}");
            continue;
        }
        let regex = regex(pattern);
        for text in texts(&vector, "matches") {
            assert!(regex.is_match(&text), "{pattern} misses {text:?}");
        }
        for text in texts(&vector, "misses") {
            assert!(!regex.is_match(&text), "{pattern} matches {text:?}");
        }
    }
}

#[test]
fn syntax_that_rust_reads_differently_is_read_as_in_go() {
    for (pattern, hits, misses) in [
        (r"^\d$", &["7"][..], &["٣"][..]),
        (r"^\w$", &["k"], &["é"]),
        (r"(?i)^\w$", &["ſ", "\u{212A}"], &["é"]),
        (r"(?i)^\W$", &["é"], &["ſ"]),
        (r"^\s$", &["\t", "\u{c}"], &["\u{b}", "\u{a0}"]),
        (r"^[[:space:]]$", &["\u{b}"], &["\u{a0}"]),
        (r"\bé", &["aé"], &["é"]),
        (r"^a\B", &[], &["aé", "a"]),
        (r"^\B$", &[""], &["a"]),
        (r"^.$", &["é", "\r"], &["\n"]),
        (r"(?s)^.$", &["\n"], &[""]),
        (r"a$", &["ba"], &["a\n"]),
        (r"(?m)a$", &["a\nb"], &["ab", "a\r\n"]),
        (r"(?m)\Ab\z", &["b"], &["a\nb"]),
        (r"^a{,2}$", &["a{,2}"], &["aa", ""]),
        (r"^a{$", &["a{"], &["a"]),
        (r"^a{01}$", &["a{01}"], &["a"]),
        (r"^[a&&b]$", &["a", "b", "&"], &["c"]),
        (r"^[a~~b]$", &["a", "b", "~"], &["c"]),
        (r"^[[a]$", &["[", "a"], &["]"]),
        (r"^[]a]$", &["]", "a"], &["b"]),
        (r"^[^]a]$", &["b"], &["]", "a"]),
        (r"^[a-]$", &["-", "a"], &["b"]),
        (r"^\Qa.b*\E+$", &["a.b**"], &["a.ba.b*", "axb*"]),
        (r"^\Q(", &["("], &["a"]),
        (r"^\07\123$", &["\u{7}S"], &["07123"]),
        (r"^\x{1F600}\x7F\_\<$", &["😀\u{7f}_<"], &[""]),
        (r"^\x{D800}$", &[], &["\u{FFFD}", ""]),
        (r"^[\x{D000}-\x{E000}]$", &["\u{D7FF}", "\u{E000}"], &["a"]),
        (r"^\P{^Lu}$", &["A"], &["a"]),
        (r"^\p{g_r-E eK}$", &["σ"], &["s"]),
        (r"^[^\PN]$", &["٣"], &["a"]),
        (r"^\p{Old_Italic}$", &["𐌀"], &["a"]),
        (r"(?i)^σK$", &["ςk", "Σ\u{212A}"], &["s"]),
        (r"^(?i:a(?-i)b)c$", &["Abc"], &["ABc", "abC"]),
        (r"^a(?i)b|c$", &["aB", "C"], &["AB"]),
        (r"^a*(?i)?$", &["", "aa"], &["b"]),
        (r"^(?:)*a|^*b", &["a", "b"], &["c"]),
        (r"^(a{0}){1000}$", &[""], &["a"]),
    ] {
        let regex = regex(pattern);
        let outcome = |texts: &[&str]| texts.iter().map(|text| regex.is_match(text)).collect::<Vec<_>>();
        assert_eq!(outcome(hits), vec![true; hits.len()], "{pattern} matches {hits:?}");
        assert_eq!(outcome(misses), vec![false; misses.len()], "{pattern} misses {misses:?}");
    }
}

#[test]
fn patterns_that_go_rejects_have_the_error_of_go() {
    for (pattern, want) in [
        ("a(b", "missing closing ): `a(b`"),
        ("a)b", "unexpected ): `a)b`"),
        ("[a", "missing closing ]: `[a`"),
        ("x[]a", "missing closing ]: `[]a`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("[\\", "trailing backslash at end of expression: ``"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(*a)", "missing argument to repetition operator: `*`"),
        ("a|*?", "missing argument to repetition operator: `*?`"),
        ("(?i)+", "missing argument to repetition operator: `+`"),
        ("{1}", "missing argument to repetition operator: `{1}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a+??", "invalid nested repetition operator: `+??`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("((a{10}){10}){11}", "invalid repeat count: `{11}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[a--b]", "invalid character class range: `a--`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{IsGreek}", r"invalid character class range: `\p{IsGreek}`"),
        (r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`"),
        (r"[\p{Lu]", r"invalid character class range: `\p{Lu]`"),
        (r"\pé", r"invalid character class range: `\pé`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\u0041", r"invalid escape sequence: `\u`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\xg0", r"invalid escape sequence: `\xg0`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<", "invalid or unsupported Perl syntax: `(?<`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?<é>a)", "invalid named capture: `(?<é>`"),
    ] {
        assert_eq!(error(pattern), format!("error parsing regexp: {want}"), "{pattern}");
    }
}

#[test]
fn groups_keep_their_numbers_and_names() {
    let regex = regex(r"(?P<n>a)(b)(?:c)(?<n>d)(?<1x>e)?");
    assert_eq!(regex.group_names().collect::<Vec<_>>(), [Some("n"), None, Some("n"), Some("1x")]);
    let captures = regex.captures_iter("abcd").next().unwrap();
    assert_eq!(captures.get(3).map(|group| group.as_str()), Some("d"));
    assert_eq!(regex.as_str(), r"(?P<n>a)(b)(?:c)(?<n>d)(?<1x>e)?");
}

#[test]
fn nesting_ends_where_go_ends_it() {
    let nested = |open: &str, close: &str, n: usize| format!("{}a{}", open.repeat(n), close.repeat(n));
    for (open, close, deepest) in [("(", ")", 999), ("(?:a", ")*", 500), ("(?:a|bc", ")?", 333), ("(|", ")", 499)] {
        assert!(regex(&nested(open, close, deepest)).is_match("a"), "{open}…{close}");
        let deeper = nested(open, close, deepest + 1);
        assert!(
            matches!(Regex::new(&deeper), Err(RegexError::TooDeep(pattern)) if pattern == deeper),
            "{open}…{close}"
        );
    }
    assert!(regex(&nested("(?:", ")", 10_000)).is_match("a"), "groups that do not capture have no height");
}

#[test]
fn size_is_bounded() {
    let long = "a".repeat(MAX_LENGTH + 1);
    assert_eq!(error(&long), "error parsing regexp: expression too large: 65537 bytes, the limit is 65536");
    let classes = r"\pL".repeat(MAX_UNICODE_CLASSES + 1);
    assert_eq!(error(&classes), "error parsing regexp: expression too large: 501 Unicode classes, the limit is 500");
    let large = r"\pL{1000}";
    assert_eq!(
        error(large),
        r"error parsing regexp: expression too large: `\pL{1000}` compiles to more than 10485760 bytes"
    );
}

/// Pseudo-random numbers, equal in every run.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.below(most)).map(|_| pieces[self.below(pieces.len())]).collect()
    }
}

#[test]
fn no_input_panics_or_takes_long() {
    let pieces = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "*",
        "+",
        "?",
        "|",
        "\\",
        "^",
        "$",
        ".",
        "-",
        ":",
        ",",
        "<",
        ">",
        "=",
        "&",
        "P",
        "Q",
        "E",
        "p",
        "x",
        "i",
        "a",
        "é",
        "😀",
        "0",
        "1",
        "9",
        "\n",
        "(?",
        "(?P<",
        "[^",
        "[:",
        ":]",
        "[:alpha:]",
        r"\p{",
        r"\Q",
        r"\x{",
        "{2,",
        "{1000}",
        "{0,9}",
        "(?i)",
        r"\PL",
        "\u{10FFFF}",
    ];
    let mut lottery = PseudoRandom(42);
    let mut accepted = 0;
    for _ in 0..4000 {
        let pattern = lottery.text(&pieces, 24);
        let text = lottery.text(&pieces, 12);
        let start = Instant::now();
        if let Ok(regex) = Regex::new(&pattern) {
            accepted += 1;
            regex.is_match(&text);
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{pattern} took {:?}", start.elapsed());
    }
    assert!(accepted > 200, "only {accepted} patterns were valid");
}

#[test]
fn a_search_reports_its_maximum_number_of_steps() {
    // DEC-44: where the automata give up, each byte visits each state.
    let steps = |pattern: &str| Regex::new(pattern).unwrap().steps(&"a".repeat(100)) / 100;
    assert!(steps("^[a-z]+$") < 20 && (1000..5000).contains(&steps("^.{1,253}$")));
    assert!(steps(&format!("{}[^a]$", "a{0,1000}".repeat(56))) > 100_000);
    // The caches that make a search fast grow with the pattern, are counted, and have a bound.
    let caches = |pattern: &str| search_cache(steps(pattern));
    assert!(caches("^.{1,253}$") > 100_000 && caches("a") < 66_000 && search_cache(usize::MAX) == MAX_SEARCH_CACHE);
    let regex = Regex::new("^.{1,253}$").unwrap();
    assert!(regex.footprint() > 2 * caches("^.{1,253}$"));
}
