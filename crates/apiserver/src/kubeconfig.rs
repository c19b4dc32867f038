//! The kubeconfig of an API: its address, its CA certificate, and its token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::http::front::BearerToken;

/// A kubeconfig with one context for the namespace `default`.
///
/// `name` names cluster, user and context; `server` is the URL of the API; `authority` is a CA certificate in PEM form.
pub fn text(name: &str, server: &str, authority: &str, token: &BearerToken) -> String {
    // A name such as 1e3 must not become a number.
    let name = json!(name);
    let (authority, token) = (STANDARD.encode(authority), token.reveal());
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {authority}\nusers:\n- name: {name}\n  user:\n    token: {token}\ncontexts:\n\
         - name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n    namespace: default\n\
         current-context: {name}\n"
    )
}

/// The URL of a listener for local clients.
pub fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_names_an_address_that_can_be_reached() {
        for (address, want) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("0.0.0.0:7443", "https://127.0.0.1:7443"),
            ("[::1]:6443", "https://[::1]:6443"),
            ("[::]:6443", "https://[::1]:6443"),
        ] {
            assert_eq!(url(address.parse().unwrap()), want);
        }
        let token = BearerToken::generate().unwrap();
        let file = text("1e3", "https://127.0.0.1:6443/clusters/ns/1e3", "authority", &token);
        let config = kube::config::Kubeconfig::from_yaml(&file).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443/clusters/ns/1e3"));
        assert_eq!(config.current_context.as_deref(), Some("1e3"));
        assert_eq!(config.contexts[0].context.as_ref().unwrap().namespace.as_deref(), Some("default"));
        assert_ne!(token.reveal(), BearerToken::generate().unwrap().reveal());
    }
}
