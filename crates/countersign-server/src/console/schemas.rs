//! What tools call secrets, kept out of messages that quote them. A tool's author writes the message, and may not have thought
//! of who reads it.

use std::collections::BTreeMap;

use countersign_core::event::{Event, EventBody};
use serde_json::Value;

use super::api::segment;
use super::arguments::{Secrets, Shown};
use super::frame::{Reader, Trouble};
use crate::wire;

/// The schemas of some tools.
pub(super) struct Schemas(BTreeMap<String, Known>);

/// What a tool takes and gives; nothing where it is no longer in the catalog.
#[derive(Default)]
struct Known {
    input: Value,
    output: Value,
}

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
            let known = found.map(|tool| Known { input: tool.input_schema, output: tool.output_schema });
            all.insert(path.to_owned(), known.unwrap_or_default());
        }
        Ok(Self(all))
    }

    /// The arguments of a call, with their secrets taken out.
    pub(super) fn shown<'a>(&self, tool: &str, args: &'a Value) -> Shown<'a> {
        Shown::of(args, self.0.get(tool).map_or(&Value::Null, |known| &known.input))
    }

    /// What a tool gives, where that is an object with named fields.
    pub(super) fn output_fields(&self, tool: &str) -> Option<&Value> {
        let output = &self.0.get(tool)?.output;
        output["properties"].as_object().filter(|fields| !fields.is_empty())?;
        Some(output)
    }

    /// What is secret in the calls of a journal.
    pub(super) fn secrets_of(&self, journal: &[Event]) -> Secrets {
        let calls = journal.iter().filter_map(|event| match &event.body {
            EventBody::CallIssued(issued) => Some((issued.path.as_str(), issued.args.to_value())),
            EventBody::Asked(question) => Some((question.tool.as_str(), question.args.to_value())),
            _ => None,
        });
        calls.fold(Secrets::default(), |all, (tool, args)| all.and(self.shown(tool, &args).secrets()))
    }

    /// A message about a call, without the secrets of its arguments.
    pub(super) fn clean(&self, tool: &str, args: &Value, message: &str) -> String {
        self.shown(tool, args).secrets().cut_from(message)
    }
}
