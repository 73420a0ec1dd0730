//! What the agent promises, as tests. `shop.rs` is the fixture; `disk.rs` and `server.rs` are its journal and its network.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes, read their environment and measure time"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod anthropic;
mod building;
mod changed;
mod channel;
mod crashes;
mod disk;
mod doubt;
mod example;
mod gateway;
mod handoffs;
mod holes;
mod hooks;
mod killed;
mod openai;
mod providers;
mod seed;
mod server;
mod shop;
mod stored;
mod streaming;
mod toolsets;
mod upstream;
mod wire;
