//! What the agent promises, as tests. `shop.rs` is the one fixture.

mod holes;
mod seed;
mod shop;
