//! The closest known names of a misspelled one.

/// How many names are looked at, and how long they may be, in characters: a message is not worth more.
const CANDIDATES: usize = 500;
const LONGEST: usize = 64;

/// The name that `written` is most likely a slip of, if any is near enough: the same in other letters, or a few letters apart.
/// Of equally near names the first counts.
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

/// The letters and digits of a name, in lower case: `imageRepository`, `image-repository` and `image_repository` are one.
fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How many letters have to be added, dropped, changed or swapped with their neighbour, if that is at most `most`, and fewer
/// than half of them.
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
