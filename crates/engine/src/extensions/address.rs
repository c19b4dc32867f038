//! URLs of extensions. Their parts are checked before they are joined (DEC-45).

use http::Uri;

use super::{ExtensionHandler, GROUP, VERSION};

/// Seconds that Discovery may take (RH-4.6).
const DISCOVERY_TIMEOUT: u32 = 10;

/// Bytes of a URL. The URLs of handlers add to it, and an [`Uri`] has 64 KiB at most.
const LONGEST: usize = 4 << 10;

/// An error in the URL of an extension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("must be a URL such as https://localhost:9443/base")]
    NotAUrl,
    #[error("must begin with https://: extensions are called over HTTPS only")]
    NotHttps,
    #[error("must have at most {LONGEST} bytes")]
    TooLong,
    #[error("must have neither a user name nor a fragment")]
    NotPlain,
    #[error("the port must be a number up to 65535")]
    Port,
    #[error("two hexadecimal digits must follow each %")]
    Percent,
}

/// The base URL of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    authority: String,
    /// Segments of the path, none of them empty, `.` or `..`.
    segments: Vec<String>,
    query: Option<String>,
}

/// The URL and the timeout of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTarget {
    uri: Uri,
    timeout_seconds: u32,
}

impl CallTarget {
    /// The URL.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The timeout of the whole call.
    pub fn timeout_seconds(&self) -> u32 {
        self.timeout_seconds
    }
}

impl BaseUrl {
    /// Parses a URL (RH-4.1, RH-4.2).
    ///
    /// # Errors
    /// When it is not an HTTPS URL, or has unsupported parts.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        if url.len() > LONGEST {
            return Err(AddressError::TooLong);
        }
        let uri: Uri = url.parse().map_err(|_| AddressError::NotAUrl)?;
        let authority = uri.authority().filter(|_| uri.scheme().is_some());
        let authority = authority.ok_or(AddressError::NotAUrl)?;
        if uri.scheme_str() != Some("https") {
            return Err(AddressError::NotHttps);
        }
        if authority.as_str().contains('@') || url.contains('#') {
            return Err(AddressError::NotPlain);
        }
        let has_port =
            authority.as_str().rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.ends_with(']'));
        if has_port && authority.port_u16().is_none() {
            return Err(AddressError::Port);
        }
        let is_encoded = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if !uri.path().split('%').skip(1).all(is_encoded) {
            return Err(AddressError::Percent);
        }
        let query = uri.query().filter(|query| !query.is_empty()).map(str::to_owned);
        Ok(BaseUrl { authority: authority.to_string(), segments: cleaned(uri.path()), query })
    }

    /// The target of Discovery; its path has no handler (RH-4.3).
    pub fn discovery(&self) -> CallTarget {
        self.target("Discovery", None, DISCOVERY_TIMEOUT)
    }

    /// The target of a call of a handler (RH-4.3, RH-4.4).
    pub fn handler(&self, handler: &ExtensionHandler) -> CallTarget {
        self.target(handler.hook(), Some(handler.name()), handler.timeout_seconds())
    }

    fn target(&self, hook: &str, handler: Option<&str>, timeout_seconds: u32) -> CallTarget {
        let hook = hook.to_lowercase();
        let segments = self.segments.iter().map(String::as_str).chain([GROUP, VERSION, &hook]).chain(handler);
        let path: String = segments.map(|segment| format!("/{segment}")).collect();
        let query = self.query.iter().map(|query| format!("{query}&")).collect::<String>();
        // The query has the timeout as a duration of Go (RH-4.5).
        let uri = format!("https://{}{path}?{query}timeout={timeout_seconds}s", self.authority);
        let uri = uri.parse().expect("its authority and path were parsed, and names of handlers are DNS labels");
        CallTarget { uri, timeout_seconds }
    }
}

/// The segments of a path without empty ones, `.` and `..`.
fn cleaned(path: &str) -> Vec<String> {
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other.to_owned()),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use serde_json::value::RawValue;

    use super::super::Registration;
    use super::*;

    const PATH: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

    fn called(base: &str, timeout: i32) -> CallTarget {
        let hook = json!({"apiVersion": PATH, "hook": "GeneratePatches"});
        let handlers = json!([{"name": "my-patch", "requestHook": hook, "timeoutSeconds": timeout}]);
        let raw = RawValue::from_string(json!({"status": "Success", "handlers": handlers}).to_string()).unwrap();
        let registration = Registration::from_discovery("ext", &raw, BTreeMap::new()).unwrap();
        BaseUrl::parse(base).unwrap().handler(registration.handler("my-patch", "GeneratePatches").unwrap())
    }

    #[test]
    fn the_path_names_group_version_hook_and_handler() {
        // RH-4.3, RH-4.4
        for (base, path) in [
            ("https://host", ""),
            ("https://host/", ""),
            ("https://host:9443/ext", "/ext"),
            ("https://host/a//b/./c/../d/", "/a/b/d"),
            ("https://[::1]:9443/..", ""),
        ] {
            let (address, target) = (BaseUrl::parse(base).unwrap(), called(base, 5));
            assert_eq!(address.discovery().uri().path(), format!("{path}/{PATH}/discovery"), "{base}");
            assert_eq!(target.uri().path(), format!("{path}/{PATH}/generatepatches/my-patch"), "{base}");
            assert_eq!(target.uri().authority(), base.parse::<Uri>().unwrap().authority());
        }
    }

    #[test]
    fn the_query_has_the_timeout() {
        // RH-4.5, RH-4.6
        let discovery = BaseUrl::parse("https://host").unwrap().discovery();
        assert_eq!((discovery.uri().query(), discovery.timeout_seconds()), (Some("timeout=10s"), 10));
        let handler = called("https://host?a=b", 5);
        assert_eq!((handler.uri().query(), handler.timeout_seconds()), (Some("a=b&timeout=5s"), 5));
        assert_eq!(called("https://host", 0).uri().query(), Some("timeout=10s"));
    }

    #[test]
    fn only_plain_https_urls_are_accepted() {
        // RH-4.1, RH-4.2, DEC-45
        let error = |url: &str| BaseUrl::parse(url).unwrap_err();
        assert_eq!(error("http://localhost:9443"), AddressError::NotHttps);
        assert_eq!(error("ftp://host"), AddressError::NotHttps);
        for url in ["", "host", "/path", "https://", "https:// host", "https://host/a b"] {
            assert_eq!(error(url), AddressError::NotAUrl);
        }
        let long = |bytes: usize| format!("https://h/{}", "x".repeat(bytes - "https://h/".len()));
        assert_eq!(error(&long(LONGEST + 1)), AddressError::TooLong);
        assert!(BaseUrl::parse(&long(LONGEST)).unwrap().discovery().uri().path().len() > LONGEST);
        for url in ["https://a:x", "https://a:70000"] {
            assert_eq!(error(url), AddressError::Port, "{url}");
        }
        for url in ["https://a/%zz", "https://a/%4", "https://a/%C3%A9/%"] {
            assert_eq!(error(url), AddressError::Percent, "{url}");
        }
        for url in ["https://a/%C3%A9", "https://[::1]", "https://[::1]:1"] {
            assert!(BaseUrl::parse(url).is_ok(), "{url}");
        }
        for url in ["https://user@host", "https://user:secret@host", "https://host#part"] {
            assert_eq!(error(url), AddressError::NotPlain, "{url}");
        }
    }
}
