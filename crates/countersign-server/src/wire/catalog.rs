//! Tools, with their schemas.

use countersign_kernel::CatalogTool;
use countersign_sdk::EffectClass;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolDetail {
    /// Its path.
    pub path: String,
    /// What people call it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it does to the world, in one word.
    pub effect: ToolEffect,
    /// What it does to the world.
    pub effects: ToolEffects,
    /// How long an approval counts, where the tool says so: `call` or `session`.
    pub remember: Option<String>,
    /// The provider whose token it needs.
    pub auth_provider: Option<String>,
    /// Whether a service account may call it.
    pub service_account_allowed: bool,
    /// Where it comes from.
    pub source: String,
    /// What it is, as one digest.
    pub fingerprint: String,
    /// What it takes.
    pub input_schema: Value,
    /// What it gives.
    pub output_schema: Value,
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolEffects {
    /// It destroys, sends or overwrites.
    pub destructive: bool,
    /// Doing it twice is the same as once.
    pub idempotent: bool,
    /// It reaches systems that nobody here controls.
    pub open_world: bool,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
}

/// What a tool does to the world, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolEffect {
    /// It only looks.
    Reads,
    /// It changes something.
    Writes,
    /// It destroys, sends or overwrites; a person is asked.
    Destroys,
}

impl From<EffectClass> for ToolEffect {
    fn from(class: EffectClass) -> Self {
        match class {
            EffectClass::Reads => Self::Reads,
            EffectClass::Writes => Self::Writes,
            EffectClass::Destroys => Self::Destroys,
        }
    }
}

impl From<ToolEffect> for EffectClass {
    fn from(effect: ToolEffect) -> Self {
        match effect {
            ToolEffect::Reads => Self::Reads,
            ToolEffect::Writes => Self::Writes,
            ToolEffect::Destroys => Self::Destroys,
        }
    }
}

impl ToolEffect {
    /// The label that people read.
    pub fn label(self) -> &'static str {
        match self {
            Self::Reads => "Reads",
            Self::Writes => "Writes",
            Self::Destroys => "Destroys",
        }
    }
}

impl From<&CatalogTool> for ToolDetail {
    fn from(tool: &CatalogTool) -> Self {
        let definition = tool.tool().definition();
        let effects = tool.effects();
        Self {
            path: tool.path().to_string(),
            name: definition.name.clone(),
            description: definition.description.clone(),
            effect: effects.class().into(),
            effects: ToolEffects {
                destructive: effects.destructive,
                idempotent: effects.idempotent,
                open_world: effects.open_world,
                read_only: effects.read_only,
            },
            remember: definition.remember.map(|r| super::executions::remember_text(r).to_owned()),
            auth_provider: definition.auth_provider.clone(),
            service_account_allowed: definition.service_account_allowed,
            source: tool.source().to_owned(),
            fingerprint: tool.fingerprint().0.to_string(),
            input_schema: tool.input_schema(),
            output_schema: tool.output_schema(),
        }
    }
}
