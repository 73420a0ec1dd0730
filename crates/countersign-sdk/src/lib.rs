//! The contract for tool authors.
//!
//! Depend on this crate, and on nothing else of Countersign, to write tools. A tool is a path, a description, typed
//! input and output, and an async handler; a [`Plugin`] groups tools with the auth providers they need.
//!
//! Promise: a tool declared destructive gets its input as [`Approved<T>`], a value that exists only
//! where an approval was recorded, so that forgetting to ask is a compile error. What is deliberately absent: any
//! runtime, storage, clock or network. `Ctx` is a handle to the program that runs the tool.
//!
//! ```
//! use countersign_sdk::{Approved, Ctx, Plugin, Tool, ToolError};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct DeleteNote { id: u64 }
//! #[derive(Serialize, JsonSchema)]
//! struct Deleted { deleted: bool }
//!
//! let plugin = Plugin::new("notes", "Notes", "Notes that can be deleted.").tool(
//!     Tool::new("notes.delete")
//!         .name("Delete Note")
//!         .describe("Deletes one note for good.")
//!         .destructive(|i: &DeleteNote| format!("Permanently delete note \"{}\"? This cannot be undone.", i.id))
//!         .handler(async |_ctx: Ctx, input: Approved<DeleteNote>| -> Result<Deleted, ToolError> {
//!             Ok(Deleted { deleted: input.id > 0 })
//!         }),
//! );
//! assert!(plugin.check().is_ok());
//! ```

mod approved;
mod ask;
mod client_request;
mod ctx;
mod effects;
mod error;
mod foreign;
mod form_schema;
mod identity;
mod mcp_request;
mod path;
#[cfg(feature = "kernel")]
pub mod permit;
#[cfg(not(feature = "kernel"))]
mod permit;
mod plugin;
mod schema;
mod tool;

pub use approved::{Approved, Authority};
pub use ask::{
    Approval, AskKind, AskReply, AskRequest, ElicitationResponse, Form, FreeText, Outcome, Question, elicit,
};
pub use client_request::{ClientCapability, ClientRequest};
pub use ctx::{Auth, CallFacts, Ctx, CtxHost, LogLevel, Logger, Progress};
pub use effects::{EffectClass, Effects, Remember, Resumable};
pub use error::{ToolError, ToolErrorCode};
pub use foreign::{
    ForeignInput, ForeignToolBuilder, ForeignToolError, MAX_FOREIGN_SCHEMA_BYTES, MAX_FOREIGN_SCHEMA_DEPTH,
};
pub use form_schema::{FormSchema, FormSchemaError};
pub use identity::{IdError, Principal, PrincipalId, PrincipalKind, Role, SessionId};
pub use mcp_request::McpRequest;
pub use path::{MAX_PATH_BYTES, PathError, ToolPath};
pub use plugin::{AuthKind, AuthProvider, Plugin, PluginError};
pub use schema::{Schema, SchemaError, UnknownProperties, Violation};
pub use secrecy::{ExposeSecret, SecretString};
pub use tool::{Definition, Destructive, Safe, Tool, ToolBuilder};
