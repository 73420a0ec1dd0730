//! Tools that live elsewhere: upstream MCP servers, OpenAPI and GraphQL services.
//!
//! Each kind of source reads what it was given (a document, an introspection, a server's tool list) and makes an
//! [`Offer`]: the tools it would bring, and what it cannot bring with the reason. An offer is a value. Nothing in it is
//! callable until an admin accepted it; what was accepted is pinned by fingerprint.
//!
//! Deliberately absent: the gate, the journal and the policy (kernel and core), and every route, page and command
//! (server and binary). A source never lowers its own risk class: what it says of itself counts only where the operator
//! trusts it.

mod bounded;
mod choice;
mod connect;
mod entry;
mod failed_result;
mod fetch;
mod figures;
pub mod graphql;
pub mod http;
pub mod mcp;
mod mcp_output;
mod offer;
pub mod openapi;
mod pin;
mod reach;
mod registry;
mod request;
mod secrets;
mod tending;
mod tools;

pub use connect::SecretReader;
pub use offer::{Offer, OfferedTool, Unmapped};
pub use registry::{MAX_SOURCES, Reading, SourceRegistry};
pub use request::{HttpRequest, MAX_ERROR_BODY_BYTES, RequestError, UpstreamError};
pub use secrets::{MASK, SHORTEST_SECRET_BYTES, Secrets};
