//! What an upstream tells the gateway without being asked.

use std::sync::Arc;

/// Who is told. Called from the connection's tasks: it must return at once.
pub type Events = Arc<dyn Fn(UpstreamEvent) + Send + Sync>;

/// Something happened at an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamEvent {
    /// A connection was made, by itself or after the last one ended. What the server offers may have changed.
    Connected,
    /// The connection ended; another one is being made.
    Disconnected {
        #[expect(missing_docs, reason = "the name says it")]
        reason: String,
    },
    /// The server ended too often and is not started again until somebody asks for it.
    Off {
        #[expect(missing_docs, reason = "the name says it")]
        reason: String,
    },
    /// The server says that its tools changed.
    ToolsChanged,
    /// The server says that its resources changed.
    ResourcesChanged,
    /// The server says that its prompts changed.
    PromptsChanged,
}
