//! The door between the gateway's core and a tool's handler.
//!
//! Rust has no friend crates, so the door is a module behind the feature `kernel`, which only `countersign-core` turns
//! on, and `cargo xtask tidy` refuses any other user. A [`Permit`] is what a handler is started with; for a destructive
//! tool it must carry an [`Authority`], or the handler is not entered.

use crate::Authority;

/// Leave to start one handler once.
#[derive(Debug)]
pub struct Permit {
    pub(crate) authority: Option<Authority>,
}

#[cfg(feature = "kernel")]
impl Permit {
    /// Leave to run a tool that is not destructive.
    pub fn safe() -> Self {
        Self { authority: None }
    }

    /// Leave to run a destructive tool, on a recorded authority.
    pub fn on(authority: Authority) -> Self {
        Self { authority: Some(authority) }
    }
}
