//! How one upstream MCP server is reached and how far it is trusted.

use std::path::PathBuf;
use std::time::Duration;

use countersign_sdk::SecretString;

use crate::http::{AddressPolicy, Credential};

/// Variables that a server gets by default: without them neither `npx` nor `uvx` finds its programs and its cache. Whoever
/// builds a [`CommandConfig`] reads them; this crate reads no environment.
pub const DEFAULT_VARIABLES: [&str; 2] = ["PATH", "HOME"];

/// One upstream MCP server.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// The source's name; it appears in logs and errors.
    pub name: String,
    /// Where the server is.
    pub endpoint: Endpoint,
    /// Which era of the protocol is spoken.
    pub protocol: Protocol,
    /// Whether what the server says of its tools' effects counts.
    pub annotations: Annotations,
    /// Whether the server may ask people.
    pub elicitation: Elicitation,
    /// Whether the server may use the model of the client that calls.
    pub sampling: Sampling,
    /// Folders and other places that the server may know of.
    pub roots: Roots,
    /// Time and size.
    pub limits: McpLimits,
}

impl UpstreamConfig {
    /// Whether the server may ask a person or a client during a call.
    pub(super) fn may_ask(&self) -> bool {
        self.elicitation == Elicitation::Serve
            || self.sampling == Sampling::Client
            || self.roots == Roots::Client
    }

    /// A server with the defaults: either era, annotations not believed, elicitation served, sampling refused, no roots.
    pub fn new(name: impl Into<String>, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            endpoint,
            protocol: Protocol::default(),
            annotations: Annotations::default(),
            elicitation: Elicitation::default(),
            sampling: Sampling::default(),
            roots: Roots::default(),
            limits: McpLimits::default(),
        }
    }
}

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A child process that speaks over its standard input and output.
    Command(CommandConfig),
    /// A URL that speaks streamable HTTP.
    Http(HttpEndpoint),
}

/// A command to start. It gets exactly the variables named here.
#[derive(Debug, Clone)]
pub struct CommandConfig {
    /// A name that is looked up in the child's `PATH`, or a path.
    pub program: String,
    #[expect(missing_docs, reason = "the name says it")]
    pub arguments: Vec<String>,
    /// The whole environment of the child; see [`DEFAULT_VARIABLES`]. Values of other variables are treated as secrets.
    pub variables: Vec<(String, SecretString)>,
    /// The working folder; without one, ours.
    pub folder: Option<PathBuf>,
}

/// A server behind a URL.
#[derive(Debug, Clone)]
pub struct HttpEndpoint {
    #[expect(missing_docs, reason = "the name says it")]
    pub url: String,
    /// What every request carries.
    pub credentials: Vec<Credential>,
    /// Which addresses it may be at.
    pub addresses: AddressPolicy,
    /// A proxy the operator configured.
    pub proxy: Option<String>,
}

/// Which era of the protocol is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The newer one, if the server speaks it.
    #[default]
    Auto,
    /// Up to 2025-11-25: sessions, questions on the live connection.
    Legacy,
    /// From 2026-07-28: stateless, questions in several round trips.
    Modern,
}

/// Whether a server's annotations decide about the effects of its tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Annotations {
    /// No: every tool counts as destructive.
    #[default]
    Ignore,
    /// Yes: the operator trusts this source.
    Trust,
}

/// Whether a server may ask people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Elicitation {
    /// Yes. On stdio nothing says which call a question belongs to, so a legacy server gets one call at a time.
    #[default]
    Serve,
    /// No: the server is told that nobody can be asked, and calls run concurrently.
    Refuse,
}

/// Whether a server may use a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sampling {
    /// No: it is told that there is none.
    #[default]
    Refuse,
    /// That of the client whose call it serves. On stdio a legacy server then gets one call at a time.
    Client,
}

/// Which roots a server is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// These. Empty: it is told that there are none.
    Listed(Vec<Root>),
    /// Those of the client whose call it serves. On stdio a legacy server then gets one call at a time.
    Client,
}

impl Default for Roots {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// A place that a server may know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URL.
    pub uri: String,
    /// What people call it.
    pub name: Option<String>,
}

/// The bounds on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpLimits {
    /// To start, connect and agree on the protocol.
    pub connect: Duration,
    /// For one request other than a call.
    pub request: Duration,
    /// How long a call may be silent. Progress starts it anew, and a question to a person stops it.
    pub call_silence: Duration,
    /// How long a call may take in all, without the time people take to answer.
    pub call_total: Duration,
    /// How long a call waits for the call before it, where they go one by one. That one may be waiting for a person.
    pub turn: Duration,
    /// The pause before a server is started again; each further one is twice as long, up to a minute.
    pub restart_pause: Duration,
    /// How long a call waits for a server that is being restarted.
    pub restart_wait: Duration,
    /// The largest single message.
    pub message_bytes: usize,
    /// The most entries of one list: tools, resources or prompts.
    pub list_entries: usize,
    /// The most pages of one list.
    pub pages: usize,
    /// The largest list over all of its pages.
    pub list_bytes: usize,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(60),
            request: Duration::from_secs(60),
            call_silence: Duration::from_secs(120),
            call_total: Duration::from_secs(3600),
            turn: Duration::from_secs(60),
            restart_pause: Duration::from_secs(1),
            restart_wait: Duration::from_secs(15),
            message_bytes: 8 << 20,
            list_entries: 5_000,
            pages: 200,
            list_bytes: 32 << 20,
        }
    }
}
