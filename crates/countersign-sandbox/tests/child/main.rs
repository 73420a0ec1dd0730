//! Scripts in real child processes: that they run, what ends them, and what a host believes.
#![cfg(target_os = "linux")]

#[path = "../corpus/mod.rs"]
#[expect(unreachable_pub, reason = "the table is not only for these tests")]
mod corpus;
mod escapes;
mod hostile;
mod lifetime;
mod scene;
mod scripts;
