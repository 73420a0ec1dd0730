//! Sources: tools that live elsewhere, as fronts and commands manage them.
//!
//! Promise of every implementation: nothing that a source offers is callable before a person accepted its definition, or the
//! operator's configuration says that this source's changes are trusted. An accepted tool that changed or is gone is
//! not callable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use countersign_core::compact::CompactJson;
use countersign_sdk::EffectClass;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RefreshInterval;
use crate::accept::Caller;

/// The port that manages sources.
#[async_trait]
pub trait Sources: Send + Sync + 'static {
    /// All sources, by name.
    async fn list(&self) -> Vec<SourceSummary>;

    /// One source with its tools.
    async fn show(&self, name: &str) -> Result<SourceDetail, SourcesError>;

    /// A preview of a source's tools. Nothing is kept.
    async fn preview(&self, config: SourceConfig) -> Result<SourceDetail, SourcesError>;

    /// Adds a source, or gives one another configuration, and reads what it offers. Its new tools wait to be accepted.
    async fn put(&self, by: &Caller, config: SourceConfig) -> Result<SourceDetail, SourcesError>;

    /// Reads anew what a source offers.
    async fn refresh(&self, name: &str) -> Result<SourceDetail, SourcesError>;

    /// Accepts definitions as they are offered now: those that changed, those that are new, and that others are gone.
    async fn accept(&self, by: &Caller, name: &str, what: Acceptance) -> Result<SourceDetail, SourcesError>;

    /// Sets or clears the operator's word on a tool's effects. Questions and approvals about the tool are void.
    async fn set_effect(
        &self,
        by: &Caller,
        name: &str,
        what: EffectSetting,
    ) -> Result<SourceDetail, SourcesError>;

    /// Removes a source and its tools.
    async fn remove(&self, by: &Caller, name: &str) -> Result<(), SourcesError>;
}

/// How a source is reached and what is taken of it. It names credentials and never holds one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceConfig {
    /// Its name: one segment of a path, the first of its tools' paths.
    pub name: String,
    /// Its kind and address.
    #[serde(flatten)]
    pub kind: SourceKind,
    /// The headers of its requests. A child process gets them as variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialConfig>,
    /// Whether its address may be loopback or private. Never link-local or a metadata service.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_private: bool,
    /// Host names that may lead to private addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Networks that its address may be in although they are not global: `10.1.0.0/16`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_networks: Vec<String>,
    /// The proxy through which it is reached. None is taken from the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The provider whose connections its calls use. There are no connections yet: its calls fail with `auth_not_available`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How often it is looked whether it offers something else.
    #[serde(default)]
    pub refresh: RefreshInterval,
    /// Whether new and changed tools are taken without being shown to anybody.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trust_changes: bool,
    /// Which of its tools are taken, and what the operator says of their effects.
    #[serde(default)]
    pub tools: ToolSettings,
}

/// Every field that a configuration can have; not each kind of source has all of them.
const CONFIG_FIELDS: [&str; 25] = [
    "name",
    "kind",
    "url",
    "command",
    "folder",
    "protocol",
    "trustAnnotations",
    "questions",
    "sampling",
    "roots",
    "clientRoots",
    "document",
    "server",
    "variables",
    "hosts",
    "schema",
    "credentials",
    "allowPrivate",
    "allowHosts",
    "allowNetworks",
    "proxy",
    "provider",
    "refresh",
    "trustChanges",
    "tools",
];

impl SourceConfig {
    /// Reads a configuration from JSON. A field that nobody knows is an error: it may be a misspelt restriction.
    pub fn read(value: &Value) -> Result<Self, SourcesError> {
        let unknown = value
            .as_object()
            .into_iter()
            .flatten()
            .find(|(field, _)| !CONFIG_FIELDS.contains(&field.as_str()));
        if let Some((field, _)) = unknown {
            return Err(SourcesError::BadConfig(format!("a source has no field {field:?}")));
        }
        Self::deserialize(value).map_err(|error| SourcesError::BadConfig(error.to_string()))
    }
}

/// The kind and address of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum SourceKind {
    /// An MCP server.
    Mcp {
        /// Where it listens, for one behind a URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The program and its arguments, for one that is started.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        command: Vec<String>,
        /// The folder it is started in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<PathBuf>,
        /// `auto`, `legacy` or `modern`.
        #[serde(default)]
        protocol: McpProtocol,
        /// Whether what it says of its tools' effects counts.
        #[serde(default, skip_serializing_if = "is_false")]
        trust_annotations: bool,
        /// Whether it may ask people during a call.
        #[serde(default)]
        questions: McpQuestions,
        /// Whether it may use a model during a call.
        #[serde(default)]
        sampling: McpSampling,
        /// Folders that a started program is told of as its roots.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        roots: Vec<PathBuf>,
        /// Whether it is told of the roots of the client that calls, in place of `roots`. They may decide what it touches.
        #[serde(default, skip_serializing_if = "is_false")]
        client_roots: bool,
    },
    /// A service that an OpenAPI document describes.
    OpenApi {
        /// A file or a URL.
        document: String,
        /// The base URL, where it is not the document's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// Values of the variables in its URL.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        variables: BTreeMap<String, String>,
        /// Further hosts that some of its operations name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<String>,
    },
    /// A GraphQL endpoint.
    GraphQl {
        /// Where it listens.
        url: String,
        /// A file with its schema, where it answers no introspection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<String>,
    },
}

/// Which era of MCP is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpProtocol {
    /// The newer one, if the server speaks it.
    #[default]
    Auto,
    /// Up to 2025-11-25.
    Legacy,
    /// From 2026-07-28.
    Modern,
}

/// Whether an MCP server may ask people during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpQuestions {
    /// Yes. A started program of the older era then gets one call at a time, because its questions do not say whose they are.
    #[default]
    Ask,
    /// No: it is told that nobody can be asked, and calls run side by side.
    Refuse,
}

/// Whether an MCP server may use a model during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpSampling {
    /// No: it is told that there is none.
    #[default]
    Refuse,
    /// The model of the client that made the call, where that client has one and waits.
    Client,
}

/// A credential by the place it is read from, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialConfig {
    /// The part of the request that carries it.
    #[serde(flatten)]
    pub goes: CredentialPlace,
    /// The place that it is read from.
    #[serde(flatten)]
    pub from: SecretPlace,
}

/// The part of a request that carries a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CredentialPlace {
    /// `Authorization: Bearer …`.
    Bearer,
    /// `Authorization: Basic …` with this user.
    Basic {
        /// The user's name at the source.
        user: String,
    },
    /// A header of this name.
    Header { name: String },
    /// A query parameter of this name.
    Query { name: String },
    /// A variable of a child process.
    Variable { name: String },
}

/// Where a secret is read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretPlace {
    /// A variable of the gateway's environment.
    Env(String),
    /// A file that only its owner can read.
    File(PathBuf),
}

/// Which tools are taken, and what the operator says of their effects. Patterns are those of rules, below the source's name:
/// `issues.*`, `**`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ToolSettings {
    /// Only these; all where there are none.
    pub include: Vec<String>,
    /// Tools that are left out.
    pub exclude: Vec<String>,
    /// Tools that only read.
    pub read_only: Vec<String>,
    /// Tools that write and do not destroy.
    pub writes: Vec<String>,
    /// These destroy, whatever else is said of them.
    pub destructive: Vec<String>,
    /// Running these twice with the same arguments is the same as running them once: a call whose answer was lost fails instead
    /// of being in doubt, and one that was interrupted runs again. Never taken from a source's own word.
    pub idempotent: Vec<String>,
    /// Names of the operator's choice, by what the tool is at the source.
    pub names: BTreeMap<String, String>,
}

/// A summary of a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceSummary {
    /// Its name.
    pub name: String,
    /// `mcp`, `openapi` or `graphql`.
    pub kind: &'static str,
    /// The URL, document or command.
    pub target: String,
    /// The origin of the source's entry.
    pub origin: SourceOrigin,
    /// Its health.
    pub health: SourceHealth,
    /// Why it is not ready, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How many tools can be called.
    pub callable: usize,
    /// How many new ones wait to be accepted.
    pub new: usize,
    /// How many changed and wait to be accepted.
    pub changed: usize,
    /// How many were accepted and are gone.
    pub missing: usize,
    /// How many operations cannot be tools.
    pub unmapped: usize,
    /// Its calls since the gateway started.
    pub calls: CallFigures,
}

/// The calls of a source since the gateway started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallFigures {
    /// The number of calls.
    pub calls: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// How long they took on average, in milliseconds.
    pub mean_ms: u64,
}

/// The origin of a source's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceOrigin {
    /// The configuration file.
    File,
    /// A person, with a command, the console or a client.
    Added,
}

/// The health of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceHealth {
    /// It is being read.
    Loading,
    /// It was read.
    Ready,
    /// It was read, and calls are refused for a while because it failed repeatedly.
    Paused,
    /// It could not be read, or does not answer.
    Failing,
}

/// One source with its tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceDetail {
    /// The source in short.
    #[serde(flatten)]
    pub summary: SourceSummary,
    /// The digest of its tools: accepting names it, so that operators accept only what they were shown.
    pub digest: String,
    /// Every tool, by name.
    pub tools: Vec<SourceTool>,
    /// Operations that have no tool, and why.
    pub unmapped: Vec<UnmappedOperation>,
    /// Further warnings.
    pub warnings: Vec<String>,
}

/// A tool of a source, offered or accepted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceTool {
    /// Its path.
    pub path: String,
    /// Its name at the source.
    pub origin: String,
    /// The base URL of its calls, where a document says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Its effects on the world, after the operator's settings.
    pub effect: EffectClass,
    /// Its effects on the world without them.
    pub offered_effect: EffectClass,
    /// The source's own words.
    pub description: String,
    /// Whether it can be called.
    pub standing: ToolStanding,
    /// The changes since it was accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// Title and schemas of a new tool: agents read them too, so a person must be able to read them first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<CompactJson>,
}

/// Whether a tool of a source can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStanding {
    /// Its definition was accepted: it can be called.
    Accepted,
    /// It was never accepted.
    New,
    /// Its definition is another than the one that was accepted.
    Changed,
    /// It was accepted, and the source no longer offers it.
    Missing,
    /// The operator's settings leave it out.
    Excluded,
}

/// A part of a definition that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// The changed part: `description`, `inputSchema`, …
    pub field: &'static str,
    /// As it was accepted, as JSON.
    pub accepted: String,
    /// As it is offered, as JSON.
    pub offered: String,
}

/// An operation without a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmappedOperation {
    /// Its name at the source.
    pub origin: String,
    /// Why it cannot be called.
    pub reason: String,
}

/// The tools that are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acceptance {
    /// Paths; everything that waits where none is named.
    pub paths: Vec<String>,
    /// The [`SourceDetail::digest`] that was shown. Another digest by now is refused.
    pub digest: Option<String>,
}

/// The operator's word on one tool's effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectSetting {
    /// The tool's path.
    pub path: String,
    /// Its effects on the world; those of the source's protocol where this is left out.
    pub effect: Option<EffectClass>,
}

/// Why a source was not changed, read or found.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// No source of this name.
    #[error("there is no source {0:?}")]
    NotFound(String),
    /// The configuration cannot be used.
    #[error("{0}")]
    BadConfig(String),
    /// It is in the configuration file, which only the operator changes.
    #[error("{0:?} is in the configuration file; change it there")]
    InFile(String),
    /// It could not be read.
    #[error("{0}")]
    Unreachable(String),
    /// It offers something else than what was shown.
    #[error("the source offers something else by now; look at it again")]
    NotWhatWasShown,
    /// It has no such tool that waits to be accepted.
    #[error("{0:?} does not wait to be accepted")]
    NothingToAccept(String),
    /// Its tools cannot be in the catalog.
    #[error("{0}")]
    Catalog(String),
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] crate::error::GatewayError),
}

impl SourcesError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "source_not_found",
            Self::BadConfig(_) => "invalid_source",
            Self::InFile(_) => "source_in_file",
            Self::Unreachable(_) => "source_unreachable",
            Self::NotWhatWasShown => "not_what_was_shown",
            Self::NothingToAccept(_) => "nothing_to_accept",
            Self::Catalog(_) => "source_conflict",
            Self::Gateway(error) => error.code(),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
