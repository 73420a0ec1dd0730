//! Scripts as executions: the kernel, its store and a real engine together, held to what is promised of scripts.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

mod bounds;
mod calls;
mod crashes;
mod doubt;
mod edges;
mod fixture;
mod lifecycle;
mod pausing;
mod replay;
