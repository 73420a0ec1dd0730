//! Sources with the built program: published servers and documents, upstreams that mean harm, and real kills.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "it starts and kills processes, and measures real time")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod killed;
mod ledger;
#[path = "../black_box/server.rs"]
#[expect(dead_code, reason = "the black box tests use the rest")]
mod server;
