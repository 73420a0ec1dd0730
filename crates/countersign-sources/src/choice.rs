//! The operator's settings for a source's tools: which are taken, and what is said of their effects.

use countersign_core::policy::PathPattern;
use countersign_kernel::ports::{SourcesError, ToolSettings};
use countersign_sdk::{EffectClass, Effects, ToolPath};

use crate::offer::OfferedTool;

/// The settings of one source, with their patterns read.
#[derive(Debug, Default)]
pub(crate) struct ToolChoice {
    include: Vec<PathPattern>,
    exclude: Vec<PathPattern>,
    read_only: Vec<PathPattern>,
    writes: Vec<PathPattern>,
    destructive: Vec<PathPattern>,
    idempotent: Vec<PathPattern>,
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
            idempotent: read(&settings.idempotent)?,
        })
    }

    /// Whether a tool is taken.
    pub(crate) fn takes(&self, path: &ToolPath) -> bool {
        (self.include.is_empty() || matches(&self.include, path)) && !matches(&self.exclude, path)
    }

    /// A tool's effects. Where the operator says several things, the worst of them counts.
    ///
    /// That something which may write can be run twice is the operator's word alone: a call whose answer was lost would else be
    /// entered again, or called failed, because its source says so.
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
        let only_reads_by_itself = said.is_none() && tool.effects.class() == EffectClass::Reads;
        let (destructive, read_only) = said.unwrap_or((tool.effects.destructive, tool.effects.read_only));
        let idempotent = matches(&self.idempotent, path) || (only_reads_by_itself && tool.effects.idempotent);
        Effects { destructive, read_only, idempotent, ..tool.effects }
    }
}

fn matches(patterns: &[PathPattern], path: &ToolPath) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The effects of a tool `shop.pay` whose source says that it is idempotent.
    fn idempotent(class: EffectClass, settings: serde_json::Value) -> bool {
        let (destructive, read_only) = match class {
            EffectClass::Reads => (false, true),
            EffectClass::Writes => (false, false),
            EffectClass::Destroys => (true, false),
        };
        let tool = OfferedTool {
            name: "pay".to_owned(),
            title: None,
            description: String::new(),
            input_schema: json!({ "type": "object" }).into(),
            output_schema: None,
            server: None,
            effects: Effects { destructive, read_only, idempotent: true, ..Effects::default() },
            origin: "pay".to_owned(),
        };
        let choice = ToolChoice::of("shop", &serde_json::from_value(settings).unwrap()).unwrap();
        choice.effects(&ToolPath::parse("shop.pay").unwrap(), &tool).idempotent
    }

    #[test]
    fn that_a_write_may_run_twice_is_said_by_the_operator_and_never_by_its_source() {
        for class in [EffectClass::Writes, EffectClass::Destroys] {
            assert!(!idempotent(class, json!({})), "{class}");
            assert!(!idempotent(class, json!({ "idempotent": ["refund"] })), "{class}");
            assert!(idempotent(class, json!({ "idempotent": ["pay"] })), "{class}");
        }
        assert!(idempotent(EffectClass::Reads, json!({})), "a read that is sent again changes nothing");
    }

    #[test]
    fn an_effect_that_the_operator_sets_takes_nothing_over_from_the_sources_hint() {
        for list in ["readOnly", "writes", "destructive"] {
            assert!(!idempotent(EffectClass::Reads, json!({ list: ["pay"] })), "{list}");
            assert!(idempotent(EffectClass::Reads, json!({ list: ["pay"], "idempotent": ["*"] })), "{list}");
        }
    }
}
