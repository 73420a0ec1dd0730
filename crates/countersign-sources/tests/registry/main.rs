//! Sources behind a real gateway: what is accepted can be called, gated and journaled; everything else cannot.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that fails here has failed; tests start processes and read the environment"
)]

mod cancelling;
mod changing;
mod effects;
mod graphql;
mod growing;
mod hinted;
mod mcp;
mod openapi;
mod outbound;
mod paused;
mod reach;
mod refresh;
mod shapes;
mod shop;
#[path = "../upstream/toolbox.rs"]
#[expect(dead_code, reason = "the tests of upstream servers use the rest")]
mod toolbox;
mod trust;
