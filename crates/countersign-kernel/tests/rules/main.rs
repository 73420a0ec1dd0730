//! The rules that always hold, each from outside: who wins, what is used once, what survives, who may.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

mod authority;
mod cancelling;
mod changes;
mod closing;
mod deciders;
mod doubt;
mod edges;
mod grants;
mod hanging_up;
mod held_handlers;
mod held_store;
mod keys;
mod missing_tools;
mod parking;
mod rejudging;
mod secrets;
mod sources;
mod storage;
mod users;
