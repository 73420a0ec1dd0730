//! Upstream MCP servers, as child processes and over streamable HTTP, in both eras of the protocol.
//!
//! [`Upstream`] keeps one server connected, lists its tools as an [`Offer`](crate::Offer) and calls them. Results are
//! handed through as the server sent them, without secrets; its resources and prompts are tools too (`requests.rs`). What a server asks of a person goes to the call's [`Asker`];
//! what it asks of its client's own, too, where the operator lets it (`client_side.rs`).
//! What it says of its tools' effects counts only where the operator trusts it ([`Annotations`]).

mod call;
mod calls;
mod client_side;
mod config;
mod connection;
mod dial;
mod events;
mod given_up;
mod handler;
mod headers;
mod link;
mod listing;
mod mapping;
mod names;
mod process;
mod requests;
mod restart;
mod sse;
mod stdio;
mod streamable;
mod supervisor;
mod upstream;

pub use call::{
    Asker, Call, CallFailure, CallOutcome, NobodyToAsk, OutcomeKind, ProgressUpdate, Question, Reply, Round,
};
pub use config::{
    Annotations, CommandConfig, DEFAULT_VARIABLES, Elicitation, Endpoint, HttpEndpoint, McpLimits, Protocol,
    Root, Roots, Sampling, UpstreamConfig,
};
pub use connection::Era;
pub use events::{Events, UpstreamEvent};
pub use mapping::MAX_TOOL_BYTES;
pub use names::MAX_NAME_BYTES;
pub(crate) use requests::request_of;
pub use restart::{MAX_RESTARTS, RESTART_WINDOW, Restart, RestartBound, RestartPolicy};
pub use upstream::{ConnectError, Difference, MAX_ROUNDS, Upstream};
