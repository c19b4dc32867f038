//! A version together with its text.

use std::fmt;

use super::{KubeVersion, VersionError};

/// A version with its text, which objects, requests and messages show (UP-03).
///
/// Values with equal texts are equal, so `v1.33.0` and `1.33.0` differ; [`version`](Self::version) compares the
/// versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionText {
    text: String,
    version: KubeVersion,
}

impl VersionText {
    /// Reads a version.
    ///
    /// # Errors
    /// When the text is not a version.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        Ok(VersionText { text: text.to_owned(), version: KubeVersion::parse_tolerant(text)? })
    }

    /// Reads a version; for an invalid text [`KubeVersion::ZERO`] takes its place.
    pub fn lenient(text: &str) -> Self {
        let version = KubeVersion::parse_tolerant(text).unwrap_or(KubeVersion::ZERO);
        VersionText { text: text.to_owned(), version }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The version of the text.
    pub fn version(&self) -> &KubeVersion {
        &self.version
    }

    /// The minor number.
    pub fn minor(&self) -> u64 {
        self.version.minor()
    }
}

impl Default for VersionText {
    /// No version: an empty text.
    fn default() -> Self {
        VersionText { text: String::new(), version: KubeVersion::ZERO }
    }
}

impl From<KubeVersion> for VersionText {
    fn from(version: KubeVersion) -> Self {
        VersionText { text: version.to_string(), version }
    }
}

impl From<VersionText> for KubeVersion {
    fn from(written: VersionText) -> Self {
        written.version
    }
}

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_keeps_its_text_and_texts_decide_whether_two_are_equal() {
        // UP-03
        let [plain, short] = ["v1.33.0+a", "1.33.0+a"].map(|text| VersionText::parse(text).unwrap());
        assert_eq!((plain.to_string(), short.as_str(), short.minor()), ("v1.33.0+a".to_owned(), "1.33.0+a", 33));
        assert!(plain != short && plain.version() == short.version());
        assert_eq!(VersionText::from(short.version().clone()), plain);
        assert!(VersionText::parse("odd").is_err());
        assert_eq!(
            (VersionText::lenient("odd").as_str(), VersionText::lenient("odd").version()),
            ("odd", &KubeVersion::ZERO)
        );
        assert_eq!(VersionText::default(), VersionText::lenient(""));
    }
}
