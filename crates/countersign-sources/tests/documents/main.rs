//! OpenAPI documents and GraphQL schemas as tools: published ones whole, and small ones for each rule.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]
#![expect(clippy::disallowed_methods, reason = "it starts npm and node")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call site reads better without `&`")]

mod answers;
mod bodies;
mod generated;
mod graphql;
mod npm;
mod published;
mod requests;
mod rules;
mod safety;
#[path = "../http/server.rs"]
#[expect(dead_code, reason = "the tests of the client use the rest")]
mod server;
mod small;
mod styles;
