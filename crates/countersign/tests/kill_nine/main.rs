//! Black box: a real process on a real disk, killed with SIGKILL under load, again and again.
//!
//! What was acknowledged is remembered here, outside the process; what took effect is in the ledger file, which the
//! handlers sync line by line. After the last kill everything is brought to rest and held against both.
#![expect(
    clippy::disallowed_methods,
    reason = "it starts and kills processes, and its kills come at real times"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod calls;
mod chats;
mod process;
mod scripts;
