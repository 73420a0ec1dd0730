//! Runs scripts: TypeScript stripping, QuickJS, limits, the child process and its frame protocol.

mod engine;
mod frame;
mod host;
mod limits;
mod message;
mod strip;
mod worker;

pub use host::{ChildHost, ChildOptions, InProcessHost, MOST_CHILDREN, WARM_CHILDREN};
pub use limits::Limits;
pub use worker::{Isolation, Layer, RequiredIsolation, isolate_but, worker_main};
