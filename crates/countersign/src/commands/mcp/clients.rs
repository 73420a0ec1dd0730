//! The clients that `mcp install` knows: where each keeps its configuration, and what it wants to read there.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

/// The name under which clients know this server.
pub(super) const NAME: &str = "countersign";

/// A program that starts MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum McpClient {
    ClaudeCode,
    Cursor,
    Vscode,
    Codex,
}

/// How to start the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) program: String,
    pub(super) words: Vec<String>,
}

/// Who reads a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everybody who has the repository: it is committed, so that nothing of this machine or this person may stand in it.
    Project,
    /// This user alone.
    User,
}

/// What a client's file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// JSON, with the servers under this key.
    Json { servers: &'static str },
    /// TOML, with the servers in this table.
    Toml { servers: &'static str },
}

impl McpClient {
    /// What people call it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
        }
    }

    /// The name of its token, and what it says of itself to the bridge.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
        }
    }

    /// Its configuration, for this project or for this user.
    pub(super) fn file(self, project: &Path, home: &Path) -> PathBuf {
        match self {
            Self::ClaudeCode => project.join(".mcp.json"),
            Self::Cursor => home.join(".cursor").join("mcp.json"),
            Self::Vscode => project.join(".vscode").join("mcp.json"),
            Self::Codex => home.join(".codex").join("config.toml"),
        }
    }

    /// Who reads that file.
    pub(super) fn scope(self) -> Scope {
        match self {
            Self::ClaudeCode | Self::Vscode => Scope::Project,
            Self::Cursor | Self::Codex => Scope::User,
        }
    }

    /// What that file holds.
    pub(super) fn shape(self) -> Shape {
        match self {
            Self::ClaudeCode | Self::Cursor => Shape::Json { servers: "mcpServers" },
            Self::Vscode => Shape::Json { servers: "servers" },
            Self::Codex => Shape::Toml { servers: "mcp_servers" },
        }
    }

    /// The entry that starts the bridge.
    pub(super) fn entry(self, launch: &Launch) -> Value {
        let mut entry = json!({ "command": launch.program, "args": launch.words });
        if matches!(self, Self::ClaudeCode | Self::Vscode) {
            entry["type"] = json!("stdio");
        }
        entry
    }
}
