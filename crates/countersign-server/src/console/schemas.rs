//! What tools call secrets, kept out of messages that quote them. A tool's author writes the message, and may not have thought
//! of who reads it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::api::segment;
use super::arguments::Shown;
use super::frame::{Reader, Trouble};
use crate::wire;

/// The input schemas of some tools.
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Those of these tools, as far as they are still in the catalog.
    pub(super) async fn of(reader: &Reader, tools: impl Iterator<Item = &str>) -> Result<Self, Trouble> {
        let mut all = BTreeMap::new();
        for path in tools {
            if all.contains_key(path) {
                continue;
            }
            let found: Option<wire::ToolDetail> =
                reader.find(&format!("/api/tools/{}", segment(path))).await?;
            all.insert(path.to_owned(), found.map_or(Value::Null, |tool| tool.input_schema));
        }
        Ok(Self(all))
    }

    /// A message about a call, without the secrets of its arguments.
    pub(super) fn clean(&self, tool: &str, args: &Value, message: &str) -> String {
        let schema = self.0.get(tool).unwrap_or(&Value::Null);
        Shown::of(args, schema).without_secrets(message)
    }
}
