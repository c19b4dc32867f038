//! The closest known names of a misspelled one.

/// Maximum number of candidate names, and their maximum length in characters.
const CANDIDATES: usize = 500;
const LONGEST: usize = 64;

/// The known name that `written` most likely misspells: the same apart from case and punctuation, or a few edits away.
/// Of equally close names, the first.
pub fn closest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = folded(written);
    let most = match plain.len() {
        0 | LONGEST.. => return None,
        1..4 => 1,
        4..8 => 2,
        _ => 3,
    };
    let near = names.into_iter().take(CANDIDATES).filter(|name| name.len() < 4 * LONGEST && *name != written);
    let near = near.filter_map(|name| Some((distance(&plain, &folded(name), most)?, name)));
    near.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|(_, name)| name)
}

/// Letters and digits of a name in lower case: `imageRepository`, `image-repository` and `image_repository` are equal.
fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Edit distance (insertions, deletions, substitutions, transpositions), if it is at most `most` and less than half of
/// the letters.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let changed = at(&row, j) + usize::from(from != to);
            let mut least = changed.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let before = i.checked_sub(1).and_then(|i| a.get(i)).zip(j.checked_sub(1).and_then(|j| b.get(j)));
            if before == Some((to, from)) {
                least = least.min(at(&above, j.saturating_sub(1)) + 1);
            }
            next.push(least);
        }
        if next.iter().min().is_some_and(|least| *least > most + 1) {
            return None;
        }
        above = std::mem::replace(&mut row, next);
    }
    row.last().copied().filter(|apart| *apart <= most && apart * 2 < a.len().max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_finds_the_closest_one() {
        let names = ["imageRepository", "kubeletLogLevel", "ntp", "etcdTag", "dnsTag"];
        for (written, want) in [
            ("imagerepository", Some("imageRepository")),
            ("image-repository", Some("imageRepository")),
            ("imageRepositroy", Some("imageRepository")),
            ("imageRepo", None),
            ("npt", Some("ntp")),
            ("ntps", Some("ntp")),
            ("etcTag", Some("etcdTag")),
            ("tag", None),
            ("x", None),
            ("", None),
            ("ntp", None),
        ] {
            assert_eq!(closest(written, names), want, "{written}");
        }
        assert_eq!(closest("abcd1", ["abcd2", "abcd3"]), Some("abcd2"), "the first of equals");
        assert_eq!(closest(&"x".repeat(100_000), names), None);
    }
}
