//! The composition root: configuration, wiring and commands.
//!
//! It is a library so that a `main` of your own can add plugins and keep every command:
//!
//! ```text
//! fn main() -> std::process::ExitCode {
//!     countersign::App::new().plugin(my_plugin()).run()
//! }
//! ```
//!
//! `examples/github.rs` is such a `main`, whole.
//!
//! What is deliberately absent: any decision about a call. Those are made in `countersign-core` and carried out by
//! `countersign-kernel`; this crate reads what the operator wants, opens the data folder and shows people what is there.
//! Read `app.rs` first, then `commands/call.rs`.

mod app;
mod args;
mod bridge;
mod client;
mod commands;
mod config;
mod contact;
mod coverage;
mod data_folder;
mod demo;
mod denials;
mod exit;
mod invocation;
mod key_files;
mod local;
mod logging;
mod names;
mod open_files;
mod progress;
mod reach;
mod report;
mod screen;
mod serving;
mod short_ids;
mod shown;
mod source_secrets;
mod span;
mod table;
mod target;
mod terminal;
mod watch;

pub use app::App;
pub use countersign_sdk as sdk;
