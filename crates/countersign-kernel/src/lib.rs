//! The async shell around the core: it performs what the state machine says is to be done, and records it first.
//!
//! [`Gateway`] is the façade; [`ElicitationEngine`] is the gate alone, for programs that run their tools themselves.
//! It deliberately contains no wire formats, HTTP, files or SQL. Those are behind the [`ports`].
//!
//! Read first: `owner/mod.rs` (the one loop of an execution), `owner/handlers.rs` (the one place that starts a handler)
//! and `owner/decisions.rs` (decisions and the starts they allow).

pub mod ports;

mod accept;
mod allocator;
mod audit;
mod backoff;
mod calling_clients;
mod catalog;
mod catalog_change;
mod decide;
mod engine;
mod error;
mod events;
mod expiry;
mod follow;
mod gateway;
mod grant_expiry;
mod grants;
mod hooks;
mod identities;
mod in_flight;
mod journal;
mod kernel;
mod meter;
mod missing_tools;
mod owner;
mod recovery;
mod redaction;
mod registry;
mod rejudge;
mod result;
mod script;
mod search;
mod sessions;
mod settings;
mod sources;
mod storage_allowance;
mod tokens;
mod users;
mod wait;

pub use allocator::return_freed_memory;
pub use audit::{AuditOrder, AuditPage, AuditQuery, ChainReport};
pub use calling_clients::{CallingClient, ClientRefusal, ClientWaits};
pub use catalog::{Catalog, CatalogTool};
pub use catalog_change::{MAX_TOOLS, SourceChange, SourceError};
pub use countersign_core::event::LogLine;
pub use decide::{Answer, Coverage, CoveredArgs, Decide, Receipt, Target};
pub use engine::{ElicitationEngine, GateError, Passage};
pub use error::{CallError, CancelError, DecideError, GatewayError, RETRY_CALLS_AFTER, SettleError};
pub use events::{GatewayEvent, GatewayEventKind, SourceList};
pub use follow::{Begun, Follow, Following, Told};
pub use gateway::{BuildError, Gateway, GatewayBuilder};
pub use grants::NewGrant;
pub use hooks::{HookCall, HookError, HookVerdict, PostHook, PreHook};
pub use result::{CallSummary, ExecutionResult, Pending};
pub use script::RunRequest;
pub use search::Hit;
pub use sessions::{SessionError, SessionOwner};
pub use settings::{People, Settings};
pub use tokens::{Minted, NewToken, TokenError};
pub use users::{MAX_USERS, UserChange, UserError, UserStatus};

pub use accept::{CallRequest, Caller, Patience};
