//! Toolsets: groups of tools that an agent is given, here or known only elsewhere.
//!
//! Promise: a toolset that cannot say what is in it is an error of the chat, never an empty toolset; and one whose tools are
//! known only later says beforehand whether somebody must be there to confirm them.

mod gateway;
mod mcp;

use std::sync::Arc;

use async_trait::async_trait;

pub use gateway::GatewayToolset;
pub use mcp::{MAX_UPSTREAM_TOOLS, McpToolset};

use crate::tool::AgentTool;

/// Why a toolset cannot say what is in it.
pub type ToolsetError = Box<dyn std::error::Error + Send + Sync>;

/// What can be known of a toolset when an agent is built.
#[derive(Debug, Clone)]
pub enum Forecast {
    /// These are the tools.
    Tools(Vec<AgentTool>),
    /// The tools are known later; some of them may need confirmation.
    MayNeedConfirmation,
    /// The tools are known later; none of them needs the agent's confirmation.
    NeedsNoConfirmation,
}

/// A group of tools.
#[async_trait]
pub trait Toolset: Send + Sync + 'static {
    /// What it is called in errors.
    fn name(&self) -> &str;

    /// What can be known of it when an agent is built.
    fn forecast(&self) -> Forecast;

    /// The tools, asked for before each turn of the model.
    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError>;

    /// The same toolset with every tool confirmed before it runs. The originals stay as they are.
    fn with_confirmation(self) -> Confirmed<Self>
    where
        Self: Sized,
    {
        Confirmed { inner: self }
    }

    /// The same toolset with only the tools that the predicate keeps.
    fn filtered<P>(self, keep: P) -> Filtered<Self, P>
    where
        Self: Sized,
        P: Fn(&AgentTool) -> bool + Send + Sync + 'static,
    {
        Filtered { inner: self, keep }
    }
}

#[async_trait]
impl<T: Toolset + ?Sized> Toolset for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn forecast(&self) -> Forecast {
        (**self).forecast()
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        (**self).tools().await
    }
}

/// Tools that are known from the start.
pub struct StaticToolset {
    name: String,
    tools: Vec<AgentTool>,
}

impl StaticToolset {
    /// A group of tools.
    pub fn new(name: impl Into<String>, tools: impl IntoIterator<Item = AgentTool>) -> Self {
        Self { name: name.into(), tools: tools.into_iter().collect() }
    }
}

#[async_trait]
impl Toolset for StaticToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn forecast(&self) -> Forecast {
        Forecast::Tools(self.tools.clone())
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        Ok(self.tools.clone())
    }
}

/// A toolset whose tools are all confirmed: see [`Toolset::with_confirmation`].
pub struct Confirmed<T> {
    inner: T,
}

#[async_trait]
impl<T: Toolset> Toolset for Confirmed<T> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn forecast(&self) -> Forecast {
        match self.inner.forecast() {
            Forecast::Tools(tools) => Forecast::Tools(confirmed(&tools)),
            Forecast::MayNeedConfirmation | Forecast::NeedsNoConfirmation => Forecast::MayNeedConfirmation,
        }
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        Ok(confirmed(&self.inner.tools().await?))
    }
}

fn confirmed(tools: &[AgentTool]) -> Vec<AgentTool> {
    tools.iter().map(AgentTool::with_confirmation).collect()
}

/// A toolset with some of its tools: see [`Toolset::filtered`].
pub struct Filtered<T, P> {
    inner: T,
    keep: P,
}

#[async_trait]
impl<T, P> Toolset for Filtered<T, P>
where
    T: Toolset,
    P: Fn(&AgentTool) -> bool + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn forecast(&self) -> Forecast {
        match self.inner.forecast() {
            Forecast::Tools(mut tools) => {
                tools.retain(&self.keep);
                Forecast::Tools(tools)
            }
            later => later,
        }
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        let mut tools = self.inner.tools().await?;
        tools.retain(&self.keep);
        Ok(tools)
    }
}

/// Several toolsets as one.
pub struct CompositeToolset {
    name: String,
    parts: Vec<Arc<dyn Toolset>>,
}

impl CompositeToolset {
    /// Several toolsets under one name.
    pub fn new(name: impl Into<String>, parts: impl IntoIterator<Item = Arc<dyn Toolset>>) -> Self {
        Self { name: name.into(), parts: parts.into_iter().collect() }
    }
}

#[async_trait]
impl Toolset for CompositeToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn forecast(&self) -> Forecast {
        let mut known = Vec::new();
        let mut later = None;
        for part in &self.parts {
            match part.forecast() {
                Forecast::Tools(tools) => known.extend(tools),
                Forecast::MayNeedConfirmation => return Forecast::MayNeedConfirmation,
                Forecast::NeedsNoConfirmation => later = Some(Forecast::NeedsNoConfirmation),
            }
        }
        match later {
            None => Forecast::Tools(known),
            Some(_) if known.iter().any(AgentTool::requires_confirmation) => Forecast::MayNeedConfirmation,
            Some(later) => later,
        }
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        let mut all = Vec::new();
        for part in &self.parts {
            let tools = part.tools().await.map_err(|cause| format!("{}: {cause}", part.name()))?;
            all.extend(tools);
        }
        Ok(all)
    }
}
