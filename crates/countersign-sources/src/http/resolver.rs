//! Names resolved under the guard: a connection is made only to an address that passed.
//!
//! The check stands between resolving and connecting, so that a name cannot answer with one address for the check and
//! another for the connection (DNS rebinding).

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::http::address::{AddressPolicy, AddressRefused};

/// A resolver that hands out permitted addresses only.
pub(super) struct GuardedResolver {
    pub(super) policy: Arc<AddressPolicy>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.policy);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let permitted = permitted(&policy, name.as_str(), found)?;
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}

/// Checks the host of a URL where it is an address, in whatever spelling: the parser has made it one. Such hosts never
/// reach the resolver.
pub(super) fn check_literal(policy: &AddressPolicy, url: &Url) -> Result<(), AddressRefused> {
    let Some(host) = url.host_str() else { return Ok(()) };
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => policy.check(host, address),
        Err(_) => Ok(()),
    }
}

/// The permitted ones of the addresses that were found; an error if there are none but refused ones.
fn permitted(
    policy: &AddressPolicy,
    name: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, AddressRefused> {
    let mut permitted = Vec::new();
    let mut refused = None;
    for address in found {
        match policy.check(name, address.ip()) {
            Ok(()) => permitted.push(address),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if permitted.is_empty() => Err(error),
        _ => Ok(permitted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_checked_in_whatever_spelling() {
        let policy = AddressPolicy::default();
        for host in [
            "127.0.0.1",
            "[::ffff:127.0.0.1]",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "0.0.0.0",
            "[::]",
            "127.0.0.1.",
            "0xa9fea9fe",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::169.254.169.254]",
            "１２７.0.0.1",
        ] {
            let url = Url::parse(&format!("http://{host}/")).unwrap();
            assert!(check_literal(&policy, &url).is_err(), "{host} became {url}");
        }
        assert!(check_literal(&policy, &Url::parse("http://1.1.1.1/").unwrap()).is_ok());
    }

    #[test]
    fn of_several_addresses_only_the_permitted_ones_are_used() {
        let addresses = |texts: &[&str]| {
            let parsed: Vec<SocketAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
            permitted(&AddressPolicy::default(), "rebound.example", parsed.into_iter())
        };
        assert_eq!(addresses(&["1.1.1.1:0", "10.0.0.1:0"]).unwrap(), ["1.1.1.1:0".parse().unwrap()]);
        assert_eq!(addresses(&["10.0.0.1:0"]).unwrap_err().host, "rebound.example");
        assert_eq!(addresses(&[]).unwrap(), []);
    }
}
