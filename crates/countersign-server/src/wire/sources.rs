//! Sources: their configuration, and what they offer.

use countersign_core::compact::CompactJson;
use countersign_kernel::ports;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ToolEffect;

/// One source, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Its name: the first segment of its tools' paths.
    pub name: String,
    /// `mcp`, `openapi` or `graphql`.
    pub kind: String,
    /// The URL, document or command.
    pub target: String,
    /// Where it is configured.
    pub origin: SourceOrigin,
    /// Whether it could be read.
    pub health: SourceHealth,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How many tools can be called.
    pub callable: usize,
    /// How many new tools wait to be accepted.
    pub new: usize,
    /// How many changed tools wait to be accepted.
    pub changed: usize,
    /// How many accepted tools the source no longer offers.
    pub missing: usize,
    /// How many operations cannot be tools. The detail lists them under `unmapped`.
    #[serde(rename = "unmappedCount")]
    pub unmapped: usize,
    /// Its calls since the gateway started.
    pub calls: CallFigures,
}

/// The calls of a source since the gateway started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallFigures {
    /// How many there were.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How long they took on average, in milliseconds.
    pub mean_ms: u64,
}

/// Where a source is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceOrigin {
    /// In the configuration file; only the operator changes it there.
    File,
    /// An admin added it.
    Added,
}

/// Whether a source could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceHealth {
    /// It is being read.
    Loading,
    /// It was read.
    Ready,
    /// It was read, and calls are refused for a while because it failed repeatedly; `problem` says for how long.
    Paused,
    /// It could not be read, or does not answer.
    Failing,
}

/// One source with its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceDetail {
    /// The source in short.
    #[serde(flatten)]
    pub source: Source,
    /// What it offers, as one digest. Accepting names it, so that nobody accepts what they were not shown.
    pub digest: String,
    /// Its tools, by path; a part of them where `nextCursor` is there.
    pub tools: Vec<SourceTool>,
    /// What to give as `cursor` for its further tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Operations that have no tool, and why.
    pub unmapped: Vec<UnmappedOperation>,
    /// What else is odd about the source.
    pub warnings: Vec<String>,
}

/// A tool of a source, offered or accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceTool {
    /// Its path.
    pub path: String,
    /// What it is at the source.
    pub origin: String,
    /// The base URL of its calls, where a document says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What it does to the world, after the operator's settings.
    pub effect: ToolEffect,
    /// What it does to the world without them: what the protocol says, or the worst where it says nothing.
    pub offered_effect: ToolEffect,
    /// The source's own words.
    pub description: String,
    /// Whether it can be called.
    pub standing: ToolStanding,
    /// What changed since it was accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// `inputSchema`, and `title` and `outputSchema` where it has them; only of a new tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub definition: Option<CompactJson>,
}

/// Whether a tool of a source can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolStanding {
    /// Its definition was accepted: it can be called.
    Accepted,
    /// It was never accepted.
    New,
    /// Its definition differs from the one that was accepted.
    Changed,
    /// It was accepted, and the source no longer offers it.
    Missing,
    /// The operator's settings leave it out.
    Excluded,
}

/// A part of a definition that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Which part: `description`, `inputSchema`, …
    pub field: String,
    /// As it was accepted, as JSON.
    pub accepted: String,
    /// As it is offered, as JSON.
    pub offered: String,
}

/// An operation without a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnmappedOperation {
    /// What it is at the source.
    pub origin: String,
    /// Why it cannot be called.
    pub reason: String,
}

/// What is accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptRequest {
    /// Paths of tools; everything that waits where this is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The `digest` of what was shown. A source that offers something else by now is refused with `not_what_was_shown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What an admin says of a tool's effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EffectRequest {
    /// The tool's path.
    pub tool: String,
    /// What it does to the world. `null` takes back what was said of the tool: its `offeredEffect` counts.
    pub effect: Option<ToolEffect>,
}

/// A source offered something else while its parts were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the source changed while it was read; try again")]
pub struct ChangedMeanwhile;

impl SourceDetail {
    /// Takes up the part that follows.
    pub fn extend(&mut self, part: Self) -> Result<(), ChangedMeanwhile> {
        if part.digest != self.digest {
            return Err(ChangedMeanwhile);
        }
        self.tools.extend(part.tools);
        self.next_cursor = part.next_cursor;
        Ok(())
    }
}

impl From<EffectRequest> for ports::EffectSetting {
    fn from(request: EffectRequest) -> Self {
        Self { path: request.tool, effect: request.effect.map(Into::into) }
    }
}

impl From<AcceptRequest> for ports::Acceptance {
    fn from(request: AcceptRequest) -> Self {
        Self { paths: request.paths, digest: request.digest }
    }
}

impl From<ports::SourceSummary> for Source {
    fn from(summary: ports::SourceSummary) -> Self {
        let ports::CallFigures { calls, errors, mean_ms } = summary.calls;
        Self {
            name: summary.name,
            kind: summary.kind.to_owned(),
            target: summary.target,
            origin: match summary.origin {
                ports::SourceOrigin::File => SourceOrigin::File,
                ports::SourceOrigin::Added => SourceOrigin::Added,
            },
            health: match summary.health {
                ports::SourceHealth::Loading => SourceHealth::Loading,
                ports::SourceHealth::Ready => SourceHealth::Ready,
                ports::SourceHealth::Paused => SourceHealth::Paused,
                ports::SourceHealth::Failing => SourceHealth::Failing,
            },
            problem: summary.problem,
            callable: summary.callable,
            new: summary.new,
            changed: summary.changed,
            missing: summary.missing,
            unmapped: summary.unmapped,
            calls: CallFigures { calls, errors, mean_ms },
        }
    }
}

impl From<ports::SourceDetail> for SourceDetail {
    fn from(detail: ports::SourceDetail) -> Self {
        let unmapped = |ports::UnmappedOperation { origin, reason }| UnmappedOperation { origin, reason };
        Self {
            source: detail.summary.into(),
            digest: detail.digest,
            tools: detail.tools.into_iter().map(Into::into).collect(),
            next_cursor: None,
            unmapped: detail.unmapped.into_iter().map(unmapped).collect(),
            warnings: detail.warnings,
        }
    }
}

impl From<ports::SourceTool> for SourceTool {
    fn from(tool: ports::SourceTool) -> Self {
        let change = |ports::FieldChange { field, accepted, offered }| FieldChange {
            field: field.to_owned(),
            accepted,
            offered,
        };
        Self {
            path: tool.path,
            origin: tool.origin,
            server: tool.server,
            effect: tool.effect.into(),
            offered_effect: tool.offered_effect.into(),
            description: tool.description,
            standing: match tool.standing {
                ports::ToolStanding::Accepted => ToolStanding::Accepted,
                ports::ToolStanding::New => ToolStanding::New,
                ports::ToolStanding::Changed => ToolStanding::Changed,
                ports::ToolStanding::Missing => ToolStanding::Missing,
                ports::ToolStanding::Excluded => ToolStanding::Excluded,
            },
            changes: tool.changes.into_iter().map(change).collect(),
            definition: tool.definition,
        }
    }
}
