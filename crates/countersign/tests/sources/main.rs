//! Sources with the built program: published servers and documents, upstreams that mean harm, and real kills.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "it starts and kills processes, and measures real time")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod cancelled;
#[path = "../../../countersign-sources/tests/registry/changing.rs"]
#[expect(dead_code, reason = "the tests of the registry use the rest")]
mod changing;
mod configured;
mod figures;
mod hostile_text;
mod killed;
mod ledger;
mod logged;
mod many;
#[path = "../../../countersign-sources/tests/documents/npm.rs"]
#[expect(dead_code, reason = "the tests of documents use the rest")]
mod npm;
mod page;
mod published;
#[path = "../black_box/server.rs"]
#[expect(dead_code, reason = "the black box tests use the rest")]
mod server;
mod service;
#[path = "../../../countersign-sources/tests/upstream/toolbox.rs"]
#[expect(dead_code, reason = "the tests of upstream servers use the rest")]
mod toolbox;
