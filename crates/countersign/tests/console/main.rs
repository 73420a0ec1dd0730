//! The console in a real browser: headless Chromium, driven over WebDriver, against a real server.
//!
//! Most promises are kept against a server of this process with tools made for the purpose (`lab.rs`); where a process must die,
//! against the built program. Every test has a browser of its own, and ends with nothing in that browser's console.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "it starts and kills processes, and measures real time")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod afterwards;
mod browser;
mod care;
mod deciding;
mod desk;
mod forms;
mod hostile;
mod house;
mod installed;
mod lab;
mod looks;
mod people;
mod program;
mod restart;
mod sources;
mod speed;
mod stranger;
mod strangers;
