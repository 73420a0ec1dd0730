//! How a source may be reached, from its configuration: which addresses, through which proxy, and what a started program is
//! told of its folders.
//!
//! Promise: what cannot be used is refused when the source is configured, not at its first call.

use std::path::PathBuf;

use countersign_kernel::ports::{SourceConfig, SourceKind, SourcesError};
use ipnet::IpNet;
use url::Url;

use crate::http::{AddressPolicy, PrivateAddresses};
use crate::mcp::{Root, Roots};

/// Checks everything that a configuration says of how its source is reached.
pub(crate) fn check(config: &SourceConfig) -> Result<(), SourcesError> {
    addresses(config)?;
    proxy(config)?;
    roots(&config.kind)?;
    Ok(())
}

/// The addresses that the operator opened for a source.
pub(crate) fn addresses(config: &SourceConfig) -> Result<AddressPolicy, SourcesError> {
    let private = if config.allow_private { PrivateAddresses::Permit } else { PrivateAddresses::Refuse };
    if let Some(host) = config.allow_hosts.iter().find(|host| !is_host(host)) {
        return Err(bad(format!(
            "allow_hosts: {host:?} is no host name; write one such as intranet.example"
        )));
    }
    let network = |text: &String| -> Result<IpNet, SourcesError> {
        let no_network =
            || bad(format!("allow_networks: {text:?} is no network; write one such as 10.1.0.0/16"));
        let network: IpNet = text.parse().map_err(|_| no_network())?;
        // With bits of a host set, one network is written and another is meant.
        if network.network() == network.addr() { Ok(network) } else { Err(no_network()) }
    };
    let networks = config.allow_networks.iter().map(network).collect::<Result<_, _>>()?;
    Ok(AddressPolicy { private, hosts: config.allow_hosts.clone(), networks })
}

/// The proxy that the operator configured.
pub(crate) fn proxy(config: &SourceConfig) -> Result<Option<String>, SourcesError> {
    let Some(text) = &config.proxy else { return Ok(None) };
    match Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(bad("proxy must not contain a user or password"))
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Some(text.clone())),
        _ => Err(bad(format!("proxy: {text:?} is no URL; write one such as http://proxy.example:3128"))),
    }
}

/// The roots that an MCP server is told of.
pub(crate) fn roots(kind: &SourceKind) -> Result<Roots, SourcesError> {
    match kind {
        SourceKind::Mcp { roots, client_roots: true, .. } if !roots.is_empty() => Err(bad(
            "a source has either roots, the folders you name, or client_roots, those of the client that calls",
        )),
        SourceKind::Mcp { client_roots: true, .. } => Ok(Roots::Client),
        SourceKind::Mcp { roots, .. } => listed(roots).map(Roots::Listed),
        SourceKind::OpenApi { .. } | SourceKind::GraphQl { .. } => Ok(Roots::default()),
    }
}

/// The folders that a started program is told of.
fn listed(paths: &[PathBuf]) -> Result<Vec<Root>, SourcesError> {
    let root = |path: &PathBuf| match Url::from_file_path(path) {
        Ok(url) => Ok(Root { uri: url.into(), name: None }),
        Err(()) => Err(bad(format!("roots: {path:?} is no whole path; write one such as /srv/docs"))),
    };
    paths.iter().map(root).collect()
}

/// A name, or an address as a URL has it.
fn is_host(text: &str) -> bool {
    let is_name = text.chars().all(|c| c.is_alphanumeric() || "-._".contains(c));
    let is_written_so = |url: Url| url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(text));
    (is_name || text.starts_with('[')) && Url::parse(&format!("http://{text}/")).is_ok_and(is_written_so)
}

fn bad(problem: impl Into<String>) -> SourcesError {
    SourcesError::BadConfig(problem.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "settings are written where they are used")]
    fn of(more: Value) -> SourceConfig {
        let mut config = json!({ "name": "shop", "kind": "graphql", "url": "https://shop.example" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        SourceConfig::read(&config).unwrap()
    }

    #[test]
    fn hosts_and_networks_open_exactly_what_they_name() {
        let policy = addresses(&of(
            json!({ "allowHosts": ["db.lan"], "allowNetworks": ["10.1.0.0/16", "fd00:1::/32"] }),
        ));
        let policy = policy.unwrap();
        for (host, address, permitted) in [
            ("db.lan", "192.168.0.7", true),
            ("other.lan", "192.168.0.7", false),
            ("other.lan", "10.1.2.3", true),
            ("other.lan", "10.2.2.3", false),
            ("other.lan", "fd00:1::7", true),
            ("db.lan", "169.254.169.254", false),
        ] {
            assert_eq!(policy.check(host, address.parse().unwrap()).is_ok(), permitted, "{host} {address}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_and_named() {
        for (more, said) in [
            (json!({ "allowHosts": ["https://db.lan"] }), "no host name"),
            (json!({ "allowHosts": ["db.lan:80"] }), "no host name"),
            (json!({ "allowHosts": ["*.lan"] }), "no host name"),
            (json!({ "allowHosts": [""] }), "no host name"),
            (json!({ "allowNetworks": ["10.1"] }), "no network"),
            (json!({ "allowNetworks": ["10.1.2.3/16"] }), "no network"),
            (json!({ "proxy": "proxy.example:3128" }), "no URL"),
            (json!({ "proxy": "socks5://proxy.example" }), "no URL"),
            (json!({ "proxy": "http://me:secret@proxy.example" }), "user or password"),
        ] {
            let refused = check(&of(more.clone())).unwrap_err().to_string();
            assert!(refused.contains(said) && !refused.contains("secret"), "{more}: {refused}");
        }
        let command = json!({ "name": "files", "kind": "mcp", "command": ["x"], "roots": ["docs"] });
        let refused = check(&SourceConfig::read(&command).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("no whole path"), "{refused}");
        assert_eq!(listed(&["/srv/my docs".into()]).unwrap()[0].uri, "file:///srv/my%20docs");
        let both =
            json!({ "name": "f", "kind": "mcp", "command": ["x"], "roots": ["/srv"], "clientRoots": true });
        let refused = check(&SourceConfig::read(&both).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("either roots"), "{refused}");
    }
}
