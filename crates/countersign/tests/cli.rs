//! The built program, as somebody at a shell meets it: each test has a data folder of its own.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

#[path = "cli/shell.rs"]
mod shell;
#[cfg(unix)]
#[path = "cli/terminal.rs"]
mod terminal;

#[path = "cli/calls.rs"]
mod calls;
#[path = "cli/crashes.rs"]
mod crashes;
#[path = "cli/deciders.rs"]
mod deciders;
#[path = "cli/decisions.rs"]
mod decisions;
#[path = "cli/finding.rs"]
mod finding;
#[path = "cli/looking.rs"]
mod looking;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[cfg(unix)]
#[path = "cli/prompts.rs"]
mod prompts;
#[path = "cli/scripts.rs"]
mod scripts;
#[path = "cli/serving.rs"]
mod serving;
#[path = "cli/sources.rs"]
mod sources;
#[path = "cli/strangers.rs"]
mod strangers;
#[cfg(unix)]
#[path = "cli/watching.rs"]
mod watching;
