//! An agent loop with confirmation in it, for people who build their own agent.
//!
//! An [`Agent`] has a model, tools, hooks and a [`ConfirmationProvider`]. The model speaks and calls tools; what destroys, or
//! says that it wants confirmation, runs only once the provider said yes, with exactly the input that was shown. An agent with
//! such a tool and nobody to ask does not build, unless the program says `.unattended()`.
//!
//! What this crate promises: what needs confirmation and is not confirmed does not run, whatever the reason; every call ends
//! in a result that the model reads; a reader of events that is slow or gone holds nobody up; a durable conversation goes on
//! after a crash and repeats nothing. What is deliberately absent: storage of the gateway, fronts, prompts and memory.
//!
//! Three files to read first: `turn.rs` (the one loop), `calls.rs` (the way of one call, and the one place that starts a
//! tool), `durable/conversation.rs` (what follows from what).
//!
//! ```
//! use countersign_agent::model::{ScriptedModel, ScriptedTurn};
//! use countersign_agent::{Agent, AgentTool, ConfirmationRequest, ProviderError, ToolCtx, Verdict};
//! use countersign_sdk::ToolError;
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct DeleteRecords { table: String }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let delete = AgentTool::new("delete_records")
//!     .describe("Deletes the old records of a table.")
//!     .destructive()
//!     .handler(async |_ctx: ToolCtx, input: DeleteRecords| -> Result<String, ToolError> {
//!         Ok(format!("deleted old records of {}", input.table))
//!     });
//! let model = ScriptedModel::new([
//!     ScriptedTurn::calls("call-1", "delete_records", &json!({ "table": "logs" })),
//!     ScriptedTurn::says("Done."),
//! ]);
//! let agent = Agent::builder()
//!     .model(model)
//!     .tool(delete)
//!     .confirmation(async |request: ConfirmationRequest| -> Result<Verdict, ProviderError> {
//!         println!("{} wants to run with {}", request.tool_name, request.input);
//!         Ok(Verdict::reject("not today"))
//!     })
//!     .build()?;
//! assert_eq!(agent.chat("Delete old records").await?.text, "Done.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

pub mod durable;
pub mod model;
pub mod providers;
pub mod toolset;

mod agent;
mod calls;
mod confirm;
mod error;
mod event;
mod hooks;
mod message;
mod outcome;
mod queue;
mod scope;
mod tool;
mod turn;

pub use agent::{Agent, AgentBuilder, DEFAULT_MAX_ITERATIONS, DEFAULT_PARALLEL_TOOLS, HANDOFF_PREFIX};
pub use confirm::{
    ConfirmationError, ConfirmationProvider, ConfirmationRejected, ConfirmationRequest, ProviderError,
    QuestionId, Unavailable, Verdict,
};
pub use countersign_kernel::{HookError, HookVerdict};
pub use durable::{Doubt, DurableSession, FileJournal};
pub use error::{AgentError, BuildError};
pub use event::AgentEvent;
pub use hooks::{PostToolHook, PreToolHook, Recovery, ToolErrorHook, ToolUse};
pub use message::{CallKey, Message, OpaqueBlock, Prompt, Reply, ToolCall, ToolResult};
pub use outcome::{OutcomeKind, ToolOutcome};
pub use queue::{ChatStream, MAX_WAITING_DELTA_BYTES};
pub use scope::{MAX_ASKS_PER_CALL, ToolCtx, request_confirmation};
pub use tool::{AgentTool, AgentToolBuilder, MAX_NAME_BYTES};
pub use toolset::Toolset;
