//! What an operator may choose about the server, and its bounds.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::Sources;

use crate::links::Links;
use crate::{mcp, wire};

/// How the server behaves. The defaults are the safe ones.
#[derive(Clone)]
pub struct Options {
    /// The address people reach it at.
    pub links: Links,
    /// Names besides the listening address under which requests may come, such as `gate.example.com`.
    pub hosts: Vec<String>,
    /// Origins besides the server's own from which a browser may call, such as `https://tools.example.com`.
    pub origins: Vec<String>,
    /// What cookies are sealed with. Kept in the data folder, so that a person stays logged in over a restart.
    pub key: [u8; 32],
    /// How MCP behaves.
    pub mcp: mcp::Options,
    /// The bounds.
    pub limits: Limits,
    /// What `/api/configuration` tells admins.
    pub configuration: wire::Configuration,
    /// Where sources are managed; nothing for a server without sources.
    pub sources: Option<Arc<dyn Sources>>,
}

/// The server's bounds. At each of them the answer is a clear error.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest request body, in bytes.
    pub body_bytes: usize,
    /// The most connections at once. Those without a credential give way to new ones; where there are none, a new one is told so and
    /// closed.
    pub connections: usize,
    /// How many of them only people who decide may have.
    pub connections_for_people: usize,
    /// The most connections of one principal.
    pub connections_per_principal: usize,
    /// The most connections of one address on which nobody has proved a credential; past this, the oldest gives way.
    pub unproven_connections_per_address: usize,
    /// The most requests of one principal that are being answered at once.
    pub requests_at_once: usize,
    /// The most event streams of one principal.
    pub streams_per_principal: usize,
    /// The most requests a second with one credential.
    pub requests_per_second: NonZeroU32,
    /// The most wrong credentials a second from one address.
    pub failures_per_second: NonZeroU32,
    /// How long a new connection may take to send its first request's head.
    pub first_head: Duration,
    /// How long a client may take to send a request's head, and again its body; and how long a connection may lie idle.
    pub sending: Duration,
    /// How long a client may take nothing of what it is sent.
    pub receiving: Duration,
    /// The longest a request waits for an execution.
    pub wait: Duration,
    /// How long answers that are being given may take once the server stops.
    pub drain: Duration,
}

/// A call's arguments and a script's source stay far below this.
const BODY_BYTES: usize = 4 * 1024 * 1024;
const CONNECTIONS: usize = 4_096;
const CONNECTIONS_FOR_PEOPLE: usize = 512;
const CONNECTIONS_PER_PRINCIPAL: usize = 512;
/// Clients speak at once, so that this many wait only in a flood. A proxy has one address and proves credentials.
const UNPROVEN_CONNECTIONS_PER_ADDRESS: usize = 1_024;
/// Open files that are left to everything but connections.
const OTHER_OPEN_FILES: usize = 1_024;
const REQUESTS_AT_ONCE: usize = 256;
const STREAMS_PER_PRINCIPAL: usize = 64;
const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(20_000).unwrap();
const FAILURES_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).unwrap();
const FIRST_HEAD: Duration = Duration::from_secs(5);
const SENDING: Duration = Duration::from_secs(60);
const RECEIVING: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
const DRAIN: Duration = Duration::from_secs(10);

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: BODY_BYTES,
            connections: CONNECTIONS,
            connections_for_people: CONNECTIONS_FOR_PEOPLE,
            connections_per_principal: CONNECTIONS_PER_PRINCIPAL,
            unproven_connections_per_address: UNPROVEN_CONNECTIONS_PER_ADDRESS,
            requests_at_once: REQUESTS_AT_ONCE,
            streams_per_principal: STREAMS_PER_PRINCIPAL,
            requests_per_second: REQUESTS_PER_SECOND,
            failures_per_second: FAILURES_PER_SECOND,
            first_head: FIRST_HEAD,
            sending: SENDING,
            receiving: RECEIVING,
            wait: LONGEST_WAIT,
            drain: DRAIN,
        }
    }
}

impl Limits {
    /// The same bounds in a process that may have so many open files. Connections take at most half of them, or all but
    /// 1,024 where there are many: the store, scripts and sources need open files too, and without any left nobody gets in.
    #[must_use]
    pub fn within_open_files(self, open_files: usize) -> Self {
        let connections = open_files - (open_files / 2).min(OTHER_OPEN_FILES);
        if connections >= self.connections {
            return self;
        }
        let share = |bound: usize| (bound * connections / self.connections.max(1)).max(1);
        Self {
            connections,
            connections_for_people: share(self.connections_for_people),
            connections_per_principal: share(self.connections_per_principal),
            unproven_connections_per_address: share(self.unproven_connections_per_address),
            ..self
        }
    }
}

impl Options {
    /// The defaults, for a server that people reach at this address.
    pub fn at(links: Links, key: [u8; 32]) -> Self {
        Self {
            links,
            hosts: Vec::new(),
            origins: Vec::new(),
            key,
            mcp: mcp::Options::sealed_with(key),
            limits: Limits::default(),
            configuration: wire::Configuration::default(),
            sources: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(open_files: usize) -> [usize; 4] {
        let limits = Limits::default().within_open_files(open_files);
        [
            limits.connections,
            limits.connections_for_people,
            limits.connections_per_principal,
            limits.unproven_connections_per_address,
        ]
    }

    #[test]
    fn connections_leave_open_files_to_everything_else_and_keep_their_shares() {
        assert_eq!(bounds(usize::MAX), [4_096, 512, 512, 1_024]);
        assert_eq!(bounds(CONNECTIONS + OTHER_OPEN_FILES), [4_096, 512, 512, 1_024]);
        assert_eq!(bounds(CONNECTIONS + OTHER_OPEN_FILES - 1), [4_095, 511, 511, 1_023]);
        assert_eq!(bounds(1_024), [512, 64, 64, 128]);
        assert_eq!(bounds(64), [32, 4, 4, 8]);
        assert_eq!(bounds(0)[1..], [1, 1, 1]);
    }
}
