//! Where scripts run: TypeScript stripping, QuickJS, limits, the child process and its frame protocol.

mod engine;
mod limits;
mod strip;

pub use limits::Limits;
