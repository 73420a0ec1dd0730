//! The requests of the Model Context Protocol that a foreign tool can stand for.
//!
//! Promise: only [`ForeignToolBuilder::mcp_request`](crate::ForeignToolBuilder::mcp_request) sets the mark, so it is the
//! source that says what a tool's value is. A value that merely looks like an MCP result is never taken for one.

/// A request to an upstream MCP server. A tool with this mark sends that request, and its value is the request's result as
/// the server sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum McpRequest {
    /// `tools/call`. The value is `{ "content": […], "structuredContent"?: …, "_meta"?: … }`, for scripts and REST too: a
    /// script reads `result.structuredContent.temperature` or `result.content[0].text`.
    CallTool,
    /// `resources/list`, one page.
    ListResources,
    /// `resources/templates/list`, one page.
    ListResourceTemplates,
    /// `resources/read`.
    ReadResource,
    /// `prompts/list`, one page.
    ListPrompts,
    /// `prompts/get`.
    GetPrompt,
}

impl McpRequest {
    /// The method's name in the protocol.
    pub fn method(self) -> &'static str {
        match self {
            Self::CallTool => "tools/call",
            Self::ListResources => "resources/list",
            Self::ListResourceTemplates => "resources/templates/list",
            Self::ReadResource => "resources/read",
            Self::ListPrompts => "prompts/list",
            Self::GetPrompt => "prompts/get",
        }
    }
}
