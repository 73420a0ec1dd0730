//! The first five minutes: the built program at a real terminal, as somebody meets it who follows the README and types what it asks
//! for, with a real browser beside it.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "it starts processes, and a browser that measures real time")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

#[path = "../console/browser.rs"]
#[expect(dead_code, reason = "the console's tests need more of it")]
mod browser;
#[path = "../console/desk.rs"]
#[expect(dead_code, reason = "the console's tests need more of it")]
mod desk;
#[path = "../console/installed.rs"]
#[expect(dead_code, reason = "the console's tests need more of it")]
mod installed;
mod keyboard;
mod readme;
mod seen;
mod shell;
#[path = "../cli/terminal.rs"]
#[expect(dead_code, reason = "the command line's tests need more of it")]
mod terminal;
mod walk;
