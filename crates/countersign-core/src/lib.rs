//! The heart of Countersign, without I/O, clock or randomness: time and ids arrive as data.
//!
//! It contains ids, canonical JSON and the digests approvals are bound to, the execution state machine, grants,
//! policy, audit records and how text is made visible to a person. It deliberately contains no tokio, files, network,
//! clock or randomness; the build for wasm32 guards that.
//!
//! Read [`execution`] first: `apply` is the only way an execution changes, live, on recovery and in tests.

pub mod audit;
pub mod bounds;
pub mod canonical;
pub mod commit;
pub mod compact;
pub mod coverage;
pub mod digest;
pub mod elicitation;
pub mod event;
pub mod execution;
pub mod grant;
pub mod ids;
pub mod policy;
pub mod retention;
pub mod time;
pub mod visible;
