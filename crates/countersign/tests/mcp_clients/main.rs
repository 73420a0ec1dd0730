//! Official MCP clients drive the built program, and the official conformance suite judges it.
//!
//! The clients are the TypeScript SDK's, 1.x for the revisions of 2025 and 2.x for 2026-07-28; each runs in a Node process of
//! its own, told in JSON lines what to do (`node/driver.mjs`). They are installed once, into `target/tests/node`.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts and kills processes, and waits for them in real time"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod approvals;
mod as_if_direct;
mod asking;
#[cfg(target_os = "linux")]
mod bridge;
#[path = "../../../countersign-sources/tests/registry/changing.rs"]
#[expect(dead_code, reason = "the tests of the registry use the rest")]
mod changing;
mod client;
mod clients_own;
mod conformance;
mod crashes;
mod differences;
mod list_changes;
mod node;
mod schemas;
mod server;
mod talking;
#[path = "../black_box/unix_user.rs"]
mod unix_user;
mod upstream;
