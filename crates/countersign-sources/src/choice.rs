//! The operator's settings for a source's tools: which are taken, and what is said of their effects.

use countersign_core::policy::PathPattern;
use countersign_kernel::ports::{SourcesError, ToolSettings};
use countersign_sdk::{Effects, ToolPath};

use crate::offer::OfferedTool;

/// The settings of one source, with their patterns read.
#[derive(Debug, Default)]
pub(crate) struct ToolChoice {
    include: Vec<PathPattern>,
    exclude: Vec<PathPattern>,
    read_only: Vec<PathPattern>,
    writes: Vec<PathPattern>,
    destructive: Vec<PathPattern>,
}

impl ToolChoice {
    /// Reads the patterns, which are below the source's name.
    pub(crate) fn of(source: &str, settings: &ToolSettings) -> Result<Self, SourcesError> {
        let read = |patterns: &[String]| -> Result<Vec<PathPattern>, SourcesError> {
            let read = |pattern: &String| {
                PathPattern::parse(&format!("{source}.{pattern}"))
                    .map_err(|error| SourcesError::BadConfig(format!("tools: {pattern:?}: {error}")))
            };
            patterns.iter().map(read).collect()
        };
        Ok(Self {
            include: read(&settings.include)?,
            exclude: read(&settings.exclude)?,
            read_only: read(&settings.read_only)?,
            writes: read(&settings.writes)?,
            destructive: read(&settings.destructive)?,
        })
    }

    /// Whether a tool is taken.
    pub(crate) fn takes(&self, path: &ToolPath) -> bool {
        (self.include.is_empty() || matches(&self.include, path)) && !matches(&self.exclude, path)
    }

    /// A tool's effects. Where the operator says several things, the worst of them counts.
    pub(crate) fn effects(&self, path: &ToolPath, tool: &OfferedTool) -> Effects {
        let said = if matches(&self.destructive, path) {
            Some((true, false))
        } else if matches(&self.writes, path) {
            Some((false, false))
        } else if matches(&self.read_only, path) {
            Some((false, true))
        } else {
            None
        };
        match said {
            Some((destructive, read_only)) => Effects { destructive, read_only, ..tool.effects },
            None => tool.effects,
        }
    }
}

fn matches(patterns: &[PathPattern], path: &ToolPath) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path))
}
