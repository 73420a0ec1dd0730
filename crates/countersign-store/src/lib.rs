//! The `Store` port on SQLite: one file in the data folder, one writer, many readers.
//!
//! Promises, each with a test: an answered commit survives the loss of the process and of unsynced writes; a failed one
//! was never answered with success; a change happens whole or not at all; a folder has one owner at a time; a damaged
//! file is reported and left as it is.
//!
//! One thread owns the only connection that writes. It commits all waiting changes together, so that many callers share
//! one `fsync`. Reads use connections of their own and never wait for the writer.

mod apply;
mod commits;
mod cursor;
mod executions;
mod fault;
mod files;
mod group;
mod names;
mod open;
mod read;
mod recent;
mod rows;
mod schema;
mod staged;
mod store;
mod writer;

pub use open::{OpenError, SqliteOptions, Synchronous};
pub use store::{SqliteStore, Stats};
