//! Fronts: how the outside reaches a gateway over HTTP.
//!
//! [`Server`] listens and answers: REST under `/api` (`rest/`), server-sent events, MCP at `/mcp` (`mcp/`), and what an operator
//! watches (`ops/`). `console/` is where a person decides, made of pages over the same REST. `access/` says who may do what, and is asked before any of them. `wire/` holds the JSON that clients
//! see; it lives here and never in the core.
//!
//! What is deliberately absent: any decision about a call, the store, and scripts' VMs. `rest/` knows nothing of `mcp/`, nor
//! back; both speak to `countersign_kernel::Gateway`, and nothing here starts a handler.
//!
//! Three files to read first: `server.rs` (how it is put together), `access/table.rs` (route by role) and
//! `rest/executions.rs`.

pub mod mcp;
pub mod presence;
pub mod wire;

mod access;
mod console;
mod declarations;
mod links;
mod listen;
mod ops;
mod options;
mod refusal;
mod rest;
mod server;
mod session;
mod shared;
mod size;
mod trace;

#[doc(hidden)]
pub use access::routes;
pub use declarations::declarations;
pub use links::{CONSOLE_HOST, Links};
pub use options::{Limits, Options};
pub use rest::openapi;
pub use server::{Server, StartError};
