//! Events for fronts to stream.
//!
//! An event is sent after its change is durable, and carries the number of the audit record that tells of it, so that
//! a reader that fell behind or came back can go on from the audit.

use countersign_core::elicitation::Decision;
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId};

use crate::catalog_change::SourceChange;

/// An event for fronts.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayEvent {
    /// The last audit record of the change; 0 where nothing is recorded of it.
    pub seq: u64,
    /// The execution it happened to; none where it happened to the catalog.
    pub execution: Option<ExecutionId>,
    /// The kind of event.
    pub kind: GatewayEventKind,
}

/// The kind of event.
#[derive(Debug, Clone, PartialEq)]
pub enum GatewayEventKind {
    /// A person is asked.
    ElicitationPending(ElicitationId),
    /// A question ended.
    ElicitationDecided(ElicitationId, Box<Decision>),
    /// The execution stands elsewhere.
    ExecutionStatus(Status),
    /// The start of a handler was recorded.
    CallStarted(CallNo),
    /// A call has an outcome.
    CallSettled(CallNo),
    /// The tools of a source changed.
    CatalogChanged(Box<SourceChange>),
    /// A source says that one of its lists changed. Nothing is recorded of it: a source may say so as often as it likes.
    SourceListChanged {
        /// The source.
        source: String,
        /// The list that changed.
        list: SourceList,
    },
}

/// A list of a source that is read anew each time, in contrast to its tools, which are pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceList {
    /// Its resources.
    Resources,
    /// Its prompts.
    Prompts,
}
