//! Names of objects in texts, such as messages: found and replaced, so that texts about different objects are equal.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// What a name in a text may be a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameBoundary {
    /// A longer name, but no longer word: `blue` is found in `blue-bastion`, but not in `blueprint`.
    Word,
    /// Nothing but a generated name, which begins with it and is found as a whole: for `blue-md`, that is
    /// `blue-md-x7k2p`.
    GeneratedName,
    /// Any text.
    Anywhere,
}

/// Names of objects with their replacements.
#[derive(Clone, Debug)]
pub struct ObjectNames<T> {
    boundary: NameBoundary,
    replacements: HashMap<String, T>,
    /// Lengths of names in bytes, the longest first.
    lengths: BTreeSet<Reverse<usize>>,
}

impl<T: AsRef<str>> ObjectNames<T> {
    /// Names with their replacements; the first of equal names is used.
    pub fn new(boundary: NameBoundary, names: impl IntoIterator<Item = (String, T)>) -> Self {
        let (mut replacements, mut lengths) = (HashMap::new(), BTreeSet::new());
        for (name, replacement) in names.into_iter().filter(|(name, _)| !name.is_empty()) {
            lengths.insert(Reverse(name.len()));
            replacements.entry(name).or_insert(replacement);
        }
        ObjectNames { boundary, replacements, lengths }
    }

    /// The text with all names replaced.
    pub fn replace(&self, text: &str) -> String {
        self.replace_with(text, |rest| self.first(rest, |_, _| true))
    }

    /// The text without names.
    pub fn remove(&self, text: &str) -> String {
        self.replace_with(text, |rest| self.first(rest, |_, _| true).map(|(length, _)| (length, "")))
    }

    /// The text with replacements: `find` returns the length of the name at the start of a text, and its replacement.
    pub fn replace_with<'r>(&self, text: &str, find: impl Fn(&str) -> Option<(usize, &'r str)>) -> String {
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for at in self.boundary.starts(text) {
            if at < done {
                continue;
            }
            if let Some((length, replacement)) = find(&text[at..]) {
                result.push_str(&text[done..at]);
                result.push_str(replacement);
                done = at + length;
            }
        }
        result.push_str(&text[done..]);
        result
    }

    /// The length of the longest accepted name at the start of a text, and its replacement.
    pub fn first(&self, text: &str, accepts: impl Fn(&str, &str) -> bool) -> Option<(usize, &str)> {
        self.lengths.iter().find_map(|Reverse(length)| {
            let name = text.get(..*length)?;
            let found = self.boundary.found_length(text, name)?;
            let replacement = self.replacements.get(name)?.as_ref();
            accepts(name, replacement).then_some((found, replacement))
        })
    }
}

impl NameBoundary {
    /// Whether a text begins with a name.
    pub fn begins_with(self, text: &str, name: &str) -> bool {
        text.starts_with(name) && self.found_length(text, name).is_some()
    }

    /// The number of occurrences of a name in a text.
    pub fn count(self, text: &str, name: &str) -> usize {
        self.starts(text).filter(|at| self.begins_with(&text[*at..], name)).count()
    }

    /// The length of what is found if a text begins with a name; `None` if the name is a part of something else.
    fn found_length(self, text: &str, name: &str) -> Option<usize> {
        let after = &text[name.len()..];
        match self {
            NameBoundary::Word => (!after.starts_with(char::is_alphanumeric)).then_some(name.len()),
            NameBoundary::GeneratedName => {
                let end = text.find(|c: char| !is_part_of_name(c)).unwrap_or(text.len());
                let word = text[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
                let rest = word.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with('-')).then_some(word.len())
            }
            NameBoundary::Anywhere => Some(name.len()),
        }
    }

    /// The positions at which a name may begin.
    fn starts(self, text: &str) -> impl Iterator<Item = usize> {
        let mut was_part = false;
        text.char_indices().filter_map(move |(at, c)| {
            let is_part = match self {
                NameBoundary::Word => c.is_alphanumeric(),
                NameBoundary::GeneratedName => is_part_of_name(c),
                NameBoundary::Anywhere => return Some(at),
            };
            let begins = is_part && !was_part;
            was_part = is_part;
            begins.then_some(at)
        })
    }
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '.'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<const N: usize>(boundary: NameBoundary, names: [(&str, &'static str); N]) -> ObjectNames<&'static str> {
        ObjectNames::new(boundary, names.map(|(name, replacement)| (name.to_owned(), replacement)))
    }

    #[test]
    fn words_are_replaced_by_the_longest_name() {
        let names = names(
            NameBoundary::Word,
            [("prod/blue", "<cluster>"), ("blue-md-x7k2p", "<name>"), ("blue", "<cluster>"), ("old", "<name>")],
        );
        for (text, want) in [
            ("blue", "<cluster>"),
            ("Cluster prod/blue: no", "Cluster <cluster>: no"),
            ("https://blue.example.test/blue-bastion", "https://<cluster>.example.test/<cluster>-bastion"),
            ("blueprint and deepblue, blue2", "blueprint and deepblue, blue2"),
            ("blue-md-x7k2p and blue-md-x7k2pq", "<name> and <cluster>-md-x7k2pq"),
            ("blue_blue", "<cluster>_<cluster>"),
            ("übblue blueé", "übblue blueé"),
            ("", ""),
        ] {
            assert_eq!(names.replace(text), want, "{text:?}");
        }
    }

    #[test]
    fn replacements_are_not_replaced_again() {
        let names = names(NameBoundary::Word, [("cluster", "<cluster>"), ("name", "<name>")]);
        assert_eq!(names.replace("cluster of name"), "<cluster> of <name>");
    }

    #[test]
    fn generated_names_are_replaced_as_a_whole() {
        let names = names(NameBoundary::GeneratedName, [("blue", "…"), ("green-md", "…"), ("", "…")]);
        for (text, want) in [
            ("blue-md-0-x7k2p is not ready.", "… is not ready."),
            ("Machines default/blue, green-md-a.", "Machines default/…, …."),
            ("green-m blueish blue.md xblue", "green-m blueish blue.md xblue"),
            ("a: b", "a: b"),
        ] {
            assert_eq!(names.replace(text), want, "{text:?}");
        }
    }

    #[test]
    fn names_anywhere_may_be_parts_of_words() {
        let names = names(NameBoundary::Anywhere, [("blue-md", "green-md"), ("blue-md-1", "green-md-1")]);
        assert_eq!(names.replace("of blue-md-1x and xblue-md"), "of green-md-1x and xgreen-md");
        assert_eq!(names.remove("of blue-md-1x and bluest"), "of x and bluest");
    }

    #[test]
    fn names_are_counted_where_they_are_words() {
        assert_eq!(NameBoundary::Word.count("large: xlarge large-1, larger", "large"), 2);
    }
}
