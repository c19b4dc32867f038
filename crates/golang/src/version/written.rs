//! A version as it is written.

use std::fmt;

use super::{KubeVersion, VersionError};

/// A version with its text, which is what goes into objects, requests and messages (UP-03).
///
/// Two values are equal when their texts are, so `v1.33.0` and `1.33.0` differ; [`version`](Self::version) compares what
/// they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    text: String,
    version: KubeVersion,
}

impl Written {
    /// Reads a version.
    ///
    /// # Errors
    /// When the text is not a version.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        Ok(Written { text: text.to_owned(), version: KubeVersion::parse_tolerant(text)? })
    }

    /// Reads a version that may be none; [`KubeVersion::ZERO`] stands in for its meaning.
    pub fn lenient(text: &str) -> Self {
        let version = KubeVersion::parse_tolerant(text).unwrap_or(KubeVersion::ZERO);
        Written { text: text.to_owned(), version }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the text means.
    pub fn version(&self) -> &KubeVersion {
        &self.version
    }

    /// The minor number.
    pub fn minor(&self) -> u64 {
        self.version.minor()
    }
}

impl Default for Written {
    /// No version: an empty text.
    fn default() -> Self {
        Written { text: String::new(), version: KubeVersion::ZERO }
    }
}

impl From<KubeVersion> for Written {
    fn from(version: KubeVersion) -> Self {
        Written { text: version.to_string(), version }
    }
}

impl From<Written> for KubeVersion {
    fn from(written: Written) -> Self {
        written.version
    }
}

impl fmt::Display for Written {
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
        let [plain, short] = ["v1.33.0+a", "1.33.0+a"].map(|text| Written::parse(text).unwrap());
        assert_eq!((plain.to_string(), short.as_str(), short.minor()), ("v1.33.0+a".to_owned(), "1.33.0+a", 33));
        assert!(plain != short && plain.version() == short.version());
        assert_eq!(Written::from(short.version().clone()), plain);
        assert!(Written::parse("odd").is_err());
        assert_eq!((Written::lenient("odd").as_str(), Written::lenient("odd").version()), ("odd", &KubeVersion::ZERO));
        assert_eq!(Written::default(), Written::lenient(""));
    }
}
