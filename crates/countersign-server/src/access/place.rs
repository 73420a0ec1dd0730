//! From where a request may come: the names this server has, and the origins whose pages may call it.
//!
//! A page that a browser loaded from elsewhere can send requests here, and a name that an attacker controls can be
//! made to lead here (DNS rebinding). Both announce themselves: by `Origin` and by `Host`. A client that is no browser
//! sends no origin.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, header};

use crate::links::CONSOLE_HOST;
use crate::refusal::Refusal;

/// The names and origins that are ours.
pub(crate) struct Places {
    listening: IpAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Places {
    pub(crate) fn new(listening: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { listening: listening.ip(), hosts: lower(hosts), origins: lower(origins) }
    }

    /// Refuses what comes from elsewhere.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(header::HOST).iter();
        // Whoever stands before us may go by another of two names than we do.
        let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
        let Some(host) = host.filter(|host| self.is_ours(host)) else {
            let detail = "the Host header names another server; add its name to `hosts` if it is one of ours";
            return Err(Refusal::forbidden("foreign_host", detail));
        };
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = text(Some(origin)).unwrap_or_default();
            let own = origin.split_once("://").is_some_and(|(scheme, authority)| {
                matches!(scheme, "http" | "https") && authority.eq_ignore_ascii_case(host)
            });
            if !own && !self.origins.contains(&origin) {
                let detail =
                    "pages of another origin may not call this server; add it to `origins` if it may";
                return Err(Refusal::forbidden("foreign_origin", detail));
            }
        }
        // A link that is clicked elsewhere shows a page here, and changes nothing; everything else of theirs is refused.
        let is = |name: &str, value: &str| headers.get(name).is_some_and(|it| it == value);
        let clicked = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
        if is("sec-fetch-site", "cross-site") && !clicked && !headers.contains_key(header::ORIGIN) {
            return Err(Refusal::forbidden("foreign_origin", "another site's page may not call this server"));
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = name_of(host);
        let is = |ours: &String| ours.eq_ignore_ascii_case(host) || ours.eq_ignore_ascii_case(name);
        if self.hosts.iter().any(is) {
            return true;
        }
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // An address cannot be rebound; where we listen on every one, each is ours.
            Ok(address) => {
                address.is_loopback() && reaches_loopback(self.listening)
                    || address == self.listening
                    || self.listening.is_unspecified()
            }
            Err(_) => {
                let is_local = |ours: &str| name.eq_ignore_ascii_case(ours);
                (is_local("localhost") || is_local(CONSOLE_HOST)) && reaches_loopback(self.listening)
            }
        }
    }
}

/// Whether a host, with or without a port, is this machine's own name for itself.
pub(crate) fn is_loopback(host: &str) -> bool {
    let name = name_of(host).trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

fn reaches_loopback(listening: IpAddr) -> bool {
    listening.is_loopback() || listening.is_unspecified()
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        // What is left of the colon of an IPv6 address without a port has an open bracket.
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains('[') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn text(value: Option<&HeaderValue>) -> Option<String> {
    value.and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listening: &str, host: &str, origin: Option<&'static str>) -> bool {
        let places = Places::new(
            listening.parse().unwrap(),
            &["Gate.example.com".to_owned()],
            &["https://tools.example.com".to_owned()],
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        places.check(&headers).is_ok()
    }

    #[test]
    fn a_loopback_server_has_loopback_names_and_those_that_were_configured() {
        for ours in [
            "127.0.0.1:7420",
            "localhost:7420",
            "LOCALHOST",
            "[::1]:7420",
            "[::1]",
            "gate.example.com",
            "gate.example.com:443",
        ] {
            assert!(check("127.0.0.1:7420", ours, None), "{ours}");
        }
        for foreign in [
            "evil.example",
            "evil.example:7420",
            "10.0.0.1:7420",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!check("127.0.0.1:7420", foreign, None), "{foreign}");
        }
    }

    #[test]
    fn a_link_on_another_site_may_be_clicked_and_nothing_else_comes_from_there() {
        let places = Places::new("127.0.0.1:7420".parse().unwrap(), &[], &[]);
        let check = |mode: &'static str, dest: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:7420"));
            headers.insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
            headers.insert("sec-fetch-mode", HeaderValue::from_static(mode));
            headers.insert("sec-fetch-dest", HeaderValue::from_static(dest));
            places.check(&headers).is_ok()
        };
        assert!(check("navigate", "document"));
        for (mode, dest) in [("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty")] {
            assert!(!check(mode, dest), "{mode} {dest}");
        }
    }

    #[test]
    fn loopback_is_this_machine_and_no_name_that_looks_like_it() {
        for ours in [
            "127.0.0.1",
            "127.0.0.1:7420",
            "[::1]:7420",
            "[::1]",
            "Localhost:1",
            "countersign.localhost:7420",
        ] {
            assert!(is_loopback(ours), "{ours}");
        }
        for other in
            ["", "10.0.0.1", "0.0.0.0", "localhost.example.com", "127.0.0.1.example.com:80", "notlocalhost"]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn a_server_on_one_address_is_not_reached_by_another_name() {
        assert!(check("10.0.0.5:80", "10.0.0.5", None));
        assert!(!check("10.0.0.5:80", "localhost", None));
        assert!(!check("10.0.0.5:80", "10.0.0.6", None));
        assert!(check("0.0.0.0:80", "10.0.0.6", None), "any of its addresses");
        assert!(!check("0.0.0.0:80", "evil.example", None), "a name may be rebound");
    }

    #[test]
    fn only_the_servers_own_pages_and_configured_ones_may_call() {
        let at = |origin| check("127.0.0.1:7420", "127.0.0.1:7420", Some(origin));
        assert!(at("http://127.0.0.1:7420"));
        assert!(at("https://tools.example.com"));
        for foreign in [
            "null",
            "",
            "http://127.0.0.1:3000",
            "http://localhost:7420",
            "https://evil.example",
            "file://127.0.0.1:7420",
            "http://127.0.0.1:7420.evil.example",
        ] {
            assert!(!at(foreign), "{foreign}");
        }
    }
}
