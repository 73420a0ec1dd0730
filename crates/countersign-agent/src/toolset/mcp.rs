//! The tools of an upstream MCP server.
//!
//! What an upstream says about its own tools never lowers their risk: every one of them counts as destructive, unless the
//! program that builds the agent knows better and says so by name. The transport is the program's: it connects with rmcp and
//! hands over the peer.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use countersign_sdk::ToolError;
use futures_util::FutureExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, PaginatedRequestParams};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use crate::outcome::Unsettled;
use crate::tool::{AgentTool, Handler, Home};
use crate::toolset::{Forecast, Toolset, ToolsetError};

/// The most tools one upstream may have.
pub const MAX_UPSTREAM_TOOLS: usize = 1_000;

/// The most pages its list may have: a server that names a next page for ever is not followed for ever.
const MAX_PAGES: usize = 100;

/// All tools of an MCP server.
pub struct McpToolset {
    name: String,
    peer: Peer<RoleClient>,
    known_safe: BTreeSet<String>,
}

impl McpToolset {
    /// The tools of a connected server. The connection must outlive the agent's chats.
    pub fn new(name: impl Into<String>, peer: Peer<RoleClient>) -> Self {
        Self { name: name.into(), peer, known_safe: BTreeSet::new() }
    }

    /// Says of tools, by name, that they only read. The upstream cannot say that itself.
    #[must_use]
    pub fn known_safe<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.known_safe.extend(names.into_iter().map(Into::into));
        self
    }

    fn tool(&self, upstream: &rmcp::model::Tool) -> AgentTool {
        let name = upstream.name.to_string();
        let mut tool =
            AgentTool::new(name.clone()).describe(upstream.description.as_deref().unwrap_or_default());
        if !self.known_safe.contains(&name) {
            tool = tool.destructive();
        }
        let schema = Arc::new(Value::Object((*upstream.input_schema).clone()));
        let peer = self.peer.clone();
        let handler: Arc<Handler> = Arc::new(move |_ctx, input| {
            let (peer, name) = (peer.clone(), name.clone());
            async move { call(&peer, name, input).await }.boxed()
        });
        AgentTool::foreign(tool, schema, Home::Here, handler)
    }
}

#[async_trait]
impl Toolset for McpToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn forecast(&self) -> Forecast {
        Forecast::MayNeedConfirmation
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page =
                self.peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
            tools.extend(page.tools.iter().map(|tool| self.tool(tool)));
            if tools.len() > MAX_UPSTREAM_TOOLS {
                return Err(format!("it has more than {MAX_UPSTREAM_TOOLS} tools").into());
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(format!("its tools do not end after {MAX_PAGES} pages").into())
    }
}

async fn call(peer: &Peer<RoleClient>, name: String, input: Value) -> Result<Value, ToolError> {
    let mut request = CallToolRequestParams::new(name);
    request.arguments = match input {
        Value::Object(arguments) => Some(arguments),
        _ => None,
    };
    let result = match peer.call_tool(request).await {
        Ok(result) => result,
        Err(ServiceError::McpError(said)) => return Err(ToolError::new(said.message.to_string())),
        Err(error) => {
            tracing::warn!(%error, "an MCP server did not answer a call");
            let message = "The MCP server did not answer; the call may have taken effect.";
            return Err(ToolError::new(message).caused_by(Unsettled::NoAnswer));
        }
    };
    let is_error = result.is_error == Some(true);
    let said = said(result);
    if is_error { Err(ToolError::new(text_of(&said))) } else { Ok(said) }
}

/// What the model is told: the structured content, or else the text.
fn said(result: CallToolResult) -> Value {
    if let Some(structured) = result.structured_content {
        return structured;
    }
    let texts: Vec<String> = result
        .content
        .into_iter()
        .map(|block| match block {
            ContentBlock::Text(text) => text.text,
            other => serde_json::to_string(&other).unwrap_or_default(),
        })
        .collect();
    Value::String(texts.join("\n"))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
