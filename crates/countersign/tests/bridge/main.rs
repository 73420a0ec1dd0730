//! `countersign mcp --connect`, between a client that is this test and a server that does what the test wants: what goes over
//! the wire, and what the client is told when the wire breaks.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "it starts processes, and waits for them in real time")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod asking;
mod breaking;
mod carrying;
mod client;
mod installing;
mod local;
mod server;
mod trusting;
#[path = "../black_box/unix_commands.rs"]
mod unix_commands;
#[path = "../black_box/unix_user.rs"]
mod unix_user;
