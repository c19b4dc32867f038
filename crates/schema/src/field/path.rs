//! Paths to fields inside an object.

use std::borrow::Cow;
use std::fmt;

use super::shortened;

/// Maximum length of a path, in bytes. An object may have as many paths as fields.
const LONGEST: usize = 4096;

/// Length from which a path is cut: its last character and the ellipsis take at most six bytes.
const FULL: usize = LONGEST - 6;

/// Appends to a path; a path that becomes too long is cut and ends in "…".
pub fn lengthen(path: &mut String, parts: &[&str]) {
    for part in parts {
        let room = FULL.saturating_sub(path.len());
        if part.len() < room {
            path.push_str(part);
        } else if room > 0 {
            path.push_str(&part[..part.ceil_char_boundary(room)]);
            path.push('…');
        }
    }
}

/// Appends a step to a JSON pointer, unless it becomes too long.
pub fn point(pointer: &mut String, name: &str) -> bool {
    let fits = pointer.len() + name.len() < LONGEST_POINTER;
    if fits {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    fits
}

/// Maximum length of a pointer, in bytes, before the last step is appended.
const LONGEST_POINTER: usize = 4096;

/// A path such as `spec.topology.workers.machineDeployments[md-0].class`.
///
/// `child` appends `.name`, `index` and `key` append `[…]`. Which of the two brackets a rule uses is part of the rule.
/// A path is its text; static paths cost nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Cow<'static, str>);

impl Path {
    /// The path of the object itself, rendered as `[]`.
    pub const ROOT: Path = Path(Cow::Borrowed(""));

    /// A static path.
    pub const fn new(text: &'static str) -> Self {
        Path(Cow::Borrowed(text))
    }

    /// `self.name`.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        match &*self.0 {
            "" => Path::joined(&[name]),
            parent => Path::joined(&[parent, ".", name]),
        }
    }

    /// `self[position]`, an entry of a list by its position.
    #[must_use]
    pub fn index(&self, position: usize) -> Self {
        self.key(&position.to_string())
    }

    /// `self[name]`, an entry of a list or map by its key; a very long key is cut.
    #[must_use]
    pub fn key(&self, name: &str) -> Self {
        Path::joined(&[&self.0, "[", &shortened(name), "]"])
    }

    /// A member of an object: `self.name`, or `self[name]` if the name has special characters, such as that of a label.
    #[must_use]
    pub fn member(&self, name: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match !name.is_empty() && name.chars().all(is_plain) {
            true => self.child(name),
            false => self.key(name),
        }
    }

    /// `self` followed by a path inside a value, such as `.key[0]`.
    #[must_use]
    pub fn place(&self, place: &str) -> Self {
        Path::joined(&[&self.0, place])
    }

    /// Rules build paths before they know whether there is an error, so this must be cheap.
    fn joined(parts: &[&str]) -> Self {
        if parts.iter().map(|part| part.len()).sum::<usize>() >= FULL {
            let mut path = String::new();
            lengthen(&mut path, parts);
            return Path(Cow::Owned(path));
        }
        Path(Cow::Owned(parts.concat()))
    }

    /// The text of the path.
    #[must_use]
    pub fn into_text(self) -> Cow<'static, str> {
        self.0
    }

    /// The text of the path, empty for [`Path::ROOT`].
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "[]" } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn a_path_grows_by_children_positions_and_keys() {
        let workers = Path::new("spec.workers");
        assert_eq!(
            workers.child("machineDeployments").index(2).child("class").to_string(),
            "spec.workers.machineDeployments[2].class"
        );
        assert_eq!(workers.key("a.b").to_string(), "spec.workers[a.b]");
        assert_eq!(workers.member("a-b_C9").to_string(), "spec.workers.a-b_C9");
        assert_eq!(workers.member("a.b/c").to_string(), "spec.workers[a.b/c]");
        assert_eq!(Path::ROOT.to_string(), "[]");
        // DEC-44: there may be as many paths as there are fields, so one is cut short, at any depth.
        let deep = |names: usize| (0..names).fold(workers.clone(), |path, i| path.key(&"é".repeat(500 + i)));
        assert!(deep(3).as_str().ends_with("é]") && deep(4).child("class").as_str().len() > 4000);
        let cut = deep(5);
        assert!(cut.as_str().ends_with('…') && cut.as_str().len() <= 4096, "{}", cut.as_str().len());
        assert_eq!(cut.child("class").index(3).place(".more"), cut);
        assert_eq!(Path::ROOT.child("spec").as_str(), "spec");
    }
}
