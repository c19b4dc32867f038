//! Kubeconfigs of workload clusters, which tenants control (DEC-40).
//!
//! Such a file may name an address, an authority and credentials, all inline. It may not make this process run a
//! program, read a file, go through a proxy, or accept a server without checking its certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Map, Value, json};

use golang::yaml;

/// Why a kubeconfig is not used. No variant holds a value of the file: values may be credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KubeconfigError {
    #[error("it is not valid UTF-8")]
    NotText,
    #[error("it is not valid YAML at line {0}")]
    NotYaml(usize),
    #[error("it has no {0} with the referenced name")]
    Missing(&'static str),
    #[error("{0} has the wrong type")]
    WrongType(&'static str),
    #[error("{field} is not allowed: {instead}")]
    NotAllowed { field: &'static str, instead: &'static str },
    #[error("server must be an https URL without credentials")]
    Server,
    #[error("certificate-authority-data is required")]
    NoAuthority,
    #[error("certificate-authority-data must be base64-encoded PEM certificates")]
    Authority,
    #[error("it has neither a token nor client-certificate-data and client-key-data")]
    NoCredentials,
    #[error("client-certificate-data and client-key-data must be set together")]
    HalfCertificate,
}

const INLINE: &str = "put its content into the field with the suffix -data";
const CREDENTIALS: &str = "use client-certificate-data and client-key-data, or token";

/// Fields that an entry for a cluster may not have.
const REFUSED_OF_CLUSTER: [(&str, &str); 3] = [
    ("certificate-authority", INLINE),
    ("insecure-skip-tls-verify", "set certificate-authority-data"),
    ("proxy-url", "proxies are not supported"),
];

/// Fields that an entry for a user may not have.
const REFUSED_OF_USER: [(&str, &str); 11] = [
    ("exec", "external programs are not run"),
    ("auth-provider", CREDENTIALS),
    ("tokenFile", "set token"),
    ("client-certificate", INLINE),
    ("client-key", INLINE),
    ("username", CREDENTIALS),
    ("password", CREDENTIALS),
    ("as", "impersonation is not supported"),
    ("as-uid", "impersonation is not supported"),
    ("as-groups", "impersonation is not supported"),
    ("as-user-extra", "impersonation is not supported"),
];

/// Reads the current context of a kubeconfig.
///
/// # Errors
/// When it is not a kubeconfig, or uses refused fields.
pub(super) fn read(bytes: &[u8]) -> Result<kube::Config, KubeconfigError> {
    let text = std::str::from_utf8(bytes).map_err(|_| KubeconfigError::NotText)?;
    let file = yaml::value(text).map_err(|error| KubeconfigError::NotYaml(error.line))?;
    let current = file.get("current-context").and_then(Value::as_str).unwrap_or_default();
    let context = entry(&file, "contexts", "context", current)?;
    let cluster = entry(&file, "clusters", "cluster", text_of(context, "cluster")?.unwrap_or_default())?;
    let user = entry(&file, "users", "user", text_of(context, "user")?.unwrap_or_default())?;
    refuse(cluster, &REFUSED_OF_CLUSTER)?;
    refuse(user, &REFUSED_OF_USER)?;
    let mut config = kube::Config::new(server(text_of(cluster, "server")?.unwrap_or_default())?);
    config.root_cert = Some(authority(text_of(cluster, "certificate-authority-data")?)?);
    config.tls_server_name = text_of(cluster, "tls-server-name")?.map(str::to_owned);
    config.auth_info = serde_json::from_value(credentials(user)?).map_err(|_| KubeconfigError::WrongType("user"))?;
    // Callers retry on their own.
    config.default_retry = false;
    Ok(config)
}

/// The entry of a list of named entries.
fn entry<'a>(
    file: &'a Value,
    list: &str,
    of: &'static str,
    name: &str,
) -> Result<&'a Map<String, Value>, KubeconfigError> {
    let entries = file.get(list).and_then(Value::as_array).into_iter().flatten();
    let is_it = |entry: &&Value| !name.is_empty() && entry.get("name").and_then(Value::as_str) == Some(name);
    let found = entries.into_iter().find(is_it).and_then(|entry| entry.get(of));
    found.ok_or(KubeconfigError::Missing(of))?.as_object().ok_or(KubeconfigError::WrongType(of))
}

/// Fails for the first refused field with a value: `false`, empty and null count as none.
fn refuse(entry: &Map<String, Value>, refused: &[(&'static str, &'static str)]) -> Result<(), KubeconfigError> {
    let is_none = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match refused.iter().find(|(field, _)| entry.get(*field).is_some_and(|value| !is_none(value))) {
        Some(&(field, instead)) => Err(KubeconfigError::NotAllowed { field, instead }),
        None => Ok(()),
    }
}

/// A text that is not empty.
fn text_of<'a>(entry: &'a Map<String, Value>, field: &'static str) -> Result<Option<&'a str>, KubeconfigError> {
    match entry.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(&**text).filter(|text| !text.is_empty())),
        Some(_) => Err(KubeconfigError::WrongType(field)),
    }
}

fn server(text: &str) -> Result<Uri, KubeconfigError> {
    let uri: Uri = text.parse().map_err(|_| KubeconfigError::Server)?;
    let has_credentials = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    let is_plain = uri.scheme_str() == Some("https") && !has_credentials && uri.query().is_none();
    if is_plain { Ok(uri) } else { Err(KubeconfigError::Server) }
}

fn authority(data: Option<&str>) -> Result<Vec<Vec<u8>>, KubeconfigError> {
    let pem = STANDARD.decode(data.ok_or(KubeconfigError::NoAuthority)?).map_err(|_| KubeconfigError::Authority)?;
    let certificates = CertificateDer::pem_slice_iter(&pem).map(|one| one.map(|one| one.as_ref().to_vec()));
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|_| KubeconfigError::Authority)?;
    if certificates.is_empty() { Err(KubeconfigError::Authority) } else { Ok(certificates) }
}

/// The supported credentials of a user, in the form of a kubeconfig.
fn credentials(user: &Map<String, Value>) -> Result<Value, KubeconfigError> {
    let token = text_of(user, "token")?;
    let (certificate, key) = (text_of(user, "client-certificate-data")?, text_of(user, "client-key-data")?);
    match (token, certificate, key) {
        (None, None, None) => Err(KubeconfigError::NoCredentials),
        (_, Some(_), None) | (_, None, Some(_)) => Err(KubeconfigError::HalfCertificate),
        _ => Ok(json!({"token": token, "client-certificate-data": certificate, "client-key-data": key})),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use tls::authority::IssuedCertificate;

    /// A kubeconfig that is used, to change it.
    fn good() -> Value {
        static GOOD: LazyLock<Value> = LazyLock::new(make_good);
        GOOD.clone()
    }

    fn make_good() -> Value {
        let issued = IssuedCertificate::generate(&["localhost".to_owned()], 1).unwrap();
        let user = json!({"client-certificate-data": STANDARD.encode(&issued.certificate),
            "client-key-data": STANDARD.encode(&issued.key)});
        let authority = STANDARD.encode(&issued.authority);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here", "preferences": {},
            "contexts": [{"name": "there", "context": {}}, {"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://localhost:6443/prefix",
                "certificate-authority-data": authority}}],
            "users": [{"name": "v", "user": {"exec": {"command": "sh"}}}, {"name": "u", "user": user}],
        })
    }

    fn with(pointer: &str, field: &str, value: Value) -> Value {
        let mut file = good();
        file.pointer_mut(pointer).unwrap().as_object_mut().unwrap().insert(field.to_owned(), value);
        file
    }

    fn refusal(file: &Value) -> String {
        let error = read(file.to_string().as_bytes()).unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
        error
    }

    #[test]
    fn inline_certificates_and_tokens_are_used() {
        let config = read(good().to_string().as_bytes()).unwrap();
        assert_eq!(config.cluster_url, "https://localhost:6443/prefix");
        assert_eq!(config.root_cert.map(|all| all.len()), Some(1));
        assert!(config.auth_info.client_certificate_data.is_some() && config.auth_info.token.is_none());
        assert!(config.proxy_url.is_none() && !config.accept_invalid_certs && !config.default_retry);
        let token = json!([{"name": "u", "user": {"token": "s3cret"}}]);
        let config = read(with("", "users", token).to_string().as_bytes()).unwrap();
        assert!(config.auth_info.client_certificate_data.is_none() && config.auth_info.token.is_some());
        assert!(!format!("{config:?}").contains("s3cret"), "credentials are not shown");
    }

    #[test]
    fn every_form_that_reaches_beyond_the_file_is_refused() {
        // DEC-40
        let (cluster, user) = ("/clusters/0/cluster", "/users/1/user");
        for (pointer, field, value) in [
            (cluster, "certificate-authority", json!("/etc/s3cret")),
            (cluster, "insecure-skip-tls-verify", json!(true)),
            (cluster, "insecure-skip-tls-verify", json!("false ")),
            (cluster, "proxy-url", json!("http://s3cret@proxy")),
            (user, "exec", json!({"command": "s3cret"})),
            (user, "exec", json!({})),
            (user, "auth-provider", json!({"name": "oidc", "config": {"id-token": "s3cret"}})),
            (user, "tokenFile", json!("/var/run/s3cret")),
            (user, "client-certificate", json!("/etc/s3cret")),
            (user, "client-key", json!("/etc/s3cret")),
            (user, "username", json!("s3cret")),
            (user, "password", json!("s3cret")),
            (user, "as", json!("s3cret")),
            (user, "as-uid", json!("s3cret")),
            (user, "as-groups", json!(["s3cret"])),
            (user, "as-user-extra", json!({"a": ["s3cret"]})),
        ] {
            let error = refusal(&with(pointer, field, value));
            assert!(error.starts_with(&format!("{field} is not allowed: ")), "{error}");
        }
        for nothing in [json!(null), json!(""), json!(false)] {
            assert!(read(with(cluster, "proxy-url", nothing).to_string().as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_malformed_kubeconfig_gives_a_reason() {
        // DEC-40
        let (cluster, user) = ("/clusters/0/cluster", "/users/1/user");
        for (file, want) in [
            (with("", "current-context", json!("")), KubeconfigError::Missing("context")),
            (with("", "current-context", json!("s3cret")), KubeconfigError::Missing("context")),
            (with("", "clusters", json!([])), KubeconfigError::Missing("cluster")),
            (with("", "users", json!([{"name": "u", "user": "s3cret"}])), KubeconfigError::WrongType("user")),
            (with("/contexts/1/context", "user", json!(5)), KubeconfigError::WrongType("user")),
            (with(cluster, "server", json!("")), KubeconfigError::Server),
            (with(cluster, "server", json!("http://localhost")), KubeconfigError::Server),
            (with(cluster, "server", json!("localhost:6443")), KubeconfigError::Server),
            (with(cluster, "server", json!("https://me:s3cret@localhost")), KubeconfigError::Server),
            (with(cluster, "server", json!("https://localhost?s3cret")), KubeconfigError::Server),
            (with(cluster, "server", json!("unix:///run/s3cret")), KubeconfigError::Server),
            (with(cluster, "server", json!(5)), KubeconfigError::WrongType("server")),
            (with(cluster, "certificate-authority-data", json!(null)), KubeconfigError::NoAuthority),
            (with(cluster, "certificate-authority-data", json!("s3cret")), KubeconfigError::Authority),
            (with(cluster, "certificate-authority-data", json!("czNjcmV0")), KubeconfigError::Authority),
            (with(user, "client-key-data", json!("")), KubeconfigError::HalfCertificate),
            (with(user, "client-certificate-data", json!(null)), KubeconfigError::HalfCertificate),
            (with(user, "client-key-data", json!(["s3cret"])), KubeconfigError::WrongType("client-key-data")),
            (with("", "users", json!([{"name": "u", "user": {}}])), KubeconfigError::NoCredentials),
            (json!(["s3cret"]), KubeconfigError::Missing("context")),
        ] {
            assert_eq!(refusal(&file), want.to_string(), "{file}");
        }
        assert_eq!(read(b"\xff").unwrap_err(), KubeconfigError::NotText);
        assert_eq!(read(b"a: 1\nb: - s3cret\n").unwrap_err(), KubeconfigError::NotYaml(2));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
        #[test]
        fn no_kubeconfig_makes_the_reader_panic(text in "\\PC*", field in "[a-z-]{1,30}", value in "\\PC*") {
            let _ = read(text.as_bytes());
            for pointer in ["", "/contexts/1/context", "/clusters/0/cluster", "/users/1/user"] {
                let _ = read(with(pointer, &field, json!(value)).to_string().as_bytes());
            }
        }
    }
}
