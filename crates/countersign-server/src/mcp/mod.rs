//! MCP at `/mcp`: streamable HTTP for clients of both eras, 2025-06-18 and 2025-11-25 (sessions, server-sent elicitation)
//! and 2026-07-28 (stateless, multi round-trip).

mod announcer;
mod companion;
mod options;

pub use announcer::{Announcement, Announcer};
pub use companion::{Companion, CompanionError};
pub use options::{Options, Surface};
