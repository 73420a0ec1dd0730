//! MCP at `/mcp`: streamable HTTP for clients of both eras, 2025-06-18 and 2025-11-25 (sessions, server-sent elicitation)
//! and 2026-07-28 (stateless, multi round-trip).
//!
//! Promise: every tool call is an execution of the gateway and goes the whole way of a call. A person is asked through the
//! client where it can ask, and everywhere else at the same time; the first decision wins. What a client loses (a
//! connection, a session, an answer that never came) loses nothing else: the execution waits, and `resume` finds it. A
//! disconnect is never a yes. In the 2026-07-28 era closing the stream is the only way to cancel a request over HTTP, and
//! cannot be told from a lost connection, so it cancels nothing; `notifications/cancelled` of the 2025 era, `tasks/cancel`, and
//! what the bridge passes on from a client on standard input do (`cancelling.rs`).
//!
//! Read `handler.rs` first (what is asked for), then `attend.rs` (how a call is waited for), `prompts.rs` and `rounds.rs` (how
//! a person is asked in either era), and `person.rs` (whose decision that is).

mod announcer;
mod answer;
mod attend;
mod builtin;
mod cancelling;
mod client_requests;
mod companion;
mod conversation;
mod current_shelf;
mod door;
mod handler;
mod options;
mod pattern;
mod person;
mod prompts;
mod question;
mod requests;
mod resources_and_prompts;
mod rounds;
mod schemas;
mod seal;
mod sessions;
mod shelf;
mod source_lists;
mod source_names;
mod source_reads;
mod stateless;
mod tasks;
mod upstream;
mod words;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing;
use countersign_kernel::Gateway;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::links::Links;
use crate::options::Limits;

pub use announcer::{Announcement, Announcer};
pub use cancelling::CALL_HEADER;
pub use companion::{Companion, CompanionError};
pub use options::{ClientElicitation, Options, Surface};

use door::{BodyLimits, Door};
use handler::{Front, Handler};
use sessions::Sessions;

/// How long last answers may take once the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Why MCP cannot be served as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// The companion breaks its rule.
    #[error("{0}")]
    Companion(#[from] CompanionError),
    /// Two tools would have one name.
    #[error(
        "{one} and {other} are both called \"{name}\" over MCP; give one of them another name with Tool::mcp_name"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// One of them.
        one: String,
        /// The other.
        other: String,
    },
}

/// Serves MCP at `/mcp`. Requests carry a `Caller` in their extensions, put there by whoever authenticated them, and have
/// passed the server's Host and Origin checks; rmcp's own would only know loopback, and are off. Of the limits, those of a
/// body count here: how large it may be, and how long it may take to come. When `stop` is cancelled, whoever waits is told
/// how the call stands, and a moment later streams end.
pub fn service(
    gateway: Gateway,
    links: Links,
    options: Options,
    limits: &Limits,
    stop: CancellationToken,
) -> Result<Router, MountError> {
    let front = Arc::new(Front::new(gateway, links, options, stop.clone())?);
    // rmcp cuts what is being answered; that must come after the answers.
    let cut = CancellationToken::new();
    tokio::spawn({
        let cut = cut.clone();
        async move {
            stop.cancelled().await;
            tokio::time::sleep(LAST_ANSWERS).await;
            cut.cancel();
        }
    });
    tokio::spawn(current_shelf::announce_changes(Arc::clone(&front)));
    let sessions = Sessions::new();
    let named_calls = Arc::clone(&front.named_calls);
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        // A client of the 2026-07-28 era gets plain JSON where nothing comes before the answer; the 2025 era has streams.
        .with_json_response(true)
        .with_max_request_body_bytes(limits.body_bytes)
        .with_cancellation_token(cut);
    let rmcp = StreamableHttpService::new(
        {
            let front = Arc::clone(&front);
            move || Ok(Handler::new(Arc::clone(&front)))
        },
        Arc::clone(&sessions),
        config,
    );
    let body = BodyLimits { bytes: limits.body_bytes, sending: limits.sending };
    let door = Arc::new(Door { front, rmcp, sessions, named_calls, limits: body });
    let methods = routing::post(door::enter).get(door::enter).delete(door::enter);
    Ok(Router::new().route("/mcp", methods).with_state(door))
}
