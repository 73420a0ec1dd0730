//! Scripts in real child processes: that they run, what ends them, and what a host believes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../corpus/mod.rs"]
mod corpus;
mod crowded;
mod escapes;
mod gate;
mod hostile;
mod lifetime;
mod scene;
mod scripts;
mod unprotected;
