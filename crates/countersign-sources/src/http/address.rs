//! Which addresses a source may be at: a pure check on one IP address.
//!
//! Promise: an address is permitted only if it is global unicast, or the operator opened it. An IPv6 address that
//! carries an IPv4 address (mapped, compatible, NAT64, 6to4) is judged by the IPv4 address it leads to. Metadata services
//! hand out credentials to whoever reaches them: they are refused unless the operator named exactly that address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// What the operator opened for one source beyond global addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Whether private addresses are permitted, whatever name leads to them.
    pub private: PrivateAddresses,
    /// Host names that may resolve to private addresses. Compared without case and without a final dot.
    pub hosts: Vec<String>,
    /// Networks that are permitted although they are not global.
    pub networks: Vec<IpNet>,
}

/// Whether a source may be at loopback and private addresses (`allow_private`). Never opens link-local ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrivateAddresses {
    /// Only those the operator named.
    #[default]
    Refuse,
    /// Loopback, private, carrier-grade NAT and unique-local addresses.
    Permit,
}

/// What kind of address it is, as far as a guard cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// Reachable from anywhere.
    Global,
    /// Loopback, private, carrier-grade NAT or unique-local.
    Private,
    /// Link-local, multicast, unspecified, reserved: nothing that a service is at.
    Special,
    /// A cloud's metadata service.
    Metadata,
}

/// Why an address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is at {address}, a {} address; {}", kind.adjective(), kind.advice())]
pub struct AddressRefused {
    /// The name or literal in the URL.
    pub host: String,
    /// The address it leads to.
    pub address: IpAddr,
    /// Its kind.
    pub kind: AddressKind,
}

impl AddressPolicy {
    /// Checks one address that `host` leads to.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), AddressRefused> {
        let effective = embedded_v4(address).map_or(address, IpAddr::V4);
        let kind = kind_of(effective);
        let permitted = match kind {
            AddressKind::Global => true,
            AddressKind::Private => {
                self.private == PrivateAddresses::Permit || self.names(host) || self.covers(effective)
            }
            AddressKind::Special => self.covers(effective),
            AddressKind::Metadata => self.names_exactly(effective),
        };
        if permitted { Ok(()) } else { Err(AddressRefused { host: host.to_owned(), address, kind }) }
    }

    fn names(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.');
        self.hosts.iter().any(|named| named.trim_end_matches('.').eq_ignore_ascii_case(host))
    }

    fn covers(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    fn names_exactly(&self, address: IpAddr) -> bool {
        self.networks
            .iter()
            .any(|network| network.prefix_len() == network.max_prefix_len() && network.addr() == address)
    }
}

impl AddressKind {
    fn adjective(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Private => "private",
            Self::Special => "link-local or reserved",
            Self::Metadata => "metadata service",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Private => {
                "if that is intended, name it with allow_hosts or allow_networks, or set allow_private"
            }
            _ => "sources are never reached there",
        }
    }
}

/// The kind of an address that carries no other one.
fn kind_of(address: IpAddr) -> AddressKind {
    if METADATA_V4.iter().any(|known| *known == address) || METADATA_V6.iter().any(|known| *known == address)
    {
        return AddressKind::Metadata;
    }
    match address {
        IpAddr::V4(v4) => kind_of_v4(v4),
        IpAddr::V6(v6) => kind_of_v6(v6),
    }
}

/// AWS, GCP, Azure, DigitalOcean and others; ECS tasks; EKS pods; Alibaba; Azure's wire server; Oracle.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
/// AWS, EKS pods, GCP: in the unique-local range that `allow_private` opens.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

fn kind_of_v4(v4: Ipv4Addr) -> AddressKind {
    let [a, b, c, _] = v4.octets();
    let is_carrier_grade_nat = a == 100 && b & 0xc0 == 64;
    let is_reserved = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && b & 0xfe == 18);
    if v4.is_loopback() || v4.is_private() || is_carrier_grade_nat {
        AddressKind::Private
    } else if v4.is_link_local() || v4.is_multicast() || v4.is_documentation() || is_reserved {
        AddressKind::Special
    } else {
        AddressKind::Global
    }
}

fn kind_of_v6(v6: Ipv6Addr) -> AddressKind {
    let segments = v6.segments();
    let is_global_unicast = segments[0] & 0xe000 == 0x2000;
    // 2001::/23 holds Teredo, ORCHID and benchmarking: tunnels and test ranges, not services.
    let is_assigned_apart = segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8);
    let is_documentation = segments[0] == 0x3fff && segments[1] < 0x1000;
    if v6.is_loopback() || v6.is_unique_local() {
        AddressKind::Private
    } else if is_global_unicast && !is_assigned_apart && !is_documentation {
        AddressKind::Global
    } else {
        AddressKind::Special
    }
}

/// The IPv4 address that an IPv6 address leads to.
fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let segments = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // Mapped (::ffff:0:0/96), translated (::ffff:0:0:0/96) and compatible (::/96).
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        // NAT64, well known (64:ff9b::/96) and local (64:ff9b:1::/48, here with a /96 prefix).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => Some(v4(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(policy: &AddressPolicy, address: &str) -> bool {
        policy.check("api.example.com", address.parse().unwrap()).is_err()
    }

    const PRIVATE: &[&str] = &[
        "127.0.0.1",
        "127.255.255.255",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "::1",
        "fc00::1",
        "fdff::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
    ];
    const SPECIAL: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "169.254.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.19.255.255",
        "::",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "100::1",
        "::ffff:169.254.1.1",
        "64:ff9b::a9fe:101",
        "2002:a9fe:101::",
        "64:ff9b:1::a9fe:101",
    ];
    const METADATA: &[&str] = &[
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "::169.254.169.254",
    ];
    const GLOBAL: &[&str] = &[
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "198.17.255.255",
        "198.20.0.1",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::",
    ];

    #[test]
    fn by_default_only_global_addresses_are_permitted() {
        let policy = AddressPolicy::default();
        for address in [PRIVATE, SPECIAL, METADATA].concat() {
            assert!(refused(&policy, address), "{address}");
        }
        for address in GLOBAL {
            assert!(!refused(&policy, address), "{address}");
        }
    }

    #[test]
    fn allow_private_opens_private_addresses_and_never_link_local_or_metadata() {
        let policy = AddressPolicy { private: PrivateAddresses::Permit, ..AddressPolicy::default() };
        for address in PRIVATE {
            assert!(!refused(&policy, address), "{address}");
        }
        for address in [SPECIAL, METADATA].concat() {
            assert!(refused(&policy, address), "{address}");
        }
    }

    #[test]
    fn a_named_host_may_be_private_and_nothing_else() {
        let policy = AddressPolicy { hosts: vec!["Intranet.example.".into()], ..AddressPolicy::default() };
        let check = |host: &str, address: &str| policy.check(host, address.parse().unwrap()).is_ok();
        assert!(check("intranet.EXAMPLE", "10.1.2.3"));
        assert!(!check("intranet.example.com", "10.1.2.3"));
        assert!(!check("intranet.example", "169.254.1.1"));
        assert!(!check("intranet.example", "169.254.169.254"));
    }

    #[test]
    fn a_named_network_opens_itself_and_metadata_only_by_its_exact_address() {
        let policy = |network: &str| AddressPolicy {
            networks: vec![network.parse().unwrap()],
            ..AddressPolicy::default()
        };
        assert!(!refused(&policy("10.0.0.0/8"), "10.9.9.9"));
        assert!(!refused(&policy("10.0.0.0/8"), "::ffff:10.9.9.9"));
        assert!(refused(&policy("10.0.0.0/8"), "192.168.0.1"));
        assert!(!refused(&policy("169.254.1.0/24"), "169.254.1.1"));
        assert!(refused(&policy("169.254.0.0/16"), "169.254.169.254"));
        assert!(!refused(&policy("169.254.169.254/32"), "169.254.169.254"));
    }
}
