//! Black box: the built program serving over real sockets, stopped and killed under load.
//!
//! What was acknowledged is remembered here; what took effect is in the demo bank's ledger, on disk. Both are held
//! against each other after the last restart.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "it starts and kills processes, and measures real time")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

mod crowded;
mod damaged;
mod flooded;
mod folder;
mod killed;
mod other_user;
mod removed;
mod server;
mod stopped;
mod tokens;
mod trace_log;
mod unix_commands;
mod unix_user;
#[cfg(target_os = "linux")]
mod unprotected;
