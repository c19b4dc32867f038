//! Sample texts for patterns: a search through their automata for the shortest matching text.
//!
//! ```text
//! pattern ─► (any text)(pattern)(any text) ─► lazy automaton ─┐
//! pattern ─► …                                                ├─► breadth first, a byte at a time ─► shortest text
//! least and most characters ──────────────────────────────────┘
//! ```

use std::collections::{HashSet, VecDeque};

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

use super::{MAX_COMPILED, Regex, parse};

/// Maximum number of automaton states that a search visits.
const PLACES: usize = 50_000;

/// Maximum memory of the states of one automaton, in bytes.
const STATES: usize = 4 << 20;

/// Bytes ordered by readability.
const READABLE: &[u8] =
    b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-./:_@,+=#%&*~!?$;()[]{}<>|^'`\"\\ ";

/// Requirements on a sample text.
#[derive(Clone, Copy, Debug)]
pub struct SampleRequest<'a> {
    /// Patterns that must all match somewhere in the text.
    pub patterns: &'a [&'a Regex],
    /// Minimum and maximum number of characters.
    pub least: usize,
    pub most: usize,
    /// Varies the letters where the patterns leave a choice.
    pub turn: usize,
}

impl SampleRequest<'_> {
    /// A text with as few characters as possible; `None` if there is none, or if the search exceeds its limits.
    pub fn shortest(&self) -> Option<String> {
        let mut automata = self.patterns.iter().map(|pattern| Automaton::new(pattern)).collect::<Option<Vec<_>>>()?;
        let start = automata.iter_mut().map(Automaton::start).collect::<Option<Vec<_>>>()?;
        let text = Search::new(self, self.bytes(&automata), start).run(&mut automata)?;
        let fits = self.patterns.iter().all(|pattern| pattern.is_match(&text));
        (fits && text.chars().count() <= self.most).then_some(text)
    }

    /// Bytes, readable ones first: one of each group that the automata treat alike.
    fn bytes(&self, automata: &[Automaton]) -> Vec<u8> {
        let mut bytes = READABLE.to_vec();
        let turn = self.turn % bytes.len();
        bytes.rotate_left(turn);
        let more: Vec<u8> = (0..=u8::MAX).filter(|byte| !READABLE.contains(byte)).collect();
        // Bytes of other letters before control characters.
        bytes.extend(more.iter().filter(|byte| **byte >= 0x80));
        bytes.extend(more.iter().filter(|byte| **byte < 0x80));
        let mut groups: HashSet<(Vec<u8>, bool)> = HashSet::new();
        let group = |byte: u8| automata.iter().map(|one| one.dfa.byte_classes().get(byte)).collect();
        bytes.retain(|byte| groups.insert((group(*byte), starts_character(*byte))));
        bytes
    }
}

/// Whether a character starts with the byte in UTF-8.
fn starts_character(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// A pattern that matches a text as a whole.
struct Automaton {
    dfa: DFA,
    cache: dfa::Cache,
}

impl Automaton {
    fn new(pattern: &Regex) -> Option<Self> {
        let translated = parse::translate(&pattern.pattern).ok()?.pattern;
        let whole = format!("(?s:.)*(?:{translated})(?s:.)*");
        let parsed = syntax::parse_with(&whole, &syntax::Config::new().nest_limit(u32::MAX)).ok()?;
        let bounds =
            thompson::Config::new().nfa_size_limit(Some(MAX_COMPILED)).which_captures(thompson::WhichCaptures::None);
        let program = thompson::Compiler::new().configure(bounds).build_from_hir(&parsed).ok()?;
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(STATES)
            .skip_cache_capacity_check(true)
            // States are identified by number, so the cache must not be cleared.
            .minimum_cache_clear_count(Some(0));
        let dfa = DFA::builder().configure(config).build_from_nfa(program).ok()?;
        let cache = dfa.create_cache();
        Some(Automaton { dfa, cache })
    }

    fn start(&mut self) -> Option<LazyStateID> {
        self.dfa.start_state_forward(&mut self.cache, &Input::new("").anchored(Anchored::Yes)).ok()
    }

    /// The state after a byte; `None` if no match is possible any more.
    fn after(&mut self, state: LazyStateID, byte: u8) -> Option<LazyStateID> {
        let next = self.dfa.next_state(&mut self.cache, state, byte).ok()?;
        (!next.is_dead() && !next.is_quit()).then_some(next)
    }

    /// Whether the text may end here.
    fn accepts(&mut self, state: LazyStateID) -> bool {
        self.dfa.next_eoi_state(&mut self.cache, state).is_ok_and(|end| end.is_match())
    }
}

/// A state of each automaton, and the number of characters read, capped at the required minimum.
type SearchState = (Vec<LazyStateID>, usize);

struct Search {
    bytes: Vec<u8>,
    least: usize,
    most: usize,
    seen: HashSet<SearchState>,
    /// Each visited state with the step that led to it.
    steps: Vec<SearchStep>,
    next: VecDeque<usize>,
}

struct SearchStep {
    place: SearchState,
    /// Number of characters read.
    length: usize,
    from: Option<(usize, u8)>,
}

impl Search {
    fn new(wish: &SampleRequest<'_>, bytes: Vec<u8>, start: Vec<LazyStateID>) -> Self {
        let mut search = Search {
            bytes,
            least: wish.least,
            most: wish.most,
            seen: HashSet::new(),
            steps: Vec::new(),
            next: VecDeque::new(),
        };
        search.reach(start, 0, None);
        search
    }

    fn run(&mut self, automata: &mut [Automaton]) -> Option<String> {
        while let Some(at) = self.next.pop_front() {
            let SearchStep { place: (states, read), length, .. } = self.steps.get(at)?;
            let (states, length) = (states.clone(), *length);
            if *read >= self.least && automata.iter_mut().zip(&states).all(|(one, state)| one.accepts(*state)) {
                return self.text(at);
            }
            self.go_on(at, &states, length, automata);
            if self.steps.len() > PLACES {
                return None;
            }
        }
        None
    }

    /// Visits every state that one byte leads to.
    fn go_on(&mut self, at: usize, states: &[LazyStateID], length: usize, automata: &mut [Automaton]) {
        for i in 0..self.bytes.len() {
            let Some(byte) = self.bytes.get(i).copied() else { return };
            let length = length + usize::from(starts_character(byte));
            if length > self.most {
                continue;
            }
            let after = automata.iter_mut().zip(states).map(|(one, state)| one.after(*state, byte));
            if let Some(after) = after.collect::<Option<Vec<_>>>() {
                self.reach(after, length, Some((at, byte)));
            }
        }
    }

    fn reach(&mut self, states: Vec<LazyStateID>, length: usize, from: Option<(usize, u8)>) {
        let place = (states, length.min(self.least));
        if self.seen.insert(place.clone()) {
            self.next.push_back(self.steps.len());
            self.steps.push(SearchStep { place, length, from });
        }
    }

    fn text(&self, end: usize) -> Option<String> {
        let mut bytes = Vec::new();
        let mut from = self.steps.get(end)?.from;
        while let Some((before, byte)) = from {
            bytes.push(byte);
            from = self.steps.get(before)?.from;
        }
        bytes.reverse();
        String::from_utf8(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortest(patterns: &[&str], least: usize, most: usize) -> Option<String> {
        let patterns: Vec<Regex> = patterns.iter().map(|pattern| Regex::new(pattern).unwrap()).collect();
        let patterns: Vec<&Regex> = patterns.iter().collect();
        SampleRequest { patterns: &patterns, least, most, turn: 0 }.shortest()
    }

    #[test]
    fn the_shortest_text_that_matches_is_found() {
        for (pattern, least, most, want) in [
            ("", 0, 9, Some("")),
            ("", 3, 9, Some("aaa")),
            ("x", 0, 9, Some("x")),
            ("^x", 3, 9, Some("xaa")),
            ("x$", 3, 9, Some("aax")),
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 0, 63, Some("a")),
            (r"^v\d+\.\d+\.\d+$", 0, 63, Some("v0.0.0")),
            (r"^\d{12}$", 0, 63, Some("000000000000")),
            ("^(small|large)$", 0, 63, Some("large")),
            ("^(small|large)$", 0, 4, None),
            (r"^(?:[a-z]+\.)+[a-z]{2,}$", 0, 63, Some("a.aa")),
            (r"^ami-[0-9a-f]{8}$", 0, 63, Some("ami-aaaaaaaa")),
            (r"\bword\b", 6, 9, Some("a-word")),
            ("(?i)^ABC$", 0, 9, Some("abc")),
            ("^[äöü]{2}$", 2, 2, Some("ää")),
            (r"^\p{Greek}$", 1, 1, Some("\u{370}")),
            ("(?m)^b$", 0, 9, Some("b")),
            (r"^[^\n]{3}$", 0, 3, Some("aaa")),
            ("^.{200,}$", 0, 300, Some(&*"a".repeat(200))),
            ("^(a|b)*c{3}$", 5, 5, Some("aaccc")),
            (r"^(ssh|https?)://[^/\s]+/.+$", 0, 200, Some("ssh://a/a")),
            ("a^", 0, 9, None),
        ] {
            assert_eq!(shortest(&[pattern], least, most).as_deref(), want, "{pattern}");
        }
    }

    #[test]
    fn several_patterns_match_one_text() {
        assert_eq!(shortest(&["^[a-z]+$", "b", "c$"], 0, 9).as_deref(), Some("bc"));
        assert_eq!(shortest(&["^[a-z]+$", "[0-9]"], 0, 9), None);
        assert_eq!(shortest(&[], 2, 9).as_deref(), Some("aa"));
    }

    #[test]
    fn each_attempt_gives_another_text() {
        let pattern = Regex::new("^[a-z]{2}$").unwrap();
        let text = |turn| SampleRequest { patterns: &[&pattern], least: 0, most: 9, turn }.shortest().unwrap();
        assert_eq!((text(0), text(1), text(25)), ("aa".to_owned(), "bb".to_owned(), "zz".to_owned()));
    }

    #[test]
    fn a_search_that_takes_too_long_is_stopped() {
        // Each state of these automata records which of the last characters were an `a`.
        let texts = ["^(a|b)*a(a|b){14}$", "^(a|b)*b(a|b){13}c$"].map(|pattern| shortest(&[pattern, "c{2}"], 0, 99));
        assert_eq!(texts, [None, None]);
    }
}
