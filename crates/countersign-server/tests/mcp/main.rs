//! MCP over real sockets, by hand: what is promised to clients of either era, and what none of them can bend.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod agents;
mod catalog;
mod client;
mod client_requests;
mod companions;
mod deciders;
mod hostile_forms;
mod house;
mod over_rest;
mod prompts;
mod rounds;
mod scripts;
mod sessions;
mod source_reads;
mod sources;
mod stateless;
mod tasks;
mod tools;
mod waiting;
