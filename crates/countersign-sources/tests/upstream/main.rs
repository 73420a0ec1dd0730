//! Upstream MCP servers: published ones over both transports, and a server that means harm.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that fails here has failed; tests start processes and read the environment"
)]

mod fixture;
mod given_up;
mod hostile;
mod hostile_http;
mod http;
mod lifetime;
mod published;
mod toolbox;
